/* Tests of limits: reading them, what an outcome counts, and what over means. */
#include "support.h"

#include "policy/document.h"

#define ALLOW_WITH "rules:\n  - {id: a, agents: [bot], actions: [x], decision: allow,\n     limit: "

static void assert_limit_refused(const char *limit, unsigned column, const char *path,
                                 const char *message)
{
    char text[600], full[80];
    snprintf(text, sizeof text, ALLOW_WITH "%s}\n", limit);
    snprintf(full, sizeof full, "rules[0].limit%s", path);
    assert_refused_at(text, 3, column, full, message);
}

static void a_limit_that_cannot_be_meant_is_refused_at_its_place(void **state)
{
    (void)state;
    assert_limit_refused("{window: 1h}", 6, "", "bounds nothing; give count, or sum and max");
    assert_limit_refused("{count: 3}", 13, ".window", "is missing here");
    assert_limit_refused("{window: 31d, count: 3}", 22, ".window", "at most 30d");
    assert_limit_refused("{window: 0s, count: 3}", 22, ".window", "out of range");
    assert_limit_refused("{window: 60, count: 3}", 22, ".window", "has to say its unit");
    assert_limit_refused("{window: 1h, count: 0}", 33, ".count",
                         "0 is out of range [1, 1000000000]");
    assert_limit_refused("{window: 1h, count: 1000000001}", 33, ".count",
                         "1000000001 is out of range");
    assert_limit_refused("{window: 1h, count: 1.5}", 33, ".count", "not a whole number");
    assert_limit_refused("{window: 1h, sum: args.x}", 26, ".sum", "has no max beside it");
    assert_limit_refused("{window: 1h, count: 1, sum: args.x}", 36, ".sum", "has no max");
    assert_limit_refused("{window: 1h, max: 5}", 26, ".max", "has no sum beside it");
    assert_limit_refused("{window: 1h, sum: args.x, max: 0}", 44, ".max", "out of range");
    assert_limit_refused("{window: 1h, sum: args.x, max: -1}", 44, ".max", "out of range");
    assert_limit_refused("{window: 1h, sum: args.x, max: 9000000000001}", 44, ".max",
                         "out of range");
    assert_limit_refused("{window: 1h, sum: args.x, max: \"5\"}", 44, ".max", "a number");
    assert_limit_refused("{window: 1h, count: 1, over: allow}", 42, ".over",
                         "\"allow\" is not one of deny, human_review");
    assert_limit_refused("{window: 1h, count: 1, per: agent}", 41, ".per",
                         "is not one of actor, user, acting_for, tenant, resource");
    assert_limit_refused("{window: 1h, count: 1, pre: actor}", 36, ".pre", "did you mean per?");
    assert_limit_refused("[1]", 13, "", "has to be a map");
    assert_refused_at("rules:\n  - {id: d, actions: [x], decision: deny,\n     "
                      "limit: {window: 1h, count: 1}}\n",
                      3, 6, "rules[0].limit", "a deny lets nothing through");
}

static void a_sum_is_a_path_or_an_expression_that_can_be_understood(void **state)
{
    (void)state;
    static const struct {
        const char *sum, *message;
        unsigned more; /* columns: an expression's own places are told */
    } wrong[] = {
        {"amount", "has to begin with args, context or resource", 0},
        {"args", "is a whole map; name a number in it, as in args.amount", 0},
        {"args.", "the expression ends where", 6},
        {"args..x", "the name of a field is expected", 6},
        {"args.x *", "the expression ends where", 9},
        {"args.*", "the name of a field is expected", 6},
        {"args.x > 5", "has to be a number, but it is bool", 0},
        {"args.x + 'a'", "is string", 0},
        {"now - duration('1h')", "is google.protobuf.Timestamp", 0},
        {"args.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a", "has more than 16 names", 0},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char limit[200];
        snprintf(limit, sizeof limit, "{window: 1h, max: 5, sum: \"%s\"}", wrong[i].sum);
        assert_limit_refused(limit, 39 + wrong[i].more, ".sum", wrong[i].message);
    }
}

static void several_faults_of_a_limit_are_told_at_once(void **state)
{
    (void)state;
    struct policy_problems p =
        refused(ALLOW_WITH "{per: x, window: 1, count: 0, max: 0, over: y}}\n");
    assert_true(has_problem(&p, "per: \"x\""));
    assert_true(has_problem(&p, "window: has to say its unit"));
    assert_true(has_problem(&p, "count: 0 is out of range"));
    assert_true(has_problem(&p, "max: has no sum"));
    assert_true(has_problem(&p, "over: \"y\""));
}

static const char payments[] =
    "rules:\n"
    "  - {id: refunds, agents: [bot], actions: [refund], decision: allow, review: {by: "
    "[finance]},\n"
    "     limit: {per: actor, window: 1h, count: 30, sum: args.amount, max: 5000, over: "
    "human_review}}\n"
    "  - {id: all, agents: [\"*\"], actions: [\"*\"], decision: allow,\n"
    "     limit: {per: tenant, window: 1d, count: 1000}}\n"
    "  - {id: plain, agents: [\"*\"], actions: [\"*\"], decision: allow}\n";

