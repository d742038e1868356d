/* Tests of the evaluator: selectors, votes, gate, compute, scope, shadow, review terms. */
#include "support.h"

static void nothing_is_allowed_by_silence(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init(&t, 0, NULL, NULL);
    assert_int_equal(ask_agent(&t, "bot", "get_x"), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "default:deny");
    assert_true(str_is_absent(t.outcome.policy_name));
    assert_false(str_is_empty(t.outcome.reason));
    tenant_fini(&t);
}

static void the_smallest_document_allows_reads(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, "rules:\n  - {id: reads, agents: [\"*\"], actions: [\"get_*\", "
                        "\"list_*\"], decision: allow}\n");
    assert_int_equal(ask_agent(&t, "bot", "get_user"), VERDICT_ALLOW);
    assert_string_equal(t.outcome.rule, "allow:reads");
    assert_true(str_is(t.outcome.policy_name, "doc"));
    assert_int_equal(t.outcome.policy_version, 1);
    assert_true(str_is(t.outcome.reason, "Rule reads of policy doc allows this."));
    assert_int_equal(ask_agent(&t, "bot", "get_"), VERDICT_ALLOW);
    assert_int_equal(ask_agent(&t, "bot", "put_user"), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "default:deny");
    assert_int_equal(ask_user(&t, "bot", "get_user"), VERDICT_DENY);
    tenant_fini(&t);
}

static void the_strictest_vote_wins(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, "rules:\n"
                        "  - {id: a, agents: [bot], actions: [\"*\"], decision: allow}\n"
                        "  - {id: c, agents: [bot], actions: [\"c*\", \"h*\", \"d*\"], decision: "
                        "compute, compute: {tool: safe}}\n"
                        "  - {id: h, actions: [\"h*\", \"d*\"], decision: human_review}\n"
                        "  - {id: d, actions: [\"d*\"], decision: deny, reason: Never.}\n");
    assert_int_equal(ask_agent(&t, "bot", "a1"), VERDICT_ALLOW);
    assert_int_equal(ask_agent(&t, "bot", "c1"), VERDICT_COMPUTE);
    assert_string_equal(t.outcome.rule, "compute:c");
    assert_int_equal(ask_agent(&t, "bot", "h1"), VERDICT_HUMAN_REVIEW);
    assert_string_equal(t.outcome.rule, "review:h");
    assert_int_equal(ask_agent(&t, "bot", "d1"), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "deny:d");
    assert_true(str_is(t.outcome.reason, "Never."));
    tenant_fini(&t);
}

static void ties_go_to_the_first_document_name_then_to_the_first_position(void **state)
{
    (void)state;
    const char *const names[] = {"b", "a", "B"};
    const char *const texts[] = {"rules: [{id: r1, actions: [x, y], decision: deny}]",
                                 ("rules: [{id: r2, actions: [x], decision: deny}, {id: r3, "
                                  "actions: [\"*\"], decision: deny}]"),
                                 "rules: [{id: r4, actions: [y], decision: deny}]"};
    struct tenant t;
    tenant_init(&t, 3, names, texts);
    ask_agent(&t, "bot", "x");
    assert_string_equal(t.outcome.rule, "deny:r2"); /* a before b */
    assert_int_equal(t.outcome.policy_version, 2);
    ask_agent(&t, "bot", "y");
    assert_string_equal(t.outcome.rule, "deny:r4"); /* byte order: B before a */
    ask_agent(&t, "bot", "z");
    assert_string_equal(t.outcome.rule, "deny:r3");
    tenant_fini(&t);
}

static void deny_and_review_patterns_ignore_case_and_permissions_do_not(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t,
                    "rules:\n"
                    "  - {id: any, agents: [bot], actions: [\"*\"], decision: allow}\n"
                    "  - {id: drop, actions: [\"Drop_*\"], decision: deny}\n"
                    "  - {id: ask, agents: [BOT], actions: [\"*_ASK\"], decision: human_review}\n");
    assert_int_equal(ask_agent(&t, "bot", "DROP_table"), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "deny:drop");
    assert_int_equal(ask_agent(&t, "other", "dROP_"), VERDICT_DENY);
    assert_int_equal(ask_agent(&t, "bot", "please_ask"), VERDICT_HUMAN_REVIEW);
    assert_int_equal(ask_agent(&t, "Bot", "read"), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "default:deny");
    tenant_fini(&t);
}

/* Neither what a rule allows nor what is asked for is read in small letters first. */
static void a_permission_is_for_actions_in_its_own_spelling_only(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t, "rules:\n"
            "  - {id: small, agents: [bot], actions: [read, \"get_*\"], decision: allow}\n"
            "  - {id: large, agents: [bot], actions: [Write, \"Put_*\"], decision: allow}\n");
    static const char *const allowed[] = {"read", "get_x", "get_X", "Write", "Put_x"};
    static const char *const denied[] = {"Read",  "READ",  "Get_x", "GET_x",
                                         "write", "put_x", "PUT_x"};
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        assert_int_equal(ask_agent(&t, "bot", allowed[i]), VERDICT_ALLOW);
    for (size_t i = 0; i < sizeof denied / sizeof *denied; i++)
        assert_int_equal(ask_agent(&t, "bot", denied[i]), VERDICT_DENY);
    tenant_fini(&t);
}

