/* back.c - a job is back on the reactor: what it changes here, then its end, then
 * who waited for the change. */
#include "platform/platform.h"

#include "base/log.h"
#include "base/world.h"

/* A reader that took too long was asked too much, and whether it can reach the store at all the
 * look of each second knows. */
static bool is_of_the_store(const struct job *j)
{
    if (j->err == ERR_STORE_UNAVAILABLE || j->err == ERR_TIMEOUT) return j->queue == QUEUE_WRITER;
    return j->err == ERR_NO_SPACE || j->err == ERR_IO || j->err == ERR_CORRUPT ||
           j->err == ERR_INTERNAL;
}

/* What writer and readers met last, whatever the look of each second says: a full disk, or one that
 * fails, must not look well. For the writer logged when it begins and when it ends; what a reader
 * meets is logged with each answer. */
static void note_store(struct platform *p, const struct job *j)
{
    bool is_writer = j->queue == QUEUE_WRITER;
    if (j->work == NULL || (!is_writer && !j->has_token)) return;
    if (j->err == ERR_OK && j->wrote_nothing) return;
    struct store_trouble *t = &p->trouble[j->queue];
    bool was_well = t->fault.text[0] == '\0';
    if (j->err == ERR_OK) {
        if (is_writer && !was_well) log_line(LOG_INFO, "store_is_written", NULL);
        t->fault.text[0] = '\0';
    } else if (is_of_the_store(j)) {
        t->fault = j->fault;
        if (j->fault.text[0] == '\0') fault_plain(&t->fault, j->err);
        t->at_ns = world_monotonic_ns();
        if (is_writer && was_well)
            log_line(LOG_ERROR, "store_is_not_written", "why", t->fault.text, NULL);
    }
}

void job_back(struct job *j)
{
    struct platform *p = j->platform;
    note_store(p, j);
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
