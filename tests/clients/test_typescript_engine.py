"""clients/typescript and the real engine; and the test engine of the client, which answers like it."""

import pathlib
import sys

import pytest

import node

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import harness  # noqa: E402

pytestmark = pytest.mark.skipif(node.version() < 20, reason="SKIP: the client needs Node.js 20 or newer")

POLICY = """
roles: {finance: [carol]}
rules:
  - {id: small, agents: [invoice_bot], actions: [issue_refund], when: args.amount <= 500, decision: allow}
  - {id: large, agents: [invoice_bot], actions: [issue_refund], when: args.amount > 500, decision: human_review, reason: Refunds over 500 need finance., review: {by: [finance]}}
  - {id: never-drop, actions: ["drop_*"], decision: deny, reason: Nothing is dropped here.}
  - {id: sandbox, agents: ["*"], actions: [write_orders], decision: compute, compute: {tool: write_file, args: {path: /sandbox/orders, sandboxed: true}}}
"""
TOOLS = ["issue_refund", "drop_table", "write_orders", "write_file", "unknown_tool"]
SMALL, LARGE = {"amount": 20}, {"amount": 620}


@pytest.fixture(scope="module")
def stack():
    with harness.Stack() as running:
        running.policy("payments", POLICY)
        running.keys["bot"] = running.key("invoice_bot", ["agent"])
        running.keys["carol"] = running.key("reviewers", ["reviewer"], owner="carol", reviewers=["carol"])
        yield running


@pytest.fixture
def driver(stack):
    with node.Driver() as one:
        one.do(client={"url": stack.engine.url, "key": stack.keys["bot"], "tools": TOOLS})
        yield one


def resolve(stack, review, verb="approve"):
    with stack.at_engine("carol") as wire:
        reply = wire.post(f"/v1/queue/{review}/{verb}", {"resolved_by": "carol"})
    assert reply.status == 200, reply


def facts(answer):
    return {name: answer.get(name) for name in ("outcome", "ran", "rule") if name in answer}


def test_what_the_engine_allows_runs(driver):
    assert facts(driver.run("issue_refund", SMALL)) == {"outcome": "ran", "ran": [{"tool": "issue_refund", "args": SMALL}]}


def test_what_the_engine_denies_does_not_run(driver):
    answer = driver.run("drop_table", {})
    assert facts(answer) == {"outcome": "denied", "ran": [], "rule": "deny:never-drop"} and answer["reason"] == "Nothing is dropped here."
    assert facts(driver.run("unknown_tool", {})) == {"outcome": "denied", "ran": [], "rule": "default:deny"}


def test_a_compute_runs_the_safe_call(driver):
    assert driver.run("write_orders", {"path": "/etc"})["ran"] == [{"tool": "write_file", "args": {"path": "/sandbox/orders", "sandboxed": True}}]


def test_a_person_approves_and_the_call_goes_on(stack, driver):
    number = driver.begin(run=["issue_refund", LARGE])
    resolve(stack, driver.review())
    assert facts(driver.end(number)) == {"outcome": "ran", "ran": [{"tool": "issue_refund", "args": LARGE}]}


def test_a_person_refuses(stack, driver):
    number = driver.begin(run=["issue_refund", {"amount": 621}])
    resolve(stack, driver.review(), "deny")
    assert facts(driver.end(number)) == {"outcome": "denied", "ran": [], "rule": "review:denied"}


def test_another_program_resumes_the_review_and_no_other_arguments(stack, driver):
    asked = driver.run("issue_refund", {"amount": 700}, waitMs=0)
    assert asked["outcome"] == "pending" and asked["ran"] == []
    resolve(stack, asked["reviewId"])
    with node.Driver() as other:
        other.do(client={"url": stack.engine.url, "key": stack.keys["bot"], "tools": TOOLS})
        swapped = other.run("issue_refund", {"amount": 9999}, reviewId=asked["reviewId"])
        assert facts(swapped) == {"outcome": "denied", "ran": [], "rule": "review:binding"}
        assert other.run("issue_refund", {"amount": 700}, reviewId=asked["reviewId"])["ran"] == [{"tool": "issue_refund", "args": {"amount": 700}}]
        assert facts(other.run("issue_refund", {"amount": 700}, reviewId=asked["reviewId"])) == {"outcome": "denied", "ran": [], "rule": "review:redeemed"}


