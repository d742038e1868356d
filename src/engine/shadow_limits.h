/* shadow_limits.h - counts what shadow documents would let through, so that `would_have` shows what
 * their limits would do.
 *
 * These counters are in the memory of the owners, apart from those in force: no record and no
 * snapshot has them, so they begin with zero when the engine starts. A request that finds no room
 * there is not counted. Only decisions to which a shadow document's limit applies wait for them. */
#ifndef ENGINE_SHADOW_LIMITS_H
#define ENGINE_SHADOW_LIMITS_H

#include "engine/authorization.h"

/* One limit of this request, to be counted. */
struct limit_request limit_request_of(const struct authorization *a, const struct policy_limit *l);

/* Counts the outcome's shadow limits, all or none, and continues with `then`. If one is over,
 * nothing is counted, and the outcome's would_have is its. A dry run only looks. */
void shadow_limits_count(struct authorization *a, void (*then)(struct authorization *a));
/* Gives the counts back, and continues with `then`. */
void shadow_limits_give_back(struct authorization *a, void (*then)(struct authorization *a));

#endif
