/* doubt.c - see doubt.h. A table of checks, of which the first match gives the text. They cover
 * habits from shells, regular expressions, SQL, .gitignore and other permission files. */
#include "policy/doubt.h"

#include "base/check.h"

enum { SHOWN = 40, MEANT_MAX = 120, CHOICES_MAX = 4 };

struct look {
    struct str text;
    enum pattern_of of;
    struct buf *out;
};

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_';
}

static bool has(struct str text, char byte) { return str_find(text, byte) < text.size; }

static bool ends(struct str text, char byte)
{
    return text.size > 0 && text.bytes[text.size - 1] == byte;
}

static bool contains(struct str text, struct str part)
{
    return memmem(text.bytes, text.size, part.bytes, part.size) != NULL;
}

static struct str trimmed(struct str text)
{
    while (text.size > 0 && (unsigned char)text.bytes[0] <= ' ') text = str_skip(text, 1);
    while (text.size > 0 && (unsigned char)text.bytes[text.size - 1] <= ' ') text.size--;
    return text;
}

static void put_quoted(struct buf *out, struct str text)
{
    struct str cut = str_cut(text, SHOWN);
    buf_put_byte(out, '"');
    for (size_t i = 0; i < cut.size; i++)
        if ((unsigned char)cut.bytes[i] < ' ')
            buf_put_literal(out, "\\n");
        else
            buf_put_byte(out, cut.bytes[i]);
    buf_put(out, cut.size < text.size ? STR("…\"") : STR("\""));
}

/* The beginning of the sentence: "only * is special, so "drop_?" is that very name". */
static void put_read(const struct look *l)
{
    buf_put_literal(l->out, "only * is special, so ");
    put_quoted(l->out, l->text);
    buf_put(l->out, has(l->text, '*') ? STR(" has all else as it is written")
                                      : STR(" matches that very name and no other"));
}

/* ---- the pattern that was probably meant ---- */

/* [abc], {a,b} and ? become *, and several * become one. */
static void put_starred(struct buf *out, struct str text)
{
    size_t before = out->size;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.bytes[i], closing = c == '[' ? ']' : c == '{' ? '}' : c == '(' ? ')' : '\0';
        struct str rest = str_skip(text, i);
        if (closing != '\0' && has(rest, closing)) {
            i += str_find(rest, closing);
            c = '*';
        } else if (c == '?' || c == '%') {
            c = '*';
        }
        if (c == '*' && out->size > before && out->bytes[out->size - 1] == '*') continue;
        buf_put_byte(out, c);
    }
    check(out->overflow || out->size - before <= text.size);
}

/* {drop,truncate}_x: "drop_x", "truncate_x". False: there are too many. */
static bool put_choices(struct buf *out, struct str text)
{
    size_t open = str_find(text, '{'), close = str_find(text, '}'), count = 0;
    if (open >= close || close == text.size) return false;
    check(close < text.size && open < close);
    struct str before = str_of(text.bytes, open), after = str_skip(text, close + 1),
               inner = str_of(text.bytes + open + 1, close - open - 1), one;
    if (!has(inner, ',') || has(before, '}') || has(after, '{')) return false;
    for (size_t i = 0; i < inner.size; i++) count += inner.bytes[i] == ',';
    if (count >= CHOICES_MAX || text.size > SHOWN) return false;
    for (bool first = true; str_split(&inner, ',', &one); first = false) {
        if (!first) buf_put_literal(out, ", ");
        buf_printf(out, "\"%.*s%.*s%.*s\"", STR_FORMAT(before), STR_FORMAT(trimmed(one)),
                   STR_FORMAT(after));
    }
    return true;
}

/* A regular expression as a pattern: without its operators, and with * for .* */
static void put_unregexed(struct buf *out, struct str text)
{
    size_t before = out->size;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.bytes[i];
        if (c == '^' || c == '$' || c == '\\' || c == '/') continue;
        if (c == '.' && i + 1 < text.size && strchr("*+", text.bytes[i + 1]) != NULL) {
            c = '*';
            i++;
        }
        if (c == '*' && out->size > before && out->bytes[out->size - 1] == '*') continue;
        buf_put_byte(out, c);
    }
    check(out->overflow || out->size - before <= text.size);
}

