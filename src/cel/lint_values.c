/* lint_values.c - constants that the other operand never has (now.getMonth() == 12), or that mean
 * something else than they seem to: an address range, a time zone, a duration. */
#include "cel/address.h"
#include "cel/linter.h"

/* ---- results of functions ---- */

struct range {
    double low, high;
    const char *remark; /* an explanation; may be NULL */
};

#define ANY __builtin_inf()

/* Every function whose result has narrower bounds than its type. */
static const struct range ranges[FUNCTIONS] = {
    [FUNCTION_SIZE] = {0, ANY, NULL},
    [FUNCTION_GET_DATE] = {1, 31, NULL},
    [FUNCTION_GET_DAY_OF_MONTH] = {0, 30, ", the first day is 0; getDate() is 1 to 31"},
    [FUNCTION_GET_DAY_OF_WEEK] = {0, 6, ", Sunday is 0"},
    [FUNCTION_GET_DAY_OF_YEAR] = {0, 365, ", the first day is 0"},
    [FUNCTION_GET_FULL_YEAR] = {1, 9999, NULL},
    [FUNCTION_GET_MONTH] = {0, 11, ", January is 0"},
    [FUNCTION_GET_HOURS] = {0, 23, NULL},
    [FUNCTION_GET_MINUTES] = {0, 59, NULL},
    [FUNCTION_GET_SECONDS] = {0, 59, NULL},
    [FUNCTION_GET_MILLISECONDS] = {0, 999, NULL},
    [FUNCTION_INDEX_OF] = {-1, ANY, ", -1 is nowhere"},
    [FUNCTION_LAST_INDEX_OF] = {-1, ANY, ", -1 is nowhere"},
    [FUNCTION_ABS] = {0, ANY, NULL},
    [FUNCTION_SIGN] = {-1, 1, NULL},
    [FUNCTION_SQRT] = {0, ANY, NULL},
    [FUNCTION_PREFIX_LENGTH] = {0, 128, NULL},
    [FUNCTION_FAMILY] = {4, 6, NULL},
};

static bool number_of(const struct cel_node *n, double *ret)
{
    if (lint_is_call(n, FUNCTION_NEGATE) && number_of(n->children[0], ret)) {
        *ret = -*ret;
        return true;
    }
    if (n->kind != NODE_LITERAL) return false;
    switch (n->value.kind) {
    case CEL_INT: *ret = (double)n->value.integer; return true;
    case CEL_UINT: *ret = (double)n->value.natural; return true;
    case CEL_DOUBLE: *ret = n->value.number; return true;
    default: return false;
    }
}

/* The bounds of a call's result; of a duration the getters give all of it. */
static const struct range *range_of(const struct cel_node *n)
{
    if (n->kind != NODE_CALL || n->function >= FUNCTIONS || n->count == 0) return NULL;
    const struct range *range = &ranges[n->function];
    bool is_getter = n->function >= FUNCTION_GET_HOURS && n->function <= FUNCTION_GET_MILLISECONDS;
    const struct cel_type *of = n->children[0]->type;
    if (range->low >= range->high) return NULL; /* it has none */
    if (is_getter && (of == NULL || of->tag != CEL_TIMESTAMP)) return NULL;
    return range;
}

static void tell_range(struct linter *l, const struct cel_node *test, const struct cel_node *call,
                       const struct range *range, bool always)
{
    struct lint_excerpt all = lint_excerpt_of(l, test), what = lint_excerpt_of(l, call);
    char bounds[64];
    struct buf out = buf_over(bounds, sizeof bounds - 1);
    buf_printf(&out, "%g", range->low);
    if (range->high < ANY) buf_printf(&out, " to %g", range->high);
    if (range->high >= ANY) buf_put_literal(&out, " or more");
    bounds[out.size] = '\0';
    lint_tell(l, CEL_REMARK_VALUE, false, test, "%s can never be %s: %s is %s%s", all.text,
              always ? "false" : "true", what.text, bounds,
              range->remark == NULL ? "" : range->remark);
}

/* Whether the order holds for all of the range, or for nothing in it. */
static void look_at_order(struct linter *l, const struct cel_node *n)
{
    double number;
    bool turned = number_of(n->children[0], &number);
    if (!turned && !number_of(n->children[1], &number)) return;
    const struct cel_node *call = n->children[turned ? 1 : 0];
    const struct range *r = range_of(call);
    if (r == NULL) return;
    bool is_four_or_six = call->function == FUNCTION_FAMILY;
    bool outside =
        number < r->low || number > r->high || (is_four_or_six && number != 4 && number != 6);
    bool never = false, always = false;
    unsigned function = n->function;
    if (turned && function >= FUNCTION_LESS && function <= FUNCTION_GREATER_EQUAL)
        function = function == FUNCTION_LESS         ? FUNCTION_GREATER
                   : function == FUNCTION_LESS_EQUAL ? FUNCTION_GREATER_EQUAL
                   : function == FUNCTION_GREATER    ? FUNCTION_LESS
                                                     : FUNCTION_LESS_EQUAL;
    switch (function) {
    case FUNCTION_EQUAL: never = outside; break;
    case FUNCTION_UNEQUAL: always = outside; break;
    case FUNCTION_LESS:
        never = number <= r->low;
        always = number > r->high;
        break;
    case FUNCTION_LESS_EQUAL:
        never = number < r->low;
        always = number >= r->high;
        break;
    case FUNCTION_GREATER:
        never = number >= r->high;
        always = number < r->low;
        break;
    case FUNCTION_GREATER_EQUAL:
        never = number > r->high;
        always = number <= r->low;
        break;
    default: return;
    }
    if (never || always) tell_range(l, n, call, r, always);
}

