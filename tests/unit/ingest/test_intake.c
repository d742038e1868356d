/* Messages into rows and offsets: one transaction, whatever is among them. */
#include "unit/ingest/rig.h"

#include <errno.h>

#include "pipeline/ingest/consumer_store.h"
#include "pipeline/ingest/intake.h"
#include "store/store_inside.h"

#define ME "aaaaaaaaaaaaaaaa"
#define OTHER "bbbbbbbbbbbbbbbb"
#define TOPIC STR("t")

enum { MESSAGES_MAX = 64 };

struct scene {
    struct rig *rig;
    struct message_intake intake;
    struct lease lease;
    struct message messages[MESSAGES_MAX];
    char numbers[MESSAGES_MAX][24], macs[MESSAGES_MAX][SHA256_HEX];
    size_t count;
    uint64_t next_offset; /* of partition 0 */
    uint32_t lost;        /* the partition that the last store() told of; 99: none */
};

/* `owner` owns the only partition. */
static void own(struct scene *s, const char *owner)
{
    lease_fini(&s->lease);
    lease_init(&s->lease, owner);
    s->lease.partition_count = 1;
    for (uint64_t heartbeat = 0; heartbeat < 2; heartbeat++)
        assert_int_equal(consumer_store_heartbeat(s->rig->store, TOPIC, &s->lease,
                                                  heartbeat * 2 * LEASE_MS, 1, &s->rig->fault),
                         ERR_OK);
    assert_true(lease_is_mine(&s->lease, 0));
}

static void begin(struct scene *s, struct rig *r)
{
    *s = (struct scene){
        .rig = r,
        .intake = {
            .store = r->store, .topic = TOPIC, .owner = STR(ME), .sheet = metrics_sheet_create()}};
    buf_init(&s->intake.run, 1 << 12, 32 << 20);
    own(s, ME);
}

static void end(struct scene *s)
{
    buf_fini(&s->intake.run);
    lease_fini(&s->lease);
}

static struct message *add(struct scene *s, const char *node, const char *epoch, uint64_t seq,
                           struct str value)
{
    struct message *m = &s->messages[s->count];
    snprintf(s->numbers[s->count], sizeof s->numbers[0], "%llu", (unsigned long long)seq);
    *m = (struct message){.offset = s->next_offset + s->count,
                          .value = value,
                          .headers = {.node = str_from(node),
                                      .journal = STR("0"),
                                      .epoch = str_from(epoch),
                                      .seq = str_from(s->numbers[s->count]),
                                      .schema = STR("writ.audit/1")}};
    rig_sign_message(m, s->macs[s->count]);
    s->count++;
    return m;
}

/* Lines of r->body as the records first, first + 1, … of a node. */
static void add_body(struct scene *s, const char *node, const char *epoch, uint64_t first)
{
    struct str rest = buf_view(&s->rig->body), line;
    while (rest.size > 0 && str_split(&rest, '\n', &line)) add(s, node, epoch, first++, line);
}

static enum err store(struct scene *s)
{
    struct offset_move move = {.from = s->next_offset, .to = s->next_offset + s->count};
    struct message_batch batch = {
        .messages = s->messages, .count = s->count, .moves = &move, .move_count = 1};
    s->lost = 99;
    enum err err =
        message_intake_store(&s->intake, &batch, world_now_ms(), &s->lost, &s->rig->fault);
    if (err == ERR_OK) s->next_offset = move.to;
    s->count = 0;
    return err;
}

static void assert_offset(const struct scene *s, int64_t offset)
{
    assert_int_equal(rig_number(s->rig, "SELECT next_offset FROM offsets WHERE partition = 0"),
                     offset);
}

static void rows_and_offset_are_there_together(void **state)
{
    struct scene s;
    begin(&s, *state);
    fill_batch(s.rig, NOTHING_BEFORE, 1, 5);
    add_body(&s, "node-1", EPOCH_1, 1);
    assert_int_equal(store(&s), ERR_OK);
    assert_int_equal(rig_number(s.rig, "SELECT count(*) FROM records WHERE node = 'node-1'"), 6);
    assert_int_equal(rig_number(s.rig, "SELECT next_seq FROM streams"), 7);
    assert_offset(&s, 6);
    end(&s);
}

