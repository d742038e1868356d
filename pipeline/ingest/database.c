/* database.c - the only door to SQLite.
 *
 * Why these settings: WAL lets readers read while the writer writes; synchronous=FULL makes each
 * commit durable, which the positions of streams depend on; the page size holds several events
 * per page; the checkpoint is rare enough that one batch does not pay for it. The writer's cache
 * keeps the right edges of all indexes in memory. */
#include "pipeline/ingest/database.h"

#include <limits.h>
#include <stdlib.h>

#include "base/check.h"

enum {
    BUSY_MS = 5000,          /* the command line may hold the write lock for a moment */
    CHECKPOINT_PAGES = 8192, /* 64 MiB of WAL */
};

static const char writer_settings[] = "PRAGMA page_size = 8192;"
                                      "PRAGMA journal_mode = WAL;"
                                      "PRAGMA synchronous = FULL;"
                                      "PRAGMA foreign_keys = ON;"
                                      "PRAGMA cache_size = -65536;"
                                      "PRAGMA journal_size_limit = 268435456;";
static const char reader_settings[] = "PRAGMA query_only = ON;"
                                      "PRAGMA cache_size = -16384;"
                                      "PRAGMA mmap_size = 1073741824;";

static enum err err_from_sqlite(int code)
{
    switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW: return ERR_OK;
    case SQLITE_DONE: return ERR_END;
    case SQLITE_CONSTRAINT: return ERR_EXISTS;
    case SQLITE_FULL: return ERR_NO_SPACE;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return ERR_CORRUPT;
    case SQLITE_NOMEM: return ERR_FULL;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_INTERRUPT: return ERR_STORE_UNAVAILABLE;
    default: return ERR_IO;
    }
}

enum err database_fault(struct database *d, enum err err, struct fault *f)
{
    return fault_set(f, err, "", "store: %s", sqlite3_errmsg(d->handle));
}

static enum err settle(struct database *d, bool writer, struct fault *f)
{
    sqlite3_busy_timeout(d->handle, BUSY_MS);
    sqlite3_extended_result_codes(d->handle, 1);
    int code =
        sqlite3_exec(d->handle, writer ? writer_settings : reader_settings, NULL, NULL, NULL);
    if (code != SQLITE_OK) return database_fault(d, err_from_sqlite(code), f);
    if (!writer) return ERR_OK;
    sqlite3_wal_autocheckpoint(d->handle, CHECKPOINT_PAGES);
    return database_migrate(d, f);
}

enum err database_open(const char *path, bool writer, struct database **ret, struct fault *f)
{
    struct database *d = calloc(1, sizeof *d);
    if (d == NULL) return fault_plain(f, ERR_FULL);
    /* Readers open for writing too (WAL's index is shared memory that they write); query_only
     * keeps them from the rows. */
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (writer ? SQLITE_OPEN_CREATE : 0);
    int code = sqlite3_open_v2(path, &d->handle, flags, NULL);
    enum err err;
    if (code != SQLITE_OK)
        err = fault_set(f, err_from_sqlite(code), "", "store: cannot open %s: %s", path,
                        d->handle == NULL ? sqlite3_errstr(code) : sqlite3_errmsg(d->handle));
    else
        err = settle(d, writer, f);
    if (err != ERR_OK) {
        database_close(d);
        return err;
    }
    *ret = d;
    return ERR_OK;
}

void database_close(struct database *d)
{
    if (d == NULL) return;
    for (size_t i = 0; i < d->statement_count; i++) sqlite3_finalize(d->statements[i].prepared);
    sqlite3_close(d->handle);
    free(d);
}

