"""The review queue through the real programs: ask, wait, resolve, redeem, and every way to be refused."""

import json
import socket
import struct
import threading
import time
from urllib.parse import quote

import harness
import pytest

import canonical
from queues import AGENT, POLICY, STRICTER, TOOL, queue, refused  # noqa: F401

# What is asked for a refund: `user_id` goes by the users' route, `tool` by the tools'.
BOUND = [
    {}, {"actor": "b\u00e9"}, {"actor": ""}, {"args": {}}, {"args": None}, {"args": {"a": 1e20, "n": 9007199254740993, "card": "4111"}},
    {"context": "text"}, {"context": {}}, {"context": {"confidence": 0.5, "trace_id": "bound-1"}}, {"context": {"confidence": 0.5, "k": 1}},
    {"context": {"acting_for": "carol", "scope": "refund x", "z": None}}, {"acting_for": "carol", "context": {"acting_for": ""}},
    {"resource": "db:x:y"}, {"resource": "plain"}, {"resource": ":"}, {"resource": {}}, {"resource": {"type": "t", "id": None, "é": "", "properties": {}}},
    {"resource": {"properties": {"p": [1.5, None]}, "id": "i"}}, {"resource": {"id": "i", "properties": None}},
    {"scope": "refund x"}, {"scope": "  refund   x "}, {"scope": ["x", "refund"]}, {"scope": ["refund", "a b"]}, {"scope": ""}, {"scope": None},
    {"confidence": 0.9, "trace_id": "bound-2"},
    {"tool": "refund"}, {"tool": "refund", "actingFor": "carol", "context": {"traceId": "bound-3", "scope": "refund", "confidence": 1, "k": {}}, "resource": "a:b"},
    {"user_id": "eve"}, {"user_id": "eve", "context": {"confidence": 1, "scope": "x", "acting_for": "y", "trace_id": "z"}, "resource": "a:b", "args": {"q": 0.1}},
]


@pytest.mark.parametrize("question", BOUND)
def test_what_an_approval_is_bound_to_can_be_recomputed(queue, question):
    route = "/v1/authorize" if "user_id" in question else TOOL if "tool" in question else AGENT
    body = question if route == TOOL else {"action": "refund", **question}
    reply = queue.call("POST", route, queue.tenant.agent, body)
    assert reply.status == 200, reply
    review = reply.json["reviewId" if route == TOOL else "review_id"]
    names = {"names": ("confidence", "traceId", "actingFor", "scope")} if route == TOOL else {}
    pepper = (queue.stack.data / "pepper").read_text()
    expected = canonical.binding_hash(pepper, review, body, queue.tenant.name, actor="agents", **names)
    assert queue.get(review).json["binding_hash"] == expected
    assert queue.tenant.trace(reply.json["traceId" if route == TOOL else "trace_id"], count=2)[0]["binding_hash"] == expected


def test_an_approval_is_good_once_for_the_request_that_was_asked(queue):
    asked = {"action": "refund", "actor": "bot", "args": {"amount": 501, "card": "4111111111111111"}, "confidence": 0.9}
    first = queue.ask(**asked)
    assert first["decision"] == "human_review" and first["requires_human_review"] is True and first["allowed"] is False
    review = first["review_id"]
    item = queue.get(review).json
    assert item["status"] == "pending" and item["kind"] == "agent" and item["actor"] == "bot" and item["action"] == "refund"
    assert item["args"] == {"amount": 501, "card": "[masked]"}
    assert item["confidence_score"] == 0.9 and item["approvals_required"] == 1 and item["approvals"] == []
    assert item["trace_id"] == first["trace_id"] and item["expires_at"] == first["expires_at"]

    early = queue.redeem(review, asked).json
    assert (early["decision"], early["rule"], early["allowed"]) == ("deny", "review:pending", False)
    done = queue.approve(review, note="fine").json
    assert done["success"] is True and done["status"] == "approved" and done["resolved_by"] == "rita"
    assert done["resolution_note"] == "fine" and done["approval_expires_at"] > done["resolved_at"]

    other = queue.redeem(review, {**asked, "args": {"amount": 502, "card": "4111111111111111"}}).json
    assert (other["decision"], other["rule"]) == ("deny", "review:binding")
    spent = queue.redeem(review, {**asked, "confidence": 0.2}).json
    assert spent["decision"] == "allow" and spent["allowed"] is True and spent["redemption_id"]
    assert spent["trace_id"] == first["trace_id"]
    again = queue.redeem(review, asked).json
    assert (again["decision"], again["rule"]) == ("deny", "review:redeemed")
    assert queue.get(review).json["status"] == "redeemed"

    events = queue.tenant.trace(first["trace_id"], 8)
    kinds = [event["kind"] for event in events]
    assert kinds.count("review.enqueued") == kinds.count("review.approved") == kinds.count("review.redeemed") == 1
    assert kinds.count("decision") == 5
    assert all("4111111111111111" not in json.dumps(event) for event in events)
    approved = next(event for event in events if event["kind"] == "review.approved")
    assert approved["resolved_by"] == "rita" and approved["review_id"] == review and approved["resolution_note"] == "fine"


def test_a_repeated_redemption_with_its_idempotency_key_gets_the_same_answer(queue):
    asked = {"action": "refund", "args": {"n": 1}}
    review = queue.ask(**asked)["review_id"]
    queue.approve(review)
    headers = {"Idempotency-Key": "pay-7"}
    first = queue.redeem(review, asked, headers=headers).json
    assert first["decision"] == "allow" and "replayed" not in first
    second = queue.redeem(review, asked, headers=headers).json
    assert second.pop("replayed") is True
    assert second == first
    refused(queue.redeem(review, {**asked, "confidence": 1}, headers=headers), 422, "idempotency_mismatch")
    assert queue.redeem(review, asked, headers={"Idempotency-Key": "pay-8"}).json["rule"] == "review:redeemed"


def test_a_repeated_answer_tells_of_shadow_policies_as_the_first_did(queue):
    queue.tenant.policy("mode: shadow\nrules:\n  - {id: never, actions: [refund], decision: deny}\n", name="planned")
    asked = {"tool": "refund", "args": {"n": 1}}
    with queue.stack.at_engine(queue.tenant.agent) as wire:
        review = wire.post(TOOL, asked).json["reviewId"]
    queue.approve(review)
    first, second = (queue.redeem(review, asked, headers={"Idempotency-Key": "pay-9"}).json for _ in range(2))
    assert first["wouldHave"] == {"decision": "deny", "rule": "deny:never", "policyName": "planned"}
    assert second.pop("replayed") is True
    assert second == first


