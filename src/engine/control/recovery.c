#include "engine/control/recovery.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "engine/decision/old_limits.h"
#include "snapshot/replay.h"
#include "snapshot/snapshot.h"

struct loading { /* the state of the callbacks of one recovery */
    struct engine *engine;
    struct recovery *recovery;
    uint64_t entries, records, first_seq, last_seq;
    struct lineage snapshot; /* from its file */
    struct fault damage;     /* why there is none, though there are files */
    struct fault fault;      /* has more detail than the code that the journal returns */
};

static void loading_check(const struct loading *l)
{
    check(l->recovery->past.position >= l->snapshot.position || l->snapshot.position == 0);
    check(l->first_seq <= l->last_seq || l->last_seq == 0);
    check(l->records == 0 || l->last_seq > l->recovery->past.position);
}

/* ---- snapshot and journal ---- */

static enum err take_entry(void *context, unsigned slot, struct str entry)
{
    struct loading *l = context;
    check(slot < LIMIT_SLOTS);
    l->entries++;
    return replay_entry(l->engine->shards, l->engine->reactor_count, slot, entry, &l->fault);
}

/* Without a fleet, and at the start that begins one: then the state in this directory is the fleet's. */
static bool reads_own(const struct engine *e)
{
    return e->member == NULL || fleet_member_takes_own(e->member);
}

/* The state of a fleet is in its log. So a directory with a state of its own is refused, and that of
 * an engine which was in the fleet is read for its last seq only. */
static enum err refuse_own(const struct engine *e, bool has_own, struct fault *f)
{
    if (!has_own || e->config.fleet_discard || fleet_member_was_here(e->member)) return ERR_OK;
    return fault_set(f, ERR_BAD_VALUE, "",
                     "fleet: this data directory has a state of its own, which is not the fleet's. "
                     "Start with a new data directory, or give that state up, once, with "
                     "--fleet.discard true. Only the engine that begins a fleet brings its state "
                     "into it, with --fleet.seed true");
}

static enum err must_follow(struct loading *l, uint64_t seq)
{
    check(l->first_seq == 0 && seq > 0);
    uint64_t position = l->snapshot.position;
    l->first_seq = seq;
    if (seq <= position + 1) return ERR_OK;
    l->fault = l->damage;
    if (l->damage.err != ERR_OK) return ERR_CORRUPT;
    if (position == 0)
        return fault_set(&l->fault, ERR_CORRUPT, "",
                         "the journal begins with seq %" PRIu64
                         " and there is no snapshot: the state up to there is lost",
                         seq);
    return fault_set(&l->fault, ERR_CORRUPT, "",
                     "the newest snapshot that verifies ends with seq %" PRIu64
                     " and the journal begins with seq %" PRIu64 ": the records between are lost",
                     position, seq);
}

static enum err take_record(void *context, const struct journal_record *record)
{
    struct loading *l = context;
    struct recovery *r = l->recovery;
    check(record->seq > l->last_seq); /* the journal is in order */
    struct fault why = {.err = ERR_OK};
    if (!reads_own(l->engine)) {
        l->last_seq = record->seq;
        return refuse_own(l->engine, record->private_bytes.size > 0, &l->fault);
    }
    enum err err = l->first_seq == 0 ? must_follow(l, record->seq) : ERR_OK;
    bool meets = record->seq == l->snapshot.position ||
                 (record->seq == l->first_seq && record->seq > l->snapshot.position);
    if (err == ERR_OK && meets) err = lineage_fits(&l->snapshot, record, &l->fault);
    if (err != ERR_OK) return err;
    lineage_reached(&r->past, record->epoch, record->seq);
    l->last_seq = record->seq;
    if (record->seq <= r->past.position) return ERR_OK;
    l->records++;
    r->bytes_behind += record->public_bytes.size + record->private_bytes.size;
    if (record->private_bytes.size == 0) return ERR_OK;
    err = replay_record(l->engine->shards, l->engine->reactor_count, record, &why);
    return err == ERR_OK ? ERR_OK
                         : fault_set(&l->fault, err, "", "seq %" PRIu64 " of the journal: %s",
                                     record->seq, why.text);
}

static enum err open_journal(struct loading *l, const struct journal_options *options,
                             struct journal_report *ret_report, struct fault *f)
{
    uint64_t position = l->recovery->past.position;
    struct journal_options o = *options;
    o.given_up = &l->recovery->given_up;
    o.leave_bytes = snapshot_needs(snapshot_size(l->recovery->snapshots, position), 0);
    enum err err = journal_open(&o, take_record, l, &l->engine->journal, ret_report, f);
    if (err != ERR_OK) {
        if (l->fault.err != ERR_OK) *f = l->fault;
        return err;
    }
    if (l->damage.err != ERR_OK && ret_report->last_seq == 0) {
        *f = l->damage;
        return f->err;
    }
    if (ret_report->last_seq >= position) return ERR_OK;
    return fault_set(
        f, ERR_CORRUPT, "",
        "the newest snapshot ends with seq %" PRIu64 " and the journal with seq %" PRIu64
        ": the end of the journal is lost, because its disk went back in time (an older copy?)",
        position, ret_report->last_seq);
}

