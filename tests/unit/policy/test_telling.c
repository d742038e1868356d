/* Tests of what is told about policies: explanations, lints, masks, test runs. */
#include "support.h"

struct told {
    size_t count;
    char whys[8][300];
    bool applies[8];
};

static void on_considered(void *context, const struct policy_considered *c)
{
    struct told *t = context;
    snprintf(t->whys[t->count], sizeof t->whys[0], "%.*s/%.*s: %.*s", STR_FORMAT(c->policy_name),
             STR_FORMAT(c->rule_id), STR_FORMAT(c->why));
    t->applies[t->count++] = c->applies;
}

static struct told explain(struct tenant *t, const struct policy_request *q)
{
    struct told told = {0};
    struct policy_explain e = {.considered = on_considered, .context = &told};
    policy_evaluate(t->set, q, &t->arena, &e, &t->outcome);
    return told;
}

static void every_rule_is_explained_whether_it_applies_or_not(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "confidence: {allow_at: 0.90, review_at: 0.70}\n"
        "roles: {finance: [carol]}\n"
        "rules:\n"
        "  - {id: a, agents: [coder], actions: [get_x], decision: allow}\n"
        "  - {id: b, agents: [bot], actions: [\"put_*\", del], decision: allow}\n"
        "  - {id: c, agents: [bot], actions: [\"get_*\"], resources: [\"db:*\"], decision: allow}\n"
        "  - {id: d, actions: [\"get_*\"], resources: [\"db:*\"], decision: deny}\n"
        "  - {id: e, agents: [bot], actions: [get_x], decision: allow}\n"
        "  - {id: f, roles: [finance], actions: [get_x], decision: allow}\n");
    struct policy_request q = agent_request("bot", "get_x");
    struct told told = explain(&t, &q);
    assert_int_equal(told.count, 6);
    assert_string_equal(told.whys[0], "doc/a: agents: bot does not match [coder]");
    assert_string_equal(told.whys[1], "doc/b: actions: get_x does not match [put_*, del]");
    assert_string_equal(told.whys[2], "doc/c: resources: the request names none");
    assert_string_equal(told.whys[3], "doc/d: applies, because the request names no resource");
    assert_string_equal(told.whys[4], "doc/e: applies; its gate votes human_review: No confidence "
                                      "was given, and rule e asks for one.");
    assert_string_equal(told.whys[5], "doc/f: the rule is for people only");
    assert_true(told.applies[3] && told.applies[4] && !told.applies[2]);
    q.resource = STR("db:a?q=1");
    told = explain(&t, &q);
    assert_string_equal(
        told.whys[2], "doc/c: resources: db:a?q=1 does not match [db:*]: where a rule permits, a * "
                      "takes only [A-Za-z0-9._:/@+-], and no \"?\"");
    q = user_request("dave", "get_x");
    q.resource = STR("file:1");
    told = explain(&t, &q);
    assert_string_equal(told.whys[0], "doc/a: the rule is for agents only");
    assert_string_equal(told.whys[3], "doc/d: resources: file:1 does not match [db:*]");
    assert_string_equal(told.whys[5], "doc/f: roles: dave has none of [finance]");
    tenant_fini(&t);
}

static void a_pattern_that_is_told_in_part_hides_none_behind_it(void **state)
{
    (void)state;
    struct tenant t;
    /* characters of two bytes: byte 60 is within one */
    char pattern[1 + 2 * 40 + 1] = "a", text[256], wanted[256];
    for (size_t i = 0; i < 40; i++) memcpy(pattern + 1 + 2 * i, "\xC3\xA9", 3);
    snprintf(text, sizeof text,
             "rules: [{id: a, agents: [\"%s\", coder], actions: [get_x], decision: allow}]",
             pattern);
    snprintf(wanted, sizeof wanted, "doc/a: agents: bot does not match [%.59s, coder]", pattern);
    tenant_init_one(&t, text);
    struct policy_request q = agent_request("bot", "get_x");
    struct told told = explain(&t, &q);
    assert_string_equal(told.whys[0], wanted);
    tenant_fini(&t);
}

