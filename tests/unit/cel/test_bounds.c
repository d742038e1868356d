/* test_bounds.c - what an expression or an input is not allowed to cost. */
#include "cel_scene.h"

static const struct cel_limits small = {.cost = 10000, .memory_bytes = 64 << 10};

#define bounded(expression, expected)                                                              \
    cel_gives(expression, cel_outcome_with(expression, false, &small), expected)

static void nested_loops_end_at_the_cost_limit(void **state)
{
    (void)state;
    bounded("[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, "
            "[1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, a + b + c + d + e > 0)))))",
            "error: the cost limit is reached (at column 129)");
}

static void a_limit_is_not_absorbed(void **state)
{
    (void)state;
    bounded(
        "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, "
        "[1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, a + b + c + d + e > 0))))) || true",
        "true"); /* folded: a constant decides before anything is run */
    bounded("[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, "
            "[1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, a + b + c + d + e > 0))))) || "
            "args.yes",
            "error: the cost limit is reached (at column 129)");
}

static void texts_that_double_end_at_the_memory_limit(void **state)
{
    (void)state;
    bounded("cel.bind(a, args.name + args.name, cel.bind(b, a + a + a + a + a + a + a + a, "
            "cel.bind(c, b + b + b + b + b + b + b + b, "
            "cel.bind(d, c + c + c + c + c + c + c + c, cel.bind(e, d + d + d + d + d + d + d + d, "
            "size(e + e) > 0)))))",
            "error: the memory limit is reached (at column 183)");
    bounded("args.name.replace('', args.name).replace('', args.name).replace('', "
            "args.name).replace('', args.name)"
            ".replace('', args.name).replace('', args.name).size() > 0",
            "error: the cost limit is reached (at column 103)");
    bounded("['a', 'b'].map(x, [x + x, x + x]).map(x, [x, x, x, x]).map(x, [x, x, x, x]).map(x, "
            "[x, x]).size() == 2",
            "true");
}

static void comparing_what_is_shared_is_paid_for_each_time(void **state)
{
    char text[4096];
    struct buf out = buf_over(text, sizeof text - 1);
    (void)state;
    buf_put_literal(&out, "cel.bind(x0, [args], ");
    for (int i = 1; i < 30; i++) buf_printf(&out, "cel.bind(x%d, [x%d, x%d], ", i, i - 1, i - 1);
    buf_put_literal(&out, "x29 == x29");
    for (int i = 0; i < 30; i++) buf_put_byte(&out, ')');
    text[out.size] = '\0';
    bounded(text, "error: the cost limit is reached (at column 751)");
}

static void a_computed_pattern_pays_for_its_compilation(void **state)
{
    (void)state;
    bounded("[1,2,3,4,5,6,7,8,9].exists(i, args.name.matches('x' + string(i)))",
            "error: the cost limit is reached (at column 41)");
    gives("args.name.matches('a'.replace('', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa').replace('', "
          "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'))",
          "1:19: this is no regular expression: the pattern is too long");
}

/* Each of them looks at a long text without making anything of it. */
static void long_texts_are_paid_for_by_who_looks_at_them(void **state)
{
    static const char *const looks[] = {"x.startsWith(x)", "x.endsWith(x)",   "x == x",
                                        "x <= x",          "x.contains('z')", "x.size() > 0",
                                        "x in {x: 1}",     "x.matches('^b')", "x.glob('*a')"};
    (void)state;
    for (size_t i = 0; i < sizeof looks / sizeof looks[0]; i++) {
        char expression[256];
        snprintf(expression, sizeof expression,
                 "cel.bind(x, 'a'.replace('', 'aaaaaaaaaaaaaaaa').replace('', "
                 "'aaaaaaaaaaaaaaaa').replace('', "
                 "'aaaaaaaaaaaaaa'), [1,2,3,4,5,6,7,8,9,10].map(i, [1,2,3,4,5,6,7,8,9,10].map(j, "
                 "%s)).size() > 0)",
                 looks[i]);
        struct str got = cel_outcome_with(expression, false, &small);
        if (!str_starts(got, STR("error: the cost limit is reached")))
            cel_gives(expression, got, "the cost limit");
    }
}

