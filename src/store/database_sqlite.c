/* database_sqlite.c - the only user of SQLite.
 *
 * Why these settings: WAL lets readers read while the writer writes. synchronous=FULL makes each
 * commit durable, which the positions of streams depend on. The page size holds several events per
 * page. Checkpoints are so rare that one batch does not pay for them. The writer's cache keeps the
 * right edges of all indexes in memory. */
#include "store/database_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/world.h"

enum {
    BUSY_MS = 5000, /* the command line may hold the write lock briefly */
    /* 8 MiB of WAL. A checkpoint syncs what it wrote; on a shared disk the journal's syncs wait for it. */
    CHECKPOINT_PAGES = 1024,
    BUSY_PAUSE_MS = 10,
    LOCK_PAUSE_MS = 2,      /* between two checks whether the write lock is free */
    PROGRESS_STEPS = 20000, /* between two checks of the clock */
};

static const char writer_settings[] = "PRAGMA page_size = 8192;"
                                      "PRAGMA journal_mode = WAL;"
                                      "PRAGMA synchronous = FULL;"
                                      "PRAGMA foreign_keys = ON;"
                                      "PRAGMA cache_size = -65536;"
                                      "PRAGMA journal_size_limit = 268435456;";
/* Nothing is mapped: a page that the disk cannot read must be an error, and not a signal. */
static const char reader_settings[] = "PRAGMA query_only = ON;"
                                      "PRAGMA cache_size = -16384;";

struct connection {
    sqlite3 *handle;
    uint64_t deadline_ns; /* 0: none */
    uint64_t busy_until_ns;
};

/* The connections of this process that wait for the write lock, and the last one that had it.
 * SQLite has no queue: a connection that releases the lock and takes it again at once would starve
 * all others. */
static _Atomic unsigned waiting;
static struct connection *_Atomic last_writer;

static sqlite3 *handle_of(const struct database *d)
{
    return ((struct connection *)d->own)->handle;
}

/* If the file of WAL's index has no space, SQLite reports only that a call failed. */
static bool is_no_space(int number) { return number == ENOSPC || number == EDQUOT; }

/* `handle`: of the failed connection; may be NULL. */
static enum err err_from_sqlite(sqlite3 *handle, int code)
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
    case SQLITE_INTERRUPT: return ERR_TIMEOUT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_PROTOCOL:
    case SQLITE_READONLY: return ERR_STORE_UNAVAILABLE;
    case SQLITE_IOERR:
        return handle != NULL && is_no_space(sqlite3_system_errno(handle)) ? ERR_NO_SPACE : ERR_IO;
    default: return ERR_INTERNAL; /* our statement was wrong */
    }
}

static enum err present(struct database *d)
{
    int moved = 0;
    int code = sqlite3_file_control(handle_of(d), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    return code == SQLITE_OK && moved ? ERR_STORE_UNAVAILABLE : ERR_OK;
}

static const char *text_of(sqlite3 *handle, enum err err)
{
    return err == ERR_NO_SPACE ? "the disk is full" : sqlite3_errmsg(handle);
}

static enum err fault(struct database *d, enum err err, struct fault *f)
{
    if (err == ERR_STORE_UNAVAILABLE && present(d) != ERR_OK)
        return fault_set(f, err, "",
                         "store: %s was moved away or replaced while this program has it open; "
                         "nothing more is written: put it back, or stop the program and see "
                         "Restoring in the runbook",
                         sqlite3_db_filename(handle_of(d), "main"));
    return fault_set(f, err, "", "store: %s", text_of(handle_of(d), err));
}

/* ---- WAL's index ---- */

enum { INDEX_PAGE = 4096 };

typedef ssize_t write_at(int file, const void *bytes, size_t size, off_t at);
static write_at *plain_pwrite, *plain_pwrite64;

/* SQLite extends WAL's index, which it maps, by a single byte at the end of each page, so that the
 * disk allocates the whole page or reports an error. If blocks are smaller than pages (an ext4 of 1
 * KiB), only the last block is allocated. Then the mapping is a SIGBUS if the disk has no other. */
static bool gives_whole_page(int file, size_t size, off_t at)
{
    int failed;
    if (size != 1 || at % INDEX_PAGE != INDEX_PAGE - 1) return true;
    do failed = fallocate(file, 0, at - (INDEX_PAGE - 1), INDEX_PAGE);
    while (failed != 0 && errno == EINTR);
    return failed == 0 || errno == EOPNOTSUPP || errno == ENOSYS;
}

static ssize_t careful_pwrite(int file, const void *bytes, size_t size, off_t at)
{
    return gives_whole_page(file, size, at) ? plain_pwrite(file, bytes, size, at) : -1;
}

static ssize_t careful_pwrite64(int file, const void *bytes, size_t size, off_t at)
{
    return gives_whole_page(file, size, at) ? plain_pwrite64(file, bytes, size, at) : -1;
}

/* Which of both calls SQLite uses depends on its build. It refuses an unknown one. */
static void write_carefully(void)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    check(vfs != NULL && vfs->iVersion >= 3);
    plain_pwrite = (write_at *)vfs->xGetSystemCall(vfs, "pwrite");
    plain_pwrite64 = (write_at *)vfs->xGetSystemCall(vfs, "pwrite64");
    if (plain_pwrite != NULL)
        vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)careful_pwrite);
    if (plain_pwrite64 != NULL)
        vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)careful_pwrite64);
}

