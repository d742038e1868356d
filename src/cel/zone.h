/* zone.h - time zones by their IANA names, from the system's own data; this room only.
 *
 * The data is TZif (RFC 9636) below /usr/share/zoneinfo, kept current by the system's updates. It
 * is read by a small reader here and not through the C library's tzset(), because that has one zone
 * per process and is not safe with other threads. A zone is read once and never freed.
 *
 * A constant zone is read when the program is compiled. If a program computes the name, all zones
 * are read at that time, once, so that no run ever reads a file. */
#ifndef CEL_ZONE_H
#define CEL_ZONE_H

#include "base/str.h"

struct cel_zone;

/* "Europe/Paris", "UTC", "+02:00", "02:00"; reads the file if necessary. NULL: no such zone. Any
 * thread. */
const struct cel_zone *zone_find(struct str name);
/* Reads every zone there is; later calls do nothing. Any thread. */
void zone_load_all(void);
/* The same as zone_find, among the zones that were read: no I/O. */
const struct cel_zone *zone_find_loaded(struct str name);

/* "+02:00", "-09:30", "02:00": seconds east of UTC. */
bool zone_fixed(struct str name, int32_t *ret_seconds);

/* Seconds east of UTC at that moment. */
int32_t zone_offset(const struct cel_zone *zone, int64_t seconds);

#endif
