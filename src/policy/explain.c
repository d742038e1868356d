/* explain.c - explains for every rule of a tenant why it applies to a request or not, and what
 * would allow the request.
 *
 * It walks all rules, not only the candidates of the index, because people ask why a rule does not
 * apply. The outcome itself comes from the normal evaluation.
 *
 * The nearest rule is the rule that permits this action and lacks the least. Another subject
 * counts as farther than another resource, and that as farther than a condition. Values that are
 * masked in records are masked here too. */
#include "base/check.h"
#include "base/limits.h"
#include "base/nearest.h"
#include "policy/condition.h"
#include "policy/evaluation.h"
#include "policy/mask.h"
#include "policy/problem.h"

enum { PATTERNS_SHOWN = 8 };

static struct str patterns_text(struct evaluation *b, const struct selector *s)
{
    check(s->count > 0);
    char text[512];
    struct buf out = buf_over(text, sizeof text);
    for (size_t i = 0; i < s->count && i < PATTERNS_SHOWN; i++) {
        if (i > 0) buf_put_literal(&out, ", ");
        buf_put(&out, str_cut(s->globs[i].written, 60));
    }
    if (s->count > PATTERNS_SHOWN) buf_printf(&out, " and %zu more", s->count - PATTERNS_SHOWN);
    return arena_copy(b->arena, buf_view(&out));
}

/* The reason if a pattern with * would match a name except for one character. */
static struct str why_odd(struct evaluation *b, struct str name, const struct selector *s)
{
    size_t at = 0;
    while (at < name.size && !glob_is_odd(str_of(name.bytes + at, 1))) at++;
    if (at == name.size) return STR("");
    size_t end = at + 1;
    while (end < name.size && ((unsigned char)name.bytes[end] & 0xC0) == 0x80) end++;
    for (size_t i = 0; i < s->count; i++)
        if (s->globs[i].kind != GLOB_EXACT &&
            glob_match_text(s->globs[i].kind, s->globs[i].text, name))
            return arena_printf(b->arena,
                                ": where a rule permits, a * takes only [A-Za-z0-9._:/@+-], and no "
                                "\"%.*s\"",
                                (int)(end - at), name.bytes + at);
    return STR("");
}

static struct str mismatch(struct evaluation *b, const char *selector, struct str name,
                           const struct selector *s, bool folds)
{
    struct str shown = patterns_text(b, s), why = folds ? STR("") : why_odd(b, name, s);
    return arena_printf(b->arena, "%s: %.*s does not match [%.*s]%.*s", selector, STR_FORMAT(name),
                        STR_FORMAT(shown), STR_FORMAT(why));
}

static struct str role_names(struct evaluation *b, const struct rule *rule)
{
    struct str list = STR("");
    for (size_t i = 0; i < rule->role_count && i < PATTERNS_SHOWN; i++)
        list = arena_printf(b->arena, "%.*s%s%.*s", STR_FORMAT(list), i == 0 ? "" : ", ",
                            STR_FORMAT(rule->roles[i]));
    return list;
}

static struct str why_not_subject(struct evaluation *b, const struct rule *rule)
{
    const struct policy_request *q = b->request;
    if (q->kind == SUBJECT_AGENT) {
        if (rule->agents.count > 0)
            return mismatch(b, "agents", q->actor, &rule->agents, rule->folds);
        return STR("the rule is for people only");
    }
    if (rule->role_count > 0)
        return arena_printf(b->arena, "roles: %.*s has none of [%.*s]", STR_FORMAT(q->user),
                            STR_FORMAT(role_names(b, rule)));
    if (rule->users.count > 0) return mismatch(b, "users", q->user, &rule->users, rule->folds);
    return STR("the rule is for agents only");
}

static struct str why_not_resource(struct evaluation *b, const struct rule *rule)
{
    if (str_is_absent(b->request->resource)) return STR("resources: the request names none");
    struct str shown = policy_resource_shown(b->set, b->request);
    bool is_hidden = !str_equal(shown, b->request->resource);
    return mismatch(b, "resources", shown, &rule->resources, rule->folds || is_hidden);
}

