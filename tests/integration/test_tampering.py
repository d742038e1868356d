"""Whatever somebody does to stored history with write access to the database: `writ audit verify` names it, and so does verify.py, which
has no code of writ. Each stream of one store is tampered with in another way, all at the same time, and nothing is said of the others.
Undone, nothing is said at all.

The long form has a million records, and keeps the figures of each store that is done in a file (WRIT_TAMPERING_PROGRESS, or
build/long/tampering.json), so that a run that was stopped goes on with the other one. It leaves out what does not depend on the number of
records."""

import base64
import contextlib
import json
import os
import pathlib
import re
import resource
import sqlite3
import subprocess
import sys
import time

import pytest

import harness
from evidence_maker import MADE_MS, Evidence, Frontier, History, Key, checkpoint_rows, insert, moment, quoted, sealed, sha
from test_postgres import psql

LONG = os.environ.get("WRIT_LONG") == "1"
EACH = 16_400 if LONG else 380
LEAST = 1_000_000 if LONG else 20_000  # records of all streams
LIMIT = 7200 if LONG else 600  # seconds for one program
RUN = EACH // 4
AT = (RUN + 20) | 1  # the record that is tampered with, in the second run: a deny
SECOND = (RUN + 1, 2 * RUN)  # the run
TOP = pathlib.Path(harness.__file__).parents[2]
VERIFY = TOP / "ops" / "examples" / "evidence" / "verify.py"
PROGRESS = pathlib.Path(os.environ.get("WRIT_TAMPERING_PROGRESS", TOP / "build" / "long" / "tampering.json"))
TABLES = ("records", "checkpoints", "engine_keys", "removals", "streams")


class Way:
    """One way of tampering: what it does to the stream of this name, and what has to be found there."""

    def __init__(self, name, sql, *found):
        self.name, self.node, self.sql, self.found = name, "t-" + name.replace(" ", "-"), sql, found


def of(seq=AT):
    return f"WHERE node = '{{node}}' AND journal = '0' AND seq = {seq}"


def event_replaced(before, after):
    return f"UPDATE records SET event = replace(event, {quoted(before)}, {quoted(after)}) {of()}"


def event_sealed(**members):
    """The event with other members, and the hash that belongs to them."""
    def sql(history):
        event = {**json.loads(history.lines[AT - 1]), **members}
        event.pop("output_hash")
        return f"UPDATE records SET event = {quoted(sealed(event))} {of()}"
    return sql


ALTERED, HASH = ("altered", *SECOND), ("altered", AT, AT)


def column(name, value):
    return Way("column " + name, f"UPDATE records SET {name} = {quoted(value)} {of()}", ("altered column " + name, AT, AT))


def member(name, value):
    """A member of the event with a hash that fits, and its column, if it has one."""
    columns = {"decision", "actor", "action", "user_id", "rule", "trace_id", "tenant_id", "kind", "event_id"}
    seal = event_sealed(**{name: value})
    return Way("event " + name, lambda h: seal(h) + (f"; UPDATE records SET {name} = {quoted(value)} {of()}" if name in columns else ""), ALTERED)


def rewritten(history, key):
    """The whole history again, each decision an allow, with hashes and checkpoints that fit."""
    other = History.__new__(History)
    other.__dict__.update(history.__dict__)
    other.lines = [line if i == 0 else sealed({**without_hash(line), "decision": "allow"}) for i, line in enumerate(history.lines)]
    other.sign(key)
    rows = "".join(f"UPDATE records SET event = {quoted(line)}, decision = 'allow' {of(seq)};\n" for seq, line in enumerate(other.lines, 1) if seq > 1)
    return rows + "DELETE FROM checkpoints WHERE node = '{node}';\n" + checkpoint_rows(history.node, other.checkpoints)


def without_hash(line):
    event = json.loads(line)
    event.pop("output_hash", None)
    return event


