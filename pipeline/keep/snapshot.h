/* snapshot.h - one file that holds all state as of one record of the journal.
 *
 *   file    := header(640) epoch(16){epochs} adopted_at(8){slots} entry{count} SHA-256 of all before
 *   header  := magic "writSNP1"  version(4) = 2  epochs(4)  position(8)  count(8)  bytes of entries(8)
 *              slots(4): 1024 where something was adopted, else 0
 *              zeros to 128, then `adopted`, NUL-padded, to 640
 *   entry   := size(4) slot(2) bytes                       all numbers little-endian
 *
 * Named `snapshot-<position, 16 hex digits>`; while it is written, the same with `.new`. A file of
 * the first name was synced before it got it, so one that does not verify is damage, not a crash;
 * then the one before it is tried, which the newest did not replace but followed. One that
 * verifies and is of a later version (which keeps magic, version and digest where they are) is
 * neither: the start is refused. */
#ifndef KEEP_SNAPSHOT_H
#define KEEP_SNAPSHOT_H

#include <stdatomic.h>

#include "pipeline/keep/keep.h"

enum {
    SNAPSHOT_NAME = 9 + 16 + 4 + 1, /* with ".new" and NUL */
    SNAPSHOT_HEADER_BYTES = 128 + KEEP_ADOPTED_TEXT,
    SNAPSHOT_KEPT = 2,
};

/* The file's, with a NUL. */
void snapshot_write_name(uint64_t position, char to[SNAPSHOT_NAME]);

/* Writes and syncs the file of `past` and the shards' entries; `live`, unless NULL, counts the
 * entries of each of the LIMIT_SLOTS slots. It ends early, with ERR_CLOSED, when `given_up` is true
 * (NULL: never). An error leaves no file behind, unless it is of syncing the directory: then the
 * file is there and whole. One of the same position is replaced. */
enum err snapshot_write(struct disk *d, const struct keep_past *past, struct shard *const *shards,
                        unsigned count, uint32_t *live, const _Atomic bool *given_up,
                        struct fault *f);

/* snapshot_read() that ends early, with ERR_CLOSED, when `given_up` is true (NULL: never). */
enum err snapshot_read_until(struct disk *disk, const _Atomic bool *given_up,
                             enum err (*each)(void *context, unsigned slot, struct str entry),
                             void *context, struct keep_past *ret, struct fault *f);

/* Removes all but the newest SNAPSHOT_KEPT, and what a crash left half made. */
enum err snapshot_drop_old(struct disk *d);

#endif
