"""Real coding agents behind the installed hook, by effect: a call has run if its file is there.

The agents are those of agents.json, in build/agents (`ops/test --only coding` installs them with npm: a gigabyte). The model is
model.py, and the engine is reached over a Unix socket, because an agent has no network here. `AGENT=claude` runs one agent alone.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

import pytest

import harness
import hooks
from hooks import FakeEngine, reply

HERE = pathlib.Path(__file__).resolve().parent
INSTALLED = harness.TOP / "build" / "agents"
NAMES = [os.environ["AGENT"]] if "AGENT" in os.environ else list(json.loads((HERE / "agents.json").read_text()))
SHELL = {"claude": "Bash", "codex": "exec_command", "gemini": "run_shell_command", "copilot": "bash"}
SEEN = {"claude": "Bash", "codex": "Bash", "gemini": "run_shell_command", "copilot": "bash"}  # by the hook
WRITE = {"claude": "Write", "codex": "apply_patch", "gemini": "write_file", "copilot": "create"}
DEADLINE = 10

POLICY = """
rules:
  - {id: fine, agents: ["*"], actions: ["*"], when: 'has(args.command) && type(args.command) == string && args.command.startsWith("echo allowed")', decision: allow}
  - {id: people, actions: ["*"], when: 'has(args.command) && type(args.command) == string && args.command.startsWith("echo asked")', decision: human_review, reason: A person looks at this.}
  - {id: never, actions: ["*"], when: 'has(args.command) && type(args.command) == string && args.command.startsWith("echo denied")', decision: deny, reason: WHY-NOT.}
  - {id: files, agents: ["*"], actions: [Write, apply_patch, write_file, create], when: '!has(args.command) || type(args.command) != string', decision: allow}
""" + "".join(f"""
  - {{id: unsafe-{tool}, agents: ["*"], actions: [{tool}], when: 'has(args.command) && args.command == "echo unsafe > ran.txt"', decision: compute, compute: {{tool: {tool}, args: {{command: echo safe > safe.txt}}}}}}
