"""What the engine answered, and whether it may be obeyed.

Only a well-formed answer becomes a Decision or a Review. Each reader here raises NoDecision for everything else, so a
mistake on the way ends in a call that does not run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional

from .errors import NoDecision
from .values import decode

BODY_MAX = 1 << 20
REVIEW_ID = re.compile(r"rev_[0-9A-HJKMNP-TV-Z]{26}")
WORDS = ("allow", "deny", "compute", "human_review")
STATUSES = ("pending", "approved", "denied", "expired", "cancelled", "lapsed", "redeemed")


@dataclass(frozen=True)
class Answer:
    """One HTTP answer, read to its end."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes
    request_id: str  # the one that was sent
    first: bool  # the first attempt of its call


@dataclass(frozen=True)
class Decision:
    """A well-formed decision. It permits something only if `word` is allow or compute."""

    word: str
    reason: str
    rule: str
    trace_id: str
    request_id: str
    review_id: Optional[str] = None
    approved: bool = False  # the same request was reviewed before, and approved
    safe_tool: Optional[str] = None
    safe_args: Optional[Dict[str, Any]] = None
    members: Optional[Dict[str, Any]] = None


def malformed(what: str) -> NoDecision:
    return NoDecision(f"The answer is not well-formed: {what}.")


def read_members(answer: Answer) -> Dict[str, Any]:
    media = answer.headers.get("content-type", "").split(";")[0].strip().lower()
    if media != "application/json":
        raise malformed(f"its Content-Type is {media or 'missing'}, not application/json")
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        raise malformed("it is compressed")
    try:
        members = decode(answer.body)
    except (ValueError, RecursionError) as error:
        raise malformed(f"it is not strict JSON ({error})") from error
    if not isinstance(members, dict):
        raise malformed("it is no JSON object")
    return members


def error_of(answer: Answer) -> NoDecision:
    """What an answer means that has not the status that was wanted."""
    code, text = "", ""
    try:
        members = read_members(answer)
        code, text = str(members.get("code", ""))[:64], str(members.get("error", ""))[:500]
    except NoDecision:
        pass
    outage = answer.status >= 500
    return NoDecision(f"The engine answered {answer.status} {code}: {text}".rstrip(": "), outage=outage, status=answer.status, code=code)


def read_decision(answer: Answer, trace_id: Optional[str]) -> Decision:
    if answer.status != 200:
        raise error_of(answer)
    members = read_members(answer)
    if answer.headers.get("x-request-id") != answer.request_id:
        raise malformed("it belongs to another request")
    word = members.get("decision")
    if not isinstance(word, str) or word not in WORDS:
        raise malformed(f"decision is {word!r}")
    for member, means in (("allowed", "allow"), ("compute", "compute"), ("requires_human_review", "human_review")):
        if members.get(member) is not (word == means):
            raise malformed(f"decision is {word}, and {member} is {members.get(member)!r}")
    if members.get("mode") != "live":
        raise malformed(f"mode is {members.get('mode')!r}, not live")
    if not isinstance(members.get("request_id"), str) or not isinstance(members.get("trace_id"), str):
        raise malformed("request_id or trace_id is missing")
    if trace_id is not None and members["trace_id"] != trace_id:
        raise malformed("its trace_id is another one")
    permits = word in ("allow", "compute")
    if permits and "replayed" in members and (members["replayed"] is not True or answer.first):
        raise NoDecision("This call was answered before, and may have run.")
    reason, rule = members.get("reason"), members.get("rule")
    decision = Decision(word, reason if isinstance(reason, str) else "", rule if isinstance(rule, str) else "",
                        members["trace_id"], members["request_id"], members=members)
    if word == "compute":
        return _compute(decision, members)
    return _review(decision, members) if word == "human_review" else decision


def _compute(decision: Decision, members: Dict[str, Any]) -> Decision:
    tool, args = members.get("safe_tool"), members.get("safe_args")
    if not isinstance(tool, str) or not tool or not isinstance(args, dict):
        raise malformed("a compute has no safe_tool or no safe_args")
    return Decision(**{**decision.__dict__, "safe_tool": tool, "safe_args": args})


def _review(decision: Decision, members: Dict[str, Any]) -> Decision:
    status = members.get("review_status", "pending")
    if status not in ("pending", "approved"):
        raise malformed(f"review_status is {status!r}")
    return Decision(**{**decision.__dict__, "review_id": read_review_id(members.get("review_id")), "approved": status == "approved"})


def read_review_id(value: Any) -> str:
    """It becomes part of a path, so nothing else may pass."""
    if not isinstance(value, str) or not REVIEW_ID.fullmatch(value):
        raise malformed(f"{str(value)[:64]!r} is no id of a review")
    return value


def read_status(answer: Answer, review_id: str) -> str:
    """The state of a review."""
    if answer.status != 200:
        raise error_of(answer)
    members = read_members(answer)
    if members.get("id") != review_id:
        raise malformed("it is about another review")
    status = members.get("status")
    if not isinstance(status, str) or status not in STATUSES:
        raise malformed(f"the review's status is {status!r}")
    return status


def read_minted(answer: Answer) -> "tuple[str, float]":
    """(token, when it ends in seconds since 1970)"""
    if answer.status != 201:
        raise error_of(answer)
    members = read_members(answer)
    token, ends = members.get("token"), members.get("expires_at")
    if not isinstance(token, str) or not re.fullmatch(r"[!-~]{1,4096}", token) or isinstance(ends, bool) or not isinstance(ends, int):
        raise malformed("a minted token has no token or no expires_at")
    return token, float(ends)
