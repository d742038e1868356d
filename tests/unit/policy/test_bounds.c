/* Tests of what conditions may cost: when a document is loaded, and all together in one decision.
 */
#include "unit/policy/support.h"

#include <inttypes.h>

#include "base/limits.h"

/* ---- regular expressions of a document ---- */

static char text[1 << 20];

/* `count` conditions with this pattern, one on each line from the second on. */
static void document_of(const char *pattern, size_t count)
{
    struct buf out = buf_over(text, sizeof text - 1);
    buf_put_literal(&out, "rules:\n");
    for (size_t i = 0; i < count; i++)
        buf_printf(&out,
                   "  - {id: r%zu, actions: [a], decision: deny, when: \"actor.matches('%s')\"}\n",
                   i, pattern);
    text[out.size] = '\0';
}

static void regular_expressions_of_a_document_are_counted(void **state)
{
    (void)state;
    document_of("a+b", 1000);
    policy_document_release(load_named("doc", text));
    document_of("a+b", 1001);
    struct policy_problems p = refused(text);
    assert_int_equal(p.count, 1);
    assert_int_equal(p.list[0].line, 1002);
    assert_true(p.list[0].column > 40);
    assert_true(has_problem(&p, "the limit is 1000 regular expressions, and this is one more"));
}

static void regular_expressions_of_a_document_are_bounded_in_size(void **state)
{
    (void)state;
    document_of("(x{9}){99}", 90);
    policy_document_release(load_named("doc", text));
    document_of("(x{9}){99}", 500); /* some 1100 instructions each */
    struct policy_problems p = refused(text);
    assert_true(p.list[0].line > 90 && p.list[0].line < 110);
    assert_true(
        has_problem(&p, "instructions together when they are compiled, and the limit is 100000"));
}

#define BACKSLASH "\\\\\\\\" /* of a pattern, in a text of CEL, in one of YAML */

static void their_unicode_classes_are_counted(void **state)
{
    (void)state;
    document_of(BACKSLASH BACKSLASH "pL" BACKSLASH "p{Greek}", 900); /* the first is none */
    policy_document_release(load_named("doc", text));
    document_of(BACKSLASH "p{Greek}" BACKSLASH "P{Thai}" BACKSLASH "pZ", 667);
    struct policy_problems p = refused(text);
    assert_int_equal(p.list[0].line, 668);
    assert_true(has_problem(&p, "have 2001 Unicode classes (\\p) together, and the limit is 2000"));
}

/* Finding out takes as long as compiling one that is not. */
static void those_that_are_too_large_count_too(void **state)
{
    (void)state;
    document_of("(" BACKSLASH "pL{9}){99}", 500);
    struct policy_problems p = refused(text);
    assert_true(has_problem(&p, "pattern too large"));
    assert_true(has_problem(&p, "and the limit is 100000"));
}

static void those_of_safe_arguments_and_sums_count_too(void **state)
{
    (void)state;
    struct buf out = buf_over(text, sizeof text - 1);
    buf_put_literal(&out, "rules:\n");
    for (size_t i = 0; i < 400; i++)
        buf_printf(&out,
                   "  - {id: r%zu, agents: [b], actions: [a], decision: compute, when: "
                   "actor.matches('a+'),\n"
                   "     compute: {tool: t, args: {x: \"${actor.matches('a+')}\"}},\n"
                   "     limit: {window: 1h, max: 1, sum: \"actor.matches('a+') ? 1.0 : 2.0\"}}\n",
                   i);
    text[out.size] = '\0';
    struct policy_problems p = refused(text);
    assert_true(has_problem(&p, "the limit is 1000 regular expressions, and this is one more"));
}

/* ---- all conditions of a decision ---- */

static char args_text[64 << 10];

