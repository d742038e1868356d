#include "engine/recovery.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "engine/old_limits.h"

#define DAY_MS UINT64_C(86400000)

struct loading { /* what the callbacks of one recovery share */
    struct engine *engine;
    struct recovery *recovery;
    uint64_t entries, records, first_seq, last_seq;
    struct fault fault; /* says more than the code that goes back through the journal */
};

/* ---- snapshot and journal ---- */

static enum err take_entry(void *context, unsigned slot, struct str entry)
{
    struct loading *l = context;
    l->entries++;
    return keep_load(l->engine->shards, l->engine->worker_count, slot, entry, &l->fault);
}

static enum err must_follow(struct loading *l, uint64_t seq)
{
    uint64_t position = l->recovery->past.position;
    l->first_seq = seq;
    if (seq <= position + 1) return ERR_OK;
    if (position == 0)
        return fault_set(&l->fault, ERR_CORRUPT, "",
                         "the journal begins with seq %" PRIu64
                         " and there is no snapshot: the state up to there is lost",
                         seq);
    return fault_set(&l->fault, ERR_CORRUPT, "",
                     "the newest snapshot that verifies ends with seq %" PRIu64
                     " and the journal begins with seq %" PRIu64 ": what is between is lost",
                     position, seq);
}

static enum err take_record(void *context, const struct journal_record *record)
{
    struct loading *l = context;
    struct recovery *r = l->recovery;
    struct fault why = {.err = ERR_OK};
    enum err err = l->first_seq == 0 ? must_follow(l, record->seq) : ERR_OK;
    if (err != ERR_OK) return err;
    keep_past_reached(&r->past, record->epoch, record->seq);
    l->last_seq = record->seq;
    if (record->seq <= r->past.position) return ERR_OK;
    l->records++;
    r->bytes_behind += record->public_bytes.size + record->private_bytes.size;
    if (record->private_bytes.size == 0) return ERR_OK;
    err = keep_apply(l->engine->shards, l->engine->worker_count, record, &why);
    return err == ERR_OK ? ERR_OK
                         : fault_set(&l->fault, err, "", "seq %" PRIu64 " of the journal: %s",
                                     record->seq, why.text);
}

static enum err open_journal(struct loading *l, const struct journal_options *options,
                             struct journal_report *ret_report, struct fault *f)
{
    uint64_t position = l->recovery->past.position;
    struct journal_options o = *options;
    o.leave_bytes = keep_needs(snapshot_size(l->recovery->snapshots, position), 0);
    enum err err = journal_open(&o, take_record, l, &l->engine->journal, ret_report, f);
    if (err != ERR_OK) {
        if (l->fault.err != ERR_OK) *f = l->fault;
        return err;
    }
    if (ret_report->last_seq >= position) return ERR_OK;
    return fault_set(f, ERR_CORRUPT, "",
                     "the newest snapshot ends with seq %" PRIu64
                     " and the journal with seq %" PRIu64
                     ": the end of the journal is lost, its disk went back in time",
                     position, ret_report->last_seq);
}

static enum err make_shards(struct engine *e, struct fault *f)
{
    e->shards = calloc(e->worker_count, sizeof *e->shards);
    check(e->shards != NULL);
    for (unsigned i = 0; i < e->worker_count; i++) {
        e->shards[i] = shard_create(
            &(struct shard_options){.index = i,
                                    .count = e->worker_count,
                                    .rotate_ms = e->config.token_rotate_days * DAY_MS});
        if (e->shards[i] == NULL) return fault_set(f, ERR_FULL, "", "out of memory for a shard");
        shard_hold_limits(e->shards[i], &limit_windows_unknown);
    }
    return ERR_OK;
}

static enum err open_snapshots(struct engine *e, struct recovery *r, struct fault *f)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/engine/snapshots", e->config.data);
    enum err err = disk_real_create(path, &r->snapshots);
    return err == ERR_OK
               ? ERR_OK
               : fault_set(f, err, "", "snapshots: cannot open %s: %s", path, strerror(errno));
}

/* ---- what is derived of the state ---- */

static void notice(void *context, const struct effect_notice *n)
{
    struct engine *e = context;
    (void)revoked_log_append(e->revoked, n);
}

