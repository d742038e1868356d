/* followers.h - the engines that ask for the bundle, and who of them is behind.
 *
 *   an engine asks ──▶ followers_saw ──▶ here ── 20 ms of company ──▶ the store (the writer)
 *   a revocation ────▶ what the store has (its own job) ──▶ followers_await ─┬─▶ who is behind
 *   while one waits ─▶ the store again, each 100 ms (a reader) ──────────────┘
 *
 * So an engine is known whichever platform of the store it asked, and after restarts. One that was
 * heard of by nobody for a week (FOLLOWER_KEEP_MS) is no longer waited for.
 *
 * Whoever has a key for a node may speak for it. Where two keys do, at this platform and within
 * FOLLOWER_VOICE_MS, the node runs the older of what they say, and that there are two is logged: two
 * engines of one name, or an engine and somebody with a key for every node, who must not say for it
 * that it has heard of a revocation. The reactor's. */
#ifndef PLATFORM_FOLLOWERS_H
#define PLATFORM_FOLLOWERS_H

#include "base/id.h"
#include "base/list.h"
#include "loop/loop.h"
#include "pipeline/ingest/follower_store.h"

struct job;
struct platform;

enum { NODE_BYTES_MAX = 256 };

enum {
    FOLLOWER_VOICES = 4,
    FOLLOWER_VOICE_MS = 75000, /* longer than the longest wait (60 s) */
};

struct follower_voice {
    struct id key;
    uint64_t revision, heard_at; /* heard_at 0: nobody's */
};

struct follower {
    char node[NODE_BYTES_MAX];
    size_t node_size;
    struct follower_voice voices[FOLLOWER_VOICES];
    struct follower_voice *latest;
    bool is_shared_told;
    uint64_t revision; /* that it said it runs; 0 = none */
    uint64_t seen_at;  /* when it said so: it last asked somebody; Unix milliseconds */
    uint64_t noted_revision, noted_at; /* as the store has it; noted_at 0: not at all */
};

struct followers {
    struct follower all[FOLLOWERS_MAX];
    size_t count;
    struct loop_timer note, look;
    bool is_noting, is_looking; /* a job is out, or the timer runs towards one */
    struct list waits;          /* of jobs: revocations that wait for engines */
};

/* It asked, with this key, and runs this revision (0: one that this process does not know): answers
 * the revocations that waited for nobody else. */
void followers_saw(struct platform *p, struct str node, struct id key, uint64_t revision);
/* Its question has waited until now, at least here: whoever has this key still speaks for it. What it
 * runs was said when it asked, and it may have asked somebody else since. */
void followers_waited(struct platform *p, struct str node, struct id key);
/* A revocation's job, with the engines that the store knew of before it: answers when all run its
 * revision, or after a second with the names of those who do not. */
void followers_await(struct job *j, const struct follower_row *known, size_t count);
void followers_tick(struct platform *p); /* each second: what could not be written is tried again */
/* The drain begins: what is not written down yet is, and nothing is asked any more. */
void followers_stop(struct platform *p);
void followers_drain(struct platform *p); /* answers all that wait */

#endif
