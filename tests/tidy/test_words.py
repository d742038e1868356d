"""The language of documents and commit subjects: the words that are not used, and how long a sentence may be.

docs/glossary.md has the words that are. A page is held to this from the moment that it is in HELD: a page that
is rewritten joins the list, and none leaves it.
"""

import re
import subprocess

import pytest

from sentences import paragraphs, plain, sentences, words
from test_tidy import TOP

WORDS_MAX = 40
SUBJECT_MAX = 72

HELD = ["README.md", "docs/README.md", "docs/CONTRIBUTING.md", "docs/glossary.md", "docs/security.md", "docs/start.md", "ops/README.md", "tests/README.md",
        "docs/guides/*.md", "docs/reference/*.md", "docs/concepts/*.md", "docs/internals/*.md", "docs/internals/decisions/*.md", "schemas/README.md", "schemas/kafka.md", "schemas/redis.md", "ops/runbook.md",
        "schemas/client-vectors.md", "schemas/policy.md", "schemas/config.md", "schemas/errors.md", "schemas/metrics.md", "ops/examples/analytics/README.md"]

BANNED = {  # a pattern: what to write instead
    r"whoever|nobody|whosoever|whomever": "name the subject: a client, the platform, a person",
    r"told|tells?|says?|hears?|heard": "for a machine: sends, returns, writes, reports; for a person: is informed",
    r"errands?|trips?|visits?": "operation",
    r"beats?": "turn",
    r"purses?": "budget",
    r"ballots?": "evaluation, vote",
    r"scribes?": "journal writer",
    r"keepers?": "segment pool, retention",
    r"bells?": "wakeup",
    r"anew": "again",
    r"say(?=[,.)])": "for example",
    r"as (?:much|many)\b[^.]{0,40}\bas may": "name the limit and its value",
    r"of one's own|a thousandfold|for ever": "own; permanently",
    r"what is the matter|in its turn|there is none such": "say it plainly",
}


def held():
    found = sorted({path for pattern in HELD for path in TOP.glob(pattern)})
    assert len(found) >= len(HELD), "a pattern of HELD finds nothing"
    return found


def banned_words(text):
    """[(line, word, what to write instead)]"""
    found = []
    for number, words_of in [*paragraphs(text), *rows(text)]:
        for pattern, instead in BANNED.items():
            found += [(number, match[0], instead) for match in re.finditer(rf"\b(?:{pattern})\b", plain(words_of), re.I)]
    return found


def rows(text):
    """[(line number, text)] of the rows of tables."""
    return [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("|")]


def long_sentences(text):
    return [(number, words(sentence), sentence) for number, sentence in sentences(text) if words(sentence) > WORDS_MAX]


def test_documents_do_without_the_banned_words():
    wrong = [f"{path.relative_to(TOP)}:{number}: \"{word}\": {instead}"
             for path in held() for number, word, instead in banned_words(path.read_text())]
    assert not wrong, "\n".join(wrong)


def test_documents_have_no_endless_sentence():
    wrong = [f"{path.relative_to(TOP)}:{number}: {count} words: {sentence[:80]}…"
             for path in held() for number, count, sentence in long_sentences(path.read_text())]
    assert not wrong, f"at most {WORDS_MAX} words a sentence:\n" + "\n".join(wrong)


def test_the_lint_sees_what_it_looks_for():
    """In paragraphs, list items and tables, not in code and headings."""
    page = "# Nobody\n\nWhoever asks is told.\n\n- As many wait as may.\n\n| nobody |\n|---|\n| `nobody` |\n\n    whoever\n\n```sh\nnobody\n```\n\n`told`\n"
    assert [(line, word.lower()) for line, word, _ in banned_words(page)] == [(3, "whoever"), (3, "told"), (5, "as many wait as may"), (7, "nobody")]
    assert not long_sentences("One two. " * 60) and long_sentences("word " * (WORDS_MAX + 1) + ".")
    assert [words(sentence) for _, sentence in sentences("The engine writes. `writ` reads it.\n\n| a | b |\n\n1. Do this.\n2. And that now.\n")] == [3, 3, 2, 3]


