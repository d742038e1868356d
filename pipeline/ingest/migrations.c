/* migrations.c - the schema, step by step.
 *
 * PRAGMA user_version counts the steps that a file has been through; the missing ones run in one
 * transaction when the writer opens it. A step that has been released is never edited: add one.
 * schemas/store.sql tells analysts the same as it stands after the last step, and a test compares
 * the two. */
#include "pipeline/ingest/database.h"

#include "base/planted.h"
#include "base/world.h"

enum { APPLICATION_ID = 0x77726974 /* "writ" */ };

static const char step_1[] =
    "CREATE TABLE store (one INTEGER PRIMARY KEY CHECK (one = 1), log_id TEXT NOT NULL, revision "
    "INTEGER NOT NULL,"
    " created_at INTEGER NOT NULL);"

    /* What queries select by is kept in columns of its own; the rest is read out of the event's
     * JSON when somebody asks for it (by the view below), so that it costs nothing to store. */
    "CREATE TABLE records (id INTEGER PRIMARY KEY, created_at INTEGER NOT NULL,"
    " node TEXT, journal TEXT, epoch TEXT, seq INTEGER,"
    " event_id TEXT NOT NULL, kind TEXT NOT NULL, tenant_id TEXT NOT NULL, trace_id TEXT, "
    "timestamp INTEGER NOT NULL,"
    " actor TEXT, user_id TEXT, action TEXT, decision TEXT, rule TEXT, event TEXT NOT NULL,"
    " CHECK ((node IS NULL) = (seq IS NULL)));"

    "CREATE VIEW events AS SELECT id,"
    " strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch') AS created_at, node, "
    "journal, epoch, seq,"
    " json_extract(event, '$.acting_for') AS acting_for, action, actor, json_extract(event, "
    "'$.args') AS args,"
    " json_extract(event, '$.binding_hash') AS binding_hash, json_extract(event, '$.confidence') "
    "AS confidence,"
    " json_extract(event, '$.confidence_used') AS confidence_used, json_extract(event, "
    "'$.context') AS context,"
    " json_extract(event, '$.count') AS count, decision, json_extract(event, '$.engine_version') "
    "AS engine_version,"
    " event_id, json_extract(event, '$.expires_at') AS expires_at, json_extract(event, "
    "'$.input_hash') AS input_hash,"
    " json_extract(event, '$.key_id') AS key_id, kind, json_extract(event, '$.latency_ms') AS "
    "latency_ms,"
    " json_extract(event, '$.mode') AS mode, json_extract(event, '$.output_hash') AS output_hash,"
    " json_extract(event, '$.policy_digest') AS policy_digest, json_extract(event, "
    "'$.policy_name') AS policy_name,"
    " json_extract(event, '$.policy_version') AS policy_version, json_extract(event, '$.previous') "
    "AS previous,"
    " json_extract(event, '$.reason') AS reason, json_extract(event, '$.redemption_id') AS "
    "redemption_id,"
    " json_extract(event, '$.request_id') AS request_id, json_extract(event, '$.resolution_note') "
    "AS resolution_note,"
    " json_extract(event, '$.resolved_by') AS resolved_by, json_extract(event, '$.resource') AS "
    "resource,"
    " json_extract(event, '$.resource_properties') AS resource_properties,"
    " json_extract(event, '$.review_id') AS review_id, rule, json_extract(event, '$.safe_args') AS "
    "safe_args,"
    " json_extract(event, '$.safe_tool') AS safe_tool, json_extract(event, '$.scope') AS scope, "
    "tenant_id,"
    " json_extract(event, '$.timestamp') AS timestamp, json_extract(event, '$.token_id') AS "
    "token_id, trace_id, user_id,"
    " json_extract(event, '$.would_have') AS would_have, event FROM records;"

    "CREATE TABLE places (segment INTEGER NOT NULL, tenant_id TEXT NOT NULL, member INTEGER NOT "
    "NULL,"
    " value TEXT NOT NULL, blocks INTEGER NOT NULL, PRIMARY KEY (segment, tenant_id, member, "
    "value)) WITHOUT ROWID;"

    "CREATE TABLE traces (segment INTEGER NOT NULL, hash INTEGER NOT NULL, id INTEGER NOT NULL,"
    " PRIMARY KEY (segment, hash, id)) WITHOUT ROWID;"

    "CREATE TABLE minutes (tenant_id TEXT NOT NULL, minute INTEGER NOT NULL, first_id INTEGER NOT "
    "NULL,"
    " last_id INTEGER NOT NULL, PRIMARY KEY (tenant_id, minute)) WITHOUT ROWID;"

    "CREATE TABLE streams (node TEXT NOT NULL, journal TEXT NOT NULL, epoch TEXT NOT NULL, "
    "next_seq INTEGER NOT NULL,"
    " updated_at INTEGER NOT NULL, PRIMARY KEY (node, journal)) WITHOUT ROWID;"

    "CREATE TABLE quarantine (id INTEGER PRIMARY KEY, created_at INTEGER NOT NULL, reason TEXT NOT "
    "NULL,"
    " node TEXT NOT NULL, journal TEXT NOT NULL, epoch TEXT NOT NULL, seq INTEGER NOT NULL, digest "
    "TEXT NOT NULL,"
    " event BLOB NOT NULL, UNIQUE (node, journal, seq, digest));"

    "CREATE TABLE policies (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, tenant_id TEXT "
    "NOT NULL,"
    " name TEXT NOT NULL, description TEXT, is_active INTEGER NOT NULL, version INTEGER NOT NULL,"
    " revision INTEGER NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, "
    "updated_by TEXT NOT NULL,"
    " UNIQUE (tenant_id, name), FOREIGN KEY (tenant_id, name, version)"
    " REFERENCES policy_versions (tenant_id, name, version));"
    "CREATE TABLE policy_versions (tenant_id TEXT NOT NULL, name TEXT NOT NULL, version INTEGER "
    "NOT NULL,"
    " format TEXT NOT NULL, digest TEXT NOT NULL, content TEXT NOT NULL, created_at INTEGER NOT "
    "NULL,"
    " created_by TEXT NOT NULL, PRIMARY KEY (tenant_id, name, version));"

    "CREATE TABLE keys (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, tenant_id TEXT NOT "
    "NULL,"
    " key TEXT NOT NULL, name TEXT AS (json_extract(key, '$.name')), owner TEXT AS "
    "(json_extract(key, '$.owner')),"
    " roles TEXT AS (json_extract(key, '$.roles')), created_at TEXT AS (json_extract(key, "
    "'$.created_at')),"
    " expires_at TEXT AS (json_extract(key, '$.expires_at')), revoked_at TEXT AS "
    "(json_extract(key, '$.revoked_at')));"
    "CREATE INDEX keys_tenant ON keys (tenant_id);"

    "CREATE TABLE idempotency (tenant_id TEXT NOT NULL, key_id TEXT NOT NULL, route TEXT NOT NULL, "
    "name TEXT NOT NULL,"
    " digest TEXT NOT NULL, status INTEGER NOT NULL, answer TEXT NOT NULL, created_at INTEGER NOT "
    "NULL,"
    " PRIMARY KEY (tenant_id, key_id, route, name)) WITHOUT ROWID;"
    "CREATE INDEX idempotency_age ON idempotency (created_at);";