/* ---- checks ---- */

static bool look_blank(const struct look *l)
{
    struct str name = trimmed(l->text);
    if (name.size == l->text.size) return false;
    put_quoted(l->out, l->text);
    buf_put_literal(l->out,
                    " begins or ends with a blank, which a name would need as well; write ");
    put_quoted(l->out, name);
    return true;
}

static bool look_negated(const struct look *l)
{
    static const char *const variables[] = {
        [PATTERN_OF_ACTION] = "action", [PATTERN_OF_SUBJECT] = "actor"};
    if (l->text.bytes[0] != '!' || l->text.size < 2) return false;
    put_read(l);
    buf_put_literal(l->out, ": a ! takes nothing out; ");
    if (l->of == PATTERN_OF_RESOURCE) {
        buf_put_literal(l->out, "say in a when what is left out");
        return true;
    }
    buf_printf(l->out, "write \"*\" and when: '!%s.lowerAscii().glob(\"%.*s\")'", variables[l->of],
               STR_FORMAT(str_cut(str_skip(l->text, 1), SHOWN)));
    return true;
}

/* re:…, /…/, ^…$, \d, .+, and .* where a name would have no dot. */
static bool look_regex(const struct look *l)
{
    static const struct str marks[] = {
        {"re:", 3}, {"regex:", 6}, {"regexp:", 7}, {"glob:", 5}, {"=~", 2}};
    struct str text = l->text;
    bool is_regex =
        text.bytes[0] == '^' || has(text, '\\') || ends(text, '$') || contains(text, STR(".+")) ||
        str_starts(text, STR(".*")) ||
        (l->of == PATTERN_OF_ACTION && text.size > 2 && text.bytes[0] == '/' && ends(text, '/'));
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        if (str_starts(text, marks[i])) {
            is_regex = true;
            text = str_skip(text, marks[i].size);
            break;
        }
    for (size_t i = 1; i + 1 < text.size; i++)
        is_regex = is_regex || (text.bytes[i] == '.' && text.bytes[i + 1] == '*' &&
                                strchr("_-:)]", text.bytes[i - 1]) != NULL);
    if (!is_regex) return false;
    put_read(l);
    buf_put_literal(l->out, ": it is no regular expression; write \"");
    put_unregexed(l->out, str_cut(text, SHOWN));
    buf_put_literal(l->out, "\"");
    return true;
}

/* Bash(rm:*): the name of a tool with its arguments. */
static bool look_called(const struct look *l)
{
    size_t open = str_find(l->text, '(');
    if (l->of != PATTERN_OF_ACTION || open == l->text.size) return false;
    struct str tool = str_of(l->text.bytes, open), what = str_skip(l->text, open + 1);
    size_t size = 0;
    while (size < what.size && size < SHOWN && is_word(what.bytes[size])) size++;
    put_read(l);
    if (tool.size == 0 || has(tool, '*') || size == 0 || !has(what, ')')) {
        buf_put_literal(l->out, "; name each tool, and say in a when what its args may be");
        return true;
    }
    buf_printf(l->out,
               ": arguments are in args; write \"%.*s\" and "
               "when: 'shell(args.command).exists(c, c.name == \"%.*s\")' (all, in an allow)",
               STR_FORMAT(str_cut(tool, SHOWN)), (int)size, what.bytes);
    return true;
}

static bool look_braced(const struct look *l)
{
    char text[MEANT_MAX];
    struct buf meant = buf_over(text, sizeof text);
    if (str_find(l->text, '{') >= str_find(l->text, '}') || !has(l->text, '}')) return false;
    put_read(l);
    buf_put_literal(l->out, "; write ");
    if (put_choices(&meant, l->text) && !meant.overflow) {
        buf_put_literal(l->out, "each: ");
        buf_put(l->out, buf_view(&meant));
        return true;
    }
    buf_put_byte(l->out, '"');
    put_starred(l->out, str_cut(l->text, SHOWN));
    buf_put_byte(l->out, '"');
    return true;
}