static void what_comes_again_is_a_duplicate_and_moves_the_offset(void **state)
{
    struct scene s;
    begin(&s, *state);
    uint64_t before = metrics_total(METRIC_INGEST_DUPLICATES);
    for (int i = 0; i < 3; i++) {
        fill_batch(s.rig, NOTHING_BEFORE, 1, 5);
        add_body(&s, "node-1", EPOCH_1, 1);
        assert_int_equal(store(&s), ERR_OK);
    }
    assert_int_equal(rig_number(s.rig, "SELECT count(*) FROM records WHERE node = 'node-1'"), 6);
    assert_int_equal(metrics_total(METRIC_INGEST_DUPLICATES) - before, 12);
    assert_int_equal(rig_number(s.rig, "SELECT count(*) FROM quarantine"), 0);
    assert_offset(&s, 18);
    end(&s);
}

static void a_platform_that_lost_its_partition_commits_nothing(void **state)
{
    struct scene s;
    begin(&s, *state);
    rig_sql(s.rig, "UPDATE offsets SET owner = '" OTHER "'");
    fill_batch(s.rig, NOTHING_BEFORE, 1, 5);
    add_body(&s, "node-1", EPOCH_1, 1);
    assert_int_equal(store(&s), ERR_PRECONDITION_FAILED);
    assert_int_equal(s.lost, 0);
    assert_int_equal(rig_number(s.rig, "SELECT count(*) FROM records WHERE node = 'node-1'"), 0);
    assert_int_equal(rig_number(s.rig, "SELECT count(*) FROM streams"), 0);
    assert_offset(&s, 0);
    end(&s);
}

static void an_offset_that_somebody_moved_is_not_moved_again(void **state)
{
    struct scene s;
    begin(&s, *state);
    /* lost, read on by another, and won back */
    rig_sql(s.rig, "UPDATE offsets SET next_offset = 3");
    fill_batch(s.rig, NOTHING_BEFORE, 1, 5);
    add_body(&s, "node-1", EPOCH_1, 1);
    assert_int_equal(store(&s), ERR_PRECONDITION_FAILED);
    assert_offset(&s, 3);
    end(&s);
}

static void an_offset_moves_in_its_own_topic_and_partition_alone(void **state)
{
    struct scene s;
    begin(&s, *state);
    rig_sql(s.rig, "INSERT INTO offsets (topic, partition, next_offset, owner, updated_at)"
                   " VALUES ('t', 1, 0, '" ME "', 1), ('u', 0, 0, '" ME "', 1)");
    fill_batch(s.rig, NOTHING_BEFORE, 1, 5);
    add_body(&s, "node-1", EPOCH_1, 1);
    assert_int_equal(store(&s), ERR_OK);
    assert_int_equal(rig_number(s.rig, "SELECT count(*) FROM offsets WHERE next_offset = 0"), 2);
    end(&s);
}

static void a_gap_is_asked_for_once_and_holds_up_nobody_else(void **state)
{
    struct scene s;
    begin(&s, *state);
    fill_batch(s.rig, NOTHING_BEFORE, 1, 2);
    add_body(&s, "node-1", EPOCH_1, 1);
    assert_int_equal(store(&s), ERR_OK);
    uint64_t before = metrics_total(METRIC_CONSUMER_REPLAYS);
    fill_batch(s.rig, NULL, 50, 2);
    add_body(&s, "node-1", EPOCH_1, 9); /* 4 … 8 are missing */
    struct buf other;
    buf_init(&other, 0, 1 << 16);
    put_started(&other, 77, NOTHING_BEFORE);
    add(&s, "node-2", EPOCH_2, 1, buf_view(&other));
    assert_int_equal(store(&s), ERR_OK);
    assert_int_equal(rig_number(s.rig, "SELECT next_seq FROM streams WHERE node = 'node-1'"), 4);
    assert_int_equal(rig_number(s.rig, "SELECT next_seq FROM streams WHERE node = 'node-2'"), 2);
    assert_int_equal(rig_number(s.rig, "SELECT from_seq FROM replays WHERE node = 'node-1'"), 4);
    int64_t asked = rig_number(s.rig, "SELECT asked_at FROM replays WHERE node = 'node-1'");
    fill_batch(s.rig, NULL, 60, 2);
    add_body(&s, "node-1", EPOCH_1, 11);
    assert_int_equal(store(&s), ERR_OK);
    assert_int_equal(rig_number(s.rig, "SELECT asked_at FROM replays WHERE node = 'node-1'"),
                     asked);
    assert_int_equal(metrics_total(METRIC_CONSUMER_REPLAYS) - before, 1);
    assert_offset(&s, 8);
    buf_fini(&other);
    end(&s);
}