static void an_allow_carries_the_limits_of_all_rules_that_applied(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, payments);
    struct policy_request q = agent_request("bot", "refund");
    assert_int_equal(ask_args(&t, &q, "{\"amount\": 12.5}"), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limit_count, 2);
    const struct policy_limit *l = t.outcome.limits; /* the one that denies first */
    assert_true(str_is(l[1].policy_name, "doc") && str_is(l[1].rule_id, "refunds"));
    assert_int_equal(l[1].policy_version, 1);
    assert_int_equal(l[1].per, PER_ACTOR);
    assert_true(str_is(l[1].value, "bot"));
    assert_int_equal(l[1].window_ms, 60 * 60 * 1000);
    assert_int_equal(l[1].count_max, 30);
    assert_true(l[1].has_max);
    assert_int_equal(l[1].amount_max, 5000 * (int64_t)AMOUNT_SCALE);
    assert_int_equal(l[1].amount, 12500000);
    assert_int_equal(l[1].over, VERDICT_HUMAN_REVIEW);
    assert_true(str_is(l[0].rule_id, "all"));
    assert_int_equal(l[0].per, PER_TENANT);
    assert_true(str_is(l[0].value, "default"));
    assert_int_equal(l[0].window_ms, 24 * 60 * 60 * 1000);
    assert_false(l[0].has_max);
    assert_int_equal(l[0].over, VERDICT_DENY);
    assert_int_equal(ask_args(&t, &q, NULL), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limits[1].amount, -1);
    q.action = STR("other");
    assert_int_equal(ask_args(&t, &q, NULL), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limit_count, 1);
    tenant_fini(&t);
}

static void what_is_not_let_through_counts_nothing(void **state)
{
    (void)state;
    struct tenant t;
    const char *const names[] = {"a", "b"};
    const char *const texts[] = {
        "rules:\n"
        "  - {id: a, agents: [bot], actions: [\"*\"], decision: allow, limit: {window: 1h, count: "
        "1}}\n"
        "  - {id: h, actions: [ask], decision: human_review, limit: {window: 1h, count: 2}}\n"
        "  - {id: d, actions: [drop], decision: deny}\n"
        "  - {id: c, agents: [bot], actions: [swap, twice], decision: compute, compute: {tool: "
        "safe}, limit: {window: 1m, count: 3}}\n"
        "  - {id: s, agents: [bot], actions: [safe], decision: allow, limit: {window: 1m, count: "
        "4}}\n",
        "mode: shadow\n"
        "rules: [{id: z, agents: [bot], actions: [\"*\"], decision: allow, limit: {window: 1h, "
        "count: 9}}]"};
    tenant_init(&t, 2, names, texts);
    assert_int_equal(ask_agent(&t, "bot", "drop"), VERDICT_DENY);
    assert_int_equal(t.outcome.limit_count, 0);
    assert_int_equal(ask_agent(&t, "bot", "ask"), VERDICT_HUMAN_REVIEW);
    assert_int_equal(t.outcome.limit_count, 0);
    assert_int_equal(ask_agent(&t, "bot", "get"), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limit_count, 1); /* the shadow document's limit is none */
    assert_int_equal(ask_agent(&t, "bot", "swap"), VERDICT_COMPUTE);
    assert_int_equal(t.outcome.limit_count, 2); /* of what was asked for, not of the safe call */
    assert_true(str_is(t.outcome.limits[0].rule_id, "a"));
    assert_true(str_is(t.outcome.limits[1].rule_id, "c"));
    tenant_fini(&t);
}

static void a_limit_is_counted_per_whom_it_says(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "rules:\n"
        "  - {id: r0, agents: [bot], users: [u], actions: [x], decision: allow, limit: {window: "
        "1s, count: 1}}\n"
        "  - {id: r1, agents: [bot], users: [u], actions: [x], decision: allow, limit: {per: user, "
        "window: 1s, count: 1}}\n"
        "  - {id: r2, agents: [bot], users: [u], actions: [x], decision: allow, limit: {per: "
        "acting_for, window: 1s, count: 1}}\n"
        "  - {id: r3, agents: [bot], users: [u], actions: [x], decision: allow, limit: {per: "
        "tenant, window: 1s, count: 1}}\n"
        "  - {id: r4, agents: [bot], users: [u], actions: [x], decision: allow, limit: {per: "
        "resource, window: 30d, count: 1000000000}}\n");
    struct policy_request q = agent_request("bot", "x");
    q.acting_for = STR("carol");
    q.resource = STR("db:1");
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limit_count, 5);
    const struct policy_limit *l = t.outcome.limits;
    assert_int_equal(l[0].per, PER_ACTOR);
    assert_true(str_is(l[0].value, "bot"));
    assert_true(str_is_absent(l[1].value));
    assert_true(str_is(l[2].value, "carol"));
    assert_true(str_is(l[3].value, "default"));
    assert_true(str_is(l[4].value, "db:1"));
    assert_int_equal(l[4].count_max, 1000000000);
    for (enum limit_per p = PER_ACTOR; p <= PER_RESOURCE; p++) assert_int_equal(l[p].per, p);
    assert_string_equal(limit_per_name(PER_ACTING_FOR), "acting_for");
    q = user_request("u", "x");
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    assert_true(str_is_absent(t.outcome.limits[0].value));
    assert_true(str_is(t.outcome.limits[1].value, "u"));
    assert_true(str_is_absent(t.outcome.limits[4].value));
    tenant_fini(&t);
}

