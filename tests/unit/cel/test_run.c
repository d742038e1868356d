/* test_run.c - what expressions give when they are run. */
#include "cel_scene.h"

#include <pthread.h>

static void integers_are_checked(void **state)
{
    (void)state;
    gives("9223372036854775807 + 1", "error: overflow (at column 21)");
    gives("-9223372036854775808 - 1", "error: overflow (at column 22)");
    gives("5000000000 * 5000000000", "error: overflow (at column 12)");
    gives("(-9223372036854775808) / -1", "error: overflow (at column 24)");
    gives("(-9223372036854775808) % -1", "error: overflow (at column 24)");
    gives("-(-9223372036854775808)", "error: overflow (at column 1)");
    gives("0u - 1u", "error: overflow (at column 4)");
    gives("1 / 0", "error: division by zero (at column 3)");
    gives("1u % 0u", "error: modulus by zero (at column 4)");
    gives("1.0 / 0.0", "+Inf");
    gives("-42 % 5", "-2");
    gives("-7 / 2", "-3");
}

static void numbers_are_equal_across_types(void **state)
{
    (void)state;
    gives("dyn(1) == 1.0 && dyn(1u) == 1 && dyn(1.0) == 1u", "true");
    gives("dyn(9223372036854775807) < 9223372036854775808.0",
          "false"); /* the int becomes a double */
    gives("dyn(9223372036854775807) == 9223372036854775808.0", "true");
    gives("dyn(9223372036854775807) < 9223372036854777856.0", "true");
    gives("dyn(9007199254740993) == args.big && dyn(9007199254740992) != args.big",
          "true");                                                      /* ints stay exact */
    gives("dyn(9007199254740993.0) in {9007199254740993: 1}", "false"); /* and so do keys */
    gives("dyn(-1) < 18446744073709551615u", "true");
    gives("1 < 1.5 && 2u > 1.5 && -1 < 0u", "true");
    gives("dyn('a') == 1", "false");
    gives("dyn([1, 2u, 3.0]) == [1.0, 2, 3u]", "true");
    gives("dyn({1: 'a'}) == {1u: 'a'}", "true");
    gives("double('NaN') == double('NaN')", "false");
    gives("double('NaN') != double('NaN')", "true");
    gives("1.0 < double('NaN') || args.amount * double('NaN') > 5 || double('NaN') <= args.amount",
          "false");
    gives("math.greatest(1.0, double('NaN'))", "error: NaN has no order (at column 6)");
    gives("dyn(null) == false", "false");
}

static void order_is_defined_for_what_has_one(void **state)
{
    (void)state;
    gives("'a' < 'b' && 'Z' < 'a' && '\xC3\xBC' > 'z'", "true");
    gives("b'a' < b'ab'", "true");
    gives("false < true", "true");
    gives("args.list < args.list", "error: no such overload for (list, list) (at column 11)");
    gives_unchecked("[1] < [2]", "error: no such overload for (list, list) (at column 5)");
    gives("args.name < 1", "error: no such overload for (string, int) (at column 11)");
}

static void errors_are_absorbed_by_and_and_or(void **state)
{
    (void)state;
    gives("1 / 0 == 1 || true", "true");
    gives("true || 1 / 0 == 1", "true");
    gives("1 / 0 == 1 && false", "false");
    gives("false && 1 / 0 == 1", "false");
    gives("1 / 0 == 1 || false", "error: division by zero (at column 3)");
    gives("true && 1 / 0 == 1", "error: division by zero (at column 11)");
    gives("args.no == 1 || args.nope == 1", "error: no such key: no (at column 6)");
    gives("(args.no == 1 || args.amount > 1) && !(args.no == 2 && false)", "true");
    gives("(args.no == 1 || args.yes == true) && args.amount > 1", "true");
    gives("[0].all(x, args.no == x || true) && [1].exists(x, args.no == x || x == 1)", "true");
    gives_unchecked("'horses' || true", "true");
    gives_unchecked("'horses' && true", "error: no such overload for (string) (at column 10)");
    gives_unchecked("unknown || true", "true");
    gives_unchecked("f(1) || false", "error: no such function: f (at column 1)");
    gives("1 / 0 == 1 ? true : true", "error: division by zero (at column 3)");
    gives("[1 / 0 == 1 || true, 2 > 1]", "[true, true]");
}