static void a_permission_matches_strange_names_only_where_they_are_spelled_out(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t, "rules:\n"
            "  - {id: globs, agents: [\"*\"], actions: [\"get_*\", \"*\"], decision: allow}\n"
            "  - {id: spelled, agents: [\"my bot\"], actions: [\"say hello\", \"w\\u00e4hle\"], "
            "decision: allow}\n"
            "  - {id: no, actions: [\"rm *\"], decision: deny}\n");
    assert_int_equal(ask_agent(&t, "bot", "get_x; rm -rf /"), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "default:deny");
    assert_int_equal(ask_agent(&t, "bot", "get_\xC3\xA9"), VERDICT_DENY);
    assert_int_equal(ask_agent(&t, "my bot", "get_x"),
                     VERDICT_DENY); /* the subject is strange too */
    assert_int_equal(ask_agent(&t, "my bot", "say hello"), VERDICT_ALLOW);
    assert_int_equal(ask_agent(&t, "my bot", "w\xC3\xA4hle"), VERDICT_ALLOW);
    assert_int_equal(ask_agent(&t, "bot", "get_*"), VERDICT_DENY); /* a star in a name is strange */
    assert_int_equal(ask_agent(&t, "bot", "RM \xE2\x98\x83"), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "deny:no");
    assert_int_equal(ask_agent(&t, "b.o_t:1/@+-", "get_A.b:c/d@e+f-g"), VERDICT_ALLOW);
    tenant_fini(&t);
}

static void restricting_rules_match_a_request_without_a_resource(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "rules:\n"
        "  - {id: some, agents: [bot], actions: [w, r], resources: [\"db:*\"], decision: allow}\n"
        "  - {id: all, agents: [bot], actions: [w], decision: allow}\n"
        "  - {id: prod, actions: [w], resources: [\"db:PROD-*\"], decision: deny}\n");
    struct policy_request q = agent_request("bot", "w");
    assert_int_equal(ask(&t, &q), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "deny:prod");
    q.resource = STR("db:test");
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    q.resource = STR("db:prod-1");
    assert_int_equal(ask(&t, &q), VERDICT_DENY);
    q = agent_request("bot", "r");
    assert_int_equal(ask(&t, &q), VERDICT_DENY); /* a permission for resources needs one */
    assert_string_equal(t.outcome.rule, "default:deny");
    tenant_fini(&t);
}

static void an_odd_spelling_of_a_resource_is_no_way_past_what_restricts(void **state)
{
    (void)state;
    static const struct {
        const char *resource;
        enum verdict verdict;
    } cases[] = {
        {"db:prod-1", VERDICT_DENY},
        {" db:prod-1", VERDICT_DENY},
        {"db:prod-1\t", VERDICT_DENY},
        {"DB:\u200bPROD-1", VERDICT_DENY},
        {"d\uff42:prod-1", VERDICT_DENY},
        {"db:prod\u20101", VERDICT_DENY},
        {"db:caf\u00e9", VERDICT_DENY},
        {"db:CAFE\u0301", VERDICT_DENY},
        {"db :prod-1", VERDICT_DENY},
        {"db: prod-1", VERDICT_DENY},
        {"db\t:\u00a0prod-1", VERDICT_DENY},
        {"\u200b:prod-1", VERDICT_DENY}, /* nobody sees a type: as if there were none */
        {"db:\u200b", VERDICT_DENY},
        {"db:my prod-1", VERDICT_ALLOW}, /* another name, oddly spelled or not */
        {"db :my  prod-1", VERDICT_ALLOW},
        {"db:cafe", VERDICT_ALLOW},
        {"db:test\u200b", VERDICT_ALLOW},
    };
    /* A few rules are looked at one by one, many by an index. */
    char many[8000];
    struct buf out = buf_over(many, sizeof many - 1);
    struct arena names;
    arena_init(&names, 1 << 10, 64 << 10);
    buf_put_literal(&out,
                    "rules:\n"
                    "  - {id: all, agents: [bot], actions: [w], decision: allow}\n"
                    "  - {id: cafe, actions: [w], resources: [\"db:caf\u00e9\"], decision: deny}\n"
                    "  - {id: prod, actions: [w], resources: [\"db:prod-*\"], decision: deny}\n");
    size_t few = out.size;
    for (int i = 0; i < 60; i++)
        buf_printf(&out, "  - {id: r%d, actions: [w], resources: [\"x:%d-*\"], decision: deny}\n",
                   i, i);
    for (int pass = 0; pass < 2; pass++) {
        struct tenant t;
        many[pass == 0 ? out.size : few] = '\0';
        tenant_init_one(&t, many);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct policy_request q = agent_request("bot", "w");
            struct json *object = policy_resource_of_text(str_from(cases[i].resource), &names);
            assert_true(policy_name_resource(&q, object, &names));
            if (ask(&t, &q) != cases[i].verdict) fail_msg("%s", cases[i].resource);
        }
        tenant_fini(&t);
    }
    arena_fini(&names);
}

