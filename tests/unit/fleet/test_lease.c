/* test_lease.c - until when agents are let in. */
#include "fleet/lease.h"
#include "support.h"

enum { LEASE_MS = 3000 };

/* Sends heartbeat `number` at this moment. */
static void send(struct lease *l, uint64_t now_ms, bool closed)
{
    lease_send(l, now_ms, 1000 + l->number + 1, LEASE_MS, closed);
}

/* Reads it back, appended when it was sent, and has it passed by all reactors. */
static void read_back(struct lease *l, uint64_t number, uint64_t now_ms)
{
    struct entry e = heartbeat_of(1, number, 0, LEASE_MS);
    uint64_t sent_ms, offset = number * 10;
    assert_true(lease_read_back(l, &e, offset, now_ms, now_ms, &sent_ms));
    lease_applied(l, offset + 1);
}

static void the_horizon_is_when_it_was_sent_not_when_it_was_read(void **state)
{
    (void)state;
    struct lease l = {0};
    send(&l, 1000, false);
    assert_false(lease_admits(&l, 1000));
    read_back(&l, 1, 1900);
    assert_true(lease_admits(&l, 1000 + LEASE_MS));
    assert_false(lease_admits(&l, 1001 + LEASE_MS));
}

static void it_counts_only_when_all_reactors_have_passed_it(void **state)
{
    (void)state;
    struct lease l = {0};
    struct entry e = heartbeat_of(1, 1, 0, LEASE_MS);
    uint64_t sent_ms;
    send(&l, 1000, false);
    assert_true(lease_read_back(&l, &e, 10, 1000, 1100, &sent_ms));
    assert_int_equal(sent_ms, 1000);
    lease_applied(&l, 10);
    assert_false(lease_admits(&l, 1200));
    lease_applied(&l, 11);
    assert_true(lease_admits(&l, 1200));
}

static void the_lease_is_that_of_the_heartbeat(void **state)
{
    (void)state;
    struct lease l = {0};
    send(&l, 1000, false);
    read_back(&l, 1, 1100);
    lease_send(&l, 1500, 77, LEASE_MS * 10, false); /* the option was raised; not read back yet */
    assert_false(lease_admits(&l, 1001 + LEASE_MS));
}

static void a_closed_heartbeat_ends_it_until_a_later_open_one_is_read(void **state)
{
    (void)state;
    struct lease l = {0};
    send(&l, 1000, false);
    send(&l, 1500, false);
    read_back(&l, 1, 1600);
    send(&l, 2000, true);
    assert_false(lease_admits(&l, 2000));
    read_back(&l, 2, 2100); /* open, but sent before the closed one */
    assert_false(lease_admits(&l, 2100));
    read_back(&l, 3, 2200);
    send(&l, 2500, false);
    assert_false(lease_admits(&l, 2500));
    read_back(&l, 4, 2600);
    assert_true(lease_admits(&l, 2600));
}

static void who_writes_and_cannot_read_stays_closed(void **state)
{
    (void)state;
    struct lease l = {0};
    assert_true(lease_must_close(&l, 1000));
    send(&l, 1000, true);
    assert_true(lease_must_close(&l, 1500));
    read_back(&l, 1, 1600);
    assert_false(lease_must_close(&l, 1700));
    assert_true(lease_must_close(&l, 1601 + LEASE_READ_LATELY_MS));
    send(&l, 2000, false);
    read_back(&l, 2, 2100);
    assert_false(lease_must_close(&l, 2000 + LEASE_MS));
    assert_true(lease_must_close(&l, 2001 + LEASE_MS));
}

static void a_heartbeat_that_was_never_sent_is_seen(void **state)
{
    (void)state;
    struct lease l = {0};
    struct entry e = heartbeat_of(1, 2, 0, LEASE_MS), old = heartbeat_of(1, 1, 0, LEASE_MS);
    uint64_t sent_ms;
    send(&l, 1000, false);
    assert_false(lease_read_back(&l, &e, 10, 1000, 1100, &sent_ms));
    for (int i = 0; i < LEASE_SENT; i++) send(&l, 1001, false);
    assert_true(lease_read_back(&l, &old, 11, 1000, 1100, &sent_ms)); /* too old to be remembered */
    assert_int_equal(sent_ms, 0);
}

static void a_boot_clock_that_stood_still_ends_it(void **state)
{
    (void)state;
    struct lease l = {0};
    struct entry first = heartbeat_of(1, 1, 0, LEASE_MS), second = heartbeat_of(1, 2, 0, LEASE_MS);
    uint64_t sent_ms;
    send(&l, 1000, false);
    assert_true(lease_read_back(&l, &first, 10, 50000, 1100, &sent_ms));
    lease_applied(&l, 11);
    send(&l, 1500, false);
    /* half a second has passed here, and a minute at the log */
    assert_true(lease_read_back(&l, &second, 20, 110000, 1600, &sent_ms));
    lease_applied(&l, 21);
    assert_false(lease_admits(&l, 1600));
    assert_true(lease_must_close(&l, 1600));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_horizon_is_when_it_was_sent_not_when_it_was_read),
        cmocka_unit_test(it_counts_only_when_all_reactors_have_passed_it),
        cmocka_unit_test(the_lease_is_that_of_the_heartbeat),
        cmocka_unit_test(a_closed_heartbeat_ends_it_until_a_later_open_one_is_read),
        cmocka_unit_test(who_writes_and_cannot_read_stays_closed),
        cmocka_unit_test(a_heartbeat_that_was_never_sent_is_seen),
        cmocka_unit_test(a_boot_clock_that_stood_still_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
