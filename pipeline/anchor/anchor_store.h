/* anchor_store.h - which checkpoints an anchor has: the table `anchors`, beside `checkpoints`.
 *
 * A row for each anchor and tree: the newest checkpoint that the anchor has, and since when. A witness's
 * signature becomes a line of the stored checkpoint itself. Only settled checkpoints count, those that
 * ingest replaces no more. Blocking; belongs to the thread of its store (a writer). */
#ifndef ANCHOR_ANCHOR_STORE_H
#define ANCHOR_ANCHOR_STORE_H

#include "base/arena.h"
#include "evidence/note.h"
#include "store/store.h"

enum { ANCHOR_DUE_MAX = 64, ANCHOR_SETTLED_MS = 1500 };

struct anchor_due { /* the newest checkpoint of a tree; views into the arena */
    struct str node, journal, note;
    uint64_t base, end_seq;
    uint64_t had_seq;     /* the last record of what the anchor has; 0: nothing */
    struct str signature; /* of a witness: the line for the note; absent: none */
    bool is_refused;      /* the anchor does not have it */
};

struct anchor_counts {
    uint64_t trees, waiting; /* with checkpoints; of these, with one newer than the anchor's */
    uint64_t since_ms; /* when the anchor got its oldest newest one, of those that wait; 0: never */
};

/* At most ANCHOR_DUE_MAX checkpoints that the anchor does not have, without the first `skip`. */
enum err anchor_store_due(struct store *s, struct str anchor, uint64_t now_ms, uint64_t skip,
                          struct arena *arena, struct anchor_due ret[ANCHOR_DUE_MAX],
                          size_t *ret_count, struct fault *f);
/* The anchor has them, but for those that are refused, or whose checkpoint has left the store. One
 * transaction. */
enum err anchor_store_done(struct store *s, struct str anchor, const struct anchor_due *list,
                           size_t count, uint64_t now_ms, struct fault *f);
/* Appends what the anchor has of each tree, those that wait first, as elements of a JSON array, as many
 * as there is room for. */
enum err anchor_store_status(struct store *s, struct str anchor, uint64_t now_ms, struct buf *out,
                             struct anchor_counts *ret, struct fault *f);

#endif
