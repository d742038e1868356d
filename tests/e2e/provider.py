"""An identity provider for the tests: oidc_provider.mjs in a process of its own, which ends with the test."""

import http.cookiejar
import json
import pathlib
import select
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
SECRET = "writ-secret-of-32-characters-0001"
START_SECONDS = 60


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments):
        return None


class Provider:
    """`config` is that of oidc_provider.mjs."""

    def __init__(self, folder, **config):
        if not (TOP / "build/clients/oidc/node_modules").exists():
            pytest.skip("build/clients/oidc is not installed: see ops/setup")
        self.secret_file = pathlib.Path(folder) / "client.secret"
        self.secret_file.write_text(SECRET + "\n")
        self.secret_file.chmod(0o600)
        file = pathlib.Path(folder) / "provider.json"
        file.write_text(json.dumps(config))
        self.config = file
        self.process, self.port = None, 0
        self.start()

    def start(self):
        config = json.loads(self.config.read_text()) | ({"port": self.port} if self.port else {})
        self.config.write_text(json.dumps(config))
        # Node 20 was seen to wait for itself before it had read the script: then it is started once more.
        line = self.first_line() or self.first_line()
        assert line, "oidc_provider.mjs has not started"
        self.issuer = json.loads(line)["issuer"]
        self.port = int(self.issuer.rsplit(":", 1)[1])

    def first_line(self):
        self.process = subprocess.Popen(["node", TOP / "tests/e2e/oidc_provider.mjs", self.config],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if select.select([self.process.stdout], [], [], START_SECONDS)[0]:
            return self.process.stdout.readline()
        self.stop()
        print(f"oidc_provider.mjs printed nothing within {START_SECONDS} s")
        return ""

    def stop(self):
        self.process.kill()
        self.process.wait()

    def options(self, name="test"):
        """The options oidc.NAME.… for the default client; a test adds tenant and roles."""
        return {f"oidc.{name}.issuer": self.issuer, f"oidc.{name}.client_id": "writ",
                f"oidc.{name}.client_secret_file": str(self.secret_file),
                f"oidc.{name}.insecure_loopback": "true"}

    def control(self, path, **body):
        with urllib.request.urlopen(urllib.request.Request(f"{self.issuer}/test/{path}", data=json.dumps(body).encode()), timeout=30) as r:
            return json.load(r)

    def token(self, claims=None, header=None, key="current"):
        """A JWT with these claims, signed by the provider's key; a claim that is None is left out."""
        return self.control("token", claims=claims or {}, header=header or {}, key=key)["token"]

    def published(self):
        with urllib.request.urlopen(f"{self.issuer}/jwks", timeout=30) as r:
            return json.load(r)["keys"]

    def requests(self, path):
        with urllib.request.urlopen(f"{self.issuer}/test/requests", timeout=30) as r:
            return json.load(r).get(path, 0)

    def sign_in(self, url, user, redirect_uri):
        """What a browser does from the authorization URL on: the redirect with the code, which is not followed."""
        browser = urllib.request.build_opener(NoRedirect, urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        data = None
        for _ in range(10):
            try:
                with browser.open(urllib.request.Request(url, data=data), timeout=30):
                    assert data is None, "the sign-in did not continue"
                    data = urllib.parse.urlencode({"user": user}).encode()  # the form of the interaction page
                    continue
            except urllib.error.HTTPError as error:
                assert error.code in (302, 303), f"{error.code} {error.read()[:500]}"
                url, data = urllib.parse.urljoin(url, error.headers["location"]), None
                if url.startswith(redirect_uri):
                    return url
        raise AssertionError("no redirect to the client")