def test_a_review_with_many_long_notes_can_be_read(queue):
    queue.tenant.policy("""
rules:
  - {id: left, actions: [fire], decision: human_review, review: {by: [left], approvals: 16}}
  - {id: right, actions: [fire], decision: human_review, review: {by: [right], approvals: 16}}
roles: {left: ["left*"], right: ["right*"]}
""", "many")
    people = [f"{side}{n}" for n in range(16) for side in ("left", "right")]
    keys = {name: queue.tenant.key(f"{name}-desk", ["reviewer"], owner_is=name, wait=False) for name in people}
    queue.stack.wait_followed()
    review = queue.ask("fire", args={"why": "x" * 50000})["review_id"]
    note = "\N{OWL}" * 2000
    for name in people:
        reply = queue.approve(review, keys[name], note=note)
        assert reply.status == 200, (name, reply)
    item = queue.get(review).json
    assert item["status"] == "approved" and [vote["note"] for vote in item["approvals"]] == [note] * 32


def test_two_keys_of_one_name_do_not_answer_for_each_other(queue):
    alice = queue.tenant.key("shared-name", ["agent"], owner_is="alice", wait=False)
    carla = queue.tenant.key("shared-name", ["agent"], owner_is="carla", wait=False)
    desk = queue.tenant.key("carla-laptop", ["reviewer"], owner_is="carla")
    asked = {"action": "refund", "args": {"to": "carla"}}
    reviews = []
    for key in (alice, carla):
        with queue.stack.at_engine(key) as wire:
            reviews.append(wire.post(AGENT, asked).json["review_id"])
    assert reviews[0] != reviews[1], "neither may answer what they asked, so it is not one review"
    refused(queue.approve(reviews[1], key=desk), 403, "self_review")
    assert queue.approve(reviews[0], key=desk).status == 200
    for path in ("", "/wait?timeout_ms=0"):
        refused(queue.call("GET", f"/v1/queue/{reviews[0]}{path}", carla), 404, "not_found")
    refused(queue.redeem(reviews[0], asked, key=carla), 404, "not_found")
    assert queue.redeem(reviews[0], asked, key=alice).json["decision"] == "allow"


def test_of_two_keys_of_one_name_each_has_its_owners_vote(queue):
    """The second is not the first that repeats itself."""
    desks = [queue.tenant.key("laptop", ["reviewer"], owner_is=owner, wait=False) for owner in ("nina", "omar")]
    queue.stack.wait_followed()
    review = queue.ask("launch")["review_id"]
    assert [queue.approve(review, desk).json["status"] for desk in desks] == ["pending", "approved"]
    other = queue.ask("refund", args={"n": 12})["review_id"]
    assert queue.deny(other, desks[0]).status == 200
    refused(queue.deny(other, desks[1]), 409, "already_resolved")


def test_a_token_sees_no_review_of_another_person_its_actor_acts_for(queue):
    with queue.stack.at_engine(queue.tenant.agent) as wire:
        minted = {"scope": "*", "actor": "shop", "acting_for": "carl", "ttl_seconds": 600}
        token = wire.post("/v1/tokens/mint", minted).json["token"]
        other = wire.post(AGENT, {"action": "refund", "actor": "shop", "acting_for": "dave", "args": {"n": 1}}).json
    with queue.stack.at_engine(token) as wire:
        own = wire.post(AGENT, {"action": "refund", "args": {"n": 2}}).json
        assert wire.get(f"/v1/queue/{own['review_id']}").json["acting_for"] == "carl"
        refused(wire.get(f"/v1/queue/{other['review_id']}"), 404, "not_found")
        refused(wire.get(f"/v1/queue/{other['trace_id']}/wait?timeout_ms=0"), 404, "not_found")


def test_an_approval_does_not_outlive_what_its_rule_asks_for(queue):
    asked = {"action": "pay", "args": {"n": 3}}
    review = queue.ask(**asked)["review_id"]
    queue.tenant.policy(POLICY.replace("actions: [pay], decision: human_review, review: {by: [finance]}",
                                       "actions: [pay], decision: human_review, review: {by: [finance], approvals: 2}"))
    assert queue.ask(**asked)["review_id"] == review
    assert queue.approve(review, key=queue.carol).json["status"] == "approved", "the review's own terms are met"
    again = queue.redeem(review, asked).json
    assert (again["decision"], again["allowed"]) == ("human_review", False) and again["review_id"] != review
    assert queue.get(again["review_id"]).json["approvals_required"] == 2


def test_one_more_approval_is_enough_where_a_rule_has_come(queue):
    asked = {"action": "refund", "args": {"n": 4}}
    review = queue.ask(**asked)["review_id"]
    queue.approve(review)
    queue.tenant.policy(STRICTER)
    more = queue.redeem(review, asked).json
    assert more["decision"] == "human_review" and more["review_id"] != review
    assert queue.approve(more["review_id"]).json["status"] == "pending", "rita is of the board alone"
    assert queue.approve(more["review_id"], key=queue.carol).json["status"] == "approved"
    assert queue.redeem(more["review_id"], asked).json["decision"] == "allow"


def test_the_tool_route_and_people_redeem_in_their_own_form(queue):
    with queue.stack.at_engine(queue.tenant.agent) as wire:
        first = wire.post(TOOL, {"tool": "refund", "args": {"a": 1}}).json
        assert first["decision"] == "human_review" and first["reviewId"].startswith("rev_") and first["expiresAt"]
        queue.approve(first["reviewId"])
        spent = wire.post(f"/v1/queue/{first['reviewId']}/redeem", {"tool": "refund", "args": {"a": 1}}).json
    assert spent["decision"] == "allow" and spent["tool"] == "refund" and spent["redemptionId"] and spent["traceId"] == first["traceId"]

    person = queue.tenant.ask_user("ursula", "refund")
    assert queue.get(person["review_id"]).json["kind"] == "user"
    queue.approve(person["review_id"])
    spent = queue.redeem(person["review_id"], {"user_id": "ursula", "action": "refund"}).json
    assert spent["decision"] == "allow"


