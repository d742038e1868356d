"""docs/guides/fleet.md as its reader follows it: from one engine with a state to three engines and back, each command from the page.

Each machine is a folder with the files of /etc/writ and /var/lib, one address and one port. Commands are run as the page has them, but for
what SUBSTITUTES lists; `systemctl` does what the unit files of ops/systemd ask for. After each chapter the state has to be what the page
promises. A chapter with a command needs an entry in CHAPTERS, so a command that the page gains is run here, or fails.
"""

import concurrent.futures
import getpass
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time

import pytest

import harness
import pages
from harness import TOP, Program, Wire, eventually
from kafka_rig import JARS

PAGE = TOP / "docs" / "guides" / "fleet.md"
BROKERS = "b1:9092,b2:9092,b3:9092"
FILES = re.compile(r"(?<![\w:])/(etc/writ|var/lib/writ-(?:engine|platform))\b")
SUBSTITUTES = """
  http://MACHINE:PORT, 0.0.0.0:PORT    the address of that machine, or of this one
  b1:9092,b2:9092,b3:9092              the one broker of the tests
  10.0.0.0/24                          the loopback address
  /etc/writ, /var/lib/writ-…           these folders of the machine
  scp, ssh … cat, kafka-topics.sh      cp and cat in the other machine's folder; the class in Kafka that the script starts
  the user writ-engine                 the user who runs the tests
"""
SHELL = f"""
scp() {{ [ "$1" != -p ] || shift; local to=${{2#root@}}; cp -p "$1" "$MACHINES/${{to%%:*}}${{to#*:}}"; }}
ssh() {{ [ "$2" = cat ] && cat "$MACHINES/${{1#root@}}$3"; }}
chown() {{ command chown "${{@/#writ-engine:/{getpass.getuser()}:}}"; }}
kafka-topics.sh() {{ java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:SharedArchiveFile='{JARS}/kafka.jsa' -cp '{JARS}/lib/*' org.apache.kafka.tools.TopicCommand "$@"; }}
"""
# One broker, little memory and short waits; nothing of it is on the page.
OF_THE_TEST = f"""
reactors = 2
journal.segment_size = {harness.SEGMENT}
overload.delay = 0
"""
OF_ITS_FLEET = """
fleet.single_broker = true
fleet.lease = 5s
"""
LIMIT = 30
POLICY = f"""
rules:
  - {{id: pays, agents: ["*"], actions: ["pay_*"], decision: human_review}}
  - {{id: reads, agents: ["*"], actions: ["get_*"], decision: allow}}
  - {{id: people, users: ["*"], actions: ["read_*"], decision: allow}}
  - {{id: mails, agents: ["*"], actions: ["mail_*"], decision: allow, limit: {{count: {LIMIT}, per: actor, window: 1h}}}}
"""


# ---- the page ----


class Command:
    """A prompt with all lines up to the next one."""

    def __init__(self, machine, text):
        self.machine, self.text = machine or "$", text


class Chapter:
    def __init__(self, name, text):
        self.name, self.text = name, text
        self.steps = []  # (file, its text), or a Command
        for language, words, block in re.findall(r"^```(\w*) *([^\n]*)\n(.*?)^```$", text, re.M | re.S):
            assert not words and language in ("console", "conf", "text"), f"{name}: ```{language} {words} is not run"
            if language == "conf":
                first, rest = block.split("\n", 1)
                self.steps.append((re.fullmatch(r"# (\S+)", first)[1], rest))
            elif language == "console":
                parts = re.split(r"^(?:(\S+-?\d?)# |\$ )", block, flags=re.M)
                assert parts[0] == "", f"{name}: a line without a prompt: {block}"
                self.steps += [Command(machine, text) for machine, text in zip(parts[1::2], parts[2::2])]

    @property
    def commands(self):
        return [step for step in self.steps if isinstance(step, Command)]


def chapters(text):
    parts = re.split(r"^##+ (.+)$", text, flags=re.M)
    return [Chapter(name, body) for name, body in zip(["", *parts[1::2]], [parts[0], *parts[2::2]])]


# ---- the machines ----


