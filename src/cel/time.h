/* time.h - timestamps and durations, exact to the nanosecond; this room only.
 *
 * A timestamp is seconds since 1970 UTC and nanoseconds above them, from 0001-01-01T00:00:00Z to
 * 9999-12-31T23:59:59.999999999Z. A duration is nanoseconds in an int64, some 292 years either way,
 * as in the reference implementation; a larger one is an error. */
#ifndef CEL_TIME_H
#define CEL_TIME_H

#include "cel/value.h"

/* Out of range: a failed value. */
struct cel_value time_shift(struct cel_value timestamp, int64_t by_ns);
struct cel_value time_between(struct cel_value from, struct cel_value to);

/* Seconds since 1970 that a timestamp may have. */
bool time_in_range(int64_t seconds);

/* RFC 3339, with any count of digits after the point (beyond nine they are cut). False: it is
 * invalid or out of range. */
bool time_read_timestamp(struct str text, struct cel_value *ret);
/* "1h30m", "-1.5s", "100ms": h, m, s, ms, us, µs, ns. */
bool time_read_duration(struct str text, struct cel_value *ret);

void time_put_timestamp(struct buf *out, struct cel_value timestamp); /* "2009-02-13T23:31:30.5Z" */
void time_put_duration(struct buf *out, struct cel_value duration);   /* "5400.5s" */

#endif
