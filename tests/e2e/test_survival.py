"""kill -9 at random moments, a platform that is away, a drain: nothing is lost. (Other faults: tests/integration.)

WRIT_LONG=1 kills at least 100 times; otherwise 10. WRIT_SEED repeats a run.
"""

import collections
import concurrent.futures
import contextlib
import http.server
import os
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

import harness
import pytest
from conftest import BASE_POLICY
from survivors import (AGENT, FORGETFUL, Traffic, back_up, decide, decide_until_forgotten, gap_advice, restore,
                       wait_for_unanswered)

KILLS = 104 if harness.LONG else 10
SEED = int(os.environ.get("WRIT_SEED") or random.SystemRandom().randrange(1 << 32))


def started(fresh, **options):
    stack = fresh(**options)
    stack.start()
    stack.policy("base", BASE_POLICY)
    return stack


def test_every_answered_decision_is_stored_exactly_once_after_kills(fresh):
    chance = random.Random(SEED)
    print(f"\nseed {SEED} (WRIT_SEED repeats it)")
    stack = started(fresh)
    kills, unanswered = 0, []
    rounds = 0
    while kills < KILLS:
        rounds += 1
        traffic = Traffic(stack, f"kill{rounds}").start()
        for _ in range(4):
            time.sleep(chance.uniform(0.01, 0.3))  # the random moment
            engine = chance.random() < 0.6
            if engine:
                unanswered.append(wait_for_unanswered(traffic, 32))
                assert stack.engine.kill() == -9
                stack.engine.start(ready=chance.random() < 0.5)
                stack.engine.wait_ready()
            else:
                unanswered.append(wait_for_unanswered(traffic, 32))
                assert stack.platform.kill() == -9
                time.sleep(chance.uniform(0, 0.2))
                stack.platform.start()
            kills += 1
        traffic.stop()
        stack.wait_published()
        verdict = traffic.check_store()
    stack.engine.stop()
    stack.platform.stop()
    print(f"{kills} kills, at least {min(unanswered)} requests unanswered at each")
    assert min(unanswered) >= 32 and verdict.answered > 100


def test_both_killed_at_once_come_back(fresh):
    stack = started(fresh)
    traffic = Traffic(stack, "both").start()
    for _ in range(3):
        wait_for_unanswered(traffic, 32)
        time.sleep(0.1)
        stack.platform.kill()
        stack.engine.kill()
        stack.engine.start(ready=False)
        stack.platform.start()
        stack.engine.wait_ready()
    traffic.stop()
    stack.wait_published()
    assert traffic.check_store().answered > 0


def test_a_platform_that_is_away_costs_only_lag(fresh):
    stack = started(fresh)
    traffic = Traffic(stack, "away").start()
    wait_for_unanswered(traffic, 32)
    stack.platform.kill()
    before = traffic.answered
    harness.eventually(lambda: traffic.answered > before + 500, "decisions go on without the platform")
    assert not traffic.refused, "nothing is refused because the platform is away"
    metrics = stack.metrics(stack.engine)
    assert metrics["writ_engine_publish_lag_records"] > 0
    with stack.at_engine(None) as wire:
        assert wire.get("/readyz").status == 200
        harness.eventually(lambda: wire.get("/healthz").json["status"] == "degraded", "it says that it is degraded")
    stack.platform.start()
    traffic.stop()
    stack.wait_published()
    traffic.check_store()
    with stack.at_engine(None) as wire:
        harness.eventually(lambda: wire.get("/healthz").json["status"] == "ok", "it says that all is well")


def test_an_engine_starts_from_its_last_good_bundle_while_the_platform_is_away(fresh):
    stack = started(fresh)
    copy = stack.engine_data / "engine" / "bundle.json"
    assert copy.stat().st_mode & 0o777 == 0o600, "who may do what, and the MACs of keys, are nobody else's"
    stack.platform.kill()
    stack.engine.kill()
    stack.engine.start()
    with stack.at_engine() as wire:
        reply = wire.post(AGENT, {"action": "get_x"})
        assert reply.status == 200 and reply.json["decision"] == "allow", reply
    stack.platform.start()
    stack.trace(reply.json["trace_id"])


def test_an_engine_takes_up_another_key_of_its_own_without_a_restart(fresh):
    stack = started(fresh)
    old = stack.keys["engine"]
    stack.key_file.write_text(stack.key("engine-2", ["ingest"], tenant="*", nodes=["*"], tenants=["*"]) + "\n")
    with stack.at_platform("root") as wire:
        assert wire.delete(f"/api/v1/keys/key_{old[3:29]}").status == 200
    stack.policy("base", "rules:\n  - {id: new, actions: [get_x], decision: deny}\n")
    with stack.at_engine() as wire:
        assert wire.post(AGENT, {"action": "get_x"}).json["rule"] == "deny:new"
    stack.wait_published()


