/* The publisher's thread over a real journal, before a platform that does what platforms do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "metrics/metrics.h"
#include "unit/publish/rig.h"

/* Every record 1 … count is at the platform under its own number. The lock is held. */
static void assert_has_all(const struct fake *k, uint64_t count)
{
    assert_int_equal(k->next_seq, count + 1);
    for (uint64_t seq = 1; seq <= count; seq++) assert_int_equal(strtoull(k->lines[seq], NULL, 10), seq);
}

/* Looks again and again until the publisher is in this state, and gives what it says. */
static struct publish_status wait_for_state(struct rig *r, enum publish_state state)
{
    struct publish_status s;
    time_t until = time(NULL) + PATIENCE_S;
    for (publish_status(r->publisher, &s); s.state != state; publish_status(r->publisher, &s)) {
        if (time(NULL) > until) fail_msg("still %s: %s", publish_state_name(s.state), s.text);
        sched_yield();
    }
    return s;
}

static void durable_records_arrive_in_order_and_once(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    uint64_t batches = metrics_total(METRIC_PUBLISH_BATCHES);
    rig_append(r, 1, 10, 0);
    rig_publish(r);
    FAKE_UNTIL(r->platform, r->platform->next_seq == 11);
    FAKE_DONE(r->platform);
    rig_append(r, 11, 100, 50);
    rig_append(r, 111, 100, 500);
    FAKE_UNTIL(r->platform, r->platform->next_seq == 211);
    assert_has_all(r->platform, 210);
    assert_int_equal(r->platform->stored, 210);
    assert_false(r->platform->out_of_order);
    FAKE_DONE(r->platform);
    assert_true(rig_unpublish(r, 1000));
    assert_true(metrics_total(METRIC_PUBLISH_BATCHES) - batches == r->platform->batches);
    rig_destroy(r);
}

static void a_platform_that_is_away_costs_only_lag(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    r->platform->failing_finds = 2;
    r->platform->failing_sends = 2;
    rig_append(r, 1, 5, 0);
    rig_publish(r);
    FAKE_UNTIL(r->platform, r->platform->finds >= 1);
    FAKE_DONE(r->platform);
    struct publish_status s;
    publish_status(r->publisher, &s);
    assert_int_equal(s.lag_records, 5);
    rig_append(r, 6, 5, 0); /* nothing waits for the platform */
    FAKE_UNTIL(r->platform, r->platform->next_seq == 11);
    assert_has_all(r->platform, 10);
    assert_int_equal(r->platform->stored, 10);
    FAKE_DONE(r->platform);
    assert_true(rig_unpublish(r, 1000));
    rig_destroy(r);
}

static void a_gap_is_filled_from_where_it_begins(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_append(r, 1, 20, 0);
    rig_publish(r);
    FAKE_UNTIL(r->platform, r->platform->next_seq == 21);
    r->platform->wants_from = 4;
    FAKE_DONE(r->platform);
    rig_append(r, 21, 1, 0);
    FAKE_UNTIL(r->platform, r->platform->next_seq == 22);
    assert_has_all(r->platform, 21);
    assert_int_equal(r->platform->stored, 20 + 18);
    assert_false(r->platform->out_of_order);
    FAKE_DONE(r->platform);
    assert_true(rig_unpublish(r, 1000));
    rig_destroy(r);
}

static void a_restored_platform_gets_again_what_it_lost(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_append(r, 1, 20, 0);
    rig_publish(r);
    FAKE_UNTIL(r->platform, r->platform->next_seq == 21);
    r->platform->next_seq = 6; /* a backup from earlier, and it broke the connection */
    r->platform->failing_sends = 1;
    memset(r->platform->lines[6], 0, sizeof r->platform->lines[6] * 15);
    FAKE_DONE(r->platform);
    rig_append(r, 21, 1, 0);
    FAKE_UNTIL(r->platform, r->platform->next_seq == 22);
    assert_has_all(r->platform, 21);
    FAKE_DONE(r->platform);
    assert_true(rig_unpublish(r, 1000));
    rig_destroy(r);
}

