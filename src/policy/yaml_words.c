#include "policy/yaml_words.h"

#include "base/check.h"

/* ---- the text around it ---- */

static struct str line_of(struct str text, unsigned line)
{
    struct str rest = text, one = {0};
    for (unsigned i = 0; i < line; i++)
        if (!str_split(&rest, '\n', &one)) return (struct str){0};
    return one;
}

static unsigned indentation(struct str line)
{
    unsigned count = 0;
    while (count < line.size && line.bytes[count] == ' ') count++;
    check(count <= line.size);
    return count;
}

static bool says_nothing(struct str line)
{
    unsigned from = indentation(line);
    return from == line.size || line.bytes[from] == '#' || line.bytes[from] == '\r';
}

/* The number of the nearest non-empty line before this one, and the line; 0: none. */
static unsigned line_before(struct str text, unsigned line, struct str *ret_line)
{
    struct str rest = text, one;
    unsigned found = 0;
    *ret_line = STR("");
    for (unsigned i = 1; i < line && str_split(&rest, '\n', &one); i++) {
        if (says_nothing(one)) continue;
        *ret_line = one;
        found = i;
    }
    check(found < line || found == 0);
    return found;
}

/* ---- sentences ---- */

/* Whether a quote of either kind has no partner in the line. Escaped quotes are not recognised:
 * they are usually in the middle of words, and the result is only for a hint. */
static bool has_lonely_quote(struct str line)
{
    bool lonely[2] = {false, false};
    for (size_t i = 0; i < line.size; i++) {
        lonely[0] ^= line.bytes[i] == '"';
        lonely[1] ^= line.bytes[i] == '\'';
    }
    return lonely[0] || lonely[1];
}

/* The line before this one with a single quote that is closed by a quote before the error; 0:
 * none. */
static unsigned line_of_quote(const struct yaml_slip *s)
{
    enum { LOOKED_AT_MOST = 50 };
    struct str head = line_of(s->text, s->line);
    size_t size = 0;
    for (unsigned characters = 0; size < head.size; size++)
        if (((unsigned char)head.bytes[size] & 0xc0) != 0x80 && ++characters == s->column) break;
    head.size = size;
    if (!has_lonely_quote(head)) return 0;
    for (unsigned at = s->line - 1; at > 0 && s->line - at <= LOOKED_AT_MOST; at--)
        if (has_lonely_quote(line_of(s->text, at))) return at;
    return 0;
}

/* A position in the middle of a line is not the beginning of a key. */
static void put_rest(struct buf *out, const struct yaml_slip *s)
{
    unsigned opened = line_of_quote(s);
    if (opened > 0)
        buf_printf(out,
                   "the quote that line %u opens ends just before this: is it not closed there?",
                   opened);
    else
        buf_put_literal(
            out,
            "the value has ended before this: put a text that begins with a quote or a bracket in quotes as a whole");
}

static bool begins_entry(struct str line)
{
    unsigned at = indentation(line);
    return at + 1 < line.size && line.bytes[at] == '-' && line.bytes[at + 1] == ' ';
}

static const char list_belongs[] =
    "a \"- \" does not belong here: a list begins on a line of its own below its key";

static void put_indentation(struct buf *out, const struct yaml_slip *s)
{
    struct str line = line_of(s->text, s->line), above;
    unsigned before = line_before(s->text, s->line, &above);
    unsigned column = indentation(line) + 1, above_column = indentation(above) + 1;
    if (before > 0 && column == above_column && begins_entry(line)) {
        buf_put(out, str_from(list_belongs));
        return;
    }
    if (column <= line.size && line.bytes[column - 1] == ':') {
        buf_put_literal(out, "there is no key in front of this colon");
        return;
    }
    buf_printf(out, "this line begins at column %u", column);
    if (before > 0 && column == above_column && begins_entry(above)) {
        unsigned keys = above_column + 1 + indentation(str_skip(above, above_column));
        buf_printf(out, ": the keys of the entry that line %u begins are at column %u", before,
                   keys);
        return;
    }
    if (before > 0) buf_printf(out, ", and line %u before it at column %u", before, above_column);
    buf_put_literal(out, ": the keys of one map, and the - of one list, begin at the same column");
}

static void put_bracket(struct buf *out, const struct yaml_slip *s, char open, char close)
{
    check(s->from_line > 0);
    buf_printf(
        out, "the %c of line %u, column %u is not closed by %c, or a comma is missing before this",
        open, s->from_line, s->from_column, close);
}

static void move_to_beginning(struct yaml_slip *s)
{
    if (s->from_line == 0) return;
    s->line = s->from_line;
    s->column = s->from_column;
}

static bool is(const char *text, const char *part) { return strstr(text, part) != NULL; }

static bool put_known(struct buf *out, struct yaml_slip *s)
{
    const char *problem = s->problem, *context = s->context;
    struct str line = line_of(s->text, s->line);
    bool at_tab = s->column > 0 && s->column <= line.size && line.bytes[s->column - 1] == '\t';
    if (at_tab || is(problem, "tab character")) {
        buf_put_literal(out, "a tab: indent with blanks");
    } else if (is(problem, "expected '-' indicator") || is(problem, "did not find expected key")) {
        if (s->column > indentation(line) + 1)
            put_rest(out, s);
        else
            put_indentation(out, s);
    } else if (is(problem, "expected ',' or '}'")) {
        put_bracket(out, s, '{', '}');
    } else if (is(problem, "expected ',' or ']'")) {
        put_bracket(out, s, '[', ']');
    } else if (is(problem, "end of stream") && is(context, "quoted scalar")) {
        move_to_beginning(s);
        buf_put_literal(out, "the quote that begins here is never closed");
    } else if (is(problem, "could not find expected ':'")) {
        move_to_beginning(s);
        buf_put_literal(out,
                        "this is no \"key: value\": the colon, or the blank behind it, is missing");
    } else if (is(problem, "mapping values are not allowed")) {
        buf_put_literal(out,
                        "a \": \" does not belong here: put a text that has one in quotes, or see "
                        "whether this line is indented like the others");
    } else if (is(problem, "block sequence entries are not allowed")) {
        buf_put(out, str_from(list_belongs));
    } else if (is(context, "scanning an alias") || is(context, "scanning an anchor")) {
        buf_put(out, has_lonely_quote(line) ? STR("a quote in this line is not closed")
                                            : STR("quote a value that starts with * or &"));
    } else if (is(problem, "cannot start any token")) {
        buf_put_literal(out, "no value begins with this character: put the text in quotes");
    } else if (is(problem, "unknown escape character")) {
        buf_put_literal(out,
                        "no such escape: within double quotes \\ is written \\\\, within single "
                        "quotes as it is");
    } else {
        return false;
    }
    return true;
}

void yaml_words_put(struct buf *out, struct yaml_slip *s)
{
    check(s->problem != NULL && s->context != NULL && s->line > 0);
    if (put_known(out, s)) return;
    buf_printf(out, "not YAML: %s%s%s", s->problem, *s->context != '\0' ? " " : "", s->context);
}
