/* Tests of documents that are made from a peer's: what they decide, and what is not taken. */
#include "unit/policy/support.h"

static const char sample[] =
    "version: \"1.0\"\n"
    "roles:\n"
    "  manager:\n"
    "    allow: [view_invoices, approve_refunds]\n"
    "    deny: [delete_invoices]\n"
    "agent_scopes:\n"
    "  bot:\n"
    "    inherits: manager\n"
    "    constraints:\n"
    "      - max_refund_amount: 50.00\n"
    "      - require_human_approval_if_confidence_below: 0.90\n"
    "      - downgrade_to_read_only_if_confidence_below: 0.70\n"
    "      - hard_deny_if_confidence_below: 0.50\n"
    "    compute:\n"
    "      - {action: deploy_*, safe_tool: deploy, safe_args: {env: staging, cost: '${5}'}}\n"
    "    deny: [approve_all]\n";

struct imported {
    struct policy_import done;
    char text[1 << 16];
};

static void import(const char *text, struct imported *ret)
{
    struct policy_problems problems;
    struct buf out = buf_over(ret->text, sizeof ret->text - 1);
    enum err e = policy_import_lelu(str_from(text), &out, &ret->done, &problems);
    for (size_t i = 0; i < problems.count; i++)
        print_error("%u:%u: %s\n", problems.list[i].line, problems.list[i].column,
                    problems.list[i].message);
    assert_int_equal(e, ERR_OK);
    ret->text[out.size] = '\0';
}

static void assert_has(const struct imported *i, const char *part)
{
    if (strstr(i->text, part) == NULL) fail_msg("\"%s\" is not in:\n%s", part, i->text);
}

static void assert_has_not(const struct imported *i, const char *part)
{
    if (strstr(i->text, part) != NULL) fail_msg("\"%s\" is in:\n%s", part, i->text);
}

/* The tenant that has only what came of this text. */
static void tenant_of(struct tenant *t, const char *text)
{
    static struct imported i;
    import(text, &i);
    tenant_init_one(t, i.text);
}

static enum verdict ask_at(struct tenant *t, const char *actor, const char *action,
                           double confidence)
{
    struct policy_request q = agent_request(actor, action);
    q.has_confidence = true;
    q.confidence = confidence;
    return ask(t, &q);
}

static void an_agent_may_do_what_its_role_allows(void **state)
{
    (void)state;
    struct tenant t;
    tenant_of(&t, sample);
    assert_int_equal(ask_at(&t, "bot", "view_invoices", 0.95), VERDICT_ALLOW);
    assert_int_equal(ask_at(&t, "bot", "other", 1), VERDICT_DENY);
    assert_int_equal(ask_at(&t, "bot2", "view_invoices", 1), VERDICT_DENY);
    assert_int_equal(ask_at(&t, "bot", "delete_invoices", 1), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "deny:bot-deny");
    assert_int_equal(ask_at(&t, "bot", "APPROVE_ALL", 1), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "deny:bot-deny");
    tenant_fini(&t);
}

static void thresholds_become_a_gate(void **state)
{
    (void)state;
    struct tenant t;
    tenant_of(&t, sample);
    assert_int_equal(ask_at(&t, "bot", "view_invoices", 0.90), VERDICT_ALLOW);
    assert_int_equal(ask_at(&t, "bot", "view_invoices", 0.89), VERDICT_HUMAN_REVIEW);
    assert_int_equal(ask_at(&t, "bot", "view_invoices", 0.70), VERDICT_HUMAN_REVIEW);
    assert_int_equal(ask_at(&t, "bot", "view_invoices", 0.69), VERDICT_DENY);
    assert_int_equal(ask_agent(&t, "bot", "view_invoices"), VERDICT_DENY);
    tenant_fini(&t);
}

static void a_large_refund_asks_a_person(void **state)
{
    (void)state;
    struct tenant t;
    tenant_of(&t, sample);
    struct json amount = {.type = JSON_NUMBER, .number = 50, .key = STR("amount")};
    struct json args = {.type = JSON_OBJECT, .child = &amount, .count = 1};
    struct policy_request q = agent_request("bot", "approve_refunds");
    q.has_confidence = true;
    q.confidence = 1;
    assert_int_equal(ask(&t, &q), VERDICT_HUMAN_REVIEW); /* no amount that it could be */
    q.args = &args;
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    amount.number = 50.01;
    assert_int_equal(ask(&t, &q), VERDICT_HUMAN_REVIEW);
    tenant_fini(&t);
}

