/* terms.h - what a review asks for, and what its approval will cover, as
 * the journal has them. Pure.
 *
 *   requirements  [{"approvals":1,"by":["finance"]}, …]        all of them have to be met
 *   votes         [["review","payments","large-refunds"], …]   what counts as allow once they are
 *
 * Both are journaled: their words are for ever. The review's owner counts votes by
 * the first (shards/review_table.c). Texts that were read are views of what was
 * given; the rest is the arena's. */
#ifndef ENGINE_TERMS_H
#define ENGINE_TERMS_H

#include "base/arena.h"
#include "base/err.h"
#include "policy/policy.h"

/* Absent: the arena is full. */
struct str terms_requirements(const struct policy_review *r, struct arena *a);
struct str terms_votes(const struct policy_review *r, struct arena *a);

/* Without any, one approval by anybody is enough. ERR_CORRUPT: that is not what was written;
 * ERR_FULL: the arena is full. */
enum err terms_read_requirements(struct str text, struct arena *a,
                                 const struct policy_requirement **ret, size_t *ret_count);
enum err terms_read_votes(struct str text, struct arena *a, const struct policy_vote **ret,
                          size_t *ret_count);

#endif
