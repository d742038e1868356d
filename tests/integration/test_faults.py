"""What may happen to an engine and its platform, without a broker: nothing answered is lost.

Each test lets one fault come while clients work, waits until all is well again without a hand on
it, and compares everything that clients were told with the store (checker.py). WRIT_LONG=1 runs the
full counts; WRIT_SEED repeats a run.
"""

import contextlib
import datetime
import itertools
import json
import os
import select
import shutil
import sqlite3
import time

import checker
import clients
import harness
import pytest
from fleet import BUILD, LONG, Late, eventually, fresh_seed
from preload import preload


def test_the_checker_finds_what_is_done_to_a_real_store(fleet):
    """And a fault-free run holds."""
    one = fleet()
    load = one.load()
    one.keep(fresh_seed())
    eventually(lambda: load.answered > 300 and one.keeper.steps > 60, "clients were served")
    one.check()
    one.stop()
    copy = one.folder / "copy.db"

    def judged(sql):
        shutil.copy(one.stack.data / "platform.db", copy)
        with contextlib.closing(sqlite3.connect(copy)) as database, database:
            database.execute("DROP INDEX records_event_key")
            database.execute("DROP INDEX records_source")
            assert database.execute(sql).rowcount == 1
        return checker.check_store(checker.Clients(one.told.records()), checker.SqliteStore(copy))

    some = "(SELECT id FROM records WHERE kind = 'decision' LIMIT 1 OFFSET 50)"
    verdict = judged(f"DELETE FROM records WHERE id = {some}")
    assert len(verdict.lost) == 1 and len(verdict.gaps) == 1
    columns = "created_at, node, journal, epoch, seq, event_id, kind, tenant_id, trace_id, timestamp, event"
    verdict = judged(f"INSERT INTO records ({columns}) SELECT {columns} FROM records WHERE id = {some}")
    assert len(verdict.duplicate) == 3 and not verdict.lost
    verdict = judged(f"UPDATE records SET trace_id = 'nobody', event_id = 'evt_new' WHERE id = {some}")
    assert verdict.phantom[0] == "nobody" and verdict.lost


# ---- a full disk ----


def test_a_full_disk_under_the_journal_is_a_polite_503_and_recovers_by_itself(fleet):
    one = fleet(journal_disk="64m", engine=["--journal.segment_size", "4MiB"])
    load = one.load(rate=800)
    one.keep(fresh_seed())
    eventually(lambda: load.answered > 200 and one.keeper.tokens, "clients were served")
    filler = one.fill(one.folder / "journal")
    eventually(lambda: load.refused > 200, "decisions are refused")
    before = load.answered
    health = one.health()
    assert health["status"] == "degraded" and "no room" in health["checks"]["journal"], health
    with one.stack.at_engine() as wire:
        reply = wire.post(clients.AGENT, {"action": "get_x"})
        assert reply.status == 503 and reply.json["code"] == "journal_full" and reply.header("retry-after"), reply
        assert wire.get("/livez").status == 200 and wire.get("/readyz").status == 503
        # The kill switch works on the reserve.
        reply = wire.request("POST", "/v1/actors/mallory/suspend", {"reason": "odd"}, headers={"Authorization": f"Bearer {one.stack.keys['admin']}"})
        assert reply.status == 200, reply
        assert one.stack.metrics(one.engine)["writ_engine_journal_full"] == 1
    assert load.answered - before < 100, "decisions without room for their records"
    filler.unlink()
    before = load.answered
    eventually(lambda: load.answered > before + 200, "it decides again by itself")
    verdict = one.check()
    assert verdict.refused[503, "journal_full"] >= 200 and {status for status, _ in verdict.refused} == {503}
    one.stop()


