/* Engine streams: order, overlap, clashes, epochs; rows and position in one transaction. */
#include "rig.h"

#include "base/limits.h"
#include "store/store_inside.h"

#include <sys/resource.h>

static void a_stream_begins_with_engine_started(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NULL, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_EPOCH_UNKNOWN);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM events"), 0);
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_result(r, 4, 0, 0, 5);
    assert_int_equal(
        rig_number(r,
                   "SELECT next_seq FROM streams WHERE node = 'node-1' AND epoch = '" EPOCH_1 "'"),
        5);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM events WHERE node = 'node-1' AND journal "
                                   "= '0' AND seq BETWEEN 1 AND 4"),
                     4);
}

static void the_first_record_of_all_names_no_previous(void **state)
{
    struct rig *r = *state;
    fill_batch(r, "{\"epoch\":\"" EPOCH_2 "\",\"seq\":7}", 1, 1);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_EPOCH_UNKNOWN);
}

static void a_repeated_batch_is_all_duplicates(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 9);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_result(r, 0, 10, 0, 11);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM events"), 10);
}

static void an_overlap_is_compared_and_the_rest_is_stored(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 4); /* seqs 1 … 5 */
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    fill_batch(r, NULL, 3, 5); /* events 3 … 7 are seqs 4 … 8 */
    assert_int_equal(send(r, EPOCH_1, 4), ERR_OK);
    assert_result(r, 3, 2, 0, 9);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM events"), 8);
}

static void a_batch_ahead_is_a_gap_that_says_where_to_go_on(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 4);
    assert_int_equal(send(r, EPOCH_1, 2), ERR_STREAM_GAP);
    assert_int_equal(r->result.next_seq, 1);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    fill_batch(r, NULL, 9, 1);
    assert_int_equal(send(r, EPOCH_1, 7), ERR_STREAM_GAP);
    assert_result(r, 0, 0, 0, 6);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM events"), 5);
}

static void other_bytes_at_a_stored_place_are_a_clash_that_stops_nothing(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 2); /* seqs 1 … 3 */
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    fill_batch(r, NULL, 50, 3);
    assert_int_equal(send(r, EPOCH_1, 3), ERR_OK);
    assert_result(r, 2, 0, 1, 6);
    assert_int_equal(
        rig_number(r, "SELECT count(*) FROM quarantine WHERE reason = 'clash' AND seq = 3"), 1);
    assert_int_equal(rig_number(r, "SELECT event LIKE '%evt_%02%' FROM events WHERE seq = 3"),
                     1); /* the first one stays */
    /* Sent again it is a clash again, but kept once. */
    assert_int_equal(send(r, EPOCH_1, 3), ERR_OK);
    assert_result(r, 0, 2, 1, 6);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM quarantine"), 1);
}

static void what_a_newer_engine_records_waits_there_for_a_newer_platform(void **state)
{
    struct rig *r = *state;
    static const char *const more[] = {"\"kind\":\"decision\",\"surprise\":1",
                                       "\"kind\":\"decision.surprising\""};
    for (size_t i = 0; i < 2; i++) {
        fill_batch(r, NOTHING_BEFORE, 1, 1);
        buf_printf(
            &r->body,
            "{\"event_id\":\"evt_1\",\"tenant_id\":\"default\",\"timestamp\":\"2026-11-20T09:30:00.123Z\",%s}\n",
            more[i]);
        assert_int_equal(send(r, EPOCH_1, 1), ERR_NEWER_RECORD);
        assert_non_null(strstr(r->fault.text,
                               "record 3 has a member or a kind that this platform does not know"));
    }
    assert_int_equal(rig_number(r, "SELECT count(*) FROM quarantine"), 0);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records"), 0);
    fill_batch(r, NOTHING_BEFORE, 1, 1);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
}

static void what_is_no_event_is_quarantined_and_the_stream_goes_on(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 1);
    buf_put_literal(&r->body, "{this is not json\n[]\n");
    buf_put(&r->body, str_of("\xff\x00\xfe\n", 4));
    put_event(&r->body, 2, "default");
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_result(r, 3, 0, 0, 7);
    assert_int_equal(r->result.invalid, 3);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM quarantine WHERE reason = 'invalid'"), 3);
    assert_int_equal(rig_number(r, "SELECT length(event) FROM quarantine WHERE seq = 5"), 3);
    assert_int_equal(rig_number(r, "SELECT seq FROM events WHERE event_id LIKE '%2'"), 6);
    /* Again, they are what they were. */
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_result(r, 0, 6, 0, 7);
}

