/* fleet_lane.h - one reactor's way to the fleet's log and back.
 *
 *   reactor   records → open block ── seal, at the end of a turn ──▶ member: blocks → one entry
 *   reactor   ◀── committed: this block and all before it are in the log, and count
 *             ◀── settled: and no engine of the fleet can admit what they ended
 *   reactor   ◀── batches of entries of other leaders, to be applied here; ── applied ──▶ member
 *
 * Blocks are numbered 1, 2, …, as those of the journal, and a reply waits for a block in the same way
 * (LANE_LOG of commit.h). A block may be empty: then a read waits for it, and the member makes a
 * barrier. A block is at most FLEET_BLOCK_BYTES, so that it fits in an entry; the records of one step
 * are in one block. */
#ifndef ENGINE_FLEET_LANE_H
#define ENGINE_FLEET_LANE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/limits.h"
#include "fleet/entry.h"
#include "shards/effect.h"

enum {
    FLEET_BLOCK_BYTES = ENTRY_BODY_MAX - 64, /* beside the point of a term's first entry */
    /* of one reactor, sealed and not in an entry yet: as many as its connections make at once.
     * What closes something may have twice as many. */
    FLEET_LANE_BYTES = 16 << 20,
    FLEET_BLOCK_FIRST_BYTES = 4 << 10,
};
_Static_assert((int)LIMIT_RESERVE_BYTES <= (int)FLEET_BLOCK_BYTES, "a step fits in a block");

struct fleet_block {
    struct fleet_block *next;
    uint64_t number, records;
    struct buf bytes; /* as in an entry */
};

/* The records of a counted entry of another leader. */
struct fleet_batch {
    _Atomic unsigned readers; /* that have not applied it yet */
    uint64_t next;            /* the offset behind the entry */
    size_t size;
    char bytes[];
};

struct fleet_batch_link {
    struct fleet_batch_link *next;
    struct fleet_batch *batch;
};

struct fleet_lane {
    /* the reactor's */
    struct fleet_block *open; /* NULL: nothing is in it */
    uint64_t number;          /* of the open block, also where that is NULL */
    bool is_wanted;           /* a reply waits for the open block */

    pthread_mutex_t lock; /* guards: */
    struct fleet_block *first, *last;
    struct fleet_batch_link *batches, *last_batch;

    _Atomic size_t bytes; /* sealed, and not taken */
    /* the member's, for the reactor */
    _Atomic uint64_t committed, settled;
    /* the reactor's, for the member: entries below this offset are applied */
    _Atomic uint64_t applied;
};

void fleet_lane_init(struct fleet_lane *l, uint64_t applied);
void fleet_lane_fini(struct fleet_lane *l);

/* ---- the reactor ---- */

/* ERR_FULL: the log takes no more for now; ask again in a later turn. */
enum err fleet_lane_room(const struct fleet_lane *l, bool closing);
/* Room has to be there. Returns the block. */
uint64_t fleet_lane_put(struct fleet_lane *l, const struct effect_record *records, size_t count);
/* The block behind which an answer about the present state leaves. */
static inline uint64_t fleet_lane_want(struct fleet_lane *l)
{
    l->is_wanted = true;
    return l->number;
}
/* Passes the open block on, if a reply waits for it; true: it did, so wake the member. */
bool fleet_lane_seal(struct fleet_lane *l);
/* The next batch; fleet_lane_applied() when it is applied. NULL: none. */
struct fleet_batch *fleet_lane_batch(struct fleet_lane *l);
void fleet_lane_applied(struct fleet_lane *l, struct fleet_batch *b);

static inline uint64_t fleet_lane_committed(const struct fleet_lane *l)
{
    return atomic_load_explicit(&l->committed, memory_order_acquire);
}
static inline uint64_t fleet_lane_settled(const struct fleet_lane *l)
{
    return atomic_load_explicit(&l->settled, memory_order_acquire);
}

/* ---- the member ---- */

/* The oldest sealed block, of at most `room` bytes. NULL: there is none, or it is larger. */
struct fleet_block *fleet_lane_take(struct fleet_lane *l, size_t room);
void fleet_block_free(struct fleet_block *b);
/* Whether a sealed block waits. */
bool fleet_lane_waits(struct fleet_lane *l);
/* Hands the records of an entry to all lanes. */
void fleet_lanes_hand(struct fleet_lane *lanes, unsigned count, struct str records, uint64_t next);

#endif
