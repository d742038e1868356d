"""The hook of coding agents when something is wrong: each case ends in a denial, in all its forms, and prints nothing else."""

import json
import os
import resource
import signal
import socket
import subprocess
import threading

import pytest

import harness
import hooks
from hooks import AGENTS, Answer, FakeEngine, Hook, call, reply

DECISION = {"request_id": "req_01KAG5W2VBZQ4M8T0R7N3YC1XD", "trace_id": "trace-1", "allowed": False, "requires_human_review": False, "compute": False,
            "reason": "Because.", "rule": "rule-1", "mode": "live"}
REVIEW = "rev_01KAG5W2VBF0J5V9S2H8K6E4WQ"
ALLOW = {**DECISION, "decision": "allow", "allowed": True}
DENY = {**DECISION, "decision": "deny"}
ASKS = {**DECISION, "decision": "human_review", "review_id": REVIEW}


@pytest.fixture
def hook_of(tmp_path):
    """Makes the hook of a fake engine, which does `behave` with each request."""
    made = []

    def make(behave):
        made.append(FakeEngine(behave))
        return Hook(made[-1].url, "wk_key", tmp_path), made[-1]

    yield make
    for engine in made:
        engine.close()


def answers(*replies):
    """Each request gets the next of these, and the last one again."""
    left = list(replies)

    def behave(engine, connection, request):
        connection.sendall(left.pop(0) if len(left) > 1 else left[0])
    return behave


def silent(engine, connection, request):
    engine.over.wait(harness.PATIENCE)


def test_a_fake_engine_that_behaves_allows_and_denies(hook_of):
    """So that what the others show is the fault's doing."""
    hook, engine = hook_of(answers(reply(200, ALLOW), reply(200, DENY)))
    assert hook.ask("claude", call("claude")).is_allow()
    assert hook.ask("claude", call("claude")).reason("claude") == "Because. (denied by rule-1; trace trace-1)"
    assert engine.requests[0].startswith(b"POST /v1/agent/authorize HTTP/1.1\r\n") and b"Authorization: Bearer wk_key\r\n" in engine.requests[0]
    assert b"wk_key" not in engine.requests[0].partition(b"\r\n\r\n")[2]


# ---- the engine ----


def half_answer(engine, connection, request):
    connection.sendall(reply(200, ALLOW)[:-10])
    connection.close()


def endless(engine, connection, request):
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not engine.over.is_set():
        connection.sendall(b"1000\r\n" + b" " * 4096 + b"\r\n")


