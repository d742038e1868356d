"""ops/run as a person uses it: first start, second start, Ctrl-C, and a program that dies."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess

import pytest

import harness
from wire import Wire

RUN = harness.TOP / "ops" / "run"


class Run:
    """ops/run on the programs under test."""

    def __init__(self, data, ignoring_sigint=False, environment=None, command=(RUN,), cwd=None, named=None, more=()):
        self.data = pathlib.Path(data)
        self.engine_port, self.platform_port = harness.free_port(), harness.free_port()
        environment = {**{k: v for k, v in os.environ.items() if not k.startswith("WRIT_")}, **(environment or {})}
        self.process = subprocess.Popen(
            [*command, "--data", named or str(data), "--engine-port", str(self.engine_port), f"--platform-port={self.platform_port}", *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**environment, "WRIT_BIN": str(harness.BIN)}, cwd=cwd,
            preexec_fn=(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if ignoring_sigint else None)
        self.printed = []
        for line in self.process.stdout:
            self.printed.append(line)
            if "ready" in line:
                break
        assert self.printed and "ready" in self.printed[-1], self.process.communicate()[1]

    def keys(self):
        return dict(re.findall(r"^(WRIT_\w+)=(wk_\S+)$", (self.data / "dev-keys.env").read_text(), re.M))

    def engine(self, key="WRIT_AGENT_KEY"):
        return Wire(("127.0.0.1", self.engine_port), self.keys()[key])

    def platform(self, key="WRIT_ADMIN_KEY"):
        return Wire(("127.0.0.1", self.platform_port), self.keys()[key])

    def children(self):
        pid = self.process.pid
        found = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        names = {pathlib.Path(f"/proc/{child}/comm").read_text().strip(): int(child) for child in found}
        return {name: child for name, child in names.items() if name.startswith("writ-")}

    def stop(self, number=signal.SIGINT):
        self.process.send_signal(number)
        return self.process.wait(harness.PATIENCE)

    def ended(self):
        for port in (self.engine_port, self.platform_port):
            try:
                Wire(("127.0.0.1", port)).open()
                return False
            except OSError:
                pass
        return True


@pytest.fixture
def run(tmp_path):
    made = []

    def start(data="data", **options):
        made.append(Run(tmp_path / data, **options))
        return made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            one.process.terminate()
            one.process.wait(harness.PATIENCE)


def policies(run):
    with run.platform() as wire:
        return {policy["name"]: policy["version"] for policy in wire.get("/api/v1/policies").json["policies"]}


def test_the_first_start_gives_keys_and_one_policy_and_the_second_keeps_them(run):
    first = run()
    text = "".join(first.printed)
    assert f"http://127.0.0.1:{first.engine_port}" in text and f"http://127.0.0.1:{first.platform_port}" in text
    env = first.data / "dev-keys.env"
    assert oct(env.stat().st_mode & 0o777) == "0o600"
    keys = first.keys()
    assert set(keys) == {"WRIT_AGENT_KEY", "WRIT_REVIEWER_KEY", "WRIT_ADMIN_KEY", "WRIT_AUDITOR_KEY", "WRIT_ENGINE_KEY"}
    assert policies(first) == {"payments": 1}
    with first.platform() as wire:
        rows = wire.get("/api/v1/keys").json["keys"]
        assert len({row["owner"] for row in rows}) >= 3
    with first.engine() as wire:
        for action in ("search_docs", "get_balance", "create_task"):
            reply = wire.post("/v1/agent/authorize", {"action": action, "actor": "my_first_agent", "confidence": 1})
            assert reply.status == 200 and (reply.json["decision"], reply.json["rule"]) == ("deny", "default:deny"), reply
        assert wire.post("/v1/authorize", {"action": "x", "user_id": "anybody"}).status == 200
    with first.platform() as wire:
        harness.eventually(lambda: wire.get(f"/api/v1/audit/trace/{reply.json['trace_id']}").json.get("count") == 1, "the trace")
        assert wire.delete("/api/v1/policies/payments").status == 200
    assert first.stop() == 0 and first.ended()

    second = run()
    assert second.keys() == keys
    assert policies(second) == {}, "what people changed stays changed"
    with second.platform() as wire:
        assert wire.get(f"/api/v1/audit/trace/{reply.json['trace_id']}").json["count"] == 1
        assert wire.put("/api/v1/policies/tasks", {"content": "rules: [{id: own, actions: [x], decision: deny}]"}).status == 201
    assert second.stop(signal.SIGTERM) == 0 and second.ended()

    third = run(more=("--examples",))
    examples = {path.stem for path in (harness.TOP / "ops" / "examples").glob("*.yaml")} - {"payments"}
    assert policies(third) == dict.fromkeys(examples, 1), "each is loaded once"
    with third.platform() as wire:
        assert "id: own" in wire.get("/api/v1/policies/tasks").json["content"], "not over a policy that people have made"
    assert third.stop() == 0 and third.ended()


def test_a_directory_of_the_version_that_loaded_all_examples_gets_none_again(run, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "examples-loaded").touch()
    one = run(more=("--examples",))
    assert policies(one) == {}
    assert one.stop() == 0 and one.ended()


def test_a_script_that_started_it_in_the_background_can_stop_it_too(run):
    """A shell starts what it puts behind with SIGINT ignored."""
    one = run(ignoring_sigint=True)
    assert one.stop(signal.SIGINT) == 0 and one.ended()


def test_a_proxy_is_not_asked_for_programs_of_this_machine(run):
    """It does not reach them, and is nobody to give a key to."""
    nobody = f"http://127.0.0.1:{harness.free_port()}"
    one = run(environment={"http_proxy": nobody, "ALL_PROXY": nobody, "no_proxy": ""})
    assert one.stop() == 0 and one.ended()


def test_a_relative_data_directory_is_where_it_was_said(run, tmp_path):
    """With CDPATH, a shell's cd may go to another of that name, and says where it went."""
    (tmp_path / "elsewhere" / "data").mkdir(parents=True)
    one = run(named="data", cwd=tmp_path, environment={"CDPATH": str(tmp_path / "elsewhere")})
    assert (tmp_path / "data" / "platform.db").exists() and not list((tmp_path / "elsewhere" / "data").iterdir())
    assert one.stop() == 0 and one.ended()


