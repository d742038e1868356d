/* number.c - see number.h. */
#include "cel/number.h"

#include <math.h>

#include "json/json.h"

bool number_read_int(struct str text, int64_t *ret)
{
    uint64_t magnitude;
    bool negative = text.size > 0 && text.bytes[0] == '-';
    if (negative || (text.size > 0 && text.bytes[0] == '+')) text = str_skip(text, 1);
    if (!str_to_u64(text, &magnitude) || magnitude > (uint64_t)INT64_MAX + (negative ? 1 : 0))
        return false;
    *ret = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

/* JSON's reader does not accept "+1", "01", ".5" and "5.", so they are rewritten for it. */
static bool read_decimal(struct str text, double *ret)
{
    char plain[400];
    struct buf out = buf_over(plain, sizeof plain);
    if (text.size > 0 && text.bytes[0] == '-') buf_put_byte(&out, '-');
    if (text.size > 0 && (text.bytes[0] == '-' || text.bytes[0] == '+')) text = str_skip(text, 1);
    size_t whole = 0, fraction = 0;
    while (whole < text.size && text.bytes[whole] >= '0' && text.bytes[whole] <= '9') whole++;
    size_t zeros = 0;
    while (zeros + 1 < whole && text.bytes[zeros] == '0') zeros++;
    if (whole == 0) buf_put_byte(&out, '0');
    buf_put(&out, str_of(text.bytes + zeros, whole - zeros));
    text = str_skip(text, whole);
    if (text.size > 0 && text.bytes[0] == '.') {
        while (fraction + 1 < text.size && text.bytes[fraction + 1] >= '0' &&
               text.bytes[fraction + 1] <= '9')
            fraction++;
        if (fraction > 0) buf_put(&out, str_of(text.bytes, fraction + 1));
        text = str_skip(text, fraction + 1);
    }
    buf_put(&out, text);
    return whole + fraction > 0 && !out.overflow && json_number_read(buf_view(&out), ret);
}

bool number_read_double(struct str text, double *ret)
{
    if (read_decimal(text, ret)) return true;
    double sign = text.size > 0 && text.bytes[0] == '-' ? -1 : 1;
    if (text.size > 0 && (text.bytes[0] == '-' || text.bytes[0] == '+')) text = str_skip(text, 1);
    if (str_equal_ignoring_case(text, STR("inf")) || str_equal_ignoring_case(text, STR("infinity")))
        *ret = sign * INFINITY;
    else if (str_equal_ignoring_case(text, STR("nan")))
        *ret = NAN;
    else
        return false;
    return true;
}

void number_put_int(struct buf *out, int64_t number)
{
    if (number < 0) buf_put_byte(out, '-');
    buf_put_u64(out, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

/* The shortest digits and the position of their point: 0.d1d2d3… times ten to `point`. */
struct digits {
    char text[32];
    int count, point;
};

/* Taken from ECMAScript's form, which has the same digits. */
static struct digits digits_of(double number)
{
    char text[32];
    struct buf out = buf_over(text, sizeof text);
    struct digits d = {.point = 0};
    bool point_seen = false, leading = true;
    int exponent = 0;
    json_put_number(&out, fabs(number));
    for (size_t i = 0; i < out.size; i++) {
        if (text[i] == 'e') {
            bool negative = text[i + 1] == '-';
            for (i += 2; i < out.size; i++) exponent = exponent * 10 + (text[i] - '0');
            exponent = negative ? -exponent : exponent;
        } else if (text[i] == '.') {
            point_seen = true;
        } else {
            if (!point_seen && !(leading && text[i] == '0')) d.point++;
            if (point_seen && leading && text[i] == '0') d.point--;
            leading = leading && text[i] == '0';
            if (!leading) d.text[d.count++] = text[i];
        }
    }
    while (d.count > 1 && d.text[d.count - 1] == '0') d.count--;
    if (d.count == 0) {
        d.text[d.count++] = '0';
        d.point = 1;
    }
    d.point += exponent;
    return d;
}

static void put_fixed(struct buf *out, const struct digits *d)
{
    if (d->point <= 0) buf_put_byte(out, '0');
    for (int i = 0; i < d->point; i++) buf_put_byte(out, i < d->count ? d->text[i] : '0');
    if (d->count <= d->point) return;
    buf_put_byte(out, '.');
    for (int i = d->point; i < 0; i++) buf_put_byte(out, '0');
    buf_put(out, str_of(d->text + (d->point > 0 ? d->point : 0),
                        (size_t)(d->count - (d->point > 0 ? d->point : 0))));
}

static void put_scientific(struct buf *out, const struct digits *d)
{
    int exponent = d->point - 1;
    buf_put_byte(out, d->text[0]);
    if (d->count > 1) {
        buf_put_byte(out, '.');
        buf_put(out, str_of(d->text + 1, (size_t)d->count - 1));
    }
    buf_printf(out, "e%c%02d", exponent < 0 ? '-' : '+', exponent < 0 ? -exponent : exponent);
}

void number_put_double(struct buf *out, double number)
{
    if (isnan(number)) {
        buf_put_literal(out, "NaN");
    } else if (isinf(number)) {
        buf_put(out, number < 0 ? STR("-Inf") : STR("+Inf"));
    } else {
        struct digits d = digits_of(number);
        if (signbit(number)) buf_put_byte(out, '-');
        if (d.point - 1 < -4 || d.point - 1 >= 6)
            put_scientific(out, &d); /* as printf's %g decides */
        else
            put_fixed(out, &d);
    }
}

void number_put_decimal(struct buf *out, double number)
{
    if (isnan(number)) {
        buf_put_literal(out, "NaN");
    } else if (isinf(number)) {
        buf_put(out, number < 0 ? STR("-Infinity") : STR("Infinity"));
    } else {
        struct digits d = digits_of(number);
        if (signbit(number)) buf_put_byte(out, '-');
        put_fixed(out, &d);
    }
}
