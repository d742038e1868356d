/* time.c - see time.h; also the getters and the calendar: days since 1970 to year, month and day in
 * the proleptic Gregorian calendar, counted in eras of 400 years that begin on a first of March, so
 * that the leap day is the last of its year. */
#include "cel/time.h"

#include "cel/functions.h"
#include "cel/zone.h"

enum {
    NS_PER_SECOND = 1000000000,
    SECONDS_PER_DAY = 86400,
    DAYS_PER_ERA = 146097,
    CALENDAR_COST = 3, /* of a moment's date, in a zone that is at hand */
};

static const int64_t first_second = -62135596800; /* 0001-01-01T00:00:00Z */
static const int64_t last_second = 253402300799;  /* 9999-12-31T23:59:59Z */

bool time_in_range(int64_t seconds) { return seconds >= first_second && seconds <= last_second; }

static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* ---- arithmetic ---- */

struct cel_value time_shift(struct cel_value timestamp, int64_t by_ns)
{
    /* from a second before to two seconds after */
    int64_t ns = by_ns % NS_PER_SECOND + timestamp.size;
    int64_t carry = floor_divide(ns, NS_PER_SECOND);
    /* far from the limits of int64 */
    int64_t seconds = timestamp.integer + by_ns / NS_PER_SECOND + carry;
    if (!time_in_range(seconds)) return cel_fail(CEL_FAULT_OVERFLOW, NULL);
    return cel_timestamp(seconds, (uint32_t)(ns - carry * NS_PER_SECOND));
}

struct cel_value time_between(struct cel_value from, struct cel_value to)
{
    int64_t ns;
    if (__builtin_mul_overflow(to.integer - from.integer, (int64_t)NS_PER_SECOND, &ns) ||
        __builtin_add_overflow(ns, (int64_t)to.size - (int64_t)from.size, &ns))
        return cel_fail(CEL_FAULT_OVERFLOW, NULL);
    return cel_duration(ns);
}

/* ---- the calendar ---- */

struct civil {
    int64_t year;
    unsigned month, day;  /* 1-based */
    unsigned day_of_year; /* 0-based */
    unsigned day_of_week; /* 0 is Sunday */
    unsigned hour, minute, second;
};

