"""A fleet begins with the state of one engine; others join by snapshots, and the log loses what these have."""

import json
import shutil
import signal

import pytest

from harness import eventually
from test_fleet_relay import FleetOfThree
from test_fleet_log import POLICY

FLEET = ["--fleet", "--fleet.advertise", "--fleet.single_broker", "--fleet.lease"]


class Joining(FleetOfThree):
    """Engine 0 has a state from before the fleet. The others begin with nothing."""

    def __init__(self, broker, folder):
        super().__init__(broker, folder)
        for engine in self.engines:
            engine.arguments += ["--snapshot.interval", "1s"]

    def begin_alone(self):
        """The state of one engine without a fleet: a token, a review, a suspension."""
        self.make_first_keys()
        self.platform.start()
        kept = list(self.engine.arguments)
        for option in FLEET:
            at = self.engine.arguments.index(option)
            self.engine.arguments = self.engine.arguments[:at] + self.engine.arguments[at + 2:]
        self.engine.start()
        self.policy("all", POLICY)
        self.change("before")
        self.engine.stop()
        self.platform.stop()
        self.engine.arguments = kept

    def change(self, name, at=0):
        """Mints a token and revokes another, opens a review, suspends an actor."""
        with self.at(at) as agent, self.at(at, "admin") as admin:
            for kind in ("token", "gone"):
                reply = agent.post("/v1/tokens/mint", {"scope": "*", "actor": f"{kind}-{name}", "ttl_seconds": 86400})
                assert reply.status == 201, reply
                self.keys[f"{kind}-{name}"], token = reply.json["token"], reply.json["token_id"]
            assert agent.request("DELETE", f"/v1/tokens/{token}").status in (200, 204)
            reply = agent.post("/v1/agent/authorize", {"actor": f"asks-{name}", "action": "pay_x"})
            assert reply.status == 200 and reply.json["decision"] == "human_review", reply
            assert admin.post(f"/v1/actors/bad-{name}/suspend", {}).status == 200

    def must_have(self, *names, at=0):
        """What these changes made, at an engine that leads."""
        with self.at(at, "admin") as admin, self.at(at) as agent:
            suspended = {actor["actor"] for actor in admin.get("/v1/actors?limit=500").json["actors"]}
            reviews = {review["actor"] for review in agent.get("/v1/queue?limit=500").json["items"]}
        for name in names:
            assert f"bad-{name}" in suspended and f"asks-{name}" in reviews, (name, suspended, reviews)
            for kind, status in (("token", 200), ("gone", 401)):
                with self.at(at, f"{kind}-{name}") as bot:
                    reply = bot.post("/v1/agent/authorize", {"actor": f"{kind}-{name}", "action": "get_x"})
                    assert reply.status == status, (kind, name, reply)

    def logged(self, number, event):
        return f'"event":"{event}"' in self.engines[number].tail(1 << 20)

    def lose(self, number):
        engine = self.engines[number]
        engine.signal(signal.SIGKILL)
        engine.wait()
        at = engine.arguments.index("--data") + 1
        shutil.rmtree(engine.arguments[at])

    def next_offset(self, number):
        with self.at(number, "admin") as wire:
            return wire.get("/v1/fleet").json["next_offset"]

    def refused(self, number):
        """The sentence with which a start is refused."""
        engine = self.engines[number]
        engine.start(ready=False)
        assert engine.wait() == 1
        line = json.loads(engine.tail().strip().splitlines()[-1])
        assert line["event"] == "cannot_start", line
        return line["why"]

    def wait_leads(self, number):
        eventually(lambda: self.leads(number), f"engine {number} leads")


@pytest.fixture
def fleet(broker, tmp_path):
    three = Joining(broker, tmp_path)
    yield three
    three.close()


def test_a_state_from_before_and_a_log_without_its_beginning_reach_engines_that_join(fleet):
    fleet.begin_alone()
    own = fleet.folder / "own"
    shutil.copytree(fleet.engine_data, own)
    fleet.seed()
    fleet.must_have("before")
    first, second, third = fleet.engines

    # an engine with a state of its own does not join
    data = second.arguments.index("--data") + 1
    fresh, second.arguments[data] = second.arguments[data], str(own)
    second.start(ready=False)
    assert second.wait() != 0 and "a state of its own" in second.tail(), second.tail()
    second.arguments[data] = fresh

    # one without joins, with the state that the first entry of the log names
    second.start()
    assert fleet.logged(1, "fleet_snapshot_fetched")
    fleet.change("joined", at=1)
    fleet.lose(0)
    fleet.wait_leads(1)
    fleet.must_have("before", "joined", at=1)

    # the log loses its beginning when two engines have two snapshots each
    first.start()
    assert fleet.logged(0, "fleet_snapshot_fetched")
    rounds = iter(range(100))

    def is_shorter():
        fleet.change(f"round{next(rounds)}", at=1)
        return fleet.logged(1, "fleet_log_shortened")
    eventually(is_shorter, "the log is shortened")

    # of a damaged one nothing is taken
    eventually(lambda: fleet.has_all(fleet.snapshots(1)[0], 1), "the leader's newest snapshot has every change")
    first.stop()
    newest = fleet.snapshots(1)[0]
    whole = newest.read_bytes()
    newest.write_bytes(whole[:len(whole) // 2])
    assert f"{second.url}: its snapshot {newest.name} is damaged" in fleet.refused(2)
    assert fleet.snapshots(2) == [] and fleet.logged(2, "fleet_snapshot_not_fetched")

    # but that of another engine
    first.start()
    newest.write_bytes(whole[:len(whole) // 2] + b"?" + whole[len(whole) // 2 + 1:])
    first.signal(signal.SIGSTOP)  # so the damaged one's heartbeat is the newest, and its engine is asked first
    since = fleet.next_offset(1)
    eventually(lambda: fleet.next_offset(1) >= since + 3, "the leader has sent heartbeats")
    third.start(ready=False)
    eventually(lambda: third.tail(1 << 20).count(f"from {second.url}: its snapshot {newest.name} is damaged") == 2, "it is refused")
    first.signal(signal.SIGCONT)
    third.wait_ready()
    assert f"bytes, from {first.url}" in third.tail(1 << 20)
    eventually(lambda: fleet.logged(2, "fleet_snapshot"), "it has a snapshot of its own")
    first.stop()
    fleet.lose(1)
    fleet.wait_leads(2)
    fleet.must_have("before", "joined", "round0", at=2)

    # a restart begins with its own snapshot
    fleet.change("last", at=2)
    third.stop()

    # but not if its own are damaged, either
    own = {file: file.read_bytes() for file in fleet.snapshots(2)}
    for file, whole in own.items():
        file.write_bytes(whole[:-1] + b"?")
    assert "no engine gives a snapshot" in fleet.refused(2) and fleet.logged(2, "snapshot_damaged")
    for file, whole in own.items():
        file.write_bytes(whole)
    third.start()
    assert third.tail(1 << 20).count("fleet_snapshot_fetched") == 1
    fleet.wait_leads(2)
    fleet.must_have("before", "round0", "last", at=2)
