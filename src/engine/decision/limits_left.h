/* limits_left.h - what the limits of a dry run have left, for its answer. */
#ifndef ENGINE_LIMITS_LEFT_H
#define ENGINE_LIMITS_LEFT_H

#include "base/arena.h"
#include "policy/policy.h"
#include "shards/limit_window.h"

/* `[{"policy", "rule", "per", "left", "left_sum"}]`, one for each limit and what is known of it.
 * Absent: the arena is full. */
struct str limits_left_json(const struct policy_limit *limits, const struct limit_told *told,
                            size_t count, bool is_camel, struct arena *arena);

#endif
