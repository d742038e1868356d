"""Keys: who may make which, for whom a key may speak, and that a revoked one is dead in the engine."""

import concurrent.futures
import contextlib
import os
import select
import sqlite3
import subprocess
import time

import pytest

import harness
from test_contract import refused
from wire import Wire

AGENT, USER = "/v1/agent/authorize", "/v1/authorize"
DENIES = "rules:\n  - {id: drops, actions: [drop_table], decision: deny}\n"


def made(scene, by=None, **body):
    """Asks for a key as the tenant's admin, or by another key."""
    with scene.stack.at_platform(by or scene.admin) as wire:
        return wire.post("/api/v1/keys", {"name": "n", "owner": "o", "roles": ["agent"], **body})


def test_a_key_is_shown_once(tenant):
    reply = made(tenant, name="bot", actors=["bot-*"])
    assert reply.status == 201, reply
    key = reply.json
    assert len(key["key"]) == 80 and key["key"].startswith("wk_")
    assert key["id"].startswith("key_") and key["id"][4:] in key["key"]
    assert "mac" not in key
    with tenant.stack.at_platform(tenant.admin) as wire:
        listing = wire.get("/api/v1/keys")
    assert key["key"] not in listing.body.decode() and "mac" not in listing.body.decode()
    row = next(row for row in listing.json["keys"] if row["id"] == key["id"])
    assert row["name"] == "bot" and row["owner"] == "o" and row["roles"] == ["agent"] and row["actors"] == ["bot-*"]
    assert row["tenant"] == tenant.name and row["reviewers"] == ["o"]


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_that_clients_take_out_of_a_path_is_no_keys(tenant, name):
    """It would be an actor, and nobody could suspend it by its path."""
    refused(made(tenant, name=name), 400, "bad_value", "/name")
    assert made(tenant, name="...").status == 201


def test_a_key_works_in_the_engine_within_a_second(tenant):
    def seconds_until_it_works():
        begun = time.monotonic()
        key = made(tenant, name="bot").json["key"]
        took = time.monotonic() - begun
        with tenant.stack.at_engine(key) as wire:
            return harness.seconds_until(lambda: wire.post(AGENT, {"action": "get_x"}).status == 200), took

    harness.assert_within_a_second(seconds_until_it_works() for _ in range(5))


def test_a_revoked_key_is_dead_in_the_engine_when_the_answer_says_so(tenant):
    key = made(tenant, name="bot").json
    tenant.stack.wait_followed()
    with tenant.stack.at_engine(key["key"]) as wire, tenant.stack.at_platform(tenant.admin) as admin:
        assert wire.post(AGENT, {"action": "get_x"}).status == 200
        assert harness.revoked(admin, f"/api/v1/keys/{key['id']}").json == {"revoked": True, "behind": []}
        refused(wire.post(AGENT, {"action": "get_x"}), 401, ("credential_revoked", "unauthenticated"))
        refused(admin.delete("/api/v1/keys/key_00000000000000000000000000"), 404, "not_found")


def test_a_key_that_ended_a_month_ago_is_forgotten(fresh):
    """Else a fleet that rotates its keys would in the end have as many as there may be. It is refused as before."""
    stack = fresh().start()
    with stack.at_platform("root") as root:
        old, young = (root.post("/api/v1/keys?tenant_id=default", {"name": name, "owner": "o", "roles": ["agent"]}).json
                      for name in ("old", "young"))
        for key in (old, young):
            assert root.delete(f"/api/v1/keys/{key['id']}?tenant_id=default").status == 200
    stack.platform.stop()
    with sqlite3.connect(stack.data / "platform.db") as database:  # as if it had been 40 days ago
        database.execute("UPDATE keys SET key = json_set(key, '$.revoked_at', '2020-01-01T00:00:00.000Z') WHERE id = ?", (old["id"],))
    stack.set("adopt")
    stack.platform.start()

    def listed():
        with stack.at_platform("root") as root:
            return {row["id"] for row in root.get("/api/v1/keys?tenant_id=default&limit=500").json["keys"]}
    harness.eventually(lambda: old["id"] not in listed(), "the old key is forgotten")
    assert young["id"] in listed()

    def code(wire):
        with wire:
            reply = wire.post(AGENT, {"action": "get_x"})
        assert reply.status == 401, reply
        return reply.json["code"]
    for at in (stack.at_engine, stack.at_platform):
        harness.eventually(lambda: code(at(old["key"])) == "unauthenticated", "it is as unknown as any other")
        assert code(at(young["key"])) == "credential_revoked"
    assert '"keys_forgotten"' in stack.platform.log.read_text()


