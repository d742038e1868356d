"""`writ policy test`, `check`, `diff` and `import`: tools that need neither engine nor platform."""

import json
import os
import subprocess
import xml.etree.ElementTree

import pytest

import harness

GOOD = """rules:
  - {id: small, agents: [bot], actions: [pay], when: args.n < 5, decision: allow}
  - {id: never-drop, actions: ["drop_*"], decision: deny}
tests:
  - {request: {actor: bot, action: pay, args: {n: 4}}, expect: allow}
"""

WRONG = """rules:
  - {id: small, agents: [bot], actions: [pay], decision: allow}
tests:
  - {request: {actor: bot, action: pay}, expect: allow}
  - {request: {actor: bot, action: "a#<b&\\uFFFE"}, expect: allow}
"""


def policy(*words, text=""):
    return subprocess.run([harness.BIN / "writ", "policy", *map(str, words)], input=text, capture_output=True, text=True,
                          timeout=harness.PATIENCE)


def write(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)


# ---- test ----

def test_all_documents_of_a_directory_are_tested(tmp_path):
    (tmp_path / "team").mkdir()
    write(tmp_path, b=GOOD, a=GOOD)
    write(tmp_path / "team", c=GOOD)
    (tmp_path / "notes.txt").write_text("no document")
    (tmp_path / ".hidden.yaml").write_text("no document either")
    done = policy("test", tmp_path)
    tests = [line for line in done.stdout.splitlines() if line.startswith("ok")]
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split(":")[0].removeprefix("ok    ") for line in tests] == [str(tmp_path / n) for n in ("a.yaml", "b.yaml", "team/c.yaml")]
    assert "3 passed, 0 failed\n" in done.stdout


def test_a_failing_test_is_told_with_its_place_and_the_others_run(tmp_path):
    write(tmp_path, a=WRONG, b=GOOD)
    done = policy("test", tmp_path)
    assert done.returncode == 1
    assert f"FAIL  {tmp_path}/a.yaml:5:5: tests[1]: expected allow, got deny by default:deny\n" in done.stdout
    assert "2 passed, 1 failed\n" in done.stdout


def test_a_document_that_does_not_load_fails_and_the_others_run(tmp_path):
    write(tmp_path, a="rules: 1\n", b=GOOD)
    done = policy("test", tmp_path)
    assert done.returncode == 1
    assert f"{tmp_path}/a.yaml:1:8: error: " in done.stdout
    assert "1 passed, 0 failed; a document does not load, see above\n" in done.stdout


def test_rules_that_no_test_meets_are_a_warning_or_a_failure(tmp_path):
    write(tmp_path, a=GOOD)
    warned, failed = policy("test", tmp_path), policy("test", tmp_path, "--require-coverage")
    assert (warned.returncode, failed.returncode) == (0, 1)
    assert f"{tmp_path}/a.yaml:3:5: warning: rules[1]: never matched by any test: never-drop\n" in warned.stdout
    assert f"{tmp_path}/a.yaml:3:5: error: rules[1]: never matched by any test: never-drop\n" in failed.stdout
    covered = GOOD + "  - {request: {actor: bot, action: DROP_x}, expect: deny}\n"
    write(tmp_path, a=covered)
    assert policy("test", tmp_path, "--require-coverage").returncode == 0


def test_tap(tmp_path):
    write(tmp_path, a=WRONG, b="rules: 1\n", c=GOOD)
    done = policy("test", tmp_path, "--format", "tap")
    lines = done.stdout.splitlines()
    points = [line for line in lines if line.startswith(("ok", "not ok"))]
    assert done.returncode == 1
    assert lines[:2] == ["TAP version 14", "1..4"]
    assert points == [f"ok 1 - {tmp_path}/a.yaml tests[0]: pay by bot", f"not ok 2 - {tmp_path}/a.yaml tests[1]: a\\#<b&\\\\ufffe by bot",
                      f"not ok 3 - {tmp_path}/b.yaml loads", f"ok 4 - {tmp_path}/c.yaml tests[0]: pay by bot"]
    assert '  message: "expected allow, got deny by default:deny"' in lines
    assert f"# {tmp_path}/c.yaml:3:5: never matched by any test: never-drop" in lines
    required = policy("test", tmp_path, "--format=tap", "--require-coverage").stdout.splitlines()
    assert required[1] == "1..6"
    assert f"ok 3 - {tmp_path}/a.yaml: each rule is matched by a test" in required
    assert f"not ok 6 - {tmp_path}/c.yaml: each rule is matched by a test" in required


