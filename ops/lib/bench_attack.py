"""The row attack of ops/bench: one client tries to use up an engine, beside an honest client of another tenant.

The honest client sends 400 requests a second over 16 connections: reviews, counted decisions and plain ones in turn.
It is measured alone, beside the other client, and, where that one fills a table, after the table is full (or after
FILL_SECONDS). What the other client does:

  reviews        asks for reviews until it is refused (a full engine has 400,000)
  counters       counts for other resources until it is refused (1,000,000)
  tokens         mints tokens until it is refused (4,000,000)
  disk           sends requests of 60 KB, each of which is recorded
  explain        asks for explanations over 60,000 rules
  comprehension  sends decisions whose condition uses up its budget

The engine has core 0, the clients have core 1. The honest client's 503 and 429 are counted.
"""

import json
import statistics
import subprocess
import time

import harness

ROWS = ("attack",)
HONEST_RATE, HONEST_CONNECTIONS, CONNECTIONS = 400, 16, 64
FILL_SECONDS = 240
BODY_BYTES = 60_000
RULES, DOCUMENTS = 10_000, 6

POLICY = """
rules:
  - {id: asks, agents: ["*"], actions: [refund], decision: human_review}
  - {id: counts, agents: ["*"], actions: [pay], decision: allow, limit: {per: resource, window: 1h, count: 1000000}}
  - {id: reads, agents: ["*"], actions: [read], decision: allow}
"""
DEAR = """
rules:
  - {id: dear, agents: ["*"], actions: [weigh], decision: allow, when: "args.n.all(a, args.n.all(b, args.n.all(c, a + b + c >= 0)))"}
"""
AGENT, MINT = "/v1/agent/authorize", "/v1/tokens/mint"
ACTOR = "agent-~~~~~~~~"
ASK = {"action": "refund", "actor": ACTOR, "args": {"ref": "@@@@@@@@"}}
COUNT = {"action": "pay", "actor": "agent", "resource": {"type": "account", "id": "@@@@@@@@"}}
READ = {"action": "read", "actor": ACTOR, "args": {"ref": "@@@@@@@@"}}
TABLES = {"reviews": "writ_engine_reviews_kept", "counters": "writ_engine_limit_counters", "tokens": "writ_engine_tokens"}
KINDS = {  # name: path, body
    "reviews": (AGENT, ASK),
    "counters": (AGENT, COUNT),
    "tokens": (MINT, {"actor": ACTOR, "scope": "*", "ttl_seconds": 86400}),
    "disk": (AGENT, {**READ, "args": {"ref": "@@@@@@@@", "text": "x" * BODY_BYTES}}),
    "explain": (f"{AGENT}?explain=true", {"action": "unknown", "actor": ACTOR, "args": {"ref": "@@@@@@@@"}}),
    "comprehension": (AGENT, {"action": "weigh", "actor": ACTOR, "args": {"n": list(range(60)), "ref": "@@@@@@@@"}}),
}


def many_rules(document):
    return json.dumps({"rules": [{"id": f"r{i}", "agents": [f"team{i % 500}"], "actions": [f"svc{document}_{i}_*"], "decision": "allow"} for i in range(RULES)]})


def write_bodies(path, bodies):
    path.write_text("".join(json.dumps(body) + "\n" for body in bodies))


def run_honest(bench, library, stack, seconds):
    result = library.run_load(f"127.0.0.1:{stack.engine.port}", bench.folder / "honest.ndjson", HONEST_CONNECTIONS, seconds=seconds, serial=bench.serial,
                              key_file=stack.folder / "agent.key", more=("--rate", HONEST_RATE), statuses=None)
    bench.serial += result["requests"]
    return {"p50_ms": result["p50_ms"], "p99_ms": result["p99_ms"],
            "refused": sum(count for status, count in result["statuses"].items() if status in ("429", "503"))}


def taken(stack, kind):
    """Places of the table that are in use."""
    return stack.metrics(stack.engine)[TABLES[kind]]


def attack(bench, library, stack, kind, seconds):
    path, body = KINDS[kind]
    write_bodies(bench.folder / "attack.ndjson", [body] * 64)
    command = ["taskset", "-c", "1", str(harness.BIN / "load"), "--address", f"127.0.0.1:{stack.engine.port}", "--connections", str(CONNECTIONS),
               "--file", str(bench.folder / "attack.ndjson"), "--key-file", str(stack.folder / "other.key"), "--seconds", "3600", "--path", path]
    alone = run_honest(bench, library, stack, seconds)
    begun, filled = time.monotonic(), None
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as other:
        parts, places = [run_honest(bench, library, stack, seconds)], [0]
        while kind in TABLES and filled is None and time.monotonic() - begun < FILL_SECONDS:
            places.append(taken(stack, kind))
            parts.append(run_honest(bench, library, stack, seconds))
            if taken(stack, kind) - places[-1] < 2 * HONEST_RATE * seconds:
                filled = time.monotonic() - begun
        full = run_honest(bench, library, stack, seconds) if filled else None
        other.terminate()
    return {"name": "attack", "kind": kind, "alone_p50_ms": alone["p50_ms"], "alone_p99_ms": alone["p99_ms"],
            "p50_ms": round(statistics.median(p["p50_ms"] for p in parts), 2), "p99_ms": round(statistics.median(p["p99_ms"] for p in parts), 2),
            "full_p50_ms": full and full["p50_ms"], "full_p99_ms": full and full["p99_ms"], "filled_s": filled and round(filled), "taken": round(taken(stack, kind)) if kind in TABLES else "",
            "refused": sum(p["refused"] for p in parts) + (full["refused"] if full else 0), "goal_met": None}


def measure(bench, wanted, library, kinds=tuple(KINDS)):
    rows = []
    for kind in kinds if wanted else ():
        stack = bench.start("written")
        try:
            for tenant in (stack.TENANT, "other"):
                stack.policy("attack", POLICY, tenant=tenant, wait=False)
            stack.policy("dear", DEAR, tenant="other", wait=False)
            if kind == "explain":
                for document in range(DOCUMENTS):
                    stack.policy(f"many-{document}", many_rules(document), tenant="other", wait=False)
            (stack.folder / "other.key").write_text(stack.key("other", ["agent"], tenant="other", actors=["*"]) + "\n")
            write_bodies(bench.folder / "honest.ndjson", [ASK, COUNT, READ, READ])
            rows.append(attack(bench, library, stack, kind, 2 * bench.options.seconds))
            stack.engine.stop()
            stack.platform.stop()
        finally:
            stack.close()
    return rows


def print_table(rows):
    if not rows:
        return
    print(f"\nan honest client of {HONEST_RATE} requests a second beside one that")
    print(f"{'fills':<14}{'alone p50/p99 ms':>18}{'beside p50/p99 ms':>20}{'full p50/p99 ms':>18}{'full after s':>14}{'taken':>10}{'honest 429/503':>16}")
    for r in rows:
        full = f"{r['full_p50_ms']}/{r['full_p99_ms']}" if r["full_p50_ms"] is not None else ""
        print(f"{r['kind']:<14}{r['alone_p50_ms']}/{r['alone_p99_ms']:<10}{r['p50_ms']}/{r['p99_ms']:<12}{full:>18}{r['filled_s'] or '':>14}{r['taken']:>10}{r['refused']:>16}")
