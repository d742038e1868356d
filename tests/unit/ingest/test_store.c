/* The store as a file: its schema, its identity, and who may open it. */
#include "rig.h"

#include "store/bundle.h"
#include "store/event_key.h"
#include "store/schema.h"
#include "store/store_inside.h"

#include <pthread.h>
#include <sys/stat.h>

#include "base/map.h"

/* The text without comments and blanks. */
static void squeeze(struct buf *out, struct str text)
{
    bool in_comment = false;
    for (size_t i = 0; i < text.size; i++) {
        if (!in_comment && text.bytes[i] == '-' && i + 1 < text.size && text.bytes[i + 1] == '-')
            in_comment = true;
        if (text.bytes[i] == '\n') in_comment = false;
        if (!in_comment && strchr(" \n\t", text.bytes[i]) == NULL) buf_put_byte(out, text.bytes[i]);
    }
}

/* Every object of a database, squeezed, in the order of names. */
static void put_schema(struct buf *out, sqlite3 *d)
{
    sqlite3_stmt *s;
    assert_int_equal(
        sqlite3_prepare_v2(d, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name",
                           -1, &s, NULL),
        SQLITE_OK);
    while (sqlite3_step(s) == SQLITE_ROW) {
        squeeze(out, str_from((const char *)sqlite3_column_text(s, 0)));
        buf_put_byte(out, '\n');
    }
    sqlite3_finalize(s);
}

static void read_file(struct buf *out, const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) fail_msg("%s: run me in the project's root", path);
    for (int c; (c = fgetc(file)) != EOF;) buf_put_byte(out, (char)c);
    buf_put_byte(out, '\0');
    fclose(file);
}

/* ---- PostgreSQL ---- */

/* What a schema holds, as PostgreSQL tells it: columns, indexes, constraints, views. */
static const char described[] =
    "SELECT string_agg(line, E'\\n' ORDER BY line) FROM ("
    "SELECT format('%s.%s %s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,"
    " a.attcollation::regcollation, a.attidentity::text || a.attgenerated::text) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
    " WHERE c.relnamespace = current_schema()::regnamespace AND a.attnum > 0 AND c.relkind IN ('r', 'p', 'v')"
    " UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()"
    " UNION ALL SELECT conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = "
    "current_schema()::regnamespace"
    " UNION ALL SELECT viewname || definition FROM pg_views WHERE schemaname = current_schema()"
    ") AS lines(line)";

static void describe(struct buf *out, const char *address, const char *schema)
{
    PGconn *c = rig_connect(address);
    PGresult *result = rig_query(c, described);
    struct str rest = str_from(PQgetvalue(result, 0, 0)), part = {0};
    struct str name = str_from(schema);
    /* Without the schema's own name, which definitions repeat. */
    while (rest.size > 0) {
        if (str_starts(rest, name) && rest.size > name.size && rest.bytes[name.size] == '.')
            rest = str_skip(rest, name.size + 1);
        part = str_of(rest.bytes, 1);
        buf_put(out, part);
        rest = str_skip(rest, 1);
    }
    buf_put_byte(out, '\0');
    PQclear(result);
    PQfinish(c);
}

static void compare_postgres(const struct rig *r, const char *text)
{
    struct buf documented, real;
    char address[256];
    buf_init(&documented, 1 << 12, 1 << 20);
    buf_init(&real, 1 << 12, 1 << 20);
    server_address(address, sizeof address, "doc");
    PGconn *c = rig_connect(address);
    PQclear(rig_query(c, "CREATE SCHEMA doc"));
    PQclear(rig_query(c, text));
    PQfinish(c);
    describe(&documented, address, "doc");
    describe(&real, r->path, r->schema);
    assert_string_equal(documented.bytes, real.bytes);
    buf_fini(&documented);
    buf_fini(&real);
}

