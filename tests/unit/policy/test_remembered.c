/* Tests of what is remembered of actions: nothing of it can be seen in an outcome. */
#include "support.h"

#include <stdlib.h>

#include "policy/memory.h"

static const char *const tools =
    "rules:\n"
    "  - {id: reads, agents: ['*'], actions: ['get_*', 'list_*', '*_info'], decision: allow}\n"
    "  - {id: Exact, agents: ['*'], actions: [getUser], decision: allow}\n"
    "  - {id: drops, actions: ['drop_*', '*_prod'], decision: deny}\n"
    "  - {id: money, actions: [refund, 'pay*'], decision: human_review}\n";

static struct policy_request about(const char *action)
{
    return (struct policy_request){.kind = SUBJECT_AGENT,
                                   .tenant = STR("default"),
                                   .actor = STR("bot"),
                                   .action = str_from(action)};
}

/* Asks with the memory twice, and without: the same, also in what it cost. */
static const char *rule_of(struct tenant *t, struct policy_memory *memory, const char *action)
{
    struct policy_request q = about(action);
    struct policy_outcome remembered;
    arena_reset(&t->arena);
    policy_evaluate(t->set, &q, &t->arena, NULL, &t->outcome);
    for (int i = 0; i < 2; i++) {
        policy_evaluate_remembering(t->set, memory, &q, &t->arena, &remembered);
        assert_int_equal(remembered.verdict, t->outcome.verdict);
        assert_string_equal(remembered.rule, t->outcome.rule);
        assert_true(str_equal(remembered.reason, t->outcome.reason));
        assert_true(remembered.cost == t->outcome.cost);
    }
    return t->outcome.rule;
}

static void an_action_comes_to_the_same_when_it_is_remembered(void **state)
{
    (void)state;
    struct tenant t;
    const char *names[] = {"tools"};
    tenant_init(&t, 1, names, &tools);
    struct policy_memory *memory = policy_memory_create(64);
    static const char *const asked[][2] = {
        {"get_user", "allow:reads"},   {"get_prod_info", "allow:reads"},
        {"get_x_prod", "deny:drops"},  {"drop_x", "deny:drops"},
        {"DROP_x", "deny:drops"},      {"refund", "review:money"},
        {"REFUND", "review:money"},    {"payout", "review:money"},
        {"other", "default:deny"},     {"getUser", "allow:Exact"},
        {"getuser", "default:deny"},   {"get_\xC3\xA4", "default:deny"},
        {"get_x; rm", "default:deny"}, {"g", "default:deny"},
    };
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
            assert_string_equal(rule_of(&t, memory, asked[i][0]), asked[i][1]);
    assert_non_null(
        remembered_find(memory, &t.set->enforced, STR("g"))); /* the newest is there for certain */
    policy_memory_destroy(memory);
    tenant_fini(&t);
}

/* What is known of a kept name without looking is that it is plain and has no capitals. */
static void only_plain_small_names_of_some_length_are_kept(void **state)
{
    (void)state;
    struct tenant t;
    const char *names[] = {"tools"};
    char longest[REMEMBERED_TEXT + 2];
    tenant_init(&t, 1, names, &tools);
    struct policy_memory *memory = policy_memory_create(64);
    memset(longest, 'p', sizeof longest);
    memcpy(longest, "get_", 4);
    longest[REMEMBERED_TEXT] = '\0';
    rule_of(&t, memory, longest);
    assert_non_null(remembered_find(memory, &t.set->enforced, str_from(longest)));
    longest[REMEMBERED_TEXT] = 'p';
    longest[REMEMBERED_TEXT + 1] = '\0';
    assert_string_equal(rule_of(&t, memory, longest), "allow:reads");
    assert_null(remembered_find(memory, &t.set->enforced, str_from(longest)));
    static const char *const left_out[] = {"getUser", "get_\xC3\xA4", "get_x rm"};
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++) {
        rule_of(&t, memory, left_out[i]);
        assert_null(remembered_find(memory, &t.set->enforced, str_from(left_out[i])));
    }
    policy_memory_destroy(memory);
    tenant_fini(&t);
}

static void more_patterns_than_are_kept_are_all_looked_at(void **state)
{
    (void)state;
    struct tenant t;
    char text[4096];
    int size = snprintf(text, sizeof text, "rules:\n");
    for (int i = 0; i < REMEMBERED_GROUPS + 2; i++)
        size +=
            snprintf(text + size, sizeof text - (size_t)size,
                     "  - {id: r%d, agents: ['*'], actions: ['%.*s*'], decision: %s}\n", i, i + 1,
                     "abcdefghijklmnopqrstuvwxyz", i == REMEMBERED_GROUPS + 1 ? "deny" : "allow");
    const char *names[] = {"many"}, *texts[] = {text};
    tenant_init(&t, 1, names, texts);
    struct policy_memory *memory = policy_memory_create(64);
    assert_string_equal(rule_of(&t, memory, "abcdefghijklmnopqrstuvwxyz"), "deny:r17");
    assert_null(remembered_find(memory, &t.set->enforced, STR("abcdefghijklmnopqrstuvwxyz")));
    assert_string_equal(rule_of(&t, memory, "abcdefghijklmnop"), "allow:r0");
    assert_non_null(remembered_find(memory, &t.set->enforced, STR("abcdefghijklmnop")));
    policy_memory_destroy(memory);
    tenant_fini(&t);
}

/* What stands at one place in the index of one set stands at another's in that of another. */
static const char *const allows_x =
    "rules:\n  - {id: a, agents: ['*'], actions: [x], decision: allow}\n";
static const char *const denies_x = "rules:\n"
                                    "  - {id: other, actions: [z], decision: human_review}\n"
                                    "  - {id: b, actions: [x], decision: deny}\n";

/* Also where its memory is that of the one before. */
static void a_set_that_follows_another_is_asked_anew(void **state)
{
    (void)state;
    struct policy_memory *memory = policy_memory_create(1);
    const char *names[] = {"doc"};
    for (int i = 0; i < 20; i++) {
        struct tenant t;
        tenant_init(&t, 1, names, i % 2 == 0 ? &allows_x : &denies_x);
        assert_string_equal(rule_of(&t, memory, "x"), i % 2 == 0 ? "allow:a" : "deny:b");
        tenant_fini(&t);
    }
    policy_memory_destroy(memory);
}

static void two_tenants_share_a_memo(void **state)
{
    (void)state;
    struct policy_memory *memory = policy_memory_create(1); /* they displace each other */
    struct tenant a, b;
    const char *names[] = {"doc"};
    tenant_init(&a, 1, names, &allows_x);
    tenant_init(&b, 1, names, &denies_x);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(rule_of(&a, memory, "x"), "allow:a");
        assert_string_equal(rule_of(&b, memory, "x"), "deny:b");
    }
    policy_memory_destroy(memory);
    tenant_fini(&a);
    tenant_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_action_comes_to_the_same_when_it_is_remembered),
        cmocka_unit_test(only_plain_small_names_of_some_length_are_kept),
        cmocka_unit_test(more_patterns_than_are_kept_are_all_looked_at),
        cmocka_unit_test(a_set_that_follows_another_is_asked_anew),
        cmocka_unit_test(two_tenants_share_a_memo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