static enum err make_shards(struct engine *e, struct fault *f)
{
    e->shards = calloc(e->reactor_count, sizeof *e->shards);
    check(e->shards != NULL);
    for (unsigned i = 0; i < e->reactor_count; i++) {
        e->shards[i] = shard_create(&(struct shard_options){
            .index = i, .count = e->reactor_count, .rotate_ms = e->config.token_rotate_ms});
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

/* ---- what is derived from the state ---- */

static void notice(void *context, const struct effect_notice *n)
{
    struct engine *e = context;
    (void)revoked_log_append(e->revoked, n);
}

static void derive(struct engine *e)
{
    uint64_t ordinal = 0;
    for (unsigned i = 0; i < e->reactor_count; i++) {
        shard_notices(e->shards[i], notice, e);
        uint64_t last = shard_ordinal_max(e->shards[i]);
        if (last > ordinal) ordinal = last;
    }
    atomic_store(&e->ordinal, ordinal + 1);
    e->old_limits = old_limits_create(e->shards, e->reactor_count);
}

/* ---- Redis ---- */

static struct mirror_redis redis_of(const struct config *c)
{
    return (struct mirror_redis){.url = c->redis_url,
                                 .user = c->redis_user,
                                 .password_file = c->redis_password_file,
                                 .ca_file = c->redis_ca_file,
                                 .adopt = c->adopt,
                                 .timeout_ms = (uint32_t)c->redis_timeout_ms};
}

/* No journal has the adopted state: so a snapshot of it is made before anything else. */
static enum err look_at_redis(struct loading *l, uint64_t last_seq, struct fault *f)
{
    struct engine *e = l->engine;
    struct recovery *r = l->recovery;
    struct mirror_redis redis = redis_of(&e->config);
    bool had_adopted = r->past.adopted[0] != '\0';
    struct mirror_judge by = {.node = e->node,
                              .past = &r->past,
                              .last_seq = last_seq,
                              .now_ms = world_now_ms(),
                              .each = take_entry,
                              .context = l};
    enum err err = mirror_check(&redis, &by, &r->redis_reached, f);
    if (err != ERR_OK || had_adopted || r->past.adopted[0] == '\0') return err;
    return snapshot_make(r->snapshots, &r->past, e->shards, e->reactor_count, f);
}

/* ---- the steps ---- */

static void say(const struct loading *l, uint64_t begun_ns)
{
    log_text(LOG_INFO, "state_recovered",
             "%" PRIu64 " objects of the snapshot as of seq %" PRIu64 ", %" PRIu64
             " records behind it, in %" PRIu64 " ms",
             l->entries, l->recovery->past.position, l->records,
             (world_monotonic_ns() - begun_ns) / 1000000);
}

/* If no snapshot verifies, checks whether the journal has everything. */
static enum err read_snapshot(struct loading *l, struct fault *f)
{
    struct recovery *r = l->recovery;
    enum err err = snapshot_read_until(r->snapshots, &r->given_up, take_entry, l, &r->past, f);
    if (err != ERR_OK && l->fault.err != ERR_OK) *f = l->fault;
    if (err == ERR_CORRUPT && r->past.damage == SNAPSHOT_NONE_VERIFIES) {
        l->damage = *f;
        err = ERR_OK;
    }
    l->snapshot = r->past;
    if (err == ERR_OK && r->past.adopted[0] != '\0') err = snapshot_mark_adopted(r->snapshots, f);
    return err;
}

enum err recovery_run(struct engine *e, struct recovery *r, const struct journal_options *options,
                      struct journal_report *ret_report, struct fault *f)
{
    static struct loading l; /* as large as two lives' epochs */
    l = (struct loading){.engine = e, .recovery = r};
    uint64_t begun_ns = world_monotonic_ns();
    enum err err = make_shards(e, f);
    if (err == ERR_OK) err = open_snapshots(e, r, f);
    if (err == ERR_OK && reads_own(e)) err = read_snapshot(&l, f);
    if (err == ERR_OK && !reads_own(e)) err = refuse_own(e, snapshot_exists(r->snapshots), f);
    if (err == ERR_OK) err = open_journal(&l, options, ret_report, f);
    if (err != ERR_OK) return err;
    loading_check(&l);
    if (e->member != NULL) {
        world_time_floor(ret_report->last_ms);
        bool has_own = reads_own(e) && !recovery_found_nothing(r, ret_report);
        err = fleet_member_rebuild(e->member, has_own, &r->given_up, f);
        if (err == ERR_OK) derive(e);
        return err;
    }
    journal_hold(e->journal, snapshot_holds(r->snapshots, r->past.position));
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

enum err recovery_follow(struct engine *e, struct recovery *r, struct fault *f)
{
    check(e->journal != NULL && e->shards != NULL);
    const struct config *c = &e->config;
    struct state_follower_options options = {.journal = e->journal,
                                             .disk = r->snapshots,
                                             .node = e->node,
                                             .past = &r->past,
                                             .bytes_behind = r->bytes_behind,
                                             .snapshot_bytes = c->snapshot_bytes,
                                             .snapshot_ms = c->snapshot_ms,
                                             .redis = redis_of(c),
                                             .redis_reached = r->redis_reached,
                                             .sheet = metrics_sheet_create(),
                                             .lost_ownership = r->lost_ownership,
                                             .context = r->context};
    struct state_follower *keep = NULL;
    enum err err = state_follower_start(&options, &keep, f);
    if (err != ERR_OK) return err;
    pthread_mutex_lock(&e->followers_lock);
    e->state_follower = keep;
    pthread_mutex_unlock(&e->followers_lock);
    return ERR_OK;
}

void recovery_fini(struct recovery *r) { disk_real_destroy(r->snapshots); }
