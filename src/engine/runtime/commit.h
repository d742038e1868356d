/* commit.h - the only way from a decision to the journal, or to a fleet's log: record, then park the
 * reply.
 *
 * Belongs to one reactor thread. A record goes into the reactor's open block, and the reply waits
 * for the barrier that is returned: `written` opens when the kernel has the block, `synced` when
 * the disk has it, `log` when the fleet's log has it and it counts there. A reply waits for the
 * journal or for the log, never for both: what a request records after it looked at shared state
 * goes to the log. No room for a record is an error, never an unrecorded answer. */
#ifndef ENGINE_COMMIT_H
#define ENGINE_COMMIT_H

#include "engine/fleet/fleet_lane.h"
#include "event/event.h"
#include "http/server.h"
#include "journal/journal.h"
#include "shards/effect.h"

/* LANE_WRITTEN: as the option `durability` has it. */
enum commit_lane { LANE_WRITTEN = 1, LANE_SYNCED = 2, LANE_LOG = 3 };

struct committer {
    struct journal_producer *producer;
    bool always_synced;     /* durability = synced */
    struct fleet_lane *log; /* NULL: no fleet, and all records go to the journal */
};

/* Where the records of slots go. */
static inline enum commit_lane commit_lane_of_state(const struct committer *c)
{
    return c->log != NULL ? LANE_LOG : LANE_SYNCED;
}

enum { COMMIT_EVENTS_MAX = EFFECT_RECORDS_MAX };

/* Records encoded events, all or none, in order. ERR_JOURNAL_FULL (the disk), ERR_FULL (no block is
 * free: the caller holds its sockets), ERR_OUT_OF_RANGE (a record is too large). */
enum err commit_events(struct committer *c, const struct str *events, size_t count,
                       enum commit_lane lane, struct http_barrier *ret);

/* The same for events with their deltas, which may be absent. */
enum err commit_records(struct committer *c, const struct effect_record *records, size_t count,
                        enum commit_lane lane, struct http_barrier *ret);

/* The same in two parts, for callers that need to know that there is room before the record exists.
 * Room for records of `size` bytes together, with LIMIT_RECORD_HEAD_BYTES for each, at most
 * LIMIT_RESERVE_BYTES (checked); valid until the next call, or until the block is sealed.
 * `closing`: the records permit nothing new, and may use the reserve. ERR_FULL, ERR_JOURNAL_FULL as
 * above. */
enum err commit_room(struct committer *c, size_t size, bool closing, enum commit_lane lane);
struct http_barrier commit_put(struct committer *c, const struct effect_record *records,
                               size_t count, enum commit_lane lane);

/* The barrier that opens when both have opened. One of the log is the stricter one: what the same
 * request recorded before it looked at state does not stand in for its answer. */
static inline struct http_barrier barrier_stricter(struct http_barrier a, struct http_barrier b)
{
    if (a.lane != b.lane && a.lane == LANE_LOG) return a;
    if (a.lane != b.lane && b.lane == LANE_LOG) return b;
    return (struct http_barrier){.lane = a.lane > b.lane ? a.lane : b.lane,
                                 .block = a.block > b.block ? a.block : b.block};
}

#endif