/* The resource is compared as it is spelled plainly, so the pattern has to be, too. */
static void a_pattern_that_is_spelled_oddly_stops_every_spelling(void **state)
{
    (void)state;
    static const struct {
        const char *resource;
        enum verdict verdict;
    } cases[] = {
        {"db:\u041c\u043e\u0441\u043a\u0432\u0430-1", VERDICT_DENY},
        {"db :\u041c\u043e\u0441\u043a\u0432\u0430-1", VERDICT_DENY},
        {"db:\u043c\u043e\u0441\u043a\u0432\u0430-1", VERDICT_DENY}, /* in small letters */
        {"db:stra\u00dfe-1", VERDICT_DENY},
        {" db:stra\u00dfe-1", VERDICT_DENY},
        {"db:STRASSE-1", VERDICT_DENY},
        {"db:\u00c4rzte", VERDICT_DENY},
        {"db:A\u0308rzte", VERDICT_DENY},
        {"db:\u00c4rzte\u200b", VERDICT_DENY},
        {"db:2020\u201321-q1", VERDICT_DENY},
        {"db:2020-21-q1", VERDICT_DENY},
        {"db:two  blanks", VERDICT_DENY},
        {"db: two   blanks", VERDICT_DENY},
        {"DB\t:wide*1", VERDICT_DENY}, /* a full-width star is one, too */
        {"db:stras-1", VERDICT_ALLOW},
        {"db:arzte", VERDICT_ALLOW},
        {"bare \u00c4", VERDICT_DENY},
        {"bare  A\u0308", VERDICT_DENY},
    };
    static const char text[] =
        "rules:\n"
        "  - {id: all, agents: [bot], actions: [w], decision: allow}\n"
        "  - {id: no, actions: [w], decision: deny, resources: [\"db:\u041c\u043e\u0441\u043a\u0432\u0430-*\","
        " \"db:stra\u00dfe-*\", \"db:\u00c4rzte\", \"db:2020\u201321*\", \"db:two  blanks\","
        " \"db:wide\uff0a1\", \"bare \u00c4\"]}\n";
    struct tenant t;
    struct arena names;
    arena_init(&names, 1 << 10, 64 << 10);
    tenant_init_one(&t, text);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct policy_request q = agent_request("bot", "w");
        struct json *object = policy_resource_of_text(str_from(cases[i].resource), &names);
        assert_true(policy_name_resource(&q, object, &names));
        if (ask(&t, &q) != cases[i].verdict) fail_msg("%s", cases[i].resource);
    }
    tenant_fini(&t);
    arena_fini(&names);
}

static void people_are_selected_by_name_or_role_and_agents_are_not(void **state)
{
    (void)state;
    const char *const names[] = {"roles", "rules"};
    const char *const texts[] = {
        "roles: {finance: [carol, \"dan@*\"], support: [\"*@support.example\"]}",
        "rules:\n"
        "  - {id: pay, roles: [finance], actions: [pay], decision: allow}\n"
        "  - {id: view, users: [eve], roles: [support, nobody], actions: [view], decision: allow}\n"
        "  - {id: stop, roles: [support], actions: [pay], decision: deny}\n"};
    struct tenant t;
    tenant_init(&t, 2, names, texts);
    assert_int_equal(ask_user(&t, "carol", "pay"), VERDICT_ALLOW);
    assert_int_equal(ask_user(&t, "dan@home", "pay"), VERDICT_ALLOW);
    assert_int_equal(ask_user(&t, "Carol", "pay"), VERDICT_DENY);
    assert_int_equal(ask_user(&t, "dan@home sweet", "pay"), VERDICT_DENY);
    assert_int_equal(ask_agent(&t, "carol", "pay"), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "default:deny");
    assert_int_equal(ask_user(&t, "eve", "view"), VERDICT_ALLOW);
    assert_int_equal(ask_user(&t, "x@support.example", "view"), VERDICT_ALLOW);
    assert_int_equal(ask_user(&t, "X@SUPPORT.example", "pay"), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "deny:stop"); /* a deny by role ignores case */
    tenant_fini(&t);
}

