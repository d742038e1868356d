/* rig.h - a store of its own for each test, events for it, and SQL to look behind its back.
 *
 * Every test runs twice: over SQLite in a directory of its own, and over PostgreSQL in a
 * schema of its own of a server that the program starts (rig_run). What only one of them
 * has is a test of that one. */
#ifndef TESTS_INGEST_RIG_H
#define TESTS_INGEST_RIG_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/world.h"
#include "pipeline/ingest/consume.h"
#include "pipeline/ingest/post.h"
#include "store/store.h"
#include "store/set.h"
#include "unit/ingest/server.h"

#define EPOCH_1 "1111111111111111"
#define EPOCH_2 "2222222222222222"
#define NOTHING_BEFORE "{\"epoch\":\"\",\"seq\":0}"

struct rig {
    char folder[64], path[256]; /* path: or the address */
    char schema[32];            /* of PostgreSQL */
    struct store *store;
    struct buf body;
    struct ingest_result result;
    struct fault fault;
    struct buf out;
};

static struct str rig_any[] = {STR("*")};
static const struct globs rig_all = {rig_any, 1};

static const struct pepper rig_pepper = {{1}};

static inline void rig_open(struct rig *r)
{
    enum err err = store_open(r->path, true, &r->store, &r->fault);
    if (err == ERR_OK) {
        store_share_pepper(r->store, &rig_pepper);
        err = set_found(r->store, 0, &r->fault);
    }
    if (err != ERR_OK) fail_msg("store_open: %s", r->fault.text);
}

static bool rig_is_postgres; /* now */

static inline PGconn *rig_connect(const char *address)
{
    PGconn *c = PQconnectdb(address);
    if (PQstatus(c) != CONNECTION_OK) fail_msg("%s", PQerrorMessage(c));
    return c;
}

