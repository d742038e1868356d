/* When a reactor counts as overloaded. The lengths of turns are given; only the end of the present turn is real. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "base/world.h"
#include "engine/runtime/overload.h"

enum { DELAY_MS = 20 };
static const uint64_t ms = 1000000;
static const struct overload_asker known = {.tenant = 1, .key = 11},
                                   other = {.tenant = 2, .key = 21},
                                   colleague = {.tenant = 1, .key = 12}, unknown = {0};

static bool admits(struct overload *o, uint64_t woken_ns, const struct overload_asker *who)
{
    return overload_admits(o, woken_ns, world_monotonic_ns(), who);
}

/* So many turns of this length, one behind the other, the last of which ends now. Without a sleep
 * between them. Returns when the next turn begins. */
static uint64_t turns(struct overload *o, unsigned count, uint64_t length_ns)
{
    uint64_t now_ns = world_monotonic_ns(), begun_ns = now_ns - count * length_ns;
    overload_init(o, DELAY_MS, begun_ns);
    for (unsigned i = 0; i < count; i++, begun_ns += length_ns)
        overload_turn_end(o, begun_ns, begun_ns + length_ns, false);
    return now_ns;
}

static void long_turns_without_a_sleep_are_an_overload(void **state)
{
    (void)state;
    struct overload o;
    uint64_t now_ns = turns(&o, 10, 30 * ms);
    assert_true(admits(&o, now_ns, &known));
    assert_true(!admits(&o, now_ns - 21 * ms, &known));
}

static void a_credential_that_is_not_known_has_half_of_the_time(void **state)
{
    (void)state;
    struct overload o;
    uint64_t now_ns = turns(&o, 10, 30 * ms);
    assert_true(!admits(&o, now_ns - 11 * ms, &unknown));
}

static void short_turns_are_calm(void **state)
{
    (void)state;
    struct overload o;
    uint64_t now_ns = turns(&o, 100, 9 * ms);
    assert_true(admits(&o, now_ns - 500 * ms, &known));
}

static void one_long_turn_is_a_burst(void **state)
{
    (void)state;
    struct overload o;
    uint64_t now_ns = turns(&o, 1, 500 * ms);
    assert_true(admits(&o, now_ns - 500 * ms, &known));
}

static void a_sleep_ends_the_overload(void **state)
{
    (void)state;
    struct overload o;
    uint64_t now_ns = turns(&o, 10, 30 * ms);
    nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
    assert_true(admits(&o, now_ns - 21 * ms, &known));
}

static void the_time_in_which_the_journal_has_no_room_does_not_count(void **state)
{
    (void)state;
    struct overload o;
    uint64_t now_ns = world_monotonic_ns(), begun_ns = now_ns - 1000 * ms;
    overload_init(&o, DELAY_MS, begun_ns);
    overload_turn_end(&o, begun_ns, begun_ns + 30 * ms, false);
    overload_turn_end(&o, begun_ns + 30 * ms, begun_ns + 60 * ms, true);
    overload_turn_end(&o, begun_ns + 60 * ms, now_ns, false);
    assert_true(admits(&o, now_ns - 21 * ms, &known));
}

static void without_a_delay_nothing_is_refused(void **state)
{
    (void)state;
    struct overload o;
    uint64_t now_ns = world_monotonic_ns();
    overload_init(&o, 0, now_ns);
    for (int i = 0; i < 10; i++) overload_turn_end(&o, now_ns - 500 * ms, now_ns, false);
    assert_true(admits(&o, now_ns - 500 * ms, &known));
}

static void the_key_that_takes_most_is_refused_first(void **state)
{
    (void)state;
    struct overload o;
    uint64_t now_ns = turns(&o, 10, 30 * ms);
    for (int i = 0; i < 100; i++) {
        overload_note(&o, &known, 2 * ms);
        overload_note(&o, &other, ms / 2);
        overload_note(&o, &colleague, ms / 2);
    }
    assert_true(!admits(&o, now_ns - 21 * ms, &known));
    assert_true(admits(&o, now_ns - 90 * ms, &other));
    assert_true(admits(&o, now_ns - 90 * ms, &colleague));
    assert_true(!admits(&o, now_ns - 101 * ms, &other));
    assert_true(!admits(&o, now_ns - 11 * ms, &unknown));
}

static void a_tenant_with_many_keys_is_refused_as_one(void **state)
{
    (void)state;
    struct overload o;
    uint64_t now_ns = turns(&o, 10, 30 * ms);
    for (int i = 0; i < 100; i++) {
        overload_note(&o, &known, ms);
        overload_note(&o, &other, ms);
        overload_note(&o, &colleague, ms);
    }
    assert_true(!admits(&o, now_ns - 21 * ms, &known));
    assert_true(!admits(&o, now_ns - 21 * ms, &colleague));
    assert_true(admits(&o, now_ns - 90 * ms, &other));
}

static void none_is_first_where_none_has_more_than_half(void **state)
{
    (void)state;
    struct overload o;
    const struct overload_asker third = {.tenant = 3, .key = 31};
    uint64_t now_ns = turns(&o, 10, 30 * ms);
    for (int i = 0; i < 100; i++) {
        overload_note(&o, &known, ms);
        overload_note(&o, &other, ms);
        overload_note(&o, &third, ms);
    }
    assert_true(!admits(&o, now_ns - 21 * ms, &third));
    assert_true(admits(&o, now_ns - 19 * ms, &third));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_turns_without_a_sleep_are_an_overload),
        cmocka_unit_test(a_credential_that_is_not_known_has_half_of_the_time),
        cmocka_unit_test(short_turns_are_calm),
        cmocka_unit_test(one_long_turn_is_a_burst),
        cmocka_unit_test(a_sleep_ends_the_overload),
        cmocka_unit_test(the_time_in_which_the_journal_has_no_room_does_not_count),
        cmocka_unit_test(without_a_delay_nothing_is_refused),
        cmocka_unit_test(the_key_that_takes_most_is_refused_first),
        cmocka_unit_test(a_tenant_with_many_keys_is_refused_as_one),
        cmocka_unit_test(none_is_first_where_none_has_more_than_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
