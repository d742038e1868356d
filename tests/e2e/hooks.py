"""The hook of coding agents, started as an agent starts it: a call on its standard input, an answer from it.

CALLS has for each agent what it was seen to write (tests/clients/coding), or what its documents show.
"""

import json
import os
import signal
import socket
import subprocess
import threading

import harness

HOOK = harness.BIN / "writ-hook"
AGENTS = ["claude", "codex", "gemini", "copilot", "cursor", "vscode", "openclaw"]
SHELL = {"claude": "Bash", "codex": "Bash", "gemini": "run_shell_command", "copilot": "bash", "cursor": "Shell", "vscode": "runTerminalCommand",
         "openclaw": "exec"}
# members that explain the call, which no approval is bound to
ASIDE = {"claude": {"description": "list files", "timeout": 1000}, "gemini": {"description": "list files"},
         "copilot": {"description": "list files"}, "cursor": {"description": "list files"}, "vscode": {"explanation": "list files"}, "openclaw": {"timeout": 9}}
CAN_GRANT = {"claude", "copilot", "cursor", "vscode"}
NEEDS_GRANT = {"codex", "cursor", "vscode"}  # to pass a safe call on


def call(agent, tool=None, args=None, call_id="call-1", session="session-1", cwd="/srv/project"):
    """What the agent writes to its hook before this call."""
    tool = tool or SHELL[agent]
    args = {"command": "ls -l", **ASIDE.get(agent, {})} if args is None else args
    if agent in ("claude", "codex"):
        more = {"turn_id": "turn-1", "model": "gpt", "permission_mode": "bypassPermissions"} if agent == "codex" else \
               {"prompt_id": "prompt-1", "permission_mode": "default"}
        return {"session_id": session, "transcript_path": "/srv/t.jsonl", "cwd": cwd, "hook_event_name": "PreToolUse", **more, "tool_name": tool,
                "tool_input": args, "tool_use_id": call_id}
    if agent == "gemini":
        return {"session_id": session, "transcript_path": "/srv/t.json", "cwd": cwd, "hook_event_name": "BeforeTool",
                "timestamp": "2026-11-26T10:00:00.000Z", "tool_name": tool, "tool_input": args}
    if agent == "copilot":
        return {"sessionId": session, "timestamp": 1790000000000, "cwd": cwd, "toolName": tool, "toolArgs": args}
    if agent == "cursor":
        return {"conversation_id": session, "generation_id": "generation-1", "hook_event_name": "preToolUse", "workspace_roots": [cwd], "cwd": cwd,
                "tool_name": tool, "tool_input": args, "tool_use_id": call_id}
    if agent == "vscode":
        return {"timestamp": "2026-11-26T10:00:00.000Z", "cwd": cwd, "sessionId": session, "hookEventName": "PreToolUse", "tool_name": tool,
                "tool_input": args, "tool_use_id": call_id}
    return {"toolName": tool, "params": args, "toolCallId": call_id, "sessionId": session, "cwd": cwd}


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def denial(agent, reason):
    """The bytes that deny a call of this agent."""
    if agent in ("claude", "codex", "vscode"):
        return compact({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason}})
    return compact({"gemini": {"decision": "deny", "reason": reason},
                    "copilot": {"permissionDecision": "deny", "permissionDecisionReason": reason},
                    "cursor": {"permission": "deny", "agent_message": reason, "user_message": reason},
                    "openclaw": {"block": True, "blockReason": reason}}[agent])


def grant(agent):
    if agent in ("claude", "vscode"):
        return compact({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}})
    return compact({"copilot": {"permissionDecision": "allow"}, "cursor": {"permission": "allow"}}[agent])


def rewrite(agent, args):
    """The bytes by which this agent runs another input."""
    word = {"permissionDecision": "allow"} if agent in NEEDS_GRANT else {}
    if agent in ("claude", "codex", "vscode"):
        return compact({"hookSpecificOutput": {"hookEventName": "PreToolUse", **word, "updatedInput": args}})
    return compact({"gemini": {"hookSpecificOutput": {"hookEventName": "BeforeTool", "tool_input": args}}, "copilot": {"modifiedArgs": args},
                    "cursor": {"permission": "allow", "updated_input": args}, "openclaw": {"params": args}}[agent])


class Answer:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out.decode(), err.decode()

    def __repr__(self):
        return f"<{self.status} {self.out[:600]!r} {self.err[-600:]!r}>"

    def reason(self, agent):
        """Of a denial in all its forms; nothing else was printed."""
        reason = self.err.removeprefix("writ: ").removesuffix("\n")
        assert self.status == 2 and reason and "\n" not in reason and self.out == denial(agent, reason), self
        return reason

    def is_allow(self):
        return (self.status, self.out, self.err) == (0, "{}", "")


def environment(**more):
    return {**{key: value for key, value in os.environ.items() if not key.startswith("WRIT_")}, **more}


class Hook:
    """`writ-hook` with an engine and a key."""

    def __init__(self, engine, key, folder):
        self.engine, self.key_file = engine, folder / "hook.key"
        self.key_file.write_text(key + "\n")
        self.key_file.chmod(0o600)

    def command(self, agent, *options, deadline="60s"):
        return [str(word) for word in (HOOK, agent, "--engine", self.engine, "--key-file", self.key_file, "--deadline", deadline, *options)]

    def start(self, agent, text, *options, deadline="60s", **more):
        """A running hook that has its call."""
        text = text if isinstance(text, bytes) else json.dumps(text).encode()
        process = subprocess.Popen(self.command(agent, *options, deadline=deadline), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=environment(), **more)
        threading.Thread(target=self.feed, args=(process, text), daemon=True).start()
        return process

    @staticmethod
    def feed(process, text):
        try:
            with process.stdin as pipe:
                pipe.write(text)
        except BrokenPipeError:
            pass  # it has answered already

    @staticmethod
    def end(process):
        out, err = process.stdout.read(), process.stderr.read()
        return Answer(process.wait(harness.PATIENCE), out, err)

    def ask(self, agent, text, *options, **more):
        return self.end(self.start(agent, text, *options, **more))


class FakeEngine:
    """Listens on a port of loopback, or a Unix socket, and does what `behave` does with each request: behave(engine, socket, bytes)."""

    def __init__(self, behave, path=None):
        self.behave, self.requests = behave, []
        self.listener = socket.create_server(path or ("127.0.0.1", 0), family=socket.AF_UNIX if path else socket.AF_INET)
        self.url = f"unix:{path}" if path else "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.over = threading.Event()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(connection,), daemon=True).start()

    def one(self, connection):
        with connection:
            try:
                while request := self.read(connection):
                    self.requests.append(request)
                    self.behave(self, connection, request)
            except OSError:
                pass

    @staticmethod
    def read(connection):
        data = b""
        while b"\r\n\r\n" not in data:
            more = connection.recv(65536)
            if not more:
                return None
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        size = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
        while len(body) < size:
            more = connection.recv(65536)
            if not more:
                return None
            body += more
        return head + b"\r\n\r\n" + body

    def close(self):
        self.over.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def reply(status=200, body=b"{}", length=None):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body) if length is None else length) + body


SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM, signal.SIGUSR1, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS,
           signal.SIGFPE, signal.SIGXCPU]
