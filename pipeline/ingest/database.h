/* database.h - SQLite behind a few functions; inside this room only.
 *
 * A `struct database` is one connection and belongs to one thread. There is one writer (WAL,
 * synchronous=FULL: a commit is on the disk when it returns) and any number of readers, each of
 * which sees a snapshot per transaction and never waits for the writer. Statements are prepared
 * once, by the address of their SQL literal. A failure of SQL itself is ours (check); what the
 * world does to the file comes out as an enum err. */
#ifndef INGEST_DATABASE_H
#define INGEST_DATABASE_H

#include <sqlite3.h>

#include "base/buf.h"
#include "base/fault.h"

enum { DATABASE_STATEMENTS = 64 };

struct database {
    sqlite3 *handle;
    struct {
        const char *sql;
        sqlite3_stmt *prepared;
    } statements[DATABASE_STATEMENTS];
    size_t statement_count;
};

/* A writer makes the file where there is none, and brings its schema up to date. */
enum err database_open(const char *path, bool writer, struct database **ret, struct fault *f);
void database_close(struct database *d);

/* The statement of this literal, reset and ready to bind. NULL where the file could not be read:
 * every function below takes that, and a step says ERR_STORE_UNAVAILABLE. */
sqlite3_stmt *database_statement(struct database *d, const char *sql);

/* One step. ERR_OK: a row is there; ERR_END: no more. Any other: it failed. */
enum err statement_step(sqlite3_stmt *s);
/* Steps to the end and resets; ERR_EXISTS where a unique index forbids it. */
enum err statement_run(sqlite3_stmt *s);

/* Bound views must live until the statement is reset; an absent string is NULL. */
void bind_text(sqlite3_stmt *s, int at, struct str text);
void bind_blob(sqlite3_stmt *s, int at, struct str bytes);
void bind_u64(sqlite3_stmt *s, int at, uint64_t value);
/* All 64 bits, as a signed number. */
void bind_bits(sqlite3_stmt *s, int at, uint64_t bits);
uint64_t column_bits(sqlite3_stmt *s, int at);
/* 0 is NULL. */
void bind_time(sqlite3_stmt *s, int at, uint64_t ms);
/* Valid until the statement's next step or reset; NULL is absent. */
struct str column_text(sqlite3_stmt *s, int at);
uint64_t column_u64(sqlite3_stmt *s, int at); /* NULL is 0 */

enum err database_begin(struct database *d);      /* write lock at once */
enum err database_begin_read(struct database *d); /* one snapshot for several reads */
enum err database_commit(struct database *d);     /* rolls back where it fails */
void database_rollback(struct database *d);
uint64_t database_changes(struct database *d); /* rows that the last statement changed */
uint64_t database_last_id(struct database *d);

/* What the file's last failure says, for logs and faults. */
enum err database_fault(struct database *d, enum err err, struct fault *f);

/* migrations.c: brings the schema to the newest version, in one transaction. */
enum err database_migrate(struct database *d, struct fault *f);

#endif
