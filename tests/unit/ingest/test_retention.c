/* Old events are dropped whole, once, and told of; and they do not come back. */
#include "rig.h"

#include "base/time.h"
#include "crypto/base64.h"
#include "evidence/merkle.h"
#include "store/key_store.h"
#include "store/retention.h"
#include "store/store_inside.h"

#define DAY 86400000ull
#define DAY_100 (100 * DAY) /* 1970-04-11 */
#define KEEP (7 * DAY)

/* The records of one day: `count` of them, from seq and number `first` on. */
static void store_day(struct rig *r, uint64_t day, unsigned first, unsigned count)
{
    fill_batch(r, first == 1 ? NOTHING_BEFORE : NULL, first == 1 ? 2 : first,
               first == 1 ? count - 1 : count);
    const struct ingest_batch batch = {.node = STR("node-1"),
                                       .journal = STR("0"),
                                       .epoch = STR(EPOCH_1),
                                       .first_seq = first,
                                       .body = buf_view(&r->body),
                                       .tenants = &rig_all,
                                       .now_ms = day * DAY + 1000};
    assert_int_equal(retention_roll(r->store, KEEP, day * DAY, &r->fault), ERR_OK);
    assert_int_equal(rig_ingest(r, &batch), ERR_OK);
    assert_int_equal(r->result.accepted, count);
}

/* Ten on each of the days 100 … 104. */
static void store_days(struct rig *r)
{
    for (unsigned i = 0; i < 5; i++) store_day(r, 100 + i, i * 10 + 1, 10);
}

/* On SQLite the clock is believed by what was stored last; an empty store stays empty. */
static void store_at_present(const struct rig *r, uint64_t now_ms)
{
    char sql[512];
    if (rig_is_postgres) return;
    snprintf(
        sql, sizeof sql,
        "INSERT OR IGNORE INTO records (created_at, event_id, kind, tenant_id, timestamp, event)"
        " SELECT %llu, 'present-%llu', 'present', 'nobody', 1, '{}' WHERE EXISTS (SELECT 1 FROM records)",
        (unsigned long long)now_ms, (unsigned long long)now_ms);
    rig_sql(r, sql);
}

/* What is stored next begins a partition, where there are any. */
static void next_partition(const struct rig *r)
{
    if (rig_is_postgres) rig_sql(r, "UPDATE marks SET next_id = ((next_id >> 26) + 1) << 26");
}

static uint64_t drop(struct rig *r, uint64_t now_ms)
{
    store_at_present(r, now_ms);
    uint64_t dropped = 99;
    if (retention_drop(r->store, KEEP, now_ms, &dropped, &r->fault) != ERR_OK)
        fail_msg("%s", r->fault.text);
    return dropped;
}

static void remove_all(struct rig *r)
{
    bool more = true;
    for (int i = 0; more; i++) {
        assert_true(i < 100);
        if (retention_remove(r->store, &more, &r->fault) != ERR_OK) fail_msg("%s", r->fault.text);
    }
}

static bool count_each(void *context, const struct audit_stored *row)
{
    (void)row;
    ++*(uint64_t *)context;
    return true;
}

/* How many decisions a query tells. */
static uint64_t told(struct rig *r)
{
    uint64_t count = 0;
    struct audit_store *a = store_audit(r->store);
    const struct audit_query q = {.tenant = STR("default"), .kind = STR("decision"), .limit = 1000};
    assert_int_equal(a->ops->query(a->state, &q, count_each, &count), ERR_OK);
    return count;
}

static void whole_days_are_dropped_and_no_other(void **state)
{
    struct rig *r = *state;
    store_days(r);
    assert_int_equal(told(r), 49); /* and engine.started */
    assert_int_equal(drop(r, 107 * DAY + DAY / 2), 0);
    assert_int_equal(drop(r, 109 * DAY + DAY / 2), 20); /* days 100 and 101 are before day 102 */
    assert_int_equal(told(r), 30);
    remove_all(r);
    assert_int_equal(told(r), 30);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records WHERE kind = 'decision'"), 30);
    assert_int_equal(rig_number(r, "SELECT min(seq) FROM records"), 21);
}

