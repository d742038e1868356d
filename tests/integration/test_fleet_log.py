"""A fleet of one engine: its state is in Kafka, and outlives its data directory."""

import json
import os
import shutil
import signal
import struct
import threading
import time

import pytest

from harness import BUILD, Stack, eventually
from preload import preload
from way import Way

POLICY = """
rules:
  - id: reads
    agents: ["*"]
    actions: ["get_*"]
    decision: allow
  - id: asks
    agents: ["*"]
    actions: ["pay_*"]
    decision: human_review
"""
LIMITED = POLICY + """
  - id: people
    users: ["*"]
    actions: ["read_*"]
    decision: allow
  - id: mails
    agents: ["*"]
    actions: ["mail_*"]
    decision: allow
    limit: {count: 3, per: actor, window: 1h}
"""
WRONG_SETTING = 2  # the status of a start that an option forbids
CLIENTS, USES = 4, 1000


class FleetOfOne(Stack):
    names = 0

    def __init__(self, broker, folder):
        FleetOfOne.names += 1
        self.broker, self.name = broker, f"test{FleetOfOne.names}-{time.time_ns()}"
        kafka = ["--kafka.brokers", broker.address, "--kafka.topic", broker.new_topic()]
        super().__init__(folder, platform=kafka, engine_data=folder / "engine-data", engine=[
            *kafka, "--fleet", self.name, "--fleet.advertise", "http://127.0.0.1:1", "--fleet.single_broker", "true",
            "--fleet.lease", "5s"])

    def seed(self):
        if not self.keys:
            self.make_first_keys()
        self.platform.start()
        with_seed = list(self.engine.arguments)
        self.engine.arguments = [*with_seed, "--fleet.seed", "true"]
        self.engine.start()
        self.engine.arguments = with_seed
        self.policy("all", POLICY)
        return self

    def refused(self, *more, without=()):
        """The sentence with which a start is refused."""
        kept = list(self.engine.arguments)
        for option in without:
            at = self.engine.arguments.index(option)
            self.engine.arguments = self.engine.arguments[:at] + self.engine.arguments[at + 2:]
        self.engine.arguments = [*self.engine.arguments, *more]
        before = len(self.engine.tail(1 << 20))
        self.engine.start(ready=False)
        status = self.engine.wait()
        self.engine.arguments = kept
        line = json.loads(self.engine.tail(1 << 20)[before:].strip().splitlines()[-1])
        assert status in (1, WRONG_SETTING) and line["event"] == "cannot_start", line
        return line["why"]


def behind_way(broker, engine):
    """The way by which this engine reaches the broker, from its next start on."""
    way = Way(("127.0.0.1", broker.port), is_broker=True)
    engine.arguments[engine.arguments.index("--kafka.brokers") + 1] = way.address
    return way


@pytest.fixture
def stack(broker, tmp_path):
    one = FleetOfOne(broker, tmp_path)
    yield one
    one.close()


class Client(threading.Thread):
    """Changes the state until the engine is gone, and keeps what was answered."""

    def __init__(self, stack, number):
        super().__init__(daemon=True)
        self.stack, self.number = stack, number
        self.minted, self.revoked, self.suspended, self.reviews = {}, set(), set(), set()
        self.sent, self.answered = {}, {}  # uses of a token
        self.last_revoked = None
        self.rounds = 0

    def run(self):
        try:
            with self.stack.at_engine("agent") as agent, self.stack.at_engine("admin") as admin:
                while True:
                    self.round(agent, admin)
                    self.rounds += 1
        except (OSError, EOFError, AssertionError) as problem:
            self.problem = problem

    def round(self, agent, admin):
        actor = f"bot-{self.number}-{self.rounds}"
        reply = agent.post("/v1/tokens/mint", {"scope": "*", "actor": actor, "ttl_seconds": 86400, "max_uses": USES})
        assert reply.status == 201, reply
        token, text = reply.json["token_id"], reply.json["token"]
        self.minted[token] = actor
        with self.stack.at_engine(text) as bot:
            for _ in range(3):
                self.sent[token] = self.sent.get(token, 0) + 1
                reply = bot.post("/v1/agent/authorize", {"actor": actor, "action": "get_x"})
                assert reply.status == 200 and reply.json["decision"] == "allow", reply
                self.answered[token] = self.answered.get(token, 0) + 1
            self.sent[token] += 1
            reply = bot.post("/v1/agent/authorize", {"actor": actor, "action": "pay_x"})
            assert reply.status == 200 and reply.json["decision"] == "human_review", reply
            self.answered[token] += 1
            self.reviews.add(reply.json["review_id"])
        if self.rounds % 3 == 1:
            reply = agent.request("DELETE", f"/v1/tokens/{token}")
            assert reply.status in (200, 204), reply
            self.revoked.add(token)
        if self.rounds % 3 == 2:
            reply = admin.post(f"/v1/actors/{actor}/suspend", {})
            assert reply.status == 200, reply
            self.suspended.add(actor)