static void a_platform_that_has_more_than_the_journal_raises_an_alarm_and_gets_nothing(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_append(r, 1, 5, 0);
    r->platform->next_seq = 100;
    rig_publish(r);
    struct publish_status s = wait_for_state(r, PUBLISH_AHEAD);
    assert_true(publish_state_is_alarm(s.state));
    assert_non_null(strstr(s.text, "went back in time"));
    assert_int_equal(r->platform->sends, 0);
    assert_false(rig_unpublish(r, 0));
    rig_destroy(r);
}

static void a_platform_with_another_history_raises_an_alarm_and_gets_nothing(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_append(r, 1, 5, 0);
    r->platform->next_seq = 3;
    memcpy(r->platform->epoch, "ffffffffffffffff", EPOCH_TEXT);
    rig_publish(r);
    struct publish_status s = wait_for_state(r, PUBLISH_DIVERGED);
    assert_non_null(strstr(s.text, "record 2"));
    assert_int_equal(r->platform->sends, 0);
    rig_unpublish(r, 0);
    rig_destroy(r);
}

static void an_alarm_ends_by_itself_when_its_cause_does(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_append(r, 1, 5, 0);
    r->platform->next_seq = 100;
    rig_publish(r);
    wait_for_state(r, PUBLISH_AHEAD);
    pthread_mutex_lock(&r->platform->lock);
    r->platform->next_seq = 1;
    FAKE_DONE(r->platform);
    FAKE_UNTIL(r->platform, r->platform->next_seq == 6);
    FAKE_DONE(r->platform);
    wait_for_state(r, PUBLISH_SENDING);
    assert_true(rig_unpublish(r, 1000));
    rig_destroy(r);
}

static void a_batch_has_one_epoch(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    char first[EPOCH_TEXT], second[EPOCH_TEXT];
    memcpy(first, journal_epoch(r->journal), EPOCH_TEXT);
    rig_append(r, 1, 7, 0);
    rig_restart(r);
    memcpy(second, journal_epoch(r->journal), EPOCH_TEXT);
    rig_append(r, 8, 7, 0);
    rig_publish(r);
    FAKE_UNTIL(r->platform, r->platform->next_seq == 15);
    for (uint64_t seq = 1; seq <= 14; seq++)
        assert_memory_equal(r->platform->epochs[seq], seq <= 7 ? first : second, EPOCH_TEXT);
    assert_int_equal(r->platform->batches, 2);
    assert_has_all(r->platform, 14);
    FAKE_DONE(r->platform);
    assert_true(rig_unpublish(r, 1000));
    rig_destroy(r);
}

static void publishing_goes_on_over_segments(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_publish(r);
    rig_append(r, 1, 100, 30000); /* 3 MB in segments of 1 MiB */
    FAKE_UNTIL(r->platform, r->platform->next_seq == 101);
    assert_has_all(r->platform, 100);
    assert_false(r->platform->out_of_order);
    FAKE_DONE(r->platform);
    assert_true(rig_unpublish(r, 1000));
    rig_destroy(r);
}

static void batches_that_are_too_large_become_smaller(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    r->platform->takes_bytes = 200000;
    rig_append(r, 1, 20, 30000);
    rig_publish(r);
    FAKE_UNTIL(r->platform, r->platform->next_seq == 21);
    assert_has_all(r->platform, 20);
    assert_int_equal(r->platform->stored, 20);
    FAKE_DONE(r->platform);
    assert_true(rig_unpublish(r, 1000));
    rig_destroy(r);
}

static void clashes_are_counted_and_stop_nothing(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    uint64_t before = metrics_total(METRIC_PUBLISH_CLASHES);
    r->platform->clashes = 2;
    rig_append(r, 1, 3, 0);
    rig_publish(r);
    FAKE_UNTIL(r->platform, r->platform->next_seq == 4);
    FAKE_DONE(r->platform);
    assert_true(rig_unpublish(r, 1000));
    assert_int_equal(metrics_total(METRIC_PUBLISH_CLASHES) - before, 2 * r->platform->batches);
    rig_destroy(r);
}

