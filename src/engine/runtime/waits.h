/* waits.h - how many clients of one reactor wait for a review, in all and with each key.
 *
 * A wait keeps a connection for up to a minute and costs its client nothing. So that waits do not
 * keep other clients from an answer, all waits together have three quarters of the reactor's
 * connections, and those with one key, or with tokens that it minted, half of them. None has more
 * than LIMIT_WAITS. One thread. */
#ifndef ENGINE_WAITS_H
#define ENGINE_WAITS_H

#include "base/fault.h"
#include "base/map.h"

struct waits_share; /* of one key; exists while any wait with it does */

struct waits {
    struct map shares; /* by the key's id */
    unsigned count, most, most_of_one;
};

void waits_init(struct waits *w, uint32_t connections);
void waits_fini(struct waits *w); /* after all have left; accepts a zeroed one */
/* Adds a wait; it leaves with its share. ERR_OVERLOADED: a limit is reached, or there is no
 * memory. */
enum err waits_enter(struct waits *w, struct str key_id, struct waits_share **ret, struct fault *f);
void waits_leave(struct waits *w, struct waits_share *share);

#endif
