#!/usr/bin/env python3
"""sentences.py FILE…: the number of sentences of each Markdown document, and the words in them.

Headings, tables, code blocks, HTML comments and figures are left out. A piece of `code` is one word, and so is
a link's text word by word without its target. A list item is a paragraph of its own.
"""

import pathlib
import re
import sys


def paragraphs(text):
    """[(line number, text)] of the paragraphs and list items of a document."""
    found, current, start, fence, code, blank = [], [], 0, None, False, True

    def close():
        if current:
            found.append((start, " ".join(current)))
            current.clear()

    for number, line in enumerate(re.sub(r"<!--.*?-->", lambda m: "\n" * m[0].count("\n"), text, flags=re.S).splitlines(), 1):
        stripped = line.strip()
        if fence is not None:
            fence = None if stripped == fence else fence
        elif match := re.match(r"\s*(`{3,}|~{3,})", line):
            close()
            fence = match[1]
        elif not stripped:
            close()
            blank = True
            continue
        elif line.startswith("    ") and (blank or code) and not re.match(r"\s*([-*]|\d+\.) ", line):
            code = blank = True  # a line of an indented block
            continue
        elif stripped.startswith(("#", "|")) or re.fullmatch(r"-{3,}", stripped):
            close()
        else:
            item = re.match(r"\s*([-*]|\d+\.) +(.*)", line)
            if item:
                close()
            if not current:
                start = number
            current.append(item[2] if item else stripped)
        blank = code = False
    close()
    return found


def plain(text):
    """Without marks: each piece of code is one word, a link is its text."""
    text = re.sub(r"`[^`]*`", "CODE", text)
    text = re.sub(r"!?\[([^\]]*)\](\([^)]*\))?", r"\1", text)
    return re.sub(r"[*_]{1,2}(\S(?:.*?\S)?)[*_]{1,2}", r"\1", text)


def sentences(text):
    """[(line number of its paragraph, sentence)] of a document."""
    found = []
    for number, paragraph in paragraphs(text):
        for sentence in re.split(r"(?<=[.!?])[)\"]?\s+(?=[^a-z\s])", plain(paragraph)):
            if words(sentence):
                found.append((number, sentence))
    return found


def words(sentence):
    return len([word for word in sentence.split() if re.search(r"\w", word)])


def figures(text):
    """(sentences, mean, 90th percentile of words)"""
    counts = sorted(words(sentence) for _, sentence in sentences(text))
    if not counts:
        return 0, 0.0, 0
    return len(counts), sum(counts) / len(counts), counts[min(len(counts) - 1, len(counts) * 9 // 10)]


def main():
    print(f"{'document':40} {'sentences':>9} {'mean':>6} {'p90':>4}")
    for name in sys.argv[1:]:
        number, mean, high = figures(pathlib.Path(name).read_text())
        print(f"{name:40} {number:9} {mean:6.1f} {high:4}")


if __name__ == "__main__":
    main()
