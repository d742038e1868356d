/* anchor_proof.h - the proof that a stored tree continues what a witness has (RFC 6962, 2.1.2), from the
 * records of the store. Many leaves may lie between, so it is made in steps of a bounded length.
 *
 * Blocking; belongs to the thread of its store. */
#ifndef ANCHOR_ANCHOR_PROOF_H
#define ANCHOR_ANCHOR_PROOF_H

#include "evidence/merkle.h"
#include "pipeline/anchor/anchor_store.h"

enum { ANCHOR_PROOF_STEP = 4096 /* leaves */ };

struct anchor_proof {
    struct proof_maker maker;
    uint64_t next; /* the record that comes next */
};

/* From the first `old_size` leaves to all of the due one; 0 < old_size <= its size. ERR_NOT_FOUND: the
 * store has no frontier to begin with. */
enum err anchor_proof_begin(struct store *s, struct hasher *h, const struct anchor_due *d,
                            uint64_t old_size, struct anchor_proof *ret, struct fault *f);
/* Adds leaves; proof_is_complete(&p->maker) after the last of them. ERR_NOT_FOUND: the store does not
 * have the record `next`. */
enum err anchor_proof_step(struct store *s, struct hasher *h, const struct anchor_due *d,
                           struct anchor_proof *p, struct fault *f);

#endif
