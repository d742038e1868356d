/* explain.c - every rule of a tenant, and why it applies to a request or does not.
 *
 * Walks all rules, not what the index proposes: it is asked by people, who want to know why a
 * rule stayed silent. The outcome itself comes from the same evaluation as ever. */
#include "policy/condition.h"
#include "policy/evaluate.h"

enum { PATTERNS_SHOWN = 8 };

static struct str patterns_text(struct ballot *b, const struct selector *s)
{
    char text[512];
    struct buf out = buf_over(text, sizeof text);
    for (size_t i = 0; i < s->count && i < PATTERNS_SHOWN; i++) {
        struct str written = s->globs[i].written;
        if (i > 0) buf_put_literal(&out, ", ");
        buf_put(&out, written.size <= 60 ? written : str_of(written.bytes, 60));
    }
    if (s->count > PATTERNS_SHOWN) buf_printf(&out, " and %zu more", s->count - PATTERNS_SHOWN);
    size_t wrong;
    struct str shown = buf_view(&out);
    if (!str_is_utf8(shown, &wrong))
        shown.size = wrong; /* a name cut in the middle of a character */
    return arena_copy(b->arena, shown);
}

static struct str mismatch(struct ballot *b, const char *selector, struct str name,
                           const struct selector *s)
{
    struct str shown = patterns_text(b, s);
    return arena_printf(b->arena, "%s: %.*s does not match [%.*s]", selector, STR_FORMAT(name),
                        STR_FORMAT(shown));
}

static struct str role_names(struct ballot *b, const struct rule *rule)
{
    struct str list = STR("");
    for (size_t i = 0; i < rule->role_count && i < PATTERNS_SHOWN; i++)
        list = arena_printf(b->arena, "%.*s%s%.*s", STR_FORMAT(list), i == 0 ? "" : ", ",
                            STR_FORMAT(rule->roles[i]));
    return list;
}

static struct str why_not_subject(struct ballot *b, const struct rule *rule)
{
    const struct policy_request *q = b->request;
    if (q->kind == SUBJECT_AGENT) {
        if (rule->agents.count > 0) return mismatch(b, "agents", q->actor, &rule->agents);
        return STR("the rule is for people only");
    }
    if (rule->role_count > 0)
        return arena_printf(b->arena, "roles: %.*s has none of [%.*s]", STR_FORMAT(q->user),
                            STR_FORMAT(role_names(b, rule)));
    if (rule->users.count > 0) return mismatch(b, "users", q->user, &rule->users);
    return STR("the rule is for agents only");
}

static struct str why_not_resource(struct ballot *b, const struct rule *rule)
{
    if (str_is_absent(b->request->resource)) return STR("resources: the request names none");
    return mismatch(b, "resources", b->request->resource, &rule->resources);
}

static struct str why_applies_unlimited(struct ballot *b, const struct set_rule *r)
{
    const struct rule *rule = r->rule;
    enum verdict gate;
    const char *missing = rule->resources.count > 0 && str_is_absent(b->request->resource)
                              ? "applies, because the request names no resource"
                              : "applies";
    if (!gate_votes(b, r, &gate)) return str_from(missing);
    struct str reason = gate_reason(b, rule, gate);
    return arena_printf(b->arena, "%s; its gate votes %s: %.*s", missing, verdict_name(gate),
                        STR_FORMAT(reason));
}

static struct str why_applies(struct ballot *b, const struct set_rule *r)
{
    struct str why = why_applies_unlimited(b, r);
    if (r->rule->limit == NULL || str_is_absent(why)) return why;
    return arena_printf(b->arena, "%.*s; its limit is %.*s", STR_FORMAT(why),
                        STR_FORMAT(r->rule->limit->told));
}

/* `when: args.amount > 500 is false`, or why it could not be evaluated and what that means. */
static void explain_condition(struct ballot *b, const struct set_rule *r, struct policy_considered *c)
{
    const struct rule *rule = r->rule;
    struct str text = rule->when->text, failure;
    if (text.size > 200) text.size = 200;
    size_t wrong;
    if (!str_is_utf8(text, &wrong)) text.size = wrong;
    switch (condition_holds(b, rule->when, &failure)) {
    case CONDITION_FALSE: c->why = arena_printf(b->arena, "when: %.*s is false", STR_FORMAT(text)); return;
    case CONDITION_TRUE: {
        struct str why = why_applies(b, r);
        c->applies = true;
        c->why = arena_printf(b->arena, "when: %.*s is true; %.*s", STR_FORMAT(text), STR_FORMAT(why));
        return;
    }
    case CONDITION_FAILED: break;
    }
    c->applies = rule->decision != VERDICT_ALLOW;
    const char *meaning = rule->decision == VERDICT_ALLOW     ? "so the rule is left out"
                          : rule->decision == VERDICT_COMPUTE ? "so it is a deny"
                                                              : "so the rule applies";
    c->why = arena_printf(b->arena, "when: %.*s cannot be evaluated (%.*s), %s", STR_FORMAT(text), STR_FORMAT(failure), meaning);
}

void explain_rules(struct ballot *b, const struct policy_explain *explain)
{
    for (size_t i = 0; i < b->set->rule_count; i++) {
        const struct set_rule *r = &b->set->rules[i];
        struct policy_considered c = {.policy_name = r->rule->document->name,
                                      .rule_id = r->rule->id,
                                      .verdict = r->rule->decision,
                                      .shadow = r->shadow};
        if (!rule_matches_action(b, r->rule)) {
            c.why = mismatch(b, "actions", b->request->action, &r->rule->actions);
        } else if (!rule_matches_subject(b, r)) {
            c.why = why_not_subject(b, r->rule);
        } else if (!rule_matches_resource(b, r->rule)) {
            c.why = why_not_resource(b, r->rule);
        } else if (r->rule->when != NULL) {
            explain_condition(b, r, &c);
        } else {
            c.applies = true;
            c.why = why_applies(b, r);
        }
        if (str_is_absent(c.why)) c.why = STR("there was not enough memory to say why");
        explain->considered(explain->context, &c);
    }
}
