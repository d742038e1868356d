/* lease.h - which platform reads which partition. Pure.
 *
 * Each platform raises its beat in the store once in LEASE_BEAT_MS. Whoever's beat has stood
 * still for LEASE_MS, by the watcher's own clock from when the watcher first saw it, is taken
 * for dead: no two machines' clocks are compared. The partitions are shared evenly among the
 * living, in the order of their names: each one's share is fixed, so that all come to the
 * same result without a vote.
 *
 *     FREE --claim (my share is not full)--> MINE --release (it is too full)--> FREE
 *      ^------------ its owner is dead ------- OTHER'S
 *
 * A lease says who should read, not who may commit: that is decided by the compared offset. */
#ifndef INGEST_LEASE_H
#define INGEST_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum {
    LEASE_BEAT_MS = 1000,
    LEASE_MS = 5000,
    LEASE_OWNER_TEXT = 16, /* random per process, hex */
    LEASE_MEMBERS_MAX = 64,
    LEASE_PARTITIONS_MAX = 1024,
};

struct lease_member {
    char owner[LEASE_OWNER_TEXT];
    uint64_t beat;
    uint64_t seen_ms; /* when the beat last moved, monotonic */
    bool is_there;    /* in the newest look */
};

struct lease_partition {
    char owner[LEASE_OWNER_TEXT];
    bool is_owned;
    uint64_t next_offset; /* 0: nothing was read yet */
};

struct lease {
    char me[LEASE_OWNER_TEXT];
    uint64_t beat;
    struct lease_member members[LEASE_MEMBERS_MAX]; /* others, and me */
    uint32_t member_count;
    struct lease_partition partitions[LEASE_PARTITIONS_MAX];
    uint32_t partition_count;
};

void lease_init(struct lease *l, const char me[LEASE_OWNER_TEXT]);

/* A look at the store: begin, each row, end (forgets who is not there any more). */
void lease_look_begin(struct lease *l);
void lease_saw_member(struct lease *l, struct str owner, uint64_t beat, uint64_t monotonic_ms);
void lease_look_end(struct lease *l);

bool lease_is_mine(const struct lease *l, uint32_t partition);
bool lease_is_alive(const struct lease *l, const char owner[LEASE_OWNER_TEXT],
                    uint64_t monotonic_ms);

/* Changes owners of partitions to what they should be, as far as it is this platform's to do:
 * releases and claims. True: something changed. */
bool lease_decide(struct lease *l, uint64_t monotonic_ms);

#endif
