#include "shards/token_table.h"

#include <stdlib.h>

#include "base/check.h"

_Static_assert((int)TOKEN_BUCKETS > LIMIT_TOKEN_TTL_SECONDS * 1000 / (int)TOKEN_BUCKET_MS &&
                   (int)TOKEN_BUCKETS > (int)TOKEN_RETRY_MS / (int)TOKEN_BUCKET_MS,
               "a token ends before its bucket comes round");

enum { FIRST_PLACES = 64, TEXT_MOST = UINT16_MAX - 1 };
#define ABSENT UINT16_MAX

void token_table_init(struct token_table *t, size_t count_max)
{
    *t = (struct token_table){0};
    shares_init(&t->shares, "tokens", count_max, 0);
}

void token_table_fini(struct token_table *t)
{
    struct str name;
    void *value;
    for (size_t i = 0; i < t->capacity; i++) free(t->places[i]);
    for (size_t cursor = 0; map_next(&t->tenants, &cursor, &name, &value);) {
        order_fini(&((struct token_tenant *)value)->all);
        free(value);
    }
    for (size_t cursor = 0; map_next(&t->minters, &cursor, &name, &value);) free(value);
    free(t->places);
    map_fini(&t->tenants);
    map_fini(&t->minters);
    map_fini(&t->retries);
    order_spare_fini(&t->spare);
    shares_fini(&t->shares);
    *t = (struct token_table){0};
}

/* ---- invariants ---- */

void token_check(const struct token *k)
{
    check(k->minter != NULL && k->minter->tenant != NULL);
    check(k->minter->count > 0 && k->minter->count == k->minter->share->count);
    check(k->retry <= TOKEN_RETRY_OVER);
}

void token_table_check(const struct token_table *t)
{
    check((t->capacity & (t->capacity - 1)) == 0);
    check(t->count <= t->capacity / 4 * 3); /* a search ends at a free place */
    check(t->counted <= t->count);
    check(t->minters.count <= t->count); /* each has a token */
    check(t->retries.count <= t->count);
    check(t->shares.all.count == t->count);
    shares_check(&t->shares);
    check(t->bytes >= t->capacity * sizeof *t->places);
}

/* ---- by id ---- */

/* The last bytes are chance that no client can choose: the engine makes the ids. */
static size_t origin_of(const struct token_table *t, struct id id)
{
    uint64_t hash;
    memcpy(&hash, id.bytes + ID_BYTES - sizeof hash, sizeof hash);
    return (size_t)(hash * UINT64_C(0x9E3779B97F4A7C15) >> 20) & (t->capacity - 1);
}

static size_t place_of(const struct token_table *t, struct id id)
{
    check(t->count < t->capacity);
    size_t at = origin_of(t, id);
    while (t->places[at] != NULL && !id_equal(t->places[at]->id, id))
        at = (at + 1) & (t->capacity - 1);
    return at;
}

struct token *token_find(const struct token_table *t, struct id id)
{
    return t->capacity == 0 ? NULL : t->places[place_of(t, id)];
}

/* At most three quarters full, because each step of a search reads another token. */
static bool make_place(struct token_table *t)
{
    if (t->capacity != 0 && t->count < t->capacity / 4 * 3) return true;
    struct token_table larger = {.capacity = t->capacity == 0 ? FIRST_PLACES : t->capacity * 2};
    larger.places = calloc(larger.capacity, sizeof(struct token *));
    if (larger.places == NULL) return false;
    check(larger.capacity / 4 * 3 > t->count);
    for (size_t i = 0; i < t->capacity; i++)
        if (t->places[i] != NULL) larger.places[place_of(&larger, t->places[i]->id)] = t->places[i];
    free(t->places);
    t->bytes += (larger.capacity - t->capacity) * sizeof *larger.places;
    t->places = larger.places;
    t->capacity = larger.capacity;
    return true;
}

