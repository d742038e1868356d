"""Sign-in at an identity provider: what binds it to one browser, whom the platform believes, and what a session may then do.

One platform, one engine and one lying provider (identity.py) for the file. A certified provider, in Chromium, is at the end.
"""

import hmac
import json
import os
import sqlite3
import struct
import time
import urllib.parse

import pytest

import canonical
import chromium
import harness
import identity
import provider
from browser import Browser
from test_contract import refused
from test_sessions import altered

POLICY = """
roles:
  finance: {people: [dan], claims: {groups: [finance]}}
rules:
  - {id: refunds, agents: ["*"], actions: [refund], decision: human_review, review: {by: [finance], proof: oidc}}
  - {id: pays, agents: ["*"], actions: [pay], decision: human_review, review: {by: [finance]}}
  - {id: two, agents: ["*"], actions: [launch], decision: human_review, review: {by: [finance], approvals: 2}}
"""

CONSOLE = "../../../../../console/"
PICTURES = os.environ.get("WRIT_SCREENSHOTS") == "1"


class Writ:
    """A stack whose people sign in at `provider`; `other` is a second provider."""

    def __init__(self, folder):
        self.provider, self.other = identity.Provider(folder / "partners"), identity.Provider(folder / "contractors")
        self.stack = harness.Stack(folder / "stack")
        platform = self.stack.platform
        # for a browser, localhost is another site than 127.0.0.1, where the providers are
        self.url = f"{'https' if platform.secure else 'http'}://localhost:{platform.address[1]}"
        self.certified = self.certify(folder)
        self.names = [*(["corp"] if self.certified else []), "partners", "contractors"]
        platform.arguments += ["--public_url", self.url + "/", *self.options("partners", self.provider), *self.options("contractors", self.other)]
        self.stack.start()
        with self.browser() as browser:
            harness.eventually(lambda: all(one["available"] for one in browser.get("/api/v1/session/providers").json["providers"]), "the providers were read")
        self.stack.policy("payments", POLICY)
        self.stack.keys["dan"] = self.stack.key("dans-key", ["reviewer"], owner="dan")

    def certify(self, folder):
        """The certified provider, before the others; None if it is not installed."""
        if not (harness.TOP / "build/clients/oidc/node_modules").exists():
            return None
        people = {name: {"email": f"{name}@corp.example", "email_verified": True, "groups": groups}
                  for name, groups in (("carol", ["finance"]), ("mallory", ["staff"]))}
        one = provider.Provider(folder, users=people, redirect_uris=[f"{self.url}/api/v1/session/oidc/corp/callback"],
                                post_logout_redirect_uris=[f"{self.url}/console/"])
        options = {**one.options("corp"), "oidc.corp.tenant": "default", "oidc.corp.roles.reviewer": "finance"}
        self.stack.platform.arguments += [text for name, value in options.items() for text in (f"--{name}", value)]
        return one

    @staticmethod
    def options(name, provider):
        settings = {"issuer": provider.issuer, "client_id": provider.client, "client_secret_file": provider.secret_file, "insecure_loopback": "true",
                    "person_claim": "preferred_username", "tenant_claim": "org", "claims": "groups", "roles_claim": "groups",
                    "roles.reviewer": "finance,board", "roles.auditor": "board", "roles.admin": "board"}
        return [text for key, value in settings.items() for text in (f"--oidc.{name}.{key}", str(value))]

    def close(self):
        self.stack.close()
        self.provider.close()
        self.other.close()
        if self.certified:
            self.certified.stop()

    def browser(self):
        return Browser(self.stack.platform.address, origin=self.url, host=self.url.split("//")[1])

    def rows(self, sql, *values):
        with sqlite3.connect(self.stack.data / "platform.db", timeout=30) as store:
            found = store.execute(sql, values).fetchall()
        store.close()
        return found

    def ask(self, action, **members):
        with self.stack.at_engine() as wire:
            reply = wire.post("/v1/agent/authorize", {"actor": "bot", "action": action, **members})
        assert reply.json["decision"] == "human_review", reply
        return reply.json["review_id"]

    def status(self, review):
        with self.stack.at_engine("dan") as wire:
            return wire.get(f"/v1/queue/{review}").json

    def flow_cookie(self, name, made_at, secret=bytes(32), replaces=bytes(32)):
        """As a platform makes it: for a time that has passed."""
        key = canonical.derived_key((self.stack.data / "pepper").read_text(), "writ sign-ins by identity providers 1")
        body = secret + replaces + struct.pack(">Q", made_at)

        def value(purpose):
            return hmac.digest(key, purpose.encode() + b"\0" + name.encode() + b"\0" + body, "sha256")
        return identity.encode(body + value("cookie")), identity.encode(value("state"))


