/* Who reads which partition, as each platform decides it for itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pipeline/ingest/lease.h"

#define A "aaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbb"
#define C "cccccccccccccccc"

static struct lease *lease_of(const char *me, uint32_t partitions)
{
    struct lease *l = calloc(1, sizeof *l);
    assert_non_null(l);
    lease_init(l, me);
    l->partition_count = partitions;
    return l;
}

static void lease_free(struct lease *l)
{
    lease_fini(l);
    free(l);
}

static void look(struct lease *l, uint64_t now, const char *const *owners,
                 const uint64_t *heartbeats, size_t count)
{
    lease_look_begin(l);
    for (size_t i = 0; i < count; i++) lease_saw_member(l, str_from(owners[i]), heartbeats[i], now);
    lease_look_end(l);
}

static uint32_t mine(const struct lease *l)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < l->partition_count; i++) count += lease_is_mine(l, i);
    return count;
}

static void one_alone_takes_all(void **state)
{
    (void)state;
    struct lease *l = lease_of(A, 4);
    look(l, 100, (const char *const[]){A}, (const uint64_t[]){1}, 1);
    assert_true(lease_decide(l, 100));
    assert_int_equal(mine(l), 4);
    assert_false(lease_decide(l, 100));
    lease_free(l);
}

static void three_share_evenly_and_nobody_takes_from_the_living(void **state)
{
    (void)state;
    static const char *const all[] = {A, B, C};
    struct lease *l[3];
    struct lease_partition shared[11] = {0};
    for (int i = 0; i < 3; i++) l[i] = lease_of(all[i], 11);
    for (int round = 0; round < 6; round++)
        for (int i = 2; i >= 0; i--) {
            memcpy(l[i]->partitions, shared, sizeof shared);
            look(l[i], 100, all, (const uint64_t[]){1, 1, 1}, 3);
            lease_decide(l[i], 100);
            assert_int_equal(mine(l[i]), i < 2 ? 4 : 3); /* no more even for a moment */
            memcpy(shared, l[i]->partitions, sizeof shared);
        }
    for (int i = 0; i < 3; i++) memcpy(l[i]->partitions, shared, sizeof shared);
    assert_int_equal(mine(l[0]), 4);
    assert_int_equal(mine(l[1]), 4);
    assert_int_equal(mine(l[2]), 3);
    for (int i = 0; i < 3; i++) lease_free(l[i]);
}

static void one_who_has_too_many_lets_go_of_the_last(void **state)
{
    (void)state;
    static const char *const all[] = {A, B, C};
    static const uint64_t heartbeats[] = {1, 1, 1};
    struct lease *a = lease_of(A, 7), *b = lease_of(B, 7);
    look(a, 100, all, heartbeats, 1);
    assert_true(lease_decide(a, 100));
    look(b, 100, all, heartbeats, 2);
    memcpy(b->partitions, a->partitions, sizeof b->partitions);
    assert_false(lease_decide(b, 100));
    look(a, 200, all, heartbeats, 2);
    assert_true(lease_decide(a, 200));
    memcpy(b->partitions, a->partitions, sizeof b->partitions);
    assert_true(lease_decide(b, 200));
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(lease_is_mine(a, i), i < 4);
        assert_int_equal(lease_is_mine(b, i), i >= 4);
    }
    assert_false(lease_decide(a, 200));
    look(a, 300, all, heartbeats, 3);
    memcpy(a->partitions, b->partitions, sizeof a->partitions);
    assert_true(lease_decide(a, 300));
    for (uint32_t i = 0; i < 7; i++) assert_int_equal(a->partitions[i].is_owned, i != 3);
    lease_free(a);
    lease_free(b);
}

static void one_whose_beat_stands_still_is_dead_after_the_lease_and_not_before(void **state)
{
    (void)state;
    static const char *const both[] = {A, B};
    struct lease *l = lease_of(A, 2);
    for (int i = 0; i < 2; i++) {
        memcpy(l->partitions[i].owner, B, LEASE_OWNER_TEXT);
        l->partitions[i].is_owned = true;
    }
    look(l, 1000, both, (const uint64_t[]){1, 7}, 2);
    look(l, 1000 + LEASE_MS - 1, both, (const uint64_t[]){2, 7}, 2);
    assert_false(lease_decide(l, 1000 + LEASE_MS - 1));
    look(l, 1000 + LEASE_MS, both, (const uint64_t[]){3, 7}, 2);
    assert_true(lease_decide(l, 1000 + LEASE_MS));
    assert_int_equal(mine(l), 2);
    lease_free(l);
}

static void a_beat_that_moves_keeps_its_partitions(void **state)
{
    (void)state;
    static const char *const both[] = {A, B};
    struct lease *l = lease_of(A, 2);
    memcpy(l->partitions[0].owner, B, LEASE_OWNER_TEXT);
    l->partitions[0].is_owned = true;
    for (uint64_t heartbeat = 0; heartbeat < 20; heartbeat++) {
        look(l, 1000 + heartbeat * 2000, both, (const uint64_t[]){heartbeat, heartbeat}, 2);
        lease_decide(l, 1000 + heartbeat * 2000);
        assert_int_equal(mine(l), 1);
        assert_false(lease_is_mine(l, 0));
    }
    lease_free(l);
}