static void the_documented_schema_is_the_programs_own(void **state)
{
    struct rig *r = *state;
    if (rig_is_postgres) {
        struct buf sql;
        buf_init(&sql, 1 << 12, 1 << 20);
        read_file(&sql, "schemas/store.postgres.sql");
        compare_postgres(r, sql.bytes);
        buf_fini(&sql);
        return;
    }
    struct buf text, documented, real;
    sqlite3 *d;
    buf_init(&text, 1 << 12, 1 << 20);
    buf_init(&documented, 1 << 12, 1 << 20);
    buf_init(&real, 1 << 12, 1 << 20);
    read_file(&text, "schemas/store.sql");
    assert_int_equal(sqlite3_open(":memory:", &d), SQLITE_OK);
    if (sqlite3_exec(d, text.bytes, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s", sqlite3_errmsg(d));
    put_schema(&documented, d);
    sqlite3_close(d);
    assert_int_equal(sqlite3_open(r->path, &d), SQLITE_OK);
    put_schema(&real, d);
    sqlite3_close(d);
    buf_put_byte(&documented, '\0');
    buf_put_byte(&real, '\0');
    assert_string_equal(documented.bytes, real.bytes);
    buf_fini(&text);
    buf_fini(&documented);
    buf_fini(&real);
}

/* What is edited into an old step is in new stores only, and with these all other tests begin. */
static void a_released_step_is_never_edited(void **state)
{
    (void)state;
    static const char released[SCHEMA_NEWEST][2][9] = {
        {"11c82942", "b2b469df"}, {"8369bbb9", "e3b0c442"}, {"600ee500", "e3b0c442"},
        {"b96c302f", "6d98bcfa"}, {"39858e0a", "dcf39b2b"}, {"39c5cf8e", "cc196215"},
        {"3a2d7f77", "0111a5bc"}, {"58012a35", "8375f160"}, {"3f84c3f4", "34d86c0b"},
        {"71ef7488", "4c532bd5"}, {"180c3aaa", "09283d45"}, {"63622c2c", "7d9b974b"},
        {"efea1296", "51d9cbbe"}, {"9b06b0d0", "216b7269"}, {"0cae70c0", "dda5085d"},
        {"ff70259e", "a2845d3f"}, {"5c5b615d", "c70e9e0e"}, {"13688668", "5c48287f"},
        {"3cdc7463", "e74510a4"}, {"e3b0c442", "e3b0c442"}, {"41ce9eab", "dceb06b6"},
        {"e3b0c442", "4d2467d5"},
    };
    for (size_t i = 0; i < 2 * SCHEMA_NEWEST; i++) {
        const struct schema_step *step = &(i % 2 == 0 ? schema_sqlite : schema_postgres)[i / 2];
        struct buf text;
        char hex[SHA256_HEX];
        buf_init(&text, 1 << 12, 1 << 20);
        buf_put(&text, str_from(step->sql));
        if (step->identity != NULL) buf_put(&text, str_from(step->identity));
        sha256_write_hex(sha256_once(buf_view(&text)), hex);
        if (memcmp(hex, released[i / 2][i % 2], 8) != 0)
            fail_msg("step %zu on %s is %.8s now", i / 2 + 1, i % 2 == 0 ? "SQLite" : "PostgreSQL",
                     hex);
        buf_fini(&text);
    }
}

static void the_view_has_every_member_of_the_event(void **state)
{
    struct rig *r = *state;
    static const char *const members[] = {
#define EVENT(name, type) #name,
#include "event/event.def"
#undef EVENT
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        char sql[128];
        const char *form = "SELECT count(*) FROM pragma_table_info('events') WHERE name = '%s'";
        if (rig_is_postgres)
            form =
                "SELECT count(*) FROM pg_attribute WHERE attrelid = 'events'::regclass AND attname = '%s'";
        struct buf b = buf_over(sql, sizeof sql - 1);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        buf_printf(&b, form, members[i]);
#pragma GCC diagnostic pop
        sql[b.size] = '\0';
        if (rig_number(r, sql) != 1) fail_msg("the view has no column %s", members[i]);
    }
}

static void the_view_shows_what_was_stored(void **state)
{
    struct rig *r = *state;
    assert_int_equal(post(r,
                          "{\"args\":{\"a\":[1,2]},\"confidence\":0.5,\"event_id\":\"evt_1\","
                          "\"kind\":\"decision\",\"reason\":\"so\","
                          "\"tenant_id\":\"t\",\"timestamp\":\"2026-11-20T09:30:00.123Z\"}",
                          false),
                     ERR_OK);
    static const char sqlite[] =
        "SELECT count(*) FROM events WHERE args = '{\"a\":[1,2]}' AND confidence = 0.5 AND reason = 'so'"
        " AND timestamp = '2026-11-20T09:30:00.123Z' AND node IS NULL AND length(created_at) = 24";
    static const char postgres[] =
        "SELECT count(*) FROM events WHERE args::text = '{\"a\":[1,2]}' AND confidence = 0.5 AND reason = 'so'"
        " AND timestamp = '2026-11-20T09:30:00.123Z' AND node IS NULL AND created_at > now() - interval '1 minute'";
    assert_int_equal(rig_number(r, rig_is_postgres ? postgres : sqlite), 1);
}

/* One such row, and a question that reads all columns would be an error. */
static void the_view_can_be_read_whatever_an_event_has(void **state)
{
    struct rig *r = *state;
    assert_int_equal(
        post(
            r,
            "{\"args\":{\"a\":\"x\\u0000\\u0000\",\"b\":\"\\\\u0000\",\"c\\u0000\":1},\"context\":\"\\u0000y\","
            "\"count\":1.0,\"event_id\":\"evt_1\",\"kind\":\"decision\",\"policy_version\":3e0,"
            "\"tenant_id\":\"t\",\"timestamp\":\"2026-11-20T09:30:00.123Z\"}",
            false),
        ERR_OK);
    static const char sqlite[] =
        "SELECT count(*) FROM events WHERE json_extract(args, '$.b') = '\\u0000' AND context = char(65533) || 'y'"
        " AND count = 1 AND policy_version = 3 AND instr(event, '\\u0000') > 0";
    static const char postgres[] =
        "SELECT count(*) FROM (SELECT *, events::text AS whole FROM events) AS r WHERE whole <> '' AND args ->> 'a' = E'x\\ufffd\\ufffd'"
        " AND args ->> 'b' = E'\\\\u0000' AND context #>> '{}' = E'\\ufffdy' AND count = 1 AND policy_version = 3"
        " AND strpos(event, E'\\\\u0000') > 0";
    assert_int_equal(rig_number(r, rig_is_postgres ? postgres : sqlite), 1);
}

/* As store.sql says: in an object of context as in a text, and in no other member. */
static void a_nul_in_a_context_is_shown_as_another_character(void **state)
{
    struct rig *r = *state;
    assert_int_equal(
        post(
            r,
            "{\"args\":{\"k\":\"a\\u0000\"},\"context\":{\"k\":\"a\\u0000\"},\"event_id\":\"evt_1\","
            "\"kind\":\"decision\",\"safe_args\":{\"k\":\"a\\u0000\"},\"tenant_id\":\"t\","
            "\"timestamp\":\"2026-11-20T09:30:00.123Z\"}",
            false),
        ERR_OK);
    static const char sqlite[] =
        "SELECT count(*) FROM events WHERE context ->> '$.k' = 'a' || char(65533)"
        " AND args = '{\"k\":\"a\\u0000\"}' AND safe_args = args AND instr(event, '\\u0000') > 0";
    static const char postgres[] =
        "SELECT count(*) FROM events WHERE context ->> 'k' = E'a\\ufffd'"
        " AND args ->> 'k' = E'a\\ufffd' AND strpos(event, E'\\\\u0000') > 0";
    assert_int_equal(rig_number(r, rig_is_postgres ? postgres : sqlite), 1);
}

static void a_store_keeps_its_identity(void **state)
{
    struct rig *r = *state;
    char before[STORE_LOG_ID_TEXT + 1];
    snprintf(before, sizeof before, "%s", store_log_id(r->store));
    assert_int_equal(strlen(before), STORE_LOG_ID_TEXT);
    store_close(r->store);
    rig_open(r);
    assert_string_equal(store_log_id(r->store), before);
    struct rig *other;
    rig_set_up((void **)&other);
    assert_string_not_equal(store_log_id(other->store), before);
    rig_tear_down((void **)&other);
}

static void a_store_is_closed_to_others(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 1);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < 3; i++) {
        char path[300];
        struct stat s;
        snprintf(path, sizeof path, "%s%s", r->path, suffixes[i]);
        assert_int_equal(stat(path, &s), 0);
        assert_int_equal(s.st_mode & 077, 0);
    }
}

