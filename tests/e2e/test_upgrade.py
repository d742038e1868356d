"""What a later program left on the disk: a program that is older says so and touches nothing, and the later one goes on."""

import hashlib
import json
import sqlite3
import struct

import canonical
import harness
import run_mac
from conftest import BASE_POLICY
from survivors import AGENT

FRAME, HEADER = 512, 128
CRC32C = [0] * 256
for _byte in range(256):
    _crc = _byte
    for _ in range(8):
        _crc = _crc >> 1 ^ (0x82F63B78 if _crc & 1 else 0)
    CRC32C[_byte] = _crc


def crc32c(crc, data):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC32C[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def later_frame(header):
    """The header as a later format would have it: another digit, its checksum in its place (src/journal/frame.h)."""
    header = header[:7] + b"2" + header[8:124]
    return header + struct.pack("<I", crc32c(crc32c(0, header[8:32]), header))


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def put(folder, contents):
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def started(fresh):
    stack = fresh()
    stack.start()
    stack.policy("base", BASE_POLICY)
    return stack


def decide(stack, trace):
    with stack.at_engine() as wire:
        reply = wire.post(AGENT, {"action": "get_x", "trace_id": trace})
    assert reply.status == 200, reply


def why_not(program):
    """Starts what cannot be started, and gives its sentence."""
    program.start(ready=False)
    assert program.wait() != 0
    last = json.loads(program.tail().splitlines()[-1])
    assert last["event"] == "cannot_start", last
    return last["why"]


def test_a_journal_that_a_newer_engine_wrote_on_is_refused_and_kept(fresh):
    stack = started(fresh)
    stack.wait_published()
    stack.platform.stop()  # so that what comes now is in the journal alone
    stack.engine.stop()
    journal = stack.engine_data / "engine" / "journal"
    ours = files(journal)
    stack.engine.start()
    decide(stack, "theirs")
    stack.engine.kill()
    theirs = files(journal)
    segment = min(theirs)
    changed, whole = 0, theirs[segment]
    for at in range(0, len(whole), FRAME):
        if whole[at:at + 8] == b"writFRM1" and ours[segment][at:at + HEADER] != whole[at:at + HEADER]:
            whole = whole[:at] + later_frame(whole[at:at + HEADER]) + whole[at + HEADER:]
            changed += 1
    assert changed > 0
    put(journal, {segment: whole})
    before = files(journal)
    assert f"segment {segment}, offset " in (why := why_not(stack.engine)) and "a newer program wrote this frame" in why
    assert files(journal) == before, "nothing is cut"
    put(journal, theirs)  # the newer one again
    stack.platform.start()
    stack.engine.start()
    stack.trace("theirs")


def test_a_newer_engines_snapshot_is_refused_and_no_older_one_serves(fresh):
    stack = started(fresh)
    decide(stack, "ours")
    stack.engine.stop()
    stack.engine.start()
    decide(stack, "theirs")
    stack.engine.stop()
    snapshots = stack.engine_data / "engine" / "snapshots"
    kept = files(snapshots)
    assert len(kept) == 2, "there is one that would serve"
    newest = max(kept)
    content = kept[newest][:8] + struct.pack("<I", 5) + kept[newest][12:-32]
    put(snapshots, {newest: content + hashlib.sha256(content).digest()})
    assert f"{newest} was written by a newer program (format 5, this one reads 4)" in why_not(stack.engine)
    put(snapshots, kept)
    stack.engine.start()
    stack.trace("theirs")


def schema(stack, number=None):
    """The store's number; another one from now on where it is given."""
    with sqlite3.connect(stack.data / "platform.db", timeout=30) as store:
        if number is not None:
            store.execute(f"PRAGMA user_version = {number}")
        (now,) = store.execute("PRAGMA user_version").fetchone()
    store.close()
    return now


def test_a_newer_platforms_store_is_refused_and_kept(fresh):
    stack = started(fresh)
    decide(stack, "theirs")
    stack.wait_published()
    stack.platform.stop()
    newest = schema(stack)
    schema(stack, newest + 1)
    assert f"made by a newer program (schema {newest + 1}, this one knows {newest}); start the newer one again" in why_not(stack.platform)
    refused = stack.cli("key", "create", "--data", stack.data, "--name", "n", "--owner", "o", "--roles", "agent", check=False)
    assert refused.returncode != 0 and "newer program" in refused.stderr, refused
    assert schema(stack) == newest + 1
    schema(stack, newest)
    stack.platform.start()
    stack.trace("theirs")


def test_a_running_platform_whose_store_a_newer_program_changed_stores_and_serves_nothing_more(fresh):
    """The command line was upgraded first, or another platform on the same server."""
    stack = started(fresh)
    newest = schema(stack)
    schema(stack, newest + 1)
    decide(stack, "held")
    told = f"it has schema {newest + 1} now, and this program knows {newest}: a newer program has changed it: upgrade this program, too"
    harness.eventually(lambda: told in stack.engine.tail(), "the engine is told why nothing is taken")
    with stack.at_platform("root") as wire:
        harness.eventually(lambda: wire.get("/readyz").status == 503, "it is not ready")
        assert told in wire.get("/healthz").json["checks"]["store"]
        reply = wire.put("/api/v1/policies/base?tenant_id=default", {"content": BASE_POLICY + "  - {id: new, actions: [new], decision: deny}\n"})
        assert reply.status == 503 and told in reply.json["error"], reply
    schema(stack, newest)
    stack.wait_published()
    stack.trace("held")


def test_a_newer_platforms_bundle_on_the_disk_is_not_served(fresh):
    """Read as today's it might be looser than what was asked for."""
    stack = started(fresh)
    stack.platform.stop()
    stack.engine.stop()
    copy = stack.engine_data / "engine" / "bundle.json"
    text = copy.read_bytes()[:-66].rpartition(b',"mac":"')[0]
    assert text.count(b',"format":1,') == 1
    later = canonical.sealed_bundle((stack.data / "pepper").read_text(), text.replace(b'"format":1', b'"format":3', 1))
    copy.write_bytes(later + b"\n" + hashlib.sha256(later).hexdigest().encode() + b"\n")
    stack.engine.start(ready=False)
    harness.eventually(stack.engine.is_listening, "it listens")
    with stack.at_engine() as wire:
        assert wire.post(AGENT, {"action": "get_x"}).status == 503
    assert "the bundle has format 3, and this engine reads 2: a newer platform made it" in stack.engine.tail()
    stack.platform.start()
    stack.engine.wait_ready()
    decide(stack, "again")


def test_what_a_newer_engine_records_is_kept_there_until_its_platform_is_upgraded(fresh):
    stack = started(fresh)
    started_event = {"event_id": "evt_1", "kind": "engine.started", "tenant_id": "default", "timestamp": "2026-11-20T09:30:00.123Z"}
    known = {"event_id": "evt_2", "kind": "decision", "tenant_id": "default", "timestamp": "2026-11-20T09:30:00.123Z", "trace_id": "known"}

    def send(*events):
        body = "".join(json.dumps(event) + "\n" for event in events)
        headers = run_mac.headers((stack.data / "pepper").read_text(), "newer", "0123456789abcdef", 1, body)
        with stack.at_platform("engine") as wire:
            return wire.post("/api/v1/audit/ingest", body, headers=headers)
    reply = send(started_event, known, {**known, "event_id": "evt_3", "surprise": 1})
    assert reply.status == 409 and reply.json["code"] == "newer_record" and "record 3 has a member" in reply.json["error"], reply
    with stack.at_platform("engine") as wire:
        assert wire.get("/api/v1/audit/positions?node=newer").json["streams"] == []
    with sqlite3.connect(stack.data / "platform.db") as store:
        assert store.execute("SELECT count(*) FROM quarantine").fetchone() == (0,)
    store.close()
    assert send(started_event, known).json["next_seq"] == 3
    stack.trace("known")
