"""ops/run --fleet 3 as a person uses it: nginx in front of three engines, one of which is killed."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest

import harness
from harness import TOP, Wire, eventually
from kafka_rig import JARS

RUN = TOP / "ops" / "run"
POLICY = """
rules:
  - {id: pays, agents: ["*"], actions: ["pay_*"], decision: human_review}
  - {id: reads, agents: ["*"], actions: ["get_*"], decision: allow}
  - {id: mails, agents: ["*"], actions: ["mail_*"], decision: allow, limit: {count: 3, per: actor, window: 1h}}
"""


class RunningFleet:
    def __init__(self, folder):
        self.data = folder / "data"
        self.port, self.platform_port, kafka = harness.free_port(4), harness.free_port(), harness.free_port(2)
        self.begun = time.monotonic()
        environment = {key: value for key, value in os.environ.items() if not key.startswith("WRIT_")}
        environment |= {"WRIT_BIN": str(harness.BIN), "WRIT_KAFKA_PORT": str(kafka), "WRIT_KAFKA_JARS": JARS}
        self.process = subprocess.Popen([RUN, "--data", self.data, "--engine-port", str(self.port), "--platform-port", str(self.platform_port),
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
        return Wire(("127.0.0.1", port or self.port), self.keys[f"WRIT_{key}_KEY"])

    def writ(self, *words, key="ADMIN"):
        environment = {**os.environ, "WRIT_KEY": self.keys.get(f"WRIT_{key}_KEY", key), "WRIT_ENGINE_URL": f"http://127.0.0.1:{self.port}",
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
        for port in range(self.port + 1, self.port + 4):
            try:
                with self.at(port=port) as wire:
                    if wire.get("/readyz").status != 200:
                        return False
            except (OSError, harness.Closed):
                return False
        return True

    def ports(self):
        return [self.platform_port, *range(self.port, self.port + 4)]


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
    assert f"http://127.0.0.1:{running.port} (nginx" in text and "fleet.single_broker = true" in text, text
    with running.at() as wire:
        health = wire.get("/healthz").json
    assert health["status"] == "degraded" and "fleet.single_broker" in health["checks"]["fleet"], health
    for folder in (running.data, running.data / "engine-2", running.data / "engine-3"):
        assert (folder / "engine" / "evidence.trusted").exists(), "the engine's key is registered"
    members = running.fleet()["members"]
    assert sorted(member["node"] for member in members) == ["engine-1", "engine-2", "engine-3"], members


def test_a_story_through_one_address_is_that_of_one_engine(running):
    """Each request has a connection of its own, so the steps reach different engines."""
    served = set()

    def ask(method, path, body=None, key="AGENT"):
        with running.at(key) as wire:
            reply = wire.request(method, path, body)
        with running.at(key) as wire:
            served.add(wire.get("/healthz").json["node"])
        return reply
    assert ask("PUT", "/api/v1/policies/story", {"content": POLICY}, "ADMIN").status in (200, 201)

    def follow():
        replies = []
        for port in range(running.port + 1, running.port + 4):
            with running.at(port=port) as wire:
                replies.append(wire.post("/v1/agent/authorize", {"actor": "probe", "action": "get_x"}).json.get("decision"))
        return replies == ["allow"] * 3
    eventually(follow, "all engines have the policy")
    call = {"actor": "payer", "action": "pay_rent", "resource": "order:1", "args": {"amount": 120}}
    asked = ask("POST", "/v1/agent/authorize", call)
    assert asked.json["decision"] == "human_review", asked
    review = asked.json["review_id"]
    for _ in range(3):
        assert ask("GET", f"/v1/queue/{review}").json["status"] == "pending"
    assert ask("POST", f"/v1/queue/{review}/approve", {"note": "ok"}, "REVIEWER").json["status"] == "approved"
    decisions = [ask("POST", f"/v1/queue/{review}/redeem", call).json["decision"] for _ in range(3)]
    assert decisions == ["allow", "deny", "deny"], decisions
    minted = ask("POST", "/v1/tokens/mint", {"scope": "*", "actor": "reader", "ttl_seconds": 600})
    running.keys["WRIT_TOKEN_KEY"] = minted.json["token"]
    small = {"actor": "reader", "action": "get_order"}
    assert [ask("POST", "/v1/agent/authorize", small, "TOKEN").status for _ in range(3)] == [200] * 3
    assert ask("DELETE", f"/v1/tokens/{minted.json['token_id']}", key="ADMIN").status in (200, 204)
    assert [ask("POST", "/v1/agent/authorize", small, "TOKEN").status for _ in range(3)] == [401] * 3
    decisions = [ask("POST", "/v1/agent/authorize", {"actor": "mailer", "action": "mail_x"}).json["decision"] for _ in range(5)]
    assert decisions == ["allow"] * 3 + ["deny"] * 2, decisions
    assert ask("POST", "/v1/actors/mailer/suspend", {"reason": "loops"}, "ADMIN").status == 200
    for _ in range(3):
        assert ask("POST", "/v1/agent/authorize", {"actor": "mailer", "action": "mail_x"}).json["rule"] == "actor:suspended"
    assert ask("POST", "/v1/actors/mailer/resume", {}, "ADMIN").status == 200
    assert served == {"engine-1", "engine-2", "engine-3"}, served


def test_each_command_of_the_guide_works(running):
    """In the order of the page, in one shell; but for ops/run, which runs, and writ-engine, which the tests of the log run."""
    blocks = re.findall(r"^```console\n(.*?)^```", (TOP / "docs/guides/fleet.md").read_text(), re.M | re.S)
    commands = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    assert commands[0] == "ops/run --fleet 3" and len(commands) > 6, commands
    made = running.writ("key", "create", "--json", "--data", str(running.data), "--name", "root", "--owner", "ops", "--roles", "admin", "--tenant", "*")
    running.keys["WRIT_ROOT_KEY"] = json.loads(made.stdout)["key"]
    eventually(lambda: running.writ("engine", "list", key="ROOT").returncode == 0, "the platform knows the key")

    def is_known():
        return [running.writ("fleet", key="ROOT").returncode for _ in range(6)] == [0] * 6
    eventually(is_known, "the engines know the key")
    environment = {**os.environ, "PATH": f"{harness.BIN}:{os.environ['PATH']}", "ADMIN": running.keys["WRIT_ADMIN_KEY"],
                   "ROOT": running.keys["WRIT_ROOT_KEY"], "WRIT_ENGINE_URL": f"http://127.0.0.1:{running.port}",
                   "WRIT_PLATFORM_URL": f"http://127.0.0.1:{running.platform_port}"}
    printed, exports = "", []
    for command in commands[1:]:
        eventually(running.are_all_ready, "an engine that handed over is there again")
        exports += [command] if command.startswith("export ") else []
        done = subprocess.run(["bash", "-e"], input="\n".join([*exports, command]), capture_output=True, text=True, env=environment,
                              timeout=harness.PATIENCE)
        assert done.returncode == 0, (command, done.stdout + done.stderr)
        printed += done.stdout
    for word in ("LEASE LEFT", '"members":[', "engine-2 leads in term", "engine-1 leads in term", "has format 1", "fleet.local"):
        assert word in printed, (word, printed)
    eventually(lambda: sorted(m["state"] for m in running.fleet()["members"]) == ["follows", "follows", "leads"], "all three are there again")


def test_a_killed_leader_is_replaced_and_started_again(running):
    with running.at() as wire:
        asked = wire.post("/v1/agent/authorize", {"actor": "payer", "action": "pay_rent", "resource": "order:2"})
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
