/* Tests of what is told of a condition: the parts that decided, with values, and nothing masked. */
#include "cel_scene.h"

#include "cel/trace.h"

static struct cel_tracing tracing;
static struct cel_value variables[CEL_POLICY_VARIABLES];
static unsigned runs;

static bool is_card(void *context, const struct str *segments, size_t count)
{
    (void)context;
    if (!str_equal(segments[0], STR("args"))) return str_equal(segments[0], STR("request"));
    return count == 1 || str_is_absent(segments[1]) || str_equal(segments[1], STR("card"));
}

static const char *told(struct arena *arena, const char *args, const char *text)
{
    struct cel_trace trace;
    struct json *root;
    struct fault f;
    struct str all = STR("");
    assert_int_equal(json_read(str_from(args), &(struct json_options){0}, arena, &root, &f),
                     ERR_OK);
    memset(variables, 0, sizeof variables);
    variables[CEL_ARGS] = cel_of_json(root);
    variables[CEL_ACTOR] = cel_of_str(STR("bot"));
    variables[CEL_REQUEST] = cel_of_json(root);
    runs = CEL_TRACE_RUNS_MAX;
    tracing.environment = cel_policy_environment();
    tracing.variables = variables;
    tracing.arena = arena;
    tracing.runs_left = &runs;
    assert_true(cel_trace(&tracing, str_from(text), &trace));
    for (size_t i = 0; i < trace.count; i++)
        all = arena_printf(arena, "%.*s%s%.*s", STR_FORMAT(all), i == 0 ? "" : "\n",
                           STR_FORMAT(trace.lines[i]));
    return all.bytes;
}

#define tells(args, text, wanted)                                                                  \
    do {                                                                                           \
        struct arena arena;                                                                        \
        arena_init(&arena, 4096, 1 << 20);                                                         \
        assert_string_equal(told(&arena, args, text), wanted);                                     \
        arena_fini(&arena);                                                                        \
    } while (0)

static void a_comparison_is_told_with_its_values(void **state)
{
    (void)state;
    tells("{\"amount\":620}", "args.amount > 500", "args.amount > 500 → 620 > 500 → true");
    tells("{\"amount\":0.1}", "args.amount > 500", "args.amount > 500 → 0.1 > 500 → false");
    tells("{\"to\":\"eve@evil\"}", "args.to.endsWith('@good')",
          "args.to.endsWith('@good') → \"eve@evil\".endsWith('@good') → false");
    tells("{}", "actor in ['cat', 'dog']",
          "actor in ['cat', 'dog'] → \"bot\" in ['cat', 'dog'] → false");
    tells("{\"ok\":true}", "args.ok", "args.ok → true");
    tells("{}", "has(args.ok)", "has(args.ok) → false");
    tells("{\"a\":[1,2],\"n\":\"x\"}", "args.a[1] == 2 && args['n'] == 'x'",
          "args.a[1] == 2 → 2 == 2 → true\nargs['n'] == 'x' → \"x\" == 'x' → true");
}

static void only_what_decided_is_told(void **state)
{
    (void)state;
    tells("{\"a\":1,\"b\":2}", "args.a == 1 && args.b == 1 && args.c == 1",
          "args.b == 1 → 2 == 1 → false");
    tells("{\"a\":1,\"b\":2}", "args.c == 1 || args.a == 1 || args.b == 2",
          "args.a == 1 → 1 == 1 → true");
    tells("{\"a\":1,\"b\":2}", "args.a == 2 || (args.b == 3 && args.a == 1)",
          "args.a == 2 → 1 == 2 → false\nargs.b == 3 → 2 == 3 → false");
    tells("{\"a\":1,\"b\":2}", "!(args.a == 1 || args.b == 1)", "args.a == 1 → 1 == 1 → true");
    tells("{\"a\":1,\"b\":2}", "args.a == 1 ? args.b > 5 : args.b > 6",
          "args.a == 1 → 1 == 1 → true\nargs.b > 5 → 2 > 5 → false");
    tells("{\"a\":3,\"b\":2}", "(args.a + args.b) * 2.0 > (args.b) * 9.0",
          "(args.a + args.b) * 2.0 > (args.b) * 9.0 → 10 > 18 → false");
    tells("{\"a\":3}", "(args.a == 3 || args.a == 4) && args.a < 1", "args.a < 1 → 3 < 1 → false");
}

