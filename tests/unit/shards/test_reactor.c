/* One reactor thread and its turn. The threads meet on semaphores; a reactor that sleeps through
 * what it was told would hang here, so the whole program has a time limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shards/reactor.h"

enum { TRACE_BYTES = 1 << 16, HANG_SECONDS = 900, FULL_AT_MOST = 1 << 20 };

/* What the ports leave behind. `trace` is the reactor's alone until it was joined. */
struct scene {
    struct reactor *reactor;
    char trace[TRACE_BYTES];
    size_t traced;
    pthread_t thread;
    bool other_thread; /* a port was called on another thread than the first was */
    int fds[16];
    size_t fd_count;
    sem_t turn_ended, told, held, go;
    atomic_bool hold_told, hold_end;
    size_t sockets;
};

static void put(struct scene *s, char c)
{
    if (s->traced == 0) s->thread = pthread_self();
    s->other_thread |= !pthread_equal(s->thread, pthread_self());
    if (s->traced < TRACE_BYTES - 1) s->trace[s->traced++] = c;
}

static void wait_for(sem_t *sem)
{
    while (sem_wait(sem) != 0) assert_int_equal(errno, EINTR);
}

/* Stands still until the test says go. */
static void hold(struct scene *s)
{
    sem_post(&s->held);
    wait_for(&s->go);
}

static void on_enter(void *context, struct loop *loop)
{
    assert_non_null(loop);
    put(context, 'E');
}

static void on_begin(void *context) { put(context, 'b'); }

static void on_told(void *context, const struct reactor_message *m)
{
    struct scene *s = context;
    if (atomic_exchange(&s->hold_told, false)) hold(s);
    assert_int_not_equal(m->kind, REACTOR_STOP);
    put(s, m->kind == REACTOR_DRAIN ? 'd' : m->socket != 0 ? 'u' : 's');
    if (m->kind == REACTOR_SOCKET) {
        s->sockets++;
        if (s->fd_count < 16) s->fds[s->fd_count++] = m->fd;
    }
    sem_post(&s->told);
}

static void on_end(void *context)
{
    struct scene *s = context;
    put(s, 'e');
    if (atomic_exchange(&s->hold_end, false)) hold(s);
    sem_post(&s->turn_ended);
}

static void on_leave(void *context) { put(context, 'L'); }

static const struct reactor_ports ports = {
    .enter = on_enter, .begin = on_begin, .told = on_told, .end = on_end, .leave = on_leave};

static int set_up(void **state)
{
    struct scene *s = calloc(1, sizeof *s);
    sem_init(&s->turn_ended, 0, 0);
    sem_init(&s->told, 0, 0);
    sem_init(&s->held, 0, 0);
    sem_init(&s->go, 0, 0);
    *state = s;
    assert_int_equal(reactor_create(3, &ports, s, &s->reactor), ERR_OK);
    return 0;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

static enum err tell(struct scene *s, enum reactor_message_kind kind, int fd, unsigned char socket)
{
    struct reactor_message m = {.kind = kind, .fd = fd, .socket = socket};
    return reactor_tell(s->reactor, &m);
}

/* Tells it to stop, and joins. Nothing else will ever wake it. */
static void stop(struct scene *s)
{
    assert_int_equal(tell(s, REACTOR_STOP, -1, 0), ERR_OK);
    reactor_join(s->reactor);
    s->trace[s->traced] = '\0';
}

/* ---- tests ---- */

static void a_reactor_told_to_stop_needs_no_other_event(void **state)
{
    struct scene *s = *state;
    stop(s);
    assert_int_equal(s->trace[0], 'E');
    assert_int_equal(s->trace[s->traced - 1], 'L');
    reactor_destroy(s->reactor);
}

/* The wakeup rings into the sleep of a turn: that turn ends, the next takes the message. */
static void a_sleeping_reactor_told_to_stop_needs_no_other_event(void **state)
{
    struct scene *s = *state;
    reactor_wake(s->reactor);
    wait_for(&s->turn_ended); /* from here on it sleeps, or is about to */
    stop(s);
    assert_int_equal(s->trace[s->traced - 1], 'L');
    reactor_destroy(s->reactor);
}

static void a_turn_is_told_begin_end(void **state)
{
    struct scene *s = *state;
    atomic_store(&s->hold_end, true);
    reactor_wake(s->reactor);
    wait_for(&s->held);
    for (int i = 0; i < 3; i++)
        assert_int_equal(tell(s, i == 1 ? REACTOR_DRAIN : REACTOR_SOCKET, 100 + i, i == 2), ERR_OK);
    sem_post(&s->go);
    for (int i = 0; i < 3; i++) wait_for(&s->told);
    stop(s);
    assert_false(s->other_thread);
    assert_non_null(strstr(s->trace, "Ebe"));    /* the first turn had nothing to take */
    assert_non_null(strstr(s->trace, "esdube")); /* all that was told, in order, then the turn */
    assert_int_equal(s->fds[0], 100);
    assert_int_equal(s->fds[1], 102);
    assert_string_equal(s->trace + s->traced - 3, "beL");
    reactor_destroy(s->reactor);
}

static void each_wake_is_followed_by_a_turn(void **state)
{
    struct scene *s = *state;
    for (int i = 0; i < 200; i++) {
        while (sem_trywait(&s->turn_ended) == 0) {
        }
        reactor_wake(s->reactor);
        wait_for(&s->turn_ended);
    }
    stop(s);
    uint64_t begun = 0;
    for (size_t i = 0; i < s->traced; i++) begun += s->trace[i] == 'b';
    assert_in_range(begun, 200, UINT64_MAX);
    reactor_destroy(s->reactor);
}

static void *wake_often(void *argument)
{
    struct scene *s = argument;
    for (int i = 0; i < 1000; i++) reactor_wake(s->reactor);
    return NULL;
}

static void many_threads_may_wake_it_even_when_it_is_gone(void **state)
{
    struct scene *s = *state;
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wake_often, s), 0);
    stop(s);
    for (size_t i = 0; i < 3; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    reactor_wake(s->reactor); /* joined, not yet destroyed */
    reactor_destroy(s->reactor);
}