def spliced(history):
    """A copy of the engine, with its key, went another way from the second run on; the last two runs are the copy's."""
    copy = History(history.node, EACH, RUN, history.key, lambda seq: int(seq > RUN))
    rows = "".join(f"UPDATE records SET event = {quoted(copy.lines[seq - 1])}, event_id = {quoted(json.loads(copy.lines[seq - 1])['event_id'])} {of(seq)};\n"
                   for seq in range(2 * RUN + 1, EACH + 1))
    return rows + f"DELETE FROM checkpoints WHERE node = '{{node}}' AND end_seq > {2 * RUN};\n" + checkpoint_rows(history.node, copy.checkpoints[2:])


def swapped(history):
    one, other = history.lines[AT - 1], history.lines[AT + 4]
    return (f"UPDATE records SET seq = -1 {of()}; UPDATE records SET seq = {AT} {of(AT + 5)}; "
            f"UPDATE records SET seq = {AT + 5} WHERE node = '{{node}}' AND seq = -1")


def checkpoint_forged(history):
    tree = Frontier()
    for line in history.lines[:2 * RUN]:
        tree.append(sha(b"\1", line.encode()))
    return f"UPDATE checkpoints SET note = {quoted(history.checkpoint(tree, Key('stranger')))} WHERE node = '{{node}}' AND end_seq = {2 * RUN}"


REMOVE = "DELETE FROM records WHERE node = '{node}' AND seq BETWEEN %d AND %d; "
ANCHORS = tuple(("second history", 1, RUN * (n + 1)) for n in range(4))
FORGED = tuple(("forged checkpoint", 1 + RUN * n, RUN * (n + 1)) for n in range(4))