static void a_full_arena_is_an_error_and_no_crash(void **state)
{
    (void)state;
    struct cel_environment environment = cel_policy_environment();
    struct cel_value variables[CEL_POLICY_VARIABLES], value;
    struct cel_problems problems;
    struct cel_program *program;
    struct arena tiny;
    arena_reset(&cel_arena);
    cel_request(variables);
    assert_int_equal(cel_compile(STR("[args.name, args.name].map(x, x + x).size() == 2"),
                                 &environment, &cel_arena, &program, &problems),
                     ERR_OK);
    for (size_t size = 16; size < 256; size += 16) {
        arena_init(&tiny, 16, size);
        bool fine = cel_run(program, variables, &tiny, NULL, &value);
        assert_true(fine ? cel_is_true(value)
                         : value.kind == CEL_ERROR && value.form == CEL_FAULT_MEMORY);
        arena_fini(&tiny);
    }
    cel_program_fini(program);
    bool was_made = false;
    for (size_t size = 64; !was_made; size += 64) {
        assert_true(size < 16384);
        arena_init(&tiny, 64, size);
        program = NULL;
        enum err e = cel_compile(STR("args.name.matches('^a') || [1, {'a': 'b'}] == args.list"),
                                 &environment, &tiny, &program, &problems);
        was_made = e == ERR_OK;
        assert_true(was_made ? program != NULL : e == ERR_FULL && program == NULL);
        cel_program_fini(program);
        arena_fini(&tiny);
    }
}

static void constants_do_not_grow_when_they_are_folded(void **state)
{
    (void)state;
    struct cel_environment environment = cel_policy_environment();
    struct cel_problems problems;
    struct cel_program *program;
    struct arena arena;
    arena_init(&arena, 1 << 10, 1 << 20);
    assert_int_equal(
        cel_compile(
            STR("'aaaaaaaaaaaaaaaa'.replace('', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb').replace('', "
                "'cccccccccccccccccccccccccc')"
                ".replace('', 'dddddddddddddddddddddddddddddddddddddddddd').replace('', "
                "'eeeeeeeeeeeeeeeeeeeee').size() > 1"),
            &environment, &arena, &program, &problems),
        ERR_OK);
    cel_program_fini(program);
    assert_true(arena.taken_bytes < 256 << 10);
    arena_fini(&arena);
}

static void a_large_json_list_is_searched_within_its_cost(void **state)
{
    char text[40000];
    struct buf out = buf_over(text, sizeof text - 1);
    (void)state;
    buf_put_literal(&out, "{\"list\":[0");
    for (int i = 1; i < 5000; i++) buf_printf(&out, ",%d", i);
    buf_put_literal(&out, "]}");
    struct json *args;
    struct cel_environment environment = cel_policy_environment();
    struct cel_value variables[CEL_POLICY_VARIABLES], value;
    struct cel_problems problems;
    struct cel_program *program;
    arena_reset(&cel_arena);
    cel_request(variables);
    assert_int_equal(json_read(buf_view(&out), NULL, &cel_arena, &args, NULL), ERR_OK);
    variables[CEL_ARGS] = cel_of_json(args);
    assert_int_equal(cel_compile(STR("args.list.all(x, x in args.list)"), &environment, &cel_arena,
                                 &program, &problems),
                     ERR_OK);
    assert_false(cel_run(program, variables, &cel_arena, NULL, &value));
    assert_int_equal(value.form, CEL_FAULT_COST);
    cel_program_fini(program);
}

/* 60 KB of a and b without order: no automaton of these patterns has room
 * for what it may have seen. */
static struct json *random_text(void)
{
    static char text[60050];
    struct buf out = buf_over(text, sizeof text);
    uint64_t state = 1;
    struct json *args;
    buf_put_literal(&out, "{\"t\":\"");
    for (int i = 0; i < 60000; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        buf_put_byte(&out, (state >> 63) != 0 ? 'a' : 'b');
    }
    buf_put_literal(&out, "\"}");
    assert_int_equal(json_read(buf_view(&out), NULL, &cel_arena, &args, NULL), ERR_OK);
    return args;
}

static enum cel_fault fault_of(const char *expression, uint64_t cost, uint64_t *ret_left)
{
    struct cel_environment environment = cel_policy_environment();
    struct cel_value variables[CEL_POLICY_VARIABLES], value;
    struct cel_problems problems;
    struct cel_program *program;
    struct cel_limits limits = {.cost = cost, .ret_cost_left = ret_left};
    arena_reset(&cel_arena);
    cel_request(variables);
    variables[CEL_ARGS] = cel_of_json(random_text());
    assert_int_equal(
        cel_compile(str_from(expression), &environment, &cel_arena, &program, &problems), ERR_OK);
    bool good = cel_run(program, variables, &cel_arena, &limits, &value);
    cel_program_fini(program);
    return good ? CEL_FAULT_NONE : (enum cel_fault)value.form;
}

