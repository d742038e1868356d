"""A store that goes back under a running platform: an asynchronous failover that loses its tail, a restored copy.

What it lost is gone, but nothing becomes looser: no key that was revoked is accepted, and no answer says
"revoked" before the engine has heard of it.
"""

import sqlite3
import subprocess

import pytest

import harness
from fleet import eventually
from test_postgres import psql

RULES = "rules:\n  - {{id: {0}, agents: ['*'], actions: [x], decision: allow}}\n"


class Sqlite:
    def __init__(self, one):
        self.stack = one.stack
        self.path, self.kept = one.stack.data / "platform.db", one.folder / "kept.db"

    def copy(self, source, target):
        with sqlite3.connect(source) as a, sqlite3.connect(target) as b:
            a.backup(b)
        a.close()
        b.close()

    def keep(self):
        self.copy(self.path, self.kept)

    def go_back(self):
        self.copy(self.kept, self.path)
        self.stack.set("adopt")


class Postgres:
    """Two databases; the older one takes the name of the newer one."""

    def __init__(self, one, server):
        self.stack, self.server, self.url = one.stack, server, one.store_url
        self.name = one.store_url.split("@/")[1].split("?")[0]

    def sql(self, text):
        return psql(self.server.url("postgres"), text)

    def keep(self):
        self.sql(f"CREATE DATABASE {self.name}_kept")
        dump = subprocess.run(["pg_dump", "-d", self.url], capture_output=True, check=True).stdout
        subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", self.server.url(f"{self.name}_kept")], input=dump, check=True,
                       stdout=subprocess.DEVNULL)

    def go_back(self):
        self.sql(f"ALTER DATABASE {self.name} ALLOW_CONNECTIONS false")
        # again and again: one that was about to open when this began is listed only once it is open
        eventually(lambda: self.sql(f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{self.name}'") == "0",
                   "all connections have ended")
        self.sql(f"ALTER DATABASE {self.name} RENAME TO {self.name}_lost")
        self.sql(f"ALTER DATABASE {self.name}_kept RENAME TO {self.name}")
        self.stack.set("adopt")


@pytest.fixture(params=["sqlite", "postgres"])
def one(request, fleet):
    postgres = request.getfixturevalue("postgres") if request.param == "postgres" else None
    made = fleet(postgres=postgres)
    made.states = Sqlite(made) if postgres is None else Postgres(made, postgres)
    made.stack.policy("base", RULES.format("first"))
    return made


def asked(one, key):
    with one.stack.at_engine(key) as wire:
        return wire.post("/v1/agent/authorize", {"action": "x", "agent_id": "bot"})


def revoked(one, key):
    """A platform whose connections were cut may refuse once."""
    with one.stack.at_platform("root") as wire:
        return eventually(lambda: (reply := wire.delete(f"/api/v1/keys/{key['id']}?tenant_id=default")).status != 503 and reply, "it is revoked")


def made(one, name):
    with one.stack.at_platform("root") as wire:
        return wire.post("/api/v1/keys", {"name": name, "owner": "o", "tenant": "default", "roles": ["agent"], "actors": ["*"]}).json


def rule_of(one, key):
    return asked(one, key).json["rule"]


def told(one, event):
    return [line for line in one.platform.log.read_text().splitlines() if f'"{event}"' in line]


def test_a_key_that_is_revoked_after_the_store_went_back_is_accepted_nowhere(one):
    key, other = made(one, "bot"), made(one, "other")
    one.stack.wait_followed()
    assert asked(one, key["key"]).status == 200
    one.states.keep()
    made(one, "lost")  # the engine has this revision, and the store gives its number a second time
    one.stack.wait_followed()
    one.states.go_back()
    reply = revoked(one, key)
    assert reply.json == {"revoked": True, "behind": []}, reply
    reply = asked(one, key["key"])
    assert (reply.status, reply.json.get("code")) == (401, "credential_revoked"), reply
    assert asked(one, other["key"]).status == 200
    assert len(told(one, "store_went_back")) == 1
    one.stop()


def test_a_revocation_that_the_store_lost_holds_on_and_is_written_again(one):
    key = made(one, "bot")
    one.stack.wait_followed()
    one.states.keep()
    assert revoked(one, key).json == {"revoked": True, "behind": []}
    one.states.go_back()
    eventually(lambda: told(one, "key_revoked_again"), "the platform writes it again")
    for _ in range(50):
        assert asked(one, key["key"]).json.get("code") == "credential_revoked"
    with one.stack.at_platform("root") as wire:
        def row():
            return next(row for row in wire.get("/api/v1/keys?tenant_id=default").json["keys"] if row["id"] == key["id"])
        eventually(lambda: row().get("revoked_at"), "the store has it")
    one.stack.wait_followed()
    one.stack.engine.stop()
    one.stack.engine.start()
    eventually(lambda: asked(one, key["key"]).json.get("code") == "credential_revoked", "also after a start")
    one.stop()


def test_engines_take_the_policies_of_a_store_that_went_back_and_what_is_put_then(one):
    key = made(one, "bot")
    one.states.keep()
    one.stack.policy("base", RULES.format("second"))
    eventually(lambda: rule_of(one, key["key"]) == "allow:second", "the second is in force")
    one.states.go_back()
    eventually(lambda: rule_of(one, key["key"]) == "allow:first", "the engine takes the set again")
    one.stack.policy("base", RULES.format("third"))
    eventually(lambda: rule_of(one, key["key"]) == "allow:third", "the third is in force")
    one.stop()


def test_what_is_decided_after_the_store_went_back_is_found_by_its_trace(one):
    """Whatever connections had learned of the store is of the one before: PostgreSQL's spans and partitions."""
    key = made(one, "bot")
    one.stack.wait_followed()
    one.states.keep()
    before = asked(one, key["key"]).json["trace_id"]
    assert one.stack.trace(before)
    one.states.go_back()
    after = asked(one, key["key"]).json["trace_id"]
    assert one.stack.trace(after) and one.stack.trace(before), "the engine sends again what the store lost"
    one.stop()
