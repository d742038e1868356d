/* lists.c - the lists of a server that a connection is on: of its phase, of its first closed barrier, of
 * work. What their timers do is the server's (server.c), which sets the two functions. */
#include "http/connection.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/world.h"

void server_phase_timer(struct http_server *s, uint64_t due_ms)
{
    if (due_ms >= s->phase_timer_ms) return;
    uint64_t now_ms = loop_now_ms(s->loop);
    loop_timer_start(s->loop, &s->phase_timer, due_ms > now_ms ? due_ms - now_ms : 0, s->phase_due);
    s->phase_timer_ms = due_ms;
}

void server_phase(struct http_connection *c, enum phase phase)
{
    if (phase == c->phase && !c->phase_restart) return;
    struct http_server *s = c->server;
    c->phase_restart = false;
    c->phase = phase;
    link_remove(&c->phase_link);
    if (phase == PHASE_NONE) return;
    c->phase_since_ms = loop_now_ms(s->loop);
    list_append(&s->phases[phase], &c->phase_link);
    server_phase_timer(s, c->phase_since_ms + s->phase_ms[phase]);
}

const char *server_date(struct http_server *s)
{
    uint64_t now_ms = loop_now_ms(s->loop);
    if (now_ms >= s->date_until_ms) {
        uint64_t wall_ms = world_now_ms();
        reply_write_date(wall_ms, s->date);
        s->date_until_ms = now_ms + (1000 - wall_ms % 1000);
    }
    return s->date;
}

void server_queue_work(struct http_connection *c)
{
    struct http_server *s = c->server;
    link_remove(&c->work_link);
    if (list_is_empty(&s->work)) loop_timer_start(s->loop, &s->work_timer, 0, s->work_due);
    list_append(&s->work, &c->work_link);
}

/* Blocks mostly increase, so the position is at or near the list's end. */
void server_barrier(struct http_connection *c)
{
    const struct output_barrier *barrier = output_barrier(&c->out);
    struct list *list = &c->server->at_barrier[barrier->lane - 1];
    struct link *before = list->head.previous;
    while (before != &list->head) {
        struct http_connection *other = link_owner(before, struct http_connection, barrier_link);
        if (output_barrier(&other->out)->block <= barrier->block) break;
        before = before->previous;
    }
    c->barrier_link.previous = before;
    c->barrier_link.next = before->next;
    before->next->previous = &c->barrier_link;
    before->next = &c->barrier_link;
}

void connection_free(struct http_connection *c)
{
    struct http_server *s = c->server;
    loop_fd_stop(s->loop, &c->watch);
    if (c->secure == SECURE_HANDSHAKE) s->handshakes.under_way--;
    tls_end(c->tls);
    c->tls = NULL;
    c->secure = SECURE_NOT;
    close(c->watch.fd);
    c->watch.fd = -1;
    for (; c->out.barrier_count > 0; c->out.barrier_count--) {
        s->waiting -= c->out.barriers[c->out.barrier_first].replies;
        c->out.barrier_first = (c->out.barrier_first + 1) % OUTPUT_BARRIERS;
    }
    if (c->stage == STAGE_HAND || c->stage == STAGE_DEFERRED || c->stage == STAGE_PARKED)
        s->waiting--;
    bool gone = c->stage == STAGE_DEFERRED && c->on_gone != NULL;
    c->stage = STAGE_CLOSING; /* no token finds it */
    if (gone) c->on_gone(c->on_gone_context);
    if ((c->notes.held[0] != NULL || c->notes.held[1] != NULL) && s->service.ended != NULL)
        s->service.ended(s->service.context, &c->notes);
    link_remove(&c->phase_link);
    link_remove(&c->barrier_link);
    link_remove(&c->work_link);
    link_remove(&c->arrived_link);
    if (!in_scratch(s, c->in.bytes)) pool_give(&s->pool, c->in.bytes, c->in.capacity, c->in.used);
    c->in = (struct input){0};
    output_fini(&c->out, &s->pool);
    memo_destroy(c->memo);
    c->memo = NULL;
    if (s->understood == c) s->understood = NULL;
    c->next_free = s->free;
    s->free = c;
    s->count--;
}