static void
the_gate_and_the_limit_of_a_rule_that_cannot_be_evaluated_are_explained_too(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "confidence: {allow_at: 0.90, review_at: 0.70}\n"
        "rules:\n"
        "  - {id: a, actions: [pay], when: args.n > 5, decision: human_review, limit: {window: 1h, count: 3}}\n"
        "  - {id: b, agents: [bot], actions: [pay], when: args.n > 5, decision: allow}\n");
    struct policy_request q = agent_request("bot", "pay");
    q.has_confidence = true;
    q.confidence = 0.5;
    struct told told = explain(&t, &q);
    assert_string_equal(t.outcome.rule, "gate:a");
    assert_string_equal(
        told.whys[0],
        "doc/a: when: args.n > 5 → no such key: n; so the rule applies; its gate votes deny: "
        "The confidence is below review_at (0.70) of rule a.; its limit is 3 per actor in 1h");
    assert_string_equal(told.whys[1],
                        "doc/b: when: args.n > 5 → no such key: n; so the rule is left out");
    tenant_fini(&t);
}

/* ---- what would change an outcome ---- */

static struct json *json_in(struct tenant *t, const char *text)
{
    struct json *root;
    struct fault f;
    assert_int_equal(json_read(str_from(text), &(struct json_options){0}, &t->arena, &root, &f),
                     ERR_OK);
    return root;
}

struct near {
    bool seen;
    char rule[80], lacks[600], against[1200];
};

static void on_nearest(void *context, const struct policy_nearest *n)
{
    struct near *near = context;
    struct buf lacks = buf_over(near->lacks, sizeof near->lacks - 1),
               against = buf_over(near->against, sizeof near->against - 1);
    near->seen = true;
    snprintf(near->rule, sizeof near->rule, "%.*s/%.*s", STR_FORMAT(n->policy_name),
             STR_FORMAT(n->rule_id));
    for (size_t i = 0; i < n->lack_count; i++)
        buf_printf(&lacks, "%s%.*s", i == 0 ? "" : "\n", STR_FORMAT(n->lacks[i]));
    for (size_t i = 0; i < n->against_count; i++)
        buf_printf(&against, "%s%.*s", i == 0 ? "" : "\n", STR_FORMAT(n->against[i]));
    near->lacks[lacks.size] = near->against[against.size] = '\0';
}

static void on_any(void *context, const struct policy_considered *c)
{
    (void)context;
    (void)c;
}

static struct near nearest(struct tenant *t, const struct policy_request *q)
{
    struct near near = {0};
    struct policy_explain e = {.considered = on_any, .nearest = on_nearest, .context = &near};
    policy_evaluate(t->set, q, &t->arena, &e, &t->outcome);
    return near;
}

static const char payments[] =
    "mask: [args.card]\n"
    "rules:\n"
    "  - {id: refunds, agents: [bot], actions: [refund], when: args.amount > 0 && args.amount <= 500, decision: allow}\n"
    "  - {id: large, actions: [refund], when: args.amount > 500, decision: human_review}\n"
    "  - {id: cards, agents: [bot], actions: [pay], resources: [\"card:*\"], when: \"args.card == '4111'\", decision: allow}\n"
    "  - {id: gated, agents: [bot], actions: [send], decision: allow, confidence: {allow_at: 0.90, review_at: 0.70}}\n"
    "  - {id: sums, agents: [bot], actions: [credit], decision: allow, limit: {window: 1h, sum: args.amount, max: 100}}\n"
    "  - {id: secret-sums, agents: [bot], actions: [credit], decision: allow, limit: {window: 1h, sum: args.card, max: 100}}\n"
    "  - {id: never, actions: [drop], decision: deny}\n";

static void an_outcome_that_is_no_allow_tells_what_would_be_one(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, payments);
    struct policy_request q = agent_request("bot", "refund");
    q.args = json_in(&t, "{\"amount\": 620}");
    struct near near = nearest(&t, &q);
    assert_string_equal(near.rule, "doc/refunds");
    assert_string_equal(
        near.lacks,
        "when: args.amount > 0 && args.amount <= 500 is false, because of args.amount <= 500 → 620 <= 500 → false");
    assert_string_equal(
        near.against,
        "rule large of policy doc votes human_review: when: args.amount > 500 → 620 > 500 → true");
    q = agent_request("cat", "refund");
    near = nearest(&t, &q);
    assert_string_equal(
        near.lacks,
        "agents: cat does not match [bot]\n"
        "when: args.amount > 0 && args.amount <= 500 cannot be evaluated, because of args.amount > 0 → no such key: amount");
    assert_string_equal(
        near.against,
        "rule large of policy doc votes human_review: when: args.amount > 500 → no such key: amount; so the rule applies");
    q = agent_request("bot", "refnud");
    near = nearest(&t, &q);
    assert_string_equal(near.rule, "/");
    assert_string_equal(
        near.lacks, "no allow or compute rule has refnud among its actions; did you mean refund?");
    q = agent_request("bot", "send");
    q.has_confidence = true;
    q.confidence = 0.8;
    near = nearest(&t, &q);
    assert_string_equal(near.lacks, "");
    assert_string_equal(
        near.against,
        "the gate of rule gated of policy doc votes human_review: a confidence of 0.90 or more would pass it");
    q.confidence = 0.9;
    assert_false(nearest(&t, &q).seen);
    q = agent_request("bot", "drop");
    assert_string_equal(nearest(&t, &q).against, "rule never of policy doc votes deny");
    tenant_fini(&t);
}

