"""Many clients at once, on four reactors: one winner, exact counts, and nothing after the answer.

The short form runs in every ops/test; WRIT_LONG=1 runs the full counts.
"""

import collections
import concurrent.futures
import datetime
import os
import random
import threading
import time

import harness
import pytest

AGENT = "/v1/agent/authorize"
CLIENTS = 64 if harness.LONG else 24
SEED = int(os.environ.get("WRIT_SEED", time.time_ns() % 1_000_000_000))

POLICY = """
rules:
  - {id: reads, agents: ["*"], actions: ["get_*"], decision: allow}
  - {id: refunds, actions: [refund], decision: human_review, reason: A person decides.}
  - {id: counted, agents: ["*"], actions: [counted], decision: allow, limit: {per: actor, window: 1h, count: 30}}
  - {id: brief, agents: ["*"], actions: [brief], decision: allow, limit: {per: actor, window: 2s, count: 30}}
  - {id: summed, agents: ["*"], actions: [pay], decision: allow, limit: {per: actor, window: 1h, sum: args.amount, max: 5000}}
"""


@pytest.fixture
def racing(fresh):
    """A stack on four reactors with a reviewer and the policy above."""
    print(f"seed {SEED}")
    stack = fresh(engine=["--reactors", "4"])
    stack.start()
    stack.reviewers = [stack.key(f"reviewer-{n}", ["reviewer"], owner=f"person-{n}", reviewers=["*"], wait=False) for n in range(4)]
    stack.policy("base", POLICY)
    yield stack
    crossed = stack.metrics(stack.engine)["writ_engine_calls_crossed_total"]
    assert crossed > 0, "no message crossed between two reactors"
    stack.engine.stop()
    stack.platform.stop()


def at_once(count, work):
    """Runs work(n, wire-less) for n in range(count) on CLIENTS threads; gives the results in order."""
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(work, range(count)))


def wires(stack, key):
    """A connection of each thread's own, so that requests come from all reactors."""
    own = threading.local()

    def wire():
        if not hasattr(own, "wire"):
            own.wire = stack.at_engine(key)
            own.wire.open()
        return own.wire
    return wire


def test_one_winner_and_one_redemption_for_each_review(racing):
    stack, reviews_total = racing, 10_000 if harness.LONG else 200
    agent = wires(stack, "agent")
    reviewers = [wires(stack, key) for key in stack.reviewers]

    def ask(n):
        reply = agent().post(AGENT, {"action": "refund", "actor": f"bot-{n % 200}", "args": {"n": n}, "trace_id": f"race-{n}"})
        assert reply.json["decision"] == "human_review", reply
        return reply.json["review_id"]

    told = collections.defaultdict(list)
    lock = threading.Lock()
    batch = 2000
    for first in range(0, reviews_total, batch):
        numbers = range(first, min(first + batch, reviews_total))
        reviews = dict(zip(numbers, at_once(len(numbers), lambda i: ask(first + i))))
        jobs = [(n, job) for n in numbers for job in ("approve", "approve", "deny", "redeem", "redeem", "redeem")]
        random.Random(SEED + first).shuffle(jobs)

        def act(i):
            n, job = jobs[i]
            if job == "redeem":
                reply = agent().post(f"/v1/queue/{reviews[n]}/redeem", {"action": "refund", "actor": f"bot-{n % 200}", "args": {"n": n}})
                assert reply.status == 200, reply
                outcome = reply.json["decision"] + " " + reply.json["rule"]
            else:
                reply = reviewers[i % 4]().post(f"/v1/queue/{reviews[n]}/{job}")
                assert reply.status in (200, 409), reply
                outcome = str(reply.status)
            with lock:
                told[n].append((job, outcome, i % 4))
        at_once(len(jobs), act)

    for n, outcomes in told.items():
        won = {(job, who) for job, outcome, who in outcomes if job != "redeem" and outcome == "200"}
        assert len({job for job, _ in won}) == 1, f"review {n}: {outcomes}"
        assert len({who for _, who in won}) == 1, f"review {n} has two winners: {outcomes}"
        allowed = [outcome for job, outcome, _ in outcomes if job == "redeem" and outcome.startswith("allow")]
        assert len(allowed) <= 1, f"review {n} was redeemed twice: {outcomes}"
        if ("deny" in {job for job, _ in won}):
            assert not allowed, f"review {n} was denied and redeemed: {outcomes}"
    stack.wait_published()
    kinds = collections.Counter(event["kind"] for event in stack.events() if event.get("review_id"))
    approved = sum(1 for outcomes in told.values() if any(job == "approve" and o == "200" for job, o, _ in outcomes))
    redeemed = sum(1 for outcomes in told.values() if any(job == "redeem" and o.startswith("allow") for job, o, _ in outcomes))
    assert kinds["review.enqueued"] == reviews_total
    assert kinds["review.approved"] == approved and kinds["review.denied"] == reviews_total - approved
    assert kinds["review.redeemed"] == redeemed
    print(f"{reviews_total} reviews: {approved} approved, {reviews_total - approved} denied, {redeemed} redeemed")


