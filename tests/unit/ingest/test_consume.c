/* The consumer's thread over a real store, before a source that does what brokers do. */
#include "unit/ingest/rig.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "metrics/metrics.h"
#include "pipeline/ingest/consume.h"

enum { RECORDS_MAX = 256, PATIENCE_S = 120 };

struct fake { /* a topic with one partition; all under `lock` */
    struct message_source door;
    pthread_mutex_t lock;
    bool is_missing; /* the topic */
    uint64_t low, end, at;
    bool stalls;        /* it is read, and nothing comes */
    bool started, owes; /* a message about the partition */
    struct message owed;
    char lines[RECORDS_MAX][512], numbers[RECORDS_MAX][24], macs[RECORDS_MAX][SHA256_HEX];
    const char *epoch;
    unsigned starts, stops;
    struct rig *behind; /* the offset moves once, and the consumer does not hear of it */
    bool again;         /* the next take begins with five that were read before */
    unsigned owing;     /* so many partitions, each of which owes an offset when all were started */
};

static enum err fake_partitions(void *state, uint32_t *ret, struct fault *f)
{
    struct fake *k = state;
    pthread_mutex_lock(&k->lock);
    bool missing = k->is_missing;
    pthread_mutex_unlock(&k->lock);
    if (missing) return fault_set(f, ERR_NOT_FOUND, "", "there is no topic");
    *ret = k->owing > 0 ? k->owing : 1;
    return ERR_OK;
}

static enum err fake_start(void *state, uint32_t partition, uint64_t offset, struct fault *f)
{
    struct fake *k = state;
    (void)f;
    pthread_mutex_lock(&k->lock);
    k->starts++;
    k->started = true;
    k->at = offset == 0 ? k->low : offset;
    k->owes = offset != 0 && (offset < k->low || offset > k->end);
    k->owed = (struct message){.kind = MESSAGE_OFFSET_GONE, .partition = partition};
    pthread_mutex_unlock(&k->lock);
    return ERR_OK;
}

static void fake_stop(void *state, uint32_t partition)
{
    struct fake *k = state;
    (void)partition;
    pthread_mutex_lock(&k->lock);
    k->stops++;
    k->started = k->owes = false;
    pthread_mutex_unlock(&k->lock);
}

static size_t fake_take(void *state, uint32_t ms, struct message *to, size_t max)
{
    struct fake *k = state;
    size_t count = 0;
    (void)ms;
    pthread_mutex_lock(&k->lock);
    if (k->owes) to[count++] = k->owed;
    for (unsigned i = 0; i < k->owing && k->starts == k->owing; i++)
        to[count++] = (struct message){.kind = MESSAGE_OFFSET_GONE, .partition = i};
    bool reads = k->started && !k->owes && !k->stalls;
    k->owes = false;
    if (k->again) k->at -= 5;
    k->again = false;
    for (; reads && k->at < k->end && count < max && count < 10; k->at++) {
        to[count] = (struct message){.offset = k->at,
                                     .value = str_from(k->lines[k->at]),
                                     .headers = {.node = STR("node-1"),
                                                 .journal = STR("0"),
                                                 .epoch = STR(EPOCH_1),
                                                 .seq = str_from(k->numbers[k->at]),
                                                 .schema = STR("writ.audit/1")}};
        rig_sign_message(&to[count++], k->macs[k->at]);
    }
    pthread_mutex_unlock(&k->lock);
    if (count == 0) sched_yield();
    return count;
}

static enum err fake_bounds(void *state, uint32_t partition, uint64_t *ret_low, uint64_t *ret_high,
                            struct fault *f)
{
    struct fake *k = state;
    (void)partition;
    if (f != NULL && k->behind != NULL) {
        rig_sql(k->behind, "UPDATE offsets SET next_offset = 50");
        k->behind = NULL;
    }
    pthread_mutex_lock(&k->lock);
    *ret_low = k->low;
    *ret_high = k->end;
    pthread_mutex_unlock(&k->lock);
    return ERR_OK;
}

static uint64_t fake_heard_end(void *state, uint32_t partition)
{
    uint64_t low, high = 0;
    (void)fake_bounds(state, partition, &low, &high, NULL);
    return high;
}

static void fake_destroy(struct message_source *s) { (void)s; }

/* ---- scenes ---- */

static struct fake *fake_create(void)
{
    struct fake *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->door = (struct message_source){k,         fake_partitions, fake_start,     fake_stop,
                                      fake_take, fake_bounds,     fake_heard_end, fake_destroy};
    pthread_mutex_init(&k->lock, NULL);
    return k;
}

