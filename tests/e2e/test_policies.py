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


# ---- sets: several policies as one change, and the roles that they share ----

ROLES = "roles: {contractor: [erin], finance: [dave]}\n"


def deny_role(role, name="no-drop"):
    return f'rules:\n  - {{id: {name}, roles: [{role}], actions: ["drop_*"], decision: deny}}\n'


def apply(tenant, policies=(), delete=(), query="", key=None, status=200):
    body = {"policies": [{"name": name, "content": text} for name, text in dict(policies).items()], "delete": list(delete)}
    with at(tenant, key) as wire:
        reply = wire.post(f"/api/v1/policies:apply{query}", body)
    assert reply.status == status, reply
    return reply.json


def changes(answer):
    return {p["name"]: p["change"] for p in answer["policies"]}


def in_force(tenant):
    with at(tenant) as wire:
        return {p["name"]: p["content"] for p in wire.get("/api/v1/policies").json["policies"]}


def test_a_misspelled_role_is_refused_with_its_place(tenant):
    answer = refused(tenant.put("base", ROLES + deny_role("contracter")), 400, "invalid_policy", "/content")
    assert answer["error"] == ('content: base: line 3 (rules[0].roles[0]): no document defines the role "contracter"; did you mean "contractor"?')
    assert answer["details"] == [{"policy": "base", "path": "rules[0].roles[0]", "line": 3, "column": 5,
                                  "message": 'roles[0]: no document defines the role "contracter"; did you mean "contractor"?'}]
    refused(tenant.put("base", ROLES + deny_role("contracter"), query="?dry_run=true"), 400, "invalid_policy")
    assert in_force(tenant) == {}


@pytest.mark.parametrize("rule, path", [
    ("roles: [finence], actions: [x], decision: deny", "rules[0].roles[0]"),
    ("roles: [finance, finence], users: [u], actions: [x], decision: allow", "rules[0].roles[1]"),
    ("actions: [x], decision: human_review, review: {by: [finence]}", "rules[0].review.by[0]"),
    ("actions: [x], decision: deny, when: \"'finence' in roles\"", "rules[0].when"),
    ("actions: [x], decision: deny, when: \"!(['finance', 'finence'].exists(r, r in roles))\"", "rules[0].when"),
])
def test_every_place_that_names_a_role_is_checked(tenant, rule, path):
    text = f"rules:\n  - {{id: a, {rule}}}\n"
    answer = refused(tenant.put("base", ROLES + text), 400, "invalid_policy")
    assert [d["path"] for d in answer["details"]] == [path]
    assert tenant.put("base", ROLES + text.replace("finence", "finance")).status == 201
    assert tenant.put("apart", text.replace("finence", "contractor")).status == 201  # another document's role
    assert tenant.put("off", text, is_active=False).status == 201                   # not in the set
    refused(tenant.put("off", text, is_active=True), 400, "invalid_policy")


def test_a_set_comes_into_force_as_one_or_not_at_all(tenant):
    assert refused(tenant.put("denies", deny_role("contractor")), 400, "invalid_policy")
    answer = apply(tenant, {"denies": deny_role("contractor"), "roles": ROLES})
    assert changes(answer) == {"denies": "created", "roles": "created"} and answer["warnings"] == [] and answer["dry_run"] is False
    assert changes(apply(tenant, {"denies": deny_role("contractor"), "roles": ROLES}, ["nothing"])) == {
        "denies": "unchanged", "roles": "unchanged", "nothing": "unchanged"}
    before = in_force(tenant)
    answer = apply(tenant, {"roles": "roles: {other: [erin]}\n", "more": ALLOW, "broken": ALLOW.replace("allow}", "alow}")}, status=400)
    assert answer["code"] == "invalid_policy" and answer["field"] == "/policies/2/content"
    assert [d["policy"] for d in answer["details"]] == ["broken"] and answer["details"][0]["path"] == "rules[0].decision"
    assert in_force(tenant) == before
    # A move of a rule from one document to another, and a role with it.
    moved = {"denies": deny_role("contractor") + ROLES}
    assert changes(apply(tenant, moved, ["roles"], query="?dry_run=true")) == {"denies": "updated", "roles": "deleted"}
    assert in_force(tenant) == before
    assert changes(apply(tenant, moved, ["roles"])) == {"denies": "updated", "roles": "deleted"}
    assert in_force(tenant) == moved


def test_what_takes_away_a_role_that_is_still_named_is_refused_by_rule_and_document(tenant):
    apply(tenant, {"roles": ROLES, "denies": deny_role("contractor"), "base": ALLOW})
    named = 'rule no-drop of policy denies names the role "contractor", which no document defines'
    with at(tenant) as wire:
        for reply in (wire.delete("/api/v1/policies/roles"), wire.put("/api/v1/policies/roles", {"content": "roles: {a: [b]}\n"}),
                      wire.put("/api/v1/policies/roles", {"content": ROLES, "is_active": False}),
                      wire.post("/api/v1/policies:apply", {"delete": ["roles"]})):
            answer = refused(reply, 409, "role_in_use")
            assert answer["error"].startswith(named), answer
            assert [(d["policy"], d["path"]) for d in answer["details"]] == [("denies", "rules[0].roles[0]")]
        assert wire.put("/api/v1/policies/roles", {"content": "roles: {contractor: [zoe]}\n"}).status == 200
        assert wire.delete("/api/v1/policies/base").status == 200
        # A rollback obeys the same rule.
        assert wire.put("/api/v1/policies/denies", {"content": DENY}).status == 200
        assert wire.put("/api/v1/policies/roles", {"content": "roles: {a: [b]}\n"}).status == 200
        refused(wire.post("/api/v1/policies/denies/rollback", {"version": 1}), 400, "invalid_policy")
        assert wire.post("/api/v1/policies/roles/rollback", {"version": 1}).status == 200
        assert wire.post("/api/v1/policies/denies/rollback", {"version": 1}).status == 200


