"""What a person sees of the queue: who still has to vote, and which reviews wait."""

from queues import AGENT, queue, refused  # noqa: F401  the fixture

NEEDS = """
roles: {finance: [carol, "dan@*"], legal: [lena]}
rules:
  - {id: two-of-finance, actions: [settle], decision: human_review, review: {by: [finance, legal], approvals: 2}}
  - {id: one-of-legal, actions: [settle], decision: human_review, review: {by: [legal]}}
  - {id: anybody, actions: [settle], decision: human_review}
  - {id: often, agents: ["*"], actions: [often], decision: allow, limit: {per: actor, window: 1h, count: 1, over: human_review}, review: {by: [legal]}}
"""


def need(rule, approvals, so_far, by=None, policy="needs", **more):
    return {"policy_name": policy, "rule": rule, **({"by": by} if by else {}), "approvals": approvals, "so_far": so_far, **more}


def test_a_pending_review_names_who_still_has_to_vote(queue):
    queue.tenant.policy(NEEDS, name="needs")
    review = queue.ask("settle")["review_id"]
    two, one, any_one = ("two-of-finance", 2), ("one-of-legal", 1), ("anybody", 1)
    asked = queue.get(review).json
    assert asked["approvals_required"] == 2
    assert asked["needs"] == [need(*two, 0, ["finance", "legal"], voted=[]), need(*one, 0, ["legal"], voted=[]), need(*any_one, 0, voted=[])]
    half = queue.approve(review, resolved_by="dan@corp.example").json
    expected = [need(*two, 1, ["finance", "legal"], voted=["dan@corp.example"]), need(*one, 0, ["legal"], voted=[]), need(*any_one, 1, voted=["dan@corp.example"])]
    assert half["needs"] == expected
    assert [item["needs"] for item in queue.pending("?action=settle")["items"]] == [expected]
    page = queue.tenant.key("review-page", ["reviewer"], owner_is="page-team", reviewers=["*"])
    whole = queue.approve(review, page, resolved_by="lena").json
    assert whole["status"] == "approved" and "needs" not in whole, "no vote is needed any more"


def test_the_key_that_asked_is_not_shown_who_has_which_role(queue):
    queue.tenant.policy(NEEDS, name="needs")
    review = queue.ask("settle")["review_id"]
    assert queue.approve(review, queue.carol).status == 200
    expected = [need("two-of-finance", 2, 1, ["finance", "legal"]), need("one-of-legal", 1, 0, ["legal"]), need("anybody", 1, 1)]
    agent = queue.tenant.agent
    assert queue.get(review, agent).json["needs"] == expected
    assert queue.call("GET", f"/v1/queue/{review}/wait?timeout_ms=0", agent).json["needs"] == expected
    assert [item["needs"] for item in queue.call("GET", "/v1/queue?action=settle", agent).json["items"]] == [expected]


def test_a_limit_needs_the_people_of_its_rule(queue):
    queue.tenant.policy(NEEDS, name="needs")
    assert queue.ask("often")["decision"] == "allow"
    review = queue.ask("often")["review_id"]
    assert queue.get(review).json["needs"] == [need("often", 1, 0, ["legal"], voted=[])]


DEADLINES = """
roles: {finance: [carol]}
rules:
  - {id: slow, actions: [slow], decision: human_review, review: {expires_in: 3h}}
  - {id: soon, actions: [soon], decision: human_review, review: {expires_in: 1h}}
  - {id: later, actions: [later], decision: human_review, review: {expires_in: 2h}}
"""


def pages(queue, query, key=None):
    """All items, and how many pages they came in."""
    found, count, cursor = [], 0, 0
    while True:
        reply = queue.call("GET", f"/v1/queue{query}&cursor={cursor}", key or queue.rita)
        assert reply.status == 200, reply
        page = reply.json
        assert page["count"] == len(page["items"]) <= page["limit"]
        found += page["items"]
        count += 1
        if page["next_cursor"] == 0:
            return found, count
        assert page["next_cursor"] > cursor
        cursor = page["next_cursor"]