@pytest.fixture(scope="module")
def writ(tmp_path_factory):
    one = Writ(tmp_path_factory.mktemp("oidc"))
    yield one
    log = one.stack.platform.log.read_text() + one.stack.engine.log.read_text()
    leaked = [secret for provider in (one.provider, one.other) for secret in provider.secrets() if secret in log]
    one.close()
    assert not leaked, "a code, token or secret is in a log"


@pytest.fixture
def browser(writ):
    with writ.browser() as one:
        yield one


def word(reply):
    """The refusal, as the page gets it."""
    assert reply.status == 303 and not [name for name in reply.cookies if "flow" not in name], (reply, reply.headers)
    assert reply.header("Cache-Control") == "no-store" and reply.header("Referrer-Policy") == "no-referrer"
    place, found = reply.header("Location").split("#/sign-in/")
    assert place == CONSOLE
    return found


# ---- signing in and out ----

def test_a_person_signs_in_and_out(writ, browser):
    url = browser.begin()
    asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))
    assert asked["redirect_uri"] == f"{writ.url}/api/v1/session/oidc/partners/callback"
    assert len({asked[name] for name in ("state", "nonce", "code_challenge")}) == 3
    answer = writ.provider.consent(url, "carol", groups=["finance", "staff"])
    reply = browser.come_back(answer)
    assert (reply.status, reply.header("Location"), reply.body) == (303, CONSOLE, b"")
    (name,) = [one for one in reply.cookies if "flow" not in one]
    is_secure = writ.url.startswith("https")
    assert name == ("__Host-writ" if is_secure else "writ-session")
    assert sorted(reply.cookies[name][1]) == sorted(["Path=/", "HttpOnly", "SameSite=Strict", *(["Secure"] if is_secure else [])])
    session = browser.session
    assert (session["person"], session["tenant_id"], session["proof"], session["provider"], session["roles"]) == ("carol", "default", "oidc", "partners", ["reviewer"])
    assert "key_id" not in session
    (row,) = writ.rows("SELECT key_id, subject, claims FROM sessions WHERE id = ?", session["id"])
    assert row == ("", "sub-of-carol", '[["groups","finance"],["groups","staff"]]')
    assert [one["id"] for one in browser.get("/api/v1/sessions").json["sessions"]] == [session["id"]]
    reply = browser.request("DELETE", "/api/v1/session")
    end = urllib.parse.urlsplit(reply.json["end_session_url"])
    assert f"{end.scheme}://{end.netloc}{end.path}" == f"{writ.provider.issuer}/end"
    assert dict(urllib.parse.parse_qsl(end.query)) == {"client_id": "writ", "post_logout_redirect_uri": f"{writ.url}/console/"}
    refused(browser.get("/api/v1/session"), 401, "session_ended")
    for kind in ("session.started", "session.ended"):
        (event,) = [one for one in writ.stack.events(kind=kind) if one["resource"]["id"] == session["id"]]
        assert (event["actor"], event["user_id"], event["proof"]) == ("carol", "carol", "oidc") and "key_id" not in event
        assert event["reason"] == "identity provider partners, subject sub-of-carol"


def test_the_cookie_of_a_sign_in_is_lax_and_short(writ, browser):
    reply = browser.post("/api/v1/session/oidc/partners")
    ((name, (value, attributes)),) = reply.cookies.items()
    is_secure = writ.url.startswith("https")
    assert name == ("__Host-writ-flow" if is_secure else "writ-flow") and len(value) == 139
    assert sorted(attributes) == sorted(["Path=/", "HttpOnly", "SameSite=Lax", "Max-Age=600", *(["Secure"] if is_secure else [])])
    assert reply.header("Cache-Control") == "no-store"


