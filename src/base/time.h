/* time.h - RFC 3339 text and milliseconds since 1970 UTC. Pure, any thread. */
#ifndef BASE_TIME_H
#define BASE_TIME_H

#include "base/str.h"

enum { TIME_TEXT = 24 };                      /* "2026-11-20T09:30:00.123Z" */
#define TIME_LAST_MS INT64_C(253402300799999) /* 9999-12-31T23:59:59.999Z */

/* Writes TIME_TEXT bytes, no NUL. A time after TIME_LAST_MS is written as TIME_LAST_MS. */
void time_write(uint64_t ms, char *to);

/* Any offset, 0 to 9 fraction digits (cut to milliseconds, toward the past), `T` or `t`, `Z` or
 * `z`; leap second :60 counts as :59.999. False otherwise, before 1970 or after 9999 (UTC). */
bool time_read(struct str text, uint64_t *ret_ms);

/* The same for a bound of a comparison: any year that can be written; before 1970 it is
 * negative. */
bool time_read_any(struct str text, int64_t *ret_ms);

#endif
