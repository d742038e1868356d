"""Policies replaced under load: nobody sees half of one, nobody waits for one, nobody goes back.

Each version of the document decides the same action in its own way and says its number, so that an
answer tells in four places (decision, reason, version, digest) by which version it was made.
"""

import hashlib
import threading
import time

import harness
import pytest

CONNECTIONS, THREADS = 64, 4
SECONDS = 30.0 if harness.LONG else 5.0
RULES_OF_OTHERS = 3000


def document(version):
    """Odd versions allow, even ones deny; the many rules of others make it worth compiling."""
    decision = "allow" if version % 2 else "deny"
    others = "".join(f'  - {{id: o{n}, agents: [nobody], actions: ["x{n}_*"], decision: allow}}\n' for n in range(RULES_OF_OTHERS))
    return (f"rules:\n{others}"
            f'  - {{id: says, agents: ["*"], actions: [get_x], decision: {decision}, reason: {decision} by an {("even", "odd")[version % 2]} one}}\n')


def set_digest(name, text):
    """Of a tenant with this one document (policy.md, evaluation 8)."""
    return hashlib.sha256(f"{name} {hashlib.sha256(text.encode()).hexdigest()}\n".encode()).hexdigest()


class Askers(threading.Thread):
    """A few connections, each with one request under way; what they were told."""

    def __init__(self, tenant, count, stopping):
        super().__init__()
        self.wires = [tenant.stack.at_engine(tenant.agent) for _ in range(count)]
        self.stopping, self.seen, self.wrong, self.newest = stopping, {}, [], [0] * count
        self.slowest = 0.0
        self.counted = 0

    def look(self, number, reply):
        if reply.status != 200:
            self.wrong.append(f"connection {number}: {reply}")
            return
        answer = reply.json
        version = answer["policy_version"]
        if version < self.newest[number]:
            self.wrong.append(f"connection {number} went back from {self.newest[number]} to {version}")
        self.newest[number] = version
        key = (version, answer["policy_digest"], answer["decision"], answer["reason"])
        self.seen[key] = self.seen.get(key, 0) + 1
        self.counted += 1

    def run(self):
        try:
            for wire in self.wires:
                wire.open()
            while not self.stopping.is_set() and not self.wrong:
                begun = time.monotonic()
                for wire in self.wires:
                    wire.send(wire.encode("POST", "/v1/agent/authorize", {"action": "get_x", "actor": "bot"}))
                for number, wire in enumerate(self.wires):
                    self.look(number, wire.read_reply("POST"))
                self.slowest = max(self.slowest, time.monotonic() - begun)
        except Exception as problem: # the main thread tells of it
            self.wrong.append(repr(problem))
        finally:
            for wire in self.wires:
                wire.close()


