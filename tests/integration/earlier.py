"""Data as the programs of an earlier commit left it, and what has to be true of it ever after.

    WRIT_BUILD=<build of the earlier commit> python3 tests/integration/earlier.py tests/fixtures/<commit>

makes a fixture: an engine and a platform live through a story (tokens, reviews, counters, suspensions,
keys, policies), and are killed with part of the state in a snapshot, part in the journal behind it,
and the last records not yet published. A fixture is a folder:

    data.tar.xz       the data directory of both programs (the platform's store is in it, or is `store.sql.xz`)
    store.sql.xz      PostgreSQL's store, where it was used
    redis.json.xz     the mirror: key -> DUMP, in base64, where Redis was used
    story.json        keys, the time at which it ended, and requests with what they have to answer

A fixture is read with the wall clock set back to where the story ended (clock_shift.c): its tokens,
reviews and windows of limits are as old then as they were.
"""

import base64
import json
import lzma
import pathlib
import shutil
import subprocess
import sys
import tarfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from harness import BUILD, Stack, eventually  # noqa: E402
from preload import preload  # noqa: E402

ASK = "/v1/agent/authorize"
POLICY = """
mask: [args.pin]
roles: {finance: [carol, dan]}
rules:
  - {id: reads, agents: ["*"], actions: ["get_*"], decision: allow}
  - {id: drops, agents: ["*"], actions: ["drop_*"], decision: deny}
  - {id: counted, agents: ["*"], actions: [count], decision: allow, limit: {per: actor, window: 1h, count: 3}}
  - {id: summed, agents: ["*"], actions: [pay], decision: allow, limit: {per: actor, window: 24h, sum: args.amount, max: 100}}
  - {id: asked, agents: ["*"], actions: [over], decision: allow, limit: {per: actor, window: 1h, count: 2, over: human_review}}
  - {id: refunds, agents: ["*"], actions: [refund], decision: human_review, review: {expires_in: 7d, good_for: 24h}}
  - id: large
    agents: ["*"]
    actions: [wire]
    decision: human_review
    review: {by: [finance], approvals: 2, expires_in: 7d, good_for: 24h}
"""
REFUSED = 401


