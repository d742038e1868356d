"""Rates: what a key or a tenant may use within a time. Beyond it the answer is 429, and nothing was decided.

One pair of programs. Each test has tenants and keys of its own. Rates are so low, and their windows so long, that no
test depends on its speed.
"""

import itertools
import json

import harness
import pytest

AGENT, BATCH, MINT = "/v1/agent/authorize", "/v1/authorize/batch", "/v1/tokens/mint"
POLICY = """
rules:
  - {id: may, agents: ["*"], actions: [pay], decision: allow}
  - {id: asks, agents: ["*"], actions: [refund], decision: human_review}
"""
OF_TENANT = 120 << 10  # bytes of records a day
PAY = {"action": "pay", "actor": "bot"}
numbers = itertools.count()


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    with harness.Stack(tmp_path_factory.mktemp("rates"),
                       engine=["--reactors", "2", "--quota.tenant.journal", f"{OF_TENANT}B", "--quota.tenant.cpu", "100s"],
                       platform=["--quota.key.audit_queries", "4", "--quota.tenant.audit_queries", "6"]) as stack:
        yield stack


def agent(own, tenant=None, **rates):
    """A key for agents of a new tenant: (tenant, key, the key's row)."""
    if tenant is None:
        tenant = f"tenant-{next(numbers)}"
        own.policy("base", POLICY, tenant=tenant, wait=False)
    body = {"name": "bot", "owner": "team", "tenant": tenant, "roles": ["agent"], "actors": ["*"], "rates": rates or None}
    with own.at_platform("root") as wire:
        reply = wire.post("/api/v1/keys", body)
    assert reply.status == 201, reply
    own.wait_followed()
    return tenant, reply.json["key"], reply.json


def over(reply, code, name, most, window):
    """The refusal of a request beyond its rate; returns the seconds that it names."""
    assert (reply.status, reply.json["code"]) == (429, code), reply
    seconds = int(reply.header("retry-after"))
    assert seconds >= 1
    assert reply.header("ratelimit-policy") == f'"{name}";q={most}' + (f";w={window}" if window else "")
    assert reply.header("ratelimit") == f'"{name}";r=0;t={seconds}'
    return seconds


def test_a_batch_is_paid_for_before_the_next_request(own):
    """Requests a second: a batch counts each of its items."""
    _, key, row = agent(own, requests=2)
    assert row["rates"] == {"requests": 2}
    with own.at_engine(key) as wire:
        reply = wire.post(BATCH, {"requests": [PAY] * 100})
        assert reply.status == 200 and len(reply.json["decisions"]) == 100
        assert over(wire.post(AGENT, PAY), "quota_key", "requests", 2, 1) > 30
        over(wire.get("/v1/queue"), "quota_key", "requests", 2, 1)


def test_a_record_that_the_rate_does_not_afford_is_no_decision(own):
    """The request before it may exceed what is left, once. Other keys of the tenant go on."""
    tenant, key, _ = agent(own, journal_bytes=1)
    _, other, _ = agent(own, tenant)
    with own.at_engine(key) as wire:
        first = wire.post(AGENT, PAY)
        assert first.json["decision"] == "allow"
        assert over(wire.post(AGENT, PAY), "quota_key", "journal-bytes", 1, 86400) > 3600
        over(wire.post(MINT, {"actor": "bot", "scope": "*", "ttl_seconds": 60}), "quota_key", "journal-bytes", 1, 86400)
        assert wire.get("/v1/queue").status == 200  # it writes no record
    with own.at_engine(other) as wire:
        assert wire.post(AGENT, PAY).json["decision"] == "allow"
    own.wait_published()
    with own.at_platform("root") as wire:
        events = wire.get(f"/api/v1/audit?tenant_id={tenant}&kind=decision").json["events"]
    assert len(events) == 2


@pytest.mark.parametrize("request_of", ["review", "token"])
def test_records_of_reviews_and_tokens_count(own, request_of):
    _, key, _ = agent(own, journal_bytes=1)
    with own.at_engine(key) as wire:
        if request_of == "review":
            assert wire.post(AGENT, {"action": "refund", "actor": "bot"}).json["decision"] == "human_review"
        else:
            assert wire.post(MINT, {"actor": "bot", "scope": "*", "ttl_seconds": 60}).status == 201
        over(wire.post(AGENT, PAY), "quota_key", "journal-bytes", 1, 86400)


