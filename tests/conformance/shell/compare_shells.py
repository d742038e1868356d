"""shell() beside bash and other shells, bashlex and mvdan.cc/sh on generated lines: where it is certain, all read the same.

    compare_shells.py WRIT COUNT [--seed N] [--bashlex PYTHON] [--mvdan PROGRAM]

WRIT is bin/cel_conformance of a build. Prints each difference, and how many lines each of them was compared on."""

import argparse
import shutil
import sys

import command_lines
import shells

BATCH = 5_000


def run(program, count, seed, bashlex=None, mvdan=None, log=None):
    generator, tally = command_lines.Generator(seed), shells.Tally()
    while tally.lines < count:
        lines = generator.lines(min(BATCH, count - tally.lines))
        tally.lines += len(lines)
        pairs = [(line, answer) for line, answer in zip(lines, shells.ours(program, lines)) if isinstance(answer, list)]
        tally.certain += len(pairs)
        compare(pairs, tally, bashlex, mvdan)
        if log:
            log(f"{tally.lines} lines, {tally.certain} certain, {len(tally.differences)} differences")
    return tally


def compare(pairs, tally, bashlex=None, mvdan=None):
    shells.bash(pairs, tally)
    for shell in shells.OTHERS:
        if shutil.which(shell):
            shells.other(shell, pairs, tally)
    if bashlex:
        shells.parser("bashlex", [bashlex, shells.HERE / "bashlex_answers.py"], pairs, tally)
    if mvdan:
        shells.parser("mvdan", [mvdan], pairs, tally)


def report(tally, most=20):
    for whom, line, expected, got in tally.differences[:most]:
        print(f"DIFFERENT {whom}: {line!r}\n  ours   {expected}\n  theirs {got}")
    print(f"{tally.lines} lines, {tally.certain} certain; compared: {tally.compared}; {len(tally.differences)} differences", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("writ")
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bashlex")
    parser.add_argument("--mvdan")
    a = parser.parse_args()
    tally = run(a.writ, a.count, a.seed, a.bashlex, a.mvdan, lambda text: print(text, flush=True))
    report(tally)
    return 1 if tally.differences else 0


if __name__ == "__main__":
    sys.exit(main())
