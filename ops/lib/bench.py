"""Measures what one decision costs, beside nginx answering the same requests with a constant.

Core 0 has the engine (all its threads, one reactor) or one nginx worker, whichever is measured;
the other is stopped. Core 1 has the load generator (tests/bench/load.c) and the platform; the
generator comes first there (SCHED_FIFO, where that is allowed), so that it measures its server and
not its own wait for the core, and the platform catches up when it sleeps or has ended. In each
round both are measured, in turns. nginx reads the same POSTs over the same number of connections
at the same depth and answers `return 200` with a JSON body of the engine's mean length.

Engine and platform run as a user would start them: journal on a real file system (tmpfs is
refused), audit published and stored, more than 1,000 rules loaded. Requests are made from the
corpus of tool calls, or by a seeded generator where that is absent. A round ends when the
platform has confirmed every record; the engine's CPU time (whole process, to there) is divided by
the requests that were answered. `vs_nginx` is nginx's CPU time per request by the engine's, of
the same round: above 1 the engine is the cheaper one. Every figure is the median of the rounds.

Rows over TCP have two floors, too (tests/bench/http_floor.c). "floor" is our HTTP server alone,
taking the same POSTs and answering a constant behind a barrier that opens after each turn. "asked" does
on top of that what is asked of every engine, whatever it decides (asked.h): jsmn reads the body; two
SHA-256 are taken; as many bytes as a record has go into a block that is hashed and written once a
turn; as many as an event has are sent once. What is left between that and the gate is all that keys,
JSON, policies, the making of records and the way between threads may cost together.

  row            durability  connections  depth   gate
  written_c64    written      64           1      0.75
  synced_c256    synced      256           1      0.75
  written_c1     written       1           1
  synced_c1      synced        1           1
  pipelined_x16  synced       64          16      3
  batch_x16      synced       64           1      (16 requests in each POST /v1/authorize/batch; the figures are of one of them)
  unix_c64       written      64           1      (both over a Unix socket)
  traced_c64     written      64           1      (a span of every decision, for a collector that is away)
  tls_c64        written      64           1      (over TLS 1.3, nginx too)

Each request is a new one: its actor and its arguments carry a serial number, so that no review is
shared with an earlier request and no actor has a hundred of them pending. A dry run of every call
tells its outcome beforehand, and one in 16 of what is sent is a call that a person has to look at.

Rows of state (mint, token_first_sight, token_c64, enqueue, wake, limited_local, limited_remote,
recovery) have no nginx beside them; ops/lib/bench_state.py says what they are. offered_written and
offered_synced measure latency at a rate: ops/lib/bench_offered.py. swap_100k replaces 100,000 rules under
load: ops/lib/bench_swap.py. overload and false_credentials send more than an engine can handle:
ops/lib/bench_overload.py. attack has one client that tries to use up an engine, beside an honest one:
ops/lib/bench_attack.py. hook starts the hook of coding agents: ops/lib/bench_hook.py. Those of
--stack are with Kafka and PostgreSQL: ops/lib/bench_stack.py, and those of a fleet: ops/lib/bench_fleet.py.
"""

import argparse
import functools
import json
import os
import pathlib
import platform as machine
import random
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import threading
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "e2e"))

import bench_attack  # noqa: E402
import bench_fleet  # noqa: E402
import bench_hook  # noqa: E402
import bench_offered  # noqa: E402
import bench_overload  # noqa: E402
import bench_stack  # noqa: E402
import bench_state  # noqa: E402
import bench_swap  # noqa: E402
import canonical  # noqa: E402
import harness  # noqa: E402
from authority import Authority  # noqa: E402

