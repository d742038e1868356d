/* Tests of conditions in documents: `when`, `${…}`, `sum`, and what a failure means. */
#include "support.h"

#include "json/json.h"

static struct json *json_in(struct tenant *t, const char *text)
{
    struct json *v = NULL;
    struct fault f;
    if (text == NULL) return NULL;
    assert_int_equal(json_read(arena_copy(&t->arena, str_from(text)), NULL, &t->arena, &v, &f),
                     ERR_OK);
    return v;
}

/* What comes of this request; args and context are JSON texts or NULL. */
static enum verdict ask_with(struct tenant *t, const char *action, const char *args,
                             const char *context)
{
    struct policy_request q = agent_request("bot", action);
    arena_reset(&t->arena);
    q.args = json_in(t, args);
    q.context = json_in(t, context);
    q.now_ms = 1795255200000; /* 2026-11-21T10:00:00Z */
    policy_evaluate(t->set, &q, &t->arena, NULL, &t->outcome);
    return t->outcome.verdict;
}

static void a_rule_applies_only_where_its_condition_is_true(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "rules:\n"
        "  - {id: small, agents: [bot], actions: [pay], when: args.amount > 0 && args.amount <= 500, decision: allow}\n"
        "  - {id: large, actions: [pay], when: args.amount > 500, decision: human_review}\n"
        "  - {id: night, actions: [pay], when: now.getHours('Europe/Berlin') < 6, decision: deny}\n");
    assert_int_equal(ask_with(&t, "pay", "{\"amount\":500}", NULL), VERDICT_ALLOW);
    assert_string_equal(t.outcome.rule, "allow:small");
    assert_int_equal(ask_with(&t, "pay", "{\"amount\":500.5}", NULL), VERDICT_HUMAN_REVIEW);
    assert_string_equal(t.outcome.rule, "review:large");
    assert_int_equal(ask_with(&t, "pay", "{\"amount\":0}", NULL), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "default:deny");
    tenant_fini(&t);
}

static void a_condition_that_fails_fails_closed(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "rules:\n"
        "  - {id: a, agents: [bot], actions: [a, ah, ad], when: args.x > 1, decision: allow}\n"
        "  - {id: base, agents: [bot], actions: [h, d, c], decision: allow}\n"
        "  - {id: h, actions: [h], when: args.x > 1, decision: human_review}\n"
        "  - {id: d, actions: [d], when: args.x > 1, decision: deny}\n"
        "  - {id: c, agents: [bot], actions: [c], when: args.x > 1, decision: compute, compute: {tool: t}}\n");
    static const char *const broken[] = {NULL, "{}", "{\"x\":\"2\"}", "{\"x\":null}", "{\"x\":{}}"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        assert_int_equal(ask_with(&t, "a", broken[i], NULL), VERDICT_DENY);
        assert_string_equal(t.outcome.rule, "default:deny");
        assert_non_null(memmem(
            t.outcome.reason.bytes, t.outcome.reason.size,
            "so it is denied. The condition of rule a cannot be evaluated, so it does not apply: ",
            84));
        assert_int_equal(ask_with(&t, "h", broken[i], NULL), VERDICT_HUMAN_REVIEW);
        assert_string_equal(t.outcome.rule, "review:h");
        assert_non_null(memmem(t.outcome.reason.bytes, t.outcome.reason.size,
                               "cannot be evaluated, so it applies", 34));
        assert_int_equal(ask_with(&t, "d", broken[i], NULL), VERDICT_DENY);
        assert_string_equal(t.outcome.rule, "deny:d");
        assert_int_equal(ask_with(&t, "c", broken[i], NULL), VERDICT_DENY);
        assert_string_equal(t.outcome.rule, "compute:c");
        assert_non_null(memmem(t.outcome.reason.bytes, t.outcome.reason.size,
                               "cannot be evaluated, so it is denied", 36));
    }
    assert_int_equal(ask_with(&t, "a", "{\"x\":1}", NULL), VERDICT_DENY); /* evaluated, and false */
    assert_true(str_is(t.outcome.reason, "No rule of any policy applies, so it is denied."));
    assert_int_equal(ask_with(&t, "h", "{\"x\":1}", NULL), VERDICT_ALLOW);
    assert_int_equal(ask_with(&t, "c", "{\"x\":2}", NULL), VERDICT_COMPUTE);
    tenant_fini(&t);
}