/* ---- what applies ---- */

static struct str amount_text(struct evaluation *b, int64_t millionths)
{
    char text[40];
    struct buf out = buf_over(text, sizeof text);
    json_put_number(&out, (double)millionths / AMOUNT_SCALE);
    return arena_copy(b->arena, buf_view(&out));
}

static bool sum_is_hidden(struct evaluation *b, const struct limit_terms *t)
{
    if (t->sum_count > 0) return mask_hides(b->set, t->sum, t->sum_count);
    return condition_reads_hidden(b, t->sum_value);
}

/* "; its limit is 5 per actor in 1h, and this request adds 620" */
static struct str with_limit(struct evaluation *b, const struct rule *rule, struct str why)
{
    const struct limit_terms *t = rule->limit;
    if (t == NULL || str_is_absent(why)) return why;
    why = arena_printf(b->arena, "%.*s; its limit is %.*s", STR_FORMAT(why), STR_FORMAT(t->told));
    if (!t->has_max || str_is_absent(why)) return why;
    int64_t amount = limit_amount(b, t);
    if (amount < 0)
        return arena_printf(b->arena,
                            "%.*s, and this request is over by itself: %.*s is no number from 0 on",
                            STR_FORMAT(why), STR_FORMAT(t->sum_text));
    struct str shown = sum_is_hidden(b, t) ? STR("[masked]") : amount_text(b, amount);
    return arena_printf(b->arena, "%.*s, and this request adds %.*s", STR_FORMAT(why),
                        STR_FORMAT(shown));
}

static bool asks_people(const struct set_rule *r)
{
    return r->decision == VERDICT_HUMAN_REVIEW || r->gate != NULL ||
           (r->has_limit && r->rule->limit->over == VERDICT_HUMAN_REVIEW);
}

/* "; its approvals need proof: oidc" */
static struct str with_proof(struct evaluation *b, const struct set_rule *r, struct str why)
{
    enum policy_proof proof = r->rule->review.proof;
    if (proof == POLICY_PROOF_ANY || !asks_people(r) || str_is_absent(why)) return why;
    return arena_printf(b->arena, "%.*s; its approvals need proof: %s", STR_FORMAT(why),
                        policy_proof_name(proof));
}

/* "applies; its gate votes deny: …; its limit is …; its approvals need proof: oidc" */
static struct str with_gate_and_limit(struct evaluation *b, const struct set_rule *r,
                                      struct str why)
{
    check(r->rule != NULL && r->rule->decision == r->decision);
    enum verdict gate;
    if (gate_votes(b, r, &gate)) {
        struct str reason = gate_reason(b, r->rule, gate);
        why = arena_printf(b->arena, "%.*s; its gate votes %s: %.*s", STR_FORMAT(why),
                           verdict_name(gate), STR_FORMAT(reason));
    }
    return with_proof(b, r, with_limit(b, r->rule, why));
}

static struct str why_applies(struct evaluation *b, const struct set_rule *r)
{
    bool names_none = r->rule->resources.count > 0 && str_is_absent(b->request->resource);
    struct str why =
        names_none ? STR("applies, because the request names no resource") : STR("applies");
    return with_gate_and_limit(b, r, why);
}

/* ---- conditions ---- */

static struct str joined_lines(struct evaluation *b, const struct cel_trace *trace)
{
    check(trace->count > 0);
    struct str all = trace->lines[0];
    for (size_t i = 1; i < trace->count; i++)
        all =
            arena_printf(b->arena, "%.*s; and %.*s", STR_FORMAT(all), STR_FORMAT(trace->lines[i]));
    if (trace->more == 0) return all;
    return arena_printf(b->arena, "%.*s; and %zu more", STR_FORMAT(all), trace->more);
}

