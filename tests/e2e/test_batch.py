"""`POST /v1/authorize/batch`: each item is decided like a request of its own, and all have one answer."""

import itertools

import harness
import pytest

BATCH = "/v1/authorize/batch"
POLICY = """
rules:
  - {id: reads, agents: ["*"], users: ["*"], actions: ["get_*"], decision: allow}
  - {id: two, agents: ["*"], actions: [twice], decision: allow, limit: {per: resource, window: 1h, count: 2}}
  - {id: refunds, actions: [refund], decision: human_review, reason: A person decides.}
"""
names = itertools.count()


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    with harness.Stack(tmp_path_factory.mktemp("batch")) as stack:
        stack.policy("base", POLICY)
        yield stack
        stack.engine.stop()
        stack.platform.stop()


def decided(stack, requests, status=200, key="agent", **headers):
    with stack.at_engine(key) as wire:
        reply = wire.post(BATCH, {"requests": requests}, headers={name.replace("_", "-"): value for name, value in headers.items()})
    assert reply.status == status, reply
    return reply.json["decisions"] if status == 200 else reply.json


def test_every_form_and_outcome_stands_in_its_place(own):
    read = {"action": "get_x", "actor": "bot"}
    answers = decided(own, [read, {"tool": "get_x", "actor": "bot"}, {"user_id": "erin", "action": "get_x"}, {"action": "drop", "actor": "bot"},
                            {"action": "refund", "actor": "bot"}, {"actor": "bot"}, 7, {"action": 1}])
    assert [one.get("decision") for one in answers] == ["allow", "allow", "allow", "deny", "human_review", None, None, None]
    assert answers[1]["tool"] == "get_x" and answers[4]["review_id"].startswith("rev_")
    assert [(one["status"], one["code"]) for one in answers[5:]] == [(400, "missing_member"), (400, "wrong_type"), (400, "wrong_type")]
    with own.at_engine() as wire:
        alone = wire.post("/v1/agent/authorize", read).json
    assert answers[0]["input_hash"] == alone["input_hash"] and set(answers[0]) == set(alone)
    for answer in answers[:5]:
        trace = answer.get("trace_id") or answer["traceId"]
        assert own.trace(trace)[0]["event_id"][4:] == (answer.get("request_id") or answer["requestId"])[4:]


def test_a_hundred_items_over_all_reactors(own):
    account = f"account:{next(names)}"
    answers = decided(own, [{"action": "twice", "actor": "bot", "resource": account if n % 2 else f"{account}-{n}"} for n in range(100)])
    assert [one["decision"] for one in answers[::2]] == ["allow"] * 50
    assert [one["decision"] for one in answers[1::2]] == ["allow"] * 2 + ["deny"] * 48  # counted one after the other
    wanted = "requests: has more than 100 items"
    assert decided(own, [{"action": "get_x"}] * 101, 400)["error"] == wanted
    for wrong in ([], {}, None, "x"):
        assert decided(own, wrong, 400)["field"] == "/requests"


def test_each_item_needs_the_role_of_its_form(own):
    app = own.key("apps", ["app"], users=["*"])
    answers = decided(own, [{"user_id": "erin", "action": "get_x"}, {"action": "get_x"}], key=app)
    assert answers[0]["decision"] == "allow" and (answers[1]["status"], answers[1]["code"]) == (403, "missing_role")


def test_a_repeated_batch_counts_once(own):
    requests = [{"action": "twice", "actor": "bot", "resource": f"account:{next(names)}"} for _ in range(3)]
    first = decided(own, requests, Idempotency_Key="a-batch")
    again = decided(own, requests, Idempotency_Key="a-batch")
    assert not any("replayed" in one for one in first) and all(one["replayed"] for one in again)
    assert [one["decision"] for one in decided(own, requests) + decided(own, requests)] == ["allow"] * 3 + ["deny"] * 3
