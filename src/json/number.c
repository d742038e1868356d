/* number.c - numbers: literal to double, double to ECMAScript's text.
 *
 *   number = [ "-" ] ( "0" / 1-9 *digit ) [ "." 1*digit ] [ ( "e" / "E" ) [ "+" / "-" ] 1*digit ]
 *
 * Reading: a literal is m * 10^e. Where m < 2^53 and |e| <= 22, both m and 10^|e| are doubles
 * exactly, so that one multiplication or division rounds once and is the nearest double (Clinger
 * 1990). This covers nearly all numbers in practice; others go to number.cc.
 *
 * Writing: an integer below 10^15 is its digits. Otherwise, if d is exactly what m / 10^6 rounds to
 * for an integer m < 10^15, then m / 10^6 without its trailing zeros is the text. Every decimal of
 * at most 15 digits has its own double (DBL_DIG), so no shorter decimal can read back as d. Others
 * go to number.cc for their shortest digits and are laid out here.
 *
 * Integer literals (no fraction, no exponent): from 2^53 on, not every integer is a double, so
 * each is kept as int64 or uint64, even if a double holds it. Otherwise one of two neighbours
 * would be an integer and the other a double; they would be compared as doubles, and be equal.
 * One beyond 64 bits is refused unless its nearest double equals it (100000000000000000000) or
 * is written in that form: the double 2^64 is written 18446744073709552000, and the reader must
 * accept what the writer makes. */
#include "json/number.h"

#include <math.h>

#include "base/check.h"

static const double power_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                      1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                      1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

enum {
    EXACT_POWER = 22,           /* 5^22 < 2^53 */
    MANTISSA_DIGITS = 19,       /* any 19 digits fit in 64 bits */
    EXPONENT_CLAMP = 100000000, /* far beyond any double, far below an overflow of int */
};

#define EXACT_MAX ((uint64_t)1 << 53)
#define PLAIN_MAX 1e15

/* The parts of a literal. Digits beyond the 19th are counted, not kept. */
struct parts {
    uint64_t mantissa;
    int kept;     /* digits in the mantissa, leading zeros not counted */
    int dropped;  /* significant digits after those */
    int exponent; /* power of ten, for all those digits as one integer */
    bool negative;
    bool integer;    /* no fraction, no exponent */
    bool scientific; /* an exponent */
};

static inline bool is_digit(char c) { return (unsigned char)(c - '0') <= 9; }

static inline void take_digit(struct parts *n, char c)
{
    if (n->kept < MANTISSA_DIGITS) {
        n->mantissa = n->mantissa * 10 + (uint64_t)(c - '0');
        n->kept += n->mantissa != 0;
    } else if (n->dropped < EXPONENT_CLAMP) {
        n->dropped++;
    }
}

/* The exponent after its `e`; returns its end, or NULL if a digit is missing. */
static const char *read_exponent(const char *p, const char *end, struct parts *n)
{
    bool negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+')) p++;
    if (p == end || !is_digit(*p)) return NULL;
    int value = 0;
    for (; p < end && is_digit(*p); p++)
        if (value < EXPONENT_CLAMP) value = value * 10 + (*p - '0');
    n->exponent += negative ? -value : value;
    return p;
}

/* The grammar; false, with the wrong byte in *ret_at, if the literal does not match. */
static bool read_parts(struct str literal, struct parts *n, size_t *ret_at)
{
    const char *p = literal.bytes, *end = p + literal.size;
    *n = (struct parts){.integer = true};
    if (p < end && *p == '-') n->negative = true, p++;
    const char *first = p;
    while (p < end && is_digit(*p)) take_digit(n, *p++);
    bool ok = p > first && !(*first == '0' && p > first + 1);
    /* the digit after a leading zero, or a missing digit */
    if (!ok) p = p > first ? first + 1 : first;
    if (ok && p < end && *p == '.') {
        n->integer = false;
        const char *fraction = ++p;
        for (; p < end && is_digit(*p); p++) {
            if (n->exponent > -EXPONENT_CLAMP) n->exponent--;
            take_digit(n, *p);
        }
        ok = p > fraction;
    }
    if (ok && p < end && (*p == 'e' || *p == 'E')) {
        n->integer = false;
        n->scientific = true;
        const char *stop = read_exponent(p + 1, end, n);
        ok = stop != NULL;
        p = ok ? stop : p + 1 + (p + 1 < end && (p[1] == '-' || p[1] == '+'));
    }
    *ret_at = (size_t)(p - literal.bytes);
    return ok && p == end;
}

/* An integer beyond 64 bits is accepted if its nearest double equals it, or is written in that
 * form. */
