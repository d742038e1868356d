/* review_list.c - pages of reviews, and the reviews of a trace id.
 *
 * A page is read from the orders of the tenant: of its states by age, or of what is pending by
 * deadline. Without filters its total is their size, and a
 * binary search finds the begin of the page. One actor's pending reviews are on their subject's
 * list. Any other filter reads the places of the whole order, by digests, and looks at a review
 * only if they match. A step reads a part of a long list and continues in a later turn behind the
 * ordinal that it has reached, so that other requests do not wait for it. Nothing here changes or records anything: a review past its deadline does not
 * count as pending, and is shown as expired if all states are requested. */
#include "base/check.h"
#include "shards/inside.h"

enum {
    /* reviews with one trace id that are looked at to find one that the requester may see */
    TRACE_WALK_MAX = 1024,
    COPIES_BYTES_MAX = 4 << 20, /* of a page's reviews: a larger one is cut */
    /* of one step, each about a quarter of a millisecond: */
    STEP_PLACES = 16384,    /* that are read */
    STEP_REVIEWS = 1024,    /* that are looked at */
    STEP_BYTES = 256 << 10, /* that are copied */
};

struct page {
    struct shard *shard;
    struct call *call;
    bool filtered;
    uint32_t actor, action;     /* digests of the filters; 0: none */
    uint32_t asker;             /* of a requester that sees only its own; 0: all */
    bool maybe_overdue;         /* some reviews may be past their deadline: look at each */
    uint32_t room;              /* of call->list.reviews */
    bool full;                  /* it takes no more */
    unsigned places, looked_at; /* of this step */
    size_t bytes_before;        /* of the copies, before this step */
};

/* Whether this step has done enough. */
static bool is_tired(const struct page *p)
{
    return p->places >= STEP_PLACES || p->looked_at >= STEP_REVIEWS ||
           p->call->list.bytes - p->bytes_before >= STEP_BYTES;
}

static bool is_asked_for(struct page *p, const struct review *r)
{
    const struct call *c = p->call;
    p->looked_at++;
    const struct review_facts *f = &r->facts;
    if (!str_is_absent(c->list.actor) && (f->is_user || !str_equal(f->subject, c->list.actor)))
        return false;
    if (!str_is_absent(c->list.action) && !str_equal(f->action, c->list.action)) return false;
    if (!str_is_absent(c->list.acting_for) && !str_equal(f->acting_for, c->list.acting_for))
        return false;
    return review_is_visible(r, c);
}

static bool place_matches(struct page *p, const struct order_place *place)
{
    if (p->actor != 0 && place->actor != p->actor) return false;
    if (p->action != 0 && place->action != p->action) return false;
    if (p->asker != 0 && place->asker != p->asker) return false;
    return !p->filtered || is_asked_for(p, place->item);
}

/* A list of one state omits reviews past the deadline of that state. */
static bool is_out_of_state(struct page *p, const struct review *r)
{
    p->looked_at++;
    check(r->tenant != NULL && str_equal(r->tenant->name, p->call->tenant));
    return p->maybe_overdue && !p->call->list.any_state && review_is_overdue(r, p->call->now_ms);
}

static void show(struct page *p, const struct review *r)
{
    struct call *c = p->call;
    if (p->full || c->list.count == p->room) return;
    c->list.bytes += review_size(&r->facts);
    if (c->list.bytes > COPIES_BYTES_MAX ||
        review_show(r, c->now_ms, c->arena, &c->list.reviews[c->list.count]) != ERR_OK) {
        p->full = true;
        return;
    }
    c->list.count++;
    check(c->list.count <= p->room);
}

/* ---- several orders as one ---- */

struct merge {
    const struct order *orders[REVIEW_STATES];
    struct order_cursor cursors[REVIEW_STATES];
    const struct order_place *heads[REVIEW_STATES];
    unsigned count;
};

static void merge_add(struct merge *m, const struct order *o, uint64_t after)
{
    check(m->count < REVIEW_STATES);
    m->orders[m->count] = o;
    m->cursors[m->count] = order_after(o, after);
    m->heads[m->count] = order_next(o, &m->cursors[m->count]);
    m->count++;
}

static const struct order_place *merge_next(struct merge *m)
{
    unsigned first = m->count;
    for (unsigned i = 0; i < m->count; i++)
        if (m->heads[i] != NULL &&
            (first == m->count || m->heads[i]->ordinal < m->heads[first]->ordinal))
            first = i;
    if (first == m->count) return NULL;
    const struct order_place *place = m->heads[first];
    m->heads[first] = order_next(m->orders[first], &m->cursors[first]);
    return place;
}

static struct merge merge_begin(const struct page *p, const struct review_tenant *n, uint64_t after)
{
    const struct call *c = p->call;
    struct merge m = {0};
    if (c->list.by_deadline) {
        merge_add(&m, &n->by_deadline, after);
        return m;
    }
    for (unsigned i = 0; i < REVIEW_STATES; i++)
        if (c->list.any_state || i == (unsigned)c->list.state) merge_add(&m, &n->states[i], after);
    return m;
}

/* ---- the ways to a page ---- */

/* Looks at every place: there are filters. Each of these is false if something is left. */
static bool read_all(struct page *p, const struct review_tenant *n)
{
    struct call *c = p->call;
    struct merge m = merge_begin(p, n, c->list.read_to);
    for (const struct order_place *place; (place = merge_next(&m)) != NULL;) {
        c->list.read_to = place->ordinal;
        p->places++;
        if (place_matches(p, place) && !is_out_of_state(p, place->item)) {
            c->list.total++;
            if (place->ordinal > c->list.after) show(p, place->item);
        }
        if (is_tired(p)) return false;
    }
    return true;
}

