/* fleet_copy.h - the newest copy of a fleet's state from which this engine can begin.
 *
 *   own snapshot that the log still follows ──▶ loaded
 *   none, and the log begins behind offset 0 ──▶ addresses from the log's heartbeats
 *       ──▶ GET /v1/fleet/snapshot at each engine, piece by piece ──▶ verified, kept ──▶ loaded
 *
 * A snapshot is sealed with the fleet's key, so it is believed by its bytes and not by its sender.
 * The caller's thread; it blocks. */
#ifndef ENGINE_FLEET_COPY_H
#define ENGINE_FLEET_COPY_H

#include "engine/fleet/member_inside.h"
#include "snapshot/fleet_snapshot.h"

enum { FLEET_PIECE_BYTES = 8 << 20 };
static const uint64_t fleet_snapshot_bytes_max = UINT64_C(1) << 40;

/* Makes the folder and opens it. */
enum err fleet_copy_open(struct fleet_member *m, struct fault *f);
/* A second reader of the log. */
enum err fleet_copy_reader(struct fleet_member *m, struct statelog **ret, struct fault *f);
/* Loads it; `log` is not reading, or is read from elsewhere behind this. ERR_NOT_FOUND: there is
 * none, and the log has all from its first entry; ERR_UPSTREAM_FAILED: no engine gives one. */
enum err fleet_copy_load(struct fleet_member *m, struct statelog *log, const _Atomic bool *given_up,
                         enum err (*each)(void *context, unsigned slot, struct str entry),
                         void *context, struct fleet_snapshot *ret, struct fault *f);
/* Fetches the newest one of another engine into the folder: the first that verifies, and has all
 * entries below `least`. One that does not is refused, and the next engine is asked. */
enum err fleet_copy_fetch(struct fleet_member *m, struct statelog *log, uint64_t least,
                          const _Atomic bool *given_up, struct fault *f);
/* What the heartbeats show from here on. */
void fleet_copy_note_kept(struct fleet_member *m);

#endif
