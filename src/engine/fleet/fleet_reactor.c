#include "engine/fleet/fleet_reactor.h"

#include "engine/decision/traced.h"
#include "engine/engine.h"
#include "engine/runtime/signing.h"
#include "shards/delta.h"
#include "shards/serialize.h"
#include "shards/slot.h"
#include "snapshot/replay.h"

enum { BATCHES_PER_TURN = 64, KEY_ARENA_BYTES = 64 << 10 };

/* ---- entries of other leaders ---- */

static enum err apply_record(struct engine_reactor *w, struct str event, struct str deltas,
                             struct fault *f)
{
    struct shard *shard = w->owner.shard;
    struct delta_entry e;
    enum err err = ERR_OK;
    while (delta_next(&deltas, &e, &err)) {
        struct effect_notice notice;
        if (slot_owner(e.slot, w->engine->reactor_count) != w->index) continue;
        err = shard_apply(shard, &e, event, f);
        if (err != ERR_OK) return err;
        if (shard_notice_of(shard, &e, &notice)) owner_notice(w, &notice);
    }
    return err;
}

static enum err apply_batch(struct engine_reactor *w, const struct fleet_batch *b, struct fault *f)
{
    struct str rest = str_of(b->bytes, b->size), event, deltas;
    while (entry_next_record(&rest, &event, &deltas)) {
        enum err err = apply_record(w, event, deltas, f);
        if (err != ERR_OK) return err;
    }
    return ERR_OK;
}

/* An entry that cannot be applied ends this engine's part: its copy would not be the fleet's. */
static bool apply_batches(struct engine_reactor *w)
{
    struct fleet_lane *log = w->commit.log;
    struct fleet_batch *b = NULL;
    unsigned count = 0;
    while (count++ < BATCHES_PER_TURN && (b = fleet_lane_batch(log)) != NULL) {
        struct fault f = {.err = ERR_OK};
        if (apply_batch(w, b, &f) != ERR_OK) fleet_member_broke(w->engine->member, b->next, &f);
        fleet_lane_applied(log, b);
    }
    if (count == 1) return false;
    uint64_t last = shard_ordinal_max(w->owner.shard) + 1,
             ordinal = atomic_load(&w->engine->ordinal);
    while (ordinal < last && !atomic_compare_exchange_weak(&w->engine->ordinal, &ordinal, last)) {
    }
    /* Copies forget by the log's time. */
    uint64_t log_ms = fleet_member_log_ms(w->engine->member);
    if (log_ms > REPLAY_PRUNE_MARGIN_MS)
        shard_prune(w->owner.shard, log_ms - REPLAY_PRUNE_MARGIN_MS);
    fleet_member_wake(w->engine->member);
    return b != NULL;
}

/* ---- a new term ---- */

/* The first rotation, if the state has none. False: there was no room for its record. */
static bool make_first_key(struct engine_reactor *w)
{
    const struct signer_table *t = shard_signers(w->owner.shard);
    if (t->count > 0) return true;
    struct arena arena;
    arena_init(&arena, KEY_ARENA_BYTES, KEY_ARENA_BYTES);
    struct call c = {
        .kind = CALL_ROTATE, .slot = SIGNER_SLOT, .now_ms = world_now_ms(), .arena = &arena};
    c.id = id_make(c.now_ms, &w->api.chance);
    c.rotate.at_once = true;
    crypto_random(c.rotate.salt, sizeof c.rotate.salt);
    bool is_made = owner_take_over(w, &c) == ERR_OK;
    if (is_made) signing_follow(w->engine->signing, t, c.now_ms);
    arena_fini(&arena);
    return is_made;
}

/* The fleet's first leader makes its first signing key. The timers of the copy begin now. */
static void prepare(struct engine_reactor *w)
{
    uint64_t term = fleet_member_prepares(w->engine->member);
    if (term == w->prepared_term) return;
    if (w->index == SIGNER_SLOT && !make_first_key(w)) return; /* tried again each turn */
    w->prepared_term = term;
    w->owner.stepped = true;
    fleet_member_prepared(w->engine->member, w->index, term, fleet_lane_want(w->commit.log));
}

void fleet_reactor_begin(struct engine_reactor *w)
{
    fleet_member_turned(w->engine->member, w->index);
    if (apply_batches(w)) reactor_wake(w->reactor);
    prepare(w);
}

/* What waits for the log is in it, or not: another engine leads by now. */
static void lose_replies(struct engine_reactor *w)
{
    struct fault f;
    (void)fault_plain(&f, ERR_OUTCOME_UNKNOWN);
    api_refuse_lost(&w->api, w->server, &f);
    operations_lose(w, &f);
}

void fleet_reactor_end(struct engine_reactor *w, uint64_t written, uint64_t synced)
{
    struct fleet_lane *log = w->commit.log;
    if (fleet_lane_seal(log)) fleet_member_wake(w->engine->member);
    const bool is_over = fleet_member_is_over(w->engine->member); /* `committed` is final then */
    uint64_t committed = fleet_lane_committed(log);
    http_server_release_log(w->server, committed);
    traced_turn(w, written, synced);
    owner_durable(w, committed);
    if (is_over) lose_replies(w);
}
