/* needs.h - who has to vote on a review, and who has: from its requirements and its votes.
 *
 * The list that clients get (`needs` in schemas/openapi.engine.yaml), the number of approvals, the
 * requirements that a person's vote counts toward, and the roles that a refusal names all come from
 * here. Pure; texts are views of the facts or are in the arena. */
#ifndef ENGINE_NEEDS_H
#define ENGINE_NEEDS_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "policy/policy.h"
#include "shards/review.h"

/* One rule's requirement. */
struct need {
    struct str policy_name, rule_id; /* absent: an earlier version opened the review */
    const struct str *by; /* names of roles, any of which is enough; none: any reviewer */
    size_t by_count;
    enum policy_proof proof;
    unsigned approvals, so_far; /* so_far: the votes that count toward it */
};

struct needs {
    const struct need *list; /* at most REVIEW_REQUIREMENTS_MAX, at least one */
    size_t count;
};

/* ERR_CORRUPT: the review's terms are damaged; ERR_FULL: the arena is full. */
enum err needs_of(const struct review_facts *r, struct arena *arena, struct needs *ret);
/* The least number of people who have to approve: the largest of its requirements. */
unsigned needs_approvals(const struct needs *n);
/* Bit i: need i has not got its approvals. */
uint32_t needs_open(const struct needs *n);
/* The strictest of all needs, which every approval has to have. */
enum policy_proof needs_proof(const struct needs *n);
/* Bit i: a vote of this person counts toward need i, if it has the proof. */
uint32_t needs_met_by(const struct needs *n, const struct policy_set *policies,
                      const struct policy_person *person, struct arena *arena);
/* Bit i: the person has a role of some need by claim i, or by several of which it is one. */
uint64_t needs_claims(const struct needs *n, const struct policy_set *policies,
                      const struct policy_person *person);
/* "finance, support": the roles of all needs, at most `most` bytes. */
struct str needs_roles(const struct needs *n, size_t most, struct arena *arena);
/* Appends the list as JSON. `with_voted`: with the people whose votes count toward each, which shows
 * who has which role. */
void needs_put(struct buf *out, const struct needs *n, const struct review_facts *r,
               bool with_voted);

#endif