/* Lists that are long enough to have an index of their own. */
static void a_role_that_names_somebody_twice_is_one_role(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "roles: {finance: [carol, \"car*\", \"*rol\"], legal: [carol]}\n"
        "rules: [{id: a, roles: [finance], actions: [x], when: roles.size() == 2, decision: allow}]");
    assert_int_equal(ask_user(&t, "carol", "x"), VERDICT_ALLOW);
    assert_int_equal(ask_user(&t, "cargo", "x"), VERDICT_DENY);
    tenant_fini(&t);
}

static void a_long_list_of_names_selects_as_a_short_one_does(void **state)
{
    (void)state;
    static char text[4096];
    struct tenant t;
    struct buf out = buf_over(text, sizeof text - 1);
    buf_put_literal(&out,
                    "rules:\n  - {id: all, agents: [\"*\"], actions: [\"*\"], decision: allow}\n"
                    "  - {id: no, decision: deny, actions: [drop], agents: [Bad_Bot, \"EVIL_*\"");
    for (unsigned i = 0; i < 40; i++) buf_printf(&out, ", x%u", i);
    buf_put_literal(&out, "]}\n  - {id: may, users: [eve, EVE, \"*@Ops\"");
    for (unsigned i = 0; i < 40; i++) buf_printf(&out, ", u%u", i);
    buf_put_literal(&out, "], actions: [look], decision: allow}\n");
    text[out.size] = '\0';
    tenant_init_one(&t, text);
    assert_int_equal(ask_agent(&t, "bot", "drop"), VERDICT_ALLOW);
    assert_int_equal(ask_agent(&t, "bad_bot", "drop"), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "deny:no");
    assert_int_equal(ask_agent(&t, "evil_1", "drop"), VERDICT_DENY);
    assert_int_equal(ask_agent(&t, "X39", "drop"), VERDICT_DENY);
    assert_int_equal(ask_user(&t, "eve", "look"), VERDICT_ALLOW);
    assert_int_equal(ask_user(&t, "u39", "look"), VERDICT_ALLOW);
    assert_int_equal(ask_user(&t, "ann@Ops", "look"), VERDICT_ALLOW);
    assert_int_equal(ask_user(&t, "ann@ops", "look"), VERDICT_DENY); /* a permission is exact */
    assert_int_equal(ask_user(&t, "Eve", "look"), VERDICT_DENY);
    tenant_fini(&t);
}

static void roles_of_shadow_documents_do_not_count(void **state)
{
    (void)state;
    const char *const names[] = {"a", "b"};
    const char *const texts[] = {
        "mode: shadow\nroles: {finance: [carol]}",
        "rules: [{id: pay, roles: [finance], actions: [pay], decision: allow}]"};
    struct tenant t;
    tenant_init(&t, 2, names, texts);
    assert_int_equal(ask_user(&t, "carol", "pay"), VERDICT_DENY);
    tenant_fini(&t);
}

static enum verdict ask_sure(struct tenant *t, const char *action, double confidence)
{
    struct policy_request q = agent_request("bot", action);
    q.has_confidence = true;
    q.confidence = confidence;
    return ask(t, &q);
}

static void the_gate_votes_beside_the_rule(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, "confidence: {allow_at: 0.90, review_at: 0.70}\n"
                        "rules:\n"
                        "  - {id: a, agents: [bot], actions: [a], decision: allow}\n"
                        "  - {id: h, actions: [h], decision: human_review}\n"
                        "  - {id: own, agents: [bot], actions: [own], decision: allow, confidence: "
                        "{allow_at: 0.5, review_at: 0.1, missing: deny}}\n"
                        "  - {id: people, users: [u], actions: [a], decision: allow}\n");
    assert_int_equal(ask_sure(&t, "a", 1), VERDICT_ALLOW);
    assert_string_equal(t.outcome.rule, "allow:a");
    assert_true(t.outcome.confidence_used);
    assert_int_equal(ask_sure(&t, "a", 0.9), VERDICT_ALLOW);
    assert_int_equal(ask_sure(&t, "a", 0.89), VERDICT_HUMAN_REVIEW);
    assert_string_equal(t.outcome.rule, "gate:a");
    assert_true(str_is(t.outcome.reason, "The confidence is below allow_at (0.90) of rule a."));
    assert_int_equal(t.outcome.review.approvals, 1);
    assert_int_equal(t.outcome.review.expires_in_ms, 30 * 60 * 1000);
    assert_int_equal(t.outcome.review.good_for_ms, 15 * 60 * 1000);
    assert_int_equal(ask_sure(&t, "a", 0.7), VERDICT_HUMAN_REVIEW);
    assert_int_equal(ask_sure(&t, "a", 0.69), VERDICT_DENY);
    assert_true(str_is(t.outcome.reason, "The confidence is below review_at (0.70) of rule a."));
    assert_int_equal(ask_agent(&t, "bot", "a"), VERDICT_HUMAN_REVIEW);
    assert_string_equal(t.outcome.rule, "gate:a");
    assert_false(t.outcome.confidence_used);
    assert_true(str_is(t.outcome.reason, "No confidence was given, and rule a asks for one."));
    assert_int_equal(ask_sure(&t, "h", 1), VERDICT_HUMAN_REVIEW);
    assert_string_equal(t.outcome.rule, "review:h");
    assert_int_equal(ask_sure(&t, "h", 0), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "gate:h");
    assert_int_equal(ask_sure(&t, "own", 0.5), VERDICT_ALLOW);
    assert_int_equal(ask_agent(&t, "bot", "own"), VERDICT_DENY);
    assert_int_equal(ask_user(&t, "u", "a"), VERDICT_ALLOW); /* people have no gate */
    tenant_fini(&t);
}

