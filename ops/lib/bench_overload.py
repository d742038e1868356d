"""The rows overload and false_credentials of ops/bench: an engine that gets more than it can handle.

overload: a condition makes a decision cost about 50 us. A closed loop measures the capacity; then an open loop
over 2,048 connections sends 0.5 to 5 times as many: over a Unix socket, over TCP, and over TCP without
`overload.delay`. Goodput is the number of decisions a second that were answered within 100 ms of when they were
due. On a loopback interface the kernel does the client's part of TCP on the engine's core too, with each refusal.

false_credentials: an honest client over 64 connections, alone and beside a client that sends tokens with wrong
signatures over 64 more, by TCP and over the Unix socket.

The engine has core 0, the generators have core 1.
"""

import json
import statistics
import subprocess

import harness

ROWS = ("overload", "false_credentials")
FACTORS = (0.5, 0.8, 1, 1.5, 2, 3, 5)
CONNECTIONS, MANY = 64, 2048
GOOD_MS, DECISION_US = 100, 50
DELAY = "20ms"
WAYS = (("Unix", DELAY), ("TCP", DELAY), ("TCP", "0"))
FALSE_TOKENS = 1000

DEAR = """
rules:
  - {id: dear, agents: ["*"], actions: [weigh], decision: allow, when: "args.n.all(a, args.n.all(b, a + b >= 0))"}
"""


def write_bodies(path, size):
    with open(path, "w") as out:
        for number in range(2000):
            out.write(json.dumps({"action": "weigh", "actor": "scale-~~~~~~~~", "args": {"n": [number % 100 + i for i in range(size)], "ref": "@@@@@@@@"}}) + "\n")


def decision_us(stack, before):
    after = stack.metrics(stack.engine)
    spent, count = (after[f"writ_engine_decision_seconds_{name}"] - before[f"writ_engine_decision_seconds_{name}"] for name in ("sum", "count"))
    return 1e6 * spent / count


def run(bench, library, stack, bodies, connections, seconds, more=(), over="TCP"):
    address = f"unix:{stack.folder}/engine.sock" if over == "Unix" else f"127.0.0.1:{stack.engine.port}"
    result = library.run_load(address, bodies, connections, seconds=seconds, serial=bench.serial,
                              key_file=stack.folder / "agent.key", more=("--good-ms", GOOD_MS, *more), statuses=None)
    bench.serial += result["requests"]
    return result


def calibrate(bench, library, stack, bodies):
    """Bodies whose decisions cost about DECISION_US; what they cost."""
    for size in range(4, 64, 2):
        write_bodies(bodies, size)
        before = stack.metrics(stack.engine)
        run(bench, library, stack, bodies, 4, 0.2)
        if (cost := decision_us(stack, before)) >= DECISION_US:
            return cost
    library.fail("the condition is too cheap")


def overload(bench, library):
    rows = []
    for over, delay in WAYS:
        stack = bench.start("written", "--overload.delay", delay)
        try:
            stack.policy("dear", DEAR)
            bodies = bench.folder / "dear.ndjson"
            cost = calibrate(bench, library, stack, bodies)
            capacity = statistics.median(run(bench, library, stack, bodies, CONNECTIONS, bench.options.seconds, over=over)["req_s"] for _ in range(3))
            for factor in FACTORS:
                results = [run(bench, library, stack, bodies, MANY, 2 * bench.options.seconds, ("--rate", round(capacity * factor)), over)
                           for _ in range(bench.options.rounds)]
                rows.append({"name": "overload", "over": over, "delay": delay, "factor": factor, "capacity": round(capacity), "decision_us": round(cost, 1),
                             "offered": round(capacity * factor), "goal_met": None,
                             "goodput": round(statistics.median(r["good"] / r["seconds"] for r in results)),
                             "p50_ms": round(statistics.median(r["p50_ms"] for r in results), 1),
                             "p99_ms": round(statistics.median(r["p99_ms"] for r in results), 1),
                             "refused": round(statistics.median(r["statuses"].get("503", 0) / r["seconds"] for r in results))})
            stack.engine.stop()
            stack.platform.stop()
        finally:
            stack.close()
    return rows


