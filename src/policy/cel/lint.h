/* lint.h - what a condition says that is legal and probably wrong.
 *
 * A look at the typed tree of a text that compiles in the environment of policies
 * (cel_policy_environment); nothing is run. These things are remarked:
 *
 *   NEGATION    a test of args or context that is negated: !has(args.x), !args.x, args.x != …,
 *               and the same through !(… && …), ?:, macros and cel.bind. An agent chooses both, so
 *               it can leave a thing out or write another. It matters where the condition permits.
 *   SLIPS       a test that what the asker writes is exactly something, by type or case: "true" is
 *               not true, and PROD is not prod. It matters where the condition restricts.
 *   LOOSE       a test that takes more than it looks: matches() without ^ and $, glob() with a *
 *               that takes ; and blanks, startsWith() of a path, one thing that the asker writes
 *               beside another. It matters where the condition permits, and where one that
 *               restricts has it `negated`.
 *   VALUE       a constant that is no value of what it is compared with (now.getMonth() == 12), or
 *               that means something else than it looks like: an address range, a time zone.
 *   ARITHMETIC  a number of JSON with an int, as in args.amount * 2: there is no such overload,
 *               because JSON's numbers are doubles, so it always fails.
 *   NEVER       it is false whatever the request is: a constant, or two bounds that exclude each
 *               other.
 *   DEMAND      no mistake: it is true only where `variable` is exactly the text `wanted`. Who
 *               knows the rule's selectors can tell whether that can be. */
#ifndef POLICY_CEL_LINT_H
#define POLICY_CEL_LINT_H

#include "policy/cel/cel.h"

enum cel_remark_kind {
    CEL_REMARK_NEGATION,
    CEL_REMARK_SLIPS,
    CEL_REMARK_LOOSE,
    CEL_REMARK_VALUE,
    CEL_REMARK_ARITHMETIC,
    CEL_REMARK_NEVER,
    CEL_REMARK_DEMAND
};

struct cel_remark {
    enum cel_remark_kind kind;
    uint32_t line, column; /* 1-based; columns are code points */
    bool negated;          /* SLIPS, LOOSE: it helps the condition by being false */
    char message[240];     /* DEMAND has none */
    enum cel_policy_variable variable;
    struct str wanted; /* good while it is being told */
};

/* Tells each remark about `text`. Says nothing of a text that does not compile. Constants are
 * worked out as when it is compiled, for as many steps as are left. */
void cel_lint(struct str text, uint64_t *folding_left,
              void (*each)(void *context, const struct cel_remark *remark), void *context);

#endif