static bool is_leap(int64_t year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

static unsigned days_of_month(int64_t year, unsigned month)
{
    static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return month == 2 && is_leap(year) ? 29 : days[month - 1];
}

static int64_t days_from_civil(int64_t year, unsigned month, unsigned day)
{
    if (month <= 2) year--;
    int64_t era = floor_divide(year, 400);
    unsigned year_of_era = (unsigned)(year - era * 400);
    unsigned from_march = month > 2 ? month - 3 : month + 9;
    unsigned day_of_year = (153 * from_march + 2) / 5 + day - 1;
    unsigned day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * DAYS_PER_ERA + day_of_era - 719468;
}

static struct civil civil_of(int64_t seconds)
{
    int64_t days = floor_divide(seconds, SECONDS_PER_DAY);
    unsigned second = (unsigned)(seconds - days * SECONDS_PER_DAY);
    int64_t shifted = days + 719468, era = floor_divide(shifted, DAYS_PER_ERA);
    unsigned day_of_era = (unsigned)(shifted - era * DAYS_PER_ERA);
    unsigned year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    unsigned from_march_day =
        day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned from_march = (5 * from_march_day + 2) / 153;
    struct civil c = {.day = from_march_day - (153 * from_march + 2) / 5 + 1,
                      .month = from_march < 10 ? from_march + 3 : from_march - 9};
    c.year = era * 400 + year_of_era + (c.month <= 2);
    c.day_of_year = (unsigned)(days - days_from_civil(c.year, 1, 1));
    c.day_of_week = (unsigned)((days % 7 + 11) % 7); /* 1970-01-01 was a Thursday */
    c.hour = second / 3600;
    c.minute = second / 60 % 60;
    c.second = second % 60;
    return c;
}

/* ---- text ---- */

/* `count` digits at *at; false: there are fewer. */
static bool take_digits(struct str text, size_t *at, unsigned count, unsigned *ret)
{
    unsigned value = 0;
    for (unsigned i = 0; i < count; i++, (*at)++) {
        if (*at >= text.size || text.bytes[*at] < '0' || text.bytes[*at] > '9') return false;
        value = value * 10 + (unsigned)(text.bytes[*at] - '0');
    }
    *ret = value;
    return true;
}

static bool take_byte(struct str text, size_t *at, char byte)
{
    if (*at >= text.size || text.bytes[*at] != byte) return false;
    (*at)++;
    return true;
}

/* The digits behind a point, as nanoseconds. */
static bool take_fraction(struct str text, size_t *at, uint32_t *ret_ns)
{
    uint32_t ns = 0, scale = NS_PER_SECOND / 10;
    size_t first = *at;
    for (; *at < text.size && text.bytes[*at] >= '0' && text.bytes[*at] <= '9'; (*at)++) {
        if (scale == 0) continue; /* below the nanoseconds */
        ns += (uint32_t)(text.bytes[*at] - '0') * scale;
        scale /= 10;
    }
    *ret_ns = ns;
    return *at > first;
}

static bool take_offset(struct str text, size_t *at, int32_t *ret_seconds)
{
    *ret_seconds = 0;
    if (take_byte(text, at, 'Z')) return true;
    int32_t sign = take_byte(text, at, '-') ? -1 : 1;
    if (sign > 0 && !take_byte(text, at, '+')) return false;
    unsigned hours, minutes;
    if (!take_digits(text, at, 2, &hours) || !take_byte(text, at, ':') ||
        !take_digits(text, at, 2, &minutes))
        return false;
    *ret_seconds = sign * (int32_t)(hours * 3600 + minutes * 60);
    return hours <= 23 && minutes <= 59;
}

bool time_read_timestamp(struct str text, struct cel_value *ret)
{
    size_t at = 0;
    unsigned year, month, day, hour, minute, second;
    uint32_t ns = 0;
    int32_t offset;
    if (!take_digits(text, &at, 4, &year) || !take_byte(text, &at, '-') ||
        !take_digits(text, &at, 2, &month) || !take_byte(text, &at, '-') ||
        !take_digits(text, &at, 2, &day) || !take_byte(text, &at, 'T') ||
        !take_digits(text, &at, 2, &hour) || !take_byte(text, &at, ':') ||
        !take_digits(text, &at, 2, &minute) || !take_byte(text, &at, ':') ||
        !take_digits(text, &at, 2, &second))
        return false;
    if (take_byte(text, &at, '.') && !take_fraction(text, &at, &ns)) return false;
    if (!take_offset(text, &at, &offset) || at != text.size) return false;
    if (month < 1 || month > 12 || day < 1 || day > days_of_month(year, month) || hour > 23 ||
        minute > 59 || second > 59)
        return false;
    int64_t seconds = days_from_civil(year, month, day) * SECONDS_PER_DAY + hour * 3600 +
                      minute * 60 + second - offset;
    if (!time_in_range(seconds)) return false;
    *ret = cel_timestamp(seconds, ns);
    return true;
}

static bool take_unit(struct str text, size_t *at, int64_t *ret_ns)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {{"ns", 1},
                 {"us", 1000},
                 {"\xC2\xB5s", 1000},
                 {"\xCE\xBCs", 1000},
                 {"ms", 1000000},
                 {"s", NS_PER_SECOND},
                 {"m", 60ll * NS_PER_SECOND},
                 {"h", 3600ll * NS_PER_SECOND}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        struct str name = str_from(units[i].name);
        if (!str_starts(str_skip(text, *at), name)) continue;
        *at += name.size;
        *ret_ns = units[i].ns;
        return true;
    }
    return false;
}

/* "1.5h": the whole part and the fraction, each times the unit, exactly (the fraction cut to ns).
 */
static bool take_part(struct str text, size_t *at, uint64_t *total)
{
    uint64_t whole = 0, fraction = 0, scale = 1;
    int64_t unit;
    size_t first = *at, digits = 0;
    for (; *at < text.size && text.bytes[*at] >= '0' && text.bytes[*at] <= '9'; (*at)++, digits++)
        if (__builtin_mul_overflow(whole, 10u, &whole) ||
            __builtin_add_overflow(whole, (uint64_t)(text.bytes[*at] - '0'), &whole))
            return false;
    if (take_byte(text, at, '.'))
        for (; *at < text.size && text.bytes[*at] >= '0' && text.bytes[*at] <= '9';
             (*at)++, digits++)
            if (scale < 1000000000000000u) {
                fraction = fraction * 10 + (uint64_t)(text.bytes[*at] - '0');
                scale *= 10;
            }
    if (digits == 0 || *at == first || !take_unit(text, at, &unit)) return false;
    uint64_t ns;
    unsigned __int128 part = 0; /* under one unit */
    if (fraction > 0) part = (unsigned __int128)fraction * (uint64_t)unit / scale;
    return !__builtin_mul_overflow(whole, (uint64_t)unit, &ns) &&
           !__builtin_add_overflow(ns, (uint64_t)part, &ns) &&
           !__builtin_add_overflow(*total, ns, total);
}

bool time_read_duration(struct str text, struct cel_value *ret)
{
    size_t at = 0;
    bool negative = take_byte(text, &at, '-');
    if (!negative) take_byte(text, &at, '+');
    uint64_t total = 0;
    if (at == text.size) return false;
    if (str_equal(str_skip(text, at), STR("0"))) {
        *ret = cel_duration(0);
        return true;
    }
    while (at < text.size)
        if (!take_part(text, &at, &total)) return false;
    if (total > (uint64_t)INT64_MAX + (negative ? 1 : 0)) return false;
    *ret = cel_duration(negative ? (int64_t)(0 - total) : (int64_t)total);
    return true;
}

