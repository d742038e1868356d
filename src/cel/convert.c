/* convert.c - int(), uint(), double(), string(), ...: a conversion that would lose the value's
 * size is an error; one that only loses what is behind the point is not. */
#include <math.h>

#include "cel/address.h"
#include "cel/functions.h"
#include "cel/number.h"
#include "cel/time.h"

/* The cost of parsing a text, measured in the worst case. */
enum {
    DIGITS_TO_A_STEP = 8,
    DOUBLE_BYTES_MOST = 400, /* of a longer text only the digits are read */
    DOUBLE_BYTES_TO_A_STEP = 4,
    DURATION_BYTES_TO_A_STEP = 1,
    TIMESTAMP_BYTES_TO_A_STEP = 4,
    UTF8_BYTES_TO_A_STEP = 8,
};

static struct cel_value spent(void) { return cel_fail(CEL_FAULT_COST, NULL); }

static struct cel_value range(void) { return cel_fail(CEL_FAULT_RANGE, NULL); }

static struct cel_value syntax(struct cel_meter *m, struct cel_value text)
{
    return cel_fail_text(m, CEL_FAULT_SYNTAX, cel_text(text));
}

struct cel_value convert_to_bool(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    static const char *const yes[] = {"1", "t", "T", "true", "TRUE", "True"};
    static const char *const no[] = {"0", "f", "F", "false", "FALSE", "False"};
    if (a[0].kind == CEL_BOOL) return a[0];
    if (a[0].kind != CEL_STRING) return cel_no_overload();
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        if (str_equal(cel_text(a[0]), str_from(yes[i]))) return cel_bool(true);
        if (str_equal(cel_text(a[0]), str_from(no[i]))) return cel_bool(false);
    }
    return syntax(m, a[0]);
}

struct cel_value convert_to_bytes(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)m, (void)count;
    if (a[0].kind != CEL_STRING && a[0].kind != CEL_BYTES) return cel_no_overload();
    return cel_bytes(a[0].bytes, a[0].size);
}

struct cel_value convert_to_double(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    double number;
    switch (a[0].kind) {
    case CEL_DOUBLE: return cel_double(a[0].number); /* and no integer of JSON any more */
    case CEL_INT: return cel_double((double)a[0].integer);
    case CEL_UINT: return cel_double((double)a[0].natural);
    case CEL_STRING: {
        uint32_t read = a[0].size < DOUBLE_BYTES_MOST ? a[0].size : DOUBLE_BYTES_MOST;
        if (!cel_pay_slow_bytes(m, a[0].size, DIGITS_TO_A_STEP) ||
            !cel_pay_slow_bytes(m, read, DOUBLE_BYTES_TO_A_STEP))
            return spent();
        return number_read_double(cel_text(a[0]), &number) ? cel_double(number) : syntax(m, a[0]);
    }
    default: return cel_no_overload();
    }
}

struct cel_value convert_to_duration(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    struct cel_value result;
    switch (a[0].kind) {
    case CEL_DURATION: return a[0];
    case CEL_STRING:
        if (!cel_pay_slow_bytes(m, a[0].size, DURATION_BYTES_TO_A_STEP)) return spent();
        return time_read_duration(cel_text(a[0]), &result) ? result : syntax(m, a[0]);
    default: return cel_no_overload();
    }
}

struct cel_value convert_to_timestamp(struct cel_meter *m, const struct cel_value *a,
                                      uint32_t count)
{
    (void)count;
    struct cel_value result;
    switch (a[0].kind) {
    case CEL_TIMESTAMP: return a[0];
    case CEL_INT: return time_in_range(a[0].integer) ? cel_timestamp(a[0].integer, 0) : range();
    case CEL_STRING:
        if (!cel_pay_slow_bytes(m, a[0].size, TIMESTAMP_BYTES_TO_A_STEP)) return spent();
        return time_read_timestamp(cel_text(a[0]), &result) ? result : syntax(m, a[0]);
    default: return cel_no_overload();
    }
}

struct cel_value convert_to_dyn(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)m, (void)count;
    return a[0];
}

struct cel_value convert_to_type(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)m, (void)count;
    return cel_type_value(a[0].kind);
}

struct cel_value convert_to_int(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    int64_t integer;
    switch (a[0].kind) {
    case CEL_INT: return a[0];
    case CEL_UINT: return a[0].natural > INT64_MAX ? range() : cel_int((int64_t)a[0].natural);
    case CEL_DOUBLE: /* the ends themselves are refused: what was rounded to them may have been
                        beyond */
        return a[0].number > -0x1p63 && a[0].number < 0x1p63 ? cel_int((int64_t)a[0].number)
                                                             : range();
    case CEL_STRING:
        if (!cel_pay_slow_bytes(m, a[0].size, DIGITS_TO_A_STEP)) return spent();
        return number_read_int(cel_text(a[0]), &integer) ? cel_int(integer) : syntax(m, a[0]);
    case CEL_TIMESTAMP:
    case CEL_DURATION: return cel_int(a[0].integer);
    default: return cel_no_overload();
    }
}

struct cel_value convert_to_uint(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    uint64_t natural;
    switch (a[0].kind) {
    case CEL_UINT: return a[0];
    case CEL_INT: return a[0].integer < 0 ? range() : cel_uint((uint64_t)a[0].integer);
    case CEL_DOUBLE:
        return a[0].number >= 0 && a[0].number < 0x1p64 ? cel_uint((uint64_t)a[0].number) : range();
    case CEL_STRING:
        if (!cel_pay_slow_bytes(m, a[0].size, DIGITS_TO_A_STEP)) return spent();
        return str_to_u64(cel_text(a[0]), &natural) ? cel_uint(natural) : syntax(m, a[0]);
    default: return cel_no_overload();
    }
}

struct cel_value convert_to_string(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    (void)count;
    char text[64];
    struct buf out = buf_over(text, sizeof text);
    size_t wrong;
    if (!cel_pay(m, cel_text_cost(a[0]))) return spent();
    switch (a[0].kind) {
    case CEL_STRING: return a[0];
    case CEL_BYTES:
        if (!cel_pay_slow_bytes(m, a[0].size, UTF8_BYTES_TO_A_STEP)) return spent();
        if (!str_is_utf8(cel_text(a[0]), &wrong)) return cel_fail(CEL_FAULT_SYNTAX, NULL);
        return cel_string(a[0].bytes, a[0].size);
    case CEL_BOOL: return a[0].boolean ? cel_string("true", 4) : cel_string("false", 5);
    case CEL_INT: number_put_int(&out, a[0].integer); break;
    case CEL_UINT: buf_put_u64(&out, a[0].natural); break;
    case CEL_DOUBLE: number_put_double(&out, a[0].number); break;
    case CEL_TIMESTAMP: time_put_timestamp(&out, a[0]); break;
    case CEL_DURATION: time_put_duration(&out, a[0]); break;
    case CEL_IP: cel_address_put(&out, a[0].cidr); break;
    case CEL_CIDR: cel_cidr_put(&out, a[0].cidr); break;
    default: return cel_no_overload();
    }
    return cel_copy_text(m, CEL_STRING, buf_view(&out));
}
