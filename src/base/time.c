#include "base/time.h"

/* Days since 1970-01-01 and back: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms". */
static int64_t days_from_civil(int64_t year, unsigned month, unsigned day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    unsigned year_of_era = (unsigned)(year - era * 400);
    unsigned day_of_year = (153 * (month + (month > 2 ? -3u : 9u)) + 2) / 5 + day - 1;
    unsigned day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + (int64_t)day_of_era - 719468;
}

static void civil_from_days(int64_t days, unsigned *year, unsigned *month, unsigned *day)
{
    days += 719468;
    int64_t era = days / 146097;
    unsigned day_of_era = (unsigned)(days - era * 146097);
    unsigned year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned shifted = (5 * day_of_year + 2) / 153;
    *day = day_of_year - (153 * shifted + 2) / 5 + 1;
    *month = shifted < 10 ? shifted + 3 : shifted - 9;
    *year = (unsigned)(year_of_era + era * 400) + (*month <= 2);
}

static inline void put_two(char *to, unsigned value)
{
    static const char pairs[] = "00010203040506070809"
                                "10111213141516171819"
                                "20212223242526272829"
                                "30313233343536373839"
                                "40414243444546474849"
                                "50515253545556575859"
                                "60616263646566676869"
                                "70717273747576777879"
                                "80818283848586878889"
                                "90919293949596979899";
    memcpy(to, pairs + 2 * value, 2);
}

static void time_format(uint64_t ms, char *to)
{
    unsigned year, month, day;
    if (ms > TIME_LAST_MS) ms = TIME_LAST_MS;
    unsigned of_day = (unsigned)(ms % 86400000);
    unsigned second = of_day / 1000, milli = of_day % 1000;
    civil_from_days((int64_t)(ms / 86400000), &year, &month, &day);
    memcpy(to, "0000-00-00T00:00:00.000Z", TIME_TEXT);
    put_two(to, year / 100);
    put_two(to + 2, year % 100);
    put_two(to + 5, month);
    put_two(to + 8, day);
    put_two(to + 11, second / 3600);
    put_two(to + 14, second / 60 % 60);
    put_two(to + 17, second % 60);
    to[20] = (char)('0' + milli / 100);
    put_two(to + 21, milli % 100);
}

/* One decision writes its time three times, and a review also its deadline. Many decisions
 * happen in the same millisecond. So the two newest texts are kept. */
void time_write(uint64_t ms, char *to)
{
    static _Thread_local struct {
        uint64_t ms;
        char text[TIME_TEXT];
    } kept[2] = {{0, "1970-01-01T00:00:00.000Z"}, {0, "1970-01-01T00:00:00.000Z"}};
    static _Thread_local unsigned newest;
    if (ms != kept[newest].ms) {
        newest ^= 1;
        if (ms != kept[newest].ms) {
            time_format(ms, kept[newest].text);
            kept[newest].ms = ms;
        }
    }
    memcpy(to, kept[newest].text, TIME_TEXT);
}

static bool get_digits(struct str text, size_t at, size_t width, unsigned *ret)
{
    if (at + width > text.size) return false;
    *ret = 0;
    for (size_t i = at; i < at + width; i++) {
        if (text.bytes[i] < '0' || text.bytes[i] > '9') return false;
        *ret = *ret * 10 + (unsigned)(text.bytes[i] - '0');
    }
    return true;
}

static unsigned days_of_month(unsigned year, unsigned month)
{
    static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : days[month - 1];
}

/* "Z", or "+hh:mm", at the end of the text: minutes east of UTC. */
static bool get_offset(struct str zone, int *ret_minutes)
{
    unsigned hours, minutes;
    if (zone.size == 1 && (zone.bytes[0] == 'Z' || zone.bytes[0] == 'z')) {
        *ret_minutes = 0;
        return true;
    }
    if (zone.size != 6 || (zone.bytes[0] != '+' && zone.bytes[0] != '-') || zone.bytes[3] != ':')
        return false;
    if (!get_digits(zone, 1, 2, &hours) || !get_digits(zone, 4, 2, &minutes)) return false;
    if (hours > 23 || minutes > 59) return false;
    *ret_minutes = (int)(hours * 60 + minutes) * (zone.bytes[0] == '-' ? -1 : 1);
    return true;
}

bool time_read_any(struct str text, int64_t *ret_ms)
{
    unsigned year, month, day, hour, minute, second, millis = 0;
    int offset;
    if (text.size < 20 || !get_digits(text, 0, 4, &year) || text.bytes[4] != '-' ||
        !get_digits(text, 5, 2, &month) || text.bytes[7] != '-' || !get_digits(text, 8, 2, &day) ||
        (text.bytes[10] != 'T' && text.bytes[10] != 't') || !get_digits(text, 11, 2, &hour) ||
        text.bytes[13] != ':' || !get_digits(text, 14, 2, &minute) || text.bytes[16] != ':' ||
        !get_digits(text, 17, 2, &second))
        return false;
    if (month < 1 || month > 12 || day < 1 || day > days_of_month(year, month)) return false;
    if (hour > 23 || minute > 59 || second > 60) return false;

    size_t at = 19;
    if (text.bytes[at] == '.') {
        size_t first = ++at;
        for (; at < text.size && text.bytes[at] >= '0' && text.bytes[at] <= '9'; at++) {
            static const unsigned weight[] = {100, 10, 1};
            if (at - first < 3) millis += weight[at - first] * (unsigned)(text.bytes[at] - '0');
        }
        if (at == first || at - first > 9) return false;
    }
    if (!get_offset(str_skip(text, at), &offset)) return false;
    if (second == 60) second = 59, millis = 999;

    *ret_ms = days_from_civil(year, month, day) * 86400000 + (int64_t)hour * 3600000 +
              ((int64_t)minute - offset) * 60000 + second * 1000 + millis;
    return true;
}

bool time_read(struct str text, uint64_t *ret_ms)
{
    int64_t ms;
    /* An offset may move a time out of the years that can be written. */
    if (!time_read_any(text, &ms) || ms < 0 || ms > TIME_LAST_MS) return false;
    *ret_ms = (uint64_t)ms;
    return true;
}
