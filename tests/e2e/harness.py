"""Starts, stops, kills and restarts the real programs in a directory of their own.

A Stack is one platform and one engine with fresh keys, made through the command line as a user
would. WRIT_BUILD names the build directory to test (default build/dev); WRIT_REACTORS the number
of reactors; WRIT_SEGMENT the size of a journal segment; WRIT_VALGRIND=1 runs both under valgrind; with
WRIT_TLS=1 the tests' requests go over TLS.
"""

import ctypes
import datetime
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import tempfile
import time

from authority import Authority
from wire import PATIENCE, Closed, Secure, Wire

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WRIT_BUILD", TOP / "build" / "dev"))
BIN = BUILD / "bin"
CORPORA = TOP.parent / "shared" / "corpora"
REACTORS = os.environ.get("WRIT_REACTORS", "4") # more than most machines that test have cores: threads meet in more ways
SEGMENT = os.environ.get("WRIT_SEGMENT", "16MiB") # each start of an engine fills two of them with zeros
UNDER_VALGRIND = os.environ.get("WRIT_VALGRIND") == "1"
LONG = os.environ.get("WRIT_LONG") == "1"
OVER_TLS = os.environ.get("WRIT_TLS") == "1"

_LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


class Ports:
    """Ports of loopback, each given once, below those from which the kernel serves outgoing connections.

    A server binds its port when it is ready to, which for a broker can be a minute after the choice: so
    whole blocks are claimed, each by a socket bound to its first port for as long as this process lives.
    """

    BLOCK = 64
    LOWEST = 10240

    def __init__(self):
        outgoing = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        end = outgoing if outgoing >= 2 * self.LOWEST else 1 << 16
        self.blocks = [range(first, first + self.BLOCK) for first in range(self.LOWEST, end - self.BLOCK, self.BLOCK)]
        random.SystemRandom().shuffle(self.blocks)
        self.claims, self.left = [], []

    @staticmethod
    def bound(port):
        """A socket that has this port, or None where somebody else does."""
        one = socket.socket()
        try:
            one.bind(("127.0.0.1", port))
            return one
        except OSError:
            one.close()
            return None

    def is_free(self, port):
        one = self.bound(port)
        if one is not None:
            one.close()
        return one is not None

    def take(self, count):
        """The first of so many ports side by side."""
        while True:
            if len(self.left) < count:
                block = self.blocks.pop()
                claim = self.bound(block[0])
                if claim is None:
                    continue
                self.claims.append(claim)
                self.left = list(block[1:])
            some, self.left = self.left[:count], self.left[count:]
            if all(self.is_free(port) for port in some):
                return some[0]


_PORTS = Ports()


def free_port(count=1):
    """A port that nobody has, or the first of some side by side."""
    return _PORTS.take(count)


def eventually(question, what, seconds=None):
    """Asks until the answer is true, and gives it back; an AssertionError when time is up."""
    deadline = time.monotonic() + (seconds or PATIENCE)
    pause = 0.002
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"still not so after {seconds or PATIENCE} s: {what}"
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


def seconds_until(question):
    """How long it takes until the answer is true."""
    start = time.monotonic()
    eventually(question, "what is timed")
    return time.monotonic() - start


