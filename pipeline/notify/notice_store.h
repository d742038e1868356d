/* notice_store.h - the messages that are to be sent, in the store.
 *
 * Two tables: `notices` (a row for each message and channel, deleted when it is delivered) and
 * `announced` (reviews, with the channels that also get their outcome). The position in the
 * records is a row of `offsets`, under a name that no topic can have, so the lease of Kafka's
 * readers (pipeline/ingest/lease.h) chooses the one platform that sends.
 *
 *     (event) ──put──▶ WAITING ──claim──▶ CLAIMED ──delivered──▶ gone
 *                         ▲                  │
 *                         └──────failed──────┘     24 hours after `since`: gone
 *
 * A row is claimed, and the claim committed, before its message is sent. So if a process dies, the
 * row shows that the message may have been sent: the next claim repeats it.
 *
 * Blocking; belongs to the thread of its store (a writer). All but notice_store_read(), _due() and
 * _status() run within a transaction. */
#ifndef NOTIFY_NOTICE_STORE_H
#define NOTIFY_NOTICE_STORE_H

#include "base/arena.h"
#include "event/event.h"
#include "pipeline/ingest/lease.h"
#include "store/store.h"

#define NOTICE_TOPIC STR("notify:reviews")

enum { NOTICE_READ_MAX = 1000, NOTICE_ERROR_TEXT = 200 };

struct noted_event { /* one event of a review that an engine recorded */
    uint64_t id;
    struct str event; /* its JSON */
};

struct notice {
    uint64_t record_id;
    struct str channel, kind, tenant, review;
    uint64_t since, next_at; /* Unix milliseconds */
    uint64_t tries;
    struct str owner; /* that claimed it and has not released it; "": none */
};

struct notice_status {
    uint64_t count, tries; /* tries: of the one that was tried most */
    uint64_t oldest_ms;    /* its `since`; 0: there is none */
    char error[NOTICE_ERROR_TEXT];
};

/* The id of the newest record. */
enum err notice_store_newest(struct store *s, uint64_t *ret, struct fault *f);
/* The events of reviews among the next records after `after`, at most NOTICE_READ_MAX records.
 * *ret_last: the last record that was read, or `after`; *ret_more: there may be more behind it. Copies
 * are in the arena. */
enum err notice_store_read(struct store *s, uint64_t after, struct arena *arena,
                           struct noted_event ret[NOTICE_READ_MAX], size_t *ret_count,
                           uint64_t *ret_last, bool *ret_more, struct fault *f);
/* The next message of a channel: of each review in the order of its events. ERR_END: none is due. */
enum err notice_store_due(struct store *s, struct str channel, uint64_t now_ms, struct arena *arena,
                          struct notice *ret, struct fault *f);
/* The event of a record; ERR_NOT_FOUND: it was dropped by age. */
enum err notice_store_event(struct store *s, uint64_t record_id, struct arena *arena,
                            struct str *ret, struct fault *f);
/* What waits on a channel; a reminder that is not due does not. */
enum err notice_store_status(struct store *s, struct str channel, uint64_t now_ms,
                             struct notice_status *ret, struct fault *f);

/* ---- within a transaction ---- */

enum err notice_store_begin(struct store *s, struct fault *f);
enum err notice_store_end(struct store *s, enum err err, struct fault *f);

/* *ret_full: the channel has LIMIT_NOTICES rows, and the message is left out. */
enum err notice_store_put(struct store *s, const struct notice *n, bool *ret_full, struct fault *f);
/* *ret_full: there are LIMIT_ANNOUNCED reviews. */
enum err notice_store_announce(struct store *s, struct str tenant, struct str review,
                               struct str channels, uint64_t now_ms, bool *ret_full,
                               struct fault *f);
/* The channels, or absent. */
enum err notice_store_announced(struct store *s, struct str tenant, struct str review,
                                struct arena *arena, struct str *ret, struct fault *f);
enum err notice_store_forget(struct store *s, struct str tenant, struct str review,
                             struct fault *f);
enum err notice_store_drop_reminders(struct store *s, struct str review, struct fault *f);
/* ERR_PRECONDITION_FAILED: it is not as it was read. */
enum err notice_store_claim(struct store *s, const struct notice *n, struct str owner,
                            struct fault *f);
/* *ret: it was still claimed by the owner. */
enum err notice_store_delivered(struct store *s, const struct notice *n, struct str owner,
                                bool *ret, struct fault *f);
enum err notice_store_failed(struct store *s, const struct notice *n, struct str owner,
                             uint64_t next_at, const char *error, bool *ret, struct fault *f);
/* Removes messages and announced reviews that are too old, except those that `owner` sends now; *ret:
 * messages. */
enum err notice_store_give_up(struct store *s, struct str owner, uint64_t now_ms, uint64_t *ret,
                              struct fault *f);

#endif
