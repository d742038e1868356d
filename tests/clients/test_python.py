"""clients/python against schemas/client-vectors.json, and changed copies of it that run what they should not.

The client runs in build/clients/python, an environment that ops/setup makes.
"""

import json
import os
import pathlib
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
CLIENT = TOP / "clients" / "python"
PYTHON = TOP / "build" / "clients" / "python" / "bin" / "python"
LONG = os.environ.get("WRIT_LONG") == "1"
CASES = [case["name"] for case in json.loads((TOP / "schemas" / "client-vectors.json").read_text())["cases"]]

pytestmark = pytest.mark.skipif(not (PYTHON.parents[1] / "pins").exists(), reason="SKIP: build/clients/python is missing; run ops/setup test")


def output(program, *arguments):
    """What a program of clients/python/tests printed, as JSON."""
    done = subprocess.run([PYTHON, CLIENT / "tests" / program, "--json", *arguments], capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def played():
    return output("vectors.py")


@pytest.fixture(scope="module")
def mutants():
    return output("mutants.py", *(["--all"] if LONG else []))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["async", "sync"])
def test_the_client_passes(played, kind, case):
    assert played[f"{kind} {case}"] == []


def test_gate_guard_and_the_double():
    done = subprocess.run([PYTHON, "-m", "unittest", CLIENT / "tests" / "test_gate.py"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "OK" in done.stderr, done.stderr[-4000:]


def test_clients_that_run_what_they_should_not_are_caught(mutants):
    assert len(mutants) >= 20
    assert not {name: text for name, text in mutants.items() if text}
