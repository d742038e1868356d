"""A browser, as far as sessions see it: it keeps one cookie, and says which page a request is from."""

from wire import Wire


class Browser:
    """Of one platform, at http://127.0.0.1."""

    def __init__(self, address, origin=None, host=None):
        self.wire = Wire(address)
        scheme = "https" if self.wire.tls else "http"
        self.host = host or f"127.0.0.1:{address[1]}"
        self.origin = origin or f"{scheme}://{self.host}"
        self.cookie = self.token = self.session = None

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
