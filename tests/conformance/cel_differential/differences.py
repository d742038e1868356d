"""Where `writ cel` and cel-go answer differently on purpose; everything else that differs is a bug of ours.

Each entry says why and where that is written. `said` is what our error says (or theirs, with `who`), and it must be
followed in the expression by what `at` matches, where the error tells its column. Where our error was absorbed or
became another value (a || b, all(), size() of a list with an error in it ...), no text remains to be looked at: then `within`
has to be somewhere in an expression that can absorb. An entry that is never met in a full run fails the test: it is
out of date or the generator lost its way to it.

Documents: langdef.md, doc/langdef.md of cel-spec v0.25.1; tests, tests/simple/testdata of the same;
cel-go, cel.dev/cel-go v0.32.0.
"""

import dataclasses
import re

ABSORBS = re.compile(r"\|\||&&|\.all\(|\.exists\(")
COLUMN = re.compile(r"\(at column (\d+)\)$")


@dataclasses.dataclass(frozen=True)
class Difference:
    name: str
    why: str
    written: str
    said: str = ""      # in our error
    theirs: str = ""    # in cel-go's error
    at: str = ""        # in the expression, around the column of our error
    within: str = ""    # in an expression whose errors may have been absorbed
    values: object = None  # of two values: whether this explains them
    needs: str = ""     # somewhere in the expression
    any_of: str = ""    # in the expression, whatever came of it: for another value of one function

    def explains(self, question, ours, theirs):
        text = question["expr"]
        if self.needs and re.search(self.needs, text) is None:
            return False
        if self.any_of:
            return re.search(self.any_of, text) is not None
        if "error" in ours and "error" not in theirs:
            if self.said and re.search(self.said, ours["error"]) is not None and self.is_there(text, ours["error"]):
                return True
            return self.is_absorbed(text) # the other side's error is told instead
        if "error" in theirs and "error" not in ours:
            return bool(self.theirs) and re.search(self.theirs, theirs["error"]) is not None and re.search(self.within, text) is not None
        if self.values is not None and self.values(text, ours["value"], theirs["value"]):
            return True
        return self.is_absorbed(text)

    def is_absorbed(self, text):
        return bool(self.said) and bool(self.within) and ABSORBS.search(text) is not None and re.search(self.within, text) is not None

    def is_there(self, text, error):
        column = COLUMN.search(error)
        if not self.at or column is None: # an error of the check has no column in its text
            return True
        return re.match(self.at, text[int(column[1]) - 1:]) is not None


def numbers_of(v):
    """The whole VALUE without what a duration's rounding could have changed: nothing; used to see that only times differ."""
    ((kind, held),) = v.items()
    if kind in ("timestamp_value", "duration_value"):
        return int(held.get("seconds", 0)) * 10**9 + int(held.get("nanos", 0))
    return None


def rounded(text, ours, theirs):
    """string(duration) by way of a double: 15 digits are the same, and a duration became a text somewhere."""
    if not re.search(r"string\(|%s", text):
        return False
    a, b = numbers_of(ours), numbers_of(theirs)
    if a is not None and b is not None:
        return abs(a - b) <= 4e4 * 4  # 2^-53 of the longest duration is a microsecond; a few of them may have been added
    return DURATION_TO_TEXT.search(text) is not None


# A duration that can have become a text: string(...) or %s over one of the forms that durations have.
DURATION_TO_TEXT = re.compile(r"(string\(|%s'\.format\(\[).*(span|duration\(| - (at|timestamp)|\(at|\(timestamp)")

def sorted_deeply(v):
    ((kind, held),) = v.items()
    return kind, sorted(repr(sorted_deeply(item)) for item in held) if kind == "list_value" else held


def off_by_one(text, ours, theirs):
    """A getter of a duration that is just short of a whole unit; of the one that is made for it, whatever came of that."""
    if "(duration('1ns') - duration('2562047h')).get" in text:
        return True
    return EXACT_PARTS.search(text) is not None and (set(ours) != {"int64_value"} or abs(int(ours["int64_value"]) - int(theirs["int64_value"])) == 1)