static void macros_go_over_lists_and_maps(void **state)
{
    (void)state;
    gives("[1, 2, 3].all(x, x > 0)", "true");
    gives("[1, 2, 3].all(x, 6 / (2 - x) == 6)", "false");
    gives("[1, 2, 3].all(x, 6 / (2 - x) != 7)", "error: division by zero (at column 20)");
    gives("[1, 2, 3].exists(x, 6 / (2 - x) == -6)", "true");
    gives("[].exists(x, x == 1) || [].all(x, x == 1)", "true");
    gives("[3, 2, 1, 0].exists_one(n, 12 / n > 100)", "error: division by zero (at column 31)");
    gives("[1, 2, 1].exists_one(x, x == 2)", "true");
    gives("{'a': 1, 'b': 2}.map(k, k)", "[\"a\", \"b\"]");
    gives("[1, 2, 3, 4].map(x, x % 2 == 0, x * x)", "[4, 16]");
    gives("[1, 2, 3].filter(x, x != 2)", "[1, 3]");
    gives("[[1, 2], [3]].map(l, l.map(x, x + l[0]))", "[[2, 3], [6]]");
    gives("args.list.filter(x, type(x) == double)", "[1.0, 2.5]");
    gives("args.map.all(k, k == 'a')", "true");
    gives("[5, 7].exists(i, v, i == 1 && v == 7)", "true");
    gives("{'a': 1, 'b': 2}.transformMap(k, v, v > 1, k + 'x')", "{\"b\": \"bx\"}");
    gives("[2, 4].transformList(i, v, v * i)", "[0, 4]");
    gives("cel.bind(x, 2, cel.bind(y, x + 1, [x, y]))", "[2, 3]");
    gives("args.amount.all(x, true)", "error: no such overload for (double) (at column 13)");
    gives("args.list.all(x, x)", "error: no such overload for (double) (at column 11)");
}

static void fields_and_elements_are_found(void **state)
{
    (void)state;
    gives("args.map.a.b[0]", "7.0");
    gives("args['map']['a'].b", "[7.0]");
    gives("has(args.map.a) && !has(args.map.x)", "true");
    gives("has(args.none)", "true");
    gives("has(args.amount.x)", "error: no such overload for (double) (at column 1)");
    gives("args.map.x", "error: no such key: x (at column 10)");
    gives("args.list[4]", "error: index out of range (at column 10)");
    gives("args.list[-1]", "error: index out of range (at column 10)");
    gives("[7, 8][dyn(1.0)] + [7, 8][dyn(0u)]", "15");
    gives("[7, 8][dyn(0.5)]", "error: no such overload for (list, double) (at column 7)");
    gives("{1: 'a', 2u: 'b', true: 'c'}[dyn(1.0)]", "\"a\"");
    gives("{1: 'a'}[2]", "error: no such key: 2 (at column 9)");
    gives("{'a': 1, 'a': 2}", "error: a key is there twice (at column 1)");
    gives("{1: 1, 1u: 2}", "error: a key is there twice (at column 1)");
    gives("'a' in args.map && !('b' in args.map) && !(dyn(1) in args.map)", "true");
    gives("2 in args.list || 2.5 in args.list", "true");
    gives("args.empty == {} && size(args.empty) == 0", "true");
}

