/* hook.c - `writ hook`: the program writ-hook, which is installed beside this one. */
#include <errno.h>
#include <unistd.h>

#include "cli/cli.h"

enum { PATH_BYTES = 4096, WORDS_MOST = 64 };

static const char name[] = "writ-hook";

/* This program's own path with the other name at its end. False: it is not known. */
static bool path_beside(char to[PATH_BYTES])
{
    ssize_t size = readlink("/proc/self/exe", to, PATH_BYTES - sizeof name - 1);
    while (size > 0 && to[size - 1] != '/') size--;
    if (size <= 0) return false;
    memcpy(to + size, name, sizeof name);
    return true;
}

/* Status 2 and a line on standard error deny the call in every agent. */
int hook_start(int argc, char **argv)
{
    char path[PATH_BYTES], *words[WORDS_MOST + 1] = {(char *)name};
    if (argc < WORDS_MOST && path_beside(path)) {
        for (int i = 1; i < argc; i++) words[i] = argv[i];
        execv(path, words);
    }
    fprintf(stderr, "writ: %s cannot be started: %s. The call is denied.\n", name,
            argc < WORDS_MOST ? strerror(errno) : "its command line has too many words");
    return USAGE;
}

int hook_doctor(struct cli *c, const struct arguments *a)
{
    struct str agent = argument_at(a, 1);
    if (!str_equal(argument_at(a, 0), STR("hook")) || str_is_absent(agent))
        return cli_complain(c, USAGE, "writ doctor, or writ doctor hook AGENT");
    char *words[] = {"hook", (char *)agent.bytes, "--check"}; /* words of the command line */
    return hook_start(3, words);
}

static int hook_run(struct cli *c, const struct arguments *a)
{
    (void)a;
    return cli_complain(c, USAGE, "write hook as the first word: writ hook AGENT …");
}

const struct command hook_commands[] = {
    {NULL, "hook", "AGENT", "ask before a coding agent uses a tool (its hook)",
     "This starts writ-hook, which an agent such as Claude Code runs before each tool call:\n"
     "writ hook --help shows its agents and options.",
     NULL, 1, 1, hook_run},
    {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};
