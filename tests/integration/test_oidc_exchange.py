"""The exchange of a sign-in's code at a real identity provider, by the platform's thread for providers (oidc_driver.c)."""

import base64
import hashlib
import secrets
import subprocess
import urllib.parse

import pytest

import harness
from authority import Authority
from provider import Provider

REDIRECT = "http://127.0.0.1:9/callback"
USERS = {"carol": {"groups": ["finance", "staff"]}, "dan": {"groups": ["staff"]}}
REVIEWER = 4


class Driver:
    def __init__(self, provider, secret="", client="writ", ca_file=""):
        self.process = subprocess.Popen([harness.BIN.parent / "tests" / "oidc_driver", provider.issuer, client, str(secret), str(ca_file)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.client = client
        self.word, self.endpoint = self.process.stdout.readline().strip().split(" ", 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait(harness.PATIENCE) == 0

    def code(self, provider, user="carol", nonce="n-1"):
        """A code, and its verifier."""
        verifier = secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = urllib.parse.urlencode({"client_id": self.client, "response_type": "code", "scope": "openid", "redirect_uri": REDIRECT,
                                        "code_challenge": challenge, "code_challenge_method": "S256", "nonce": nonce, "state": "s"})
        location = provider.sign_in(f"{self.endpoint}?{query}", user, REDIRECT)
        return urllib.parse.parse_qs(urllib.parse.urlsplit(location).query)["code"][0], verifier

    def exchange(self, code, verifier, nonce="n-1", redirect=REDIRECT):
        self.process.stdin.write(f"{code} {verifier} {redirect} {nonce}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@pytest.fixture(params=["RS256", "ES256", "EdDSA"])
def provider(request, tmp_path):
    it = Provider(tmp_path, users=USERS, alg=request.param, redirect_uris=[REDIRECT])
    yield it
    it.stop()


def test_a_code_becomes_a_person_once(provider):
    with Driver(provider, provider.secret_file) as driver:
        assert driver.word == "ready"
        code, verifier = driver.code(provider)
        assert driver.exchange(code, verifier) == f"person carol acme {REVIEWER}"
        assert driver.exchange(code, verifier).startswith("refused unauthenticated "), "the code was used"
        assert "used already" in driver.exchange(*driver.code(provider)[:1], secrets.token_urlsafe(48)), "another verifier"
        code, verifier = driver.code(provider)
        assert driver.exchange(code, verifier, redirect=REDIRECT + "2").startswith("refused unauthenticated ")
        assert "nonce" in driver.exchange(*driver.code(provider, nonce="n-2"))
        assert driver.exchange(*driver.code(provider, "dan")).startswith("refused identity_refused ")
        provider.control("rotate", keep=False)
        assert driver.exchange(*driver.code(provider)) == f"person carol acme {REVIEWER}", "a key that was made since the last fetch"
        code, verifier = driver.code(provider)
        provider.control("away", away=True)
        assert driver.exchange(code, verifier).startswith("refused provider_unavailable ")


def test_a_wrong_secret_is_named_and_a_public_client_needs_none(tmp_path):
    public = {"client_id": "public", "token_endpoint_auth_method": "none", "redirect_uris": [REDIRECT]}
    private = {"client_id": "wr it+", "client_secret": "a secret, with %+: and more of it", "redirect_uris": [REDIRECT]}
    provider = Provider(tmp_path, users=USERS, clients=[public, private])
    try:
        with Driver(provider, client="public") as driver:
            assert driver.exchange(*driver.code(provider)) == f"person carol acme {REVIEWER}"
        provider.secret_file.write_text(private["client_secret"])
        with Driver(provider, provider.secret_file, client=private["client_id"]) as driver:
            assert driver.exchange(*driver.code(provider)) == f"person carol acme {REVIEWER}"
            provider.secret_file.write_text("another secret")  # it is read at each exchange
            told = driver.exchange(*driver.code(provider))
            assert told.startswith("refused provider_unavailable ") and "invalid_client" in told and "secret" not in told
    finally:
        provider.stop()


def test_a_provider_with_tls_needs_an_authority_that_is_known(tmp_path):
    authority = Authority(tmp_path / "ca")
    pair = authority.pair("provider")
    provider = Provider(tmp_path, users=USERS, tls={"cert": str(pair.cert), "key": str(pair.key)})
    try:
        with Driver(provider, provider.secret_file, ca_file=authority.cert) as driver:
            assert driver.word == "ready", driver.endpoint
        with Driver(provider, provider.secret_file) as driver:
            assert driver.word == "away" and "certificate" in driver.endpoint
    finally:
        provider.stop()
