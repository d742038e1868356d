"""What a wrong request is answered, on every route: status, code, field, a sentence that names it."""

import json
import re

import pytest

import harness

TOOL, AGENT, USER = "/api/v1/authorize", "/v1/agent/authorize", "/v1/authorize"
VALID = {TOOL: {"tool": "get_x"}, AGENT: {"action": "get_x"}, USER: {"user_id": "carol", "action": "get_x"}}


def refused(reply, status, code, field=None):
    """Checks an error's one form and gives its document."""
    assert reply.status == status, reply
    assert reply.header("content-type").split(";")[0] == "application/json"
    document = reply.json
    assert set(document) <= {"error", "code", "field", "trace_id", "details", "want_from"}, document
    assert re.match(r"^[a-z][a-z0-9_]*$", document["code"])
    codes = code if isinstance(code, tuple) else (code,)
    assert document["code"] in codes, document
    assert document["error"] and isinstance(document["error"], str)
    if field is not None:
        assert document.get("field") == field, document
        assert field.split("/")[-1] in document["error"], document
    return document


def valid(route, **members):
    return {**VALID[route], **members}


def post(stack, route, body, key="agent", **options):
    with stack.at_engine(key) as wire:
        return wire.post(route, body, **options)


# ---- members ----

ACTION_OF = {TOOL: "tool", AGENT: "action", USER: "action"}
LONG_ID = "a" * 257

MEMBERS = [(route, *case) for route in (TOOL, AGENT, USER) for case in [
    ({ACTION_OF[route]: None}, "missing_member", f"/{ACTION_OF[route]}"),
    ({ACTION_OF[route]: 5}, "wrong_type", f"/{ACTION_OF[route]}"),
    ({ACTION_OF[route]: ["get_x"]}, "wrong_type", f"/{ACTION_OF[route]}"),
    ({ACTION_OF[route]: ""}, ("missing_member", "out_of_range"), f"/{ACTION_OF[route]}"),
    ({ACTION_OF[route]: LONG_ID}, "out_of_range", f"/{ACTION_OF[route]}"),
    ({ACTION_OF[route]: "a\0b"}, ("bad_value", "malformed_json"), f"/{ACTION_OF[route]}"),
    ({"args": []}, "wrong_type", "/args"),
    ({"args": "x"}, "wrong_type", "/args"),
    ({"args": 5}, "wrong_type", "/args"),
    ({"resource": 7}, "wrong_type", "/resource"),
    ({"resource": []}, "wrong_type", "/resource"),
    ({"resource": {"type": 5}}, "wrong_type", "/resource/type"),
    ({"resource": {"id": {}}}, "wrong_type", "/resource/id"),
    ({"resource": {"properties": []}}, "wrong_type", "/resource/properties"),
    ({"context": 5}, "wrong_type", "/context"),
    ({"context": True}, "wrong_type", "/context"),
]] + [
    (TOOL, {"tool": "x" * 129}, "out_of_range", "/tool"),
    (TOOL, {"actor": 5}, "wrong_type", "/actor"),
    (TOOL, {"actor": LONG_ID}, "out_of_range", "/actor"), (TOOL, {"actor": "."}, "bad_value", "/actor"),
    (TOOL, {"context": {"confidence": "high"}}, "wrong_type", "/context/confidence"),
    (TOOL, {"context": {"confidence": 1.01}}, "out_of_range", "/context/confidence"),
    (TOOL, {"context": {"actingFor": 5}}, "wrong_type", "/context/actingFor"),
    (TOOL, {"context": {"traceId": 5}}, "wrong_type", "/context/traceId"),
    (TOOL, {"context": {"traceId": "a b"}}, ("bad_value", "out_of_range"), "/context/traceId"),
    (TOOL, {"context": {"acting_for": "x"}}, "wrong_case", "/context/acting_for"),
    (TOOL, {"context": {"trace_id": "x"}}, "wrong_case", "/context/trace_id"),
    (AGENT, {"actor": 5}, "wrong_type", "/actor"),
    (AGENT, {"actor": LONG_ID}, "out_of_range", "/actor"), (AGENT, {"actor": ".."}, "bad_value", "/actor"),
    (AGENT, {"confidence": "0.5"}, "wrong_type", "/confidence"),
    (AGENT, {"confidence": True}, "wrong_type", "/confidence"),
    (AGENT, {"confidence": 1.2}, "out_of_range", "/confidence"),
    (AGENT, {"confidence": -0.0001}, "out_of_range", "/confidence"),
    (AGENT, {"context": {"confidence": []}}, "wrong_type", "/context/confidence"),
    (AGENT, {"context": {"confidence": 2}}, "out_of_range", "/context/confidence"),
    (AGENT, {"acting_for": 5}, "wrong_type", "/acting_for"),
    (AGENT, {"acting_for": LONG_ID}, "out_of_range", "/acting_for"),
    (AGENT, {"context": {"acting_for": 5}}, "wrong_type", "/context/acting_for"),
    (AGENT, {"scope": 5}, "wrong_type", "/scope"),
    (AGENT, {"tenant_id": 5}, "wrong_type", "/tenant_id"),
    (AGENT, {"tenant_id": LONG_ID}, ("out_of_range", "wrong_tenant"), "/tenant_id"),
    (AGENT, {"trace_id": 5}, "wrong_type", "/trace_id"),
    (AGENT, {"trace_id": "a b"}, ("bad_value", "out_of_range"), "/trace_id"),
    (AGENT, {"trace_id": "-a"}, ("bad_value", "out_of_range"), "/trace_id"),
    (AGENT, {"trace_id": "a" * 129}, ("bad_value", "out_of_range"), "/trace_id"),
    (AGENT, {"traceId": "x"}, "wrong_case", "/traceId"),
    (AGENT, {"actingFor": "x"}, "wrong_case", "/actingFor"),
    (AGENT, {"tenantId": "x"}, "wrong_case", "/tenantId"),
    (AGENT, {"context": {"actingFor": "x"}}, "wrong_case", "/context/actingFor"),
    (USER, {"user_id": None}, "missing_member", "/user_id"),
    (USER, {"user_id": 5}, "wrong_type", "/user_id"),
    (USER, {"user_id": LONG_ID}, "out_of_range", "/user_id"),
    (USER, {"trace_id": 5}, "wrong_type", "/trace_id"),
    (USER, {"userId": "carol"}, "wrong_case", "/userId"),
    (USER, {"tenantId": "x"}, "wrong_case", "/tenantId"),
    (USER, {"traceId": "x"}, "wrong_case", "/traceId"),
]


