/* limits_warn.h - warns how a new document affects the counts of its limits. */
#ifndef PLATFORM_LIMITS_WARN_H
#define PLATFORM_LIMITS_WARN_H

#include "store/store.h"
#include "policy/policy.h"

/* Adds the warnings of policy_limit_changes() about the document in force of this name, if any. A
 * reader's store is enough, because these are warnings. If the old text cannot be read, there are
 * none. */
void limits_warn(struct store *s, struct str tenant, const struct policy_document *next,
                 struct policy_problems *problems);

#endif
