"""Tokens through the real programs: minted, used, counted, revoked, asked about, forged."""

import base64
import contextlib
import hashlib
import hmac
import json
import re
import secrets
import subprocess
import threading
import time

import pytest

from harness import REACTORS, assert_told_once_a_second, eventually, revoked
from test_contract import refused

AGENT, TOOL, USER = "/v1/agent/authorize", "/api/v1/authorize", "/v1/authorize"
MINT, INTROSPECT, JWKS = "/v1/tokens/mint", "/v1/tokens/introspect", "/.well-known/jwks.json"

POLICY = """
rules:
  - {id: reads, agents: ["*"], users: ["*"], actions: ["get_*"], decision: allow}
  - {id: refunds, actions: [refund], decision: human_review, reason: Refunds need a person.}
"""


class Tokens:
    """A tenant with an agent's key that may speak for bots and a few people."""

    def __init__(self, tenant):
        self.tenant, self.stack = tenant, tenant.stack
        tenant.policy(POLICY)
        self.key = tenant.key("fleet_bot", ["agent"], actors=["*_bot"], users=["carol", "dan"])

    def call(self, method, path, key, body=None, headers=None):
        with self.stack.at_engine(key) as wire:
            return wire.request(method, path, body=body, headers=headers)

    def try_mint(self, key=None, headers=None, **body):
        return self.call("POST", MINT, key or self.key, body, headers)

    def mint(self, scope="get_* refund", key=None, **body):
        """One that outlives every test, unless it is told otherwise."""
        reply = self.try_mint(key, **{"scope": scope, "ttl_seconds": 3600, **body})
        assert reply.status == 201, reply
        return reply.json

    def ask(self, token, action="get_x", **body):
        return self.call("POST", AGENT, token, {"action": action, **body})

    def decided(self, token, action="get_x", **body):
        reply = self.ask(token, action, **body)
        assert reply.status == 200, reply
        return reply.json

    def revoke(self, token_id, key=None):
        return self.call("DELETE", f"/v1/tokens/{token_id}", key or self.key)

    def introspect(self, token, key=None):
        reply = self.call("POST", INTROSPECT, key or self.key, {"token": token})
        assert reply.status == 200, reply
        return reply.json

    def list(self, query="", key=None):
        reply = self.call("GET", f"/v1/tokens{query}", key or self.key)
        assert reply.status == 200, reply
        return reply.json


@pytest.fixture
def tokens(tenant):
    return Tokens(tenant)


def unbase64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def tobase64(data):
    if not isinstance(data, bytes):
        data = json.dumps(data, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def parts(token):
    header, claims, _ = token.split(".")
    return json.loads(unbase64(header)), json.loads(unbase64(claims))


def inactive(document):
    return document == {"active": False}


# ---- mint ----


def test_a_token_says_what_was_asked_and_anybody_can_verify_it(tokens, tmp_path):
    minted = tokens.mint(["get_*", "refund"], actor="invoice_bot", acting_for="carol", ttl_seconds=300)
    assert set(minted) == {"token", "token_id", "token_type", "expires_at", "scope"}
    assert minted["token_type"] == "Bearer" and minted["scope"] == "get_* refund"
    header, claims = parts(minted["token"])
    with tokens.stack.at_engine(None) as wire:
        reply = wire.get(JWKS)
    assert reply.status == 200 and reply.header("cache-control") == "public, max-age=300"
    found = [key for key in reply.json["keys"] if key["kid"] == header["kid"]]
    assert len(found) == 1 and found[0]["kty"] == "OKP" and found[0]["crv"] == "Ed25519" and "d" not in found[0]
    assert header == {"alg": "EdDSA", "kid": found[0]["kid"], "typ": "at+jwt"}
    assert claims["iss"] == "writ" and claims["aud"] == "writ" and claims["sub"] == "fleet_bot"
    assert claims["tenant"] == tokens.tenant.name and claims["actor"] == "invoice_bot" and claims["acting_for"] == "carol"
    assert claims["jti"] == minted["token_id"] and claims["scope"] == "get_* refund"
    assert claims["exp"] == minted["expires_at"] == claims["iat"] + 300 and claims["nbf"] == claims["iat"]

    # Ed25519's SubjectPublicKeyInfo is a fixed head before the 32 bytes (RFC 8410).
    (tmp_path / "key").write_bytes(bytes.fromhex("302a300506032b6570032100") + unbase64(found[0]["x"]))
    signed, _, signature = minted["token"].rpartition(".")
    (tmp_path / "text").write_text(signed)
    (tmp_path / "signature").write_bytes(unbase64(signature))
    done = subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", tmp_path / "key", "-rawin",
                           "-in", tmp_path / "text", "-sigfile", tmp_path / "signature"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_left_out_has_its_default(tokens):
    for nothing in ({}, {"actor": "", "acting_for": None, "ttl_seconds": None, "max_uses": None, "audience": None}):
        reply = tokens.try_mint(scope="get_*", **nothing)
        assert reply.status == 201, reply
        _, claims = parts(reply.json["token"])
        assert claims["actor"] == "fleet_bot" and "acting_for" not in claims
        assert claims["exp"] - claims["iat"] == 60 and "counted" not in claims


@pytest.mark.parametrize("body, code, field", [
    ({}, "missing_member", "/scope"),
    ({"scope": None}, "missing_member", "/scope"),
    ({"scope": ""}, "missing_member", "/scope"),
    ({"scope": "  "}, "out_of_range", "/scope"),
    ({"scope": []}, "out_of_range", "/scope"),
    ({"scope": 5}, "wrong_type", "/scope"),
    ({"scope": ["a", 5]}, "wrong_type", "/scope"),
    ({"scope": ["a b"]}, "bad_value", "/scope"),
    ({"scope": [""]}, "bad_value", "/scope"),
    ({"scope": "a\tb"}, "bad_value", "/scope"),
    ({"scope": "a\x7fb"}, "bad_value", "/scope"),
    ({"scope": "x" * 257}, "out_of_range", "/scope"),
    ({"scope": ["x"] * 65}, "out_of_range", "/scope"),
    ({"scope": ["x" * 250] * 20}, "out_of_range", "/scope"),
    ({"ttl_seconds": 0}, "out_of_range", "/ttl_seconds"),
    ({"ttl_seconds": 86401}, "out_of_range", "/ttl_seconds"),
    ({"ttl_seconds": 1.5}, "out_of_range", "/ttl_seconds"),
    ({"ttl_seconds": -1}, "out_of_range", "/ttl_seconds"),
    ({"ttl_seconds": 2**64 - 1}, "out_of_range", "/ttl_seconds"),
    ({"ttl_seconds": "60"}, "wrong_type", "/ttl_seconds"),
    ({"max_uses": 0}, "out_of_range", "/max_uses"),
    ({"max_uses": 1000000001}, "out_of_range", "/max_uses"),
    ({"max_uses": True}, "wrong_type", "/max_uses"),
    ({"audience": ""}, "out_of_range", "/audience"),
    ({"audience": "x" * 257}, "out_of_range", "/audience"),
    ({"audience": ["x"]}, "wrong_type", "/audience"),
    ({"actor": 5}, "wrong_type", "/actor"),
    ({"actor": "x" * 257}, "out_of_range", "/actor"), ({"actor": ".."}, "bad_value", "/actor"),
    ({"acting_for": {}}, "wrong_type", "/acting_for"),
    ({"tenant_id": 5}, "wrong_type", "/tenant_id"),
    ({"actingFor": "carol"}, "wrong_case", "/actingFor"),
    ({"ttlSeconds": 5}, "wrong_case", "/ttlSeconds"),
    ({"maxUses": 5}, "wrong_case", "/maxUses"),
    ({"tenantId": "x"}, "wrong_case", "/tenantId"),
])
def test_what_is_wrong_with_a_request_is_told_by_name(tokens, body, code, field):
    if not body or "scope" not in body:
        body = {"scope": "get_*", **body} if body else {}
    refused(tokens.try_mint(**body), 400, code, field)


@pytest.mark.parametrize("body", [{"scope": "x" * 256}, {"scope": ["x"] * 64}, {"ttl_seconds": 86400}, {"ttl_seconds": 1},
                                  {"max_uses": 1000000000}, {"max_uses": 1}, {"audience": "x" * 256}])
def test_as_much_as_may_be_is_taken(tokens, body):
    tokens.mint(**body)


def test_a_key_mints_only_for_whom_it_may_speak(tokens):
    refused(tokens.try_mint(scope="x", actor="coder"), 403, "wrong_actor", "/actor")
    refused(tokens.try_mint(scope="x", acting_for="erin"), 403, "wrong_user", "/acting_for")
    refused(tokens.try_mint(scope="x", tenant_id="default"), 403, "wrong_tenant", "/tenant_id")
    refused(tokens.try_mint(tokens.tenant.admin, scope="x"), 403, "missing_role")
    refused(tokens.try_mint(tokens.mint()["token"], scope="x"), 403, "missing_role")
    refused(tokens.call("POST", MINT, None, {"scope": "x"}), 401, "unauthenticated")


def test_a_token_never_outlives_its_key(tokens):
    ends = int(time.time()) + 3600
    text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ends))
    key = tokens.tenant.key("short_bot", ["agent"], expires_at=text)
    assert tokens.mint(key=key, ttl_seconds=86400)["expires_at"] == ends


