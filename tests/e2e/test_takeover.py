"""A new engine takes over the suspensions that the platform has, and lets no agent in before."""

import http.server
import json
import shutil
import sqlite3
import threading
import urllib.error
import urllib.parse
import urllib.request

import pytest

import events
import harness
from conftest import BASE_POLICY
from harness import eventually
from survivors import AGENT

SUSPENSIONS = "/api/v1/suspensions"


class Between:
    """A proxy in front of the platform, which may have no suspensions, or hold back an answer."""

    def __init__(self, platform):
        self.asked, self.missing, self.held_from, self.release = 0, False, None, threading.Event()
        between = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, headers, answer = between.ask(platform, self.command, self.path, body, self.headers)
                self.send_response(status)
                for name in ("ETag", "Content-Type"):
                    if headers.get(name):
                        self.send_header(name, headers[name])
                if status != 304:
                    self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_GET = do_POST = answer

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def ask(self, platform, method, path, body, headers):
        if path.startswith(SUSPENSIONS):
            if self.missing:
                return 404, {}, b'{"code":"not_found","error":"no such path"}'
            if self.asked == self.held_from:
                self.release.wait(harness.PATIENCE)
            self.asked += 1
        request = urllib.request.Request(platform.url + path, body or None, {k: v for k, v in headers.items() if k.lower() not in ("host", "connection")}, method=method)
        try:
            with urllib.request.urlopen(request) as reply:
                return reply.status, reply.headers, reply.read()
        except urllib.error.HTTPError as e:
            return e.code, e.headers, e.read()
        except OSError:  # the platform is away
            return 502, {}, b"{}"

    def close(self):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def between():
    made = []

    def make(stack):
        made.append(Between(stack.platform))
        arguments = stack.engine.arguments
        arguments[arguments.index("--platform.url") + 1] = made[-1].url
        return made[-1]

    yield make
    for one in made:
        one.close()


def option(stack, name, value):
    stack.engine.arguments[stack.engine.arguments.index(name) + 1] = value


def call(stack, method, path, key="agent", body=None):
    with stack.at_engine(key) as wire:
        return wire.request(method, path, body=body)


def decide(stack, actor):
    return call(stack, "POST", AGENT, body={"action": "get_x", "actor": actor})


def suspend(stack, actor, **more):
    reply = call(stack, "POST", f"/v1/actors/{urllib.parse.quote(actor, safe='')}/suspend", "admin", more)
    assert reply.status == 200, reply


def listed(stack, key="auditor", more="&limit=500"):
    with stack.at_platform(key) as wire:
        reply = wire.get(f"{SUSPENSIONS}?open=true{more}")
    assert reply.status == 200, reply
    return reply.json["suspensions"]


def lose_the_disk(stack, node=None):
    """And gives the next engine this name."""
    stack.engine.kill()
    shutil.rmtree(stack.engine_data / "engine")
    if node:
        option(stack, "--node", node)


def why_not_ready(stack):
    with stack.at_engine() as wire:
        reply = wire.get("/readyz")
    return "" if reply.status == 200 else reply.json["error"]


def assert_nobody_is_let_in(stack, *tokens):
    for key in ("agent", *tokens):
        for path, body in ((AGENT, {"action": "get_x"}), ("/v1/tokens/mint", {"actor": "free", "scope": "*"})):
            reply = call(stack, "POST", path, key, body)
            assert (reply.status, reply.json["code"]) == (503, "starting") and "suspensions" in reply.json["error"], reply
    assert call(stack, "GET", "/v1/actors", "admin").status == 503, "a list that may lack some"


