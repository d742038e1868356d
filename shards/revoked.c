/* revoked.c - one log under a lock, and a table per reactor that needs no lock.
 *
 *   append (lock) ──> oldest … newest ──take (lock, only if there are new entries)──> view
 *                       \── freed when the slowest cursor has passed it
 *
 * A turn checks for new entries with one load. Revocations are rare and short, so a list under a
 * lock is simpler than one without, and its holders only copy.
 *
 * A view keeps tokens by id until they have expired anyway. It keeps actors while they are
 * suspended, and for ACTOR_KEPT_MS after they were resumed: until no earlier token can be alive.
 * Each name has its own entry, in the spelling of the notice. A lookup takes the entries of all its
 * spellings, which are in one run of places. */
#include "shards/revoked.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/map.h"
#include "base/planted.h"
#include "base/reserve.h"
#include "spelling/spelling.h"

enum {
    TABLE_FIRST = 64, /* entries; a power of two */
    /* after a resume: longer than any token lives */
    ACTOR_KEPT_MS = (LIMIT_TOKEN_TTL_SECONDS + 60) * 1000,
    /* of one name after case folding, and a NUL: the worst is U+FDFA with 33 */
    FOLD_BYTES = LIMIT_ID_CHARACTERS * 33 + 1,
};

struct entry {
    struct entry *next;
    uint64_t place;
    struct effect_notice notice; /* its texts are in bytes */
    char bytes[];
};

struct cursor {
    _Alignas(64) _Atomic uint64_t place; /* all entries up to this one were taken */
};

struct revoked_log {
    pthread_mutex_t lock;
    struct entry *oldest, *last; /* under the lock */
    /* position of `last`, or of the last that was freed */
    _Atomic uint64_t newest;
    unsigned readers;
    struct cursor *cursors;
};

/* ---- the log ---- */

/* Under the lock. */
static void log_check(const struct revoked_log *l)
{
    check((l->oldest == NULL) == (l->last == NULL));
    check(l->last == NULL || l->last->next == NULL);
    check(l->last == NULL ||
          l->last->place == atomic_load_explicit(&l->newest, memory_order_relaxed));
}

struct revoked_log *revoked_log_create(unsigned readers)
{
    check(readers > 0 && readers <= LIMIT_REACTORS);
    struct revoked_log *l = calloc(1, sizeof *l);
    struct cursor *cursors = aligned_alloc(64, readers * sizeof *cursors);
    if (l == NULL || cursors == NULL) {
        free(l);
        free(cursors);
        return NULL;
    }
    for (unsigned i = 0; i < readers; i++) atomic_init(&cursors[i].place, 0);
    l->readers = readers;
    l->cursors = cursors;
    pthread_mutex_init(&l->lock, NULL);
    return l;
}

void revoked_log_destroy(struct revoked_log *l)
{
    if (l == NULL) return;
    for (struct entry *e = l->oldest, *next; e != NULL; e = next) {
        next = e->next;
        reserve_give(e);
    }
    pthread_mutex_destroy(&l->lock);
    free(l->cursors);
    free(l);
}

static struct str put(char **to, struct str s)
{
    if (str_is_absent(s)) return s;
    memcpy(*to, s.bytes, s.size);
    struct str copy = str_of(*to, s.size);
    *to += s.size;
    return copy;
}

uint64_t revoked_log_append(struct revoked_log *l, const struct effect_notice *n)
{
    struct entry *e = reserve_take(sizeof *e + n->tenant.size + n->actor.size);
    char *at = e->bytes;
    e->next = NULL;
    e->notice = *n;
    e->notice.tenant = put(&at, n->tenant);
    e->notice.actor = put(&at, n->actor);
    pthread_mutex_lock(&l->lock);
    uint64_t place = e->place = atomic_load_explicit(&l->newest, memory_order_relaxed) + 1;
    if (l->oldest == NULL)
        l->oldest = e;
    else
        l->last->next = e;
    l->last = e;
    atomic_store_explicit(&l->newest, place, memory_order_release);
    log_check(l);
    pthread_mutex_unlock(&l->lock);
    return place;
}

