"""People whom an identity provider has verified: what an engine takes from the platform's assertion about one, and what not."""

import base64
import hashlib
import time

import pytest

from browser import Browser
from forge import Forge, encode
from queues import AGENT, queue  # noqa: F401
from test_contract import refused


@pytest.fixture
def forge(queue):
    return Forge(queue)


# ---- what an assertion without a key gives ----

def test_a_person_without_a_key_votes_and_the_record_names_the_person(queue, forge):
    asked = {"action": "refund", "actor": "bot"}
    review = queue.ask(**asked)["review_id"]
    target = f"/v1/queue/{review}/approve"
    done = forge.send(forge.person("POST", target, person="erin"), "POST", target, {"note": "seen"})
    assert done.status == 200, done
    (vote,) = done.json["approvals"]
    assert (vote["resolved_by"], vote["owner"], vote["proof"], vote["note"]) == ("erin", "erin", "oidc", "seen") and "key_id" not in vote
    assert queue.redeem(review, asked).json["decision"] == "allow"
    queue.stack.wait_published()
    (event,) = queue.tenant.events(kind="review.approved")
    assert (event["proof"], event["resolved_by"]) == ("oidc", "erin") and "key_id" not in event


def test_a_person_denies_revokes_and_waits(queue, forge):
    def call(method, target, **members):
        return forge.send(forge.person(method, target, **members), method, target)

    review = queue.ask("pay", actor="bot")["review_id"]
    assert call("GET", f"/v1/queue/{review}").json["status"] == "pending"
    assert call("GET", f"/v1/queue/{review}/wait?timeout_ms=1").json["status"] == "pending"
    assert call("POST", f"/v1/queue/{review}/deny").json["status"] == "denied"
    review = queue.ask("refund", actor="bot")["review_id"]
    assert call("POST", f"/v1/queue/{review}/approve").json["status"] == "approved"
    assert call("POST", f"/v1/queue/{review}/revoke").json["cancelled_by"] == "revoked"
    assert call("POST", "/v1/actors/bob/suspend", roles=128, person="ada").status == 200
    assert call("POST", "/v1/actors/bob/resume", roles=128, person="ada").status == 200
    queue.stack.wait_published()
    for kind, person in (("review.denied", "carol"), ("review.cancelled", "carol"), ("actor.suspended", "ada"), ("actor.resumed", "ada")):
        (event,) = queue.tenant.events(kind=kind)
        assert event["resolved_by"] == person and "key_id" not in event, event


ROLES = [
    ("no role", {"roles": 0}, 403, "missing_role"),
    ("that of a policy admin", {"roles": 8}, 403, "missing_role"),
    ("that of an agent", {"roles": 4 | 1}, 401, "unauthenticated"),
    ("that of an application", {"roles": 4 | 2}, 401, "unauthenticated"),
    ("that of an engine", {"roles": 4 | 32}, 401, "unauthenticated"),
    ("one that does not exist", {"roles": 4 | 256}, 401, "unauthenticated"),
    ("no claims", {"claims": None}, 401, "unauthenticated"),
    ("a claim without a value", {"claims": [["groups"]]}, 401, "unauthenticated"),
    ("an empty claim", {"claims": [["groups", ""]]}, 401, "unauthenticated"),
    ("a claim that is no text", {"claims": [["groups", 5]]}, 401, "unauthenticated"),
    ("a claim of two lines", {"claims": [["groups", "a\nb"]]}, 401, "unauthenticated"),
    ("claims of another form", {"claims": {"groups": ["finance"]}}, 401, "unauthenticated"),
    ("a long claim", {"claims": [["groups", "x" * 257]]}, 401, "unauthenticated"),
    ("many claims", {"claims": [["g", str(i)] for i in range(65)]}, 401, "unauthenticated"),
    ("large claims", {"claims": [["g", str(i) + "x" * 240] for i in range(13)]}, 401, "unauthenticated"),
    ("no person", {"person": None}, 401, "unauthenticated"),
    ("no tenant", {"tenant": None}, 401, "unauthenticated"),
    ("the proof of a key", {"proof": "key"}, 401, "unauthenticated"),
]


@pytest.mark.parametrize("what, members, status, code", ROLES, ids=[one[0] for one in ROLES])
def test_an_assertion_about_a_person_is_refused(queue, forge, what, members, status, code):
    review = queue.ask("refund", actor="bot")["review_id"]
    target = f"/v1/queue/{review}/approve"
    refused(forge.send(forge.make("POST", target, **{"key": None, "proof": "oidc", "claims": [], **members}), "POST", target), status, code)
    assert queue.get(review).json["status"] == "pending"
    assert forge.send(forge.person("POST", target), "POST", target).status == 200, "nothing else was wrong"


