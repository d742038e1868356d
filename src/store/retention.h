/* retention.h - removes by age: audit events, and keys that have ended.
 *
 * Old audit events are dropped, and an audit event records this.
 *
 *   kept ──drop (one transaction)──▶ dropped ──remove (many small ones)──▶ gone
 *
 * Dropping moves one number, `horizon.first_id`: from its commit on no query returns events with a
 * lower id. The same transaction writes an event `audit.dropped` for each tenant (the number and
 * the times of its events). For each stream it stores the last dropped record: a dropped record
 * that comes again, by a replay or an old dump of Kafka's topic, is a duplicate and is not stored.
 * Removing takes time, and can stop and continue anywhere. On SQLite rows are removed in small
 * batches, so that ingest waits only milliseconds. On PostgreSQL a partition is dropped as a whole,
 * after its rows of `identities` are removed.
 *
 * The storage time (created_at) decides the age, in whole days of UTC. Nothing from the first row
 * to be kept on is dropped, even if later rows are older. On PostgreSQL only whole partitions are
 * dropped, so events may stay for a day (where keep_ms is 0: a month) longer. retention_roll()
 * begins a new partition with each day.
 *
 * An event that is posted again after its row was dropped is new, because it has no source by which
 * it could be recognized. If the old row is still to be removed, it is deleted at once. Quarantine
 * has its own rules (quarantine.h).
 *
 * Blocking; belongs to the thread of its store (a writer). Several platforms may do it at once. */
#ifndef STORE_RETENTION_H
#define STORE_RETENTION_H

#include "store/store.h"

/* ERR_OUT_OF_RANGE: now_ms is more than a day after the PostgreSQL server's clock, or on SQLite
 * after the newest stored event. Then nothing counts as old. */
enum err retention_check_clock(struct store *s, uint64_t now_ms, struct fault *f);
/* Drops the events that were stored before the day of `keep_ms` (at least a day) ago. Checks once a
 * day: *ret_dropped is 0 at all other times. ERR_OUT_OF_RANGE as of retention_check_clock(). On
 * PostgreSQL each partition is a transaction: after an error some may be dropped. */
enum err retention_drop(struct store *s, uint64_t keep_ms, uint64_t now_ms, uint64_t *ret_dropped,
                        struct fault *f);
/* Removes a few dropped rows; *ret_more: call again soon, because there are more. */
enum err retention_remove(struct store *s, bool *ret_more, struct fault *f);
/* Removes the keys of all tenants that were revoked or expired more than LIMIT_ENDED_KEY_DAYS ago.
 * Otherwise a fleet that rotates its keys would reach the limit of keys. Such a key is refused with
 * or without its row, and the audit trail keeps its events. Removes none while the clock is not
 * believed (as above). */
enum err retention_forget_keys(struct store *s, uint64_t now_ms, uint64_t *ret_forgotten,
                               struct fault *f);
/* PostgreSQL: continues the ids in a new partition when a day (keep_ms 0: a month) has begun. */
enum err retention_roll(struct store *s, uint64_t keep_ms, uint64_t now_ms, struct fault *f);

#endif