def seconds(text):
    """A time that a program tells, since 1970."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def assert_told_once_a_second(events, reactors=1):
    """By their own times: so many reactors each tell at most one a second, however long what they tell of took."""
    times = sorted(seconds(event["timestamp"]) for event in events)
    assert all(later - earlier > 0.9 for earlier, later in zip(times, times[reactors:])), times


def revoked(wire, path):
    """Revokes a key until every engine has heard of it. Only who is silent for a second is named, and may be asked again."""
    def heard():
        begun = time.monotonic()
        reply = wire.delete(path)
        assert reply.status == 200 and reply.json["revoked"] is True, reply
        assert reply.json["behind"] == [] or time.monotonic() - begun > 0.9, f"nobody was waited for: {reply}"
        return reply.json["behind"] == [] and reply
    return eventually(heard, f"all engines have heard of DELETE {path}")


def assert_within_a_second(changes):
    """[(until it was live, until it was answered)], seconds. One may have to wait for a disk that others keep busy; an engine that
    only looked now and then would be late mostly. A machine that is slow is so with the answers, too."""
    live, answered = zip(*changes)
    assert statistics.median(live) < 1 + 5 * statistics.median(answered), (live, answered)


class Program:
    """One running program of ours: this process is its parent and waits for it."""

    def __init__(self, name, port, arguments, log, environment=None, prefix=()):
        self.name, self.port, self.arguments = name, port, [str(a) for a in arguments]
        self.log = pathlib.Path(log)
        self.environment, self.prefix = dict(environment or {}), list(prefix)
        self.process = None
        self.secure = None

    @property
    def address(self):
        return self.secure or ("127.0.0.1", self.port)

    def speak_tls(self, authority, pair):
        """Its address is one with TLS from now on; `port` stays the plain one."""
        self.secure = Secure(("127.0.0.1", free_port()), ssl.create_default_context(cafile=str(authority.cert)))
        self.arguments += ["--listen.tls", f"127.0.0.1:{self.secure[1]}", "--tls.cert_file", str(pair.cert), "--tls.key_file", str(pair.key)]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self):
        return self.process.pid

    def start(self, ready=True):
        assert self.process is None, f"{self.name} runs already"
        command = [*self.prefix, str(BIN / self.name), *self.arguments]
        if UNDER_VALGRIND:
            command = ["valgrind", "-q", f"--suppressions={TOP}/tests/valgrind.supp", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect",
                       "--error-exitcode=9", *command]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("WRIT_") or key == "WRIT_BUG"}
        environment.update(self.environment)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment,
                preexec_fn=lambda: _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        if ready:
            self.wait_ready()
        return self

    def is_listening(self):
        try:
            socket.create_connection(self.address, 5).close()
            return True
        except OSError:  # nobody listens, or who does has not come round to it
            return False

    def is_ready(self):
        if self.process.poll() is not None:
            raise AssertionError(f"{self.name} ended with {self.process.returncode}:\n{self.tail()}")
        try:
            with Wire(self.address, timeout=5) as wire:
                return wire.get("/readyz").status == 200
        except (Closed, OSError):
            return False

    def wait_ready(self):
        eventually(self.is_ready, f"{self.name} is ready; its log:\n{self.tail()}")

    def tail(self, size=4000):
        return self.log.read_text(errors="replace")[-size:] if self.log.exists() else ""

    def wait(self, seconds=PATIENCE):
        """Waits for the program's end and gives its status (-9 after SIGKILL)."""
        status = self.process.wait(seconds)
        self.process = None
        return status

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        """kill -9: what a crash of the process is to its files."""
        self.process.kill()
        return self.wait()

    def stop(self):
        """SIGTERM: drains; must end with 0."""
        self.process.terminate()
        try:
            status = self.wait()
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            self.wait()
            raise AssertionError(f"{self.name} does not stop on SIGTERM; its log:\n{self.tail()}") from None
        assert status == 0, f"{self.name} ended with {status} on SIGTERM; its log:\n{self.tail()}"

    def end(self):
        """For teardown: gone, whatever state it is in."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


_FIRST = {}  # what the first stack of this process had, once its first keys were made: data and keys


class Stack:
    """Platform and engine, their data, their keys.

    Stacks that are started with start() begin with copies of one store with one set of keys and one pepper; what is to be a
    store of its own calls make_first_keys() before.

    Both keep their data in data/, as under ops/run; `engine_data` gives the engine another place.
    """

    TENANT = "default"

    def __init__(self, folder=None, engine=(), platform=(), engine_environment=None, platform_environment=None,
                 engine_data=None, engine_prefix=(), platform_prefix=(), store_url=None):
        self.own_folder = folder is None
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="writ-test-"))
        self.data = self.folder / "data"
        self.engine_data = pathlib.Path(engine_data or self.data)
        self.data.mkdir(parents=True, exist_ok=True)
        self.key_file = self.folder / "platform.key"
        self.keys = {}
        self.store_url = store_url
        if store_url:
            platform = [*platform, "--store.url", store_url]
        self.engine_options = list(engine)
        self.platform = Program("writ-platform", free_port(), [], self.folder / "platform.log", platform_environment,
                                platform_prefix)
        self.engine = Program("writ-engine", free_port(), [], self.folder / "engine.log", engine_environment,
                              engine_prefix)
        self.platform.arguments = ["--data", str(self.data), "--listen", f"127.0.0.1:{self.platform.port}",
                                   "--engine.url", self.engine.url, *platform]
        self.engine.arguments = ["--data", str(self.engine_data), "--pepper_file", str(self.data / "pepper"),
                                 "--listen", f"127.0.0.1:{self.engine.port}", "--platform.url", self.platform.url,
                                 "--platform.key_file", str(self.key_file),
                                 "--reactors", REACTORS, "--journal.segment_size", SEGMENT,
                                 "--journal.stall", "10m",  # nobody is refused because the machine's disk is slow
                                 "--overload.delay", "0",  # nor because its processors are
                                 *engine]
        if OVER_TLS:
            authority = Authority(self.folder / "ca")
            pair = authority.pair("server")
            self.platform.speak_tls(authority, pair)
            self.engine.speak_tls(authority, pair)

    # ---- life ----

    def start(self):
        self.begin()
        self.platform.start()
        self.engine.start()
        return self

    def close(self):
        self.engine.end()
        self.platform.end()
        if self.own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    # ---- keys ----

    def cli(self, *arguments, check=True, key=None, stdin=None, environment=None, timeout=PATIENCE):
        """Runs `writ`; its CompletedProcess."""
        environment = {**{k: v for k, v in os.environ.items() if not k.startswith("WRIT_") or k == "WRIT_BUG"}, **(environment or {})}
        if key:
            environment["WRIT_KEY"] = key
        done = subprocess.run([str(BIN / "writ"), *[str(a) for a in arguments]], capture_output=True, text=True,
                              env=environment, input=stdin, timeout=timeout)
        if check:
            assert done.returncode == 0, f"writ {arguments[:2]}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def bootstrap_key(self, name, owner, roles, tenant=TENANT, **globs):
        """Makes a key in the data directory itself, with no program running."""
        arguments = ["key", "create", "--json", "--data", self.data, "--name", name, "--owner", owner,
                     "--roles", roles, "--tenant", tenant, *(["--store", self.store_url] if self.store_url else [])]
        for option, value in globs.items():
            arguments += [f"--{option}", value]
        return json.loads(self.cli(*arguments).stdout)["key"]

    def set(self, verb, check=True):
        """`writ set show` or `adopt` on the platform's store."""
        return self.cli("set", verb, "--data", self.data, *(["--store", self.store_url] if self.store_url else []), check=check)

    def begin(self):
        """What make_first_keys() makes; by a copy of what it has made once, where nothing is there yet."""
        if self.keys:
            return
        if self.store_url or any(self.data.iterdir()):
            self.make_first_keys()
            return
        if not _FIRST:
            self.make_first_keys()
            _FIRST["data"] = {file.name: file.read_bytes() for file in self.data.iterdir()}
            _FIRST["keys"] = dict(self.keys)
        for name, whole in _FIRST["data"].items():
            with open(os.open(self.data / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(whole)
                file.flush()
                os.fsync(file.fileno())  # as the command does: some tests cut the power
        folder = os.open(self.data, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        self.keys = dict(_FIRST["keys"])
        self.write_key_file()

    def make_first_keys(self):
        self.keys = {
            "root": self.bootstrap_key("root", "root-owner", "admin", "*"),
            "engine": self.bootstrap_key("engines", "engine-owner", "ingest", "*", nodes="*", tenants="*"),
            "agent": self.bootstrap_key("agents", "agent-owner", "agent,app", actors="*", users="*"),
            "admin": self.bootstrap_key("admins", "admin-owner", "admin"),
            "auditor": self.bootstrap_key("auditors", "auditor-owner", "auditor"),
        }
        self.write_key_file()

    def write_key_file(self):
        self.key_file.write_text(self.keys["engine"] + "\n")
        self.key_file.chmod(0o600)

    def key(self, name, roles, owner=None, tenant=TENANT, wait=True, **more):
        """Makes a key through the API and waits until the engine knows it."""
        body = {"name": name, "owner": owner or f"{name}-owner", "tenant": tenant, "roles": roles, **more}
        with self.at_platform("root") as wire:
            reply = wire.post("/api/v1/keys", body)
        assert reply.status == 201, reply
        if wait:
            self.wait_followed()
        return reply.json["key"]

    # ---- clients ----

    def at_engine(self, key="agent", **options):
        return Wire(self.engine.address, self.keys.get(key, key), **options)

    def at_platform(self, key="auditor", **options):
        return Wire(self.platform.address, self.keys.get(key, key), **options)

    # ---- what both programs know ----

    def metrics(self, program):
        """{name or name{labels}: value} of one program."""
        with Wire(program.address, self.keys["admin"]) as wire:
            reply = wire.get("/metrics")
        assert reply.status == 200, reply
        found = {}
        for line in reply.body.decode().splitlines():
            match = re.match(r"([a-z_]+(?:\{.*?\})?) (\S+)$", line)
            if match:
                found[match[1]] = float(match[2])
        return found

    def wait_followed(self):
        """Until the engine has the platform's newest policies and keys."""
        newest = self.metrics(self.platform)["writ_platform_bundle_revision"]
        eventually(lambda: self.metrics(self.engine)["writ_engine_bundle_revision"] >= newest,
                   f"the engine follows to revision {newest}")

    def wait_published(self):
        """Until everything that the engine has journaled is confirmed by the platform."""
        def done():
            now = self.metrics(self.engine)
            return (now["writ_engine_journal_seq"] == now["writ_engine_journal_durable_seq"] ==
                    now["writ_engine_publish_confirmed_seq"] and now["writ_engine_publish_lag_records"] == 0)
        eventually(done, "publish lag is 0")

    def policy(self, name, content, tenant=TENANT, wait=True, **more):
        with self.at_platform("root") as wire:
            reply = wire.put(f"/api/v1/policies/{name}?tenant_id={tenant}", {"content": content, **more})
        assert reply.status in (200, 201), reply
        if wait:
            self.wait_followed()
        return reply

    def examples(self):
        """Loads ops/examples, as ops/run does."""
        for file in sorted((TOP / "ops" / "examples").glob("*.yaml")):
            self.policy(file.stem, file.read_text(), wait=False)
        self.wait_followed()

    def trace(self, trace_id, key="auditor", count=1):
        """The stored events of a trace, once there are that many."""
        with self.at_platform(key) as wire:
            def found():
                reply = wire.get(f"/api/v1/audit/trace/{trace_id}")
                assert reply.status in (200, 404), reply
                return reply.json["events"] if reply.status == 200 and reply.json["count"] >= count else None
            return eventually(found, f"{count} events of trace {trace_id}")

    def events(self, key="auditor", **parameters):
        """All stored events that match, newest first, page by page."""
        found, cursor = [], 0
        query = "".join(f"&{name}={value}" for name, value in parameters.items())
        with self.at_platform(key) as wire:
            while True:
                more = f"&cursor={cursor}" if cursor else ""
                reply = wire.get(f"/api/v1/audit?limit=500{more}{query}")
                assert reply.status == 200, reply
                found += reply.json["events"]
                cursor = reply.json["next_cursor"]
                if cursor == 0:
                    return found
