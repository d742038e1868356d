/* test_lane.c - spans wait for their replies, keep their order, and are
 * lost when there is no place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>

#include "pipeline/spans/lane.h"

static struct span_lane lane;

static int set_up(void **state)
{
    (void)state;
    lane_init(&lane);
    lane.sheet = metrics_sheet_create();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lane_fini(&lane);
    return 0;
}

static bool put(uint64_t number, uint32_t barrier_durability, uint64_t barrier_block)
{
    struct span *s = lane_open(&lane);
    if (s == NULL) return false;
    s->begin_ns = number;
    s->barrier_durability = barrier_durability;
    s->barrier_block = barrier_block;
    lane_keep(&lane);
    return true;
}

static void assert_oldest(uint64_t number, uint64_t end_ns)
{
    const struct span *s = lane_peek(&lane);
    assert_non_null(s);
    assert_int_equal(s->begin_ns, number);
    assert_int_equal(s->end_ns, end_ns);
    lane_drop(&lane);
}

static void what_waits_for_nothing_ends_with_the_turn(void **state)
{
    (void)state;
    assert_true(put(1, 0, 0));
    assert_null(lane_peek(&lane)); /* not before its reply has left */
    assert_true(lane_waits(&lane));
    lane_release(&lane, 0, 0, 70);
    assert_false(lane_waits(&lane));
    assert_oldest(1, 70);
    assert_null(lane_peek(&lane));
}

static void a_span_ends_when_its_reply_may_leave(void **state)
{
    (void)state;
    put(1, 2, 5);
    put(2, 1, 5);
    lane_release(&lane, 4, 4, 10);
    assert_null(lane_peek(&lane));
    /* the second is written: it has ended, but keeps its place in the row */
    lane_release(&lane, 5, 4, 20);
    assert_null(lane_peek(&lane));
    lane_release(&lane, 9, 5, 30);
    assert_oldest(1, 30);
    assert_oldest(2, 20);
}

static void an_opened_span_that_is_not_kept_is_nothing(void **state)
{
    (void)state;
    struct span *s = lane_open(&lane);
    s->begin_ns = 9;
    lane_release(&lane, 0, 0, 1);
    assert_null(lane_peek(&lane));
    put(1, 0, 0);
    lane_release(&lane, 0, 0, 2);
    assert_oldest(1, 2);
}

static void a_full_ring_loses_the_new_one_and_counts_it(void **state)
{
    (void)state;
    uint64_t before = metrics_total(METRIC_SPANS_DROPPED_FULL);
    for (uint64_t i = 0; i < LANE_PLACES; i++) assert_true(put(i, 0, 0));
    assert_false(put(4711, 0, 0));
    lane_release(&lane, 0, 0, 1);
    assert_false(put(4711, 0, 0)); /* published is not free */
    assert_int_equal(metrics_total(METRIC_SPANS_DROPPED_FULL) - before, 2);
    assert_oldest(0, 1);
    assert_true(put(LANE_PLACES, 0, 0));
    lane_release(&lane, 0, 0, 2);
    for (uint64_t i = 1; i < LANE_PLACES; i++) assert_oldest(i, 1);
    assert_oldest(LANE_PLACES, 2);
}

static void the_sender_is_woken_once_when_half_of_it_is_taken(void **state)
{
    (void)state;
    for (uint64_t i = 1; i < LANE_PLACES / 2; i++) {
        put(i, 0, 0);
        assert_false(lane_release(&lane, 0, 0, i));
    }
    put(0, 0, 0);
    assert_true(lane_release(&lane, 0, 0, 1));
    put(0, 0, 0);
    assert_false(lane_release(&lane, 0, 0, 1));
}

static void a_text_is_cut_between_characters(void **state)
{
    (void)state;
    char to[8];
    assert_int_equal(span_copy(to, sizeof to, STR("abc")), 3);
    assert_memory_equal(to, "abc", 3);
    assert_int_equal(span_copy(to, 4, STR("ab\xc3\xa4")), 4);
    assert_int_equal(span_copy(to, 3, STR("ab\xc3\xa4")), 2);
    assert_int_equal(span_copy(to, 3, STR("\xf0\x9f\x98\x80")), 0);
    assert_int_equal(span_copy(to, 3, (struct str){0}), 0);
}

enum { MANY = 200000 };

static void *take_all(void *context)
{
    uint64_t *sum = context, last = 0;
    while (last < MANY) {
        const struct span *s = lane_peek(&lane);
        if (s == NULL) {
            sched_yield();
            continue;
        }
        assert_true(s->begin_ns > last);
        assert_int_equal(s->policy_version, s->begin_ns * 3);
        last = s->begin_ns;
        *sum += last;
        lane_drop(&lane);
    }
    return NULL;
}

static void two_threads_lose_nothing_and_keep_the_order(void **state)
{
    (void)state;
    pthread_t thread;
    uint64_t sum = 0;
    assert_int_equal(pthread_create(&thread, NULL, take_all, &sum), 0);
    for (uint64_t i = 1; i <= MANY; i++) {
        struct span *s;
        while ((s = lane_open(&lane)) == NULL) {
            lane_release(&lane, 0, 0, i);
            sched_yield();
        }
        s->begin_ns = i;
        s->policy_version = i * 3;
        lane_keep(&lane);
        if (i % 7 == 0) lane_release(&lane, 0, 0, i);
    }
    lane_release(&lane, 0, 0, 1);
    pthread_join(thread, NULL);
    assert_int_equal(sum, (uint64_t)MANY * (MANY + 1) / 2);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(what_waits_for_nothing_ends_with_the_turn),
        CASE(a_span_ends_when_its_reply_may_leave),
        CASE(an_opened_span_that_is_not_kept_is_nothing),
        CASE(a_full_ring_loses_the_new_one_and_counts_it),
        CASE(the_sender_is_woken_once_when_half_of_it_is_taken),
        CASE(a_text_is_cut_between_characters),
        CASE(two_threads_lose_nothing_and_keep_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
