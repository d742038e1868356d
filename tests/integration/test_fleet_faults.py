"""Three engines and three brokers, each in a network namespace, under kills, stops, cuts and lost disks, with real processes.

The short form has each kind of fault once, in an order by chance. WRIT_LONG=1 runs the full counts, in campaigns of a fleet each, and
keeps them in a file (WRIT_FLEET_PROGRESS, or build/long/fleet-faults.json), so that runs add up.
"""

import os
import pathlib
import time

import pytest

import fleet_net
from fleet import LONG, TOP, fresh_seed
from fleet_campaign import CUTS, Campaign, quantiles
from progress import Progress

QUICK = {"broker.session.timeout.ms": 4000, "broker.heartbeat.interval.ms": 500}  # Kafka's own are 9 s and 2 s


@pytest.fixture(scope="module", autouse=True)
def machine():
    why = fleet_net.why_not()
    if why:
        pytest.skip(f"SKIP: {why}")


def test_no_fault_breaks_a_promise_of_the_fleet(tmp_path):
    chance = fresh_seed()
    with Campaign(tmp_path / "net", chance, slower=8, kafka=QUICK, lease="5s") as campaign:
        faults = [lambda: campaign.kill(True), lambda: campaign.kill(False), lambda: campaign.stop(True, 5.0),
                  lambda: campaign.cut("engine link", 4.0), lambda: campaign.cut("brokers to engine", 4.0, wants_leader=False),
                  lambda: campaign.broker("kill", 1.0), lambda: campaign.lose_machine(6.0)]
        chance.shuffle(faults)
        for fault in faults:
            fault()
        verdict = campaign.conclude()
    print(f"state served again: engine alone {quantiles(campaign.failovers)}; with its broker {quantiles(campaign.machine_failovers)}")
    print(f"faults: {dict(campaign.counts)}")
    verdict.must_hold()


# ---- the long form ----

PROGRESS = pathlib.Path(os.environ.get("WRIT_FLEET_PROGRESS", TOP / "build" / "long" / "fleet-faults.json"))
SECONDS = int(os.environ.get("WRIT_FLEET_SECONDS", "0"))  # no campaign begins after that; 0: until all is done
WANTED = {"kill leader": 80, "kill replica": 120, "stop leader": 25, "stop replica": 25, "broker kill": 20, "broker stop": 15, "broker restart": 15,
          "machine lost": 20, "rolling restart": 5, **{f"cut: {kind}": 7 for kind in CUTS}}
AT_ONCE = 12  # faults in one campaign


def perform(campaign, name, chance, lease):
    """One fault by the name under which it is counted."""
    if name.startswith("kill"):
        campaign.kill(name == "kill leader")
    elif name.startswith("stop"):
        campaign.stop(name == "stop leader", chance.uniform(2, 60), campaign.kill_another)
    elif name.startswith("broker "):
        campaign.broker(name.split()[1], chance.uniform(1, 12), wants_leader=chance.random() < 0.6)
    elif name == "machine lost":
        campaign.lose_machine(14.0)
    elif name == "rolling restart":
        campaign.rolling_restart()
    else:
        campaign.cut(name.removeprefix("cut: "), chance.uniform(2, lease + 6), wants_leader=chance.random() < 0.6)


@pytest.mark.skipif(not LONG, reason="SKIP: the full counts are for ops/test --long")
def test_full_counts(tmp_path):
    progress, begun, number = Progress(PROGRESS, WANTED, "faults"), time.monotonic(), 0
    while missing := progress.missing():
        if SECONDS and time.monotonic() - begun > SECONDS:
            break
        number += 1
        chance, started = fresh_seed(), time.monotonic()
        lease = chance.choice([5, 10])
        names = [name for name, count in missing.items() for _ in range(count)]
        chance.shuffle(names)
        with Campaign(tmp_path / f"net{number}", chance, lease=f"{lease}s") as campaign:
            for name in names[:AT_ONCE]:
                perform(campaign, name, chance, lease)
            verdict = campaign.conclude(copies=3)
        now = progress.add(faults=campaign.counts, failovers=campaign.failovers, machine_failovers=campaign.machine_failovers, campaigns=1,
                           held_against=verdict.counts, broken={name: len(found) for name, found in verdict.broken.items()},
                           seconds=round(time.monotonic() - started))
        print(f"faults so far: {now['faults']}\nstate served again: engine alone {quantiles(now['failovers'])}; with its broker "
              f"{quantiles(now['machine_failovers'])}", flush=True)
        verdict.must_hold()
    missing = progress.missing()
    print(f"{PROGRESS}: missing {missing or 'nothing'}\n{PROGRESS.read_text()}")
    assert not missing or SECONDS, missing
