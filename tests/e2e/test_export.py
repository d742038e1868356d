"""`writ audit export`: what a file holds, after however many crashes; and what a CSV shows to a spreadsheet."""

import csv
import fcntl
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

from harness import BIN, PATIENCE, eventually
from test_network import Narrow

MANY = 12000
MADE = "2026-11-01T00:00:00.000Z"


def store(stack, sql, *parameters):
    with sqlite3.connect(f"file:{stack.data / 'platform.db'}?mode=ro", uri=True) as database:
        return database.execute(sql, parameters).fetchall()


def post(stack, events, tenant, batch=2000):
    """Events as other systems post them, a batch in a request."""
    with stack.at_platform("engine") as wire:
        for at in range(0, len(events), batch):
            lines = "\n".join(json.dumps(event) for event in events[at:at + batch])
            reply = wire.post(f"/api/v1/audit/ingest?tenant_id={tenant}", lines, headers={"Content-Type": "application/x-ndjson"})
            assert reply.status == 201, reply


class Trail:
    """A tenant with MANY events, and `writ audit export` for it."""

    def __init__(self, stack, name):
        self.stack, self.name, self.address = stack, name, stack.platform.url
        self.key = stack.key(f"{name}-auditor", ["auditor"], tenant=name, wait=False)
        post(stack, [self.event(n) for n in range(MANY)], name)

    def event(self, n, **more):
        return {"event_id": f"{self.name}.{n}", "kind": "external.decision", "tenant_id": self.name, "timestamp": MADE, "actor": f"bot-{n % 7}",
                "action": "get_x", "decision": "allow" if n % 3 else "deny", "reason": "r" * (n % 50), **more}

    def command(self, *words):
        return [str(BIN / "writ"), "audit", "export", "--platform", self.address, *[str(word) for word in words]]

    def start(self, *words):
        return subprocess.Popen(self.command(*words), env={"WRIT_KEY": self.key}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *words, check=0, **options):
        done = subprocess.run(self.command(*words), env={"WRIT_KEY": self.key}, capture_output=True, timeout=PATIENCE, **options)
        assert done.returncode == check, (done.returncode, done.stdout[-300:], done.stderr)
        return done

    def stored(self):
        return [event for event, in store(self.stack, "SELECT event FROM records WHERE tenant_id = ? ORDER BY id", self.name)]


@pytest.fixture(scope="module")
def trail(stack):
    """Shared by tests that add nothing."""
    return Trail(stack, "trail")


def lines_of(file):
    text = file.read_text()
    assert text.endswith("\n")
    return text[:-1].split("\n")


def assert_same(found, wanted):
    assert len(found) == len(wanted), f"{len(wanted) - len(found)} lost, {len(found) - len(set(found))} doubled"
    assert found == wanted


# ---- what is in it ----


def test_each_event_is_a_line_as_it_was_recorded_oldest_first(trail, tmp_path):
    file = tmp_path / "audit.ndjson"
    done = trail.run("--output", file)
    assert_same(lines_of(file), trail.stored())
    assert f"{len(trail.stored())} events in".encode() in done.stderr and done.stdout == b""
    assert file.stat().st_mode & 0o777 == 0o600
    for words in ([], ["--output", "-"]):
        assert trail.run(*words, cwd=tmp_path).stdout == file.read_bytes(), "standard output is the same"
    assert sorted(left.name for left in tmp_path.iterdir()) == ["audit.ndjson", "audit.ndjson.export"]


def test_a_query_of_many_lines_says_where_older_ones_begin(trail):
    def query(*words):
        done = trail.stack.cli("audit", "query", "--platform", trail.stack.platform.url, "--json", *words, key=trail.key)
        return [json.loads(line)["event_id"] for line in done.stdout.splitlines()], done.stderr
    first, told = query("--limit", "600")
    assert len(first) == 600 and told.startswith("Older ones: --cursor "), told
    rest, told = query("--limit", "100000", "--cursor", told.split()[-1])
    assert told == "" and sorted(first + rest) == sorted(json.loads(event)["event_id"] for event in trail.stored())