class Machine:
    """What systemd has of one: a service that is wanted or not, and is started again when it ends with 1 (RestartPreventExitStatus=2)."""

    def __init__(self, guide, name):
        self.guide, self.name, self.folder = guide, name, guide.folder / "machines" / name
        self.kind = "platform" if name == "platform" else "engine"
        self.service = f"writ-{self.kind}"
        (self.folder / "etc" / "writ").mkdir(parents=True)
        (self.folder / "var" / "lib" / self.service).mkdir(parents=True, mode=0o700)
        self.program = Program(self.service, harness.free_port(), [], guide.folder / f"{name}.log")
        unit = (TOP / "ops" / "systemd" / f"{self.service}.service").read_text()
        start = shlex.split(re.search(r"^ExecStart=(.*)$", unit, re.M)[1])
        assert start[0] == f"/usr/local/bin/{self.service}" and "RestartPreventExitStatus=2" in unit and "Restart=on-failure" in unit
        self.program.arguments = guide.here(shlex.join(start[1:]), self).split()
        self.conf = self.folder / "etc" / "writ" / f"{self.kind}.conf"
        self.program.arguments[self.program.arguments.index("--config") + 1] = str(self.folder / "conf")
        self.is_wanted, self.lock = False, threading.Lock()

    def start(self):
        conf = self.conf.read_text()
        mine = (OF_THE_TEST + ("" if not re.search("^fleet ", conf, re.M) else OF_ITS_FLEET)) if self.kind == "engine" else ""
        (self.folder / "conf").write_text(self.guide.here(conf, self) + mine)
        self.program.start(ready=False)

    def systemctl(self, words):
        verb = words.removesuffix(f" {self.service}")
        assert verb in ("start", "stop", "restart", "enable --now", "disable --now") and verb != words, words
        with self.lock:
            if verb in ("stop", "restart", "disable --now") and self.program.process:
                self.program.process.terminate()
                assert self.program.wait() in (0, 1), self.program.tail()  # 1: it had just ended by itself
            self.is_wanted = verb not in ("stop", "disable --now")
            if self.is_wanted:
                self.start()

    def supervise(self):
        with self.lock:
            if self.is_wanted and self.program.process and self.program.process.poll() is not None:
                status = self.program.wait()
                if status in (1, -signal.SIGKILL):
                    self.start()
                else:
                    self.is_wanted = False
                    print(f"{self.name} ended with {status}, and is not started again:\n{self.program.tail()}")
                    for shell in self.guide.shells.values():
                        os.killpg(shell.shell.pid, signal.SIGKILL)  # which may wait for it

    def lose_disk(self):
        with self.lock:
            self.is_wanted = False
            self.program.kill()
        shutil.rmtree(self.folder / "var" / "lib" / self.service / "engine")
        (self.folder / "var" / "lib" / self.service / "pepper").unlink()

    @property
    def is_up(self):
        return self.is_wanted and self.kind == "engine"


