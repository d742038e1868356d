"""What the policy language means, seen through the engine: gate, compute, mask, shadow, people, dry runs."""

import json
import re

import pytest

import canonical
from test_contract import refused

AGENT = "/v1/agent/authorize"
TOOL = "/api/v1/authorize"


def test_the_strictest_vote_wins_and_silence_denies(tenant):
    tenant.policy("""
rules:
  - {id: a, agents: ["*"], actions: [a, ab, ac, ad], decision: allow}
  - {id: b, agents: ["*"], actions: [ab], decision: compute, compute: {tool: a, args: {}}}
  - {id: c, actions: [ac], decision: human_review}
  - {id: d, actions: [ad, D2], decision: deny, reason: No.}
""")
    assert [tenant.ask(x)["decision"] for x in ("a", "ab", "ac", "ad", "e")] == ["allow", "compute", "human_review", "deny", "deny"]
    answer = tenant.ask("ad")
    assert (answer["rule"], answer["reason"], answer["policy_name"]) == ("deny:d", "No.", "base")
    assert tenant.ask("e")["rule"] == "default:deny"
    assert tenant.ask("d2")["rule"] == "deny:d", "deny patterns ignore ASCII case"
    assert tenant.ask("A")["rule"] == "default:deny", "allow patterns do not"


def test_strange_names_are_allowed_only_literally(tenant):
    tenant.policy('rules:\n  - {id: a, agents: ["*"], actions: ["get_*", "lies größe"], decision: allow}\n')
    assert tenant.ask("get_x")["decision"] == "allow"
    assert tenant.ask("get_größe")["decision"] == "deny"
    assert tenant.ask("get_x y")["decision"] == "deny"
    assert tenant.ask("lies größe")["decision"] == "allow"


def test_ties_are_broken_by_document_then_position(tenant):
    rules = 'rules:\n  - {{id: {}, actions: [x], decision: deny}}\n  - {{id: {}, actions: [x], decision: deny}}\n'
    tenant.policy(rules.format("b1", "b2"), name="b")
    tenant.policy(rules.format("a1", "a2"), name="a")
    assert (answer := tenant.ask("x"))["rule"] == "deny:a1" and answer["policy_name"] == "a"


def test_resources_select(tenant):
    tenant.policy("""
rules:
  - {id: reads, agents: ["*"], actions: [read], resources: ["db:test-*"], decision: allow}
  - {id: prod, actions: [drop], resources: ["db:prod-*"], decision: deny}
  - {id: drops, agents: ["*"], actions: [drop], decision: allow}
""")
    assert tenant.ask("read", resource="db:test-1")["decision"] == "allow"
    assert tenant.ask("read", resource={"type": "db", "id": "test-1"})["decision"] == "allow"
    assert tenant.ask("read", resource="db:live-1")["decision"] == "deny"
    assert tenant.ask("read")["decision"] == "deny"
    assert tenant.ask("drop", resource="db:test-1")["decision"] == "allow"
    assert tenant.ask("drop", resource="db:PROD-1")["decision"] == "deny"
    assert tenant.ask("drop")["rule"] == "deny:prod", "a deny rule with resources matches a request that names none"


GATED = """
confidence: {allow_at: 0.9, review_at: 0.7}
rules:
  - {id: a, agents: ["*"], actions: ["get_*"], decision: allow}
  - {id: strict, agents: ["*"], actions: [strict], decision: allow, confidence: {allow_at: 0.99, review_at: 0.95, missing: deny}}
  - {id: people, users: ["*"], actions: ["get_*"], decision: allow}
"""