def be_silent_for_a_minute(stack, node):
    """In the short form the minute has passed while the platform was down: what it knows of the engine is that much older."""
    if harness.LONG:
        time.sleep(65)
        return
    stack.platform.stop()
    with sqlite3.connect(stack.data / "platform.db") as store:
        changed = store.execute("UPDATE followers SET seen_at = seen_at - 65000 WHERE node = ?", (node,)).rowcount
    store.close()
    assert changed == 1, "the platform has written down who asks for bundles"
    stack.platform.start()


def test_a_revocation_names_an_engine_that_has_been_silent_for_long(fresh):
    stack = fresh()
    stack.start()
    stack.key("bot", ["agent"])
    with stack.at_platform("engine") as wire:
        assert wire.request("GET", "/api/v1/bundle", headers={"Writ-Node": "cut-off"}).status == 200
    be_silent_for_a_minute(stack, "cut-off")
    with stack.at_platform("root") as wire:
        number = next(row["id"] for row in wire.get("/api/v1/keys?tenant_id=default").json["keys"] if row["name"] == "bot")

        def named():
            """The engine itself may be named once: the platform has just come back."""
            reply = wire.delete(f"/api/v1/keys/{number}?tenant_id=default").json
            assert reply["revoked"] is True and "cut-off" in reply["behind"], "it may decide by the key still"
            return reply["behind"] == ["cut-off"]
        harness.eventually(named, "the engine has heard of it")

        own = (stack.data / "engine" / "node").read_text().strip()

        def states():
            return {engine["node"]: engine["state"] for engine in wire.get("/api/v1/engines").json["engines"]}
        assert states() == {own: "current", "cut-off": "behind"}
    at = ("--platform", stack.platform.url)
    done = stack.cli("engine", "forget", "cut-off", *at, key=stack.keys["root"], check=False)
    assert done.returncode == 1 and '"force": true' in done.stderr, "for a day it may only be cut off"
    done = stack.cli("engine", "forget", "cut-off", "--force", *at, key=stack.keys["root"])
    assert done.stdout.endswith("Revocations no longer wait for it.\n"), done
    with stack.at_platform("root") as wire:
        assert wire.delete(f"/api/v1/keys/{number}?tenant_id=default").json["behind"] == []
        assert states() == {own: "current"}
    assert "cut-off" not in stack.cli("engine", "list", *at, key=stack.keys["root"]).stdout
    with stack.at_platform("engine") as wire:
        assert wire.request("GET", "/api/v1/bundle", headers={"Writ-Node": "cut-off"}).status == 200
    with stack.at_platform("root") as wire:
        harness.eventually(lambda: "cut-off" in states(), "an engine that asks again is known again")


