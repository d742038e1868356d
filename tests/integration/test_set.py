"""Write access to the database without the pepper: rows of keys and policies that are forged, deleted, exchanged or older.

Engines take none of it, running or starting: what they had stays in force, and /healthz of both programs names the row.
"""

import hashlib
import json
import sqlite3

import pytest

import harness
from fleet import eventually
from test_postgres import psql

RULES = "rules:\n  - {{id: {0}, agents: ['*'], actions: [{1}], decision: {2}}}\n"
NEXT = ("UPDATE store SET revision = revision + 1, history_id = 'f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0';"
        "INSERT INTO revisions (number, history_id) SELECT revision, history_id FROM store;")


class Store:
    """Everything that somebody with the database can do."""

    TABLES = ["store", "revisions", "set_rows", "keys", "policies", "policy_versions"]

    def __init__(self, one):
        self.path, self.url = one.stack.data / "platform.db", one.store_url

    def run(self, sql):
        if self.url:
            return psql(self.url, sql)
        with sqlite3.connect(self.path, timeout=30) as database:
            database.executescript(f"BEGIN IMMEDIATE; {sql}; COMMIT;")
        database.close()

    def keep(self, name):
        self.run("; ".join(f"DROP TABLE IF EXISTS {name}_{t}; CREATE TABLE {name}_{t} AS SELECT * FROM {t}" for t in self.TABLES))

    def columns(self, table):
        if table == "keys":
            return "number, id, tenant_id, key"  # the others are made from these
        return "*"

    def put_back(self, name):
        """All rows as they were kept; the deny of a foreign key is obeyed."""
        away = "; ".join(f"DELETE FROM {t}" for t in reversed(self.TABLES) if t != "policy_versions")
        back = [f"INSERT INTO {t} SELECT * FROM {name}_{t}" for t in ("store", "revisions", "set_rows", "policy_versions", "policies")]
        back.append(f"INSERT INTO keys (number, id, tenant_id, key) SELECT number, id, tenant_id, key FROM {name}_keys")
        self.run(f"{away}; DELETE FROM policy_versions; {'; '.join(back)}")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def kept(request, tmp_path_factory):
    """A pair of programs, with two states of its store: `older`, and `good`, which is in force."""
    from fleet import Fleet
    postgres = request.getfixturevalue("postgres") if request.param == "postgres" else None
    one = Fleet(tmp_path_factory.mktemp("set"), postgres=postgres).start()
    stack, one.store = one.stack, Store(one)
    with stack.at_platform("root") as wire:
        one.keys = {name: wire.post("/api/v1/keys", {"name": name, "owner": "o", "tenant": "default", "roles": ["agent"], "actors": ["*"]}).json
                    for name in ("bot", "gone", "other")}
        stack.policy("stop", RULES.format("stop", "x", "allow"))
        stack.policy("also", RULES.format("also", "y", "allow"))
        one.store.keep("older")
        assert wire.delete(f"/api/v1/keys/{one.keys['gone']['id']}?tenant_id=default").status == 200
    stack.policy("stop", RULES.format("stop", "x", "deny"))
    stack.policy("also", RULES.format("also", "y", "deny"))
    one.store.keep("good")
    yield one
    one.close()


def check(one, program, name):
    with harness.Wire(("127.0.0.1", program.port)) as wire:
        return wire.get("/healthz").json["checks"][name]


def good_is_in_force(one):
    for key, status in (("bot", 200), ("gone", 401)):
        with one.stack.at_engine(one.keys[key]["key"]) as wire:
            reply = wire.post("/v1/agent/authorize", {"action": "x", "agent_id": "bot"})
            assert reply.status == status, reply
            assert status != 200 or reply.json["rule"] == "deny:stop", reply
            if status == 200:
                assert wire.post("/v1/agent/authorize", {"action": "y", "agent_id": "bot"}).json["rule"] == "deny:also"
                assert wire.post("/v1/actors/bot/suspend", {"reason": "x"}).status == 403, "it has become no admin"


def healthy(one):
    eventually(lambda: check(one, one.platform, "set") == "ok", "the platform finds the set good")
    eventually(lambda: check(one, one.engine, "feed") == "ok", "the engine follows")


