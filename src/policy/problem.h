/* problem.h - where in a document something is wrong, and how its author is told.
 *
 * A `struct place` is one step from the document's root to a value; places live on the reader's
 * stack and point at their parents, so the path is spelled out only where there is a problem. */
#ifndef POLICY_PROBLEM_H
#define POLICY_PROBLEM_H

#include "policy/policy.h"

struct place {
    const struct place *parent; /* NULL: the document's root */
    struct str key;             /* absent: an element of a list */
    size_t index;
};

/* Adds one problem; the message gets the name of the member in front ("decision: …"). Beyond
 * POLICY_PROBLEMS_MAX it is only counted: the author has enough to do. `place` NULL is the root. */
void problem_add(struct policy_problems *problems, const struct place *place, unsigned line,
                 unsigned column, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* By line, then column; problems without a line come first. */
void problems_sort(struct policy_problems *problems);

/* The candidate that `word` was probably meant to be, or NULL: one or two slips of the finger
 * away (Damerau-Levenshtein, restricted form), or one a beginning of the other. */
const char *nearest_word(struct str word, const char *const *candidates, size_t count);

#endif
