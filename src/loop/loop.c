/* loop.c - libev, wrapped so that no other room depends on it.
 *
 * Each thread has its own ev_loop (ev_loop_new, never the default one: that would install signal
 * handlers). The backend is epoll by name, because libev's own choice could be io_uring or
 * linuxaio, whose behaviour with closed descriptors differs.
 *
 * Users embed our structs by value, without ev.h in their headers; so each struct reserves 64 bytes
 * for libev's watcher, and the assertions below check that this is enough.
 *
 * Changing what an fd waits for costs nothing until the next poll: libev collects changes and
 * issues at most one epoll_ctl per fd. Pausing costs none at all as long as no event arrives. */
#include "loop/loop.h"

#include <ev.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/reserve.h"

struct loop {
    struct ev_loop *ev;
    ev_check woken; /* runs first after each poll, to read the time once per turn */
    uint64_t now_ms;
    uint64_t woken_ns;
    ev_check last; /* runs after all other events of a poll: libev goes by priority */
    void (*after)(void *context);
    void *after_context;
};

_Static_assert(sizeof(ev_io) <= sizeof(((struct loop_fd *)0)->opaque), "ev_io fits");
_Static_assert(sizeof(ev_timer) <= sizeof(((struct loop_timer *)0)->opaque), "ev_timer fits");
_Static_assert(sizeof(ev_async) <= sizeof(((struct loop_wakeup *)0)->opaque), "ev_async fits");
_Static_assert((int)LOOP_READ == (int)EV_READ && (int)LOOP_WRITE == (int)EV_WRITE,
               "events need no translation");

static ev_io *io_of(struct loop_fd *w) { return (ev_io *)(void *)w->opaque; }
static ev_timer *timer_of(struct loop_timer *t) { return (ev_timer *)(void *)t->opaque; }
static ev_async *async_of(struct loop_wakeup *b) { return (ev_async *)(void *)b->opaque; }

