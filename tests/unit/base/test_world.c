/* test_world.c - clocks, chance and the log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "base/world.h"

/* ---- time and chance ---- */

static void now_is_near_the_wall_clock_and_never_goes_back(void **state)
{
    (void)state;
    uint64_t wall_ms = (uint64_t)time(NULL) * 1000, last = world_now_ms();
    assert_true(last + 5000 > wall_ms && last < (uint64_t)time(NULL) * 1000 + 5000);
    for (int i = 0; i < 10000; i++) {
        uint64_t now = world_now_ms();
        assert_true(now >= last);
        last = now;
        if (i % 100 == 0) world_time_discipline();
    }
}

static void now_is_never_before_the_floor(void **state)
{
    (void)state;
    uint64_t floor_ms = world_now_ms() + 60000;
    world_time_floor(floor_ms);
    assert_true(world_now_ms() >= floor_ms);
    world_time_floor(floor_ms - 30000); /* a lower one changes nothing */
    assert_true(world_now_ms() >= floor_ms);
}

/* A clock that was set back by an hour between two starts must not keep tokens alive for an
 * hour. */
static void time_goes_on_from_a_floor_ahead_of_the_clock(void **state)
{
    (void)state;
    uint64_t floor_ms = world_now_ms() + 3600000, begun_ns = world_monotonic_ns();
    world_time_floor(floor_ms);
    while (world_now_ms() < floor_ms + 20)
        assert_true(world_monotonic_ns() - begun_ns < 120000000000u);
}

static void chance_does_not_repeat_itself(void **state)
{
    (void)state;
    struct chance c = {0};
    static uint8_t taken[1000][10];
    for (size_t i = 0; i < 1000; i++) {
        chance_take(&c, taken[i], sizeof taken[i]);
        for (size_t k = 0; k < i; k++) assert_memory_not_equal(taken[i], taken[k], sizeof taken[i]);
    }
    uint8_t large[5000] = {0}, zero[100] = {0};
    world_random(large, sizeof large);
    assert_memory_not_equal(large + sizeof large - 100, zero, 100);
}

/* ---- log ---- */

static char line[8192];

/* Runs `write_line` with standard error in a pipe; the line is then in `line`. */
static void captured(void (*write_line)(void))
{
    int ends[2], kept = dup(STDERR_FILENO);
    assert_true(kept >= 0 && pipe(ends) == 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    close(ends[1]);
    write_line();
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
    ssize_t size = read(ends[0], line, sizeof line - 1);
    close(ends[0]);
    line[size < 0 ? 0 : size] = '\0';
}

static void one_happening(void)
{
    log_line(LOG_INFO, "listening", "address", "127.0.0.1:8080", "odd", "a\"b\\c\n", NULL);
}

static void a_happening_is_one_json_line(void **state)
{
    (void)state;
    log_init("test", LOG_INFO);
    captured(one_happening);
    assert_memory_equal(line, "{\"time\":\"20", 11);
    assert_non_null(strstr(
        line, "\",\"level\":\"info\",\"program\":\"test\",\"event\":\"listening\",\"address\":"
              "\"127.0.0.1:8080\",\"odd\":\"a\\\"b\\\\c\\u000a\"}\n"));
}

static void one_detail(void) { log_line(LOG_DEBUG, "detail", NULL); }

static void what_is_below_the_level_is_not_written(void **state)
{
    (void)state;
    log_init("test", LOG_INFO);
    captured(one_detail);
    assert_string_equal(line, "");
}

static char large[3000];
static void one_large(void)
{
    log_line(LOG_ERROR, "large", "a", large, "b", large, "c", "small", NULL);
}
static void one_large_text(void) { log_text(LOG_ERROR, "large", "%s", large); }

static void an_overlong_line_is_cut_and_stays_json(void **state)
{
    (void)state;
    log_init("test", LOG_INFO);
    memset(large, 'x', sizeof large - 1);
    captured(one_large);
    size_t size = strlen(line);
    assert_true(size > 1000 && size <= 2048);
    assert_string_equal(line + size - 2, "}\n");
    assert_non_null(strstr(line, "\"c\":\"small\"}\n"));
}

static void what_is_not_utf8_does_not_reach_the_line(void **state)
{
    (void)state;
    size_t at;
    log_init("test", LOG_INFO);
    for (size_t shift = 0; shift < 4; shift++) { /* cut within a character */
        memset(large, 'x', sizeof large - 1);
        for (size_t i = shift; i + 5 < sizeof large; i += 4)
            memcpy(large + i, "\xF0\x9F\x98\x80", 4);
        captured(one_large);
        assert_true(str_is_utf8(str_from(line), &at));
        captured(one_large_text);
        assert_true(str_is_utf8(str_from(line), &at));
    }
    snprintf(large, sizeof large, "caf\xE9 \xFF");
    captured(one_large);
    assert_true(str_is_utf8(str_from(line), &at));
    assert_non_null(strstr(line, "\"a\":\"caf? ?\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(now_is_near_the_wall_clock_and_never_goes_back),
        cmocka_unit_test(now_is_never_before_the_floor),
        cmocka_unit_test(time_goes_on_from_a_floor_ahead_of_the_clock),
        cmocka_unit_test(chance_does_not_repeat_itself),
        cmocka_unit_test(a_happening_is_one_json_line),
        cmocka_unit_test(what_is_below_the_level_is_not_written),
        cmocka_unit_test(an_overlong_line_is_cut_and_stays_json),
        cmocka_unit_test(what_is_not_utf8_does_not_reach_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
