"""Sessions: people who signed in with a browser, what their cookie may do, and what an engine believes of it."""

import base64
import hashlib
import sqlite3
import time

import pytest

import harness
from browser import Browser
from forge import Forge, encode, new_id
from queues import AGENT, queue  # noqa: F401
from test_contract import refused
from wire import Wire


@pytest.fixture
def person(queue):
    """Signs somebody in at the shared platform: (key, **members) -> Browser."""
    opened = []

    def sign_in(key, **members):
        browser = Browser(queue.stack.platform.address)
        opened.append(browser)
        reply = browser.sign_in(key, **members)
        assert reply.status == 201, reply
        return browser

    yield sign_in
    for one in opened:
        one.wire.close()


# ---- signing in and out ----

def test_a_person_signs_in_and_out(queue, person):
    carol = person(queue.carol)
    told = carol.session
    assert (told["person"], told["tenant_id"], told["roles"], told["proof"]) == ("carol", queue.tenant.name, ["reviewer"], "key")
    assert told["key_id"] == "key_" + queue.carol[3:29]
    reply = carol.get("/api/v1/session")
    assert reply.status == 200 and reply.header("Cache-Control") == "no-store"
    assert {**reply.json, "idle_ends_at": 0} == {**told, "idle_ends_at": 0}

    (listed,) = carol.get("/api/v1/sessions").json["sessions"]
    assert (listed["id"], listed["current"], listed["client_address"]) == (told["id"], True, "127.0.0.1")
    reply = carol.request("DELETE", "/api/v1/session")
    assert reply.status == 200 and reply.json == {"ended": True, "id": told["id"]}
    assert reply.header("Set-Cookie").startswith(carol.cookie.split("=")[0] + "=;") and "Max-Age=0" in reply.header("Set-Cookie")
    refused(carol.get("/api/v1/session"), 401, "session_ended")

    started, ended = queue.tenant.events(kind="session.started") + queue.tenant.events(kind="session.ended")
    for event in (started, ended):
        assert (event["user_id"], event["proof"], event["resource"]) == ("carol", "key", {"id": told["id"], "type": "session"})
        assert (event["actor"], event["client_address"]) == ("carol-laptop", "127.0.0.1")


def test_the_cookie_is_only_for_this_host_and_no_script(queue):
    proxied = [("writ.example", "https://writ.example", "__Host-writ", True), ("writ.example:8443", "https://writ.example:8443", "__Host-writ", True),
               ("writ.example", "https://WRIT.example:443", "__Host-writ", True), ("localhost:1", "http://localhost:1", "writ-session", False),
               ("[::1]:1", "http://[::1]:1", "writ-session", False), ("localhost", "https://localhost", "__Host-writ", True)]
    for host, origin, name, is_secure in proxied:
        with Browser(queue.stack.platform.address, origin, host) as browser:
            reply = browser.sign_in(queue.carol)
            assert reply.status == 201, (host, reply)
            given, *attributes = reply.header("Set-Cookie").split("; ")
            assert given.split("=")[0] == name and len(given.split("=")[1]) == 43
            assert sorted(attributes) == sorted(["Path=/", "HttpOnly", "SameSite=Strict", *(["Secure"] if is_secure else [])]), (host, attributes)
            assert browser.get("/api/v1/session").status == 200, host


def test_the_store_has_no_cookie(fresh):
    stack = fresh().start()
    with Browser(stack.platform.address) as browser:
        assert browser.sign_in(stack.keys["admin"]).status == 201
    value = browser.cookie.split("=")[1]
    stack.platform.stop()
    (row,) = rows(stack, "SELECT hash FROM sessions")
    assert row == (hashlib.sha256(value.encode()).hexdigest(),)
    for path in stack.folder.rglob("*"):
        if path.is_file():
            assert value.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("body, status, code, field", [
    ({}, 400, "missing_member", "/key"), ({"key": 5}, 400, "wrong_type", "/key"), ({"key": "wk_x"}, 401, "unauthenticated", "/key"),
    ({"key": "", "person": "carol"}, 401, "unauthenticated", "/key"), ({"key": "$carol", "person": "dan"}, 403, "wrong_reviewer", "/person"),
    ({"key": "$carol", "person": 5}, 400, "wrong_type", "/person"), ({"key": "$carol", "role": "admin"}, 400, "unknown_member", "/role"),
])
def test_a_sign_in_is_refused(queue, body, status, code, field):
    body = {name: queue.carol if value == "$carol" else value for name, value in body.items()}
    with Browser(queue.stack.platform.address) as browser:
        reply = browser.post("/api/v1/session", body)
        refused(reply, status, code, field)
        assert reply.header("Set-Cookie") is None


