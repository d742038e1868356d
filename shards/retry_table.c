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
    *t = (struct retry_table){0};
    shares_init(&t->shares, "idempotency-keys", count_max, bytes_max);
    slab_init(&t->entries, sizeof(struct retry_entry), SIZE_MAX);
    wheel_init(&t->wheel, 0);
}

static void record_free(struct retry_table *t, struct retry_entry *r)
{
    shares_shrink(&t->shares, r->share, r->facts.record.size);
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
    shares_fini(&t->shares);
    slab_fini(&t->entries);
}

struct retry_entry *retry_find(const struct retry_table *t, struct slot_key key)
{
    return map_get(&t->by_key, key_text(&key));
}

/* ---- invariants ---- */

void retry_entry_check(const struct retry_entry *r)
{
    check(r->share != NULL && r->share->count > 0);
    check((r->waiters == NULL) == (r->waiter_count == 0));
    check(r->waiter_count <= LIMIT_WAITERS_PER_OUTCOME);
    check(link_is_on(&r->timer.link) == r->is_kept); /* a held key ends with its operation */
    check(str_is_empty(r->facts.record) || (r->is_kept && r->facts.has_record));
}

void retry_table_check(const struct retry_table *t)
{
    check(t->by_key.count == t->entries.count);
    check(t->by_key.count == t->shares.all.count);
    shares_check(&t->shares);
}

/* ---- shares ---- */

static struct share_asker asker_of(const struct retry_outcome *f)
{
    return (struct share_asker){.tenant = key_text(&f->tenant), .key = key_text(&f->asker)};
}

enum err retry_ask(struct retry_table *t, const struct retry_outcome *f, uint64_t now_ms,
                   struct quota *ret)
{
    const struct share_asker who = asker_of(f);
    return shares_ask(&t->shares, &who, 0, now_ms, ret);
}

/* ---- keys ---- */

enum err retry_take(struct retry_table *t, const struct retry_outcome *f, uint64_t at_ms,
                    struct retry_entry **ret)
{
    const struct share_asker who = asker_of(f);
    struct retry_entry *r = slab_take(&t->entries);
    if (r == NULL) return ERR_FULL;
    r->facts = *f;
    r->facts.record = (struct str){0};
    r->share = shares_enter(&t->shares, &who, 0, at_ms);
    if (r->share != NULL && map_put(&t->by_key, key_text(&r->facts.key), r)) {
        retry_entry_check(r);
        retry_table_check(t);
        *ret = r;
        return ERR_OK;
    }
    if (r->share != NULL) shares_leave(&t->shares, r->share, 0);
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
        shares_grow(&t->shares, r->share, f->record.size);
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
    shares_leave(&t->shares, r->share, 0);
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
