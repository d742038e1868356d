"""`writ` against the running programs: each command's words, its exit status, what it prints."""

import collections
import contextlib
import fcntl
import http.server
import json
import os
import pty
import re
import struct
import subprocess
import termios
import threading
import unicodedata

import pytest

import harness

ALLOW = 'rules:\n  - {id: reads, agents: ["*"], users: ["*"], actions: ["get_*"], decision: allow}\n'
DENY = 'rules:\n  - {id: reads, actions: ["get_*"], decision: deny, reason: Not today.}\n'


@pytest.fixture
def writ(tenant):
    """Runs a command as the test's tenant."""
    stack = tenant.stack

    def run(*words, key=None, check=None, **options):
        done = stack.cli(*words, "--engine", stack.engine.url, "--platform", stack.platform.url, check=False,
                         key=key or tenant.admin, **options)
        if check is not None:
            assert done.returncode == check, (done.returncode, done.stdout, done.stderr)
        return done

    run.tenant = tenant
    return run


def test_policy_put_get_list_versions_rollback_and_delete(writ, tmp_path):
    file = tmp_path / "base.yaml"
    file.write_text(ALLOW)
    writ("policy", "put", file, check=0)
    assert writ("policy", "get", "base", check=0).stdout.strip() == ALLOW.strip()
    assert "base" in writ("policy", "list", check=0).stdout
    writ("policy", "put", "base", "-", stdin=DENY, check=0)
    listed = json.loads(writ("policy", "versions", "base", "--json", check=0).stdout)
    assert len(listed["versions"]) == 2
    writ("policy", "rollback", "base", "1", check=0)
    assert json.loads(writ("policy", "list", "--json", check=0).stdout)["policies"][0]["version"] == 3
    writ("policy", "put", file, "--new", check=1)
    writ("policy", "delete", "base", check=0)
    gone = writ("policy", "get", "base", check=1)
    assert gone.stderr and not gone.stdout


def test_a_bad_document_is_told_with_line_and_column(writ, tmp_path):
    file = tmp_path / "bad.yaml"
    file.write_text("rules:\n  - {id: a, agents: ['*'], actions: [x], decision: alow}\n")
    for words in (("policy", "put", file), ("policy", "check", file)):
        done = writ(*words, check=1)
        assert "2:" in done.stderr + done.stdout and "alow" in done.stderr + done.stdout, done


def test_a_fault_in_a_document_is_told_with_its_path_once(writ, tmp_path):
    file = tmp_path / "bad.yaml"
    for rule, where in (("{id: a, actions: [x], decision: allow}", "rules[0]: "),
                        ("{id: a, actions: [x], when: '\"x', decision: deny}", "rules[0].when: ")):
        file.write_text(f"rules:\n  - {rule}\n")
        told = writ("policy", "put", file, check=1).stderr.splitlines()[1]
        assert told.startswith("  line 2, column ") and told.count(where.split(".")[-1]) == 1 and where in told, told


def test_what_is_put_has_the_name_that_was_meant(writ, tmp_path):
    """Standard input has none, and of two files the first is no name for the second's text: they are a set."""
    for name in ("one.yaml", "two.yaml"):
        (tmp_path / name).write_text(ALLOW)
    assert writ("policy", "put", "-", stdin=ALLOW, check=2).stderr
    done = subprocess.run([harness.BIN / "writ", "policy", "put", "one.yaml", "two.yaml"], cwd=tmp_path, capture_output=True, text=True,
                          env={"WRIT_KEY": writ.tenant.admin, "WRIT_PLATFORM_URL": writ.tenant.stack.platform.url})
    assert done.returncode == 0 and done.stdout == "one is created, as version 1.\ntwo is created, as version 1.\n", done
    assert {p["name"] for p in json.loads(writ("policy", "list", "--json", check=0).stdout)["policies"]} == {"one", "two"}
    writ("policy", "put", "base", "-", stdin=ALLOW, check=0)


def test_a_directory_is_put_as_one_change(writ, tmp_path):
    folder = tmp_path / "policies"
    (folder / "team").mkdir(parents=True)
    denies = 'rules:\n  - {id: no-drop, roles: [contractor], actions: [drop], decision: deny}\n'
    (folder / "denies.yaml").write_text(denies)
    (folder / "team" / "roles.yaml").write_text("roles: {contractor: [erin]}\n")
    (folder / "star.yaml").write_text(ALLOW)
    told = writ("policy", "put", folder, "--dry-run", check=0)
    assert told.stdout == ("denies would be created, as version 1.\nstar would be created, as version 1.\n"
                           "roles would be created, as version 1.\nNothing was changed.\n")
    done = writ("policy", "put", folder, check=0)
    assert done.stdout == "denies is created, as version 1.\nstar is created, as version 1.\nroles is created, as version 1.\n"
    assert "  warning: star: line 2, column 26: rules[0].agents[0]: a bare * allows every agent, also those to come\n" in done.stderr
    assert writ("policy", "put", folder, check=0).stdout == "3 policies are unchanged.\n"
    (folder / "denies.yaml").write_text(denies.replace("contractor", "contracter"))
    done = writ("policy", "put", folder, check=1)
    assert '  denies: line 2, column 5: rules[0].roles[0]: no document defines the role "contracter"; did you mean "contractor"?\n' in done.stderr
    done = writ("policy", "delete", "roles", check=1)
    assert 'rule no-drop of policy denies names the role "contractor"' in done.stderr
    assert writ("policy", "put", folder, "--force", check=0).stdout == "denies is updated, as version 2.\n2 policies are unchanged.\n"
    writ("policy", "put", folder / "star.yaml", "--delete", "roles,denies", check=0)
    assert [p["name"] for p in json.loads(writ("policy", "list", "--json", check=0).stdout)["policies"]] == ["star"]
    (folder / "team" / "star.yaml").write_text(ALLOW)
    assert "are both the policy star" in writ("policy", "put", folder, check=2).stderr
    assert "--new is for one document" in writ("policy", "put", folder, "--new", check=2).stderr


