/* Tests of the loader: YAML and JSON as trees, and every complaint at its place. */
#include "support.h"

#include <stdlib.h>

/* In the place of libyaml's own: after so many there is no memory. */
static size_t yaml_left = SIZE_MAX;

void *yaml_malloc(size_t size);
void *yaml_malloc(size_t size)
{
    if (yaml_left == 0) return NULL;
    if (yaml_left != SIZE_MAX) yaml_left--;
    return malloc(size > 0 ? size : 1);
}

#define RULE "{id: a, agents: [b], actions: [c], decision: allow}"

static void a_document_with_everything_loads(void **state)
{
    (void)state;
    struct policy_document *d = load_named(
        "payments", "description: Payments team\n"
                    "mode: enforce\n"
                    "confidence: {allow_at: 0.90, review_at: .7, missing: human_review}\n"
                    "roles: {finance: [carol, \"dan@*\"], support: [\"*@support.example\"]}\n"
                    "mask: [args.card_number, \"args.cards.*.number\", context]\n"
                    "rules:\n"
                    "  - id: refunds\n"
                    "    actions: [issue_refund]\n"
                    "    decision: human_review\n"
                    "    reason: Refunds need finance.\n"
                    "    review: {by: [finance], approvals: 1, expires_in: 30m, good_for: 15m}\n"
                    "  - id: sandbox\n"
                    "    agents: [coder]\n"
                    "    actions: [\"write_*_prod\"]\n"
                    "    decision: compute\n"
                    "    compute: {tool: write_file, args: {path: /sandbox, sandboxed: true}}\n"
                    "tests:\n"
                    "  - {request: {actor: bot, action: issue_refund, args: {amount: 501}, "
                    "confidence: 1}, expect: human_review, rule: \"review:refunds\"}\n"
                    "  - {request: {actor: coder, tool: write_x_prod, confidence: 0.95, resource: "
                    "{type: db, id: prod, properties: {a: 1}}}, expect: compute}\n"
                    "  - {request: {actor: bot, action: x, scope: \"y z\", context: free "
                    "text}, expect: deny, rule: \"token:scope\"}\n");
    assert_int_equal(policy_document_rules(d), 2);
    assert_false(policy_document_is_json(d));
    policy_document_release(d);
}

static void strict_json_loads_too(void **state)
{
    (void)state;
    struct policy_document *d = load_named(
        "j",
        "\n {\"rules\": [{\"id\": \"a\", \"actions\": [\"\\u0063\"], \"decision\": \"deny\"}],\n"
        "  \"tests\": [{\"request\": {\"actor\": \"x\", \"action\": \"C\"}, \"expect\": \"deny\", "
        "\"rule\": \"deny:a\"}]}");
    assert_true(policy_document_is_json(d));
    policy_document_release(d);
}

static void json_is_strict_and_its_problems_have_places(void **state)
{
    (void)state;
    assert_refused_at("{\"rules\": [],\n \"rules\": []}", 2, 11, "", "/rules is given twice");
    assert_refused_at("{\"rules\": [\n  {\"id\": \"a\",}\n]}", 2, 14, "", "");
    assert_refused_at("{rules: []}", 1, 2, "", "");
    assert_refused_at(
        "{\"rules\": [{\"id\": \"a\", \"agents\": [\"b\"], \"actions\": [\"c\"],\n  \"decision\": "
        "\"alow\"}]}",
        2, 15, "rules[0].decision",
        "decision: \"alow\" is not one of allow, compute, human_review, deny; did you mean allow?");
    assert_refused_at("{\"mask\": [\"args.x\"],\n \"ru\\\"les\" : []}", 2, 2, "ru\"les",
                      "did you mean rules?");
}

static void unknown_keys_are_refused_with_a_guess(void **state)
{
    (void)state;
    assert_refused_at(
        "rules:\n  - {id: a, agents: [b], actions: [c], decison: allow, decision: allow}\n", 2, 40,
        "rules[0].decison", "decison: unknown key; did you mean decision?");
    assert_refused_at("rules: [" RULE "]\nmodus: enforce\n", 2, 1, "modus", "did you mean mode?");
    assert_refused_at("rules: [" RULE "]\nzzz: 1\n", 2, 1, "zzz",
                      "known here are description, mode,");
    assert_refused_at("rules: [" RULE
                      "]\ntests: [{request: {actor: a, action: c, user: x}, expect: allow}]",
                      2, 41, "tests[0].request.user", "did you mean user_id?");
    assert_refused_at("rules:\n  - {ID: a, agents: [b], actions: [c], decision: allow}\n", 2, 5,
                      "rules[0].id", "is missing here");
    struct policy_problems p =
        refused("rules:\n  - {ID: a, agents: [b], actions: [c], decision: allow}\n");
    assert_true(has_problem(&p, "ID: unknown key; did you mean id?"));
    p = refused(
        "rules:\n  - {id: a, agents: [b], actions: [c], decision: allow, when: f(args.x, args.y) > 5.0}\n");
    assert_true(has_problem(&p, "put that in quotes: within { } a comma ends it"));
}