/* As a stranger sends them: each refusal names the line, and leaves nothing. */
static void lines_without_end_are_refused_with_the_lines_number(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 1);
    buf_put_literal(&r->body, "\n");
    assert_int_equal(send(r, EPOCH_1, 1), ERR_BAD_VALUE);
    assert_non_null(strstr(r->fault.text, "line 3: is empty"));
    buf_clear(&r->body);
    for (size_t i = 0; i < LIMIT_INGEST_BODY_BYTES; i++) buf_put_byte(&r->body, '\n');
    assert_int_equal(send(r, EPOCH_1, 1), ERR_BAD_VALUE);
    assert_non_null(strstr(r->fault.text, "line 1: is empty"));
    fill_batch(r, NOTHING_BEFORE, 1, LIMIT_INGEST_LINES);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OUT_OF_RANGE);
    assert_non_null(strstr(r->fault.text, "line 4097: a batch has at most 4096 lines"));
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records"), 0);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM quarantine"), 0);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM streams"), 0);
    fill_batch(r, NOTHING_BEFORE, 1, LIMIT_INGEST_LINES - 1);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
}

static void put_wrong_lines(struct rig *r, unsigned count)
{
    fill_batch(r, NOTHING_BEFORE, 1, 1);
    for (unsigned i = 0; i < count; i++) buf_put_literal(&r->body, "{}\n");
}

static void wrong_lines_are_quarantined_up_to_a_number(void **state)
{
    struct rig *r = *state;
    put_wrong_lines(r, LIMIT_INGEST_WRONG_LINES + 1);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OUT_OF_RANGE);
    assert_non_null(strstr(r->fault.text, "line 1027: more than 1024 lines"));
    assert_int_equal(rig_number(r, "SELECT count(*) FROM quarantine"), 0);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records"), 0);
    put_wrong_lines(r, LIMIT_INGEST_WRONG_LINES);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_int_equal(r->result.invalid, LIMIT_INGEST_WRONG_LINES);
    assert_int_equal(rig_number(r, "SELECT row_count FROM quarantine_size"),
                     LIMIT_INGEST_WRONG_LINES);
    assert_int_equal(rig_number(r, "SELECT bytes FROM quarantine_size"),
                     2 * LIMIT_INGEST_WRONG_LINES);
    /* The same of what contradicts what is stored, also where the store tells of it in the end. */
    fill_batch(r, NULL, 5000, LIMIT_INGEST_WRONG_LINES + 2);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OUT_OF_RANGE);
    fill_batch(r, NULL, 20000, 1026);
    assert_int_equal(send(r, EPOCH_1, 1027), ERR_OK);
    rig_sql(r, "UPDATE streams SET next_seq = 1027");
    fill_batch(r, NULL, 30000, 1026);
    assert_int_equal(send(r, EPOCH_1, 1027), ERR_OUT_OF_RANGE);
    assert_non_null(strstr(r->fault.text, "contradict"));
}

static void a_new_epoch_must_name_the_stored_one_and_its_last_record(void **state)
{
    struct rig *r = *state;
    static const char *const wrong[] = {
        NOTHING_BEFORE,
        "{\"epoch\":\"" EPOCH_1 "\",\"seq\":3}",
        "{\"epoch\":\"" EPOCH_1 "\",\"seq\":5}",
        "{\"epoch\":\"" EPOCH_2 "\",\"seq\":4}",
        "{\"epoch\":\"" EPOCH_1 "\"}",
    };
    fill_batch(r, NOTHING_BEFORE, 1, 3); /* seqs 1 … 4 */
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fill_batch(r, wrong[i], 100 + (unsigned)i, 2);
        assert_int_equal(send(r, EPOCH_2, 5), ERR_EPOCH_UNKNOWN);
        assert_int_equal(r->result.next_seq, 5);
    }
    fill_batch(r, NULL, 10, 2);
    assert_int_equal(send(r, EPOCH_2, 5), ERR_EPOCH_UNKNOWN);
    fill_batch(r, "{\"epoch\":\"" EPOCH_1 "\",\"seq\":4}", 10, 2);
    assert_int_equal(send(r, EPOCH_2, 5), ERR_OK);
    assert_result(r, 3, 0, 0, 8);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM events WHERE epoch = '" EPOCH_2 "'"), 3);
    /* The old epoch has ended. */
    fill_batch(r, NULL, 20, 1);
    assert_int_equal(send(r, EPOCH_1, 8), ERR_EPOCH_UNKNOWN);
}

