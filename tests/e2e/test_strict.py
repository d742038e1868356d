"""What a request holds beyond what its route knows, or holds twice, or holds empty, is refused by name."""

import pytest

ONCE = ["Content-Encoding", "Content-Type", "Expect", "Idempotency-Key", "X-Request-ID"]
LISTS = {
    "/api/v1/audit": "tenant_id actor action decision trace_id kind rule user_id from to limit cursor order exact",
    "/api/v1/bundle": "wait tenant_id",
    "/api/v1/engines": "tenant_id limit cursor",
    "/api/v1/suspensions": "tenant_id open limit cursor",
    "/api/v1/keys": "tenant_id limit cursor",
    "/api/v1/policies": "tenant_id limit cursor",
    "/api/v1/policies/x/versions": "tenant_id limit cursor",
    "/v1/actors": "limit cursor tenant_id",
    "/v1/queue": "limit cursor actor action status tenant_id",
    "/v1/queue/pending": "limit cursor actor action tenant_id",
    "/v1/tokens": "limit cursor actor acting_for active tenant_id",
}


def refused(reply, code, name):
    assert reply.status == 400, reply
    assert reply.json["code"] == code and reply.json["error"].startswith(name + ": "), reply
    return reply.json["error"]


@pytest.fixture(params=["engine", "platform"])
def at(request, stack):
    """Either program: each has the other's routes, too."""
    return stack.at_engine if request.param == "engine" else stack.at_platform


def test_a_header_with_one_value_is_sent_once(at):
    for name in ONCE:
        for first, second in (("a", "a"), ("a", "b"), ("", "a")):
            for path in ("/livez", "/v1/queue", "/api/v1/audit"):
                with at() as wire:
                    wire.send(f"GET {path} HTTP/1.1\r\nHost: a\r\n{name}: {first}\r\nX: y\r\n{name.lower()}: {second}\r\n\r\n".encode())
                    refused(wire.read_reply(), "bad_header", name)
                    assert wire.is_closed_by_server()


def test_an_empty_filter_is_not_all(at):
    with at("root") as wire:
        for path, names in LISTS.items():
            for name in names.split():
                for query in (f"?{name}=", f"?{name}", f"?tenant_id=default&{name}=" if name != "tenant_id" else f"?limit=1&{name}="):
                    if "limit" in query and "limit" not in names:
                        continue
                    assert "is empty" in refused(wire.get(path + query), "bad_parameter", name), (path, query)


ANY_ID = "0" * 26
CHANGES = [  # method, path, a body, a misspelled member, what was probably meant
    ("POST", "/v1/tokens/mint", {"scope": "get_*"}, "max_use", "max_uses"),
    ("POST", "/v1/tokens/mint", {"scope": "get_*"}, "actng_for", "acting_for"),
    ("POST", f"/v1/queue/rev_{ANY_ID}/approve", {}, "resolvd_by", "resolved_by"),
    ("POST", f"/v1/queue/rev_{ANY_ID}/deny", {}, "notes", "note"),
    ("POST", f"/v1/queue/rev_{ANY_ID}/revoke", {}, "not", "note"),
    ("POST", f"/v1/queue/rev_{ANY_ID}/cancel", {}, "tenant", "tenant_id"),
    ("POST", "/v1/actors/bot/suspend", {}, "resaon", "reason"),
    ("POST", "/v1/actors/bot/resume", {}, "reasons", "reason"),
    ("POST", "/v1/signer/rotate", {}, "noww", "now"),
    ("PUT", "/api/v1/policies/strict", {"content": "rules: []"}, "isactive", "is_active"),
    ("POST", "/api/v1/policies:apply", {"delete": []}, "deletes", "delete"),
    ("POST", "/api/v1/policies/strict/rollback", {"version": 1}, "versoin", "version"),
    ("POST", "/api/v1/keys", {"name": "s", "owner": "s", "roles": ["agent"]}, "expire_at", "expires_at"),
    ("POST", f"/api/v1/keys/key_{ANY_ID}/rotate", {}, "overlap_second", "overlap_seconds"),
    ("POST", "/api/v1/audit/gaps", {"node": "n", "from_seq": 1, "next_seq": 2, "epoch": "0" * 16}, "jornal", "journal"),
    ("POST", "/api/v1/audit/streams:forget", {"node": "n"}, "forced", "force"),
]


def test_a_member_that_a_change_does_not_have_is_refused_with_a_guess(at, stack):
    key = stack.key("strict", ["agent", "reviewer", "policy_admin", "admin"], tenant="*", actors=["*"], users=["*"], tenants=["*"])
    with at(key) as wire:
        for method, path, body, wrong, meant in CHANGES:
            tenant = {} if "audit" in path or "signer" in path else {"tenant_id": "default"}
            for value in (3, None):
                reply = wire.request(method, path, {**body, **tenant, wrong: value})
                assert refused(reply, "unknown_member", wrong).endswith(f"did you mean {meant}?"), (path, reply)
                assert reply.json["field"] == f"/{wrong}"
            error = refused(wire.request(method, path, {**body, **tenant, "frobnicate": 1}), "unknown_member", "frobnicate")
            assert "which may have: " in error and meant in error.split(": ")[-1].split(), (path, error)
        camel = refused(wire.post("/v1/tokens/mint", {"scope": "get_*", "maxUses": 1}), "wrong_case", "maxUses")
        assert camel.endswith("must be spelled max_uses")
        item = wire.post("/api/v1/policies:apply", {"tenant_id": "default", "policies": [{"name": "s", "contents": "rules: []"}]})
        assert refused(item, "unknown_member", "policies/0/contents").endswith("did you mean content?")


def test_what_decides_passes_over_members_of_the_clients_own(at):
    with at("agent") as wire:
        for path, body in (("/v1/agent/authorize", {"action": "get_x"}), ("/api/v1/authorize", {"tool": "get_x"}),
                           ("/v1/authorize/batch", {"requests": [{"action": "get_x", "actoin": "y"}]}),
                           ("/access/v1/evaluation", {"subject": {"type": "agent", "id": "bot"}, "action": {"name": "get_x"},
                                                      "resource": {"type": "a", "id": "b"}}),
                           ("/v1/tokens/introspect", {"token": "x"})):
            reply = wire.post(path, {**body, "frobnicate": 1})
            assert reply.status == 200, (path, reply)
