"""The clients: AsyncClient decides, waits and redeems; Client does the same for programs without an event loop.

    decide ── deny ────────────────────────────▶ Denied
      │  └─── allow, compute ──────────────────▶ Call: run exactly this
      └ human_review ─▶ wait ─ approved ─▶ redeem ─▶ a decision, as above
                          └ anything else ─────▶ Denied, ReviewPending

Every way that is not drawn here ends in NoDecision. What may run leaves permit() as a Call, and nothing else does.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import dataclasses
import functools
import inspect
import logging
import os
import threading
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Awaitable, Callable, Coroutine, Dict, Iterator, Mapping, Optional, Sequence, TypeVar, Union, cast

import anyio
import anyio.to_thread

from . import __version__
from .answers import Decision, malformed, read_decision, read_review_id, read_status
from .errors import Denied, NoDecision, ReviewPending
from .transport import Deadline, Lost, NotSent, Transport
from .values import encode, frozen

log = logging.getLogger("writ_client")

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
Ids = Mapping[str, Union[str, int, None]]

MEMBERS = ("actor", "acting_for", "confidence", "context", "conversation_id", "resource", "scope", "tenant_id", "tool_call_id", "trace_id")
IDS = ("tool_call_id", "conversation_id")
ID_CHARACTERS_MAX = 256  # of the engine; frameworks have longer ones
ROUNDS_MAX = 8  # redemptions that ask people again
POLL_SECONDS = 30.0
DOUBTS_MAX = 10_000
WAIT_PAUSE_FIRST, WAIT_PAUSE_MAX = 0.1, 5.0

_context: "contextvars.ContextVar[Mapping[str, Any]]" = contextvars.ContextVar("writ_client request", default={})


@contextlib.contextmanager
def request(*, review_id: Optional[str] = None, **members: Any) -> Iterator[None]:
    """Adds members (confidence, acting_for, trace_id, ...) to each request that is made inside, or resumes a review."""
    _known(members)
    token = _context.set({**_context.get(), **members, **({"review_id": review_id} if review_id else {})})
    try:
        yield
    finally:
        _context.reset(token)


def _known(members: Mapping[str, Any]) -> None:
    for name in members:
        if name not in MEMBERS:
            raise TypeError(f"{name} is no member of a request; there are {', '.join(MEMBERS)}")


def _fitting(ids: Ids) -> Dict[str, str]:
    return {name: str(value)[:ID_CHARACTERS_MAX] for name, value in ids.items() if isinstance(value, (str, int))}


@dataclass(frozen=True)
class Call:
    """What may run now, once: this tool with these arguments."""

    tool: str
    args: Dict[str, Any]
    decision: Optional[Decision]  # None: the engine is away, and on_error is "open"

    @property
    def is_safe_call(self) -> bool:
        return self.decision is not None and self.decision.word == "compute"


@dataclass(frozen=True)
class _Doubt:
    """A redemption without an answer. A model that calls again has another id for its call; to the engine another body is no repeat."""

    key: str  # Idempotency-Key
    ids: Mapping[str, str]


class AsyncClient:
    """Decides about the tool calls of an agent. One object serves any number of tasks and event loops."""

    def __init__(self, url: Optional[str] = None, key: Optional[str] = None, *, deadline: float = 10.0, wait: float = 3600.0,
                 cooldown: float = 5.0, on_error: str = "closed", token: Optional[Mapping[str, Any]] = None, ca_file: Optional[str] = None,
                 **members: Any) -> None:
        """`url` and `key` are WRIT_ENGINE_URL and WRIT_KEY by default.

        deadline: seconds of one decision or redemption, with all retries. wait: seconds of waiting for people.
        cooldown: seconds in which nothing is asked after an outage. token: ask with tokens, minted with this body.
        members: what each request has (actor, acting_for, confidence, ...).
        """
        if on_error not in ("closed", "open"):
            raise ValueError(f'on_error is {on_error!r}, not "closed" or "open"')
        if not (deadline > 0 and wait >= 0 and cooldown >= 0):
            raise ValueError("deadline is not above 0, or wait or cooldown is below 0")
        _known(members)
        url = url or os.environ.get("WRIT_ENGINE_URL") or "http://127.0.0.1:8080"
        key = key or os.environ.get("WRIT_KEY") or ""
        self.deadline, self.wait, self.on_error, self.members = deadline, wait, on_error, frozen(members)
        self.tools: Dict[str, Callable[..., Any]] = {}
        agent = f"writ-client-python/{__version__}" + (" (on_error=open)" if on_error == "open" else "")
        self._transport = Transport(url, key, ca_file=ca_file, agent=agent, cooldown=cooldown, token=frozen(dict(token)) if token else None)
        self._doubts: "OrderedDict[str, _Doubt]" = OrderedDict()  # reviews whose redemption has no answer
        if on_error == "open":
            log.warning('on_error is "open": while the engine is away, calls run without a decision')

    async def close(self) -> None:
        await self._transport.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    # ---- deciding ----

    def _request(self, tool: str, args: Mapping[str, Any], members: Mapping[str, Any], ids: Optional[Ids] = None) -> Dict[str, Any]:
        """The body of a request: a frozen copy, so nothing that happens to the caller's objects changes what runs."""
        given = {**_fitting(ids or {}), **self.members, **{name: value for name, value in _context.get().items() if name != "review_id"}, **members}
        _known(given)
        if not isinstance(args, Mapping):
            raise TypeError("args is no mapping of names to values")
        body: Dict[str, Any] = frozen({"action": tool, "args": dict(args), **{name: value for name, value in given.items() if value is not None}})
        return body

    async def _decide(self, path: str, asked: Mapping[str, Any], key: str, deadline: Deadline, repeat_lost: bool = False) -> Decision:
        pause = self._transport.pause
        try:
            answer = await self._transport.post(path, encode(asked), key, deadline, repeat_lost=repeat_lost)
            decision = read_decision(answer, asked.get("trace_id"))
        except NoDecision as error:
            pause.begin() if error.outage else pause.end()
            raise
        pause.end()
        return decision

    async def decide(self, tool: str, args: Mapping[str, Any], **members: Any) -> Decision:
        """The engine's decision. It runs nothing, waits for no person, and is good once: use permit() or run()."""
        return await self._authorize(self._request(tool, args, members))

    async def _authorize(self, asked: Mapping[str, Any]) -> Decision:
        self._transport.pause.check()
        return await self._decide("/v1/agent/authorize", asked, str(uuid.uuid4()), Deadline(self.deadline))

    async def permit(self, tool: str, args: Mapping[str, Any], *, review_id: Optional[str] = None, tools: Optional[Any] = None,
                     ids: Optional[Ids] = None, **members: Any) -> Call:
        """The call that may run now, once. Raises Denied, ReviewPending or NoDecision in every other case.

        With `review_id` it continues with the review of an earlier request. `tools` names the tools that a safe call may use.
        `ids` are the framework's tool_call_id and conversation_id: they are sent where no member gives them, cut to what the engine takes.
        """
        asked = self._request(tool, args, members, ids)
        review_id = review_id or _context.get().get("review_id")
        if review_id is not None:
            decision = await self._review(read_review_id(review_id), asked, approved=False)
        else:
            try:
                decision = await self._authorize(asked)
            except NoDecision as error:
                if not (error.outage and self.on_error == "open"):
                    raise
                log.warning('%s runs without a decision, because on_error is "open": %s', tool, error)
                return Call(tool, asked["args"], None)
        for _ in range(ROUNDS_MAX):
            if decision.word != "human_review":
                return self._obey(decision, asked, self.tools if tools is None else tools)
            log.info("waiting for a person: %s (%s)", decision.reason, decision.review_id)
            decision = await self._review(cast(str, decision.review_id), asked, decision.approved)
        raise NoDecision(f"People were asked {ROUNDS_MAX} times about one call.")

    def _obey(self, decision: Decision, asked: Mapping[str, Any], tools: Any) -> Call:
        if decision.word == "allow":
            return Call(asked["action"], asked["args"], decision)
        if decision.word == "compute" and decision.safe_tool is not None and decision.safe_args is not None:
            if decision.safe_tool not in tools and decision.safe_tool != asked["action"]:
                raise NoDecision(f"The safe call uses {decision.safe_tool!r}, which is no tool of this agent.")
            return Call(decision.safe_tool, decision.safe_args, decision)
        if decision.word == "deny":
            raise Denied(decision.reason or "The engine denies this call.", decision.rule)
        raise malformed(f"decision is {decision.word!r}")

    # ---- reviews ----

    async def _review(self, review_id: str, asked: Mapping[str, Any], approved: bool) -> Decision:
        """Waits until people have decided, then redeems their approval."""
        status = "approved" if approved else await self._wait(review_id)
        if status == "approved" or (status == "redeemed" and review_id in self._doubts):
            return await self._redeem(review_id, asked)
        raise Denied(f"The review {review_id} is {status}.", f"review:{status}")

    async def _wait(self, review_id: str) -> str:
        deadline, pause, last = Deadline(self.wait), WAIT_PAUSE_FIRST, ""
        while deadline.left() > 0:
            seconds = min(POLL_SECONDS, deadline.left())
            try:
                answer = await self._transport.get(f"/v1/queue/{review_id}/wait?timeout_ms={int(seconds * 1000)}", min(seconds + self.deadline, deadline.left()))
                status = read_status(answer, review_id)
            except (Lost, NotSent) as error:
                last = f"The engine is away: {error}."
            except NoDecision as error:
                if not (error.outage or error.status == 429):
                    error.review_id = review_id
                    raise
                last = str(error)
            else:
                if status != "pending":
                    return status
                pause, last = WAIT_PAUSE_FIRST, ""
                continue
            await anyio.sleep(min(pause, max(deadline.left(), 0)))
            pause = min(pause * 2, WAIT_PAUSE_MAX)
        raise ReviewPending(review_id, last)

    async def _redeem(self, review_id: str, asked: Mapping[str, Any]) -> Decision:
        """Uses the approval. Until there is an answer it is in doubt, and each attempt has the same Idempotency-Key and ids."""
        known = self._doubts.pop(review_id, None)  # taken, so that two tasks never share a key
        doubt = known or _Doubt(str(uuid.uuid4()), {name: asked[name] for name in IDS if name in asked})
        body = {**{name: value for name, value in asked.items() if name not in IDS}, **doubt.ids}
        try:
            answer = await self._transport.post(f"/v1/queue/{review_id}/redeem", encode(body), doubt.key, Deadline(self.deadline), repeat_lost=True)
            if known is not None:  # an earlier attempt had no answer, so a replayed one did not run
                answer = dataclasses.replace(answer, first=False)
            return read_decision(answer, asked.get("trace_id"))
        except NoDecision as error:
            error.review_id = review_id
            if error.outage:
                self._doubt(review_id, doubt)
            raise
        except asyncio.CancelledError:
            self._doubt(review_id, doubt)
            raise

    def _doubt(self, review_id: str, doubt: "_Doubt") -> None:
        self._doubts[review_id] = doubt
        while len(self._doubts) > DOUBTS_MAX:
            self._doubts.popitem(last=False)

    # ---- running ----

    async def run(self, tool: str, args: Mapping[str, Any], *, review_id: Optional[str] = None, **members: Any) -> Any:
        """Asks, waits if people decide, and runs the registered tool that may run."""
        self._registered(tool)
        call = await self.permit(tool, args, review_id=review_id, **members)
        return await _invoke(self.tools[call.tool], call.args)

    def _registered(self, tool: str) -> None:
        if tool not in self.tools:
            raise KeyError(f"{tool} is not registered: decorate it with gate, or put it into tools")

    def gate(self, name: Optional[str] = None, *, hidden: Sequence[str] = (), **members: Any) -> Callable[[F], F]:
        """Decorates a tool. Its arguments are sent by name; those in `hidden` are passed to the tool and not sent."""
        _known(members)

        def decorate(tool: F) -> F:
            return self.guard(tool, name, hidden=hidden, **members)

        return decorate

    def guard(self, tool: F, name: Optional[str] = None, *, hidden: Sequence[str] = (), **members: Any) -> F:
        """The same tool behind the gate. The tool is also registered, so that a safe call may use it."""
        if not inspect.iscoroutinefunction(tool):
            raise TypeError(f"{tool!r} is no coroutine function; an AsyncClient gates those, a Client both kinds")
        return cast(F, _guard_async(self, tool, name or tool.__name__, hidden, members))


