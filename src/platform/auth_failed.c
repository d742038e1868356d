/* auth_failed.c - refused credentials, counted per source and second, so that a flood of them
 * costs one row a second and not one each. A source is the id of a key where the credential has a
 * key's form; all others are one source. */
#include "platform/platform.h"

#include "base/log.h"
#include "pipeline/ingest/own_event.h"

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

static size_t find_source(const struct platform *p, bool known, const struct id *id)
{
    size_t at = 0;
    while (at < p->failure_count && !same_source(&p->failures[at], known, id)) at++;
    return at;
}

void auth_failed_note(void *context, const struct http_exchange *x, enum err err)
{
    struct platform *p = context;
    struct id id = {0};
    bool known = claimed_id(x, &id);
    size_t at = find_source(p, known, &id);
    if (at == p->failure_count &&
        p->failure_count >= AUTH_SOURCES_MAX - 1) { /* the last place is everybody else's */
        known = false;
        at = find_source(p, known, &id);
    }
    if (at == p->failure_count)
        p->failures[p->failure_count++] = (struct auth_source){.known_key = known, .key_id = id};
    p->failures[at].count++;
    p->failures[at].err = err;
}

static void record(struct job *j, struct store *s)
{
    const struct own_event *e = j->detail;
    struct fault f;
    if (own_event_store_alone(s, &j->actor, e, &f) != ERR_OK)
        log_line(LOG_ERROR, "auth_failed_not_recorded", "why", f.text, NULL);
}

static struct job *job_of(struct platform *p, const struct auth_source *source)
{
    struct job *j = job_create(p, NULL, record);
    struct own_event *e = job_detail(j, struct own_event);
    e->kind = "auth.failed";
    e->tenant = STR("default");
    e->reason = str_from(err_sentence(source->err));
    e->count = source->count;
    if (!source->known_key) {
        e->resource_type = "credential";
        e->resource_id = STR("unknown");
        return j;
    }
    const struct key *k = key_table_get(p->keys, source->key_id);
    if (k != NULL && !str_equal(k->tenant, STR("*"))) e->tenant = job_copy(j, k->tenant);
    char text[ID_TEXT];
    id_write("key_", source->key_id, text);
    j->actor.key_id = job_copy(j, str_of(text, sizeof text));
    return j;
}

void auth_failed_record(struct platform *p)
{
    while (p->failure_count > 0) {
        struct job *j = job_of(p, &p->failures[p->failure_count - 1]);
        if (!job_queue(j, QUEUE_WRITER)) { /* kept, and counted on */
            job_destroy(j);
            return;
        }
        p->failure_count--;
    }
}