@pytest.mark.parametrize("route, members, code, field", MEMBERS)
def test_a_wrong_member_is_named(stack, route, members, code, field):
    status = 403 if code == "wrong_tenant" else 400
    refused(post(stack, route, valid(route, **members)), status, code, field)


def test_the_sentence_is_the_contracts_own_example(stack):
    document = refused(post(stack, AGENT, valid(AGENT, confidence=1.2)), 400, "out_of_range", "/confidence")
    assert document["error"] == "confidence: 1.2 is out of range [0, 1]"


@pytest.mark.parametrize("wrong", [{"args": 5}, {"context": 5}, {"acting_For": 1, "actingFor": "z"}, {"confidence": 5}, {"resource": 5}, {"tenant_id": 5}])
def test_an_error_has_the_trace_id_whatever_is_wrong_before_it(stack, wrong):
    for body in ({**wrong, "action": "x", "trace_id": "t-1"}, {"trace_id": "t-1", "action": "x", **wrong}):
        assert refused(post(stack, AGENT, body), 400, ("wrong_type", "wrong_case", "out_of_range"))["trace_id"] == "t-1"
    with stack.at_engine() as wire:
        reply = wire.post(AGENT, {"action": "x", **wrong}, headers={"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"})
    assert reply.json["trace_id"] == "ab" * 16


@pytest.mark.parametrize("prefix", ["req_", "rev_", "tok_", "evt_", "key_"])
def test_a_trace_id_with_a_prefix_of_ours_is_refused(stack, prefix):
    document = refused(post(stack, AGENT, valid(AGENT, trace_id=prefix + "1")), 400, ("bad_value", "out_of_range"), "/trace_id")
    assert "trace_id" not in document, "what was refused is nobody's trace id"


@pytest.mark.parametrize("members", [
    {"confidence": 0.5, "context": {"confidence": 0.6}},
    {"acting_for": "dora", "context": {"acting_for": "eve"}},
    {"scope": "a", "context": {"scope": "b"}},
])
def test_a_member_given_twice_and_differently_is_a_conflict(stack, members):
    refused(post(stack, AGENT, valid(AGENT, **members)), 400, "conflicting_member")