def test_a_redemption_takes_the_role_of_its_decision(queue):
    asker = queue.tenant.key("desk", ["agent"], owner_is="desk", wait=False, actors=["*"])
    people = queue.tenant.key("desk", ["app"], owner_is="desk", users=["*"])
    asked = {"action": "refund", "actor": "bot", "args": {"a": 1}}
    review = queue.call("POST", AGENT, asker, asked).json["review_id"]
    queue.approve(review)
    refused(queue.redeem(review, asked, people), 403, "missing_role")
    person = queue.call("POST", "/v1/authorize", people, {"user_id": "uma", "action": "refund"}).json["review_id"]
    queue.approve(person)
    refused(queue.redeem(person, {"user_id": "uma", "action": "refund"}, asker), 403, "missing_role")
    assert queue.redeem(review, asked, asker).json["allowed"] is True
    assert queue.redeem(person, {"user_id": "uma", "action": "refund"}, people).json["allowed"] is True


def test_null_is_absent_in_a_redemption_too(queue):
    """Clients that send every member they know, null where they have none, get the form that they asked in."""
    asked = {"action": "refund", "tool": None, "user_id": None, "args": None}
    review = queue.ask(**asked)["review_id"]
    queue.approve(review)
    spent = queue.redeem(review, asked)
    assert spent.status == 200 and spent.json["allowed"] is True, spent


def test_a_member_in_the_other_casing_resolves_nothing(queue):
    review = queue.ask("refund")["review_id"]
    for body in ({"resolvedBy": "zoe"}, {"resolved_by": "zoe", "tenantId": "other"}):
        for reply in (queue.approve(review, **body), queue.deny(review, **body)):
            assert refused(reply, 400, "wrong_case")["field"] == f"/{[*body][-1]}"
    refused(queue.call("POST", f"/v1/queue/{review}/cancel", queue.tenant.agent, {"tenantId": "other"}), 400, "wrong_case")
    refused(queue.call("POST", "/v1/actors/bot/suspend", queue.tenant.admin, {"tenantId": "other"}), 400, "wrong_case")
    assert queue.get(review).json["status"] == "pending"


@pytest.mark.parametrize("target", ["/v1/queue?actor=", "/v1/queue?action=", "/v1/queue/pending?actor=", "/v1/queue/pending?action=",
                                    "/v1/tokens?actor=", "/v1/tokens?acting_for="])
def test_a_filter_is_as_long_as_a_name_may_be(queue, target):
    key = queue.tenant.agent if "tokens" in target else queue.rita
    assert queue.call("GET", target + quote("é" * 256), key).status == 200
    assert refused(queue.call("GET", target + quote("é" * 257), key), 400, "bad_parameter")["error"].endswith("is longer than 256 characters")


def test_a_compute_that_was_approved_is_good_once(queue):
    queue.tenant.policy("""rules:
  - {id: safe, agents: ["*"], actions: [store], decision: compute, compute: {tool: write_file, args: {path: "${args.path}"}}}
  - {id: asked, actions: [store], decision: human_review}
""", name="stores")
    asked = {"action": "store", "args": {"path": "x"}}
    review = queue.ask(**asked)["review_id"]
    assert queue.approve(review).status == 200
    first = queue.redeem(review, asked).json
    assert (first["decision"], first["rule"], first["safe_args"]) == ("compute", "compute:safe", {"path": "x"})
    assert first["redemption_id"] and first["allowed"] is False
    assert queue.redeem(review, asked).json["rule"] == "review:redeemed"
    assert queue.get(review).json["status"] == "redeemed"


def test_what_a_person_lets_through_over_a_limit_is_let_through_once(queue):
    queue.tenant.policy("""rules:
  - {id: few, agents: ["*"], actions: [mail], decision: allow, limit: {per: actor, window: 1h, sum: args.n, max: 10, over: human_review}}
""", name="mails")
    assert queue.ask("mail", args={"n": 4})["decision"] == "allow"
    asked = {"action": "mail", "args": {"n": 8}}
    over = queue.ask(**asked)
    assert (over["decision"], over["rule"]) == ("human_review", "limit:few")
    review = over["review_id"]
    assert queue.approve(review).status == 200
    assert queue.redeem(review, {**asked, "args": {"n": 9}}).json["rule"] == "review:binding"
    assert queue.redeem(review, asked).json["rule"] == "allow:few"
    assert queue.redeem(review, asked).json["rule"] == "review:redeemed"
    assert queue.ask("mail", args={"n": 5})["rule"] == "limit:few", "it counts all the same"


def test_a_redemption_in_another_trace_is_told_in_that_of_the_question(queue):
    asked = {"action": "refund", "args": {"n": 3}}
    first = queue.ask(**asked)
    assert queue.approve(first["review_id"]).status == 200
    spent = queue.redeem(first["review_id"], {**asked, "trace_id": "another-day"}).json
    assert (spent["decision"], spent["trace_id"]) == ("allow", "another-day")
    told = queue.tenant.trace(first["trace_id"], 4)
    assert [event["kind"] for event in told] == ["decision", "review.enqueued", "review.approved", "review.redeemed"]
    assert told[3]["request_id"] == spent["request_id"]
    assert [event["kind"] for event in queue.tenant.trace("another-day", 1)] == ["decision"]


def test_a_redemption_is_repeated_to_the_key_that_made_it_alone(queue):
    """Another one of the same name and owner may redeem, too, and may mean something else by its Idempotency-Key."""
    keys = [queue.tenant.key("twins", ["agent"], owner_is="tess") for _ in range(2)]
    asked, again = {"action": "refund", "args": {"n": 4}}, {"Idempotency-Key": "again"}
    review = queue.call("POST", AGENT, keys[0], asked).json["review_id"]
    assert queue.approve(review).status == 200
    assert queue.redeem(review, asked, keys[0], again).json["decision"] == "allow"
    assert queue.redeem(review, asked, keys[0], again).json["replayed"] is True
    assert queue.redeem(review, asked, keys[1], again).json["rule"] == "review:redeemed"