def test_junit(tmp_path):
    write(tmp_path, a=WRONG, b="rules: 1\n", c=GOOD)
    done = policy("test", tmp_path, "--format", "junit", "--require-coverage")
    root = xml.etree.ElementTree.fromstring(done.stdout)
    assert done.returncode == 1
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("5", "2", "1")
    cases = {(s.get("name"), c.get("name")): [child.tag for child in c] for s in root for c in s.iter("testcase")}
    assert cases == {(f"{tmp_path}/a.yaml", "tests[0]: pay by bot"): [], (f"{tmp_path}/a.yaml", "tests[1]: a#<b&\\ufffe by bot"): ["failure"],
                     (f"{tmp_path}/b.yaml", "loads"): ["error"], (f"{tmp_path}/c.yaml", "tests[0]: pay by bot"): [],
                     (f"{tmp_path}/c.yaml", "rules[1]: is matched by a test"): ["failure"]}
    for suite in root:
        assert int(suite.get("tests")) == len(suite.findall("testcase"))


def test_results_can_be_json(tmp_path):
    write(tmp_path, a=WRONG)
    done = policy("test", tmp_path, "--json")
    assert [r["passed"] for r in json.loads(done.stdout)] == [True, False]


@pytest.mark.parametrize("tool", ["check", "test"])
def test_a_file_whose_name_is_no_text_does_not_spoil_the_report(tmp_path, tool):
    with open(os.fsencode(tmp_path) + b"/latin\xe9.yaml", "w", encoding="utf-8") as file:
        file.write("rules: [{id: a, actions: [y], decision: allow}]")
    done = subprocess.run([harness.BIN / "writ", "policy", tool, tmp_path, "--json"], capture_output=True)
    assert done.returncode == 1 and json.loads(done.stdout.decode())[0]["file"].endswith("latin\\ufffd.yaml"), done


@pytest.mark.parametrize("tool", ["check", "test"])
def test_a_report_of_very_many_faults_is_whole(tmp_path, tool):
    deep = tmp_path / ("d" * 250) / ("e" * 250)
    deep.mkdir(parents=True)
    for number in range(1800):
        write(deep, **{f"p{number}": "rules:\n" + "".join(f"  - {{id: a{n}, actoins: [y], decision: deny}}\n" for n in range(10))})
    report = json.loads(policy(tool, tmp_path, "--json").stdout)
    assert len(report) == 1800 * 20


def test_a_wrong_command_line_is_told(tmp_path):
    for words, why in ([(tmp_path,), "holds no documents"], [("/nowhere.yaml",), "cannot be opened"],
                       [(tmp_path, "--format", "x"), "text, tap or junit"], [(tmp_path, "--format=tap", "--json"), "exclude"]):
        done = policy("test", *words)
        assert (done.returncode, why in done.stderr) == (2, True), (words, done.stderr)


# ---- check ----

def test_a_folder_that_leads_back_to_itself_has_an_end(tmp_path):
    write(tmp_path, good=GOOD)
    (tmp_path / "again").symlink_to(tmp_path)
    done = policy("check", tmp_path)
    assert done.returncode == 2 and "folders are nested too deeply" in done.stderr, done


def test_a_link_that_leads_nowhere_hides_no_other_file(tmp_path):
    write(tmp_path, good=GOOD)
    (tmp_path / "gone.yaml").symlink_to("/nowhere/gone.yaml")
    (tmp_path / "..data").symlink_to("/nowhere")
    (tmp_path / "notes").symlink_to("/nowhere")
    done = policy("check", tmp_path)
    assert done.returncode != 0 and f"{tmp_path}/good.yaml: valid, 2 rules" in done.stdout, done
    assert f"{tmp_path}/gone.yaml cannot be opened: No such file" in done.stderr and "notes" not in done.stderr, done


def test_lints_are_told_with_their_place(tmp_path):
    write(tmp_path, a="""rules:
  - {id: a, agents: [bot], actions: [pay], when: "!has(args.force) && args.amount * 2 < 5", decision: allow}
""")
    done = policy("check", tmp_path)
    assert done.returncode == 0
    assert f"{tmp_path}/a.yaml:2:52: warning: rules[0].when: has(args.force) is negated" in done.stdout
    assert (f"{tmp_path}/a.yaml:2:71: warning: rules[0].when: args.amount * 2 always fails: a number of JSON is a double, and 2 is an int; "
            "write 2.0\n") in done.stdout


