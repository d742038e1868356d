#include "api/refused.h"

#include <stdlib.h>

#include "base/check.h"

/* The id in a credential's text, without believing it. */
static bool claimed_id(const struct http_exchange *x, struct id *ret)
{
    struct str value = http_header_get(x, STR("authorization"));
    return value.size > 7 && credential_read(str_skip(value, 7), ret);
}

static bool same_source(const struct refused_source *s, bool known, const struct id *id)
{
    return s->token == NULL && s->known_key == known &&
           (!known || memcmp(s->key_id.bytes, id->bytes, ID_BYTES) == 0);
}

static size_t find_source(const struct refused *r, bool known, const struct id *id)
{
    size_t at = 0;
    while (at < r->count && !same_source(&r->sources[at], known, id)) at++;
    return at;
}

/* The last place is everybody else's. */
static bool is_full(const struct refused *r) { return r->count >= REFUSED_SOURCES_MAX - 1; }

static void note(struct refused *r, bool known, struct id id, enum err err)
{
    size_t at = find_source(r, known, &id);
    if (at == r->count && is_full(r)) {
        known = false;
        at = find_source(r, known, &id);
    }
    if (at == r->count)
        r->sources[r->count++] = (struct refused_source){.known_key = known, .key_id = id};
    r->sources[at].count++;
    r->sources[at].err = err;
}

void refused_note(struct refused *r, const struct http_exchange *x, enum err err)
{
    struct id id = {0};
    bool known = claimed_id(x, &id);
    note(r, known, id, err);
}

void refused_note_token(struct refused *r, const struct token_claims *t, enum err err)
{
    size_t at = 0;
    while (at < r->count && (r->sources[at].token == NULL ||
                             memcmp(r->sources[at].token->id.bytes, t->id.bytes, ID_BYTES) != 0))
        at++;
    struct token_claims *copy = at == r->count && !is_full(r) ? token_claims_keep(t) : NULL;
    if (at == r->count && copy == NULL) {
        note(r, false, t->key, err);
        return;
    }
    if (at == r->count)
        r->sources[r->count++] =
            (struct refused_source){.known_key = true, .key_id = t->key, .token = copy};
    r->sources[at].count++;
    r->sources[at].err = err;
}

void refused_drop(struct refused *r)
{
    check(r->count > 0);
    r->count--;
    free(r->sources[r->count].token);
    r->sources[r->count].token = NULL;
}

struct str refused_tenant(const struct refused_source *s, const struct key_table *keys)
{
    if (s->token != NULL) return s->token->tenant;
    const struct key *key = s->known_key ? key_table_get(keys, s->key_id) : NULL;
    return key == NULL || str_equal(key->tenant, STR("*")) ? STR("default") : key->tenant;
}
