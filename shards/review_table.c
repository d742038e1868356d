/* review_table.c - the life of a review in memory: opened, voted on, moved, dropped.
 *
 *   memory first, then change: everything that can fail is done before any index changes
 *
 * A review and all strings it was opened with are one allocation; votes, resolutions, redemptions
 * and further traces are pieces in a list of its own, and are freed with it. */
#include "shards/review_table.h"

#include <stdlib.h>

#include "base/check.h"
#include "json/json.h"
#include "shards/review_index.h"

enum {
    SCRATCH_FIRST_BYTES = 8 << 10,
    SCRATCH_BYTES_MAX = 1 << 20, /* a requirements list as JSON nodes */
    FILING_BYTES = 368,          /* about the bytes that maps and orders use for one review */
    ASKER_BYTES_MAX = 2 * NAME_BYTES_MAX + 1,
    ENDED_WALK_MAX = 64, /* images loaded in no order are sorted by age only nearly */
};

struct review_piece {
    struct review_piece *next;
    _Alignas(16) char bytes[];
};

void review_table_init(struct review_table *t, size_t count_max, size_t bytes_max)
{
    *t = (struct review_table){0};
    shares_init(&t->shares, "reviews", count_max, bytes_max);
    list_init(&t->ended);
    wheel_init(&t->wheel, 0);
    wheel_init(&t->waits, 0);
    arena_init(&t->scratch, SCRATCH_FIRST_BYTES, SCRATCH_BYTES_MAX);
}

static void pieces_free(struct review *r)
{
    while (r->pieces != NULL) {
        struct review_piece *next = r->pieces->next;
        free(r->pieces);
        r->pieces = next;
    }
}

static void review_free(struct review *r)
{
    pieces_free(r);
    free(r);
}

void review_table_fini(struct review_table *t)
{
    size_t at = 0;
    struct str key;
    void *value;
    while (map_next(&t->by_id, &at, &key, &value)) review_free(value);
    for (at = 0; map_next(&t->by_subject, &at, &key, &value);) free(value);
    for (at = 0; map_next(&t->by_spelling, &at, &key, &value);) free(value);
    for (at = 0; map_next(&t->tenants, &at, &key, &value);) review_tenant_destroy(value);
    map_fini(&t->by_id);
    map_fini(&t->by_same);
    map_fini(&t->by_subject);
    map_fini(&t->by_spelling);
    map_fini(&t->by_trace);
    map_fini(&t->tenants);
    order_spare_fini(&t->spare);
    order_spare_fini(&t->deadline_spare);
    shares_fini(&t->shares);
    if (t->scratch.first != NULL) arena_fini(&t->scratch);
}

/* ---- memory of one review ---- */

static void *piece_take(struct review_table *t, struct review *r, size_t size)
{
    struct review_piece *p = malloc(sizeof *p + size);
    if (p == NULL) return NULL;
    p->next = r->pieces;
    r->pieces = p;
    r->bytes += sizeof *p + size;
    shares_grow(&t->shares, r->share, sizeof *p + size);
    return p->bytes;
}

/* Copies to *to and moves it on; empty becomes absent. */
static struct str text_keep(char **to, struct str text)
{
    if (text.size == 0) return (struct str){0};
    char *at = *to;
    memcpy(at, text.bytes, text.size);
    *to = at + text.size;
    return str_of(at, text.size);
}

/* ---- requirements ---- */

static bool needs_read(struct review_table *t, struct str requirements, struct review_needs *ret)
{
    static const struct json_options options = {0};
    struct json *list;
    struct fault f;
    struct review_needs needs = {0};
    arena_reset(&t->scratch);
    if (requirements.size > 0) {
        if (json_read(requirements, &options, &t->scratch, &list, &f) != ERR_OK ||
            !json_is_array(list))
            return false;
        for (const struct json *one = list->child; one != NULL; one = one->next) {
            uint64_t approvals = json_u64(one, STR("approvals"), 1);
            const struct json *by = json_get(one, STR("by"));
            if (!json_is_object(one) || needs.count == REVIEW_REQUIREMENTS_MAX) return false;
            if (approvals == 0 || approvals > REVIEW_VOTES_MAX ||
                (by != NULL && !json_is_array(by)))
                return false;
            if (by == NULL || by->count == 0) needs.open |= UINT32_C(1) << needs.count;
            needs.approvals[needs.count++] = (uint8_t)approvals;
        }
    }
    if (needs.count == 0) needs = (struct review_needs){.count = 1, .approvals = {1}, .open = 1};
    *ret = needs;
    check(needs.count > 0 && needs.count <= REVIEW_REQUIREMENTS_MAX);
    return true;
}

