/* refusal.c - what only a new document is refused for.
 *
 * A document that is in force must load as long as it is stored, in every later version. So a new
 * rule of the language that is stricter is not an error of the reader: it is a pass over the loaded
 * document, run when a document is checked, put or applied. Of a stored document the platform tells
 * what the passes find (`/healthz`), so that its author hears of it before the next put.
 *
 * A new refusal is one row in `passes`. A pass reports with problem_add() and changes nothing. */
#include "policy/refusal.h"

#include "policy/problem.h"

/* A test whose conditions cost more than they may says nothing, and none is run behind the one that
 * spent what all may cost together. */
static void refuse_unpaid_tests(const struct policy_document *d, struct policy_problems *ret)
{
    const struct policy_test_result *r = d->unpaid_test;
    if (r == NULL) return;
    struct place list = {.key = STR("tests")}, item = {.parent = &list, .index = r->index};
    problem_add(ret, &item, r->line, r->column, "%s", r->message);
}

static refusal_pass *const passes[] = {
    refuse_vain_masks, refuse_unpaid_tests, NULL, /* the end */
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
    policy_refusals(d, problems);
    if (problems->count > 0) {
        policy_document_release(d);
        return ERR_INVALID_POLICY;
    }
    *ret = d;
    return ERR_OK;
}