#define EVENT(tenant, id, more)                                                                    \
    "{\"event_id\":\"" id "\",\"kind\":\"decision\",\"tenant_id\":\"" tenant                       \
    "\",\"timestamp\":\"2026-11-20T09:30:00.123Z\"" more "}"

static void become_newer(struct rig *r)
{
    rig_sql(r, rig_is_postgres ? "INSERT INTO schema_version VALUES (99, 1)"
                               : "PRAGMA user_version = 99");
}

static void become_ours(struct rig *r)
{
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA user_version = %d", SCHEMA_NEWEST);
    rig_sql(r, rig_is_postgres ? "DELETE FROM schema_version WHERE version = 99" : sql);
}

static void a_store_of_a_newer_program_is_refused(void **state)
{
    struct rig *r = *state;
    store_close(r->store);
    become_newer(r);
    assert_int_equal(store_open(r->path, true, &r->store, &r->fault), ERR_BAD_VALUE);
    assert_non_null(strstr(r->fault.text, "newer"));
    become_ours(r);
    rig_open(r);
}

/* Another platform on the same server, or the command line, may be upgraded first. */
static void a_store_that_a_newer_program_has_changed_takes_and_gives_nothing_more(void **state)
{
    struct rig *r = *state;
    char told[128], bytes[4096];
    struct buf out = buf_over(bytes, sizeof bytes);
    struct revision revision;
    snprintf(told, sizeof told,
             "it has schema 99 now, and this program knows %d: a newer program has changed it",
             SCHEMA_NEWEST);
    become_newer(r);
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_STORE_UNAVAILABLE);
    assert_non_null(strstr(r->fault.text, told));
    assert_int_equal(post(r, EVENT("t", "1", ""), false), ERR_STORE_UNAVAILABLE);
    assert_int_equal(bundle_put(r->store, &(struct globs){0}, &out, &revision, &r->fault),
                     ERR_STORE_UNAVAILABLE);
    assert_int_equal(out.size, 0);
    assert_int_equal(store_probe(r->store, &r->fault), ERR_STORE_UNAVAILABLE);
    assert_non_null(strstr(r->fault.text, told));
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records"), 0);
    become_ours(r);
    assert_int_equal(store_probe(r->store, &r->fault), ERR_OK);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
}

