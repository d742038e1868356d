/* test_wheel.c - the timer wheel, beside an array that cannot be wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/wheel.h"

enum { TIMERS = 300, STEPS = 40000 };

static const uint64_t now_2026 = 1795255200000;

struct timer {
    struct wheel_entry entry; /* first */
    bool is_set;
    uint64_t deadline_ms;
};

static uint64_t random_next(uint64_t *chance)
{
    *chance ^= *chance << 13, *chance ^= *chance >> 7, *chance ^= *chance << 17;
    return *chance;
}

/* From a millisecond to many years: every level, and beyond the last. */
static uint64_t random_span(uint64_t *chance)
{
    unsigned bits = (unsigned)(random_next(chance) % 42);
    return random_next(chance) & ((UINT64_C(1) << bits) - 1);
}

static uint64_t earliest(const struct timer *timers)
{
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < TIMERS; i++)
        if (timers[i].is_set && timers[i].deadline_ms < first) first = timers[i].deadline_ms;
    return first;
}

static size_t set_count(const struct timer *timers)
{
    size_t count = 0;
    for (size_t i = 0; i < TIMERS; i++) count += timers[i].is_set;
    return count;
}

static void take_due(struct wheel *w, struct timer *timers, uint64_t now_ms)
{
    struct wheel_entry *due;
    while ((due = wheel_due(w, now_ms)) != NULL) {
        struct timer *t = (struct timer *)(void *)due;
        assert_true(t->is_set);
        assert_true(t->deadline_ms <= now_ms);
        assert_true(due->deadline_ms == t->deadline_ms);
        t->is_set = false;
    }
    assert_true(earliest(timers) > now_ms);
}

static void change(struct wheel *w, struct timer *timers, uint64_t now_ms, uint64_t *chance)
{
    struct timer *t = &timers[random_next(chance) % TIMERS];
    t->is_set = random_next(chance) % 4 != 0;
    if (t->is_set) {
        t->deadline_ms = now_ms + random_span(chance);
        wheel_add(w, &t->entry, t->deadline_ms);
    } else {
        wheel_remove(w, &t->entry);
    }
}

/* Every deadline comes when it is reached, none before, none is lost, and no one who sleeps as long
 * as the wheel says oversleeps. */
static void walk(uint64_t seed, uint64_t start_ms, unsigned jump_bits)
{
    static struct timer timers[TIMERS];
    struct wheel w;
    uint64_t chance = seed, now_ms = start_ms;
    memset(timers, 0, sizeof timers);
    wheel_init(&w, now_ms);
    for (int step = 0; step < STEPS; step++) {
        for (unsigned n = (unsigned)(random_next(&chance) % 3); n > 0; n--)
            change(&w, timers, now_ms, &chance);
        uint64_t next_ms = wheel_next_ms(&w);
        if (set_count(timers) == 0) assert_true(next_ms == UINT64_MAX);
        assert_true(next_ms <= earliest(timers));
        if (step % 2 == 0)
            now_ms +=
                random_next(&chance) & ((UINT64_C(1) << random_next(&chance) % jump_bits) - 1);
        else if (next_ms != UINT64_MAX && next_ms > now_ms)
            now_ms = next_ms;
        take_due(&w, timers, now_ms);
    }
    while (wheel_next_ms(&w) != UINT64_MAX) {
        now_ms = wheel_next_ms(&w) > now_ms ? wheel_next_ms(&w) : now_ms;
        take_due(&w, timers, now_ms);
    }
    assert_int_equal(set_count(timers), 0);
}

static void every_deadline_comes_in_time_and_none_early(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        walk(seed * 0x9E3779B97F4A7C15, now_2026, 30);
        walk(seed * 0x9E3779B97F4A7C15, now_2026, 6);
    }
}

static void deadlines_on_both_sides_of_every_carry_are_kept(void **state)
{
    (void)state;
    for (unsigned bits = 6; bits <= 42; bits += 6)
        walk(bits * 77777777777, (UINT64_C(1) << bits) - 3, 5);
}

