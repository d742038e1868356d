"""POST /api/v1/audit/ingest, positions and the bundle, as an engine or another system uses them."""

import json
import os
import random
import time

import pytest

import run_mac
from harness import eventually
from test_contract import refused

INGEST, POSITIONS, BUNDLE = "/api/v1/audit/ingest", "/api/v1/audit/positions", "/api/v1/bundle"
GAPS = "/api/v1/audit/gaps"
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def identifier(prefix):
    return prefix + "_0" + "".join(random.choice(CROCKFORD) for _ in range(25))


def event(tenant="default", **members):
    return {"event_id": identifier("evt"), "kind": "decision", "tenant_id": tenant, "timestamp": "2026-11-20T09:30:00.123Z",
            "trace_id": os.urandom(16).hex(), "action": "get_x", "actor": "bot", "decision": "allow", "mode": "live", **members}


def ndjson(events):
    return "".join((e if isinstance(e, str) else json.dumps(e)) + "\n" for e in events)


def pepper_of(stack):
    return (stack.data / "pepper").read_text()


class Stream:
    """An engine's side of one stream, made up."""

    def __init__(self, stack, node=None):
        self.stack, self.node, self.epoch = stack, node or f"node-{os.urandom(4).hex()}", os.urandom(8).hex()
        self.next = 1

    def started(self, previous=None):
        return event(kind="engine.started", tenant_id="default", previous=previous or {"epoch": "", "seq": 0})

    def post(self, events, first=None, epoch=None, key="engine"):
        body = ndjson(events)
        with self.stack.at_platform(key) as wire:
            return wire.post(INGEST, body, headers=run_mac.headers(
                pepper_of(self.stack), self.node, epoch or self.epoch, first if first is not None else self.next, body))

    def position(self):
        with self.stack.at_platform("engine") as wire:
            reply = wire.get(f"{POSITIONS}?node={self.node}")
        assert reply.status == 200 and reply.json["log_id"], reply
        return reply.json["streams"]


@pytest.fixture
def stream(stack):
    return Stream(stack)


def test_invented_journals_leave_an_engine_its_position_and_can_be_forgotten(stack):
    """An engine reads at most 64 KiB of positions: more of them, and it would publish nothing for ever."""
    own = Stream(stack)
    assert own.post([own.started()]).status == 201
    with stack.at_platform("engine") as wire:
        def begin(journal):
            body = ndjson([own.started()])
            return wire.post(INGEST, body, headers=run_mac.headers(
                pepper_of(stack), own.node, os.urandom(8).hex(), 1, body, journal))
        journals = [f"{n:03}" + "\\" * 253 for n in range(63)]
        assert [begin(journal).status for journal in journals] == [201] * 63
        refused(begin("one-more"), 409, "node_full")
        every = wire.get(f"{POSITIONS}?node={own.node}")
        assert len(every.body) < 64 << 10 and every.json["streams"][0]["journal"] == "0", len(every.body)
        asked = wire.get(f"{POSITIONS}?node={own.node}&journal=0")
        assert [(one["journal"], one["next_seq"]) for one in asked.json["streams"]] == [("0", 2)], asked
        assert wire.get(f"{POSITIONS}?node={own.node}&journal=nothing").json["streams"] == []
        refused(wire.get(f"{POSITIONS}?node={own.node}&journal="), 400, "bad_parameter")
    own.next = 2
    assert own.post([event()]).status == 201, "its own stream goes on"

    def health():
        with stack.at_platform("auditor") as wire:
            return wire.get("/healthz").json["checks"]["streams"]
    eventually(lambda: own.node in health(), "the platform's health names the node")
    at = ("--platform", stack.platform.url)
    done = stack.cli("engine", "forget", own.node, *at, key=stack.keys["root"], check=False)
    assert done.returncode != 0 and "force" in done.stderr, done
    done = stack.cli("engine", "forget", own.node, "--journal", journals[7], "--force", "--reason", "stolen", *at, key=stack.keys["root"])
    assert done.stdout.startswith("1 streams"), done
    with stack.at_platform("engine") as wire:
        assert begin("one-more").status == 201
    for journal in [*journals[:7], *journals[8:], "one-more"]:
        with stack.at_platform("root") as wire:
            assert wire.post("/api/v1/audit/streams:forget", {"node": own.node, "journal": journal, "force": True}).json["forgotten"] == 1
    with stack.at_platform("root") as wire:
        told = wire.get("/api/v1/audit?kind=audit.forgotten&tenant_id=*&limit=500").json["events"]
        mine = [one for one in told if one["resource"]["id"] == own.node]
        assert len(mine) == 64 and mine[-1]["reason"] == f"the position of journal {journals[7]} is forgotten: stolen", mine[-1]
        refused(wire.post("/api/v1/audit/streams:forget", {"node": own.node, "journal": "one-more"}), 404, "not_found")
        refused(wire.post("/api/v1/audit/streams:forget", {"node": own.node}), 412, "precondition_failed")
    with stack.at_platform("admin") as wire:
        refused(wire.post("/api/v1/audit/streams:forget", {"node": own.node}), 403, "wrong_tenant")
    eventually(lambda: health() == "ok", "the node has room again")