@pytest.mark.parametrize("members", [
    {"confidence": 1, "context": {"confidence": 1.0}},
    {"acting_for": "dora", "context": {"acting_for": "dora"}},
    {"confidence": 0.5, "context": {"confidence": None}},
])
def test_a_member_given_twice_and_alike_is_taken(stack, members):
    assert post(stack, AGENT, valid(AGENT, **members)).status == 200


@pytest.mark.parametrize("route, members", [
    (AGENT, {name: None for name in ("actor", "resource", "args", "confidence", "acting_for", "scope", "tenant_id",
                                     "trace_id", "context")}),
    (AGENT, {name: "" for name in ("actor", "acting_for", "scope", "tenant_id")}),
    (TOOL, {name: None for name in ("actor", "resource", "args", "context")}),
    (TOOL, {"actor": ""}),
    (USER, {name: None for name in ("resource", "args", "tenant_id", "context", "trace_id")}),
    (USER, {"tenant_id": ""}),
    (AGENT, {"context": {"confidence": None, "acting_for": None, "scope": ""}}),
])
def test_null_and_empty_count_as_absent(stack, route, members):
    reply = post(stack, route, valid(route, **members))
    assert reply.status == 200, reply
    record = reply.json
    event = stack.trace(record.get("trace_id") or record["traceId"])[0]
    if route != USER:
        assert event["actor"] == "agents", "the actor is the credential's principal"
    assert not event.get("acting_for") and "confidence_used" not in event


@pytest.mark.parametrize("route", [TOOL, AGENT, USER])
def test_unknown_members_mean_nothing_but_are_hashed(stack, route):
    plain, extra = post(stack, route, valid(route)), post(stack, route, valid(route, colour="red"))
    assert plain.status == extra.status == 200
    hash_name = "inputHash" if route == TOOL else "input_hash"
    assert plain.json[hash_name] != extra.json[hash_name] and plain.json["decision"] == extra.json["decision"]


def test_names_count_in_characters_not_bytes(stack):
    assert post(stack, TOOL, {"tool": "ß" * 128}).status == 200
    assert post(stack, AGENT, valid(AGENT, actor="日" * 256)).status == 200
    refused(post(stack, AGENT, valid(AGENT, actor="日" * 257)), 400, "out_of_range", "/actor")


# ---- bodies ----


def deep(levels):
    return b'{"%s":"get_x","args":' + b'{"a":' * (levels - 2) + b"{}" + b"}" * (levels - 2) + b"}"


BODIES = [
    (b"", "malformed_json"), (b" ", "malformed_json"), (b"{", "malformed_json"), (b"nonsense", "malformed_json"),
    (b"{}x", "malformed_json"), (b"{} {}", "malformed_json"), (b"{}\0", "malformed_json"),
    (b"[]", "wrong_type"), (b'"x"', "wrong_type"), (b"null", "wrong_type"), (b"5", "wrong_type"),
    (b'{"a":1,"a":1}', "duplicate_key"), (b'{"a":1,"\\u0061":2}', "duplicate_key"),
    (b'{"args":{"x":{"k":1,"k":1}}}', "duplicate_key"),
    (b'{"args":{"v":"\\ud800"}}', "malformed_json"), (b'{"args":{"v":"\\udc00x"}}', "malformed_json"),
    (b'{"args":{"v":"\xff"}}', "malformed_json"), (b'{"args":{"v":"\xc0\x80"}}', "malformed_json"),
    (b'{"args":{"v":"\xed\xa0\x80"}}', "malformed_json"), (b'\xef\xbb\xbf{"args":{}}', "malformed_json"),
    (b'{"args":{"v":"a\nb"}}', "malformed_json"), (b'{"args":{"v":NaN}}', "malformed_json"),
    (b'{"args":{"v":01}}', "malformed_json"), (b"{'args':{}}", "malformed_json"), (b'{"args":{},}', "malformed_json"),
    (b'{"args":{"v":1e999}}', "number_precision"), (b'{"args":{"v":18446744073709551617}}', "number_precision"),
]