static void the_tail_of_the_old_epoch_may_come_again(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    fill_batch(r, "{\"epoch\":\"" EPOCH_1 "\",\"seq\":4}", 10, 1);
    assert_int_equal(send(r, EPOCH_2, 5), ERR_OK);
    fill_batch(r, NULL, 2, 2); /* seqs 3 and 4, of epoch 1 */
    assert_int_equal(send(r, EPOCH_1, 3), ERR_OK);
    assert_result(r, 0, 2, 0, 7);
}

static void a_tail_and_the_new_epochs_start_may_be_one_batch(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    fill_batch(r, NULL, 3, 1); /* seq 4 */
    put_started(&r->body, 77, "{\"epoch\":\"" EPOCH_1 "\",\"seq\":4}");
    assert_int_equal(send(r, EPOCH_2, 4), ERR_OK);
    assert_result(r, 1, 1, 0, 6);
}

static void streams_of_other_nodes_do_not_touch_each_other(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send_from(r, "node-1", EPOCH_1, 1), ERR_OK);
    fill_batch(r, NOTHING_BEFORE, 11, 1);
    assert_int_equal(send_from(r, "node-2", EPOCH_2, 1), ERR_OK);
    assert_result(r, 2, 0, 0, 3);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM streams"), 2);
}

static void an_event_id_of_another_stream_is_a_clash(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send_from(r, "node-1", EPOCH_1, 1), ERR_OK);
    assert_int_equal(send_from(r, "node-2", EPOCH_1, 1), ERR_OK); /* a disk that was copied */
    assert_result(r, 0, 0, 4, 5);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM events"), 4);
    assert_int_equal(
        rig_number(r, "SELECT count(*) FROM quarantine WHERE reason = 'event_id clash'"), 4);
}

static void a_posted_row_makes_way_for_one_record_among_others(void **state)
{
    struct rig *r = *state;
    assert_int_equal(
        post(
            r,
            "{\"event_id\":\"evt_00000000000000000000000005\",\"kind\":\"decision\",\"tenant_id\":\"default\","
            "\"timestamp\":\"2026-11-20T09:30:00.123Z\",\"reason\":\"mine\"}",
            false),
        ERR_OK);
    fill_batch(r, NOTHING_BEFORE, 1, 10);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_result(r, 11, 0, 1, 12);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM events"), 11);
    assert_int_equal(rig_number(r, "SELECT count(DISTINCT event_id) FROM records"), 11);
    assert_int_equal(rig_number(r, "SELECT seq FROM quarantine WHERE reason = 'event_id clash'"),
                     6);
}

/* Should a position ever be behind its rows, the second identity still holds. */
static void a_place_that_is_taken_is_not_taken_again(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 10);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    rig_sql(r, "UPDATE streams SET next_seq = 9");
    fill_batch(r, NULL, 50, 6); /* records 9, 10, 11 are there; 12, 13, 14 are not */
    assert_int_equal(send(r, EPOCH_1, 9), ERR_OK);
    assert_result(r, 3, 0, 3, 15);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records"), 14);
    assert_int_equal(rig_number(r, "SELECT count(DISTINCT seq) FROM records"), 14);
}

static void both_identities_may_be_taken_in_one_batch(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 10);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    rig_sql(r, "UPDATE streams SET next_seq = 11"); /* record 11 is there */
    fill_batch(r, NULL, 50, 1);
    put_event(&r->body, 3, "default"); /* event 3 is there */
    buf_put_literal(&r->body, "\n");
    put_event(&r->body, 51, "default");
    assert_int_equal(send(r, EPOCH_1, 11), ERR_OK);
    assert_result(r, 1, 0, 2, 14);
    assert_int_equal(
        rig_number(r, "SELECT seq FROM records WHERE event_id = 'evt_00000000000000000000000051'"),
        13);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records"), 12);
}