def test_as_many_claims_as_may_be(queue, forge):
    target = "/v1/queue/pending"
    for claims in ([("groups", f"{i:036}") for i in range(64)], [("é" * 64, "ü" * 64)] * 12):
        assert forge.send(forge.person("GET", target, claims), "GET", target).status == 200


# ---- rules that ask for a verified person ----

PROVEN = """
roles:
  treasury: {people: [carol, rita], claims: {groups: [treasury, cash]}}
  board: {claims: {groups: [board], level: ["7", "8"]}}
  lawyers: [lena]
rules:
  - {id: wire, actions: [wire], decision: human_review, reason: Wires need a person., review: {by: [treasury], proof: oidc}}
  - {id: sell, actions: [sell], decision: human_review, review: {by: [board], approvals: 2, proof: oidc}}
  - {id: both-known, actions: [sue], decision: human_review, review: {proof: oidc}}
  - {id: both-any, actions: [sue], decision: human_review, review: {by: [lawyers]}}
"""
CASH = [("groups", "all"), ("groups", "cash")]


@pytest.fixture
def proven(queue):
    queue.tenant.policy(PROVEN, name="proven")
    return queue


def approve(forge, review, claims=(), outcome="approve", **members):
    target = f"/v1/queue/{review}/{outcome}"
    return forge.send(forge.person("POST", target, claims, **members), "POST", target)


def by_session(key, **members):
    def vote(queue, target, body):
        with Browser(queue.stack.platform.address) as browser:
            assert browser.sign_in(getattr(queue, key), **members).status == 201
            return browser.post(target, body)

    return vote


def by_key(key, **body):
    return lambda queue, target, sent: queue.call("POST", target, getattr(queue, key), body or sent)


def forged(method="POST", path=None, claims=CASH, again=False, changed=None, **members):
    """An assertion that is right but for these."""
    def vote(queue, target, body):
        forge, other = Forge(queue), queue.ask("refund", actor="other")["review_id"]
        made = {name: make(queue) if callable(make) else make for name, make in members.items()}
        one = forge.person(method, path(target, other) if path else target, claims, **made)
        if again:  # it was spent on a read of its own target before, which is the same call
            assert forge.send(one, "POST", target, {"note": 5}).status == 400
        if changed:
            head, sent, mac = one.split(".")
            one = ".".join((head, encode(base64.urlsafe_b64decode(sent + "==").replace(*changed)), mac))
        return forge.send(one, "POST", target, body)

    return vote


def secret_of(queue, key):
    return (getattr(queue, key, None) or queue.stack.keys[key]).encode()


UNPROVEN = [
    ("a session by key", by_session("carol"), 403, "proof_required"),
    ("a session by a key that names a person", by_session("rita", person="carol"), 403, "proof_required"),
    ("a key", by_key("carol"), 403, "proof_required"),
    ("a key that names a person", by_key("rita", resolved_by="carol"), 403, "proof_required"),
    ("a key with claims in the body", by_key("rita", resolved_by="zoe", claims={"groups": ["cash"]}), 400, "unknown_member"),
    ("a key with the proof in the body", by_key("rita", proof="oidc"), 400, "unknown_member"),
    ("an admin's key", lambda queue, target, body: queue.call("POST", target, queue.tenant.admin, body), 403, "missing_role"),
    ("a person of no such group", forged(person="zoe", claims=[("groups", "all"), ("Groups", "cash"), ("groups", "Cash"), ("role", "treasury")]), 403, "wrong_reviewer"),
    ("a person of another tenant", forged(tenant="default"), 404, "not_found"),
    ("a person without the role", forged(roles=8), 403, "missing_role"),
    ("an assertion twice", forged(again=True), 401, "assertion_refused"),
    ("one for another review", forged(path=lambda target, other: f"/v1/queue/{other}/approve"), 401, "assertion_refused"),
    ("one for a denial", forged(path=lambda target, other: target.replace("approve", "deny")), 401, "assertion_refused"),
    ("one for a read", forged(method="GET"), 401, "assertion_refused"),
    ("one older than a minute", forged(made_at=lambda queue: int(time.time() * 1000) - 61000), 401, "assertion_refused"),
    ("one with other claims", forged(claims=[("groups", "bash")], changed=(b"bash", b"cash")), 401, "unauthenticated"),
    ("one about another person", forged(person="zoe", changed=(b"zoe", b"rita")), 401, "unauthenticated"),
    ("one with a stolen admin key", forged(secret=lambda queue: secret_of(queue, "root")), 401, "unauthenticated"),
    ("one with the engine's key", forged(secret=lambda queue: secret_of(queue, "engine")), 401, "unauthenticated"),
    ("one with the key's digest", forged(secret=lambda queue: hashlib.sha256(secret_of(queue, "root")).digest()), 401, "unauthenticated"),
]