/* The frontier before record 21, in base64, out of the records of store_days(). */
static void frontier_of_two_days(struct rig *r, char *to, size_t size)
{
    char bytes[FRONTIER_BYTES_MAX];
    struct buf f = buf_over(bytes, sizeof bytes), digits = buf_over(to, size - 1);
    struct hasher *h = hasher_create();
    struct frontier leaves = {0};
    for (unsigned day = 0; day < 2; day++) {
        fill_batch(r, day == 0 ? NOTHING_BEFORE : NULL, day == 0 ? 2 : 11, day == 0 ? 9 : 10);
        struct str rest = buf_view(&r->body), line;
        while (rest.size > 0 && str_split(&rest, '\n', &line)) {
            struct sha256 leaf = merkle_leaf(h, line);
            frontier_append(&leaves, h, &leaf);
        }
    }
    frontier_put(&f, &leaves);
    base64_put(&digits, buf_view(&f), 0);
    to[digits.size] = '\0';
    hasher_destroy(h);
}

#define CHECKPOINT(base, end, from, frontier)                                                      \
    "INSERT INTO checkpoints (node, journal, base, end_seq, from_seq, frontier, note, created_at)" \
    " VALUES ('node-1', '0', " base ", " end ", " from ", '" frontier "', 'x', 0);"
#define EMPTY_FRONTIER "AAAAAAAAAAA=" /* of no leaves */

static int64_t notes_with(const struct rig *r, const char *end_seq, const char *ends)
{
    char sql[512];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM removals WHERE end_seq = %s AND node = 'node-1' AND note LIKE "
             "'writ/node-1/0\nretention\n' || from_seq || ' %s\n____-__-__T__:__:__.___Z\n%s%%'",
             end_seq, end_seq, ends);
    return rig_number(r, sql);
}

static void a_drop_is_a_signed_note_from_the_first_record_on(void **state)
{
    struct rig *r = *state;
    const uint8_t secret[ED25519_KEY_BYTES] = {7};
    struct ed25519 *key = ed25519_from_secret(secret);
    char frontier[256], line[300], signer[128];
    const int notes = rig_is_postgres ? 2 : 1; /* of each partition */
    store_share_signer(r->store, key);
    store_days(r);
    rig_sql(r, CHECKPOINT("1", "15", "1", EMPTY_FRONTIER));
    rig_sql(r, CHECKPOINT("1", "45", "1", EMPTY_FRONTIER));
    assert_int_equal(drop(r, 109 * DAY + DAY / 2), 20);
    frontier_of_two_days(r, frontier, sizeof frontier);
    snprintf(line, sizeof line, "1 %s\n\n", frontier);
    assert_int_equal(notes_with(r, "20", line), 1);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM removals"), notes);
    assert_int_equal(rig_number(r, "SELECT min(from_seq) FROM removals"), 1);
    assert_int_equal(rig_number(r, "SELECT sum(end_seq - from_seq + 1) FROM removals"), 20);
    snprintf(signer, sizeof signer,
             "SELECT count(*) FROM removals WHERE note LIKE '%%\n\xe2\x80\x94 writ/platform/%s %%'",
             r->store->log_id);
    assert_int_equal(rig_number(r, signer), notes);
    assert_int_equal(rig_number(r, "SELECT end_seq FROM checkpoints"), 45);

    rig_sql(r, "UPDATE checkpoints SET from_seq = 32"); /* none covers record 30 */
    assert_int_equal(drop(r, 110 * DAY + DAY / 2), 10);
    assert_int_equal(notes_with(r, "30", "\n"), 1);
    assert_int_equal(rig_number(r, "SELECT from_seq FROM removals WHERE end_seq = 30"), 21);
    ed25519_destroy(key);
}

