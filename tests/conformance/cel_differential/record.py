#!/usr/bin/env python3
"""Records cel-go's answers, so that `writ cel` is held against them where there is no Go.

    record.py --writ cel_conformance --celgo PROGRAM

Writes answers.jsonl (those to the first questions of differential.SEED) and kept.jsonl (for each entry of
differences.py the shortest question of the long run that meets it). To be run, with what `build` makes, whenever
generate.py, differences.py or the version of cel-go changes.
"""

import argparse
import json
import sys

import differences
import differential
import generate

RECORDED = 5_000
SEARCHED = 120_000


def short(answer):
    """An error's first line says what it is; the others draw the expression."""
    return {**answer, "error": answer["error"].split("\n")[0]} if "error" in answer else answer


def write(path, rows):
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writ", required=True)
    parser.add_argument("--celgo", required=True)
    options = parser.parse_args()
    generator, kept = generate.Generator(differential.SEED), {}
    for asked in range(0, SEARCHED, RECORDED):
        questions = [generator.question() for _ in range(RECORDED)]
        lines = differential.as_lines(questions)
        theirs = list(map(short, differential.Engine(options.celgo, "answers").ask(lines)))
        if asked == 0:
            about = {"cel_go": "0.32.0", "seed": differential.SEED, "questions": differential.digest(lines)}
            write(differential.ANSWERS, [about, *theirs])
        for question, ours, other in zip(questions, differential.writ_answers(options.writ, lines), theirs):
            met = None if differential.agree(ours, other) else differences.find(question, ours, other)
            if met is not None and (met.name not in kept or len(question["expr"]) < len(kept[met.name]["question"]["expr"])):
                kept[met.name] = {"difference": met.name, "question": question, "theirs": other}
    write(differential.KEPT, (kept[name] for name in sorted(kept)))
    never = [d.name for d in differences.DIFFERENCES if d.name not in kept]
    for name in never:
        print(f"no question meets: {name}", file=sys.stderr)
    return 1 if never else 0


if __name__ == "__main__":
    sys.exit(main())