/* Whoever spells a name otherwise has no second allowance. */
static void all_spellings_of_a_name_are_counted_together(void **state)
{
    (void)state;
    static const char *const carols[] = {"carol", "Carol", " carol  ",
                                         "c\xe2\x80\x8b"
                                         "arol",
                                         "\xef\xbd\x83"
                                         "arol"};
    struct tenant t;
    tenant_init_one(
        &t,
        "rules:\n"
        "  - {id: a, agents: ['*'], actions: [x], decision: allow, limit: {per: acting_for, window: "
        "1h, count: 1}}\n"
        "  - {id: b, agents: ['*'], actions: [x], decision: allow, limit: {per: resource, window: "
        "1h, count: 1}}\n"
        "  - {id: c, agents: ['*'], actions: [x], decision: allow, limit: {window: 1h, count: "
        "1}}\n");
    for (size_t i = 0; i < sizeof carols / sizeof *carols; i++) {
        struct policy_request q = agent_request("BOT", "x");
        q.acting_for = str_from(carols[i]);
        q.resource = STR("ACCT: 1");
        q.resource_plain = STR("ACCT:1");
        assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
        assert_true(str_is(t.outcome.limits[0].value, "carol"));
        assert_true(str_is(t.outcome.limits[1].value, "acct:1"));
        assert_true(str_is(t.outcome.limits[2].value, "bot"));
    }
    tenant_fini(&t);
}

static void the_amount_stands_where_the_path_leads(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t,
                    "rules:\n"
                    "  - {id: a, agents: [bot], actions: [x], decision: allow, limit: {window: 1h, "
                    "sum: args.order.total, max: 1}}\n"
                    "  - {id: c, agents: [bot], actions: [x], decision: allow, limit: {window: 1h, "
                    "sum: context.cost, max: 1}}\n"
                    "  - {id: p, agents: [bot], actions: [x], decision: allow, limit: {window: 1h, "
                    "sum: resource.properties.size, max: 1}}\n"
                    "  - {id: r, agents: [bot], actions: [x], decision: allow, limit: {window: 1h, "
                    "sum: resource.size, max: 1}}\n");
    struct policy_request q = agent_request("bot", "x");
    q.context = args_of(&t, "{\"cost\": 2}");
    q.resource_object = args_of(&t, "{\"size\": \"7\", \"properties\": {\"size\": 3}}");
    assert_int_equal(ask_args(&t, &q, "{\"order\": {\"total\": 1}}"), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limits[0].amount, 1000000);
    assert_int_equal(t.outcome.limits[1].amount, 2000000);
    assert_int_equal(t.outcome.limits[2].amount, 3000000);
    assert_int_equal(t.outcome.limits[3].amount, -1); /* a string is no number */
    q.context = args_of(&t, "\"cost: 2\"");
    q.resource_object = args_of(&t, "\"db:size\"");
    static const char *const wrong[] = {
        "{}",
        "{\"order\": 5}",
        "{\"order\": [1]}",
        "{\"order\": {\"total\": \"1\"}}",
        "{\"order\": {\"total\": true}}",
        "{\"order\": {\"total\": null}}",
        "{\"order\": {\"total\": [1]}}",
        "{\"order\": {\"total\": -0.01}}",
        "{\"order\": {\"total\": 9000000000000.002}}",
        "{\"order\": {\"total\": 9223372036854775807}}",
        "{\"order\": {\"total\": -9223372036854775807}}",
        "{\"order\": {\"total\": 18446744073709551615}}",
        "{\"order\": {\"total\": 1e300}}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(ask_args(&t, &q, wrong[i]), VERDICT_ALLOW);
        for (size_t k = 0; k < 4; k++) assert_int_equal(t.outcome.limits[k].amount, -1);
    }
    tenant_fini(&t);
}

static void another_spelling_of_a_name_makes_no_amount_smaller(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "roles: {vip: [carol]}\n"
        "rules:\n"
        "  - {id: base, users: ['*'], actions: [x], decision: allow}\n"
        "  - {id: less, users: ['*'], actions: [x], decision: human_review, limit: {per: user, window: 1h, "
        "sum: \"'vip' in roles ? 0.0 : args.n\", max: 100}}\n"
        "  - {id: more, users: ['*'], actions: [x], decision: human_review, limit: {per: user, window: 1h, "
        "sum: \"'vip' in roles ? args.n : 0.0\", max: 100}}\n"
        "  - {id: none, users: ['*'], actions: [x], decision: human_review, limit: {per: user, window: 1h, "
        "sum: \"'vip' in roles ? 0.0 : args.missing\", max: 100}}\n");
    static const struct {
        const char *user;
        int64_t amounts[3];
    } people[] = {
        {"carol", {0, 50000000, 0}},
        {"dave", {50000000, 0, -1}},
        {"CAROL", {50000000, 50000000, -1}},
    };
    for (size_t i = 0; i < sizeof people / sizeof *people; i++) {
        struct policy_request q = user_request(people[i].user, "x");
        struct policy_vote votes[] = {
            {.kind = VOTE_RULE, .policy_name = STR("doc"), .rule_id = STR("less")},
            {.kind = VOTE_RULE, .policy_name = STR("doc"), .rule_id = STR("more")},
            {.kind = VOTE_RULE, .policy_name = STR("doc"), .rule_id = STR("none")}};
        q.approved = votes;
        q.approved_count = 3;
        assert_int_equal(ask_args(&t, &q, "{\"n\": 50}"), VERDICT_ALLOW);
        assert_int_equal(t.outcome.limit_count, 3);
        for (size_t k = 0; k < 3; k++)
            assert_int_equal(t.outcome.limits[k].amount, people[i].amounts[k]);
    }
    tenant_fini(&t);
}

