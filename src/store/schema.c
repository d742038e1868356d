/* schema.c - runs the missing steps of the schema on a store. See schema.h. */
#include "store/schema.h"

#include "base/log.h"
#include "base/planted.h"
#include "base/world.h"
#include "store/database.h"

enum { APPLICATION_ID = 0x77726974 /* "writ" */ };

/* Gives a new database an identity, by which an engine notices that it was replaced. */
static enum err found(struct database *d, struct fault *f)
{
    uint8_t bytes[16];
    char text[32];
    struct buf b = buf_over(text, sizeof text);
    world_random(bytes, sizeof bytes);
    buf_put_hex(&b, bytes, sizeof bytes);
    struct statement *s = database_statement(
        d, "INSERT INTO store (one, log_id, revision, created_at) VALUES (1, ?1, 1, ?2)");
    bind_text(s, 1, buf_view(&b));
    bind_u64(s, 2, world_now_ms());
    enum err err = statement_run(s);
    return err == ERR_OK ? ERR_OK : database_fault(d, err, f);
}

static enum err one_number(struct database *d, const char *sql, uint64_t *ret, struct fault *f)
{
    struct statement *s = database_statement(d, sql);
    enum err err = statement_step(s);
    if (err == ERR_OK) *ret = column_u64(s, 0);
    statement_reset(s);
    return err == ERR_OK ? ERR_OK : database_fault(d, err, f);
}

static enum err version_read(struct database *d, uint64_t *ret, struct fault *f)
{
    static const char sqlite[] = "PRAGMA user_version",
                      postgres[] = "SELECT max(version) FROM schema_version";
    return one_number(d, database_is_postgres(d) ? postgres : sqlite, ret, f);
}

static enum err version_write(struct database *d, uint64_t version, struct fault *f)
{
    char sql[128];
    struct buf b = buf_over(sql, sizeof sql - 1);
    if (database_is_postgres(d))
        buf_printf(&b, "INSERT INTO schema_version VALUES (%llu, %llu)",
                   (unsigned long long)version, (unsigned long long)world_now_ms());
    else
        buf_printf(&b, "PRAGMA application_id = %d; PRAGMA user_version = %llu", APPLICATION_ID,
                   (unsigned long long)version);
    sql[b.size] = '\0';
    return database_execute(d, sql, f);
}

static enum err step_up(struct database *d, uint64_t version, struct fault *f)
{
    const struct schema_step *steps = database_is_postgres(d) ? schema_postgres : schema_sqlite;
    enum err err = ERR_OK;
    for (uint64_t i = version; i < SCHEMA_NEWEST && err == ERR_OK; i++) {
        const char *identity = planted("no_dedupe") ? steps[i].no_identity : steps[i].identity;
        err = database_execute(d, steps[i].sql, f);
        if (err == ERR_OK && identity != NULL) err = database_execute(d, identity, f);
        if (err == ERR_OK && i == 0) err = found(d, f);
        if (err == ERR_OK) err = version_write(d, i + 1, f);
    }
    return err;
}

static enum err check_owner(struct database *d, uint64_t version, struct fault *f)
{
    uint64_t application = APPLICATION_ID;
    enum err err = ERR_OK;
    if (!database_is_postgres(d) && version > 0)
        err = one_number(d, "PRAGMA application_id", &application, f);
    if (err == ERR_OK && version > SCHEMA_NEWEST)
        err = fault_set(
            f, ERR_BAD_VALUE, "",
            "store: made by a newer program (schema %llu, this one knows %d); start the newer one again, or restore "
            "the backup that was made before it",
            (unsigned long long)version, SCHEMA_NEWEST);
    if (err == ERR_OK && application != APPLICATION_ID)
        err = fault_set(f, ERR_BAD_VALUE, "", "store: this is a database of another program");
    return err;
}

/* Before the first step PostgreSQL has no schema version: a table of one column is made for it. Two
 * platforms that start at once on an empty database take turns here. */
static enum err begin(struct database *d, struct fault *f)
{
    if (!database_is_postgres(d)) {
        enum err err = database_begin(d);
        return err == ERR_OK ? ERR_OK : database_fault(d, err, f);
    }
    enum err err = database_execute(d, "BEGIN", f);
    if (err == ERR_OK) err = database_patient(d);
    if (err != ERR_OK) return err;
    return database_execute(
        d,
        "SELECT pg_advisory_xact_lock(2004444532);" /* the same four letters */
        "CREATE TABLE IF NOT EXISTS schema_version (version bigint PRIMARY KEY, made_at bigint NOT "
        "NULL);",
        f);
}

static enum err end(struct database *d, enum err err, struct fault *f)
{
    if (database_is_postgres(d)) {
        if (err == ERR_OK) return database_execute(d, "COMMIT", f);
        (void)database_execute(d, "ROLLBACK", NULL);
        return err;
    }
    if (err != ERR_OK) {
        database_rollback(d);
        return err;
    }
    err = database_commit(d);
    return err == ERR_OK ? ERR_OK : database_fault(d, err, f);
}

enum err database_check_schema(struct database *d, struct fault *f)
{
    uint64_t version;
    enum err err = version_read(d, &version, f);
    if (err != ERR_OK || version == SCHEMA_NEWEST) return err;
    return fault_set(f, ERR_STORE_UNAVAILABLE, "",
                     "store: it has schema %llu now, and this program knows %d: %s",
                     (unsigned long long)version, SCHEMA_NEWEST,
                     version > SCHEMA_NEWEST
                         ? "a newer program has changed it: upgrade this program, too"
                         : "an older database was restored: restart this program");
}

/* No writer may be active in the old schema. A writer that waits checks the schema again
 * afterwards. */
static enum err wait_for_writers(struct database *d, struct fault *f)
{
    return database_is_postgres(d) ? database_execute(d, "SELECT 1 FROM marks FOR UPDATE", f)
                                   : ERR_OK;
}

static enum err is_newest(struct database *d, bool *ret, struct fault *f)
{
    uint64_t version = 0, made = 1;
    enum err err = ERR_OK;
    *ret = false;
    if (database_is_postgres(d))
        err = one_number(d,
                         "SELECT CASE WHEN to_regclass('schema_version') IS NULL THEN 0 ELSE 1 END",
                         &made, f);
    if (err == ERR_OK && made == 1) err = version_read(d, &version, f);
    *ret = version == SCHEMA_NEWEST;
    return err;
}

enum err database_migrate(struct database *d, struct fault *f)
{
    uint64_t version;
    bool newest;
    enum err err = is_newest(d, &newest, f);
    if (err != ERR_OK || newest) return err;
    err = begin(d, f);
    if (err != ERR_OK) return err;
    /* Again, now with the lock. */
    err = version_read(d, &version, f);
    if (err == ERR_OK) err = check_owner(d, version, f);
    bool is_older = err == ERR_OK && version > 0 && version < SCHEMA_NEWEST;
    if (is_older)
        log_text(
            LOG_INFO, "store_upgrade",
            "from schema %llu to %d; it waits for open queries of the events, and may take a while",
            (unsigned long long)version, SCHEMA_NEWEST);
    if (is_older) err = wait_for_writers(d, f);
    if (err == ERR_OK) err = step_up(d, version, f);
    err = end(d, err, f);
    if (is_older && err == ERR_OK)
        log_text(LOG_INFO, "store_upgraded", "the store has schema %d", SCHEMA_NEWEST);
    return err;
}
