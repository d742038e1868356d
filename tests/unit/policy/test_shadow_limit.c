/* Tests of limits of shadow documents: an outcome has them beside those in force. */
#include "support.h"

static void limits_of_shadow_documents_are_given_apart(void **state)
{
    (void)state;
    struct tenant t;
    const char *const names[] = {"a", "b"};
    const char *const texts[] = {
        "mode: shadow\n"
        "rules:\n"
        "  - {id: s, agents: [bot], actions: [pay, ask, no, new], decision: allow,\n"
        "     limit: {window: 1h, sum: args.n, max: 9, over: human_review}}\n"
        "  - {id: d, agents: [bot], actions: [pay], decision: allow, limit: {window: 1h, count: 1}}\n",
        "rules:\n"
        "  - {id: own, agents: [bot], actions: [pay], decision: allow, limit: {window: 1h, count: 5}}\n"
        "  - {id: ask, actions: [ask], decision: human_review}\n"
        "  - {id: no, actions: [no], decision: deny}\n"};
    tenant_init(&t, 2, names, texts);
    struct policy_request q = agent_request("bot", "pay");
    assert_int_equal(ask_args(&t, &q, "{\"n\":9}"), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limit_count, 1);
    assert_int_equal(t.outcome.shadow_limit_count, 2);
    assert_true(str_is(t.outcome.shadow_limits[0].rule_id, "d")); /* a deny comes first */
    assert_int_equal(t.outcome.shadow_limits[1].amount, 9 * AMOUNT_SCALE);
    assert_true(t.outcome.shadow_limits[1].is_shadow && !t.outcome.limits[0].is_shadow);
    assert_false(t.outcome.has_would_have);
    policy_over_shadow_limit(&t.outcome.shadow_limits[1], &t.outcome);
    assert_int_equal(t.outcome.verdict, VERDICT_ALLOW);
    assert_int_equal(t.outcome.would_have, VERDICT_HUMAN_REVIEW);
    assert_string_equal(t.outcome.would_have_rule, "limit:s");
    assert_true(t.outcome.has_would_have && str_is(t.outcome.would_have_policy, "a"));
    static const struct {
        const char *action, *args;
        size_t count;
        const char *would_have;                       /* NULL: nothing else */
    } cases[] = {{"pay", "{\"n\":10}", 0, "limit:s"}, /* over by itself */
                 {"new", "{\"n\":9}", 1, "allow:s"},  /* only the shadow document permits it */
                 {"new", "{}", 0, "limit:s"},
                 {"ask", "{\"n\":1}", 0, NULL},
                 {"no", "{\"n\":1}", 0, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        q = agent_request("bot", cases[i].action);
        ask_args(&t, &q, cases[i].args);
        assert_int_equal(t.outcome.shadow_limit_count, cases[i].count);
        assert_int_equal(t.outcome.has_would_have, cases[i].would_have != NULL);
        if (cases[i].would_have != NULL)
            assert_string_equal(t.outcome.would_have_rule, cases[i].would_have);
    }
    q = agent_request("bot", "pay");
    ask_args(&t, &q, "{\"n\":1}");
    policy_over_limit(&t.outcome.limits[0], &t.arena, &t.outcome);
    assert_int_equal(t.outcome.shadow_limit_count, 0); /* the limit in force stops it there, too */
    tenant_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_of_shadow_documents_are_given_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
