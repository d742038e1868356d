/* The answer's two spellings, made of a decision that is filled in by hand. */
#include "unit/engine/decide_scene.h"

#include "engine/decision/answer.h"

static const char hash[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/* A decision with every member that an answer may have; tests take away what they are not about. */
static struct decision full(enum verdict verdict)
{
    struct decision d = {.safe_args = STR("{\"path\":\"/sandbox\"}")};
    d.outcome = (struct policy_outcome){.verdict = verdict,
                                        .has_would_have = true,
                                        .would_have = VERDICT_DENY,
                                        .would_have_rule = "deny:strict",
                                        .would_have_policy = STR("next")};
    d.event = (struct event){.request_id = STR("req_01JD0000000000000000000000"),
                             .trace_id = STR("t-1"),
                             .action = STR("pay \"now\""),
                             .decision = str_from(verdict_name(verdict)),
                             .reason = STR("Ask\nfinance."),
                             .rule = STR("review:big"),
                             .policy_name = STR("payments"),
                             .policy_version = 3,
                             .has_policy_version = true,
                             .policy_digest = STR("9c1e"),
                             .latency_ms = 0.041,
                             .mode = STR("live"),
                             .timestamp = scene_now_ms,
                             .review_id = STR("rev_01JD0000000000000000000000"),
                             .expires_at = scene_now_ms + 60000,
                             .safe_tool = STR("write_file"),
                             .confidence_used = 0.5,
                             .has_confidence_used = true,
                             .input_hash = str_from(hash),
                             .output_hash = str_from(hash)};
    return d;
}

static struct str answer(char to[4096], const struct decision *d, enum auth_request_form form,
                         struct str explain)
{
    struct buf b = buf_over(to, 4096);
    answer_put(&b, d, form, explain);
    assert_false(b.overflow);
    return buf_view(&b);
}

static const char *const snake[] = {"request_id",
                                    "trace_id",
                                    "allowed",
                                    "requires_human_review",
                                    "compute",
                                    "decision",
                                    "reason",
                                    "rule",
                                    "policy_name",
                                    "policy_version",
                                    "policy_digest",
                                    "latency_ms",
                                    "mode",
                                    "timestamp",
                                    "review_id",
                                    "expires_at",
                                    "safe_tool",
                                    "safe_args",
                                    "confidence_used",
                                    "would_have",
                                    "input_hash",
                                    "output_hash",
                                    NULL};
static const char *const camel[] = {
    "requestId", "traceId",        "tool",          "decision",     "reason",
    "rule",      "policyName",     "policyVersion", "policyDigest", "latencyMs",
    "mode",      "timestamp",      "reviewId",      "expiresAt",    "safeTool",
    "safeArgs",  "confidenceUsed", "wouldHave",     "inputHash",    "outputHash",
    NULL};

/* Exactly these, in any order. */
static void assert_members(const struct json *object, const char *const *names)
{
    size_t count = 0;
    for (; names[count] != NULL; count++) {
        if (json_get(object, str_from(names[count])) == NULL)
            print_error("%s is missing\n", names[count]);
        assert_non_null(json_get(object, str_from(names[count])));
    }
    assert_int_equal(object->count, count);
}

static void each_route_spells_members_its_own_way(void **state)
{
    struct scene *s = *state;
    struct decision d = full(VERDICT_HUMAN_REVIEW);
    char text[4096];
    assert_members(scene_read(s, answer(text, &d, ASK_AGENT, (struct str){0})), snake);
    assert_members(scene_read(s, answer(text, &d, ASK_USER, (struct str){0})), snake);
    const struct json *tool = scene_read(s, answer(text, &d, ASK_TOOL, (struct str){0}));
    assert_members(tool, camel);
    assert_member(tool, "tool", "pay \"now\"");
    assert_members(json_get(tool, STR("wouldHave")),
                   (const char *const[]){"decision", "rule", "policyName", NULL});
}

static void members_are_as_they_were_decided(void **state)
{
    struct scene *s = *state;
    struct decision d = full(VERDICT_HUMAN_REVIEW);
    char text[4096];
    const struct json *a = scene_read(s, answer(text, &d, ASK_AGENT, (struct str){0}));
    assert_member(a, "request_id", "req_01JD0000000000000000000000");
    assert_member(a, "reason", "Ask\nfinance.");
    assert_raw(a, "policy_version", "3");
    assert_raw(a, "latency_ms", "0.041");
    assert_raw(a, "confidence_used", "0.5");
    assert_member(a, "timestamp", "2026-11-20T09:20:00.123Z");
    assert_member(a, "expires_at", "2026-11-20T09:21:00.123Z");
    assert_raw(a, "safe_args", "{\"path\":\"/sandbox\"}");
    assert_raw(a, "would_have",
               "{\"decision\":\"deny\",\"rule\":\"deny:strict\",\"policy_name\":\"next\"}");
}

/* What has no value is left out, and a confidence of zero has one. */
static void nothing_is_ever_null(void **state)
{
    struct scene *s = *state;
    struct decision d = {.outcome.verdict = VERDICT_DENY};
    d.event = (struct event){.request_id = STR("req_x"),
                             .trace_id = STR("t"),
                             .decision = STR("deny"),
                             .action = STR("x"),
                             .reason = STR(""),
                             .rule = STR("default:deny"),
                             .mode = STR("live"),
                             .timestamp = scene_now_ms,
                             .policy_digest = STR("9c"),
                             .input_hash = str_from(hash),
                             .output_hash = str_from(hash)};
    char text[4096];
    struct str bytes = answer(text, &d, ASK_AGENT, (struct str){0});
    assert_false(text_has(bytes, "null"));
    assert_members(scene_read(s, bytes),
                   (const char *const[]){"request_id", "trace_id", "allowed",
                                         "requires_human_review", "compute", "decision", "reason",
                                         "rule", "policy_digest", "latency_ms", "mode", "timestamp",
                                         "input_hash", "output_hash", NULL});
    bytes = answer(text, &d, ASK_TOOL, (struct str){0});
    assert_false(text_has(bytes, "null"));
    assert_members(scene_read(s, bytes),
                   (const char *const[]){"requestId", "traceId", "tool", "decision", "reason",
                                         "rule", "policyDigest", "latencyMs", "mode", "timestamp",
                                         "inputHash", "outputHash", NULL});
    d.event.has_confidence_used = true;
    assert_raw(scene_read(s, answer(text, &d, ASK_AGENT, (struct str){0})), "confidence_used", "0");
}

static void only_a_live_allow_is_allowed(void **state)
{
    static const struct {
        enum verdict verdict;
        const char *mode, *allowed, *review, *compute;
    } cases[] = {
        {VERDICT_ALLOW, "live", "true", "false", "false"},
        {VERDICT_ALLOW, "dry_run", "false", "false", "false"},
        {VERDICT_COMPUTE, "live", "false", "false", "true"},
        {VERDICT_HUMAN_REVIEW, "live", "false", "true", "false"},
        {VERDICT_HUMAN_REVIEW, "dry_run", "false", "true", "false"},
        {VERDICT_DENY, "live", "false", "false", "false"},
        {VERDICT_ALLOW, "", "false", "false", "false"}, /* a mode that nobody knows opens nothing */
    };
    struct scene *s = *state;
    char text[4096];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct decision d = full(cases[i].verdict);
        d.event.mode = str_from(cases[i].mode);
        const struct json *a = scene_read(s, answer(text, &d, ASK_USER, (struct str){0}));
        assert_raw(a, "allowed", cases[i].allowed);
        assert_raw(a, "requires_human_review", cases[i].review);
        assert_raw(a, "compute", cases[i].compute);
    }
}

