"""State beyond the process, with the real programs: the mirror in a real Redis (snapshots: test_recovery.py).

A redis-server of the test's own listens on a socket in the test's directory. Each test tells the engine a
story (tokens, reviews, a suspended actor), lets something be lost, and asks whether all of it still
stands: no token revived, no review lost, no approval spent twice.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
import time

import pytest

import events
import harness
from fleet import Redis, eventually
from way import Way

pytestmark = pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")

AGENT = "/v1/agent/authorize"
POLICY = """
rules:
  - {id: reads, agents: ["*"], actions: ["get_*"], decision: allow}
  - {id: refunds, agents: ["*"], actions: ["refund"], decision: human_review, reason: Refunds need a person.}
  - {id: counted, agents: ["*"], actions: ["count"], decision: allow, limit: {per: actor, window: 1h, count: 5}}
"""


@pytest.fixture
def fresh(tmp_path):
    made = []

    def make(name="s", redis=None, timeout_ms=1000, **options):
        folder = tmp_path / f"{name}{len(made)}"
        folder.mkdir()
        engine = [*(["--redis.url", redis.url, "--redis.timeout", f"{timeout_ms}ms"] if redis else []), *options.pop("engine", [])]
        made.append(harness.Stack(folder, engine=engine, **options))
        return made[-1]

    yield make
    for stack in made:
        stack.close()


class Story:
    """What one engine was told, and what must be true of it ever after."""

    def __init__(self, stack):
        self.stack = stack
        self.reviewer = stack.key("rita-laptop", ["reviewer"], owner="rita", reviewers=["*"], wait=False)
        stack.policy("base", POLICY)
        self.number = 0
        self.revoked, self.plain, self.counted = [], [], []  # tokens; counted: (token, uses left)
        self.pending, self.approved, self.redeemed, self.denied = [], [], [], []  # (review, body)
        self.suspended = []

    def call(self, method, path, key="agent", body=None):
        with self.stack.at_engine(key) as wire:
            return wire.request(method, path, body=body)

    def mint(self, **more):
        reply = self.call("POST", "/v1/tokens/mint", body={"scope": "get_*", "actor": "bot", "ttl_seconds": 3600, **more})
        assert reply.status == 201, reply
        return reply.json

    def use(self, token):
        return self.call("POST", AGENT, token["token"], {"action": "get_x"})

    def enqueue(self):
        self.number += 1
        return self.ask({"action": "refund", "actor": f"bot-{self.number}", "args": {"n": self.number}})

    def ask(self, body):
        reply = self.call("POST", AGENT, body=body)
        assert reply.status == 200 and reply.json["decision"] == "human_review", reply
        return reply.json["review_id"], body

    def resolve(self, review, verb):
        reply = self.call("POST", f"/v1/queue/{review[0]}/{verb}", self.reviewer)
        assert reply.status == 200, reply

    def redeem(self, review):
        reply = self.call("POST", f"/v1/queue/{review[0]}/redeem", body=review[1])
        assert reply.status == 200, reply
        return reply.json

    def tell(self, rounds=3):
        """One chapter more."""
        for _ in range(rounds):
            self.plain.append(self.mint())
            counted = self.mint(max_uses=3)
            assert self.use(counted).json["decision"] == "allow"
            self.counted.append([counted, 2])
            dead = self.mint()
            assert self.call("DELETE", f"/v1/tokens/{dead['token_id']}").status == 200
            self.revoked.append(dead)
            self.pending.append(self.enqueue())
            for verb, shelf in (("approve", self.approved), ("deny", self.denied), ("approve", self.redeemed)):
                shelf.append(self.enqueue())
                self.resolve(shelf[-1], verb)
            assert self.redeem(self.redeemed[-1])["allowed"] is True
            for over in (self.denied, self.redeemed):  # the same request again is a review of its own
                self.pending.append(self.ask(over[-1][1]))
        actor = f"mallory-{len(self.suspended)}"
        assert self.call("POST", f"/v1/actors/{actor}/suspend", "admin", {"reason": "odd"}).status == 200
        self.suspended.append(actor)
        return self

    def status(self, review):
        reply = self.call("GET", f"/v1/queue/{review[0]}", self.reviewer)
        assert reply.status == 200, reply
        return reply.json["status"]

    def check(self):
        """Nothing revived, nothing lost, nothing spent twice. Uses one approval and one use of each token up."""
        for token in self.revoked:
            assert self.use(token).status == 401, "a revoked token lives"
        for token in self.plain:
            assert self.use(token).json["decision"] == "allow"
        for entry in self.counted:
            if entry[1] > 0:
                assert self.use(entry[0]).json["decision"] == "allow"
                entry[1] -= 1
            if entry[1] == 0:
                assert self.use(entry[0]).json["rule"] == "token:uses", "a use too many"
        for review in self.pending:
            assert self.status(review) == "pending"
        for review in self.denied:
            assert self.status(review) == "denied"
        for review in self.redeemed:
            again = self.redeem(review)
            assert (again["allowed"], again["rule"]) == (False, "review:redeemed"), "an approval spent twice"
        if self.approved:
            review = self.approved.pop()
            assert self.redeem(review)["allowed"] is True, "an approval lost"
            self.redeemed.append(review)
        for actor in self.suspended:
            answer = self.call("POST", AGENT, body={"action": "get_x", "actor": actor}).json
            assert (answer["decision"], answer["rule"]) == ("deny", "actor:suspended")

    def wait_mirrored(self):
        def done():
            now = self.stack.metrics(self.stack.engine)
            return now["writ_engine_redis_up"] == 1 and now["writ_engine_redis_lag_records"] == 0 and \
                now["writ_engine_redis_position"] >= now["writ_engine_journal_durable_seq"]
        eventually(done, "everything is in Redis")


def health(stack):
    with stack.at_engine(None) as wire:
        return wire.get("/healthz").json


def refused_start(program):
    """Starts a program that must refuse; its last words."""
    size = program.log.stat().st_size if program.log.exists() else 0
    program.start(ready=False)
    assert program.wait() in (1, 2)  # 2: another start would find it as it is
    return program.log.read_text(errors="replace")[size:]


def positions(redis):
    return {redis.ask("GET", f"writ:{{slot-{n}}}:position") for n in range(0, 1024, 37)}


# ---- the mirror ----


def test_the_mirror_follows_from_start_to_end(fresh, redis):
    stack = fresh(redis=redis).start()
    story = Story(stack).tell()
    story.wait_mirrored()
    assert health(stack)["checks"]["redis"] == "ok"
    keys = redis.ask("--scan", "--pattern", "writ:*").split()
    assert all(key.startswith("writ:{slot-") for key in keys)
    assert sum(key.endswith(":owner") for key in keys) == 1024
    assert any(key.endswith(":tokens") for key in keys) and any(key.endswith(":reviews") for key in keys)
    assert not any(":next:" in key for key in keys)
    stack.engine.stop()
    assert len(positions(redis)) == 1, "the end is marked in every slot"
    stack.engine.start()
    story.tell(1)
    story.wait_mirrored()
    assert stack.metrics(stack.engine)["writ_engine_redis_repaired_slots_total"] == 0
    story.check()


def test_what_is_useless_in_redis_goes_soon_and_nobody_is_warned_of_it(fresh, redis):
    stack = fresh(redis=redis, engine=["--snapshot.interval", "1s"]).start()
    stack.policy("base", POLICY)
    eventually(lambda: stack.metrics(stack.engine)["writ_engine_redis_repaired_slots_total"] >= 1024, "Redis is written for the first time")
    with stack.at_engine() as wire:
        for n in range(50):  # one review, and a field for each request that was given it
            wire.post(AGENT, {"actor": "a", "action": "refund", "confidence": 1, "trace_id": f"trace-{n}"})
    eventually(lambda: fields(redis, "reviews") == [1], "the review is one field again")
    told = [json.loads(line) for line in stack.engine.log.read_text().splitlines() if "redis_repaired" in line]
    assert told and all(line["level"] == "info" for line in told)


def fields(redis, name):
    return [int(redis.ask("HLEN", key)) for key in redis.ask("--scan", "--pattern", f"writ:*:{name}").split()]


def test_an_emptied_a_killed_and_a_restored_redis_change_nothing(fresh, redis):
    stack = fresh(redis=redis, engine=["--reactors", "1"]).start()
    story = Story(stack).tell()
    story.wait_mirrored()
    redis.save_as("yesterday.rdb")
    story.tell()
    redis.ask("FLUSHALL")
    story.tell(1)
    story.wait_mirrored()
    story.check()
    redis.restore("yesterday.rdb")
    story.tell(1)
    story.wait_mirrored()
    story.check()
    for reactors in ("4", "3"):
        stack.engine.kill()
        redis.restore("yesterday.rdb")
        at = len(stack.engine.arguments) - 1 - stack.engine.arguments[::-1].index("--reactors")
        stack.engine.arguments[at + 1] = reactors
        stack.engine.start()
        story.check()
        story.tell(1)
        story.wait_mirrored()
    assert stack.metrics(stack.engine)["writ_engine_redis_repaired_slots_total"] > 0
    redis.kill()
    story.tell(1)
    story.check()
    stack.engine.stop()


def test_a_redis_that_is_away_or_hangs_is_degraded_and_not_down(fresh, redis):
    redis.kill()
    stack = fresh(redis=redis).start()
    story = Story(stack).tell(1)
    assert health(stack)["status"] == "degraded" and "Redis" in health(stack)["checks"]["redis"]
    redis.start()
    story.wait_mirrored()
    assert health(stack)["checks"]["redis"] == "ok"

    def seconds_of_a_chapter():
        begun = time.monotonic()
        story.tell(1)
        story.check()
        return time.monotonic() - begun
    usual = seconds_of_a_chapter()
    redis.process.send_signal(signal.SIGSTOP)
    assert seconds_of_a_chapter() < 20 + 5 * usual, "with a second for each request it would be a minute"
    eventually(lambda: health(stack)["checks"]["redis"] != "ok", "it is told that Redis does not answer")
    redis.process.send_signal(signal.SIGCONT)
    story.tell(1)
    story.wait_mirrored()
    story.check()
    stack.engine.stop()


def test_a_redis_whose_answers_are_lost_or_cut_goes_on_where_it_is(fresh, redis):
    """What was written and not told is known again by its position: nothing is written anew."""
    way = Way(str(redis.socket))
    redis.url = f"tcp://{way.address}"
    stack = fresh(redis=redis).start()
    story = Story(stack).tell(1)
    story.wait_mirrored()
    repaired = stack.metrics(stack.engine)["writ_engine_redis_repaired_slots_total"]
    for count, (part, ending) in enumerate([(0, Way.CLOSE), (0.5, Way.CLOSE), (0, Way.HALF_CLOSE), (0.5, Way.HALF_CLOSE)], 1):
        way.spoil = lambda sent, reply: (reply[:int(len(reply) * part)], ending) if way.spoiled < count else (reply, None)
        story.tell(1)
        eventually(lambda: way.spoiled == count, "an answer was spoiled")
        story.wait_mirrored()
        story.check()
    assert health(stack)["checks"]["redis"] == "ok"
    assert stack.metrics(stack.engine)["writ_engine_redis_repaired_slots_total"] == repaired
    stack.engine.stop()
    assert len(positions(redis)) == 1, "the end is marked in every slot"
    way.close()


def test_an_answer_that_nobody_asked_for_ends_the_connection_and_not_the_engine(fresh, redis):
    """A proxy that mixes up its clients. Behind the last answer, and to an engine that asked nothing."""
    way = Way(str(redis.socket))
    redis.url = f"tcp://{way.address}"
    stack = fresh(redis=redis).start()
    story = Story(stack).tell(1)
    story.wait_mirrored()
    for count, more in enumerate((b"+OK\r\n", b"$"), 1):
        way.spoil = lambda sent, reply: (reply + more, lambda client: None) if way.spoiled < count else (reply, None)
        story.tell(1)
        eventually(lambda: way.spoiled == count, "something was added to an answer")
        story.wait_mirrored()
        link = way.links[-1]
        link.client.sendall(more)
        eventually(lambda: way.links[-1] is not link, "the engine has connected again")
        story.wait_mirrored()
        story.check()
    assert health(stack)["checks"]["redis"] == "ok" and "sent an answer without a question" in stack.engine.log.read_text()
    stack.engine.stop()
    way.close()


def trickle(client):
    """A byte now and then, and never the end of a line."""
    def send():
        with contextlib.suppress(OSError):
            while True:
                client.sendall(b"a")
                time.sleep(0.05)
    threading.Thread(target=send, daemon=True).start()


NONSENSE = [  # what a server answers instead; what is then said of it
    (b"*2000000000\r\n", "a list of 2000000000 elements, at most 16 are read"),
    (b"*17\r\n", "a list of 17 elements, at most 16 are read"),
    (b"*2\r\n*2\r\n", "a list within a list"),
    (b"*1\r\n" * 2000, "a list within a list"),
    (b"$2000000000\r\n" + b"a" * 100_000, "a text or a line of more than 65536 bytes"),
    (b"*9\r\n" + 9 * (b"$16000\r\n%s\r\n" % (b"a" * 16000)), "larger than 65536 bytes"),
    (b"+" + b"a" * 100_000, "a text or a line of more than 65536 bytes"),
    (b"$" + b"1" * 100_000, "a text or a line of more than 65536 bytes"),
    (b"+OK\r\n" * 20_000, ""),  # there are fewer that were asked for
    (b"*-2\r\n", ""), (b"*99999999999999999999\r\n", ""), (b"$-7\r\n", ""), (b"$99999999999999999999\r\n", ""),
    (b"*\r\n", ""), (b"\0" * 100, ""), (b"HTTP/1.1 400 Bad Request\r\n\r\n", ""),
]


def test_a_redis_that_answers_nonsense_is_away_and_costs_nothing(fresh, redis):
    """What it claims and what it sends is bounded before there is memory for it; decisions go on, and so does the mirror afterwards."""
    way = Way(str(redis.socket))
    redis.url = f"tcp://{way.address}"
    stack = fresh(redis=redis).start()
    story = Story(stack).tell(1)
    story.wait_mirrored()

    def most_memory():
        return int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{stack.engine.pid}/status").read_text())[1])
    before = most_memory()
    failures = stack.metrics(stack.engine)["writ_engine_redis_failures_total"]
    for count, (nonsense, told) in enumerate(NONSENSE, 1):
        way.spoil = lambda sent, reply, bytes=nonsense: (bytes, None)
        begun = time.monotonic()
        story.use(story.mint())
        eventually(lambda: stack.metrics(stack.engine)["writ_engine_redis_failures_total"] > failures, f"{nonsense[:30]} is a failure")
        eventually(lambda: told in health(stack)["checks"]["redis"] != "ok", f"{nonsense[:30]} is reported as: {told}")
        assert time.monotonic() - begun < 10, nonsense[:30]
        way.spoil = lambda sent, reply: (reply, None)
        story.wait_mirrored()
        failures = stack.metrics(stack.engine)["writ_engine_redis_failures_total"]
    assert most_memory() - before < 200_000, "KiB"
    story.check()
    stack.engine.stop()
    way.close()


def test_a_redis_that_answers_nonsense_holds_up_neither_start_nor_end(fresh, redis):
    way = Way(str(redis.socket))
    redis.url = f"tcp://{way.address}"
    stack = fresh(redis=redis)
    stack.make_first_keys()
    stack.platform.start()
    way.spoil = lambda sent, reply: (b"*2000000000\r\n", None)
    begun = time.monotonic()
    stack.engine.start()
    assert time.monotonic() - begun < 10
    story = Story(stack).tell(1)
    eventually(lambda: stack.metrics(stack.engine)["writ_engine_redis_failures_total"] > 0, "it was tried")
    begun = time.monotonic()
    stack.engine.stop()
    assert time.monotonic() - begun < 5
    way.spoil = lambda sent, reply: (reply, None)
    stack.engine.start()
    story.wait_mirrored()
    story.check()
    stack.engine.stop()
    way.close()


def test_the_end_waits_for_no_redis_that_is_not_in_use(fresh, redis):
    way = Way(str(redis.socket))
    redis.url = f"tcp://{way.address}"
    stack = fresh(timeout_ms=60000, redis=redis).start()
    story = Story(stack).tell(1)
    story.wait_mirrored()
    way.spoil = lambda sent, reply: (b"+", trickle)
    for link in way.links:
        link.end()
    eventually(lambda: way.spoiled > 0, "the engine has connected again, and waits for an answer")
    begun = time.monotonic()
    stack.engine.stop()
    assert time.monotonic() - begun < 5, "the ten seconds are for what a Redis in use lacks"
    way.close()


class Slowly:
    """A way to Redis on which each answer takes `delay` seconds, one after another."""

    def __init__(self, path):
        self.path, self.delay = path, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.carry, args=(self.listener.accept()[0],), daemon=True).start()

    def carry(self, client):
        with contextlib.suppress(OSError, ValueError), client, socket.socket(socket.AF_UNIX) as server:
            server.connect(self.path)
            asks, answers = client.makefile("rb"), server.makefile("rb")
            while ask := self.read(asks):
                server.sendall(ask)
                answer = self.read(answers)
                time.sleep(self.delay)
                client.sendall(answer)

    def read(self, lines):
        """One value of the protocol, whole."""
        line = lines.readline()
        if line[:1] == b"*":
            return line + b"".join(self.read(lines) for _ in range(int(line[1:])))
        return line + lines.read(int(line[1:]) + 2) if line[:1] == b"$" and line[1:2] != b"-" else line


def test_a_redis_that_answers_slowly_holds_up_no_start(fresh, redis):
    """2,048 answers are wanted, and each of them comes in time."""
    way = Slowly(str(redis.socket))
    redis.url = f"tcp://{way.address}"
    stack = fresh(timeout_ms=2000, redis=redis).start()
    story = Story(stack).tell(1)
    story.wait_mirrored()
    stack.engine.stop()
    way.delay = 0.2
    begun = time.monotonic()
    stack.engine.start()
    assert time.monotonic() - begun < 200 and "answers too slowly" in stack.engine.log.read_text(), "all of them would take 400 seconds"
    story.check()
    way.delay = 0
    story.wait_mirrored()
    stack.engine.stop()
    way.listener.close()


def test_a_redis_that_answers_slowly_holds_up_no_end(fresh, redis):
    way = Slowly(str(redis.socket))
    redis.url = f"tcp://{way.address}"
    stack = fresh(timeout_ms=4000, redis=redis).start()
    story = Story(stack).tell(1)
    story.wait_mirrored()
    way.delay = 1.5
    story.tell(12)
    begun = time.monotonic()
    stack.engine.stop()
    assert time.monotonic() - begun < 60, "ten seconds are for what the mirror lacks"
    way.delay = 0
    stack.engine.start()
    story.wait_mirrored()
    story.check()
    stack.engine.stop()
    way.listener.close()


def test_a_second_engine_on_the_same_redis_refuses_to_start(fresh, redis):
    stack = fresh(redis=redis).start()
    story = Story(stack).tell(1)
    story.wait_mirrored()
    second = fresh(redis=redis, engine=["--node", "second"])
    second.make_first_keys()
    words = refused_start(second.engine)
    node = health(stack)["node"]
    assert f"engine {node}" in words and f"--adopt {node}" in words, words
    story.tell(1)
    story.check()
    story.wait_mirrored()
    stack.engine.stop()


@pytest.mark.parametrize("boots", [1, 2])
def test_a_redis_ahead_of_a_restored_disk_is_not_followed_once_the_journal_has_grown(fresh, redis, boots):
    """The journal has other records under the numbers that Redis stands at: going on from there would skip them."""
    stack = fresh(redis=redis, engine=["--node", "first"]).start()
    story = Story(stack).tell(1)
    story.wait_mirrored()
    stack.engine.signal(signal.SIGSTOP)
    yesterday = shutil.copytree(stack.engine_data / "engine", stack.engine_data / "yesterday")
    stack.engine.signal(signal.SIGCONT)
    for _ in range(20):
        story.mint()
    story.wait_mirrored()
    there = stack.metrics(stack.engine)["writ_engine_redis_position"]
    stack.engine.kill()
    redis.save_as("now.rdb")
    redis.kill()
    shutil.rmtree(stack.engine_data / "engine")
    shutil.copytree(yesterday, stack.engine_data / "engine")
    stack.engine.start(ready=False)  # Redis is away: the platform alone sees that this journal is too short
    eventually(stack.engine.is_listening, "it listens")
    with stack.at_engine() as wire:
        eventually(lambda: wire.post(AGENT, {"action": "get_x"}).status == 200, "it decides, if it is asked all the same")
        eventually(lambda: wire.get("/readyz").status == 503, "it is not ready")
    while stack.metrics(stack.engine)["writ_engine_journal_durable_seq"] <= there:
        dead = story.mint()
        assert story.call("DELETE", f"/v1/tokens/{dead['token_id']}").status == 200
    if boots == 2:
        stack.engine.stop()
    shutil.copy(redis.folder / "now.rdb", redis.folder / "dump.rdb")
    redis.start()
    if boots == 2:
        assert "went back in time" in refused_start(stack.engine)
        return
    assert stack.engine.wait() == 1, "it says so and ends"
    assert "went back in time" in stack.engine.tail()


def test_a_lost_disk_is_adopted_and_what_was_open_comes_back_closed(fresh, redis):
    stack = fresh(redis=redis, engine=["--node", "first"]).start()
    story = Story(stack).tell()
    story.wait_mirrored()
    stack.engine.kill()
    lost = stack.engine_data / "engine"
    lost.rename(stack.engine_data / "lost")

    assert "--adopt first" in refused_start(stack.engine)
    lost_again = stack.engine_data / "engine"
    assert not list((lost_again / "snapshots").glob("*")), "a refused start leaves no state"
    stack.engine.arguments += ["--adopt", "first"]
    assert "adopt (flag): this engine is first, too" in refused_start(stack.engine), "its records would never be published"
    stack.engine.arguments[stack.engine.arguments.index("--node") + 1] = "heir"
    stack.engine.start()
    assert "adopted" in stack.engine.tail(20000)
    for token in story.revoked:
        assert story.use(token).status == 401
    for token, _ in story.counted:
        assert story.use(token).status == 401, "a counted token came back open"
    for token in story.plain:
        assert story.use(token).status == 401, "the adopter has a signing key of its own, and may not know what was revoked last"
    for review in story.approved:
        assert story.redeem(review)["rule"] == "review:expired", "an approval came back open"
    for review in story.redeemed:
        assert story.redeem(review)["rule"] == "review:redeemed"
    for review in story.pending:
        assert story.status(review) == "expired", "it may have been denied since, or approved and redeemed"
    for actor in story.suspended:
        assert story.call("POST", AGENT, body={"action": "get_x", "actor": actor}).json["rule"] == "actor:suspended"
    expired, lapsed = ({review[0] for review in reviews} for reviews in (story.pending, story.approved))
    story.plain, story.counted, story.approved, story.pending = [], [], [], []
    story.tell(1)
    story.wait_mirrored()
    stack.engine.kill()
    stack.engine.start()  # the option stays, and does nothing any more
    stack.wait_published()
    with stack.at_platform("auditor") as wire:
        (told,) = wire.get("/api/v1/audit?kind=engine.adopted").json["events"]
        assert "the state of first:" in told["reason"] and "expire" in told["reason"], told
        for kind, reviews in (("review.expired", expired), ("review.lapsed", lapsed)):
            ended = wire.get(f"/api/v1/audit?kind={kind}&limit=500").json["events"]
            assert sorted(event["review_id"] for event in ended) == sorted(reviews), f"each {kind} is recorded once"
    with contextlib.closing(sqlite3.connect(stack.data / "platform.db")) as store:
        recorded = [event for event, in store.execute("SELECT event FROM records WHERE node = 'heir'")]
    assert events.validators() is None or {"engine.adopted", "review.expired"} <= events.check(events.few_of_each(recorded), written=True)
    story.check()
    story.wait_mirrored()
    stack.wait_published()
    stack.engine.stop()


def test_the_engine_that_was_taken_over_says_so_and_ends(fresh, redis):
    stack = fresh(redis=redis, engine=["--node", "first"]).start()
    story = Story(stack).tell(1)
    story.wait_mirrored()
    other = fresh(redis=redis, engine=["--node", "second", "--adopt", "first"])
    other.make_first_keys()
    other.platform.start()
    with stack.at_engine() as wire:
        wire.open()
        other.engine.start(ready=False)
        refusal = eventually(lambda: (r := wire.post(AGENT, {"action": "get_x"})).status == 503 and r, "the first one stops deciding")
        assert "another engine" in refusal.json["error"]
    assert stack.engine.wait() == 1
    assert "second" in stack.engine.tail()
    other.engine.wait_ready()
    other.engine.stop()


def test_an_unfinished_image_is_not_adopted(fresh, redis):
    """What an engine found empty is believed by nobody before it has written it anew."""
    stack = fresh(redis=redis, engine=["--node", "first"]).start()
    story = Story(stack).tell(1)
    story.wait_mirrored()
    stack.engine.kill()
    owner = redis.ask("GET", "writ:{slot-17}:owner")
    redis.ask("FLUSHALL")
    for slot in range(17, 1024, 64):  # as far as the engine came before it died
        redis.ask("SET", f"writ:{{slot-{slot}}}:owner", owner)
    other = fresh(redis=redis, engine=["--node", "second", "--adopt", "first"])
    other.make_first_keys()
    words = refused_start(other.engine)
    assert "slot 17 " in words and "Start first on its own data directory" in words, words
    stack.engine.start()
    story.wait_mirrored()
    story.check()
    stack.engine.kill()
    other.platform.start()
    other.engine.start()
    for actor in story.suspended:
        with other.at_engine() as wire:
            assert wire.post(AGENT, {"action": "get_x", "actor": actor}).json["rule"] == "actor:suspended"
    other.engine.stop()


@pytest.mark.parametrize("requests", [12_960_000, 2**64 - 1])
def test_a_counter_of_very_many_requests_is_adopted_at_once(fresh, redis, requests):
    stack = fresh(redis=redis, engine=["--node", "first"]).start()
    story = Story(stack).tell(1)
    assert story.call("POST", AGENT, body={"action": "count", "actor": "bot"}).json["decision"] == "allow"
    story.wait_mirrored()
    stack.engine.kill()
    counters = redis.ask("KEYS", "writ:*:counters")  # the only one
    name = next(field for field in redis.ask("HKEYS", counters).split() if not field.endswith("+sum"))
    redis.ask("HSET", counters, name, str(requests))
    other = fresh(redis=redis, engine=["--node", "second", "--adopt", "first"])
    other.make_first_keys()
    other.platform.start()
    other.engine.start()
    other.policy("base", POLICY)
    with other.at_engine() as wire:
        others = wire.post(AGENT, {"action": "count", "actor": "another"}).json
        answer = wire.post(AGENT, {"action": "count", "actor": "bot"}).json
    assert others["decision"] == "allow" and answer["decision"] == "deny" and "limit" in answer["rule"], (others, answer)


def test_a_redis_that_does_not_write_is_told_and_not_stormed(fresh, redis):
    stack = fresh(redis=redis).start()
    story = Story(stack).tell(1)
    story.wait_mirrored()

    def connections():
        return int(next(line for line in redis.ask("INFO", "stats").splitlines() if "connections_received" in line).split(":")[1])

    def figure(name):
        return stack.metrics(stack.engine)[name]

    for words, back, why in ((("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0"), "OOM"),
                             (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE"), "READONLY")):
        redis.ask(*words)
        failures, before, begun = figure("writ_engine_redis_failures_total"), connections(), time.monotonic()
        story.tell(1)
        eventually(lambda: why in health(stack)["checks"]["redis"], "it is told what is wrong")
        while figure("writ_engine_redis_failures_total") < failures + 4:
            now = health(stack)
            assert now["status"] == "degraded" and why in now["checks"]["redis"], now
        made = connections() - before - 1  # 1: the redis-cli that counts
        attempts, seconds = figure("writ_engine_redis_failures_total") - failures, time.monotonic() - begun
        assert made <= attempts + 2, "one for each attempt"
        assert attempts <= 7 + seconds / 2, "which are made less and less often"
        redis.ask(*back)
        story.wait_mirrored()
        assert health(stack)["checks"]["redis"] == "ok"
    story.check()
    stack.engine.stop()


def test_a_user_and_a_password_from_a_file(fresh, tmp_path):
    server = Redis(tmp_path / "r", ["--user", "default", "off", "--user", "writ", "on", ">open sesame", "~writ:*", "+@all"])
    server.user = ("--user", "writ", "--pass", "open sesame", "--no-auth-warning")
    server.start()
    try:
        secret = tmp_path / "secret"
        secret.write_text("open sesame\n")
        secret.chmod(0o600)
        stack = fresh(redis=server, engine=["--redis.user", "writ", "--redis.password_file", str(secret)]).start()
        story = Story(stack).tell(1)
        story.wait_mirrored()
        stack.engine.stop()
        secret.write_text("wrong\n")
        stack.engine.start()
        eventually(lambda: "does not take us" in health(stack)["checks"]["redis"], "a wrong password is told")
        assert "sesame" not in stack.engine.tail(100000) and "wrong\\n" not in stack.engine.tail(100000)
        secret.write_text("open sesame\n")  # it is read again at each attempt
        story.wait_mirrored()
        stack.engine.stop()
    finally:
        server.end()


def test_what_cannot_be_is_refused_at_the_start(fresh, tmp_path):
    for option, value, words in (("--redis.url", "rediss://cache:6379", "TLS"), ("--redis.url", "http://cache:6379", "redis.url"),
                                 ("--adopt", "first", "needs redis.url")):
        stack = fresh(engine=[option, value])
        stack.make_first_keys()
        assert words in refused_start(stack.engine)


# ---- ops/stack ----


def test_ops_stack_starts_stops_and_tells(tmp_path):
    environment = {**os.environ, "WRIT_STACK": str(tmp_path / "st"), "WRIT_REDIS_PORT": str(harness.free_port())}

    def run(*words):
        done = subprocess.run([str(harness.TOP / "ops" / "stack"), *words], capture_output=True, text=True, env=environment, timeout=harness.PATIENCE)
        return done.returncode, done.stdout + done.stderr

    try:
        assert run("status")[0] == 1
        status, words = run("up", "redis")
        assert status == 0 and "redis: running" in words
        assert run("up", "redis")[0] == 0  # again is no fault
        assert run("kill9", "redis")[0] == 0 and run("status", "redis")[0] == 1
        assert run("start", "redis")[0] == 0
        assert run("down")[0] == 0 and run("status")[0] == 1
        assert run("up", "nothing")[0] == 2 and run("dance")[0] == 2
    finally:
        run("down")