/* "when: args.amount > 500 → 620 > 500 → true", or the whole with what decided it. */
static enum condition_result why_condition(struct evaluation *b, const struct rule *rule,
                                           struct str *ret_why)
{
    static const char *const results[] = {"cannot be evaluated", "is false", "is true"};
    struct str failure, text = str_cut(rule->when->text, 200);
    check(rule->when != NULL);
    struct cel_trace trace;
    enum condition_result result = condition_holds(b, rule->when, &failure);
    if (condition_trace(b, rule->when, &trace)) {
        struct str lines = joined_lines(b, &trace);
        *ret_why = trace.is_whole
                       ? arena_printf(b->arena, "when: %.*s", STR_FORMAT(lines))
                       : arena_printf(b->arena, "when: %.*s %s, because of %.*s", STR_FORMAT(text),
                                      results[result], STR_FORMAT(lines));
    } else if (result == CONDITION_FAILED) {
        *ret_why = arena_printf(b->arena, "when: %.*s cannot be evaluated (%.*s)", STR_FORMAT(text),
                                STR_FORMAT(failure));
    } else {
        *ret_why = arena_printf(b->arena, "when: %.*s %s", STR_FORMAT(text), results[result]);
    }
    return result;
}

/* The parts of the text about a rule that applies. */
struct finding {
    struct str cause; /* its condition, without gate and limit; absent: it has none */
    bool is_broken;   /* a compute whose condition cannot be evaluated: a deny, without a gate */
};

static void explain_condition(struct evaluation *b, const struct set_rule *r,
                              struct policy_considered *c, struct finding *ret)
{
    const struct rule *rule = r->rule;
    struct str why, more;
    switch (why_condition(b, rule, &why)) {
    case CONDITION_FALSE: c->why = why; return;
    case CONDITION_TRUE:
        c->applies = true;
        ret->cause = why;
        more = why_applies(b, r);
        break;
    default:
        c->applies = rule->decision != VERDICT_ALLOW;
        ret->is_broken = rule->decision == VERDICT_COMPUTE;
        more = rule->decision == VERDICT_ALLOW     ? STR("so the rule is left out")
               : rule->decision == VERDICT_COMPUTE ? STR("so it is a deny")
                                                   : STR("so the rule applies");
    }
    c->why = arena_printf(b->arena, "%.*s; %.*s", STR_FORMAT(why), STR_FORMAT(more));
    if (!str_is_absent(ret->cause)) return;
    ret->cause = c->why;
    if (rule->decision == VERDICT_HUMAN_REVIEW && !str_is_absent(c->why))
        c->why = with_gate_and_limit(b, r, c->why);
}

/* ---- what would allow the request ---- */

enum { AGAINST_SHOWN = 8, LACKS_MOST = 3 };
enum { LACKS_WHEN = 1, LACKS_RESOURCE = 2, LACKS_SUBJECT = 4 };

struct nearest {
    const struct set_rule *rule; /* NULL: none is about this action */
    const char *likely;          /* an action of such a rule with a similar name; NULL: none */
    unsigned lacks;              /* a smaller number is nearer */
    struct str against[AGAINST_SHOWN + 1];
    size_t against_count, against_more;
};

static void add_against(struct nearest *n, struct str text)
{
    check(n->against_count <= AGAINST_SHOWN);
    if (str_is_absent(text)) return;
    if (n->against_count == AGAINST_SHOWN)
        n->against_more++;
    else
        n->against[n->against_count++] = text;
}

