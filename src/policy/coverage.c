/* coverage.c - finds the rules that no test meets.
 *
 * A test meets a rule that applies to its request: the selectors match and the condition is true,
 * or fails in the way that makes the rule apply. The rule's vote need not decide, because an allow
 * beside a deny was evaluated as well. A request outside its own scope meets no rule, and neither
 * does the safe call of a compute. Each rule is evaluated until one test meets it. All of it may
 * cost as much as running the tests; when that is spent, the rest of the rules is reported as not
 * known. */
#include "base/check.h"
#include "base/limits.h"
#include "policy/condition.h"
#include "policy/evaluation.h"
#include "policy/set.h"

static bool applies(struct evaluation *b, const struct set_rule *r)
{
    const struct rule *rule = r->rule;
    if (!rule_matches_action(b, rule) || !rule_matches_subject(b, r) ||
        !rule_matches_resource(b, rule))
        return false;
    if (rule->when == NULL) return true;
    enum condition_result result = condition_holds(b, rule->when, NULL);
    return result == CONDITION_TRUE ||
           (result == CONDITION_FAILED && rule->decision != VERDICT_ALLOW);
}

enum { LOOK_COST = 5 }; /* at a rule's selectors */

/* Marks the rules that apply to one test's request; returns the cost. Ends when `most` is spent. */
static uint64_t mark(const struct policy_set *set, const struct policy_request *q,
                     struct arena *arena, bool *met, uint64_t most)
{
    uint64_t cost = 0;
    struct name action, subject, resource;
    struct evaluation b = {.set = set,
                           .request = q,
                           .arena = arena,
                           .steps = steps_of(q),
                           .action = &action,
                           .subject = &subject,
                           .resource = &resource};
    struct policy_outcome outcome;
    if (q->has_scope) {
        policy_evaluate(set, q, arena, NULL, &outcome);
        cost = outcome.cost;
        if (strcmp(outcome.rule, "token:scope") == 0) return cost;
    }
    if (!name_prepare(&action, q->action, arena) ||
        !name_prepare(&subject, q->kind == SUBJECT_USER ? q->user : q->actor, arena))
        return cost;
    for (size_t i = 0; i < set->rule_count && cost + b.spent[b.budget] <= most; i++) {
        const struct set_rule *r = &set->rules[i];
        size_t index = (size_t)(r->rule - r->rule->document->rules);
        check(index < r->rule->document->rule_count);
        if (met[index]) continue;
        met[index] = applies(&b, r);
        cost += LOOK_COST;
    }
    evaluation_check(&b);
    return cost + b.spent[b.budget];
}

/* False: some tests were not looked at. */
static bool mark_all(const struct policy_document *d, const struct policy_set *set, bool *met)
{
    struct arena arena;
    uint64_t cost = 0;
    arena_init(&arena, 16 << 10, LIMIT_REQUEST_ARENA_BYTES);
    for (size_t i = 0; i < d->test_count && cost <= LIMIT_POLICY_TESTS_STEPS; i++) {
        cost += mark(set, &d->tests[i].request, &arena, met, LIMIT_POLICY_TESTS_STEPS - cost);
        arena_reset(&arena);
    }
    arena_fini(&arena);
    return cost <= LIMIT_POLICY_TESTS_STEPS;
}

size_t policy_document_unmatched(const struct policy_document *d,
                                 void (*each)(void *context, const struct policy_unmatched *u),
                                 void *context)
{
    struct policy_set *set = NULL;
    struct arena arena;
    /* A set changes the reference count only, not the document. */
    struct policy_set_entry entry = {.document = (struct policy_document *)(uintptr_t)d,
                                     .version = 1};
    arena_init(&arena, 4096, 1 << 20);
    bool *met = arena_array(&arena, bool, d->rule_count + 1);
    bool all = true;
    /* If memory runs out, no rule counts as met. */
    if (d->test_count > 0 && met != NULL && set_build(&entry, 1, true, &set) == ERR_OK)
        all = mark_all(d, set, met);
    size_t count = 0;
    for (size_t i = 0; i < d->rule_count; i++) {
        const struct rule *rule = &d->rules[i];
        if (met != NULL && met[i]) continue;
        each(context, &(struct policy_unmatched){i, rule->id, !all, rule->line, rule->column});
        count++;
    }
    policy_set_destroy(set);
    arena_fini(&arena);
    check(count <= d->rule_count);
    return count;
}