def test_the_page_gets_the_ways(writ, browser):
    assert browser.get("/api/v1/session/providers").json == {"key": True, "providers": [{"available": True, "name": name} for name in writ.names]}
    refused(browser.post("/api/v1/session/oidc/nobody"), 404, "not_found")
    refused(browser.get("/api/v1/session/oidc/nobody/callback"), 404, "not_found")
    refused(browser.get("/api/v1/session/oidc/partners"), 405, "method_not_allowed")


# ---- answers that are not of this sign-in ----

def altered_cookie(browser, answer, writ):
    browser.flow = altered(browser.flow)


def no_cookie(browser, answer, writ):
    browser.flow = None


def two_cookies(browser, answer, writ):
    browser.flow = f"{browser.flow}; {browser.flow}"


def short_cookie(browser, answer, writ):
    browser.flow = browser.flow[:-1]


def cookie_of_another_provider(browser, answer, writ):
    browser.begin("contractors")


def another_browser(browser, answer, writ):
    browser.begin()


def old_cookie(browser, answer, writ):
    value, answer["state"] = writ.flow_cookie("partners", int(time.time() * 1000) - 601_000)
    browser.flow = f"{browser.flow.split('=')[0]}={value}"


def answer_with(**members):
    def change(browser, answer, writ):
        for name, value in members.items():
            if value is None:
                del answer[name]
            else:
                answer[name] = value(answer[name]) if callable(value) else value
    return change


FOREIGN = [
    ("without its cookie", no_cookie, "expired"), ("two cookies", two_cookies, "expired"), ("ten minutes later", old_cookie, "expired"),
    ("altered cookie", altered_cookie, "mismatch"), ("short cookie", short_cookie, "mismatch"), ("begun at another provider", cookie_of_another_provider, "mismatch"),
    ("begun in another browser", another_browser, "mismatch"), ("no state", answer_with(state=None), "mismatch"),
    ("altered state", answer_with(state=altered), "mismatch"), ("longer state", answer_with(state=lambda s: s + "A"), "mismatch"),
    ("wrong issuer", answer_with(iss="https://evil.example"), "mismatch"), ("no issuer", answer_with(iss=None), "mismatch"),
    ("no code", answer_with(code=None), "mismatch"), ("long code", answer_with(code="c" * 2049), "mismatch"), ("error", answer_with(error="access_denied"), "denied"),
    ("unknown code", answer_with(code="guessed"), "refused"),
]


@pytest.mark.parametrize("what, change, code", FOREIGN, ids=[one[0] for one in FOREIGN])
def test_an_answer_is_refused(writ, browser, what, change, code):
    answer = writ.provider.consent(browser.begin())
    exchanges, sessions = len(writ.provider.exchanges), writ.rows("SELECT count(*) FROM sessions")
    change(browser, answer, writ)
    assert word(browser.come_back(answer)) == code
    assert writ.rows("SELECT count(*) FROM sessions") == sessions
    if code != "refused":
        assert len(writ.provider.exchanges) == exchanges, "the provider was asked although the answer was foreign"


def test_a_state_given_twice_is_refused(writ, browser):
    answer = writ.provider.consent(browser.begin())
    assert word(browser.come_back(urllib.parse.urlencode(answer) + "&state=" + answer["state"])) == "mismatch"


def test_a_refused_answer_changes_no_session_and_is_recorded(writ, browser):
    browser.sign_in_at(writ.provider)
    before = browser.session["id"]
    answer = writ.provider.consent(browser.begin(), nonce="another")
    assert word(browser.come_back(answer)) == "refused"
    assert browser.get("/api/v1/session").json["id"] == before
    harness.eventually(lambda: any("key_id" not in one for one in writ.stack.events(kind="auth.failed")), "refused sign-ins are in the audit trail")


# ---- tokens that prove nothing ----

def of_another_key(writ):
    return lambda claims: identity.Key(writ.provider.folder, "stranger").sign(claims)


def of_a_key_with_the_same_name(writ):
    return lambda claims: identity.Key(writ.provider.folder, "liar").sign(claims, kid=writ.provider.signer.kid)