static void amounts_are_millionths_rounded_up_and_a_max_is_rounded_down(void **state)
{
    (void)state;
    static const struct {
        double number;
        int64_t up, down;
    } known[] = {
        {0, 0, 0},
        {-0.0, 0, 0},
        {0.1, 100000, 100000},
        {0.07, 70000, 70000},
        {8.2, 8200000, 8200000},
        {1.005, 1005000, 1005000},
        {123456.789012, 123456789012, 123456789012},
        {0.000001, 1, 1},
        {0.0000001, 1, 0},
        {1e-300, 1, 0},
        {1.0000001, 1000001, 1000000},
        {0.30000000000000004, 300001, 300000},
        {8589934591.999999, 8589934591999999, 8589934591999999},
        {8589934592.5, 8589934592500000, 8589934592500000},
        {8589934592.0000019, 8589934592000002, 8589934592000001}, /* 2^33 + 2^-19 */
        {9e12, AMOUNT_MAX, AMOUNT_MAX},
        {9000000000000.002, -1, -1},
        {-1e-300, -1, -1},
        {__builtin_inf(), -1, -1},
        {__builtin_nan(""), -1, -1},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_int_equal(amount_round_up(known[i].number), known[i].up);
        assert_int_equal(amount_round_down(known[i].number), known[i].down);
    }
    /* Every decimal of six places is itself, and its neighbours are not. */
    uint64_t chance = 1;
    for (int i = 0; i < 200000; i++) {
        chance = chance * 6364136223846793005u + 1442695040888963407u;
        int64_t n = (int64_t)((chance >> 11) >> (chance % 40));
        if (n >= (int64_t)8589934592 * AMOUNT_SCALE) continue;
        double number = (double)n / AMOUNT_SCALE;
        assert_int_equal(amount_round_up(number), n);
        assert_int_equal(amount_round_down(number), n);
        assert_int_equal(amount_round_up(__builtin_nextafter(number, 1e18)), n + 1);
        if (n > 0) assert_int_equal(amount_round_down(__builtin_nextafter(number, 0)), n - 1);
    }
}

static void over_a_limit_is_a_deny_that_tells_the_bound(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, payments);
    struct policy_request q = agent_request("bot", "get");
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    policy_over_limit(&t.outcome.limits[0], &t.arena, &t.outcome);
    assert_int_equal(t.outcome.verdict, VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "limit:all");
    assert_true(str_is(t.outcome.policy_name, "doc"));
    assert_int_equal(t.outcome.policy_version, 1);
    assert_true(
        str_is(t.outcome.reason, "The limit of rule all is reached: 1000 per tenant in 1d."));
    assert_int_equal(t.outcome.limit_count, 0);
    assert_int_equal(t.outcome.review.vote_count, 0);
    tenant_fini(&t);
}

static void over_a_limit_can_ask_a_person(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, payments);
    struct policy_request q = agent_request("bot", "refund");
    static const struct {
        const char *args, *reason;
    } cases[] = {
        {"{\"amount\": 5000}", "The limit of rule refunds is reached: 30 and a sum of args.amount "
                               "of 5000 per actor in 1h."},
        {"{\"amount\": 5000.000001}",
         "args.amount alone is more than the limit of rule refunds lets through: 30 and a sum of "
         "args.amount of 5000 per actor in 1h."},
        {"{\"amount\": -1}", "The limit of rule refunds adds up args.amount, which is missing, "
                             "negative, too large or no number."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(ask_args(&t, &q, cases[i].args), VERDICT_ALLOW);
        policy_over_limit(&t.outcome.limits[1], &t.arena, &t.outcome);
        assert_int_equal(t.outcome.verdict, VERDICT_HUMAN_REVIEW);
        assert_string_equal(t.outcome.rule, "limit:refunds");
        if (!str_is(t.outcome.reason, cases[i].reason))
            print_error("%.*s\n", STR_FORMAT(t.outcome.reason));
        assert_true(str_is(t.outcome.reason, cases[i].reason));
        assert_false(t.outcome.has_would_have);
        const struct policy_review *r = &t.outcome.review;
        assert_int_equal(r->approvals, 1);
        assert_int_equal(r->expires_in_ms, 30 * 60 * 1000);
        assert_true(str_is(r->by, "finance"));
        assert_int_equal(r->requirement_count, 1);
        assert_int_equal(r->requirements[0].by_count, 1);
        assert_true(str_is(r->requirements[0].by[0], "finance"));
        assert_int_equal(r->vote_count, 1);
        assert_int_equal(r->votes[0].kind, VOTE_LIMIT);
        assert_true(str_is(r->votes[0].rule_id, "refunds"));
        assert_true(str_is(r->votes[0].policy_name, "doc"));
    }
    tenant_fini(&t);
}

static void a_compute_over_its_limit_has_no_safe_call(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, "rules: [{id: c, agents: [bot], actions: [x], decision: compute, compute: "
                        "{tool: y}, limit: {window: 90s, count: 2}}]");
    assert_int_equal(ask_agent(&t, "bot", "x"), VERDICT_COMPUTE);
    policy_over_limit(&t.outcome.limits[0], &t.arena, &t.outcome);
    assert_int_equal(t.outcome.verdict, VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "limit:c");
    assert_true(str_is_absent(t.outcome.safe_tool));
    assert_null(t.outcome.safe_args);
    tenant_fini(&t);
}

