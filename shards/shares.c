#include "shards/shares.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"

enum {
    DAY_MS = 24 * 3600 * 1000,
    FORGET_MOST = 8,      /* tenants in one call */
    KEY_BYTES_MAX = 2112, /* a pointer, two names of 1024 bytes, NULs */
};

void shares_init(struct shares *s, const char *name, size_t count_max, size_t bytes_max)
{
    *s = (struct shares){
        .name = name, .count_max = count_max, .bytes_max = bytes_max > 0 ? bytes_max : SIZE_MAX};
    wheel_init(&s->wheel, 0);
    list_init(&s->all.ended);
}

void shares_fini(struct shares *s)
{
    size_t cursor = 0;
    struct str name;
    void *value;
    while (map_next(&s->keys, &cursor, &name, &value)) free(value);
    for (cursor = 0; map_next(&s->tenants, &cursor, &name, &value);) free(value);
    map_fini(&s->keys);
    map_fini(&s->tenants);
}

/* ---- parts ---- */

static size_t half(size_t whole) { return whole == SIZE_MAX ? whole : whole > 1 ? whole / 2 : 1; }

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static bool is_tenant(const struct shares *s, const struct share *x)
{
    return x->parent == &s->all;
}

/* What it takes from the other tenants. */
static size_t counted(const struct shares *s, const struct share *tenant)
{
    return smaller(tenant->count, half(s->count_max));
}

static size_t bytes_counted(const struct shares *s, const struct share *tenant)
{
    return smaller(tenant->bytes, half(s->bytes_max));
}

/* ---- invariants ---- */

void shares_check(const struct shares *s)
{
    check(s->counted <= s->all.count && s->bytes_counted <= s->all.bytes);
    check(s->keys.count <= s->all.count); /* each has a place */
    check(s->all.count > 0 || s->all.bytes == 0);
}

void shares_recount(const struct shares *s)
{
    size_t cursor = 0, count = 0, beyond = 0, bytes = 0, bytes_beyond = 0, of_keys = 0;
    struct str name;
    void *value;
    shares_check(s);
    while (map_next(&s->tenants, &cursor, &name, &value)) {
        const struct share *t = value;
        check(t->count > 0 || link_is_on(&t->timer.link));
        count += t->count;
        bytes += t->bytes;
        beyond += t->count - counted(s, t);
        bytes_beyond += t->bytes - bytes_counted(s, t);
    }
    check(count <= s->all.count && bytes <= s->all.bytes);
    check(s->counted == s->all.count - beyond);
    check(s->bytes_counted == s->all.bytes - bytes_beyond);
    for (cursor = 0; map_next(&s->keys, &cursor, &name, &value);) {
        const struct share *k = value;
        check(k->count > 0 && k->count <= k->parent->count && k->bytes <= k->parent->bytes);
        of_keys += k->count;
    }
    check(of_keys <= count);
}

/* ---- who asked ---- */

static void recent_note(struct share_recent *r, uint64_t of, uint64_t at_ms)
{
    if (of == r->of[0]) {
        if (at_ms > r->at_ms[0]) r->at_ms[0] = at_ms;
        return;
    }
    if (at_ms < r->at_ms[0]) {
        if (of == r->of[1] ? at_ms <= r->at_ms[1] : at_ms < r->at_ms[1]) return;
        r->of[1] = of;
        r->at_ms[1] = at_ms;
        return;
    }
    r->of[1] = r->of[0];
    r->at_ms[1] = r->at_ms[0];
    r->of[0] = of;
    r->at_ms[0] = at_ms;
}

static bool recent_has_other(const struct share_recent *r, uint64_t than, uint64_t now_ms)
{
    for (int i = 0; i < 2; i++)
        if (r->at_ms[i] > 0 && r->of[i] != than && r->at_ms[i] + DAY_MS > now_ms) return true;
    return false;
}

static uint64_t hash_of(struct str name) { return hash_bytes(name.bytes, name.size); }

/* ---- shares ---- */

static struct share *share_create(struct share *parent, struct str name)
{
    struct share *x = calloc(1, sizeof *x + name.size);
    if (x == NULL) return NULL;
    x->parent = parent;
    memcpy(x->text, name.bytes, name.size);
    x->name = str_of(x->text, name.size);
    list_init(&x->ended);
    return x;
}

static struct share *share_take(struct map *map, struct share *parent, struct str name)
{
    struct share *x = map_get(map, name);
    if (x != NULL) return x;
    x = share_create(parent, name);
    if (x == NULL || map_put(map, x->name, x)) return x;
    free(x);
    return NULL;
}

/* The name of a key's share: keys of two tenants may be the same. */
static struct str key_name(const struct share *tenant, struct str key, char to[KEY_BYTES_MAX])
{
    check(sizeof tenant + key.size <= KEY_BYTES_MAX);
    memcpy(to, &tenant, sizeof tenant);
    memcpy(to + sizeof tenant, key.bytes, key.size);
    return str_of(to, sizeof tenant + key.size);
}

struct str share_key(const struct share *share)
{
    check(share->name.size > sizeof share->parent);
    return str_skip(share->name, sizeof share->parent);
}

/* A tenant without places is kept for a day, because it has asked. */
static void keep_a_day(struct shares *s, struct share *tenant)
{
    wheel_add(&s->wheel, &tenant->timer, tenant->recent.at_ms[0] + DAY_MS);
}

