"""A fleet on machines of its own: three engines and three brokers, each in a network namespace.

    root (clients, platform) ──┐
    engine 0 … n               ├── router (a namespace): routes between all, and rules that lose packets
    broker 0 … 2             ──┘

Each host has one veth to the router. A cut is the router's: the link of a host down (both directions, to and from all), or
a rule that loses packets from one host to another, which the sender does not notice. Namespaces belong to processes that
die with this one, so nothing stays behind. Machine i is engine i with broker i.
"""

import base64
import os
import pathlib
import shutil
import signal
import socket
import subprocess

from harness import Closed, Program, Stack, Wire, eventually
from fleet import die_with_us
from kafka_rig import JARS, STACK

BROKER_PORT, CONTROLLER_PORT = 9092, 9093
KAFKA_DEFAULTS = {"broker.session.timeout.ms": 9000, "broker.heartbeat.interval.ms": 2000}


def why_not():
    """"" if this machine has Kafka, and can make namespaces and routes; else the reason."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None or shutil.which("nsenter") is None or shutil.which("unshare") is None:
        return "ip, nsenter or unshare is not installed"
    tried = subprocess.run(["unshare", "-n", "sh", "-c", "ip link add one type veth peer name two && ip rule add from 192.0.2.1 blackhole && "
                            "echo 1 > /proc/sys/net/ipv4/ip_forward"], capture_output=True, text=True)
    if tried.returncode != 0:
        return f"this machine makes no network namespaces: {tried.stderr.strip()[-200:]}"
    fetched = subprocess.run(["bash", "-c", 'top=$1; . "$1/ops/lib/kafka/stack.bash"; kafka_fetch', "-", STACK.parents[1]],
                             env={**os.environ, "WRIT_KAFKA_JARS": JARS}, capture_output=True, text=True)
    return "" if fetched.returncode == 0 else fetched.stderr.strip().splitlines()[-1]


class Namespace:
    """Lives as long as a process that holds it."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec sleep infinity"], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, preexec_fn=die_with_us)
        assert self.holder.stdout.readline() == b"\n", "unshare makes no namespace"

    @property
    def prefix(self):
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net"]

    def run(self, *words, check=True):
        return subprocess.run([*self.prefix, *map(str, words)], check=check, capture_output=True, text=True)

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()


class Network:
    """Addresses 10.a.b.n, of which root has the first. Another run has others."""

    def __init__(self):
        for _ in range(100):
            a, b = os.urandom(2)
            self.base = f"10.{64 + a % 128}.{b}"
            if self.base not in subprocess.run(["ip", "route"], capture_output=True, text=True).stdout:
                break
        self.router = Namespace()
        self.router.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward; ip link set lo up")
        self.hosts, self.losses = {}, set()
        self.link_of_root = f"wf{os.getpid() % 100000}r"
        subprocess.run(["ip", "link", "add", self.link_of_root, "type", "veth", "peer", "name", "root", "netns", str(self.router.holder.pid)],
                       check=True)
        subprocess.run(["ip", "addr", "add", f"{self.base}.1/32", "dev", self.link_of_root], check=True)
        subprocess.run(["ip", "link", "set", self.link_of_root, "up"], check=True)
        self._at_router("root", f"{self.base}.1")
        subprocess.run(["ip", "route", "add", f"{self.base}.254", "dev", self.link_of_root], check=True)
        subprocess.run(["ip", "route", "add", f"{self.base}.0/24", "via", f"{self.base}.254", "src", f"{self.base}.1"], check=True)

    def _at_router(self, link, address):
        self.router.run("ip", "link", "set", link, "up")
        self.router.run("ip", "addr", "add", f"{self.base}.254/32", "dev", link)
        self.router.run("ip", "route", "add", address, "dev", link)

    def add(self, name, number):
        host = Namespace()
        address = f"{self.base}.{number}"
        self.router.run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", host.holder.pid)
        self._at_router(name, address)
        for words in (["link", "set", "lo", "up"], ["addr", "add", f"{address}/32", "dev", "eth0"], ["link", "set", "eth0", "up"],
                      ["route", "add", f"{self.base}.254", "dev", "eth0"], ["route", "add", "default", "via", f"{self.base}.254"]):
            host.run("ip", *words)
        self.hosts[name] = (host, address)
        return host, address

    def address(self, name):
        return f"{self.base}.1" if name == "root" else self.hosts[name][1]

    def down(self, name):
        self.router.run("ip", "link", "set", name, "down")

    def up(self, name):
        self.router.run("ip", "link", "set", name, "up")
        self.router.run("ip", "route", "replace", self.address(name), "dev", name)

    def lose(self, source, target):
        """Packets from one host to another are lost from now on, without a sign."""
        self.router.run("ip", "rule", "add", "from", self.address(source), "to", self.address(target), "blackhole")
        self.losses.add((source, target))

    def heal(self):
        for source, target in self.losses:
            self.router.run("ip", "rule", "del", "from", self.address(source), "to", self.address(target), "blackhole")
        self.losses.clear()
        for name in self.hosts:
            self.up(name)

    def close(self):
        subprocess.run(["ip", "link", "del", self.link_of_root], capture_output=True)
        for host, _ in self.hosts.values():
            host.close()
        self.router.close()


