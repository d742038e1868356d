/* audit_rows.h - audit_store.h on a database; inside this room only.
 *
 * Most of it is SQL that both kinds of database understand (audit_rows.c, audit_query.c). Insertion
 * differs: SQLite takes rows one by one (audit_sqlite.c), PostgreSQL takes many at a time by COPY
 * (audit_postgres.c). */
#ifndef STORE_AUDIT_ROWS_H
#define STORE_AUDIT_ROWS_H

#include "store/audit_index.h"
#include "store/audit_store.h"
#include "store/database.h"

/* PostgreSQL: a partition has 67 million ids, a span of the index of traces 4 million. */
enum { AUDIT_PARTITION_BITS = 26, AUDIT_SPAN_BITS = 22 };

struct audit_pending; /* rows that were not sent to PostgreSQL yet */

struct audit_rows {
    struct database *database; /* borrowed */
    struct audit_index *index;
    struct audit_pending *pending;                /* NULL on SQLite */
    uint64_t quarantined_rows, quarantined_bytes; /* of this transaction */
};

struct audit_rows *audit_rows_create(struct database *d);
void audit_rows_destroy(struct audit_rows *a);
const struct audit_store_ops *audit_rows_ops(const struct database *d);

/* audit_rows.c: operations of both kinds. */
enum err audit_rows_by_seq(void *state, const struct audit_source *source,
                           struct audit_stored *ret);
enum err audit_rows_by_event(void *state, const struct event *event, struct audit_stored *ret);
enum err audit_rows_forget(void *state, uint64_t id, bool *ret);
enum err audit_rows_displace(void *state, uint64_t id, bool *ret);
enum err audit_rows_displaced(void *state, uint64_t id);
enum err audit_rows_is_dropped(void *state, const struct audit_source *source, bool *ret);
enum err audit_rows_stream_get(void *state, struct str node, struct str journal,
                               struct audit_stream *ret);
enum err audit_rows_stream_move(void *state, const struct audit_stream *from,
                                const struct audit_stream *to);
enum err audit_rows_streams_of(void *state, struct str node, struct str journal,
                               void (*each)(void *context, const struct audit_stream *s),
                               void *context);
/* The columns id, event, node, journal, epoch, seq, created_at of a row. */
void audit_stored_read(struct statement *s, struct audit_stored *ret);
/* Moves to the row of a statement that has at most one; ERR_NOT_FOUND: it has none. */
enum err audit_one_row(struct statement *s, struct audit_stored *ret);

/* quarantine.c */
enum err audit_rows_quarantine(void *state, const struct audit_quarantined *q);
enum err audit_rows_is_quarantined(void *state, const struct audit_source *source, struct str bytes,
                                   bool *ret);
/* Before the commit: counts the added rows, and removes the oldest if there are too many. */
enum err audit_quarantine_settle(struct audit_rows *a);

/* audit_query.c */
enum err audit_rows_query(void *state, const struct audit_query *q, audit_each *each,
                          void *context);

/* audit_sqlite.c, audit_postgres.c */
extern const struct audit_store_ops audit_sqlite_ops, audit_postgres_ops;
struct audit_pending *audit_pending_create(void);
void audit_pending_destroy(struct audit_pending *p);

#endif