static void a_safe_call_is_taken_as_it_is(void **state)
{
    (void)state;
    struct tenant t;
    tenant_of(&t, sample);
    assert_int_equal(ask_at(&t, "bot", "deploy_app", 0.95), VERDICT_COMPUTE);
    assert_true(str_is(t.outcome.safe_tool, "deploy"));
    assert_true(str_is(json_text(t.outcome.safe_args, STR("cost")), "${5}"));
    tenant_fini(&t);
}

static void people_have_no_role_until_they_are_named(void **state)
{
    (void)state;
    static struct imported i;
    struct tenant t;
    import(sample, &i);
    tenant_init_one(&t, i.text);
    assert_int_equal(ask_user(&t, "carol", "view_invoices"), VERDICT_DENY);
    assert_has(&i, "# NOT TAKEN: the members of roles");
    tenant_fini(&t);
    tenant_init(&t, 2, (const char *const[]){"a", "b"},
                (const char *const[]){i.text, "roles: {manager: [carol]}\n"});
    assert_int_equal(ask_user(&t, "carol", "view_invoices"), VERDICT_ALLOW);
    assert_int_equal(ask_user(&t, "carol", "delete_invoices"), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "deny:manager-role-deny");
    tenant_fini(&t);
}

static void an_agent_without_a_role_may_do_nothing(void **state)
{
    (void)state;
    static struct imported i;
    struct tenant t;
    import("agent_scopes:\n  a: {deny: [x]}\n  b: {inherits: none, deny: [y]}\n", &i);
    assert_has(&i, "# NOT TAKEN: a inherits no role");
    assert_has(&i, "# NOT TAKEN: b inherits none, which is no role here");
    tenant_init_one(&t, i.text);
    assert_int_equal(ask_at(&t, "a", "z", 1), VERDICT_DENY);
    tenant_fini(&t);
}

static void a_restriction_that_is_not_known_asks_a_person(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "constraints: [{max_rows: 5}]", "constraints: [{hard_deny_if_confidence_below: 50}]",
        "constraints: {hard_deny_if_confidence_below: high}", "only_at_night: true"};
    for (size_t k = 0; k < 4; k++) {
        char text[256];
        struct tenant t;
        snprintf(text, sizeof text,
                 "roles: {m: {allow: [x]}}\nagent_scopes: {a: {inherits: m, %s}}\n", texts[k]);
        tenant_of(&t, text);
        assert_int_equal(ask_at(&t, "a", "x", 1), VERDICT_HUMAN_REVIEW);
        tenant_fini(&t);
    }
}

static void without_thresholds_the_peers_own_hold(void **state)
{
    (void)state;
    struct tenant t;
    tenant_of(&t, "roles: {m: {allow: [x]}}\nagent_scopes: {a: {inherits: m}}\nrules: [{match: "
                  "'get_*', decision: allow}]\n");
    assert_int_equal(ask_at(&t, "a", "x", 0.9), VERDICT_ALLOW);
    assert_int_equal(ask_at(&t, "a", "x", 0.8), VERDICT_HUMAN_REVIEW);
    assert_int_equal(ask_at(&t, "b", "get_x", 0.6), VERDICT_DENY);
    assert_int_equal(ask_agent(&t, "b", "get_x"), VERDICT_DENY);
    tenant_fini(&t);
}

static void the_order_of_thresholds_does_not_matter(void **state)
{
    (void)state;
    struct tenant t;
    tenant_of(&t,
              "roles: {m: {allow: [x]}}\n"
              "agent_scopes: {a: {inherits: m, constraints: {hard_deny_if_confidence_below: 0.95, "
              "require_human_approval_if_confidence_below: 0.5}}}\n");
    assert_int_equal(ask_at(&t, "a", "x", 0.95), VERDICT_ALLOW);
    assert_int_equal(ask_at(&t, "a", "x", 0.94), VERDICT_DENY);
    tenant_fini(&t);
}