#define BEFORE_15                                                                                  \
    "DROP TABLE suspensions; DROP TABLE set_rows; ALTER TABLE policy_versions DROP COLUMN mac;"    \
    "ALTER TABLE store DROP COLUMN adopted_at; ALTER TABLE store DROP COLUMN set_history;"         \
    "ALTER TABLE store DROP COLUMN set_mac;"                                                       \
    "DROP TABLE anchors; DROP TABLE checkpoints; DROP TABLE engine_keys; DROP TABLE removals;"     \
    "ALTER TABLE records DROP COLUMN restored; ALTER TABLE streams DROP COLUMN authenticated;"

/* The store as it was before step 7. */
static const char sqlite_before_7[] =
    "DROP TABLE sign_ins; DROP TABLE sessions; DROP TABLE notices; DROP TABLE announced; " BEFORE_15
    "DROP INDEX minutes_last; DROP TABLE quarantine_size;"
    "DROP INDEX records_event_key; CREATE UNIQUE INDEX records_event_id ON records (event_id);"
    "DROP TABLE revisions; ALTER TABLE followers DROP COLUMN history_id;"
    "ALTER TABLE store DROP COLUMN history_id; PRAGMA user_version = 6";
static const char postgres_before_7[] =
    "DROP VIEW events; DROP INDEX records_source;"
    "ALTER TABLE identities RENAME TO ids; ALTER TABLE ids RENAME event_key TO event_id;"
    "ALTER INDEX identities_event_key RENAME TO ids_event_id; ALTER INDEX identities_source RENAME TO ids_source;"
    "ALTER INDEX identities_trace RENAME TO ids_trace;"
    "UPDATE ids SET event_id = records.event_id FROM records WHERE records.id = ids.id AND records.event_id <> ids.event_id;"
    "DROP TABLE sign_ins; DROP TABLE sessions; DROP TABLE notices; DROP TABLE announced; " BEFORE_15
    "DROP INDEX minutes_last; DROP TABLE quarantine_size;"
    "DROP TABLE revisions; ALTER TABLE followers DROP COLUMN history_id;"
    "ALTER TABLE store DROP COLUMN history_id; DELETE FROM schema_version WHERE version >= 7";

