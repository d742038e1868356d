"""The tests are shown to bite: each bug that can be planted is caught by at least one of them.

The dev build reads WRIT_BUG. Each catcher below is an existing test; without a bug it passes, with
the bug it must fail. The matrix is printed. A catcher that no longer fails has lost its teeth.
"""

import os
import pathlib
import re
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WRIT_BUILD", TOP / "build" / "dev"))
MATRIX = {}


def simulator(*arguments):
    return [str(BUILD / "tests" / "sim_sim_journal"), *arguments]


def pytest_of(path, expression=None):
    return ["/usr/bin/python3", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=line", str(TOP / path),
            *(["-k", expression] if expression else [])]


def states(*arguments):
    return [str(BUILD / "tests" / "sim_sim_state"), *arguments]


CATCHERS = {
    "steps": [str(BUILD / "tests" / "sim_sim_steps"), "--count", "200"],
    "state": states("--seeds", "700", "--from", "1"),
    "power cuts": simulator("--seeds", "300", "--from", "1"),
    "journal faults": pytest_of("tests/integration/test_journal_faults.py"),
    "topic intake": [str(BUILD / "tests" / "ingest_test_intake")],
    "ingest": pytest_of("tests/e2e/test_ingest.py", "taken_once or overlap"),
    "kill at a sync": pytest_of("tests/e2e/test_position.py"),
}
BUGS = {
    "answer_before_sync": ["power cuts"],
    "no_crc": ["power cuts"],
    "sync_error_ignored": ["journal faults"],
    "short_write_ignored": ["journal faults"],
    "position_apart": ["kill at a sync"],
    "no_dedupe": ["ingest"],
    "offset_apart": ["topic intake"],
    "zombie_commits": ["topic intake"],
    "two_winners": ["state"],
    "spend_after_answer": ["state"],
    "revocation_not_awaited": ["state"],
    "trace_unrecorded": ["state"],
    "spelling_left": ["state"],
    "timer_trusted": ["state"],
    "undo_forgotten": ["steps"],
    "step_skipped": ["steps"],
    "result_twice": ["steps"],
    "image_believed": ["state"],
}


def catch(catcher, bug=None):
    """Whether the catcher fails with this bug planted."""
    environment = {key: value for key, value in os.environ.items() if key not in ("WRIT_BUG", "WRIT_LONG")}
    environment |= {"WRIT_BUILD": str(BUILD), "WRIT_SEED": "1", **({"WRIT_BUG": bug} if bug else {})}
    done = subprocess.run(CATCHERS[catcher], cwd=TOP, env=environment, capture_output=True, text=True, timeout=900)
    output = done.stdout[-1500:] + done.stderr[-1500:]
    # pytest: 1 is a test that failed; 2 to 5 say that it could not look, which catches nothing.
    assert "pytest" not in CATCHERS[catcher] or done.returncode in (0, 1), output
    return done.returncode != 0, output


def can_plant_bugs():
    cache = BUILD / "CMakeCache.txt"
    return cache.exists() and re.search(r"^WRIT_PLANTED_BUGS:\w+=ON$", cache.read_text(), re.M) is not None


pytestmark = pytest.mark.skipif(not can_plant_bugs(), reason="this build cannot plant bugs (preset dev can)")


# In the short run each catcher runs without a bug anyway, as the test that it is.
if os.environ.get("WRIT_LONG") == "1":
    @pytest.mark.parametrize("catcher", CATCHERS)
    def test_without_a_bug_the_catcher_passes(catcher):
        failed, output = catch(catcher)
        MATRIX[("none", catcher)] = failed
        assert not failed, output


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug):
    caught = False
    for catcher in BUGS[bug]:
        MATRIX[(bug, catcher)], _ = catch(catcher, bug)
        caught = caught or MATRIX[(bug, catcher)]
    assert caught, f"{bug} passed {BUGS[bug]}"


def test_each_planted_bug_of_a_fleet_is_found():
    """From a seed that soon finds it; the long form begins anywhere, and takes the seeds that it needs."""
    anywhere = ["--from", "1", "--seeds", "60000"] if os.environ.get("WRIT_LONG") == "1" else ["--seeds", "10000"]
    done = subprocess.run([str(BUILD / "tests" / "sim_sim_fleet"), "--planted", *anywhere], capture_output=True, text=True, timeout=3000)
    print("\n" + done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr[-1500:]


def test_the_matrix():
    """Printed for the record (shown with -s)."""
    print(f"\n{'planted bug':<22}" + "".join(f"{name:>18}" for name in CATCHERS))
    for bug in ["none", *BUGS]:
        cells = {True: "caught", False: "passes", None: "."}
        print(f"{bug:<22}" + "".join(f"{cells[MATRIX.get((bug, name))]:>18}" for name in CATCHERS))