/* Closes the gap: moves up the later entries of the same run that may move. */
static void place_clear(struct token_table *t, struct id id)
{
    size_t mask = t->capacity - 1, hole = place_of(t, id);
    check(t->places[hole] != NULL);
    for (size_t i = (hole + 1) & mask; t->places[i] != NULL; i = (i + 1) & mask) {
        size_t origin = origin_of(t, t->places[i]->id);
        if (((i - origin) & mask) < ((i - hole) & mask)) continue;
        t->places[hole] = t->places[i];
        hole = i;
    }
    t->places[hole] = NULL;
}

/* ---- what a token holds ---- */

const struct token_retry *token_retry_of(const struct token *k)
{
    return k->retry == TOKEN_RETRY_HELD ? (const struct token_retry *)(const void *)k->bytes : NULL;
}

static size_t retry_bytes(const struct token *k)
{
    return k->retry == TOKEN_RETRY_NONE ? 0 : sizeof(struct token_retry);
}

static struct str text_at(const char **at, uint16_t size)
{
    if (size == ABSENT) return (struct str){0};
    struct str text = str_of(*at, size);
    *at += size;
    return text;
}

void token_facts_of(const struct token *k, struct token_facts *ret)
{
    token_check(k);
    const char *at = k->bytes + retry_bytes(k);
    *ret = (struct token_facts){.id = k->id,
                                .key = k->minter->key,
                                .tenant = k->minter->tenant->name,
                                .signer = k->signer,
                                .ordinal = k->ordinal,
                                .issued_ms = k->issued_ms,
                                .expires_ms = k->expires_ms,
                                .revoked_ms = k->revoked_ms,
                                .uses_max = k->uses_max,
                                .uses = k->uses};
    ret->actor = text_at(&at, k->actor_size);
    ret->acting_for = text_at(&at, k->acting_for_size);
    ret->scope = text_at(&at, k->scope_size);
    ret->audience = text_at(&at, k->audience_size);
}

struct token *token_find_retry(const struct token_table *t, const struct review_digest *key)
{
    return map_get(&t->retries, str_of((const char *)key->bytes, sizeof key->bytes));
}

static size_t text_bytes(const struct token_facts *f)
{
    return f->actor.size + f->acting_for.size + f->scope.size + f->audience.size;
}

static size_t token_size(size_t behind)
{
    size_t size = offsetof(struct token, bytes) + behind;
    return size < sizeof(struct token) ? sizeof(struct token) : size;
}

/* As the heap counts it, plus its place in the order. */
static size_t token_bytes(const struct token *k)
{
    struct token_facts f;
    token_facts_of(k, &f);
    size_t size = token_size(retry_bytes(k) + text_bytes(&f)) + sizeof(size_t);
    return ((size + 15) & ~(size_t)15) + sizeof(struct order_place);
}

/* When it can no longer be needed. */
static uint64_t end_of(const struct token *k)
{
    uint64_t retry_ms = k->retry == TOKEN_RETRY_HELD ? k->issued_ms + TOKEN_RETRY_MS : 0;
    return k->expires_ms > retry_ms ? k->expires_ms : retry_ms;
}

/* ---- adding ---- */

static struct token_tenant *tenant_take(struct token_table *t, struct str name)
{
    struct token_tenant *tenant = map_get(&t->tenants, name);
    if (tenant != NULL) return tenant;
    tenant = calloc(1, sizeof *tenant + name.size + 1);
    if (tenant == NULL) return NULL;
    memcpy(tenant->bytes, name.bytes, name.size);
    tenant->name = str_of(tenant->bytes, name.size);
    if (map_put(&t->tenants, tenant->name, tenant)) return tenant;
    free(tenant);
    return NULL;
}

static struct str minter_name(const struct token_minter *m)
{
    return str_of((const char *)m, offsetof(struct token_minter, count));
}

static struct token_minter *minter_take(struct token_table *t, struct token_tenant *tenant,
                                        struct id key)
{
    const struct token_minter wanted = {.key = key, .tenant = tenant};
    struct token_minter *m = map_get(&t->minters, minter_name(&wanted));
    if (m != NULL) return m;
    m = malloc(sizeof *m);
    if (m == NULL) return NULL;
    *m = wanted;
    if (map_put(&t->minters, minter_name(m), m)) return m;
    free(m);
    return NULL;
}

