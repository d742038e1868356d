/* followers.h - the engines that ask for the bundle, and which of them are behind.
 *
 *   an engine asks ──▶ followers_saw ──▶ here ── 20 ms to collect ──▶ the store (the writer)
 *   a revocation ────▶ the store's rows (its own job) ──▶ followers_await ─┬─▶ engines behind
 *   while one waits ─▶ the store again, each 100 ms (a reader) ────────────┘
 *
 * So an engine is known at every platform of the store, and after restarts. An engine that no
 * platform has seen for a week (FOLLOWER_KEEP_MS), or that an admin has forgotten at any of them, is
 * no longer waited for.
 *
 * Every key for a node may speak for it. If two keys do so at this platform within
 * FOLLOWER_VOICE_MS, the node counts as running the older of their revisions, and the log reports
 * the two keys. They are two engines of one name, or an engine and a client with a key for every
 * node. Such a client must not confirm a revocation on the engine's behalf. Belongs to the
 * reactor. */
#ifndef PLATFORM_FOLLOWERS_H
#define PLATFORM_FOLLOWERS_H

#include "base/id.h"
#include "base/list.h"
#include "loop/loop.h"
#include "store/follower_store.h"

struct job;
struct platform;

enum { NODE_BYTES_MAX = 256 };

enum {
    FOLLOWER_VOICES = 4,
    FOLLOWER_VOICE_MS = 75000, /* longer than the longest wait (60 s) */
};

struct follower_voice {
    struct id key;
    struct revision revision;
    uint64_t heard_at; /* 0: the entry is free */
};

struct follower {
    char node[NODE_BYTES_MAX];
    size_t node_size;
    struct follower_voice voices[FOLLOWER_VOICES];
    struct follower_voice *latest;
    bool is_shared_told;
    struct revision revision;       /* that the engine reported; number 0: none */
    uint64_t seen_at;               /* time of the last report to any platform; Unix milliseconds */
    struct revision noted_revision; /* as stored */
    uint64_t noted_at;              /* 0: not stored */
};

struct followers {
    struct follower all[FOLLOWERS_MAX];
    size_t count;
    struct loop_timer note, look;
    bool is_noting, is_looking; /* a job is under way, or the timer runs towards one */
    struct list waits;          /* of jobs: revocations that wait for engines */
};

/* The engine asked with this key and runs this revision (number 0: one that this process does not
 * know). Answers the revocations that waited only for it. */
void followers_saw(struct platform *p, struct str node, struct id key,
                   const struct revision *revision);
/* The engine's request has waited here until now, so its key still speaks for it. The revision is
 * that of the request's start, and the engine may have asked another platform since. */
void followers_waited(struct platform *p, struct str node, struct id key);
/* For a revocation's job, with the engines that the store knew before it. Answers when all run its
 * revision, or after a second with the names of the engines that do not. */
void followers_await(struct job *j, const struct follower_row *known, size_t count);
/* The engine was removed from the store: no revocation waits for it, until it asks again. */
void followers_remove(struct platform *p, struct str node);
/* The store went back, and has lost its revisions up to this one. The revisions of the engines are
 * unknown until they ask again. A waiting revocation with such a revision is refused (503), because
 * the store may have lost it. */
void followers_forget(struct platform *p, uint64_t lost_revision);
void followers_tick(struct platform *p); /* each second: retries failed writes */
/* The drain begins: the remaining rows are written, and no further look starts. */
void followers_stop(struct platform *p);
void followers_drain(struct platform *p); /* answers all that wait */

#endif
