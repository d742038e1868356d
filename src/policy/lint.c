/* lint.c - warnings about text that is legal but probably wrong.
 *
 * A document with warnings loads. Each warning is about a permission that is wider than it seems,
 * or about words without effect. */
#include <stdio.h>

#include "base/check.h"
#include "cel/lint.h"
#include "policy/condition.h"

static const struct place rules_place = {.key = {.bytes = "rules", .size = 5}};

static void warn_there(struct policy_problems *problems, const struct policy_document *d,
                       const struct rule *rule, const char *member, unsigned line, unsigned column,
                       const char *message)
{
    check(rule >= d->rules && rule < d->rules + d->rule_count);
    struct place item = {.parent = &rules_place, .index = (size_t)(rule - d->rules)};
    struct place at = {.parent = &item, .key = str_from(member)};
    problem_add(problems, member == NULL ? &item : &at, line, column, "%s", message);
}

static void warn(struct policy_problems *problems, const struct policy_document *d,
                 const struct rule *rule, const char *member, const char *message)
{
    warn_there(problems, d, rule, member, rule->line, rule->column, message);
}

static void warn_of_glob(struct policy_problems *problems, const struct policy_document *d,
                         const struct rule *rule, const char *member, const struct glob_place *g,
                         const char *message)
{
    check(rule >= d->rules && rule < d->rules + d->rule_count);
    check(g->line > 0);
    struct place item = {.parent = &rules_place, .index = (size_t)(rule - d->rules)},
                 list = {.parent = &item, .key = str_from(member)},
                 at = {.parent = &list, .index = g->index};
    problem_add(problems, &at, g->line, g->column, "%s", message);
}

static void lint_bare_stars(const struct policy_document *d, const struct rule *rule,
                            struct policy_problems *ret)
{
    if (rule->decision != VERDICT_ALLOW) return;
    if (rule->actions.star != NULL)
        warn_of_glob(ret, d, rule, "actions", rule->actions.star,
                     "a bare * allows every action there will ever be");
    if (rule->agents.star != NULL)
        warn_of_glob(ret, d, rule, "agents", rule->agents.star,
                     "a bare * allows every agent, also those to come");
    if (rule->users.star != NULL)
        warn_of_glob(ret, d, rule, "users", rule->users.star,
                     "a bare * allows every user, also those to come");
}

static void lint_vain(const struct policy_document *d, const struct rule *rule, const char *member,
                      const struct selector *s, struct policy_problems *ret)
{
    for (const struct glob_place *v = s->vain; v != NULL; v = v->next)
        warn_of_glob(ret, d, rule, member, v,
                     "never matches: a permitting pattern with * matches only names of "
                     "[A-Za-z0-9._:/@+-]");
}

static void lint_without_effect(const struct policy_document *d, const struct rule *rule,
                                struct policy_problems *ret)
{
    bool permits = rule->decision == VERDICT_ALLOW || rule->decision == VERDICT_COMPUTE;
    bool agents = rule->agents.count > 0 || !rule->names_subject;
    if (rule->has_own_gate && rule->decision == VERDICT_DENY)
        warn(ret, d, rule, "confidence", "has no effect: a deny has no gate");
    if (rule->has_own_gate && !agents)
        warn(ret, d, rule, "confidence",
             "has no effect: gates are for agents, and the rule is for people");
    bool limit_asks = rule->limit != NULL && rule->limit->over == VERDICT_HUMAN_REVIEW;
    if (rule->has_review && permits && !limit_asks && (rule->gate == NULL || !agents))
        warn(ret, d, rule, "review", "has no effect: nothing in this rule asks a person");
}

/* agents, users and roles are alternatives; an author who names an agent and a role may mean both. */
static void lint_subjects(const struct policy_document *d, const struct rule *rule,
                          struct policy_problems *ret)
{
    if (rule->agents.count > 0 && rule->role_count > 0)
        warn(ret, d, rule, "roles",
             "is an alternative to agents: the rule is for these agents, for whomever they act, "
             "and for people with these roles; write two rules, or acting_for in a when");
}

