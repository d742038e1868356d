/* test_containers.c - map, list and ring. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/map.h"
#include "base/ring.h"

/* ---- map ---- */

enum { NAMES = 2000 };

struct named {
    char name[16];
    bool here;
};

static struct str name_of(struct named *n, size_t i)
{
    snprintf(n->name, sizeof n->name, "name-%zu", i);
    return str_from(n->name);
}

/* Random puts and removes against an array that cannot be wrong. */
static void a_map_holds_what_was_put_and_not_removed(void **state)
{
    (void)state;
    static struct named names[NAMES];
    struct map m = {0};
    size_t count = 0;
    for (size_t i = 0; i < NAMES; i++) name_of(&names[i], i);
    uint64_t chance = 88172645463325252u;
    for (int step = 0; step < 60000; step++) {
        chance ^= chance << 13, chance ^= chance >> 7, chance ^= chance << 17;
        struct named *n = &names[chance % NAMES];
        struct str key = str_from(n->name);
        if (step % 20000 < 10000 ? (chance >> 20) % 4 != 0 : (chance >> 20) % 4 == 0) {
            assert_true(map_put(&m, key, n));
            count += !n->here;
            n->here = true;
        } else {
            assert_ptr_equal(map_remove(&m, key), n->here ? n : NULL);
            count -= n->here;
            n->here = false;
        }
        assert_int_equal(m.count, count);
    }
    for (size_t i = 0; i < NAMES; i++)
        assert_ptr_equal(map_get(&m, str_from(names[i].name)), names[i].here ? &names[i] : NULL);
    size_t cursor = 0, seen = 0;
    struct str key;
    void *value;
    while (map_next(&m, &cursor, &key, &value)) {
        assert_true(((struct named *)value)->here);
        seen++;
    }
    assert_int_equal(seen, count);
    map_fini(&m);
}

static void a_zeroed_map_is_an_empty_one(void **state)
{
    (void)state;
    struct map m = {0};
    size_t cursor = 0;
    struct str key;
    void *value;
    assert_null(map_get(&m, STR("x")));
    assert_null(map_remove(&m, STR("x")));
    assert_false(map_next(&m, &cursor, &key, &value));
    int a, b;
    assert_true(map_put(&m, STR(""), &a));
    assert_ptr_equal(map_get(&m, STR("")), &a);
    assert_null(map_get(&m, (struct str){0}));
    assert_true(map_put(&m, STR(""), &b));
    assert_ptr_equal(map_get(&m, STR("")), &b);
    assert_int_equal(m.count, 1);
    map_fini(&m);
    map_fini(&m);
}

static void the_hash_looks_at_every_byte_and_the_length(void **state)
{
    (void)state;
    unsigned char bytes[24] = {0};
    for (size_t size = 0; size < sizeof bytes; size++) {
        uint64_t before = hash_bytes(bytes, size);
        assert_true(before == hash_bytes(bytes, size));
        assert_true(before != hash_bytes(bytes, size + 1));
        for (size_t i = 0; i < size; i++) {
            bytes[i] ^= 1;
            assert_true(before != hash_bytes(bytes, size));
            bytes[i] ^= 1;
        }
    }
}

/* ---- list ---- */

struct item {
    int value;
    struct link link;
};

static void a_list_keeps_order_and_members_may_leave_while_it_is_walked(void **state)
{
    (void)state;
    struct list l;
    struct item items[5];
    memset(items, 0, sizeof items);
    list_init(&l);
    assert_true(list_is_empty(&l));
    for (int i = 0; i < 5; i++) {
        items[i].value = i;
        assert_false(link_is_on(&items[i].link));
        list_append(&l, &items[i].link);
        assert_true(link_is_on(&items[i].link));
    }
    int wanted = 0;
    list_each (&l, k, following) {
        struct item *item = link_owner(k, struct item, link);
        assert_int_equal(item->value, wanted++);
        if (item->value % 2 == 0) link_remove(k);
    }
    assert_int_equal(wanted, 5);
    link_remove(&items[0].link); /* again: nothing */
    wanted = 1;
    list_each (&l, k, following) {
        assert_int_equal(link_owner(k, struct item, link)->value, wanted);
        wanted += 2;
    }
    link_remove(&items[1].link);
    link_remove(&items[3].link);
    assert_true(list_is_empty(&l));
}

/* ---- ring ---- */

static void a_ring_is_first_in_first_out_and_says_when_it_is_full(void **state)
{
    (void)state;
    struct ring r;
    int items[20];
    ring_init(&r, 5); /* rounded up to 8 */
    for (int round = 0; round < 10; round++) {
        size_t pushed = 0;
        while (ring_push(&r, &items[pushed])) pushed++;
        assert_int_equal(pushed, 8);
        assert_int_equal(ring_depth(&r), 8);
        for (size_t i = 0; i < 3; i++) assert_ptr_equal(ring_pop(&r), &items[i]);
        assert_true(ring_push(&r, &items[8]));
        for (size_t i = 3; i < 9; i++) assert_ptr_equal(ring_pop(&r), &items[i]);
        assert_null(ring_pop(&r));
    }
    ring_fini(&r);
}

enum { PASSED = 200000 };

static void *push_all(void *argument)
{
    struct ring *r = argument;
    for (uintptr_t i = 1; i <= PASSED;) {
        if (ring_push(r, (void *)i))
            i++;
        else
            sched_yield();
    }
    return NULL;
}

static void two_threads_pass_everything_in_order(void **state)
{
    (void)state;
    struct ring r;
    pthread_t producer;
    ring_init(&r, 64);
    assert_int_equal(pthread_create(&producer, NULL, push_all, &r), 0);
    for (uintptr_t wanted = 1; wanted <= PASSED;) {
        void *got = ring_pop(&r);
        if (got == NULL) {
            sched_yield();
            continue;
        }
        assert_int_equal((uintptr_t)got, wanted);
        wanted++;
    }
    pthread_join(producer, NULL);
    assert_null(ring_pop(&r));
    ring_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_map_holds_what_was_put_and_not_removed),
        cmocka_unit_test(a_zeroed_map_is_an_empty_one),
        cmocka_unit_test(the_hash_looks_at_every_byte_and_the_length),
        cmocka_unit_test(a_list_keeps_order_and_members_may_leave_while_it_is_walked),
        cmocka_unit_test(a_ring_is_first_in_first_out_and_says_when_it_is_full),
        cmocka_unit_test(two_threads_pass_everything_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
