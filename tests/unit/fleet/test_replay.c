/* test_replay.c - which entries count, which are left out, and which end reading. */
#include "support.h"

/* A log in which engine 1 leads term 1 and has appended two entries: offsets 0 to 2. */
static struct log_replay begun(void)
{
    struct log_replay r;
    struct entry entries[] = {term_of(1, 1), records_of(1, 1, 1), records_of(1, 2, 1)};
    log_replay_begin(&r, NULL);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(log_replay_step(&r, &entries[i], i), LOG_COUNTED);
    return r;
}

static void a_greater_term_ends_the_older_leaders_entries(void **state)
{
    (void)state;
    struct log_replay r = begun();
    struct entry term = term_of(2, 2), late = records_of(1, 3, 1), next = records_of(2, 1, 2);
    next.before = (struct entry_point){.term = 1, .n = 2, .digest = digest_of(1, 2, 1)};
    assert_int_equal(log_replay_step(&r, &term, 3), LOG_COUNTED);
    assert_int_equal(log_replay_step(&r, &late, 4), LOG_STALE);
    assert_int_equal(log_replay_step(&r, &next, 5), LOG_COUNTED);
    assert_true(incarnation_equal(&r.leader, &(struct incarnation){{2, 1}}));
    assert_int_equal(r.stale, 1);
}

static void what_is_not_newer_is_stale(void **state)
{
    (void)state;
    struct log_replay r = begun();
    struct entry equal = term_of(1, 2), twice = records_of(1, 2, 1), foreign = records_of(1, 1, 2);
    assert_int_equal(log_replay_step(&r, &equal, 3), LOG_STALE);
    assert_int_equal(log_replay_step(&r, &twice, 4), LOG_STALE);
    assert_int_equal(log_replay_step(&r, &foreign, 5), LOG_STALE);
    assert_true(incarnation_equal(&r.leader, &(struct incarnation){{1, 1}}));
    assert_int_equal(r.last.n, 2);
}

