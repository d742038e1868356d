"""schemas/openapi.*.yaml: answers that the other tests do not ask for are as the documents say, too, and every route that
they name asks who calls."""

import re

import pytest

from wire import Wire

AGENT, TOOL, USER = "/v1/agent/authorize", "/api/v1/authorize", "/v1/authorize"
POLICY = """
rules:
  - {id: reads, agents: ["*"], users: ["*"], actions: ["get_*"], decision: allow}
  - {id: pay, agents: ["*"], actions: [pay], decision: allow, confidence: {allow_at: 0.9, review_at: 0.5}}
  - {id: refunds, actions: [refund], decision: human_review}
  - {id: write, agents: ["*"], actions: [write], decision: compute, compute: {tool: get_file, args: {path: /sandbox}}}
"""
SHADOW = "mode: shadow\nrules:\n  - {id: none, actions: [get_shadow], decision: deny}\n"


@pytest.fixture
def watch():
    if Wire.watch is None:
        pytest.skip("SKIP: python3-yaml or python3-jsonschema is not installed")
    return Wire.watch


@pytest.fixture
def call(tenant, watch):
    """Makes one request; the session's watch holds its answer against the document (openapi.py)."""
    tenant.policy(POLICY)
    tenant.policy(SHADOW, name="shadow")
    before = len(watch.wrong)

    def call(method, path, key=tenant.agent, body=None, query="", headers=None, **names):
        for name, value in names.items():
            path = path.replace("{%s}" % name, value)
        with tenant.stack.at_engine(key) as wire:
            return wire.request(method, path + query, body, headers).json

    yield call
    assert watch.wrong[before:] == [], "\n".join(watch.wrong[before:])


def test_decisions_and_redemptions_are_as_told(tenant, call):
    rita = tenant.key("rita", ["reviewer"], reviewers=["*"])
    for action in ("get_x", "get_shadow", "pay", "write", "none"):
        for confidence in (None, 0.1, 0.6, 1):
            call("POST", AGENT, body={"action": action, "confidence": confidence, "args": {}})
            call("POST", TOOL, body={"tool": action, "context": {"confidence": confidence}, "resource": "a:b"})
            call("POST", TOOL, tenant.auditor, {"tool": action, "confidence": confidence}, "?explain=true")
        call("POST", USER, body={"user_id": "dora", "action": action})
        call("POST", AGENT, tenant.auditor, {"action": action}, "?dry_run=true")
    for route, body in ((AGENT, {"action": "refund", "args": {"n": 1}}), (TOOL, {"tool": "refund", "args": {"n": 2}}),
                        (USER, {"user_id": "dora", "action": "refund"})):
        asked = call("POST", route, body=body)
        review = asked.get("review_id") or asked["reviewId"]
        call("GET", "/v1/queue/{id}", id=review)
        call("POST", "/v1/queue/{id}/redeem", body=body, id=review)
        call("POST", "/v1/queue/{id}/approve", rita, {"note": "fine", "resolved_by": None}, id=review)
        for key in ("a", "a", "b"):
            call("POST", "/v1/queue/{id}/redeem", body=body, headers={"Idempotency-Key": key}, id=review)
        call("POST", "/v1/queue/{id}/redeem", body={**body, "x": 1}, headers={"Idempotency-Key": "a"}, id=review)
        call("POST", "/v1/queue/{id}/deny", rita, id=review)
        call("POST", "/v1/queue/{id}/cancel", id=review)
    call("GET", "/v1/queue", rita)
    call("GET", "/v1/queue/pending", rita)


def test_what_is_stopped_and_refused_is_as_told(tenant, call):
    token = call("POST", "/v1/tokens/mint", body={"scope": "get_*", "actor": "bot", "max_uses": 1, "audience": None})
    for _ in range(2):
        call("POST", AGENT, token["token"], {"action": "get_x"})
        call("POST", "/v1/tokens/introspect", body={"token": token["token"]})
    call("GET", "/v1/tokens")
    call("POST", "/v1/actors/{actor}/suspend", tenant.admin, {"reason": None}, actor="bot")
    call("GET", "/v1/actors", tenant.admin)
    call("POST", AGENT, body={"action": "get_x", "actor": "bot"})
    call("POST", AGENT, token["token"], {"action": "get_x"})
    call("POST", "/v1/tokens/mint", body={"scope": "get_*", "actor": "bot"})
    for _ in range(2):
        call("POST", "/v1/actors/{actor}/resume", tenant.admin, actor="bot")
        call("DELETE", "/v1/tokens/{tokenID}", tokenID=token["token_id"])
    call("POST", AGENT, tenant.auditor, {"action": "get_x"})
    call("POST", AGENT, body={"action": "get_x", "confidence": 2, "trace_id": "t"})
    call("GET", "/v1/queue/{id}", id="nobodys")
    for path in ("/healthz", "/livez", "/readyz", "/api/config-check", "/.well-known/jwks.json"):
        call("GET", path, None)