static void a_search_pays_for_the_whole_pattern_where_it_is_large(void **state)
{
    (void)state;
    assert_int_equal(fault_of("args.t.matches('[ab]*a[ab]{100}c')", 100000, NULL), CEL_FAULT_COST);
    assert_int_equal(fault_of("args.t.matches('[ab]*a[ab]{30}c')", 100000, NULL), CEL_FAULT_COST);
    assert_int_equal(
        fault_of("args.t.matches('[ab]*a' + '[ab]{100}c' + args.t.substring(0, 0))", 100000, NULL),
        CEL_FAULT_COST);
    assert_int_equal(fault_of("args.t.matches('c+d')", 100000, NULL), CEL_FAULT_NONE);
    assert_int_equal(fault_of("args.t.substring(0, 900).matches('[ab]*a[ab]{100}c')", 100000, NULL),
                     CEL_FAULT_NONE);
}

/* A step is meant to take 20 ns at most; what these take by byte or match was measured. */
static void what_takes_longer_for_each_byte_is_paid_for_by_more(void **state)
{
    static const struct {
        const char *expression;
        uint64_t least; /* steps, of a text of 60,000 bytes */
    } costs[] = {
        {"args.t.replace('a', '') != 'x'", 70000},
        {"args.t.substring(0, 20000).replace('', '-') != 'x'", 26000},
        {"args.t.contains('abababc')", 10000},
        {"args.t.indexOf('abababc') < 0", 10000},
        {"args.t.split('a') != []", 70000},
        {"args.t.lastIndexOf('abababc') < 0", 15000},
        {"args.t.reverse() != 'x'", 15000},
        {"args.t.trim() != 'x'", 15000},
        {"strings.quote(args.t) != 'x'", 15000},
        {"path_under('/', args.t) != 'x'", 30000},
    };
    (void)state;
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        uint64_t left;
        fault_of(costs[i].expression, 100000, &left);
        if (100000 - left < costs[i].least || 100000 - left > costs[i].least * 2)
            fail_msg("%s: %llu steps", costs[i].expression, (unsigned long long)(100000 - left));
    }
}

/* What it takes to read and compile a pattern for one match was measured, too. */
static void a_computed_pattern_pays_for_what_it_is_compiled_to(void **state)
{
    static const struct {
        const char *pattern;
        enum cel_fault fault;
        uint64_t least; /* steps; at most a quarter more */
    } costs[] = {
        {"a+b", CEL_FAULT_NONE, 2200},
        {"\\pLx", CEL_FAULT_NONE, 26000},
        {"\\\\pLx", CEL_FAULT_NONE, 2200}, /* a backslash, and a text */
        {"(?i)\\p{Lu}|\\PN", CEL_FAULT_NONE, 20000},
        {"\\pL{60}", CEL_FAULT_ARGUMENT, 80000}, /* too large, which takes as long to find out */
        {"[\\pL\\pL\\pL\\pL\\pL\\pL\\pL\\pL\\pL\\pL](", CEL_FAULT_ARGUMENT, 50000},
        {"(\\pL|\\pN|\\pS|\\pM|\\pP){8}", CEL_FAULT_COST, 100000},
        {"[\\pL\\pL\\pL\\pL\\pL\\pL\\pL\\pL\\pL\\pL\\pL\\pL\\pL\\pL\\pL\\pL\\pL\\pL\\pL\\pL]",
         CEL_FAULT_COST, 100000},
    };
    (void)state;
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        char expression[200];
        uint64_t left;
        snprintf(expression, sizeof expression, "!''.matches(r'%s' + actor.substring(0, 0))",
                 costs[i].pattern);
        assert_int_equal(fault_of(expression, 100000, &left), costs[i].fault);
        if (100000 - left < costs[i].least || 100000 - left > costs[i].least / 4 * 5)
            fail_msg("%s: %llu steps", expression, (unsigned long long)(100000 - left));
    }
}

/* The automaton of one that is written down is there from the run before. */
static void a_computed_pattern_pays_for_its_automaton(void **state)
{
    (void)state;
    assert_int_equal(fault_of("args.t.matches('[ab]*a[ab]{4}c')", 100000, NULL), CEL_FAULT_NONE);
    assert_int_equal(
        fault_of("args.t.matches('[ab]*a[ab]{4}c' + args.t.substring(0, 0))", 100000, NULL),
        CEL_FAULT_COST);
}

