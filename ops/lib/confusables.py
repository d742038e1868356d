#!/usr/bin/env python3
"""Writes src/spelling/confusables.def, the characters that look like others (UTS 39, 4), from the data of ICU.

Run it with the libraries of ICU (Debian: libicu72) on a machine where they are installed: ops/lib/confusables.py 72 15.0
"""

import ctypes
import pathlib
import sys
import unicodedata

HEAD = """/* confusables.def - characters that look like others: each with its prototype (UTS 39, 4).
 *
 *   LOOKS_LIKE(character, prototype in UTF-8)
 *
 * In ascending order. Only characters that NFKC leaves as they are: the others never come here. Made
 * by ops/lib/confusables.py from Unicode {version}; do not edit. The data is Unicode's, under the
 * Unicode License V3 (https://www.unicode.org/license.txt). */
"""


def skeletons(version):
    """skeleton(text), as ICU computes it."""
    library = ctypes.CDLL(f"libicui18n.so.{version}")
    status, room = ctypes.c_int(0), ctypes.create_string_buffer(4096)
    opened = getattr(library, f"uspoof_open_{version}")
    opened.restype = ctypes.c_void_p
    checker = ctypes.c_void_p(opened(ctypes.byref(status)))
    skeleton_of = getattr(library, f"uspoof_getSkeletonUTF8_{version}")

    def skeleton(text):
        data = text.encode()
        size = skeleton_of(checker, 0, data, len(data), room, len(room), ctypes.byref(status))
        assert status.value <= 0, f"ICU has no skeleton of {text!r}"
        return room.raw[:size].decode()

    return skeleton


def literal(text):
    """As a string of C, where \\u is for characters from U+00A0 on."""

    def one(character):
        number = ord(character)
        if number >= 0xA0:
            return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"
        return f"\\{number:03o}" if character in '"\\' or not " " <= character <= "~" else character

    return "".join(map(one, text))


def rows(skeleton):
    for number in range(0x110000):
        character = chr(number)
        if 0xD800 <= number < 0xE000 or any(unicodedata.normalize(form, character) != character for form in ("NFD", "NFKC")):
            continue
        prototype = skeleton(character)
        if prototype != character:
            yield f'LOOKS_LIKE(0x{number:04X}, "{literal(prototype)}")'


def main(version, unicode_version):
    lines = [""]
    for row in rows(skeletons(version)):
        if len(lines[-1]) + len(row) > 129:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + row
    target = pathlib.Path(__file__).resolve().parents[2] / "src/spelling/confusables.def"
    target.write_text(HEAD.format(version=unicode_version) + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