WAYS = [
    Way("decision alone", event_replaced('"decision":"deny"', '"decision":"allow"'), HASH, ("altered column decision", AT, AT), ALTERED),
    member("decision", "compute"), member("actor", "nobody"), member("action", "wipe_disk"), member("user_id", "mallory"), member("rule", "base:other"),
    member("trace_id", "another"), member("tenant_id", "others"), member("kind", "review.approved"), member("event_id", "another"),
    member("args", {"n": 0}), member("resource", {"id": "other", "type": "doc"}), member("reason", "because"), member("mode", "dry_run"),
    member("input_hash", "0" * 64), member("policy_digest", "1" * 64), member("policy_name", "other"), member("policy_version", 2),
    Way("timestamp", event_sealed(timestamp="2026-11-20T09:30:00.000Z"), ("altered column timestamp", AT, AT), ALTERED),
    Way("output hash", event_replaced('"output_hash":"', '"output_hash":"0'), HASH, ALTERED),
    Way("no output hash", lambda h: f"UPDATE records SET event = {quoted(json.dumps(without_hash(h.lines[AT - 1]), sort_keys=True, separators=(',', ':')))} {of()}", ALTERED),
    Way("a blank", event_replaced('"action":', '"action": '), HASH, ALTERED),
    Way("no event", f"UPDATE records SET event = 'gone' {of()}", HASH, ALTERED),
    Way("a line more", f"UPDATE records SET event = event || '\n' {of()}", HASH, ALTERED),
    column("decision", "compute"), column("actor", "nobody"), column("action", "wipe_disk"), column("user_id", "mallory"), column("rule", "base:other"),
    column("kind", "review.approved"), column("tenant_id", "others"), column("trace_id", "another"), column("timestamp", 1_700_000_000_000),
    column("event_id", "one-more"),
    Way("column epoch", f"UPDATE records SET epoch = 'ffffffffffffffff' {of()}", ("altered column epoch", AT, AT), ("altered column epoch", AT + 1, AT + 1)),
    Way("another stream", f"UPDATE records SET node = 't-forged-one' {of()}", ("missing", AT, AT)),
    Way("another journal", f"UPDATE records SET journal = '7' {of()}", ("missing", AT, AT)),
    Way("no stream", f"UPDATE records SET node = NULL, journal = NULL, epoch = NULL, seq = NULL {of()}", ("missing", AT, AT)),
    Way("swapped", swapped, ALTERED),
    Way("head", REMOVE % (1, 7), ("missing", 1, 7)),
    Way("head with checkpoint", REMOVE % (1, RUN) + f"DELETE FROM checkpoints WHERE node = '{{node}}' AND end_seq = {RUN}", ("missing", 1, RUN)),
    Way("middle", REMOVE % (AT, AT + 2), ("missing", AT, AT + 2)),
    Way("tail", REMOVE % (EACH - 4, EACH) + f"UPDATE streams SET next_seq = {EACH - 4} WHERE node = '{{node}}'", ("removed tail", EACH - 4, EACH)),
    Way("tail with checkpoint", REMOVE % (3 * RUN + 1, EACH) + f"DELETE FROM checkpoints WHERE node = '{{node}}' AND end_seq > {3 * RUN}",
        ("removed tail", 3 * RUN + 1, EACH)),
    Way("history rewritten", lambda h: rewritten(h, Key("stranger")), *FORGED, *ANCHORS),
    Way("history rewritten with its key", lambda h: "DELETE FROM engine_keys WHERE node = '{node}';" + rewritten(h, Key("stranger")) +
        insert("engine_keys", "node, journal, public_key, created_at, created_by, mac",
               [(h.node, "0", base64.b64encode(Key("stranger").public).decode(), 1, "root", "ab" * 32)]), ("forged key", 0, 0), ("no key", 1, EACH)),
    Way("older database", REMOVE % (2 * RUN + 1, EACH) + f"UPDATE streams SET next_seq = {2 * RUN + 1} WHERE node = '{{node}}';"
        f"DELETE FROM checkpoints WHERE node = '{{node}}' AND end_seq > {2 * RUN}", ("older database", 2 * RUN + 1, EACH)),
    Way("forked engine", spliced, ("second history", 2 * RUN + 1, 3 * RUN), ("second history", 1, 3 * RUN), ("second history", 1, EACH)),
    Way("no checkpoints", "DELETE FROM checkpoints WHERE node = '{node}'"),
    Way("checkpoint", checkpoint_forged, ("forged checkpoint", *SECOND)),
    Way("checkpoint moved", f"UPDATE checkpoints SET end_seq = end_seq - 1 WHERE node = '{{node}}' AND end_seq = {2 * RUN}",
        ("forged checkpoint", RUN + 1, 2 * RUN - 1)),
    Way("frontier", lambda h: f"UPDATE checkpoints SET frontier = {quoted(swap_roots(h.frontier(RUN)))} WHERE node = '{{node}}' AND end_seq = {2 * RUN}",
        ("forged frontier", *SECOND)),
    Way("key removed", "DELETE FROM engine_keys WHERE node = '{node}'", ("no key", 1, EACH)),
    Way("row added", f"INSERT INTO records (id, created_at, node, journal, epoch, seq, event_id, kind, tenant_id, timestamp, event) SELECT (SELECT max(id) + 1 FROM records), created_at,"
        f" node, journal, epoch, seq + 1, 'added', kind, tenant_id, timestamp, replace(replace(event, '\"output_hash\"', '\"key_id\"'), '{{node}}.{EACH}', 'added')"
        f" FROM records {of(EACH)}",
        ("altered column actor", EACH + 1, EACH + 1), ("altered column user_id", EACH + 1, EACH + 1), ("altered column action", EACH + 1, EACH + 1),
        ("altered column decision", EACH + 1, EACH + 1), ("altered column rule", EACH + 1, EACH + 1), ("altered column trace_id", EACH + 1, EACH + 1),
        ("beyond the position", EACH + 1, EACH + 1)),
    Way("all cut behind the anchor", REMOVE % (2 * RUN + 1, EACH) + f"UPDATE streams SET next_seq = {2 * RUN + 1} WHERE node = '{{node}}';"
        "DELETE FROM checkpoints WHERE node = '{node}'", ("older database", 2 * RUN + 1, EACH)),
    Way("rewritten with a stolen key", lambda h: rewritten(h, h.key), *ANCHORS),
    Way("tail replaced with a stolen key", lambda h: f"DELETE FROM checkpoints WHERE node = '{{node}}' AND end_seq > {2 * RUN};" + tail_replaced(h),
        ("second history", 1, 3 * RUN), ("second history", 1, EACH)),
    Way("stream and key removed", ";".join(f"DELETE FROM {table} WHERE node = '{{node}}'" for table in ("records", "checkpoints", "streams", "engine_keys")),
        ("older database", 1, EACH)),
    Way("stream removed", "DELETE FROM records WHERE node = '{node}'; DELETE FROM checkpoints WHERE node = '{node}'; DELETE FROM streams WHERE node = '{node}'",
        ("older database", 1, EACH)),
]


