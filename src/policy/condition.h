/* condition.h - inside of the room: CEL in documents (`when`, `${…}`, `sum`), compiled at
 * load and run with a request.
 *
 * A condition that cannot be evaluated is not false: what it means is decided by the rule's
 * decision (a deny or human_review applies, a compute is a deny, an allow is skipped). The
 * variables are made once for a request, when the first condition asks.
 *
 * Each evaluation is bounded, and so is what all of one decision cost together, over rules and
 * passes: else many rules that each stay below their own bound hold up a reactor. Where that is
 * spent nothing more is run, and the decision is a deny (evaluate.c). Shadow documents have memory
 * and purses of their own, because they may not change what is decided. A second purse is for the
 * reason and for the sums of limits, which depend on the outcome: a higher confidence must not be stricter
 * for having more of them. An amount that cannot be had is over the limit. */
#ifndef POLICY_CONDITION_H
#define POLICY_CONDITION_H

#include "policy/cel/trace.h"
#include "policy/reader.h"

enum {
    CONDITION_CHARACTERS_MAX = 8000,
    CONDITION_COST_MAX = 100000, /* about a millisecond, two where a search meets its worst text */
    DECISION_COST_MAX = 20 * CONDITION_COST_MAX, /* of each purse */
    TEMPLATE_PARTS_MAX = 16,
};

struct ballot;

struct condition {
    struct cel_program *program;
    struct str text;
    struct condition *next; /* of the document: programs are freed with it */
    bool folds;             /* its rule's: whose members `roles` takes ignoring case */
    bool is_in_line;        /* the document has its first line there as it was read: */
    unsigned line, column;  /* where it begins; else of the value that it is in */
};

/* A string of a safe call's arguments with `${…}` in it. */
struct template_part {
    struct str literal; /* absent: `value` stands here */
    const struct condition *value;
};

struct template
{
    const struct json *at; /* the string that it replaces */
    const struct template_part *parts;
    size_t count;
    const struct template *next; /* of the rule */
};

/* The text compiled into the document, or NULL after complaints at `v`.
 * `wants_bool`: it has to be one. */
const struct condition *read_condition(struct reader *r, const struct value *v, struct str text,
                                       bool wants_bool);
/* Splits a string at its expressions; false after complaints. *ret_parts NULL: it
 * has none. `$${` is `${`. */
bool read_template(struct reader *r, const struct value *v, struct str text, struct str *ret_plain,
                   const struct template_part **ret_parts, size_t *ret_count);
void conditions_fini(struct condition *all);

enum condition_result { CONDITION_FAILED, CONDITION_FALSE, CONDITION_TRUE };

/* `when`. Of a failure `ret_why` (may be NULL) tells, in the arena. A rule that restricts takes
 * roles ignoring case, and where that gives a person more of them it is asked a second time with
 * those that are exact: `!('finance' in roles)` is not escaped by another spelling either. */
enum condition_result condition_holds(struct ballot *b, const struct condition *c,
                                      struct str *ret_why);
/* Any value; false: it failed, *ret_why as above. */
bool condition_value(struct ballot *b, const struct condition *c, struct cel_value *ret,
                     struct str *ret_why);
/* Whether it may be another one with roles that are exact, where that gave them ignoring case; and
 * which. */
bool condition_has_two_answers(struct ballot *b, const struct condition *c);
bool condition_value_exactly(struct ballot *b, const struct condition *c, struct cel_value *ret);

/* Which parts of it decided, for people; values that are masked stay so.
 * False: nothing can be told. */
bool condition_trace(struct ballot *b, const struct condition *c, struct cel_trace *ret);
bool condition_reads_hidden(struct ballot *b, const struct condition *c); /* what is masked */

/* The rule's safe arguments for this request; NULL: an expression failed, *ret_why tells. */
const struct json *template_args(struct ballot *b, const struct rule *rule, struct str *ret_why);
/* The same `args` for records: an expression that reads what is masked gives
 * "[masked]". NULL: no memory. */
const struct json *template_told(struct ballot *b, const struct rule *rule,
                                 const struct json *args);
/* Whether one of the rule's templates does; reads the texts again, so it is asked once for a
 * set. */
bool templates_read_hidden(const struct policy_set *s, const struct rule *rule);

#endif
