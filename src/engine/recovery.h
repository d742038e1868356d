/* recovery.h - from what is on the disk to shards that may be served, and the keeping of them.
 *
 *   newest snapshot → shards → journal: verify, cut, apply what is behind → Redis: may it be used, or adopted
 *   → revocations, ordinal → (engine.started) → keep thread → (workers, listening)
 *
 * State is a fold of the journal, so there is nothing else to ask. Whatever does not fit
 * together ends the start with a sentence that says where: a snapshot ahead of the journal, a
 * journal that no longer has what follows the snapshot, a Redis that another engine owns. Main
 * thread, before the workers run. */
#ifndef ENGINE_RECOVERY_H
#define ENGINE_RECOVERY_H

#include "engine/engine.h"

struct recovery {
    struct disk *snapshots; /* the disk of its directory */
    struct keep_past past;
    uint64_t bytes_behind; /* of journal, applied behind the snapshot */
    bool redis_reached;
    void (*lost_ownership)(void *context); /* see keep.h */
    void *context;
};

/* Makes the shards and the journal. `options` are the journal's. */
enum err recovery_run(struct engine *e, struct recovery *r, const struct journal_options *options,
                      struct journal_report *ret_report, struct fault *f);
/* No snapshot, no record, nothing adopted: a first start, or all of it is lost. */
bool recovery_found_nothing(const struct recovery *r, const struct journal_report *report);
/* After `engine.started` is durable: what was recovered is kept from here on. */
enum err recovery_keep(struct engine *e, struct recovery *r, struct fault *f);
void recovery_fini(struct recovery *r);

#endif