static void the_nearest_rule_is_the_one_that_lacks_least(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "rules:\n"
        "  - {id: other, agents: [cat], actions: [x], decision: allow}\n"
        "  - {id: elsewhere, agents: [bot], actions: [x], resources: [\"a:*\"], decision: allow}\n"
        "  - {id: near, agents: [bot], actions: [x], when: args.n > 5, decision: allow}\n"
        "  - {id: later, agents: [bot], actions: [x], when: args.n > 6, decision: allow}\n"
        "  - {id: people, users: [eve], actions: [y], decision: allow}\n"
        "  - {id: cat, agents: [cat], actions: [y], resources: [\"a:*\"], decision: allow}\n");
    struct policy_request q = agent_request("bot", "x");
    q.resource = STR("b:1");
    q.args = json_in(&t, "{\"n\": 1}");
    assert_string_equal(nearest(&t, &q).rule, "doc/near");
    q = user_request("eva", "y");
    q.resource = STR("b:1");
    assert_string_equal(nearest(&t, &q).rule, "doc/people");
    assert_string_equal(nearest(&t, &q).lacks, "users: eva does not match [eve]");
    tenant_fini(&t);
}

static void a_compute_that_is_not_safe_tells_why(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "rules:\n"
        "  - {id: s, agents: [bot], actions: [w], decision: compute, compute: {tool: f, args: {p: \"${path_under('/a', args.p)}\"}}}\n"
        "  - {id: c, agents: [bot], actions: [v], when: args.n > 1, decision: compute, compute: {tool: f}, confidence: {allow_at: 0.9, review_at: 0.1}}\n");
    struct policy_request q = agent_request("bot", "w");
    q.args = json_in(&t, "{\"p\": \"../x\"}");
    struct near near = nearest(&t, &q);
    assert_string_equal(
        near.against,
        "rule s of policy doc votes compute\n"
        "The safe arguments of rule s cannot be made, so it is denied: the path leaves its root: ../x (at column 1).");
    q = agent_request("bot", "v");
    near = nearest(&t, &q);
    assert_string_equal(near.lacks, "when: args.n > 1 → no such key: n");
    assert_non_null(strstr(
        near.against,
        "rule c of policy doc votes compute: when: args.n > 1 → no such key: n; so it is a deny\n"));
    assert_null(strstr(near.against, "the gate"));
    tenant_fini(&t);
}

