/* client.c - calls: one at a time on a private loop, or many on the caller's loop. */
#include "http/client.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/world.h"
#include "http/transfer.h"

enum {
    REQUEST_LIMIT_BYTES = 64 << 20,
    FIRST_BYTES = 4096,
    SLACK_BYTES = 64 << 10, /* chunk framing, and bytes of one read beyond the body */
};

static void transfer_buffers(struct transfer *t, const struct http_call *call)
{
    t->wire.fd = -1;
    buf_init(&t->request, FIRST_BYTES, REQUEST_LIMIT_BYTES);
    buf_init(&t->reply, FIRST_BYTES, LIMIT_HEAD_BYTES + call->reply_max + SLACK_BYTES);
}

/* -- blocking ---------------------------------------------------------------------------- */

struct http_client {
    /* its addresses: from the latest lookup, the one that answered last first */
    struct http_peer to;
    struct lookup *lookup; /* running, or NULL: it may outlast the call that started it */
    struct loop_fd lookup_watch;
    struct loop_timer lookup_patience;
    struct loop *loop;
    struct loop_wakeup wakeup;
    _Atomic bool interrupted;
    struct transfer transfer; /* holds the latest answer, and its connection if that is kept */
    bool running;
    enum err outcome;
};

static struct http_client *client_of(struct transfer *t)
{
    return link_owner(t, struct http_client, transfer);
}

/* Only wakes the loop: http_call() looks at the flag after each turn. */
static void wakeup_received(struct loop_wakeup *b) { (void)b; }

enum err http_client_create(struct str address, struct tls *tls, struct http_client **ret,
                            struct fault *f)
{
    struct http_peer to;
    enum err err = http_peer_read(address, tls, &to, f);
    if (err != ERR_OK) return err;
    struct http_client *c = calloc(1, sizeof *c);
    if (c == NULL) return fault_plain(f, ERR_FULL);
    c->to = to;
    c->transfer.wire.fd = -1;
    c->loop = loop_create();
    wakeup_start(c->loop, &c->wakeup, wakeup_received);
    *ret = c;
    return ERR_OK;
}

void http_client_destroy(struct http_client *c)
{
    if (c == NULL) return;
    transfer_fini(&c->transfer);
    lookup_leave(c->lookup);
    wakeup_stop(&c->wakeup);
    loop_destroy(c->loop);
    free(c);
}

void http_client_interrupt(struct http_client *c)
{
    atomic_store(&c->interrupted, true);
    wakeup_send(&c->wakeup);
}

static void call_done(struct transfer *t, enum err err)
{
    client_of(t)->running = false;
    client_of(t)->outcome = err;
}

static enum err interrupted(struct fault *f)
{
    return fault_set(f, ERR_CLOSED, "", "the call was interrupted");
}

/* Runs the loop until the transfer is done. ERR_CLOSED: the call was interrupted before. */
static enum err await(struct http_client *c, struct fault *f)
{
    while (c->running) {
        loop_turn(c->loop, true);
        if (!c->running || !atomic_exchange(&c->interrupted, false)) continue;
        c->running = false;
        return interrupted(f);
    }
    return ERR_OK;
}

static uint64_t left_ms(uint64_t until_ns)
{
    uint64_t now_ns = world_monotonic_ns();
    return until_ns > now_ns ? (until_ns - now_ns) / 1000000 : 0;
}

/* -- where the peer is -- */

static void lookup_over(struct loop_fd *w, int events)
{
    (void)events;
    link_owner(w, struct http_client, lookup_watch)->running = false;
}

static void lookup_late(struct loop_timer *t)
{
    link_owner(t, struct http_client, lookup_patience)->running = false;
}

