"""Clean histories by chance: what faults and operators do to engines, platforms and their store, while no record is changed.

A Run has a platform with one or two engines, or with a fleet of three. Its steps are drawn by chance and counted by name. conclude()
shows the outcome to both verifiers in all their forms, and they have to find nothing; then it takes one row away, and they have to name it.
"""

import json
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import threading

import harness
from clients import POLICY
from harness import Program, Wire, eventually, free_port
from survivors import FORGETFUL
from test_fleet_trail import Trailed
from test_postgres import age, psql
from test_tampering import export, found_by_verify_py, found_by_writ
from wire import Closed

AGENT = "/v1/agent/authorize"
EVIDENCE = pathlib.Path(harness.__file__).parents[2] / "ops" / "examples" / "evidence"
TEN_DAYS_MS = 864_000_000
OFTEN = ["kill engine", "kill platform", "kill both", "retention", "key rotated"]
APART = ["gap accepted", "database restored", "engine lost", "engine stopped", "tree lost", "trail read", "evidence exported", "verified under load",
         "rows posted", "journal trimmed", "key withdrawn", "engine renamed"]
OF_A_FLEET = ["leader killed", "leader moved", "replica killed"]


class Sqlite:
    kind, url = "sqlite", None

    def __init__(self, stack):
        self.stack, self.path = stack, stack.data / "platform.db"

    def rows(self, sql):
        """Each with all columns as texts."""
        with sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=60) as database:
            found = [tuple("" if value is None else str(value) for value in row) for row in database.execute(sql)]
        database.close()
        return found

    def run(self, sql):
        with sqlite3.connect(self.path, isolation_level=None, timeout=60) as database:
            database.executescript(f"BEGIN IMMEDIATE; {sql}; COMMIT;")
        database.close()

    def back_up(self):
        shutil.copy(self.path, self.stack.folder / "backup.db")

    def restore(self):
        for left in self.stack.data.glob("platform.db*"):
            left.unlink()
        shutil.copy(self.stack.folder / "backup.db", self.path)

    def make_old(self, chance):
        """As if some of what is stored had been there for ten days."""
        ids = [int(row) for row, in self.rows("SELECT id FROM records WHERE id >= (SELECT first_id FROM horizon) ORDER BY id")]
        last = ids[chance.randrange(len(ids) // 4, len(ids) * 7 // 8)]
        self.run(f"UPDATE records SET created_at = created_at - {TEN_DAYS_MS} WHERE id <= {last}; UPDATE horizon SET day = 0")


class PostgreSql:
    kind = "postgres"

    def __init__(self, stack, server, url):
        self.stack, self.server, self.url = stack, server, url
        self.name = url.split("@/")[1].split("?")[0]

    def rows(self, sql):
        done = psql(self.url, sql)
        return [tuple(line.split("|")) for line in done.splitlines()]

    def run(self, sql):
        psql(self.url, f"BEGIN; {sql}; COMMIT")

    def at_server(self, sql):
        psql(self.server.url("postgres"), sql)

    def back_up(self):
        self.at_server(f"DROP DATABASE IF EXISTS {self.name}_kept")
        self.at_server(f"CREATE DATABASE {self.name}_kept TEMPLATE {self.name}")

    def restore(self):
        self.at_server(f"DROP DATABASE {self.name}")
        self.at_server(f"ALTER DATABASE {self.name}_kept RENAME TO {self.name}")

    def make_old(self, _):
        """A whole partition at a time is dropped."""
        age(self.url, 10)


def option(program, name):
    return program.arguments[program.arguments.index(name) + 1]


class Run:
    """`store`: "sqlite" or "postgres"; `broker`: of a fleet; `counts`: of the steps that took place."""

    def __init__(self, folder, chance, counts, store="sqlite", postgres=None, broker=None):
        self.folder, self.chance, self.counts = folder, chance, counts
        folder.mkdir(parents=True)
        self.anchors = folder / "anchors.jsonl"
        platform = ["--audit.keep", "2d", "--anchor.disk.file", self.anchors, "--anchor.disk.every", "1s"]
        url = postgres.new_database() if store == "postgres" else None
        self.is_fleet = broker is not None
        if self.is_fleet:
            self.stack = Trailed(broker, folder)
            self.stack.store_url = url
            self.stack.platform.arguments += [*map(str, platform), *(["--store.url", url] if url else [])]
            self.engines = self.stack.engines
        else:
            self.stack = harness.Stack(folder, platform=platform, engine=FORGETFUL, engine_data=folder / "engine-data", store_url=url)
            self.engines = [self.stack.engine]
            if chance.random() < 0.5:
                self.engines.append(self.another_engine())
        self.store = PostgreSql(self.stack, postgres, url) if url else Sqlite(self.stack)
        self.trusted, self.asked, self.before, self.done, self.was_dropped = [], 0, {}, [], []

    def another_engine(self):
        more = Program("writ-engine", free_port(), self.stack.engine.arguments, self.folder / "engine1.log")
        for name, value in (("--data", self.folder / "engine1-data"), ("--listen", f"127.0.0.1:{more.port}")):
            more.arguments[more.arguments.index(name) + 1] = str(value)
        return more

    def __enter__(self):
        stack = self.stack
        try:
            stack.make_first_keys()
            stack.keys["restorer"] = stack.bootstrap_key("restorers", "restorer", "ingest,admin", "*", nodes="*", tenants="*")
            stack.start() if self.is_fleet else self.start()
            stack.keys["reviewer"] = stack.key("reviewers", ["reviewer"], reviewers=["*"], wait=False)
            stack.policy("runs", POLICY)
            self.wait_followed()
            for engine in self.engines:
                self.trust(engine)
        except BaseException:
            self.close()
            raise
        return self

    def start(self):
        self.stack.platform.start()
        for engine in self.engines:
            engine.start()

    def close(self):
        for engine in self.engines[1:]:
            engine.end()
        self.stack.close()

    def __exit__(self, *_):
        self.close()

    def cli(self, *words, **options):
        return self.stack.cli(*words, "--platform", self.stack.platform.url, key=self.stack.keys["root"], timeout=600, **options)

    # ---- keys ----

    def data(self, engine):
        return pathlib.Path(option(engine, "--data"))

    def node(self, engine):
        return option(engine, "--node") if "--node" in engine.arguments else (self.data(engine) / "engine/node").read_text().strip()

    def streams_of(self, engine):
        return [self.node(engine), *([self.stack.node] if self.is_fleet else [])]

    def public_key(self, engine):
        return (self.data(engine) / "engine/evidence.pub").read_text().strip()

    def trust(self, engine):
        for node in self.streams_of(engine):
            self.trusted.append((node, self.public_key(engine)))
            self.cli("engine", "trust", "--node", node, "--public-key", self.public_key(engine))

    # ---- work ----

    def running(self):
        return [engine for engine in self.engines if engine.process is not None]

    def wire(self, engine, key="agent"):
        return Wire(engine.address, self.stack.keys[key])

    def send(self, wire, *request):
        """What is not answered while an engine leads no more is of no interest here."""
        reply = wire.post(*request)
        assert reply.status in (200, 201) or (self.is_fleet and reply.status == 503), reply
        return reply if reply.status != 503 else None

    def work(self, most=40):
        """Decisions, reviews and tokens at each engine."""
        for engine in self.running():
            try:
                with self.wire(engine) as wire, self.wire(engine, "reviewer") as reviewer:
                    for _ in range(self.chance.randrange(3, most)):
                        self.step(wire, reviewer)
            except (Closed, OSError):
                assert self.is_fleet  # where an engine ends that has lost the lead
        self.revive()

    def step(self, wire, reviewer):
        self.asked += 1
        actor = f"bot-{self.asked // 50}"
        what = self.chance.choices(["get_x", "drop_x", "issue_refund", "mint"], [12, 2, 2, 1])[0]
        if what == "mint":
            minted = self.send(wire, "/v1/tokens/mint", {"scope": "get_*", "actor": actor, "ttl_seconds": 600})
            if minted and self.chance.random() < 0.5:
                assert wire.delete(f"/v1/tokens/{minted.json['token_id']}").status in (200, 503)
            return
        reply = self.send(wire, AGENT, {"action": what, "actor": actor, "args": {"n": self.asked}})
        if what == "issue_refund" and reply and self.chance.random() < 0.8:
            self.send(reviewer, f"/v1/queue/{reply.json['review_id']}/{self.chance.choice(['approve', 'deny'])}", {"note": "as it was asked"})

    def burst(self, engine):
        """Requests whose answers no client waits for: the kill comes in their midst."""
        wire = self.wire(engine)
        wire.open()
        wire.send(b"".join(wire.encode("POST", AGENT, {"action": "get_x", "args": {"burst": n}}) for n in range(self.chance.randrange(1, 60))))
        return wire

    def wait_followed(self):
        newest = self.stack.metrics(self.stack.platform)["writ_platform_bundle_revision"]
        for engine in self.running():
            eventually(lambda e=engine: self.stack.metrics(e)["writ_engine_bundle_revision"] >= newest, f"{engine.log} follows")

    def advice(self, engine):
        """What health says to give up lost records by: the words for `writ`, or None."""
        with Wire(engine.address) as wire:
            text = wire.get("/healthz").json["checks"]["publish"]
        return text[text.index("audit accept-gap"):].split() if "audit accept-gap" in text else None

    def settle(self):
        """Until the store has all that the engines have. A person gives up what no journal has any more; that is counted."""
        marks = []
        for number, engine in enumerate(self.engines):
            for what in ("get_x", "issue_refund") if self.is_fleet else ("get_x",):
                marks.append(f"mark-{self.asked}-{number}-{what}")
                self.asked += 1
                self.mark(engine, what, marks[-1])

        def is_stored():
            for engine in () if self.is_fleet else self.engines:
                words = self.advice(engine)
                if words:  # for a moment it stands there although it was done
                    self.counts["gap accepted"] += self.cli(*words, "--reason", "No journal has them any more.", check=False).returncode == 0
            names = ", ".join(f"'{mark}'" for mark in marks)
            return int(self.store.rows(f"SELECT count(DISTINCT trace_id) FROM records WHERE trace_id IN ({names})")[0][0]) == len(marks)
        eventually(is_stored, "all is stored")

    def mark(self, engine, what, trace):
        def is_answered():
            self.revive()
            try:
                with self.wire(engine) as wire:
                    return wire.post(AGENT, {"action": what, "actor": f"marker-{self.asked // 50}", "trace_id": trace}).status == 200
            except (Closed, OSError):
                return False
        eventually(is_answered, f"{engine.log} serves")

    # ---- faults ----

    def kill(self, *programs):
        wires = [self.burst(engine) for engine in self.running()]
        for program in programs:
            program.kill()
        for program in programs:
            program.start()
        for wire in wires:
            wire.close()

    def any_engine(self):
        return self.chance.choice(self.engines)

    def kill_engine(self):
        self.kill(self.any_engine())

    def kill_platform(self):
        self.kill(self.stack.platform)

    def kill_both(self):
        both = [self.stack.platform, self.any_engine()]
        self.chance.shuffle(both)
        self.kill(*both)

    def engine_stopped(self):
        engine = self.any_engine()
        self.end(engine)
        engine.start()

    def end(self, engine):
        """By a signal that it obeys, or by one that it does not see. A leader ends as any does that has lost the lead."""
        if self.chance.random() < 0.5:
            engine.kill()
        else:
            engine.process.terminate()
            assert engine.wait() in (0, 1), engine.tail()

    def engine_lost(self):
        """Its disk is gone, with what it had not published. Another one takes its place, under another name: with the same name it would not publish."""
        engine, name = self.any_engine(), None
        if not self.is_fleet and self.chance.random() < 0.5:
            name = self.node(engine)
        wire = self.burst(engine)
        engine.kill()
        wire.close()
        shutil.rmtree(self.data(engine))
        if name:
            self.rename(engine, name)
            before = len(engine.log.read_text())
            engine.start(ready=False)
            eventually(lambda: '"publish_alarm"' in engine.log.read_text()[before:], f"{engine.log} has the alarm")
            engine.kill()
            self.counts["new journal of the same node"] += 1
        if "--node" in engine.arguments:
            self.rename(engine)
        engine.start()
        self.trust(engine)

    def rename(self, engine, name=None):
        self.asked += 1
        if "--node" not in engine.arguments:
            engine.arguments += ["--node", ""]
        engine.arguments[engine.arguments.index("--node") + 1] = name or f"renamed-{self.asked}"

    def engine_renamed(self):
        """It sends all that it keeps again, which goes to quarantine, and is in the tree of the new name."""
        engine = self.any_engine()
        self.end(engine)
        self.rename(engine)
        engine.start()
        self.trust(engine)

    def tree_lost(self):
        engine = self.any_engine()
        self.end(engine)
        (self.data(engine) / "engine/evidence.tree").unlink(missing_ok=True)
        engine.start()

    def key_rotated(self, withdrawn=False):
        engine = self.any_engine()
        before = [(node, self.public_key(engine)) for node in self.streams_of(engine)]
        if withdrawn:
            self.settle()  # what the old key has signed has arrived
        self.end(engine)
        for name in ("evidence.key", "evidence.pub"):
            (self.data(engine) / "engine" / name).unlink()
        engine.start()
        if self.chance.random() < 0.5:
            self.work(10)  # under a key that is not registered yet
        self.trust(engine)
        for one in before if withdrawn else ():
            self.cli("engine", "distrust", "--node", one[0], "--public-key", one[1], "--reason", "Its disk was stolen.")
            self.trusted.remove(one)

    def key_withdrawn(self):
        self.key_rotated(withdrawn=True)

    # ---- the store ----

    def horizon(self):
        return int(self.store.rows("SELECT first_id FROM horizon")[0][0])

    def retention(self):
        """What is older than audit.keep is dropped by a platform that starts, and that may be killed meanwhile."""
        platform, before = self.stack.platform, self.horizon()
        self.settle()
        self.kept_events()
        if self.store.kind == "postgres":  # where a partition with one young row stays
            for engine in self.engines:
                self.end(engine)
        platform.kill() if self.chance.random() < 0.5 else platform.stop()
        self.store.make_old(self.chance)
        if self.chance.random() < 0.4:
            platform.start(ready=False)
            platform.kill()
        platform.start()
        eventually(lambda: self.horizon() > before, f"old rows are dropped\n{platform.tail()}")
        for engine in self.engines:
            if engine.process is None:
                engine.start()

    def kept_events(self):
        """Some events of this time, for rows_posted()."""
        self.was_dropped = [event for event, in self.store.rows("SELECT event FROM records WHERE kind = 'decision' AND node IS NOT NULL ORDER BY id LIMIT 12")]

    def rows_posted(self):
        """An admin posts older events again, and another system posts its own."""
        now = {event_id for event_id, in self.store.rows("SELECT event_id FROM records")}
        with self.stack.at_platform("restorer") as wire:
            for event in map(json.loads, self.was_dropped):
                if event["event_id"] not in now:
                    assert wire.post("/api/v1/audit/ingest", event).status == 201
        with self.stack.at_platform("engine") as wire:
            for _ in range(self.chance.randrange(1, 8)):
                self.asked += 1
                event = {"event_id": f"other-{self.asked}", "kind": "decision", "tenant_id": "default", "timestamp": "2026-11-20T09:30:00.123Z"}
                assert wire.post("/api/v1/audit/ingest", event).status == 201

    def positions(self):
        return {(node, journal): (epoch, int(seq)) for node, journal, epoch, seq in self.store.rows("SELECT node, journal, epoch, next_seq FROM streams")}

    def forget(self, engine):
        """Until its journal has let the segments of now go."""
        def segments():
            return sorted(path.name for path in self.data(engine).rglob("*.journal"))
        newest = segments()[-1]

        def is_forgotten():
            with self.wire(engine) as wire:
                for _ in range(10):
                    assert wire.post(AGENT, {"action": "get_x", "args": {"text": "x" * 40000}}).status == 200
            return segments()[0] > newest
        eventually(is_forgotten, "the journal lets segments go")

    def journal_trimmed(self):
        self.forget(self.any_engine())

    def database_restored(self, forgetting=False):
        """An older database in the place of the newer one: engines send again what they keep, and a person gives up the rest."""
        platform = self.stack.platform
        platform.stop()
        self.store.back_up()
        platform.start()
        self.work()
        if forgetting:
            self.forget(self.any_engine())
        elif self.chance.random() < 0.3:
            self.kill_engine()
        self.settle()
        newest = self.positions()
        platform.stop()
        self.store.restore()
        self.stack.set("adopt")
        platform.start()
        for node, key in self.trusted:
            self.cli("engine", "trust", "--node", node, "--public-key", key)
        live = {node for engine in self.engines for node in self.streams_of(engine)}
        older = self.positions()
        for (node, journal), (epoch, seq) in newest.items():
            begin = older.get((node, journal), ("", 1))[1]
            if node not in live and begin < seq:  # no engine sends these again
                self.cli("audit", "accept-gap", "--node", node, "--journal", journal, "--from-seq", begin, "--next-seq", seq, "--epoch", epoch)
        self.settle()

    def gap_accepted(self):
        before = self.counts["gap accepted"]
        self.database_restored(forgetting=True)
        assert self.counts["gap accepted"] > before
        self.counts["gap accepted"] -= 1  # perform() counts it, too

    # ---- those who read ----

    def trail_read(self):
        with self.stack.at_platform("auditor") as wire:
            for _ in range(self.chance.randrange(1, 6)):
                assert wire.get(f"/api/v1/audit?limit=5&action={self.chance.choice(['get_x', 'drop_x'])}").status == 200

    def times(self):
        """The times of the engines' records that are stored."""
        return sorted(json.loads(event)["timestamp"] for event, in self.store.rows("SELECT event FROM records WHERE node IS NOT NULL AND id >= (SELECT first_id FROM horizon)"))

    def part(self):
        """Words for a part of the time, by chance."""
        times = self.times()
        begin, end = sorted(self.chance.choices(times, k=2))
        return self.chance.choice([["--from", begin, "--to", end], ["--from", begin], ["--to", end]])

    def anchored(self):
        """The file of the anchor, which gets a checkpoint a moment after the store."""
        eventually(self.anchors.exists, "a checkpoint is anchored")
        return self.anchors

    def evidence_exported(self):
        words = self.chance.choice([[], self.part()])
        folder = self.folder / f"evidence{len(list(self.folder.glob('evidence*')))}"
        self.cli("evidence", "export", *words, "--output", folder)
        anchors = ["--anchors", self.anchored()] if self.chance.random() < 0.5 else []
        assert not found_by_verify_py(folder, *anchors), (folder, words)
        done = self.stack.cli("audit", "verify", "--file", folder, *anchors, check=False)
        assert done.returncode == 0 and "complete until" in done.stdout, (folder, words, done)
        self.counts["part of the time"] += words != []
        shutil.rmtree(folder)

    def verified_under_load(self):
        """Records arrive while the pages are read."""
        over = threading.Event()

        def load():
            for _ in range(30):
                try:
                    with self.wire(self.engines[0]) as wire:
                        for n in range(50):
                            wire.post(AGENT, {"action": "get_x", "args": {"load": n}})
                except (Closed, OSError):
                    pass
                if over.wait(0.02):
                    return
        thread = threading.Thread(target=load, daemon=True)
        thread.start()
        try:
            for words in ([], self.part()):
                found, _ = found_by_writ(self, *words)
                assert not found, (words, found)
        finally:
            over.set()
            thread.join()

    # ---- a fleet ----

    def leads(self, number):
        try:
            return self.stack.leads(number)
        except (Closed, OSError):
            self.revive()
            return False

    def leader(self):
        return eventually(lambda: [number for number in range(3) if self.engines[number].process is not None and self.leads(number)], "an engine leads")[0]

    def leader_killed(self):
        number = self.leader()
        wires = [self.burst(engine) for engine in self.engines]
        self.engines[number].kill()
        eventually(lambda: any(self.leads(other) for other in range(3) if other != number), "another engine leads")
        self.work(10)
        self.engines[number].start()
        for wire in wires:
            wire.close()

    def replica_killed(self):
        self.kill(self.engines[(self.leader() + self.chance.choice([1, 2])) % 3])

    def leader_moved(self):
        number = self.leader()
        follows = (number + self.chance.choice([1, 2])) % 3
        words = ["fleet", "lead", self.node(self.engines[follows]), "--engine", self.engines[3 - number - follows].url]
        # one that has just been started is silent for a moment, and refused
        eventually(lambda: self.stack.cli(*words, key=self.stack.keys["root"], check=False).returncode == 0 or self.leads(follows), "the lead is moved")
        eventually(lambda: self.leads(follows), "the other engine leads")

    # ---- a run ----

    def perform(self, name):
        self.done.append(name)
        {"kill engine": self.kill_engine, "kill platform": self.kill_platform, "kill both": self.kill_both, "retention": self.retention,
         "key rotated": self.key_rotated, "gap accepted": self.gap_accepted, "database restored": self.database_restored, "engine lost": self.engine_lost,
         "engine stopped": self.engine_stopped, "tree lost": self.tree_lost, "trail read": self.trail_read, "evidence exported": self.evidence_exported,
         "verified under load": self.verified_under_load, "rows posted": self.rows_posted, "journal trimmed": self.journal_trimmed,
         "key withdrawn": self.key_withdrawn, "engine renamed": self.engine_renamed, "leader killed": self.leader_killed, "leader moved": self.leader_moved,
         "replica killed": self.replica_killed}[name]()
        self.counts[name] += 1

    def draw(self, count):
        """So many steps: those of which runs consist, and some others."""
        apart = [name for name in APART if not (self.is_fleet and name in ("gap accepted", "journal trimmed", "engine renamed"))]
        names = self.chance.choices(OFTEN + OF_A_FLEET if self.is_fleet else OFTEN, k=count - count // 2)
        if self.is_fleet:
            names[0] = self.chance.choice(["leader killed", "leader moved"])
        names += self.chance.sample(apart, count // 2)
        self.chance.shuffle(names)
        return names

    def live(self, names):
        self.work()
        for name in names:
            self.perform(name)
            self.work()

    def revive(self):
        """An engine that has lost the lead ends, and its supervisor starts it again."""
        for engine in self.engines:
            if engine.process is not None and engine.process.poll() is not None:
                assert self.is_fleet and engine.wait() == 1, engine.tail()
                engine.start()

    # ---- the end ----

    def conclude(self):
        """Nothing is found; and a row that is taken away, is."""
        self.settle()
        self.stack.platform.stop()  # it records who has read
        self.stack.platform.start()
        self.settle()
        newest = {(node, journal): seq - 1 for (node, journal), (_, seq) in self.positions().items()}
        self.must_be_clean()
        self.must_be_clean("--anchors", self.anchored())
        words = self.part()
        self.must_be_clean(*words, *self.chance.choice([(), ("--anchors", self.anchors)]))
        self.must_be_clean_in_a_file(*words)
        self.counts["part of the time"] += 1
        file = self.must_be_clean_in_a_file()
        self.perform("evidence exported")
        done = self.stack.cli("audit", "verify", "--json", "--file", file, "--anchors", self.anchors)
        streams = {(line["node"], line["journal"]): line for line in map(json.loads, done.stdout.splitlines()) if "stream" in line}
        self.must_be_named(streams)
        for engine in self.engines:
            for node in self.streams_of(engine):
                one = streams[node, "0"]
                assert one["proved_until"] == newest[node, "0"], (one, newest)
        self.take_one_away()
        self.counts["records"] += sum(one["records"] for one in streams.values())
        self.counts["proved"] += sum(one["proved"] for one in streams.values())
        self.counts["terms"] += len(self.store.rows(f"SELECT DISTINCT epoch FROM records WHERE node = '{self.stack.node}'")) if self.is_fleet else 0
        self.counts["reads recorded"] += int(self.store.rows("SELECT count(*) FROM records WHERE kind = 'audit.read'")[0][0])
        self.counts["streams"] += len(streams)

    def must_be_clean(self, *words):
        found, _ = found_by_writ(self, *words)
        assert not found, (words, found, self.done)

    def must_be_clean_in_a_file(self, *words):
        (self.folder / "evidence.ndjson").unlink(missing_ok=True)
        file = export(self, "evidence.ndjson", *words)
        for more in ((), ("--anchors", self.anchors)):
            found = found_by_verify_py(file, *more)
            assert not found, (words, more, found, self.done)
        return file

    def notes(self):
        """{(node, journal): {"retention" or "gap": [(first, last)]}}."""
        found = {}
        for node, journal, first, last, kind in self.store.rows("SELECT node, journal, from_seq, end_seq, CASE WHEN note LIKE '%\nretention\n%' THEN 'retention' ELSE 'gap' END FROM removals"):
            found.setdefault((node, journal), {}).setdefault(kind, []).append((int(first), int(last)))
        return found

    def must_be_named(self, streams):
        """What is not there is named as dropped, or as given up, to its last record."""
        for name, kinds in self.notes().items():
            dropped = max((last for _, last in kinds.get("retention", [])), default=0)
            given_up = sum(last - max(first, dropped + 1) + 1 for first, last in kinds.get("gap", []) if last > dropped)
            assert streams[name]["dropped_until"] == dropped and streams[name]["given_up"] >= given_up, (streams[name], kinds)
            self.counts["streams with dropped records"] += dropped > 0
            self.counts["streams with records given up"] += given_up > 0

    def take_one_away(self):
        rows = self.store.rows("SELECT id, node, seq FROM records WHERE node IS NOT NULL AND id >= (SELECT first_id FROM horizon)")
        id, node, seq = self.chance.choice(rows)
        self.store.run(f"CREATE TABLE taken AS SELECT * FROM records WHERE id = {id}; DELETE FROM records WHERE id = {id}")
        wanted = (f"{node}/0", int(seq), int(seq))
        found = {name[1:] for name in found_by_writ(self)[0]}
        assert found == {wanted}, (found, wanted)
        found = {name[1:] for name in found_by_verify_py(export(self, "taken.ndjson"))}
        assert found == {wanted}, (found, wanted)
        self.store.run("INSERT INTO records SELECT * FROM taken; DROP TABLE taken")
        self.must_be_clean()
        self.counts["rows taken away and named"] += 1


def matrix(counts):
    return "\n".join(f"  {name:32} {counts[name]:8}" for name in sorted(counts))
