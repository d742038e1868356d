"""Load that is meant to be interrupted, on one Stack: the clients and the checker of tests/integration."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "integration"))

import checker  # noqa: E402
from clients import AGENT, Load, wait_for_unanswered  # noqa: E402,F401


class Traffic(Load):
    """Keeps `depth` requests unanswered on each of `connections` until stopped; one log for all of a stack's."""

    def __init__(self, stack, name, connections=8, depth=8):
        if not hasattr(stack, "told"):
            stack.told = checker.Told(stack.folder / "told.ndjson")
        super().__init__(stack, stack.told, name, connections, depth)

    def check_store(self):
        """Everything that was told on this stack so far, against its store."""
        return checker.check(self.told, checker.SqliteStore(self.stack.data / "platform.db"))
