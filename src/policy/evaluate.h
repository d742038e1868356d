/* evaluate.h - inside of the room: one evaluation's state, shared by evaluate.c and explain.c. */
#ifndef POLICY_EVALUATE_H
#define POLICY_EVALUATE_H

#include "policy/set.h"

/* For each verdict the first vote: rule number × 2, plus 1 where its gate voted. */
struct tally {
    uint32_t first[4];
};

enum { NO_VOTE = UINT32_MAX };

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
    uint32_t *reviewers; /* collected in a second pass, where there are several */
    size_t reviewer_count, reviewer_room;
    bool collecting;

    bool roles_ready; /* the user's roles, found when the first rule asks */
    bool *roles_exact, *roles_folding;
    uint32_t *roles; /* numbers of those in roles_folding */
    size_t role_count;
};

/* The steps of "does this rule apply", as explain tells them apart. */
bool rule_matches_subject(struct ballot *b, const struct set_rule *r);
bool rule_matches_action(const struct ballot *b, const struct rule *rule);
bool rule_matches_resource(struct ballot *b, const struct rule *rule);

/* Whether the gate of a rule that applies votes, and what. */
bool gate_votes(const struct ballot *b, const struct set_rule *r, enum verdict *ret);
/* Why: a sentence in the arena. */
struct str gate_reason(struct ballot *b, const struct rule *rule, enum verdict vote);

void explain_rules(struct ballot *b, const struct policy_explain *explain);

#endif
