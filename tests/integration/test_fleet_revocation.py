"""Five engines, one of them stopped: what a revocation and a suspension cost, and that nothing is accepted after their answer."""

import contextlib
import json
import random
import subprocess
import time

import pytest

import fleet_checker
import fleet_net
from fleet import LONG
from fleet_campaign import quantiles
from fleet_clients import AGENT, POLICY, Notes, Zombie, ask
from harness import BIN, eventually

ENGINES, LEASE = 5, "10s"
EACH = 84_000  # requests to each of four engines: after a revocation, and twice after a suspension
AWAKE, ASLEEP = 40, 6  # changes that are timed


def send_many(net, folder, key, count):
    """{status: how many}, {decision: how many} of the same request to all engines that run."""
    statuses, decisions = {}, {}
    bodies = folder / "bodies"
    for engine in net.engines[:-1]:
        (folder / "key").write_text(key[0] + "\n")
        bodies.write_text(json.dumps({"actor": key[1], "action": "get_x"}) + "\n")
        done = subprocess.run([BIN / "load", "--address", f"{engine.host_address}:{engine.port}", "--path", AGENT, "--file", bodies, "--key-file",
                               folder / "key", "--connections", "8", "--pipeline", "4", "--requests", str(count)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        result = json.loads(done.stdout)
        for name, into in (("statuses", statuses), ("decisions", decisions)):
            for value, number in result.get(name, {}).items():
                into[value] = into.get(value, 0) + number
    return statuses, decisions


class Changer:
    def __init__(self, net):
        self.net, self.number = net, 0

    def prepare(self):
        """An actor with a token that all engines have accepted."""
        self.number += 1
        actor = f"a{self.number}"
        _, reply, _, _ = ask(self.net, 0, "POST", "/v1/tokens/mint", {"scope": "*", "actor": actor, "ttl_seconds": 86400})
        for engine in self.net.engines:
            if not engine.is_asleep:
                for key in ("agent", reply["token"]):
                    assert ask(self.net, engine.number, "POST", AGENT, {"actor": actor, "action": "get_x"}, key)[1]["decision"] == "allow"
        return actor, reply

    def change(self, do):
        """(actor, token text, seconds until it was answered)."""
        actor, reply = self.prepare()
        request = ("DELETE", f"/v1/tokens/{reply['token_id']}", None, "agent") if do == "revoke" else (
            "POST", f"/v1/actors/{actor}/suspend", {}, "admin")
        status, answer, sent, answered = ask(self.net, self.number % 4, *request, timeout=60.0)
        assert status == 200, answer
        return actor, reply["token"], answered - sent


@pytest.mark.skipif(not LONG, reason="SKIP: the full counts are for ops/test --long")
def test_nothing_is_accepted_after_the_answer_at_five_engines(tmp_path):
    why = fleet_net.why_not()
    if why:
        pytest.skip(f"SKIP: {why}")
    with contextlib.closing(fleet_net.FleetNet(tmp_path / "net", engines=ENGINES, lease=LEASE)) as net:
        net.start(POLICY)
        changer = Changer(net)
        awake = {do: [changer.change(do)[2] for _ in range(AWAKE)] for do in ("revoke", "suspend")}
        if net.leader() is net.engines[-1]:
            net.engines[-1].kill()
            net.wait_ready(net.engines[-1])
        assert net.leader() is not net.engines[-1]
        notes = Notes(tmp_path / "notes")
        zombie = Zombie(net, notes, "zombie", random.Random(1))
        zombie.before(ENGINES - 1)
        net.sleep(net.engines[-1])
        asleep, counts = {"revoke": [], "suspend": []}, {}
        for do in asleep:
            for number in range(ASLEEP):
                actor, token, seconds = changer.change(do)
                asleep[do].append(seconds)
                if number < ASLEEP - 1:  # its lease has ended: the next one would not wait
                    net.wake(net.engines[-1])
                    net.wait_ready(net.engines[-1])
                    net.sleep(net.engines[-1])
            counts[f"{do}, by the token"] = send_many(net, tmp_path, (token, actor), EACH)
        counts["suspend, by the key"] = send_many(net, tmp_path, (net.keys["agent"], actor), EACH)
        zombie.asleep(time.monotonic() + 30)
        net.wake(net.engines[-1])
        zombie.collect(time.monotonic())
        woken = [note for note in notes.list if note["engine"] == ENGINES - 1 and note["answered"] is not None]
        verdict = fleet_checker.Verdict()
        fleet_checker.check_tokens(verdict, notes.list)
        fleet_checker.check_actors(verdict, notes.list)
        print(f"answered, all five run: revoke {quantiles(awake['revoke'])}; suspend {quantiles(awake['suspend'])}")
        print(f"answered, one is stopped, lease {LEASE}: revoke {quantiles(asleep['revoke'])}; suspend {quantiles(asleep['suspend'])}")
        print(f"requests to the four others after the answer: {counts}")
        held = {name: count for name, count in verdict.counts.items() if count}
        print(f"{len(woken)} answers of the one that woke, held against {held}", flush=True)
        verdict.must_hold()
        for what, (statuses, decisions) in counts.items():
            assert sum(count for name, count in decisions.items() if name != "deny") == 0, (what, statuses, decisions)
            # of a suspended actor a replica asks the leader, so many times a second: it may have been resumed
            assert set(statuses) <= ({"401"} if what.startswith("revoke") else {"200", "401", "503"}), (what, statuses)
        assert sum(sum(statuses.values()) for statuses, _ in counts.values()) > 1_000_000
        eventually(lambda: ask(net, ENGINES - 1, "GET", "/readyz")[0] == 200, "the fifth is ready again")