def test_a_path_that_is_too_long_for_a_socket_in_bytes_leaves_tcp(run, tmp_path):
    one = run("ü" * ((107 - len(f"{tmp_path}//platform.sock")) // 2 + 3), environment={"LC_ALL": "C.UTF-8"})
    assert not (one.data / "platform.sock").exists()
    assert one.stop() == 0 and one.ended()


def test_it_may_be_given_to_a_shell_where_it_lies(run, tmp_path):
    one = run(command=("bash", "run"), cwd=RUN.parent)
    assert one.stop() == 0 and one.ended()


@pytest.mark.parametrize("victim", ["writ-engine", "writ-platform"])
def test_if_one_dies_the_other_is_stopped_and_the_status_says_so(run, victim):
    one = run()
    os.kill(one.children()[victim], signal.SIGKILL)
    assert one.process.wait(harness.PATIENCE) != 0
    assert victim in one.process.stderr.read() and one.ended()


class Build:
    """ops/run in a tree of its own, where it builds, with tools that need long: ninja, or cmake before it."""

    SLOW = "#!/bin/sh\ntrap 'exit 2' INT TERM\nsleep 600 &\necho $$ $! >$STARTED.new\nmv $STARTED.new $STARTED\nwait\n"

    def __init__(self, path, slow):
        self.started, self.tmp, tools, lib = path / "started", path / "tmp", path / "bin", path / "tree" / "ops" / "lib"
        for folder in (self.tmp, tools, lib):
            folder.mkdir(parents=True)
        shutil.copy(RUN, lib.parent)
        shutil.copy(RUN.parent / "lib" / "configure", lib)
        for script, text in ((lib.parent / "setup", "#!/bin/sh\n"), (tools / "cmake", "#!/bin/sh\n"), (tools / slow, self.SLOW)):
            script.write_text(text)
            script.chmod(0o755)
        environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "STARTED": str(self.started), "TMPDIR": str(self.tmp)}
        environment.pop("WRIT_BIN", None)
        self.process = subprocess.Popen([lib.parent / "run", "--data", path / "data"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=environment, start_new_session=True)
        harness.eventually(self.started.exists, "it builds")

    def pids(self):
        return [int(pid) for pid in self.started.read_text().split()]

    def lives(self, pid):
        try:
            return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() != b""  # a zombie's is empty
        except FileNotFoundError:
            return False


@pytest.mark.parametrize("slow", ["cmake", "ninja"])
@pytest.mark.parametrize("number, send", [(signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill)], ids=["ctrl-c", "terminated"])
def test_a_build_that_is_stopped_leaves_nothing_and_is_no_failed_one(tmp_path, slow, number, send):
    """Ctrl-C reaches all that the terminal runs; SIGTERM the script alone."""
    build = Build(tmp_path, slow)
    try:
        send(build.process.pid, number)
        printed, said = build.process.communicate(timeout=harness.PATIENCE)
        assert build.process.returncode == 128 + number and not printed, said
        assert said.splitlines() == ["Building (about a minute the first time) …"]
        assert not list(build.tmp.iterdir())
        harness.eventually(lambda: not any(map(build.lives, build.pids())), "the build has ended")
    finally:
        for pid in filter(build.lives, build.pids()):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("arguments, said", [
    (["--engine-port", "0"], "not a port"), (["--engine-port", "x"], "not a port"),
    (["--engine-port", "7", "--platform-port", "7"], "cannot share"), (["--data"], "needs a value"), (["--colour"], "--colour"),
])
def test_wrong_arguments_are_told(arguments, said):
    done = subprocess.run([RUN, *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and said in done.stderr and not done.stdout


@pytest.mark.parametrize("taken", ["engine_port", "platform_port"])
def test_a_port_that_is_taken_is_told_and_who_answers_there_is_not_taken_for_ours(run, tmp_path, taken):
    """Else it would say that both are ready, or give this start's admin key to a program that is not its own."""
    first = run()
    ports = {"--engine-port": harness.free_port(), "--platform-port": harness.free_port()}
    ports["--" + taken.replace("_", "-")] = getattr(first, taken)
    done = subprocess.run([RUN, "--data", tmp_path / "other", *(f"{name}={port}" for name, port in ports.items())], capture_output=True, text=True,
                          env={**os.environ, "WRIT_BIN": str(harness.BIN)}, timeout=harness.PATIENCE)
    assert done.returncode == 2 and f"port {getattr(first, taken)} is another program's" in done.stderr, done
    assert not done.stdout and not (tmp_path / "other").exists()
    assert first.stop() == 0


def test_a_data_directory_that_another_run_uses_is_told_and_left_alone(run):
    """Two first starts would each make keys, and the file would hold one's, of which the other knows nothing."""
    first = run()
    ports = [f"--{which}-port={harness.free_port()}" for which in ("engine", "platform")]
    done = subprocess.run([RUN, "--data", first.data, *ports], capture_output=True, text=True, timeout=harness.PATIENCE,
                          env={**os.environ, "WRIT_BIN": str(harness.BIN)})
    assert done.returncode == 2 and f"{first.data} is in use by another ops/run" in done.stderr and not done.stdout, done
    with first.engine() as wire:
        assert wire.get("/readyz").status == 200
    assert first.stop() == 0


@pytest.mark.parametrize("server", ["redis", "postgres"])
def test_a_server_whose_port_is_taken_says_which_variable_names_another(tmp_path, server):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port, variable = taken.getsockname()[1], f"WRIT_{server.upper()}_PORT"
        done = subprocess.run([harness.TOP / "ops" / "stack", "up", server], capture_output=True, text=True, timeout=harness.PATIENCE,
                              env={**os.environ, "WRIT_STACK": str(tmp_path / "stack"), variable: str(port)})
    if done.returncode == 3:
        pytest.skip(f"SKIP: {done.stderr.strip()}")
    assert done.returncode == 1 and f"port {port} is another program's ({variable} names another)" in done.stderr, done.stderr
    assert not (tmp_path / "stack" / server).exists(), "nothing was made"


@pytest.mark.parametrize("missing", ["curl", "jq"])
def test_a_tool_that_is_not_there_is_told_before_anything_is_made(tmp_path, missing):
    """Else a machine without curl waits for a minute, and is told that the platform is not ready."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for tool in pathlib.Path(folder).iterdir():
            if tool.name != missing and not (tools / tool.name).is_symlink():
                (tools / tool.name).symlink_to(tool)
    ports = [f"--{which}-port={harness.free_port()}" for which in ("engine", "platform")]
    done = subprocess.run([RUN, "--data", tmp_path / "data", *ports], capture_output=True, text=True, timeout=harness.PATIENCE,
                          env={**os.environ, "WRIT_BIN": str(harness.BIN), "PATH": str(tools)})
    assert done.returncode == 2 and f"there is no {missing}" in done.stderr, done
    assert not (tmp_path / "data").exists()


def test_a_data_directory_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()
    ports = [f"--{which}-port={harness.free_port()}" for which in ("engine", "platform")]
    done = subprocess.run([RUN, "--data", tmp_path / "file", *ports], capture_output=True, text=True, timeout=harness.PATIENCE,
                          env={**os.environ, "WRIT_BIN": str(harness.BIN)})
    assert done.returncode == 2 and f"ops/run: {tmp_path / 'file'} cannot be made" in done.stderr and "--data" in done.stderr, done


def test_keys_whose_pepper_is_gone_are_not_told_as_if_they_worked(tmp_path):
    (tmp_path / "dev-keys.env").write_text("WRIT_ADMIN_KEY=wk_x\n")
    ports = [f"--{which}-port={harness.free_port()}" for which in ("engine", "platform")]
    done = subprocess.run([RUN, "--data", tmp_path, *ports], capture_output=True, text=True, timeout=harness.PATIENCE,
                          env={**os.environ, "WRIT_BIN": str(harness.BIN)})
    assert done.returncode == 2 and f"{tmp_path / 'pepper'} is not" in done.stderr and "put it back" in done.stderr, done


@pytest.mark.parametrize("script", ("run", "test", "bench", "setup"))
def test_help_is_given_at_once(script):
    done = subprocess.run([harness.TOP / "ops" / script, "--help"], capture_output=True, text=True, timeout=harness.PATIENCE)
    assert done.returncode == 0 and f"ops/{script}" in done.stdout and not done.stderr, done


def bare(tmp_path):
    """An environment in which dpkg-query knows of nothing: it stands for a bare machine."""
    tool = tmp_path / "dpkg-query"
    tool.write_text("#!/bin/sh\nexit 1\n")
    tool.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


def test_setup_is_quiet_where_nothing_is_missing():
    done = subprocess.run([harness.TOP / "ops" / "setup"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_setup_says_what_it_would_do_where_it_may_not(tmp_path):
    done = subprocess.run([harness.TOP / "ops" / "setup", "--check"], capture_output=True, text=True, env=bare(tmp_path))
    assert done.returncode == 1 and "apt-get install" in done.stderr and "libev-dev" in done.stderr and not done.stdout


def test_setup_knows_what_the_servers_of_the_stack_need(tmp_path):
    done = subprocess.run([harness.TOP / "ops" / "setup", "--check", "stack"], capture_output=True, text=True, env=bare(tmp_path))
    assert done.returncode == 1 and not done.stdout
    assert {"redis-server", "postgresql", "openjdk-17-jre-headless", "maven"} <= set(done.stderr.split()) and "libev-dev" not in done.stderr


@pytest.mark.parametrize("binaries, needs", [({}, "build stack"), ({"WRIT_BIN": str(harness.BIN)}, "stack")])
def test_a_run_with_the_stack_installs_what_it_needs(tmp_path, binaries, needs):
    """The script's own ops/setup stands aside for one that notes what is asked of it."""
    ops = tmp_path / "ops"
    ops.mkdir()
    shutil.copy(RUN, ops)
    (ops / "setup").write_text('#!/bin/sh\necho "$@" >"$0.asked"\nexit 1\n')
    (ops / "setup").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "WRIT_BIN"} | binaries
    done = subprocess.run([ops / "run", "--stack", "--data", tmp_path / "data"], capture_output=True, text=True, timeout=harness.PATIENCE, env=environment)
    assert done.returncode == 1 and (ops / "setup.asked").read_text() == f"{needs}\n" and not (tmp_path / "data").exists(), done
