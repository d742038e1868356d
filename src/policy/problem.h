/* problem.h - the problems of a document, with their positions and paths.
 *
 * A `struct place` is one step from the document's root to a value. Places live on the reader's
 * stack and point at their parents, so a path is written out only for a problem. */
#ifndef POLICY_PROBLEM_H
#define POLICY_PROBLEM_H

#include "policy/policy.h"

struct place {
    const struct place *parent; /* NULL: the document's root */
    struct str key;             /* absent: an element of a list */
    size_t index;
};

/* Adds one problem; the message gets the name of the member in front ("decision: …"). Beyond
 * POLICY_PROBLEMS_MAX it is only counted. `place` NULL is the root. */
void problem_add(struct policy_problems *problems, const struct place *place, unsigned line,
                 unsigned column, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Their number is within its bound. */
void problems_check(const struct policy_problems *problems);

/* By line, then column; problems without a line come first. */
void problems_sort(struct policy_problems *problems);

#endif