DOUBTFUL = """rules:
  - {id: a, actions: ["drop_?"], decision: deny}
"""


def test_strict_refuses_what_is_warned_of(tmp_path):
    write(tmp_path, a=DOUBTFUL, b=GOOD)
    plain, strict = policy("check", tmp_path), policy("check", "--strict", tmp_path)
    warned = 'a.yaml:2:23: %s: rules[0].actions[0]: only * is special, so "drop_?" matches that very name and no other; write "drop_*"\n'
    assert plain.returncode == 0 and warned % "warning" in plain.stdout and "a.yaml: valid" in plain.stdout, plain
    assert strict.returncode == 1 and warned % "error" in strict.stdout and "a.yaml: valid" not in strict.stdout, strict
    assert "b.yaml: valid" in strict.stdout
    (tmp_path / "a.yaml").unlink()
    assert policy("check", "--strict", tmp_path).returncode == 0
    (tmp_path / "a b.yaml").write_text(GOOD)
    assert policy("check", "--strict", tmp_path / "a b.yaml").returncode == 1


def test_a_file_whose_test_fails_is_warned_of_too(tmp_path):
    write(tmp_path, a=DOUBTFUL + "tests: [{request: {actor: bot, action: drop_x}, expect: deny, rule: 'deny:a'}]\n")
    for words, text in (((tmp_path / "a.yaml",), None), (("-",), (tmp_path / "a.yaml").read_text())):
        done = subprocess.run([harness.BIN / "writ", "policy", "check", *words], input=text, capture_output=True, text=True, timeout=harness.PATIENCE)
        assert done.returncode == 1 and "valid" not in done.stdout, done
        assert ": error: tests[0]: expected deny by deny:a" in done.stdout, done
        assert ': warning: rules[0].actions[0]: only * is special, so "drop_?"' in done.stdout, done


def test_warnings_that_are_not_shown_are_counted(tmp_path):
    write(tmp_path, a="rules:\n" + "".join(f"  - {{id: a{n}, actions: ['x{n}?'], decision: deny}}\n" for n in range(50)))
    done, listed = policy("check", tmp_path), json.loads(policy("check", tmp_path, "--json").stdout)
    assert done.stdout.count("warning: rules[") == 20 and "warning: 30 more warnings are not shown: the limit is 20\n" in done.stdout, done
    assert len(listed) == 21 and sum(w["message"].startswith("30 more warnings") for w in listed) == 1


# ---- check: the roles of a set ----

ROLES = "roles: {contractor: [erin]}\n"
NAMES = "rules:\n  - {id: no-drop, roles: [%s], actions: [drop], decision: deny}\n"


def test_a_role_that_nobody_defines_is_an_error_of_a_directory_and_a_warning_of_files(tmp_path):
    write(tmp_path, roles=ROLES, fine=NAMES % "contractor", typo=NAMES % "contracter")
    told = 'rules[0].roles[0]: no document defines the role "contracter"; did you mean "contractor"?\n'
    done = policy("check", tmp_path)
    assert done.returncode == 1 and f"{tmp_path}/typo.yaml:2:5: error: {told}" in done.stdout
    assert f"{tmp_path}/fine.yaml: valid, 1 rule\n" in done.stdout and "typo.yaml: valid" not in done.stdout
    done = policy("check", tmp_path / "typo.yaml", tmp_path / "roles.yaml")
    assert done.returncode == 0 and f"{tmp_path}/typo.yaml:2:5: warning: {told}" in done.stdout
    done = policy("check", tmp_path / "fine.yaml")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"{tmp_path}/fine.yaml: valid, 1 rule")
    assert 'fine.yaml:2:5: warning: rules[0].roles[0]: no document defines the role "contractor"\n' in done.stdout
    (found,) = json.loads(policy("check", "--json", tmp_path).stdout)
    assert found["kind"] == "error" and found["file"] == f"{tmp_path}/typo.yaml" and found["path"] == "rules[0].roles[0]"


# ---- diff ----

