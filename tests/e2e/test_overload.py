"""More requests than an engine can handle, and credentials that are false: what is refused, what waits, and what never does."""

import contextlib
import json
import select
import socket
import threading
import time

import pytest

import harness
from wire import Closed, Wire

AGENT = "/v1/agent/authorize"
BODY = {"actor": "bot", "action": "get_invoice"}
POLICY = """
rules:
  - {id: reads, agents: ["*"], actions: [get_invoice], decision: allow}
  - {id: refunds, agents: ["*"], actions: [refund], decision: human_review}
"""


def request(key, body, *lines, path=AGENT):
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"POST {path} HTTP/1.1", "Host: a", f"Authorization: Bearer {key}", "Content-Type: application/json", *lines]
    if not any(line.startswith("Transfer-Encoding") for line in lines):
        head.append(f"Content-Length: {len(text)}")
    return "\r\n".join([*head, "", ""]).encode() + text


class Flood:
    """Clients that never wait for an answer before they send the next request."""

    def __init__(self, stack, clients=3):
        self.stack, self.statuses, self.wrong, self.over = stack, {}, [], threading.Event()
        block = 100 * request(stack.keys["agent"], BODY)
        self.wires = [Wire(stack.engine.address).open() for _ in range(clients)]
        self.threads = [threading.Thread(target=run, args=(wire, *more), daemon=True)
                        for wire in self.wires for run, more in ((self.send, (block,)), (self.read, ()))]

    def send(self, wire, block):
        with contextlib.suppress(OSError):
            while not self.over.is_set():
                wire.socket.sendall(block)

    def read(self, wire):
        with contextlib.suppress(OSError, Closed):
            while not self.over.is_set():
                reply = wire.read_reply()
                self.statuses[reply.status] = self.statuses.get(reply.status, 0) + 1
                is_refusal = reply.status == 503 and reply.header("Retry-After") and "more requests arrive" in reply.json["error"]
                if reply.status != 200 and not is_refusal:
                    self.wrong.append(reply)

    def __enter__(self):
        for one in self.threads:
            one.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for wire in self.wires:
            wire.socket.shutdown(socket.SHUT_RDWR)
        for one in self.threads:
            one.join()

    def refused(self):
        return self.stack.metrics(self.stack.engine)['writ_engine_refused_total{reason="overload"}']

    def goes_on(self):
        """Until further requests were refused."""
        before = self.refused()
        harness.eventually(lambda: self.refused() > before, "the engine refuses requests")


def test_votes_and_what_stops_something_come_through_an_overload(fresh):
    stack = fresh(engine=["--reactors", "1", "--overload.delay", "1ms"]).start()
    stack.policy("base", POLICY)
    reviewer = stack.key("rita", ["reviewer"], reviewers=["*"])
    with stack.at_engine("agent") as wire:
        token = wire.post("/v1/tokens/mint", {"actor": "bot", "scope": "*"}).json
        first, second = (wire.post(AGENT, {"actor": "bot", "action": "refund", "args": {"n": n}}).json["review_id"] for n in (1, 2))
    with Flood(stack) as flood:
        flood.goes_on()
        with stack.at_engine(reviewer) as wire:
            assert wire.post(f"/v1/queue/{first}/approve").status == 200
            flood.goes_on()
            assert wire.post(f"/v1/queue/{second}/deny").status == 200
        with stack.at_engine("agent") as wire:
            flood.goes_on()
            assert wire.delete(f"/v1/tokens/{token['token_id']}").status == 200
        with stack.at_engine("admin") as wire:
            flood.goes_on()
            assert wire.post("/v1/actors/bot/suspend").status == 200
            flood.goes_on()
            health = wire.get("/healthz").json
            assert health["status"] == "degraded" and "some are refused" in health["checks"]["load"], health
    assert set(flood.statuses) == {200, 503} and not flood.wrong, (flood.statuses, flood.wrong[:3])
    with stack.at_engine("agent") as wire:
        reply = harness.eventually(lambda: (answer := wire.post(AGENT, BODY)).status == 200 and answer, "the overload ends")
        assert reply.json["rule"] == "actor:suspended"


