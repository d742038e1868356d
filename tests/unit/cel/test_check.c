/* test_check.c - the types that the checker finds, and what it refuses. */
#include "cel_scene.h"

/* The type of an expression with x: list(int), m: map(string, dyn) and a dotted name. */
static void has_type(const char *expression, const char *expected)
{
    char text[256];
    struct buf out = buf_over(text, sizeof text - 1);
    arena_reset(&cel_arena);
    const struct cel_variable variables[] = {
        {STR("x"), cel_type_read(STR("list(int)"), &cel_arena)},
        {STR("m"), cel_type_read(STR("map(string, dyn)"), &cel_arena)},
        {STR("d"), cel_type_read(STR("dyn"), &cel_arena)},
        {STR("a.b"), cel_type_read(STR("map(string,string)"), &cel_arena)},
        {STR("a.b.c"), cel_type_read(STR("uint"), &cel_arena)},
        {STR("com.example.y"), cel_type_read(STR("bool"), &cel_arena)},
    };
    struct cel_environment environment = {
        .variables = variables, .count = 6, .container = STR("com.example")};
    struct cel_problems problems;
    struct cel_program *program;
    if (cel_compile(str_from(expression), &environment, &cel_arena, &program, &problems) ==
        ERR_OK) {
        cel_put_type(&out, cel_program_type(program));
        cel_program_fini(program);
    } else {
        buf_put(&out, str_from(problems.list[0].message));
    }
    cel_gives(expression, buf_view(&out), expected);
}

static void literals_and_lists_have_their_types(void **state)
{
    (void)state;
    has_type("1", "int");
    has_type("[1, 2]", "list(int)");
    has_type("[1, 'a']", "list(dyn)");
    has_type("{'a': 1u}", "map(string, uint)");
    has_type("[]", "list(dyn)");
    has_type("[[], [1]]", "list(list(int))");
    has_type("[[], [[]], [[[]]]]", "list(list(list(list(dyn))))");
    has_type("[1, d]", "list(dyn)");
    has_type("null", "null_type");
    has_type("type(1)", "type(int)");
    has_type("int", "type(int)");
}

static void functions_give_the_type_of_their_overload(void **state)
{
    (void)state;
    has_type("size(x)", "int");
    has_type("x[0]", "int");
    has_type("m.anything.below", "dyn");
    has_type("m['k'] > 1", "bool");
    has_type("timestamp(0) - timestamp(1)", "google.protobuf.Duration");
    has_type("x.map(i, string(i))", "list(string)");
    has_type("x.filter(i, i > 1)", "list(int)");
    has_type("x.exists_one(i, i == 1)", "bool");
    has_type("m.map(k, k)", "list(string)");
    has_type("m.transformMap(k, v, size(k))", "map(string, int)");
    has_type("([] + x + [])[0]", "int");
    has_type("true ? 1 : d", "dyn");
    has_type("cel.bind(t, 'a', [t])", "list(string)");
    has_type("math.greatest(1, 2)", "int");
    has_type("math.greatest(1, 2.0)", "dyn");
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    has_type("1 + 1u", "int + uint is not possible: convert one, as in double(2) or int(2.0)");
    has_type("1 == 'a'", "int == string is not possible");
    has_type("x.size", "\"size\" is looked for in a value of type list(int), which has no fields");
    has_type("1 && true", "each side of \"&&\" is a bool, but this is int");
    has_type("x.all(i, i)", "the condition of this macro is a bool, but this is int");
    has_type("'a'.map(c, c)", "a macro goes over a list or a map, but this is string");
    has_type("{1.5: 1}", "a value of type double is no key of a map");
    has_type("true ? 1 : 'a'",
             "both sides of \":\" have to have one type, but they are int and string");
    has_type("'a'.startsWith(1)", "there is no string.startsWith(int)");
    has_type("startsWith('a', 'b')", "there is no startsWith(string, string)");
    has_type("nothing(1)", "there is no function \"nothing\"");
    has_type("nothing", "there is no variable \"nothing\"");
    has_type("True && y", "there is no variable \"True\"; did you mean true?");
    has_type(
        "x.exists(i > 1)",
        "there is no function \"exists\" that takes this; a macro is written as in args.list.exists(x, x > 5)");
    has_type(
        "has(x.a, 1)",
        "there is no function \"has\" that takes this; a macro is written as in has(args.name)");
    has_type("'a'.startswith('b')",
             "there is no function \"startswith\"; did you mean startsWith?");
    has_type("has(x)", "has() needs a field: has(args.amount)");
    has_type("x.map(a.b, 1)", "a variable's name is expected here");
    has_type("x.all(i, i, true)", "both variables have the same name");
}