def test_force_does_it_and_the_record_says_so(tenant):
    apply(tenant, {"roles": ROLES, "denies": deny_role("contractor")})
    with at(tenant) as wire:
        assert wire.delete("/api/v1/policies/roles?force=true").status == 200
        assert wire.put("/api/v1/policies/typo?force=true", {"content": deny_role("contracter", "typo")}).status == 201
        # What was so before is no obstacle to a change of something else.
        assert wire.put("/api/v1/policies/base", {"content": ALLOW}).status == 201
        assert wire.delete("/api/v1/policies/denies?force=true").status == 200
        assert wire.delete("/api/v1/policies/typo").status == 200
    with at(tenant, tenant.auditor) as wire:
        events = [e for e in wire.get("/api/v1/audit?limit=20").json["events"] if e["kind"].startswith("policy.")]
    told = [(e["kind"], e["policy_name"], e.get("reason")) for e in reversed(events)]
    assert told[2:] == [
        ("policy.deleted", "roles", 'forced: rule no-drop of policy denies names the role "contractor", which no document defines'),
        ("policy.put", "typo", 'forced: rule typo of policy typo names the role "contracter", which no document defines'),
        ("policy.put", "base", ""), ("policy.deleted", "denies", ""), ("policy.deleted", "typo", "")]


@pytest.mark.parametrize("body, code, field", [
    ({}, "missing_member", "/policies"),
    ({"policies": {}}, "wrong_type", "/policies"),
    ({"policies": [1]}, "wrong_type", "/policies/0"),
    ({"policies": [{"content": ALLOW}]}, "missing_member", "/policies/0/name"),
    ({"policies": [{"name": "a/b", "content": ALLOW}]}, "bad_value", "/policies/0/name"),
    ({"policies": [{"name": "a"}]}, "missing_member", "/policies/0/content"),
    ({"policies": [{"name": "a", "content": 1}]}, "wrong_type", "/policies/0/content"),
    ({"policies": [{"name": "a", "content": ALLOW, "active": True}]}, "unknown_member", "/policies/0/active"),
    ({"policies": [{"name": "a", "content": "#" + "x" * (1 << 20)}]}, "out_of_range", "/policies/0/content"),
    ({"policies": [{"name": "a", "content": ALLOW}, {"name": "a", "content": DENY}]}, "bad_value", "/policies/1/name"),
    ({"policies": [{"name": "a", "content": ALLOW}], "delete": ["a"]}, "bad_value", "/delete/0"),
    ({"policies": [{"name": "a", "content": ALLOW, "is_active": 1}]}, "wrong_type", "/policies/0/is_active"),
    ({"delete": [f"p{i}" for i in range(1025)]}, "out_of_range", "/delete"),
    ({"policies": [], "deletes": ["a"]}, "unknown_member", "/deletes"),
])
def test_a_wrong_apply_is_named(tenant, body, code, field):
    with at(tenant) as wire:
        refused(wire.post("/api/v1/policies:apply", body), 400, code, field)


def test_apply_through_the_engine_and_by_whom(tenant):
    with tenant.stack.at_engine(tenant.admin) as wire:
        reply = wire.post("/api/v1/policies:apply", {"policies": [{"name": "base", "content": {"roles": {"a": ["b"]}}}]})
        assert reply.status == 200 and changes(reply.json) == {"base": "created"}
    with at(tenant, tenant.auditor) as wire:
        refused(wire.post("/api/v1/policies:apply", {"policies": []}), 403, "missing_role")


def test_what_is_in_force_and_would_be_refused_today_is_in_health(fresh):
    stack = fresh().start()
    def told():
        with stack.at_platform(None) as wire:
            return wire.get("/healthz").json.get("policies_refused_when_put")
    harness.eventually(lambda: told() == {"count": 0, "policies": []}, "nothing would be refused")
    with stack.at_platform("root") as wire:
        assert wire.put("/api/v1/policies/base?force=true&tenant_id=one", {"content": ROLES + deny_role("contracter")}).status == 201
        assert wire.put("/api/v1/policies/fine?tenant_id=two", {"content": ROLES + deny_role("contractor")}).status == 201
    harness.eventually(lambda: told() == {"count": 1, "policies": [
        {"policy": "base", "path": "rules[0].roles[0]", "line": 3, "column": 5,
         "problem": 'no document defines the role "…"; did you mean "…"?'}]}, "it is told, without a text of the document")
    with stack.at_platform(None) as wire:
        assert wire.get("/healthz").json["status"] == "ok"
    assert stack.metrics(stack.platform)["writ_platform_policies_refused_when_put"] == 1
    log = stack.platform.log.read_text()
    assert '"policy_would_be_refused"' in log and "contracter" in log and '"tenant":"one"' in log
    stack.platform.stop()
    stack.platform.start()
    harness.eventually(lambda: (told() or {}).get("count") == 1, "it is in force, and told, after a restart")
    done = stack.cli("doctor", "--engine", stack.engine.url, "--platform", stack.platform.url, key="admin", check=False)
    assert "base is in force, and would be refused if it were put today: line 3, rules[0].roles[0]" in done.stdout, done
    with stack.at_platform("root") as wire:
        assert wire.put("/api/v1/policies/roles?tenant_id=one", {"content": "roles: {contracter: [zoe]}\n"}).status == 201
    harness.eventually(lambda: told()["count"] == 0, "the role is there")
