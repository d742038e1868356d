/* lint.c - what is legal and probably wrong.
 *
 * Warnings only: a document with them loads. Each is something that an author would want to be
 * asked about: a permission wider than it looks, or words that have no effect. */
#include "policy/document.h"

static const struct place rules_place = {.key = {.bytes = "rules", .size = 5}};

static void warn(struct policy_problems *problems, const struct policy_document *d,
                 const struct rule *rule, const char *member, const char *message)
{
    struct place item = {.parent = &rules_place, .index = (size_t)(rule - d->rules)};
    struct place at = {.parent = &item, .key = str_from(member)};
    problem_add(problems, member == NULL ? &item : &at, rule->line, rule->column, "%s", message);
}

static bool has_bare_star(const struct selector *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->globs[i].kind == GLOB_ANY) return true;
    return false;
}

static void lint_bare_stars(const struct policy_document *d, const struct rule *rule,
                            struct policy_problems *ret)
{
    if (rule->decision != VERDICT_ALLOW) return;
    if (has_bare_star(&rule->actions))
        warn(ret, d, rule, "actions", "a bare * allows every action there will ever be");
    if (has_bare_star(&rule->agents))
        warn(ret, d, rule, "agents", "a bare * allows every agent, also those to come");
    if (has_bare_star(&rule->users))
        warn(ret, d, rule, "users", "a bare * allows every user, also those to come");
}

/* A permitting pattern with `*` never matches a name with other characters than the plain ones,
 * so one that demands such a character never matches at all. */
static void lint_unmatchable(const struct policy_document *d, const struct rule *rule,
                             const char *member, const struct selector *s,
                             struct policy_problems *ret)
{
    if (rule->folds) return;
    for (size_t i = 0; i < s->count; i++) {
        bool odd = false;
        for (size_t k = 0; k < s->globs[i].text.size; k++)
            odd |= s->globs[i].text.bytes[k] != '*' &&
                   glob_is_odd(str_of(s->globs[i].text.bytes + k, 1));
        if (odd && s->globs[i].kind != GLOB_EXACT)
            warn(ret, d, rule, member,
                 "never matches: a permitting pattern with * matches only names of "
                 "[A-Za-z0-9._:/@+-]");
    }
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

/* Limits that count something else than they seem to. */
static void lint_limit(const struct policy_document *d, const struct rule *rule,
                       struct policy_problems *ret)
{
    const struct limit_terms *t = rule->limit;
    if (t == NULL) return;
    bool agents = rule->agents.count > 0 || !rule->names_subject;
    bool people = rule->users.count > 0 || rule->role_count > 0 || !rule->names_subject;
    if (t->per == PER_ACTOR && !agents)
        warn(
            ret, d, rule, "limit",
            "counts all people together: per actor tells agents apart, and the rule is for people; "
            "per: user counts each");
    if (t->per == PER_USER && !people)
        warn(ret, d, rule, "limit",
             "counts all agents together: per user tells people apart, and the rule is for agents; "
             "per: actor counts each");
    if (t->sum_count > 0 && str_equal(t->sum[0], STR("resource")) &&
        (t->sum_count == 2 || !str_equal(t->sum[1], STR("properties"))))
        warn(ret, d, rule, "limit",
             "is over at once: a resource has numbers only in its properties, as in "
             "resource.properties.amount");
}

/* Every name that `narrow` matches, `wide` matches too: read as a text, the `*` of the narrow one
 * can only be taken by a `*` of the wide one. Sound, not complete. */
static bool covers(const struct glob *wide, const struct glob *narrow)
{
    return str_glob(wide->text, narrow->text, true);
}

static bool covered_by(const struct rule *deny, const struct rule *rule)
{
    for (size_t i = 0; i < rule->actions.count; i++) {
        bool covered = false;
        for (size_t k = 0; k < deny->actions.count && !covered; k++)
            covered = covers(&deny->actions.globs[k], &rule->actions.globs[i]);
        if (!covered) return false;
    }
    return true;
}

/* Rules that a deny for everyone in the same document always beats. Bounded: this is quadratic. */
static void lint_beaten(const struct policy_document *d, struct policy_problems *ret)
{
    size_t looked_at = 0;
    for (size_t i = 0; i < d->rule_count; i++) {
        const struct rule *deny = &d->rules[i];
        if (deny->decision != VERDICT_DENY || deny->names_subject || deny->resources.count > 0)
            continue;
        for (size_t k = 0; k < d->rule_count && looked_at < 1000000;
             k++, looked_at += d->rules[k - 1].actions.count) {
            if (k == i || d->rules[k].decision == VERDICT_DENY || !covered_by(deny, &d->rules[k]))
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

void policy_lint(const struct policy_document *d, struct policy_problems *ret)
{
    *ret = (struct policy_problems){0};
    for (size_t i = 0; i < d->rule_count; i++) {
        const struct rule *rule = &d->rules[i];
        lint_bare_stars(d, rule, ret);
        lint_unmatchable(d, rule, "actions", &rule->actions, ret);
        lint_unmatchable(d, rule, "agents", &rule->agents, ret);
        lint_unmatchable(d, rule, "users", &rule->users, ret);
        lint_unmatchable(d, rule, "resources", &rule->resources, ret);
        lint_without_effect(d, rule, ret);
        lint_limit(d, rule, ret);
    }
    lint_beaten(d, ret);
    problems_sort(ret);
}
