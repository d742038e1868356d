/* The publisher's thread over a real journal, before a platform that does what platforms do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/world.h"
#include "metrics/metrics.h"
#include "unit/publish/rig.h"

/* Every record 1 … count is at the platform under its own number. The lock is held. */
static void assert_has_all(const struct fake *k, uint64_t count)
{
    assert_int_equal(k->next_seq, count + 1);
    for (uint64_t seq = 1; seq <= count; seq++)
        assert_int_equal(strtoull(k->lines[seq], NULL, 10), seq);
}

static int set_up(void **state)
{
    *state = rig_create();
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    (void)pthread_mutex_unlock(&r->platform->lock); /* a test that failed may hold it */
    (void)rig_unpublish(r, 0);
    rig_destroy(r);
    return 0;
}

static void await_next(struct rig *r, uint64_t seq)
{
    FAKE_UNTIL(r->platform, r->platform->next_seq == seq);
    FAKE_DONE(r->platform);
}

/* Leaves the lock taken. */
static void until_all(struct rig *r, uint64_t count)
{
    FAKE_UNTIL(r->platform, r->platform->next_seq == count + 1);
    assert_has_all(r->platform, count);
}

/* Gives the lock back. */
static void drained(struct rig *r)
{
    FAKE_DONE(r->platform);
    assert_true(rig_unpublish(r, DRAIN_MS));
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
    struct rig *r = *state;
    uint64_t batches = metrics_total(METRIC_PUBLISH_BATCHES);
    rig_append(r, 1, 10, 0);
    rig_publish(r);
    await_next(r, 11);
    rig_append(r, 11, 100, 50);
    rig_append(r, 111, 100, 500);
    until_all(r, 210);
    assert_int_equal(r->platform->stored, 210);
    assert_false(r->platform->out_of_order);
    drained(r);
    assert_true(metrics_total(METRIC_PUBLISH_BATCHES) - batches == r->platform->batches);
}

static void a_platform_that_is_away_costs_only_lag(void **state)
{
    struct rig *r = *state;
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
    until_all(r, 10);
    assert_int_equal(r->platform->stored, 10);
    drained(r);
}

static void a_gap_is_filled_from_where_it_begins(void **state)
{
    struct rig *r = *state;
    rig_append(r, 1, 20, 0);
    rig_publish(r);
    FAKE_UNTIL(r->platform, r->platform->next_seq == 21);
    r->platform->wants_from = 4;
    FAKE_DONE(r->platform);
    rig_append(r, 21, 1, 0);
    until_all(r, 21);
    assert_int_equal(r->platform->stored, 20 + 18);
    assert_false(r->platform->out_of_order);
    drained(r);
}

static void a_restored_platform_gets_again_what_it_lost(void **state)
{
    struct rig *r = *state;
    rig_append(r, 1, 20, 0);
    rig_publish(r);
    FAKE_UNTIL(r->platform, r->platform->next_seq == 21);
    r->platform->next_seq = 6; /* a backup from earlier, and it broke the connection */
    r->platform->failing_sends = 1;
    memset(r->platform->lines[6], 0, sizeof r->platform->lines[6] * 15);
    FAKE_DONE(r->platform);
    rig_append(r, 21, 1, 0);
    until_all(r, 21);
    drained(r);
}

static void a_platform_that_has_more_than_the_journal_raises_an_alarm_and_gets_nothing(void **state)
{
    struct rig *r = *state;
    rig_append(r, 1, 5, 0);
    r->platform->next_seq = 100;
    rig_publish(r);
    struct publish_status s = wait_for_state(r, PUBLISH_AHEAD);
    assert_true(publish_state_is_alarm(s.state));
    assert_non_null(strstr(s.text, "went back in time"));
    assert_non_null(strstr(s.text, "another history has this name"));
    assert_int_equal(r->platform->sends, 0);
    assert_false(rig_unpublish(r, 0));
}

static void a_platform_with_another_history_raises_an_alarm_and_gets_nothing(void **state)
{
    struct rig *r = *state;
    rig_append(r, 1, 5, 0);
    r->platform->next_seq = 3;
    memcpy(r->platform->epoch, "ffffffffffffffff", EPOCH_TEXT);
    rig_publish(r);
    struct publish_status s = wait_for_state(r, PUBLISH_DIVERGED);
    assert_non_null(strstr(s.text, "record 2"));
    assert_int_equal(r->platform->sends, 0);
}