static void what_has_to_be_a_condition_is_a_bool(void **state)
{
    (void)state;
    has_type("1 || true", "each side of \"||\" is a bool, but this is int");
    has_type("true || 'a'", "each side of \"||\" is a bool, but this is string");
    has_type("1 ? 2 : 3", "the part before \"?\" is a bool, but this is int");
    has_type("x.map(i, i, i)", "the filter of a macro is a bool, but this is int");
    has_type("x.exists(i, i)", "the condition of this macro is a bool, but this is int");
    has_type("x.exists_one(i, i)", "the condition of this macro is a bool, but this is int");
    has_type("x.filter(i, i)", "the condition of this macro is a bool, but this is int");
    has_type("d || d ? 1 : 2", "int");
    has_type("x.map(i, d, i)", "list(int)");
}

static void what_may_be_a_key_of_a_map(void **state)
{
    (void)state;
    has_type("{1: 'a'}", "map(int, string)");
    has_type("{1u: 'a'}", "map(uint, string)");
    has_type("{true: 'a'}", "map(bool, string)");
    has_type("{d: 'a'}", "map(dyn, string)");
    has_type("{'a': 1, 2: 3}", "map(dyn, int)");
    has_type("{null: 1}", "a value of type null_type is no key of a map");
    has_type("{'a': 1, x: 2}", "a value of type list(int) is no key of a map");
    has_type("{}", "map(dyn, dyn)");
}

static void two_variables_of_a_macro_are_index_and_element_or_key_and_value(void **state)
{
    (void)state;
    has_type("['s'].transformList(i, e, i)", "list(int)");
    has_type("['s'].transformList(i, e, e)", "list(string)");
    has_type("{'k': 1u}.transformList(k, v, k)", "list(string)");
    has_type("{'k': 1u}.transformList(k, v, v)", "list(uint)");
    has_type("{'k': 1u}.filter(k, true)", "list(string)");
    has_type("['s'].map(a, [1].transformList(i, e, {a: e}))", "list(list(map(string, int)))");
    has_type("['s'].all(i, e, e)", "the condition of this macro is a bool, but this is string");
}

static void a_name_is_looked_for_from_the_container_outwards(void **state)
{
    (void)state;
    has_type("example.y", "bool");
    has_type("com.y", "there is no variable \"com\"; did you mean com.example.y?");
    has_type("['s'].map(x, .x)", "list(list(int))"); /* from the root: not the macro's */
    has_type("list", "type");
    has_type("map", "type");
    has_type("string", "type(string)");
}

static void a_type_that_holds_itself_is_refused(void **state)
{
    (void)state;
    has_type("cel.bind(l, [], l + [l])", "list(dyn) + list(list(dyn)) is not possible");
    has_type("cel.bind(l, [], cel.bind(m, [l], l == m || m == l))",
             "list(dyn) == list(list(dyn)) is not possible");
}

static void the_longest_declared_name_wins(void **state)
{
    (void)state;
    has_type("a.b.c", "uint");
    has_type("a.b.d", "string");
    has_type("(a.b).c", "uint"); /* parentheses are not kept, as in the reference parser */
    has_type("y", "bool");
    has_type(".com.example.y", "bool");
    has_type(".y", "there is no variable \"y\"");
    has_type("google.protobuf.Duration", "type(google.protobuf.Duration)");
}

static void a_macros_variable_hides_the_outer_one(void **state)
{
    (void)state;
    has_type("['s'].map(x, x)", "list(string)");
    has_type("['s'].map(y, y)", "list(string)");
    has_type("[{'b': 1}].map(a, a.b)", "list(int)");
    has_type("[1].map(i, ['s'].map(i, i))", "list(list(string))");
}