# ---- texts of the programs ----

# Rooms whose texts and comments are held: a room that is rewritten joins, and none leaves.
ROOMS_HELD = [
    "pipeline/ingest",
    "pipeline/mirror",
    "pipeline/publish",
    "pipeline/spans",
    "pipeline/topic",
    "shards",
    "src/access",
    "src/api",
    "src/base",
    "src/cel",
    "src/cli",
    "src/config",
    "src/crypto",
    "src/engine",
    "src/event",
    "src/evidence",
    "src/fleet",
    "src/hook",
    "src/http",
    "src/journal",
    "src/json",
    "src/loop",
    "src/metrics",
    "src/platform",
    "src/policy",
    "src/snapshot",
    "src/spelling",
    "src/store",
]

IN_CODE = r"whoever|nobody|whosoever|anew|told|tells?|hears?|heard|(?:as (?:much|many)\b[^.]{0,40}\bas may)"


def texts_of(source):
    """[(line number, text)] of the string literals and comments of C."""
    found = []
    for match in re.finditer(r'"((?:\\.|[^"\\\n])*)"|/\*(.*?)\*/', source, re.S):
        found.append((source.count("\n", 0, match.start()) + 1, match[1] if match[1] is not None else match[2]))
    return found


@pytest.mark.parametrize("room", ROOMS_HELD)
def test_texts_and_comments_of_a_room_are_plain(room):
    files = [path for path in sorted((TOP / room).rglob("*")) if path.suffix in (".c", ".h", ".def", ".cc")]
    wrong = [f"{path.relative_to(TOP)}:{number + text.count(chr(10), 0, match.start())}: \"{match[0]}\""
             for path in files for number, text in texts_of(path.read_text()) for match in re.finditer(rf"\b(?:{IN_CODE})\b", text, re.I)]
    assert files and not wrong, "\n".join(wrong)


# ---- links ----


def anchor(heading):
    """What a Markdown reader makes of a heading (GitHub's rule)."""
    heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def anchors(path):
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
    return {anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.M)}


def documents():
    files = [path for folder in ("docs", "ops", "schemas", "src", "tests") for path in (TOP / folder).rglob("*.md")]
    return [TOP / "README.md", *sorted(files)]


def test_links_lead_somewhere():
    """To a file of this repository, and to a heading that it has."""
    wrong = []
    for path in documents():
        text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", path.read_text(), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, heading = target.partition("#")
            to = (path.parent / name).resolve() if name else path
            if not to.exists() or heading and heading not in anchors(to):
                wrong.append(f"{path.relative_to(TOP)}: {target}")
    assert len(documents()) > 20 and not wrong, "\n".join(wrong)


# ---- commits ----


def subject_is_good(subject):
    return len(subject) <= SUBJECT_MAX and re.match(r"[a-z][a-z0-9_./-]*(, [a-z][a-z0-9_./-]*)*: \S", subject) is not None


def git(*arguments):
    done = subprocess.run(["git", "-C", TOP, *arguments], capture_output=True, text=True)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def test_commit_subjects_name_their_room_and_are_short():
    """Of all commits after the one that brought this test."""
    assert subject_is_good("ingest: refuse a batch with more than 4,096 lines") and subject_is_good("engine, shards: rename a thing")
    assert not subject_is_good("Refuse a batch") and not subject_is_good("ingest: " + "x" * SUBJECT_MAX)
    began = git("log", "--diff-filter=A", "--format=%H", "--", "tests/tidy/test_words.py")
    if not began:
        pytest.skip("no history is here")
    wrong = [subject for subject in git("log", "--no-merges", "--format=%s", f"{began[-1]}..HEAD") if not subject_is_good(subject)]
    assert not wrong, f"\"room: what it does\", at most {SUBJECT_MAX} characters:\n" + "\n".join(wrong)