static void a_drop_is_an_event_that_says_what_was_dropped(void **state)
{
    struct rig *r = *state;
    assert_int_equal(retention_roll(r->store, KEEP, DAY_100, &r->fault), ERR_OK);
    store_days(r);
    drop(r, 109 * DAY);
    const int days = rig_is_postgres ? 2 : 1; /* each partition is told apart */
    const char *sql =
        "SELECT count(*) FROM records WHERE kind = 'audit.dropped' AND tenant_id = 'default' AND (event LIKE "
        "'%\"count\":20,%' OR event LIKE '%\"count\":10,%')"
        " AND event LIKE '%2026-11-20T09:30:00.123Z/2026-11-20T09:30:00.123Z%'";
    assert_int_equal(rig_number(r, sql), days);
    drop(r, 109 * DAY + 1000);
    assert_int_equal(drop(r, 109 * DAY + DAY - 1), 0); /* once a day */
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records WHERE kind = 'audit.dropped'"),
                     days);
    assert_int_equal(drop(r, 110 * DAY), 10);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records WHERE kind = 'audit.dropped'"),
                     days + 1);
}

static void each_tenant_is_told_its_own(void **state)
{
    struct rig *r = *state;
    assert_int_equal(retention_roll(r->store, KEEP, DAY_100, &r->fault), ERR_OK);
    buf_clear(&r->body);
    for (unsigned i = 1; i <= 5; i++) {
        put_event(&r->body, i, i < 3 ? "acme" : "default");
        buf_put_byte(&r->body, '\n');
    }
    buf_put_byte(&r->body, '\0');
    const struct ingest_post p = {.body = str_of(r->body.bytes, r->body.size - 1),
                                  .ndjson = true,
                                  .tenants = &rig_all,
                                  .now_ms = DAY_100,
                                  .tenant = STR("*")};
    assert_int_equal(ingest_post(r->store, &p, &r->out, &r->result, &r->fault), ERR_OK);
    assert_int_equal(retention_roll(r->store, KEEP, 101 * DAY, &r->fault), ERR_OK);
    assert_int_equal(drop(r, 120 * DAY), 5);
    assert_int_equal(
        rig_number(
            r, "SELECT count(*) FROM records WHERE kind = 'audit.dropped' AND tenant_id = 'acme'"
               " AND event LIKE '%\"count\":2,%'"),
        1);
    assert_int_equal(
        rig_number(
            r, "SELECT count(*) FROM records WHERE kind = 'audit.dropped' AND tenant_id = 'default'"
               " AND event LIKE '%\"count\":3,%'"),
        1);
    remove_all(r);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records WHERE kind <> 'present'"), 2);
}

static void what_was_dropped_does_not_come_back(void **state)
{
    struct rig *r = *state;
    store_days(r);
    drop(r, 109 * DAY);
    for (int removed = 0; removed < 2; removed++) {
        fill_batch(r, NOTHING_BEFORE, 2, 9);
        assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
        assert_result(r, 0, 10, 0, 51);
        assert_int_equal(told(r), 30);
        remove_all(r);
    }
    assert_int_equal(rig_number(r, "SELECT count(*) FROM quarantine"), 0);
    fill_batch(r, NULL, 31, 10); /* what is kept is compared still */
    r->body.bytes[20] ^= 1;
    assert_int_equal(send(r, EPOCH_1, 31), ERR_OK);
    assert_int_equal(r->result.duplicates, 9);
    assert_int_equal(r->result.clashes, 1);
}

static void what_was_dropped_is_compared_as_long_as_it_is_there(void **state)
{
    struct rig *r = *state;
    store_days(r);
    assert_int_equal(drop(r, 109 * DAY), 20);
    fill_batch(r, NOTHING_BEFORE, 2, 9);
    r->body.bytes[20] ^= 1;
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_result(r, 0, 9, 1, 51);
    rig_sql(r, "DELETE FROM quarantine"); /* else it is known from there */
    remove_all(r);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_result(r, 0, 10, 0, 51);
}

static void ids_never_begin_anew(void **state)
{
    struct rig *r = *state;
    store_days(r);
    assert_int_equal(retention_roll(r->store, KEEP, 105 * DAY, &r->fault), ERR_OK);
    int64_t newest = rig_number(r, "SELECT max(id) FROM records");
    assert_int_equal(drop(r, 200 * DAY), 50);
    remove_all(r);
    assert_int_equal(told(r), 0);
    assert_true(rig_number(r, "SELECT min(id) FROM records") > newest);
    fill_batch(r, NULL, 51, 3);
    assert_int_equal(send(r, EPOCH_1, 51), ERR_OK);
    assert_int_equal(r->result.accepted, 3);
    assert_int_equal(told(r), 3);
}

