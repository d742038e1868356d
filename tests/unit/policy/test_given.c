/* Tests of a document's tests that have earlier requests: these are counted. */
#include "support.h"

#include "base/buf.h"

#define GIVEN_RULES                                                                                \
    "rules:\n"                                                                                     \
    "  - {id: a, agents: [bot], actions: [x], decision: allow, limit: {window: 1h, count: 3}}\n"   \
    "  - {id: s, agents: [bot], actions: [y], decision: allow,\n"                                  \
    "     limit: {window: 1h, sum: args.n, max: 100, over: human_review}}\n"                       \
    "  - {id: r, agents: [bot], actions: [z], decision: allow,\n"                                  \
    "     limit: {per: resource, window: 1h, count: 1}}\n"                                         \
    "tests:\n  - {"

static void earlier_requests_are_counted_before_the_tested_one(void **state)
{
    (void)state;
    static const struct {
        const char *test;
        bool passes;
    } rows[] = {
        {"request: {actor: bot, action: x}, expect: allow}", true},
        {"given: [], request: {actor: bot, action: x}, expect: allow}", true},
        {"given: [{actor: bot, action: x, times: 2}], request: {actor: bot, action: x}, "
         "expect: allow}",
         true},
        {"given: [{actor: bot, action: x, times: 3}], request: {actor: bot, action: x}, "
         "expect: deny, rule: 'limit:a'}",
         true},
        {"given: [{actor: bot, action: x, times: 3}], request: {actor: bot, action: x}, "
         "expect: allow}",
         false},
        /* what is denied is not counted, and neither is another rule's */
        {"given: [{actor: other, action: x, times: 9}, {actor: bot, action: z}], "
         "request: {actor: bot, action: x}, expect: allow}",
         true},
        {"given: [{actor: bot, action: y, args: {n: 60}, times: 9}], "
         "request: {actor: bot, action: y, args: {n: 40}}, expect: allow}",
         true},
        {"given: [{actor: bot, action: y, args: {n: 60}}], "
         "request: {actor: bot, action: y, args: {n: 40.000001}}, expect: human_review}",
         true},
        {"given: [], request: {actor: bot, action: y}, expect: human_review, rule: 'limit:s'}",
         true},
        {"given: [{actor: bot, action: z, resource: 'db:A'}], "
         "request: {actor: bot, action: z, resource: 'db:a'}, expect: deny}",
         true},
        {"given: [{actor: bot, action: z, resource: 'db:a'}], "
         "request: {actor: bot, action: z, resource: 'db:b'}, expect: allow}",
         true},
        {"given: [{actor: bot, action: z, resource: 'db:a'}], "
         "request: {actor: bot, action: z, resource: 'db:a', tenant_id: other}, expect: allow}",
         true},
        /* the window slides */
        {"given: [{actor: bot, action: x, times: 3, now: '2026-11-20T09:30:00Z'}], "
         "request: {actor: bot, action: x, now: '2026-11-20T10:29:59Z'}, expect: deny}",
         true},
        {"given: [{actor: bot, action: x, times: 3, now: '2026-11-20T09:30:00Z'}], "
         "request: {actor: bot, action: x, now: '2026-11-20T10:30:00Z'}, expect: allow}",
         true},
        {"given: [{actor: bot, action: x, now: '2026-11-20T09:00:00Z'}, "
         "{actor: bot, action: x, times: 2, now: '2026-11-20T09:30:00Z'}], "
         "request: {actor: bot, action: x, now: '2026-11-20T10:00:00Z'}, expect: allow}",
         true},
        /* as often as it is said: without a limit, too */
        {"given: [{actor: bot, action: x, times: 100000}], request: {actor: bot, action: x}, "
         "expect: deny}",
         true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1200];
        struct policy_problems problems;
        struct policy_document *d = NULL;
        snprintf(text, sizeof text, GIVEN_RULES "%s\n", rows[i].test);
        enum err err = policy_load(STR("doc"), str_from(text), &d, &problems);
        if ((err == ERR_OK) != rows[i].passes)
            print_error("%s: %s\n", rows[i].test,
                        err == ERR_OK ? "passes" : problems.list[0].message);
        assert_int_equal(err, rows[i].passes ? ERR_OK : ERR_INVALID_POLICY);
        if (err == ERR_OK) policy_document_release(d);
    }
}

static void an_earlier_request_that_cannot_be_meant_is_refused_at_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *given, *path, *message;
        unsigned column;
    } rows[] = {
        {"{actor: bot, action: x}", "tests[0].given", "has to be a list", 13},
        {"[{actor: bot, action: x, times: 0}]", "tests[0].given[0].times", "out of range", 45},
        {"[{actor: bot, action: x, times: 100001}]", "tests[0].given[0].times", "out of range", 45},
        {"[{actor: bot, action: x, time: 1}]", "tests[0].given[0].time", "did you mean times?", 38},
        {"[{actor: bot, action: x, now: '1970-01-01T00:00:01Z'}]", "tests[0].given[0].now",
         "later than the tested request", 43},
        {"[x]", "tests[0].given[0]", "has to be a map", 14},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1200];
        snprintf(text, sizeof text,
                 GIVEN_RULES "given: %s, request: {actor: bot, action: x}, expect: allow}\n",
                 rows[i].given);
        assert_refused_at(text, 8, rows[i].column, rows[i].path, rows[i].message);
    }
    assert_refused_at(GIVEN_RULES "request: {actor: bot, action: x, times: 2}, expect: allow}\n", 8,
                      39, "tests[0].request.times", "unknown key");
}

static void take_result(void *context, const struct policy_test_result *r)
{
    *(struct policy_test_result *)context = *r;
}

static void earlier_requests_are_paid_for(void **state)
{
    (void)state;
    char text[2000];
    struct buf out = buf_over(text, sizeof text);
    struct policy_test_result r = {0};
    buf_put_literal(&out, GIVEN_RULES "given: [");
    for (size_t i = 0; i < 5; i++) /* no bound ends them sooner */
        buf_put_literal(&out, "{actor: bot, action: y, args: {n: 0}, times: 100000}, ");
    buf_put_literal(&out, "], request: {actor: bot, action: x}, expect: allow}\n");
    buf_put_byte(&out, '\0');
    struct policy_document *d = load_named("doc", text);
    assert_int_equal(policy_document_tests(d, take_result, &r), 1);
    assert_true(r.is_unpaid);
    assert_non_null(strstr(r.message, "cost more than all of a document may"));
    policy_document_release(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(earlier_requests_are_counted_before_the_tested_one),
        cmocka_unit_test(an_earlier_request_that_cannot_be_meant_is_refused_at_its_place),
        cmocka_unit_test(earlier_requests_are_paid_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
