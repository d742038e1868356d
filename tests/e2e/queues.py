"""A tenant with a queue, its agent and its reviewers, for tests of reviews."""

import pytest

AGENT = "/v1/agent/authorize"
TOOL = "/api/v1/authorize"

POLICY = """
roles: {finance: [carol, "dan@*"], legal: [lena]}
mask: [args.card]
rules:
  - {id: reads, agents: ["*"], users: ["*"], actions: ["get_*"], decision: allow}
  - {id: refunds, actions: [refund], decision: human_review, reason: Refunds need a person.}
  - {id: quick, actions: [quick], decision: human_review, review: {expires_in: 1s}}
  - {id: brief, actions: [brief], decision: human_review, review: {good_for: 1s}}
  - {id: by-finance, actions: [pay], decision: human_review, review: {by: [finance]}}
  - {id: two, actions: [launch], decision: human_review, review: {approvals: 2}}
  - {id: both-a, actions: [merge], decision: human_review, review: {by: [finance]}}
  - {id: both-b, actions: [merge], decision: human_review, review: {by: [legal]}}
"""


STRICTER = """
roles: {finance: [carol], board: [rita, dan]}
rules:
  - {id: refunds, actions: [refund], decision: human_review, review: {by: [board]}}
  - {id: also, actions: [refund], decision: human_review, review: {by: [finance]}}
"""


class Queue:
    """A tenant with a queue, its agent and its reviewers."""

    def __init__(self, tenant):
        self.tenant, self.stack = tenant, tenant.stack
        tenant.policy(POLICY)
        self.carol = tenant.key("carol-laptop", ["reviewer"], owner_is="carol", wait=False)
        self.rita = tenant.key("rita-laptop", ["reviewer"], owner_is="rita", reviewers=["*"])

    def ask(self, action, **members):
        return self.tenant.ask(action, **members)

    def call(self, method, path, key, body=None, headers=None):
        with self.stack.at_engine(key) as wire:
            return wire.request(method, path, body=body, headers=headers)

    def get(self, review, key=None):
        return self.call("GET", f"/v1/queue/{review}", key or self.rita)

    def approve(self, review, key=None, **body):
        return self.call("POST", f"/v1/queue/{review}/approve", key or self.rita, body or None)

    def deny(self, review, key=None, **body):
        return self.call("POST", f"/v1/queue/{review}/deny", key or self.rita, body or None)

    def redeem(self, review, body, key=None, headers=None):
        return self.call("POST", f"/v1/queue/{review}/redeem", key or self.tenant.agent, body, headers)

    def pending(self, query=""):
        reply = self.call("GET", f"/v1/queue/pending{query}", self.rita)
        assert reply.status == 200, reply
        return reply.json


@pytest.fixture
def queue(tenant):
    original = tenant.key

    def key(name, roles, wait=True, owner_is=None, **more):
        if owner_is is None:
            return original(name, roles, wait=wait, **more)
        body = {"name": name, "owner": owner_is, "tenant": tenant.name, "roles": roles, **more}
        with tenant.stack.at_platform("root") as wire:
            reply = wire.post(f"/api/v1/keys?tenant_id={tenant.name}", body)
        assert reply.status == 201, reply
        if wait:
            tenant.stack.wait_followed()
        return reply.json["key"]

    tenant.key = key
    return Queue(tenant)


def refused(reply, status, code):
    assert reply.status == status, reply
    assert reply.json["code"] == code, reply
    return reply.json
