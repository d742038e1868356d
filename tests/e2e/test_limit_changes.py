"""What a limit has counted goes on when the limit changes, and who changes it hears what does not."""

import pytest

ASK = "/v1/agent/authorize"
RULE = """
rules:
  - {{id: {id}, agents: ["*"], actions: [pay], decision: allow, limit: {{per: {per}, window: {window}, {bounds}}}}}
"""


def text(id="few", per="actor", window="1h", bounds="count: 3"):
    return RULE.format(id=id, per=per, window=window, bounds=bounds)


def pay(stack, actor, amount=1):
    with stack.at_engine() as wire:
        reply = wire.post(ASK, {"action": "pay", "actor": actor, "args": {"amount": amount}})
    assert reply.status == 200, reply
    return reply.json["decision"]


@pytest.fixture
def stack(fresh):
    made = fresh()
    made.start()
    return made


def test_what_was_counted_is_carried_over(stack):
    stack.policy("spend", text())
    assert [pay(stack, "bot") for _ in range(4)] == ["allow"] * 3 + ["deny"]
    for window in ("2h", "30d", "59m", "1h"):
        stack.policy("spend", text(window=window))
        assert pay(stack, "bot") == "deny", window
    stack.policy("spend", text(window="2h", bounds="count: 5"))
    assert [pay(stack, "bot") for _ in range(3)] == ["allow", "allow", "deny"]
    stack.policy("spend", text(bounds="count: 4"))
    assert pay(stack, "bot") == "deny"
    stack.engine.kill()
    stack.engine.start()
    stack.policy("spend", text(window="3h", bounds="count: 5"))
    assert pay(stack, "bot") == "deny"
    assert pay(stack, "other") == "allow"


def test_sums_are_carried_over(stack):
    stack.policy("spend", text(bounds="sum: args.amount, max: 100"))
    assert [pay(stack, "bot", 60), pay(stack, "bot", 41)] == ["allow", "deny"]
    stack.policy("spend", text(window="24h", bounds="sum: args.amount, max: 120"))
    assert [pay(stack, "bot", 61), pay(stack, "bot", 60), pay(stack, "bot", 1)] == ["deny", "allow", "deny"]


@pytest.mark.parametrize("change, told", [
    ({"window": "2h"}, "this limit sees only the last 1h"),
    ({"per": "user"}, "begins a new count: it was per actor"),
    ({"id": "some"}, "begins a new count: what the limit of rule few counted"),
    ({"window": "30m"}, None),
    ({"bounds": "count: 9"}, None),
])
def test_put_tells_what_is_not_carried_over(stack, change, told):
    stack.policy("spend", text())
    reply = stack.policy("spend", text(**change), wait=False)
    messages = [w["message"] for w in reply.json.get("warnings", []) if "new count" in w["message"] or "sees only" in w["message"]]
    assert len(messages) == (0 if told is None else 1), reply
    assert told is None or told in messages[0]
