/* What the author of a document hears of what its limits have counted. */
#include "unit/policy/support.h"

#define RULE(id, limit)                                                                            \
    "rules:\n  - {id: " id ", agents: ['*'], actions: [pay], decision: allow, limit: {" limit "}}\n"

static const uint64_t now_2026 = 1795166400000; /* 2026-11-20T09:20:00Z */

static void changes_of_limits_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *before_name, *before, *after, *told; /* NULL: nothing */
    } cases[] = {
        {"doc", RULE("a", "window: 1h, count: 3"), RULE("a", "window: 1h, count: 5"), NULL},
        {"doc", RULE("a", "window: 2h, count: 3"), RULE("a", "window: 1h, count: 3"), NULL},
        {"doc", RULE("a", "window: 1h, count: 3"), RULE("a", "window: 2h, count: 3"),
         "until 2026-11-20T10:20:00.000Z this limit sees only the last 1h"},
        {"doc", RULE("a", "window: 90s, count: 3"), RULE("a", "window: 1d, count: 3"),
         "this limit sees only the last 90s"},
        {"doc", RULE("a", "window: 1h, count: 3"), RULE("a", "window: 1h, count: 3, per: user"),
         "begins a new count: it was per actor"},
        {"doc", RULE("a", "window: 1h, count: 3"), RULE("b", "window: 1h, count: 3"),
         "begins a new count: what the limit of rule a counted, which is gone, is not carried over"},
        {"old", RULE("a", "window: 1h, count: 3"), RULE("a", "window: 1h, count: 3"),
         "begins a new count: what policy old counted"},
        {"old", RULE("a", "window: 1h, count: 3"), RULE("b", "window: 1h, count: 3"), NULL},
        {"doc", RULE("a", "window: 1h, count: 3"),
         RULE("a", "window: 1h, count: 3, sum: args.n, max: 5"), "adds up what comes from now on"},
        {"doc", RULE("a", "window: 1h, sum: args.n, max: 5"),
         RULE("a", "window: 1h, sum: args.m, max: 9"), NULL},
        {"doc", "mode: shadow\n" RULE("a", "window: 1h, count: 3"),
         RULE("b", "window: 1h, count: 3"), NULL},
        {"doc", "rules: [{id: a, agents: ['*'], actions: [pay], decision: allow}]",
         RULE("a", "window: 1h, count: 3"), NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct policy_problems p = {0};
        struct policy_document *before = load_named(cases[i].before_name, cases[i].before),
                               *after = load_named("doc", cases[i].after);
        policy_limit_changes(before, after, now_2026, &p);
        if (p.count != (cases[i].told != NULL)) print_error("case %zu\n", i);
        assert_int_equal(p.count, cases[i].told != NULL);
        if (cases[i].told != NULL) {
            if (!has_problem(&p, cases[i].told)) print_error("%s\n", p.list[0].message);
            assert_true(has_problem(&p, cases[i].told));
            assert_string_equal(p.list[0].path, "rules[0].limit");
        }
        policy_document_release(before);
        policy_document_release(after);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_of_limits_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
