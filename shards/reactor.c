#include "shards/reactor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/ring.h"
#include "base/thread.h"

enum { INBOX_PLACES = 4096 }; /* sockets accepted and not yet taken; beyond it they are refused */

struct reactor {
    const struct reactor_ports *ports;
    void *context;
    pthread_t thread;
    struct loop *loop;
    struct loop_wakeup wakeup;
    struct ring inbox; /* of struct reactor_message, malloced by the sender */
    bool stopping;
};

/* the wakeup only has to end the wait */
static void wakeup_received(struct loop_wakeup *b) { (void)b; }

static void take_messages(struct reactor *r)
{
    struct reactor_message *m;
    while ((m = ring_pop(&r->inbox)) != NULL) {
        if (m->kind == REACTOR_STOP)
            r->stopping = true;
        else
            r->ports->told(r->context, m);
        free(m);
    }
}

static void *reactor_run(void *argument)
{
    struct reactor *r = argument;
    r->ports->enter(r->context, r->loop);
    while (!r->stopping) {
        take_messages(r);
        r->ports->begin(r->context);
        /* the wakeup of these messages has been taken already */
        loop_turn(r->loop, !r->stopping);
        r->ports->end(r->context);
    }
    r->ports->leave(r->context);
    return NULL;
}

enum err reactor_create(unsigned index, const struct reactor_ports *ports, void *context,
                        struct reactor **ret)
{
    struct reactor *r = calloc(1, sizeof *r);
    if (r == NULL) return ERR_FULL;
    r->ports = ports;
    r->context = context;
    ring_init(&r->inbox, INBOX_PLACES);
    r->loop = loop_create();
    wakeup_start(r->loop, &r->wakeup, wakeup_received);
    *ret = r; /* before the thread runs, because its ports may read it */

    char name[16];
    snprintf(name, sizeof name, "reactor-%u", index);
    thread_start(&r->thread, name, reactor_run, r);
    return ERR_OK;
}

enum err reactor_tell(struct reactor *r, const struct reactor_message *m)
{
    struct reactor_message *copy = malloc(sizeof *copy);
    if (copy == NULL) return ERR_FULL;
    *copy = *m;
    if (!ring_push(&r->inbox, copy)) {
        free(copy);
        return ERR_FULL;
    }
    wakeup_send(&r->wakeup);
    return ERR_OK;
}

void reactor_wake(struct reactor *r) { wakeup_send(&r->wakeup); }

void reactor_join(struct reactor *r)
{
    if (r == NULL) return;
    check(pthread_join(r->thread, NULL) == 0);
    for (struct reactor_message *m; (m = ring_pop(&r->inbox)) != NULL; free(m))
        if (m->kind == REACTOR_SOCKET) close(m->fd);
}

void reactor_destroy(struct reactor *r)
{
    if (r == NULL) return;
    wakeup_stop(&r->wakeup);
    loop_destroy(r->loop);
    ring_fini(&r->inbox);
    free(r);
}