static void an_owner_that_left_no_trace_is_dead(void **state)
{
    (void)state;
    struct lease *l = lease_of(A, 1);
    memcpy(l->partitions[0].owner, B, LEASE_OWNER_TEXT);
    l->partitions[0].is_owned = true;
    look(l, 5, (const char *const[]){A}, (const uint64_t[]){1}, 1);
    assert_true(lease_decide(l, 5));
    assert_true(lease_is_mine(l, 0));
    lease_free(l);
}

static void more_platforms_than_partitions_leave_some_without(void **state)
{
    (void)state;
    struct lease *l = lease_of(C, 2);
    look(l, 5, (const char *const[]){A, B, C}, (const uint64_t[]){1, 1, 1}, 3);
    assert_false(lease_decide(l, 5));
    assert_int_equal(mine(l), 0);
    lease_free(l);
}

static void one_who_left_is_dead_at_once(void **state)
{
    (void)state;
    struct lease *l = lease_of(A, 2);
    look(l, 1000, (const char *const[]){B, A, C}, (const uint64_t[]){1, 1, 1}, 3);
    assert_true(lease_is_alive(l, B, 1000));
    look(l, 1001, (const char *const[]){A, C}, (const uint64_t[]){2, 2}, 2);
    assert_false(lease_is_alive(l, B, 1001));
    assert_true(lease_is_alive(l, C, 1001));
    look(l, 1002, (const char *const[]){A}, (const uint64_t[]){3}, 1);
    lease_decide(l, 1002);
    assert_int_equal(mine(l), 2);
    lease_free(l);
}

static void one_whose_beat_moved_before_it_stood_still_is_dead_all_the_same(void **state)
{
    (void)state;
    static const char *const both[] = {A, B};
    struct lease *l = lease_of(A, 1);
    look(l, 1000, both, (const uint64_t[]){1, 7}, 2);
    look(l, 2000, both, (const uint64_t[]){2, 8}, 2);
    look(l, 2000 + LEASE_MS - 1, both, (const uint64_t[]){3, 8}, 2);
    assert_true(lease_is_alive(l, B, 2000 + LEASE_MS - 1));
    assert_false(lease_is_alive(l, B, 2000 + LEASE_MS));
    lease_free(l);
}

static void names_that_are_none_do_no_harm(void **state)
{
    (void)state;
    struct lease *l = lease_of(A, 8);
    lease_look_begin(l);
    lease_saw_member(l, STR("short"), 1, 5);
    lease_saw_member(l, STR(A "and more"), 1, 5);
    lease_look_end(l);
    assert_int_equal(l->member_count, 0);
    lease_free(l);
}

/* A platform that is killed and started again leaves a row each time. */
static void the_living_are_seen_among_any_number_of_the_dead(void **state)
{
    (void)state;
    enum { DEAD = 300 };
    struct lease *l = lease_of(C, 9);
    char name[LEASE_OWNER_TEXT + 1];
    for (unsigned heartbeat = 1; heartbeat < 3; heartbeat++) {
        uint64_t now = heartbeat * (LEASE_MS + 1);
        lease_look_begin(l);
        for (unsigned i = 0; i < DEAD; i++) {
            snprintf(name, sizeof name, "%016u", i);
            lease_saw_member(l, str_from(name), 1, now);
        }
        lease_saw_member(l, STR(A), heartbeat, now);
        lease_saw_member(l, STR(B), heartbeat, now);
        lease_look_end(l);
        assert_int_equal(l->member_count, DEAD + 2);
        lease_decide(l, now);
    }
    assert_true(lease_is_alive(l, A, 2 * (LEASE_MS + 1)) &&
                lease_is_alive(l, B, 2 * (LEASE_MS + 1)));
    assert_false(lease_is_alive(l, "0000000000000000", 2 * (LEASE_MS + 1)));
    assert_int_equal(mine(l), 3);
    lease_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_alone_takes_all),
        cmocka_unit_test(three_share_evenly_and_nobody_takes_from_the_living),
        cmocka_unit_test(one_who_has_too_many_lets_go_of_the_last),
        cmocka_unit_test(one_whose_beat_stands_still_is_dead_after_the_lease_and_not_before),
        cmocka_unit_test(a_beat_that_moves_keeps_its_partitions),
        cmocka_unit_test(an_owner_that_left_no_trace_is_dead),
        cmocka_unit_test(more_platforms_than_partitions_leave_some_without),
        cmocka_unit_test(one_who_left_is_dead_at_once),
        cmocka_unit_test(one_whose_beat_moved_before_it_stood_still_is_dead_all_the_same),
        cmocka_unit_test(names_that_are_none_do_no_harm),
        cmocka_unit_test(the_living_are_seen_among_any_number_of_the_dead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