static void the_gate_of_a_rule_that_cannot_be_evaluated_is_told_as_one(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, "rules: [{id: h, actions: [x], when: args.n > 1, decision: human_review,\n"
                        "         confidence: {allow_at: 0.9, review_at: 0.5}}]");
    struct policy_request q = agent_request("bot", "x");
    q.has_confidence = true;
    q.confidence = 0.1;
    assert_int_equal(ask(&t, &q), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "gate:h");
    assert_true(str_is(t.outcome.reason, "The confidence is below review_at (0.5) of rule h."));
    q.confidence = 0.95;
    assert_int_equal(ask(&t, &q), VERDICT_HUMAN_REVIEW);
    assert_string_equal(t.outcome.rule, "review:h");
    assert_non_null(
        memmem(t.outcome.reason.bytes, t.outcome.reason.size, "cannot be evaluated", 19));
    tenant_fini(&t);
}

static void a_confidence_that_is_no_number_is_denied_by_the_gate(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, "confidence: {allow_at: 0, review_at: 0}\n"
                        "rules: [{id: a, agents: [bot], actions: [a], decision: allow}]\n");
    assert_int_equal(ask_sure(&t, "a", 0), VERDICT_ALLOW);
    assert_int_equal(ask_sure(&t, "a", __builtin_nan("")), VERDICT_DENY);
    tenant_fini(&t);
}

static void compute_answers_with_the_safe_call(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t,
                    "rules:\n"
                    "  - {id: c, agents: [coder], actions: [\"write_*_prod\"], decision: compute,\n"
                    "     compute: {tool: write_file, args: {path: \"$${HOME}/x\", n: 3, deep: "
                    "[true, null]}}}\n");
    assert_int_equal(ask_agent(&t, "coder", "write_db_prod"), VERDICT_COMPUTE);
    assert_true(str_is(t.outcome.safe_tool, "write_file"));
    assert_true(str_is(json_text(t.outcome.safe_args, STR("path")), "${HOME}/x"));
    assert_int_equal(json_u64(t.outcome.safe_args, STR("n"), 0), 3);
    assert_int_equal(json_get(t.outcome.safe_args, STR("deep"))->count, 2);
    tenant_fini(&t);
}

static void a_safe_call_that_is_not_permitted_is_a_deny(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "rules:\n"
        "  - {id: c1, agents: [a, b, c], actions: [x], decision: compute, compute: {tool: safe}}\n"
        "  - {id: d, agents: [b], actions: [SAFE], decision: deny}\n"
        "  - {id: h, agents: [c], actions: [safe], decision: human_review}\n"
        "  - {id: loop, agents: [a], actions: [safe], decision: compute, compute: {tool: safer}}\n"
        "  - {id: worse, agents: [a], actions: [safer], decision: deny}\n");
    assert_int_equal(ask_agent(&t, "a", "x"), VERDICT_COMPUTE); /* asked once, not followed */
    assert_int_equal(ask_agent(&t, "b", "x"), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "compute:c1");
    assert_true(str_is(t.outcome.reason,
                       "The safe call safe is not permitted either: rule d of policy doc."));
    assert_true(str_is_absent(t.outcome.safe_tool));
    assert_int_equal(ask_agent(&t, "c", "x"), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "compute:c1");
    tenant_fini(&t);
}

/* Which rule denies is what it is, whatever the replacement beside it would have come to. */
static void conditions_of_the_safe_call_see_the_safe_call(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "rules:\n"
        "  - {id: c, agents: [bot], actions: [run], decision: compute, compute: {tool: write, args: {to: x}}}\n"
        "  - {id: named, actions: [\"*\"], when: action == 'write' && user == 'ann', decision: deny}\n"
        "  - {id: given, actions: [write], when: \"has(args.to) && user == 'bob'\", decision: deny}\n");
    struct policy_request q = agent_request("bot", "run");
    assert_int_equal(ask(&t, &q), VERDICT_COMPUTE);
    q.user = STR("ann");
    assert_int_equal(ask(&t, &q), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "compute:c");
    q.user = STR("bob");
    assert_int_equal(ask(&t, &q), VERDICT_DENY);
    tenant_fini(&t);
}