static void remove_what_days_left(struct rig *r)
{
    store_days(r);
    assert_int_equal(retention_roll(r->store, KEEP, 105 * DAY, &r->fault), ERR_OK);
    drop(r, 200 * DAY);
    remove_all(r);
}

static void removing_leaves_nothing_behind(void **state)
{
    struct rig *r = *state;
    remove_what_days_left(r);
    assert_int_equal(rig_number(r, "SELECT first_id - removed_id FROM horizon"), 0);
    assert_int_equal(
        rig_number(r,
                   "SELECT count(*) FROM minutes WHERE last_id < (SELECT first_id FROM horizon)"),
        0);
    assert_int_equal(
        rig_number(
            r,
            "SELECT count(*) FROM places WHERE (segment + 1) * 65536 < (SELECT first_id FROM horizon)"),
        0);
}

static void removing_leaves_no_identity_and_no_partition_behind(void **state)
{
    struct rig *r = *state;
    remove_what_days_left(r);
    assert_int_equal(
        rig_number(r, "SELECT count(*) FROM identities WHERE id < (SELECT first_id FROM horizon)"),
        0);
    assert_int_equal(
        rig_number(r, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'records'::regclass"), 1);
    uint64_t rows;
    struct audit_store *a = store_audit(r->store);
    assert_int_equal(a->ops->count(a->state, &rows), ERR_OK);
    assert_int_equal(rows, 5); /* what was told, once for each partition */
}

static void two_platforms_drop_once(void **state)
{
    struct rig *r = *state;
    store_days(r);
    struct store *mine = r->store, *other;
    assert_int_equal(store_open(r->path, true, &other, &r->fault), ERR_OK);
    assert_int_equal(drop(r, 109 * DAY), 20);
    r->store = other;
    assert_int_equal(drop(r, 109 * DAY), 0);
    bool more;
    assert_int_equal(retention_remove(other, &more, &r->fault), ERR_OK);
    r->store = mine;
    remove_all(r);
    store_close(other);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records WHERE kind = 'audit.dropped'"),
                     rig_is_postgres ? 2 : 1);
    assert_int_equal(told(r), 30);
}

static void a_store_without_old_events_drops_nothing(void **state)
{
    struct rig *r = *state;
    assert_int_equal(drop(r, 109 * DAY), 0);
    bool more;
    assert_int_equal(retention_remove(r->store, &more, &r->fault), ERR_OK);
    assert_false(more);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records"), 0);
    assert_int_equal(drop(r, 3 * DAY), 0); /* a clock before everything */
}

static void who_keeps_for_longer_than_time_has_run_drops_nothing(void **state)
{
    struct rig *r = *state;
    uint64_t dropped;
    store_days(r);
    store_at_present(r, 150 * DAY);
    assert_int_equal(retention_drop(r->store, 36500 * DAY, 150 * DAY, &dropped, &r->fault), ERR_OK);
    assert_int_equal(dropped, 0);
    assert_int_equal(told(r), 49);
}

static void post_at(struct rig *r, const char *event_id, const char *timestamp, uint64_t now_ms)
{
    char event[256];
    int size = snprintf(
        event, sizeof event,
        "{\"event_id\":\"%s\",\"kind\":\"decision\",\"tenant_id\":\"default\",\"timestamp\":\"%s\"}",
        event_id, timestamp);
    const struct ingest_post p = {.body = str_of(event, (size_t)size),
                                  .tenants = &rig_all,
                                  .now_ms = now_ms,
                                  .tenant = STR("*")};
    assert_int_equal(retention_roll(r->store, KEEP, now_ms, &r->fault), ERR_OK);
    assert_int_equal(ingest_post(r->store, &p, &r->out, &r->result, &r->fault), ERR_OK);
}

static void the_first_that_is_kept_is_found_by_its_time(void **state)
{
    struct rig *r = *state;
    uint64_t count = 0, from_ms;
    post_at(r, "old", "1970-04-11T00:00:00.000Z", DAY_100);
    post_at(r, "kept", "1970-04-21T00:01:00.000Z", DAY_100 + 10 * DAY);
    assert_int_equal(drop(r, DAY_100 + 12 * DAY), 1);
    remove_all(r);
    assert_true(time_read(STR("1970-04-21T00:01:00.000Z"), &from_ms));
    const struct audit_query q = {.tenant = STR("default"),
                                  .has_from = true,
                                  .from_ms = from_ms,
                                  .has_to = true,
                                  .to_ms = from_ms + 1,
                                  .limit = 10};
    assert_int_equal(
        store_audit(r->store)->ops->query(store_audit(r->store)->state, &q, count_each, &count),
        ERR_OK);
    assert_int_equal(count, 1);
}

static void old_rows_among_new_ones_drop_nothing_that_is_kept(void **state)
{
    struct rig *r = *state;
    store_day(r, 300, 1, 40);
    next_partition(r);
    store_day(r, 100, 41, 10); /* by a clock that was behind */
    next_partition(r);
    store_day(r, 300, 51, 40);
    assert_int_equal(drop(r, 301 * DAY), 0);
    assert_int_equal(told(r), 89);
    /* not PostgreSQL's newest partition; SQLite's present */
    assert_int_equal(drop(r, 310 * DAY), rig_is_postgres ? 50 : 91);
}

/* Of PostgreSQL's partitions one goes only when nothing of it is kept. */
static void one_that_is_kept_keeps_what_was_stored_behind_it(void **state)
{
    struct rig *r = *state;
    assert_int_equal(retention_roll(r->store, KEEP, 300 * DAY, &r->fault), ERR_OK);
    store_day(r, 100, 1, 10);
    next_partition(r);
    store_day(r, 100, 11, 5);
    store_day(r, 300, 16, 1);
    store_day(r, 100, 17, 50); /* by a clock that was behind */
    next_partition(r);
    store_day(r, 300, 67, 40);
    assert_int_equal(drop(r, 301 * DAY), rig_is_postgres ? 10 : 15);
    for (int removed = 0; removed < 2; removed++) {
        assert_int_equal(told(r), rig_is_postgres ? 96 : 91);
        remove_all(r);
    }
}

static void a_clock_that_is_ahead_drops_nothing_and_holds_nobody_up(void **state)
{
    struct rig *r = *state;
    uint64_t today = world_now_ms() / DAY, dropped;
    store_day(r, today - 20, 1, 10);
    store_day(r, today - 1, 11, 10);
    assert_int_equal(retention_drop(r->store, KEEP, (today + 30) * DAY, &dropped, &r->fault),
                     ERR_OUT_OF_RANGE);
    assert_non_null(strstr(r->fault.text, rig_is_postgres ? "the PostgreSQL server's clock ("
                                                          : "the newest event that was stored ("));
    assert_int_equal(told(r), 19);
    assert_int_equal(rig_number(r, "SELECT day FROM horizon"), 0);
    rig_sql(r, "UPDATE horizon SET day = 99999"); /* it was, by one that was believed */
    assert_int_equal(retention_drop(r->store, KEEP, today * DAY + 500, &dropped, &r->fault),
                     ERR_OK);
    assert_int_equal(dropped, 10);
    assert_int_equal(rig_number(r, "SELECT day FROM horizon"), today);
}

/* What is looked at to believe the clock is the newest of them, however many are old. */
static void many_old_events_are_dropped_by_the_newest_ones_clock(void **state)
{
    struct rig *r = *state;
    uint64_t today = world_now_ms() / DAY, dropped;
    store_day(r, today - 20, 1, 1500);
    store_day(r, today - 1, 1501, 10);
    if (retention_drop(r->store, KEEP, today * DAY, &dropped, &r->fault) != ERR_OK)
        fail_msg("%s", r->fault.text);
    assert_int_equal(dropped, 1500);
}

/* Event 1, which came without a source, is dropped and not removed yet. */
static void drop_a_posted_one(struct rig *r)
{
    buf_clear(&r->body);
    put_event(&r->body, 1, "default");
    buf_put_byte(&r->body, '\0');
    const struct ingest_post p = {.body = str_from(r->body.bytes),
                                  .tenants = &rig_all,
                                  .now_ms = DAY_100,
                                  .tenant = STR("*")};
    assert_int_equal(retention_roll(r->store, KEEP, DAY_100, &r->fault), ERR_OK);
    assert_int_equal(ingest_post(r->store, &p, &r->out, &r->result, &r->fault), ERR_OK);
    assert_int_equal(retention_roll(r->store, KEEP, 101 * DAY, &r->fault), ERR_OK);
    assert_int_equal(drop(r, 120 * DAY), 1);
    assert_int_equal(told(r), 0);
}

static void a_dropped_event_can_be_restored_before_it_is_removed(void **state)
{
    struct rig *r = *state;
    drop_a_posted_one(r);
    assert_int_equal(post(r, r->body.bytes, false), ERR_OK);
    assert_int_equal(r->result.accepted, 1);
    assert_int_equal(r->result.duplicates, 0);
    assert_int_equal(told(r), 1);
    uint64_t first = (uint64_t)rig_number(r, "SELECT first_id FROM horizon"), id;
    assert_true(str_to_u64(str_of(r->out.bytes + 6, r->out.size - 7), &id));
    assert_true(id >= first); /* the answer names the new row */
    remove_all(r);
    assert_int_equal(told(r), 1);
    assert_int_equal(post(r, r->body.bytes, false), ERR_OK);
    assert_int_equal(r->result.duplicates, 1);
}

static void a_stream_record_is_not_adopted_into_a_dropped_row(void **state)
{
    struct rig *r = *state;
    drop_a_posted_one(r);
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_result(r, 4, 0, 0, 5);
    remove_all(r);
    assert_int_equal(told(r), 3);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records WHERE node = 'node-1'"), 4);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_result(r, 0, 4, 0, 5);
}

static void post_as(struct rig *r, const char *event_id, const char *tenant, uint64_t now_ms)
{
    buf_clear(&r->body);
    buf_printf(
        &r->body,
        "{\"event_id\":\"%s\",\"kind\":\"decision\",\"tenant_id\":\"%s\",\"timestamp\":\"2026-11-20T09:30:00.123Z\"}",
        event_id, tenant);
    const struct ingest_post p = {
        .body = buf_view(&r->body), .tenants = &rig_all, .now_ms = now_ms, .tenant = STR("*")};
    buf_clear(&r->out);
    if (ingest_post(r->store, &p, &r->out, &r->result, &r->fault) != ERR_OK)
        fail_msg("%s", r->fault.text);
}

static void what_one_tenant_lost_by_age_is_not_anothers(void **state)
{
    struct rig *r = *state;
    static const char ours[] = "evt_01JD0000000000000000000000";
    assert_int_equal(retention_roll(r->store, KEEP, DAY_100, &r->fault), ERR_OK);
    post_as(r, "1", "t", DAY_100);
    post_as(r, "1", "u", DAY_100);
    post_as(r, ours, "t", DAY_100);
    assert_int_equal(retention_roll(r->store, KEEP, 110 * DAY, &r->fault), ERR_OK);
    post_as(r, "1", "v", 110 * DAY);
    assert_int_equal(drop(r, 112 * DAY), 3);
    post_as(r, "1", "u", 112 * DAY); /* before it is removed, and the others after it */
    assert_int_equal(r->result.accepted, 1);
    remove_all(r);
    for (int again = 0; again < 2; again++) {
        static const struct {
            const char *event_id, *tenant;
            bool is_kept;
        } list[] = {{"1", "t", false}, {"1", "u", true}, {ours, "t", false}, {"1", "v", true}};
        for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
            post_as(r, list[i].event_id, list[i].tenant, 112 * DAY);
            assert_int_equal(r->result.duplicates, list[i].is_kept || again);
        }
    }
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records WHERE kind = 'external.decision'"),
                     4);
    if (rig_is_postgres)
        assert_int_equal(
            rig_number(r,
                       "SELECT count(*) FROM identities WHERE id < (SELECT first_id FROM horizon)"),
            0);
}

