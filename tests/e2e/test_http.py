"""HTTP/1.1 byte by byte: what a library would never send, and what a slow or large client may."""

import contextlib
import json
import re
import select
import signal
import socket
import struct
import threading
import time

import pytest

import harness
from wire import Wire

AGENT = "/v1/agent/authorize"
BODY = b'{"action":"get_x"}'


@pytest.fixture(params=["engine", "platform"])
def door(request, stack):
    """Either program; `door.good` is a request that it answers with 200."""
    class Door:
        program = stack.engine if request.param == "engine" else stack.platform

        @staticmethod
        def wire(**options):
            return stack.at_engine(**options) if request.param == "engine" else stack.at_platform(**options)

        good = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"
    return Door


BAD_HEADS = [
    ("a header that is folded", b"GET /livez HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", {400}),
    ("a folded header by a tab", b"GET /livez HTTP/1.1\r\nHost: a\r\nX: b\r\n\tc\r\n\r\n", {400}),
    ("a first line ending in LF", b"GET /livez HTTP/1.1\nHost: a\r\n\r\n", {400}),
    ("a header ending in LF", b"GET /livez HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", {400}),
    ("a head ending in LF", b"GET /livez HTTP/1.1\r\nHost: a\r\n\n", {400}),
    ("LF only", b"GET /livez HTTP/1.1\nHost: a\n\n", {400}),
    ("a bare CR", b"GET /livez HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", {400}),
    ("an empty header name", b"GET /livez HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", {400}),
    ("a blank before the colon", b"GET /livez HTTP/1.1\r\nHost : a\r\n\r\n", {400}),
    ("a blank in a name", b"GET /livez HTTP/1.1\r\nHost: a\r\nX Y: b\r\n\r\n", {400}),
    ("a NUL in a value", b"GET /livez HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n", {400}),
    ("a control character in a value", b"GET /livez HTTP/1.1\r\nHost: a\r\nX: b\x01c\r\n\r\n", {400}),
    ("no colon", b"GET /livez HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n", {400}),
    ("no Host", b"GET /livez HTTP/1.1\r\n\r\n", {400}),
    ("two Hosts", b"GET /livez HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", {400}),
    ("a Host that is none", b"GET /livez HTTP/1.1\r\nHost: a b\r\n\r\n", {400}),
    *[(f"the Host {host}", b"GET /livez HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n", {400})
      for host in ["a:xx", "a:1:2", "[::1", "a^b", "a{b}", "a:65536", ":80", "u:p@a", "a%zz", "[fe80::1%25eth0]"]],
    *[(f"the target {target}", b"GET " + target.encode() + b" HTTP/1.1\r\nHost: a\r\n\r\n", {400})
      for target in ["http://u:p@h/livez", "http://@h/livez", "http://h:xx/livez", "http://[::1/livez", "http://:80/livez"]],
    ("no version", b"GET /livez\r\nHost: a\r\n\r\n", {400, 505}),
    ("version 2.0", b"GET /livez HTTP/2.0\r\nHost: a\r\n\r\n", {400, 505}),
    ("version 1.9", b"GET /livez HTTP/1.9\r\nHost: a\r\n\r\n", {400, 505}),
    ("another protocol", b"SSH-2.0-OpenSSH\r\n\r\n", {400}),
    ("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 30, {400}),
    ("a blank in the target", b"GET /li vez HTTP/1.1\r\nHost: a\r\n\r\n", {400}),
    ("a high byte in the target", b"GET /livez\xff HTTP/1.1\r\nHost: a\r\n\r\n", {400}),
    ("two lengths", b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}", {400}),
    ("two different lengths", b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", {400}),
    ("a list of lengths", b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2, 2\r\n\r\n{}", {400}),
    ("a signed length", b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: +2\r\n\r\n{}", {400}),
    ("a negative length", b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: -2\r\n\r\n{}", {400}),
    ("a hexadecimal length", b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0x2\r\n\r\n{}", {400}),
    ("an empty length", b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n{}", {400}),
    ("a length beyond 64 bits", b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n{}", {400, 413}),
    ("length and chunks", b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400}),
    ("chunks and length", b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n", {400}),
    ("an unknown coding", b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", {400, 501}),
    ("a coding after chunked", b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", {400, 501}),
    ("chunked twice", b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", {400, 501}),
    ("chunks in HTTP/1.0", b"POST /x HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400, 501}),
    ("a target of five KiB", b"GET /" + b"a" * 5000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", {414}),
    ("a head of 20 KiB", b"GET /livez HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 20000 + b"\r\n\r\n", {431}),
    ("100 headers", b"GET /livez HTTP/1.1\r\nHost: a\r\n" + b"X: a\r\n" * 100 + b"\r\n", {431}),
]


@pytest.mark.parametrize("data, statuses", [case[1:] for case in BAD_HEADS], ids=[case[0] for case in BAD_HEADS])
def test_a_head_that_is_not_http_is_refused_and_ends_the_connection(door, data, statuses):
    with door.wire() as wire:
        # What follows a bad request must never be taken for another one (request smuggling).
        wire.send(data + door.good)
        reply = wire.read_reply()
        assert reply.status in statuses, reply
        assert reply.json["code"] and reply.json["error"]
        assert (reply.header("connection") or "").lower() == "close"
        assert wire.buffer == b"" and wire.is_closed_by_server()


def post(headers, body, path=AGENT, version=b"1.1"):
    return b"POST " + path.encode() + b" HTTP/" + version + b"\r\nHost: a\r\n" + headers + b"\r\n" + body


def authorized(stack, *lines):
    head = [f"Authorization: Bearer {stack.keys['agent']}", "Content-Type: application/json", *lines]
    return "".join(line + "\r\n" for line in head).encode()


CHUNKED = [
    ("one chunk", b"12\r\n" + BODY + b"\r\n0\r\n\r\n", 200),
    ("many chunks", b"".join(b"1\r\n" + bytes([byte]) + b"\r\n" for byte in BODY) + b"0\r\n\r\n", 200),
    ("leading zeros", b"0012\r\n" + BODY + b"\r\n000\r\n\r\n", 200),
    ("a trailer", b"12\r\n" + BODY + b"\r\n0\r\nX-Sum: 1\r\n\r\n", 200),
    ("an extension", b"12;name=value\r\n" + BODY + b"\r\n0\r\n\r\n", 200),
    ("no size", b"\r\n" + BODY + b"\r\n0\r\n\r\n", 400),
    ("a size that is none", b"zz\r\n" + BODY + b"\r\n0\r\n\r\n", 400),
    ("a negative size", b"-12\r\n" + BODY + b"\r\n0\r\n\r\n", 400),
    ("a prefixed size", b"0x12\r\n" + BODY + b"\r\n0\r\n\r\n", 400),
    ("a size beyond 64 bits", b"fffffffffffffffff\r\n" + BODY, 400),
    ("a chunk longer than said", b"5\r\n" + BODY + b"\r\n0\r\n\r\n", 400),
    ("a chunk line ending in LF", b"12\n" + BODY + b"\r\n0\r\n\r\n", 400),
    ("more than the limit", b"fffff\r\n" + b" " * 70000, 413),
]


@pytest.mark.parametrize("chunks, status", [case[1:] for case in CHUNKED], ids=[case[0] for case in CHUNKED])
def test_chunked_bodies(stack, chunks, status):
    with stack.at_engine() as wire:
        wire.send(post(authorized(stack, "Transfer-Encoding: chunked"), chunks))
        reply = wire.read_reply()
        assert reply.status == status, reply
        if status == 200:
            assert wire.get("/livez").status == 200, "the connection goes on"


@pytest.mark.parametrize("tail", ["", " ", "\t", " \t", "\t \t"], ids=["nothing", "blank", "tab", "both", "three"])
def test_white_space_behind_a_value_is_passed_over(stack, tail):
    """RFC 9110, 5.5: for every header that is read, not only for those that llhttp trims."""
    head = [f"Authorization: Bearer {stack.keys['agent']}", "Content-Type: application/json", f"Content-Length: {len(BODY)}"]
    lines = "".join(line + tail + "\r\n" for line in head).encode()
    with stack.at_engine() as wire:
        for _ in range(2):  # as it is read, and as it is remembered
            wire.send(post(lines, BODY))
            reply = wire.read_reply()
            assert reply.status == 200, reply
        wire.send(post(lines + b"Connection: close" + tail.encode() + b"\r\n", BODY))
        assert wire.read_reply().status == 200 and wire.is_closed_by_server()


def test_expect_100_continue_is_answered_before_the_body(stack):
    with stack.at_engine() as wire:
        wire.send(post(authorized(stack, "Expect: 100-continue", f"Content-Length: {len(BODY)}"), b""))
        assert wire.read_reply().status == 100
        wire.send(BODY)
        assert wire.read_reply().status == 200


def test_expect_of_too_large_a_body_is_refused_at_once(stack):
    with stack.at_engine() as wire:
        wire.send(post(authorized(stack, "Expect: 100-continue", "Content-Length: 99999999"), b""))
        assert wire.read_reply().status == 413


@pytest.mark.parametrize("line, path, size", [
    (b"POST", "/api/v1/audit/ingest", 8 << 20), (b"PUT", "/api/v1/policies/large", 1 << 20)], ids=["ingest", "policy"])
def test_a_large_body_is_not_read_for_who_may_not_send_it(door, stack, line, path, size):
    """Not on the way to the other program either: its answer comes when the body is here."""
    head = b"%s %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % (line, path.encode(), size)
    for key, status in [(None, 401), ("agent", 403), ("auditor", 403)]:
        credential = f"Authorization: Bearer {stack.keys[key]}\r\n".encode() if key else b""
        with door.wire() as wire:
            wire.send(head + credential + b"\r\n{")
            reply = wire.read_reply()
            assert reply.status == status, reply
            assert wire.is_closed_by_server()
    good = stack.keys["engine" if "ingest" in path else "admin"]
    with door.wire() as wire:
        wire.send(head + b"Expect: 100-continue\r\nAuthorization: Bearer " + good.encode() + b"\r\n\r\n")
        assert wire.read_reply().status == 100


def test_another_expectation_fails(stack):
    with stack.at_engine() as wire:
        wire.send(post(authorized(stack, "Expect: a-miracle", f"Content-Length: {len(BODY)}"), BODY))
        assert wire.read_reply().status == 417


def test_a_request_in_single_bytes_is_a_request(stack):
    with stack.at_engine() as wire:
        for byte in post(authorized(stack, f"Content-Length: {len(BODY)}"), BODY):
            wire.send(bytes([byte]))
        assert wire.read_reply().status == 200


def test_a_half_closed_client_still_gets_its_replies(stack):
    with stack.at_engine() as wire:
        one = post(authorized(stack, f"Content-Length: {len(BODY)}"), BODY)
        wire.send(one * 3)
        wire.socket.shutdown(socket.SHUT_WR)
        assert [wire.read_reply().status for _ in range(3)] == [200] * 3
        assert wire.is_closed_by_server()


def test_connection_close_is_honoured(door):
    with door.wire() as wire:
        wire.send(b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" + door.good)
        assert wire.read_reply().status == 200
        assert wire.buffer == b"" and wire.is_closed_by_server()


def test_http_1_0_is_closed_unless_it_asks_to_stay(door):
    with door.wire() as wire:
        wire.send(b"GET /livez HTTP/1.0\r\n\r\n")
        assert wire.read_reply().status == 200 and wire.is_closed_by_server()
    with door.wire() as wire:
        wire.send(b"GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        reply = wire.read_reply()
        assert reply.status == 200 and reply.header("connection").lower() == "keep-alive"
        wire.send(door.good)
        assert wire.read_reply().status == 200


def test_an_error_of_a_whole_request_keeps_the_connection(stack):
    with stack.at_engine() as wire:
        wire.send(wire.encode("POST", AGENT, b"{") + wire.encode("GET", "/nothing") + wire.encode("POST", AGENT, BODY))
        assert [wire.read_reply().status for _ in range(3)] == [400, 404, 200]


def test_a_blank_line_before_a_request_is_skipped(door):
    """RFC 9112, 2.2: some clients send one after a body."""
    with door.wire() as wire:
        wire.send(b"\r\n" + door.good)
        assert wire.read_reply().status == 200


def test_a_path_is_percent_decoded_by_segment(stack):
    with stack.at_engine() as wire:
        trace = wire.post(AGENT, {"action": "get_x", "trace_id": "seg:ment"}).json["trace_id"]
    assert stack.trace("seg%3Ament")[0]["trace_id"] == trace
    with stack.at_platform() as wire:
        assert wire.get("/api/v1/audit/tr%61ce/" + trace).status == 200, "a fixed segment is decoded, too"
        assert wire.get("/api/v1/audit/trace/%zz").status in (400, 404)


# ---- time ----


@pytest.fixture(scope="module")
def hasty():
    """A stack with short timeouts."""
    hurry = ["--http.head_timeout", "400ms", "--http.body_timeout", "400ms", "--http.idle_timeout", "700ms"]
    with harness.Stack(engine=[*hurry, "--reactors", "1"]) as running:
        yield running


@pytest.fixture
def patient(fresh):
    """A stack with long ones: what ends sooner on it ends for another reason."""
    long = ["--http.head_timeout", "10m", "--http.body_timeout", "10m", "--http.idle_timeout", "1h"]

    def make(*more, platform=()):
        return fresh(engine=[*long, "--reactors", "1", *more], platform=[*long, *platform]).start()
    return make


def test_a_slow_head_is_408(hasty, patient):
    slow = b"GET /livez HTTP/1.1\r\nHo"
    with patient().at_engine() as other, hasty.at_engine() as wire:
        other.send(slow)
        wire.send(slow)
        reply = wire.read_reply()
        assert reply.status == 408 and reply.json["code"] == "request_timeout"
        assert wire.is_closed_by_server()
        assert not select.select([other.socket], [], [], 0)[0], "its time is what its program was told"


def test_a_trickling_head_is_408_all_the_same(hasty):
    with hasty.at_engine(timeout=0.1) as wire:
        wire.send(b"GET /livez HTTP/1.1\r\nHost: a\r\nX: ")
        deadline = time.monotonic() + harness.PATIENCE
        while time.monotonic() < deadline:
            try:
                wire.send(b"a")
                if wire.read_reply().status == 408:
                    return
            except socket.timeout:
                continue
        raise AssertionError("a byte now and then keeps the head open for ever")


def test_a_slow_body_is_408(hasty):
    with hasty.at_engine() as wire:
        wire.send(post(authorized(hasty, "Content-Length: 100"), b"{"))
        reply = wire.read_reply()
        assert reply.status == 408 and reply.json["code"] == "request_timeout" and wire.is_closed_by_server()


def test_an_idle_connection_is_closed_without_a_word(hasty):
    with hasty.at_engine() as wire:
        assert wire.get("/livez").status == 200
        assert wire.is_closed_by_server() and wire.buffer == b""


def test_a_client_that_keeps_silent_makes_room_for_a_new_one(patient):
    """Eight connections (and one for each reactor) are all there are; each of these stays open after its answer."""
    stack, held = patient("--http.connections", "8"), []
    try:
        for number in range(20):
            held.append(stack.at_engine())
            assert held[-1].get("/livez").status == 200, number
        assert held[0].is_closed_by_server() and held[-1].get("/livez").status == 200
        harness.eventually(lambda: stack.metrics(stack.engine)["writ_engine_connections_closed_for_room_total"] >= 10,
                           "it is counted who was closed")
    finally:
        for wire in held:
            wire.close()


@pytest.mark.parametrize("program, request_line", [("engine", "GET /livez"), ("engine", "POST /api/v1/keys"),
                                                   ("platform", "GET /livez"), ("platform", "POST /v1/agent/authorize")])
def test_bodies_that_nobody_known_sends_keep_no_place(patient, program, request_line):
    """Neither a public path nor one that is forwarded asks for a credential before the body is there."""
    few = ["--http.connections", "8"]
    stack = patient(*few, platform=few)
    at = stack.at_engine if program == "engine" else stack.at_platform
    begun = f"{request_line} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{"
    held = []
    try:
        for _ in range(40):
            held.append(at().open())
            with contextlib.suppress(OSError):  # who is one too many may be let go before it has said anything
                held[-1].send(begun.encode())

        def placed():
            """Everybody has a second to come to its end, from when it was seen."""
            one = at("admin")
            with contextlib.suppress(harness.Closed, OSError):
                if (reply := one.post("/v1/actors/bot/suspend", {})).status == 200:
                    return one
                assert (reply.status, reply.json["code"]) == (503, "overloaded"), reply
            one.close()
        for _ in range(6):
            held.append(harness.eventually(placed, "there is room"))
    finally:
        for wire in held:
            wire.close()


def test_a_trace_of_large_events_is_told_through_the_engine_and_by_the_command_line(stack):
    """500 events, each with as much in it as a record takes."""
    with stack.at_engine() as wire:
        for _ in range(500):
            reply = wire.post(AGENT, {"action": "get_x", "trace_id": "large-trace", "args": {"text": "a" * 58000}})
            assert reply.status == 200, reply
    stack.wait_published()
    with stack.at_engine("auditor") as wire:
        reply = wire.get("/api/v1/audit/trace/large-trace")
    assert reply.status == 200, reply
    assert len(reply.body) > 8 << 20 and reply.json["count"] < 500 and reply.json["next_cursor"] > 0
    done = stack.cli("audit", "trace", "large-trace", "--platform", stack.platform.url, key=stack.keys["auditor"])
    assert done.stdout.count("large-trace") == 0 and len(re.findall(r"allow:", done.stdout)) == 500


def test_large_bodies_for_a_platform_that_is_silent_are_bounded(fresh):
    """Each reactor of an engine copies 64 MiB of them at most."""
    stack = fresh().start()
    body = b'{"kind":"' + b"a" * (7 << 20) + b'"}\n'
    request = (f"POST /api/v1/audit/ingest HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n"
               f"Authorization: Bearer {stack.keys['engine']}\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body
    most = 9 * int(harness.REACTORS)
    sockets = []
    stack.platform.signal(signal.SIGSTOP)
    try:
        for _ in range(most + 1):
            sockets.append(socket.create_connection(stack.engine.address))
            sockets[-1].sendall(request)
        ready, _, _ = select.select(sockets, [], [], harness.PATIENCE)
        assert ready and b"the forwarded requests that are under way hold 64 MiB already" in ready[0].recv(4096)
        with stack.at_engine() as wire:
            assert wire.post(AGENT, {"action": "get_x"}).status == 200
    finally:
        stack.platform.signal(signal.SIGCONT)
    for one in sockets:
        one.settimeout(harness.PATIENCE)
        assert one in ready or one.recv(12) in (b"HTTP/1.1 413", b"HTTP/1.1 503")
        one.close()


@pytest.mark.parametrize("through", ["platform", "engine"])
def test_large_answers_that_nobody_reads_leave_room_for_others(fresh, through):
    """Each of these pages has 8 MiB; what all clients of a reactor together may leave unread is bounded."""
    patient = ["--http.write_timeout", "10m"]  # no client is closed for being slow: a slow machine would make room
    stack = fresh(engine=["--reactors", "1", *patient], platform=patient).start()
    allow = "rules:\n  - {id: all, agents: ['*'], actions: ['*'], decision: allow}\n"
    stack.policy("base", allow)
    with stack.at_engine() as wire:
        for _ in range(160):
            assert wire.post(AGENT, {"action": "get_x", "trace_id": "held", "args": {"text": "a" * 58000}}).status == 200
    stack.wait_published()
    at = stack.at_platform if through == "platform" else stack.at_engine

    def ask():
        with at("auditor") as wire:
            return wire.get("/api/v1/audit/trace/held")

    whole = ask()
    assert whole.status == 200 and len(whole.body) > 8 << 20
    silent = []
    for _ in range(60):
        wire = at("auditor")
        wire.send(wire.encode("GET", "/api/v1/audit/trace/held"))
        silent.append(wire)
    harness.eventually(lambda: len(select.select([wire.socket for wire in silent], [], [], 0)[0]) == len(silent), "all are answered")
    refused = ask().json
    assert refused["code"] == "overloaded" and "do not read" in refused["error"]
    with at("auditor") as wire:
        assert wire.get("/api/v1/audit/trace/none").status == 200  # small ones go on
    stack.policy("base", allow + "  - {id: more, actions: [more], decision: deny}\n")  # and the bundle, which waits until it is followed
    for wire in silent:
        wire.close()
    harness.eventually(lambda: ask().status == 200, "there is room again")
    assert ask().body == whole.body


def test_an_engine_stops_well_while_waiting_clients_vanish(fresh):
    """Each with decisions before its wait, whose answers find nobody just when the waits end, too."""
    stack = fresh().start()
    stack.policy("base", "rules:\n  - {id: r, actions: [pay], decision: human_review}\n")
    for after in (0.002, 0.005, 0.008):
        with stack.at_engine() as wire:
            reviews = [wire.post(AGENT, {"action": "pay", "actor": f"{after}-{i}"}).json["review_id"] for i in range(8)]
        vanishing = [stack.at_engine().open() for _ in range(200)]
        for i, wire in enumerate(vanishing):
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close() resets
            wire.send(wire.encode("POST", AGENT, BODY) * 6 + wire.encode("GET", f"/v1/queue/{reviews[i % 8]}/wait"))
        stop = threading.Timer(after, stack.engine.signal, [signal.SIGTERM])
        stop.start()
        for wire in vanishing:
            wire.close()
        stop.join()
        assert stack.engine.wait() == 0, stack.engine.tail()
        stack.engine.start()


def test_who_waits_through_a_platform_that_stops_is_told(fresh):
    stack = fresh().start()
    stack.policy("base", "rules:\n  - {id: r, actions: [pay], decision: human_review}\n")
    with stack.at_platform() as wire:
        review = wire.post(AGENT, {"action": "pay"}, headers={"Authorization": f"Bearer {stack.keys['agent']}"}).json["review_id"]
    with stack.at_platform("agent") as wire:
        wire.send(wire.encode("GET", f"/v1/queue/{review}/wait?timeout_ms=60000", headers={"X-Request-ID": "abc-123"}))
        harness.eventually(lambda: stack.metrics(stack.engine)["writ_engine_waits"] == 1, "the engine has the wait")
        stack.platform.stop()
        reply = wire.read_reply()
    assert reply.status == 503 and reply.json["code"] == "draining", reply
    assert (reply.header("retry-after"), reply.header("connection"), reply.header("x-request-id")) == ("1", "close", "abc-123")


def test_who_waits_through_the_platform_leaves_others_their_connections(fresh):
    """Of 40 connections all forwarded waits have 30, and those with one credential 20."""
    stack = fresh(platform=["--http.connections", "40"]).start()
    stack.policy("base", "rules:\n  - {id: r, actions: [pay], decision: human_review}\n")
    second = stack.key("second", ["agent"], actors=["*"])
    opened = []

    def wait(key):
        with stack.at_engine(key) as wire:
            review = wire.post(AGENT, {"action": "pay"}).json["review_id"]
        wire = stack.at_platform(key, timeout=60).open()
        opened.append(wire)
        wire.send(wire.encode("GET", f"/v1/queue/{review}/wait?timeout_ms=60000"))
        return wire

    def all_wait(count):
        harness.eventually(lambda: stack.metrics(stack.engine)["writ_engine_waits"] == count, f"{count} wait")

    def is_refused(wire, why):
        reply = wire.read_reply()
        assert (reply.status, reply.json["code"], reply.json["error"]) == (503, "overloaded", why), reply

    try:
        for _ in range(20):
            wait("agent")
        all_wait(20)
        is_refused(wait("agent"), "20 forwarded requests wait with this credential already")
        for _ in range(10):
            wait(second)
        all_wait(30)
        is_refused(wait(second), "30 forwarded requests are under way already")
        with stack.at_platform("auditor") as wire:
            assert wire.get("/api/v1/audit").status == 200
    finally:
        for wire in opened:
            wire.close()


@pytest.mark.parametrize("rest, status", [(b"2\r\n{x}\r\n", b"400"), (b"100000\r\n" + b"a" * 70000, b"413"), (b"5\r\n{", b"408")], ids=["no chunk", "too large", "too slow"])
def test_a_body_that_ends_badly_is_answered_under_its_request_id(fresh, rest, status):
    stack = fresh(engine=["--http.body_timeout", "300ms" if status == b"408" else "10m"]).start()
    with stack.at_engine() as wire:
        wire.open()
        wire.send(post(authorized(stack, "Transfer-Encoding: chunked\r\nX-Request-ID: abc-123"), rest))
        reply = wire.read_reply()
    assert str(reply.status).encode() == status and reply.header("x-request-id") == "abc-123", reply


def test_what_is_forwarded_leaves_others_their_connections(fresh):
    """Of 40 connections those that read through the platform have 32, with whatever credential or none."""
    stack = fresh(platform=["--http.connections", "40"]).start()
    opened = []
    stack.engine.signal(signal.SIGSTOP)
    try:
        for _ in range(33):
            wire = stack.at_platform(None, timeout=60).open()
            opened.append(wire)
            wire.send(wire.encode("GET", "/v1/queue"))
        (refused,) = harness.eventually(lambda: [wire for wire in opened if select.select([wire.socket], [], [], 0)[0]], "one is too much")
        reply = refused.read_reply()
        assert (reply.status, reply.json["error"]) == (503, "32 forwarded requests are under way already"), reply
        with stack.at_platform("auditor") as wire:
            assert wire.get("/api/v1/audit").status == 200
    finally:
        stack.engine.signal(signal.SIGCONT)
        for wire in opened:
            wire.close()


def test_engines_that_wait_for_news_leave_others_their_connections(fresh):
    """Of 40 connections they have 30, of which the stack's own engine may have one."""
    stack = fresh(platform=["--http.connections", "40"]).start()
    with stack.at_platform("engine") as wire:
        known = {"If-None-Match": wire.get("/api/v1/bundle").header("etag")}
    opened = []
    try:
        for _ in range(34):
            wire = stack.at_platform("engine", timeout=60).open()
            opened.append(wire)
            wire.send(wire.encode("GET", "/api/v1/bundle?wait=60", headers=known))

        def answered():
            return [wire for wire in opened if select.select([wire.socket], [], [], 0)[0]]

        harness.eventually(lambda: len(answered()) >= 4, "four are too much")
        statuses = [wire.read_reply().status for wire in answered()]
        assert len(statuses) <= 5 and set(statuses) == {304}, statuses
        with stack.at_platform("auditor") as wire:
            assert wire.get("/api/v1/audit").status == 200
    finally:
        for wire in opened:
            wire.close()


def test_a_unix_socket_serves_as_tcp_does(fresh, tmp_path):
    path = tmp_path / "engine.sock"
    stack = fresh(engine=["--listen.unix", str(path)])
    stack.start()
    with Wire(str(path), stack.keys["agent"]) as wire:
        reply = wire.post(AGENT, {"action": "get_x"})
    assert reply.status == 200
    assert oct(path.stat().st_mode & 0o777) == "0o660"
    stack.trace(reply.json["trace_id"])
    stack.engine.stop()
    assert not path.exists(), "a clean stop takes its socket away"


def test_a_unix_sockets_path_needs_no_slash(fresh, tmp_path):
    """A path is a path, whatever else it could be."""
    name = f"localhost:{harness.free_port()}"
    stack = fresh(engine=["--listen.unix", name], engine_prefix=["env", "-C", str(tmp_path)])
    stack.start()
    with Wire(str(tmp_path / name), stack.keys["agent"]) as wire:
        assert wire.post(AGENT, {"action": "get_x"}).status == 200
