/* limits_warn.h - what putting a document does to what its limits have counted. */
#ifndef PLATFORM_LIMITS_WARN_H
#define PLATFORM_LIMITS_WARN_H

#include "pipeline/ingest/store.h"
#include "policy/policy.h"

/* Adds what policy_limit_changes() has to say of the text of this name that is in force, if any. A
 * reader's store will do: it is a warning, and what cannot be read has nothing to be told of. */
void limits_warn(struct store *s, struct str tenant, const struct policy_document *next,
                 struct policy_problems *problems);

#endif
