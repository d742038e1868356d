"""An OpenTelemetry collector, as far as an exporter sees one: it notes what is posted to /v1/traces.

`mode` says what it does with the next request: a status to answer with, or "silent", which takes the
connection and never says a word. stop() closes its port, start() opens the same one again.
"""

import http.server
import json
import socket
import threading


class Collector:
    def __init__(self):
        self.mode, self.requests, self.port = 200, [], 0
        self.lock, self.freed = threading.Lock(), threading.Event()
        self.server, self.connections = None, []

    def start(self):
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                collector.connections.append(self.connection)

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                mode = collector.mode
                if mode == "silent":
                    collector.freed.wait()
                    return
                if mode == 200:
                    with collector.lock:
                        collector.requests.append((self.path, self.headers["content-type"], body))
                self.send_response(mode)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self.freed.clear()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self):
        self.freed.set()
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None
        for connection in self.connections:  # a kept one would outlive its server
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended by itself
        self.connections = []

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def spans(self):
        """Every span that was taken, with `attributes` and `resource` as plain dictionaries."""
        found = []
        with self.lock:
            requests = list(self.requests)
        for path, kind, body in requests:
            assert (path, kind) == ("/v1/traces", "application/json")
            for resource in json.loads(body)["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    found += [{**span, "attributes": plain(span["attributes"]),
                               "resource": plain(resource["resource"]["attributes"])} for span in scope["spans"]]
        return found


def plain(attributes):
    values = {}
    for attribute in attributes:
        assert attribute["key"] not in values, "an attribute is given twice"
        (kind, value), = attribute["value"].items()
        values[attribute["key"]] = {"stringValue": str, "intValue": int}[kind](value)
    return values