def test_a_retry_gets_the_same_token(tokens):
    headers = {"Idempotency-Key": "job 4711"}
    body = {"scope": "get_*", "actor": "invoice_bot", "ttl_seconds": 300}
    first = tokens.try_mint(headers=headers, **body)
    assert first.status == 201 and "replayed" not in first.json, first
    for _ in range(8):  # whichever reactor the connection meets
        again = tokens.try_mint(headers=headers, **body)
        assert again.status == 201 and again.json == {**first.json, "replayed": True}
    refused(tokens.try_mint(headers=headers, **{**body, "ttl_seconds": 301}), 422, "idempotency_mismatch")
    other = tokens.try_mint(headers={"Idempotency-Key": "x" * 255}, **body)
    assert other.json["token_id"] != first.json["token_id"]
    refused(tokens.try_mint(headers={"Idempotency-Key": "x" * 256}, **body), 400, "bad_header")
    second_key = tokens.tenant.key("other_bot", ["agent"], actors=["*_bot"])
    assert "replayed" not in tokens.try_mint(second_key, headers=headers, **body).json
    assert tokens.list()["count"] == 2


def test_a_retry_is_of_one_tenant(tokens):
    everywhere = tokens.stack.key("everywhere_bot", ["agent"], tenant="*")
    with tokens.stack.at_engine(everywhere) as wire:
        minted = [wire.post(f"{MINT}?tenant_id={tenant}", {"scope": "get_*"}, headers={"Idempotency-Key": "job"})
                  for tenant in (tokens.tenant.name, "another")]
    assert [reply.status for reply in minted] == [201, 201]
    assert "replayed" not in minted[1].json
    assert parts(minted[1].json["token"])[1]["tenant"] == "another"


# ---- as a credential ----


def test_a_token_authorizes_within_its_scope(tokens):
    token = tokens.mint("get_* refund", actor="invoice_bot", acting_for="carol")["token"]
    allowed = tokens.decided(token)
    assert allowed["decision"] == "allow" and allowed["allowed"] is True
    outside = tokens.decided(token, "list_x")
    assert outside["decision"] == "deny" and outside["rule"] == "token:scope"
    tool = tokens.call("POST", TOOL, token, {"tool": "get_x"})
    assert tool.status == 200 and tool.json["decision"] == "allow"
    event = tokens.tenant.trace(allowed["trace_id"])[0]
    assert event["actor"] == "invoice_bot" and event["acting_for"] == "carol" and event["token_id"].startswith("tok_")
    assert event["key_id"] == parts(token)[1]["key"]