/* The peer asks its own gate too, whatever the file says, and the stricter answer holds. */
static void no_threshold_of_the_file_is_looser_than_the_peers_own(void **state)
{
    (void)state;
    static const char *const looser[] = {"hard_deny_if_confidence_below",
                                         "require_human_approval_if_confidence_below",
                                         "downgrade_to_read_only_if_confidence_below"};
    for (size_t i = 0; i < sizeof looser / sizeof *looser; i++) {
        char text[300];
        struct tenant t;
        snprintf(text, sizeof text,
                 "roles: {m: {allow: [x]}}\nagent_scopes: {a: {inherits: m, constraints: {%s: "
                 "0.5}}}\n",
                 looser[i]);
        tenant_of(&t, text);
        assert_int_equal(ask_at(&t, "a", "x", 0.9), VERDICT_ALLOW);
        assert_int_equal(ask_at(&t, "a", "x", 0.75), VERDICT_HUMAN_REVIEW);
        assert_int_equal(ask_at(&t, "a", "x", 0.6), VERDICT_DENY);
        assert_int_equal(ask_agent(&t, "a", "x"), VERDICT_DENY);
        tenant_fini(&t);
    }
}

static void rules_for_all_are_taken(void **state)
{
    (void)state;
    struct tenant t;
    tenant_of(&t, "rules:\n"
                  "  - {id: pending, match: a, decision: deny, reason: 'no: # \"x\"'}\n"
                  "  - {id: r, match: b, decision: human_review}\n"
                  "  - {id: r, match: c, decision: compute, safe_tool: s}\n"
                  "  - {match: d, decision: allow, when: night}\n"
                  "  - {match: e, decision: deny, when: night}\n");
    assert_int_equal(ask_at(&t, "x", "a", 1), VERDICT_DENY);
    assert_true(str_is(t.outcome.reason, "no: # \"x\""));
    assert_string_equal(t.outcome.rule, "deny:pending-2");
    assert_int_equal(ask_at(&t, "x", "b", 1), VERDICT_HUMAN_REVIEW);
    assert_int_equal(ask_at(&t, "x", "c", 1), VERDICT_COMPUTE);
    assert_string_equal(t.outcome.rule, "compute:r-2");
    assert_int_equal(ask_at(&t, "x", "d", 1), VERDICT_DENY); /* it may be narrower than it looks */
    assert_string_equal(t.outcome.rule, "default:deny");
    assert_int_equal(ask_at(&t, "x", "e", 1), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "deny:e-rule");
    tenant_fini(&t);
}

static void a_name_cannot_become_anything_else(void **state)
{
    (void)state;
    static struct imported i;
    struct tenant t;
    import("roles: {\"m\\nrules: [{id: evil}]\": {allow: [\"x\\n  - id: evil\", \"true\", 'a, b', "
           "\"a \\u2028 e\", \"\\x85e\"]}}\n"
           "agent_scopes:\n"
           "  \"bot\\n  - id: evil\": {inherits: \"m\\nrules: [{id: evil}]\", deny: ['#', "
           "\"y]\\n\"]}\n"
           "  \"*\": {inherits: \"m\\nrules: [{id: evil}]\", deny: [z]}\n",
           &i);
    assert_has_not(&i, "\n  - id: evil");
    assert_has_not(&i, "\nrules: [");
    tenant_init_one(&t, i.text);
    assert_int_equal(ask_at(&t, "bot\n  - id: evil", "x\n  - id: evil", 1), VERDICT_ALLOW);
    assert_int_equal(ask_at(&t, "bot\n  - id: evil", "true", 1), VERDICT_ALLOW);
    assert_int_equal(ask_at(&t, "bot\n  - id: evil", "a, b", 1), VERDICT_ALLOW);
    assert_int_equal(ask_at(&t, "bot\n  - id: evil", "a \xe2\x80\xa8 e", 1), VERDICT_ALLOW);
    assert_int_equal(ask_at(&t, "bot\n  - id: evil",
                            "\xc2\x85"
                            "e",
                            1),
                     VERDICT_ALLOW);
    assert_int_equal(ask_at(&t, "other", "true", 1), VERDICT_DENY);
    assert_int_equal(ask_at(&t, "other", "z", 1), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "deny:_-deny");
    tenant_fini(&t);
}

