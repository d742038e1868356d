/* test_slab.c - objects of one size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/slab.h"

enum { MANY = 5000, SIZE = 200 };

static void objects_are_zeroed_and_aligned_even_when_used_before(void **state)
{
    (void)state;
    static const char zeros[SIZE];
    struct slab s;
    slab_init(&s, SIZE, MANY);
    for (int round = 0; round < 3; round++) {
        void *first = slab_take(&s), *second = slab_take(&s);
        assert_int_equal((uintptr_t)first % 16, 0);
        assert_int_equal((uintptr_t)second % 16, 0);
        assert_memory_equal(first, zeros, SIZE);
        assert_memory_equal(second, zeros, SIZE);
        memset(first, 0xff, SIZE);
        memset(second, 0xff, SIZE);
        slab_give(&s, first);
        slab_give(&s, second);
    }
    slab_fini(&s);
}

/* Each is written over its whole size: one that reached into another would be seen. */
static void objects_do_not_overlap(void **state)
{
    (void)state;
    static unsigned char *objects[MANY];
    struct slab s;
    slab_init(&s, SIZE, MANY);
    for (size_t i = 0; i < MANY; i++) {
        objects[i] = slab_take(&s);
        assert_non_null(objects[i]);
        memset(objects[i], (int)(i % 251), SIZE);
    }
    assert_int_equal(s.count, MANY);
    for (size_t i = 0; i < MANY; i++)
        for (size_t at = 0; at < SIZE; at++) assert_int_equal(objects[i][at], i % 251);
    slab_fini(&s);
}

static void a_full_slab_says_no_until_something_is_given_back(void **state)
{
    (void)state;
    struct slab s;
    slab_init(&s, 24, 3);
    void *taken[3];
    for (size_t i = 0; i < 3; i++) assert_non_null(taken[i] = slab_take(&s));
    assert_null(slab_take(&s));
    assert_int_equal(s.count, 3);
    slab_give(&s, taken[1]);
    assert_ptr_equal(slab_take(&s), taken[1]);
    assert_null(slab_take(&s));
    slab_fini(&s);
}

static void what_was_given_back_is_used_before_memory_grows(void **state)
{
    (void)state;
    static void *objects[MANY];
    struct slab s;
    slab_init(&s, SIZE, 2 * MANY);
    for (size_t i = 0; i < MANY; i++) objects[i] = slab_take(&s);
    const struct slab_chunk *newest = s.chunks;
    for (size_t i = 0; i < MANY; i++) slab_give(&s, objects[i]);
    assert_int_equal(s.count, 0);
    for (size_t i = 0; i < MANY; i++) assert_non_null(slab_take(&s));
    assert_ptr_equal(s.chunks, newest);
    slab_fini(&s);
}

static void a_zeroed_slab_may_be_finished_and_holds_nothing(void **state)
{
    (void)state;
    struct slab s = {0};
    assert_null(slab_take(&s));
    slab_fini(&s);
    slab_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_are_zeroed_and_aligned_even_when_used_before),
        cmocka_unit_test(objects_do_not_overlap),
        cmocka_unit_test(a_full_slab_says_no_until_something_is_given_back),
        cmocka_unit_test(what_was_given_back_is_used_before_memory_grows),
        cmocka_unit_test(a_zeroed_slab_may_be_finished_and_holds_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
