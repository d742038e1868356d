/* retention_thread.h - regular work on the store: it removes old events (audit.keep) and keys that
 * ended long ago, and on PostgreSQL it makes a new partition for each day. One thread with a
 * connection of its own, so neither the writer nor a reader waits for it. It removes rows in small
 * batches (src/store/retention.h). */
#ifndef PLATFORM_RETENTION_THREAD_H
#define PLATFORM_RETENTION_THREAD_H

#include "base/fault.h"
#include "config/config.h"
#include "access/key.h"
#include "store/history.h"

struct retention_thread;

/* `c` and the history must outlive it. The error is the store's; *ret is NULL then. */
enum err retention_thread_create(const struct config *c, struct history *history,
                                 const struct pepper *pepper, const struct ed25519 *signer,
                                 struct retention_thread **ret, struct fault *f);
/* Waits for the current step. NULL is permitted. */
void retention_thread_destroy(struct retention_thread *k);

#endif