static void a_full_inbox_is_said_and_nothing_is_told(void **state)
{
    struct scene *s = *state;
    atomic_store(&s->hold_told, true);
    size_t accepted = 0;
    assert_int_equal(tell(s, REACTOR_SOCKET, -1, 0), ERR_OK);
    accepted++;
    wait_for(&s->held); /* it has that one in hand and takes no other */
    enum err err = ERR_OK;
    while (err == ERR_OK && accepted < FULL_AT_MOST)
        if ((err = tell(s, REACTOR_SOCKET, -1, 0)) == ERR_OK) accepted++;
    assert_int_equal(err, ERR_FULL);
    sem_post(&s->go);
    for (size_t i = 0; i < accepted; i++) wait_for(&s->told);
    assert_int_equal(tell(s, REACTOR_SOCKET, -1, 0), ERR_OK); /* there is room again */
    stop(s);
    assert_int_equal(s->sockets, accepted + 1);
    reactor_destroy(s->reactor);
}

static void what_was_told_before_the_stop_is_handed_over(void **state)
{
    struct scene *s = *state;
    atomic_store(&s->hold_end, true);
    reactor_wake(s->reactor);
    wait_for(&s->held);
    assert_int_equal(tell(s, REACTOR_DRAIN, -1, 0), ERR_OK);
    assert_int_equal(tell(s, REACTOR_STOP, -1, 0), ERR_OK);
    assert_int_equal(tell(s, REACTOR_DRAIN, -1, 0), ERR_OK);
    sem_post(&s->go);
    reactor_join(s->reactor);
    s->trace[s->traced] = '\0';
    assert_non_null(strstr(s->trace, "eddbeL"));
    reactor_destroy(s->reactor);
}

static void a_socket_that_nobody_took_is_closed(void **state)
{
    struct scene *s = *state;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    atomic_store(&s->hold_told, true);
    assert_int_equal(tell(s, REACTOR_DRAIN, -1, 0), ERR_OK);
    wait_for(&s->held);
    assert_int_equal(tell(s, REACTOR_STOP, -1, 0), ERR_OK);
    atomic_store(&s->hold_end, true);
    sem_post(&s->go);
    wait_for(&s->held); /* the last turn ends: nothing more is taken */
    assert_int_equal(tell(s, REACTOR_SOCKET, fds[0], 0), ERR_OK);
    sem_post(&s->go);
    reactor_join(s->reactor);
    assert_int_equal(s->sockets, 0);
    assert_int_equal(fcntl(fds[0], F_GETFD), -1);
    close(fds[1]);
    reactor_destroy(s->reactor);
    reactor_join(NULL);
    reactor_destroy(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_reactor_told_to_stop_needs_no_other_event),
        TEST(a_sleeping_reactor_told_to_stop_needs_no_other_event),
        TEST(a_turn_is_told_begin_end),
        TEST(each_wake_is_followed_by_a_turn),
        TEST(many_threads_may_wake_it_even_when_it_is_gone),
        TEST(a_full_inbox_is_said_and_nothing_is_told),
        TEST(what_was_told_before_the_stop_is_handed_over),
        TEST(a_socket_that_nobody_took_is_closed),
    };
    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