static enum err locate(struct http_client *c, uint64_t most_ms, struct fault *f)
{
    if (c->to.is_fixed) return ERR_OK;
    if (c->lookup == NULL) c->lookup = http_peer_ask(&c->to);
    if (c->lookup == NULL) return fault_plain(f, ERR_FULL);
    c->running = true;
    loop_fd_start(c->loop, &c->lookup_watch, lookup_fd(c->lookup), LOOP_READ, lookup_over);
    loop_timer_start(c->loop, &c->lookup_patience, most_ms, lookup_late);
    enum err err = await(c, f);
    loop_fd_stop(c->loop, &c->lookup_watch);
    loop_timer_stop(c->loop, &c->lookup_patience);
    return err == ERR_OK ? http_peer_take(&c->to, &c->lookup, f) : err;
}

/* -- the call -- */

/* Whether nothing has happened on it since the last call. A connection that the peer has closed, or
 * on which it sent unrequested bytes, is not used again. */
static bool is_quiet(const struct wire *w)
{
    char byte;
    return (w->tls == NULL || !tls_has_more(w->tls)) &&
           recv(w->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK);
}

/* The connection of the previous call. */
static struct wire kept_connection(struct http_client *c)
{
    struct wire w = c->transfer.wire;
    c->transfer.wire = (struct wire){.fd = -1};
    if (w.fd >= 0 && !is_quiet(&w)) wire_close(&w);
    return w;
}

/* One attempt over `wire` (it is taken), or over a new connection. */
static enum err attempt(struct http_client *c, const struct http_call *call, struct wire wire,
                        uint64_t until_ns, struct fault *f)
{
    struct transfer *t = &c->transfer;
    transfer_fini(t);
    *t = (struct transfer){0};
    transfer_buffers(t, call);
    uint64_t most_ms = left_ms(until_ns);
    if (call->silence_ms > 0 && call->silence_ms < most_ms) most_ms = call->silence_ms;
    enum err err = wire.fd < 0 ? locate(c, most_ms, f) : ERR_OK;
    t->to = c->to;
    if (err == ERR_OK) err = transfer_prepare(t, call, true, f);
    if (err != ERR_OK) {
        wire_close(&wire);
        return err;
    }
    c->running = true;
    transfer_begin(t, c->loop, wire, (uint32_t)left_ms(until_ns), call_done);
    err = await(c, f);
    if (err != ERR_OK) {
        transfer_fini(t);
        *t = (struct transfer){.wire.fd = -1};
        return err;
    }
    if (c->outcome != ERR_OK && f != NULL) *f = t->fault;
    return c->outcome;
}

static bool may_repeat(const char *method, bool again)
{
    return strcmp(method, "POST") != 0 || again;
}

enum err http_call(struct http_client *c, const struct http_call *call, bool again,
                   struct http_answer *ret, struct fault *f)
{
    if (atomic_exchange(&c->interrupted, false)) return interrupted(f);
    uint64_t until_ns = world_monotonic_ns() + (uint64_t)call->timeout_ms * 1000000;
    struct wire kept = kept_connection(c);
    enum err err = attempt(c, call, kept, until_ns, f);
    bool stale = err == ERR_CLOSED && kept.fd >= 0 && c->transfer.loop != NULL &&
                 !transfer_has_begun_answer(&c->transfer);
    if (stale && may_repeat(call->method, again))
        err = attempt(c, call, (struct wire){.fd = -1}, until_ns, f);
    if (err != ERR_OK) return err;
    transfer_answer(&c->transfer, ret);
    /* the next connection must not also wait for a dead one */
    http_peer_prefer(&c->to, ret->place);
    return ERR_OK;
}

bool http_client_has_sent(const struct http_client *c) { return c->transfer.sent > 0; }

struct str http_answer_header(const struct http_answer *a, struct str name)
{
    return http_header_find(a->headers, a->header_count, name);
}

/* -- on a loop --------------------------------------------------------------------------- */

struct http_idle {
    struct loop *loop;
    unsigned generation; /* of its peer */
    unsigned count;
    struct {
        struct wire wire;
        uint64_t since_ms; /* of the loop's clock */
    } list[HTTP_IDLE_MAX]; /* the newest last */
};

struct http_idle *http_idle_create(struct loop *l)
{
    struct http_idle *i = calloc(1, sizeof *i);
    if (i != NULL) i->loop = l;
    return i;
}

