/* Streams: how many may begin, and how they are forgotten. */
#include "rig.h"

#include "base/limits.h"
#include "pipeline/ingest/consumer_store.h"
#include "pipeline/ingest/intake.h"
#include "store/store_inside.h"
#include "store/streams.h"

static enum err begin_stream(struct rig *r, const char *node, const char *journal)
{
    static unsigned events;
    buf_clear(&r->body);
    put_started(&r->body, 1000000 + ++events, NOTHING_BEFORE);
    buf_put_byte(&r->body, '\n');
    const struct ingest_batch batch = {.node = str_from(node),
                                       .journal = str_from(journal),
                                       .epoch = STR(EPOCH_1),
                                       .first_seq = 1,
                                       .body = buf_view(&r->body),
                                       .tenants = &rig_all,
                                       .now_ms = world_now_ms()};
    r->fault = (struct fault){0};
    return rig_ingest(r, &batch);
}

/* As many under one name as there may be. */
static void fill_node(struct rig *r, const char *node, unsigned first)
{
    for (unsigned i = first; i < LIMIT_STREAMS_PER_NODE; i++) {
        char journal[16];
        snprintf(journal, sizeof journal, "j%u", i);
        assert_int_equal(begin_stream(r, node, journal), ERR_OK);
    }
}

static enum err forget(struct rig *r, const char *node, const char *journal, bool force,
                       uint64_t *ret_forgotten)
{
    const struct stream_forget what = {.node = str_from(node),
                                       .journal =
                                           journal == NULL ? (struct str){0} : str_from(journal),
                                       .force = force,
                                       .reason = STR("a stolen key")};
    const struct actor by = {
        .principal = STR("root"), .request_id = STR("req_1"), .now_ms = world_now_ms()};
    struct stream_forgotten done;
    r->fault = (struct fault){0};
    enum err err = stream_forget(r->store, &what, &by, &done, &r->fault);
    *ret_forgotten = done.streams;
    return err;
}

static void age(const struct rig *r, const char *where)
{
    char sql[256];
    snprintf(sql, sizeof sql, "UPDATE streams SET updated_at = updated_at - 90000000 WHERE %s",
             where);
    rig_sql(r, sql);
}

static void a_node_that_is_full_refuses_new_streams_and_no_other(void **state)
{
    struct rig *r = *state;
    uint64_t forgotten = 0;
    struct streams_full full;
    assert_int_equal(begin_stream(r, "node-1", "0"), ERR_OK);
    assert_int_equal(streams_full(r->store, &full, &r->fault), ERR_OK);
    assert_string_equal(full.text, "");
    fill_node(r, "node-1", 1);
    assert_int_equal(begin_stream(r, "node-1", "another"), ERR_NODE_FULL);
    assert_non_null(strstr(r->fault.text, "at most 64 streams"));
    assert_non_null(strstr(r->fault.text, "writ engine forget"));
    assert_int_equal(streams_full(r->store, &full, &r->fault), ERR_OK);
    assert_string_equal(full.text,
                        "node node-1 has 64 streams, and no other may begin: writ engine forget");
    /* What is there goes on, and another node begins. */
    fill_batch(r, NULL, 10, 2);
    assert_int_equal(send(r, EPOCH_1, 2), ERR_OK);
    assert_int_equal(begin_stream(r, "node-2", "another"), ERR_OK);
    assert_int_equal(forget(r, "node-1", "j7", true, &forgotten), ERR_OK);
    assert_int_equal(forgotten, 1);
    assert_int_equal(begin_stream(r, "node-1", "another"), ERR_OK);
    assert_int_equal(begin_stream(r, "node-1", "one more"), ERR_NODE_FULL);
}

static void what_was_heard_of_lately_is_not_forgotten_unless_forced(void **state)
{
    struct rig *r = *state;
    uint64_t forgotten = 0;
    assert_int_equal(forget(r, "node-1", NULL, false, &forgotten), ERR_NOT_FOUND);
    assert_int_equal(begin_stream(r, "node-1", "0"), ERR_OK);
    assert_int_equal(begin_stream(r, "node-1", "old"), ERR_OK);
    assert_int_equal(begin_stream(r, "node-1", "new"), ERR_OK);
    assert_int_equal(forget(r, "node-1", NULL, false, &forgotten), ERR_PRECONDITION_FAILED);
    assert_int_equal(forget(r, "node-1", "new", false, &forgotten), ERR_PRECONDITION_FAILED);
    assert_non_null(strstr(r->fault.text, "within the last 24 hours"));
    age(r, "journal <> 'new'");
    /* Silent for a day, but its engine follows: nobody asked it anything. */
    char sql[128];
    snprintf(sql, sizeof sql,
             "INSERT INTO followers (node, revision, seen_at) VALUES ('node-1', 1, %llu)",
             (unsigned long long)world_now_ms());
    rig_sql(r, sql);
    assert_int_equal(forget(r, "node-1", NULL, false, &forgotten), ERR_OK);
    assert_int_equal(forgotten, 1);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM streams WHERE journal = 'old'"), 0);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM streams"), 2);
    rig_sql(r, "DELETE FROM followers");
    assert_int_equal(forget(r, "node-1", "0", false, &forgotten), ERR_OK);
    assert_int_equal(forget(r, "node-1", NULL, true, &forgotten), ERR_OK);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM streams"), 0);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records WHERE kind = 'audit.forgotten'"
                                   " AND tenant_id = '*' AND actor = 'root'"),
                     3);
    assert_int_equal(rig_number(r,
                                "SELECT count(*) FROM records WHERE event LIKE '%the position of "
                                "journal 0 is forgotten: a stolen key%'"),
                     1);
}

