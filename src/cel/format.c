/* format.c - text.format(list): %s %d %f %e %x %X %o %b, with a precision for %f and %e.
 *
 * The result grows in one piece of the run's memory. A value that a clause does not accept is an
 * error. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cel/functions.h"
#include "cel/number.h"
#include "cel/time.h"

enum {
    PRECISION_DEFAULT = 6,
    PRECISION_MAX = 100,
    NUMBER_BYTES = 448,
    DEPTH_MAX = 64,
    PRINTF_COST = 20,     /* and two for each digit: they are exact, which is dear */
    DIGITS_TO_A_STEP = 8, /* of a double that is written without an exponent */
    UTF8_BYTES_TO_A_STEP = 8,
    WRONG_BYTE_COST = 4, /* of one that belongs to no character */
};

/* A text of the run under construction. */
struct growing {
    struct cel_meter *m;
    char *bytes;
    size_t size, room;
    enum cel_fault fault;
};

/* Pays before the work; false: the cost limit is reached. */
static bool pay(struct growing *g, uint64_t cost)
{
    if (g->fault == CEL_FAULT_NONE && !cel_pay(g->m, cost)) g->fault = CEL_FAULT_COST;
    return g->fault == CEL_FAULT_NONE;
}

static void put(struct growing *g, struct str s)
{
    if (g->fault != CEL_FAULT_NONE || s.size == 0) return;
    if (!cel_pay_bytes(g->m, s.size)) {
        g->fault = CEL_FAULT_COST;
        return;
    }
    if (g->room - g->size < s.size) {
        size_t room = (g->room + s.size) * 2;
        char *bytes = room > UINT32_MAX ? NULL : cel_take(g->m, room);
        if (bytes == NULL) {
            g->fault = CEL_FAULT_MEMORY;
            return;
        }
        if (g->size > 0) memcpy(bytes, g->bytes, g->size);
        g->bytes = bytes;
        g->room = room;
    }
    memcpy(g->bytes + g->size, s.bytes, s.size);
    g->size += s.size;
}

static void put_value(struct growing *g, struct cel_value v, unsigned depth);

/* Whether a whole code point stands at the front. */
static bool begins_well(struct str s)
{
    size_t wrong;
    for (size_t size = 1; size <= 4 && size <= s.size; size++)
        if (str_is_utf8(str_of(s.bytes, size), &wrong)) return true;
    return false;
}

/* Runs of bytes that are no UTF-8 become one U+FFFD each. */
static void put_bytes(struct growing *g, struct str s)
{
    size_t wrong;
    pay(g, s.size / UTF8_BYTES_TO_A_STEP);
    while (s.size > 0 && g->fault == CEL_FAULT_NONE && !str_is_utf8(s, &wrong)) {
        put(g, str_of(s.bytes, wrong));
        put(g, STR("\xEF\xBF\xBD"));
        s = str_skip(s, wrong);
        while (s.size > 0 && g->fault == CEL_FAULT_NONE && !begins_well(s)) {
            s = str_skip(s, 1);
            pay(g, WRONG_BYTE_COST);
        }
    }
    put(g, s);
}

static void put_list(struct growing *g, struct cel_value v, unsigned depth)
{
    struct cel_value key, item;
    put(g, STR("["));
    for (struct cel_walk walk = cel_walk_start(v);
         g->fault == CEL_FAULT_NONE && cel_walk_next(&walk, &key, &item);) {
        if (walk.at > 1) put(g, STR(", "));
        put_value(g, item, depth + 1);
    }
    put(g, STR("]"));
}

/* One entry, its key as text: entries are sorted by that. */
struct entry {
    struct str key;
    struct cel_value value;
};

static int compare_entries(const void *a, const void *b)
{
    return str_compare(((const struct entry *)a)->key, ((const struct entry *)b)->key);
}

