/* old_limits.h - the counters that an earlier program made, whose keys hold the window.
 *
 * Nothing is counted in them any more. While they last, who counts against a limit asks them too:
 * for each window that any of them has, what the counter of this limit and that window holds of
 * the limit's window now. That only falls, so what is read before counting is never too little.
 * Made once, after recovery, and read by all reactors. */
#ifndef ENGINE_OLD_LIMITS_H
#define ENGINE_OLD_LIMITS_H

#include "shards/shard.h"

struct old_limits {
    uint64_t until_ms; /* no limit's window holds anything of them from then on */
    uint64_t *windows; /* all that they have, each once */
    size_t window_count;
    uint64_t *filter; /* of their keys: a bit that is not set is of no counter */
    uint64_t mask;
};

/* NULL: there are none. */
struct old_limits *old_limits_create(struct shard *const *shards, unsigned count);
void old_limits_destroy(struct old_limits *o);

/* False: no counter has this key. */
bool old_limits_may_have(const struct old_limits *o, struct slot_key key);

#endif