static void a_limit_that_a_person_let_through_is_counted_and_not_asked_again(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, payments);
    struct policy_vote approved[] = {
        {.kind = VOTE_LIMIT, .policy_name = STR("doc"), .rule_id = STR("refunds")},
        {.kind = VOTE_LIMIT, .policy_name = STR("doc"), .rule_id = STR("all")}};
    struct policy_request q = agent_request("bot", "refund");
    q.approved = approved;
    q.approved_count = 2;
    assert_int_equal(ask_args(&t, &q, "{\"amount\": 7000}"), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limit_count, 2);
    assert_int_equal(t.outcome.limits[1].over, VERDICT_ALLOW);
    assert_int_equal(t.outcome.limits[1].amount, 7000000000);
    assert_int_equal(t.outcome.limits[0].over, VERDICT_DENY); /* nobody could be asked about that */
    assert_true(str_is(t.outcome.reason, "Rule refunds of policy doc allows this."));
    policy_over_limit(&t.outcome.limits[1], &t.arena, &t.outcome);
    assert_int_equal(t.outcome.verdict, VERDICT_ALLOW);
    assert_string_equal(t.outcome.rule, "allow:refunds");
    approved[0].policy_name = STR("other");
    assert_int_equal(ask_args(&t, &q, "{\"amount\": 7000}"), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limits[1].over, VERDICT_HUMAN_REVIEW);
    approved[0].policy_name = STR("doc");
    approved[0].kind = VOTE_RULE;
    assert_int_equal(ask_args(&t, &q, "{\"amount\": 7000}"), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limits[1].over, VERDICT_HUMAN_REVIEW);
    tenant_fini(&t);
}

/* Else an approval of the one would always meet the other again. */
static void a_review_for_a_limit_covers_what_was_approved_before(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t, "rules:\n"
            "  - {id: h, actions: [x], decision: human_review, review: {by: [legal], approvals: 2, "
            "expires_in: 10m}, limit: {window: 1h, count: 5, over: human_review}}\n"
            "  - {id: a, agents: [bot], actions: [x], decision: allow, review: {by: [finance]},\n"
            "     confidence: {allow_at: 0.9, review_at: 0.1},\n"
            "     limit: {window: 1h, count: 1, over: human_review}}\n");
    struct policy_request q = agent_request("bot", "x");
    assert_int_equal(ask(&t, &q), VERDICT_HUMAN_REVIEW);
    assert_int_equal(t.outcome.review.vote_count, 2);
    struct policy_vote approved[4];
    memcpy(approved, t.outcome.review.votes, 2 * sizeof *approved);
    q.approved = approved;
    q.approved_count = 2;
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limit_count, 2);
    policy_over_limit(&t.outcome.limits[1], &t.arena, &t.outcome);
    const struct policy_review *r = &t.outcome.review;
    assert_int_equal(t.outcome.verdict, VERDICT_HUMAN_REVIEW);
    assert_string_equal(t.outcome.rule, "limit:a");
    assert_int_equal(r->vote_count, 3);
    assert_int_equal(r->votes[0].kind, VOTE_RULE);
    assert_true(str_is(r->votes[0].rule_id, "h"));
    assert_int_equal(r->votes[1].kind, VOTE_GATE);
    assert_int_equal(r->votes[2].kind, VOTE_LIMIT);
    assert_int_equal(r->approvals, 2);
    assert_int_equal(r->expires_in_ms, 10 * 60 * 1000);
    assert_int_equal(r->requirement_count, 3);
    assert_true(str_is(r->requirements[0].by[0], "legal"));
    assert_true(str_is(r->requirements[2].by[0], "finance"));
    memcpy(approved, r->votes, 3 * sizeof *approved);
    q.approved_count = 3;
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limits[0].over, VERDICT_HUMAN_REVIEW);
    assert_int_equal(t.outcome.limits[1].over, VERDICT_ALLOW);
    policy_over_limit(&t.outcome.limits[0], &t.arena, &t.outcome); /* now the other is over */
    assert_int_equal(t.outcome.review.vote_count, 4);
    assert_true(str_is(t.outcome.review.votes[3].rule_id, "h"));
    tenant_fini(&t);
}