def tail_replaced(history):
    """The last two runs are others, of one tree with what is before them: only an anchor has seen the genuine ones."""
    other = History(history.node, EACH, RUN, history.key, lambda seq: int(seq > 2 * RUN))
    rows = "".join(f"UPDATE records SET event = {quoted(other.lines[seq - 1])}, event_id = {quoted(json.loads(other.lines[seq - 1])['event_id'])} {of(seq)};\n"
                   for seq in range(2 * RUN + 1, EACH + 1))
    return rows + checkpoint_rows(history.node, other.checkpoints[2:])


def swap_roots(frontier):
    raw = bytearray(base64.b64decode(frontier))
    raw[9] ^= 1
    return base64.b64encode(raw).decode()


class Sqlite:
    def __init__(self, folder):
        self.name, self.url, self.path = "sqlite", None, folder / "data" / "platform.db"

    def __call__(self, text):
        with sqlite3.connect(self.path, isolation_level=None, timeout=60) as database:
            database.executescript("BEGIN IMMEDIATE;" + text + ";COMMIT;")

    def copy(self, table):
        return f"CREATE TABLE kept_{table} AS SELECT * FROM {table}"


class PostgreSql:
    def __init__(self, server, folder):
        self.name, self.url = "postgres", server.new_database()
        self.file = folder / "tamper.sql"

    def __call__(self, text):
        self.file.write_text("BEGIN;" + text + ";COMMIT;")
        done = subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", self.url, "-f", self.file], capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stderr

    def copy(self, table):
        return f"CREATE TABLE kept_{table} AS SELECT * FROM {table}"


@pytest.fixture(params=["sqlite", "postgres"])
def evidence(request, tmp_path):
    (tmp_path / "data").mkdir()
    sql = Sqlite(tmp_path) if request.param == "sqlite" else PostgreSql(request.getfixturevalue("postgres"), tmp_path)
    stack = harness.Stack(tmp_path, store_url=sql.url)
    stack.make_first_keys()
    stack.platform.start()
    yield Evidence(stack, sql)
    stack.close()


