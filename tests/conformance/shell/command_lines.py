"""Shell lines by chance: the same seed makes the same lines.

Most lines are well-formed and near the edge of what shell() reads: words of pieces in every kind of quotes, operators,
redirections, assignments. Some of them are then damaged at one to three places, and some lines are no more than a few
of the signs that shells read in a special way.
"""

import random

NAMES = ["foo", "bar", "baz", "git", "ls", "a", "b", "x1", "_y", "d-e", "f.g", "./run", "/bin/h", "A", "if", "time", "2", "z,w", "@k", "+p", "u:v"]
PIECES = ["a", "b", "1", "2", "10", "-x", "--long", "--k=v", "k=v", "HEAD", "origin/main", "a.b", "a,b", "a:b", "%H", "+x", "@", "=", "==", ":=", "x=",
          "..", "/", "/dev/null", "_", "-", "--", "if", "in", "then", "0", "A=1", "1=2", "~", "*", "?", "[a]", "{b,c}", "#", "!", "$v", "`v`", "$(v)", "^"]
PLAIN = len("a b 1 2 10 -x --long --k=v k=v HEAD origin/main a.b a,b a:b %H +x @".split())
QUOTED = list("ab1 =;|&<>()[]{}*?~#^%,.:-_/") + ["  ", "$v", "`v`", "!", "\\", "\\\\", "'", '"', "\n", "$(v)", "rm -rf /", "é", "\t"]
QUOTED_PLAIN = len("ab1 =;|&<>()[]{}*?~#^%,.:-_/")
OPERATORS = [" && ", " || ", " | ", " ; ", "; ", "&&", "||", "|", ";", "\n", " &&\n", "|\n ", ";\n", "\n\n"]
ODD_OPERATORS = [" & ", " |& ", ";;", " &", "&&&", "|||", "; ;", "\n;", " && ||"]
VARIABLES = ["A", "B", "FOO", "x_1", "_z", "a", "b", "ab"]
TARGETS = ["f", "g", "out", "f.txt", "a", "1", "2", "-", "b"]
SIGNS = list("ab1=$'\"\\;&|<> \n~*?[]{}()#!%^`-,:@+/_.A2")
DAMAGE = SIGNS + list("\t\r\0é\x7f\x1b") + ["''", '""', "\\\n", "2>", ">&1", "<<", "$(", "&&", "||"]

# The set of variables whose values are compared, whatever a line seems to assign.
WATCHED = VARIABLES + ["A1", "aa", "ba", "bb", "aA", "Aa", "bA", "Ab", "AA", "_a", "a_", "a1", "b1"]