@pytest.mark.parametrize("route", [TOOL, AGENT, USER])
@pytest.mark.parametrize("body, code", BODIES)
def test_a_malformed_body_is_refused(stack, route, body, code):
    refused(post(stack, route, body), 400, code)


@pytest.mark.parametrize("route", [TOOL, AGENT, USER])
def test_depth_32_is_taken_and_33_is_too_deep(stack, route):
    name = ACTION_OF[route].encode()
    extra = b'{"user_id":"carol",' if route == USER else b"{"
    for levels, status in ((32, 200), (33, 400)):
        body = extra + (deep(levels) % name)[1:]
        reply = post(stack, route, body)
        assert reply.status == status, reply
    refused(reply, 400, "too_deep")


def test_nul_is_taken_in_args_context_and_properties_only(stack):
    for members in ({"args": {"k\0": "a\0"}}, {"context": {"x": "\0"}}, {"context": {"n": {"m": "\0"}}},
                    {"resource": {"properties": {"p": "\0"}}}):
        assert post(stack, AGENT, valid(AGENT, **members)).status == 200, members
    for members in ({"actor": "a\0"}, {"resource": {"id": "a\0"}}, {"resource": "a:b\0"}, {"colour": "\0"}):
        assert post(stack, AGENT, valid(AGENT, **members)).status == 400, members


def test_a_body_may_have_64_kib_and_not_a_byte_more(stack):
    frame = len(json.dumps(valid(AGENT, args={"v": ""})))
    exact = json.dumps(valid(AGENT, args={"v": "a" * (65536 - frame)}))
    assert len(exact) == 65536
    assert post(stack, AGENT, exact).status == 200
    refused(post(stack, AGENT, exact + " "), 413, "body_too_large")


def test_what_was_too_large_for_a_record_is_cut_there_and_says_so(stack):
    reply = post(stack, AGENT, valid(AGENT, args={"v": "a" * 63000}))
    event = stack.trace(reply.json["trace_id"])[0]
    assert event["args"]["omitted"] is True or event["args"]["omitted"], event
    assert event["args"]["bytes"] > 62000
    assert event["input_hash"] == reply.json["input_hash"]


# ---- parameters, headers, methods, paths ----


@pytest.mark.parametrize("query, code", [
    ("?colour=red", "unknown_parameter"), ("?dry_run=maybe", "bad_parameter"), ("?dry_run=true&dry_run=true", "bad_parameter"),
    ("?dry_run=%zz", "bad_parameter"), ("?dry_run=%ff", "bad_parameter"), ("?explain=1", "bad_parameter"),
])
def test_a_bad_parameter_is_named(stack, query, code):
    document = refused(post(stack, AGENT + query, VALID[AGENT], key="admin"), 400, code)
    assert re.match(r"\?(\w+)", query)[1] in document["error"], document


@pytest.mark.parametrize("content_type, status", [
    ("application/json", 200), ("application/json; charset=utf-8", 200), ("Application/JSON", 200),
    ("text/plain", 415), (None, 415), ("application/jsonx", 415), ("", 415), ("application/x-www-form-urlencoded", 415),
])
def test_a_body_must_be_said_to_be_json(stack, content_type, status):
    reply = post(stack, AGENT, VALID[AGENT], headers={"Content-Type": content_type})
    if status == 200:
        assert reply.status == 200, reply
    else:
        refused(reply, 415, "unsupported_media_type")


@pytest.mark.parametrize("path", [
    "/nothing", "/v1", "/v1/agent/authorize/", "/v1//agent/authorize", "/V1/agent/authorize", "/api/v1/authorize/x",
    "/access/v1/search/subject", "/v1/token", "/v1/queue/a/b/c", "/v1/actors/x", "/well-known/jwks.json", "/.well-known/nothing",
])
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
def test_an_unknown_path_is_404_in_json(stack, method, path):
    for wire in (stack.at_engine("admin"), stack.at_platform("admin")):
        with wire:
            refused(wire.request(method, path, {} if method == "POST" else None), 404, "not_found")