static void an_answer_that_makes_no_sense_is_not_followed(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    uint64_t before = metrics_total(METRIC_PUBLISH_FAILURES);
    r->platform->answers_next = 2;
    rig_append(r, 1, 3, 0);
    rig_publish(r);
    FAKE_UNTIL(r->platform, r->platform->next_seq == 4 && r->platform->finds >= 2);
    FAKE_DONE(r->platform);
    assert_true(rig_unpublish(r, 1000));
    assert_int_equal(metrics_total(METRIC_PUBLISH_FAILURES) - before, 1);
    rig_destroy(r);
}

static void stopping_publishes_the_rest(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_publish(r);
    rig_append(r, 1, 50, 0);
    assert_true(rig_unpublish(r, 5000));
    assert_has_all(r->platform, 50);
    rig_destroy(r);
}

static uint64_t seconds_to_stop(struct rig *r, uint32_t drain_ms)
{
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    rig_unpublish(r, drain_ms);
    clock_gettime(CLOCK_MONOTONIC, &to);
    return (uint64_t)(to.tv_sec - from.tv_sec);
}

static void stopping_does_not_wait_when_everything_is_confirmed(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    rig_publish(r);
    rig_append(r, 1, 5, 0);
    FAKE_UNTIL(r->platform, r->platform->next_seq == 6);
    FAKE_DONE(r->platform);
    assert_true(seconds_to_stop(r, 60000) < 30);
    rig_destroy(r);
}

static void stopping_does_not_wait_for_what_no_waiting_heals(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    r->platform->next_seq = 100;
    rig_append(r, 1, 5, 0);
    rig_publish(r);
    wait_for_state(r, PUBLISH_AHEAD);
    assert_true(seconds_to_stop(r, 60000) < 30);
    rig_destroy(r);
}

static void stopping_waits_no_longer_than_asked_for_a_platform_that_is_away(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    r->platform->failing_finds = -1;
    rig_publish(r);
    rig_append(r, 1, 5, 0);
    FAKE_UNTIL(r->platform, r->platform->finds >= 1);
    FAKE_DONE(r->platform);
    assert_true(seconds_to_stop(r, 200) <= 10);
    rig_destroy(r);
}

static void stopping_interrupts_a_call_that_hangs(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    r->platform->blocks = true;
    rig_publish(r);
    rig_append(r, 1, 5, 0);
    FAKE_UNTIL(r->platform, r->platform->sends == 1);
    FAKE_DONE(r->platform);
    assert_false(rig_unpublish(r, 50));
    assert_true(r->platform->interrupted >= 1);
    rig_destroy(r);
}

static void an_unknown_publisher_may_be_woken_and_stopped(void **state)
{
    (void)state;
    publish_wake(NULL);
    assert_true(publish_stop(NULL, 100));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durable_records_arrive_in_order_and_once),
        cmocka_unit_test(a_platform_that_is_away_costs_only_lag),
        cmocka_unit_test(a_gap_is_filled_from_where_it_begins),
        cmocka_unit_test(a_restored_platform_gets_again_what_it_lost),
        cmocka_unit_test(a_platform_that_has_more_than_the_journal_raises_an_alarm_and_gets_nothing),
        cmocka_unit_test(a_platform_with_another_history_raises_an_alarm_and_gets_nothing),
        cmocka_unit_test(an_alarm_ends_by_itself_when_its_cause_does),
        cmocka_unit_test(a_batch_has_one_epoch),
        cmocka_unit_test(publishing_goes_on_over_segments),
        cmocka_unit_test(batches_that_are_too_large_become_smaller),
        cmocka_unit_test(clashes_are_counted_and_stop_nothing),
        cmocka_unit_test(an_answer_that_makes_no_sense_is_not_followed),
        cmocka_unit_test(stopping_publishes_the_rest),
        cmocka_unit_test(stopping_does_not_wait_when_everything_is_confirmed),
        cmocka_unit_test(stopping_does_not_wait_for_what_no_waiting_heals),
        cmocka_unit_test(stopping_waits_no_longer_than_asked_for_a_platform_that_is_away),
        cmocka_unit_test(stopping_interrupts_a_call_that_hangs),
        cmocka_unit_test(an_unknown_publisher_may_be_woken_and_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