def test_a_key_that_may_name_others_signs_one_person_in(queue, person):
    dan = person(queue.rita, person="dan@acme")
    assert dan.session["person"] == "dan@acme"
    review = queue.ask("pay", actor="bot")["review_id"]
    refused(dan.post(f"/v1/queue/{review}/approve", {"resolved_by": "carol"}), 403, "wrong_reviewer", "/resolved_by")
    done = dan.post(f"/v1/queue/{review}/deny", {"note": "no"})
    assert done.status == 200 and done.json["resolved_by"] == "dan@acme"


def test_one_more_session_than_a_person_may_have_ends_the_oldest(queue, person):
    key = queue.tenant.key("many", ["reviewer"])
    first = person(key)
    time.sleep(0.002)  # two sessions of one millisecond have no order
    others = [person(key) for _ in range(20)]
    refused(first.get("/api/v1/session"), 401, "session_ended")
    assert [one.get("/api/v1/session").status for one in others] == [200] * 20
    listed = others[0].get("/api/v1/sessions").json["sessions"]
    assert len(listed) == 20 and sum(one["current"] for one in listed) == 1
    gone = others[-1].session["id"]
    assert others[0].request("DELETE", f"/api/v1/sessions/{gone}").json == {"ended": True, "id": gone}
    refused(others[-1].get("/api/v1/session"), 401, "session_ended")
    carol = person(queue.carol)
    refused(carol.request("DELETE", f"/api/v1/sessions/{others[0].session['id']}"), 404, "not_found")
    assert others[0].get("/api/v1/session").status == 200


# ---- what a session may do ----

def test_a_session_has_the_roles_of_its_key_on_both_programs(queue, person):
    admin, carol = person(queue.tenant.admin), person(queue.carol)
    with queue.stack.at_platform(queue.tenant.admin) as wire:
        for path in ("/api/v1/policies", "/api/v1/keys", "/v1/actors", "/v1/tokens"):
            own, through = wire.get(path), admin.get(path)
            assert (through.status, through.json) == (own.status, own.json) and own.status == 200, path
    for path in ("/api/v1/policies", "/api/v1/keys", "/v1/actors"):
        refused(carol.get(path), 403, "missing_role")
    assert carol.get("/v1/queue/pending").status == 200
    refused(carol.get("/v1/queue?tenant_id=default"), 403, "wrong_tenant")
    assert admin.post("/v1/actors/bot/suspend", {"reason": "test"}).status == 200
    assert queue.ask("get_x", actor="bot")["decision"] == "deny"
    assert admin.post("/v1/actors/bot/resume").status == 200
    made = admin.request("PUT", "/api/v1/policies/more", {"content": "rules: [{id: a, actions: [x], decision: deny}]"})
    assert made.status == 201, made


def test_a_vote_of_a_session_says_so(queue, person):
    asked = {"action": "pay", "actor": "bot"}
    review = queue.ask(**asked)["review_id"]
    carol = person(queue.carol)
    done = carol.post(f"/v1/queue/{review}/approve", {"note": "seen"})
    assert done.status == 200, done
    (vote,) = done.json["approvals"]
    assert (vote["resolved_by"], vote["proof"], vote["key_id"], vote["note"]) == ("carol", "key", carol.session["key_id"], "seen")
    queue.stack.wait_published()
    (event,) = queue.tenant.events(kind="review.approved")
    assert (event["proof"], event["resolved_by"]) == ("key", "carol")
    assert queue.redeem(review, asked).json["decision"] == "allow"

    review = queue.ask("refund", actor="bot")["review_id"]
    assert queue.approve(review).json["approvals"][0]["proof"] == "owner"
    assert person(queue.rita).post(f"/v1/queue/{review}/revoke").json["status"] == "cancelled"
    queue.stack.wait_published()
    (event,) = queue.tenant.events(kind="review.cancelled")
    assert (event["proof"], event["resolved_by"]) == ("key", "rita")