uint32_t review_meets(const struct review *r, uint32_t given)
{
    uint32_t known = r->needs.count == 32 ? UINT32_MAX : (UINT32_C(1) << r->needs.count) - 1;
    return (given & known) | r->needs.open;
}

bool review_has_quorum(const struct review *r, const struct review_vote *more)
{
    check(r->needs.count > 0); /* otherwise no vote would be needed */
    for (unsigned i = 0; i < r->needs.count; i++) {
        size_t votes = more != NULL && (more->meets >> i & 1) != 0;
        for (size_t v = 0; v < r->facts.approval_count; v++) votes += r->votes[v].meets >> i & 1;
        if (votes < r->needs.approvals[i]) return false;
    }
    return true;
}

/* ---- time ---- */

/* 0: it has not ended. */
static uint64_t ended_ms(const struct review_facts *f)
{
    switch (f->state) {
    case REVIEW_DENIED:
    case REVIEW_CANCELLED: return f->resolved_ms;
    case REVIEW_EXPIRED:
        return f->approval_expires_ms > 0 ? f->approval_expires_ms : f->resolved_ms;
    case REVIEW_REDEEMED: return f->redeemed_ms;
    case REVIEW_PENDING:
    case REVIEW_APPROVED: return 0;
    }
    check(false);
    return 0;
}

/* `of_review`: where the link is in its review. */
static const struct review *review_at(const struct link *k, size_t of_review)
{
    return (const struct review *)(const void *)((const char *)k - of_review);
}

static void ended_put(struct list *list, struct link *k, size_t of_review)
{
    uint64_t at = ended_ms(&review_at(k, of_review)->facts);
    struct link *before = list->head.previous;
    for (unsigned steps = 0; steps < ENDED_WALK_MAX && before != &list->head;
         steps++, before = before->previous)
        if (ended_ms(&review_at(before, of_review)->facts) <= at) break;
    *k = (struct link){.previous = before, .next = before->next};
    before->next->previous = k;
    before->next = k;
}

static void ended_file(struct review_table *t, struct review *r)
{
    ended_put(&t->ended, &r->ended, offsetof(struct review, ended));
    ended_put(&r->share->parent->ended, &r->ended_of_tenant,
              offsetof(struct review, ended_of_tenant));
    ended_put(&r->share->ended, &r->ended_of_key, offsetof(struct review, ended_of_key));
}

static void ended_unfile(struct review *r)
{
    link_remove(&r->ended);
    link_remove(&r->ended_of_tenant);
    link_remove(&r->ended_of_key);
}

/* ---- indexing by state ---- */

static struct order_place place_of(struct review *r)
{
    const struct review_facts *f = &r->facts;
    return (struct order_place){.ordinal = f->ordinal,
                                .item = r,
                                .actor = f->is_user ? 0 : order_digest(f->subject),
                                .action = order_digest(f->action),
                                .asker = order_digest(f->principal)};
}

/* Puts it on the list of its state. order_ready() was true, and one that has not ended has `s`. */
static void state_file(struct review_table *t, struct review *r, struct review_subject *s)
{
    check(review_state_is_end(r->facts.state) || s != NULL);
    check(!link_is_on(&r->ended) && r->subject == NULL && r->share->parent != NULL);
    struct order_place place = place_of(r);
    order_put(&r->tenant->states[r->facts.state], &t->spare, &place);
    t->count_by_state[r->facts.state]++;
    if (r->facts.state == REVIEW_PENDING) {
        place.ordinal = r->deadline_place = review_deadline_position(&r->facts);
        order_put(&r->tenant->by_deadline, &t->deadline_spare, &place);
    }
    if (review_state_is_end(r->facts.state)) {
        ended_file(t, r);
        return;
    }
    review_subject_add(s, r);
    wheel_add(&t->wheel, &r->timer, review_deadline_ms(r));
}

