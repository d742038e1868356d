/* test_time.c - timestamps, durations, the calendar and time zones. */
#include "cel_scene.h"

#include <stdlib.h>
#include <time.h>

#include "cel/time.h"
#include "cel/zone.h"

static void timestamps_are_read_and_written(void **state)
{
    (void)state;
    gives("string(timestamp('2009-02-13T23:31:30Z'))", "\"2009-02-13T23:31:30Z\"");
    gives("timestamp('9999-12-31T23:59:59.999999999Z')",
          "timestamp(\"9999-12-31T23:59:59.999999999Z\")");
    gives("timestamp('2009-02-14T01:31:30.120+02:00')", "timestamp(\"2009-02-13T23:31:30.12Z\")");
    gives("timestamp('1969-12-31T23:59:59.5Z')", "timestamp(\"1969-12-31T23:59:59.5Z\")");
    gives("timestamp('2000-02-29T00:00:00Z') < timestamp('2000-03-01T00:00:00Z')", "true");
    gives("int(timestamp('2009-02-13T23:31:30.9Z'))", "1234567890");
    gives("timestamp(1234567890) == timestamp('2009-02-13T23:31:30Z')", "true");
    gives("type(now)", "google.protobuf.Timestamp");
}

static void texts_that_are_no_timestamp_are_refused(void **state)
{
    static const char *const wrong[] = {"0000-01-01T00:00:00Z",
                                        "10000-01-01T00:00:00Z",
                                        "2009-02-29T00:00:00Z",
                                        "2009-13-01T00:00:00Z",
                                        "2009-00-01T00:00:00Z",
                                        "2009-01-00T00:00:00Z",
                                        "2009-01-01T24:00:00Z",
                                        "2009-01-01T00:60:00Z",
                                        "2009-01-01T00:00:60Z",
                                        "2009-01-01T00:00:00",
                                        "2009-01-01 00:00:00Z",
                                        "2009-01-01T00:00:00.Z",
                                        "2009-01-01T00:00:00+0200",
                                        "2009-01-01T00:00:00+24:00",
                                        "2009-01-01T00:00:00Zx",
                                        "2009-1-1T00:00:00Z",
                                        "0001-01-01T00:00:00+00:01",
                                        "9999-12-31T23:59:59-00:01",
                                        "",
                                        "now"};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char expression[80], expected[160];
        snprintf(expression, sizeof expression, "timestamp('%s')", wrong[i]);
        gives(expression, "1:11: this is no time (2026-11-20T09:30:00Z), or one out of range");
        snprintf(expression, sizeof expression, "timestamp(['%s'][0])", wrong[i]);
        snprintf(expected, sizeof expected,
                 "error: the text cannot be read as that%s%s (at column 1)", ": ", wrong[i]);
        gives_unchecked(expression, expected);
    }
}

static void durations_are_read_and_written(void **state)
{
    (void)state;
    gives("duration('1h45m47s')", "duration(\"6347s\")");
    gives("duration('-1.5h')", "duration(\"-5400s\")");
    gives("[duration('100ms'), duration('7us'), duration('7\xC2\xB5s'), duration('1ns'), "
          "duration('0')]",
          "[duration(\"0.1s\"), duration(\"0.000007s\"), duration(\"0.000007s\"), "
          "duration(\"0.000000001s\"), duration(\"0s\")]");
    gives("string(duration('1000000s'))", "\"1000000s\"");
    gives("duration('9223372036.854775807s') > duration('-9223372036.854775808s')", "true");
    gives("duration('9223372036.854775808s')",
          "1:10: this is no duration (1h30m, 90s, 100ms), or one out of range");
    gives("duration('1')", "1:10: this is no duration (1h30m, 90s, 100ms), or one out of range");
    gives("duration('1d')", "1:10: this is no duration (1h30m, 90s, 100ms), or one out of range");
    gives("duration('.s')", "1:10: this is no duration (1h30m, 90s, 100ms), or one out of range");
    gives("duration('')", "1:10: this is no duration (1h30m, 90s, 100ms), or one out of range");
    gives("int(duration('1s'))", "1000000000");
}