def listens(program):
    try:
        with harness.Wire(program.address) as wire:
            return wire.get("/livez").status == 200
    except (harness.Closed, OSError):
        return False


def test_a_revoked_key_does_not_come_back_with_a_bundle_that_could_not_be_replaced(fresh):
    stack = started(fresh)
    key = stack.key("bot", ["agent"])
    beside = stack.engine_data / "engine" / "bundle.json.new"
    beside.mkdir()  # as on a full disk: the copy cannot be written
    with stack.at_platform("root") as wire:
        rows = wire.get("/api/v1/keys?tenant_id=default").json["keys"]
        number = next(row["id"] for row in rows if row["name"] == "bot")
        harness.revoked(wire, f"/api/v1/keys/{number}?tenant_id=default")
    stack.platform.kill()
    stack.engine.kill()
    stack.engine.start(ready=False)
    harness.eventually(lambda: listens(stack.engine), "it listens")
    with stack.at_engine(key) as wire:
        assert wire.post(AGENT, {"action": "get_x"}).status == 503, "it knows no keys, rather than too many"
    beside.rmdir()
    stack.platform.start()
    stack.engine.wait_ready()
    with stack.at_engine(key) as wire:
        assert wire.post(AGENT, {"action": "get_x"}).status == 401
    copy = stack.engine_data / "engine" / "bundle.json"
    harness.eventually(copy.exists, "a copy is kept again")


def test_a_damaged_copy_of_the_bundle_is_not_served(fresh):
    """A turned bit may read as well as the right one: here it is another number in a condition."""
    stack = started(fresh)
    stack.policy("pay", "rules:\n  - {id: pay, agents: [\"*\"], actions: [pay], when: args.amount <= 500, decision: allow}\n")
    stack.platform.kill()
    stack.engine.kill()
    copy = stack.engine_data / "engine" / "bundle.json"
    whole = copy.read_bytes()
    assert whole.count(b"<= 500") == 1
    copy.write_bytes(whole.replace(b"<= 500", b"<= 900"))
    stack.engine.start(ready=False)
    harness.eventually(lambda: listens(stack.engine), "it listens")
    ask = {"action": "pay", "args": {"amount": 800}}
    with stack.at_engine() as wire:
        assert wire.post(AGENT, ask).status == 503, "it knows no policies, rather than others"
        assert wire.get("/healthz").json["checks"]["bundle"] != "ok"
    assert "bundle_refused" in stack.engine.tail()
    stack.platform.start()
    stack.engine.wait_ready()
    with stack.at_engine() as wire:
        assert wire.post(AGENT, ask).json["rule"] == "default:deny"
    assert copy.read_bytes() == whole, "and the copy is right again"


def test_the_name_of_a_node_is_made_once_and_a_file_without_one_says_what_to_do(fresh):
    stack = started(fresh)
    file = stack.engine_data / "engine" / "node"
    name = file.read_text()
    assert re.fullmatch(r"node-\w{10}\n", name) and not list(file.parent.glob("node.*"))
    stack.engine.stop()
    stack.engine.start()
    assert file.read_text() == name
    stack.engine.stop()
    file.write_text("")
    stack.engine.start(ready=False)
    assert stack.engine.wait() != 0
    assert "holds no node name. Write into it" in stack.engine.tail()
    file.write_text(name)
    stack.engine.start()


def test_a_drain_answers_what_was_received_and_loses_nothing(fresh):
    stack = started(fresh)
    traffic = Traffic(stack, "drain").start()
    wait_for_unanswered(traffic, 32)
    harness.eventually(lambda: traffic.answered > 200, "traffic flows")
    start = time.monotonic()
    stack.engine.stop()
    assert time.monotonic() - start < 60, "its limits together are half as long"
    stack.engine.start()
    traffic.stop()
    stack.wait_published()
    verdict = traffic.check_store()
    assert {status for status, _ in verdict.refused} <= {503}, verdict.refused
    assert stack.metrics(stack.engine)["writ_engine_journal_durable_seq"] > 200