/* Event 1, without a place. */
static void post_first(struct rig *r)
{
    buf_clear(&r->body);
    put_event(&r->body, 1, "default");
    buf_put_byte(&r->body, '\0');
    assert_int_equal(post(r, r->body.bytes, false), ERR_OK);
}

static void a_row_that_people_posted_learns_its_place(void **state)
{
    struct rig *r = *state;
    post_first(r);
    fill_batch(r, NOTHING_BEFORE, 1, 1);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_result(r, 1, 1, 0, 3);
    assert_int_equal(rig_number(r, "SELECT seq FROM events WHERE id = 1"), 2);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK); /* and is found by it */
    assert_result(r, 0, 2, 0, 3);
}

/* Event 1 of another tenant, which numbers by itself, is nobody's in this stream. */
static void another_tenants_event_id_is_none_of_the_streams(void **state)
{
    struct rig *r = *state;
    put_event(&r->body, 1, "other");
    buf_put_byte(&r->body, '\0');
    assert_int_equal(post(r, r->body.bytes, false), ERR_OK);
    fill_batch(r, NOTHING_BEFORE, 1, 2);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_result(r, 3, 0, 0, 4);
    post_first(r); /* the stream has it */
    assert_int_equal(r->result.duplicates, 1);
    assert_int_equal(
        rig_number(r, "SELECT count(*) FROM records WHERE tenant_id = 'other' AND node IS NULL"),
        1);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM quarantine"), 0);
}

static void one_batch_may_have_one_event_id_of_two_tenants(void **state)
{
    struct rig *r = *state;
    post_first(r);
    fill_batch(r, NOTHING_BEFORE, 1, 1);
    put_event(&r->body, 1, "other");
    buf_put_literal(&r->body, "\n");
    put_event(&r->body, 1, "other"); /* and this is a clash within its tenant */
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_result(r, 2, 1, 1, 5);
    assert_int_equal(
        rig_number(r, "SELECT seq FROM records WHERE tenant_id = 'default' AND id = 1"), 2);
    assert_int_equal(rig_number(r, "SELECT seq FROM records WHERE tenant_id = 'other'"), 3);
    assert_int_equal(rig_number(r, "SELECT seq FROM quarantine"), 4);
}

/* Both stores take the first of the two. */
static void of_two_that_a_posted_row_could_be_it_is_the_first(void **state)
{
    struct rig *r = *state;
    post_first(r);
    fill_batch(r, NOTHING_BEFORE, 1, 1);
    put_event(&r->body, 1, "default");
    buf_put_byte(&r->body, '\n');
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_result(r, 1, 1, 1, 4);
    assert_int_equal(rig_number(r, "SELECT seq FROM events WHERE id = 1"), 2);
    assert_int_equal(rig_number(r, "SELECT seq FROM quarantine"), 3);
}

/* PostgreSQL: a transaction of many COPYs is no pile of subtransactions. */
static void no_savepoint_is_left_behind(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    /* records that are taken, and some that are not */
    for (unsigned first_n = 1; first_n < 8; first_n += 6) {
        fill_batch(r, NULL, first_n, 3);
        const struct ingest_batch batch = {.node = STR("node-1"),
                                           .journal = STR("0"),
                                           .epoch = STR(EPOCH_1),
                                           .first_seq = 5,
                                           .body = buf_view(&r->body),
                                           .tenants = &rig_all,
                                           .is_authenticated = true};
        assert_int_equal(store_begin(r->store, &r->fault), ERR_OK);
        assert_int_equal(ingest_stream_within(r->store, &batch, &r->result, &r->fault), ERR_OK);
        assert_int_equal(r->result.clashes, first_n == 1 ? 3 : 0);
        assert_int_not_equal(database_execute(r->store->database, "RELEASE before_ids", NULL),
                             ERR_OK);
        (void)store_end(r->store, ERR_IO, &r->fault);
    }
}

/* ---- long batches: PostgreSQL works on their first rows before they are whole ---- */

enum { LONG = 3000 };

/* Events that people could have posted, given to the store; r->body keeps their
 * bytes. The first failure. */
