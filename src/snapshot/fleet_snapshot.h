/* fleet_snapshot.h - a fleet's state as of one offset of its log, as one file.
 *
 *   file    := head  peer{peers}  trail  past  entries and seal as in state_file.h, sealed with the
 *              fleet's key
 *   head    := magic "writFSN1"  version(4) = 1  peers(4)  fleet(16)  replay(176, fleet/replay.h)
 *              count(8)  bytes of entries(8)  bytes of trail(4)  bytes of past(4)
 *              longest lease of others(4)  zeros(4)
 *   peer    := incarnation(16)  number(8)  first offset(8)  applied(8)  longest lease(4)  flags(1)
 *              zeros(3)
 *   point   := term(8)  n(8)  digest(32)                  all numbers little-endian
 *   trail   := as trail_point_put() writes it (fleet/trail_point.h)
 *
 * `next` is the offset behind all that it has, and names the file: `fleet-<16 hex digits>`. The entry
 * before it has the digest `newest`: the log is compared with that before anything is read on
 * (fleet/replay.h). With `next` 0 it is the state with which a fleet begins, and the first TERM of the
 * log has its seal.
 *
 * Only an engine with the pepper can make one, so it may come from anywhere. */
#ifndef SNAPSHOT_FLEET_SNAPSHOT_H
#define SNAPSHOT_FLEET_SNAPSHOT_H

#include "base/fault.h"
#include "fleet/fleet.h"
#include "fleet/trail_point.h"
#include "snapshot/state_file.h"

enum { FLEET_SNAPSHOTS_KEPT = 2, FLEET_PAST_BYTES_MAX = 900 << 10 };

struct fleet_snapshot {
    struct fleet_saved saved;
    struct trail_point trail;
    /* Places of the log before this one from which the trail can be read, as its owner writes them. On
     * the heap: fleet_snapshot_fini(). */
    struct buf past;
};
void fleet_snapshot_fini(struct fleet_snapshot *s);

/* Writes and syncs it. With `saved.replay.next` 0, the seal becomes `saved.replay.last.digest`. */
enum err fleet_snapshot_write(struct disk *d, const struct entry_key *key, struct fleet_snapshot *s,
                              struct shard *const *shards, unsigned count,
                              const _Atomic bool *given_up, struct fault *f);
/* The newest one that verifies, and has all entries below `least`; entry by entry to `each`, after it
 * was verified. ERR_NOT_FOUND: there is none; ERR_CLOSED: given up; ERR_BAD_VALUE: a newer program
 * wrote it; else `each` gave the error. One that does not verify is logged. */
enum err fleet_snapshot_read(struct disk *d, const struct entry_key *key, uint64_t least,
                             const _Atomic bool *given_up,
                             enum err (*each)(void *context, unsigned slot, struct str entry),
                             void *context, struct fleet_snapshot *ret, struct fault *f);
/* Whether this file verifies, as the one behind all entries below `next`. ERR_CORRUPT: it does not;
 * ERR_CLOSED: given up; ERR_BAD_VALUE: a newer program wrote it; errors of reading it. */
enum err fleet_snapshot_verify(struct disk *d, const struct entry_key *key, const char *file,
                               uint64_t next, const _Atomic bool *given_up, struct fault *f);
/* Removes all but the newest two, and what is unready. `all`: those as well. */
enum err fleet_snapshot_drop(struct disk *d, bool all);
/* How many there are, and `next` of the newest and of the oldest of the two that are kept. */
unsigned fleet_snapshots(struct disk *d, uint64_t *ret_newest, uint64_t *ret_oldest);
void fleet_snapshot_name(uint64_t next, char to[STATE_FILE_NAME]);
bool fleet_snapshot_name_read(struct str name, uint64_t *ret_next);

#endif
