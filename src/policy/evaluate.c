/* evaluate.c - one request, one set, one outcome.
 *
 *   scopes → votes of the rules the index proposes, each with its gate (evaluation.c) → the strictest vote
 *          → compute: votes on the safe call → outcome, with what it counts (limit.c), what people
 *            are asked (review.c), and what shadow documents would change */
#include "policy/evaluation.h"

#include "base/limits.h"
#include "policy/condition.h"

enum { SHADOW_BYTES_MAX = LIMIT_REQUEST_ARENA_BYTES }; /* of memory, for one decision */

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

/* The result of the votes, before it becomes an outcome. */
struct result {
    enum verdict verdict;
    uint32_t key;                 /* the vote that decides, or NO_VOTE: default:deny */
    bool unsafe;                  /* a compute whose safe call is not permitted is a deny */
    struct str broken;            /* why its safe arguments cannot be made; absent: they can */
    const struct json *safe_args; /* of a compute */
    uint32_t unsafe_key;          /* by this vote */
};

/* The rule whose safe arguments cannot be made, and the reason. */
static struct result broken_compute(uint32_t key, struct str why)
{
    return (struct result){.verdict = VERDICT_DENY, .key = key, .unsafe = true, .broken = why};
}

static const struct json *safe_args_of(struct evaluation *b, const struct rule *rule,
                                       struct str *ret_why)
{
    const struct json *args = template_args(b, rule, ret_why);
    if (b->request->unknowns != NULL) unknown_args(b, rule, args);
    return args;
}

/* The safe call of the first compute vote is evaluated once, for the same subject and resource. If
 * no rule votes on it, it is permitted, because the compute rule permits it.
 *
 * A compute whose safe call is not permitted counts as a deny beside a human_review, too.
 * Otherwise a gate with human_review at a low confidence would be looser than the deny at a high
 * one, and an approval could not make the call safe. */
static void check_safe_call(struct evaluation *b, uint32_t key, struct result *r)
{
    const struct rule *rule = b->set->rules[key / 2].rule;
    check(rule->decision == VERDICT_COMPUTE);
    struct name tool;
    struct str why;
    const struct json *args = safe_args_of(b, rule, &why);
    if (args == NULL) {
        *r = broken_compute(key, why);
        return;
    }
    r->safe_args = args;
    struct policy_request request = *b->request;
    request.action = rule->safe_tool;
    request.args = args;
    request.approved_count = 0; /* an approval is for the requested call, not for its replacement */
    struct evaluation safe = *b;
    safe.request = &request;
    safe.action = &tool;
    safe.action_ready = false;
    safe.variables = NULL; /* other arguments, other conditions */
    safe.approved = safe.limited = safe.broken = safe.computes =
        (struct numbers){0}; /* not of the safe call, and not in b's lists */
    evaluation_take_votes(&safe);
    check(safe.met >= b->met);
    memcpy(b->spent, safe.spent, sizeof b->spent);
    b->met = safe.met;
    memcpy(b->exhausted, safe.exhausted, sizeof b->exhausted);
    enum verdict v;
    if (tally_strictest(&safe.votes, &v) && v <= VERDICT_HUMAN_REVIEW)
        *r = (struct result){
            .verdict = VERDICT_DENY, .key = key, .unsafe = true, .unsafe_key = safe.votes.first[v]};
    b->failed |= safe.failed;
    b->confidence_used |= safe.confidence_used;
    evaluation_check(b);
}

/* The other compute votes do not give the safe call. But if the expressions of one cannot be
 * evaluated, it is a deny, like a compute whose condition cannot be evaluated. */
static void check_other_computes(struct evaluation *b, uint32_t key, struct result *r)
{
    struct str why;
    numbers_sort(&b->computes);
    for (uint32_t i = 0; i < b->computes.count && r->verdict != VERDICT_DENY; i++) {
        uint32_t number = b->computes.list[i];
        check(b->set->rules[number].decision == VERDICT_COMPUTE);
        if (number == key / 2) continue;
        if (safe_args_of(b, b->set->rules[number].rule, &why) == NULL)
            *r = broken_compute(number * 2, why);
    }
}

