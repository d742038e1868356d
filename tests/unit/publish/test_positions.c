/* Where the stream stands after each thing that the platform may say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "pipeline/publish/positions.h"

static struct stream_report report(const char *log_id, uint64_t next_seq, uint64_t want_from)
{
    struct stream_report r = {.known = true, .next_seq = next_seq, .want_from = want_from};
    snprintf(r.log_id, sizeof r.log_id, "%s", log_id);
    memcpy(r.epoch, "0123456789abcdef", EPOCH_TEXT);
    return r;
}

/* A stream in step with log "a", confirmed up to `confirmed`. */
static struct positions in_step_at(uint64_t confirmed)
{
    struct positions p = {0};
    struct stream_report r = report("a", confirmed + 1, confirmed + 1);
    assert_int_equal(positions_found(&p, &r, confirmed + 1000), POSITION_FINE);
    return p;
}

static void a_stream_that_the_platform_never_heard_of_begins_at_one(void **state)
{
    (void)state;
    struct positions p = {0};
    struct stream_report r = {.log_id = "a"};
    assert_int_equal(positions_found(&p, &r, 10), POSITION_FINE);
    assert_int_equal(p.next, 1);
    assert_int_equal(p.confirmed, 0);
}

static void a_known_stream_goes_on_where_the_platform_stands(void **state)
{
    (void)state;
    struct positions p = {0};
    struct stream_report r = report("a", 8, 8);
    assert_int_equal(positions_found(&p, &r, 10), POSITION_FINE);
    assert_int_equal(p.next, 8);
    assert_int_equal(p.confirmed, 7);
}

static void a_platform_that_has_everything_is_not_ahead(void **state)
{
    (void)state;
    struct positions p = {0};
    struct stream_report r = report("a", 11, 11);
    assert_int_equal(positions_found(&p, &r, 10), POSITION_FINE);
    assert_int_equal(p.next, 11);
}

static void a_platform_beyond_the_journals_end_is_ahead_and_moves_nothing(void **state)
{
    (void)state;
    struct positions p = in_step_at(4), before = p;
    struct stream_report r = report("a", 12, 12);
    assert_int_equal(positions_found(&p, &r, 10), POSITION_AHEAD);
    assert_memory_equal(&p, &before, sizeof p);
}

static void a_wanted_replay_begins_where_it_is_wanted(void **state)
{
    (void)state;
    struct positions p = {0};
    struct stream_report r = report("a", 9, 5);
    assert_int_equal(positions_found(&p, &r, 10), POSITION_FINE);
    assert_int_equal(p.next, 5);
    assert_int_equal(p.confirmed, 4);
}

static void a_lower_position_than_was_confirmed_is_a_replay(void **state)
{
    (void)state;
    struct positions p = in_step_at(9);
    struct stream_report r = report("a", 6, 6);
    assert_int_equal(positions_found(&p, &r, 10), POSITION_REPLAY);
    assert_int_equal(p.next, 6);
    assert_int_equal(p.confirmed, 5);
}

static void another_log_id_is_another_database(void **state)
{
    (void)state;
    struct positions p = in_step_at(9);
    struct stream_report r = {.log_id = "b"};
    assert_int_equal(positions_found(&p, &r, 10), POSITION_NEW_LOG);
    assert_int_equal(p.next, 1);
    assert_int_equal(p.confirmed, 0);
    assert_string_equal(p.log_id, "b");
}

static void reports_that_contradict_themselves_move_nothing(void **state)
{
    (void)state;
    const struct stream_report wrong[] = {report("a", 0, 0), report("a", 5, 6), report("a", 5, 0),
                                          report("", 5, 5)};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct positions p = in_step_at(3), before = p;
        assert_int_equal(positions_found(&p, &wrong[i], 10), POSITION_NONSENSE);
        assert_memory_equal(&p, &before, sizeof p);
    }
}

static void an_accepted_batch_moves_past_itself(void **state)
{
    (void)state;
    struct positions p = in_step_at(4);
    assert_int_equal(positions_accepted(&p, 5, 3, 8, 20), POSITION_FINE);
    assert_int_equal(p.next, 8);
    assert_int_equal(p.confirmed, 7);
}

static void an_answer_beyond_the_batch_is_followed(void **state)
{
    (void)state;
    struct positions p = in_step_at(4);
    assert_int_equal(positions_accepted(&p, 5, 3, 12, 20), POSITION_FINE);
    assert_int_equal(p.next, 12);
    assert_int_equal(positions_accepted(&p, 12, 9, 21, 20), POSITION_FINE); /* all that there is */
    assert_int_equal(p.next, 21);
    assert_int_equal(p.confirmed, 20);
}

static void an_answer_within_the_batch_is_nonsense(void **state)
{
    (void)state;
    struct positions p = in_step_at(4), before = p;
    assert_int_equal(positions_accepted(&p, 5, 3, 7, 20), POSITION_NONSENSE);
    assert_int_equal(positions_accepted(&p, 5, 3, 0, 20), POSITION_NONSENSE);
    assert_memory_equal(&p, &before, sizeof p);
}

static void an_answer_beyond_the_journals_end_is_ahead(void **state)
{
    (void)state;
    struct positions p = in_step_at(4), before = p;
    assert_int_equal(positions_accepted(&p, 5, 3, 22, 20), POSITION_AHEAD);
    assert_memory_equal(&p, &before, sizeof p);
}

static void a_gap_goes_back_to_what_is_wanted(void **state)
{
    (void)state;
    struct positions p = in_step_at(9);
    assert_int_equal(positions_gap(&p, 10, 3, 20), POSITION_REPLAY);
    assert_int_equal(p.next, 3);
    assert_int_equal(p.confirmed, 2);
}