def test_a_tenant_that_is_over_keeps_no_other_out_and_can_be_stopped(own):
    """Its revocations, suspensions and votes have no rate."""
    tenant, key, _ = agent(own)
    _, honest, _ = agent(own)
    before = own.metrics(own.engine)
    people = own.key("rita", ["reviewer", "admin"], owner="rita", tenant=tenant, reviewers=["*"])
    everywhere = own.key("gate", ["agent"], tenant="*", actors=["*"])
    large = {**PAY, "args": {"x": "y" * 40000}}
    with own.at_engine(key) as wire:
        token = wire.post(MINT, {"actor": "bot", "scope": "*", "ttl_seconds": 60}).json
        reviews = [wire.post(AGENT, {"action": "refund", "actor": f"bot-{n}"}).json["review_id"] for n in range(2)]
        replies = [wire.post(AGENT, large) for _ in range(6)]
        assert replies[0].status == 200
        over(replies[-1], "quota_tenant", "journal-bytes", OF_TENANT, 86400)
    with own.at_engine(token["token"]) as wire:  # a token is its key's
        over(wire.post(AGENT, PAY), "quota_tenant", "journal-bytes", OF_TENANT, 86400)
    with own.at_engine(honest) as wire:
        assert wire.post(AGENT, large).json["decision"] == "allow"
    with own.at_engine(everywhere) as wire:  # a key of every tenant counts for the one that it names
        over(wire.post(AGENT, {**PAY, "tenant_id": tenant}), "quota_tenant", "journal-bytes", OF_TENANT, 86400)
        reply = wire.post(BATCH, {"requests": [{**PAY, "tenant_id": tenant}, {**PAY, "tenant_id": "third"}]})
        assert [d.get("code") for d in reply.json["decisions"]] == ["quota_tenant", None], reply
    with own.at_engine(people) as wire:
        assert wire.post(f"/v1/queue/{reviews[0]}/approve", {}).status == 200
        assert wire.post(f"/v1/queue/{reviews[1]}/deny", {}).status == 200
        assert wire.post("/v1/actors/bot/suspend", {"reason": "test"}).status == 200
        assert wire.delete(f"/v1/tokens/{token['token_id']}").status == 200
        assert wire.get("/healthz").json["checks"]["quotas"] != "ok"
    after = own.metrics(own.engine)
    name = 'writ_engine_quota_refused_total{quota="tenant"}'
    assert after[name] - before[name] >= 3


def test_time_of_the_engines_threads_is_measured(own):
    """A millisecond a second: an engine that answers is over it before long."""
    _, key, _ = agent(own, cpu_ms=1)
    batch = {"requests": [{**PAY, "args": {"x": "y" * 400}}] * 100}
    with own.at_engine(key) as wire:
        replies = (wire.post(BATCH, batch) for _ in range(1000))
        refused = next(reply for reply in replies if reply.status != 200)
    over(refused, "quota_key", "cpu-ms", 1, 1)


def test_connections_are_counted_while_they_last(own):
    _, key, _ = agent(own, connections=2)
    with own.at_engine(key) as first, own.at_engine(key) as second:
        assert first.post(AGENT, PAY).status == second.post(AGENT, PAY).status == 200
        with own.at_engine(key) as third:
            reply = third.post(AGENT, PAY)
            over(reply, "quota_key", "connections", 2, 0)
            assert reply.header("connection") == "close"
        assert first.post(AGENT, PAY).status == 200

    def is_free():
        with own.at_engine(key) as again:
            return again.post(AGENT, PAY).status == 200

    harness.eventually(is_free, "the connections that were closed count no more")


def test_all_keys_of_a_rotation_have_one_rate(own):
    tenant, key, row = agent(own, journal_bytes=1)
    with own.at_engine(key) as wire:
        assert wire.post(AGENT, PAY).status == 200
    with own.at_platform("root") as wire:
        fresh = wire.post(f"/api/v1/keys/{row['id']}/rotate", {"overlap_seconds": 3600}).json
    assert fresh["rates"] == {"journal_bytes": 1}
    own.wait_followed()
    with own.at_engine(fresh["key"]) as wire:
        over(wire.post(AGENT, PAY), "quota_key", "journal-bytes", 1, 86400)


def test_audit_queries_have_a_rate_by_key_and_by_tenant(own):
    tenant = f"tenant-{next(numbers)}"
    first, second = (own.key(name, ["auditor"], tenant=tenant) for name in ("first", "second"))
    exempt = own.key("third", ["auditor"], tenant=tenant, rates={"audit_queries": 1000})
    other = own.key("other", ["auditor"], tenant=f"{tenant}-other")
    with own.at_platform(first) as wire:
        for path in ("/api/v1/audit", "/api/v1/audit/trace/x", "/api/v1/audit", "/api/v1/audit"):
            assert wire.get(path).status in (200, 404)
        assert over(wire.get("/api/v1/audit"), "quota_key", "audit-queries", 4, 60) <= 15
    with own.at_platform(second) as wire:
        assert [wire.get("/api/v1/audit").status for _ in range(2)] == [200, 200]
        over(wire.get("/api/v1/audit"), "quota_tenant", "audit-queries", 6, 60)
    with own.at_platform(exempt) as wire:  # its own rate is higher; its tenant's is used up
        over(wire.get("/api/v1/audit"), "quota_tenant", "audit-queries", 6, 60)
    with own.at_platform(other) as wire:
        assert wire.get("/api/v1/audit").status == 200
        assert wire.get("/healthz").json["checks"]["quotas"] != "ok"


def test_the_command_line_makes_a_key_with_rates(own):
    at = ["--platform", own.platform.url]
    root = own.keys["root"]
    made = own.cli("key", "create", "--tenant", "default", "--name", "cli-bot", "--owner", "team", "--roles", "agent", "--rate",
                   "20,cpu=100ms,journal=1MiB,audit_queries=60,connections=8", "--json", *at, key=root)
    assert json.loads(made.stdout)["rates"] == {"requests": 20, "cpu_ms": 100, "journal_bytes": 1 << 20, "audit_queries": 60,
                                                "connections": 8}
    assert "rate of requests 20" in own.cli("key", "list", "--tenant", "default", *at, key=root).stdout
    for wrong in ("fast", "requests=0", "cpu=5", "20,requests=5", "speed=1"):
        refused = own.cli("key", "create", "--tenant", "default", "--name", "x", "--owner", "x", "--roles", "agent", "--rate", wrong, *at,
                          key=root, check=False)
        assert refused.returncode == 2 and "--rate" in refused.stderr, refused
