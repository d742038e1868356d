/* test_backoff.c - pauses that grow, and that no two engines share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/backoff.h"

enum { DRAWS = 2000 };

static void a_pause_doubles_from_the_first_to_the_most(void **state)
{
    (void)state;
    static const struct backoff b = {50, 5000};
    static const uint32_t most[] = {50, 50, 100, 200, 400, 800, 1600, 3200, 5000, 5000};
    for (uint64_t failures = 0; failures < sizeof most / sizeof *most; failures++)
        for (unsigned i = 0; i < DRAWS; i++)
            assert_in_range(backoff_ms(&b, failures), most[failures] / 2, most[failures]);
    assert_in_range(backoff_ms(&b, UINT64_MAX), 2500, 5000);
}

static void the_most_may_be_as_large_as_it_says(void **state)
{
    (void)state;
    static const struct backoff b = {3, UINT32_C(1) << 31};
    assert_in_range(backoff_ms(&b, UINT64_MAX), UINT32_C(1) << 30, UINT32_C(1) << 31);
}

/* One that is never drawn in 2,000 would be a chance of 1 in 10^155. */
static void every_pause_of_its_range_is_drawn(void **state)
{
    (void)state;
    static const struct backoff even = {10, 10}, odd = {11, 11};
    unsigned evens[11] = {0}, odds[12] = {0};
    for (unsigned i = 0; i < DRAWS; i++) {
        evens[backoff_ms(&even, 1)]++;
        odds[backoff_ms(&odd, 1)]++;
    }
    for (unsigned ms = 5; ms <= 10; ms++) assert_true(evens[ms] > 0);
    for (unsigned ms = 5; ms <= 11; ms++) assert_true(odds[ms] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pause_doubles_from_the_first_to_the_most),
        cmocka_unit_test(the_most_may_be_as_large_as_it_says),
        cmocka_unit_test(every_pause_of_its_range_is_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
