/* kafka.c - messages from Kafka's audit topic: the only user of librdkafka for consuming.
 *
 * Without a consumer group: the consumer chooses its partitions and offsets (lease.h), and the
 * store has the offsets. The library calls this the legacy interface; the newer one does not work
 * without a group. `auto.offset.reset=error`: a missing offset is reported, never skipped.
 * Everything except the log's callback runs on the consumer's thread. */
#include <librdkafka/rdkafka.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "pipeline/ingest/consume.h"
#include "pipeline/topic/login.h"

enum { ASK_MS = 2000, COMPANY_MS = 2 };

struct kafka_source {
    struct message_source door;
    rd_kafka_t *client;
    rd_kafka_topic_t *topic;
    rd_kafka_queue_t *queue;
    struct topic_login login;
    const char *topic_name;                         /* the login's */
    rd_kafka_message_t *held[CONSUME_MESSAGES_MAX]; /* of the last take */
    size_t held_count;
};

static void complained(rd_kafka_t *client, int code, const char *reason, void *opaque)
{
    (void)client;
    topic_login_complained(opaque, code, reason);
}

/* ---- asking ---- */

static enum err not_told(struct kafka_source *k, rd_kafka_resp_err_t why, struct fault *f)
{
    rd_kafka_poll(k->client, 0); /* it may report more */
    const char *trouble = topic_login_trouble(&k->login);
    return fault_set(f, ERR_UPSTREAM_FAILED, "", "Kafka's topic %s cannot be queried: %s",
                     k->topic_name, trouble[0] != '\0' ? trouble : rd_kafka_err2str(why));
}

static enum err partitions(void *state, uint32_t *ret, struct fault *f)
{
    struct kafka_source *k = state;
    const struct rd_kafka_metadata *all;
    rd_kafka_resp_err_t why = rd_kafka_metadata(k->client, 0, k->topic, &all, ASK_MS);
    if (why != RD_KAFKA_RESP_ERR_NO_ERROR) return not_told(k, why, f);
    int count = 0;
    why = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    if (all->topic_cnt == 1) {
        why = all->topics[0].err;
        count = all->topics[0].partition_cnt;
    }
    rd_kafka_metadata_destroy(all);
    topic_login_is_well(&k->login);
    if (why == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
        return fault_set(
            f, ERR_NOT_FOUND, "",
            "Kafka has no topic %s: an engine makes it when it first publishes, or it was deleted",
            k->topic_name);
    if (why != RD_KAFKA_RESP_ERR_NO_ERROR) return not_told(k, why, f);
    *ret = count < 0 ? 0 : (uint32_t)count;
    return ERR_OK;
}

static enum err bounds(void *state, uint32_t partition, uint64_t *ret_low, uint64_t *ret_high,
                       struct fault *f)
{
    struct kafka_source *k = state;
    int64_t low = 0, high = 0;
    rd_kafka_resp_err_t why = rd_kafka_query_watermark_offsets(
        k->client, k->topic_name, (int32_t)partition, &low, &high, ASK_MS);
    if (why != RD_KAFKA_RESP_ERR_NO_ERROR) return not_told(k, why, f);
    *ret_low = low < 0 ? 0 : (uint64_t)low;
    *ret_high = high < 0 ? 0 : (uint64_t)high;
    return ERR_OK;
}

static uint64_t heard_end(void *state, uint32_t partition)
{
    struct kafka_source *k = state;
    int64_t low = 0, high = 0;
    if (rd_kafka_get_watermark_offsets(k->client, k->topic_name, (int32_t)partition, &low, &high) !=
        RD_KAFKA_RESP_ERR_NO_ERROR)
        return 0;
    return high < 0 ? 0 : (uint64_t)high;
}

/* ---- reading ---- */

static enum err start(void *state, uint32_t partition, uint64_t offset, struct fault *f)
{
    struct kafka_source *k = state;
    int64_t from = offset == 0 ? RD_KAFKA_OFFSET_BEGINNING : (int64_t)offset;
    if (rd_kafka_consume_start_queue(k->topic, (int32_t)partition, from, k->queue) == 0)
        return ERR_OK;
    return fault_set(f, ERR_UPSTREAM_FAILED, "",
                     "partition %u of Kafka's topic %s cannot be read: %s", partition,
                     k->topic_name, rd_kafka_err2str(rd_kafka_last_error()));
}

static void stop(void *state, uint32_t partition)
{
    struct kafka_source *k = state;
    rd_kafka_consume_stop(k->topic, (int32_t)partition);
}

static struct str header(const rd_kafka_headers_t *headers, const char *name)
{
    const void *value;
    size_t size;
    if (rd_kafka_header_get_last(headers, name, &value, &size) != RD_KAFKA_RESP_ERR_NO_ERROR ||
        value == NULL)
        return (struct str){0};
    return str_of(value, size);
}

/* False: nothing for the consumer. */
static bool translate(const rd_kafka_message_t *m, struct message *to)
{
    *to = (struct message){.kind = MESSAGE_TROUBLE,
                           .partition = (uint32_t)m->partition,
                           .offset = (uint64_t)m->offset};
    if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) return false;
    if (m->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
        m->err == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE)
        to->kind = MESSAGE_OFFSET_GONE;
    to->why = rd_kafka_err2str(m->err);
    if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR) return m->partition >= 0;
    to->kind = MESSAGE_RECORD;
    to->value = str_of(m->payload, m->len);
    rd_kafka_headers_t *headers;
    if (rd_kafka_message_headers(m, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR)
        to->headers = (struct topic_headers){.node = header(headers, "node"),
                                             .journal = header(headers, "journal"),
                                             .epoch = header(headers, "epoch"),
                                             .seq = header(headers, "seq"),
                                             .schema = header(headers, "schema"),
                                             .mac = header(headers, "mac"),
                                             .checkpoint = header(headers, "checkpoint")};
    /* Most have no checkpoint, and a header that is missing costs a look at all others. */
    if (!str_is_absent(to->headers.checkpoint)) {
        to->headers.from_seq = header(headers, "from_seq");
        to->headers.frontier = header(headers, "frontier");
    }
    return true;
}