static enum err insert_events(struct rig *r, unsigned first_n, unsigned count)
{
    struct audit_store *audit = store_audit(r->store);
    struct arena arena;
    enum err err = ERR_OK;
    fill_batch(r, NULL, first_n, count);
    struct str rest = buf_view(&r->body), line;
    arena_init(&arena, 4 << 10, 1 << 20);
    while (err == ERR_OK && rest.size > 0 && str_split(&rest, '\n', &line)) {
        struct event event;
        uint64_t id;
        arena_reset(&arena);
        assert_int_equal(event_read(line, &arena, &event, &r->fault), ERR_OK);
        const struct audit_row row = {.bytes = line, .event = &event, .created_at = 1};
        err = audit->ops->insert(audit->state, &row, &id);
    }
    arena_fini(&arena);
    return err;
}

static void wait_until_the_server_works(const struct rig *r)
{
    const char *sql =
        "SELECT count(*) FROM pg_stat_progress_copy WHERE relid = 'identities'::regclass AND tuples_processed > 0";
    for (uint64_t until = world_monotonic_ns() + 120000000000u; world_monotonic_ns() < until;)
        if (rig_number(r, sql) == 1) return;
    fail_msg("no row of the batch has come to the server");
}

/* A transaction that has given rows to the server, and means to go on. */
static void begin_long(struct rig *r)
{
    assert_int_equal(store_begin(r->store, &r->fault), ERR_OK);
    assert_int_equal(insert_events(r, 1, LONG), ERR_OK);
    wait_until_the_server_works(r);
}

static void the_server_works_while_rows_are_still_written(void **state)
{
    struct rig *r = *state;
    begin_long(r);
    assert_int_equal(store_end(r->store, ERR_OK, &r->fault), ERR_OK);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records JOIN identities USING (id)"),
                     LONG);
}

static void a_long_batch_that_is_rolled_back_leaves_nothing(void **state)
{
    struct rig *r = *state;
    assert_int_equal(store_begin(r->store, &r->fault), ERR_OK);
    assert_int_equal(
        database_execute(r->store->database, "CREATE TEMP TABLE of_this_connection (a int)", NULL),
        ERR_OK);
    assert_int_equal(store_end(r->store, ERR_OK, &r->fault), ERR_OK);
    begin_long(r);
    (void)store_end(r->store, ERR_IO, &r->fault);
    assert_int_equal(
        rig_number(r, "SELECT (SELECT count(*) FROM identities) + (SELECT count(*) FROM records)"),
        0);
    /* And the connection is fit for the next. */
    assert_int_equal(store_begin(r->store, &r->fault), ERR_OK);
    assert_int_equal(database_execute(r->store->database, "SELECT 1 FROM of_this_connection", NULL),
                     ERR_OK);
    assert_int_equal(insert_events(r, 1, LONG), ERR_OK);
    assert_int_equal(store_end(r->store, ERR_OK, &r->fault), ERR_OK);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records"), LONG);
}

/* Both identities, and something else to be said in between. */
static void what_is_taken_in_a_long_batch_is_left_out_alone(void **state)
{
    struct rig *r = *state;
    for (unsigned n = 1500; n <= 2900; n += 1400) {
        char event[256];
        snprintf(event, sizeof event,
                 "{\"event_id\":\"evt_%026u\",\"kind\":\"decision\",\"tenant_id\":\"default\","
                 "\"timestamp\":\"2026-11-20T09:30:00.123Z\",\"reason\":\"mine\"}",
                 n);
        assert_int_equal(post(r, event, false), ERR_OK);
    }
    fill_batch(r, NOTHING_BEFORE, 1, LONG);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_result(r, LONG + 1, 0, 2, LONG + 2);               /* what was posted makes way */
    rig_sql(r, "UPDATE streams SET next_seq = next_seq - 2"); /* two places are taken as well */
    fill_batch(r, NULL, 10001, LONG / 4);
    buf_put_literal(&r->body, "{this is not json\n");
    for (unsigned n = 0; n < LONG; n++) {
        put_event(&r->body, n == 9 ? 7 : 20000 + n, "default"); /* event 7 is there */
        buf_put_byte(&r->body, '\n');
    }
    assert_int_equal(send(r, EPOCH_1, LONG), ERR_OK);
    assert_int_equal(r->result.invalid, 1);
    assert_result(r, LONG / 4 - 2 + LONG - 1, 0, 3, LONG + LONG / 4 + 1 + LONG);
    assert_int_equal(
        rig_number(r, "SELECT count(*) FROM quarantine WHERE reason = 'event_id clash'"), 5);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records"),
                     LONG + 1 + LONG / 4 - 2 + LONG - 1);
    assert_int_equal(rig_number(r, "SELECT count(DISTINCT event_id) = count(*) FROM records"), 1);
    assert_int_equal(rig_number(r, "SELECT count(DISTINCT seq) = count(seq) FROM records"), 1);
}

