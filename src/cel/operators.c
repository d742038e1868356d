/* operators.c - the operators + - * / % < == in [] and size. Integer arithmetic is checked; a
 * result that does not fit is an error, never wrapped. */
#include <stdint.h>

#include "cel/functions.h"
#include "cel/time.h"

static struct cel_value overflow(void) { return cel_fail(CEL_FAULT_OVERFLOW, NULL); }

static struct cel_value add_bytes(struct cel_meter *m, struct cel_value a, struct cel_value b)
{
    size_t size = (size_t)a.size + b.size;
    if (!cel_pay_bytes(m, size)) return cel_fail(CEL_FAULT_COST, NULL);
    char *bytes = size > UINT32_MAX ? NULL : cel_take(m, size + 1);
    if (bytes == NULL) return cel_fail(CEL_FAULT_MEMORY, NULL);
    memcpy(bytes, a.bytes, a.size);
    memcpy(bytes + a.size, b.bytes, b.size);
    bytes[size] = '\0';
    return (struct cel_value){.kind = a.kind, .size = (uint32_t)size, .bytes = bytes};
}

static struct cel_value add_lists(struct cel_meter *m, struct cel_value a, struct cel_value b)
{
    size_t count = (size_t)a.size + b.size, at = 0;
    if (a.size == 0) return b;
    if (b.size == 0) return a;
    if (!cel_pay(m, 1 + count)) return cel_fail(CEL_FAULT_COST, NULL);
    struct cel_value *items = count > UINT32_MAX ? NULL : cel_take_values(m, count), key;
    if (items == NULL) return cel_fail(CEL_FAULT_MEMORY, NULL);
    struct cel_walk first = cel_walk_start(a), second = cel_walk_start(b);
    while (cel_walk_next(&first, &key, &items[at])) at++;
    while (at < count && cel_walk_next(&second, &key, &items[at])) at++;
    return cel_list(items, count);
}

struct cel_value cel_add(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    struct cel_value sum = a[0];
    if (a[0].kind == CEL_TIMESTAMP && a[1].kind == CEL_DURATION)
        return time_shift(a[0], a[1].integer);
    if (a[0].kind == CEL_DURATION && a[1].kind == CEL_TIMESTAMP)
        return time_shift(a[1], a[0].integer);
    if (a[0].kind != a[1].kind) return cel_no_overload();
    switch (a[0].kind) {
    case CEL_DURATION:
    case CEL_INT:
        return __builtin_add_overflow(a[0].integer, a[1].integer, &sum.integer) ? overflow() : sum;
    case CEL_UINT:
        return __builtin_add_overflow(a[0].natural, a[1].natural, &sum.natural) ? overflow() : sum;
    case CEL_DOUBLE: return cel_double(a[0].number + a[1].number);
    case CEL_STRING:
    case CEL_BYTES: return add_bytes(m, a[0], a[1]);
    case CEL_LIST: return add_lists(m, a[0], a[1]);
    default: return cel_no_overload();
    }
}

struct cel_value cel_subtract(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)m, (void)count;
    struct cel_value difference = a[0];
    if (a[0].kind == CEL_TIMESTAMP && a[1].kind == CEL_DURATION)
        return a[1].integer == INT64_MIN ? overflow() : time_shift(a[0], -a[1].integer);
    if (a[0].kind != a[1].kind) return cel_no_overload();
    switch (a[0].kind) {
    case CEL_TIMESTAMP: return time_between(a[1], a[0]);
    case CEL_DURATION:
    case CEL_INT:
        return __builtin_sub_overflow(a[0].integer, a[1].integer, &difference.integer) ? overflow()
                                                                                       : difference;
    case CEL_UINT:
        return __builtin_sub_overflow(a[0].natural, a[1].natural, &difference.natural) ? overflow()
                                                                                       : difference;
    case CEL_DOUBLE: return cel_double(a[0].number - a[1].number);
    default: return cel_no_overload();
    }
}

struct cel_value cel_multiply(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)m, (void)count;
    struct cel_value product = a[0];
    if (a[0].kind != a[1].kind) return cel_no_overload();
    switch (a[0].kind) {
    case CEL_INT:
        return __builtin_mul_overflow(a[0].integer, a[1].integer, &product.integer) ? overflow()
                                                                                    : product;
    case CEL_UINT:
        return __builtin_mul_overflow(a[0].natural, a[1].natural, &product.natural) ? overflow()
                                                                                    : product;
    case CEL_DOUBLE: return cel_double(a[0].number * a[1].number);
    default: return cel_no_overload();
    }
}

/* By IEEE 754 a double divided by zero is infinite, or not a number. */
__attribute__((no_sanitize("float-divide-by-zero"))) static double divide_doubles(double a,
                                                                                  double b)
{
    return a / b;
}

struct cel_value cel_divide(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)m, (void)count;
    if (a[0].kind != a[1].kind) return cel_no_overload();
    switch (a[0].kind) {
    case CEL_INT:
        if (a[1].integer == 0) return cel_fail(CEL_FAULT_DIVIDE, NULL);
        if (a[0].integer == INT64_MIN && a[1].integer == -1) return overflow();
        return cel_int(a[0].integer / a[1].integer);
    case CEL_UINT:
        return a[1].natural == 0 ? cel_fail(CEL_FAULT_DIVIDE, NULL)
                                 : cel_uint(a[0].natural / a[1].natural);
    case CEL_DOUBLE: return cel_double(divide_doubles(a[0].number, a[1].number));
    default: return cel_no_overload();
    }
}

