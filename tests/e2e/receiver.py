"""A receiver of webhooks, as far as a sender sees one: it keeps what is posted, and does what `modes` says for a path.

A mode is a status to answer with, or a way to misbehave: "silent" never answers, "redirect" leads to another path of it,
"huge" answers 10 MB after a 200, "huge-head" sends headers without an end, "liar" promises more than it sends, "drip" sends
a byte now and then, "no-http" speaks something else.
"""

import base64
import hashlib
import hmac
import http.server
import json
import socket
import threading
import time

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


class Message:
    def __init__(self, path, headers, body):
        self.path, self.headers, self.body = path, {name.lower(): value for name, value in headers.items()}, body
        self.id = self.headers.get("webhook-id")

    @property
    def json(self):
        return json.loads(self.body)


def verify(message, secret=SECRET):
    """What standardwebhooks.com asks of a receiver, in its own few lines; the message's body as JSON."""
    stamp = message.headers["webhook-timestamp"]
    assert abs(time.time() - int(stamp)) < 300, "the timestamp is too old or too new"
    key = base64.b64decode(secret.removeprefix("whsec_"))
    right = base64.b64encode(hmac.new(key, f"{message.id}.{stamp}.".encode() + message.body, hashlib.sha256).digest()).decode()
    assert any(hmac.compare_digest(f"v1,{right}", one) for one in message.headers["webhook-signature"].split(" ")), "the signature is wrong"
    return message.json


class Receiver:
    def __init__(self):
        self.modes, self.messages, self.port, self.delay = {}, [], 0, 0
        self.lock, self.freed = threading.Lock(), threading.Event()

    def misbehave(self, handler, mode):
        wfile = handler.wfile
        if mode == "redirect":
            handler.send_response(307)
            handler.send_header("Location", f"{self.url}/elsewhere")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        elif mode == "huge":
            wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10485760\r\n\r\n")
            for _ in range(160):
                wfile.write(bytes(65536))
        elif mode == "huge-head":
            wfile.write(b"HTTP/1.1 200 OK\r\n")
            for number in range(10000):
                wfile.write(f"X-{number}: {'x' * 900}\r\n".encode())
        elif mode == "liar":
            wfile.write(b"HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\nhalf")
        elif mode == "drip":
            wfile.write(b"HTTP/1.1 ")
            while not self.freed.wait(0.2):
                wfile.write(b" ")
        elif mode == "no-http":
            wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        elif mode == "silent":
            self.freed.wait()
        else:
            raise AssertionError(mode)
        handler.close_connection = True

    def start(self):
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                mode = receiver.modes.get(self.path, 200)
                with receiver.lock:
                    receiver.messages.append(Message(self.path, self.headers, body))
                try:
                    if not isinstance(mode, int):
                        receiver.misbehave(self, mode)
                        return
                    receiver.freed.wait(receiver.delay)
                    self.send_response(mode)
                    self.send_header("Content-Length", "2")
                    if mode == 429:
                        self.send_header("Retry-After", "1")
                    self.end_headers()
                    self.wfile.write(b"ok")
                except OSError:
                    self.close_connection = True  # the other side had read enough

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

        self.freed.clear()
        self.server = Server(("127.0.0.1", self.port), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self):
        self.freed.set()
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def at(self, path):
        with self.lock:
            return [message for message in self.messages if message.path == path]


class MailServer:
    """A real SMTP server (aiosmtpd): the envelopes that it took."""

    def __init__(self, **options):
        from aiosmtpd.controller import Controller
        server, self.envelopes = self, []

        class Handler:
            async def handle_DATA(self, _server, _session, envelope):
                server.envelopes.append(envelope)
                return "250 taken"

        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.controller = Controller(Handler(), hostname="127.0.0.1", port=self.port, **options)

    def __enter__(self):
        self.controller.start()
        return self

    def __exit__(self, *_):
        self.controller.stop()