static void put_map(struct growing *g, struct cel_value v, unsigned depth)
{
    struct cel_value key, value;
    size_t count = 0, key_bytes = 0, doublings = 1;
    if (!pay(g, 8 * (uint64_t)v.size)) return;
    struct entry *entries = cel_take(g->m, (v.size + 1u) * sizeof *entries);
    if (entries == NULL) {
        g->fault = CEL_FAULT_MEMORY;
        return;
    }
    for (struct cel_walk walk = cel_walk_start(v); cel_walk_next(&walk, &key, &value);) {
        struct growing text = {.m = g->m};
        put_value(&text, key, depth + 1);
        if (text.fault != CEL_FAULT_NONE) {
            g->fault = text.fault;
            return;
        }
        key_bytes += text.size;
        entries[count++] =
            (struct entry){str_of(text.bytes == NULL ? "" : text.bytes, text.size), value};
    }
    /* Each key is compared about as often as the number of entries can be halved. */
    while (count >> doublings > 0) doublings++;
    if (!pay(g, (count + key_bytes / 16) * doublings)) return;
    qsort(entries, count, sizeof *entries, compare_entries);
    put(g, STR("{"));
    for (size_t i = 0; i < count; i++) {
        if (i > 0) put(g, STR(", "));
        put(g, entries[i].key);
        put(g, STR(": "));
        put_value(g, entries[i].value, depth + 1);
    }
    put(g, STR("}"));
}

/* Digits before the point of a double that is written without an exponent, about. */
static unsigned digits_of(double number)
{
    int exponent = 0;
    if (isfinite(number)) frexp(number, &exponent);
    return exponent > 0 ? (unsigned)exponent * 3 / 10 + 1 : (unsigned)-exponent * 3 / 10 + 1;
}

static uint64_t text_cost(struct cel_value v)
{
    return cel_text_cost(v) + (v.kind == CEL_DOUBLE ? digits_of(v.number) / DIGITS_TO_A_STEP : 0);
}

static void put_value(struct growing *g, struct cel_value v, unsigned depth)
{
    char text[NUMBER_BYTES];
    struct buf out = buf_over(text, sizeof text);
    if (depth > DEPTH_MAX) g->fault = CEL_FAULT_DEPTH;
    if (!pay(g, text_cost(v))) return;
    switch (v.kind) {
    case CEL_NULL: buf_put_literal(&out, "null"); break;
    case CEL_BOOL: buf_put(&out, v.boolean ? STR("true") : STR("false")); break;
    case CEL_INT: number_put_int(&out, v.integer); break;
    case CEL_UINT: buf_put_u64(&out, v.natural); break;
    case CEL_DOUBLE: number_put_decimal(&out, v.number); break;
    case CEL_STRING: put(g, cel_text(v)); return;
    case CEL_BYTES: put_bytes(g, cel_text(v)); return;
    case CEL_TIMESTAMP: time_put_timestamp(&out, v); break;
    case CEL_DURATION: time_put_duration(&out, v); break;
    case CEL_TYPE: buf_put(&out, str_from(cel_kind_name((enum cel_kind)v.integer))); break;
    case CEL_LIST: put_list(g, v, depth); return;
    case CEL_MAP: put_map(g, v, depth); return;
    default: g->fault = CEL_FAULT_OVERLOAD; return;
    }
    put(g, buf_view(&out));
}

/* ---- clauses of numbers ---- */

static bool put_not_finite(struct growing *g, struct cel_value v)
{
    if (v.kind != CEL_DOUBLE || isfinite(v.number)) return false;
    put(g, isnan(v.number) ? STR("NaN") : v.number < 0 ? STR("-Infinity") : STR("Infinity"));
    return true;
}

static void put_decimal(struct growing *g, struct cel_value v)
{
    if (put_not_finite(g, v)) return;
    if (v.kind == CEL_INT || v.kind == CEL_UINT || v.kind == CEL_DOUBLE)
        put_value(g, v, 0);
    else
        g->fault = CEL_FAULT_OVERLOAD;
}

/* %f and %e; printf rounds half to even on the exact value, as is asked for. */
static void put_double(struct growing *g, struct cel_value v, char clause, int precision)
{
    char text[NUMBER_BYTES];
    double number = v.kind == CEL_DOUBLE ? v.number
                    : v.kind == CEL_INT  ? (double)v.integer
                                         : (double)v.natural;
    if (v.kind != CEL_DOUBLE && v.kind != CEL_INT && v.kind != CEL_UINT) {
        g->fault = CEL_FAULT_OVERLOAD;
        return;
    }
    if (put_not_finite(g, v)) return;
    unsigned digits =
        (unsigned)precision + (clause == 'f' && fabs(number) >= 1 ? digits_of(number) : 8);
    if (!pay(g, PRINTF_COST + 2 * (uint64_t)digits)) return;
    int size = clause == 'f' ? snprintf(text, sizeof text, "%.*f", precision, number)
                             : snprintf(text, sizeof text, "%.*e", precision, number);
    put(g, str_of(text, (size_t)size));
}