def test_check_and_test_need_no_platform(tmp_path, stack):
    examples = sorted((harness.TOP / "ops" / "examples").glob("*.yaml"))
    assert stack.cli("policy", "check", *examples).returncode == 0
    assert stack.cli("policy", "test", "--require-coverage", *examples).returncode == 0
    file = tmp_path / "wrong.yaml"
    file.write_text(ALLOW + "tests:\n  - {request: {actor: b, action: get_x}, expect: deny}\n")
    assert stack.cli("policy", "test", file, check=False).returncode == 1


def test_check_warns_of_a_file_that_no_directory_of_policies_takes(tmp_path, stack):
    good, bad = tmp_path / "good.yaml", tmp_path / "not good.yaml"
    for file in (good, bad):
        file.write_text(ALLOW)
    told = stack.cli("policy", "check", good, bad).stdout.splitlines()
    assert [line for line in told if "name is" in line] == [
        f"{bad}:1:1: warning: the file's name is the policy's name, which is 1 to 64 of [A-Za-z0-9._-]: rename the file"]
    assert "name is" not in stack.cli("policy", "check", "-", stdin=ALLOW).stdout


def test_a_key_for_every_tenant_is_asked_for_one_as_it_is_written_here(writ):
    done = writ("policy", "list", key=writ.tenant.stack.keys["root"], check=1)
    assert "tenant_required" in done.stderr and "name it with --tenant NAME" in done.stderr


def test_authorize_answers_by_its_exit_status(writ):
    tenant = writ.tenant
    tenant.policy(ALLOW + "  - {id: r, actions: [pay], decision: human_review}\n")
    done = writ("authorize", "get_x", "--actor", "bot", "--args", '{"a": 1}', "--trace-id", "cli.1", key=tenant.agent, check=0)
    assert "allow" in done.stdout
    assert "deny" in writ("authorize", "put_x", key=tenant.agent, check=1).stdout
    assert "human_review" in writ("authorize", "pay", key=tenant.agent, check=1).stdout
    answer = json.loads(writ("authorize", "--tool", "get_x", "--json", key=tenant.agent, check=0).stdout)
    assert answer["tool"] == "get_x" and answer["decision"] == "allow"
    assert json.loads(writ("authorize", "get_x", "--user", "carol", "--json", key=tenant.agent, check=0).stdout)["allowed"] is True
    refused = writ("authorize", "get_x", "--confidence", "7", key=tenant.agent, check=2)
    assert "confidence" in refused.stderr


def test_an_object_may_begin_on_a_line_of_its_own(writ):
    """Taken for a text, the confidence in it would count as none given."""
    writ.tenant.policy("confidence: {allow_at: 0.9, review_at: 0.5}\n" + ALLOW)
    for context in ('{"confidence": 0.1}', '\n  {"confidence": 0.1}'):
        done = writ("authorize", "get_x", "--actor", "bot", "--context", context, "--json", key=writ.tenant.agent, check=1)
        assert json.loads(done.stdout)["confidence_used"] == 0.1, done


def test_explain_shows_every_rule(writ):
    writ.tenant.policy(ALLOW + "  - {id: other, actions: [other], decision: deny}\n")
    done = writ("policy", "explain", "get_x", "--actor", "bot", check=0)
    assert "reads" in done.stdout and "other" in done.stdout


def test_explain_tells_what_decided_and_what_would_allow_it_and_nothing_masked(writ):
    writ.tenant.policy("""mask: [args.card]
rules:
  - {id: small, agents: [bot], actions: [pay], when: "args.amount < 500 && args.card.startsWith('4')", decision: allow}
  - {id: large, actions: [pay], when: args.amount >= 500, decision: human_review}
""")
    done = writ("policy", "explain", "pay", "--actor", "bot", "--args", '{"amount": 620, "card": "5999"}', check=0)
    assert "when: args.amount >= 500 → 620 >= 500 → true; applies" in done.stdout
    assert "What would allow it: rule small of policy base is the nearest" in done.stdout
    assert "  against   rule large of policy base votes human_review: when: args.amount >= 500 → 620 >= 500 → true" in done.stdout
    masked = writ("policy", "explain", "pay", "--actor", "bot", "--args", '{"amount": 20, "card": "5999"}', check=0)
    assert "args.card.startsWith('4') → [masked].startsWith('4') → false" in masked.stdout and "5999" not in masked.stdout
    allowed = writ("policy", "explain", "pay", "--actor", "bot", "--args", '{"amount": 20, "card": "4999"}', check=0)
    assert "What would allow it" not in allowed.stdout


def test_explain_says_so_where_there_are_too_many_rules_to_show(writ):
    why = "a reason that takes some room " * 4
    rules = "".join(f'  - {{id: r{n}, agents: ["{why}{n}"], actions: [pay], decision: allow}}\n' for n in range(3000))
    writ.tenant.policy(f"rules:\n{rules}")
    told = writ("policy", "explain", "pay", "--actor", "bot", check=0).stdout
    assert "too many rules" in told and "What would allow it: rule r" in told, told[:2000]
    assert "APPLIES" not in told