def test_more_rules_than_a_review_can_hold_are_a_deny(queue):
    rules = "".join(f"  - {{id: r{i}, actions: [crowd], decision: human_review, review: {{by: [role-{i}]}}}}\n" for i in range(40))
    roles = ", ".join(f"role-{i}: [zoe]" for i in range(40))
    queue.tenant.policy(f"roles: {{{roles}}}\nrules:\n" + rules, name="crowds")
    denied = queue.ask("crowd")
    assert (denied["decision"], denied["rule"]) == ("deny", "limit:record")


def test_a_policy_that_became_stricter_wins_over_an_approval(queue):
    asked = {"action": "refund", "args": {"n": 2}}
    review = queue.ask(**asked)["review_id"]
    queue.approve(review)
    queue.tenant.policy("rules:\n  - {id: stop, actions: [refund], decision: deny}\n", name="stricter")
    denied = queue.redeem(review, asked).json
    assert (denied["decision"], denied["rule"]) == ("deny", "deny:stop")
    assert "redemption_id" not in denied
    assert queue.get(review).json["status"] == "approved", "a denial spends nothing"


def test_what_a_redemption_asks_of_people_covers_what_was_approved(queue):
    """Else each approval would lack what the other has, and no number of them would ever do."""
    rules = """rules:
  - {id: pays, agents: ["*"], actions: [wire], decision: allow, confidence: {allow_at: 0.9, review_at: 0.5}}
  - {id: first, actions: [wire], decision: human_review, review: {by: [finance]}}
"""
    queue.tenant.policy(rules, name="wires")
    asked = {"action": "wire", "args": {"n": 1}, "confidence": 1}
    first = queue.ask(**asked)
    assert queue.approve(first["review_id"], resolved_by="carol").json["status"] == "approved"

    queue.tenant.policy(rules + "  - {id: second, actions: [wire], decision: human_review, review: {by: [legal]}}\n", name="wires")
    unsure = {**asked, "confidence": 0.7}
    second = queue.redeem(first["review_id"], unsure).json
    assert second["decision"] == "human_review" and second["review_id"] != first["review_id"], second
    assert queue.approve(second["review_id"], resolved_by="lena").json["status"] == "pending", "finance is asked again"
    assert queue.approve(second["review_id"], queue.carol).json["status"] == "approved"
    assert queue.redeem(first["review_id"], asked).json["decision"] == "human_review", "that one was approved by finance only"
    assert queue.redeem(second["review_id"], unsure).json["allowed"] is True


def test_a_trace_id_with_several_reviews_is_ambiguous(queue):
    for n in (1, 2):
        queue.ask("refund", args={"n": n}, trace_id="trip-1")
    refused(queue.get("trip-1"), 409, "ambiguous_trace")
    refused(queue.get("no-such-trace"), 404, "not_found")
    refused(queue.approve("trip-1"), 404, "not_found")


def test_nobody_resolves_their_own_request(queue):
    tenant = queue.tenant
    both = tenant.key("worker", ["agent", "reviewer"], actors=["*"], users=["*"], owner_is="wendy", reviewers=["*"])
    other = tenant.key("second", ["reviewer"], owner_is="wendy", reviewers=["*"])
    review = tenant.ask("refund", key=both, actor="bot", acting_for="carol")["review_id"]
    refused(queue.approve(review, both), 403, "self_review")
    refused(queue.approve(review, other, resolved_by="someone"), 403, "self_review")
    for name in ("bot", "carol", "wendy", "worker"):
        refused(queue.approve(review, resolved_by=name), 403, "self_review")
        refused(queue.deny(review, resolved_by=name.upper()), 403, "self_review")
    assert queue.approve(review).status == 200
    person = tenant.ask_user("ursula", "refund")["review_id"]
    refused(queue.approve(person, resolved_by="ursula"), 403, "self_review")


def test_only_whom_the_rule_names_may_resolve(queue):
    review = queue.ask("pay")["review_id"]
    refused(queue.approve(review), 403, "wrong_reviewer")
    refused(queue.deny(review), 403, "wrong_reviewer")
    refused(queue.approve(review, queue.carol, resolved_by="mallory"), 403, "wrong_reviewer")
    assert queue.approve(review, queue.carol).json["resolved_by"] == "carol"
    other = queue.ask("pay", args={"n": 1})["review_id"]
    assert queue.approve(other, resolved_by="dan@example.org").json["status"] == "approved"


def test_a_key_resolves_only_as_whom_it_may(queue):
    review = queue.ask("pay", args={"n": 9})["review_id"]
    lena = queue.tenant.key("lena-laptop", ["reviewer"], owner_is="lena")
    for resolve in (queue.approve, queue.deny):
        refused(resolve(review, lena, resolved_by="carol"), 403, "wrong_reviewer")
    assert queue.get(review).json["status"] == "pending"


def test_any_of_the_roles_that_a_rule_names_will_do(queue):
    queue.tenant.policy("rules:\n  - {id: any, actions: [sign], decision: human_review, review: {by: [finance, legal]}}\n", name="any")
    for person in ("carol", "lena"):
        review = queue.ask("sign", args={"by": person})["review_id"]
        assert queue.approve(review, resolved_by=person).status == 200
    error = refused(queue.approve(queue.ask("sign")["review_id"], resolved_by="eve"), 403, "wrong_reviewer")["error"]
    assert error == 'resolved_by: "eve" has none of the roles that this review asks for: finance, legal'


def test_a_key_of_the_name_that_asked_resolves_nothing_whoever_owns_it(queue):
    asks = queue.tenant.key("desk", ["agent"], owner_is="amy", actors=["bot"], wait=False)
    resolves = queue.tenant.key("desk", ["reviewer"], owner_is="bert", reviewers=["*"])
    review = queue.call("POST", AGENT, asks, {"action": "refund", "actor": "bot"}).json["review_id"]
    for resolve in (queue.approve, queue.deny):
        refused(resolve(review, resolves), 403, "self_review")
        refused(resolve(review, resolves, resolved_by="zoe"), 403, "self_review")
    assert queue.approve(review).status == 200


def test_every_rule_that_asked_has_to_be_met(queue):
    review = queue.ask("merge")["review_id"]
    half = queue.approve(review, queue.carol).json
    assert half["status"] == "pending" and [vote["resolved_by"] for vote in half["approvals"]] == ["carol"]
    whole = queue.approve(review, resolved_by="lena").json
    assert whole["status"] == "approved" and len(whole["approvals"]) == 2