@pytest.mark.parametrize("what, vote, status, code", UNPROVEN, ids=[one[0] for one in UNPROVEN])
def test_no_approval_passes_without_a_verified_person(proven, what, vote, status, code):
    review = proven.ask("wire", actor="bot")["review_id"]
    told = refused(vote(proven, f"/v1/queue/{review}/approve", {}), status, code)
    if code == "proof_required":
        assert "(proof: oidc)" in told["error"] and "sign in there at the console" in told["error"]
    item = proven.get(review).json
    assert item["status"] == "pending" and item["approvals"] == []
    assert proven.redeem(review, {"action": "wire", "actor": "bot"}).json["allowed"] is False
    assert approve(Forge(proven), review, CASH, person="zoe").json["status"] == "approved", "nothing else was wrong"


def test_a_review_names_the_proof_that_it_needs(proven, forge):
    answer = proven.ask("wire", actor="bot")
    review = answer["review_id"]
    (need,) = proven.get(review).json["needs"]
    assert (need["rule"], need["by"], need["proof"]) == ("wire", ["treasury"], "oidc")
    shown = proven.stack.cli("queue", "show", review, "--engine", proven.stack.engine.url, key=proven.rita).stdout
    assert "0 of 1 by treasury (proof: oidc) for rule wire" in shown
    plain = proven.ask("refund", actor="bot")["review_id"]
    assert "proof" not in proven.get(plain).json["needs"][0]

    def mine(send):
        return {item["action"] for item in send("GET", "/v1/queue/pending?mine=true").json["items"]}

    assert mine(lambda method, path: proven.call(method, path, proven.carol)) == {"refund"}, "her key cannot approve the other"
    assert mine(lambda method, path: forge.send(forge.person(method, path), method, path)) == {"refund", "wire"}
    assert mine(lambda method, path: forge.send(forge.person(method, path, CASH, person="zoe"), method, path)) == {"refund", "wire"}
    assert mine(lambda method, path: forge.send(forge.person(method, path, person="zoe"), method, path)) == {"refund"}


def test_anyone_who_may_vote_may_deny(proven, forge):
    for vote in (lambda review: proven.deny(review, proven.carol), lambda review: proven.deny(review, resolved_by="carol"),
                 lambda review: approve(forge, review, CASH, "deny", person="zoe")):
        review = proven.ask("wire", actor="bot")["review_id"]
        assert vote(review).json["status"] == "denied"
    review = proven.ask("wire", actor="bot")["review_id"]
    refused(approve(forge, review, [("groups", "all")], "deny", person="zoe"), 403, "wrong_reviewer")


def test_a_quorum_of_verified_people(proven, forge):
    seven, eight = [("groups", "board"), ("level", "7")], [("level", "8"), ("groups", "board")]
    asked = {"action": "sell", "actor": "bot"}
    review = proven.ask(**asked)["review_id"]
    for claims in (seven[:1], seven[1:], [("groups", "board"), ("level", "9")]):
        refused(approve(forge, review, claims, person="yan"), 403, "wrong_reviewer")
    assert approve(forge, review, seven, person="yan").json["status"] == "pending"
    refused(approve(forge, review, eight, person="yan@corp.example"), 409, "already_voted")
    done = approve(forge, review, eight, person="zoe").json
    assert done["status"] == "approved" and [vote["proof"] for vote in done["approvals"]] == ["oidc", "oidc"]
    assert proven.redeem(review, asked).json["decision"] == "allow"


def test_all_rules_have_to_be_met_with_the_strictest_proof(proven, forge):
    lena = proven.tenant.key("lena-laptop", ["reviewer"], owner_is="lena")
    review = proven.ask("sue", actor="bot")["review_id"]
    assert [need.get("proof") for need in proven.get(review).json["needs"]] == ["oidc", None]
    refused(proven.approve(review, lena), 403, "proof_required")
    assert approve(forge, review, person="zoe").json["status"] == "pending", "any verified person, but a lawyer has to agree, too"
    assert approve(forge, review, person="lena").json["status"] == "approved"


