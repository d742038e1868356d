/* keeper.h - what the store needs now and then: old events dropped (audit.keep), keys forgotten
 * that ended long ago, and on PostgreSQL a new partition for each day. One thread with a connection
 * of its own, so that neither the writer nor a reader waits for it; what it removes, it removes in
 * handfuls (pipeline/ingest/retention.h). */
#ifndef PLATFORM_KEEPER_H
#define PLATFORM_KEEPER_H

#include "base/fault.h"
#include "config/config.h"

struct keeper;

/* `c` is borrowed for its life. The error is the store's; *ret is NULL then. */
enum err keeper_create(const struct config *c, struct keeper **ret, struct fault *f);
/* waits for the step in hand; NULL is taken: there was none */
void keeper_destroy(struct keeper *k);

#endif
