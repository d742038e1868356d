/* auth_failed.c - writes refused credentials into the store, once a second. */
#include "platform/platform.h"

#include "base/log.h"
#include "store/own_event.h"

struct auth_failed {
    struct refused_source source; /* a copy */
    struct own_event event;
    char reason[REFUSED_REASON_BYTES], client[CLIENT_ADDRESS_TEXT];
};

void auth_failed_note(void *context, const struct http_exchange *x, enum err err)
{
    struct platform *p = context;
    refused_note(&p->refused, x, p->keys, err);
    strangers_note_false(&p->strangers, x);
}

void auth_failed_note_ended(struct platform *p, struct id key, const struct client_address *client,
                            enum err err)
{
    metric_add(p->sheet, METRIC_PLATFORM_AUTH_FAILED, 1);
    refused_note_ended(&p->refused, key, client, err);
}

static void record(struct job *j, struct store *s)
{
    const struct auth_failed *a = j->detail;
    j->err = own_event_store_alone(s, &j->actor, &a->event, &j->fault);
}

/* A record that failed is tried again at the next tick. If the answer to a commit was lost, the
 * same refusals can be recorded twice. */
static void recorded(struct job *j)
{
    struct platform *p = j->platform;
    const struct auth_failed *a = j->detail;
    bool failed = j->err != ERR_OK;
    if (failed) refused_put_back(&p->refused, &a->source);
    if (failed && !p->refused_wait)
        log_line(LOG_ERROR, "auth_failed_not_recorded", "why", j->fault.text, NULL);
    p->refused_wait = failed;
    if (!failed) refused_log(&a->source);
    job_destroy(j);
}

static struct job *job_of(struct platform *p, const struct refused_source *source)
{
    struct job *j = job_create(p, NULL, record);
    struct auth_failed *a = job_detail(j, struct auth_failed);
    struct own_event *e = &a->event;
    j->done = recorded;
    a->source = *source;
    e->kind = "auth.failed";
    e->tenant = STR("default");
    e->reason = refused_reason(source, a->reason);
    e->client_address = client_address_text(&source->client, a->client);
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

/* Records all sources. While records fail, it sends only one a tick, to test the store. During the
 * drain it sends all. */
void auth_failed_record(struct platform *p)
{
    struct refused *all = &p->refused;
    for (bool more = true; more && all->count > 0; more = !p->refused_wait || p->draining) {
        struct job *j = job_of(p, &all->sources[all->count - 1]);
        if (!job_queue(j, QUEUE_WRITER)) { /* the source stays, and goes on counting */
            job_destroy(j);
            return;
        }
        refused_drop(all);
    }
}