static void an_alarm_ends_by_itself_when_its_cause_does(void **state)
{
    struct rig *r = *state;
    r->poll_ms = QUICK_POLL_MS;
    rig_append(r, 1, 5, 0);
    r->platform->next_seq = 100;
    rig_publish(r);
    wait_for_state(r, PUBLISH_AHEAD);
    pthread_mutex_lock(&r->platform->lock);
    r->platform->next_seq = 1;
    FAKE_DONE(r->platform);
    await_next(r, 6);
    wait_for_state(r, PUBLISH_SENDING);
    assert_true(rig_unpublish(r, DRAIN_MS));
}

static void a_batch_has_one_epoch(void **state)
{
    struct rig *r = *state;
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
    drained(r);
}

static void publishing_goes_on_over_segments(void **state)
{
    struct rig *r = *state;
    rig_publish(r);
    rig_append(r, 1, 100, 30000); /* 3 MB in segments of 1 MiB */
    until_all(r, 100);
    assert_false(r->platform->out_of_order);
    drained(r);
}

/* What it asks for every few seconds is the same each time: the alarm is not over in between. */
static void a_platform_that_wants_what_is_not_kept_raises_one_alarm(void **state)
{
    struct rig *r = *state;
    r->poll_ms = QUICK_POLL_MS;
    struct journal_totals kept;
    rig_publish(r);
    rig_append(r, 1, 100, 30000);
    await_next(r, 101);
    time_t until = time(NULL) + PATIENCE_S;
    for (journal_totals(r->journal, &kept); kept.oldest_seq == 1;
         journal_totals(r->journal, &kept)) {
        assert_true(time(NULL) < until);
        sched_yield();
    }
    FAKE_UNTIL(r->platform, true);
    r->platform->next_seq = 1; /* an old backup */
    FAKE_DONE(r->platform);
    struct publish_status s = wait_for_state(r, PUBLISH_GAP);
    assert_non_null(strstr(s.text, "no longer kept"));
    char advice[160]; /* with which what is lost can be given up */
    journal_totals(r->journal, &kept);
    snprintf(advice, sizeof advice,
             "writ audit accept-gap --node n1 --from-seq 1 --next-seq %llu --epoch %.16s",
             (unsigned long long)kept.oldest_seq, journal_epoch(r->journal));
    assert_non_null(strstr(s.text, advice));
    until = time(NULL) + PATIENCE_S;
    for (; s.failures_in_a_row < 2; publish_status(r->publisher, &s)) {
        assert_true(time(NULL) < until);
        sched_yield();
    }
    assert_int_equal(s.state, PUBLISH_GAP);
    assert_false(rig_unpublish(r, 0));
}

static void batches_that_are_too_large_become_smaller(void **state)
{
    struct rig *r = *state;
    r->platform->takes_bytes = 200000;
    rig_append(r, 1, 20, 30000);
    rig_publish(r);
    until_all(r, 20);
    assert_int_equal(r->platform->stored, 20);
    /* and no smaller than they need be: each takes more than two */
    assert_true(r->platform->batches < 10);
    drained(r);
}

static void a_slow_network_gets_smaller_batches_until_it_is_quick_again(void **state)
{
    struct rig *r = *state;
    r->platform->in_time_bytes = 40000;
    rig_append(r, 1, 20, 30000);
    rig_publish(r);
    until_all(r, 20);
    assert_true(r->platform->largest <= 40000);
    r->platform->in_time_bytes = 0;
    FAKE_DONE(r->platform);
    rig_append(r, 21, 200, 30000);
    until_all(r, 220);
    assert_true(r->platform->largest > 100000);
    drained(r);
}