def test_an_engine_that_another_platform_forgets_is_not_waited_for_here(fresh):
    """The other platform is an SQL statement: it reaches this one by the store alone."""
    stack = fresh()
    stack.start()
    stack.key("bot", ["agent"])

    def elsewhere(sql, *values):
        with sqlite3.connect(stack.data / "platform.db") as store:
            store.execute(sql, values)
        store.close()

    elsewhere("INSERT INTO followers (node, revision, seen_at) VALUES ('lost', 1, ?)", int(time.time() * 1000) - 600_000)
    with stack.at_platform("root") as wire:
        number = next(row["id"] for row in wire.get("/api/v1/keys?tenant_id=default").json["keys"] if row["name"] == "bot")

        def behind():
            return wire.delete(f"/api/v1/keys/{number}?tenant_id=default").json["behind"]
        assert "lost" in behind() and {e["node"]: e["state"] for e in wire.get("/api/v1/engines").json["engines"]}["lost"] == "silent"
        elsewhere("DELETE FROM followers WHERE node = 'lost'")
        assert "lost" not in behind()


def test_rotation_overlaps(tenant):
    old = made(tenant, name="bot").json
    tenant.stack.wait_followed()

    def rotated(key, overlap):
        with tenant.stack.at_platform(tenant.admin) as wire:
            new = wire.post(f"/api/v1/keys/{key['id']}/rotate", {"overlap_seconds": overlap})
        assert new.status in (200, 201) and new.json["key"] != key["key"], new
        tenant.stack.wait_followed()
        return new.json

    new = rotated(old, 3600)
    for key in (old["key"], new["key"]):
        with tenant.stack.at_engine(key) as wire:
            assert wire.post(AGENT, {"action": "get_x"}).status == 200
    newest = rotated(new, 2)
    end, beside = harness.seconds(newest["replaces"]["expires_at"]), 0.2  # the clocks of this process and the engine
    with tenant.stack.at_engine(new["key"]) as wire:
        while True:
            begun = time.time()
            status = wire.post(AGENT, {"action": "get_x"}).status
            if status != 200:
                break
            assert begun < end + beside, "the old key outlives its overlap"
            time.sleep(0.05)
    assert status == 401 and time.time() > end - beside, "its overlap is cut short"
    with tenant.stack.at_engine(newest["key"]) as wire:
        reply = wire.post(AGENT, {"action": "get_x"})
        assert reply.status == 200
    assert tenant.trace(reply.json["trace_id"])[0]["actor"] == "bot", "the principal stays the same"


def test_a_key_that_is_rotated_without_overlap_is_dead_when_the_answer_says_so(tenant):
    old = made(tenant, name="bot").json
    tenant.stack.wait_followed()
    with tenant.stack.at_engine(old["key"]) as wire, tenant.stack.at_platform(tenant.admin) as admin:
        heard = 0
        while heard < 5:
            assert wire.post(AGENT, {"action": "get_x"}).status == 200
            begun = time.monotonic()
            new = admin.post(f"/api/v1/keys/{old['id']}/rotate", {"overlap_seconds": 0})
            assert new.status == 201 and new.json["replaces"]["id"] == old["id"], new
            if new.json["behind"]:  # which says that the old one is not dead yet
                assert time.monotonic() - begun > 0.9, "nobody was waited for"
                tenant.stack.wait_followed()
            else:
                heard += 1
            refused(wire.post(AGENT, {"action": "get_x"}), 401, ("credential_revoked", "unauthenticated"))
            old = new.json
            wire.key = old["key"]
            assert wire.post(AGENT, {"action": "get_x"}).status == 200, "and the new one is known"


def test_an_expired_key_is_401(tenant):
    lead, key = 3, None
    while key is None:
        soon = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + lead))
        reply = made(tenant, name="bot", expires_at=soon)
        if reply.status == 201:
            key = reply.json["key"]
        else:  # it was over before it was asked for
            refused(reply, 400, "out_of_range", "/expires_at")
            assert time.time() > harness.seconds(soon) - 0.2
            lead *= 2
    tenant.stack.wait_followed()
    with tenant.stack.at_engine(key) as wire:
        reply = harness.eventually(lambda: (now := wire.post(AGENT, {"action": "get_x"})).status != 200 and now, "it ends")
    refused(reply, 401, ("credential_expired", "unauthenticated"))


