"""A shadow document's limits count in counters of their own: `would_have` shows what they would do, and no decision changes."""

import concurrent.futures

import pytest

ASK, TOOL = "/v1/agent/authorize", "/api/v1/authorize"
OPEN = "rules:\n  - {id: pay, agents: ['*'], actions: [pay, ask, give], decision: allow%s}\n"
NOTHING = "rules: [{id: nothing, actions: [nothing], decision: deny}]"
SHADOW = """mode: shadow
rules:
  - {id: few, agents: ["*"], actions: [pay], decision: allow, limit: {window: 1h, count: 3}}
  - {id: sum, agents: ["*"], actions: [pay], decision: allow, limit: {window: 1h, sum: args.n, max: 100, over: human_review}}
"""
DENIED = {"decision": "deny", "rule": "limit:few", "policy_name": "next"}
ASKED = {"decision": "human_review", "rule": "limit:sum", "policy_name": "next"}


@pytest.fixture
def stack(fresh):
    made = fresh(engine=["--reactors", "4"]).start()
    made.policy("base", OPEN % "")
    made.policy("next", SHADOW)
    return made


def pay(stack, actor="bot", n=1, path=ASK, key="agent", action="pay", decision="allow", **headers):
    with stack.at_engine(key) as wire:
        reply = wire.post(path, {"tool" if "/api/" in path else "action": action, "actor": actor, "args": {"n": n}},
                          headers={name.replace("_", "-"): value for name, value in headers.items()})
    assert reply.status == 200 and reply.json["decision"] == decision, reply
    return reply.json.get("would_have")


def test_a_shadow_limit_is_told_and_changes_no_decision(stack):
    assert [pay(stack) for _ in range(5)] == [None, None, None, DENIED, DENIED]
    assert pay(stack, "other") is None, "each actor has a count"
    assert [pay(stack, "third", n) for n in (60, 50, 40, 1)] == [None, ASKED, None, ASKED], "what would be asked is not counted"
    assert pay(stack, "fourth", 101) == ASKED, "over by itself"
    stack.wait_published()
    told = [event.get("would_have") for event in stack.events(actor="bot") if event["kind"] == "decision"]
    assert told == [DENIED, DENIED, None, None, None]


def test_shadow_counts_and_live_counts_are_never_mixed(stack):
    stack.policy("base", OPEN % ", limit: {window: 1h, count: 5}")
    assert [pay(stack) for _ in range(5)] == [None, None, None, DENIED, DENIED]
    assert pay(stack, decision="deny") is None, "denied either way"
    stack.policy("next", SHADOW.replace("mode: shadow", "mode: enforce"))
    assert [pay(stack, "new", decision=d) for d in ("allow", "allow", "allow", "deny")] == [None] * 4
    stack.policy("base", OPEN % "")
    assert [pay(stack, decision=d) for d in ("allow", "allow", "allow", "deny")] == [None] * 4, "the count in force begins with 0"
    stack.policy("next", SHADOW)
    assert pay(stack) == DENIED, "the shadow count is still there"
    stack.policy("next", SHADOW.replace("count: 3", "count: 4"))
    assert [pay(stack), pay(stack)] == [None, DENIED], "and goes on when its limit changes"


def test_what_the_live_limit_stops_is_not_counted(stack):
    stack.policy("base", OPEN % ", limit: {window: 1h, sum: args.n, max: 3}")
    assert [pay(stack, n=n, decision=d) for n, d in ((2, "allow"), (2, "deny"), (9, "deny"), (1, "allow"))] == [None] * 4
    assert pay(stack, n=0) is None and pay(stack, n=0) == DENIED


def test_what_only_shadow_documents_would_permit_is_counted(stack):
    stack.policy("base", NOTHING)
    permitted = {"decision": "allow", "rule": "allow:few", "policy_name": "next"}
    assert [pay(stack, decision="deny") for _ in range(4)] == [permitted] * 3 + [None], "the limit denies, as it is denied now"
    assert [pay(stack, "other", n, decision="deny") for n in (90, 20, 5)] == [permitted, ASKED, permitted]


def test_a_dry_run_looks_and_a_retry_counts_nothing(stack):
    stack.policy("base", OPEN % ", limit: {window: 1h, count: 50}")
    for _ in range(3):
        assert pay(stack, path=f"{ASK}?dry_run=true", key="auditor") is None
    assert [pay(stack, idempotency_key="kept") for _ in range(4)] == [None] * 4
    assert [pay(stack), pay(stack)] == [None, None]
    assert pay(stack, path=f"{ASK}?dry_run=true", key="auditor") == DENIED
    with stack.at_engine() as wire:
        told = wire.post(TOOL, {"tool": "pay", "actor": "bot", "args": {"n": 1}}).json["wouldHave"]
    assert told == {"decision": "deny", "rule": "limit:few", "policyName": "next"}


def test_a_restart_begins_anew_and_nothing_of_it_is_stored(stack):
    assert [pay(stack) for _ in range(4)] == [None, None, None, DENIED]
    stack.engine.kill()
    stack.engine.start()
    stack.policy("other", NOTHING)
    assert [pay(stack) for _ in range(4)] == [None, None, None, DENIED]


def test_a_count_is_exact_with_many_at_once(stack):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        told = list(pool.map(lambda n: pay(stack, "busy"), range(64)))
    assert told.count(None) == 3 and told.count(DENIED) == 61


def test_an_approved_request_is_counted_when_it_is_redeemed(fresh):
    stack = fresh().start()
    stack.policy("base", "rules: [{id: ask, actions: [ask], decision: human_review}]")
    stack.policy("next", "mode: shadow\nrules: [{id: few, agents: ['*'], actions: [ask], decision: allow, limit: {window: 1h, count: 1}}]")
    reviewer = stack.key("reviewers", ["reviewer"], reviewers=["*"])
    told = []
    for n in range(2):
        asked = {"action": "ask", "actor": "bot", "args": {"n": n}}
        with stack.at_engine() as wire, stack.at_engine(reviewer) as person:
            review = wire.post(ASK, asked).json
            assert "would_have" not in review
            assert person.post(f"/v1/queue/{review['review_id']}/approve", {}).status == 200
            done = wire.post(f"/v1/queue/{review['review_id']}/redeem", asked).json
            assert done["decision"] == "allow", done
            told.append(done.get("would_have"))
    assert told == [None, DENIED]