def test_a_list_of_many_policies_is_whole_or_says_how_to_go_on(writ, tmp_path):
    document = tmp_path / "one.yaml"
    document.write_text("rules:\n  - {id: a, actions: [x], decision: deny}\n")
    names = {f"many-{n:02}" for n in range(23)}
    for name in sorted(names):
        writ("policy", "put", name, document, check=0)

    def listed(text):
        return set(re.findall(r"^(many-\d\d) ", text, re.M))
    assert listed(writ("policy", "list", check=0).stdout) == names
    seen, more = set(), []
    while more is not None:
        page = writ("policy", "list", "--limit", "10", *more, check=0)
        seen |= listed(page.stdout)
        more = page.stderr.split()[1:] or None
    assert seen == names


def test_audit_query_and_trace(writ):
    tenant = writ.tenant
    answer = tenant.ask("get_x", actor="cli-bot")
    tenant.trace(answer["trace_id"])
    table = writ("audit", "query", "--actor", "cli-bot", key=tenant.auditor, check=0).stdout
    assert "get_x" in table and "deny" in table
    events = json.loads(writ("audit", "query", "--actor", "cli-bot", "--json", key=tenant.auditor, check=0).stdout)["events"]
    assert [event["trace_id"] for event in events] == [answer["trace_id"]]
    trace = writ("audit", "trace", answer["trace_id"], key=tenant.auditor, check=0).stdout
    assert "get_x" in trace and "deny" in trace and answer["output_hash"] in trace
    assert writ("audit", "query", "--from", "1h", "--limit", "3", key=tenant.auditor, check=0).stdout


def test_who_was_suspended_is_found_as_the_runbook_says(writ):
    stack, tenant = writ.tenant.stack, writ.tenant
    with stack.at_engine(tenant.admin) as wire:
        for actor in ("a_bot", "b_bot", "back"):
            assert wire.post(f"/v1/actors/{actor}/suspend", {"reason": "odd"}).status == 200
        assert wire.post("/v1/actors/back/resume", {}).status == 200
    stack.wait_published()
    section = (harness.TOP / "ops/runbook.md").read_text().split("### WritEngineDown")[1].split("\n### ")[0]
    suspended, = re.findall("^    (curl .*/suspensions.*)", section, re.M)
    environment = {**os.environ, "WRIT_KEY": tenant.admin, "WRIT_ENGINE_URL": stack.engine.url, "WRIT_PLATFORM_URL": stack.platform.url,
                   "PATH": f"{harness.BIN}:{os.environ['PATH']}"}
    words = suspended.replace("NAME", tenant.name)
    told = subprocess.run(["bash", "-o", "pipefail", "-c", words], env=environment, capture_output=True, text=True, check=True).stdout
    assert [row["actor"] for row in json.loads(told)["suspensions"]] == ["a_bot", "b_bot"]


def test_a_trace_is_asked_for_by_any_id_and_what_has_none_is_shown_alone(writ):
    tenant = writ.tenant
    minted = json.loads(writ("token", "mint", "--scope", "get_*", "--actor", "minted-bot", "--json", key=tenant.agent, check=0).stdout)
    writ("policy", "put", "base", "-", stdin=ALLOW, check=0)
    stack = tenant.stack
    stack.wait_published()
    put = json.loads(writ("audit", "query", "--kind", "policy.put", "--json", key=tenant.auditor, check=0).stdout)["events"][0]
    for one, word in ((minted["token_id"], "token.minted"), (put["event_id"], "policy.put"), (put["request_id"], "policy.put")):
        assert word in writ("audit", "trace", one, key=tenant.auditor, check=0).stdout
        alone = json.loads(writ("audit", "trace", one, "--json", key=tenant.auditor, check=0).stdout)
        assert alone["count"] == 1 and alone["events"][0]["kind"] == word, alone
    assert minted["token_id"] in writ("audit", "trace", minted["token_id"], key=tenant.auditor, check=0).stdout
    writ("audit", "trace", "tok_01ARZ3NDEKTSV4RRFFQ69G5FAV", key=tenant.auditor, check=1)


def test_a_dry_run_is_not_told_as_if_it_had_permitted_something(writ):
    tenant = writ.tenant
    tenant.policy(ALLOW)
    trace = json.loads(writ("policy", "explain", "get_x", "--actor", "dry-bot", "--json", check=0).stdout)["trace_id"]
    tenant.trace(trace)
    assert "allow (dry run)" in writ("audit", "query", "--actor", "dry-bot", key=tenant.auditor, check=0).stdout
    assert "allow  (dry run" in writ("audit", "trace", trace, key=tenant.auditor, check=0).stdout


def test_where_a_key_is_made_is_not_guessed(tmp_path, stack):
    words = ["key", "create", "--name", "n", "--owner", "o", "--roles", "agent"]
    elsewhere = stack.cli(*words, "--store", "postgresql://db.prod/writ", key=stack.keys["admin"], check=False)
    assert elsewhere.returncode == 2 and "--store needs --data DIR" in elsewhere.stderr and not elsewhere.stdout, elsewhere
    for nowhere in ("", tmp_path / "store.db", "postgres:/me:hidden@db.prod/writ"):
        done = stack.cli(*words, "--data", tmp_path / "typo", "--store", nowhere, check=False)
        assert done.returncode == 2 and "--store" in done.stderr and "postgresql://" in done.stderr and not done.stdout, done
        assert "hidden" not in done.stderr and not list(tmp_path.iterdir())
    first, second = (stack.cli(*words, "--data", tmp_path / "new", check=False) for _ in range(2))
    there = stack.cli(*words, "--data", tmp_path / "new", "--store", tmp_path / "new" / "platform.db", check=False)
    assert there.returncode == 0, there
    assert first.returncode == second.returncode == 0
    assert "it is a new installation now" in first.stderr and "new installation" not in second.stderr