def test_a_session_waits_for_a_review(queue, person):
    review = queue.ask("pay", actor="bot")["review_id"]
    carol = person(queue.carol)
    assert carol.get(f"/v1/queue/{review}/wait?timeout_ms=1").json["status"] == "pending"
    queue.deny(review, queue.carol)
    assert carol.get(f"/v1/queue/{review}/wait?timeout_ms=60000").json["status"] == "denied"


def test_the_requester_cannot_approve_its_own_request_in_a_browser(queue, person):
    both = queue.tenant.key("both", ["agent", "reviewer"], actors=["*"])
    with queue.stack.at_engine(both) as wire:
        review = wire.post(AGENT, {"action": "refund", "actor": "bot"}).json["review_id"]
    refused(person(both).post(f"/v1/queue/{review}/approve"), 403, "self_review")


def test_a_session_of_another_tenant_sees_no_review(queue, person, stack):
    review = queue.ask("pay", actor="bot")["review_id"]
    other = stack.key(f"other-{queue.tenant.name}", ["reviewer"], reviewers=["*"])
    stranger = person(other)
    for outcome in ("approve", "deny"):
        refused(stranger.post(f"/v1/queue/{review}/{outcome}"), 404, "not_found")
        refused(stranger.post(f"/v1/queue/{review}/{outcome}?tenant_id={queue.tenant.name}"), 403, "wrong_tenant")
        refused(stranger.post(f"/v1/queue/{review}/{outcome}", {"tenant_id": queue.tenant.name}), 403, "wrong_tenant")
    assert queue.get(review).json["status"] == "pending"


def test_a_credential_goes_before_the_cookie(queue, person):
    carol = person(queue.carol)
    assert carol.get("/api/v1/keys", Authorization=f"Bearer {queue.tenant.admin}").status == 200
    refused(carol.get("/api/v1/keys", Authorization="Bearer wk_wrong"), 401, "unauthenticated")


def test_many_requests_wait_for_one_lookup(queue, person):
    carol = person(queue.carol)
    wires = [Wire(queue.stack.platform.address) for _ in range(40)]
    ask = wires[0].encode("GET", "/api/v1/session", headers={"Host": carol.host, "Cookie": carol.cookie})
    body = wires[0].encode("POST", "/v1/queue/rev_x/approve", '{"note": "x"' + " " * 9000 + "}", headers={
        "Host": carol.host, "Cookie": carol.cookie, "Origin": carol.origin, "Writ-CSRF-Token": carol.token})
    for round_ in range(2):
        for number, wire in enumerate(wires):
            wire.send((body if number % 3 == 2 else ask) * 2)  # the second waits behind the first
        for number in range(20, 40):
            wires[number].close()  # gone, perhaps while it waits
        for number, wire in enumerate(wires[:20]):
            assert [wire.read_reply().status for _ in range(2)] == [404 if number % 3 == 2 else 200] * 2
    for wire in wires:
        wire.close()


# ---- what pages of other sites, and changed cookies, cannot do ----

def altered(text):
    """Another value of the same form: the last character has two bits that count for nothing."""
    return text[:-2] + ("AA" if text[-2] != "A" else "EA")


ALTERED = [
    ("altered", {"Cookie": lambda b: altered(b.cookie)}, 403, "wrong_csrf_token"),
    ("short", {"Cookie": lambda b: b.cookie[:-1]}, 401, "session_ended"),
    ("empty", {"Cookie": lambda b: b.cookie.split("=")[0] + "="}, 401, "session_ended"),
    ("twice", {"Cookie": lambda b: f"{b.cookie}; {b.cookie}"}, 401, "session_ended"),
    ("no origin", {"Origin": lambda b: None}, 403, "wrong_origin"),
    ("null origin", {"Origin": lambda b: "null"}, 403, "wrong_origin"),
    ("another port", {"Origin": lambda b: b.origin + "1"}, 403, "wrong_origin"),
    ("another site", {"Origin": lambda b: "https://evil.example"}, 403, "wrong_origin"),
    ("a site whose name begins so", {"Origin": lambda b: b.origin + ".evil.example"}, 403, "wrong_origin"),
    ("a user in it", {"Origin": lambda b: b.origin.replace("//", "//127.0.0.1@")}, 403, "wrong_origin"),
    ("no token", {"Writ-CSRF-Token": lambda b: None}, 403, "wrong_csrf_token"),
    ("altered token", {"Writ-CSRF-Token": lambda b: altered(b.token)}, 403, "wrong_csrf_token"),
    ("token in the cookie's place", {"Writ-CSRF-Token": lambda b: b.cookie.split("=")[1]}, 403, "wrong_csrf_token"),
    ("cross-site by its own word", {"Sec-Fetch-Site": lambda b: "cross-site"}, 403, "wrong_origin"),
    ("chunked", {"Transfer-Encoding": lambda b: "chunked", "Content-Length": lambda b: None}, 400, "bad_header"),
]