WRONG = {
    "half an answer": half_answer,
    "no end": endless,
    "closed": lambda engine, connection, request: connection.close(),
    "no HTTP": answers(b"{}\n" * 100),
    "an empty body": answers(reply(200, b"")),
    "an empty object": answers(reply(200, {})),
    "a list": answers(reply(200, [ALLOW])),
    "garbage": answers(reply(200, b"<html>allow</html>")),
    "JSON and more": answers(reply(200, json.dumps(ALLOW).encode() + b"x")),
    "cut JSON": answers(reply(200, json.dumps(ALLOW).encode()[:-1])),
    "a member twice": answers(reply(200, json.dumps(DENY).encode()[:-1] + b',"decision":"allow","allowed":true}')),
    "another word": answers(reply(200, {**ALLOW, "decision": "allowed"})),
    "another case": answers(reply(200, {**ALLOW, "decision": "Allow"})),
    "no word": answers(reply(200, {**DECISION, "allowed": True})),
    "allow, not allowed": answers(reply(200, {**ALLOW, "allowed": False})),
    "allowed as a text": answers(reply(200, {**ALLOW, "allowed": "true"})),
    "a dry run": answers(reply(200, {**ALLOW, "mode": "dry_run"})),
    "no mode": answers(reply(200, {k: v for k, v in ALLOW.items() if k != "mode"})),
    "a safe call without arguments": answers(reply(200, {**DECISION, "decision": "compute", "compute": True, "safe_tool": "Bash"})),
    "a safe call without a tool": answers(reply(200, {**DECISION, "decision": "compute", "safe_args": {"command": "ls"}})),
    "a review without an id": answers(reply(200, {**DECISION, "decision": "human_review"})),
    "a review with an odd id": answers(reply(200, {**ASKS, "review_id": "rev_/../../x" + "y" * 60})),
    "created": answers(reply(201, ALLOW)),
    "moved": answers(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"),
    "401": answers(reply(401, {"code": "credential_expired", "error": "the credential has expired"})),
    "403": answers(reply(403, {"code": "wrong_actor", "error": "the credential may not speak for this actor"})),
    "413": answers(reply(413, {"code": "body_too_large", "error": "the body is too large"})),
    "413, with an allow": answers(reply(413, ALLOW)),
    "500": answers(reply(500, b"oops")),
    "503": answers(reply(503, {"code": "overloaded", "error": "the engine is at a limit"})),
    "a review that is unknown": answers(reply(200, ASKS), reply(404, {"code": "not_found", "error": "no resource has this name"})),
    "a review that is over": answers(reply(200, ASKS), reply(200, {"id": REVIEW, "status": "expired"})),
    "a review that is taken back": answers(reply(200, ASKS), reply(200, {"id": REVIEW, "status": "cancelled", "cancelled_by": "suspended"})),
    "a review in another state": answers(reply(200, ASKS), reply(200, {"id": REVIEW, "status": "maybe"})),
    "an approval that is refused": answers(reply(200, ASKS), reply(200, {"id": REVIEW, "status": "approved"}), reply(200, DENY)),
    "an approval after another": answers(reply(200, ASKS), *[reply(200, {"id": REVIEW, "status": "approved"}), reply(200, ASKS)] * 20),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_engine_that_does_not_decide(hook_of, wrong):
    hook, _ = hook_of(WRONG[wrong])
    reason = hook.ask("codex", call("codex")).reason("codex")
    assert "wk_key" not in reason


@pytest.mark.parametrize("agent", AGENTS)
def test_an_engine_that_is_silent_is_waited_for_until_the_deadline(hook_of, agent):
    hook, _ = hook_of(silent)
    assert hook.ask(agent, call(agent), deadline="300ms").reason(agent) == "The engine has not answered in time, or the hook was stopped: the call is denied."


def test_a_slow_engine_has_the_deadline_as_a_whole(hook_of):
    """Each byte comes in time; the answer does not."""
    def drop_by_drop(engine, connection, request):
        for byte in reply(200, ALLOW):
            connection.sendall(bytes([byte]))
            if engine.over.wait(0.05):
                return
    hook, _ = hook_of(drop_by_drop)
    hook.ask("claude", call("claude"), deadline="500ms").reason("claude")


def test_an_engine_that_is_not_there(tmp_path):
    for engine in (f"http://127.0.0.1:{harness.free_port()}", f"unix:{tmp_path}/none", "http://no.such.host.invalid", "ftp://x", "https://127.0.0.1:1"):
        Hook(engine, "wk_key", tmp_path).ask("gemini", call("gemini")).reason("gemini")


def test_a_socket_that_accepts_no_connection(tmp_path):
    path = tmp_path / "engine.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        Hook(f"unix:{path}", "wk_key", tmp_path).ask("gemini", call("gemini")).reason("gemini")


# ---- people ----


WAITS = ("A person has to approve this call, and has not decided yet: Because. "
         f"Review {REVIEW} waits. Ask again with the same call: after an approval it runs.")


@pytest.mark.parametrize("agent", AGENTS)
def test_at_the_deadline_of_a_wait_the_review_is_named(hook_of, agent):
    waiting = threading.Event()

    def behave(engine, connection, request):
        if request.startswith(b"POST /v1/agent/authorize"):
            connection.sendall(reply(200, ASKS))
        else:
            assert request.startswith(f"GET /v1/queue/{REVIEW}/wait?".encode())
            waiting.set()
            silent(engine, connection, request)
    hook, _ = hook_of(behave)
    process = hook.start(agent, call(agent))
    assert waiting.wait(harness.PATIENCE)
    process.send_signal(signal.SIGALRM)  # what the timer sends
    assert hook.end(process).reason(agent) == WAITS


def test_a_wait_outlives_an_engine_that_starts_again(hook_of):
    states = iter(["ask", "close", "503", "pending", "approved", "redeem"])

    def behave(engine, connection, request):
        state = next(states)
        if state == "close":
            connection.close()
        elif state == "503":
            connection.sendall(reply(503, {"code": "shutting_down", "error": "x"}))
        elif state in ("ask", "redeem"):
            connection.sendall(reply(200, ASKS if state == "ask" else ALLOW))
        else:
            connection.sendall(reply(200, {"id": REVIEW, "status": state}))
    hook, engine = hook_of(behave)
    assert hook.ask("claude", call("claude")).is_allow()
    first, last = engine.requests[0], engine.requests[-1]
    assert last.startswith(f"POST /v1/queue/{REVIEW}/redeem HTTP/1.1".encode()) and b"\r\nIdempotency-Key: hook-" in last
    assert first.partition(b"\r\n\r\n")[2] == last.partition(b"\r\n\r\n")[2], "an approval is for exactly this body"


# ---- the hook's own end ----


@pytest.mark.parametrize("number", hooks.SIGNALS, ids=lambda number: number.name)
def test_a_signal_is_a_denial(hook_of, number):
    asked = threading.Event()

    def behave(engine, connection, request):
        asked.set()
        silent(engine, connection, request)
    hook, _ = hook_of(behave)
    process = hook.start("copilot", call("copilot"))
    assert asked.wait(harness.PATIENCE)
    process.send_signal(number)
    hook.end(process).reason("copilot")


def test_a_signal_before_the_call_is_whole_is_a_denial(tmp_path):
    hook = Hook("http://127.0.0.1:1", "wk_key", tmp_path)
    process = subprocess.Popen(hook.command("claude"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=hooks.environment())
    process.stdin.write(b'{"hook_event_name":')
    process.stdin.flush()
    harness.eventually(lambda: is_waiting(process.pid), "it reads its input")
    process.terminate()
    hook.end(process).reason("claude")


def is_waiting(pid):
    """Its handlers are set, and it is in a read of standard input."""
    caught = int(next(line for line in open(f"/proc/{pid}/status") if line.startswith("SigCgt")).split()[1], 16)
    called = open(f"/proc/{pid}/syscall").read().split()
    return caught >> (signal.SIGTERM - 1) & 1 and called[:2] == ["0", "0x0"]


def test_signals_that_the_parent_blocked_are_heard(hook_of):
    hook, _ = hook_of(silent)
    blocked = {signal.SIGTERM, signal.SIGALRM}
    answer = hook.ask("claude", call("claude"), deadline="300ms", preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, blocked))
    assert answer.reason("claude").startswith("The engine has not answered in time")  # the timer's word, not that of the connection


def test_a_closed_pipe_is_status_2(hook_of):
    hook, _ = hook_of(answers(reply(200, ALLOW)))
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(hook.command("claude"), input=json.dumps(call("claude")).encode(), stdout=write, stderr=subprocess.PIPE, env=hooks.environment())
    os.close(write)
    assert done.returncode == 2 and done.stderr == b"writ: the answer could not be written: the call is denied\n"


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_stream_is_no_allow(hook_of, closed):
    hook, _ = hook_of(answers(reply(200, ALLOW)) if closed < 2 else answers(reply(200, DENY)))
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(hook.command("claude"), **streams, env=hooks.environment(), preexec_fn=lambda: os.close(closed))
    out, err = process.communicate(json.dumps(call("claude")).encode())
    assert process.returncode == 2 and out != b"{}"
    if closed == 0:
        Answer(process.returncode, out, err).reason("claude")


def test_a_full_disk_is_no_allow(hook_of):
    """Where standard output is a file that cannot grow."""
    hook, _ = hook_of(answers(reply(200, ALLOW)))
    with open("/dev/full", "wb") as full:
        done = subprocess.run(hook.command("claude"), input=json.dumps(call("claude")).encode(), stdout=full, stderr=subprocess.PIPE, env=hooks.environment())
    assert done.returncode == 2 and done.stderr


def test_no_descriptors_left_is_a_denial(hook_of):
    hook, _ = hook_of(answers(reply(200, ALLOW)))
    answer = hook.ask("claude", call("claude"), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (5, 5)))
    assert "Too many open files" in answer.reason("claude")


# ---- what comes in ----


GOOD = call("claude")
BAD_INPUTS = {
    "nothing": b"", "blanks": b" \n", "a word": b"hello", "a list": b"[]", "null": b"null", "an empty object": b"{}",
    "cut": json.dumps(GOOD).encode()[:-1], "and more": json.dumps(GOOD).encode() + b"{}",
    "another event": json.dumps({**GOOD, "hook_event_name": "PostToolUse"}).encode(),
    "no event": json.dumps({k: v for k, v in GOOD.items() if k != "hook_event_name"}).encode(),
    "no tool": json.dumps({k: v for k, v in GOOD.items() if k != "tool_name"}).encode(),
    "no input": json.dumps({k: v for k, v in GOOD.items() if k != "tool_input"}).encode(),
    "a tool that is empty": json.dumps({**GOOD, "tool_name": ""}).encode(),
    "a tool that is a number": json.dumps({**GOOD, "tool_name": 1}).encode(),
    "a tool with U+0000": json.dumps({**GOOD, "tool_name": "Ba\0sh"}).encode(),
    "a long tool": json.dumps({**GOOD, "tool_name": "x" * 257}).encode(),
    "an input that is a text": json.dumps({**GOOD, "tool_input": json.dumps({"command": "ls"})}).encode(),
    "an input that is null": json.dumps({**GOOD, "tool_input": None}).encode(),
    "a member twice": json.dumps(GOOD).encode()[:-1] + b',"tool_name":"Read"}',
    "half a character": json.dumps({**GOOD, "tool_input": {"command": "\ud800"}}).encode(),
    "no UTF-8": json.dumps(GOOD).encode().replace(b"ls -l", b"ls \xff"),
    "a number beyond all": json.dumps(GOOD).encode().replace(b"1000", b"1e999"),
    "deep": json.dumps(GOOD).encode().replace(b"1000", b"[" * 100 + b"]" * 100),
    "another agent": json.dumps(call("gemini")).encode(),
}


@pytest.mark.parametrize("bad", BAD_INPUTS)
def test_an_input_that_is_not_understood(hook_of, bad):
    hook, engine = hook_of(answers(reply(200, ALLOW)))
    hook.ask("claude", BAD_INPUTS[bad]).reason("claude")
    assert engine.requests == [], "nothing was asked"


def test_an_input_without_bound_is_a_denial(hook_of):
    hook, engine = hook_of(answers(reply(200, ALLOW)))
    assert "larger than 128 MiB" in hook.ask("claude", b'{"a":"' + b"x" * (130 << 20)).reason("claude")


def test_a_denial_does_not_wait_for_what_is_not_read(tmp_path):
    hook = Hook("http://127.0.0.1:1", "wk_key", tmp_path)
    hook.key_file.chmod(0o644)
    assert "chmod 600" in hook.ask("claude", call("claude", args={"command": "x" * 5_000_000})).reason("claude")


# ---- the command line ----


@pytest.mark.parametrize("line", [[], ["--engine", "http://127.0.0.1:1"], ["nosuch"], ["claude"], ["claude", "--engine", "http://127.0.0.1:1"], ["claude", "gemini"],
                                  ["claude", "--egine", "x"], ["claude", "--engine"], ["claude", "--deadline", "soon"], ["claude", "-x"]], ids=" ".join)
def test_a_command_line_that_is_wrong_denies(line):
    done = subprocess.run([hooks.HOOK, *line], input=b"{}", capture_output=True, env=hooks.environment())
    answer = Answer(done.returncode, done.stdout, done.stderr)
    if line[:1] == ["claude"]:
        answer.reason("claude")
    else:
        assert answer.status == 2 and answer.out == "" and answer.err.startswith("writ: ")


@pytest.mark.parametrize("content", [None, "", "\n", "wk_a\nwk_b\n", "x" * 5000], ids=["none", "empty", "a line end", "two lines", "long"])
def test_a_key_file_that_is_wrong_denies(tmp_path, content):
    hook = Hook("http://127.0.0.1:1", "wk_key", tmp_path)
    hook.key_file.write_text(content) if content is not None else hook.key_file.unlink()
    assert str(hook.key_file) in hook.ask("claude", call("claude")).reason("claude")


def test_a_reason_stays_one_short_line(hook_of):
    """Two megabytes made an agent drop its history; a line end would be a second line."""
    hook, _ = hook_of(answers(reply(200, {**DENY, "reason": "a\nb\u001b[31m" + "é" * 100_000})))
    reason = hook.ask("copilot", call("copilot")).reason("copilot")
    assert reason.startswith("a b [31méé") and len(reason.encode()) <= 1200 and reason.endswith("trace trace-1)")