static void time_is_counted_exactly(void **state)
{
    (void)state;
    gives("timestamp('0001-01-01T00:00:01.000000001Z') + duration('-999999999ns')",
          "timestamp(\"0001-01-01T00:00:00.000000002Z\")");
    gives("timestamp('9999-12-31T23:59:59.999999999Z') + duration('1ns')",
          "error: overflow (at column 45)");
    gives("timestamp('0001-01-01T00:00:00Z') - duration('1ns')", "error: overflow (at column 35)");
    gives("timestamp('2262-04-11T23:47:16.9Z') + duration('-9223372036.854775808s')",
          "timestamp(\"1970-01-01T00:00:00.045224192Z\")");
    gives("timestamp('1969-12-31T23:59:59.9Z') + duration('9223372036.854775807s')",
          "timestamp(\"2262-04-11T23:47:16.754775807Z\")");
    gives("duration('1h') + now - now", "duration(\"3600s\")");
    gives("timestamp('9999-12-31T23:59:59Z') - timestamp('0001-01-01T00:00:00Z')",
          "error: overflow (at column 35)");
    gives("duration('200000h') + duration('2562000h')", "error: overflow (at column 21)");
    gives("now - timestamp('2026-11-20T09:00:00Z') < duration('31m')", "true");
    gives("now - duration('1d' == '' ? '1s' : '1m')", "timestamp(\"2026-11-20T09:29:00.123Z\")");
}

static void getters_tell_the_parts(void **state)
{
    (void)state;
    gives("cel.bind(t, timestamp('2009-02-13T23:31:20.123456789Z'), [t.getFullYear(), "
          "t.getMonth(), t.getDate(), "
          "t.getDayOfMonth(), t.getDayOfWeek(), t.getDayOfYear(), t.getHours(), t.getMinutes(), "
          "t.getSeconds(), t.getMilliseconds()])",
          "[2009, 1, 13, 12, 5, 43, 23, 31, 20, 123]");
    gives("cel.bind(d, duration('3730.321s'), [d.getHours(), d.getMinutes(), d.getSeconds(), "
          "d.getMilliseconds()])",
          "[1, 62, 3730, 321]");
    gives("duration('-90s').getMinutes()", "-1");
    gives("timestamp('0001-01-01T00:00:00Z').getDayOfWeek()", "1");
    gives("timestamp('1600-12-31T00:00:00Z').getDayOfYear()", "365");
    gives_unchecked(
        "duration('1s').getHours('UTC')",
        "error: no such overload for (google.protobuf.Duration, string) (at column 16)");
}

static void zones_are_known_by_name_and_by_offset(void **state)
{
    (void)state;
    gives("cel.bind(t, timestamp('2009-02-13T23:31:30Z'), [t.getDate('Australia/Sydney'), "
          "t.getDayOfMonth('US/Central'), "
          "t.getHours('02:00'), t.getHours('-09:30'), t.getMinutes('Asia/Kathmandu'), "
          "t.getSeconds('-00:00'), t.getHours('UTC')])",
          "[14, 12, 1, 14, 16, 30, 23]");
    gives("timestamp('2009-02-13T02:00:00Z').getDayOfMonth('America/St_Johns')", "11");
    gives("now.getHours('Asia' + '/Tokyo') + now.getHours(roles[0] == '' ? 'UTC' : 'Europe/Paris')",
          "28");
    gives("now.getHours(actor)", "error: an argument that is not taken: invoice_bot (at column 5)");
    gives("now.getHours('Mars/Base')",
          "1:14: there is no time zone \"Mars/Base\" (a name such as Europe/Paris, or +02:00)");
    gives("now.getHours('../../etc/passwd')", "1:14: there is no time zone \"../../etc/passwd\" (a "
                                              "name such as Europe/Paris, or +02:00)");
    gives("now.getHours('Europe')",
          "1:14: there is no time zone \"Europe\" (a name such as Europe/Paris, or +02:00)");
    gives("now.getHours('+24:00')",
          "1:14: there is no time zone \"+24:00\" (a name such as Europe/Paris, or +02:00)");
}