static void a_server_that_ends_in_a_long_batch_is_found_again(void **state)
{
    struct rig *r = *state;
    begin_long(r);
    server_end(SIGQUIT); /* at once, as in a crash */
    enum err err = insert_events(r, LONG + 1, LONG);
    assert_true(err == ERR_OK || err == ERR_STORE_UNAVAILABLE);
    assert_int_equal(store_end(r->store, err, &r->fault), ERR_STORE_UNAVAILABLE);
    assert_int_equal(store_begin(r->store, &r->fault), ERR_STORE_UNAVAILABLE);
    server_run();
    assert_int_equal(
        rig_number(r, "SELECT (SELECT count(*) FROM identities) + (SELECT count(*) FROM records)"),
        0);
    fill_batch(r, NOTHING_BEFORE, 1, LONG);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_result(r, LONG + 1, 0, 0, LONG + 2);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records JOIN identities USING (id)"),
                     LONG + 1);
}

static enum err send_for_acme(struct rig *r)
{
    struct str only[] = {STR("acme")};
    const struct globs tenants = {only, 1};
    const struct ingest_batch batch = {.node = STR("node-1"),
                                       .journal = STR("0"),
                                       .epoch = STR(EPOCH_1),
                                       .first_seq = 1,
                                       .body = buf_view(&r->body),
                                       .tenants = &tenants,
                                       .now_ms = 1};
    return rig_ingest(r, &batch);
}

static void a_tenant_that_the_key_may_not_write_for_refuses_the_batch(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 3); /* the first of them is engine.started */
    assert_int_equal(send_for_acme(r), ERR_WRONG_TENANT);
    assert_non_null(strstr(r->fault.text, "record 2: "));
    assert_null(strstr(r->fault.text, "default")); /* the sentence may be seen by anybody */
    assert_int_equal(rig_number(r, "SELECT count(*) FROM events") +
                         rig_number(r, "SELECT count(*) FROM streams"),
                     0);
}

static void what_is_the_engines_own_needs_no_right_to_the_first_tenant(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 0);
    put_event(&r->body, 1, "acme");
    buf_put_literal(&r->body,
                    "\n{\"count\":1,\"event_id\":\"evt_00000000000000000000000007\",\"kind\":"
                    "\"auth.failed\",\"tenant_id\":\"default\",\"timestamp\":"
                    "\"2026-11-20T09:30:00.123Z\"}\n");
    assert_int_equal(send_for_acme(r), ERR_OK);
    assert_result(r, 3, 0, 0, 4);
    put_event(&r->body, 2, "default");
    assert_int_equal(send_for_acme(r), ERR_WRONG_TENANT);
}

/* It is filed under the first tenant; under another one it would be somebody's. */
static void what_is_the_engines_own_is_of_no_other_tenant(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 0);
    buf_put_literal(&r->body,
                    "{\"count\":1,\"event_id\":\"evt_00000000000000000000000007\",\"kind\":"
                    "\"auth.failed\",\"tenant_id\":\"globex\",\"timestamp\":"
                    "\"2026-11-20T09:30:00.123Z\"}\n");
    assert_int_equal(send_for_acme(r), ERR_WRONG_TENANT);
}

