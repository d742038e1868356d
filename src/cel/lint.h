/* lint.h - remarks about conditions that are legal but probably wrong.
 *
 * The checks read the typed tree of a text that compiles in the environment of policies
 * (cel_policy_environment); nothing is run. The kinds of remarks:
 *
 *   NEGATION    a test of args or context that is negated: !has(args.x), !args.x, args.x != …,
 *               and the same through !(… && …), ?:, macros and cel.bind. An agent chooses both, so
 *               it can omit or change a value. It matters if the condition permits.
 *   SLIPS       a test that a value of the requester is exactly a constant, by type or case: "true"
 *               is not true, and PROD is not prod. It matters if the condition restricts.
 *   LOOSE       a test that accepts more than it seems to: matches() without ^ and $, glob() with a
 *               * that matches ; and blanks, startsWith() of a path, two values of the requester
 *               compared with each other. It matters if the condition permits, and if one that
 *               restricts has it `negated`.
 *   VALUE       a constant that the other operand never has (now.getMonth() == 12), or that means
 *               something else than it seems to: an address range, a time zone.
 *   ARITHMETIC  a number of JSON with an int, as in args.amount * 2: there is no such overload,
 *               because JSON's numbers are doubles, so it always fails.
 *   NEVER       the condition is false for every request: a constant, or two bounds that exclude
 *               each other.
 *   DEMAND      no mistake: the condition is true only if `variable` is exactly the text `wanted`.
 *               The caller compares this with the rule's selectors. */
#ifndef CEL_LINT_H
#define CEL_LINT_H

#include "cel/cel.h"

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
    bool negated;          /* SLIPS, LOOSE: the condition is true if the test is false */
    char message[240];     /* DEMAND has none */
    enum cel_policy_variable variable;
    struct str wanted; /* valid during the callback */
};

/* Calls back with each remark about `text`; with none if the text does not compile. Constants are
 * computed as by the compiler, within the steps that are left. */
void cel_lint(struct str text, uint64_t *folding_left,
              void (*each)(void *context, const struct cel_remark *remark), void *context);

#endif