def test_one_event_an_array_and_ndjson_are_taken_once(stack):
    with stack.at_platform("engine") as wire:
        one = event()
        first = wire.post(INGEST, one)
        assert first.status == 201 and first.json["id"], first
        again = wire.post(INGEST, one)
        assert again.status in (200, 201), again
        many = [event() for _ in range(5)]
        reply = wire.post(INGEST, many)
        assert reply.status == 201 and reply.json["accepted"] == 5 and reply.json["duplicates"] == 0, reply
        assert len(reply.json["ids"]) == 5
        lines = wire.post(INGEST, ndjson(many[3:] + [event()]), headers={"Content-Type": "application/x-ndjson"})
        assert lines.status == 201 and lines.json["accepted"] == 1 and lines.json["duplicates"] == 2, lines
    assert len(stack.trace(one["trace_id"])) == 1
    assert "source" not in stack.trace(one["trace_id"])[0]


def test_the_same_id_with_other_bytes_is_a_conflict_and_nothing_is_stored(stack):
    one, other = event(), event()
    with stack.at_platform("engine") as wire:
        assert wire.post(INGEST, one).status == 201
        refused(wire.post(INGEST, [other, {**one, "decision": "deny"}]), 409, "event_conflict")
        found = wire.post(INGEST, other)
        assert found.status == 201 and found.json.get("duplicates", 0) == 0, "all or nothing"
    assert stack.trace(one["trace_id"])[0]["decision"] == "allow"


def test_each_tenant_numbers_its_events_by_itself(stack):
    with stack.at_platform("root") as wire:
        keys = {name: wire.post("/api/v1/keys", {"name": name, "owner": name, "tenant": name, "roles": ["ingest", "auditor"],
                                                 "tenants": [name]}).json["key"] for name in (f"numbers-{os.urandom(4).hex()}" for _ in range(2))}
    for name, key in keys.items():
        numbered = [event(tenant=name, event_id=str(n), actor=name) for n in range(1, 4)]
        with stack.at_platform(key) as wire:
            assert wire.post(INGEST, numbered).json["accepted"] == 3, "whatever others have numbered"
            assert wire.post(INGEST, numbered).json["duplicates"] == 3
            refused(wire.post(INGEST, [event(tenant=name, event_id="4"), {**numbered[0], "actor": "another"}]), 409, "event_conflict")
            found = wire.get("/api/v1/audit?actor=" + name).json["events"]
        assert [(e["event_id"], e["tenant_id"]) for e in found] == [("3", name), ("2", name), ("1", name)]


@pytest.mark.parametrize("change, field", [
    ({"event_id": None}, "event_id"), ({"kind": None}, "kind"), ({"kind": "decision.made"}, "kind"), ({"tenant_id": None}, "tenant_id"),
    ({"timestamp": "yesterday"}, "timestamp"), ({"timestamp": None}, "timestamp"), ({"args": []}, "args"), ({"colour": "red"}, "colour"),
    ({"confidence": "x"}, "confidence"),
])
def test_a_wrong_event_is_named_and_nothing_is_stored(stack, change, field):
    good = event()
    with stack.at_platform("engine") as wire:
        reply = wire.post(INGEST, [good, event(**change)])
        assert reply.status == 400 and field in reply.json["error"], reply
        assert reply.json["field"] == f"/1/{field}", reply
        assert wire.post(INGEST, good).json.get("duplicates", 0) == 0