/* The two identities of an event. */
static const char step_1_identity[] =
    "CREATE UNIQUE INDEX records_event_id ON records (event_id);"
    "CREATE UNIQUE INDEX records_source ON records (node, journal, seq)"
    " WHERE node IS NOT NULL;";
static const char step_1_no_identity[] =
    "CREATE INDEX records_event_id ON records (event_id);"
    "CREATE INDEX records_source ON records (node, journal, seq)"
    " WHERE node IS NOT NULL;";

/* Readers of Kafka's audit topic. */
static const char step_2[] =
    "CREATE TABLE consumers (topic TEXT NOT NULL, owner TEXT NOT NULL, beat INTEGER NOT NULL, seen_at "
    "INTEGER NOT NULL,"
    " PRIMARY KEY (topic, owner)) WITHOUT ROWID;"
    "CREATE TABLE offsets (topic TEXT NOT NULL, partition INTEGER NOT NULL, next_offset INTEGER NOT "
    "NULL,"
    " owner TEXT NOT NULL, updated_at INTEGER NOT NULL, PRIMARY KEY (topic, partition)) WITHOUT ROWID;"
    "CREATE TABLE replays (node TEXT NOT NULL, journal TEXT NOT NULL, from_seq INTEGER NOT NULL,"
    " asked_at INTEGER NOT NULL, PRIMARY KEY (node, journal)) WITHOUT ROWID;"
    "PRAGMA user_version = 2;";

