/* writ-hook - asks the engine before a coding agent uses a tool.
 *
 * An agent starts it for each call: the call comes in on standard input, the answer goes out on
 * standard output. Whatever happens, it ends with an answer, and without a decision that answer is a
 * denial (last_word.h). */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "hook/ask.h"
#include "hook/check.h"
#include "hook/install.h"
#include "hook/last_word.h"

enum {
    INPUT_FIRST = 64 << 10,
    INPUT_MOST = 128 << 20, /* agents write whole files */
    ARENA_FIRST = 256 << 10,
    ARENA_MOST = 1 << 30
};

static void print_help(void)
{
    printf("writ-hook asks writ-engine before a coding agent uses a tool.\n\n"
           "Usage: writ-hook AGENT --engine URL --key-file FILE [--option value …]\n\nAgents:\n");
    const struct hook_agent *agent;
    for (size_t i = 0; (agent = hook_agent_at(i)) != NULL; i++)
        printf("  %-24s %s\n", agent->name, agent->title);
    printf("\nOptions:\n");
    for (const struct flag *f = hook_flags(); f->name != NULL; f++) {
        char left[64];
        snprintf(left, sizeof left, "--%s %s", f->name, f->value == NULL ? "" : f->value);
        printf("  %-24s %s\n", left, f->help);
    }
    printf("\nExit status with an agent's call: 0 with one JSON object, 2 for a denial.\n");
}

static struct str read_call(const struct hook_agent *agent, struct buf *input)
{
    buf_init(input, INPUT_FIRST, INPUT_MOST);
    for (;;) {
        if (!buf_room(input, INPUT_FIRST))
            hook_refuse(agent, "The call is larger than %d MiB, or there is no memory for it.",
                        INPUT_MOST >> 20);
        ssize_t n = read(STDIN_FILENO, input->bytes + input->size, INPUT_FIRST);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) hook_refuse(agent, "The call cannot be read: %s.", strerror(errno));
        if (n == 0) return buf_view(input);
        input->size += (size_t)n;
    }
}

static _Noreturn void answer_call(const struct hook_options *o)
{
    struct arena arena;
    struct buf input;
    struct hook_call call;
    struct hook_request request;
    struct fault f;
    last_word_prepare(o->agent, STR("The engine has not answered in time, or the hook was stopped: "
                                    "the call is denied."));
    last_word_deadline(o->deadline_ms);
    arena_init(&arena, ARENA_FIRST, ARENA_MOST);
    struct str text = read_call(o->agent, &input);
    if (hook_call_read(o->agent, text, &arena, &call, &f) != ERR_OK)
        hook_refuse(o->agent, "%s. The call is denied.", f.text);
    bool is_canary = str_equal(call.tool, STR(HOOK_CANARY));
    struct str scope = is_canary ? STR("none_but_this") : (struct str){0};
    if (hook_request_make(o->agent, &call, o->actor, scope, &arena, &request, &f) != ERR_OK)
        hook_refuse(o->agent, "%s. The call is denied.", f.text);
    hook_ask(o, &call, &request, &arena);
}

int main(int argc, char **argv)
{
    struct hook_options o;
    struct fault f;
    last_word_begin();
    if (!descriptors_take_standard()) hook_refuse(NULL, "The standard streams cannot be used.");
    if (hook_options_read(argc, argv, &o, &f) != ERR_OK)
        hook_refuse(o.agent, "%s. The call is denied.", f.text);
    switch (o.task) {
    case HOOK_ANSWER: answer_call(&o);
    case HOOK_INSTALL: return hook_install(&o);
    case HOOK_UNINSTALL: return hook_uninstall(&o);
    case HOOK_PRINT: return hook_print(&o);
    case HOOK_CHECK: return hook_check(&o);
    case HOOK_HELP: print_help(); break;
    case HOOK_VERSION: printf("writ-hook %s\n", WRIT_VERSION); break;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
