/* policy_apply.h - a set of policies put in force in one transaction, or not at all: what the route
 * policies:apply and policies.dir share.
 *
 *   fill steps ─▶ policy_apply_check (a reader: each document by itself)
 *              ─▶ policy_apply_store (the writer: the set as it would be, then all steps) */
#ifndef PLATFORM_POLICY_APPLY_H
#define PLATFORM_POLICY_APPLY_H

#include "platform/policy_set.h"

enum { APPLY_WARNINGS_MAX = 100 };

struct policy_apply {
    struct policy_batch batch;
    /* beside each step: its text is in force already, so it is not asked what only a new document is
     * refused for; NULL: none is */
    const bool *in_force;
    struct set_guard guard; /* `problems` are those of policy_apply_check(), too */
    bool lints;             /* fills `warnings`, also with what becomes of the counts of limits */
    size_t warning_count;
    struct set_problem warnings[APPLY_WARNINGS_MAX];
};

/* `s` is only read (NULL where `lints` is not set). Reads and checks the documents; digests and formats of the steps are filled in, in the arena.
 * ERR_INVALID_POLICY: guard.problems has at least one, the fault tells the first. */
enum err policy_apply_check(struct policy_apply *a, struct store *s, struct arena *arena,
                            struct fault *f);
/* Also ERR_ROLE_IN_USE, and what policy_store_apply() gives. */
enum err policy_apply_store(struct policy_apply *a, struct store *s, const struct actor *by,
                            struct fault *f);

/* [{column, line, message, path, policy}] */
void set_problems_put(struct buf *out, const struct set_problem *list, size_t count);

#endif
