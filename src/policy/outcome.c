/* outcome.c - outcomes without a vote, and the sentences of all outcomes. They are built without
 * printf, because this is on the hot path. */
#include "policy/evaluation.h"

const char *verdict_name(enum verdict v)
{
    switch (v) {
    case VERDICT_DENY: return "deny";
    case VERDICT_HUMAN_REVIEW: return "human_review";
    case VERDICT_COMPUTE: return "compute";
    case VERDICT_ALLOW: return "allow";
    }
    return "deny";
}

void outcome_clear(struct policy_outcome *o)
{
    *o = (struct policy_outcome){.verdict = VERDICT_DENY};
}

void outcome_failed(struct policy_outcome *o)
{
    outcome_clear(o);
    rule_text(o->rule, STR("default:"), STR("deny"));
    o->reason = STR("There was not enough memory to decide, so it is denied.");
    outcome_check(o);
}

void outcome_exhausted(const struct evaluation *b, struct policy_outcome *o)
{
    outcome_clear(o);
    rule_text(o->rule, STR("default:"), STR("deny"));
    o->reason = arena_printf(b->arena,
                             "The conditions of all rules for this request together cost more than "
                             "one decision may (%llu steps, policy.steps), so it is denied.",
                             (unsigned long long)b->steps);
    if (str_is_absent(o->reason)) outcome_failed(o);
    outcome_check(o);
}

uint64_t steps_of(const struct policy_request *q)
{
    const uint64_t steps = q->steps == 0 ? POLICY_STEPS_DEFAULT : q->steps;
    return steps < POLICY_STEPS_MAX ? steps : POLICY_STEPS_MAX;
}

/* ---- sentences ---- */

struct str reason_sentence(struct evaluation *b, const struct str *parts, size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++) size += parts[i].size;
    char *bytes = arena_bytes(b->arena, size + 1);
    if (bytes == NULL) {
        b->failed = true;
        return STR("");
    }
    struct buf out = buf_over(bytes, size + 1);
    for (size_t i = 0; i < count; i++) buf_put(&out, parts[i]);
    check(!out.overflow && out.size == size);
    return buf_view(&out);
}

struct str gate_reason(struct evaluation *b, const struct rule *rule, enum verdict vote)
{
    const struct gate *g = rule->gate;
    check(g != NULL && vote != VERDICT_COMPUTE);
    if (!b->request->has_confidence) {
        struct str parts[] = {STR("No confidence was given, and rule "), rule->id,
                              STR(" asks for one.")};
        return reason_sentence(b, parts, 3);
    }
    bool is_review = vote == VERDICT_HUMAN_REVIEW, is_allow = vote == VERDICT_ALLOW;
    struct str parts[] = {is_allow ? STR("The confidence reaches allow_at ")
                                   : STR("The confidence is below "),
                          is_allow    ? STR("(")
                          : is_review ? STR("allow_at (")
                                      : STR("review_at ("),
                          is_review || is_allow ? g->allow_at_text : g->review_at_text,
                          STR(") of rule "),
                          rule->id,
                          STR(".")};
    return reason_sentence(b, parts, 6);
}