/* It would not have allowed anything, condition or not. */
static void a_shadow_condition_that_fails_is_not_why_it_is_denied(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, "mode: shadow\n"
                        "rules: [{id: a, agents: [bot], actions: [a], when: args.x > 1, decision: "
                        "allow}]\n");
    assert_int_equal(ask_with(&t, "a", "{}", NULL), VERDICT_DENY);
    assert_true(str_is(t.outcome.reason, "No rule of any policy applies, so it is denied."));
    tenant_fini(&t);
}

static void the_variables_are_what_the_request_says(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "roles: {finance: [carol]}\n"
        "rules:\n"
        "  - id: all\n"
        "    agents: [bot]\n"
        "    actions: [x]\n"
        "    when: >-\n"
        "      action == 'x' && tool == action && actor == 'bot' && user == '' && acting_for == ''\n"
        "      && tenant == 'default' && scope == [] && roles == [] && resource == {}\n"
        "      && context.text == 'hello' && request.kind == 'agent' && request.args.n == 1.0\n"
        "      && !has(request.scope) && now == timestamp('2026-11-21T10:00:00Z')\n"
        "    decision: allow\n"
        "  - {id: people, users: [carol], actions: [x], when: \"'finance' in roles && user == 'carol'\", decision: allow}\n");
    assert_int_equal(ask_with(&t, "x", "{\"n\":1}", "\"hello\""), VERDICT_ALLOW);
    struct policy_request q = user_request("carol", "x");
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    tenant_fini(&t);
}

static void the_request_is_all_that_an_approval_is_bound_to(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "rules:\n"
        "  - id: all\n"
        "    agents: [bot]\n"
        "    actions: [x]\n"
        "    when: >-\n"
        "      request == {'kind': 'agent', 'tenant_id': 'default', 'actor': 'bot', 'acting_for': 'eve', 'action': 'x',\n"
        "      'args': {'n': 1.0}, 'context': {'c': 2.0}, 'resource': {'type': 'db', 'id': 'y'}, 'scope': ['x', 'y*']}\n"
        "    decision: allow\n"
        "  - id: people\n"
        "    users: [carol]\n"
        "    actions: [x]\n"
        "    when: \"request == {'kind': 'user', 'tenant_id': 'default', 'user_id': 'carol', 'action': 'x'}\"\n"
        "    decision: allow\n");
    const struct str scope[] = {STR("x"), STR("y*")};
    struct policy_request q = agent_request("bot", "x");
    q.acting_for = STR("eve");
    q.args = json_in(&t, "{\"n\":1}");
    q.context = json_in(&t, "{\"c\":2}");
    assert_true(policy_name_resource(&q, json_in(&t, "{\"type\":\"db\",\"id\":\"y\"}"), &t.arena));
    q.has_scope = true;
    q.scope = scope;
    q.scope_count = 2;
    policy_evaluate(t.set, &q, &t.arena, NULL, &t.outcome);
    assert_int_equal(t.outcome.verdict, VERDICT_ALLOW);
    q = user_request("carol", "x");
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    tenant_fini(&t);
}

static void a_null_of_the_resource_is_absent(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "rules:\n"
        "  - {id: all, agents: [bot], actions: [x], decision: allow}\n"
        "  - {id: where, actions: [x], when: '!has(resource.region)', decision: deny}\n"
        "  - {id: count, actions: [x], when: 'size(resource) != 3 || size(request.resource) != 3', decision: deny}\n");
    static const struct {
        const char *resource;
        enum verdict verdict;
    } cases[] = {
        {"{\"type\":\"db\",\"id\":\"x\"}", VERDICT_DENY},
        {"{\"type\":\"db\",\"region\":null,\"id\":\"x\"}", VERDICT_DENY},
        {"{\"type\":\"db\",\"id\":\"x\",\"region\":\"eu\"}", VERDICT_ALLOW},
        {"{\"no\":null,\"type\":\"db\",\"id\":\"x\",\"properties\":null,\"region\":\"eu\",\"a\":null}",
         VERDICT_ALLOW},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct policy_request q = agent_request("bot", "x");
        assert_true(policy_name_resource(&q, json_in(&t, cases[i].resource), &t.arena));
        assert_true(str_is(q.resource, "db:x"));
        policy_evaluate(t.set, &q, &t.arena, NULL, &t.outcome);
        if (t.outcome.verdict != cases[i].verdict) fail_msg("%s", cases[i].resource);
    }
    tenant_fini(&t);
}

