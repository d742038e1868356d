"""A test double: a server on this machine that answers as the engine does, from rules that a test sets.

    with writ_client.testing.Engine() as engine:
        engine.allow("get_*")
        engine.review("issue_refund")
        client = engine.client(wait=5)
        ...
        engine.approve()

It decides by the first rule whose pattern fits the action; without one it denies. It keeps the engine's promises about
reviews: an approval is good once, for the same request, and a retry of its redemption with the same Idempotency-Key gets
the same answer. It has no limits, tokens and confidence.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
import threading
import time
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from .client import AsyncClient, Client
from .values import decode

_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_UNBOUND = ("confidence", "trace_id", "tool_call_id", "conversation_id")  # a request may differ in these and be the same
_NOT_ALLOWED = (404, {"code": "not_found", "error": "no resource has this name"})

Members = Dict[str, Any]


def _id(prefix: str) -> str:
    number = uuid.uuid4().int
    return prefix + "".join(_LETTERS[number >> (5 * place) & 31] for place in range(26))


def _now(after: float = 0.0) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + after))


@dataclass
class Review:
    id: str
    request: Members
    rule: str
    status: str = "pending"
    by: str = ""
    event: threading.Event = field(default_factory=threading.Event)


@dataclass
class _Rule:
    pattern: str
    word: str
    reason: str
    when: Callable[[Mapping[str, Any]], bool]
    safe: Optional[Tuple[str, Members]] = None


class Engine:
    """The double. `requests` has the body of each decision that was asked for."""

    KEY = "wk_test"

    def __init__(self) -> None:
        self.requests: List[Members] = []
        self.reviews: Dict[str, Review] = {}
        self._rules: List[_Rule] = []
        self._replies: Dict[Tuple[str, str], Tuple[bytes, Tuple[int, Members]]] = {}
        self._lock, self._away = threading.RLock(), False
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "Engine":
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        with self._lock:
            for review in self.reviews.values():
                review.event.set()
        self._server.shutdown()
        self._server.server_close()

    def client(self, **settings: Any) -> Client:
        return Client(self.url, self.KEY, **settings)

    def async_client(self, **settings: Any) -> AsyncClient:
        return AsyncClient(self.url, self.KEY, **settings)

    # ---- what a test sets ----

    def _rule(self, pattern: str, word: str, reason: str, when: Optional[Callable[[Mapping[str, Any]], bool]], safe: Optional[Tuple[str, Members]] = None) -> None:
        with self._lock:
            self._rules.append(_Rule(pattern, word, reason, when or (lambda _: True), safe))

    def allow(self, pattern: str, *, when: Optional[Callable[[Mapping[str, Any]], bool]] = None) -> None:
        """`when` gets the request; a rule that does not fit is passed over."""
        self._rule(pattern, "allow", "A rule of the test allows this.", when)

    def deny(self, pattern: str, reason: str = "A rule of the test denies this.", *, when: Optional[Callable[[Mapping[str, Any]], bool]] = None) -> None:
        self._rule(pattern, "deny", reason, when)

    def compute(self, pattern: str, tool: str, args: Mapping[str, Any], *, when: Optional[Callable[[Mapping[str, Any]], bool]] = None) -> None:
        self._rule(pattern, "compute", "A rule of the test replaces this.", when, (tool, dict(args)))

    def review(self, pattern: str, *, when: Optional[Callable[[Mapping[str, Any]], bool]] = None) -> None:
        self._rule(pattern, "human_review", "A rule of the test asks a person.", when)

    def away(self, away: bool = True) -> None:
        """Away: each request is answered 503, with Retry-After beyond any deadline."""
        with self._lock:
            self._away = away

    # ---- what a person does ----

    def pending(self, seconds: float = 5.0) -> Review:
        """The oldest pending review, as soon as there is one."""
        end = time.monotonic() + seconds
        while True:
            with self._lock:
                found = [review for review in self.reviews.values() if review.status == "pending"]
            if found:
                return found[0]
            if time.monotonic() > end:
                raise AssertionError(f"no review is pending after {seconds} s")
            time.sleep(0.005)

    def approve(self, review_id: Optional[str] = None, by: str = "a person") -> Review:
        return self.resolve("approved", review_id, by)

    def refuse(self, review_id: Optional[str] = None, by: str = "a person") -> Review:
        return self.resolve("denied", review_id, by)

    def resolve(self, status: str, review_id: Optional[str] = None, by: str = "a person") -> Review:
        """Ends a review as approved, denied, expired, cancelled or lapsed."""
        review = self.reviews[review_id] if review_id else self.pending()
        with self._lock:
            review.status, review.by = status, by
            review.event.set()
        return review

    # ---- what the engine does ----

    def answer(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Tuple[int, Members, Dict[str, str]]:
        """(status, members, headers)"""
        if self._away:
            return 503, {"code": "draining", "error": "shutting down"}, {"Retry-After": "3600"}
        if headers.get("authorization") != f"Bearer {self.KEY}":
            return 401, {"code": "unauthenticated", "error": "no valid credential was presented"}, {}
        match = re.fullmatch(r"/v1/queue/(rev_[0-9A-HJKMNP-TV-Z]{26})/(wait|redeem)", path)
        if method == "GET" and match and match[2] == "wait":
            return (*self._wait(match[1], query), {})
        if method == "POST" and (path == "/v1/agent/authorize" or (match and match[2] == "redeem")):
            try:
                asked = decode(body)
            except ValueError as error:
                return 400, {"code": "malformed_json", "error": str(error)}, {}
            if not isinstance(asked, dict) or not isinstance(asked.get("action"), str):
                return 400, {"code": "missing_member", "error": "action: is missing"}, {}
            return (*self._post(path, headers.get("idempotency-key", ""), body, lambda: self._redeem(match[1], asked) if match else self._authorize(asked)), {})
        return (*_NOT_ALLOWED, {})

    def _post(self, path: str, key: str, body: bytes, work: Callable[[], Tuple[int, Members]]) -> Tuple[int, Members]:
        with self._lock:
            known = self._replies.get((path, key)) if key else None
            if known is not None:
                digest, (status, members) = known
                if digest != hashlib.sha256(body).digest():
                    return 422, {"code": "idempotency_mismatch", "error": "this idempotency key was used with another body"}
                return status, {**members, "replayed": True}
            reply = work()
            if key and path != "/v1/agent/authorize" and reply[1].get("decision") in ("allow", "compute"):
                self._replies[path, key] = (hashlib.sha256(body).digest(), reply)
            return reply

    @staticmethod
    def _decision(word: str, rule: str, reason: str, asked: Members, **more: Any) -> Tuple[int, Members]:
        digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
        return 200, {"request_id": _id("req_"), "trace_id": asked.get("trace_id") or uuid.uuid4().hex, "allowed": word == "allow",
                     "requires_human_review": word == "human_review", "compute": word == "compute", "decision": word, "reason": reason, "rule": rule,
                     "policy_digest": digest, "latency_ms": 0.01, "mode": "live", "timestamp": _now(), "input_hash": digest, "output_hash": digest, **more}

    def _find(self, asked: Members) -> Optional[_Rule]:
        return next((rule for rule in self._rules if self._fits(rule, asked["action"]) and rule.when(asked)), None)

    @staticmethod
    def _fits(rule: _Rule, action: str) -> bool:
        """As in policies, what makes a decision stricter ignores case."""
        if rule.word in ("deny", "human_review"):
            return fnmatch.fnmatchcase(action.lower(), rule.pattern.lower())
        return fnmatch.fnmatchcase(action, rule.pattern)

    def _authorize(self, asked: Members) -> Tuple[int, Members]:
        self.requests.append(asked)
        rule = self._find(asked)
        if rule is None:
            return self._decision("deny", "default:deny", "No rule of any policy applies, so it is denied.", asked)
        if rule.word != "human_review":
            return self._obey(rule, asked)
        review = next((one for one in self.reviews.values() if one.status in ("pending", "approved") and self._same(one.request, asked)), None)
        if review is None:
            review = Review(_id("rev_"), asked, rule.pattern)
            self.reviews[review.id] = review
        more = {"review_status": "approved"} if review.status == "approved" else {}
        return self._decision("human_review", f"review:{rule.pattern}", rule.reason, asked, review_id=review.id, expires_at=_now(1800), **more)

    def _obey(self, rule: _Rule, asked: Members, **more: Any) -> Tuple[int, Members]:
        if rule.safe is not None:
            more.update({"safe_tool": rule.safe[0], "safe_args": rule.safe[1]})
        return self._decision(rule.word, f"{rule.word}:{rule.pattern}", rule.reason, asked, **more)

    @staticmethod
    def _same(one: Members, other: Members) -> bool:
        def bound(request: Members) -> Members:
            return {name: value for name, value in request.items() if name not in _UNBOUND}

        return bound(one) == bound(other)

    def _redeem(self, review_id: str, asked: Members) -> Tuple[int, Members]:
        review = self.reviews.get(review_id)
        if review is None:
            return _NOT_ALLOWED
        named = {"review_id": review.id}
        if review.status != "approved":
            return self._decision("deny", f"review:{review.status}", f"The review is {review.status}.", asked, **named)
        if not self._same(review.request, asked):
            return self._decision("deny", "review:binding", "The request is not the one that was approved.", asked, **named)
        rule = self._find(asked)
        if rule is None:
            return self._decision("deny", "default:deny", "No rule of any policy applies, so it is denied.", asked, **named)
        if rule.word == "deny":
            return self._obey(rule, asked, **named)
        review.status = "redeemed"
        named["redemption_id"] = _id("evt_")
        if rule.word == "compute":
            return self._obey(rule, asked, **named)
        return self._decision("allow", f"allow:{rule.pattern}", "A person has approved this.", asked, **named)

    def _wait(self, review_id: str, query: str) -> Tuple[int, Members]:
        review = self.reviews.get(review_id)
        if review is None:
            return _NOT_ALLOWED
        match = re.search(r"timeout_ms=(\d+)", query)
        review.event.wait(min(int(match[1]) if match else 30000, 60000) / 1000)
        asked = review.request
        found = {"id": review.id, "trace_id": asked.get("trace_id", "trace"), "request_id": "req", "tenant_id": "default", "kind": "agent", "key_id": "key",
                 "action": asked["action"], "args": asked.get("args", {}), "reason": "A rule of the test asks a person.", "rule": f"review:{review.rule}",
                 "policy_digest": "0" * 64, "binding_hash": "0" * 64, "enqueued_at": _now(), "expires_at": _now(1800), "status": review.status, "approvals_required": 1, "approvals": []}
        if review.status != "pending":
            found.update({"resolved_at": _now(), "resolved_by": review.by})
        if review.status == "approved":
            found["approval_expires_at"] = _now(900)
        return 200, {**found, **({"actor": asked["actor"]} if "actor" in asked else {})}


class _Server(ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 1024

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no fault of the test."""


def _handler(engine: Engine) -> "type[BaseHTTPRequestHandler]":
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: Any) -> None:
            pass

        def reply(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path, _, query = self.path.partition("?")
            status, members, more = engine.answer(self.command, path, query, {name.lower(): value for name, value in self.headers.items()}, body)
            text = json.dumps(members).encode()
            self.send_response(status)
            sent = {"Content-Type": "application/json", "Content-Length": str(len(text)), **more}
            if self.headers.get("X-Request-ID"):
                sent["X-Request-ID"] = self.headers["X-Request-ID"]
            for name, value in sent.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = reply

    return Handler
