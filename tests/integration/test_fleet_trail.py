"""The records of a fleet's state in the audit trail: each one once, in the order of the log, over any change of the leader.

What counts in the log is computed here again, from the broker's own files and without any code of writ."""

import collections
import contextlib
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import sqlite3
import struct
import threading

import pytest

from evidence_maker import One
from harness import eventually
from test_fleet_relay import FleetOfThree, authorize, step  # noqa: F401
from test_tampering import export, found_by_verify_py, found_by_writ

LONG = os.environ.get("WRIT_LONG") == "1"
KILLS, CLIENTS, ROUNDS = (12, 4, 40) if LONG else (2, 3, 12)
TERM, RECORDS = 1, 2

Entry = collections.namedtuple("Entry", "offset kind term n previous incarnation seq records digest")


# ---- the log, by the formats of Kafka's files and of src/fleet/entry.h ----


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at


def messages(broker, topic):
    """(offset, value) of all messages in a topic of one partition, uncompressed."""
    for file in sorted((pathlib.Path(broker.folder) / "kafka/data" / f"{topic}-0").glob("*.log")):
        data, at = file.read_bytes(), 0
        while at + 61 <= len(data):
            base, size = struct.unpack_from(">qi", data, at)
            count, = struct.unpack_from(">i", data, at + 57)
            attributes, = struct.unpack_from(">h", data, at + 21)
            assert attributes & 7 == 0
            place, at = at + 61, at + 12 + size
            for _ in range(0 if attributes & 32 else count):
                length, place = varint(data, place)
                end = place + length
                _, place = varint(data, place + 1)
                delta, place = varint(data, place)
                key, place = varint(data, place)
                value, place = varint(data, place + max(key, 0))
                yield base + delta, data[place:place + value]
                place = end


def entry(offset, value):
    assert value[:8] == b"writFLT1"
    kind, node = value[10], struct.unpack_from("<H", value, 112)[0]
    term, n = struct.unpack_from("<QQ", value, 32)
    body, records = value[118 + node:-32], []
    if kind == RECORDS:
        at = 48 if n == 1 else 0
        while at < len(body):
            public, private = struct.unpack_from("<II", body, at)
            records.append(body[at + 8:at + 8 + public].decode())
            at += 8 + public + private
    return Entry(offset, kind, term, n, value[48:80], value[80:96], struct.unpack_from("<Q", value, 104)[0], records,
                 hashlib.sha256(value).digest())


def replayed(broker, fleet):
    """What counts: [(seq, term, event)]; and the events of entries that do not count."""
    counted, stale = [], []
    term, n, digest, leader = 0, 0, None, None
    for one in (entry(*message) for message in messages(broker, f"writ.state.{fleet}")):
        if one.kind == TERM and one.term > term:
            term, n, digest, leader = one.term, 0, one.digest, one.incarnation
        elif one.kind == RECORDS and (one.term < term or one.n <= n):
            stale += one.records
        elif one.kind == RECORDS:
            assert (one.term, one.n, one.previous, one.incarnation) == (term, n + 1, digest, leader), one
            assert not one.records or one.seq == len(counted) + 1, one
            n, digest = one.n, one.digest
            counted += [(len(counted) + 1 + i, term, event) for i, event in enumerate(one.records)]
    return counted, stale


# ---- the fleet ----