/* A full disk there: positions are read as ever, and nothing can be stored. */
static void a_platform_that_tells_positions_and_takes_nothing_is_not_well(void **state)
{
    struct rig *r = *state;
    r->platform->failing_sends = -1;
    rig_append(r, 1, 5, 0);
    rig_publish(r);
    FAKE_UNTIL(r->platform, r->platform->sends >= 4 && r->platform->finds >= 4);
    struct publish_status s;
    publish_status(r->publisher, &s);
    assert_true(s.failures_in_a_row >= 3);
    assert_non_null(strstr(s.text, "the platform is away"));
    r->platform->failing_sends = 0;
    FAKE_DONE(r->platform);
    await_next(r, 6);
    time_t until = time(NULL) + PATIENCE_S;
    for (publish_status(r->publisher, &s); s.text[0] != '\0'; publish_status(r->publisher, &s)) {
        assert_true(time(NULL) < until);
        sched_yield();
    }
    assert_int_equal(s.failures_in_a_row, 0);
    assert_true(rig_unpublish(r, DRAIN_MS));
}

static void clashes_are_counted_and_stop_nothing(void **state)
{
    struct rig *r = *state;
    uint64_t before = metrics_total(METRIC_PUBLISH_CLASHES);
    r->platform->clashes = 2;
    rig_append(r, 1, 3, 0);
    rig_publish(r);
    FAKE_UNTIL(r->platform, r->platform->next_seq == 4);
    drained(r);
    assert_int_equal(metrics_total(METRIC_PUBLISH_CLASHES) - before, 2 * r->platform->batches);
}

static void an_answer_that_makes_no_sense_is_not_followed(void **state)
{
    struct rig *r = *state;
    uint64_t before = metrics_total(METRIC_PUBLISH_FAILURES);
    r->platform->answers_next = 2;
    rig_append(r, 1, 3, 0);
    rig_publish(r);
    FAKE_UNTIL(r->platform, r->platform->next_seq == 4 && r->platform->finds >= 2);
    drained(r);
    assert_int_equal(metrics_total(METRIC_PUBLISH_FAILURES) - before, 1);
}

static void stopping_publishes_the_rest(void **state)
{
    struct rig *r = *state;
    rig_publish(r);
    rig_append(r, 1, 50, 0);
    assert_true(rig_unpublish(r, DRAIN_MS));
    assert_has_all(r->platform, 50);
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
    struct rig *r = *state;
    rig_publish(r);
    rig_append(r, 1, 5, 0);
    await_next(r, 6);
    assert_true(seconds_to_stop(r, DRAIN_MS) < DRAIN_MS / 2000);
}

static void stopping_does_not_wait_for_what_no_waiting_heals(void **state)
{
    struct rig *r = *state;
    r->platform->next_seq = 100;
    rig_append(r, 1, 5, 0);
    rig_publish(r);
    wait_for_state(r, PUBLISH_AHEAD);
    assert_true(seconds_to_stop(r, DRAIN_MS) < DRAIN_MS / 2000);
}

static void stopping_waits_no_longer_than_asked_for_a_platform_that_is_away(void **state)
{
    struct rig *r = *state;
    r->platform->failing_finds = -1;
    rig_publish(r);
    rig_append(r, 1, 5, 0);
    FAKE_UNTIL(r->platform, r->platform->finds >= 1);
    FAKE_DONE(r->platform);
    assert_true(seconds_to_stop(r, 200) < DRAIN_MS / 2000);
}

static void stopping_interrupts_a_call_that_hangs(void **state)
{
    struct rig *r = *state;
    r->platform->blocks = true;
    rig_publish(r);
    rig_append(r, 1, 5, 0);
    FAKE_UNTIL(r->platform, r->platform->sends == 1);
    FAKE_DONE(r->platform);
    assert_false(rig_unpublish(r, 50));
    assert_true(r->platform->interrupted >= 1);
}

static void an_unknown_publisher_may_be_woken_and_stopped(void **state)
{
    (void)state;
    publish_wake(NULL);
    assert_true(publish_stop(NULL, 100));
}

/* ---- behind a relay ---- */

static struct relay { /* takes everything, and delivers it when told; under the platform's lock */
    struct transport door;
    struct fake *platform;
    uint64_t delivered, end, first_sent, sends, replay;
    uint32_t hangs_ms; /* each find, before it fails */
    bool fails;        /* the next settle: what is not delivered is lost */
    bool misfit;
} y; /* the test's own; relay_publish() makes it anew */

static enum err relay_find(void *state, struct stream_report *ret, struct fault *f)
{
    (void)state;
    pthread_mutex_lock(&y.platform->lock);
    struct timespec hang = {.tv_nsec = y.hangs_ms * 1000000L};
    pthread_mutex_unlock(&y.platform->lock);
    nanosleep(&hang, NULL);
    enum err e = fake_find(y.platform, ret, f);
    pthread_mutex_lock(&y.platform->lock);
    ret->replay = y.replay;
    pthread_mutex_unlock(&y.platform->lock);
    return e;
}