ROWS = {  # name: durability, connections, depth, over a Unix socket, gate
    "written_c64": ("written", 64, 1, False, 0.75),
    "synced_c256": ("synced", 256, 1, False, 0.75),
    "written_c1": ("written", 1, 1, False, None),
    "synced_c1": ("synced", 1, 1, False, None),
    "pipelined_x16": ("synced", 64, 16, False, 3.0),
    "batch_x16": ("synced", 64, 1, False, None),
    "unix_c64": ("written", 64, 1, True, None),
    "traced_c64": ("written", 64, 1, False, None),
    "tls_c64": ("written", 64, 1, False, None),
}
OVER_TLS = ("tls_c64",)
ENGINE_OPTIONS = {"traced_c64": ("--otlp.url", "http://127.0.0.1:9", "--otlp.sample", "1")}
BATCHES = {"batch_x16": 16}  # requests in each body
BATCH_BODY_BYTES = 60 << 10
NGINX_PIECE_BYTES = 2000
SEED = 20261120
BODIES = 20000
OUTCOME_SHARE = 0.05
SNAPSHOT_THREADS = ("fold",) # they live while they make one
QUIET_SECONDS = 0.3
SEGMENT_BYTES = 64 << 20
PROCESS_CLOCK = 2 # of another process: clock_getcpuclockid(3) makes it so from the pid
REVIEW_EVERY = 16  # one in so many requests; they stay pending and are state that a row piles up
OUTCOMES = ("allow", "deny", "human_review", "compute")
FLOORS = ("floor", "asked")


def fail(sentence):
    print(f"ops/bench: {sentence}", file=sys.stderr)
    sys.exit(1)


# ---- traffic and policies ----


def corpus_calls():
    path = harness.CORPORA / "toolcalls" / "calls.jsonl"
    if not path.exists():
        return None
    return [(call["tool"], call.get("agent") or "assistant", call["args"])
            for call in map(json.loads, path.read_text().splitlines())]


GENERATED_POLICY = """
rules:
  - {id: reads, agents: ["*"], actions: ["get_*", "search_*"], decision: allow}
  - {id: refunds, actions: ["refund_*"], decision: human_review, reason: A person looks at money.}
  - {id: drops, actions: ["drop_*"], decision: deny, reason: Nothing is dropped.}
  - {id: writes, agents: ["*"], actions: ["write_*_prod"], decision: compute, compute: {tool: get_draft, args: {to: sandbox}}}
"""


def generated_calls(chance):
    verbs = [("get_{}", 50), ("search_{}", 14), ("refund_{}", 10), ("drop_{}", 14), ("write_{}_prod", 12)]
    nouns = ["invoice", "order", "ticket", "booking", "account", "report", "message", "file", "user", "payment"]
    calls = []
    for _ in range(2500):
        verb = chance.choices([v for v, _ in verbs], [w for _, w in verbs])[0]
        args = {f"{chance.choice(nouns)}_id": f"{chance.getrandbits(48):x}", "amount": round(chance.uniform(0, 900), 2)}
        if chance.random() < 0.5:
            args["note"] = " ".join(chance.choices(nouns, k=chance.randint(3, 40)))
        if chance.random() < 0.2:
            args["items"] = [{"sku": chance.getrandbits(32), "count": chance.randint(1, 9)} for _ in range(3)]
        calls.append((verb.format(chance.choice(nouns)), f"agent_{chance.randint(1, 40)}", args))
    return calls


def write_bodies(path, calls, outcomes, chance, count=BODIES, actor_of=None):
    """Every line is another request: the calls in random order, confidence and context varied.

    The load generator writes a serial number over the @s and a 64th of it over the ~s.
    """
    asked = [call for call, outcome in zip(calls, outcomes) if outcome == "human_review"]
    others = [call for call, outcome in zip(calls, outcomes) if outcome != "human_review"]
    review_at = 0
    with open(path, "w") as out:
        for number in range(count):
            if number % REVIEW_EVERY == 0:
                review_at = number + chance.randrange(REVIEW_EVERY)
            action, actor, args = chance.choice(asked if number == review_at else others)
            actor = actor_of(number) if actor_of else f"{actor}-~~~~~~~~"
            body = {"action": action, "actor": actor, "args": {**args, "ref": "@@@@@@@@"}}
            if chance.random() < 0.7:
                body["confidence"] = round(chance.uniform(0.6, 1), chance.randint(1, 3))
            if chance.random() < 0.3:
                body["resource"] = {"type": "record", "id": f"{chance.getrandbits(40):x}"}
            if chance.random() < 0.2:
                body["context"] = {"conversation": f"{chance.getrandbits(64):x}", "turn": chance.randint(1, 30)}
            members = list(body.items())
            chance.shuffle(members)
            out.write(json.dumps(dict(members), separators=chance.choice([(",", ":"), (", ", ": ")])) + "\n")


def write_batches(path, bodies, size):
    """The same requests, so many in a body."""
    lines = bodies.read_text().splitlines()
    batches = ('{"requests":[' + ",".join(lines[at:at + size]) + "]}" for at in range(0, len(lines) - size + 1, size))
    path.write_text("".join(batch + "\n" for batch in batches if len(batch) <= BATCH_BODY_BYTES))


