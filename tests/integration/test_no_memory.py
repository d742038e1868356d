"""No memory is to be had: a preload lets the programs' own calls of malloc() fail (no_memory.c), some of them or all.

Whatever finds none, its request is refused as overloaded, which clients repeat; nothing is let through that would be denied
otherwise, no program ends, and all is as before once there is memory again.
"""

import mmap
import struct

import pytest

import harness
from harness import BUILD, eventually
from preload import preload
from wire import Closed, Wire

AGENT = "/v1/agent/authorize"
POLICY = r"""
mask: [args.**.secret]
rules:
  - {id: reads, agents: ["*"], actions: ["get_*"], decision: allow, when: "args.n < 3 && !args.text.matches('^drop')"}
  - {id: counted, agents: ["*"], actions: ["count"], decision: allow, limit: {per: actor, window: 1h, count: 1000000}}
  - {id: refunds, agents: ["*"], actions: ["refund"], decision: human_review, reason: "Refunds of ${args.n} need a person."}
  - {id: none, agents: ["*"], actions: ["drop_*"], decision: deny}
"""
OTHER = """
rules:
  - {id: other-%d, agents: [nobody], actions: ["other_*"], decision: allow, when: "args.text.matches('^a+b') && args.n in [1, 2]"}
"""
ALL = 65536


class Memory:
    def __init__(self, path):
        self.path = path
        path.write_bytes(bytes(12))
        with path.open("r+b") as file:
            self.words = mmap.mmap(file.fileno(), 12)
        self.environment = {"LD_PRELOAD": preload(BUILD / "tests" / "libno_memory.so"), "NO_MEMORY_FILE": str(path),
                            "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"}

    def fail(self, of_65536, from_bytes=0):
        self.words[4:8] = struct.pack("I", from_bytes)
        self.words[0:4] = struct.pack("I", of_65536)

    @property
    def failed(self):
        return struct.unpack("I", self.words[8:12])[0]


class Asker:
    """Sends requests whose answers are known; counts those that there was no memory for."""

    def __init__(self):
        self.served = self.refused = self.closed = 0
        self.wires = {}

    def ask(self, address, key, method, path, body=None, expected=(200,), **more):
        wire = self.wires.get((address, key))
        if wire is None:
            wire = self.wires[address, key] = Wire(address, key)
        try:
            if wire.socket is None:
                wire.open()
            reply = wire.request(method, path, body=body, **more)
        except (Closed, OSError):
            wire.close()
            self.closed += 1
            return None
        if reply.header("connection") == "close":
            wire.close()
        if reply.status == 503:
            assert reply.body, (method, path, reply)
            assert reply.json["code"] in ("overloaded", "store_unavailable") and reply.header("retry-after") == "1", (path, reply)
            self.refused += 1
            return None
        assert reply.status in expected, (method, path, str(body)[:200], reply)
        self.served += 1
        return reply.json if reply.body[:1] == b"{" else None


