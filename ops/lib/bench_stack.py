"""The rows of ops/bench --stack: what Kafka and PostgreSQL cost a decision, and how fast records go through them.

Servers are those of ops/stack, on core 1 with the platform and the load generator, which comes before them
all. The engine is on core 0 alone, one reactor, its data and the servers' on a disk.

  row              what is measured                                                            goal
  offered_5k       5,000 requests/s are due, an open loop over 64 connections: latency with    p99 at most 1.1 of
                   Kafka, PostgreSQL and Redis attached, beside the same embedded (SQLite)     the embedded
  lag              at 5,000/s, one decision after the other is asked for by its trace id at    p99 1 s
                   the platform until it is there
  publish          a backlog, from the moment the broker takes the first of it until Kafka has all of it
  ingest_sqlite    a topic that the platform has not read, from its first to its last row in   50,000 rows/s
                   the SQLite store, with all indexes
  ingest_postgres  the same into PostgreSQL, which is on core 0 beside the idle engine, with   60,000 rows/s
                   the settings of ops/examples/postgresql.conf
  outage           the broker is away for --outage seconds at 5,000/s: how long after it is back until
                   less than a second's is left to be stored, while 500/s go on

Rows of ingest count the platform's CPU time, and PostgreSQL's beside it. What has to be true for a row to count is
checked: every request answered 200, the store's rows as many as the journal's records.
"""

import contextlib
import os
import pathlib
import re
import shutil
import sqlite3
import statistics
import subprocess
import threading
import time

import harness

ROWS = ("offered_5k", "lag", "publish", "ingest_sqlite", "ingest_postgres", "outage")
RATE, CONNECTIONS = 5000, 64
P99_GOAL, LAG_GOAL_MS = 1.1, 1000
INGEST_GOALS = {"ingest_sqlite": 50_000, "ingest_postgres": 60_000}
SERVERS = ("redis", "kafka", "postgres")
HZ = os.sysconf("SC_CLK_TCK")
CLOSED_CONNECTIONS = 256
SETTLE_SECONDS = 2.0
CATCH_UP_SECONDS = 600


class Servers:
    """Those of ops/stack, in a folder and on ports of their own."""

    def __init__(self, folder, bench, cores):
        self.fail, self.cores = bench.fail, cores
        self.folder = folder
        first = 20000 + os.getpid() % 20000
        self.environment = {**os.environ, "WRIT_STACK": str(folder), "WRIT_REDIS_PORT": str(first),
                            "WRIT_KAFKA_PORT": str(first + 1), "WRIT_POSTGRES_PORT": str(first + 3),
                            "WRIT_POSTGRES_CONF": str(harness.TOP / "ops" / "examples" / "postgresql.conf")}
        self.addresses = {}

    def run(self, verb, name):
        done = subprocess.run(["taskset", "-c", self.cores.get(name, "1"), str(harness.TOP / "ops" / "stack"), verb, name], env=self.environment,
                              capture_output=True, text=True)
        if done.returncode != 0:
            self.fail(f"ops/stack {verb} {name} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def up(self, *names):
        for name in names:
            self.addresses[name] = re.search(rf"{name}: running, (\S+)", self.run("up", name))[1]

    def down(self):
        for name in self.addresses:
            self.run("kill9", name)
        shutil.rmtree(self.folder, ignore_errors=True)


def process_tree(pid):
    children = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children += [int(child) for child in task.read_text().split()]
        except FileNotFoundError:
            pass
    return [pid, *(p for child in children for p in process_tree(child))]


def cpu_seconds(pids):
    """CPU time so far of these processes; of children that ended too, once they were waited for."""
    total = 0
    for pid in pids:
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except FileNotFoundError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / HZ


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(len(values) * q))]