static void let_go(struct kafka_source *k)
{
    for (size_t i = 0; i < k->held_count; i++) rd_kafka_message_destroy(k->held[i]);
    k->held_count = 0;
}

static size_t take(void *state, uint32_t ms, struct message *to, size_t max)
{
    struct kafka_source *k = state;
    let_go(k);
    rd_kafka_poll(k->client, 0); /* the client's errors */
    topic_login_again(&k->login, k->client);
    if (max > CONSUME_MESSAGES_MAX) max = CONSUME_MESSAGES_MAX;
    /* The first message ends the wait. A request for many would wait for all of them. */
    k->held[0] = rd_kafka_consume_queue(k->queue, (int)ms);
    if (k->held[0] == NULL) return 0;
    k->held_count = 1;
    ssize_t more = rd_kafka_consume_batch_queue(k->queue, COMPANY_MS, k->held + 1, max - 1);
    if (more > 0) k->held_count += (size_t)more;
    size_t count = 0;
    for (size_t i = 0; i < k->held_count; i++) count += translate(k->held[i], &to[count]);
    return count;
}

/* ---- life ---- */

static void destroy(struct message_source *door)
{
    struct kafka_source *k = door->state;
    let_go(k);
    if (k->queue != NULL) rd_kafka_queue_destroy(k->queue);
    if (k->topic != NULL) rd_kafka_topic_destroy(k->topic);
    if (k->client != NULL) rd_kafka_destroy(k->client);
    topic_login_fini(&k->login);
    free(k);
}

/* The limit of prefetched bytes. The store sets the pace. But when this much is waiting, librdkafka
 * fetches nothing for a second, even if it is taken meanwhile (its fetch.queue.backoff.ms, which
 * 2.0 does not let a program set). So this is also the limit of bytes read in a second. */
#define FETCHED_KBYTES_MAX "131072"

static enum err configure(struct kafka_source *k, rd_kafka_conf_t *conf, struct fault *f)
{
    static const struct topic_setting own[] = {
        {"client.id", "writ-platform"},
        {"auto.offset.reset", "error"},
        {"enable.auto.commit", "false"},
        {"enable.auto.offset.store", "false"},
        {"enable.partition.eof", "false"},
        {"isolation.level", "read_committed"},
        {"queued.min.messages", "1000000"}, /* the bytes are the limit */
        {"queued.max.messages.kbytes", FETCHED_KBYTES_MAX},
        {"fetch.error.backoff.ms", "100"},
    };
    return topic_login_configure(&k->login, conf, own, sizeof own / sizeof *own, f);
}

static enum err client_open(struct kafka_source *k, struct fault *f)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    enum err e = configure(k, conf, f);
    if (e != ERR_OK) {
        rd_kafka_conf_destroy(conf);
        return e;
    }
    rd_kafka_conf_set_error_cb(conf, complained);
    e = topic_login_open(&k->login, RD_KAFKA_CONSUMER, conf, &k->client, f);
    if (e != ERR_OK) return e;
    k->topic = rd_kafka_topic_new(k->client, k->topic_name, NULL);
    k->queue = rd_kafka_queue_new(k->client);
    check(k->topic != NULL && k->queue != NULL);
    return ERR_OK;
}

enum err kafka_source_create(const struct topic_access *access, struct message_source **ret,
                             struct fault *f)
{
    struct kafka_source *k = calloc(1, sizeof *k);
    check(k != NULL); /* only at boot */
    k->door = (struct message_source){k, partitions, start, stop, take, bounds, heard_end, destroy};
    topic_login_init(&k->login, access, k);
    k->topic_name = k->login.access.topic;
    enum err e = client_open(k, f);
    if (e != ERR_OK) {
        destroy(&k->door);
        return e;
    }
    *ret = &k->door;
    return ERR_OK;
}