static void a_literal_map_of_any_size_is_searched(void **state)
{
    char text[2048];
    (void)state;
    struct buf out = buf_over(text, sizeof text - 1);
    buf_put_byte(&out, '{');
    for (int i = 0; i < 60; i++) buf_printf(&out, "%s'k%d': %d", i > 0 ? ", " : "", i, i);
    buf_put_literal(&out, "}['k' + string(59)]");
    text[out.size] = '\0';
    gives(text, "59");
    gives("'k' in ['a','b','c','d','e','f','g','h','k']", "true");
    gives("actor in ['a','b','c','d','e','f','g','h','invoice_bot']", "true");
    gives("action in ['a','b','c','d','e','f','g','h','a']", "false");
    gives("args.amount in ['a','b','c','d','e','f','g','h','i']", "false");
    gives("['', 'a', 'ab', 'abc', 'abcd', 'abcdefgh', 'a text of sixteen', 'a text of 17 "
          "bytes'].all(e, e in "
          "['', 'a', 'ab', 'abc', 'abcd', 'abcdefgh', 'a text of sixteen', 'a text of 17 bytes'])",
          "true");
    gives("['b', 'aa', 'abd', 'abcx', 'abcdefgi', 'a text of sixteem', 'a text of 18 "
          "bytes'].exists(e, e in "
          "['', 'a', 'ab', 'abc', 'abcd', 'abcdefgh', 'a text of sixteen', 'a text of 17 bytes'])",
          "false");
    gives("'a' in ['a', 'a']", "true");
    gives("dyn(b'a') in ['a', 'b']", "false");
    gives("[dyn(2), 2u, 2.0].all(n, n in [1, 2, 'a'])", "true");
    gives("dyn(0.0 / 0.0) in [1, 2]", "false");
}

static void json_numbers_keep_what_a_double_cannot_hold(void **state)
{
    (void)state;
    gives("args.amount", "120.0");
    gives("args.big == 9007199254740993 && type(args.big) == int", "true");
    gives("args.huge == 18446744073709551615u && type(args.huge) == uint", "true");
    gives("args.amount * 2.0", "240.0");
    gives("args.amount * 2", "error: no such overload for (double, int) (at column 13)");
    gives("args.amount > 0 && args.amount <= 500", "true");
}

static void the_other_variables_are_there(void **state)
{
    (void)state;
    gives("'finance' in roles && size(scope) == 0", "true");
    gives("roles[1] + actor", "\"financeinvoice_bot\"");
    gives("roles == ['support', 'finance']", "true");
    gives("now", "timestamp(\"2026-11-20T09:30:00.123Z\")");
    gives("tenant == '' && context == {} && tool == action", "true");
}

static void conversions_keep_the_value_or_fail(void **state)
{
    (void)state;
    gives("int(-7.9)", "-7");
    gives("int(1e99)", "error: out of the range of the type (at column 1)");
    gives("int(9223372036854775808.0)", "error: out of the range of the type (at column 1)");
    gives("int('-12') + int('+3')", "-9");
    gives("int('1.5')", "error: the text cannot be read as that: 1.5 (at column 1)");
    gives("uint(-1)", "error: out of the range of the type (at column 1)");
    gives("uint(1e19)", "10000000000000000000u");
    gives("double('-84.32e7')", "-8.432e+08");
    gives("[double('.5'), double('5.'), double('+1'), double('00.1')]", "[0.5, 5.0, 1.0, 0.1]");
    gives("double('1 ')", "error: the text cannot be read as that: 1  (at column 1)");
    gives("string(-4.5e-3)", "\"-0.0045\"");
    gives("[string(1.0), string(1e6), string(123456.0), string(1e-5), string(0.1)]",
          "[\"1\", \"1e+06\", \"123456\", \"1e-05\", \"0.1\"]");
    gives("string(b'\\303\\277') == '\xC3\xBF'", "true");
    gives("string(b'\\xff')", "error: the text cannot be read as that (at column 1)");
    gives("bool('true') && !bool('F')", "true");
    gives("bool('yes')", "error: the text cannot be read as that: yes (at column 1)");
    gives("type(type(1)) == type(string) && type(null) == null_type", "true");
    gives("dyn([1, 'one'])", "[1, \"one\"]");
}

