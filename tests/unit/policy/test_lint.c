/* Tests of the lints of expressions, and of rules that can never apply. */
#include "unit/policy/support.h"

static struct policy_problems lint(const char *text)
{
    struct policy_problems p;
    struct policy_document *d = load_named("doc", text);
    policy_lint(d, &p);
    policy_document_release(d);
    return p;
}

/* The lints of one rule with that condition. */
static struct policy_problems lint_when(const char *decision, const char *when)
{
    char text[1024];
    snprintf(
        text, sizeof text,
        "rules:\n  - {id: a, agents: [bot], actions: [pay, 'get_*'], decision: %s, when: '%s'}\n",
        decision, when);
    return lint(text);
}

static void show(const struct policy_problems *p)
{
    for (size_t i = 0; i < p->count; i++)
        print_error("got %s: %s\n", p->list[i].path, p->list[i].message);
}

/* Exactly one lint, about `when`, that says this. */
static void assert_lint(const char *decision, const char *when, const char *message)
{
    struct policy_problems p = lint_when(decision, when);
    if (p.count != 1 || !has_problem(&p, message)) {
        print_error("%s\n", when);
        show(&p);
    }
    assert_int_equal(p.count, 1);
    assert_string_equal(p.list[0].path, "rules[0].when");
    assert_int_equal(p.list[0].line, 2);
    assert_true(has_problem(&p, message));
}

static void assert_clean(const char *decision, const char *when)
{
    struct policy_problems p = lint_when(decision, when);
    if (p.count > 0) {
        print_error("%s\n", when);
        show(&p);
    }
    assert_int_equal(p.count, 0);
}

/* ---- patterns ---- */

struct told {
    const char *path;
    unsigned line, column;
};

/* These, in this order, and each says so. */
static void assert_told(const struct policy_problems *p, const struct told *told, size_t count,
                        const char *message)
{
    assert_int_equal(p->count, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(p->list[i].path, told[i].path);
        assert_int_equal(p->list[i].line, told[i].line);
        assert_int_equal(p->list[i].column, told[i].column);
        assert_non_null(strstr(p->list[i].message, message));
    }
}

static void a_pattern_that_matches_nothing_is_told_where_it_stands(void **state)
{
    (void)state;
    struct policy_problems p = lint("rules:\n"
                                    "  - id: a\n"
                                    "    agents: [bot, 'b o*']\n"
                                    "    actions:\n"
                                    "      - pay\n"
                                    "      - 'say *'\n"
                                    "      - say hi\n"
                                    "      - \"*\\u00e9\"\n"
                                    "    resources: ['a b:*']\n"
                                    "    decision: allow\n"
                                    "  - {id: b, actions: ['say *'], decision: deny}\n");
    static const struct told told[] = {{"rules[0].agents[1]", 3, 19},
                                       {"rules[0].actions[1]", 6, 9},
                                       {"rules[0].actions[3]", 8, 9},
                                       {"rules[0].resources[0]", 9, 17}};
    assert_told(&p, told, 4, "]: never matches: ");
}

/* The first of each list: what it allows, a second one does not widen. */
static void a_bare_star_is_told_where_it_stands(void **state)
{
    (void)state;
    struct policy_problems p = lint("rules:\n"
                                    "  - id: a\n"
                                    "    agents: [bot, '*']\n"
                                    "    users: ['*']\n"
                                    "    actions:\n"
                                    "      - pay\n"
                                    "      - say hi\n"
                                    "      - '**'\n"
                                    "      - '*'\n"
                                    "    decision: allow\n"
                                    "  - {id: b, actions: ['*'], decision: human_review}\n");
    static const struct told told[] = {
        {"rules[0].agents[1]", 3, 19}, {"rules[0].users[0]", 4, 13}, {"rules[0].actions[2]", 8, 9}};
    assert_told(&p, told, 3, "]: a bare * allows every ");
}

static void an_agent_beside_a_role_is_told_to_be_an_or(void **state)
{
    (void)state;
    struct policy_problems p =
        lint("rules:\n"
             "  - {id: a, agents: [bot], roles: [finance], actions: [pay], decision: allow}\n"
             "  - {id: b, agents: [bot], users: [carol], actions: [pay], decision: allow}\n"
             "  - {id: c, users: [carol], roles: [finance], actions: [pay], decision: allow}\n"
             "roles: {finance: [carol]}\n");
    assert_int_equal(p.count, 1);
    assert_string_equal(p.list[0].path, "rules[0].roles");
    assert_true(has_problem(
        &p, "is an alternative to agents: the rule is for these agents, for whomever they act"));
}