/* The votes of an applying rule that are stricter than allow. */
static void note_against(struct evaluation *b, struct nearest *n, const struct set_rule *r,
                         const struct policy_considered *c, const struct finding *finding)
{
    const struct rule *rule = r->rule;
    enum verdict gate, own = rule->decision;
    bool approved = own == VERDICT_HUMAN_REVIEW && is_approved(b->request, VOTE_RULE, rule);
    if (own != VERDICT_ALLOW && !approved)
        add_against(n, arena_printf(b->arena, "rule %.*s of policy %.*s votes %s%s%.*s",
                                    STR_FORMAT(c->rule_id), STR_FORMAT(c->policy_name),
                                    verdict_name(own), str_is_absent(finding->cause) ? "" : ": ",
                                    STR_FORMAT(finding->cause)));
    if (finding->is_broken || !gate_votes(b, r, &gate) || gate == VERDICT_ALLOW) return;
    if (gate == VERDICT_HUMAN_REVIEW && is_approved(b->request, VOTE_GATE, rule)) return;
    add_against(n,
                arena_printf(b->arena,
                             "the gate of rule %.*s of policy %.*s votes %s: a confidence of %.*s "
                             "or more would pass it",
                             STR_FORMAT(c->rule_id), STR_FORMAT(c->policy_name), verdict_name(gate),
                             STR_FORMAT(rule->gate->allow_at_text)));
}

/* Compares a rule that permits this action with the nearest one so far. */
static void note_nearest(struct evaluation *b, struct nearest *n, const struct set_rule *r,
                         bool applies)
{
    const struct rule *rule = r->rule;
    unsigned lacks = 0;
    if (!rule_matches_subject(b, r)) lacks |= LACKS_SUBJECT;
    if (!rule_matches_resource(b, rule)) lacks |= LACKS_RESOURCE;
    if (lacks == 0 && !applies) lacks = LACKS_WHEN;
    if (n->rule != NULL && n->lacks <= lacks) return;
    n->rule = r;
    n->lacks = lacks;
    check(n->lacks <= (LACKS_WHEN | LACKS_RESOURCE | LACKS_SUBJECT));
}

/* Looks for a similar name among the actions of a rule that permits other actions. */
static void note_likely(struct evaluation *b, struct nearest *n, const struct rule *rule)
{
    struct str asked = b->request->action;
    for (size_t i = 0; i < rule->actions.count && n->likely == NULL; i++) {
        struct str one = rule->actions.globs[i].written;
        bool alike = one.size + 2 >= asked.size && asked.size + 2 >= one.size;
        if (!alike || str_find(one, '*') < one.size) continue;
        struct str copy = arena_copy(b->arena, one);
        if (str_is_absent(copy)) return;
        n->likely = nearest_word(asked, &copy.bytes, 1);
    }
}

static size_t put_lacks(struct evaluation *b, const struct nearest *n, struct str to[LACKS_MOST])
{
    const struct rule *rule = n->rule->rule;
    size_t count = 0;
    struct str why;
    if ((n->lacks & LACKS_SUBJECT) != 0) to[count++] = why_not_subject(b, rule);
    if ((n->lacks & LACKS_RESOURCE) != 0) to[count++] = why_not_resource(b, rule);
    if (n->lacks != 0 && rule->when != NULL && why_condition(b, rule, &why) != CONDITION_TRUE)
        to[count++] = why;
    check(count <= LACKS_MOST);
    return count;
}

static void tell_nearest(struct evaluation *b, struct nearest *n, const struct policy_outcome *o,
                         const struct policy_explain *explain)
{
    check(o->verdict != VERDICT_ALLOW);
    struct str lacks[LACKS_MOST];
    struct policy_nearest told = {.lacks = lacks, .against = n->against};
    if (n->rule == NULL) {
        lacks[told.lack_count++] =
            arena_printf(b->arena, "no allow or compute rule has %.*s among its actions%s%s%s",
                         STR_FORMAT(b->request->action), n->likely == NULL ? "" : "; did you mean ",
                         n->likely == NULL ? "" : n->likely, n->likely == NULL ? "" : "?");
    } else {
        told.policy_name = n->rule->rule->document->name;
        told.rule_id = n->rule->rule->id;
        told.lack_count = put_lacks(b, n, lacks);
    }
    bool is_unsafe = o->verdict == VERDICT_DENY && strncmp(o->rule, "compute:", 8) == 0;
    bool is_over = strncmp(o->rule, "limit:", 6) == 0;
    if (strcmp(o->rule, "token:scope") == 0 || is_unsafe || is_over) add_against(n, o->reason);
    if (n->against_more > 0)
        n->against[n->against_count++] = arena_printf(b->arena, "and %zu more", n->against_more);
    check(n->against_count <= AGAINST_SHOWN + 1);
    told.against_count = n->against_count;
    for (size_t i = 0; i < told.lack_count; i++)
        if (str_is_absent(lacks[i])) lacks[i] = STR("there was not enough memory to say what");
    explain->nearest(explain->context, &told);
}