static void the_math_extension_counts(void **state)
{
    (void)state;
    gives("math.greatest(5.4, 10, 3u, -5.0)", "10");
    gives("math.least([5.4, 10u, 3u, 1u, 3.5])", "1u");
    gives("math.greatest(1, 1.0)", "1");
    gives("[math.ceil(-1.2), math.floor(-1.2), math.round(-1.5), math.trunc(-1.9)]",
          "[-1.0, -2.0, -2.0, -1.0]");
    gives("math.abs(-9223372036854775808)", "error: overflow (at column 6)");
    gives("[math.sign(-3), math.sign(0)]", "[-1, 0]");
    gives("math.isNaN(0.0 / 0.0) && math.isInf(-1.0 / 0.0) && !math.isFinite(1.0 / 0.0)", "true");
    gives("[math.bitAnd(6, 3), math.bitOr(4, -2), math.bitXor(1, 3), math.bitNot(1)]",
          "[2, -2, 2, -2]");
    gives("[math.bitShiftLeft(1, 200), math.bitShiftRight(-1024, 64)]", "[0, 0]");
    gives("math.bitShiftRight(-1024, 3)", "2305843009213693824");
    gives("['', 'abcdefgh', 'Müller-Straße', 'é€𝄞é€𝄞é', '🙂🙃🙂🙃'].map(t, "
          "size(t))",
          "[0, 8, 13, 7, 4]");
    gives("duration(dyn(5))", "error: no such overload for (int) (at column 1)");
    gives("math.bitShiftLeft(1u, -1)", "error: an argument that is not taken (at column 6)");
    gives("math.ceil(dyn(1))", "error: no such overload for (int) (at column 6)");
    gives("math.greatest([])", "error: an argument that is not taken (at column 6)");
}

static void what_is_unknown_is_a_runtime_error_without_the_check(void **state)
{
    (void)state;
    gives_unchecked("x", "error: no such variable: x (at column 1)");
    gives_unchecked("-(42u)", "error: no such overload for (uint) (at column 1)");
    gives_unchecked("!0", "error: no such overload for (int) (at column 1)");
    gives_unchecked("true ? 'cows' : 17", "\"cows\"");
    gives_unchecked("'cows' ? false : 17", "error: no such overload for (string) (at column 8)");
    gives_unchecked("contains('a', 'b')", "error: no such overload: contains (at column 1)");
    gives_unchecked("'a'.matches('(')", "error: an argument that is not taken: ( (at column 13)");
}

static void values_become_json(void **state)
{
    static const struct {
        const char *expression, *json;
        enum err err;
    } cases[] = {
        {"{'b': [1, 2u, 1.5, null, true], 'a': 'x'}", "{\"a\":\"x\",\"b\":[1,2,1.5,null,true]}",
         ERR_OK},
        {"args",
         "{\"amount\":120,\"big\":9007199254740993,\"empty\":{},\"huge\":18446744073709551615,"
         "\"list\":[1,2.5,\"x\",null],\"map\":{\"a\":{\"b\":[7]}},\"name\":\"M\xC3\xBCller\","
         "\"none\":null,\"yes\":true}",
         ERR_OK},
        {"[b'\\x00\\xff', b'a', b'abc', b'']", "[\"AP8=\",\"YQ==\",\"YWJj\",\"\"]", ERR_OK},
        {"[now, duration('90s')]", "[\"2026-11-20T09:30:00.123Z\",\"90s\"]", ERR_OK},
        {"{1: 2}", NULL, ERR_WRONG_TYPE},
        {"0.0 / 0.0", NULL, ERR_WRONG_TYPE},
        {"int", NULL, ERR_WRONG_TYPE},
        {"[[[[[1]]]]]", NULL, ERR_TOO_DEEP},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cel_environment environment = cel_policy_environment();
        struct cel_value variables[CEL_POLICY_VARIABLES], value;
        struct cel_problems problems;
        struct cel_program *program;
        struct json *json;
        char text[512];
        struct buf out = buf_over(text, sizeof text);
        arena_reset(&cel_arena);
        cel_request(variables);
        assert_int_equal(cel_compile(str_from(cases[i].expression), &environment, &cel_arena,
                                     &program, &problems),
                         ERR_OK);
        assert_true(cel_run(program, variables, &cel_arena, NULL, &value));
        assert_int_equal(cel_to_json(value, 4, &cel_arena, &json), cases[i].err);
        if (cases[i].err == ERR_OK) json_put_canonical(&out, json);
        if (cases[i].err == ERR_OK) cel_gives(cases[i].expression, buf_view(&out), cases[i].json);
        cel_program_fini(program);
    }
}

