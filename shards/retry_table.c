#include "shards/retry_table.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"

enum { KEPT_MS = LIMIT_OUTCOME_SECONDS * 1000 };

static struct str key_text(const struct slot_key *k)
{
    return str_of((const char *)k->bytes, sizeof k->bytes);
}

void retry_table_init(struct retry_table *t, size_t count_max, size_t bytes_max)
{
    *t = (struct retry_table){.count_max = count_max, .bytes_max = bytes_max};
    slab_init(&t->entries, sizeof(struct retry_entry), SIZE_MAX);
    slab_init(&t->shares, sizeof(struct retry_share), SIZE_MAX);
    wheel_init(&t->wheel, 0);
}

static void record_free(struct retry_table *t, struct retry_entry *r)
{
    check(t->bytes >= r->facts.record.size);
    t->bytes -= r->facts.record.size;
    free((char *)(uintptr_t)r->facts.record.bytes);
    r->facts.record = (struct str){0};
}

void retry_table_fini(struct retry_table *t)
{
    size_t cursor = 0;
    struct str key;
    void *value;
    while (map_next(&t->by_key, &cursor, &key, &value)) record_free(t, value);
    map_fini(&t->by_key);
    map_fini(&t->tenants);
    map_fini(&t->askers);
    slab_fini(&t->entries);
    slab_fini(&t->shares);
}

struct retry_entry *retry_find(const struct retry_table *t, struct slot_key key)
{
    return map_get(&t->by_key, key_text(&key));
}

/* ---- invariants ---- */

void retry_entry_check(const struct retry_entry *r)
{
    check(r->tenant != NULL && r->asker != NULL);
    check(r->tenant->count > 0 && r->asker->count > 0);
    check((r->waiters == NULL) == (r->waiter_count == 0));
    check(r->waiter_count <= LIMIT_WAITERS_PER_OUTCOME);
    check(link_is_on(&r->timer.link) == r->is_kept); /* a held key ends with its operation */
    check(str_is_empty(r->facts.record) || (r->is_kept && r->facts.has_record));
}

void retry_table_check(const struct retry_table *t)
{
    check(t->by_key.count == t->entries.count);
    check(t->tenants.count <= t->by_key.count && t->askers.count <= t->by_key.count);
    check(t->shares.count == t->tenants.count + t->askers.count);
    check(t->by_key.count > 0 || t->bytes == 0);
}

/* ---- shares ---- */

static size_t share_count(const struct map *shares, const struct slot_key *of)
{
    const struct retry_share *share = map_get(shares, key_text(of));
    return share == NULL ? 0 : share->count;
}

static struct retry_share *share_enter(struct retry_table *t, struct map *shares,
                                       const struct slot_key *of)
{
    struct retry_share *share = map_get(shares, key_text(of));
    if (share == NULL) {
        share = slab_take(&t->shares);
        if (share == NULL) return NULL;
        share->of = *of;
        if (!map_put(shares, key_text(&share->of), share)) {
            slab_give(&t->shares, share);
            return NULL;
        }
    }
    share->count++;
    return share;
}

static void share_leave(struct retry_table *t, struct map *shares, struct retry_share *share)
{
    if (share == NULL) return;
    check(share->count > 0);
    if (--share->count > 0) return;
    check(map_remove(shares, key_text(&share->of)) == share);
    slab_give(&t->shares, share);
}

static size_t part(size_t of, size_t divisor) { return of / divisor > 0 ? of / divisor : 1; }

bool retry_has_room(const struct retry_table *t, const struct retry_outcome *f)
{
    return t->by_key.count < t->count_max && t->bytes < t->bytes_max &&
           share_count(&t->tenants, &f->tenant) < part(t->count_max, 2) &&
           share_count(&t->askers, &f->asker) < part(t->count_max, 4);
}

/* ---- keys ---- */

enum err retry_take(struct retry_table *t, const struct retry_outcome *f, struct retry_entry **ret)
{
    struct retry_entry *r = slab_take(&t->entries);
    if (r == NULL) return ERR_FULL;
    r->facts = *f;
    r->facts.record = (struct str){0};
    r->tenant = share_enter(t, &t->tenants, &f->tenant);
    r->asker = share_enter(t, &t->askers, &f->asker);
    if (r->tenant != NULL && r->asker != NULL && map_put(&t->by_key, key_text(&r->facts.key), r)) {
        retry_entry_check(r);
        retry_table_check(t);
        *ret = r;
        return ERR_OK;
    }
    share_leave(t, &t->tenants, r->tenant);
    share_leave(t, &t->askers, r->asker);
    slab_give(&t->entries, r);
    return ERR_FULL;
}

void retry_keep(struct retry_table *t, struct retry_entry *r, const struct retry_outcome *f)
{
    check(f->verdict < RETRY_VERDICTS);
    record_free(t, r);
    r->facts.body = f->body;
    r->facts.at_ms = f->at_ms;
    r->facts.verdict = f->verdict;
    r->is_kept = true;
    char *copy = str_is_empty(f->record) ? NULL : malloc(f->record.size);
    r->facts.has_record = copy != NULL;
    if (copy != NULL) {
        memcpy(copy, f->record.bytes, f->record.size);
        r->facts.record = str_of(copy, f->record.size);
        t->bytes += f->record.size;
    }
    wheel_add(&t->wheel, &r->timer, f->at_ms + KEPT_MS);
    retry_entry_check(r);
}

void retry_drop(struct retry_table *t, struct retry_entry *r)
{
    check(r->waiters == NULL);
    wheel_remove(&t->wheel, &r->timer);
    check(map_remove(&t->by_key, key_text(&r->facts.key)) == r);
    record_free(t, r);
    share_leave(t, &t->tenants, r->tenant);
    share_leave(t, &t->askers, r->asker);
    slab_give(&t->entries, r);
    retry_table_check(t);
}

void retry_waiter_add(struct retry_entry *r, struct call *c)
{
    check(c->previous == NULL && !r->is_kept);
    c->previous = &r->waiters;
    c->next = r->waiters;
    if (c->next != NULL) c->next->previous = &c->next;
    r->waiters = c;
    r->waiter_count++;
    retry_entry_check(r);
}

struct call *retry_waiter_take(struct retry_entry *r)
{
    struct call *c = r->waiters;
    check(r->waiter_count > 0 || c == NULL);
    if (c == NULL) return NULL;
    r->waiters = c->next;
    if (c->next != NULL) c->next->previous = &r->waiters;
    c->next = NULL;
    c->previous = NULL;
    r->waiter_count--;
    return c;
}

/* ---- time ---- */

bool retry_table_prune(struct retry_table *t, uint64_t now_ms, size_t most)
{
    size_t dropped = 0;
    for (struct wheel_entry *due; dropped < most && (due = wheel_due(&t->wheel, now_ms)) != NULL;
         dropped++)
        retry_drop(t, link_owner(due, struct retry_entry, timer));
    return dropped > 0;
}

uint64_t retry_table_next_ms(const struct retry_table *t) { return wheel_next_ms(&t->wheel); }

struct retry_entry *retry_table_next(const struct retry_table *t, size_t *cursor)
{
    struct str key;
    void *value;
    while (map_next(&t->by_key, cursor, &key, &value)) {
        struct retry_entry *r = value;
        if (r->is_kept) return r;
    }
    return NULL;
}