class Figures:
    """What the steps of the long form cost: seconds, and those of processors, of the programs that ended in it and of the platform."""

    def __init__(self, evidence):
        self.platform, self.steps = evidence.stack.platform, {}

    def processors(self):
        used, ticks = resource.getrusage(resource.RUSAGE_CHILDREN), pathlib.Path(f"/proc/{self.platform.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return used.ru_utime + used.ru_stime, sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    @contextlib.contextmanager
    def of(self, step, rows):
        begun, before = time.monotonic(), self.processors()
        yield
        programs, platform = (now - then for now, then in zip(self.processors(), before))
        self.steps[step] = {"rows": rows, "seconds": round(time.monotonic() - begun, 1), "cpu": round(programs, 1), "platform_cpu": round(platform, 1),
                            "rows_per_cpu_second": round(rows / max(programs, 0.01)), "rows_per_cpu_second_of_both": round(rows / max(programs + platform, 0.01))}
        if LONG:
            print(step, self.steps[step], flush=True)


def progress():
    return json.loads(PROGRESS.read_text()) if LONG and PROGRESS.exists() else {}


def keep_progress(store, figures):
    if LONG:
        PROGRESS.parent.mkdir(parents=True, exist_ok=True)
        PROGRESS.write_text(json.dumps({**progress(), store: figures}, indent=1))
        print(PROGRESS.read_text())


def found_by_writ(evidence, *words):
    done = evidence.stack.cli("audit", "verify", "--json", "--platform", evidence.stack.platform.url, *words, key=evidence.stack.keys["root"], check=False, timeout=LIMIT)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines and "complete_until" in lines[-1], done
    findings = {(line["finding"], "/".join(filter(None, (line["node"], line.get("journal")))), line["first_seq"], line["last_seq"]): line["traces"]
                for line in lines if "finding" in line}
    assert done.returncode == int(bool(findings)), done.stderr
    return findings, lines[-1]


def found_by_verify_py(file, *words):
    done = subprocess.run([sys.executable, VERIFY, file, *words], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode in (0, 1) and not done.stderr, done.stderr[-2000:]
    found = {(m[1], m[2], int(m[3]), int(m[4])) for m in re.finditer(r"^([a-z_ ]+): (\S+) (\d+)-(\d+)(?: trace .*)?$", done.stdout, re.M)}
    assert done.returncode == int(bool(found)) and len(found) == len(re.findall(r"^[a-z_ ]+: \S+ \d+-\d+", done.stdout, re.M)), done.stdout[-2000:]
    return found


def export(evidence, name, *words):
    file = evidence.stack.folder / name
    evidence.stack.cli("audit", "export", "--evidence", "--output", file, *words, "--platform", evidence.stack.platform.url, key=evidence.stack.keys["root"], timeout=LIMIT)
    return file


LEFT = EACH - (2 * RUN + 7) + EACH - 3  # of the two streams from which records were removed by the rules


def remove_by_the_rules(evidence):
    """Retention dropped the beginning of one stream, and a person gave records of another one up."""
    dropped, given_up = History("t-dropped", EACH, RUN), History("t-given-up", EACH, RUN)
    with evidence.stack.at_platform("engine") as wire:
        log_id = wire.get("/api/v1/audit/positions?node=x").json["log_id"]
    end = 2 * RUN + 7
    evidence.sql(evidence.store(dropped) + evidence.store(given_up) +
                 f"DELETE FROM records WHERE node = 't-dropped' AND seq <= {end}; DELETE FROM checkpoints WHERE node = 't-dropped' AND end_seq <= {2 * RUN};"
                 f"DELETE FROM records WHERE node = 't-given-up' AND seq BETWEEN {AT} AND {AT + 2};" +
                 evidence.removal("t-dropped", "retention", 1, end, log_id, tree=dropped.frontier(end)) +
                 evidence.removal("t-given-up", "gap", AT, AT + 2, log_id))


def assert_proved(evidence, event, file):
    """From the platform and from a file the same proof, which verify.py takes, and not with another record."""
    stack, proof = evidence.stack, evidence.stack.folder / f"{event}.proof"
    stack.cli("audit", "prove", event, "--output", proof, "--platform", stack.platform.url, key=stack.keys["root"], timeout=LIMIT)
    assert stack.cli("audit", "prove", event, "--file", file, timeout=LIMIT).stdout == proof.read_text()
    done = subprocess.run([sys.executable, VERIFY, "--proof", proof], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "the record is in the signed tree\n", done
    changed = json.loads(proof.read_text())
    changed["record"] = base64.b64encode(base64.b64decode(changed["record"]).replace(b'"allow"', b'"deny"').replace(b"bot-", b"rob-")).decode()
    proof.write_text(json.dumps(changed))
    done = subprocess.run([sys.executable, VERIFY, "--proof", proof], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout.startswith("NOT PROVED"), done


def assert_trusts_only(evidence, file):
    """With --keys, no key of the file counts."""
    keys = evidence.stack.folder / "keys.ndjson"
    mine = {"line": "key", "node": "t-clean", "journal": "0", "public_key": base64.b64encode(Key("t-clean").public).decode()}
    keys.write_text(json.dumps(mine) + "\n")
    found, _ = found_by_writ(evidence, "--file", file, "--keys", keys)
    assert found_by_verify_py(file, "--keys", keys) == set(found)
    assert {f[0] for f in found} == {"no key", "forged removal", "missing"} and not any(f[1] == "t-clean/0" for f in found)


def assert_notices_a_cut(evidence, file):
    cut = evidence.stack.folder / "cut.ndjson"
    lines = file.read_bytes().splitlines(keepends=True)
    cut.write_bytes(b"".join(lines[:-1]))
    found, _ = found_by_writ(evidence, "--file", cut)
    assert set(found) == {("cut", "evidence", 0, 0)} == found_by_verify_py(cut)
    # the end of one stream, with its last records
    ends = next(n for n, line in enumerate(lines) if line.startswith(b'{"line":"stream_end","node":"t-clean"'))
    cut.write_bytes(b"".join(lines[:ends - 3] + lines[ends + 1:]))
    found, _ = found_by_writ(evidence, "--file", cut)
    assert set(found) == {("cut", "t-clean/0", EACH - 2, EACH - 2), ("removed tail", "t-clean/0", EACH - 2, EACH)} == found_by_verify_py(cut)


def anchored(evidence, file):
    """The checkpoints of an evidence file as a file anchor and as a bucket have them."""
    lines, objects = evidence.stack.folder / "anchors.jsonl", evidence.stack.folder / "objects"
    with lines.open("w") as out, file.open() as texts:
        for line in (json.loads(text) for text in texts if text.startswith('{"line":"checkpoint"')):
            out.write(json.dumps({"anchored_at": ANCHORED, "note": line["note"]}) + "\n")
            at = objects / line["note"].partition("\n")[0] / str(line["end_seq"])
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_text(line["note"])
        out.write('{"anchored_at":"2026-')  # a power cut
    return lines, objects


ANCHORED = "2026-11-27T14:03:00.000Z"


def assert_sees_a_part(evidence):
    """Of a part of the time, exactly what is wrong in the runs of that time."""
    times = ("--from", moment(MADE_MS + (RUN + 10) * 1000), "--to", moment(MADE_MS + (2 * RUN - 5) * 1000))
    found, end = found_by_writ(evidence, *times)
    part = export(evidence, "part.ndjson", *times)
    assert set(found) == found_by_verify_py(part) == set(found_by_writ(evidence, "--file", part)[0])
    altered = {("altered", f"{way.node}/0", *SECOND) for way in WAYS if ALTERED in way.found}
    altered.add(("altered", "t-frontier/0", *SECOND))  # without the runs before it, a frontier is as good as its records
    assert {f for f in found if f[0] == "altered" and f[3] > f[2]} == altered
    assert not any(f[1] in ("t-head/0", "t-tail/0", "t-clean/0") for f in found) and end["records"] < EACH * len(WAYS) / 2 and end["from"] == times[1]


def assert_sees_what_the_part_leaves_out(evidence):
    """The index of times is changed, so that the part ends too early."""
    times = ("--from", moment(MADE_MS + (RUN + 10) * 1000), "--to", moment(MADE_MS + (3 * RUN + 10) * 1000))
    evidence.sql("CREATE TABLE kept_minutes AS SELECT * FROM minutes; DELETE FROM minutes")
    found, _ = found_by_writ(evidence, *times)
    assert ("cut", "t-clean/0", 3 * RUN + 1, 3 * RUN + 1) in found
    assert set(found) == found_by_verify_py(export(evidence, "short.ndjson", *times))
    evidence.sql("INSERT INTO minutes SELECT * FROM kept_minutes; DROP TABLE kept_minutes")
    assert not found_by_writ(evidence, *times)[0]


def make_histories(evidence):
    """One stream for each way, and a clean one. Returns those that a way needs to go on from."""
    kept, sql = {}, [evidence.register("", evidence.platform_key.public)]
    for way in WAYS:
        history = History(way.node, EACH, RUN)
        sql.append(evidence.store(history))
        if callable(way.sql):
            kept[way.node] = history
    evidence.sql("".join(sql) + evidence.store(History("t-clean", EACH, RUN)))
    remove_by_the_rules(evidence)
    return kept


def assert_all_is_found(found, by_python):
    expected = {(kind, f"{way.node}/0", *span) for way in WAYS for kind, *span in way.found}
    # where rows went: streams that no engine has, and a row of the platform that it never wrote
    strays = {f for f in found if f[1] in ("t-forged-one/0", "t-another-journal/7")}
    assert {f[0] for f in strays} >= {"no key"}
    wrong = {way.name: (sorted(f for f in found if f[1] == f"{way.node}/0"), way.found) for way in WAYS
             if {f for f in found if f[1] == f"{way.node}/0"} != {f for f in expected if f[1] == f"{way.node}/0"}}
    assert not any(f[1] in ("t-clean/0", "t-dropped/0", "t-given-up/0", "platform") for f in found), found
    assert not wrong, "\n".join(f"{name}: {got} != {wanted}" for name, (got, wanted) in wrong.items())
    assert by_python == set(found), (sorted(by_python - set(found)), sorted(set(found) - by_python))
    for (kind, where, first, last), traces in found.items():
        if kind == "altered" and first <= AT <= last and where not in ("t-event-trace_id/0", "t-no-event/0", "t-a-line-more/0"):
            assert f"{where.removesuffix('/0')}-{AT}" in traces, (kind, where)


def test_each_kind_of_tampering_is_named_by_both_verifiers(evidence):
    store, figures = evidence.sql.name, Figures(evidence)
    if store in progress():
        return print(f"{store}: done before")
    rows = EACH * (len(WAYS) + 1) + LEFT
    assert rows >= LEAST
    with figures.of("made and stored", rows):
        histories = make_histories(evidence)
    with figures.of("writ audit export --evidence", rows):
        before = export(evidence, "before.ndjson")
    with figures.of("writ audit verify", rows):
        found, end = found_by_writ(evidence)
    assert not found and end["records"] == rows and end["complete_until"], found
    with figures.of("writ audit verify --file", rows):
        assert not found_by_writ(evidence, "--file", before)[0]
    with figures.of("verify.py", rows):
        assert not found_by_verify_py(before)
    if not LONG:
        for event in (f"t-clean.{AT}", f"t-dropped.{3 * RUN}"):
            assert_proved(evidence, event, before)
        assert_trusts_only(evidence, before)
        assert_notices_a_cut(evidence, before)

    evidence.sql(";".join(evidence.sql.copy(table) for table in TABLES))
    with figures.of("tampered with", rows):
        for way in WAYS:
            sql = way.sql(histories[way.node]) if callable(way.sql) else way.sql
            evidence.sql(sql.replace("{node}", way.node))
    after = export(evidence, "after.ndjson")
    lines, objects = anchored(evidence, before)
    with figures.of("writ audit verify, tampered with", rows):
        found, _ = found_by_writ(evidence, "--anchors", lines)
    with figures.of("writ audit verify --file, tampered with", rows):
        assert found_by_writ(evidence, "--file", after, "--anchors", lines)[0].keys() == found.keys()
    with figures.of("verify.py, tampered with", rows):
        by_python = found_by_verify_py(after, "--anchors", lines)
    assert_all_is_found(found, by_python)
    if not LONG:
        for kept in (objects, before):
            assert found_by_writ(evidence, "--anchors", kept)[0].keys() == found.keys() == found_by_verify_py(after, "--anchors", kept)
        assert_sees_a_part(evidence)

    with figures.of("undone", rows):
        evidence.sql(";".join(f"DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept_{table}; DROP TABLE kept_{table}" for table in TABLES))
    found, end = found_by_writ(evidence, "--anchors", lines)
    assert not found and end["records"] == rows and (end["until_the"], end["complete_until"]) == ("anchor", ANCHORED), found
    if not LONG:
        assert_sees_what_the_part_leaves_out(evidence)
    keep_progress(store, {"kinds": len(WAYS), "named by both": len(WAYS), "records": rows, "bytes of the evidence": before.stat().st_size, "steps": figures.steps})
