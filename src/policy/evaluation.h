/* evaluation.h - inside of the room: the state of one evaluation, and its steps. */
#ifndef POLICY_EVALUATION_H
#define POLICY_EVALUATION_H

#include "base/check.h"
#include "policy/memory.h"

/* For each verdict the first vote: rule number × 2, plus 1 where its gate voted. */
struct tally {
    uint32_t first[4];
};

enum { NO_VOTE = UINT32_MAX };

enum { SEEN_INLINE = 64 }; /* a power of two: the size of the table before it needs the arena */

/* Numbers of rules, collected in the arena in any order; a rule may be in it several times. */
struct numbers {
    uint32_t *list;
    uint32_t count, room;
};

struct cel_value;

/* The two budgets for conditions (condition.h): for the decision, and for the reason and the sums
 * of limits. Shadow documents have an evaluation of their own, with the rest of both. */
enum budget { BUDGET_VOTES, BUDGET_REST, BUDGETS };

enum {
    RULE_COST = 20
}; /* the cost of a rule that is met, in the unit of conditions, without its condition */

/* How many rules have voted human_review, and whether the rules run once more to collect them. */
enum reviewers { REVIEWERS_ONE_AT_MOST, REVIEWERS_SEVERAL, REVIEWERS_COLLECTING };

/* The user's roles, found at the first use. FOLDED: there are more of them ignoring case. */
enum user_roles { USER_ROLES_UNKNOWN, USER_ROLES_EXACT, USER_ROLES_FOLDED };

struct evaluation {
    const struct policy_set *set;
    const struct rule_index *indexes[2]; /* whose rules vote; NULL: no more */
    const struct rule_index *index;      /* the current one */
    const struct policy_request *request;
    struct arena *arena;
    struct policy_memory *memory; /* or NULL */
    const struct name *subject;
    struct name *action; /* prepared at the first use: action_name() */
    bool action_ready;
    bool
        action_is_small; /* the action is plain and has no capitals; known before the name is prepared */
    struct name *resource; /* prepared at the first use */
    bool resource_ready;
    struct name *respelled; /* resource_plain, or NULL */
    bool confidence_used;   /* a gate that counts used the confidence */
    bool failed;            /* memory ran out: the outcome is deny */
    struct tally votes;

    uint32_t reviewer; /* the rule that voted human_review, or NO_RULE */
    enum reviewers reviewers_state;
    uint32_t skipped; /* the first rule that would allow, but its condition failed, or NO_RULE */
    struct numbers reviewers; /* collected in a second pass, if there are several */
    struct numbers approved;  /* with a vote or a limit that a person has let through */
    struct numbers limited;   /* that apply and have a limit */
    struct numbers broken;    /* that apply, or deny, because their condition failed */
    struct numbers computes;  /* that apply and have expressions in their safe arguments */

    struct cel_value *variables; /* of conditions, made for the first one */
    enum budget budget;          /* the budget that pays for conditions now */
    uint64_t steps;              /* of each budget, up to POLICY_STEPS_MAX */
    uint64_t spent[BUDGETS];     /* up to `steps` */
    bool exhausted[BUDGETS];     /* some condition was ended because the budget was spent */
    bool is_unpaid;              /* some condition was ended at its own bound */
    uint64_t met;                /* rules that the index proposed */
    uint32_t *seen; /* the same rules, each once: a hash table of number + 1; 0: free */
    uint32_t seen_count, seen_mask, seen_space[SEEN_INLINE];
    unsigned trace_runs; /* steps that an explanation may still use */

    enum user_roles user_roles;
    bool *roles_exact, *roles_folding;
    uint32_t *roles; /* numbers of those in roles_folding */
    size_t role_count;
};

/* evaluation_check.c: what is true at each step of an evaluation; */
void evaluation_check(const struct evaluation *b);
/* of every outcome that is returned; */
void outcome_check(const struct policy_outcome *o);
/* of every limit of an outcome; */
void limit_check(const struct policy_limit *l);
/* of the terms of every human_review; */
void terms_check(const struct policy_review *r);
/* of the assumptions. Constant time. */
void unknowns_check(const struct policy_unknowns *u);

/* match.c: the steps of "does this rule apply", separate because explain reports each of them. */
bool rule_matches_subject(struct evaluation *b, const struct set_rule *r);
bool rule_matches_action(struct evaluation *b, const struct rule *rule);
bool rule_matches_resource(struct evaluation *b, const struct rule *rule);
/* The action's name, prepared at the first call. If memory runs out, sets b->failed and returns an
 * unusable name. */
