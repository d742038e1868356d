"""Many agents in one process of clients/typescript, while the real engine is killed and started again.

Each permitted call runs exactly once, each review is resumed, and the audit trail has an allow for each call that ran.
"""

import pathlib
import sys
import threading

import pytest

import node

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import harness  # noqa: E402
from wire import Closed  # noqa: E402

AGENTS, KILLS = (1000, 5) if harness.LONG else (120, 2)
PATIENCE = 300

pytestmark = pytest.mark.skipif(node.version() < 20, reason="SKIP: the client needs Node.js 20 or newer")

POLICY = """
rules:
  - {id: reads, agents: ["*"], actions: [get_balance], decision: allow}
  - {id: refunds, agents: ["*"], actions: [issue_refund], decision: human_review}
  - {id: drops, actions: ["drop_*"], decision: deny}
  - {id: sandbox, agents: ["*"], actions: [write_orders], decision: compute, compute: {tool: write_file, args: {n: '${args.n}', path: /sandbox}}}
"""
TOOLS = ["get_balance", "issue_refund", "drop_table", "write_orders", "write_file"]
ASKED = ["get_balance", "issue_refund", "drop_table", "write_orders"]


class Reviewer(threading.Thread):
    """A person who approves even numbers and denies odd ones, also while the engine goes away."""

    def __init__(self, stack):
        super().__init__(daemon=True)
        self.stack, self.over, self.faults = stack, threading.Event(), []

    def run(self):
        while not self.over.wait(0.02):
            try:
                with self.stack.at_engine("rita", timeout=5) as wire:
                    page = wire.get("/v1/queue/pending?limit=200")
                    for review in page.json["items"] if page.status == 200 else []:
                        verb = "approve" if review["args"]["turn"] % 2 == 0 else "deny"
                        reply = wire.post(f"/v1/queue/{review['id']}/{verb}", {"resolved_by": "rita"})
                        self.faults += [reply] if reply.status not in (200, 409, 503) else []
            except (Closed, OSError):
                pass


class Agent(threading.Thread):
    """Makes one call of each tool. After an outage it asks again, or resumes its review."""

    def __init__(self, driver, number, done):
        super().__init__(daemon=True)
        self.driver, self.number, self.done, self.results = driver, number, done, []

    def run(self):
        for at, tool in enumerate(ASKED):
            n = self.number * len(ASKED) + at
            args, options, attempts = {"n": n, "turn": self.number}, {"traceId": f"crowd-{n}", "actor": f"bot-{self.number}"}, 0
            while True:
                attempts += 1
                answer = self.driver.end(self.driver.begin(run=[tool, args, options]), PATIENCE)
                if answer["outcome"] != "no_decision" or not answer["outage"]:
                    break
                if answer["reviewId"]:
                    options["reviewId"] = answer["reviewId"]
            self.results.append((tool, n, attempts, answer))
            self.done.release()


@pytest.fixture
def stack():
    with harness.Stack() as running:
        running.policy("crowd", POLICY)
        running.keys["rita"] = running.key("reviewers", ["reviewer"], reviewers=["rita"])
        yield running


def test_many_agents_over_restarts_run_each_permitted_call_once(stack):
    reviewer, done = Reviewer(stack), threading.Semaphore(0)
    reviewer.start()
    with node.Driver() as driver:
        driver.do(client={"url": stack.engine.url, "key": stack.keys["agent"], "tools": TOOLS, "deadlineMs": 5000, "cooldownMs": 50})
        agents = [Agent(driver, number, done) for number in range(AGENTS)]
        for agent in agents:
            agent.start()
        for _ in range(KILLS):
            for _ in range(AGENTS * len(ASKED) // (KILLS + 1)):
                assert done.acquire(timeout=PATIENCE)
            stack.engine.kill()
            stack.engine.start(ready=False)
        for agent in agents:
            agent.join(PATIENCE)
            assert not agent.is_alive()
    reviewer.over.set()
    reviewer.join()
    assert reviewer.faults == []

    calls = [result for agent in agents for result in agent.results]
    assert sum(attempts > 1 for _, _, attempts, _ in calls) > 0, "no call met a restart"
    ran = []
    for tool, n, _, answer in calls:
        turn = n // len(ASKED)
        if tool == "drop_table" or (tool == "issue_refund" and turn % 2 == 1):
            assert (answer["outcome"], answer["ran"]) == ("denied", []), (tool, answer)
            continue
        what = {"tool": "write_file", "args": {"n": n, "path": "/sandbox"}} if tool == "write_orders" else {"tool": tool, "args": {"n": n, "turn": turn}}
        assert (answer["outcome"], answer["ran"]) == ("ran", [what]), (tool, answer)
        ran.append(n)

    stack.engine.wait_ready()
    stack.wait_published()
    permitted = {event["trace_id"] for event in stack.events() if event["kind"] == "decision" and event["decision"] in ("allow", "compute")}
    assert [n for n in ran if f"crowd-{n}" not in permitted] == []