/* Nothing is stored under another place than its own. */
static void what_does_not_follow_ends_the_run(void **state)
{
    enum { OTHER_SEQ, OTHER_NODE, OTHER_JOURNAL, OTHER_EPOCH, CASES };
    struct scene s;
    begin(&s, *state);
    for (unsigned i = 0; i < CASES; i++) {
        char node[16], sql[128];
        snprintf(node, sizeof node, "node-%u", i);
        fill_batch(s.rig, NOTHING_BEFORE, 1 + 10 * i, 3);
        add_body(&s, node, EPOCH_1, 1);
        struct topic_headers *fourth = &s.messages[3].headers;
        if (i == OTHER_SEQ) fourth->seq = STR("9");
        if (i == OTHER_NODE) fourth->node = STR("other");
        if (i == OTHER_JOURNAL) fourth->journal = STR("1");
        if (i == OTHER_EPOCH) fourth->epoch = STR(EPOCH_2);
        rig_sign_message(&s.messages[3], s.macs[3]);
        assert_int_equal(store(&s), ERR_OK);
        snprintf(sql, sizeof sql,
                 "SELECT next_seq FROM streams WHERE node = '%s' AND journal = '0'", node);
        assert_int_equal(rig_number(s.rig, sql), 4);
        assert_offset(&s, 4 * (i + 1));
    }
    assert_int_equal(rig_number(s.rig, "SELECT max(seq) FROM records"), 3);
    end(&s);
}

static void replay_of(void *context, const struct audit_stream *s)
{
    *(uint64_t *)context = s->replay;
}

static uint64_t told_replay(struct scene *s, struct str node)
{
    uint64_t replay = 0;
    struct audit_store *a = store_audit(s->rig->store);
    assert_int_equal(a->ops->streams_of(a->state, node, (struct str){0}, replay_of, &replay),
                     ERR_OK);
    return replay;
}

static void a_replay_is_told_until_the_stream_moves_on(void **state)
{
    struct scene s;
    begin(&s, *state);
    fill_batch(s.rig, NULL, 5, 1);
    add_body(&s, "node-1", EPOCH_1, 5); /* nothing of the stream is known yet */
    assert_int_equal(store(&s), ERR_OK);
    assert_true(told_replay(&s, STR("node-1")) != 0);
    fill_batch(s.rig, NOTHING_BEFORE, 1, 3);
    add_body(&s, "node-1", EPOCH_1, 1);
    fill_batch(s.rig, NOTHING_BEFORE, 1, 3);
    assert_int_equal(store(&s), ERR_OK);
    assert_int_equal(told_replay(&s, STR("node-1")), 0);
    end(&s);
}

static void poison_goes_to_quarantine_and_the_rest_goes_on(void **state)
{
    struct scene s;
    begin(&s, *state);
    fill_batch(s.rig, NOTHING_BEFORE, 1, 1);
    add_body(&s, "node-1", EPOCH_1, 1);
    add(&s, "node-1", EPOCH_1, 3, STR("x"))->headers.schema = STR("another");
    add(&s, "node-1", EPOCH_1, 3, (struct str){0}); /* a tombstone */
    add(&s, "node-1", EPOCH_1, 3, STR("two\nlines"));
    /* a place, but no event: the stream goes on behind it */
    add(&s, "node-1", EPOCH_1, 3, STR("{\"no\":\"event\"}"));
    assert_int_equal(store(&s), ERR_OK);
    assert_int_equal(rig_number(s.rig, "SELECT count(*) FROM quarantine WHERE reason = 'poison'"),
                     3);
    assert_int_equal(rig_number(s.rig, "SELECT count(*) FROM quarantine WHERE reason = 'invalid'"),
                     1);
    assert_int_equal(rig_number(s.rig, "SELECT next_seq FROM streams"), 4);
    assert_offset(&s, 6);
    end(&s);
}

/* How many lines of an event are in a file of the log, and what follows `before` in the last one. */
static unsigned lines_of(FILE *log, const char *event, const char *before,
                         unsigned long *ret_number)
{
    char line[4096], name[64];
    unsigned count = 0;
    snprintf(name, sizeof name, "\"%s\"", event);
    rewind(log);
    while (fgets(line, sizeof line, log) != NULL) {
        if (strstr(line, name) == NULL) continue;
        const char *at = strstr(line, before);
        if (at != NULL) *ret_number = strtoul(at + strlen(before), NULL, 10);
        count++;
    }
    return count;
}

