/* bundle.h - the bundle for engines: all active policies and all keys, at one revision. */
#ifndef STORE_BUNDLE_H
#define STORE_BUNDLE_H

#include "access/key.h"
#include "store/store.h"

/* Appends {adopted_at_ms, format, history, keys: [… with mac], log_id, policies: […], revision,
 * tenants, mac} of the tenants that the globs match (keys of tenant `*` always), read in one
 * snapshot. `history` has the newest revisions with their history ids, the last of them this one's;
 * `mac` is that of all before it (access/set_mac.h). Blocking; any store with a pepper.
 * ERR_SET_REFUSED: a row is not what was stored (set.h). */
enum err bundle_put(struct store *s, const struct globs *tenants, struct buf *out,
                    struct revision *ret_revision, struct fault *f);

#endif
