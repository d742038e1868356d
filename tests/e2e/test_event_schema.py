"""schemas/event.schema.json: every kind of event that there is fits it, and what was changed does not."""

import contextlib
import copy
import json
import sqlite3

import pytest

import events
import story
from harness import Stack, eventually

pytestmark = pytest.mark.skipif(events.validators() is None, reason="SKIP: python3-jsonschema is not installed")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The events of a whole day, and the numbers that clients know of it."""
    with Stack(tmp_path_factory.mktemp("day")) as stack:
        told = story.tell(stack)
        with sqlite3.connect(f"file:{stack.data / 'platform.db'}?mode=ro", uri=True) as database:
            yield told, [event for event, in database.execute("SELECT event FROM records ORDER BY id")]
        stack.engine.stop()
        stack.platform.stop()


def by_kind(texts):
    """An event of each kind, for decisions of each outcome, the one with the most members."""
    found = {}
    for event in map(json.loads, texts):
        name = (event["kind"], event.get("decision") if event["kind"] == "decision" else None)
        if name not in found or len(event) > len(found[name]):
            found[name] = event
    return found


def test_every_kind_of_event_fits(recorded):
    told, texts = recorded
    missing = set(events.KINDS) - events.check(texts, written=True)
    assert missing == {"audit.dropped"}, "a kind is missing in the story (the next test's apart), or in the schema"
    counted = {kind: sum(json.loads(text)["kind"] == kind for text in texts) for kind in told.kinds}
    assert counted == dict(told.kinds)


def test_the_event_of_a_drop_by_age_fits(fresh):
    stack = fresh().start()
    stack.platform.stop()
    with sqlite3.connect(stack.data / "platform.db") as database:  # as if these had been there for ten days
        database.execute("UPDATE records SET created_at = created_at - 864000000 WHERE id <= 3")
    stack.platform.arguments += ["--audit.keep", "2d"]
    stack.platform.start()
    with stack.at_platform("auditor") as wire:
        def dropped():
            return wire.get("/api/v1/audit?kind=audit.dropped&exact=true").json["events"]
        found = eventually(dropped, "old events are dropped")
    eventually(lambda: stack.metrics(stack.platform)["writ_platform_store_dropped_total"] == 3, "and counted")
    with contextlib.closing(sqlite3.connect(stack.data / "platform.db")) as database:
        def removed():
            return database.execute("SELECT removed_id = first_id FROM horizon").fetchone() == (1,)
        eventually(removed, "and with them, one handful after the other, what leads to them")
    assert events.check([json.dumps(row["event"]) for row in found], written=True) == {"audit.dropped"}


def test_an_event_that_was_changed_does_not_fit(recorded):
    accepts, ours = (validator.is_valid for validator in events.validators())
    wrong = {"string": 7, "number": "7", "integer": -1, "object": 7, "array": 7}
    tried = 0

    def refused(event, why, whole=True):
        nonlocal tried
        tried += 1
        assert not ours(event), f"{why}: {event}"
        assert not whole or not accepts(event), f"{why}, as somebody else's: {event}"

    for (kind, _), event in by_kind(recorded[1]).items():
        assert ours(event) and accepts(event)
        rule = next(each for each in events.SCHEMA["$defs"]["written"]["allOf"] if each["if"]["properties"]["kind"].get("const") == kind)
        for member in event:
            without = {name: value for name, value in event.items() if name != member}
            if member in rule["then"]["required"] + ["event_id", "timestamp", "tenant_id"]:
                refused(without, f"{kind} without {member}", member in events.SCHEMA["required"])
            changed = copy.deepcopy(event)
            changed[member] = None
            refused(changed, f"{kind} with {member} null")
            name = "string" if isinstance(event[member], str) else "number" if isinstance(event[member], (int, float)) else "object"
            changed[member] = wrong[name]
            refused(changed, f"{kind} with {member} of another type")
            if name == "string":
                refused({**event, member: ""}, f"{kind} with an empty {member}", False)
        refused({**event, "colour": "red"}, f"{kind} with an unknown member")
        foreign = next(name for name in ("previous", "resolution_note") if name not in rule["then"]["propertyNames"]["enum"])
        refused({**event, foreign: {"epoch": "0" * 16, "seq": 1} if foreign == "previous" else "x"}, f"{kind} with {foreign}", False)
        refused({**event, "kind": "decision.made"}, f"{kind} as a kind that is none")
        refused({**event, "timestamp": event["timestamp"].replace("Z", "+00:00")}, f"{kind} with an offset")
        refused({**event, "event_id": "evt 1"}, f"{kind} with an id that is none")
        refused({**event, "event_id": "evt_1"}, f"{kind} with an id that is not ours", False)
        refused({**event, "tenant_id": ""}, f"{kind} of nobody")
    compute = by_kind(recorded[1])["decision", "compute"]
    refused({name: value for name, value in compute.items() if name != "safe_tool"}, "compute without a safe tool", False)
    refused({**compute, "decision": "allow"}, "an allow with a safe tool", False)
    review = by_kind(recorded[1])["decision", "human_review"]
    refused({name: value for name, value in review.items() if name != "review_id"}, "a human_review without a review", False)
    refused({**review, "decision": "maybe"}, "an outcome that is none")
    print(f"{tried} changed events were refused")
    assert tried > 500