def test_engine_started_names_what_came_before(fresh):
    stack = started(fresh)
    with stack.at_engine() as wire:
        first = stack.trace(wire.post(AGENT, {"action": "get_x"}).json["trace_id"])[0]["source"]
    stack.engine.stop()
    stack.engine.start()
    with stack.at_engine() as wire:
        second = stack.trace(wire.post(AGENT, {"action": "get_x"}).json["trace_id"])[0]["source"]
    assert second["epoch"] != first["epoch"] and second["node"] == first["node"] and second["seq"] > first["seq"] + 1


def test_a_second_engine_on_the_same_data_refuses_to_start(fresh):
    stack = started(fresh)
    other = harness.Program("writ-engine", harness.free_port(), list(stack.engine.arguments), stack.folder / "second.log")
    other.arguments[other.arguments.index("--listen") + 1] = f"127.0.0.1:{other.port}"
    other.start(ready=False)
    assert other.wait() != 0 and other.tail(), "it says why"
    with stack.at_engine() as wire:
        assert wire.post(AGENT, {"action": "get_x"}).status == 200


def test_damage_below_the_durable_mark_is_refused_with_its_place(fresh):
    stack = started(fresh)
    with stack.at_engine() as wire:
        for _ in range(50):
            assert wire.post(AGENT, {"action": "get_x", "args": {"pad": "x" * 200}}).status == 200
    stack.engine.kill()
    segments = sorted(p for p in stack.engine_data.rglob("*") if p.is_file() and p.stat().st_size >= 1 << 20)
    assert segments, "no segment was found"
    hit = None
    for path in segments:
        place = path.read_bytes().find(b'"get_x"')
        if place >= 0:
            hit = (path, place)
            break
    assert hit, "no record was found in the segments"
    with open(hit[0], "r+b") as file:
        file.seek(hit[1])
        file.write(b'"got_x"')
    stack.engine.start(ready=False)
    assert stack.engine.wait() != 0
    log = stack.engine.tail()
    assert hit[0].name in log and "seq" in log, log


@pytest.mark.parametrize("size", [0, 20997, 1 << 20])
def test_a_segment_that_lost_its_end_is_refused(fresh, size):
    """Nothing else tells of a revocation that was the last thing to be recorded."""
    stack = started(fresh, engine=["--journal.segment_size", "4MiB"])
    with stack.at_engine() as wire:
        for _ in range(40):
            assert wire.post(AGENT, {"action": "get_x", "args": {"pad": "x" * 40000}}).status == 200
        minted = wire.post("/v1/tokens/mint", {"scope": "*", "ttl_seconds": 600}).json
        assert wire.delete(f"/v1/tokens/{minted['token_id']}").status == 200
    stack.engine.kill()
    segment = min(stack.engine_data.rglob("*.journal"))
    whole = segment.read_bytes()
    assert len(whole) == 4 << 20
    segment.write_bytes(whole[:size])
    stack.engine.start(ready=False)
    assert stack.engine.wait() != 0
    assert f"segment {segment.name} has {size} bytes" in (log := stack.engine.tail()) and "its end was cut off" in log, log
    segment.write_bytes(whole)
    stack.engine.start()
    with stack.at_engine(minted["token"]) as wire:
        assert wire.post(AGENT, {"action": "get_x"}).status == 401


def test_sigterm_to_the_platform_under_load_loses_nothing(fresh):
    stack = started(fresh)
    traffic = Traffic(stack, "pterm").start()
    for _ in range(3):
        wait_for_unanswered(traffic, 32)
        time.sleep(0.1)
        stack.platform.stop()
        stack.platform.start()
    traffic.stop()
    stack.wait_published()
    traffic.check_store()


def test_an_older_database_is_refused_by_its_name_until_it_is_adopted(fresh):
    """What was in force stays so; log and /healthz say that the platform is there, and what is wrong with what it has."""
    stack = started(fresh)
    backup = back_up(stack)
    stack.policy("later", "rules:\n  - {id: later, actions: [get_later], decision: deny}\n")
    restore(stack, backup)

    def check():
        with stack.at_engine(None) as wire:
            return wire.get("/healthz").json["checks"]["feed"]
    harness.eventually(lambda: "is older than" in check() and "its database was restored" in check(), "the check says so")
    assert '"bundle_refused"' in stack.engine.tail()
    with stack.at_engine() as wire:
        assert wire.post(AGENT, {"action": "get_later"}).json["rule"] == "deny:later"
    for n in range(2):
        stack.policy("later", f"rules:\n  - {{id: again-{n}, actions: [get_later], decision: deny}}\n", wait=False)
    harness.eventually(lambda: "does not follow" in check(), "a higher number does not make it the same history")
    stack.set("adopt")
    harness.eventually(lambda: check() == "ok", "it is followed again")
    with stack.at_engine() as wire:
        assert wire.post(AGENT, {"action": "get_later"}).json["rule"] == "deny:again-1"