/* ---- PostgreSQL alone ---- */

static void a_partition_that_is_full_to_its_end_is_removed(void **state)
{
    struct rig *r = *state;
    rig_sql(r, "UPDATE marks SET next_id = (1 << 26) - 8");
    store_day(r, 100, 1, 5);
    store_day(r, 101, 6, 5);
    assert_int_equal(drop(r, 108 * DAY), 5);
    remove_all(r);
    assert_int_equal(rig_number(r, "SELECT to_regclass('records_0') IS NULL"), 1);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM identities WHERE id < 1 << 26"), 0);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM places WHERE segment < 1 << 10"), 0);
}

static void platforms_that_keep_otherwise_share_their_partitions(void **state)
{
    struct rig *r = *state;
    store_day(r, 100, 1, 5);
    int64_t next = rig_number(r, "SELECT next_id FROM marks");
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(retention_roll(r->store, 0, 100 * DAY, &r->fault), ERR_OK);
        /* a clock that is behind */
        assert_int_equal(retention_roll(r->store, KEEP, 99 * DAY, &r->fault), ERR_OK);
        assert_int_equal(retention_roll(r->store, KEEP, 100 * DAY, &r->fault), ERR_OK);
        assert_int_equal(rig_number(r, "SELECT next_id FROM marks"), next);
    }
    assert_int_equal(retention_roll(r->store, 0, 119 * DAY, &r->fault), ERR_OK); /* 1970-04-30 */
    assert_int_equal(rig_number(r, "SELECT next_id FROM marks"), next);
    assert_int_equal(retention_roll(r->store, 0, 120 * DAY, &r->fault), ERR_OK); /* 1970-05-01 */
    assert_int_equal(rig_number(r, "SELECT next_id FROM marks"), 1 << 26);
    assert_int_equal(retention_roll(r->store, 0, world_now_ms() + 30 * DAY, &r->fault),
                     ERR_OUT_OF_RANGE);
}

