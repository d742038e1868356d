"""An agent that comes back: it finds its reviews, and repeats a redemption with another token."""

import pytest

from queues import AGENT, queue, refused  # noqa: F401


def mint(queue, key=None, **body):
    reply = queue.call("POST", "/v1/tokens/mint", key or queue.tenant.agent, {"scope": "*", "actor": "bot", **body})
    assert reply.status == 201, reply
    return reply.json["token"]


def test_a_redemption_is_repeated_with_another_token_of_its_actor(queue):
    asked, retry = {"action": "refund", "args": {"n": 1}}, {"Idempotency-Key": "again"}
    first, second = mint(queue), mint(queue, max_uses=1)
    review = queue.call("POST", AGENT, first, asked).json["review_id"]
    queue.approve(review)
    allowed = queue.redeem(review, asked, first, retry).json
    assert allowed["decision"] == "allow"
    for _ in range(3):
        again = queue.redeem(review, asked, second, retry).json
        assert (again["request_id"], again["replayed"], again["decision"]) == (allowed["request_id"], True, "allow")
    assert queue.call("POST", AGENT, second, {"action": "get_x"}).json["decision"] == "allow", "the repeats spent no use"
    narrow = queue.redeem(review, asked, mint(queue, scope="get_*"), retry).json
    assert (narrow["decision"], narrow["rule"]) == ("deny", "token:scope")
    refused(queue.redeem(review, {**asked, "args": {"n": 2}}, first, retry), 422, "idempotency_mismatch")
    refused(queue.redeem(review, asked, mint(queue, actor="other"), retry), 404, "not_found")
    refused(queue.redeem(review, asked, mint(queue, acting_for="carol"), retry), 404, "not_found")
    assert queue.redeem(review, asked, first, {"Idempotency-Key": "another"}).json["rule"] == "review:redeemed"
    assert queue.redeem(review, asked, queue.tenant.agent, retry).json["rule"] == "review:redeemed", "its actor is another one"
    assert queue.redeem(review, {**asked, "actor": "bot"}, queue.tenant.agent, retry).status == 422


def test_a_redemption_is_repeated_after_the_rotation_of_its_key(queue):
    key = queue.tenant.key("lone-agent", ["agent"])
    asked, retry = {"action": "refund", "args": {"n": 3}}, {"Idempotency-Key": "again"}
    review = queue.call("POST", AGENT, key, asked).json["review_id"]
    queue.approve(review)
    assert queue.redeem(review, asked, key, retry).json["decision"] == "allow"
    for _ in range(2):
        with queue.stack.at_platform("root") as wire:
            key = wire.post(f"/api/v1/keys/key_{key.split('_')[1]}/rotate?tenant_id={queue.tenant.name}", {}).json["key"]
        queue.stack.wait_followed()
        assert queue.redeem(review, asked, key, retry).json["replayed"] is True


@pytest.mark.parametrize("path", ["/v1/queue", "/v1/queue/pending"])
def test_an_agent_lists_the_reviews_of_its_own_key_and_no_others(queue, path):
    other = queue.tenant.key("other-agent", ["agent"], actors=["*"], wait=False)
    twin = queue.tenant.key("agents", ["agent"], owner_is="another", actors=["*"])
    mine = [queue.ask("refund", args={"n": n}, actor=f"bot-{n % 2}", trace_id="resumed")["review_id"] for n in range(3)]
    users = queue.tenant.ask_user("uma", "refund")["review_id"]
    theirs = [queue.call("POST", AGENT, key, {"action": "refund", "actor": "bot-0"}).json["review_id"] for key in (other, twin)]

    def listed(key, query=""):
        reply = queue.call("GET", path + query, key)
        assert reply.status == 200, reply
        assert reply.json["total"] >= reply.json["count"] == len(reply.json["items"])
        return [item["id"] for item in reply.json["items"]], reply.json["total"]

    assert listed(queue.tenant.agent) == ([*mine, users], 4)
    assert listed(queue.tenant.agent, "?actor=bot-0") == ([mine[0], mine[2]], 2)
    assert listed(queue.tenant.agent, "?limit=1") == (mine[:1], 4)
    assert listed(other) == (theirs[:1], 1) and listed(twin) == (theirs[1:], 1)
    assert listed(mint(queue, actor="bot-1")) == ([mine[1]], 1), "a token sees its own actor's"
    assert set(listed(queue.rita)[0]) >= {*mine, users, *theirs}
    refused(queue.call("GET", path, queue.tenant.auditor), 403, "missing_role")
    refused(queue.call("GET", f"/v1/queue/{theirs[0]}", queue.tenant.agent), 404, "not_found")
