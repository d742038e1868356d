/* mirror.h - Redis as a follower of the durable journal: in step with it, or being repaired.
 *
 *            +-------------- connection lost, an error, an owner that is not us --------------+
 *            v                                                                                |
 *   AWAY --connect--> look at every slot --claim--> any slot unfit? --no--> FOLLOWING --------+
 *                          |                             |                      |
 *                          |                        yes: REPAIRING <------------+ a position that does not fit
 *                          |                             | from a replay          ^
 *                          +-- another engine's: LOST    +--------- done -------+
 *
 * For each slot Redis has a position: all entries of the slot up to that seq are in its hashes, and
 * none after. A write says which position it expects, so it happens exactly once, however often it
 * is sent. What was sent when the connection went is unknown until the position is read again: it
 * is the old one or the new one; anything else means that Redis lost or never had what we wrote,
 * and the slot is rewritten. So is one whose hashes do not hold as many fields as were written:
 * a key may be evicted alone.
 *
 * Reading may therefore begin again at any record: entries at or below a slot's position are
 * skipped. All of it is straight code on the state follower, which turns its loop while it waits. */
#ifndef MIRROR_MIRROR_H
#define MIRROR_MIRROR_H

#include "snapshot/replay.h"
#include "pipeline/mirror/slots.h"

struct mirror;

struct mirror_options {
    struct loop *loop;
    struct journal *journal;
    const char *node;
    const struct lineage *past; /* borrowed: which epochs are ours, where the snapshot was */
    struct mirror_redis redis;
    struct metrics_sheet *sheet;
    const _Atomic bool *given_up; /* looked at while waiting */
};

enum mirror_state { MIRROR_AWAY, MIRROR_REPAIRING, MIRROR_FOLLOWING, MIRROR_LOST };

/* AWAY; what the options point at is borrowed for its life. ERR_BAD_VALUE: the
 * address, or TLS without a CA. */
enum err mirror_create(const struct mirror_options *options, struct mirror **ret, struct fault *f);
void mirror_destroy(struct mirror *m);

/* AWAY → another state: connects, looks, claims. ERR_EXISTS: LOST, *f says to whom; ERR_BAD_VALUE:
 * LOST, Redis is ahead of this journal; ERR_STORE_UNAVAILABLE: still AWAY. */
enum err mirror_connect(struct mirror *m, struct fault *f);

/* FOLLOWING: writes the next durable records. ERR_END: there are none. Another error: the state has
 * changed (AWAY, REPAIRING), or the journal cannot be read, and then it has not. */
enum err mirror_follow(struct mirror *m, struct fault *f);

/* From now on Redis is waited for until this moment at most (monotonic, ms). */
void mirror_hurry(struct mirror *m, uint64_t until_ms);
/* FOLLOWING: says in every slot that it is as far as the whole mirror, so that a later start need
 * not read from long ago. */
enum err mirror_mark(struct mirror *m, struct fault *f);
/* FOLLOWING: whether owner, position and number of fields of some slots, others each time, are what
 * we wrote: asked from time to time to see whether Redis is still ours, and whole.
 * ERR_STORE_UNAVAILABLE: it is lost, or another's; the state is AWAY. ERR_CORRUPT: REPAIRING. */
enum err mirror_probe(struct mirror *m, struct fault *f);

/* REPAIRING: writes the unfit slots from this replay, then follows from its position on. */
enum err mirror_repair(struct mirror *m, const struct replay *replay, struct fault *f);
/* FOLLOWING: makes those slots unfit that hold mostly what no replay has any more; `live` counts a
 * replay's entries by slot. True: there are some. */
bool mirror_wants_compaction(struct mirror *m, const uint32_t live[LIMIT_SLOTS]);

enum mirror_state mirror_state(const struct mirror *m);
/* every durable record up to here is in Redis; 0 unless FOLLOWING */
uint64_t mirror_position(const struct mirror *m);

#endif