def test_a_quorum_counts_owners_and_votes_are_final(queue):
    review = queue.ask("launch")["review_id"]
    first = queue.approve(review).json
    assert first["status"] == "pending" and first["approvals_required"] == 2 and len(first["approvals"]) == 1
    twin = queue.tenant.key("rita-phone", ["reviewer"], owner_is="rita", reviewers=["*"])
    refused(queue.approve(review, twin, resolved_by="somebody"), 409, "already_voted")
    refused(queue.deny(review), 409, "already_voted")
    assert queue.approve(review).status == 200, "the same principal repeats its own vote"
    assert queue.get(review).json["status"] == "pending"
    assert queue.approve(review, queue.carol).json["status"] == "approved"


def test_a_refusal_has_the_trace_of_its_review(queue):
    asked = queue.ask("launch", actor="bot", trace_id="launch-1")
    review = asked["review_id"]
    assert refused(queue.approve(review, resolved_by="bot"), 403, "self_review")["trace_id"] == "launch-1"
    queue.approve(review)
    assert refused(queue.deny(review), 409, "already_voted")["trace_id"] == "launch-1"
    paid = queue.ask("pay", trace_id="pay-1")["review_id"]
    assert refused(queue.approve(paid), 403, "wrong_reviewer")["trace_id"] == "pay-1"


def test_one_person_with_two_keys_is_one_approval(queue):
    """A key of a review page, which speaks for all, beside a person's own."""
    page = queue.tenant.key("review-page", ["reviewer"], owner_is="page-team", reviewers=["*"])
    wanda = queue.tenant.key("wanda-cli", ["reviewer"], owner_is="wanda", reviewers=["*"])
    for first, second in (((page, "Wanda"), (wanda, None)), ((wanda, None), (page, "wanda\u200b")), ((page, "wanda"), (wanda, "xavier"))):
        review = queue.ask("launch", args={"as": first[1], "then": second[1]})["review_id"]
        assert queue.approve(review, first[0], **({"resolved_by": first[1]} if first[1] else {})).json["status"] == "pending"
        refused(queue.approve(review, second[0], **({"resolved_by": second[1]} if second[1] else {})), 409, "already_voted")
        assert len(queue.get(review).json["approvals"]) == 1
        assert queue.approve(review, queue.carol).json["status"] == "approved"
    review = queue.ask("launch", args={"no": 1})["review_id"]
    assert queue.approve(review, page, resolved_by="wanda").json["status"] == "pending"
    assert queue.deny(review, wanda).json["status"] == "denied", "a no is heard from whoever has said yes by another key"


@pytest.mark.parametrize("asked, spelled", [("zo\u00eb", "ZO\u00cb"), ("zo\u00eb", "zoe\u0308"), ("rob", "rob "), ("rob", "\uff32ob"), ("rob", "r\u200bob")])
def test_nobody_is_somebody_else_by_spelling(queue, asked, spelled):
    for one, other in ((asked, spelled), (spelled, asked)):
        review = queue.tenant.ask_user(one, "refund")["review_id"]
        refused(queue.approve(review, resolved_by=other), 403, "self_review")
    assert queue.approve(review, resolved_by="zo\u00e9").status == 200


def test_an_address_is_the_person_of_its_local_part(queue):
    """Who asks for erin, a reviewer may not resolve as erin@corp.example, nor as a name that looks like erin."""
    key = queue.tenant.key("pay-bot", ["agent"], owner_is="erin", actors=["bot"])
    review = queue.call("POST", AGENT, key, {"action": "launch", "actor": "bot"}).json["review_id"]
    for name in ("erin@corp.example", "Erin+2@other.example", "\u0435rin", "\u0415RIN\uff20corp.example"):
        for resolve in (queue.approve, queue.deny):
            refused(resolve(review, resolved_by=name), 403, "self_review")
    assert queue.approve(review, resolved_by="frank@corp.example").json["status"] == "pending"
    page = queue.tenant.key("review-page", ["reviewer"], owner_is="page-team", reviewers=["*"])
    for name in ("frank@other.example", "FRANK", "fr\u0430nk", "rita@corp.example"):
        refused(queue.approve(review, page, resolved_by=name), 409, "already_voted")
    assert queue.approve(review, page, resolved_by="carol@corp.example").json["status"] == "approved"


def test_a_vote_can_be_repeated_whoever_has_the_role_now(queue):
    """Who did not hear the answer asks again, and is told of the vote that counts."""
    queue.tenant.policy("rules:\n  - {id: two-of-finance, actions: [settle], decision: human_review, review: {by: [finance], approvals: 2}}\n", name="settle")
    review = queue.ask("settle")["review_id"]
    assert queue.approve(review, queue.carol).json["status"] == "pending"
    queue.tenant.policy(POLICY.replace("finance: [carol,", "finance: ["))
    again = queue.approve(review, queue.carol)
    assert again.status == 200 and len(again.json["approvals"]) == 1, again
    refused(queue.approve(review, resolved_by="carol"), 403, "wrong_reviewer")
    refused(queue.deny(review, resolved_by="carol"), 403, "wrong_reviewer")


def test_a_resolution_is_final_and_names_its_winner(queue):
    review = queue.ask("refund", args={"n": 5})["review_id"]
    assert queue.deny(review, queue.carol, note="no").json["status"] == "denied"
    assert queue.deny(review, queue.carol).status == 200, "repeating one's own outcome"
    lost = refused(queue.approve(review), 409, "already_resolved")
    assert lost["error"] == "the review is denied already, by carol" and lost["resolved_by"] == "carol" and lost["status"] == "denied"
    refused(queue.approve(review, queue.carol), 409, "already_resolved")
    assert queue.redeem(review, {"action": "refund", "args": {"n": 5}}).json["rule"] == "review:denied"


