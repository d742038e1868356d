"""The policies API: documents are validated, versioned, live within a second, and audited."""

import time

import pytest

import harness
from test_contract import refused

ALLOW = 'rules:\n  - {id: reads, agents: ["*"], actions: ["get_*"], decision: allow}\n'
DENY = 'rules:\n  - {id: reads, actions: ["get_*"], decision: deny}\n'


def at(tenant, key=None):
    return tenant.stack.at_platform(key or tenant.admin)


def test_put_get_list_and_delete(tenant):
    reply = tenant.put("base", ALLOW, description="Reads")
    assert reply.status == 201 and reply.header("etag"), reply
    document = reply.json
    assert document["name"] == "base" and document["version"] == 1 and document["is_active"] is True
    with at(tenant) as wire:
        got = wire.get("/api/v1/policies/base")
        assert got.status == 200 and got.header("etag") == reply.header("etag")
        assert set(got.json) >= {"id", "tenant_id", "name", "description", "content", "format", "version", "digest",
                                 "is_active", "created_at", "updated_at", "updated_by"}
        assert got.json["content"] == ALLOW and got.json["tenant_id"] == tenant.name and got.json["format"] == "yaml"
        assert got.json["updated_by"]
        listed = wire.get("/api/v1/policies").json
        assert listed["count"] == 1 and listed["policies"][0]["name"] == "base"
        assert wire.delete("/api/v1/policies/base").json == {"deleted": True}
        refused(wire.get("/api/v1/policies/base"), 404, "not_found")
        refused(wire.delete("/api/v1/policies/base"), 404, "not_found")
        assert wire.get("/api/v1/policies").json == {"policies": [], "count": 0}


def test_a_policy_is_live_in_the_engine_within_a_second(tenant):
    def seconds_until(rule, change):
        begun = time.monotonic()
        change()
        took = time.monotonic() - begun
        return harness.seconds_until(lambda: tenant.ask("get_x")["rule"] == rule), took

    def put(content):
        assert tenant.put("base", content).status in (200, 201)

    def delete():
        with at(tenant) as wire:
            wire.delete("/api/v1/policies/base")

    assert tenant.ask("get_x")["rule"] == "default:deny"
    lives, deaths = [], []
    for content, rule in ((ALLOW, "allow:reads"), (DENY, "deny:reads")) * 3:
        lives.append(seconds_until(rule, lambda: put(content)))
        if rule == "deny:reads":
            deaths.append(seconds_until("default:deny", delete))
    harness.assert_within_a_second(lives)
    harness.assert_within_a_second(deaths)


def test_versions_and_rollback(tenant):
    for content in (ALLOW, DENY, ALLOW + "description: third\n"):
        tenant.policy(content)
    with at(tenant) as wire:
        versions = wire.get("/api/v1/policies/base/versions").json
        assert sorted(v["version"] for v in versions["versions"]) == [1, 2, 3], versions
        assert wire.get("/api/v1/policies/base/versions?cursor=1").json == {"versions": [], "count": 0}, "behind the last one"
        assert wire.get("/api/v1/policies/base/versions/2").json["content"] == DENY
        refused(wire.get("/api/v1/policies/none/versions"), 404, "not_found")
        refused(wire.get("/api/v1/policies/base/versions/18446744073709551615"), 404, "not_found")
        refused(wire.get("/api/v1/policies/base/versions/9"), 404, "not_found")
        assert wire.get("/api/v1/policies/base/versions/x").status in (400, 404)
        back = wire.post("/api/v1/policies/base/rollback", {"version": 2})
        assert back.status == 200 and back.json["version"] == 4 and back.json["content"] == DENY, back
        refused(wire.post("/api/v1/policies/base/rollback", {"version": 77}), 404, "not_found")
        refused(wire.post("/api/v1/policies/base/rollback", {}), 400, "missing_member", "/version")
        refused(wire.post("/api/v1/policies/base/rollback", {"version": "2"}), 400, "wrong_type", "/version")
    tenant.stack.wait_followed()
    answer = tenant.ask("get_x")
    assert (answer["decision"], answer["policy_version"]) == ("deny", 4)


def test_the_same_content_makes_no_new_version(tenant):
    first = tenant.policy(ALLOW)
    again = tenant.put("base", ALLOW)
    assert again.status == 200 and again.json["version"] == first["version"] == 1
    assert again.json["digest"] == first["digest"]


def test_an_inactive_policy_does_not_vote(tenant):
    tenant.policy(ALLOW)
    tenant.policy(ALLOW, is_active=False)
    assert tenant.ask("get_x")["rule"] == "default:deny"
    tenant.policy(ALLOW, is_active=True)
    assert tenant.ask("get_x")["decision"] == "allow"


