"""README.md is a test, too: its commands, as printed, give its answers, as printed.

Only what differs from run to run may differ: ids, times, hashes, latency, the place of a record.
Ports are replaced by the test's own, and the programs are those under test.
"""

import json
import re
import subprocess

import pytest

import harness
from test_broken import TOLD
from test_run import Run

README = harness.TOP / "README.md"
VOLATILE = re.compile(r"(^|_)(id|hash|at|ms|timestamp|epoch|node|seq)$")


def blocks():
    """[(commands, the JSON printed under them or None)] of README.md, in order."""
    found, shell, fence, kind = [], [], None, ""
    for line in README.read_text().splitlines():
        if fence is not None:
            if line == "```":
                if kind == "json" and found and found[-1][1] is None:
                    found[-1] = (found[-1][0], "\n".join(fence))
                fence = None
            else:
                fence.append(line)
        elif line.startswith("```"):
            fence, kind = [], line[3:]
        elif line.startswith("    "):
            shell.append(line[4:])
            continue
        if shell and not line.startswith("    "):
            if shell[0].strip():
                found.append(("\n".join(shell), None))
            shell = []
    return found


def fenced(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", README.read_text(), re.M | re.S)


def steady(value, name=""):
    """The value with what differs from run to run replaced by its kind; member order kept."""
    if isinstance(value, dict):
        return [(key, steady(member, re.sub("([A-Z])", r"_\1", key).lower())) for key, member in value.items()]
    if isinstance(value, list):
        return [steady(item, name) for item in value]
    if VOLATILE.search(name) and not (name == "trace_id" and not re.fullmatch("[0-9a-f]{32}", str(value))):
        return type(value).__name__ if not isinstance(value, (int, float)) else "number"
    return value


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A running ops/run, and a folder that looks like the clone it was started in."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("ops", "schemas", "README.md"):
        (folder / name).symlink_to(harness.TOP / name)
    (folder / "build" / "release").mkdir(parents=True)
    (folder / "build" / "release" / "bin").symlink_to(harness.BIN)
    (folder / "broken.yaml").write_text("rules: nothing\n")
    run = Run(folder / "data")
    yield folder, run
    assert run.stop() == 0


def started(home, script):
    folder, run = home
    ports = {"127.0.0.1:8080": f"127.0.0.1:{run.engine_port}", "127.0.0.1:9090": f"127.0.0.1:{run.platform_port}"}
    for old, new in ports.items():
        script = script.replace(old, new)
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder),
                   "WRIT_ENGINE": f"http://127.0.0.1:{run.engine_port}", "WRIT_PLATFORM": f"http://127.0.0.1:{run.platform_port}"}
    return subprocess.Popen(["bash", "-c", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process):
    out, err = process.communicate(timeout=harness.PATIENCE)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def shell(home, script):
    return ended(started(home, script))


def answer_of(done, commands):
    assert done.returncode == 0 and done.stdout, (commands, done.stdout, done.stderr)
    return json.loads(done.stdout)


def waits(home):
    """How many clients wait for a review, as the engine tells."""
    with home[1].engine("WRIT_ADMIN_KEY") as wire:
        return int(re.search(rb"^writ_engine_waits (\d+)", wire.get("/metrics").body, re.M)[1])


def test_the_readmes_answers_are_the_answers(home):
    """In the order of the page: what one block sets, a later one uses; who waits is left waiting."""
    before, waiting, answers = [], [], []
    for commands, printed in blocks():
        if commands.startswith(("ops/", "writ ", "export WRIT_KEY")):
            continue
        if printed is None:
            before.append(commands)
            continue
        script, expected = "\n".join([*before, commands]), json.loads(printed)
        if "/wait?" in commands:
            waiting.append((commands, expected, started(home, script)))
            harness.eventually(lambda: waits(home) == len(waiting), "the client waits")
            continue
        answer = answer_of(shell(home, script), commands)
        if "/audit/" in commands:  # what was done may take a moment to arrive
            answer = harness.eventually(lambda: (now := answer_of(shell(home, script), commands)) == expected and now, commands)
        assert steady(answer) == steady(expected), commands
        answers.append(answer)
    for commands, expected, process in waiting:
        assert steady(answer_of(ended(process), commands)) == steady(expected), commands
    assert len(answers) + len(waiting) >= 18 and len(waiting) == 1
    assert {answer["decision"] for answer in answers if "decision" in answer} == {"allow", "deny", "human_review", "compute"}


def test_the_readmes_writ_commands_are_commands(home):
    """All do what they say; only the check of a broken document is meant to fail."""
    lines = [line for commands, _ in blocks() for line in commands.splitlines()]
    setting = "\n".join(line for line in lines if line.startswith((". ", "export ")))
    asked = [line for line in lines if re.match(r"(WRIT_KEY=\S+ )?writ ", line)]
    for command in ("queue list", "queue show", "token mint", "actor list", "top --once", "audit trace", "policy put"):
        assert any(f"writ {command}" in line for line in asked), f"README.md does not show writ {command}"
    wrong = []
    for line in asked:
        done = shell(home, f"{setting}\n{line}")
        if done.returncode != (1 if "broken" in line else 0) or re.fullmatch(r"writ \S+\n", done.stdout):
            wrong.append((line, done.returncode, done.stderr))
    assert not wrong, wrong


def test_the_readmes_policy_is_the_example_that_is_loaded():
    (shown,) = fenced("yaml")
    whole = (harness.TOP / "ops" / "examples" / "payments.yaml").read_text()
    assert whole.split("\n", 1)[1].startswith(shown + "tests:\n")


def test_each_rule_of_the_policy_is_shown_by_an_answer():
    (shown,) = fenced("yaml")
    answers = "\n".join(printed for _, printed in blocks() if printed)
    missing = [rule for rule in re.findall(r"^  - id: (\S+)$", shown, re.M) if not re.search(rf'"[a-z]+:{rule}"', answers)]
    assert not missing, f"README.md shows no answer by {missing}"


def test_the_readmes_mistakes_are_told_in_these_words():
    """Each is one of test_broken's, cut where it is long."""
    (shown,) = fenced("text")
    for line in shown.splitlines():
        _, row, column, _, rest = line.split(":", 4)
        said = [f"{path}: {message}" if path else message for at, place, path, message in TOLD.values() if (at, place) == (int(row), int(column))]
        assert any(one.startswith(rest.strip().removesuffix(" …")) for one in said), line


def test_the_readme_names_the_two_commands():
    text = README.read_text()
    assert "ops/run" in text and "ops/test" in text
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert target.startswith("http") or (harness.TOP / target).exists(), f"README.md links to {target}, which is not there"