OLD = """rules:
  - {id: pay, agents: [bot], actions: [pay], decision: allow}
  - {id: get, agents: [bot], actions: ["get_*"], decision: allow}
  - {id: write, agents: [bot], actions: [write], decision: compute, compute: {tool: safe, args: {path: "${args.path}"}}}
  - {id: ask, actions: [ask], decision: human_review}
"""

NEW = """rules:
  - {id: pay, agents: [bot], actions: [pay], when: args.n < 5, decision: allow}
  - {id: large, actions: [pay], when: args.n >= 5, decision: human_review, review: {by: [finance]}}
  - {id: reads, agents: [bot], actions: ["get_*", list], decision: allow}
  - {id: write, agents: [bot], actions: [write], decision: compute, compute: {tool: safe, args: {path: "/s${args.path}"}}}
  - {id: ask, actions: [ask], decision: human_review, review: {approvals: 2}}
"""

CORPUS = """{"kind":"decision","actor":"bot","action":"pay","args":{"n":4},"decision":"allow","timestamp":"2026-11-20T09:30:00.000Z"}
{"kind":"decision","actor":"bot","action":"pay","args":{"n":9},"resource":{"type":"db","id":"x"},"resource_properties":{"k":1}}
{"kind":"token.minted","actor":"admin"}
{"tool":"pay","actor":"bot","args":{"n":"[masked]"},"context":{"actingFor":"z","confidence":0.5}}
{"request":{"user_id":"carol","action":"ask"},"expect":"human_review"}
{"actor":"bot","action":"write","args":{"path":"/a"}}

{"events":[{"kind":"decision","actor":"bot","action":"get_x"},{"kind":"decision","actor":"bot","action":"list"}]}
{"kind":"decision","event_id":"posted-1","action":"pay"}
{"kind":"decision","event_id":"posted-2","actor":"bot","user_id":"carol","action":"pay"}
{"kind":"decision","event_id":"posted-3","actor":"bot"}
"""


def diff(tmp_path, *words, old=OLD, new=NEW, corpus=CORPUS):
    (tmp_path / "old").mkdir(exist_ok=True)
    write(tmp_path / "old", a=old)
    write(tmp_path, new=new)
    return policy("diff", tmp_path / "old", tmp_path / "new.yaml", "--against", "-", *words, text=corpus)


def test_a_queried_event_that_had_no_confidence_is_asked_without_one(tmp_path):
    """The API shows `confidence` even if 0, and `confidence_used` only where one was given."""
    gate = "confidence: {{allow_at: 0.9, review_at: 0.5, missing: {}}}\nrules:\n  - {{id: g, agents: [bot], actions: [x], decision: allow}}\n"
    event = {"event_id": "evt_1", "kind": "decision", "tenant_id": "default", "timestamp": "2026-11-20T09:30:00Z", "actor": "bot", "action": "x",
             "decision": "human_review", "mode": "live"}
    queried = {**event, "id": 1, "created_at": "2026-11-20T09:30:01Z", "confidence": 0}
    for line, changes in ((event, 1), (queried, 1), ({**queried, "confidence_used": 0}, 0), ({**event, "confidence": 0, "confidence_used": 0}, 0)):
        done = diff(tmp_path, old=gate.format("human_review"), new=gate.format("deny"), corpus=json.dumps(line) + "\n")
        assert done.returncode == changes, (line, done.stdout, done.stderr)