@pytest.mark.parametrize("made_by", [["mkfs.ext4", "-q"], ["mkfs.xfs", "-q"], ["mkfs.btrfs", "-q"]], ids=lambda made_by: made_by[0])
def test_a_full_disk_of_any_kind_ends_no_engine(fleet, made_by):
    """What is left in the segments that there are is written on it, in place, whatever the file system does elsewhere."""
    one = fleet(journal_disk="320m", disk_made_by=made_by, engine=["--journal.segment_size", "4MiB"])
    filler = one.fill(one.stack.engine_data)
    with one.stack.at_engine() as wire, one.stack.at_engine("admin") as admin:
        def is_decided():
            reply = wire.post(clients.AGENT, {"action": "get_x", "actor": "bot", "args": {"text": "x" * 30000}})
            assert reply.status == 200 or (reply.status, reply.json["code"]) == (503, "journal_full"), reply
            return reply.status == 200

        eventually(lambda: not is_decided(), "decisions are refused")
        for n in range(300):
            reply = admin.post(f"/v1/actors/mallory-{n}/suspend", {"reason": "x" * 1000})
            assert reply.status == 200, reply
        filler.unlink()
        eventually(is_decided, "it decides again by itself")
    one.stack.wait_published()
    one.stop()


def on_a_disk_that_can_stop(still, variable="STILL_DISK_FILE"):
    """The environment of a program whose disk does nothing while that file is there; with STILL_SYNC_FILE it writes, and keeps nothing."""
    return {"LD_PRELOAD": preload(BUILD / "tests" / "libstill_disk.so"), variable: str(still),
            "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"}


@pytest.mark.parametrize("made_by", [["mkfs.ext4", "-q"], ["mkfs.xfs", "-q"]], ids=lambda made_by: made_by[0])
def test_a_power_cut_under_both_programs_loses_nothing_that_was_answered(fleet, tmp_path, made_by):
    """A real file system that from some moment on writes nothing more: what it was not asked to keep is gone."""
    still = tmp_path / "still"
    one = fleet(disk="400m", disk_made_by=made_by, engine=["--journal.segment_size", "4MiB"],
                engine_environment=on_a_disk_that_can_stop(still, "STILL_SYNC_FILE"))
    chance = fresh_seed()
    load = one.load(rate=800)
    one.keep(chance)
    for _ in range(40 if LONG else 4):
        enough = load.answered + chance.randrange(20, 600)
        eventually(lambda: load.answered > enough, Late(lambda: f"clients are served {one.engine.tail()}"))
        if chance.random() < 0.7:  # there is much that was written only
            still.touch()
            time.sleep(chance.random() / 2)
        clients.wait_for_unanswered(load, 8)
        one.cut_power("data")
        still.unlink(missing_ok=True)
        one.platform.start()
        one.engine.start()
    verdict = one.check()
    assert verdict.answered > 100 and {status for status, _ in verdict.refused} <= {503}, verdict.refused
    one.stop()


def answered_at_last(load):
    """How many answers its clients have when no more come: those that were on their way are read."""
    def is_over():
        before = load.answered
        time.sleep(0.5)
        return load.answered == before
    eventually(is_over, "no answer comes any more")
    return load.answered


def test_a_disk_that_stands_still_is_a_polite_503_and_goes_on_by_itself(fleet, tmp_path):
    """Neither a write nor a sync of the engine ends. What was asked before waits, and is answered when the disk goes on."""
    still = tmp_path / "still"
    one = fleet(engine=["--journal.stall", "2s"], engine_environment=on_a_disk_that_can_stop(still))
    load = one.load(rate=400)
    one.keep(fresh_seed())
    eventually(lambda: load.answered > 200 and one.keeper.tokens, "clients were served")
    still.touch()
    health = eventually(lambda: "stands still" in (it := one.health())["checks"]["journal"] and it, "it is told")
    assert health["status"] == "degraded", health
    before = answered_at_last(load)
    with one.stack.at_engine() as wire:
        for _ in range(50):
            reply = wire.post(clients.AGENT, {"action": "get_x"})
            assert reply.status == 503 and reply.json["code"] == "overloaded" and reply.header("retry-after"), reply
            assert "stands still" in reply.json["error"], reply
        assert wire.get("/livez").status == 200 and wire.get("/readyz").status == 503
    assert one.stack.metrics(one.engine)['writ_engine_check_failing{check="journal"}'] == 1
    assert load.answered == before, "answers before their records were safe"
    still.unlink()
    eventually(lambda: load.answered > before + 200, "it decides again by itself")
    eventually(lambda: one.health()["checks"]["journal"] == "ok", "and says so")
    verdict = one.check()
    assert set(verdict.refused) <= {(503, "overloaded")}, verdict.refused
    one.stop()