@pytest.mark.parametrize("what, headers, status, code", ALTERED, ids=[one[0] for one in ALTERED])
def test_a_post_is_refused(queue, person, what, headers, status, code):
    review = queue.ask("pay", actor="bot")["review_id"]
    carol = person(queue.carol)
    body = b"2\r\n{}\r\n0\r\n\r\n" if what == "chunked" else {}
    refused(carol.post(f"/v1/queue/{review}/approve", body, **{name: make(carol) for name, make in headers.items()}), status, code)
    assert queue.get(review).json["status"] == "pending"
    assert carol.post(f"/v1/queue/{review}/approve").status == 200, "nothing else was wrong"


def test_the_token_of_another_session_is_refused(queue, person):
    carol, again = person(queue.carol), person(queue.carol)
    assert carol.token != again.token
    refused(carol.request("DELETE", "/api/v1/session", Writ_CSRF_Token=again.token), 403, "wrong_csrf_token")
    refused(carol.get("/api/v1/session", Cookie=altered(carol.cookie)), 401, "session_ended")
    refused(carol.get("/api/v1/session", Sec_Fetch_Site="cross-site"), 403, "wrong_origin")
    assert carol.get("/api/v1/session", Sec_Fetch_Site="same-origin").status == 200


@pytest.mark.parametrize("host, origin", [("writ.example", "http://writ.example"), ("10.0.0.5:9090", "http://10.0.0.5:9090"), ("writ.example", "https://evil.example"),
                                          ("writ.example", None), ("writ.example", "null"), ("127.0.0.1.evil.example", "http://127.0.0.1.evil.example"),
                                          ("localhost", "http://localhost:9")])
def test_nobody_signs_in_from_an_unsafe_page(queue, host, origin):
    with Browser(queue.stack.platform.address, host=host) as browser:
        reply = browser.post("/api/v1/session", {"key": queue.carol}, Origin=origin)
        refused(reply, 403, "wrong_origin")
        assert reply.header("Set-Cookie") is None


def test_the_cookie_without_secure_counts_on_this_machine_only(queue, person):
    if harness.OVER_TLS:
        pytest.skip("SKIP: over TLS there is no such cookie")
    carol = person(queue.carol)
    assert carol.cookie.startswith("writ-session=")
    assert carol.get("/api/v1/session").status == 200
    refused(carol.get("/api/v1/session", Host="writ.example"), 401, "unauthenticated")


def test_public_url_is_the_only_origin(fresh):
    stack = fresh(platform=["--public_url", "https://writ.example/base"]).start()
    with Browser(stack.platform.address, "https://writ.example", "127.0.0.1") as browser:
        assert browser.sign_in(stack.keys["admin"]).status == 201
        assert browser.get("/api/v1/session").status == 200
        for origin in ("https://127.0.0.1", "http://127.0.0.1", "http://writ.example", "https://writ.example:444"):
            refused(browser.post("/v1/actors/bot/suspend", Origin=origin), 403, "wrong_origin")
    stack.platform.stop()
    for wrong in ("http://writ.example", "writ.example", "ftp://writ.example", "https://a@b", "https://"):
        done = stack.platform.arguments[:]
        stack.platform.arguments = [*done, "--public_url", wrong]
        stack.platform.start(ready=False)
        assert stack.platform.wait() != 0
        assert "must be https://host" in stack.platform.tail()
        stack.platform.arguments = done


# ---- the end of a session ----