static void a_macro_is_told_by_the_element_that_settled_it(void **state)
{
    (void)state;
    tells("{\"items\":[{\"price\":1},{\"price\":9}]}",
          "args.items.all(i, i.price < 5.0 && i.price > 0.0)",
          "with i = {\"price\":9}: i.price < 5.0 → 9 < 5.0 → false");
    tells("{\"items\":[1,2]}", "args.items.exists(i, i == 2)",
          "with i = 2: i == 2 → 2 == 2 → true");
    tells("{\"items\":[1,2]}", "args.items.exists(i, i == 3)",
          "args.items.exists(i, i == 3) → false");
    tells(
        "{\"m\":{\"a\":[7]}}", "args.m.exists(k, v, v.exists(x, x > 6 && k == 'a'))",
        "with k = \"a\", v = [7]: with x = 7: x > 6 → 7 > 6 → true\nwith k = \"a\", v = [7]: with x = 7: k == 'a' → \"a\" == 'a' → true");
    tells("{\"items\":[1]}", "args.items.exists(args, args == 1)",
          "with args = 1: args == 1 → 1 == 1 → true");
}

static void a_failure_is_told_where_it_was_made(void **state)
{
    (void)state;
    tells("{}", "args.amount > 500", "args.amount > 500 → no such key: amount");
    tells("{\"n\":2}", "args.n * 2 > 5",
          "args.n * 2 → 2.0 * 2 → no such overload for (double, int)");
    tells("{\"n\":\"x\"}", "args.n > 5 && args.n < 9",
          "args.n > 5 → \"x\" > 5 → no such overload for (string, int)");
    tells(
        "{\"p\":\"/etc/passwd\"}", "path_under('/sandbox', args.p) != ''",
        "path_under('/sandbox', args.p) → path_under('/sandbox', \"/etc/passwd\") → the path leaves its root: /etc/passwd");
    tells("{\"n\":2}", "size(args.items) + 1 > 5 || args.n > 5",
          "size(args.items) → no such key: items");
}

static void what_is_masked_is_not_told(void **state)
{
    (void)state;
    static const char *const texts[] = {"args.card == '4111'",
                                        "args.card.startsWith('41')",
                                        "args['card'] + 'x' == ''",
                                        "int(args.card) > 5",
                                        "args.exists(k, args[k] == '4111')",
                                        "request.card == '4111'",
                                        "[args.card].exists(c, c == '4111')",
                                        "[args.card].exists(c, c != 'x')",
                                        "args.exists(k, v, v != 'x')",
                                        "!args.all(k, v, v == 'x')",
                                        "cel.bind(c, args.card, c == '4111')",
                                        "args[actor] == '4111' || args.card == '5'",
                                        "args.card",
                                        "size(args) == 1 && string(args.card) == '4111'",
                                        "duration(args.card) > duration('1s')"};
    tracing.hidden = is_card;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct arena arena;
        arena_init(&arena, 4096, 1 << 20);
        const char *lines = told(&arena, "{\"card\":\"4111 9\"}", texts[i]);
        if (strstr(lines, "4111 9") != NULL) print_error("%s\n", lines);
        assert_null(strstr(lines, "4111 9"));
        assert_true(cel_reads_hidden(&tracing, str_from(texts[i])));
        arena_fini(&arena);
    }
    tells("{\"card\":\"4111 9\"}", "args.card == '4111'",
          "args.card == '4111' → [masked] == '4111' → false");
    tells("{\"card\":\"4111 9\"}", "int(args.card) > 5",
          "int(args.card) → int([masked]) → the text cannot be read as that");
    tells("{\"card\":\"4\",\"n\":1}", "args.n == 1", "args.n == 1 → 1 == 1 → true");
    tells("{\"card\":\"4\"}", "has(args.card)", "has(args.card) → true");
    assert_false(cel_reads_hidden(&tracing, STR("args.n == 1 && has(args.card)")));
    tracing.hidden = NULL;
}

static void a_trace_is_bounded(void **state)
{
    (void)state;
    struct arena arena;
    struct cel_trace trace;
    char text[4096];
    struct buf b = buf_over(text, sizeof text);
    arena_init(&arena, 4096, 1 << 20);
    for (unsigned i = 0; i < 100; i++)
        buf_printf(&b, "%sargs.n != %u", i == 0 ? "" : " && ", i + 10);
    told(&arena, "{\"n\":1}", "true");
    struct json *root;
    struct fault f;
    assert_int_equal(json_read(STR("{\"n\":1}"), &(struct json_options){0}, &arena, &root, &f),
                     ERR_OK);
    variables[CEL_ARGS] = cel_of_json(root);
    assert_true(cel_trace(&tracing, buf_view(&b), &trace));
    assert_int_equal(trace.count, CEL_TRACE_LINES);
    assert_true(trace.more > 0);
    runs = 3;
    cel_trace(&tracing, buf_view(&b), &trace);
    assert_int_equal(runs, 0);
    assert_false(cel_trace(&tracing, STR("args.n == 1"), &trace));
    arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_comparison_is_told_with_its_values),
        cmocka_unit_test(only_what_decided_is_told),
        cmocka_unit_test(a_macro_is_told_by_the_element_that_settled_it),
        cmocka_unit_test(a_failure_is_told_where_it_was_made),
        cmocka_unit_test(what_is_masked_is_not_told),
        cmocka_unit_test(a_trace_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
