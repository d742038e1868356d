/* Conditions where the process has no memory left for RE2. */
#include "cel_scene.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- C++'s memory, in the place of its library's: after so many there is none ---- */

static size_t left = SIZE_MAX;

void _ZSt17__throw_bad_allocv(void) __attribute__((noreturn));

static void *give(size_t size)
{
    if (left == 0) _ZSt17__throw_bad_allocv();
    if (left != SIZE_MAX) left--;
    void *bytes = malloc(size > 0 ? size : 1);
    if (bytes == NULL) abort();
    return bytes;
}

void *_Znwm(size_t size); /* operator new and delete, plain and of arrays */
void *_Znam(size_t size);
void _ZdlPv(void *bytes);
void _ZdaPv(void *bytes);
void _ZdlPvm(void *bytes, size_t size);
void _ZdaPvm(void *bytes, size_t size);

void *_Znwm(size_t size) { return give(size); }
void *_Znam(size_t size) { return give(size); }
void _ZdlPv(void *bytes) { free(bytes); }
void _ZdaPv(void *bytes) { free(bytes); }

void _ZdlPvm(void *bytes, size_t size)
{
    (void)size;
    free(bytes);
}

void _ZdaPvm(void *bytes, size_t size)
{
    (void)size;
    free(bytes);
}

/* RE2 loses what it had by then when an exception takes it by surprise. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libre2"; }

/* ---- the tests ---- */

/* What the expression gives when RE2 gets so many pieces of memory and no more. */
static struct str outcome_with(size_t pieces, const struct cel_program *program)
{
    static char text[256];
    struct buf out = buf_over(text, sizeof text);
    struct cel_value variables[CEL_POLICY_VARIABLES], value;
    cel_request(variables);
    left = pieces;
    bool good = cel_run(program, variables, &cel_arena, NULL, &value);
    left = SIZE_MAX;
    if (good)
        cel_put_value(&out, value);
    else
        cel_put_error(&out, value);
    return buf_view(&out);
}

static struct cel_program *compiled(const char *expression, enum err expected)
{
    struct cel_environment environment = cel_policy_environment();
    struct cel_problems problems = {0};
    struct cel_program *program = NULL;
    enum err err = cel_compile(str_from(expression), &environment, &cel_arena, &program, &problems);
    left = SIZE_MAX;
    assert_int_equal(err, expected);
    assert_int_equal(problems.count, 0);
    return program;
}

static void a_computed_pattern_without_memory_fails_its_condition(void **state)
{
    (void)state;
    static const char condition[] = "action.matches(args.list[2] + '|' + \"issue_(re|pre)fund$\")";
    struct cel_program *program = compiled(condition, ERR_OK);
    size_t pieces = 0;
    struct str got;
    while (!str_equal(got = outcome_with(pieces, program), STR("true"))) {
        cel_gives(condition, got, "the memory limit is reached (at column 8)");
        pieces++;
    }
    assert_true(pieces > 10);
    cel_program_fini(program);
}

static void a_pattern_that_there_is_no_memory_to_compile_is_no_wrong_one(void **state)
{
    (void)state;
    for (size_t pieces = 0; pieces < 10; pieces++) {
        left = pieces;
        assert_null(compiled("action.matches(\"issue_(re|pre)fund$\")", ERR_FULL));
        arena_reset(&cel_arena);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, cel_set_up, cel_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_computed_pattern_without_memory_fails_its_condition),
        TEST(a_pattern_that_there_is_no_memory_to_compile_is_no_wrong_one),
    };
    if (getenv("WRIT_VALGRIND") != NULL) {
        puts("SKIP: valgrind gives C++ memory of its own");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