def rows(stack, sql, *values):
    with sqlite3.connect(stack.data / "platform.db", timeout=30) as store:
        found = store.execute(sql, values).fetchall()
    store.close()
    return found


def test_a_revoked_key_ends_its_sessions_at_once(queue, person):
    key = queue.tenant.key("leaver", ["reviewer"])
    leaver, admin = person(key), person(queue.tenant.admin)
    assert leaver.get("/api/v1/session").status == 200
    assert admin.request("DELETE", f"/api/v1/keys/{leaver.session['key_id']}").status == 200
    refused(leaver.get("/api/v1/session"), 401, "session_ended")
    refused(leaver.get("/v1/queue"), 401, "session_ended")
    with Browser(queue.stack.platform.address) as browser:
        refused(browser.sign_in(key), 401, "credential_revoked", "/key")


def test_a_session_goes_on_after_a_restart_and_ends_by_its_time(fresh):
    stack = fresh().start()
    browsers = [Browser(stack.platform.address) for _ in range(3)]
    for browser in browsers:
        assert browser.sign_in(stack.keys["admin"]).status == 201
    going, idle, over = browsers
    stack.platform.kill()
    now = int(time.time() * 1000)
    rows(stack, "UPDATE sessions SET seen_at = ? WHERE id = ?", now - 30 * 60000, idle.session["id"])
    rows(stack, "UPDATE sessions SET expires_at = ? WHERE id = ?", now, over.session["id"])
    stack.platform.start()
    assert going.get("/api/v1/session").json["id"] == going.session["id"]
    assert going.get("/v1/actors").status == 200
    for one in (idle, over):
        assert "by its time" in refused(one.get("/api/v1/session"), 401, "session_ended")["error"]
        refused(one.get("/v1/actors"), 401, "session_ended")
    assert [one["id"] for one in going.get("/api/v1/sessions").json["sessions"]] == [going.session["id"]]
    for browser in browsers:
        browser.wire.close()


def test_background_requests_are_no_use_of_a_session(fresh):
    stack = fresh().start()
    with Browser(stack.platform.address) as browser:
        assert browser.sign_in(stack.keys["admin"]).status == 201
        long_ago = int(time.time() * 1000) - 20 * 60000
        stack.platform.stop()
        rows(stack, "UPDATE sessions SET seen_at = ?", long_ago)
        stack.platform.start()
        assert browser.get("/api/v1/session", Writ_Background="1").status == 200
        assert browser.get("/api/v1/session").status == 200
        harness.eventually(lambda: rows(stack, "SELECT seen_at FROM sessions")[0][0] > long_ago, "the use is written")
        stack.platform.stop()
        rows(stack, "UPDATE sessions SET seen_at = ?", long_ago)
        stack.platform.start()
        assert browser.get("/api/v1/session", Writ_Background="1").status == 200
        stack.platform.stop()  # which writes what it still has to
        assert rows(stack, "SELECT seen_at FROM sessions") == [(long_ago,)]


def test_two_platforms_share_sessions(fresh):
    stack = fresh().start()
    second = harness.Program("writ-platform", harness.free_port(), [], stack.folder / "second.log")
    second.arguments = ["--data", str(stack.data), "--listen", f"127.0.0.1:{second.port}", "--engine.url", stack.engine.url]
    try:
        second.start()
        with Browser(stack.platform.address) as here, Browser(second.address) as there:
            assert here.sign_in(stack.keys["admin"]).status == 201
            there.cookie, there.token = here.cookie, here.token
            assert there.get("/api/v1/session").json["id"] == here.session["id"]
            assert there.post("/v1/actors/bot/suspend").status == 200
            assert there.request("DELETE", "/api/v1/session").status == 200
            harness.eventually(lambda: here.get("/api/v1/session").status == 401, "the sign-out holds on the other platform", seconds=10)
    finally:
        second.end()


def test_sign_in_with_a_key_can_be_switched_off(fresh):
    stack = fresh(platform=["--session.by_key", "false"]).start()
    with Browser(stack.platform.address) as browser:
        assert "session.by_key" in refused(browser.sign_in(stack.keys["admin"]), 403, "missing_role")["error"]


# ---- assertions: what an engine believes ----

@pytest.fixture
def forge(queue):
    return Forge(queue)


