/* test_peers.c - when a revocation may be answered. */
#include "fleet/peers.h"
#include "support.h"

enum { LEASE_MS = 10000, R = 50 }; /* the revocation's offset */

static void read(struct peers *p, uint8_t engine, uint64_t number, uint64_t applied, bool closed,
                 uint64_t offset, uint64_t now_ms)
{
    struct entry e = heartbeat_of(engine, number, applied, LEASE_MS);
    e.heartbeat.closed = closed;
    e.heartbeat.reaches = engine != 3;
    peers_read(p, &e, applied, offset, now_ms, now_ms);
}

static void each_engine_with_a_heartbeat_before_it_is_waited_for(void **state)
{
    (void)state;
    struct peers p;
    peers_begin(&p, NULL, 0);
    assert_true(peers_settled(&p, R, 1000));
    read(&p, 1, 1, 39, false, 40, 1000);
    read(&p, 2, 1, 39, false, 41, 1000);
    assert_false(peers_settled(&p, R, 1000));
    read(&p, 1, 2, R + 1, false, 52, 1500);
    assert_false(peers_settled(&p, R, 1500));
    read(&p, 2, 2, R, false, 53, 1500); /* all before it, not it */
    assert_false(peers_settled(&p, R, 1500));
    read(&p, 2, 3, R + 1, false, 54, 2000);
    assert_true(peers_settled(&p, R, 2000));
}

static void a_silent_one_is_waited_for_until_its_lease_has_passed(void **state)
{
    (void)state;
    struct peers p;
    peers_begin(&p, NULL, 0);
    read(&p, 1, 1, 39, false, 40, 1000);
    assert_false(peers_settled(&p, R, 1000 + LEASE_MS + LEASE_MS / 100));
    assert_true(peers_settled(&p, R, 1000 + LEASE_MS + LEASE_MS / 100 + 2));
}

static void a_closed_one_and_a_later_one_are_not_waited_for(void **state)
{
    (void)state;
    struct peers p;
    peers_begin(&p, NULL, 0);
    read(&p, 1, 1, 39, false, 40, 1000);
    read(&p, 1, 2, 40, true, 41, 1100);
    read(&p, 2, 1, 45, false, R + 1, 1100); /* it reads its own heartbeat only behind it */
    assert_true(peers_settled(&p, R, 1100));
    read(&p, 1, 3, 41, false, 52, 1200);
    assert_false(peers_settled(&p, R, 1200));
}

static void a_heartbeat_that_comes_late_changes_nothing(void **state)
{
    (void)state;
    struct peers p;
    peers_begin(&p, NULL, 0);
    read(&p, 1, 3, 39, false, 40, 1000);
    read(&p, 1, 2, 38, true, 41, 1100); /* closed, but withdrawn by number 3 */
    assert_false(peers_settled(&p, R, 1100));
}

static void a_saved_table_begins_all_leases_again(void **state)
{
    (void)state;
    struct peers saved, p;
    peers_begin(&saved, NULL, 0);
    read(&saved, 1, 1, 39, false, 40, 1000);
    peers_begin(&p, &saved, 700000); /* another machine's clock */
    assert_false(peers_settled(&p, R, 700000 + LEASE_MS));
    assert_true(peers_settled(&p, R, 700000 + LEASE_MS + LEASE_MS / 100 + 2));
}

static void an_engine_whose_leases_have_passed_is_not_saved(void **state)
{
    (void)state;
    struct peers p, saved;
    peers_begin(&p, NULL, 0);
    read(&p, 1, 1, 39, false, 40, 1000);
    read(&p, 2, 1, 39, false, 41, 5000);
    peers_save(&p, 1000 + LEASE_MS, &saved);
    assert_int_equal(saved.count, 2);
    peers_save(&p, 1000 + LEASE_MS + LEASE_MS / 100 + 2, &saved);
    assert_int_equal(saved.count, 1);
    assert_true(incarnation_equal(&saved.list[0].incarnation, &p.list[1].incarnation));
}

static void what_every_fresh_engine_can_begin_without_may_go(void **state)
{
    (void)state;
    struct peers p;
    struct entry e = heartbeat_of(1, 1, 40, LEASE_MS);
    peers_begin(&p, NULL, 0);
    assert_int_equal(peers_kept(&p, 1000), 0);
    e.heartbeat.kept = 30;
    peers_read(&p, &e, 40, 41, 1000, 1000);
    assert_int_equal(peers_kept(&p, 1000), 0); /* one engine's disk is no copy */
    e = heartbeat_of(2, 1, 40, LEASE_MS);
    e.heartbeat.kept = 20;
    peers_read(&p, &e, 40, 42, 1000, 1000);
    assert_int_equal(peers_kept(&p, 1000), 20);
    e = heartbeat_of(3, 1, 10, LEASE_MS);
    e.heartbeat.kept = 25;
    peers_read(&p, &e, 10, 43, 1000 + PEER_FRESH_MS, 1000 + PEER_FRESH_MS);
    assert_int_equal(peers_kept(&p, 1000 + PEER_FRESH_MS), 10); /* it has not applied more */
    assert_int_equal(peers_kept(&p, 1001 + PEER_FRESH_MS), 0);
}

