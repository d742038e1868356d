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
    missing = {kind for kind in events.KINDS if not kind.startswith("external.")} - events.check(texts, written=True)
    assert missing == {"audit.dropped", "engine.adopted", "engine.fleet", "leader.changed"}, "a kind is missing in the story (the next test's, Redis' and those of a fleet apart), or in the schema"
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


# Members of an event that somebody posts: what fits the schema is taken, and what does not is refused.
FITS = [{"timestamp": "1970-01-01T00:00:00.001Z"}, {"timestamp": "2028-02-29T23:59:59.999Z"}, {"expires_at": "9999-12-31T23:59:59.999Z"},
        {"resource": {"a": [{"b": "c"}]}}, {"resource": "text"}, {"scope": ["a", {"b": 1}]}, {"would_have": {"x": None}}, {"previous": {}},
        {"latency_ms": 9007199254740994}, {"latency_ms": 1e300}, {"args": {"a": "\0"}, "context": {"\0": 1}, "safe_args": {"a": "\0"}, "resource_properties": {"a": "\0"}}]
FITS_NOT = [{"timestamp": text} for text in (
    "1970-01-01T00:00:00.000Z", "1969-12-31T23:59:59.999Z", "2026-13-01T00:00:00.000Z", "2026-00-01T00:00:00.000Z", "2026-04-31T00:00:00.000Z",
    "2026-02-30T00:00:00.000Z", "2026-01-32T00:00:00.000Z", "2026-01-00T00:00:00.000Z", "2026-01-01T24:00:00.000Z", "2026-01-01T00:60:00.000Z", "2026-12-31T23:59:60.000Z")]
FITS_NOT += [{"resource": "a\0"}, {"resource": {"a": "\0"}}, {"resource": {"\0": "a"}}, {"resource": {"a": [{"b": "\0"}]}}, {"scope": "\0"}, {"scope": ["a", "\0"]},
             {"scope": [["\0"]]}, {"previous": {"epoch": "\0"}}, {"would_have": {"rule": "\0"}}, {"expires_at": "1969-12-31T23:59:59.999Z"}, {"latency_ms": -1}]
TOLD_ONLY = [{"timestamp": "2026-02-29T00:00:00.000Z"}, {"latency_ms": 9007199254740993}]  # JSON Schema cannot say that of them


def test_a_posted_event_is_taken_where_it_fits(stack):
    accepts = events.validators()[0].is_valid
    with stack.at_platform("engine") as wire:
        for number, members in enumerate(FITS + FITS_NOT + TOLD_ONLY):
            event = {"event_id": f"fits-{number}", "kind": "decision", "tenant_id": "default", "timestamp": "2026-11-20T09:30:00.123Z", **members}
            reply = wire.post("/api/v1/audit/ingest", event)
            assert reply.status == (201 if members in FITS else 400), (members, reply)
            assert accepts(event) == (members not in FITS_NOT), members


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
