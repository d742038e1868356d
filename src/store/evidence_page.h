/* evidence_page.h - the evidence of a store, page by page, as lines of JSON (schemas/evidence.md):
 * registered keys; then stream after stream its notes of removal, checkpoints and records in the order
 * of their seqs; then the rows without a stream in the order of their ids.
 *
 * One page is one snapshot of the store. The stream's position is read in the snapshot of its last
 * page, so that records which arrive meanwhile are no finding. */
#ifndef STORE_EVIDENCE_PAGE_H
#define STORE_EVIDENCE_PAGE_H

#include "store/store.h"

enum { EVIDENCE_PLACE_TEXT = 260 };

struct evidence_place {
    bool is_begun;   /* false: begin with the keys */
    bool is_own;     /* the rows without a stream, after `seq` as an id */
    struct str node; /* else the stream, */
    struct str journal;
    uint64_t seq; /* after this record; 0: from its beginning */
};

/* Whether the MAC of a registered key is right. */
typedef bool evidence_key_check(void *context, struct str node, struct str journal,
                                struct str public_key, struct str mac);

struct evidence_asked {
    struct evidence_place after;
    evidence_key_check *check;
    void *context;
};

/* Appends a page of lines, each ended by ",\n". *ret_more: whether there is another page, after *ret,
 * whose texts are in `names` (twice EVIDENCE_PLACE_TEXT bytes). */
enum err evidence_page(struct store *s, const struct evidence_asked *asked, struct buf *out,
                       char *names, bool *ret_more, struct evidence_place *ret, struct fault *f);

#endif
