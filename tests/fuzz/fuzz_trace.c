/* fuzz_trace.c - any text as a condition that is explained: it ends, and nothing masked is shown.
 *
 * args.card holds a text that stands nowhere else, and is masked; args itself holds it, and so does
 * request. Whatever the expression does with it, no line shows it. */
#include <stdlib.h>

#include "cel/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char secret[] = "qzkvxwjy-4111";

static bool hides(void *context, const struct str *segments, size_t count)
{
    (void)context;
    if (str_equal(segments[0], STR("request"))) {
        segments++;
        count--;
    }
    if (count == 0 || str_is_absent(segments[0])) return true;
    if (!str_equal(segments[0], STR("args"))) return false;
    return count == 1 || str_is_absent(segments[1]) || str_equal(segments[1], STR("card"));
}

static struct json *tree(struct arena *arena, const char *text)
{
    struct json *root;
    struct fault f;
    return json_read(str_from(text), &(struct json_options){0}, arena, &root, &f) == ERR_OK ? root
                                                                                            : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 2000) return 0;
    struct arena arena;
    struct cel_value variables[CEL_POLICY_VARIABLES] = {{0}};
    struct str text = str_of((const char *)data, size);
    arena_init(&arena, 64 << 10, 16 << 20);
    variables[CEL_ARGS] = cel_of_json(tree(
        &arena,
        "{\"card\":\"qzkvxwjy-4111\",\"n\":620,\"items\":[{\"p\":1},{\"p\":9}],\"s\":\"text\"}"));
    variables[CEL_REQUEST] = cel_of_json(
        tree(&arena, "{\"args\":{\"card\":\"qzkvxwjy-4111\",\"n\":620},\"actor\":\"bot\"}"));
    variables[CEL_CONTEXT] = cel_of_json(NULL);
    variables[CEL_RESOURCE] = cel_of_json(NULL);
    variables[CEL_ACTION] = variables[CEL_TOOL] = variables[CEL_ACTOR] = cel_of_str(STR("bot"));
    variables[CEL_USER] = variables[CEL_ACTING_FOR] = variables[CEL_TENANT] = cel_of_str(STR(""));
    variables[CEL_SCOPE] = variables[CEL_ROLES] = cel_of_strs(NULL, 0);
    variables[CEL_NOW] = cel_of_ms(1795000000000);
    unsigned runs = 100;
    const struct cel_tracing tracing = {.environment = cel_policy_environment(),
                                        .variables = variables,
                                        .arena = &arena,
                                        .hidden = hides,
                                        .runs_left = &runs};
    struct cel_trace trace;
    size_t wrong;
    bool told = cel_trace(&tracing, text, &trace),
         is_there = memmem(data, size, "qzkvxwjy", 8) != NULL;
    for (size_t i = 0; told && i < trace.count; i++) {
        if (!str_is_utf8(trace.lines[i], &wrong)) abort();
        if (!is_there && memmem(trace.lines[i].bytes, trace.lines[i].size, secret, 8) != NULL)
            abort();
    }
    cel_reads_hidden(&tracing, text);
    arena_fini(&arena);
    return 0;
}