static enum sent relay_send(void *state, const struct batch *b, struct send_answer *ret,
                            struct fault *f)
{
    (void)state;
    pthread_mutex_lock(&y.platform->lock);
    enum sent answer = SENT_QUEUED;
    if (y.misfit) { /* which a relay has to look for */
        pthread_mutex_unlock(&y.platform->lock);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        pthread_mutex_lock(&y.platform->lock);
        (void)fault_set(f, ERR_BAD_VALUE, "", "three partitions, not four");
        answer = SENT_MISFIT;
    } else {
        /* begins, or goes back */
        if (b->first_seq < y.end || y.sends == 0) y.first_sent = b->first_seq;
        if (b->first_seq < y.end) y.delivered = b->first_seq;
        y.end = ret->next_seq = b->first_seq + b->count;
    }
    y.sends++;
    pthread_cond_broadcast(&y.platform->changed);
    pthread_mutex_unlock(&y.platform->lock);
    return answer;
}

static enum err relay_settle(void *state, uint32_t ms, struct relay_report *ret, struct fault *f)
{
    (void)state;
    enum err e = ERR_OK;
    if (ms > 0) sched_yield();
    pthread_mutex_lock(&y.platform->lock);
    if (y.fails) {
        y.fails = false;
        y.end = y.delivered;
        e = fault_set(f, ERR_UPSTREAM_FAILED, "", "the client gave up");
    }
    *ret = (struct relay_report){.delivered = y.delivered, .under_way = y.end - y.delivered};
    pthread_mutex_unlock(&y.platform->lock);
    return e;
}

static void relay_interrupt(void *state)
{
    (void)state;
    fake_interrupt(y.platform);
}

/* With the test's own `y`. */
static void relay_publish_as_is(struct rig *r)
{
    y.platform = r->platform;
    y.door =
        (struct transport){&y, relay_find, relay_send, relay_interrupt, fake_destroy, relay_settle};
    struct publish_options options = {
        .journal = r->journal, .node = "n1", .transport = &y.door, .poll_ms = r->poll_ms};
    struct publisher *p;
    struct fault f;
    if (publish_start(&options, &p, &f) != ERR_OK) abort();
    pthread_mutex_lock(&r->lock);
    r->publisher = p;
    pthread_mutex_unlock(&r->lock);
}

static void relay_publish(struct rig *r)
{
    y = (struct relay){.delivered = 1, .end = 1};
    relay_publish_as_is(r);
}

/* The relay has taken so many records, and delivered none. Leaves the lock taken. */
static void until_relayed(struct rig *r, unsigned count)
{
    rig_append(r, 1, count, 0);
    relay_publish(r);
    FAKE_UNTIL(r->platform, y.end == count + 1);
}

static void wait_confirmed(struct rig *r, uint64_t seq)
{
    struct publish_status s;
    time_t until = time(NULL) + PATIENCE_S;
    for (publish_status(r->publisher, &s); s.confirmed_seq != seq;
         publish_status(r->publisher, &s)) {
        if (time(NULL) > until)
            fail_msg("confirmed %llu: %s", (unsigned long long)s.confirmed_seq, s.text);
        sched_yield();
    }
}

static void behind_a_relay_only_the_platform_confirms(void **state)
{
    struct rig *r = *state;
    until_relayed(r, 20);
    y.delivered = 21;
    uint64_t finds = r->platform->finds;
    FAKE_DONE(r->platform);
    /* asked again and again, and still nothing */
    FAKE_UNTIL(r->platform, r->platform->finds >= finds + 2);
    FAKE_DONE(r->platform);
    struct publish_status s;
    publish_status(r->publisher, &s);
    assert_int_equal(s.confirmed_seq, 0);
    assert_int_equal(s.lag_records, 20);
    pthread_mutex_lock(&r->platform->lock);
    memcpy(r->platform->epoch, journal_epoch(r->journal), EPOCH_TEXT);
    r->platform->next_seq = 21;
    pthread_mutex_unlock(&r->platform->lock);
    wait_confirmed(r, 20);
    assert_int_equal(y.sends, 1);
    assert_true(rig_unpublish(r, DRAIN_MS));
}

