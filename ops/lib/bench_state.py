"""The rows of ops/bench that need state: tokens, reviews and limits, over a loaded engine.

The engine (one reactor on core 0, its data on a disk, audit published, as in the other rows) first
gets --state-size live tokens by /v1/tokens/mint, and a tenth as many pending reviews. What it then
has more in memory, by the number that its metrics count, is the memory of one: this includes the
journal's follower, which keeps a second copy for snapshots.

  row             what one request is                                              goal
  mint            POST /v1/tokens/mint, 64 connections, synced
  token_first_sight
                  authorize with a token that the engine has not seen, 64 connections: it verifies the
                  signature and asks the token's slot; then the same requests and tokens once more
  token_c64       authorize with one of 10,000 tokens that the engine has seen,    0.9 of the same
                  64 connections; in turns with the same requests by one API key   by key (CPU)
  enqueue         authorize that becomes a fresh review, 64 connections, synced
  wake            an approval, until the client that waits for it has its answer:  p99 10 ms
                  10,000 reviews with one waiting connection each
  limited_local   authorize that counts against a limit, two reactors; the counter is on the
                  reactor that has the connection
  limited_remote  the same, and the counter is always on the other reactor
  recovery        tests/bench/bench_recovery: a boot with that much state, nine    5 s
                  tenths of it in the snapshot and a tenth in the journal

Before the limited rows the engine is restarted with the two reactors, both on core 0; how long it
took to be ready again is printed beside the memory. Which reactor a counter is on follows from its
slot. Which one a connection is on shows in the metric of crossed calls, so each turn is counted for
the row that it turned out to be. Every figure is the median of the rounds, of which there are three
at most: each one leaves state behind.

A snapshot comes after so much journal, takes a second of CPU and more where there is much state, and falls
into some rounds and not into others. `steady` is CPU without the threads that make snapshots, `mean`
is all CPU over all requests of the row together. token_c64 compares what is steady: both kinds of
requests journal the same. A round begins, and memory is read, when no snapshot is under way.
"""

import hashlib
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import time

import harness

ONE_REACTOR = ("mint", "token_first_sight", "token_c64", "enqueue", "wake")
ROWS = (*ONE_REACTOR, "limited_local", "limited_remote", "recovery")
LOADED = ROWS[:-1] # those that need the engine
ROUNDS_MAX = 3
CONNECTIONS = 64
WARM_TOKENS = 10_000
FRESH_TOKENS = 20_000 # a turn uses half, so that no connection comes to where another one began
TOKEN_BODIES = 4 * WARM_TOKENS # an actor has a few reviews pending, never a hundred
ACTORS_COUNTED = 1000
FIRST = 1000
PIECE = 50_000 # loaded between two looks at whether all is published
TOKEN_GOAL, WAKE_GOAL_MS, RECOVERY_GOAL_S = 0.9, 10, 5

POLICY = """
rules:
  - {id: asked, agents: ["*"], actions: [bench_ask], decision: human_review, reason: A person decides., review: {expires_in: 1d}}
  - {id: counted, agents: ["*"], actions: [bench_count], decision: allow, limit: {per: actor, window: 1h, count: 1000000}}
"""
MINT = {"actor": "agent-~~~~~~~~", "scope": "get_* search_*", "ttl_seconds": 86400}
ASK = {"action": "bench_ask", "actor": "agent-~~~~~~~~", "confidence": 0.95,
       "args": {"ref": "@@@@@@@@", "amount": 120.5, "note": "The customer asks for the money back, the parcel never came."}}