def test_nothing_that_is_read_while_the_disk_stands_still_is_gone_after_a_crash(fleet, tmp_path):
    """Changes wait for the disk, and nobody is answered. Whoever looks meanwhile, on whichever reactor, is told what a kill cannot take back."""
    still = tmp_path / "still"
    one = fleet(engine=["--journal.stall", "10m"], engine_environment=on_a_disk_that_can_stop(still))
    keys = {"rita": one.reviewer, **one.stack.keys}

    def sent(who, method, path, body=None, retry=None):
        wire = one.stack.at_engine(keys[who]).open()
        wire.send(wire.encode(method, path, body, retry and {"Idempotency-Key": retry}))
        return wire

    def told(*request):
        wire = sent(*request)
        reply = wire.read_reply()
        wire.close()
        return reply

    def asked(name):
        return told("agent", "POST", clients.AGENT, {"action": "issue_refund", "actor": name}).json["review_id"]

    reviews = {name: asked(name) for name in ("approved", "denied", "cancelled", "redeemed", "suspended", "untouched")}
    assert told("rita", "POST", f"/v1/queue/{reviews['redeemed']}/approve").status == 200
    assert told("admin", "POST", "/v1/actors/resumed/suspend").status == 200
    token = told("agent", "POST", "/v1/tokens/mint", {"scope": "get_*", "ttl_seconds": 3600}).json
    redemption = ("agent", "POST", f"/v1/queue/{reviews['redeemed']}/redeem", {"action": "issue_refund", "actor": "redeemed"}, "once")
    still.touch()
    changes = [sent("rita", "POST", f"/v1/queue/{reviews['approved']}/approve"),
               sent("rita", "POST", f"/v1/queue/{reviews['denied']}/deny"),
               sent("agent", "POST", f"/v1/queue/{reviews['cancelled']}/cancel"),
               sent(*redemption),
               sent("admin", "POST", "/v1/actors/suspended/suspend"),
               sent("admin", "POST", "/v1/actors/resumed/resume"),
               sent("agent", "DELETE", f"/v1/tokens/{token['token_id']}"),
               sent("agent", "POST", "/v1/tokens/mint", {"scope": "get_*"}, "once"),
               sent("agent", "POST", clients.AGENT, {"action": "issue_refund", "actor": "new", "trace_id": "new"})]
    untouched = ("rita", "GET", f"/v1/queue/{reviews['untouched']}")

    def every_reactor_has_beaten():
        for wire in [sent(*untouched) for _ in range(32)]:
            assert wire.read_reply().status == 200
            wire.close()

    every_reactor_has_beaten()
    looks = [*(("rita", "GET", f"/v1/queue/{review}") for review in reviews.values()),
             ("rita", "GET", "/v1/queue/new"),
             ("rita", "GET", f"/v1/queue/{reviews['approved']}/wait?timeout_ms=0"),
             *(("rita", "GET", f"/v1/queue{query}") for query in ("", "/pending", "/pending?limit=1", "/pending?actor=denied", "?status=approved")),
             ("admin", "GET", "/v1/actors"),
             ("admin", "GET", "/v1/tokens"), ("admin", "GET", "/v1/tokens?active=true"),
             ("agent", "POST", "/v1/tokens/introspect", {"token": token["token"]}),
             ("agent", "POST", "/v1/tokens/mint", {"scope": "get_*"}, "once"),
             ("agent", "POST", "/v1/tokens/mint", {"scope": "*"}, "once"),
             ("rita", "POST", f"/v1/queue/{reviews['approved']}/approve"), ("rita", "POST", f"/v1/queue/{reviews['approved']}/deny"),
             ("admin", "POST", "/v1/actors/resumed/resume"), redemption]
    waiting = [sent(*look) for look in looks]
    every_reactor_has_beaten()
    every_reactor_has_beaten()
    answered = select.select([wire.socket for wire in (*changes, *waiting)], [], [], 0)[0]
    assert not [wire for wire in changes if wire.socket in answered]
    answers = [(look, wire.read_reply()) for look, wire in zip(looks, waiting) if wire.socket in answered]
    one.kill("engine")
    still.unlink()
    one.revive("engine")
    for look, before in answers:
        after = told(*look)
        assert (after.status, after.body) == (before.status, before.body), look
    assert untouched in [look for look, _ in answers]
    one.stop()