static void what_is_masked_is_masked_in_an_explanation(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, payments);
    struct policy_request q = agent_request("bot", "pay");
    q.resource = STR("bank:1");
    q.args = json_in(&t, "{\"card\": \"4222\"}");
    assert_string_equal(nearest(&t, &q).lacks,
                        "resources: bank:1 does not match [card:*]\n"
                        "when: args.card == '4111' → [masked] == '4111' → false");
    q = agent_request("bot", "credit");
    q.args = json_in(&t, "{\"card\": 42, \"amount\": 7.5}");
    struct told told = explain(&t, &q);
    assert_string_equal(
        told.whys[4],
        "doc/sums: applies; its limit is a sum of args.amount of 100 per actor in 1h, and this request adds 7.5");
    assert_string_equal(
        told.whys[5],
        "doc/secret-sums: applies; its limit is a sum of args.card of 100 per actor in 1h, and this request adds [masked]");
    q.args = json_in(&t, "{\"card\": \"x\"}");
    assert_string_equal(
        explain(&t, &q).whys[4],
        "doc/sums: applies; its limit is a sum of args.amount of 100 per actor in 1h, "
        "and this request is over by itself: args.amount is no number from 0 on");
    tenant_fini(&t);
    tenant_init_one(
        &t,
        "mask: [resource.id]\nrules:\n  - {id: a, agents: [bot], actions: [x], resources: [\"card:9\"], decision: allow}\n");
    q = agent_request("bot", "x");
    q.resource = STR("card:4111");
    assert_string_equal(explain(&t, &q).whys[0],
                        "doc/a: resources: [masked] does not match [card:9]");
    tenant_fini(&t);
    tenant_init_one(
        &t,
        "mask: [args.card]\nrules:\n"
        "  - {id: a, agents: [bot], actions: [x], when: \"args[args.which] == '4111'\", decision: allow}\n");
    q = agent_request("bot", "x");
    q.args = json_in(&t, "{\"card\": \"4222\", \"which\": \"card\"}");
    assert_null(strstr(explain(&t, &q).whys[0], "4222"));
    tenant_fini(&t);
}

/* What fails of a masked value is told in the reason, and that is recorded. */
static void a_reason_does_not_name_a_masked_value(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "mask: [args.card, args.people.*.card]\nrules:\n"
        "  - {id: a, actions: [x], when: int(args.card) > 5, decision: deny}\n"
        "  - {id: b, actions: [y], when: int(args.other) > 5, decision: deny}\n"
        "  - {id: c, agents: [bot], actions: [z], decision: compute, compute: {tool: s, args: {p: \"${path_under('/a', args.card)}\"}}}\n"
        "  - {id: d, actions: [k], when: \"{'a': 1}[args.card] == 1\", decision: deny}\n"
        "  - {id: e, actions: [m], when: \"args.x4111 == args.card\", decision: deny}\n"
        "  - {id: f, actions: [n], when: int(request.args.card) > 5, decision: deny}\n"
        "  - {id: g, actions: [o], when: int(args.people.bob.card) > 5, decision: deny}\n"
        "  - {id: h, actions: [p], when: int(args.people.bob.name) > 5, decision: deny}\n"
        "  - {id: i, actions: [q], when: int(request.args.other) > 5, decision: deny}\n"
        "  - {id: j, actions: [r], when: \"int(args[args.which]) > 5\", decision: deny}\n"
        "  - {id: k, actions: [s], when: \"int(args.people[args.whose].card) > 5\", decision: deny}\n"
        "  - {id: l, actions: [t], when: \"int(args.people[args.whose].name) > 5\", decision: deny}\n");
    const char *const actions[] = {"x", "y", "z", "k", "m", "n", "o", "p", "q", "r", "s", "t"};
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        struct policy_request q = agent_request("bot", actions[i]);
        q.args = json_in(
            &t,
            "{\"card\": \"/4111\", \"other\": \"/4111\", \"people\": {\"bob\": {\"card\": \"/4111\", \"name\": \"/4111\"}}, "
            "\"which\": \"card\", \"whose\": \"bob\"}");
        policy_evaluate(t.set, &q, &t.arena, NULL, &t.outcome);
        assert_int_equal(t.outcome.verdict, VERDICT_DENY);
        bool named = memmem(t.outcome.reason.bytes, t.outcome.reason.size, "4111", 4) != NULL;
        /* what is not masked, and a word of the policy's own; a key that only the request has may
         * be any */
        bool is_open = i == 1 || i == 4 || i == 7 || i == 8 || i == 11;
        assert_int_equal(named, is_open);
    }
    tenant_fini(&t);
}

/* What is answered to the caller is whole; what is recorded is not. */
static void what_is_made_of_a_masked_value_is_masked_where_it_is_told(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "mask: [args.card]\nrules:\n"
        "  - {id: c, agents: [bot], actions: [pay], decision: compute,\n"
        "     compute: {tool: s, args: {of: \"${args.card}\", to: \"${args.other}\", plain: x}}}\n"
        "  - {id: d, agents: [bot], actions: [look], decision: compute, compute: {tool: s, args: {to: \"${args.other}\"}}}\n");
    struct policy_request q = agent_request("bot", "pay");
    q.args = json_in(&t, "{\"card\": \"4111\", \"other\": \"5\"}");
    policy_evaluate(t.set, &q, &t.arena, NULL, &t.outcome);
    assert_int_equal(t.outcome.verdict, VERDICT_COMPUTE);
    assert_true(str_is(json_text(t.outcome.safe_args, STR("of")), "4111"));
    assert_true(str_is(json_text(t.outcome.told_args, STR("of")), "[masked]"));
    assert_true(str_is(json_text(t.outcome.told_args, STR("to")), "5"));
    assert_true(str_is(json_text(t.outcome.told_args, STR("plain")), "x"));
    q.action = STR("look");
    policy_evaluate(t.set, &q, &t.arena, NULL, &t.outcome);
    assert_ptr_equal(t.outcome.told_args, t.outcome.safe_args); /* nothing of it is hidden */
    tenant_fini(&t);
}

