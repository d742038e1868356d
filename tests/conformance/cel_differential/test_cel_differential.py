"""`writ cel` beside cel-go on generated expressions and inputs: a few thousand that cel-go has answered before
(record.py), and with WRIT_LONG the full count, asked of both now.

Every question has one answer from both, or a difference that differences.py explains. With WRIT_LONG,
WRIT_CEL_SEED chooses other questions; it is skipped, with the reason, where Go or cel-go is not here.
"""

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[2]
sys.path[:0] = [str(HERE), str(TOP / "tests" / "e2e")]

import differences  # noqa: E402
import differential  # noqa: E402
import generate  # noqa: E402
import harness  # noqa: E402
import record  # noqa: E402

LONG = bool(os.environ.get("WRIT_LONG"))
COUNT = 120_000
SEED = int(os.environ.get("WRIT_CEL_SEED", differential.SEED))
WRIT = harness.BIN / "cel_conformance"


@pytest.fixture(scope="module")
def celgo(tmp_path_factory):
    program = tmp_path_factory.mktemp("celgo") / "celgo"
    done = subprocess.run([HERE / "build", program], capture_output=True, text=True, timeout=600)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip().removeprefix("SKIP: "))
    assert done.returncode == 0, done.stdout + done.stderr
    return program


def nothing_is_unexplained(tally, seed):
    differential.report(tally, seed, 10)
    assert not tally.unexplained, f"{len(tally.unexplained)} differences that nothing explains, of seed {seed}"
    assert tally.values > tally.count / 2, "most of what is generated fails, so that little is compared"


def test_every_recorded_answer_is_the_same_or_explained():
    tally = differential.run_recorded(WRIT)
    assert tally.count == record.RECORDED
    nothing_is_unexplained(tally, differential.SEED)


def test_every_documented_difference_is_there():
    assert differential.run_kept(WRIT) == {d.name: [d.name] for d in differences.DIFFERENCES}


if LONG:
    def test_every_answer_is_the_same_or_explained_and_every_difference_met(celgo):
        tally = differential.run(WRIT, celgo, COUNT, SEED)
        assert tally.count == COUNT
        nothing_is_unexplained(tally, SEED)
        assert {d.name for d in differences.DIFFERENCES} == set(tally.met)


def test_the_same_seed_asks_the_same_questions():
    first, second = generate.Generator(SEED), generate.Generator(SEED)
    assert [first.question() for _ in range(200)] == [second.question() for _ in range(200)]


VALUES = [({"int64_value": "1"}, {"uint64_value": "1"}), ({"double_value": 0.0}, {"double_value": "-0"}), ({"string_value": "a"}, {"bytes_value": "YQ=="}),
          ({"list_value": [{"int64_value": "1"}]}, {"list_value": []}), ({"bool_value": True}, {"bool_value": False})]


@pytest.mark.parametrize("ours, theirs", VALUES)
def test_what_is_not_the_same_is_seen(ours, theirs):
    assert not differential.agree({"value": ours}, {"value": theirs})
    assert differential.agree({"value": ours}, {"value": ours})
    assert not differential.agree({"value": ours}, {"error": "no"})


def test_an_error_that_no_entry_tells_of_is_not_explained():
    question = {"expr": "1 / i", "bindings": {}}
    assert differences.find(question, {"error": "division by zero (at column 3)"}, {"value": {"int64_value": "1"}}) is None
    assert differences.find(question, {"error": "a key is there twice (at column 1)"}, {"value": {"int64_value": "1"}}) is None
