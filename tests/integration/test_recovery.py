"""A start from what the disk has: snapshots, the journal, the node's name; whole, damaged, and of another engine.

Each test tells the engine a story (test_redis.py), does something to its files, and asks whether all of the
story still stands, or whether the start was refused with the reason.
"""

import os
import pathlib
import shutil
import signal
import sys
import time

import harness
from fleet import eventually
from preload import preload
from test_redis import AGENT, Story, fresh, health, refused_start  # noqa: F401  (fresh is a fixture)


def test_all_state_survives_kills_and_another_number_of_reactors(fresh):
    stack = fresh(engine=["--snapshot.interval", "1s"]).start()
    story = Story(stack).tell()
    story.check()
    for reactors, crash in (("1", True), ("4", True), ("3", False), ("2", True)):
        stack.engine.kill() if crash else stack.engine.stop()
        at = stack.engine.arguments.index("--reactors")
        stack.engine.arguments[at + 1] = reactors
        stack.engine.start()
        story.check()
        story.tell(1)
    stack.engine.stop()


def snapshots(stack):
    return sorted((stack.engine_data / "engine" / "snapshots").glob("snapshot-*"))


def flip(file):
    whole = file.read_bytes()
    file.write_bytes(whole[:700] + bytes([whole[700] ^ 1]) + whole[701:])


def rolled(fresh):
    """An engine whose journal does not begin with seq 1 any more, with two snapshots; and its story."""
    stack = fresh(engine=["--journal.segment_size", "1MiB", "--journal.keep", "0s", "--snapshot.interval", "1s"]).start()
    story = Story(stack).tell()
    big = {"action": "get_x", "args": {"text": "x" * 40000}}

    def is_rolled():
        assert story.call("POST", AGENT, body=big).status == 200
        return not (stack.engine_data / "engine" / "journal" / f"{1:016x}.journal").exists() and len(snapshots(stack)) == 2

    eventually(is_rolled, "the oldest segment goes")
    story.tell(1)
    return stack, story


def test_a_damaged_snapshot_is_noticed_and_the_one_before_it_serves(fresh):
    stack, story = rolled(fresh)
    stack.engine.kill()
    newest = snapshots(stack)[-1]
    flip(newest)
    stack.engine.start()
    story.check()
    assert newest.name in stack.engine.tail(), "the log does not name it"
    eventually(lambda: not newest.exists() and health(stack)["checks"]["snapshot"] == "ok", "it is made again")
    stack.engine.stop()
    for file in snapshots(stack):
        file.write_bytes(file.read_bytes()[:-1])
    assert "none of the 2 snapshots verifies" in refused_start(stack.engine)


def test_a_snapshot_that_is_damaged_while_the_engine_runs_is_made_again(fresh):
    stack, story = rolled(fresh)
    newest = snapshots(stack)[-1]
    flip(newest)
    story.tell(1)
    eventually(lambda: not newest.exists(), "it is made again")
    assert health(stack)["checks"]["snapshot"] == "ok"
    stack.engine.kill()
    stack.engine.start()
    story.check()
    stack.engine.stop()


def test_where_all_snapshots_are_damaged_a_whole_journal_serves(fresh):
    stack = fresh().start()
    story = Story(stack).tell()
    stack.engine.stop()
    flip(snapshots(stack)[0])
    stack.engine.start()
    story.check()
    assert "snapshot_damaged" in stack.engine.tail(), "the log does not name it"
    eventually(lambda: health(stack)["checks"]["snapshot"] == "ok", "a new one is made")
    stack.engine.kill()
    stack.engine.start()
    story.check()
    stack.engine.stop()


def test_a_snapshot_of_another_data_directory_is_refused(fresh):
    stack, other = fresh().start(), fresh()
    other.make_first_keys()  # a stranger's
    other.start()
    story = Story(stack).tell()
    Story(other).tell(1)
    stack.engine.stop()
    other.engine.stop()
    own, foreign = snapshots(stack)[-1], snapshots(other)[-1]
    assert foreign.name < own.name, "its end is in our journal"
    own.unlink()
    shutil.copy(foreign, own.parent)
    words = refused_start(stack.engine)
    assert "different histories" in words and foreign.name in words, words
    (own.parent / foreign.name).unlink()
    stack.engine.start()
    story.check()
    stack.engine.stop()