@pytest.mark.parametrize("reactors", ["1", "3"])
def test_suspensions_outlive_the_disk_of_their_engine(fresh, reactors):
    stack = fresh(engine=["--node", "first", "--reactors", reactors])
    stack.start()
    stack.policy("base", BASE_POLICY)
    names = ["bad bot", "bot/é", *(f"bot-{i}" for i in range(8))]
    tokens = [call(stack, "POST", "/v1/tokens/mint", body={"actor": actor, "scope": "*", "ttl_seconds": 3600}).json["token"] for actor in names]
    for actor in [*names, "back"]:
        suspend(stack, actor, reason=f"about {actor}")
    assert call(stack, "POST", "/v1/actors/back/resume", "admin", {}).status == 200
    before = call(stack, "GET", "/v1/actors?limit=100", "admin").json["actors"]
    stack.wait_published()
    rows = listed(stack)
    assert [row["actor"] for row in rows] == names and {row["suspended_by"] for row in rows} == {"admin-owner"}
    assert listed(stack, "engine") == rows and listed(stack, "root", "&tenant_id=default") == rows
    assert listed(stack, "root", "&tenant_id=other") == []

    def check(at):
        for actor in names:
            for spelling in (actor, actor.upper()):
                assert decide(stack, spelling).json["rule"] == "actor:suspended", (at, spelling)
        for token in tokens:
            assert call(stack, "POST", AGENT, token, {"action": "get_x"}).status == 401, at
        assert decide(stack, "back").json["decision"] == "allow", at
        after = call(stack, "GET", "/v1/actors?limit=100", "admin").json["actors"]
        assert sorted(map(json.dumps, after)) == sorted(map(json.dumps, before)), at

    lose_the_disk(stack)
    stack.engine.start(ready=False)
    eventually(lambda: stack.engine.is_listening() and decide(stack, "free").status == 200, "it decides")
    check("the same name")
    eventually(lambda: "--node NAME" in why_not_ready(stack), "the platform has records of this name that the journal lacks")

    lose_the_disk(stack, "second")
    stack.engine.start()
    check("another name")
    assert not (stack.engine_data / "engine" / "suspensions-due").exists()
    stack.wait_published()
    taken = [event for event in stack.events(kind="actor.suspended") if "previous" in event]
    assert sorted((event["actor"], event["reason"], event["resolved_by"], *event["previous"].values()) for event in taken) == \
        sorted((row["actor"], row["reason"], row["suspended_by"], row["event_id"], row["suspended_at"]) for row in rows)
    with sqlite3.connect(stack.data / "platform.db") as store:
        recorded = [event for event, in store.execute("SELECT event FROM records WHERE node = 'second'")]
    store.close()
    assert events.validators() is None or "actor.suspended" in events.check(events.few_of_each(recorded), written=True)
    assert listed(stack) == rows, "a record of a takeover is no new word"

    assert call(stack, "POST", f"/v1/actors/{names[-1]}/resume", "admin", {}).status == 200
    stack.wait_published()
    lose_the_disk(stack, "third")
    stack.engine.start()
    assert decide(stack, names.pop()).json["decision"] == "allow", "it was resumed at the second engine"
    tokens.pop()
    before = before[:-1]
    check("a third name")
    stack.engine.stop()
    stack.platform.stop()
    stack.engine.start()  # nothing is asked: its journal has them
    check("a restart without the platform")


def test_without_the_platforms_answer_nobody_is_let_in(fresh, between):
    stack = fresh(engine=["--node", "first"])
    proxy = between(stack)
    stack.start()
    stack.policy("base", BASE_POLICY)
    suspend(stack, "bad", reason="why")
    stack.wait_published()
    stack.engine.stop()
    for lost in ("journal", "snapshots"):  # but not the copy of keys and policies
        shutil.rmtree(stack.engine_data / "engine" / lost)
    option(stack, "--node", "second")
    stack.platform.stop()
    stack.engine.start(ready=False)
    eventually(lambda: stack.engine.is_listening() and "lets no agent in" in why_not_ready(stack), "it has keys and policies")
    assert_nobody_is_let_in(stack)
    suspend(stack, "worse")  # the kill switch works
    stack.engine.kill()
    stack.engine.start(ready=False)  # the journal is not new any more
    eventually(lambda: stack.engine.is_listening() and "lets no agent in" in why_not_ready(stack), "it begins again")
    assert_nobody_is_let_in(stack)

    proxy.missing = True  # a platform of an earlier version
    stack.platform.start()
    eventually(lambda: "upgrade it first" in why_not_ready(stack), "what to do")
    assert_nobody_is_let_in(stack)
    proxy.missing = False
    stack.engine.wait_ready()
    for actor in ("bad", "worse"):
        assert decide(stack, actor).json["rule"] == "actor:suspended"
    assert decide(stack, "good").json["decision"] == "allow"
    stack.engine.stop()


def test_a_crash_in_the_middle_of_a_takeover_begins_again(fresh, between):
    stack = fresh(engine=["--node", "first", "--reactors", "3"])
    proxy = between(stack)
    stack.make_first_keys()
    stack.platform.start()
    count = 1700
    with sqlite3.connect(stack.data / "platform.db", timeout=30) as store:
        store.executemany("INSERT INTO suspensions (tenant_id, actor, suspended_at, suspended_by, event_id) VALUES ('default', ?, ?, 'carol', ?)",
                          [(f"bot-{i}", 1700000000000 + i, f"evt_01{i:024}") for i in range(count)])
    store.close()
    stack.policy("base", BASE_POLICY, wait=False)
    proxy.held_from = 2
    stack.engine.start(ready=False)

    def suspended():
        return stack.engine.is_listening() and proxy.asked == 2 and stack.metrics(stack.engine).get("writ_engine_actors_suspended")
    eventually(lambda: suspended() == 1000, "two pages are recorded, and the third is awaited")
    assert "taken over" in why_not_ready(stack)
    assert_nobody_is_let_in(stack)
    stack.engine.kill()
    proxy.held_from = None
    proxy.release.set()
    stack.engine.start()
    assert proxy.asked >= 2 + 4, "from the first page on"
    for i in (0, 499, 500, 999, 1000, 1499, 1500, 1699):
        assert decide(stack, f"bot-{i}").json["rule"] == "actor:suspended", i
    assert decide(stack, "bot-1700").json["decision"] == "allow"
    assert call(stack, "GET", "/v1/actors?limit=1", "admin").json["total"] == count
    stack.wait_published()
    with sqlite3.connect(stack.data / "platform.db") as store:
        ((records, actors),) = store.execute("SELECT count(*), count(DISTINCT actor) FROM records WHERE kind = 'actor.suspended'")
    store.close()
    assert (records, actors) == (count, count), "each is recorded once"
    stack.engine.stop()
