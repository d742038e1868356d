/* evaluate.c - one request, one set, one outcome.
 *
 *   scopes → votes of the rules the index proposes, each with its gate (ballot.c) → the strictest vote
 *          → compute: votes on the safe call → outcome, with what it counts (limit.c), what people
 *            are asked (review.c), and what shadow documents would change */
#include "policy/ballot.h"

#include "policy/condition.h"

static struct str kind_of(enum verdict v, bool gate)
{
    if (gate) return STR("gate:");
    switch (v) {
    case VERDICT_DENY: return STR("deny:");
    case VERDICT_HUMAN_REVIEW: return STR("review:");
    case VERDICT_COMPUTE: return STR("compute:");
    case VERDICT_ALLOW: return STR("allow:");
    }
    return STR("deny:");
}

/* ---- from votes to an outcome ---- */

/* What a tally comes to, before it is told to anyone. */
struct result {
    enum verdict verdict;
    uint32_t key;      /* the vote that decides, or NO_VOTE: default:deny */
    bool unsafe;       /* a compute whose safe call is not permitted: deny */
    struct str broken; /* or whose safe arguments cannot be made, and why; absent: they can */
    const struct json *safe_args; /* of a compute */
    uint32_t unsafe_key;          /* by this vote */
};

/* By what rule the safe arguments cannot be made, and why. */
static struct result broken_compute(uint32_t key, struct str why)
{
    return (struct result){.verdict = VERDICT_DENY, .key = key, .unsafe = true, .broken = why};
}

/* The safe call of the first compute vote is asked about once, as the same subject, on the same
 * resource; silence is consent here, because the compute rule has spoken for it.
 *
 * A compute whose safe call is not permitted counts as a deny beside a human_review, too: else a
 * gate that asks a person at a low confidence would be looser than the deny at a high one. (And
 * a person's approval could not make the call safe.) */
static void check_safe_call(struct ballot *b, uint32_t key, bool with_shadow, struct result *r)
{
    const struct rule *rule = b->set->rules[key / 2].rule;
    struct name tool;
    struct str why;
    b->purse = with_shadow ? PURSE_SHADOW : PURSE_VOTES;
    const struct json *args = template_args(b, rule, &why);
    if (args == NULL) {
        b->purse = PURSE_VOTES;
        *r = broken_compute(key, why);
        return;
    }
    r->safe_args = args;
    struct policy_request request = *b->request;
    request.action = rule->safe_tool;
    request.args = args;
    request.approved_count = 0; /* people have approved what was asked for, not what replaces it */
    struct ballot safe = *b;
    safe.request = &request;
    safe.action = &tool;
    safe.action_ready = false;
    safe.variables = NULL; /* other arguments, other conditions */
    safe.approved = safe.limited = safe.broken = safe.computes =
        (struct numbers){0}; /* not the safe call's, and not to b's lists */
    ballot_take_votes(&safe);
    memcpy(b->spent, safe.spent, sizeof b->spent);
    b->met = safe.met;
    memcpy(b->exhausted, safe.exhausted, sizeof b->exhausted);
    b->purse = PURSE_VOTES;
    struct tally t = with_shadow ? tally_joined(&safe.enforced, &safe.shadow) : safe.enforced;
    enum verdict v;
    if (tally_strictest(&t, &v) && v <= VERDICT_HUMAN_REVIEW)
        *r = (struct result){
            .verdict = VERDICT_DENY, .key = key, .unsafe = true, .unsafe_key = t.first[v]};
    b->failed |= safe.failed;
    if (!with_shadow) b->confidence_used |= safe.confidence_used;
}

/* The others are not what is done instead; but one whose expressions cannot be evaluated is a deny,
 * as one whose condition cannot be is. */
