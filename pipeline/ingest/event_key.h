/* event_key.h - by what an event is known in the store, as C and as SQL; inside this room only.
 *
 *   event_id                 where it is of our own form: evt_01 and 24 characters more
 *   event_id '/' tenant_id   any other
 *
 * Other systems number their events 1, 2, 3: so an event_id is one event's within its
 * tenant, and no tenant meets another's, or learns of it. Ours have 80 bits of chance and
 * are one event's whoever has them, so that what engines record costs not a byte more.
 * (evt_00 would be before 2004, and is rather somebody's counter. From 2039 on ours begin
 * with evt_02, and have the longer key.)
 *
 * No event_id has a `/`, so two events never share a key by accident. Rows are stored by their keys
 * and found by them: what is written here never changes. A test holds C against SQL. */
#ifndef INGEST_EVENT_KEY_H
#define INGEST_EVENT_KEY_H

#include "base/buf.h"
#include "event/event.h"

/* Of the columns event_id and tenant_id, for both databases. */
#define EVENT_ID_IS_OURS "length(event_id) = 30 AND substr(event_id, 1, 6) = 'evt_01'"
#define EVENT_KEY                                                                                  \
    "CASE WHEN " EVENT_ID_IS_OURS " THEN event_id ELSE event_id || '/' || tenant_id END"

enum { EVENT_KEY_BYTES = 2 << 10 }; /* both are bounded by what event_read() takes */

/* The key, in `to` or borrowed from the event. */
struct str event_key(const struct event *e, char to[EVENT_KEY_BYTES]);

#endif