/* The stream's records first_seq, … into the topic; record 1 is engine.started. */
static void put_records(struct fake *k, uint64_t first_seq, unsigned count)
{
    pthread_mutex_lock(&k->lock);
    for (uint64_t seq = first_seq; seq < first_seq + count; seq++, k->end++) {
        struct buf line = buf_over(k->lines[k->end], sizeof k->lines[0] - 1);
        assert_true(k->end < RECORDS_MAX);
        if (seq == 1)
            put_started(&line, 900000, NOTHING_BEFORE);
        else
            put_event(&line, (unsigned)seq, "default");
        line.bytes[line.size] = '\0';
        snprintf(k->numbers[k->end], sizeof k->numbers[0], "%llu", (unsigned long long)seq);
    }
    pthread_mutex_unlock(&k->lock);
}

static struct consumer *begin(struct rig *r, struct fake *k)
{
    struct consumer *c;
    const struct consumer_options o = {
        .store = r->path, .topic = "t", .pepper = &rig_pepper, .source = &k->door, .again_ms = 50};
    if (consumer_start(&o, &c, &r->fault) != ERR_OK) fail_msg("%s", r->fault.text);
    return c;
}

static void until(const struct rig *r, const char *sql, int64_t expected)
{
    time_t end = time(NULL) + PATIENCE_S;
    for (int64_t now; (now = rig_number(r, sql)) != expected; sched_yield())
        if (time(NULL) > end)
            fail_msg("%s is %lld, not %lld", sql, (long long)now, (long long)expected);
}

static const char next_seq[] = "SELECT coalesce(max(next_seq), 1) FROM streams";
static const char next_offset[] = "SELECT coalesce(max(next_offset), 0) FROM offsets";