@pytest.mark.parametrize("program, method, path, allow", [
    ("engine", "GET", AGENT, {"POST"}), ("engine", "PUT", TOOL, {"POST"}), ("engine", "DELETE", USER, {"POST"}),
    ("engine", "HEAD", USER, {"POST"}), ("engine", "POST", "/healthz", {"GET", "HEAD"}), ("engine", "PATCH", AGENT, {"POST"}),
    ("platform", "DELETE", "/api/v1/audit", {"GET", "HEAD"}), ("platform", "PATCH", "/api/v1/policies/x", {"GET", "HEAD", "PUT", "DELETE"}),
    ("platform", "GET", "/api/v1/audit/ingest", {"POST"}), ("platform", "POST", "/metrics", {"GET", "HEAD"}),
    # What each forwards has the methods of the program that serves it.
    ("platform", "PATCH", AGENT, {"POST"}), ("platform", "OPTIONS", TOOL, {"POST"}), ("platform", "PUT", "/v1/queue", {"GET", "HEAD"}),
    ("platform", "PATCH", "/v1/tokens/tok_x", {"DELETE"}), ("platform", "PATCH", "/v1/tokens/introspect", {"POST"}),
    ("platform", "POST", "/.well-known/jwks.json", {"GET", "HEAD"}),
    ("engine", "PATCH", "/api/v1/policies/x", {"GET", "HEAD", "PUT", "DELETE"}), ("engine", "DELETE", "/api/v1/keys", {"GET", "HEAD", "POST"}),
])
def test_a_known_path_says_which_methods_it_has(stack, program, method, path, allow):
    with (stack.at_engine("admin") if program == "engine" else stack.at_platform("admin")) as wire:
        reply = wire.request(method, path)
    if method == "HEAD":
        assert reply.status == 405
    else:
        refused(reply, 405, "method_not_allowed")
    given = set(re.split(r"\s*,\s*", reply.header("allow")))
    assert given == allow or given | {"HEAD"} == allow, given


def test_a_method_that_nobody_knows_is_refused(stack):
    with stack.at_engine() as wire:
        refused(wire.request("BREW", AGENT), 501, "not_implemented")


@pytest.mark.parametrize("program", ["engine", "platform"])
def test_head_is_get_without_the_body(stack, program):
    with (stack.at_engine(None) if program == "engine" else stack.at_platform(None)) as wire:
        got, head = wire.get("/healthz"), wire.request("HEAD", "/healthz")
        assert (head.status, head.body) == (200, b"") and got.status == 200
        assert abs(int(head.header("content-length")) - len(got.body)) < 16
        assert wire.get("/livez").status == 200, "nothing of a body was sent after the HEAD"


def test_a_request_id_is_echoed_or_made(stack):
    with stack.at_engine() as wire:
        assert wire.post(AGENT, VALID[AGENT], headers={"X-Request-ID": "abc-123"}).header("x-request-id") == "abc-123"
        reply = wire.post(AGENT, VALID[AGENT])
        assert reply.header("x-request-id") == reply.json["request_id"]
        assert wire.post(AGENT, b"{", headers={"X-Request-ID": "bad-1"}).header("x-request-id") == "bad-1"
        assert wire.post(AGENT, VALID[AGENT], headers={"X-Request-ID": "x" * 128}).header("x-request-id") == "x" * 128
        for other in ("x" * 129, "a b", "a\tb"):
            assert wire.post(AGENT, VALID[AGENT], headers={"X-Request-ID": other}).header("x-request-id").startswith("req_")


@pytest.mark.parametrize("path", ["/.well-known/jwks.json", "/metrics", "/healthz", "/livez", "/nothing", "/v1/queue", "/api/v1/policies"])
@pytest.mark.parametrize("program", ["engine", "platform"])
def test_a_request_id_is_echoed_by_every_answer(stack, program, path):
    with (stack.at_engine if program == "engine" else stack.at_platform)("admin") as wire:
        assert wire.get(path, headers={"X-Request-ID": "abc-123"}).header("x-request-id") == "abc-123"


def test_a_request_id_is_echoed_where_nobody_answers_too(fresh):
    stack = fresh()
    stack.make_first_keys()
    stack.platform.start()
    with stack.at_platform("agent") as wire:
        for path in ("/v1/queue", "/.well-known/jwks.json"):
            reply = wire.get(path, headers={"X-Request-ID": "abc-123"})
            refused(reply, 502, "upstream_failed")
            assert reply.header("x-request-id") == "abc-123"
            assert wire.get(path).header("x-request-id") is None


