/* Things in the order of their ordinals, held against a plain sorted array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include "shards/order.h"

enum { THINGS_MAX = 20000 };

struct model {
    uint64_t ordinals[THINGS_MAX]; /* sorted */
    size_t count;
};

static char things[THINGS_MAX]; /* an item is its ordinal's place in here */

static void *item_of(uint64_t ordinal) { return &things[ordinal % THINGS_MAX]; }

static uint64_t random_next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static size_t model_find(const struct model *m, uint64_t ordinal)
{
    size_t at = 0;
    while (at < m->count && m->ordinals[at] < ordinal) at++;
    return at;
}

static bool model_has(const struct model *m, uint64_t ordinal)
{
    size_t at = model_find(m, ordinal);
    return at < m->count && m->ordinals[at] == ordinal;
}

static void put(struct order *o, struct order_spare *spare, struct model *m, uint64_t ordinal)
{
    struct order_place p = {.ordinal = ordinal, .item = item_of(ordinal)};
    assert_true(order_ready(o, spare));
    order_put(o, spare, &p);
    size_t at = model_find(m, ordinal);
    memmove(m->ordinals + at + 1, m->ordinals + at, (m->count - at) * sizeof *m->ordinals);
    m->ordinals[at] = ordinal;
    m->count++;
}

static void take(struct order *o, struct order_spare *spare, struct model *m, uint64_t ordinal)
{
    order_remove(o, spare, ordinal, item_of(ordinal));
    size_t at = model_find(m, ordinal);
    m->count--;
    memmove(m->ordinals + at, m->ordinals + at + 1, (m->count - at) * sizeof *m->ordinals);
}

static void compare_after(const struct order *o, const struct model *m, uint64_t after)
{
    struct order_cursor c = order_after(o, after);
    size_t at = after == 0 ? 0 : model_find(m, after + 1);
    const struct order_place *p;
    while ((p = order_next(o, &c)) != NULL) {
        assert_true(at < m->count);
        assert_int_equal(p->ordinal, m->ordinals[at]);
        assert_ptr_equal(p->item, item_of(p->ordinal));
        at++;
    }
    assert_int_equal(at, m->count);
    assert_int_equal(o->size, m->count);
}

static void it_is_what_a_sorted_array_is(void **state)
{
    (void)state;
    static struct model m;
    struct order o = {0};
    struct order_spare spare = {0};
    uint64_t seed = 88172645463325252u;
    for (unsigned step = 0; step < 30000; step++) {
        uint64_t ordinal = random_next(&seed) % (THINGS_MAX - 1) + 1;
        bool grows = step % 6000 < 4000;
        if (model_has(&m, ordinal))
            take(&o, &spare, &m, ordinal);
        else if (grows)
            put(&o, &spare, &m, ordinal);
        if (step % 500 == 0) {
            compare_after(&o, &m, 0);
            compare_after(&o, &m, random_next(&seed) % THINGS_MAX);
        }
    }
    while (m.count > 0) take(&o, &spare, &m, m.ordinals[random_next(&seed) % m.count]);
    compare_after(&o, &m, 0);
    assert_int_equal(o.count, 0);
    order_fini(&o);
    order_spare_fini(&spare);
}

static void arrivals_in_order_fill_their_chunks(void **state)
{
    (void)state;
    struct order o = {0};
    struct order_spare spare = {0};
    static struct model m;
    m.count = 0;
    for (uint64_t i = 1; i <= 640; i++) put(&o, &spare, &m, i);
    assert_int_equal(o.count, 640 / ORDER_PLACES);
    for (uint64_t i = 1; i <= 640; i++)
        if (i % 8 != 0) take(&o, &spare, &m, i);
    assert_true(o.count <= 4); /* what departures leave is put together */
    compare_after(&o, &m, 0);
    order_fini(&o);
    order_spare_fini(&spare);
}

static void the_same_ordinal_twice_is_told_apart_by_its_item(void **state)
{
    (void)state;
    struct order o = {0};
    struct order_spare spare = {0};
    for (unsigned i = 0; i < 300; i++) {
        struct order_place p = {.ordinal = 7, .item = &things[i]};
        assert_true(order_ready(&o, &spare));
        order_put(&o, &spare, &p);
    }
    for (unsigned i = 0; i < 300; i++) order_remove(&o, &spare, 7, &things[(i * 7) % 300]);
    assert_int_equal(o.size, 0);
    order_fini(&o);
    order_spare_fini(&spare);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_what_a_sorted_array_is),
        cmocka_unit_test(arrivals_in_order_fill_their_chunks),
        cmocka_unit_test(the_same_ordinal_twice_is_told_apart_by_its_item),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