def test_a_token_speaks_for_its_own_names_only(tokens):
    token = tokens.mint(actor="invoice_bot", acting_for="carol")["token"]
    assert tokens.decided(token, actor="invoice_bot", acting_for="carol", tenant_id=tokens.tenant.name)["allowed"]
    refused(tokens.ask(token, actor="other_bot"), 403, "wrong_actor", "/actor")
    refused(tokens.ask(token, acting_for="dan"), 403, "wrong_user", "/acting_for")
    refused(tokens.ask(token, tenant_id="default"), 403, "wrong_tenant", "/tenant_id")
    alone = tokens.mint(actor="invoice_bot")["token"]
    refused(tokens.ask(alone, acting_for="carol"), 403, "wrong_user", "/acting_for")


def test_a_token_may_do_nothing_else(tokens):
    token = tokens.mint()["token"]
    for method, path, body in [("POST", USER, {"user_id": "carol", "action": "get_x"}), ("GET", "/v1/tokens", None),
                               ("POST", INTROSPECT, {"token": token}),
                               ("GET", "/v1/actors", None), ("POST", "/v1/actors/x/suspend", {}),
                               ("DELETE", "/v1/tokens/" + parts(token)[1]["jti"], None),
                               ("POST", AGENT + "?dry_run=true", {"action": "get_x"}), ("GET", "/metrics", None)]:
        document = refused(tokens.call(method, path, token, body), 403, "missing_role")
        assert "token" in document["error"]
    for method, path, body in [("GET", "/api/v1/policies", None), ("GET", "/api/v1/audit", None), ("PUT", "/api/v1/policies/x", {"content": ""}),
                               ("PUT", "/api/v1/policies/x", {"content": "#" * 500000})]:
        refused(tokens.call(method, path, token, body), 403, "missing_role")
        refused(tokens.call(method, path, token + "x", body), 401, "unauthenticated")
    with tokens.stack.at_platform(token) as wire:
        assert wire.get("/api/v1/policies").status == 401, "asked itself the platform takes keys only"
    review = tokens.decided(token, "refund")["review_id"]
    refused(tokens.call("POST", f"/v1/queue/{review}/redeem", token, {"user_id": "carol", "action": "refund"}), 403, "missing_role")


def test_a_token_follows_its_own_review_and_no_others(tokens):
    token = tokens.mint(actor="invoice_bot")["token"]
    other = tokens.mint(actor="other_bot")["token"]
    review = tokens.decided(token, "refund")["review_id"]
    assert tokens.call("GET", f"/v1/queue/{review}", token).json["status"] == "pending"
    assert tokens.call("GET", f"/v1/queue/{review}", other).status == 404
    reply = tokens.call("GET", f"/v1/queue/{review}/wait?timeout_ms=10", token)
    assert reply.status == 200 and reply.json["status"] == "pending"


def test_a_token_sees_no_more_than_its_own_whatever_roles_its_key_has(tokens):
    both = tokens.tenant.key("desk_bot", ["agent", "reviewer", "admin"], actors=["*_bot"])
    token = tokens.mint(key=both, actor="invoice_bot")["token"]
    review = tokens.decided(tokens.mint()["token"], "refund")["review_id"]
    assert tokens.call("GET", f"/v1/queue/{review}", both).status == 200
    for path in ("", "/wait?timeout_ms=0"):
        refused(tokens.call("GET", f"/v1/queue/{review}{path}", token), 404, "not_found")


def test_a_redemption_is_not_repeated_beyond_the_scope_or_for_another_person(tokens):
    asked, again = {"action": "refund", "args": {"n": 1}}, {"Idempotency-Key": "again"}
    first = tokens.mint("refund", actor="pay_bot", acting_for="dan")["token"]
    narrow = tokens.mint("get_*", actor="pay_bot", acting_for="dan")["token"]
    for_nobody = tokens.mint("refund", actor="pay_bot")["token"]
    review = tokens.decided(first, **asked)["review_id"]
    reviewer = tokens.tenant.key("rita", ["reviewer"])
    assert tokens.call("POST", f"/v1/queue/{review}/approve", reviewer).status == 200

    def redeemed(credential, **more):
        return tokens.call("POST", f"/v1/queue/{review}/redeem", credential, {**asked, **more}, again).json

    spent = redeemed(first)
    assert spent["allowed"] is True
    assert redeemed(first) == {**spent, "replayed": True}
    assert redeemed(narrow)["rule"] == "token:scope"
    assert redeemed(for_nobody)["code"] == "not_found", "dan's review is none of its own"
    assert redeemed(tokens.key, actor="pay_bot")["code"] == "idempotency_mismatch"