static void constants_are_worked_out_for_as_many_steps_as_are_left(void **state)
{
    static const char text[] = "'abc'.replace('', '-') + 'abc'.replace('', '+') == args.name";
    (void)state;
    struct cel_environment environment = cel_policy_environment();
    struct cel_problems problems;
    struct cel_program *program;
    uint64_t costs[3];
    static const uint64_t rooms[3] = {0, 14, 100000};
    for (size_t i = 0; i < 3; i++) {
        struct cel_room room = {.folding_left = rooms[i]};
        struct cel_value variables[CEL_POLICY_VARIABLES], value;
        struct cel_limits limits = {.cost = 1000, .ret_cost_left = &costs[i]};
        environment.room = &room;
        arena_reset(&cel_arena);
        cel_request(variables);
        assert_int_equal(cel_compile(str_from(text), &environment, &cel_arena, &program, &problems),
                         ERR_OK);
        assert_true(cel_run(program, variables, &cel_arena, &limits, &value));
        assert_false(cel_is_true(value));
        cel_program_fini(program);
        assert_true(room.folding_left <= rooms[i]);
        assert_int_equal(room.folding_left == rooms[i], i == 0);
    }
    assert_true(costs[0] < costs[1] && costs[1] < costs[2]);
}

static void printing_a_number_is_paid_for_by_its_digits(void **state)
{
    (void)state;
    /* A hundred of the longest ones take some 800 microseconds. */
    assert_int_equal(
        fault_of("[0,1,2,3,4,5,6,7,8,9].map(a, [0.0,1.0,2.0,3.0,4.0,5.0,6.0,7.0,8.0,9.0].map(b, "
                 "'%.100f'.format([1e308 + b]))).size() > 0",
                 50000, NULL),
        CEL_FAULT_COST);
    assert_int_equal(fault_of("'%.2f of %.1e'.format([1.5, 2.5]) != ''", 1000, NULL),
                     CEL_FAULT_NONE);
}

static void a_run_says_what_it_left_of_its_cost(void **state)
{
    (void)state;
    uint64_t left = 7;
    assert_int_equal(fault_of("size(args.t) > 0", 10000, &left), CEL_FAULT_NONE);
    if (left == 0 || left >= 10000) print_error("left %llu\n", (unsigned long long)left);
    assert_true(left > 0 && left < 10000);
    assert_int_equal(fault_of("args.nothing > 0", 10000, &left), CEL_FAULT_KEY);
    assert_true(left < 10000 && left > 9900);
    assert_int_equal(fault_of("args.t.matches('[ab]*a[ab]{100}c')", 10000, &left), CEL_FAULT_COST);
    assert_int_equal(left, 0);
    assert_int_equal(fault_of("size(args.t) > 0", 1, &left), CEL_FAULT_COST);
    assert_int_equal(left, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nested_loops_end_at_the_cost_limit),
        cmocka_unit_test(a_limit_is_not_absorbed),
        cmocka_unit_test(texts_that_double_end_at_the_memory_limit),
        cmocka_unit_test(comparing_what_is_shared_is_paid_for_each_time),
        cmocka_unit_test(a_computed_pattern_pays_for_its_compilation),
        cmocka_unit_test(long_texts_are_paid_for_by_who_looks_at_them),
        cmocka_unit_test(a_full_arena_is_an_error_and_no_crash),
        cmocka_unit_test(constants_do_not_grow_when_they_are_folded),
        cmocka_unit_test(a_large_json_list_is_searched_within_its_cost),
        cmocka_unit_test(a_search_pays_for_the_whole_pattern_where_it_is_large),
        cmocka_unit_test(a_computed_pattern_pays_for_what_it_is_compiled_to),
        cmocka_unit_test(a_computed_pattern_pays_for_its_automaton),
        cmocka_unit_test(constants_are_worked_out_for_as_many_steps_as_are_left),
        cmocka_unit_test(printing_a_number_is_paid_for_by_its_digits),
        cmocka_unit_test(what_takes_longer_for_each_byte_is_paid_for_by_more),
        cmocka_unit_test(a_run_says_what_it_left_of_its_cost),
    };
    return cmocka_run_group_tests(tests, cel_set_up, cel_tear_down);
}