/* In base 2, 8 or 16, of which each digit has `bits`. */
static void put_base(struct growing *g, uint64_t magnitude, bool negative, unsigned bits,
                     const char *digits)
{
    enum { BASE_COST = 4 };
    char text[68];
    size_t at = sizeof text;
    if (!pay(g, BASE_COST)) return;
    do text[--at] = digits[magnitude & ((1u << bits) - 1)];
    while ((magnitude >>= bits) > 0);
    if (negative) text[--at] = '-';
    put(g, str_of(text + at, sizeof text - at));
}

static void put_hex_bytes(struct growing *g, struct str s, const char *digits)
{
    for (size_t i = 0; i < s.size; i++) {
        char pair[2] = {digits[(unsigned char)s.bytes[i] >> 4],
                        digits[(unsigned char)s.bytes[i] & 15]};
        put(g, str_of(pair, 2));
    }
}

static void put_in_base(struct growing *g, struct cel_value v, char clause)
{
    const char *digits = clause == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    unsigned bits = clause == 'b' ? 1 : clause == 'o' ? 3 : 4;
    if (v.kind == CEL_INT)
        put_base(g, v.integer < 0 ? 0 - (uint64_t)v.integer : (uint64_t)v.integer, v.integer < 0,
                 bits, digits);
    else if (v.kind == CEL_UINT)
        put_base(g, v.natural, false, bits, digits);
    else if (v.kind == CEL_BOOL && bits == 1)
        put(g, v.boolean ? STR("1") : STR("0"));
    else if ((v.kind == CEL_STRING || v.kind == CEL_BYTES) && bits == 4)
        put_hex_bytes(g, cel_text(v), digits);
    else
        g->fault = CEL_FAULT_OVERLOAD;
}

/* ---- the template ---- */

/* ".3", at *at; the default where there is none. False: no digits, or too many places. */
static bool take_precision(struct str template, size_t *at, int *ret)
{
    *ret = PRECISION_DEFAULT;
    if (*at >= template.size || template.bytes[*at] != '.') return true;
    size_t first = ++*at;
    *ret = 0;
    for (; *at < template.size && template.bytes[*at] >= '0' && template.bytes[*at] <= '9' &&
           *ret <= PRECISION_MAX;
         (*at)++)
        *ret = *ret * 10 + (template.bytes[*at] - '0');
    return *at > first && *ret <= PRECISION_MAX;
}

static void put_clause(struct growing *g, char clause, int precision, struct cel_value v)
{
    if (!pay(g, 1)) return;
    switch (clause) {
    case 's': put_value(g, v, 0); return;
    case 'd': put_decimal(g, v); return;
    case 'f':
    case 'e': put_double(g, v, clause, precision); return;
    case 'x':
    case 'X':
    case 'o':
    case 'b': put_in_base(g, v, clause); return;
    default: g->fault = CEL_FAULT_ARGUMENT;
    }
}

struct cel_value string_format(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    if (a[0].kind != CEL_STRING || a[1].kind != CEL_LIST) return cel_no_overload();
    struct growing g = {.m = m};
    struct str template = cel_text(a[0]);
    struct cel_walk walk = cel_walk_start(a[1]);
    for (size_t at = 0; at < template.size && g.fault == CEL_FAULT_NONE;) {
        size_t percent = at + str_find(str_skip(template, at), '%');
        put(&g, str_of(template.bytes + at, percent - at));
        if (percent == template.size) break;
        at = percent + 1;
        if (at < template.size && template.bytes[at] == '%') {
            put(&g, STR("%"));
            at++;
            continue;
        }
        int precision;
        struct cel_value key, value;
        bool sound = take_precision(template, &at, &precision) && at < template.size;
        if (!sound || strchr("sdfexXob", template.bytes[at]) == NULL || template.bytes[at] == '\0')
            return cel_fail_text(m, CEL_FAULT_ARGUMENT, template);
        if (!cel_walk_next(&walk, &key, &value)) return cel_fail(CEL_FAULT_INDEX, NULL);
        put_clause(&g, template.bytes[at++], precision, value);
    }
    if (g.fault != CEL_FAULT_NONE) return cel_fail(g.fault, NULL);
    return cel_string(g.bytes == NULL ? "" : g.bytes, g.size);
}