static void each_partition_is_dropped_for_itself_and_the_last_ends_the_day(void **state)
{
    struct rig *r = *state;
    uint64_t dropped;
    store_days(r);
    rig_forbid(r, "UPDATE", "horizon", "NEW.day > OLD.day");
    assert_int_not_equal(retention_drop(r->store, KEEP, 109 * DAY, &dropped, &r->fault), ERR_OK);
    assert_int_equal(dropped, 10);
    assert_int_equal(told(r), 40);
    rig_permit(r, "horizon");
    assert_int_equal(drop(r, 109 * DAY), 10);
    assert_int_equal(told(r), 30);
}

static void the_server_is_no_more_patient_than_we_are(void **state)
{
    struct rig *r = *state;
    struct database *d = r->store->database;
    assert_int_equal(database_begin_read(d), ERR_OK);
    assert_int_equal(database_patient(d), ERR_OK);
    struct statement *s = database_statement(
        d, "SELECT setting::bigint FROM pg_settings WHERE name = 'statement_timeout'");
    assert_int_equal(statement_step(s), ERR_OK);
    assert_int_equal(column_u64(s, 0), 600000);
    statement_reset(s);
    database_rollback(d);
}

/* ---- keys ---- */

/* A key that was made on day 100, and is not in force any more from the end of that day on. */
static void end_key(struct rig *r, const char *members, bool revoke)
{
    static const struct pepper pepper = {{1}};
    struct key *draft;
    struct json *row;
    struct key_result made;
    bool changed;
    struct buf out;
    struct arena arena;
    struct actor by = {.principal = STR("tests"), .now_ms = DAY_100};
    char text[256];
    snprintf(text, sizeof text,
             "{\"name\":\"n\",\"owner\":\"o\",\"tenant\":\"default\",\"roles\":[\"agent\"]%s}",
             members);
    arena_init(&arena, 1 << 10, 1 << 16);
    assert_int_equal(json_read(str_from(text), NULL, &arena, &row, &r->fault), ERR_OK);
    if (key_read(row, &draft, &r->fault) != ERR_OK) fail_msg("%s", r->fault.text);
    buf_init(&out, 1 << 10, 1 << 16);
    if (key_store_create(r->store, &pepper, draft, &by, &out, &made, &r->fault) != ERR_OK)
        fail_msg("%s", r->fault.text);
    by.now_ms = 101 * DAY - 1;
    if (revoke)
        assert_int_equal(
            key_store_revoke(r->store, STR("default"), made.id, &by, &changed, &made, &r->fault),
            ERR_OK);
    buf_fini(&out);
    key_destroy(draft);
    arena_fini(&arena);
}