def quantile(stack, part):
    """The bucket of the time from sealing an entry until it was read back."""
    name = "writ_engine_fleet_commit_seconds_bucket"
    buckets = {bucket.split('"')[1]: count for bucket, count in stack.metrics(stack.engine).items() if bucket.startswith(name)}
    return next(bucket for bucket, count in buckets.items() if count >= part * buckets["+Inf"])


def everything(wire, path, member):
    found, cursor = {}, ""
    while cursor is not None:
        reply = wire.get(f"{path}{'&' if '?' in path else '?'}limit=500{cursor}")
        assert reply.status == 200, reply
        found.update({item[member]: item for item in next(v for v in reply.json.values() if isinstance(v, list))})
        cursor = f"&cursor={reply.json['next_cursor']}" if reply.json.get("next_cursor") else None
    return found


def test_no_answered_change_is_lost_with_the_data_directory(stack):
    stack.seed()
    clients = [Client(stack, number) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    eventually(lambda: min(client.rounds for client in clients) >= 5, "each client has changed the state")
    print(f"\ncommit: p50 ≤ {quantile(stack, 0.5)} s, p99 ≤ {quantile(stack, 0.99)} s")
    stack.engine.signal(signal.SIGKILL)
    stack.engine.wait()
    shutil.rmtree(stack.engine_data)
    for client in clients:
        client.join()
    stack.engine.start()
    with stack.at_engine("admin") as admin, stack.at_engine("agent") as agent:
        tokens = everything(admin, "/v1/tokens", "token_id")
        actors = everything(admin, "/v1/actors", "actor")
        reviews = everything(agent, "/v1/queue", "id")
    changes = lost = 0
    for client in clients:
        for token in client.minted:
            changes += 1 + client.answered.get(token, 0)
            lost += token not in tokens
            now = tokens.get(token, {"uses_left": USES})
            uses = USES - now["uses_left"]
            assert client.answered.get(token, 0) <= uses <= client.sent.get(token, 0), (now, client.answered, client.sent)
            assert token not in client.revoked or now["revoked_at"], now
        lost += len(client.suspended - set(actors)) + len(client.reviews - set(reviews))
        changes += len(client.revoked) + len(client.suspended) + len(client.reviews)
    print(f"\nanswered changes: {changes}, lost: {lost}")
    assert changes > 100 and lost == 0


def test_starts_that_would_not_be_safe_are_refused(stack):
    why = stack.refused
    stack.make_first_keys()
    assert "Kafka has no topic" in why()
    assert "kafka.brokers" in why(without=["--kafka.brokers"])
    assert "redis.url" in why("--redis.url", "tcp://127.0.0.1:1")
    assert "fleet.advertise" in why(without=["--fleet.advertise"])
    assert "needs 3 brokers" in why("--fleet.seed", "true", without=["--fleet.single_broker"])
    loose = f"loose-{stack.name}"
    stack.broker.create(f"writ.state.{loose}", 1, retention_ms=1000000000)
    assert "retention.ms" in why("--fleet", loose)
    stack.seed()
    stack.engine.stop()
    assert "exists already" in why("--fleet.seed", "true")
    assert f"was in the fleet {stack.name}" in why(without=["--fleet", "--fleet.advertise", "--fleet.single_broker", "--fleet.lease"])
    assert f"was in the fleet {stack.name}" in why("--fleet", "other")
    assert "1 replicas, and needs 3" in why(without=["--fleet.single_broker"])
    pepper = stack.folder / "another-pepper"
    pepper.write_text(os.urandom(32).hex())
    pepper.chmod(0o600)
    assert "another pepper: give all engines the same" in why("--pepper_file", str(pepper), without=["--pepper_file"])
    clock = stack.folder / "clock"
    stack.engine.environment |= {"LD_PRELOAD": preload(BUILD / "tests" / "libclock_shift.so"), "CLOCK_SHIFT_FILE": str(clock),
                                 "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"}
    for hours, side in ((1, "ahead of"), (-1, "behind")):
        clock.write_bytes(struct.pack("=q", hours * 3600 * 1000))
        said = why()
        assert f"seconds {side} that of Kafka's broker" in said and "NTP" in said, said
    stack.engine.environment.clear()
    way = behind_way(stack.broker, stack.engine)
    way.spoil = lambda sent, reply: (reply.replace(b"log.dir.failure.timeout.ms", b"log.dir.failure.timeout.xx"), None)
    assert "is older than 3.7" in why()
    way.close()


def test_a_lease_that_ended_is_seen_at_admission_and_where_a_decision_is_recorded(broker, stack):
    """Its heartbeats are lost, its entries are not: so it leads, and commits, without a lease."""
    reactors = stack.engine.arguments.index("--reactors") + 1
    stack.engine.arguments[reactors] = "4"  # so that counters are at another reactor than their request
    way = behind_way(broker, stack.engine)
    stack.seed()
    stack.policy("all", LIMITED)
    with stack.at_engine() as agent:
        text = agent.post("/v1/tokens/mint", {"scope": "*", "actor": "bot", "ttl_seconds": 600}).json["token"]
    replies = []

    def ask(actor, action, key="agent"):
        with stack.at_engine(key) as wire:
            replies.append(wire.post("/v1/agent/authorize", {"actor": actor, "action": action}))
        return replies[-1]
    assert ask("bot", "get_x", text).json["decision"] == "allow"
    replies.clear()
    way.lose(b"writ-fleet-entries")
    asking = [threading.Thread(target=ask, args=(f"bot-{number}", "mail_x")) for number in range(16)]
    for thread in asking:
        thread.start()
    eventually(lambda: stack.metrics(stack.engine)["writ_engine_replies_parked"] >= 16, "all wait for the log")
    way.lose(b"writ-fleet-entries", b"writ-fleet-heartbeats")
    eventually(lambda: ask("bot", "get_x").status == 503, "the lease ends")
    replies.clear()
    way.lose(b"writ-fleet-heartbeats")
    for thread in asking:
        thread.join()
    stale = [reply for reply in replies if reply.status == 503]
    assert len(replies) == 16 and stale, replies
    assert {reply.json["code"] for reply in stale} == {"fleet_stale"}, stale
    assert {reply.json["decision"] for reply in replies if reply not in stale} <= {"allow"}, replies  # recorded before
    for action, key in (("get_x", "agent"), ("get_x", text), ("pay_x", "agent"), ("mail_x", "agent")):
        reply = ask("bot", action, key)
        assert reply.status == 503 and reply.json["code"] == "fleet_stale", (action, reply)
    with stack.at_engine() as wire:
        assert wire.get("/readyz").status == 503
        person = wire.post("/v1/authorize", {"user_id": "ann", "action": "read_x"})
        assert person.status == 200 and person.json["decision"] == "allow", person
    way.lose()
    eventually(lambda: ask("bot", "get_x").status == 200, "it admits agents again")
    assert ask("bot", "get_x", text).json["decision"] == "allow"
    stack.engine.wait_ready()
    way.close()


def test_a_leader_whose_log_stands_still_refuses_a_token_that_it_sees_for_the_first_time(broker, stack):
    stack.engine.arguments[stack.engine.arguments.index("--journal.stall") + 1] = "1s"
    way = behind_way(broker, stack.engine)
    stack.seed()
    mint = ("/v1/tokens/mint", {"scope": "*", "actor": "bot", "ttl_seconds": 600})
    with stack.at_engine() as agent:
        text = agent.post(*mint).json["token"]
    way.lose(b"writ-fleet-entries")
    parked = []

    def wait_for_the_log():
        with stack.at_engine() as agent:
            parked.append(agent.post(*mint).status)

    waiting = threading.Thread(target=wait_for_the_log)
    waiting.start()
    with stack.at_engine() as wire:
        eventually(lambda: "journal.stall" in wire.get("/healthz").json["checks"]["fleet"], "the log stands still")
    with stack.at_engine(text) as bot:
        reply = bot.post("/v1/agent/authorize", {"actor": "bot", "action": "get_x"})
    assert reply.status == 503 and reply.json["code"] == "overloaded", reply
    way.lose()
    waiting.join()
    assert parked == [201]
    way.close()