def test_filters_and_times_narrow_it_as_they_narrow_a_query(trail):
    def ids(*words):
        return [json.loads(line)["event_id"] for line in trail.run(*words).stdout.splitlines()]

    assert ids("--actor", "bot-3", "--decision", "deny") == [f"trail.{n}" for n in range(MANY) if n % 7 == 3 and n % 3 == 0]
    assert ids("--to", "2026-11-01") == ids("--to", MADE) == [] and len(ids("--from", MADE, "--actor", "bot-1", "--to", "2026-11-01T00:00:00.001Z")) == sum(n % 7 == 1 for n in range(MANY))


def test_an_engines_events_leave_with_the_bytes_of_the_journal(tenant, tmp_path):
    tenant.policy("rules:\n  - {id: r, agents: ['*'], actions: ['get_*'], decision: allow}\n")
    answers = [tenant.ask("get_x", args={"n": n, "text": "ü\n\"'"}) for n in range(20)]
    tenant.stack.wait_published()
    file = tmp_path / "audit.ndjson"
    tenant.stack.cli("audit", "export", "--platform", tenant.stack.platform.url, "--output", file, "--kind", "decision", key=tenant.auditor)
    stored = [event for event, in store(tenant.stack, "SELECT event FROM records WHERE tenant_id = ? AND kind = 'decision' ORDER BY id", tenant.name)]
    assert_same(lines_of(file), stored)
    assert [json.loads(line)["trace_id"] for line in lines_of(file)] == [answer["trace_id"] for answer in answers]


def test_an_event_that_was_posted_over_several_lines_is_one_line(tenant):
    event = {"event_id": f"pretty.{tenant.name}", "kind": "external.decision", "tenant_id": tenant.name, "timestamp": MADE, "reason": "a\nb"}
    with tenant.stack.at_platform("engine") as wire:
        assert wire.post(f"/api/v1/audit/ingest?tenant_id={tenant.name}", json.dumps(event, indent=2)).status == 201
    done = tenant.stack.cli("audit", "export", "--platform", tenant.stack.platform.url, "--kind", "external.decision", key=tenant.auditor)
    assert len(done.stdout.splitlines()) == 1 and json.loads(done.stdout) == event


def test_events_whose_values_are_very_many_and_small_do_not_stop_it(tenant):
    args = {"list": [0] * 19000}
    post(tenant.stack, [{"event_id": f"small.{tenant.name}.{n}", "kind": "external.decision", "tenant_id": tenant.name, "timestamp": MADE, "args": args}
                        for n in range(60)], tenant.name)
    done = tenant.stack.cli("audit", "export", "--platform", tenant.stack.platform.url, "--kind", "external.decision", key=tenant.auditor)
    assert len(done.stdout.splitlines()) == 60


# ---- csv ----

NASTY = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "'=1", "'", "", " ", "a,b", 'a"b', "a;=b", "a\r\nb", "＝1", "plain", "a=1"]


def unguarded(cell):
    return cell[1:] if cell.startswith("'") else cell


