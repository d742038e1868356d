/* refusal.c - errors that refuse only a new document.
 *
 * A document in force must load as long as it is stored, in every later version. So a new, stricter
 * rule of the language is not an error of the reader. It is a pass over the loaded document, which
 * runs when a document is checked, put or applied. For stored documents /healthz of the platform
 * has the results of the passes, so that the author can correct the document before the next put.
 *
 * A new refusal is one row in `passes`. A pass reports with problem_add() and changes nothing. */
#include "policy/refusal.h"

#include "base/check.h"
#include "policy/condition.h"
#include "policy/problem.h"

/* A test whose conditions cost more than they may has no result, and no test runs after the one
 * that spent the budget of all. */
static void refuse_unpaid_tests(const struct policy_document *d, struct policy_problems *ret)
{
    const struct policy_test_result *r = d->unpaid_test;
    if (r == NULL) return;
    check(r->is_unpaid && r->index < d->test_count);
    struct place list = {.key = STR("tests")}, item = {.parent = &list, .index = r->index};
    problem_add(ret, &item, r->line, r->column, "%s", r->message);
}

/* Expressions that cel-go's parser or checker refuses; see is_strict in cel.h. */
static void refuse_loose_expressions(const struct policy_document *d, struct policy_problems *ret)
{
    struct cel_environment environment = cel_policy_environment();
    struct cel_problems problems;
    environment.is_strict = true;
    for (const struct condition *c = d->conditions; c != NULL; c = c->next) {
        enum err err = cel_examine(c->text, &environment, &problems);
        for (size_t i = 0; err == ERR_INVALID_POLICY && i < problems.count; i++) {
            const struct cel_problem *p = &problems.list[i];
            bool is_here = c->is_in_line && p->line == 1;
            problem_add(ret, NULL, c->line, c->column + (is_here ? p->column - 1 : 0), "%s",
                        p->message);
        }
    }
}

static refusal_pass *const passes[] = {
    refuse_vain_masks, refuse_unpaid_tests, refuse_loose_expressions, NULL, /* the end */
};

void policy_refusals(const struct policy_document *d, struct policy_problems *ret)
{
    *ret = (struct policy_problems){0};
    for (size_t i = 0; passes[i] != NULL; i++) passes[i](d, ret);
    problems_sort(ret);
}

enum err policy_load_new(struct str name, struct str text, struct policy_document **ret,
                         struct policy_problems *problems)
{
    struct policy_document *d;
    enum err err = policy_load(name, text, &d, problems);
    if (err != ERR_OK) return err;
    check(problems->count == 0);
    policy_refusals(d, problems);
    if (problems->count > 0) {
        policy_document_release(d);
        return ERR_INVALID_POLICY;
    }
    *ret = d;
    return ERR_OK;
}
