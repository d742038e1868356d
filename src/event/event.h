/* event.h - the audit event, encoded and decoded exactly as schemas/event.schema.json defines it.
 *
 * The JSON of an event is canonical (RFC 8785): members in key order, so that its bytes can be
 * hashed as they are written. Views are borrowed; encoding allocates nothing. Pure, any thread. */
#ifndef EVENT_EVENT_H
#define EVENT_EVENT_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/fault.h"

enum event_type { EVENT_TEXT, EVENT_PLAIN, EVENT_JSON, EVENT_NUMBER, EVENT_COUNT, EVENT_TIME };

/* Counts are integers that every JSON reader represents exactly. */
#define EVENT_COUNT_MAX (((uint64_t)1 << 53) - 1)

struct event {
#define EVENT_TEXT_FIELD(name) struct str name;
#define EVENT_PLAIN_FIELD(name) struct str name;
#define EVENT_JSON_FIELD(name) struct str name;
#define EVENT_NUMBER_FIELD(name)                                                                   \
    double name;                                                                                   \
    bool has_##name;
#define EVENT_COUNT_FIELD(name)                                                                    \
    uint64_t name;                                                                                 \
    bool has_##name;
#define EVENT_TIME_FIELD(name) uint64_t name; /* ms; 0 = absent */
#define EVENT(name, type) EVENT_##type##_FIELD(name)
#include "event/event.def"
#undef EVENT
};

/* Appends the event as one JSON object, no newline. Overflow is set in the buf. TEXT is
 * well-formed UTF-8, numbers are finite, counts at most EVENT_COUNT_MAX. */
void event_put(struct buf *out, const struct event *e);

/* The members with the decision and its input, which outputHash covers, in an event's text: runs
 * of them, each with the comma or brace before it. */
enum { EVENT_OUTCOME_PARTS = 20 };
struct event_part {
    size_t from, to;
};
struct event_outcome {
    struct event_part parts[EVENT_OUTCOME_PARTS];
    size_t count;
    size_t hash_end; /* the byte after output_hash's last digit */
};

/* event_put(), which also returns the position of the outcome; `e` has an output_hash, or digits
 * in its place. */
void event_put_told(struct buf *out, const struct event *e, struct event_outcome *ret);

/* Appends the canonical JSON that outputHash covers. `event` was put completely. */
void event_put_outcome(struct buf *out, struct str event, const struct event_outcome *o);

/* Reads one event's JSON; views point into `text` or the arena; JSON members are given in
 * canonical form. Required: event_id, kind, tenant_id, timestamp. Unknown members are refused
 * (ERR_BAD_VALUE), so that no unchecked data enters the store; so is an event of more than
 * LIMIT_EVENT_BYTES (ERR_BODY_TOO_LARGE). Nothing is written to *ret on error. */
enum err event_read(struct str text, struct arena *arena, struct event *ret, struct fault *f);

/* The same of an event that another system wrote, canonical or not: ERR_BAD_VALUE also where a
 * name has an escape that it does not need ("mod\u0065"), at the top or in previous, resource,
 * would_have. SQLite compares names in their written form, so the member would be missing in the
 * view `events`. */
enum err event_read_posted(struct str text, struct arena *arena, struct event *ret,
                           struct fault *f);

/* For a text that event_read() refuses: whether it is an event of a newer program, with the
 * members that every event has, and another member or a kind that is unknown here. */
bool event_is_later(struct str text, struct arena *arena);

/* Whether the schema lists `kind`. */
bool event_kind_is_known(struct str kind);
/* Such a record is the first of its epoch, and names the last record before it (`previous`). */
bool event_kind_begins_epoch(struct str kind);
/* What another system did: this, and the kind of what writ would have recorded. */
#define EVENT_EXTERNAL "external."
bool event_kind_is_external(struct str kind);

#endif
