/* loop.h - the only access to libev: one event loop per thread, fds, timers and wakeups.
 *
 * The owner calls loop_turn() again and again; between turns it does its own work (messages,
 * sealing, releasing). Everything but wakeup_send() belongs to the loop's own thread. Structs are
 * embedded by their users, start out zeroed, hold libev's watchers in `opaque`, and must be stopped
 * before they are freed (their own callback may do both). */
#ifndef LOOP_LOOP_H
#define LOOP_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct loop;

/* At boot: an error ends the process. */
struct loop *loop_create(void);
void loop_destroy(struct loop *l);
/* Handles all ready events; with `wait`, first sleeps until there is one. May also return early. */
void loop_turn(struct loop *l, bool wait);

/* `after` is called once in each turn, after everything that was ready or due in it. One per
 * loop; NULL removes it. */
void loop_after(struct loop *l, void (*after)(void *context), void *context);

enum { LOOP_READ = 1, LOOP_WRITE = 2 };

struct loop_fd {
    _Alignas(8) unsigned char opaque[64];
    void (*ready)(struct loop_fd *w, int events); /* LOOP_READ | LOOP_WRITE */
    int fd, events;
};
void loop_fd_start(struct loop *l, struct loop_fd *w, int fd, int events,
                   void (*ready)(struct loop_fd *, int));
void loop_fd_change(struct loop *l, struct loop_fd *w, int events); /* 0 pauses it */
void loop_fd_stop(struct loop *l, struct loop_fd *w);

struct loop_timer {
    _Alignas(8) unsigned char opaque[64];
    void (*due)(struct loop_timer *t);
};
/* Due once after `after_ms`; starting a started timer moves it. */
void loop_timer_start(struct loop *l, struct loop_timer *t, uint64_t after_ms,
                      void (*due)(struct loop_timer *));
void loop_timer_stop(struct loop *l, struct loop_timer *t);

/* Wakes the loop from any thread (or a signal handler); several signals may arrive as one. */
struct loop_wakeup {
    _Alignas(8) unsigned char opaque[64];
    void (*heard)(struct loop_wakeup *b);
    struct loop *loop;
};
void wakeup_start(struct loop *l, struct loop_wakeup *b, void (*heard)(struct loop_wakeup *));
void wakeup_stop(struct loop_wakeup *b);
void wakeup_send(struct loop_wakeup *b);

uint64_t loop_woken_ns(const struct loop *l); /* monotonic: when this turn's wait ended */
uint64_t loop_now_ms(const struct loop *l);   /* monotonic, as of this turn; for timeouts */

#endif
