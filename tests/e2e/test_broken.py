"""The example policy of docs/guides/review.md, broken as people break such files: each error has file, line, column and
what would be right, by `writ policy check` before anybody sees it and by the API in the same words.

broken/NAME.yaml is ops/examples/payments.yaml with one slip in it.
"""

import difflib
import subprocess

import pytest

import harness
from test_contract import refused

FOLDER = harness.TOP / "tests" / "e2e" / "broken"
WHOLE = (harness.TOP / "ops" / "examples" / "payments.yaml").read_text()
TOLD = {
    "wrong-indent": (10, 4, "", "this line begins at column 4, and line 9 before it at column 5: the keys of one map, and the - of one "
                                "list, begin at the same column"),
    "unknown-key": (9, 5, "rules[0].agent", "unknown key; did you mean agents?"),
    "misspelt-decision": (17, 15, "rules[1].decision", '"human-review" is not one of allow, compute, human_review, deny; did you mean '
                                                       "human_review?"),
    "bad-duration": (19, 55, "rules[1].review.expires_in", '"30 min" is not a duration like 90s, 30m, 1h or 2d'),
    "type-error": (16, 17, "rules[1].when", "string > int is not possible"),
    "unknown-function": (29, 49, "rules[3].compute.args.path", 'there is no function "path_below"'),
    "unclosed-string": (5, 47, "", "a quote in this line is not closed"),
    "duplicate-id": (14, 9, "rules[1].id", '"refunds" is the id of the rule on line 8 already'),
    "unknown-variable": (16, 11, "rules[1].when", 'there is no variable "arg"; did you mean args?'),
    "compute-without-call": (25, 5, "rules[3].compute", "is missing: it says what is called instead, as in {tool: write_file, args: {}}"),
    "expression-unclosed": (29, 46, "rules[3].compute.args.path", "${ is not closed by }; write $${ for a literal ${"),
    "missing-and": (11, 27, "rules[0].when", 'an operator or the end is expected here, not "and"; "and" is written &&'),
    "no-space": (28, 5, "", 'this is no "key: value": the colon, or the blank behind it, is missing'),
    "unclosed-brace": (14, 7, "", "the { of line 13, column 12 is not closed by }, or a comma is missing before this"),
    "unquoted-colon": (18, 20, "", 'a ": " does not belong here: put a text that has one in quotes, or see whether this line is indented '
                                   "like the others"),
    "failing-test": (36, 5, "tests[0]", "expected deny by allow:refunds, got allow by allow:refunds"),
}


def test_each_file_is_the_example_policy_with_one_slip():
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(TOLD) and len(TOLD) >= 10
    for name in TOLD:
        lines = [line for line in difflib.ndiff(WHOLE.splitlines(), (FOLDER / f"{name}.yaml").read_text().splitlines())
                 if line[0] in "+-" and "$schema" not in line]
        assert 0 < len(lines) <= 2, (name, lines)


@pytest.mark.parametrize("name", TOLD)
def test_the_command_line_tells_what_is_wrong_and_where(name):
    line, column, path, message = TOLD[name]
    done = subprocess.run([harness.BIN / "writ", "policy", "check", f"tests/e2e/broken/{name}.yaml"], capture_output=True, text=True,
                          cwd=harness.TOP, timeout=harness.PATIENCE)
    told = f"{path}: {message}" if path else message
    assert (done.returncode, done.stdout, done.stderr) == (1, f"tests/e2e/broken/{name}.yaml:{line}:{column}: error: {told}\n", "")


@pytest.mark.parametrize("name", TOLD)
def test_the_api_tells_the_same_and_changes_nothing(tenant, name):
    line, column, path, message = TOLD[name]
    tenant.policy(WHOLE, name="payments")
    document = refused(tenant.put("payments", (FOLDER / f"{name}.yaml").read_text()), 400, "invalid_policy")
    (told,) = document["details"]
    assert (told["line"], told["column"], told["path"]) == (line, column, path) and told["message"].endswith(message), told
    assert f"line {line}, column {column}" in document["error"]
    with tenant.stack.at_platform(tenant.admin) as wire:
        assert wire.get("/api/v1/policies/payments").json["version"] == 1


@pytest.mark.parametrize("text, line, column, message", [
    ('rules:\n  - id: a\n    decision: "deny\n    actions: ["get_*"]\n', 4, 16, "the quote that line 3 opens ends just before this: is it not "
                                                                              "closed there?"),
    ("rules:\n  - id: a\n    reason: 'Größe\n    when: args.x == 'ü'\n", 4, 22, "the quote that line 3 opens ends just before this: is it not "
                                                                              "closed there?"),
    ('rules:\n  - id: a\n    reason: "this" or that\n', 3, 20, "the value has ended before this: put a text that begins with a quote or a "
                                                              "bracket in quotes as a whole"),
    ("rules:\n  - id: a\n    : deny\n", 3, 5, "there is no key in front of this colon"),
    ("rules:\n  - id: a\n    decision: deny\n    - id: b\n", 4, 5, 'a "- " does not belong here: a list begins on a line of its own below its key'),
    ("rules:\n  -  id: a\n  decision: deny\n", 3, 3, "this line begins at column 3: the keys of the entry that line 2 begins are at column 6"),
    ("rules:\n  - id: a\n decision: deny\n", 3, 2, "this line begins at column 2, and line 2 before it at column 3: the keys of one map, and "
                                                   "the - of one list, begin at the same column"),
])
def test_a_line_that_is_indented_like_the_one_above_it_is_not_blamed_for_its_indentation(text, line, column, message):
    done = subprocess.run([harness.BIN / "writ", "policy", "check", "-"], input=text, capture_output=True, text=True, timeout=harness.PATIENCE)
    assert (done.returncode, done.stdout) == (1, f"-:{line}:{column}: error: {message}\n")