@pytest.fixture
def askers(tenant):
    """Sixty-four connections that ask until the test is over."""
    stopping = threading.Event()
    made = [Askers(tenant, CONNECTIONS // THREADS, stopping) for _ in range(THREADS)]
    yield made
    stopping.set()
    for one in made:
        if one.is_alive():
            one.join(harness.PATIENCE)


def put_until(tenant, until, texts, askers):
    """PUTs one text after the other, each once the last is live, three at least; how long each took to be."""
    version, live_after = 1, []
    while time.monotonic() < until or version < 4:
        version += 1
        reply = tenant.put("base", texts[version % 2])
        answered = time.monotonic()
        assert reply.status == 200 and reply.json["version"] == version, reply
        harness.eventually(lambda: tenant.ask("get_x")["policy_version"] == version, "it is live")
        live_after.append(time.monotonic() - answered)  # test_policies asks for the promised second
        harness.eventually(lambda: any(one.wrong or version in one.newest for one in askers), "somebody was told of it")
    return version, live_after


def test_policies_put_under_load_are_seen_whole_and_in_order(tenant, askers):
    texts = (document(0), document(1))
    digests = [set_digest("base", text) for text in texts]
    tenant.policy(texts[1])
    for one in askers:
        one.start()
    last, live_after = put_until(tenant, time.monotonic() + SECONDS, texts, askers)
    askers[0].stopping.set()
    for one in askers:
        one.join(harness.PATIENCE)
        assert not one.is_alive(), "a connection waits for its answer"
        assert not one.wrong, one.wrong[:3]
    told = {}
    for one in askers:
        for key, count in one.seen.items():
            told[key] = told.get(key, 0) + count
    for version, digest, decision, reason in told:
        odd = version % 2
        expected = (digests[odd], ("deny", "allow")[odd], f"{('deny', 'allow')[odd]} by an {('even', 'odd')[odd]} one")
        assert (digest, decision, reason) == expected, f"version {version} was seen with {digest, decision, reason}"
    assert {digest for _, digest, _, _ in told} == set(digests)
    assert max(version for version, *_ in told) == last, (last, live_after)
    print(f"{sum(told.values())} answers by {len(told)} of {last} versions on {CONNECTIONS} connections, none wrong; live after "
          f"{1000 * sorted(live_after)[len(live_after) // 2]:.0f} ms, {1000 * max(live_after):.0f} at most; "
          f"slowest round of {CONNECTIONS // THREADS} answers {1000 * max(one.slowest for one in askers):.0f} ms")


def test_what_is_asked_after_a_version_is_live_is_decided_by_it_on_every_reactor(tenant):
    """A second after the answer to a PUT no connection, old or new, is told of an older version."""
    texts = (document(0), document(1))
    tenant.policy(texts[1])
    old = [tenant.stack.at_engine(tenant.agent).open() for _ in range(16)]
    try:
        for version in (2, 3, 4, 5):
            reply = tenant.put("base", texts[version % 2])
            assert reply.status == 200 and reply.json["version"] == version, reply
            tenant.stack.wait_followed()
            for wire in [*old, *(tenant.stack.at_engine(tenant.agent).open() for _ in range(16))]:
                answer = wire.post("/v1/agent/authorize", {"action": "get_x", "actor": "bot"}).json
                assert (answer["policy_version"], answer["decision"]) == (version, ("deny", "allow")[version % 2]), answer
                if wire not in old:
                    wire.close()
    finally:
        for wire in old:
            wire.close()


def at_once(question):
    """Asks until the answer is true, without a pause: what is wrong for a moment after that is to be seen."""
    deadline = time.monotonic() + harness.PATIENCE
    while not question():
        assert time.monotonic() < deadline


def test_an_engine_that_is_ready_decides_on_every_reactor(fresh):
    stack = fresh(engine=["--reactors", "8"]).start()
    stack.policy("base", 'rules:\n  - {id: gets, agents: ["*"], actions: [get_x], decision: allow}\n')
    for _ in range(12):
        stack.engine.stop()
        (stack.data / "engine" / "bundle.json").unlink()
        stack.engine.start(ready=False)
        harness.eventually(stack.engine.is_listening, "the engine listens")
        wires = [stack.at_engine().open() for _ in range(24)]
        at_once(lambda: wires[0].get("/readyz").status == 200)
        for wire in wires:
            wire.send(wire.encode("POST", "/v1/agent/authorize", {"action": "get_x"}))
        assert [wire.read_reply().status for wire in wires] == [200] * len(wires)
        for wire in wires:
            wire.close()


def test_a_revision_that_is_told_is_that_of_every_reactor(fresh):
    stack = fresh(engine=["--reactors", "4"]).start()
    stack.policy("base", "rules:\n  - {id: says, actions: [get_x], decision: deny}\n", wait=False)
    stack.wait_followed()
    wires = [stack.at_engine().open() for _ in range(16)]
    with stack.at_engine("admin") as admin:
        for version in range(2, 62):
            reply = stack.policy("base", f"rules:\n  - {{id: says-{version}, actions: [get_x], decision: deny}}\n", wait=False)
            assert reply.json["version"] == version
            newest = f"\nwrit_engine_bundle_revision {stack.metrics(stack.platform)['writ_platform_bundle_revision']:.0f}\n"
            at_once(lambda: newest in admin.get("/metrics").body.decode())
            for wire in wires:
                wire.send(wire.encode("POST", "/v1/agent/authorize", {"action": "get_x"}))
            assert [wire.read_reply().json["rule"] for wire in wires] == [f"deny:says-{version}"] * len(wires)