static void minter_let_go(struct token_table *t, struct token_minter *m)
{
    if (m->count > 0) return;
    check(map_remove(&t->minters, minter_name(m)) == m);
    free(m);
}

static uint16_t put_text(char **at, struct str text)
{
    if (str_is_absent(text)) return ABSENT;
    check(text.size <= TEXT_MOST);
    memcpy(*at, text.bytes, text.size);
    *at += text.size;
    return (uint16_t)text.size;
}

static struct token *token_make(const struct token_facts *f, const struct retry *retry)
{
    bool has_retry = retry != NULL && retry->given;
    struct token *k =
        malloc(token_size((has_retry ? sizeof(struct token_retry) : 0) + text_bytes(f)));
    if (k == NULL) return NULL;
    *k = (struct token){.id = f->id,
                        .ordinal = f->ordinal,
                        .issued_ms = f->issued_ms,
                        .expires_ms = f->expires_ms,
                        .revoked_ms = f->revoked_ms,
                        .signer = f->signer,
                        .uses_max = f->uses_max,
                        .uses = f->uses,
                        .retry = has_retry ? TOKEN_RETRY_HELD : TOKEN_RETRY_NONE};
    char *at = k->bytes;
    if (has_retry) {
        const struct token_retry kept = {.key = retry->key, .body = retry->body};
        memcpy(at, &kept, sizeof kept);
        at += sizeof kept;
    }
    k->actor_size = put_text(&at, f->actor);
    k->acting_for_size = put_text(&at, f->acting_for);
    k->scope_size = put_text(&at, f->scope);
    k->audience_size = put_text(&at, f->audience);
    return k;
}

static void bucket_put(struct token_table *t, struct token *k)
{
    uint64_t minute = end_of(k) / TOKEN_BUCKET_MS;
    if (minute < t->pruned_minute)
        minute = t->pruned_minute; /* long over: the next tick drops it */
    struct token **bucket = &t->buckets[minute % TOKEN_BUCKETS];
    k->next_in_bucket = *bucket;
    *bucket = k;
}

uint32_t token_digest(struct id key, struct str acting_for)
{
    uint32_t of_key =
        order_digest(str_of((const char *)key.bytes, sizeof key.bytes)) & TOKEN_DIGEST_OF_KEY;
    return of_key |
           (str_is_empty(acting_for) ? 0 : order_digest(acting_for) & TOKEN_DIGEST_OF_ACTING_FOR);
}

/* An earlier holder of the Idempotency-Key is a day old, so this token takes the key over. */
static bool retry_put(struct token_table *t, struct token *k)
{
    const struct token_retry *kept = token_retry_of(k);
    if (kept == NULL) return true;
    struct token *before = token_find_retry(t, &kept->key);
    check(before != k && (before == NULL || token_retry_of(before) != NULL));
    if (!map_put(&t->retries, str_of((const char *)kept->key.bytes, sizeof kept->key.bytes), k))
        return false;
    if (before != NULL) before->retry = TOKEN_RETRY_OVER;
    return true;
}

/* Puts it into the indexes; everything that may fail is done. */
static void token_put(struct token_table *t, struct token *k, struct token_minter *m,
                      const struct token_facts *f)
{
    k->minter = m;
    k->minter->count++;
    size_t at = place_of(t, k->id);
    check(t->places[at] == NULL);
    t->places[at] = k;
    order_put(&m->tenant->all, &t->spare,
              &(struct order_place){.ordinal = k->ordinal,
                                    .item = k,
                                    .actor = order_digest(f->actor),
                                    .action = token_digest(f->key, f->acting_for)});
    bucket_put(t, k);
    t->count++;
    t->counted += k->uses_max != 0;
    t->bytes += token_bytes(k);
    if (k->ordinal > t->ordinal_max) t->ordinal_max = k->ordinal;
    token_check(k);
}

static struct share_asker asker_of(const struct token_facts *f)
{
    return (struct share_asker){.tenant = f->tenant,
                                .key = str_of((const char *)f->key.bytes, sizeof f->key.bytes)};
}

