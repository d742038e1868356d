/* Quarantine: what goes in is counted, and the oldest go: by number, by bytes, by age. */
#include "rig.h"

#include "base/limits.h"
#include "store/quarantine.h"
#include "pipeline/ingest/stream.h"

enum { AT_ONCE = 1000, DAY = 86400000 };

/* Rows 1 … n of earlier batches, as they would stand there: `bytes` each, put in at their number. */
static void fill(const struct rig *r, unsigned n, unsigned bytes)
{
    char sql[1024];
    snprintf(
        sql, sizeof sql,
        rig_is_postgres
            ? "INSERT INTO quarantine (created_at, reason, node, journal, epoch, seq, digest, event)"
              " SELECT n, 'invalid', 'x', '0', 'e', n, 'd', decode(repeat('61', %u), 'hex')"
              " FROM generate_series(1, %u) AS n"
            : "INSERT INTO quarantine (created_at, reason, node, journal, epoch, seq, digest, event)"
              " WITH RECURSIVE g(b, n) AS (SELECT %u, 1 UNION ALL SELECT b, n + 1 FROM g WHERE n < %u)"
              " SELECT n, 'invalid', 'x', '0', 'e', n, 'd', zeroblob(b) FROM g",
        bytes, n);
    rig_sql(r, sql);
    rig_sql(r, "UPDATE quarantine_size SET row_count = (SELECT count(*) FROM quarantine),"
               " bytes = (SELECT sum(length(event)) FROM quarantine)");
}

static void assert_counted(const struct rig *r)
{
    assert_int_equal(rig_number(r, "SELECT row_count FROM quarantine_size"),
                     rig_number(r, "SELECT count(*) FROM quarantine"));
    assert_int_equal(rig_number(r, "SELECT bytes FROM quarantine_size"),
                     rig_number(r, "SELECT coalesce(sum(length(event)), 0) FROM quarantine"));
}

static void send_wrong(struct rig *r, unsigned count)
{
    fill_batch(r, NOTHING_BEFORE, 1, 0);
    for (unsigned i = 0; i < count; i++) buf_printf(&r->body, "{\"wrong\":%u}\n", i);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
}

static void the_oldest_make_way_for_new_rows(void **state)
{
    struct rig *r = *state;
    fill(r, LIMIT_QUARANTINE_ROWS, 1);
    send_wrong(r, AT_ONCE);
    int64_t rows = rig_number(r, "SELECT count(*) FROM quarantine");
    assert_in_range(rows, LIMIT_QUARANTINE_ROWS - AT_ONCE, LIMIT_QUARANTINE_ROWS);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM quarantine WHERE node = 'node-1'"),
                     AT_ONCE);
    assert_true(rig_number(r, "SELECT min(seq) FROM quarantine WHERE node = 'x'") > AT_ONCE / 2);
    assert_counted(r);
    assert_int_equal(rig_number(r, "SELECT dropped FROM quarantine_size"),
                     LIMIT_QUARANTINE_ROWS + AT_ONCE - rows);
}

static void so_they_do_where_they_are_large(void **state)
{
    struct rig *r = *state;
    unsigned n = LIMIT_QUARANTINE_BYTES / QUARANTINED_BYTES;
    fill(r, n, QUARANTINED_BYTES);
    send_wrong(r, 1);
    assert_true(rig_number(r, "SELECT bytes FROM quarantine_size") <= LIMIT_QUARANTINE_BYTES);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM quarantine WHERE node = 'node-1'"), 1);
    assert_counted(r);
}

static void what_is_old_goes_by_handfuls_and_the_rest_stays(void **state)
{
    struct rig *r = *state;
    bool more = true;
    int handfuls = 0;
    struct quarantine_status now;
    fill(r, 1000, 3);
    send_wrong(r, 5);
    uint64_t now_ms = world_now_ms();
    assert_int_equal(quarantine_trim(r->store, 0, now_ms, &more, &r->fault), ERR_OK);
    assert_false(more); /* of any age */
    for (more = true; more; handfuls += more)
        assert_int_equal(quarantine_trim(r->store, DAY, now_ms, &more, &r->fault), ERR_OK);
    assert_int_equal(handfuls, 4);
    assert_int_equal(quarantine_status(r->store, &now, &r->fault), ERR_OK);
    assert_int_equal(now.rows, 5);
    assert_int_equal(now.dropped, 1000);
    assert_in_range(now.oldest_ms, now_ms - 60000, now_ms);
    assert_counted(r);
}

static void what_was_refused_is_not_counted(void **state)
{
    struct rig *r = *state;
    struct quarantine_status now;
    fill_batch(r, NULL, 1, 0);
    buf_put_literal(&r->body, "{}\n");
    assert_int_equal(send(r, EPOCH_1, 1), ERR_EPOCH_UNKNOWN);
    send_wrong(r, 2);
    send_wrong(r, 2); /* again: they are what they were */
    assert_int_equal(quarantine_status(r->store, &now, &r->fault), ERR_OK);
    assert_int_equal(now.rows, 2);
    assert_counted(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_oldest_make_way_for_new_rows),
        TEST(so_they_do_where_they_are_large),
        TEST(what_is_old_goes_by_handfuls_and_the_rest_stays),
        TEST(what_was_refused_is_not_counted),
    };
    return rig_run(tests);
}
