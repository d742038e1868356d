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
 * then the one before it is tried, which the newest did not replace but followed, and behind which
 * the journal is held (snapshot_holds). One that verifies and is of a later version (which keeps
 * magic, version and digest where they are) is neither: the start is refused.
 *
 * The empty file `adopted` lies beside them where a state began with another engine's images. Only
 * snapshots have those: a journal that begins with seq 1 is not all of such a state. */
#ifndef SNAPSHOT_SNAPSHOT_H
#define SNAPSHOT_SNAPSHOT_H

#include <stdatomic.h>

#include "shards/shard.h"
#include "snapshot/lineage.h"

enum {
    SNAPSHOT_NAME = 9 + 16 + 4 + 1, /* with ".new" and NUL */
    SNAPSHOT_HEADER_BYTES = 128 + LINEAGE_ADOPTED_TEXT,
    SNAPSHOT_KEPT = 2,
};

/* The file's, with a NUL. */
void snapshot_write_name(uint64_t position, char to[SNAPSHOT_NAME]);

/* Writes and syncs the file of `past` and the shards' entries; `live`, unless NULL, counts the
 * entries of each of the LIMIT_SLOTS slots. It ends early, with ERR_CLOSED, when `given_up` is true
 * (NULL: never). An error leaves no file behind, unless it is of syncing the directory: then the
 * file is there and whole. One of the same position is replaced. */
enum err snapshot_write(struct disk *d, const struct lineage *past, struct shard *const *shards,
                        unsigned count, uint32_t *live, const _Atomic bool *given_up,
                        struct fault *f);

/* snapshot_read() that ends early, with ERR_CLOSED, when `given_up` is true (NULL: never). */
enum err snapshot_read_until(struct disk *disk, const _Atomic bool *given_up,
                             enum err (*each)(void *context, unsigned slot, struct str entry),
                             void *context, struct lineage *ret, struct fault *f);

/* Removes all but the newest SNAPSHOT_KEPT, and what a crash left half made. */
enum err snapshot_drop_old(struct disk *d);
/* The same after the one of position `made` was made from the one of `from`: it keeps these two,
 * because both were read. (0: it was made from the journal alone, so that all others are damaged.) */
enum err snapshot_drop_others(struct disk *d, uint64_t made, uint64_t from);

/* ---- for recovery ---- */

/* Reads the newest snapshot that verifies, entry by entry; `ret->position` is the seq that it
 * includes (0: there is none), `ret->damage` says what the others are. ERR_CORRUPT: there are
 * snapshots, and none verifies (SNAPSHOT_NONE_VERIFIES), or what was adopted is in none any more, or an
 * entry cannot be loaded; ERR_BAD_VALUE: a newer program wrote it. */
enum err snapshot_read(struct disk *disk,
                       enum err (*each)(void *context, unsigned slot, struct str entry),
                       void *context, struct lineage *ret, struct fault *f);

/* Whether there is one, whole or not. */
bool snapshot_exists(struct disk *disk);
/* The bytes of the one at that position; 0: there is none. */
uint64_t snapshot_size(struct disk *disk, uint64_t position);
/* What the journal has to hold (journal_hold) while the state as of `position` is the newest that
 * is kept: the record of the older kept snapshot and all behind it, so that one of the two may be
 * damaged; all there is where only one is kept. */
uint64_t snapshot_holds(struct disk *disk, uint64_t position);
/* What the journal has to leave of the disk (journal_leave) to the snapshot after one of that size:
 * an eighth more, and half of the journal behind it, since the state grows by less than that part
 * of what is recorded. */
uint64_t snapshot_needs(uint64_t last_bytes, uint64_t bytes_behind);

/* A snapshot of these shards together, durable when this returns; older ones than the newest two
 * go. For a state that no replay can make: one that was adopted. */
enum err snapshot_make(struct disk *disk, const struct lineage *past, struct shard *const *shards,
                       unsigned count, struct fault *f);
/* Notes beside the snapshots that only they have what this state began with (snapshot.h). */
enum err snapshot_mark_adopted(struct disk *disk, struct fault *f);

#endif