static void safe_arguments_are_computed(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "rules:\n"
        "  - id: sandbox\n"
        "    agents: [bot]\n"
        "    actions: [write]\n"
        "    decision: compute\n"
        "    compute:\n"
        "      tool: safe_write\n"
        "      args: {path: '${path_under(\"/sandbox\", args.path)}', n: '${args.n}', text: 'for ${actor}: ${args.n}', cost: 'a $${literal}', list: ['${args.path}', 1]}\n"
        "  - {id: no-passwd, actions: [safe_write], when: args.path.endsWith('passwd'), decision: deny}\n");
    assert_int_equal(ask_with(&t, "write", "{\"path\":\"a/../b.txt\",\"n\":2.5}", NULL),
                     VERDICT_COMPUTE);
    const struct json *args = t.outcome.safe_args;
    assert_true(str_equal(json_text(args, STR("path")), STR("/sandbox/b.txt")));
    assert_true(json_is_number(json_get(args, STR("n"))));
    assert_true(str_equal(json_text(args, STR("text")), STR("for bot: 2.5")));
    assert_true(str_equal(json_text(args, STR("cost")), STR("a ${literal}")));
    assert_int_equal(ask_with(&t, "write", "{\"path\":\"../etc/passwd\",\"n\":1}", NULL),
                     VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "compute:sandbox");
    assert_non_null(memmem(t.outcome.reason.bytes, t.outcome.reason.size, "safe arguments", 14));
    /* by the rule on the safe call */
    assert_int_equal(ask_with(&t, "write", "{\"path\":\"passwd\",\"n\":1}", NULL), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "compute:sandbox");
    assert_int_equal(ask_with(&t, "write", "{\"n\":1}", NULL), VERDICT_DENY);
    tenant_fini(&t);
}

/* Strings of every kind that CEL has, with braces and quotes of their own. */
static void an_expression_ends_where_cel_says(void **state)
{
    (void)state;
    static const struct {
        const char *expression, *value;
    } cases[] = {
        {"${args.x.replace(r'\\', '/')}", "a/b"},
        {"${r'a\\'}", "a\\"},
        {"${'a\\'}'}", "a'}"},
        {"${R\"}\"}", "}"},
        {"${'''it's }'''}", "it's }"},
        {"${\"\"\"a\"}\"\"\" + args.x}", "a\"}a\\b"},
        {"${''}${\"\"}.", "."},
        {"${{'k': '}'}['k']}", "}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tenant t;
        char text[400];
        snprintf(text, sizeof text,
                 "rules:\n"
                 "  - id: c\n"
                 "    agents: [bot]\n"
                 "    actions: [write]\n"
                 "    decision: compute\n"
                 "    compute:\n"
                 "      tool: t\n"
                 "      args:\n"
                 "        v: |-\n"
                 "          %s\n",
                 cases[i].expression);
        tenant_init_one(&t, text);
        assert_int_equal(ask_with(&t, "write", "{\"x\":\"a\\\\b\"}", NULL), VERDICT_COMPUTE);
        struct str value = json_text(t.outcome.safe_args, STR("v"));
        if (!str_is(value, cases[i].value))
            fail_msg("%s is %.*s", cases[i].expression, STR_FORMAT(value));
        tenant_fini(&t);
    }
}

static void assert_denied_by(struct tenant *t, const char *args, const char *rule)
{
    assert_int_equal(ask_with(t, "write", args, NULL), VERDICT_DENY);
    assert_string_equal(t->outcome.rule, rule);
}

/* A condition that fails makes any compute rule a deny, and so do its expressions. */
static void safe_arguments_of_every_compute_have_to_be_possible(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "rules:\n"
        "  - {id: first, agents: [bot], actions: [write], decision: compute, compute: {tool: file, args: {p: '${args.p}'}}}\n"
        "  - {id: person, actions: [write], when: has(args.ask), decision: human_review}\n"
        "  - {id: second, agents: [bot], actions: [write], decision: compute, compute: {tool: disk, args: {p: '${args.q}'}}}\n"
        "  - {id: third, agents: [bot], actions: [write], decision: compute, compute: {tool: tape, args: {p: '${args.r}'}}}\n"
        "  - {id: elsewhere, agents: [bot], actions: [write], when: has(args.never), decision: compute, compute: {tool: z, args: {p: '${args.z}'}}}\n"
        "  - {id: not-there, actions: [file], when: args.p == 'x', decision: deny}\n");
    assert_int_equal(ask_with(&t, "write", "{\"p\":1,\"q\":2,\"r\":3}", NULL), VERDICT_COMPUTE);
    assert_string_equal(t.outcome.rule, "compute:first");
    assert_true(str_is(t.outcome.safe_tool, "file"));
    assert_denied_by(&t, "{\"p\":1,\"q\":2}", "compute:third");
    assert_true(str_is(
        t.outcome.reason,
        "The safe arguments of rule third cannot be made, so it is denied: no such key: r (at column 6)."));
    assert_denied_by(&t, "{\"p\":1}", "compute:second");
    assert_denied_by(&t, "{\"p\":1,\"ask\":1}", "compute:second");
    assert_denied_by(&t, "{\"q\":2,\"r\":3}", "compute:first");
    assert_denied_by(&t, "{\"p\":\"x\",\"r\":3}", "compute:first");
    assert_int_equal(ask_with(&t, "write", "{\"p\":1,\"q\":2,\"r\":3,\"ask\":1}", NULL),
                     VERDICT_HUMAN_REVIEW);
    tenant_fini(&t);
}

