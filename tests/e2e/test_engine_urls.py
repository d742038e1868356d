"""A platform with the addresses of several engines: which one it asks, and what it never sends twice."""

import contextlib
import http.server
import json
import subprocess
import threading

import pytest

import harness
from harness import free_port

AGENT = "/v1/agent/authorize"


class Engine(http.server.ThreadingHTTPServer):
    """Stands in for an engine; `answer`: (status, object), or None to hang up behind the request."""

    daemon_threads = True

    def __init__(self, name, answer):
        self.name, self.answer, self.got = name, answer, []

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.server.got.append((self.command, self.path, body.decode(), self.headers.get("Authorization")))
                if self.server.answer is None:
                    self.close_connection = True
                    return
                status, value = self.server.answer
                text = json.dumps(value, separators=(",", ":")).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_DELETE = handle_any

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


ALLOW = (200, {"decision": "allow"})


def refuses(code):
    return 503, {"code": code, "error": "x"}


@contextlib.contextmanager
def platform_of(stack, *engines):
    """The platform, with these engines; a text is the address of none."""
    urls = [engine if isinstance(engine, str) else engine.url for engine in engines]
    stack.platform.stop()
    kept = list(stack.platform.arguments)
    stack.platform.arguments += ["--engine.url", ",".join(urls)]
    stack.platform.start()
    try:
        with stack.at_platform("agent") as wire:
            yield wire
    finally:
        stack.platform.stop()
        stack.platform.arguments = kept
        stack.platform.start()
        for engine in engines:
            if not isinstance(engine, str):
                engine.shutdown()
                engine.server_close()


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    one = harness.Stack(tmp_path_factory.mktemp("urls"))
    one.make_first_keys()
    one.platform.start()
    yield one
    one.close()


def nowhere():
    return f"http://127.0.0.1:{free_port()}"


def test_the_next_engine_is_asked_where_the_one_before_has_done_nothing(stack):
    body = {"action": "get_x"}
    first, second, third = Engine("a", refuses("no_leader")), Engine("b", refuses("leader_changed")), Engine("c", ALLOW)
    with platform_of(stack, nowhere(), first, second, third) as wire:
        reply = wire.post(AGENT, body)
        assert reply.status == 200 and reply.json["decision"] == "allow", reply
        assert [len(engine.got) for engine in (first, second, third)] == [1, 1, 1]
        assert first.got == third.got and json.loads(third.got[0][2]) == body and third.got[0][3].startswith("Bearer wk_"), third.got
        assert wire.post(AGENT, body).status == 200  # the one that answered is asked first from then on
        assert [len(engine.got) for engine in (first, second, third)] == [1, 1, 2]


def test_what_may_have_been_done_is_not_sent_again(stack):
    first, second = Engine("a", None), Engine("b", ALLOW)
    with platform_of(stack, first, second) as wire:
        reply = wire.post(AGENT, {"action": "get_x"})
        assert reply.status == 502 and reply.json["code"] == "upstream_failed", reply
        assert (len(first.got), len(second.got)) == (1, 0)
        assert wire.request("DELETE", "/v1/tokens/tok_x").status == 502
        assert (len(first.got), len(second.got)) == (2, 0)
        assert wire.get("/v1/queue").status == 200  # a read is
        assert (len(first.got), len(second.got)) == (3, 1)
    for code in ("outcome_unknown", "overloaded"):
        first, second = Engine("a", refuses(code)), Engine("b", ALLOW)
        with platform_of(stack, first, second) as wire:
            reply = wire.post(AGENT, {"action": "get_x"})
            assert reply.status == 503 and reply.json["code"] == code and not second.got, reply


def test_each_engine_is_asked_once(stack):
    first, second = Engine("a", refuses("no_leader")), Engine("b", refuses("no_leader"))
    with platform_of(stack, first, second) as wire:
        reply = wire.post(AGENT, {"action": "get_x"})
        assert reply.status == 503 and reply.json["code"] == "no_leader", reply
        assert (len(first.got), len(second.got)) == (1, 1)
    with platform_of(stack, nowhere(), nowhere()) as wire:
        assert wire.post(AGENT, {"action": "get_x"}).status == 502


@pytest.mark.parametrize("urls", ["http://a:1,", ",http://a:1", "http://a:1,,http://b:1", "http://a:1, http://b:1", "http://a:1,b:1",
                                  ",".join(["http://a:1"] * 9), f"http://{'a' * 300}:1"])
def test_addresses_that_are_wrong_are_refused(stack, urls):
    done = subprocess.run([str(harness.BIN / "writ-platform"), "--engine.url", urls], capture_output=True, text=True, timeout=harness.PATIENCE)
    assert done.returncode == 2 and "engine.url" in done.stderr and "commas" in done.stderr, done
