"""Files of one room do not call each other in circles: one of two is the lower one, and can be read by itself."""

import collections
import re

from test_tidy import relative, sources, strip

FUNCTION = re.compile(r"^(?!static|typedef|#)[a-z][\w \*]*?\b(\w+)\([^;{]*\)\s*\{", re.M | re.S)


def calls():
    """{file: files of its folder whose functions it calls}"""
    text = {path: strip(path.read_text()) for path in sources(".c")}
    defined = {name: path for path, code in text.items() for name in FUNCTION.findall(code)}
    called = collections.defaultdict(set)
    for path, code in text.items():
        for name in set(re.findall(r"\b(\w+)\(", code)):
            other = defined.get(name)
            if other is not None and other != path and other.parent == path.parent:
                called[path].add(other)
    assert sum(map(len, called.values())) > 300, "the code was not understood"
    return called


def test_no_two_files_of_a_room_call_each_other():
    called = calls()
    wrong = sorted({tuple(sorted((relative(a), relative(b)))) for a in called for b in called[a] if a in called.get(b, ())})
    assert not wrong, wrong