/* ---- life ---- */

/* The bytes of a text: PostgreSQL has this function, SQLite from 3.43 on. */
static void octet_length(sqlite3_context *to, int count, sqlite3_value **values)
{
    check(count == 1);
    sqlite3_result_int64(to, sqlite3_value_bytes(values[0]));
}

/* Switches a new file to WAL. If another program does the same, SQLite returns busy at once and
 * does not wait. */
static int run_settings(sqlite3 *handle, const char *settings)
{
    uint64_t until_ns = world_monotonic_ns() + BUSY_MS * UINT64_C(1000000);
    for (;;) {
        int code = sqlite3_exec(handle, settings, NULL, NULL, NULL);
        if ((code & 0xff) != SQLITE_BUSY || world_monotonic_ns() > until_ns) return code;
        sqlite3_sleep(BUSY_PAUSE_MS);
    }
}

/* Tries again soon. SQLite's own handler waits longer each time, and so comes too late. */
static int wait_for_lock(void *connection, int tries)
{
    struct connection *c = connection;
    uint64_t now_ns = world_monotonic_ns();
    if (tries == 0) c->busy_until_ns = now_ns + BUSY_MS * UINT64_C(1000000);
    if (now_ns >= c->busy_until_ns) return 0;
    sqlite3_sleep(LOCK_PAUSE_MS);
    return 1;
}

static enum err settle(struct database *d, bool writer, struct fault *f)
{
    sqlite3 *handle = handle_of(d);
    sqlite3_busy_handler(handle, wait_for_lock, d->own);
    sqlite3_extended_result_codes(handle, 1);
    int code = sqlite3_create_function(handle, "octet_length", 1,
                                       SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, NULL,
                                       octet_length, NULL, NULL);
    if (code == SQLITE_OK) code = run_settings(handle, writer ? writer_settings : reader_settings);
    if (code != SQLITE_OK) return fault(d, err_from_sqlite(handle, code), f);
    if (writer) sqlite3_wal_autocheckpoint(handle, CHECKPOINT_PAGES);
    return ERR_OK;
}

/* SQLite's sort files, for example for the index of a new schema, are as large as the data. They
 * lie next to the database, which has room for them, and not in /tmp, which may be in memory or not
 * writable. The first open database sets the directory for the process. */
static void put_temporary_files_beside(const char *path)
{
    static atomic_flag is_settled = ATOMIC_FLAG_INIT;
    const char *end = strrchr(path, '/');
    if (end == NULL || end == path || atomic_flag_test_and_set(&is_settled)) return;
    sqlite3_temp_directory = sqlite3_mprintf("%.*s", (int)(end - path), path);
}

static enum err not_opened(sqlite3 *handle, int code, const char *path, struct fault *f)
{
    const char *what = handle == NULL ? sqlite3_errstr(code) : sqlite3_errmsg(handle);
    int number = handle == NULL ? 0 : sqlite3_system_errno(handle);
    return fault_set(f, err_from_sqlite(handle, code), "", "store: cannot open %s: %s%s%s", path,
                     what, number == 0 ? "" : ": ", number == 0 ? "" : strerror(number));
}

enum err database_sqlite_open(struct database *d, const char *path, bool writer, struct fault *f)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    check(pthread_once(&once, write_carefully) == 0);
    put_temporary_files_beside(path);
    struct connection *c = d->own = calloc(1, sizeof *c);
    if (c == NULL) return fault_plain(f, ERR_FULL);
    /* Readers, too, open the file for writing (they write WAL's index, which is shared memory).
     * query_only prevents changes of rows. */
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (writer ? SQLITE_OPEN_CREATE : 0);
    int code = sqlite3_open_v2(path, &c->handle, flags, NULL);
    if (code != SQLITE_OK) return not_opened(c->handle, code, path, f);
    /* SQLite would open it for reading without an error, and the first change would fail. */
    if (writer && sqlite3_db_readonly(c->handle, "main") == 1)
        return fault_set(f, ERR_STORE_UNAVAILABLE, "", "store: %s may not be written", path);
    enum err err = settle(d, writer, f);
    return err == ERR_OK ? err
                         : fault_set(f, err, "", "store: %s: %s", path, text_of(c->handle, err));
}

