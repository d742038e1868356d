/* statelog.c - the three clients: what they append and read. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/world.h"
#include "pipeline/statelog/inside.h"

enum { GONE_MS = 15000 };

/* ---- callbacks: on the thread that polls the client ---- */

static struct statelog_client *client_of(void *opaque)
{
    const struct topic_login *login = opaque;
    return login->owner;
}

static void complained(rd_kafka_t *client, int code, const char *reason, void *opaque)
{
    (void)client;
    topic_login_complained(&client_of(opaque)->login, code, reason);
}

static void delivered(rd_kafka_t *client, const rd_kafka_message_t *m, void *opaque)
{
    struct statelog_client *c = client_of(opaque);
    struct statelog_result_slot *r = &c->log->results[c - c->log->clients];
    (void)client;
    check(r->in_flight && !r->is_done);
    r->is_done = true;
    r->is_good = m->err == RD_KAFKA_RESP_ERR_NO_ERROR;
    if (r->is_good)
        topic_login_is_well(&c->login);
    else
        log_text(LOG_WARNING, "fleet_append", "Kafka did not confirm a%s: %s",
                 c == c->log->clients ? "n entry" : " heartbeat", rd_kafka_err2str(m->err));
}

/* ---- the clients ---- */

/* Both sides find another leader of the partition soon, and leave a broker that hangs. */
#define FIND_SOON                                                                                  \
    {"socket.timeout.ms", "3000"}, {"reconnect.backoff.ms", "50"},                                 \
        {"topic.metadata.refresh.interval.ms", "1000"},                                            \
        {"topic.metadata.refresh.fast.interval.ms", "100"},                                        \
    {                                                                                              \
        "socket.nagle.disable", "true"                                                             \
    }

static const struct topic_setting of_entries[] = {
    FIND_SOON,
    {"client.id", "writ-fleet-entries"},
    {"enable.idempotence", "true"},
    {"acks", "all"},
    {"max.in.flight.requests.per.connection", "1"},
    {"message.timeout.ms", "0"}, /* its outcome stays open, until it is certain */
    {"request.timeout.ms", "3000"},
    {"retry.backoff.ms", "100"},
    {"linger.ms", "0"},
    {"message.max.bytes", "1000000"},
};
static const struct topic_setting of_heartbeats[] = {
    FIND_SOON,
    {"client.id", "writ-fleet-heartbeats"},
    {"acks", "all"},
    {"retries", "0"}, /* the next one is newer */
    {"message.timeout.ms", "3000"},
    {"request.timeout.ms", "3000"},
    {"linger.ms", "0"},
};
static const struct topic_setting of_reader[] = {
    FIND_SOON,
    {"client.id", "writ-fleet-reader"},
    {"auto.offset.reset", "error"},
    {"enable.auto.commit", "false"},
    {"enable.auto.offset.store", "false"},
    {"enable.partition.eof", "false"},
    {"check.crcs", "true"},
    {"fetch.wait.max.ms", "500"},
    {"fetch.min.bytes", "1"},
    {"fetch.error.backoff.ms", "50"},
    {"queued.min.messages", "10000"},
    {"queued.max.messages.kbytes", "32768"},
};
static const struct {
    const struct topic_setting *list;
    size_t count;
    rd_kafka_type_t type;
} kinds[] = {
    {of_entries, sizeof of_entries / sizeof *of_entries, RD_KAFKA_PRODUCER},
    {of_heartbeats, sizeof of_heartbeats / sizeof *of_heartbeats, RD_KAFKA_PRODUCER},
    {of_reader, sizeof of_reader / sizeof *of_reader, RD_KAFKA_CONSUMER},
};

/* The member sleeps on one descriptor for all queues. */
static void ring_for(const struct statelog *l, rd_kafka_queue_t *queue)
{
    static const uint64_t one = 1;
    rd_kafka_queue_io_event_enable(queue, l->bell, &one, sizeof one);
}

