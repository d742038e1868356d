/* check.h - `writ-hook AGENT --check`: proof that a denial denies. */
#ifndef HOOK_CHECK_H
#define HOOK_CHECK_H

#include "hook/options.h"

/* A tool that no agent has. A request for it is restricted to another action, so that the engine
 * denies it whatever the policies are. */
#define HOOK_CANARY "writ_canary"

/* Finds the hook in the agent's settings (the user's, or with `managed` the machine's) and runs its
 * line as the agent would: with the canary, and without a call. Prints a line for each finding. 0:
 * both were denied, and the first one by the engine. */
int hook_check(const struct hook_options *options);

#endif
