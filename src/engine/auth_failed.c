/* auth_failed.c - refused credentials, counted per source and second, so that a flood of them
 * costs one record a second and not one each. A source is the id of a key where the credential
 * has a key's form; all others are one source. What cannot be recorded now is kept and counted
 * on. */
#include "engine/engine.h"
#include "event/event.h"

/* The id in a credential's text, without believing it. */
static bool claimed_id(const struct http_exchange *x, struct id *ret)
{
    struct str value = http_header_get(x, STR("authorization"));
    return value.size > 7 && credential_read(str_skip(value, 7), ret);
}

static bool same_source(const struct auth_source *s, bool known, const struct id *id)
{
    return s->known_key == known && (!known || memcmp(s->key_id.bytes, id->bytes, ID_BYTES) == 0);
}

static size_t find_source(const struct auth_failures *all, bool known, const struct id *id)
{
    size_t at = 0;
    while (at < all->count && !same_source(&all->sources[at], known, id)) at++;
    return at;
}

void auth_failed_note(void *worker, const struct http_exchange *x, enum err err)
{
    struct auth_failures *all = &((struct worker *)worker)->failures;
    struct id id = {0};
    bool known = claimed_id(x, &id);
    size_t at = find_source(all, known, &id);
    if (at == all->count && all->count >= AUTH_SOURCES_MAX - 1) { /* the last place is everybody else's */
        known = false;
        at = find_source(all, known, &id);
    }
    if (at == all->count) all->sources[all->count++] = (struct auth_source){.known_key = known, .key_id = id};
    all->sources[at].count++;
    all->sources[at].err = err;
}

static enum err record_source(struct worker *w, const struct auth_source *s)
{
    char key_text[ID_TEXT], event_text[ID_TEXT], trace[32], bytes[2048];
    uint8_t random[16];
    uint64_t now_ms = world_now_ms();
    struct event e = {.kind = STR("auth.failed"), .tenant_id = STR("default"), .timestamp = now_ms, .count = s->count,
                      .has_count = true, .reason = str_from(err_sentence(s->err)), .engine_version = STR(WRIT_VERSION)};
    if (s->known_key) {
        const struct key *key = key_table_get(w->api.keys, s->key_id);
        if (key != NULL && !str_equal(key->tenant, STR("*"))) e.tenant_id = key->tenant;
        id_write("key_", s->key_id, key_text);
        e.key_id = str_of(key_text, ID_TEXT);
    }
    id_write("evt_", id_make(now_ms, &w->api.chance), event_text);
    e.event_id = str_of(event_text, ID_TEXT);
    chance_take(&w->api.chance, random, sizeof random);
    struct buf hex = buf_over(trace, sizeof trace);
    buf_put_hex(&hex, random, sizeof random);
    e.trace_id = buf_view(&hex);

    struct buf b = buf_over(bytes, sizeof bytes);
    event_put(&b, &e);
    struct http_gate nobody_waits;
    struct str event = buf_view(&b);
    return commit_events(&w->commit, &event, 1, false, &nobody_waits);
}

void auth_failed_record(struct worker *w)
{
    struct auth_failures *all = &w->failures;
    while (all->count > 0) {
        if (record_source(w, &all->sources[all->count - 1]) != ERR_OK) return;
        all->count--;
    }
}
