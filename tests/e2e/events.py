"""Events held against schemas/event.schema.json: what ingest takes, and what our own programs write."""

import collections
import json
import pathlib
import sqlite3

SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[2] / "schemas" / "event.schema.json").read_text())
KINDS = SCHEMA["properties"]["kind"]["enum"]
ALIKE = 200
# What the platform itself writes; others may post such kinds, too, but have no such ids.
OWN = "(kind LIKE 'policy.%' OR kind LIKE 'key.%' OR kind = 'auth.failed') AND event_id LIKE 'evt_01%'"


def validators():
    """(what ingest takes, that and what we write); None where python3-jsonschema is not installed."""
    try:
        from jsonschema import Draft202012Validator
    except ImportError:
        return None
    Draft202012Validator.check_schema(SCHEMA)
    return Draft202012Validator(SCHEMA), Draft202012Validator({**SCHEMA, "allOf": [{"$ref": "#/$defs/written"}]})


def check(events, written):
    """Each event fits; `written`: as one of ours. Gives the kinds that there were."""
    both = validators()
    validator, wrong, kinds = both[1 if written else 0], [], set()
    for text in events:
        event = json.loads(text)
        kinds.add(event["kind"])
        found = None if validator.is_valid(event) else next(validator.iter_errors(event))
        if found:
            wrong.append(f"{event['kind']}: {found.message[:300]}: {text[:600]}")
    assert not wrong, f"{len(wrong)} events do not fit the schema:\n" + "\n".join(wrong[:5])
    return kinds


def few_of_each(events):
    """At most ALIKE with the same kind, decision and members: tens of thousands of one form say no more."""
    seen, chosen = collections.Counter(), []
    for text in events:
        event = json.loads(text)
        form = event["kind"], event.get("decision"), *sorted(event)
        seen[form] += 1
        if seen[form] <= ALIKE:
            chosen.append(text)
    return chosen


def check_store(stack):
    """Of each form that the stack's engine and platform wrote into its store, and a part of what others posted."""
    if validators() is None:
        return print("SKIP: python3-jsonschema is not installed, so no event is held against its schema")
    node = (stack.engine_data / "engine" / "node").read_text().strip()
    with sqlite3.connect(f"file:{stack.data / 'platform.db'}?mode=ro", uri=True) as database:
        ours = [event for event, in database.execute("SELECT event FROM records WHERE node = ?", (node,))]
        own = [event for event, in database.execute(f"SELECT event FROM records WHERE node IS NULL AND ({OWN})")]
        posted = [event for event, in database.execute(f"SELECT event FROM records WHERE node IS NULL AND NOT ({OWN}) LIMIT 2000")]
    check(few_of_each(ours), written=True)
    check(few_of_each(own), written=True)
    check(posted, written=False)