static struct result result_of(struct evaluation *b)
{
    const struct tally *t = &b->votes;
    struct result r = {.verdict = VERDICT_DENY, .key = NO_VOTE};
    if (!tally_strictest(t, &r.verdict)) return r;
    r.key = t->first[r.verdict];
    uint32_t compute = t->first[VERDICT_COMPUTE];
    if (compute == NO_VOTE || r.verdict == VERDICT_DENY) return r;
    check_safe_call(b, compute, &r);
    if (b->computes.count > 0) check_other_computes(b, compute, &r);
    check(r.verdict == VERDICT_DENY || r.key != NO_VOTE); /* no vote is a deny */
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
    const struct set_rule *rule = &s->rules[r->key / 2]; /* rule->rule is not needed */
    check(r->key / 2 < s->rule_count && rule->document < s->document_count);
    /* A compute that denies could not be evaluated, or its safe call is not permitted. */
    bool replaced =
        rule->decision == VERDICT_COMPUTE && r->verdict == VERDICT_DENY && (r->key & 1) == 0;
    rule_text(to, replaced ? STR("compute:") : kind_of(r->verdict, r->key & 1),
              told_id(rule->told));
    *ret_policy = s->documents[rule->document].document->name;
}

static bool is_broken(const struct evaluation *b, uint32_t number)
{
    for (uint32_t i = 0; i < b->broken.count; i++)
        if (b->broken.list[i] == number) return true;
    return false;
}

static struct str silence_reason(struct evaluation *b)
{
    struct str sentence = STR("No rule of any policy applies, so it is denied."), why;
    if (b->skipped == NO_RULE) return sentence;
    const struct rule *rule = b->set->rules[b->skipped].rule;
    check(rule->decision == VERDICT_ALLOW && rule->when != NULL);
    b->budget = BUDGET_REST;
    if (condition_holds(b, rule->when, &why) != CONDITION_FAILED) return sentence;
    struct str parts[] = {sentence, STR(" The condition of rule "),
                          rule->id, STR(" cannot be evaluated, so it does not apply: "),
                          why,      STR(".")};
    return reason_sentence(b, parts, sizeof parts / sizeof parts[0]);
}

