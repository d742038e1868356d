"""The whole of it, on real servers: engine, platform, Kafka, Redis, PostgreSQL. Each dies, sleeps or is away.

Clients work all the while. Afterwards everything that they were told is compared with the store, and
all must be well again without a hand on it. WRIT_LONG=1 runs the full counts; WRIT_SEED repeats a run.
"""

import collections
import time

import pytest

import harness
from clients import wait_for_unanswered
from fleet import LONG, eventually, fresh_seed

ROUNDS = 200 if LONG else 6
ROUNDS_TO_CHECK = 50
SLEEP_SECONDS = 20 if LONG else 5
AWAY_SECONDS, AWAY_RATE = (600, 10_000) if LONG else (15, 1_000)


@pytest.fixture
def whole(fleet, broker, redis, postgres):
    postgres.start()  # one that an earlier test left dead
    one = fleet(broker=broker, redis=redis, postgres=postgres, engine=["--redis.timeout", "1s"])
    one.wait_well()
    return one


def test_kills_at_random_under_load_lose_nothing(whole):
    chance = fresh_seed()
    one, deck, kills, least = whole, [], {}, 1 << 30
    one.keep(chance, most=300 if LONG else 40)
    for first in range(0, ROUNDS, ROUNDS_TO_CHECK):
        load = one.load(rate=600, depth=16)  # one connection's batch is enough: they may never overlap
        if first:
            one.keeper.start()
        for _ in range(min(ROUNDS_TO_CHECK, ROUNDS - first)):
            if not deck:
                deck = one.victims()
                chance.shuffle(deck)
            victims = [deck.pop()]
            if chance.random() < 0.3:
                victims.append(chance.choice([name for name in one.victims() if name not in victims]))
            time.sleep(chance.uniform(0.01, 0.4))  # the random moment
            least = min(least, wait_for_unanswered(load, 16))
            for name in victims:
                one.kill(name)
                kills[name] = kills.get(name, 0) + 1
            time.sleep(chance.uniform(0, 0.5))
            # A platform refuses to start without its PostgreSQL, and says so; whoever starts it tries again.
            for name in sorted(victims, key=["postgres", "redis", "broker", "platform", "engine"].index):
                one.revive(name)
        one.check(600)
    one.stop()
    told = ", ".join(f"{name} {count}" for name, count in sorted(kills.items()))
    print(f"{ROUNDS} rounds, {sum(kills.values())} kills ({told}), at least {least} requests unanswered at each")


def test_each_of_them_asleep_for_a_while_loses_nothing(whole):
    one = whole
    load = one.load(rate=2000)
    one.keep(fresh_seed())
    for name in one.victims():
        wait_for_unanswered(load, 8)
        before, slept = load.answered, time.monotonic()
        one.pause(name)
        if name == "engine":
            time.sleep(SLEEP_SECONDS)
        else:  # nobody waits for them
            while time.monotonic() - slept < SLEEP_SECONDS:
                last = load.answered
                eventually(lambda: load.answered > last + 50, f"decisions go on without {name}")
        during = load.answered - before
        one.resume(name)
        woke = time.monotonic()
        before = load.answered
        eventually(lambda: load.answered > before + 100, f"decisions go on after {name} slept")
        one.settle_roughly(3000)
        one.wait_well()
        print(f"{name} asleep for {SLEEP_SECONDS} s: {during} decided meanwhile; all well {time.monotonic() - woke:.1f} s after it woke")
    verdict = one.check()
    assert not verdict.refused
    one.stop()


def test_a_broker_that_is_away_at_load_costs_only_lag(whole):
    one = whole
    load = one.load(connections=8, depth=25, rate=AWAY_RATE, review_every=64)  # an engine keeps at most 400,000 reviews
    eventually(lambda: load.answered > AWAY_RATE, "clients were served")

    def rates(seconds):
        """Decisions a second, over all of that time and in its best three seconds: those tell what the machine would do."""
        begun, before, looks = time.monotonic(), load.answered, collections.deque()
        best = 0
        while (now := time.monotonic()) - begun < seconds:
            last = load.answered
            eventually(lambda: load.answered > last + 100, "decisions go on")
            looks.append((now, last))
            while now - looks[0][0] > 3:
                at, answered = looks.popleft()
                best = max(best, (last - answered) / (now - at))
        return (load.answered - before) / (time.monotonic() - begun), best
    able = min(rates(6)[1], AWAY_RATE)
    one.kill("broker")
    rate, best = rates(AWAY_SECONDS)
    assert not load.refused and best > 0.5 * able, f"{rate:.0f} and {best:.0f} decisions a second of {able:.0f}, {load.refused} refused"
    assert not LONG or rate > 0.9 * AWAY_RATE, f"{rate:.0f} decisions a second"
    told = eventually(lambda: (words := one.health()["checks"]["publish"]) != "ok" and words, "the engine says that records wait")
    behind = one.lag_records()
    assert behind > 0.8 * rate * AWAY_SECONDS
    one.revive("broker")
    back = time.monotonic()
    one.settle_roughly(AWAY_RATE, 3600, AWAY_RATE / 10)  # the store is not faster than ten thousand a second everywhere
    took = time.monotonic() - back
    verdict = one.check(3600)
    assert not verdict.refused
    one.stop()
    print(f"broker away for {AWAY_SECONDS} s at {rate:.0f} decisions/s ({told}): {behind:.0f} records behind, caught up in {took:.1f} s, "
          f"{behind / took:.0f} records/s, at a tenth of the load; "
          f"slowest batch of answers {load.slowest * 1000:.0f} ms")


def test_two_platforms_and_an_engine_under_load_one_is_killed(whole):
    one = whole
    port = harness.free_port()
    data = one.folder / "data2"
    data.mkdir()
    other = harness.Program("writ-platform", port, ["--data", data, "--store.url", one.store_url, "--pepper_file", one.stack.data / "pepper",
                                                    "--listen", f"127.0.0.1:{port}", "--kafka.brokers", one.broker.address, "--kafka.topic", one.topic],
                            one.folder / "platform2.log")

    def partitions(program):
        return one.stack.metrics(program)["writ_platform_consumer_partitions"]
    try:
        other.start()
        load = one.load(rate=1000)
        one.keep(fresh_seed())
        for killed, stays in ((other, one.platform), (one.platform, other)):
            eventually(lambda: (partitions(killed), partitions(stays)) == (2, 2), "two partitions each")
            before = load.answered
            eventually(lambda: load.answered > before + 500, "clients are served")
            killed.kill()
            begun = time.monotonic()
            eventually(lambda: partitions(stays) == 4, "the other has taken over")
            took = time.monotonic() - begun
            before = load.answered
            eventually(lambda: load.answered > before + 500, "clients are served")
            print(f"{killed.log.stem} was killed: taken over after {took:.1f} s")
            killed.start()
        verdict = one.check()
        assert not verdict.refused
        other.stop()
        one.stop()
    finally:
        other.end()