def test_reviews_and_approvals_expire(queue):
    lapsed = queue.stack.metrics(queue.stack.engine)["writ_engine_approvals_lapsed_total"]
    quick = queue.ask("quick")["review_id"]
    brief = queue.ask("brief")["review_id"]
    queue.approve(brief)
    for review in (quick, brief):
        harness.eventually(lambda: queue.get(review).json["status"] == "expired", "its time is over")
    assert refused(queue.approve(quick), 409, "already_resolved")["error"] == "the review is expired already"
    assert queue.redeem(brief, {"action": "brief"}).json["rule"] == "review:expired"
    again = queue.approve(brief)
    assert again.status == 200 and again.json["status"] == "expired", "who did not hear the answer asks again"
    late = refused(queue.approve(brief, queue.carol), 409, "already_resolved")
    assert late["error"] == "the review was approved by rita, and is expired now" and late["resolved_by"] == "rita"
    queue.stack.wait_published()
    assert len(queue.tenant.events(kind="review.expired")) == 1
    assert [event["review_id"] for event in queue.tenant.events(kind="review.lapsed")] == [brief]
    harness.eventually(lambda: queue.stack.metrics(queue.stack.engine)["writ_engine_approvals_lapsed_total"] == lapsed + 1, "it is counted")


def test_who_waits_is_woken_by_the_resolution(queue):
    review = queue.ask("refund", args={"n": 6})["review_id"]
    waits_longest = 60

    def waiting():
        return queue.stack.metrics(queue.stack.engine)["writ_engine_waits"]

    harness.eventually(lambda: waiting() == 0, "nobody else waits any more")
    started = time.monotonic()
    with queue.stack.at_engine(queue.tenant.agent) as wire:
        wire.send(wire.encode("GET", f"/v1/queue/{review}/wait?timeout_ms={waits_longest * 1000}"))
        harness.eventually(lambda: waiting() == 1, "it waits")
        queue.approve(review)
        reply = wire.read_reply()
    assert reply.status == 200 and reply.json["status"] == "approved"
    assert time.monotonic() - started < waits_longest, "not by its time, at which it would be told so, too"


def test_a_wait_that_is_over_tells_that_it_is_pending(queue):
    first = queue.ask("refund", args={"n": 7})
    reply = queue.call("GET", f"/v1/queue/{first['trace_id']}/wait?timeout_ms=100", queue.tenant.agent)
    assert reply.status == 200 and reply.json["status"] == "pending"
    refused(queue.call("GET", f"/v1/queue/{first['review_id']}/wait?timeout_ms=60001", queue.tenant.agent), 400, "bad_parameter")
    refused(queue.call("GET", f"/v1/queue/{first['review_id']}/wait?timeout_ms=x", queue.tenant.agent), 400, "bad_parameter")


def test_who_waits_leaves_others_their_connections(fresh):
    """Of 41 connections all waits have 30, one of two tenants half of these, and one of its two keys half of that."""
    stack = fresh(engine=["--reactors", "1", "--http.connections", "40"]).start()
    stack.policy("base", POLICY)
    second = stack.key("second", ["agent"], actors=["*"])
    other = stack.key("other", ["agent"], tenant="other", actors=["*"])
    stack.policy("base", POLICY, tenant="other")
    opened = []

    def wait(key):
        with stack.at_engine(key) as wire:
            review = wire.post(AGENT, {"action": "refund", "actor": "x", "args": {"key": key}}).json["review_id"]
        wire = stack.at_engine(key).open()
        opened.append(wire)
        wire.send(wire.encode("GET", f"/v1/queue/{review}/wait?timeout_ms=60000"))
        return wire

    def all_wait(count):
        harness.eventually(lambda: stack.metrics(stack.engine)["writ_engine_waits"] == count, f"{count} wait")

    def over(reply, code, most):
        assert f"the most waits that it may have at a time here, {most}:" in refused(reply, 429, code)["error"]
        assert (reply.header("retry-after"), reply.header("ratelimit-policy")) == ("10", f'"waits";q={most}')

    try:
        wait(second)
        all_wait(1)
        first = [wait("agent") for _ in range(15)][0]
        all_wait(16)
        with stack.at_engine() as wire:
            minted = wire.post("/v1/tokens/mint", {"actor": "x", "scope": "*", "ttl_seconds": 300}).json
        for key in ("agent", minted["token"]):
            over(wait(key).read_reply(), "quota_key", 15)
        for _ in range(14):
            wait(second)
        all_wait(30)
        over(wait(second).read_reply(), "quota_key", 15)
        wait(other)  # though the first tenant has all places
        all_wait(31)
        over(wait(second).read_reply(), "quota_key", 7)
        for _ in range(20):  # each a connection of its own, all of which stay open
            opened.append(stack.at_engine(other).open())
            assert opened[-1].post(AGENT, {"action": "not_known", "actor": "x"}).json["decision"] == "deny"
        first.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close() resets
        first.close()
        all_wait(30)
        wait(other)
        all_wait(31)
    finally:
        for wire in opened:
            wire.close()


def test_who_asked_may_cancel_and_nobody_else(queue):
    asked = {"action": "refund", "args": {"n": 8}}
    review = queue.ask(**asked)["review_id"]
    refused(queue.call("POST", f"/v1/queue/{review}/cancel", queue.rita), 403, "missing_role")
    other = queue.tenant.key("other-agents", ["agent"], actors=["*"])
    refused(queue.call("POST", f"/v1/queue/{review}/cancel", other), 404, "not_found")
    refused(queue.redeem(review, asked, key=other), 404, "not_found")
    refused(queue.get(review, other), 404, "not_found")
    reply = queue.call("POST", f"/v1/queue/{review}/cancel", queue.tenant.agent)
    assert reply.status == 200 and reply.json["status"] == "cancelled", reply
    assert queue.redeem(review, asked).json["rule"] == "review:cancelled"


def test_pages_are_oldest_first_and_never_shift(queue):
    reviews = [queue.ask("refund", args={"n": n}, actor=f"bot-{n % 3}")["review_id"] for n in range(9)]
    page = queue.pending("?limit=4")
    assert [item["id"] for item in page["items"]] == reviews[:4]
    assert (page["count"], page["total"]) == (4, 9) and page["next_cursor"] > 0
    queue.deny(reviews[1])
    queue.ask("refund", args={"n": 99}, actor="bot-9")
    rest = queue.pending(f"?limit=500&cursor={page['next_cursor']}")
    assert [item["id"] for item in rest["items"]][:5] == reviews[4:] and rest["count"] == 6 and rest["next_cursor"] == 0
    assert queue.pending()["total"] == 9
    assert {item["actor"] for item in queue.pending("?actor=bot-2")["items"]} == {"bot-2"}
    assert queue.pending("?action=none")["total"] == 0
    denied = queue.call("GET", "/v1/queue?status=denied", queue.rita).json
    assert [item["id"] for item in denied["items"]] == [reviews[1]]
    refused(queue.call("GET", "/v1/queue?status=odd", queue.rita), 400, "bad_parameter")
    refused(queue.call("GET", "/v1/queue/pending", queue.tenant.auditor), 403, "missing_role")