static void a_wanted_type_is_asked_for(void **state)
{
    (void)state;
    struct cel_environment environment = cel_policy_environment();
    struct cel_problems problems;
    struct cel_program *program;
    environment.wants = cel_type_bool();
    assert_int_equal(cel_compile(STR("args.amount"), &environment, &cel_arena, &program, &problems),
                     ERR_OK);
    cel_program_fini(program);
    assert_int_equal(cel_compile(STR("1 + 1"), &environment, &cel_arena, &program, &problems),
                     ERR_INVALID_POLICY);
    assert_string_equal(problems.list[0].message, "this has to be bool, but it is int");
}

static void a_program_knows_which_variables_it_reads(void **state)
{
    (void)state;
    struct cel_environment environment = cel_policy_environment();
    struct cel_problems problems;
    struct cel_program *program;
    assert_int_equal(cel_compile(STR("args.a == 1 && actor == ''"), &environment, &cel_arena,
                                 &program, &problems),
                     ERR_OK);
    assert_true(cel_program_reads(program, CEL_ARGS));
    assert_true(cel_program_reads(program, CEL_ACTOR));
    assert_false(cel_program_reads(program, CEL_REQUEST));
    cel_program_fini(program);
}

/* As cel-go has it; a document that is stored may have it otherwise (gives: no problem). */
static void a_strict_check_refuses_what_cel_go_refuses(void **state)
{
    static const struct {
        const char *text, *problem; /* NULL: none */
    } rows[] = {
        {"([{}.map(c, c, c)] + [{}.map(c, c, c)]) == [[true]]", NULL},
        {"([{}.map(c, c, c)] + [{}.map(c, c, c)]) == [[1]]",
         "list(list(bool)) == list(list(int)) is not possible"},
        {"[].map(c, c, c) == [1]", "list(bool) == list(int) is not possible"},
        {"[].map(c, c) == [1]", NULL},
        {"[].filter(c, c) == ['a']", "list(bool) == list(string) is not possible"},
        {"`actor` == ''", "a name between back quotes must be a field, as in args.`actor`"},
        {"[1].map(`x`, 1) == []", "a name between back quotes must be a field, as in args.`x`"},
        {".`actor` == ''", "a name between back quotes must be a field, as in args.`actor`"},
        {"args.`content-type` == ''", NULL},
        {"has(args.`content-type`)", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cel_environment environment = cel_policy_environment();
        struct cel_problems problems;
        assert_int_equal(cel_examine(str_from(rows[i].text), &environment, &problems), ERR_OK);
        environment.is_strict = true;
        enum err err = cel_examine(str_from(rows[i].text), &environment, &problems);
        if (err != (rows[i].problem == NULL ? ERR_OK : ERR_INVALID_POLICY))
            fail_msg("%s", rows[i].text);
        if (err != ERR_OK) assert_string_equal(problems.list[0].message, rows[i].problem);
    }
}

static void types_are_read_from_text(void **state)
{
    (void)state;
    assert_non_null(cel_type_read(STR(" map( string , list(dyn) ) "), &cel_arena));
    assert_null(cel_type_read(STR("map(string)"), &cel_arena));
    assert_null(cel_type_read(STR("list(int"), &cel_arena));
    assert_null(cel_type_read(STR("int(int)"), &cel_arena));
    assert_null(cel_type_read(STR("integer"), &cel_arena));
    assert_null(cel_type_read(STR(""), &cel_arena));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(literals_and_lists_have_their_types),
        cmocka_unit_test(functions_give_the_type_of_their_overload),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(what_has_to_be_a_condition_is_a_bool),
        cmocka_unit_test(what_may_be_a_key_of_a_map),
        cmocka_unit_test(two_variables_of_a_macro_are_index_and_element_or_key_and_value),
        cmocka_unit_test(a_name_is_looked_for_from_the_container_outwards),
        cmocka_unit_test(a_type_that_holds_itself_is_refused),
        cmocka_unit_test(the_longest_declared_name_wins),
        cmocka_unit_test(a_macros_variable_hides_the_outer_one),
        cmocka_unit_test(a_wanted_type_is_asked_for),
        cmocka_unit_test(a_program_knows_which_variables_it_reads),
        cmocka_unit_test(a_strict_check_refuses_what_cel_go_refuses),
        cmocka_unit_test(types_are_read_from_text),
    };
    return cmocka_run_group_tests(tests, cel_set_up, cel_tear_down);
}
