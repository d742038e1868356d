/* auth_failed.c - refused credentials into the store, once a second. */
#include "platform/platform.h"

#include "base/log.h"
#include "pipeline/ingest/own_event.h"

void auth_failed_note(void *context, const struct http_exchange *x, enum err err)
{
    struct platform *p = context;
    refused_note(&p->refused, x, p->keys, err);
}

static void record(struct job *j, struct store *s)
{
    const struct own_event *e = j->detail;
    struct fault f;
    if (own_event_store_alone(s, &j->actor, e, &f) != ERR_OK)
        log_line(LOG_ERROR, "auth_failed_not_recorded", "why", f.text, NULL);
}

static struct job *job_of(struct platform *p, const struct refused_source *source)
{
    struct job *j = job_create(p, NULL, record);
    struct own_event *e = job_detail(j, struct own_event);
    e->kind = "auth.failed";
    e->tenant = STR("default");
    e->reason = str_from(err_sentence(source->err));
    e->count = source->count;
    if (!source->has_key_id) {
        e->resource_type = "credential";
        e->resource_id = STR("unknown");
        return j;
    }
    e->tenant = job_copy(j, refused_tenant(source, p->keys));
    char text[ID_TEXT];
    id_write("key_", source->key_id, text);
    j->actor.key_id = job_copy(j, str_of(text, sizeof text));
    return j;
}

void auth_failed_record(struct platform *p)
{
    struct refused *all = &p->refused;
    while (all->count > 0) {
        struct job *j = job_of(p, &all->sources[all->count - 1]);
        if (!job_queue(j, QUEUE_WRITER)) { /* kept, and counted on */
            job_destroy(j);
            return;
        }
        refused_drop(all);
    }
}