static void wrong_headers_are_refused(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 1);
    assert_int_equal(send(r, EPOCH_1, 0), ERR_BAD_HEADER);
    assert_int_equal(send(r, EPOCH_1, UINT64_MAX), ERR_BAD_HEADER);
    assert_int_equal(send(r, "short", 1), ERR_BAD_HEADER);
    assert_int_equal(send(r, "ABCDEFABCDEFABCD", 1), ERR_BAD_HEADER);
    assert_int_equal(send_from(r, "", EPOCH_1, 1), ERR_BAD_HEADER);
    assert_int_equal(send_from(r, "\xff", EPOCH_1, 1), ERR_BAD_HEADER);
}

static enum err send_by(struct rig *r, const char *key_id)
{
    const struct ingest_batch batch = {.node = STR("node-1"),
                                       .journal = STR("0"),
                                       .epoch = STR(EPOCH_1),
                                       .first_seq = 1,
                                       .body = buf_view(&r->body),
                                       .tenants = &rig_all,
                                       .key_id = str_from(key_id),
                                       .now_ms = 1};
    return rig_ingest(r, &batch);
}

/* A revocation goes before the batches that wait. */
static void a_key_that_has_ended_sends_nothing(void **state)
{
    struct rig *r = *state;
    rig_key(r, KEY_1, "");
    rig_key(r, KEY_2, REVOKED);
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send_by(r, KEY_2), ERR_CREDENTIAL_REVOKED);
    assert_result(r, 0, 0, 0, 0);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records"), 0);
    assert_int_equal(send_by(r, KEY_1), ERR_OK);
    assert_result(r, 4, 0, 0, 5);
}

static void an_empty_batch_changes_nothing(void **state)
{
    struct rig *r = *state;
    buf_clear(&r->body);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_result(r, 0, 0, 0, 1);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM streams"), 0);
}

static void a_store_that_cannot_be_written_takes_nothing(void **state)
{
    struct rig *r = *state;
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    rig_forbid(r, "UPDATE", "streams", "1 = 1");
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    fill_batch(r, NULL, 10, 3);
    assert_int_not_equal(send(r, EPOCH_1, 5),
                         ERR_OK); /* the position cannot move, so no row stays */
    assert_int_equal(rig_number(r, "SELECT count(*) FROM events"), 4);
    assert_int_equal(r->result.accepted, 0);
    rig_permit(r, "streams");
    assert_int_equal(send(r, EPOCH_1, 5), ERR_OK);
    assert_result(r, 3, 0, 0, 8);
}

static void a_position_moves_only_from_where_it_is(void **state)
{
    struct rig *r = *state;
    struct audit_store *audit = store_audit(r->store);
    const struct audit_stream at_5 = {STR("n"), STR("0"), STR(EPOCH_1), 5, 0, true},
                              at_9 = {STR("n"), STR("0"), STR(EPOCH_1), 9, 0, true},
                              other = {STR("n"), STR("0"), STR(EPOCH_2), 5, 0, true};
    assert_int_equal(audit->ops->begin(audit->state), ERR_OK);
    assert_int_equal(audit->ops->stream_move(audit->state, &at_5, &at_9), ERR_PRECONDITION_FAILED);
    assert_int_equal(audit->ops->stream_move(audit->state, NULL, &at_5), ERR_OK);
    assert_int_equal(audit->ops->stream_move(audit->state, NULL, &at_5), ERR_PRECONDITION_FAILED);
    assert_int_equal(audit->ops->stream_move(audit->state, &at_9, &at_5), ERR_PRECONDITION_FAILED);
    assert_int_equal(audit->ops->stream_move(audit->state, &other, &at_9), ERR_PRECONDITION_FAILED);
    assert_int_equal(audit->ops->stream_move(audit->state, &at_5, &at_9), ERR_OK);
    assert_int_equal(audit->ops->commit(audit->state), ERR_OK);
}

/* A file size limit makes writes fail as a broken disk does, in the middle of a batch. */
static void a_disk_that_fails_refuses_the_batch_and_recovers(void **state)
{
    struct rig *r = *state;
    struct rlimit before, small;
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 400 << 10;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    fill_batch(r, NULL, 10, 4000);
    enum err err = send(r, EPOCH_1, 5);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_true(err == ERR_IO || err == ERR_NO_SPACE);
    assert_result(r, 0, 0, 0, 5);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records"), 4);
    assert_int_equal(send(r, EPOCH_1, 5), ERR_OK);
    assert_result(r, 4000, 0, 0, 4005);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records"), 4004);
}