def test_an_assertion_is_for_one_call(queue, forge):
    review, other = (queue.ask("pay", actor=actor)["review_id"] for actor in ("bot", "bob"))
    approve, deny = f"/v1/queue/{review}/approve", f"/v1/queue/{review}/deny"
    made = forge.make("POST", deny)
    for method, target in (("POST", approve), ("POST", f"/v1/queue/{other}/deny"), ("POST", f"/v1/queue/{other}/approve"), ("GET", f"/v1/queue/{review}"),
                           ("POST", deny + "?tenant_id=" + queue.tenant.name)):
        told = refused(forge.send(made, method, target), 401, "assertion_refused")
        assert "another request" in told["error"]
    assert queue.get(review).json["status"] == queue.get(other).json["status"] == "pending"
    assert forge.send(made, "POST", deny).json["status"] == "denied"
    told = refused(forge.send(made, "POST", deny), 401, "assertion_refused")
    assert "used already" in told["error"]
    read = forge.make("GET", f"/v1/queue/{review}")
    assert forge.send(read, "GET", f"/v1/queue/{review}").status == 200
    refused(forge.send(read, "GET", f"/v1/queue/{review}"), 401, "assertion_refused")


OLD = [
    ("older than a minute", {"made_at": lambda: int(time.time() * 1000) - 61000}, 401, "assertion_refused"),
    ("of the future", {"made_at": lambda: int(time.time() * 1000) + 30000}, 401, "assertion_refused"),
    ("of another tenant", {"tenant": lambda: "default"}, 401, "credential_revoked"),
    ("of every tenant", {"tenant": lambda: "*"}, 401, "credential_revoked"),
    ("of another person", {"person": lambda: "dan"}, 401, "credential_revoked"),
    ("of an unknown key", {"key": lambda: new_id("key_")}, 401, "credential_revoked"),
    ("without the role", {"roles": lambda: 0}, 403, "missing_role"),
    ("with a role that the key has not", {"roles": lambda: 16}, 403, "missing_role"),
    ("with a role that no key has", {"roles": lambda: 260}, 401, "unauthenticated"),
    ("with a key and another proof", {"proof": lambda: "oidc"}, 401, "unauthenticated"),
    ("with an unknown proof", {"proof": lambda: "owner"}, 401, "unauthenticated"),
    ("without its key", {"key": lambda: None}, 401, "unauthenticated"),
    ("with a key and claims", {"claims": lambda: [["groups", "finance"]]}, 401, "unauthenticated"),
    ("of an earlier format", {"form": lambda: "wa1."}, 401, "unauthenticated"),
    ("without a person", {"person": lambda: None}, 401, "unauthenticated"),
    ("made by an ordinary key", {"secret": lambda: b"$agent"}, 401, "unauthenticated"),
    ("made with the pepper itself", {"secret": lambda: b"$pepper"}, 401, "unauthenticated"),
]


@pytest.mark.parametrize("what, claims, status, code", OLD, ids=[one[0] for one in OLD])
def test_an_engine_refuses_an_assertion(queue, forge, what, claims, status, code):
    review = queue.ask("pay", actor="bot")["review_id"]
    target = f"/v1/queue/{review}/approve"
    made = {name: make() for name, make in claims.items()}
    if "secret" in made:
        known = {b"$agent": queue.stack.keys["engine"].encode(), b"$pepper": bytes.fromhex((queue.stack.data / "pepper").read_text().strip())}
        made["secret"] = known[made["secret"]]
    refused(forge.send(forge.make("POST", target, **made), "POST", target), status, code)
    assert queue.get(review).json["status"] == "pending"
    assert forge.send(forge.make("POST", target), "POST", target).status == 200, "nothing else was wrong"


def test_a_changed_assertion_is_refused(queue, forge):
    review = queue.ask("pay", actor="bot")["review_id"]
    target = f"/v1/queue/{review}/approve"
    made = forge.make("POST", target)
    head, claims, mac = made.split(".")
    more = encode(base64.urlsafe_b64decode(claims + "==").replace(b'"roles": 4', b'"roles": 132'))
    for wrong in (f"{head}.{more}.{mac}", f"{head}.{claims}.{altered(mac)}", f"{head}.{claims}", f"{head}..{mac}", f"{head}.{claims}.{mac}.{mac}", "wa1.", "wa1." + "." * 60):
        refused(forge.send(wrong, "POST", target), 401, "unauthenticated")
    assert queue.get(review).json["status"] == "pending"


