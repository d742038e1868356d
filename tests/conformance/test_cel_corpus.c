/* test_cel_corpus.c - conditions that users of another engine wrote: all parse; and RE2's own
 * search cases, by the place of the match and as a condition. The specification's tests run in
 * tests/e2e/test_cel.py, through cel_conformance.c. The corpora lie beside the project;
 * where they are absent the tests say so and skip. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "cel/cel.h"
#include "cel/regex.h"

#define CORPORA "../shared/corpora/"

enum { ARENA_BYTES = 8 << 20, CONDITIONS = 387, SEARCHES = 300 };

/* Calls `visit` with each line's JSON; how many there were. */
static size_t each_line(const char *path,
                        void (*visit)(const struct json *line, struct arena *arena))
{
    FILE *file = fopen(path, "r");
    struct arena arena;
    char *line = NULL;
    size_t room = 0, count = 0;
    ssize_t size;
    if (file == NULL) {
        printf("SKIP: %s is not here\n", path);
        return 0;
    }
    arena_init(&arena, 1 << 16, ARENA_BYTES);
    for (; (size = getline(&line, &room, file)) > 0; count++) {
        const struct json_options options = {.nul_anywhere = true};
        struct json *root;
        arena_reset(&arena);
        assert_int_equal(json_read(str_of(line, (size_t)size), &options, &arena, &root, NULL),
                         ERR_OK);
        visit(root, &arena);
    }
    arena_fini(&arena);
    free(line);
    fclose(file);
    return count;
}

/* Unchecked, since their functions and variables are not ours. */
static void condition_parses(const struct json *line, struct arena *arena)
{
    struct cel_environment environment = {.unchecked = true};
    struct cel_problems problems;
    struct cel_program *program = NULL;
    enum err e = cel_compile(line->string, &environment, arena, &program, &problems);
    if (e != ERR_OK) print_error("%.*s: %s\n", STR_FORMAT(line->string), problems.list[0].message);
    assert_int_equal(e, ERR_OK);
    cel_program_fini(program);
}

static void every_condition_of_another_engines_users_parses(void **state)
{
    (void)state;
    size_t count = each_line(CORPORA "cerbos/conditions.txt", condition_parses);
    if (count == 0) skip();
    assert_int_equal(count, CONDITIONS);
}

static void search_is_right(const struct json *line, struct arena *arena)
{
    static const char condition[] = "text.matches(pattern)";
    struct str pattern = json_text(line, STR("re")), text = json_text(line, STR("text"));
    bool wanted = json_get(line, STR("match"))->type == JSON_TRUE;
    size_t from = 0, to = 0, instructions;
    struct cel_regex *regex =
        cel_regex_create(pattern.bytes, pattern.size, REGEX_MEMORY_BYTES, &instructions, NULL);
    assert_non_null(regex);
    assert_int_equal(cel_regex_search(regex, text.bytes, text.size, NULL, NULL), wanted);
    assert_int_equal(cel_regex_search(regex, text.bytes, text.size, &from, &to), wanted);
    const struct json *span = json_get(line, STR("span"));
    if (wanted)
        assert_true((double)from == span->child->number && (double)to == span->child->next->number);
    cel_regex_destroy(regex);

    const struct cel_type *string = cel_type_read(STR("string"), arena);
    const struct cel_variable variables[] = {{STR("text"), string}, {STR("pattern"), string}};
    const struct cel_environment environment = {.variables = variables, .count = 2};
    const struct cel_value values[] = {cel_of_str(text), cel_of_str(pattern)};
    struct cel_problems problems;
    struct cel_program *program;
    struct cel_value value;
    assert_int_equal(cel_compile(str_from(condition), &environment, arena, &program, &problems),
                     ERR_OK);
    assert_true(cel_run(program, values, arena, NULL, &value));
    assert_int_equal(cel_is_true(value), wanted);
    cel_program_fini(program);
}

static void every_search_of_re2_finds_what_re2_finds(void **state)
{
    (void)state;
    size_t count = each_line(CORPORA "regex/re2-search.jsonl", search_is_right);
    if (count == 0) skip();
    assert_int_equal(count, SEARCHES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_condition_of_another_engines_users_parses),
        cmocka_unit_test(every_search_of_re2_finds_what_re2_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
