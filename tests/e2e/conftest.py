"""One running stack for all tests that only ask; tests that kill or fill make their own."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import events  # noqa: E402
import harness  # noqa: E402
import openapi  # noqa: E402
import wire  # noqa: E402

BASE_POLICY = """
rules:
  - {id: reads, agents: ["*"], users: ["*"], actions: ["get_*", "list_*"], decision: allow}
  - {id: refunds, actions: [issue_refund], decision: human_review, reason: Refunds need finance.}
  - {id: never-drop, actions: ["drop_*"], decision: deny, reason: Nothing is dropped here.}
  - id: sandbox
    agents: ["*"]
    actions: ["write_*_prod"]
    decision: compute
    compute: {tool: write_file, args: {path: /sandbox/out, sandboxed: true}}
  - {id: safe-write, agents: ["*"], actions: [write_file], decision: allow}
"""


@pytest.fixture(scope="session")
def stack():
    for name in ("writ-engine", "writ-platform", "writ", "writ-hook"):
        assert (harness.BIN / name).exists(), f"{name} is not built in {harness.BIN}"
    with harness.Stack() as running:
        watch = openapi.modules() and openapi.Watch({running.engine.address: "engine", running.platform.address: "platform"})
        wire.Wire.watch = watch
        running.policy("base", BASE_POLICY)
        yield running
        wire.Wire.watch = None
        running.engine.stop()
        running.platform.stop()
        events.check_store(running)  # whatever the tests made happen, its record fits the schema
        if watch is None:
            print("SKIP: python3-yaml or python3-jsonschema is not installed, so no answer is held against its document")
        else:
            watch.check()  # and so does what they were told


@pytest.fixture
def fresh(tmp_path):
    """Makes stacks of a test's own; gone at its end."""
    made = []

    def make(**options):
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(harness.Stack(folder, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


class Tenant:
    """A tenant of a test's own on the shared stack, with keys of its own."""

    def __init__(self, stack, name):
        self.stack, self.name = stack, name
        self.agent = self.key("agents", ["agent", "app"], actors=["*"], users=["*"], wait=False)
        self.auditor = self.key("auditors", ["auditor"], wait=False)
        self.admin = self.key("admins", ["admin"])

    def key(self, name, roles, wait=True, **more):
        body = {"name": name, "owner": f"{name}-owner", "tenant": self.name, "roles": roles, **more}
        with self.stack.at_platform("root") as wire:
            reply = wire.post(f"/api/v1/keys?tenant_id={self.name}", body)
        assert reply.status == 201, reply
        if wait:
            self.stack.wait_followed()
        return reply.json["key"]

    def put(self, name, content, query="", headers=None, **more):
        with self.stack.at_platform(self.admin) as wire:
            return wire.put(f"/api/v1/policies/{name}{query}", {"content": content, **more}, headers=headers)

    def policy(self, content, name="base", **more):
        """Puts a document and waits until the engine decides by it."""
        reply = self.put(name, content, **more)
        assert reply.status in (200, 201), reply
        self.stack.wait_followed()
        return reply.json

    def ask(self, action, route="/v1/agent/authorize", key=None, query="", **members):
        name = "tool" if route == "/api/v1/authorize" else "action"
        with self.stack.at_engine(key or self.agent) as wire:
            reply = wire.post(route + query, {name: action, **members})
        assert reply.status == 200, reply
        return reply.json

    def ask_user(self, user, action, **members):
        return self.ask(action, route="/v1/authorize", user_id=user, **members)

    def trace(self, trace_id, count=1):
        return self.stack.trace(trace_id, self.auditor, count)

    def events(self, **parameters):
        return self.stack.events(self.auditor, **parameters)


@pytest.fixture
def tenant(stack, request):
    """A fresh tenant, named after the test."""
    number = getattr(stack, "tenants", 0)
    stack.tenants = number + 1
    return Tenant(stack, f"tenant-{number}")
