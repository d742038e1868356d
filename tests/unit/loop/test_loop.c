/* The loop: descriptors, timers, wakeups and turns. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/world.h"
#include "loop/loop.h"

struct watched {
    struct loop_fd watch;
    struct loop *loop;
    int pair[2];
    int calls, events;
    bool stop_when_ready;
};

static void watched_ready(struct loop_fd *w, int events)
{
    struct watched *s = (struct watched *)(void *)w;
    s->calls++;
    s->events |= events;
    if (s->stop_when_ready) loop_fd_stop(s->loop, w);
}

static void watched_open(struct watched *s, struct loop *l, int events)
{
    *s = (struct watched){.loop = l};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s->pair), 0);
    loop_fd_start(l, &s->watch, s->pair[0], events, watched_ready);
}

static void watched_close(struct watched *s)
{
    loop_fd_stop(s->loop, &s->watch);
    close(s->pair[0]);
    close(s->pair[1]);
}

static void say(struct watched *s) { assert_int_equal(write(s->pair[1], "x", 1), 1); }

static void a_readable_descriptor_is_reported_until_it_is_read(void **state)
{
    (void)state;
    struct loop *l = loop_create();
    struct watched s;
    watched_open(&s, l, LOOP_READ);
    loop_turn(l, false);
    assert_int_equal(s.calls, 0);
    say(&s);
    loop_turn(l, true);
    loop_turn(l, true);
    assert_int_equal(s.calls, 2);
    assert_int_equal(s.events, LOOP_READ);
    watched_close(&s);
    loop_destroy(l);
}

static void what_is_waited_for_can_be_changed_and_paused(void **state)
{
    (void)state;
    struct loop *l = loop_create();
    struct watched s;
    watched_open(&s, l, LOOP_READ);
    say(&s);
    loop_fd_change(l, &s.watch, 0);
    loop_turn(l, false);
    loop_turn(l, false);
    assert_int_equal(s.calls, 0);
    loop_fd_change(l, &s.watch, LOOP_WRITE);
    loop_turn(l, true);
    assert_int_equal(s.events, LOOP_WRITE);
    loop_fd_change(l, &s.watch, LOOP_READ | LOOP_WRITE);
    loop_turn(l, true);
    assert_int_equal(s.events, LOOP_READ | LOOP_WRITE);
    watched_close(&s);
    loop_destroy(l);
}

static void a_stopped_descriptor_is_not_reported_even_in_the_same_turn(void **state)
{
    (void)state;
    struct loop *l = loop_create();
    struct watched s;
    watched_open(&s, l, LOOP_READ);
    s.stop_when_ready = true;
    say(&s);
    loop_turn(l, true);
    loop_turn(l, false);
    assert_int_equal(s.calls, 1);
    watched_close(&s); /* stopping twice is harmless */
    loop_destroy(l);
}

struct timed {
    struct loop_timer timer;
    int calls;
};

static void timed_due(struct loop_timer *t) { ((struct timed *)(void *)t)->calls++; }

static void a_timer_is_due_once_and_not_early(void **state)
{
    (void)state;
    struct loop *l = loop_create();
    struct timed t = {0};
    uint64_t start_ns = world_monotonic_ns();
    loop_timer_start(l, &t.timer, 30, timed_due);
    while (t.calls == 0) loop_turn(l, true);
    assert_true(world_monotonic_ns() - start_ns >= 29 * 1000000ull);
    loop_turn(l, false);
    assert_int_equal(t.calls, 1);
    loop_timer_start(l, &t.timer, 0, timed_due); /* it may be started again */
    loop_turn(l, true);
    assert_int_equal(t.calls, 2);
    loop_destroy(l);
}

static void a_timer_counts_from_its_start_not_from_the_last_turn(void **state)
{
    (void)state;
    struct loop *l = loop_create();
    struct timed t = {0};
    uint64_t busy_ns = world_monotonic_ns();
    while (world_monotonic_ns() - busy_ns < 60 * 1000000ull) continue; /* long work before it */
    uint64_t start_ns = world_monotonic_ns();
    loop_timer_start(l, &t.timer, 30, timed_due);
    while (t.calls == 0) loop_turn(l, true);
    assert_true(world_monotonic_ns() - start_ns >= 29 * 1000000ull);
    loop_destroy(l);
}

static void a_timer_can_be_moved_and_stopped(void **state)
{
    (void)state;
    struct loop *l = loop_create();
    struct timed moved = {0}, stopped = {0}, last = {0};
    loop_timer_start(l, &moved.timer, 100000, timed_due);
    loop_timer_start(l, &moved.timer, 5, timed_due);
    loop_timer_start(l, &stopped.timer, 5, timed_due);
    loop_timer_stop(l, &stopped.timer);
    loop_timer_stop(l, &stopped.timer);
    loop_timer_start(l, &last.timer, 20, timed_due);
    while (last.calls == 0) loop_turn(l, true);
    assert_int_equal(moved.calls, 1);
    assert_int_equal(stopped.calls, 0);
    loop_destroy(l);
}

static void the_loops_time_moves_with_its_turns(void **state)
{
    (void)state;
    struct loop *l = loop_create();
    struct timed t = {0};
    uint64_t before_ms = loop_now_ms(l);
    loop_timer_start(l, &t.timer, 20, timed_due);
    while (t.calls == 0) loop_turn(l, true);
    assert_true(loop_now_ms(l) >= before_ms + 19);
    assert_true(loop_now_ms(l) <= world_monotonic_ns() / 1000000);
    loop_destroy(l);
}

struct woken {
    struct loop_wakeup wakeup;
    _Atomic int heard;
};

static void wakeup_received(struct loop_wakeup *b)
{
    atomic_fetch_add(&((struct woken *)(void *)b)->heard, 1);
}

static void *ring_many(void *argument)
{
    for (int i = 0; i < 1000; i++) wakeup_send(argument);
    return NULL;
}

static void a_wakeup_wakes_a_sleeping_loop_from_another_thread(void **state)
{
    (void)state;
    struct loop *l = loop_create();
    struct woken b = {0};
    wakeup_start(l, &b.wakeup, wakeup_received);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, ring_many, &b.wakeup);
    while (atomic_load(&b.heard) == 0) loop_turn(l, true);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    loop_turn(l, false);
    loop_turn(l, false);
    int heard = atomic_load(&b.heard);
    assert_true(heard >= 1 && heard <= 2000);
    wakeup_send(&b.wakeup); /* one more is never lost */
    loop_turn(l, true);
    assert_int_equal(atomic_load(&b.heard), heard + 1);
    wakeup_stop(&b.wakeup);
    loop_destroy(l);
}

static void destroying_no_loop_is_allowed(void **state)
{
    (void)state;
    loop_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_readable_descriptor_is_reported_until_it_is_read),
        cmocka_unit_test(what_is_waited_for_can_be_changed_and_paused),
        cmocka_unit_test(a_stopped_descriptor_is_not_reported_even_in_the_same_turn),
        cmocka_unit_test(a_timer_is_due_once_and_not_early),
        cmocka_unit_test(a_timer_counts_from_its_start_not_from_the_last_turn),
        cmocka_unit_test(a_timer_can_be_moved_and_stopped),
        cmocka_unit_test(the_loops_time_moves_with_its_turns),
        cmocka_unit_test(a_wakeup_wakes_a_sleeping_loop_from_another_thread),
        cmocka_unit_test(destroying_no_loop_is_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