class Story:
    """Tells it to running programs, and writes down what has to be answered later."""

    def __init__(self, stack):
        self.stack, self.later, self.number = stack, [], 0
        key = stack.key
        self.keys = dict(stack.keys)
        for person in ("rita", "carol", "dan"):
            self.keys[person] = key(person, ["reviewer"], owner=person, reviewers=[person], wait=False)
        self.keys["gone"] = key("gone", ["agent"], actors=["*"], wait=False)
        self.keys["narrow"] = key("narrow", ["agent"], actors=["narrow-*"], wait=False)
        stack.policy("base", POLICY.replace("count: 3", "count: 4"), wait=False)
        stack.policy("base", POLICY)
        with stack.at_platform("root") as wire:
            listed = wire.get("/api/v1/keys?tenant_id=default").json["keys"]
            reply = wire.delete(f"/api/v1/keys/{next(k['id'] for k in listed if k['name'] == 'gone')}")
        assert reply.status == 200 and reply.json["behind"] == [], reply

    def call(self, method, path, key="agent", body=None, headers=None, status=(200, 201)):
        with self.stack.at_engine(self.keys.get(key, key)) as wire:
            reply = wire.request(method, path, body=body, headers=headers)
        assert reply.status in status, (method, path, body, reply)
        return reply.json

    def expect(self, what, method, path, key="agent", body=None, headers=None, http=200, **members):
        """A request that is made of the data later, in this order, and members of its answer."""
        self.later.append({"what": what, "method": method, "path": path, "key": key, "body": body, "headers": headers,
                           "http": http, "members": members})

    def ask(self, actor, action, key="agent", **members):
        self.number += 1
        return self.call("POST", ASK, key, {"actor": actor, "action": action, "trace_id": f"told-{self.number}", **members})

    def chapter(self, name):
        self.tokens(name)
        self.reviews(name)
        self.limits(name)
        self.actors(name)

    def mint(self, actor, key="agent", headers=None, **more):
        return self.call("POST", "/v1/tokens/mint", key, {"actor": actor, "scope": "get_*", "ttl_seconds": 36000, **more}, headers)

    def use(self, token):
        return self.call("POST", ASK, token["token"], {"action": "get_x"}, status=(200, 401))

    def tokens(self, name):
        actor = f"narrow-{name}"
        live, dead = self.mint(actor, "narrow"), self.mint(actor)
        self.expect("a live token is good", "POST", ASK, live["token"], {"action": "get_x"}, decision="allow")
        assert self.use(dead)["decision"] == "allow"
        self.call("DELETE", f"/v1/tokens/{dead['token_id']}")
        self.expect("a revoked token is not", "POST", ASK, dead["token"], {"action": "get_x"}, http=REFUSED)
        counted = self.mint(actor, max_uses=2)
        assert self.use(counted)["decision"] == "allow"
        self.expect("a counted token has one use", "POST", ASK, counted["token"], {"action": "get_x"}, decision="allow")
        self.expect("and no more", "POST", ASK, counted["token"], {"action": "get_x"}, decision="deny", rule="token:uses")
        headers = {"Idempotency-Key": f"mint-{name}"}
        body = {"actor": actor, "scope": "get_*", "ttl_seconds": 36000}
        once = self.call("POST", "/v1/tokens/mint", "agent", body, headers)
        self.expect("a mint that is repeated is the same token", "POST", "/v1/tokens/mint", "agent", body, headers, http=201,
                    token=once["token"], token_id=once["token_id"])
        self.expect("with another body it is refused", "POST", "/v1/tokens/mint", "agent", {**body, "scope": "*"}, headers, http=422)

    def review(self, name, kind, action="refund", **args):
        body = {"actor": f"{kind}-{name}", "action": action, "args": {"pin": "1234", "n": 1, **args}}
        asked = self.call("POST", ASK, body=body)
        assert asked["decision"] == "human_review", asked
        return asked["review_id"], body

    def resolve(self, review, verb, person):
        return self.call("POST", f"/v1/queue/{review[0]}/{verb}", person, {"resolved_by": person})

    def redeem_later(self, what, review, headers=None, change=None, **members):
        body = {**review[1], **(change or {})}
        self.expect(what, "POST", f"/v1/queue/{review[0]}/redeem", "agent", body, headers, **members)

    def reviews(self, name):
        pending = self.review(name, "pending")
        self.expect("the same request meets its pending review", "POST", ASK, body=pending[1], decision="human_review", review_id=pending[0])
        self.expect("and is answered once it is approved", "POST", f"/v1/queue/{pending[0]}/approve", "rita", {"resolved_by": "rita"}, status="approved")
        self.redeem_later("for what was asked", pending, decision="allow")
        approved = self.review(name, "approved")
        self.resolve(approved, "approve", "rita")
        self.redeem_later("an approval is for what was asked only", approved, change={"args": {"pin": "1235", "n": 1}},
                          decision="deny", rule="review:binding")
        self.redeem_later("an approval is good", approved, decision="allow", allowed=True)
        self.redeem_later("once", approved, decision="deny", rule="review:redeemed")
        denied = self.review(name, "denied")
        self.resolve(denied, "deny", "rita")
        self.redeem_later("a denial stays one", denied, decision="deny", rule="review:denied")
        spent = self.review(name, "spent")
        self.resolve(spent, "approve", "rita")
        headers = {"Idempotency-Key": f"redeem-{name}"}
        first = self.call("POST", f"/v1/queue/{spent[0]}/redeem", "agent", spent[1], headers)
        assert first["decision"] == "allow", first
        self.redeem_later("a redemption that is repeated has the same answer", spent, headers, decision="allow", redemption_id=first["redemption_id"])
        self.redeem_later("with another key it was used", spent, decision="deny", rule="review:redeemed")
        half = self.review(name, "half", "wire")
        self.resolve(half, "approve", "carol")
        self.redeem_later("one vote of two is none", half, decision="deny", rule="review:pending")
        self.expect("the second vote is the last", "POST", f"/v1/queue/{half[0]}/approve", "dan", {"resolved_by": "dan"}, status="approved")
        self.redeem_later("two votes are enough", half, decision="allow")

    def limits(self, name):
        actor = f"limited-{name}"
        for _ in range(3):
            assert self.ask(actor, "count")["decision"] == "allow"
        self.expect("a count that is used up stays so", "POST", ASK, body={"actor": actor, "action": "count"}, decision="deny", rule="limit:counted")
        assert self.ask(actor, "pay", args={"amount": 60})["decision"] == "allow"
        self.expect("a sum has what is left", "POST", ASK, body={"actor": actor, "action": "pay", "args": {"amount": 41}}, decision="deny", rule="limit:summed")
        self.expect("and no more", "POST", ASK, body={"actor": actor, "action": "pay", "args": {"amount": 40}}, decision="allow")
        for _ in range(2):
            assert self.ask(actor, "over")["decision"] == "allow"
        self.expect("over its limit a person is asked", "POST", ASK, body={"actor": actor, "action": "over"}, decision="human_review", rule="limit:asked")

    def actors(self, name):
        stopped, back = f"stopped-{name}", f"back-{name}"
        tokens = [self.mint(stopped), self.mint(back)]
        for actor in (stopped, back):
            self.call("POST", f"/v1/actors/{actor}/suspend", "admin", {"reason": "odd"})
        self.call("POST", f"/v1/actors/{back}/resume", "admin", {})
        for spelling in (stopped, stopped.upper()):
            self.expect("a suspended actor is denied", "POST", ASK, body={"actor": spelling, "action": "get_x"}, decision="deny", rule="actor:suspended")
        self.expect("a resumed one is not", "POST", ASK, body={"actor": back, "action": "get_x"}, decision="allow")
        for token in tokens:
            self.expect("a token from before a suspension is dead", "POST", ASK, token["token"], {"action": "get_x"}, http=REFUSED)

    def end(self):
        self.expect("a revoked key is refused", "POST", ASK, "gone", {"action": "get_x", "actor": "a"}, http=REFUSED)
        self.expect("a key's globs hold", "POST", ASK, "narrow", {"action": "get_x", "actor": "other"}, http=403)
        self.expect("what is denied stays denied", "POST", ASK, body={"action": "drop_x", "actor": "a"}, decision="deny", rule="deny:drops",
                    policy_version=2)