def test_uses_are_counted_exactly(tokens):
    minted = tokens.mint("get_*", max_uses=100)
    crossed = tokens.stack.metrics(tokens.stack.engine)["writ_engine_calls_crossed_total"]
    outcomes = []

    def client():
        with tokens.stack.at_engine(minted["token"]) as wire:
            mine = [wire.post(AGENT, {"action": "get_x"}).json for _ in range(20)]
        outcomes.extend(mine)
    threads = [threading.Thread(target=client) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rules = [outcome["rule"] for outcome in outcomes]
    assert REACTORS == "1" or tokens.stack.metrics(tokens.stack.engine)["writ_engine_calls_crossed_total"] > crossed
    assert len(rules) == 160 and rules.count("allow:reads") == 100 and rules.count("token:uses") == 60
    assert inactive(tokens.introspect(minted["token"]))
    assert tokens.list()["tokens"][0]["uses_left"] == 0


def test_what_was_not_decided_takes_no_use(tokens):
    minted = tokens.mint("get_*", max_uses=1)
    names = {f"{i:02d}" + "\u0001" * 254: "\u0001" * 256 for i in range(20)}  # whatever is cut of a record, these are not
    refused(tokens.ask(minted["token"], resource=names), 413, "body_too_large")
    assert tokens.decided(minted["token"])["decision"] == "allow"
    assert tokens.decided(minted["token"])["rule"] == "token:uses"


def test_a_revocation_is_complete_when_it_is_answered(tokens):
    """Clients keep asking on connections of all reactors; whoever asks after the answer is refused."""
    for _ in range(10):
        minted = tokens.mint(ttl_seconds=600)
        answered, late, asked = threading.Event(), [], []

        def client():
            with tokens.stack.at_engine(minted["token"]) as wire:
                while True:
                    after = answered.is_set()
                    status = wire.post(AGENT, {"action": "get_x"}).status
                    asked.append(status)
                    if after and status == 200:
                        late.append(status)
                    if after:
                        return
        threads = [threading.Thread(target=client) for _ in range(16)]
        for thread in threads:
            thread.start()
        eventually(lambda: asked.count(200) >= 32, "they are under way")
        assert tokens.revoke(minted["token_id"]).status == 200
        answered.set()
        for thread in threads:
            thread.join()
        assert not late and asked.count(401) >= 16


# ---- the end of a token ----


def test_a_revoked_token_is_dead_on_every_connection(tokens):
    minted = tokens.mint()
    wires = [tokens.stack.at_engine(minted["token"]).open() for _ in range(8)]
    assert all(wire.post(AGENT, {"action": "get_x"}).status == 200 for wire in wires)
    first = tokens.revoke(minted["token_id"])
    assert first.status == 200 and first.json["success"] is True and first.json["token_id"] == minted["token_id"]
    for wire in wires:
        refused(wire.post(AGENT, {"action": "get_x"}), 401, "credential_revoked")
        wire.close()
    assert tokens.revoke(minted["token_id"]).json == first.json
    assert inactive(tokens.introspect(minted["token"]))


def test_who_may_revoke(tokens):
    minted, another = tokens.mint(), tokens.mint()
    second_key = tokens.tenant.key("second_bot", ["agent"])
    refused(tokens.revoke(minted["token_id"], second_key), 403, "missing_role")
    refused(tokens.revoke(minted["token_id"], tokens.stack.keys["agent"]), 404, "not_found")
    refused(tokens.revoke("tok_00000000000000000000000000"), 404, "not_found")
    refused(tokens.revoke("rev_00000000000000000000000000"), 404, "not_found")
    refused(tokens.revoke("x"), 404, "not_found")
    assert tokens.decided(minted["token"])["allowed"]
    assert tokens.revoke(minted["token_id"], tokens.tenant.admin).status == 200
    assert tokens.revoke(another["token_id"]).status == 200


def test_a_token_dies_with_its_key(tokens):
    key = tokens.tenant.key("brief_bot", ["agent"])
    token = tokens.mint(key=key)["token"]
    assert tokens.decided(token)["allowed"]
    with tokens.stack.at_platform(tokens.tenant.admin) as wire:
        revoked(wire, "/api/v1/keys/" + parts(token)[1]["key"])
    refused(tokens.ask(token), 401, "credential_revoked")
    assert inactive(tokens.introspect(token))


WAITING = 4 * int(REACTORS)  # clients; by chance, each reactor has some


def waits_while(tokens, credential, asks, meanwhile):
    """The answers of waits that were open while something happened; a denial ends them, if nothing
    else did."""
    review = tokens.decided(asks, "refund")["review_id"]
    admin = tokens.tenant.key("waiting_reviewers", ["reviewer"])
    wires = [tokens.stack.at_engine(credential).open() for _ in range(WAITING)]
    for wire in wires:
        wire.send(wire.encode("GET", f"/v1/queue/{review}/wait?timeout_ms=60000"))
    eventually(lambda: tokens.stack.metrics(tokens.stack.engine)["writ_engine_waits"] == WAITING, "they wait")
    meanwhile()
    assert tokens.call("POST", f"/v1/queue/{review}/deny", admin, {}).status in (200, 409)
    answers = [wire.read_reply() for wire in wires]
    for wire in wires:
        wire.close()
    return answers


def test_who_was_revoked_while_it_waited_is_told_nothing_more(tokens):
    key = tokens.tenant.key("waiting_bot", ["agent"])
    first, second = (tokens.mint(key=key) for _ in range(2))

    def all_refused(credential, asks, meanwhile):
        for reply in waits_while(tokens, credential, asks, meanwhile):
            refused(reply, 401, "credential_revoked")

    all_refused(first["token"], second["token"], lambda: tokens.revoke(first["token_id"], key))
    assert {reply.json["status"] for reply in waits_while(tokens, second["token"], second["token"], lambda: None)} == {"denied"}

    def revoke_key():
        with tokens.stack.at_platform(tokens.tenant.admin) as wire:
            revoked(wire, "/api/v1/keys/" + parts(first["token"])[1]["key"])

    all_refused(key, second["token"], revoke_key)

    rogue = tokens.mint(actor="rogue_bot")["token"]

    def suspend():  # which denies its reviews, and so ends the waits
        assert tokens.call("POST", "/v1/actors/rogue_bot/suspend", tokens.tenant.admin).status == 200

    all_refused(rogue, rogue, suspend)


def test_a_token_expires(tokens):
    minted = tokens.mint(ttl_seconds=1)
    eventually(lambda: tokens.ask(minted["token"]).status == 401, "it expires")
    refused(tokens.ask(minted["token"]), 401, "credential_expired")
    assert inactive(tokens.introspect(minted["token"]))


def test_a_suspended_actor_has_no_tokens(tokens):
    admin = tokens.tenant.admin
    old = tokens.mint(actor="invoice_bot")["token"]
    other = tokens.mint(actor="other_bot")["token"]
    assert tokens.call("POST", "/v1/actors/invoice_bot/suspend", admin, {"reason": "odd"}).status == 200
    refused(tokens.ask(old), 401, "credential_revoked")
    assert inactive(tokens.introspect(old))
    refused(tokens.try_mint(scope="x", actor="invoice_bot"), 403, "actor_suspended", "/actor")
    assert tokens.decided(other)["allowed"]
    assert tokens.call("POST", "/v1/actors/invoice_bot/resume", admin, {}).status == 200
    refused(tokens.ask(old), 401, "credential_revoked")  # for ever
    assert tokens.decided(tokens.mint(actor="invoice_bot")["token"])["allowed"]


# ---- forgeries ----


def test_a_forged_token_is_nobody_s(tokens):
    token = tokens.mint()["token"]
    header, claims = parts(token)
    head, body, signature = token.split(".")
    with tokens.stack.at_engine(None) as wire:
        public = unbase64(wire.get(JWKS).json["keys"][0]["x"])

    def hs256(**more):
        text = tobase64({**header, "alg": "HS256", **more}) + "." + body
        return text + "." + tobase64(hmac.new(public, text.encode(), hashlib.sha256).digest())

    more = tobase64({**claims, "scope": "*"})
    twice = tobase64(json.dumps(claims)[:-1].encode() + b',"scope":"*"}')
    forged = [
        "x", "..", token[:-1], token[:-10], head + "." + body + ".", head + "." + body, token + ".", token + "=", token + ".x",
        head + "." + more + "." + signature, head + "." + twice + "." + signature, hs256(), hs256(kid="1"),
        tobase64({**header, "alg": "none"}) + "." + body + ".", tobase64({**header, "alg": "none"}) + "." + body + "." + signature,
        tobase64({**header, "kid": "1"}) + "." + body + "." + signature,
        tobase64({**header, "jwk": {"kty": "OKP"}}) + "." + body + "." + signature,
        tobase64(json.dumps(header)[:-1].encode() + b',"alg":"none"}') + "." + body + "." + signature,
        head + "." + tobase64({**claims, "exp": claims["exp"] + 1000}) + "." + signature, "A" * 5000,
        token[:-1] + ("A" if token[-1] != "A" else "Q"), token.replace(".", "..", 1), token.upper(),
    ]
    for text in forged:
        reply = refused(tokens.ask(text), 401, "unauthenticated")
        assert inactive(tokens.introspect(text)), (text, reply)
    reply = tokens.ask("x")
    assert reply.header("www-authenticate") == "Bearer"
    assert tokens.decided(token)["allowed"]


def test_two_authorization_headers_are_refused(tokens):
    token = tokens.mint()["token"]
    body = b'{"action":"get_x"}'
    for second in (token, "x", tokens.key):
        with tokens.stack.at_engine(None) as wire:
            reply = wire.raw((f"POST {AGENT} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\nauthorization: Bearer {second}\r\n"
                              f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body)
        refused(reply, 401, "unauthenticated")


def test_a_token_for_somebody_else_is_refused_here(tokens):
    minted = tokens.mint("get_*", audience="payments")
    refused(tokens.ask(minted["token"]), 401, "unauthenticated")
    assert tokens.introspect(minted["token"])["aud"] == "payments"  # who it is for may ask


# ---- introspection and lists ----


def test_introspection_tells_what_a_token_is_good_for(tokens):
    minted = tokens.mint("get_* refund", actor="invoice_bot", acting_for="dan", ttl_seconds=300, max_uses=5)
    _, claims = parts(minted["token"])
    right = {"active": True, "scope": "get_* refund", "client_id": claims["key"], "sub": "fleet_bot", "aud": "writ", "iss": "writ",
             "exp": claims["exp"], "iat": claims["iat"], "nbf": claims["nbf"], "jti": minted["token_id"], "token_type": "Bearer",
             "tenant": tokens.tenant.name, "actor": "invoice_bot", "acting_for": "dan", "uses_left": 5}
    assert tokens.introspect(minted["token"]) == right
    assert tokens.decided(minted["token"])["allowed"]
    assert tokens.introspect(minted["token"])["uses_left"] == 4
    assert tokens.introspect(minted["token"], tokens.tenant.admin)["active"] is True
    form = tokens.call("POST", INTROSPECT, tokens.key, f"token={minted['token']}&token_type_hint=access_token",
                       {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"})
    assert form.status == 200 and form.json == {**right, "uses_left": 4}
    with tokens.stack.at_platform(tokens.key) as wire:  # which passes it on
        form = wire.post(INTROSPECT, f"token={minted['token']}", headers={"Content-Type": "application/x-www-form-urlencoded"})
        assert form.status == 200 and form.json == {**right, "uses_left": 4}
        refused(wire.get(INTROSPECT), 405, "method_not_allowed")
    assert inactive(tokens.introspect(minted["token"], tokens.stack.keys["agent"]))  # another tenant


def test_introspection_wants_a_token(tokens):
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    refused(tokens.call("POST", INTROSPECT, tokens.key, {}), 400, "missing_member", "/token")
    refused(tokens.call("POST", INTROSPECT, tokens.key, {"token": 5}), 400, "wrong_type", "/token")
    refused(tokens.call("POST", INTROSPECT, tokens.key, {"token": "x", "tenantId": "y"}), 400, "wrong_case", "/tenantId")
    refused(tokens.call("POST", INTROSPECT, tokens.key, "hint=x", form), 400, "missing_member", "/token")
    refused(tokens.call("POST", INTROSPECT, tokens.key, "token=a&token=b", form), 400, "bad_parameter")
    refused(tokens.call("POST", INTROSPECT, tokens.key, "token=%zz", form), 400, "bad_parameter")
    refused(tokens.call("POST", INTROSPECT, tokens.key, "x", {"Content-Type": "text/plain"}), 415, "unsupported_media_type")
    refused(tokens.call("POST", INTROSPECT, tokens.tenant.auditor, {"token": "x"}), 403, "missing_role")


def test_lists_are_pages_in_the_order_of_minting(tokens):
    minted = [tokens.mint(actor=f"{'odd' if i % 2 else 'even'}_bot", ttl_seconds=600, **({"acting_for": "carol"} if i < 3 else {}))
              for i in range(11)]
    ids = [one["token_id"] for one in minted]
    found, cursor = [], 0
    while True:
        page = tokens.list(f"?limit=4&cursor={cursor}")
        assert page["count"] == len(page["tokens"]) <= 4 and page["limit"] == 4
        found += page["tokens"]
        cursor = page["next_cursor"]
        if cursor == 0:
            break
    assert [one["token_id"] for one in found] == ids
    first = found[0]
    assert first["actor"] == "even_bot" and first["acting_for"] == "carol" and first["scope"] == "get_* refund"
    assert first["active"] is True and first["tenant_id"] == tokens.tenant.name and "token" not in first
    assert [one["token_id"] for one in tokens.list("?actor=odd_bot")["tokens"]] == ids[1::2]
    assert [one["token_id"] for one in tokens.list("?acting_for=carol")["tokens"]] == ids[:3]
    tokens.revoke(ids[5])
    assert [one["token_id"] for one in tokens.list("?active=true&limit=500")["tokens"]] == ids[:5] + ids[6:]
    dead = tokens.list("?limit=500")["tokens"][5]
    assert dead["active"] is False and "revoked_at" in dead
    second_key = tokens.tenant.key("second_bot", ["agent"])
    assert tokens.list(key=second_key) == {"tokens": [], "count": 0, "limit": 20, "next_cursor": 0}
    assert tokens.list("?limit=500", key=tokens.tenant.admin)["count"] == 11
    refused(tokens.call("GET", "/v1/tokens?active=1", tokens.key), 400, "bad_parameter")
    refused(tokens.call("GET", "/v1/tokens?colour=1", tokens.key), 400, "unknown_parameter")
    refused(tokens.call("GET", "/v1/tokens?limit=0", tokens.key), 400, "bad_parameter")


# ---- records ----


def test_a_token_s_life_is_in_the_audit_trail(tokens):
    minted = tokens.mint(["get_*", "refund"], actor="invoice_bot", acting_for="carol", max_uses=7)
    tokens.revoke(minted["token_id"])
    with tokens.stack.at_engine(minted["token"]) as wire:
        for _ in range(10):
            assert wire.post(AGENT, {"action": "get_x"}).status == 401
    refused(tokens.ask(minted["token"][:-5] + "AAAAA"), 401, "unauthenticated")

    def told():
        found = [event for event in tokens.tenant.events() if event.get("token_id") == minted["token_id"]]
        rejected = [event for event in found if event["kind"] == "token.rejected"]
        return found if sum(event["count"] for event in rejected) == 10 else None
    found = eventually(told, "the token's events")
    kinds = [event["kind"] for event in reversed(found)]
    assert kinds[:2] == ["token.minted", "token.revoked"] and set(kinds[2:]) == {"token.rejected"}
    assert_told_once_a_second([event for event in found if event["kind"] == "token.rejected"])
    birth = found[-1]
    assert birth["actor"] == "invoice_bot" and birth["acting_for"] == "carol" and birth["scope"] == ["get_*", "refund"]
    assert birth["count"] == 7 and birth["key_id"] == parts(minted["token"])[1]["key"]
    assert not any(minted["token"][-40:] in json.dumps(event) for event in found)


def with_a_past(stack):
    """An engine that has been, with the folder in which earlier versions kept keys."""
    stack.start()
    stack.engine.stop()
    return stack


def kids(stack):
    with stack.at_engine(None) as wire:
        return [key["kid"] for key in wire.get(JWKS).json["keys"]]


def mint_at(stack, key):
    with stack.at_engine(key) as wire:
        return wire.post(MINT, {"scope": "get_*", "ttl_seconds": 600}).json["token"]


def works(stack, token):
    with stack.at_engine(token) as wire:
        return wire.post(AGENT, {"action": "get_x"}).status == 200


ROTATE = "/v1/signer/rotate"


def rotate(stack, key="root", **body):
    with stack.at_engine(key) as wire:
        return wire.post(ROTATE, body)


def test_a_new_signing_key_is_told_before_it_signs_and_the_old_one_verifies_on(fresh):
    stack = fresh().start()
    stack.policy("base", POLICY)
    key = stack.key("fleet_bot", ["agent"])
    before, (old,) = mint_at(stack, key), kids(stack)
    answer = rotate(stack).json
    new, still = kids(stack)
    assert still == old and new != old and answer["kid"] == new and answer["older_keys"] == "verify", answer
    after = mint_at(stack, key)  # ten minutes before the new one signs
    assert parts(after)[0]["kid"] == old and works(stack, before) and works(stack, after)
    stack.engine.kill()
    stack.engine.start()
    assert kids(stack) == [new, old] and works(stack, before)
    stack.engine.stop()


def test_a_rotation_at_once_ends_every_token_from_before(fresh):
    """On every reactor, when it is answered; listed, introspected and minted again alike; and after a crash."""
    stack = fresh(engine=["--reactors", "4"]).start()
    stack.policy("base", POLICY)
    key = stack.key("fleet_bot", ["agent"], actors=["*"])
    retry = {"Idempotency-Key": "k"}
    with stack.at_engine(key) as wire, contextlib.ExitStack() as many:
        minted = wire.post(MINT, {"scope": "get_* refund", "ttl_seconds": 600}, headers=retry).json
        wires = [many.enter_context(stack.at_engine(minted["token"])) for _ in range(16)]
        for one in wires:
            assert one.post(AGENT, {"action": "get_x"}).json["allowed"]
        review = wires[0].post(AGENT, {"action": "refund"}).json["review_id"]
        (old,) = kids(stack)
        answer = rotate(stack, now=True).json
        for one in wires:
            assert one.post(AGENT, {"action": "get_x"}).status == 401
            assert one.get(f"/v1/queue/{review}").status == 401
        (new,) = kids(stack)
        assert new != old and answer["kid"] == new and answer["older_keys"] == "ended", answer
        assert inactive(wire.post(INTROSPECT, {"token": minted["token"]}).json)
        assert [one["active"] for one in wire.get("/v1/tokens").json["tokens"]] == [False]
        again = wire.post(MINT, {"scope": "get_* refund", "ttl_seconds": 600}, headers=retry).json
        assert "replayed" not in again and again["token_id"] != minted["token_id"], "what was minted under that key is dead"
        assert parts(again["token"])[0]["kid"] == new and works(stack, again["token"])
        assert wire.delete(f"/v1/tokens/{minted['token_id']}").status == 200
    stack.engine.kill()
    stack.engine.start()
    assert kids(stack) == [new] and works(stack, again["token"]) and not works(stack, minted["token"])
    stack.wait_published()
    with stack.at_platform("root") as wire:
        found = wire.get("/api/v1/audit?kind=signer.rotated&tenant_id=default").json
    events = found.get("events") or found.get("items")
    assert [one["reason"] for one in events][0] == "The older signing keys verify no more." and events[0]["resolved_by"], events
    stack.engine.stop()


def test_signing_keys_are_rotated_by_who_may_speak_for_every_tenant(fresh):
    stack = fresh().start()
    before = kids(stack)
    refused(rotate(stack, stack.key("boss", ["admin"])), 403, "wrong_tenant")
    refused(rotate(stack, stack.key("bot", ["agent"])), 403, "missing_role")
    refused(rotate(stack, later=True), 400, "unknown_member", "/later")
    refused(rotate(stack, now="yes"), 400, "wrong_type")
    assert kids(stack) == before
    done = stack.cli("signer", "rotate", "--engine", stack.engine.url, "--now", key=stack.keys["root"])
    assert "every earlier token is dead" in done.stdout and kids(stack)[0] in done.stdout
    done = stack.cli("signer", "rotate", "--engine", stack.engine.url, "--json", key=stack.keys["root"])
    assert json.loads(done.stdout)["kid"] == kids(stack)[0] and len(kids(stack)) == 2
    stack.engine.stop()


# ---- a stolen signing key ----

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def ulid(at_s):
    """An id as ours are: 48 bits of milliseconds, 80 of chance."""
    number = int(at_s * 1000) << 80 | secrets.randbits(80)
    return "".join(CROCKFORD[number >> 5 * at & 31] for at in reversed(range(26)))


def stolen_secret(stack):
    """Of the pepper and of the salt that the newest rotation has in the journal, both of which it takes."""
    pepper = bytes.fromhex((stack.data / "pepper").read_text().strip())
    entry = re.compile(rb"\x0f\x00\x00\x1d\x00\x00\x00(....)........[\x00\x01](.{16})", re.S)
    found = [match for path in sorted((stack.engine_data / "engine" / "journal").iterdir()) for match in entry.finditer(path.read_bytes())]
    number, salt = found[-1].groups()
    extracted = hmac.new(salt, pepper, hashlib.sha256).digest()
    info = b"writ signer %d" % int.from_bytes(number, "little")
    return hmac.new(extracted, info + b"\x01", hashlib.sha256).hexdigest()


class Thief:
    """Has the secret of a signing key, and signs whatever it likes."""

    def __init__(self, folder, secret):
        self.folder, self.key = folder, folder / "stolen.der"
        self.key.write_bytes(bytes.fromhex("302e020100300506032b657004220420" + secret))  # PKCS #8 (RFC 8410)

    def public(self):
        done = subprocess.run(["openssl", "pkey", "-inform", "DER", "-in", self.key, "-pubout", "-outform", "DER"],
                              capture_output=True, check=True)
        return tobase64(done.stdout[-32:])

    def kid(self):
        return tobase64(hashlib.sha256(f'{{"crv":"Ed25519","kty":"OKP","x":"{self.public()}"}}'.encode()).digest())

    def sign(self, claims):
        text = tobase64({"alg": "EdDSA", "kid": self.kid(), "typ": "at+jwt"}) + "." + tobase64(claims)
        (self.folder / "text").write_text(text)
        done = subprocess.run(["openssl", "pkeyutl", "-sign", "-keyform", "DER", "-inkey", self.key, "-rawin",
                               "-in", self.folder / "text"], capture_output=True, check=True)
        return text + "." + tobase64(done.stdout)


def forgeries(claims):
    """Claims that were never minted, by what is wrong with them; `claims` are a token's that was."""
    now = int(time.time())
    never = {**claims, "jti": "tok_" + ulid(now)}
    return {
        "never minted": never,
        "never minted, counted": {**never, "counted": True},
        "another tenant": {**never, "tenant": "another"},
        "a minted one, of another tenant": {**claims, "tenant": "another"},
        "an actor outside of the key's globs": {**never, "actor": "admin_human"},
        "a minted one, of another actor": {**claims, "actor": "other_bot"},
        "a minted one, of an actor outside of the key's globs": {**claims, "actor": "admin_human"},
        "a user outside of the key's globs": {**never, "acting_for": "mallory"},
        "a minted one, for somebody": {**claims, "acting_for": "carol"},
        "a minted one, of a wider scope": {**claims, "scope": "*"},
        "a minted one, that lives longer": {**claims, "exp": claims["exp"] + 1},
        "a minted one, of an earlier time": {**claims, "iat": claims["iat"] - 1, "nbf": claims["nbf"] - 1},
        "a minted one, whose uses are counted": {**claims, "counted": True},
        "a minted one, of another name of its key": {**claims, "sub": "root"},
        "the year 9999": {**never, "exp": 253402300799},
        "a minted one, in the year 9999": {**claims, "exp": 253402300799},
        "an id of the far future": {**claims, "jti": "tok_" + ulid(now + 10 * 365 * 86400)},
        "an id of the first moment": {**claims, "jti": "tok_" + ulid(0)},
        "not yet issued": {**never, "iat": now + 3600, "nbf": now, "exp": now + 7200},
        "over before it begins": {**never, "iat": now, "nbf": now - 10, "exp": now},
    }


def test_who_has_a_signing_key_makes_no_token_of_it(fresh, tmp_path):
    """Nothing that was not minted is let in, whoever signed it; nobody is told that it is active."""
    stack = fresh().start()
    stack.policy("base", POLICY)
    with stack.at_platform("root") as wire:
        wire.put("/api/v1/policies/base?tenant_id=another", {"content": POLICY})
    key = stack.key("fleet_bot", ["agent"], actors=["*_bot"], users=["carol", "dan"])
    thief, sizes = Thief(tmp_path, stolen_secret(stack)), set()
    assert thief.kid() in kids(stack), "it is the key that signs"
    with stack.at_engine(key) as wire:
        minted = wire.post(MINT, {"scope": "get_* refund", "ttl_seconds": 3600}).json
        review = wire.post(AGENT, {"action": "refund"}).json["review_id"]
        for what, claims in forgeries(parts(minted["token"])[1]).items():
            token = thief.sign(claims)
            sizes.add(len(token))
            with stack.at_engine(token) as forged:
                for reply in (forged.post(AGENT, {"action": "get_x"}), forged.post(TOOL, {"tool": "get_x"}),
                              forged.get(f"/v1/queue/{review}"), forged.get(f"/v1/queue/{review}/wait?timeout_ms=1"),
                              forged.post(f"/v1/queue/{review}/redeem", {"action": "refund"}),
                              forged.post(AGENT, {"action": "get_x"})):
                    assert reply.status == 401, (what, reply)
                    assert reply.json["code"] in ("token_unknown", "unauthenticated", "credential_revoked", "credential_expired"), what
            assert inactive(wire.post(INTROSPECT, {"token": token}).json), what
        listed = wire.get("/v1/tokens").json["tokens"]
    assert [one["token_id"] for one in listed] == [minted["token_id"]] and len(sizes) > 5
    assert works(stack, minted["token"])
    stack.engine.stop()


def test_a_token_is_asked_about_once_on_each_reactor(fresh):
    """Many connections meet many reactors."""
    stack = fresh(engine=["--reactors", "4"]).start()
    stack.policy("base", POLICY)
    key = stack.key("fleet_bot", ["agent"], actors=["*_bot"])
    token = mint_at(stack, key)
    crossed = [stack.metrics(stack.engine)["writ_engine_calls_crossed_total"]]
    for _ in range(2):
        with contextlib.ExitStack() as many:
            for _ in range(16):  # each is counted before the next is opened, which then goes to the reactor with the fewest
                wire = many.enter_context(stack.at_engine(token))
                assert wire.post(AGENT, {"action": "get_x"}).json["allowed"]
        crossed.append(stack.metrics(stack.engine)["writ_engine_calls_crossed_total"])
    assert crossed[0] < crossed[1], "who has not met it asks its slot"
    assert crossed[1] == crossed[2], "who has met it asks nobody"
    stack.engine.stop()


def test_a_damaged_signer_ends_the_start_with_its_name(fresh):
    stack = with_a_past(fresh())
    path = stack.engine_data / "engine" / "signers" / "signer-0000000001.key"
    path.write_text("writ-signer 1\n")
    path.chmod(0o600)
    stack.engine.start(ready=False)
    assert stack.engine.wait() == 2
    assert path.name in stack.engine.tail() and "damaged" in stack.engine.tail()


def test_tokens_outlive_the_engine(fresh):
    """Clean stop and kill -9: what was minted works, what was revoked or spent stays so, keys are the same."""
    stack = fresh().start()
    stack.policy("base", POLICY)
    key = stack.key("fleet_bot", ["agent"], actors=["*_bot"])
    jwks = None
    with stack.at_engine(key) as wire:
        live = wire.post(MINT, {"scope": "get_*", "ttl_seconds": 3600}).json
        dead = wire.post(MINT, {"scope": "get_*", "ttl_seconds": 3600}).json
        few = wire.post(MINT, {"scope": "get_*", "ttl_seconds": 3600, "max_uses": 3}).json
        retry = {"Idempotency-Key": "k"}
        kept = wire.post(MINT, {"scope": "get_*"}, headers=retry).json
        assert wire.delete(f"/v1/tokens/{dead['token_id']}").status == 200
        jwks = wire.get(JWKS).json
    with stack.at_engine(few["token"]) as wire:
        assert wire.post(AGENT, {"action": "get_x"}).json["allowed"]
    for turn, ended in enumerate((stack.engine.kill, stack.engine.stop)):
        ended()
        stack.engine.start()
        with stack.at_engine(None) as wire:
            assert wire.get(JWKS).json == jwks
        with stack.at_engine(live["token"]) as wire:
            assert wire.post(AGENT, {"action": "get_x"}).json["allowed"]
        with stack.at_engine(dead["token"]) as wire:
            refused(wire.post(AGENT, {"action": "get_x"}), 401, "credential_revoked")
        with stack.at_engine(few["token"]) as wire:
            assert wire.post(AGENT, {"action": "get_x"}).json["allowed"]
        with stack.at_engine(key) as wire:
            assert wire.post(INTROSPECT, {"token": few["token"]}).json.get("uses_left", 0) == 1 - turn
            again = wire.post(MINT, {"scope": "get_*"}, headers=retry).json
            assert again == {**kept, "replayed": True}
    with stack.at_engine(few["token"]) as wire:
        assert wire.post(AGENT, {"action": "get_x"}).json["rule"] == "token:uses"
    stack.engine.stop()


def test_a_token_without_uses_redeems_only_what_it_asked_itself(tokens):
    """The use of a request is spent when it is asked; who redeems what was asked otherwise spends one then."""
    def asked_with(credential, n):
        review = tokens.decided(credential, "refund", actor="pay_bot", args={"n": n})["review_id"]
        assert tokens.call("POST", f"/v1/queue/{review}/approve", reviewer, {}).status == 200
        return review

    def redeemed(review, credential, n, headers=None):
        return tokens.call("POST", f"/v1/queue/{review}/redeem", credential, {"action": "refund", "actor": "pay_bot", "args": {"n": n}}, headers).json

    reviewer = tokens.tenant.key("carla", ["reviewer"], owner="carla", reviewers=["carla"])
    once = tokens.mint("*", actor="pay_bot", max_uses=1)["token"]
    again, other = (tokens.mint("*", actor="pay_bot", max_uses=2)["token"] for _ in range(2))
    of_key, of_once, of_other = asked_with(tokens.key, 1), asked_with(once, 2), asked_with(other, 3)
    for review, n in (of_key, 1), (of_other, 3):
        assert redeemed(review, once, n)["rule"] == "token:uses"
    assert redeemed(of_once, once, 2)["allowed"], "its use was spent when it was asked"
    retry = {"Idempotency-Key": "k"}
    spent = redeemed(of_key, again, 1, retry)
    assert spent["allowed"] and redeemed(of_key, again, 1, retry) == {**spent, "replayed": True}, "and spends no other use"
    assert tokens.introspect(again)["uses_left"] == 1
    assert redeemed(of_other, again, 3)["allowed"]
    assert tokens.decided(again)["rule"] == "token:uses"