class Stranger(http.server.BaseHTTPRequestHandler):
    """Has the platform's address and is no platform: its status is none of HTTP, its body no text."""
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b'\xff"\xe2\x82' * 60
        self.send_response(500 if self.path.startswith("/api/v1/bundle") else 600)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


def test_a_stranger_at_the_platforms_address_spoils_no_answer(fresh):
    stack = started(fresh)
    stack.platform.stop()
    with http.server.ThreadingHTTPServer(stack.platform.address, Stranger) as stranger:
        threading.Thread(target=stranger.serve_forever, args=(0.05,), daemon=True).start()
        with stack.at_engine("admin") as wire:
            harness.eventually(lambda: b"status 500" in wire.get("/healthz").body, "the engine has met it")
            assert '\ufffd"\ufffd' in wire.get("/healthz").json["checks"]["feed"]
            reply = wire.get("/api/v1/policies")
            assert (reply.status, reply.json["code"]) == (502, "upstream_failed"), reply
        decide(stack)
        stranger.shutdown()


def test_a_stream_goes_on_behind_records_that_nobody_has_any_more(fresh):
    """An old backup, and a journal that no longer keeps what came after it: health says what to do, and that does it."""
    stack = started(fresh, engine=FORGETFUL)
    stack.wait_published()
    backup = back_up(stack)
    lost = decide_until_forgotten(stack)
    assert stack.trace(lost)
    restore(stack, backup)
    kept = decide(stack)
    command = harness.eventually(lambda: gap_advice(stack), "health says what to do")
    refused = stack.cli(*command, key=stack.keys["admin"], check=False)
    assert refused.returncode != 0 and "only an admin of tenant *" in refused.stderr, refused
    told = stack.cli(*command, "--reason", "The disk of the backup was lost.", key=stack.keys["root"])
    assert re.fullmatch(r"[0-9]+ records are given up; the stream of \S+ continues at [0-9]+\.\n", told.stdout), told
    stack.wait_published()
    assert stack.trace(kept)
    with stack.at_engine(None) as wire:
        assert wire.get("/healthz").json["checks"]["publish"] == "ok"
    with stack.at_platform("root") as wire:
        assert wire.get(f"/api/v1/audit/trace/{lost}?tenant_id=default").json["count"] == 0
        told = wire.get("/api/v1/audit?tenant_id=*&kind=audit.gap").json["events"]
    assert len(told) == 1 and told[0]["reason"].endswith("are accepted as lost: The disk of the backup was lost."), told
    assert told[0]["actor"] == "root" and told[0]["count"] >= 2


# ---- what operators do ----

def test_a_backup_of_a_running_platform_is_put_back_after_a_crash(fresh):
    """As the runbook has it: the damaged database moves away with its -wal, which would be read into the backup."""
    stack = started(fresh)
    stack.wait_published()
    source, backup = sqlite3.connect(stack.data / "platform.db"), sqlite3.connect(stack.folder / "backup.db")
    source.backup(backup)  # what .backup does
    backup.close()
    lost = decide(stack, 20)
    stack.wait_published()
    source.execute("PRAGMA wal_checkpoint(RESTART)")
    source.close()
    decide(stack, 20)
    stack.wait_published()
    stored = len(stack.events())
    stack.platform.kill()
    left = sorted(path.name for path in stack.data.glob("platform.db*"))
    assert "platform.db-wal" in left
    for name in left:
        (stack.data / name).rename(stack.folder / f"damaged-{name}")
    shutil.copy(stack.folder / "backup.db", stack.data / "platform.db")
    stack.platform.start()
    assert stack.trace(lost)
    stack.wait_published()
    assert len(stack.events()) >= stored
    stack.platform.stop()
    assert sqlite3.connect(stack.data / "platform.db").execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_many_reactors_share_the_smallest_segments(fresh):
    """Each wants room for a block of its own, and a segment has room for three."""
    stack = fresh(engine=["--reactors", "8", "--journal.segment_size", "1MiB"]).start()
    stack.policy("base", "rules:\n  - {id: r, actions: [pay], decision: human_review}\n  - {id: a, agents: ['*'], actions: [look], decision: allow}\n")

    def client(number):
        with stack.at_engine() as wire:
            return [wire.post(AGENT, {"action": ("look", "pay")[n % 5 == 0], "actor": f"bot-{number}", "args": {"n": n, "text": "a" * 9000}}).status
                    for n in range(60)]

    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        statuses = [status for answers in pool.map(client, range(24)) for status in answers]
    assert len(statuses) == 24 * 60 and set(statuses) <= {200, 503}, collections.Counter(statuses)
    stack.wait_published()
    assert len([event for event in stack.events() if event["kind"] == "decision"]) == statuses.count(200)


