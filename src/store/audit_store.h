/* audit_store.h - the interface of the store of audit events.
 *
 * One `struct audit_store` is one connection and belongs to one thread. The writer's store supports
 * all operations, a reader's only the queries. The table of operations is the part that another
 * database must provide. The rules of ingest (positions, epochs, clashes) are above it, in stream.c
 * and post.c. They run between begin and commit, so rows and positions are one transaction.
 *
 * Rows: the event's exact bytes, its members, its source (absent for the platform's own events and
 * for events that people post), an increasing id (the cursor) and the time of storage. The event's
 * key (event_key.h) and (node, journal, seq) are unique. */
#ifndef STORE_AUDIT_STORE_H
#define STORE_AUDIT_STORE_H

#include "base/buf.h"
#include "base/fault.h"
#include "event/event.h"

struct audit_source {
    struct str node, journal, epoch; /* absent: no source */
    uint64_t seq;
};

struct audit_stream {
    struct str node, journal, epoch;
    uint64_t next_seq;
    /* Only from streams_of: a replay from next_seq on was requested; the request's number. */
    uint64_t replay;
    /* Its records need a MAC, because one of them had one, or because it began since they have. To
     * stream_move(): the new ones have one. */
    bool is_authenticated;
};

struct audit_row {             /* a row to be stored */
    struct str bytes;          /* the event's exact JSON */
    const struct event *event; /* the same, decoded */
    struct audit_source source;
    uint64_t created_at;
    bool is_restored; /* an admin posted it as a record of writ, without its stream */
};

struct audit_stored { /* a stored row; its views are valid until the store's next call */
    uint64_t id;
    struct str bytes;
    struct audit_source source;
    uint64_t created_at;
};

/* at most so much of an entry is stored; no record is larger */
enum { QUARANTINED_BYTES = 128 << 10 };

enum audit_reason { /* why an entry is in quarantine */
                    REASON_CLASH,
                    REASON_EVENT_CLASH,
                    REASON_INVALID,
                    REASON_EPOCH,
                    REASON_POISON,
                    REASON_NODE_FULL,
                    REASON_MAC,
                    REASON_COUNT
};
const char *audit_reason_name(enum audit_reason r);

struct audit_quarantined {
    enum audit_reason reason;
    struct audit_source source;
    struct str bytes;
    uint64_t created_at;
};

struct audit_query {   /* absent members do not restrict the query */
    struct str tenant; /* required */
    struct str actor, action, decision, trace_id, kind, rule, user_id;
    bool has_from, has_to;
    uint64_t from_ms, to_ms; /* from is inclusive, to exclusive */
    uint64_t before_id;      /* only ids below it; 0: all */
    uint64_t after_id;       /* only ids above it */
    uint64_t limit;
    bool oldest_first;
};

/* Gets one row that was given to insert() and is a duplicate; the views are insert()'s. */
typedef enum err audit_taken(void *context, const struct audit_source *source, struct str bytes);

struct audit_store;

/* Gets one row; returns false to end the query. */
typedef bool audit_each(void *context, const struct audit_stored *row);

struct audit_store_ops {
    enum err (*begin)(void *state);
    enum err (*commit)(void *state); /* rolls back on failure */
    void (*rollback)(void *state);
    /* ERR_EXISTS: its key or source exists; nothing was stored. A store that inserts many rows at
     * once may detect that only in settle(): until then row->bytes and row->source must live. */
    enum err (*insert)(void *state, const struct audit_row *row, uint64_t *ret_id);
    /* Stores all rows given to insert(), except the duplicates, which are passed to `each` (it may
     * call the store, and may insert() the row again). Call before commit() if there may be
     * duplicates. */
    enum err (*settle)(void *state, audit_taken *each, void *context);
    enum err (*by_seq)(void *state, const struct audit_source *source, struct audit_stored *ret);
    /* The row that has this event's key. */
    enum err (*by_event)(void *state, const struct event *event, struct audit_stored *ret);
    /* Sets the source of a row without one. */
    enum err (*adopt)(void *state, uint64_t id, const struct audit_source *source);
    /* Deletes the row if it was dropped by age and waits only for its removal (retention.h). Its
     * key is free then, and *ret is true. */
    enum err (*forget)(void *state, uint64_t id, bool *ret);
    /* Frees the key of the row, if a person posted it: *ret is true. Insert the record with this key,
     * then call displaced(), which deletes the row. */
    enum err (*displace)(void *state, uint64_t id, bool *ret);
    enum err (*displaced)(void *state, uint64_t id);
    /* Idempotent on (node, journal, seq, bytes); stores the first QUARANTINED_BYTES. The oldest are
     * removed at the commit (quarantine.h). */
    enum err (*quarantine)(void *state, const struct audit_quarantined *q);
    enum err (*is_quarantined)(void *state, const struct audit_source *source, struct str bytes,
                               bool *ret);
    /* Whether the record was stored once, and was dropped by age since (retention.h). */
    enum err (*is_dropped)(void *state, const struct audit_source *source, bool *ret);
    /* ERR_NOT_FOUND: the stream is new. */
    enum err (*stream_get)(void *state, struct str node, struct str journal,
                           struct audit_stream *ret);
    /* Compares and sets; `from` NULL: creates it. ERR_PRECONDITION_FAILED: the comparison
     * failed. */
    enum err (*stream_move)(void *state, const struct audit_stream *from,
                            const struct audit_stream *to);
    /* The streams of a node, or only `journal` if it is not absent. Journal 0, which engines have,
     * comes first. Also includes streams without stored records for which a replay was requested:
     * next_seq 1, no epoch. */
    enum err (*streams_of)(void *state, struct str node, struct str journal,
                           void (*each)(void *context, const struct audit_stream *s),
                           void *context);
    enum err (*query)(void *state, const struct audit_query *q, audit_each *each, void *context);
    enum err (*count)(void *state, uint64_t *ret); /* cheap: the approximate number of rows */
};

struct audit_store {
    const struct audit_store_ops *ops;
    void *state;
};

#endif