static void a_gate_has_both_its_thresholds_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        const char *gate, *message;
    } cases[] = {
        {"{review_at: 0.5}", "allow_at"},
        {"{allow_at: 0.9}", "review_at"},
        /* else a missing confidence asks a person */
        {"{allow_at: 0.9, review_at: 0.5, mising: deny}", "mising"},
        {"{allow_at: 1.5, review_at: 0.5}", "1.5"},
        {"{allow_at: \"0.9\", review_at: 0.5}", "number"},
        {"{allow_at: 0.5, review_at: 0.9}", "the thresholds must descend"},
        {"{allow_at: 0.9, review_at: 0.5, missing: allow}", "allow"},
        {"0.9", "map"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "confidence: %s\nrules: [{id: a, actions: [x], decision: deny}]", cases[i].gate);
        struct policy_problems p = refused(text);
        if (!has_problem(&p, cases[i].message))
            fail_msg("%s: %s %s", text, p.list[0].path, p.list[0].message);
        assert_int_equal(p.count, 1);
    }
    policy_document_release(load_named(
        "doc",
        "confidence: {allow_at: 0.5, review_at: 0.5}\nrules: [{id: a, actions: [x], decision: deny}]"));
}

static void names_of_policies_are_short_and_plain(void **state)
{
    (void)state;
    char name[POLICY_NAME_MAX + 1];
    memset(name, 'x', sizeof name);
    assert_true(policy_is_name(str_of(name, POLICY_NAME_MAX)));
    assert_false(policy_is_name(str_of(name, sizeof name)));
    assert_true(policy_is_name(STR("a.B_9-c")));
    assert_false(policy_is_name(STR("")));
    assert_false(policy_is_name(STR("a b")));
    assert_false(policy_is_name(STR("a/b")));
}

static void words_are_told_from_other_values_and_other_letters(void **state)
{
    (void)state;
    struct policy_problems p =
        refused("rules: [{id: a, actions: [c], decision: HUMAN_REVIEW}]\nmode: true\n");
    assert_true(has_problem(&p, "did you mean human_review?"));
    assert_true(has_problem(&p, "mode: has to be one of enforce, shadow, not a boolean"));
    p = refused("rules: [{id: null, actions: [c], decision: deny}]\n");
    assert_true(has_problem(&p, "id: has to be a string, not null"));
}

static void a_byte_order_mark_is_no_column(void **state)
{
    (void)state;
    assert_refused_at("\xEF\xBB\xBFrulez: []", 1, 1, "rules", "is missing here");
    assert_refused_at("\xEF\xBB\xBF{rules: [}", 1, 10, "", "");
}

static void duplicate_keys_are_refused(void **state)
{
    (void)state;
    assert_refused_at("rules: [" RULE "]\nmode: enforce\n\"mode\": shadow\n", 3, 1, "",
                      "\"mode\" is here twice; it is on line 2");
    assert_refused_at("rules:\n - id: a\n   agents: [b]\n   actions: [c]\n   decision: deny\n   "
                      "decision: allow\n",
                      6, 4, "", "twice");
}

static void aliases_anchors_and_tags_are_refused(void **state)
{
    (void)state;
    struct policy_problems p = refused("description: &a text\nmode: *a\nrules: [!x " RULE "]\n");
    assert_int_equal(p.count, 3);
    assert_true(has_problem(&p, "anchors are not allowed"));
    assert_true(has_problem(&p, "aliases are not allowed"));
    assert_true(has_problem(&p, "tags are not allowed"));
    assert_refused_at("description: !!str text\nrules: [" RULE "]\n", 1, 14, "", "tags");
    assert_refused_at("description: ! text\nrules: [" RULE "]\n", 1, 14, "", "tags");
    assert_refused_at("%TAG ! tag:x,2000:\n---\nrules: [" RULE "]\n", 1, 1, "", "%TAG");
    assert_refused_at("rules: [{id: a, agents: [*], actions: [c], decision: deny}]", 1, 27, "",
                      "quote a value that starts with *");
}