static void check_other_computes(struct ballot *b, uint32_t key, bool with_shadow, struct result *r)
{
    struct str why;
    b->purse = with_shadow ? PURSE_SHADOW : PURSE_VOTES;
    numbers_sort(&b->computes);
    for (uint32_t i = 0; i < b->computes.count && r->verdict != VERDICT_DENY; i++) {
        uint32_t number = b->computes.list[i];
        const struct set_rule *other = &b->set->rules[number];
        if (number == key / 2 || (other->shadow && !with_shadow)) continue;
        if (template_args(b, other->rule, &why) == NULL) *r = broken_compute(number * 2, why);
    }
    b->purse = PURSE_VOTES;
}

static struct result result_of(struct ballot *b, const struct tally *t, bool with_shadow)
{
    struct result r = {.verdict = VERDICT_DENY, .key = NO_VOTE};
    if (!tally_strictest(t, &r.verdict)) return r;
    r.key = t->first[r.verdict];
    uint32_t compute = t->first[VERDICT_COMPUTE];
    if (compute == NO_VOTE || r.verdict == VERDICT_DENY) return r;
    check_safe_call(b, compute, with_shadow, &r);
    if (b->computes.count > 0) check_other_computes(b, compute, with_shadow, &r);
    return r;
}

static void result_rule(const struct policy_set *s, const struct result *r,
                        char to[POLICY_RULE_TEXT], struct str *ret_policy)
{
    if (r->key == NO_VOTE) {
        rule_text(to, STR("default:"), STR("deny"));
        *ret_policy = (struct str){0};
        return;
    }
    const struct set_rule *rule = &s->rules[r->key / 2]; /* of rule->rule nothing is needed */
    /* A compute that denies could not be evaluated, or its safe call is not permitted. */
    bool replaced =
        rule->decision == VERDICT_COMPUTE && r->verdict == VERDICT_DENY && (r->key & 1) == 0;
    rule_text(to, replaced ? STR("compute:") : kind_of(r->verdict, r->key & 1),
              told_id(rule->told));
    *ret_policy = s->documents[rule->document].document->name;
}

static bool is_broken(const struct ballot *b, uint32_t number)
{
    for (uint32_t i = 0; i < b->broken.count; i++)
        if (b->broken.list[i] == number) return true;
    return false;
}

static struct str silence_reason(struct ballot *b)
{
    struct str sentence = STR("No rule of any policy applies, so it is denied."), why;
    if (b->skipped == NO_RULE) return sentence;
    const struct rule *rule = b->set->rules[b->skipped].rule;
    b->purse = PURSE_REST;
    if (condition_holds(b, rule->when, &why) != CONDITION_FAILED) return sentence;
    struct str parts[] = {sentence, STR(" The condition of rule "),
                          rule->id, STR(" cannot be evaluated, so it does not apply: "),
                          why,      STR(".")};
    return reason_sentence(b, parts, sizeof parts / sizeof parts[0]);
}

static struct str result_reason(struct ballot *b, const struct result *r)
{
    if (r->key == NO_VOTE) return silence_reason(b);
    const struct set_rule *decides = &b->set->rules[r->key / 2];
    const struct rule *rule = decides->rule;
    struct str why;
    b->purse = PURSE_REST; /* that of a lower confidence may have another */
    if (!str_is_absent(r->broken)) {
        struct str parts[] = {STR("The safe arguments of rule "), rule->id,
                              STR(" cannot be made, so it is denied: "), r->broken, STR(".")};
        return reason_sentence(b, parts, 5);
    }
    if ((r->key & 1) == 0 && !r->unsafe && is_broken(b, r->key / 2) &&
        condition_holds(b, rule->when, &why) == CONDITION_FAILED) {
        struct str parts[] = {STR("The condition of rule "),
                              rule->id,
                              STR(" cannot be evaluated, so it "),
                              rule->decision == VERDICT_COMPUTE ? STR("is denied: ")
                                                                : STR("applies: "),
                              why,
                              STR(".")};
        return reason_sentence(b, parts, 6);
    }
    if (r->unsafe) {
        const struct rule *by = b->set->rules[r->unsafe_key / 2].rule;
        struct str parts[] = {STR("The safe call "),
                              rule->safe_tool,
                              STR(" is not permitted either: "),
                              r->unsafe_key & 1 ? STR("gate of rule ") : STR("rule "),
                              by->id,
                              STR(" of policy "),
                              by->document->name,
                              STR(".")};
        return reason_sentence(b, parts, sizeof parts / sizeof parts[0]);
    }
    return r->key & 1 ? gate_reason(b, rule, r->verdict) : told_reason(decides->told);
}

