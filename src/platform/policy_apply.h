/* policy_apply.h - puts a set of policies in force in one transaction, or not at all. The route
 * policies:apply and policies.dir share it.
 *
 *   fill steps ─▶ policy_apply_check (a reader: each document by itself)
 *              ─▶ policy_apply_store (the writer: the resulting set, then all steps) */
#ifndef PLATFORM_POLICY_APPLY_H
#define PLATFORM_POLICY_APPLY_H

#include "platform/policy_set.h"

enum { APPLY_WARNINGS_MAX = 100 };

struct policy_apply {
    struct policy_batch batch;
    /* For each step: its text is in force already, so refusals of new documents do not apply. NULL:
     * none is. */
    const bool *in_force;
    struct set_guard guard; /* `problems` also has those of policy_apply_check() */
    bool lints;             /* fills `warnings`, also about the counts of limits */
    size_t warning_count;
    struct set_problem warnings[APPLY_WARNINGS_MAX];
};

/* `s` is only read (NULL where `lints` is not set). Reads and checks the documents, and fills in
 * digests and formats of the steps, in the arena. ERR_INVALID_POLICY: guard.problems has at least
 * one, and the fault describes the first. */
enum err policy_apply_check(struct policy_apply *a, struct store *s, struct arena *arena,
                            struct fault *f);
/* Also returns ERR_ROLE_IN_USE and the errors of policy_store_apply(). */
enum err policy_apply_store(struct policy_apply *a, struct store *s, const struct actor *by,
                            struct fault *f);

/* [{column, line, message, path, policy}] */
void set_problems_put(struct buf *out, const struct set_problem *list, size_t count);

#endif