static void state_unfile(struct review_table *t, struct review *r)
{
    check(t->count_by_state[r->facts.state] > 0);
    order_remove(&r->tenant->states[r->facts.state], &t->spare, r->facts.ordinal, r);
    if (r->facts.state == REVIEW_PENDING)
        order_remove(&r->tenant->by_deadline, &t->deadline_spare, r->deadline_place, r);
    t->count_by_state[r->facts.state]--;
    if (r->subject != NULL) review_subject_remove(r);
    ended_unfile(r);
    wheel_remove(&t->wheel, &r->timer);
}

/* ---- opening ---- */

static size_t texts_size(const struct review_facts *f)
{
    return REVIEW_DIGEST_BYTES + f->principal.size + 1 + f->tenant.size + 1 + f->owner.size +
           f->trace_id.size + 1 + f->tenant.size + f->subject.size + f->acting_for.size +
           f->action.size + f->item.size + f->requirements.size + f->votes_approved.size +
           f->resolver.size + f->resolver_owner.size + f->resolved_by.size + f->note.size +
           f->redemption.size;
}

size_t review_size(const struct review_facts *f)
{
    return sizeof(struct review) + texts_size(f) + FILING_BYTES;
}

/* `first`, NUL, the tenant; *ret_tenant is the tenant's bytes. */
static struct str keyed(char **to, struct str first, struct str tenant, struct str *ret_tenant)
{
    char *start = *to, *at = start;
    text_keep(&at, first);
    *at++ = '\0';
    *ret_tenant = text_keep(&at, tenant);
    *to = at;
    return str_of(start, (size_t)(at - start));
}

static void texts_keep(struct review *r, const struct review_facts *f, char *to)
{
    struct review_facts *own = &r->facts;
    struct str ignored;
    char *start = to;
    text_keep(&to, str_of((const char *)f->request.bytes, REVIEW_DIGEST_BYTES));
    char *principal = to;
    keyed(&to, f->principal, f->tenant, &own->tenant);
    own->principal = f->principal.size > 0 ? str_of(principal, f->principal.size) : (struct str){0};
    *to++ = '\0';
    own->owner = text_keep(&to, f->owner);
    r->same_key = str_of(start, (size_t)(to - start));
    r->trace.key = keyed(&to, f->trace_id, f->tenant, &ignored);
    own->trace_id =
        f->trace_id.size > 0 ? str_of(r->trace.key.bytes, f->trace_id.size) : (struct str){0};
    own->subject = text_keep(&to, f->subject);
    own->acting_for = text_keep(&to, f->acting_for);
    own->action = text_keep(&to, f->action);
    own->item = text_keep(&to, f->item);
    own->requirements = text_keep(&to, f->requirements);
    own->votes_approved = text_keep(&to, f->votes_approved);
    own->resolver = text_keep(&to, f->resolver);
    own->resolver_owner = text_keep(&to, f->resolver_owner);
    own->resolved_by = text_keep(&to, f->resolved_by);
    own->note = text_keep(&to, f->note);
    own->redemption = text_keep(&to, f->redemption);
    check((size_t)(to - start) <= texts_size(f));
}

static bool facts_are_sound(const struct review_facts *f)
{
    const struct str names[] = {f->tenant,     f->subject, f->principal, f->owner,
                                f->acting_for, f->action,  f->trace_id};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].size > NAME_BYTES_MAX) return false;
    return f->tenant.size > 0 && f->subject.size > 0 && f->principal.size > 0 &&
           (unsigned)f->state < REVIEW_STATES;
}

/* Puts it into every index except that of its state; if memory runs out, removes it from all
 * again. */
static bool indexes_file(struct review_table *t, struct review *r)
{
    struct str id = str_of((const char *)r->facts.id.bytes, ID_BYTES);
    bool has_ended = review_state_is_end(r->facts.state);
    if (!map_put(&t->by_id, id, r)) return false;
    if (has_ended || review_same_file(t, r)) {
        if (str_is_absent(r->facts.trace_id) || review_trace_file(t, r, &r->trace)) return true;
        if (!has_ended) review_same_remove(t, r);
    }
    map_remove(&t->by_id, id);
    return false;
}