def test_content_may_be_an_object_or_json_text(tenant):
    rules = {"rules": [{"id": "reads", "agents": ["*"], "actions": ["get_*"], "decision": "allow"}]}
    assert tenant.policy(rules)["format"] == "json"
    assert tenant.ask("get_x")["decision"] == "allow"
    import json
    assert tenant.policy(json.dumps(rules, indent=2), name="text")["format"] == "json"


def test_preconditions(tenant):
    etag = tenant.put("base", ALLOW, headers={"If-None-Match": "*"}).header("etag")
    refused(tenant.put("base", DENY, headers={"If-None-Match": "*"}), 412, "precondition_failed")
    refused(tenant.put("base", DENY, headers={"If-Match": '"another"'}), 412, "precondition_failed")
    second = tenant.put("base", DENY, headers={"If-Match": etag})
    assert second.status == 200 and second.header("etag") != etag
    refused(tenant.put("base", ALLOW, headers={"If-Match": etag}), 412, "precondition_failed")
    for any_or_one in ("*", etag):
        refused(tenant.put("fresh", ALLOW, headers={"If-Match": any_or_one}), 412, "precondition_failed")
    with at(tenant) as wire:
        refused(wire.delete("/api/v1/policies/base", headers={"If-Match": etag}), 412, "precondition_failed")
        assert wire.get("/api/v1/policies/base").json["version"] == 2
    assert tenant.put("base", ALLOW, headers={"If-Match": "*"}).status == 200


def test_if_none_match_compares_weakly_and_if_match_strongly(tenant):
    """RFC 9110, 13.1: what came through a proxy that compresses may have become W/"x"."""
    etag = tenant.put("base", ALLOW).header("etag")
    refused(tenant.put("base", DENY, headers={"If-None-Match": f"W/{etag}"}), 412, "precondition_failed")
    refused(tenant.put("base", DENY, headers={"If-Match": f"W/{etag}"}), 412, "precondition_failed")
    with at(tenant) as wire:
        assert wire.get("/api/v1/policies/base", headers={"If-None-Match": f'"another", W/{etag}'}).status == 304


def test_tags_in_several_lines_are_one_list(tenant):
    """RFC 9110, 5.3."""
    etag = tenant.put("base", ALLOW).header("etag")
    lines = '"another"\r\n%s: ' + etag
    refused(tenant.put("base", DENY, headers={"If-None-Match": lines % "If-None-Match"}), 412, "precondition_failed")
    with at(tenant) as wire:
        assert wire.get("/api/v1/policies/base", headers={"If-None-Match": lines % "If-None-Match"}).status == 304
    assert tenant.put("base", DENY, headers={"If-Match": lines % "If-Match"}).status == 200


def test_who_pages_sees_what_is_made_after_the_newest_was_deleted(tenant):
    for name in ("one", "two", "three", "four"):
        assert tenant.put(name, ALLOW).status == 201
    with at(tenant) as wire:
        page = wire.get("/api/v1/policies?limit=3").json
        assert [policy["name"] for policy in page["policies"]] == ["one", "two", "three"]
        for name in ("four", "three"):
            assert wire.delete(f"/api/v1/policies/{name}").status == 200
        for name in ("five", "six"):
            assert tenant.put(name, ALLOW).status == 201
        rest = wire.get(f"/api/v1/policies?cursor={page['next_cursor']}").json
    assert [policy["name"] for policy in rest["policies"]] == ["five", "six"]


def test_a_rollback_does_not_pass_over_a_misspelled_tenant(tenant):
    tenant.put("base", ALLOW)
    with at(tenant) as wire:
        refused(wire.post("/api/v1/policies/base/rollback", {"version": 1, "tenantId": "another"}), 400, "wrong_case")


def test_a_dry_run_gives_no_tag_that_another_change_may_get(tenant):
    etag = tenant.put("base", ALLOW).header("etag")
    tried = tenant.put("base", DENY, query="?dry_run=true")
    assert tried.header("etag") == etag, "of what is there"
    assert tenant.put("base", ALLOW + "# somebody else was faster\n").status == 200
    refused(tenant.put("base", DENY, headers={"If-Match": tried.header("etag")}), 412, "precondition_failed")
    assert tenant.put("fresh", ALLOW, query="?dry_run=true").header("etag") is None, "nothing is there"


def test_a_rollback_keeps_the_format(tenant):
    text = '\n{"rules": [{"id": "a", "agents": ["*"], "actions": ["x"], "decision": "allow"}]}'
    assert tenant.put("base", text).json["format"] == "json"
    tenant.put("base", DENY)
    with at(tenant) as wire:
        back = wire.post("/api/v1/policies/base/rollback", {"version": 1}).json
    assert (back["content"], back["format"], back["version"]) == (text, "json", 3)


