/* ballot.h - inside of the room: one evaluation's state, and the steps that are taken on it. */
#ifndef POLICY_BALLOT_H
#define POLICY_BALLOT_H

#include "base/check.h"
#include "policy/memory.h"

/* For each verdict the first vote: rule number × 2, plus 1 where its gate voted. */
struct tally {
    uint32_t first[4];
};

enum { NO_VOTE = UINT32_MAX };

enum { SEEN_INLINE = 64 }; /* a power of two: a table without asking the arena */

/* Numbers of rules, collected in the arena in any order; a rule can be there more than once. */
struct numbers {
    uint32_t *list;
    uint32_t count, room;
};

struct cel_value;

/* What pays for conditions (condition.h): for what decides, and for the reason and the sums of
 * limits. What shadow documents would do has a ballot with purses of its own. */
enum purse { PURSE_VOTES, PURSE_REST, PURSES };

enum { RULE_COST = 20 }; /* of one that is met, beside its condition, in what conditions cost */

struct ballot {
    const struct policy_set *set;
    const struct rule_index *indexes[2]; /* whose rules vote; NULL: no more */
    const struct rule_index *index;      /* the one that is asked now */
    const struct policy_request *request;
    struct arena *arena;
    struct policy_memory *memory; /* or NULL */
    const struct name *subject;
    struct name *action; /* prepared when the first one asks: action_name() */
    bool action_ready;
    bool action_is_small;  /* it is plain and has no capitals: known before it is prepared */
    struct name *resource; /* prepared when the first rule asks */
    bool resource_ready;
    struct name *respelled; /* resource_plain, or NULL */
    bool confidence_used;   /* a gate that counts looked at it */
    bool failed;            /* memory ran out: the outcome is deny */
    struct tally votes;

    uint32_t reviewer; /* the rule that voted human_review, or NO_RULE */
    bool several_reviewers;
    bool collecting;
    uint32_t skipped; /* the first rule that would allow but for its condition, which failed,
                               * or NO_RULE */
    struct numbers reviewers; /* collected in a second pass, where there are several */
    struct numbers approved;  /* with a vote or a limit that a person has let through */
    struct numbers limited;   /* that apply and have a limit */
    struct numbers broken;    /* that apply, or deny, because their condition failed */
    struct numbers computes;  /* that apply and have expressions in their safe arguments */

    struct cel_value *variables; /* of conditions, made when the first one asks */
    enum purse purse;            /* that conditions are paid from now */
    uint64_t spent[PURSES];      /* up to DECISION_COST_MAX */
    bool exhausted[PURSES];      /* some condition was not run to its end for it */
    bool is_unpaid;              /* or for what it costs by itself */
    uint64_t met;                /* rules that the index proposed */
    uint32_t *seen;              /* these, each once: a hash table of number + 1; 0: free */
    uint32_t seen_count, seen_mask, seen_space[SEEN_INLINE];
    unsigned trace_runs; /* parts of conditions that an explanation may still run */

    bool roles_ready;  /* the user's roles, found when the first rule asks */
    bool roles_differ; /* more of them ignoring case */
    bool *roles_exact, *roles_folding;
    uint32_t *roles; /* numbers of those in roles_folding */
    size_t role_count;
};

/* match.c: the steps of "does this rule apply", as explain tells them apart. */
bool rule_matches_subject(struct ballot *b, const struct set_rule *r);
bool rule_matches_action(struct ballot *b, const struct rule *rule);
bool rule_matches_resource(struct ballot *b, const struct rule *rule);
/* The action's, prepared when asked for first; where memory runs out b->failed, and a name that
 * means nothing. */
const struct name *action_name(struct ballot *b);
bool roles_find(struct ballot *b); /* b->roles…; false: memory ran out */
/* b->resource and b->respelled, prepared when asked for first; false: none is named, or memory ran
 * out. What restricts looks at both. */
bool resource_find(struct ballot *b);
/* Without a type or an id it is not named either: nobody slips past `db:prod-*` by a bare id. */
bool names_no_resource(const struct ballot *b);

/* ballot.c: all votes of the rules in b->indexes, into b->votes. */
void ballot_take_votes(struct ballot *b);
/* Asks the index again, now to have every reviewer in b->reviewers. */
void ballot_collect_reviewers(struct ballot *b);
/* Whether the gate of a rule that applies votes, and what. */
bool gate_votes(const struct ballot *b, const struct set_rule *r, enum verdict *ret);
/* The strictest verdict that has a vote; false: none has. */
bool tally_strictest(const struct tally *t, enum verdict *ret);
struct tally tally_joined(const struct tally *a, const struct tally *b);
void numbers_add(struct ballot *b, struct numbers *n, uint32_t number); /* or b->failed */
void numbers_sort(struct numbers *n); /* each is there once then */

static inline void rule_text(char to[POLICY_RULE_TEXT], struct str kind, struct str id)
{
    check(kind.size + id.size < POLICY_RULE_TEXT);
    memcpy(to, kind.bytes, kind.size);
    memcpy(to + kind.size, id.bytes, id.size);
    to[kind.size + id.size] = '\0';
}

/* outcome.c: deny, and nothing said; and what an outcome is where the arena was
 * full, or a purse was spent. */
void outcome_clear(struct policy_outcome *o);
void outcome_failed(struct policy_outcome *o);
void outcome_exhausted(struct policy_outcome *o);
/* The parts one behind the other in the arena; "" and b->failed: memory ran out. */
struct str reason_sentence(struct ballot *b, const struct str *parts, size_t count);
/* Why a gate voted as it did. */
struct str gate_reason(struct ballot *b, const struct rule *rule, enum verdict vote);

/* approved.c: whether people have approved this vote of the rule, as many and such as it asks now;
 * whether they have let this request over its limit. */
bool is_approved(const struct policy_request *q, enum policy_vote_kind kind,
                 const struct rule *rule);
bool limit_is_lifted(const struct ballot *b, const struct set_rule *r);
/* review.c: what people are asked where the human_review votes of these (sorted) rules decide,
 * those that were approved already among them; or, where all were, what they have been asked
 * and would be asked again. */
void outcome_review(struct ballot *b, const struct numbers *rules, struct policy_review *ret);
/* Adds a vote and what its rule asks; false: the arena is full. */
bool review_add(struct policy_review *review, struct policy_vote vote,
                const struct review_terms *terms, struct arena *arena);

/* limit.c: what the outcome counts, of the rules in b->limited. */
void outcome_limits(struct ballot *b, struct policy_outcome *o);
/* The first of an outcome's limits that is over whatever was counted before; NULL: none is.
 * For what nobody will count. */
const struct policy_limit *limit_over_by_itself(const struct policy_outcome *o);
/* What this request adds to the limit's sum, in millionths; -1: nothing that could be added. */
int64_t limit_amount(struct ballot *b, const struct limit_terms *t);

/* explain.c: tells of each rule, and of an outcome that is no allow what stands in its way. */
void explain_rules(struct ballot *b, const struct policy_outcome *o,
                   const struct policy_explain *explain);

#endif
