"""The same request again, while its review waits, is approved, or has ended."""

import pytest

from queues import AGENT, POLICY, STRICTER, TOOL, queue  # noqa: F401


def test_the_same_request_gets_the_same_review_while_it_is_pending(queue):
    asked = {"action": "refund", "args": {"same": True}}
    first, second = queue.ask(**asked), queue.ask(**asked, confidence=0.3)
    assert first["review_id"] == second["review_id"] and first["expires_at"] == second["expires_at"]
    assert first["trace_id"] != second["trace_id"]
    for trace in (first["trace_id"], second["trace_id"]):
        assert queue.get(trace).json["id"] == first["review_id"], "either trace id finds it"
    assert queue.ask("refund", args={"same": False})["review_id"] != first["review_id"]
    queue.deny(first["review_id"])
    third = queue.ask(**asked)
    assert third["review_id"] != first["review_id"], "a resolved review is not given again"


@pytest.mark.parametrize("route", [AGENT, TOOL, "/v1/authorize"])
def test_the_same_request_while_approved_asks_no_person_again(queue, route):
    asked = {"tool" if route == TOOL else "action": "refund", "args": {"n": 7}, **({"user_id": "uma"} if route == "/v1/authorize" else {})}
    names = ("reviewId", "reviewStatus", "traceId") if route == TOOL else ("review_id", "review_status", "trace_id")
    first = queue.call("POST", route, queue.tenant.agent, asked).json
    review = first[names[0]]
    assert names[1] not in first
    ends = queue.approve(review).json["approval_expires_at"]
    for n in range(3):
        again = queue.call("POST", route, queue.tenant.agent, {**asked, "confidence": n / 4}).json
        assert again["decision"] == "human_review" and again[names[0]] == review and again[names[1]] == "approved"
        assert again["expiresAt" if route == TOOL else "expires_at"] == ends
        assert again.get("allowed", False) is False
        assert queue.get(again[names[2]]).json["id"] == review, "its trace id finds the review"
    assert queue.pending("?limit=1")["total"] == 0
    assert queue.redeem(review, asked).json["decision"] == "allow"
    later = queue.call("POST", route, queue.tenant.agent, asked).json
    assert later[names[0]] != review and names[1] not in later, "a redeemed one is used up"


def test_a_request_whose_review_is_approved_spends_nothing(queue):
    with queue.stack.at_engine(queue.tenant.agent) as wire:
        token = wire.post("/v1/tokens/mint", {"scope": "*", "max_uses": 2}).json["token"]
    asked = {"action": "refund", "args": {"n": 8}}
    review = queue.call("POST", AGENT, token, asked).json["review_id"]
    queue.approve(review)
    for _ in range(3):
        assert queue.call("POST", AGENT, token, asked).json["review_status"] == "approved"
    rules = [queue.call("POST", AGENT, token, {"action": "get_x"}).json["rule"] for _ in range(2)]
    assert rules == ["allow:reads", "token:uses"]
    assert queue.redeem(review, asked, key=token).json["decision"] == "allow"


@pytest.mark.parametrize("route", [AGENT, TOOL, "/v1/authorize"])
def test_a_retry_with_a_key_tells_that_its_review_is_approved_now(queue, route):
    asked = {"tool" if route == TOOL else "action": "refund", "args": {"n": 12}, **({"user_id": "uma"} if route == "/v1/authorize" else {})}
    ids, status, ends = ("reviewId", "reviewStatus", "expiresAt") if route == TOOL else ("review_id", "review_status", "expires_at")

    def ask():
        return queue.call("POST", route, queue.tenant.agent, asked, {"Idempotency-Key": "one"}).json

    first, pending = ask(), ask()
    review = first[ids]
    assert pending["replayed"] is True and (pending[ids], pending[ends]) == (review, first[ends]) and status not in pending
    until = queue.approve(review).json["approval_expires_at"]
    for _ in range(2):
        again = ask()
        assert (again["decision"], again[ids], again[status], again[ends], again["replayed"]) == ("human_review", review, "approved", until, True)
        assert {**again, ends: first[ends]} == {**first, status: "approved", "replayed": True}, "all else is the first answer"
    queue.tenant.policy(STRICTER)
    more = ask()
    assert more[ids] == review and status not in more, "its votes are not enough now"
    queue.tenant.policy(POLICY)
    assert ask()[status] == "approved" and queue.redeem(review, asked).json["decision"] == "allow"
    ended = ask()
    assert ended[ids] == review and status not in ended and ended["replayed"] is True