def test_tokens_are_minted_and_replaced_when_their_uses_are_over(stack, driver):
    driver.do(client={"url": stack.engine.url, "key": stack.keys["bot"], "tools": TOOLS, "token": {"scope": "issue_refund", "ttlSeconds": 60, "maxUses": 2}})
    assert [driver.run("issue_refund", SMALL)["outcome"] for _ in range(5)] == ["ran"] * 5
    assert facts(driver.run("write_orders", {})) == {"outcome": "denied", "ran": [], "rule": "token:scope"}
    with stack.at_engine("bot") as wire:
        assert wire.get("/v1/tokens").json["count"] == 3
    number = driver.begin(run=["issue_refund", {"amount": 800}])
    resolve(stack, driver.review())
    assert driver.end(number)["outcome"] == "ran"


def test_an_engine_that_restarts_keeps_the_wait(stack, driver):
    number = driver.begin(run=["issue_refund", {"amount": 900}])
    review = driver.review()
    stack.engine.kill()
    stack.engine.start()
    resolve(stack, review)
    assert driver.end(number)["ran"] == [{"tool": "issue_refund", "args": {"amount": 900}}]


def test_nothing_runs_while_the_engine_is_away_unless_that_was_spelled_out(stack, driver):
    away = {"url": f"http://127.0.0.1:{harness.free_port()}", "key": stack.keys["bot"], "tools": TOOLS, "deadlineMs": 300}
    driver.do(client=away)
    answer = driver.run("issue_refund", SMALL)
    assert (answer["outcome"], answer["ran"], answer["outage"]) == ("no_decision", [], True)
    driver.do(client={**away, "onError": "open"})
    assert driver.run("issue_refund", SMALL)["outcome"] == "ran"
    assert any(line["level"] == "warn" and "runs without a decision" in line["message"] for line in driver.logs)


def test_a_wrong_key_is_no_outage(stack, driver):
    driver.do(client={"url": stack.engine.url, "key": "wk_unknown", "tools": TOOLS, "onError": "open"})
    answer = driver.run("issue_refund", SMALL)
    assert (answer["outcome"], answer["ran"], answer["code"]) == ("no_decision", [], "unauthenticated")


def shape(members):
    """Names and types, without the members that only a rule of a policy brings."""
    optional = {"policy_name", "policy_version"}
    return {name: type(value).__name__ for name, value in members.items() if name not in optional}


def test_the_test_engine_answers_like_the_engine(stack, driver):
    calls = [("issue_refund", SMALL), ("drop_table", {}), ("write_orders", {}), ("issue_refund", {"amount": 1000})]
    real = [driver.do(decide=[*call]) for call in calls]
    double = driver.do(double={"issue_refund": "allow", "write_orders": {"decision": "compute", "safeTool": "write_file", "safeArgs": {"path": "/a"}}, "big": "human_review"})
    driver.do(client={"url": double["url"], "key": double["key"], "tools": [*TOOLS, "big"]})
    calls[3] = ("big", {"amount": 1000})
    for answer, call in zip(real, calls):
        found = driver.do(decide=[*call])["members"]
        assert shape(found) == shape(answer["members"]), call
        for name in ("decision", "allowed", "compute", "requires_human_review", "mode"):
            assert found[name] == answer["members"][name]


def test_the_test_engine_redeems_an_approval_once_and_for_its_request(driver):
    double = driver.do(double={"big": "human_review"})
    driver.do(client={"url": double["url"], "key": double["key"], "tools": ["big"], "token": {"scope": "*"}})
    number = driver.begin(run=["big", {"amount": 1}])
    review = driver.review()
    driver.do(resolve=["approve", review])
    assert driver.end(number)["ran"] == [{"tool": "big", "args": {"amount": 1}}]
    assert facts(driver.run("big", {"amount": 1}, reviewId=review)) == {"outcome": "denied", "ran": [], "rule": "review:redeemed"}
    second = driver.run("big", {"amount": 2}, waitMs=0)["reviewId"]
    driver.do(resolve=["approve", second])
    assert facts(driver.run("big", {"amount": 3}, reviewId=second)) == {"outcome": "denied", "ran": [], "rule": "review:binding"}
    assert driver.run("big", {"amount": 2}, reviewId=second)["outcome"] == "ran"
