/* terms.h - the requirements of a review, and the votes that its approval will cover, in their form
 * in the journal. Pure.
 *
 *   requirements  [{"approvals":1,"by":["finance"],"vote":1}, …]  all of them have to be met
 *                 "proof":"oidc" where each approval has to be a verified person's
 *   votes         [["review","payments","large-refunds"], …]      these count as allow once they are
 *
 * "vote" is the number, from 1, of the first vote of the requirement's rule. Reviews of
 * earlier versions have none. Both are journaled: readers ignore members that they do not know, and nothing else may
 * change. The review's owner counts votes by the first (shards/review_table.c). Texts that were read are views of the input; the rest is in the
 * arena. */
#ifndef ENGINE_TERMS_H
#define ENGINE_TERMS_H

#include "base/arena.h"
#include "base/err.h"
#include "policy/policy.h"

/* Absent: the arena is full. */
struct str terms_requirements(const struct policy_review *r, struct arena *a);
struct str terms_votes(const struct policy_review *r, struct arena *a);

/* An empty list means that one approval by any reviewer is enough. ERR_CORRUPT: the text is
 * damaged; ERR_FULL: the arena is full. */
enum err terms_read_requirements(struct str text, struct arena *a,
                                 const struct policy_requirement **ret, size_t *ret_count);
enum err terms_read_votes(struct str text, struct arena *a, const struct policy_vote **ret,
                          size_t *ret_count);

#endif