static void a_role_by_claims_alone_is_noted_where_no_token_is_asked_for(void **state)
{
    (void)state;
    struct policy_problems p = lint(
        "roles: {finance: {claims: {groups: [finance, 'fin*']}},\n"
        "        legal: {people: [lena], claims: {groups: [legal]}}}\n"
        "rules:\n"
        "  - {id: a, actions: [pay], decision: human_review, review: {by: [legal, finance]}}\n"
        "  - {id: b, actions: [pay], decision: human_review, review: {by: [finance], proof: oidc}}\n"
        "  - {id: c, actions: [pay], decision: human_review, review: {by: [legal]}}\n"
        "  - {id: d, roles: [finance], actions: [pay], decision: allow}\n"
        "  - {id: e, roles: [legal], actions: [pay], decision: allow}\n");
    assert_int_equal(p.count, 3);
    assert_string_equal(p.list[0].path, "roles.finance.claims.groups[1]");
    assert_string_equal(p.list[1].path, "rules[0].review");
    assert_string_equal(p.list[2].path, "rules[3].roles");
    assert_true(has_problem(&p, "a * is no pattern here"));
    assert_true(
        has_problem(&p, "only claims give the role \"finance\", so only people who sign in"));
    assert_true(has_problem(&p, "and the user of a request has none: name people"));
}

/* ---- negated tests ---- */

static void an_allow_that_rests_on_something_being_left_out_is_told(void **state)
{
    (void)state;
    assert_lint("allow", "!has(args.force)",
                "has(args.force) is negated: it permits what leaves that out");
    assert_lint("allow", "args.n < 5 && !has(context.force)", "has(context.force) is negated");
    assert_lint("allow", "!(has(args.force) || args.n > 5)", "has(args.force) is negated");
    assert_lint("allow", "!(\"force\" in args)", "\"force\" in args is negated");
    assert_lint("allow", "has(args.force) == false", "has(args.force) is negated");
    assert_lint("allow", "has(args.force) != true", "has(args.force) is negated");
    assert_lint("allow", "!has(request.args.force)", "is negated");
    assert_lint("allow", "!has(request[\"context\"].force)", "is negated");
    assert_lint("allow", "has(args.n) ? args.n < 5 : true", "has(args.n) is negated");
    assert_lint("allow", "has(args.force) ? false : args.n < 5", "has(args.force) is negated");
    assert_lint("allow", "args.items.all(i, !has(i.force))", "has(i.force) is negated");
    assert_lint("allow", "cel.bind(a, args.inner, !has(a.force))", "has(a.force) is negated");
}

static void an_allow_that_says_what_something_is_not_is_told(void **state)
{
    (void)state;
    assert_lint("allow", "!args.force",
                "args.force is negated: an agent chooses its args and context");
    assert_lint("allow", "args.env != \"prod\"", "args.env != \"prod\" is a negated test");
    assert_lint("allow", "!(args.env == \"prod\")", "args.env == \"prod\" is negated");
    assert_lint("allow", "!(args.env in [\"prod\", \"live\"])", "is negated");
    assert_lint("allow", "!args.path.startsWith(\"/etc\")",
                "args.path.startsWith(\"/etc\") is negated");
    assert_lint("allow", "!args.path.matches(\"^/etc\")", "is negated");
    assert_lint("allow", "args.list.all(x, x != \"prod\")", "x != \"prod\" is a negated test");
    assert_lint("allow", "!args.list.exists(x, x == \"prod\")", "x == \"prod\" is negated");
    assert_lint("allow", "args.path.lowerAscii() != \"prod\"", "is a negated test");
    assert_lint("allow", "args[\"env\"] != \"prod\"", "is a negated test");
}

static void what_has_to_be_there_is_no_negated_test(void **state)
{
    (void)state;
    assert_clean("allow", "has(args.ticket) && args.ticket.startsWith(\"T-\")");
    assert_clean("allow", "args.force == false");
    assert_clean("allow", "!(args.force != false)");
    assert_clean("allow", "!(args.n > 5)");
    assert_clean("allow", "!(args.n > 5 || args.n < 1)");
    assert_clean("allow", "!!has(args.ticket)");
    assert_clean("allow", "has(args.n) ? args.n < 5 : false");
    assert_clean("allow", "!has(resource.id)");
    assert_clean("allow", "actor != \"root\" && tenant != \"prod\"");
    assert_clean("allow", "now.getHours() != 3");
    assert_clean("allow", "args.list.exists(x, x == \"a\")");
}

static void what_restricts_may_rest_on_absence(void **state)
{
    (void)state;
    assert_clean("deny", "!has(args.ticket)");
    assert_clean("human_review", "args.env != \"test\"");
}

/* ---- arithmetic ---- */