/* The C library as the other opinion: it reads the same files by code of its own. */
static void offsets_are_those_of_the_c_library(void **state)
{
    static const char *const zones[] = {"Europe/Paris",
                                        "America/New_York",
                                        "America/St_Johns",
                                        "Australia/Lord_Howe",
                                        "Asia/Kathmandu",
                                        "Africa/Casablanca",
                                        "America/Sao_Paulo",
                                        "Pacific/Apia",
                                        "Europe/Dublin",
                                        "Antarctica/Troll",
                                        "Asia/Tehran",
                                        "America/Nuuk",
                                        "UTC",
                                        "Etc/GMT+12"};
    (void)state;
    uint64_t seed = 7;
    for (size_t i = 0; i < sizeof zones / sizeof zones[0]; i++) {
        const struct cel_zone *zone = zone_find(str_from(zones[i]));
        assert_non_null(zone);
        setenv("TZ", zones[i], 1);
        tzset();
        for (int n = 0; n < 3000; n++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            time_t at = (time_t)(seed >> 30) % 5000000000; /* 1970 to 2128 */
            struct tm local;
            assert_non_null(localtime_r(&at, &local));
            if (zone_offset(zone, at) != local.tm_gmtoff)
                print_error("%s at %lld\n", zones[i], (long long)at);
            assert_int_equal(zone_offset(zone, at), local.tm_gmtoff);
        }
    }
    unsetenv("TZ");
    tzset();
}

/* The second in which the clocks change belongs to the time after it: 1995 by the file's table,
 * 2045 by its footer. */
static void a_change_of_the_clocks_is_at_its_second(void **state)
{
    static const struct {
        const char *zone;
        int64_t at;
        int32_t before, after;
    } changes[] = {
        {"Europe/Paris", 796179600, 3600, 7200},          /* 1995-03-26T01:00:00Z */
        {"Europe/Paris", 811904400, 7200, 3600},          /* 1995-09-24T01:00:00Z */
        {"Europe/Paris", 2374102800, 3600, 7200},         /* 2045-03-26T01:00:00Z */
        {"Europe/Paris", 2392851600, 7200, 3600},         /* 2045-10-29T01:00:00Z */
        {"America/New_York", 796806000, -18000, -14400},  /* 1995-04-02T07:00:00Z */
        {"America/New_York", 814946400, -14400, -18000},  /* 1995-10-29T06:00:00Z */
        {"America/New_York", 2372914800, -18000, -14400}, /* 2045-03-12T07:00:00Z */
        {"America/New_York", 2393474400, -14400, -18000}, /* 2045-11-05T06:00:00Z */
        {"Australia/Sydney", 794332800, 39600, 36000},    /* 1995-03-04T16:00:00Z */
        {"Australia/Sydney", 814896000, 36000, 39600},    /* 1995-10-28T16:00:00Z */
        {"Australia/Sydney", 2374675200, 39600, 36000},   /* 2045-04-01T16:00:00Z */
        {"Australia/Sydney", 2390400000, 36000, 39600},   /* 2045-09-30T16:00:00Z */
    };
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        const struct cel_zone *zone = zone_find(str_from(changes[i].zone));
        assert_non_null(zone);
        assert_int_equal(zone_offset(zone, changes[i].at - 1), changes[i].before);
        assert_int_equal(zone_offset(zone, changes[i].at), changes[i].after);
    }
}

/* gmtime_r over nine thousand years, a prime number of seconds apart. */
static void the_calendar_is_that_of_the_c_library(void **state)
{
    char text[64];
    (void)state;
    for (int64_t at = -62135596800; at <= 253402300799; at += 31556929) {
        struct buf out = buf_over(text, sizeof text - 1);
        struct tm tm;
        char expected[64];
        time_t seconds = (time_t)at;
        struct cel_value again;
        assert_non_null(gmtime_r(&seconds, &tm));
        snprintf(expected, sizeof expected, "%04d-%02d-%02dT%02d:%02d:%02dZ", tm.tm_year + 1900,
                 tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
        time_put_timestamp(&out, cel_timestamp(at, 0));
        text[out.size] = '\0';
        assert_string_equal(text, expected);
        assert_true(time_read_timestamp(str_from(text), &again));
        assert_int_equal(again.integer, at);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timestamps_are_read_and_written),
        cmocka_unit_test(texts_that_are_no_timestamp_are_refused),
        cmocka_unit_test(durations_are_read_and_written),
        cmocka_unit_test(time_is_counted_exactly),
        cmocka_unit_test(getters_tell_the_parts),
        cmocka_unit_test(zones_are_known_by_name_and_by_offset),
        cmocka_unit_test(offsets_are_those_of_the_c_library),
        cmocka_unit_test(a_change_of_the_clocks_is_at_its_second),
        cmocka_unit_test(the_calendar_is_that_of_the_c_library),
    };
    return cmocka_run_group_tests(tests, cel_set_up, cel_tear_down);
}