/* It may be cut off, and decide by an old revision: for a day this needs a word more. */
static void a_node_that_is_gone_is_forgotten_with_or_without_streams(void **state)
{
    struct rig *r = *state;
    uint64_t forgotten = 0;
    char sql[192];
    snprintf(
        sql, sizeof sql,
        "INSERT INTO followers (node, revision, seen_at) VALUES ('node-1', 1, %llu), ('node-2', "
        "1, %llu)",
        (unsigned long long)world_now_ms(), (unsigned long long)world_now_ms() - 86500000);
    rig_sql(r, sql);
    assert_int_equal(forget(r, "node-1", NULL, false, &forgotten), ERR_PRECONDITION_FAILED);
    assert_int_equal(forget(r, "node-1", "0", true, &forgotten), ERR_NOT_FOUND);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM followers"), 2);
    assert_int_equal(forget(r, "node-1", NULL, true, &forgotten), ERR_OK);
    assert_int_equal(forgotten, 0);
    assert_int_equal(begin_stream(r, "node-2", "0"), ERR_OK);
    assert_int_equal(forget(r, "node-2", NULL, false, &forgotten), ERR_OK);
    assert_int_equal(forgotten, 0); /* its record is new, its engine is not */
    assert_int_equal(rig_number(r, "SELECT count(*) FROM followers"), 0);
    assert_int_equal(forget(r, "node-1", NULL, true, &forgotten), ERR_NOT_FOUND);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records WHERE event LIKE "
                                   "'%\"revocations no longer wait for it: a stolen key\"%'"),
                     2);
}

static void a_forgotten_stream_that_comes_again_is_what_it_was(void **state)
{
    struct rig *r = *state;
    uint64_t forgotten = 0;
    fill_batch(r, NOTHING_BEFORE, 1, 9);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_int_equal(forget(r, "node-1", "0", true, &forgotten), ERR_OK);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_result(r, 0, 10, 0, 11);
    /* Another journal under its name is none. */
    assert_int_equal(forget(r, "node-1", "0", true, &forgotten), ERR_OK);
    fill_batch(r, NOTHING_BEFORE, 50, 3);
    assert_int_equal(send(r, EPOCH_2, 1), ERR_OK);
    assert_result(r, 0, 0, 4, 5);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records WHERE node IS NOT NULL"), 10);
}

static void note_journal(void *context, const struct audit_stream *s)
{
    struct buf *out = context;
    buf_put_both(out, s->journal, STR(" "));
}

static void positions_are_told_of_one_journal_or_with_the_engines_first(void **state)
{
    struct rig *r = *state;
    struct audit_store *a = store_audit(r->store);
    bool asked;
    static const char *const journals[] = {"!", "0", "00", "x"};
    for (size_t i = 0; i < 4; i++) assert_int_equal(begin_stream(r, "node-1", journals[i]), ERR_OK);
    const struct audit_stream missing = {.node = STR("node-1"), .journal = STR("y"), .next_seq = 1};
    assert_int_equal(store_begin(r->store, &r->fault), ERR_OK);
    assert_int_equal(consumer_store_ask(r->store, &missing, 1, 1, &asked, &r->fault), ERR_OK);
    assert_int_equal(store_end(r->store, ERR_OK, &r->fault), ERR_OK);
    assert_int_equal(
        a->ops->streams_of(a->state, STR("node-1"), (struct str){0}, note_journal, &r->out),
        ERR_OK);
    assert_string_equal(out_text(r), "0 ! 00 x y ");
    buf_clear(&r->out);
    assert_int_equal(a->ops->streams_of(a->state, STR("node-1"), STR("00"), note_journal, &r->out),
                     ERR_OK);
    assert_string_equal(out_text(r), "00 ");
}

