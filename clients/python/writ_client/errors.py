"""Why a call did not run. Each of these means that nothing was run."""

from __future__ import annotations

from typing import Optional


class Refused(Exception):
    """The call was not run."""

    review_id: Optional[str] = None


class Denied(Refused):
    """The engine or a person refused. `reason` may be shown to the model."""

    def __init__(self, reason: str, rule: str = "") -> None:
        super().__init__(reason)
        self.reason, self.rule = reason, rule


class ReviewPending(Refused):
    """The time of waiting is over, and no person has decided. Resume with `review_id`."""

    def __init__(self, review_id: str, detail: str = "") -> None:
        super().__init__(f"A person has not decided yet: review {review_id}." + (f" {detail}" if detail else ""))
        self.review_id = review_id


class NoDecision(Refused):
    """There is no decision that may be obeyed.

    `outage` is true if the engine is away: it could not be reached, did not answer in time, or answered 5xx.
    With `review_id`, the redemption of an approval is in doubt: resume with the same client.
    """

    def __init__(self, reason: str, *, outage: bool = False, status: Optional[int] = None, code: str = "", review_id: Optional[str] = None) -> None:
        super().__init__(reason)
        self.reason, self.outage, self.status, self.code, self.review_id = reason, outage, status, code, review_id