def test_a_store_whose_disk_stands_still_is_told_and_costs_lag(fleet, tmp_path):
    still = tmp_path / "still"
    one = fleet(platform_environment=on_a_disk_that_can_stop(still))
    load = one.load(rate=200)
    eventually(lambda: load.answered > 200, "clients were served")
    one.settle_roughly()
    still.touch()
    health = eventually(lambda: (it := one.health(one.platform))["status"] == "degraded" and it, "it is told")
    assert "has waited for the store" in health["checks"]["store"], health
    change = {"content": "rules:\n  - {id: late, actions: [late_tool], decision: deny}\n"}
    with one.stack.at_platform("admin") as wire:
        assert wire.get("/readyz").status == wire.get("/api/v1/policies").status == 200, "what is stored can be read"
        key = {"name": "late", "owner": "o", "tenant": "default", "roles": ["agent"]}
        for reply in (wire.put("/api/v1/policies/late", change), wire.delete("/api/v1/policies/late"), wire.post("/api/v1/keys", key)):
            assert reply.status == 503 and reply.json["code"] == "store_unavailable" and reply.header("retry-after"), reply
            assert "has not taken a change" in reply.json["error"], reply
    before = load.answered
    eventually(lambda: load.answered > before + 200, "the engine goes on")
    still.unlink()
    one.settle_roughly()
    eventually(lambda: one.health(one.platform)["status"] == "ok", "and it is well again")
    with one.stack.at_platform("admin") as wire:
        assert wire.put("/api/v1/policies/late", change).status == 201, "what was refused was not done"
    verdict = one.check()
    assert not verdict.refused
    one.stop()


def test_an_engine_whose_journal_fills_its_disk_starts_again_and_publishes_it(fleet):
    """The platform is away for so long that what waits for it is all that there is room for. Only an engine that starts can publish it."""
    one = fleet(journal_disk="166m", engine=["--journal.segment_size", "16MiB"])
    stack = one.stack
    stack.wait_published()
    one.platform.stop()
    other = stack.engine_data / "other"
    other.write_bytes(b"x" * (96 << 20))  # five segments beside it are 95 %
    body = {"action": "get_x", "actor": "bot", "args": {"text": "x" * 30000}}

    def refused(times=1):
        with stack.at_engine() as wire:
            replies = (wire.post("/v1/agent/authorize", body) for _ in range(times))
            return any(reply.status == 503 and reply.json["code"] == "journal_full" for reply in replies)
    def is_up_and_full():
        assert one.engine.process.poll() is None, one.engine.tail()
        with contextlib.suppress(OSError, harness.Closed):
            return one.health(one.engine)["checks"]["journal"] != "ok"

    eventually(lambda: refused(300), "there is no room for decisions")
    with stack.at_engine("admin") as wire:
        assert wire.post("/v1/actors/mallory/suspend", {"reason": "odd"}).status == 200
    for _ in range(2):
        one.engine.kill()
        one.engine.start(ready=False)
        eventually(is_up_and_full, Late(one.engine.tail))
    assert refused()
    one.platform.start()
    stack.wait_published()
    eventually(lambda: not refused(), "confirmed segments make room")
    assert one.health(one.engine)["checks"]["journal"] == "ok"
    one.stop()