static void finish(struct consumer *c, struct fake *k)
{
    consumer_stop(c);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

/* ---- tests ---- */

static void what_is_in_the_topic_is_stored_and_the_partition_is_given_back(void **state)
{
    struct rig *r = *state;
    struct fake *k = fake_create();
    put_records(k, 1, 35);
    struct consumer *c = begin(r, k);
    until(r, next_seq, 36);
    put_records(k, 36, 20);
    until(r, next_seq, 56);
    until(r, next_offset, 55);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM offsets WHERE owner <> ''"), 1);
    finish(c, k);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM offsets WHERE owner <> ''"), 0);
}

static void reading_goes_on_where_the_store_stands(void **state)
{
    struct rig *r = *state;
    struct fake *k = fake_create();
    put_records(k, 1, 20);
    struct consumer *c = begin(r, k);
    until(r, next_offset, 20);
    consumer_stop(c);
    put_records(k, 21, 20);
    uint64_t duplicates = metrics_total(METRIC_INGEST_DUPLICATES);
    c = begin(r, k);
    until(r, next_seq, 41);
    assert_true(metrics_total(METRIC_INGEST_DUPLICATES) == duplicates);
    finish(c, k);
}

/* What a source had fetched already when its partition was stopped and begun again, say. */
static void what_was_read_before_is_not_stored_again(void **state)
{
    struct rig *r = *state;
    struct fake *k = fake_create();
    put_records(k, 1, 20);
    struct consumer *c = begin(r, k);
    until(r, next_offset, 20);
    uint64_t messages = metrics_total(METRIC_CONSUMER_MESSAGES);
    pthread_mutex_lock(&k->lock);
    k->again = true;
    pthread_mutex_unlock(&k->lock);
    put_records(k, 21, 10);
    until(r, next_offset, 30);
    consumer_stop(c); /* it counts behind its commits */
    assert_int_equal(metrics_total(METRIC_CONSUMER_MESSAGES) - messages, 10);
    pthread_mutex_destroy(&k->lock);
    free(k);
}

/* They are counted after the commit that they come to. */
static void until_resets(uint64_t count)
{
    time_t end = time(NULL) + PATIENCE_S;
    while (metrics_total(METRIC_CONSUMER_RESETS) < count && time(NULL) <= end) sched_yield();
    assert_int_equal(metrics_total(METRIC_CONSUMER_RESETS), count);
}

static void an_offset_that_is_gone_is_told_and_reading_goes_on_from_the_earliest(void **state)
{
    struct rig *r = *state;
    struct fake *k = fake_create();
    put_records(k, 1, 20);
    struct consumer *c = begin(r, k);
    until(r, next_offset, 20);
    consumer_stop(c);
    put_records(k, 21, 30);
    k->low = 50; /* all of them expired unread: no message tells of the gap */
    uint64_t resets = metrics_total(METRIC_CONSUMER_RESETS);
    c = begin(r, k);
    until(r, next_offset, 50);
    until_resets(resets + 1);
    assert_int_equal(rig_number(r, "SELECT from_seq FROM replays"), 21);
    put_records(k, 21, 40); /* the engine sends them again */
    until(r, next_seq, 61);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records WHERE node = 'node-1'"), 60);
    finish(c, k);
}

/* The commit is there, and the connection went before it was told. */
static void a_reset_whose_answer_was_lost_is_found_out(void **state)
{
    struct rig *r = *state;
    struct fake *k = fake_create();
    put_records(k, 1, 20);
    struct consumer *c = begin(r, k);
    until(r, next_offset, 20);
    consumer_stop(c);
    put_records(k, 21, 30);
    k->low = 50;
    k->behind = r;
    c = begin(r, k);
    until(r, next_offset, 50);
    put_records(k, 21, 40);
    until(r, next_seq, 61);
    finish(c, k);
}

static void many_partitions_may_be_in_trouble_at_once(void **state)
{
    struct rig *r = *state;
    struct fake *k = fake_create();
    k->owing = 100;
    uint64_t resets = metrics_total(METRIC_CONSUMER_RESETS);
    struct consumer *c = begin(r, k);
    until_resets(resets + 100);
    finish(c, k);
}

static void a_topic_that_was_made_again_is_read_from_its_beginning(void **state)
{
    struct rig *r = *state;
    struct fake *k = fake_create();
    put_records(k, 1, 20);
    struct consumer *c = begin(r, k);
    until(r, next_offset, 20);
    consumer_stop(c);
    k->end = 0;
    put_records(k, 21, 5); /* fewer than were read of the one before */
    c = begin(r, k);
    until(r, next_seq, 26);
    until(r, next_offset, 5);
    finish(c, k);
}

static void a_partition_in_trouble_is_begun_again(void **state)
{
    struct rig *r = *state;
    struct fake *k = fake_create();
    put_records(k, 1, 20);
    struct consumer *c = begin(r, k);
    until(r, next_offset, 20);
    pthread_mutex_lock(&k->lock);
    k->owes = true;
    k->owed = (struct message){.kind = MESSAGE_TROUBLE, .why = "not now"};
    pthread_mutex_unlock(&k->lock);
    put_records(k, 21, 20);
    until(r, next_seq, 41);
    assert_true(k->starts >= 2 && k->stops >= 1);
    finish(c, k);
}

static bool is_well(const struct consumer *c, const char *why)
{
    struct consumer_status s;
    consumer_status(c, &s);
    assert_true(s.is_well || strstr(s.text, why) != NULL);
    return s.is_well;
}

static void trouble_is_told_until_something_is_stored(void **state)
{
    struct rig *r = *state;
    struct fake *k = fake_create();
    put_records(k, 1, 20);
    struct consumer *c = begin(r, k);
    until(r, next_offset, 20);
    pthread_mutex_lock(&k->lock);
    k->owes = k->stalls = true; /* before there is more to read */
    k->owed = (struct message){.kind = MESSAGE_TROUBLE, .why = "not now"};
    unsigned starts = k->starts;
    pthread_mutex_unlock(&k->lock);
    put_records(k, 21, 20);
    const time_t end = time(NULL) + PATIENCE_S;
    for (bool again = false; !again; sched_yield()) {
        pthread_mutex_lock(&k->lock);
        again = k->starts > starts;
        pthread_mutex_unlock(&k->lock);
        assert_true(time(NULL) <= end);
    }
    for (const time_t begun = time(NULL); time(NULL) < begun + 3; sched_yield())
        assert_false(
            is_well(c, "partition 0 of Kafka's topic t cannot be read at offset 20: not now"));
    pthread_mutex_lock(&k->lock);
    k->stalls = false;
    pthread_mutex_unlock(&k->lock);
    until(r, next_seq, 41);
    while (!is_well(c, "")) {
        assert_true(time(NULL) <= end);
        sched_yield();
    }
    finish(c, k);
}

static void a_store_that_refuses_holds_everything_up_and_loses_nothing(void **state)
{
    struct rig *r = *state;
    struct fake *k = fake_create();
    rig_forbid(r, "UPDATE", "offsets", "NEW.next_offset > 0");
    uint64_t failures = metrics_total(METRIC_CONSUMER_FAILURES),
             fenced = metrics_total(METRIC_CONSUMER_FENCED);
    put_records(k, 1, 20);
    struct consumer *c = begin(r, k);
    time_t end = time(NULL) + PATIENCE_S;
    while (metrics_total(METRIC_CONSUMER_FAILURES) < failures + 3 && time(NULL) < end)
        sched_yield();
    assert_int_equal(rig_number(r, next_seq), 1);
    rig_permit(r, "offsets");
    until(r, next_seq, 21);
    until(r, next_offset, 20);
    /* its own messages, not read anew */
    assert_true(metrics_total(METRIC_CONSUMER_FENCED) == fenced);
    finish(c, k);
}

static uint32_t writing_s(const struct consumer *c)
{
    struct consumer_status s;
    consumer_status(c, &s);
    return s.writing_s;
}

/* Whoever else has the tables; the database gives up waiting for them after five seconds. */
struct other {
    sqlite3 *file;
    PGconn *server;
};

static struct other lock_tables(const struct rig *r)
{
    struct other o = {0};
    if (rig_is_postgres) {
        o.server = rig_connect(r->path);
        PQclear(rig_query(o.server, "BEGIN; LOCK TABLE offsets IN ACCESS EXCLUSIVE MODE"));
    } else {
        o.file = rig_sqlite(r);
        sqlite3_busy_timeout(o.file, 5000);
        assert_int_equal(sqlite3_exec(o.file, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    }
    return o;
}

static void unlock_tables(struct other *o)
{
    if (o->server != NULL) PQfinish(o->server);
    if (o->file != NULL) sqlite3_close(o->file);
}

static void how_long_the_store_is_at_a_change_is_told(void **state)
{
    struct rig *r = *state;
    struct fake *k = fake_create();
    put_records(k, 1, 20);
    struct consumer *c = begin(r, k);
    until(r, next_offset, 20);
    struct other o = lock_tables(r);
    put_records(k, 21, 20);
    time_t end = time(NULL) + PATIENCE_S;
    uint32_t seconds;
    while ((seconds = writing_s(c)) == 0 && time(NULL) < end) sched_yield();
    assert_true(seconds > 0);
    unlock_tables(&o);
    until(r, next_seq, 41);
    while (writing_s(c) > 0 && time(NULL) < end) sched_yield();
    assert_int_equal(writing_s(c), 0);
    finish(c, k);
}

static void a_topic_that_is_missing_is_waited_for_and_said_to_be(void **state)
{
    struct rig *r = *state;
    struct fake *k = fake_create();
    struct consumer_status s;
    k->is_missing = true;
    struct consumer *c = begin(r, k);
    time_t end = time(NULL) + PATIENCE_S;
    for (consumer_status(c, &s); strstr(s.text, "there is no topic") == NULL && time(NULL) < end;
         consumer_status(c, &s))
        sched_yield();
    assert_false(s.is_well);
    assert_non_null(strstr(s.text, "there is no topic"));
    put_records(k, 1, 5);
    pthread_mutex_lock(&k->lock);
    k->is_missing = false;
    pthread_mutex_unlock(&k->lock);
    until(r, next_seq, 6);
    for (consumer_status(c, &s); !s.is_well && time(NULL) < end; consumer_status(c, &s))
        sched_yield();
    assert_true(s.is_well);
    finish(c, k);
}

static void a_platform_that_loses_its_partition_stops_reading_it(void **state)
{
    struct rig *r = *state;
    struct fake *k = fake_create();
    put_records(k, 1, 10);
    struct consumer *c = begin(r, k);
    until(r, next_offset, 10);
    rig_sql(
        r,
        "INSERT INTO consumers VALUES ('t', '0000000000000000', 1, 1); UPDATE offsets SET owner = '0000000000000000'");
    put_records(k, 11, 10);
    /* The other never heartbeats: after its lease the partition comes back, and
     * nothing is lost or doubled. */
    until(r, next_seq, 21);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM records WHERE node = 'node-1'"), 20);
    assert_true(k->stops >= 1);
    finish(c, k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_in_the_topic_is_stored_and_the_partition_is_given_back),
        TEST(reading_goes_on_where_the_store_stands),
        TEST(what_was_read_before_is_not_stored_again),
        TEST(an_offset_that_is_gone_is_told_and_reading_goes_on_from_the_earliest),
        TEST(a_reset_whose_answer_was_lost_is_found_out),
        TEST(many_partitions_may_be_in_trouble_at_once),
        TEST(a_topic_that_was_made_again_is_read_from_its_beginning),
        TEST(a_partition_in_trouble_is_begun_again),
        TEST(trouble_is_told_until_something_is_stored),
        TEST(a_store_that_refuses_holds_everything_up_and_loses_nothing),
        TEST(how_long_the_store_is_at_a_change_is_told),
        TEST(a_topic_that_is_missing_is_waited_for_and_said_to_be),
        TEST(a_platform_that_loses_its_partition_stops_reading_it),
    };
    return rig_run(tests);
}
