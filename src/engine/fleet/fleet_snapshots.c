#include "engine/fleet/fleet_snapshots.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/world.h"
#include "engine/fleet/fleet_copy.h"
#include "shards/serialize.h"
#include "snapshot/replay.h"

enum {
    LOOK_MS = 1000,
    RETRY_MS = 30000,
    SILENT_MS = 30000,
    READ_MS = 200,
    NICE = 5,
    REST = 8, /* times as long as the last one took, before the next is due */
    /* Of an idle fleet: its heartbeats would make a start slow. */
    ENTRIES = 100000,
};

struct fleet_snapshots {
    struct engine *engine;
    struct fleet_member *member;
    pthread_t thread;
    _Atomic bool stopping;
    pthread_mutex_t lock; /* guards: */
    pthread_cond_t moved;
    struct limit_windows windows; /* its list is on the heap */
    char trouble[FLEET_REASON_TEXT];
    /* the thread's */
    uint64_t due_ms, rest_until_ms;
    struct member_progress made; /* as of the newest one */
};

static uint64_t monotonic_ms(void) { return world_monotonic_ns() / 1000000; }

/* ---- windows of limits ---- */

void fleet_snapshots_hold_limits(struct fleet_snapshots *s, const struct limit_windows *windows)
{
    struct limit_windows copy = limit_windows_copy(windows);
    pthread_mutex_lock(&s->lock);
    struct limit_windows before = s->windows;
    s->windows = copy;
    pthread_mutex_unlock(&s->lock);
    limit_windows_free(&before);
}

static void prune(struct fleet_snapshots *s, struct shard *shard, uint64_t log_ms)
{
    pthread_mutex_lock(&s->lock);
    shard_hold_limits(shard, &s->windows);
    shard_prune(shard, log_ms > REPLAY_PRUNE_MARGIN_MS ? log_ms - REPLAY_PRUNE_MARGIN_MS : 0);
    shard_hold_limits(shard, &limit_windows_unknown);
    pthread_mutex_unlock(&s->lock);
}

/* ---- one snapshot ---- */

struct making {
    struct fleet_snapshots *of;
    struct fleet_snapshot point; /* that it has to arrive at */
    struct log_replay replay;
    struct shard *shard;
    struct statelog *log;
    struct hasher *hasher;
};

static enum err load_entry(void *context, unsigned slot, struct str entry)
{
    struct making *k = context;
    struct fault f;
    (void)slot;
    return shard_load(k->shard, entry, &f);
}

static enum err apply(struct making *k, const struct entry *e, uint64_t offset, struct fault *f)
{
    struct str rest = e->records;
    struct journal_record record = {.seq = 0};
    struct fault why = {.err = ERR_OK};
    enum err err = ERR_OK;
    while (err == ERR_OK && entry_next_record(&rest, &record.public_bytes, &record.private_bytes))
        err = replay_record(&k->shard, 1, &record, &why);
    return err == ERR_OK
               ? ERR_OK
               : fault_set(f, err, "", "the entry at offset %" PRIu64 ": %s", offset, why.text);
}

static enum err take(struct making *k, const struct statelog_message *message, struct fault *f)
{
    struct entry e;
    enum entry_fault fault = entry_read(message->bytes, &k->of->member->key, k->hasher, &e);
    bool is_skipped =
        fault != ENTRY_GOOD && skips_find(&k->of->member->skips, message->offset) != NULL;
    enum log_result result =
        is_skipped ? log_replay_pass(&k->replay, message->offset)
                   : log_replay_step(&k->replay, fault == ENTRY_GOOD ? &e : NULL, message->offset);
    if (result == LOG_ENDED)
        return fault_set(f, ERR_CORRUPT, "",
                         "the fleet's log is not the one that this engine has read: the entry at "
                         "offset %" PRIu64 " does not follow",
                         message->offset);
    if (result == LOG_COUNTED && e.kind == ENTRY_RECORDS) return apply(k, &e, message->offset, f);
    return ERR_OK;
}

static enum err read_up(struct making *k, struct fault *f)
{
    const struct log_replay *until = &k->point.saved.replay;
    uint64_t heard_ms = monotonic_ms();
    enum err err = statelog_read_again(k->log, k->replay.next, f);
    while (err == ERR_OK && k->replay.next < until->next) {
        struct statelog_message message;
        enum statelog_read found = statelog_next(k->log, &message);
        if (atomic_load(&k->of->stopping)) return fault_set(f, ERR_CLOSED, "", "given up");
        if (found == STATELOG_GONE)
            return fault_set(f, ERR_NOT_FOUND, "",
                             "the fleet's log does not have offset %" PRIu64 " any more",
                             k->replay.next);
        if (found == STATELOG_MESSAGE) {
            heard_ms = monotonic_ms();
            err = take(k, &message, f);
            statelog_note_next(k->log, k->replay.next);
            continue;
        }
        if (monotonic_ms() - heard_ms > SILENT_MS)
            return fault_set(f, ERR_UPSTREAM_FAILED, "", "the fleet's log sends nothing");
        statelog_wait(k->log, READ_MS);
    }
    if (err != ERR_OK) return err;
    if (k->replay.next == until->next && entry_point_equal(&k->replay.last, &until->last))
        return ERR_OK;
    return fault_set(f, ERR_CORRUPT, "", "two readings of the fleet's log differ");
}