def test_a_pepper_that_is_not_there_is_told(fresh):
    stack = started(fresh)
    pepper, away = stack.data / "pepper", stack.folder / "pepper.away"

    def check(program, name):
        with harness.Wire(("127.0.0.1", program.port)) as wire:
            return wire.get("/healthz").json["checks"][name]

    for program, name, why in ((stack.engine, "feed", "another pepper"), (stack.platform, "keys", "made under another pepper")):
        assert '"pepper_made"' not in program.tail()
        program.stop()
        pepper.rename(away)
        program.start(ready=program is stack.platform)
        harness.eventually(program.is_listening, "it listens")
        assert re.search(r'"pepper_made".*/pepper was not there and is new', program.tail()), program.tail()
        harness.eventually(lambda: why in check(program, name), "its health says that no key is taken")
        program.stop()
        away.rename(pepper)
        program.start()
        harness.eventually(lambda: check(program, name) == "ok", "it has the one that keys were made under")
        assert program.tail().count('"pepper_made"') == 1
    assert stack.platform.tail(1 << 16).count('"keys_unprovable"') == 1
    assert re.search(r'"keys_unprovable".*"keys":"key_', stack.platform.tail(1 << 16)), "which ones"
    assert "another pepper" in stack.platform.tail(1 << 16) and '"set_refused"' in stack.platform.tail(1 << 16)
    stack.wait_published()


def test_an_upgrade_of_the_store_is_told(fresh):
    stack = started(fresh)
    stack.wait_published()
    assert '"store_upgrade' not in stack.platform.tail(1 << 20), "a new store is no upgrade"
    stack.engine.stop()
    stack.platform.stop()
    with sqlite3.connect(stack.data / "platform.db") as store:
        (newest,) = store.execute("PRAGMA user_version").fetchone()
        store.executescript("ALTER TABLE store DROP COLUMN history_id; DROP TABLE revisions; ALTER TABLE followers DROP COLUMN history_id;"
                            "DROP TABLE set_rows; ALTER TABLE policy_versions DROP COLUMN mac; ALTER TABLE store DROP COLUMN adopted_at;"
                            "ALTER TABLE store DROP COLUMN set_history; ALTER TABLE store DROP COLUMN set_mac;"
                            "DROP TABLE checkpoints; DROP TABLE engine_keys; DROP TABLE removals; DROP TABLE anchors;"
                            "ALTER TABLE records DROP COLUMN restored; ALTER TABLE streams DROP COLUMN authenticated;"
                            "DROP TABLE suspensions; DROP TABLE sign_ins; DROP TABLE sessions; DROP TABLE notices; DROP TABLE announced; DROP INDEX minutes_last; DROP TABLE quarantine_size; DROP INDEX records_event_key; CREATE UNIQUE INDEX records_event_id ON records (event_id); PRAGMA user_version = 6")
    store.close()
    stack.platform.start()
    stack.set("adopt")
    stack.engine.start()
    told = stack.platform.tail(1 << 20)
    assert told.index(f'"from schema 6 to {newest};') < told.index(f'"the store has schema {newest}"')
    decide(stack)
    stack.wait_published()


def test_a_clock_far_ahead_of_the_newest_event_drops_nothing_and_is_told(fresh):
    stack = started(fresh)
    stack.engine.stop()
    stack.platform.stop()
    with contextlib.closing(sqlite3.connect(stack.data / "platform.db")) as database:
        with database:  # as if nothing had been stored for ten days
            database.execute("UPDATE records SET created_at = created_at - 864000000")
        before = database.execute("SELECT count(*) FROM records").fetchone()
        stack.platform.arguments += ["--audit.keep", "2d"]
        stack.platform.start()
        harness.eventually(lambda: '"retention_failed"' in stack.platform.log.read_text(), "it is told")
        assert "nothing is dropped by age: this platform's clock shows" in stack.platform.log.read_text()
        assert database.execute("SELECT count(*) FROM records").fetchone() == before


