"""Shares: a tenant that fills a table keeps no other one out, and a key keeps out no other key of its tenant.

The engine runs with tables of 32 places (`small_tables`), so that a test can fill them.
"""

import itertools

import harness
import pytest

AGENT, MINT = "/v1/agent/authorize", "/v1/tokens/mint"
PLACES = 32
POLICY = """
rules:
  - {id: asks, actions: [refund], decision: human_review}
  - {id: counts, agents: ["*"], actions: [pay], decision: allow, limit: {per: resource, window: 1h, count: 10}}
"""
numbers = itertools.count()

TABLES = {
    "reviews": lambda n: (AGENT, {"action": "refund", "actor": f"bot-{n}"}, {}),
    "counters": lambda n: (AGENT, {"action": "pay", "actor": "bot", "resource": {"type": "account", "id": f"r{n}"}}, {}),
    "tokens": lambda n: (MINT, {"actor": f"bot-{n}", "scope": "*", "ttl_seconds": 600}, {}),
}
RETRIES = "idempotency-keys"
REQUESTS = {**TABLES, RETRIES: lambda n: (AGENT, {"action": "refund", "actor": "bot"}, {"Idempotency-Key": f"k{n}"})}


def run(folder, tables):
    small = {"WRIT_BUG": "small_tables"}
    with harness.Stack(folder, engine=["--reactors", "1"], engine_environment=small) as stack:
        for tenant in (*tables, "other"):
            stack.policy("base", POLICY, tenant=tenant, wait=False)
            for name in ("first", "second"):
                stack.keys[f"{tenant} {name}"] = stack.key(name, ["agent"], tenant=tenant, actors=["*"])
        stack.keys["reviews rita"] = stack.key("rita", ["reviewer", "admin"], owner="rita", tenant="reviews", reviewers=["*"])
        stack.taken = {}
        yield stack


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    yield from run(tmp_path_factory.mktemp("shares"), TABLES)


@pytest.fixture(scope="module")
def retries(tmp_path_factory):
    """Each key's request also takes a place among the reviews, so it has an engine of its own."""
    yield from run(tmp_path_factory.mktemp("retries"), [RETRIES])


def take(stack, table, key, most=2 * PLACES):
    """Takes places until one is refused, or there are `most`: the answers, and the refusal or None."""
    taken = []
    with stack.at_engine(key) as wire:
        while len(taken) < most:
            number = next(numbers)
            path, body, headers = REQUESTS[table](number)
            reply = wire.post(path, body, headers=headers)
            if reply.status == 429:
                return taken, reply
            assert reply.status in (200, 201), reply
            taken.append({**reply.json, "number": number})
    return taken, None


def refused(reply, code, table, most):
    assert reply.json["code"] == code and table in reply.json["error"] and str(most) in reply.json["error"], reply
    assert reply.header("retry-after") == "10"
    assert reply.header("ratelimit-policy") == f'"{table}";q={most}' and reply.header("ratelimit") == f'"{table}";r=0;t=10'


@pytest.mark.parametrize("table", REQUESTS)
def test_a_tenant_that_fills_a_table_keeps_no_other_out(request, table):
    """Alone it has all places. Then it has half, and so has each key of another tenant of that tenant's half."""
    own = request.getfixturevalue("retries" if table == RETRIES else "own")
    before = own.metrics(own.engine)
    taken, reply = take(own, table, f"{table} first")
    assert len(taken) == PLACES
    refused(reply, "quota_tenant", table, PLACES)
    own.taken[table] = taken
    served, reply = take(own, table, "other first", most=PLACES // 4)
    assert reply is None and len(served) == PLACES // 4
    refused(take(own, table, f"{table} first", most=1)[1], "quota_tenant", table, PLACES // 2)
    served, reply = take(own, table, "other second")
    assert len(served) == PLACES // 4
    refused(reply, "quota_key", table, PLACES // 4)
    refused(take(own, table, "other first", most=1)[1], "quota_key", table, PLACES // 4)
    after = own.metrics(own.engine)
    for quota, count in (("key", 2), ("tenant", 2)):
        name = f'writ_engine_quota_refused_total{{quota="{quota}"}}'
        assert after[name] - before[name] == count


def test_what_waits_is_resolved_and_ended_while_the_tables_are_full(own):
    reviews = [answer["review_id"] for answer in own.taken["reviews"]]
    with own.at_engine("reviews rita") as wire:
        assert wire.post(f"/v1/queue/{reviews[0]}/approve", {}).status == 200
        assert wire.post(f"/v1/queue/{reviews[1]}/deny", {}).status == 200
        assert wire.post("/v1/actors/bot-x/suspend", {"reason": "test"}).status == 200
    with own.at_engine("tokens first") as wire:
        assert wire.delete(f"/v1/tokens/{own.taken['tokens'][0]['token_id']}").status == 200
    with own.at_engine("counters first") as wire:  # the counter is there
        path, body, _ = TABLES["counters"](own.taken["counters"][0]["number"])
        assert wire.post(path, body).json["decision"] == "allow"


def test_a_restart_changes_no_share(own):
    own.engine.kill()
    own.engine.start()
    for table in TABLES:
        refused(take(own, table, f"{table} first", most=1)[1], "quota_tenant", table, PLACES // 2)
        refused(take(own, table, "other first", most=1)[1], "quota_key", table, PLACES // 4)


def test_a_full_table_of_shadow_counts_shows_requests_as_let_through(own):
    own.policy("base", "rules: [{id: give, agents: ['*'], actions: [give], decision: allow}]", tenant="shadow", wait=False)
    own.policy("next", "mode: shadow\nrules: [{id: few, agents: ['*'], actions: [give], decision: allow, "
               "limit: {per: resource, window: 1h, count: 1}}]", tenant="shadow")
    key = own.key("shade", ["agent"], tenant="shadow", actors=["*"])

    def twice(number):
        body = {"action": "give", "actor": "bot", "resource": {"type": "account", "id": f"s{number}"}}
        replies = [wire.post(AGENT, body) for _ in range(2)]
        assert all(reply.status == 200 and reply.json["decision"] == "allow" for reply in replies), replies
        return [reply.json.get("would_have") for reply in replies]
    with own.at_engine(key) as wire:
        shown = [twice(number) for number in range(PLACES + 1)]
    denied = {"decision": "deny", "rule": "limit:few", "policy_name": "next"}
    assert shown == [[None, denied]] * PLACES + [[None, None]]
