/* reactor.h - one thread, its loop and its beat.
 *
 * A reactor owns everything that lives on its thread. Others give it sockets and orders only by
 * reactor_tell(), which never waits, and wake it by reactor_wake(). Each beat: take what was told,
 * hand it over, `begin`, sockets and timers, `end` (where the owner seals its records, rings and
 * releases replies). The owner plugs in what to do by ports, so that shards know neither sockets'
 * meaning nor the journal. */
#ifndef SHARDS_REACTOR_H
#define SHARDS_REACTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "loop/loop.h"

struct reactor;

enum reactor_message_kind {
    REACTOR_SOCKET, /* an accepted socket: the receiver owns `fd` */
    REACTOR_DRAIN,  /* finish what is in hand, take nothing new */
    REACTOR_STOP,   /* leave the thread after this beat */
};

struct reactor_message {
    enum reactor_message_kind kind;
    int fd;
    bool is_unix;
};

struct reactor_ports {
    void (*enter)(void *context, struct loop *loop); /* on the new thread, before the first beat */
    void (*begin)(void *context);
    void (*told)(void *context, const struct reactor_message *m); /* never REACTOR_STOP */
    void (*end)(void *context);
    void (*leave)(void *context); /* on the thread, after the last beat */
};

/* Starts the thread. `ports` and `context` outlive it. ERR_FULL: no memory. */
enum err reactor_create(unsigned index, const struct reactor_ports *ports, void *context,
                        struct reactor **ret);
/* Tells; one teller thread at a time. ERR_FULL: its inbox is full, or there is no
 * memory; nothing was told. */
enum err reactor_tell(struct reactor *r, const struct reactor_message *m);
void reactor_wake(struct reactor *r); /* any thread: one more beat soon */
/* after REACTOR_STOP; the thread is gone, waking still harmless */
void reactor_join(struct reactor *r);
void reactor_destroy(struct reactor *r); /* joined, and nobody wakes it any more */

#endif
