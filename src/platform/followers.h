/* followers.h - the engines that ask for the bundle, and who of them is behind.
 *
 *   an engine asks ──▶ followers_saw ──▶ here ── 20 ms of company ──▶ the store (the writer)
 *   a revocation ────▶ what the store has (its own job) ──▶ followers_learn ─┬─▶ who is behind
 *   while one waits ─▶ the store again, each 100 ms (a reader) ──────────────┘
 *
 * So an engine is known whichever platform of the store it asked, and after restarts. One that was
 * heard of by nobody for a week (FOLLOWER_KEEP_MS) is no longer waited for. The reactor's. */
#ifndef PLATFORM_FOLLOWERS_H
#define PLATFORM_FOLLOWERS_H

#include "loop/loop.h"
#include "pipeline/ingest/follower_store.h"

struct platform;

enum { NODE_BYTES_MAX = 256 };

struct follower {
    char node[NODE_BYTES_MAX];
    size_t node_size;
    uint64_t revision; /* that it said it runs; 0 = none */
    uint64_t seen_at;  /* when it last asked somebody, or was last waiting; Unix milliseconds */
    uint64_t noted_revision, noted_at; /* as the store has it; noted_at 0: not at all */
};

struct followers {
    struct follower all[FOLLOWERS_MAX];
    size_t count;
    struct loop_timer note, look;
    bool is_noting, is_looking; /* a job is out, or the timer runs towards one */
};

/* It asked, and runs this revision (0: one that this process does not know). */
void followers_saw(struct platform *p, struct str node, uint64_t revision);
/* It has been waiting until now. */
void followers_waited(struct platform *p, struct str node);
/* What the store has of them. */
void followers_learn(struct platform *p, const struct follower_row *rows, size_t count);
/* Appends the names of who does not run this revision yet, with commas between; how many there are.
 * `out` may be a buffer without room. */
size_t followers_put_behind(const struct platform *p, uint64_t revision, struct buf *out);
/* Reads the store again and again while revocations wait. */
void followers_look(struct platform *p);
void followers_tick(struct platform *p); /* each second: what could not be written is tried again */
/* The drain begins: what is not written down yet is, and nothing is asked any more. */
void followers_stop(struct platform *p);

#endif
