"""Where a refused credential came from is in its record and in the log: the connection's address, or the client's that a
trusted proxy names, and nobody else's word."""

import json

import pytest

import harness
from wire import Wire

AGENT = "/v1/agent/authorize"
UNKNOWN_KEY = "wk_01JD0000000000000000000000_" + "A" * 43


def refused_from(stack, program, lines=(), address=None, before=b"", key=UNKNOWN_KEY, status=401):
    """One request with that credential; `lines` are more headers, `before` is sent ahead of it."""
    head = [f"Authorization: Bearer {key}", "Content-Type: application/json", "Content-Length: 14", *lines]
    path = AGENT if program is stack.engine else "/api/v1/keys"
    with Wire(address or program.address) as wire:
        wire.send(before + f"POST {path} HTTP/1.1\r\nHost: a\r\n".encode() + "".join(f"{line}\r\n" for line in head).encode() +
                  b'\r\n{"action":"x"}')
        reply = wire.read_reply()
        assert reply.status == status, reply
        return reply


def recorded(stack, known, kind="auth.failed"):
    """The one record of that kind that is not among `known`, and its line in the log."""
    def new():
        return [event for event in stack.events(kind=kind) if event["event_id"] not in known]
    (event,) = harness.eventually(new, f"a record {kind}")
    known.add(event["event_id"])
    return event


def logged(program, name):
    return [line for line in map(json.loads, program.log.read_text().splitlines()) if line.get("event") == name]


@pytest.fixture
def proxied(fresh, tmp_path):
    sockets = {name: tmp_path / f"{name}.sock" for name in ("engine", "platform")}

    def make(*options):
        stack = fresh(**{name: ["--listen.unix", str(path), *options] for name, path in sockets.items()})
        stack.sockets = sockets
        return stack.start()
    return make


@pytest.mark.parametrize("name", ["engine", "platform"])
def test_a_refused_credential_is_recorded_with_where_it_came_from(proxied, name):
    stack, known = proxied(), set()
    program = getattr(stack, name)
    refused_from(stack, program, ["X-Forwarded-For: 203.0.113.9"])
    event = recorded(stack, known)
    assert event["client_address"] == "127.0.0.1" and event["count"] == 1
    refused_from(stack, program, ["X-Forwarded-For: 203.0.113.9"], address=stack.sockets[name])
    assert recorded(stack, known)["client_address"] == "unix"
    lines = logged(program, "auth_failed")
    assert [line["client_address"] for line in lines] == ["127.0.0.1", "unix"]
    assert UNKNOWN_KEY not in program.log.read_text()


@pytest.mark.parametrize("name", ["engine", "platform"])
def test_a_trusted_proxy_names_its_client(proxied, name):
    stack, known = proxied("--http.trusted_proxies", "127.0.0.0/8, unix"), set()
    program = getattr(stack, name)
    refused_from(stack, program, ["X-Forwarded-For: 198.51.100.1, 203.0.113.9, 127.0.0.2"])
    assert recorded(stack, known)["client_address"] == "203.0.113.9"
    refused_from(stack, program, ["X-Forwarded-For: [2001:db8::1]:443"], address=stack.sockets[name])
    assert recorded(stack, known)["client_address"] == "2001:db8::1"
    reply = refused_from(stack, program, ["X-Forwarded-For: localhost"], status=400)
    assert reply.json["code"] == "bad_request" and "X-Forwarded-For" in reply.json["error"]


@pytest.mark.parametrize("name", ["engine", "platform"])
def test_a_proxy_header_names_the_client(proxied, name):
    stack, known = proxied("--http.trusted_proxies", "unix", "--http.proxy_protocol", "true"), set()
    program, path = getattr(stack, name), stack.sockets[name]
    one = b"PROXY TCP4 203.0.113.9 10.0.0.1 40000 443\r\n"
    two = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24" + bytes.fromhex("20010db8" + "0" * 23 + "1" + "0" * 32 + "9c4001bb")
    for before, client in ((one, "203.0.113.9"), (two, "2001:db8::1")):
        refused_from(stack, program, address=path, before=before)
        assert recorded(stack, known)["client_address"] == client
    reply = refused_from(stack, program, address=path, status=400)
    assert "PROXY header" in reply.json["error"] and "http.proxy_protocol" in reply.json["error"]
    refused_from(stack, program, before=one, status=501)  # from whom nobody awaits one


def test_the_record_of_a_refused_token_has_it_too(proxied):
    stack, known = proxied(), set()
    with stack.at_engine() as wire:
        token = wire.post("/v1/tokens/mint", {"actor": "bot", "scope": "*", "ttl_seconds": 600}).json
        assert wire.delete(f"/v1/tokens/{token['token_id']}").status == 200
    refused_from(stack, stack.engine, key=token["token"])
    event = recorded(stack, known, "token.rejected")
    assert event["client_address"] == "127.0.0.1" and event["token_id"] == token["token_id"]
    assert [line["client_address"] for line in logged(stack.engine, "token_rejected")] == ["127.0.0.1"]


def test_many_addresses_are_one_source_and_the_record_says_so(proxied):
    """A flood costs a record a second and not one for each address that sends it."""
    stack, known = proxied("--http.trusted_proxies", "127.0.0.1"), set()
    for number in range(200):
        refused_from(stack, stack.engine, [f"X-Forwarded-For: 203.0.113.{number}"])
    harness.eventually(lambda: sum(e["count"] for e in stack.events(kind="auth.failed")) == 200, "all are recorded")
    events = stack.events(kind="auth.failed")
    harness.assert_told_once_a_second(events, int(harness.REACTORS))
    for event in events:
        assert event["client_address"].startswith("203.0.113.")
        assert ("several addresses" in event["reason"]) == (event["count"] > 1), event


@pytest.mark.parametrize("trusts, client", [(True, "203.0.113.9"), (False, "127.0.0.1")])
def test_a_forwarded_request_brings_its_client_along_to_a_program_that_trusts_the_other(fresh, trusts, client):
    proxies = ["--http.trusted_proxies", "127.0.0.1"]
    stack = fresh(engine=proxies, platform=proxies if trusts else ()).start()
    with Wire(stack.engine.address) as wire:
        wire.send(f"GET /api/v1/policies HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.9\r\nAuthorization: Bearer {UNKNOWN_KEY}\r\n\r\n".encode())
        assert wire.read_reply().status == 401
    assert recorded(stack, set())["client_address"] == client


@pytest.mark.parametrize("value", ["10.0.0.1/8", "a.example", "10.0.0.0/33"])
def test_a_list_of_proxies_that_is_none_ends_the_start(proxied, value):
    with pytest.raises(AssertionError, match="ended with 2") as refused:
        proxied("--http.trusted_proxies", value)
    assert "http.trusted_proxies" in str(refused.value) and value in str(refused.value)