def test_a_dry_run_validates_and_changes_nothing(tenant):
    reply = tenant.put("base", ALLOW, query="?dry_run=true")
    assert reply.status == 200, reply
    with at(tenant) as wire:
        assert wire.get("/api/v1/policies").json["count"] == 0
    refused(tenant.put("base", "rules: 5\n", query="?dry_run=true"), 400, "invalid_policy")
    assert not [e for e in tenant.events(kind="policy.put")]


INVALID = [
    ("rules:\n  - {id: a, agents: ['*'], actions: [x], decision: alow}\n", 2, "alow"),
    ("rules:\n  - {id: a, agents: ['*'], actions: [x], decision: allow}\n  - {id: a, agents: ['*'], actions: [y], decision: allow}\n", 3, "a"),
    ("rules:\n  - {id: a, actions: [x], decision: allow}\n", 2, "agents"),
    ("rules:\n  - {id: a, agents: ['*'], decision: allow}\n", 2, "actions"),
    ("rules:\n  - {id: a, agents: ['*'], actions: [x], decision: allow, colour: red}\n", 2, "colour"),
    ("rules: []\nrules: []\n", 2, "rules"),
    ("rules:\n  - &x {id: a, agents: ['*'], actions: [x], decision: allow}\n", 2, ""),
    ("rules:\n  - *x\n", 2, ""),
    ("rules: !!seq []\n", 1, ""),
    ("rules:\n\t- x\n", 2, ""),
    ("rules:\n  - {id: a, agents: ['*'], actions: [x], decision: allow, when: 'args.x >'}\n", 2, "when"),
    ("rules:\n  - {id: a, agents: ['*'], actions: [x], decision: allow, limit: {per: actor, count: 3}}\n", 2, "window"),
    ("rules:\n  - id: a\n    agents: ['*']\n    actions: [x]\n    decision: compute\n    compute: {tool: y, args: {p: '${args.p'}}\n", 6, "not closed"),
    ("confidence: {allow_at: 0.5, review_at: 0.7}\nrules: []\n", 1, ""),
    ("confidence: {allow_at: 1.5, review_at: 0.7}\nrules: []\n", 1, "1.5"),
    ("rules:\n  - {id: 'a b', agents: ['*'], actions: [x], decision: allow}\n", 2, "id"),
    ("rules:\n  - {id: pending, agents: ['*'], actions: [x], decision: allow}\n", 2, "pending"),
    ("rules:\n  - {id: a, actions: [x], decision: human_review, review: {expires_in: 31d}}\n", 2, "expires_in"),
    ("mode: on\nrules: []\n", 1, "mode"),
    ('{"rules": [], "rules": []}', 1, "rules"),
    ('{"rules": [\n{"id": "a", "actions": ["x"], "decision": "denny"}]}', 2, "denny"),
    ("{", 1, ""),
    ("rules:\n  - {id: a, agents: ['*'], actions: [x], decision: allow}\ntests:\n  - {request: {actor: b, action: x}, expect: deny}\n", 4, ""),
]


@pytest.mark.parametrize("content, line, named", INVALID)
def test_an_invalid_document_is_refused_at_its_line_and_changes_nothing(tenant, content, line, named):
    tenant.policy(ALLOW)
    document = refused(tenant.put("base", content), 400, "invalid_policy")
    first = document["details"][0]
    assert set(first) == {"path", "line", "column", "message"}, first
    assert any(detail["line"] == line and named in detail["message"] + detail["path"] for detail in document["details"]), document
    assert first["column"] >= 1
    with at(tenant) as wire:
        assert wire.get("/api/v1/policies/base").json["version"] == 1
    assert tenant.ask("get_x")["decision"] == "allow"


def test_several_faults_are_reported_at_once(tenant):
    content = "rules:\n" + "".join(f"  - {{id: r{i}, agents: ['*'], actions: [x], decision: maybe}}\n" for i in range(5))
    document = refused(tenant.put("base", content), 400, "invalid_policy")
    assert [detail["line"] for detail in document["details"]] == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("name", ["a" * 65, "a%20b", "a%2fb", "%C3%BC"])
def test_a_policys_name_is_checked(tenant, name):
    assert tenant.put(name, ALLOW).status in (400, 404)


