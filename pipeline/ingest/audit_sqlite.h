/* audit_sqlite.h - the SQLite side of audit_store.h; inside this room only. */
#ifndef INGEST_AUDIT_SQLITE_H
#define INGEST_AUDIT_SQLITE_H

#include "base/world.h"
#include "pipeline/ingest/audit_index.h"
#include "pipeline/ingest/audit_store.h"
#include "pipeline/ingest/database.h"

struct audit_sqlite {
    struct database *database; /* borrowed */
    struct audit_index *index;
};

struct audit_sqlite *audit_sqlite_create(struct database *d);
void audit_sqlite_destroy(struct audit_sqlite *a);
extern const struct audit_store_ops audit_sqlite_ops;

/* The columns id, event, node, journal, epoch, seq, created_at of a row. */
void audit_stored_read(sqlite3_stmt *s, struct audit_stored *ret);

/* audit_query.c */
enum err audit_sqlite_query(void *state, const struct audit_query *q, audit_each *each,
                            void *context);

#endif