/* Thousands of unreadable messages: of each cause ten lines a second, and the next tells of the rest. */
static void messages_that_nobody_can_read_do_not_fill_the_log(void **state)
{
    enum { UNREADABLE = 5000 };
    static struct message messages[UNREADABLE];
    struct scene s;
    unsigned long held = 0;
    begin(&s, *state);
    int before = dup(STDERR_FILENO);
    FILE *log = tmpfile();
    assert_non_null(log);
    fflush(stderr);
    assert_true(dup2(fileno(log), STDERR_FILENO) >= 0);
    for (unsigned round = 0; round < 2; round++) {
        uint64_t first = round * (uint64_t)UNREADABLE;
        for (unsigned i = 0; i < UNREADABLE; i++)
            messages[i] = (struct message){.offset = first + i, .value = STR("junk")};
        struct offset_move move = {.from = first, .to = first + UNREADABLE};
        struct message_batch batch = {
            .messages = messages, .count = UNREADABLE, .moves = &move, .move_count = 1};
        assert_int_equal(
            message_intake_store(&s.intake, &batch, 5000 + round * 1000, &s.lost, &s.rig->fault),
            ERR_OK);
    }
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    assert_int_equal(lines_of(log, "consume_poison", "partition 0 offset 5000, 4 bytes: ", &held),
                     20);
    assert_int_equal(lines_of(log, "ingest_quarantined", "seq 5000; ", &held), 20);
    assert_int_equal(held, UNREADABLE - LOG_RATE_LINES);
    assert_int_equal(rig_number(s.rig, "SELECT row_count FROM quarantine_size"), 2 * UNREADABLE);
    fclose(log);
    end(&s);
}

/* It is gone from the topic some day, and others wait behind it in the partition. */
static void what_a_newer_engine_records_holds_up_nobody_in_a_topic(void **state)
{
    struct scene s;
    begin(&s, *state);
    fill_batch(s.rig, NOTHING_BEFORE, 1, 1);
    add_body(&s, "node-1", EPOCH_1, 1);
    add(&s, "node-1", EPOCH_1, 3,
        STR("{\"event_id\":\"evt_1\",\"kind\":\"decision.surprising\",\"tenant_id\":\"default\","
            "\"timestamp\":\"2026-11-20T09:30:00.123Z\"}"));
    assert_int_equal(store(&s), ERR_OK);
    assert_int_equal(rig_number(s.rig, "SELECT count(*) FROM quarantine WHERE reason = 'invalid'"),
                     1);
    assert_int_equal(rig_number(s.rig, "SELECT next_seq FROM streams"), 4);
    assert_offset(&s, 3);
    end(&s);
}

static void other_bytes_under_a_known_place_are_a_clash(void **state)
{
    struct scene s;
    begin(&s, *state);
    uint64_t before = metrics_total(METRIC_INGEST_CLASHES);
    fill_batch(s.rig, NOTHING_BEFORE, 1, 3);
    add_body(&s, "node-1", EPOCH_1, 1);
    add(&s, "node-1", EPOCH_1, 2, STR("{\"another\":1}"));
    assert_int_equal(store(&s), ERR_OK);
    assert_int_equal(rig_number(s.rig, "SELECT count(*) FROM quarantine WHERE reason = 'clash'"),
                     1);
    assert_int_equal(metrics_total(METRIC_INGEST_CLASHES) - before, 1);
    assert_int_equal(rig_number(s.rig, "SELECT next_seq FROM streams"), 5);
    end(&s);
}

static void another_history_is_kept_aside_and_the_true_one_goes_on(void **state)
{
    struct scene s;
    begin(&s, *state);
    uint64_t before = metrics_total(METRIC_INGEST_CLASHES);
    fill_batch(s.rig, NOTHING_BEFORE, 1, 1);
    add_body(&s, "node-1", EPOCH_1, 1);
    add(&s, "node-1", EPOCH_2, 3, STR("{\"false\":3}"));
    add(&s, "node-1", EPOCH_2, 4, STR("{\"false\":4}"));
    assert_int_equal(store(&s), ERR_OK);
    fill_batch(s.rig, NULL, 7, 2);
    add_body(&s, "node-1", EPOCH_1, 3);
    assert_int_equal(store(&s), ERR_OK);
    assert_int_equal(
        rig_number(s.rig, "SELECT count(*) FROM quarantine WHERE reason = 'epoch unknown'"), 2);
    assert_int_equal(metrics_total(METRIC_INGEST_CLASHES) - before, 2);
    assert_int_equal(rig_number(s.rig, "SELECT next_seq FROM streams"), 5);
    end(&s);
}