def test_the_gate(tenant):
    tenant.policy(GATED)
    for confidence, decision, rule in ((1, "allow", "allow:a"), (0.9, "allow", "allow:a"), (0.89999, "human_review", "gate:a"),
                                       (0.7, "human_review", "gate:a"), (0.69999, "deny", "gate:a"), (0, "deny", "gate:a")):
        answer = tenant.ask("get_x", confidence=confidence)
        assert (answer["decision"], answer["rule"]) == (decision, rule), confidence
        assert answer["confidence_used"] == confidence
    missing = tenant.ask("get_x")
    assert (missing["decision"], missing["rule"]) == ("human_review", "gate:a") and "confidence_used" not in missing
    assert tenant.ask("strict")["decision"] == "deny" and tenant.ask("strict", confidence=0.96)["decision"] == "human_review"
    assert tenant.ask_user("carol", "get_x")["decision"] == "allow", "people have no confidence"
    tool = tenant.ask("get_x", route="/api/v1/authorize", context={"confidence": 0.95})
    assert tool["decision"] == "allow"


def test_compute_answers_the_safe_call_unless_that_is_not_safe(tenant):
    tenant.policy("""
rules:
  - {id: c, agents: ["*"], actions: [write], decision: compute, compute: {tool: draft, args: {to: "$${literal}", n: 1, deep: {a: [true]}}}}
  - {id: e, agents: ["*"], actions: [erase], decision: compute, compute: {tool: drop, args: {}}}
  - {id: d, actions: [drop], decision: deny}
  - {id: f, agents: ["*"], actions: [forge], decision: compute, compute: {tool: sign, args: {}}}
  - {id: s, actions: [sign], decision: human_review}
""")
    answer = tenant.ask("write", args={"x": 1})
    assert (answer["decision"], answer["rule"], answer["allowed"], answer["compute"]) == ("compute", "compute:c", False, True)
    assert answer["safe_tool"] == "draft" and answer["safe_args"] == {"to": "${literal}", "n": 1, "deep": {"a": [True]}}
    tool = tenant.ask("write", route="/api/v1/authorize")
    assert tool["safeTool"] == "draft" and tool["safeArgs"]["n"] == 1
    for action in ("erase", "forge"):
        answer = tenant.ask(action)
        assert answer["decision"] == "deny" and "safe_tool" not in answer and answer["reason"], answer


def test_safe_arguments_are_the_same_in_whatever_form_the_document_came(tenant):
    args = {"path": "/sandbox/${args.path}", "n": 7, "deep": [1, {"x": 2.5}]}
    rule = {"id": "c", "agents": ["*"], "actions": ["write"], "decision": "compute", "compute": {"tool": "draft", "args": args}}
    for path in ("a", 'a","n":8,"path":"/etc/passwd', "a\\b\n"):
        for content in ({"rules": [rule]}, f"# YAML\nrules: [{json.dumps(rule)}]\n"):
            tenant.policy(content)
            answer = tenant.ask("write", args={"path": path})
            assert answer["safe_args"] == {"path": "/sandbox/" + path, "n": 7, "deep": [1, {"x": 2.5}]}
            assert tenant.trace(answer["trace_id"])[0]["safe_args"] == answer["safe_args"]


def test_human_review_is_two_records_under_one_review_id(tenant):
    tenant.policy("""
rules:
  - {id: h, actions: [pay], decision: human_review, reason: Ask finance., review: {expires_in: 2h}}
""")
    answer = tenant.ask("pay", args={"sum": 5})
    assert (answer["decision"], answer["requires_human_review"], answer["allowed"]) == ("human_review", True, False)
    events = tenant.trace(answer["trace_id"], 2)
    assert [e["kind"] for e in events] == ["decision", "review.enqueued"]
    assert {e["review_id"] for e in events} == {answer["review_id"]}
    assert events[0]["expires_at"] == answer["expires_at"]
    import datetime
    begin, end = (datetime.datetime.fromisoformat(answer[name].replace("Z", "+00:00")) for name in ("timestamp", "expires_at"))
    assert end - begin == datetime.timedelta(hours=2)
    assert events[0]["source"]["seq"] + 1 == events[1]["source"]["seq"]


