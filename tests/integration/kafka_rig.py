"""A real broker, a real platform and half an engine (kafka_driver), for tests that kill each of them.

The driver prints each record that its journal has made durable; that list is what must be in the
store, each once and under its own number, whatever died in between.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

import confluent_kafka

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "e2e"))

import checker  # noqa: E402
import harness  # noqa: E402
from harness import BUILD, Program, Stack, eventually, free_port  # noqa: E402,F401

STACK = TOP / "ops" / "stack"
CANNOT = 3  # what ops/stack ends with where this machine cannot have a server
JARS = os.environ.get("WRIT_KAFKA_JARS", str(TOP / "build" / "stack-jars"))


class Broker:
    """One Kafka broker of the tests' own, by ops/stack."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="writ-kafka-")
        self.port = free_port(2)  # the controller takes the next one
        self.environment = {**os.environ, "WRIT_STACK": self.folder, "WRIT_KAFKA_PORT": str(self.port)}
        self.topics = 0

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def server_pid(self):
        file = pathlib.Path(self.folder) / "kafka" / "pid"
        return int(file.read_text()) if file.exists() else None

    def stack(self, verb):
        return subprocess.run([str(STACK), verb, "kafka"], env=self.environment, capture_output=True, text=True, timeout=900)

    def up(self):
        """"" when it is up; else why this machine cannot have it."""
        done = self.stack("up")
        if done.returncode == CANNOT:
            return done.stderr.strip().splitlines()[-1]
        assert done.returncode == 0, done.stdout + done.stderr
        self.make_archive()
        return ""

    def make_archive(self):
        """The first broker of a clone stops cleanly once: that writes the archive of classes, which halves the cost of all later starts."""
        archive = pathlib.Path(JARS) / "kafka.jsa"
        with open(pathlib.Path(JARS) / "archive.lock", "w") as lock, contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # another process makes it
            if not archive.exists():
                assert self.stack("down").returncode == 0
                self.start()

    def kill(self):
        assert self.stack("kill9").returncode == 0

    def start(self):
        done = self.stack("start")
        assert done.returncode == 0, done.stdout + done.stderr

    def close(self):
        self.stack("kill9")
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_topic(self):
        self.topics += 1
        return f"writ.audit.test{self.topics}"

    def tool(self, name, *arguments, stdin=None, check=True):
        """One of Kafka's own tools, from the same distribution."""
        done = subprocess.run(["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{JARS}/lib/*", f"org.apache.kafka.tools.{name}",
                               "--bootstrap-server", self.address, *arguments], input=stdin, capture_output=True, text=True, timeout=600)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ends(self, topic):
        """{partition: the next offset to be written}."""
        asker = confluent_kafka.Consumer({"bootstrap.servers": self.address, "group.id": "ends"})
        try:
            partitions = asker.list_topics(topic, timeout=60).topics[topic].partitions
            return {number: asker.get_watermark_offsets(confluent_kafka.TopicPartition(topic, number), timeout=60)[1] for number in partitions}
        finally:
            asker.close()

    def create(self, topic, partitions, **settings):
        more = [word for name, value in settings.items() for word in ("--config", f"{name.replace('_', '.')}={value}")]
        self.tool("TopicCommand", "--create", "--topic", topic, "--partitions", str(partitions), *more)

    def delete(self, topic):
        self.tool("TopicCommand", "--delete", "--topic", topic)

    def truncate(self, topic, offsets):
        """Deletes every record before these offsets ({partition: offset})."""
        wanted = {"partitions": [{"topic": topic, "partition": p, "offset": o} for p, o in offsets.items()], "version": 1}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(wanted, file)
            file.flush()
            self.tool("DeleteRecordsCommand", "--offset-json-file", file.name)

    def put(self, topic, lines):
        """Messages by the console's producer: "name:value,name:value<TAB>value" each."""
        self.tool("ConsoleProducer", "--topic", topic, "--reader-property", "parse.headers=true", stdin="\n".join(lines) + "\n")

    def read(self, topic, count):
        """Messages by the console's consumer: dictionaries with partition, headers, key, value."""
        shown = ["partition", "headers", "key", "value"]
        options = [word for name in shown for word in ("--formatter-property", f"print.{name}=true")]
        text = self.tool("consumer.ConsoleConsumer", "--topic", topic, "--from-beginning", "--max-messages", str(count),
                         "--timeout-ms", "30000", *options, check=False)
        found = []
        for line in text.splitlines():
            partition, headers, key, value = line.split("\t", 3)
            found.append({"partition": int(partition.split(":")[1]), "key": key, "value": value,
                          "headers": dict(pair.split(":", 1) for pair in headers.split(","))})
        return found


