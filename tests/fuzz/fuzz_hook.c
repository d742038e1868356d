/* fuzz_hook.c - any bytes as what a coding agent writes to its hook. The first byte chooses the agent.
 *
 * What is taken makes a request that is JSON and within its bound. If the engine gave its arguments
 * back as a safe call, the agent would get the very input that it had. */
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "hook/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct str canonical(struct arena *arena, const struct json *v)
{
    size_t most = json_canonical_most(v);
    char *bytes = arena_bytes(arena, most);
    check(bytes != NULL);
    struct buf out = buf_over(bytes, most);
    json_put_canonical(&out, v);
    check(!out.overflow);
    return buf_view(&out);
}

static void check_request(const struct hook_agent *agent, const struct hook_call *call,
                          struct arena *arena)
{
    struct hook_request request;
    struct json *body, *input;
    struct fault f;
    const struct json_options options = {.depth_max = JSON_DEPTH_CAP, .nul_anywhere = true};
    if (hook_request_make(agent, call, STR("coder"), (struct str){0}, arena, &request, &f) !=
        ERR_OK)
        return;
    check(request.body.size <= HOOK_REQUEST_BYTES);
    /* "args" is as deep as the input was, so the whole may be one level too deep for the reader */
    enum err err = json_read(request.body, &options, arena, &body, &f);
    check(err == ERR_OK || err == ERR_TOO_DEEP);
    if (err != ERR_OK) return;
    check(str_equal(json_text(body, STR("action")), call->tool));
    const struct json *args = json_get(body, STR("args"));
    for (const struct json *m = args->child; m != NULL; m = m->next)
        check(request.projection == HOOK_PROJECT_WHOLE ||
              !hook_agent_leaves_out(agent, call->tool, m->key));

    struct buf out;
    buf_init(&out, 1 << 10, 1 << 24);
    err = hook_rewrite_make(agent, call, &request, call->tool, args, &out, &f);
    check(err == ERR_OK || request.projection == HOOK_PROJECT_WHOLE ||
          agent->only_rewritten != NULL);
    if (err == ERR_OK) {
        check(json_read(buf_view(&out), &options, arena, &input, &f) == ERR_OK);
        check(str_equal(canonical(arena, input), canonical(arena, call->input)));
    }
    buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct hook_call call;
    struct fault f;
    size_t agents = 0;
    while (hook_agent_at(agents) != NULL) agents++;
    if (size == 0) return 0;
    const struct hook_agent *agent = hook_agent_at(data[0] % agents);
    arena_init(&arena, 1 << 16, 1 << 28);
    struct str text = str_of((const char *)data + 1, size - 1);
    if (hook_call_read(agent, text, &arena, &call, &f) == ERR_OK)
        check_request(agent, &call, &arena);
    arena_fini(&arena);
    return 0;
}