def test_nobody_is_asked_about_what_another_limit_denies(tenant):
    soft = "- {id: soft, agents: ['*'], actions: [x], decision: allow, limit: {window: 1h, count: 1, over: human_review}}"
    hard = "- {id: hard, agents: ['*'], actions: [x], decision: allow, limit: {window: 1h, sum: args.n, max: 5}}"
    for actor, rules in (("one", (soft, hard)), ("two", (hard, soft))):
        tenant.policy("rules:\n  " + "\n  ".join(rules))
        answers = [tenant.ask("x", actor=actor, args={"n": n}) for n in (5, 0, 1)]
        assert [a["rule"] for a in answers] == ["allow:" + rules[0].split()[2].strip(","), "limit:soft", "limit:hard"]
        assert [a["decision"] for a in answers] == ["allow", "human_review", "deny"]


def test_more_limits_than_can_be_counted_at_once_are_a_deny(tenant):
    for count, rule in ((64, "allow:r0"), (65, "limit:record")):
        rules = [f"- {{id: r{i}, agents: ['*'], actions: [many], decision: allow, limit: {{window: 1h, count: 9}}}}" for i in range(count)]
        tenant.policy("rules:\n  " + "\n  ".join(rules))
        assert tenant.ask("many")["rule"] == rule


def test_what_cannot_be_recorded_as_it_was_decided_counts_nothing(tenant):
    tenant.policy("""rules:
  - {id: c, agents: ["*"], actions: [put], decision: compute, compute: {tool: draft, args: {text: '${args.text}'}},
     limit: {per: actor, window: 1h, count: 1}}
""")
    large = tenant.ask("put", args={"text": "x" * 40000})
    assert (large["decision"], large["rule"]) == ("deny", "limit:record")
    assert [tenant.ask("put", args={"text": "x"})["rule"] for _ in range(2)] == ["compute:c", "limit:c"]


def test_what_safe_arguments_make_of_masked_values_is_in_no_record(tenant):
    tenant.policy("""
mask: [args.card]
rules:
  - id: c
    agents: ["*"]
    actions: [pay]
    decision: compute
    compute: {tool: draft, args: {card: '${args.card}', pan: '${args.card}', text: 'no. ${args.card}, ${args.n}', all: ['${args}', 1],
                                  deep: {request: '${request.args.card}'}, n: '${args.n}', plain: x}}
""")
    answer = tenant.ask("pay", args={"card": "SECRET", "n": 5})
    assert answer["safe_args"] == {"card": "SECRET", "pan": "SECRET", "text": "no. SECRET, 5", "all": [{"card": "SECRET", "n": 5}, 1],
                                   "deep": {"request": "SECRET"}, "n": 5, "plain": "x"}, "who asked gets them as they are"
    event = tenant.trace(answer["trace_id"])[0]
    assert event["safe_args"] == {"card": "[masked]", "pan": "[masked]", "text": "[masked]", "all": ["[masked]", 1],
                                  "deep": {"request": "[masked]"}, "n": 5, "plain": "x"}
    assert "SECRET" not in canonical.canonical(event)


def test_masked_values_are_in_no_record(tenant):
    tenant.policy("""
mask: [args.card, args.people.*.ssn, context.token]
rules:
  - {id: a, agents: ["*"], actions: [a], decision: allow}
""")
    tenant.policy('mask: [resource.properties.secret]\nrules: []\n', name="more")
    body = {"args": {"card": "4111-SECRET", "note": "plain", "people": [{"ssn": "SECRET-1", "n": 1}, {"ssn": {"x": "SECRET-2"}}]},
            "context": {"token": "SECRET-3"}, "resource": {"type": "t", "id": "i", "properties": {"secret": "SECRET-4", "p": 1}}}
    answer = tenant.ask("a", **body)
    event = tenant.trace(answer["trace_id"])[0]
    assert event["args"] == {"card": "[masked]", "note": "plain", "people": [{"ssn": "[masked]", "n": 1}, {"ssn": "[masked]"}]}
    assert event["context"] == {"token": "[masked]"} and event["resource_properties"] == {"secret": "[masked]", "p": 1}
    assert "SECRET" not in canonical.canonical(event)
    assert answer["input_salt"] == event["input_salt"]
    masked = canonical.masked_body({"action": "a", **body}, event)
    assert answer["input_hash"] == canonical.input_hash(json.dumps(masked), answer["input_salt"]), "the input hash is of what is recorded"


