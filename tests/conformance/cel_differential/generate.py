"""Expressions and inputs for two engines, from a seed.

A grammar of typed productions: `{int}` in a text is replaced by an expression of that type, one level
less deep; at the bottom there are leaves, variables of the environment, and variables of the macros
around. Most expressions pass the type check, so that it is values that are compared; about one in fifty
has a part of a wrong type, so that refusals are compared too. Each question has inputs of its own: `args` in the
form of decoded JSON (numbers are doubles), and one variable of each other type.
"""

import base64
import random
import re

VARIABLES = {
    "i": "int", "u": "uint", "d": "double", "s": "string", "y": "bytes", "at": "google.protobuf.Timestamp",
    "span": "google.protobuf.Duration", "roles": "list(string)", "nums": "list(int)", "args": "map(string, dyn)",
}
OF_TYPE = {"int": "i", "uint": "u", "double": "d", "string": "s", "bytes": "y", "time": "at", "span": "span",
           "strings": "roles", "ints": "nums", "map": "args"}

INTS = [0, 1, 2, 3, 7, 10, 60, 64, 255, 1000000, -1, -2, -7, -128, 2**31, 2**53, 2**53 + 1, 2**62, 2**63 - 1, -2**63, -2**53 - 1]
UINTS = [0, 1, 2, 7, 63, 64, 255, 2**32, 2**53 + 1, 2**63, 2**63 - 1, 2**64 - 1]
DOUBLES = [0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 0.1, 1e-7, 1e20, 1e21, 123456789.0, 9007199254740993.0, 9223372036854775808.0,
           1.7976931348623157e308, 5e-324, -0.0]
TEXTS = ["", "a", "ab", "abc", "b", "A", "aXbXc", "Müller", "é€𝄞", "a,b,,c", " \\t x ", "1", "-7", "0", "1.5", "true", "TRUE", "f",
         "1h30m", "-1.5s", "2009-02-13T23:31:30.5Z", "2026-11-20T10:30:00+01:00", "gold", "x.y/z*", "\\u00a0x\\u2003", "🙂🙃", "\\\\n",
         "10.0.0.1", "ÄÖÜ", "straße"]
TIMES = ["2026-11-20T09:30:00.123Z", "2009-02-13T23:31:30.123456789Z", "1970-01-01T00:00:00Z", "1969-12-31T23:59:59.9Z",
         "9999-12-31T23:59:59.999999999Z", "0001-01-01T00:00:00Z", "2024-02-29T12:00:00Z", "2026-03-29T01:30:00Z", "2000-12-31T23:59:60Z"]
SPANS = ["1h30m", "-1.5s", "1ns", "0s", "100ms", "24h", "-36h15m", "2562047h", "1us", "90061.000000001s"]
ZONES = ["UTC", "Europe/Paris", "America/St_Johns", "Asia/Kathmandu", "+02:00", "-09:30", "05:45", "Australia/Lord_Howe", "Nowhere/At_All"]
PATTERNS = ["a+", "^[a-z]+$", "(a|b)*c", ".", "\\\\d+", "é", "(?i)M", "^$", "[^a]", "\\\\pL+", "x{2,3}", "\\\\bab\\\\b"]

LEAVES = {
    "bool": ["true", "false"],
    "int": [str(n) for n in INTS] + ["0x1F", "-0x10"],
    "uint": [f"{n}u" for n in UINTS] + ["0xFFu"],
    "double": ["0.0", "1.0", "1.5", "-2.5", "0.1", "1e20", "1e-7", ".5", "1e+06", "9007199254740993.0", "double('NaN')", "(1.0 / 0.0)", "(-1.0 / 0.0)"],
    "string": [f"'{t}'" for t in TEXTS] + ["r'\\d+'", '"""x"y"""', "'\\x41\\u00e9\\101'"],
    "bytes": ["b'abc'", "b'\\xff\\x00'", "b''", "b'é'", "b'\\303\\251'", "br'\\x'", "rb'a'"],
    "time": [f"timestamp('{t}')" for t in TIMES] + ["timestamp(0)", "timestamp(-1)"],
    "span": [f"duration('{t}')" for t in SPANS],
    "null": ["null"],
    "ints": ["[1, 2, 3]", "[]", "[5]", "[0, -1, 7, 7]"],
    "strings": ["['a', 'b']", "[]", "['x', '', 'é']", "['support', 'finance']"],
    "counts": ["{'a': 1, 'b': 2}", "{}", "{'x': 5}", "{'': 0, 'é': -1}"],
    "dyn": ["args.amount", "args.note", "args.nothing", "args.flag", "args.list", "args.map", "args.missing", "args.map.a", "args['amount']",
            "args.list[0]", "args.map.a.b", "args.nums", "args.nums[1]", "args.tags", "dyn(1)", "dyn(1u)", "dyn('a')", "dyn(2.5)", "dyn([1, 'a'])", "dyn(null)"],
}