/* The child is killed somewhere within its batches; afterwards position and rows must agree. */
static void a_kill_leaves_rows_and_position_together(void **state)
{
    struct rig *r = *state;
    for (int round = 0; round < 6; round++) {
        int pipes[2];
        assert_int_equal(pipe(pipes), 0);
        store_close(r->store);
        r->store = NULL;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            rig_open(r);
            uint64_t next =
                (uint64_t)rig_number(r, "SELECT coalesce(max(next_seq), 1) FROM streams");
            for (unsigned n = 0;; n++) {
                fill_batch(r, next == 1 ? NOTHING_BEFORE : NULL,
                           1000 * (unsigned)round + 20 * n + 1, 20);
                if (send(r, EPOCH_1, next) != ERR_OK) _exit(2);
                next = r->result.next_seq;
                if (write(pipes[1], "x", 1) != 1) _exit(3);
            }
        }
        char byte;
        for (int i = 0; i < 3 + round; i++) assert_int_equal(read(pipes[0], &byte, 1), 1);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        close(pipes[0]);
        close(pipes[1]);
        rig_open(r);
        /* In one question: a server may still be ending what the child began. */
        assert_int_equal(
            rig_number(r, "SELECT count(*) = max(next_seq) - 1 AND max(seq) = max(next_seq) - 1"
                          " FROM events CROSS JOIN (SELECT next_seq FROM streams) AS s"),
            1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_stream_begins_with_engine_started),
        TEST(the_first_record_of_all_names_no_previous),
        TEST(a_repeated_batch_is_all_duplicates),
        TEST(an_overlap_is_compared_and_the_rest_is_stored),
        TEST(a_batch_ahead_is_a_gap_that_says_where_to_go_on),
        TEST(other_bytes_at_a_stored_place_are_a_clash_that_stops_nothing),
        TEST(what_a_newer_engine_records_waits_there_for_a_newer_platform),
        TEST(what_is_no_event_is_quarantined_and_the_stream_goes_on),
        TEST(lines_without_end_are_refused_with_the_lines_number),
        TEST(wrong_lines_are_quarantined_up_to_a_number),
        TEST(a_new_epoch_must_name_the_stored_one_and_its_last_record),
        TEST(the_tail_of_the_old_epoch_may_come_again),
        TEST(a_tail_and_the_new_epochs_start_may_be_one_batch),
        TEST(streams_of_other_nodes_do_not_touch_each_other),
        TEST(an_event_id_of_another_stream_is_a_clash),
        TEST(a_posted_row_makes_way_for_one_record_among_others),
        TEST(a_place_that_is_taken_is_not_taken_again),
        TEST(both_identities_may_be_taken_in_one_batch),
        TEST(a_row_that_people_posted_learns_its_place),
        TEST(another_tenants_event_id_is_none_of_the_streams),
        TEST(one_batch_may_have_one_event_id_of_two_tenants),
        TEST(of_two_that_a_posted_row_could_be_it_is_the_first),
        TEST_OF_POSTGRES(no_savepoint_is_left_behind),
        TEST_OF_POSTGRES(the_server_works_while_rows_are_still_written),
        TEST_OF_POSTGRES(a_long_batch_that_is_rolled_back_leaves_nothing),
        TEST(what_is_taken_in_a_long_batch_is_left_out_alone),
        TEST_OF_POSTGRES(a_server_that_ends_in_a_long_batch_is_found_again),
        TEST(a_tenant_that_the_key_may_not_write_for_refuses_the_batch),
        TEST(what_is_the_engines_own_needs_no_right_to_the_first_tenant),
        TEST(what_is_the_engines_own_is_of_no_other_tenant),
        TEST(wrong_headers_are_refused),
        TEST(a_key_that_has_ended_sends_nothing),
        TEST(an_empty_batch_changes_nothing),
        TEST(a_store_that_cannot_be_written_takes_nothing),
        TEST(a_position_moves_only_from_where_it_is),
        TEST(a_kill_leaves_rows_and_position_together),
    };
    const struct CMUnitTest on_a_file[] = {
        TEST(a_disk_that_fails_refuses_the_batch_and_recovers),
    };
    return rig_run(tests) + cmocka_run_group_tests(on_a_file, NULL, NULL);
}