static enum number_result read_long_integer(struct str literal, struct json *v)
{
    char digits[NUMBER_FIXED_TEXT];
    if (!number_nearest(literal.bytes, literal.size, &v->number)) return NUMBER_TOO_BIG;
    if (str_equal(str_of(digits, number_digits(v->number, digits)), literal)) {
        v->number_kind = JSON_LONG;
        return NUMBER_OK;
    }
    return str_equal(str_of(digits, number_write(v->number, digits)), literal) ? NUMBER_OK
                                                                               : NUMBER_TOO_BIG;
}

bool json_set_integer(struct json *v, uint64_t magnitude, bool negative)
{
    if (negative && magnitude > (uint64_t)INT64_MAX + 1) return false;
    double nearest = (double)magnitude;
    v->type = JSON_NUMBER;
    v->number = negative ? -nearest : nearest;
    if (magnitude < EXACT_MAX) {
        v->number_kind = JSON_DOUBLE;
    } else if (!negative && magnitude > (uint64_t)INT64_MAX) {
        v->number_kind = JSON_UINT64;
        v->uint64 = magnitude;
    } else {
        v->number_kind = JSON_INT64;
        v->int64 = (int64_t)(negative ? 0 - magnitude : magnitude);
    }
    return true;
}

static enum number_result read_integer(struct str literal, const struct parts *n, struct json *v)
{
    uint64_t magnitude = n->mantissa;
    if (n->dropped > 1) return read_long_integer(literal, v);
    if (n->dropped == 1) {
        uint64_t last = (uint64_t)(literal.bytes[literal.size - 1] - '0');
        if (__builtin_mul_overflow(magnitude, (uint64_t)10, &magnitude) ||
            __builtin_add_overflow(magnitude, last, &magnitude))
            return read_long_integer(literal, v);
    }
    return json_set_integer(v, magnitude, n->negative) ? NUMBER_OK : read_long_integer(literal, v);
}

/* Whether a literal equals ECMAScript's text of its double. It does if it has at most 15 digits
 * (no shorter decimal reads back as the same double), no exponent and needs none (ECMAScript has
 * one below 10^-6), no trailing zero in a fraction, and is not -0. */
static inline bool is_canonical(struct str literal, const struct parts *n)
{
    if (n->kept > 15 || n->scientific) return false;
    if (n->integer) return n->mantissa != 0 || !n->negative;
    return literal.bytes[literal.size - 1] != '0' && n->kept + n->exponent >= -5;
}

enum { SHORT_TEXT = 16 }; /* a sign or a point, and 15 digits */

/* Nearly all numbers: at most 15 digits, at most six of them after a point, no exponent. They
 * are read in one pass, and always exact. False: another number, or not a number. */
static inline bool short_number_read(struct str literal, struct json *v)
{
    const char *p = literal.bytes, *end = p + literal.size;
    bool negative = p < end && *p == '-';
    p += negative;
    if (literal.size > SHORT_TEXT || p == end || !is_digit(*p)) return false;
    const char *first = p;
    uint64_t m = 0;
    for (; p < end && is_digit(*p); p++) m = m * 10 + (uint64_t)(*p - '0');
    if (*first == '0' && p > first + 1) return false;
    double number = (double)(int64_t)m;
    bool canonical = m != 0 || !negative;
    if (p < end) {
        const char *fraction = p + 1;
        if (*p != '.' || fraction == end || end - fraction > 6) return false;
        for (p = fraction; p < end && is_digit(*p); p++) m = m * 10 + (uint64_t)(*p - '0');
        if (p < end) return false;
        number = (double)(int64_t)m / power_of_ten[end - fraction];
        canonical = end[-1] != '0';
    }
    if (m >= (uint64_t)PLAIN_MAX) return false;
    v->number_kind = JSON_DOUBLE;
    v->number = negative ? -number : number;
    v->plain_number = canonical;
    return true;
}

enum number_result number_read(struct str literal, struct json *v, size_t *ret_at)
{
    struct parts n;
    if (short_number_read(literal, v)) return NUMBER_OK;
    if (!read_parts(literal, &n, ret_at)) return NUMBER_SYNTAX;
    v->number_kind = JSON_DOUBLE;
    if (n.mantissa < EXACT_MAX && n.exponent >= -EXACT_POWER && n.exponent <= EXACT_POWER) {
        double m = (double)n.mantissa;
        m = n.exponent < 0 ? m / power_of_ten[-n.exponent] : m * power_of_ten[n.exponent];
        v->number = n.negative ? -m : m;
        v->plain_number = is_canonical(literal, &n);
        return NUMBER_OK;
    }
    if (n.integer) return read_integer(literal, &n, v);
    if (number_nearest(literal.bytes, literal.size, &v->number)) return NUMBER_OK;
    /* Out of range: a too large number is refused, a too small one is zero, as in ECMAScript. */
    if (n.mantissa != 0 && n.exponent + n.kept + n.dropped > 0) return NUMBER_TOO_BIG;
    v->number = n.negative ? -0.0 : 0.0;
    return NUMBER_OK;
}