/* {"l": [1, 2, …]} of `count` numbers, in an arena of its own. */
static const struct json *list_of(struct arena *arena, size_t count)
{
    struct buf out = buf_over(args_text, sizeof args_text);
    struct json *v = NULL;
    struct fault f;
    buf_put_literal(&out, "{\"l\":[");
    for (size_t i = 0; i < count; i++) buf_printf(&out, i == 0 ? "%zu" : ",%zu", i);
    buf_put_literal(&out, "]}");
    assert_int_equal(json_read(buf_view(&out), NULL, arena, &v, &f), ERR_OK);
    return v;
}

static bool says(const struct tenant *t, const char *part)
{
    return memmem(t->outcome.reason.bytes, t->outcome.reason.size, part, strlen(part)) != NULL;
}

/* So many rules with this decision and a condition that looks at all of args.l. */
static void rules_of(const char *head, const char *decision, size_t count)
{
    struct buf out = buf_over(text, sizeof text - 1);
    buf_printf(&out, "%srules:\n  - {id: base, agents: [bot], actions: [a], decision: allow}\n",
               head);
    for (size_t i = 0; i < count; i++)
        buf_printf(&out,
                   "  - {id: r%zu, agents: [bot], actions: [a], decision: %s, when: "
                   "\"args.l.all(x, x >= 0)\"}\n",
                   i, decision);
    text[out.size] = '\0';
}

static void a_decision_is_denied_where_its_conditions_cost_too_much_together(void **state)
{
    (void)state;
    struct tenant t;
    struct arena arena;
    struct policy_request q = agent_request("bot", "a");
    arena_init(&arena, 4096, 4 << 20);
    rules_of("", "allow", 2000);
    tenant_init_one(&t, text);
    q.args = list_of(&arena, 7000); /* each of them far below its own bound */
    assert_int_equal(ask(&t, &q), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "default:deny");
    assert_true(says(&t, "together cost more than one decision may"));
    q.args = list_of(&arena, 50);
    q.steps = POLICY_STEPS_MAX;
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    tenant_fini(&t);
    rules_of("", "allow", 10);
    tenant_init_one(&t, text);
    q.args = list_of(&arena, 7000);
    q.steps = POLICY_STEPS_MAX;
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    tenant_fini(&t);
    arena_fini(&arena);
}

static void looking_for_reviewers_and_at_the_safe_call_is_paid_too(void **state)
{
    (void)state;
    static const struct {
        const char *decision;
        size_t count;
        enum verdict few;
    } cases[] = {{"human_review", 60, VERDICT_HUMAN_REVIEW},
                 {"compute, compute: {tool: a, args: {l: '${args.l}'}}", 60, VERDICT_COMPUTE}};
    struct arena arena;
    struct policy_request q = agent_request("bot", "a");
    arena_init(&arena, 4096, 4 << 20);
    q.args = list_of(&arena, 7000);
    q.steps = POLICY_STEPS_MAX;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tenant t;
        rules_of("", cases[i].decision, cases[i].count / 3);
        tenant_init_one(&t, text);
        assert_int_equal(ask(&t, &q), cases[i].few);
        tenant_fini(&t);
        rules_of("", cases[i].decision, cases[i].count); /* once they are paid, but not twice */
        tenant_init_one(&t, text);
        assert_int_equal(ask(&t, &q), VERDICT_DENY);
        assert_true(says(&t, "together cost more than one decision may"));
        tenant_fini(&t);
    }
    arena_fini(&arena);
}

/* Whoever adds up what decisions cost is told all of it. */
static void what_the_safe_call_costs_is_told(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "rules: [{id: c, agents: [bot], actions: [a], decision: compute, compute: {tool: s, args: {l: '${args.l}'}}},\n"
        "        {id: s, agents: [bot], actions: [s], decision: allow}]",
        "rules: [{id: c, agents: [bot], actions: [a], decision: compute, compute: {tool: s, args: {l: '${args.l}'}}},\n"
        "        {id: s, agents: [bot], actions: [s], when: 'args.l.all(x, x >= 0)', decision: allow}]"};
    struct arena arena;
    struct policy_request q = agent_request("bot", "a");
    uint64_t costs[2];
    arena_init(&arena, 4096, 4 << 20);
    q.args = list_of(&arena, 100);
    q.steps = POLICY_STEPS_MAX;
    for (size_t i = 0; i < 2; i++) {
        struct tenant t;
        tenant_init_one(&t, texts[i]);
        assert_int_equal(ask(&t, &q), VERDICT_COMPUTE);
        costs[i] = t.outcome.cost;
        tenant_fini(&t);
    }
    assert_true(costs[1] > costs[0] + 100);
    arena_fini(&arena);
}