/* Where it tells of records that are there it is compared with them; the rest is kept aside, once. */
static void of_another_history_what_is_there_is_compared_and_the_rest_kept_aside(void **state)
{
    struct scene s;
    begin(&s, *state);
    uint64_t before = metrics_total(METRIC_INGEST_CLASHES);
    fill_batch(s.rig, NOTHING_BEFORE, 1, 2);
    add_body(&s, "node-1", EPOCH_1, 1);
    assert_int_equal(store(&s), ERR_OK);
    add(&s, "node-1", EPOCH_2, 3, STR("{\"false\":3}"));
    add(&s, "node-1", EPOCH_2, 4, STR("{\"false\":4}"));
    add(&s, "node-1", EPOCH_2, 5, STR("{\"false\":5}"));
    assert_int_equal(store(&s), ERR_OK);
    assert_int_equal(
        rig_number(s.rig, "SELECT count(*) FROM quarantine WHERE reason = 'clash' AND seq = 3"), 1);
    assert_int_equal(
        rig_number(
            s.rig,
            "SELECT count(*) FROM quarantine WHERE reason = 'epoch unknown' AND seq IN (4, 5)"),
        2);
    assert_int_equal(rig_number(s.rig, "SELECT count(*) FROM quarantine"), 3);
    assert_int_equal(metrics_total(METRIC_INGEST_CLASHES) - before, 3);
    end(&s);
}

static void an_offset_never_moves_without_its_rows(void **state)
{
    struct scene s;
    begin(&s, *state);
    rig_forbid(s.rig, "INSERT", "quarantine", "1 = 1");
    fill_batch(s.rig, NOTHING_BEFORE, 1, 3);
    add_body(&s, "node-1", EPOCH_1, 1);
    add(&s, "node-1", EPOCH_1, 5, STR("x"))->headers.schema = STR("poison");
    assert_int_not_equal(store(&s), ERR_OK);
    assert_int_equal(rig_number(s.rig, "SELECT count(*) FROM records WHERE node = 'node-1'"), 0);
    assert_offset(&s, 0);
    rig_permit(s.rig, "quarantine");
    end(&s);
}

static bool ask(struct scene *s, struct store *store, uint64_t monotonic_ms, uint64_t now_ms)
{
    bool asked;
    const struct audit_stream missing = {.node = STR("n"), .journal = STR("0"), .next_seq = 4};
    assert_int_equal(store_begin(store, &s->rig->fault), ERR_OK);
    enum err err =
        consumer_store_ask(store, &missing, monotonic_ms, now_ms, &asked, &s->rig->fault);
    assert_int_equal(store_end(store, err, &s->rig->fault), ERR_OK);
    return asked;
}

/* Each by its own monotonic clock, from when it first saw the request. */
static void a_gap_is_asked_for_again_after_a_while_whatever_the_clocks_say(void **state)
{
    struct scene s;
    struct store *other;
    const uint64_t hour = 3600000;
    static const char number[] = "SELECT asked_at FROM replays";
    begin(&s, *state);
    assert_int_equal(store_open(s.rig->path, true, &other, &s.rig->fault), ERR_OK);
    assert_true(ask(&s, s.rig->store, 1000, 5 * hour));
    int64_t first = rig_number(s.rig, number);
    assert_int_equal(first, 5 * hour);                /* a time, where that is another number */
    assert_false(ask(&s, other, 7 * hour, 9 * hour)); /* its clock is far ahead */
    assert_false(ask(&s, s.rig->store, 16000, 5 * hour));
    assert_int_equal(rig_number(s.rig, number), first);
    assert_true(ask(&s, other, 7 * hour + 15001, 2 * hour)); /* and was set back */
    int64_t second = rig_number(s.rig, number);
    assert_true(second > first);
    assert_false(ask(&s, s.rig->store, 60000, 9 * hour)); /* a new request, seen just now */
    assert_true(ask(&s, s.rig->store, 60000 + 15001, 1));
    assert_true(rig_number(s.rig, number) > second);
    store_close(other);
    end(&s);
}

