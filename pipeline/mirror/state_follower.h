/* state_follower.h - state beyond the process: snapshots on disk, and its mirror in Redis.
 *
 * Both follow the durable journal, like the publisher, on a thread of their own; live shards are
 * not asked and do not stop. A snapshot is made by the same replay that recovers: the newest snapshot
 * is loaded into a shard that owns every slot, the durable records behind it are applied, and what
 * comes out is written to a new file (temporary name, sync, rename, sync of the directory). So each
 * snapshot is a recovery that was tried and its position is exact. Two are kept, and a segment of the
 * journal may go when both are past it: either of them may be damaged, then. snapshot.h has the
 * file's form.
 *
 * The mirror writes durable deltas only: one script per slot checks the owner (node:epoch) and the
 * slot's position, and writes objects and the new position at once. Redis away is degraded, not
 * down; a Redis that came back empty or old is rewritten from a replay, not believed; one that
 * another engine owns ends this engine's start, or its serving. schemas/redis.md has the keys. */
#ifndef MIRROR_STATE_FOLLOWER_H
#define MIRROR_STATE_FOLLOWER_H

#include "journal/journal.h"
#include "metrics/metrics.h"
#include "pipeline/mirror/check.h"
#include "shards/shard.h"

struct state_follower;

struct state_follower_options {
    struct journal *journal;
    struct disk *disk; /* of the snapshots' directory; borrowed */
    const char *node;
    const struct lineage *past; /* copied; its position is that of the snapshot recovered from */
    uint64_t bytes_behind;      /* of journal, that recovery applied behind that snapshot */
    uint64_t snapshot_bytes;    /* of journal, after which the next snapshot is made */
    uint64_t snapshot_ms;       /* or after this time, if anything changed */
    struct mirror_redis redis;
    bool redis_reached; /* by the check: then this waits until Redis is claimed */
    struct metrics_sheet *sheet;
    /* Called when Redis turned out to belong to another engine: serving has to end. Must only
     * wake. */
    void (*lost_ownership)(void *context);
    void *context;
    /* between two looks at the clock, and between two probes of Redis; 0: one second, five */
    uint64_t tick_ms, probe_ms;
};

/* Holds the journal (journal_hold) from here on. ERR_EXISTS: another engine was faster;
 * ERR_BAD_VALUE: redis.url, or TLS without a CA. */
enum err state_follower_start(const struct state_follower_options *options,
                              struct state_follower **ret, struct fault *f);
/* The windows that limits have from now on (copied): counters are kept as long in snapshots, and
 * until the first call for ever. Any thread. */
void state_follower_hold_limits(struct state_follower *k, const struct limit_windows *windows);
void state_follower_wake(struct state_follower *k); /* the durable seq moved; any thread */
/* A last snapshot and the mirror's rest, for at most this long. */
void state_follower_stop(struct state_follower *k, uint32_t drain_ms);

struct state_follower_status { /* any thread; a moment's view */
    uint64_t snapshot_position, mirror_position;
    bool snapshot_fails; /* the latest attempt did */
    bool redis_configured, redis_reachable, redis_lost;
    char text[320]; /* what is wrong with Redis, for people; "" = nothing */
    char snapshot_text[320];
};
void state_follower_status(const struct state_follower *k, struct state_follower_status *ret);

#endif
