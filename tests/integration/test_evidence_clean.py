"""What an engine signed is proved to its last record after every crash of either program: no alarm without a cause."""

import json
import os
import random

import pytest

import harness
from test_tampering import export, found_by_verify_py, found_by_writ

LONG = os.environ.get("WRIT_LONG") == "1"
CRASHES = 100 if LONG else 4


class One:
    """What found_by_writ() and export() need of a stack."""

    def __init__(self, stack):
        self.stack = stack


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_no_crash_makes_a_finding(kind, request, tmp_path):
    url = request.getfixturevalue("postgres").new_database() if kind == "postgres" else None
    random_ = random.Random(7)
    with harness.Stack(tmp_path, store_url=url) as stack:
        stack.policy("base", "rules: [{id: reads, agents: [\"*\"], actions: [\"get_*\"], decision: allow}]")
        node = (stack.engine_data / "engine/node").read_text().strip()
        stack.cli("engine", "trust", "--node", node, "--public-key", (stack.engine_data / "engine/evidence.pub").read_text().strip(),
                  "--platform", stack.platform.url, key=stack.keys["root"])
        asked = 0
        for _ in range(CRASHES):
            with stack.at_engine() as wire:
                for _ in range(random_.randrange(1, 60)):
                    assert wire.post("/v1/agent/authorize", {"action": "get_x", "args": {"n": asked}}).status == 200
                    asked += 1
            for program in random_.sample([stack.engine, stack.platform], random_.randrange(1, 3)):
                program.kill()
                program.start()
        stack.wait_published()
        found, _ = found_by_writ(One(stack))
        assert not found, found
        file = export(One(stack), "evidence.ndjson")
        assert not found_by_verify_py(file)
        done = stack.cli("audit", "verify", "--json", "--file", file)
        stream, = (line for line in map(json.loads, done.stdout.splitlines()) if "stream" in line)
        assert stream["node"] == node and stream["records"] >= asked and stream["proved"] == stream["records"] == stream["proved_until"], stream