#define OURS "evt_01JD0000000000000000000000"

/* Events with ids of both forms; on PostgreSQL in two partitions. */
static void fill_older_store(struct rig *r)
{
    assert_int_equal(post(r, "[" EVENT("t", OURS, "") "," EVENT("t", "1", "") "]", false), ERR_OK);
    if (rig_is_postgres) rig_sql(r, "UPDATE marks SET next_id = 1 << 26");
    assert_int_equal(post(r, EVENT("t/u", "2", ""), false), ERR_OK);
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    buf_clear(&r->body);
    put_event(&r->body, 4, "default");
    buf_put_byte(&r->body, '\0');
    assert_int_equal(post(r, r->body.bytes, false), ERR_OK); /* record 5, which somebody restored */
    store_close(r->store);
    rig_sql(r, rig_is_postgres ? postgres_before_7 : sqlite_before_7);
}

static void an_older_store_learns_that_tenants_number_their_own_events(void **state)
{
    struct rig *r = *state;
    fill_older_store(r);
    rig_open(r);
    assert_int_equal(
        post(r, "[" EVENT("t", "1", "") "," EVENT("t/u", "2", "") "," EVENT("t", OURS, "") "]",
             false),
        ERR_OK);
    assert_int_equal(r->result.duplicates, 3);
    assert_int_equal(post(r, EVENT("t", "1", " "), false), ERR_EVENT_CONFLICT);
    assert_int_equal(post(r, "[" EVENT("u", "1", "") "," EVENT("t", "2", "") "]", false), ERR_OK);
    assert_int_equal(r->result.accepted, 2);
    fill_batch(r, NOTHING_BEFORE, 1, 4);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_result(r, 0, 5, 0, 6);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records"), 10);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM quarantine"), 0);
}

/* A hundred million of them would take an hour. And what has no record (somebody dropped a
 * partition by hand) holds up no start. */