static void close_connection(struct database *d)
{
    struct connection *c = d->own;
    if (c == NULL) return;
    sqlite3_close(c->handle);
    free(c);
}

/* ---- statements ---- */

static enum err prepare(struct statement *s)
{
    sqlite3_stmt *own = NULL;
    int code = sqlite3_prepare_v3(handle_of(s->database), s->sql, -1, SQLITE_PREPARE_PERSISTENT,
                                  &own, NULL);
    check((code & 0xff) != SQLITE_ERROR && (code & 0xff) != SQLITE_MISUSE); /* our SQL is wrong */
    s->own = own;
    return err_from_sqlite(handle_of(s->database), code);
}

static void forget(struct statement *s) { sqlite3_finalize(s->own); }

static void bind(struct statement *s, int at, const struct value *v)
{
    int code;
    if (v->is_null)
        code = sqlite3_bind_null(s->own, at);
    else if (v->type == BOUND_NUMBER)
        code = sqlite3_bind_int64(s->own, at, v->number);
    else if (v->type == BOUND_BLOB)
        code = sqlite3_bind_blob(s->own, at, v->bytes.bytes, (int)v->bytes.size, SQLITE_STATIC);
    else
        code = sqlite3_bind_text(s->own, at, v->bytes.bytes, (int)v->bytes.size, SQLITE_STATIC);
    check(code == SQLITE_OK);
}

static enum err step(struct statement *s)
{
    return err_from_sqlite(handle_of(s->database), sqlite3_step(s->own));
}

static void reset(struct statement *s) { sqlite3_reset(s->own); }

static struct str text(struct statement *s, int at)
{
    const void *bytes = sqlite3_column_blob(s->own, at);
    if (sqlite3_column_type(s->own, at) == SQLITE_NULL) return (struct str){0};
    return bytes == NULL ? STR("") : str_of(bytes, (size_t)sqlite3_column_bytes(s->own, at));
}

static int64_t number(struct statement *s, int at) { return sqlite3_column_int64(s->own, at); }

/* ---- transactions ---- */

static enum err begin(struct database *d, bool writes)
{
    if (!writes) return statement_run(database_statement(d, "BEGIN"));
    if (atomic_load(&waiting) > 0 && atomic_load(&last_writer) == d->own)
        sqlite3_sleep(2 * LOCK_PAUSE_MS); /* one of the waiting connections takes it now */
    atomic_fetch_add(&waiting, 1);
    enum err err = statement_run(database_statement(d, "BEGIN IMMEDIATE"));
    atomic_fetch_sub(&waiting, 1);
    if (err == ERR_OK) atomic_store(&last_writer, (struct connection *)d->own);
    return err;
}

static void rollback(struct database *d)
{
    if (sqlite3_get_autocommit(handle_of(d)) == 0)
        sqlite3_exec(handle_of(d), "ROLLBACK", NULL, NULL, NULL);
}

static enum err commit(struct database *d)
{
    enum err err = statement_run(database_statement(d, "COMMIT"));
    if (err != ERR_OK) rollback(d);
    return err;
}

static uint64_t changes(struct database *d) { return (uint64_t)sqlite3_changes64(handle_of(d)); }

uint64_t database_last_id(struct database *d)
{
    return (uint64_t)sqlite3_last_insert_rowid(handle_of(d));
}

static int is_late(void *connection)
{
    return world_monotonic_ns() > ((const struct connection *)connection)->deadline_ns;
}

static void deadline(struct database *d, uint64_t monotonic_ns)
{
    struct connection *c = d->own;
    c->deadline_ns = monotonic_ns;
    sqlite3_progress_handler(c->handle, monotonic_ns == 0 ? 0 : PROGRESS_STEPS,
                             monotonic_ns == 0 ? NULL : is_late, c);
}

static enum err execute(struct database *d, const char *sql, struct fault *f)
{
    int code = sqlite3_exec(handle_of(d), sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? ERR_OK : fault(d, err_from_sqlite(handle_of(d), code), f);
}

const struct database_kind database_sqlite = {
    .prepare = prepare,
    .forget = forget,
    .bind = bind,
    .step = step,
    .reset = reset,
    .text = text,
    .number = number,
    .present = present,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .changes = changes,
    .deadline = deadline,
    .fault = fault,
    .execute = execute,
    .close = close_connection,
};