static void a_shadow_compute_that_is_not_possible_is_told_and_does_not_count(void **state)
{
    (void)state;
    struct tenant t;
    const char *documents[] = {
        "rules:\n"
        "  - {id: first, agents: [bot], actions: [write], decision: compute, compute: {tool: file, args: {p: '${args.p}'}}}\n",
        "mode: shadow\n"
        "rules:\n"
        "  - {id: second, agents: [bot], actions: [write], decision: compute, compute: {tool: disk, args: {p: '${args.q}'}}}\n"};
    tenant_init(&t, 2, (const char *const[]){"a", "b"}, documents);
    assert_int_equal(ask_with(&t, "write", "{\"p\":1,\"q\":2}", NULL), VERDICT_COMPUTE);
    assert_false(t.outcome.has_would_have);
    assert_int_equal(ask_with(&t, "write", "{\"p\":1}", NULL), VERDICT_COMPUTE);
    assert_true(t.outcome.has_would_have);
    assert_int_equal(t.outcome.would_have, VERDICT_DENY);
    assert_string_equal(t.outcome.would_have_rule, "compute:second");
    tenant_fini(&t);
}

/* What the reader has seen of a text of the document does not hold for the text that is made of
 * it. */
static void safe_arguments_of_a_json_document_are_written_as_they_are(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "{\"rules\": [{\"id\": \"sandbox\", \"agents\": [\"bot\"], \"actions\": [\"write\"], \"decision\": \"compute\",\n"
        " \"compute\": {\"tool\": \"safe_write\", \"args\": {\"path\": \"/sandbox/${args.path}\", \"n\": 7, \"list\": [7, -1, 2.5]}}},\n"
        " {\"id\": \"plain\", \"agents\": [\"bot\"], \"actions\": [\"plain\"], \"decision\": \"compute\",\n"
        " \"compute\": {\"tool\": \"safe_write\", \"args\": {\"n\": 7, \"text\": \"$${x}\"}}}]}");
    struct buf out;
    buf_init(&out, 256, 4096);
    assert_int_equal(ask_with(&t, "write", "{\"path\":\"a\\\",\\\"n\\\":\\\"\\n\"}", NULL),
                     VERDICT_COMPUTE);
    json_put_canonical(&out, t.outcome.safe_args);
    assert_true(
        str_is(buf_view(&out),
               "{\"list\":[7,-1,2.5],\"n\":7,\"path\":\"/sandbox/a\\\",\\\"n\\\":\\\"\\n\"}"));
    buf_clear(&out);
    assert_int_equal(ask_with(&t, "plain", "{}", NULL), VERDICT_COMPUTE);
    json_put_canonical(&out, t.outcome.safe_args);
    assert_true(str_is(buf_view(&out), "{\"n\":7,\"text\":\"${x}\"}"));
    buf_fini(&out);
    tenant_fini(&t);
}

static void a_limit_adds_up_what_an_expression_gives(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "rules:\n"
        "  - {id: a, agents: [bot], actions: [x], decision: allow, limit: {window: 1h, max: 10, sum: \"args.price * args.count\"}}\n");
    assert_int_equal(ask_with(&t, "x", "{\"price\":1.5,\"count\":4}", NULL), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limit_count, 1);
    assert_int_equal(t.outcome.limits[0].amount, 6000000);
    assert_int_equal(ask_with(&t, "x", "{\"price\":1.5}", NULL), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limits[0].amount, -1);
    assert_int_equal(ask_with(&t, "x", "{\"price\":-1.5,\"count\":1}", NULL), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limits[0].amount, -1);
    tenant_fini(&t);
}

