/* follower_store.h - which engines ask for the bundle, and which revision they reported.
 *
 * Each platform of a store writes down the engines that ask it. So a revocation through any
 * platform, also after a restart, knows which engines it must wait for. A row is an engine's last
 * report to any platform. An engine without a report for FOLLOWER_KEEP_MS is forgotten.
 *
 * Blocking; belongs to the thread of its store. */
#ifndef STORE_FOLLOWER_STORE_H
#define STORE_FOLLOWER_STORE_H

#include "base/arena.h"
#include "store/store.h"

#define FOLLOWER_KEEP_MS (UINT64_C(7) * 86400000)

enum { FOLLOWERS_MAX = 256 };

struct follower_row {
    struct str node;
    struct revision revision; /* number 0: none, or one that the store does not have */
    uint64_t seen_at;         /* Unix milliseconds */
};

/* Writes these rows. Removes rows that are too old, and the oldest ones above FOLLOWERS_MAX. For a
 * writer; one transaction of its own. */
enum err follower_store_note(struct store *s, const struct follower_row *rows, size_t count,
                             uint64_t now_ms, struct fault *f);
/* All rows that are not too old. Names are copied into the arena. ERR_FULL: it has no room. */
enum err follower_store_list(struct store *s, uint64_t now_ms, struct arena *arena,
                             struct follower_row ret[FOLLOWERS_MAX], size_t *ret_count,
                             struct fault *f);

#endif
