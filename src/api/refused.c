#include "api/refused.h"

#include <stdlib.h>

#include "api/api.h"
#include "base/check.h"

/* The id in a credential's text, without believing it. */
static bool claimed_id(const struct http_exchange *x, struct id *ret)
{
    struct str credential;
    struct fault ignored;
    return api_bearer(x, &credential, &ignored) == ERR_OK && credential_read(credential, ret);
}

/* `id` NULL: of those that claim none. */
static bool same_source(const struct refused_source *s, const struct id *id)
{
    return s->token == NULL && s->has_key_id == (id != NULL) &&
           (id == NULL || memcmp(s->key_id.bytes, id->bytes, ID_BYTES) == 0);
}

static size_t find_source(const struct refused *r, const struct id *id)
{
    size_t at = 0;
    while (at < r->count && !same_source(&r->sources[at], id)) at++;
    return at;
}

/* The last place is everybody else's. */
static bool is_full(const struct refused *r) { return r->count >= REFUSED_SOURCES_MAX - 1; }

static void note(struct refused *r, const struct id *id, bool is_made_up, enum err err,
                 uint64_t count)
{
    size_t at = find_source(r, id);
    if (at == r->count && (is_full(r) || (is_made_up && r->made_up == REFUSED_MADE_UP_MAX))) {
        id = NULL;
        is_made_up = false;
        at = find_source(r, id);
    }
    if (at == r->count) {
        r->sources[r->count++] =
            (struct refused_source){.has_key_id = id != NULL, .is_made_up = is_made_up};
        if (id != NULL) r->sources[at].key_id = *id;
        r->made_up += is_made_up;
    }
    r->sources[at].count += count;
    r->sources[at].err = err;
}

void refused_note(struct refused *r, const struct http_exchange *x, const struct key_table *keys,
                  enum err err)
{
    struct id id;
    bool has_id = claimed_id(x, &id);
    note(r, has_id ? &id : NULL, has_id && (keys == NULL || key_table_get(keys, id) == NULL), err,
         1);
}

void refused_note_ended(struct refused *r, struct id key, enum err err)
{
    note(r, &key, false, err, 1);
}

void refused_note_token(struct refused *r, const struct token_claims *t, enum err err)
{
    size_t at = 0;
    while (at < r->count && (r->sources[at].token == NULL ||
                             memcmp(r->sources[at].token->id.bytes, t->id.bytes, ID_BYTES) != 0))
        at++;
    struct token_claims *copy = at == r->count && !is_full(r) ? token_claims_keep(t) : NULL;
    if (at == r->count && copy == NULL) {
        note(r, NULL, false, err, 1);
        return;
    }
    if (at == r->count)
        r->sources[r->count++] =
            (struct refused_source){.has_key_id = true, .key_id = t->key, .token = copy};
    r->sources[at].count++;
    r->sources[at].err = err;
}

void refused_drop(struct refused *r)
{
    check(r->count > 0);
    r->count--;
    r->made_up -= r->sources[r->count].is_made_up;
    free(r->sources[r->count].token);
    r->sources[r->count].token = NULL;
}

void refused_put_back(struct refused *r, const struct refused_source *s)
{
    check(s->token == NULL);
    note(r, s->has_key_id ? &s->key_id : NULL, s->is_made_up, s->err, s->count);
}

struct str refused_tenant(const struct refused_source *s, const struct key_table *keys)
{
    if (s->token != NULL) return s->token->tenant;
    const struct key *key = s->has_key_id ? key_table_get(keys, s->key_id) : NULL;
    return key == NULL || str_equal(key->tenant, STR("*")) ? STR("default") : key->tenant;
}
