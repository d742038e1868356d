"""The rows of ops/bench --stack about a fleet: three engines and three brokers, each in a network namespace.

Engines are on core 0, with one reactor each; brokers, platform and load generator on core 1. So all of them share two cores
and one disk: on machines of their own, brokers are faster. The settings of Kafka are printed beside the rows.

  row                    what is measured                                                              goal
  fleet_plain            plain decisions at a replica, 64 connections, in turns with the same engine    within 3 % of the CPU
                         without a fleet: the median of seven pairs                                    of a decision
  fleet_limited_leader   counted decisions at the leader, 32 connections
  fleet_limited_replica  the same at a replica, which relays them
  fleet_approve          one approval after the other, each at another engine
  fleet_revoke           one revocation after the other, each at another engine, until its answer
  failover               the leader is killed, until state is served again                             p99 10 s
"""

import json
import random
import statistics
import sys
import time

import harness

sys.path.insert(0, str(harness.TOP / "tests" / "integration"))

ROWS = ("fleet_plain", "fleet_limited_leader", "fleet_limited_replica", "fleet_approve", "fleet_revoke", "failover")
PAIRS, CHANGES, KILLS = 7, 200, 10
PLAIN_GOAL, FAILOVER_GOAL_S = 1.03, 10
SETTINGS = "RF 3, min.insync.replicas 2, flush.messages 1, acks=all, one entry in flight, broker.session.timeout.ms 9000, fleet.lease 30s"


def quantile(values, q):
    return sorted(values)[min(len(values) - 1, int(len(values) * q))]