def test_key_create_list_rotate_and_revoke(writ):
    tenant = writ.tenant
    made = json.loads(writ("key", "create", "--name", "cli", "--owner", "me", "--roles", "agent", "--json", check=0).stdout)
    bare = writ("key", "create", "--name", "cli2", "--owner", "me", "--roles", "agent", check=0).stdout.strip()
    assert bare.startswith("wk_") and len(bare) == 80
    listed = writ("key", "list", check=0).stdout
    assert made["id"] in listed and made["key"] not in listed
    rotated = json.loads(writ("key", "rotate", made["id"], "--overlap", "1h", "--json", check=0).stdout)
    tenant.stack.wait_followed()
    assert writ("authorize", "get_x", key=made["key"]).returncode == writ("authorize", "get_x", key=rotated["key"]).returncode == 1
    assert json.loads(writ("key", "revoke", rotated["id"], "--json", check=0).stdout)["revoked"] is True
    assert "401" in writ("authorize", "get_x", key=rotated["key"], check=1).stderr or \
        "credential" in writ("authorize", "get_x", key=rotated["key"], check=1).stderr


def test_a_first_key_that_has_ended_already_is_refused_and_makes_nothing(stack, tmp_path):
    def create(ends):
        return stack.cli("key", "create", "--data", tmp_path / "new", "--name", "first", "--owner", "me", "--roles", "admin", "--expires", ends, check=False)
    refused = create("2020-01-01T00:00:00Z")
    assert refused.returncode == 1 and "is in the past" in refused.stderr and not list(tmp_path.glob("new/*"))
    assert create("2120-01-01T00:00:00Z").returncode == 0


def test_keys_for_every_tenant_are_found_under_their_own_name(stack):
    """What is filed under `*` is listed with --tenant '*', as the interface lists it with ?tenant_id=*."""
    def run(*words):
        return stack.cli(*words, "--tenant", "*", "--json", "--platform", stack.platform.url, key=stack.keys["root"])
    made = json.loads(run("key", "create", "--name", "everywhere", "--owner", "sre", "--roles", "metrics").stdout)
    listed = {key["id"]: key for key in json.loads(run("key", "list").stdout)["keys"]}
    assert listed[made["id"]]["name"] == "everywhere" and {key["tenant"] for key in listed.values()} == {"*"}
    assert json.loads(run("key", "revoke", made["id"]).stdout)["revoked"] is True
    events = json.loads(run("audit", "query", "--kind", "key.revoked").stdout)["events"]
    assert made["id"] in {event["resource"]["id"] for event in events}


REVIEW = """rules:
  - {id: pays, agents: ["*"], actions: [pay], decision: human_review, reason: Money., review: {by: [finance]}}
  - {id: reads, agents: ["*"], actions: ["get_*"], decision: allow}
roles: {finance: [carol]}
mask: [args.card]
"""


@pytest.fixture
def queue(writ):
    """`writ` for a tenant whose payments wait for carol, with a reviewer's key."""
    writ.tenant.policy(REVIEW)
    writ.reviewer = writ.tenant.key("reviewers", ["reviewer"], reviewers=["carol", "dan"])
    return writ


def test_queue_list_show_approve_and_deny(queue):
    tenant = queue.tenant
    asked = [tenant.ask("pay", actor="bot", args={"n": n, "card": "4111111111111111"}, resource="invoice:1") for n in range(2)]
    first, second = (answer["review_id"] for answer in asked)
    listed = queue("queue", "list", key=queue.reviewer, check=0)
    assert first in listed.stdout and second in listed.stdout and "2 of 2" in listed.stderr
    one = queue("queue", "list", "--limit", "1", key=queue.reviewer, check=0)
    cursor = re.search(r"--cursor (\d+)", one.stderr)[1]
    assert second in queue("queue", "list", "--cursor", cursor, key=queue.reviewer, check=0).stdout
    shown = queue("queue", "show", asked[0]["trace_id"], key=queue.reviewer, check=0).stdout
    assert first in shown and "invoice:1" in shown and "[masked]" in shown and "4111111111111111" not in shown
    assert re.search(r"^  args\.n +0$", shown, re.M)

    refused = queue("queue", "approve", first, key=queue.reviewer, check=1)
    assert "wrong_reviewer" in refused.stderr and "--by NAME" in refused.stderr
    assert "missing_role" in queue("queue", "approve", first, "--by", "carol", key=tenant.agent, check=1).stderr
    approved = queue("queue", "approve", first, "--by", "carol", "--note", "Seen.", key=queue.reviewer, check=0)
    assert approved.stdout == f"{first} is approved.\n"
    assert "already_resolved" in queue("queue", "deny", first, "--by", "carol", key=queue.reviewer, check=1).stderr
    assert json.loads(queue("queue", "deny", second, "--by", "carol", "--json", key=queue.reviewer, check=0).stdout)["status"] == "denied"
    assert "rev_ ids" in queue("queue", "approve", asked[0]["trace_id"], "--by", "carol", key=queue.reviewer, check=1).stderr
    assert second in queue("queue", "list", "--status", "denied", key=queue.reviewer, check=0).stdout
    assert {row["id"] for row in json.loads(queue("queue", "list", "--status", "all", "--json", key=queue.reviewer, check=0).stdout)["items"]} \
        == {first, second}
    assert "pending, approved" in queue("queue", "list", "--status", "odd", key=queue.reviewer, check=1).stderr