def test_a_csv_gives_back_each_member_and_nothing_in_it_is_a_formula(tenant):
    events = [{"event_id": f"nasty.{tenant.name}.{n}", "kind": "external.decision", "tenant_id": tenant.name, "timestamp": MADE, "reason": text,
               "args": {"t": text}, "confidence": 0.25, "policy_version": 3} for n, text in enumerate(NASTY)]
    post(tenant.stack, events, tenant.name)

    def export(*words):
        words = ("audit", "export", "--format", "csv", "--kind", "external.decision", "--platform", tenant.stack.platform.url, *words)
        return subprocess.run([str(BIN / "writ"), *words], env={"WRIT_KEY": tenant.auditor}, capture_output=True, check=True).stdout.decode()

    text = export()
    rows = list(csv.reader(io.StringIO(text, newline="")))
    columns = [row[1] for row in store(tenant.stack, "SELECT * FROM pragma_table_info('events')")]
    assert sorted(rows[0]) == sorted(set(columns) - {"event"}), "the columns are the view's, without the event itself"
    assert len(rows) == len(events) + 1 and all(len(row) == len(rows[0]) for row in rows)
    for event, row in zip(events, rows[1:]):
        cells = dict(zip(rows[0], row))
        assert unguarded(cells["reason"]) == event["reason"]
        assert not re.match(r"[=+\-@\t\r\n＝]", cells["reason"])
        assert json.loads(cells["args"]) == event["args"] and cells["confidence"] == "0.25" and cells["policy_version"] == "3"
        assert cells["decision"] == cells["node"] == cells["count"] == ""
    assert text.count("\r\n") == len(rows) + sum("\r\n" in event["reason"] for event in events), "lines end as RFC 4180 says"
    bare = list(csv.reader(io.StringIO(export("--unguarded"), newline="")))
    assert [row[rows[0].index("reason")] for row in bare[1:]] == NASTY


def test_a_csv_without_events_has_its_head(trail, tmp_path):
    file = tmp_path / "none.csv"
    for _ in range(2):
        trail.run("--format", "csv", "--actor", "nobody", "--output", file, "--resume")
        assert file.read_text().startswith("id,created_at,node,") and file.read_text().count("\n") == 1


def test_an_export_that_was_refused_leaves_nothing_that_stands_in_the_next_ones_way(trail, tmp_path):
    file = tmp_path / "first"
    done = subprocess.run([*trail.command("--output", file), "--tenant", "another"], env={"WRIT_KEY": trail.key}, capture_output=True, text=True)
    assert done.returncode == 1 and "--resume" not in done.stderr, done
    assert not list(tmp_path.iterdir())
    for _ in range(2):  # its state's name is too long: the second is refused as the first was
        done = subprocess.run([*trail.command("--output", tmp_path / ("n" * 250))], env={"WRIT_KEY": trail.key}, capture_output=True, text=True)
        assert done.returncode == 1 and "too long" in done.stderr and not list(tmp_path.iterdir()), done
    trail.run("--output", file, "--actor", "nobody")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "first.export"], "what found nothing is an answer"
    done = subprocess.run([*trail.command("--output", file, "--resume", "--actor", "nobody"), "--tenant", "another"], env={"WRIT_KEY": trail.key},
                          capture_output=True, text=True)
    assert done.returncode != 0 and file.exists(), "what an earlier run made stays"


# ---- crashes ----


@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_whatever_is_killed_the_next_run_loses_and_doubles_nothing(trail, tmp_path, form):
    file, dice, torn, killed = tmp_path / "audit", random.Random(17), 0, 0
    took = time.monotonic()
    whole = trail.run("--format", form).stdout
    took = time.monotonic() - took
    for _ in range(60):
        run, begun = trail.start("--format", form, "--output", file, "--resume"), time.monotonic()
        try:
            run.communicate(timeout=dice.uniform(0, took / 4))
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGKILL)
            run.communicate()
            killed += run.returncode != 0
        if run.returncode == 0 and killed > 2:
            break
        if run.returncode == 0:  # the machine has become quicker: from the beginning
            assert file.read_bytes() == whole
            took = min(took / 2, time.monotonic() - begun)
            file.unlink()
            tmp_path.joinpath("audit.export").unlink()
            continue
        if file.exists() and not tmp_path.joinpath("audit.export").exists():
            assert file.read_bytes() == b"", "a file without a state is one that was only made"
        elif file.exists():
            state = json.loads(tmp_path.joinpath("audit.export").read_text())
            assert file.read_bytes()[:state["bytes"]] == whole[:state["bytes"]]
            torn += file.stat().st_size > state["bytes"]
            with open(file, "ab") as tail:  # a page that was torn in the middle of a row
                tail.write(b'{"event_id": "torn')
    else:
        trail.run("--format", form, "--output", file, "--resume")
    assert killed > 2, "nothing was killed: this shows nothing"
    print(f"{form}: killed {killed} times, {torn} times within a page; {MANY} events, 0 lost, 0 doubled")
    assert file.read_bytes() == whole