enum err token_ask(struct token_table *t, const struct token_facts *f, uint64_t now_ms,
                   struct quota *ret)
{
    const struct share_asker who = asker_of(f);
    return shares_ask(&t->shares, &who, 0, now_ms, ret);
}

enum err token_add(struct token_table *t, const struct token_facts *f, const struct retry *retry,
                   struct token **ret)
{
    token_table_check(t);
    if (f->actor.size > TEXT_MOST || f->acting_for.size > TEXT_MOST || f->scope.size > TEXT_MOST ||
        f->audience.size > TEXT_MOST || str_is_empty(f->tenant))
        return ERR_OUT_OF_RANGE;
    if (token_find(t, f->id) != NULL) return ERR_EXISTS;
    if (!make_place(t)) return ERR_FULL;
    struct token_tenant *tenant = tenant_take(t, f->tenant);
    if (tenant == NULL || !order_ready(&tenant->all, &t->spare)) return ERR_FULL;
    struct token_minter *m = minter_take(t, tenant, f->key);
    if (m == NULL) return ERR_FULL;
    struct token *k = token_make(f, retry);
    const struct share_asker who = asker_of(f);
    struct share *share = k == NULL ? NULL : shares_enter(&t->shares, &who, 0, f->issued_ms);
    if (share == NULL || !retry_put(t, k)) {
        if (share != NULL) shares_leave(&t->shares, share, 0);
        free(k);
        minter_let_go(t, m);
        return ERR_FULL;
    }
    m->share = share;
    token_put(t, k, m, f);
    token_table_check(t);
    *ret = k;
    return ERR_OK;
}

/* ---- dropping ---- */

static void token_drop(struct token_table *t, struct token *k)
{
    token_check(k);
    check(t->count > 0 && t->bytes >= token_bytes(k));
    const struct token_retry *kept = token_retry_of(k);
    if (kept != NULL)
        check(map_remove(&t->retries,
                         str_of((const char *)kept->key.bytes, sizeof kept->key.bytes)) == k);
    order_remove(&k->minter->tenant->all, &t->spare, k->ordinal, k);
    place_clear(t, k->id);
    t->count--;
    t->counted -= k->uses_max != 0;
    t->bytes -= token_bytes(k);
    k->minter->count--;
    shares_leave(&t->shares, k->minter->share, 0);
    minter_let_go(t, k->minter);
    free(k);
}

/* Drops from one bucket; false: `most` was reached. */
static bool bucket_prune(struct token_table *t, struct token **bucket, uint64_t now_ms,
                         size_t *most)
{
    for (struct token **at = bucket; *at != NULL;) {
        struct token *k = *at;
        if (end_of(k) > now_ms) {
            at = &k->next_in_bucket;
            continue;
        }
        if (*most == 0) return false;
        --*most;
        token_check(k);
        *at = k->next_in_bucket;
        token_drop(t, k);
    }
    return true;
}

bool token_table_prune(struct token_table *t, uint64_t now_ms, size_t most)
{
    size_t left = most;
    uint64_t minute = now_ms / TOKEN_BUCKET_MS;
    if (t->count == 0) {
        t->pruned_minute = minute;
        return false;
    }
    if (minute - t->pruned_minute > TOKEN_BUCKETS && t->pruned_minute < minute)
        t->pruned_minute = minute - TOKEN_BUCKETS;
    for (; t->pruned_minute < minute; t->pruned_minute++)
        if (!bucket_prune(t, &t->buckets[t->pruned_minute % TOKEN_BUCKETS], now_ms, &left))
            return true;
    token_table_check(t);
    return left < most;
}

uint64_t token_table_next_ms(const struct token_table *t)
{
    return t->count == 0 ? UINT64_MAX : (t->pruned_minute + 1) * TOKEN_BUCKET_MS;
}

struct token *token_table_next(const struct token_table *t, size_t *cursor)
{
    check(*cursor <= t->capacity);
    while (*cursor < t->capacity) {
        struct token *k = t->places[(*cursor)++];
        if (k != NULL) return k;
    }
    return NULL;
}