/* What was approved is asked about again beside what is new: an approval of the new question alone
 * would leave the others open when it is used, and so on for ever. */
static void outcome_reviewers(struct ballot *b, struct policy_outcome *o)
{
    struct numbers only = {.list = &b->reviewer, .count = 1};
    if (b->several_reviewers) ballot_collect_reviewers(b);
    const struct numbers *rules = b->several_reviewers ? &b->reviewers : &only;
    if (b->approved.count > 0) {
        for (uint32_t i = 0; i < rules->count; i++) numbers_add(b, &b->approved, rules->list[i]);
        numbers_sort(&b->approved);
        rules = &b->approved;
    }
    outcome_review(b, rules, &o->review);
}

/* Of an allow or a compute by `rule`: what it counts, and who has been asked for it already. */
static void outcome_conditions(struct ballot *b, const struct rule *rule, struct policy_outcome *o)
{
    if (b->limited.count > 0) outcome_limits(b, o);
    if (b->approved.count == 0) return;
    numbers_sort(&b->approved);
    outcome_review(b, &b->approved, &o->review);
    if (rule->decision != VERDICT_HUMAN_REVIEW) return;
    struct str parts[] = {STR("A person has approved what rule "), rule->id, STR(" of policy "),
                          rule->document->name, STR(" asks about.")};
    o->reason = reason_sentence(b, parts, sizeof parts / sizeof parts[0]);
}

static bool permits(enum verdict v) { return v == VERDICT_ALLOW || v == VERDICT_COMPUTE; }

/* Of what is in force, for what only shadow documents would permit (by another safe call): nothing
 * has looked at the limits then, and nothing will. */
static const struct policy_limit *limit_beside_shadow(struct ballot *b)
{
    struct policy_outcome o = {0};
    if (b->limited.count > 0) outcome_limits(b, &o);
    return limit_over_by_itself(&o);
}

static void outcome_shadow(struct ballot *b, const struct result *enforced,
                           struct policy_outcome *o)
{
    struct tally both = tally_joined(&b->enforced, &b->shadow);
    struct result r = result_of(b, &both, true);
    if (b->exhausted[PURSE_SHADOW]) r = (struct result){.verdict = VERDICT_DENY, .key = NO_VOTE};
    const struct policy_limit *over =
        permits(r.verdict) && !permits(enforced->verdict) ? limit_beside_shadow(b) : NULL;
    if (over != NULL) r.verdict = over->over;
    bool same_call = r.verdict != VERDICT_COMPUTE || r.key == enforced->key;
    if (r.verdict == enforced->verdict && same_call) return;
    o->has_would_have = true;
    o->would_have = r.verdict;
    result_rule(b->set, &r, o->would_have_rule, &o->would_have_policy);
    if (over == NULL) return;
    rule_text(o->would_have_rule, STR("limit:"), over->rule_id);
    o->would_have_policy = over->policy_name;
}

static void lifted_limits(struct ballot *b)
{
    for (uint32_t i = 0; i < b->limited.count; i++) {
        uint32_t number = b->limited.list[i];
        if (limit_is_lifted(b, &b->set->rules[number])) numbers_add(b, &b->approved, number);
    }
}