static void masks_hide_values_wherever_the_path_leads(void **state)
{
    (void)state;
    struct tenant t;
    const char *const names[] = {"a", "b"};
    const char *const texts[] = {
        "mask: [args.card_number, \"args.cards.*.number\", \"args.list.1\", context.text]",
        "mode: shadow\nmask: [resource.properties]"};
    tenant_init(&t, 2, names, texts);
    assert_true(policy_masks(t.set));
    struct json *args = NULL, *context = NULL, *resource = NULL;
    struct fault f;
    struct json_options options = {0};
    assert_int_equal(
        json_read(STR("{\"card_number\": {\"x\": 1}, \"cards\": [{\"number\": 4111, \"cvv\": 1}, "
                      "{\"number\": \"5\"}], \"list\": [1, 2, 3], \"other\": \"card_number\"}"),
                  &options, &t.arena, &args, &f),
        ERR_OK);
    const struct json *copy = policy_masked_copy(t.set, STR("args"), args, &t.arena);
    assert_ptr_not_equal(copy, args);
    assert_true(str_is(json_text(copy, STR("card_number")), "[masked]"));
    assert_int_equal(json_get(args, STR("card_number"))->type, JSON_OBJECT);
    policy_mask(t.set, STR("args"), args);
    assert_true(str_is(json_text(args, STR("card_number")), "[masked]"));
    const struct json *cards = json_get(args, STR("cards"));
    assert_true(str_is(json_text(cards->child, STR("number")), "[masked]"));
    assert_int_equal(json_u64(cards->child, STR("cvv"), 0), 1);
    assert_true(str_is(json_text(cards->child->next, STR("number")), "[masked]"));
    const struct json *list = json_get(args, STR("list"));
    assert_int_equal(list->child->type, JSON_NUMBER);
    assert_true(str_is(list->child->next->string, "[masked]"));
    assert_int_equal(list->child->next->next->type, JSON_NUMBER);
    assert_true(str_is(json_text(args, STR("other")), "card_number"));
    assert_int_equal(json_read(STR("\"free text\""), &options, &t.arena, &context, &f), ERR_OK);
    policy_mask(t.set, STR("context"), context);
    assert_true(str_is(context->string, "[masked]"));
    assert_int_equal(
        json_read(STR("{\"text\": 1, \"kept\": \"2\"}"), &options, &t.arena, &context, &f), ERR_OK);
    policy_mask(t.set, STR("context"), context);
    assert_true(str_is(json_text(context, STR("text")), "[masked]"));
    assert_true(str_is(json_text(context, STR("kept")), "2"));
    assert_int_equal(json_read(STR("{\"properties\": [1]}"), &options, &t.arena, &resource, &f),
                     ERR_OK);
    policy_mask(t.set, STR("resource"), resource);
    assert_true(str_is(json_text(resource, STR("properties")), "[masked]"));
    struct json *other = NULL;
    assert_int_equal(json_read(STR("{\"x\": 1}"), &options, &t.arena, &other, &f), ERR_OK);
    assert_ptr_equal(policy_masked_copy(t.set, STR("args"), other, &t.arena), other);
    tenant_fini(&t);
}

/* A context that is a string is {"text": …} to conditions; whatever hides that hides the string. */
static void a_mask_of_all_that_is_in_the_context_hides_a_text_too(void **state)
{
    (void)state;
    static const char *const masks[] = {"mask: [context]", "mask: [\"context.*\"]",
                                        "mask: [context.text]"};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        struct tenant t;
        struct json *context = NULL;
        struct fault f;
        struct json_options options = {0};
        tenant_init_one(&t, masks[i]);
        assert_int_equal(json_read(STR("\"free text\""), &options, &t.arena, &context, &f), ERR_OK);
        assert_true(policy_masks_in(t.set, STR("context"), context));
        policy_mask(t.set, STR("context"), context);
        assert_true(str_is(context->string, "[masked]"));
        tenant_fini(&t);
    }
}