class FleetBench:
    def __init__(self, bench, library, net):
        self.bench, self.library, self.net = bench, library, net
        self.options = bench.options
        self.key_file = net.folder / "agent.key"
        self.key_file.write_text(net.keys["agent"] + "\n")
        self.chance = random.Random(library.SEED)

    def load(self, engine, action, connections, seconds=None):
        bodies = self.net.folder / f"{action}.ndjson"
        bodies.write_text("".join(json.dumps({"actor": f"agent-{n}", "action": action, "args": {"ref": "@@@@@@@@"}}) + "\n" for n in range(64)))
        before = self.library.cpu_ns([engine.pid])
        result = self.library.run_load(f"{engine.host_address}:{engine.port}", bodies, connections, 1, seconds or self.options.seconds,
                                       key_file=self.key_file)
        result["cpu_us"] = (self.library.cpu_ns([engine.pid]) - before) / 1000 / result["replies"]
        return result

    def plain(self):
        replica = next(engine for engine in self.net.engines if engine is not self.net.leader())
        pairs = []
        for number in range(1 if self.options.quick else PAIRS):
            first, second = (replica, self.net.alone) if number % 2 else (self.net.alone, replica)
            one, two = self.load(first, "get_x", 64), self.load(second, "get_x", 64)
            pairs.append((one, two) if number % 2 else (two, one))
        ratios = [fleet["cpu_us"] / alone["cpu_us"] for fleet, alone in pairs]
        ratio = statistics.median(ratios)
        at = lambda side, name: statistics.median(pair[side][name] for pair in pairs)  # noqa: E731
        return {"name": "fleet_plain", "req_s": round(at(0, "req_s")), "p50_ms": round(at(0, "p50_ms"), 3), "p99_ms": round(at(0, "p99_ms"), 3),
                "cpu_us": round(at(0, "cpu_us"), 2), "alone_req_s": round(at(1, "req_s")), "alone_p50_ms": round(at(1, "p50_ms"), 3),
                "alone_p99_ms": round(at(1, "p99_ms"), 3), "alone_cpu_us": round(at(1, "cpu_us"), 2), "ratio": round(ratio, 3),
                "goal_met": ratio <= PLAIN_GOAL,
                "text": f"{at(0, 'req_s'):,.0f}/s p50 {at(0, 'p50_ms'):.2f} p99 {at(0, 'p99_ms'):.2f} ms, {at(0, 'cpu_us'):.2f} us of CPU; without a fleet "
                        f"{at(1, 'req_s'):,.0f}/s p50 {at(1, 'p50_ms'):.2f} p99 {at(1, 'p99_ms'):.2f} ms, {at(1, 'cpu_us'):.2f} us; CPU {ratio:.3f} of it "
                        f"({min(ratios):.3f} to {max(ratios):.3f}, {len(pairs)} pairs; goal {PLAIN_GOAL})"}

    def limited(self, name):
        leader = self.net.leader()
        engine = leader if name == "fleet_limited_leader" else next(one for one in self.net.engines if one is not leader)
        self.load(engine, "probe_x", 32)
        rounds = [self.load(engine, "probe_x", 32, self.options.seconds * 2) for _ in range(self.options.rounds)]
        at = lambda member: statistics.median(one[member] for one in rounds)  # noqa: E731
        return {"name": name, "req_s": round(at("req_s")), "p50_ms": round(at("p50_ms"), 2), "p99_ms": round(at("p99_ms"), 2), "goal_met": None,
                "text": f"{at('req_s'):,.0f}/s p50 {at('p50_ms'):.1f} p99 {at('p99_ms'):.1f} ms, 32 connections"}

    def ask(self, *request, number=None, **more):
        import fleet_clients
        status, reply, sent, answered = fleet_clients.ask(self.net, self.chance.randrange(3) if number is None else number, *request, timeout=60, **more)
        if status not in (200, 201):
            self.library.fail(f"{request[:2]}: {status} {reply}")
        return reply, (answered - sent) * 1000

    def changes(self, name):
        times = []
        for number in range(20 if self.options.quick else CHANGES):
            if name == "fleet_approve":
                reply, _ = self.ask("POST", "/v1/agent/authorize", {"actor": f"payer-{number}", "action": "pay_x"})
                _, ms = self.ask("POST", f"/v1/queue/{reply['review_id']}/approve", {}, key="reviewer")
            else:
                reply, _ = self.ask("POST", "/v1/tokens/mint", {"scope": "*", "actor": "bot", "ttl_seconds": 3600})
                _, ms = self.ask("DELETE", f"/v1/tokens/{reply['token_id']}")
            times.append(ms)
        p50, p99 = quantile(times, 0.5), quantile(times, 0.99)
        return {"name": name, "samples": len(times), "p50_ms": round(p50, 1), "p99_ms": round(p99, 1), "goal_met": None,
                "text": f"p50 {p50:.1f} p99 {p99:.1f} ms, {len(times)} of them"}

    def failover(self):
        from fleet_clients import Probe
        seconds = []
        for _ in range(1 if self.options.quick else KILLS):
            leader = self.net.leader()
            probes = [Probe(self.net, engine.number) for engine in self.net.engines if engine is not leader]
            for probe in probes:
                probe.start()
            leader.kill()
            since = time.monotonic()
            harness.eventually(lambda: any(probe.first_after(since) for probe in probes), "state is served again")
            seconds.append(min(at for probe in probes if (at := probe.first_after(since))) - since)
            for probe in probes:
                probe.stopping.set()
            self.net.revive()
        p50, p99 = quantile(seconds, 0.5), quantile(seconds, 0.99)
        return {"name": "failover", "samples": len(seconds), "p50_s": round(p50, 2), "p99_s": round(p99, 2), "goal_met": p99 <= FAILOVER_GOAL_S,
                "text": f"p50 {p50:.1f} p99 {p99:.1f} s, {len(seconds)} kills of the leader (goal {FAILOVER_GOAL_S})"}

    def measure(self, wanted):
        rows = []
        for name in (name for name in ROWS if name in wanted):
            row = {"fleet_plain": self.plain, "failover": self.failover}.get(name)
            if row is None:
                row = (lambda n=name: self.limited(n)) if "limited" in name else (lambda n=name: self.changes(n))
            rows.append({**row(), "kafka": SETTINGS})
            print(f"{name}: {rows[-1]['text']}", file=sys.stderr)
        return rows


def measure(bench, wanted, library):
    if not wanted:
        return []
    import fleet_net
    from fleet_clients import POLICY
    why = fleet_net.why_not()
    if why:
        print(f"the rows of a fleet are left out: {why}", file=sys.stderr)
        return []
    folder = bench.folder / "fleet"
    library.shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    net = fleet_net.FleetNet(folder, lease="30s", reactors="1", alone=True, engine_prefix=["taskset", "-c", "0"], broker_prefix=["taskset", "-c", "1"])
    try:
        net.start(POLICY)
        return FleetBench(bench, library, net).measure(wanted)
    finally:
        net.close()
        library.shutil.rmtree(folder, ignore_errors=True)


def print_table(rows):
    if rows:
        print(f"\na fleet of three engines, three brokers: {SETTINGS}")
    for r in rows:
        print(f"  {r['name']:<23}{r['text']}")