/* Patterns that mean something else than they seem to. */
static void lint_doubts(const struct policy_document *d, struct policy_problems *ret)
{
    for (const struct doubt *doubt = d->doubts; doubt != NULL; doubt = doubt->next) {
        check(ret->count < POLICY_PROBLEMS_MAX);
        ret->list[ret->count++] = doubt->problem;
    }
    check(ret->count <= d->doubt_count);
    ret->more = d->doubt_count - ret->count;
}

/* Limits that count something else than they seem to. */
static void lint_limit(const struct policy_document *d, const struct rule *rule,
                       struct policy_problems *ret)
{
    const struct limit_terms *t = rule->limit;
    if (t == NULL) return;
    bool agents = rule->agents.count > 0 || !rule->names_subject;
    bool people = rule->users.count > 0 || rule->role_count > 0 || !rule->names_subject;
    if (t->per == PER_ACTOR && !agents)
        warn(ret, d, rule, "limit",
             "counts all people together: per actor counts agents, and the rule is for people; "
             "per: user counts each");
    if (t->per == PER_USER && !people)
        warn(ret, d, rule, "limit",
             "counts all agents together: per user counts people, and the rule is for agents; "
             "per: actor counts each");
    if (t->sum_count > 0 && str_equal(t->sum[0], STR("resource")) &&
        (t->sum_count == 2 || !str_equal(t->sum[1], STR("properties"))))
        warn(ret, d, rule, "limit",
             "is over at once: a resource has numbers only in its properties, as in "
             "resource.properties.amount");
}

/* Each rule is compared with each, and at worst a whole pattern with a whole name, which is
 * quadratic twice. The bound is in steps of about a nanosecond. Rules beyond it get no warning. */
enum { LOOKED_AT_MOST = 100000000 };

static size_t steps_of(struct str pattern, struct str text)
{
    return (1 + pattern.size) * (1 + text.size);
}

/* Whether `wide` matches every name that `narrow` matches. `narrow` is matched as a text, in which
 * only a `*` of `wide` can match a `*`. Sound, not complete. */
static bool covers(const struct glob *wide, const struct glob *narrow)
{
    return str_glob(wide->text, narrow->text, true);
}

/* Also false if *looked_at reaches its maximum before the end. */
static bool covered_by(const struct rule *deny, const struct rule *rule, size_t *looked_at)
{
    for (size_t i = 0; i < rule->actions.count; i++) {
        bool covered = false;
        for (size_t k = 0; k < deny->actions.count && !covered; k++) {
            const struct glob *wide = &deny->actions.globs[k], *narrow = &rule->actions.globs[i];
            if (*looked_at >= LOOKED_AT_MOST) return false;
            *looked_at += steps_of(wide->text, narrow->text);
            covered = covers(wide, narrow);
        }
        if (!covered) return false;
    }
    return true;
}

/* Whether the rule applies to its actions for every subject, resource and argument. */
static bool denies_everyone(const struct rule *rule)
{
    return rule->decision == VERDICT_DENY && !rule->names_subject && rule->resources.count == 0 &&
           rule->when == NULL;
}

/* Whether claims alone give the role, as far as this document has it. */
static bool is_by_claims(const struct policy_document *d, struct str name)
{
    for (size_t i = 0; i < d->role_count; i++)
        if (str_equal(d->roles[i].name, name))
            return d->roles[i].claim_count > 0 && d->roles[i].count == 0;
    return false;
}

/* Roles that only a verified token gives, where there may be none. */
static void lint_claims(const struct policy_document *d, const struct rule *rule,
                        struct policy_problems *ret)
{
    char message[200];
    for (size_t i = 0; i < rule->review.by_count; i++) {
        if (rule->review.proof != POLICY_PROOF_ANY || !is_by_claims(d, rule->review.by[i]))
            continue;
        snprintf(message, sizeof message,
                 "only claims give the role \"%.*s\", so only people who sign in at an identity "
                 "provider can approve; proof: oidc makes that visible",
                 STR_FORMAT(rule->review.by[i]));
        warn(ret, d, rule, "review", message);
        break;
    }
    for (size_t i = 0; i < rule->role_count; i++) {
        if (!is_by_claims(d, rule->roles[i])) continue;
        snprintf(
            message, sizeof message,
            "only claims give the role \"%.*s\", and the user of a request has none: name people",
            STR_FORMAT(rule->roles[i]));
        warn(ret, d, rule, "roles", message);
        break;
    }
}