static void whoever_has_asked_asks_again_fifteen_seconds_later(void **state)
{
    struct scene s;
    begin(&s, *state);
    assert_true(ask(&s, s.rig->store, 1000, 1));
    assert_true(ask(&s, s.rig->store, 16001, 1));
    end(&s);
}

static void another_gap_of_the_stream_is_asked_for_at_once(void **state)
{
    struct scene s;
    begin(&s, *state);
    assert_true(ask(&s, s.rig->store, 1000, 1));
    rig_sql(s.rig, "UPDATE replays SET from_seq = 2"); /* what was asked for before is another */
    assert_true(ask(&s, s.rig->store, 1000, 1));
    assert_int_equal(rig_number(s.rig, "SELECT from_seq FROM replays"), 4);
    end(&s);
}

static void all_streams_of_a_partition_can_be_asked_for(void **state)
{
    struct scene s;
    uint64_t asked = 0;
    begin(&s, *state);
    /* More than are looked at together. */
    rig_sql(s.rig, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)"
                   " INSERT INTO streams SELECT 'n' || i, '0', '" EPOCH_1 "', 5, 1, 1 FROM n");
    struct audit_store *a = store_audit(s.rig->store);
    assert_int_equal(a->ops->begin(a->state), ERR_OK);
    uint64_t total = 0;
    for (uint32_t partition = 0; partition < 4; partition++) {
        assert_int_equal(
            consumer_store_ask_all(s.rig->store, partition, 4, 0, 1000, &asked, &s.rig->fault),
            ERR_OK);
        total += asked;
    }
    assert_int_equal(a->ops->commit(a->state), ERR_OK);
    assert_int_equal(total, 600);
    assert_int_equal(rig_number(s.rig, "SELECT count(*) FROM replays WHERE from_seq = 5"), 600);
    end(&s);
}

static void who_leaves_frees_its_partitions_at_once(void **state)
{
    struct scene s;
    begin(&s, *state);
    assert_int_equal(consumer_store_leave(s.rig->store, TOPIC, &s.lease, &s.rig->fault), ERR_OK);
    assert_int_equal(rig_number(s.rig, "SELECT count(*) FROM consumers"), 0);
    lease_fini(&s.lease);
    lease_init(&s.lease, OTHER);
    s.lease.partition_count = 1;
    assert_int_equal(consumer_store_heartbeat(s.rig->store, TOPIC, &s.lease, 1, 1, &s.rig->fault),
                     ERR_OK);
    assert_true(lease_is_mine(&s.lease, 0));
    end(&s);
}

static void who_leaves_takes_nobody_else_along(void **state)
{
    struct scene s;
    begin(&s, *state);
    rig_sql(s.rig, "INSERT INTO offsets (topic, partition, next_offset, owner, updated_at)"
                   " VALUES ('t', 1, 0, '" OTHER "', 1), ('u', 0, 0, '" ME "', 1)");
    rig_sql(s.rig, "INSERT INTO consumers (topic, owner, beat, seen_at)"
                   " VALUES ('t', '" OTHER "', 1, 1), ('u', '" ME "', 1, 1)");
    assert_int_equal(consumer_store_leave(s.rig->store, TOPIC, &s.lease, &s.rig->fault), ERR_OK);
    assert_int_equal(rig_number(s.rig, "SELECT count(*) FROM offsets WHERE owner <> ''"), 2);
    assert_int_equal(rig_number(s.rig, "SELECT count(*) FROM consumers"), 2);
    end(&s);
}