static bool ask(struct rig *r, const char *journal, uint64_t next_seq)
{
    bool asked;
    const struct audit_stream missing = {
        .node = STR("node-1"), .journal = str_from(journal), .next_seq = next_seq};
    assert_int_equal(store_begin(r->store, &r->fault), ERR_OK);
    assert_int_equal(consumer_store_ask(r->store, &missing, 1, 1, &asked, &r->fault), ERR_OK);
    assert_int_equal(store_end(r->store, ERR_OK, &r->fault), ERR_OK);
    return asked;
}

static void replays_of_invented_journals_are_bounded_and_go_with_their_node(void **state)
{
    struct rig *r = *state;
    uint64_t forgotten = 0;
    fill_batch(r, NOTHING_BEFORE, 1, 3);
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    for (unsigned i = 0; i < LIMIT_STREAMS_PER_NODE; i++) {
        char journal[16];
        snprintf(journal, sizeof journal, "j%u", i);
        assert_true(ask(r, journal, 1));
    }
    assert_false(ask(r, "another", 1));
    assert_true(ask(r, "0", 5)); /* one that is there */
    age(r, "node = 'node-1'");
    assert_int_equal(forget(r, "node-1", NULL, false, &forgotten), ERR_OK);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM replays"), 0);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM streams"), 0);
}

/* As of all nodes together: counted once in a transaction, and right within it. */
static void all_nodes_together_have_a_bound_too(void **state)
{
    struct rig *r = *state;
    char sql[512];
    snprintf(
        sql, sizeof sql,
        rig_is_postgres
            ? "INSERT INTO streams SELECT 'n' || n, '0', 'e', 1, 1, 1 FROM generate_series(1, %d) AS n"
            : "INSERT INTO streams WITH RECURSIVE g(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < %d)"
              " SELECT 'n' || n, '0', 'e', 1, 1, 1 FROM g",
        LIMIT_STREAMS - 1);
    rig_sql(r, sql);
    assert_int_equal(begin_stream(r, "node-1", "0"), ERR_OK);
    assert_int_equal(begin_stream(r, "node-2", "0"), ERR_NODE_FULL);
    assert_non_null(strstr(r->fault.text, "262144 streams"));
    fill_batch(r, NULL, 10, 2);
    assert_int_equal(send(r, EPOCH_1, 2), ERR_OK);
}

/* In a topic nothing is refused: what has no room is put aside, and others go on. */
static void a_stream_too_many_in_the_topic_is_put_aside(void **state)
{
    struct rig *r = *state;
    struct lease lease;
    uint32_t lost;
    fill_node(r, "node-1", 0);
    lease_init(&lease, "aaaaaaaaaaaaaaaa");
    lease.partition_count = 1;
    for (uint64_t heartbeat = 0; heartbeat < 2; heartbeat++)
        assert_int_equal(consumer_store_heartbeat(r->store, STR("t"), &lease,
                                                  heartbeat * 2 * LEASE_MS, 1, &r->fault),
                         ERR_OK);
    struct message_intake intake = {.store = r->store,
                                    .topic = STR("t"),
                                    .owner = STR("aaaaaaaaaaaaaaaa"),
                                    .sheet = metrics_sheet_create()};
    buf_init(&intake.run, 1 << 12, 32 << 20);
    buf_clear(&r->body);
    put_started(&r->body, 5000000, NOTHING_BEFORE);
    char mac[SHA256_HEX];
    struct message message = {.value = buf_view(&r->body),
                              .headers = {.node = STR("node-1"),
                                          .journal = STR("too many"),
                                          .epoch = STR(EPOCH_1),
                                          .seq = STR("1"),
                                          .schema = STR("writ.audit/1")}};
    rig_sign_message(&message, mac);
    const struct offset_move move = {.from = 0, .to = 1};
    const struct message_batch batch = {&message, 1, &move, 1};
    assert_int_equal(message_intake_store(&intake, &batch, world_now_ms(), &lost, &r->fault),
                     ERR_OK);
    assert_int_equal(
        rig_number(
            r,
            "SELECT count(*) FROM quarantine WHERE reason = 'node full' AND journal = 'too many'"),
        1);
    assert_int_equal(rig_number(r, "SELECT next_offset FROM offsets"), 1);
    buf_fini(&intake.run);
    lease_fini(&lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_node_that_is_full_refuses_new_streams_and_no_other),
        TEST(what_was_heard_of_lately_is_not_forgotten_unless_forced),
        TEST(a_node_that_is_gone_is_forgotten_with_or_without_streams),
        TEST(a_forgotten_stream_that_comes_again_is_what_it_was),
        TEST(positions_are_told_of_one_journal_or_with_the_engines_first),
        TEST(replays_of_invented_journals_are_bounded_and_go_with_their_node),
        TEST(all_nodes_together_have_a_bound_too),
        TEST(a_stream_too_many_in_the_topic_is_put_aside),
    };
    return rig_run(tests);
}