static void more_than_one_document_and_none_are_refused(void **state)
{
    (void)state;
    assert_refused_at("rules: [" RULE "]\n---\nrules: []\n", 2, 1, "", "more than one");
    assert_refused_at("", 1, 1, "", "empty");
    assert_refused_at("# only a comment\n", 1, 1, "", "empty");
    assert_refused_at("- a\n", 1, 1, "", "has to be a map, not a list");
    assert_refused_at("{}", 1, 1, "rules", "rules: is missing here");
    assert_refused_at("rules: []", 1, 8, "rules", "says nothing");
}

static void scalars_have_core_schema_types(void **state)
{
    (void)state;
    assert_refused_at("rules: [{id: a, agents: [yes, 12], actions: [c], decision: allow}]", 1, 31,
                      "rules[0].agents[1]",
                      "agents[1]: has to be a string; 12 is a number: write \"12\"");
    assert_refused_at("rules: [{id: a, agents: [~], actions: [c], decision: allow}]", 1, 26,
                      "rules[0].agents[0]", "null");
    assert_refused_at("rules: [{id: true, agents: [x], actions: [c], decision: allow}]", 1, 14,
                      "rules[0].id", "true is a boolean");
    assert_refused_at("confidence: {allow_at: .nan, review_at: 0}\nrules: [" RULE "]", 1, 24, "",
                      "number cannot be held");
    assert_refused_at("rules: [{id: a, agents: [x], actions: [c], decision: compute, compute: "
                      "{tool: t, args: {n: 18446744073709551616}}}]",
                      1, 92, "", "number cannot be held");
    struct policy_document *d =
        load_named("n", "confidence: {allow_at: +1., review_at: 0x0}\nrules: [{id: a, agents: [x], "
                        "actions: [c], decision: compute, "
                        "compute: {tool: t, args: {a: 0o17, b: -.5e1, c: 18446744073709551615, d: "
                        "1_000, e: 012, f: on}}}]");
    policy_document_release(d);
}

static void numbers_keep_their_values(void **state)
{
    (void)state;
    struct tenant t;
    tenant_init_one(
        &t,
        "rules: [{id: a, agents: [x], actions: [c], decision: compute, compute: {tool: t, args: "
        "{a: 0o17, b: -.5e1, c: 18446744073709551615, d: 1_000, e: 012, f: on, g: "
        "-9223372036854775807, h: 1e3}}}]");
    assert_int_equal(ask_agent(&t, "x", "c"), VERDICT_COMPUTE);
    const struct json *args = t.outcome.safe_args;
    assert_true(json_get(args, STR("a"))->number == 15);
    assert_true(json_get(args, STR("b"))->number == -5);
    assert_int_equal(json_get(args, STR("c"))->number_kind, JSON_UINT64);
    assert_true(json_get(args, STR("c"))->uint64 == UINT64_MAX);
    assert_true(str_is(json_text(args, STR("d")), "1_000"));
    assert_true(json_get(args, STR("e"))->number == 12);
    assert_true(str_is(json_text(args, STR("f")), "on"));
    assert_true(json_get(args, STR("g"))->int64 == -INT64_MAX);
    assert_true(json_get(args, STR("h"))->number == 1000);
    tenant_fini(&t);
}

static void several_problems_are_told_at_once_in_order(void **state)
{
    (void)state;
    struct policy_problems p = refused("mode: on\n"
                                       "rules:\n"
                                       "  - {id: a b, agents: [], actions: [c], decision: allow}\n"
                                       "  - {id: pending, actions: [c], decision: allow}\n"
                                       "  - {id: c, decision: maybe}\n"
                                       "confidence: {allow_at: 0.5, review_at: 0.7}\n");
    for (size_t i = 1; i < p.count; i++) assert_true(p.list[i - 1].line <= p.list[i].line);
    assert_true(has_problem(&p, "mode: \"on\" is not one of enforce, shadow"));
    assert_true(has_problem(&p, "id: \"a b\" may only have letters"));
    assert_true(has_problem(&p, "agents: is empty"));
    assert_true(has_problem(&p, "\"pending\" is a word of the service's own answers"));
    assert_true(has_problem(&p, "a rule that permits has to name a subject"));
    assert_true(has_problem(&p, "actions: is missing here"));
    assert_true(has_problem(&p, "decision: \"maybe\" is not one of"));
    assert_true(has_problem(&p, "review_at: 0.7 is above allow_at (0.5)"));
    assert_int_equal(p.count, 8);
}

static void at_most_twenty_problems_are_told(void **state)
{
    (void)state;
    char text[4000] = "rules:\n";
    for (int i = 0; i < 40; i++) strncat(text, "  - {id: 1}\n", sizeof text - strlen(text) - 1);
    assert_int_equal(refused(text).count, POLICY_PROBLEMS_MAX);
}