class Guide:
    def __init__(self, broker, folder):
        self.broker, self.folder = broker, folder
        self.machines = {}
        for name in ("platform", "engine-1", "engine-2", "engine-3"):
            self.machines[name] = Machine(self, name)
        self.keys, self.shells, self.printed = {}, {}, ""
        self.ended = threading.Event()
        self.supervisor = threading.Thread(target=self.supervise, daemon=True)
        self.supervisor.start()

    def supervise(self):
        while not self.ended.wait(0.05):
            for machine in self.machines.values():
                machine.supervise()

    def close(self):
        self.ended.set()
        self.supervisor.join()
        for shell in self.shells.values():
            shell.close()
        for machine in self.machines.values():
            machine.program.end()

    def here(self, text, machine):
        """SUBSTITUTES, without the commands."""
        for other in self.machines.values():
            text = re.sub(rf"\bhttp://{other.name}:\d+", other.program.url, text)
        if machine:
            text = re.sub(r"\b0\.0\.0\.0:\d+", f"127.0.0.1:{machine.program.port}", text)
            text = FILES.sub(lambda match: f"{machine.folder}/{match[1]}", text)
        return text.replace(BROKERS, self.broker.address).replace("10.0.0.0/24", "127.0.0.1")

    # ---- one engine, as docs/guides/production.md installs it ----

    def install(self):
        platform, first = self.machines["platform"], self.machines["engine-1"]
        data, engine_data = (machine.folder / "var" / "lib" / machine.service for machine in (platform, first))
        subprocess.run([TOP / "ops" / "lib" / "first-keys", harness.BIN, data, engine_data], check=True)
        for line in (data / "dev-keys.env").read_text().splitlines():
            if "=" in line:
                name, self.keys[name] = line.split("=", 1)[0].removeprefix("WRIT_").removesuffix("_KEY").lower(), line.split("=", 1)[1]

        def key(*words):
            done = subprocess.run([harness.BIN / "writ", "key", "create", "--json", "--data", data, *words], check=True, capture_output=True, text=True)
            return json.loads(done.stdout)["key"]
        self.keys["root"] = key("--name", "root", "--owner", "ops", "--roles", "admin", "--tenant", "*")
        alone = key("--name", "engine-1", "--owner", "ops", "--roles", "ingest", "--tenant", "*", "--tenants", "*", "--nodes", "engine-1")
        (engine_data / "engine" / "platform.key").write_text(alone + "\n")
        platform.conf.write_text(f"listen = 0.0.0.0:9090\nengine.url = {first.program.url}\n")
        first.conf.write_text("node = engine-1\nlisten = 0.0.0.0:8080\nplatform.url = http://platform:9090\n")
        platform.systemctl("start writ-platform")
        platform.program.wait_ready()
        with Wire(platform.program.address, self.keys["root"]) as wire:
            assert wire.put("/api/v1/policies/all?tenant_id=default", {"content": POLICY}).status in (200, 201)
        first.systemctl("enable --now writ-engine")
        first.program.wait_ready()

        def has_policy():
            with self.at(first) as wire:
                return wire.post("/v1/agent/authorize", {"actor": "probe", "action": "get_x"}).json.get("decision") == "allow"
        eventually(has_policy, "the engine has the policy")

    # ---- commands ----

    def shell(self, name):
        if name not in self.shells:
            environment = {"PATH": f"{harness.BIN}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(self.folder), "LC_ALL": "C.UTF-8",
                           "MACHINES": str(self.folder / "machines"), "ROOT": self.keys["root"]}
            self.shells[name] = pages.Terminal(self.folder, self.folder / f"notes-{name.replace('$', 'own')}", environment)
            self.shells[name].run(pages.Block(PAGE.name, 0, "console"), SHELL)
        return self.shells[name]

    def run(self, command, rename=()):
        text, name = command.text, command.machine
        if rename:
            text, name = text.replace(*rename), name.replace(*rename)
        machine = self.machines.get(name)
        assert machine or name == "$", f"no machine of the page is called {name}"
        if text.startswith("systemctl "):
            machine.systemctl(text.removeprefix("systemctl ").strip())
            return
        self.printed += self.shell(name).run(pages.Block(PAGE.name, 0, "console", text=text), self.here(text, machine))

    def follow(self, chapter):
        for step in chapter.steps:
            if isinstance(step, Command):
                self.run(step)
            else:
                machine, file = step[0].split(":", 1)
                (self.machines[machine].folder / file.lstrip("/")).write_text(step[1])

    # ---- what must be so ----

    def at(self, machine, key="agent"):
        return Wire(machine.program.address, self.keys.get(key, key))

    def up(self):
        return [machine for machine in self.machines.values() if machine.is_up]

    def settle(self, leader=None):
        """All engines that should run are ready, and of one view."""
        self.machines["platform"].program.wait_ready()

        def agreed():
            views = []
            for machine in self.up():
                try:
                    with self.at(machine, "root") as wire:
                        if wire.get("/readyz").status != 200:
                            return False
                        reply = wire.get("/v1/fleet")
                except (OSError, harness.Closed):
                    return False
                members = {member["node"]: member["state"] for member in reply.json["members"]}
                views.append((reply.json["leader"], members))
            running = sorted(state for state in views[0][1].values() if state in ("leads", "follows"))
            return views[0] if all(view == views[0] for view in views) and running == [*["follows"] * (len(views) - 1), "leads"] else False
        view = eventually(agreed, "all engines agree")
        assert leader is None or view[0] == leader, view
        return view


