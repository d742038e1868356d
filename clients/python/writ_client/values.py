"""JSON as both sides have to agree on it: a frozen copy of what is sent, and a strict reader of what is returned."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Dict, List, Tuple

LEVELS_MAX = 64
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.S)


def frozen(value: Any) -> Any:
    """A deep copy that JSON returns unchanged. A value that JSON would change is a TypeError: it would not be what runs."""
    return _copy(value, 0)


def _copy(value: Any, level: int) -> Any:
    if level > LEVELS_MAX:
        raise TypeError(f"an argument is nested deeper than {LEVELS_MAX} levels")
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise TypeError(f"{value} cannot be sent as JSON")
        return value
    if isinstance(value, (list, tuple)):
        return [_copy(item, level + 1) for item in value]
    if isinstance(value, dict):
        if not all(type(key) is str for key in value):
            raise TypeError("an argument has a dict with a key that is no str")
        return {key: _copy(item, level + 1) for key, item in value.items()}
    raise TypeError(f"an argument of type {type(value).__name__} cannot be sent as JSON; leave it out with `hidden`")


def encode(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _members(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is beyond what can be held")
    return value


def decode(body: bytes) -> Any:
    """Reads strict JSON: UTF-8, no duplicate keys, no NaN, at most 64 levels. Everything else is a ValueError."""
    level = 0
    for bracket in re.findall(rb"[\[\]{}]", _STRING.sub(b"", body)):
        level += 1 if bracket in b"[{" else -1
        if level > LEVELS_MAX:
            raise ValueError(f"it is nested deeper than {LEVELS_MAX} levels")
    return json.loads(body.decode("utf-8"), object_pairs_hook=_members, parse_constant=_constant, parse_float=_finite)
