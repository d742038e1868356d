"""`writ policy diff` counts limits over the recorded requests, in the order of their times, each set in counters of its own."""

import json
import random
import subprocess

import harness
import pytest

FREE = "{id: pay, agents: ['*'], actions: [pay], decision: allow%s}"
THREE = ", limit: {window: 1h, count: 3}"
SUM = ", limit: {window: 1h, sum: args.n, max: 100, over: human_review}"
DENY = "{id: no, actions: [pay], when: \"has(args.why) && args.why == 'x'\", decision: deny}"
ASK = "{id: ask, agents: ['*'], actions: [pay], decision: human_review%s}"


def document(*rules):
    return "rules:\n" + "".join(f"  - {rule}\n" for rule in rules)


def paid(minute, actor="bot", **more):
    """An event of the audit trail."""
    return {"kind": "decision", "mode": "live", "decision": "allow", "rule": "allow:pay", "actor": actor, "action": "pay", "key_id": "key_1",
            "timestamp": f"2026-11-20T{9 + minute // 60:02}:{minute % 60:02}:00.000Z", **more}


def amount(minute, n, **more):
    return paid(minute, args={"n": n}, **more)


def diff(tmp_path, old, new, events, *words, status=None):
    for name, text in (("old", old), ("new", new)):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "base.yaml").write_text(document(*text) if isinstance(text, list) else text)
    corpus = "".join(json.dumps(event) + "\n" for event in events) if isinstance(events, list) else events
    done = subprocess.run([harness.BIN / "writ", "policy", "diff", tmp_path / "old", tmp_path / "new", "--against", "-", "--json", *words], input=corpus,
                          capture_output=True, text=True, timeout=harness.PATIENCE)
    assert done.returncode == (1 if status is None else status) or status is None and done.returncode == 0, done
    return json.loads(done.stdout) if done.stdout else done.stderr


def lines(report):
    """Which requests change, by line, and to what; which cannot be known, and because of which rules."""
    changed = {change["line"]: f"{change['old']['rule']} → {change['new']['rule']}" for change in report["changes"]}
    unknown = {one["line"]: [rule["rule_id"] for rule in one["rules"]] for one in report["unknowns"]}
    return changed, unknown


OVER = "allow:pay → limit:pay"
COUNTED = {
    "a count": ([FREE % ""], [FREE % THREE], [paid(n) for n in range(5)], {4: OVER, 5: OVER}),
    "the other way round": ([FREE % THREE], [FREE % ""], [paid(n) for n in range(4)], {4: "limit:pay → allow:pay"}),
    "each set has counters of its own": ([FREE % THREE], [FREE % ", limit: {window: 1h, count: 4}"], [paid(n) for n in range(6)],
                                         {4: "limit:pay → allow:pay"}),
    "the window slides": ([FREE % ""], [FREE % THREE], [paid(n) for n in (0, 10, 20, 30, 59, 60, 61, 70)], {4: OVER, 5: OVER, 7: OVER}),
    "newest first, as a query lists them": ([FREE % ""], [FREE % THREE], [paid(n) for n in (40, 30, 20, 10, 0)], {1: OVER, 2: OVER}),
    "each actor": ([FREE % ""], [FREE % THREE], [paid(n, actor=f"bot{n % 2}") for n in range(8)], {7: OVER, 8: OVER}),
    "a sum": ([FREE % ""], [FREE % SUM], [amount(0, 60), amount(1, 50), amount(2, 40), amount(3, 0.01)], {2: OVER, 4: OVER}),
    "what a set denies is not counted": ([FREE % ""], [FREE % THREE, DENY], [paid(n, args={"why": "xy"[n % 2]}) for n in range(8)],
                                         {n: "allow:pay → deny:no" for n in (1, 3, 5, 7)} | {8: OVER}),
    "a dry run is no request": ([FREE % ""], [FREE % THREE], [paid(n, mode="dry_run" if n < 3 else "live") for n in range(6)], {}),
    "what its token denied is not counted": ([FREE % ""], [FREE % THREE], [paid(n, decision="deny", rule="token:uses") for n in range(3)] + [paid(4)], {}),
    "nor what a suspension denied": ([FREE % ""], [FREE % THREE], [paid(n, decision="deny", rule="actor:suspended") for n in range(3)] + [paid(4)], {}),
    "but what a rule denied is": ([FREE % ""], [FREE % THREE], [paid(n, decision="deny", rule="default:deny") for n in range(3)] + [paid(4)], {4: OVER}),
    "a retry is counted once": ([FREE % ""], [FREE % THREE], [paid(n, idempotency_key="k") for n in range(9)] + [paid(9, idempotency_key=f"k{n}") for n in range(3)],
                                {12: OVER}),
    "the key is known for ten minutes": ([FREE % ""], [FREE % THREE], [paid(n, idempotency_key="k") for n in (0, 10, 20, 30)], {4: OVER}),
    "another sender's key is another": ([FREE % ""], [FREE % THREE], [paid(n, idempotency_key="k", key_id=f"key_{n}") for n in range(4)], {4: OVER}),
    "a review waits": ([ASK % ""], [ASK % THREE], [paid(n, decision="human_review") for n in range(5)], {}),
    "a redemption is counted": ([ASK % ""], [ASK % THREE], [paid(n, redemption_id=f"evt_{n}") for n in range(4)], {4: "review:ask → limit:pay".replace("pay", "ask")}),
    "people may let it through beyond the limit": ([ASK % ""], [ASK % SUM], [amount(0, 90), amount(1, 90, redemption_id="evt_1"), amount(2, 90, redemption_id="evt_2")], {}),
    "and then it is counted": ([FREE % ""], [FREE % SUM], [amount(0, 90), amount(1, 90, redemption_id="evt_1"), amount(62, 20)], {2: OVER}),
    "what people let through stays counted": ([FREE % ""], [FREE % SUM], [amount(0, 90), amount(30, 90, redemption_id="evt_1"), amount(61, 20)],
                                              {2: OVER, 3: OVER}),
    "several limits count all or nothing": ([FREE % ""], [FREE % THREE, "{id: b, agents: ['*'], actions: [pay], decision: allow, limit: {window: 10m, count: 1}}"],
                                            [paid(n) for n in (0, 1, 2, 3, 11, 22, 33)],
                                            {n: "allow:pay → limit:b" for n in (2, 3, 4)} | {7: OVER}),
}


