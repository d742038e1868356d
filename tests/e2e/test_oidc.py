"""Identity providers: their keys and documents, and their tokens as credentials of the platform's API."""

import base64
import hashlib
import hmac
import http.server
import json
import subprocess
import threading
import time

import pytest

import harness
from harness import eventually
from provider import Provider
from test_contract import refused
from wire import Wire

USERS = {"carol": {"groups": ["finance"]}}
ROLES = {"reviewer": "finance, legal", "auditor": "audit", "policy_admin": "policy", "admin": "root"}
POLICY = """
rules:
  - {id: refunds, actions: [refund], decision: human_review}
"""


def flags(options):
    return [f"--{name}={value}" for name, value in options.items()]


class Scene:
    def __init__(self, folder):
        self.provider = Provider(folder, users=USERS)
        options = self.provider.options() | {"oidc.test.tenant": "default", "oidc.test.audience": "writ-api"}
        options |= {f"oidc.test.roles.{role}": values for role, values in ROLES.items()}
        self.stack = harness.Stack(folder, platform=flags(options))

    def token(self, *groups, header=None, key="current", **claims):
        return self.provider.token({"sub": "carol", "aud": "writ-api", "groups": list(groups), **claims}, header, key)

    def call(self, token, method="GET", path="/api/v1/audit?limit=1", body=None):
        with Wire(self.stack.platform.address, token) as wire:
            return wire.request(method, path, body=body)

    def health(self):
        with Wire(self.stack.platform.address) as wire:
            document = wire.get("/healthz").json
        (told,) = document["providers"]
        assert (document["checks"]["providers"] == "ok") == (not told["error"]), document
        return told


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    it = Scene(tmp_path_factory.mktemp("oidc"))
    try:
        with it.stack:
            yield it
    finally:
        it.provider.stop()


# ---- keys: this test is the first, because an unknown key causes one fetch in ten seconds ----

def test_a_new_key_is_fetched_when_a_token_names_it_and_a_withdrawn_one_verifies_nothing(scene):
    before = scene.token("audit")
    assert scene.call(before).status == 200
    scene.provider.control("rotate", keep=True)
    eventually(lambda: scene.call(scene.token("audit")).status == 200, "a token of the new key")
    assert scene.call(before).status == 200, "the old key is still published"
    scene.provider.control("rotate", keep=False)
    eventually(lambda: scene.call(scene.token("audit")).status == 200, "a token of the third key")
    refused(scene.call(before), 401, "unauthenticated")
    fetches = scene.provider.requests("/jwks")
    for _ in range(8): # with more of them the address would be slowed, and a second fetch allowed
        refused(scene.call(scene.token("audit", header={"kid": "made-up"})), 401, "unauthenticated")
    assert scene.provider.requests("/jwks") <= fetches + 1


def test_keys_are_used_while_the_provider_is_away(scene):
    token = scene.token("audit")
    scene.provider.control("away", away=True)
    try:
        assert scene.call(token).status == 200
        unknown = scene.token("audit", header={"kid": "another"})
        eventually(lambda: refused(scene.call(unknown), 401, "unauthenticated") and scene.health()["error"], "the failed fetch in /healthz")
        told = scene.health()
        assert told["usable"] and "HTTP 503" in told["error"] and told["name"] == "test"
        assert scene.call(scene.token("audit", jti="2")).status == 200, "a token that was not seen before"
    finally:
        scene.provider.control("away", away=False)
    eventually(lambda: not scene.health()["error"], "the next fetch")


# ---- tokens ----

GOOD = {"sub": "carol", "aud": "writ-api", "groups": ["audit"]}
NOW = "seconds from now"

