"""A fleet of three engines, and what people ask of it: writ fleet, its leader, the log's format, a message to pass over."""

import contextlib
import json
import os
import pathlib
import sqlite3
import struct
import time

import pytest

import events
from fleet import fresh_seed
from harness import Closed, Wire, eventually
from test_fleet_relay import FleetOfThree

NEWER = {"WRIT_BUG": "newer_format"}  # no bug: the program knows one more format of the log


class Fleet(FleetOfThree):
    def __init__(self, broker, folder):
        super().__init__(broker, folder)
        for number, engine in enumerate(self.engines):
            engine.arguments += ["--node", self.node(number)]

    @staticmethod
    def node(number):
        return f"engine-{number + 1}"

    def writ(self, *words, at=0, key="root", check=True):
        done = self.cli(*words, "--engine", self.engines[at].url, key=self.keys.get(key, key), check=False)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def view(self, at=0):
        return json.loads(self.writ("fleet", "--json", at=at).stdout)

    def states(self, at=0):
        return {member["node"]: member["state"] for member in self.view(at)["members"]}

    def revive(self, number):
        """As a supervisor does."""
        engine = self.engines[number]
        assert engine.wait() == 1
        engine.start()


def refused(engine, status):
    """The sentence with which a start is refused."""
    engine.start(ready=False)
    assert engine.wait() == status
    return json.loads(engine.tail().strip().splitlines()[-1])["why"]


@pytest.fixture(scope="module")
def fleet(broker, tmp_path_factory):
    three = Fleet(broker, tmp_path_factory.mktemp("people"))
    try:
        yield three.start()
    finally:
        three.close()


def test_each_engine_shows_all_of_them(fleet):
    leads = fleet.leader()
    expected = {fleet.node(number): "leads" if number == leads else "follows" for number in range(3)}
    for number in range(3):
        eventually(lambda n=number: fleet.states(n) == expected, f"{fleet.node(number)} has read all heartbeats")
        view = fleet.view(number)
        assert view["leader"] == fleet.node(leads) and view["node"] == fleet.node(number) and view["reading_ended"] is None
        assert view["format"] == 1 and 0 < view["lease_left_ms"] <= 5000, view
        for member in view["members"]:
            assert member["address"] == fleet.engines[int(member["node"][-1]) - 1].url, member
            assert member["known_format"] == 1 and member["reaches_leader"] and member["applied_offset"] > 0, member
            assert member["is_self"] == (member["node"] == fleet.node(number)), member
    shown = fleet.writ("fleet").stdout
    assert all(fleet.node(number) in shown for number in range(3)) and "LEASE LEFT" in shown, shown
    with Wire(fleet.engines[0].address) as wire:
        health = wire.get("/healthz").json["fleet"]
    assert health["leader"] == fleet.node(leads) and health["reading_ended"] is None, health
    assert fleet.metrics(fleet.engines[0])["writ_engine_fleet_members"] == 3


def test_only_an_admin_of_all_tenants_changes_a_fleet(fleet):
    leads, other = fleet.leader(), fleet.node((fleet.leader() + 1) % 3)
    for key, word in (("agent", "missing_role"), ("admin", "wrong_tenant")):
        for words in (("fleet", "lead", other), ("fleet", "upgrade")):
            done = fleet.writ(*words, key=key, check=False)
            assert done.returncode == 1, (words, done)
            with fleet.at(0, key) as wire:
                reply = wire.post("/v1/" + "/".join(words[:2]), {"node": other} if "lead" in words else {})
            assert reply.status == 403 and reply.json["code"] == word, reply
    assert fleet.writ("fleet", key="agent", check=False).returncode == 1
    done = fleet.writ("fleet", "lead", "engine-9", check=False)
    assert done.returncode == 1 and 'no engine of the fleet has the name "engine-9"' in done.stderr, done
    assert fleet.leader() == leads


def test_a_person_lets_another_engine_lead(fleet):
    """Asked at the third engine; a review and a token of before are there after."""
    leads = fleet.leader()
    follows, asked = (leads + 1) % 3, (leads + 2) % 3
    with fleet.at(asked) as wire:
        review = wire.post("/v1/agent/authorize", {"actor": "payer", "action": "pay_rent"}).json["review_id"]
    shown = fleet.writ("fleet", "lead", fleet.node(follows), "--reason", "engine room is warm", at=asked).stdout
    assert shown.startswith(f"{fleet.node(follows)} leads in term "), shown
    fleet.revive(leads)
    assert fleet.leader() == follows
    for number in range(3):
        with fleet.at(number) as wire:
            assert wire.get(f"/v1/queue/{review}").json["status"] == "pending"
    assert "leads in term" in fleet.writ("fleet", "lead", fleet.node(follows), at=asked).stdout  # it does already

    def recorded():
        return [event for event in fleet.events(kind="engine.fleet") if event["reason"].endswith("engine room is warm")]
    event = eventually(recorded, "it is recorded")[0]
    assert fleet.node(follows) in event["reason"] and event["resolved_by"] == "root-owner" and event["key_id"], event


