"""The example agents of clients/typescript/examples, with the real frameworks and the real engine. The model is scripted.

The frameworks are installed into build/clients/agents, in the versions of the examples' package-lock.json. Only `ops/test --long`
runs this: it installs 230 MB.
"""

import filecmp
import functools
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "clients"), str(TESTS / "e2e")]

import harness  # noqa: E402
import node  # noqa: E402

WORK = node.TOP / "build" / "clients" / "agents"
EXAMPLES = ["vercel", "vercel-6", "openai-agents", "langchain", "mcp"]
GLUE_MAX = 5
PATIENCE = 60

pytestmark = pytest.mark.skipif(node.version() < 20 or shutil.which("npm") is None, reason="SKIP: the agents need Node.js 20 or newer, and npm")

POLICY = """
roles: {finance: [carol]}
rules:
  - {id: small, agents: [invoice_bot], actions: [issue_refund], when: args.amount <= 500, decision: allow}
  - {id: large, agents: [invoice_bot], actions: [issue_refund], when: args.amount > 500, decision: human_review, reason: Refunds over 500 need finance., review: {by: [finance]}}
  - {id: never-drop, actions: ["drop_*"], decision: deny, reason: Nothing is dropped here.}
  - {id: sandbox, agents: ["*"], actions: [write_orders], decision: compute, compute: {tool: write_file, args: {path: /sandbox/orders, sandboxed: true}}}
"""