static uint64_t forgotten(struct rig *r, uint64_t now_ms)
{
    uint64_t count = 99;
    store_at_present(r, now_ms);
    if (retention_forget_keys(r->store, now_ms, &count, &r->fault) != ERR_OK)
        fail_msg("%s", r->fault.text);
    return count;
}

static void keys_that_ended_long_ago_are_forgotten_and_no_others(void **state)
{
    struct rig *r = *state;
    end_key(r, "", true);
    end_key(r, ",\"expires_at\":\"1970-04-11T23:59:59.999Z\"", false);
    end_key(r, ",\"expires_at\":\"2100-01-01T00:00:00.000Z\"", false);
    end_key(r, "", false);
    int64_t revision = rig_number(r, "SELECT revision FROM store");
    assert_int_equal(forgotten(r, 131 * DAY - 1), 0);
    assert_int_equal(rig_number(r, "SELECT revision FROM store"), revision);
    assert_int_equal(forgotten(r, 131 * DAY), 2);
    /* so that engines are told */
    assert_int_equal(rig_number(r, "SELECT revision FROM store"), revision + 1);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM keys"), 2);
    assert_int_equal(forgotten(r, 131 * DAY), 0);
    assert_int_equal(rig_number(r, "SELECT revision FROM store"), revision + 1);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM keys WHERE revoked_at IS NULL"), 2);
}