uint64_t revoked_log_newest(struct revoked_log *l)
{
    pthread_mutex_lock(&l->lock);
    uint64_t place = atomic_load_explicit(&l->newest, memory_order_relaxed);
    pthread_mutex_unlock(&l->lock);
    return place;
}

static uint64_t slowest(const struct revoked_log *l)
{
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < l->readers; i++) {
        uint64_t place = atomic_load_explicit(&l->cursors[i].place, memory_order_acquire);
        if (place < least) least = place;
    }
    return least;
}

bool revoked_log_seen(const struct revoked_log *l, uint64_t place)
{
    return slowest(l) >= place || planted("revocation_not_awaited");
}

static void free_passed(struct revoked_log *l)
{
    uint64_t passed = slowest(l);
    while (l->oldest != NULL && l->oldest->place <= passed) {
        struct entry *e = l->oldest;
        l->oldest = e->next;
        reserve_give(e);
    }
    if (l->oldest == NULL) l->last = NULL;
    log_check(l);
}

/* ---- a view: tokens by id, actors by tenant and name ---- */

struct dead_token {
    struct id id;
    uint64_t expires_ms; /* 0: this place is free */
};

struct stopped {
    uint64_t hash; /* of tenant and fold */
    struct str tenant, actor, fold;
    bool suspended;
    uint64_t dead_until_ms;
    uint64_t changed_ms;
    char bytes[];
};

struct revoked_view {
    struct revoked_log *log;
    unsigned reader;
    /* the newest that was taken; valid while the log's oldest is not newer */
    const struct entry *last;
    struct dead_token *tokens;
    size_t token_places, token_count;
    struct stopped **actors; /* NULL: this place is free */
    size_t actor_places, actor_count;
    /* for the folded form of long names; kept, because no suspension may be missed */
    struct arena folds;
};

/* Both tables have a free place, at which every search ends. */
static void view_check(const struct revoked_view *v)
{
    check(v->reader < v->log->readers);
    check((v->token_places & (v->token_places - 1)) == 0 && v->token_count < v->token_places);
    check((v->actor_places & (v->actor_places - 1)) == 0 && v->actor_count < v->actor_places);
}

struct revoked_view *revoked_view_create(struct revoked_log *l, unsigned reader)
{
    check(reader < l->readers);
    struct revoked_view *v = calloc(1, sizeof *v);
    if (v == NULL) return NULL;
    v->log = l;
    v->reader = reader;
    v->token_places = v->actor_places = TABLE_FIRST;
    v->tokens = calloc(TABLE_FIRST, sizeof *v->tokens);
    v->actors = calloc(TABLE_FIRST, sizeof(struct stopped *));
    arena_init(&v->folds, FOLD_BYTES, FOLD_BYTES);
    if (v->tokens != NULL && v->actors != NULL && !v->folds.overflow) return v;
    revoked_view_destroy(v);
    return NULL;
}

void revoked_view_destroy(struct revoked_view *v)
{
    if (v == NULL) return;
    for (size_t i = 0; v->actors != NULL && i < v->actor_places; i++) reserve_give(v->actors[i]);
    free(v->actors);
    free(v->tokens);
    arena_fini(&v->folds);
    free(v);
}

/* The size at which the remaining entries fill half of it at most. */
static size_t places_for(size_t count)
{
    size_t places = TABLE_FIRST;
    while (places < count * 4) places *= 2;
    return places;
}

static bool crowded(size_t count, size_t places) { return count >= places / 4 * 3; }
/* A search ends at a free place, so one place always stays free. */
static bool has_place(size_t count, size_t places) { return count + 1 < places; }

/* The place of this id, or the free one for it. Ids end in 80 bits of chance, ten of which are the
 * slot. */