static void derive(struct engine *e)
{
    uint64_t ordinal = 0;
    for (unsigned i = 0; i < e->worker_count; i++) {
        shard_notices(e->shards[i], notice, e);
        uint64_t last = shard_ordinal_max(e->shards[i]);
        if (last > ordinal) ordinal = last;
    }
    atomic_store(&e->ordinal, ordinal + 1);
    e->old_limits = old_limits_create(e->shards, e->worker_count);
}

/* ---- Redis ---- */

static struct keep_redis redis_of(const struct config *c)
{
    return (struct keep_redis){.url = c->redis_url,
                               .user = c->redis_user,
                               .password_file = c->redis_password_file,
                               .ca_file = c->redis_ca_file,
                               .adopt = c->adopt,
                               .timeout_ms = (uint32_t)c->redis_timeout_ms};
}

/* What was adopted is in no journal: it is a snapshot before anything else happens. */
static enum err look_at_redis(struct loading *l, uint64_t last_seq, struct fault *f)
{
    struct engine *e = l->engine;
    struct recovery *r = l->recovery;
    struct keep_redis redis = redis_of(&e->config);
    bool had_adopted = r->past.adopted[0] != '\0';
    struct keep_check by = {.node = e->node,
                            .past = &r->past,
                            .last_seq = last_seq,
                            .now_ms = world_now_ms(),
                            .each = take_entry,
                            .context = l};
    enum err err = keep_redis_check(&redis, &by, &r->redis_reached, f);
    if (err != ERR_OK || had_adopted || r->past.adopted[0] == '\0') return err;
    return keep_snapshot(r->snapshots, &r->past, e->shards, e->worker_count, f);
}

/* ---- the story ---- */

static void say(const struct loading *l, uint64_t begun_ns)
{
    log_text(LOG_INFO, "state_recovered",
             "%" PRIu64 " objects of the snapshot as of seq %" PRIu64 ", %" PRIu64
             " records behind it, in %" PRIu64 " ms",
             l->entries, l->recovery->past.position, l->records,
             (world_monotonic_ns() - begun_ns) / 1000000);
}

enum err recovery_run(struct engine *e, struct recovery *r, const struct journal_options *options,
                      struct journal_report *ret_report, struct fault *f)
{
    struct loading l = {.engine = e, .recovery = r};
    uint64_t begun_ns = world_monotonic_ns();
    enum err err = make_shards(e, f);
    if (err == ERR_OK) err = open_snapshots(e, r, f);
    if (err == ERR_OK) err = snapshot_read(r->snapshots, take_entry, &l, &r->past, f);
    if (err != ERR_OK && l.fault.err != ERR_OK) *f = l.fault;
    if (err == ERR_OK) err = open_journal(&l, options, ret_report, f);
    if (err != ERR_OK) return err;
    journal_hold(e->journal, r->past.position);
    world_time_floor(ret_report->last_ms);
    err = look_at_redis(&l, ret_report->last_seq, f);
    if (err != ERR_OK) return err;
    derive(e);
    say(&l, begun_ns);
    return ERR_OK;
}

bool recovery_found_nothing(const struct recovery *r, const struct journal_report *report)
{
    return r->past.position == 0 && report->last_seq == 0 && r->past.adopted[0] == '\0';
}

enum err recovery_keep(struct engine *e, struct recovery *r, struct fault *f)
{
    const struct config *c = &e->config;
    struct keep_options options = {.journal = e->journal,
                                   .disk = r->snapshots,
                                   .node = e->node,
                                   .past = &r->past,
                                   .bytes_behind = r->bytes_behind,
                                   .snapshot_bytes = c->snapshot_bytes,
                                   .snapshot_ms = c->snapshot_seconds * 1000,
                                   .redis = redis_of(c),
                                   .redis_reached = r->redis_reached,
                                   .sheet = metrics_sheet_create(),
                                   .lost_ownership = r->lost_ownership,
                                   .context = r->context};
    struct keep *keep = NULL;
    enum err err = keep_start(&options, &keep, f);
    if (err != ERR_OK) return err;
    pthread_mutex_lock(&e->followers_lock);
    e->keep = keep;
    pthread_mutex_unlock(&e->followers_lock);
    return ERR_OK;
}

void recovery_fini(struct recovery *r) { disk_real_destroy(r->snapshots); }