def unsigned(writ):
    def make(claims):
        head = identity.encode(json.dumps({"alg": "none", "typ": "JWT"}).encode())
        return f"{head}.{identity.encode(json.dumps(claims).encode())}."
    return make


def of_the_other_provider(writ):
    return lambda claims: writ.other.signer.sign({**claims, "iss": writ.other.issuer})


def now(seconds):
    return lambda: int(time.time()) + seconds


TOKENS = [
    ("wrong nonce", {"nonce": "another"}, None, "refused"), ("no nonce", {"nonce": None}, None, "refused"), ("another audience", {"aud": "another"}, None, "refused"),
    ("two audiences", {"aud": ["another", "writ"], "azp": "another"}, None, "refused"), ("another issuer", {"iss": "https://evil.example"}, None, "refused"),
    ("expired", {"exp": now(-120)}, None, "refused"), ("of the future", {"iat": now(300), "nbf": now(300)}, None, "refused"), ("without an end", {"exp": None}, None, "refused"),
    ("no subject", {"sub": None}, None, "refused"), ("of an unknown key", {}, of_another_key, "refused"), ("of a key with the same name", {}, of_a_key_with_the_same_name, "refused"),
    ("unsigned", {}, unsigned, "refused"), ("of another provider", {}, of_the_other_provider, "refused"),
    ("no role", {"groups": ["staff"]}, None, "identity"), ("no groups", {"groups": None}, None, "identity"), ("no person", {"preferred_username": None}, None, "identity"),
    ("empty person", {"preferred_username": ""}, None, "identity"), ("no tenant", {"org": None}, None, "identity"), ("every tenant", {"org": "*"}, None, "identity"),
    ("65 groups", {"groups": ["finance", *(f"group-{n}" for n in range(64))]}, None, "identity"),
    ("a long group", {"groups": ["finance", "g" * 257]}, None, "identity"), ("a long person", {"preferred_username": "p" * 1100}, None, "identity"),
]


@pytest.mark.parametrize("what, claims, make, code", TOKENS, ids=[one[0] for one in TOKENS])
def test_a_token_is_refused(writ, browser, what, claims, make, code):
    claims = {name: value() if callable(value) else value for name, value in claims.items()}
    sessions = writ.rows("SELECT count(*) FROM sessions")
    answer = writ.provider.consent(browser.begin(), make=make and make(writ), **claims)
    assert word(browser.come_back(answer)) == code
    assert writ.rows("SELECT count(*) FROM sessions") == sessions


def test_clocks_may_differ_a_little(writ, browser):
    browser.sign_in_at(writ.provider, iat=int(time.time()) + 30, exp=int(time.time()) + 30)
    with writ.browser() as late:
        late.sign_in_at(writ.provider, exp=int(time.time()) - 20)


def test_a_rotated_key_is_fetched_and_a_stale_one_is_no_longer_believed(writ, browser):
    old = writ.other.signer
    writ.other.rotate("second", keep=False)
    browser.sign_in_at(writ.other, name="contractors")
    assert browser.session["provider"] == "contractors"
    with writ.browser() as late:
        answer = writ.other.consent(late.begin("contractors"), make=old.sign)
        assert word(late.come_back(answer, "contractors")) == "refused"


# ---- once ----

def test_an_answer_counts_once(writ, browser):
    answer = writ.provider.consent(browser.begin())
    flow = browser.flow
    assert browser.come_back(answer).header("Location") == CONSOLE
    with writ.browser() as thief:
        thief.flow = flow
        assert word(thief.come_back(answer)) == "refused", "the provider takes a code once"
        writ.provider.is_forgetful = True
        try:
            thief.flow = flow
            assert word(thief.come_back(answer)) == "used", "and so do we, whatever the provider does"
            browser.request("DELETE", "/api/v1/session")
            thief.flow = flow
            assert word(thief.come_back(answer)) == "used", "after the sign-out, too"
        finally:
            writ.provider.is_forgetful = False