class State:
    """Tokens, reviews, counts, a suspension and stored outcomes, made at one engine."""

    PASSAGES = 9

    def __init__(self, guide, machine):
        self.guide, self.used = guide, 1
        with guide.at(machine) as agent, guide.at(machine, "admin") as admin:
            self.kept, self.revoked = (agent.post("/v1/tokens/mint", {"scope": "*", "actor": name, "ttl_seconds": 7200}).json for name in ("kept", "revoked"))
            assert agent.request("DELETE", f"/v1/tokens/{self.revoked['token_id']}").status in (200, 204)
            self.reviews = [agent.post("/v1/agent/authorize", self.asked(number)).json["review_id"] for number in range(self.PASSAGES)]
            assert [agent.post("/v1/agent/authorize", {"actor": "full", "action": "mail_x"}).json["decision"] for _ in range(LIMIT + 1)] == ["allow"] * LIMIT + ["deny"]
            assert agent.post("/v1/agent/authorize", {"actor": "mailer", "action": "mail_x"}).json["decision"] == "allow"
            assert admin.post("/v1/actors/rogue/suspend", {"reason": "loops"}).status == 200
        self.outcome = self.once(machine)

    @staticmethod
    def asked(number):
        return {"actor": f"payer-{number}", "action": "pay_rent", "trace_id": f"rent-{number}"}

    def once(self, machine):
        with self.guide.at(machine) as agent:
            return agent.request("POST", "/v1/agent/authorize", {"actor": "retrier", "action": "pay_once"},
                                 headers={"Idempotency-Key": "the-only-one-of-this-story"}).json["review_id"]

    def everywhere(self, *request, key="agent"):
        """The replies of all engines to one request, sent to all at the same time. PERSON in it is another one at each."""
        def ask(machine):
            with self.guide.at(machine, key) as wire:
                return wire.request(*(json.loads(json.dumps(part).replace("PERSON", f"reviewer of {machine.name}")) for part in request))
        with concurrent.futures.ThreadPoolExecutor() as pool:
            return list(pool.map(ask, self.guide.up()))

    def decide(self, actor, action="get_x", key="agent"):
        return self.everywhere("POST", "/v1/agent/authorize", {"actor": actor, "action": action}, key=key)

    def suspension_holds(self):
        assert {reply.json["rule"] for reply in self.decide("rogue")} == {"actor:suspended"}

    def holds(self):
        """At each engine. A review is approved by one of the requests, and redeemed by one."""
        for token, is_active in ((self.kept, True), (self.revoked, False)):
            replies = self.everywhere("POST", "/v1/tokens/introspect", {"token": token["token"]})
            assert {reply.json["active"] for reply in replies} == {is_active}, replies
            assert {reply.status for reply in self.decide("kept" if is_active else "revoked", key=token["token"])} == {200 if is_active else 401}
        self.suspension_holds()
        assert {reply.json["decision"] for reply in self.decide("full", "mail_x")} == {"deny"}
        assert {self.once(machine) for machine in self.guide.up()} == {self.outcome}
        number = self.PASSAGES - len(self.reviews)
        review = self.reviews.pop(0)
        assert {reply.json["status"] for reply in self.everywhere("GET", f"/v1/queue/{review}")} == {"pending"}
        others = [200, *[409] * (len(self.guide.up()) - 1)]
        approved = self.everywhere("POST", f"/v1/queue/{review}/approve", {"resolved_by": "PERSON"}, key="reviewer")
        assert sorted(reply.status for reply in approved) == others, approved
        redeemed = self.everywhere("POST", f"/v1/queue/{review}/redeem", self.asked(number))
        assert sorted(reply.json["decision"] for reply in redeemed) == ["allow", *["deny"] * (len(others) - 1)], redeemed
        counted = self.decide("mailer", "mail_x")
        self.used += len(counted)
        assert {reply.json["decision"] for reply in counted} == {"allow"} and self.used < LIMIT, (counted, self.used)

    def count_ends(self):
        """The count of all passages together is the limit's."""
        with self.guide.at(self.guide.up()[0]) as agent:
            decisions = [agent.post("/v1/agent/authorize", {"actor": "mailer", "action": "mail_x"}).json["decision"] for _ in range(LIMIT + 1 - self.used)]
        assert decisions == ["allow"] * (LIMIT - self.used) + ["deny"], decisions

    def is_in_the_trail(self):
        """Each step of each review once, by whichever engines led."""
        steps = ["review.approved", "review.enqueued", "review.redeemed"]
        with Wire(self.guide.machines["platform"].program.address, self.guide.keys["admin"]) as wire:
            for number in range(self.PASSAGES - len(self.reviews)):
                def recorded():
                    found = wire.get(f"/api/v1/audit/trace/rent-{number}").json["events"]
                    return sorted(event["kind"] for event in found if event["kind"].startswith("review.")) == steps
                eventually(recorded, f"all steps of review {number} are recorded, each once")

    def is_gone(self):
        """All but the suspension."""
        self.suspension_holds()
        assert [reply.json["active"] for reply in self.everywhere("POST", "/v1/tokens/introspect", {"token": self.kept["token"]})] == [False]
        assert [reply.status for reply in self.decide("kept", key=self.kept["token"])] == [401]
        assert [reply.status for reply in self.everywhere("GET", f"/v1/queue/{self.reviews[0]}")] == [404]
        assert [reply.json["decision"] for reply in self.decide("full", "mail_x")] == ["allow"]


# ---- the test ----


@pytest.fixture(scope="module")
def guide(broker, tmp_path_factory):
    one = Guide(broker, tmp_path_factory.mktemp("guide"))
    yield one
    one.close()


