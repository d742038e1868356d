/* loop.h - the only door to libev: one event loop per thread, fds, timers and bells.
 *
 * The owner calls loop_beat() again and again; between beats it does its own work (messages,
 * sealing, releasing). Everything but bell_ring() belongs to the loop's own thread. Structs are
 * embedded by their users, start out zeroed, hold libev's watchers in `opaque`, and must be stopped
 * before they are freed (their own callback may do both). */
#ifndef LOOP_LOOP_H
#define LOOP_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct loop;

/* At boot: what fails ends the process. */
struct loop *loop_create(void);
void loop_destroy(struct loop *l);
/* Handles what is ready; with `wait`, first sleeps until something is. May also return early. */
void loop_beat(struct loop *l, bool wait);

/* `after` is called once in each beat, behind everything that was ready or due in it. One for a
 * loop; NULL takes it away. */
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

/* Wakes the loop from any thread (or a signal handler); several rings may be heard as one. */
struct loop_bell {
    _Alignas(8) unsigned char opaque[64];
    void (*heard)(struct loop_bell *b);
    struct loop *loop;
};
void bell_start(struct loop *l, struct loop_bell *b, void (*heard)(struct loop_bell *));
void bell_stop(struct loop_bell *b);
void bell_ring(struct loop_bell *b);

uint64_t loop_now_ms(const struct loop *l); /* monotonic, as of this beat; for timeouts */

#endif