static void a_replay_goes_back_once_for_each_request(void **state)
{
    struct rig *r = *state;
    until_relayed(r, 20);
    y.delivered = 21;
    memcpy(r->platform->epoch, journal_epoch(r->journal), EPOCH_TEXT);
    r->platform->next_seq = 8;
    y.replay = 77;
    FAKE_DONE(r->platform);
    FAKE_UNTIL(r->platform, y.sends == 2 && y.end == 21);
    assert_int_equal(y.first_sent, 8);
    y.delivered = 21;
    uint64_t finds = r->platform->finds;
    FAKE_DONE(r->platform);
    FAKE_UNTIL(r->platform, r->platform->finds >= finds + 2);
    assert_int_equal(y.sends, 2);
    drained(r);
}

/* Its position is no lower than it was, and no higher than what was sent. */
static void behind_a_relay_records_of_another_history_raise_an_alarm(void **state)
{
    struct rig *r = *state;
    until_relayed(r, 20);
    y.delivered = 21;
    memcpy(r->platform->epoch, journal_epoch(r->journal), EPOCH_TEXT);
    r->platform->next_seq = 11;
    FAKE_DONE(r->platform);
    wait_confirmed(r, 10);
    pthread_mutex_lock(&r->platform->lock);
    memcpy(r->platform->epoch, "ffffffffffffffff", EPOCH_TEXT);
    r->platform->next_seq = 15;
    pthread_mutex_unlock(&r->platform->lock);
    struct publish_status s = wait_for_state(r, PUBLISH_DIVERGED);
    assert_non_null(strstr(s.text, "record 14"));
    assert_int_equal(s.confirmed_seq, 10);
}

/* Ten records of this epoch, and ten of the next one. */
static void two_epochs(struct rig *r, char first[EPOCH_TEXT], char second[EPOCH_TEXT])
{
    rig_append(r, 1, 10, 0);
    memcpy(first, journal_epoch(r->journal), EPOCH_TEXT);
    rig_restart(r);
    memcpy(second, journal_epoch(r->journal), EPOCH_TEXT);
    rig_append(r, 11, 10, 0);
}

static void platform_stands(struct rig *r, uint64_t seq, const char epoch[EPOCH_TEXT])
{
    pthread_mutex_lock(&r->platform->lock);
    memcpy(r->platform->epoch, epoch, EPOCH_TEXT);
    r->platform->next_seq = seq + 1;
    pthread_mutex_unlock(&r->platform->lock);
}

/* A copy of this machine has gone on with the epoch that ended here. */
static void behind_a_relay_an_epoch_that_goes_on_elsewhere_raises_an_alarm(void **state)
{
    struct rig *r = *state;
    char first[EPOCH_TEXT], second[EPOCH_TEXT];
    two_epochs(r, first, second);
    platform_stands(r, 10, first);
    relay_publish(r);
    FAKE_UNTIL(r->platform, y.end == 21);
    y.delivered = 21;
    FAKE_DONE(r->platform);
    wait_confirmed(r, 10);
    platform_stands(r, 14, first);
    struct publish_status s = wait_for_state(r, PUBLISH_DIVERGED);
    assert_non_null(strstr(s.text, "record 14"));
    assert_int_equal(s.confirmed_seq, 10);
}

static void a_newer_epoch_than_a_record_has_here_raises_an_alarm(void **state)
{
    struct rig *r = *state;
    char first[EPOCH_TEXT], second[EPOCH_TEXT];
    two_epochs(r, first, second);
    platform_stands(r, 5, second);
    rig_publish(r);
    struct publish_status s = wait_for_state(r, PUBLISH_DIVERGED);
    assert_non_null(strstr(s.text, "record 5"));
    assert_int_equal(r->platform->sends, 0);
}

/* It was compared further on, and found to be ours. */
static void a_platform_that_went_back_is_compared_again(void **state)
{
    struct rig *r = *state;
    char first[EPOCH_TEXT], second[EPOCH_TEXT];
    two_epochs(r, first, second);
    platform_stands(r, 15, second);
    relay_publish(r);
    wait_confirmed(r, 15);
    platform_stands(r, 18, second);
    wait_confirmed(r, 18);
    platform_stands(r, 5, second);
    struct publish_status s = wait_for_state(r, PUBLISH_DIVERGED);
    assert_non_null(strstr(s.text, "record 5"));
}