static void whom_a_limit_asks_is_told_once_beside_whom_a_rule_asked(void **state)
{
    (void)state;
    static const struct {
        const char *limit_requests, *by;
    } cases[] = {{", review: {by: [finance]}", "finance"},
                 {"", "finance"},
                 {", review: {by: [legal]}", "finance; legal"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tenant t;
        char text[512];
        snprintf(
            text, sizeof text,
            "rules:\n  - {id: h, actions: [x], decision: human_review, review: {by: [finance]}}\n"
            "  - {id: a, agents: [bot], actions: [x], decision: allow%s, limit: {window: 1h, count: 1, over: human_review}}\n",
            cases[i].limit_requests);
        tenant_init_one(&t, text);
        struct policy_vote approved = {
            .kind = VOTE_RULE, .policy_name = STR("doc"), .rule_id = STR("h")};
        struct policy_request q = agent_request("bot", "x");
        q.approved = &approved;
        q.approved_count = 1;
        assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
        policy_over_limit(&t.outcome.limits[0], &t.arena, &t.outcome);
        assert_int_equal(t.outcome.verdict, VERDICT_HUMAN_REVIEW);
        assert_true(str_is(t.outcome.review.by, cases[i].by));
        tenant_fini(&t);
    }
}

static void a_review_for_a_rule_covers_the_limit_that_was_lifted_before(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t, "rules:\n"
            "  - {id: a, agents: [bot], actions: [x], decision: allow, review: {by: [finance]},\n"
            "     limit: {window: 1h, count: 1, over: human_review}}\n"
            "  - {id: h, actions: [x], decision: human_review, review: {by: [legal]}}\n");
    struct policy_vote approved[2] = {
        {.kind = VOTE_LIMIT, .policy_name = STR("doc"), .rule_id = STR("a")}};
    struct policy_request q = agent_request("bot", "x");
    q.approved = approved;
    q.approved_count = 1;
    assert_int_equal(ask(&t, &q), VERDICT_HUMAN_REVIEW);
    assert_string_equal(t.outcome.rule, "review:h");
    const struct policy_review *r = &t.outcome.review;
    assert_int_equal(r->vote_count, 2);
    assert_int_equal(r->votes[0].kind, VOTE_LIMIT);
    assert_int_equal(r->votes[1].kind, VOTE_RULE);
    assert_int_equal(r->requirement_count, 2);
    assert_true(str_is(r->by, "finance; legal"));
    memcpy(approved, r->votes, sizeof approved);
    q.approved_count = 2;
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    assert_int_equal(t.outcome.limits[0].over, VERDICT_ALLOW);
    tenant_fini(&t);
}

static void a_full_arena_is_a_deny_when_over(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, payments);
    struct policy_request q = agent_request("bot", "refund");
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    struct arena small;
    arena_init(&small, 16, 16);
    policy_over_limit(&t.outcome.limits[0], &small, &t.outcome);
    assert_int_equal(t.outcome.verdict, VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "default:deny");
    arena_fini(&small);
    arena_fini(&t.arena);
    arena_init(&t.arena, 16, 16); /* no room for the outcome's limits */
    assert_int_equal(ask(&t, &q), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "default:deny");
    assert_int_equal(t.outcome.limit_count, 0);
    tenant_fini(&t);
}

static void a_second_limit_does_not_undo_the_approval_of_the_first(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, "rules:\n"
                        "  - {id: a, agents: [bot], actions: [x], decision: allow, review: {by: "
                        "[ops]}, limit: {window: 1h, count: 1, over: human_review}}\n"
                        "  - {id: b, agents: [bot], actions: [x], decision: allow, review: {by: "
                        "[fin]}, limit: {window: 1d, count: 9, over: human_review}}\n");
    struct policy_vote approved = {
        .kind = VOTE_LIMIT, .policy_name = STR("doc"), .rule_id = STR("a")};
    struct policy_request q = agent_request("bot", "x");
    q.approved = &approved;
    q.approved_count = 1;
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    policy_over_limit(&t.outcome.limits[1], &t.arena, &t.outcome);
    const struct policy_review *r = &t.outcome.review;
    assert_int_equal(r->vote_count, 2);
    assert_true(str_is(r->votes[0].rule_id, "a") && str_is(r->votes[1].rule_id, "b"));
    assert_int_equal(r->requirement_count, 2);
    assert_true(str_is(r->requirements[0].by[0], "ops"));
    assert_true(str_is(r->by, "ops; fin"));
    tenant_fini(&t);
}

/* Whatever there is room for, an outcome is whole or a deny. */
static void every_arena_is_enough_or_a_deny(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, payments);
    size_t denied = 0, asked = 0;
    for (size_t bytes = 16; bytes <= 4096; bytes += 16) {
        struct policy_request q = agent_request("bot", "refund");
        arena_fini(&t.arena);
        arena_init(&t.arena, 16, bytes);
        if (ask(&t, &q) == VERDICT_ALLOW)
            policy_over_limit(&t.outcome.limits[1], &t.arena, &t.outcome);
        denied += t.outcome.verdict == VERDICT_DENY;
        asked += t.outcome.verdict == VERDICT_HUMAN_REVIEW;
        assert_int_equal(denied + asked, bytes / 16);
        if (t.outcome.verdict == VERDICT_DENY) assert_string_equal(t.outcome.rule, "default:deny");
        if (t.outcome.verdict == VERDICT_HUMAN_REVIEW)
            assert_int_equal(t.outcome.review.vote_count, 1);
    }
    assert_true(denied > 0 && asked > 0);
    tenant_fini(&t);
}

static void what_shadow_would_have_changed_is_told_beside_a_limit(void **state)
{
    (void)state;
    struct tenant t;
    const char *const names[] = {"live", "next"};
    const char *const texts[] = {
        "rules: [{id: a, agents: [bot], actions: [\"*\"], decision: allow, limit: {window: 1h, "
        "count: 1}}]",
        "mode: shadow\n"
        "rules:\n"
        "  - {id: ask, actions: [ask], decision: human_review}\n"
        "  - {id: no, actions: [no], decision: deny}\n"
        "  - {id: swap, agents: [bot], actions: [swap], decision: compute, compute: {tool: y}}\n"};
    tenant_init(&t, 2, names, texts);
    assert_int_equal(ask_agent(&t, "bot", "ask"), VERDICT_ALLOW);
    policy_over_limit(&t.outcome.limits[0], &t.arena, &t.outcome);
    assert_true(t.outcome.has_would_have);
    assert_string_equal(t.outcome.would_have_rule, "review:ask");
    assert_true(str_is(t.outcome.would_have_policy, "next"));
    assert_int_equal(ask_agent(&t, "bot", "no"), VERDICT_ALLOW);
    assert_true(t.outcome.has_would_have);
    policy_over_limit(&t.outcome.limits[0], &t.arena, &t.outcome);
    assert_false(t.outcome.has_would_have); /* denied either way */
    assert_int_equal(ask_agent(&t, "bot", "swap"), VERDICT_ALLOW);
    assert_true(t.outcome.has_would_have);
    policy_over_limit(&t.outcome.limits[0], &t.arena, &t.outcome);
    assert_false(t.outcome.has_would_have); /* the limit would have met it as well */
    tenant_fini(&t);
}