bool json_number_read(struct str literal, double *ret_number)
{
    struct json v = {0};
    size_t at;
    enum number_result result = number_read(literal, &v, &at);
    if (result == NUMBER_SYNTAX) return false;
    /* An integer beyond 64 bits may still have a nearest double. */
    if (result == NUMBER_TOO_BIG && !number_nearest(literal.bytes, literal.size, &v.number))
        return false;
    *ret_number = v.number;
    return true;
}

/* Decimal digits of `value`, at most 16; the count. */
static size_t put_digits(uint64_t value, char *to)
{
    if (value < 10) {
        *to = (char)('0' + value);
        return 1;
    }
    char digits[U64_DIGITS];
    struct str text = str_of_u64(value, digits);
    memcpy(to, text.bytes, text.size);
    return text.size;
}

static inline void put_two(char *to, unsigned value)
{
    to[0] = (char)('0' + value / 10);
    to[1] = (char)('0' + value % 10);
}

/* m / 10^6 with m not divisible by 10^6: at least one digit remains after the point. */
static size_t put_millionths(uint64_t m, char *to)
{
    size_t size = put_digits(m / 1000000, to);
    unsigned fraction = (unsigned)(m % 1000000);
    to[size] = '.';
    put_two(to + size + 1, fraction / 10000);
    put_two(to + size + 3, fraction / 100 % 100);
    put_two(to + size + 5, fraction % 100);
    size += 6;
    while (to[size] == '0') size--;
    return size + 1;
}

/* Writes `count` digits with the decimal point after the first `point` of them (ECMA-262,
 * Number::toString, step 6 on: k = count, n = point). */
static size_t lay_out(const char *digits, int count, int point, char *to)
{
    char *p = to;
    if (point > 21 || point < -5) {
        *p++ = digits[0];
        if (count > 1) {
            *p++ = '.';
            memcpy(p, digits + 1, (size_t)count - 1);
            p += count - 1;
        }
        *p++ = 'e';
        *p++ = point > 0 ? '+' : '-';
        return (size_t)(p - to) + put_digits((uint64_t)(point > 0 ? point - 1 : 1 - point), p);
    }
    if (point <= 0) {
        memcpy(p, "0.00000", (size_t)(2 - point));
        memcpy(p + 2 - point, digits, (size_t)count);
        return (size_t)(2 - point + count);
    }
    if (count <= point) {
        memcpy(p, digits, (size_t)count);
        memset(p + count, '0', (size_t)(point - count));
        return (size_t)point;
    }
    memcpy(p, digits, (size_t)point);
    p[point] = '.';
    memcpy(p + point + 1, digits + point, (size_t)(count - point));
    return (size_t)count + 1;
}

static size_t write_shortest(double number, char *to)
{
    char text[NUMBER_SCIENTIFIC_TEXT], digits[NUMBER_SCIENTIFIC_TEXT];
    size_t size = number_shortest(number, text), i = 0;
    check(size > 0);
    int count = 0;
    for (; text[i] != 'e'; i++)
        if (text[i] != '.') digits[count++] = text[i];
    bool negative = text[++i] == '-';
    int exponent = 0;
    while (++i < size) exponent = exponent * 10 + (text[i] - '0');
    return lay_out(digits, count, (negative ? -exponent : exponent) + 1, to);
}

size_t number_write(double number, char to[NUMBER_TEXT])
{
    check(isfinite(number));
    size_t sign = 0;
    if (number < 0) {
        to[sign++] = '-';
        number = -number;
    }
    if (number < PLAIN_MAX) {
        uint64_t whole = (uint64_t)number;
        if ((double)whole == number) return sign + put_digits(whole, to + sign);
        if (number < PLAIN_MAX / 1e6) {
            uint64_t m = (uint64_t)(number * 1e6 + 0.5);
            if ((double)m / 1e6 == number) return sign + put_millionths(m, to + sign);
        }
    }
    return sign + write_shortest(number, to + sign);
}

/* One decision writes its amount and its confidence in the event, in the hashed text and in the
 * answer, and most callers use few different values. So the newest texts are kept, each at an
 * index from the bits of its number. */
struct str json_number_text(double number)
{
    static _Thread_local struct kept {
        uint64_t bits;
        size_t size;
        char text[NUMBER_TEXT];
    } kept[16]; /* a size of 0: none yet */
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    struct kept *k = &kept[bits * 0x9E3779B97F4A7C15u >> 60];
    if (k->bits != bits || k->size == 0) {
        k->size = number_write(number, k->text);
        k->bits = bits;
    }
    return str_of(k->text, k->size);
}

void json_put_number(struct buf *out, double number) { buf_put(out, json_number_text(number)); }

void json_put_number_member(struct buf *out, struct str name, double number)
{
    buf_put_both(out, name, json_number_text(number));
}