def test_what_is_pending_is_listed_by_deadline(queue):
    queue.tenant.policy(DEADLINES, name="deadlines")
    asked = [queue.ask(action, actor=f"bot-{n}", args={"n": n})["review_id"] for n in range(4) for action in ("slow", "soon", "later")]
    queue.deny(asked[0])
    found, count = pages(queue, "?order=deadline&limit=4")
    assert [item["action"] for item in found] == ["soon"] * 4 + ["later"] * 4 + ["slow"] * 3
    assert sorted(item["id"] for item in found) == sorted(asked[1:]) and count == 3
    assert [item["expires_at"] for item in found] == sorted(item["expires_at"] for item in found)
    assert queue.pending("?order=deadline&limit=10")["next_cursor"] < 2**53, "every client reads it exactly"
    assert [item["id"] for item in pages(queue, "?order=deadline&limit=1&actor=bot-1")[0]] == [asked[4], asked[5], asked[3]]
    assert [item["id"] for item in queue.pending("?order=age")["items"]] == asked[1:] == [item["id"] for item in queue.pending()["items"]]
    assert [item["id"] for item in queue.call("GET", "/v1/queue?order=deadline&limit=2", queue.tenant.agent).json["items"]] == [asked[1], asked[4]]


def test_mine_is_what_a_vote_of_the_key_would_help(queue):
    queue.tenant.policy(NEEDS, name="needs")
    ids = {action: queue.ask(action)["review_id"] for action in ("refund", "pay", "merge", "launch", "settle")}
    own = queue.tenant.key("carol-bot", ["agent"], owner_is="carol@corp.example", actors=["bot"])
    queue.call("POST", AGENT, own, {"action": "refund", "actor": "bot", "args": {"n": 2}})
    lena = queue.tenant.key("lena-laptop", ["reviewer"], owner_is="lena")
    page = queue.tenant.key("review-page", ["reviewer"], owner_is="page-team", reviewers=["lena", "dan@*"])
    everybody = set(ids)

    def mine(key):
        for query in ("?mine=true", "?mine=true&order=deadline&limit=2", "?mine=true&status=pending&limit=1"):
            found = {item["action"] for item in pages(queue, query, key)[0] if item["id"] in ids.values()}
            assert found == {item["action"] for item in pages(queue, "?mine=true", key)[0] if item["id"] in ids.values()}
        return found

    assert mine(queue.carol) == everybody, "finance"
    assert mine(lena) == everybody - {"pay"}, "legal"
    assert mine(page) == everybody, "whoever dan@* is"
    assert mine(queue.rita) == everybody, "a pattern may name somebody of each role"
    assert len(pages(queue, "?mine=true", lena)[0]) == 5 and len(pages(queue, "?mine=true", queue.carol)[0]) == 5, "not what she asked herself"

    assert queue.approve(ids["merge"], queue.carol).json["status"] == "pending"
    assert queue.approve(ids["launch"], queue.rita).json["status"] == "pending"
    assert mine(queue.carol) == everybody - {"merge"} and mine(queue.rita) == everybody - {"launch"}, "one vote a person"
    dan = queue.tenant.key("dan-laptop", ["reviewer"], owner_is="dan@corp.example")
    assert mine(dan) == everybody - {"merge"}, "finance has voted: only legal is still needed"
    assert mine(lena) == everybody - {"pay"}


def test_what_a_list_cannot_be_is_refused(queue):
    for query, text in (("?order=deadline&status=approved", "status: approved must be pending, or be left out, with order=deadline"),
                        ("?mine=true&status=denied", "status: denied must be pending, or be left out, with mine=true"),
                        ("?mine=yes", "mine: must be true or false"), ("?order=size", "order: must be age or deadline")):
        assert refused(queue.call("GET", f"/v1/queue{query}", queue.rita), 400, "bad_parameter")["error"] == text
    refused(queue.call("GET", "/v1/queue?mine=true", queue.tenant.agent), 403, "missing_role")
    assert queue.call("GET", "/v1/queue?mine=false&status=denied", queue.rita).status == 200
