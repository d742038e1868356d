"""Installed as the units and the containers have it: two users, two data directories, and neither program reads the other's files."""

import configparser
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile

import pytest

import harness
from wire import Wire

UNITS = harness.TOP / "ops" / "systemd"
USERS = {"platform": 10001, "engine": 10002}

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts programs as two other users")


def as_user(uid):
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--no-new-privs"]


@pytest.fixture(scope="module")
def top():
    """Where both users may pass: the programs in bin/, and a data directory each."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="writ-users-"))
    folder.chmod(0o755)
    (folder / "bin").mkdir()
    for name in ("writ", "writ-engine", "writ-platform"):
        shutil.copy(harness.BIN / name, folder / "bin")
    for name, uid in USERS.items():
        (folder / name).mkdir(mode=0o700)
        os.chown(folder / name, uid, uid)
    yield folder
    shutil.rmtree(folder)


def first_keys(top):
    subprocess.run([harness.TOP / "ops" / "lib" / "first-keys", top / "bin", top / "platform", top / "engine"], check=True, timeout=harness.PATIENCE,
                   env={"PATH": os.environ["PATH"]})
    return dict(line.split("=") for line in (top / "platform" / "dev-keys.env").read_text().splitlines() if line.startswith("WRIT_"))


def arguments(top, name, port, *more):
    """Those of the unit, with other directories and without its settings file."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.read(UNITS / f"writ-{name}.service")
    words = shlex.split(unit["Service"]["ExecStart"])
    at = words.index("--config")
    return [word.replace(f"/var/lib/writ-{name}", str(top / name)) for word in words[1:at] + words[at + 2:]] + ["--listen", f"127.0.0.1:{port}", *more]


def test_two_users_with_a_directory_each_decide_and_read_nothing_of_each_other(top):
    keys = first_keys(top)
    assert first_keys(top) == keys, "a second run makes nothing new"
    ports = {name: harness.free_port() for name in USERS}
    programs = {}
    try:
        for name, more in (("platform", ["--engine.url", f"http://127.0.0.1:{ports['engine']}"]),
                           ("engine", ["--platform.url", f"http://127.0.0.1:{ports['platform']}", "--reactors", "1"])):
            programs[name] = harness.Program(top / "bin" / f"writ-{name}", ports[name], arguments(top, name, ports[name], *more),
                                             top / f"{name}.log", prefix=as_user(USERS[name])).start()
        with Wire(programs["engine"].address, keys["WRIT_AGENT_KEY"]) as wire:
            reply = wire.post("/api/v1/authorize", {"tool": "b"})
        assert reply.status == 200, reply
        for program in programs.values():
            program.stop()
    finally:
        for program in programs.values():
            program.end()

    for name, other in (("platform", "engine"), ("engine", "platform")):
        files = [path for path in (top / name).rglob("*") if path.is_file()]
        assert len(files) > 3 and {path.stat().st_uid for path in [top / name, *(top / name).rglob("*")]} == {USERS[name]}
        for path in files:
            read = subprocess.run([*as_user(USERS[other]), "cat", path], capture_output=True, timeout=harness.PATIENCE)
            assert read.returncode != 0 and b"Permission denied" in read.stderr, f"{other} reads {path}"
            assert path.stat().st_mode & 0o077 == 0, f"{path} relies on its directory alone"