def test_an_engine_that_starts_says_so_to_whoever_reads_its_metrics(fresh):
    """Nobody's key is known yet, so that nobody's is told to be wrong."""
    stack = fresh(engine=["--platform.url", "http://127.0.0.1:1"])
    stack.make_first_keys()
    stack.platform.start()
    stack.engine.start(ready=False)
    harness.eventually(stack.engine.is_listening, "the engine listens")
    with stack.at_engine("admin") as wire, stack.at_platform("admin") as forwarded:
        for reply in (wire.get("/metrics"), forwarded.get("/v1/queue")):
            refused(reply, 503, "starting")
            assert reply.header("retry-after") == "1"


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize("header, expected", [
    (f"00-{TRACE}-00f067aa0ba902b7-01", TRACE), (f"00-{TRACE}-00f067aa0ba902b7-00", TRACE),
    (f"00-{TRACE.upper()}-00f067aa0ba902b7-01", None), ("00-" + "0" * 32 + "-00f067aa0ba902b7-01", None),
    (f"00-{TRACE}-" + "0" * 16 + "-01", None), (f"ff-{TRACE}-00f067aa0ba902b7-01", None), ("nonsense", None),
    (f"00-{TRACE}-00f067aa0ba902b7", None), (f"00-{TRACE}-00f067aa0ba902b7-01-x", None),
])
def test_traceparent_is_used_or_ignored(stack, header, expected):
    reply = post(stack, AGENT, VALID[AGENT], headers={"traceparent": header})
    assert reply.status == 200, reply
    assert (reply.json["trace_id"] == TRACE) == (expected == TRACE), reply.json["trace_id"]


def test_the_bodys_trace_id_wins_over_traceparent(stack):
    reply = post(stack, AGENT, valid(AGENT, trace_id="mine"), headers={"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"})
    assert reply.json["trace_id"] == "mine"
    reply = post(stack, TOOL, {"tool": "get_x", "context": {"traceId": "mine.too"}})
    assert reply.json["traceId"] == "mine.too"


@pytest.mark.parametrize("members, field", [
    ({"trace_id": "mine"}, "/confidence"), ({"context": {"trace_id": "mine"}}, "/confidence"),
    ({"trace_id": "mine", "actor": 5, "confidence": None}, "/actor"), ({"trace_id": "mine", "action": "", "confidence": None}, "/action"),
])
def test_an_error_has_the_requests_trace_id(stack, members, field):
    assert refused(post(stack, AGENT, valid(AGENT, **{"confidence": 2, **members})), 400, "out_of_range" if field != "/actor" else "wrong_type",
                   field)["trace_id"] == "mine"


def test_an_error_has_the_traceparents_trace_id_and_none_that_nobody_gave(stack):
    headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    assert refused(post(stack, AGENT, valid(AGENT, confidence=2), headers=headers), 400, "out_of_range")["trace_id"] == TRACE
    assert "trace_id" not in refused(post(stack, AGENT, valid(AGENT, confidence=2)), 400, "out_of_range")
    assert "trace_id" not in refused(post(stack, AGENT, valid(AGENT, trace_id="a b")), 400, "bad_value", "/trace_id")


@pytest.mark.parametrize("what, status", [("nobody", 401), ("who may not", 403), ("no JSON", 400), ("no object", 400), ("text", 415), ("large", 413),
                                          ("no review", 404)])
def test_an_error_before_the_body_is_read_has_the_traceparents_trace_id(stack, what, status):
    headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "Content-Type": "text/plain" if what == "text" else "application/json"}
    body = {"no JSON": b"{", "no object": b"[]", "large": b'{"action": "' + b"x" * (64 << 10) + b'"}'}.get(what, json.dumps(valid(AGENT)).encode())
    route = "/v1/queue/rev_00000000000000000000000000/redeem" if what == "no review" else AGENT
    with stack.at_engine({"nobody": None, "who may not": "admin"}.get(what, "agent")) as wire:
        reply = wire.request("POST", route, body=body, headers=headers)
    assert (reply.status, reply.json.get("trace_id")) == (status, TRACE), reply