def _guard_async(client: AsyncClient, tool: Callable[..., Any], name: str, hidden: Sequence[str], members: Mapping[str, Any]) -> Callable[..., Any]:
    arguments = _Arguments(tool, hidden)
    client.tools[name] = tool

    @functools.wraps(tool)
    async def gated(*args: Any, **kwargs: Any) -> Any:
        sent, kept = arguments.split(args, kwargs)
        call = await client.permit(name, sent, **members)
        if call.tool != name:
            return await _invoke(client.tools[call.tool], call.args)
        return await arguments.call(call.args, kept)

    return gated


async def _invoke(tool: Callable[..., Any], args: Mapping[str, Any]) -> Any:
    if inspect.iscoroutinefunction(tool):
        return await tool(**args)
    return await anyio.to_thread.run_sync(functools.partial(tool, **args))


class _Arguments:
    """Between the arguments of a Python call and the members of `args`."""

    def __init__(self, tool: Callable[..., Any], hidden: Sequence[str]) -> None:
        self.tool, self.signature, self.hidden = tool, inspect.signature(tool), frozenset(hidden)
        for parameter in self.signature.parameters.values():
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                raise TypeError(f"{parameter} of {tool.__name__} has no name that could be sent; make it a named parameter")
        unknown = self.hidden - set(self.signature.parameters)
        if unknown:
            raise TypeError(f"{tool.__name__} has no parameter {sorted(unknown)[0]} to hide")

    def split(self, args: Any, kwargs: Any) -> "tuple[Dict[str, Any], Dict[str, Any]]":
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        named: Dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            else:
                named[name] = value
        return ({name: value for name, value in named.items() if name not in self.hidden},
                {name: value for name, value in named.items() if name in self.hidden})

    def call(self, args: Mapping[str, Any], kept: Mapping[str, Any]) -> Any:
        overlap = set(args) & set(kept)
        if overlap:
            raise NoDecision(f"The safe arguments set {sorted(overlap)[0]!r}, which is hidden from the engine.")
        return self.tool(**args, **kept)