static void a_deny_is_not_told_as_that_of_a_replacement(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t, "rules:\n"
            "  - {id: c, agents: [bot], actions: [x], decision: compute, compute: {tool: safe}}\n"
            "  - {id: no, actions: [x, safe], decision: deny}\n");
    assert_int_equal(ask_agent(&t, "bot", "x"), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "deny:no");
    assert_true(str_is(t.outcome.reason, "Rule no of policy doc denies this."));
    tenant_fini(&t);
}

static void the_gate_of_a_safe_call_is_told_as_one(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t, "rules:\n"
            "  - {id: c, agents: [bot], actions: [x], decision: compute, compute: {tool: safe}}\n"
            "  - {id: s, agents: [bot], actions: [safe], decision: allow, confidence: "
            "{allow_at: 0.9, review_at: 0.5}}\n");
    assert_int_equal(ask_sure(&t, "x", 0.95), VERDICT_COMPUTE);
    assert_int_equal(ask_sure(&t, "x", 0.6), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "compute:c");
    assert_true(
        str_is(t.outcome.reason,
               "The safe call safe is not permitted either: gate of rule s of policy doc."));
    tenant_fini(&t);
}

static void an_action_outside_the_scope_is_denied(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, "rules: [{id: a, agents: [\"*\"], actions: [\"*\"], decision: allow}]");
    const struct str scope[] = {STR("get_*"), STR("send email")};
    struct policy_request q = agent_request("bot", "get_x");
    q.has_scope = true;
    q.scope = scope;
    q.scope_count = 2;
    assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
    q.action = STR("put_x");
    assert_int_equal(ask(&t, &q), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "token:scope");
    q.action = STR("GET_x");
    assert_int_equal(ask(&t, &q), VERDICT_DENY);
    q.action = STR("get_x y");
    assert_int_equal(ask(&t, &q), VERDICT_DENY);
    q.action = STR("get_x");
    q.scope_count = 0; /* an empty scope grants nothing */
    assert_int_equal(ask(&t, &q), VERDICT_DENY);
    tenant_fini(&t);
}

static void review_terms_of_all_votes_hold(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, "rules:\n"
                        "  - {id: r1, actions: [x, y], decision: human_review, review: {by: "
                        "[finance, cfo], expires_in: 2d, good_for: 90s}}\n"
                        "  - {id: r2, actions: [\"x*\", x], decision: human_review, review: {by: "
                        "[legal], approvals: 2, expires_in: 1h}}\n"
                        "  - {id: r3, actions: [x], decision: human_review}\n");
    assert_int_equal(ask_agent(&t, "bot", "y"), VERDICT_HUMAN_REVIEW);
    assert_true(str_is(t.outcome.review.by, "finance, cfo"));
    assert_int_equal(t.outcome.review.expires_in_ms, 2 * 24 * 60 * 60 * 1000);
    assert_int_equal(ask_agent(&t, "bot", "x"), VERDICT_HUMAN_REVIEW);
    assert_string_equal(t.outcome.rule, "review:r1");
    assert_true(str_is(t.outcome.review.by, "finance, cfo; legal"));
    assert_int_equal(t.outcome.review.approvals, 2);
    assert_int_equal(t.outcome.review.expires_in_ms, 30 * 60 * 1000);
    assert_int_equal(t.outcome.review.good_for_ms, 90 * 1000);
    tenant_fini(&t);
    tenant_init_one(&t,
                    "rules:\n"
                    "  - {id: r1, actions: [x], decision: human_review, review: {by: [legal]}}\n"
                    "  - {id: r2, actions: [x], decision: human_review, review: {by: [legal]}}\n");
    assert_int_equal(ask_agent(&t, "bot", "x"), VERDICT_HUMAN_REVIEW);
    assert_true(str_is(t.outcome.review.by, "legal")); /* told of once */
    assert_int_equal(t.outcome.review.requirement_count, 2);
    tenant_fini(&t);
}

static void shadow_documents_report_what_they_would_change(void **state)
{
    (void)state;
    const char *const names[] = {"live", "next"};
    const char *const texts[] = {
        "rules: [{id: a, agents: [bot], actions: [\"*\"], decision: allow}]",
        "mode: shadow\n"
        "rules:\n"
        "  - {id: no, actions: [\"drop_*\"], decision: deny}\n"
        "  - {id: yes, agents: [bot, new], actions: [\"get_*\"], decision: allow}\n"};
    struct tenant t;
    tenant_init(&t, 2, names, texts);
    assert_int_equal(ask_agent(&t, "bot", "drop_x"), VERDICT_ALLOW);
    assert_true(t.outcome.has_would_have);
    assert_int_equal(t.outcome.would_have, VERDICT_DENY);
    assert_string_equal(t.outcome.would_have_rule, "deny:no");
    assert_true(str_is(t.outcome.would_have_policy, "next"));
    assert_int_equal(ask_agent(&t, "bot", "get_x"), VERDICT_ALLOW);
    assert_false(t.outcome.has_would_have);
    assert_int_equal(ask_agent(&t, "new", "get_x"), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "default:deny");
    assert_true(t.outcome.has_would_have);
    assert_int_equal(t.outcome.would_have, VERDICT_ALLOW);
    tenant_fini(&t);
}