static void rule_ids_are_unique(void **state)
{
    (void)state;
    assert_refused_at("rules:\n  - " RULE "\n  - " RULE "\n", 3, 10, "rules[1].id",
                      "the id of the rule on line 2 already");
}

static void durations_and_counts_have_ranges(void **state)
{
    (void)state;
#define REVIEW(text) "rules: [{id: a, actions: [c], decision: human_review, review: {" text "}}]"
    struct policy_problems p = refused(REVIEW("expires_in: 31d"));
    assert_true(has_problem(&p, "at most 30d"));
    p = refused(REVIEW("good_for: 25h"));
    assert_true(has_problem(&p, "at most 24h"));
    p = refused(REVIEW("expires_in: 30"));
    assert_true(has_problem(&p, "has to say its unit"));
    p = refused(REVIEW("expires_in: 0s"));
    assert_true(has_problem(&p, "out of range"));
    p = refused(REVIEW("expires_in: 1w"));
    assert_true(has_problem(&p, "is not a duration"));
    p = refused(REVIEW("expires_in: 99999999999999999999d"));
    assert_true(has_problem(&p, "is not a duration"));
    p = refused(REVIEW("approvals: 0"));
    assert_true(has_problem(&p, "out of range"));
    p = refused(REVIEW("approvals: 1.5"));
    assert_true(has_problem(&p, "whole number"));
    p = refused(REVIEW("proof: key"));
    assert_true(has_problem(&p, "\"key\" is not one of oidc"));
    p = refused(REVIEW("prof: oidc"));
    assert_true(has_problem(&p, "did you mean proof?"));
    p = refused(REVIEW("by: []"));
    assert_true(has_problem(&p, "by: is empty"));
    p = refused("rules: [{id: a, actions: [c], decision: deny, review: {by: [x]}}]");
    assert_true(has_problem(&p, "a deny asks no person"));
    p = refused("rules: [{id: a, actions: [c], decision: deny, compute: {tool: x}}]");
    assert_true(has_problem(&p, "belongs to decision: compute only"));
    p = refused("rules: [{id: a, agents: [x], actions: [c], decision: compute}]");
    assert_true(has_problem(&p, "compute: is missing: it says what is called instead"));
}

