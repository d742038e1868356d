/* peers.h - what the heartbeats in the log reveal about the engines of the fleet, and when a
 * revocation may be answered.
 *
 * A revocation at offset r is settled when, of every incarnation with a heartbeat before r,
 *   - a heartbeat with all of r applied was read, or
 *   - its newest heartbeat is closed, or
 *   - every lease that its heartbeats began has passed since this engine read them.
 *
 * Why that is safe: let an engine M not have read r. M reads in order, so each heartbeat that M has
 * read back is before r. This engine has read r and hence those, and none earlier than M sent it. So
 * when all their leases have passed here, M's own lease has passed. Only the rates of the two clocks
 * matter, for the length of a lease; one part in a hundred is added for them.
 *
 * The table is saved with a copy of the state. An engine that begins with a copy takes all leases in
 * it to begin at that moment: it has not read the heartbeats itself. Engines whose leases had passed
 * when it was saved are not in the copy. Pure; one thread. */
#ifndef FLEET_PEERS_H
#define FLEET_PEERS_H

#include "fleet/entry.h"

enum { PEERS_MAX = 32, PEER_FRESH_MS = 2000 };

struct peer {
    struct incarnation incarnation;
    uint64_t node;         /* a hash of its name: a former incarnation has the same disk */
    uint64_t number;       /* of its newest heartbeat */
    uint64_t first_offset; /* of the oldest one that is remembered */
    uint64_t applied;
    uint64_t kept;      /* of its newest heartbeat */
    uint64_t read_ms;   /* the newest */
    uint64_t append_ms; /* the same, by the log's clock */
    uint64_t lapses_ms; /* when every lease that its heartbeats began has passed */
    uint32_t longest_lease_ms;
    bool closed, reaches;
};

struct peers {
    struct peer list[PEERS_MAX];
    unsigned count;
    uint64_t others_lapse_ms; /* of incarnations for which the table has no room */
    uint32_t others_longest_lease_ms;
};

/* The leases begin again now. */
void peers_begin(struct peers *p, const struct peers *saved, uint64_t now_ms);
void peers_save(const struct peers *p, uint64_t now_ms, struct peers *ret);
/* `applied`: what of the heartbeat's is confirmed by this engine's own reading, or 0. */
void peers_read(struct peers *p, const struct entry *heartbeat, uint64_t applied, uint64_t offset,
                uint64_t append_ms, uint64_t now_ms);
bool peers_settled(const struct peers *p, uint64_t offset, uint64_t now_ms);
/* Whether most engines with a fresh heartbeat, except this one, report that they cannot reach the
 * leader. */
bool peers_miss_leader(const struct peers *p, const struct incarnation *except, uint64_t now_ms);
/* The log may lose what is below this offset: every engine with a fresh heartbeat has applied it, and
 * starts again without it, and there are at least PEERS_KEEPING of them. An engine counts once, however
 * often it was started, and not by a heartbeat that was read late. 0: nothing. */
enum { PEERS_KEEPING = 2 };
uint64_t peers_kept(const struct peers *p, uint64_t now_ms);
/* The newest offset from which an engine with a fresh heartbeat starts again. */
uint64_t peers_latest_kept(const struct peers *p, uint64_t now_ms);

#endif