def test_a_store_that_may_not_grow_any_more_ends_no_platform(fresh):
    """By a limit (ulimit -f), whose signal would end it."""
    stack = started(fresh)
    stack.wait_published()
    limit = f"--fsize={max(path.stat().st_size for path in stack.data.glob('platform.db*')) + (1 << 20)}:unlimited"
    subprocess.run(["prlimit", "--pid", str(stack.platform.pid), limit], check=True)
    first = decide(stack)

    def store():
        with harness.Wire(stack.platform.address) as wire:
            return wire.get("/healthz").json["checks"]["store"]
    harness.eventually(lambda: decide(stack, 20) and store() != "ok", "it is not written")
    assert stack.metrics(stack.engine)["writ_engine_publish_lag_records"] > 0
    stack.engine.kill()  # nobody tries any more
    with stack.at_platform("admin") as wire:
        assert wire.put("/api/v1/policies/tried?dry_run=true", {"content": "rules: [{id: a, actions: [b], decision: deny}]"}).status == 200
    assert store() != "ok", "what writes nothing proves nothing"
    stack.engine.start()
    subprocess.run(["prlimit", "--pid", str(stack.platform.pid), "--fsize=unlimited"], check=True)
    stack.wait_published()
    stack.trace(first)
    assert store() == "ok"
    stack.engine.signal(signal.SIGXFSZ)
    decide(stack)


@pytest.mark.skipif(shutil.which("strace") is None, reason="SKIP: strace is not installed")
def test_a_store_whose_disk_gives_nothing_does_not_look_well(fresh):
    stack = started(fresh)
    trace = decide(stack)
    stack.wait_published()
    stack.platform.stop()
    stack.platform.start()  # nothing of it is in memory

    def look():
        with stack.at_platform("admin") as wire:
            reply, store = wire.get(f"/api/v1/audit/trace/{trace}"), wire.get("/healthz").json["checks"]["store"]
        return reply.status, reply.json.get("code"), reply.header("retry-after"), store

    def is_traced():
        return all("TracerPid:\t0" not in (task / "status").read_text() for task in Path(f"/proc/{stack.platform.pid}/task").iterdir())
    breaks = subprocess.Popen(["strace", "-f", "-qqq", "-o", "/dev/null", "-e", "inject=pread64:error=EIO", "-p", str(stack.platform.pid)])
    try:
        harness.eventually(is_traced, "reads fail")
        status, code, again, store = look()
    finally:
        breaks.terminate()
        breaks.wait()
    assert (status, code, again) == (503, "store_unavailable", "1") and store != "ok", (status, code, store)
    harness.eventually(lambda: look() == (200, None, None, "ok"), "reads work, and the look of each second has seen so")


def test_a_segment_that_cannot_be_opened_is_told_with_the_reason_and_the_place(fresh):
    """Root opens what it has no right to, but no link in a file's place."""
    stack = fresh().start()
    stack.engine.stop()
    segment = stack.data / "engine" / "journal" / "0000000000000001.journal"
    segment.rename(stack.folder / "elsewhere")
    segment.symlink_to(stack.folder / "elsewhere")
    stack.engine.start(ready=False)
    assert stack.engine.wait() == 1
    assert f"segment {segment.name} cannot be opened: Too many levels of symbolic links ({segment.parent})" in stack.engine.tail()


def times_state_lost(stack):
    return stack.engine.tail(1 << 20).count('"event":"state_lost"')


def test_an_engine_that_lost_its_state_takes_no_token_from_before(fresh):
    """What was revoked is forgotten: of the tokens that are out nobody knows which may still be taken."""
    stack = started(fresh)
    engine = stack.data / "engine"

    def mint():
        with stack.at_engine() as wire:
            return wire.post("/v1/tokens/mint", {"scope": "*", "ttl_seconds": 600}).json

    def status_of(minted):
        with stack.at_engine(minted["token"]) as wire:
            return wire.post(AGENT, {"action": "get_x"}).status
    live, dead = mint(), mint()
    with stack.at_engine() as wire:
        assert wire.delete(f"/v1/tokens/{dead['token_id']}").status == 200
    assert (status_of(live), status_of(dead)) == (200, 401)
    stack.engine.kill()
    for name in ("journal", "snapshots"):
        shutil.rmtree(engine / name)
    (engine / "signers" / "signer-0000000001.key").write_text("of an earlier version")
    stack.engine.arguments += ["--node", "a-name-of-its-own"]  # under the old one it is not ready
    stack.engine.start()
    assert (status_of(live), status_of(dead)) == (401, 401)
    aside, = engine.glob("signers.*")
    assert len(list(aside.iterdir())) == 1 and f"signing keys are in {aside}" in stack.engine.tail(1 << 20)
    after = mint()
    stack.engine.stop()
    stack.engine.start()
    assert status_of(after) == 200 and times_state_lost(stack) == 1