@pytest.mark.parametrize("disk", ["14m", "100m,nr_inodes=34"])
def test_a_journal_that_is_confirmed_does_not_fill_its_disk_for_good(fleet, disk):
    """Segments go with the next snapshot: what that needs, in bytes and in files, is left to it, whatever else went wrong before."""
    one = fleet(journal_disk=disk, engine=["--journal.segment_size", "1MiB"])
    stack = one.stack

    def ask(action, size):
        with stack.at_engine() as wire:
            reply = wire.post(clients.AGENT, {"action": action, "actor": f"bot-{next(numbers) % 40}", "args": {"n": next(numbers), "text": "x" * size}})
        assert reply.status == 200 or (reply.status, reply.json["code"]) == (503, "journal_full"), reply
        return reply.status == 200
    numbers = itertools.count()
    for _ in range(500):  # the next snapshot is larger than a segment
        assert ask("issue_refund", 3000)
    filler = one.fill(stack.engine_data)
    eventually(lambda: not ask("get_x", 30000), "there is no room")
    eventually(lambda: one.health()["checks"]["snapshot"] != "ok", "not even for a snapshot, which is tried again after half a minute")
    filler.unlink()
    for mib in range(40):  # more than the disk holds, in either way
        for _ in range(34):
            eventually(lambda: ask("get_x", 30000), f"it goes on, at {mib} MiB")
    assert one.health()["checks"]["snapshot"] == "ok"
    one.stop()


def test_a_disk_that_runs_out_of_inodes_is_told(fleet):
    one = fleet(journal_disk="64m,nr_inodes=100", engine=["--journal.segment_size", "1MiB"])
    assert one.health()["checks"]["disk"] == "ok"
    for n in range(80):
        (one.stack.engine_data / f"other-{n}").touch()
    eventually(lambda: "inodes" in one.health()["checks"]["disk"], "it is told")
    one.stop()


def test_a_full_disk_under_the_store_is_lag_and_recovers_by_itself(fleet):
    one = fleet(store_disk="48m")
    load = one.load(rate=300)
    one.keep(fresh_seed())
    eventually(lambda: load.answered > 200, "clients were served")
    one.settle_roughly()
    filler = one.fill(one.folder / "data")
    eventually(lambda: one.lag_records() > 1000, "records wait")
    assert load.refused == 0, "nothing is refused because the platform cannot store"
    told = eventually(lambda: [line for line in one.engine.tail(1 << 20).splitlines() if "publish_failed" in line], "it is told why")
    assert "disk is full" in told[-1] and len(told) < 20, told
    now = eventually(lambda: (it := one.health(one.platform))["status"] == "degraded" and it, "the platform says so itself")
    assert "disk is full" in now["checks"]["store"], now
    eventually(lambda: one.stack.metrics(one.platform)['writ_platform_check_failing{check="store"}'] == 1, "and its gauge")
    if LONG:  # it is patient before it calls itself degraded
        eventually(lambda: "disk is full" in one.health()["checks"]["publish"], "healthz tells why, too")
    filler.unlink()
    one.settle_roughly()
    assert one.health(one.platform)["status"] == "ok"
    told = [line for line in map(json.loads, one.platform.log.read_text().splitlines()) if line["event"].startswith("store_is_")]
    assert (told[0]["event"], told[-1]["event"]) == ("store_is_not_written", "store_is_written") and "disk is full" in told[0]["why"], told
    verdict = one.check()
    assert not verdict.refused
    one.stop()