void http_idle_clear(struct http_idle *i)
{
    i->generation++;
    while (i->count > 0) wire_close(&i->list[--i->count].wire);
}

void http_idle_destroy(struct http_idle *i)
{
    if (i == NULL) return;
    http_idle_clear(i);
    free(i);
}

/* The one that was used last, since it is the one most likely to be open. */
static struct wire idle_take(struct http_idle *i)
{
    struct wire w = {.fd = -1};
    while (i != NULL && i->count > 0 && w.fd < 0) {
        i->count--;
        w = i->list[i->count].wire;
        bool is_old = loop_now_ms(i->loop) - i->list[i->count].since_ms > HTTP_IDLE_MS;
        if (is_old || !is_quiet(&w)) wire_close(&w);
    }
    return w;
}

static void idle_give(struct http_idle *i, struct wire *w)
{
    if (i->count == HTTP_IDLE_MAX) return;
    i->list[i->count].wire = *w;
    i->list[i->count].since_ms = loop_now_ms(i->loop);
    i->count++;
    *w = (struct wire){.fd = -1};
}

struct http_outgoing {
    struct transfer transfer;
    struct http_idle *idle; /* or NULL */
    unsigned idle_generation;
    uint32_t timeout_ms;
    bool is_over_kept; /* its connection is from an earlier call */
    bool may_repeat;
    void (*done)(void *context, enum err err, const struct http_answer *answer);
    void *context;
    struct http_answer answer;
};

void http_call_cancel(struct http_outgoing *o)
{
    if (o == NULL) return;
    transfer_fini(&o->transfer);
    free(o);
}

static void outgoing_done(struct transfer *t, enum err err)
{
    struct http_outgoing *o = link_owner(t, struct http_outgoing, transfer);
    if (err == ERR_CLOSED && o->is_over_kept && o->may_repeat && !transfer_has_begun_answer(t)) {
        o->is_over_kept = false;
        transfer_again(t, o->timeout_ms);
        return;
    }
    if (err == ERR_OK) transfer_answer(t, &o->answer);
    if (err == ERR_OK && o->idle != NULL && t->may_keep && t->wire.fd >= 0 &&
        o->idle_generation == o->idle->generation)
        idle_give(o->idle, &t->wire);
    o->done(o->context, err, err == ERR_OK ? &o->answer : NULL);
    http_call_cancel(o);
}

static void told_later(struct loop_timer *timer)
{
    struct transfer *t = link_owner(timer, struct transfer, deadline);
    t->is_over = true;
    loop_timer_stop(t->loop, &t->deadline);
    outgoing_done(t, t->failed_early);
}

struct http_outgoing *
http_call_start(struct loop *l, const struct http_peer *to, const struct http_call *call,
                void (*done)(void *context, enum err err, const struct http_answer *answer),
                void *context)
{
    struct http_outgoing *o = calloc(1, sizeof *o);
    if (o == NULL) return NULL;
    o->done = done;
    o->context = context;
    o->timeout_ms = call->timeout_ms;
    o->may_repeat = may_repeat(call->method, false);
    o->idle = call->idle;
    struct transfer *t = &o->transfer;
    transfer_buffers(t, call);
    t->to = *to;
    enum err err = to->place_count > 0 ? ERR_OK : ERR_CLOSED;
    if (err == ERR_OK) err = transfer_prepare(t, call, o->idle != NULL, NULL);
    if (err == ERR_OK) err = transfer_own_body(t, NULL);
    if (err == ERR_OK) {
        struct wire kept = idle_take(o->idle);
        o->is_over_kept = kept.fd >= 0;
        if (o->idle != NULL) o->idle_generation = o->idle->generation;
        transfer_begin(t, l, kept, call->timeout_ms, outgoing_done);
    } else {
        t->loop = l;
        t->failed_early = fault_plain(&t->fault, err);
        loop_timer_start(l, &t->deadline, 0, told_later);
    }
    return o;
}

const char *http_call_trouble(const struct http_outgoing *o) { return o->transfer.fault.text; }
bool http_call_was_sent(const struct http_outgoing *o) { return o->transfer.sent > 0; }