def test_requests_that_would_change_are_told_and_counted(tmp_path):
    done = diff(tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines() == [
        "-:2: pay on db:x by bot: allow by allow:pay → human_review by review:large (1 of finance)",
        "-:4: pay by bot: cannot be known: pay of new, large of new",
        "-:5: ask by carol: human_review by review:ask → human_review by review:ask (2 of anyone who may)",
        '-:6: write by bot: compute by compute:write (safe {"path":"/a"}) → compute by compute:write (safe {"path":"/s/a"})',
        "-:8: list by bot: deny by default:deny → allow by allow:reads",
        "4 of 7 requests would change: 1 looser, 1 stricter, 2 otherwise",
        "         1  allow → human_review",
        "         1  compute → compute",
        "         1  human_review → human_review",
        "         1  deny → allow",
        "1 cannot be known, because rules read or add up values that are not recorded",
        "         1  pay of new",
        "         1  large of new",
        "1 have the same outcome by another rule",
        "1 were recorded with values masked or left out",
        "4 events that are dry runs or no decisions, or have no subject, were skipped",
    ]


def test_what_is_masked_in_records_is_not_printed(tmp_path):
    """A request as it was sent has it in clear."""
    rule = "rules:\n  - {id: w, agents: [bot], actions: [write], decision: compute, compute: {tool: safe, args: {of: '%s', token: '${args.Token}'}}}\n"
    mask = "mask: [args.card, args.token, resource.id]\n"
    old, new = mask + rule % "${args.card}", mask + rule.replace("safe,", "other,") % "${args.card}"
    line = '{"actor":"bot","action":"write","resource":"account:SECRET-1","args":{"card":"SECRET-2","Token":"SECRET-3"}}\n'
    for words in ((), ("--json",)):
        done = diff(tmp_path, *words, old=old, new=new, corpus=line)
        assert done.returncode == 1 and "SECRET" not in done.stdout and "[masked]" in done.stdout, done


def test_the_same_policies_change_nothing(tmp_path):
    done = diff(tmp_path, new=OLD)
    assert done.returncode == 0
    assert "0 of 7 requests would change" in done.stdout


def test_the_report_can_be_json_and_be_short(tmp_path):
    report = json.loads(diff(tmp_path, "--json", "--limit", "1").stdout)
    assert (report["requests"], report["changed"], report["looser"], report["stricter"]) == (7, 4, 1, 1)
    assert report["changes"] == [{"line": 2, "actor": "bot", "action": "pay", "resource": "db:x",
                                  "old": {"decision": "allow", "rule": "allow:pay", "policy_name": "a"},
                                  "new": {"decision": "human_review", "rule": "review:large", "policy_name": "new",
                                          "by": "finance", "approvals": 1}}]
    assert {"old": "deny", "new": "allow", "count": 1} in report["counts"]
    assert (report["unknown"], report["unknown_rules"]) == (1, [{"policy_name": "new", "rule_id": r, "requests": 1} for r in ("pay", "large")])
    assert report["unknowns"] == [{"line": 4, "actor": "bot", "action": "pay",
                                   "rules": [{"policy_name": "new", "rule_id": r} for r in ("pay", "large")]}]
    assert "… and 3 more" in diff(tmp_path, "--limit", "1").stdout


MASKED = {"actor": "bot", "action": "pay", "args": {"a": "[masked]", "b": "[masked]", "n": 1}, "context": {"ip": "[masked]"},
          "resource": {"type": "db", "id": "[masked]"}}
ALLOW = "{id: all, agents: [bot], actions: [pay, safe], decision: allow}"
DENY = "{id: no, actions: [pay], decision: deny, %s}"
COMPUTE = "{id: c, agents: [bot], actions: [pay], decision: compute, compute: {tool: %s, args: {x: '%s'}}}"


@pytest.mark.parametrize("old, new, said", [
    # Two masked values are equal in a record, whatever they were.
    ([ALLOW], [ALLOW, DENY % "when: args.a != args.b"], "unknown"),
    ([ALLOW], [ALLOW, DENY % "when: args.a == args.b"], "unknown"),
    ([ALLOW], [ALLOW, DENY % "when: \"context.ip == args['a']\""], "unknown"),
    ([ALLOW], [ALLOW, DENY % "when: 'request.args.exists(k, request.args[k] == 5)'"], "unknown"),
    ([ALLOW], [ALLOW, DENY % "resources: ['db:prod-*']"], "unknown"),
    # What reads other values is known.
    ([ALLOW], [ALLOW, DENY % "when: args.n == 1"], "changed"),
    ([ALLOW], [ALLOW, DENY % "when: args.n == 2"], "same"),
    # A rule that is the same in both sets has the same result in both.
    ([ALLOW, DENY % "when: args.a == args.b"], [ALLOW, DENY % "when: args.a == args.b", "{id: more, actions: [other], decision: deny}"], "same"),
    ([DENY % "when: args.a == args.b"], [ALLOW, DENY % "when: args.a == args.b"], "unknown"),
    # Whatever the condition gives, a deny decides.
    ([ALLOW, DENY % "when: args.n == 1"], [ALLOW, DENY % "when: args.n == 1", "{id: more, actions: [pay], when: args.a == 'x', decision: deny}"], "same"),
    ([ALLOW], ["{id: no-a, actions: [pay], when: args.a == 'x', decision: deny}", DENY % "when: args.n == 1"], "changed"),
    # Safe arguments of masked values look equal.
    ([ALLOW, COMPUTE % ("safe", "${args.a}")], [ALLOW, COMPUTE % ("safe", "${args.b}")], "unknown"),
    ([ALLOW, COMPUTE % ("safe", "${args.a}")], [ALLOW, COMPUTE % ("safe", "${args.a}")], "same"),
    ([ALLOW, COMPUTE % ("safe", "${args.a}")], [ALLOW, COMPUTE % ("other", "${args.a}")], "changed"),
    ([ALLOW, COMPUTE % ("safe", "${args.a}")], [ALLOW, COMPUTE % ("safe", "${args.a}"), "{id: s, actions: [safe], when: args.x == 'y', decision: deny}"],
     "unknown"),
    ([ALLOW], [ALLOW] + [f"{{id: n{i}, actions: [pay], when: args.a == '{i}', decision: deny}}" for i in range(9)], "unknown"),
])
def test_what_depends_on_masked_values_is_not_called_the_same(tmp_path, old, new, said):
    texts = ["rules:\n" + "".join(f"  - {rule}\n" for rule in rules) for rules in (old, new)]
    done = diff(tmp_path, "--json", old=texts[0], new=texts[1], corpus=json.dumps(MASKED) + "\n")
    report = json.loads(done.stdout)
    assert (report["changed"], report["unknown"]) == {"same": (0, 0), "changed": (1, 0), "unknown": (0, 1)}[said], done.stdout
    assert done.returncode == (said != "same")


def test_what_a_request_carries_reaches_the_rules(tmp_path):
    rule = "rules:\n  - {id: r, agents: [bot], actions: [x], decision: allow, when: '%s'}\n"
    carried = {"actor": "bot", "action": "x", "acting_for": "dan", "confidence": 0.5, "scope": "x y*", "tenant_id": "t",
               "timestamp": "2026-11-20T09:30:00Z", "context": {"text": "a", "confidence": 0.5}, "args": {"n": 1},
               "resource": {"type": "db", "id": "x"}, "resource_properties": {"k": 1}}
    for when in ('acting_for == "dan"', 'scope == ["x", "y*"]', 'tenant == "t"', "now.getHours() == 9 && now.getFullYear() == 2026",
                 'context == {"text": "a"}', "args.n == 1", 'resource.type == "db" && resource.properties.k == 1'):
        done = diff(tmp_path, old=OLD, new=rule % when, corpus=json.dumps(carried))
        assert "deny by default:deny → allow by allow:r" in done.stdout, when
    as_tool = {"tool": "x", "actor": "bot", "context": {"actingFor": "dan", "confidence": 0.5, "scope": "x y*", "text": "a"}}
    for when in ('acting_for == "dan"', 'scope == ["x", "y*"]', 'context == {"text": "a"}'):
        done = diff(tmp_path, old=OLD, new=rule % when, corpus=json.dumps(as_tool))
        assert "deny by default:deny → allow by allow:r" in done.stdout, when
    person = {"user_id": "sam", "action": "x", "context": {"confidence": 0.5, "scope": "mine"}}
    done = diff(tmp_path, new=(rule % 'context.confidence == 0.5 && context.scope == "mine"').replace("agents: [bot]", "users: [sam]"),
                corpus=json.dumps(person))
    assert "deny by default:deny → allow by allow:r" in done.stdout
    outside = diff(tmp_path, new=rule % "true", corpus=json.dumps(carried | {"scope": ["y"]}))
    assert outside.returncode == 0
    assert "1 requests" in outside.stdout


def test_a_corpus_that_is_none_is_refused(tmp_path):
    for corpus, why in (("", "holds no requests"), ('{"kind":"token.minted"}\n', "holds no requests"), ("{", "-:1: "),
                        ('\n{"actor":"a"}', "-:2: names no action"), ('{"action":"a"}', "names neither actor nor user_id"),
                        ('{"actor":"a","action":"b","confidence":2}', "confidence"), ('{"actor":"a","action":"b","args":[]}', "args"),
                        ("[1]", "no JSON object"), ('{"actor":"a","action":"b","timestamp":"noon"}', "timestamp"),
                        ('{"actor":"a","action":"b"}\0{"actor":"a"}\n', "-:1: "), ('\n{"actor":"a","action":"b"}\0{"actor":"a"}', "-:2: "),
                        ("\0\n", "-:1: ")):
        done = diff(tmp_path, corpus=corpus)
        assert (done.returncode, why in done.stderr) == (2, True), (corpus, done.stderr)


def test_documents_that_are_invalid_are_no_set(tmp_path):
    done = diff(tmp_path, new="rules: 1\n")
    assert done.returncode == 2
    assert f"{tmp_path}/new.yaml:1:8: " in done.stderr
    assert policy("diff", tmp_path / "old", tmp_path / "old").returncode == 2


# ---- import ----

PEER = """version: "1.0"
roles:
  finance_manager: {allow: [view_invoices, approve_refunds], deny: [delete_invoices]}
agent_scopes:
  invoice_bot:
    inherits: finance_manager
    constraints:
      - require_human_approval_if_confidence_below: 0.90
      - hard_deny_if_confidence_below: 0.50
    deny: [delete_invoices]
    can_delegate: [{to: research_bot, scoped_to: [view_invoices]}]
"""


def test_a_peers_policies_become_a_document(tmp_path):
    done = policy("import", "--from", "lelu", "-", text=PEER)
    assert done.returncode == 0
    assert done.stderr == "4 rules; 2 things were not taken: look for NOT TAKEN and CHECK\n"
    assert "# NOT TAKEN: can_delegate" in done.stdout
    tests = """tests:
  - {request: {actor: invoice_bot, action: view_invoices, confidence: 0.95}, expect: allow}
  - {request: {actor: invoice_bot, action: view_invoices, confidence: 0.75}, expect: human_review}
  - {request: {actor: invoice_bot, action: view_invoices, confidence: 0.6}, expect: deny}
  - {request: {actor: invoice_bot, action: delete_invoices, confidence: 1}, expect: deny, rule: "deny:invoice_bot-deny"}
"""
    # Who has which role the other system's file does not say: that is to be written by hand.
    write(tmp_path, imported=done.stdout + tests)
    assert "imported.yaml: valid, 4 rules\n" in policy("check", tmp_path / "imported.yaml").stdout
    write(tmp_path, people="roles: {finance_manager: [carol]}\n")
    assert f"{tmp_path}/imported.yaml: valid, 4 rules\n" in policy("check", tmp_path).stdout
    assert policy("test", tmp_path).returncode == 0


def test_what_cannot_be_imported_is_told(tmp_path):
    done = policy("import", "--from", "lelu", "-", text="roles:\n  m: {allow: x}\n")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "-:2:14: allow: has to be a list\n")
    for words in (("-",), ("--from", "opa", "-"), ("--from", "lelu", "/nowhere.yaml")):
        assert policy("import", *words, text="").returncode == 2
    assert "agent_scopes" in policy("import", "--help").stdout


