"""Lines as JSON strings, answered with what bashlex reads (shells.py has the form).

bashlex splits lines into words. The quotes of a word are taken away here (expansionlimit=-1), because bashlex 0.18
leaves two of them in 'a''b', takes the backslash out of "\\a", and fails on '`'x.
"""

import json
import re
import sys

import bashlex.parser

PART = re.compile(r"'([^']*)'|\"((?:[^\"\\$`]|\\.)*)\"|\\(.)|([^'\"\\$`*?\[~{]+|(?<=.)~)", re.S)


class Other(Exception):
    pass


def word_of(node, line):
    raw, out, at = line[node.pos[0]:node.pos[1]], "", 0
    while at < len(raw):
        match = PART.match(raw, at)
        if match is None:
            raise Other(f"{raw[at]} in a word")
        single, double, escaped, plain = match.groups()
        out += single if single is not None else re.sub(r"\\([$`\"\\])", r"\1", double) if double is not None else escaped or plain
        at = match.end()
    return out


def command_of(node, operator, line):
    if node.kind != "command":
        raise Other(node.kind)
    name, args, env, redirects = None, [], {}, []
    for part in node.parts:
        if part.kind == "assignment" and name is None:
            variable, value = word_of(part, line).split("=", 1)
            if variable in env:
                raise Other("a variable twice")
            env[variable] = value
        elif part.kind == "redirect":
            if part.heredoc is not None:
                raise Other("a here-document")
            to = part.output if isinstance(part.output, int) else word_of(part.output, line)
            redirects.append([part.input if part.input is not None else 0 if part.type == "<" else 1, part.type, str(to)])
        elif part.kind in ("word", "assignment"):
            if name is None:
                name = word_of(part, line)
            else:
                args.append(word_of(part, line))
        else:
            raise Other(part.kind)
    if name is None:
        raise Other("no name")
    return [operator, name, args, env, redirects]


def commands_of(node, operator, line):
    if node.kind == "command":
        yield command_of(node, operator, line)
    elif node.kind in ("list", "pipeline"):
        for part in node.parts:
            if part.kind == "operator":
                operator = ";" if part.op == "\n" else part.op
            elif part.kind == "pipe":
                operator = part.pipe
            else:
                yield from commands_of(part, operator, line)
    else:
        raise Other(node.kind)


def trees(line):
    """What bashlex.parse() gives; it forgets expansionlimit from the second line on."""
    at = 0
    while at < len(line):
        tree = bashlex.parser._parser(line[at:], expansionlimit=-1).parse()
        if not isinstance(tree, bashlex.ast.node):
            return
        yield tree, line[at:]
        at += tree.pos[1] + 1


def answer(line):
    try:
        commands = []
        for tree, text in trees(line):
            commands += commands_of(tree, ";" if commands else "", text)
        return commands
    except Exception as e:  # bashlex fails in many ways
        return {"error": f"{type(e).__name__}: {e}"}


for asked in sys.stdin:
    print(json.dumps(answer(json.loads(asked))))