def test_the_requester_may_not_approve_as_a_verified_person(proven, forge):
    both = proven.tenant.key("both", ["agent"], owner_is="zoe", actors=["*"])
    with proven.stack.at_engine(both) as wire:
        review = wire.post(AGENT, {"action": "wire", "actor": "bot"}).json["review_id"]
    refused(approve(forge, review, CASH, person="zoe@corp.example"), 403, "self_review")
    assert approve(forge, review, CASH, person="yan").json["status"] == "approved"


CHANGES = [
    ("the group gives the role no more", ("groups: [treasury, cash]", "groups: [treasury]"), False),
    ("the role has another claim beside it", ("groups: [treasury, cash]", "groups: [treasury, cash], level: [x]"), False),
    ("another group gives it, too", ("groups: [treasury, cash]", "groups: [treasury, cash, more]"), True),
    ("the rule asks for no proof any more", (", proof: oidc}}", "}}"), True),
    ("the rule asks for another role", ("by: [treasury], proof", "by: [lawyers], proof"), False),
]


@pytest.mark.parametrize("what, change, holds", CHANGES, ids=[one[0] for one in CHANGES])
def test_an_approval_rests_on_the_claims_of_the_vote(proven, forge, what, change, holds):
    asked = {"action": "wire", "actor": "bot"}
    review = proven.ask(**asked)["review_id"]
    assert approve(forge, review, CASH, person="zoe").json["status"] == "approved"
    assert change[0] in PROVEN
    proven.tenant.policy(PROVEN.replace(*change), name="proven")
    assert proven.redeem(review, asked).json["decision"] == ("allow" if holds else "human_review")


def test_a_rule_that_asks_for_proof_now_takes_no_earlier_approval(proven):
    proven.tenant.policy(PROVEN.replace(", proof: oidc", ""), name="proven")
    asked = {"action": "wire", "actor": "bot"}
    review = proven.ask(**asked)["review_id"]
    assert proven.approve(review, proven.carol).json["status"] == "approved"
    proven.tenant.policy(PROVEN, name="proven")
    answer = proven.redeem(review, asked).json
    assert answer["decision"] == "human_review" and answer["review_id"] != review
    assert proven.get(answer["review_id"]).json["needs"][0]["proof"] == "oidc"


def test_proof_and_claims_outlive_the_engine(fresh):
    """From the journal, and from a snapshot."""
    stack = fresh().start()
    stack.policy("proven", PROVEN)
    forge = Forge.of(stack, "default")
    with stack.at_engine() as wire:
        reviews = [wire.post(AGENT, {"action": action, "actor": "invoice_bot"}).json["review_id"] for action in ("wire", "sue")]
    assert approve(forge, reviews[0], CASH, person="zoe").json["status"] == "approved"
    for end in (stack.engine.kill, stack.engine.stop):  # the second writes a snapshot
        end()
        stack.engine.start()
        reviewer = stack.key(f"rita-{end.__name__}", ["reviewer"], owner="rita")
        target = f"/v1/queue/{reviews[1]}/approve"
        with stack.at_engine(reviewer) as wire:
            refused(wire.post(target), 403, "proof_required")
            assert wire.get(f"/v1/queue/{reviews[1]}").json["needs"][0]["proof"] == "oidc"
    with stack.at_engine() as wire:
        assert wire.post(f"/v1/queue/{reviews[0]}/redeem", {"action": "wire", "actor": "invoice_bot"}).json["decision"] == "allow"


def test_names_of_requests_get_no_role_by_claims(proven):
    """A user whom an application names has no claims, whatever the request contains."""
    proven.tenant.policy("""
roles: {cash: {claims: {groups: [cash]}}}
rules: [{id: a, roles: [cash], actions: [count], decision: allow}]""", name="people")
    app = proven.tenant.key("app", ["app"], users=["*"])
    with proven.stack.at_engine(app) as wire:
        answer = wire.post("/v1/authorize", {"action": "count", "user_id": "zoe", "context": {"groups": ["cash"]}})
        assert answer.json["decision"] == "deny", answer
        answer = wire.post("/v1/authorize", {"action": "count", "user_id": "zoe", "claims": {"groups": ["cash"]}, "proof": "oidc"})
        assert answer.json["decision"] == "deny", answer


def test_an_explanation_names_the_proof(proven):
    with proven.stack.at_engine(proven.tenant.admin) as wire:
        told = wire.post(AGENT + "?explain=true", {"action": "wire", "actor": "bot", "tenant_id": proven.tenant.name})
    (why,) = [rule["why"] for rule in told.json["explain"] if rule["rule"] == "wire"]
    assert why == "applies; its approvals need proof: oidc"