static void a_number_of_json_with_an_int_is_told(void **state)
{
    (void)state;
    assert_lint(
        "allow", "args.amount * 2 < 500",
        "args.amount * 2 always fails: a number of JSON is a double, and 2 is an int; write 2.0");
    assert_lint("deny", "100 - args.amount > 5.0", "100 is an int; write 100.0");
    assert_lint("deny", "args.a * args.b + 1 > 5.0", "1 is an int; write 1.0");
    assert_lint("deny", "args.a * 2 * args.b > 5.0", "args.a * 2 always fails"); /* once */
    assert_lint("deny", "args.n % 2 == 0", "write int(args.n)");
    assert_lint("deny", "args.n * size(args.list) > 5.0", "write double(size(args.list))");
    assert_lint("deny", "args.n * -1 > 5.0", "write -1.0");
    assert_lint("deny", "context.n / 2u > 5.0", "write double(2u)");
    assert_lint("deny", "args.items.exists(i, i.price * 2 > 9.0)", "i.price * 2 always fails");
    assert_lint("deny", "resource.properties.n + 1 > 5.0", "write 1.0");
}

static void sums_and_safe_arguments_are_looked_at_too(void **state)
{
    (void)state;
    struct policy_problems p =
        lint("rules:\n"
             "  - id: a\n    agents: [bot]\n    actions: [pay]\n    decision: human_review\n"
             "    limit: {per: actor, window: 1h, sum: args.n * 2, max: 5}\n"
             "  - id: b\n    agents: [bot]\n    actions: [write]\n    decision: compute\n"
             "    compute: {tool: safe, args: {n: '${args.n + 1}', deep: {x: ['a ${args.m * 3} "
             "b']}}}\n");
    if (p.count != 3) show(&p);
    assert_int_equal(p.count, 3);
    assert_string_equal(p.list[0].path, "rules[0].limit");
    assert_true(has_problem(&p, "args.n * 2 always fails"));
    assert_true(has_problem(&p, "args.n + 1 always fails"));
    assert_true(has_problem(&p, "args.m * 3 always fails"));
}

static void arithmetic_that_works_is_not_told(void **state)
{
    (void)state;
    assert_clean("allow", "args.amount * 2.0 < 500");
    assert_clean("allow", "int(args.n) % 2 == 0");
    assert_clean("allow", "args.a * args.b < 5.0");
    assert_clean("allow", "size(args.list) + 1 < 5");
    assert_clean("allow", "now.getHours() + 1 < 5");
    assert_clean("allow", "args.list[0] == \"a\" && args.name + \"x\" == \"yx\"");
    assert_clean("allow", "args.list.map(i, size(string(i)) * 2).exists(n, n == 4)");
}

/* ---- never ---- */

static void a_condition_that_is_never_true_is_told(void **state)
{
    (void)state;
    assert_lint("allow", "1 > 2", "is always false, so the rule never applies");
    assert_lint("allow", "args.n < 5 && false", "is always false");
    assert_lint("allow", "args.n > 500 && args.n < 100",
                "nothing that args.n can be is left by args.n < 100, so the rule never applies");
    assert_lint("deny", "args.n > 5 && args.m > 1 && 5 >= args.n",
                "nothing that args.n can be is left");
    assert_lint("deny", "double(args.n) == 5.0 && double(args.n) == 6.0",
                "nothing that double(args.n) can");
    assert_lint("deny", "args.n >= 5.0 && args.n < 5", "nothing that args.n can be");
    assert_lint("deny", "size(args.x) > 5 && size(args.x) < 3", "nothing that size(args.x) can be");
    assert_clean("allow", "args.n >= 5 && args.n <= 5");
    assert_clean("allow", "args.n > 500 || args.n < 100");
    assert_clean("allow", "args.n > 5 && args.m < 5");
    assert_clean("allow", "size(args.x) + size(args.y) > 5 && size(args.x) + size(args.y) < 7");
    assert_clean("allow", "args.n > 1 && args.n > 5 && args.n < 6 && 3 < args.n");
}

static void a_condition_that_its_selectors_exclude_is_told(void **state)
{
    (void)state;
    assert_lint("allow", "action == \"refund\" && args.n < 5",
                "the rule's selectors leave no action \"refund\"");
    assert_lint("allow", "\"bob\" == actor", "leave no actor \"bob\"");
    assert_lint("allow", "user == \"carol\"", "leave no user \"carol\"");
    assert_lint("allow", "\"finance\" in roles", "leave no roles \"finance\"");
    assert_clean("allow", "action == \"get_x\" && actor == \"bot\" && user == \"\"");
    assert_clean("allow", "tool == \"pay\"");
    assert_clean("allow", "action == \"refund\" || args.n < 5");
    assert_clean("allow", "tenant == \"x\" && acting_for == \"y\"");
}

static void a_deny_with_a_condition_beats_nothing_always(void **state)
{
    (void)state;
    struct policy_problems p =
        lint("rules:\n"
             "  - {id: a, agents: [bot], actions: [pay], decision: allow}\n"
             "  - {id: b, actions: ['*'], when: args.n > 5, decision: deny}\n");
    assert_int_equal(p.count, 0);
    p = lint("rules:\n"
             "  - {id: a, agents: [bot], actions: [pay], decision: allow}\n"
             "  - {id: b, actions: ['*'], decision: deny}\n");
    assert_true(has_problem(&p, "never decides: rule b denies all of it to everyone"));
}