WRONG = [
    ("another audience", {"aud": "writ"}, {}, 401, "unauthenticated"),
    ("no audience", {"aud": None}, {}, 401, "unauthenticated"),
    ("several audiences without azp", {"aud": ["writ-api", "x"]}, {}, 401, "unauthenticated"),
    ("no subject", {"sub": None}, {}, 401, "unauthenticated"),
    ("no expiry", {"exp": None}, {}, 401, "unauthenticated"),
    ("expired", {"exp": (NOW, -120)}, {}, 401, "credential_expired"),
    ("expired within the skew", {"exp": (NOW, -20)}, {}, 200, None),
    ("of the future", {"iat": (NOW, 300)}, {}, 401, "unauthenticated"),
    ("of the future within the skew", {"iat": (NOW, 30)}, {}, 200, None),
    ("not valid yet", {"nbf": (NOW, 300)}, {}, 401, "unauthenticated"),
    ("a token for signing out", {}, {"header": {"typ": "logout+jwt"}}, 401, "unauthenticated"),
    ("an access token", {}, {"header": {"typ": "at+jwt"}}, 200, None),
    ("crit", {}, {"header": {"crit": ["exp"]}}, 401, "unauthenticated"),
    ("no kid, and one key", {}, {"header": {"kid": None}}, 200, None),
    ("another algorithm", {}, {"header": {"alg": "ES256"}}, 401, "unauthenticated"),
    ("no algorithm", {}, {"header": {"alg": "none"}}, 401, "unauthenticated"),
    ("a key that was never published", {}, {"key": "other"}, 401, "unauthenticated"),
    ("an unmapped group", {"groups": ["staff"]}, {}, 403, "identity_refused"),
    ("no group", {"groups": None}, {}, 403, "identity_refused"),
    ("groups of another form", {"groups": {"audit": True}}, {}, 403, "identity_refused"),
    ("a person that is a pattern", {"sub": "*"}, {}, 403, "identity_refused"),
    ("the role of another route", {"groups": ["finance"]}, {}, 403, "missing_role"),
    ("a text as group", {"groups": "audit"}, {}, 200, None),
]


@pytest.mark.parametrize("what, claims, more, status, code", WRONG, ids=[row[0] for row in WRONG])
def test_a_token_needs_everything_right(scene, what, claims, more, status, code):
    claims = {name: int(time.time()) + value[1] if isinstance(value, tuple) else value for name, value in claims.items()}
    reply = scene.call(scene.provider.token(GOOD | claims, more.get("header"), more.get("key", "current")))
    if status == 200:
        assert reply.status == 200, reply
    else:
        refused(reply, status, code)


def test_the_public_key_is_no_secret_of_a_symmetric_algorithm(scene):
    with Wire(scene.stack.platform.address) as wire:
        assert wire.get("/healthz").status == 200
    header, claims, _ = scene.token("audit").split(".")
    kid = json.loads(base64.urlsafe_b64decode(header + "=="))["kid"]
    key = scene.provider.published()[0]
    modulus = base64.urlsafe_b64decode(key["n"] + "==")
    head = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": kid}).encode()).rstrip(b"=").decode()
    for secret in (modulus, key["n"].encode(), json.dumps(key).encode(), b""):
        mac = hmac.new(secret, f"{head}.{claims}".encode(), hashlib.sha256).digest()
        forged = f"{head}.{claims}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
        refused(scene.call(forged), 401, "unauthenticated")


def test_a_token_of_an_unknown_issuer_is_no_credential(scene):
    refused(scene.call(scene.token("audit", iss="https://login.example")), 401, "unauthenticated")
    refused(scene.call(scene.token("audit", iss=scene.provider.issuer + "/")), 401, "unauthenticated")
    reply = refused(scene.call("eyJhbGciOiJub25lIn0.e30."), 401, "unauthenticated")
    assert "eyJ" not in json.dumps(reply)


def test_the_log_and_the_answers_have_no_token(scene):
    token = scene.token("audit", header={"typ": "x"})
    reply = scene.call(token)
    log = scene.stack.platform.log.read_text()
    for part in token.split("."):
        assert part not in log and part not in reply.body.decode()


# ---- routes of the engine ----

def test_a_person_of_a_provider_resolves_a_review_through_the_platform(scene):
    stack = scene.stack
    stack.policy("oidc", POLICY)
    with stack.at_engine() as wire:
        review = wire.post("/v1/agent/authorize", {"actor": "bot", "action": "refund", "resource": {"type": "order", "id": "1"}}).json["review_id"]
    refused(scene.call(scene.token("audit"), "POST", f"/v1/queue/{review}/approve", {}), 403, "missing_role")
    refused(scene.call(scene.token("finance", exp=int(time.time()) - 120), "POST", f"/v1/queue/{review}/approve", {}), 401, "credential_expired")
    done = scene.call(scene.token("finance"), "POST", f"/v1/queue/{review}/approve", {"note": "seen"})
    assert done.status == 200, done
    (vote,) = done.json["approvals"]
    assert (vote["resolved_by"], vote["proof"]) == ("carol", "oidc") and "key_id" not in vote
    with stack.at_engine(scene.token("finance")) as wire:
        refused(wire.get(f"/v1/queue/{review}"), 401, "unauthenticated")