def mint(stack, **body):
    with stack.at_engine("agent") as wire:
        reply = wire.post("/v1/tokens/mint", {"scope": "get_*", "actor": "bot", **body})
    assert reply.status == 201, reply
    return reply.json


def test_a_counted_token_is_spent_exactly_as_often_as_it_may(racing):
    stack = racing
    for _ in range(1000 if harness.LONG else 8):
        token = mint(stack, max_uses=100, ttl_seconds=600)["token"]
        wire = wires(stack, token)
        answers = at_once(132, lambda n: wire().post(AGENT, {"action": "get_x"}).json)
        rules = collections.Counter(answer["rule"] for answer in answers)
        assert rules["allow:reads"] == 100 and rules["token:uses"] == 32, rules


def test_a_crash_in_the_middle_gives_back_nothing(racing):
    stack = racing
    for _ in range(20 if harness.LONG else 2):
        minted = mint(stack, max_uses=100, ttl_seconds=600)
        answered, lock = [], threading.Lock()

        def use(n):
            try:
                with stack.at_engine(minted["token"]) as wire:
                    answer = wire.post(AGENT, {"action": "get_x"}).json
                with lock:
                    answered.append(answer["rule"])
            except Exception:  # the engine is dead: that request was not answered
                pass
        killer = threading.Timer(0.05, stack.engine.kill)
        killer.start()
        at_once(90, use)
        killer.join()
        stack.engine.start()
        told = answered.count("allow:reads")
        with stack.at_engine("agent") as wire:
            left = wire.post("/v1/tokens/introspect", {"token": minted["token"]}).json["uses_left"]
        spent = 100 - left
        assert told <= spent <= 100
        wire = wires(stack, minted["token"])
        more = at_once(left + 20, lambda n: wire().post(AGENT, {"action": "get_x"}).json["rule"])
        assert more.count("allow:reads") == left and more.count("token:uses") == 20
        stack.wait_published()
        stored = [event for event in stack.events(decision="allow") if event.get("token_id") == minted["token_id"]]
        assert told + left <= len(stored) <= 100


BURST = 3  # requests of a connection under way when the switch is thrown


class Fire:
    """Many connections, kept open, that all ask with one token: before, while and after it is stopped."""

    def __init__(self, stack, connections=64):
        self.stack, self.connections = stack, connections
        self.wires = []

    def open(self):
        for wire in self.wires:
            wire.close()
        self.wires = [self.stack.at_engine("agent").open() for _ in range(self.connections)]

    def stop(self, token, throw):
        """Counts answers by status: of requests under way while `throw` is answered, of those sent after it was."""
        during, after = collections.Counter(), collections.Counter()
        for wire in self.wires:
            wire.key = token
        request = self.wires[0].encode("POST", AGENT, {"action": "get_x"})
        for wire in self.wires:
            wire.send(request * BURST)
        throw()
        for wire in self.wires:
            wire.send(request)
        for wire in self.wires:
            during.update(wire.read_reply().status for _ in range(BURST))
            after[wire.read_reply().status] += 1
        return during, after


