#include "api/refused.h"

/* The id in a credential's text, without believing it. */
static bool claimed_id(const struct http_exchange *x, struct id *ret)
{
    struct str value = http_header_get(x, STR("authorization"));
    return value.size > 7 && credential_read(str_skip(value, 7), ret);
}

static bool same_source(const struct refused_source *s, bool known, const struct id *id)
{
    return s->known_key == known && (!known || memcmp(s->key_id.bytes, id->bytes, ID_BYTES) == 0);
}

static size_t find_source(const struct refused *r, bool known, const struct id *id)
{
    size_t at = 0;
    while (at < r->count && !same_source(&r->sources[at], known, id)) at++;
    return at;
}

void refused_note(struct refused *r, const struct http_exchange *x, enum err err)
{
    struct id id = {0};
    bool known = claimed_id(x, &id);
    size_t at = find_source(r, known, &id);
    if (at == r->count && r->count >= REFUSED_SOURCES_MAX - 1) { /* the last place is everybody else's */
        known = false;
        at = find_source(r, known, &id);
    }
    if (at == r->count) r->sources[r->count++] = (struct refused_source){.known_key = known, .key_id = id};
    r->sources[at].count++;
    r->sources[at].err = err;
}

struct str refused_tenant(const struct refused_source *s, const struct key_table *keys)
{
    const struct key *key = s->known_key ? key_table_get(keys, s->key_id) : NULL;
    return key == NULL || str_equal(key->tenant, STR("*")) ? STR("default") : key->tenant;
}
