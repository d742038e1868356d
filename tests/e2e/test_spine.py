"""One decision by each route, found by its trace id, its hashes recomputed."""

import re

import pytest

import canonical

TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
HEX64 = re.compile(r"^[0-9a-f]{64}$")


def identifier(prefix):
    return re.compile(rf"^{prefix}_[0-9A-HJKMNP-TV-Z]{{26}}$")


def snake(name):
    return re.sub(r"([A-Z])", lambda match: "_" + match[1].lower(), name)


TOOL, AGENT, USER = "/api/v1/authorize", "/v1/agent/authorize", "/v1/authorize"
OUTCOMES = [
    ("get_invoice", "allow", "allow:reads"),
    ("issue_refund", "human_review", "review:refunds"),
    ("drop_table", "deny", "deny:never-drop"),
    ("unheard_of", "deny", "default:deny"),
    ("write_table_prod", "compute", "compute:sandbox"),
]


def body_for(route, action):
    args = {"id": 7, "route": route, "note": "grüße\u2028", "deep": {"b": [1, 2.5, None], "a": 1e21}}
    if route == TOOL:
        return {"tool": action, "actor": "bot", "args": args, "resource": "invoice:7"}
    if route == AGENT:
        return {"action": action, "actor": "bot", "args": args, "resource": {"type": "invoice", "id": "7"}}
    return {"user_id": "carol", "action": action, "args": args}


def check_members(route, reply, decision, rule):
    """Every member that the contract names, with its form; none that it does not."""
    record = reply.json
    plain = {snake(name): value for name, value in record.items()}
    assert None not in record.values(), record
    assert plain["decision"] == decision and plain["rule"] == rule, record
    assert identifier("req").match(plain["request_id"])
    assert re.match(r"^[0-9a-f]{32}$", plain["trace_id"])
    assert TIME.match(plain["timestamp"]) and plain["mode"] == "live"
    assert HEX64.match(plain["input_hash"]) and HEX64.match(plain["output_hash"])
    assert HEX64.match(plain["policy_digest"])
    assert isinstance(plain["latency_ms"], (int, float)) and 0 <= plain["latency_ms"] < 5000
    assert ("review_id" in plain) == ("expires_at" in plain) == (decision == "human_review")
    assert ("safe_tool" in plain) == ("safe_args" in plain) == (decision == "compute")
    if decision == "human_review":
        assert identifier("rev").match(plain["review_id"]) and TIME.match(plain["expires_at"])
    if rule != "default:deny":
        assert plain["policy_name"] == "base"
    if route == TOOL:
        assert "requestId" in record and record["tool"] == plain["tool"]
        assert not any("_" in name for name in record), record
    else:
        assert not any(re.search("[A-Z]", name) for name in record), record
        assert record["allowed"] is (decision == "allow")
        assert record["requires_human_review"] is (decision == "human_review")
        assert record["compute"] is (decision == "compute")
        if rule != "default:deny":
            assert record["policy_version"] == 1
    return plain


@pytest.mark.parametrize("action, decision, rule", OUTCOMES)
@pytest.mark.parametrize("route", [TOOL, AGENT, USER])
def test_a_decision_is_found_by_its_trace_id_and_its_hashes_hold(stack, route, action, decision, rule):
    if route == USER and decision == "compute":
        decision, rule = "deny", "default:deny"  # its rule is for agents only
    with stack.at_engine() as wire:
        sent = wire.encode("POST", route, body_for(route, action))
        wire.send(sent)
        reply = wire.read_reply()
    assert reply.status == 200, reply
    assert reply.header("content-type").split(";")[0] == "application/json"
    plain = check_members(route, reply, decision, rule)
    assert reply.header("x-request-id") == plain["request_id"]

    body = sent.split(b"\r\n\r\n", 1)[1]
    assert plain["input_hash"] == canonical.input_hash(body)

    events = stack.trace(plain["trace_id"], count=2 if decision == "human_review" else 1)
    kinds = [event["kind"] for event in events]
    assert kinds == (["decision", "review.enqueued"] if decision == "human_review" else ["decision"])
    event = events[0]
    assert identifier("evt").match(event["event_id"])
    assert canonical.output_hash(event) == event["output_hash"] == plain["output_hash"]
    for name in ("request_id", "trace_id", "decision", "rule", "timestamp", "input_hash", "policy_digest", "mode"):
        assert event[name] == plain[name], name
    for name in ("review_id", "expires_at", "safe_tool", "safe_args"):
        assert event.get(name) == plain.get(name), name
    assert event["tenant_id"] == "default" and event["action"] == action
    assert event.get("user_id" if route == USER else "actor") == ("carol" if route == USER else "bot")
    assert identifier("key").match(event["key_id"])
    assert ("binding_hash" in event) == (decision == "human_review"), "what an approval is bound to"
    assert isinstance(event["id"], int) and TIME.match(event["created_at"])
    assert set(event["source"]) == {"node", "journal", "epoch", "seq"}
    for name in ("trace_id", "actor", "action", "decision", "reason", "rule", "mode"):
        assert isinstance(event[name], str), name
    for name in ("confidence", "latency_ms"):
        assert isinstance(event[name], (int, float)), name
    assert canonical.canonical(event["args"]) == canonical.canonical(canonical.loads(body)["args"])


def test_binding_hash_covers_the_request_without_confidence_and_trace(stack):
    with stack.at_engine() as wire:
        first = wire.post(AGENT, {"action": "issue_refund", "actor": "bot", "args": {"x": 1}, "confidence": 0.9}).json
        second = wire.post(AGENT, {"action": "issue_refund", "actor": "bot", "args": {"x": 1}, "trace_id": "t1.a-b"}).json
        other = wire.post(AGENT, {"action": "issue_refund", "actor": "bot", "args": {}}).json
        absent = wire.post(AGENT, {"action": "issue_refund", "actor": "bot"}).json
    assert first["review_id"] == second["review_id"] and len({reply["review_id"] for reply in (first, other, absent)}) == 3
    hashes = [stack.trace(reply["trace_id"])[0]["binding_hash"] for reply in (first, second, other, absent)]
    assert hashes[0] == hashes[1] and len(set(hashes)) == 3
    assert hashes[0] == canonical.binding_hash((stack.data / "pepper").read_text(), first["review_id"],
                                               {"action": "issue_refund", "actor": "bot", "args": {"x": 1}}, "default")
    assert second["trace_id"] == "t1.a-b"


def test_pipelined_requests_are_answered_in_order(stack):
    with stack.at_engine() as wire:
        names = [f"p{number}.x" for number in range(100)]
        wire.send(b"".join(wire.encode("POST", AGENT, {"action": "get_x", "trace_id": name}) for name in names))
        assert [wire.read_reply().json["trace_id"] for _ in names] == names


def test_confidence_is_used_from_body_or_context(stack):
    with stack.at_engine() as wire:
        assert wire.post(AGENT, {"action": "get_x", "confidence": 0.25}).json["confidence_used"] == 0.25
        assert wire.post(AGENT, {"action": "get_x", "context": {"confidence": 0.5}}).json["confidence_used"] == 0.5
        assert "confidence_used" not in wire.post(AGENT, {"action": "get_x"}).json


def test_an_engines_event_says_where_it_was_journaled(stack):
    with stack.at_engine() as wire:
        trace = wire.post(AGENT, {"action": "get_first"}).json["trace_id"]
    source = stack.trace(trace)[0]["source"]
    assert source["journal"] in ("0", 0) and source["seq"] > 1 and re.match(r"^[0-9a-f]{16}$", source["epoch"])