def test_a_mask_covers_every_spelling_of_a_name_at_any_depth(tenant):
    tenant.policy("""
mask: [args.secret, "args.**.pin", args.list.00]
rules:
  - {id: a, agents: ["*"], actions: [a], decision: allow}
""")
    answer = tenant.ask("a", args={"Secret": "KEPT-1", "SECRET": "KEPT-2", "list": ["KEPT-3", 1], "deep": [{"down": {"Pin": "KEPT-4"}}], "n": 1})
    event = tenant.trace(answer["trace_id"])[0]
    assert event["args"] == {"Secret": "[masked]", "SECRET": "[masked]", "list": ["[masked]", 1], "deep": [{"down": {"Pin": "[masked]"}}], "n": 1}
    assert "KEPT" not in canonical.canonical(event)


def test_a_failure_of_has_names_no_masked_value(tenant):
    tenant.policy("""
mask: [args.card]
rules:
  - {id: d, actions: [a], decision: deny, when: "has(args.limits[args.card].max)"}
  - {id: c, agents: ["*"], actions: [b], decision: compute, compute: {tool: t, args: {x: "${has(args.limits[args.card].max)}"}}}
""")
    for action, rule in (("a", "deny:d"), ("b", "compute:c")):
        answer = tenant.ask(action, args={"card": "4111-1111-1111-1111", "limits": {"x": {}}})
        assert (answer["decision"], answer["rule"]) == ("deny", rule)
        assert "no such key" in answer["reason"] and "4111" not in answer["reason"], answer
        assert "4111" not in canonical.canonical(tenant.trace(answer["trace_id"]))


def test_shadow_votes_are_told_and_do_not_count(tenant):
    tenant.policy('rules:\n  - {id: a, agents: ["*"], actions: ["*_x"], decision: allow}\n')
    tenant.policy('mode: shadow\nrules:\n  - {id: s, actions: [get_x], decision: deny}\n', name="shadow")
    answer = tenant.ask("get_x")
    assert answer["decision"] == "allow" and answer["would_have"]["decision"] == "deny", answer
    assert answer["would_have"]["rule"] == "deny:s" and answer["would_have"]["policy_name"] == "shadow"
    assert tenant.trace(answer["trace_id"])[0]["would_have"]["decision"] == "deny"
    assert "would_have" not in tenant.ask("put_x")
    tool = tenant.ask("get_x", route="/api/v1/authorize")
    assert tool["wouldHave"] == {"decision": "deny", "rule": "deny:s", "policyName": "shadow"}


def test_people_are_selected_by_name_and_role(tenant):
    tenant.policy("""
roles: {support: [carol, "*@support.example"]}
rules:
  - {id: t, roles: [support], actions: [view], decision: allow}
  - {id: u, users: ["dan"], actions: [view], decision: allow}
""")
    for user, decision in (("carol", "allow"), ("eve@support.example", "allow"), ("dan", "allow"), ("mallory", "deny")):
        answer = tenant.ask_user(user, "view")
        assert answer["decision"] == decision, user
    event = tenant.trace(answer["trace_id"])[0]
    assert event["user_id"] == "mallory" and event["actor"] == ""
    assert tenant.ask("view", actor="carol")["decision"] == "deny", "an agent named carol is not carol"


def test_an_action_outside_the_scope_is_denied(tenant):
    tenant.policy('rules:\n  - {id: a, agents: ["*"], actions: ["*"], decision: allow}\n')
    assert tenant.ask("get_x", scope="get_* list_*")["decision"] == "allow"
    answer = tenant.ask("put_x", scope="get_* list_*")
    assert (answer["decision"], answer["rule"]) == ("deny", "token:scope")
    assert tenant.ask("put_x", context={"scope": "get_*"})["rule"] == "token:scope"


