/* Who reads which partition, as each platform decides it for itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

static void look(struct lease *l, uint64_t now, const char *const *owners, const uint64_t *beats, size_t count)
{
    lease_look_begin(l);
    for (size_t i = 0; i < count; i++) lease_saw_member(l, str_from(owners[i]), beats[i], now);
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
    free(l);
}

static void three_share_evenly_and_nobody_takes_from_the_living(void **state)
{
    (void)state;
    static const char *const all[] = {A, B, C};
    struct lease *l[3];
    struct lease_partition shared[8] = {0};
    for (int i = 0; i < 3; i++) l[i] = lease_of(all[i], 8);
    for (int round = 0; round < 6; round++)
        for (int i = 0; i < 3; i++) {
            memcpy(l[i]->partitions, shared, sizeof shared);
            look(l[i], 100, all, (const uint64_t[]){1, 1, 1}, 3);
            lease_decide(l[i], 100);
            memcpy(shared, l[i]->partitions, sizeof shared);
        }
    for (int i = 0; i < 3; i++) memcpy(l[i]->partitions, shared, sizeof shared);
    assert_int_equal(mine(l[0]), 3);
    assert_int_equal(mine(l[1]), 3);
    assert_int_equal(mine(l[2]), 2);
    for (int i = 0; i < 3; i++) free(l[i]);
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
    free(l);
}

static void a_beat_that_moves_keeps_its_partitions(void **state)
{
    (void)state;
    static const char *const both[] = {A, B};
    struct lease *l = lease_of(A, 2);
    memcpy(l->partitions[0].owner, B, LEASE_OWNER_TEXT);
    l->partitions[0].is_owned = true;
    for (uint64_t beat = 0; beat < 20; beat++) {
        look(l, 1000 + beat * 2000, both, (const uint64_t[]){beat, beat}, 2);
        lease_decide(l, 1000 + beat * 2000);
        assert_int_equal(mine(l), 1);
        assert_false(lease_is_mine(l, 0));
    }
    free(l);
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
    free(l);
}

static void more_platforms_than_partitions_leave_some_without(void **state)
{
    (void)state;
    struct lease *l = lease_of(C, 2);
    look(l, 5, (const char *const[]){A, B, C}, (const uint64_t[]){1, 1, 1}, 3);
    assert_false(lease_decide(l, 5));
    assert_int_equal(mine(l), 0);
    free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_alone_takes_all),
        cmocka_unit_test(three_share_evenly_and_nobody_takes_from_the_living),
        cmocka_unit_test(one_whose_beat_stands_still_is_dead_after_the_lease_and_not_before),
        cmocka_unit_test(a_beat_that_moves_keeps_its_partitions),
        cmocka_unit_test(an_owner_that_left_no_trace_is_dead),
        cmocka_unit_test(more_platforms_than_partitions_leave_some_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