/* Seventy that were killed: one of them owned a partition that is not there any more. */
static void rows_of_the_dead_end_by_time(void **state)
{
    struct scene s;
    begin(&s, *state);
    for (unsigned i = 0; i < 70; i++) {
        char sql[200];
        snprintf(
            sql, sizeof sql,
            "INSERT INTO consumers (topic, owner, beat, seen_at) VALUES ('t', '%016u', 1, %llu)", i,
            (unsigned long long)world_now_ms());
        rig_sql(s.rig, sql);
    }
    rig_sql(s.rig, "INSERT INTO offsets (topic, partition, next_offset, owner, updated_at)"
                   " VALUES ('t', 5, 0, '0000000000000003', 1)");
    rig_sql(s.rig, "INSERT INTO consumers (topic, owner, beat, seen_at) VALUES ('old', '" OTHER
                   "', 1, 1)");
    for (uint64_t n = 0; n < 3; n++)
        assert_int_equal(consumer_store_heartbeat(s.rig->store, TOPIC, &s.lease,
                                                  100000 + n * (LEASE_MS - 1), world_now_ms(),
                                                  &s.rig->fault),
                         ERR_OK);
    assert_true(lease_is_mine(&s.lease, 0));
    assert_int_equal(rig_number(s.rig, "SELECT count(*) FROM consumers"), 1);
    end(&s);
}

static void another_topics_platforms_and_partitions_do_not_count(void **state)
{
    struct scene s;
    begin(&s, *state);
    rig_sql(s.rig, "INSERT INTO offsets (topic, partition, next_offset, owner, updated_at)"
                   " VALUES ('u', 0, 7, '" OTHER "', 1)");
    rig_sql(s.rig, "INSERT INTO consumers (topic, owner, beat, seen_at)"
                   " VALUES ('u', '" OTHER "', 1, 1)");
    assert_int_equal(consumer_store_heartbeat(s.rig->store, TOPIC, &s.lease, 1, 1, &s.rig->fault),
                     ERR_OK);
    assert_int_equal(s.lease.member_count, 1);
    assert_true(lease_is_mine(&s.lease, 0));
    assert_int_equal(s.lease.partitions[0].next_offset, 0);
    end(&s);
}

static void a_second_writer_leaves_the_first_ones_locks_alone(void **state)
{
    struct rig *r = *state;
    struct store *second;
    char log[300];
    snprintf(log, sizeof log, "%s-wal", r->path);
    assert_int_equal(store_open(r->path, true, &second, &r->fault), ERR_OK);
    store_close(second);
    pid_t child = fork();
    if (child == 0) { /* another process: this very program, which then only opens and closes */
        /* /proc/self/exe may be valgrind */
        execl(program_invocation_name, "test_intake", r->path, (char *)NULL);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    /* who is the last to close a database deletes its log */
    assert_int_equal(access(log, F_OK), 0);
}

static int open_and_close(const char *path)
{
    struct store *s;
    struct fault f;
    if (store_open(path, true, &s, &f) != ERR_OK) return 1;
    store_close(s);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2) return open_and_close(argv[1]);
    const struct CMUnitTest tests[] = {
        TEST(rows_and_offset_are_there_together),
        TEST(what_comes_again_is_a_duplicate_and_moves_the_offset),
        TEST(a_platform_that_lost_its_partition_commits_nothing),
        TEST(an_offset_that_somebody_moved_is_not_moved_again),
        TEST(an_offset_moves_in_its_own_topic_and_partition_alone),
        TEST(a_gap_is_asked_for_once_and_holds_up_nobody_else),
        TEST(what_does_not_follow_ends_the_run),
        TEST(a_replay_is_told_until_the_stream_moves_on),
        TEST(poison_goes_to_quarantine_and_the_rest_goes_on),
        TEST(messages_that_nobody_can_read_do_not_fill_the_log),
        TEST(what_a_newer_engine_records_holds_up_nobody_in_a_topic),
        TEST(other_bytes_under_a_known_place_are_a_clash),
        TEST(another_history_is_kept_aside_and_the_true_one_goes_on),
        TEST(of_another_history_what_is_there_is_compared_and_the_rest_kept_aside),
        TEST(an_offset_never_moves_without_its_rows),
        TEST(a_gap_is_asked_for_again_after_a_while_whatever_the_clocks_say),
        TEST(whoever_has_asked_asks_again_fifteen_seconds_later),
        TEST(another_gap_of_the_stream_is_asked_for_at_once),
        TEST(all_streams_of_a_partition_can_be_asked_for),
        TEST(who_leaves_frees_its_partitions_at_once),
        TEST(who_leaves_takes_nobody_else_along),
        TEST(rows_of_the_dead_end_by_time),
        TEST(another_topics_platforms_and_partitions_do_not_count),
    };
    const struct CMUnitTest on_a_file[] = {
        TEST(a_second_writer_leaves_the_first_ones_locks_alone),
    };
    return rig_run(tests) + cmocka_run_group_tests(on_a_file, NULL, NULL);
}