static enum err file(struct review_table *t, struct review *r)
{
    const struct review_facts *f = &r->facts;
    struct review_subject *subject = NULL;
    r->tenant = review_tenant_take(t, f->tenant);
    if (r->tenant == NULL || !order_ready(&r->tenant->states[f->state], &t->spare)) return ERR_FULL;
    if (f->state == REVIEW_PENDING && !order_ready(&r->tenant->by_deadline, &t->deadline_spare))
        return ERR_FULL;
    if (!review_state_is_end(f->state)) {
        subject = review_subject_take(t, f->tenant, f->is_user, f->subject);
        if (subject == NULL) return ERR_FULL;
    }
    if (!indexes_file(t, r)) {
        if (subject != NULL) review_subject_release(t, subject);
        return ERR_FULL;
    }
    state_file(t, r, subject);
    return ERR_OK;
}

/* A key's name and owner: keys that share both count as one, and so do those of a rotation. */
static struct share_asker asker_of(const struct review_facts *f, char key[ASKER_BYTES_MAX])
{
    struct buf b = buf_over(key, ASKER_BYTES_MAX);
    buf_put(&b, f->principal);
    buf_put_byte(&b, '\0');
    buf_put(&b, f->owner);
    check(!b.overflow);
    return (struct share_asker){.tenant = f->tenant, .key = buf_view(&b)};
}

static struct share *enter(struct review_table *t, const struct review_facts *f, size_t bytes)
{
    char key[ASKER_BYTES_MAX];
    const struct share_asker who = asker_of(f, key);
    return shares_enter(&t->shares, &who, bytes, f->enqueued_ms);
}

enum err review_open(struct review_table *t, const struct review_facts *f, struct review **ret)
{
    struct review_needs needs;
    if (!facts_are_sound(f) || !needs_read(t, f->requirements, &needs)) return ERR_CORRUPT;
    if (review_find(t, f->id) != NULL) return ERR_CORRUPT;
    if (f->state == REVIEW_PENDING &&
        review_find_same(t, f->tenant, f->principal, f->owner, &f->request) != NULL)
        return ERR_CORRUPT;

    size_t size = sizeof(struct review) + texts_size(f);
    struct review *r = malloc(size);
    if (r == NULL) return ERR_FULL;
    *r = (struct review){.facts = *f, .needs = needs, .bytes = size + FILING_BYTES};
    r->facts.approvals = NULL;
    r->facts.approval_count = 0;
    texts_keep(r, f, (char *)(r + 1));
    r->share = enter(t, &r->facts, r->bytes);
    enum err err = r->share == NULL ? ERR_FULL : file(t, r);
    if (err != ERR_OK) {
        if (r->share != NULL) shares_leave(&t->shares, r->share, r->bytes);
        free(r);
        return err;
    }
    if (f->ordinal > t->ordinal_max) t->ordinal_max = f->ordinal;
    review_check(r);
    review_table_check(t);
    *ret = r;
    return ERR_OK;
}

/* ---- dropping ---- */

void review_drop(struct review_table *t, struct review *r)
{
    review_check(r);
    check(r->waiters == NULL);
    struct review_subject *subject = r->subject;
    if (subject != NULL) review_same_remove(t, r);
    state_unfile(t, r);
    if (subject != NULL) review_subject_release(t, subject);
    review_traces_remove(t, r);
    check(map_remove(&t->by_id, str_of((const char *)r->facts.id.bytes, ID_BYTES)) == r);
    shares_leave(&t->shares, r->share, r->bytes);
    review_free(r);
    review_table_check(t);
}