/* The shards' wheels begin at 0, and the first tick is in this century. */
static void a_wheel_that_began_at_zero_takes_a_leap_of_fifty_years(void **state)
{
    (void)state;
    static struct timer timers[TIMERS];
    struct wheel w;
    memset(timers, 0, sizeof timers);
    wheel_init(&w, 0);
    for (size_t i = 0; i < TIMERS; i++) {
        timers[i] = (struct timer){.is_set = true, .deadline_ms = now_2026 + i * i * i};
        wheel_add(&w, &timers[i].entry, timers[i].deadline_ms);
    }
    take_due(&w, timers, now_2026);
    assert_int_equal(set_count(timers), TIMERS - 1);
    assert_true(wheel_next_ms(&w) > now_2026 && wheel_next_ms(&w) <= now_2026 + 1);
    take_due(&w, timers, now_2026 + UINT64_C(250) * 250 * 250);
    assert_int_equal(set_count(timers), TIMERS - 251);
    take_due(&w, timers, UINT64_MAX / 2);
    assert_int_equal(set_count(timers), 0);
}

static void a_deadline_in_the_past_is_due_at_once(void **state)
{
    (void)state;
    struct wheel w;
    struct wheel_entry e = {0};
    wheel_init(&w, 1000);
    wheel_add(&w, &e, 10);
    assert_true(wheel_next_ms(&w) <= 1000);
    assert_ptr_equal(wheel_due(&w, 1000), &e);
    assert_null(wheel_due(&w, 1000));
    assert_true(wheel_next_ms(&w) == UINT64_MAX);
}

static void an_entry_added_again_is_moved_and_comes_once(void **state)
{
    (void)state;
    struct wheel w;
    struct wheel_entry e = {0};
    wheel_init(&w, 0);
    wheel_add(&w, &e, 10);
    wheel_add(&w, &e, 5000);
    assert_null(wheel_due(&w, 4999));
    wheel_add(&w, &e, 6000);
    assert_null(wheel_due(&w, 5999));
    assert_ptr_equal(wheel_due(&w, 6000), &e);
    assert_null(wheel_due(&w, 100000));
}

static void one_that_is_in_no_wheel_may_be_removed_and_one_that_is_due_too(void **state)
{
    (void)state;
    struct wheel w;
    struct wheel_entry first = {0}, second = {0};
    wheel_init(&w, 0);
    wheel_remove(&w, &first);
    wheel_add(&w, &first, 7);
    wheel_add(&w, &second, 7);
    assert_ptr_equal(wheel_due(&w, 7), &first);
    wheel_remove(&w, &first);
    wheel_remove(&w, &second);
    assert_null(wheel_due(&w, 7));
    assert_true(wheel_next_ms(&w) == UINT64_MAX);
}

static void a_wheel_without_entries_need_not_be_asked_again(void **state)
{
    (void)state;
    struct wheel w;
    struct wheel_entry e = {0}, other = {0};
    wheel_init(&w, 1000);
    for (uint64_t span = 0; span < UINT64_C(1) << 40; span = span * 5 + 1) {
        wheel_add(&w, &e, 1000 + span);
        wheel_add(&w, &other, 1000 + span);
        wheel_remove(&w, &e);
        assert_true(wheel_next_ms(&w) <= 1000 + span);
        wheel_add(&w, &other, 1000);
        assert_true(wheel_next_ms(&w) == 1000);
        wheel_remove(&w, &other);
        assert_true(wheel_next_ms(&w) == UINT64_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_deadline_comes_in_time_and_none_early),
        cmocka_unit_test(deadlines_on_both_sides_of_every_carry_are_kept),
        cmocka_unit_test(a_wheel_that_began_at_zero_takes_a_leap_of_fifty_years),
        cmocka_unit_test(a_deadline_in_the_past_is_due_at_once),
        cmocka_unit_test(an_entry_added_again_is_moved_and_comes_once),
        cmocka_unit_test(one_that_is_in_no_wheel_may_be_removed_and_one_that_is_due_too),
        cmocka_unit_test(a_wheel_without_entries_need_not_be_asked_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