""" for tool in sorted(set(SEEN.values())))


class World:
    """One agent with its home, its project and the hook that `--install` wrote. What is behind the hook can be exchanged."""

    def __init__(self, agent, stack):
        self.agent, self.stack = agent, stack
        self.program = INSTALLED / agent / "node_modules" / ".bin" / agent
        if not self.program.exists():
            pytest.skip(f"SKIP: {self.program} is not there: ops/test --only coding installs it")
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="writ-coding-", dir="/var/tmp"))  # an agent's home may not be below TMPDIR
        for name in ("home", "project", "tmp", "bin"):
            (self.top / name).mkdir()
        self.home, self.project, self.hook = self.top / "home", self.top / "project", self.top / "bin" / "writ-hook"
        self.socket, self.key_file = self.top / "engine", self.top / "key"
        shutil.copy2(hooks.HOOK, self.hook)
        self.set_key(stack.coder)
        self.set_engine(stack.folder / "engine.sock")
        if agent == "gemini":
            self.put_settings(".gemini/settings.json", {"security": {"auth": {"selectedType": "gemini-api-key"}}})
        environment = hooks.environment(HOME=str(self.home), PATH=f"{self.program.parent}:{os.environ['PATH']}")
        done = subprocess.run([self.hook, agent, "--install", "--engine", f"unix:{self.socket}", "--key-file", self.key_file, "--actor", agent, "--deadline",
                               f"{DEADLINE}s", "--grant-compute"], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done

    def put_settings(self, name, value):
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))

    def set_key(self, text):
        self.key_file.write_text(text + "\n")
        self.key_file.chmod(0o600)

    def set_engine(self, path):
        self.socket.unlink(missing_ok=True)
        if path is not None:
            self.socket.symlink_to(path)

    def set_hook(self, script):
        """In place of the program; `real` is the program."""
        shutil.copy2(hooks.HOOK, self.top / "bin" / "real")
        self.hook.unlink()
        self.hook.write_text(f"#!/bin/bash\nreal={self.top}/bin/real\n{script}\n")
        self.hook.chmod(0o755)

    def mend(self):
        self.hook.unlink(missing_ok=True)
        shutil.copy2(hooks.HOOK, self.hook)
        self.set_key(self.stack.coder)
        self.set_engine(self.stack.folder / "engine.sock")

    def shell(self, command):
        return [SHELL[self.agent], {"cmd": command} if self.agent == "codex" else {"command": command, "description": "a call"}]

    def write(self, text):
        if self.agent == "codex":
            return ["apply_patch", "*** Begin Patch\n*** Add File: ran.txt\n+" + text + "\n*** End Patch\n"]
        path = str(self.project / "ran.txt")
        return [WRITE[self.agent], {"claude": {"file_path": path, "content": text}, "gemini": {"file_path": path, "content": text},
                                    "copilot": {"path": path, "file_text": text}}[self.agent]]

    def start(self, *turns, prepare=None, seconds=120):
        shutil.rmtree(self.project)
        self.project.mkdir()
        if prepare is not None:
            prepare(self)
        specification = self.top / "specification.json"
        specification.write_text(json.dumps({"agent": self.agent, "program": str(self.program), "home": str(self.home), "project": str(self.project),
                                             "tmp": str(self.top / "tmp"), "turns": turns, "seconds": seconds}))
        return subprocess.Popen([sys.executable, HERE / "drive.py", specification], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(self, process):
        out, err = process.communicate(timeout=harness.PATIENCE)
        assert process.returncode == 0, err
        return json.loads(out)

    def run(self, *turns, **more):
        return self.end(self.start(*turns, **more))

    def files(self):
        return {path.name: path.read_text() for path in self.project.iterdir() if path.is_file()}


@pytest.fixture(scope="module")
def stack():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="writ-engine-", dir="/var/tmp"))
    with harness.Stack(folder, engine=("--listen.unix", str(folder / "engine.sock"))) as running:
        running.policy("base", POLICY)
        running.coder = running.key("coder", ["agent"], actors=["*"], wait=False)
        running.reviewer = running.key("rita", ["reviewer"], reviewers=["*"])
        yield running
        running.engine.stop()
        running.platform.stop()
    shutil.rmtree(folder)


@pytest.fixture(scope="module", params=NAMES)
def world(request, stack):
    one = World(request.param, stack)
    yield one
    shutil.rmtree(one.top, ignore_errors=True)


@pytest.fixture(autouse=True)
def mended(world):
    yield
    world.mend()


# ---- verdicts ----


def test_an_allow_runs(world):
    result = world.run([world.shell("echo allowed > ran.txt")])
    assert world.files() == {"ran.txt": "allowed\n"} and result["status"] == 0, result


def test_a_denial_does_not_run_and_its_reason_reaches_the_model(world):
    result = world.run([world.shell("echo denied > ran.txt")])
    assert world.files() == {} and "WHY-NOT." in json.dumps(result["told"]), result


def test_a_safe_call_runs_in_place_of_the_call(world):
    result = world.run([world.shell("echo unsafe > ran.txt")])
    assert world.files() == {"safe.txt": "safe\n"}, result


def test_a_call_waits_for_a_person_and_the_same_call_goes_on(world):
    process = world.start([world.shell("echo asked > ran.txt")])
    with world.stack.at_engine(world.stack.reviewer) as wire:
        [review] = harness.eventually(lambda: wire.get("/v1/queue/pending").json["items"], "the call waits")
        assert review["action"] == SEEN[world.agent] and review["args"] == {"command": "echo asked > ran.txt"} and world.files() == {}
        assert wire.post(f"/v1/queue/{review['id']}/approve", {"resolved_by": "rita", "note": "NOTED"}).status == 200
    result = world.end(process)
    assert world.files() == {"ran.txt": "asked\n"}, result
    assert result["noted"] == (world.agent == "claude"), "the reviewer's note"


def test_a_reviewers_no_reaches_the_model(world):
    process = world.start([world.shell("echo asked > ran.txt")])
    with world.stack.at_engine(world.stack.reviewer) as wire:
        [review] = harness.eventually(lambda: wire.get("/v1/queue/pending").json["items"], "the call waits")
        assert wire.post(f"/v1/queue/{review['id']}/deny", {"resolved_by": "rita", "note": "NOT-TODAY"}).status == 200
    result = world.end(process)
    assert world.files() == {} and "NOT-TODAY" in json.dumps(result["told"]), result


def test_an_approval_after_the_deadline_lets_the_same_call_go_on(world):
    """The model asks again, as it was advised."""
    call = world.shell("echo asked twice > ran.txt")
    process = world.start([call], [call])
    with world.stack.at_engine(world.stack.reviewer) as wire:
        [review] = harness.eventually(lambda: wire.get("/v1/queue/pending").json["items"], "the call waits")
        # the first hook is ended as the deadline would end it, so the review stays
        harness.eventually(lambda: end_hooks(world), "the hook is there")
        assert wire.post(f"/v1/queue/{review['id']}/approve", {"resolved_by": "rita"}).status == 200
    result = world.end(process)
    assert world.files() == {"ran.txt": "asked twice\n"} and "has to approve" in json.dumps(result["told"]), result


def end_hooks(world):
    """SIGALRM, which is what their timer sends, to the hooks of this world. False: there is none."""
    found = False
    for folder in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and os.readlink(folder / "exe") == str(world.hook) and "socket:" in " ".join(
                    os.readlink(fd) for fd in (folder / "fd").iterdir()):
                os.kill(int(folder.name), signal.SIGALRM)
                found = True
    return found


def test_five_megabytes_are_written_after_an_allow(world):
    result = world.run([world.write("x" * 5_000_000)])
    assert world.files() and len(world.files()["ran.txt"].strip()) == 5_000_000, result


# ---- faults ----


@contextlib.contextmanager
def fake(world, behave):
    path = world.top / "fake"
    engine = FakeEngine(behave, path=str(path))
    world.set_engine(path)
    yield
    engine.close()
    path.unlink()


def silent(engine, connection, request):
    engine.over.wait(harness.PATIENCE)


def half(engine, connection, request):
    connection.sendall(reply(200, {"decision": "allow", "allowed": True, "mode": "live"})[:-9])
    connection.close()


def drop_by_drop(engine, connection, request):
    for byte in reply(200, {"decision": "allow", "allowed": True, "mode": "live"}):
        connection.sendall(bytes([byte]))
        if engine.over.wait(0.3):
            return


def answers(status, body):
    return lambda engine, connection, request: connection.sendall(reply(status, body))


@contextlib.contextmanager
def scripted(world, script):
    world.set_hook(script)
    yield


@contextlib.contextmanager
def scripted_and_silent(world, script):
    with fake(world, silent), scripted(world, script):
        yield


@contextlib.contextmanager
def killed_engine(world):
    """kill -9 of a real engine while it has the call: it is stopped before, so that it cannot answer."""
    engine = world.stack.engine
    engine.signal(signal.SIGSTOP)
    timer = threading.Timer(5, engine.signal, [signal.SIGKILL])
    timer.start()
    yield
    timer.join()
    engine.wait()
    engine.start()


@contextlib.contextmanager
def no_engine(world):
    world.set_engine(None)
    yield


@contextlib.contextmanager
def refused(world):
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(world.top / "deaf"))
        world.set_engine(world.top / "deaf")
        yield
    (world.top / "deaf").unlink()


@contextlib.contextmanager
def another_key(world):
    world.set_key("wk_" + "a" * 77)
    yield


@contextlib.contextmanager
def open_key(world):
    world.key_file.chmod(0o644)
    yield


@contextlib.contextmanager
def ended_key(world):
    world.stack.ended = getattr(world.stack, "ended", 0) + 1
    name = f"ended-{world.stack.ended}"
    with world.stack.at_platform("root") as wire:
        made = wire.post("/api/v1/keys", {"name": name, "owner": "o", "tenant": "default", "roles": ["agent"], "actors": ["*"]}).json
    world.stack.wait_followed()
    world.set_key(made["key"])
    with world.stack.at_platform("root") as wire:
        harness.revoked(wire, f"/api/v1/keys/{made['id']}")
    yield


@contextlib.contextmanager
def revoked_token(world):
    with world.stack.at_engine(world.stack.coder) as wire:
        token = wire.post("/v1/tokens/mint", {"actor": world.agent, "scope": "*", "ttl_seconds": 600}).json
        assert wire.delete(f"/v1/tokens/{token['token_id']}").status == 200
    world.set_key(token["token"])
    yield


FAULTS = {
    "the engine is down": no_engine,
    "the engine's socket refuses": refused,
    "the engine is silent": lambda world: fake(world, silent),
    "the engine is slow": lambda world: fake(world, drop_by_drop),
    "the engine ends in the middle of an answer": lambda world: fake(world, half),
    "the engine is killed": killed_engine,
    "the engine's disk is full": lambda world: fake(world, answers(503, {"code": "no_space", "error": "the disk is full"})),
    "413": lambda world: fake(world, answers(413, {"code": "body_too_large", "error": "the body is too large"})),
    "garbage": lambda world: fake(world, answers(200, b"<html>allow</html>")),
    "a misspelt verdict": lambda world: fake(world, answers(200, {"decision": "alow", "allowed": True, "mode": "live"})),
    "an unknown key": another_key,
    "a revoked key": ended_key,
    "a revoked token": revoked_token,
    "a key that others can read": open_key,
    "the hook is missing": lambda world: scripted(world, "rm $0; exit 1"),
    "the hook is no program": lambda world: scripted(world, ")("),
    "the hook crashes": lambda world: scripted(world, "kill -SEGV $$"),
    "the hook is killed": lambda world: scripted(world, "kill -9 $$"),
    "the hook is killed after its answer": lambda world: scripted(world, "echo '{}'; kill -9 $$"),
    "the hook is killed while it asks": lambda world: scripted_and_silent(world, '"$real" "$@" <&0 & sleep 0.5; kill -9 $!; wait $!'),
    "the hook is ended while it asks": lambda world: scripted_and_silent(world, '"$real" "$@" <&0 & sleep 0.5; kill $!; wait $!'),
    "the hook prints nothing": lambda world: scripted(world, "exit 0"),
    "the hook prints garbage": lambda world: scripted(world, "echo hello"),
    "the hook has status 1": lambda world: scripted(world, "echo '{}'; exit 1"),
    "the hook has no memory": lambda world: scripted(world, "ulimit -v 9000; exec \"$real\" \"$@\""),
    "the hook is late and deaf": lambda world: scripted(world, "trap '' TERM; while :; do sleep 0.2; done"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_runs_nothing(world, fault):
    with FAULTS[fault](world):
        result = world.run([world.shell("echo allowed > ran.txt")])
    print(f"fault  {world.agent:<8} {fault:<44} {'RAN' if world.files() else 'blocked'}  {result['seconds']:4.1f} s  {json.dumps(result['told'])[:200]}")
    assert world.files() == {} and result["told"], result


def test_twenty_calls_at_once_run_nothing(world):
    calls = [world.shell(f"echo denied > ran{i}.txt") for i in range(10)] + [world.shell(f"echo other > ran{i}.txt") for i in range(10, 20)]
    result = world.run(calls)
    assert world.files() == {} and len(result["told"]) == 20, result


# ---- what no hook can see ----


HOLES = {
    "claude": ("a project switches all hooks off", lambda world: put(world.project / ".claude/settings.json", {"disableAllHooks": True})),
    "codex": ("the hook's entry was changed, so Codex does not trust it", lambda world: change(world.home / ".codex/hooks.json", "writ-hook' codex", "writ-hook'  codex")),
    "gemini": ("a project switches hooks off", lambda world: put(world.project / ".gemini/settings.json", {"hooksConfig": {"enabled": False}})),
    "copilot": ("the settings file is damaged", lambda world: change(world.home / ".copilot/hooks/writ.json", '"hooks"', "hooks")),
}


def put(path, value):
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(value))


def change(path, before, after, count=-1):
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, count))


def test_what_no_hook_can_see_is_known(world):
    """Each is in docs/guides/coding-agents.md. Where this fails, an agent has closed the hole: change the page."""
    what, make = HOLES[world.agent]
    settings = {path: path.read_bytes() for path in (world.home / ".codex/hooks.json", world.home / ".copilot/hooks/writ.json") if path.exists()}
    result = world.run([world.shell("echo denied > ran.txt")], prepare=make)
    for path, text in settings.items():
        path.write_bytes(text)
    print(f"hole   {world.agent:<8} {what:<44} {'RAN' if 'ran.txt' in world.files() else 'blocked'}")
    assert "ran.txt" in world.files(), result