def test_nothing_is_accepted_after_a_revocation_was_answered(racing):
    stack, fire, during = racing, Fire(racing), collections.Counter()
    rounds, crash_each = (10_000, 100) if harness.LONG else (120, 30)
    revokers = []

    def open_all():
        """A token lives on the reactor where it was minted. New connections go round the reactors, so each of these stays
        for four rounds: one that changed with every round could keep step with them, and be there each time."""
        fire.open()
        for wire in revokers:
            wire.close()
        revokers[:] = [stack.at_engine("agent").open() for _ in range(4)]
    open_all()
    for n in range(rounds):
        minted, revoker = mint(stack, ttl_seconds=600), revokers[n // 4 % 4]
        path = f"/v1/tokens/{minted['token_id']}"
        replies = []
        met, after = fire.stop(minted["token"], lambda: replies.append(revoker.delete(path)))
        during += met
        assert replies[0].status == 200, replies
        assert after == {401: fire.connections}, f"round {n}: accepted after the revocation was answered: {after}"
        assert revoker.delete(path).json["revoked_at"] == replies[0].json["revoked_at"]
        if n % crash_each == 0:
            stack.engine.kill()
            stack.engine.start()
            with stack.at_engine(minted["token"]) as wire:
                assert wire.post(AGENT, {"action": "get_x"}).status == 401, "a revoked token is alive after a crash"
            open_all()
    print(f"{rounds} revocations under {fire.connections} connections: {during[200]} answered 200 and {during[401]} 401 while "
          f"each was under way, 0 of {rounds * fire.connections} accepted after it was answered")
    assert during[200] > 0 and set(during) <= {200, 401}, during


def test_nothing_is_accepted_after_a_suspension_was_answered(racing):
    stack, fire = racing, Fire(racing)
    rounds = 1000 if harness.LONG else 40
    fire.open()
    admin = stack.at_engine("admin").open()
    for n in range(rounds):
        token = mint(stack, actor=f"rogue-{n}", ttl_seconds=600)["token"]
        replies = []
        _, after = fire.stop(token, lambda: replies.append(admin.post(f"/v1/actors/rogue-{n}/suspend")))
        assert replies[0].status == 200, replies
        assert after == {401: fire.connections}, f"round {n}: accepted after the suspension was answered: {after}"


def test_nothing_is_allowed_after_a_suspension_was_answered(racing):
    stack = racing
    for round_number in range(200 if harness.LONG else 10):
        actor = f"rogue-{round_number}"
        token = mint(stack, actor=actor, ttl_seconds=600)["token"]
        with stack.at_engine("agent") as wire, stack.at_engine(token) as own:
            assert own.post(AGENT, {"action": "get_x"}).json["decision"] == "allow"
            with stack.at_engine("admin") as admin:
                assert admin.post(f"/v1/actors/{actor}/suspend").status == 200
            assert wire.post(AGENT, {"action": "get_x", "actor": actor}).json["rule"] == "actor:suspended"
            assert own.post(AGENT, {"action": "get_x"}).status == 401
            with stack.at_engine("admin") as admin:
                assert admin.post(f"/v1/actors/{actor}/resume").status == 200
            assert wire.post(AGENT, {"action": "get_x", "actor": actor}).json["decision"] == "allow"
            assert own.post(AGENT, {"action": "get_x"}).status == 401, "tokens from before stay dead"


def test_a_limit_is_never_exceeded_and_survives_a_restart(racing):
    stack = racing
    wire = wires(stack, "agent")
    answers = at_once(100, lambda n: wire().post(AGENT, {"action": "counted", "actor": "one"}).json)
    rules = collections.Counter(answer["rule"] for answer in answers)
    assert rules["allow:counted"] == 30 and rules["limit:counted"] == 70, rules
    amounts = at_once(120, lambda n: wire().post(AGENT, {"action": "pay", "actor": "one", "args": {"amount": 100}}).json["rule"])
    assert amounts.count("allow:summed") == 50 and amounts.count("limit:summed") == 70
    for restart in (stack.engine.kill, stack.engine.stop):
        restart()
        stack.engine.start()
        with stack.at_engine("agent") as again:
            assert again.post(AGENT, {"action": "counted", "actor": "one"}).json["rule"] == "limit:counted"
            assert again.post(AGENT, {"action": "counted", "actor": "another"}).json["rule"] == "allow:counted"
            assert again.post(AGENT, {"action": "pay", "actor": "one", "args": {"amount": 1}}).json["rule"] == "limit:summed"
            for amount in (-1, "5", None):
                assert again.post(AGENT, {"action": "pay", "actor": "two", "args": {"amount": amount}}).json["rule"] == "limit:summed"


def test_a_window_slides(racing):
    stack = racing
    wire = wires(stack, "agent")
    started = time.monotonic()
    allowed = []
    while time.monotonic() - started < (20 if harness.LONG else 6) or len(allowed) <= 60:
        assert time.monotonic() - started < harness.PATIENCE, "the window never slid"
        answers = at_once(CLIENTS, lambda n: (wire().post(AGENT, {"action": "brief", "actor": "s"}).json))
        allowed += [(answer["timestamp"], answer["latency_ms"]) for answer in answers if answer["decision"] == "allow"]
    # Counted by its owner at some moment between the two: where all of that lies within a window, it is one.
    times = sorted((begun := datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp(), begun + 0.001 + latency / 1000)
                   for text, latency in allowed)
    for first, (begun, _) in enumerate(times):
        within = sum(1 for _, ended in times[first:] if ended - begun < 2.0)
        assert within <= 30, f"{within} in two seconds"


@pytest.fixture
def redeeming(racing):
    """Asks with a middling confidence, has it approved, and redeems it on eight connections at once."""
    racing.policy("limited", """
confidence: {allow_at: 0.9, review_at: 0.1}
rules:
  - {id: free, agents: ["*"], actions: [free], decision: allow}
  - {id: once, agents: ["*"], actions: [once], decision: allow, limit: {per: acting_for, window: 1h, count: 1}}
  - {id: asks, agents: ["*"], actions: [asks], decision: allow, limit: {per: acting_for, window: 1h, count: 1, over: human_review}}
""")
    wires_of_all = [racing.at_engine("agent").open() for _ in range(8)]
    reviewer = racing.at_engine(racing.reviewers[0]).open()
    with concurrent.futures.ThreadPoolExecutor(len(wires_of_all)) as pool:
        def redeem(action, n, headers=None, member=lambda i: {}):
            body = {"action": action, "actor": f"bot-{n}", "acting_for": f"buyer-{n}", "confidence": 0.5}
            review = wires_of_all[0].post(AGENT, body).json["review_id"]
            assert reviewer.post(f"/v1/queue/{review}/approve").status == 200
            ready = threading.Barrier(len(wires_of_all))

            def one(i):
                ready.wait()
                return wires_of_all[i].post(f"/v1/queue/{review}/redeem", {**body, **member(i)}, headers=headers)
            return list(pool.map(one, range(len(wires_of_all))))
        yield redeem


def test_a_redemption_that_is_retried_before_it_is_answered_is_one_whatever_its_limits(redeeming):
    for n in range(1000 if harness.LONG else 40):
        for action in ("once", "asks"):
            replies = [reply.json for reply in redeeming(action, n, {"Idempotency-Key": "one"})]
            assert {(reply["decision"], reply["rule"]) for reply in replies} == {("allow", f"allow:{action}")}, replies
            assert len({reply["redemption_id"] for reply in replies}) == 1
            assert sum("replayed" not in reply for reply in replies) == 1


def test_of_redemptions_at_once_all_but_one_find_the_approval_used(racing, redeeming):
    for n in range(1000 if harness.LONG else 40):
        for action in ("once", "asks"):
            rules = collections.Counter(reply.json["rule"] for reply in redeeming(action, n))
            assert rules == {f"allow:{action}": 1, "review:redeemed": 7}, rules
    with racing.at_engine(racing.reviewers[0]) as wire:
        assert wire.get("/v1/queue/pending").json["total"] == 0, "a person was asked for nothing"


def test_of_retries_at_once_with_other_bodies_all_but_one_are_refused(redeeming):
    for n in range(1000 if harness.LONG else 40):
        for action in ("free", "once"):
            replies = redeeming(action, n, {"Idempotency-Key": "one"}, lambda i: {"confidence": 0.5 + i / 100})
            told = collections.Counter((reply.status, reply.json.get("code")) for reply in replies)
            assert told == {(200, None): 1, (422, "idempotency_mismatch"): 7}, told


def test_what_one_limit_refuses_does_not_use_up_the_room_of_another(racing):
    """A bot beyond its own limit goes on asking; the last place of the limit that all share is for the others."""
    stop, asked = threading.Event(), collections.Counter()

    def spam(actor):
        with racing.at_engine("agent") as wire:
            while not stop.is_set():
                asked[wire.post(AGENT, {"action": "shared", "actor": actor}).json["rule"]] += 1

    for n in range(100 if harness.LONG else 12):
        racing.policy("shared", f"""
rules:
  - {{id: all-{n}, agents: ["*"], actions: [shared], decision: allow, limit: {{per: tenant, window: 1h, count: 10}}}}
  - {{id: spam, agents: ["spam-*"], actions: [shared], decision: allow, limit: {{per: actor, window: 1h, count: 1}}}}
""")
        with racing.at_engine("agent") as wire:
            for actor in [f"spam-{n}", *(f"bot-{i}" for i in range(8))]:
                assert wire.post(AGENT, {"action": "shared", "actor": actor}).json["rule"] == f"allow:all-{n}"
            spammers = [threading.Thread(target=spam, args=(f"spam-{n}",)) for _ in range(6)]
            for one in spammers:
                one.start()
            before = asked["limit:spam"]
            harness.eventually(lambda: asked["limit:spam"] >= before + 60, "they are under way")
            last = wire.post(AGENT, {"action": "shared", "actor": "bot-8"}).json
            stop.set()
            for one in spammers:
                one.join()
            stop.clear()
            assert last["rule"] == f"allow:all-{n}", f"round {n}: {last}, {asked}"


def test_who_goes_on_from_a_cursor_misses_nothing_that_comes_meanwhile(racing):
    """As `writ queue watch` does: a page that was full is not looked at again."""
    total, asked, seen, cursor = 8000 if harness.LONG else 3000, set(), set(), 0
    agent = wires(racing, "agent")

    def ask(n):
        asked.add(agent().post(AGENT, {"action": "refund", "actor": f"bot-{n % 100}", "args": {"n": n}}).json["review_id"])

    done = threading.Event()
    def ask_all():
        with concurrent.futures.ThreadPoolExecutor(6) as pool:  # no more, or the reader falls behind
            list(pool.map(ask, range(total)))
        done.set()

    asking = threading.Thread(target=ask_all)
    asking.start()
    with racing.at_engine(racing.reviewers[0]) as reviewer:
        is_last = False
        while not is_last:
            is_last = done.is_set()
            while True:
                page = reviewer.get(f"/v1/queue/pending?limit=20&cursor={cursor}").json
                seen |= {item["id"] for item in page["items"]}
                if page["next_cursor"] == 0:
                    break
                cursor = page["next_cursor"]
    asking.join()
    assert len(asked) == total and not asked - seen, f"{len(asked - seen)} of {len(asked)} were never on a page"
