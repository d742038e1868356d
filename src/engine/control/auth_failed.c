/* auth_failed.c - records refused credentials, and refused tokens of this engine, in the journal,
 * once a second. Those that cannot be recorded now are kept and counted further. */
#include "base/check.h"
#include "engine/engine.h"
#include "event/event.h"

void auth_failed_note(void *engine_reactor, const struct http_exchange *x, enum err err)
{
    struct engine_reactor *w = engine_reactor;
    refused_note(&w->refused, x, w->api.keys, err);
}

void token_rejected_note(void *engine_reactor, const struct http_exchange *x,
                         const struct token_claims *t, enum err err)
{
    refused_note_token(&((struct engine_reactor *)engine_reactor)->refused, t, &x->client, err);
}

void auth_failed_note_ended(struct engine_reactor *w, struct id key,
                            const struct token_claims *token, const struct client_address *client,
                            enum err err)
{
    metric_add(w->sheet, METRIC_ENGINE_AUTH_FAILED, 1);
    if (token != NULL)
        refused_note_token(&w->refused, token, client, err);
    else
        refused_note_ended(&w->refused, key, client, err);
}

enum { EVENT_BYTES_MAX = 16 << 10 }; /* three names of 256 characters, each of them escaped */

static enum err record_source(struct engine_reactor *w, const struct refused_source *s)
{
    check(s->count > 0 && s->err != ERR_OK);
    char key_text[ID_TEXT], token_text[ID_TEXT], event_text[ID_TEXT], trace[TRACE_TEXT],
        bytes[EVENT_BYTES_MAX], client[CLIENT_ADDRESS_TEXT], reason[REFUSED_REASON_BYTES];
    uint64_t now_ms = world_now_ms();
    struct event e = {.kind = STR("auth.failed"),
                      .timestamp = now_ms,
                      .count = s->count,
                      .has_count = true,
                      .client_address = client_address_text(&s->client, client),
                      .reason = refused_reason(s, reason),
                      .engine_version = STR(WRIT_VERSION)};
    e.tenant_id = refused_tenant(s, w->api.keys);
    if (s->has_key_id) {
        id_write("key_", s->key_id, key_text);
        e.key_id = str_of(key_text, ID_TEXT);
    }
    if (s->token != NULL) {
        e.kind = STR("token.rejected");
        e.actor = s->token->actor;
        e.acting_for = s->token->acting_for;
        id_write("tok_", s->token->id, token_text);
        e.token_id = str_of(token_text, ID_TEXT);
    }
    id_write("evt_", id_make(now_ms, &w->api.chance), event_text);
    e.event_id = str_of(event_text, ID_TEXT);
    trace_write(&w->api.chance, trace);
    e.trace_id = str_of(trace, TRACE_TEXT);

    struct buf b = buf_over(bytes, sizeof bytes);
    event_put(&b, &e);
    check(!b.overflow);
    struct http_barrier nobody_waits;
    struct str event = buf_view(&b);
    return commit_events(&w->commit, &event, 1, LANE_WRITTEN, &nobody_waits);
}

void auth_failed_record(struct engine_reactor *w)
{
    struct refused *all = &w->refused;
    check(all->count <= REFUSED_SOURCES_MAX);
    while (all->count > 0) {
        const struct refused_source *s = &all->sources[all->count - 1];
        if (record_source(w, s) != ERR_OK) return;
        refused_log(s);
        refused_drop(all);
    }
}
