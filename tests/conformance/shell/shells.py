"""What shells make of lines, and what other parsers do, in the form of shell():

    [[operator, name, args, {variable: value}, [[descriptor, operator, target], …]], …]

bash and dash run the lines, and so do zsh and ksh93 where they are installed. Every command of a line is a function there that records how it was called, so nothing is
executed. What is compared with bash: names, arguments, the variables that a command sees, what each descriptor of it is
(a pipe, a file and how it is open), and which commands are left out when all succeed, and when all fail.
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import command_lines

HERE = pathlib.Path(__file__).resolve().parent
OCTAL_WRITE, OCTAL_APPEND = 0o1, 0o2000


# ---- ours ----


def plain(value):
    """A value of cel_conformance as Python has it."""
    (kind, of), = value.items()
    if kind == "list_value":
        return [plain(item) for item in of]
    if kind == "map_value":
        return {plain(key): plain(item) for key, item in of}
    return int(of) if kind == "int64_value" else of


def ours(program, lines):
    """For each line its commands, or the reason why it is not certain."""
    asked = "".join(json.dumps({"expr": "shell(l)", "vars": {"l": "string"}, "bindings": {"l": {"string_value": line}}}) + "\n" for line in lines)
    done = subprocess.run([program], input=asked, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(lines)
    return [answer["error"] if "error" in answer else
            [[c["operator"], c["name"], c["args"], c["env"], [[r["descriptor"], r["operator"], r["target"]] for r in c["redirects"]]] for c in plain(answer["value"])]
            for answer in answers]


# ---- what running them has to show ----


def pipelines(commands):
    found = []
    for command in commands:
        if command[0] != "|":
            found.append([])
        found[-1].append(command)
    return found


def descriptors(command, has_pipe_behind):
    """Descriptor → what it is, after the redirections; None: one of them copies what is not open."""
    at = {0: "pipe" if command[0] == "|" else "in", 1: "pipe" if has_pipe_behind else "out", 2: "err"}
    for descriptor, sign, target in command[4]:
        if sign == ">&":
            if int(target) not in at:
                return None
            at[descriptor] = at[int(target)]
        else:
            at[descriptor] = f"{sign} {target}"
    return at


def records(commands, is_failing, has_descriptors=True):
    """The calls that a shell makes, by pipeline; None: it cannot be tried."""
    calls = []
    for pipeline in pipelines(commands):
        if pipeline[0][0] == ("&&" if is_failing else "||"):
            continue
        calls.append([])
        for i, command in enumerate(pipeline):
            at = descriptors(command, i + 1 < len(pipeline))
            if at is None:
                return None
            calls[-1].append([command[1], command[2], command[3], at] if has_descriptors else [command[1], command[2]])
    return calls


def is_same(expected, got):
    """The calls of one pipeline come in any order."""
    at = 0
    for pipeline in expected:
        if sorted(pipeline, key=repr) != sorted(got[at:at + len(pipeline)], key=repr):
            return False
        at += len(pipeline)
    return at == len(got)


# ---- bash ----

BASH = r'''
builtin enable -n cd exit source . kill trap unset export readonly typeset wait shift times ulimit umask hash alias unalias type logout break
exec 0<"$__base/in" 1>"$__base/out" 2>"$__base/err" {__log}>>"$__base/log"
builtin mapfile -d '' -t __in <"$__base/lines"
command_not_found_handle() { __rec "$@"; }
__rec() {
    local __out=(C "$__i" "$#" "$@") __v __d __t __h __k __f __what
    for __v in "${__watched[@]}"; do
        [[ -v $__v ]] && __out+=(V "$__v" "${!__v}")
    done
    if [[ $__wants ]]; then
        for __d in 0 1 2 3 4 5 6 7 8 9; do
            [[ -e /proc/self/fd/$__d ]] || builtin continue
            if [[ -p /proc/self/fd/$__d ]]; then __what=pipe
            elif [[ /proc/self/fd/$__d -ef $__base/in ]]; then __what=in
            elif [[ /proc/self/fd/$__d -ef $__base/out ]]; then __what=out
            elif [[ /proc/self/fd/$__d -ef $__base/err ]]; then __what=err
            else
                __what=?
                for __t in "${__targets[@]}"; do
                    [[ /proc/self/fd/$__d -ef ./$__t ]] && __what=$__t
                done
                builtin exec {__h}<"/proc/self/fdinfo/$__d"
                builtin read -r -u "$__h" __k __f
                builtin read -r -u "$__h" __k __f
                builtin exec {__h}<&-
                __what="$__f $__what"
            fi
            __out+=(D "$__d" "$__what")
        done
    fi
    # printf writes after each newline, and another side of a pipeline may write in between.
    builtin printf '%s\0' "${__out[@]//$'\n'/$'\2'}" >&"$__log"
    builtin return "$__status"
}
__at=0
while ((__at < ${#__in[@]})); do
    __i=${__in[__at]} __line=${__in[__at + 1]} __status=${__in[__at + 2]} __wants=${__in[__at + 3]}
    builtin set -f
    IFS=$'\1'
    __names=(${__in[__at + 4]}) __watched=(${__in[__at + 5]}) __targets=(${__in[__at + 6]})
    IFS=$' \t\n'
    builtin set +f
    __at=$((__at + 7))
    for __name in "${__names[@]}"; do
        [[ ${__known[$__name]} ]] && continue
        builtin eval "function $__name { __rec '$__name' \"\$@\"; }" && __known[$__name]=1
    done
    builtin eval "$__line"
    builtin printf '%s\0' E "$__i" "$?" >&"$__log"
done
'''
BASH = "builtin declare -A __known\n" + BASH
# Functions of these names would take the place of what the script above runs.
HARNESS = {"builtin", "local", "command_not_found_handle"}


def parse_log(data):
    """index → [finished, calls]; a call is [name, args, variables, descriptors]."""
    fields = data.decode().split("\0")
    found, at = {}, 0
    while at < len(fields) - 1:
        kind = fields[at]
        if kind == "C":
            index, count = int(fields[at + 1]), int(fields[at + 2])
            call = [fields[at + 3], fields[at + 4:at + 3 + count], {}, {}]
            found.setdefault(index, [False, []])[1].append(call)
            at += 3 + count
        elif kind == "V":
            call[2][fields[at + 1]] = fields[at + 2]
            at += 3
        elif kind == "D":
            call[3][int(fields[at + 1])] = fields[at + 2]
            at += 3
        elif kind == "E":
            found.setdefault(int(fields[at + 1]), [False, []])[0] = True
            at += 3
        else:
            raise AssertionError(f"the log has {fields[at:at + 4]}")
    return found


def opened(what):
    """'0100001 f' as '> f'."""
    if what in ("pipe", "in", "out", "err"):
        return what
    flags, target = what.split(" ", 1)
    number = int(flags, 8)
    return f"{'>>' if number & OCTAL_APPEND else '>' if number & OCTAL_WRITE else '<'} {target}"


def can_run(commands):
    names = {command[1] for command in commands}
    targets = [target for command in commands for _, sign, target in command[4] if sign != ">&"]
    return not names & HARNESS and not any(name.startswith("__") for name in names) and not any(
        "/" in target or target in (".", "..") or len(target) > 200 for target in targets)


class Tally:
    def __init__(self):
        self.lines = self.certain = 0
        self.compared = {}
        self.differences = []

    def compare(self, with_whom, line, expected, got, same):
        self.compared[with_whom] = self.compared.get(with_whom, 0) + 1
        if not same:
            self.differences.append((with_whom, line, expected, got))

    def add(self, other):
        self.lines += other.lines
        self.certain += other.certain
        self.differences += other.differences
        for whom, count in other.compared.items():
            self.compared[whom] = self.compared.get(whom, 0) + count


def bash(pairs, tally):
    """Runs the certain lines of (line, commands)."""
    assert not any("\2" in line for line, _ in pairs), "the log has this character in the place of a newline"
    base = pathlib.Path(tempfile.mkdtemp(prefix="shell-bash-"))
    folder = base / "folder"
    folder.mkdir()
    (base / "in").write_text("")
    fields, wanted = [], {}
    for line, commands in pairs:
        if not can_run(commands):
            continue
        for is_failing in (False, True) if any(c[0] == "||" for c in commands) else (False,):
            calls = records(commands, is_failing)
            if calls is None:
                continue
            targets = sorted({target for c in commands for _, sign, target in c[4] if sign != ">&"})
            for target in targets:
                (folder / target).touch()
            variables = sorted(({variable for c in commands for variable in c[3]} | set(command_lines.WATCHED)) - {"_"})
            wants = any(sign in line for sign in "<>|") or any(c[4] or c[0] == "|" for c in commands)
            wanted[len(wanted)] = (line, calls, wants)
            fields += [str(len(wanted) - 1), line, "1" if is_failing else "0", "1" if wants else "",
                       "\1".join(sorted({c[1] for c in commands})), "\1".join(variables), "\1".join(targets)]
    (base / "lines").write_text("".join(field + "\0" for field in fields))
    script = base / "script"
    script.write_text(BASH)
    try:
        subprocess.run([shutil.which("bash"), "--norc", "--noprofile", script], cwd=folder, env={"PATH": "/nowhere", "HOME": "/home", "__base": str(base), "LC_ALL": "C"},
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600, check=False)
        found = parse_log((base / "log").read_bytes().replace(b"\2", b"\n"))
    finally:
        shutil.rmtree(base)
    for index, (line, calls, wants) in wanted.items():
        finished, got = found.get(index, (False, []))
        expected = [[[name, args, {k: v for k, v in env.items() if k != "_"}, at if wants else {}] for name, args, env, at in pipeline] for pipeline in calls]
        got = [[name, args, env, {d: opened(what) for d, what in at.items()}] for name, args, env, at in got]
        tally.compare("bash", line, expected, got, finished and is_same(expected, got))


# ---- dash, and others like it ----

OTHERS = ["dash", "zsh", "ksh93"]  # those that are here are asked; dash always is
# Special built-in commands cannot be functions, and these are what the script runs.
NOT_A_FUNCTION = {"break", "continue", "eval", "exec", "exit", "export", "readonly", "return", "set", "shift", "times", "trap", "unset", "printf", "local", "rec"}


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def other(shell, pairs, tally):
    base = pathlib.Path(tempfile.mkdtemp(prefix=f"shell-{shell}-"))
    folder = base / "folder"
    folder.mkdir()
    script, wanted = [], {}
    names = {name for name in command_lines.NAMES if name.isidentifier()} - NOT_A_FUNCTION - {"if", "time"}
    for line, commands in pairs:
        own = {c[1] for c in commands}
        if not can_run(commands) or own & NOT_A_FUNCTION or not all(name.isidentifier() for name in own):
            continue
        for is_failing in (False, True) if any(c[0] == "||" for c in commands) else (False,):
            calls = records(commands, is_failing, has_descriptors=False)
            if calls is None:
                continue
            for command in commands:
                for _, sign, target in command[4]:
                    if sign != ">&":
                        (folder / target).touch()
            names |= own
            script.append(f"__i={len(wanted)} __s={int(is_failing)}; eval {quoted(line)}; printf '%s\\0' E $__i $? >>\"$__log\"\n")
            wanted[len(wanted)] = (line, calls)
    head = "__rec() { printf '%s\\0' \"$@\" >>\"$__log\"; return $__s; }\n"
    head += "".join(f'{name}() {{ __rec C $__i $(($# + 1)) {name} "$@"; }}\n' for name in sorted(names))
    (base / "script").write_text(head + "".join(script))
    try:
        subprocess.run([shutil.which(shell), *(["-f"] if shell == "zsh" else []), base / "script"], cwd=folder, env={"PATH": "/nowhere", "HOME": "/home", "__log": str(base / "log"), "LC_ALL": "C"},
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600, check=False)
        found = parse_log((base / "log").read_bytes() if (base / "log").exists() else b"")
    finally:
        shutil.rmtree(base)
    for index, (line, calls) in wanted.items():
        finished, got = found.get(index, (False, []))
        got = [call[:2] for call in got]
        if shell == "ksh93":  # it waits for the last command of a pipeline only
            got, calls = sorted(got, key=repr), [sorted((call for pipeline in calls for call in pipeline), key=repr)]
        tally.compare(shell, line, calls, got, finished and is_same(calls, got))


# ---- parsers ----


def parser(name, command, pairs, tally):
    """A program that reads lines as JSON strings, one a line, and answers each with commands or {"error": …}."""
    asked = "".join(json.dumps(line) + "\n" for line, _ in pairs)
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})
    answers = done.stdout.splitlines()
    assert len(answers) == len(pairs), done.stderr[-2000:]
    for (line, commands), answer in zip(pairs, answers):
        theirs = json.loads(answer)
        tally.compare(name, line, commands, theirs, theirs == commands)