static void decide(struct ballot *b, struct policy_outcome *o)
{
    ballot_take_votes(b);
    struct result r = result_of(b, &b->enforced, false);
    o->verdict = r.verdict;
    result_rule(b->set, &r, o->rule, &o->policy_name);
    o->reason = result_reason(b, &r);
    b->purse = PURSE_VOTES;
    if (r.key != NO_VOTE) {
        const struct set_rule *rule = &b->set->rules[r.key / 2];
        o->policy_version = b->set->documents[rule->document].version;
        lifted_limits(b);
        if (r.verdict == VERDICT_HUMAN_REVIEW) {
            outcome_reviewers(b, o);
        } else if (r.verdict != VERDICT_DENY && (b->limited.count | b->approved.count) > 0) {
            outcome_conditions(b, rule->rule, o);
        }
        if (r.verdict == VERDICT_COMPUTE) {
            o->safe_tool = rule->rule->safe_tool;
            o->safe_args = r.safe_args;
            bool hides = b->set->hides_args != NULL && b->set->hides_args[r.key / 2];
            o->told_args = hides ? template_told(b, rule->rule, r.safe_args) : r.safe_args;
            if (o->told_args == NULL) b->failed = true;
        }
    }
    o->confidence_used = b->confidence_used;
    if (b->set->has_shadow) outcome_shadow(b, &r, o);
}

/* A scope permits, so its patterns are exact. */
static bool scope_covers(struct ballot *b, const struct str *scope, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct glob g;
        if (!glob_compile(b->arena, scope[i], false, &g)) {
            b->failed = true;
            return false;
        }
        if (glob_match(&g, action_name(b), false)) return true;
    }
    return false;
}

/* The request's scope narrows the token's: both have to cover the action. */
static bool scopes_cover(struct ballot *b)
{
    const struct policy_request *q = b->request;
    return (!q->has_scope || scope_covers(b, q->scope, q->scope_count)) &&
           (!q->has_token_scope || scope_covers(b, q->token_scope, q->token_scope_count));
}

static void evaluate(const struct policy_set *s, struct policy_memory *memory,
                     const struct policy_request *request, struct arena *arena,
                     const struct policy_explain *explain, struct policy_outcome *ret)
{
    struct name action, subject, resource;
    struct ballot b = {.set = s,
                       .memory = memory,
                       .request = request,
                       .arena = arena,
                       .action = &action,
                       .subject = &subject,
                       .resource = &resource};
    outcome_clear(ret);
    if (s->closed_rule[0] != '\0') {
        memcpy(ret->rule, s->closed_rule, sizeof ret->rule);
        ret->reason = s->closed_reason;
        return;
    }
    struct str who = request->kind == SUBJECT_AGENT ? request->actor : request->user;
    if (!name_prepare(&subject, who, arena)) {
        outcome_failed(ret);
        return;
    }
    if (!scopes_cover(&b)) {
        rule_text(ret->rule, STR("token:"), STR("scope"));
        ret->reason = STR("The action is outside the scope that was granted.");
    } else {
        decide(&b, ret);
    }
    if (b.exhausted[PURSE_VOTES]) outcome_exhausted(ret);
    if (b.failed) outcome_failed(ret);
    const struct policy_limit *over = request->dry_run ? limit_over_by_itself(ret) : NULL;
    if (over != NULL) policy_over_limit(over, arena, ret);
    ret->is_unpaid = b.is_unpaid;
    ret->cost = RULE_COST * b.met;
    for (size_t i = 0; i < PURSES; i++) ret->cost += b.spent[i];
    if (explain != NULL) explain_rules(&b, ret, explain);
}

void policy_evaluate(const struct policy_set *s, const struct policy_request *request,
                     struct arena *arena, const struct policy_explain *explain,
                     struct policy_outcome *ret)
{
    evaluate(s, NULL, request, arena, explain, ret);
}

void policy_evaluate_remembering(const struct policy_set *s, struct policy_memory *memory,
                                 const struct policy_request *request, struct arena *arena,
                                 struct policy_outcome *ret)
{
    evaluate(s, memory, request, arena, NULL, ret);
}
