"""HTTP/1.1 by hand: a keep-alive client that can pipeline, and can send what no library would.

A Wire is one connection. `request` sends one well-formed request and reads its reply; `send` and
`read_reply` are the two halves for those who pipeline or break the rules on purpose.
"""

import json
import os
import socket

# Longer than anything takes on a machine that others keep busy: who waits for so long waits in vain.
PATIENCE = 360.0 if os.environ.get("WRIT_VALGRIND") == "1" else 180.0


class Closed(Exception):
    """The server closed the connection before the reply was whole."""


class Reply:
    def __init__(self, status, reason, headers, body):
        self.status, self.reason, self.headers, self.body = status, reason, headers, body

    def header(self, name):
        """The one value of a header, or None; a doubled header is an error of the server's."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        assert len(values) < 2, f"{name} is given {len(values)} times"
        return values[0] if values else None

    @property
    def cookies(self):
        """{name: (value, attributes)} that it sets."""
        given = [value.split("; ") for key, value in self.headers if key.lower() == "set-cookie"]
        found = {first.split("=", 1)[0]: (first.split("=", 1)[1], attributes) for first, *attributes in given}
        assert len(found) == len(given), given
        return found

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:600]!r}>"


class Secure(tuple):
    """(host, port) of a program that speaks TLS there."""

    def __new__(cls, address, context):
        one = super().__new__(cls, address)
        one.context = context
        return one


class Wire:
    watch = None  # (address, method, path, body, reply): is told each request

    def __init__(self, address, key=None, timeout=PATIENCE, tls=None):
        """`address` is (host, port), or the path of a Unix socket; `tls` an ssl.SSLContext."""
        self.address, self.key, self.timeout = address, key, timeout
        self.tls = tls or getattr(address, "context", None)
        self.socket, self.buffer = None, b""

    def open(self):
        if self.socket is None:
            if isinstance(self.address, tuple):
                self.socket = socket.create_connection(self.address, self.timeout)
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            else:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.settimeout(self.timeout)
                self.socket.connect(str(self.address))
            if self.tls is not None:
                self.socket = self.tls.wrap_socket(self.socket, server_hostname="localhost")
            self.buffer = b""
        return self

    def close(self):
        if self.socket is not None:
            self.socket.close()
            self.socket = None

    def __enter__(self):
        return self.open()

    def __exit__(self, *_):
        self.close()

    def encode(self, method, path, body=None, headers=None):
        """The bytes of one request; an object becomes JSON."""
        lines = {"Host": "writ.test"}
        if self.key:
            lines["Authorization"] = f"Bearer {self.key}"
        if body is not None:
            if not isinstance(body, (bytes, str)):
                body = json.dumps(body, ensure_ascii=False)
            if isinstance(body, str):
                body = body.encode()
            lines["Content-Type"] = "application/json"
            lines["Content-Length"] = str(len(body))
        elif method in ("POST", "PUT"):
            lines["Content-Length"] = "0"
        for name, value in (headers or {}).items():
            same = next((known for known in lines if known.lower() == name.lower()), name)
            if value is None:
                lines.pop(same, None)
            else:
                lines[same] = value
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return head.encode() + b"\r\n" + (body or b"")

    def send(self, data):
        self.open().socket.sendall(data)

    def _more(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise Closed(f"closed with {len(self.buffer)} bytes of a reply: {self.buffer[:200]!r}")
        self.buffer += data

    def read_reply(self, method="GET"):
        """Reads one reply. An interim 100 is given as any other."""
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        version, status, reason = lines[0].split(" ", 2)
        assert version == "HTTP/1.1", lines[0]
        headers = [tuple(line.split(": ", 1)) for line in lines[1:]]
        reply = Reply(int(status), reason, headers, b"")
        if method == "HEAD" or reply.status in (100, 204, 304):
            return reply
        length = int(reply.header("content-length"))
        while len(self.buffer) < length:
            self._more()
        reply.body, self.buffer = self.buffer[:length], self.buffer[length:]
        return reply

    def request(self, method, path, body=None, headers=None):
        """One request and its reply; a connection that the server closed while idle is reopened."""
        data = self.encode(method, path, body, headers)
        fresh = self.socket is None
        try:
            self.send(data)
            reply = self.read_reply(method)
        except (Closed, ConnectionError, BrokenPipeError):
            self.close()
            if fresh:
                raise
            self.send(data)
            reply = self.read_reply(method)
        if (reply.header("connection") or "").lower() == "close":
            self.close()
        if Wire.watch is not None:
            Wire.watch(self.address, method, path, body, reply)
        return reply

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, body=None, **options):
        return self.request("POST", path, body, **options)

    def put(self, path, body=None, **options):
        return self.request("PUT", path, body, **options)

    def delete(self, path, **options):
        return self.request("DELETE", path, **options)

    def raw(self, data, method="GET"):
        """Sends bytes as they are on a fresh connection and reads one reply."""
        self.close()
        self.send(data)
        try:
            return self.read_reply(method)
        finally:
            self.close()

    def is_closed_by_server(self):
        """Whether the server has closed its side (waits for it as long as the timeout)."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except socket.timeout:
            return False
