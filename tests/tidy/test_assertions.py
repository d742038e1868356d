"""How many assertions the rooms with state have for each function.

`python3 tests/tidy/test_assertions.py` prints them, room by room and then file by file.

An assertion is a check(), a call of an x_check() (a function `void x_check(const struct x *)`, which holds
what is true of every x between two calls), or a _Static_assert().
"""

import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOMS = {"engine": "src/engine", "shards": "shards", "policy": "src/policy"}
# Assertions for one function, at least.
FLOORS = {"engine": 0.5, "shards": 0.5, "policy": 0.5}

FUNCTION = re.compile(r"^\{$|^[a-z][^;={]*\) \{ .*\}$", re.M)
DEFINED = re.compile(r"\bvoid (\w+_check)\(\s*const struct\b")
CALLED = re.compile(r"(?:(?<=\s)|(?<=\())(check|\w+_check|_Static_assert)\(")


def texts(room):
    folder = ROOT / ROOMS[room]
    return {p.name: re.sub(r"/\*.*?\*/", "", p.read_text(), flags=re.S)
            for p in sorted([*folder.rglob("*.c"), *folder.rglob("*.h")])}


def counts(room):
    """File name -> (functions, assertions)."""
    files = texts(room)
    own = {name for text in files.values() for name in DEFINED.findall(text)}
    counted = own | {"check", "_Static_assert"}
    result = {}
    for name, text in files.items():
        declared = len(DEFINED.findall(text))
        calls = sum(1 for called in CALLED.findall(text) if called in counted)
        result[name] = (len(FUNCTION.findall(text)), calls - declared)
    return result


def total(room):
    each = counts(room).values()
    return sum(f for f, _ in each), sum(a for _, a in each)


@pytest.mark.parametrize("room", FLOORS)
def test_a_room_with_state_asserts_its_invariants(room):
    functions, assertions = total(room)
    print(f"{room}: {assertions} assertions in {functions} functions")
    assert assertions >= FLOORS[room] * functions, (
        f"{room} has {assertions} assertions in {functions} functions, less than {FLOORS[room]} each: "
        f"state what the new functions rely on and leave behind, with check() (src/base/check.h)")


def main():
    for room in ROOMS:
        functions, assertions = total(room)
        print(f"{room}: {functions} functions, {assertions} assertions, {assertions / functions:.2f} each")
        for name, (f, a) in counts(room).items():
            if f > 0:
                print(f"    {name:28} {f:4} {a:4}")


if __name__ == "__main__":
    sys.exit(main())
