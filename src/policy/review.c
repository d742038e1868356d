/* review.c - the review terms if rules vote human_review.
 *
 * The terms name every such vote, so that an approval later covers exactly these votes. Every rule
 * behind a vote adds a requirement, and all requirements must be met; the shortest times and the
 * strictest proof apply.
 * Consecutive rules with the same roles appear once in the text. */
#include "policy/evaluation.h"

const char *policy_proof_name(enum policy_proof p)
{
    static const char *const names[POLICY_PROOFS] = {
        [POLICY_PROOF_ANY] = "any", [POLICY_PROOF_OIDC] = "oidc"};
    check(p < POLICY_PROOFS);
    return names[p];
}

static void join_times(struct policy_review *into, const struct review_terms *t)
{
    check(t->approvals > 0 && t->expires_in_ms > 0 && t->good_for_ms > 0);
    bool first = into->requirement_count == 0;
    if (t->approvals > into->approvals) into->approvals = t->approvals;
    if (t->proof > into->proof) into->proof = t->proof;
    if (first || t->expires_in_ms < into->expires_in_ms) into->expires_in_ms = t->expires_in_ms;
    if (first || t->good_for_ms < into->good_for_ms) into->good_for_ms = t->good_for_ms;
    if (t->remind_ms != 0 && (into->remind_ms == 0 || t->remind_ms < into->remind_ms))
        into->remind_ms = t->remind_ms;
}

/* Adds the rule's channels that are not there yet. */
static void join_channels(struct policy_review *into, struct str *list,
                          const struct review_terms *t)
{
    for (size_t i = 0; i < t->notify_count; i++) {
        size_t at = 0;
        while (at < into->notify_count && !str_equal(list[at], t->notify[i])) at++;
        if (at == into->notify_count && at < POLICY_CHANNELS_MAX)
            list[into->notify_count++] = t->notify[i];
    }
    into->notify = list;
    check(into->notify_count <= POLICY_CHANNELS_MAX);
}

static size_t channels_most(size_t before, size_t more)
{
    return before + more < POLICY_CHANNELS_MAX ? before + more : POLICY_CHANNELS_MAX;
}

static struct policy_requirement requirement_of(const struct review_terms *t, size_t vote)
{
    return (struct policy_requirement){.approvals = t->approvals,
                                       .by = t->by,
                                       .by_count = t->by_count,
                                       .proof = t->proof,
                                       .vote = (unsigned)vote + 1};
}

/* "finance, legal; cfo". False: the arena is full. */
static bool join_by(struct evaluation *b, const struct numbers *rules, struct str *ret)
{
    size_t size = 0;
    for (size_t i = 0; i < rules->count; i++)
        size += b->set->rules[rules->list[i]].rule->review.by_text.size + 2;
    char *bytes = arena_bytes(b->arena, size + 1);
    if (bytes == NULL) return false;
    struct buf by = buf_over(bytes, size + 1);
    struct str last = {0};
    for (size_t i = 0; i < rules->count; i++) {
        struct str text = b->set->rules[rules->list[i]].rule->review.by_text;
        if (str_is_absent(text) || str_equal(text, last)) continue;
        if (by.size > 0) buf_put_literal(&by, "; ");
        buf_put(&by, text);
        last = text;
    }
    check(!by.overflow);
    if (by.size > 0) *ret = buf_view(&by);
    return true;
}

/* The human_review votes of one rule, open or approved. A limit's vote is added only if it was
 * approved, because an open one is not known before the limit is counted. */
static size_t votes_of(const struct evaluation *b, const struct set_rule *r,
                       struct policy_vote votes[3])
{
    const struct rule *rule = r->rule;
    struct policy_vote v = {.policy_name = rule->document->name, .rule_id = rule->id};
    size_t count = 0;
    enum verdict gate;
    v.kind = VOTE_RULE;
    if (rule->decision == VERDICT_HUMAN_REVIEW) votes[count++] = v;
    v.kind = VOTE_GATE;
    if (gate_votes(b, r, &gate) && gate == VERDICT_HUMAN_REVIEW) votes[count++] = v;
    v.kind = VOTE_LIMIT;
    if (limit_is_lifted(b, r)) votes[count++] = v;
    check(count <= 3);
    return count;
}

void outcome_review(struct evaluation *b, const struct numbers *rules, struct policy_review *ret)
{
    size_t count = rules->count;
    *ret = (struct policy_review){0};
    struct policy_requirement *requirements =
        arena_array(b->arena, struct policy_requirement, count);
    struct policy_vote *votes = arena_array(b->arena, struct policy_vote, count * 3);
    size_t channels = 0;
    for (size_t i = 0; i < count; i++)
        channels += b->set->rules[rules->list[i]].rule->review.notify_count;
    struct str *notify = arena_array(b->arena, struct str, channels_most(channels, 0) + 1);
    if (requirements == NULL || votes == NULL || notify == NULL) {
        b->failed = true;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const struct set_rule *r = &b->set->rules[rules->list[i]];
        join_times(ret, &r->rule->review);
        join_channels(ret, notify, &r->rule->review);
        requirements[ret->requirement_count++] = requirement_of(&r->rule->review, ret->vote_count);
        ret->vote_count += votes_of(b, r, votes + ret->vote_count);
    }
    ret->requirements = requirements;
    ret->votes = votes;
    check(ret->requirement_count == count && ret->vote_count <= count * 3);
    terms_check(ret);
    if (count == 1)
        ret->by = b->set->rules[rules->list[0]].rule->review.by_text;
    else
        b->failed |= !join_by(b, rules, &ret->by);
}

bool review_add(struct policy_review *review, struct policy_vote vote,
                const struct review_terms *terms, struct arena *arena)
{
    struct policy_requirement *requirements =
        arena_array(arena, struct policy_requirement, review->requirement_count + 1);
    struct policy_vote *votes = arena_array(arena, struct policy_vote, review->vote_count + 1);
    struct str *notify = arena_array(arena, struct str,
                                     channels_most(review->notify_count, terms->notify_count) + 1);
    struct str by = review->by;
    if (str_is_absent(by))
        by = terms->by_text;
    else if (!str_is_absent(terms->by_text) && !str_equal(by, terms->by_text))
        by = arena_printf(arena, "%.*s; %.*s", STR_FORMAT(by), STR_FORMAT(terms->by_text));
    if (requirements == NULL || votes == NULL || notify == NULL || arena->overflow) return false;
    if (review->requirement_count > 0)
        memcpy(requirements, review->requirements,
               review->requirement_count * sizeof *requirements);
    if (review->vote_count > 0) memcpy(votes, review->votes, review->vote_count * sizeof *votes);
    if (review->notify_count > 0)
        memcpy(notify, review->notify, review->notify_count * sizeof *notify);
    join_times(review, terms);
    join_channels(review, notify, terms);
    requirements[review->requirement_count++] = requirement_of(terms, review->vote_count);
    votes[review->vote_count++] = vote;
    review->requirements = requirements;
    review->votes = votes;
    review->by = by;
    terms_check(review);
    return true;
}