/* ---- all of them ---- */

static void consider(struct evaluation *b, const struct set_rule *r, struct nearest *n,
                     struct policy_considered *c)
{
    bool is_about_it = rule_matches_action(b, r->rule);
    struct finding finding = {0};
    if (!is_about_it) {
        c->why = mismatch(b, "actions", b->request->action, &r->rule->actions, r->rule->folds);
    } else if (!rule_matches_subject(b, r)) {
        c->why = why_not_subject(b, r->rule);
    } else if (!rule_matches_resource(b, r->rule)) {
        c->why = why_not_resource(b, r->rule);
    } else if (r->rule->when != NULL) {
        explain_condition(b, r, c, &finding);
    } else {
        c->applies = true;
        c->why = why_applies(b, r);
    }
    if (str_is_absent(c->why)) c->why = STR("there was not enough memory to say why");
    if (r->shadow) return;
    bool permits = r->rule->decision == VERDICT_ALLOW || r->rule->decision == VERDICT_COMPUTE;
    if (!is_about_it) {
        if (permits) note_likely(b, n, r->rule);
        return;
    }
    if (permits) note_nearest(b, n, r, c->applies && !finding.is_broken);
    if (c->applies) note_against(b, n, r, c, &finding);
}

/* Uses memory of its own until the explanation is delivered, and pays from its own `budget`. */
static void consider_shadow(const struct evaluation *b, struct evaluation *budget,
                            const struct set_rule *r, struct policy_considered *c,
                            const struct policy_explain *explain)
{
    check(r->shadow);
    struct nearest none = {0};
    struct arena before = arena_begin_aside(b->arena, LIMIT_REQUEST_ARENA_BYTES);
    struct evaluation w = *b;
    w.variables = NULL; /* this memory is freed below */
    w.trace_runs = budget->trace_runs;
    memcpy(w.spent, budget->spent, sizeof w.spent);
    memcpy(w.exhausted, budget->exhausted, sizeof w.exhausted);
    consider(&w, r, &none, c);
    explain->considered(explain->context, c);
    budget->trace_runs = w.trace_runs;
    memcpy(budget->spent, w.spent, sizeof w.spent);
    memcpy(budget->exhausted, w.exhausted, sizeof w.exhausted);
    arena_end_aside(b->arena, &before);
    evaluation_check(budget);
}

void explain_rules(struct evaluation *b, const struct policy_outcome *o,
                   const struct policy_explain *explain)
{
    evaluation_check(b);
    outcome_check(o);
    struct nearest nearest = {0};
    b->trace_runs = CEL_TRACE_RUNS_MAX;
    b->budget = BUDGET_VOTES;
    /* it runs all conditions again, those of rules that do not apply, too; no decision waits for it */
    b->steps = POLICY_STEPS_MAX;
    memset(b->spent, 0, sizeof b->spent);
    memset(b->exhausted, 0, sizeof b->exhausted);
    struct evaluation shadow = *b;
    for (size_t i = 0; i < b->set->rule_count; i++) {
        const struct set_rule *r = &b->set->rules[i];
        struct policy_considered c = {.policy_name = r->rule->document->name,
                                      .rule_id = r->rule->id,
                                      .verdict = r->rule->decision,
                                      .shadow = r->shadow};
        if (r->shadow) {
            consider_shadow(b, &shadow, r, &c, explain);
            continue;
        }
        consider(b, r, &nearest, &c);
        explain->considered(explain->context, &c);
    }
    if (o->verdict != VERDICT_ALLOW && explain->nearest != NULL)
        tell_nearest(b, &nearest, o, explain);
}