/* Where the safe call in force is refused, nobody looks at limits; with the
 * shadow's one somebody would. */
static void what_shadow_would_permit_meets_the_limits(void **state)
{
    (void)state;
    struct tenant t;
    const char *const names[] = {"a", "b"};
    const char *const texts[] = {
        "mode: shadow\n"
        "rules: [{id: swap, agents: [bot], actions: [pay, ask], decision: compute, compute: {tool: y}}]\n",
        "rules:\n"
        "  - {id: own, agents: [bot], actions: [pay], decision: compute, compute: {tool: x}, limit: {window: 1h, sum: args.n, max: 9}}\n"
        "  - {id: too, agents: [bot], actions: [ask], decision: compute, compute: {tool: x},\n"
        "     limit: {window: 1h, sum: args.n, max: 9, over: human_review}}\n"
        "  - {id: no, actions: [x], decision: deny}\n"};
    tenant_init(&t, 2, names, texts);
    static const struct {
        const char *action, *args, *rule; /* NULL: it would have been denied as well */
        enum verdict would_have;
    } cases[] = {{"pay", "{\"n\":9}", "compute:swap", VERDICT_COMPUTE},
                 {"pay", "{\"n\":10}", NULL, VERDICT_DENY},
                 {"pay", "{}", NULL, VERDICT_DENY},
                 {"ask", "{\"n\":10}", "limit:too", VERDICT_HUMAN_REVIEW}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct policy_request q = agent_request("bot", cases[i].action);
        assert_int_equal(ask_args(&t, &q, cases[i].args), VERDICT_DENY);
        assert_int_equal(t.outcome.has_would_have, cases[i].rule != NULL);
        if (cases[i].rule == NULL) continue;
        assert_int_equal(t.outcome.would_have, cases[i].would_have);
        assert_string_equal(t.outcome.would_have_rule, cases[i].rule);
        assert_true(str_is(t.outcome.would_have_policy, i == 0 ? "a" : "b"));
    }
    tenant_fini(&t);
}

static void tests_of_a_document_run_without_limits(void **state)
{
    (void)state;
    struct policy_document *d = load_named(
        "d", "rules: [{id: a, agents: [b], actions: [x], decision: allow, limit: {window: 1h, sum: "
             "args.amount, max: 1}}]\n"
             "tests: [{request: {actor: b, action: x}, expect: allow, rule: \"allow:a\"},\n"
             "        {request: {actor: b, action: x, args: {amount: 900}}, expect: allow}]\n");
    policy_document_release(d);
}

static void on_considered(void *context, const struct policy_considered *c)
{
    snprintf(context, 200, "%.*s", STR_FORMAT(c->why));
}

static void explanations_mention_the_limit(void **state)
{
    (void)state;
    struct tenant t;
    char why[200];
    tenant_init_one(&t, "rules: [{id: a, agents: [b], actions: [x], decision: allow, limit: "
                        "{window: 1h, sum: args.amount, max: 99.5}}]");
    struct policy_request q = agent_request("b", "x");
    struct policy_explain e = {.considered = on_considered, .context = why};
    policy_evaluate(t.set, &q, &t.arena, &e, &t.outcome);
    assert_string_equal(
        why, "applies; its limit is a sum of args.amount of 99.5 per actor in 1h, and this request "
             "is over by itself: args.amount is no number from 0 on");
    tenant_fini(&t);
}

static void on_nearest(void *context, const struct policy_nearest *n)
{
    assert_int_equal(n->against_count, 1);
    snprintf(context, 200, "%.*s", STR_FORMAT(n->against[0]));
}

static void ignore(void *context, const struct policy_considered *c)
{
    (void)context;
    (void)c;
}