OTHERS = {"roles": ["agent"]}
MINT, KEYS, ROLLBACK, GAPS = ("engine", "/v1/tokens/mint"), ("platform", "/api/v1/keys"), ("platform", "/api/v1/policies/{name}/rollback"), ("platform", "/api/v1/audit/gaps")
NOTHING = dict.fromkeys(("tenant", "tenant_id", "actors", "users", "reviewers", "nodes", "tenants", "expires_at"))
BODIES = [  # whose, what, and whether it is taken (by a rollback: whether there may be such a version)
    *((MINT, {"scope": scope}, True) for scope in ("a", " a  b ", "a\u00a0b", ["a\u00a0b"], ["a", "b"], "x" * 256, " ".join(["a"] * 64), ["\u0085"])),
    *((MINT, {"scope": scope}, False) for scope in ("", " ", "a\tb", "a\x01", "a\x7f", "x" * 257, " ".join(["a"] * 65), [], [""], ["a b"], ["a\n"], ["\x01"], ["\x7f"], ["x" * 257])),
    *((KEYS, {**OTHERS, "name": "n", "owner": "o", **more}, True) for more in (
        {}, NOTHING, {"name": "*", "actors": ["a"]}, {"owner": "*", "reviewers": []}, {"name": "a*b", "owner": "*c", "actors": [], "reviewers": ["x"]})),
    *((KEYS, {**OTHERS, "name": "n", "owner": "o", **more}, False) for more in (
        {"name": "policies.dir"}, {"name": "*", "actors": None}, {"owner": "*", "reviewers": None}, {"name": "*"}, {"owner": "*"}, {"name": "a*b"}, {"owner": "a*"}, {"name": "*", "reviewers": ["x"]}, {"owner": "*", "actors": ["x"]})),
    *((ROLLBACK, {"version": version, "tenant_id": None}, True) for version in (1, 2**53 - 1)),
    *((ROLLBACK, {"version": version}, False) for version in (0, -1, 1.5, 2**53, 2**53 + 1, 2**64 - 1, 10**20)),
    *((GAPS, {"node": "n", "epoch": "0" * 16, "from_seq": 1, "next_seq": following}, False) for following in (1, 2**53, 2**53 + 1, 2**62)),
]


@pytest.mark.parametrize("route, body, taken", BODIES)
def test_a_body_is_refused_where_the_document_refuses_it(tenant, watch, route, body, taken):
    program, path = route
    key = tenant.agent if route == MINT else "root" if route == GAPS else tenant.admin
    with (tenant.stack.at_engine if program == "engine" else tenant.stack.at_platform)(key) as wire:
        reply = wire.post(path.replace("{name}", "none"), body)
    assert reply.status in ((201, 404) if taken else (400,)), reply
    schema = watch.documents[program]["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert watch.validator(program, schema).is_valid(body) == taken
    assert route != ROLLBACK or taken or reply.json["error"] == "version: must be a whole number from 1 to 9007199254740991"


@pytest.mark.parametrize("members", [{}, {"description": None, "is_active": None, "tenant_id": None}, {"tenant_id": ""}])
def test_a_policy_is_taken_as_the_document_takes_it(tenant, watch, members):
    body = {"content": POLICY, **members}
    with tenant.stack.at_platform(tenant.admin) as wire:
        assert wire.put("/api/v1/policies/taken?dry_run=true", body).status == 200
    schema = watch.documents["platform"]["paths"]["/api/v1/policies/{name}"]["put"]["requestBody"]["content"]["application/json"]["schema"]
    watch.validator("platform", schema).validate(body)


@pytest.mark.parametrize("route", [MINT, ("platform", "/api/v1/audit/ingest")])
@pytest.mark.parametrize("key", ["", "k", "k" * 255, "k" * 256, "k" * 257], ids=len)
def test_an_idempotency_key_is_refused_where_the_document_refuses_it(tenant, watch, route, key):
    program, path = route
    caller = "engine" if program == "platform" else tenant.agent
    with (tenant.stack.at_engine if program == "engine" else tenant.stack.at_platform)(caller) as wire:
        reply = wire.post(path, {"scope": "a"}, headers={"Idempotency-Key": key})
    refused = reply.json.get("error", "").startswith("Idempotency-Key: ")
    listed = [watch.resolve(program, one) for one in watch.documents[program]["paths"][path]["post"]["parameters"]]
    schema = next(one["schema"] for one in listed if one["name"] == "Idempotency-Key")
    assert watch.validator(program, schema).is_valid(key) == (not refused), reply


@pytest.mark.parametrize("program", ["engine", "platform"])
def test_every_route_knows_its_parameters_and_refuses_who_may_not_ask(stack, watch, program):
    """A route without roles, or a handler that does not ask for them, would be open to everybody."""
    at = stack.at_engine if program == "engine" else stack.at_platform
    paths = watch.documents[program]["paths"]
    with at(None) as nobody, at(stack.key("onlooker", ["metrics"])) as onlooker:
        for path, method, told in [(path, method, told) for path in paths for method, told in paths[path].items() if method != "parameters"]:
            route = method.upper(), re.sub(r"{.*?}", "x", path)
            kind = next(iter(watch.resolve(program, told.get("requestBody", {})).get("content", {})), None)

            def code(wire, query=""):
                reply = wire.request(route[0], route[1] + query, b"{}" if kind else None, {"Content-Type": kind} if kind else None)
                return reply.json["code"] if reply.status >= 400 else "none"

            listed = [watch.resolve(program, one) for one in paths[path].get("parameters", []) + told.get("parameters", [])]
            known = "&".join(f"{one['name']}=x" for one in listed if one["in"] == "query")
            if told.get("x-any-parameter"):  # what comes from another program's link
                assert told["security"] == [] and code(nobody, "?unknown=1") != "unknown_parameter", route
                continue
            assert code(nobody, "?unknown=1") == "unknown_parameter", route
            assert code(nobody, "?" + known) != "unknown_parameter", (route, known)
            for one in known.split("&") if known else []:
                assert code(nobody, "?" + one[:-1]) == code(nobody, "?" + one[:-2]) == "bad_parameter", (route, one)
            if told.get("security") != []:
                assert code(nobody) == "unauthenticated", route
                own = "session" in (told.get("security") or [{}])[0]  # of people who signed in: a key has none
                assert path in ("/metrics", "/v1/fleet") or code(onlooker) == ("unauthenticated" if own else "missing_role"), route