/* ---- texts ---- */

static bool has_any(struct str text, char first, char last)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.bytes[i] >= first && text.bytes[i] <= last) return true;
    return false;
}

static bool has(struct str text, char byte) { return str_find(text, byte) < text.size; }

/* The reason why no result of the call is, or contains, this text; NULL: a result may. */
static const char *why_not(const struct cel_node *call, struct str text, bool is_whole)
{
    if (call->kind != NODE_CALL) return NULL;
    bool capitals = has_any(text, 'A', 'Z'), small = has_any(text, 'a', 'z');
    switch (call->function) {
    case FUNCTION_LOWER_ASCII: return capitals ? "lowerAscii() gives no capitals" : NULL;
    case FUNCTION_UPPER_ASCII: return small ? "upperAscii() gives capitals only" : NULL;
    case FUNCTION_GET_SCHEME:
        return capitals                           ? "a scheme is given in lower case"
               : has(text, ':') || has(text, '/') ? "a scheme is given without ://"
                                                  : NULL;
    case FUNCTION_GET_HOST:
    case FUNCTION_GET_HOSTNAME:
        if (capitals) return "a host is given in lower case";
        if (has(text, '/')) return "a host has no /";
        if (is_whole && text.size > 1 && text.bytes[text.size - 1] == '.')
            return "a host is given without a point at its end";
        return NULL;
    case FUNCTION_GET_PORT:
        if (text.size > 0 && (has_any(text, ' ', '/') || has_any(text, ':', '~')))
            return "a port has digits only";
        return is_whole && text.size > 1 && text.bytes[0] == '0'
                   ? "a port is given without leading zeros"
                   : NULL;
    case FUNCTION_TRIM:
        return is_whole && text.size > 0 &&
                       (text.bytes[0] == ' ' || text.bytes[text.size - 1] == ' ')
                   ? "trim() leaves no blanks at the ends"
                   : NULL;
    case FUNCTION_CHAR_AT:
        return is_whole && str_code_points(text) > 1 ? "charAt() gives one character" : NULL;
    default: return NULL;
    }
}

static void look_at_text(struct linter *l, const struct cel_node *n, const struct cel_node *call,
                         const struct cel_node *text, bool is_whole)
{
    if (!lint_is_text(text)) return;
    const char *why = why_not(call, cel_text(text->value), is_whole);
    if (why == NULL) return;
    bool always = n->function == FUNCTION_UNEQUAL;
    lint_tell(l, CEL_REMARK_VALUE, false, text, "%s can never be %s: %s",
              lint_excerpt_of(l, n).text, always ? "false" : "true", why);
}

/* ---- constants that mean something else than they seem to ---- */

static void look_at_cidr(struct linter *l, const struct cel_node *literal)
{
    char text[ADDRESS_TEXT + 4];
    struct buf out = buf_over(text, sizeof text - 1);
    struct cel_cidr range;
    bool had_more;
    struct str written = cel_text(literal->value);
    if (!cel_cidr_read_telling(written, &range, &had_more)) return;
    cel_cidr_put(&out, &range);
    text[out.size] = '\0';
    unsigned last = range.family == 4 ? 3 : 15;
    if (had_more)
        lint_tell(l, CEL_REMARK_VALUE, false, literal, "%s is the whole range %s; write that",
                  lint_excerpt_of(l, literal).text, text);
    else if (range.bits == 0)
        lint_tell(l, CEL_REMARK_VALUE, false, literal, "%s is every IPv%u address",
                  lint_excerpt_of(l, literal).text, range.family);
    else if (!has(written, '/') && range.bytes[last] == 0)
        lint_tell(l, CEL_REMARK_VALUE, false, literal,
                  "%s is this one address; a range has its length behind it, as in %.*s/%u",
                  lint_excerpt_of(l, literal).text, STR_FORMAT(written),
                  range.family == 4 ? 24u : 64u);
}

