/* evaluate.h - inside of the room: one evaluation's state, shared by evaluate.c and explain.c. */
#ifndef POLICY_EVALUATE_H
#define POLICY_EVALUATE_H

#include "base/check.h"
#include "policy/set.h"

/* For each verdict the first vote: rule number × 2, plus 1 where its gate voted. */
struct tally {
    uint32_t first[4];
};

enum { NO_VOTE = UINT32_MAX };

/* Numbers of rules, collected in the arena in any order; a rule can be there more than once. */
struct numbers {
    uint32_t *list;
    uint32_t count, room;
};

struct cel_value;

/* What pays for conditions (condition.h): for what decides, for what shadow documents would, and for
 * the reason and the sums of limits. */
enum purse { PURSE_VOTES, PURSE_SHADOW, PURSE_REST, PURSES };

enum { RULE_COST = 20 }; /* of one that is met, beside its condition, in what conditions cost */

struct ballot {
    const struct policy_set *set;
    const struct policy_request *request;
    struct arena *arena;
    const struct name *action, *subject;
    struct name *resource; /* prepared when the first rule asks */
    bool resource_ready;
    bool confidence_used; /* a gate that counts looked at it */
    bool failed;          /* memory ran out: the outcome is deny */
    struct tally enforced, shadow;

    uint32_t reviewer; /* the rule that voted human_review, or NO_RULE */
    bool several_reviewers;
    bool collecting;
    struct numbers reviewers; /* collected in a second pass, where there are several */
    struct numbers approved;  /* with a vote or a limit that a person has let through */
    struct numbers limited;   /* that apply and have a limit */
    struct numbers broken;    /* that apply, or deny, because their condition failed */

    struct cel_value *variables; /* of conditions, made when the first one asks */
    enum purse purse;            /* that conditions are paid from now */
    uint64_t spent[PURSES];      /* up to DECISION_COST_MAX */
    bool exhausted[PURSES];      /* some condition was not run to its end for it */
    uint64_t met;                /* rules that the index proposed */
    unsigned trace_runs;         /* parts of conditions that an explanation may still run */

    bool roles_ready;  /* the user's roles, found when the first rule asks */
    bool roles_differ; /* more of them ignoring case */
    bool *roles_exact, *roles_folding;
    uint32_t *roles; /* numbers of those in roles_folding */
    size_t role_count;
};

/* The steps of "does this rule apply", as explain tells them apart. */
bool rule_matches_subject(struct ballot *b, const struct set_rule *r);
bool rule_matches_action(const struct ballot *b, const struct rule *rule);
bool rule_matches_resource(struct ballot *b, const struct rule *rule);
bool roles_find(struct ballot *b); /* b->roles…; false: memory ran out */

/* Whether the gate of a rule that applies votes, and what. */
bool gate_votes(const struct ballot *b, const struct set_rule *r, enum verdict *ret);
/* Why: a sentence in the arena. */
struct str gate_reason(struct ballot *b, const struct rule *rule, enum verdict vote);

void numbers_sort(struct numbers *n); /* each is there once then */

/* Whether people have approved this vote of the rule, as many and such as it asks now. */
bool is_approved(const struct policy_request *q, enum policy_vote_kind kind,
                 const struct rule *rule);

static inline void rule_text(char to[POLICY_RULE_TEXT], struct str kind, struct str id)
{
    check(kind.size + id.size < POLICY_RULE_TEXT);
    memcpy(to, kind.bytes, kind.size);
    memcpy(to + kind.size, id.bytes, id.size);
    to[kind.size + id.size] = '\0';
}

/* What an outcome is where the arena was full. */
void outcome_failed(struct policy_outcome *o);

/* review.c: what people are asked where the human_review votes of these (sorted) rules decide, those that
 * were approved already among them; or, with `approved`, what people have been asked already and would be asked again. */
void outcome_review(struct ballot *b, const struct numbers *rules, bool approved,
                    struct policy_review *ret);
/* Adds a vote and what its rule asks; false: the arena is full. */
bool review_add(struct policy_review *review, struct policy_vote vote,
                const struct review_terms *terms, struct arena *arena);

/* limit.c: whether people have let this request over the rule's limit; and what the outcome counts, of the rules
 * in b->limited. */
bool limit_is_lifted(const struct ballot *b, const struct set_rule *r);
void outcome_limits(struct ballot *b, struct policy_outcome *o);
/* Of an outcome whose limits nobody will count: the first that is over whatever was counted before decides. */
void outcome_over_by_itself(struct policy_outcome *o, struct arena *arena);
/* What this request adds to the limit's sum, in millionths; -1: nothing that could be added. */
int64_t limit_amount(struct ballot *b, const struct limit_terms *t);

/* mask.c: whether the path (segments[0] is args, context, resource or request; an absent one is any
 * key) leads to something masked, or holds it. */
bool mask_hides(const struct policy_set *s, const struct str *segments, size_t count);

/* explain.c: tells of each rule, and of an outcome that is no allow what stands in its way. */
void explain_rules(struct ballot *b, const struct policy_outcome *o, const struct policy_explain *explain);

#endif