def test_a_key_speaks_only_for_whom_it_names(tenant):
    key = made(tenant, name="bot", roles=["agent", "app"], actors=["bot", "sub-*"], users=["carol", "*@a.example"]).json["key"]
    tenant.stack.wait_followed()
    with tenant.stack.at_engine(key) as wire:
        for actor in ("bot", "sub-7"):
            assert wire.post(AGENT, {"action": "x", "actor": actor}).status == 200
        refused(wire.post(AGENT, {"action": "x", "actor": "other"}), 403, "wrong_actor", "/actor")
        assert wire.post(AGENT, {"action": "x", "acting_for": "dan@a.example"}).status == 200
        refused(wire.post(AGENT, {"action": "x", "acting_for": "eve"}), 403, "wrong_user", "/acting_for")
        assert wire.post(USER, {"action": "x", "user_id": "carol"}).status == 200
        refused(wire.post(USER, {"action": "x", "user_id": "Carol"}), 403, "wrong_user", "/user_id")
        refused(wire.post(AGENT, {"action": "x", "tenant_id": "default"}), 403, "wrong_tenant", "/tenant_id")
        assert wire.post(AGENT, {"action": "x", "tenant_id": tenant.name}).status == 200


def test_by_default_a_key_speaks_for_its_name_and_no_user(tenant):
    key = made(tenant, name="bot", roles=["agent", "app"]).json["key"]
    tenant.stack.wait_followed()
    with tenant.stack.at_engine(key) as wire:
        assert wire.post(AGENT, {"action": "x"}).status == 200
        refused(wire.post(AGENT, {"action": "x", "actor": "other"}), 403, "wrong_actor")
        refused(wire.post(USER, {"action": "x", "user_id": "carol"}), 403, "wrong_user")


def test_a_key_of_every_tenant_names_one_in_each_request(tenant, stack):
    with stack.at_platform("root") as wire:
        reply = wire.post("/api/v1/keys", {"name": "global", "owner": "g", "tenant": "*", "roles": ["agent"]})
    assert reply.status == 201, reply
    stack.wait_followed()
    with stack.at_engine(reply.json["key"]) as wire:
        refused(wire.post(AGENT, {"action": "x"}), 400, "tenant_required")
        answer = wire.post(AGENT, {"action": "x", "tenant_id": tenant.name})
        assert answer.status == 200
        assert wire.post(f"{AGENT}?tenant_id={tenant.name}", {"action": "x"}).status == 200
    assert tenant.trace(answer.json["trace_id"])[0]["tenant_id"] == tenant.name


def test_an_engine_whose_key_is_for_one_tenant_serves_that_one_and_publishes_all_of_it(fresh):
    stack = fresh()
    stack.make_first_keys()
    own = stack.bootstrap_key("acme-engines", "engine-owner", "ingest", "*", nodes="*", tenants="acme")
    stack.key_file.write_text(own + "\n")
    agent = stack.keys["admin"] = stack.bootstrap_key("everywhere", "o", "agent,app,admin", "*", actors="*", users="*")
    stack.platform.start()
    stack.engine.start()
    with stack.at_engine(agent) as wire:
        answers = [wire.post(AGENT, {"action": "get_x", "actor": "b", "tenant_id": tenant}) for tenant in ("acme", "other", "acme", "default")]
        listing = wire.get("/v1/queue/pending?tenant_id=other")
        minted = wire.post("/v1/tokens/mint", {"scope": "x", "tenant_id": "other"})
    assert [answer.status for answer in answers] == [200, 403, 200, 403], answers
    assert refused(answers[1], 403, "wrong_tenant", "/tenant_id")
    assert listing.status == minted.status == 403, (listing, minted)
    stack.wait_published()
    with stack.at_platform(agent) as wire:
        kinds = {tenant: [event["kind"] for event in wire.get(f"/api/v1/audit?tenant_id={tenant}&limit=100").json["events"]] for tenant in ("acme", "default")}
    assert kinds["acme"] == ["decision", "decision"] and "engine.started" in kinds["default"], kinds
    with Wire(stack.engine.address) as wire:
        assert wire.get("/healthz").json["checks"]["publish"] == "ok"