static void a_former_life_of_an_engine_is_no_second_copy(void **state)
{
    (void)state;
    struct peers p;
    struct entry e = heartbeat_of(1, 1, 40, LEASE_MS), former = heartbeat_of(2, 1, 40, LEASE_MS);
    peers_begin(&p, NULL, 0);
    e.heartbeat.kept = former.heartbeat.kept = 30;
    former.node = e.node;
    peers_read(&p, &former, 40, 41, 1000, 1000);
    peers_read(&p, &e, 40, 42, 1500, 1500);
    assert_int_equal(peers_kept(&p, 1500), 0);
    e = heartbeat_of(3, 1, 40, LEASE_MS);
    e.heartbeat.kept = 30;
    peers_read(&p, &e, 40, 43, 1500, 1500);
    assert_int_equal(peers_kept(&p, 1500), 30);
}

static void what_was_read_late_shows_no_copy_that_is_there_now(void **state)
{
    (void)state;
    struct peers p;
    struct entry e = heartbeat_of(1, 1, 40, LEASE_MS);
    peers_begin(&p, NULL, 0);
    e.heartbeat.kept = 30;
    peers_read(&p, &e, 40, 41, 1000, 9000);
    e = heartbeat_of(2, 1, 40, LEASE_MS);
    e.heartbeat.kept = 30;
    peers_read(&p, &e, 40, 42, 1000 + PEER_FRESH_MS, 9000);
    assert_int_equal(peers_kept(&p, 9000), 30);
    e.heartbeat.number++;
    peers_read(&p, &e, 40, 43, 1001 + PEER_FRESH_MS, 9000);
    assert_int_equal(peers_kept(&p, 9000), 0);
}

static void more_incarnations_than_the_table_holds_are_waited_for_too(void **state)
{
    (void)state;
    struct peers p;
    peers_begin(&p, NULL, 0);
    for (uint8_t i = 0; i < PEERS_MAX; i++) read(&p, (uint8_t)(10 + i), 1, 39, false, 40, 1000);
    read(&p, 200, 1, 39, false, 41, 1500);
    for (uint8_t i = 0; i < PEERS_MAX; i++) read(&p, (uint8_t)(10 + i), 2, R + 1, false, 52, 1600);
    assert_false(peers_settled(&p, R, 1600));
    assert_true(peers_settled(&p, R, 1500 + LEASE_MS + LEASE_MS / 100 + 2));
}

static void most_fresh_peers_decide_whether_the_leader_is_missed(void **state)
{
    (void)state;
    struct peers p;
    struct incarnation leader = incarnation_of(1);
    peers_begin(&p, NULL, 0);
    read(&p, 1, 1, 0, false, 1, 1000);
    read(&p, 3, 1, 0, false, 2, 1000); /* cannot reach it */
    assert_true(peers_miss_leader(&p, &leader, 1000));
    read(&p, 2, 1, 0, false, 3, 1000);
    assert_false(peers_miss_leader(&p, &leader, 1000));
    read(&p, 3, 2, 0, false, 4, 1000 + PEER_FRESH_MS + 1);
    assert_true(peers_miss_leader(&p, &leader, 1000 + PEER_FRESH_MS + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_engine_with_a_heartbeat_before_it_is_waited_for),
        cmocka_unit_test(a_silent_one_is_waited_for_until_its_lease_has_passed),
        cmocka_unit_test(a_closed_one_and_a_later_one_are_not_waited_for),
        cmocka_unit_test(a_heartbeat_that_comes_late_changes_nothing),
        cmocka_unit_test(a_saved_table_begins_all_leases_again),
        cmocka_unit_test(an_engine_whose_leases_have_passed_is_not_saved),
        cmocka_unit_test(what_every_fresh_engine_can_begin_without_may_go),
        cmocka_unit_test(a_former_life_of_an_engine_is_no_second_copy),
        cmocka_unit_test(what_was_read_late_shows_no_copy_that_is_there_now),
        cmocka_unit_test(more_incarnations_than_the_table_holds_are_waited_for_too),
        cmocka_unit_test(most_fresh_peers_decide_whether_the_leader_is_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
