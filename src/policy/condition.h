/* condition.h - inside of the room: CEL in documents (`when`, `${…}`, `sum`), compiled at
 * load and run with a request.
 *
 * A condition that cannot be evaluated is not false. The rule's decision defines its meaning: a
 * deny or human_review applies, a compute is a deny, an allow is skipped. The variables are made
 * once for a request, when the first condition runs.
 *
 * Each evaluation has a budget, and so have all evaluations of one decision together, over rules
 * and passes (policy_request.steps). Otherwise many rules that stay below their own bound could
 * block a reactor. When the budget is spent, no condition runs any more, and the decision is a deny
 * (evaluate.c). Shadow documents have memory of their own and the rest of the budgets, because they
 * must not change the decision. A second budget of the same size is for the reason and for the sums of limits, which depend on the outcome: a
 * higher confidence must not be stricter because it has more of them. An amount that cannot be
 * computed is over the limit. */
#ifndef POLICY_CONDITION_H
#define POLICY_CONDITION_H

#include "cel/trace.h"
#include "policy/reader.h"

enum {
    CONDITION_CHARACTERS_MAX = 8000,
    CONDITION_COST_MAX = 100000, /* about a millisecond, two for the worst case of a search */
    TEMPLATE_PARTS_MAX = 16,
};

struct evaluation;

struct condition {
    struct cel_program *program;
    struct str text;
    struct condition *next; /* of the document: programs are freed with it */
    bool folds;             /* of its rule: whether `roles` compares members ignoring case */
    bool is_in_line;        /* the document has its first line exactly as it was read: */
    unsigned line, column;  /* the position of its beginning; else of the value that contains it */
};

/* A string of a safe call's arguments with `${…}` in it. */
struct template_part {
    struct str literal; /* absent: this part is `value` */
    const struct condition *value;
};

struct template
{
    const struct json *at; /* the string that it replaces */
    const struct template_part *parts;
    size_t count;
    const struct template *next; /* of the rule */
};

/* Of every compiled one. */
void condition_check(const struct condition *c);

/* Compiles the text into the document; NULL: problems were added at `v`. `wants_bool`: the result
 * must be a bool. */
const struct condition *read_condition(struct reader *r, const struct value *v, struct str text,
                                       bool wants_bool);
/* Splits a string at its expressions; false: problems were added. *ret_parts NULL: the string has
 * no expression. `$${` is `${`. */
bool read_template(struct reader *r, const struct value *v, struct str text, struct str *ret_plain,
                   const struct template_part **ret_parts, size_t *ret_count);
void conditions_fini(struct condition *all);

enum condition_result { CONDITION_FAILED, CONDITION_FALSE, CONDITION_TRUE };

/* Evaluates `when`. After a failure `ret_why` (may be NULL) has the reason, in the arena. A rule
 * that restricts compares roles ignoring case. If that gives a person more roles, the condition
 * also runs with the exact roles, so that another spelling does not escape `!('finance' in roles)`
 * either. */
enum condition_result condition_holds(struct evaluation *b, const struct condition *c,
                                      struct str *ret_why);
/* unknown.c, for a request with `unknowns`: the result of the rule's condition, known or assumed. */
enum condition_result unknown_holds(struct evaluation *b, const struct rule *rule);
/* The same: notes whether these safe arguments (NULL: they cannot be made) read a cut value. */
void unknown_args(struct evaluation *b, const struct rule *rule, const struct json *args);
/* Evaluates to any value; false: it failed, *ret_why as above. */
bool condition_value(struct evaluation *b, const struct condition *c, struct cel_value *ret,
                     struct str *ret_why);
/* Whether the value may differ with exact roles, after an evaluation ignoring case; and that
 * value. */
bool condition_has_two_answers(struct evaluation *b, const struct condition *c);
bool condition_value_exactly(struct evaluation *b, const struct condition *c,
                             struct cel_value *ret);

/* The parts of the condition that decided, for people; masked values stay masked. False: no text. */
bool condition_trace(struct evaluation *b, const struct condition *c, struct cel_trace *ret);
bool condition_reads_hidden(struct evaluation *b, const struct condition *c); /* the masks */

/* The rule's safe arguments for this request; NULL: an expression failed, *ret_why has the reason. */
const struct json *template_args(struct evaluation *b, const struct rule *rule,
                                 struct str *ret_why);
/* The same `args` for records: an expression that reads a masked value gives "[masked]". NULL: no
 * memory. */
const struct json *template_told(struct evaluation *b, const struct rule *rule,
                                 const struct json *args);
/* Whether one of the rule's templates reads a masked value. It parses the texts again, so it is
 * called once for a set. */
bool templates_read_hidden(const struct policy_set *s, const struct rule *rule);

#endif
