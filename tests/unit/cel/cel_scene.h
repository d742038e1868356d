/* cel_scene.h - what the tests of conditions share: an expression is compiled with the environment
 * of policies, run over one request, and what comes is compared as text. */
#ifndef UNIT_CEL_SCENE_H
#define UNIT_CEL_SCENE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "cel/cel.h"

#define ARGS                                                                                       \
    "{\"amount\":120,\"name\":\"M\xC3\xBCller\",\"big\":9007199254740993,\"huge\":"                \
    "18446744073709551615,"                                                                        \
    "\"none\":null,\"yes\":true,\"list\":[1,2.5,\"x\",null],\"map\":{\"a\":{\"b\":[7]}},"          \
    "\"empty\":{}}"

static struct arena cel_arena;

static inline int cel_set_up(void **state)
{
    (void)state;
    arena_init(&cel_arena, 1 << 16, 16 << 20);
    return 0;
}

static inline int cel_tear_down(void **state)
{
    (void)state;
    arena_fini(&cel_arena);
    return 0;
}

static inline void cel_request(struct cel_value *variables)
{
    static const struct str roles[] = {{"support", 7}, {"finance", 7}};
    struct json *args;
    assert_int_equal(json_read(str_from(ARGS), NULL, &cel_arena, &args, NULL), ERR_OK);
    for (size_t i = 0; i < CEL_POLICY_VARIABLES; i++) variables[i] = cel_of_str(STR(""));
    for (size_t i = CEL_ARGS; i <= CEL_REQUEST; i++)
        variables[i] = cel_of_json(i == CEL_ARGS ? args : NULL);
    variables[CEL_ACTION] = variables[CEL_TOOL] = cel_of_str(STR("issue_refund"));
    variables[CEL_ACTOR] = cel_of_str(STR("invoice_bot"));
    variables[CEL_SCOPE] = cel_of_strs(NULL, 0);
    variables[CEL_ROLES] = cel_of_strs(roles, 2);
    variables[CEL_NOW] = cel_of_ms(1795167000123); /* 2026-11-20T09:30:00.123Z */
}

/* What a run gives, as text; an error begins with "error: ", a refusal with "line:column: ". */
static inline struct str cel_outcome_with(const char *expression, bool unchecked,
                                          const struct cel_limits *limits)
{
    static char text[4096];
    struct buf out = buf_over(text, sizeof text);
    struct cel_environment environment = cel_policy_environment();
    struct cel_value variables[CEL_POLICY_VARIABLES], value;
    struct cel_problems problems;
    struct cel_program *program;
    arena_reset(&cel_arena);
    cel_request(variables);
    environment.unchecked = unchecked;
    /* A copy that is gone when the program runs: it may keep nothing of its source. */
    char *source = test_malloc(strlen(expression) + 1);
    memcpy(source, expression, strlen(expression) + 1);
    enum err e = cel_compile(str_from(source), &environment, &cel_arena, &program, &problems);
    test_free(source);
    if (e != ERR_OK) {
        assert_int_equal(e, ERR_INVALID_POLICY);
        for (size_t i = 0; i < problems.count; i++)
            buf_printf(&out, "%s%u:%u: %s", i > 0 ? "\n" : "", problems.list[i].line,
                       problems.list[i].column, problems.list[i].message);
        return buf_view(&out);
    }
    if (cel_run(program, variables, &cel_arena, limits, &value)) {
        cel_put_value(&out, value);
    } else {
        buf_put_literal(&out, "error: ");
        cel_put_error(&out, value);
    }
    cel_program_fini(program);
    return buf_view(&out);
}

static inline void cel_gives(const char *expression, struct str got, const char *expected)
{
    if (str_equal(got, str_from(expected))) return;
    print_error("%s\n  gives    %.*s\n  expected %s\n", expression, STR_FORMAT(got), expected);
    fail();
}

/* The value, error or refusal of the checked expression. */
#define gives(expression, expected)                                                                \
    cel_gives(expression, cel_outcome_with(expression, false, NULL), expected)
#define gives_unchecked(expression, expected)                                                      \
    cel_gives(expression, cel_outcome_with(expression, true, NULL), expected)

#endif
