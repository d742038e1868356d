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

#endif