@pytest.fixture
def guarded(fresh, tmp_path):
    path = tmp_path / "engine.sock"
    stack = fresh(engine=["--reactors", "1", "--listen.unix", str(path), "--http.trusted_proxies", "127.0.0.2"]).start()
    stack.policy("base", POLICY)
    stack.path = path
    with stack.at_engine("agent") as wire:
        token = wire.post("/v1/tokens/mint", {"actor": "bot", "scope": "*"}).json["token"]
    stack.false = token[:-12] + "A" * 10 + token[-2:]
    return stack


def counted(stack, name, program="engine"):
    return stack.metrics(getattr(stack, program))[f"writ_{program}_strangers_{name}_total"]


def policies(credential):
    return f"GET /api/v1/policies HTTP/1.1\r\nHost: writ\r\nAuthorization: Bearer {credential}\r\n\r\n".encode()


@pytest.mark.parametrize("over", ["tcp", "unix", "platform"])
def test_a_connection_with_false_credentials_waits_and_then_ends(guarded, over):
    """Its check of /healthz is not ok meanwhile."""
    program = "platform" if over == "platform" else "engine"
    address = guarded.path if over == "unix" else getattr(guarded, program).address
    asks = policies if over == "platform" else lambda credential: request(credential, BODY)
    false = "wk_" + "A" * 77 if over == "platform" else guarded.false
    good = guarded.keys["admin" if over == "platform" else "agent"]
    waited, closed = counted(guarded, "waited", program), counted(guarded, "closed", program)
    with Wire(getattr(guarded, program).address) as wire:
        assert wire.get("/healthz").json["checks"]["credentials"] == "ok"
    with Wire(address) as wire:
        for number in range(12):
            wire.open()
            wire.send(asks(false))
            reply = wire.read_reply()
            assert reply.status == 401, reply
            assert (reply.header("Connection") == "close") == (number == 11), (number, reply)
        assert wire.socket.recv(1) == b""
    with Wire(getattr(guarded, program).address) as wire:
        assert "slowed" in wire.get("/healthz").json["checks"]["credentials"]
    assert counted(guarded, "waited", program) >= waited + 7 and counted(guarded, "closed", program) == closed + 1
    with Wire(address) as wire:
        wire.open()
        wire.send(asks(good))
        assert wire.read_reply().status == 200


def test_a_slowed_request_that_cannot_wait_is_refused(guarded):
    with Wire(guarded.engine.address) as wire:
        wire.open()
        for _ in range(5):
            wire.send(request(guarded.false, BODY))
            assert wire.read_reply().status == 401
        wire.send(request(guarded.false, b"2\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked"))
        reply = wire.read_reply()
        assert reply.status == 503 and reply.json["code"] == "overloaded" and reply.header("Retry-After"), reply
        assert "unknown credentials" in reply.json["error"]
    assert guarded.metrics(guarded.engine)['writ_engine_refused_total{reason="strangers"}'] == 1


def test_behind_a_proxy_the_client_is_slowed_and_not_its_neighbours(guarded):
    """Clients of one /64 are one source. All come by the proxy's connections, which stay."""
    def connection():
        wire = Wire(guarded.engine.address)
        wire.socket = socket.create_connection(guarded.engine.address, wire.timeout, source_address=("127.0.0.2", 0))
        return wire

    with connection() as first, connection() as second:
        for number in range(23):
            begun = time.monotonic()
            first.send(request(guarded.false, BODY, f"X-Forwarded-For: 2001:db8::{number + 1:x}"))
            reply = first.read_reply()
            assert reply.status == 401 and reply.header("Connection") is None, reply
        assert counted(guarded, "waited") >= 3
        first.send(request(guarded.false, BODY, "X-Forwarded-For: 2001:db8::ffff"))
        second.send(request(guarded.false, BODY, "X-Forwarded-For: 2001:db8:0:1::1"))
        readable, _, _ = select.select([first.socket, second.socket], [], [], second.timeout)
        assert second.socket in readable
        # The seventh delay is 1,280 ms from the last answer. On a machine that stood still for as long, nothing is seen.
        assert first.socket not in readable or time.monotonic() - begun > 1.2
        assert second.read_reply().status == 401 and first.read_reply().status == 401
        first.send(request(guarded.keys["agent"], BODY, "X-Forwarded-For: 2001:db8::1"))
        assert first.read_reply().status == 200