def told(stack, with_redis):
    """The whole story; the programs are dead at its end."""
    story = Story(stack)
    story.chapter("first")
    stack.wait_published()
    stack.engine.stop()  # writes a snapshot
    stack.engine.start()
    story.chapter("second")
    story.end()
    stack.wait_published()
    if with_redis:
        wait_mirrored(stack)
    stack.platform.stop()
    last = story.ask("a", "get_x")
    if with_redis:
        wait_mirrored(stack)
    stack.engine.kill()
    return {"ended_ms": int(time.time() * 1000), "keys": story.keys, "later": story.later, "node": "first",
            "unpublished": last["trace_id"], "published": [f"told-{n}" for n in range(1, story.number)]}


def wait_mirrored(stack):
    def done():
        now = stack.metrics(stack.engine)
        return now["writ_engine_redis_up"] == 1 and now["writ_engine_redis_lag_records"] == 0 and \
            now["writ_engine_redis_position"] >= now["writ_engine_journal_durable_seq"]
    eventually(done, "everything is in Redis")


OPTIONS = ["--node", "first", "--journal.segment", "1MiB"]


def make(folder):
    from fleet import Postgres, Redis
    import tempfile
    for name in ("sqlite", "postgres"):
        out = pathlib.Path(folder) / name
        out.mkdir(parents=True)
        with tempfile.TemporaryDirectory() as work:
            work = pathlib.Path(work)
            postgres = redis = None
            if name == "postgres":
                postgres, redis = Postgres(), Redis(work / "redis").start()
                assert postgres.up() == ""
            url = postgres and postgres.new_database()
            stack = Stack(work, engine=[*OPTIONS, *(["--redis.url", redis.url] if redis else [])], store_url=url)
            stack.start()
            story = told(stack, redis is not None)
            if postgres:
                dump = subprocess.run(["pg_dump", "--no-owner", "-d", url], check=True, capture_output=True).stdout
                (out / "store.sql.xz").write_bytes(lzma.compress(dump, preset=9))
                (out / "redis.json.xz").write_bytes(lzma.compress(json.dumps(redis_dump(redis)).encode(), preset=9))
            with tarfile.open(out / "data.tar.xz", "w:xz", preset=9) as tar:
                tar.add(stack.data, "data")
            (out / "story.json").write_text(json.dumps(story, indent=1) + "\n")
            stack.close()
            for server in filter(None, (postgres, redis)):
                server.close() if server is postgres else server.end()
        print(name, {path.name: path.stat().st_size for path in out.iterdir()})


def redis_command(redis, *words):
    """One command over the socket; bytes come back as they are."""
    import socket
    with socket.socket(socket.AF_UNIX) as wire:
        wire.connect(str(redis.socket))
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        wire.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        stream = wire.makefile("rb")
        line = stream.readline()
        if line[:1] == b"$":
            return stream.read(int(line[1:]))
        assert line[:1] in b"+:", line
        return line[1:].strip()


def redis_dump(redis):
    keys = [key for key in redis.ask("KEYS", "*").split("\n") if key]
    return {key: base64.b64encode(redis_command(redis, "DUMP", key)).decode() for key in keys}


# ---- reading one ----