@pytest.mark.parametrize("case", COUNTED)
def test_requests_are_counted(tmp_path, case):
    old, new, events, expected = COUNTED[case]
    assert lines(diff(tmp_path, old, new, events)) == (expected, {})


MASKED = "[masked]"
BY_RESOURCE = ", limit: {per: resource, window: 1h, count: 1}"
UNKNOWN = {
    "a masked amount, and what is counted after it": ([FREE % ""], [FREE % SUM], [amount(0, 50), amount(1, MASKED), amount(2, 40), amount(3, 60)],
                                                      {4: OVER}, {2: ["pay"], 3: ["pay"]}),
    "until it is out of the window": ([FREE % ""], [FREE % SUM], [amount(0, MASKED), amount(60, 60), amount(61, 60)], {3: OVER}, {1: ["pay"]}),
    "an amount that was left out": ([FREE % ""], [FREE % SUM], [paid(0, args={"omitted": True, "bytes": 70000})], {}, {1: ["pay"]}),
    "an expression": ([FREE % ""], [FREE % SUM.replace("args.n", "args.n * 2.0")], [amount(0, MASKED)], {}, {1: ["pay"]}),
    "the same limit in both sets": ([FREE % SUM], [FREE % SUM, "{id: more, actions: [other], decision: deny}"],
                                    [amount(n, MASKED if n % 2 else 30) for n in range(6)], {}, {}),
    "with another bound": ([FREE % SUM], [FREE % SUM.replace("100", "200")], [amount(0, MASKED)], {}, {1: ["pay"]}),
    "with another count before": ([FREE % SUM], [FREE % SUM, DENY], [amount(0, 30), paid(1, args={"n": 30, "why": "x"}), amount(2, MASKED), amount(3, 1)],
                                  {2: "allow:pay → deny:no"}, {3: ["pay"], 4: ["pay"]}),
    "a count needs no amount": ([FREE % ""], [FREE % THREE], [amount(n, MASKED) for n in range(4)], {4: OVER}, {}),
    "who may have been denied may have been counted": ([FREE % ""], [FREE % THREE, DENY], [paid(n, args={"why": MASKED}) for n in range(2)] + [paid(n) for n in (2, 3, 4, 5)],
                                                       {}, {1: ["no"], 2: ["no"], 4: ["pay"], 5: ["pay"], 6: ["pay"]}),
    "a resource": ([FREE % ""], [FREE % BY_RESOURCE], [paid(n, resource={"type": "db", "id": MASKED}) for n in range(2)], {}, {2: ["pay"]}),
    "a resource that the record has": ([FREE % ""], [FREE % BY_RESOURCE], [paid(n, resource={"type": "db", "id": "x"}) for n in range(2)], {2: OVER}, {}),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_the_record_does_not_have_is_not_guessed(tmp_path, case):
    old, new, events, changed, unknown = UNKNOWN[case]
    report = diff(tmp_path, old, new, events)
    assert lines(report) == (changed, unknown)
    assert {rule["rule_id"]: rule["requests"] for rule in report["unknown_rules"]} == {
        rule: sum(rule in rules for rules in unknown.values()) for rule in {rule for rules in unknown.values() for rule in rules}}


def test_assumptions_agree_with_every_value_that_the_record_may_have_had(tmp_path):
    """Random histories: what is called known is so with each value in the place of the masked ones."""
    dice, known, fillings = random.Random(20), 0, 20
    for _ in range(12):
        new = dice.choice([[FREE % SUM], [FREE % ", limit: {window: 30m, sum: args.n, max: 70}"], [FREE % SUM.replace("100", "90"), DENY]])
        events = [amount(dice.randrange(200), dice.choice([MASKED, 10, 10, 30, 30, 60, 80])) for _ in range(12)]
        for event in events:
            event["args"]["why"] = dice.choice("xyz")
        filled = [event | {"tenant_id": f"t{n}", "args": event["args"] | ({"n": dice.choice([0, 5, 50, 95, 1000])} if event["args"]["n"] == MASKED else {})}
                  for n in range(fillings) for event in events]
        changed, unknown = lines(diff(tmp_path, [FREE % SUM.replace("100", "90")], new, events + filled, "--limit", "1000"))
        said = {line: changed.get(line) for line in range(1, 13) if line not in unknown}
        assert not any(line > 12 for line in unknown)
        for n in range(1, fillings + 1):
            assert said == {line: changed.get(12 * n + line) for line in said}, (events, filled, new)
        known += len(said)
    assert known > 60


def test_pages_and_files_are_read_in_the_order_of_time(tmp_path):
    events = [paid(n) for n in (30, 20, 10, 0)]
    pages = json.dumps({"events": events[:2]}) + "\n\n" + json.dumps({"events": events[2:]}) + "\n"
    report = diff(tmp_path, [FREE % ""], [FREE % THREE], pages)
    assert report["changed"] == 1 and report["changes"][0]["line"] == 1
    (tmp_path / "corpus.jsonl").write_text(pages)
    done = subprocess.run([harness.BIN / "writ", "policy", "diff", tmp_path / "old", tmp_path / "new", "--against", tmp_path / "corpus.jsonl"],
                          capture_output=True, text=True, timeout=harness.PATIENCE)
    assert f"{tmp_path}/corpus.jsonl:1: pay by bot: allow by allow:pay → deny by limit:pay" in done.stdout, done
    with (tmp_path / "corpus.jsonl").open() as file:
        again = subprocess.run([harness.BIN / "writ", "policy", "diff", tmp_path / "old", tmp_path / "new", "--against", "-"], stdin=file,
                               capture_output=True, text=True, timeout=harness.PATIENCE)
    assert again.stdout == done.stdout.replace(f"{tmp_path}/corpus.jsonl", "-")


def test_the_comparison_finds_what_the_engine_then_denies(fresh):
    """A limit is tried on the record of a day without it, and comes into force: the same requests, the same denials."""
    stack, dice = fresh().start(), random.Random(7)
    limited = document(FREE % ", limit: {window: 1h, count: 6, sum: args.n, max: 100}")
    calls = [{"actor": f"bot{dice.randrange(3)}", "action": "pay", "args": {"n": dice.choice([5, 10.5, 20, 120])}} for _ in range(40)]
    with stack.at_engine() as wire:
        stack.policy("base", document(FREE % ""))
        assert {wire.post("/v1/agent/authorize", call).json["decision"] for call in calls} == {"allow"}
        stack.wait_published()
        events = [event for event in stack.events() if event["kind"] == "decision"]
        stack.policy("base", limited)
        denied = [wire.post("/v1/agent/authorize", call).json["decision"] == "deny" for call in calls]
    by_time = sorted(range(len(events)), key=lambda n: events[n]["id"])
    report = diff(stack.folder, document(FREE % ""), limited, events)
    changed = {change["line"] - 1 for change in report["changes"]}
    assert len(events) == 40 and 5 < sum(denied) < 35 and [n in changed for n in by_time] == denied