def test_a_revoked_token_that_a_restored_engine_does_not_know_is_not_taken(fresh):
    """It was minted after the copy was made: its slot has never heard of it."""
    stack = started(fresh)
    engine, backup = stack.data / "engine", stack.folder / "backup"
    stack.engine.stop()
    shutil.copytree(engine, backup)
    stack.engine.start()
    with stack.at_engine() as wire:
        minted = wire.post("/v1/tokens/mint", {"scope": "*", "actor": "x_bot", "ttl_seconds": 600}).json
        assert wire.delete(f"/v1/tokens/{minted['token_id']}").status == 200
    stack.engine.kill()
    shutil.rmtree(engine)
    shutil.copytree(backup, engine)
    stack.engine.arguments += ["--node", "a-name-of-its-own"]
    stack.engine.start()

    with stack.at_engine(minted["token"]) as wire:
        reply = wire.post(AGENT, {"action": "get_x"})
    assert reply.status == 401 and reply.json["code"] == "token_unknown", reply


def test_a_first_start_that_was_refused_has_lost_no_state(fresh):
    stack = fresh()
    stack.make_first_keys()
    stack.platform.start()
    with socket.create_server(stack.engine.address):
        stack.engine.start(ready=False)
        assert stack.engine.wait() != 0
    stack.engine.start()
    assert times_state_lost(stack) == 0


def test_doctor_tells_of_a_node_name_that_was_changed(fresh):
    """All that the engine keeps comes again under the new name, and is put aside."""
    stack = started(fresh, engine=["--node", "first"])
    stack.wait_published()
    stack.engine.stop()
    stack.engine.arguments[stack.engine.arguments.index("first")] = "second"
    stack.engine.start()
    stack.wait_published()
    told = stack.cli("doctor", "--engine", stack.engine.url, "--platform", stack.platform.url, key=stack.keys["admin"], check=False)
    assert told.returncode == 1 and re.search(r"^BAD +records +the platform has other records .* its `node` has not changed$", told.stdout, re.M), told


def test_a_database_that_is_moved_away_takes_nothing_more(fresh):
    """What is written into a file without a name is gone with the next start, and had been answered."""
    stack = fresh().start()
    files = list(stack.data.glob("platform.db*"))
    away = stack.data / "away"
    away.mkdir()

    def make(name):
        with stack.at_platform("root") as wire:
            return wire.post("/api/v1/keys", {"name": name, "owner": "o", "tenant": "default", "roles": ["auditor"]})

    def told():
        with stack.at_platform("root") as wire:
            return wire.get("/readyz").status, wire.get("/healthz").json["checks"]["store"]

    assert make("before").status == 201
    for replaced in False, True:
        for file in files:
            file.rename(away / file.name)
        if replaced:
            shutil.copy(away / "platform.db", stack.data / "platform.db")
        refused = make("lost")
        assert (refused.status, refused.json["code"]) == (503, "store_unavailable"), refused
        assert "was moved away or replaced" in refused.json["error"]
        harness.eventually(lambda: told()[0] == 503 and "was moved away or replaced" in told()[1], "health and readiness say it")
        for file in files:
            (away / file.name).rename(file)
        harness.eventually(lambda: told() == (200, "ok"), "put back, it goes on")
        assert make("after").status == 201
    stack.platform.stop()
    stack.platform.start()
    with stack.at_platform("root") as wire:
        names = sorted(key["name"] for key in wire.get("/api/v1/keys?tenant_id=default").json["keys"] if key["name"] in ("before", "lost", "after"))
    assert names == ["after", "after", "before"]


