/* units.c - parses and formats sizes and spans.
 *
 *   size = digits [unit]     unit = B | KiB | MiB | GiB | TiB    (powers of 1024)
 *   span = digits unit       unit = ms | s | m | h | d           (0 needs none)
 *
 * KB and MB are refused, because many people mean 1000 by them. A product that does not fit 64 bits
 * is refused. */
#include "config/config.h"
#include "config/table.h"

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit sizes[] = {{"TiB", 1ull << 40},
                                    {"GiB", 1ull << 30},
                                    {"MiB", 1ull << 20},
                                    {"KiB", 1ull << 10},
                                    {"B", 1},
                                    {"", 1}};
static const struct unit spans[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static bool read_with_unit(struct str text, const struct unit *units, size_t count, uint64_t *ret)
{
    size_t digits = 0;
    while (digits < text.size && text.bytes[digits] >= '0' && text.bytes[digits] <= '9') digits++;
    uint64_t number;
    if (digits == 0 || !str_to_u64(str_of(text.bytes, digits), &number)) return false;

    struct str unit = str_skip(text, digits);
    for (size_t i = 0; i < count; i++) {
        if (!str_equal(unit, str_from(units[i].name))) continue;
        uint64_t product;
        if (__builtin_mul_overflow(number, units[i].factor, &product)) return false;
        *ret = product;
        return true;
    }
    return false;
}

bool config_bytes(struct str text, uint64_t *ret)
{
    return read_with_unit(text, sizes, COUNT_OF(sizes), ret);
}

bool config_span(struct str text, uint64_t *ret_ms)
{
    if (str_equal(text, STR("0"))) {
        *ret_ms = 0;
        return true;
    }
    return read_with_unit(text, spans, COUNT_OF(spans), ret_ms);
}

bool option_ratio(struct str text, double *ret)
{
    size_t point = str_find(text, '.');
    struct str whole = str_of(text.bytes, point),
               digits = point < text.size ? str_skip(text, point + 1) : STR("0");
    uint64_t units, parts, scale = 1;
    if (digits.size > 9 || !str_to_u64(whole, &units) || !str_to_u64(digits, &parts)) return false;
    for (size_t i = 0; i < digits.size; i++) scale *= 10;
    if (units > 1 || (units == 1 && parts > 0)) return false;
    *ret = (double)units + (double)parts / (double)scale;
    return true;
}

static void put_with_unit(struct buf *out, uint64_t number, const struct unit *units, size_t count)
{
    size_t i = 0;
    while (i + 1 < count && number % units[i].factor != 0) i++;
    buf_put_u64(out, number / units[i].factor);
    buf_put(out, str_from(units[i].name));
}

void option_put_bytes(struct buf *out, uint64_t bytes)
{
    put_with_unit(out, bytes, sizes, COUNT_OF(sizes) - 1);
}

void option_put_span(struct buf *out, uint64_t ms)
{
    put_with_unit(out, ms, spans, COUNT_OF(spans));
}