def test_an_assertion_is_no_credential_for_the_platform(queue, forge):
    made = forge.make("GET", "/api/v1/policies", key="key_" + queue.tenant.admin[3:29], person="admins-owner", roles=128)
    with queue.stack.at_platform(made) as wire:
        refused(wire.get("/api/v1/policies"), 401, "unauthenticated")
    refused(forge.send(made, "GET", "/api/v1/policies"), 401, "unauthenticated")


def test_a_resolved_review_takes_no_other_vote_of_the_same_person(queue, forge):
    """A second assertion, well made, for the same vote: it is answered as the first, and counts once."""
    review = queue.ask("launch", actor="bot")["review_id"]
    target = f"/v1/queue/{review}/approve"
    for _ in range(2):
        done = forge.send(forge.make("POST", target), "POST", target)
        assert done.status == 200 and len(done.json["approvals"]) == 1 and done.json["status"] == "pending"
    refused(forge.send(forge.make("POST", target), "POST", target, {"resolved_by": "rita"}), 403, "wrong_reviewer", "/resolved_by")


def test_an_engine_that_started_since_refuses_older_assertions(fresh):
    stack = fresh().start()
    forge, target = Forge.of(stack, "default", stack.keys["admin"]), "/v1/actors/bot/suspend"

    def make():
        return forge.make("POST", target, person="admin-owner", roles=128)

    def send(one):
        return forge.send(one, "POST", target, {})

    used, kept = make(), make()
    assert send(used).status == 200
    stack.engine.kill()
    stack.engine.start()
    for one in (used, kept):
        assert "before this engine started" in refused(send(one), 401, "assertion_refused")["error"]
    assert send(make()).status == 200


# ---- ends that others decide ----

def test_a_sign_in_ends_the_session_that_the_browser_had(queue, person):
    carol = person(queue.carol)
    old, first = carol.cookie, carol.session["id"]
    assert carol.sign_in(queue.rita, person="dan").status == 201 and carol.session["id"] != first
    refused(carol.get("/api/v1/session", Cookie=old), 401, "session_ended")
    assert carol.get("/api/v1/session").json["person"] == "dan"
    ended = [event for event in queue.tenant.events(kind="session.ended") if event["resource"]["id"] == first]
    assert [event["user_id"] for event in ended] == ["carol"]


def test_an_administrator_ends_the_sessions_of_a_person(queue, person):
    leaver = [person(queue.rita, person="leaver") for _ in range(2)]
    other, admin = person(queue.rita, person="dan"), person(queue.tenant.admin)
    refused(other.request("DELETE", "/api/v1/sessions?person=leaver"), 403, "missing_role")
    refused(admin.request("DELETE", "/api/v1/sessions"), 400, "bad_parameter")
    refused(admin.request("DELETE", "/api/v1/sessions?person=leaver&tenant_id=default"), 403, "wrong_tenant")
    assert admin.request("DELETE", "/api/v1/sessions?person=nobody").json == {"ended": 0, "person": "nobody"}
    assert admin.request("DELETE", "/api/v1/sessions?person=leaver").json == {"ended": 2, "person": "leaver"}
    for one in leaver:
        refused(one.get("/api/v1/session"), 401, "session_ended")
    assert other.get("/api/v1/session").status == 200


def test_every_answer_has_the_headers_that_browsers_need(queue, person):
    carol = person(queue.carol)
    for method, path in (("GET", "/healthz"), ("GET", "/api/v1/session"), ("GET", "/nowhere"), ("PUT", "/healthz"), ("GET", "/v1/queue"), ("GET", "/console/"), ("GET", "/%")):
        reply = carol.request(method, path)
        assert (reply.header("X-Content-Type-Options"), reply.header("Referrer-Policy")) == ("nosniff", "no-referrer"), (path, reply.headers)
        policy = reply.header("Content-Security-Policy")
        for part in ("default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"):
            assert part in policy, (path, policy)
        assert reply.header("Strict-Transport-Security") == ("max-age=31536000; includeSubDomains" if harness.OVER_TLS else None)
