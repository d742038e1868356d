/* table.c - from a credential to its key.
 *
 * The id in the credential finds the row, the HMAC of the whole credential verifies it. An
 * unknown id costs the same HMAC as a known one, so that the time does not show which ids exist.
 * The cache in front remembers verified credentials by their SHA-256. Only verified ones enter,
 * so that guesses cannot fill it. Expiry is checked again each time. */
#include "access/key.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"

enum { LINE_KEYS_MAX = 1024 }; /* rotations of one key that are followed */

struct key_table {
    struct map by_id;
    struct key **keys;
    size_t count;
    bool has_rates;
};

static struct key *key_of(const struct key_table *t, struct id id)
{
    return map_get(&t->by_id, str_of((const char *)id.bytes, ID_BYTES));
}

static void lines_find(struct key_table *t)
{
    struct id next;
    for (size_t i = 0; i < t->count; i++) t->keys[i]->previous = NULL;
    for (size_t i = 0; i < t->count; i++) {
        const struct key *k = t->keys[i];
        struct key *follows = id_read("key_", k->replaced_by, &next) ? key_of(t, next) : NULL;
        if (follows != NULL) follows->previous = k;
    }
    for (size_t i = 0; i < t->count; i++) {
        const struct key *first = t->keys[i];
        for (unsigned steps = 0; first->previous != NULL && steps < LINE_KEYS_MAX; steps++)
            first = first->previous;
        t->keys[i]->line = first->id;
    }
}

enum err key_table_create(struct key **keys, size_t count, struct key_table **ret)
{
    struct key_table *t = calloc(1, sizeof *t);
    if (t == NULL) return ERR_FULL;
    t->keys = calloc(count + 1, sizeof *t->keys);
    enum err err = t->keys == NULL ? ERR_FULL : ERR_OK;
    for (size_t i = 0; i < count && err == ERR_OK; i++) {
        struct str id = str_of((const char *)keys[i]->id.bytes, ID_BYTES);
        if (map_get(&t->by_id, id) != NULL)
            err = ERR_EXISTS;
        else if (!map_put(&t->by_id, id, keys[i]))
            err = ERR_FULL;
    }
    if (err != ERR_OK) {
        key_table_destroy(t); /* it owns no keys yet */
        return err;
    }
    if (count > 0) memcpy(t->keys, keys, count * sizeof *keys);
    t->count = count;
    for (size_t i = 0; i < count; i++) t->has_rates = t->has_rates || rates_any(&keys[i]->rates);
    lines_find(t);
    *ret = t;
    return ERR_OK;
}

void key_table_destroy(struct key_table *t)
{
    if (t == NULL) return;
    for (size_t i = 0; i < t->count; i++) key_destroy(t->keys[i]);
    free(t->keys);
    map_fini(&t->by_id);
    free(t);
}

const struct key *key_table_get(const struct key_table *t, struct id id)
{
    return map_get(&t->by_id, str_of((const char *)id.bytes, ID_BYTES));
}

size_t key_table_keep_revoked(struct key_table *next, const struct key_table *before,
                              struct id *ret_ids, size_t room)
{
    size_t count = 0;
    for (size_t i = 0; before != NULL && i < before->count; i++) {
        const struct key *was = before->keys[i];
        if (was->revoked_at == 0) continue;
        struct key *k = map_get(&next->by_id, str_of((const char *)was->id.bytes, ID_BYTES));
        if (k == NULL || k->revoked_at != 0) continue;
        k->revoked_at = was->revoked_at;
        if (count < room) ret_ids[count] = k->id;
        count++;
    }
    return count;
}

size_t key_table_count(const struct key_table *t) { return t->count; }

bool key_table_has_rates(const struct key_table *t) { return t->has_rates; }

enum err key_in_force(const struct key *k, uint64_t now_ms)
{
    if (k->revoked_at != 0) return ERR_CREDENTIAL_REVOKED;
    if (k->expires_at != 0 && now_ms >= k->expires_at) return ERR_CREDENTIAL_EXPIRED;
    return ERR_OK;
}

bool key_table_has_reviewer(const struct key_table *t, struct str tenant, struct str name,
                            struct str owner, uint64_t now_ms)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct key *k = t->keys[i];
        bool is_of_tenant = str_equal(k->tenant, tenant) || str_equal(k->tenant, STR("*"));
        if (is_of_tenant && str_equal(k->name, name) && str_equal(k->owner, owner) &&
            (k->roles & ROLE_REVIEWER) != 0 && key_in_force(k, now_ms) == ERR_OK)
            return true;
    }
    return false;
}