/* Rules that a deny for everyone in the same document always overrides. */
static void lint_beaten(const struct policy_document *d, struct policy_problems *ret)
{
    size_t looked_at = 0;
    for (size_t i = 0; i < d->rule_count; i++) {
        const struct rule *deny = &d->rules[i];
        if (!denies_everyone(deny)) continue;
        for (size_t k = 0; k < d->rule_count && looked_at < LOOKED_AT_MOST; k++, looked_at++) {
            if (k == i || d->rules[k].decision == VERDICT_DENY ||
                !covered_by(deny, &d->rules[k], &looked_at))
                continue;
            char message[160];
            struct buf out = buf_over(message, sizeof message - 1);
            buf_printf(&out, "never decides: rule %.*s denies all of it to everyone",
                       STR_FORMAT(deny->id));
            message[out.size] = '\0';
            warn(ret, d, &d->rules[k], NULL, message);
        }
    }
}

/* A safe call that is denied to everyone makes the compute a deny. */
static void lint_safe_calls(const struct policy_document *d, struct policy_problems *ret)
{
    size_t looked_at = 0;
    for (size_t i = 0; i < d->rule_count; i++) {
        const struct rule *deny = &d->rules[i];
        if (!denies_everyone(deny)) continue;
        for (size_t k = 0; k < d->rule_count && looked_at < LOOKED_AT_MOST; k++, looked_at++) {
            const struct rule *rule = &d->rules[k];
            if (rule->decision != VERDICT_COMPUTE) continue;
            check(rule->safe_tool.size > 0);
            bool denied = false;
            for (size_t g = 0; g < deny->actions.count && !denied; g++) {
                denied = str_glob(deny->actions.globs[g].text, rule->safe_tool, true);
                looked_at += steps_of(deny->actions.globs[g].text, rule->safe_tool);
            }
            if (!denied) continue;
            char message[160];
            struct buf out = buf_over(message, sizeof message - 1);
            buf_printf(&out, "always a deny: rule %.*s denies the safe tool to everyone",
                       STR_FORMAT(deny->id));
            message[out.size] = '\0';
            warn(ret, d, rule, "compute", message);
        }
    }
}

/* ---- expressions ---- */

struct expression {
    const struct policy_document *document;
    const struct rule *rule;
    const char *member; /* "when" */
    const struct condition *condition;
    struct policy_problems *problems;
    uint64_t *folding_left; /* of the document */
};

/* In columns of the document, if the document has the expression exactly as it was read. */
static void warn_at(const struct expression *e, const struct cel_remark *r, const char *more)
{
    check(e->condition != NULL && r->line > 0);
    const struct condition *c = e->condition;
    bool is_in_line = r->line == 1 && c->is_in_line;
    char message[320];
    struct buf out = buf_over(message, sizeof message - 1);
    buf_printf(&out, "%s%s", r->message, more);
    if (r->line > 1)
        buf_printf(&out, " (at line %u, column %u of the expression)", r->line, r->column);
    else if (!is_in_line)
        buf_printf(&out, " (at column %u of the expression)", r->column);
    message[out.size] = '\0';
    warn_there(e->problems, e->document, e->rule, e->member, c->line,
               is_in_line ? c->column + r->column - 1 : c->column, message);
}

/* Whether a selector can match a name; a selector that the rule does not have matches all. */
static bool lets_pass(const struct selector *s, struct str text, bool folds)
{
    struct arena arena;
    struct name name;
    if (s->count == 0) return true;
    arena_init(&arena, 1024, 1 << 20);
    bool passes = !name_prepare(&name, text, &arena) || selector_match(s, &name, folds);
    arena_fini(&arena);
    return passes;
}

/* Compares the condition's requirement for a name with the rule's own selectors. */
static bool can_be(const struct rule *rule, enum cel_policy_variable variable, struct str wanted)
{
    bool agents = rule->agents.count > 0 || !rule->names_subject;
    bool people = rule->users.count > 0 || rule->role_count > 0 || !rule->names_subject;
    switch (variable) {
    case CEL_ACTION:
    case CEL_TOOL: return lets_pass(&rule->actions, wanted, rule->folds);
    case CEL_ACTOR:
        if (wanted.size == 0 || !agents) return wanted.size == 0 ? people : false;
        return lets_pass(&rule->agents, wanted, rule->folds);
    case CEL_USER:
        if (wanted.size == 0 || !people) return wanted.size == 0 ? agents : false;
        return rule->role_count > 0 || lets_pass(&rule->users, wanted, rule->folds);
    case CEL_ROLES: return people;
    default: return true;
    }
}