static struct dead_token *token_place(const struct revoked_view *v, struct id id)
{
    size_t mask = v->token_places - 1;
    uint64_t hash;
    memcpy(&hash, id.bytes + ID_BYTES - sizeof hash, sizeof hash);
    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        struct dead_token *t = &v->tokens[i];
        if (t->expires_ms == 0 || memcmp(t->id.bytes, id.bytes, ID_BYTES) == 0) return t;
    }
}

static void tokens_rebuild(struct revoked_view *v, uint64_t now_ms)
{
    struct dead_token *before = v->tokens;
    size_t places = v->token_places, kept = 0;
    for (size_t i = 0; i < places; i++)
        if (before[i].expires_ms > now_ms) kept++;
    struct dead_token *larger = calloc(places_for(kept + 1), sizeof *larger);
    if (larger == NULL && has_place(v->token_count, places)) return;
    check(larger != NULL); /* the kill switch must not fail silently */
    v->tokens = larger;
    v->token_places = places_for(kept + 1);
    v->token_count = kept;
    for (size_t i = 0; i < places; i++)
        if (before[i].expires_ms > now_ms) *token_place(v, before[i].id) = before[i];
    free(before);
    view_check(v);
}

static void take_token(struct revoked_view *v, const struct effect_notice *n, uint64_t now_ms)
{
    check(n->kind == NOTICE_TOKEN_REVOKED);
    if (n->expires_ms <= now_ms) return; /* the token has expired */
    if (crowded(v->token_count, v->token_places)) tokens_rebuild(v, now_ms);
    struct dead_token *t = token_place(v, n->token);
    if (t->expires_ms == 0) v->token_count++;
    t->id = n->token;
    t->expires_ms = n->expires_ms;
    view_check(v);
}

/* The form that all spellings of a name have in common, valid until the next call; absent: it
 * cannot be folded. */
static struct str fold_of(struct revoked_view *v, struct str name, char small[LIMIT_ID_CHARACTERS])
{
    if (name.size > LIMIT_ID_CHARACTERS || !spelling_is_plain(name)) {
        arena_reset(&v->folds);
        return spelling_fold(name, &v->folds);
    }
    for (size_t i = 0; i < name.size; i++) {
        char c = name.bytes[i];
        small[i] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
    }
    return str_of(small, name.size);
}

static uint64_t actor_hash(struct str tenant, struct str actor)
{
    uint64_t hash = hash_bytes(tenant.bytes, tenant.size);
    return (hash << 1 | hash >> 63) ^ hash_bytes(actor.bytes, actor.size);
}

static struct stopped **actor_place(const struct revoked_view *v, uint64_t hash, struct str tenant,
                                    struct str actor)
{
    size_t mask = v->actor_places - 1;
    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        struct stopped *a = v->actors[i];
        if (a == NULL ||
            (a->hash == hash && str_equal(a->actor, actor) && str_equal(a->tenant, tenant)))
            return &v->actors[i];
    }
}

static bool is_over(const struct stopped *a, uint64_t now_ms)
{
    return !a->suspended && now_ms > a->changed_ms && now_ms - a->changed_ms > ACTOR_KEPT_MS;
}

static void actors_rebuild(struct revoked_view *v, uint64_t now_ms)
{
    struct stopped **before = v->actors;
    size_t places = v->actor_places, kept = 0;
    for (size_t i = 0; i < places; i++)
        if (before[i] != NULL && !is_over(before[i], now_ms)) kept++;
    struct stopped **larger = calloc(places_for(kept + 1), sizeof(struct stopped *));
    if (larger == NULL && has_place(v->actor_count, places)) return;
    check(larger != NULL);
    v->actors = larger;
    v->actor_places = places_for(kept + 1);
    v->actor_count = kept;
    for (size_t i = 0; i < places; i++) {
        struct stopped *a = before[i];
        if (a == NULL) continue;
        if (is_over(a, now_ms))
            reserve_give(a);
        else
            *actor_place(v, a->hash, a->tenant, a->actor) = a;
    }
    free(before);
    view_check(v);
}