class Driver:
    """kafka_driver: a journal and a publisher, without the rest of an engine."""

    def __init__(self, rig, node, partitions=4):
        self.rig, self.node, self.partitions = rig, node, partitions
        self.folder = rig.folder / f"journal-{node}"
        self.folder.mkdir(exist_ok=True)
        self.log = rig.folder / f"driver-{node}.log"
        self.acked = {}
        self.process = None

    def start(self):
        url = f"http://127.0.0.1:{self.rig.platform.port}"
        self.lines, self.arrived = [], threading.Condition()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [str(BUILD / "tests" / "kafka_driver"), str(self.folder), self.node, url, str(self.rig.stack.key_file),
                 str(self.rig.stack.data / "pepper"), self.rig.at, self.rig.topic, str(self.partitions)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        return self

    def read(self):
        for line in self.process.stdout:
            words = line.split()
            with self.arrived:
                if words[0] == "acked":
                    assert int(words[1]) not in self.acked, "the journal used a number twice"
                    self.acked[int(words[1])] = words[2]
                else:
                    self.lines.append(line.rstrip("\n"))
                self.arrived.notify_all()
        with self.arrived:
            self.lines.append(None)
            self.arrived.notify_all()

    def send(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def answer(self, seconds=harness.PATIENCE):
        with self.arrived:
            assert self.arrived.wait_for(lambda: self.lines, seconds), f"the driver does not answer:\n{self.tail()}"
            return self.lines.pop(0)

    def ask(self, command):
        self.send(command)
        return self.answer()

    def append(self, count):
        assert self.ask(f"append {count}") == f"appended {count}", self.tail()

    def status(self):
        _, state, confirmed, delivered, durable, text = (self.ask("status") + " ").split(" ", 5)
        return {"state": state, "confirmed": int(confirmed), "delivered": int(delivered), "durable": int(durable), "text": text.strip()}

    def replays(self):
        return int(self.ask("replays").split()[1])

    def wait_delivered(self, seconds=None):
        eventually(lambda: self.status()["delivered"] >= max(self.acked), f"all is in Kafka: {self.status()}\n{self.tail()}", seconds)

    def wait_confirmed(self, seconds=None):
        def confirmed():
            now = self.status()
            return now["confirmed"] >= now["durable"]
        eventually(confirmed, f"all is confirmed\n{self.tail()}", seconds)

    def stop(self):
        self.send("stop")
        said = self.answer()
        assert self.process.wait(harness.PATIENCE) == 0, self.tail()
        self.reader.join()
        self.process = None
        return said

    def end(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.reader.join()
            self.process = None

    def tail(self):
        return self.log.read_text(errors="replace")[-3000:]


class Rig:
    """Platforms over one store, drivers, one topic. `at`: where they find the broker."""

    def __init__(self, broker, folder, partitions=4, consumes=True, at=None):
        self.broker, self.folder, self.topic = broker, pathlib.Path(folder), broker.new_topic()
        self.at = at or broker.address
        self.partitions = partitions
        self.stack = Stack(self.folder)
        self.platform = self.stack.platform
        self.plain = list(self.platform.arguments)
        self.stack.make_first_keys()
        self.consume(consumes)
        self.drivers, self.others = [], []

    def kafka_options(self):
        return ["--kafka.brokers", self.at, "--kafka.topic", self.topic]

    def consume(self, yes):
        self.platform.arguments = self.plain + (self.kafka_options() if yes else [])

    def other_platform(self):
        """Another platform over the same store."""
        number = len(self.others) + 2
        data = self.folder / f"data{number}"
        data.mkdir()
        port = free_port()
        program = Program("writ-platform", port, [
            "--data", data, "--store", self.stack.data / "platform.db", "--pepper_file", self.stack.data / "pepper",
            "--listen", f"127.0.0.1:{port}", *self.kafka_options()], self.folder / f"platform{number}.log")
        self.others.append(program)
        return program

    def put_to_sleep(self, program):
        """Where it holds no lock of the store's file, which nobody else could have until it wakes."""
        def asleep():
            program.signal(signal.SIGSTOP)
            try:
                with contextlib.closing(sqlite3.connect(self.stack.data / "platform.db", timeout=0, isolation_level=None)) as store:
                    store.execute("BEGIN IMMEDIATE")
                return True
            except sqlite3.OperationalError:
                program.signal(signal.SIGCONT)
                return False
        eventually(asleep, "it is stopped between two writes")

    def driver(self, node="node-1"):
        self.drivers.append(Driver(self, node, self.partitions))
        return self.drivers[-1]

    def metric(self, name, program=None):
        return self.stack.metrics(program or self.platform)[f"writ_platform_{name}"]

    def health(self, program=None):
        with harness.Wire((program or self.platform).address) as wire:
            return wire.get("/healthz").json

    def rows(self, sql, *parameters):
        with sqlite3.connect(f"file:{self.stack.data / 'platform.db'}?mode=ro", uri=True) as database:
            return database.execute(sql, parameters).fetchall()

    def stored(self, node):
        return dict(self.rows("SELECT seq, event_id FROM records WHERE node = ? ORDER BY seq", node))

    def wait_stored(self, driver, seconds=None):
        """Until the store has as many records as the driver has made durable."""
        eventually(lambda: len(self.stored(driver.node)) >= len(driver.acked),
                   f"{len(driver.acked)} records of {driver.node} are stored\n{driver.tail()}\n{self.platform.tail()}", seconds)

    def check(self, *drivers):
        """Each record of each engine once, under its number, nothing else: prints the line that says so."""
        for driver in drivers:
            told = checker.Told(self.folder / f"told-{driver.node}-{time.monotonic_ns()}.ndjson")
            told.tell(*({"durable": event_id, "node": driver.node, "seq": seq} for seq, event_id in list(driver.acked.items())))
            told.close()
            checker.check(told, checker.SqliteStore(self.stack.data / "platform.db"), nodes={driver.node})

    def logged(self, event, program=None):
        return [json.loads(line) for line in (program or self.platform).log.read_text().splitlines()
                if line.startswith("{") and re.search(rf'"event": ?"{event}"', line)]

    def close(self):
        for driver in self.drivers:
            driver.end()
        for program in [self.platform, *self.others]:
            if program.process is not None:
                program.signal(signal.SIGCONT)
            program.end()