sqlite3_stmt *database_statement(struct database *d, const char *sql)
{
    for (size_t i = 0; i < d->statement_count; i++) {
        if (d->statements[i].sql != sql) continue;
        sqlite3_reset(d->statements[i].prepared);
        return d->statements[i].prepared;
    }
    check(d->statement_count < DATABASE_STATEMENTS);
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v3(d->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &s, NULL);
    check((code & 0xff) != SQLITE_ERROR && (code & 0xff) != SQLITE_MISUSE); /* our SQL is wrong */
    if (code != SQLITE_OK) return NULL;
    d->statements[d->statement_count].sql = sql;
    d->statements[d->statement_count++].prepared = s;
    return s;
}

enum err statement_step(sqlite3_stmt *s)
{
    return s == NULL ? ERR_STORE_UNAVAILABLE : err_from_sqlite(sqlite3_step(s));
}

enum err statement_run(sqlite3_stmt *s)
{
    enum err err;
    do err = statement_step(s);
    while (err == ERR_OK);
    sqlite3_reset(s);
    return err == ERR_END ? ERR_OK : err;
}

void bind_text(sqlite3_stmt *s, int at, struct str text)
{
    check(text.size <= INT_MAX);
    check(s == NULL ||
          sqlite3_bind_text(s, at, text.bytes, (int)text.size, SQLITE_STATIC) == SQLITE_OK);
}

void bind_blob(sqlite3_stmt *s, int at, struct str bytes)
{
    check(bytes.size <= INT_MAX);
    check(s == NULL ||
          sqlite3_bind_blob(s, at, bytes.bytes, (int)bytes.size, SQLITE_STATIC) == SQLITE_OK);
}

void bind_u64(sqlite3_stmt *s, int at, uint64_t value)
{
    check(value <= INT64_MAX);
    check(s == NULL || sqlite3_bind_int64(s, at, (int64_t)value) == SQLITE_OK);
}

void bind_bits(sqlite3_stmt *s, int at, uint64_t bits)
{
    check(s == NULL || sqlite3_bind_int64(s, at, (int64_t)bits) == SQLITE_OK);
}

uint64_t column_bits(sqlite3_stmt *s, int at) { return (uint64_t)sqlite3_column_int64(s, at); }

void bind_time(sqlite3_stmt *s, int at, uint64_t ms)
{
    if (ms != 0)
        bind_u64(s, at, ms);
    else
        check(s == NULL || sqlite3_bind_null(s, at) == SQLITE_OK);
}

struct str column_text(sqlite3_stmt *s, int at)
{
    const void *bytes = sqlite3_column_blob(s, at);
    if (sqlite3_column_type(s, at) == SQLITE_NULL) return (struct str){0};
    return bytes == NULL ? STR("") : str_of(bytes, (size_t)sqlite3_column_bytes(s, at));
}

uint64_t column_u64(sqlite3_stmt *s, int at)
{
    int64_t value = sqlite3_column_int64(s, at);
    return value < 0 ? 0 : (uint64_t)value;
}

enum err database_begin(struct database *d)
{
    return statement_run(database_statement(d, "BEGIN IMMEDIATE"));
}

enum err database_begin_read(struct database *d)
{
    return statement_run(database_statement(d, "BEGIN"));
}

enum err database_commit(struct database *d)
{
    /* A statement that still stands at a row would keep its snapshot beyond the transaction. */
    for (size_t i = 0; i < d->statement_count; i++) sqlite3_reset(d->statements[i].prepared);
    enum err err = statement_run(database_statement(d, "COMMIT"));
    if (err != ERR_OK) database_rollback(d);
    return err;
}

void database_rollback(struct database *d)
{
    for (size_t i = 0; i < d->statement_count; i++) sqlite3_reset(d->statements[i].prepared);
    if (sqlite3_get_autocommit(d->handle) == 0)
        sqlite3_exec(d->handle, "ROLLBACK", NULL, NULL, NULL);
}

uint64_t database_changes(struct database *d) { return (uint64_t)sqlite3_changes64(d->handle); }

uint64_t database_last_id(struct database *d)
{
    return (uint64_t)sqlite3_last_insert_rowid(d->handle);
}