static void what_a_relay_lost_is_sent_again_from_what_it_delivered(void **state)
{
    struct rig *r = *state;
    until_relayed(r, 20);
    y.delivered = 6;
    y.fails = true;
    y.sends = 0;
    FAKE_DONE(r->platform);
    FAKE_UNTIL(r->platform, y.sends == 1 && y.end == 21);
    assert_int_equal(y.first_sent, 6);
    FAKE_DONE(r->platform);
}

/* A broker that allows no client fails it before its first record. */
static void a_relay_that_fails_before_its_first_record_starts_where_the_platform_is(void **state)
{
    struct rig *r = *state;
    rig_append(r, 1, 20, 0);
    platform_stands(r, 15, journal_epoch(r->journal));
    y = (struct relay){.fails = true};
    relay_publish_as_is(r);
    FAKE_UNTIL(r->platform, y.sends == 1 && y.end == 21);
    assert_false(y.fails);
    assert_int_equal(y.first_sent, 16);
    FAKE_DONE(r->platform);
}

/* Five records went to the relay, and then the platform fails each question, after so long. How
 * many it was asked by then. */
static uint64_t begin_without_platform(struct rig *r, uint32_t hangs_ms)
{
    until_relayed(r, 5);
    r->platform->failing_finds = -1;
    y.hangs_ms = hangs_ms;
    uint64_t finds = r->platform->finds;
    FAKE_DONE(r->platform);
    return finds;
}

static void a_platform_that_is_away_does_not_hold_up_the_relay(void **state)
{
    struct rig *r = *state;
    uint64_t finds = begin_without_platform(r, 0);
    FAKE_UNTIL(r->platform, r->platform->finds > finds + 1);
    FAKE_DONE(r->platform);
    rig_append(r, 6, 20, 0);
    FAKE_UNTIL(r->platform, y.end == 26);
    y.delivered = 26;
    FAKE_DONE(r->platform);
    assert_true(rig_unpublish(r, DRAIN_MS)); /* what the relay keeps safe need not be waited for */
}

/* The two rests between three questions that hang 100 ms each are at least twice as long. */
static void a_platform_that_hangs_takes_a_third_of_the_relays_time(void **state)
{
    struct rig *r = *state;
    uint64_t finds = begin_without_platform(r, 100);
    FAKE_UNTIL(r->platform, r->platform->finds > finds);
    FAKE_DONE(r->platform);
    uint64_t begun = world_monotonic_ns();
    rig_append(r, 6, 1, 0); /* that goes to the relay meanwhile, and hurries no question */
    FAKE_UNTIL(r->platform, y.end == 7);
    FAKE_DONE(r->platform);
    FAKE_UNTIL(r->platform, r->platform->finds > finds + 2);
    FAKE_DONE(r->platform);
    assert_true(world_monotonic_ns() - begun >= 2 * 2 * 100 * 1000000ull);
}

/* Brokers that are away: the platform answers as ever, and has nothing to do with it. */
static void a_relay_that_delivers_nothing_is_not_well(void **state)
{
    struct rig *r = *state;
    relay_publish(r);
    rig_append(r, 1, 5, 0);
    FAKE_UNTIL(r->platform, y.end == 6);
    uint64_t finds = r->platform->finds;
    FAKE_DONE(r->platform);
    FAKE_UNTIL(r->platform, r->platform->finds >= finds + 5);
    FAKE_DONE(r->platform);
    struct publish_status s;
    publish_status(r->publisher, &s);
    assert_true(s.silent_ms >= 3 * PUBLISH_RELAY_POLL_MS);
    FAKE_UNTIL(r->platform, true);
    memcpy(r->platform->epoch, journal_epoch(r->journal), EPOCH_TEXT);
    y.delivered = r->platform->next_seq = 6;
    FAKE_DONE(r->platform);
    wait_confirmed(r, 5);
    time_t until = time(NULL) + PATIENCE_S;
    do { /* it is heard of again and again */
        assert_true(time(NULL) < until);
        publish_status(r->publisher, &s);
    } while (s.silent_ms >= 3 * PUBLISH_RELAY_POLL_MS);
    assert_true(rig_unpublish(r, DRAIN_MS));
}