def is_away(guide, state):
    """What the first table promises: agents are refused after the lease, people are not, and all goes on."""
    os.kill(guide.broker.server_pid, signal.SIGSTOP)
    try:
        eventually(lambda: {reply.status for reply in state.decide("kept")} == {503}, "the leases have ended")
        assert {reply.json["code"] for reply in state.decide("kept")} == {"fleet_stale"}
        people = state.everywhere("POST", "/v1/authorize", {"user_id": "ann", "action": "read_x"})
        assert {reply.json["decision"] for reply in people} == {"allow"}, people
        assert {reply.status for reply in state.everywhere("GET", "/readyz")} == {503}
    finally:
        os.kill(guide.broker.server_pid, signal.SIGCONT)


def joined(guide, chapter, state):
    guide.machines["engine-3"].folder.joinpath("etc/writ").mkdir(exist_ok=True)
    for command in chapter.commands:  # "Do the same for engine-3."
        guide.run(command, rename=("engine-2", "engine-3"))
    guide.settle("engine-1")
    state.holds()
    is_away(guide, state)
    guide.settle()
    state.holds()


def seen(guide, chapter, state):
    assert '"members":[' in guide.printed and "LEASE LEFT" in guide.printed
    for name in ("engine-1", "engine-2", "engine-3"):
        assert name in guide.printed


def lost(guide, chapter, state):
    view = guide.settle("engine-1")
    assert view[1]["engine-3b"] == "follows" and view[1].get("engine-3") in (None, "silent"), view
    state.holds()


def leads(node, others=("follows", "follows")):
    def check(guide, chapter, state):
        _, members = guide.settle(node)
        assert sorted(members.values()) == sorted([*others, "leads"]), members
        state.holds()
    return check


def alone_in_the_fleet(guide, chapter, state):
    _, members = guide.settle("engine-1")
    assert {members["engine-2"], members["engine-3b"]} <= {"closed", "left"}, members  # no revocation waits for them
    state.holds()
    state.count_ends()
    state.is_in_the_trail()
    guide.printed = ""
    guide.run(Command("$", "writ audit verify\n"))
    assert "fleet.main/0: " in guide.printed and "\ncomplete until " in guide.printed, guide.printed


def without_kafka(guide, chapter, state):
    engine = guide.machines["engine-1"]
    assert "fleet" not in engine.conf.read_text()
    state.is_gone()


def given_up(guide, chapter, state):
    assert "fleet.main" in guide.printed


def keys_are_known(guide, chapter, state):
    assert "fleet.main/0: " in guide.printed


def nothing(guide, chapter, state):
    pass


CHAPTERS = {  # that have commands: what holds afterwards
    "Try it": None,  # test_run_fleet.py
    "The platform": nothing,
    "The first engine": leads("engine-1", ()),
    "Two more engines": joined,
    "The keys of the audit trail": keys_are_known,
    "See it": seen,
    "Move the lead": leads("engine-2"),
    "Restart and upgrade": leads("engine-1"),
    "A lost engine": lost,
    "From three engines to one": alone_in_the_fleet,
    "Without Kafka again": without_kafka,
    "Give it up": given_up,
}
BEFORE = {"A lost engine": lambda guide: guide.machines["engine-3"].lose_disk()}


def test_the_page_from_one_engine_to_three_and_back(guide):
    guide.install()
    state = State(guide, guide.machines["engine-1"])
    for chapter in chapters(PAGE.read_text()):
        check = CHAPTERS.get(chapter.name)
        if check:
            BEFORE.get(chapter.name, lambda _: None)(guide)
            begun = time.monotonic()
            guide.follow(chapter)
            followed = time.monotonic()
            check(guide, chapter, state)
            print(f"{chapter.name}: {followed - begun:.1f} s, its checks {time.monotonic() - followed:.1f} s")


def test_the_balancer_of_the_page_is_that_of_ops_run():
    (shown,) = re.findall(r"^```text\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    used = re.sub(r"\\\$", "$", (TOP / "ops" / "lib" / "fleet.bash").read_text())
    missing = [line for line in map(str.strip, shown.splitlines()) if line not in used and not line.startswith("server engine-")]
    assert "max_fails=0;" in used and not missing, missing


def test_each_command_of_the_page_is_run():
    all_of_it = chapters(PAGE.read_text())
    assert [chapter.name for chapter in all_of_it if chapter.steps] == list(CHAPTERS), "each chapter with a command, in order, needs an entry"
    run = "\n".join(command.text for chapter in all_of_it for command in chapter.commands)
    shown = re.findall(r"`((?:writ|writ-engine|systemctl|kafka-topics\.sh)(?: [a-z-]+)+)", pages.FENCE.sub("", PAGE.read_text()))
    assert shown and all(one in run for one in shown), f"a command in a sentence, that no block has: {shown}"
