/* limit.c - applies a rule's limit to a request. It does not count: an outcome has the amounts to
 * count, and the owner of the counters calls policy_over_limit() when one is over.
 *
 * Amounts are whole millionths, so that a sum of many is exact. A request's number is rounded up
 * and a limit's max down, so rounding is never to the advantage of the requester. */
#include "policy/evaluation.h"

#include "base/check.h"
#include "policy/condition.h"
#include "spelling/spelling.h"

const char *limit_per_name(enum limit_per per)
{
    switch (per) {
    case PER_ACTOR: return "actor";
    case PER_USER: return "user";
    case PER_ACTING_FOR: return "acting_for";
    case PER_TENANT: return "tenant";
    case PER_RESOURCE: return "resource";
    }
    return "actor";
}

/* ---- amounts ---- */

/* Below 2^33 all millionths are whole numbers below 2^53, and one of them divided by a million is
 * the same double as its decimal form. So 0.1 is 100000 millionths, although the double is a
 * little more than a tenth. */
static const double near_bound = 8589934592.0;

static bool is_amount(double number)
{
    return number >= 0 && number <= (double)(AMOUNT_MAX / AMOUNT_SCALE); /* false for NaN */
}

/* From near_bound on a double has at most 19 fractional bits, and this computation is exact. */
static int64_t far_amount(double number, bool up)
{
    check(number >= near_bound && is_amount(number));
    int64_t whole = (int64_t)number;
    double rest = (number - (double)whole) * AMOUNT_SCALE;
    int64_t millionths = (int64_t)rest;
    return whole * AMOUNT_SCALE + millionths + (up && (double)millionths < rest);
}

int64_t amount_round_up(double number)
{
    if (!is_amount(number)) return -1;
    if (number >= near_bound) return far_amount(number, true);
    int64_t n = (int64_t)(number * AMOUNT_SCALE);
    return (double)n / AMOUNT_SCALE < number ? n + 1 : n;
}

int64_t amount_round_down(double number)
{
    if (!is_amount(number)) return -1;
    if (number >= near_bound) return far_amount(number, false);
    int64_t n = amount_round_up(number);
    return (double)n / AMOUNT_SCALE > number ? n - 1 : n;
}

static int64_t amount_in(struct cel_value v)
{
    switch (v.kind) {
    case CEL_DOUBLE: return amount_round_up(v.number);
    case CEL_INT: return v.integer < 0 ? -1 : amount_round_up((double)v.integer);
    case CEL_UINT: return amount_round_up((double)v.natural);
    default: return -1;
    }
}

/* If a person's roles depend on the spelling of the name, the larger of both amounts. */
static int64_t amount_of_value(struct evaluation *b, const struct limit_terms *t)
{
    struct cel_value v;
    enum budget budget = b->budget;
    b->budget = BUDGET_REST;
    int64_t amount = condition_value(b, t->sum_value, &v, NULL) ? amount_in(v) : -1;
    if (amount >= 0 && condition_has_two_answers(b, t->sum_value)) {
        int64_t exactly = condition_value_exactly(b, t->sum_value, &v) ? amount_in(v) : -1;
        if (exactly < 0 || exactly > amount) amount = exactly;
    }
    b->budget = budget;
    check(amount >= -1 && amount <= AMOUNT_MAX);
    return amount;
}

/* A context that is a string, and the strings of a resource, are no numbers. */
int64_t limit_amount(struct evaluation *b, const struct limit_terms *t)
{
    const struct policy_request *q = b->request;
    if (t->sum_count == 0) return amount_of_value(b, t);
    const struct json *v = str_equal(t->sum[0], STR("args"))      ? q->args
                           : str_equal(t->sum[0], STR("context")) ? q->context
                                                                  : q->resource_object;
    for (size_t i = 1; i < t->sum_count && v != NULL; i++) v = json_get(v, t->sum[i]);
    return json_is_number(v) ? amount_round_up(v->number) : -1;
}

/* ---- the limits of an outcome ---- */

static struct str named_by(enum limit_per per, const struct policy_request *q)
{
    switch (per) {
    case PER_ACTOR: return q->actor;
    case PER_USER: return q->user;
    case PER_ACTING_FOR: return q->acting_for;
    case PER_TENANT: return q->tenant;
    case PER_RESOURCE: return str_is_absent(q->resource_plain) ? q->resource : q->resource_plain;
    }
    return (struct str){0};
}

static bool has_one_spelling(struct str name)
{
    for (size_t i = 0; i < name.size; i++)
        if (name.bytes[i] >= 'A' && name.bytes[i] <= 'Z') return false;
    return spelling_is_plain(name);
}

/* A limit restricts, so all spellings of a name are counted together: `ACCT:1` gives no second
 * allowance. */
static struct str counted_for(struct evaluation *b, enum limit_per per)
{
    struct str name = named_by(per, b->request);
    if (str_is_absent(name) || has_one_spelling(name)) return name;
    struct str folded = spelling_fold(name, b->arena);
    b->failed |= str_is_absent(folded);
    return folded;
}

static struct policy_limit limit_of(struct evaluation *b, const struct set_rule *r)
{
    check(r->has_limit && r->rule->limit != NULL);
    const struct limit_terms *t = r->rule->limit;
    struct policy_limit l = {.policy_name = r->rule->document->name,
                             .rule_id = r->rule->id,
                             .policy_version = b->set->documents[r->document].version,
                             .per = t->per,
                             .value = counted_for(b, t->per),
                             .window_ms = t->window_ms,
                             .count_max = t->count_max,
                             .has_max = t->has_max,
                             .amount_max = t->amount_max,
                             .over = t->over,
                             .is_shadow = r->shadow,
                             .review = &r->rule->review,
                             .terms = t};
    l.is_of_cut_resource = t->per == PER_RESOURCE && unknown_is_resource_cut(b->request);
    if (t->has_max) l.amount = unknown_is_sum_cut(b, t) ? AMOUNT_CUT : limit_amount(b, t);
    limit_check(&l);
    return l;
}