static void a_relay_that_is_not_what_it_should_be_is_an_alarm(void **state)
{
    struct rig *r = *state;
    relay_publish(r);
    pthread_mutex_lock(&r->platform->lock);
    y.misfit = true;
    pthread_mutex_unlock(&r->platform->lock);
    rig_append(r, 1, 5, 0);
    struct publish_status s = wait_for_state(r, PUBLISH_MISFIT);
    assert_true(publish_state_is_alarm(s.state));
    assert_non_null(strstr(s.text, "three partitions"));
}

/* The platform's positions, which are asked for before each try, are no news about the relay. */
static void an_alarm_about_the_relay_stays_until_it_takes_records(void **state)
{
    struct rig *r = *state;
    r->poll_ms = QUICK_POLL_MS;
    relay_publish(r);
    pthread_mutex_lock(&r->platform->lock);
    y.misfit = true;
    pthread_mutex_unlock(&r->platform->lock);
    rig_append(r, 1, 5, 0);
    struct publish_status s = wait_for_state(r, PUBLISH_MISFIT);
    for (uint64_t sends = 0; sends < 2;) { /* one more try, to its end */
        publish_status(r->publisher, &s);
        assert_int_equal(s.state, PUBLISH_MISFIT);
        assert_non_null(strstr(s.text, "three partitions"));
        pthread_mutex_lock(&r->platform->lock);
        sends = y.sends;
        y.misfit = sends < 2;
        pthread_mutex_unlock(&r->platform->lock);
        sched_yield();
    }
    s = wait_for_state(r, PUBLISH_SENDING);
    assert_int_equal(s.failures_in_a_row, 0);
    assert_null(strstr(s.text, "three partitions"));
    assert_int_equal(y.end, 6);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(durable_records_arrive_in_order_and_once),
        TEST(a_platform_that_is_away_costs_only_lag),
        TEST(a_gap_is_filled_from_where_it_begins),
        TEST(a_restored_platform_gets_again_what_it_lost),
        TEST(a_platform_that_has_more_than_the_journal_raises_an_alarm_and_gets_nothing),
        TEST(a_platform_with_another_history_raises_an_alarm_and_gets_nothing),
        TEST(an_alarm_ends_by_itself_when_its_cause_does),
        TEST(a_batch_has_one_epoch),
        TEST(publishing_goes_on_over_segments),
        TEST(a_platform_that_wants_what_is_not_kept_raises_one_alarm),
        TEST(batches_that_are_too_large_become_smaller),
        TEST(a_slow_network_gets_smaller_batches_until_it_is_quick_again),
        TEST(a_platform_that_tells_positions_and_takes_nothing_is_not_well),
        TEST(clashes_are_counted_and_stop_nothing),
        TEST(an_answer_that_makes_no_sense_is_not_followed),
        TEST(stopping_publishes_the_rest),
        TEST(stopping_does_not_wait_when_everything_is_confirmed),
        TEST(stopping_does_not_wait_for_what_no_waiting_heals),
        TEST(stopping_waits_no_longer_than_asked_for_a_platform_that_is_away),
        TEST(stopping_interrupts_a_call_that_hangs),
        TEST(an_unknown_publisher_may_be_woken_and_stopped),
        TEST(behind_a_relay_only_the_platform_confirms),
        TEST(a_replay_goes_back_once_for_each_request),
        TEST(behind_a_relay_records_of_another_history_raise_an_alarm),
        TEST(behind_a_relay_an_epoch_that_goes_on_elsewhere_raises_an_alarm),
        TEST(a_newer_epoch_than_a_record_has_here_raises_an_alarm),
        TEST(a_platform_that_went_back_is_compared_again),
        TEST(what_a_relay_lost_is_sent_again_from_what_it_delivered),
        TEST(a_relay_that_fails_before_its_first_record_starts_where_the_platform_is),
        TEST(a_platform_that_is_away_does_not_hold_up_the_relay),
        TEST(a_platform_that_hangs_takes_a_third_of_the_relays_time),
        TEST(a_relay_that_delivers_nothing_is_not_well),
        TEST(a_relay_that_is_not_what_it_should_be_is_an_alarm),
        TEST(an_alarm_about_the_relay_stays_until_it_takes_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
