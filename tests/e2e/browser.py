"""A browser, as far as sessions see it: it keeps their cookies, and says which page a request is from."""

import urllib.parse

from wire import Wire


class Browser:
    """Of one platform, at http://127.0.0.1."""

    def __init__(self, address, origin=None, host=None):
        self.wire = Wire(address)
        scheme = "https" if self.wire.tls else "http"
        self.host = host or f"127.0.0.1:{address[1]}"
        self.origin = origin or f"{scheme}://{self.host}"
        self.cookie = self.token = self.session = self.flow = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wire.close()

    def request(self, method, path, body=None, **headers):
        """`headers`: with _ for -; None leaves one out that the page would send."""
        sent = {"Host": self.host}
        if self.cookie:
            sent["Cookie"] = self.cookie
        if method not in ("GET", "HEAD"):
            sent["Origin"] = self.origin
            if self.token:
                sent["Writ-CSRF-Token"] = self.token
        known = {name.lower(): name for name in sent}
        for name, value in headers.items():
            name = name.replace("_", "-")
            name = known.get(name.lower(), name)
            sent[name] = value
        return self.wire.request(method, path, body, headers=sent)

    def get(self, path, **headers):
        return self.request("GET", path, **headers)

    def post(self, path, body=None, **headers):
        return self.request("POST", path, body, **headers)

    def sign_in(self, key, **members):
        reply = self.post("/api/v1/session", {"key": key, **members})
        if reply.status == 201:
            self.session = reply.json
            self.token = self.session["csrf_token"]
            self.cookie = reply.header("Set-Cookie").split(";")[0]
        return reply

    # ---- at an identity provider ----

    def begin(self, name="partners"):
        """The URL at the provider."""
        reply = self.post(f"/api/v1/session/oidc/{name}")
        assert reply.status == 200, reply
        ((cookie, (value, _)),) = reply.cookies.items()
        self.flow = f"{cookie}={value}"
        return reply.json["authorization_url"]

    def come_back(self, answer, name="partners", **headers):
        """Follows the provider's link: with the cookie of the sign-in, and without the session's, which is Strict."""
        query = answer if isinstance(answer, str) else urllib.parse.urlencode(answer)
        reply = self.get(f"/api/v1/session/oidc/{name}/callback?{query}", **{"Cookie": self.flow, "Sec-Fetch-Site": "cross-site", **headers})
        for cookie, (value, attributes) in reply.cookies.items():
            if "flow" in cookie:
                assert not value and "Max-Age=0" in attributes, reply.cookies
                self.flow = None
            else:
                self.cookie = f"{cookie}={value}"
                self.session = self.get("/api/v1/session").json
                self.token = self.session["csrf_token"]
        return reply

    def sign_in_at(self, provider, person="carol", name="partners", **claims):
        answer, self.session = provider.consent(self.begin(name), person, **claims), None
        reply = self.come_back(answer, name)
        assert reply.status == 303 and self.session is not None, (reply, reply.header("Location"))
        return self
