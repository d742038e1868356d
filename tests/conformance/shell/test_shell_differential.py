"""shell() beside shells and other parsers, on lines by chance: where it is certain, nothing reads the line otherwise.

The short form asks bash and dash (and zsh and ksh93 where they are installed), some thousand lines. With WRIT_LONG it is a million lines, and bashlex and
mvdan.cc/sh read them, too (build fetches these). WRIT_SHELL_SEED chooses other lines.
"""

import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[2]
sys.path[:0] = [str(HERE), str(TOP / "tests" / "e2e")]

import command_lines  # noqa: E402
import compare_shells  # noqa: E402
import harness  # noqa: E402
import shells  # noqa: E402

LONG = bool(os.environ.get("WRIT_LONG"))
SEED = int(os.environ.get("WRIT_SHELL_SEED", "1"))
SHORT_COUNT, LONG_COUNT, PARTS = 3_000, 1_000_000, 40
WRIT = harness.BIN / "cel_conformance"

pytestmark = pytest.mark.skipif(not (shutil.which("bash") and shutil.which("dash")), reason="bash and dash are not both here")


def nothing_differs(tally, count):
    compare_shells.report(tally)
    assert not tally.differences, f"{len(tally.differences)} differences"
    assert tally.lines == count
    assert tally.certain > count / 2, "most lines are refused, so that little is compared"


def test_a_line_that_is_certain_is_what_shells_run():
    tally = compare_shells.run(WRIT, SHORT_COUNT, SEED)
    nothing_differs(tally, SHORT_COUNT)
    assert tally.compared["bash"] > SHORT_COUNT / 2 and tally.compared["dash"] > SHORT_COUNT / 4


if LONG:
    @pytest.fixture(scope="module")
    def parsers(tmp_path_factory):
        folder = tmp_path_factory.mktemp("parsers")
        done = subprocess.run([HERE / "build", folder], capture_output=True, text=True, timeout=600)
        if done.returncode == 77:
            pytest.skip(done.stdout.strip().removeprefix("SKIP: "))
        assert done.returncode == 0, done.stdout + done.stderr
        return str(folder / "python" / "bin" / "python"), str(folder / "mvdan")

    def test_a_million_lines_are_what_shells_run_and_parsers_read(parsers):
        whole = shells.Tally()
        with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
            parts = [pool.submit(compare_shells.run, WRIT, LONG_COUNT // PARTS, SEED * 1000 + part, *parsers) for part in range(PARTS)]
            for part in concurrent.futures.as_completed(parts):
                whole.add(part.result())
                print(f"{whole.lines} lines, {whole.certain} certain, {len(whole.differences)} differences", flush=True)
        nothing_differs(whole, LONG_COUNT)
        assert whole.compared["bashlex"] == whole.compared["mvdan"] == whole.certain

    def test_parsers_that_read_otherwise_are_seen(parsers):
        tally = shells.Tally()
        compare_shells.compare([("a b", [["", "a", ["c"], {}, []]])], tally, *parsers)
        assert {whom for whom, *_ in tally.differences} >= {"bash", "dash", "bashlex", "mvdan"}


def command(*args, name="a", operator="", env=None, redirects=()):
    return [operator, name, list(args), env or {}, [list(r) for r in redirects]]


A = command()
B = command(name="b", operator="|")

# A line, and a wrong reading of it that the shells must not confirm.
WRONG = [
    ("a b", [command("c")]), ("a 'b c'", [command("b", "c")]), ("a", [A, command(name="b", operator=";")]), ("a; b", [A]), ("b", [A]),
    ("a && b", [A, command(name="b", operator="||")]), ("a || b", [A, command(name="b", operator=";")]),
]
WRONG_IN_BASH = [
    ("a | b", [A, command(name="b", operator="&&")]), ("a && b", [A, B]),
    ("A=1 a", [A]), ("A=1 a", [command(env={"A": "2"})]), ("a", [command(env={"A": ""})]),
    ("a >f", [A]), ("a >f", [command(redirects=[[1, ">>", "f"]])]), ("a <f", [command(redirects=[[0, "<", "g"]])]), ("a 2>&1", [command(redirects=[[1, ">&", "2"]])]),
    ("a *", [command("*", redirects=[[1, ">", "f"]])]), ("a {b,c}", [command("{b,c}")]), ("a $HOME", [command("$HOME")]), ("a ~", [command("~")]), ("a '", [command("'")]),
]


@pytest.mark.parametrize("line, commands", WRONG + WRONG_IN_BASH)
def test_a_wrong_reading_is_seen_by_bash(line, commands):
    tally = shells.Tally()
    shells.bash([("a", [A]), (line, commands)], tally)
    assert {(whom, of) for whom, of, *_ in tally.differences} == {("bash", line)}


@pytest.mark.parametrize("shell", [shell for shell in shells.OTHERS if shutil.which(shell)])
def test_a_wrong_reading_is_seen_by_other_shells(shell):
    tally = shells.Tally()
    shells.other(shell, [("a", [A]), *WRONG], tally)
    assert {(whom, of) for whom, of, *_ in tally.differences} == {(shell, line) for line, _ in WRONG}


def test_the_same_seed_makes_the_same_lines():
    assert command_lines.Generator(SEED).lines(300) == command_lines.Generator(SEED).lines(300) != command_lines.Generator(SEED + 1).lines(300)