def test_no_session_is_fixed_or_left_behind(writ, browser):
    planted = "A" * 43
    browser.cookie = f"{'__Host-writ' if writ.url.startswith('https') else 'writ-session'}={planted}"
    browser.sign_in_at(writ.provider)
    assert planted not in browser.cookie
    first, old = browser.session["id"], browser.cookie
    browser.sign_in_at(writ.provider)
    assert browser.session["id"] != first and browser.cookie != old
    refused(browser.get("/api/v1/session", Cookie=old), 401, "session_ended")
    assert writ.rows("SELECT 1 FROM sessions WHERE id = ?", first) == []
    reply = browser.sign_in(writ.stack.keys["dan"])
    assert reply.status == 201 and [row[0] for row in writ.rows("SELECT person FROM sessions WHERE id = ?", browser.session["id"])] == ["dan"]


# ---- where it may begin, and where it may lead ----

@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Origin": None}, {"Origin": "null"}], ids=["another site", "none", "null"])
def test_no_other_page_begins_a_sign_in(writ, browser, headers):
    reply = browser.post("/api/v1/session/oidc/partners", **headers)
    refused(reply, 403, "wrong_origin")
    assert not reply.cookies


def test_it_leads_to_the_console_only(writ, browser):
    refused(browser.post("/api/v1/session/oidc/partners?return_to=https://evil.example"), 400, "unknown_parameter")
    reply = browser.post("/api/v1/session/oidc/partners", Host="evil.example")
    assert f"redirect_uri={urllib.parse.quote(writ.url, safe='')}%2Fapi" in reply.json["authorization_url"], "the Host counts for nothing"
    answer = writ.provider.consent(browser.begin())
    for extra in ("return_to", "redirect_uri", "next", "RelayState", "target_link_uri"):
        answer[extra] = "https://evil.example"
    assert browser.come_back(answer, Host="evil.example").header("Location") == CONSOLE


# ---- what a session may do ----

def test_a_verified_person_votes_where_a_rule_asks_for_one(writ, browser):
    review = writ.ask("refund")
    with writ.browser() as dan:
        assert dan.sign_in(writ.stack.keys["dan"]).status == 201
        told = refused(dan.post(f"/v1/queue/{review}/approve"), 403, "proof_required")
        assert "oidc" in told["error"] or "identity provider" in told["error"], told
    with writ.stack.at_engine("dan") as wire:
        refused(wire.post(f"/v1/queue/{review}/approve"), 403, "proof_required")
    assert writ.status(review)["status"] == "pending"
    browser.sign_in_at(writ.provider)
    done = browser.post(f"/v1/queue/{review}/approve", {"note": "seen"})
    assert done.status == 200 and done.json["status"] == "approved", done
    (vote,) = done.json["approvals"]
    assert (vote["resolved_by"], vote["proof"]) == ("carol", "oidc") and "key_id" not in vote
    writ.stack.wait_published()
    (event,) = [one for one in writ.stack.events(kind="review.approved") if one["review_id"] == review]
    assert event["proof"] == "oidc" and "key_id" not in event


def test_two_people_approve_one_by_key_and_one_by_the_provider(writ, browser):
    review = writ.ask("launch")
    browser.sign_in_at(writ.provider)
    assert browser.post(f"/v1/queue/{review}/approve").json["status"] == "pending"
    again = browser.post(f"/v1/queue/{review}/approve").json
    assert (again["status"], len(again["approvals"])) == ("pending", 1), "one person is one vote"
    with writ.browser() as dan:
        assert dan.sign_in(writ.stack.keys["dan"]).status == 201
        assert dan.post(f"/v1/queue/{review}/approve").json["status"] == "approved"
    assert [one["proof"] for one in writ.status(review)["approvals"]] == ["oidc", "key"]


def test_claims_and_not_names_make_a_reviewer(writ, browser):
    review = writ.ask("pay")
    browser.sign_in_at(writ.provider, "zoe", groups=["board"])
    refused(browser.post(f"/v1/queue/{review}/approve"), 403, "wrong_reviewer")
    refused(browser.post(f"/v1/queue/{review}/approve", {"resolved_by": "dan"}), 403, "wrong_reviewer", "/resolved_by")
    assert writ.status(review)["status"] == "pending"