static void roles_name_people_and_claims(void **state)
{
    (void)state;
    static const struct {
        const char *role, *wrong;
    } cases[] = {
        {"{peple: [a]}", "did you mean people?"},
        {"{groups: [a]}", "known here are people, claims"},
        {"{}", "name people, claims or both"},
        {"{people: []}", "people: is empty"},
        {"{people: carol}", "write [carol]"},
        {"carol", "write [carol]"},
        {"{claims: [groups]}", "has to be a map"},
        {"{claims: {}}", "has 0 names of claims"},
        {"{claims: {a: [x], b: [x], c: [x], d: [x], e: [x], f: [x], g: [x], h: [x], i: [x]}}",
         "has 9 names of claims"},
        {"{claims: {groups: finance}}", "write [finance]"},
        {"{claims: {groups: []}}", "is empty"},
        {"{claims: {groups: [7]}}", "write \"7\""},
        {"{claims: {groups: [\"a\\nb\"]}}", "control character"},
        {"{claims: {\"a\\nb\": [x]}}", "a claim's name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text, "roles: {finance: %s}", cases[i].role);
        struct policy_problems p = refused(text);
        if (!has_problem(&p, cases[i].wrong)) fail_msg("%s: %s", cases[i].role, p.list[0].message);
    }
}

static void failing_tests_refuse_the_document(void **state)
{
    (void)state;
    assert_refused_at("rules: [" RULE
                      "]\ntests:\n  - {request: {actor: b, action: c}, expect: allow}\n"
                      "  - {request: {actor: b, action: d}, expect: allow, rule: \"allow:a\"}\n",
                      4, 5, "tests[1]", "expected allow by allow:a, got deny by default:deny");
    assert_refused_at(
        "rules: [" RULE
        "]\ntests: [{request: {actor: b, action: c}, expect: allow, rule: \"allow:b\"}]",
        2, 9, "tests[0]", "got allow by allow:a");
    assert_refused_at("rules: [" RULE "]\ntests: [{request: {action: c}, expect: allow}]", 2, 19,
                      "tests[0].request", "neither");
}

static void tests_of_a_shadow_document_see_it_enforced(void **state)
{
    (void)state;
    policy_document_release(
        load_named("s", "mode: shadow\nroles: {r: [u]}\nrules: [{id: a, roles: [r], actions: [c], "
                        "decision: allow}]\n"
                        "tests: [{request: {user_id: u, action: c}, expect: allow}]\n"));
}

static void masks_are_paths_below_the_request(void **state)
{
    (void)state;
    struct policy_problems p = refused("mask: [card, args..x, 5, \"\"]");
    assert_true(has_problem(&p, "mask[0]: \"card\" has to begin with args, context or resource"));
    assert_true(has_problem(&p, "mask[1]: \"args..x\" is not a path"));
    assert_true(has_problem(&p, "mask[2]: has to be a string"));
    assert_true(has_problem(&p, "mask[3]: must not be empty"));
    p = refused("mask: [\"args.card*\", \"args.**\", \"args.*.*\"]");
    assert_true(has_problem(&p, "mask[0]: \"args.card*\" has a * within a name"));
    assert_true(has_problem(&p, "mask[1]: \"args.**\" needs a name behind its **"));
    assert_int_equal(p.count, 2);
    p = refused("mask: [\"args.**.**.x\", \"args.***\", \"**.x\", \"args.**.*\", \"args.**.x\"]");
    assert_true(has_problem(&p, "mask[0]: \"args.**.**.x\" needs a name behind its **"));
    assert_true(has_problem(&p, "mask[1]: \"args.***\" has a * within a name"));
    assert_true(has_problem(&p, "mask[2]: \"**.x\" has to begin with args"));
    assert_int_equal(p.count, 3);
}

static void limits_bound_a_document(void **state)
{
    (void)state;
    static char large[(1 << 20) + 2];
    memset(large, ' ', sizeof large - 1);
    struct policy_problems p = refused(large);
    assert_true(has_problem(&p, "more than 1 MiB"));
    memset(large, '[', 400);
    large[400] = '\0';
    p = refused(large);
    assert_true(has_problem(&p, "deeper than 16 levels"));
    p = refused("{\"rules\": [[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]}");
    assert_true(p.list[0].line == 1);
    p = refused("rules: [{id: a, actions: [\"*a*b*c*d*e*f*g*h*i\"], decision: deny}]");
    assert_true(has_problem(&p, "9 stars"));
    memcpy(large, "rules: [{id: a, actions: [\"", 27);
    memset(large + 27, 'x', 513);
    memcpy(large + 27 + 513, "\"], decision: deny}]", 21);
    p = refused(large);
    assert_true(has_problem(&p, "513 characters"));
    memcpy(large + 27 + 512, "\"], decision: deny}]", 21);
    policy_document_release(load_named("doc", large));
    policy_document_release(
        load_named("doc", "rules: [{id: a, actions: [\"**a*b*c*d*e*f*g**\"], decision: deny}]"));
}

static void a_large_flat_document_is_bounded_in_time_and_memory(void **state)
{
    (void)state;
    static char large[1 << 20];
    for (size_t i = 0; i + 2 < sizeof large; i += 2) memcpy(large + i, i == 0 ? " [" : "a,", 2);
    struct policy_problems p = refused(large);
    assert_true(has_problem(&p, "too many values"));
}

static void bytes_that_are_not_utf8_are_refused(void **state)
{
    (void)state;
    assert_refused_at("description: \xC3\xA9\n# \xFF\n", 2, 3, "", "UTF-8");
    assert_refused_at("rules: [{id: a, actions: [\"a\\0b\"], decision: deny}]", 1, 27,
                      "rules[0].actions[0]", "U+0000");
    assert_refused_at("rules:\n  - \x01\n", 2, 5, "", "not YAML");
    assert_refused_at("rules: [a, b\nmode: x\n", 2, 5, "",
                      "the [ of line 1, column 8 is not closed by ]");
    assert_refused_at("? [a]\n: b\n", 1, 3, "", "a key has to be a string");
    assert_refused_at("1: b\n", 1, 1, "", "a key has to be a string");
}

static void a_long_word_is_told_in_part_and_the_sentence_is_whole(void **state)
{
    (void)state;
    enum { SIZE = 101 }; /* characters of two bytes, after one of one: every cut is within one */
    char word[1 + 2 * SIZE + 1] = "a", text[1024];
    for (size_t i = 0; i < SIZE; i++) memcpy(word + 1 + 2 * i, "\xC3\xA9", 3);
    snprintf(text, sizeof text, "mode: \"%s\"\nmask: [\"%s\"]\n%s: 1\n%s: 2\n", word, word, word,
             word);
    struct policy_problems p = refused(text);
    assert_true(has_problem(&p, "\" is not one of enforce, shadow"));
    assert_true(has_problem(&p, "\" has to begin with args, context or resource"));
    assert_true(has_problem(&p, "\" is here twice; it is on line 3 already"));
    for (size_t i = 0; i < p.count; i++) {
        size_t wrong;
        assert_true(str_is_utf8(str_from(p.list[i].message), &wrong));
        assert_true(str_is_utf8(str_from(p.list[i].path), &wrong));
    }
}

static void a_tests_resource_is_what_a_live_request_has(void **state)
{
    (void)state;
    static const char rules[] =
        "rules:\n"
        "  - {id: all, agents: [\"*\"], actions: [a], decision: allow}\n"
        "  - {id: d, actions: [a], when: \"has(resource.type) && resource.type == 'DB'\", decision: deny}\n"
        "  - {id: other, actions: [b], decision: deny, resources: [\"db:prod-*\"]}\n"
        "  - {id: b, agents: [\"*\"], actions: [b], decision: allow}\n"
        "  - {id: e, actions: [e], when: \"resource.type == 'DB' && resource.id == 'x'\", decision: deny}\n"
        "  - {id: eall, agents: [\"*\"], actions: [e], decision: allow}\n"
        "tests:\n"
        "  - {request: {actor: x, action: %s, resource: %s}, expect: %s}\n";
    static const struct {
        const char *action, *resource, *expect, *else_expect;
    } cases[] = {
        {"a", "\"DB:x\"", "deny", "allow"},
        {"a", "\"db:prod-1\"", "allow", "deny"},
        {"a", "\"id-alone\"", "allow", "deny"},
        {"e", "\"db:prod-1\"", "allow", "deny"}, /* and not because the condition failed */
        {"e", "\"DB:x\"", "deny", "allow"},
        {"e", "{type: DB, id: x}", "deny", "allow"},
        {"b", "\"db:dev-1\"", "allow", "deny"},
        {"b", "\"dev-1\"", "deny", "allow"}, /* partial: a deny with resources applies */
        {"b", "{type: db}", "deny", "allow"},
        {"b", "{id: dev-1}", "deny", "allow"},
        {"b", "{type: db, id: dev-1}", "allow", "deny"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2048];
        snprintf(text, sizeof text, rules, cases[i].action, cases[i].resource, cases[i].expect);
        policy_document_release(load_named("doc", text));
        snprintf(text, sizeof text, rules, cases[i].action, cases[i].resource,
                 cases[i].else_expect);
        refused(text);
    }
}

static const char context_rules[] =
    "rules:\n"
    "  - {id: a, agents: [b], actions: [sees], when: has(context.confidence) || has(context.trace_id), decision: allow}\n"
    "  - {id: g, agents: [b], actions: [gated], decision: allow, confidence: {allow_at: 0.9, review_at: 0.5}}\n"
    "  - {id: f, agents: [b], actions: [serves], when: acting_for == \"carol\", decision: allow}\n"
    "  - {id: p, users: [carol], actions: [sees], when: has(context.confidence), decision: allow}\n"
    "tests:\n  - {request: {%s}, expect: %s}\n";

static void a_tests_context_is_what_a_live_request_has(void **state)
{
    (void)state;
    static const struct {
        const char *request, *expect;
    } cases[] = {
        {"actor: b, action: sees, context: {confidence: 1, trace_id: x}", "deny"},
        {"actor: b, action: gated, context: {confidence: 0.95}", "allow"},
        {"actor: b, action: gated, context: {confidence: 0.4, text: x}", "deny"},
        {"actor: b, action: gated, confidence: 0.95, context: {scope: [other]}", "deny"},
        {"actor: b, action: serves, context: {acting_for: carol}", "allow"},
        {"user_id: carol, action: sees, context: {confidence: 1}", "allow"},
        {"user_id: carol, action: sees, context: {confidence: 1, scope: other, acting_for: dan}",
         "allow"},
    };
    char text[2048];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, context_rules, cases[i].request, cases[i].expect);
        policy_document_release(load_named("doc", text));
    }
    static const struct {
        const char *request, *message;
    } wrong[] = {
        {"actor: b, action: gated, context: {confidence: 2}",
         "confidence: 2 is out of range [0, 1]"},
        {"actor: b, action: gated, confidence: 1, context: {confidence: 1}",
         "confidence: is given beside the context already"},
        {"user_id: carol, action: sees, scope: sees",
         "scope: is an agent's; a person's request has none"},
        {"user_id: carol, action: sees, acting_for: dan",
         "acting_for: is an agent's; a person's request has none"},
        {"user_id: carol, action: sees, confidence: 1",
         "confidence: is an agent's; a person's request has none"},
        {"actor: b, action: gated, context: 5", "context: has to be a map or a string"},
        {"actor: b, action: gated, context: [x]", "context: has to be a map or a string"},
        {"actor: b, action: gated, tool: other",
         "tool: is the same as action; one of them is enough"},
        {"actor: b, action: gated, resource: {properties: 5}",
         "properties: has to be a map, not a number"},
        {"actor: b, action: gated, resource: {id: x, owner: [y]}",
         "owner: has to be a string, not a list"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(text, sizeof text, context_rules, wrong[i].request, "deny");
        struct policy_problems p = refused(text);
        assert_true(has_problem(&p, wrong[i].message));
    }
}

