/* quarantine.h - entries that were sent as records and are not valid: bounded in rows, bytes and
 * age.
 *
 * The row of `quarantine_size` counts the table's content, and changes in the same transaction. If
 * a transaction exceeds LIMIT_QUARANTINE_ROWS or LIMIT_QUARANTINE_BYTES, the oldest rows are
 * removed before it commits. The retention thread removes rows that are too old.
 *
 * Blocking; belongs to the thread of its store. */
#ifndef STORE_QUARANTINE_H
#define STORE_QUARANTINE_H

#include "base/buf.h"
#include "store/database.h"
#include "store/store.h"

struct quarantine_status {
    uint64_t rows, bytes;
    uint64_t dropped;   /* rows removed for newer ones, since the store was made */
    uint64_t oldest_ms; /* time of the oldest row's insertion; 0: there is none */
};
enum err quarantine_status(struct store *s, struct quarantine_status *ret, struct fault *f);

/* Removes a few rows that are older than `keep_ms` (0: of any age), or above the limits. *ret_more:
 * call again soon, because there are more. (A writer.) */
enum err quarantine_trim(struct store *s, uint64_t keep_ms, uint64_t now_ms, bool *ret_more,
                         struct fault *f);

/* A statement about rows whose bytes are in the trees of their streams, in the order of their seq: what
 * it begins with, and the conditions after (node, journal). quarantine_bytes() reads the column. */
#define QUARANTINE_IN_TREE(d, select, conditions)                                                  \
    (database_is_postgres(d) ? select "encode(event, 'hex')" QUARANTINE_REST(conditions)           \
                             : select "event" QUARANTINE_REST(conditions))
#define QUARANTINE_REST(conditions)                                                                \
    " FROM quarantine WHERE node = ?1 AND journal = ?2 AND " conditions                            \
    " AND reason IN ('invalid', 'event_id clash') ORDER BY seq"
/* The bytes of that column: a view of it, or of `room`. ERR_FULL, ERR_CORRUPT. */
enum err quarantine_bytes(const struct database *d, struct str column, struct buf *room,
                          struct str *ret);

#endif