static struct str result_reason(struct evaluation *b, const struct result *r)
{
    if (r->key == NO_VOTE) return silence_reason(b);
    const struct set_rule *decides = &b->set->rules[r->key / 2];
    check(!r->unsafe || r->verdict == VERDICT_DENY);
    const struct rule *rule = decides->rule;
    struct str why;
    b->budget = BUDGET_REST; /* a lower confidence may give another reason */
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

static bool permits(enum verdict v) { return v == VERDICT_ALLOW || v == VERDICT_COMPUTE; }

/* A new review covers the approved votes again. Otherwise its approval would leave these open at
 * the redemption, which would create yet another review, without an end. */
static void outcome_reviewers(struct evaluation *b, struct policy_outcome *o)
{
    struct numbers only = {.list = &b->reviewer, .count = 1};
    const bool are_several = b->reviewers_state == REVIEWERS_SEVERAL;
    if (are_several) evaluation_collect_reviewers(b);
    const struct numbers *rules = are_several ? &b->reviewers : &only;
    if (b->approved.count > 0) {
        for (uint32_t i = 0; i < rules->count; i++) numbers_add(b, &b->approved, rules->list[i]);
        numbers_sort(&b->approved);
        rules = &b->approved;
    }
    if (b->failed) return;
    check(rules->count > 0); /* a person is asked something */
    outcome_review(b, rules, &o->review);
}

/* For an allow or a compute by `rule`: its limits, and the approvals that it already has. */
static void outcome_conditions(struct evaluation *b, const struct rule *rule,
                               struct policy_outcome *o)
{
    check(permits(o->verdict));
    if (b->limited.count > 0) outcome_limits(b, o);
    if (b->approved.count == 0) return;
    numbers_sort(&b->approved);
    outcome_review(b, &b->approved, &o->review);
    if (rule->decision != VERDICT_HUMAN_REVIEW) return;
    struct str parts[] = {STR("A person has approved what rule "), rule->id, STR(" of policy "),
                          rule->document->name, STR(" asks about.")};
    o->reason = reason_sentence(b, parts, sizeof parts / sizeof parts[0]);
}

static uint64_t cost_of(const struct evaluation *b)
{
    uint64_t cost = RULE_COST * b->met;
    for (size_t i = 0; i < BUDGETS; i++) cost += b->spent[i];
    return cost;
}

/* The limits of a call that shadow documents would let through. Those in force are among them only if
 * no other code checks them, because nothing is permitted (or another safe call). */
static void limits_beside_shadow(struct evaluation *w, bool is_permitted,
                                 struct policy_outcome *ret)
{
    struct policy_outcome all = {0};
    *ret = (struct policy_outcome){0};
    if (w->limited.count == 0) return;
    outcome_limits(w, &all);
    struct policy_limit *kept = arena_array(w->arena, struct policy_limit, all.limit_count);
    if (kept == NULL) return;
    ret->limits = kept;
    for (size_t i = 0; i < all.limit_count; i++)
        if (all.limits[i].is_shadow || !is_permitted) kept[ret->limit_count++] = all.limits[i];
    check(ret->limit_count <= all.limit_count);
}

static void count_for_shadow(struct evaluation *w, const struct policy_outcome *limits,
                             struct policy_outcome *o)
{
    struct policy_limit *kept = arena_array(w->arena, struct policy_limit, limits->limit_count);
    if (kept == NULL) return;
    o->shadow_limits = kept;
    for (size_t i = 0; i < limits->limit_count; i++)
        if (limits->limits[i].is_shadow) kept[o->shadow_limit_count++] = limits->limits[i];
}

/* A copy of a list, so that additions do not change the original. */
static struct numbers numbers_going_on(const struct numbers *n)
{
    return (struct numbers){.list = n->list, .count = n->count, .room = n->count};
}

/* The evaluation that continues with the votes of shadow documents. It uses the prepared names and
 * roles, and what is left of the budgets. Everything that it makes lies in memory of its own, freed
 * at its end. */
static struct evaluation shadow_evaluation(struct evaluation *b)
{
    struct evaluation w = *b;
    w.indexes[0] = &b->set->shadow;
    w.variables = NULL;
    w.limited = numbers_going_on(&b->limited);
    w.computes = numbers_going_on(&b->computes);
    w.approved = w.broken = (struct numbers){0};
    w.met = 0;
    return w;
}

static void told_would_have(struct evaluation *w, const struct result *enforced,
                            const struct result *r, struct policy_outcome *o)
{
    struct result would = *r;
    struct policy_outcome limits = {0};
    if (permits(would.verdict)) limits_beside_shadow(w, permits(enforced->verdict), &limits);
    const struct policy_limit *over = limit_over_by_itself(&limits);
    if (over != NULL) would.verdict = over->over;
    if (w->failed || w->arena->overflow || w->exhausted[BUDGET_VOTES]) {
        would = (struct result){.verdict = VERDICT_DENY, .key = NO_VOTE};
        over = NULL;
    }
    if (permits(would.verdict) && limits.limit_count > 0) count_for_shadow(w, &limits, o);
    bool same_call = would.verdict != VERDICT_COMPUTE || would.key == enforced->key;
    if (would.verdict == enforced->verdict && same_call) return;
    o->has_would_have = true;
    o->would_have = would.verdict;
    result_rule(w->set, &would, o->would_have_rule, &o->would_have_policy);
    if (over == NULL) return;
    rule_text(o->would_have_rule, STR("limit:"), over->rule_id);
    o->would_have_policy = over->policy_name;
}

/* Runs after all enforced rules, with memory of its own and the rest of the budgets. If these run
 * out, only would_have shows it. Returns the cost. */
static uint64_t outcome_shadow(struct evaluation *b, const struct result *enforced,
                               struct policy_outcome *o)
{
    check(b->set->has_shadow);
    struct arena before = arena_begin_aside(b->arena, SHADOW_BYTES_MAX);
    struct evaluation w = shadow_evaluation(b);
    check(w.indexes[1] == NULL);
    const uint64_t cost_before = cost_of(&w);
    evaluation_take_votes(&w);
    w.votes = tally_joined(&b->votes, &w.votes);
    w.indexes[0] = &b->set->enforced; /* all rules vote on safe calls */
    w.indexes[1] = &b->set->shadow;
    struct result r = result_of(&w);
    told_would_have(&w, enforced, &r, o);
    if (o->shadow_limit_count == 0)
        arena_end_aside(b->arena, &before);
    else if (!arena_keep_aside(b->arena, &before))
        o->shadow_limit_count = 0;
    return cost_of(&w) - cost_before;
}

static void lifted_limits(struct evaluation *b)
{
    for (uint32_t i = 0; i < b->limited.count; i++) {
        uint32_t number = b->limited.list[i];
        check(b->set->rules[number].has_limit);
        if (limit_is_lifted(b, &b->set->rules[number])) numbers_add(b, &b->approved, number);
    }
}

/* Returns the cost of shadow documents. */
static uint64_t decide(struct evaluation *b, struct policy_outcome *o)
{
    evaluation_check(b);
    evaluation_take_votes(b);
    struct result r = result_of(b);
    o->verdict = r.verdict;
    result_rule(b->set, &r, o->rule, &o->policy_name);
    o->reason = result_reason(b, &r);
    b->budget = BUDGET_VOTES;
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
    bool fails = b->failed || b->arena->overflow || b->exhausted[BUDGET_VOTES];
    return b->set->has_shadow && !fails ? outcome_shadow(b, &r, o) : 0;
}

/* A scope permits, so its patterns are exact. */
static bool scope_covers(struct evaluation *b, const struct str *scope, size_t count)
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
static bool scopes_cover(struct evaluation *b)
{
    const struct policy_request *q = b->request;
    return (!q->has_scope || scope_covers(b, q->scope, q->scope_count)) &&
           (!q->has_token_scope || scope_covers(b, q->token_scope, q->token_scope_count));
}

static void evaluate(const struct policy_set *s, struct policy_memory *memory,
                     const struct policy_request *request, struct arena *arena,
                     const struct policy_explain *explain, struct policy_outcome *ret)
{
    check(s->rule_count == 0 || s->closed_rule[0] == '\0');
    struct name action, subject, resource;
    uint64_t shadow_cost = 0;
    struct evaluation b = {.set = s,
                           .indexes = {&s->enforced},
                           .memory = memory,
                           .request = request,
                           .arena = arena,
                           .steps = steps_of(request),
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
        shadow_cost = decide(&b, ret);
    }
    if (b.exhausted[BUDGET_VOTES]) outcome_exhausted(&b, ret);
    if (b.failed) outcome_failed(ret);
    const struct policy_limit *over = request->dry_run ? limit_over_by_itself(ret) : NULL;
    if (over != NULL) policy_over_limit(over, arena, ret);
    ret->is_unpaid = b.is_unpaid;
    ret->cost = cost_of(&b) + shadow_cost;
    ret->steps =
        b.spent[BUDGET_VOTES] > b.spent[BUDGET_REST] ? b.spent[BUDGET_VOTES] : b.spent[BUDGET_REST];
    if (explain != NULL) explain_rules(&b, ret, explain);
    outcome_check(ret);
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