class Earlier:
    """A fixture, unpacked for the programs of this build; `stack` is not started yet."""

    def __init__(self, fixture, folder, postgres=None, redis=None, engine=()):
        self.story = json.loads((fixture / "story.json").read_text())
        folder = pathlib.Path(folder)
        with tarfile.open(fixture / "data.tar.xz") as tar:
            tar.extractall(folder)
        clock = folder / "clock"
        clock.write_bytes((self.story["ended_ms"] + 1000 - int(time.time() * 1000)).to_bytes(8, sys.byteorder, signed=True))
        shifted = {"LD_PRELOAD": preload(BUILD / "tests" / "libclock_shift.so"), "CLOCK_SHIFT_FILE": str(clock),
                   "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"}
        url = None
        if postgres is not None:
            url = postgres.new_database()
            sql = lzma.decompress((fixture / "store.sql.xz").read_bytes())
            subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url], input=sql, check=True, stdout=subprocess.DEVNULL)
        if redis is not None:
            for key, dump in json.loads(lzma.decompress((fixture / "redis.json.xz").read_bytes())).items():
                redis_command(redis, "RESTORE", key, 0, base64.b64decode(dump))
            engine = ["--redis.url", redis.url, *engine]
        self.stack = Stack(folder, engine=[*OPTIONS, *engine], store_url=url, engine_environment=shifted, platform_environment=shifted)
        self.stack.keys = self.story["keys"]
        self.stack.key_file.write_text(self.stack.keys["engine"] + "\n")
        self.stack.key_file.chmod(0o600)

    def start(self):
        """Until its set is adopted, the platform takes records and shows the trail, and engines get no policies and keys."""
        self.stack.platform.start()
        self.stack.engine.start(ready=False)
        eventually(self.stack.engine.is_listening, "it listens")
        shown = self.stack.set("show", check=False)
        assert shown.returncode != 0 and "are not adopted" in shown.stderr and "added " in shown.stdout, shown
        assert not self.stack.engine.is_ready()
        self.stack.trace(self.story["published"][0])
        self.stack.set("adopt")
        self.stack.engine.wait_ready()
        return self

    def ask(self, row):
        with self.stack.at_engine(row["key"]) as wire:
            return wire.request(row["method"], row["path"], body=row["body"], headers=row["headers"])

    def check(self):
        """Every row as it has to be; all that are not, at once."""
        wrong = []
        for row in self.story["later"]:
            reply = self.ask(row)
            if reply.status != row["http"] or any(reply.json.get(name) != value for name, value in row["members"].items()):
                wrong.append(f"{row['what']}: {row['method']} {row['path']} {row['body']}: expected {row['http']} {row['members']}, got {reply}")
        assert not wrong, "\n".join(wrong)

    def check_suspensions(self):
        """The upgrade has found the newest word about each actor in the trail; of two in the same millisecond the suspension."""
        words = [event for kind in ("actor.suspended", "actor.resumed") for event in self.stack.events(kind=kind)]
        newest = {word["actor"]: word for word in sorted(words, key=lambda word: (word["timestamp"], word["kind"], word["event_id"]))}
        with self.stack.at_platform("auditor") as wire:
            rows = wire.get("/api/v1/suspensions?limit=500").json["suspensions"]
        assert {row["actor"]: (row["event_id"], row["suspended"]) for row in rows} == \
            {actor: (word["event_id"], word["kind"] == "actor.suspended") for actor, word in newest.items()}
        assert {("stopped-first", "odd", "admin-owner"), ("stopped-second", "odd", "admin-owner")} <= \
            {(row["actor"], row.get("reason"), row.get("suspended_by")) for row in rows if row["suspended"]}

    def check_again(self):
        """What was refused stays refused, and what was used up is."""
        self.check_nothing_is_looser()
        for row in self.story["later"]:
            if row["what"] in ("a live token is good", "a resumed one is not"):
                assert self.ask(row).json["decision"] == "allow", row

    def check_nothing_is_looser(self):
        """For a state that may have lost its end, or spent what it had: no row that has to be refused is let through."""
        for row in self.story["later"]:
            reply = self.ask(row)
            if row["http"] == REFUSED or row["members"].get("decision") == "deny":
                assert not reply.json.get("allowed"), f"{row['what']}: {row['body']}: {reply}"

    def wait_mirrored(self):
        wait_mirrored(self.stack)

    def check_history(self):
        for trace in [*self.story["published"], self.story["unpublished"]]:
            assert len([e for e in self.stack.trace(trace) if e["kind"] == "decision"]) == 1, trace


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    make(sys.argv[1])
