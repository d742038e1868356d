/* back.c - a job is back on the reactor: what it changes here, then its end, then
 * who waited for the change. */
#include "platform/platform.h"

#include "base/log.h"
#include "base/world.h"

static bool is_of_the_store(enum err err)
{
    return err == ERR_NO_SPACE || err == ERR_STORE_UNAVAILABLE || err == ERR_IO ||
           err == ERR_CORRUPT;
}

/* What the writer said last of a store that can be read all the same: a full disk, or one that
 * fails, must not look well. Logged when it begins and when it ends. */
static void note_writing(struct platform *p, const struct job *j)
{
    if (j->work == NULL || j->queue != QUEUE_WRITER) return;
    bool was_well = p->write_trouble.text[0] == '\0';
    if (j->err == ERR_OK) {
        if (!was_well) log_line(LOG_INFO, "store_is_written", NULL);
        p->write_trouble.text[0] = '\0';
    } else if (is_of_the_store(j->err)) {
        p->write_trouble = j->fault;
        if (j->fault.text[0] == '\0') fault_plain(&p->write_trouble, j->err);
        p->write_trouble_ns = world_monotonic_ns();
        if (was_well)
            log_line(LOG_ERROR, "store_is_not_written", "why", p->write_trouble.text, NULL);
    }
}

void job_back(struct job *j)
{
    struct platform *p = j->platform;
    note_writing(p, j);
    if (j->keys != NULL) { /* no caller of an earlier request is looked at any more */
        key_table_destroy(p->keys);
        p->keys = j->keys;
        p->api.keys = p->keys;
        key_cache_clear(p->api.cache);
        j->keys = NULL;
    }
    bool changed = j->revision > p->revision, by_others = j->work == NULL;
    if (changed) {
        p->revision = j->revision;
        metric_set(p->sheet, METRIC_PLATFORM_REVISION, p->revision);
    }
    if (j->done != NULL)
        j->done(j);
    else if (j->has_token)
        job_answer(j);
    else
        job_destroy(j);
    if (changed) follow_changed(p);
    if (changed || by_others) watch_store_moved(p->watch, by_others);
}