@pytest.mark.parametrize("body, code, field", [
    ({"name": None}, "missing_member", "/name"), ({"name": 5}, "wrong_type", "/name"), ({"owner": None}, "missing_member", "/owner"),
    ({"roles": None}, "missing_member", "/roles"), ({"roles": "agent"}, "wrong_type", "/roles"),
    ({"roles": ["emperor"]}, "bad_value", "/roles/0"), ({"actors": "x"}, "wrong_type", "/actors"),
    ({"actors": [5]}, "wrong_type", "/actors/0"), ({"expires_at": "soon"}, "bad_value", "/expires_at"),
    ({"name": "a" * 257}, "out_of_range", "/name"),
    ({"expires_at": "9999-12-31T23:59:59-23:59"}, "bad_value", "/expires_at"),  # in UTC the year 10000, which has no spelling
])
def test_a_wrong_key_is_named(tenant, body, code, field):
    document = refused(made(tenant, **body), 400, (code, "bad_value", "out_of_range") if code in ("bad_value", "out_of_range") else code)
    assert document["field"].startswith(field.rsplit("/0", 1)[0]), document


def test_an_admin_makes_keys_of_its_own_tenant_only(tenant):
    refused(made(tenant, tenant="default"), 403, "wrong_tenant")
    refused(made(tenant, tenant="*"), 403, ("wrong_tenant", "missing_role"))
    refused(made(tenant, roles=["ingest"]), 403, ("missing_role", "wrong_tenant"))
    assert made(tenant, roles=["admin"]).status == 201
    refused(made(tenant, by=tenant.auditor), 403, "missing_role")


def test_making_and_revoking_keys_is_audited(tenant):
    key = made(tenant, name="watched").json
    with tenant.stack.at_platform(tenant.admin) as wire:
        wire.delete(f"/api/v1/keys/{key['id']}")
    kinds = [event["kind"] for event in tenant.events() if event["kind"].startswith("key.")]
    assert kinds[:2] == ["key.revoked", "key.created"]


def test_refused_credentials_are_audited_by_source_and_second(tenant, stack):
    key = made(tenant, name="bot").json
    stack.wait_followed()
    wrong = key["key"][:31] + ("A" if key["key"][31] != "A" else "B") + key["key"][32:]
    for _ in range(20):
        with stack.at_engine(key["key"]) as wire:
            assert wire.post(AGENT, {"action": "x"}).status == 200
        with stack.at_engine(wrong) as wire:
            refused(wire.post(AGENT, {"action": "x"}), 401, "unauthenticated")
    with stack.at_platform(tenant.admin) as wire:
        wire.delete(f"/api/v1/keys/{key['id']}")
    with stack.at_engine(key["key"]) as wire:
        for _ in range(20):
            assert wire.post(AGENT, {"action": "x"}).status == 401

    def told():
        with stack.at_platform("root") as wire:
            found = []
            for name in (tenant.name, "default"):
                found += wire.get(f"/api/v1/audit?tenant_id={name}&kind=auth.failed&limit=500").json["events"]
        mine = [event for event in found if event.get("key_id") == key["id"]]
        return mine if sum(event.get("count", 1) for event in mine) >= 20 else None
    events = harness.eventually(told, "auth.failed events of the revoked key")
    harness.assert_told_once_a_second(events, int(harness.REACTORS))