static enum err client_open(struct statelog *l, size_t at, struct fault *f)
{
    struct statelog_client *c = &l->clients[at];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    enum err err = topic_login_configure(&c->login, conf, kinds[at].list, kinds[at].count, f);
    if (err != ERR_OK) {
        rd_kafka_conf_destroy(conf);
        return err;
    }
    rd_kafka_conf_set_error_cb(conf, complained);
    if (at != STATELOG_READER) rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    err = topic_login_open(&c->login, kinds[at].type, conf, &c->client, f);
    if (err != ERR_OK) return err;
    c->topic = rd_kafka_topic_new(c->client, l->topic, NULL);
    check(c->topic != NULL);
    if (at == STATELOG_READER) {
        l->queue = rd_kafka_queue_new(c->client);
        ring_for(l, l->queue);
    } else {
        rd_kafka_queue_t *main_queue = rd_kafka_queue_get_main(c->client);
        ring_for(l, main_queue);
        rd_kafka_queue_destroy(main_queue);
    }
    return ERR_OK;
}

static void client_close(struct statelog_client *c)
{
    if (c->client != NULL) {
        rd_kafka_purge(c->client, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
                                      RD_KAFKA_PURGE_F_NON_BLOCKING);
        rd_kafka_topic_destroy(c->topic);
        rd_kafka_destroy(c->client);
    }
    topic_login_fini(&c->login);
}

enum err statelog_open(const struct statelog_options *options, struct statelog **ret,
                       struct fault *f)
{
    struct statelog *l = calloc(1, sizeof *l);
    check(l != NULL);
    l->single_broker = options->single_broker;
    l->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    check(l->bell >= 0);
    pthread_mutex_init(&l->lock, NULL);
    enum err err = ERR_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        l->clients[i].log = l;
        topic_login_init(&l->clients[i].login, &options->access, &l->clients[i]);
    }
    l->topic = l->clients[0].login.access.topic;
    const size_t first = options->reads_only ? STATELOG_READER : 0;
    for (size_t i = first; i < sizeof kinds / sizeof *kinds && err == ERR_OK; i++)
        err = client_open(l, i, f);
    if (err == ERR_OK && !options->reads_only) err = statelog_check(l, f);
    if (err == ERR_NOT_FOUND && options->make) err = statelog_make(l, f);
    if (err != ERR_OK) {
        statelog_close(l);
        return err == ERR_NOT_FOUND ? ERR_BAD_VALUE : err;
    }
    if (!options->reads_only) statelog_watch_start(l);
    *ret = l;
    return ERR_OK;
}

void statelog_close(struct statelog *l)
{
    if (l == NULL) return;
    statelog_watch_stop(l);
    if (l->reads) rd_kafka_consume_stop(l->clients[STATELOG_READER].topic, 0);
    if (l->held != NULL) rd_kafka_message_destroy(l->held);
    if (l->queue != NULL) rd_kafka_queue_destroy(l->queue);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) client_close(&l->clients[i]);
    pthread_mutex_destroy(&l->lock);
    close(l->bell);
    free(l);
}

/* ---- reading ---- */

/* While the client fetches the topic's partitions. */
static bool is_not_known_yet(rd_kafka_resp_err_t why)
{
    return why == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION || why == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
           why == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
           why == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE;
}

static bool pause_a_moment(void)
{
    return nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL) == 0;
}

enum err statelog_bounds(struct statelog *l, uint64_t *ret_begin, uint64_t *ret_end,
                         struct fault *f)
{
    int64_t begin = 0, end = 0;
    uint64_t until_ns = world_monotonic_ns() + STATELOG_CALL_MS * UINT64_C(1000000);
    rd_kafka_resp_err_t why;
    do
        why = rd_kafka_query_watermark_offsets(l->clients[STATELOG_READER].client, l->topic, 0,
                                               &begin, &end, STATELOG_CALL_MS);
    while (is_not_known_yet(why) && world_monotonic_ns() < until_ns && pause_a_moment());
    if (why != RD_KAFKA_RESP_ERR_NO_ERROR || begin < 0 || end < begin)
        return fault_set(f, ERR_UPSTREAM_FAILED, "", "Kafka's topic %s cannot be read: %s",
                         l->topic, rd_kafka_err2str(why));
    *ret_begin = (uint64_t)begin;
    *ret_end = (uint64_t)end;
    return ERR_OK;
}

