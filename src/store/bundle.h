/* bundle.h - the bundle for engines: all active policies and all keys, at one revision. */
#ifndef STORE_BUNDLE_H
#define STORE_BUNDLE_H

#include "access/key.h"
#include "store/store.h"

/* Appends {format, revision, log_id, policies: […], keys: [… with mac]} of the tenants that the
 * globs match (keys of tenant `*` always), read in one snapshot. Blocking; any store. */
enum err bundle_put(struct store *s, const struct globs *tenants, struct buf *out,
                    struct revision *ret_revision, struct fault *f);

#endif