static uint64_t monotonic_ns(void)
{
    struct timespec now;
    check(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t monotonic_ms(void) { return monotonic_ns() / 1000000; }

static void take_time(struct ev_loop *ev, ev_check *woken, int events)
{
    (void)ev;
    (void)events;
    struct loop *l = woken->data;
    l->woken_ns = monotonic_ns();
    l->now_ms = l->woken_ns / 1000000;
}

static void run_after(struct ev_loop *ev, ev_check *last, int events)
{
    (void)ev;
    (void)events;
    struct loop *l = last->data;
    if (l->after != NULL) l->after(l->after_context);
}

void loop_after(struct loop *l, void (*after)(void *context), void *context)
{
    check(l->after == NULL || after == NULL);
    l->after = after;
    l->after_context = context;
}

/* libev ends the process if it gets no memory. */
static void *allocate(void *before, long size)
{
    if (size != 0) return reserve_resize(before, (size_t)size);
    reserve_give(before);
    return NULL;
}

static void set_allocator(void) { ev_set_allocator(allocate); }

struct loop *loop_create(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_allocator);
    struct loop *l = calloc(1, sizeof *l);
    check(l != NULL);
    l->ev = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
    check(l->ev != NULL);
    l->woken_ns = monotonic_ns();
    l->now_ms = l->woken_ns / 1000000;
    /* It also keeps the loop from returning at once when nothing else is watched. */
    ev_check_init(&l->woken, take_time);
    ev_set_priority(&l->woken, EV_MAXPRI);
    l->woken.data = l;
    ev_check_start(l->ev, &l->woken);
    ev_check_init(&l->last, run_after);
    ev_set_priority(&l->last, EV_MINPRI);
    l->last.data = l;
    ev_check_start(l->ev, &l->last);
    return l;
}

void loop_destroy(struct loop *l)
{
    if (l == NULL) return;
    ev_check_stop(l->ev, &l->woken);
    ev_check_stop(l->ev, &l->last);
    ev_loop_destroy(l->ev);
    free(l);
}

void loop_turn(struct loop *l, bool wait) { ev_run(l->ev, wait ? EVRUN_ONCE : EVRUN_NOWAIT); }

uint64_t loop_woken_ns(const struct loop *l) { return l->woken_ns; }

uint64_t loop_now_ms(const struct loop *l) { return l->now_ms; }

/* An fd that libev gave up on (EV_ERROR: it was closed behind its back) is reported as ready for
 * everything, so that its user gets the error from read() or write(). */
static void fd_ready(struct ev_loop *ev, ev_io *io, int events)
{
    (void)ev;
    struct loop_fd *w = io->data;
    if (events & EV_ERROR) events = LOOP_READ | LOOP_WRITE;
    w->ready(w, events & (LOOP_READ | LOOP_WRITE));
}

void loop_fd_start(struct loop *l, struct loop_fd *w, int fd, int events,
                   void (*ready)(struct loop_fd *, int))
{
    check(fd >= 0 && ready != NULL);
    w->ready = ready;
    w->fd = fd;
    w->events = events;
    ev_io *io = io_of(w);
    ev_io_init(io, fd_ready, fd, events);
    /* input that has arrived is handled before a timer ends the wait for it */
    ev_set_priority(io, 1);
    io->data = w;
    if (events != 0) ev_io_start(l->ev, io);
}

void loop_fd_change(struct loop *l, struct loop_fd *w, int events)
{
    if (w->events == events) return;
    w->events = events;
    ev_io *io = io_of(w);
    ev_io_stop(l->ev, io);
    if (events == 0) return;
    ev_io_set(io, w->fd, events);
    ev_io_start(l->ev, io);
}

void loop_fd_stop(struct loop *l, struct loop_fd *w)
{
    ev_io_stop(l->ev, io_of(w));
    w->events = 0;
}

static void timer_due(struct ev_loop *ev, ev_timer *timer, int events)
{
    (void)ev;
    (void)events;
    struct loop_timer *t = timer->data;
    t->due(t);
}

void loop_timer_start(struct loop *l, struct loop_timer *t, uint64_t after_ms,
                      void (*due)(struct loop_timer *))
{
    check(due != NULL);
    /* libev counts from the last poll. After long work since then (for example at boot) the
     * timer would be due too early, so the loop's clock is updated first. */
    uint64_t now_ms = monotonic_ms();
    if (now_ms > l->now_ms + 1) {
        ev_now_update(l->ev);
        l->now_ms = now_ms;
    }
    ev_timer *timer = timer_of(t);
    if (t->due != NULL) ev_timer_stop(l->ev, timer);
    t->due = due;
    ev_timer_init(timer, timer_due, (double)after_ms / 1000.0, 0.0);
    timer->data = t;
    ev_timer_start(l->ev, timer);
}

void loop_timer_stop(struct loop *l, struct loop_timer *t)
{
    if (t->due == NULL) return;
    ev_timer_stop(l->ev, timer_of(t));
    t->due = NULL;
}

static void wakeup_received(struct ev_loop *ev, ev_async *async, int events)
{
    (void)ev;
    (void)events;
    struct loop_wakeup *b = async->data;
    b->heard(b);
}

void wakeup_start(struct loop *l, struct loop_wakeup *b, void (*heard)(struct loop_wakeup *))
{
    check(heard != NULL);
    b->heard = heard;
    b->loop = l;
    ev_async *async = async_of(b);
    ev_async_init(async, wakeup_received);
    async->data = b;
    ev_async_start(l->ev, async);
}

void wakeup_stop(struct loop_wakeup *b)
{
    if (b->loop == NULL) return;
    ev_async_stop(b->loop->ev, async_of(b));
    b->loop = NULL;
}

void wakeup_send(struct loop_wakeup *b) { ev_async_send(b->loop->ev, async_of(b)); }
