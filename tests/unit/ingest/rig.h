/* rig.h - a store in a directory of its own, events for it, and SQL to look behind its back. */
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

#include "base/world.h"
#include "pipeline/ingest/ingest.h"
#include "pipeline/ingest/store.h"

#define EPOCH_1 "1111111111111111"
#define EPOCH_2 "2222222222222222"
#define NOTHING_BEFORE "{\"epoch\":\"\",\"seq\":0}"

struct rig {
    char folder[64], path[96];
    struct store *store;
    struct buf body;
    struct ingest_result result;
    struct fault fault;
    struct buf out;
};

static struct str rig_any[] = {STR("*")};
static const struct globs rig_all = {rig_any, 1};

static inline void rig_open(struct rig *r)
{
    enum err err = store_open(r->path, true, &r->store, &r->fault);
    if (err != ERR_OK) fail_msg("store_open: %s", r->fault.text);
}

static inline int rig_set_up(void **state)
{
    struct rig *r = calloc(1, sizeof *r);
    snprintf(r->folder, sizeof r->folder, "/tmp/writ-ingest-XXXXXX");
    assert_non_null(mkdtemp(r->folder));
    snprintf(r->path, sizeof r->path, "%s/platform.db", r->folder);
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

/* One number out of the database, through a connection of its own. */
static inline int64_t rig_number(const struct rig *r, const char *sql)
{
    sqlite3 *d;
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_open_v2(r->path, &d, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_busy_timeout(d, 5000);
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
    sqlite3 *d;
    assert_int_equal(sqlite3_open_v2(r->path, &d, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_busy_timeout(d, 5000);
    if (sqlite3_exec(d, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sqlite3_errmsg(d), sql);
    sqlite3_close(d);
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

static inline enum err send_from(struct rig *r, const char *node, const char *epoch,
                                 uint64_t first_seq)
{
    const struct ingest_batch batch = {.node = str_from(node),
                                       .journal = STR("0"),
                                       .epoch = str_from(epoch),
                                       .first_seq = first_seq,
                                       .body = buf_view(&r->body),
                                       .tenants = &rig_all,
                                       .now_ms = world_now_ms()};
    r->fault.text[0] = '\0';
    return ingest_stream(r->store, &batch, &r->result, &r->fault);
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
                                  .now_ms = world_now_ms(),
                                  .tenant = STR("*"),
                                  .key_id = STR("key_1")};
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_set_up, rig_tear_down)

#endif