def test_a_flood_of_reviews_of_one_actor_ends_in_a_limit(queue):
    with queue.stack.at_engine(queue.tenant.agent) as wire:
        answers = [wire.post(AGENT, {"action": "refund", "actor": "flood", "args": {"n": n}}).json for n in range(103)]
    assert [answer["decision"] for answer in answers[:100]] == ["human_review"] * 100
    assert {(answer["decision"], answer["rule"]) for answer in answers[100:]} == {("deny", "limit:pending")}
    assert queue.ask("refund", actor="another")["decision"] == "human_review"


def test_another_tenants_review_is_not_there(queue, stack):
    review = queue.ask("refund", args={"n": 10})["review_id"]
    stranger = stack.key("strangers", ["reviewer", "agent"], reviewers=["*"])
    for method, path in (("GET", ""), ("GET", "/wait"), ("POST", "/approve"), ("POST", "/deny"), ("POST", "/cancel")):
        refused(queue.call(method, f"/v1/queue/{review}{path}", stranger), 404, "not_found")
    refused(queue.redeem(review, {"action": "refund"}, key=stranger), 404, "not_found")


def test_a_suspended_actor_is_stopped_everywhere(queue):
    asked = {"action": "refund", "actor": "rogue", "args": {"n": 11}}
    pending, approved = queue.ask(**asked)["review_id"], queue.ask("pay", actor="rogue")["review_id"]
    queue.approve(approved, queue.carol)
    admin = queue.tenant.admin
    refused(queue.call("POST", "/v1/actors/rogue/suspend", queue.rita), 403, "missing_role")
    reply = queue.call("POST", "/v1/actors/rogue/suspend", admin, {"reason": "it drops tables"})
    assert reply.status == 200 and reply.json["suspended"] is True and reply.json["actor"] == "rogue", reply
    stopped = queue.ask("get_x", actor="rogue")
    assert (stopped["decision"], stopped["rule"], stopped["allowed"]) == ("deny", "actor:suspended", False)
    assert queue.get(pending).json["status"] == "denied"
    assert queue.redeem(approved, {"action": "pay", "actor": "rogue"}).json["rule"] == "actor:suspended"
    assert queue.redeem(approved, {"action": "pay", "actor": "rogue", "args": {"n": 1}}).json["rule"] == "actor:suspended"
    told = queue.tenant.ask("get_x", key=queue.tenant.auditor, query="?explain=true", actor="rogue")
    assert told["rule"] == "actor:suspended" and [rule["rule"] for rule in told["explain"] if rule["applies"]] == ["reads"]
    listed = queue.call("GET", "/v1/actors", admin).json
    assert [(one["actor"], one["reason"]) for one in listed["actors"]] == [("rogue", "it drops tables")]
    assert queue.ask("get_x", actor="honest")["decision"] == "allow"
    assert queue.call("POST", "/v1/actors/rogue/resume", admin).json["suspended"] is False
    assert queue.ask("get_x", actor="rogue")["decision"] == "allow"
    refused(queue.call("POST", "/v1/actors/rogue/resume", admin), 404, "not_found")


@pytest.mark.parametrize("actor", ["team/bot", "a b", "größe", "100%", "x?y#z", "..."])
def test_every_actor_that_may_ask_may_be_suspended(queue, actor):
    spellings = [actor, actor.swapcase(), f" {actor}\u2028"]
    assert queue.ask("get_x", actor=actor)["rule"] != "actor:suspended"
    pending = {spelling: queue.ask("refund", actor=spelling)["review_id"] for spelling in spellings}
    reply = queue.call("POST", f"/v1/actors/{quote(actor, safe='')}/suspend", queue.tenant.admin)
    assert reply.status == 200 and reply.json["actor"] == actor, reply
    for spelling in spellings:
        assert queue.get(pending[spelling]).json["status"] == "denied", repr(spelling)
        assert queue.ask("get_x", actor=spelling)["rule"] == "actor:suspended", repr(spelling)


def test_what_was_answered_is_still_true_after_a_crash(fresh):
    stack = fresh()
    stack.start()
    rita = stack.key("rita-laptop", ["reviewer"], owner="rita", reviewers=["*"])
    stack.policy("base", POLICY)
    asked = [{"action": "refund", "args": {"n": n}} for n in range(6)]
    with stack.at_engine("agent") as wire:
        reviews = [wire.post(AGENT, body).json["review_id"] for body in asked]
        assert wire.post(AGENT, {**asked[5], "trace_id": "asked-again"}).json["review_id"] == reviews[5]
    with stack.at_engine(rita) as wire:
        assert wire.post(f"/v1/queue/{reviews[0]}/approve").status == 200
        assert wire.post(f"/v1/queue/{reviews[1]}/deny").status == 200
        assert wire.post(f"/v1/queue/{reviews[2]}/approve").status == 200
    with stack.at_engine("agent") as wire:
        assert wire.post(f"/v1/queue/{reviews[2]}/redeem", asked[2]).json["decision"] == "allow"
        assert wire.post(f"/v1/queue/{reviews[3]}/cancel").status == 200
    for _ in range(3):
        stack.engine.kill()
        stack.engine.start()
    with stack.at_engine(rita) as wire:
        states = [wire.get(f"/v1/queue/{review}").json["status"] for review in reviews]
        assert states == ["approved", "denied", "redeemed", "cancelled", "pending", "pending"]
        assert wire.get("/v1/queue/pending").json["total"] == 2
    with stack.at_engine("agent") as wire:
        assert wire.post(f"/v1/queue/{reviews[2]}/redeem", asked[2]).json["rule"] == "review:redeemed"
        assert wire.post(f"/v1/queue/{reviews[0]}/redeem", asked[0]).json["decision"] == "allow"
        assert wire.post(AGENT, asked[4]).json["review_id"] == reviews[4]
        assert wire.get("/v1/queue/asked-again").json["id"] == reviews[5]