def large(n, size=30_000):
    return {"action": "get_x", "actor": f"bot-{n}", "args": {"n": 1, "text": "é\n" * (size // 8), "secret": {"secret": "x"},
                                                           **{f"m{i}": i for i in range(60)}}}


def story(stack, asker, n):
    """One of all kinds of requests."""
    engine, platform = stack.engine.address, stack.platform.address

    def at_engine(key, method, path, body=None, **more):
        return asker.ask(engine, stack.keys.get(key, key), method, path, body, **more)

    def at_platform(key, method, path, body=None, **more):
        return asker.ask(platform, stack.keys.get(key, key), method, path, body, **more)
    answer = at_engine("agent", "POST", AGENT, large(n))
    assert answer is None or answer["decision"] == "allow", str(answer)
    for action, args, decision in (("get_x", {"n": 7, "text": ""}, "deny"), ("get_x", {"n": 1, "text": "drop"}, "deny"),
                                   ("drop_x", {"n": 1}, "deny"), ("get_x", {"n": 1, "text": "x"}, "allow"),
                                   ("count", {"secret": "y"}, "allow"), ("nothing", {}, "deny")):
        body = {"action": action, "actor": f"bot-{n}", "args": args}
        for query in ("", "?dry_run=true", "?explain=true"):
            answer = at_engine("agent" if query == "" else "admin", "POST", AGENT + query, body)
            assert answer is None or answer["decision"] == decision, (body, answer)
            assert answer is None or "not enough memory" not in str(answer), answer
    asked = {"action": "refund", "actor": f"bot-{n}", "args": {"n": n}}
    answer = at_engine("agent", "POST", AGENT, asked)
    if answer is not None:
        assert answer["decision"] == "human_review"
        review = answer["review_id"]
        at_engine("agent", "GET", f"/v1/queue/{review}")
        done = at_engine("reviewer", "POST", f"/v1/queue/{review}/approve", expected=(200, 409))
        answer = at_engine("agent", "POST", f"/v1/queue/{review}/redeem", asked, headers={"Idempotency-Key": f"k{n}"})
        assert answer is None or done is None or answer["allowed"] is True or answer["rule"] == "review:redeemed", answer
    token = at_engine("agent", "POST", "/v1/tokens/mint", {"scope": "get_*", "actor": f"bot-{n}", "ttl_seconds": 3600}, expected=(201,))
    if token is not None:
        answer = at_engine(token["token"], "POST", AGENT, {"action": "get_x", "args": {"n": 1, "text": ""}})
        assert answer is None or answer["decision"] == "allow", str(answer)
        gone = at_engine("agent", "DELETE", f"/v1/tokens/{token['token_id']}")
        answer = at_engine(token["token"], "POST", AGENT, {"action": "get_x", "args": {"n": 1, "text": ""}}, expected=(200, 401))
        assert gone is None or answer is None or "code" in answer, "a revoked token lives"
    stopped = at_engine("admin", "POST", f"/v1/actors/St%C3%B6pped-{n}/suspend", {"reason": "odd"})
    answer = at_engine("agent", "POST", AGENT, {"action": "get_x", "actor": f"stÖpped-{n}", "args": {"n": 1, "text": ""}})
    assert stopped is None or answer is None or answer["rule"] == "actor:suspended", answer
    for key, path in (("reviewer", "/v1/queue?limit=50"), ("admin", "/v1/tokens?limit=50"), ("admin", "/v1/actors?limit=50")):
        at_engine(key, "GET", path)
    at_engine(None, "GET", "/healthz")
    at_engine("admin", "GET", "/metrics", expected=(200, 403))
    for path in ("/api/v1/audit?limit=20", "/api/v1/policies", "/api/v1/keys?limit=20"):
        at_engine("admin", "GET", path, expected=(200, 403, 502))
        at_platform("admin", "GET", path)
    at_platform("admin", "PUT", f"/api/v1/policies/p{n % 3}", {"content": OTHER % n}, expected=(200, 201))
    at_platform("admin", "POST", "/api/v1/keys", {"name": f"k-{n}", "owner": "o", "roles": ["agent"]}, expected=(201,))
    at_platform(None, "GET", "/healthz")


@pytest.mark.parametrize("who", ["engine", "platform"])
def test_what_finds_no_memory_is_overloaded_and_nothing_else_happens(tmp_path, who):
    memory = Memory(tmp_path / "memory")
    stack = harness.Stack(tmp_path / "s", **{f"{who}_environment": memory.environment})
    try:
        stack.start()
        stack.policy("base", POLICY)
        stack.keys["reviewer"] = stack.key("rita", ["reviewer"], owner="rita", reviewers=["*"])
        before = Asker()
        story(stack, before, 0)
        story(stack, before, 1)
        assert before.refused == before.closed == 0 and memory.failed == 0
        program = getattr(stack, who)
        pid = program.pid
        for of, from_bytes, rounds in ((ALL, 100_000, 2), (ALL, 4_000, 2), (30_000, 0, 6), (6_000, 0, 6), (1_000, 0, 8)):
            asker = Asker()
            memory.fail(of, from_bytes)
            for n in range(200):  # records for one large batch
                asker.ask(stack.engine.address, stack.keys["agent"], "POST", AGENT, {"action": "nothing", "actor": "crowd"})
            for n in range(rounds):
                story(stack, asker, n + 2)
            print(who, of, from_bytes, asker.served, asker.refused, asker.closed, memory.failed)
            memory.fail(0)
            assert program.process.poll() is None and program.pid == pid, program.tail()
        number = iter(range(100, 200))

        def all_is_as_before():
            after = Asker()
            story(stack, after, next(number))
            return after.refused == after.closed == 0
        eventually(all_is_as_before, "all is as before once there is memory again")
        stack.wait_published()
        stack.engine.stop()
        stack.platform.stop()
    finally:
        stack.close()
