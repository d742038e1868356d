/* options.h - the command line of writ-hook. */
#ifndef HOOK_OPTIONS_H
#define HOOK_OPTIONS_H

#include "base/arguments.h"
#include "hook/agents.h"

enum { HOOK_DEADLINE_MS = 25000, HOOK_DEADLINE_MOST_MS = 24 * 3600 * 1000 };

enum hook_task {
    HOOK_ANSWER, /* a call: what an agent starts the program for */
    HOOK_INSTALL,
    HOOK_UNINSTALL,
    HOOK_PRINT, /* what HOOK_INSTALL would write */
    HOOK_CHECK,
    HOOK_HELP,
    HOOK_VERSION
};

/* Views into the command line and the environment. */
struct hook_options {
    enum hook_task task;
    const struct hook_agent *agent; /* NULL only with HOOK_HELP and HOOK_VERSION */
    struct str engine, key_file, actor;
    struct str to; /* the settings file; absent: the agent's own */
    struct str ca_file, cert_file, cert_key_file;
    uint64_t deadline_ms;
    bool grant, grant_compute, managed;
};

/* ERR_BAD_VALUE: *f names the word, and what would be right. ret->agent is set if the line has one. */
enum err hook_options_read(int argc, char **argv, struct hook_options *ret, struct fault *f);
const struct flag *hook_flags(void);

#endif
