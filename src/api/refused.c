#include "api/refused.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/check.h"
#include "base/log.h"

/* The id in a credential's text, which is not verified. */
static bool claimed_id(const struct http_exchange *x, struct id *ret)
{
    struct str credential;
    struct fault ignored;
    return api_bearer(x, &credential, &ignored) == ERR_OK && credential_read(credential, ret);
}

/* `id` NULL: the source of credentials without an id. */
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

/* The last place is for all other sources. */
static bool is_full(const struct refused *r) { return r->count >= REFUSED_SOURCES_MAX - 1; }

/* Adds so many refusals from that address. */
static void add(struct refused_source *s, const struct client_address *client, enum err err,
                uint64_t count)
{
    if (s->count > 0 && !client_address_equal(&s->client, client)) s->has_several_clients = true;
    s->client = *client;
    s->err = err;
    s->count += count;
}

static struct refused_source *note(struct refused *r, const struct id *id, bool is_made_up,
                                   const struct client_address *client, enum err err,
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
    add(&r->sources[at], client, err, count);
    return &r->sources[at];
}

void refused_note(struct refused *r, const struct http_exchange *x, const struct key_table *keys,
                  enum err err)
{
    struct id id;
    bool has_id = claimed_id(x, &id);
    note(r, has_id ? &id : NULL, has_id && (keys == NULL || key_table_get(keys, id) == NULL),
         &x->client, err, 1);
}

void refused_note_ended(struct refused *r, struct id key, const struct client_address *client,
                        enum err err)
{
    note(r, &key, false, client, err, 1);
}

void refused_note_other(struct refused *r, const struct client_address *client, enum err err)
{
    note(r, NULL, false, client, err, 1);
}

void refused_note_token(struct refused *r, const struct token_claims *t,
                        const struct client_address *client, enum err err)
{
    size_t at = 0;
    while (at < r->count && (r->sources[at].token == NULL ||
                             memcmp(r->sources[at].token->id.bytes, t->id.bytes, ID_BYTES) != 0))
        at++;
    struct token_claims *copy = at == r->count && !is_full(r) ? token_claims_keep(t) : NULL;
    if (at == r->count && copy == NULL) {
        note(r, NULL, false, client, err, 1);
        return;
    }
    if (at == r->count)
        r->sources[r->count++] =
            (struct refused_source){.has_key_id = true, .key_id = t->key, .token = copy};
    add(&r->sources[at], client, err, 1);
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
    const struct id *id = s->has_key_id ? &s->key_id : NULL;
    note(r, id, s->is_made_up, &s->client, s->err, s->count)->has_several_clients |=
        s->has_several_clients;
}

struct str refused_reason(const struct refused_source *s, char *to)
{
    if (!s->has_several_clients) return str_from(err_sentence(s->err));
    struct buf b = buf_over(to, REFUSED_REASON_BYTES);
    buf_put(&b, str_from(err_sentence(s->err)));
    buf_put_literal(&b, "; from several addresses, client_address is the latest one");
    check(!b.overflow);
    return buf_view(&b);
}

void refused_log(const struct refused_source *s)
{
    char count[U64_DIGITS + 1] = "", key[ID_TEXT + 1] = "", client[CLIENT_ADDRESS_TEXT + 1] = "",
                            room[CLIENT_ADDRESS_TEXT];
    char reason[REFUSED_REASON_BYTES + 1];
    struct str address = client_address_text(&s->client, room), why = refused_reason(s, reason);
    snprintf(count, sizeof count, "%llu", (unsigned long long)s->count);
    snprintf(client, sizeof client, "%.*s", STR_FORMAT(address));
    if (why.bytes != reason) buf_copy(reason, why.bytes, why.size);
    reason[why.size] = '\0';
    if (s->has_key_id) id_write("key_", s->key_id, key);
    log_line(LOG_INFO, s->token != NULL ? "token_rejected" : "auth_failed", "client_address",
             client, "key", key, "count", count, "why", reason, NULL);
}

struct str refused_tenant(const struct refused_source *s, const struct key_table *keys)
{
    if (s->token != NULL) return s->token->tenant;
    const struct key *key = s->has_key_id ? key_table_get(keys, s->key_id) : NULL;
    return key == NULL || str_equal(key->tenant, STR("*")) ? STR("default") : key->tenant;
}
