/* math.c - the math extension: greatest and least across the number types, rounding, signs, bits.
 */
#include <math.h>

#include "cel/functions.h"

static bool is_number(struct cel_value v)
{
    return v.kind == CEL_INT || v.kind == CEL_UINT || v.kind == CEL_DOUBLE;
}

/* The first of several equal extremes. NaN among other values is an error, because it has no
 * order. */
static struct cel_value extreme(struct cel_meter *m, const struct cel_value *a, uint32_t count,
                                int wanted)
{
    struct cel_value best = a[0], key, item;
    if (count > 1 || a[0].kind != CEL_LIST) {
        for (uint32_t i = 0; i < count; i++) {
            if (!is_number(a[i])) return cel_no_overload();
            int order = i > 0 ? cel_compare_numbers(a[i], best) : 0;
            if (order == 2) return cel_fail(CEL_FAULT_ORDER, NULL);
            if (order == wanted) best = a[i];
        }
        return best;
    }
    if (a[0].size == 0) return cel_fail(CEL_FAULT_ARGUMENT, NULL);
    if (!cel_pay(m, a[0].size)) return cel_fail(CEL_FAULT_COST, NULL);
    for (struct cel_walk walk = cel_walk_start(a[0]); cel_walk_next(&walk, &key, &item);) {
        if (!is_number(item)) return cel_no_overload();
        int order = walk.at > 1 ? cel_compare_numbers(item, best) : 0;
        if (order == 2) return cel_fail(CEL_FAULT_ORDER, NULL);
        if (walk.at == 1 || order == wanted) best = item;
    }
    return best;
}

struct cel_value math_greatest(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    return extreme(m, a, count, 1);
}
struct cel_value math_least(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    return extreme(m, a, count, -1);
}

#define MATH_OF_DOUBLE(name, result)                                                               \
    struct cel_value name(struct cel_meter *m, const struct cel_value *a, uint32_t count)          \
    {                                                                                              \
        (void)m, (void)count;                                                                      \
        double x = a[0].number;                                                                    \
        return a[0].kind == CEL_DOUBLE ? (result) : cel_no_overload();                             \
    }

MATH_OF_DOUBLE(math_ceil, cel_double(ceil(x)))
MATH_OF_DOUBLE(math_floor, cel_double(floor(x)))
MATH_OF_DOUBLE(math_round, cel_double(round(x)))
MATH_OF_DOUBLE(math_trunc, cel_double(trunc(x)))
MATH_OF_DOUBLE(math_is_nan, cel_bool(isnan(x)))
MATH_OF_DOUBLE(math_is_inf, cel_bool(isinf(x)))
MATH_OF_DOUBLE(math_is_finite, cel_bool(isfinite(x)))

struct cel_value math_abs(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)m, (void)count;
    switch (a[0].kind) {
    case CEL_UINT: return a[0];
    case CEL_INT:
        if (a[0].integer == INT64_MIN) return cel_fail(CEL_FAULT_OVERFLOW, NULL);
        return cel_int(a[0].integer < 0 ? -a[0].integer : a[0].integer);
    case CEL_DOUBLE: return cel_double(fabs(a[0].number));
    default: return cel_no_overload();
    }
}

struct cel_value math_sign(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)m, (void)count;
    switch (a[0].kind) {
    case CEL_UINT: return cel_uint(a[0].natural > 0);
    case CEL_INT: return cel_int((a[0].integer > 0) - (a[0].integer < 0));
    case CEL_DOUBLE:
        return isnan(a[0].number) ? a[0] : cel_double((a[0].number > 0) - (a[0].number < 0));
    default: return cel_no_overload();
    }
}

struct cel_value math_sqrt(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)m, (void)count;
    switch (a[0].kind) {
    case CEL_UINT: return cel_double(sqrt((double)a[0].natural));
    case CEL_INT: return cel_double(sqrt((double)a[0].integer));
    case CEL_DOUBLE: return cel_double(sqrt(a[0].number));
    default: return cel_no_overload();
    }
}

/* ---- bits ---- */

static bool are_bits(const struct cel_value *a)
{
    return (a[0].kind == CEL_INT || a[0].kind == CEL_UINT) && a[0].kind == a[1].kind;
}

static struct cel_value with_bits(struct cel_value like, uint64_t bits)
{
    return like.kind == CEL_UINT ? cel_uint(bits) : cel_int((int64_t)bits);
}

#define MATH_OF_BITS(name, operator)                                                               \
    struct cel_value name(struct cel_meter *m, const struct cel_value *a, uint32_t count)          \
    {                                                                                              \
        (void)m, (void)count;                                                                      \
        return are_bits(a) ? with_bits(a[0], a[0].natural operator a[1].natural)                   \
                           : cel_no_overload();                                                    \
    }

MATH_OF_BITS(math_bit_and, &)
MATH_OF_BITS(math_bit_or, |)
MATH_OF_BITS(math_bit_xor, ^)

struct cel_value math_bit_not(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)m, (void)count;
    if (a[0].kind != CEL_INT && a[0].kind != CEL_UINT) return cel_no_overload();
    return with_bits(a[0], ~a[0].natural);
}

/* Shifts of the bits: 0 is shifted in on both sides, whatever the sign, and a shift by 64 or more
 * gives 0 (cel-go's ext/README.md, and the specification's math_ext tests). */
static struct cel_value shift(const struct cel_value *a, bool left)
{
    if ((a[0].kind != CEL_INT && a[0].kind != CEL_UINT) || a[1].kind != CEL_INT)
        return cel_no_overload();
    if (a[1].integer < 0) return cel_fail(CEL_FAULT_ARGUMENT, NULL);
    if (a[1].integer > 63) return with_bits(a[0], 0);
    return with_bits(a[0], left ? a[0].natural << a[1].integer : a[0].natural >> a[1].integer);
}

struct cel_value math_bit_shift_left(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)m, (void)count;
    return shift(a, true);
}

struct cel_value math_bit_shift_right(struct cel_meter *m, const struct cel_value *a,
                                      uint32_t count)
{
    (void)m, (void)count;
    return shift(a, false);
}
