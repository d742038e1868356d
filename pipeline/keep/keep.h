/* keep.h - state beyond the process: snapshots on disk, and its mirror in Redis.
 *
 * Both follow the durable journal, like the publisher, on a thread of their own; live shards are
 * not asked and do not stop. A snapshot is made by the same fold that recovers: the newest snapshot
 * is loaded into a shard that owns every slot, the durable records behind it are applied, and what
 * comes out is written to a new file (temporary name, sync, rename, sync of the directory). So each
 * snapshot is a recovery that was tried, its position is exact, and a segment of the journal may go
 * when a durable snapshot is past it. snapshot.h has the file's form.
 *
 * The mirror writes durable deltas only: one script per slot checks the owner (node:epoch) and the
 * slot's position, and writes objects and the new position at once. Redis away is degraded, not
 * down; a Redis that came back empty or old is written anew from a fold, not believed; one that
 * another engine owns ends this engine's start, or its serving. schemas/redis.md has the keys. */
#ifndef KEEP_KEEP_H
#define KEEP_KEEP_H

#include "base/fault.h"
#include "base/limits.h"
#include "journal/journal.h"
#include "metrics/metrics.h"
#include "shards/shard.h"

/* ---- what outlives a boot beside the state ---- */

enum { KEEP_EPOCHS_MAX = 1024, KEEP_ADOPTED_TEXT = 512 };

struct keep_past {
    uint64_t position; /* the seq that the state includes; 0: none */
    /* owners whose images began this state, "node:epoch,…"; "" = none */
    char adopted[KEEP_ADOPTED_TEXT];
    /* and at which positions, by slot: what moves after that was not adopted */
    bool adopted_at_known;
    uint64_t adopted_at[LIMIT_SLOTS];
    size_t epoch_count;
    /* of this journal, oldest first; the newest are kept */
    char epochs[KEEP_EPOCHS_MAX][JOURNAL_EPOCH_TEXT];
    /* their last seqs, as the journal showed them; 0: unknown, or it goes on. In no snapshot */
    uint64_t ends[KEEP_EPOCHS_MAX];
};

void keep_past_add_epoch(struct keep_past *p, const char epoch[JOURNAL_EPOCH_TEXT]); /* once each */
bool keep_past_knows(const struct keep_past *p, struct str epoch);
/* adds it, too */
void keep_past_reached(struct keep_past *p, const char epoch[JOURNAL_EPOCH_TEXT], uint64_t seq);
/* How far this journal goes in that epoch, and no further than `last_seq`, its end.
 * What is beyond, this journal never had, also where it has grown past that number
 * since: its disk went back in time. */
uint64_t keep_past_end(const struct keep_past *p, struct str epoch, uint64_t last_seq);

/* ---- recovery: before the threads run ---- */

/* Reads the newest snapshot that verifies, entry by entry; `ret->position` is the seq that it
 * includes (0: there is none). ERR_CORRUPT: there are snapshots, and none verifies; ERR_BAD_VALUE:
 * a newer program wrote it. */
enum err snapshot_read(struct disk *disk,
                       enum err (*each)(void *context, unsigned slot, struct str entry),
                       void *context, struct keep_past *ret, struct fault *f);

/* One entry of a snapshot, or one record's deltas, into the shards that own their slots.
 * ERR_BAD_VALUE: a newer program wrote it; else as shard_load() and shard_apply(). */
enum err keep_load(struct shard *const *shards, unsigned count, unsigned slot, struct str entry,
                   struct fault *f);
enum err keep_apply(struct shard *const *shards, unsigned count,
                    const struct journal_record *record, struct fault *f);

/* The bytes of the one at that position; 0: there is none. */
uint64_t snapshot_size(struct disk *disk, uint64_t position);
/* What the journal has to leave of the disk (journal_leave) to the snapshot after one of that size:
 * an eighth more, and half of the journal behind it, since the state grows by less than that part
 * of what is recorded. */
uint64_t keep_needs(uint64_t last_bytes, uint64_t bytes_behind);

/* A snapshot of these shards together, durable when this returns; older ones than the newest two
 * go. For a state that no fold can make: one that was adopted. */
enum err keep_snapshot(struct disk *disk, const struct keep_past *past, struct shard *const *shards,
                       unsigned count, struct fault *f);

/* ---- the mirror, before serving ---- */

struct keep_redis {
    const char *url;                  /* "unix:/path", "tcp://host:port" (or redis://), "" = none */
    const char *user, *password_file; /* "" = none */
    const char *ca_file;              /* of TLS (rediss://); "" = none */
    const char *adopt;                /* --adopt NODE, or several with commas, or "" */
    uint32_t timeout_ms;
};

/* What a Redis is judged by, and who takes what is adopted from it. */
struct keep_check {
    const char *node;
    struct keep_past *past; /* which epochs are ours */
    uint64_t last_seq;      /* the journal's end */
    uint64_t now_ms;
    enum err (*each)(void *context, unsigned slot, struct str entry);
    void *context;
};

/* Whether this Redis may be used: empty, ours, or adopted. ERR_EXISTS: another node's (the sentence
 * names it and --adopt), or one to be adopted still writes. ERR_BAD_VALUE: it is ahead of our
 * journal (the disk went back in time), or an option is wrong, or an image that is to be adopted is
 * not whole. A Redis that cannot be reached is ERR_OK with *ret_reached false, but where something
 * is to be adopted ERR_STORE_UNAVAILABLE. With --adopt, and nothing of our own, the images of that
 * node are given to `each`, with counted tokens revoked and its pending and approved reviews expired,
 * and past->adopted says whose they were; the caller makes them durable (keep_snapshot) before
 * anything else. */
enum err keep_redis_check(const struct keep_redis *redis, const struct keep_check *by,
                          bool *ret_reached, struct fault *f);

/* ---- the thread ---- */

struct keep;

struct keep_options {
    struct journal *journal;
    struct disk *disk; /* of the snapshots' directory; borrowed */
    const char *node;
    const struct keep_past *past; /* copied; its position is that of the newest snapshot */
    uint64_t bytes_behind;        /* of journal, that recovery applied behind that snapshot */
    uint64_t snapshot_bytes;      /* of journal, after which the next snapshot is made */
    uint64_t snapshot_ms;         /* or after this time, if anything changed */
    struct keep_redis redis;
    bool redis_reached; /* by the check: then this waits until Redis is claimed */
    struct metrics_sheet *sheet;
    /* Called when Redis turned out to belong to another engine: serving has to end. Must only
     * wake. */
    void (*lost_ownership)(void *context);
    void *context;
};

/* Holds the journal (journal_hold) from here on. ERR_EXISTS: another engine was faster;
 * ERR_BAD_VALUE: redis.url, or TLS without a CA. */
enum err keep_start(const struct keep_options *options, struct keep **ret, struct fault *f);
/* The windows that limits have from now on (copied): counters are kept as long in snapshots, and
 * until the first call for ever. Any thread. */
void keep_hold_limits(struct keep *k, const struct limit_windows *windows);
void keep_wake(struct keep *k); /* the durable seq moved; any thread */
/* A last snapshot and the mirror's rest, for at most this long. */
void keep_stop(struct keep *k, uint32_t drain_ms);

struct keep_status { /* any thread; a moment's view */
    uint64_t snapshot_position, mirror_position;
    bool snapshot_fails; /* the latest attempt did */
    bool redis_configured, redis_reachable, redis_lost;
    char text[320]; /* what is wrong with Redis, for people; "" = nothing */
    char snapshot_text[320];
};
void keep_status(const struct keep *k, struct keep_status *ret);

#endif