/* Limits that deny come before limits that ask a person. They are counted in order and the first
 * one that is over decides, so no review is created for a request that another limit denies. */
void outcome_limits(struct evaluation *b, struct policy_outcome *o)
{
    numbers_sort(&b->limited);
    size_t count = b->limited.count;
    struct policy_limit *limits = arena_array(b->arena, struct policy_limit, count);
    if (limits == NULL) {
        b->failed = true;
        return;
    }
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const struct set_rule *r = &b->set->rules[b->limited.list[i]];
        if (r->rule->limit->over == VERDICT_DENY) limits[at++] = limit_of(b, r);
    }
    for (size_t i = 0; i < count; i++) {
        const struct set_rule *r = &b->set->rules[b->limited.list[i]];
        if (r->rule->limit->over == VERDICT_DENY) continue;
        limits[at] = limit_of(b, r);
        if (limit_is_lifted(b, r)) limits[at].over = VERDICT_ALLOW;
        at++;
    }
    check(at == count); /* all or none */
    o->limits = limits;
    o->limit_count = count;
}

/* ---- over ---- */

static struct str over_reason(const struct policy_limit *l, struct arena *arena)
{
    check(l->over != VERDICT_ALLOW);
    const struct limit_terms *t = l->terms;
    if (l->has_max && l->amount < 0)
        return arena_printf(arena,
                            "The limit of rule %.*s adds up %.*s, which is missing, negative, too "
                            "large or no number.",
                            STR_FORMAT(l->rule_id), STR_FORMAT(t->sum_text));
    if (l->has_max && l->amount > l->amount_max)
        return arena_printf(arena,
                            "%.*s alone is more than the limit of rule %.*s lets through: %.*s.",
                            STR_FORMAT(t->sum_text), STR_FORMAT(l->rule_id), STR_FORMAT(t->told));
    return arena_printf(arena, "The limit of rule %.*s is reached: %.*s.", STR_FORMAT(l->rule_id),
                        STR_FORMAT(t->told));
}

/* Shadow documents still change the outcome only if they would have stopped the request before it
 * was counted, and with another verdict than the limit. */
static void keep_would_have(const struct policy_outcome *was, struct policy_outcome *o)
{
    bool stops = was->would_have == VERDICT_DENY || was->would_have == VERDICT_HUMAN_REVIEW;
    if (!was->has_would_have || !stops || was->would_have == o->verdict) return;
    o->has_would_have = true;
    o->would_have = was->would_have;
    memcpy(o->would_have_rule, was->would_have_rule, sizeof o->would_have_rule);
    o->would_have_policy = was->would_have_policy;
}

void policy_over_limit(const struct policy_limit *l, struct arena *arena,
                       struct policy_outcome *ret)
{
    check(ret->verdict == VERDICT_ALLOW || ret->verdict == VERDICT_COMPUTE);
    limit_check(l);
    if (l->over == VERDICT_ALLOW) return;
    struct policy_outcome o = {.verdict = l->over,
                               .reason = over_reason(l, arena),
                               .policy_name = l->policy_name,
                               .policy_version = l->policy_version,
                               .confidence_used = ret->confidence_used};
    rule_text(o.rule, STR("limit:"), l->rule_id);
    keep_would_have(ret, &o);
    bool full = str_is_absent(o.reason);
    if (l->over == VERDICT_HUMAN_REVIEW) {
        struct policy_vote vote = {
            .kind = VOTE_LIMIT, .policy_name = l->policy_name, .rule_id = l->rule_id};
        o.review = ret->review;
        full |= !review_add(&o.review, vote, l->review, arena);
    }
    *ret = o;
    if (full) outcome_failed(ret);
    outcome_check(ret);
}

void policy_over_shadow_limit(const struct policy_limit *l, struct policy_outcome *ret)
{
    limit_check(l);
    check(l->is_shadow);
    ret->shadow_limit_count = 0;
    ret->has_would_have = l->over != ret->verdict;
    ret->would_have = l->over;
    rule_text(ret->would_have_rule, STR("limit:"), l->rule_id);
    ret->would_have_policy = l->policy_name;
}

const struct policy_limit *limit_over_by_itself(const struct policy_outcome *o)
{
    check(o->limits != NULL || o->limit_count == 0);
    for (size_t i = 0; i < o->limit_count; i++) {
        const struct policy_limit *l = &o->limits[i];
        if (l->over == VERDICT_ALLOW || !l->has_max) continue;
        if (l->amount < 0 || l->amount > l->amount_max) return l;
    }
    return NULL;
}

void policy_set_limits(const struct policy_set *s,
                       void (*each)(void *context, struct str policy_name, struct str rule_id,
                                    enum limit_per per, uint64_t window_ms),
                       void *context)
{
    for (size_t i = 0; i < s->rule_count; i++) {
        const struct rule *rule = s->rules[i].rule;
        if (!s->rules[i].has_limit || s->rules[i].shadow) continue;
        check(rule->limit != NULL);
        each(context, rule->document->name, rule->id, rule->limit->per, rule->limit->window_ms);
    }
}