def test_the_leader_goes_on_if_its_successor_does_not_stand(fleet):
    leads = fleet.leader()
    silent = (leads + 1) % 3
    term = fleet.view(leads)["term"]
    fleet.ways[silent].lose(b"writ-fleet-entries")  # its TERM does not arrive
    with fleet.at(leads, "root") as wire:
        assert wire.post("/v1/fleet/lead", {"node": fleet.node(silent)}).status == 200
    eventually(lambda: not fleet.leads(leads), "it hands over")
    eventually(lambda: fleet.leads(leads), "it goes on")
    assert fleet.leader() == leads and fleet.view(leads)["term"] == term
    with fleet.at(leads) as wire:
        assert wire.post("/v1/agent/authorize", {"actor": "payer", "action": "pay_now"}).json["decision"] == "human_review"
    fleet.ways[silent].lose()  # its TERM comes late, and counts
    fleet.revive(leads)
    eventually(lambda: fleet.leads(silent), "the successor leads after all")


def test_the_format_is_raised_when_all_engines_that_are_left_know_it(fleet):
    """Two engines of a newer version; the third, an older one, is lost. When it comes back, it cannot read the log any more."""
    def restart(number, environment):
        engine = fleet.engines[number]
        engine.stop()
        engine.environment = environment
        engine.start()
    followers = [number for number in range(3) if number != fleet.leader()]
    assert "has format 1" in fleet.writ("fleet", "upgrade").stdout  # there is nothing to raise
    for number in followers:
        restart(number, NEWER)
    leads = fleet.leader()
    fleet.writ("fleet", "lead", fleet.node(followers[0]))
    fleet.revive(leads)
    done = fleet.writ("fleet", "upgrade", check=False)
    assert done.returncode == 1 and f"{fleet.node(leads)} (version" in done.stderr and "does not know format 2" in done.stderr, done
    assert fleet.view()["format"] == 1
    fleet.engines[leads].kill()  # for ever, as far as the others can see
    raised = eventually(lambda: [done for done in [fleet.writ("fleet", "upgrade", at=followers[0], check=False)] if done.returncode == 0],
                        "nothing waits for it any longer than its lease")[0]
    assert "has format 2" in raised.stdout and fleet.states(followers[0])[fleet.node(leads)] == "silent"
    fleet.engines[leads].start(ready=False)
    assert fleet.engines[leads].wait() == 1 and "a newer version wrote it" in fleet.engines[leads].tail()
    fleet.engines[leads].environment = NEWER
    fleet.engines[leads].start()
    eventually(lambda: [m["known_format"] for m in fleet.view(leads)["members"]] == [2, 2, 2], "all know it")
    for number in range(3):
        eventually(lambda n=number: fleet.view(n)["format"] == 2, "all have read it")
        with fleet.at(number) as wire:
            assert wire.post("/v1/tokens/mint", {"scope": "*", "actor": "reader", "ttl_seconds": 60}).status == 201


def test_a_foreign_message_stops_the_fleet_until_a_person_passes_over_it(broker, fleet):
    """Each engine by itself. A message that is an entry is never passed over."""
    topic = f"writ.state.{fleet.name}"
    with fleet.at(0) as wire:
        review = wire.post("/v1/agent/authorize", {"actor": "payer", "action": "pay_last"}).json["review_id"]
    leads = fleet.leader()
    broker.put(topic, ["x:1\tno entry of a fleet"])
    assert fleet.engines[leads].wait() == 1  # the leader ends; the others stay, and let no agent in
    replica = (leads + 1) % 3
    ended = eventually(lambda: fleet.view(replica)["reading_ended"], "its reading ended")
    offset = int(ended.split("offset ")[1].split(" ")[0])
    assert "cannot be read: it is no entry" in ended, ended
    shown = fleet.writ("fleet", at=replica).stdout
    assert ended in shown, shown
    with fleet.at(replica) as wire:
        assert wire.post("/v1/agent/authorize", {"actor": "reader", "action": "get_x"}).json["code"] == "fleet_stale"
    data = [engine.arguments[engine.arguments.index("--data") + 1] for engine in fleet.engines]
    assert f"offset {offset}" in refused(fleet.engines[leads], 1)
    done = fleet.cli("fleet", "skip", offset, "--data", data[replica], "--reason", "x", check=False)
    assert done.returncode == 1 and "stop it first" in done.stderr, done
    for number in range(3):
        if number != leads:
            fleet.engines[number].stop()
    for number in (offset, offset - 1): # which no snapshot has
        fleet.cli("fleet", "skip", number, "--data", data[leads], "--reason", "a slip")
    assert "is an entry of this fleet" in refused(fleet.engines[leads], 2)
    (pathlib.Path(data[leads]) / "engine" / "fleet.skip").unlink()
    for number in range(3):
        fleet.cli("fleet", "skip", offset, "--data", data[number], "--reason", "a script of ours wrote to the wrong topic")
        fleet.engines[number].start(ready=False)
    for engine in fleet.engines:
        engine.wait_ready()
    with fleet.at(1) as wire:
        assert wire.get(f"/v1/queue/{review}").json["status"] == "pending"

    def recorded():
        return [event for event in fleet.events(kind="engine.fleet") if f"passes over offset {offset}" in event["reason"]]
    eventually(lambda: len(recorded()) == 3, "each engine has recorded it")
    with contextlib.closing(sqlite3.connect(f"file:{fleet.data / 'platform.db'}?mode=ro", uri=True)) as database:
        texts = [text for text, in database.execute("SELECT event FROM records") if '"kind":"engine.fleet"' in text]
    assert events.check(texts, written=True) == {"engine.fleet"} and len(texts) >= 5


