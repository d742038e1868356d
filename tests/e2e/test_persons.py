"""People whom an identity provider has verified: what an engine takes from the platform's assertion about one, and what not."""

import pytest

from forge import Forge
from queues import queue  # noqa: F401
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