def walked_otherwise(text, ours, theirs):
    """The same items in another order, or the text of such a list."""
    if not re.search(r"\.(map|filter)\(", text):
        return False
    if sorted_deeply(ours) == sorted_deeply(theirs):
        return True
    both_texts = set(ours) == set(theirs) == {"string_value"}
    return both_texts and ".format([" in text and sorted(ours["string_value"]) == sorted(theirs["string_value"])


EXACT_PARTS = re.compile(r"\.get(Hours|Minutes|Seconds)\(\)")

DIFFERENCES = [
    Difference(
        "a key that is twice in a map is an error",
        "cel-go keeps the last one. In a policy it is a slip of the pen, of which one half would be ignored in silence.",
        "langdef.md, Aggregate Values: 'It is an error to have duplicate keys or field names'; tests, fields/map_value_repeat_key",
        said="^a key is there twice", at=r"\{|.*\.transformMap", within=r"\{[^{}]+:[^{}]+,"),
    Difference(
        "indexOf from beyond the text is an error",
        "cel-go gives -1, by its README. The specification's tests ask for an error, and lastIndexOf is alike.",
        "tests, string_ext/indexof_out_of_range and lastindexof_out_of_range: 'index out of range: 30'",
        said="^index out of range: ", at=r"(last)?[iI]ndexOf\(|\.(last)?[iI]ndexOf\(|\(", within=r"ndexOf\("),
    Difference(
        "has(e.f) where e is no map is an error",
        "cel-go says false. A guard that is false for the wrong reason lets a negated test pass.",
        "langdef.md, Field Selection: has(), 5. 'In all other cases, has(e.f) evaluates to an error'",
        said="^no such overload", at=r"has\(", within=r"has\("),
    Difference(
        "getMilliseconds of a duration is what is below the second",
        "cel-go converts the whole duration to milliseconds.",
        "langdef.md, getMilliseconds: 'obtain the milliseconds portion of the duration value. Other time unit functions convert the duration ...; however, "
        "this method does not'; tests, timestamps/get_milliseconds",
        said="", theirs="", any_of=r"(span|[rs]'\)|\))\.getMilliseconds\(\)"),
    Difference(
        "string(duration) is exact",
        "cel-go formats a double of seconds, so that nanoseconds of a long duration are lost on the way there and back.",
        "langdef.md, string: 'converts a duration value to seconds and fractional seconds with an s suffix'",
        values=rounded),
    Difference(
        "hours, minutes and seconds of a duration are exact",
        "cel-go divides doubles, so that a nanosecond less than 2562047 hours is 2562047 hours.",
        "langdef.md, getHours: 'convert the duration to hours'; cel-go, common/types/duration.go: durationGetHours",
        values=off_by_one),
    Difference(
        "only numbers have an order beside NaN",
        "cel-go says false of NaN and whatever stands beside it, a text too, before it looks whether they can be compared.",
        "langdef.md, Ordering: no overload of < has a string and a double",
        said="^no such overload", at="[<>]", needs=r"NaN|[/*-]", within="<|>"),
    Difference(
        "an index of an impossible type fails when it is run",
        "cel-go refuses {}[b''] when it plans the program, which shows only where it would never have been run.",
        "cel-go, interpreter/attributes.go: 'invalid qualifier type'; the specification has no word on when",
        theirs="^invalid qualifier type"),
    Difference(
        "constants that can never be read are refused at load",
        "A time, duration, zone or pattern that is a constant and wrong is told to who writes the policy, even in a part that is never run. cel-go does the "
        "same where its validators are asked for, and else fails when it gets there.",
        "cel.h; cel-go, cel/validator.go: ValidateTimestampLiterals, ValidateDurationLiterals, ValidateRegexLiterals",
        said="^(this is no (time|duration|regular expression)|there is no time zone)"),
    Difference(
        "two signs are two operations",
        "cel-go's parser drops --x and !!x, so that they are x even where x has no sign. Here each is applied, and the second fails with the first.",
        "langdef.md, Syntax: Unary = '-' {'-'} Member, and the overloads of -_ and !_, which are of numbers and of bools",
        said="^no such overload|^there is no [-!]_", at="[-!]", needs="--|!!", within="--|!!"),
    Difference(
        "a duration behind dyn has no minus",
        "cel-go's values of durations can be negated, though its checker has no such overload: -span is refused and -dyn(span) is not.",
        "langdef.md, Negation (-): 'Negate a numeric value'",
        said="^no such overload", at="-", needs=r"-\(*(dyn\(|\(?\w+ \? )[^-]*(span|duration|timestamp|\bat\b)", within="-"),
    Difference(
        "a type is a value like others",
        "cel-go takes a variable of cel.bind() that holds a type for the name of a type, which it does not find.",
        "langdef.md, Type Values; cel-go, interpreter/planner.go: 'reference to undefined type'",
        theirs="^reference to undefined type"),
    Difference(
        "keys of maps are ints, uints, bools or strings",
        "cel-go's checker lets a key of any type by, and its maps then hold doubles, lists or maps as keys.",
        "langdef.md, Aggregate Values: 'the entry keys are sub-expressions that must evaluate to values of an allowed type (int, uint, bool, or string)'",
        said=r"^a value of type .* is no key of a map|^no such overload", at=r"\{|.*\.transformMap", within=r"\{"),
    Difference(
        "the greatest of what has no order fails when it is run",
        "cel-go's macro refuses an empty list, and literals that are no numbers, when they are parsed, which shows only where they would never have been run.",
        "cel-go, ext/math.go: 'invalid single argument value', 'simple literal arguments must be numeric'; the specification has no word on when",
        theirs=r"math\.(greatest|least)\(\) (invalid single argument value|simple literal arguments must be numeric)"),
    Difference(
        "what is in an empty list or map, or in what is not known, has any type",
        "cel-go's checker binds it to the type of the first overload that fits (bytes, for e + e), and then refuses the text that it is used as.",
        "langdef.md, Gradual Type Checking: a type that is not known is dyn",
        theirs="found no matching overload", within=r"\{\}|\[\]|args[.\w]*\["),
    Difference(
        "the greatest of three or more has any type",
        "cel-go makes a list of them, and so knows that it is an int where all are.",
        "langdef.md, Gradual Type Checking: a type that is not known is dyn",
        theirs="found no matching overload|cannot be range of a comprehension", needs=r"math\.(greatest|least)\("),
    Difference(
        "a time beside null is refused at load",
        "cel-go's checker lets null stand for a time or a duration ('legacy nullable'), as for a message, though neither can be null: the comparison is always false.",
        "langdef.md, Booleans and Null: null 'has its own type (null_type) and is not necessarily allowed'; cel-go, checker/types.go: isLegacyNullable",
        said=r"^(null_type [=!]= google\.protobuf\.\w+|google\.protobuf\.\w+ [=!]= null_type) is not possible"),
    Difference(
        "a time as a text is in UTC",
        "cel-go keeps the offset that the text had which the time was read of, so that equal times are different texts.",
        "google/protobuf/timestamp.proto: a point in time independent of any time zone; its JSON form is always Z-normalized",
        any_of=r"\+01:00", needs=r"string\(|%s"),
    Difference(
        "bytes are no key, and so in no map",
        "cel-go fails of an internal error: it hashes a slice of bytes.",
        "langdef.md, Aggregate Values: keys are ints, uints, bools and strings",
        theirs="hash of unhashable type"),
    Difference(
        "format looks at its arguments when it runs",
        "cel-go looks at the types of the constants among them before, which shows only where it would never have been run.",
        "cel-go, ext/formatting.go: stringFormatValidator; the specification has no word on when",
        theirs="error during formatting: "),
    Difference(
        "a map's keys are walked in the order of their writing",
        "cel-go walks a Go map, in an order that changes from run to run; the same input has to give the same decision here.",
        "langdef.md promises no order of a map; policies have to decide the same of the same request",
        values=walked_otherwise),
    Difference(
        "%s of bytes is a text",
        "cel-go puts bytes that are no UTF-8 into the string as they are; here they become U+FFFD, since a string is code points.",
        "langdef.md, Values: a string is a sequence of Unicode code points",
        theirs="invalid UTF-8 in bytes", within="%s", values=lambda text, ours, theirs: "%s" in text and ".format([" in text and re.search(r"\by\b|\\xff|\\303", text) is not None),
]


def find(question, ours, theirs):
    return next((d for d in DIFFERENCES if d.explains(question, ours, theirs)), None)
