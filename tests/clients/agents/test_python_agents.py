"""The example agents of clients/python, each with its framework, a model of this machine and the real engine.

The frameworks are installed into build/clients/frameworks, in the versions of requirements-frameworks.txt. Only `ops/test --long`
runs this: it installs 340 MB.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

TOP = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(TOP / "tests" / "e2e"))

import harness  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parents[1]
CLIENT = TOP / "clients" / "python"
EXAMPLES = CLIENT / "examples"
FRAMEWORKS = TOP / "build" / "clients" / "frameworks"
PYTHON = FRAMEWORKS / "bin" / "python"
PINS = CLIENT / "tests" / "requirements-frameworks.txt"
PATIENCE = 180

# How an agent is started: the words before its prompt, and those after it. An MCP server gets an agent as its client.
AGENTS = {
    "langgraph_agent": ([EXAMPLES / "langgraph_agent.py"], []),
    "openai_agent": ([EXAMPLES / "openai_agent.py"], []),
    "pydantic_ai_agent": ([EXAMPLES / "pydantic_ai_agent.py"], []),
    "fastmcp_server": ([HERE / "mcp_agent.py"], [PYTHON, EXAMPLES / "fastmcp_server.py"]),
    "mcp_server": ([HERE / "mcp_agent.py"], [PYTHON, EXAMPLES / "mcp_server.py"]),
}
GLUE_MAX = 5
NAMES_CONVERSATIONS = ("langgraph_agent", "openai_agent", "pydantic_ai_agent")
MCP = ("fastmcp_server", "mcp_server")  # the id of a call is that of its JSON-RPC request


@pytest.fixture(scope="module", autouse=True)
def frameworks():
    """Makes build/clients/frameworks."""
    pins = FRAMEWORKS / "pins"
    if pins.exists() and pins.read_text() == PINS.read_text():
        return
    FRAMEWORKS.parent.mkdir(parents=True, exist_ok=True)
    with open(FRAMEWORKS.with_suffix(".log"), "w") as log:
        for command in (["/usr/bin/python3", "-m", "venv", "--clear", FRAMEWORKS], [PYTHON, "-m", "pip", "install", "-r", PINS]):
            assert subprocess.run(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL).returncode == 0, "see build/clients/frameworks.log"
    pins.write_text(PINS.read_text())


@pytest.fixture(scope="module")
def stack():
    with harness.Stack() as running:
        running.policy("examples", (EXAMPLES / "policy.yaml").read_text())
        running.keys["reviewer"] = running.key("reviewers", ["reviewer"], reviewers=["*"])
        yield running


@pytest.fixture(scope="module")
def model():
    process = subprocess.Popen([sys.executable, HERE / "mock_model.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield json.loads(process.stdout.readline())["url"]
    process.stdin.close()
    process.wait()


class Agent:
    """One example agent in a folder of its own."""

    def __init__(self, name, stack, model, folder):
        self.before, self.after = AGENTS[name]
        self.stack, self.model, self.folder, self.name = stack, model, folder, name

    def start(self, calls, wait=60, engine=None):
        environment = {**os.environ, "PYTHONPATH": f"{CLIENT}:{EXAMPLES}", "OPENAI_BASE_URL": self.model, "OPENAI_API_KEY": "none",
                       "WRIT_ENGINE_URL": engine or self.stack.engine.url, "WRIT_KEY": self.stack.keys["agent"]}
        return subprocess.Popen([PYTHON, *self.before, json.dumps(calls), *self.after, str(wait)], cwd=self.folder, env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(self, process):
        """What it printed."""
        out, error = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0 and "done" in out, out + error
        return out

    def run(self, calls, **options):
        return self.end(self.start(calls, **options))

    def ran(self):
        """The calls that its tools recorded, by now."""
        file = self.folder / "ran.txt"
        return file.read_text().splitlines() if file.exists() else []

    def approve(self, amount):
        """A person approves the refund of this amount, once it is asked for."""
        with self.stack.at_engine("reviewer") as wire:
            def found():
                page = wire.get(f"/v1/queue/pending?limit=500&actor={self.name}").json
                return [item for item in page["items"] if item["args"]["amount"] == amount]
            review = harness.eventually(found, f"a review of {amount}", PATIENCE)[0]["id"]
            reply = wire.post(f"/v1/queue/{review}/approve", {"resolved_by": "rita"})
            assert reply.status == 200, reply


@pytest.fixture(params=AGENTS)
def agent(request, stack, model, tmp_path):
    return Agent(request.param, stack, model, tmp_path)


def test_allow_deny_and_compute(agent):
    out = agent.run([["issue_refund", {"amount": 20}], ["delete_customer", {"name": "ann"}], ["write_orders_prod", {"path": "orders/17"}]])
    assert agent.ran() == ['issue_refund {"amount": 20}', 'write_file {"path": "/sandbox/orders/17"}']
    assert "Not run: Customers are deleted by people." in out


def test_the_ids_of_the_framework_are_in_the_record(agent):
    agent.run([["issue_refund", {"amount": 21}], ["issue_refund", {"amount": 22}]])

    def recorded():
        events = agent.stack.events(actor=agent.name)
        return [event for amount in (21, 22) for event in events if event.get("args") == {"amount": amount}]
    events = harness.eventually(lambda: len(recorded()) == 2 and recorded(), "the records of two calls")
    calls = [event["tool_call_id"] for event in events]
    if agent.name in MCP:
        assert all(call.isdigit() for call in calls) and int(calls[0]) < int(calls[1]), calls
    else:
        assert calls == ["call_0", "call_1"]
    assert len({event.get("conversation_id") for event in events}) == 1, events
    assert events[0].get("conversation_id") if agent.name in NAMES_CONVERSATIONS else "conversation_id" not in events[0]


def test_a_person_approves_and_it_continues(agent):
    process = agent.start([["issue_refund", {"amount": 620}]])
    agent.approve(620)
    agent.end(process)
    assert agent.ran() == ['issue_refund {"amount": 620}']


def test_arguments_swapped_after_the_approval_do_not_run(agent):
    out = agent.run([["issue_refund", {"amount": 501}]], wait=0.2)
    assert "A person has not decided yet" in out and agent.ran() == []
    agent.approve(501)
    out = agent.run([["issue_refund", {"amount": 9501}], ["issue_refund", {"amount": 501}], ["issue_refund", {"amount": 501}]], wait=0.2)
    assert agent.ran() == ['issue_refund {"amount": 501}'], out
    assert out.count("A person has not decided yet") == 2, "the swapped call, and the one whose approval was used"


def test_without_an_engine_nothing_runs(agent):
    out = agent.run([["issue_refund", {"amount": 20}], ["delete_customer", {"name": "ann"}]], engine=f"http://127.0.0.1:{harness.free_port()}")
    assert agent.ran() == [] and out.count("Not run: ") == 2


@pytest.mark.parametrize("name", AGENTS)
def test_the_glue_is_short(name):
    """What an example has for writ is marked, so that it can be counted; each import of the library is."""
    lines = (EXAMPLES / f"{name}.py").read_text().splitlines()
    assert 1 <= sum(line.endswith("# writ") for line in lines) <= GLUE_MAX
    assert all(line.endswith("# writ") for line in lines if "writ_client" in line)


def test_the_python_examples_have_types():
    done = subprocess.run([PYTHON, "-m", "mypy", "--strict", "--cache-dir", FRAMEWORKS / "mypy", *sorted(EXAMPLES.glob("*.py"))], cwd=EXAMPLES, capture_output=True, text=True,
                          env={**os.environ, "MYPYPATH": str(CLIENT)})
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_fresh_environment_gets_its_first_decision(tmp_path):
    """Exactly what the guide says, from a copy of the checkout."""
    shutil.copytree(CLIENT, tmp_path / "clients" / "python", ignore=shutil.ignore_patterns("__pycache__"))
    for command in (["/usr/bin/python3", "-m", "venv", "agent"], ["agent/bin/pip", "install", "-q", "./clients/python"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
    with harness.Stack() as stack:
        stack.policy("examples", (CLIENT / "examples" / "policy.yaml").read_text())
        def ask(amount):
            environment = {"PATH": os.environ["PATH"], "WRIT_ENGINE_URL": stack.engine.url, "WRIT_KEY": stack.keys["agent"]}
            return subprocess.run([tmp_path / "agent" / "bin" / "python", tmp_path / "clients" / "python" / "examples" / "plain_agent.py", str(amount)],
                                  cwd=tmp_path, capture_output=True, text=True, env=environment)
        assert ask(20).stdout == "refunded 20\n"
        stack.engine.kill()
        assert (ask(20).returncode, ask(20).stdout) == (1, "")
