"""An identity provider (OpenID Connect), as far as a relying party sees one, which can also lie.

It has no page: consent() stands for the person at the provider, and gives what the browser brings back. Signatures are
Ed25519, made by openssl, so that a token is not checked by the code that is tested.
"""

import base64
import hashlib
import http.server
import json
import secrets
import threading
import time
import urllib.parse

from authority import openssl


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Key:
    def __init__(self, folder, kid):
        self.kid, self.file, self.message = kid, folder / f"{kid}.pem", folder / f"{kid}.message"
        openssl("genpkey", "-algorithm", "ed25519", "-out", self.file)
        public = folder / f"{kid}.der"
        openssl("pkey", "-in", self.file, "-pubout", "-outform", "DER", "-out", public)
        self.jwk = {"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": kid, "x": encode(public.read_bytes()[-32:])}

    def sign(self, claims, **header):
        text = ".".join(encode(json.dumps(part).encode()) for part in ({"alg": "EdDSA", "kid": self.kid, "typ": "JWT", **header}, claims))
        signature = self.file.with_suffix(".signature")
        self.message.write_bytes(text.encode())
        openssl("pkeyutl", "-sign", "-inkey", self.file, "-rawin", "-in", self.message, "-out", signature)
        return f"{text}.{encode(signature.read_bytes())}"


class Provider:
    """One at http://127.0.0.1. `people` have the claims of their tokens."""

    def __init__(self, folder, client="writ", secret="a secret of the client"):
        self.folder, self.client, self.secret = folder, client, secret
        folder.mkdir(parents=True, exist_ok=True)
        self.secret_file = folder / "client_secret"
        self.secret_file.write_text(secret + "\n")
        self.secret_file.chmod(0o600)
        self.keys = [Key(folder, "first")]
        self.signer = self.keys[0]
        self.codes, self.tokens, self.exchanges = {}, [], []
        self.is_away = self.is_forgetful = False  # forgetful: a code works again and again
        self.lock = threading.Lock()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def handler(provider):  # noqa: N805
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status, body):
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_GET(self):
                pages = {"/.well-known/openid-configuration": provider.document, "/keys": lambda: {"keys": [key.jwk for key in provider.keys]}}
                if provider.is_away or self.path not in pages:
                    self.answer(503 if provider.is_away else 404, {})
                else:
                    self.answer(200, pages[self.path]())

            def do_POST(self):
                form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
                if provider.is_away:
                    self.answer(503, {})
                else:
                    self.answer(*provider.exchange(form, self.headers.get("Authorization")))

        return Handler

    def document(self):
        return {"issuer": self.issuer, "authorization_endpoint": f"{self.issuer}/authorize", "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys", "end_session_endpoint": f"{self.issuer}/end", "response_types_supported": ["code"],
                "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["EdDSA"],
                "code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": ["client_secret_basic"],
                "authorization_response_iss_parameter_supported": True}

    # ---- the person there ----

    def consent(self, url, person="carol", make=None, **claims):
        """What the browser brings back from this URL. `claims` replace those of the token (None: without); `make` gives the
        token from its claims, where they should not simply be signed."""
        asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))
        assert url.startswith(f"{self.issuer}/authorize?") and asked["response_type"] == "code" and asked["client_id"] == self.client
        assert asked["code_challenge_method"] == "S256" and len(asked["code_challenge"]) == 43 and "openid" in asked["scope"].split()
        code, now = secrets.token_urlsafe(30), int(time.time())
        token = {"iss": self.issuer, "sub": f"sub-of-{person}", "aud": self.client, "iat": now, "exp": now + 300, "nonce": asked["nonce"],
                 "preferred_username": person, "org": "default", "groups": ["finance"], **claims}
        with self.lock:
            self.codes[code] = {"asked": asked, "claims": {name: value for name, value in token.items() if value is not None}, "make": make, "uses": 0}
        return {"code": code, "state": asked["state"], "iss": self.issuer}

    def exchange(self, form, authorization):
        with self.lock:
            self.exchanges.append(form)
            code = self.codes.get(form.get("code"))
            shown = base64.b64decode((authorization or "").removeprefix("Basic ")).decode().split(":")
            if [urllib.parse.unquote_plus(part) for part in shown] != [self.client, self.secret]:
                return 401, {"error": "invalid_client"}
            if code is None or (code["uses"] and not self.is_forgetful) or form.get("redirect_uri") != code["asked"]["redirect_uri"]:
                return 400, {"error": "invalid_grant"}
            if encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest()) != code["asked"]["code_challenge"]:
                return 400, {"error": "invalid_grant"}
            code["uses"] += 1
            token = (code["make"] or self.signer.sign)(code["claims"])
            self.tokens.append(token)
            return 200, {"access_token": secrets.token_urlsafe(30), "token_type": "Bearer", "expires_in": 300, "id_token": token}

    def rotate(self, kid, keep=True):
        """Signs with another key from now on."""
        self.signer = Key(self.folder, kid)
        self.keys = [*(self.keys if keep else []), self.signer]
        return self.signer

    def secrets(self):
        """What must be in no log."""
        with self.lock:
            return [*self.codes, *self.tokens, self.secret, *(form["code_verifier"] for form in self.exchanges if "code_verifier" in form)]