static void forget(struct shares *s, uint64_t now_ms)
{
    struct wheel_entry *due;
    for (int i = 0; i < FORGET_MOST && (due = wheel_due(&s->wheel, now_ms)) != NULL; i++) {
        struct share *tenant = link_owner(due, struct share, timer);
        if (tenant->count > 0) continue;
        if (tenant->recent.at_ms[0] + DAY_MS > now_ms) {
            keep_a_day(s, tenant);
            continue;
        }
        check(map_remove(&s->tenants, tenant->name) == tenant);
        free(tenant);
    }
}

/* Notes the request. NULL: no memory. */
static struct share *tenant_note(struct shares *s, const struct share_asker *who, uint64_t at_ms)
{
    struct share *tenant = share_take(&s->tenants, &s->all, who->tenant);
    recent_note(&s->all.recent, hash_of(who->tenant), at_ms);
    if (tenant == NULL) return NULL;
    if (!str_is_empty(who->key)) recent_note(&tenant->recent, hash_of(who->key), at_ms);
    if (tenant->count == 0) keep_a_day(s, tenant);
    return tenant;
}

static struct share *key_find(const struct shares *s, const struct share *tenant, struct str key)
{
    char bytes[KEY_BYTES_MAX];
    if (tenant == NULL || str_is_empty(key)) return NULL;
    return map_get(&s->keys, key_name(tenant, key, bytes));
}

struct share *shares_find(const struct shares *s, const struct share_asker *who)
{
    return key_find(s, map_get(&s->tenants, who->tenant), who->key);
}

/* ---- places ---- */

static enum err refuse(const struct shares *s, enum err err, size_t most, struct quota *ret)
{
    *ret = (struct quota){.name = s->name, .most = most, .retry_s = LIMIT_QUOTA_RETRY_SECONDS};
    return err;
}

static bool is_over(const struct share *x, size_t count_max, size_t bytes_max, size_t bytes)
{
    return x != NULL &&
           (x->count >= count_max || x->bytes > bytes_max || bytes > bytes_max - x->bytes);
}

enum err shares_ask(struct shares *s, const struct share_asker *who, size_t bytes, uint64_t now_ms,
                    struct quota *ret)
{
    shares_check(s);
    forget(s, now_ms);
    const bool is_named = !str_is_empty(who->tenant);
    const struct share *tenant = is_named ? tenant_note(s, who, now_ms) : NULL;
    const bool has_others = recent_has_other(&s->all.recent, hash_of(who->tenant), now_ms);
    const bool has_keys = tenant != NULL && !str_is_empty(who->key) &&
                          recent_has_other(&tenant->recent, hash_of(who->key), now_ms);
    size_t count_max = has_others ? half(s->count_max) : s->count_max;
    size_t bytes_max = has_others ? half(s->bytes_max) : s->bytes_max;
    if (has_keys && is_over(key_find(s, tenant, who->key), half(count_max), half(bytes_max), bytes))
        return refuse(s, ERR_QUOTA_KEY, half(count_max), ret);
    if (is_over(tenant, count_max, bytes_max, bytes))
        return refuse(s, ERR_QUOTA_TENANT, count_max, ret);
    const struct share table = {.count = has_others ? s->counted : s->all.count,
                                .bytes = has_others ? s->bytes_counted : s->all.bytes};
    return is_over(&table, s->count_max, s->bytes_max, bytes) ? ERR_FULL : ERR_OK;
}

/* Of the share and those above it. */
static void change(struct shares *s, struct share *share, size_t count, size_t bytes, bool adds)
{
    for (struct share *x = share; x != NULL; x = x->parent) {
        const size_t before = counted(s, x), bytes_before = bytes_counted(s, x);
        check(adds || (x->count >= count && x->bytes >= bytes));
        x->count = adds ? x->count + count : x->count - count;
        x->bytes = adds ? x->bytes + bytes : x->bytes - bytes;
        if (!is_tenant(s, x)) continue;
        s->counted = s->counted - before + counted(s, x);
        s->bytes_counted = s->bytes_counted - bytes_before + bytes_counted(s, x);
    }
    if (share != &s->all) return; /* of no tenant */
    s->counted = adds ? s->counted + count : s->counted - count;
    s->bytes_counted = adds ? s->bytes_counted + bytes : s->bytes_counted - bytes;
}

struct share *shares_enter(struct shares *s, const struct share_asker *who, size_t bytes,
                           uint64_t at_ms)
{
    char name[KEY_BYTES_MAX];
    struct share *share = &s->all;
    if (!str_is_empty(who->tenant)) share = tenant_note(s, who, at_ms);
    if (share != NULL && share != &s->all && !str_is_empty(who->key))
        share = share_take(&s->keys, share, key_name(share, who->key, name));
    if (share == NULL) return NULL;
    change(s, share, 1, bytes, true);
    shares_check(s);
    return share;
}

void shares_leave(struct shares *s, struct share *share, size_t bytes)
{
    struct share *tenant = is_tenant(s, share) ? share : share->parent;
    change(s, share, 1, bytes, false);
    if (share->count == 0 && share != &s->all && share != tenant) {
        check(list_is_empty(&share->ended));
        check(map_remove(&s->keys, share->name) == share);
        free(share);
    }
    if (tenant != NULL && tenant->count == 0) keep_a_day(s, tenant);
    shares_check(s);
}

void shares_grow(struct shares *s, struct share *share, size_t bytes)
{
    change(s, share, 0, bytes, true);
}

void shares_shrink(struct shares *s, struct share *share, size_t bytes)
{
    change(s, share, 0, bytes, false);
}
