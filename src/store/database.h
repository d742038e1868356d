/* database.h - SQL behind a few functions, on SQLite or PostgreSQL; inside this room only.
 *
 * A `struct database` is one connection and belongs to one thread. Statements are written once, in
 * the SQL that both understand, with ?1, ?2, … for parameters. They are prepared once, by the
 * address of their literal. Where the two differ, a caller asks database_is_postgres().
 *
 *   SQLite      a file; one writer at a time (WAL, synchronous=FULL: a commit is on the disk when
 *               it returns) and any number of readers that never wait for it
 *   PostgreSQL  a server; writers take turns, too: database_begin() takes the one write lock, the
 *               row of `marks`. So ids rise in the order of commits, and other code need not
 *               handle two writers. The next transaction restores a lost connection.
 *
 * Both: a reader's transaction sees one snapshot. An error in our SQL is a bug (check, on SQLite,
 * where no other program can have made the tables). External failures are an enum err. */
#ifndef STORE_DATABASE_H
#define STORE_DATABASE_H

#include "base/buf.h"
#include "base/fault.h"

struct database;
struct statement;

/* `place`: a path, or an address that database_is_address() recognizes. A writer creates a missing
 * file and migrates the schema. */
enum err database_open(const char *place, bool writer, struct database **ret, struct fault *f);
void database_close(struct database *d);
bool database_is_address(const char *place); /* postgresql://… or postgres://… */
bool database_is_postgres(const struct database *d);

/* The statement of this literal, reset and ready to bind. NULL if the store could not be read:
 * every function below accepts that, and a step returns ERR_STORE_UNAVAILABLE. */
struct statement *database_statement(struct database *d, const char *sql);

/* One step. ERR_OK: there is a row; ERR_END: no more rows. Any other: it failed. */
enum err statement_step(struct statement *s);
/* Steps to the end and resets; ERR_EXISTS if a unique index forbids it. */
enum err statement_run(struct statement *s);
void statement_reset(struct statement *s);
/* Whether there is a row; resets. */
enum err statement_finds(struct statement *s, bool *ret);

/* Bound views must live until the statement is reset; an absent string is NULL. */
void bind_text(struct statement *s, int at, struct str text);
void bind_blob(struct statement *s, int at, struct str bytes);
void bind_u64(struct statement *s, int at, uint64_t value);
/* All 64 bits, as a signed number. */
void bind_bits(struct statement *s, int at, uint64_t bits);
/* 0 is NULL. */
void bind_time(struct statement *s, int at, uint64_t ms);
/* Valid until the statement's next step or reset; NULL is absent. */
struct str column_text(struct statement *s, int at);
uint64_t column_u64(struct statement *s, int at); /* NULL is 0 */
uint64_t column_bits(struct statement *s, int at);

/* ERR_STORE_UNAVAILABLE: the file was moved away or replaced while it was open. Data that is
 * written now would be lost at the next start. */
enum err database_present(struct database *d);
/* checks database_present() and takes the write lock */
enum err database_begin(struct database *d);
enum err database_begin_read(struct database *d); /* one snapshot for several reads */
enum err database_commit(struct database *d);     /* rolls back on failure */
void database_rollback(struct database *d);
uint64_t database_changes(struct database *d); /* rows that the last statement changed */

/* No statement continues past this time of the monotonic clock; 0: no limit. SQLite ends it with
 * ERR_TIMEOUT. PostgreSQL's server ends a reader's statements by itself, also with ERR_TIMEOUT. If
 * the server has not answered one second after this time, the connection is closed:
 * ERR_STORE_UNAVAILABLE. */
void database_deadline(struct database *d, uint64_t monotonic_ns);

/* Describes the last failure, for logs and faults. */
enum err database_fault(struct database *d, enum err err, struct fault *f);

/* Within a transaction: permits statements of minutes, for changes of a schema. (SQLite: no
 * effect.) */
enum err database_patient(struct database *d);
/* Several statements at once, without parameters. */
enum err database_execute(struct database *d, const char *sql, struct fault *f);
/* schema.c: brings the schema to the newest version, in one transaction. */
enum err database_migrate(struct database *d, struct fault *f);
/* Whether the schema is still this program's: a program of another version may have changed it
 * meanwhile. */
enum err database_check_schema(struct database *d, struct fault *f);

/* ---- SQLite only ---- */

uint64_t database_last_id(struct database *d);

/* ---- PostgreSQL alone ---- */

/* Sets the expected database: a new connection must lead to the same one. (SQLite: no effect.) */
void database_identify(struct database *d, const char *log_id);
/* Another number after each loss of the connection. Information about the store from an earlier one
 * may be outdated. */
uint64_t database_life(const struct database *d);
/* The first free id, as database_begin() read it. */
uint64_t database_next_id(const struct database *d);
/* An array parameter: `literal` is '{…}' of text or of 64-bit numbers. */
void bind_texts(struct statement *s, int at, struct str literal);
void bind_numbers(struct statement *s, int at, struct str literal);
/* Rows in COPY's binary form (copy.h), within a transaction. */
enum err database_copy(struct database *d, const char *sql, struct str rows);

/* The same in pieces: put() only hands over, and the server works while the next rows are written.
 * No other statement can run on the connection until copy_end(). If one is about to run, `end` is
 * called first, and must end the COPY. A rollback discards it. */
typedef enum err database_end_copy(void *context);
enum err database_copy_begin(struct database *d, const char *sql, database_end_copy *end,
                             void *context);
enum err database_copy_put(struct database *d, struct str bytes);
/* ERR_EXISTS: a unique index forbids one of the rows. */
enum err database_copy_end(struct database *d);

#endif
