"""Requests to the engine: one total deadline, retries, and a pause after an outage."""

from __future__ import annotations

import contextlib
import email.utils
import logging
import random
import re
import ssl
import time
import uuid
from typing import Any, AsyncIterator, Dict, List, Optional

import anyio
import httpx
from anyio.lowlevel import RunVar

from .answers import BODY_MAX, Answer, error_of, read_minted
from .errors import NoDecision
from .values import encode

log = logging.getLogger("writ_client")

BACKOFF_FIRST, BACKOFF_MAX = 0.1, 2.0
CONNECTIONS_MAX = 64  # for decisions, in each event loop
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts no certificate at all
RENEWABLE = ("credential_expired", "token_unknown")  # a revoked token is not replaced: somebody ended it


class Lost(Exception):
    """The request may have reached the engine, and its answer was not read to the end."""


class NotSent(Exception):
    """The connection was never made."""


class Deadline:
    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    def left(self) -> float:
        return self.end - time.monotonic()


class Pause:
    """After an outage nothing is asked for a while; then one call finds out whether it is over."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.until = seconds, 0.0

    def check(self) -> None:
        now = time.monotonic()
        if now < self.until:
            raise NoDecision(f"The engine was away a moment ago; it is asked again in {self.until - now:.1f} s.", outage=True)
        if self.until:
            self.until = now + self.seconds  # this call asks; the others do not until it has an answer

    def begin(self) -> None:
        self.until = time.monotonic() + self.seconds

    def end(self) -> None:
        self.until = 0.0


def _is_tls(error: Optional[BaseException]) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _retry_after(answer: Answer) -> Optional[float]:
    """Seconds; None if the header is missing or is neither a number nor a date."""
    text = answer.headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]+", text):
        return float(text[:9])
    try:
        parsed = email.utils.parsedate_tz(text)
        return max(0.0, email.utils.mktime_tz(parsed) - time.time()) if parsed else None
    except (ValueError, OverflowError):
        return None


class _Pool:
    """The connections of one event loop. Each client of httpx here has one connection: its own pool slows down with many."""

    def __init__(self, verify: ssl.SSLContext) -> None:
        self.verify, self.turns, self.minting = verify, anyio.Semaphore(CONNECTIONS_MAX), anyio.Lock()
        self.free: List[httpx.AsyncClient] = []

    @contextlib.asynccontextmanager
    async def connection(self, waits: bool) -> AsyncIterator[httpx.AsyncClient]:
        """Decisions take turns; a wait lasts, and gets a connection at once."""
        async with contextlib.AsyncExitStack() as stack:
            if not waits:
                await stack.enter_async_context(self.turns)
            http = self.free.pop() if self.free else httpx.AsyncClient(verify=self.verify, timeout=None, follow_redirects=False, trust_env=False)
            try:
                yield http
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await http.aclose()
                raise
            if len(self.free) < CONNECTIONS_MAX:
                self.free.append(http)
            else:
                await http.aclose()


class Transport:
    def __init__(self, url: str, key: str, *, ca_file: Optional[str], agent: str, cooldown: float, token: Optional[Dict[str, Any]]) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"the engine's address {url!r} does not begin with http:// or https://")
        if not key or not all("!" <= character <= "~" for character in key):
            raise ValueError("the key is empty, or has characters that a key does not have")
        self.url, self.key, self.agent, self.mint_body = url.rstrip("/"), key, agent, token
        self.verify = ssl.create_default_context(cafile=ca_file) if url.startswith("https://") else NO_TLS
        self.pause = Pause(cooldown)
        self.token, self.renew_at = "", 0.0
        name = f"writ_client {uuid.uuid4()}"
        self._pool: RunVar[Optional[_Pool]] = RunVar(name, None)  # connections belong to one event loop

    def _here(self) -> _Pool:
        """What this event loop has."""
        found = self._pool.get()
        if found is None:
            found = _Pool(self.verify)
            self._pool.set(found)
        return found

    async def close(self) -> None:
        """Closes the connections of this event loop."""
        found = self._pool.get()
        self._pool.set(None)
        for http in found.free if found is not None else []:
            await http.aclose()

    # ---- one attempt ----

    async def _attempt(self, method: str, path: str, body: Optional[bytes], headers: Dict[str, str], seconds: float, first: bool) -> Answer:
        began = False
        try:
            with anyio.fail_after(max(seconds, 0)):
                async with self._here().connection(waits=body is None) as http:
                    began = True
                    async with http.stream(method, self.url + path, content=body, headers=headers) as answer:
                        whole = bytearray()
                        async for piece in answer.aiter_raw():
                            whole += piece
                            if len(whole) > BODY_MAX:
                                raise NoDecision(f"The answer has more than {BODY_MAX} bytes.")
                        fields = {name.lower(): value for name, value in answer.headers.items()}
                        return Answer(answer.status_code, fields, bytes(whole), headers["X-Request-ID"], first)
        except TimeoutError as error:
            if not began:
                raise NotSent(f"{CONNECTIONS_MAX} requests of this process wait for it") from error
            raise Lost("it did not answer in time") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            if _is_tls(error):
                raise NoDecision(f"TLS with the engine failed: {error}") from error
            if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
                raise NotSent(f"it cannot be reached ({error})") from error
            raise Lost(f"the connection was lost ({type(error).__name__})") from error

    def _headers(self, bearer: str, key: Optional[str]) -> Dict[str, str]:
        headers = {"Authorization": f"Bearer {bearer}", "User-Agent": self.agent, "Accept": "application/json", "Accept-Encoding": "identity",
                   "X-Request-ID": f"req-{uuid.uuid4()}"}
        if key is not None:
            headers.update({"Content-Type": "application/json", "Idempotency-Key": key})
        return headers

    # ---- a request with its retries ----

    async def post(self, path: str, body: bytes, key: str, deadline: Deadline, *, bearer: Optional[str] = None, repeat_lost: bool = False) -> Answer:
        """Posts until there is an answer other than 429 and 503. Connect errors are retried; lost answers only if `repeat_lost`."""
        first, pause, renewed, tokens = True, BACKOFF_FIRST, False, self.mint_body is not None and bearer is None
        failure = NoDecision("The engine is away: it did not answer in time.", outage=True)
        while deadline.left() > 0:
            answer = None
            credential = bearer or await self._bearer(deadline)
            try:
                answer = await self._attempt("POST", path, body, self._headers(credential, key), deadline.left(), first)
            except NotSent as error:
                failure = NoDecision(f"The engine is away: {error}.", outage=True)
            except Lost as error:
                failure, first = NoDecision(f"The engine is away: {error}.", outage=True), False
                if not repeat_lost:
                    break
            if answer is not None:
                if answer.status == 401 and tokens and not renewed and error_of(answer).code in RENEWABLE:
                    renewed, first = True, False
                    self._forget(credential)
                    continue
                if answer.status not in (429, 503):
                    return answer
                first, failure = False, error_of(answer)
                wanted = _retry_after(answer)
                pause = max(pause, wanted) if wanted is not None else pause
            if pause >= deadline.left():
                break
            await anyio.sleep(pause * (1 + random.random() / 4))
            pause = min(max(pause * 2, BACKOFF_FIRST), BACKOFF_MAX)
        raise failure

    async def get(self, path: str, seconds: float) -> Answer:
        """One attempt: waiting has a loop of its own. Raises Lost or NotSent."""
        renewed = False
        while True:
            deadline = Deadline(seconds)
            credential = await self._bearer(deadline)
            answer = await self._attempt("GET", path, None, self._headers(credential, None), deadline.left(), True)
            if not (answer.status == 401 and self.mint_body is not None and not renewed and error_of(answer).code in RENEWABLE):
                return answer
            renewed = True
            self._forget(credential)

    # ---- tokens ----

    def _forget(self, token: str) -> None:
        if self.token == token:
            self.token = ""

    async def _bearer(self, deadline: Deadline) -> str:
        if self.mint_body is None:
            return self.key
        if self.token and time.time() < self.renew_at:
            return self.token
        async with self._here().minting:
            if not self.token or time.time() >= self.renew_at:
                answer = await self.post("/v1/tokens/mint", encode(self.mint_body), str(uuid.uuid4()), deadline, bearer=self.key)
                now = time.time()
                self.token, ends = read_minted(answer)
                self.renew_at = ends - min(10.0, max(ends - now, 0) / 10)
            return self.token