static bool look_listed(const struct look *l)
{
    struct str rest = l->text, one;
    size_t comma = str_find(rest, ',');
    if (comma == rest.size) return false;
    /* an id may have commas; only a second resource after the comma is suspicious */
    if (l->of == PATTERN_OF_RESOURCE && !has(str_skip(rest, comma), ':')) return false;
    put_quoted(l->out, l->text);
    buf_put_literal(l->out, " is one pattern, and its comma a part of the name; write each");
    for (size_t i = 0; i < CHOICES_MAX && str_split(&rest, ',', &one); i++) {
        buf_put(l->out, i == 0 ? STR(": ") : STR(", "));
        put_quoted(l->out, trimmed(one));
    }
    return true;
}

static bool look_bracketed(const struct look *l)
{
    size_t open = str_find(l->text, '[');
    struct str inner = str_skip(l->text, open < l->text.size ? open + 1 : open);
    size_t size = str_find(inner, ']');
    if (size == 0 || size == inner.size) return false;
    inner.size = size;
    check(open + 1 + size < l->text.size);
    bool is_class = has(inner, '-') || inner.bytes[0] == '!' || inner.bytes[0] == '^';
    if (l->of == PATTERN_OF_RESOURCE && !is_class) return false;
    put_read(l);
    buf_put_literal(l->out, "; write each name, or \"");
    put_starred(l->out, str_cut(l->text, SHOWN));
    buf_put_byte(l->out, '"');
    return true;
}

/* In a resource ?name= is a query. */
static bool look_wildcard(const struct look *l)
{
    size_t at = str_find(l->text, '?');
    bool is_query = false;
    if (l->of == PATTERN_OF_RESOURCE && at < l->text.size) {
        size_t end = at + 1;
        while (end < l->text.size && (is_word(l->text.bytes[end]) || l->text.bytes[end] == '-'))
            end++;
        is_query = end < l->text.size && (l->text.bytes[end] == '=' || l->text.bytes[end] == '*');
    }
    bool is_sql = l->of == PATTERN_OF_ACTION && has(l->text, '%');
    if ((at == l->text.size || is_query) && !is_sql) return false;
    put_read(l);
    buf_put_literal(l->out, "; write \"");
    put_starred(l->out, str_cut(l->text, SHOWN));
    buf_put_byte(l->out, '"');
    return true;
}

static bool look_quoted(const struct look *l)
{
    struct str name = l->text;
    char first = name.bytes[0];
    if (name.size < 3 || (first != '"' && first != '\'' && first != '`') || !ends(name, first))
        return false;
    put_read(l);
    buf_put_literal(l->out, ", with its quotes; write ");
    put_quoted(l->out, str_of(name.bytes + 1, name.size - 2));
    return true;
}

static bool look_either(const struct look *l)
{
    struct str rest = l->text, one;
    if (l->of == PATTERN_OF_RESOURCE || !has(rest, '|')) return false;
    put_read(l);
    buf_put_literal(l->out, "; write each");
    for (size_t i = 0; i < CHOICES_MAX && str_split(&rest, '|', &one); i++) {
        buf_put(l->out, i == 0 ? STR(": ") : STR(", "));
        put_quoted(l->out, trimmed(one));
    }
    return true;
}

bool pattern_doubt(struct str pattern, enum pattern_of of, struct buf *out)
{
    check(pattern.size > 0); /* the checks look at its first byte */
    static bool (*const looks[])(const struct look *) = {
        look_quoted, look_blank,  look_negated, look_regex,     look_called,
        look_braced, look_listed, look_either,  look_bracketed, look_wildcard,
    };
    static const char special[] = "!^\\$./=?%[]{}(),|\"'` ";
    size_t before = out->size;
    bool any = false;
    /* nearly all patterns have none of these characters */
    for (size_t i = 0; i < pattern.size && !any; i++)
        any = (unsigned char)pattern.bytes[i] <= ' ' || strchr(special, pattern.bytes[i]) != NULL ||
              pattern.bytes[i] == ':';
    for (size_t i = 0; any && i < sizeof looks / sizeof looks[0]; i++)
        if (looks[i](&(struct look){.text = pattern, .of = of, .out = out})) return true;
    out->size = before;
    return false;
}
