/* review_index.c - the indexes of reviews: by subject, by tenant (orders), by trace.
 *
 * Subjects are made and freed with their reviews that have not ended; a tenant stays (there are few); traces
 * belong to their reviews. Removing from an index needs no memory. */
#include "shards/review_index.h"

#include <stdlib.h>

#include "base/check.h"
#include "spelling/spelling.h"

enum { KEY_BYTES_MAX = 4096 }; /* a digest, three names of 256 characters, NULs */

/* Puts `first`, NUL, `second` into `to`; false: no room (and then nothing is indexed under it). */
static bool key_put(struct buf *to, char kind, struct str first, struct str second)
{
    if (kind != '\0') buf_put_byte(to, kind);
    buf_put(to, first);
    buf_put_byte(to, '\0');
    buf_put(to, second);
    return !to->overflow;
}

struct review *review_find(const struct review_table *t, struct id id)
{
    return map_get(&t->by_id, str_of((const char *)id.bytes, ID_BYTES));
}

/* ---- the same request ---- */

static struct review *same_first(const struct review_table *t, struct str tenant,
                                 struct str principal, struct str owner,
                                 const struct review_digest *request)
{
    char bytes[KEY_BYTES_MAX];
    struct buf key = buf_over(bytes, sizeof bytes);
    buf_put(&key, str_of((const char *)request->bytes, REVIEW_DIGEST_BYTES));
    buf_put(&key, principal);
    buf_put_byte(&key, '\0');
    if (!key_put(&key, '\0', tenant, owner)) return NULL;
    return map_get(&t->by_same, buf_view(&key));
}

struct review *review_find_same(const struct review_table *t, struct str tenant,
                                struct str principal, struct str owner,
                                const struct review_digest *request)
{
    struct review *r = same_first(t, tenant, principal, owner, request);
    while (r != NULL && r->facts.state != REVIEW_PENDING) r = r->same_next;
    return r;
}

struct review *review_find_approved(const struct review_table *t, struct str tenant,
                                    struct str principal, struct str owner,
                                    const struct review_digest *request, uint64_t below,
                                    uint64_t now_ms)
{
    struct review *newest = NULL;
    for (struct review *r = same_first(t, tenant, principal, owner, request); r != NULL;
         r = r->same_next) {
        bool is_usable =
            r->facts.state == REVIEW_APPROVED && !r->claimed && !review_is_overdue(r, now_ms);
        if (is_usable && r->facts.ordinal < below &&
            (newest == NULL || r->facts.ordinal > newest->facts.ordinal))
            newest = r;
    }
    return newest;
}

/* The map's key lies in the head of the row. */
bool review_same_file(struct review_table *t, struct review *r)
{
    check(r->same_next == NULL && r->same_previous == NULL);
    struct review *head = map_get(&t->by_same, r->same_key);
    if (!map_put(&t->by_same, r->same_key, r)) return false;
    r->same_next = head;
    r->same_previous = NULL;
    if (head != NULL) head->same_previous = r;
    return true;
}

void review_same_remove(struct review_table *t, struct review *r)
{
    struct review *next = r->same_next, *previous = r->same_previous;
    check(next == NULL || next->same_previous == r);
    check(previous == NULL || previous->same_next == r);
    r->same_next = r->same_previous = NULL;
    if (next != NULL) next->same_previous = previous;
    if (previous != NULL) {
        previous->same_next = next;
        return;
    }
    check(map_remove(&t->by_same, r->same_key) == r);
    if (next != NULL) check(map_put(&t->by_same, next->same_key, next));
}

/* ---- subjects ---- */

struct review_subject *review_subject_find(const struct review_table *t, struct str tenant,
                                           bool is_user, struct str name)
{
    char bytes[KEY_BYTES_MAX];
    struct buf key = buf_over(bytes, sizeof bytes);
    if (!key_put(&key, is_user ? 'u' : 'a', tenant, name)) return NULL;
    return map_get(&t->by_subject, buf_view(&key));
}