def test_each_program_forwards_the_others_paths(tenant, stack):
    """One address serves a client, with the caller's own credential only."""
    tenant.policy('rules:\n  - {id: r, agents: ["*"], actions: ["get_*"], decision: allow}\n')
    with stack.at_platform(tenant.agent) as wire:
        reply = wire.post(AGENT, {"action": "get_x"})
        assert reply.status == 200 and reply.json["decision"] == "allow", reply
        assert wire.post("/api/v1/authorize", {"tool": "get_x"}).json["decision"] == "allow"
        refused(wire.post(AGENT, {"action": 5}), 400, "wrong_type", "/action")
        reply = wire.get(AGENT)
        refused(reply, 405, "method_not_allowed")
        assert reply.header("allow") == "POST"
    with stack.at_platform(None) as wire:
        reply = wire.post(AGENT, {"action": "get_x"})
        refused(reply, 401, "unauthenticated")
        assert reply.header("www-authenticate") == "Bearer"
    with stack.at_engine(tenant.admin) as wire:
        assert wire.get("/api/v1/policies").json["count"] == 1
        refused(wire.get("/api/v1/policies?colour=red"), 400, "unknown_parameter")
        got = wire.get("/api/v1/policies/base")
        assert got.header("etag")
    with stack.at_engine(tenant.auditor) as wire:
        assert wire.get("/api/v1/audit").status == 200
        refused(wire.get("/api/v1/keys"), 403, "missing_role")


def test_how_long_the_key_set_may_be_kept_is_told_by_either_program(stack):
    with Wire(stack.engine.address) as engine, Wire(stack.platform.address) as platform:
        told = [wire.get("/.well-known/jwks.json").header("cache-control") for wire in (engine, platform)]
    assert told[0] is not None and told[1] == told[0]


def test_what_is_forwarded_is_answered_as_if_it_were_not(tenant, stack):
    tenant.policy('rules:\n  - {id: r, agents: ["*"], actions: ["get_*"], decision: allow}\n')
    programs = (stack.engine.address, stack.platform.address)
    for path in ("/api/v1/policies/base", "/v1/actors?limit=5"):
        sizes = set()
        for address in programs:
            with Wire(address, tenant.admin) as wire:
                head = wire.request("HEAD", path)
                sizes.add(int(head.header("content-length")))
                sizes.add(len(wire.get(path).body))
                assert head.status == 200 and head.body == b"" and wire.get(f"http://writ.test{path}").status == 200
                twice = wire.encode("GET", path).replace(b"\r\n\r\n", b"\r\nAuthorization: Bearer x\r\n\r\n")
                refused(wire.raw(twice), 401, "unauthenticated")
        assert len(sizes) == 1, f"{path}: {sizes}"
    for address in programs:
        with Wire(address, tenant.agent) as wire:
            for headers in ({"Content-Type": "application/json;\tcharset=utf-8"}, {"X-Request-ID": "a\tb"}):
                assert wire.post(AGENT, {"action": "get_x"}, headers=headers).status == 200


def test_who_waits_by_the_other_programs_address_leaves_places_to_others(fresh):
    stack = fresh().start()
    stack.policy("base", "rules:\n  - {id: asks, actions: ['*'], decision: human_review}\n")
    flood = stack.key("flood", ["agent"], actors=["*"])
    with stack.at_engine(flood) as wire:
        reviews = [wire.post(AGENT, {"action": f"a{n}", "actor": "bot"}).json["review_id"] for n in range(3)]
    with stack.at_engine() as wire:
        mine = wire.post(AGENT, {"action": "mine"}).json["review_id"]
    waits = [stack.at_platform(flood).open() for _ in range(70)]
    try:
        for n, wire in enumerate(waits):
            wire.send(wire.encode("GET", f"/v1/queue/{reviews[n % 3]}/wait?timeout_ms=60000"))
        answered = harness.eventually(lambda: (ready := select.select([wire.socket for wire in waits], [], [], 0)[0]) and len(ready) >= 6 and ready, "some are refused")
        assert len(answered) == 6, "and the others wait"
        for wire in waits:
            if wire.socket in answered:
                refused(wire.read_reply(), 503, "overloaded")
        with stack.at_platform("agent") as wire:
            assert wire.get(f"/v1/queue/{mine}/wait?timeout_ms=100").json["status"] == "pending"
    finally:
        for wire in waits:
            wire.close()