def test_queue_list_shows_what_is_due_next_with_its_arguments(queue):
    tenant = queue.tenant
    tenant.policy("rules:\n  - {id: soon, agents: ['*'], actions: [soon], decision: human_review, review: {expires_in: 5m}}\n", name="soon")
    later = [tenant.ask("pay", actor=f"bot{n}", args={"amount": n, "card": "4111111111111111", "memo": "5 amount=1"})["review_id"] for n in range(120)]
    soon = tenant.ask("soon", actor="bot", args={"to": "\x1b[2J"})["review_id"]
    listed = queue("queue", "list", key=queue.reviewer, check=0)
    rows = listed.stdout.splitlines()[1:]
    assert [row.split()[0] for row in rows] == [soon, *later] and listed.stderr == "121 of 121\n"
    assert re.search(r"  in [45] min +bot +soon .*  to=\"\\u001b\[2J\"  ", rows[0]), rows[0]
    assert re.search(r"  in (29|30) min +bot0 +pay .*  amount=0 card=\[masked\] memo=\"5 amount=1\"  ", rows[1]), rows[1]

    few = queue("queue", "list", "--limit", "101", key=queue.reviewer, check=0)
    cursor = re.search(r"--cursor (\d+)", few.stderr)[1]
    rest = queue("queue", "list", "--cursor", cursor, "--json", key=queue.reviewer, check=0)
    page = json.loads(rest.stdout)
    assert [item["id"] for item in page["items"]] == later[100:] and (page["count"], page["total"], page["next_cursor"]) == (20, 121, 0)

    dan = tenant.key("dan-laptop", ["reviewer"], reviewers=["dan"])
    mine = queue("queue", "list", "--mine", key=dan, check=0)
    assert [row.split()[0] for row in mine.stdout.splitlines()[1:]] == [soon] and mine.stderr == "1 for you, of 121\n", "payments are carol's"
    assert "missing_role" in queue("queue", "list", "--mine", key=tenant.agent, check=1).stderr


def test_who_judges_and_who_follows_sees_all_of_a_resource(queue):
    """A policy may read any string of it, and its properties."""
    tenant = queue.tenant
    whole = {"type": "invoice", "id": "1", "region": "PROD-EU\u202e", "properties": {"amount": 12.5}}
    answer = tenant.ask("pay", actor="bot", resource=whole)
    shown = queue("queue", "show", answer["review_id"], key=queue.reviewer, check=0).stdout
    assert re.search(r"^  resource\.region +PROD-EU.u202e$", shown, re.M) and re.search(r"^  resource_properties\.amount +12\.5$", shown, re.M), shown
    queue("queue", "approve", answer["review_id"], "--by", "carol", key=queue.reviewer, check=0)
    with tenant.stack.at_engine(tenant.agent) as wire:
        redeemed = wire.post(f"/v1/queue/{answer['review_id']}/redeem", {"action": "pay", "actor": "bot", "resource": whole})
    assert redeemed.json["decision"] == "allow", redeemed
    tenant.trace(answer["trace_id"], count=4)
    followed = queue("audit", "trace", answer["trace_id"], key=tenant.auditor, check=0).stdout
    assert "PROD-EU" in followed and '"amount":12.5' in followed, followed
    assert "binding hash" in followed and "redemption" in followed, followed
    plain = tenant.ask("pay", actor="bot", resource="invoice:2")
    assert "resource." not in queue("queue", "show", plain["review_id"], key=queue.reviewer, check=0).stdout


def test_queue_wait_ends_with_the_resolution_and_cancel_takes_back(queue):
    tenant, stack = queue.tenant, queue.tenant.stack
    review = tenant.ask("pay", actor="bot", args={"n": 1})["review_id"]
    harness.eventually(lambda: stack.metrics(stack.engine)["writ_engine_waits"] == 0, "nobody else waits any more")
    waiting = subprocess.Popen([harness.BIN / "writ", "queue", "wait", review, "--engine", stack.engine.url], text=True,
                               stdout=subprocess.PIPE, env={"WRIT_KEY": tenant.agent, "PATH": os.environ["PATH"]})
    harness.eventually(lambda: stack.metrics(stack.engine)["writ_engine_waits"] == 1, "it waits")
    queue("queue", "approve", review, "--by", "carol", key=queue.reviewer, check=0)
    out, _ = waiting.communicate(timeout=harness.PATIENCE)
    assert waiting.returncode == 0 and "carol" in out and "approved" in out
    other = tenant.ask("pay", actor="bot", args={"n": 2})["review_id"]
    assert "cancelled" in queue("queue", "cancel", other, key=tenant.agent, check=0).stdout
    assert "cancelled" in queue("queue", "wait", other, key=tenant.agent, check=1).stdout


def test_queue_watch_shows_more_than_a_page_once_each(queue):
    tenant = queue.tenant
    ids = [tenant.ask("pay", actor=f"bot{n % 2}", args={"n": n})["review_id"] for n in range(120)]
    lines = queue("queue", "watch", "--once", key=queue.reviewer, check=0).stdout.splitlines()
    assert [line.split()[1] for line in lines] == ids


def test_queue_watch_prints_json_for_programs(queue):
    id = queue.tenant.ask("pay", actor="bot", args={"n": 1})["review_id"]
    lines = queue("queue", "watch", "--once", "--json", key=queue.reviewer, check=0).stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [id]


def into_a_full_disk(stack, *words, key):
    with open("/dev/full", "w") as full:
        return subprocess.run([str(harness.BIN / "writ"), *words, "--platform", stack.platform.url, "--engine", stack.engine.url],
                              stdout=full, stderr=subprocess.PIPE, text=True, env={"WRIT_KEY": key}, timeout=harness.PATIENCE)


@pytest.mark.parametrize("words", [("audit", "export"), ("audit", "query", "--json", "--limit", "500"), ("policy", "list", "--json")])
def test_what_could_not_be_written_is_no_success(tenant, words):
    """More than the buffer of a stream: then it is not the last flush that fails."""
    for n in range(20):
        assert tenant.put("base", f"{ALLOW}# {n}{'x' * 20000}\n").status in (200, 201)
    done = into_a_full_disk(tenant.stack, *words, key=tenant.admin)
    assert done.returncode == 1 and "could not be written" in done.stderr, done


