/* reactor.h - one thread, its loop and its turn.
 *
 * A reactor owns everything that lives on its thread. Other threads give it sockets and messages
 * only by reactor_tell(), which never waits, and wake it by reactor_wake(). Each turn takes the
 * messages, passes them to the ports, then runs `begin`, sockets and timers, and `end` (where the
 * owner seals its records, wakes others and releases replies). The owner provides the ports, so
 * that shards depend neither on the meaning of sockets nor on the journal. */
#ifndef SHARDS_REACTOR_H
#define SHARDS_REACTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "loop/loop.h"

struct reactor;

enum reactor_message_kind {
    REACTOR_SOCKET, /* an accepted socket: the receiver owns `fd` */
    REACTOR_DRAIN,  /* finish the work at hand, take nothing new */
    REACTOR_STOP,   /* leave the thread after this turn */
};

struct reactor_message {
    enum reactor_message_kind kind;
    int fd;
    unsigned char socket; /* its kind (http/socket_kind.h) */
};

struct reactor_ports {
    void (*enter)(void *context, struct loop *loop); /* on the new thread, before the first turn */
    void (*begin)(void *context);
    void (*told)(void *context, const struct reactor_message *m); /* never REACTOR_STOP */
    void (*end)(void *context);
    void (*leave)(void *context); /* on the thread, after the last turn */
};

/* Starts the thread. `ports` and `context` outlive it. ERR_FULL: no memory. */
enum err reactor_create(unsigned index, const struct reactor_ports *ports, void *context,
                        struct reactor **ret);
/* Sends a message; from one thread at a time. ERR_FULL: its inbox is full, or there is no memory;
 * nothing was sent. */
enum err reactor_tell(struct reactor *r, const struct reactor_message *m);
void reactor_wake(struct reactor *r); /* any thread: one more turn soon */
/* after REACTOR_STOP; the thread has ended, and waking is still harmless */
void reactor_join(struct reactor *r);
/* after reactor_join(), when no thread wakes it any more */
void reactor_destroy(struct reactor *r);

#endif
