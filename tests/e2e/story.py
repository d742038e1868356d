"""A day in the life of a stack, with every kind of event in it, and numbers that whoever tells it knows.

`tell(stack)` plays it on a fresh stack and gives a Story: what every count of the trail must be,
counted from what clients were told and not from any store.
"""

import collections

from browser import Browser
from harness import eventually

POLICY = """
roles: {finance: [carol, dan]}
mask: [args.card]
rules:
  - {id: reads, agents: ["*"], users: ["*"], actions: ["get_*", "list_*"], decision: allow}
  - {id: never-drop, actions: ["drop_*"], decision: deny, reason: Nothing is dropped here.}
  - {id: refunds, actions: [issue_refund], decision: human_review, reason: Refunds need finance., review: {by: [finance]}}
  - {id: quick, actions: [quick_refund], decision: human_review, reason: Quickly., review: {expires_in: 1s}}
  - {id: brief, actions: [brief_refund], decision: human_review, reason: Briefly., review: {good_for: 1s}}
  - {id: sandbox, agents: ["*"], actions: ["write_*_prod"], decision: compute, compute: {tool: write_file, args: {path: /sandbox/out}}}
  - {id: safe-write, agents: ["*"], actions: [write_file], decision: allow}
  - {id: credits, agents: ["*"], actions: [issue_credit], decision: allow, limit: {per: actor, window: 1h, count: 2, over: deny}}
"""
SHADOW = 'mode: shadow\nrules:\n  - {id: no-lists, actions: ["list_*"], decision: deny}\n'


class Story:
    """What clients were told, and who they were."""

    def __init__(self, stack):
        self.stack = stack
        self.decisions = []   # (answer, actor or user, action)
        self.reviews = {}     # review_id -> how it ended
        self.approved = collections.Counter()  # (who, outcome) -> reviews
        self.tokens = collections.Counter()    # (key's name, minted or revoked)
        self.kinds = collections.Counter()     # the trail's kinds other than decisions, where we know how many

    def counts(self, of, **where):
        """Live decisions by a member of the answer, or "who" or "action"."""
        found = collections.Counter()
        for answer, who, action in self.decisions:
            whole = {**answer, "who": who, "action": action}
            if answer["mode"] == "live" and all(whole.get(name) == value for name, value in where.items()):
                found[whole.get(of)] += 1
        return dict(found)

    # ---- doing ----

    def call(self, method, path, body=None, key="agent", status=(200, 201)):
        with self.stack.at_engine(key) as wire:
            reply = wire.request(method, path, body=body)
        assert reply.status in (status if isinstance(status, tuple) else (status,)), reply
        return reply.json

    def ask(self, action, times=1, key="agent", query="", **members):
        path = "/v1/authorize" if "user_id" in members else "/v1/agent/authorize"
        for n in range(times):
            body = {"action": action, "args": {"n": n, "card": "4111"}, **members}
            answer = self.call("POST", path + query, body, key)
            who = members.get("user_id") or members.get("actor")
            self.decisions.append((answer, who, action))
        return answer

    def review(self, action="issue_refund", actor="bot-a", n=0):
        answer = self.ask(action, actor=actor, args={"invoice": n, "card": "4111"})
        assert answer["decision"] == "human_review", answer
        self.kinds["review.enqueued"] += 1
        return answer["review_id"]

    def resolve(self, review, verb, by):
        self.call("POST", f"/v1/queue/{review}/{verb}", {"resolved_by": by, "note": f"{by} says so."}, "reviewer")
        outcome = {"approve": "approved", "deny": "denied"}[verb]
        self.reviews[review] = outcome
        self.approved[(by, outcome)] += 1
        self.kinds[f"review.{outcome}"] += 1


def tell_decisions(s):
    s.ask("get_invoice", 30, actor="bot-a")
    s.ask("get_invoice", 12, actor="bot-b")
    s.ask("list_invoices", 4, actor="bot-b")           # a shadow document would deny these
    s.ask("get_report", 3, user_id="carol")
    s.ask("drop_table", 5, actor="bot-a", resource={"type": "db", "id": "prod-1"})
    s.ask("drop_table", 2, actor="bot-b", resource="db:prod-2")
    s.ask("write_orders_prod", 4, actor="coder")
    s.ask("dance", 6, actor="bot-c", acting_for="erin")  # nothing is said of it: default:deny
    s.ask("issue_credit", 5, actor="bot-b")            # two are within the limit
    s.ask("get_invoice", 1, key="auditor", query="?dry_run=true", actor="bot-a")


