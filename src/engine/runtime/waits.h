/* waits.h - how many clients of one reactor wait for a review, and whose they are.
 *
 * A wait keeps a connection for up to a minute and costs its client nothing. So that waits do not
 * keep other clients from an answer, all waits together have three quarters of the reactor's
 * connections, and never more than LIMIT_WAITS. Tenants and keys share them (shards/shares.h); a wait
 * with a token is its key's. Beyond that, waits of a tenant that was alone and of those that came later
 * keep to fifteen sixteenths of the connections. One thread. */
#ifndef ENGINE_WAITS_H
#define ENGINE_WAITS_H

#include "base/fault.h"
#include "shards/shares.h"

struct waits {
    struct shares shares;
    size_t most; /* of all together */
};

void waits_init(struct waits *w, uint32_t connections);
void waits_fini(struct waits *w); /* after all have left; accepts a zeroed one */
/* Adds a wait; it leaves with its share. ERR_QUOTA_KEY, ERR_QUOTA_TENANT; ERR_OVERLOADED: the limit of
 * all is reached, or there is no memory. */
enum err waits_enter(struct waits *w, const struct share_asker *who, uint64_t now_ms,
                     struct share **ret, struct fault *f);
void waits_leave(struct waits *w, struct share *share);

#endif