def test_ingest_is_for_the_tenants_of_the_key(stack, tenant):
    with stack.at_platform("root") as wire:
        key = wire.post("/api/v1/keys", {"name": "importer", "owner": "i", "tenant": "*", "roles": ["ingest"], "tenants": ["tenant-*"],
                                         "nodes": ["edge-*"]}).json["key"]
    with stack.at_platform(key) as wire:
        assert wire.post(INGEST, event(tenant=tenant.name)).status == 201
        refused(wire.post(INGEST, [event(tenant=tenant.name), event()]), 403, "wrong_tenant")
    refused(Stream(stack, "edge-1").post([event()], key=tenant.agent), 403, "missing_role")
    refused(Stream(stack, "core-1").post([Stream(stack).started()], key=key), 403, "wrong_node")
    with stack.at_platform(key) as wire:
        refused(wire.get(f"{POSITIONS}?node=core-1"), 403, "wrong_node")
        assert wire.get(f"{POSITIONS}?node=edge-1").status == 200


def test_an_idempotency_key_holds_its_body(stack):
    one, key = event(), {"Idempotency-Key": os.urandom(8).hex()}
    with stack.at_platform("engine") as wire:
        first, again = wire.post(INGEST, one, headers=key), wire.post(INGEST, one, headers=key)
        assert first.status == again.status == 201 and first.json == again.json
        refused(wire.post(INGEST, event(), headers=key), 422, "idempotency_mismatch")


def test_a_stream_moves_on_and_takes_its_overlap_as_duplicates(stream):
    records = [stream.started()] + [event() for _ in range(9)]
    reply = stream.post(records[:5])
    assert reply.status == 201 and reply.json == {"accepted": 5, "duplicates": 0, "clashes": 0, "next_seq": 6}, reply
    reply = stream.post(records[2:], first=3)
    assert reply.json == {"accepted": 5, "duplicates": 3, "clashes": 0, "next_seq": 11}, reply
    position = stream.position()
    assert len(position) == 1 and position[0]["next_seq"] == 11 and position[0]["epoch"] == stream.epoch
    stored = stream.stack.trace(records[7]["trace_id"])[0]
    assert stored["source"] == {"node": stream.node, "journal": stored["source"]["journal"], "epoch": stream.epoch, "seq": 8}


def test_a_gap_is_refused_with_where_to_go_on(stream):
    stream.post([stream.started(), event()])
    reply = stream.post([event()], first=9)
    assert refused(reply, 409, "stream_gap")["want_from"] == 3
    refused(Stream(stream.stack).post([event()], first=5), 409, ("stream_gap", "epoch_unknown"))


GAP = {"node": "n", "from_seq": 1, "next_seq": 5, "epoch": "0" * 16}


@pytest.mark.parametrize("change, code, field", [
    ({"node": None}, "missing_member", "/node"), ({"node": ""}, "out_of_range", "/node"), ({"node": 5}, "wrong_type", "/node"),
    ({"node": "x" * 257}, "out_of_range", "/node"), ({"journal": ""}, "out_of_range", "/journal"),
    ({"from_seq": None}, "missing_member", "/from_seq"), ({"from_seq": 0}, "out_of_range", "/from_seq"),
    ({"from_seq": "1"}, "wrong_type", "/from_seq"), ({"next_seq": 1.5}, "out_of_range", "/next_seq"),
    ({"next_seq": 1}, "out_of_range", "/next_seq"), ({"next_seq": 2**63}, "out_of_range", "/next_seq"),
    ({"next_seq": 2**53}, "out_of_range", "/next_seq"), ({"next_seq": 2**53 + 1}, "out_of_range", "/next_seq"),
    ({"from_seq": 2**53, "next_seq": 2**53 + 5}, "out_of_range", "/from_seq"),
    ({"epoch": None}, "missing_member", "/epoch"), ({"epoch": "0" * 15 + "G"}, "bad_value", "/epoch"),
    ({"epoch": "0" * 15}, "bad_value", "/epoch"), ({"reason": 5}, "wrong_type", "/reason"),
    ({"reason": "x" * 513}, "out_of_range", "/reason"), ({"fromSeq": 1}, "wrong_case", "/fromSeq"),
])
def test_what_is_given_up_must_be_said_exactly(stack, change, code, field):
    with stack.at_platform("root") as wire:
        assert refused(wire.post(GAPS, {**GAP, **change}), 400, code)["field"] == field


