#include "platform/retention_thread.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/world.h"
#include "metrics/metrics.h"
#include "store/quarantine.h"
#include "store/retention.h"
#include "store/set.h"
#include "platform/platform.h"

enum {
    LOOK_MS = 10000,       /* between two checks whether a day has begun: two short reads */
    KEY_LOOK_MS = 3600000, /* between two checks of all keys */
    REST_MS = 50,          /* between two batches: so ingest gets most of the time */
};

struct retention_thread {
    const struct config *config;
    struct store *store;
    struct metrics_sheet *sheet;
    uint64_t next_key_look_ms; /* by the monotonic clock */
    pthread_t thread;
    pthread_mutex_t lock; /* protects the following members */
    pthread_cond_t ended;
    bool stopping;
    char told[320]; /* the last failure that was logged; "": none since the last success */
};

/* False: the thread must end. */
static bool rest(struct retention_thread *k, uint64_t ms)
{
    const struct timespec until = condition_deadline(ms);
    pthread_mutex_lock(&k->lock);
    while (!k->stopping && pthread_cond_timedwait(&k->ended, &k->lock, &until) == 0) {
    }
    bool goes_on = !k->stopping;
    pthread_mutex_unlock(&k->lock);
    return goes_on;
}

/* Logs a failure only if it is new, because a server is usually unreachable for many looks. If
 * audit.keep is 0, an unreachable store only delays work that has time, and other checks report
 * it. */
static void tell(struct retention_thread *k, enum err err, const struct fault *f)
{
    if (err == ERR_STORE_UNAVAILABLE && k->config->audit_keep_ms == 0) {
        log_line(LOG_DEBUG, "retention_put_off", "why", f->text, NULL);
        return;
    }
    const char *text = err == ERR_OK ? "" : f->text;
    if (err != ERR_OK && strcmp(text, k->told) != 0)
        log_line(LOG_WARNING, "retention_failed", "why", text, NULL);
    snprintf(k->told, sizeof k->told, "%s", text);
}

static enum err drop(struct retention_thread *k, struct fault *f)
{
    uint64_t dropped = 0;
    if (k->config->audit_keep_ms == 0) return ERR_OK;
    enum err err = retention_drop(k->store, k->config->audit_keep_ms, world_now_ms(), &dropped, f);
    if (err != ERR_OK || dropped == 0) return err;
    metric_add(k->sheet, METRIC_STORE_DROPPED, dropped);
    log_text(LOG_INFO, "audit_dropped", "%llu events that are older than audit.keep",
             (unsigned long long)dropped);
    return ERR_OK;
}

static enum err forget_keys(struct retention_thread *k, struct fault *f)
{
    uint64_t now_ms = world_monotonic_ns() / 1000000, forgotten;
    if (now_ms < k->next_key_look_ms) return ERR_OK;
    k->next_key_look_ms = now_ms + KEY_LOOK_MS;
    enum err err = retention_forget_keys(k->store, world_now_ms(), &forgotten, f);
    if (err == ERR_SET_REFUSED)
        return ERR_OK; /* the check `set` has it; old events go all the same */
    if (err != ERR_OK) return err;
    if (forgotten > 0)
        log_text(LOG_INFO, "keys_forgotten", "%llu keys that ended more than %d days ago",
                 (unsigned long long)forgotten, LIMIT_ENDED_KEY_DAYS);
    return ERR_OK;
}

/* While the clock is not believed, nothing counts as too old. */
static enum err trim_quarantine(struct retention_thread *k, bool *ret_more, struct fault *f)
{
    uint64_t now_ms = world_now_ms(), keep_ms = k->config->quarantine_keep_ms;
    enum err err = keep_ms == 0 ? ERR_OK : retention_check_clock(k->store, now_ms, f);
    if (err != ERR_OK && err != ERR_OUT_OF_RANGE) return err;
    return quarantine_trim(k->store, err == ERR_OK ? keep_ms : 0, now_ms, ret_more, f);
}

/* False: the thread must end. */
static bool look(struct retention_thread *k)
{
    struct fault f = {.text = ""};
    bool more = true;
    enum err err = retention_roll(k->store, k->config->audit_keep_ms, world_now_ms(), &f);
    if (err == ERR_OK) err = drop(k, &f);
    if (err == ERR_OK) err = forget_keys(k, &f);
    /* Removal continues even if audit.keep has since been unset. */
    while (err == ERR_OK && more) {
        err = retention_remove(k->store, &more, &f);
        if (err == ERR_OK && more && !rest(k, REST_MS)) return false;
    }
    for (more = true; err == ERR_OK && more;) {
        err = trim_quarantine(k, &more, &f);
        if (err == ERR_OK && more && !rest(k, REST_MS)) return false;
    }
    tell(k, err, &f);
    return true;
}

static void *run(void *retention_thread)
{
    struct retention_thread *k = retention_thread;
    do {
        if (!look(k)) break;
    } while (rest(k, LOOK_MS));
    return NULL;
}

static void destroy(struct retention_thread *k)
{
    store_close(k->store);
    pthread_cond_destroy(&k->ended);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

enum err retention_thread_create(const struct config *c, struct history *history,
                                 const struct pepper *pepper, const struct ed25519 *signer,
                                 struct retention_thread **ret, struct fault *f)
{
    *ret = NULL;
    struct retention_thread *k = calloc(1, sizeof *k);
    check(k != NULL); /* only at boot */
    k->config = c;
    k->sheet = metrics_sheet_create();
    pthread_mutex_init(&k->lock, NULL);
    condition_init(&k->ended);
    enum err err = store_open(platform_store(c), true, &k->store, f);
    if (err == ERR_OK) store_share_history(k->store, history);
    if (err == ERR_OK) store_share_pepper(k->store, pepper);
    if (err == ERR_OK) store_share_signer(k->store, signer);
    if (err != ERR_OK) {
        destroy(k);
        return err;
    }
    thread_start(&k->thread, "keeper", run, k);
    *ret = k;
    return ERR_OK;
}

void retention_thread_destroy(struct retention_thread *k)
{
    if (k == NULL) return;
    pthread_mutex_lock(&k->lock);
    k->stopping = true;
    pthread_cond_broadcast(&k->ended);
    pthread_mutex_unlock(&k->lock);
    pthread_join(k->thread, NULL);
    destroy(k);
}