def test_what_is_forwarded_keeps_its_conditions_and_its_retry(tenant, stack):
    """What is lost on the way is a change over another one's, or a second token where one was meant."""
    tenant.policy('rules:\n  - {id: r, agents: ["*"], actions: ["get_*"], decision: allow}\n')
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    with stack.at_engine(tenant.admin) as wire:
        path, body = "/api/v1/policies/base", {"content": DENIES}
        refused(wire.put(path, body, headers={"If-None-Match": "*"}), 412, "precondition_failed")
        refused(wire.put(path, body, headers={"If-Match": '"v9-9"'}), 412, "precondition_failed")
        tag = wire.get(path).header("etag")
        assert wire.get(path, headers={"If-None-Match": tag}).status == 304
        assert wire.put(path, {"content": DENIES, "is_active": False}, headers={"If-Match": tag}).status == 200
        refused(wire.request("DELETE", "/api/v1/audit"), 405, "method_not_allowed")
    with stack.at_platform(tenant.agent) as wire:
        retry = {"Idempotency-Key": "retry-1"}
        first = wire.post("/v1/tokens/mint", {"scope": "get_*"}, headers=retry)
        again = wire.post("/v1/tokens/mint", {"scope": "get_*"}, headers=retry)
        assert first.status == 201 and again.json == {**first.json, "replayed": True}, (first, again)
        refused(wire.post("/v1/tokens/mint", {"scope": "list_*"}, headers=retry), 422, "idempotency_mismatch")
        reply = wire.post(AGENT, {"action": "get_x"}, headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01", "X-Request-ID": "abc-1"})
        assert reply.json["trace_id"] == trace and reply.header("x-request-id") == "abc-1", reply
        to_and_fro = wire.encode("POST", AGENT, {"action": "get_x"}, {"Writ-Forwarded": "1"})
        refused(wire.raw(to_and_fro), 404, "not_found")
        for _ in range(200):  # one after the other, as many as it takes
            assert wire.get("/v1/tokens?limit=1").status == 200


def test_who_waits_through_the_platform_keeps_out_neither_who_reads_nor_who_resolves(fresh):
    stack = fresh().start()
    reviewer = stack.key("rita", ["reviewer"], owner="rita", reviewers=["*"])
    stack.policy("base", "rules:\n  - {id: r, actions: [pay], decision: human_review}\n")
    with stack.at_engine() as wire:
        reviews = [wire.post(AGENT, {"action": "pay", "actor": f"bot-{i}"}).json["review_id"] for i in range(5)]
    waits = []
    try:
        for i in range(300):
            wire = stack.at_platform("agent")
            wire.send(wire.encode("GET", f"/v1/queue/{reviews[i % 5]}/wait?timeout_ms=60000"))
            waits.append(wire)
        harness.eventually(lambda: select.select([wire.socket for wire in waits], [], [], 0)[0], "as many wait as may, and some are refused")
        with stack.at_platform("agent") as wire:
            refused(wire.get(f"/v1/queue/{reviews[0]}/wait"), 503, "overloaded")
            assert wire.get("/.well-known/jwks.json").status == 200
        with stack.at_platform(reviewer) as wire:
            assert len(wire.get("/v1/queue/pending").json["items"]) == 5
            assert wire.post(f"/v1/queue/{reviews[1]}/approve", {}).status == 200
        assert waits[1].read_reply().json["status"] == "approved"
        with stack.at_platform("admin") as wire:
            assert wire.post("/v1/actors/bot-0/suspend", {"reason": "test"}).status == 200
    finally:
        for wire in waits:
            wire.close()


def test_a_peer_whose_name_nobody_knows_yet_is_found_later(fresh, tmp_path):
    """Containers are started one after the other: the engine's name is known when the engine is there."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("SKIP: a hosts file of one's own needs root, and a machine that allows mounts")
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    own_hosts = ["unshare", "-m", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "sh"]
    stack = fresh(platform_prefix=own_hosts)
    stack.platform.arguments += ["--engine.url", f"http://engine.test:{stack.engine.port}"]
    stack.start()
    with stack.at_platform("agent") as wire:
        refused(wire.post(AGENT, {"action": "get_x"}), 502, "upstream_failed")
    hosts.write_text("127.0.0.1 localhost engine.test\n")

    def forwarded():
        with stack.at_platform("agent") as wire:
            return wire.post(AGENT, {"action": "get_x"}).status == 200
    harness.eventually(forwarded, "requests reach the engine")


@contextlib.contextmanager
def another_platform(stack):
    """Of the same store."""
    other = harness.free_port()
    data = stack.folder / "other"
    data.mkdir()
    program = harness.Program("writ-platform", other, [
        "--data", data, "--store", stack.data / "platform.db", "--pepper_file", stack.data / "pepper", "--listen", f"127.0.0.1:{other}"],
        stack.folder / "other.log").start()
    try:
        yield program
    finally:
        program.end()


def test_a_key_that_is_revoked_at_two_platforms_at_once_works_at_neither(fresh):
    """As a balancer's retry does it: the second finds it revoked, and has not heard of that yet."""
    stack = fresh()
    stack.make_first_keys()
    stack.platform.start()
    with another_platform(stack) as other, stack.at_platform("root") as root, Wire(other.address, stack.keys["root"]) as elsewhere:
        for _ in range(5):
            made = root.post("/api/v1/keys", {"name": "leaver", "owner": "o", "tenant": "default", "roles": ["auditor"]}).json
            with stack.at_platform(made["key"]) as here, Wire(other.address, made["key"]) as there:
                for wire in here, there:
                    harness.eventually(lambda: wire.get("/api/v1/audit?limit=1").status == 200, "the key is known")
                with concurrent.futures.ThreadPoolExecutor(2) as pool:
                    for reply in pool.map(lambda wire: wire.delete(f"/api/v1/keys/{made['id']}"), (root, elsewhere)):
                        assert reply.status == 200 and reply.json["revoked"] is True, reply
                for wire in here, there:
                    harness.eventually(lambda: wire.get("/api/v1/audit?limit=1").status == 401, "nobody takes it any more")


def test_a_revoked_key_changes_nothing_at_another_platform_either(fresh):
    """Which has not heard of it yet: what the store has is what counts."""
    stack = fresh()
    stack.make_first_keys()
    stack.platform.start()
    with another_platform(stack) as program:
        with stack.at_platform("root") as root, Wire(program.address) as elsewhere:
            for method, path, body in (("PUT", "/api/v1/policies/p", {"content": DENIES}),
                                       ("POST", "/api/v1/keys", {"name": "n", "owner": "o", "roles": ["admin"]}),
                                       ("DELETE", "/api/v1/policies/base", None), ("DELETE", "KEY", None), ("POST", "KEY/rotate", None)):
                assert root.put("/api/v1/policies/base?tenant_id=default", {"content": DENIES}).status in (200, 201)
                made = root.post("/api/v1/keys", {"name": "leaver", "owner": "o", "tenant": "default", "roles": ["admin"]}).json
                elsewhere.key = made["key"]
                harness.eventually(lambda: elsewhere.get("/api/v1/policies").status == 200, "the key is known there")
                assert root.delete(f"/api/v1/keys/{made['id']}").status == 200
                path = path.replace("KEY", f"/api/v1/keys/{made['id']}")
                refused(elsewhere.request(method, path, body), 401, "credential_revoked")