ORDERED = ["int", "uint", "double", "string", "bytes", "time", "span", "bool"]
ANY = ORDERED + ["ints", "strings", "counts", "dyn", "null"]

# (weight, text); {A} is one type of ANY, {O} one of ORDERED and {N} of the numbers: the same in all of the text. {a b} is either.
PRODUCTIONS = {
    "bool": [
        (6, "({bool} && {bool})"), (6, "({bool} || {bool})"), (2, "!{bool}"), (2, "({bool} ? {bool} : {bool})"),
        (5, "({O} < {O})"), (3, "({O} <= {O})"), (3, "({O} > {O})"), (3, "({O} >= {O})"), (5, "({A} == {A})"), (4, "({A} != {A})"),
        (3, "({int uint double} < {int uint double})"), (2, "({int uint double} >= {int uint double})"),
        (4, "({dyn} == {int string double dyn uint bool null})"), (3, "({dyn} != {dyn string null})"), (3, "({dyn} < {int double dyn string})"),
        (3, "({dyn} >= {double uint dyn})"), (3, "({int} in {ints})"), (3, "({string} in {strings counts})"), (2, "({dyn} in {ints strings counts})"),
        (2, "({string} in args)"), (3, "({string} in args.tags)"), (3, "({dyn} in [1, 2.0, 'a', null, 3u])"), (3, "({dyn} in ['gold', 'a', 'abc', 'é€𝄞', '', 'silver'])"),
        (3, "{string}.contains({string})"), (3, "{string}.startsWith({string})"), (3, "{string}.endsWith({string})"), (4, "{string}.matches({pattern})"),
        (1, "matches({string}, {pattern})"), (4, "has(args.{field})"), (2, "has(args.map.{field})"), (3, "(has(args.{=field}) && args.{=field} == {dyn string double})"),
        (1, "bool({string})"), (1, "bool({bool})"), (1, "math.isNaN({double})"), (1, "math.isInf({double})"), (1, "math.isFinite({double})"),
        (3, "{ints#e int}.all(e, {bool})"), (3, "{ints#e int}.exists(e, {bool})"), (2, "{ints#e int}.exists_one(e, {bool})"),
        (2, "{strings#e string}.exists(e, {bool})"), (2, "{strings#e string}.all(e, {bool})"), (2, "{counts#e string}.exists(e, {bool})"),
        (2, "{dyn#e dyn}.exists(e, {bool})"), (2, "{dyn#e dyn}.all(e, {bool})"), (1, "args.list#e dyn.exists_one(e, {bool})"), (1, "{counts#e string #f int}.all(e, f, {bool})"),
        (1, "{ints#e int #f int}.exists(e, f, {bool})"), (1, "args.map#e string.all(e, {bool})"), (1, "cel.bind(v, {A}, v == {A})"),
        # What is rare and documented (differences.py), so that a full run meets it.
        (0.1, "(true || {{}}[{bytes}] == 1)"), (0.1, "(true || math.greatest([]) > 0)"), (0.1, "(true || '%d'.format(['a', {int}]) == s)"), (0.1, "(null == {time span})"), (0.1, "(dyn({bytes}) in {counts})"),(0.1, "(true || ({dyn} % math.least(1, {int}, 3)).all(x, true))"),
        (0.1, "(dyn({string}) < double('NaN'))"), (0.1, "cel.bind(v, type({int}), v == int)"),
    ],
    "int": [
        (5, "({int} + {int})"), (4, "({int} - {int})"), (4, "({int} * {int})"), (4, "({int} / {int})"), (4, "({int} % {int})"), (2, "-({int})"),
        (4, "size({string bytes ints strings counts dyn})"), (1, "{string ints counts}.size()"), (5, "int({uint double string time int})"), (2, "{ints}[{int}]"), (2, "{counts}[{string}]"),
        (4, "{time}.{part}({zone})"), (2, "{time}.{part}()"), (3, "{span}.{clock}()"), (0.4, "{span}.getMilliseconds()"), (0.2, "(duration('1ns') - duration('2562047h')).{clock}()"), (3, "{string}.indexOf({string})"), (2, "{string}.lastIndexOf({string})"),
        (2, "{string}.indexOf({string}, {int})"), (2, "{string}.lastIndexOf({string}, {int})"), (2, "math.greatest({int}, {int})"), (1, "math.least({int}, {int}, {int})"),
        (1, "math.greatest({ints})"), (1, "math.bitAnd({int}, {int})"), (1, "math.bitOr({int}, {int})"), (1, "math.bitXor({int}, {int})"), (1, "math.bitNot({int})"),
        (2, "math.bitShiftLeft({int}, {int})"), (2, "math.bitShiftRight({int}, {int})"), (1, "math.abs({int})"), (1, "math.sign({int})"), (2, "({bool} ? {int} : {int})"),
        (1, "size({counts#e string}.map(e, e + {string}))"), (1, "size({{}}#e string.map(e, e + e))"),
    ],
    "uint": [
        (4, "({uint} + {uint})"), (3, "({uint} - {uint})"), (3, "({uint} * {uint})"), (3, "({uint} / {uint})"), (3, "({uint} % {uint})"), (5, "uint({int double string uint})"),
        (1, "math.bitNot({uint})"), (1, "math.bitShiftRight({uint}, {int})"), (1, "math.bitShiftLeft({uint}, {int})"), (1, "math.bitXor({uint}, {uint})"), (1, "math.greatest({uint}, {uint})"),
        (1, "math.abs({uint})"), (1, "math.sign({uint})"),
    ],
    "double": [
        (4, "({double} + {double})"), (3, "({double} - {double})"), (3, "({double} * {double})"), (3, "({double} / {double})"), (5, "double({int uint string double})"), (1, "-({double})"),
        (1, "math.ceil({double})"), (1, "math.floor({double})"), (1, "math.round({double})"), (1, "math.trunc({double})"), (1, "math.abs({double})"), (1, "math.sign({double})"),
        (1, "math.sqrt({int uint double})"), (1, "math.greatest({double}, {double})"), (1, "math.least({double}, {double})"),
    ],
    "string": [
        (4, "({string} + {string})"), (6, "string({int uint double bool bytes time span string})"), (2, "{string}.charAt({int})"), (2, "{string}.substring({int})"), (2, "{string}.substring({int}, {int})"),
        (2, "{string}.replace({string}, {string})"), (1, "{string}.replace({string}, {string}, {int})"), (2, "{string}.lowerAscii()"), (2, "{string}.upperAscii()"), (2, "{string}.trim()"), (2, "{string}.reverse()"),
        (2, "{strings}.join()"), (2, "{strings}.join({string})"), (2, "strings.quote({string})"), (4, "'%s'.format([{string int uint double bool time span ints strings counts null bytes dyn}])"),
        (3, "'{directive}'.format([{int uint}])"), (3, "'{fixed}'.format([{double int}])"), (1, "'%s and %d%%'.format([{string}, {int}])"), (2, "{strings}[{int}]"), (1, "string({dyn})"), (2, "({bool} ? {string} : {string})"),
    ],
    "bytes": [(3, "({bytes} + {bytes})"), (3, "bytes({string bytes})"), (0.2, "bytes('%s'.format([{bytes}]))"), (0.1, "bytes(string(timestamp('2026-11-20T10:30:00+01:00')))")],
    "time": [(3, "({time} + {span})"), (2, "({time} - {span})"), (1, "({span} + {time})"), (2, "timestamp({int})"), (2, "timestamp(string({time}))"), (1, "timestamp({string})")],
    "span": [(3, "({span} + {span})"), (3, "({span} - {span})"), (3, "({time} - {time})"), (2, "duration(string({span}))"), (1, "duration({string})")],
    "ints": [
        (3, "({ints} + {ints})"), (3, "[{int}, {int}]"), (3, "{ints#e int}.filter(e, {bool})"), (3, "{ints#e int}.map(e, {int})"), (2, "{ints#e int}.map(e, {bool}, {int})"),
        (1, "{ints#e int #f int}.transformList(e, f, {int})"), (1, "{strings#e string}.map(e, {int})"), (1, "[{int}]"),
    ],
    "strings": [
        (3, "{string}.split({string})"), (2, "{string}.split({string}, {int})"), (2, "({strings} + {strings})"), (2, "[{string}]"), (2, "{strings#e string}.filter(e, {bool})"),
        (1, "[{string}, {string}]"),
    ],
    "counts": [(3, "{{{string}: {int}}}"), (3, "{{{string}: {int}, {string}: {int}}}"), (2, "{counts#e string #f int}.transformMap(e, f, {int})"), (1, "({bool} ? {counts} : {counts})")],
    "dyn": [
        (3, "({dyn} + {dyn double int string})"), (2, "({dyn} - {dyn double})"), (2, "({dyn} * {dyn double})"), (2, "({dyn} / {double int})"), (1, "({dyn} % {int})"), (3, "{dyn}[{int string dyn}]"), (2, "args[{string}]"),
        (3, "dyn({int string double ints map counts bool uint time span bytes})"), (1, "cel.bind(v, {dyn}, [v, v])"), (2, "({bool} ? {dyn} : {dyn})"), (2, "type({A})"), (1, "[{int}, {string}, {dyn}]"), (1, "{{1: {dyn}, 'a': {int}, true: 2u}}"),
        (1, "args.list#e dyn.map(e, {dyn})"), (1, "{dyn#e dyn}.filter(e, {bool})"), (1, "math.greatest({int}, {double})"), (1, "math.least({uint}, {int}, {double})"), (1, "-{dyn}"), (1, "{dyn}.{field}"), (0.2, "-dyn({span})"), (0.2, "--dyn({string})"),
    ],
    "map": [(1, "args")],
    "null": [(1, "null")],
}
WORDS = {
    "field": ["amount", "note", "nothing", "flag", "list", "map", "missing", "a", "tags", "nums", "tier"],
    "part": ["getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getHours", "getMinutes", "getSeconds", "getMilliseconds"],
    "clock": ["getHours", "getMinutes", "getSeconds"],
    "zone": [f"'{z}'" for z in ZONES],
    "pattern": [f"'{p}'" for p in PATTERNS] + ["s"],
    "directive": ["%d", "%x", "%X", "%o", "%b"],
    "fixed": ["%f", "%.0f", "%.2f", "%.3e", "%e", "%.10f"],
}
ROOTS = ["bool"] * 8 + ["int", "int", "uint", "double", "string", "string", "string", "bytes", "time", "span", "ints", "strings", "counts", "dyn", "dyn"]
WRONG = 0.004  # of the parts
LONGEST = 2500
PART = re.compile(r"\{\{\}\}#e string|\{\{|\}\}|\{([^{}]*)\}|args\.(?:list|map)#[a-z]+ [a-z]+")