/* The tool route has `decision` alone, but for a dry run, which must not pass for an answer. */
static void a_dry_run_of_a_tool_says_that_it_allows_nothing(void **state)
{
    struct scene *s = *state;
    struct decision d = full(VERDICT_ALLOW);
    char text[4096];
    assert_no_member(scene_read(s, answer(text, &d, ASK_TOOL, (struct str){0})), "allowed");
    d.event.mode = STR("dry_run");
    assert_raw(scene_read(s, answer(text, &d, ASK_TOOL, (struct str){0})), "allowed", "false");
}

static void an_explanation_is_put_as_it_is(void **state)
{
    struct scene *s = *state;
    struct decision d = full(VERDICT_ALLOW);
    char text[4096];
    assert_raw(scene_read(s, answer(text, &d, ASK_TOOL, STR("[{\"rule\":\"a\"}]"))), "explain",
               "[{\"rule\":\"a\"}]");
    assert_raw(scene_read(s, answer(text, &d, ASK_AGENT, STR("[]"))), "explain", "[]");
}

static void an_answer_without_room_shows_in_its_buffer(void **state)
{
    (void)state;
    struct decision d = full(VERDICT_ALLOW);
    char text[4096];
    size_t size = answer(text, &d, ASK_AGENT, (struct str){0}).size;
    for (size_t room = 0; room < size; room++) {
        char *exact = malloc(room + 1); /* so that a write beyond it is seen */
        struct buf b = buf_over(exact, room);
        answer_put(&b, &d, ASK_AGENT, (struct str){0});
        assert_true(b.overflow);
        free(exact);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_route_spells_members_its_own_way),
        TEST(members_are_as_they_were_decided),
        TEST(nothing_is_ever_null),
        TEST(only_a_live_allow_is_allowed),
        TEST(a_dry_run_of_a_tool_says_that_it_allows_nothing),
        TEST(an_explanation_is_put_as_it_is),
        TEST(an_answer_without_room_shows_in_its_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
