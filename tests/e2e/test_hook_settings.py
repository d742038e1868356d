"""What `writ-hook --install` writes, and the line in it, run as agents run it."""

import json
import os
import subprocess
import tomllib

import pytest

import harness
import hooks
from hooks import HOOK, FakeEngine, call, denial, reply

KNOWN = ["claude", "codex", "gemini", "copilot", "cursor"]
FILES = {"claude": ".claude/settings.json", "codex": ".codex/hooks.json", "gemini": ".gemini/settings.json", "copilot": ".copilot/hooks/writ.json",
         "cursor": ".cursor/hooks.json"}
EVENTS = {"claude": "PreToolUse", "codex": "PreToolUse", "gemini": "BeforeTool", "copilot": "preToolUse", "cursor": "preToolUse"}
TIMEOUT = {"claude": ("timeout", 31), "codex": ("timeout", 31), "gemini": ("timeout", 31000), "copilot": ("timeoutSec", 31), "cursor": ("timeout", 31)}

# Stands for Codex: `codex app-server` with one hook, which it takes from the file, and its trust in memory.
CODEX = """#!/usr/bin/python3
import json, os, sys
trusted = os.environ.get("TRUSTED") == "1"
for line in sys.stdin:
    asked = json.loads(line)
    method, params = asked["method"], asked.get("params")
    if method == "hooks/list":
        path = os.environ["HOME"] + "/.codex/hooks.json"
        lines = [g["hooks"][0]["command"] for g in json.load(open(path))["hooks"]["PreToolUse"]]
        result = {"data": [{"hooks": [{"key": "k:0:0", "command": lines[-1], "sourcePath": path, "enabled": os.environ.get("OFF") != "1", "currentHash": "sha256:1",
                                       "trustStatus": "trusted" if trusted else "untrusted"}]}]}
    elif method == "config/batchWrite":
        trusted = params["edits"] == [{"keyPath": "hooks.state", "value": {"k:0:0": {"trusted_hash": "sha256:1"}}, "mergeStrategy": "upsert"}]
        result = {}
    elif method == "initialize":
        print(json.dumps({"method": "configWarning", "params": {}}), flush=True)
        result = {}
    else:
        continue
    print(json.dumps({"id": asked["id"], "result": result}), flush=True)
"""


