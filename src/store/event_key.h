/* event_key.h - the key of an event in the store, as C and as SQL; inside this room only.
 *
 *   event_id                 if it has our own form: evt_01 and 24 characters more
 *   event_id '/' tenant_id   any other
 *
 * Other systems number their events 1, 2, 3. So an event_id identifies an event within its tenant,
 * and tenants do not collide with or learn of each other's events. Our ids have 80 random bits and
 * are unique in any tenant, so the key of an engine's event costs no extra byte. (evt_00 would be
 * before 2004, and is more likely another system's counter. From 2039 on our ids begin with evt_02,
 * and have the longer key.)
 *
 * No event_id has a `/`, so two events never share a key by accident. Rows are stored by their keys
 * and found by them, so this rule never changes. A test compares C and SQL. */
#ifndef STORE_EVENT_KEY_H
#define STORE_EVENT_KEY_H

#include "base/buf.h"
#include "event/event.h"

/* Of the columns event_id and tenant_id, for both databases. */
#define EVENT_ID_IS_OURS "length(event_id) = 30 AND substr(event_id, 1, 6) = 'evt_01'"
#define EVENT_KEY                                                                                  \
    "CASE WHEN " EVENT_ID_IS_OURS " THEN event_id ELSE event_id || '/' || tenant_id END"

enum { EVENT_KEY_BYTES = 2 << 10 }; /* event_read() bounds both parts */

/* The key, in `to` or borrowed from the event. */
struct str event_key(const struct event *e, char to[EVENT_KEY_BYTES]);

#endif