/* The oldest ended review that may go; NULL: there is none. */
static struct review *ended_oldest(struct review_table *t, enum err err, struct share *key)
{
    struct list *list = &t->ended;
    if (err != ERR_FULL && key == NULL) return NULL;
    if (err == ERR_QUOTA_KEY) list = &key->ended;
    if (err == ERR_QUOTA_TENANT) list = &key->parent->ended;
    struct link *first = list->head.next;
    if (first == &list->head) return NULL;
    if (err == ERR_QUOTA_KEY) return link_owner(first, struct review, ended_of_key);
    if (err == ERR_QUOTA_TENANT) return link_owner(first, struct review, ended_of_tenant);
    return link_owner(first, struct review, ended);
}

enum err review_make_room(struct review_table *t, const struct review_facts *f, uint64_t now_ms,
                          struct quota *ret)
{
    char key[ASKER_BYTES_MAX];
    const struct share_asker who = asker_of(f, key);
    enum err err;
    while ((err = shares_ask(&t->shares, &who, review_size(f), now_ms, ret)) != ERR_OK) {
        struct review *oldest = ended_oldest(t, err, shares_find(&t->shares, &who));
        if (oldest == NULL) break;
        review_drop(t, oldest);
    }
    review_table_check(t);
    return err;
}

void review_table_prune(struct review_table *t, uint64_t now_ms, size_t most)
{
    for (; most > 0 && review_forget_ms(t) <= now_ms; most--)
        review_drop(t, link_owner(t->ended.head.next, struct review, ended));
}

uint64_t review_forget_ms(const struct review_table *t)
{
    if (list_is_empty(&t->ended)) return UINT64_MAX;
    return ended_ms(&link_owner(t->ended.head.next, struct review, ended)->facts) + REVIEW_KEPT_MS;
}

/* ---- votes ---- */

enum err review_vote(struct review_table *t, struct review *r, const struct review_vote *v)
{
    review_check(r);
    size_t count = r->facts.approval_count;
    if (count == REVIEW_VOTES_MAX) return ERR_FULL;
    if (count == r->votes_room) {
        size_t room = count == 0 ? 1 : count * 2;
        struct review_vote *votes = piece_take(t, r, room * sizeof *votes);
        if (votes == NULL) return ERR_FULL;
        if (count > 0) memcpy(votes, r->votes, count * sizeof *votes);
        r->votes = votes;
        r->votes_room = room;
        r->facts.approvals = votes;
    }
    char *to = piece_take(
        t, r, v->principal.size + v->owner.size + v->by.size + v->note.size + v->claims.size);
    if (to == NULL) return ERR_FULL;
    r->votes[count] = (struct review_vote){
        .at_ms = v->at_ms, .meets = v->meets, .key = v->key, .proof = v->proof};
    r->votes[count].principal = text_keep(&to, v->principal);
    r->votes[count].owner = text_keep(&to, v->owner);
    r->votes[count].by = text_keep(&to, v->by);
    r->votes[count].note = text_keep(&to, v->note);
    r->votes[count].claims = text_keep(&to, v->claims);
    r->facts.approval_count++;
    check(r->facts.approval_count <= r->votes_room);
    review_check(r);
    return ERR_OK;
}

/* ---- moves ---- */

static bool arrow_exists(enum review_state from, enum review_state to)
{
    switch (from) {
    case REVIEW_PENDING:
        return to == REVIEW_APPROVED || to == REVIEW_DENIED || to == REVIEW_EXPIRED ||
               to == REVIEW_CANCELLED;
    case REVIEW_APPROVED:
        return to == REVIEW_REDEEMED || to == REVIEW_EXPIRED || to == REVIEW_CANCELLED;
    default: return false;
    }
}

/* Keeps the resolver's names: of an approval, those of the last vote. */
static void resolver_keep(struct review *r, const struct review_facts *after, char **to)
{
    struct review_facts *own = &r->facts;
    if (after->state == REVIEW_APPROVED) {
        check(own->approval_count > 0);
        const struct review_vote *last = &r->votes[own->approval_count - 1];
        own->resolver = last->principal;
        own->resolver_owner = last->owner;
        own->resolved_by = last->by;
        own->note = last->note;
    } else {
        own->resolver = text_keep(to, after->resolver);
        own->resolver_owner = text_keep(to, after->resolver_owner);
        own->resolved_by = text_keep(to, after->resolved_by);
        own->note = text_keep(to, after->note);
    }
}

