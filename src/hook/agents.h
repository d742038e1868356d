/* agents.h - the coding agents: how each describes a tool call to its hook, and how it wants to be answered.
 *
 * One row for each agent. What a row states was measured by effect, or is marked as documented only.
 * Immutable; any thread. */
#ifndef HOOK_AGENTS_H
#define HOOK_AGENTS_H

#include <stdbool.h>

#include "base/str.h"

/* The shape of an answer, by the agent that has it. */
enum hook_form {
    HOOK_FORM_CLAUDE,  /* {"hookSpecificOutput":{"hookEventName":…,"permissionDecision":…}} */
    HOOK_FORM_GEMINI,  /* {"decision":…,"reason":…} */
    HOOK_FORM_COPILOT, /* {"permissionDecision":…,"permissionDecisionReason":…} */
    HOOK_FORM_CURSOR,  /* {"permission":…,"agent_message":…,"user_message":…} */
    HOOK_FORM_OPENCLAW /* {"block":true,"blockReason":…}, for the plugin */
};

/* Whether the agent can run another input than its own, and what that takes. */
enum hook_rewrite {
    HOOK_REWRITES,            /* without a word about permission */
    HOOK_REWRITES_BY_GRANTING /* only together with an allow, which skips the user's own prompt */
};

struct hook_agent {
    const char *name;
    const char *title;
    enum hook_form form;
    enum hook_rewrite rewrite;
    bool can_grant;             /* an allow skips the user's own prompt */
    const char *only_rewritten; /* the one member that a rewrite may have; NULL: the whole input */
    bool adds_context;          /* text for the model can go with an allow */
    /* Members of the input. Several names, separated by blanks: the first that is present. */
    const char *event_member, *event; /* NULL: no event is named */
    const char *tool, *input, *session, *call;
};

/* NULL: there is no such agent. */
const struct hook_agent *hook_agent_find(struct str name);
const struct hook_agent *hook_agent_at(size_t index); /* NULL after the last */

/* Whether this member of the tool's input is left out of the request, because it does not change
 * what the call does: it explains the call, or says how long it may take. */
bool hook_agent_leaves_out(const struct hook_agent *agent, struct str tool, struct str member);

#endif
