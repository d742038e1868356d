/* bundle.h - what engines follow: all active policies and all keys, at one revision. */
#ifndef INGEST_BUNDLE_H
#define INGEST_BUNDLE_H

#include "access/key.h"
#include "pipeline/ingest/store.h"

/* Appends {format, revision, log_id, policies: […], keys: [… with mac]} of the tenants that the
 * globs match (keys of tenant `*` always), read in one snapshot. Blocking; any store. */
enum err bundle_put(struct store *s, const struct globs *tenants, struct buf *out,
                    uint64_t *ret_revision, struct fault *f);

#endif