/* ---- spellings ---- */

static struct str spelling_key(const uint64_t *hash)
{
    return str_of((const char *)hash, sizeof *hash);
}

static uint64_t hash_spelling(struct str tenant, struct str actor)
{
    uint64_t hash = spelling_hash(actor), of_tenant = hash_bytes(tenant.bytes, tenant.size);
    return hash == 0 ? 0 : ((of_tenant << 1 | of_tenant >> 63) ^ hash) | 1;
}

/* False: out of memory. */
static bool spelling_join(struct review_table *t, struct review_subject *s, uint64_t hash)
{
    check(s->spelling == NULL);
    struct review_spelling *p = map_get(&t->by_spelling, spelling_key(&hash));
    if (p == NULL) {
        p = malloc(sizeof *p);
        if (p == NULL) return false;
        p->hash = hash;
        list_init(&p->subjects);
        if (!map_put(&t->by_spelling, spelling_key(&p->hash), p)) {
            free(p);
            return false;
        }
    }
    s->spelling = p;
    list_append(&p->subjects, &s->of_spelling);
    return true;
}

static void spelling_leave(struct review_table *t, struct review_subject *s)
{
    struct review_spelling *p = s->spelling;
    if (p == NULL) return;
    link_remove(&s->of_spelling);
    if (!list_is_empty(&p->subjects)) return;
    check(map_remove(&t->by_spelling, spelling_key(&p->hash)) == p);
    free(p);
}

static struct review_subject *spelled_like(const struct review_table *t, uint64_t hash,
                                           struct str tenant, struct str actor)
{
    const struct review_spelling *p = map_get(&t->by_spelling, spelling_key(&hash));
    if (p == NULL) return NULL;
    list_each (&p->subjects, k, following) {
        struct review_subject *s = link_owner(k, struct review_subject, of_spelling);
        struct str name = str_skip(s->key, 1), of;
        (void)str_split(&name, '\0', &of);
        if (str_equal(of, tenant) && spelling_same(name, actor)) return s;
    }
    return NULL;
}

enum err review_subject_spelled(const struct review_table *t, struct str tenant, struct str actor,
                                struct review_subject **ret)
{
    uint64_t hash = hash_spelling(tenant, actor);
    if (hash == 0) return ERR_FULL;
    *ret = spelled_like(t, hash, tenant, actor);
    if (*ret == NULL) *ret = spelled_like(t, 0, tenant, actor);
    return *ret == NULL ? ERR_NOT_FOUND : ERR_OK;
}

/* ---- making and freeing subjects ---- */

struct review_subject *review_subject_take(struct review_table *t, struct str tenant, bool is_user,
                                           struct str name)
{
    struct review_subject *s = review_subject_find(t, tenant, is_user, name);
    if (s != NULL) return s;
    size_t size = tenant.size + name.size + 2;
    s = malloc(sizeof *s + size);
    if (s == NULL) return NULL;
    struct buf key = buf_over(s->bytes, size);
    check(key_put(&key, is_user ? 'u' : 'a', tenant, name));
    check(key.size == size);
    s->key = buf_view(&key);
    s->count = 0;
    list_init(&s->pending);
    list_init(&s->approved);
    s->spelling = NULL;
    s->of_spelling = (struct link){0};
    if (size > KEY_BYTES_MAX || !map_put(&t->by_subject, s->key, s)) {
        free(s);
        return NULL;
    }
    if (!is_user && !spelling_join(t, s, hash_spelling(tenant, name))) {
        review_subject_release(t, s);
        return NULL;
    }
    review_subject_check(s);
    return s;
}

void review_subject_release(struct review_table *t, struct review_subject *s)
{
    if (!list_is_empty(&s->pending) || !list_is_empty(&s->approved)) return;
    check(s->count == 0);
    spelling_leave(t, s);
    check(map_remove(&t->by_subject, s->key) == s);
    free(s);
}

