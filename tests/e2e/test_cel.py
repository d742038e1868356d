"""`writ cel`: the specification's tests, and what people see."""

import json
import pathlib
import subprocess
import sys

import pytest

import harness

CORPUS = pathlib.Path(__file__).resolve().parents[2].parent / "shared" / "corpora" / "cel"


def cel(*arguments, text=""):
    return subprocess.run([harness.BIN / "writ", "cel", *arguments], input=text, capture_output=True, text=True, timeout=harness.PATIENCE)


def test_the_specifications_tests_pass(tmp_path):
    if not (CORPUS / "score.py").exists():
        pytest.skip(f"{CORPUS} is not here")
    fails = tmp_path / "fails"
    done = subprocess.run([sys.executable, CORPUS / "score.py", "--fails", fails, "--all", harness.BIN / "cel_conformance"],
                          capture_output=True, text=True, timeout=harness.PATIENCE)
    total = done.stdout.splitlines()[-1].split()
    assert total[:3] == ["TOTAL", "225/", "225"], fails.read_text()


def test_an_expression_is_evaluated_over_a_file():
    request = json.dumps({"args": {"amount": 120}, "roles": ["finance"], "now": "2026-11-20T09:30:00Z", "limit": 500})
    done = cel("args.amount <= limit && 'finance' in roles && now.getHours() == 9", "--file", "-", text=request)
    assert (done.returncode, done.stdout, done.stderr) == (0, "true\n", "")


def test_the_value_can_be_json():
    done = cel("{'a': [1, now - now, b'x']}", "--json")
    assert json.loads(done.stdout) == {"a": [1, "0s", "eA=="]}


@pytest.mark.parametrize("value", ["{1: 2}", "1.0 / 0.0"])
def test_a_value_that_json_has_no_form_for_is_not_printed_as_json(value):
    done = cel(value, "--json")
    assert (done.returncode, done.stdout) == (1, "") and "JSON" in done.stderr


def test_a_mistake_is_shown_where_it_is():
    done = cel("arg.amount > 5")
    assert done.returncode == 1
    assert done.stderr == '1:1: there is no variable "arg"; did you mean args?\n  arg.amount > 5\n  ^\n'


def test_a_run_that_fails_says_why():
    done = cel("args.amount > 5")
    assert (done.returncode, done.stderr) == (1, "writ: no such key: amount (at column 6)\n")


def test_the_tree_and_the_instructions_are_shown():
    done = cel("args.amount > 5", "--ast", "--code")
    assert done.stdout.startswith("call _>_ : bool\n  select .amount : dyn\n    args : map(string, dyn)\n  5 : int\n")
    assert "VARIABLE_SELECT 2 \"amount\"" in done.stdout and "COMPARE_CONST > 5" in done.stdout


def test_a_line_that_is_no_test_is_answered_with_an_error():
    done = subprocess.run([harness.BIN / "cel_conformance"], input='nonsense\n{"expr": "1 + 1"}\n{}\n', capture_output=True, text=True, timeout=harness.PATIENCE)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers[1] == {"value": {"int64_value": "2"}} and "error" in answers[0] and "error" in answers[2]