static void look_at_zone(struct linter *l, const struct cel_node *literal)
{
    static const char *const fixed[][2] = {
        {"EST", "America/New_York"}, {"MST", "America/Denver"}, {"HST", "Pacific/Honolulu"}};
    struct str zone = cel_text(literal->value);
    struct lint_excerpt all = lint_excerpt_of(l, literal);
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        if (str_equal(zone, str_from(fixed[i][0])))
            lint_tell(l, CEL_REMARK_VALUE, false, literal,
                      "%s has no daylight saving time; write %s for a place's own time", all.text,
                      fixed[i][1]);
    if (str_starts(zone, STR("Etc/GMT")) && zone.size > 8 && zone.bytes[8] != '0')
        lint_tell(
            l, CEL_REMARK_VALUE, false, literal,
            "%s is %s UTC: the sign is reversed in these names; write an offset, as in %c02:00",
            all.text, zone.bytes[7] == '+' ? "behind" : "ahead of",
            zone.bytes[7] == '+' ? '-' : '+');
    if (zone.size == 5 && zone.bytes[2] == ':' && zone.bytes[0] >= '0' && zone.bytes[0] <= '9')
        lint_tell(
            l, CEL_REMARK_VALUE, false, literal,
            "%s is an offset from UTC, and the same all the year; write +%.*s, or a place such "
            "as Europe/Paris",
            all.text, STR_FORMAT(zone));
}

/* 1m is a minute, 1ms a thousandth of a second; parts add up in any order. */
static void look_at_duration(struct linter *l, const struct cel_node *literal)
{
    static const char *const units[] = {"h", "m", "s", "ms", "us", "ns"};
    struct str text = cel_text(literal->value);
    size_t last = 0, parts = 0, at = 0;
    bool is_odd = false;
    while (at < text.size) {
        size_t begin = at;
        while (at < text.size && ((text.bytes[at] >= '0' && text.bytes[at] <= '9') ||
                                  strchr(".+-", text.bytes[at]) != NULL))
            at++;
        size_t unit_from = at;
        while (at < text.size && text.bytes[at] >= 'a' && text.bytes[at] <= 'z') at++;
        size_t unit = 0;
        while (unit < 6 &&
               !str_equal(str_of(text.bytes + unit_from, at - unit_from), str_from(units[unit])))
            unit++;
        if (at == begin || unit == 6) return; /* no duration of these units */
        is_odd = is_odd || (parts > 0 && unit <= last);
        last = unit;
        parts++;
    }
    if (is_odd)
        lint_tell(l, CEL_REMARK_VALUE, false, literal,
                  "%s is the sum of its parts, which are not in the order of h, m, s, ms; m is "
                  "minutes",
                  lint_excerpt_of(l, literal).text);
}

static void look_at_literals(struct linter *l, const struct cel_node *n)
{
    const struct cel_function *f = &cel_functions[n->function];
    const struct cel_node *last = n->children[n->count - 1];
    if (!lint_is_text(last)) return;
    if (f->prepares == PREPARES_CIDR) look_at_cidr(l, last);
    if (f->prepares == PREPARES_ZONE && n->count > 1) look_at_zone(l, last);
    if (n->function == FUNCTION_TO_DURATION) look_at_duration(l, last);
}

/* ---- the walk ---- */

static void look_at_call(struct linter *l, const struct cel_node *n)
{
    if (n->function >= FUNCTIONS || n->count == 0) return;
    look_at_literals(l, n);
    if (n->count != 2) return;
    switch (n->function) {
    case FUNCTION_EQUAL:
    case FUNCTION_UNEQUAL:
        look_at_text(l, n, n->children[0], n->children[1], true);
        look_at_text(l, n, n->children[1], n->children[0], true);
        look_at_order(l, n);
        return;
    case FUNCTION_LESS:
    case FUNCTION_LESS_EQUAL:
    case FUNCTION_GREATER:
    case FUNCTION_GREATER_EQUAL: look_at_order(l, n); return;
    case FUNCTION_STARTS_WITH:
    case FUNCTION_ENDS_WITH:
    case FUNCTION_CONTAINS:
    case FUNCTION_GLOB: look_at_text(l, n, n->children[0], n->children[1], false); return;
    case FUNCTION_IN: {
        const struct cel_node *list = n->children[1];
        const struct range *r = range_of(n->children[0]);
        double number;
        if (list->kind != NODE_LIST) return;
        for (uint32_t i = 0; i < list->count; i++) {
            const struct cel_node *one = list->children[i];
            look_at_text(l, n, n->children[0], one, true);
            if (r == NULL || !number_of(one, &number) || (number >= r->low && number <= r->high))
                continue;
            lint_tell(l, CEL_REMARK_VALUE, false, one, "%s is never %s: it is %g to %g%s",
                      lint_excerpt_of(l, n->children[0]).text, lint_excerpt_of(l, one).text, r->low,
                      r->high, r->remark == NULL ? "" : r->remark);
        }
        return;
    }
    default: return;
    }
}

void lint_values(struct linter *l, const struct cel_node *n)
{
    if (n->kind == NODE_CALL) look_at_call(l, n);
    for (uint32_t i = 0; i < n->count; i++)
        if (n->children[i] != NULL) lint_values(l, n->children[i]);
}
