/* suspension.h - which actors are suspended, by the newest word of a person at any engine.
 *
 * The row of an actor changes only by a word that is newer than the row's: a later time. At the same
 * time a suspension counts more than a resume, and then the greater event_id. So neither the order in which streams arrive nor a repetition
 * matters. The rows are not events, and retention leaves them alone: an engine that has lost its
 * disk takes over the open ones (GET /api/v1/suspensions), however long ago they began.
 *
 * An engine that takes a suspension over records it again. That record names the person's event in
 * `previous`, {event_id, timestamp}, and counts as the same word, not as a newer one.
 *
 * Blocking; belongs to the thread of its store. */
#ifndef STORE_SUSPENSION_H
#define STORE_SUSPENSION_H

#include "access/key.h"
#include "store/store.h"

/* Whether suspension_note() would look at the event. */
bool suspension_is_noted(const struct event *e);

/* Within a transaction: an engine has recorded this event. Other kinds change nothing. */
enum err suspension_note(struct store *s, const struct event *e, struct fault *f);

struct suspension_page {
    const struct globs *tenants; /* of these; NULL: of any */
    struct str tenant;           /* of this one alone; absent: of any */
    bool open;                   /* only those that are not ended */
    uint64_t limit, cursor;
};

/* Appends {suspensions, count, limit, next_cursor}, in the order in which the actors were first
 * seen. A page ends early at half of LIMIT_REPLY_BYTES. */
enum err suspension_list(struct store *s, const struct suspension_page *page, struct buf *out,
                         struct fault *f);

#endif