class Trailed(FleetOfThree):
    @property
    def node(self):
        return f"fleet.{self.name}"

    def rows(self, sql, *parameters):
        with contextlib.closing(sqlite3.connect(f"file:{self.data / 'platform.db'}?mode=ro", uri=True, timeout=30)) as database:
            return database.execute(sql, parameters).fetchall()

    def stored(self):
        """[(seq, epoch, event)] of the fleet."""
        return self.rows("SELECT seq, epoch, event FROM records WHERE node = ? ORDER BY seq", self.node)

    def trust_all(self):
        for number, engine in enumerate(self.engines):
            data = self.engine_data if number == 0 else self.folder / f"engine{number}-data"
            for node in (self.node, (data / "engine/node").read_text().strip()):
                self.cli("engine", "trust", "--node", node, "--public-key", (data / "engine/evidence.pub").read_text().strip(),
                         "--platform", self.platform.url, key=self.keys["root"])

    def settle(self):
        """Until the store has all that counts. [(seq, term, event)]."""
        def done():
            counted, _ = replayed(self.broker, self.name)
            return len(self.stored()) >= len(counted) and counted
        return eventually(done, "the store has all records of the fleet")

    def check(self):
        """What counts, each once and as it was written, and nothing else; and all of it is proved."""
        counted = self.settle()
        _, stale = replayed(self.broker, self.name)
        stored = self.stored()
        assert [(seq, int(epoch[8:], 16), event) for seq, epoch, event in stored] == counted
        assert len({epoch[:8] for _, epoch, _ in stored}) == 1
        assert self.rows("SELECT * FROM quarantine") == []
        assert self.rows("SELECT event_id FROM records GROUP BY event_id HAVING count(*) > 1") == []
        trailed = {json.loads(event)["event_id"] for (event,) in self.rows("SELECT event FROM records")}
        assert not trailed & {json.loads(event)["event_id"] for event in stale}
        firsts = [json.loads(event) for (_, term, event), before in zip(counted, [(0, 0, ""), *counted]) if term != before[1]]
        assert {event["kind"] for event in firsts} == {"leader.changed"}
        print(f"\n{len(counted)} records of {len(firsts)} terms are in the store, each once; {len(stale)} that do not count are not")
        return counted, stale

    def verify(self):
        assert self.rows("SELECT DISTINCT base FROM checkpoints WHERE node = ?", self.node) == [(1,)]  # one tree over all terms
        found, _ = found_by_writ(One(self))
        assert not found, found
        file = export(One(self), f"evidence-{len(self.stored())}.ndjson")
        assert not found_by_verify_py(file)
        done = self.cli("audit", "verify", "--json", "--file", file)
        stream, = (line for line in map(json.loads, done.stdout.splitlines()) if line.get("stream") and line["node"] == self.node)
        assert stream["records"] == stream["proved"] == stream["proved_until"] == len(self.stored()), stream


@pytest.fixture(scope="module")
def fleet(broker, tmp_path_factory):
    three = Trailed(broker, tmp_path_factory.mktemp("trail"))
    try:
        three.start()
        three.trust_all()
        yield three
    finally:
        three.close()


def test_each_step_of_a_story_is_in_the_trail_once(fleet, step):  # noqa: F811
    """The story of docs/guides/review.md, each step at another engine."""
    trace = "refund-17"
    body = {"actor": "payer", "action": "pay_refund", "args": {"amount": 620}, "trace_id": trace}
    review = step("POST", "/v1/agent/authorize", body).json["review_id"]
    waiting = threading.Thread(target=step, args=("GET", f"/v1/queue/{trace}/wait?timeout_ms=60000"))
    waiting.start()
    found = step("GET", f"/v1/queue/{trace}", key="reviewer")
    assert found.json["id"] == review
    approved = step("POST", f"/v1/queue/{review}/approve", {"note": "The goods came back."}, key="reviewer")
    assert approved.status == 200, approved
    waiting.join()
    for _ in range(2):
        redeemed = step("POST", f"/v1/queue/{trace}/redeem", body, headers={"Idempotency-Key": trace})
        assert redeemed.json["decision"] == "allow", redeemed
    assert step("POST", f"/v1/queue/{trace}/redeem", body).json["decision"] == "deny"
    fleet.settle()
    done = fleet.cli("audit", "trace", trace, "--json", "--tenant", fleet.TENANT, "--platform", fleet.platform.url, key=fleet.keys["root"])
    events = [json.loads(line) for line in done.stdout.splitlines()]
    events = events[0]["events"] if "events" in events[0] else events
    told = [(event["kind"], event.get("decision")) for event in events]
    assert told == [("decision", "human_review"), ("review.enqueued", "human_review"), ("review.approved", ""),
                    ("decision", "allow"), ("review.redeemed", "allow"), ("decision", "deny")], told
    fleet.check()
    health = step("GET", "/healthz", at=fleet.leader()).json["checks"]
    assert health["publish"] == "ok" and "audit trail" not in health["fleet"], health