def test_a_platform_that_is_killed_meanwhile_costs_nothing_but_time(fresh, tmp_path):
    stack = fresh().start()
    trail = Trail(stack, "default")
    file = tmp_path / "audit.ndjson"
    way = Narrow(stack.platform.address, 200_000)  # or all of it were here before this process looks
    trail.address = f"http://127.0.0.1:{way.port}"
    run = trail.start("--output", file, "--resume")
    eventually(lambda: file.exists() and file.stat().st_size, "the first of it is there")
    stack.platform.kill()
    _, said = run.communicate()
    assert run.returncode == 3 and "--resume continues" in said, (run.returncode, said)
    stack.platform.start()
    before = len(lines_of(file))
    assert 0 < before < MANY
    way.rate = 1e9
    trail.run("--output", file, "--resume")
    assert_same(lines_of(file), trail.stored())
    way.close()


def test_a_disk_that_is_full_is_told_and_waited_for(trail, tmp_path):
    file = tmp_path / "audit.ndjson"

    def small():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    done = trail.run("--output", file, check=1, preexec_fn=small)
    assert b"cannot be written" in done.stderr
    trail.run("--output", file, "--resume")
    assert_same(lines_of(file), trail.stored())
    with open("/dev/full", "wb") as full:
        done = subprocess.run(trail.command(), env={"WRIT_KEY": trail.key}, stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE)
    assert done.returncode == 1 and b"could not be written" in done.stderr


@pytest.mark.parametrize("call", ["pwrite64", "fdatasync", "fsync", "rename", "openat"])
def test_each_system_call_may_fail_and_the_next_run_mends_it(trail, tmp_path, call):
    if shutil.which("strace") is None:
        pytest.skip("SKIP: strace is not installed")
    file, failed = tmp_path / "audit.ndjson", 0
    for when in (1, 2, 3, 7, 8, 20):
        traced = ["strace", "-f", "-qq", "-e", f"trace={call}", "-e", f"inject={call}:error=EIO:when={when}", "-P", str(file), "-P", f"{file}.export",
                  "-P", f"{file}.export.new", "-P", str(tmp_path)]
        run = subprocess.run(traced + trail.command("--output", file, "--resume"), capture_output=True, timeout=PATIENCE,
                             env={"WRIT_KEY": trail.key, "ASAN_OPTIONS": "detect_leaks=0"})
        assert run.returncode in (0, 1, 2), run.stderr
        if run.returncode:
            failed += 1
            assert b"Input/output error" in run.stderr and b"Sanitizer" not in run.stderr, run.stderr
    assert failed > 1, "nothing failed: this shows nothing"
    trail.run("--output", file, "--resume")
    assert_same(lines_of(file), trail.stored())


# ---- going on ----


def test_the_same_line_tomorrow_adds_what_is_new(stack, tmp_path):
    trail, file = Trail(stack, "daily"), tmp_path / "audit.ndjson"
    line = ("--output", file, "--resume", "--from", "2026-10-01T00:00:00Z")
    trail.run(*line)
    whole = file.read_bytes()
    with open(file, "ab") as tail:  # of a page that was never finished
        tail.write(whole[:300] * 5000)
    assert trail.run(*line).stderr.endswith(b" 0 of them new\n")
    assert file.read_bytes() == whole, "what no state knows of is cut off"
    late = [trail.event(MANY + n, timestamp="2026-10-30T00:00:00.000Z") for n in range(700)]  # late, of an earlier time
    post(stack, late, "daily")
    done = json.loads(trail.run(*line, "--json").stdout)
    assert (done["new"], done["bytes"]) == (700, file.stat().st_size) and done["events"] == len(lines_of(file))
    assert_same(lines_of(file), trail.stored()[-done["events"]:])