static inline PGresult *rig_query(PGconn *c, const char *sql)
{
    PGresult *result = PQexec(c, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        fail_msg("%s: %s", PQresultErrorMessage(result), sql);
    return result;
}

static inline void rig_make_schema(struct rig *r)
{
    static unsigned made;
    char sql[64], address[256];
    snprintf(r->schema, sizeof r->schema, "t%u", ++made);
    server_address(r->path, sizeof r->path, r->schema);
    server_address(address, sizeof address, "public");
    snprintf(sql, sizeof sql, "CREATE SCHEMA %s", r->schema);
    PGconn *c = rig_connect(address);
    PQclear(rig_query(c, sql));
    PQfinish(c);
}

static inline int rig_set_up(void **state)
{
    struct rig *r = calloc(1, sizeof *r);
    snprintf(r->folder, sizeof r->folder, "/tmp/writ-ingest-XXXXXX");
    assert_non_null(mkdtemp(r->folder));
    snprintf(r->path, sizeof r->path, "%s/platform.db", r->folder);
    if (rig_is_postgres) rig_make_schema(r);
    buf_init(&r->body, 1 << 12, 64 << 20);
    buf_init(&r->out, 1 << 12, 64 << 20);
    rig_open(r);
    *state = r;
    return 0;
}

static inline int rig_tear_down(void **state)
{
    struct rig *r = *state;
    store_close(r->store);
    static const char *const files[] = {"platform.db", "platform.db-wal", "platform.db-shm",
                                        "pepper"};
    for (size_t i = 0; i < 4; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", r->folder, files[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(r->folder), 0);
    buf_fini(&r->body);
    buf_fini(&r->out);
    free(r);
    return 0;
}

static inline sqlite3 *rig_sqlite(const struct rig *r)
{
    sqlite3 *d;
    assert_int_equal(sqlite3_open_v2(r->path, &d, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_busy_timeout(d, 5000);
    return d;
}

/* One number (or truth) out of the database, through a connection of its own. */
static inline int64_t rig_number(const struct rig *r, const char *sql)
{
    if (rig_is_postgres) {
        PGconn *c = rig_connect(r->path);
        PGresult *result = rig_query(c, sql);
        const char *text = PQntuples(result) == 1 ? PQgetvalue(result, 0, 0) : "";
        int64_t number = strcmp(text, "t") == 0 ? 1 : strtoll(text, NULL, 10);
        PQclear(result);
        PQfinish(c);
        return number;
    }
    sqlite3_stmt *s;
    sqlite3 *d = rig_sqlite(r);
    if (sqlite3_prepare_v2(d, sql, -1, &s, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sqlite3_errmsg(d), sql);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(d);
    return value;
}

static inline void rig_sql(const struct rig *r, const char *sql)
{
    if (rig_is_postgres) {
        PGconn *c = rig_connect(r->path);
        PQclear(rig_query(c, sql));
        PQfinish(c);
        return;
    }
    sqlite3 *d = rig_sqlite(r);
    if (sqlite3_exec(d, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sqlite3_errmsg(d), sql);
    sqlite3_close(d);
}

/* From now on this change of this table fails, where `when` is true. */
static inline void rig_forbid(const struct rig *r, const char *change, const char *table,
                              const char *when)
{
    char sql[512];
    const char *form =
        rig_is_postgres
            ? "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''full''; END';"
              "CREATE TRIGGER no BEFORE %s ON %s FOR EACH ROW WHEN (%s) EXECUTE FUNCTION no()"
            : "CREATE TRIGGER no BEFORE %s ON %s WHEN %s BEGIN SELECT RAISE(ABORT, 'full'); END";
    struct buf b = buf_over(sql, sizeof sql - 1);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    buf_printf(&b, form, change, table, when);
#pragma GCC diagnostic pop
    sql[b.size] = '\0';
    rig_sql(r, sql);
}

static inline void rig_permit(const struct rig *r, const char *table)
{
    char sql[128];
    snprintf(sql, sizeof sql,
             rig_is_postgres ? "DROP TRIGGER no ON %s; DROP FUNCTION no" : "DROP TRIGGER no",
             table);
    rig_sql(r, sql);
}

/* ---- keys ---- */

#define KEY_1 "key_00000000000000000000000001"
#define KEY_2 "key_00000000000000000000000002"
#define REVOKED ",\"revoked_at\":\"2026-01-02T00:00:00.000Z\""

/* A row of a key; how it ends: "" (never), or members with a comma before them. */
static inline void rig_key(const struct rig *r, const char *id, const char *end)
{
    char sql[512];
    snprintf(sql, sizeof sql,
             "INSERT INTO keys (id, tenant_id, key) VALUES ('%s', '*', '{\"created_at\":"
             "\"2026-01-01T00:00:00.000Z\",\"id\":\"%s\",\"name\":\"root\",\"owner\":\"r\","
             "\"roles\":[\"admin\"],\"tenant\":\"*\"%s}')",
             id, id, end);
    rig_sql(r, sql);
}

/* The rows that were written as SQL become valid. */
static inline void rig_adopt(struct rig *r)
{
    const struct actor by = {.principal = STR("rig"), .now_ms = world_now_ms()};
    buf_clear(&r->out);
    if (set_adopt(r->store, &by, &r->out, &r->fault) != ERR_OK) fail_msg("%s", r->fault.text);
    buf_clear(&r->out);
}

/* ---- events ---- */

static inline void put_event(struct buf *b, unsigned n, const char *tenant)
{
    buf_printf(b,
               "{\"action\":\"get_x\",\"actor\":\"bot\",\"decision\":\"allow\",\"event_id\":\"evt_%"
               "026u\",\"kind\":\"decision\","
               "\"mode\":\"live\",\"rule\":\"allow:reads\",\"tenant_id\":\"%s\",\"timestamp\":"
               "\"2026-11-20T09:30:00.123Z\","
               "\"trace_id\":\"trace-%u\"}",
               n, tenant, n);
}

static inline void put_started(struct buf *b, unsigned n, const char *previous)
{
    buf_printf(b,
               "{\"event_id\":\"evt_%026u\",\"kind\":\"engine.started\",\"previous\":%s,\"tenant_"
               "id\":\"default\","
               "\"timestamp\":\"2026-11-20T09:30:00.123Z\"}",
               n, previous);
}

/* r->body becomes lines: engine.started (where `previous` is given), then events first_n … */
static inline void fill_batch(struct rig *r, const char *previous, unsigned first_n, unsigned count)
{
    buf_clear(&r->body);
    if (previous != NULL) {
        put_started(&r->body, 900000 + first_n, previous);
        buf_put_byte(&r->body, '\n');
    }
    for (unsigned i = 0; i < count; i++) {
        put_event(&r->body, first_n + i, "default");
        buf_put_byte(&r->body, '\n');
    }
}

/* Fills in the MAC, which stays valid until the next call. */
static inline void rig_sign(struct ingest_batch *b)
{
    static char hex[SHA256_HEX];
    struct sha256 of_all = pepper_derive(&rig_pepper, STR(RUN_KEY_LABEL));
    size_t lines = 0;
    for (size_t i = 0; i < b->body.size; i++) lines += b->body.bytes[i] == '\n';
    if (b->epoch.size != RUN_EPOCH_BYTES || lines > LIMIT_INGEST_LINES) return;
    sha256_write_hex(ingest_mac(&of_all, b), hex);
    b->mac = str_of(hex, sizeof hex);
}

/* As an engine sends it. */
static inline enum err rig_ingest(struct rig *r, const struct ingest_batch *unsigned_batch)
{
    struct ingest_batch b = *unsigned_batch;
    rig_sign(&b);
    return ingest_stream(r->store, &b, &r->result, &r->fault);
}

/* As an engine signs a message: it is a run of its own. `hex` is the message's from then on. */
static inline void rig_sign_message(struct message *m, char hex[SHA256_HEX])
{
    struct sha256 of_all = pepper_derive(&rig_pepper, STR(RUN_KEY_LABEL));
    struct ingest_batch b = {.node = m->headers.node,
                             .journal = m->headers.journal,
                             .epoch = m->headers.epoch,
                             .body = m->value};
    if (!str_to_u64(m->headers.seq, &b.first_seq) || b.epoch.size != RUN_EPOCH_BYTES) return;
    sha256_write_hex(ingest_mac(&of_all, &b), hex);
    m->headers.mac = str_of(hex, SHA256_HEX);
}

static inline enum err send_from(struct rig *r, const char *node, const char *epoch,
                                 uint64_t first_seq)
{
    const struct ingest_batch batch = {.node = str_from(node),
                                       .journal = STR("0"),
                                       .epoch = str_from(epoch),
                                       .first_seq = first_seq,
                                       .body = buf_view(&r->body),
                                       .tenants = &rig_all,
                                       .now_ms = world_now_ms(),
                                       .holds_newer = true};
    r->fault.text[0] = '\0';
    return rig_ingest(r, &batch);
}

static inline enum err send(struct rig *r, const char *epoch, uint64_t first_seq)
{
    return send_from(r, "node-1", epoch, first_seq);
}

static inline void assert_result(const struct rig *r, uint64_t accepted, uint64_t duplicates,
                                 uint64_t clashes, uint64_t next_seq)
{
    assert_int_equal(r->result.accepted, accepted);
    assert_int_equal(r->result.duplicates, duplicates);
    assert_int_equal(r->result.clashes, clashes);
    assert_int_equal(r->result.next_seq, next_seq);
}

static inline enum err post(struct rig *r, const char *body, bool ndjson)
{
    const struct ingest_post p = {.body = str_from(body),
                                  .ndjson = ndjson,
                                  .tenants = &rig_all,
                                  .restores = true,
                                  .now_ms = world_now_ms(),
                                  .tenant = STR("*")};
    buf_clear(&r->out);
    r->fault = (struct fault){0};
    return ingest_post(r->store, &p, &r->out, &r->result, &r->fault);
}

static inline const char *out_text(struct rig *r)
{
    buf_put_byte(&r->out, '\0');
    r->out.size--;
    return r->out.bytes;
}

/* The tests over SQLite, then over PostgreSQL, where this machine has it. */
#define rig_run(tests) rig_run_both((tests), sizeof(tests) / sizeof((tests)[0]))

static inline int rig_run_both(const struct CMUnitTest *tests, size_t count)
{
    struct CMUnitTest of_both[64];
    size_t both = 0;
    check(count <= sizeof of_both / sizeof of_both[0]);
    for (size_t i = 0; i < count; i++)
        if (tests[i].initial_state == NULL) of_both[both++] = tests[i];
    int failures = _cmocka_run_group_tests("SQLite", of_both, both, NULL, NULL);
    if (!server_start()) return failures;
    rig_is_postgres = true;
    failures += _cmocka_run_group_tests("PostgreSQL", tests, count, NULL, NULL);
    rig_is_postgres = false;
    return failures;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)
/* SQLite has nothing like it. */
#define TEST_OF_POSTGRES(name)                                                                     \
    cmocka_unit_test_prestate_setup_teardown(name, rig_set_up, rig_tear_down, &rig_is_postgres)

#endif
