/* old_limits.h - the counters that an earlier program made, whose keys hold the window.
 *
 * They take no new counts. While they last, a request that counts against a limit reads them too:
 * for each window that any of them has, it reads the use of the limit's present window in the
 * counter of this limit and that window. That use only falls, so a value read before counting is
 * never too small. Made once, after recovery, and read by all reactors. */
#ifndef ENGINE_OLD_LIMITS_H
#define ENGINE_OLD_LIMITS_H

#include "shards/shard.h"

struct old_limits {
    uint64_t until_ms; /* from then on they hold nothing of any limit's window */
    uint64_t *windows; /* all windows that they have, each once */
    size_t window_count;
    uint64_t *filter; /* of their keys: if a bit is not set, no counter has the key */
    uint64_t mask;
};

/* NULL: there are none. */
struct old_limits *old_limits_create(struct shard *const *shards, unsigned count);
void old_limits_destroy(struct old_limits *o);

/* False: no counter has this key. */
bool old_limits_may_have(const struct old_limits *o, struct slot_key key);

#endif