def test_only_an_admin_of_every_tenant_gives_records_up(stack):
    for key, status, code in (("admin", 403, "wrong_tenant"), ("engine", 403, "missing_role"), ("auditor", 403, "missing_role")):
        with stack.at_platform(key) as wire:
            refused(wire.post(GAPS, GAP), status, code)


def test_a_gap_is_accepted_where_the_stream_stands_and_once(stream):
    stream.post([stream.started(), event()])
    late = event()
    assert refused(stream.post([late], first=9), 409, "stream_gap")["want_from"] == 3
    gap = {**GAP, "node": stream.node, "from_seq": 3, "next_seq": 9, "epoch": stream.epoch}
    with stream.stack.at_platform("root") as wire:
        assert refused(wire.post(GAPS, {**gap, "from_seq": 4}), 412, "precondition_failed")["field"] == "/from_seq"
        reply = wire.post(GAPS, gap)
        assert reply.status == 200 and reply.json == {"node": stream.node, "journal": "0", "lost": 6, "next_seq": 9}, reply
    with stream.stack.at_engine("root") as wire:  # which forwards it
        refused(wire.post(GAPS, gap), 412, "precondition_failed")
    assert stream.post([late], first=9).json["next_seq"] == 10
    assert stream.stack.trace(late["trace_id"])


def test_the_largest_gap_has_an_event_and_its_stream_goes_on(stream):
    last = 2**53 - 1
    with stream.stack.at_platform("root") as wire:
        reply = wire.post(GAPS, {**GAP, "node": stream.node, "next_seq": last, "epoch": stream.epoch})
        assert reply.status == 200 and reply.json == {"node": stream.node, "journal": "0", "lost": last - 1, "next_seq": last}, reply
        told = wire.get("/api/v1/audit?kind=audit.gap&tenant_id=*&limit=1").json["events"][0]
        assert told["resource"]["id"] == stream.node and told["count"] == last - 1, told
    assert stream.post([event()], first=last).json["next_seq"] == last + 1


def test_other_bytes_at_the_same_place_are_a_clash_and_stop_nothing(stream):
    first = [stream.started(), event(), event()]
    stream.post(first)
    before = stream.stack.metrics(stream.stack.platform)["writ_platform_ingest_clashes_total"]
    later = [event(), event(), event()]
    reply = stream.post(later, first=3)
    assert reply.status == 201 and reply.json == {"accepted": 2, "duplicates": 0, "clashes": 1, "next_seq": 6}, reply
    assert stream.stack.metrics(stream.stack.platform)["writ_platform_ingest_clashes_total"] == before + 1
    assert len(stream.stack.trace(first[2]["trace_id"])) == 1
    with stream.stack.at_platform() as wire:
        reply = wire.get(f"/api/v1/audit/trace/{later[0]['trace_id']}")
        assert reply.status == 404 or reply.json["count"] == 0


def test_a_record_that_is_no_event_does_not_stop_the_stream(stream):
    reply = stream.post([stream.started(), "{this is not json", event(), json.dumps({"kind": "nonsense"}), event()])
    assert reply.status == 201 and reply.json["next_seq"] == 6 and reply.json["accepted"] >= 3, reply


def test_a_new_epoch_must_follow_the_old_one(stream):
    stream.post([stream.started(), event(), event()])
    following = os.urandom(8).hex()
    wrong = [{"epoch": stream.epoch, "seq": 2}, {"epoch": "0" * 16, "seq": 3}, {"epoch": "", "seq": 0}]
    for previous in wrong:
        refused(stream.post([stream.started(previous)], first=4, epoch=following), 409, "epoch_unknown")
    refused(stream.post([event()], first=4, epoch=following), 409, "epoch_unknown")
    reply = stream.post([stream.started({"epoch": stream.epoch, "seq": 3}), event()], first=4, epoch=following)
    assert reply.status == 201 and reply.json["next_seq"] == 6, reply
    assert stream.position()[0]["epoch"] == following