struct cel_value cel_modulus(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)m, (void)count;
    if (a[0].kind != a[1].kind) return cel_no_overload();
    switch (a[0].kind) {
    case CEL_INT:
        if (a[1].integer == 0) return cel_fail(CEL_FAULT_MODULUS, NULL);
        if (a[0].integer == INT64_MIN && a[1].integer == -1) return overflow();
        return cel_int(a[0].integer % a[1].integer);
    case CEL_UINT:
        return a[1].natural == 0 ? cel_fail(CEL_FAULT_MODULUS, NULL)
                                 : cel_uint(a[0].natural % a[1].natural);
    default: return cel_no_overload();
    }
}

struct cel_value cel_negate(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)m, (void)count;
    if (a[0].kind == CEL_DOUBLE) return cel_double(-a[0].number);
    if (a[0].kind != CEL_INT) return cel_no_overload();
    return a[0].integer == INT64_MIN ? overflow() : cel_int(-a[0].integer);
}

struct cel_value cel_not(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)m, (void)count;
    return a[0].kind == CEL_BOOL ? cel_bool(!a[0].boolean) : cel_no_overload();
}

/* ---- comparisons ---- */

struct cel_value cel_equals(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    return cel_equal(m, a[0], a[1]);
}

struct cel_value cel_differs(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    struct cel_value same = cel_equal(m, a[0], a[1]);
    return cel_is_error(same) ? same : cel_bool(!same.boolean);
}

/* Whether the order of the two is one of the mask: 1 less, 2 equal, 4 greater. NaN has none of
 * them. */
static struct cel_value has_order(const struct cel_value *a, unsigned mask)
{
    int order;
    bool unordered;
    if (!cel_compare(a[0], a[1], &order, &unordered))
        return unordered ? cel_bool(false) : cel_no_overload();
    return cel_bool((mask >> (order < 0 ? 0 : order > 0 ? 2 : 1) & 1) != 0);
}

#define ORDER_FUNCTION(name, mask)                                                                 \
    struct cel_value name(struct cel_meter *m, const struct cel_value *a, uint32_t count)          \
    {                                                                                              \
        (void)m, (void)count;                                                                      \
        return has_order(a, mask);                                                                 \
    }

ORDER_FUNCTION(cel_less, 1)
ORDER_FUNCTION(cel_less_equal, 3)
ORDER_FUNCTION(cel_greater, 4)
ORDER_FUNCTION(cel_greater_equal, 6)

/* ---- lists and maps ---- */

struct cel_value cel_in(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    if (a[1].kind == CEL_LIST) return cel_contains(m, a[1], a[0]);
    if (a[1].kind != CEL_MAP) return cel_no_overload();
    struct cel_value found = cel_map_get(m, a[1], a[0]);
    if (cel_is_limit(found)) return found;
    return cel_bool(!cel_is_error(found) && found.kind != CEL_ABSENT);
}

/* A whole number as a list's index, whatever its type. */
static bool is_index(struct cel_value v, int64_t *ret)
{
    switch (v.kind) {
    case CEL_INT: *ret = v.integer; return true;
    case CEL_UINT: *ret = v.natural > INT64_MAX ? INT64_MAX : (int64_t)v.natural; return true;
    case CEL_DOUBLE:
        if (!(v.number >= -0x1p53 && v.number <= 0x1p53) || v.number != (double)(int64_t)v.number)
            return false;
        *ret = (int64_t)v.number;
        return true;
    default: return false;
    }
}

static struct cel_value no_such_key(struct cel_meter *m, struct cel_value key)
{
    char text[64];
    struct buf out = buf_over(text, sizeof text);
    if (key.kind == CEL_STRING) return cel_fail_text(m, CEL_FAULT_KEY, cel_text(key));
    if (!cel_pay(m, cel_text_cost(key))) return cel_fail(CEL_FAULT_COST, NULL);
    cel_put_value(&out, key);
    return cel_fail_text(m, CEL_FAULT_KEY, buf_view(&out));
}

struct cel_value cel_index(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    if (a[0].kind == CEL_MAP) {
        struct cel_value found = cel_map_get(m, a[0], a[1]);
        return found.kind == CEL_ABSENT ? no_such_key(m, a[1]) : found;
    }
    int64_t at;
    if (a[0].kind != CEL_LIST || !is_index(a[1], &at)) return cel_no_overload();
    if (at < 0 || at >= a[0].size) return cel_fail(CEL_FAULT_INDEX, NULL);
    return cel_list_at(m, a[0], (uint32_t)at);
}

/* Bytes that begin a code point, eight at a time: a continuation is 10xxxxxx. */
static int64_t code_points(const char *bytes, size_t size)
{
    const uint64_t lowest = 0x0101010101010101u;
    size_t continuations = 0, at = 0;
    for (uint64_t word; at + 8 <= size; at += 8) {
        memcpy(&word, bytes + at, 8);
        continuations += ((word >> 7 & ~(word >> 6) & lowest) * lowest) >> 56;
    }
    for (; at < size; at++) continuations += ((unsigned char)bytes[at] & 0xC0) == 0x80;
    return (int64_t)(size - continuations);
}

struct cel_value cel_size(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    switch (a[0].kind) {
    case CEL_STRING:
        if (!cel_pay_bytes(m, a[0].size)) return cel_fail(CEL_FAULT_COST, NULL);
        return cel_int(code_points(a[0].bytes, a[0].size));
    case CEL_BYTES:
    case CEL_LIST:
    case CEL_MAP: return cel_int(a[0].size);
    default: return cel_no_overload();
    }
}
