/* anchor_store.h - which checkpoints an anchor has: the table `anchors`, beside `checkpoints`.
 *
 * A row for each anchor and tree: the newest checkpoint that the anchor has, and since when. Blocking;
 * belongs to the thread of its store (a writer). */
#ifndef ANCHOR_ANCHOR_STORE_H
#define ANCHOR_ANCHOR_STORE_H

#include "base/arena.h"
#include "store/store.h"

enum { ANCHOR_DUE_MAX = 64 };

struct anchor_due { /* the newest checkpoint of a tree; views into the arena */
    struct str node, journal, note;
    uint64_t base, end_seq;
};

struct anchor_counts {
    uint64_t trees, waiting; /* with checkpoints; of these, with one newer than the anchor's */
    uint64_t since_ms; /* when the anchor got its oldest newest one, of those that wait; 0: never */
};

/* At most ANCHOR_DUE_MAX checkpoints that the anchor does not have. */
enum err anchor_store_due(struct store *s, struct str anchor, struct arena *arena,
                          struct anchor_due ret[ANCHOR_DUE_MAX], size_t *ret_count,
                          struct fault *f);
/* The anchor has them. One transaction. */
enum err anchor_store_done(struct store *s, struct str anchor, const struct anchor_due *list,
                           size_t count, uint64_t now_ms, struct fault *f);
enum err anchor_store_count(struct store *s, struct str anchor, struct anchor_counts *ret,
                            struct fault *f);

#endif
