"""The rows offered_written and offered_synced of ops/bench: the latency at a rate, beside nginx.

An open loop: so many requests are due each second over 64 connections, whatever was answered so far, and a
latency counts from when a request was due. Each rate is measured with the engine and with one nginx worker
in turns, on core 0; the generator is on core 1 and comes first there. All requests are plain allows; the
row with `reviews` sends one request in 16 that a person has to look at.

Printed are p50, p99 and p99.9 of the medians of the rounds, and the CPU time of a request.
"""

import json
import statistics

import harness

ROWS = ("offered_written", "offered_synced")
RATES = (1_000, 5_000, 10_000, 20_000, 30_000)
CONNECTIONS = 64
BODIES = 20_000
LATENCIES = ("p50_ms", "p99_ms", "p999_ms")


def write_bodies(path, calls, outcomes, chance, every):
    """Allows; one request in `every` is a review (0: none)."""
    allowed = [call for call, outcome in zip(calls, outcomes) if outcome == "allow"]
    asked = [call for call, outcome in zip(calls, outcomes) if outcome == "human_review"]
    with open(path, "w") as out:
        for number in range(BODIES):
            action, actor, args = chance.choice(asked if every and number % every == 0 else allowed)
            out.write(json.dumps({"action": action, "actor": f"{actor}-~~~~~~~~", "args": {**args, "ref": "@@@@@@@@"}, "confidence": 0.9}) + "\n")


def at_rate(bench, library, stack, server, bodies, rate, seconds):
    """One turn of each: {who: what the generator said}."""
    more = ("--rate", rate)
    engine = bench.engine_turn(stack, f"127.0.0.1:{stack.engine.port}", bodies, CONNECTIONS, 1, seconds, key_file=stack.folder / "agent.key", more=more)
    library.signal_all([stack.engine.pid], library.signal.SIGSTOP)
    spent = library.cpu_ns(server.pids())
    nginx = library.run_load(f"127.0.0.1:{server.port}", bodies, CONNECTIONS, 1, seconds, path=server.path, key_file=stack.folder / "agent.key",
                             serial=bench.serial, more=more)
    nginx["cpu_us"] = (library.cpu_ns(server.pids()) - spent) / 1000 / nginx["replies"]
    library.signal_all([stack.engine.pid], library.signal.SIGCONT)
    return engine, nginx


def measure_row(bench, library, name):
    durability = name.removeprefix("offered_")
    rows, seconds = [], bench.options.seconds * 2
    stack = bench.start(durability)
    server = None
    try:
        for kind, every in (("allows", 0), ("reviews", library.REVIEW_EVERY)):
            bodies = bench.folder / f"offered_{kind}.ndjson"
            write_bodies(bodies, bench.calls, bench.outcomes, bench.chance, every)
            for rate in RATES if kind == "allows" else RATES[:3]:
                rounds = []
                for _ in range(bench.options.rounds):
                    if server is None:
                        warm = bench.engine_turn(stack, f"127.0.0.1:{stack.engine.port}", bodies, CONNECTIONS, 1, 0.3, key_file=stack.folder / "agent.key")
                        server = library.Nginx(bench.folder, round(warm["body_bytes"] / warm["replies"]))
                    rounds.append(at_rate(bench, library, stack, server, bodies, rate, seconds))
                row = {"name": name, "kind": kind, "rate": rate, "goal_met": None}
                for who, place in (("", 0), ("nginx_", 1)):
                    for figure in (*LATENCIES, "cpu_us", "req_s"):
                        row[f"{who}{figure}"] = round(statistics.median(r[place][figure] for r in rounds), 3)
                rows.append(row)
        stack.engine.stop()
        stack.platform.stop()
    finally:
        if server is not None:
            server.end()
        stack.close()
    return rows


def measure(bench, wanted, library):
    return [row for name in wanted for row in measure_row(bench, library, name)]


def print_table(rows):
    if not rows:
        return
    print(f"\n{'offered/s':<26}{'p50 ms':>8}{'p99 ms':>8}{'p99.9':>8}{'CPU us':>8}{'nginx p50':>11}{'p99':>8}{'p99.9':>8}{'CPU us':>8}")
    for r in rows:
        print(f"{r['name'] + ' ' + r['kind']:<24}{r['rate']:>7}" + "".join(f"{r[f]:>8.3f}" for f in LATENCIES) + f"{r['cpu_us']:>8.1f}"
              + f"{r['nginx_p50_ms']:>11.3f}" + "".join(f"{r[f'nginx_{f}']:>8.3f}" for f in LATENCIES[1:]) + f"{r['nginx_cpu_us']:>8.1f}")