/* An amount that takes something away would make room for the next one. */
static void whole_numbers_are_added_up_as_any_other(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "rules:\n"
        "  - {id: a, agents: [bot], actions: [x], decision: allow, limit: {window: 1h, max: 10, sum: \"int(args.n)\"}}\n"
        "  - {id: b, agents: [bot], actions: [y], decision: allow, limit: {window: 1h, max: 10, sum: \"uint(args.n)\"}}\n");
    assert_int_equal(ask_with(&t, "x", "{\"n\":4}", NULL), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limits[0].amount, 4000000);
    assert_int_equal(ask_with(&t, "x", "{\"n\":0}", NULL), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limits[0].amount, 0);
    assert_int_equal(ask_with(&t, "x", "{\"n\":-4}", NULL), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limits[0].amount, -1);
    assert_int_equal(ask_with(&t, "y", "{\"n\":4}", NULL), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limits[0].amount, 4000000);
    assert_int_equal(ask_with(&t, "y", "{\"n\":-4}", NULL), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limits[0].amount, -1);
    tenant_fini(&t);
}

static void faults_name_what_is_wrong_and_where(void **state)
{
    (void)state;
    assert_refused_at(
        "rules:\n  - {id: a, agents: [b], actions: [c], decision: allow,\n     when: args.x >}\n",
        3, 20, "rules[0].when", "the expression ends where");
    assert_refused_at(
        "rules:\n  - {id: a, agents: [b], actions: [c], decision: allow,\n     when: agrs.x > 1}\n",
        3, 12, "rules[0].when", "agrs");
    assert_refused_at(
        "rules:\n  - {id: a, agents: [b], actions: [c], decision: allow,\n     when: \"1 + 1\"}\n",
        3, 13, "rules[0].when", "bool");
    assert_refused_at(
        "rules:\n  - {id: a, agents: [b], actions: [c], decision: allow,\n     when: actor + 1 == ''}\n",
        3, 18, "rules[0].when", "string + int is not possible");
    assert_refused_at(
        "rules:\n  - {id: a, agents: [b], actions: [c], decision: allow,\n     when: actor.matches('(')}\n",
        3, 26, "rules[0].when", "");
    assert_refused_at(
        "rules:\n  - {id: a, agents: [b], actions: [c], decision: compute,\n     compute: {tool: t, args: {p: [\"x${args.y\"]}}}\n",
        3, 36, "rules[0].compute.args.p[0]", "not closed");
    assert_refused_at(
        "rules:\n  - {id: a, agents: [b], actions: [c], decision: compute,\n     compute: {tool: t, args: {p: [\"x${args.}\"]}}}\n",
        3, 45, "rules[0].compute.args.p[0]", "the expression ends where");
    assert_refused_at(
        "rules:\n  - {id: a, agents: [b], actions: [c], decision: allow,\n     when: \"'\\\"' + 1 == ''\"}\n",
        3, 12, "rules[0].when", "(at column 5 of the expression)");
    assert_refused_at(
        "rules:\n  - id: a\n    actions: [c]\n    decision: deny\n    when: >-\n      actor\n      + 1\n",
        5, 11, "rules[0].when", "of the expression)");
    assert_refused_at(
        "{\"rules\": [{\"id\": \"a\", \"actions\": [\"x\"], \"decision\": \"deny\", \"when\": \"actr == ''\"}]}",
        1, 71, "rules[0].when", "did you mean actor?");
}

struct told {
    bool seen;
};

static void look(void *context, const struct policy_considered *c)
{
    struct told *t = context;
    if (!str_equal(c->rule_id, STR("large"))) return;
    t->seen = !c->applies && str_equal(c->why, STR("when: args.amount > 500 → 3 > 500 → false"));
}

static void an_explanation_tells_of_the_condition(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "rules:\n  - {id: large, actions: [pay], when: args.amount > 500, decision: human_review}\n");
    struct policy_request q = agent_request("bot", "pay");
    struct told told = {0};
    struct policy_explain explain = {.considered = look, .context = &told};
    q.args = json_in(&t, "{\"amount\":3}");
    policy_evaluate(t.set, &q, &t.arena, &explain, &t.outcome);
    assert_true(told.seen);
    tenant_fini(&t);
}