@pytest.mark.parametrize("words", [("queue", "watch"), ("top", "--every", "10ms")])
def test_what_goes_on_for_ever_ends_where_nobody_can_read_it(queue, words):
    queue.tenant.ask("pay", actor="bot", args={"n": 1})
    assert into_a_full_disk(queue.tenant.stack, *words, key=queue.reviewer).returncode == 1


def test_a_rollback_says_that_the_policy_is_not_in_force(writ):
    writ("policy", "put", "base", "-", stdin=ALLOW, check=0)
    writ("policy", "put", "base", "-", "--inactive", stdin=DENY, check=0)
    assert "not active" in writ("policy", "rollback", "base", "1", check=0).stdout


def test_token_mint_show_use_list_and_revoke(writ, tmp_path):
    tenant = writ.tenant
    tenant.policy(ALLOW)
    minted = writ("token", "mint", "--scope", "get_*", "--actor", "bot", "--ttl", "5m", "--uses", "2", key=tenant.agent, check=0)
    token, name = minted.stdout.strip(), re.search(r"tok_\w+", minted.stderr)[0]
    assert minted.stdout.count("\n") == 1 and re.search(r"ends at \d{4}-\d\d-\d\dT", minted.stderr)
    shown = writ("token", "show", key=tenant.agent, stdin=minted.stdout, check=0).stdout
    assert name in shown and "get_*" in shown and re.search(r"uses_left +2\n", shown)
    assert writ("authorize", "get_x", key=token, check=0).stdout.startswith("allow")
    assert "token:scope" in writ("authorize", "put_x", key=token, check=1).stdout
    assert writ("token", "mint", "--scope", "x", key=token, check=1).stderr
    assert "command line" in writ("token", "show", token, key=tenant.agent, check=2).stderr
    assert "tok_…" in writ("token", "revoke", token, key=tenant.agent, check=2).stderr
    assert name in writ("token", "list", "--all", key=tenant.admin, check=0).stdout
    file = tmp_path / "token"
    file.write_text(token + "\n")
    file.chmod(0o600)
    assert writ("token", "revoke", name, key=tenant.agent, check=0).stdout == writ("token", "revoke", name, key=tenant.agent, check=0).stdout
    assert "active        false" in writ("token", "show", file, key=tenant.agent, check=1).stdout
    assert "revoked" in writ("authorize", "get_x", "--key-file", file, check=1).stderr
    assert name not in writ("token", "list", key=tenant.admin, check=0).stdout
    assert "--scope" in writ("token", "mint", key=tenant.agent, check=2).stderr


def test_actor_suspend_list_and_resume(writ):
    tenant = writ.tenant
    tenant.policy(ALLOW)
    assert "is suspended" in writ("actor", "suspend", "bad@bot", "--reason", "It repeats itself.", check=0).stdout
    assert "It repeats itself." in writ("actor", "list", check=0).stdout
    assert "actor:suspended" in writ("authorize", "get_x", "--actor", "bad@bot", key=tenant.agent, check=1).stdout
    assert "may go on" in writ("actor", "resume", "bad@bot", check=0).stdout
    writ("authorize", "get_x", "--actor", "bad@bot", key=tenant.agent, check=0)
    assert "not suspended" in writ("actor", "resume", "bad@bot", check=1).stderr
    assert "missing_role" in writ("actor", "suspend", "bot", key=tenant.agent, check=1).stderr


def test_top_counts_what_happens_and_says_what_it_may_not_see(queue):
    tenant, stack = queue.tenant, queue.tenant.stack
    tenant.ask("pay", actor="bot")
    before = stack.metrics(stack.engine)
    for _ in range(5):
        tenant.ask("get_x", actor="bot")
    sample = json.loads(queue("top", "--once", "--json", "--every", "100ms", check=0).stdout)
    assert sample["decisions"]["allow"]["total"] >= before['writ_engine_decisions_total{decision="allow"}'] + 5
    assert {"lag_records", "stored"} <= set(sample["publish"]) and "mailboxes" in sample["queues"]
    assert sample["problems"] == [] and "reviews_pending_in_tenant" not in sample["state"]
    page = queue("top", "--once", "--every", "100ms", check=0).stdout
    assert "per second" in page and "records not confirmed yet" in page and "\033" not in page
    seen = json.loads(queue("top", "--once", "--json", "--every", "100ms", key=queue.reviewer, check=0).stdout)
    assert seen["state"] == {"reviews_pending_in_tenant": 1} and len(seen["problems"]) == 2
    own = json.loads(queue("top", "--once", "--json", "--every", "100ms", key=tenant.agent, check=0).stdout)
    assert own["state"] == {"reviews_pending_in_tenant": 1}, "an agent sees the reviews that it asked for"
    ingest = tenant.key("ingest", ["ingest"])
    assert "metrics or admin" in queue("top", "--once", key=ingest, check=1).stderr
    nowhere = f"http://127.0.0.1:{harness.free_port()}"
    half = stack.cli("top", "--once", "--every", "100ms", "--engine", nowhere, "--platform", stack.platform.url, key=tenant.admin, check=False)
    assert half.returncode == 3 and nowhere in half.stdout and "events stored" in half.stdout
    none = stack.cli("top", "--engine", nowhere, "--platform", nowhere, key=tenant.admin, check=False)
    assert none.returncode == 3 and nowhere in none.stderr


