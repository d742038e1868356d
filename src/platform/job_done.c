/* job_done.c - a finished job on the reactor: it updates the reactor's state, ends the job, and
 * then answers the requests that waited for the change. */
#include "platform/platform.h"

#include "base/log.h"
#include "base/world.h"
#include "store/key_store.h"

/* A reader's timeout means that its query was too large. Whether readers reach the store at all is
 * checked by the look of each second. */
static bool is_of_the_store(const struct job *j)
{
    if (j->err == ERR_STORE_UNAVAILABLE || j->err == ERR_TIMEOUT) return j->queue == QUEUE_WRITER;
    return j->err == ERR_NO_SPACE || j->err == ERR_IO || j->err == ERR_CORRUPT ||
           j->err == ERR_INTERNAL;
}

/* Keeps the last failure of writer and readers, whatever the look of each second reports: a full or
 * failing disk must not look well. For the writer the log has the begin and the end. For a reader
 * each answer is logged. */
static void note_store(struct platform *p, const struct job *j)
{
    bool is_writer = j->queue == QUEUE_WRITER;
    if (j->work == NULL || j->queue == QUEUE_COUNT || (!is_writer && !j->has_token)) return;
    if (j->err == ERR_OK && j->wrote_nothing) return;
    struct store_trouble *t = &p->trouble[j->queue];
    bool was_well = t->fault.text[0] == '\0';
    if (j->err == ERR_OK) {
        if (is_writer && !was_well) log_line(LOG_INFO, "store_is_written", NULL);
        t->fault.text[0] = '\0';
    } else if (is_of_the_store(j)) {
        t->fault = j->fault;
        if (j->fault.text[0] == '\0') (void)fault_plain(&t->fault, j->err);
        t->at_ns = world_monotonic_ns();
        if (is_writer && was_well)
            log_line(LOG_ERROR, "store_is_not_written", "why", t->fault.text, NULL);
    }
}

/* For one table. Revocations beyond this hold in memory, and are written with the next table. */
enum { KEYS_REVOKED_AGAIN_MAX = 64 };

struct again {
    struct id id;
};

static void again_work(struct job *j, struct store *s)
{
    const struct again *a = j->detail;
    struct key_result result = {0};
    j->err = key_store_revoke(s, (struct str){0}, a->id, &j->actor, &j->keys_changed, &result,
                              &j->fault);
    j->revision = result.revision;
    j->wrote_nothing = !j->keys_changed;
}

static void again_done(struct job *j)
{
    if (j->err != ERR_OK) log_line(LOG_ERROR, "key_not_revoked_again", "why", j->fault.text, NULL);
    job_destroy(j);
}

/* A store that went back may have lost revocations that were already answered. They hold in memory,
 * and are written again. */
static void revoke_again(struct platform *p, struct key_table *next)
{
    struct id ids[KEYS_REVOKED_AGAIN_MAX];
    size_t count = key_table_keep_revoked(next, p->keys, ids, KEYS_REVOKED_AGAIN_MAX);
    for (size_t i = 0; i < count && i < KEYS_REVOKED_AGAIN_MAX; i++) {
        struct job *j = job_create(p, NULL, again_work);
        char text[ID_TEXT + 1] = "";
        job_detail(j, struct again)->id = ids[i];
        id_write("key_", ids[i], text);
        log_line(LOG_WARNING, "key_revoked_again", "key", text, "why",
                 "the key was revoked, but the store still has it as active", NULL);
        j->actor.principal = STR("writ-platform");
        j->done = again_done;
        if (job_queue(j, QUEUE_WRITER)) continue;
        j->err = fault_plain(&j->fault, ERR_OVERLOADED);
        again_done(j);
    }
}

void set_trouble_note(struct platform *p, enum err err, const struct fault *f)
{
    bool was_well = p->set_trouble.text[0] == '\0';
    if (err == ERR_OK) {
        if (!was_well) log_line(LOG_INFO, "set_is_good", NULL);
        p->set_trouble.text[0] = '\0';
        return;
    }
    if (strcmp(p->set_trouble.text, f->text) != 0)
        log_line(LOG_ERROR, "set_refused", "why", f->text, NULL);
    p->set_trouble = *f;
    if (was_well) follow_changed(p); /* engines that wait get the refusal at once */
}

/* A change of a row that is good does not show that all are. */
static void note_set(struct platform *p, const struct job *j)
{
    if (j->err == ERR_SET_REFUSED)
        set_trouble_note(p, j->err, &j->fault);
    else if (j->set_trouble.text[0] != '\0')
        set_trouble_note(p, ERR_SET_REFUSED, &j->set_trouble);
    else if (j->is_set_checked)
        set_trouble_note(p, ERR_OK, NULL);
}

void job_finish(struct job *j)
{
    struct platform *p = j->platform;
    note_store(p, j);
    note_set(p, j);
    /* the new table takes over; no caller of an earlier request is used any more */
    if (j->keys != NULL) {
        revoke_again(p, j->keys);
        key_table_destroy(p->keys);
        p->keys = j->keys;
        p->api.keys = p->keys;
        key_cache_clear(p->api.cache);
        api_set_meters(&p->api, p->meters);
        strangers_new_keys(&p->strangers);
        j->keys = NULL;
    }
    if (j->lost_revision > 0) followers_forget(p, j->lost_revision);
    bool changed = j->revision > p->revision, by_others = j->work == NULL && j->revision != 0;
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
    if (changed || by_others) directory_store_moved(p->watch, by_others);
}