static void lints_tell_what_is_probably_wrong(void **state)
{
    (void)state;
    struct policy_document *d = load_named(
        "d", "rules:\n"
             "  - {id: wide, agents: [\"*\"], actions: [\"*\"], decision: allow}\n"
             "  - {id: odd, agents: [bot], actions: [\"say *\"], decision: allow}\n"
             "  - {id: no, actions: [\"drop_*\"], decision: deny, confidence: {allow_at: 1, "
             "review_at: 1}}\n"
             "  - {id: beaten, agents: [bot], actions: [drop_x, \"Drop_y*\"], decision: allow, "
             "review: {approvals: 2}}\n"
             "  - {id: people, users: [u], actions: [x], decision: allow, confidence: {allow_at: "
             "1, review_at: 1}}\n"
             "  - {id: fine, agents: [bot], actions: [\"get_*\", \"say hi\"], decision: allow}\n");
    struct policy_problems p;
    policy_lint(d, &p);
    assert_true(has_problem(&p, "actions[0]: a bare * allows every action"));
    assert_true(has_problem(&p, "agents[0]: a bare * allows every agent"));
    assert_true(has_problem(&p, "actions[0]: never matches"));
    assert_true(has_problem(&p, "confidence: has no effect: a deny has no gate"));
    assert_true(has_problem(&p, "rules[3]: never decides: rule no denies all of it to everyone"));
    assert_true(has_problem(&p, "review: has no effect"));
    assert_true(has_problem(&p, "gates are for agents"));
    assert_int_equal(p.count, 7);
    assert_int_equal(p.list[0].line, 2);
    for (size_t i = 0; i < p.count; i++) assert_int_not_equal(p.list[i].line, 7);
    policy_document_release(d);
}

static void on_result(void *context, const struct policy_test_result *r)
{
    assert_true(r->passed);
    *(size_t *)context += r->index + 1;
}

static void tests_can_be_run_again(void **state)
{
    (void)state;
    struct policy_document *d =
        load_named("d", "rules: [{id: a, actions: [x], decision: deny}]\n"
                        "tests: [{request: {actor: b, action: x}, expect: deny}, {request: "
                        "{user_id: b, action: X}, expect: deny, rule: \"deny:a\"}]");
    size_t sum = 0;
    assert_int_equal(policy_document_tests(d, on_result, &sum), 0);
    assert_int_equal(sum, 3);
    policy_document_release(d);
}

static void documents_are_shared_until_the_last_lets_go(void **state)
{
    (void)state;
    struct policy_document *d = load_named("d", "rules: [{id: a, actions: [x], decision: deny}]");
    struct policy_document *again = policy_document_share(d);
    assert_ptr_equal(d, again);
    policy_document_release(d);
    assert_int_equal(policy_document_rules(again), 1);
    policy_document_release(again);
    policy_document_release(NULL);
    policy_set_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_is_explained_whether_it_applies_or_not),
        cmocka_unit_test(a_pattern_that_is_told_in_part_hides_none_behind_it),
        cmocka_unit_test(
            the_gate_and_the_limit_of_a_rule_that_cannot_be_evaluated_are_explained_too),
        cmocka_unit_test(an_outcome_that_is_no_allow_tells_what_would_be_one),
        cmocka_unit_test(the_nearest_rule_is_the_one_that_lacks_least),
        cmocka_unit_test(a_compute_that_is_not_safe_tells_why),
        cmocka_unit_test(what_is_masked_is_masked_in_an_explanation),
        cmocka_unit_test(a_reason_does_not_name_a_masked_value),
        cmocka_unit_test(what_is_made_of_a_masked_value_is_masked_where_it_is_told),
        cmocka_unit_test(masks_hide_values_wherever_the_path_leads),
        cmocka_unit_test(a_mask_of_all_that_is_in_the_context_hides_a_text_too),
        cmocka_unit_test(lints_tell_what_is_probably_wrong),
        cmocka_unit_test(tests_can_be_run_again),
        cmocka_unit_test(documents_are_shared_until_the_last_lets_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