static void rows_of_our_own_form_are_not_written_anew(void **state)
{
    struct rig *r = *state;
    fill_older_store(r);
    rig_sql(r, "INSERT INTO ids VALUES (9, 'gone', NULL, NULL, NULL, 0, NULL)");
    rig_sql(r, "CREATE TABLE before AS SELECT id, ctid AS place FROM ids");
    rig_open(r);
    assert_int_equal(
        rig_number(
            r,
            "SELECT count(*) FROM identities AS i JOIN before USING (id) WHERE i.ctid = place AND event_key = '" OURS
            "'"),
        1);
    assert_int_equal(
        rig_number(
            r,
            "SELECT count(*) FROM identities AS i JOIN before USING (id) WHERE i.ctid <> place AND event_key LIKE '%/%'"),
        7);
}

static void *open_store(void *rig)
{
    struct rig *r = rig;
    r->fault = (struct fault){0};
    (void)store_open(r->path, true, &r->store, &r->fault);
    return NULL;
}

static void wait_until_it_waits(const struct rig *r)
{
    const char *sql =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    for (uint64_t until = world_monotonic_ns() + 120000000000u; world_monotonic_ns() < until;)
        if (rig_number(r, sql) == 1) return;
    fail_msg("nobody waits for the older platform's transaction");
}

/* Its last rows are there by the old rule, and learn the new one; it stores no more. */
static void an_older_platform_that_still_runs_ends_its_transaction_first(void **state)
{
    struct rig *r = *state;
    pthread_t thread;
    fill_older_store(r);
    PGconn *older = rig_connect(r->path);
    PQclear(rig_query(
        older,
        "BEGIN; UPDATE marks SET next_id = next_id + 1;"
        "INSERT INTO records (id, created_at, event_id, kind, tenant_id, timestamp, event)"
        " SELECT next_id - 1, 1, '3', 'decision', 't', 1, '" EVENT(
            "t", "3",
            "") "' FROM marks;"
                "INSERT INTO ids SELECT next_id - 1, '3', NULL, NULL, NULL, (next_id - 1) >> 22, NULL FROM marks"));
    assert_int_equal(pthread_create(&thread, NULL, open_store, r), 0);
    wait_until_it_waits(r);
    PQclear(rig_query(older, "COMMIT"));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(r->fault.text, "");
    PGresult *copy = PQexec(older, "COPY ids FROM STDIN (FORMAT binary)");
    assert_int_equal(PQresultStatus(copy), PGRES_FATAL_ERROR);
    PQclear(copy);
    PQfinish(older);
    assert_int_equal(post(r, "[" EVENT("t", "3", "") "," EVENT("u", "3", "") "]", false), ERR_OK);
    assert_int_equal(r->result.duplicates, 1);
}

/* Whatever tables it is about to write to. */
static void the_schema_changes_between_two_transactions_that_write(void **state)
{
    struct rig *r = *state;
    pthread_t thread;
    fill_older_store(r);
    PGconn *older = rig_connect(r->path);
    PQclear(rig_query(older, "BEGIN; SELECT next_id FROM marks FOR UPDATE"));
    assert_int_equal(pthread_create(&thread, NULL, open_store, r), 0);
    wait_until_it_waits(r);
    PQclear(rig_query(older, "COMMIT"));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(r->fault.text, "");
    PQfinish(older);
}

static void a_new_file_that_another_program_writes_is_waited_for(void **state)
{
    struct rig *r = *state;
    pthread_t thread;
    sqlite3 *other;
    store_close(r->store);
    r->store = NULL;
    assert_int_equal(unlink(r->path), 0);
    assert_int_equal(sqlite3_open(r->path, &other), SQLITE_OK);
    sqlite3_busy_timeout(other, 5000); /* for its commit: whoever waits looks again and again */
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(pthread_create(&thread, NULL, open_store, r), 0);
    sqlite3_sleep(300); /* by then it waits; where it does not yet, it need not */
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(r->fault.text, "");
    sqlite3_close(other);
}

