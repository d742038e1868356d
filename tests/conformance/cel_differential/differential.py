"""Holds `writ cel` against cel-go: the same questions to both, and equal answers, or a difference that is explained.

    differential.py --writ cel_conformance [--celgo PROGRAM] [--count N] [--seed N] [--show N]

Without --celgo its answers are those that record.py has kept: of the first questions of one seed, and one for each
documented difference.

Answers are equal where both are errors of any phase, or both the same value of the same type (maps in any
order, NaN like NaN). Every other pair has to be one of differences.py. Prints the counts, each difference's
too, and up to `--show` pairs that nothing explains; the exit status says whether there were any.
"""

import argparse
import base64
import collections
import hashlib
import json
import math
import pathlib
import subprocess
import sys
import threading

import differences
import generate

CHUNK = 5000
SEED = 20261121
HERE = pathlib.Path(__file__).resolve().parent
ANSWERS = HERE / "answers.jsonl"  # what they are answers to, then one a line
KEPT = HERE / "kept.jsonl"        # a documented difference a line: its question, and what cel-go said


def number(text):
    return float({"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}.get(text, text))


def plain(v):
    """A VALUE as something that == compares, with its type."""
    ((kind, held),) = v.items()
    if kind == "double_value":
        f = number(held)
        return kind, "NaN" if math.isnan(f) else (f, math.copysign(1, f))
    if kind in ("int64_value", "uint64_value"):
        return kind, int(held)
    if kind == "bytes_value":
        return kind, base64.b64decode(held)
    if kind in ("timestamp_value", "duration_value"):
        return kind, int(held.get("seconds", 0)) * 10**9 + int(held.get("nanos", 0))
    if kind == "list_value":
        return kind, tuple(plain(item) for item in held)
    if kind == "map_value":
        return kind, frozenset((plain(key), plain(item)) for key, item in held)
    return kind, held


def agree(ours, theirs):
    if "error" in ours or "error" in theirs:
        return "error" in ours and "error" in theirs
    return plain(ours["value"]) == plain(theirs["value"])


class Engine:
    """A program that answers a line with a line."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, lines):
        def feed():
            self.process.stdin.write("".join(lines))
            self.process.stdin.close()

        threading.Thread(target=feed, daemon=True).start()
        answers = [json.loads(line) for line in self.process.stdout]
        status = self.process.wait()
        if status != 0 or len(answers) != len(lines):
            raise RuntimeError(f"{self.process.args[0]} ended with {status} after {len(answers)} of {len(lines)} answers")
        return answers


class Tally:
    def __init__(self):
        self.values = self.errors = 0
        self.met = collections.Counter()
        self.unexplained = []

    def add(self, question, ours, theirs):
        if agree(ours, theirs):
            if "error" in ours:
                self.errors += 1
            else:
                self.values += 1
            return
        difference = differences.find(question, ours, theirs)
        if difference is None:
            self.unexplained.append((question, ours, theirs))
        else:
            self.met[difference.name] += 1

    @property
    def count(self):
        return self.values + self.errors + sum(self.met.values()) + len(self.unexplained)


def as_lines(questions):
    return [json.dumps(question) + "\n" for question in questions]


def digest(lines):
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def writ_answers(writ, lines):
    return Engine(writ).ask(lines)


def run_recorded(writ):
    """All recorded questions. They are made again from their seed, and have to be those that were answered."""
    about, *theirs = map(json.loads, ANSWERS.read_text(encoding="utf-8").splitlines())
    generator, tally = generate.Generator(about["seed"]), Tally()
    questions = [generator.question() for _ in theirs]
    lines = as_lines(questions)
    if digest(lines) != about["questions"]:
        raise RuntimeError(f"generate.py asks other questions than those that {ANSWERS.name} answers: run record.py")
    for trio in zip(questions, writ_answers(writ, lines), theirs):
        tally.add(*trio)
    return tally


def run_kept(writ):
    """The name of the difference that each kept question was kept for -> the names of what it meets now."""
    kept = list(map(json.loads, KEPT.read_text(encoding="utf-8").splitlines()))
    found = {}
    for one, ours in zip(kept, writ_answers(writ, as_lines(k["question"] for k in kept))):
        tally = Tally()
        tally.add(one["question"], ours, one["theirs"])
        found[one["difference"]] = list(tally.met)
    return found


def run(writ, celgo, count, seed):
    generator, tally = generate.Generator(seed), Tally()
    while tally.count < count:
        questions = [generator.question() for _ in range(min(CHUNK, count - tally.count))]
        lines = as_lines(questions)
        theirs = []
        other = threading.Thread(target=lambda: theirs.extend(Engine(celgo, "answers").ask(lines)))
        other.start()
        ours = writ_answers(writ, lines)
        other.join()
        if len(theirs) != len(lines):
            raise RuntimeError(f"{celgo} did not answer")
        for trio in zip(questions, ours, theirs):
            tally.add(*trio)
    return tally


def report(tally, seed, show):
    print(f"seed {seed}: {tally.count} questions, {tally.values} equal values, {tally.errors} errors of both, "
          f"{sum(tally.met.values())} explained differences, {len(tally.unexplained)} unexplained")
    for name, times in sorted(tally.met.items()):
        print(f"  {times:6} {name}")
    for question, ours, theirs in tally.unexplained[:show]:
        print(f"\n{question['expr']}\n  {json.dumps(question['bindings'], ensure_ascii=False)}\n  ours   {json.dumps(ours, ensure_ascii=False)}\n"
              f"  theirs {json.dumps(theirs, ensure_ascii=False)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writ", required=True)
    parser.add_argument("--celgo")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--show", type=int, default=20)
    options = parser.parse_args()
    tally = run(options.writ, options.celgo, options.count, options.seed) if options.celgo else run_recorded(options.writ)
    report(tally, options.seed, options.show)
    return 1 if tally.unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