def test_a_store_on_a_full_disk_of_small_blocks_is_told_and_no_signal(fleet):
    """SQLite's index is mapped: a page of it that has blocks for a part only would be a SIGBUS. Room grows by single blocks, so that a
    change meets each that there can be."""
    one = fleet(store_disk="8m", disk_made_by=["mkfs.ext4", "-q", "-b", "1024", "-m", "0"], start=False)
    one.stack.make_first_keys()
    one.platform.start()
    room = one.folder / "data" / "filler"
    with open(room, "wb", buffering=0) as file:
        with contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 1024)
        os.fsync(file.fileno())
        refused = 0
        for left in range(os.fstat(file.fileno()).st_size - 1024, 0, -1024):
            with one.stack.at_platform("root") as wire:
                reply = wire.post("/api/v1/keys", {"name": "late", "owner": "o", "tenant": "default", "roles": ["agent"]})
            assert one.platform.process.poll() is None, one.platform.tail()
            if reply.status == 201:
                break
            assert reply.status == 503 and reply.json["code"] == "store_unavailable" and "disk is full" in reply.json["error"], reply
            refused += 1
            os.truncate(room, left)
            os.fsync(file.fileno())
    assert refused > 10, "the disk was not full"
    one.platform.stop()
    with open(room, "ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 1024)
    one.platform.start(ready=False)
    assert one.platform.wait() == 1
    assert "platform.db: the disk is full" in one.platform.tail(), one.platform.tail()
    room.unlink()
    one.platform.start()


# ---- a clock that is stepped ----


def times_of(store):
    """{(node, journal): [milliseconds]} in the order of the journal."""
    found = {}
    for row in sorted((row for row in store.rows() if row.node), key=lambda row: (row.node, row.journal, row.seq)):
        at = datetime.datetime.fromisoformat(json.loads(row.event)["timestamp"].replace("Z", "+00:00"))
        found.setdefault((row.node, row.journal), []).append(at.timestamp() * 1000)
    return found


def test_a_key_ends_by_a_clock_that_was_set_forward(fleet):
    """The programs' own time follows slowly, and records go by it; a key's end was set by another clock."""
    one = fleet(clock=True)
    end = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    with one.stack.at_platform("root") as wire:
        made = wire.post("/api/v1/keys", {"name": "short", "owner": "o", "tenant": "default", "roles": ["reviewer", "auditor"], "expires_at": end}).json
    one.stack.wait_followed()

    def statuses():
        with one.stack.at_engine(made["key"]) as engine, one.stack.at_platform(made["key"]) as platform:
            return engine.get("/v1/queue/pending").status, platform.get("/api/v1/audit?limit=1").status

    assert statuses() == (200, 200)
    one.step_clock(5)
    eventually(lambda: statuses() == (401, 401), "both go by the later clock")
    for program in one.engine, one.platform:
        assert "ahead of this program's" in one.health(program)["checks"]["clock"], one.health(program)
    one.step_clock(-5)
    eventually(lambda: statuses() == (200, 200), "nothing of it was kept")
    eventually(lambda: all("behind this program's" in one.health(program)["checks"]["clock"] for program in (one.engine, one.platform)), "both say it")
    one.step_clock(0)
    eventually(lambda: all(one.health(program)["status"] == "ok" for program in (one.engine, one.platform)), "it is over")
    told = one.engine.log.read_text()
    assert "clock_set" in told and "clock_caught_up" in told
    one.check()
    one.stop()


def test_a_clock_that_is_stepped_by_hours_breaks_nothing(fleet):
    one = fleet(clock=True)
    load = one.load(rate=600)
    one.keep(fresh_seed())

    def go_on(count=600):
        before = load.answered
        eventually(lambda: load.answered > before + count, f"decisions go on\n{one.engine.tail()}")

    go_on()
    for hours in (5, -3, 0):
        one.step_clock(hours)
        go_on()
    one.step_clock(5)
    one.kill("engine")
    one.revive("engine")
    go_on()
    one.kill("platform")
    one.revive("platform")
    go_on()
    # Back by hours, and a start: time is that of the last record, and it passes.
    one.step_clock(-1)
    one.kill("engine")
    one.revive("engine")
    go_on()
    numbers = itertools.count()

    def living():
        """A token of two seconds that was used; a machine that is slow may take longer for that."""
        with one.stack.at_engine() as wire:
            one.told.tell({"asks": "mint"})
            begun = time.monotonic()
            token = wire.post("/v1/tokens/mint", {"scope": "get_*", "actor": "bot", "ttl_seconds": 2}).json["token"]
        with one.stack.at_engine(token) as wire:
            trace = f"clock.token.{next(numbers)}"
            one.told.tell({"sent": [trace]})
            status = wire.post(clients.AGENT, {"action": "drop_x", "trace_id": trace}).status
        assert status == 200 or time.monotonic() - begun > 1.5, "it ends before its time"
        return status == 200 and token
    with one.stack.at_engine(eventually(living, "a token of two seconds lives")) as wire:
        eventually(lambda: wire.post("/v1/tokens/mint", {"scope": "get_*"}).status == 401, "and ends")
    one.check()
    everything = sorted(row.event_id for row in one.store().rows() if row.kind == "decision")
    day = datetime.timedelta(days=1)
    window = [(datetime.datetime.now(datetime.timezone.utc) + by).strftime("%Y-%m-%dT%H:%M:%SZ") for by in (-day, day)]
    found = one.stack.events(kind="decision", **{"from": window[0], "to": window[1]})
    assert sorted(event["event_id"] for event in found) == everything, "a query by time finds them all"
    for times in times_of(one.store()).values():
        back = max(before - after for before, after in zip(times, times[1:]))
        hours = (times[-1] - times[0]) / 3600e3
        print(f"{len(times)} records; the most that a record is before its predecessor: {back:.0f} ms; {hours:.1f} h")
        assert back < 60_000, "hours would be seen; a thread may take a while from its time to its record"
        assert hours > 4, "the start five hours later is to be seen in the records"
    one.stop()


# ---- connections that are cut ----

CUTS = 400 if LONG else 25  # in each phase


class Cutter:
    def __init__(self, one, chance):
        self.one, self.chance, self.number = one, chance, 0

    def request(self, sent):
        """The bytes of a decision with a trace id of its own."""
        self.number += 1
        trace = f"cut.{self.number}"
        if sent:
            self.one.told.tell({"sent": [trace]})
        return self.wire.encode("POST", clients.AGENT, {"action": "get_x", "trace_id": trace, "args": {"pad": "x" * 300}})

    def end(self):
        """By a reset or by a proper end."""
        (clients.cut if self.chance.random() < 0.5 else type(self.wire).close)(self.wire)

    def cut(self, phase):
        self.wire = self.one.stack.at_engine().open()
        getattr(self, phase)()
        self.end()

    def before_the_head(self):
        pass

    def in_the_head(self):
        data = self.request(sent=False)
        self.wire.send(data[:self.chance.randrange(1, data.index(b"\r\n\r\n") + 4)])

    def in_the_body(self):
        data = self.request(sent=False)
        self.wire.send(data[:self.chance.randrange(data.index(b"\r\n\r\n") + 4, len(data))])

    def after_the_request(self):
        self.wire.send(self.request(sent=True))

    def behind_several_requests(self):
        self.wire.send(b"".join(self.request(sent=True) for _ in range(20)))

    def in_the_answer(self):
        self.wire.send(b"".join(self.request(sent=True) for _ in range(5)))
        self.wire.socket.recv(self.chance.randrange(1, 600))

    def in_a_wait(self):
        self.wire.send(self.wire.encode("GET", f"/v1/queue/{self.review}/wait?timeout_ms=3000"))  # half a connection may still wait for its answer


PHASES = ["before_the_head", "in_the_head", "in_the_body", "after_the_request", "behind_several_requests", "in_the_answer", "in_a_wait"]


def test_connections_cut_in_every_phase_cost_nobody_anything(fleet):
    one, chance = fleet(), fresh_seed()
    load = one.load(connections=2, depth=4)
    one.keep(chance)
    cutter = Cutter(one, chance)
    cutter.review = eventually(lambda: next((id for id, (state, _) in list(one.keeper.reviews.items()) if state == "pending"), None), "a review waits")
    one.keeper.stop()  # the review stays as it is
    figures = ("connections", "waits", "replies_parked", "visits_away", "calls_held")

    def now():
        found = one.stack.metrics(one.engine)
        return [found[f"writ_engine_{name}"] for name in figures] + [found["writ_process_open_fds"]]
    before = now()
    waited = 0
    for phase in PHASES:
        for n in range(CUTS):
            cutter.cut(phase)
            if phase == "in_a_wait" and n == CUTS // 2:
                # One that is really waiting when it is cut: by a reset, for half a connection might wait on for a minute.
                wire = one.stack.at_engine()
                wire.send(wire.encode("GET", f"/v1/queue/{cutter.review}/wait?timeout_ms=60000"))
                waited = eventually(lambda: one.stack.metrics(one.engine)["writ_engine_waits"], "it waits")
                clients.cut(wire)
    assert waited >= 1
    load.stop()
    eventually(lambda: now()[1:5] == [0, 0, 0, 0] and now()[0] <= before[0] and now()[5] <= before[5],
               Late(lambda: f"nothing is left of them: {dict(zip(figures, now()))}, before: {before}"))
    print(f"{CUTS} connections cut in each of {len(PHASES)} phases")
    verdict = one.check()
    assert not verdict.refused
    one.stop()


# ---- two of one ----


def test_two_engines_started_at_once_on_one_data_directory_are_one(fleet):
    one = fleet()
    load = one.load(rate=300)
    eventually(lambda: load.answered > 100, "clients were served")
    words = ""
    for _ in range(5 if LONG else 2):
        one.kill("engine")
        other = harness.Program("writ-engine", harness.free_port(), one.engine.arguments, one.folder / "second.log", one.engine.environment)
        other.arguments[other.arguments.index("--listen") + 1] = f"127.0.0.1:{other.port}"
        one.engine.start(ready=False)
        other.start(ready=False)
        loser = eventually(lambda: next((p for p in (one.engine, other) if p.process.poll() is not None), None), "one of them gives up")
        assert loser.wait() == 1
        words = loser.tail(600)
        assert "another" in words, words
        if loser is one.engine:
            other.wait_ready()
            other.stop()
            one.engine.start(ready=False)
        one.engine.wait_ready()
    print(words.strip().splitlines()[-1])
    before = load.answered
    eventually(lambda: load.answered > before + 100, "the one that stays serves")
    one.check()
    one.stop()


def test_two_platforms_started_at_once_on_an_empty_store_are_two(fleet):
    for _ in range(5 if LONG else 2):
        one = fleet(start=False)
        data = one.folder / "data2"
        data.mkdir()
        one.stack.make_first_keys()
        for file in one.stack.data.glob("platform.db*"):
            file.rename(data / file.name)  # the keys again, later
        port = harness.free_port()
        other = harness.Program("writ-platform", port, ["--data", data, "--store", one.stack.data / "platform.db", "--pepper_file",
                                                        one.stack.data / "pepper", "--listen", f"127.0.0.1:{port}"], one.folder / "platform2.log")
        try:
            one.platform.start(ready=False)
            other.start(ready=False)
            one.platform.wait_ready()
            other.wait_ready()
            with sqlite3.connect(one.stack.data / "platform.db") as database:
                assert len(database.execute("SELECT log_id FROM store").fetchall()) == 1
            other.stop()
            one.platform.stop()
        finally:
            other.end()
