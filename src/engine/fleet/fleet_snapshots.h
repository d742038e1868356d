/* fleet_snapshots.h - an engine's snapshots of its fleet's state.
 *
 *   thread   due → a point of the member's reading → newest snapshot + the log up to there → written
 *            → older ones go → the heartbeats show which entries this engine needs no more
 *
 * A snapshot is made by the same replay as a start, with a reader of its own: live shards are not
 * asked, since the leader's are ahead of the log. It has to arrive at exactly the point that the
 * member has read, so each snapshot also compares two readings. Each copy is pruned by the log's
 * time. The folder is DATA/engine/fleet-snapshots; snapshot/fleet_snapshot.h has the form. */
#ifndef ENGINE_FLEET_SNAPSHOTS_H
#define ENGINE_FLEET_SNAPSHOTS_H

#include "base/fault.h"
#include "shards/shard.h"

struct engine;
struct fleet_snapshots;

/* The thread; the member has to run. */
struct fleet_snapshots *fleet_snapshots_start(struct engine *e);
void fleet_snapshots_stop(struct fleet_snapshots *s); /* NULL: nothing */
/* The windows that limits have from now on (copied): as state_follower_hold_limits(). Any thread. */
void fleet_snapshots_hold_limits(struct fleet_snapshots *s, const struct limit_windows *windows);
/* Why the latest attempt failed. False: it did not. Any thread. */
bool fleet_snapshots_trouble(struct fleet_snapshots *s, char *to, size_t size);

#endif