def test_what_is_wrong_inside_context_is_named_there(stack):
    refused(post(stack, AGENT, valid(AGENT, trace_id="", context={"trace_id": "a b"})), 400, "bad_value", "/context/trace_id")
    narrow = stack.key("narrow", ["agent"], users=["carol"])
    for members in ({"context": {"acting_for": "eve"}}, {"acting_for": "", "context": {"acting_for": "eve"}}):
        refused(post(stack, AGENT, valid(AGENT, **members), key=narrow), 403, "wrong_user", "/context/acting_for")
    refused(post(stack, AGENT, valid(AGENT, acting_for="eve"), key=narrow), 403, "wrong_user", "/acting_for")


def test_a_wrong_tenant_is_named_as_the_route_spells_it(stack):
    everywhere = stack.key("everywhere", ["agent"], tenant="*")
    for route, name in ((AGENT, "tenant_id"), (TOOL, "tenantId")):
        refused(post(stack, route, valid(route, **{name: "another"})), 403, "wrong_tenant", f"/{name}")
        for path in (route, "/v1/queue/rev_0123456789ABCDEFGHJKMNPQRS/redeem"):
            refused(post(stack, path, VALID[route], key=everywhere), 400, "tenant_required", f"/{name}")
            refused(post(stack, path, valid(route, **{name: "*"}), key=everywhere), 400, "bad_value", f"/{name}")
            refused(post(stack, f"{path}?tenant_id=*", VALID[route], key=everywhere), 400, "bad_value", f"/{name}")
            refused(post(stack, f"{path}?tenant_id=default", valid(route, **{name: "another"}), key=everywhere), 400,
                    "conflicting_member", f"/{name}")
            spelled = {"tenant_id": "tenantId", "tenantId": "tenant_id"}[name]
            refused(post(stack, path, valid(route, **{spelled: "default"}), key=everywhere), 400, "wrong_case", f"/{spelled}")
            refused(post(stack, path, valid(route, **{name: 5}), key=everywhere), 400, "wrong_type", f"/{name}")


# ---- credentials ----


@pytest.mark.parametrize("authorization", [
    None, "", "Bearer", "Bearer ", "Basic YWJjOmRlZg==", "Bearer nonsense", "Bearer wk_" + "0" * 77, "Token x",
])
def test_no_valid_credential_is_401_with_its_challenge(stack, authorization):
    for path in (AGENT, USER, TOOL):
        reply = post(stack, path, VALID[path], key=None, headers={"Authorization": authorization})
        refused(reply, 401, "unauthenticated")
        assert reply.header("www-authenticate").startswith("Bearer")
    with stack.at_platform(None) as wire:
        reply = wire.get("/api/v1/audit", headers={"Authorization": authorization})
    refused(reply, 401, "unauthenticated")
    assert reply.header("www-authenticate").startswith("Bearer")


def test_one_changed_character_of_a_key_is_401(stack):
    key = stack.keys["agent"]
    for place in (3, 15, 31, 40, 70, 75, 79):
        other = key[:place] + ("b" if key[place] == "a" else "a") + key[place + 1:]
        refused(post(stack, AGENT, VALID[AGENT], key=other), 401, "unauthenticated")
    assert post(stack, AGENT, VALID[AGENT]).status == 200


def test_who_lacks_the_role_is_403(stack):
    for key in ("auditor", "admin", "engine"):
        for route in (TOOL, AGENT, USER):
            refused(post(stack, route, VALID[route], key=key), 403, "missing_role")
    for key, path in (("agent", "/api/v1/audit"), ("agent", "/api/v1/policies"), ("auditor", "/api/v1/keys"),
                      ("auditor", "/api/v1/bundle"), ("admin", "/api/v1/audit/positions?node=n"), ("agent", "/metrics")):
        with stack.at_platform(key) as wire:
            refused(wire.get(path), 403, "missing_role")
    with stack.at_engine("agent") as wire:
        refused(wire.get("/metrics"), 403, "missing_role")


def test_dry_run_and_explain_are_for_admins_auditors_and_policy_admins(stack):
    for query in ("?dry_run=true", "?dry_run=true&explain=true"):
        refused(post(stack, AGENT + query, VALID[AGENT]), 403, "missing_role")
        for key in ("admin", "auditor"):
            assert post(stack, AGENT + query, valid(AGENT, actor="bot"), key=key).status == 200


# ---- health ----