static void a_confidence_that_only_shadow_documents_look_at_is_not_used(void **state)
{
    (void)state;
    struct tenant t;
    const char *const names[] = {"live", "next"};
    const char *const texts[] = {
        "rules:\n"
        "  - {id: a, agents: [bot], actions: [x, y], decision: allow}\n"
        "  - {id: b, agents: [bot], actions: [z], decision: allow, confidence: {allow_at: 0.9, review_at: 0.5}}\n",
        "mode: shadow\nrules:\n"
        "  - {id: s, agents: [bot], actions: [x], decision: allow, confidence: {allow_at: 0.9, review_at: 0.5}}\n"
        "  - {id: c, agents: [bot], actions: [y], decision: compute, compute: {tool: z}}\n"};
    tenant_init(&t, 2, names, texts);
    const char *const actions[] = {"x", "y", "z"};
    for (size_t i = 0; i < 3; i++) {
        struct policy_request q = agent_request("bot", actions[i]);
        q.has_confidence = true;
        q.confidence = 0.95;
        assert_int_equal(ask(&t, &q), VERDICT_ALLOW);
        assert_int_equal(t.outcome.confidence_used, i == 2);
    }
    tenant_fini(&t);
}

static void a_shadow_document_that_agrees_would_change_nothing(void **state)
{
    (void)state;
    const char *const names[] = {"first", "live"};
    const char *const texts[] = {
        "mode: shadow\n"
        "rules:\n"
        "  - {id: yes, agents: [bot], actions: [a], decision: allow}\n"
        "  - {id: no, actions: [d], decision: deny}\n"
        "  - {id: other, agents: [bot], actions: [c], decision: compute, compute: {tool: safe}}\n",
        "rules:\n"
        "  - {id: a, agents: [bot], actions: [a], decision: allow}\n"
        "  - {id: d, actions: [d], decision: deny}\n"
        "  - {id: c, agents: [bot], actions: [c], decision: compute, compute: {tool: file}}\n"};
    struct tenant t;
    tenant_init(&t, 2, names, texts);
    assert_int_equal(ask_agent(&t, "bot", "a"), VERDICT_ALLOW);
    assert_false(t.outcome.has_would_have); /* though its rule would be the one that is named */
    assert_int_equal(ask_agent(&t, "bot", "d"), VERDICT_DENY);
    assert_false(t.outcome.has_would_have);
    assert_int_equal(ask_agent(&t, "bot", "c"), VERDICT_COMPUTE);
    assert_true(str_is(t.outcome.safe_tool, "file"));
    assert_true(t.outcome.has_would_have); /* another safe call is another outcome */
    assert_int_equal(t.outcome.would_have, VERDICT_COMPUTE);
    assert_string_equal(t.outcome.would_have_rule, "compute:other");
    tenant_fini(&t);
}

static void a_closed_set_denies_everything_with_its_reason(void **state)
{
    (void)state;
    struct tenant t;
    assert_int_equal(policy_set_closed("default:policy_unloadable",
                                       "The newest bundle cannot be loaded.", &t.set),
                     ERR_OK);
    arena_init(&t.arena, 4096, 8192);
    assert_int_equal(ask_agent(&t, "bot", "x"), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "default:policy_unloadable");
    assert_true(str_is(t.outcome.reason, "The newest bundle cannot be loaded."));
    tenant_fini(&t);
}

static void a_full_arena_is_a_deny(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(&t, "confidence: {allow_at: 0.9, review_at: 0.5}\n"
                        "rules: [{id: a, agents: [\"*\"], actions: [\"*\"], decision: allow}]");
    arena_fini(&t.arena);
    arena_init(&t.arena, 16, 16);
    char actor[300];
    memset(actor, 'a', sizeof actor);
    struct policy_request q = agent_request("bot", "x");
    q.actor = str_of(actor, sizeof actor);
    assert_int_equal(ask(&t, &q), VERDICT_DENY);
    assert_string_equal(t.outcome.rule, "default:deny");
    assert_non_null(strstr(t.outcome.reason.bytes, "memory"));
    assert_int_equal(ask_agent(&t, "bot", "x"), VERDICT_DENY); /* no room for the gate's sentence */
    assert_string_equal(t.outcome.rule, "default:deny");
    tenant_fini(&t);
}

/* A rule for which there was no memory left to see whether it applies is not
 * one that does not apply. */