# ---- without an event loop ----


class _Loop:
    """An event loop on a thread of its own, for all Clients of this process."""

    _lock = threading.Lock()
    _one: "Optional[_Loop]" = None

    def __init__(self) -> None:
        self.process, self.loop = os.getpid(), asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="writ_client", daemon=True)
        self.thread.start()
        atexit.register(self.stop)

    @classmethod
    def get(cls) -> "_Loop":
        with cls._lock:
            if cls._one is None or cls._one.process != os.getpid():  # a thread does not survive a fork
                cls._one = _Loop()
            return cls._one

    def stop(self) -> None:
        if self.process == os.getpid():
            self.loop.call_soon_threadsafe(self.loop.stop)

    def run(self, work: "Coroutine[Any, Any, T]") -> T:
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


class Client:
    """AsyncClient for programs without an event loop: the same rules, since it is the same code. `aio` is the AsyncClient."""

    def __init__(self, url: Optional[str] = None, key: Optional[str] = None, **settings: Any) -> None:
        """As AsyncClient."""
        self.aio = AsyncClient(url, key, **settings)

    @property
    def tools(self) -> Dict[str, Callable[..., Any]]:
        return self.aio.tools

    def close(self) -> None:
        _Loop.get().run(self.aio.close())

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _with_context(self, work: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        given = _context.get()

        async def run() -> T:
            _context.set(given)  # the caller's thread has it, the loop's has not
            return await work(*args, **kwargs)

        return _Loop.get().run(run())

    def decide(self, tool: str, args: Mapping[str, Any], **members: Any) -> Decision:
        return self._with_context(self.aio.decide, tool, args, **members)

    def permit(self, tool: str, args: Mapping[str, Any], *, review_id: Optional[str] = None, tools: Optional[Any] = None,
               ids: Optional[Ids] = None, **members: Any) -> Call:
        # The copy is made here, before another thread has the arguments.
        return self._with_context(self.aio.permit, tool, frozen(dict(args)), review_id=review_id, tools=tools, ids=ids, **members)

    def run(self, tool: str, args: Mapping[str, Any], *, review_id: Optional[str] = None, **members: Any) -> Any:
        self.aio._registered(tool)
        call = self.permit(tool, args, review_id=review_id, **members)
        return _invoke_now(self.tools[call.tool], call.args)

    def gate(self, name: Optional[str] = None, *, hidden: Sequence[str] = (), **members: Any) -> Callable[[F], F]:
        """Decorates a tool, a function or a coroutine function."""
        _known(members)

        def decorate(tool: F) -> F:
            return self.guard(tool, name, hidden=hidden, **members)

        return decorate

    def guard(self, tool: F, name: Optional[str] = None, *, hidden: Sequence[str] = (), **members: Any) -> F:
        called = name or tool.__name__
        if inspect.iscoroutinefunction(tool):
            return cast(F, _guard_async(self.aio, tool, called, hidden, members))
        arguments = _Arguments(tool, hidden)
        self.tools[called] = tool

        @functools.wraps(tool)
        def gated(*args: Any, **kwargs: Any) -> Any:
            sent, kept = arguments.split(args, kwargs)
            call = self.permit(called, sent, **members)
            if call.tool != called:
                return _invoke_now(self.tools[call.tool], call.args)
            return arguments.call(call.args, kept)

        return cast(F, gated)


def _invoke_now(tool: Callable[..., Any], args: Mapping[str, Any]) -> Any:
    if inspect.iscoroutinefunction(tool):
        return asyncio.run(cast("Coroutine[Any, Any, Any]", tool(**args)))
    return tool(**args)


# ---- the client that `gate` and `guard` use ----

_default: Optional[Client] = None
_default_lock = threading.Lock()


class AnyTool:
    """Tools of a framework that itself refuses a tool that it does not have."""

    def __contains__(self, _: object) -> bool:
        return True


def default_client() -> Client:
    """The client that WRIT_ENGINE_URL and WRIT_KEY describe, made at its first use."""
    global _default
    with _default_lock:
        if _default is None:
            _default = Client()
        return _default


def gate(name: Optional[str] = None, *, client: Optional[Client] = None, hidden: Sequence[str] = (), **members: Any) -> Callable[[F], F]:
    """@gate("issue_refund"): the tool runs only what the engine permits."""
    return (client or default_client()).gate(name, hidden=hidden, **members)


def guard(tool: F, name: Optional[str] = None, *, client: Optional[Client] = None, hidden: Sequence[str] = (), **members: Any) -> F:
    """guard(tool): as @gate, for a tool that exists already."""
    return (client or default_client()).guard(tool, name, hidden=hidden, **members)
