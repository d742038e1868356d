"""clients/python against the real programs: many agents in one process while the engine is killed and started again."""

import json
import os
import pathlib
import subprocess
import threading

import harness
import pytest
from wire import Closed

TOP = pathlib.Path(__file__).resolve().parents[2]
TESTS = TOP / "clients" / "python" / "tests"
PYTHON = TOP / "build" / "clients" / "python" / "bin" / "python"
AGENTS, KILLS = (1000, 5) if harness.LONG else (60, 2)
CALLS = 5  # of each agent, in crowd.py

pytestmark = pytest.mark.skipif(not (PYTHON.parents[1] / "pins").exists(), reason="SKIP: build/clients/python is missing; run ops/setup test")

POLICY = """
rules:
  - {id: reads, agents: ["agent-*"], actions: ["get_*"], decision: allow}
  - {id: refunds, agents: ["agent-*"], actions: [issue_refund], decision: human_review}
  - {id: drops, actions: ["drop_*"], decision: deny}
  - {id: sandbox, agents: ["agent-*"], actions: ["write_*_prod"], decision: compute, compute: {tool: write_file, args: {path: /sandbox/orders, order: '${args.order}'}}}
"""


class Reviewer(threading.Thread):
    """A person who approves and denies, also while the engine goes away."""

    def __init__(self, stack, key):
        super().__init__(daemon=True)
        self.stack, self.key, self.over, self.faults = stack, key, threading.Event(), []

    def run(self):
        while not self.over.is_set():
            try:
                with self.stack.at_engine(self.key, timeout=5) as wire:
                    self.decide(wire)
            except (Closed, OSError):
                self.over.wait(0.02)

    def decide(self, wire):
        while not self.over.is_set():
            page = wire.get("/v1/queue/pending?limit=500")
            if page.status != 200:
                self.over.wait(0.02)
                continue
            for review in page.json["items"]:
                verdict = "approve" if review["args"]["approve"] else "deny"
                reply = wire.post(f"/v1/queue/{review['id']}/{verdict}", {"resolved_by": "rita"})
                if reply.status not in (200, 409, 503):
                    self.faults.append(reply)
            if not page.json["items"]:
                self.over.wait(0.02)


@pytest.fixture(scope="module")
def stack():
    with harness.Stack() as running:
        running.policy("crowd", POLICY)
        running.keys["reviewer"] = running.key("reviewers", ["reviewer"], reviewers=["*"])
        yield running


def test_the_test_double_answers_as_the_engine_does(stack):
    environment = {**os.environ, "WRIT_KEY": stack.keys["agent"], "REVIEWER_KEY": stack.keys["reviewer"]}
    done = subprocess.run([PYTHON, TESTS / "double.py", stack.engine.url], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["engine"]) == len(found["double"]) > 20
    assert [{"step": number, "engine": real, "double": double} for number, (real, double) in enumerate(zip(found["engine"], found["double"])) if real != double] == []


def test_many_agents_over_restarts_run_each_permitted_call_once(stack):
    reviewer = Reviewer(stack, stack.keys["reviewer"])
    reviewer.start()
    crowd = subprocess.Popen([PYTHON, TESTS / "crowd.py", stack.engine.url, str(AGENTS)], stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "WRIT_KEY": stack.keys["agent"]})
    kills, calls = 0, None
    for line in crowd.stdout:
        members = json.loads(line)
        calls = members.get("calls")
        if calls is None and kills < KILLS and members["done"] >= AGENTS * CALLS * (2 * kills + 1) // (2 * KILLS + 1):
            stack.engine.kill()
            stack.engine.start(ready=False)
            kills += 1
    assert crowd.wait() == 0 and kills == KILLS and len(calls) == AGENTS * CALLS
    reviewer.over.set()
    reviewer.join()
    assert not reviewer.faults
    print(f"{sum(call['interrupted'] for call in calls)} times a call met an engine that was away")

    wanted = {"get_balance": "get_balance", "issue_refund": "issue_refund", "write_orders_prod": "write_file"}
    for call in calls:
        if call["tool"] == "drop_account" or call["args"].get("approve") is False:
            assert call["ran"] == [] and call["outcome"] in ("deny:drops", "review:denied"), call
            continue
        (ran,) = call["ran"]
        args = {"path": "/sandbox/orders", "order": call["args"]["order"]} if call["tool"] == "write_orders_prod" else call["args"]
        assert call["outcome"] == "ran" and (ran["tool"], ran["args"]) == (wanted[call["tool"]], args), call

    stack.engine.wait_ready()
    stack.wait_published()
    permitted = {event["request_id"] for event in stack.events() if event.get("decision") in ("allow", "compute")}
    missing = [ran["request_id"] for call in calls for ran in call["ran"] if ran["request_id"] not in permitted]
    assert not missing, f"{len(missing)} calls ran without a record that permits them"