/* ".5", or nothing. */
static void put_fraction(struct buf *out, uint32_t ns)
{
    if (ns == 0) return;
    char digits[10] = ".000000000";
    size_t size = sizeof digits;
    for (size_t i = 9; i > 0; i--, ns /= 10) digits[i] = (char)('0' + ns % 10);
    while (digits[size - 1] == '0') size--;
    buf_put(out, str_of(digits, size));
}

void time_put_timestamp(struct buf *out, struct cel_value timestamp)
{
    struct civil c = civil_of(timestamp.integer);
    buf_printf(out, "%04u-%02u-%02uT%02u:%02u:%02u", (unsigned)c.year, c.month, c.day, c.hour,
               c.minute, c.second);
    put_fraction(out, timestamp.size);
    buf_put_byte(out, 'Z');
}

void time_put_duration(struct buf *out, struct cel_value duration)
{
    uint64_t ns =
        duration.integer < 0 ? 0 - (uint64_t)duration.integer : (uint64_t)duration.integer;
    if (duration.integer < 0) buf_put_byte(out, '-');
    buf_put_u64(out, ns / NS_PER_SECOND);
    put_fraction(out, (uint32_t)(ns % NS_PER_SECOND));
    buf_put_byte(out, 's');
}

/* ---- getters ---- */

/* The timestamp's local time, by the zone that the second argument names. */
static struct cel_value local_time(struct cel_meter *m, const struct cel_value *a, uint32_t count,
                                   struct civil *ret)
{
    int32_t offset = 0;
    if (a[0].kind != CEL_TIMESTAMP) return cel_no_overload();
    if (!cel_pay(m, CALENDAR_COST)) return cel_fail(CEL_FAULT_COST, NULL);
    if (count > 1 && a[1].kind == CEL_ZONE) {
        offset = zone_offset(a[1].zone, a[0].integer);
    } else if (count > 1) {
        if (a[1].kind != CEL_STRING) return cel_no_overload();
        if (!cel_pay(m, 20)) return cel_fail(CEL_FAULT_COST, NULL);
        if (!zone_fixed(cel_text(a[1]), &offset)) {
            const struct cel_zone *zone = zone_find_loaded(cel_text(a[1]));
            if (zone == NULL) return cel_fail_text(m, CEL_FAULT_ARGUMENT, cel_text(a[1]));
            offset = zone_offset(zone, a[0].integer);
        }
    }
    *ret = civil_of(a[0].integer + offset);
    return cel_null();
}

#define TIME_GETTER(scope, name, member)                                                           \
    scope struct cel_value name(struct cel_meter *m, const struct cel_value *a, uint32_t count)    \
    {                                                                                              \
        struct civil c;                                                                            \
        struct cel_value failed = local_time(m, a, count, &c);                                     \
        return cel_is_error(failed) ? failed : cel_int((int64_t)(member));                         \
    }

TIME_GETTER(, time_get_date, c.day)
TIME_GETTER(, time_get_day_of_month, c.day - 1)
TIME_GETTER(, time_get_day_of_week, c.day_of_week)
TIME_GETTER(, time_get_day_of_year, c.day_of_year)
TIME_GETTER(, time_get_full_year, c.year)
TIME_GETTER(, time_get_month, c.month - 1)
TIME_GETTER(static, local_hours, c.hour)
TIME_GETTER(static, local_minutes, c.minute)
TIME_GETTER(static, local_seconds, c.second)

/* For a duration: the whole in that unit; for a timestamp: the field. */
struct cel_value time_get_hours(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    if (a[0].kind == CEL_DURATION && count == 1)
        return cel_int(a[0].integer / (3600ll * NS_PER_SECOND));
    return local_hours(m, a, count);
}

struct cel_value time_get_minutes(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    if (a[0].kind == CEL_DURATION && count == 1)
        return cel_int(a[0].integer / (60ll * NS_PER_SECOND));
    return local_minutes(m, a, count);
}

struct cel_value time_get_seconds(struct cel_meter *m, const struct cel_value *a, uint32_t count)
{
    if (a[0].kind == CEL_DURATION && count == 1) return cel_int(a[0].integer / NS_PER_SECOND);
    return local_seconds(m, a, count);
}

/* The specification's exception: for a duration, too, only the part below a second. */
struct cel_value time_get_milliseconds(struct cel_meter *m, const struct cel_value *a,
                                       uint32_t count)
{
    struct civil c;
    if (a[0].kind == CEL_DURATION && count == 1) return cel_int(a[0].integer / 1000000 % 1000);
    struct cel_value failed = local_time(m, a, count, &c);
    return cel_is_error(failed) ? failed : cel_int(a[0].size / 1000000);
}