struct shared_run {
    const struct cel_program *program;
    size_t right;
};

static void *run_often(void *context)
{
    struct shared_run *shared = context;
    struct arena arena;
    struct cel_value variables[CEL_POLICY_VARIABLES] = {{0}}, value;
    arena_init(&arena, 1 << 12, 1 << 20);
    variables[CEL_ACTOR] = cel_of_str(STR("bot-17"));
    variables[CEL_NOW] = cel_of_ms(1795167000123);
    for (size_t i = 0; i < 2000; i++) {
        arena_reset(&arena);
        shared->right +=
            cel_run(shared->program, variables, &arena, NULL, &value) && cel_is_true(value);
    }
    arena_fini(&arena);
    return NULL;
}

static void one_program_runs_in_many_threads(void **state)
{
    (void)state;
    struct cel_environment environment = cel_policy_environment();
    struct cel_problems problems;
    struct cel_program *program;
    arena_reset(&cel_arena);
    assert_int_equal(
        cel_compile(STR("actor.matches('^bot-[0-9]+$') && now.getHours('Asia/' + 'Tokyo') == 18 && "
                        "[1, 2, 3].map(x, x * x) == [1, 4, 9]"),
                    &environment, &cel_arena, &program, &problems),
        ERR_OK);
    struct shared_run shared[4] = {{program, 0}, {program, 0}, {program, 0}, {program, 0}};
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_often, &shared[i]), 0);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(shared[i].right, 2000);
    }
    cel_program_fini(program);
}

/* A field that is looked for twice is found once; what it is, and what is told of it, stays the
 * same. */
static void a_field_that_is_used_again_is_the_same_field(void **state)
{
    (void)state;
    gives("has(args.map) && has(args.map.a) && args.map == args.map", "true");
    gives("has(args.gone) || has(args.gone)", "false");
    gives("(args.gone == 1 || true) && (args.gone == 1 || true)", "true");
    gives("args.gone == 1 || args.gone == 2", "error: no such key: gone (at column 6)");
    gives("has(args.amount) && args.gone == args.amount",
          "error: no such key: gone (at column 26)");
    gives("[1, 2].map(i, args.amount) == [args.amount, args.amount]", "true");
    gives("args.amount == args.amount && actor == actor && context.x == context.x",
          "error: no such key: x (at column 57)");
}

/* More fields than are remembered, twice each. */
static void many_fields_are_each_found(void **state)
{
    (void)state;
    gives("[{'a': args.amount, 'b': args.amount}.b == args.amount, has(args.a1), has(args.a2), "
          "has(args.a3),"
          " has(args.a4), has(args.a5), has(args.a6), has(args.a7), has(args.a8), has(args.a9),"
          " has(args.a1), has(args.a2), has(args.a3), has(args.a4), has(args.a5), has(args.a6),"
          " has(args.a7), has(args.a8), has(args.a9), has(args.map), has(args.map)].filter(b, "
          "b).size()",
          "3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_that_is_used_again_is_the_same_field),
        cmocka_unit_test(many_fields_are_each_found),
        cmocka_unit_test(integers_are_checked),
        cmocka_unit_test(numbers_are_equal_across_types),
        cmocka_unit_test(order_is_defined_for_what_has_one),
        cmocka_unit_test(errors_are_absorbed_by_and_and_or),
        cmocka_unit_test(macros_go_over_lists_and_maps),
        cmocka_unit_test(fields_and_elements_are_found),
        cmocka_unit_test(a_literal_map_of_any_size_is_searched),
        cmocka_unit_test(json_numbers_keep_what_a_double_cannot_hold),
        cmocka_unit_test(the_other_variables_are_there),
        cmocka_unit_test(conversions_keep_the_value_or_fail),
        cmocka_unit_test(the_math_extension_counts),
        cmocka_unit_test(what_is_unknown_is_a_runtime_error_without_the_check),
        cmocka_unit_test(values_become_json),
        cmocka_unit_test(one_program_runs_in_many_threads),
    };
    return cmocka_run_group_tests(tests, cel_set_up, cel_tear_down);
}
