"""What a model reads where its call did not run."""

from __future__ import annotations

from .errors import Refused, ReviewPending

REASON_MAX = 500


def for_model(error: Refused) -> str:
    text = f"Not run: {str(error)[:REASON_MAX]}"
    return text + " Call again later, with the same arguments." if isinstance(error, ReviewPending) else text