def test_another_tenant_sees_nothing(writ, browser):
    review = writ.ask("pay")
    browser.sign_in_at(writ.provider, "mallory", org="acme", groups=["finance", "board"])
    assert browser.session["tenant_id"] == "acme"
    refused(browser.get(f"/v1/queue/{review}"), 404, "not_found")
    for outcome in ("approve", "deny"):
        refused(browser.post(f"/v1/queue/{review}/{outcome}"), 404, "not_found")
        refused(browser.post(f"/v1/queue/{review}/{outcome}?tenant_id=default"), 403, "wrong_tenant")
    refused(browser.get("/api/v1/audit?tenant_id=default"), 403, "wrong_tenant")
    assert writ.status(review)["status"] == "pending"


def test_the_roles_are_those_that_are_mapped(writ, browser):
    browser.sign_in_at(writ.provider)
    for path in ("/api/v1/keys", "/api/v1/audit", "/api/v1/policies", "/v1/actors"):
        refused(browser.get(path), 403, "missing_role")
    with writ.browser() as board:
        board.sign_in_at(writ.provider, "olga", groups=["board"])
        for path in ("/api/v1/keys", "/api/v1/audit", "/v1/actors"):
            assert board.get(path).status == 200, path
        made = board.post("/api/v1/keys", {"name": "made", "owner": "o", "roles": ["agent"], "tenant": "default"})
        assert made.status == 201, made
        (event,) = [one for one in writ.stack.events(kind="key.created") if one["resource"]["id"] == made.json["id"]]
        assert event["actor"] == "olga" and "key_id" not in event
        suspended = board.post("/v1/actors/nobody/suspend", {"reason": "test"})
        assert suspended.status == 200 and board.post("/v1/actors/nobody/resume").status == 200


def test_an_administrator_ends_all_sessions_of_a_person(writ, browser):
    browser.sign_in_at(writ.provider, "leaver")
    with writ.browser() as again, writ.browser() as other, writ.stack.at_platform("admin") as admin:
        again.sign_in_at(writ.provider, "leaver")
        other.sign_in_at(writ.provider)
        refused(other.request("DELETE", "/api/v1/sessions?person=leaver"), 403, "missing_role")
        refused(admin.delete("/api/v1/sessions"), 400, "bad_parameter")
        assert admin.delete("/api/v1/sessions?person=leaver").json == {"ended": 2, "person": "leaver"}
        for one in (browser, again):
            refused(one.get("/api/v1/session"), 401, "session_ended")
        assert other.get("/api/v1/session").status == 200


# ---- when the provider, or its configuration, is away ----

def test_a_provider_that_is_away_stops_new_sign_ins_only(writ, browser):
    with writ.browser() as late:
        browser.sign_in_at(writ.provider)
        answer = writ.provider.consent(late.begin())
        writ.provider.is_away = True
        try:
            assert word(late.come_back(answer)) == "unavailable"
            assert browser.get("/api/v1/session").status == 200
            review = writ.ask("refund")
            assert browser.post(f"/v1/queue/{review}/approve").json["status"] == "approved"
        finally:
            writ.provider.is_away = False


def test_a_provider_that_never_answered_begins_nothing(fresh, tmp_path):
    provider = identity.Provider(tmp_path / "away")
    stack = fresh()
    url = f"{'https' if stack.platform.secure else 'http'}://127.0.0.1:{stack.platform.address[1]}"
    options = Writ.options("partners", provider)
    plain = stack.platform.arguments
    stack.make_first_keys()
    for wrong, why in ((options, "public_url"), ([*options, "--public_url", url, "--console", "false"], "console")):
        stack.platform.arguments = [*plain, *wrong]
        stack.platform.start()
        with Browser(stack.platform.address, origin=url) as browser:
            assert why in refused(browser.post("/api/v1/session/oidc/partners"), 404, "not_found")["error"]
            assert browser.get("/api/v1/session/providers").json["providers"] == []
        stack.platform.stop()
    provider.is_away = True
    stack.platform.arguments = [*plain, *options, "--public_url", url]
    stack.platform.start()
    with Browser(stack.platform.address, origin=url) as browser:
        reply = browser.post("/api/v1/session/oidc/partners")
        refused(reply, 502, "provider_unavailable")
        assert not reply.cookies
        assert browser.get("/api/v1/session/providers").json["providers"] == [{"available": False, "name": "partners"}]
        assert browser.sign_in(stack.keys["admin"]).status == 201, "a key still signs in"
        provider.is_away = False
        harness.eventually(lambda: browser.post("/api/v1/session/oidc/partners").status == 200, "it is asked again")
        browser.cookie = None
        browser.sign_in_at(provider)
        review = browser.session
        stack.platform.stop()
        stack.platform.arguments = [*plain, "--public_url", url]
        stack.platform.start()
        assert "not configured any more" in refused(browser.get("/api/v1/session"), 401, "session_ended")["error"], review
    provider.close()


