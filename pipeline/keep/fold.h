/* fold.h - all state as of one record: a shard that owns every slot, and nobody asks.
 *
 *   newest snapshot --load--> shard --apply the durable records behind it--> shard as of position
 *
 * It is made for one purpose and then freed: to write the next snapshot, to rewrite slots in Redis.
 * Making one costs what a recovery costs, on whatever thread it is called from. */
#ifndef KEEP_FOLD_H
#define KEEP_FOLD_H

#include <stdatomic.h>

#include "pipeline/keep/keep.h"

enum {
    /* Records that name a dropped object were durable long before this margin is over. */
    FOLD_PRUNE_MARGIN_MS = 120000,
};

struct fold {
    struct shard *shard;
    struct keep_past past;
};

struct fold *fold_create(void); /* empty; NULL: out of memory */
void fold_destroy(struct fold *f);
/* The newest snapshot of an empty fold's disk. ERR_CLOSED: given up. */
enum err fold_load(struct fold *f, struct disk *disk, const _Atomic bool *given_up,
                   struct fault *fault);
/* All durable records up to `seq`. ERR_NOT_FOUND: some are no longer kept; ERR_CLOSED: given
 * up; ERR_BAD_VALUE: a newer program wrote some. */
enum err fold_follow(struct fold *f, struct journal *j, uint64_t seq, const _Atomic bool *given_up,
                     struct fault *fault);

#endif
