/* fuzz_cel.c - any bytes as a condition, run over any JSON.
 *
 * The input is an expression, then, behind a NUL or a line of "---", a JSON object for `args`.
 * Checked: a refusal has problems with places inside of the text and well-formed messages; what
 * compiles runs within its limits, to the same end each time; the type check changes no result;
 * values, errors, trees and instructions can be printed; and what can be JSON is JSON that can be
 * read again. */
#include <stdlib.h>

#include "base/check.h"
#include "cel/cel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARENA_MOST = 8 << 20, SHOWN = 1 << 16 };

static void check_problems(struct str text, const struct cel_problems *problems)
{
    size_t wrong;
    check(problems->count > 0 && problems->count <= CEL_PROBLEMS_MAX);
    for (size_t i = 0; i < problems->count; i++) {
        const struct cel_problem *p = &problems->list[i];
        check(p->offset <= text.size && p->line >= 1 && p->column >= 1);
        check(i == 0 || problems->list[i - 1].offset < p->offset);
        check(memchr(p->message, '\0', sizeof p->message) != NULL && p->message[0] != '\0');
        check(str_is_utf8(str_from(p->message), &wrong) || !str_is_utf8(text, &wrong));
    }
}

/* What came of a run, as text. */
static bool run(const struct cel_program *program, const struct cel_value *variables,
                struct arena *arena, struct buf *out, bool *ret_limit)
{
    static const struct cel_limits limits = {.cost = 200000, .memory_bytes = 1 << 20};
    struct cel_value value;
    bool fine = cel_run(program, variables, arena, &limits, &value);
    *ret_limit = !fine && value.form >= CEL_FAULT_COST;
    buf_clear(out);
    check(fine == (value.kind != CEL_ERROR) && value.kind != CEL_ABSENT && value.kind < CEL_REGEX);
    if (fine)
        cel_put_value(out, value);
    else
        cel_put_error(out, value);
    struct json *json, *again;
    if (fine && cel_to_json(value, JSON_DEPTH_CAP - 1, arena, &json) == ERR_OK) {
        const struct json_options options = {.depth_max = JSON_DEPTH_CAP, .nul_anywhere = true};
        struct buf text;
        buf_init(&text, 256, 8 << 20);
        json_put_canonical(&text, json);
        if (!text.overflow && !arena->overflow) {
            enum err e = json_read(buf_view(&text), &options, arena, &again, NULL);
            check(e == ERR_OK || arena->overflow);
        }
        buf_fini(&text);
    }
    return fine;
}

static struct cel_program *compile(struct str text, bool unchecked, struct arena *arena)
{
    struct cel_environment environment = cel_policy_environment();
    struct cel_problems problems;
    struct cel_program *program = NULL;
    environment.unchecked = unchecked;
    enum err e = cel_compile(text, &environment, arena, &program, &problems);
    if (e == ERR_OK) return program;
    check(program == NULL && (e == ERR_FULL || e == ERR_INVALID_POLICY));
    if (e == ERR_INVALID_POLICY) check_problems(text, &problems);
    return NULL;
}

static void fill(struct cel_value *variables, const struct json *args)
{
    static const struct str names[] = {{"finance", 7}, {"support", 7}};
    for (size_t i = 0; i < CEL_POLICY_VARIABLES; i++) variables[i] = cel_of_str(STR("text"));
    for (size_t i = CEL_ARGS; i <= CEL_REQUEST; i++) variables[i] = cel_of_json(args);
    variables[CEL_SCOPE] = cel_of_strs(NULL, 0);
    variables[CEL_ROLES] = cel_of_strs(names, 2);
    variables[CEL_NOW] = cel_of_ms(1795167000123);
}

static void split(struct str all, struct str *ret_expression, struct str *ret_json)
{
    const char *mark = memmem(all.bytes, all.size, "\n---\n", 5),
               *nul = memchr(all.bytes, '\0', all.size);
    size_t skipped = mark != NULL ? 5 : 1;
    if (mark == NULL) mark = nul;
    *ret_expression = mark == NULL ? all : str_of(all.bytes, (size_t)(mark - all.bytes));
    *ret_json = mark == NULL ? STR("{}") : str_skip(all, (size_t)(mark - all.bytes) + skipped);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char checked_text[SHOWN], unchecked_text[SHOWN], again_text[SHOWN];
    struct buf checked_out = buf_over(checked_text, SHOWN),
               unchecked_out = buf_over(unchecked_text, SHOWN),
               again_out = buf_over(again_text, SHOWN);
    struct cel_value variables[CEL_POLICY_VARIABLES];
    struct str expression, text;
    struct arena arena;
    struct json *args = NULL;
    bool limit, other_limit, fine;

    split(str_of(size == 0 ? "" : (const char *)data, size), &expression, &text);
    /* A copy of its own size: a sanitizer sees one byte too far, and that nothing of it is kept. */
    char *own = malloc(expression.size + 1);
    check(own != NULL);
    memcpy(own, expression.bytes, expression.size);
    arena_init(&arena, 1 << 16, ARENA_MOST);
    if (json_read(text, NULL, &arena, &args, NULL) != ERR_OK || !json_is_object(args)) args = NULL;
    fill(variables, args);
    struct cel_program *checked = compile(str_of(own, expression.size), false, &arena);
    struct cel_program *unchecked = compile(str_of(own, expression.size), true, &arena);
    struct cel_environment environment = cel_policy_environment();
    struct cel_problems problems;
    if (cel_put_tree(&again_out, str_of(own, expression.size), &environment, &problems) ==
        ERR_INVALID_POLICY)
        check_problems(str_of(own, expression.size), &problems);
    free(own);
    if (unchecked != NULL && !arena.overflow) {
        cel_put_code(&unchecked_out, unchecked);
        fine = run(unchecked, variables, &arena, &unchecked_out, &limit);
        if (run(unchecked, variables, &arena, &again_out, &other_limit) || !limit)
            check(arena.overflow || str_equal(buf_view(&unchecked_out), buf_view(&again_out)));
        if (checked != NULL) {
            bool same = run(checked, variables, &arena, &checked_out, &other_limit) == fine;
            check(limit || other_limit || arena.overflow ||
                  (same && (!fine || str_equal(buf_view(&unchecked_out), buf_view(&checked_out)))));
        }
    }
    cel_program_fini(checked);
    cel_program_fini(unchecked);
    arena_fini(&arena);
    return 0;
}
