"""ops/run --fleet 3 as a person uses it: nginx in front of three engines, one of which is killed."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import pytest

import harness
import pages
from harness import TOP, Wire, eventually
from kafka_rig import JARS
from test_fleet_guide import PAGE, chapters

RUN = TOP / "ops" / "run"
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


class RunningFleet:
    def __init__(self, folder):
        self.data = pages.clone(folder) / "data"
        self.engine_port, self.platform_port, kafka = harness.free_port(4), harness.free_port(), harness.free_port(2)
        self.begun = time.monotonic()
        environment = {key: value for key, value in os.environ.items() if not key.startswith("WRIT_")}
        environment |= {"WRIT_BIN": str(harness.BIN), "WRIT_KAFKA_PORT": str(kafka), "WRIT_KAFKA_JARS": JARS}
        self.process = subprocess.Popen([RUN, "--data", self.data, "--engine-port", str(self.engine_port), "--platform-port", str(self.platform_port),
                                         "--fleet", "3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        self.printed = []
        for line in self.process.stdout:
            self.printed.append(line)
            if line.startswith("All are ready"):
                break
        self.seconds = time.monotonic() - self.begun
        assert self.printed and self.printed[-1].startswith("All are ready"), self.process.communicate()[1]
        self.keys = dict(line.split("=", 1) for line in (self.data / "dev-keys.env").read_text().splitlines() if "=" in line)

    def at(self, key="AGENT", port=None):
        return Wire(("127.0.0.1", port or self.engine_port), self.keys[f"WRIT_{key}_KEY"])

    def writ(self, *words, key="ADMIN"):
        environment = {**os.environ, "WRIT_KEY": self.keys.get(f"WRIT_{key}_KEY", key), "WRIT_ENGINE_URL": f"http://127.0.0.1:{self.engine_port}",
                       "WRIT_PLATFORM_URL": f"http://127.0.0.1:{self.platform_port}"}
        return subprocess.run([str(harness.BIN / "writ"), *words], capture_output=True, text=True, env=environment, timeout=harness.PATIENCE)

    def fleet(self):
        return json.loads(self.writ("fleet", "--json").stdout)

    def pid_of(self, node):
        """By the data directory in its command line."""
        number = int(node[-1])
        folder = str(self.data if number == 1 else self.data / f"engine-{number}")
        for child in pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            words = pathlib.Path(f"/proc/{child}/cmdline").read_text().split("\0")
            if words[0].endswith("writ-engine") and words[words.index("--data") + 1] == folder:
                return int(child)
        return None

    def are_all_ready(self):
        for port in range(self.engine_port + 1, self.engine_port + 4):
            try:
                with self.at(port=port) as wire:
                    if wire.get("/readyz").status != 200:
                        return False
            except (OSError, harness.Closed):
                return False
        return True

    def ports(self):
        return [self.platform_port, *range(self.engine_port, self.engine_port + 4)]


@pytest.fixture(scope="module")
def running(broker, tmp_path_factory):  # `broker` skips where this machine cannot have Kafka, and has fetched it
    if not (shutil.which("nginx") or pathlib.Path("/usr/sbin/nginx").exists()):
        pytest.skip("SKIP: nginx is not installed")
    one = RunningFleet(tmp_path_factory.mktemp("run"))
    yield one
    if one.process.poll() is None:
        one.process.send_signal(signal.SIGINT)
        one.process.wait(harness.PATIENCE)


def test_it_prints_addresses_and_what_one_broker_means(running):
    print(f"\nready after {running.seconds:.1f} s\n{''.join(running.printed)}")
    text = "".join(running.printed)
    assert f"http://127.0.0.1:{running.engine_port} (nginx" in text and "fleet.single_broker = true" in text, text
    with running.at() as wire:
        health = wire.get("/healthz").json
    assert health["status"] == "degraded" and "fleet.single_broker" in health["checks"]["fleet"], health
    for folder in (running.data, running.data / "engine-2", running.data / "engine-3"):
        assert (folder / "engine" / "evidence.trusted").exists(), "the engine's key is registered"
    members = running.fleet()["members"]
    assert sorted(member["node"] for member in members) == ["engine-1", "engine-2", "engine-3"], members


def served(running):
    """[requests that each engine has answered, with those that it relayed to the leader]"""
    counts = []
    for port in range(running.engine_port + 1, running.engine_port + 4):
        with running.at("ADMIN", port) as wire:
            lines = wire.get("/metrics").body.decode().splitlines()
        counts.append(sum(float(line.split()[-1]) for line in lines if line.startswith("writ_engine_http_replies_total")))
    return counts


def test_the_guide_of_one_engine_is_that_of_three(running):
    """docs/guides/review.md, literally, but for the port. Each request has a connection of its own, so nginx sends it to the next engine."""
    before = served(running)
    reader = pages.Reader(running.data.parent, running.data.parent / "notes", PATH, running)
    done = reader.follow(pages.Page(TOP / "docs" / "guides" / "review.md"))
    counts = [after - earlier for earlier, after in zip(before, served(running))]
    print(f"\n{len(done)} blocks of review.md, requests at the engines: {counts}")
    assert len(done) > 20 and min(counts) > 10, (len(done), counts)


def test_the_guide_of_a_fleet_can_be_tried(running):
    """Its first chapter; test_fleet_guide.py follows the others."""
    first, *others = [command.text for chapter in chapters(PAGE.read_text()) if chapter.name == "Try it" for command in chapter.commands]
    assert first == "ops/run --fleet 3\n" and others, "RunningFleet has run it"
    terminal = pages.Terminal(running.data.parent, running.data.parent / "tried", {"PATH": PATH, "WRIT_ENGINE_URL": f"http://127.0.0.1:{running.engine_port}"})
    printed = "".join(terminal.run(pages.Block(PAGE.name, 0, "console", text=text), text) for text in others)
    terminal.close()
    assert all(word in printed for word in ("LEASE LEFT", "engine-1", "engine-2", "engine-3")), printed


def test_a_killed_leader_is_replaced_and_started_again(running):
    with running.at() as wire:
        asked = wire.post("/v1/agent/authorize", {"actor": "invoice_bot", "action": "issue_refund", "confidence": 0.95, "args": {"amount": 700}})
    review, leads = asked.json["review_id"], running.fleet()["leader"]
    killed = time.monotonic()
    os.kill(running.pid_of(leads), signal.SIGKILL)

    def works():
        with running.at() as wire:
            return wire.get(f"/v1/queue/{review}").status == 200
    eventually(works, "a request of the state is answered again")
    read = time.monotonic() - killed

    def mints():
        with running.at() as wire:
            return wire.post("/v1/tokens/mint", {"scope": "*", "actor": "reader", "ttl_seconds": 60}).status == 201
    eventually(mints, "a change of the state is answered again")
    print(f"\nafter kill -9 of the leader, a read was answered after {read:.1f} s, a change after {time.monotonic() - killed:.1f} s")
    eventually(lambda: sorted(m["state"] for m in running.fleet()["members"]) == ["follows", "follows", "leads"], "all three are there again")


def test_the_end_of_the_script_is_the_end_of_all(running):
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(harness.PATIENCE) == 0
    for port in running.ports():
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", port), 5)
    assert not (running.data / "stack" / "kafka" / "pid").exists() or not pathlib.Path(
        f"/proc/{(running.data / 'stack' / 'kafka' / 'pid').read_text().strip()}/cmdline").exists()


@pytest.mark.parametrize("arguments, said", [(["--fleet", "1"], "2 to 9"), (["--fleet", "x"], "2 to 9"), (["--fleet", "3", "--tls"], "does not go with"),
                                             (["--fleet", "3", "--engine-port", "7000", "--platform-port", "7002"], "has to be another one")])
def test_wrong_arguments_are_refused(arguments, said):
    done = subprocess.run([RUN, *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and said in done.stderr and not done.stdout, done
