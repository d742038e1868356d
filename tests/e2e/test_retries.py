"""`Idempotency-Key` on the routes that decide: a call is counted once, however often it is sent.

The short form runs in every ops/test; WRIT_LONG=1 runs the full counts.
"""

import concurrent.futures
import itertools
import random
import time

import harness
import pytest
from wire import Closed

AGENT, TOOL, USER = "/v1/agent/authorize", "/api/v1/authorize", "/v1/authorize"
AT_ONCE = 64
ROUNDS = 200 if harness.LONG else 4
POLICY = """
rules:
  - {id: reads, agents: ["*"], users: ["*"], actions: ["get_*"], decision: allow}
  - {id: ten, agents: ["*"], users: ["*"], actions: [pay], decision: allow, limit: {per: resource, window: 1h, count: 10}}
  - {id: two, agents: ["*"], actions: [twice], decision: allow, limit: {per: resource, window: 1h, count: 2}}
  - {id: refunds, actions: [refund], decision: human_review, reason: A person decides.}
  - id: sandbox
    agents: ["*"]
    actions: [write]
    decision: compute
    compute: {tool: write_file, args: {path: /sandbox/out}}
    limit: {per: resource, window: 1h, count: 2}
  - {id: safe-write, agents: ["*"], actions: [write_file], decision: allow}
"""
names = itertools.count()


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    with harness.Stack(tmp_path_factory.mktemp("retries"), engine=["--reactors", "4"]) as stack:
        stack.policy("base", POLICY)
        yield stack
        stack.engine.stop()
        stack.platform.stop()


def body(action, resource=None, **more):
    return {"action": action, "actor": "bot", "resource": {"type": "account", "id": resource or f"r-{next(names)}"}, **more}


def ask(wire, asked, key=None, path=AGENT, status=200):
    reply = wire.post(path, asked, headers={"Idempotency-Key": key} if key else {})
    assert reply.status == status, reply
    return reply.json


def left(stack, asked):
    """How many more of these are let through."""
    with stack.at_engine() as wire:
        for n in itertools.count():
            if ask(wire, asked)["decision"] != "allow":
                return n


def test_a_thousand_equal_calls_with_one_key_count_once(own):
    pay = body("pay")
    with own.at_engine() as wire:
        first = ask(wire, pay, "thousand")
        assert first["decision"] == "allow" and "replayed" not in first
        for _ in range(1000 if harness.LONG else 200):
            again = ask(wire, pay, "thousand")
            assert again["decision"] == "allow" and again["replayed"] is True, again
            assert again["request_id"] != first["request_id"]  # it was decided again, and is recorded
        for n in range(9):
            assert ask(wire, pay, f"other-{n}")["decision"] == "allow"
        assert ask(wire, pay, "eleventh")["rule"] == "limit:ten"
        assert ask(wire, pay, "thousand")["replayed"] is True  # its own count is there


def test_each_form_and_outcome_is_replayed(own):
    with own.at_engine() as wire:
        tool = {"tool": "twice", "actor": "bot", "resource": "account:tool"}
        assert "replayed" not in ask(wire, tool, "tool", TOOL) and ask(wire, tool, "tool", TOOL)["replayed"] is True
        user = {"action": "pay", "user_id": "erin", "resource": "account:user"}
        assert "replayed" not in ask(wire, user, "user", USER) and ask(wire, user, "user", USER)["replayed"] is True

        write = body("write")
        first, again = ask(wire, write, "write"), ask(wire, write, "write")
        assert again["replayed"] is True and (first["decision"], first["safe_args"]) == (again["decision"], again["safe_args"])

        refund = body("refund")
        first, again = ask(wire, refund, "refund"), ask(wire, refund, "refund")
        assert again["replayed"] is True and again["decision"] == "human_review" and again["review_id"] == first["review_id"]

        read = body("get_x")  # counts nothing, so it is decided again
        assert "replayed" not in ask(wire, read, "read") and "replayed" not in ask(wire, read, "read")
    retried = {event["idempotency_key"] for event in own.events() if "idempotency_key" in event} if own.wait_published() is None else {}
    assert {"tool", "user", "write", "refund", "read"} <= retried


def test_one_key_is_of_one_body_and_one_asker(own):
    other = own.key("others", ["agent"], actors=["*"])
    pay = body("pay")
    with own.at_engine() as wire, own.at_engine(other) as stranger:
        ask(wire, pay, "mine")
        refused = ask(wire, {**pay, "action": "twice"}, "mine", status=422)
        assert refused["code"] == "idempotency_mismatch", refused
        assert "replayed" not in ask(stranger, pay, "mine")
        for wrong in ("x" * 256, "ä"):
            assert ask(wire, pay, wrong, status=400)["code"] == "bad_header"
    assert left(own, pay) == 8