def test_what_makes_the_document_invalid_is_told_where_it_stands_in_the_peers_file(tmp_path):
    many = "".join(f"  agent{n}: {{inherits: finance_manager, deny: [x{n}]}}\n" for n in range(300))
    bad = "  broad: {inherits: finance_manager, deny: ['a*b*c*d*e*f*g*h*i*j']}\n"
    long = f"  long:\n    inherits: finance_manager\n    compute: [{{action: x, safe_tool: {'t' * 129}}}]\n"
    (tmp_path / "auth.yaml").write_text(PEER + bad + many + long)
    done = policy("import", "--from", "lelu", tmp_path / "auth.yaml")
    first = len(PEER.splitlines()) + 1
    told = "the converted document is not valid:"
    assert (done.returncode, done.stdout, done.stderr.splitlines()) == (1, "", [
        f"{tmp_path}/auth.yaml:{first}:3: {told} actions[0]: has 9 stars; 8 are the most",
        f"{tmp_path}/auth.yaml:{first + 301}:3: {told} tool: has 129 characters; 128 are the most"])


def test_a_number_beyond_64_bits_is_imported(tmp_path):
    compute = "    compute: [{action: x, safe_tool: y, safe_args: {n: 1e20, m: -1.5e20, k: 1e22}}]\n"
    done = policy("import", "--from", "lelu", "-", text=PEER + compute)
    assert (done.returncode, '{"n": 100000000000000000000.0, "m": -150000000000000000000.0, "k": 1e+22}' in done.stdout) == (0, True)
    write(tmp_path, imported=done.stdout)
    assert policy("check", *tmp_path.glob("*.yaml")).returncode == 0