/* About 28,000 steps each. */
static void a_decision_may_cost_what_the_request_permits(void **state)
{
    (void)state;
    struct tenant t;
    struct arena arena;
    struct policy_request q = agent_request("bot", "a");
    arena_init(&arena, 4096, 4 << 20);
    q.args = list_of(&arena, 7000);
    rules_of("", "allow", 10);
    tenant_init_one(&t, text);
    assert_int_equal(ask(&t, &q), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "default:deny");
    assert_true(says(&t, "cost more than one decision may (100000 steps, policy.steps)"));
    assert_true(t.outcome.steps == POLICY_STEPS_DEFAULT);
    q.steps = 400000;
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    assert_true(t.outcome.steps > 200000 && t.outcome.steps < 400000);
    q.steps = UINT64_MAX; /* no more than the most */
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    tenant_fini(&t);
    arena_fini(&arena);
}

static void shadow_documents_have_what_is_left(void **state)
{
    (void)state;
    static char shadow[1 << 12];
    struct tenant t;
    struct arena arena;
    struct policy_request q = agent_request("bot", "a");
    arena_init(&arena, 4096, 4 << 20);
    q.args = list_of(&arena, 7000);
    rules_of("mode: shadow\n", "deny", 2);
    memcpy(shadow, text, sizeof shadow);
    rules_of("", "allow", 2);
    tenant_init(&t, 2, (const char *const[]){"a", "b"}, (const char *const[]){shadow, text});
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW); /* the shadow's second rule is not paid */
    assert_int_equal(t.outcome.would_have, VERDICT_DENY);
    assert_string_equal(t.outcome.would_have_rule, "default:deny");
    q.steps = 2 * POLICY_STEPS_DEFAULT;
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    assert_int_equal(t.outcome.would_have, VERDICT_DENY);
    assert_string_equal(t.outcome.would_have_rule, "deny:r0");
    tenant_fini(&t);
    arena_fini(&arena);
}

static void shadow_documents_pay_for_themselves(void **state)
{
    (void)state;
    static char shadow[1 << 20];
    struct tenant t;
    struct arena arena;
    struct policy_request q = agent_request("bot", "a");
    arena_init(&arena, 4096, 4 << 20);
    q.args = list_of(&arena, 7000);
    q.steps = POLICY_STEPS_MAX;
    rules_of("mode: shadow\n", "deny", 2000);
    memcpy(shadow, text, sizeof shadow);
    rules_of("", "allow", 10);
    tenant_init(&t, 2, (const char *const[]){"a", "b"}, (const char *const[]){shadow, text});
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    assert_true(t.outcome.has_would_have);
    assert_int_equal(t.outcome.would_have, VERDICT_DENY);
    assert_string_equal(t.outcome.would_have_rule, "default:deny");
    tenant_fini(&t);
    arena_fini(&arena);
}

static void shadow_documents_do_not_pay_for_others(void **state)
{
    (void)state;
    struct tenant t;
    struct arena arena;
    struct policy_request q = agent_request("bot", "a");
    arena_init(&arena, 4096, 4 << 20);
    q.args = list_of(&arena, 7000);
    q.steps = POLICY_STEPS_MAX;
    rules_of("", "allow", 2000);
    tenant_init(&t, 2, (const char *const[]){"a", "b"},
                (const char *const[]){"mode: shadow\nrules: [{id: s, agents: [bot], actions: [a], "
                                      "decision: allow, when: args.l.size() > 0}]",
                                      text});
    assert_int_equal(ask(&t, &q), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "default:deny");
    assert_true(says(&t, "together cost more than one decision may"));
    tenant_fini(&t);
    arena_fini(&arena);
}