@pytest.mark.parametrize("program", ["engine", "platform"])
def test_health_is_public(stack, program):
    with (stack.at_engine(None) if program == "engine" else stack.at_platform(None)) as wire:
        health = wire.get("/healthz").json
        assert health["status"] == "ok" and health["service"] == f"writ-{program}" and health["version"], health
        assert isinstance(health["checks"], dict)
        assert wire.get("/livez").status == wire.get("/readyz").status == 200
        assert wire.get("/api/config-check").json == {"ok": True}
        refused(wire.get("/metrics"), 401, "unauthenticated")


def test_the_journal_has_hours_left_from_the_first_second_on(fresh):
    stack = fresh().start()
    with stack.at_engine(None) as wire:
        assert wire.get("/healthz").json["journal_hours_left"] > 0


def test_metrics_is_prometheus_text(stack):
    for program in ("engine", "platform"):
        with (stack.at_engine("admin") if program == "engine" else stack.at_platform("admin")) as wire:
            reply = wire.get("/metrics")
        assert reply.status == 200 and reply.header("content-type").startswith("text/plain; version=0.0.4")
        assert f"writ_{program}_http_replies_total" in reply.body.decode()


# ---- audit queries ----


@pytest.mark.parametrize("query, code", [
    ("limit=0", "bad_parameter"), ("limit=501", "bad_parameter"), ("limit=x", "bad_parameter"), ("limit=-1", "bad_parameter"),
    ("limit=", "bad_parameter"), ("limit=5&limit=6", "bad_parameter"), ("cursor=-1", "bad_parameter"), ("cursor=x", "bad_parameter"),
    ("cursor=99999999999999999999", "bad_parameter"), ("from=yesterday", "bad_parameter"), ("from=2026-13-01T00:00:00Z", "bad_parameter"),
    ("to=2026-01-01", "bad_parameter"), ("to=2026-01-01T00:00:00", "bad_parameter"), ("from=2026-02-30T00:00:00Z", "bad_parameter"),
    ("decision=perhaps", "bad_parameter"), ("colour=red", "unknown_parameter"), ("actor=%ff", "bad_parameter"),
])
def test_a_bad_audit_query_is_named(stack, query, code):
    with stack.at_platform() as wire:
        document = refused(wire.get(f"/api/v1/audit?{query}"), 400, code)
    assert query.split("=")[0] in document["error"], document


@pytest.mark.parametrize("time", [
    "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456789Z", "2026-01-01T01:00:00%2B01:00", "2026-01-01T00:00:00.5-08:00",
    "0001-01-01T00:00:00Z", "1970-01-01T00:00:00%2B01:00", "9999-12-31T23:59:59-23:59",
])
def test_times_have_any_offset_and_up_to_nine_digits(stack, time):
    with stack.at_platform() as wire:
        assert wire.get(f"/api/v1/audit?from={time}").status == 200
        assert wire.get(f"/api/v1/audit?from={time}&to=0001-01-01T00:00:00Z").json["count"] == 0


def test_pages_by_cursor_hold_every_event_once(stack):
    with stack.at_engine() as wire:
        traces = [wire.post(AGENT, valid(AGENT, actor="pager")).json["trace_id"] for _ in range(45)]
    stack.trace(traces[-1])
    with stack.at_platform() as wire:
        seen, cursor = [], 0
        while True:
            page = wire.get(f"/api/v1/audit?actor=pager&limit=20{f'&cursor={cursor}' if cursor else ''}").json
            assert page["count"] == len(page["events"]) and page["limit"] == 20 and page["cursor"] == cursor
            seen += [event["trace_id"] for event in page["events"]]
            cursor = page["next_cursor"]
            if cursor == 0:
                break
        assert seen == traces[::-1]
        assert wire.get("/api/v1/audit?actor=pager").json["limit"] == 20
        assert {e["decision"] for e in wire.get("/api/v1/audit?actor=pager&decision=allowed").json["events"]} == {"allow"}
        assert wire.get("/api/v1/audit?actor=pager&decision=denied").json["count"] == 0


def test_an_unknown_trace_is_empty(stack):
    with stack.at_platform() as wire:
        for trace_id in ("no-such-trace", "a" * 128):
            reply = wire.get(f"/api/v1/audit/trace/{trace_id}")
            assert reply.status == 200 and reply.json == {"trace_id": trace_id, "events": [], "count": 0}, reply
        refused(wire.get(f"/api/v1/audit/trace/{'a' * 129}"), 404, "not_found")
