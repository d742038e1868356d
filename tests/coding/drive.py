#!/usr/bin/env python3
"""Runs a real coding agent once, without a network, against the model of model.py.

    drive.py SPECIFICATION.json     {"agent": "claude", "program": PATH, "home": FOLDER, "project": FOLDER, "turns": [[[TOOL, ARGUMENTS], ...], ...],
                                     "seconds": 60, "arguments": [...]}

It prints one JSON object: the agent's exit status (null: it was ended after `seconds`), what the model was told about the calls, whether
its last request has the word NOTED, the end of the agent's output, and how long it took. The agent is in a network namespace of its own, so only files and Unix sockets reach it.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

INSIDE = "CODING_AGENT_INSIDE"


def command(agent, program, port, home):
    """(command line, environment) of one turn without a person."""
    url = f"http://127.0.0.1:{port}"
    if agent == "claude":
        return ([program, "-p", "go", "--model", "claude-sonnet-4-5", "--allowedTools", "Bash,Write,Edit,Read"],
                {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
                 "ENABLE_TOOL_SEARCH": "false"})
    if agent == "codex":
        config, kept = (pathlib.Path(home, ".codex", name) for name in ("config.toml", "trust.toml"))
        config.parent.mkdir(exist_ok=True)
        if not kept.exists():  # what the installation wrote
            kept.write_text(config.read_text() if config.exists() else "")
        trusted = kept.read_text()
        config.write_text(f'''model = "gpt-5.5"
model_provider = "local"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[analytics]
enabled = false
[model_providers.local]
name = "local"
base_url = "{url}/v1"
wire_api = "responses"
{trusted}''')
        return [program, "exec", "--skip-git-repo-check", "go"], {}
    if agent == "gemini":
        return ([program, "-p", "go", "-m", "gemini-2.5-pro", "--yolo"],
                {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "none", "GEMINI_CLI_TRUST_WORKSPACE": "true"})
    return ([program, "-p", "go", "--allow-all"],
            {"COPILOT_PROVIDER_BASE_URL": f"{url}/v1", "COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_API_KEY": "none", "COPILOT_MODEL": "mock",
             "COPILOT_OFFLINE": "true", "COPILOT_AUTO_UPDATE": "false"})


def main():
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        as_root = [] if os.getuid() == 0 else ["-r"]
        os.execvp("unshare", ["unshare", *as_root, "-n", "sh", "-c", 'ip link set lo up && exec "$0" "$@"', sys.executable, *sys.argv])
    from model import Model

    wanted = json.loads(pathlib.Path(sys.argv[1]).read_text())
    model = Model(wanted["turns"])
    home = wanted["home"]
    line, environment = command(wanted["agent"], wanted["program"], model.port, home)
    start = time.monotonic()
    output = pathlib.Path(home, "output")
    with open(output, "wb") as out:
        process = subprocess.Popen([*line, *wanted.get("arguments", [])], cwd=wanted["project"], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                   env={"PATH": os.environ["PATH"], "HOME": home, "TERM": "dumb", "TMPDIR": wanted["tmp"], **environment}, start_new_session=True)
        try:
            status = process.wait(wanted["seconds"])
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            status = None
    print(json.dumps({"status": status, "told": model.told, "noted": "NOTED" in model.last, "output": output.read_text(errors="replace")[-2000:], "seconds": time.monotonic() - start}))


if __name__ == "__main__":
    main()
