/* mailbox.c - a ring and an outbox for each ordered pair of reactors.
 *
 *   send   ──ring has a place, outbox is empty──> ring
 *     \────otherwise──> outbox ──flush──> ring ──take──> the receiver
 *
 * The outbox goes first, so calls of one pair arrive in the order in which they were sent. All
 * lists of one sender lie together, so that a turn without calls looks at one bit. The sender notes
 * the peers whose rings got calls, and wakes each of them once. */
#include "shards/mailbox.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/ring.h"

_Static_assert(LIMIT_REACTORS <= 64, "peers fit into the bits of one number");

struct outbox {
    struct call *first, *last;
};

struct sender {                 /* a reactor as sender */
    _Alignas(64) uint64_t news; /* peers whose rings got calls since the last flush */
    uint64_t stuffed;           /* peers with an outbox that holds something */
    struct outbox *outboxes;
};

struct receiver {               /* a reactor as receiver */
    _Alignas(64) unsigned peer; /* the peer that this turn reads from */
    unsigned taken;             /* from it, in this turn */
    bool more;                  /* a peer had more than MAILBOX_TAKE */
};

struct post {
    unsigned reactors;
    struct ring *rings; /* [from * reactors + to] */
    struct sender *senders;
    struct receiver *receivers;
};

static struct ring *ring_of(const struct post *p, unsigned from, unsigned to)
{
    return &p->rings[from * p->reactors + to];
}

/* Zeroed, on cache lines of its own: neighbours belong to other threads. */
static void *lines(size_t count, size_t size)
{
    size_t bytes = (count * size + 63) / 64 * 64;
    void *all = aligned_alloc(64, bytes);
    if (all != NULL) memset(all, 0, bytes);
    return all;
}

struct post *post_create(unsigned reactors)
{
    check(reactors > 0 && reactors <= LIMIT_REACTORS);
    struct post *p = calloc(1, sizeof *p);
    if (p == NULL) return NULL;
    p->reactors = reactors;
    p->rings = lines((size_t)reactors * reactors, sizeof *p->rings);
    p->senders = lines(reactors, sizeof *p->senders);
    p->receivers = lines(reactors, sizeof *p->receivers);
    bool all = p->rings != NULL && p->senders != NULL && p->receivers != NULL;
    for (unsigned i = 0; all && i < reactors; i++) {
        p->senders[i].outboxes = calloc(reactors, sizeof(struct outbox));
        all = p->senders[i].outboxes != NULL;
    }
    for (unsigned from = 0; all && from < reactors; from++)
        for (unsigned to = 0; to < reactors; to++)
            if (from != to) ring_init(ring_of(p, from, to), MAILBOX_PLACES);
    if (all) return p;
    post_destroy(p);
    return NULL;
}

void post_destroy(struct post *p)
{
    if (p == NULL) return;
    for (size_t i = 0; p->rings != NULL && i < (size_t)p->reactors * p->reactors; i++)
        ring_fini(&p->rings[i]);
    for (unsigned i = 0; p->senders != NULL && i < p->reactors; i++) free(p->senders[i].outboxes);
    free(p->rings);
    free(p->senders);
    free(p->receivers);
    free(p);
}

void mailbox_send(struct post *p, unsigned from, unsigned to, struct call *c)
{
    check(from < p->reactors && to < p->reactors &&
          from != to); /* calls within one reactor use no mailbox */
    struct sender *s = &p->senders[from];
    uint64_t bit = UINT64_C(1) << to;
    call_check(c);
    check(c->origin == from || c->origin == to); /* to the owner and back, nowhere else */
    c->next = NULL;
    if ((s->stuffed & bit) == 0 && ring_push(ring_of(p, from, to), c)) {
        s->news |= bit;
        return;
    }
    struct outbox *box = &s->outboxes[to];
    check((box->first != NULL) == ((s->stuffed & bit) != 0));
    if (box->first == NULL)
        box->first = c;
    else
        box->last->next = c;
    box->last = c;
    s->stuffed |= bit;
}

static void empty_outbox(struct post *p, unsigned from, unsigned to)
{
    check(from != to);
    struct sender *s = &p->senders[from];
    struct outbox *box = &s->outboxes[to];
    uint64_t bit = UINT64_C(1) << to;
    while (box->first != NULL) {
        struct call *c = box->first, *next = c->next; /* after the push the receiver owns it */
        check((next == NULL) == (c == box->last));
        if (!ring_push(ring_of(p, from, to), c)) return;
        box->first = next;
        s->news |= bit;
    }
    s->stuffed &= ~bit;
}

bool mailbox_flush(struct post *p, unsigned from, void (*ring)(void *context, unsigned peer),
                   void *context)
{
    check(from < p->reactors);
    struct sender *s = &p->senders[from];
    for (uint64_t left = s->stuffed; left != 0; left &= left - 1)
        empty_outbox(p, from, (unsigned)__builtin_ctzll(left));
    uint64_t news = s->news;
    s->news = 0;
    for (; news != 0; news &= news - 1) ring(context, (unsigned)__builtin_ctzll(news));
    return s->stuffed != 0;
}

struct call *mailbox_take(struct post *p, unsigned to, bool *ret_more)
{
    check(to < p->reactors);
    struct receiver *r = &p->receivers[to];
    for (; r->peer < p->reactors; r->peer++, r->taken = 0) {
        if (r->peer == to) continue;
        struct ring *ring = ring_of(p, r->peer, to);
        struct call *c = r->taken < MAILBOX_TAKE ? ring_pop(ring) : NULL;
        if (c != NULL) {
            call_check(c);
            r->taken++;
            c->next = NULL;
            return c;
        }
        check(r->taken <= MAILBOX_TAKE);
        if (r->taken == MAILBOX_TAKE && ring_depth(ring) > 0) r->more = true;
    }
    *ret_more = r->more;
    *r = (struct receiver){0};
    return NULL;
}

size_t mailbox_depth(const struct post *p, unsigned to)
{
    size_t depth = 0;
    for (unsigned from = 0; from < p->reactors; from++)
        if (from != to) depth += ring_depth(ring_of(p, from, to));
    return depth;
}