def cut(broker, topic):
    """The newer half of the log is gone, as after the loss of disks that had it alone."""
    file, = (pathlib.Path(broker.folder) / "kafka/data" / f"{topic}-0").glob("*.log")
    data, batches, at = file.read_bytes(), [], 0
    while at + 61 <= len(data):
        batches.append(at)
        at += 12 + struct.unpack_from(">i", data, at + 8)[0]
    os.truncate(file, batches[len(batches) // 2])


def test_a_log_that_was_cut_stops_every_engine(broker, fleet):
    """The heartbeats of all engines fill it again within seconds: the offset that is read next is there, and another entry."""
    leads = fleet.leader()
    broker.kill()
    cut(broker, f"writ.state.{fleet.name}")
    broker.start()
    assert fleet.engines[leads].wait() == 1  # the leader ends; the others stay, and report it
    for number in {0, 1, 2} - {leads}:
        ended = eventually(lambda n=number: fleet.view(n)["reading_ended"], "its reading ended")
        assert any(text in ended for text in ("another entry than before", "the log was cut", "the log is shorter than it was")), ended
        with fleet.at(number) as wire:
            for action in ("get_x", "pay_x"):
                reply = wire.post("/v1/agent/authorize", {"actor": "reader", "action": action})
                assert reply.status == 503 and reply.json["code"] == "fleet_stale", reply
            assert wire.get("/readyz").status == 503 and ended in wire.get("/healthz").json["checks"]["fleet"]
    assert "reading the fleet's log ended" in refused(fleet.engines[leads], 1)


def test_two_engines_that_begin_a_fleet_at_once_are_refused_and_one_begins_it_again(broker, tmp_path):
    """Each has found an empty topic. Their entries meet in it: neither passes for the other's fleet, and at most one leads."""
    three = Fleet(broker, tmp_path)
    two = three.engines[:2]
    try:
        three.make_first_keys()
        three.platform.start()
        chance = fresh_seed()
        for engine in two:
            engine.arguments += ["--fleet.seed", "true"]
            engine.start(ready=False)
            time.sleep(chance.choice([0, 0.2, 0.4, 0.6]))

        def reads_no_more(engine):
            return "two engines began it at once" in engine.tail(1 << 20) or "exists already" in engine.tail(1 << 20)

        def leads(engine):
            return '"fleet_leads"' in engine.tail(1 << 20)
        eventually(lambda: all(reads_no_more(engine) or leads(engine) for engine in two), "it is decided")
        assert sum(leads(engine) for engine in two) <= 1 and any(reads_no_more(engine) for engine in two)
        first = next((engine for engine in two if leads(engine)), None)
        print(f"led at first: {first and first.log}")
        second = two[1] if first is not two[1] else two[0]
        second.end()  # the way out, by the runbook
        if first is None:
            first = two[0]
            first.end()
            broker.delete(f"writ.state.{three.name}")
            first.start()
        try:
            with Wire(first.address, three.keys["agent"]) as wire:
                minted = wire.post("/v1/tokens/mint", {"scope": "*", "actor": "a", "ttl_seconds": 60})
        except (Closed, OSError):
            minted = None
        if minted is None or minted.status != 201:  # it led before the other's last entries came: the test above leads out of that
            eventually(lambda: reads_no_more(first), "it has read them")
            return
        second.arguments[-2:] = ["--fleet.discard", "true"]
        second.start()
        token = minted.json["token"]
        with Wire(second.address, token) as wire:
            assert wire.post("/v1/agent/authorize", {"action": "get_x"}).status == 200
    finally:
        three.close()
