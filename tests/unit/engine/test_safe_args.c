/* Tests that what a compute answers can be recorded: written as an event and read again. */
#include "unit/policy/support.h"

#include "event/event.h"

enum { ARGS_DEPTH = LIMIT_JSON_DEPTH - 1 }; /* of a request's `args`: its body is one level more */

static const char whole[] = "rules:\n"
                            "  - id: c\n"
                            "    agents: [bot]\n"
                            "    actions: [x]\n"
                            "    decision: compute\n"
                            "    compute: {tool: y, args: {whole: '${args}'}}\n";

static struct json *json_of(struct tenant *t, struct str text)
{
    struct json *v = NULL;
    struct fault f;
    assert_int_equal(json_read(arena_copy(&t->arena, text), NULL, &t->arena, &v, &f), ERR_OK);
    return v;
}

static enum verdict ask_with(struct tenant *t, struct str args)
{
    struct policy_request q = agent_request("bot", "x");
    arena_reset(&t->arena);
    q.args = json_of(t, args);
    policy_evaluate(t->set, &q, &t->arena, NULL, &t->outcome);
    return t->outcome.verdict;
}

/* Whether the outcome's event comes back from its own text with the same arguments. */
static bool is_recorded(struct tenant *t)
{
    struct buf args, text;
    struct event e = {.event_id = STR("evt_1"),
                      .kind = STR("decision"),
                      .tenant_id = STR("default"),
                      .timestamp = 1},
                 again;
    struct fault f;
    buf_init(&args, 1024, 1 << 20);
    buf_init(&text, 1024, 1 << 20);
    if (t->outcome.safe_args != NULL) {
        json_put_canonical(&args, t->outcome.safe_args);
        e.safe_args = buf_view(&args);
    }
    event_put(&text, &e);
    assert_false(text.overflow);
    bool good = event_read(buf_view(&text), &t->arena, &again, &f) == ERR_OK &&
                (str_is_absent(e.safe_args) || str_equal(again.safe_args, e.safe_args));
    buf_fini(&args);
    buf_fini(&text);
    return good;
}

/* {"k": {"k": … 1}}, so many levels; every other one a list where `lists`. */
static struct str nested(char *space, size_t levels, bool lists)
{
    struct buf out = buf_over(space, 4096);
    for (size_t i = 0; i < levels; i++)
        buf_put(&out, lists && i % 2 == 1 ? STR("[") : STR("{\"k\":"));
    buf_put_literal(&out, "1");
    for (size_t i = levels; i-- > 0;) buf_put(&out, lists && i % 2 == 1 ? STR("]") : STR("}"));
    return buf_view(&out);
}

static void safe_arguments_are_as_deep_as_an_event_can_hold(void **state)
{
    (void)state;
    char space[4096];
    struct tenant t;
    tenant_init_one(&t, whole);
    for (unsigned lists = 0; lists < 2; lists++) {
        /* One level is the template's own, one the event's. */
        assert_int_equal(ask_with(&t, nested(space, ARGS_DEPTH - 1, lists)), VERDICT_COMPUTE);
        assert_true(is_recorded(&t));
        assert_int_equal(ask_with(&t, nested(space, ARGS_DEPTH, lists)), VERDICT_DENY);
        assert_string_equal(t.outcome.rule, "compute:c");
        assert_non_null(memmem(t.outcome.reason.bytes, t.outcome.reason.size,
                               "nested too deeply to be recorded", 32));
        assert_true(is_recorded(&t));
    }
    tenant_fini(&t);
}

static void where_the_value_stands_counts(void **state)
{
    (void)state;
    char space[4096];
    struct tenant t;
    tenant_init_one(
        &t, "rules:\n"
            "  - id: c\n"
            "    agents: [bot]\n"
            "    actions: [x]\n"
            "    decision: compute\n"
            "    compute: {tool: y, args: {a: [{b: ['${args}', 'in a text: ${args}']}]}}\n");
    assert_int_equal(ask_with(&t, nested(space, ARGS_DEPTH - 4, false)), VERDICT_COMPUTE);
    assert_true(is_recorded(&t));
    assert_int_equal(ask_with(&t, nested(space, ARGS_DEPTH - 3, false)), VERDICT_DENY);
    tenant_fini(&t);
}

static void safe_arguments_are_as_large_as_an_event_can_hold(void **state)
{
    (void)state;
    static char space[LIMIT_BODY_BYTES], text[LIMIT_BODY_BYTES];
    struct tenant t;
    tenant_init_one(&t, "rules:\n"
                        "  - id: c\n"
                        "    agents: [bot]\n"
                        "    actions: [x]\n"
                        "    decision: compute\n"
                        "    compute: {tool: y, args: {a: '${args.t}', b: '${args.t}'}}\n");
    for (size_t i = 0; i < 2; i++) {
        struct buf out = buf_over(space, sizeof space);
        int size = i == 0 ? LIMIT_EVENT_BYTES / 2 - 100 : LIMIT_EVENT_BYTES / 2;
        memset(text, 'a', sizeof text);
        buf_printf(&out, "{\"t\":\"%.*s\"}", size, text);
        assert_int_equal(ask_with(&t, buf_view(&out)), i == 0 ? VERDICT_COMPUTE : VERDICT_DENY);
        assert_true(is_recorded(&t));
    }
    assert_non_null(
        memmem(t.outcome.reason.bytes, t.outcome.reason.size, "too large to be recorded", 24));
    tenant_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safe_arguments_are_as_deep_as_an_event_can_hold),
        cmocka_unit_test(where_the_value_stands_counts),
        cmocka_unit_test(safe_arguments_are_as_large_as_an_event_can_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