class Model(http.server.ThreadingHTTPServer):
    """A model that makes one call, and then ends; `results` is what it read about the call."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.call, self.results = None, []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        results = [message["content"] for message in asked["messages"] if message["role"] == "tool"]
        self.server.results += [part if isinstance(part, str) else json.dumps(part) for part in results]
        if results:
            message, reason = {"role": "assistant", "content": "done"}, "stop"
        else:
            tool, args = self.server.call
            call = {"id": "call_1", "type": "function", "function": {"name": tool, "arguments": json.dumps(args)}}
            message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
        body = json.dumps({"id": f"answer-{len(results)}", "object": "chat.completion", "created": 1, "model": asked["model"],
                           "choices": [{"index": 0, "message": message, "finish_reason": reason}],
                           "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@functools.cache
def install():
    """The examples, compiled as strictly as the client, beside the frameworks."""
    WORK.mkdir(parents=True, exist_ok=True)
    for name in ("dist", "src"):
        shutil.rmtree(WORK / name, ignore_errors=True)
        shutil.copytree(node.CLIENT / name, WORK / name)
    for name in ("package.json", "tsconfig.json"):
        shutil.copy(node.CLIENT / name, WORK)
    here = WORK / "examples"
    here.mkdir(exist_ok=True)
    lock = node.CLIENT / "examples" / "package-lock.json"
    is_installed = (here / "pins").exists() and filecmp.cmp(lock, here / "pins", shallow=False)
    for old in here.glob("*.ts"):
        old.unlink()
    for path in (node.CLIENT / "examples").iterdir():
        if path.is_file():
            shutil.copy(path, here)
    old = (here / "vercel.ts").read_text()  # the same agent with version 6
    (here / "vercel-6.ts").write_text(old.replace('from "ai"', 'from "ai-6"').replace('"@ai-sdk/openai-compatible"', '"ai-6-openai-compatible"'))
    if not is_installed:
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=here, check=True, capture_output=True, timeout=1200)
        shutil.copy(lock, here / "pins")
    done = subprocess.run(["node_modules/.bin/tsc", "-p", "."], cwd=here, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    return here


class Agent:
    """One example, running."""

    def __init__(self, rig, name, tool, args, url=None, **environment):
        self.rig, self.name, self.call = rig, name, (tool, args)
        rig.model.call, rig.model.results = self.call, []
        self.folder = rig.folder / f"{len(list(rig.folder.iterdir()))}"
        self.folder.mkdir()
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "WRIT_ENGINE_URL": url or rig.stack.engine.url, "WRIT_KEY": rig.stack.keys["bot"],
                       "MODEL_URL": rig.model.url, **environment}
        self.process = subprocess.Popen(["node", rig.build / f"{name}.js"], cwd=self.folder, env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if name == "mcp":
            self._call_tool()

    def _call_tool(self):
        def send(**members):
            self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **members}) + "\n")
            self.process.stdin.flush()

        send(id=1, method="initialize", params={"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}})
        json.loads(self.process.stdout.readline())
        send(method="notifications/initialized")
        send(id=2, method="tools/call", params={"name": self.call[0], "arguments": self.call[1]})

    def end(self):
        """(what ran, what the model read about it)"""
        if self.name == "mcp":
            result = json.loads(self.process.stdout.readline())["result"]
            self.process.stdin.close()
            assert result.get("isError", False) is (self.ledger() == [])
            seen = result["content"][0]["text"]
        else:
            out, error = self.process.communicate(timeout=PATIENCE)
            assert (self.process.returncode, out.strip()) == (0, "done"), out + error
            assert len(self.rig.model.results) == 1
            seen = self.rig.model.results[0]
        self.process.wait(PATIENCE)
        return self.ledger(), seen

    def ledger(self):
        path = self.folder / "ledger.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def kill(self):
        self.process.kill()
        self.process.wait()


class Rig:
    def __init__(self, stack, folder, build):
        self.stack, self.folder, self.build, self.model = stack, folder, build, Model()

    def agent(self, *arguments, **environment):
        return Agent(self, *arguments, **environment)

    def review(self, amount):
        """The pending review of a refund of this amount."""
        def found():
            with self.stack.at_engine("carol") as wire:
                items = wire.get("/v1/queue/pending?limit=500").json["items"]
            return [item["id"] for item in items if item["args"]["amount"] == amount]
        return harness.eventually(found, f"a review of {amount}")[0]

    def resolve(self, review, verb="approve"):
        with self.stack.at_engine("carol") as wire:
            reply = wire.post(f"/v1/queue/{review}/{verb}", {"resolved_by": "carol"})
        assert reply.status == 200, reply


@pytest.fixture(scope="module")
def rig(tmp_path_factory):
    with harness.Stack() as stack:
        stack.policy("payments", POLICY)
        stack.keys["bot"] = stack.key("invoice_bot", ["agent"])
        stack.keys["carol"] = stack.key("reviewers", ["reviewer"], owner="carol", reviewers=["carol"])
        yield Rig(stack, tmp_path_factory.mktemp("agents"), install() / "build")


@pytest.fixture(params=EXAMPLES)
def example(request):
    return request.param


def amount(example, base):
    """An amount of its own for each example, so that no two share a review."""
    return base + EXAMPLES.index(example)


def test_what_the_engine_allows_runs(rig, example):
    ran, seen = rig.agent(example, "issue_refund", {"amount": 20}).end()
    assert ran == [{"tool": "issue_refund", "args": {"amount": 20}}] and "issue_refund is done" in seen


def test_what_the_engine_denies_does_not_run_and_the_model_reads_why(rig, example):
    ran, seen = rig.agent(example, "drop_table", {"table": "orders"}).end()
    assert ran == [] and "Nothing is dropped here." in seen


def test_a_compute_runs_the_safe_call(rig, example):
    ran, seen = rig.agent(example, "write_orders", {"path": "/etc/passwd"}).end()
    assert ran == [{"tool": "write_file", "args": {"path": "/sandbox/orders", "sandboxed": True}}] and "write_file is done" in seen


def test_a_person_approves_and_the_agent_goes_on(rig, example):
    agent = rig.agent(example, "issue_refund", {"amount": amount(example, 1000)})
    rig.resolve(rig.review(amount(example, 1000)))
    ran, seen = agent.end()
    assert ran == [{"tool": "issue_refund", "args": {"amount": amount(example, 1000)}}] and "issue_refund is done" in seen


def test_the_ids_of_the_framework_are_in_the_record(rig, example):
    rig.agent(example, "issue_refund", {"amount": amount(example, 100)}).end()

    def recorded():
        return [event for event in rig.stack.events(actor="invoice_bot") if event.get("args") == {"amount": amount(example, 100)}]
    event = harness.eventually(recorded, "the record of the call")[0]
    assert event["tool_call_id"] == ("2" if example == "mcp" else "call_1")  # of the JSON-RPC request
    assert event.get("conversation_id") == ("refunds-7" if example == "langchain" else None)


def test_a_person_refuses(rig, example):
    agent = rig.agent(example, "issue_refund", {"amount": amount(example, 2000)})
    rig.resolve(rig.review(amount(example, 2000)), "deny")
    ran, seen = agent.end()
    assert ran == [] and "denied" in seen


def test_nothing_runs_while_the_engine_is_away(rig, example):
    ran, seen = rig.agent(example, "issue_refund", {"amount": 20}, url=f"http://127.0.0.1:{harness.free_port()}").end()
    assert ran == [] and "The engine is away" in seen


def test_an_approval_survives_the_agent_and_holds_for_no_other_arguments(rig, example):
    """The agent ends while it waits. After the approval, another one asks for more, and one for the same."""
    approved, swapped = amount(example, 3000), amount(example, 4000)
    first = rig.agent(example, "issue_refund", {"amount": approved})
    review = rig.review(approved)
    first.kill()
    rig.resolve(review)
    thief = rig.agent(example, "issue_refund", {"amount": swapped})
    rig.resolve(rig.review(swapped), "deny")  # a person is asked again
    assert thief.end()[0] == []
    ran, _ = rig.agent(example, "issue_refund", {"amount": approved}).end()
    assert ran == [{"tool": "issue_refund", "args": {"amount": approved}}]


def test_the_client_passes_on_deno():
    """All cases of the vectors."""
    done = subprocess.run([install() / "node_modules" / ".bin" / "deno", "run", "--allow-all", node.CLIENT / "test" / "vectors.mjs"], capture_output=True,
                          text=True, timeout=300, env={**os.environ, "PYTHON": sys.executable})
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    cases = json.loads((node.TOP / "schemas" / "client-vectors.json").read_text())["cases"]
    assert len(lines) == len(cases), done.stderr
    assert [line for line in lines if line["problems"]] == []


@pytest.mark.parametrize("name", ["vercel", "openai-agents", "langchain", "mcp"])
def test_the_glue_has_few_lines(name):
    lines = (node.CLIENT / "examples" / f"{name}.ts").read_text().splitlines()
    glue = [line for line in lines if line.endswith("// writ")]
    assert 0 < len(glue) <= GLUE_MAX, glue
    assert [line for line in lines if re.search(r"\bwrit\b|gate", line) and line not in glue and not line.startswith("/*")] == []
