/* replay.h - all state as of one record: a shard that owns every slot, and serves no call.
 *
 *   newest snapshot --load--> shard --apply the durable records behind it--> shard as of position
 *
 * It is made for one purpose and then freed: to write the next snapshot, to rewrite slots in Redis.
 * Making one costs what a recovery costs, on whatever thread it is called from. */
#ifndef SNAPSHOT_REPLAY_H
#define SNAPSHOT_REPLAY_H

#include <stdatomic.h>

#include "shards/shard.h"
#include "snapshot/lineage.h"

enum {
    /* Records that name a dropped object were durable long before this margin is over. */
    REPLAY_PRUNE_MARGIN_MS = 120000,
};

struct replay {
    struct shard *shard;
    struct lineage past;
    uint64_t begun; /* the position of the snapshot that it began with; 0: none */
};

struct replay *replay_create(void); /* empty; NULL: out of memory */
void replay_destroy(struct replay *f);
/* The newest snapshot that verifies of an empty replay's disk. ERR_CLOSED: given up; ERR_CORRUPT: as
 * snapshot_read(); the replay is empty still where none verifies. */
enum err replay_load(struct replay *f, struct disk *disk, const _Atomic bool *given_up,
                     struct fault *fault);
/* All durable records up to `seq`. ERR_NOT_FOUND: some are no longer kept; ERR_CLOSED: given
 * up; ERR_BAD_VALUE: a newer program wrote some; ERR_CORRUPT: the snapshot that it began with is of
 * another history (lineage_fits), or a record is damaged. */
enum err replay_follow(struct replay *f, struct journal *j, uint64_t seq,
                       const _Atomic bool *given_up, struct fault *fault);

/* One entry of a snapshot, or one record's deltas, into the shards that own their slots.
 * ERR_BAD_VALUE: a newer program wrote it; else as shard_load() and shard_apply(). */
enum err replay_entry(struct shard *const *shards, unsigned count, unsigned slot, struct str entry,
                      struct fault *f);
enum err replay_record(struct shard *const *shards, unsigned count,
                       const struct journal_record *record, struct fault *f);

#endif
