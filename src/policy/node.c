/* node.c - code of both readers: finds members, counts lines, types plain scalars. */
#include "policy/node.h"

#include "base/check.h"

struct node *node_get(const struct node *map, const char *key)
{
    struct str wanted = str_from(key);
    for (struct node *n = node_first(map); n != NULL; n = node_next(n))
        if (str_equal(n->json.key, wanted)) return n;
    return NULL;
}

void text_cursor_init(struct text_cursor *c, struct str text)
{
    *c = (struct text_cursor){.text = text, .line = 1, .column = 1};
}

void text_cursor_move(struct text_cursor *c, size_t offset)
{
    check(offset >= c->offset);
    for (; c->offset < offset && c->offset < c->text.size; c->offset++) {
        unsigned char byte = (unsigned char)c->text.bytes[c->offset];
        if (byte == '\n') {
            c->line++;
            c->column = 1;
        } else if ((byte & 0xC0) != 0x80) {
            c->column++;
        }
    }
    check(c->offset <= c->text.size);
}

/* ---- the core schema (YAML 1.2.2, 10.3.2) ---- */

static bool is_one_of(struct str text, const char *const *words)
{
    for (; *words != NULL; words++)
        if (str_equal(text, str_from(*words))) return true;
    return false;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static size_t digits(struct str text, size_t at)
{
    check(at <= text.size);
    size_t from = at;
    while (at < text.size && is_digit(text.bytes[at])) at++;
    return at - from;
}

/* Whether the text is digits of that base, and their value; *ret_overflow: the value is too large. */
static bool integer_read(struct str text, int base, uint64_t *ret_value, bool *ret_overflow)
{
    check(base >= 2 && base <= 16);
    if (text.size == 0) return false;
    uint64_t value = 0;
    bool overflow = false;
    for (size_t i = 0; i < text.size; i++) {
        int digit = hex_value(text.bytes[i]);
        if (digit < 0 || digit >= base) return false;
        overflow = __builtin_mul_overflow(value, (uint64_t)base, &value) || overflow;
        overflow = __builtin_add_overflow(value, (uint64_t)digit, &value) || overflow;
    }
    *ret_value = value;
    *ret_overflow = overflow;
    return true;
}

/* [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )? */
static bool is_float(struct str text)
{
    size_t at = 0;
    if (at < text.size && (text.bytes[at] == '-' || text.bytes[at] == '+')) at++;
    size_t whole = digits(text, at), part = 0;
    at += whole;
    if (at < text.size && text.bytes[at] == '.') {
        part = digits(text, at + 1);
        at += 1 + part;
    }
    if (whole == 0 && part == 0) return false;
    if (at < text.size && (text.bytes[at] == 'e' || text.bytes[at] == 'E')) {
        at++;
        if (at < text.size && (text.bytes[at] == '-' || text.bytes[at] == '+')) at++;
        size_t exponent = digits(text, at);
        if (exponent == 0) return false;
        at += exponent;
    }
    return at == text.size;
}

/* Spells a YAML float as a JSON literal, which is stricter: no `+`, digits on both sides of the
 * point, no leading zeros. */
static bool float_keep(struct json *v, struct str text, struct arena *arena)
{
    char *literal = arena_bytes(arena, text.size + 3);
    if (literal == NULL) return false;
    size_t at = 0, out = 0;
    if (text.bytes[at] == '-') literal[out++] = '-';
    if (text.bytes[at] == '-' || text.bytes[at] == '+') at++;
    while (at + 1 < text.size && text.bytes[at] == '0' && is_digit(text.bytes[at + 1])) at++;
    if (text.bytes[at] == '.') literal[out++] = '0';
    for (; at < text.size; at++) {
        literal[out++] = text.bytes[at];
        bool bare_point =
            text.bytes[at] == '.' && (at + 1 == text.size || !is_digit(text.bytes[at + 1]));
        if (bare_point) literal[out++] = '0';
    }
    check(out <= text.size + 3);
    v->type = JSON_NUMBER;
    v->number_kind = JSON_DOUBLE;
    return json_number_read(str_of(literal, out), &v->number);
}

bool node_resolve_plain(struct json *v, struct str text, struct arena *arena)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    static const char *const strange[] = {".inf",  ".Inf",  ".INF",  "+.inf", "+.Inf",
                                          "+.INF", "-.inf", "-.Inf", "-.INF", ".nan",
                                          ".NaN",  ".NAN",  NULL};
    if (is_one_of(text, nulls)) return v->type = JSON_NULL, true;
    if (is_one_of(text, trues)) return v->type = JSON_TRUE, true;
    if (is_one_of(text, falses)) return v->type = JSON_FALSE, true;
    if (is_one_of(text, strange)) return false;

    check(text.size > 0);
    uint64_t magnitude;
    bool overflow;
    if (str_starts(text, STR("0x")) && integer_read(str_skip(text, 2), 16, &magnitude, &overflow))
        return !overflow && json_set_integer(v, magnitude, false);
    if (str_starts(text, STR("0o")) && integer_read(str_skip(text, 2), 8, &magnitude, &overflow))
        return !overflow && json_set_integer(v, magnitude, false);
    bool negative = text.bytes[0] == '-', signed_ = negative || text.bytes[0] == '+';
    if (integer_read(str_skip(text, signed_), 10, &magnitude, &overflow))
        return !overflow && json_set_integer(v, magnitude, negative);
    if (is_float(text)) return float_keep(v, text, arena);

    v->type = JSON_STRING;
    v->string = text;
    return true;
}