static void each_contradiction_ends_reading_with_its_reason(void **state)
{
    (void)state;
    struct entry gap = records_of(1, 4, 1), other = records_of(1, 3, 1),
                 sender = records_of(1, 3, 2), no_term = records_of(2, 1, 1),
                 cut = heartbeat_of(2, 1, 4, 1000);
    other.previous.bytes[31] = 1;
    const struct {
        const struct entry *e;
        uint64_t offset;
        enum log_end end;
    } rows[] = {
        {&gap, 3, LOG_END_GAP},         {&other, 3, LOG_END_PREVIOUS}, {&sender, 3, LOG_END_SENDER},
        {&no_term, 3, LOG_END_NO_TERM}, {&cut, 3, LOG_END_CUT},        {&gap, 4, LOG_END_OFFSET},
        {NULL, 3, LOG_END_UNREADABLE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct log_replay r = begun();
        struct entry good = records_of(1, 3, 1);
        assert_int_equal(log_replay_step(&r, rows[i].e, rows[i].offset), LOG_ENDED);
        assert_int_equal(r.end, rows[i].end);
        assert_int_equal(r.end_offset, rows[i].offset);
        assert_int_equal(log_replay_step(&r, &good, r.next), LOG_ENDED); /* for good */
        assert_int_equal(r.last.n, 2);
    }
}

static void a_leader_that_counted_another_past_ends_reading(void **state)
{
    (void)state;
    struct log_replay r = begun();
    struct entry term = term_of(2, 2), first = records_of(2, 1, 2);
    first.before = (struct entry_point){.term = 1, .n = 1, .digest = digest_of(1, 1, 1)};
    assert_int_equal(log_replay_step(&r, &term, 3), LOG_COUNTED);
    assert_int_equal(log_replay_step(&r, &first, 4), LOG_ENDED);
    assert_int_equal(r.end, LOG_END_HISTORY);
}

static void the_newest_entry_may_come_again_if_it_is_the_same(void **state)
{
    (void)state;
    struct log_replay r = begun();
    struct entry heartbeat = heartbeat_of(2, 1, 3, 1000), next = records_of(1, 3, 1);
    heartbeat.digest.bytes[31] = 1;
    assert_int_equal(log_replay_step(&r, &heartbeat, 3), LOG_COUNTED);
    assert_int_equal(log_replay_step(&r, &heartbeat, 3), LOG_STALE);
    assert_int_equal(r.next, 4);
    assert_int_equal(log_replay_step(&r, &next, 4), LOG_COUNTED);
    assert_int_equal(log_replay_step(&r, &heartbeat, 4), LOG_ENDED);
    assert_int_equal(r.end, LOG_END_RESUMED);

    r = begun();
    assert_int_equal(log_replay_pass(&r, 3), LOG_STALE);
    assert_int_equal(log_replay_pass(&r, 3), LOG_STALE);
    assert_int_equal(log_replay_step(&r, &heartbeat, 3), LOG_ENDED);
}

static void a_copy_goes_on_at_the_entry_that_it_read_last(void **state)
{
    (void)state;
    struct log_replay saved = begun(), r;
    struct entry heartbeat = heartbeat_of(2, 1, 3, 1000);
    assert_int_equal(log_replay_step(&saved, &heartbeat, 3), LOG_COUNTED);
    struct entry next = records_of(1, 3, 1);
    log_replay_begin(&r, &saved);
    assert_int_equal(r.next, 3);
    assert_int_equal(log_replay_step(&r, &heartbeat, 3), LOG_STALE);
    assert_int_equal(log_replay_step(&r, &next, 4), LOG_COUNTED);

    log_replay_begin(&r, &saved);
    heartbeat.digest.bytes[31] = 1;
    assert_int_equal(log_replay_step(&r, &heartbeat, 3), LOG_ENDED);
    assert_int_equal(r.end, LOG_END_RESUMED);
}

static void the_first_term_names_the_state_with_which_the_fleet_began(void **state)
{
    (void)state;
    struct log_replay seed = {.last.digest = digest_of(0, 0, 9)}, r;
    struct entry term = term_of(1, 1), second = term_of(2, 2);
    log_replay_begin(&r, NULL);
    assert_int_equal(log_replay_step(&r, &term, 0), LOG_COUNTED);
    log_replay_begin(&r, &seed);
    assert_int_equal(log_replay_step(&r, &term, 0), LOG_ENDED);
    assert_int_equal(r.end, LOG_END_SEED);

    term.previous = seed.last.digest;
    log_replay_begin(&r, NULL);
    assert_int_equal(log_replay_step(&r, &term, 0), LOG_ENDED);
    assert_int_equal(r.end, LOG_END_SEED);
    log_replay_begin(&r, &seed);
    assert_int_equal(log_replay_step(&r, &term, 0), LOG_COUNTED);
    assert_int_equal(log_replay_step(&r, &second, 1), LOG_COUNTED); /* only the first one does */
}

static void a_log_that_became_shorter_ends_reading(void **state)
{
    (void)state;
    struct log_replay r = begun();
    assert_true(log_replay_fits(&r, 3));
    assert_false(log_replay_fits(&r, 2));
    assert_int_equal(r.end, LOG_END_OFFSET);
}

static void the_logs_time_is_the_newest_of_what_counts(void **state)
{
    (void)state;
    struct log_replay r = begun();
    struct entry ahead = records_of(1, 3, 1), stale = term_of(1, 2),
                 heartbeat = heartbeat_of(2, 1, 0, 0);
    ahead.time_ms = 500;
    stale.time_ms = heartbeat.time_ms = 900;
    assert_int_equal(log_replay_step(&r, &ahead, 3), LOG_COUNTED);
    assert_int_equal(log_replay_step(&r, &stale, 4), LOG_STALE);
    assert_int_equal(log_replay_step(&r, &heartbeat, 5), LOG_COUNTED);
    assert_int_equal(r.time_ms, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_greater_term_ends_the_older_leaders_entries),
        cmocka_unit_test(what_is_not_newer_is_stale),
        cmocka_unit_test(each_contradiction_ends_reading_with_its_reason),
        cmocka_unit_test(a_leader_that_counted_another_past_ends_reading),
        cmocka_unit_test(the_newest_entry_may_come_again_if_it_is_the_same),
        cmocka_unit_test(a_copy_goes_on_at_the_entry_that_it_read_last),
        cmocka_unit_test(the_first_term_names_the_state_with_which_the_fleet_began),
        cmocka_unit_test(a_log_that_became_shorter_ends_reading),
        cmocka_unit_test(the_logs_time_is_the_newest_of_what_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