def rss_bytes(pid):
    return int(re.search(r"VmRSS:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) * 1024


def slot_of_counter(actor):
    """As src/engine/decision/digest.c digests it: the slot of rule `counted` in the policy `state` above."""
    digest = hashlib.sha256()
    for part in ("limit of any window", harness.Stack.TENANT, "state", "counted", "actor", actor):
        digest.update(len(part).to_bytes(4, "little") + part.encode())
    return int.from_bytes(digest.digest()[:2], "big") % 1024


class Loaded:
    """One engine with its state, and the rows over it."""

    def __init__(self, bench, tools):
        self.bench, self.tools, self.fail = bench, tools, tools.fail
        self.seconds, self.rounds = bench.options.seconds, min(bench.options.rounds, ROUNDS_MAX)
        self.size = bench.options.state_size
        self.full = self.size >= 1_000_000
        self.memory = {}
        self.stack = bench.start("written", "--overload.delay", "0", "--http.connections", "14000") # its state comes all at once; three quarters may wait, half with one key
        self.folder = self.stack.folder
        self.agent_key = self.folder / "agent.key"
        reviewer = self.stack.key("reviewers", ["reviewer"], owner="rita", reviewers=["*"], wait=False)
        self.stack.policy("state", POLICY)
        (self.folder / "reviewer.key").write_text(reviewer + "\n")
        self.mints = self.write("mints", [MINT] * 1000)
        self.asks = self.write("asks", [ASK] * 1000)

    def write(self, name, bodies):
        path = self.folder / f"{name}.ndjson"
        path.write_text("".join(json.dumps(body, separators=(",", ":")) + "\n" for body in bodies))
        return path

    @property
    def address(self):
        return f"127.0.0.1:{self.stack.engine.port}"

    def turn(self, bodies, connections=CONNECTIONS, depth=1, key_file=None, **options):
        return self.bench.engine_turn(self.stack, self.address, bodies, connections, depth, key_file=key_file or self.agent_key,
                                      **options)

    def mint(self, **options):
        return self.turn(self.mints, path="/v1/tokens/mint", statuses=("201",), **options)

    def ask(self, **options):
        result = self.turn(self.asks, **options)
        if result["decisions"]["human_review"] != result["replies"]:
            self.fail(f"not every request became a review: {result['decisions']}")
        return result

    # ---- loading ----

    def state(self, tokens, reviews):
        """Resident bytes, once the engine counts that many; its gauges are set about once a second."""
        def counted():
            now = self.stack.metrics(self.stack.engine)
            return now["writ_engine_tokens"] == tokens and now["writ_engine_reviews_pending"] == reviews
        harness.eventually(counted, f"{tokens} tokens and {reviews} pending reviews are there")
        self.tools.wait_folded(self.stack.engine.pid)
        return rss_bytes(self.stack.engine.pid)

    def load(self):
        """The tokens, then the reviews; what each takes."""
        self.mint(requests=FIRST, depth=16) # buffers that any load fills are not counted
        self.ask(requests=FIRST, depth=16)
        begun = self.state(FIRST, FIRST)
        for done in range(0, self.size, PIECE):
            self.mint(requests=min(PIECE, self.size - done), depth=16)
        minted = self.state(FIRST + self.size, FIRST)
        reviews = self.size // 10
        for done in range(0, reviews, PIECE):
            self.ask(requests=min(PIECE, reviews - done), depth=16)
        asked = self.state(FIRST + self.size, FIRST + reviews)
        self.memory = {"tokens": FIRST + self.size, "reviews_pending": FIRST + reviews, "rss_bytes": asked,
                       "rss_bytes_per_token": round((minted - begun) / self.size),
                       "rss_bytes_per_review": round((asked - minted) / reviews)}

    # ---- rows ----

    def row(self, name, turns, **more):
        total = sum(t.get("replies", 1) for t in turns)
        return {"name": name, "cpu_us_mean": round(sum(t["cpu_us"] * t.get("replies", 1) for t in turns) / total, 2), **{figure: round(statistics.median(t[figure] for t in turns), 3)
                                 for figure in ("req_s", "p50_ms", "p99_ms", "cpu_us", "steady_us")},
                "threads_cpu_us": {name: round(statistics.median(t.get("threads", {}).get(name, 0) for t in turns), 2)
                                   for name in sorted({name for t in turns for name in t.get("threads", {})})},
                "cpu_us_of_rounds": [round(t["cpu_us"], 2) for t in turns],
                "vs_nginx": None, "connections": CONNECTIONS, "rounds": len(turns), "goal": "", "goal_met": None, **more}

    def row_mint(self):
        return self.row("mint", [self.mint(seconds=self.seconds) for _ in range(self.rounds)])

    def row_enqueue(self):
        return self.row("enqueue", [self.ask(seconds=self.seconds) for _ in range(self.rounds)])

    def minted_tokens(self, count):
        """A file of new tokens, the n-th of which is the actor's of that number."""
        bodies = self.write("minted", [{"actor": f"assistant-w{n}", "scope": "*", "ttl_seconds": 86400} for n in range(count)])
        tokens = self.folder / "tokens"
        self.turn(bodies, connections=1, depth=16, requests=count, path="/v1/tokens/mint", statuses=("201",),
                  more=["--member", "token", "--save", tokens])
        return tokens

    def bodies_of_actors(self, name, count, actors):
        """A file of requests, each of the next of so many actors."""
        path = self.folder / f"{name}-bodies.ndjson"
        self.tools.write_bodies(path, self.bench.calls, self.bench.outcomes, self.bench.chance, count,
                                lambda number: f"assistant-w{number % actors}")
        return path

    def row_token_first_sight(self):
        bodies, first, again = self.bodies_of_actors("first", FRESH_TOKENS, FRESH_TOKENS), [], []
        for _ in range(self.rounds):
            tokens = self.minted_tokens(FRESH_TOKENS)
            for turns in (first, again):
                turns.append(self.turn(bodies, key_file=tokens, requests=FRESH_TOKENS // 2))
        more_us = statistics.median(f["steady_us"] - a["steady_us"] for f, a in zip(first, again))
        return self.row("token_first_sight", first, again_steady_us=self.row("", again)["steady_us"],
                        goal=f"{more_us:.1f} us of CPU more than a token that was seen")

    def row_token_c64(self):
        tokens, bodies = self.minted_tokens(WARM_TOKENS), self.bodies_of_actors("token", TOKEN_BODIES, WARM_TOKENS)
        self.turn(bodies, key_file=tokens, requests=TOKEN_BODIES) # each token is seen once
        by_token, by_key = [], []
        for number in range(self.rounds):
            for kind in ("token", "key") if number % 2 == 0 else ("key", "token"):
                turns, key_file = (by_token, tokens) if kind == "token" else (by_key, self.agent_key)
                turns.append(self.turn(bodies, key_file=key_file, seconds=self.seconds))
        ratio = statistics.median(k["steady_us"] / t["steady_us"] for k, t in zip(by_key, by_token))
        key = self.row("", by_key)
        outcomes = {name: round(sum(t["decisions"][name] for t in by_token) / sum(t["replies"] for t in by_token), 3)
                    for name in by_token[0]["decisions"]}
        return self.row("token_c64", by_token, vs_key=round(ratio, 3), key_cpu_us=key["cpu_us"], key_steady_us=key["steady_us"], key_req_s=key["req_s"],
                        key_cpu_us_of_rounds=key["cpu_us_of_rounds"], key_threads_cpu_us=key["threads_cpu_us"], outcomes=outcomes,
                        goal=f"{ratio:.2f} of the same by key >= {TOKEN_GOAL}", goal_met=ratio >= TOKEN_GOAL)

    def row_wake(self):
        count, reviews = (10_000 if self.full else 1000), self.folder / "reviews"
        self.ask(requests=count, more=["--member", "review_id", "--save", reviews])
        before = 0
        self.tools.wait_folded(self.stack.engine.pid)
        command = ["taskset", "-c", "1", str(harness.BIN / "wake"), "--address", self.address, "--reviews", str(reviews),
                   "--agent-key-file", str(self.agent_key), "--reviewer-key-file", str(self.folder / "reviewer.key")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as wake:
            if wake.stdout.readline() == "waiting\n":
                harness.eventually(lambda: self.stack.metrics(self.stack.engine)["writ_engine_waits"] == count, "all wait")
                before = self.engine_cpu()
            told, complaint = wake.communicate("go on\n")
        if wake.returncode != 0:
            self.fail(f"tests/bench/wake failed ({wake.returncode}): {complaint}")
        result = json.loads(told)
        self.stack.wait_published()
        result["cpu_us"] = result["steady_us"] = (self.engine_cpu() - before) / 1000 / count
        return self.row("wake", [result], connections=count, max_ms=result["max_ms"], asked_again=result["asked_again"],
                        goal=f"p99 <= {WAKE_GOAL_MS} ms, {count} waiters", goal_met=result["p99_ms"] <= WAKE_GOAL_MS)

    def engine_cpu(self):
        return self.tools.cpu_ns([self.stack.engine.pid])

    def restart_on_two_reactors(self):
        engine = self.stack.engine
        engine.stop()
        engine.arguments += ["--reactors", "2"]
        begun = time.monotonic()
        engine.start()
        self.memory["restart_s"] = round(time.monotonic() - begun, 2)

    def counted_bodies(self):
        """Two files: actors whose counter the first reactor has, and the second."""
        actors = ([], [])
        number = 0
        while min(map(len, actors)) < ACTORS_COUNTED:
            actor = f"counted-{number}"
            actors[slot_of_counter(actor) % 2].append(actor)
            number += 1
        return [self.write(f"counted-{owner}", [{"action": "bench_count", "actor": actor, "confidence": 0.95, "args": {"ref": "@@@@@@@@"}}
                                                for actor in actors[owner]]) for owner in range(2)]

    def rows_limited(self):
        self.restart_on_two_reactors()
        files, turns = self.counted_bodies(), {"limited_local": [], "limited_remote": []}
        for attempt in range(10 * self.rounds):
            result = self.turn(files if attempt % 2 == 0 else files[::-1], seconds=self.seconds, more=["--open-slowly"])
            if result["decisions"]["allow"] != result["replies"]:
                self.fail(f"a limit was reached: {result['decisions']}")
            crossed = result["crossed"] / result["replies"] # there and back is two
            if attempt > 1 and crossed < 0.1:
                turns["limited_local"].append(result)
            elif attempt > 1 and crossed > 1.9:
                turns["limited_remote"].append(result)
            if min(map(len, turns.values())) >= self.rounds:
                break
        else:
            self.fail("the connections do not take turns between the reactors, so neither row can be measured")
        return [self.row(name, found, crossed=round(statistics.median(t["crossed"] / t["replies"] for t in found), 2))
                for name, found in turns.items()]

    def measure(self, wanted):
        self.load()
        rows = [getattr(self, f"row_{name}")() for name in ONE_REACTOR if name in wanted]
        if {"limited_local", "limited_remote"} & set(wanted):
            rows += [row for row in self.rows_limited() if row["name"] in wanted]
        self.stack.engine.stop()
        self.stack.platform.stop()
        return rows


def recovery(bench, fail):
    folder = bench.folder / "recovery"
    shutil.rmtree(folder, ignore_errors=True)
    size = bench.options.state_size
    done = subprocess.run(["taskset", "-c", "0", str(harness.BIN / "bench_recovery"), str(folder), str(size), str(size // 10), "10", "2"],
                          capture_output=True, text=True)
    shutil.rmtree(folder, ignore_errors=True)
    spans = {name: (int(wall), int(cpu)) for name, wall, cpu in
             re.findall(r"^(snapshot|journal|together) +(\d+) ms, CPU +(\d+) ms$", done.stdout, re.M)}
    each = re.search(r"bytes per token (\d+), per review (\d+)", done.stdout)
    if done.returncode != 0 or "together" not in spans or each is None:
        fail(f"bench_recovery failed ({done.returncode}): {done.stdout}{done.stderr}")
    seconds = spans["together"][0] / 1000
    row = {"name": "recovery", "req_s": None, "p50_ms": None, "p99_ms": None, "cpu_us": None, "steady_us": None, "cpu_us_mean": None, "vs_nginx": None, "seconds": seconds,
           "cpu_s": spans["together"][1] / 1000, "snapshot_s": spans["snapshot"][0] / 1000, "journal_s": spans["journal"][0] / 1000,
           "tokens": size, "reviews": size // 10,
           "goal": f"{seconds:.2f} s (CPU {spans['together'][1] / 1000:.2f} s) <= {RECOVERY_GOAL_S} s",
           "goal_met": seconds <= RECOVERY_GOAL_S}
    return row, {"table_bytes_per_token": int(each[1]), "table_bytes_per_review": int(each[2])}


def measure(bench, wanted, tools):
    """The wanted rows, and what was learned about memory. `tools` is the module that asks, bench.py."""
    rows, memory = [], {}
    if set(wanted) & set(LOADED):
        loaded = Loaded(bench, tools)
        try:
            rows = loaded.measure(wanted)
        finally:
            loaded.stack.close()
        memory = loaded.memory
    if "recovery" in wanted:
        row, each = recovery(bench, tools.fail)
        rows.append(row)
        memory.update(each)
    return rows, memory


def print_table(rows, memory):
    if not rows:
        return
    if "tokens" in memory:
        print(f"\nover {memory['tokens']} tokens and {memory['reviews_pending']} pending reviews")
    print(f"{'row':<18}{'req/s':>9}{'p50 ms':>9}{'p99 ms':>9}{'CPU us':>8}{'steady':>8}{'mean':>8}  goal")
    for r in rows:
        figures = "".join(f"{'' if r[name] is None else format(r[name], form):>{width}}" for name, width, form in
                          (("req_s", 9, ".0f"), ("p50_ms", 9, ".3f"), ("p99_ms", 9, ".3f"), ("cpu_us", 8, ".2f"), ("steady_us", 8, ".2f"), ("cpu_us_mean", 8, ".2f")))
        verdict = {None: "", True: "", False: "  NOT MET"}[r["goal_met"]]
        print(f"{r['name']:<18}{figures}  {r['goal']}{verdict}")
    names = {"rss_bytes_per_token": "bytes of RSS per token", "rss_bytes_per_review": "per review",
             "table_bytes_per_token": "bytes in the table per token", "table_bytes_per_review": "per review",
             "restart_s": "seconds until the engine was ready again"}
    print("; ".join(f"{text}: {memory[name]}" for name, text in names.items() if name in memory))