enum err statelog_read_from(struct statelog *l, uint64_t offset, struct fault *f)
{
    check(!l->reads);
    if (rd_kafka_consume_start_queue(l->clients[STATELOG_READER].topic, 0, (int64_t)offset,
                                     l->queue) != 0)
        return fault_set(f, ERR_UPSTREAM_FAILED, "", "Kafka's topic %s cannot be read: %s",
                         l->topic, rd_kafka_err2str(rd_kafka_last_error()));
    l->reads = true;
    atomic_store(&l->next, offset);
    return ERR_OK;
}

enum err statelog_read_again(struct statelog *l, uint64_t offset, struct fault *f)
{
    if (l->reads) rd_kafka_consume_stop(l->clients[STATELOG_READER].topic, 0);
    l->reads = false;
    return statelog_read_from(l, offset, f);
}

/* A broker that hung and goes on answers for a moment as if it still led, and lacks what others have
 * confirmed since. So the same offset is asked for again, for a while. Meanwhile nothing is read, and
 * the lease lapses. If the log was cut instead, new messages may reach that offset meanwhile. So an
 * engine's own log is read from the message before it, for the engine to see whether it is the same. */
static enum statelog_read ask_again(struct statelog *l)
{
    uint64_t now_ns = world_monotonic_ns(), next = atomic_load(&l->next);
    if (l->gone_ns == 0) {
        l->gone_ns = now_ns;
        if (l->watches && next > 0) next--;
    }
    if (now_ns - l->gone_ns > (uint64_t)GONE_MS * 1000000) return STATELOG_GONE;
    struct fault f;
    return statelog_read_again(l, next, &f) == ERR_OK ? STATELOG_NOTHING : STATELOG_GONE;
}

enum statelog_read statelog_next(struct statelog *l, struct statelog_message *ret)
{
    for (;;) {
        if (l->held != NULL) rd_kafka_message_destroy(l->held);
        rd_kafka_message_t *m = l->held = rd_kafka_consume_queue(l->queue, 0);
        if (m == NULL) return STATELOG_NOTHING;
        if (m->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
            m->err == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE)
            return ask_again(l);
        if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR) continue; /* the library goes on by itself */
        l->gone_ns = 0;
        rd_kafka_timestamp_type_t type;
        int64_t append_ms = rd_kafka_message_timestamp(m, &type);
        topic_login_is_well(&l->clients[STATELOG_READER].login);
        *ret = (struct statelog_message){.offset = (uint64_t)m->offset,
                                         .append_ms = append_ms < 0 ? 0 : (uint64_t)append_ms,
                                         .bytes = str_of(m->payload, m->len)};
        return STATELOG_MESSAGE;
    }
}

/* ---- appending ---- */

bool statelog_append(struct statelog *l, enum statelog_kind kind, struct str bytes)
{
    struct statelog_result_slot *r = &l->results[kind];
    check(!r->in_flight);
    if (rd_kafka_produce(l->clients[kind].topic, 0, RD_KAFKA_MSG_F_COPY,
                         (void *)(uintptr_t)bytes.bytes, bytes.size, NULL, 0, NULL) != 0) {
        log_text(LOG_WARNING, "fleet_append", "the client library takes no message: %s",
                 rd_kafka_err2str(rd_kafka_last_error()));
        return false;
    }
    *r = (struct statelog_result_slot){.in_flight = true};
    return true;
}

bool statelog_result(struct statelog *l, enum statelog_kind *ret_kind, bool *ret_good)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (l->clients[i].client == NULL) continue;
        rd_kafka_poll(l->clients[i].client, 0);
        topic_login_again(&l->clients[i].login, l->clients[i].client);
    }
    for (size_t i = 0; i < sizeof l->results / sizeof *l->results; i++) {
        struct statelog_result_slot *r = &l->results[i];
        if (!r->is_done) continue;
        *ret_kind = (enum statelog_kind)i;
        *ret_good = r->is_good;
        *r = (struct statelog_result_slot){0};
        return true;
    }
    return false;
}