def outcomes_of(stack, calls):
    """What each call comes to, by a dry run."""
    outcomes = []
    with stack.at_engine("admin") as wire:
        for action, actor, args in calls:
            reply = wire.post("/v1/agent/authorize?dry_run=true",
                              {"action": action, "actor": f"{actor}-0", "args": args, "confidence": 0.9})
            if reply.status != 200:
                fail(f"a dry run of {action}: {reply}")
            outcomes.append(reply.json["decision"])
    return outcomes


def load_examples(stack):
    """ops/examples, where the rules for one actor are for its numbered ones as well."""
    for file in sorted((TOP / "ops" / "examples").glob("*.yaml")):
        text = file.read_text()
        for actor in ("assistant", "user"):
            text = text.replace(f"agents: [{actor}", f'agents: [{actor}, "{actor}-*"')
        stack.policy(file.stem, text, wait=False)
    stack.wait_followed()


def filler(number, actions, chance):
    """A document of 220 rules of other teams, a tenth of them on actions that do occur here."""
    rules = []
    for i in range(220):
        service = f"svc{number}x{i}"
        action = chance.choice([f"{service}_get_*", f"{service}_run", f"*_{service}_prod", f"{service}_*_now"])
        if i % 10 == 0:
            action = chance.choice(actions)
        decision = chance.choice(["allow", "allow", "deny", "human_review"])
        rules.append({"id": f"r{i}", "agents": [f"team{number}-bot{i % 20}"], "actions": [action], "decision": decision})
    return json.dumps({"rules": rules})


def load_policies(stack, calls, from_corpus, chance):
    if from_corpus:
        load_examples(stack)
    else:
        stack.policy("generated", GENERATED_POLICY)
    actions = sorted({action for action, _, _ in calls})
    for number in range(5):
        stack.policy(f"filler-{number}", filler(number, actions, chance), wait=number == 4)
    return int(stack.metrics(stack.engine)["writ_engine_policy_rules"])


# ---- measuring ----


def cpu_by_thread(pids):
    """CPU time so far in ns of the threads that live, {name of thread: sum over those of that name}."""
    spent = {}
    for pid in pids:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            try:
                name = (task / "comm").read_text().strip()
                spent[name] = spent.get(name, 0) + int((task / "schedstat").read_text().split()[0])
            except FileNotFoundError:
                pass
    return spent


def cpu_ns(pids):
    """CPU time so far of these processes, with that of threads that have ended, as those that fold snapshots."""
    return sum(time.clock_gettime_ns(~pid << 3 | PROCESS_CLOCK) for pid in pids)


def wait_folded(pid):
    """Until no snapshot is being made, and none begins for a moment: it belongs to earlier requests."""
    quiet_since = time.monotonic()
    deadline = quiet_since + 120
    while time.monotonic() < min(quiet_since + QUIET_SECONDS, deadline):
        if any(name in cpu_by_thread([pid]) for name in SNAPSHOT_THREADS):
            quiet_since = time.monotonic()
        time.sleep(0.02)


