/* follower_store.h - which engines ask for the bundle, and which revision of it they said they run.
 *
 * Each platform of a store writes down whoever asks it, so that a revocation through any of them,
 * also after a restart, knows for whom it has to wait. A row is what an engine said last to
 * somebody; one that has said nothing for FOLLOWER_KEEP_MS is forgotten.
 *
 * Blocking; belongs to the thread of its store. */
#ifndef INGEST_FOLLOWER_STORE_H
#define INGEST_FOLLOWER_STORE_H

#include "base/arena.h"
#include "pipeline/ingest/store.h"

#define FOLLOWER_KEEP_MS (UINT64_C(7) * 86400000)

enum { FOLLOWERS_MAX = 256 };

struct follower_row {
    struct str node;
    uint64_t revision; /* 0: nothing that the store knows of */
    uint64_t seen_at;  /* Unix milliseconds */
};

/* Writes these down and forgets who is too old, and of more than FOLLOWERS_MAX who was seen first.
 * A writer's; one transaction of its own. */
enum err follower_store_note(struct store *s, const struct follower_row *rows, size_t count,
                             uint64_t now_ms, struct fault *f);
/* All that are not too old. Names are copied into the arena.
 * ERR_FULL: it has no room. */
enum err follower_store_list(struct store *s, uint64_t now_ms, struct arena *arena,
                             struct follower_row ret[FOLLOWERS_MAX], size_t *ret_count,
                             struct fault *f);

#endif
