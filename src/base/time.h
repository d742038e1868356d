/* time.h - RFC 3339 text and milliseconds since 1970 UTC. Pure, any thread. */
#ifndef BASE_TIME_H
#define BASE_TIME_H

#include "base/str.h"

enum { TIME_TEXT = 24 }; /* "2026-11-20T09:30:00.123Z" */

/* Writes TIME_TEXT bytes, no NUL. Years 1970 to 9999. */
void time_write(uint64_t ms, char *to);

/* Any offset, 0 to 9 fraction digits (cut to milliseconds, toward the past), `T` or `t`, `Z` or
 * `z`; leap second :60 counts as :59.999. False otherwise or before 1970. */
bool time_read(struct str text, uint64_t *ret_ms);

#endif