class Constant:
    """A server on core 0 that reads a POST and answers a constant."""

    path = "/"

    context = None # where it speaks TLS

    def __init__(self, *command):
        self.process = subprocess.Popen(["taskset", "-c", "0", *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        harness.eventually(self.answers, f"{command[0]} answers", 10)

    def answers(self):
        try:
            with harness.Wire(("127.0.0.1", self.port), tls=self.context) as wire:
                return wire.post(self.path, {}).status == 200
        except OSError:
            return False

    def pids(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [self.process.pid, *map(int, children)]

    def end(self):
        signal_all(self.pids(), signal.SIGCONT)
        self.process.terminate()
        self.process.wait()


class Floor(Constant):
    """The engine's transport alone."""

    path = "/x"

    def __init__(self, body_bytes, *asked):
        self.port = harness.free_port()
        super().__init__(harness.BIN / "http_floor", self.port, body_bytes, *asked)


class Asked(Floor):
    """The same with what is asked of every engine, in as many bytes as this one makes of a request."""

    def __init__(self, folder, body_bytes, request_bytes):
        path, segment = folder / "asked.sock", folder / "asked.segment"
        path.unlink(missing_ok=True)
        with open(segment, "wb") as file:
            file.write(bytes(SEGMENT_BYTES))
            os.fsync(file.fileno())
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            super().__init__(body_bytes, segment, path, *request_bytes)
            sender, _ = listener.accept()
        threading.Thread(target=self.read, args=(sender,), daemon=True).start()

    def read(self, sender):
        """As the platform does, on its core."""
        os.sched_setaffinity(0, {1})  # of this thread alone
        room = bytearray(1 << 18)
        while sender.recv_into(room):
            pass


class Nginx(Constant):
    """One worker."""

    def __init__(self, folder, body_bytes, pair=None):
        self.folder, self.port, self.socket = folder, harness.free_port(), folder / "nginx.sock"
        self.context = ssl.create_default_context(cafile=str(pair.cert.with_name("authority.pem"))) if pair else None
        self.socket.unlink(missing_ok=True)
        # a word of nginx's configuration is at most 4 KiB long
        pieces, rest = divmod(max(1, body_bytes - len('{"decision":"allow","x":""}')), NGINX_PIECE_BYTES)
        piece, filling = "a" * NGINX_PIECE_BYTES, "${piece}" * pieces + "a" * rest
        user = "user root;" if os.geteuid() == 0 else ""
        secure = f" ssl; ssl_certificate {pair.cert}; ssl_certificate_key {pair.key}; ssl_protocols TLSv1.3" if pair else ""
        temporary = " ".join(f"{name}_temp_path {folder}/{name};" for name in
                             ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (folder / "nginx.conf").write_text(
            f"worker_processes 1; daemon off; {user} pid {folder}/nginx.pid; error_log {folder}/nginx.log warn;\n"
            "events { worker_connections 4096; }\n"
            f"http {{ access_log off; keepalive_requests 1000000000; keepalive_timeout 1h; {temporary}\n"
            f" server {{ listen 127.0.0.1:{self.port}{secure}; listen unix:{self.socket}; location / {{\n"
            f"  set $piece {piece}; default_type application/json; return 200 '{{\"decision\":\"allow\",\"x\":\"{filling}\"}}'; }} }} }}\n")
        super().__init__("nginx", "-p", folder, "-c", folder / "nginx.conf")


def signal_all(pids, number):
    for pid in pids:
        os.kill(pid, number)


@functools.cache
def coming_first():
    """What lets the generator run before whatever else is on its core, where that is allowed."""
    first = ["chrt", "-f", "1"]
    return first if subprocess.run([*first, "true"], capture_output=True).returncode == 0 else []


def run_load(address, bodies, connections, depth=1, seconds=None, requests=None, key_file=None, serial=0, path=None,
             statuses=("200",), more=(), items=1):
    """One run of the load generator over one or two files of bodies; what it printed."""
    command = ["taskset", "-c", "1", *coming_first(), str(harness.BIN / "load"), "--address", address,
               "--connections", str(connections), "--pipeline", str(depth), "--serial", str(serial), *map(str, more)]
    for file in [bodies] if isinstance(bodies, pathlib.Path) else bodies:
        command += ["--file", str(file)]
    command += ["--requests", str(requests)] if requests else ["--seconds", str(seconds)]
    if key_file:
        command += ["--key-file", str(key_file)]
    if path:
        command += ["--path", path]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"the load generator failed ({done.returncode}): {done.stdout}{done.stderr}")
    result = json.loads(done.stdout)
    if statuses and set(result["statuses"]) != set(statuses):
        fail(f"not every answer was a {' or '.join(statuses)}: {result['statuses']}")
    result["replies"] *= items
    result["req_s"] *= items
    return result


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.chance = random.Random(SEED)
        calls = corpus_calls()
        self.from_corpus = calls is not None
        self.calls = calls or generated_calls(self.chance)
        self.bodies, self.outcomes = folder / "bodies.ndjson", None
        self.serial = 0
        self.rules = 0 # until a stack has started

    def start(self, durability, *engine, platform=(), store_url=None, over_tls=False):
        folder = self.folder / "stack"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        between = folder / "platform.sock" # as ops/run connects them
        stack = harness.Stack(folder, engine=["--durability", durability, "--listen.unix", folder / "engine.sock",
                                              "--platform.url", f"unix:{between}", "--overload.delay", bench_overload.DELAY, *engine],
                              platform=["--listen.unix", between, *platform],
                              store_url=store_url, engine_prefix=["taskset", "-c", "0"], platform_prefix=["taskset", "-c", "1"])
        if over_tls:
            self.secure(stack)
        stack.start()
        self.rules = load_policies(stack, self.calls, self.from_corpus, random.Random(SEED))
        if self.rules < 1000:
            fail(f"only {self.rules} rules are loaded")
        if self.outcomes is None:
            self.outcomes = outcomes_of(stack, self.calls)
            write_bodies(self.bodies, self.calls, self.outcomes, self.chance)
            for row, size in BATCHES.items():
                write_batches(self.bodies_of(row), self.bodies, size)
        (folder / "agent.key").write_text(stack.keys["agent"] + "\n")
        self.serial = 0
        return stack

    def secure(self, stack):
        """Both the engine and nginx have this pair."""
        self.authority = Authority(self.folder / "ca")
        self.pair = self.authority.pair("server")
        stack.engine.speak_tls(self.authority, self.pair)

    def trust(self, row):
        return ["--tls-ca", self.authority.cert] if row in OVER_TLS else []

    def bodies_of(self, row):
        return self.folder / f"{row}.ndjson" if row in BATCHES else self.bodies

    def engine_turn(self, stack, address, bodies, *arguments, **options):
        """One run against the engine, until everything is published: what the generator said, and CPU."""
        stack.wait_published()
        wait_folded(stack.engine.pid)
        metrics = stack.metrics(stack.engine)
        before, spent = cpu_by_thread([stack.engine.pid]), cpu_ns([stack.engine.pid])
        result = run_load(address, bodies, *arguments, serial=self.serial, **options)
        self.serial += result["requests"]
        stack.wait_published()
        after, spent = cpu_by_thread([stack.engine.pid]), cpu_ns([stack.engine.pid]) - spent
        result["threads"] = {name: (ns - before.get(name, 0)) / 1000 / result["replies"] for name, ns in after.items()}
        result["cpu_us"] = spent / 1000 / result["replies"]
        result["threads"]["ended"] = max(0, result["cpu_us"] - sum(result["threads"].values()))
        result["snapshots_us"] = result["threads"]["ended"] + sum(result["threads"].get(name, 0) for name in SNAPSHOT_THREADS)
        result["steady_us"] = result["cpu_us"] - result["snapshots_us"]
        now = stack.metrics(stack.engine)
        result["syncs"] = now["writ_engine_journal_syncs_total"] - metrics["writ_engine_journal_syncs_total"]
        result["crossed"] = now["writ_engine_calls_crossed_total"] - metrics["writ_engine_calls_crossed_total"]
        result["records"] = now["writ_engine_journal_seq"] - metrics["writ_engine_journal_seq"]
        result["journal_bytes"] = now["writ_engine_journal_bytes_total"] - metrics["writ_engine_journal_bytes_total"]
        return result

    def engine_round(self, stack, row, seconds):
        unix = ROWS[row][3]
        address = f"unix:{stack.folder}/engine.sock" if unix else "{}:{}".format(*stack.engine.address)
        _, connections, depth, _, _ = ROWS[row]
        return self.engine_turn(stack, address, self.bodies_of(row), connections, depth, seconds, key_file=stack.folder / "agent.key", more=self.trust(row),
                                path="/v1/authorize/batch" if row in BATCHES else None, items=BATCHES.get(row, 1))

    def request_bytes(self, stack, result):
        """Of a record, its event and what outputHash is of: means over the requests of this turn."""
        with stack.at_platform("auditor") as wire:
            events = [entry["event"] for entry in wire.get("/api/v1/audit?limit=500&exact=true").json["events"]]

        def mean_bytes(values):
            return statistics.mean(len(canonical.canonical(value).encode()) for value in values)

        outcomes = [canonical.outcome(event) for event in events if event["kind"] == "decision"]
        return (round(result["journal_bytes"] / result["replies"]), round(mean_bytes(events) * result["records"] / result["replies"]),
                round(mean_bytes(outcomes)))

    def constant_round(self, server, row, seconds):
        """The same POSTs to a server that answers a constant."""
        address = f"unix:{server.socket}" if ROWS[row][3] else f"127.0.0.1:{server.port}"
        before = cpu_ns(server.pids())
        _, connections, depth, _, _ = ROWS[row]
        result = run_load(address, self.bodies_of(row), connections, depth, seconds, path=server.path,
                          key_file=self.folder / "stack" / "agent.key", serial=self.serial, more=self.trust(row),
                          items=BATCHES.get(row, 1))
        result["cpu_us"] = (cpu_ns(server.pids()) - before) / 1000 / result["replies"]
        return result

    def measure(self, row):
        seconds, rounds, is_unix = self.options.seconds, self.options.rounds, ROWS[row][3]
        stack = self.start(ROWS[row][0], *ENGINE_OPTIONS.get(row, ()), over_tls=row in OVER_TLS)
        servers = {}
        try:
            warm = self.engine_round(stack, row, min(seconds, 0.5))
            body_bytes = round(warm["body_bytes"] / warm["replies"] * BATCHES.get(row, 1))
            servers = {"nginx": Nginx(self.folder, body_bytes, self.pair if row in OVER_TLS else None)}
            if not is_unix and row not in BATCHES and row not in OVER_TLS:
                servers["floor"] = Floor(body_bytes)
                servers["asked"] = Asked(self.folder, body_bytes, self.request_bytes(stack, warm))
            self.constant_round(servers["nginx"], row, 0.2)
            turns = {"engine": lambda: self.engine_round(stack, row, seconds)}
            for name, server in servers.items():
                turns[name] = functools.partial(self.constant_round, server, row, seconds)
            pids = {"engine": [stack.engine.pid], **{name: server.pids() for name, server in servers.items()}}
            results = {name: [] for name in turns}
            for number in range(rounds):
                for turn in turns if number % 2 == 0 else reversed(turns):
                    others = [pid for name in turns if name != turn for pid in pids[name]]
                    signal_all(others, signal.SIGSTOP)
                    results[turn].append(turns[turn]())
                    signal_all(others, signal.SIGCONT)
            ours = results["engine"]
            asked = sum(r["decisions"]["human_review"] for r in (warm, *ours))
            harness.eventually(lambda: stack.metrics(stack.engine)["writ_engine_reviews_pending"] == asked,
                               f"each of {asked} human_reviews is a fresh review", 10)
            stack.engine.stop()
            stack.platform.stop()
        finally:
            for server in servers.values():
                server.end()
            stack.close()
        return self.summary(row, ours, results["nginx"], {name: results.get(name) for name in FLOORS})

    def summary(self, row, ours, theirs, floors):
        decisions = {name: sum(r["decisions"][name] for r in ours) for name in OUTCOMES}
        replies = sum(r["replies"] for r in ours)
        for name, count in decisions.items():
            if count < OUTCOME_SHARE * replies:
                fail(f"only {100 * count / replies:.1f} % of the answers are {name}: the mix is not a fair one")
        ratios = [theirs[i]["cpu_us"] / ours[i]["cpu_us"] for i in range(len(ours))]

        def median(rounds, name):
            return statistics.median(r[name] for r in rounds)

        return {
            "name": row, "durability": ROWS[row][0], "connections": ROWS[row][1], "depth": ROWS[row][2],
            "req_s": round(median(ours, "req_s")), "p50_ms": round(median(ours, "p50_ms"), 3),
            "p99_ms": round(median(ours, "p99_ms"), 3), "cpu_us": round(median(ours, "cpu_us"), 2),
            "steady_us": round(median(ours, "steady_us"), 2),
            "cpu_us_mean": round(sum(r["cpu_us"] * r["replies"] for r in ours) / replies, 2),
            "vs_nginx": round(statistics.median(ratios), 3),
            "vs_nginx_min": round(min(ratios), 3), "vs_nginx_max": round(max(ratios), 3),
            "nginx_req_s": round(median(theirs, "req_s")), "nginx_p50_ms": round(median(theirs, "p50_ms"), 3),
            "nginx_p99_ms": round(median(theirs, "p99_ms"), 3), "nginx_cpu_us": round(median(theirs, "cpu_us"), 2),
            **{f"{name}_cpu_us": round(median(them, "cpu_us"), 2) if them else None for name, them in floors.items()},
            **{f"{name}_vs_nginx": round(statistics.median(n["cpu_us"] / f["cpu_us"] for n, f in zip(theirs, them)), 3) if them else None
               for name, them in floors.items()},
            "syncs_per_s": round(statistics.median(r["syncs"] / r["seconds"] for r in ours)),
            "requests": replies, "rounds": len(ours), "gate": ROWS[row][4],
            "body_bytes": round(sum(r["body_bytes"] for r in ours) / replies),
            "threads_cpu_us": {name: round(statistics.median(r["threads"].get(name, 0) for r in ours), 2)
                               for name in sorted({name for r in ours for name in r["threads"]})},
            "outcomes": {name: round(count / replies, 3) for name, count in decisions.items()},
        }


def file_system(folder):
    kind = subprocess.run(["stat", "-f", "-c", "%T", str(folder)], capture_output=True, text=True, check=True).stdout.strip()
    if kind in ("tmpfs", "ramfs"):
        fail(f"{folder} is on {kind}, where nothing is ever synced; name a directory on a disk with --data")
    return kind


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return machine.machine()


def print_table(rows):
    head = (f"{'row':<14}{'durability':>11}{'req/s':>9}{'p50 ms':>9}{'p99 ms':>9}{'CPU us':>8}{'nginx us':>9}"
            f"{'vs nginx':>9}{'(min-max)':>14}{'gate':>6}" + "".join(f"{f'{name} us':>9}{'vs nginx':>9}" for name in FLOORS) +
            f"{'nginx r/s':>11}{'syncs/s':>9}  allow/deny/review/compute %")
    print(head)
    for r in rows:
        shares = "/".join(f"{100 * r['outcomes'][name]:.0f}" for name in OUTCOMES)
        gate = f"{r['gate']:.2f}" if r["gate"] else ""
        floors = "".join(f"{r[f'{name}_cpu_us']:>9.2f}{r[f'{name}_vs_nginx']:>9.2f}" if r[f"{name}_cpu_us"] else " " * 18 for name in FLOORS)
        print(f"{r['name']:<14}{r['durability']:>11}{r['req_s']:>9}{r['p50_ms']:>9.3f}{r['p99_ms']:>9.3f}{r['cpu_us']:>8.2f}"
              f"{r['nginx_cpu_us']:>9.2f}{r['vs_nginx']:>9.2f}{r['vs_nginx_min']:>7.2f}-{r['vs_nginx_max']:<6.2f}{gate:>6}{floors}"
              f"{r['nginx_req_s']:>11}{r['syncs_per_s']:>9}  {shares}")


def print_threads(rows):
    """Where the engine's CPU time per request went."""
    names = sorted({name for r in rows for name in r["threads_cpu_us"]})
    print("\nCPU us a request, by thread")
    print(f"{'row':<14}" + "".join(f"{name:>17}" for name in names))
    for r in rows:
        print(f"{r['name']:<14}" + "".join(f"{r['threads_cpu_us'].get(name, 0):>17.2f}" for name in names))
    print("medians; over all requests together: " + ", ".join(f"{r['name']} {r['cpu_us_mean']:.2f}" for r in rows))


def micro_benchmarks():
    """The in-process ones, on core 0, as they print themselves."""
    printed = {}
    for path in sorted(harness.BIN.glob("bench_*")):
        if not os.access(path, os.X_OK) or path.name == "bench_recovery": # a row of its own
            continue
        done = subprocess.run(["taskset", "-c", "0", str(path)], capture_output=True, text=True, cwd=TOP, timeout=120)
        printed[path.name] = done.stdout.strip().splitlines()
        print(f"\n{path.name}" + ("" if done.returncode == 0 else f" failed ({done.returncode})"))
        print("\n".join(f"  {line}" for line in printed[path.name]))
    return printed


def main():
    parser = argparse.ArgumentParser(prog="ops/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", action="append", choices=[*ROWS, *bench_offered.ROWS, *bench_overload.ROWS, *bench_attack.ROWS, *bench_state.ROWS, *bench_swap.ROWS, *bench_hook.ROWS, *bench_stack.ROWS, *bench_fleet.ROWS],
                        help="only this row (may be repeated)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.5, help="of load in each turn")
    parser.add_argument("--state-size", type=int, default=1_000_000, metavar="N",
                        help="live tokens under the rows of state; a tenth of that are pending reviews")
    parser.add_argument("--stack", action="store_true", help="only the rows with Kafka and PostgreSQL")
    parser.add_argument("--backlog", type=int, default=200_000, metavar="N", help="requests behind the rows publish and ingest_…")
    parser.add_argument("--outage", type=float, default=60, metavar="S", help="seconds without a broker in the row outage")
    parser.add_argument("--quick", action="store_true", help="one round of half a second a row: a smoke test, not a measurement")
    parser.add_argument("--data", type=pathlib.Path, default=TOP / "build" / "bench", help="where the programs keep their data")
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="print JSON instead of the table, or also write it to FILE")
    parser.add_argument("--no-micro", action="store_true", help="without the in-process benchmarks")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.5
        options.state_size = min(options.state_size, 20_000)
        options.backlog, options.outage = min(options.backlog, 10_000), min(options.outage, 5)
    if "WRIT_BUILD" not in os.environ or harness.REACTORS != "1":
        fail("start it by ops/bench, which builds what it measures; other builds carry sanitizers, and one reactor is measured")
    if len(os.sched_getaffinity(0)) < 2:
        fail("two cores are needed: one for what is measured, one for the rest")
    options.data.mkdir(parents=True, exist_ok=True)
    kind = file_system(options.data)
    quiet = options.json == "-"
    if quiet:
        stdout, sys.stdout = sys.stdout, sys.stderr

    bench = Bench(options, options.data.resolve())
    start = time.monotonic()
    rows = []
    wanted = options.row or ([*bench_stack.ROWS, *bench_fleet.ROWS] if options.stack else [*ROWS, *bench_offered.ROWS, *bench_overload.ROWS, *bench_attack.ROWS, *bench_state.ROWS, *bench_swap.ROWS, *bench_hook.ROWS])
    for row in (name for name in ROWS if name in wanted):
        rows.append(bench.measure(row))
        print(f"{row}: {rows[-1]['cpu_us']} us of CPU a request, {rows[-1]['vs_nginx']} of nginx's", file=sys.stderr)
    offered_rows = bench_offered.measure(bench, [name for name in bench_offered.ROWS if name in wanted], sys.modules[__name__])
    overload_rows = bench_overload.measure(bench, [name for name in bench_overload.ROWS if name in wanted], sys.modules[__name__])
    attack_rows = bench_attack.measure(bench, [name for name in bench_attack.ROWS if name in wanted], sys.modules[__name__])
    state_rows, memory = bench_state.measure(bench, [name for name in bench_state.ROWS if name in wanted], sys.modules[__name__])
    swap_rows = bench_swap.measure(bench, [name for name in bench_swap.ROWS if name in wanted], sys.modules[__name__])
    hook_rows = bench_hook.measure(bench, [name for name in bench_hook.ROWS if name in wanted], sys.modules[__name__])
    stack_rows = bench_stack.measure(bench, [name for name in bench_stack.ROWS if name in wanted], sys.modules[__name__])
    fleet_rows = bench_fleet.measure(bench, [name for name in bench_fleet.ROWS if name in wanted], sys.modules[__name__])
    about = {"processor": processor(), "cores": os.cpu_count(), "kernel": machine.release(), "file_system": kind,
             "rules": bench.rules, "state_size": options.state_size, "traffic": "corpus of tool calls" if bench.from_corpus else "seeded generator",
             "rounds": options.rounds, "seconds_a_turn": options.seconds}
    print(f"\n{about['processor']}, {about['cores']} cores, Linux {about['kernel']}; journal on {kind}; {bench.rules} rules; "
          f"traffic: {about['traffic']}; medians of {options.rounds} rounds of {options.seconds} s")
    if rows:
        print_table(rows)
        print_threads(rows)
    bench_offered.print_table(offered_rows)
    bench_overload.print_table(overload_rows)
    bench_attack.print_table(attack_rows)
    bench_state.print_table(state_rows, memory)
    bench_swap.print_table(swap_rows)
    bench_hook.print_table(hook_rows)
    bench_stack.print_table(stack_rows)
    bench_fleet.print_table(fleet_rows)
    micro = {} if options.no_micro or options.stack else micro_benchmarks()
    print(f"\n{time.monotonic() - start:.0f} seconds", file=sys.stderr)
    shutil.rmtree(options.data / "stack", ignore_errors=True)

    document = json.dumps({"rows": rows + offered_rows + overload_rows + attack_rows + state_rows + swap_rows + hook_rows + stack_rows + fleet_rows, "state": memory, "machine": about, "micro": micro}, indent=1)
    if quiet:
        print(document, file=stdout)
    elif options.json:
        pathlib.Path(options.json).write_text(document + "\n")
    missed = [r["name"] for r in rows if r["gate"] and r["vs_nginx"] < r["gate"]]
    missed += [r["name"] for r in state_rows + stack_rows + fleet_rows if r["goal_met"] is False]
    if missed and not options.quick:
        print(f"below their gate: {', '.join(missed)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
