"""Explanations, dry runs, long lists and dear conditions: how much of them one tenant may have, and what they answer."""

import json
import re

from wire import Wire

AGENT = "/v1/agent/authorize"
# Each rule walks all of the list, for some 14,000 steps; the costs of 20 of them are more than one decision may have.
DEAR = "rules:\n" + "".join(
    f"  - {{id: r{i}, agents: ['*'], actions: [dear], decision: allow, when: 'args.l.all(x, x >= 0)'}}\n" for i in range(20))
LIST = {"l": list(range(3500))}


def test_a_decision_that_costs_too_much_is_denied_unless_the_option_permits_it(tenant, fresh):
    tenant.policy(DEAR)
    answer = tenant.ask("dear", args=LIST)
    assert (answer["decision"], answer["rule"]) == ("deny", "default:deny")
    assert "cost more than one decision may (100000 steps, policy.steps)" in answer["reason"]
    assert tenant.ask("dear", args={"l": [1]})["decision"] == "allow"

    stack = fresh(engine=["--policy.steps", "2000000"]).start()
    stack.policy("dear", DEAR)
    with stack.at_engine("agent") as wire:
        assert wire.post(AGENT, {"action": "dear", "args": LIST}).json["decision"] == "allow"


def test_an_explanation_has_the_outcome_and_the_record_of_the_decision(tenant):
    tenant.policy(DEAR + "  - {id: calm, agents: ['*'], actions: [calm], decision: allow}\n")
    for action, args in (("dear", LIST), ("dear", {"l": [1]}), ("dear", {}), ("calm", LIST), ("other", {})):
        live = tenant.ask(action, actor="bot", args=args)
        for query in ("?dry_run=true", "?explain=true"):
            told = tenant.ask(action, key=tenant.auditor, query=query, actor="bot", args=args)
            assert [told[name] for name in ("decision", "rule", "reason")] == [live[name] for name in ("decision", "rule", "reason")]
            [record] = tenant.trace(told["trace_id"])
            [first] = tenant.trace(live["trace_id"])
            same = ("decision", "rule", "reason", "input_hash", "args", "policy_digest")
            assert record["mode"] == "dry_run" and [record.get(name) for name in same] == [first.get(name) for name in same]


def test_an_explanation_for_a_suspended_actor_is_of_the_time_after_its_resume(tenant):
    tenant.policy("rules: [{id: calm, agents: ['*'], actions: [calm], decision: allow}]")
    with tenant.stack.at_engine(tenant.admin) as wire:
        assert wire.post("/v1/actors/bot/suspend", {"reason": "test"}).status == 200
    answer = tenant.ask("calm", key=tenant.auditor, query="?explain=true", actor="bot")
    assert (answer["decision"], answer["rule"]) == ("deny", "actor:suspended")
    assert [entry["applies"] for entry in answer["explain"]] == [True]


def test_check_and_put_name_what_an_engine_would_deny(tenant, tmp_path):
    dear, calm = tmp_path / "dear.yaml", tmp_path / "calm.yaml"
    dear.write_text(DEAR + f"tests:\n  - {{request: {{actor: bot, action: dear, args: {{l: {LIST['l']}}}}}, expect: allow}}\n")
    calm.write_text("rules: [{id: c, agents: ['*'], actions: [calm], decision: allow, when: args.n > 1}]\n"
                    "tests: [{request: {actor: bot, action: calm, args: {n: 2}}, expect: allow}]\n")
    done = tenant.stack.cli("policy", "check", dear, calm)
    assert re.search(r"dear.yaml:\d+:5: warning: tests\[0\]: its conditions cost 2\d{5} steps, and an engine denies what costs more than "
                     r"100000, unless its option policy.steps is higher\n", done.stdout), done
    assert re.search(r"calm.yaml: valid, 1 rule; its costliest test \(line 2\) takes \d of 100000 steps\n", done.stdout), done

    tenant.trace(tenant.ask("dear", actor="bot", args={"l": [1]})["trace_id"])
    put = ("policy", "put", "--platform", tenant.stack.platform.url, "--tenant", tenant.name)
    assert "cost more" not in tenant.stack.cli(*put, dear, key=tenant.admin).stderr
    trace = tenant.ask("dear", actor="bot", args=LIST)["trace_id"]
    tenant.trace(trace)
    for words in ((dear,), (dear, calm)):  # one document, and a set
        done = tenant.stack.cli(*put, *words, "--dry-run", key=tenant.admin)
        assert re.search(rf"warning: 1 of the newest 2 recorded requests cost more than 100000 steps .*The costliest is dear by bot with "
                         rf"2\d{{5}} steps \(writ audit trace {trace}\)", done.stderr), done


def send_all(tenant, count, body):
    """Sends them at the same time, each by its own connection; the replies."""
    wires = [Wire(tenant.stack.engine.address, tenant.auditor) for _ in range(count)]
    for wire in wires:
        wire.get("/livez")  # it is connected, and known
    head = (f"POST {AGENT}?explain=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {tenant.auditor}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n").encode()
    for wire in wires:
        wire.send(head + body)
    return [wire.read_reply() for wire in wires]


def test_a_tenant_may_have_a_few_explanations_at_a_time(tenant):
    rules = "".join(f"  - {{id: r{i}, agents: ['*'], actions: [dear], decision: deny, when: 'args.l.all(x, args.l.all(y, y >= 0))'}}\n"
                    for i in range(20))
    tenant.policy("rules:\n" + rules)
    body = json.dumps({"action": "dear", "actor": "bot", "args": {"l": list(range(2000))}}).encode()
    replies = send_all(tenant, 32, body)
    answers = [reply.json for reply in replies if reply.status == 200]
    refusals = [reply for reply in replies if reply.status != 200]
    assert len(answers) >= 8 and refusals, [reply.status for reply in replies]
    assert {(answer["decision"], answer["rule"]) for answer in answers} == {("deny", "default:deny")}
    for reply in refusals:
        assert (reply.status, reply.json["code"], reply.header("Retry-After")) == (429, "quota_tenant", "1"), reply
        assert "this tenant has the most long-questions that it may have at a time here, 8" in reply.json["error"]
    assert tenant.ask("dear", args={"l": []})["decision"] == "deny"
    assert tenant.ask("dear", key=tenant.auditor, query="?explain=true", actor="bot", args={"l": []})["explain"]


def test_a_page_of_large_reviews_is_the_same_as_its_parts(tenant):
    tenant.policy("rules: [{id: ask, agents: ['*'], actions: [pay], decision: human_review}]")
    reviewer = tenant.key("reviewers", ["reviewer"])
    for i in range(12):
        tenant.ask("pay", actor="bot", args={"n": i, "text": "x" * 20000})
    with tenant.stack.at_engine(reviewer) as wire:
        whole = wire.get("/v1/queue?limit=50").json
        assert (whole["count"], whole["total"], whole["next_cursor"]) == (12, 12, 0)
        parts, cursor = [], 0
        for _ in range(12):  # each short enough for the reactor
            page = wire.get(f"/v1/queue?limit=1&cursor={cursor}").json
            parts += page["items"]
            cursor = page["next_cursor"]
        assert cursor == 0 and parts == whole["items"]
        mine = wire.get("/v1/queue/pending?mine=true&limit=50").json
        assert [item["id"] for item in mine["items"]] == [item["id"] for item in whole["items"]]