def test_a_change_by_a_provider_names_the_person(scene):
    reply = scene.call(scene.token("policy"), "PUT", "/api/v1/policies/by-carol", {"content": POLICY})
    assert reply.status in (200, 201), reply
    events = [event for event in scene.stack.events(kind="policy.put") if event["resource"]["id"] == "by-carol"]
    assert events and events[0]["actor"] == "carol" and "key_id" not in events[0], events
    refused(scene.call(scene.token("policy"), "PUT", "/api/v1/policies/by-carol?tenant_id=other", {"content": POLICY}), 403, "wrong_tenant")


# ---- providers that answer wrongly ----

def document(base, **more):
    return {"issuer": base, "authorization_endpoint": f"{base}/auth", "token_endpoint": f"{base}/token", "jwks_uri": f"{base}/keys", **more}


# What each provider does: (its discovery document, its keys, what /healthz says). A text is sent as it is.
ANSWERS = {
    "redirects": (302, None, "redirects are not followed"),
    "is-huge": (b" " * (1 << 20), None, "larger than 256 KiB"),
    "lies": (lambda base: document("https://login.example"), None, "issuer is not the configured one"),
    "is-plain": (lambda base: document(base, token_endpoint="http://login.example/token"), None, "token_endpoint must be https://"),
    "is-no-json": (b"<html>", None, "not a strict JSON object"),
    "has-huge-keys": (document, b" " * (1 << 20), "larger than 256 KiB"),
    "has-secrets": (document, b'{"keys":[{"kty":"oct","k":"AAAA"}]}', "no key for RS256, ES256 or EdDSA"),
    "redirects-keys": (document, 307, "redirects are not followed"),
}


class Liar(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.split("/")[1]
        base = f"http://127.0.0.1:{self.server.server_port}/{name}"
        found, keys, _ = ANSWERS[name]
        answer = keys if self.path.endswith("/keys") else found(base) if callable(found) else found
        if isinstance(answer, int):
            self.send_response(answer)
            self.send_header("Location", "/elsewhere/")
            answer = b""
        else:
            self.send_response(200)
            answer = json.dumps(answer).encode() if isinstance(answer, dict) else answer
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        try:
            self.wfile.write(answer)
        except OSError:
            pass  # the platform has seen enough

    def log_message(self, *_):
        pass


def test_a_provider_that_answers_wrongly_is_not_used_and_healthz_says_why(tmp_path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    options = {}
    for name in ANSWERS:
        options |= {f"oidc.{name}.issuer": f"http://127.0.0.1:{server.server_port}/{name}", f"oidc.{name}.client_id": "writ",
                    f"oidc.{name}.tenant": "default", f"oidc.{name}.roles.reviewer": "*", f"oidc.{name}.insecure_loopback": "true"}
    port = harness.free_port()
    program = harness.Program("writ-platform", port, ["--data", tmp_path / "data", "--listen", f"127.0.0.1:{port}", *flags(options)], tmp_path / "log")
    try:
        program.start()

        def told():
            with Wire(program.address) as wire:
                providers = wire.get("/healthz").json["providers"]
            return all(one["error"] for one in providers) and providers

        for one in eventually(told, "a failed fetch of each"):
            assert not one["usable"] and one["fetched_at"] is None
            assert ANSWERS[one["name"]][2] in one["error"], one
    finally:
        program.end()
        server.shutdown()


@pytest.mark.parametrize("more, told", [
    ({"oidc.a.issuer": "http://login.example"}, "oidc.a.issuer: must be https://"),
    ({"oidc.a.issuer": "https://login.example", "oidc.a.client_id": "writ", "oidc.a.tenant": "default"}, "oidc.a.roles.reviewer: is missing"),
    ({"oidc.a.client": "writ"}, "it must be oidc.NAME.KEY"),
])
def test_a_wrong_option_of_a_provider_ends_the_start(tmp_path, more, told):
    done = subprocess.run([str(harness.BIN / "writ-platform"), "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *flags(more)],
                          capture_output=True, text=True, timeout=harness.PATIENCE)
    assert done.returncode == 2 and told in done.stdout + done.stderr, done