def test_a_span_stands_for_the_same_time_when_it_is_gone_on_with(trail, tmp_path):
    file = tmp_path / "audit.ndjson"
    trail.run("--output", file, "--resume", "--from", "9000d", "--actor", "bot-1")
    first = json.loads((tmp_path / "audit.ndjson.export").read_text())["target"]
    assert "from=20" in first
    trail.run("--output", file, "--resume", "--from", "9000d", "--actor", "bot-1")
    assert json.loads((tmp_path / "audit.ndjson.export").read_text())["target"] == first


def test_it_refuses_rather_than_spoil_a_file(trail, tmp_path):
    file, state = tmp_path / "audit.ndjson", tmp_path / "audit.ndjson.export"
    line = ("--output", file, "--actor", "bot-1")
    trail.run(*line)
    whole, kept = file.read_bytes(), state.read_text()
    assert b"continue it with --resume" in trail.run(*line, check=2).stderr
    assert b"other options" in trail.run("--output", file, "--resume", check=2).stderr
    assert b"other options" in trail.run(*line, "--resume", "--format", "csv", check=2).stderr
    with open(file) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert b"another export" in trail.run(*line, "--resume", check=1).stderr
    other = json.loads(kept)
    for change in ({"last_event": "trail.x"}, {"last_id": other["last_id"] - 1}, {"last_id": 10**15}):
        state.write_text(json.dumps({**other, **change}))
        assert b"its store was restored" in trail.run(*line, "--resume", check=1).stderr
    for change in ({"bytes": len(whole) + 1}, {"bytes": len(whole) - 1}):
        state.write_text(json.dumps({**other, **change}))
        assert b"does not match" in trail.run(*line, "--resume", check=1).stderr
    for text in ("", "{}", "[]", kept[:-5], json.dumps({**other, "target": "http://elsewhere"}), json.dumps({**other, "bytes": -1})):
        state.write_text(text)
        assert b"begin again" in trail.run(*line, "--resume", check=1).stderr
    state.unlink()
    assert b"does not exist" in trail.run(*line, "--resume", check=1).stderr
    assert file.read_bytes() == whole
    state.write_text(kept)
    file.unlink()
    assert b"does not exist" in trail.run(*line, "--resume", check=1).stderr
    trail.run(*line)  # anew
    assert file.read_bytes() == whole


def test_streams_that_the_caller_has_closed_cost_the_file_nothing(trail, tmp_path):
    """What is said at the end would else go to whatever has taken the stream's number: the file."""
    trail.run("--output", tmp_path / "whole", "--actor", "bot-1")
    for streams in ((2,), (1, 2), (0, 1, 2)):
        file = tmp_path / str(streams)
        subprocess.run(trail.command("--output", file, "--actor", "bot-1"), env={"WRIT_KEY": trail.key}, timeout=PATIENCE,
                       preexec_fn=lambda closed=streams: [os.close(stream) for stream in closed])
        assert file.read_bytes() == (tmp_path / "whole").read_bytes(), streams
    nowhere = subprocess.run(trail.command("--actor", "bot-1"), env={"WRIT_KEY": trail.key}, timeout=PATIENCE, preexec_fn=lambda: os.close(1))
    assert nowhere.returncode == 1


def test_words_that_make_no_sense_are_told(trail):
    assert b"--help for the line that makes Parquet" in trail.run("--format", "parquet", check=2).stderr
    assert b"ndjson or csv" in trail.run("--format", "xml", check=2).stderr
    assert b"--output" in trail.run("--resume", check=2).stderr
    assert b"--from" in trail.run("--from", "yesterday", check=2).stderr
    assert b"decision" in trail.run("--decision", "perhaps", check=1).stderr
    assert b"duckdb" in trail.run("--help").stdout
