/* retention.h - what goes by age: audit events, and keys that have ended.
 *
 * Old audit events are dropped, and that they were is an audit event itself.
 *
 *   kept ──drop (one transaction)──▶ dropped ──remove (many small ones)──▶ gone
 *
 * Dropping moves one number, `horizon.first_id`: from its commit on no query tells what has a lower
 * id. The same transaction holds an event `audit.dropped` for each tenant (how many, and of which
 * times), and for each stream up to which record it was: a record that comes again, by a replay or
 * an old dump of Kafka's topic, is a duplicate and is not stored. Removing is what takes time, and
 * can stop and go on anywhere: on SQLite rows in handfuls, so that ingest waits for milliseconds;
 * on PostgreSQL a partition is dropped as a whole, when its rows of `identities` are removed.
 *
 * What is old is told by when it was stored (created_at), in whole days of UTC; nothing is dropped
 * from the first row on that is to be kept, also where later ones are older. On PostgreSQL also in
 * whole partitions, so that something may be kept for a day (where keep_ms is 0: a month) longer;
 * retention_roll() begins a new one with each day.
 *
 * An event that somebody posts again after its row was dropped is new: it has no place by
 * which to know it. Where the old row is still to be removed, it makes way at once. What
 * is in quarantine is kept.
 *
 * Blocking; belongs to the thread of its store (a writer). Several platforms may do it at once. */
#ifndef INGEST_RETENTION_H
#define INGEST_RETENTION_H

#include "pipeline/ingest/store.h"

/* Drops what was stored before the day that `keep_ms` (at least a day) ago is in. Looks once a day:
 * *ret_dropped is 0 at all other times. ERR_OUT_OF_RANGE: now_ms is more than a day past what the
 * PostgreSQL server's clock says, or on SQLite the newest stored event, and nothing was dropped. On
 * PostgreSQL each partition is a transaction: after an error some may be dropped. */
enum err retention_drop(struct store *s, uint64_t keep_ms, uint64_t now_ms, uint64_t *ret_dropped,
                        struct fault *f);
/* Removes a handful of what was dropped; *ret_more: there is more, come again soon. */
enum err retention_remove(struct store *s, bool *ret_more, struct fault *f);
/* Forgets the keys of all tenants that were revoked, or had expired, more than LIMIT_ENDED_KEY_DAYS
 * ago: else a fleet that rotates its keys would in the end have as many as there may be, and no new
 * one. Such a key is refused with or without its row; the audit trail keeps what was done with it.
 * None while the clock is not believed (as above). */
enum err retention_forget_keys(struct store *s, uint64_t now_ms, uint64_t *ret_forgotten,
                               struct fault *f);
/* PostgreSQL: ids go on in a new partition where a day (keep_ms 0: a month) has begun. */
enum err retention_roll(struct store *s, uint64_t keep_ms, uint64_t now_ms, struct fault *f);

#endif
