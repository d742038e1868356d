/* guard.h - the shell line by which an agent starts the hook.
 *
 * The hook denies by itself whatever happens to it, except for its own disappearance: a missing file,
 * SIGKILL, a stop. So the line runs it under timeout(1), passes on an answer only if it is whole, and
 * ends with status 2 and a reason on standard error in every other case. */
#ifndef HOOK_GUARD_H
#define HOOK_GUARD_H

#include "base/buf.h"
#include "hook/options.h"

enum {
    HOOK_GUARD_SECONDS = 2, /* timeout(1) ends the hook so long after the hook's own deadline */
    HOOK_AGENT_SECONDS = 6  /* and the agent the line so long after it */
};

/* The deadline in whole seconds. */
uint64_t guard_seconds(const struct hook_options *options);
/* `program` is the path of writ-hook. All values become words of the line. */
void guard_put(struct buf *out, struct str program, const struct hook_options *options);

#endif