static void a_gap_that_wants_what_was_sent_is_nonsense(void **state)
{
    (void)state;
    struct positions p = in_step_at(9), before = p;
    assert_int_equal(positions_gap(&p, 10, 10, 20), POSITION_NONSENSE);
    assert_int_equal(positions_gap(&p, 10, 0, 20), POSITION_NONSENSE);
    assert_int_equal(positions_gap(&p, 10, 30, 20), POSITION_AHEAD);
    assert_memory_equal(&p, &before, sizeof p);
}

/* ---- behind a relay ---- */

static void behind_a_relay_what_is_on_its_way_is_not_sent_again(void **state)
{
    (void)state;
    struct positions p = in_step_at(7);
    p.next = 100;
    struct stream_report r = report("a", 20, 20);
    assert_int_equal(positions_relayed(&p, &r, 200), POSITION_FINE);
    assert_int_equal(p.next, 100);
    assert_int_equal(p.confirmed, 19);
}

static void behind_a_relay_the_first_answer_says_where_to_begin(void **state)
{
    (void)state;
    struct positions p = {0};
    struct stream_report r = report("a", 20, 20);
    r.replay = 5; /* an old request: beginning at the position is all that it asks for */
    assert_int_equal(positions_relayed(&p, &r, 200), POSITION_FINE);
    assert_int_equal(p.next, 20);
    assert_int_equal(p.replay, 5);
}

static void a_replay_is_honoured_once_for_each_request(void **state)
{
    (void)state;
    struct positions p = in_step_at(7);
    p.next = 100;
    struct stream_report r = report("a", 20, 20);
    r.replay = 5;
    assert_int_equal(positions_relayed(&p, &r, 200), POSITION_ASKED);
    assert_int_equal(p.next, 20);
    p.next = 100; /* sent again */
    assert_int_equal(positions_relayed(&p, &r, 200), POSITION_FINE);
    assert_int_equal(p.next, 100);
    r.replay = 0; /* it has what it asked for */
    assert_int_equal(positions_relayed(&p, &r, 200), POSITION_FINE);
    assert_int_equal(p.next, 100);
    r.replay = 6;
    assert_int_equal(positions_relayed(&p, &r, 200), POSITION_ASKED);
    assert_int_equal(p.next, 20);
}

/* What it asked for is no longer kept, and somebody gave it up. */
static void a_platform_that_goes_on_behind_a_gap_is_followed(void **state)
{
    (void)state;
    struct positions p = in_step_at(7);
    struct stream_report r = report("a", 20, 20);
    r.replay = 5;
    p.next = 100;
    assert_int_equal(positions_relayed(&p, &r, 200), POSITION_ASKED);
    assert_int_equal(p.next, 20);
    r = report("a", 60, 60);
    assert_int_equal(positions_relayed(&p, &r, 200), POSITION_FINE);
    assert_int_equal(p.next, 60);
    assert_int_equal(p.confirmed, 59);
    p = in_step_at(20);
    assert_int_equal(positions_found(&p, &r, 200), POSITION_FINE);
    assert_int_equal(p.next, 60);
}

static void behind_a_relay_a_restored_database_reads_again_by_itself(void **state)
{
    (void)state;
    struct positions p = in_step_at(50);
    p.next = 100;
    struct stream_report r = report("a", 20, 20);
    assert_int_equal(positions_relayed(&p, &r, 200), POSITION_REPLAY);
    assert_int_equal(p.next, 100);
    assert_int_equal(p.confirmed, 19);
    r = report("b", 1, 1);
    assert_int_equal(positions_relayed(&p, &r, 200), POSITION_NEW_LOG);
    assert_int_equal(p.next, 100);
    assert_int_equal(p.confirmed, 0);
}

static void behind_a_relay_too_a_platform_beyond_the_end_moves_nothing(void **state)
{
    (void)state;
    struct positions p = in_step_at(7);
    struct stream_report r = report("a", 20, 20);
    r.replay = 9;
    assert_int_equal(positions_relayed(&p, &r, 10), POSITION_AHEAD);
    assert_int_equal(p.confirmed, 7);
    assert_int_equal(p.replay, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_that_the_platform_never_heard_of_begins_at_one),
        cmocka_unit_test(a_known_stream_goes_on_where_the_platform_stands),
        cmocka_unit_test(a_platform_that_has_everything_is_not_ahead),
        cmocka_unit_test(a_platform_beyond_the_journals_end_is_ahead_and_moves_nothing),
        cmocka_unit_test(a_wanted_replay_begins_where_it_is_wanted),
        cmocka_unit_test(a_lower_position_than_was_confirmed_is_a_replay),
        cmocka_unit_test(another_log_id_is_another_database),
        cmocka_unit_test(reports_that_contradict_themselves_move_nothing),
        cmocka_unit_test(an_accepted_batch_moves_past_itself),
        cmocka_unit_test(an_answer_beyond_the_batch_is_followed),
        cmocka_unit_test(an_answer_within_the_batch_is_nonsense),
        cmocka_unit_test(an_answer_beyond_the_journals_end_is_ahead),
        cmocka_unit_test(a_gap_goes_back_to_what_is_wanted),
        cmocka_unit_test(a_gap_that_wants_what_was_sent_is_nonsense),
        cmocka_unit_test(behind_a_relay_what_is_on_its_way_is_not_sent_again),
        cmocka_unit_test(behind_a_relay_the_first_answer_says_where_to_begin),
        cmocka_unit_test(a_replay_is_honoured_once_for_each_request),
        cmocka_unit_test(a_platform_that_goes_on_behind_a_gap_is_followed),
        cmocka_unit_test(behind_a_relay_a_restored_database_reads_again_by_itself),
        cmocka_unit_test(behind_a_relay_too_a_platform_beyond_the_end_moves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