@pytest.mark.parametrize("headers", [
    {"Writ-First-Seq": "0"}, {"Writ-First-Seq": "x"}, {"Writ-First-Seq": None}, {"Writ-Epoch": "short"}, {"Writ-Epoch": None},
    {"Writ-Journal": None}, {"Writ-First-Seq": "99999999999999999999"},
])
def test_a_wrong_stream_header_is_refused(stack, headers):
    full = {"Content-Type": "application/x-ndjson", "Writ-Node": "n", "Writ-Journal": "0", "Writ-Epoch": "0" * 16, "Writ-First-Seq": "1"}
    with stack.at_platform("engine") as wire:
        reply = wire.post(INGEST, ndjson([event()]), headers={**full, **headers})
    assert reply.status == 400 and reply.json["code"], reply


def test_a_trace_of_many_events_says_that_it_is_not_all_and_goes_on(stack):
    trace = os.urandom(16).hex()
    many = [event(trace_id=trace, action=f"get_{n}") for n in range(620)]
    with stack.at_platform("engine") as wire:
        assert wire.post(INGEST, many).json["accepted"] == 620
    with stack.at_platform() as wire:
        first = wire.get(f"/api/v1/audit/trace/{trace}").json
        rest = wire.get(f"/api/v1/audit?trace_id={trace}&order=asc&limit=500&cursor={first['next_cursor']}").json
        assert [e["event_id"] for e in first["events"] + rest["events"]] == [e["event_id"] for e in many]
        assert first["count"] == 500 and rest["next_cursor"] == 0
        assert "next_cursor" not in wire.get(f"/api/v1/audit/trace/{os.urandom(16).hex()}").json
    shown = stack.cli("audit", "trace", trace, "--platform", stack.platform.url, key=stack.keys["auditor"]).stdout
    assert [line.split()[2] for line in shown.splitlines() if "external.decision" in line] == [e["action"] for e in many]


def test_a_trace_of_large_events_is_not_larger_than_a_client_takes(stack):
    trace = os.urandom(16).hex()
    with stack.at_platform("engine") as wire:
        for _ in range(4):
            assert wire.post(INGEST, [event(trace_id=trace, args={"a": "x" * 60000}) for _ in range(80)]).status == 201
    with stack.at_engine("auditor") as wire:
        reply = wire.get(f"/api/v1/audit/trace/{trace}")  # the engine hands on at most 16 MiB
    assert reply.status == 200 and 100 < reply.json["count"] < 320 and reply.json["next_cursor"]


def test_a_key_that_is_revoked_while_it_waits_for_the_bundle_hears_it(stack):
    with stack.at_platform("root") as root:
        key = root.post("/api/v1/keys", {"name": "waits", "owner": "w", "tenant": "*", "roles": ["ingest"]}).json
        with stack.at_platform(key["key"]) as wire:
            wire.send(wire.encode("GET", f"{BUNDLE}?wait=30", headers={"If-None-Match": wire.get(BUNDLE).header("etag")}))
            time.sleep(0.2)
            assert root.delete(f"/api/v1/keys/{key['id']}").status == 200
            reply = wire.read_reply()
    refused(reply, 401, "credential_revoked")
    assert reply.header("www-authenticate") == "Bearer"


def test_the_bundle_waits_for_a_change_and_answers_at_once(stack, tenant):
    with stack.at_platform("engine") as wire:
        now = wire.get(BUNDLE)
        assert now.status == 200 and set(now.json) >= {"revision", "log_id", "policies", "keys"}
        etag = now.header("etag")
        assert all(key.get("mac") for key in now.json["keys"])
        same = wire.get(f"{BUNDLE}?wait=0", headers={"If-None-Match": etag})
        assert same.status == 304 and same.body == b""
        start = time.monotonic()
        assert wire.get(f"{BUNDLE}?wait=1", headers={"If-None-Match": etag}).status == 304
        longest = 60
        assert 0.8 < time.monotonic() - start < longest

        wire.send(wire.encode("GET", f"{BUNDLE}?wait={longest}", headers={"If-None-Match": etag}))
        begun = time.monotonic()
        reply = tenant.put("base", "rules:\n  - {id: a, actions: [a], decision: deny}\n")
        answer = wire.read_reply()
        assert reply.status == 201 and answer.status == 200
        assert time.monotonic() - begun < longest, "it waited on through the change"
        assert answer.json["revision"] > now.json["revision"]
        assert any(p["tenant_id"] == tenant.name for p in answer.json["policies"])
        assert wire.get(f"{BUNDLE}?wait=61").status == 400