EDGES = ["a", "a;", "a\n", "\na", "a 2>&1", "a 2>&1|b", "a >f 2>&1 <g >>h", ">f a", "a>f", "a 2 >f", "a2>f", "'2'>f a", "a \\2>f", "a x2>f", "a >2",
         "A=1 a", "A= a", "A=1 B=2 a A=3", "A='x y' a", "a A='x'y", "'A'=1 a", "A\\=1 a", "A+=1 a", "1A=1 a", "a b=c", "a ''", "a \"\" ''", "'a' b", "a'b'\"c\"\\d e",
         "a \"\\a\\\"\\\\\"", "a '\\'", "a \"'\"", "a '\"'", "a \\' \\\"", "a 'b\nc'", "a \"b\nc\"", "a && b || c", "a || b && c", "a | b || c | d && e", "a;b;c",
         "a &&\nb", "a |\n\n b", "a \\\nb", "a <1-9>", "a >b>c", "a 12>b", "a >&b", "a <&1", "a >|b", "a <>b", "a <<b", "a <<<b", "a &>b", "! a", "a !", "a #b", "a b#c",
         "a =b", "a ==", "a b==c", "A==b a", "a :=b", "a ~", "a b~", "a A=~", "a {b,c}", "a {b}", "a }", "{ a", "a *", "a ?", "a [", "a ]", "[ a ]", "if a", "a if",
         "time a", "a | time b", "A=1 if a", "'if' a", "i\\f a", "\\a b", "%a", "a %", "- a", "-- a", "alias a=b", "set -k", "$a", "a \"$b\"", "a \"!\"", "a '!'", "a '$b'", "a \\$b",
         "a > /dev/tcp/127.0.0.1/1", "a(b)", "a ()", "(a)", "a <(b)", "a &", "a & b", "a ;; b", "a;;", ";a", "", " ", "a\tb", "a\rb", "a\0b", "a é", "a 'é'", "./a b", "a/b c", "/a",
         "a 9>f", "a 3>f 4>&3", "a 0<f", "a 1<f", "a 0>f", "a <f <g", "a >f b >g c", "a >f\nb", "a 2>&1;b", "a 2>&1&&b", "a>&2", "a >& 2", "a >&22", "a 2>&1b", "a 2>&1''"]


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.edges = iter(EDGES)

    def piece(self):
        r = self.random.random()
        pick = self.random.choice
        if r < 0.62:
            return PIECES[int(self.random.random() * PLAIN)] if self.random.random() < 0.97 else pick(PIECES)
        quoted = [QUOTED[int(self.random.random() * QUOTED_PLAIN)] if self.random.random() < 0.85 else pick(QUOTED) for _ in range(int(self.random.random() * 5))]
        if r < 0.77:
            return "'" + "".join(part for part in quoted if part != "'") + "'"
        if r < 0.92:
            clean = [part for part in quoted if part not in ("$v", "`v`", "$(v)", "!", "\\", '"')] if self.random.random() < 0.8 else quoted
            return '"' + "".join(clean) + pick(["", "", "", "\\\"", "\\\\", "\\$", "\\`", "\\a", "\\n", "'"]) + '"'
        return "\\" + pick("ab $'\"\\;&|<>~*?[]{}()#!%^`=1-")

    def word(self):
        r = self.random.random()
        return "".join(self.piece() for _ in range(1 if r < 0.6 else 2 if r < 0.85 else 3))

    def redirection(self):
        pick = self.random.choice
        descriptor = pick(["", "", "", "2", "1", "0", "3", "9"])
        r = self.random.random()
        if r < 0.3:
            return descriptor + ">&" + pick("12121203") if self.random.random() < 0.95 else descriptor + pick([">& 1", ">&-", "<&1", ">&11", ">&f"])
        sign = pick(["<", ">", ">>", ">"]) if self.random.random() < 0.96 else pick(["<<", "<<<", ">|", "<>", "&>", ">>&"])
        return descriptor + sign + pick(["", " "]) + (pick(TARGETS) if self.random.random() < 0.8 else self.word())

    def command(self):
        pick = self.random.choice
        parts = []
        while self.random.random() < 0.12:
            parts.append(pick(VARIABLES) + "=" + (self.word() if self.random.random() < 0.8 else ""))
        if self.random.random() < 0.03:
            parts.append(self.redirection())
        name = pick(NAMES[:12]) if self.random.random() < 0.9 else pick(NAMES)
        parts.append(name if self.random.random() < 0.92 else pick(["'%s'", '"%s"', "\\%s", "%s''"]) % name)
        while self.random.random() < 0.62:
            parts.append(self.word() if self.random.random() < 0.88 else self.redirection())
        return (" " if self.random.random() < 0.97 else "  ").join(parts)

    def sentence(self):
        line = self.command()
        while self.random.random() < 0.35:
            line += (self.random.choice(OPERATORS) if self.random.random() < 0.97 else self.random.choice(ODD_OPERATORS)) + self.command()
        return line + (self.random.choice([";", "\n", " ", "; ", "&"]) if self.random.random() < 0.05 else "")

    def damaged(self, line):
        for _ in range(1 + int(self.random.random() * 3)):
            at = int(self.random.random() * (len(line) + 1))
            r = self.random.random()
            if r < 0.5:
                line = line[:at] + self.random.choice(DAMAGE) + line[at:]
            elif r < 0.75:
                line = line[:at] + line[at + 1:]
            elif r < 0.9:
                line = line[:at] + self.random.choice(DAMAGE) + line[at + 1:]
            else:
                line = line[:at] + line[at // 2:at] + line[at:]
        return line

    def line(self):
        edge = next(self.edges, None)
        if edge is not None:
            return edge
        r = self.random.random()
        if r < 0.6:
            return self.sentence()
        if r < 0.85:
            return self.damaged(self.sentence())
        return "".join(self.random.choice(SIGNS) for _ in range(1 + int(self.random.random() * 12)))

    def lines(self, count):
        return [self.line() for _ in range(count)]