TEXT = "UPDATE policy_versions SET content = replace(content, 'deny', 'allow'){0} WHERE name = 'stop' AND version = 2"
ATTACKS = {  # what is done: SQL ({bot}, {gone}: ids), and the row that is named
    "a key becomes an admin": ("UPDATE keys SET key = replace(key, '[\"agent\"]', '[\"admin\",\"agent\"]') WHERE id = '{bot}'", "key {bot} was changed"),
    "a key is for all tenants": ("UPDATE keys SET tenant_id = '*', key = replace(key, '\"default\"', '\"*\"') WHERE id = '{bot}'", "key {bot} was changed"),
    "a key is added": ("INSERT INTO keys (id, tenant_id, key) SELECT 'key_00000000000000000000000001', tenant_id, replace(key, id, "
                       "'key_00000000000000000000000001') FROM keys WHERE id = '{bot}'", "key key_00000000000000000000000001 was added"),
    "a revoked key is deleted": ("DELETE FROM keys WHERE id = '{gone}'", "key {gone} was deleted"),
    "and its entry": ("DELETE FROM keys WHERE id = '{gone}'; DELETE FROM set_rows WHERE name = '{gone}'", "set_rows or store does not fit"),
    "a revoked key is as before": ("UPDATE keys SET key = (SELECT key FROM older_keys WHERE id = '{gone}') WHERE id = '{gone}'", "key {gone} was changed"),
    "and its entry is as before": ("UPDATE keys SET key = (SELECT key FROM older_keys WHERE id = '{gone}') WHERE id = '{gone}'; UPDATE set_rows SET digest = "
                                   "(SELECT digest FROM older_set_rows WHERE name = '{gone}') WHERE name = '{gone}'", "set_rows or store does not fit"),
    "two keys are exchanged": ("UPDATE keys SET key = CASE id WHEN '{bot}' THEN (SELECT key FROM good_keys WHERE id = '{other}') ELSE (SELECT key FROM good_keys "
                               "WHERE id = '{bot}') END WHERE id IN ('{bot}', '{other}')", "key {bot} was changed"),
    "a policy has another text": (TEXT.format(""), "policy stop of tenant default was changed"),
    "and another digest": (TEXT.format(", digest = '" + "0" * 64 + "'"), "policy stop of tenant default was changed"),
    "a policy is switched off": ("UPDATE policies SET is_active = 0 WHERE name = 'stop'", "policy stop of tenant default was changed"),
    "a policy is deleted": ("DELETE FROM policies WHERE name = 'stop'", "policy stop of tenant default was deleted"),
    "a policy is of a file": ("UPDATE policies SET updated_by = 'policies.dir', directory = '/d' WHERE name = 'stop'", "policy stop of tenant default was changed"),
    "a policy has an older version": ("UPDATE policies SET version = 1 WHERE name = 'stop'", "policy stop of tenant default was changed"),
    "two policies are exchanged": ("UPDATE policy_versions SET content = (SELECT content FROM good_policy_versions o WHERE o.version = 2 AND o.name = CASE "
                                   "policy_versions.name WHEN 'stop' THEN 'also' ELSE 'stop' END) WHERE version = 2 AND name IN ('stop', 'also')",
                                   "policy also of tenant default was changed; policy stop of tenant default was changed"),
    "the MAC is removed": ("UPDATE store SET set_mac = ''", "are not adopted"),
    "an older one is claimed to be adopted": ("UPDATE store SET adopted_at = adopted_at + 1, revision = revision - 2; DELETE FROM revisions WHERE number > "
                                              "(SELECT revision FROM store)", "set_rows or store does not fit"),
    "a later adoption is claimed": ("UPDATE store SET adopted_at = adopted_at + 1", "set_rows or store does not fit"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_running_engine_keeps_what_it_has_and_names_the_row(kept, attack):
    one = kept
    ids = {name: key["id"] for name, key in one.keys.items()}
    sql, named = (text.format(**ids) for text in ATTACKS[attack])
    one.store.run(f"{sql}; {NEXT}")
    try:
        eventually(lambda: check(one, one.platform, "set") != "ok", "the platform notices")
        eventually(lambda: check(one, one.engine, "feed") != "ok", "the engine, too")
        for program, name in ((one.platform, "set"), (one.engine, "feed")):
            assert named in check(one, program, name), check(one, program, name)
        good_is_in_force(one)
    finally:
        one.store.put_back("good")
    healthy(one)
    good_is_in_force(one)


FORGED = ATTACKS["a key becomes an admin"]


def test_a_starting_engine_takes_its_last_good_set_or_none(kept):
    one, engine = kept, kept.engine
    sql, named = (text.format(bot=one.keys["bot"]["id"]) for text in FORGED)
    one.store.run(f"{sql}; {NEXT}")
    engine.stop()
    engine.start()
    eventually(lambda: named in check(one, engine, "feed"), "the row is named")
    good_is_in_force(one)
    engine.stop()
    (one.stack.engine_data / "engine" / "bundle.json").unlink()
    engine.start(ready=False)
    eventually(engine.is_listening, "it listens")
    eventually(lambda: named in check(one, engine, "feed"), "the row is named")
    assert not engine.is_ready()
    with one.stack.at_engine(one.keys["bot"]["key"]) as wire:
        assert wire.post("/v1/agent/authorize", {"action": "x", "agent_id": "bot"}).status == 503
    one.store.put_back("good")
    engine.wait_ready()
    healthy(one)
    good_is_in_force(one)


def test_a_copy_on_the_engines_disk_needs_its_mac(kept):
    """It is whole, and has the digest of its text."""
    engine, copy = kept.engine, kept.stack.engine_data / "engine" / "bundle.json"
    engine.stop()
    kept.platform.stop()
    text = copy.read_bytes()[:-66]
    assert text.count(b"decision: deny") == 3
    forged = text.replace(b"decision: deny", b"decision: allow")
    copy.write_bytes(forged + b"\n" + hashlib.sha256(forged).hexdigest().encode() + b"\n")
    engine.start(ready=False)
    eventually(engine.is_listening, "it listens")
    assert "the bundle's MAC does not fit" in engine.tail() and not engine.is_ready()
    kept.platform.start()
    engine.wait_ready()
    good_is_in_force(kept)


def test_a_starting_platform_accepts_no_forged_key_and_changes_nothing_from_its_row(kept):
    one, key = kept, kept.keys["bot"]
    sql, named = (text.format(bot=key["id"]) for text in FORGED)
    one.platform.stop()
    one.store.run(sql)
    one.platform.start()
    assert named in check(one, one.platform, "set")
    with one.stack.at_platform(key["key"]) as wire:
        assert wire.get("/api/v1/keys").status == 401
    with one.stack.at_platform("root") as wire:
        reply = wire.post(f"/api/v1/keys/{key['id']}/rotate?tenant_id=default", {})
        assert (reply.status, reply.json["code"]) == (503, "set_refused") and named in reply.json["error"], reply
        assert wire.get("/api/v1/audit?tenant_id=default").status == 200
    shown = json.loads(one.stack.cli("--json", "set", "show", "--data", one.stack.data, *(["--store", one.store_url] if one.store_url else []),
                                     check=False).stdout)
    assert {row["id"]: row["row"] for row in shown["keys"] if row["row"] != "good"} == {key["id"]: "changed"}
    assert named in shown["trouble"] and {row["row"] for row in shown["policies"]} == {"good"} and shown["missing"] == []
    one.store.put_back("good")
    healthy(one)


def test_a_rollback_takes_no_forged_version(kept):
    kept.store.run("UPDATE policy_versions SET content = replace(content, 'id: stop', 'id: forged') WHERE name = 'stop' AND version = 1")
    with kept.stack.at_platform("root") as wire:
        reply = wire.post("/api/v1/policies/stop/rollback?tenant_id=default", {"version": 1})
    assert (reply.status, reply.json["code"]) == (503, "set_refused") and "another text in version 1" in reply.json["error"], reply
    kept.store.put_back("good")
    healthy(kept)


def test_an_older_state_of_everything_is_refused_until_it_is_adopted(kept):
    """It was good once. A platform that saw more refuses it; a platform that did not sends it, and engines refuse it."""
    one = kept
    one.store.put_back("older")
    eventually(lambda: "does not follow revision" in check(one, one.platform, "set"), "the platform notices")
    eventually(lambda: "does not follow revision" in check(one, one.engine, "feed"), "the engine, too")
    good_is_in_force(one)
    one.platform.stop()
    one.platform.start()
    eventually(lambda: "is older than" in check(one, one.engine, "feed"), "the engine refuses it by itself")
    good_is_in_force(one)
    assert "gone" in one.stack.set("adopt").stdout
    healthy(one)

    def rule():
        with one.stack.at_engine(one.keys["bot"]["key"]) as wire:
            return wire.post("/v1/agent/authorize", {"action": "x", "agent_id": "bot"}).json["rule"]
    eventually(lambda: rule() == "allow:stop", "what was adopted is in force")
    one.store.put_back("good")  # of before the adoption, and with a higher number than it
    eventually(lambda: "does not follow revision" in check(one, one.platform, "set"), "the platform notices")
    one.platform.stop()
    one.platform.start()
    eventually(lambda: "is of before the adoption" in check(one, one.engine, "feed"), "the engine refuses it by itself")
    assert rule() == "allow:stop"