static void a_store_of_an_older_program_is_brought_up_to_date_and_keeps_its_rows(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    store_close(r->store);
    rig_sql(r, sqlite_before_7);
    rig_sql(
        r,
        "INSERT INTO quarantine (created_at, reason, node, journal, epoch, seq, digest, event)"
        " VALUES (1, 'clash', 'n', '0', 'e', 1, 'd', 'abc'), (1, 'clash', 'n', '0', 'e', 2, 'd', 'de')");
    rig_sql(
        r,
        "DROP TABLE consumers; DROP TABLE offsets; DROP TABLE replays; DROP TABLE horizon;"
        "DROP TABLE dropped; DROP TABLE followers; ALTER TABLE policies DROP COLUMN directory; PRAGMA user_version = 1");
    rig_open(r);
    assert_int_equal(rig_number(r, "PRAGMA user_version"), SCHEMA_NEWEST);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records"), 4);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM replays"), 0);
    assert_int_equal(rig_number(r, "SELECT row_count * 1000 + bytes FROM quarantine_size"), 2005);
}

/* Or each event that comes again would have the whole table read. */
static void an_event_is_found_by_its_key_in_the_index(void **state)
{
    struct rig *r = *state;
    sqlite3_stmt *s;
    sqlite3 *d = rig_sqlite(r);
    assert_int_equal(sqlite3_prepare_v2(
                         d, "EXPLAIN QUERY PLAN SELECT event FROM records WHERE " EVENT_KEY " = ?1",
                         -1, &s, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    assert_string_equal(sqlite3_column_text(s, 3),
                        "SEARCH records USING INDEX records_event_key (<expr>=?)");
    sqlite3_finalize(s);
    sqlite3_close(d);
}

static void a_file_that_is_no_database_is_refused(void **state)
{
    struct rig *r = *state;
    store_close(r->store);
    r->store = NULL;
    FILE *file = fopen(r->path, "we");
    for (int i = 0; i < 2000; i++) fputs("this is no database ", file);
    fclose(file);
    assert_int_equal(store_open(r->path, true, &r->store, &r->fault), ERR_CORRUPT);
    r->store = NULL;
}

static void readers_go_on_while_somebody_writes(void **state)
{
    struct rig *r = *state;
    struct store *reader, *second;
    struct revision revision;
    assert_int_equal(store_open(r->path, false, &reader, &r->fault), ERR_OK);
    assert_int_equal(store_open(r->path, true, &second, &r->fault), ERR_OK);
    struct audit_store *audit = store_audit(r->store);
    assert_int_equal(audit->ops->begin(audit->state), ERR_OK);
    assert_int_equal(store_revision(reader, &revision, &r->fault), ERR_OK);
    assert_int_equal(revision.number, 1);
    audit->ops->rollback(audit->state);
    struct audit_store *its = store_audit(second);
    assert_int_equal(its->ops->begin(its->state), ERR_OK);
    assert_int_equal(its->ops->commit(its->state), ERR_OK);
    store_close(second);
    store_close(reader);
}

/* ---- a PostgreSQL of several hosts ---- */

static void no_server_is_taken_that_may_only_be_read(void **state)
{
    struct rig *r = *state;
    struct store *other = NULL;
    char address[400];
    snprintf(address, sizeof address, "%s%%20-cdefault_transaction_read_only%%3Don", r->path);
    assert_int_equal(store_open(address, true, &other, &r->fault), ERR_STORE_UNAVAILABLE);
    assert_non_null(strstr(r->fault.text, "read-only"));
    /* which may be a standby, behind what the writer has changed */
    assert_int_equal(store_open(address, false, &other, &r->fault), ERR_STORE_UNAVAILABLE);
    snprintf(address, sizeof address,
             "%s%%20-cdefault_transaction_read_only%%3Don&target_session_attrs=any", r->path);
    /* the address said so */
    assert_int_equal(store_open(address, true, &other, &r->fault), ERR_OK);
    store_close(other);
    assert_int_equal(store_open(address, false, &other, &r->fault), ERR_OK);
    store_close(other);
}

static void a_primary_that_is_none_any_more_is_left(void **state)
{
    struct rig *r = *state;
    assert_int_equal(store_begin(r->store, &r->fault), ERR_OK);
    assert_int_equal(
        database_execute(r->store->database, "CREATE TEMP TABLE of_this_connection (a int)", NULL),
        ERR_OK);
    assert_int_equal(store_end(r->store, ERR_OK, &r->fault), ERR_OK);
    assert_int_equal(store_begin(r->store, &r->fault), ERR_OK);
    assert_int_equal(database_execute(r->store->database, "SET TRANSACTION READ ONLY", NULL),
                     ERR_OK);
    assert_int_equal(database_execute(r->store->database, "DELETE FROM streams", NULL),
                     ERR_STORE_UNAVAILABLE);
    assert_int_equal(store_end(r->store, ERR_STORE_UNAVAILABLE, &r->fault), ERR_STORE_UNAVAILABLE);
    assert_int_equal(store_begin(r->store, &r->fault), ERR_OK);
    assert_int_not_equal(
        database_execute(r->store->database, "SELECT 1 FROM of_this_connection", NULL), ERR_OK);
    (void)store_end(r->store, ERR_IO, &r->fault);
}

/* How many of this process's open files are SQLite's temporary ones, in this folder. */
static unsigned temporary_files_in(const char *folder)
{
    unsigned count = 0;
    char link[64], target[512];
    for (int fd = 0; fd < 256; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t size = readlink(link, target, sizeof target - 1);
        if (size <= 0) continue;
        target[size] = '\0';
        count += strncmp(target, folder, strlen(folder)) == 0 && strstr(target, "/etilqs_") != NULL;
    }
    return count;
}

static void what_is_sorted_beside_memory_lies_beside_the_file(void **state)
{
    struct rig *r = *state;
    struct statement *s = database_statement(
        r->store->database,
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120)"
        " SELECT randomblob(1000000) AS b FROM n ORDER BY b");
    assert_int_equal(statement_step(s), ERR_OK);
    assert_int_not_equal(temporary_files_in(r->folder), 0);
    statement_reset(s);
    assert_int_equal(temporary_files_in(r->folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_documented_schema_is_the_programs_own),
        TEST(a_released_step_is_never_edited),
        TEST(the_view_has_every_member_of_the_event),
        TEST(the_view_shows_what_was_stored),
        TEST(the_view_can_be_read_whatever_an_event_has),
        TEST(a_nul_in_a_context_is_shown_as_another_character),
        TEST(a_store_keeps_its_identity),
        TEST(a_store_of_a_newer_program_is_refused),
        TEST(a_store_that_a_newer_program_has_changed_takes_and_gives_nothing_more),
        TEST(an_older_store_learns_that_tenants_number_their_own_events),
        TEST(readers_go_on_while_somebody_writes),
        TEST_OF_POSTGRES(rows_of_our_own_form_are_not_written_anew),
        TEST_OF_POSTGRES(an_older_platform_that_still_runs_ends_its_transaction_first),
        TEST_OF_POSTGRES(the_schema_changes_between_two_transactions_that_write),
        TEST_OF_POSTGRES(no_server_is_taken_that_may_only_be_read),
        TEST_OF_POSTGRES(a_primary_that_is_none_any_more_is_left),
    };
    const struct CMUnitTest on_a_file[] = {
        /* first: the first file that a process opens settles it */
        TEST(what_is_sorted_beside_memory_lies_beside_the_file),
        TEST(a_store_is_closed_to_others),
        TEST(a_new_file_that_another_program_writes_is_waited_for),
        TEST(a_store_of_an_older_program_is_brought_up_to_date_and_keeps_its_rows),
        TEST(an_event_is_found_by_its_key_in_the_index),
        TEST(a_file_that_is_no_database_is_refused),
    };
    return cmocka_run_group_tests(on_a_file, NULL, NULL) + rig_run(tests);
}
