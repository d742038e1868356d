"""Faults of a fleet, one by one or side by side, each counted; and what has to hold after them.

A Campaign has one fleet with clients on it. Its faults leave the fleet whole again: everything runs and is ready. conclude()
stops the clients and holds what they saw against the log of the brokers, the state of the fleet and the audit trail.
"""

import collections
import contextlib
import pathlib
import signal
import sqlite3
import time

from harness import eventually, seconds_until
import fleet_checker
from fleet_clients import AGENT, POLICY, Clients, Zombie, ask
from fleet_net import FleetNet
from fleet_topic import replay_of

# What one-way losses and cuts there are: (who, what). A one-way loss is from the first to the second.
CUTS = ["engine link", "engine to brokers", "brokers to engine", "engine to engines", "engines to engine", "engine and engines",
        "broker link", "broker to brokers", "brokers to broker"]


class Campaign:
    def __init__(self, folder, chance, counts=None, slower=1, **options):
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.chance, self.slower, self.net = chance, slower, FleetNet(folder, **options)
        self.counts = collections.Counter() if counts is None else counts
        self.failovers, self.machine_failovers, self.begun = [], [], []
        self.clients = None

    def __enter__(self):
        try:
            self.net.start(POLICY)
            self.clients = Clients(self.net, self.chance, self.slower).start()
        except BaseException:
            self.net.close()
            raise
        return self

    def __exit__(self, *_):
        for one in [*self.clients.list, *self.clients.probes]:
            one.stopping.set()
        self.net.close()

    def log(self, text):
        self.begun.append(f"{time.monotonic():.1f} {text}")

    # ---- helpers ----

    def pick(self, wants_leader):
        leader = self.net.leader()
        return leader if wants_leader else self.chance.choice([engine for engine in self.net.engines if engine is not leader])

    def role(self, wants_leader):
        return "leader" if wants_leader else "replica"

    def wait_served(self, since):
        """Until state is served again; the seconds since then."""
        eventually(lambda: self.clients.served_after(since), "state is served again")
        return self.clients.served_after(since) - since

    def pause(self, seconds):
        """The length of a fault is its subject; nothing is waited for."""
        time.sleep(seconds)

    # ---- faults of engines ----

    def kill(self, wants_leader):
        engine = self.pick(wants_leader)
        self.log(f"kill {self.role(wants_leader)} {engine.number}")
        engine.kill()
        since = time.monotonic()  # it is gone: what is answered to a request from here on, another engine answers
        if wants_leader:
            self.failovers.append(self.wait_served(since))
        self.net.revive()
        self.counts[f"kill {self.role(wants_leader)}"] += 1

    def kill_another(self, asleep):
        """While one engine sleeps: another one, which comes back at once."""
        leader = self.net.leader()
        engine = self.chance.choice([one for one in self.net.engines if one is not asleep])
        role = self.role(engine is leader)
        self.log(f"kill {role} {engine.number} meanwhile")
        engine.kill()
        self.net.wait_ready(engine)
        self.counts[f"kill {role}"] += 1

    def stop(self, wants_leader, seconds, meanwhile=None):
        """A zombie: requests wait in it while the others go on and end what it holds for alive; then it wakes."""
        engine = self.pick(wants_leader)
        self.log(f"stop {self.role(wants_leader)} {engine.number} for {seconds:.0f} s")
        zombie = Zombie(self.net, self.clients.notes, f"zombie{len(self.clients.notes.list)}", self.chance)
        zombie.before(engine.number)
        self.net.sleep(engine)
        begun = time.monotonic()
        zombie.asleep(begun + min(seconds, 20.0))
        while meanwhile is not None and time.monotonic() < begun + seconds - 12:
            meanwhile(engine)
        self.pause(max(0.0, begun + seconds - time.monotonic()))
        woken = time.monotonic()
        self.net.wake(engine)
        zombie.collect(woken)
        self.net.revive()
        self.counts[f"stop {self.role(wants_leader)}"] += 1

    def rolling_restart(self):
        self.log("rolling restart")
        for engine in self.net.engines:
            if engine.process is not None and engine.process.poll() is None:
                engine.process.terminate()
                assert engine.wait() in (0, 1), engine.tail()
            self.net.start_again(engine)
            self.net.wait_ready(engine)
        self.counts["rolling restart"] += 1

    # ---- brokers and machines ----

    def broker(self, how, seconds, wants_leader=True):
        leads = self.net.partition_leader()
        broker = leads if wants_leader and leads is not None else self.chance.choice([one for one in self.net.brokers if one is not leads])
        self.log(f"broker {how} {broker.number}")
        if how == "stop":
            self.net.sleep(broker)
            self.pause(seconds)
        elif how == "kill":
            broker.kill()
            self.pause(seconds)
        else:
            broker.signal(signal.SIGTERM)
            broker.process.wait()
            broker.process = None
        self.net.revive()
        self.counts[f"broker {how}"] += 1

    def lose_machine(self, away_seconds):
        """The leader and its broker vanish from the network, with their disks. Others come back in their place when Kafka has given the
        broker up: before that, an empty one under its name would be taken for a replica that has all."""
        engine = self.pick(True)
        broker = self.net.brokers[engine.number]
        self.log(f"machine {engine.number} is lost")
        since = time.monotonic()
        for name in (f"engine{engine.number}", broker.name):
            self.net.network.down(name)
        engine.kill()
        broker.kill()
        self.machine_failovers.append(self.wait_served(since))
        self.pause(max(0.0, since + away_seconds - time.monotonic()))
        broker.format()
        self.net.new_disk(engine)
        self.net.revive()
        self.counts["machine lost"] += 1

    # ---- cuts ----

    def cut(self, kind, seconds, wants_leader=True):
        network = self.net.network
        if kind.startswith("broker ") or kind == "brokers to broker":
            subject = (self.net.partition_leader() if wants_leader else None) or self.chance.choice(self.net.brokers)
            peers, name = [one.name for one in self.net.brokers if one is not subject], subject.name
        else:
            subject = self.pick(wants_leader)
            name = f"engine{subject.number}"
            peers = [one.name for one in self.net.brokers] if "broker" in kind else [f"engine{e.number}" for e in self.net.engines if e is not subject]
        self.log(f"cut {kind} of {name} for {seconds:.0f} s")
        if kind.endswith("link"):
            network.down(name)
        else:
            for peer in peers:
                if kind.split()[0] in ("engine", "broker"):
                    network.lose(name, peer)
                if kind.split()[0] in ("engines", "brokers") or " and " in kind:
                    network.lose(peer, name)
        self.pause(seconds)
        network.heal()
        self.net.revive()
        self.counts[f"cut: {kind}"] += 1

    # ---- the end ----

    def listed(self, engine):
        """The state as this engine shows it, or its leader."""
        tokens, actors, cursor = {}, set(), ""
        with self.net.at(engine.number, "admin") as wire:
            while cursor is not None:
                reply = wire.get(f"/v1/tokens?limit=500{cursor}")
                assert reply.status == 200, reply
                tokens |= {item["token_id"]: item for item in reply.json["tokens"]}
                cursor = f"&cursor={reply.json['next_cursor']}" if reply.json.get("next_cursor") else None
            reply = wire.get("/v1/actors?limit=500")
            assert reply.status == 200, reply
            actors = {item["actor"] for item in next(value for value in reply.json.values() if isinstance(value, list))}
        return {"tokens": tokens, "actors": actors, "reviews": {}}

    def look(self, engine, reviews):
        shown = self.listed(engine)
        with self.net.at(engine.number) as wire:
            for review in reviews:
                reply = wire.get(f"/v1/queue/{review}")
                shown["reviews"][review] = reply.json["status"] if reply.status == 200 else reply.status
        return shown

    def states(self, copies):
        """The state by the leader's copy, and then by those of the next leaders, each stopped cleanly once it has shown it."""
        shown, seen = [], set()
        reviews = sorted({event["review_id"] for event in replay_of(self.net).events if event["kind"] == "review.enqueued"})
        for _ in range(copies):
            leader = self.net.leader()
            eventually(lambda: ask(self.net, leader.number, "GET", "/v1/actors", key="admin")[0] == 200, "the leader serves")
            shown.append(self.look(leader, reviews))
            seen.add(leader.number)
            if len(shown) < copies:
                leader.process.terminate()
                leader.wait()
        return shown, len(seen)

    def stored(self, events):
        """The ids of the fleet's events in the audit trail, once all that are in the log are there; those that begin a term are not in the log."""
        wanted = {event["event_id"] for event in events}

        def found():
            with contextlib.closing(sqlite3.connect(f"file:{self.net.data / 'platform.db'}?mode=ro", uri=True)) as store:
                rows = store.execute("SELECT event_id, kind FROM records WHERE node = ?", [f"fleet.{self.net.name}"]).fetchall()
            ids = [id for id, kind in rows if kind != "leader.changed" or id in wanted]
            return ids if wanted <= set(ids) else None

        return eventually(found, "the trail has all that the log has")

    def conclude(self, copies=1):
        """The verdict, printed."""
        self.net.revive()
        self.clients.stop()
        shown, engines = self.states(copies)
        replay = None

        def is_read():
            nonlocal replay
            replay = replay_of(self.net)
            return True

        seconds = seconds_until(is_read)
        verdict = fleet_checker.check(self.clients.notes.list, replay.events, shown, self.stored(replay.events))
        notes = len(self.clients.notes.list)
        print(f"{notes} answers and {sum(len(probe.served) for probe in self.clients.probes)} probes; the log has {replay.counted} counted entries, "
              f"{replay.heartbeats} heartbeats, {replay.stale} stale entries, {len(replay.terms)} terms, {len(replay.events)} events "
              f"(replayed in {seconds:.1f} s); copies of {engines} engines compared")
        print(f"{verdict.table}\n  503 and unanswered: {dict(verdict.refusals)}", flush=True)
        return verdict


def quantiles(times):
    """p50, p99, p100 in words."""
    times = sorted(times)
    if not times:
        return "none"
    at = lambda part: times[min(len(times) - 1, int(part * len(times)))]  # noqa: E731
    return f"{len(times)} times: p50 {at(0.5):.1f} s, p99 {at(0.99):.1f} s, p100 {times[-1]:.1f} s"