# ---- in a browser, at a certified provider ----

@pytest.fixture(scope="module")
def page(writ, tmp_path_factory):
    chromium.needed()
    if not writ.certified:
        print("SKIP: build/clients/oidc is not installed: see ops/setup")
        pytest.skip("build/clients/oidc is not installed")
    if harness.OVER_TLS:
        pytest.skip("SKIP: the browser does not have the authority of the test")
    one = chromium.Browser(tmp_path_factory.mktemp("browser"))
    yield one
    one.quiet()
    one.close()


def test_the_page_for_signing_in_is_accessible(writ, page):
    wrong = []
    for size, dark in ((chromium.PHONE, False), (chromium.PHONE, True), (chromium.DESK, False)):
        page.size(size, dark)
        page.go(f"{writ.url}/console/")
        page.find("button", "Sign in with corp")
        page.find("#key")
        wide = page.run("return document.documentElement.scrollWidth")
        wrong += [f"{wide} pixels wide"] if wide > size[0] else []
        wrong += page.violations()
        if PICTURES:
            page.screenshot(harness.TOP / f"docs/images/console-sign-in{'-dark' if dark else '-phone' if size == chromium.PHONE else ''}.png")
    assert not wrong, json.dumps(wrong, indent=1)


def test_a_person_comes_by_the_provider_decides_and_leaves_both(writ, page):
    review, launch = writ.ask("refund", resource="order:1"), writ.ask("launch", resource="rocket:1")
    page.go(f"{writ.url}/console/#/review/{review}")
    page.see("Sign in", "h1")
    page.find("button", "Sign in with corp").send_keys("\ue007")  # by the keyboard
    page.click("button", "carol")
    page.see("order:1", "h1")  # the place that the link named
    page.click("button", "Approve")
    page.see("Waiting for the agent", ".state")
    (vote,) = writ.status(review)["approvals"]
    assert (vote["resolved_by"], vote["proof"]) == ("carol", "oidc")

    page.go(f"{writ.url}/console/#/review/{launch}")
    page.see("rocket:1", "h1")
    page.click("button", "Approve")
    page.see("recorded", ".actions")
    page.click(".who a", "carol")
    page.see("Signed in with the identity provider corp")
    assert page.violations() == []
    page.click("button", "Sign out")
    page.click("button[name=logout]", "Sign out")  # the provider asks
    page.see("Or with an API key")
    assert page.driver.current_url == f"{writ.url}/console/"

    page.write("#key", writ.stack.keys["dan"])
    page.click("form button", "Sign in")
    page.see("Inbox", "h1")
    page.go(f"{writ.url}/console/#/review/{launch}")
    page.click("button", "Approve")
    page.see("Waiting for the agent", ".state")
    assert [one["proof"] for one in writ.status(launch)["approvals"]] == ["oidc", "key"]
    page.click("button", "Sign out")
    page.see("Or with an API key")
    page.click("button", "Sign in with corp")
    page.click("button", "Refuse")  # the provider asks again: it was left, too
    page.see("The identity provider did not sign you in. (denied)", "[role=alert]")


def test_the_page_names_what_was_refused(writ, page):
    page.go(f"{writ.url}/console/")
    page.click("button", "Sign in with corp")
    page.click("button", "mallory")
    page.see("it gives you no role here", "[role=alert]")
    page.go(f"{writ.url}/api/v1/session/oidc/corp/callback?code=x&state=y&iss=z")
    page.see("did not begin in this browser", "[role=alert]")
    assert page.violations() == []
    for word in ("used", "nonsense"):
        page.go("about:blank")
        page.go(f"{writ.url}/console/#/sign-in/{word}")
        page.see("Or with an API key")
        assert ("completed already" in page.text("main")) == (word == "used")