/* 3,000 patterns beside 300 rules at half a thousand steps each: not all are compared. */
static void comparing_rules_with_rules_has_an_end(void **state)
{
    (void)state;
    static char text[200000];
    struct buf out = buf_over(text, sizeof text - 1);
    buf_put_literal(&out, "rules:\n  - {id: first, agents: [b], actions: [y], decision: allow}\n");
    buf_put_literal(&out, "  - {id: no, decision: deny, actions: [y");
    for (int i = 0; i < 3000; i++) buf_printf(&out, ", '*aaaa%d'", i);
    buf_put_literal(&out, "]}\n");
    for (int i = 0; i < 300; i++)
        buf_printf(&out, "  - {id: r%d, agents: [b], decision: allow, actions: [x%059d]}\n", i, i);
    buf_put_literal(&out, "  - {id: last, agents: [b], actions: [y], decision: allow}\n");
    assert_false(out.overflow);
    text[out.size] = '\0';
    struct policy_problems p = lint(text);
    assert_int_equal(p.count, 1);
    assert_string_equal(p.list[0].path, "rules[0]");
}

static void a_safe_tool_that_is_denied_to_everyone_is_told(void **state)
{
    (void)state;
    struct policy_problems p = lint(
        "rules:\n"
        "  - {id: a, agents: [bot], actions: [w], decision: compute, compute: {tool: Drop_x}}\n"
        "  - {id: b, actions: ['drop_*'], decision: deny}\n");
    assert_int_equal(p.count, 1);
    assert_string_equal(p.list[0].path, "rules[0].compute");
    assert_true(has_problem(&p, "always a deny: rule b denies the safe tool to everyone"));
}

/* Exactly one lint: there, and with these words at its end. */
static void assert_lint_at(const char *text, unsigned line, unsigned column, const char *end)
{
    struct policy_problems p = lint(text);
    show(&p);
    assert_int_equal(p.count, 1);
    assert_int_equal(p.list[0].line, line);
    assert_int_equal(p.list[0].column, column);
    size_t size = strlen(p.list[0].message), end_size = strlen(end);
    assert_true(size >= end_size);
    assert_string_equal(p.list[0].message + size - end_size, end);
}

#define RULE "rules:\n  - id: a\n    agents: [bot]\n    actions: [pay]\n"

static void a_lint_of_an_expression_is_told_where_it_stands(void **state)
{
    (void)state;
    assert_lint_at(RULE "    decision: allow\n    when: args.x > 1.0 && args.n * 2 < 5\n", 6, 27,
                   "write 2.0");
    assert_lint_at(RULE "    decision: compute\n"
                        "    compute: {tool: safe, args: {n: 'x${args.n + 1}'}}\n",
                   6, 41, "write 1.0");
    assert_lint_at(RULE "    decision: allow\n    when: |\n      args.x > 1.0\n"
                        "      && args.n * 2 < 5\n",
                   6, 11, "write 2.0 (at line 2, column 4 of the expression)");
    assert_lint_at(RULE "    decision: allow\n    when: 'args.x == ''y'' && args.n * 2 < 5'\n", 6,
                   11, "write 2.0 (at column 18 of the expression)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_that_matches_nothing_is_told_where_it_stands),
        cmocka_unit_test(a_bare_star_is_told_where_it_stands),
        cmocka_unit_test(an_agent_beside_a_role_is_told_to_be_an_or),
        cmocka_unit_test(a_role_by_claims_alone_is_noted_where_no_token_is_asked_for),
        cmocka_unit_test(an_allow_that_rests_on_something_being_left_out_is_told),
        cmocka_unit_test(an_allow_that_says_what_something_is_not_is_told),
        cmocka_unit_test(what_has_to_be_there_is_no_negated_test),
        cmocka_unit_test(what_restricts_may_rest_on_absence),
        cmocka_unit_test(a_number_of_json_with_an_int_is_told),
        cmocka_unit_test(sums_and_safe_arguments_are_looked_at_too),
        cmocka_unit_test(arithmetic_that_works_is_not_told),
        cmocka_unit_test(a_condition_that_is_never_true_is_told),
        cmocka_unit_test(a_condition_that_its_selectors_exclude_is_told),
        cmocka_unit_test(a_deny_with_a_condition_beats_nothing_always),
        cmocka_unit_test(comparing_rules_with_rules_has_an_end),
        cmocka_unit_test(a_safe_tool_that_is_denied_to_everyone_is_told),
        cmocka_unit_test(a_lint_of_an_expression_is_told_where_it_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