enum err review_move(struct review_table *t, struct review *r, const struct review_facts *after)
{
    review_check(r);
    struct review_facts *own = &r->facts;
    if (!arrow_exists(own->state, after->state)) return ERR_CORRUPT;
    if (after->state == REVIEW_APPROVED && own->approval_count == 0) return ERR_CORRUPT;
    char *to = piece_take(t, r,
                          after->resolver.size + after->resolver_owner.size +
                              after->resolved_by.size + after->note.size + after->redemption.size);
    if (to == NULL || !order_ready(&r->tenant->states[after->state], &t->spare)) return ERR_FULL;

    struct review_subject *subject = r->subject;
    if (own->state == REVIEW_PENDING || after->state == REVIEW_CANCELLED)
        resolver_keep(r, after, &to);
    if (review_state_is_end(after->state)) review_same_remove(t, r);
    state_unfile(t, r);
    r->claimed = false;
    own->state = after->state;
    own->resolved_ms = after->resolved_ms;
    own->approval_expires_ms = after->approval_expires_ms;
    own->redeemed_ms = after->redeemed_ms;
    own->cancelled_by = after->cancelled_by;
    own->retry_key = after->retry_key;
    own->retry_body = after->retry_body;
    own->redemption = text_keep(&to, after->redemption);
    state_file(t, r, subject);
    review_subject_release(t, subject);
    review_check(r);
    review_table_check(t);
    return ERR_OK;
}

void review_end_by(struct review_table *t, struct review *r, uint64_t deadline_ms)
{
    struct review_facts *own = &r->facts;
    check(!review_state_is_end(own->state));
    uint64_t *ends = own->state == REVIEW_PENDING ? &own->expires_ms : &own->approval_expires_ms;
    if (*ends <= deadline_ms) return;
    wheel_remove(&t->wheel, &r->timer);
    *ends = deadline_ms;
    wheel_add(&t->wheel, &r->timer, *ends);
    check(review_deadline_ms(r) == deadline_ms);
}

/* ---- traces ---- */

enum err review_trace_add(struct review_table *t, struct review *r, struct str trace_id)
{
    if (trace_id.size == 0 || trace_id.size > NAME_BYTES_MAX || r->trace_count >= REVIEW_TRACES_MAX)
        return ERR_OK;
    for (const struct review_trace *k = r->traces; k != NULL; k = k->of_review)
        if (str_equal(review_trace_id(k), trace_id)) return ERR_OK;
    struct review_trace *k = piece_take(t, r, sizeof *k + trace_id.size + 1 + r->facts.tenant.size);
    if (k == NULL) return ERR_FULL;
    char *to = (char *)(k + 1);
    struct str ignored;
    *k = (struct review_trace){0};
    k->key = keyed(&to, trace_id, r->facts.tenant, &ignored);
    check(k->key.size == trace_id.size + 1 + r->facts.tenant.size);
    return review_trace_file(t, r, k) ? ERR_OK : ERR_FULL;
}

/* ---- waiting ---- */

void review_waiter_add(struct review_table *t, struct review *r, struct call *c)
{
    check(c->previous == NULL);
    check(r->waiter_count < LIMIT_WAITERS_PER_REVIEW);
    check(r->facts.state == REVIEW_PENDING || r->claimed);
    c->previous = &r->waiters;
    c->next = r->waiters;
    if (c->next != NULL) c->next->previous = &c->next;
    r->waiters = c;
    r->waiter_count++;
    t->waiter_count++;
    wheel_add(&t->waits, &c->timer, c->review.deadline_ms);
    review_check(r);
}

void review_waiter_remove(struct review_table *t, struct call *c)
{
    struct review *r = review_find(t, c->review.id);
    check(c->previous != NULL && r != NULL);
    check(*c->previous == c);
    check(r->waiter_count > 0 && t->waiter_count >= r->waiter_count);
    *c->previous = c->next;
    if (c->next != NULL) c->next->previous = c->previous;
    c->next = NULL;
    c->previous = NULL;
    r->waiter_count--;
    t->waiter_count--;
    wheel_remove(&t->waits, &c->timer);
    review_check(r);
}