static enum err make(struct making *k, struct fault *f)
{
    struct fleet_member *m = k->of->member;
    struct fleet_snapshot from = {.trail.seq = 1};
    enum err err = fleet_copy_reader(m, &k->log, f);
    if (err == ERR_OK) err = fleet_copy_load(m, k->log, &k->of->stopping, load_entry, k, &from, f);
    fleet_snapshot_fini(&from);
    if (err != ERR_OK && err != ERR_NOT_FOUND) return err;
    log_replay_begin(&k->replay, err == ERR_OK ? &from.saved.replay : NULL);
    if (k->point.saved.replay.next <= from.saved.replay.next && err == ERR_OK)
        return ERR_OK; /* one that was fetched is as new */
    err = read_up(k, f);
    if (err != ERR_OK) return err;
    prune(k->of, k->shard, k->replay.time_ms);
    err = fleet_snapshot_write(m->snapshots, &m->key, &k->point, &k->shard, 1, &k->of->stopping, f);
    if (err != ERR_OK) return err;
    err = fleet_snapshot_drop(m->snapshots, false);
    if (err != ERR_OK) log_text(LOG_WARNING, "old_snapshots_stay", "%s", err_sentence(err));
    fleet_copy_note_kept(m);
    return ERR_OK;
}

static enum err make_one(struct fleet_snapshots *s, struct fault *f)
{
    struct making k = {.of = s};
    struct member_progress progress;
    uint64_t begun_ms = monotonic_ms();
    if (!fleet_member_point(s->member, &s->stopping, &k.point, &progress))
        return fault_set(f, ERR_CLOSED, "", "given up");
    check(!k.point.past.overflow); /* FLEET_PAST_BYTES_MAX has room for all marks */
    k.shard = shard_create(&(struct shard_options){.count = 1});
    if (k.shard == NULL)
        return fault_set(f, ERR_FULL, "",
                         "a snapshot needs as much memory as the state, and there is none");
    shard_hold_limits(k.shard, &limit_windows_unknown);
    k.hasher = hasher_create();
    enum err err = make(&k, f);
    fleet_snapshot_fini(&k.point);
    statelog_close(k.log);
    hasher_destroy(k.hasher);
    shard_destroy(k.shard);
    uint64_t took_ms = monotonic_ms() - begun_ms;
    s->rest_until_ms = monotonic_ms() + REST * took_ms;
    if (err != ERR_OK) return err;
    s->made = progress;
    log_text(LOG_INFO, "fleet_snapshot", "as of offset %" PRIu64 ", made in %" PRIu64 " ms",
             k.point.saved.replay.next, took_ms);
    return ERR_OK;
}

/* ---- the thread ---- */

static bool is_due(const struct fleet_snapshots *s)
{
    const struct config *c = &s->engine->config;
    struct member_progress now;
    uint64_t now_ms = monotonic_ms();
    if (now_ms < s->rest_until_ms) return false;
    fleet_member_progress(s->member, &now);
    /* One that it fetched may be older than the log by now, and without two the log stays. */
    if (atomic_load(&s->member->kept) == 0 && now.entries > s->made.entries) return true;
    if (now.bytes - s->made.bytes >= c->snapshot_bytes) return true;
    if (now.entries - s->made.entries >= ENTRIES) return true;
    return now_ms >= s->due_ms && now.records > s->made.records;
}

static void note(struct fleet_snapshots *s, const char *trouble)
{
    pthread_mutex_lock(&s->lock);
    snprintf(s->trouble, sizeof s->trouble, "%s", trouble);
    pthread_mutex_unlock(&s->lock);
}

static void *run(void *context)
{
    struct fleet_snapshots *s = context;
    (void)thread_step_back(NICE); /* it is made all the same */
    while (!atomic_load(&s->stopping)) {
        struct fault f = {.err = ERR_OK};
        const struct timespec at = condition_deadline(LOOK_MS);
        pthread_mutex_lock(&s->lock);
        if (!atomic_load(&s->stopping)) (void)pthread_cond_timedwait(&s->moved, &s->lock, &at);
        pthread_mutex_unlock(&s->lock);
        if (atomic_load(&s->stopping) || !is_due(s)) continue;
        enum err err = make_one(s, &f);
        if (err == ERR_CLOSED) continue;
        s->due_ms = monotonic_ms() + (err == ERR_OK ? s->engine->config.snapshot_ms : RETRY_MS);
        if (err != ERR_OK) {
            s->rest_until_ms = s->due_ms;
            log_line(LOG_ERROR, "snapshot_failed", "text", f.text, NULL);
            metric_add(s->member->sheet, METRIC_SNAPSHOT_FAILURES, 1);
        }
        note(s, err == ERR_OK ? "" : f.text);
    }
    return NULL;
}

struct fleet_snapshots *fleet_snapshots_start(struct engine *e)
{
    struct fleet_snapshots *s = calloc(1, sizeof *s);
    check(s != NULL); /* only at boot */
    s->engine = e;
    s->member = e->member;
    s->windows = limit_windows_unknown;
    s->windows.list = NULL;
    s->due_ms = monotonic_ms() + e->config.snapshot_ms;
    pthread_mutex_init(&s->lock, NULL);
    condition_init(&s->moved);
    thread_start(&s->thread, "fleet-snapshot", run, s);
    return s;
}

void fleet_snapshots_stop(struct fleet_snapshots *s)
{
    if (s == NULL) return;
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->stopping, true);
    pthread_cond_signal(&s->moved);
    pthread_mutex_unlock(&s->lock);
    check(pthread_join(s->thread, NULL) == 0);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->moved);
    limit_windows_free(&s->windows);
    free(s);
}

bool fleet_snapshots_trouble(struct fleet_snapshots *s, char *to, size_t size)
{
    pthread_mutex_lock(&s->lock);
    snprintf(to, size, "%s", s->trouble);
    pthread_mutex_unlock(&s->lock);
    return to[0] != '\0';
}
