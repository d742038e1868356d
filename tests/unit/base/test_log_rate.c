/* Log lines of one cause: so many a second, the rest counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/log_rate.h"

static void what_is_held_back_is_told_with_the_next_line(void **state)
{
    (void)state;
    struct log_rate r = {0};
    uint64_t held = 99;
    unsigned lines = 0;
    for (unsigned i = 0; i < 50000; i++) lines += log_rate_allows(&r, 5000 + i % 1000, &held);
    assert_int_equal(lines, LOG_RATE_LINES);
    assert_int_equal(held, 0);
    assert_true(log_rate_allows(&r, 6000, &held));
    assert_int_equal(held, 50000 - LOG_RATE_LINES);
    assert_true(log_rate_allows(&r, 6001, &held));
    assert_int_equal(held, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_held_back_is_told_with_the_next_line)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
