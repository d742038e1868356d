"""Networks as they are: names with several addresses, links that carry little, descriptors that run out."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading
import time

import pytest

import harness
from names import Names, asking
from wire import Wire

AGENT = "/v1/agent/authorize"
READS = 'rules:\n  - {id: reads, agents: ["*"], actions: ["get_*"], decision: allow}\n'


def health(program):
    with Wire(program.address) as wire:
        return wire.get("/healthz").json["checks"]


@pytest.fixture
def own_hosts(tmp_path):
    """Words before a command that give it a hosts file of its own, and the file."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("SKIP: a hosts file of one's own needs root, and a machine that allows mounts")
    hosts = tmp_path / "hosts"
    return ["unshare", "-m", "sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "sh"], hosts


def test_of_a_names_addresses_the_one_that_answers_is_used(fresh, own_hosts):
    """Most machines know localhost as ::1 first, and a server listens on 127.0.0.1 alone."""
    prefix, hosts = own_hosts
    hosts.write_text("::1 peer.test\n127.0.0.1 peer.test\n")
    stack = fresh(engine_prefix=prefix, platform_prefix=prefix)
    stack.platform.arguments += ["--engine.url", f"http://peer.test:{stack.engine.port}"]
    stack.engine.arguments += ["--platform.url", f"http://peer.test:{stack.platform.port}"]
    stack.start()
    stack.policy("base", READS)
    with stack.at_platform("agent") as wire:
        assert wire.post(AGENT, {"action": "get_x"}).status == 200
    stack.wait_published()


class Narrow:
    """Carries bytes between clients and an address, so many a second in each direction."""

    def __init__(self, to, rate, host="127.0.0.1"):
        self.to, self.rate, self.host, self.port, self.ends = to, rate, host, harness.free_port(), []
        self.open()

    def open(self):
        self.listener = socket.create_server((self.host, self.port))
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.socket()
            self.ends += [client, server]
            for one in (client, server):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            try:
                server.connect(self.to)
            except OSError:
                self.cut([client, server])
                continue
            for a, b in ((client, server), (server, client)):
                threading.Thread(target=self.carry, args=(a, b), daemon=True).start()

    def carry(self, a, b):
        try:
            while data := a.recv(4096):
                time.sleep(len(data) / self.rate)
                b.sendall(data)
        except OSError:
            pass
        self.cut([a, b])

    @staticmethod
    def cut(ends):
        for one in ends:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.cut([self.listener, *self.ends])
        self.listener.close()


class Silent:
    """An address at which nobody answers for now: what comes to a full queue is dropped. Later it takes all and says nothing."""

    def __init__(self, port):
        self.listener = socket.create_server(("127.0.0.1", port), backlog=0)
        self.callers = []
        for _ in range(2):
            self.callers.append(socket.socket())
            self.callers[-1].setblocking(False)
            self.callers[-1].connect_ex(("127.0.0.1", port))

    def take(self):
        self.listener.setblocking(False)
        assert self.listener.accept()
        for caller in self.callers:
            caller.close()

    def came(self):
        """Who has come since and not left again."""
        count = 0
        with self.listener, contextlib.suppress(BlockingIOError):
            while True:
                count += self.listener.accept()[0].recv(1) != b""
        return count


def test_an_address_that_is_silent_holds_up_the_first_forwarded_request_alone(fresh, own_hosts):
    prefix, hosts = own_hosts
    hosts.write_text("127.0.0.1 peer.test\n127.0.0.2 peer.test\n")
    stack = fresh(platform_prefix=prefix).start()
    stack.policy("base", READS)
    way = Narrow(("127.0.0.1", stack.engine.port), 1 << 20, host="127.0.0.2")
    silent = Silent(way.port)
    stack.platform.stop()
    stack.platform.arguments += ["--engine.url", f"http://peer.test:{way.port}"]
    stack.platform.start()
    with stack.at_platform("agent") as wire:
        assert wire.post(AGENT, {"action": "get_x"}).status == 200
        silent.take()
        for _ in range(3):
            assert wire.post(AGENT, {"action": "get_x"}).status == 200
    assert silent.came() == 0
    way.close()


def test_an_address_that_was_silent_is_not_asked_by_feed_or_publisher_again(fresh, own_hosts):
    prefix, hosts = own_hosts
    hosts.write_text("127.0.0.1 peer.test\n127.0.0.2 peer.test\n")
    stack = fresh(engine_prefix=prefix)
    way = Narrow(stack.platform.address, 1e9, host="127.0.0.2")
    silent = Silent(way.port)
    stack.engine.arguments += ["--platform.url", f"http://peer.test:{way.port}"]
    stack.start()
    stack.wait_published()
    silent.take()
    for number in range(3):
        way.cut(way.ends)
        stack.policy("base", READS.replace("reads", f"reads{number}"))
        stack.wait_published()
    assert silent.came() == 0
    way.close()


@pytest.fixture
def dark(tmp_path):
    """Words before a command whose name server takes each question and never answers."""
    with contextlib.closing(Names("127.53.0.1")) as names:
        names.is_dark = True
        yield asking(names, tmp_path)


def test_a_name_server_that_says_nothing_holds_up_neither_start_nor_end(fresh, dark):
    stack = fresh(engine_prefix=dark, platform_prefix=dark, engine=["--redis.url", "redis://cache.dark.test", "--redis.timeout", "200ms"])
    stack.make_first_keys()
    stack.platform.arguments += ["--engine.url", "http://engine.dark.test:1"]
    stack.engine.arguments += ["--platform.url", "http://platform.dark.test:1"]
    stack.platform.start()
    stack.engine.start(ready=False)
    harness.eventually(stack.engine.is_listening, "the engine listens")
    harness.eventually(lambda: "Temporary failure" in health(stack.engine)["redis"], "Redis' name is missed")
    for program in (stack.engine, stack.platform):
        def is_told():
            log = [json.loads(line) for line in program.log.read_text().splitlines(keepends=True) if line.endswith("\n")]
            return any(line["event"] == "not_forwarding" and "Temporary failure" in line["text"] for line in log)
        harness.eventually(is_told, "the peer's name is missed")
        program.stop()


# librdkafka's threads are C11's, of which ThreadSanitizer knows nothing: what they call back crashes in it.
by_librdkafka = pytest.mark.skipif("TSAN_OPTIONS" in os.environ, reason="SKIP: librdkafka's threads cannot call back under ThreadSanitizer")


@by_librdkafka
def test_nor_does_one_that_is_asked_for_brokers(fresh, dark):
    brokers = ["--kafka.brokers", "broker.dark.test:9092"]
    stack = fresh(engine_prefix=dark, platform_prefix=dark, engine=brokers, platform=brokers)
    stack.start()
    harness.eventually(lambda: "broker.dark.test" in health(stack.platform)["kafka"], "the brokers' name is missed")
    stack.engine.stop()
    stack.platform.stop()


@by_librdkafka
def test_brokers_are_found_by_a_name_server_that_is_slow(fresh, tmp_path):
    with contextlib.closing(Names("127.53.0.2", delay=2.5)) as names, socket.create_server(("127.0.0.1", 0)) as broker:
        stack = fresh(platform_prefix=asking(names, tmp_path), platform=["--kafka.brokers", f"broker.late.test:{broker.getsockname()[1]}"])
        stack.make_first_keys()
        stack.platform.start()
        broker.settimeout(harness.PATIENCE)
        broker.accept()[0].close()


def test_a_bundle_that_takes_long_to_come_arrives(fresh):
    """Longer than the platform may be silent at an engine's first question, which is ten seconds."""
    stack = fresh()
    stack.start()
    narrow = Narrow(stack.platform.address, 50_000)
    try:
        stack.engine.stop()
        stack.engine.arguments += ["--platform.url", f"http://127.0.0.1:{narrow.port}"]
        rules = "".join(f'  - {{id: r{i}, agents: ["*"], actions: [get_{i}], decision: allow, reason: "{"x" * 400}"}}\n' for i in range(2000))
        stack.policy("base", "rules:\n" + rules, wait=False)
        stack.engine.start()
        newest = stack.metrics(stack.platform)["writ_platform_bundle_revision"]
        harness.eventually(lambda: stack.metrics(stack.engine)["writ_engine_bundle_revision"] >= newest, "a megabyte at 50 KB/s")
    finally:
        narrow.close()


@pytest.mark.parametrize("who", ["engine", "platform"])
def test_clients_cannot_take_a_programs_own_descriptors(fresh, who):
    """Segments of the journal are opened, and new clients answered, while others hold all connections there may be."""
    limited = ["prlimit", "--nofile=256:256"]
    stack = fresh(engine=["--journal.segment_size", "1MiB"], **{f"{who}_prefix": limited})
    stack.start()
    stack.policy("base", READS)
    program = getattr(stack, who)
    held = [socket.create_connection(program.address) for _ in range(300)]
    try:
        harness.eventually(program.is_ready, "who has said nothing for a while makes room for who asks")
        with stack.at_engine("agent") as wire:

            def reply():
                """Who is idle while others come may have to come again, too; on a busy machine more than once."""
                with contextlib.suppress(OSError, harness.Closed):
                    got = wire.post(AGENT, {"action": "get_x", "args": {"text": "y" * 30000}})
                    return None if got.json.get("code") == "overloaded" else got

            for _ in range(200):
                got = harness.eventually(reply, "there is a place")
                assert got.status == 200, got
    finally:
        for one in held:
            one.close()
    stack.wait_published()
    log = [json.loads(line)["event"] for line in program.log.read_text().splitlines()]
    assert "connections_lowered" in log and "journal_has_no_spare" not in log


def test_a_redis_at_the_second_address_of_its_name_is_found(fresh, own_hosts, tmp_path):
    if shutil.which("redis-server") is None:
        pytest.skip("SKIP: redis-server is not installed")
    prefix, hosts = own_hosts
    hosts.write_text("127.0.0.1 cache.test\n127.0.0.9 cache.test\n")
    port = harness.free_port()
    redis = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.9", "--save", "", "--dir", str(tmp_path)],
                             stdout=subprocess.DEVNULL)
    try:
        stack = fresh(engine=["--redis.url", f"redis://cache.test:{port}"], engine_prefix=prefix)
        stack.start()
        harness.eventually(lambda: health(stack.engine)["redis"] == "ok", "the mirror is up")
    finally:
        redis.kill()
        redis.wait()


def test_that_the_platform_is_back_is_seen_at_once(fresh):
    """Without news from it, too, which a long poll would wait for."""
    stack = fresh()
    between = Narrow(stack.platform.address, 1e9)
    stack.engine.arguments += ["--platform.url", f"http://127.0.0.1:{between.port}"]
    stack.start()
    stack.wait_followed()
    between.close()
    harness.eventually(lambda: health(stack.engine)["feed"] != "ok", "the platform is missed")
    between.open()
    try:
        harness.eventually(lambda: health(stack.engine)["feed"] == "ok", "it is back")
    finally:
        between.close()
