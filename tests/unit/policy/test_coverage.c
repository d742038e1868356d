/* Tests of what is told about a document's own tests: each result, and the rules that none has met.
 */
#include "unit/policy/support.h"

struct told {
    size_t count;
    char text[512]; /* the ids, with spaces between */
};

static void note(void *context, const struct policy_unmatched *u)
{
    struct told *t = context;
    t->count++;
    size_t used = strlen(t->text);
    snprintf(t->text + used, sizeof t->text - used, "%s%zu:%.*s@%u", used > 0 ? " " : "", u->index,
             STR_FORMAT(u->rule_id), u->line);
}

/* The rules that are told as never matched: "index:id@line", with spaces between. */
static void assert_unmatched(const char *text, const char *expected)
{
    struct told t = {0};
    struct policy_document *d = load_named("doc", text);
    size_t count = policy_document_unmatched(d, note, &t);
    assert_int_equal(count, t.count);
    assert_string_equal(t.text, expected);
    policy_document_release(d);
}

static void a_rule_that_no_test_meets_is_told(void **state)
{
    (void)state;
    assert_unmatched("rules:\n"
                     "  - {id: a, agents: [bot], actions: [x], decision: allow}\n"
                     "  - {id: b, agents: [bot], actions: [y], decision: allow}\n"
                     "tests:\n"
                     "  - {request: {actor: bot, action: x}, expect: allow}\n",
                     "1:b@3");
}

static void without_tests_every_rule_is_told(void **state)
{
    (void)state;
    assert_unmatched("rules:\n"
                     "  - {id: a, agents: [bot], actions: [x], decision: allow}\n"
                     "  - {id: b, actions: [y], decision: deny}\n",
                     "0:a@2 1:b@3");
}

static void a_rule_that_is_outvoted_has_been_met(void **state)
{
    (void)state;
    assert_unmatched("rules:\n"
                     "  - {id: a, agents: [bot], actions: ['*'], decision: allow}\n"
                     "  - {id: b, actions: [drop], decision: deny}\n"
                     "tests:\n"
                     "  - {request: {actor: bot, action: drop}, expect: deny}\n",
                     "");
}

static void a_condition_has_to_be_true_or_fail_closed(void **state)
{
    (void)state;
    assert_unmatched(
        "rules:\n"
        "  - {id: small, agents: [bot], actions: [pay], when: args.n < 5, decision: allow}\n"
        "  - {id: large, agents: [bot], actions: [pay], when: args.n >= 5, decision: allow}\n"
        "  - {id: odd, actions: [pay], when: args.m == 1, decision: deny}\n"
        "  - {id: lax, agents: [bot], actions: [pay], when: args.m == 1, decision: allow}\n"
        "tests:\n"
        "  - {request: {actor: bot, action: pay, args: {n: 4}}, expect: deny, rule: 'deny:odd'}\n",
        "1:large@3 3:lax@5");
}

static void subjects_and_resources_have_to_match(void **state)
{
    (void)state;
    assert_unmatched(
        "roles: {finance: [carol]}\n"
        "rules:\n"
        "  - {id: people, roles: [finance], actions: [view], decision: allow}\n"
        "  - {id: agents, agents: [bot], actions: [view], decision: allow}\n"
        "  - {id: prod, resources: ['db:*'], actions: [view], decision: deny}\n"
        "tests:\n"
        "  - {request: {user_id: carol, action: view, resource: 'file:x'}, expect: allow}\n",
        "1:agents@4 2:prod@5");
}

static void a_request_outside_its_scope_meets_no_rule(void **state)
{
    (void)state;
    assert_unmatched(
        "rules:\n"
        "  - {id: a, agents: [bot], actions: [x], decision: allow}\n"
        "tests:\n"
        "  - {request: {actor: bot, action: x, scope: 'y'}, expect: deny, rule: 'token:scope'}\n",
        "0:a@2");
}

static void the_rules_and_roles_of_a_shadow_document_count(void **state)
{
    (void)state;
    assert_unmatched("mode: shadow\n"
                     "roles: {finance: [carol]}\n"
                     "rules:\n"
                     "  - {id: a, roles: [finance], actions: [x], decision: allow}\n"
                     "tests:\n"
                     "  - {request: {user_id: carol, action: x}, expect: allow}\n",
                     "");
}

/* ---- results ---- */

struct results {
    size_t count;
    struct policy_test_result list[4];
};

static void keep(void *context, const struct policy_test_result *r)
{
    struct results *results = context;
    results->list[results->count++] = *r;
}

static void a_document_with_failing_tests_can_be_loaded_to_hear_of_each(void **state)
{
    (void)state;
    static const char text[] = "rules:\n"
                               "  - {id: a, agents: [bot], actions: [x], decision: allow}\n"
                               "tests:\n"
                               "  - {request: {actor: bot, action: x}, expect: allow}\n"
                               "  - {request: {user_id: carol, action: y}, expect: allow}\n";
    struct policy_problems problems;
    struct policy_document *d = NULL;
    struct results results = {0};
    assert_int_equal(policy_load(STR("doc"), str_from(text), &d, &problems), ERR_INVALID_POLICY);
    assert_int_equal(policy_load_untested(STR("doc"), str_from(text), &d, &problems), ERR_OK);
    assert_int_equal(policy_document_tests(d, keep, &results), 1);
    assert_int_equal(results.count, 2);
    assert_true(results.list[0].passed);
    assert_false(results.list[1].passed);
    assert_int_equal(results.list[1].line, 5);
    assert_int_equal(results.list[1].column, 5);
    assert_string_equal(results.list[1].about, "y by carol");
    assert_string_equal(results.list[1].message, "expected allow, got deny by default:deny");
    policy_document_release(d);
}

static void what_is_wrong_otherwise_is_refused_untested_too(void **state)
{
    (void)state;
    struct policy_problems problems;
    struct policy_document *d = NULL;
    assert_int_equal(policy_load_untested(STR("doc"), STR("rules: [{id: a}]"), &d, &problems),
                     ERR_INVALID_POLICY);
    assert_true(problems.count > 0);
    assert_null(d);
}

static void a_long_name_is_cut_between_characters(void **state)
{
    (void)state;
    char text[1024], name[257];
    for (size_t i = 0; i < 254; i += 2) memcpy(name + i, "\xc3\xa9", 3); /* é */
    snprintf(text, sizeof text,
             "rules:\n  - {id: a, agents: [bot], actions: [x], decision: allow}\n"
             "tests:\n  - {request: {actor: %s, action: xx}, expect: deny}\n", /* an odd place to
                                                                                  cut at */
             name);
    struct policy_document *d = load_named("doc", text);
    struct results results = {0};
    size_t wrong;
    assert_int_equal(policy_document_tests(d, keep, &results), 0);
    assert_true(str_is_utf8(str_from(results.list[0].about), &wrong));
    policy_document_release(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_that_no_test_meets_is_told),
        cmocka_unit_test(without_tests_every_rule_is_told),
        cmocka_unit_test(a_rule_that_is_outvoted_has_been_met),
        cmocka_unit_test(a_condition_has_to_be_true_or_fail_closed),
        cmocka_unit_test(subjects_and_resources_have_to_match),
        cmocka_unit_test(a_request_outside_its_scope_meets_no_rule),
        cmocka_unit_test(the_rules_and_roles_of_a_shadow_document_count),
        cmocka_unit_test(a_document_with_failing_tests_can_be_loaded_to_hear_of_each),
        cmocka_unit_test(what_is_wrong_otherwise_is_refused_untested_too),
        cmocka_unit_test(a_long_name_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
