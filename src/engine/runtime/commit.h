/* commit.h - the only way from a decision to the journal: record, then park the reply.
 *
 * Belongs to one reactor thread. A record goes into the reactor's open block, and the reply waits
 * for the barrier that is returned: `written` opens when the kernel has the block, `synced` when
 * the disk has it. No room for a record is an error, never an unrecorded answer. */
#ifndef ENGINE_COMMIT_H
#define ENGINE_COMMIT_H

#include "event/event.h"
#include "http/server.h"
#include "journal/journal.h"
#include "shards/effect.h"

enum commit_lane { LANE_WRITTEN = 1, LANE_SYNCED = 2 };

struct committer {
    struct journal_producer *producer;
    bool always_synced; /* durability = synced */
};

enum { COMMIT_EVENTS_MAX = EFFECT_RECORDS_MAX };

/* Records encoded events, all or none, in order. `synced`: even if the configured durability is
 * `written`. ERR_JOURNAL_FULL (the disk), ERR_FULL (no block is free: the caller holds its
 * sockets), ERR_OUT_OF_RANGE (a record is too large). */
enum err commit_events(struct committer *c, const struct str *events, size_t count, bool synced,
                       struct http_barrier *ret);

/* The same for events with their deltas, which may be absent. */
enum err commit_records(struct committer *c, const struct effect_record *records, size_t count,
                        bool synced, struct http_barrier *ret);

/* The same in two parts, for callers that need to know that there is room before the record exists.
 * Room for records of `size` bytes together, with LIMIT_RECORD_HEAD_BYTES for each, at most
 * LIMIT_RESERVE_BYTES (checked); valid until the next call, or until the block is sealed.
 * `closing`: the records permit nothing new, and may use the reserve. ERR_FULL, ERR_JOURNAL_FULL as
 * above. */
enum err commit_room(struct committer *c, size_t size, bool closing);
struct http_barrier commit_put(struct committer *c, const struct effect_record *records,
                               size_t count, bool synced);

/* The barrier that opens when both have opened. */
static inline struct http_barrier barrier_stricter(struct http_barrier a, struct http_barrier b)
{
    return (struct http_barrier){.lane = a.lane > b.lane ? a.lane : b.lane,
                                 .block = a.block > b.block ? a.block : b.block};
}

#endif