class Client(threading.Thread):
    """Changes the state at any engine, until it has done so often enough; keeps what was answered."""

    def __init__(self, fleet, number):
        super().__init__(daemon=True)
        self.fleet, self.number, self.random = fleet, number, random.Random(number)
        self.rounds, self.minted, self.reviews = 0, [], []
        self.stopping = threading.Event()

    def run(self):
        while not self.stopping.is_set():
            actor = f"bot-{self.number}-{self.rounds}"
            try:
                with self.fleet.at(self.random.randrange(3)) as wire:
                    minted = wire.post("/v1/tokens/mint", {"scope": "*", "actor": actor, "ttl_seconds": 600})
                    if minted.status == 201:
                        self.minted.append(minted.json["token_id"])
                    asked = wire.post("/v1/agent/authorize", {"actor": actor, "action": "pay_x", "trace_id": actor})
                    if asked.status == 200:
                        self.reviews.append(asked.json["review_id"])
                        self.rounds += 1
            except (OSError, EOFError, AssertionError):
                self.stopping.wait(0.05)


def wait_rounds(clients, more):
    before = [client.rounds for client in clients]
    eventually(lambda: all(client.rounds >= was + more for client, was in zip(clients, before)), "the clients go on")


def test_no_kill_of_the_leader_loses_or_doubles_a_record(fleet):
    clients = [Client(fleet, number) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    wait_rounds(clients, ROUNDS)
    for _ in range(KILLS):
        killed = fleet.leader()
        fleet.engines[killed].kill()
        wait_rounds(clients, ROUNDS)
        fleet.engines[killed].start()
    for client in clients:
        client.stopping.set()
        client.join()
    counted, _ = fleet.check()
    kinds = collections.defaultdict(set)
    for _, _, event in counted:
        event = json.loads(event)
        kinds[event["kind"]].add(event.get("token_id" if event["kind"] == "token.minted" else "review_id"))
    for client in clients:
        assert set(client.minted) <= kinds["token.minted"] and set(client.reviews) <= kinds["review.enqueued"]
    assert counted[-1][1] >= KILLS + 1


def test_what_a_leader_had_not_committed_never_reaches_the_trail(fleet, step):  # noqa: F811
    """Its entry comes late: another engine leads by then."""
    leads = fleet.leader()
    way, engine = fleet.ways[leads], fleet.engines[leads]
    way.hold(b"writ-fleet-entries")
    late = {"actor": "late", "action": "pay_late"}  # two records: one more than the next leader begins with
    asking = threading.Thread(target=step, args=("POST", "/v1/agent/authorize", late), kwargs={"at": leads}, daemon=True)
    asking.start()
    eventually(lambda: b"writFLT1" in way.kept and b'"late"' in way.kept, "its entry is on the way")
    engine.signal(signal.SIGSTOP)
    others = [number for number in range(3) if number != leads]
    eventually(lambda: any(fleet.leads(number) for number in others), "another engine leads")
    way.release()
    eventually(lambda: replayed(fleet.broker, fleet.name)[1], "the late entry is in the log")
    engine.signal(signal.SIGCONT)
    asking.join()
    assert engine.wait() == 1  # it ends, and its supervisor starts it again
    engine.start()
    assert authorize(step, "next", "pay_next").status == 200  # takes the numbers of what came late
    _, stale = fleet.check()
    assert len(stale) == 2 and all('"late"' in event for event in stale), stale
    assert not [event for _, _, event in fleet.stored() if '"late"' in event]
    fleet.verify()


# ---- what the platform lacks ----


class Lacking(Trailed):
    def __init__(self, broker, folder):
        super().__init__(broker, folder)
        for engine in self.engines[1:]:
            engine.arguments += ["--snapshot.interval", "1s"]
        self.round = 0

    def change(self, at):
        """Two records."""
        self.round += 1
        with self.at(at) as wire:
            reply = wire.post("/v1/agent/authorize", {"actor": f"asks-{self.round}", "action": "pay_x"})
        assert reply.status == 200 and reply.json["decision"] == "human_review", reply

    def change_until(self, at, question, what):
        def answer():
            self.change(at)
            return question()
        eventually(answer, what)

    def offsets(self, number):
        """Up to which its snapshots have the log, the newest first."""
        return [int(file.name[6:], 16) for file in self.snapshots(number)]

    def wait_snapshot(self, number):
        def has_one():
            files = self.snapshots(number)
            return files and self.has_all(files[0], number)
        eventually(has_one, "it has a snapshot with all records, and so has the platform")

    def swap_store(self, files=None):
        """What the platform's store has, while it is stopped; or it comes back with these."""
        self.platform.stop()
        found = list(self.data.glob("platform.db*"))
        kept = {file: file.read_bytes() for file in found}
        for file in found if files else []:
            file.unlink()
        for file, whole in (files or {}).items():
            file.write_bytes(whole)
        self.platform.start()
        return kept

    def kept_entries(self):
        """[(the records, whether they are an entry's that counts)], as far as the leader has not given up the log."""
        said = re.findall(r'"fleet_log_shortened".*?offset (\d+)', self.engines[2].tail(1 << 20))
        counted = {event for _, _, event in replayed(self.broker, self.name)[0]}
        entries = (entry(*message) for message in messages(self.broker, f"writ.state.{self.name}"))
        return [(one.records, one.records[0] in counted) for one in entries if one.records and one.offset >= int(said[-1])]


@pytest.fixture
def lacking(broker, tmp_path):
    three = Lacking(broker, tmp_path)
    try:
        three.seed()
        three.engines[1].start()
        three.wait_all()
        yield three
    finally:
        three.close()


def test_a_leader_that_began_with_a_snapshot_publishes_what_the_platform_lacks(lacking):
    """The log was shortened, and begins with an entry that does not count. The platform comes back with an older store."""
    first, second, third = lacking.engines
    way = lacking.ways[0]
    way.hold(b"writ-fleet-entries")

    def ask():
        with contextlib.suppress(OSError, EOFError, AssertionError), lacking.at(0) as wire:
            wire.post("/v1/agent/authorize", {"actor": "late", "action": "pay_late"})
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    eventually(lambda: b'"late"' in way.kept, "its entry is on the way")
    first.signal(signal.SIGSTOP)
    eventually(lambda: lacking.leads(1), "another engine leads")
    lacking.wait_snapshot(1)
    backup = lacking.swap_store()
    way.release()
    eventually(lambda: replayed(lacking.broker, lacking.name)[1], "the late entry is in the log")
    first.signal(signal.SIGCONT)
    assert first.wait() == 1
    asking.join()
    for file in lacking.snapshots(0):
        file.unlink()
    first.start()
    lacking.change(1)
    lacking.wait_snapshot(1)
    third.start()
    node = (lacking.data_of(2) / "engine/node").read_text().strip()
    with lacking.at(1, "root") as wire:
        eventually(lambda: wire.post("/v1/fleet/lead", {"node": node}).status == 200, "the third may lead")
    assert second.wait() == 1
    del second.arguments[-2:]  # no more snapshots: the log keeps what is behind its older one
    second.start()
    eventually(lambda: lacking.leads(2), "the third leads")
    lacking.change_until(2, lambda: '"event":"fleet_log_shortened"' in third.tail(1 << 20), "the log is shortened")
    lacking.settle()
    kept = lacking.kept_entries()
    assert '"late"' in kept[0][0][0] and [counts for _, counts in kept] == [False] + [True] * (len(kept) - 1), kept[:3]
    lacking.swap_store(backup)
    _, stale = lacking.check()
    assert len(stale) == 2 and all('"late"' in event for event in stale), stale

    # The platform is away while the leader is lost: the log still has what the next one needs, and it has the tree.
    lacking.trust_all()
    lacking.wait_snapshot(2)
    lacking.platform.stop()
    has = max(lacking.offsets(2))
    second.stop()
    first.stop()
    first.arguments += ["--snapshot.interval", "1s"]
    first.start()
    lacking.change_until(2, lambda: min(min(lacking.offsets(n)) for n in (0, 2)) > has, "both have two snapshots of later")
    newest = max(lacking.offsets(2))
    lacking.change_until(2, lambda: max(lacking.offsets(2)) > newest, "the leader could have shortened the log")
    third.kill()
    eventually(lambda: lacking.leads(0), "another engine leads")
    lacking.platform.start()
    lacking.check()
    lacking.verify()
