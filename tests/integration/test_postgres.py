"""The platform over PostgreSQL, a real one: killed, asleep, restored from an old dump, full, out of
connections, of another mind about passwords; shared by two platforms; and old events dropped.

Clients work all the while (fleet.py), and the checker compares what they were told with the store.
WRIT_LONG=1 runs the full counts.
"""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

import pytest

import harness
from fleet import LONG, Late, eventually, fresh_seed
from names import Names, asking
from way import Way
from wire import Wire

SLEEP_SECONDS = 20 if LONG else 6
KILLS = 20 if LONG else 2


def psql(url, sql, check=True):
    done = subprocess.run(["psql", "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql], capture_output=True, text=True, timeout=harness.PATIENCE)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout.strip()


def other_platform(one, **options):
    """A second platform over the same database."""
    port = harness.free_port()
    data = one.folder / f"data-{port}"
    data.mkdir()
    more = [word for name, value in options.items() for word in (f"--{name.replace('_', '.')}", value)]
    return harness.Program("writ-platform", port, ["--data", data, "--store.url", one.store_url, "--pepper_file", one.stack.data / "pepper",
                                                   "--listen", f"127.0.0.1:{port}", *more], one.folder / f"platform-{port}.log")


def refused_start(one, *options, status=1):
    """Why a platform with these options does not start: the sentence that it logs."""
    done = subprocess.run([str(harness.BIN / "writ-platform"), "--data", str(one.stack.data), "--listen", f"127.0.0.1:{harness.free_port()}", *options],
                          capture_output=True, text=True, timeout=harness.PATIENCE, env={k: v for k, v in os.environ.items() if not k.startswith(("WRIT_", "PG"))})
    assert done.returncode == status, done.stderr
    return json.loads(done.stderr.splitlines()[-1])["why"]


def test_all_of_it_works_on_postgresql(fleet, postgres):
    one = fleet(postgres=postgres)
    load = one.load()
    one.keep(fresh_seed())
    eventually(lambda: load.answered > 500 and one.keeper.steps > 60, "clients were served")
    one.check()
    # What people ask: by trace, by member, page by page; policies, keys, versions.
    stack = one.stack
    first = stack.events(decision="deny")
    assert first and all(event["decision"] == "deny" for event in first)
    counted = int(psql(one.store_url, "SELECT count(*) FROM events WHERE decision = 'deny' AND tenant_id = 'default'"))
    assert counted == len(first)
    assert stack.trace(first[0]["trace_id"])[0]["event_id"] == first[0]["event_id"]
    with stack.at_platform("root") as wire:
        assert wire.get("/api/v1/policies?tenant_id=default").json["count"] == 1
        again = wire.put("/api/v1/policies/base?tenant_id=default", {"content": "rules: [{id: a, agents: ['*'], actions: [x], decision: allow}]"})
        assert again.status == 200 and again.json["version"] == 2
        assert wire.get("/api/v1/policies/base/versions?tenant_id=default").json["count"] == 2
        assert wire.get("/api/v1/policies/base/versions/18446744073709551615?tenant_id=default").status == 404
        assert wire.post("/api/v1/policies/base/rollback?tenant_id=default", {"version": 1}).json["version"] == 3
        keys = wire.get("/api/v1/keys?tenant_id=default").json
        assert {key["name"] for key in keys["keys"]} >= {"agents", "auditors", "rita-laptop"}
    one.stop()


def test_sets_of_policies_come_into_force_as_one(fleet, postgres, tmp_path):
    """By policies:apply, and from the directory of another platform of the same store."""
    one = fleet(postgres=postgres)
    names = 'rules:\n  - {id: no-drop, roles: [contractor], actions: ["drop_*"], decision: deny}\n'
    with one.stack.at_platform("root") as wire:
        def apply(query="", **body):
            return wire.post(f"/api/v1/policies:apply?tenant_id=default{query}", body)
        both = [{"name": "denies", "content": names}, {"name": "roles", "content": "roles: {contractor: [erin]}\n"}]
        assert apply(policies=both[:1]).json["code"] == "invalid_policy"
        assert [p["change"] for p in apply(policies=both, query="&dry_run=true").json["policies"]] == ["created", "created"]
        assert [p["change"] for p in apply(policies=both).json["policies"]] == ["created", "created"]
        assert [p["change"] for p in apply(policies=both).json["policies"]] == ["unchanged", "unchanged"]
        assert wire.delete("/api/v1/policies/roles?tenant_id=default").json["code"] == "role_in_use"
        assert wire.delete("/api/v1/policies/roles?tenant_id=default&force=true").status == 200
        assert [p["change"] for p in apply(delete=["denies", "roles"]).json["policies"]] == ["deleted", "unchanged"]
    (tmp_path / "denies.yaml").write_text(names)
    other = other_platform(one, policies_dir=str(tmp_path))
    other.start(ready=False)
    try:
        def unready():
            with Wire(other.address) as wire:
                return wire.get("/readyz").body
        eventually(other.is_listening, "it answers")
        eventually(lambda: b"denies.yaml:2:5" in unready(), "the set is refused")
        (tmp_path / "roles.yaml").write_text("roles: {contractor: [erin]}\n")
        other.wait_ready()
        with one.stack.at_platform("root") as wire:
            assert {p["name"] for p in wire.get("/api/v1/policies?tenant_id=default").json["policies"]} >= {"denies", "roles"}
    finally:
        other.end()


def test_a_crash_of_postgresql_under_load_costs_only_lag(fleet, postgres):
    one = fleet(postgres=postgres)
    load = one.load(rate=1500)
    one.keep(fresh_seed())
    worst = 0
    for _ in range(KILLS):
        before = load.answered
        eventually(lambda: load.answered > before + 300, "clients are served")
        one.kill("postgres")
        before = load.answered
        eventually(lambda: load.answered > before + 300, "decisions go on without PostgreSQL")
        eventually(lambda: one.health(one.platform)["status"] == "degraded", "the platform says so")
        one.revive("postgres")
        back = time.monotonic()
        one.wait_well()
        worst = max(worst, time.monotonic() - back)
    verdict = one.check()
    assert not verdict.refused
    one.stop()
    print(f"{KILLS} crashes; well again at most {worst:.1f} s after PostgreSQL was back")


def test_postgresql_asleep_holds_up_nobody_but_the_store(fleet, postgres):
    one = fleet(postgres=postgres)
    load = one.load(rate=1000)
    before = load.answered
    eventually(lambda: load.answered > before + 300, "clients are served")
    one.pause("postgres")
    begun, took = time.monotonic(), []
    while time.monotonic() - begun < SLEEP_SECONDS or len(took) < 9:
        last = load.answered
        eventually(lambda: load.answered > last + 10, "decisions go on")
        asked = time.monotonic()
        with harness.Wire(one.platform.address) as wire:
            assert wire.get("/livez").status == 200
            wire.get("/healthz")  # which tells what was seen, and does not wait either
        took.append(time.monotonic() - asked)
    assert statistics.median(took) < 2, f"the platform's reactor waits for nobody: {took}"

    def told():
        with harness.Wire(one.platform.address) as wire:
            return wire.get("/readyz").status == 503 and "has not answered for" in wire.get("/healthz").json["checks"]["store"]

    eventually(told, "the platform says that it hears nothing")
    one.resume("postgres")
    woke = time.monotonic()
    one.settle_roughly(2000)
    one.wait_well()
    print(f"asleep for {SLEEP_SECONDS} s; well again {time.monotonic() - woke:.1f} s after it woke")
    verdict = one.check()
    assert not verdict.refused
    one.stop()


def test_where_nothing_is_dropped_by_age_a_server_that_is_away_fails_no_dropping(fleet, postgres):
    one = fleet(postgres=postgres, platform=["--log.level", "debug"])
    one.kill("postgres")
    said = eventually(lambda: (text := one.platform.log.read_text()) and '"retention_' in text and text, "what may have to be dropped is looked for")
    assert '"retention_put_off"' in said and '"retention_failed"' not in said
    one.revive("postgres")
    one.wait_well()
    one.stop()


def test_a_lock_that_somebody_holds_is_lag_and_is_told(fleet, postgres):
    """Not as a query that asks for too much."""
    one = fleet(postgres=postgres)
    load = one.load(rate=500)
    eventually(lambda: load.answered > 300, "clients are served")
    with subprocess.Popen(["psql", "-X", "-q", "-At", "-d", one.store_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        holder.stdin.write("BEGIN; LOCK records IN ACCESS EXCLUSIVE MODE; SELECT 'held';\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "held\n"
        told = eventually(lambda: (said := one.health(one.platform)["checks"]["store"]) != "ok" and said, "the platform says that it cannot write")
        with one.stack.at_platform("root") as wire:
            reply = wire.get("/api/v1/audit?tenant_id=default")
            assert (reply.status, reply.json["code"]) == (503, "store_unavailable"), reply
        holder.communicate("COMMIT;\n")
    assert "lock timeout" in told
    one.wait_well()
    assert not one.check().refused
    one.stop()


def read_of_a_key_that_is_revoked_while_it_waits(one):
    """The server holds the read back until the revocation is answered. (It gives up after two seconds: that is 503.)"""
    with one.stack.at_platform("root") as root, concurrent.futures.ThreadPoolExecutor(1) as aside:
        key = root.post("/api/v1/keys", {"name": "n", "owner": "o", "tenant": "default", "roles": ["policy_admin"]}).json

        def read():
            with one.stack.at_platform(key["key"]) as wire:
                return wire.get("/api/v1/policies/base")
        with subprocess.Popen(["psql", "-X", "-q", "-At", "-d", one.store_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            holder.stdin.write("BEGIN; LOCK policy_versions IN ACCESS EXCLUSIVE MODE; SELECT 'held';\n")
            holder.stdin.flush()
            assert holder.stdout.readline() == "held\n"
            reply = aside.submit(read)
            waiting = "SELECT count(*) FROM pg_locks WHERE relation = 'policy_versions'::regclass AND NOT granted"
            eventually(lambda: reply.done() or psql(one.store_url, waiting) == "1", "the read waits")
            assert root.delete(f"/api/v1/keys/{key['id']}").json == {"revoked": True, "behind": []}
            holder.communicate("COMMIT;\n")
        return reply.result()


def test_what_was_read_is_not_told_to_a_key_that_was_revoked_meanwhile(fleet, postgres):
    one = fleet(start=False, postgres=postgres)
    one.stack.make_first_keys()
    one.platform.start()
    one.stack.policy("base", "rules:\n  - {id: drops, actions: [drop_table], decision: deny}\n", wait=False)
    while (reply := read_of_a_key_that_is_revoked_while_it_waits(one)).status == 503:
        assert reply.json["code"] == "store_unavailable", reply
    assert (reply.status, reply.json.get("code")) == (401, "credential_revoked"), reply
    one.platform.stop()


def test_commits_whose_answer_is_lost_are_made_once(fleet, postgres):
    """The server has committed, and the connection ends before it can say so, or in the middle of it."""
    one = fleet(start=False, postgres=postgres)
    way = Way(str(postgres.folder / ".s.PGSQL.5432"))
    at = one.platform.arguments.index("--store.url") + 1
    one.platform.arguments[at] = f"postgresql://writ@{way.address}/{one.store_url.split('/')[3].split('?')[0]}"
    try:
        one.start()
        load = one.load(rate=500)
        ends = [(0, Way.CLOSE), (0.5, Way.CLOSE), (0, Way.HALF_CLOSE)]
        for count, (part, ending) in enumerate(ends, 1):
            way.spoil = lambda sent, reply: (reply[:int(len(reply) * part)], ending) if b"COMMIT" in sent and way.spoiled < count else (reply, None)
            eventually(lambda: way.spoiled == count, "a commit's answer was spoiled")
            before = load.answered
            eventually(lambda: load.answered > before + 300, "decisions go on")
            one.wait_well()
        verdict = one.check()
        assert not verdict.refused
        one.stop()
    finally:
        way.close()


def test_an_older_dump_is_filled_up_by_replay(fleet, postgres):
    one = fleet(postgres=postgres)
    dump = one.folder / "dump.sql"
    load = one.load(rate=1500)
    eventually(lambda: load.answered > 1000, "clients are served")
    with open(dump, "w") as file:  # while it is written to, as a backup is
        subprocess.run(["pg_dump", "-d", one.store_url], stdout=file, check=True)
    before = load.answered
    eventually(lambda: load.answered > before + 2000, "clients are served after the dump")
    one.settle_roughly()
    database = one.store_url.split("@/")[1].split("?")[0]
    one.platform.kill()
    psql(postgres.url("postgres"), f"DROP DATABASE {database} WITH (FORCE)")
    psql(postgres.url("postgres"), f"CREATE DATABASE {database}")
    with open(dump) as file:
        subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", one.store_url], stdin=file, check=True, stdout=subprocess.DEVNULL)
    dumped = int(psql(one.store_url, "SELECT count(*) FROM records"))
    one.platform.start()
    before = load.answered
    eventually(lambda: load.answered > before + 500, "clients are served")
    verdict = one.check()
    assert not verdict.refused
    stored = int(psql(one.store_url, "SELECT count(*) FROM records"))
    assert stored > dumped + 2000, "there was something to come again"
    print(f"{dumped} records in the dump, {stored} after the replay")
    one.stop()


def test_another_database_under_a_running_platform_is_refused(fleet, postgres):
    one = fleet(postgres=postgres)
    database = one.store_url.split("@/")[1].split("?")[0]
    other = postgres.new_database().split("@/")[1].split("?")[0]
    one.stack.cli("key", "create", "--data", one.folder / "other", "--store", postgres.url(other), "--name", "x", "--owner", "x", "--roles", "admin")
    for was, now in ((database, f"{database}_old"), (other, database)):
        psql(postgres.url("postgres"), f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{was}'")
        eventually(lambda: psql(postgres.url("postgres"), f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{was}';"
                                f"ALTER DATABASE {was} RENAME TO {now}; SELECT 'done'", check=False).endswith("done"), "it is renamed")
    told = eventually(lambda: "another database" in (words := one.health(one.platform)["checks"]["store"]) and words, "the platform says so")
    print(told)


def test_a_name_server_that_says_nothing_holds_up_nobody(postgres, tmp_path):
    """The connection is lost, and where the server is cannot be asked: questions are refused, ends are not waited for."""
    with contextlib.ExitStack() as opened:
        names, way = Names("127.53.0.3"), Way(str(postgres.folder / ".s.PGSQL.5432"))
        opened.callback(names.close)
        opened.callback(way.close)
        address = f"postgresql://writ@store.dark.test:{way.port}/{postgres.new_database().split('/')[3].split('?')[0]}"
        stack = harness.Stack(tmp_path / "stack", platform_prefix=asking(names, tmp_path, timeout=2), store_url=address)
        opened.callback(stack.close)
        stack.cli("key", "create", "--data", stack.data, "--store", address.replace("store.dark.test", "127.0.0.1"),
                  "--name", "root", "--owner", "root", "--roles", "admin")
        platform = stack.platform.start()

        def told():
            with harness.Wire(platform.address) as wire:
                return wire.get("/healthz").json["checks"]["store"]

        eventually(lambda: told() == "ok", "the store is there")
        names.is_dark = True
        for link in way.links:
            link.end()
        print(eventually(lambda: "name server" in (words := told()) and words, "the platform says what is missing"))
        names.is_dark = False
        eventually(lambda: told() == "ok", "it is found again")
        names.is_dark = True
        for link in way.links:
            link.end()
        eventually(lambda: "name server" in told(), "it is missed again")
        platform.stop()


# ---- what people do wrong ----


def test_a_start_that_cannot_be_says_what_to_do(fleet, postgres):
    one = fleet(postgres=postgres, start=False)
    one.stack.make_first_keys()
    psql(postgres.url("postgres"), "DROP ROLE IF EXISTS few; CREATE ROLE few LOGIN CONNECTION LIMIT 2")
    socket = postgres.folder
    why = refused_start(one, "--store.url", "mysql://somewhere/db", status=2)
    assert "postgresql://user@host" in why
    why = refused_start(one, "--store.url", f"postgresql://writ:hidden@/db?hst={socket}", status=2)
    assert "postgresql://user@host" in why and "hidden" not in why
    why = refused_start(one, "--store.url", f"postgresql://writ@/nowhere?host={socket}")
    assert 'database "nowhere" does not exist' in why and "createdb" in why
    why = refused_start(one, "--store.url", f"postgresql://nobody@/postgres?host={socket}")
    assert 'role "nobody" does not exist' in why
    why = refused_start(one, "--store.url", "postgresql://writ@127.0.0.1:1/x")
    assert "refused" in why and "check that the server runs" in why
    psql(one.store_url, "GRANT ALL ON ALL TABLES IN SCHEMA public TO few; GRANT CREATE ON SCHEMA public TO few")
    why = refused_start(one, "--store.url", one.store_url.replace("writ@", "few@"))
    assert "too many connections" in why and "store.readers" in why
    latin = "latin_one"
    psql(postgres.url("postgres"), f"DROP DATABASE IF EXISTS {latin}")
    psql(postgres.url("postgres"), f"CREATE DATABASE {latin} ENCODING 'LATIN1' TEMPLATE template0")
    why = refused_start(one, "--store.url", postgres.url(latin), status=2)
    assert "UTF8" in why and "createdb" in why
    why = refused_start(one, "--store.url", one.store_url, "--audit.keep", "3h", status=2)
    assert "at least 1d" in why


def test_a_wrong_password_says_so_and_shows_none(fleet, postgres):
    one = fleet(postgres=postgres, start=False)
    one.stack.make_first_keys()
    rules = postgres.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    try:
        psql(postgres.url("postgres"), "DROP ROLE IF EXISTS locked; CREATE ROLE locked LOGIN SUPERUSER PASSWORD 'right'")
        rules.write_text("local all locked scram-sha-256\n" + before)
        psql(postgres.url("postgres"), "SELECT pg_reload_conf()")
        for password in ("", ":wrong"):
            why = refused_start(one, "--store.url", one.store_url.replace("writ@", f"locked{password}@"))
            assert "password" in why and "PGPASSFILE" in why and "wrong" not in why, why
        one.platform.arguments[one.platform.arguments.index("--store.url") + 1] = one.store_url.replace("writ@", "locked@")
        one.platform.environment["PGPASSWORD"] = "right"
        one.platform.start()
        one.platform.stop()
        assert "right" not in one.platform.log.read_text()
    finally:
        rules.write_text(before)
        psql(postgres.url("postgres"), "SELECT pg_reload_conf()")


# ---- a full disk ----


@pytest.fixture
def small_disk(postgres):
    """A file system of 160 MiB that PostgreSQL may write to."""
    if os.geteuid() != 0:
        pytest.skip("SKIP: mounting a small file system needs root")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="writ-small-"))
    folder.chmod(0o755)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m,mode=777", "tmpfs", folder], capture_output=True).returncode != 0:
        folder.rmdir()
        pytest.skip("SKIP: this machine does not allow mounts")
    inside = folder / "tables"
    inside.mkdir(mode=0o700)
    user = postgres.as_its_user()
    os.chown(inside, user["user"], user["group"])
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)
    folder.rmdir()


def test_a_full_disk_under_postgresql_is_told_and_recovers_by_itself(fleet, postgres, small_disk):
    one = fleet(postgres=postgres, start=False)
    database = one.store_url.split("@/")[1].split("?")[0]
    psql(postgres.url("postgres"), f"CREATE TABLESPACE small LOCATION '{small_disk / 'tables'}'")
    psql(postgres.url("postgres"), f"DROP DATABASE {database}; ")
    psql(postgres.url("postgres"), f"CREATE DATABASE {database} TABLESPACE small")
    try:
        one.start()
        load = one.load(rate=1500)
        eventually(lambda: load.answered > 500, "clients are served")
        one.settle_roughly()
        filler = one.fill(small_disk)
        if LONG:
            eventually(lambda: one.health(one.engine)["checks"]["publish"] != "ok", "the engine says that records wait")
        eventually(lambda: one.lag_records() > 1500, "records wait")
        told = one.health(one.engine)["checks"]["publish"]
        before = load.answered
        eventually(lambda: load.answered > before + 500, "decisions go on")
        filler.unlink()
        one.settle_roughly()
        one.wait_well()
        verdict = one.check()
        assert not verdict.refused
        one.stop()
        print(f"while it was full: {told}")
    finally:
        one.close()
        psql(postgres.url("postgres"), f"DROP DATABASE {database} WITH (FORCE)")
        psql(postgres.url("postgres"), "DROP TABLESPACE small")


# ---- two platforms ----


def test_two_platforms_share_policies_keys_and_records(fleet, postgres):
    one = fleet(postgres=postgres)
    other = other_platform(one)
    try:
        other.start()
        load = one.load(rate=1000)
        eventually(lambda: load.answered > 300, "clients are served")
        # A policy and a key that one makes are in force at the other, and at the engine that follows the first.
        with harness.Wire(other.address, one.stack.keys["root"]) as wire:
            made = wire.put("/api/v1/policies/second?tenant_id=default",
                            {"content": "rules: [{id: b, agents: ['*'], actions: [only_here], decision: allow}]"})
            assert made.status == 201, made
            key = wire.post("/api/v1/keys?tenant_id=default", {"name": "n", "owner": "o", "tenant": "default", "roles": ["auditor"]}).json["key"]
        newest = one.stack.metrics(other)["writ_platform_bundle_revision"]
        eventually(lambda: one.stack.metrics(one.engine)["writ_engine_bundle_revision"] >= newest, "the engine follows")

        def knows():
            with harness.Wire(one.platform.address, key) as wire:
                return wire.get("/api/v1/audit").status == 200
        eventually(knows, "the first platform knows the key")
        # Both take records at once: the engine's go to the first, these to the second.
        with harness.Wire(other.address, one.stack.keys["engine"]) as wire:
            for n in range(200):
                posted = wire.post("/api/v1/audit/ingest", {"event_id": f"mine-{n}", "kind": "auth.failed", "tenant_id": "default",
                                                            "timestamp": "2026-11-20T09:30:00.000Z"})
                assert posted.status == 201, posted
        one.stop_clients()
        one.settle()
        ids = [int(line) for line in psql(one.store_url, "SELECT id FROM records ORDER BY id").split()]
        assert len(ids) == len(set(ids)) and ids == list(range(1, len(ids) + 1)), "one row of numbers, whoever stored"
        other.stop()
        one.check()
        one.stop()
    finally:
        other.end()


def test_a_platform_asleep_within_a_write_holds_up_the_other_for_seconds(fleet, postgres):
    """The server ends a transaction that goes on without a word (idle_in_transaction_session_timeout)."""
    one = fleet(postgres=postgres)
    other = other_platform(one)

    def asleep_within_a_write():
        one.platform.signal(signal.SIGSTOP)
        time.sleep(0.05)  # what was sent is done, and the other platform is not silent for as long
        open_ones = int(psql(one.store_url, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                                            " AND state LIKE 'idle in transaction%' AND clock_timestamp() - state_change > interval '40 ms'"))
        if not open_ones:
            one.platform.signal(signal.SIGCONT)
        return open_ones > 0

    def put():
        with harness.Wire(other.address, one.stack.keys["root"]) as wire:
            reply = wire.put("/api/v1/policies/second?tenant_id=default", {"content": "rules: [{id: b, agents: ['*'], actions: [only_here], decision: allow}]"})
        assert reply.status == 201 or (reply.status, reply.json["code"]) == (503, "store_unavailable"), reply
        return reply.status == 201
    try:
        other.start()
        load = one.load(rate=1000)
        eventually(lambda: load.answered > 300, "clients are served")
        eventually(asleep_within_a_write, "the first platform sleeps within a transaction")
        eventually(put, "the other writes")
        one.platform.signal(signal.SIGCONT)
        one.wait_well()
        other.stop()
        one.check()
        one.stop()
    finally:
        other.end()


# ---- retention ----


def age(url, days):
    """Everything that is stored was stored so many days ago."""
    psql(url, f"UPDATE records SET created_at = created_at - {days} * 86400000::bigint; UPDATE marks SET period = 1; UPDATE horizon SET day = 0")


def test_old_events_are_dropped_and_that_they_were_is_told(fleet, postgres):
    one = fleet(postgres=postgres, start=False)
    one.platform.arguments += ["--audit.keep", "30d"]
    one.start()
    load = one.load(rate=1500)
    eventually(lambda: load.answered > 1000, "clients are served")
    one.stop_clients()
    one.settle()
    old = int(psql(one.store_url, "SELECT count(*) FROM records"))
    one.platform.stop()
    age(one.store_url, 45)
    one.platform.start()
    eventually(lambda: psql(one.store_url, "SELECT count(*) FROM records WHERE id < (SELECT first_id FROM horizon)") == "0"
               and psql(one.store_url, "SELECT first_id > 1 AND first_id = removed_id FROM horizon") == "t", "old events are removed")
    dropped = one.stack.events(kind="audit.dropped")
    assert len(dropped) == 1 and dropped[0]["count"] <= old
    assert dropped[0]["reason"].startswith("older than audit.keep") and dropped[0]["resource"]["type"] == "audit"
    total = int(psql(one.store_url, "SELECT sum((event::json ->> 'count')::bigint) FROM records WHERE kind = 'audit.dropped'"))
    assert total == old
    assert psql(one.store_url, "SELECT count(*) FROM identities WHERE id < (SELECT first_id FROM horizon)") == "0"
    before = int(psql(one.store_url, "SELECT next_seq FROM streams"))
    load = one.load(rate=500)
    eventually(lambda: load.answered > 300, "clients are served")
    one.stop_clients()
    one.settle()
    assert int(psql(one.store_url, "SELECT min(seq) FROM records WHERE node IS NOT NULL")) == before
    assert psql(one.store_url, "SELECT count(*) FROM quarantine") == "0"
    one.stop()
    print(f"{old} events dropped, told by {len(dropped)} events of the tenant default")


# ---- the server of ops/stack ----


def test_ops_stack_brings_it_up_and_down(tmp_path):
    if not list(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        pytest.skip("SKIP: PostgreSQL is not installed")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="writ-stack-"))
    environment = {**os.environ, "WRIT_STACK": str(folder / "state"), "WRIT_POSTGRES_PORT": str(harness.free_port())}

    def stack(verb, expected=0):
        done = subprocess.run([str(harness.TOP / "ops" / "stack"), verb, "postgres"], env=environment, capture_output=True, text=True, timeout=harness.PATIENCE)
        assert done.returncode == expected, done.stdout + done.stderr
        return done.stdout
    try:
        url = stack("up").split("running, ")[1].strip()
        psql(url, "CREATE TABLE kept (a int)")
        assert "running" in stack("status") and url in stack("up")
        stack("kill9")
        assert "not running" in stack("status", 1)
        stack("start")
        assert psql(url, "SELECT count(*) FROM kept") == "0"
        stack("down")
        assert "not running" in stack("status", 1)
    finally:
        stack("kill9")
        shutil.rmtree(folder, ignore_errors=True)