static void what_is_no_such_file_is_refused_with_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
        unsigned line;
    } bad[] = {
        {"[1]", "has to be a map", 1},
        {"version: 1\n", "nothing in it that could become a rule", 1},
        {"roles: [a]\n", "has to be a map", 1},
        {"roles:\n  m: {allow: x}\n", "has to be a list", 2},
        {"roles:\n  m: {allow: [[x]]}\n", "has to be the name of an action", 2},
        {"agent_scopes:\n  a: 5\n", "has to be a map", 2},
        {"agent_scopes:\n  a: {inherits: [x]}\n", "has to be the name of a role", 2},
        {"agent_scopes:\n  a: {constraints: 5}\n", "has to be a list of constraints", 2},
        {"agent_scopes:\n  a: {compute: [{action: x}]}\n",
         "has to be a map with action and safe_tool", 2},
        {"rules:\n  - {match: x, decision: maybe}\n", "has to be a map with match and a decision",
         2},
        {"roles: &a {}\n", "anchor", 1},
        {"roles: {m: {allow: ['***a*b*c*d*e*f*g*h*i*j']}}\n", "the converted document is not valid",
         1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        static char space[1 << 16];
        struct buf out = buf_over(space, sizeof space);
        struct policy_problems problems;
        struct policy_import done;
        assert_int_equal(policy_import_lelu(str_from(bad[i].text), &out, &done, &problems),
                         ERR_INVALID_POLICY);
        if (!has_problem(&problems, bad[i].message))
            print_error("%s: %s\n", bad[i].text, problems.list[0].message);
        assert_true(has_problem(&problems, bad[i].message));
        assert_int_equal(problems.list[0].line, bad[i].line);
    }
}

static void a_full_buffer_is_told(void **state)
{
    (void)state;
    char space[64];
    struct buf out = buf_over(space, sizeof space);
    struct policy_problems problems;
    struct policy_import done;
    assert_int_equal(policy_import_lelu(str_from(sample), &out, &done, &problems), ERR_FULL);
}

static void a_role_that_is_not_known_whole_asks_a_person(void **state)
{
    (void)state;
    struct tenant t;
    static struct imported i;
    static const char text[] = "roles:\n  ops: {allow: [wipe], only_in: staging}\n"
                               "agent_scopes:\n  bot: {inherits: ops}\n";
    import(text, &i);
    assert_has(&i, "its role has a member only_in, which is not known here.");
    tenant_init_one(&t, i.text);
    assert_int_equal(ask_at(&t, "bot", "wipe", 1), VERDICT_HUMAN_REVIEW);
    tenant_fini(&t);
}

static void a_compute_of_an_agent_that_is_not_clear_is_left_out(void **state)
{
    (void)state;
#define COMPUTE "compute: [{action: wipe, safe_tool: look}]}\n"
    static const char by_role[] = "roles:\n  ops: {allow: [x], only_in: staging}\n"
                                  "agent_scopes:\n  bot: {inherits: ops, " COMPUTE;
    static const char *const texts[] = {
        by_role,
        "agent_scopes:\n  bot: {hours: night, deny: [z], " COMPUTE,
        "agent_scopes:\n  bot: {constraints: [{max_calls: 5}], deny: [z], " COMPUTE,
    };
#undef COMPUTE
    for (size_t k = 0; k < 3; k++) {
        struct tenant t;
        static struct imported i;
        import(texts[k], &i);
        assert_has(&i, "NOT TAKEN: the compute of wipe");
        tenant_init_one(&t, i.text);
        assert_int_equal(ask_at(&t, "bot", "wipe", 1), VERDICT_DENY);
        assert_string_equal(t.outcome.rule, "default:deny");
        tenant_fini(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_agent_may_do_what_its_role_allows),
        cmocka_unit_test(thresholds_become_a_gate),
        cmocka_unit_test(a_large_refund_asks_a_person),
        cmocka_unit_test(a_safe_call_is_taken_as_it_is),
        cmocka_unit_test(people_have_no_role_until_they_are_named),
        cmocka_unit_test(an_agent_without_a_role_may_do_nothing),
        cmocka_unit_test(a_restriction_that_is_not_known_asks_a_person),
        cmocka_unit_test(without_thresholds_the_peers_own_hold),
        cmocka_unit_test(the_order_of_thresholds_does_not_matter),
        cmocka_unit_test(no_threshold_of_the_file_is_looser_than_the_peers_own),
        cmocka_unit_test(rules_for_all_are_taken),
        cmocka_unit_test(a_name_cannot_become_anything_else),
        cmocka_unit_test(what_is_no_such_file_is_refused_with_its_place),
        cmocka_unit_test(a_full_buffer_is_told),
        cmocka_unit_test(a_role_that_is_not_known_whole_asks_a_person),
        cmocka_unit_test(a_compute_of_an_agent_that_is_not_clear_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