/* No filter, nothing overdue: the totals are known, and the page begins in the middle. */
static bool read_from(struct page *p, const struct review_tenant *n)
{
    struct call *c = p->call;
    struct merge m = merge_begin(p, n, c->list.is_begun ? c->list.read_to : c->list.after);
    for (unsigned i = 0; i < m.count && !c->list.is_begun; i++) c->list.total += m.orders[i]->size;
    for (const struct order_place *place;
         !p->full && c->list.count < p->room && (place = merge_next(&m)) != NULL;) {
        c->list.read_to = place->ordinal;
        if (!is_out_of_state(p, place->item)) show(p, place->item);
        if (is_tired(p)) return false;
    }
    if (c->list.total < c->list.count) c->list.total = c->list.count; /* some have left since */
    return true;
}

/* The pending reviews of one actor: at most a hundred. */
static bool read_subject(struct page *p)
{
    struct call *c = p->call;
    const struct review_subject *subject =
        review_subject_find(&p->shard->reviews, c->tenant, false, c->list.actor);
    if (subject == NULL) return true;
    review_subject_check(subject);
    for (const struct link *k = subject->pending.head.next; k != &subject->pending.head;
         k = k->next) {
        const struct review *r = link_owner(k, struct review, of_subject);
        if (r->facts.ordinal <= c->list.read_to) continue;
        c->list.read_to = r->facts.ordinal;
        if (is_asked_for(p, r) && !is_out_of_state(p, r)) {
            c->list.total++;
            if (r->facts.ordinal > c->list.after) show(p, r);
        }
        if (is_tired(p)) return false;
    }
    return true;
}

static bool maybe_overdue(const struct review_table *t, uint64_t now_ms)
{
    return wheel_next_ms(&t->wheel) <= now_ms;
}

static bool read_page(struct page *p, const struct review_tenant *n)
{
    const struct call *c = p->call;
    const bool is_pending = !c->list.any_state && c->list.state == REVIEW_PENDING;
    check(!c->list.by_deadline || is_pending);
    if (is_pending && p->actor != 0 && !c->list.by_deadline) return read_subject(p);
    return c->list.reads_all ? read_all(p, n) : read_from(p, n);
}

/* The first step of the call: room for the page, and how it is read. That stays the same over the
 * steps, or a part would be read twice or not at all. */
static void begin(const struct page *p, const struct review_tenant *n)
{
    struct call *c = p->call;
    size_t all = 0;
    for (unsigned i = 0; i < REVIEW_STATES; i++) all += n->states[i].size;
    c->list.room = c->list.limit < all ? c->list.limit : (uint32_t)all;
    c->list.reviews = arena_array(c->arena, struct review_facts, c->list.room + 1);
    c->list.reads_all = p->filtered || (p->maybe_overdue && !c->list.any_state);
    c->list.read_to = 0;
    c->list.bytes = 0;
}

void review_list_step(struct shard *s, struct call *c, struct effects *e)
{
    struct page p = {.shard = s, .call = c, .maybe_overdue = maybe_overdue(&s->reviews, c->now_ms)};
    const struct review_tenant *n = review_tenant_find(&s->reviews, c->tenant);
    if (!c->list.is_begun) {
        c->list.count = 0;
        c->list.total = 0;
        c->list.cut = false;
    }
    if (n == NULL) return;
    effects_reveal(e, n->block);
    if (!str_is_absent(c->list.actor)) p.actor = order_digest(c->list.actor);
    if (!str_is_absent(c->list.action)) p.action = order_digest(c->list.action);
    if (!c->requester.sees_all) p.asker = order_digest(c->requester.principal);
    p.filtered = p.actor != 0 || p.action != 0 || !str_is_absent(c->list.acting_for) ||
                 !c->requester.sees_all;
    if (!c->list.is_begun) begin(&p, n);
    p.room = c->list.room;
    p.bytes_before = c->list.bytes;
    p.full = c->list.reviews == NULL || c->list.cut;
    const bool is_done = read_page(&p, n);
    c->list.cut = p.full;
    if (p.full && c->list.count == 0) c->err = ERR_OVERLOADED;
    c->list.is_begun = !is_done && c->err == ERR_OK;
    check(c->list.count <= c->list.limit);
    check(!is_done || c->list.count <= c->list.total);
    if (c->list.is_begun) effects_pause(e);
}

/* Returns only ids: the client then requests one of them. */
void review_find_step(struct shard *s, struct call *c, struct effects *e)
{
    const uint32_t room = c->list.limit < CALL_TRACES_MAX ? c->list.limit : CALL_TRACES_MAX;
    c->list.count = 0;
    c->list.total = 0;
    c->list.cut = false;
    c->list.reviews = arena_array(c->arena, struct review_facts, CALL_TRACES_MAX);
    if (c->list.reviews == NULL) {
        c->err = ERR_OVERLOADED;
        return;
    }
    const struct review_trace *k = review_trace_find(&s->reviews, c->tenant, c->list.trace_id);
    for (unsigned steps = 0; k != NULL && c->list.count < room; k = k->next) {
        if (++steps > TRACE_WALK_MAX) { /* a trace id that so many reviews share identifies none */
            c->err = ERR_AMBIGUOUS_TRACE;
            return;
        }
        if (!review_is_visible(k->review, c)) continue;
        c->list.reviews[c->list.count++].id = k->review->facts.id;
        effects_reveal(e, k->review->block);
    }
    c->list.total = c->list.count;
    check(c->list.count <= room);
}
