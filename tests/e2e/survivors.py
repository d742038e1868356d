"""Load that is meant to be interrupted, on one Stack: the clients and the checker of tests/integration."""

import pathlib
import re
import shutil
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

import checker  # noqa: E402
from clients import AGENT, Load, wait_for_unanswered  # noqa: E402,F401
from harness import eventually  # noqa: E402


class Traffic(Load):
    """Keeps `depth` requests unanswered on each of `connections` until stopped; one log for all of a stack's."""

    def __init__(self, stack, name, connections=8, depth=8):
        if not hasattr(stack, "told"):
            stack.told = checker.Told(stack.folder / "told.ndjson")
        super().__init__(stack, stack.told, name, connections, depth)

    def check_store(self):
        """Everything that was told on this stack so far, against its store."""
        return checker.check(self.told, checker.SqliteStore(self.stack.data / "platform.db"))


# ---- a store that goes back in time ----

FORGETFUL = ["--journal.segment_size", "1MiB", "--journal.keep", "1s", "--snapshot.bytes", "1MiB"]


def back_up(stack):
    """A copy of the platform's database as it stands."""
    stack.platform.stop()
    backup = stack.folder / "backup.db"
    shutil.copy(stack.data / "platform.db", backup)
    stack.platform.start()
    return backup


def restore(stack, backup):
    stack.platform.stop()
    for left in stack.data.glob("platform.db*"):
        left.unlink()
    shutil.copy(backup, stack.data / "platform.db")
    stack.platform.start()


def decide(stack, count=1):
    """Large decisions; the trace id of the first."""
    with stack.at_engine() as wire:
        body = {"action": "get_x", "args": {"text": "x" * 40000}}
        return [wire.post(AGENT, body).json["trace_id"] for _ in range(count)][0]


def decide_until_forgotten(stack):
    """Decides until a FORGETFUL engine no longer keeps the first of them; its trace id."""
    def segments():
        return sorted(path.name for path in stack.engine_data.rglob("*.journal"))
    first, newest = decide(stack), segments()[-1]

    def is_forgotten():
        decide(stack, 10)
        return segments()[0] > newest
    eventually(is_forgotten, "the journal lets segments go")
    return first


def gap_advice(stack):
    """What health says to give up lost records by: arguments of `writ`, or None."""
    with stack.at_engine(None) as wire:
        found = re.search(r"writ (audit accept-gap .*)", wire.get("/healthz").json["checks"]["publish"])
    return found and [*found[1].split(), "--platform", stack.platform.url]
