/* That a record which a broker refused for a moment is in the topic, and before
 * those that came after it.
 *
 * A broker that has just become a partition's leader refuses one request and takes the next, at a
 * moment of its own choosing: so this one is librdkafka's mock, which chooses when it is told
 * to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include "pipeline/publish/publish.h"
#include "pipeline/publish/transport.h"

enum { API_PRODUCE = 0, REFUSED_AFTER_MS = 300, RECORDS = 40 };

#define TOPIC "writ.audit.order"

struct stage {
    rd_kafka_t *host;
    rd_kafka_mock_cluster_t *cluster;
    struct transport positions, *door;
};

static void let_go(struct transport *t) { (void)t; }
static void cut_short(void *state) { (void)state; }

static void stage_up(struct stage *s)
{
    char text[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "log_level", "0", text, sizeof text);
    s->host = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
    assert_non_null(s->host);
    s->cluster = rd_kafka_mock_cluster_new(s->host, 1);
    assert_non_null(s->cluster);
    assert_int_equal(rd_kafka_mock_topic_create(s->cluster, TOPIC, 1, 1), 0);
    s->positions = (struct transport){.interrupt = cut_short, .destroy = let_go};

    const char *brokers = rd_kafka_mock_cluster_bootstraps(s->cluster);
    struct publish_kafka options = {.access = {brokers, TOPIC, "plaintext", "", "", "", "", ""},
                                    .partitions = 1,
                                    .compression = "none"};
    struct fault f = {0};
    if (transport_kafka_create(&options, "node-1", &(struct sha256){{1}}, &s->positions, &s->door,
                               &f) != ERR_OK)
        fail_msg("%s", f.text);
}

static void stage_down(struct stage *s)
{
    s->door->destroy(s->door);
    rd_kafka_mock_cluster_destroy(s->cluster);
    rd_kafka_destroy(s->host);
}

static void send_record(struct stage *s, uint64_t seq)
{
    char line[128];
    snprintf(line, sizeof line,
             "{\"event_id\":\"evt_%llu\",\"kind\":\"decision\",\"tenant_id\":\"default\"}\n",
             (unsigned long long)seq);
    struct sha256 leaf = {{2}};
    struct batch b = {.leaves = &leaf,
                      .first_seq = seq,
                      .count = 1,
                      .epoch = "0123456789abcdef",
                      .lines = str_from(line)};
    struct send_answer a;
    struct fault f = {0};
    assert_int_equal(s->door->send(s->door->state, &b, &a, &f), SENT_QUEUED);
    assert_int_equal(a.next_seq, seq + 1);
}

/* Which record's number the topic has at each offset. */
static unsigned read_topic(const struct stage *s, uint64_t seqs[], unsigned most)
{
    char text[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", rd_kafka_mock_cluster_bootstraps(s->cluster), text,
                      sizeof text);
    rd_kafka_conf_set(conf, "group.id", "reader", text, sizeof text);
    rd_kafka_t *reader = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof text);
    assert_non_null(reader);
    rd_kafka_topic_partition_list_t *all = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(all, TOPIC, 0)->offset = RD_KAFKA_OFFSET_BEGINNING;
    assert_int_equal(rd_kafka_assign(reader, all), 0);
    rd_kafka_topic_partition_list_destroy(all);
    unsigned count = 0;
    for (unsigned silent = 0; count < most && silent < 100;) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(reader, 100);
        silent = m == NULL ? silent + 1 : 0;
        rd_kafka_headers_t *headers;
        const void *value;
        size_t size;
        if (m != NULL && m->err == 0 && rd_kafka_message_headers(m, &headers) == 0 &&
            rd_kafka_header_get_last(headers, "seq", &value, &size) == 0)
            seqs[count++] = strtoull(value, NULL, 10);
        if (m != NULL) rd_kafka_message_destroy(m);
    }
    rd_kafka_consumer_close(reader);
    rd_kafka_destroy(reader);
    return count;
}

#ifdef __SANITIZE_THREAD__
enum { THREADS_ARE_KNOWN = 0 };
#else
enum { THREADS_ARE_KNOWN = 1 };
#endif

static void a_refused_record_is_before_its_followers(void **state)
{
    (void)state;
    if (!THREADS_ARE_KNOWN) {
        print_message(
            "SKIP: librdkafka's threads are C11's, which ThreadSanitizer does not know\n");
        skip();
    }
    struct stage s;
    stage_up(&s);
    assert_int_equal(rd_kafka_mock_broker_push_request_error_rtts(
                         s.cluster, 1, API_PRODUCE, 1, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
                         (int)REFUSED_AFTER_MS),
                     0);
    struct relay_report r;
    struct fault f = {0};
    /* each in a request of its own, as far as requests may overtake */
    for (uint64_t seq = 1; seq <= RECORDS; seq++) {
        send_record(&s, seq);
        assert_int_equal(s.door->settle(s.door->state, 20, &r, &f), ERR_OK);
    }
    for (unsigned tries = 0; r.delivered <= RECORDS && tries < 200; tries++)
        assert_int_equal(s.door->settle(s.door->state, 100, &r, &f), ERR_OK);
    assert_int_equal(r.delivered, RECORDS + 1);

    uint64_t seqs[RECORDS];
    assert_int_equal(read_topic(&s, seqs, RECORDS), RECORDS);
    for (uint64_t i = 0; i < RECORDS; i++) assert_int_equal(seqs[i], i + 1);
    stage_down(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_refused_record_is_before_its_followers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
