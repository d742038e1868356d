"""Agents that retry while the engine is killed: they get the same review, find it again, and redeem it once.

Each round has 64 agents at once for each of three behaviours, one `kill -9` at a random moment among them, and a restart:

- the same request again while people approve its review;
- an agent that lost its review id lists its own reviews, and goes on with that one;
- a redemption is repeated with its Idempotency-Key, by other tokens of the same actor.

The short form runs in every ops/test; WRIT_LONG=1 runs 200 rounds. WRIT_SEED repeats the moments.
"""

import concurrent.futures
import os
import random
import time

import harness
from wire import Closed

ASK = "/v1/agent/authorize"
AT_ONCE = 64
ROUNDS = 200 if harness.LONG else 3
SEED = int(os.environ.get("WRIT_SEED", time.time_ns() % 1_000_000))
POLICY = """
rules:
  - {id: reads, agents: ["*"], actions: ["get_*"], decision: allow}
  - {id: refunds, agents: ["*"], actions: [refund], decision: human_review, limit: {per: actor, window: 1h, count: 2}}
"""


class Round:
    """One actor asks and loses its review id, another redeems."""

    def __init__(self, stack, reviewer, number):
        self.stack, self.reviewer = stack, reviewer
        self.asker, self.redeemer = f"asker-{number}", f"redeemer-{number}"
        self.asked = {"action": "refund", "args": {"n": number}}
        self.tokens = {actor: [self.mint(actor) for _ in range(2)] for actor in (self.asker, self.redeemer)}
        self.review = self.call("POST", ASK, self.token(self.asker), self.asked)["review_id"]
        self.approved = self.call("POST", ASK, self.token(self.redeemer), self.asked)["review_id"]
        assert self.vote(self.approved) == "approved"
        self.retry = {"Idempotency-Key": f"round-{number}"}

    def call(self, method, path, key, body=None, headers=None):
        with self.stack.at_engine(key) as wire:
            reply = wire.request(method, path, body=body, headers=headers)
        assert reply.status in (200, 201), reply
        return reply.json

    def mint(self, actor):
        return self.call("POST", "/v1/tokens/mint", "agent", {"scope": "*", "actor": actor})["token"]

    def token(self, actor):
        return self.tokens[actor][-1]

    def vote(self, review):
        return self.call("POST", f"/v1/queue/{review}/approve", self.reviewer)["status"]

    def ask(self, n=0):
        answer = self.call("POST", ASK, self.tokens[self.asker][n % 2], self.asked)
        return answer["decision"], answer["review_id"], answer.get("review_status", "pending")

    def listed(self, n=0):
        page = self.call("GET", "/v1/queue", self.tokens[self.asker][n % 2])
        assert page["total"] == 1, page
        return [(item["id"], item["status"]) for item in page["items"]]

    def redeem(self, n=0):
        answer = self.call("POST", f"/v1/queue/{self.approved}/redeem", self.tokens[self.redeemer][n % 2], self.asked, self.retry)
        return answer["decision"], answer["request_id"], answer.get("replayed", False)


def until_the_end(action, n):
    """The answers to `action`, again and again until the engine goes away."""
    answers = []
    try:
        while True:
            answers.append(action(n))
    except (Closed, OSError):
        return answers


def crash(stack, round, dice, pool):
    """All agents at once, and the kill: what was answered to each behaviour before it."""
    def vote(n):
        time.sleep(votes_after)
        return round.vote(round.review)

    votes_after, ends_after = dice.random() / 4, dice.random() ** 2 / 2
    work = [[pool.submit(until_the_end, action, n) for n in range(AT_ONCE)] for action in (round.ask, round.listed, round.redeem)]
    work.append([pool.submit(until_the_end, vote, 0)])
    time.sleep(ends_after)
    stack.engine.kill()
    return [[answer for future in futures for answer in future.result()] for futures in work]


def check_asker(round, asked, listed, voted):
    """Returns what a new process of the agent goes on with."""
    assert {(decision, review) for decision, review, _ in asked} <= {("human_review", round.review)}, asked
    assert {review for page in listed for review, _ in page} <= {round.review}, listed
    seen = {status for _, _, status in asked} | {status for page in listed for _, status in page} | set(voted)
    assert seen <= {"pending", "approved"}
    round.tokens[round.asker] = [round.mint(round.asker)] * 2
    ((review, status),) = round.listed()  # the id is lost
    assert review == round.review and (status == "approved" or "approved" not in seen), (status, seen)
    assert round.ask() == ("human_review", review, status), "no person is asked again"
    if status == "pending":
        assert round.vote(review) == "approved"
    assert round.ask() == ("human_review", review, "approved")
    return review


def check_redeemer(round, redeemed):
    """Whatever was answered is the answer, and it is counted once."""
    round.tokens[round.redeemer] = [round.mint(round.redeemer)] * 2
    assert {decision for decision, _, _ in redeemed} <= {"allow"} and len({request for _, request, _ in redeemed}) <= 1, redeemed
    assert sum(not replayed for _, _, replayed in redeemed) <= 1, redeemed
    decision, request, replayed = round.redeem()
    assert decision == "allow" and (replayed or not redeemed) and {one for _, one, _ in redeemed} <= {request}, (request, redeemed)
    assert round.redeem() == ("allow", request, True)


def spend(round, actor, review):
    """Redeems it with a key of its own; the decision's rule."""
    token = round.token(actor)
    return round.call("POST", f"/v1/queue/{review}/redeem", token, round.asked)["rule"]


def test_agents_that_retry_while_the_engine_is_killed(fresh):
    print(f"\nseed {SEED} (WRIT_SEED repeats it)")
    dice, stack = random.Random(SEED), fresh(engine=["--reactors", "4"]).start()
    reviewer = stack.key("reviewers", ["reviewer"], reviewers=["*"], wait=False)
    stack.policy("base", POLICY)
    seen = [0, 0, 0, 0]
    with concurrent.futures.ThreadPoolExecutor(3 * AT_ONCE + 1) as pool:
        for number in range(ROUNDS):
            round = Round(stack, reviewer, number)
            asked, listed, redeemed, voted = crash(stack, round, dice, pool)
            stack.engine.start()
            harness.eventually(lambda: stack.metrics(stack.engine)["writ_engine_bundle_revision"] > 0, "the engine has its policies")
            review = check_asker(round, asked, listed, voted)
            check_redeemer(round, redeemed)
            # two of an hour are let through: the redemption counted once, so one more is
            assert spend(round, round.asker, review) == "allow:refunds", "it goes on"
            assert spend(round, round.asker, review) == "review:redeemed"
            more = {"action": "refund", "args": {"more": number}}
            for rule in ("allow:refunds", "limit:refunds"):
                more["args"]["rule"] = rule
                one = round.call("POST", ASK, round.token(round.redeemer), more)["review_id"]
                assert round.vote(one) == "approved"
                assert round.call("POST", f"/v1/queue/{one}/redeem", round.token(round.redeemer), more)["rule"] == rule
            seen = [before + len(now) for before, now in zip(seen, (asked, listed, redeemed, voted))]
    print(f"{ROUNDS} crashes of {3 * AT_ONCE} agents; answers before them: {seen[0]} to the same request, {seen[1]} lists, {seen[2]} redemptions, "
          f"{seen[3]} votes")