def test_a_dry_run_is_marked_and_never_allows(tenant):
    tenant.policy('rules:\n  - {id: a, agents: ["*"], actions: [a], decision: allow}\n  - {id: h, actions: [h], decision: human_review}\n')
    before = tenant.stack.metrics(tenant.stack.engine)
    answer = tenant.ask("a", key=tenant.admin, query="?dry_run=true", actor="bot")
    assert (answer["mode"], answer["decision"], answer["allowed"]) == ("dry_run", "allow", False)
    events = tenant.trace(answer["trace_id"])
    assert [(e["kind"], e["mode"]) for e in events] == [("decision", "dry_run")]
    review = tenant.ask("h", key=tenant.admin, query="?dry_run=true", actor="bot")
    assert review["decision"] == "human_review"
    assert [e["kind"] for e in tenant.trace(review["trace_id"])] == ["decision"], "a dry run enqueues nothing"
    after = tenant.stack.metrics(tenant.stack.engine)
    more = {name: after[name] - before[name] for name in after if "decisions" in name or "dry_runs" in name}
    assert {name: count for name, count in more.items() if count} == {"writ_engine_dry_runs_total": 2}


def test_explain_tells_every_rule_and_why(tenant):
    tenant.policy("""
rules:
  - {id: a, agents: ["*"], actions: [get_x], decision: allow}
  - {id: b, agents: [other], actions: [get_x], decision: allow}
  - {id: c, actions: [put_x], decision: deny}
""")
    answer = tenant.ask("get_x", key=tenant.auditor, query="?dry_run=true&explain=true", actor="bot")
    told = {entry["rule"].split(":")[-1]: entry for entry in answer["explain"]}
    assert set(told) == {"a", "b", "c"}, answer["explain"]
    assert [told[name]["applies"] for name in "abc"] == [True, False, False]
    assert all(entry["why"] and entry["policy"] == "base" for entry in answer["explain"])


def test_a_dry_run_and_a_decision_agree_on_what_is_over_a_limit_by_itself(tenant):
    limit = "limit: {window: 1h, sum: args.n, max: 5}"
    tenant.policy(f"rules: [{{id: pay, agents: ['*'], actions: [pay], decision: allow, {limit}}}]")
    for route in (AGENT, TOOL):
        for args, rule in (({"n": 5.1}, "limit:pay"), ({"n": -1}, "limit:pay"), ({"n": "1"}, "limit:pay"), ({}, "limit:pay"), ({"n": 1}, "allow:pay")):
            told = [tenant.ask("pay", route, key, query, actor="bot", args=args)
                    for key, query in ((tenant.auditor, "?dry_run=true"), (tenant.auditor, "?explain=true"), (tenant.agent, ""))]
            assert {answer["rule"] for answer in told} == {rule}, told
            assert len({(answer["decision"], answer["reason"]) for answer in told}) == 1, told
            if rule == "limit:pay":
                assert (told[1].get("would_allow") or told[1]["wouldAllow"])["against"] == [told[1]["reason"]]


def test_explain_of_a_live_request_is_refused_to_agents(tenant):
    with tenant.stack.at_engine(tenant.agent) as wire:
        refused(wire.post(AGENT + "?explain=true", {"action": "x"}), 403, "missing_role")


def test_the_policy_digest_names_the_whole_active_set(tenant):
    tenant.policy('rules:\n  - {id: a, agents: ["*"], actions: [a], decision: allow}\n')
    first = tenant.ask("a")["policy_digest"]
    other = 'rules:\n  - {id: b, actions: [b], decision: deny}\n'
    tenant.policy(other, name="other")
    second = tenant.ask("a")["policy_digest"]
    assert first != second and re.match("^[0-9a-f]{64}$", second)
    tenant.policy(other, name="other", is_active=False)
    assert tenant.ask("a")["policy_digest"] == first


@pytest.mark.parametrize("context", ["free text", {"a": {"b": [1]}}])
def test_context_is_recorded_as_it_was(tenant, context):
    answer = tenant.ask("x", context=context)
    assert tenant.trace(answer["trace_id"])[0]["context"] == context
