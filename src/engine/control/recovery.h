/* recovery.h - makes shards from the data on disk, and keeps their state afterwards.
 *
 *   newest snapshot → shards → journal: verify, cut, apply what is behind → Redis: may it be used, or adopted
 *   → revocations, ordinal → (engine.started) → state follower → (reactors, listening)
 *
 * State is a replay of the journal, so there is no other source. Data that does not fit together
 * ends the start with a sentence that names the place: a snapshot ahead of the journal, or of
 * another history, a journal that no longer has the records after the snapshot, a Redis that
 * another engine owns. If no snapshot verifies, a journal that begins with seq 1 is enough. Main
 * thread, before the reactors run. */
#ifndef ENGINE_RECOVERY_H
#define ENGINE_RECOVERY_H

#include "engine/engine.h"

struct recovery {
    struct disk *snapshots; /* the disk of its directory */
    struct lineage past;
    uint64_t bytes_behind; /* bytes of the journal that were applied after the snapshot */
    bool redis_reached;
    _Atomic bool given_up;                 /* set when a signal ends the start */
    void (*lost_ownership)(void *context); /* see state_follower.h */
    void *context;
};

/* Makes the shards and the journal. `options` are the journal's. */
enum err recovery_run(struct engine *e, struct recovery *r, const struct journal_options *options,
                      struct journal_report *ret_report, struct fault *f);
/* No snapshot, no record, nothing adopted: a first start, or all data is lost. */
bool recovery_found_nothing(const struct recovery *r, const struct journal_report *report);
/* After `engine.started` is durable: starts to follow the recovered state. */
enum err recovery_follow(struct engine *e, struct recovery *r, struct fault *f);
void recovery_fini(struct recovery *r);

#endif
