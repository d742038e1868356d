/* evidence_page.h - the evidence of a store, page by page, as lines of JSON (schemas/evidence.md):
 * registered keys; the texts of policies; then stream after stream its notes of removal, checkpoints and
 * records in the order of their seqs; then the rows without a stream in the order of their ids.
 *
 * A part of the time: of each stream, all records from the checkpoint before its first record of that
 * time to the checkpoint behind its last one. So whole runs are proved, and a verifier sees a record on
 * each side that is not of that time (the line `range`).
 *
 * One page is one snapshot of the store. The stream's position is read in the snapshot of its last
 * page, so that records which arrive meanwhile are no finding. */
#ifndef STORE_EVIDENCE_PAGE_H
#define STORE_EVIDENCE_PAGE_H

#include "store/store.h"

enum { EVIDENCE_PLACE_TEXT = 260 };

enum evidence_part { EVIDENCE_KEYS, EVIDENCE_POLICIES, EVIDENCE_STREAMS, EVIDENCE_OWN };

struct evidence_place {
    enum evidence_part part;
    struct str node;    /* of streams; of policies: the tenant */
    struct str journal; /* of streams; of policies: the name */
    uint64_t seq;       /* after this record, version or id; 0: from the beginning */
    uint64_t last;      /* of a stream: the last record that is asked for; 0: all */
};

/* Whether the MAC of a registered key is right. */
typedef bool evidence_key_check(void *context, struct str node, struct str journal,
                                struct str public_key, uint64_t distrusted_from, struct str mac);

struct evidence_asked {
    struct evidence_place after;
    bool has_from, has_to;
    uint64_t from_ms, to_ms; /* from is inclusive, to exclusive */
    evidence_key_check *check;
    void *context;
};

/* Appends a page of lines, each ended by ",\n". *ret_more: whether there is another page, after *ret,
 * whose texts are in `names` (twice EVIDENCE_PLACE_TEXT bytes). */
enum err evidence_page(struct store *s, const struct evidence_asked *asked, struct buf *out,
                       char *names, bool *ret_more, struct evidence_place *ret, struct fault *f);

#endif