static void tell_demand(const struct expression *e, const struct cel_remark *r)
{
    static const char *const names[CEL_POLICY_VARIABLES] = {[CEL_ACTION] = "action",
                                                            [CEL_TOOL] = "tool",
                                                            [CEL_ACTOR] = "actor",
                                                            [CEL_USER] = "user",
                                                            [CEL_ROLES] = "roles"};
    struct cel_remark told = *r;
    if (can_be(e->rule, r->variable, r->wanted)) return;
    check(r->variable < CEL_POLICY_VARIABLES && names[r->variable] != NULL);
    int shown = r->wanted.size > 60 ? 60 : (int)r->wanted.size;
    snprintf(told.message, sizeof told.message,
             "can never be true: the rule's selectors leave no %s \"%.*s\"", names[r->variable],
             shown, r->wanted.bytes);
    warn_at(e, &told, "");
}

static void take_remark(void *context, const struct cel_remark *r)
{
    const struct expression *e = context;
    bool is_when = strcmp(e->member, "when") == 0, allows = e->rule->decision == VERDICT_ALLOW;
    bool restricts = e->rule->decision == VERDICT_DENY || e->rule->decision == VERDICT_HUMAN_REVIEW;
    switch (r->kind) {
    case CEL_REMARK_NEGATION:
        if (is_when && allows) warn_at(e, r, "");
        return;
    case CEL_REMARK_SLIPS:
        if (is_when && restricts && !r->negated) warn_at(e, r, "");
        return;
    case CEL_REMARK_LOOSE:
        if (is_when && (r->negated ? restricts : allows)) warn_at(e, r, "");
        return;
    case CEL_REMARK_VALUE:
    case CEL_REMARK_ARITHMETIC: warn_at(e, r, ""); return;
    case CEL_REMARK_NEVER:
        if (is_when) warn_at(e, r, allows ? ", so the rule never applies" : "");
        return;
    case CEL_REMARK_DEMAND:
        if (is_when) tell_demand(e, r);
        return;
    }
}

static void lint_expression(struct expression *e, const struct condition *c)
{
    e->condition = c;
    /* a check costs about as much as compiling it */
    if (c != NULL) cel_lint(c->text, e->folding_left, take_remark, e);
}

static void lint_expressions(const struct policy_document *d, const struct rule *rule,
                             uint64_t *folding_left, struct policy_problems *ret)
{
    struct expression e = {
        .document = d, .rule = rule, .problems = ret, .folding_left = folding_left};
    e.member = "when";
    lint_expression(&e, rule->when);
    e.member = "limit";
    if (rule->limit != NULL) lint_expression(&e, rule->limit->sum_value);
    e.member = "compute";
    for (const struct template *t = rule->templates; t != NULL; t = t->next)
        for (size_t i = 0; i < t->count; i++) lint_expression(&e, t->parts[i].value);
}

void policy_lint(const struct policy_document *d, struct policy_problems *ret)
{
    *ret = (struct policy_problems){0};
    uint64_t folding_left = DOCUMENT_FOLDING_MAX;
    lint_doubts(d, ret);
    for (size_t i = 0; i < d->rule_count; i++) {
        const struct rule *rule = &d->rules[i];
        lint_bare_stars(d, rule, ret);
        lint_vain(d, rule, "actions", &rule->actions, ret);
        lint_vain(d, rule, "agents", &rule->agents, ret);
        lint_vain(d, rule, "users", &rule->users, ret);
        lint_vain(d, rule, "resources", &rule->resources, ret);
        lint_subjects(d, rule, ret);
        lint_without_effect(d, rule, ret);
        lint_limit(d, rule, ret);
        lint_claims(d, rule, ret);
        lint_expressions(d, rule, &folding_left, ret);
    }
    lint_beaten(d, ret);
    lint_safe_calls(d, ret);
    problems_sort(ret);
}
