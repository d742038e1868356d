/* How far acknowledgements reach without a gap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pipeline/publish/window.h"

static struct window *window_of(uint64_t first, unsigned count)
{
    struct window *w = calloc(1, sizeof *w);
    assert_non_null(w);
    window_reset(w, first);
    for (unsigned i = 0; i < count; i++) window_add(w);
    return w;
}

static void only_a_contiguous_prefix_is_delivered(void **state)
{
    (void)state;
    struct window *w = window_of(10, 5);
    window_ack(w, 11);
    window_ack(w, 13);
    assert_int_equal(w->delivered, 10);
    assert_int_equal(w->under_way, 3);
    window_ack(w, 10);
    assert_int_equal(w->delivered, 12);
    window_ack(w, 12);
    window_ack(w, 14);
    assert_int_equal(w->delivered, 15);
    assert_int_equal(w->under_way, 0);
    free(w);
}

static void what_is_not_under_way_is_not_acknowledged(void **state)
{
    (void)state;
    struct window *w = window_of(10, 2);
    window_ack(w, 9);
    window_ack(w, 12);
    window_ack(w, 11);
    window_ack(w, 11);
    assert_int_equal(w->delivered, 10);
    assert_int_equal(w->under_way, 1);
    free(w);
}

static void a_window_goes_round_many_times(void **state)
{
    (void)state;
    struct window *w = window_of(1, 0);
    for (uint64_t round = 0; round < 5; round++) {
        uint64_t first = w->end;
        while (window_has_room(w)) window_add(w);
        assert_int_equal(w->under_way, WINDOW_MAX);
        /* backwards, but the first */
        for (uint64_t seq = w->end; seq-- > first + 1;) window_ack(w, seq);
        assert_int_equal(w->delivered, first);
        assert_false(window_has_room(w));
        window_ack(w, first);
        assert_int_equal(w->delivered, w->end);
    }
    free(w);
}

static void a_reset_forgets_what_was_under_way(void **state)
{
    (void)state;
    struct window *w = window_of(1, 100);
    window_ack(w, 50);
    window_reset(w, 40);
    for (int i = 0; i < 20; i++) window_add(w);
    for (uint64_t seq = 40; seq < 50; seq++) window_ack(w, seq);
    assert_int_equal(w->delivered, 50);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_contiguous_prefix_is_delivered),
        cmocka_unit_test(what_is_not_under_way_is_not_acknowledged),
        cmocka_unit_test(a_window_goes_round_many_times),
        cmocka_unit_test(a_reset_forgets_what_was_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