class Home:
    """A user's home, with a key and a stand-in for Codex on its PATH."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "bin").mkdir()
        (folder / "bin" / "codex").write_text(CODEX)
        (folder / "bin" / "codex").chmod(0o755)
        self.key_file = folder / "it's a key"
        self.key_file.write_text("wk_key\n")
        self.key_file.chmod(0o600)

    def run(self, *arguments, check=True, engine="unix:/run/writ/engine.sock", **environment):
        options = ["--engine", engine, "--key-file", self.key_file] if "--install" in arguments or "--print" in arguments else []
        done = subprocess.run([HOOK, *arguments, *options], capture_output=True, text=True,
                              env=hooks.environment(HOME=str(self.folder), PATH=f"{self.folder}/bin:{os.environ['PATH']}", **environment))
        assert not check or done.returncode == 0, done
        return done

    def path(self, agent):
        return self.folder / FILES[agent]

    def put(self, agent, text):
        self.path(agent).parent.mkdir(parents=True, exist_ok=True)
        self.path(agent).write_text(text if isinstance(text, str) else json.dumps(text))

    def entry(self, agent):
        [group] = [g for g in json.loads(self.path(agent).read_text())["hooks"][EVENTS[agent]] if "writ-hook" in json.dumps(g)]
        return group["hooks"][0] if "hooks" in group else group

    def line(self, agent):
        return self.entry(agent)["bash" if agent == "copilot" else "command"]


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


# ---- the files ----


@pytest.mark.parametrize("agent", KNOWN)
def test_a_hook_is_installed_and_taken_out_again(home, agent):
    home.run(agent, "--install")
    entry = home.entry(agent)
    name, value = TIMEOUT[agent]
    assert entry[name] == value and home.path(agent).stat().st_mode & 0o777 == 0o600
    assert entry.get("onFailure") == ("block" if agent == "claude" else None) and entry.get("failClosed") == (True if agent == "cursor" else None)
    if agent == "gemini":
        assert json.loads(home.path(agent).read_text())["hooksConfig"] == {"enabled": True}
    first = home.path(agent).read_text()
    home.run(agent, "--install")
    assert home.path(agent).read_text() == first, "twice is once"
    home.run(agent, "--uninstall")
    assert not home.path(agent).exists() or "writ-hook" not in home.path(agent).read_text()
    assert home.run(agent, "--uninstall", check=False).returncode == 1


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini", "cursor"])
def test_what_else_is_in_the_file_stays(home, agent):
    other = '{"command" : "true"}' if agent == "cursor" else '{"matcher":"Bash" , "hooks": [{"type":"command","command":"true"}]}'
    more = {"claude": '"model" : "x",  "permissions": {"allow": ["Bash(ls)"]},', "gemini": '"general": {"vimMode":  true},'}.get(agent, "")
    home.put(agent, '{%s "hooks": {"%s": [%s], "Stop": []}}' % (more, EVENTS[agent], other))
    home.path(agent).chmod(0o640)
    home.run(agent, "--install")
    text = home.path(agent).read_text()
    assert other in text and '"Stop": []' in text and home.path(agent).stat().st_mode & 0o777 == 0o640
    for piece in (more.split(",")[0],):
        assert piece.replace(" :", ":") in text
    assert [("writ-hook" in json.dumps(g)) for g in json.loads(text)["hooks"][EVENTS[agent]]] == [False, True]
    home.run(agent, "--uninstall")
    text = home.path(agent).read_text()
    assert other in text and "writ-hook" not in text and '"Stop": []' in text


WRONG = {
    "claude": ["[]", "{", "{} {}", "// a comment\n{}", {"hooks": []}, {"hooks": {"PreToolUse": {}}}, {"hooks": {"Stop": [{"hooks": {}}]}}, {"hooks": {"Stop": [[]]}},
               {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "timeout": "two"}]}]}}, {"hooks": {"Stop": [{"hooks": [{"command": ["x"]}]}]}},
               {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "onFailure": "blok"}]}]}}, {"hooks": {"Stop": [{"matcher": 1, "hooks": []}]}},
               {"permissions": {"allow": "Bash"}}, {"permissions": {"deny": [1]}}, {"permissions": []}, {"env": {"A": 1}}, {"model": 1}, {"disableAllHooks": "no"},
               {"disableAllHooks": True}],
    "codex": [{"hooks": {}, "more": 1}, {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "timeout": 2.5}]}]}}, {"description": 1}],
    "gemini": [{"hooksConfig": []}, {"hooksConfig": {"disabled": ["writ-hook gemini"]}}, {"hooks": {"BeforeTool": [{"hooks": [{"timeout": "2"}]}]}}],
    "cursor": [{"version": "1"}, {"hooks": {"preToolUse": ["x"]}}],
    "copilot": [{"version": 1, "hooks": {}}],
}


@pytest.mark.parametrize("agent, before", [(agent, before) for agent in WRONG for before in WRONG[agent]], ids=str)
def test_a_file_by_which_the_hook_would_be_dropped_is_refused(home, agent, before):
    home.put(agent, before)
    text = home.path(agent).read_text()
    done = home.run(agent, "--install", check=False)
    assert done.returncode == 1 and str(home.path(agent)) in done.stderr and home.path(agent).read_text() == text, done


def test_settings_of_the_machine_cannot_be_overruled(home):
    claude = json.loads(home.run("claude", "--print", "--managed").stdout)
    assert claude["allowManagedHooksOnly"] is True and claude["hooks"]["PreToolUse"][0]["matcher"] == "*"
    codex = tomllib.loads(home.run("codex", "--print", "--managed").stdout)
    hook = codex["hooks"]["PreToolUse"][0]["hooks"][0]
    assert codex["features"]["hooks"] is True and hook["timeout"] == 31
    home.run("codex", "--install")
    assert hook["command"] == home.line("codex")
    for agent in ("claude", "codex", "gemini", "copilot", "cursor"):
        file = home.folder / f"{agent}.managed"
        home.run(agent, "--install", "--managed", "--to", file)
        assert "writ-hook" in file.read_text() and file.stat().st_mode & 0o777 == 0o644
        home.run(agent, "--uninstall", "--managed", "--to", file)
        assert not file.exists() or "writ-hook" not in file.read_text()
    file.write_text("[features]\nhooks = true\n")
    assert "by hand" in home.run("codex", "--install", "--managed", "--to", file, check=False).stderr


def test_codex_has_to_trust_its_hook(home):
    assert "Codex trusts it" in home.run("codex", "--install").stdout
    assert "does not run" in home.run("codex", "--install", check=False, OFF="1").stderr
    (home.folder / "bin" / "codex").write_text("#!/bin/sh\nexit 1\n")
    done = home.run("codex", "--install", check=False)
    assert done.returncode == 1 and "codex" in done.stderr
    (home.folder / "bin" / "codex").unlink()
    if not any(os.access(f"{folder}/codex", os.X_OK) for folder in os.environ["PATH"].split(":")):
        assert "skips it" in home.run("codex", "--install", check=False).stderr


def test_an_installation_without_a_usable_key_is_refused(home):
    home.key_file.chmod(0o644)
    done = home.run("claude", "--install", check=False)
    assert done.returncode == 1 and "chmod 600" in done.stderr and not home.path("claude").exists()


# ---- the line ----


SHELLS = [shell for shell in ("sh", "bash") if os.path.exists(f"/bin/{shell}")]
HOOKS = {  # of a hook that is not ours: what it does, and whether the line allows
    "allow": ("printf '{}'", True),
    "rewrite": ("""cat <<'END'\n{"a": "\\\\ $x `y`"}\nEND""", True),
    "nothing": ("", False),
    "garbage": ("echo hello", False),
    "garbage before": ("echo log; echo '{}'", False),
    "cut": ("printf '{\"a\":'", False),
    "status 1": ("printf '{}'; exit 1", False),
    "status 3": ("printf '{}'; exit 3", False),
    "status 2 alone": ("exit 2", False),
    "killed": ("kill -9 $$", False),
    "killed after an answer": ("printf '{}'; kill -9 $$", False),
    "a crash": ("kill -SEGV $$", False),
    "deaf and late": ("trap '' TERM; while :; do sleep 0.1; done", False),
}


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    home = Home(tmp_path_factory.mktemp("home"))
    home.run("gemini", "--install")
    return home.line("gemini")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", HOOKS)
def test_the_line_lets_a_whole_answer_through_and_nothing_else(line, tmp_path, name, shell):
    script, allows = HOOKS[name]
    fake = tmp_path / "fake"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    line = line.replace(f"'{HOOK}'", f"'{fake}'").replace("-k 1 27", "-k 0.1 0.5")
    assert str(fake) in line
    done = subprocess.run([shell, "-c", line], input=b"{}", capture_output=True)
    if allows:
        assert done.returncode == 0 and json.loads(done.stdout) in ({}, {"a": "\\ $x `y`"}) and done.stderr == b""
    else:
        assert done.returncode == 2 and done.stdout == b"" and b"writ: the hook ended with status" in done.stderr, done


@pytest.mark.parametrize("agent, shell", [*((agent, "sh") for agent in KNOWN), ("gemini", "bash")])
def test_the_line_of_an_agent_allows_and_denies(home, agent, shell):
    allow = {"decision": "allow", "allowed": True, "mode": "live"}
    answers = [reply(200, allow), reply(200, {"decision": "deny", "mode": "live", "reason": "R", "rule": "r", "trace_id": "t"})]
    engine = FakeEngine(lambda engine, connection, request: connection.sendall(answers.pop(0) if answers else b"?"))
    home.run(agent, "--install", "--actor", "o'brien $x", engine=engine.url)
    text = json.dumps(call(agent, args={"command": "x" * 5_000_000})).encode()
    run = [subprocess.run([shell, "-c", home.line(agent)], input=text, capture_output=True, env=hooks.environment()) for _ in range(3)]
    engine.close()
    assert (run[0].returncode, run[0].stdout, run[0].stderr) == (0, b"{}", b"")
    assert (run[1].returncode, run[1].stdout.decode(), run[1].stderr) == (2, denial(agent, "R (denied by r; trace t)"), b"writ: R (denied by r; trace t)\n")
    assert run[2].returncode == 2 and run[2].stderr
    assert b'"actor":"o\'brien $x"' in engine.requests[0]


def test_the_line_without_the_program_denies(home):
    home.run("codex", "--install")
    done = subprocess.run(["sh", "-c", home.line("codex").replace(str(HOOK), "/nonexistent/writ-hook")], input=b"{}", capture_output=True)
    assert done.returncode == 2 and done.stdout == b"" and b"status 127" in done.stderr
    done = subprocess.run(["/bin/sh", "-c", home.line("codex")], input=b"{}", capture_output=True, env={"PATH": "/nonexistent"})
    assert done.returncode == 2 and done.stdout == b"" and b"status 127" in done.stderr


# ---- the check ----


def test_a_check_proves_that_the_engine_denies(home, tenant):
    """Also where a policy permits everything."""
    tenant.policy('rules: [{id: all, agents: ["*"], actions: ["*"], decision: allow}]')
    key = tenant.key("coder", ["agent"], actors=["coder"])
    home.key_file.write_text(key)
    for agent in KNOWN:
        assert "there is no such file" in home.run(agent, "--check", check=False).stdout
        home.run(agent, "--install", engine=tenant.stack.engine.url)
        done = home.run(agent, "--check", TRUSTED="1")
        assert "BAD" not in done.stdout and "a call that the engine denies is denied: " in done.stdout, done
        writ = subprocess.run([harness.BIN / "writ", "doctor", "hook", agent], capture_output=True, text=True,
                              env=hooks.environment(HOME=str(home.folder), PATH=f"{home.folder}/bin:{os.environ['PATH']}", TRUSTED="1"))
        assert (writ.returncode, writ.stdout.count("ok ")) == (0, done.stdout.count("ok ")), writ
    assert "does not trust" in home.run("codex", "--check", check=False, TRUSTED="0").stdout


def test_a_check_sees_what_does_not_work(home):
    home.run("claude", "--install", engine=f"http://127.0.0.1:{harness.free_port()}")
    done = home.run("claude", "--check", check=False)
    assert done.returncode == 1 and "calls are denied, but the engine does not decide: The engine cannot be asked" in done.stdout
    text = home.path("claude").read_text()
    home.put("claude", text.replace("exit 2", "exit 0"))
    done = home.run("claude", "--check", check=False)
    assert done.returncode == 1 and "was not" in done.stdout
    home.put("claude", text.replace('"timeout": 31', '"timeout": "31"'))
    done = home.run("claude", "--check", check=False)
    assert done.returncode == 1 and "timeout" in done.stdout


