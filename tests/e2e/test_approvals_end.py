"""An approval ends with what it rested on: the actor's standing, its voters' keys and roles, and a person's word."""

import pytest

from queues import POLICY, queue, refused  # noqa: F401


def approved(queue, action="refund", key=None, **members):
    asked = {"action": action, "actor": "bot", **members}
    review = queue.ask(**asked)["review_id"]
    assert queue.approve(review, key=key).json["status"] == "approved"
    return review, asked


def key_id(queue, key):
    return "key_" + key.split("_")[1]


def root(queue, method, path, body=None):
    with queue.stack.at_platform("root") as wire:
        reply = wire.request(method, f"{path}?tenant_id={queue.tenant.name}", body=body)
    assert reply.status in (200, 201, 204), reply
    queue.stack.wait_followed()
    return reply.json


def asks_again(queue, review, asked):
    """The approval covers nothing any more: a new review asks for all, and the old one is given to no request."""
    answer = queue.redeem(review, asked).json
    assert (answer["decision"], answer["allowed"]) == ("human_review", False) and answer["review_id"] != review
    assert queue.ask(**asked)["review_id"] == answer["review_id"]


def revoke(queue, review, key=None, **body):
    return queue.call("POST", f"/v1/queue/{review}/revoke", key or queue.rita, body or None)


@pytest.mark.parametrize("spelling", ["bot", "Bot", "b\u200bot"])
def test_a_suspension_ends_approvals_in_every_spelling(queue, spelling):
    review, asked = approved(queue)
    path = f"/v1/actors/{''.join(f'%{byte:02X}' for byte in spelling.encode())}"
    for verb in ("suspend", "resume"):
        assert queue.call("POST", f"{path}/{verb}", queue.tenant.admin, {"reason": "a look at it"}).status == 200
    item = queue.get(review).json
    assert (item["status"], item["cancelled_by"]) == ("cancelled", "suspended")
    answer = queue.redeem(review, asked).json
    assert (answer["decision"], answer["rule"]) == ("deny", "review:cancelled") and "suspended" in answer["reason"]
    assert "review_status" not in queue.ask(**asked)
    events = queue.tenant.trace(item["trace_id"], count=4)
    assert [event["rule"] for event in events if event["kind"] == "review.cancelled"] == ["actor:suspended"]


def test_an_approval_can_be_taken_back_until_it_is_redeemed(queue):
    review, asked = approved(queue)
    taken = revoke(queue, review, note="the wrong account").json
    assert taken["success"] is True and (taken["status"], taken["cancelled_by"], taken["resolved_by"]) == ("cancelled", "revoked", "rita")
    assert taken["resolution_note"] == "the wrong account" and [vote["resolved_by"] for vote in taken["approvals"]] == ["rita"]
    assert revoke(queue, review).status == 200, "a repetition"
    answer = queue.redeem(review, asked).json
    assert (answer["decision"], answer["rule"]) == ("deny", "review:cancelled") and "taken the approval back" in answer["reason"]
    assert queue.ask(**asked)["review_id"] != review
    events = queue.tenant.trace(taken["trace_id"], count=4)
    assert [event["rule"] for event in events if event["kind"] == "review.cancelled"] == ["review:revoked"]
    refused(queue.call("POST", f"/v1/queue/{review}/cancel", queue.tenant.agent), 409, "already_resolved")
    second, asked = approved(queue, args={"n": 2})
    assert revoke(queue, second, key=queue.tenant.admin).json["resolved_by"] == "admins-owner", "an admin may, too"
    third, asked = approved(queue, args={"n": 3})
    queue.redeem(third, asked)
    assert refused(revoke(queue, third), 409, "already_resolved")["status"] == "redeemed"
    pending = queue.ask("refund", args={"n": 4})["review_id"]
    refused(revoke(queue, pending), 409, "not_approved")
    refused(revoke(queue, pending, key=queue.tenant.agent), 403, "missing_role")
    paid, asked = approved(queue, "pay", key=queue.carol)
    refused(revoke(queue, paid, key=queue.rita), 403, "wrong_reviewer")
    assert revoke(queue, paid, key=queue.carol).json["cancelled_by"] == "revoked"


def test_a_vote_ends_with_the_revocation_of_its_key(queue):
    mine = queue.tenant.key("zoe-laptop", ["reviewer"], owner_is="zoe")
    review, asked = approved(queue, key=mine)
    vote = queue.get(review).json["approvals"][0]
    assert (vote["key_id"], vote["proof"]) == (key_id(queue, mine), "owner")
    root(queue, "DELETE", f"/api/v1/keys/{key_id(queue, mine)}")
    asks_again(queue, review, asked)


def test_a_vote_outlives_the_rotation_of_its_key_and_ends_with_what_replaced_it(queue):
    mine = queue.tenant.key("zoe-laptop", ["reviewer"], owner_is="zoe", reviewers=["*"])
    review, asked = approved(queue, key=mine)
    other, also = approved(queue, key=mine, args={"n": 2})
    fresh = root(queue, "POST", f"/api/v1/keys/{key_id(queue, mine)}/rotate")["key"]
    assert queue.ask(**also)["review_status"] == "approved"
    assert queue.redeem(review, asked).json["decision"] == "allow"
    root(queue, "DELETE", f"/api/v1/keys/{key_id(queue, fresh)}")
    asks_again(queue, other, also)


def test_a_vote_ends_with_the_role_of_its_person(queue):
    review, asked = approved(queue, "pay", key=queue.carol)
    queue.tenant.policy(POLICY.replace("finance: [carol,", "finance: [cora,"))
    asks_again(queue, review, asked)
    queue.tenant.policy(POLICY)
    assert queue.redeem(review, asked).json["decision"] == "allow", "she has it again, and the approval is good"


def test_a_key_that_votes_for_others_says_so(queue):
    review, _ = approved(queue, key=queue.rita)
    with_name = queue.ask("refund", args={"n": 9})["review_id"]
    queue.approve(with_name, key=queue.rita, resolved_by="carol")
    assert [queue.get(one).json["approvals"][0]["proof"] for one in (review, with_name)] == ["owner", "named"]