static enum err run(struct database *d, const char *sql, struct fault *f)
{
    if (sqlite3_exec(d->handle, sql, NULL, NULL, NULL) == SQLITE_OK) return ERR_OK;
    return database_fault(d, sqlite3_errcode(d->handle) == SQLITE_FULL ? ERR_NO_SPACE : ERR_IO, f);
}

/* A fresh database gets an identity, by which an engine notices that it was replaced. */
static enum err found(struct database *d, struct fault *f)
{
    uint8_t bytes[16];
    char text[32];
    struct buf b = buf_over(text, sizeof text);
    world_random(bytes, sizeof bytes);
    buf_put_hex(&b, bytes, sizeof bytes);
    sqlite3_stmt *s = database_statement(
        d, "INSERT INTO store (one, log_id, revision, created_at) VALUES (1, ?, 1, ?)");
    bind_text(s, 1, buf_view(&b));
    bind_u64(s, 2, world_now_ms());
    enum err err = statement_run(s);
    return err == ERR_OK ? ERR_OK : database_fault(d, err, f);
}

static enum err step_up(struct database *d, uint64_t version, struct fault *f)
{
    enum err err = ERR_OK;
    if (version < 1) {
        err = run(d, step_1, f);
        if (err == ERR_OK)
            err = run(d, planted("no_dedupe") ? step_1_no_identity : step_1_identity, f);
        if (err == ERR_OK) err = found(d, f);
        if (err == ERR_OK)
            err = run(d, "PRAGMA application_id = 0x77726974; PRAGMA user_version = 1;", f);
    }
    if (version < 2 && err == ERR_OK) err = run(d, step_2, f);
    return err;
}

static enum err pragma_u64(struct database *d, const char *sql, uint64_t *ret, struct fault *f)
{
    sqlite3_stmt *s = database_statement(d, sql);
    enum err err = statement_step(s);
    if (err != ERR_OK) return database_fault(d, err, f);
    *ret = column_u64(s, 0);
    sqlite3_reset(s);
    return ERR_OK;
}

enum { NEWEST = 2 };

enum err database_migrate(struct database *d, struct fault *f)
{
    uint64_t version, application;
    enum err err = pragma_u64(d, "PRAGMA user_version", &version, f);
    if (err != ERR_OK || version == NEWEST) return err;
    err = database_begin(d);
    if (err != ERR_OK) return database_fault(d, err, f);
    /* Again, now that nobody else can be at it. */
    err = pragma_u64(d, "PRAGMA user_version", &version, f);
    if (err == ERR_OK) err = pragma_u64(d, "PRAGMA application_id", &application, f);
    if (err == ERR_OK && version > NEWEST)
        err = fault_set(f, ERR_BAD_VALUE, "",
                        "store: made by a newer program (schema %llu, this one knows %d)",
                        (unsigned long long)version, NEWEST);
    if (err == ERR_OK && version > 0 && application != APPLICATION_ID)
        err = fault_set(f, ERR_BAD_VALUE, "", "store: a database of another program");
    if (err == ERR_OK) err = step_up(d, version, f);
    if (err != ERR_OK) {
        database_rollback(d);
        return err;
    }
    err = database_commit(d);
    return err == ERR_OK ? ERR_OK : database_fault(d, err, f);
}
