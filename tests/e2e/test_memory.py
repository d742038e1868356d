"""What is in a program's memory after requests, and who may look: credentials are wiped where they end, and neither a core
nor another process of the same user gets at those that must stay."""

import os
import pathlib
import re
import resource
import shutil
import tempfile

import pytest

import harness
from wire import Wire

AGENT = "/v1/agent/authorize"
NOBODY = 65534
PIECE_MAX = 1 << 30  # a sanitizer's shadow is far larger, and holds no bytes of ours


def copies(pid, text):
    """How often these bytes are in the process's memory."""
    found, overlap = 0, len(text) - 1
    with open(f"/proc/{pid}/smaps") as smaps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        place = None
        for line in smaps.read().splitlines():
            head = re.match(r"([0-9a-f]+)-([0-9a-f]+) (r)...", line)
            if head:
                place = (int(head[1], 16), int(head[2], 16))
            elif re.match(r"[0-9a-f]+-", line):
                place = None  # cannot be read
            elif line.startswith("Rss:") and place and int(line.split()[1]) > 0 and place[1] - place[0] < PIECE_MAX:
                at, end = place
                while at < end:
                    memory.seek(at)
                    try:
                        piece = memory.read(min(8 << 20, end - at))
                    except OSError:
                        break
                    if not piece:
                        break
                    found += piece.count(text)
                    at += len(piece) if at + len(piece) >= end else max(1, len(piece) - overlap)
    return found


def may_look(pid):
    try:
        with open(f"/proc/{pid}/mem", "rb"):
            return True
    except PermissionError:
        return False


def body(size):
    return b'{"action":"get_x","args":{"text":"' + b"x" * size + b'"}}'


def request(key, payload, path=AGENT):
    return (f"POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(payload)}\r\n\r\n").encode() + payload


def ask_in_every_way(address, key):
    """Whole, pipelined, in pieces, larger than a buffer, refused, forwarded; the connection, still open."""
    wire = Wire(address, key).open()
    for size in (1, 3000, 30000):
        wire.send(request(key, body(size)))
        assert wire.read_reply().status == 200
    wire.send(request(key, body(1)) * 9)
    assert [wire.read_reply().status for _ in range(9)] == [200] * 9
    whole = request(key, body(20000))
    for at in range(0, len(whole), 700):
        wire.send(whole[at:at + 700])
    assert wire.read_reply().status == 200
    wire.send(request(key, b"{"))
    assert wire.read_reply().status == 400
    wire.send(f"GET /api/v1/policies HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
    assert wire.read_reply().status == 403  # the platform says so
    wire.send(request(key, body(1)))
    assert wire.read_reply().status == 200
    return wire


def test_a_key_is_in_memory_no_longer_than_its_connection(fresh):
    """What an open connection keeps is the head that it compares the next one with (http/memo.h); nothing else is kept."""
    stack = fresh().start()
    if not may_look(stack.engine.pid):
        pytest.skip("this user may not read another process's memory")
    stack.policy("base", 'rules:\n  - {id: r, agents: ["*"], actions: ["get_*"], decision: allow}\n')
    key = stack.keys["agent"]
    secret = key.encode()
    open_ones = [ask_in_every_way(stack.engine.address, key) for _ in range(24)]
    for wire in open_ones[8:]:
        wire.close()
    with Wire(stack.engine.address, key) as wire:  # ended by a refusal, with more behind it
        wire.send(b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n" + request(key, body(1)) * 3)
        assert wire.read_reply().status == 400
        assert wire.is_closed_by_server()
    harness.eventually(lambda: copies(stack.engine.pid, secret) <= 8, "one copy for each open connection", 20)
    assert copies(stack.engine.pid, secret) > 0, "this test looks in the wrong place"
    for wire in open_ones[:8]:
        wire.close()
    harness.eventually(lambda: copies(stack.engine.pid, secret) == 0, "none is left in the engine", 20)
    harness.eventually(lambda: copies(stack.platform.pid, secret) == 0, "none is left in the platform", 20)


# ---- who may look ----


@pytest.fixture(scope="module")
def as_nobody():
    """What a program is started by as another user than the one who looks; its folder."""
    reachable = shutil.which("setpriv") and os.geteuid() == 0
    if not reachable:
        pytest.skip("only root starts programs as somebody else")
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


@pytest.fixture
def reachable():
    """A folder that anybody gets to. Those of pytest are not: each new session closes their parent again."""
    with tempfile.TemporaryDirectory(prefix="writ-test-") as folder:
        pathlib.Path(folder).chmod(0o711)
        yield pathlib.Path(folder)


@pytest.mark.parametrize("allowed", [False, True], ids=["as it is", "allowed"])
@pytest.mark.parametrize("name", ["writ-engine", "writ-platform"])
def test_no_core_and_no_other_process_gets_at_the_memory(reachable, as_nobody, name, allowed):
    """The kernel gives what may not be dumped to root: /proc/PID/mem, and the right to trace it."""
    folder = reachable
    data = folder / "data"
    data.mkdir(mode=0o700)
    os.chown(data, NOBODY, NOBODY)
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))  # what a developer's shell may have
    program = harness.Program(name, harness.free_port(), [], folder / "log", prefix=as_nobody)
    program.arguments = ["--data", str(data), "--listen", f"127.0.0.1:{program.port}", "--metrics.public", "true",
                         *(["--debug.core_dumps", "true"] if allowed else [])]
    try:
        program.start(ready=False)
        harness.eventually(lambda: program.process.poll() is not None or program.is_listening(), f"{name} listens")
        assert program.process.poll() is None, program.tail()
        (limit,) = re.findall(r"^Max core file size +(\S+) +(\S+)", pathlib.Path(f"/proc/{program.pid}/limits").read_text(), re.M)
        owner = os.stat(f"/proc/{program.pid}/mem").st_uid
        assert os.stat(f"/proc/{program.pid}").st_uid in (0, NOBODY)
        if allowed:
            assert owner == NOBODY
        else:
            assert limit == ("0", "0") and owner == 0
        with Wire(program.address) as wire:  # it still finds out about itself
            (open_fds,) = re.findall(rb"^writ_process_open_fds (\d+)$", wire.get("/metrics").body, re.M)
        assert int(open_fds) > 5
    finally:
        program.end()
        resource.setrlimit(resource.RLIMIT_CORE, before)