/* Whenever it is loaded, and for whichever tenant. */
static void a_test_says_when_it_is_asked_and_of_which_tenant(void **state)
{
    (void)state;
    static const char rules[] =
        "rules:\n"
        "  - {id: late, agents: [b], actions: [a], when: \"now >= timestamp('2026-11-20T09:30:00Z')\", decision: allow}\n"
        "  - {id: acme, agents: [b], actions: [t], when: tenant == 'acme', decision: allow}\n"
        "  - {id: long, agents: [b], actions: [\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa*\"], decision: allow}\n"
        "tests:\n  - {request: {actor: b, %s}, expect: %s}\n";
    static const struct {
        const char *request, *expect;
    } cases[] = {
        {"action: a", "deny"}, /* at the beginning of 1970 */
        {"action: a, now: \"2026-11-20T10:29:59.999+01:00\"", "deny"},
        {"action: a, now: \"2026-11-20T10:30:00+01:00\"", "allow"},
        {"action: t", "deny"}, /* of the tenant `default` */
        {"action: t, tenant_id: acme", "allow"},
        {"action: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
         "allow"},
        {"action: t, args: null, context: {confidence: null, scope: null}, resource: null, "
         "confidence: null, acting_for: null, now: null, tenant_id: acme",
         "allow"},
    };
    char text[2048];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, rules, cases[i].request, cases[i].expect);
        policy_document_release(load_named("doc", text));
    }
    snprintf(text, sizeof text, rules, "action: a, now: yesterday", "deny");
    struct policy_problems p = refused(text);
    assert_true(has_problem(&p, "now: has to be a time like 2026-11-20T09:30:00Z"));
}