const struct name *action_name(struct evaluation *b);
bool roles_find(struct evaluation *b); /* b->roles…; false: memory ran out */
/* b->resource and b->respelled, prepared at the first call; false: the request names none, or
 * memory ran out. Restricting rules compare both. */
bool resource_find(struct evaluation *b);
/* A resource without a type or an id counts as not named, so a bare id does not escape
 * `db:prod-*`. */
bool names_no_resource(const struct evaluation *b);

/* evaluation.c: all votes of the rules in b->indexes, into b->votes. */
void evaluation_take_votes(struct evaluation *b);
/* Runs the rules again, to collect every reviewer in b->reviewers. */
void evaluation_collect_reviewers(struct evaluation *b);
/* Whether the gate of a rule that applies votes, and its vote. */
bool gate_votes(const struct evaluation *b, const struct set_rule *r, enum verdict *ret);
/* The strictest verdict with a vote; false: there is no vote. */
bool tally_strictest(const struct tally *t, enum verdict *ret);
struct tally tally_joined(const struct tally *a, const struct tally *b);
void numbers_add(struct evaluation *b, struct numbers *n, uint32_t number); /* or b->failed */
void numbers_sort(struct numbers *n); /* then each is in it once */

static inline void rule_text(char to[POLICY_RULE_TEXT], struct str kind, struct str id)
{
    check(kind.size + id.size < POLICY_RULE_TEXT);
    memcpy(to, kind.bytes, kind.size);
    memcpy(to + kind.size, id.bytes, id.size);
    to[kind.size + id.size] = '\0';
}

/* outcome.c: a deny without details; the outcome if the arena was full or a budget was spent. */
void outcome_clear(struct policy_outcome *o);
void outcome_failed(struct policy_outcome *o);
void outcome_exhausted(const struct evaluation *b, struct policy_outcome *o);
/* What the conditions of a decision may cost. */
uint64_t steps_of(const struct policy_request *q);
/* The parts joined, in the arena; "" and b->failed: memory ran out. */
struct str reason_sentence(struct evaluation *b, const struct str *parts, size_t count);
/* Why a gate voted as it did. */
struct str gate_reason(struct evaluation *b, const struct rule *rule, enum verdict vote);

/* approved.c: whether people have approved this vote, as the rule requires now; whether they have
 * approved this request beyond the rule's limit. */
bool is_approved(const struct policy_request *q, enum policy_vote_kind kind,
                 const struct rule *rule);
bool limit_is_lifted(const struct evaluation *b, const struct set_rule *r);
/* review.c: the review terms if the human_review votes of these (sorted) rules decide, approved
 * votes included; or, if all are approved, the terms that were approved and that a new review
 * would have again. */
void outcome_review(struct evaluation *b, const struct numbers *rules, struct policy_review *ret);
/* Adds a vote and the requirement of its rule; false: the arena is full. */
bool review_add(struct policy_review *review, struct policy_vote vote,
                const struct review_terms *terms, struct arena *arena);

/* limit.c: the limits that the outcome counts, of the rules in b->limited. */
void outcome_limits(struct evaluation *b, struct policy_outcome *o);
/* The first of an outcome's limits that the request exceeds by itself; NULL: none. For requests
 * that are not counted. */
const struct policy_limit *limit_over_by_itself(const struct policy_outcome *o);
/* This request's amount for the limit's sum, in millionths; -1: no valid amount. */
int64_t limit_amount(struct evaluation *b, const struct limit_terms *t);

/* unknown.c: whether the request's resource was cut (false without `unknowns`); and whether it is
 * assumed to match the rule's resources. */
bool unknown_is_resource_cut(const struct policy_request *q);
bool unknown_matches_resource(struct evaluation *b, const struct rule *rule);
/* Whether the number that the limit adds up was cut (false without `unknowns`). */
bool unknown_is_sum_cut(struct evaluation *b, const struct limit_terms *t);
/* Whether the limit is assumed to be over; the text has all that its result depends on. */
bool unknown_is_over(struct policy_unknowns *u, const struct policy_limit *l, struct str text);

/* explain.c: explains each rule, and, for an outcome that is no allow, the votes against it. */
void explain_rules(struct evaluation *b, const struct policy_outcome *o,
                   const struct policy_explain *explain);

#endif