def write_false_tokens(stack, path):
    """A good token with other signatures: the last digits but two, which no reader ignores."""
    with stack.at_engine("agent") as wire:
        token = wire.post("/v1/tokens/mint", {"actor": "bot", "scope": "*"}).json["token"]
    path.write_text("".join(f"{token[:-12]}{number:010}{token[-2:]}\n" for number in range(FALSE_TOKENS)))


def beside(bench, library, stack, bodies, attack, seconds):
    """The honest client, beside the other one if `attack` has its address."""
    before = stack.metrics(stack.engine)["writ_engine_auth_failed_total"]
    others = []
    if attack:
        others = [subprocess.Popen(["taskset", "-c", "1", str(harness.BIN / "load"), "--address", attack, "--connections", str(CONNECTIONS), "--seconds", "600",
                                    "--file", str(bodies), "--key-file", str(stack.folder / "false.keys")], stdout=subprocess.DEVNULL)]
    try:
        if attack:
            harness.eventually(lambda: stack.metrics(stack.engine)["writ_engine_auth_failed_total"] > before, "false tokens arrive")
        result = run(bench, library, stack, bodies, CONNECTIONS, seconds)
    finally:
        for other in others:
            other.kill()
            other.wait()
    result["false_s"] = (stack.metrics(stack.engine)["writ_engine_auth_failed_total"] - before) / result["seconds"]
    return result


def false_credentials(bench, library):
    stack = bench.start("written")
    try:
        write_false_tokens(stack, stack.folder / "false.keys")
        ways = {"alone": None, "TCP": f"127.0.0.1:{stack.engine.port}", "Unix": f"unix:{stack.folder}/engine.sock"}
        results = {name: [] for name in ways}
        for _ in range(bench.options.rounds):
            for name, attack in ways.items():
                results[name].append(beside(bench, library, stack, bench.bodies, attack, 2 * bench.options.seconds))
        stack.engine.stop()
        stack.platform.stop()
    finally:
        stack.close()
    return [{"name": "false_credentials", "beside": name, "goal_met": None,
             **{figure: round(statistics.median(r[figure] for r in some), 3) for figure in ("req_s", "p50_ms", "p99_ms", "false_s")},
             "refused": sum(r["statuses"].get("503", 0) for r in some)} for name, some in results.items()]


def measure(bench, wanted, library):
    rows = overload(bench, library) if "overload" in wanted else []
    return rows + (false_credentials(bench, library) if "false_credentials" in wanted else [])


def print_table(rows):
    for way in WAYS:
        some = [r for r in rows if r["name"] == "overload" and (r["over"], r["delay"]) == way]
        if not some:
            continue
        peak = max(r["goodput"] for r in some)
        print(f"\n{way[0]}, overload.delay {way[1]}: a decision costs {some[0]['decision_us']} us, capacity {some[0]['capacity']}/s; goodput is what was answered within {GOOD_MS} ms")
        print(f"{'x capacity':>10}{'offered/s':>11}{'goodput/s':>11}{'of peak':>9}{'p50 ms':>9}{'p99 ms':>9}{'refused/s':>11}")
        for r in some:
            print(f"{r['factor']:>10}{r['offered']:>11}{r['goodput']:>11}{100 * r['goodput'] / max(peak, 1):>8.0f}%{r['p50_ms']:>9}{r['p99_ms']:>9}{r['refused']:>11}")
    some = [r for r in rows if r["name"] == "false_credentials"]
    if some:
        print(f"\n{'false tokens':<14}{'req/s':>9}{'p50 ms':>9}{'p99 ms':>9}{'false/s':>9}{'503':>6}")
        for r in some:
            print(f"{r['beside']:<14}{r['req_s']:>9.0f}{r['p50_ms']:>9}{r['p99_ms']:>9}{r['false_s']:>9.0f}{r['refused']:>6}")