class NetBroker:
    """One of three brokers, each also a controller (KRaft, combined mode)."""

    def __init__(self, rig, number):
        self.rig, self.number = rig, number
        self.name = f"broker{number}"
        self.host, self.address = rig.network.add(self.name, 21 + number)
        self.folder = rig.folder / self.name
        self.folder.mkdir()
        self.process = None

    def settings(self):
        voters = ",".join(f"{i + 1}@{self.rig.network.base}.{21 + i}:{CONTROLLER_PORT}" for i in range(3))
        fixed = {
            "process.roles": "broker,controller", "node.id": self.number + 1, "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://{self.address}:{BROKER_PORT},CONTROLLER://{self.address}:{CONTROLLER_PORT}",
            "advertised.listeners": f"PLAINTEXT://{self.address}:{BROKER_PORT}", "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT", "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": "data", "num.network.threads": 2, "num.io.threads": 4, "offsets.topic.num.partitions": 1,
            "default.replication.factor": 3, "min.insync.replicas": 2, "offsets.topic.replication.factor": 3,
            "transaction.state.log.replication.factor": 3, "group.initial.rebalance.delay.ms": 0, "auto.create.topics.enable": "false",
            "log.retention.ms": -1, "log.retention.bytes": -1}
        return "".join(f"{name}={value}\n" for name, value in {**fixed, **self.rig.kafka}.items())

    def format(self):
        """A new disk, of the same cluster."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        (self.folder / "server.properties").write_text(self.settings())
        shutil.copy(STACK.parent / "lib" / "kafka" / "log4j2.properties", self.folder)
        done = subprocess.run([*self.java(), "kafka.tools.StorageTool", "format", "-t", self.rig.cluster, "-c", "server.properties"],
                              cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def java(self, *options):
        archive = pathlib.Path(JARS) / "kafka.jsa"
        shared = [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []
        return ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *shared, *options, "-cp", f"{JARS}/lib/*"]

    def start(self):
        shutil.rmtree(self.folder / "tmp", ignore_errors=True)
        (self.folder / "tmp").mkdir()
        with open(self.folder / "stdout.log", "ab") as out:
            self.process = subprocess.Popen(
                [*self.host.prefix, *self.rig.broker_prefix, *self.java("-Xms64m", "-Xmx256m", "-Dlog4j2.configurationFile=log4j2.properties", "-Dkafka.log=log",
                                               "-Djava.io.tmpdir=tmp"), "kafka.Kafka", "server.properties"],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=die_with_us)
        return self

    def answers(self):
        assert self.process.poll() is None, f"{self.name} ended:\n{(self.folder / 'log').read_text()[-3000:]}"
        try:
            socket.create_connection((self.address, BROKER_PORT), 1).close()
            return True
        except OSError:
            return False

    def wait_ready(self):
        eventually(self.answers, f"{self.name} answers")

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def end(self):
        if self.process is not None:
            self.kill()

    def log_folder(self, topic):
        return self.folder / "data" / f"{topic}-0"


class NetProgram(Program):
    """A program with an address of its own."""

    host_address = "127.0.0.1"

    @property
    def address(self):
        return (self.host_address, self.port)

    @property
    def url(self):
        return f"http://{self.host_address}:{self.port}"


class FleetNet(Stack):
    """Three brokers, `engines` engines of one fleet, a platform. `kafka`: settings of the brokers. `alone`: one more engine, of no fleet.
    `engine_prefix`, `broker_prefix`: commands before those of the programs."""

    def __init__(self, folder, engines=3, kafka=None, lease="5s", reactors="2", alone=False, engine_prefix=(), broker_prefix=()):
        super().__init__(pathlib.Path(folder))
        self.kafka = dict(KAFKA_DEFAULTS if kafka is None else kafka)
        self.cluster = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=").replace("-", "A").replace("_", "B")
        self.network, self.broker_prefix = Network(), list(broker_prefix)
        self.brokers = [NetBroker(self, i) for i in range(3)]
        self.name = "net"
        self.topic = f"writ.state.{self.name}"
        self.lease = lease
        addresses = ",".join(f"{broker.address}:{BROKER_PORT}" for broker in self.brokers)
        common = ["--kafka.brokers", addresses, "--kafka.topic", "writ.audit", "--insecure_public", "true"]
        self.platform.__class__ = NetProgram
        self.platform.host_address = self.network.address("root")
        listen = self.platform.arguments.index("--listen")
        self.platform.arguments[listen + 1] = f"{self.platform.host_address}:{self.platform.port}"
        members = [self.make_engine(i, reactors, common, engine_prefix) for i in range(engines + alone)]
        for one in members[:engines]:
            one.arguments += ["--fleet", self.name, "--fleet.advertise", one.url, "--fleet.lease", lease]
        self.engines, self.alone = members[:engines], members[-1] if alone else None
        self.engine = self.engines[0]
        self.platform.arguments[self.platform.arguments.index("--engine.url") + 1] = self.engine.url
        self.platform.arguments += common

    def make_engine(self, number, reactors, common, prefix):
        host, address = self.network.add(f"engine{number}", 11 + number)
        one = NetProgram("writ-engine", 8080, [], self.folder / f"engine{number}.log", prefix=[*host.prefix, *prefix])
        one.host_address, one.number, one.life, one.is_asleep = address, number, 0, False
        one.arguments = ["--data", "", "--pepper_file", str(self.data / "pepper"), "--listen", f"{address}:8080",
                         "--platform.url", self.platform.url, "--platform.key_file", str(self.key_file), "--reactors", reactors,
                         "--journal.segment_size", "1MiB", "--journal.stall", "10m", "--overload.delay", "0", "--node", "", *common]
        self.new_disk(one)
        return one

    def new_disk(self, engine):
        """A new data directory, of a new node: the platform has the records of the old one."""
        if engine.life > 0:
            shutil.rmtree(self.folder / f"engine{engine.number}-{engine.life}", ignore_errors=True)
        engine.life += 1
        folder = self.folder / f"engine{engine.number}-{engine.life}"
        folder.mkdir()
        for option, value in (("--data", folder), ("--node", f"e{engine.number}-{engine.life}")):
            engine.arguments[engine.arguments.index(option) + 1] = str(value)

    def start_brokers(self):
        for broker in self.brokers:
            broker.format()
            broker.start()
        for broker in self.brokers:
            broker.wait_ready()

    def start(self, policy=None):
        self.start_brokers()
        self.make_first_keys()
        self.platform.start()
        first = self.engines[0]
        plain = list(first.arguments)
        first.arguments = [*plain, "--fleet.seed", "true"]
        first.start()
        first.arguments = plain
        self.keys["reviewer"] = self.key("rita", ["reviewer"], owner="rita", reviewers=["*"], wait=False)
        if policy:
            self.policy("all", policy, wait=False)
        programs = [*self.engines, *([self.alone] if self.alone else [])]
        for engine in programs[1:]:
            engine.start(ready=False)
        for engine in programs:
            engine.wait_ready()
        newest = self.metrics(self.platform)["writ_platform_bundle_revision"]
        for engine in programs:
            eventually(lambda e=engine: self.metrics(e)["writ_engine_bundle_revision"] >= newest, f"{engine.log} follows")
        return self

    def at(self, number, key="agent", **options):
        return Wire(self.engines[number].address, self.keys.get(key, key), **options)

    def leads_in(self, engine):
        """The term that it leads in; 0: it does not lead, or is stopped or cut off and does not answer."""
        if engine.process is None or engine.is_asleep:
            return 0
        try:
            with Wire(engine.address, self.keys["admin"], timeout=2) as wire:
                text = wire.get("/metrics").body.decode()
        except (Closed, OSError, ValueError):
            return 0
        gauges = dict(line.split(" ") for line in text.splitlines() if line.startswith(("writ_engine_fleet_leads ", "writ_engine_fleet_term ")))
        return int(gauges["writ_engine_fleet_term"]) if gauges.get("writ_engine_fleet_leads") == "1" else 0

    def leader(self, seconds=None):
        """That of the newest term: an older one may not have read yet that it is deposed."""
        def found():
            terms = [(self.leads_in(engine), engine.number) for engine in self.engines]
            return max(terms) if max(terms)[0] > 0 else None

        return self.engines[eventually(found, "an engine leads", seconds)[1]]

    def partition_leader(self):
        """The broker that leads the partition of the log, by Kafka's own answer."""
        done = subprocess.run([*self.brokers[0].java(), "org.apache.kafka.tools.TopicCommand", "--bootstrap-server",
                               ",".join(f"{b.address}:{BROKER_PORT}" for b in self.brokers if b.process is not None),
                               "--describe", "--topic", self.topic], capture_output=True, text=True, timeout=60)
        words = done.stdout.split("Leader:")
        return self.brokers[int(words[1].split()[0]) - 1] if len(words) > 1 and words[1].split()[0].isdigit() else None

    def revive(self):
        """Everything runs, is reached, and is ready."""
        self.network.heal()
        for one in [*self.brokers, *self.engines]:
            if one.process is not None:
                self.wake(one)
        for broker in self.brokers:
            if broker.process is None or broker.process.poll() is not None:
                broker.start()
        for broker in self.brokers:
            broker.wait_ready()
        for engine in self.engines:
            self.start_again(engine)
        for engine in self.engines:
            self.wait_ready(engine)

    def sleep(self, program):
        """A zombie: it does nothing from here on."""
        program.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, program.process.pid, os.WSTOPPED | os.WNOWAIT)
        program.is_asleep = True

    def wake(self, program):
        program.is_asleep = False
        program.signal(signal.SIGCONT)

    def start_again(self, engine):
        """What a supervisor does: an engine that has ended is started. It may end by itself, but not crash."""
        if engine.process is not None and engine.process.poll() is not None:
            assert engine.process.returncode in (0, 1, -signal.SIGKILL), f"{engine.log}: {engine.process.returncode}\n{engine.tail()}"
            engine.process = None
        if engine.process is None:
            engine.start(ready=False)

    def wait_ready(self, engine):
        """It may end while it waits: it was deposed, or Kafka was not there; then it is started again."""
        def ready():
            self.start_again(engine)
            try:
                return engine.is_ready()
            except AssertionError:
                return False

        eventually(ready, f"engine {engine.number} is ready; its log:\n{engine.tail()}")

    def close(self):
        for engine in [*self.engines, *([self.alone] if self.alone else [])]:
            engine.end()
        self.platform.end()
        for broker in self.brokers:
            broker.end()
        self.network.close()