static void safe_arguments_of_a_shadow_document_do_not_pay_for_others(void **state)
{
    (void)state;
    enum { ARGUMENTS = 300 };
    struct tenant t;
    struct arena arena;
    struct policy_request q = agent_request("bot", "a");
    arena_init(&arena, 4096, 4 << 20);
    q.args = list_of(&arena, 7000);
    q.steps = POLICY_STEPS_MAX;
    struct buf out = buf_over(text, sizeof text - 1);
    buf_put_literal(
        &out,
        "mode: shadow\nrules: [{id: s, agents: [bot], actions: [a], decision: compute, compute: {tool: b, args: {");
    for (size_t i = 0; i < ARGUMENTS; i++)
        buf_printf(&out, "%s x%zu: \"${args.l.all(x, x >= 0)}\"", i == 0 ? "" : ",", i);
    buf_put_literal(&out, "}}}]");
    text[out.size] = '\0';
    tenant_init(&t, 2, (const char *const[]){"a", "b"},
                (const char *const[]){
                    text, "rules: [{id: base, agents: [bot], actions: [a], decision: allow}]"});
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    assert_int_equal(t.outcome.would_have, VERDICT_DENY);
    assert_string_equal(t.outcome.would_have_rule, "default:deny");
    tenant_fini(&t);
    arena_fini(&arena);
}

static void shadow_documents_have_memory_of_their_own(void **state)
{
    (void)state;
    static char denies[1 << 14];
    struct buf many = buf_over(denies, sizeof denies - 1);
    buf_put_literal(&many, "mode: shadow\nrules:\n");
    for (size_t i = 0; i < 60; i++)
        buf_printf(&many,
                   "  - {id: d%zu, agents: ['*'], actions: ['*'], decision: deny, when: "
                   "'args.l.map(n, [n, n]).size() < 5'}\n",
                   i);
    denies[many.size] = '\0';
    const char *const shadows[] = {
        denies,
        "mode: shadow\nrules: [{id: s, agents: ['*'], actions: ['*'], decision: compute, compute: "
        "{tool: b, args: {x: \"${cel.bind(a, args.l, cel.bind(b, [a, a, a, a], [b, b, b, b]))}\"}}}]",
    };
    struct arena arena;
    struct policy_request q = agent_request("bot", "a");
    arena_init(&arena, 4096, 8 << 20);
    q.args = list_of(&arena, 9000);
    q.steps = POLICY_STEPS_MAX;
    for (size_t i = 0; i < sizeof shadows / sizeof *shadows; i++) {
        struct tenant t;
        struct policy_outcome o;
        struct arena request;
        tenant_init(
            &t, 2, (const char *const[]){"a", "b"},
            (const char *const[]){
                shadows[i], "rules: [{id: base, agents: [bot], actions: [a], decision: allow}]"});
        arena_init(&request, 64 << 10, LIMIT_REQUEST_ARENA_BYTES);
        policy_evaluate(t.set, &q, &request, NULL, &o);
        assert_int_equal(o.verdict, VERDICT_ALLOW);
        assert_string_equal(o.rule, "allow:base");
        assert_int_equal(o.would_have, VERDICT_DENY);
        assert_false(request.overflow); /* there is room for the record */
        assert_true(request.taken_bytes == 64 << 10);
        arena_fini(&request);
        tenant_fini(&t);
    }
    arena_fini(&arena);
}