def test_a_wrong_put_is_named(tenant):
    with at(tenant) as wire:
        refused(wire.put("/api/v1/policies/base", {}), 400, "missing_member", "/content")
        refused(wire.put("/api/v1/policies/base", {"content": 5}), 400, "wrong_type", "/content")
        refused(wire.put("/api/v1/policies/base", {"content": ALLOW, "is_active": "yes"}), 400, "wrong_type", "/is_active")
        refused(wire.put("/api/v1/policies/base", {"content": ALLOW, "description": 5}), 400, "wrong_type", "/description")
        refused(wire.put("/api/v1/policies/base", {"content": ALLOW, "isActive": True}), 400, "wrong_case", "/isActive")
        refused(wire.put("/api/v1/policies/base", {"content": "# " + "a" * (1 << 20)}), 413, "body_too_large")


def test_a_large_document_is_taken(tenant):
    rules = "".join(f"  - {{id: r{i}, agents: [bot{i}], actions: [act{i}], decision: allow}}\n" for i in range(9000))
    tenant.policy("rules:\n" + rules)
    assert tenant.ask("act8999", actor="bot8999")["decision"] == "allow"
    assert tenant.ask("act8999", actor="bot1")["decision"] == "deny"


def test_changes_are_audited(tenant):
    tenant.policy(ALLOW)
    tenant.policy(DENY)
    with at(tenant) as wire:
        wire.post("/api/v1/policies/base/rollback", {"version": 1})
        wire.delete("/api/v1/policies/base")
    kinds = [event["kind"] for event in tenant.events() if event["kind"].startswith("policy.")]
    assert sorted(kinds) == ["policy.deleted", "policy.put", "policy.put", "policy.rolled_back"]
    event = tenant.events(kind="policy.rolled_back")[0]
    assert event["policy_name"] == "base" and event["policy_version"] == 3 and event["key_id"].startswith("key_")
    assert "source" not in event, "the platform's own events are rows, not records of a journal"


def test_the_trail_tells_when_a_policy_was_switched_off_and_on(tenant):
    for more in ({}, {"is_active": False}, {"description": "still off"}, {"is_active": True}, {"description": "on"}):
        assert tenant.put("base", DENY, **more).status in (200, 201)
    tenant.put("draft", ALLOW, is_active=False)
    told = [(event["policy_name"], event["reason"]) for event in tenant.events(kind="policy.put", order="asc")]
    assert told == [("base", ""), ("base", "not in force any more"), ("base", "not in force"), ("base", "in force again"),
                    ("base", ""), ("draft", "not in force")]


def test_no_policy_is_of_every_tenant(stack):
    with stack.at_platform("root") as wire:
        refused(wire.put("/api/v1/policies/everywhere?tenant_id=*", {"content": ALLOW}), 400, "bad_value")
        refused(wire.put("/api/v1/policies/everywhere", {"content": ALLOW, "tenant_id": "*"}), 400, "bad_value")
        assert wire.get("/api/v1/policies?tenant_id=*").json["count"] == 0
        assert all(key["tenant"] == "*" for key in wire.get("/api/v1/keys?tenant_id=*").json["keys"]), "keys may be"


def test_a_tenant_sees_only_its_own(tenant, stack):
    tenant.policy(ALLOW, name="secret-plans")
    with stack.at_platform("admin") as wire:
        refused(wire.get("/api/v1/policies/secret-plans"), 404, "not_found")
        assert "secret-plans" not in [p["name"] for p in wire.get("/api/v1/policies").json["policies"]]
        refused(wire.get(f"/api/v1/policies?tenant_id={tenant.name}"), 403, "wrong_tenant")
    trace = tenant.ask("get_x")["trace_id"]
    tenant.trace(trace)
    with stack.at_platform("auditor") as wire:
        reply = wire.get(f"/api/v1/audit/trace/{trace}")
        assert reply.status == 404 or reply.json["count"] == 0
        refused(wire.get(f"/api/v1/audit?tenant_id={tenant.name}"), 403, "wrong_tenant")
        assert not [e for e in wire.get("/api/v1/audit?limit=500").json["events"] if e["tenant_id"] != "default"]


def test_a_key_for_every_tenant_names_one(tenant, stack):
    with stack.at_platform("root") as wire:
        refused(wire.get("/api/v1/policies"), 400, "tenant_required")
        refused(wire.put("/api/v1/policies/base", {"content": ALLOW, "tenantId": tenant.name}), 400, "wrong_case", "/tenantId")
        for name in "tenant", "tenant_id":
            refused(wire.post("/api/v1/keys", {"name": "n", "owner": "o", "roles": ["agent"], name: "t" * 257}), 400, "out_of_range", f"/{name}")
        refused(wire.post("/api/v1/keys/key_00000000000000000000000000/rotate", {"tenant_id": "t" * 257}), 400, "out_of_range", "/tenant_id")
        assert wire.get(f"/api/v1/policies?tenant_id={tenant.name}").status == 200
