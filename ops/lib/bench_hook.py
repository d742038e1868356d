"""The row hook of ops/bench: what a coding agent waits for before each tool call.

A process is started for each call, with the call on its standard input, and is waited for. All runs take
turns, so that a slow moment of the machine hits each of them.

  true        /bin/true: what starting any process costs here
  start       writ-hook --version: its own start, without a call
  hook        writ-hook, which asks the engine (one reactor, durability written, on core 0)
  guarded     the same in the shell line that writ-hook --install writes
  curl        sh and curl, which post the same request to the same engine

The goal is p99 of `hook` at most 5 ms. It is printed and decides nothing: a machine that others use can
miss it.
"""

import json
import os
import subprocess
import time

import harness

ROWS = ("hook",)
CALLS, QUICK_CALLS = 1000, 50
GOAL_MS = 5

POLICY = 'rules: [{id: shell, agents: [coder], actions: [Bash], when: "args.command == \'ls -l\'", decision: allow}]'
CALL = {"session_id": "s", "transcript_path": "/srv/t.jsonl", "cwd": "/srv/project", "permission_mode": "default", "hook_event_name": "PreToolUse",
        "tool_name": "Bash", "tool_input": {"command": "ls -l", "description": "list files"}, "tool_use_id": "t"}
REQUEST = {"action": "Bash", "actor": "coder", "args": {"command": "ls -l"}, "context": {"agent": "claude", "cwd": "/srv/project"}}


def commands(stack, folder):
    """{name: (words, what is on standard input)}"""
    hook, engine, key_file = str(harness.BIN / "writ-hook"), stack.engine.url, str(folder / "hook.key")
    options = ["--engine", engine, "--key-file", key_file, "--actor", "coder"]
    settings = subprocess.run([hook, "claude", "--print", *options], capture_output=True, text=True, check=True).stdout
    line = json.loads(settings)["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    curl = f'curl -s -m 25 -H "Authorization: Bearer $(cat {key_file})" -H "Content-Type: application/json" -d @- {engine}/v1/agent/authorize'
    return {"true": (["/bin/true"], b""), "start": ([hook, "--version"], b""), "hook": ([hook, "claude", *options], json.dumps(CALL).encode()),
            "guarded": (["/bin/sh", "-c", line], json.dumps(CALL).encode()), "curl": (["/bin/sh", "-c", curl], json.dumps(REQUEST).encode())}


def one(words, stdin, stdout):
    """Seconds from the start of a process to its end."""
    os.lseek(stdin, 0, os.SEEK_SET)
    os.ftruncate(stdout, 0)
    os.lseek(stdout, 0, os.SEEK_SET)
    start = time.perf_counter()
    pid = os.posix_spawn(words[0], words, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, stdout, 1)])
    _, status = os.waitpid(pid, 0)
    took = time.perf_counter() - start
    return took, os.waitstatus_to_exitcode(status)


def measure(bench, wanted, tools):
    if not wanted:
        return []
    calls = QUICK_CALLS if bench.options.quick else CALLS
    stack = bench.start("written")
    try:
        stack.policy("hook", POLICY)
        key_file = stack.folder / "hook.key"
        key_file.write_text(stack.key("hook", ["agent"], actors=["coder"]))
        key_file.chmod(0o600)
        runs = commands(stack, stack.folder)
        streams = {}
        for name, (_, text) in runs.items():
            (stack.folder / f"{name}.in").write_bytes(text)
            streams[name] = (os.open(stack.folder / f"{name}.in", os.O_RDONLY), os.open(stack.folder / f"{name}.out", os.O_RDWR | os.O_CREAT, 0o600))
        times = {name: [] for name in runs}
        for turn in range(calls + 5):
            for name, (words, _) in runs.items():
                took, status = one(words, *streams[name])
                answer = os.pread(streams[name][1], 4096, 0)
                if status != 0 or name in ("hook", "guarded") and answer != b"{}" or name == "curl" and b'"decision":"allow"' not in answer:
                    tools.fail(f"{name} ended with {status}: {answer[:300]}")
                if turn >= 5:
                    times[name].append(took)
        stack.engine.stop()
        stack.platform.stop()
    finally:
        stack.close()
    figures = {}
    for name, taken in times.items():
        taken.sort()
        figures[name] = {"p50_ms": round(1000 * taken[len(taken) // 2], 2), "p99_ms": round(1000 * taken[int(len(taken) * 0.99)], 2)}
    return [{"name": "hook", "calls": calls, "runs": figures, "goal": f"p99 of hook <= {GOAL_MS} ms", "goal_met": None,
             "kept": figures["hook"]["p99_ms"] <= GOAL_MS}]


def print_table(rows):
    for row in rows:
        print(f"\n{row['name']}: {row['calls']} calls of a coding agent; goal, not a gate: {row['goal']}: {'kept' if row['kept'] else 'missed'}")
        print(f"{'run':<10}{'p50 ms':>9}{'p99 ms':>9}")
        for name, run in row["runs"].items():
            print(f"{name:<10}{run['p50_ms']:>9.2f}{run['p99_ms']:>9.2f}")