static void sums_that_cost_too_much_are_over(void **state)
{
    (void)state;
    struct tenant t;
    struct arena arena;
    struct policy_request q = agent_request("bot", "a");
    arena_init(&arena, 4096, 4 << 20);
    q.args = list_of(&arena, 7000);
    q.steps = POLICY_STEPS_MAX;
    struct buf out = buf_over(text, sizeof text - 1);
    buf_put_literal(&out, "rules:\n");
    for (size_t i = 0; i < 100; i++)
        buf_printf(
            &out,
            "  - {id: r%zu, agents: [bot], actions: [a], decision: allow,\n"
            "     limit: {window: 1h, max: 9, sum: \"args.l.all(x, x >= 0) ? 1.0 : 2.0\"}}\n",
            i);
    text[out.size] = '\0';
    tenant_init_one(&t, text);
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limit_count, 100);
    assert_int_equal(t.outcome.limits[0].amount, 1000000);
    assert_int_equal(t.outcome.limits[99].amount, -1);
    tenant_fini(&t);
    arena_fini(&arena);
}

static void the_condition_of_an_allow_is_run_once(void **state)
{
    (void)state;
    struct tenant t;
    struct arena arena;
    struct policy_request q = agent_request("bot", "a");
    arena_init(&arena, 4096, 4 << 20);
    q.args = list_of(&arena, 2500);
    q.steps = POLICY_STEPS_MAX;
    tenant_init_one(
        &t, "rules:\n  - {id: r, agents: [bot], actions: [a], decision: allow, reason: Mine.,\n"
            "     when: 'args.l.map(x, x).size() > 0'}\n"
            "  - {id: d, agents: [bot], actions: [d], decision: deny, reason: No.,\n"
            "     when: 'args.l.map(x, x).size() > 0'}\n");
    arena_fini(&t.arena);
    arena_init(&t.arena, 4096, 64 << 10); /* where its list fits once */
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    assert_true(str_is(t.outcome.reason, "Mine."));
    q.action = STR("d");
    assert_int_equal(ask(&t, &q), VERDICT_DENY);
    assert_true(str_is(t.outcome.reason, "No."));
    tenant_fini(&t);
    arena_fini(&arena);
}

/* Rules as they are in rules_of(), and so many tests of `a` with a hundred numbers. */
static void tested_rules_of(const char *decision, size_t rules, size_t tests)
{
    rules_of("", decision, rules);
    struct buf out = buf_over(text, sizeof text - 1);
    out.size = strlen(text);
    buf_put_literal(&out, "tests:\n");
    for (size_t i = 0; i < tests; i++) {
        buf_printf(&out, "  - {request: {actor: bot, action: %s, args: {l: [", i == 0 ? "b" : "a");
        for (int k = 0; k < 100; k++) buf_printf(&out, k == 0 ? "%d" : ", %d", k);
        buf_printf(&out, "]}}, expect: %s}\n", i == 0 ? "deny" : decision);
    }
    assert_false(out.overflow);
    text[out.size] = '\0';
}

/* The problems of a text that is refused where it is new, and loads where it is stored. */
static struct policy_problems refused_as_new(void)
{
    struct policy_problems problems;
    struct policy_document *d = NULL;
    policy_document_release(load_named("doc", text));
    assert_int_equal(policy_load_new(STR("doc"), str_from(text), &d, &problems),
                     ERR_INVALID_POLICY);
    return problems;
}

static void tests_of_a_document_are_bounded_together(void **state)
{
    (void)state;
    tested_rules_of("human_review", 100, 200);
    policy_document_release(load_named("doc", text));
    tested_rules_of("human_review", 500, 1000);
    struct policy_problems p = refused_as_new();
    assert_int_equal(p.count, 1);
    assert_true(has_problem(&p, "the tests up to here cost more than all of a document may"));
    /* Rules without a condition cost something, too. */
    tested_rules_of("human_review", 3000, 0);
    for (char *at = text; (at = strstr(at, ", when: \"args.l.all(x, x >= 0)\"")) != NULL;)
        memset(at, ' ', strlen(", when: \"args.l.all(x, x >= 0)\""));
    text[strlen(text) - strlen("tests:\n")] = '\0';
    policy_document_release(load_named("doc", text));
    struct buf out = buf_over(text, sizeof text - 1);
    out.size = strlen(text);
    buf_put_literal(&out, "tests:\n");
    for (int i = 0; i < 1000; i++)
        buf_put_literal(&out, "  - {request: {actor: bot, action: a}, expect: human_review}\n");
    text[out.size] = '\0';
    p = refused_as_new();
    assert_int_equal(p.count, 1);
    assert_true(p.list[0].line > 3000);
}

