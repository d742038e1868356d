/* audit_store.h - where audit events are kept, whatever keeps them.
 *
 * One `struct audit_store` is one connection and belongs to one thread: the writer's may do
 * everything, a reader's only the queries. The table of operations is what another database has to
 * provide; the rules of ingest (positions, epochs, clashes) are above it, in stream.c and post.c,
 * and run between begin and commit, which make rows and positions one transaction.
 *
 * Rows: the event's exact bytes, its members, where it came from (absent for the platform's own
 * and for events that people post), an increasing id (the cursor) and when it was stored. Unique
 * are the event's key (event_key.h) and (node, journal, seq). */
#ifndef INGEST_AUDIT_STORE_H
#define INGEST_AUDIT_STORE_H

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
    /* told by streams_of: records from next_seq on were asked for again; the request's number */
    uint64_t replay;
};

struct audit_row {             /* to be stored */
    struct str bytes;          /* the event's JSON, exactly */
    const struct event *event; /* the same, decoded */
    struct audit_source source;
    uint64_t created_at;
};

struct audit_stored { /* as found; views valid until the store's next call */
    uint64_t id;
    struct str bytes;
    struct audit_source source;
    uint64_t created_at;
};

enum { QUARANTINED_BYTES = 128 << 10 }; /* of one, kept; no record is larger */

struct audit_quarantined {
    const char *reason;
    struct audit_source source;
    struct str bytes;
    uint64_t created_at;
};

struct audit_query {   /* absent members do not narrow it */
    struct str tenant; /* required */
    struct str actor, action, decision, trace_id, kind, rule, user_id;
    bool has_from, has_to;
    uint64_t from_ms, to_ms; /* from is inclusive, to exclusive */
    uint64_t before_id;      /* only ids below it; 0: all */
    uint64_t after_id;       /* only ids above it */
    uint64_t limit;
    bool oldest_first;
};

/* Told one row that was given to insert() and is taken after all; the views are insert()'s. */
typedef enum err audit_taken(void *context, const struct audit_source *source, struct str bytes);

struct audit_store;

/* Told one row; false ends the query. */
typedef bool audit_each(void *context, const struct audit_stored *row);

struct audit_store_ops {
    enum err (*begin)(void *state);
    enum err (*commit)(void *state); /* rolls back where it fails */
    void (*rollback)(void *state);
    /* ERR_EXISTS: its key or source is taken; nothing was stored. A store that takes many rows at
     * once may find that out only in settle(): until then row->bytes and row->source must live. */
    enum err (*insert)(void *state, const struct audit_row *row, uint64_t *ret_id);
    /* Everything given to insert() is stored, but what `each` is told of (it may call the store).
     * `each` may also insert() it again. Before commit(), wherever something may be taken. */
    enum err (*settle)(void *state, audit_taken *each, void *context);
    enum err (*by_seq)(void *state, const struct audit_source *source, struct audit_stored *ret);
    /* The row that has this event's key. */
    enum err (*by_event)(void *state, const struct event *event, struct audit_stored *ret);
    /* Gives a row without a source this one. */
    enum err (*adopt)(void *state, uint64_t id, const struct audit_source *source);
    /* Deletes the row where it was dropped by age and is only still to be removed (retention.h):
     * its key is free then, and *ret is true. */
    enum err (*forget)(void *state, uint64_t id, bool *ret);
    /* Idempotent on (node, journal, seq, bytes); keeps the first QUARANTINED_BYTES. */
    enum err (*quarantine)(void *state, const struct audit_quarantined *q);
    enum err (*is_quarantined)(void *state, const struct audit_source *source, struct str bytes,
                               bool *ret);
    /* Whether the record was stored once, and was dropped by age since (retention.h). */
    enum err (*is_dropped)(void *state, const struct audit_source *source, bool *ret);
    /* ERR_NOT_FOUND: the stream is new. */
    enum err (*stream_get)(void *state, struct str node, struct str journal,
                           struct audit_stream *ret);
    /* Compares and sets; `from` NULL: makes it. ERR_PRECONDITION_FAILED: it was not there. */
    enum err (*stream_move)(void *state, const struct audit_stream *from,
                            const struct audit_stream *to);
    /* Also those of which nothing is stored yet but a replay was asked for: next_seq 1, no
     * epoch. */
    enum err (*streams_of)(void *state, struct str node,
                           void (*each)(void *context, const struct audit_stream *s),
                           void *context);
    enum err (*query)(void *state, const struct audit_query *q, audit_each *each, void *context);
    enum err (*count)(void *state, uint64_t *ret); /* cheap: about how many rows there are */
};

struct audit_store {
    const struct audit_store_ops *ops;
    void *state;
};

#endif