struct unprovable key_table_unprovable(const struct key_table *t, uint32_t pepper_fingerprint,
                                       uint64_t now_ms)
{
    struct unprovable u = {0};
    struct buf ids = buf_over(u.ids, sizeof u.ids - 1);
    for (size_t i = 0; i < t->count; i++) {
        const struct key *k = t->keys[i];
        if (k->pepper_fingerprint == 0 || k->pepper_fingerprint == pepper_fingerprint ||
            key_in_force(k, now_ms) != ERR_OK)
            continue;
        if (u.count > 0 && u.count <= UNPROVABLE_NAMED) buf_put_literal(&ids, ", ");
        if (u.count < UNPROVABLE_NAMED)
            buf_put(&ids, str_of(k->id_text, ID_TEXT));
        else if (u.count == UNPROVABLE_NAMED)
            buf_put_literal(&ids, "…");
        u.count++;
    }
    check(!ids.overflow);
    return u;
}

bool key_trouble(size_t unprovable, char to[KEY_TROUBLE_TEXT])
{
    snprintf(
        to, KEY_TROUBLE_TEXT,
        "%zu of the keys %s made under another pepper than pepper_file has, and their requests are refused",
        unprovable, unprovable == 1 ? "was" : "were");
    return unprovable > 0;
}

void key_trouble_note(_Atomic size_t *noted, const struct unprovable *u)
{
    char text[KEY_TROUBLE_TEXT];
    if (atomic_exchange(noted, u->count) == 0 && key_trouble(u->count, text))
        log_line(LOG_WARNING, "keys_unprovable", "text", text, "keys", u->ids, NULL);
}

/* Verifies the credential; does not check whether its key is in force. */
static const struct key *key_proved(const struct key_table *t, const struct pepper *p,
                                    struct str credential)
{
    struct id id;
    if (!credential_read(credential, &id)) return NULL;
    const struct key *k = key_table_get(t, id);
    static const struct sha256 nothing;
    struct sha256 shown = credential_mac(p, credential);
    bool same =
        bytes_equal_secret(shown.bytes, (k == NULL ? &nothing : &k->mac)->bytes, SHA256_BYTES);
    return same ? k : NULL;
}

/* ---- the cache: sets of four places, chosen by the digest, filled in turn ---- */

enum { PLACES = 4 };

struct key_cache_place {
    struct sha256 digest;
    const struct key *key; /* NULL: free */
};

struct key_cache_set {
    struct key_cache_place places[PLACES];
    unsigned next;
};

struct key_cache {
    struct key_cache_set *sets;
    size_t mask;
    uint64_t mark;
};

struct key_cache *key_cache_create(size_t entries)
{
    size_t sets = 1;
    while (sets * PLACES < entries) sets *= 2;
    struct key_cache *c = calloc(1, sizeof *c);
    check(c != NULL);
    c->sets = calloc(sets, sizeof *c->sets);
    check(c->sets != NULL);
    c->mask = sets - 1;
    c->mark = 1;
    return c;
}

void key_cache_destroy(struct key_cache *c)
{
    if (c == NULL) return;
    free(c->sets);
    free(c);
}

void key_cache_clear(struct key_cache *c)
{
    memset(c->sets, 0, (c->mask + 1) * sizeof *c->sets);
    c->mark++;
}

uint64_t key_cache_generation(const struct key_cache *c) { return c->mark; }

static const struct key *find(const struct key_cache_set *set, const struct sha256 *digest)
{
    for (unsigned i = 0; i < PLACES; i++)
        if (set->places[i].key != NULL &&
            bytes_equal_secret(set->places[i].digest.bytes, digest->bytes, SHA256_BYTES))
            return set->places[i].key;
    return NULL;
}

static struct key_cache_set *set_of(const struct key_cache *c, const struct sha256 *digest)
{
    uint64_t hash;
    memcpy(&hash, digest->bytes, sizeof hash);
    return &c->sets[hash & c->mask];
}

const struct key *key_cache_get(const struct key_cache *c, struct hasher *h, struct str credential)
{
    if (credential.size != CREDENTIAL_TEXT) return NULL;
    struct sha256 digest = hasher_sha256(h, credential);
    return find(set_of(c, &digest), &digest);
}

enum err key_cache_verify(struct key_cache *c, struct hasher *h, const struct key_table *t,
                          const struct pepper *p, struct str credential, uint64_t now_ms,
                          const struct key **ret)
{
    /* A text of another length is not a credential, and is refused before the digest. */
    if (credential.size != CREDENTIAL_TEXT) return ERR_UNAUTHENTICATED;
    struct sha256 digest = hasher_sha256(h, credential);
    struct key_cache_set *set = set_of(c, &digest);
    const struct key *k = find(set, &digest);
    if (k == NULL) {
        k = key_proved(t, p, credential);
        if (k == NULL) return ERR_UNAUTHENTICATED;
        set->places[set->next] = (struct key_cache_place){.digest = digest, .key = k};
        set->next = (set->next + 1) % PLACES;
    }
    enum err err = key_in_force(k, now_ms);
    if (err == ERR_OK) *ret = k;
    return err;
}