/* Prices may rise in a later version: what is in force stays, and what is new is told. */
static void a_test_that_its_conditions_could_not_pay_is_no_reason_not_to_load(void **state)
{
    (void)state;
    struct buf out = buf_over(text, sizeof text - 1);
    buf_put_literal(&out, "rules:\n  - {id: r, agents: [bot], actions: [a], decision: allow, when: "
                          "\"args.l.all(x, args.l.all(y, args.l.all(z, true)))\"}\n"
                          "tests:\n  - {request: {actor: bot, action: a, args: {l: [0");
    for (int i = 1; i < 100; i++) buf_printf(&out, ", %d", i);
    buf_put_literal(&out, "]}}, expect: allow}\n");
    text[out.size] = '\0';
    struct policy_problems p = refused_as_new();
    assert_int_equal(p.count, 1);
    assert_int_equal(p.list[0].line, 4);
    assert_string_equal(p.list[0].path, "tests[0]");
    assert_true(has_problem(&p, "expected allow, got deny by default:deny"));
    /* One that fails for anything else is refused in either case. */
    buf_put_literal(&out, "  - {request: {actor: bot, action: b}, expect: allow}\n");
    text[out.size] = '\0';
    p = refused(text);
    assert_int_equal(p.count, 1);
    assert_int_equal(p.list[0].line, 5);
}

static void count_unknown(void *context, const struct policy_unmatched *u)
{
    *(size_t *)context += u->is_unknown;
}

static void looking_for_rules_that_no_test_meets_is_bounded(void **state)
{
    (void)state;
    size_t unknown = 0;
    tested_rules_of("human_review", 100, 200);
    struct policy_document *d = load_named("doc", text);
    policy_document_unmatched(d, count_unknown, &unknown);
    assert_int_equal(unknown, 0);
    policy_document_release(d);
    /* Each test asks each rule, since none applies; a run of 100,000 steps each. */
    struct buf out = buf_over(text, sizeof text - 1);
    buf_put_literal(&out, "rules:\n");
    for (int i = 0; i < 500; i++)
        buf_printf(&out,
                   "  - {id: r%d, agents: [bot], actions: [a], decision: allow, when: "
                   "\"args.l.all(x, args.l.all(y, args.l.all(z, true)))\"}\n",
                   i);
    buf_put_literal(&out, "tests:\n");
    for (int i = 0; i < 1000; i++) {
        buf_printf(&out, "  - {request: {actor: bot, action: a, args: {l: [");
        for (int k = 0; k < 60; k++) buf_printf(&out, k == 0 ? "%d" : ", %d", k);
        buf_put_literal(&out, "]}}, expect: deny}\n");
    }
    assert_false(out.overflow);
    text[out.size] = '\0';
    d = load_named("doc", text);
    assert_int_equal(policy_document_unmatched(d, count_unknown, &unknown), 500);
    assert_int_equal(unknown, 500);
    policy_document_release(d);
}

/* ---- rules of many patterns ---- */