static const char role_rules[] =
    "roles: {contractor: [\"dan@*\"], finance: [\"dan@*\", \"Eve\"]}\n"
    "rules:\n"
    "  - {id: all, users: [\"*\"], actions: [a, n, h, s], decision: allow}\n"
    "  - {id: by-role, roles: [contractor], actions: [s], decision: deny}\n"
    "  - {id: when, actions: [a], when: \"'contractor' in roles\", decision: deny}\n"
    "  - {id: none, actions: [n], when: \"!('finance' in roles)\", decision: deny}\n"
    "  - {id: review, actions: [h], when: \"roles.exists(r, r == 'contractor')\", decision: human_review}\n"
    "  - {id: exact, users: [\"*\"], actions: [e], when: \"'contractor' in roles\", decision: allow}\n";

static void roles_in_a_condition_are_matched_in_the_way_of_its_rule(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, role_rules);
    assert_int_equal(ask_user(&t, "Dan@x", "s"), VERDICT_DENY); /* the selector, and the same as: */
    assert_int_equal(ask_user(&t, "Dan@x", "a"), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "deny:when");
    assert_int_equal(ask_user(&t, "Dan@x", "h"), VERDICT_HUMAN_REVIEW);
    assert_int_equal(ask_user(&t, "Dan@x", "e"), VERDICT_DENY); /* a permission is exact */
    assert_string_equal(t.outcome.rule, "default:deny");
    assert_int_equal(ask_user(&t, "dan@x", "e"), VERDICT_ALLOW);
    assert_int_equal(ask_user(&t, "eve", "a"), VERDICT_ALLOW);
    assert_int_equal(ask_user(&t, "zoe", "h"), VERDICT_ALLOW);
    tenant_fini(&t);
}

static void another_spelling_is_no_way_past_a_negated_role(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, role_rules);
    assert_int_equal(ask_user(&t, "Eve", "n"), VERDICT_ALLOW);
    assert_int_equal(ask_user(&t, "eve", "n"), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "deny:none");
    assert_int_equal(ask_user(&t, "zoe", "n"), VERDICT_DENY);
    tenant_fini(&t);
}

static void look_for_true(void *context, const struct policy_considered *c)
{
    struct told *t = context;
    bool is_about = str_equal(c->rule_id, STR("when")) || str_equal(c->rule_id, STR("none"));
    if (!is_about || !c->applies) return;
    t->seen = str_equal(
        c->why,
        str_equal(c->rule_id, STR("when"))
            ? STR("when: 'contractor' in roles → 'contractor' in [\"contractor\",\"finance\"] → "
                  "true; applies")
            : STR("when: !('finance' in roles) is true, because of 'finance' in roles → "
                  "'finance' in [] → false; applies"));
}

static void an_explanation_has_the_roles_that_decided(void **state)
{
    (void)state;
    struct tenant t;
    static const char *const asked[][2] = {{"Dan@x", "a"}, {"eve", "n"}};
    tenant_init_one(&t, role_rules);
    for (size_t i = 0; i < 2; i++) {
        struct policy_request q = user_request(asked[i][0], asked[i][1]);
        struct told told = {0};
        struct policy_explain explain = {.considered = look_for_true, .context = &told};
        policy_evaluate(t.set, &q, &t.arena, &explain, &t.outcome);
        assert_int_equal(t.outcome.verdict, VERDICT_DENY);
        assert_true(told.seen);
    }
    tenant_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_applies_only_where_its_condition_is_true),
        cmocka_unit_test(a_condition_that_fails_fails_closed),
        cmocka_unit_test(a_shadow_condition_that_fails_is_not_why_it_is_denied),
        cmocka_unit_test(the_variables_are_what_the_request_says),
        cmocka_unit_test(the_request_is_all_that_an_approval_is_bound_to),
        cmocka_unit_test(a_null_of_the_resource_is_absent),
        cmocka_unit_test(safe_arguments_are_computed),
        cmocka_unit_test(an_expression_ends_where_cel_says),
        cmocka_unit_test(safe_arguments_of_every_compute_have_to_be_possible),
        cmocka_unit_test(a_shadow_compute_that_is_not_possible_is_told_and_does_not_count),
        cmocka_unit_test(safe_arguments_of_a_json_document_are_written_as_they_are),
        cmocka_unit_test(a_limit_adds_up_what_an_expression_gives),
        cmocka_unit_test(whole_numbers_are_added_up_as_any_other),
        cmocka_unit_test(faults_name_what_is_wrong_and_where),
        cmocka_unit_test(an_explanation_tells_of_the_condition),
        cmocka_unit_test(roles_in_a_condition_are_matched_in_the_way_of_its_rule),
        cmocka_unit_test(another_spelling_is_no_way_past_a_negated_role),
        cmocka_unit_test(an_explanation_has_the_roles_that_decided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