def test_doctor_finds_all_well_and_says_what_is_not(writ):
    done = writ("doctor")
    found = done.stdout.splitlines()[:-1]  # the last says how many are bad
    # How long the disk lasts goes by what other tests have just written, and by the disk.
    bad = [line for line in found if not line.startswith("ok ") and not line.startswith("BAD   disk      at the present rate")]
    assert len(found) >= 9 and bad == [] and done.returncode == int(any(line.startswith("BAD") for line in found)), done
    stack = writ.tenant.stack
    nowhere = f"http://127.0.0.1:{harness.free_port()}"
    done = stack.cli("doctor", "--engine", nowhere, "--platform", stack.platform.url, check=False, key=writ.tenant.admin)
    assert done.returncode != 0 and nowhere in done.stdout + done.stderr


def test_what_is_too_long_to_be_asked_is_not_cut_and_asked(writ):
    who, what = "助" * 256, "頼" * 256
    for words in (["audit", "query"], ["audit", "export"], ["queue", "list"], ["actor", "suspend", who * 3],
                  ["actor", "suspend", "bot", "--reason", who * 100], ["queue", "deny", "rev_1", "--note", who * 100],
                  ["token", "mint", "--scope", who * 100]):
        filters = ["--actor", who, "--action", what] if len(words) == 2 else []
        done = writ(*words, *filters, check=2)
        assert re.search("too long|larger than 64 KiB", done.stderr) and not done.stdout, done


def test_doctor_cuts_no_text_and_its_json_is_json(stack, tmp_path):
    for name in ("я" * 120 + "/x" + "я" * 120 + "/" + "я" * 100, b"\xff" + b"x" * 600):
        done = subprocess.run([harness.BIN / "writ", "doctor", "--json", "--engine", stack.engine.url, "--platform", stack.platform.url, "--data", name],
                              capture_output=True)
        told = json.loads(done.stdout.decode())["checks"][-1]
        assert done.returncode == 1 and told["check"] == "data" and re.search(r"can be read: \w+ \w+", told["text"]), told


def test_doctor_does_not_take_a_token_for_a_key_that_is_wrong(writ):
    token = writ("token", "mint", "--scope", "get_*", "--actor", "bot", key=writ.tenant.agent, check=0).stdout.strip()
    told = writ("doctor", key=token).stdout
    assert "the engine knows the token" in told and "refuses the key" not in told, told


@pytest.mark.parametrize("words", [("policy", "list"), ("policy", "versions", "x"), ("key", "list"), ("token", "list"), ("actor", "list"),
                                   ("queue", "list"), ("audit", "query")])
@pytest.mark.parametrize("page", [("--limit", "0"), ("--limit", "x"), ("--cursor", "-"), ("--cursor", "")])
def test_a_page_that_is_none_is_a_wrong_command_line_in_every_list(writ, words, page):
    assert page[0] in writ(*words, *page, check=2).stderr


@pytest.mark.parametrize("words", [("policy", "list"), ("key", "list")])
def test_a_page_of_a_list_has_500_rows_at_most(writ, words):
    writ(*words, "--limit", "500", check=0)
    assert "from 1 to 500" in writ(*words, "--limit", "501", check=2).stderr


@pytest.mark.parametrize("page", ["config", "metrics", "errors"])
def test_a_reference_page_is_json_where_that_is_asked_for(stack, page):
    printed = stack.cli("docs", page).stdout
    assert printed.startswith("# ") and json.loads(stack.cli("docs", page, "--json").stdout) == {"page": page, "markdown": printed}


@pytest.mark.parametrize("words, status", [
    ((), 2), (("nonsense",), 2), (("policy", "nonsense"), 2), (("policy", "get"), 2), (("authorize", "x", "--colour"), 2),
    (("--help",), 0), (("policy", "--help"), 0), (("policy", "put", "--help"), 0), (("--version",), 0), (("docs", "config"), 0),
    (("queue",), 2), (("queue", "aprove", "x"), 2), (("queue", "watch", "--status", "x"), 2), (("token", "revoke"), 2),
    (("actor", "suspend"), 2), (("top", "--every", "0"), 2), (("queue", "wait", "--help"), 0), (("top", "--help"), 0),
])
def test_wrong_words_are_2_and_help_is_0(stack, words, status):
    done = stack.cli(*words, check=False)
    assert done.returncode == status, done
    assert (done.stdout if status == 0 else done.stderr)


def test_who_cannot_be_reached_is_3(stack):
    done = stack.cli("policy", "list", "--platform", f"http://127.0.0.1:{harness.free_port()}", check=False, key=stack.keys["admin"])
    assert done.returncode == 3 and done.stderr


def test_a_key_is_refused_on_the_command_line_and_taken_from_a_file(stack, tmp_path):
    file = tmp_path / "key"
    file.write_text(stack.keys["admin"] + "\n")
    file.chmod(0o600)
    assert stack.cli("policy", "list", "--platform", stack.platform.url, "--key-file", file).returncode == 0
    assert stack.cli("policy", "list", "--key", stack.keys["admin"], check=False).returncode == 2
    file.chmod(0o644)
    assert stack.cli("policy", "list", "--platform", stack.platform.url, "--key-file", file, check=False).returncode != 0


def test_a_key_may_come_through_a_pipe_whatever_it_is_asked_with(stack):
    """As the shell's <(…) gives it, which can be read once: doctor asks five times."""
    for path in ("/dev/stdin", "-"):
        done = stack.cli("doctor", "--json", "--engine", stack.engine.url, "--platform", stack.platform.url, "--key-file", path,
                         stdin=stack.keys["admin"] + "\n", check=False)
        told = [check["text"] for check in json.loads(done.stdout)["checks"]]
        assert {"the engine knows the key", "the platform knows the key"} <= set(told), (told, done.stderr)


