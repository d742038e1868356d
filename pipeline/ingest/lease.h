/* lease.h - which platform reads which partition. Pure.
 *
 * Each platform raises its heartbeat in the store once in LEASE_HEARTBEAT_MS. If a heartbeat has
 * not changed for LEASE_MS, the platform counts as dead. The watcher measures this by its own clock
 * from the time when it first saw the value, so no two machines' clocks are compared. The living
 * platforms share the partitions evenly, in the order of their names. Each share is fixed, so all
 * come to the same result without a vote.
 *
 *     FREE --claim (my share is not full)--> MINE --release (it is too full)--> FREE
 *      ^------------ its owner is dead ------- OTHER'S
 *
 * A lease decides which platform reads. The compared offset decides which may commit. */
#ifndef INGEST_LEASE_H
#define INGEST_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum {
    LEASE_HEARTBEAT_MS = 1000,
    LEASE_MS = 5000,
    LEASE_OWNER_TEXT = 16, /* random per process, hex */
    LEASE_PARTITIONS_MAX = 1024,
};

struct lease_member {
    char owner[LEASE_OWNER_TEXT];
    uint64_t heartbeat;
    uint64_t seen_ms; /* when the heartbeat last changed, monotonic */
    bool is_there;    /* in the newest look */
};

struct lease_partition {
    char owner[LEASE_OWNER_TEXT];
    bool is_owned;
    uint64_t next_offset; /* 0: nothing was read yet */
};

struct lease {
    char me[LEASE_OWNER_TEXT];
    uint64_t heartbeat;
    struct lease_member *members; /* others, and me; on the heap */
    uint32_t member_count, member_room;
    struct lease_partition partitions[LEASE_PARTITIONS_MAX];
    uint32_t partition_count;
};

void lease_init(struct lease *l, const char me[LEASE_OWNER_TEXT]);
void lease_fini(struct lease *l);

/* A look at the store: begin, each row, end (forgets missing members). All rows are seen, also the
 * many of a platform that is killed and restarted repeatedly. A watcher that finds them dead
 * removes them. */
void lease_look_begin(struct lease *l);
void lease_saw_member(struct lease *l, struct str owner, uint64_t heartbeat, uint64_t monotonic_ms);
void lease_look_end(struct lease *l);

bool lease_is_mine(const struct lease *l, uint32_t partition);
bool lease_is_alive(const struct lease *l, const char owner[LEASE_OWNER_TEXT],
                    uint64_t monotonic_ms);

/* Changes the owners of partitions as far as this platform may: it releases and claims. True:
 * something changed. */
bool lease_decide(struct lease *l, uint64_t monotonic_ms);

#endif