/* A dry run counts nothing; what is over whatever was counted is over there too. */
static void a_dry_run_is_over_where_the_request_is_so_by_itself(void **state)
{
    (void)state;
    struct tenant t;
    char against[200];
    tenant_init_one(
        &t,
        "rules:\n"
        "  - {id: a, agents: [b], actions: [x], decision: allow, limit: {window: 1h, count: 1}}\n"
        "  - {id: c, agents: [b], actions: [x], decision: allow, limit: {window: 1h, sum: args.n, max: 9}}\n"
        "  - {id: d, agents: [b], actions: [x], decision: allow, limit: {window: 1h, sum: args.m, max: 9, over: human_review}}\n"
        "  - {id: e, agents: [b], actions: [x], when: has(args.o), decision: allow, limit: {window: 1h, sum: args.o, max: 9, over: human_review}}\n");
    static const struct {
        const char *args, *rule;
    } cases[] = {{"{\"n\":9,\"m\":9}", "allow:a"},
                 {"{\"n\":9.1,\"m\":10}", "limit:c"},
                 {"{\"m\":1}", "limit:c"},
                 {"{\"n\":-1,\"m\":1}", "limit:c"},
                 {"{\"n\":0,\"m\":\"1\"}", "limit:d"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct policy_request q = agent_request("b", "x");
        /* for whoever counts to find */
        assert_int_equal(ask_args(&t, &q, cases[i].args), VERDICT_ALLOW);
        q.dry_run = true;
        ask_args(&t, &q, cases[i].args);
        assert_string_equal(t.outcome.rule, cases[i].rule);
    }
    struct policy_request q = agent_request("b", "x");
    q.dry_run = true;
    struct policy_vote approved = {
        .kind = VOTE_LIMIT, .policy_name = STR("doc"), .rule_id = STR("d")};
    q.approved = &approved;
    q.approved_count = 1; /* what was let through stops nothing, and hides nothing behind it */
    ask_args(&t, &q, "{\"n\":1,\"m\":10,\"o\":1}");
    assert_string_equal(t.outcome.rule, "allow:a");
    ask_args(&t, &q, "{\"n\":1,\"m\":10,\"o\":10}");
    assert_string_equal(t.outcome.rule, "limit:e");
    q.approved_count = 0;
    q.args = NULL;
    struct policy_explain e = {.considered = ignore, .nearest = on_nearest, .context = against};
    policy_evaluate(t.set, &q, &t.arena, &e, &t.outcome);
    assert_string_equal(
        against,
        "The limit of rule c adds up args.n, which is missing, negative, too large or no number.");
    tenant_fini(&t);
}

static void lints_tell_of_limits_that_count_something_else(void **state)
{
    (void)state;
    struct policy_document *d = load_named(
        "d",
        "rules:\n"
        "  - {id: people, users: [u], actions: [x], decision: allow, limit: {window: 1h, "
        "count: 1}}\n"
        "  - {id: bots, agents: [b], actions: [x], decision: allow, limit: {per: user, window: "
        "1h, count: 1}}\n"
        "  - {id: text, agents: [b], actions: [x], decision: allow, limit: {window: 1h, sum: "
        "resource.size, max: 1}}\n"
        "  - {id: fine, agents: [b], actions: [x], decision: allow, review: {approvals: 2}, "
        "limit: {window: 1h, sum: resource.properties.size, max: 1, over: human_review}}\n"
        "  - {id: idle, agents: [b], actions: [x], decision: allow, review: {approvals: 2}, "
        "limit: {window: 1h, count: 1}}\n"
        "  - {id: all, actions: [y], decision: human_review, limit: {window: 1h, count: 1}}\n");
    struct policy_problems p;
    policy_lint(d, &p);
    assert_int_equal(p.count, 4);
    assert_true(has_problem(&p, "limit: counts all people together"));
    assert_true(has_problem(&p, "limit: counts all agents together"));
    assert_true(has_problem(&p, "limit: is over at once"));
    assert_true(has_problem(&p, "review: has no effect"));
    for (unsigned i = 0; i < 3; i++) assert_int_equal(p.list[i].line, i + 2);
    assert_int_equal(p.list[3].line, 6);
    policy_document_release(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_that_cannot_be_meant_is_refused_at_its_place),
        cmocka_unit_test(a_sum_is_a_path_or_an_expression_that_can_be_understood),
        cmocka_unit_test(several_faults_of_a_limit_are_told_at_once),
        cmocka_unit_test(an_allow_carries_the_limits_of_all_rules_that_applied),
        cmocka_unit_test(what_is_not_let_through_counts_nothing),
        cmocka_unit_test(a_limit_is_counted_per_whom_it_says),
        cmocka_unit_test(all_spellings_of_a_name_are_counted_together),
        cmocka_unit_test(the_amount_stands_where_the_path_leads),
        cmocka_unit_test(another_spelling_of_a_name_makes_no_amount_smaller),
        cmocka_unit_test(amounts_are_millionths_rounded_up_and_a_max_is_rounded_down),
        cmocka_unit_test(over_a_limit_is_a_deny_that_tells_the_bound),
        cmocka_unit_test(over_a_limit_can_ask_a_person),
        cmocka_unit_test(a_compute_over_its_limit_has_no_safe_call),
        cmocka_unit_test(a_limit_that_a_person_let_through_is_counted_and_not_asked_again),
        cmocka_unit_test(a_review_for_a_limit_covers_what_was_approved_before),
        cmocka_unit_test(whom_a_limit_asks_is_told_once_beside_whom_a_rule_asked),
        cmocka_unit_test(a_review_for_a_rule_covers_the_limit_that_was_lifted_before),
        cmocka_unit_test(a_full_arena_is_a_deny_when_over),
        cmocka_unit_test(a_second_limit_does_not_undo_the_approval_of_the_first),
        cmocka_unit_test(every_arena_is_enough_or_a_deny),
        cmocka_unit_test(what_shadow_would_have_changed_is_told_beside_a_limit),
        cmocka_unit_test(tests_of_a_document_run_without_limits),
        cmocka_unit_test(explanations_mention_the_limit),
        cmocka_unit_test(what_shadow_would_permit_meets_the_limits),
        cmocka_unit_test(a_dry_run_is_over_where_the_request_is_so_by_itself),
        cmocka_unit_test(lints_tell_of_limits_that_count_something_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