static void a_denied_request_is_denied_in_every_arena(void **state)
{
    (void)state;
    static const struct {
        const char *text, *rule;
        enum subject_kind kind;
    } cases[] = {
        {"rules:\n  - {id: a, agents: [bot], actions: [x], decision: allow}\n"
         "  - {id: d, actions: [x], resources: [\"db:*\"], decision: deny}\n",
         "deny:d", SUBJECT_AGENT},
        {"roles: {finance: [carol]}\nrules:\n  - {id: a, users: [carol], actions: [x], decision: allow}\n"
         "  - {id: d, roles: [finance], actions: [x], decision: deny}\n",
         "deny:d", SUBJECT_USER},
        {"rules:\n  - {id: c, agents: [bot], actions: [x], decision: compute, compute: {tool: y}}\n"
         "  - {id: d, actions: [y], resources: [\"db:*\"], decision: deny}\n",
         "compute:c", SUBJECT_AGENT},
    };
    char resource[300] = "db:";
    memset(resource + 3, 'r', sizeof resource - 3);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tenant t;
        tenant_init_one(&t, cases[i].text);
        struct policy_request q =
            cases[i].kind == SUBJECT_AGENT ? agent_request("bot", "x") : user_request("carol", "x");
        q.resource = str_of(resource, sizeof resource);
        for (size_t bytes = 16; bytes <= 4096; bytes += 16) {
            arena_fini(&t.arena);
            arena_init(&t.arena, 16, bytes);
            assert_int_equal(ask(&t, &q), VERDICT_DENY);
        }
        assert_string_equal(t.outcome.rule, cases[i].rule);
        tenant_fini(&t);
    }
}

static void digests_name_documents_and_texts_whatever_their_order(void **state)
{
    (void)state;
    const char *const names[] = {"a", "b"}, *const swapped[] = {"b", "a"};
    const char *const texts[] = {"rules: [{id: x, actions: [x], decision: deny}]",
                                 "mask: [args.x]"};
    const char *const swapped_texts[] = {texts[1], texts[0]};
    struct tenant one, other, third;
    tenant_init(&one, 2, names, texts);
    tenant_init(&other, 2, swapped, swapped_texts);
    tenant_init(&third, 2, names, swapped_texts);
    assert_true(str_equal(policy_set_digest_hex(one.set), policy_set_digest_hex(other.set)));
    assert_false(str_equal(policy_set_digest_hex(one.set), policy_set_digest_hex(third.set)));
    assert_int_equal(policy_set_rules(one.set), 1);
    tenant_fini(&one);
    tenant_fini(&other);
    tenant_fini(&third);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_allowed_by_silence),
        cmocka_unit_test(the_smallest_document_allows_reads),
        cmocka_unit_test(the_strictest_vote_wins),
        cmocka_unit_test(ties_go_to_the_first_document_name_then_to_the_first_position),
        cmocka_unit_test(deny_and_review_patterns_ignore_case_and_permissions_do_not),
        cmocka_unit_test(a_permission_is_for_actions_in_its_own_spelling_only),
        cmocka_unit_test(a_permission_matches_strange_names_only_where_they_are_spelled_out),
        cmocka_unit_test(restricting_rules_match_a_request_without_a_resource),
        cmocka_unit_test(an_odd_spelling_of_a_resource_is_no_way_past_what_restricts),
        cmocka_unit_test(a_pattern_that_is_spelled_oddly_stops_every_spelling),
        cmocka_unit_test(people_are_selected_by_name_or_role_and_agents_are_not),
        cmocka_unit_test(a_role_that_names_somebody_twice_is_one_role),
        cmocka_unit_test(a_long_list_of_names_selects_as_a_short_one_does),
        cmocka_unit_test(roles_of_shadow_documents_do_not_count),
        cmocka_unit_test(the_gate_votes_beside_the_rule),
        cmocka_unit_test(the_gate_of_a_rule_that_cannot_be_evaluated_is_told_as_one),
        cmocka_unit_test(a_confidence_that_is_no_number_is_denied_by_the_gate),
        cmocka_unit_test(compute_answers_with_the_safe_call),
        cmocka_unit_test(a_safe_call_that_is_not_permitted_is_a_deny),
        cmocka_unit_test(conditions_of_the_safe_call_see_the_safe_call),
        cmocka_unit_test(a_deny_is_not_told_as_that_of_a_replacement),
        cmocka_unit_test(the_gate_of_a_safe_call_is_told_as_one),
        cmocka_unit_test(an_action_outside_the_scope_is_denied),
        cmocka_unit_test(review_terms_of_all_votes_hold),
        cmocka_unit_test(shadow_documents_report_what_they_would_change),
        cmocka_unit_test(a_confidence_that_only_shadow_documents_look_at_is_not_used),
        cmocka_unit_test(a_shadow_document_that_agrees_would_change_nothing),
        cmocka_unit_test(a_closed_set_denies_everything_with_its_reason),
        cmocka_unit_test(a_full_arena_is_a_deny),
        cmocka_unit_test(a_denied_request_is_denied_in_every_arena),
        cmocka_unit_test(digests_name_documents_and_texts_whatever_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