def test_a_node_name_that_is_not_the_last_records_is_refused(fresh):
    """Under another name the platform would be told a second time what it has, and miss the rest."""
    stack = fresh().start()
    story = Story(stack).tell(1)
    stack.engine.stop()
    file = stack.engine_data / "engine" / "node"
    name = file.read_bytes()
    for at in range(0, len(name) - 1, 5):
        file.write_bytes(name[:at] + bytes([name[at] ^ 1]) + name[at + 1:])
        assert "written under another name" in refused_start(stack.engine) or not file.read_text().strip()[at:at + 1].isalnum()
    file.write_bytes(b"")
    assert "holds no node name" in refused_start(stack.engine)
    file.unlink()
    for _ in range(2):
        assert "there is no such file" in refused_start(stack.engine)
        assert not file.exists(), "a start that was refused named it"
    file.write_bytes(name)
    stack.engine.start()
    story.check()
    stack.engine.stop()
    stack.engine.arguments += ["--node", "another"]  # somebody means it
    stack.engine.start()
    story.check()
    stack.engine.stop()


def test_a_start_with_the_clock_far_ahead_is_refused(fresh, tmp_path):
    clock = tmp_path / "clock"

    def shift(days):
        clock.write_bytes(int(days * 86400000).to_bytes(8, sys.byteorder, signed=True))

    shift(0)
    shifted = {"LD_PRELOAD": preload(harness.BUILD / "tests" / "libclock_shift.so"), "CLOCK_SHIFT_FILE": str(clock),
               "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"}
    stack = fresh(engine_environment=shifted).start()
    story = Story(stack).tell(1)
    stack.engine.stop()
    shift(365)
    words = refused_start(stack.engine)
    assert "the machine's clock is 36" in words and "--journal.clock_ahead 0" in words, words
    shift(0)  # nothing was written with that time
    stack.engine.start()
    assert health(stack)["checks"]["clock"] == "ok"
    story.check()
    stack.engine.stop()
    shift(179)
    stack.engine.start()
    stack.engine.stop()
    shift(400)
    stack.engine.arguments += ["--journal.clock_ahead", "0"]
    stack.engine.start()
    stack.engine.stop()


def test_a_signal_ends_a_recovery_that_takes_long(fresh, tmp_path):
    stack = fresh(engine=["--journal.segment_size", "64MiB", "--journal.keep", "10d"]).start()
    story = Story(stack).tell(1)
    stack.engine.kill()
    log = tmp_path / "strace"  # each read of the journal takes as long as on a very slow disk
    stack.engine.prefix = ["strace", "-f", "-qqq", "-o", str(log), "-e", "trace=pread64", "-e", "inject=pread64:delay_enter=200000"]
    stack.engine.start(ready=False)
    eventually(lambda: log.exists() and log.read_text().count("pread64") > 3, "it reads")
    begun = time.monotonic()
    traced = int(pathlib.Path(f"/proc/{stack.engine.pid}/task/{stack.engine.pid}/children").read_text())
    os.kill(traced, signal.SIGTERM)
    assert stack.engine.wait() == 0
    assert "a signal ended the start" in stack.engine.tail()
    assert time.monotonic() - begun < 10
    stack.engine.prefix = []
    stack.engine.start()
    story.check()
    stack.engine.stop()


def test_a_journal_that_lost_its_end_is_refused(fresh):
    stack = fresh().start()
    Story(stack).tell(1)
    stack.engine.stop()
    shutil.rmtree(stack.engine_data / "engine" / "journal")
    assert "the end of the journal is lost" in refused_start(stack.engine)


def test_records_missing_behind_the_snapshot_are_refused_with_their_place(fresh):
    stack = fresh(engine=["--journal.segment_size", "1MiB"]).start()
    story = Story(stack)
    big = {"action": "get_x", "args": {"text": "x" * 40000}}
    for _ in range(60):
        assert story.call("POST", AGENT, body=big).status == 200
    stack.engine.stop()
    for file in snapshots(stack):
        file.unlink()
    first = sorted((stack.engine_data / "engine" / "journal").glob("*.journal"))[0]
    first.unlink()
    words = refused_start(stack.engine)
    assert "there is no snapshot" in words and "begins with seq" in words, words


def test_healthz_and_metrics_tell_of_snapshots(fresh):
    stack, _ = rolled(fresh)
    eventually(lambda: stack.metrics(stack.engine)["writ_engine_snapshots_total"] >= 1, "a snapshot is made")
    assert health(stack)["checks"]["snapshot"] == "ok"
    assert "redis" not in health(stack)["checks"]
    # A fold cannot be made of damage: degraded, and the engine goes on.
    for file in snapshots(stack):
        file.write_bytes(b"x" * 5000)
    with stack.at_engine() as wire:
        assert wire.post(AGENT, {"action": "get_x"}).status == 200
    told = eventually(lambda: (words := health(stack)["checks"]["snapshot"]) != "ok" and words, "the check reports that no snapshot can be made")
    assert "verifies" in told
    assert health(stack)["status"] == "degraded"
    assert stack.metrics(stack.engine)["writ_engine_snapshot_failures_total"] >= 1
    with stack.at_engine() as wire:
        assert wire.post(AGENT, {"action": "get_x"}).status == 200