/* What this agent's decision costs beside so many rules that are about others. */
static uint64_t cost_beside(size_t others)
{
    static const char *const same[] = {"*",  "b*",  "bo*",  "bot*", "bot-*", "bot-1",
                                       "*1", "*-1", "*t-1", "*o*",  "*-*",   "b*1"};
    struct tenant t;
    struct buf out = buf_over(text, sizeof text - 1);
    buf_put_literal(&out,
                    "rules:\n  - {id: mine, actions: [x], decision: allow, when: \"'a b c d e "
                    "f'.split(' ').exists(w, w == 'f')\", agents: [");
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        buf_printf(&out, "%s'%s'", i == 0 ? "" : ", ", same[i]);
    buf_put_literal(&out, "]}\n");
    for (size_t i = 0; i < others; i++)
        buf_printf(&out, "  - {id: r%zu, agents: [zz%zu], actions: [x], decision: allow}\n", i, i);
    text[out.size] = '\0';
    tenant_init_one(&t, text);
    assert_int_equal(ask_agent(&t, "bot-1", "x"), VERDICT_ALLOW);
    uint64_t cost = t.outcome.cost;
    tenant_fini(&t);
    return cost;
}

/* However the index tells rules apart. */
static void a_condition_is_paid_once_however_many_patterns_match(void **state)
{
    (void)state;
    uint64_t alone = cost_beside(0);
    assert_true(alone > 20);
    for (size_t others = 10; others <= 200; others += 95) {
        uint64_t cost = cost_beside(others);
        if (cost != alone) fail_msg("%zu others: %" PRIu64 ", not %" PRIu64, others, cost, alone);
    }
}

static uint64_t cost_of_many(size_t count, const char *actions)
{
    static char rules[64 << 10];
    struct buf out = buf_over(rules, sizeof rules - 1);
    struct tenant t;
    buf_put_literal(&out, "rules:\n");
    for (size_t i = 0; i < count; i++)
        buf_printf(&out, "  - {id: r-%zu, agents: [bot], actions: [%s], decision: allow}\n", i,
                   actions);
    assert_false(out.overflow);
    rules[out.size] = '\0';
    tenant_init_one(&t, rules);
    assert_int_equal(ask_agent(&t, "bot", "get_it"), VERDICT_ALLOW);
    uint64_t cost = t.outcome.cost;
    tenant_fini(&t);
    return cost;
}

/* However many there are. */
static void a_rule_is_looked_at_once_however_many_of_its_patterns_match(void **state)
{
    (void)state;
    for (size_t count = 20; count <= 500; count += 60) {
        uint64_t one = cost_of_many(count, "get_*"), two = cost_of_many(count, "get_*, '*_it'");
        assert_true(one > 0);
        if (two != one) fail_msg("%zu rules: %" PRIu64 ", not %" PRIu64, count, two, one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regular_expressions_of_a_document_are_counted),
        cmocka_unit_test(regular_expressions_of_a_document_are_bounded_in_size),
        cmocka_unit_test(their_unicode_classes_are_counted),
        cmocka_unit_test(those_that_are_too_large_count_too),
        cmocka_unit_test(those_of_safe_arguments_and_sums_count_too),
        cmocka_unit_test(a_decision_is_denied_where_its_conditions_cost_too_much_together),
        cmocka_unit_test(looking_for_reviewers_and_at_the_safe_call_is_paid_too),
        cmocka_unit_test(what_the_safe_call_costs_is_told),
        cmocka_unit_test(a_decision_may_cost_what_the_request_permits),
        cmocka_unit_test(shadow_documents_have_what_is_left),
        cmocka_unit_test(shadow_documents_pay_for_themselves),
        cmocka_unit_test(shadow_documents_do_not_pay_for_others),
        cmocka_unit_test(safe_arguments_of_a_shadow_document_do_not_pay_for_others),
        cmocka_unit_test(shadow_documents_have_memory_of_their_own),
        cmocka_unit_test(sums_that_cost_too_much_are_over),
        cmocka_unit_test(the_condition_of_an_allow_is_run_once),
        cmocka_unit_test(tests_of_a_document_are_bounded_together),
        cmocka_unit_test(a_test_that_its_conditions_could_not_pay_is_no_reason_not_to_load),
        cmocka_unit_test(looking_for_rules_that_no_test_meets_is_bounded),
        cmocka_unit_test(a_condition_is_paid_once_however_many_patterns_match),
        cmocka_unit_test(a_rule_is_looked_at_once_however_many_of_its_patterns_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
