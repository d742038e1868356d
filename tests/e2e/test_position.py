"""Rows and the stream's position are one transaction: the platform is killed at each of its syncs.

strace kills it as it enters its Nth sync; then the database alone is looked at. An engine's stream
is made up here, so that each batch is known.
"""

import shutil
import sqlite3

import pytest

import harness
from test_ingest import Stream, event
from wire import Closed

MOMENTS = range(1, 40) if harness.LONG else (2, 3, 5, 8, 11, 14, 17, 20)


def contents(folder, data):
    """{node: (next_seq, rows, newest row)} of a copy of the database."""
    copy = folder / "copy"
    copy.mkdir()
    for file in data.glob("platform.db*"):
        if not file.name.endswith("-shm"):
            shutil.copy(file, copy / file.name)
    database = sqlite3.connect(copy / "platform.db")
    found = {}
    try:
        for node, next_seq in database.execute("SELECT node, next_seq FROM streams"):
            rows = database.execute("SELECT count(DISTINCT seq), coalesce(max(seq), 0), count(*) FROM events WHERE node = ?",
                                    (node,)).fetchone()
            found[node] = (next_seq, *rows)
    finally:
        database.close()
        shutil.rmtree(copy)
    return found


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not here")
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_at_any_sync_leaves_rows_and_position_together(fresh, tmp_path, moment):
    stack = fresh(platform_prefix=["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync,fsync",
                                   "-e", f"inject=fdatasync,fsync:signal=KILL:when={moment}"],
                  platform_environment={"ASAN_OPTIONS": "detect_leaks=0"})
    stack.make_first_keys()
    stream, answered = Stream(stack), 0
    try:
        stack.platform.start()
    except AssertionError:
        stack.platform.process = None  # killed while it started: there is no stream yet
    else:
        try:
            records = [stream.started()]
            for _ in range(60):
                records += [event() for _ in range(20)]
                reply = stream.post(records)
                assert reply.status == 201, reply
                answered = stream.next = reply.json["next_seq"]
                records = []
        except (Closed, OSError):
            pass
        assert stack.platform.wait() != 0, "it was not killed"
    data = stack.data
    if not (data / "platform.db").exists():
        return
    for node, (next_seq, rows, newest, all_rows) in contents(tmp_path, data).items():
        assert next_seq - 1 == newest == rows == all_rows, f"{node}: position {next_seq}, {rows} rows up to {newest}"
        assert next_seq >= answered
    # And the platform itself goes on from there.
    stack.platform.prefix, stack.platform.environment = [], {}
    stack.platform.start()
    position = stream.position()
    assert (position[0]["next_seq"] if position else 1) >= max(answered, 1)