class Generator:
    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.locals = []  # (name, type)
        self.names = 0

    def leaf(self, kind):
        known = [name for name, of in self.locals if of == kind]
        if known and self.chance.random() < 0.65:
            return self.chance.choice(known)
        if kind in OF_TYPE and self.chance.random() < 0.4:
            return OF_TYPE[kind]
        return self.chance.choice(LEAVES[kind]) if kind in LEAVES else "args"

    def expression(self, kind, depth):
        if kind not in PRODUCTIONS:
            return self.leaf(kind)
        if self.chance.random() < WRONG:
            kind = self.chance.choice(ANY)
        if depth <= 0 or self.chance.random() < 0.1:
            return self.leaf(kind)
        choices = PRODUCTIONS[kind]
        text = self.chance.choices([t for _, t in choices], [w for w, _ in choices])[0]
        return self.fill(text, depth - 1)

    def fill(self, text, depth):
        """Replaces the parts of a production, left to right, because a macro's range names what its body may use."""
        fixed = {"A": self.chance.choice(ANY), "O": self.chance.choice(ORDERED), "=field": self.chance.choice(WORDS["field"])}
        scope, renamed = len(self.locals), {}
        out, at = [], 0
        for part in PART.finditer(text):
            out += [self.own(text[at:part.start()], renamed), self.part(part, fixed, renamed, depth)]
            at = part.end()
        del self.locals[scope:]
        return "".join(out) + self.own(text[at:], renamed)

    @staticmethod
    def own(literal, renamed):
        """A production's own text, where a macro's variable has a number of its own."""
        return re.sub(r"\b[ef]\b", lambda name: renamed.get(name[0], name[0]), literal)

    def part(self, part, fixed, renamed, depth):
        if part[0] in ("{{", "}}"):
            return part[0][0]
        inside = part[1] if part[1] is not None else part[0]
        head, *bound = inside.split("#")
        if part[1] is None:
            text = "{}" if head == "{{}}" else head
        elif head in WORDS:
            text = self.chance.choice(WORDS[head])
        elif head == "=field":
            text = fixed[head]
        else:
            kind = self.chance.choice(head.split())
            text = self.expression(fixed.get(kind, kind), depth)
        for one in bound:
            name, of = one.split()
            self.names += 1
            renamed[name] = f"{name}{self.names}"
            self.locals.append((renamed[name], of))
        return text

    # ---- inputs ----

    def json(self, depth=2):
        kind = self.chance.randrange(8 if depth > 0 else 6)
        if kind < 2:
            return self.chance.choice([0, 1, 2, 2.5, -7, 120, 500, 1e21, 0.1, 620.5])
        if kind < 4:
            return self.chance.choice(["", "a", "gold", "Müller", "é€𝄞", "abc", "1.5"])
        if kind == 4:
            return self.chance.choice([True, False])
        if kind == 5:
            return None
        if kind == 6:
            return [self.json(depth - 1) for _ in range(self.chance.randrange(4))]
        return {name: self.json(depth - 1) for name in self.chance.sample(["a", "b", "amount", "é", ""], self.chance.randrange(4))}

    def args(self):
        usual = {"amount": self.chance.choice([0, 1, 120, 500, 620.5, -1.5]), "note": self.chance.choice(["", "Müller", "abc"]), "nothing": None,
                 "flag": self.chance.choice([True, False]), "list": [self.json(1) for _ in range(self.chance.randrange(5))],
                 "map": {"a": {"b": self.json(1)}, "amount": self.json(0)}, "nums": [3, 1, 2.5], "tags": ["gold", "a", ""], "tier": "gold"}
        for name in list(usual):
            if self.chance.random() < 0.12:
                if self.chance.random() < 0.5:
                    del usual[name]
                else:
                    usual[name] = self.json()
        members = list(usual.items())
        self.chance.shuffle(members)
        return dict(members)

    def bindings(self):
        pick = self.chance.choice
        texts = ["", "a", "ab", "abc", "gold", "Müller", "é€𝄞", "aXbXc", "1", "x" * 40, "a,b,,c", "[a-z]+", "("]
        return {
            "i": {"int64_value": str(pick(INTS))}, "u": {"uint64_value": str(pick(UINTS))}, "d": {"double_value": double(pick(DOUBLES))},
            "s": {"string_value": pick(texts)}, "y": {"bytes_value": base64.b64encode(pick([b"", b"abc", b"\xff\x00", "é".encode()])).decode()},
            "at": {"timestamp_value": {"seconds": str(pick([1795167000, 0, -1, 1234567890, 253402300799, -62135596800])), "nanos": pick([0, 123000000, 999999999])}},
            "span": {"duration_value": pick([{"seconds": "5400"}, {"seconds": "-1", "nanos": -500000000}, {"nanos": 1}, {"seconds": "9223372036"}])},
            "roles": {"list_value": [{"string_value": r} for r in self.chance.sample(["support", "finance", "admin", "é"], self.chance.randrange(4))]},
            "nums": {"list_value": [{"int64_value": str(pick(INTS))} for _ in range(self.chance.randrange(4))]},
            "args": value(self.args()),
        }

    def question(self):
        if self.chance.random() < 0.001:  # alone, because what is made of it would depend on the order too
            return {"expr": "{'a': 1, 'b': 2, 'c': 3, 'd': 4}.filter(k, k != s)", "vars": VARIABLES, "bindings": self.bindings()}
        while True:
            text = self.expression(self.chance.choice(ROOTS), self.chance.choice([1, 2, 2, 3, 3, 4]))
            if len(text) <= LONGEST:
                return {"expr": text, "vars": VARIABLES, "bindings": self.bindings()}


def double(f):
    return "-0" if str(f) == "-0.0" else f


def value(plain):
    """Decoded JSON as a VALUE: numbers are doubles, as in `args` of a request."""
    if plain is None:
        return {"null_value": None}
    if isinstance(plain, bool):
        return {"bool_value": plain}
    if isinstance(plain, (int, float)):
        return {"double_value": double(float(plain))}
    if isinstance(plain, str):
        return {"string_value": plain}
    if isinstance(plain, list):
        return {"list_value": [value(item) for item in plain]}
    return {"map_value": [[{"string_value": name}, value(item)] for name, item in plain.items()]}