def test_a_terminal_gets_a_table_that_fits(writ):
    tenant = writ.tenant
    tenant.policy(ALLOW)
    trace = tenant.ask("get_something_with_a_rather_long_name", actor="bot")["trace_id"]
    tenant.trace(trace)
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    process = subprocess.Popen([harness.BIN / "writ", "audit", "query", "--platform", tenant.stack.platform.url], stdout=child,
                               stderr=subprocess.PIPE, env={"WRIT_KEY": tenant.auditor, "TERM": "xterm"})
    os.close(child)
    printed = b""
    try:
        while chunk := os.read(parent, 65536):
            printed += chunk
    except OSError:
        pass
    assert process.wait() == 0, process.stderr.read()
    process.stderr.close()
    os.close(parent)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", printed.decode())
    assert "allow" in plain and "…" in plain
    assert max(len(line) for line in plain.splitlines()) <= 120


def test_wide_letters_are_counted_as_the_columns_that_they_take(writ):
    tenant = writ.tenant
    for who in ("助手の名前", "bot", "помощник"):
        tenant.trace(tenant.ask("get_x", actor=who)["trace_id"])
    lines = writ("audit", "query", "--kind", "decision", key=tenant.auditor, check=0).stdout.splitlines()
    def columns(text):
        return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)
    where = [columns(line[:line.index(word)]) for line, word in zip(lines, ["WHAT"] + ["get_x"] * 3)]
    assert len(where) == 4 and len(set(where)) == 1, lines


def test_no_name_repaints_a_terminal(tmp_path, stack):
    evil = tmp_path / "\x1b[31mred.yaml"
    evil.write_text('"\\e]0;title": 1\nrules: []\n')
    for words in (["check"], ["test"], ["test", "--format", "tap"], ["import", "--from", "lelu"], ["diff"]):
        where = [evil, evil] if words == ["diff"] else [evil]
        done = stack.cli("policy", *words, *where, check=False)
        assert done.returncode in (1, 2) and "\x1b" not in done.stdout + done.stderr, (words, done)
    gone = stack.cli("policy", "check", tmp_path / "\x1b[31mgone.yaml", check=False)
    assert gone.returncode == 2 and "\\u001b[31mgone.yaml" in gone.stderr and "\x1b" not in gone.stderr


@contextlib.contextmanager
def a_server(answer):
    """One of our own, that says what `answer(path)` gives to whatever is asked; its address."""
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = answer(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


EVENT = {"timestamp": "2026-11-21T00:00:00.000Z", "kind": "decision", "actor": "bot", "action": "x", "decision": "allow"}


LARGE_EVENT = {**EVENT, "args": {"zeros": [0] * 800}}  # small to send, and some 50 KB in memory


def test_what_does_not_fit_into_memory_is_not_told_as_all_there_is(stack):
    """Pages are large and have no end."""
    events = json.dumps([LARGE_EVENT] * 500)

    def answer(path):
        cursor = int(path.partition("cursor=")[2].partition("&")[0] or 1000)
        return f'{{"events": {events}, "next_cursor": {cursor - 1}}}'.encode()

    with a_server(answer) as address:
        words = ["audit", "query", "--platform", address]
        table = stack.cli(*words, "--limit", "100000", key=stack.keys["auditor"], check=False, timeout=harness.PATIENCE)
        assert table.returncode == 1 and "memory" in table.stderr and table.stdout == "", table
        lines = stack.cli(*words, "--limit", "20000", "--json", key=stack.keys["auditor"], check=False, timeout=harness.PATIENCE)
        assert lines.returncode == 0 and lines.stdout.count("\n") == 20000


def test_a_trace_is_told_to_its_end_however_long_it_is(stack):
    """Agents choose trace ids, and so how much is in one: more here than the command has memory for at once."""
    pages = 60

    def answer(path):
        cursor = int(path.partition("cursor=")[2].partition("&")[0] or 0)
        page = {"events": [{**LARGE_EVENT, "action": f"step-{cursor}-"}] * 500}
        return json.dumps({**page, "next_cursor": cursor + 1} if cursor + 1 < pages else page).encode()

    with a_server(answer) as address:
        told = stack.cli("audit", "trace", "a-long-one", "--platform", address, key=stack.keys["auditor"], check=False, timeout=harness.PATIENCE)
    assert told.returncode == 0, told.stderr
    steps = collections.Counter(re.findall(r"step-(\d+)-", told.stdout))
    assert steps == {str(n): 500 for n in range(pages)}


def test_a_trace_whose_pages_go_in_a_ring_is_given_up(stack):
    page = json.dumps({"events": [EVENT], "next_cursor": 7}).encode()
    with a_server(lambda path: page) as address:
        told = stack.cli("audit", "trace", "a-ring", "--platform", address, key=stack.keys["auditor"], check=False)
    assert told.returncode == 1 and "does not come to an end" in told.stderr, told


def test_a_server_gives_no_orders_to_the_terminal(stack):
    evil = json.dumps({"token": "\x1b]0;pwn\x07", "key": "\x1b[2J", "token_id": "\x1b[1m", "id": "\x9b31m", "expires_at": 1}).encode()
    with a_server(lambda path: evil) as address:
        minted = stack.cli("token", "mint", "--scope", "x", "--engine", address, key=stack.keys["agent"], check=False)
        made = stack.cli("key", "create", "--name", "n", "--owner", "o", "--roles", "agent", "--platform", address, key=stack.keys["admin"], check=False)
    assert minted.returncode == 1 and "no token" in minted.stderr, minted
    for done in minted, made:
        assert not set("\x1b\x07\x9b") & set(done.stdout + done.stderr), done