@pytest.mark.parametrize("lost", ["since a backup", "all"])
def test_an_engine_that_lost_its_journal_publishes_again_under_a_name_of_its_own(fresh, lost):
    """What its check and the runbook say: everything that was answered is in the trail then."""
    stack = fresh().start()
    stack.policy("base", BASE_POLICY)
    engine, backup, answered = stack.data / "engine", stack.folder / "backup", []

    def answer(count):
        with stack.at_engine() as wire:
            for _ in range(count):
                answered.append(f"lost.{len(answered)}")
                assert wire.post(AGENT, {"action": "get_x", "trace_id": answered[-1]}).status == 200

    answer(20)
    stack.engine.stop()
    shutil.copytree(engine, backup)
    stack.engine.start()
    answer(20)
    stack.wait_published()
    stack.engine.stop()
    if lost == "all":
        shutil.rmtree(engine / "journal")
        shutil.rmtree(engine / "snapshots")
    else:
        shutil.rmtree(engine)
        shutil.copytree(backup, engine)
    stack.engine.start(ready=False)
    harness.eventually(stack.engine.is_listening, "it listens")
    with stack.at_engine() as wire:
        harness.eventually(lambda: wire.post(AGENT, {"action": "get_x"}).status == 200, "it has policies")
    answer(10)
    with stack.at_engine() as wire:
        refusal = harness.eventually(lambda: (reply := wire.get("/readyz")).status == 503 and reply, "it is not ready")
        assert "this journal does not have" in refusal.json["error"], refusal
        said = harness.eventually(lambda: (text := wire.get("/healthz").json["checks"]["publish"]) != "ok" and text, "it says so")
    assert said.endswith("start this engine again with a node name of its own, on the same data directory"), said
    stack.engine.stop()
    stack.engine.arguments += ["--node", "a-name-of-its-own"]
    stack.engine.start()
    stack.wait_published()
    for trace in answered:
        assert [event["kind"] for event in stack.trace(trace)] == ["decision"], trace


@pytest.mark.parametrize("name", ("HUP", "USR1", "USR2"))
def test_a_signal_that_asks_for_no_end_ends_nothing(stack, name):
    """A terminal that is closed, a log that is rotated: other programs open theirs anew, or tell more, for these."""
    for program in stack.engine, stack.platform:
        program.signal(getattr(signal, f"SIG{name}"))
    for n in range(20):
        with stack.at_engine() as wire:
            assert wire.post("/v1/agent/authorize", {"action": "x"}).status == 200
        with stack.at_platform("admin") as wire:
            assert wire.get("/api/v1/policies").status == 200
    assert stack.engine.process.poll() is None and stack.platform.process.poll() is None


def test_a_small_stack_ends_no_program(fresh):
    """Threads would get what `ulimit -s` says, and the first policy that is compiled needs more than a quarter of a megabyte."""
    small = ["prlimit", f"--stack={256 << 10}"]
    stack = fresh(engine_prefix=small, platform_prefix=small).start()
    stack.examples()
    with stack.at_engine() as wire:
        refund = {"actor": "invoice_bot", "action": "issue_refund", "confidence": 0.95, "args": {"amount": 5}}
        assert wire.post(AGENT, refund).json["decision"] == "allow"
    stack.wait_published()


def test_a_log_that_nobody_reads_ends_no_start(fresh):
    """Not even where there is something to say before anything else."""
    stack = fresh(engine_environment={"WRIT_STRAY": "x"}, platform_environment={"WRIT_STRAY": "x"})
    stack.make_first_keys()
    unread, log = os.pipe()
    os.close(unread)
    for program in stack.platform, stack.engine:
        program.log = Path(f"/proc/self/fd/{log}")
        program.tail = str
        program.start()
    os.close(log)
    with stack.at_engine() as wire:
        assert wire.post(AGENT, {"action": "x"}).status == 200
    stack.wait_published()


def test_sigterm_ends_a_program_that_was_started_with_it_blocked(fresh):
    """A supervisor may block it for itself and forget that this is inherited."""
    blocked = ["env", "--block-signal=TERM"]
    stack = fresh(engine_prefix=blocked, platform_prefix=blocked).start()
    stack.engine.stop()
    stack.platform.stop()


def test_a_snapshot_whose_thread_cannot_be_started_is_told(fresh):
    """Else the journal would grow for good, and nobody would know why."""
    stack = started(fresh, engine=["--snapshot.interval", "1s"])
    none = subprocess.Popen(["strace", "-f", "-qqq", "-o", "/dev/null", "-e", "trace=?clone3,clone",
                             "-e", "inject=?clone3,clone:error=EAGAIN", "-p", str(stack.engine.pid)])

    def snapshot():
        with stack.at_engine() as wire:
            assert wire.post(AGENT, {"action": "get_x"}).status == 200
        with harness.Wire(stack.engine.address) as wire:
            return wire.get("/healthz").json["checks"]["snapshot"]
    said = harness.eventually(lambda: (text := snapshot()) != "ok" and text, "it says so")
    assert "its thread cannot be started: Resource temporarily unavailable" in said, said
    none.terminate()
    none.wait(harness.PATIENCE)
    stack.engine.stop()
    assert '"event":"snapshot","text":"as of' in stack.engine.tail(), "the next try makes one"
