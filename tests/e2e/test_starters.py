"""ops/examples/starters: each document passes its own tests without a warning, all of them together decide as each does
alone, and a coding agent's hook gets their answers."""

import re

import pytest

import conftest
import harness
import hooks

yaml = pytest.importorskip("yaml", reason="SKIP: python3-yaml is not installed")

FILES = sorted((harness.TOP / "ops" / "examples" / "starters").glob("*.yaml"))


class Starters:
    """A tenant with all starters."""

    def __init__(self, stack, folder):
        self.tenant = conftest.Tenant(stack, "starters")
        for file in FILES:
            self.tenant.policy(file.read_text(), file.stem)
        self.hook = hooks.Hook(stack.engine.url, self.tenant.key("coding-agent", ["agent"], actors=["coding-agent"]), folder)


@pytest.fixture(scope="module")
def starters(stack, tmp_path_factory):
    return Starters(stack, tmp_path_factory.mktemp("starters"))


def test_there_are_five():
    assert [file.stem for file in FILES] == ["agent-payments", "files", "http", "mcp-servers", "shell-and-git"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_passes_its_tests_without_a_warning(stack, file):
    told = stack.cli("policy", "check", "--strict", file).stdout
    assert re.fullmatch(r".*: valid, \d+ rules(; its costliest test \(line \d+\) takes \d+ of 100000 steps)?\n", told), told
    assert "0 failed" in stack.cli("policy", "test", "--require-coverage", file).stdout


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_all_together_decide_as_each_does_alone(starters, file):
    tests = [test for test in yaml.safe_load(file.read_text())["tests"] if "given" not in test]
    for test in tests:
        with starters.tenant.stack.at_engine(starters.tenant.admin) as wire:
            reply = wire.post("/v1/agent/authorize?dry_run=true", test["request"])
        assert reply.status == 200 and reply.json["decision"] == test["expect"], (test, reply)


@pytest.mark.parametrize("agent", hooks.AGENTS)
def test_a_hook_gets_their_answers(starters, agent):
    def ask(line):
        return starters.hook.ask(agent, hooks.call(agent, args={"command": line}))

    assert ask("git status && ls -la src").is_allow()
    assert "Run the command itself" in ask("git status | bash").reason(agent)
    assert 'at byte 4, a sign of the shell outside of quotes; write it in \'…\'' in ask("ls $HOME").reason(agent)
