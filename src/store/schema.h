/* schema.h - the schema's history, for either kind of database; inside this room only.
 *
 * A released step is never edited: add a new one to both lists, so that a version means the same on
 * both. SQLite stores the number of a file's steps in PRAGMA user_version, PostgreSQL in the table
 * `schema_version`. The missing steps run in one transaction when a writer opens the store. A new
 * member of the audit event is a step that makes the view `events` again. On PostgreSQL CREATE OR
 * REPLACE takes a new column only at the end. DROP VIEW fails if an analyst's view reads it, and
 * removes the grants on it. */
#ifndef STORE_SCHEMA_H
#define STORE_SCHEMA_H

#include <stddef.h>

enum { SCHEMA_NEWEST = 22 };

struct schema_step {
    const char *sql;
    const char *identity;    /* the unique indexes; NULL: none */
    const char *no_identity; /* instead of it, for the planted bug no_dedupe */
};

extern const struct schema_step schema_sqlite[SCHEMA_NEWEST], schema_postgres[SCHEMA_NEWEST];

#endif