def tell_reviews(s):
    first = [s.review(n=n) for n in range(6)]
    asked = {"action": "issue_refund", "actor": "bot-a", "args": {"invoice": 0, "card": "4111"}}
    s.resolve(first[0], "approve", "carol")
    s.resolve(first[1], "approve", "carol")
    s.resolve(first[2], "approve", "dan")
    s.resolve(first[3], "deny", "dan")
    s.call("POST", f"/v1/queue/{first[4]}/cancel")
    s.reviews[first[4]] = "cancelled"
    s.reviews[first[5]] = "pending"
    s.kinds["review.cancelled"] += 1
    answer = s.call("POST", f"/v1/queue/{first[0]}/redeem", asked)
    assert answer["allowed"], answer
    s.decisions.append((answer, "bot-a", "issue_refund"))
    s.reviews[first[0]] = "redeemed"
    s.kinds["review.redeemed"] += 1
    quick = s.review("quick_refund")
    eventually(lambda: s.call("GET", f"/v1/queue/{quick}")["status"] == "expired", "a review has expired")
    s.reviews[quick] = "expired"
    s.kinds["review.expired"] += 1
    brief = s.review("brief_refund")
    s.resolve(brief, "approve", "carol")
    eventually(lambda: s.call("GET", f"/v1/queue/{brief}")["status"] == "expired", "an approval has lapsed")
    s.kinds["review.lapsed"] += 1
    rogue = s.review(actor="rogue", n=7)
    s.call("POST", "/v1/actors/rogue/suspend", {"reason": "It repeats itself."}, "admin")
    s.ask("get_invoice", 3, actor="rogue")
    s.call("POST", "/v1/actors/rogue/resume", {}, "admin")
    s.reviews[rogue] = "denied"
    s.approved["admin-owner", "denied"] += 1
    s.kinds.update({"review.denied": 1, "actor.suspended": 1, "actor.resumed": 1})


def tell_tokens(s):
    minted = [s.call("POST", "/v1/tokens/mint", {"actor": "bot-t", "acting_for": "erin", "scope": "get_*", "ttl_seconds": 600}) for _ in range(3)]
    for answer in minted[:2]:
        s.ask("get_invoice", 2, key=answer["token"], actor="bot-t")
    s.ask("drop_table", 1, key=minted[0]["token"], actor="bot-t")  # token:scope
    s.call("DELETE", f"/v1/tokens/{minted[2]['token_id']}")
    s.call("POST", "/v1/agent/authorize", {"action": "get_x"}, minted[2]["token"], 401)
    s.call("POST", "/v1/agent/authorize", {"action": "get_x"}, "wk_nobody", 401)
    s.tokens.update({("agents", "token.minted"): 3, ("agents", "token.revoked"): 1})
    s.kinds.update({"token.minted": 3, "token.revoked": 1, "token.rejected": 1, "auth.failed": 1})


def tell_policies(s):
    stack = s.stack
    stack.policy("base", POLICY + "  - {id: ships, agents: ['*'], actions: [ship], decision: allow}\n")
    s.ask("get_invoice", 7, actor="bot-v2")
    with stack.at_platform("admin") as wire:
        assert wire.post("/api/v1/policies/base/rollback", {"version": 1}).status == 200
        stack.wait_followed()
        assert wire.put("/api/v1/policies/gone", {"content": SHADOW}).status == 201
        assert wire.delete("/api/v1/policies/gone").status == 200
        made = wire.post("/api/v1/keys", {"name": "brief", "owner": "brief", "roles": ["auditor"]}).json
        assert wire.delete(f"/api/v1/keys/{made['id']}").status == 200
        lost = {"node": "gone", "from_seq": 1, "next_seq": 5, "epoch": "0" * 16, "reason": "Its disk burnt."}
        with stack.at_platform("root") as root:
            assert root.post("/api/v1/audit/gaps", lost).status == 200
            assert root.post("/api/v1/audit/engine-keys", {"node": "gone", "public_key": "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="}).status == 200
            key = {"node": "gone", "public_key": "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="}
            assert root.post("/api/v1/audit/engine-keys:distrust", {**key, "reason": "It was on that disk."}).json["distrusted_from"] == 5
            assert root.post("/api/v1/audit/engine-keys", key).status == 400
            assert root.post("/api/v1/audit/streams:forget", {"node": "gone", "journal": "0", "force": True, "reason": "It is gone."}).status == 200
    stack.wait_followed()
    s.kinds["audit.gap"] = s.kinds["audit.forgotten"] = s.kinds["engine.trusted"] = s.kinds["engine.distrusted"] = 1
    s.kinds.update({"policy.put": 4, "policy.rolled_back": 1, "policy.deleted": 1, "key.revoked": 1})


def tell_sessions(s):
    with Browser(s.stack.platform.address) as browser:
        assert browser.sign_in(s.stack.keys["auditor"]).status == 201
        assert browser.request("DELETE", "/api/v1/session").status == 200
    s.kinds.update({"session.started": 1, "session.ended": 1})


def tell(stack):
    """Plays it and waits until all of it is in the store."""
    s = Story(stack)
    stack.keys["reviewer"] = stack.key("reviewers", ["reviewer"], reviewers=["carol", "dan"], wait=False)
    stack.policy("shadow", SHADOW, wait=False)
    stack.policy("base", POLICY)
    tell_decisions(s)
    tell_reviews(s)
    tell_tokens(s)
    tell_policies(s)
    tell_sessions(s)
    stack.engine.stop()
    stack.engine.start()
    s.kinds.update({"engine.started": 2, "engine.stopped": 1, "signer.rotated": 1})
    s.kinds["key.created"] = len(stack.keys) + 1
    with stack.at_platform("auditor") as wire:
        def recorded():
            kinds = [wire.get(f"/api/v1/audit?kind={kind}&limit=1").json["count"] for kind in ("auth.failed", "token.rejected")]
            return kinds == [1, 1]
        eventually(recorded, "refusals are recorded, once a second")
    stack.platform.stop()  # it records what was read in this minute
    stack.platform.start()
    stack.wait_published()
    return s