static void a_clock_that_is_ahead_forgets_no_key(void **state)
{
    struct rig *r = *state;
    uint64_t count = 99;
    end_key(r, "", true);
    assert_int_equal(retention_forget_keys(r->store, world_now_ms() + 40 * DAY, &count, &r->fault),
                     ERR_OK);
    assert_int_equal(count, 0);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM keys"), 1);
    /* one before everything */
    assert_int_equal(retention_forget_keys(r->store, 3 * DAY, &count, &r->fault), ERR_OK);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM keys"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(whole_days_are_dropped_and_no_other),
        TEST(a_drop_is_a_signed_note_from_the_first_record_on),
        TEST(a_drop_is_an_event_that_says_what_was_dropped),
        TEST(each_tenant_is_told_its_own),
        TEST(what_was_dropped_does_not_come_back),
        TEST(what_was_dropped_is_compared_as_long_as_it_is_there),
        TEST(ids_never_begin_anew),
        TEST(removing_leaves_nothing_behind),
        TEST_OF_POSTGRES(removing_leaves_no_identity_and_no_partition_behind),
        TEST(two_platforms_drop_once),
        TEST(a_store_without_old_events_drops_nothing),
        TEST(who_keeps_for_longer_than_time_has_run_drops_nothing),
        TEST(the_first_that_is_kept_is_found_by_its_time),
        TEST(old_rows_among_new_ones_drop_nothing_that_is_kept),
        TEST(one_that_is_kept_keeps_what_was_stored_behind_it),
        TEST(a_clock_that_is_ahead_drops_nothing_and_holds_nobody_up),
        TEST(many_old_events_are_dropped_by_the_newest_ones_clock),
        TEST(a_dropped_event_can_be_restored_before_it_is_removed),
        TEST(a_stream_record_is_not_adopted_into_a_dropped_row),
        TEST(what_one_tenant_lost_by_age_is_not_anothers),
        TEST(keys_that_ended_long_ago_are_forgotten_and_no_others),
        TEST(a_clock_that_is_ahead_forgets_no_key),
        TEST_OF_POSTGRES(a_partition_that_is_full_to_its_end_is_removed),
        TEST_OF_POSTGRES(platforms_that_keep_otherwise_share_their_partitions),
        TEST_OF_POSTGRES(each_partition_is_dropped_for_itself_and_the_last_ends_the_day),
        TEST_OF_POSTGRES(the_server_is_no_more_patient_than_we_are),
    };
    return rig_run(tests);
}