def test_votes_that_cover_less_than_is_asked_now_are_not_offered(queue):
    asked = {"action": "refund", "args": {"n": 9}}
    review = queue.ask(**asked)["review_id"]
    queue.approve(review)
    queue.tenant.policy(STRICTER)
    more = queue.ask(**asked)
    assert more["review_id"] != review and "review_status" not in more
    queue.approve(more["review_id"])
    assert queue.ask(**asked)["review_id"] == more["review_id"], "it is pending"
    queue.approve(more["review_id"], key=queue.carol)
    again = queue.ask(**asked)
    assert (again["review_id"], again["review_status"]) == (more["review_id"], "approved")
    queue.tenant.policy(POLICY)
    assert queue.ask(**asked)["review_id"] == more["review_id"], "the newest one covers it, too"
    queue.redeem(more["review_id"], asked)
    assert queue.ask(**asked)["review_id"] == review, "and then the one before"


def test_an_approval_of_another_asker_is_not_offered(queue):
    asked = {"action": "refund", "args": {"n": 10}, "actor": "bot"}
    review = queue.ask(**asked)["review_id"]
    queue.approve(review)
    other = queue.tenant.key("other-bot", ["agent"], actors=["*"])
    assert queue.call("POST", AGENT, other, asked).json["review_id"] != review
    assert queue.ask("refund", args={"n": 10}, actor="bot", acting_for="carol")["review_id"] != review


@pytest.mark.parametrize("route", [AGENT, TOOL, "/v1/authorize"])
def test_the_ids_of_a_call_are_recorded_and_not_bound(queue, route):
    call, conversation = ("toolCallId", "conversationId") if route == TOOL else ("tool_call_id", "conversation_id")
    asked = {"tool" if route == TOOL else "action": "refund", "args": {"n": 11}, **({"user_id": "uma"} if route == "/v1/authorize" else {})}
    names = ("reviewId", "reviewStatus", "traceId") if route == TOOL else ("review_id", "review_status", "trace_id")
    first = queue.call("POST", route, queue.tenant.agent, {**asked, call: "call_1", conversation: "thread ü"}).json
    queue.approve(first[names[0]])
    again = queue.call("POST", route, queue.tenant.agent, {**asked, call: "call_2", conversation: ""}).json
    assert (again[names[0]], again[names[1]]) == (first[names[0]], "approved"), "another call finds the approval"
    done = queue.redeem(first[names[0]], {**asked, call: "call_3"}).json
    assert done["decision"] == "allow"
    queue.stack.wait_published()
    for answer, ids in ((first, ("call_1", "thread ü")), (again, ("call_2", None)), (done, ("call_3", None))):
        request = answer["requestId" if "requestId" in answer else "request_id"]
        events = [e for e in queue.tenant.trace(answer.get("traceId") or answer["trace_id"]) if e.get("request_id") == request and e["kind"] != "review.approved"]
        assert events and all((e.get("tool_call_id") or None, e.get("conversation_id") or None) == ids for e in events), events


def test_the_ids_of_a_call_have_a_bound_and_one_spelling(queue):
    for route, asked, wrong, code in [
            (AGENT, {"action": "get_x"}, {"tool_call_id": 7}, "wrong_type"),
            (AGENT, {"action": "get_x"}, {"conversation_id": "x" * 257}, "out_of_range"),
            (TOOL, {"tool": "get_x"}, {"toolCallId": "a\x00"}, "malformed_json"),
            (TOOL, {"tool": "get_x"}, {"conversation_id": "x"}, "wrong_case"),
            ("/v1/authorize", {"action": "get_x", "user_id": "uma"}, {"toolCallId": "x"}, "wrong_case")]:
        reply = queue.call("POST", route, queue.tenant.agent, {**asked, **wrong})
        assert (reply.status, reply.json["code"]) == (400, code), (wrong, reply)
    batch = [{"action": "get_x", "tool_call_id": "call_1", "conversation_id": "y" * 256}, {"tool": "get_x", "toolCallId": "call_2"}]
    answers = queue.call("POST", "/v1/authorize/batch", queue.tenant.agent, {"requests": batch}).json["decisions"]
    events = [queue.tenant.trace(a.get("traceId") or a["trace_id"])[0] for a in answers]
    assert [e["tool_call_id"] for e in events] == ["call_1", "call_2"] and events[0]["conversation_id"] == "y" * 256