class StackBench:
    def __init__(self, bench, library):
        self.bench, self.library = bench, library
        self.options = bench.options
        self.size = self.options.backlog
        self.topics = 0

    # ---- what is started ----

    def servers(self, *names, **cores):
        servers = Servers(self.bench.folder / "servers", self.library, cores)
        servers.up(*names)
        return servers

    def start(self, servers=None, postgres=True):
        """A stack with what is up, or embedded."""
        both, engine, store_url = [], [], None
        if servers:
            self.topics += 1
            both = ["--kafka.brokers", servers.addresses["kafka"], "--kafka.topic", f"bench.{self.topics}"]
            if "redis" in servers.addresses:
                engine = ["--redis.url", servers.addresses["redis"]]
            if postgres and "postgres" in servers.addresses:
                store_url = servers.addresses["postgres"]
        return self.bench.start("written", *both, *engine, platform=both, store_url=store_url)

    def load(self, stack, seconds=None, requests=None, rate=None, connections=CONNECTIONS):
        arguments = ["--rate", rate] if rate else []
        result = self.library.run_load(f"127.0.0.1:{stack.engine.port}", self.bench.bodies, connections, 1, seconds, requests,
                                       key_file=stack.folder / "agent.key", serial=self.bench.serial, more=arguments)
        self.bench.serial += result["requests"]
        return result

    @staticmethod
    def end(stack):
        stack.engine.stop()
        stack.platform.stop()
        stack.close()

    def check_rows(self, stack, servers, postgres=True):
        """As many rows of the engine as its journal has records."""
        records = stack.metrics(stack.engine)["writ_engine_journal_seq"]
        sql = "SELECT count(*) FROM records WHERE seq IS NOT NULL"
        if postgres:
            done = subprocess.run(["psql", "-qAt", servers.addresses["postgres"], "-c", sql], capture_output=True, text=True)
            if done.returncode != 0:
                self.library.fail(f"psql: {done.stderr}")
            stored = int(done.stdout)
        else:
            with contextlib.closing(sqlite3.connect(stack.data / "platform.db")) as database:
                stored = database.execute(sql).fetchone()[0]
        if stored != records:
            self.library.fail(f"{records:.0f} records, but {stored} rows")

    # ---- rows ----

    def offered(self):
        def rounds(stack):
            self.load(stack, seconds=SETTLE_SECONDS, rate=RATE)
            return [self.load(stack, seconds=self.options.seconds * 4, rate=RATE) for _ in range(self.options.rounds)]

        embedded = self.start()
        alone = rounds(embedded)
        self.end(embedded)
        servers = self.servers(*SERVERS)
        try:
            attached = self.start(servers)
            beside = rounds(attached)
            lag = self.lag_of(attached)
            attached.wait_published()
            self.check_rows(attached, servers)
            self.end(attached)
        finally:
            servers.down()
        p50, p99 = (lambda rs, name: statistics.median(r[name] for r in rs)), "p99_ms"
        ratio = p50(beside, p99) / p50(alone, p99)
        row = {"name": "offered_5k", "req_s": round(p50(beside, "req_s")), "p50_ms": round(p50(beside, "p50_ms"), 3),
               "p99_ms": round(p50(beside, p99), 3), "embedded_p50_ms": round(p50(alone, "p50_ms"), 3),
               "embedded_p99_ms": round(p50(alone, p99), 3), "ratio": round(ratio, 2), "goal_met": ratio <= P99_GOAL,
               "text": f"p50 {p50(beside, 'p50_ms'):.3f} p99 {p50(beside, p99):.3f} ms; embedded p50 {p50(alone, 'p50_ms'):.3f} "
                       f"p99 {p50(alone, p99):.3f} ms; p99 {ratio:.2f} of it (goal {P99_GOAL})"}
        return [row, lag]

    def lag_of(self, stack):
        spans, stop = [], threading.Event()

        def ask():
            while not stop.is_set():
                with stack.at_engine("agent") as wire:
                    trace = wire.post("/v1/agent/authorize", {"action": "get_order", "actor": "assistant-0"}).json["trace_id"]
                begun = time.monotonic()
                with stack.at_platform("auditor") as wire:
                    while wire.get(f"/api/v1/audit/trace/{trace}").json["events"] == []:
                        time.sleep(0.002)
                spans.append((time.monotonic() - begun) * 1000)
                time.sleep(0.01)
        asker = threading.Thread(target=ask)
        asker.start()
        self.load(stack, seconds=self.options.seconds * 8, rate=RATE)
        stop.set()
        asker.join()
        p50, p99 = quantile(spans, 0.5), quantile(spans, 0.99)
        return {"name": "lag", "samples": len(spans), "p50_ms": round(p50, 1), "p99_ms": round(p99, 1), "goal_met": p99 <= LAG_GOAL_MS,
                "text": f"a decision can be queried after p50 {p50:.0f} p99 {p99:.0f} ms, {len(spans)} asked for (goal {LAG_GOAL_MS})"}

    def wait_delivered(self, stack):
        def lag():
            now = stack.metrics(stack.engine)
            return now["writ_engine_publish_delivery_lag_records"] if now["writ_engine_journal_seq"] == now["writ_engine_journal_durable_seq"] else 1
        while lag() > 0:
            time.sleep(0.02)

    def backlog(self, stack):
        """Decisions that nobody reads yet; how many records that is."""
        before = stack.metrics(stack.engine)["writ_engine_journal_seq"]
        self.load(stack, requests=self.size, connections=CLOSED_CONNECTIONS)
        return stack.metrics(stack.engine)["writ_engine_journal_seq"] - before

    def publish(self):
        servers = self.servers("kafka")
        try:
            stack = self.start(servers)
            stack.wait_published()
            stack.platform.stop()
            servers.run("kill9", "kafka")
            records = self.backlog(stack)
            servers.run("start", "kafka")

            def waiting():
                return stack.metrics(stack.engine)["writ_engine_publish_delivery_lag_records"]
            first = most = waiting()
            while first >= most:
                first = waiting()
            begun, cpu = time.monotonic(), cpu_seconds([stack.engine.pid])
            self.wait_delivered(stack)
            seconds, spent = time.monotonic() - begun, cpu_seconds([stack.engine.pid]) - cpu
            stack.platform.start()
            stack.wait_published()
            self.end(stack)
        finally:
            servers.down()
        rate, cpu_us = first / seconds, spent * 1e6 / first
        return {"name": "publish", "records": round(records), "records_s": round(rate), "cpu_us": round(cpu_us, 2), "goal_met": None,
                "text": f"{rate:,.0f} records/s to Kafka, {cpu_us:.1f} us of the engine's CPU each, of {records:.0f} that waited"}

    @staticmethod
    def stored_at_least(stack, count):
        """(when, how many): since its start the platform has stored so many records."""
        while (stored := stack.metrics(stack.platform)["writ_platform_ingest_events_total"]) < count:
            time.sleep(0.02)
        return time.monotonic(), stored

    def ingest(self, name):
        postgres = name == "ingest_postgres"
        servers = self.servers("kafka", *(["postgres"] if postgres else []), postgres="0")  # beside the engine, which idles
        try:
            stack = self.start(servers)
            stack.wait_published()
            stack.platform.stop()
            records = self.backlog(stack)
            self.wait_delivered(stack)
            stack.platform.start()
            begun, first = self.stored_at_least(stack, 1)
            ended, last = self.stored_at_least(stack, records)
            stack.wait_published()
            self.check_rows(stack, servers, postgres)
            ours = cpu_seconds([stack.platform.pid])
            theirs = None
            if postgres:
                theirs = cpu_seconds(process_tree(int((servers.folder / "postgres" / "data" / "postmaster.pid").read_text().split()[0])))
            self.end(stack)
        finally:
            servers.down()
        rate, goal = (last - first) / (ended - begun), INGEST_GOALS[name]
        beside = f", PostgreSQL's {theirs * 1e6 / records:.1f}" if postgres else ""
        return {"name": name, "rows": round(records), "rows_s": round(rate), "cpu_us": round(ours * 1e6 / records, 2),
                "postgres_cpu_us": round(theirs * 1e6 / records, 2) if postgres else None, "goal_met": rate >= goal,
                "text": f"{rate:,.0f} rows/s of {records:.0f} (goal {goal:,}); CPU a row: the platform's {ours * 1e6 / records:.1f} us{beside}"}

    def outage(self):
        away = self.options.outage
        servers = self.servers("kafka", "postgres")
        try:
            stack = self.start(servers)
            stack.wait_published()
            done, away_still = threading.Event(), threading.Event()
            away_still.set()

            def go_on():
                while not done.is_set():
                    self.load(stack, seconds=2, rate=RATE if away_still.is_set() else RATE // 10)
            sender = threading.Thread(target=go_on)
            sender.start()
            servers.run("kill9", "kafka")
            time.sleep(away)
            waited = stack.metrics(stack.engine)["writ_engine_publish_lag_records"]
            servers.run("start", "kafka")
            begun = time.monotonic()
            away_still.clear()
            while stack.metrics(stack.engine)["writ_engine_publish_lag_records"] > RATE:
                if time.monotonic() - begun > CATCH_UP_SECONDS:
                    self.library.fail(f"{waited:.0f} records waited, and are not stored {CATCH_UP_SECONDS} s after the broker was back")
                time.sleep(0.05)
            seconds = time.monotonic() - begun
            done.set()
            sender.join()
            stack.wait_published()
            self.check_rows(stack, servers)
            self.end(stack)
        finally:
            servers.down()
        return {"name": "outage", "away_s": away, "waited": round(waited), "seconds": round(seconds, 1), "goal_met": None,
                "text": f"{away:.0f} s without a broker, {waited:.0f} records waited; all but the newest second's were stored {seconds:.1f} s after it was back"}

    def measure(self, wanted):
        rows = []
        if "offered_5k" in wanted or "lag" in wanted:
            rows += self.offered()
        if "publish" in wanted:
            rows.append(self.publish())
        rows += [self.ingest(name) for name in INGEST_GOALS if name in wanted]
        if "outage" in wanted:
            rows.append(self.outage())
        return rows


def measure(bench, wanted, library):
    return StackBench(bench, library).measure(wanted) if wanted else []


def print_table(rows):
    if rows:
        print("\nwith Kafka and PostgreSQL")
    for r in rows:
        print(f"  {r['name']:<16}{r['text']}")
