"""All 2,458 tool calls of the corpus over 64 connections, through both agent routes.

Every answer is 200, every trace is found, both hashes hold, the counts are equal, nothing is twice.
"""

import collections
import json
import queue
import threading

import pytest

import canonical
import harness

CALLS = harness.CORPORA / "toolcalls" / "calls.jsonl"
CONNECTIONS = 64

pytestmark = pytest.mark.skipif(not CALLS.exists(), reason="the corpus of tool calls is not here")


@pytest.fixture(scope="module")
def stack():
    with harness.Stack() as running:
        running.examples()
        yield running
        running.engine.stop()
        running.platform.stop()


def in_parallel(work, connect, items):
    """work(wire, item) for each item, over 64 connections; what they returned, in no order."""
    todo, done, faults = queue.SimpleQueue(), [], []
    for item in items:
        todo.put(item)

    def worker():
        try:
            with connect() as wire:
                while True:
                    done.append(work(wire, todo.get_nowait()))
        except queue.Empty:
            pass
        except BaseException as fault:  # shown by the test, not lost with the thread
            faults.append(fault)

    threads = [threading.Thread(target=worker) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    return done


def decide(wire, item):
    route, body = item
    data = json.dumps(body, ensure_ascii=False).encode()
    reply = wire.post(route, data)
    assert reply.status == 200, (body, reply)
    return data, reply.json


def test_every_call_is_answered_and_found_with_the_hashes_it_had(stack):
    calls = [json.loads(line) for line in CALLS.read_text().splitlines()]
    assert len(calls) == 2458
    items = []
    for number, call in enumerate(calls):
        actor = call.get("agent", f"agent-{number % 40}")  # a hundred reviews of one actor may be pending
        items.append(("/api/v1/authorize", {"tool": call["tool"], "actor": actor, "args": call["args"]}))
        items.append(("/v1/agent/authorize", {"action": call["tool"], "actor": actor, "args": call["args"]}))
    answers = in_parallel(decide, stack.at_engine, items)
    assert len(answers) == 2 * len(calls)
    stack.wait_published()

    by_trace, sent = {}, {}
    for data, record in answers:
        trace = record.get("traceId") or record["trace_id"]
        by_trace[trace], sent[trace] = record, canonical.loads(data)
    assert len(by_trace) == len(answers), "a trace id was given twice"

    def find(wire, trace):
        reply = wire.get(f"/api/v1/audit/trace/{trace}")
        assert reply.status == 200, reply
        return trace, canonical.loads(reply.body)["events"]

    event_ids, reviews, salted = set(), collections.Counter(), 0
    for trace, events in in_parallel(find, stack.at_platform, by_trace):
        record = by_trace[trace]
        decisions = [event for event in events if event["kind"] == "decision"]
        assert len(decisions) == 1, trace
        event = decisions[0]
        salt = record.get("inputSalt") or record.get("input_salt")
        body = canonical.masked_body(sent[trace], event) if salt else sent[trace]
        assert (record.get("inputHash") or record["input_hash"]) == event["input_hash"] == canonical.input_hash(canonical.canonical(body), salt)
        salted += salt is not None
        assert canonical.output_hash(event) == event["output_hash"]
        assert event["output_hash"] == (record.get("outputHash") or record["output_hash"])
        assert event["decision"] == record["decision"]
        enqueued = [event for event in events if event["kind"] == "review.enqueued"]
        assert len(events) == 1 + len(enqueued) <= (2 if record["decision"] == "human_review" else 1)
        if record["decision"] == "human_review":
            review = record.get("reviewId") or record["review_id"]
            reviews[review] += len(enqueued)
            assert event["review_id"] == review
        event_ids.update(event["event_id"] for event in events)

    answered = collections.Counter(record["decision"] for record in by_trace.values())
    stored = stack.events(kind="decision")
    assert collections.Counter(event["decision"] for event in stored) == answered
    assert len({event["event_id"] for event in stored}) == len(stored) == len(answers)
    assert set(reviews.values()) == {1}, "the same request again gets the review that is pending, enqueued once"
    assert len(event_ids) == len(answers) + len(reviews)
    assert salted > 0, "no call had anything that is masked"
    print(f"outcomes of {len(answers)} calls: {dict(answered)}")
    for outcome in ("allow", "deny", "human_review", "compute"):
        assert answered[outcome] >= 0.05 * len(answers), f"{outcome} is under 5 %: {dict(answered)}"