void review_subject_add(struct review_subject *s, struct review *r)
{
    check(r->subject == NULL && !link_is_on(&r->of_subject));
    check(!review_state_is_end(r->facts.state));
    bool is_pending = r->facts.state == REVIEW_PENDING;
    struct list *list = is_pending ? &s->pending : &s->approved;
    struct link *before = list->head.previous;
    while (before != &list->head &&
           link_owner(before, struct review, of_subject)->facts.ordinal > r->facts.ordinal)
        before = before->previous;
    r->of_subject = (struct link){.previous = before, .next = before->next};
    before->next->previous = &r->of_subject;
    before->next = &r->of_subject;
    r->subject = s;
    s->count += is_pending;
    review_subject_check(s);
}

void review_subject_remove(struct review *r)
{
    struct review_subject *s = r->subject;
    review_subject_check(s);
    link_remove(&r->of_subject);
    s->count -= r->facts.state == REVIEW_PENDING;
    r->subject = NULL;
    review_subject_check(s);
}

/* ---- tenants ---- */

struct review_tenant *review_tenant_find(const struct review_table *t, struct str name)
{
    return map_get(&t->tenants, name);
}

struct review_tenant *review_tenant_take(struct review_table *t, struct str name)
{
    struct review_tenant *found = review_tenant_find(t, name);
    if (found != NULL) return found;
    struct review_tenant *n = calloc(1, sizeof *n + name.size + 1);
    if (n == NULL) return NULL;
    memcpy(n->bytes, name.bytes, name.size);
    n->name = str_of(n->bytes, name.size);
    if (!map_put(&t->tenants, n->name, n)) {
        free(n);
        return NULL;
    }
    return n;
}

void review_tenant_destroy(struct review_tenant *n)
{
    for (unsigned i = 0; i < REVIEW_STATES; i++) order_fini(&n->states[i]);
    order_fini(&n->by_deadline);
    free(n);
}

/* ---- traces ---- */

struct review_trace *review_trace_find(const struct review_table *t, struct str tenant,
                                       struct str trace_id)
{
    char bytes[KEY_BYTES_MAX];
    struct buf key = buf_over(bytes, sizeof bytes);
    if (!key_put(&key, '\0', trace_id, tenant)) return NULL;
    return map_get(&t->by_trace, buf_view(&key));
}

struct str review_trace_id(const struct review_trace *k)
{
    check(k->review != NULL && k->key.size > k->review->facts.tenant.size);
    return str_of(k->key.bytes, k->key.size - k->review->facts.tenant.size - 1);
}

bool review_trace_file(struct review_table *t, struct review *r, struct review_trace *k)
{
    check(k->review == NULL); /* it is in no row */
    struct review_trace *head = map_get(&t->by_trace, k->key);
    /* The newest is the head of the row, and the map's key lies in it: so removing older traces of
     * a long row is cheap. */
    if (!map_put(&t->by_trace, k->key, k)) return false;
    k->review = r;
    k->previous = NULL;
    k->next = head;
    if (head != NULL) head->previous = k;
    k->of_review = r->traces;
    r->traces = k;
    r->trace_count++;
    check(r->trace_count <= REVIEW_TRACES_MAX);
    return true;
}

/* Removes it from its row; the map then finds the rest of the row by the next trace's bytes. */
static void trace_remove(struct review_table *t, struct review_trace *k)
{
    check(k->previous == NULL || k->previous->next == k);
    check(k->next == NULL || k->next->previous == k);
    if (k->next != NULL) k->next->previous = k->previous;
    if (k->previous != NULL) {
        k->previous->next = k->next;
        return;
    }
    check(map_remove(&t->by_trace, k->key) == k);
    if (k->next != NULL) check(map_put(&t->by_trace, k->next->key, k->next));
}

void review_traces_remove(struct review_table *t, struct review *r)
{
    for (struct review_trace *k = r->traces; k != NULL; k = k->of_review) trace_remove(t, k);
    r->traces = NULL;
    r->trace_count = 0;
}
