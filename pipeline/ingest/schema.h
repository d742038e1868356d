/* schema.h - the schema's history, for either kind of database; inside this room only.
 *
 * A step that has been released is never edited: add one, to both lists, so that a version means
 * the same on both. SQLite counts the steps that a file has been through in PRAGMA user_version,
 * PostgreSQL in the table `schema_version`; the missing ones run in one transaction when a writer
 * opens the store. A new member of the audit event is a step that makes the view `events` anew; on
 * PostgreSQL CREATE OR REPLACE takes a new column at the end only, and DROP VIEW fails where an
 * analyst's view reads it and takes what was granted on it away. */
#ifndef INGEST_SCHEMA_H
#define INGEST_SCHEMA_H

#include <stddef.h>

enum { SCHEMA_NEWEST = 8 };

struct schema_step {
    const char *sql;
    const char *identity;    /* the unique indexes; NULL: none */
    const char *no_identity; /* instead, for the planted bug no_dedupe */
};

extern const struct schema_step schema_sqlite[SCHEMA_NEWEST], schema_postgres[SCHEMA_NEWEST];

#endif
