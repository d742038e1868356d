#include "engine/runtime/offload.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/world.h"

enum { NICE = 10 }; /* a tenth of a core that reactors want */

struct offload {
    pthread_t thread;
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t wake;
    struct offload_job *waiting, *done; /* in the order in which they were put */
    struct offload_job *running;
    unsigned count; /* of waiting and running */
    uint64_t turn;  /* of the job that was begun last */
    bool stopping, stopped;
    atomic_uint done_count[LIMIT_REACTORS]; /* of `done`, by reactor */
    void (*wake_reactor)(void *context, unsigned reactor);
    void *context;
};

static void append(struct offload_job **list, struct offload_job *job)
{
    while (*list != NULL) list = &(*list)->next;
    job->next = NULL;
    *list = job;
}

/* ---- the thread ---- */

/* The one with the lowest turn; of several, the one that was put first. */
static struct offload_job *take_next(struct offload *o)
{
    struct offload_job **next = &o->waiting;
    for (struct offload_job **at = &o->waiting; *at != NULL; at = &(*at)->next)
        if ((*at)->turn < (*next)->turn) next = at;
    struct offload_job *job = *next;
    check(job != NULL && job->turn >= o->turn);
    *next = job->next;
    o->turn = job->turn;
    return job;
}

static void end(struct offload *o, struct offload_job *job)
{
    const unsigned reactor = job->reactor;
    o->running = NULL;
    o->count--;
    append(&o->done, job);
    atomic_fetch_add_explicit(&o->done_count[reactor], 1, memory_order_release);
    o->wake_reactor(o->context, reactor);
}

static void *offload_run(void *argument)
{
    struct offload *o = argument;
    if (!thread_step_back(NICE)) log_text(LOG_WARNING, "step_back", "offload: %s", strerror(errno));
    pthread_mutex_lock(&o->mutex);
    for (;;) {
        while (o->waiting == NULL && !o->stopping) pthread_cond_wait(&o->wake, &o->mutex);
        if (o->stopping) break;
        struct offload_job *job = o->running = take_next(o);
        pthread_mutex_unlock(&o->mutex);
        const uint64_t waited_ns = world_monotonic_ns() - job->put_ns;
        job->end =
            waited_ns / 1000000000 >= LIMIT_OFFLOAD_WAIT_SECONDS ? OFFLOAD_LATE : OFFLOAD_RUN;
        if (job->end == OFFLOAD_RUN) job->run(job);
        pthread_mutex_lock(&o->mutex);
        end(o, job);
    }
    o->stopped = true;
    pthread_mutex_unlock(&o->mutex);
    return NULL;
}

/* ---- reactors ---- */

/* Counts the tenant's jobs, and finds the turn behind its last one. */
static unsigned count_of(const struct offload *o, struct str tenant, uint64_t *ret_turn)
{
    unsigned count = 0;
    *ret_turn = o->turn;
    if (o->running != NULL && str_equal(o->running->tenant, tenant)) {
        count++;
        *ret_turn = o->running->turn + 1;
    }
    for (const struct offload_job *job = o->waiting; job != NULL; job = job->next) {
        if (!str_equal(job->tenant, tenant)) continue;
        count++;
        if (job->turn >= *ret_turn) *ret_turn = job->turn + 1;
    }
    return count;
}

static enum err put(struct offload *o, struct offload_job *job, struct fault *f)
{
    const unsigned of_tenant = count_of(o, job->tenant, &job->turn);
    if (o->stopping) return fault_plain(f, ERR_DRAINING);
    if (of_tenant >= LIMIT_OFFLOADED_OF_TENANT) {
        static const struct quota quota = {
            .name = "long-questions", .most = LIMIT_OFFLOADED_OF_TENANT, .retry_s = 1};
        return fault_quota(f, ERR_QUOTA_TENANT, &quota);
    }
    if (o->count >= LIMIT_OFFLOADED)
        return fault_set(f, ERR_OVERLOADED, "",
                         "%u explanations, dry runs or large lists wait already; try again later",
                         o->count);
    o->count++;
    append(&o->waiting, job);
    return ERR_OK;
}

enum err offload_put(struct offload *o, struct offload_job *job, struct fault *f)
{
    check(job->run != NULL && job->reactor < LIMIT_REACTORS);
    job->put_ns = world_monotonic_ns();
    pthread_mutex_lock(&o->mutex);
    const enum err err = put(o, job, f);
    if (err == ERR_OK) pthread_cond_signal(&o->wake);
    pthread_mutex_unlock(&o->mutex);
    return err;
}

struct offload_job *offload_take(struct offload *o, unsigned reactor)
{
    check(reactor < LIMIT_REACTORS);
    if (atomic_load_explicit(&o->done_count[reactor], memory_order_acquire) == 0) return NULL;
    pthread_mutex_lock(&o->mutex);
    struct offload_job **at = &o->done;
    while (*at != NULL && (*at)->reactor != reactor) at = &(*at)->next;
    struct offload_job *job = *at;
    check(job != NULL);
    *at = job->next;
    atomic_fetch_sub_explicit(&o->done_count[reactor], 1, memory_order_relaxed);
    pthread_mutex_unlock(&o->mutex);
    return job;
}

/* ---- life ---- */

struct offload *offload_create(void (*wake)(void *context, unsigned reactor), void *context)
{
    struct offload *o = calloc(1, sizeof *o);
    check(o != NULL);
    o->wake_reactor = wake;
    o->context = context;
    pthread_mutex_init(&o->mutex, NULL);
    condition_init(&o->wake);
    thread_start(&o->thread, "offload", offload_run, o);
    return o;
}

void offload_stop(struct offload *o)
{
    if (o == NULL || o->stopped) return;
    pthread_mutex_lock(&o->mutex);
    o->stopping = true;
    pthread_cond_signal(&o->wake);
    pthread_mutex_unlock(&o->mutex);
    pthread_join(o->thread, NULL);
    check(o->stopped);
}

void offload_destroy(struct offload *o)
{
    if (o == NULL) return;
    check(o->stopped);
    pthread_cond_destroy(&o->wake);
    pthread_mutex_destroy(&o->mutex);
    free(o);
}