/* To an editor each of these is one line, or one comment. */
static void a_role_may_be_named_as_other_systems_name_it(void **state)
{
    static const char *const good[] = {"role:test-role", "a/b/c", "group@corp.example",
                                       "Site Admins",    "a",     "x: y"};
    static const char *const bad[] = {" a", "a ", "a,b", "a;b", "a*", "a\\tb", "(a)", "a|b"};
    char text[512];
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        snprintf(
            text, sizeof text,
            "{\"roles\":{\"%s\":[\"carol\"]},\"rules\":[{\"id\":\"r\",\"roles\":[\"%s\"],"
            "\"actions\":[\"pay\"],\"decision\":\"human_review\",\"review\":{\"by\":[\"%s\"]}}],"
            "\"tests\":[{\"request\":{\"user_id\":\"carol\",\"action\":\"pay\"},"
            "\"expect\":\"human_review\",\"rule\":\"review:r\"}]}",
            good[i], good[i], good[i]);
        policy_document_release(load_named("doc", text));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(text, sizeof text, "{\"roles\":{\"%s\":[\"carol\"]}}", bad[i]);
        struct policy_problems p = refused(text);
        assert_true(has_problem(&p, "a role's name is 1 to 64 letters"));
    }
}

static void a_problem_without_its_name_is_whole(void **state)
{
    static const struct {
        const char *path, *message, *told;
    } rows[] = {
        {"roles.role:test-role", "role:test-role: is empty", "is empty"},
        {"roles.a: b", "a: b: is empty", "is empty"},
        {"roles.role:test-role[0]", "role:test-role[0]: is empty", "is empty"},
        {"rules[2].decision", "decision: \"alow\" is not one of allow",
         "\"alow\" is not one of allow"},
        {"rules[2].review.by[0]", "by[0]: must not be empty", "must not be empty"},
        {"rules[2]", "rules[2]: decision: x", "decision: x"},
        {"rules[0].when", "1:2: slip", "1:2: slip"},
        {"roles.xrole", "role: is empty", "role: is empty"},
        {"", "is empty: write", "is empty: write"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct policy_problem p = {0};
        snprintf(p.path, sizeof p.path, "%s", rows[i].path);
        snprintf(p.message, sizeof p.message, "%s", rows[i].message);
        assert_string_equal(policy_problem_short(&p), rows[i].told);
    }
}

static void a_line_break_that_nobody_sees_is_refused(void **state)
{
    (void)state;
    static const char rules[] = "rules:\n  - {id: a, actions: [x], decision: deny} # é%s  - {id: "
                                "b, actions: [y], agents: [bob], decision: allow}\n";
    static const char *const breaks[] = {"\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9", "\r"};
    char text[256];
    for (size_t i = 0; i < sizeof breaks / sizeof *breaks; i++) {
        snprintf(text, sizeof text, rules, breaks[i]);
        struct policy_problems p = refused(text);
        assert_true(has_problem(&p, "ends a line in YAML, but is not visible as one"));
        assert_int_equal(p.list[0].line, 2);
        assert_int_equal(p.list[0].column, 46);
    }
    policy_document_release(
        load_named("doc", "rules:\r\n  - {id: a, actions: [\"x\\u2028\\r\"], decision: deny}\r\n"));
    policy_document_release(load_named(
        "doc",
        "{\"rules\":[{\"id\":\"a\",\"actions\":[\"x\xE2\x80\xA8\"],\"decision\":\"deny\"}]}"));
}

static void a_document_is_not_to_blame_where_memory_runs_out(void **state)
{
    (void)state;
    struct policy_problems problems;
    struct policy_document *d = NULL;
    enum err err = ERR_FULL;
    size_t failed = 0;
    for (size_t left = 0; err == ERR_FULL; left++) {
        yaml_left = left;
        err = policy_load(STR("doc"), STR("rules: [" RULE "]\n"), &d, &problems);
        failed += err == ERR_FULL;
        assert_int_equal(problems.count, 0);
    }
    yaml_left = SIZE_MAX;
    assert_int_equal(err, ERR_OK);
    assert_true(failed > 10);
    policy_document_release(d);
}

static void
what_an_expression_is_refused_for_since_lately_leaves_stored_documents_alone(void **state)
{
    static const char text[] =
        "rules:\n"
        "  - {id: a, actions: [x], decision: deny, when: \"`actor` == 'b'\"}\n";
    struct policy_problems problems;
    struct policy_document *d = NULL;
    (void)state;
    policy_document_release(load_named("doc", text));
    assert_int_equal(policy_load_new(STR("doc"), str_from(text), &d, &problems),
                     ERR_INVALID_POLICY);
    assert_int_equal(problems.count, 1);
    assert_int_equal(problems.list[0].line, 2);
    assert_int_equal(problems.list[0].column, 50);
    assert_non_null(strstr(problems.list[0].message, "a name between back quotes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_with_everything_loads),
        cmocka_unit_test(
            what_an_expression_is_refused_for_since_lately_leaves_stored_documents_alone),
        cmocka_unit_test(strict_json_loads_too),
        cmocka_unit_test(json_is_strict_and_its_problems_have_places),
        cmocka_unit_test(unknown_keys_are_refused_with_a_guess),
        cmocka_unit_test(a_byte_order_mark_is_no_column),
        cmocka_unit_test(duplicate_keys_are_refused),
        cmocka_unit_test(aliases_anchors_and_tags_are_refused),
        cmocka_unit_test(more_than_one_document_and_none_are_refused),
        cmocka_unit_test(scalars_have_core_schema_types),
        cmocka_unit_test(numbers_keep_their_values),
        cmocka_unit_test(several_problems_are_told_at_once_in_order),
        cmocka_unit_test(at_most_twenty_problems_are_told),
        cmocka_unit_test(rule_ids_are_unique),
        cmocka_unit_test(durations_and_counts_have_ranges),
        cmocka_unit_test(roles_name_people_and_claims),
        cmocka_unit_test(failing_tests_refuse_the_document),
        cmocka_unit_test(tests_of_a_shadow_document_see_it_enforced),
        cmocka_unit_test(masks_are_paths_below_the_request),
        cmocka_unit_test(limits_bound_a_document),
        cmocka_unit_test(a_large_flat_document_is_bounded_in_time_and_memory),
        cmocka_unit_test(bytes_that_are_not_utf8_are_refused),
        cmocka_unit_test(a_long_word_is_told_in_part_and_the_sentence_is_whole),
        cmocka_unit_test(a_tests_resource_is_what_a_live_request_has),
        cmocka_unit_test(a_tests_context_is_what_a_live_request_has),
        cmocka_unit_test(a_gate_has_both_its_thresholds_and_nothing_else),
        cmocka_unit_test(names_of_policies_are_short_and_plain),
        cmocka_unit_test(a_test_says_when_it_is_asked_and_of_which_tenant),
        cmocka_unit_test(a_role_may_be_named_as_other_systems_name_it),
        cmocka_unit_test(a_problem_without_its_name_is_whole),
        cmocka_unit_test(a_line_break_that_nobody_sees_is_refused),
        cmocka_unit_test(words_are_told_from_other_values_and_other_letters),
        cmocka_unit_test(a_document_is_not_to_blame_where_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