static struct stopped *actor_new(struct revoked_view *v, uint64_t hash, struct str fold,
                                 const struct effect_notice *n)
{
    struct stopped *a = reserve_take(sizeof *a + n->tenant.size + n->actor.size + fold.size);
    char *at = a->bytes;
    a->hash = hash;
    a->tenant = put(&at, n->tenant);
    a->actor = put(&at, n->actor);
    a->fold = put(&at, fold);
    v->actor_count++;
    check((size_t)(at - a->bytes) == n->tenant.size + n->actor.size + fold.size);
    return a;
}

/* After a resume the actor may act, but its older tokens stay dead. All tokens from before the
 * resume are dead, not only those from before the suspension: a reactor that did not know of the
 * suspension yet could still mint. */
static void take_actor(struct revoked_view *v, const struct effect_notice *n, uint64_t now_ms)
{
    check(n->kind == NOTICE_ACTOR_SUSPENDED || n->kind == NOTICE_ACTOR_RESUMED);
    if (crowded(v->actor_count, v->actor_places)) actors_rebuild(v, now_ms);
    char small[LIMIT_ID_CHARACTERS];
    struct str fold = fold_of(v, n->actor, small);
    check(!str_is_absent(fold)); /* as above */
    uint64_t hash = actor_hash(n->tenant, fold);
    struct stopped **place = actor_place(v, hash, n->tenant, n->actor);
    if (*place == NULL) *place = actor_new(v, hash, fold, n);
    struct stopped *a = *place;
    a->suspended = n->kind == NOTICE_ACTOR_SUSPENDED;
    a->changed_ms = now_ms;
    if (n->at_ms > a->dead_until_ms) a->dead_until_ms = n->at_ms;
    view_check(v);
}

bool revoked_view_take(struct revoked_view *v, uint64_t now_ms)
{
    struct revoked_log *l = v->log;
    _Atomic uint64_t *cursor = &l->cursors[v->reader].place;
    uint64_t passed = atomic_load_explicit(cursor, memory_order_relaxed);
    if (atomic_load_explicit(&l->newest, memory_order_acquire) == passed) return false;
    pthread_mutex_lock(&l->lock);
    bool last_is_there = l->oldest != NULL && l->oldest->place <= passed;
    for (const struct entry *e = last_is_there ? v->last->next : l->oldest; e != NULL;
         e = e->next) {
        check(e->place > passed);
        v->last = e;
        if (e->notice.kind == NOTICE_TOKEN_REVOKED)
            take_token(v, &e->notice, now_ms);
        else if (e->notice.kind != NOTICE_SIGNER_ROTATED)
            take_actor(v, &e->notice, now_ms);
    }
    atomic_store_explicit(cursor, atomic_load_explicit(&l->newest, memory_order_relaxed),
                          memory_order_release);
    free_passed(l);
    pthread_mutex_unlock(&l->lock);
    return true;
}

bool revoked_view_token(const struct revoked_view *v, struct id token)
{
    return v->token_count > 0 && token_place(v, token)->expires_ms != 0;
}

bool revoked_view_actor(struct revoked_view *v, struct str tenant, struct str actor,
                        uint64_t *ret_dead_until_ms)
{
    *ret_dead_until_ms = 0;
    if (v->actor_count == 0) return false;
    char small[LIMIT_ID_CHARACTERS];
    struct str fold = fold_of(v, actor, small);
    if (str_is_absent(fold)) return true; /* it may be a suspended actor */
    bool suspended = false;
    uint64_t hash = actor_hash(tenant, fold);
    size_t mask = v->actor_places - 1;
    for (size_t i = (size_t)hash & mask; v->actors[i] != NULL; i = (i + 1) & mask) {
        const struct stopped *a = v->actors[i];
        if (a->hash != hash || !str_equal(a->fold, fold) || !str_equal(a->tenant, tenant)) continue;
        suspended = suspended || a->suspended;
        if (a->dead_until_ms > *ret_dead_until_ms) *ret_dead_until_ms = a->dead_until_ms;
    }
    return suspended;
}