def test_what_a_review_and_its_redemption_spent_is_spent_after_a_crash(fresh):
    stack = fresh()
    stack.start()
    rita = stack.key("rita-laptop", ["reviewer"], owner="rita", reviewers=["*"])
    stack.policy("base", POLICY)
    stack.policy("wires", """rules:
  - {id: once, agents: ["*"], actions: [wire], decision: allow, limit: {per: actor, window: 1h, count: 1}}
  - {id: asked, actions: [wire], decision: human_review}
""")
    with stack.at_engine("agent") as wire:
        token = wire.post("/v1/tokens/mint", {"scope": "*", "max_uses": 4}).json["token"]

    def approved(n):
        with stack.at_engine("agent") as wire:
            review = wire.post(AGENT, {"action": "wire", "args": {"n": n}}).json["review_id"]
        with stack.at_engine(rita) as wire:
            assert wire.post(f"/v1/queue/{review}/approve").status == 200
        return review

    first = approved(1)
    with stack.at_engine(token) as wire:  # a new review, and the same again
        asked = [wire.post(AGENT, {"action": "refund"}).json for _ in range(2)]
        assert asked[0]["review_id"] == asked[1]["review_id"]
    with stack.at_engine("agent") as wire:
        assert wire.post(f"/v1/queue/{first}/redeem", {"action": "wire", "args": {"n": 1}}).json["decision"] == "allow"
    stack.engine.kill()
    stack.engine.start()
    second = approved(2)
    with stack.at_engine("agent") as wire:
        assert wire.post(f"/v1/queue/{second}/redeem", {"action": "wire", "args": {"n": 2}}).json["rule"] == "limit:once"
    with stack.at_engine(token) as wire:
        rules = [wire.post(AGENT, {"action": "get_x"}).json["rule"] for _ in range(3)]
    assert rules == ["allow:reads", "allow:reads", "token:uses"]


def test_notes_of_pipelined_approvals_do_not_mix(queue):
    """Each approval looks at its review first, which another reactor may own, while the next request's bytes come in."""
    reviews = [queue.ask("refund", actor=f"bot-{i}")["review_id"] for i in range(60)]
    notes = [f"{i:03d}" * (20 + i * 7) for i in range(len(reviews))]
    with queue.stack.at_engine(queue.rita) as wire:
        sent = [wire.encode("POST", f"/v1/queue/{review}/approve", {"note": note, "resolved_by": f"rita-{i}"})
                for i, (review, note) in enumerate(zip(reviews, notes))]
        sender = threading.Thread(target=wire.socket.sendall, args=(b"".join(sent),))
        sender.start()
        replies = [wire.read_reply() for _ in reviews]
        sender.join()
    for i, reply in enumerate(replies):
        assert reply.status == 200, reply
        assert (reply.json["resolution_note"], reply.json["resolved_by"]) == (notes[i], f"rita-{i}")


def test_cancel_reads_its_body_like_every_other_route(queue):
    review = queue.ask("refund")["review_id"]
    refused(queue.call("POST", f"/v1/queue/{review}/cancel", queue.tenant.agent, {"tenant_id": 7}), 400, "wrong_type")
    assert queue.get(review).json["status"] == "pending"
    done = queue.call("POST", f"/v1/queue/{review}/cancel", queue.tenant.agent, {"tenant_id": queue.tenant.name}).json
    assert done["status"] == "cancelled"


def test_many_values_in_one_request_neither_hide_the_queue_nor_break_a_wait(queue):
    """Such an item takes a hundred times its size to read: a page of them, and a wait, still answer."""
    many = {"a": [1] * 20_000}
    reviews = [queue.ask("refund", actor=f"bot-{i}", args=many)["review_id"] for i in range(12)]
    page = queue.pending("?limit=500")
    assert [item["id"] for item in page["items"]] == reviews and page["total"] == 12 and page["next_cursor"] == 0
    assert queue.call("GET", f"/v1/queue/{reviews[0]}/wait?timeout_ms=1", queue.rita).json["args"] == many
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(queue.call("GET", f"/v1/queue/{reviews[1]}/wait", queue.tenant.agent)))
    waiter.start()
    assert queue.approve(reviews[1]).json["args"] == many
    waiter.join()
    assert answers[0].status == 200 and answers[0].json["status"] == "approved" and answers[0].json["args"] == many


def test_a_page_of_large_reviews_is_cut_and_can_be_followed(queue):
    reviews = [queue.ask("refund", actor=f"bot-{i}", args={"a": "x" * 60_000})["review_id"] for i in range(300)]
    seen, cursor, pages = [], 0, 0
    while pages == 0 or cursor:
        page = queue.pending(f"?limit=500&cursor={cursor}")
        assert page["total"] == 300 and page["count"] == len(page["items"]) > 0
        seen += [item["id"] for item in page["items"]]
        cursor, pages = page["next_cursor"], pages + 1
    assert seen == reviews and pages > 1


def test_a_page_of_many_shards_is_not_larger_than_the_platform_hands_on(fresh):
    stack = fresh(engine=["--reactors", "8"])
    stack.start()
    stack.policy("base", POLICY)
    bots = stack.key("bots", ["agent"], actors=["*"], wait=False)
    rita = stack.key("rita", ["reviewer"], reviewers=["*"])
    with stack.at_engine(bots) as wire:
        for i in range(300):
            assert wire.post(AGENT, {"action": "refund", "actor": f"bot-{i}", "args": {"a": "x" * 59_000}}).json["review_id"]
    with stack.at_platform(rita) as wire:
        page = wire.get("/v1/queue/pending?limit=500")
    assert page.status == 200 and page.json["total"] == 300 and page.json["next_cursor"], page


def test_a_suspended_actor_is_not_told_again_what_it_was_allowed(queue):
    asked = {"action": "refund", "actor": "bot"}
    review = queue.ask(**asked)["review_id"]
    queue.approve(review)
    retry = {"Idempotency-Key": "once"}
    assert queue.redeem(review, asked, headers=retry).json["decision"] == "allow"
    assert queue.redeem(review, asked, headers=retry).json["replayed"] is True
    assert queue.call("POST", f"/v1/actors/bot/suspend?tenant_id={queue.tenant.name}", "root").status == 200
    again = queue.redeem(review, asked, headers=retry).json
    assert (again["decision"], again["rule"]) == ("deny", "actor:suspended") and "redemption_id" not in again