def test_a_retry_gets_the_stricter_of_both_outcomes(fresh):
    stack = fresh().start()
    stack.policy("base", POLICY)
    first = {}
    calls = {name: body(name) for name in ("twice", "refund", "write")}
    with stack.at_engine() as wire:
        for name, asked in calls.items():
            first[name] = ask(wire, asked, name)
        stack.policy("base", 'rules: [{id: all, agents: ["*"], actions: ["*"], decision: allow}]')
        for name, decision in (("twice", "allow"), ("refund", "human_review"), ("write", "compute")):
            again = ask(wire, calls[name], name)
            assert again["decision"] == decision and again["replayed"] is True, again
            assert again.get("review_id") == first[name].get("review_id") and again.get("safe_args") == first[name].get("safe_args")
            assert ask(wire, calls[name])["decision"] == "allow"
        stack.policy("base", 'rules: [{id: none, actions: ["*"], decision: deny}]')
        for name, asked in calls.items():
            again = ask(wire, asked, name)
            assert again["decision"] == "deny" and again["rule"] == "deny:none" and again["replayed"] is True, again
        stack.policy("base", POLICY)
        assert ask(wire, calls["twice"], "twice")["decision"] == "allow"
        with stack.at_engine("admin") as admin:
            assert admin.post("/v1/actors/bot/suspend", {"reason": "test"}).status == 200
        for name, asked in calls.items():
            assert ask(wire, asked, name)["rule"] == "actor:suspended"


def test_a_retry_spends_no_use_of_a_token(own):
    with own.at_engine() as wire:
        minted = wire.post("/v1/tokens/mint", {"actor": "bot", "scope": "get_*", "ttl_seconds": 600, "max_uses": 2})
        assert minted.status == 201, minted
    with own.at_engine(minted.json["token"]) as wire:
        read = {"action": "get_x"}
        assert "replayed" not in ask(wire, read, "one")
        for _ in range(3):
            assert ask(wire, read, "one")["replayed"] is True
        assert ask(wire, read, "two")["decision"] == "allow"
        assert ask(wire, read, "three")["rule"] == "token:uses"
        assert ask(wire, read, "two")["decision"] == "allow"


def at_once(stack, asked, key, started=lambda: None):
    """The answers to equal requests that are sent side by side; None where the engine went away."""
    def one(_):
        try:
            with stack.at_engine() as wire:
                started()
                return ask(wire, asked, key)
        except (Closed, OSError):
            return None
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, range(AT_ONCE)))


def test_parallel_retries_are_one_count_and_one_review(own):
    for n in range(ROUNDS):
        twice, refund = body("twice"), body("refund", actor=f"bot-{n}")  # an actor may have 100 pending reviews
        answers = at_once(own, twice, f"parallel-{n}")
        assert {answer["decision"] for answer in answers} == {"allow"}
        assert sum("replayed" not in answer for answer in answers) == 1
        assert left(own, twice) == 1
        answers = at_once(own, refund, f"review-{n}")
        assert len({answer["review_id"] for answer in answers}) == 1 and sum("replayed" not in answer for answer in answers) == 1


def test_what_was_answered_is_known_after_a_crash(fresh):
    """kill -9 at any moment: each call is counted once, and an answered one is not counted again."""
    stack, dice = fresh(engine=["--reactors", "4"]).start(), random.Random(4)
    reviewer = stack.key("reviewers", ["reviewer"], reviewers=["*"], wait=False)
    stack.policy("base", POLICY)
    seen = 0
    for n in range(ROUNDS):
        twice, refund = body("twice"), body("refund", actor=f"bot-{n}")  # an actor may have 100 pending reviews
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            asked = [pool.submit(at_once, stack, one, f"{one['action']}-{n}") for one in (twice, refund)]
            time.sleep(dice.random() / 8)
            stack.engine.kill()
            counted, queued = ([answer for answer in one.result() if answer] for one in asked)
        stack.engine.start()
        harness.eventually(lambda: stack.metrics(stack.engine)["writ_engine_bundle_revision"] > 0, "the engine has its policies")
        with stack.at_engine() as wire:
            again = ask(wire, twice, f"twice-{n}")
            assert again["decision"] == "allow" and (again.get("replayed") or not counted), (again, counted)
            review = ask(wire, refund, f"refund-{n}")
            assert (review.get("replayed") or not queued) and {answer["review_id"] for answer in queued} <= {review["review_id"]}
        with stack.at_engine(reviewer) as wire:
            page = wire.get("/v1/queue/pending?limit=500").json
            assert page["total"] == len({item["id"] for item in page["items"]}) == n + 1, page
        assert left(stack, twice) == 1
        seen += len(counted) + len(queued)
    print(f"{ROUNDS} crashes, {seen} answers before them")


def test_a_dry_run_says_what_is_left_and_counts_nothing(own):
    pay, account = body("pay"), "r-left"
    with own.at_engine() as wire, own.at_engine("auditor") as auditor:
        for n in range(3):
            ask(wire, pay)
            for _ in range(2):
                dry = auditor.post(f"{AGENT}?dry_run=true", pay).json
                assert dry["limits"] == [{"policy": "base", "rule": "ten", "per": "resource", "left": 9 - n}], dry
        own.policy("sums", 'rules: [{id: sum, agents: ["*"], actions: [give], decision: allow, limit: {per: actor, window: 1h, sum: args.n, max: 100}}]')
        ask(wire, body("give", account, args={"n": 12.5}))
        told = auditor.post(f"{TOOL}?explain=true", {"tool": "give", "actor": "bot", "args": {"n": 1}}).json
        assert told["limits"] == [{"policy": "sums", "rule": "sum", "per": "actor", "leftSum": 87.5}], told
        assert "limits" not in auditor.post(f"{AGENT}?dry_run=true", body("get_x")).json and "limits" not in ask(wire, pay)
    shown = own.cli("authorize", "--dry-run", "--actor", "bot", "--action", "pay", "--resource", "account:other", "--engine", own.engine.url, key=own.keys["auditor"], check=False)
    assert "ten of base: 10 requests" in shown.stdout, shown
