/* kafka.c - records into Kafka's audit topic: the only user of librdkafka for producing.
 *
 * The producer is idempotent, waits for all replicas in sync and never gives a message up. So
 * within its life each record is in its partition once and in order. Its life ends when the library
 * reports that it cannot continue (the topic was deleted, its sequence was lost). Then there is a
 * new producer, and the publisher sends again from the delivered prefix on. After a restart it
 * sends from the platform's position. Such redelivery is expected: readers recognize records by
 * their position.
 *
 *        send                 brokers                    settle
 *   queue, ≤ WINDOW_MAX  →  acks=all, in order  →  window: contiguous prefix
 *
 * Each new producer checks the topic before the first record. It creates a missing topic, and
 * refuses one that does not ensure order and safety. All callbacks except the log's come from
 * rd_kafka_poll() on the publisher's thread, or on the thread that makes the client, while the
 * publisher waits for that. */
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/world.h"
#include "pipeline/publish/publish.h"
#include "pipeline/publish/transport.h"
#include "pipeline/publish/window.h"
#include "pipeline/topic/login.h"

enum {
    METADATA_MS = 3000,
    ADMIN_MS = 10000,
    /* the wait for a full queue, after which the publisher checks its other work */
    PATIENCE_MS = 500,
    POLL_MS = 20,
    MESSAGE_BYTES_LEAST = 512 << 10, /* twice the size of a batch */
    TENANT_ARENA = 4 << 10,
    LIBRARY_NICE = 5,
    PARTITIONS_MADE = 4, /* of a topic that this engine creates */
};

struct kafka_transport {
    struct transport door;
    struct transport *positions;
    rd_kafka_t *client;
    rd_kafka_topic_t *topic;
    bool topic_is_fine;
    int32_t partition;
    uint32_t partitions; /* 0: not known yet */
    char *node, *compression;
    const char *topic_name; /* the login's */
    struct topic_login login;
    struct arena arena; /* of the current record */
    struct hmac_key record_key;
    struct hasher *hasher;
    struct window window;
    rd_kafka_resp_err_t failed; /* of the first record that the client gave up */
    _Atomic bool interrupted;
};

/* ---- callbacks ---- */

static struct kafka_transport *owner_of(void *opaque)
{
    const struct topic_login *login = opaque;
    return login->owner;
}

static void delivered(rd_kafka_t *client, const rd_kafka_message_t *m, void *opaque)
{
    struct kafka_transport *k = owner_of(opaque);
    (void)client;
    if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        if (k->failed == RD_KAFKA_RESP_ERR_NO_ERROR) k->failed = m->err;
        return;
    }
    window_ack(&k->window, (uint64_t)(uintptr_t)m->_private);
    topic_login_is_well(&k->login);
}

static void complained(rd_kafka_t *client, int code, const char *reason, void *opaque)
{
    struct kafka_transport *k = owner_of(opaque);
    topic_login_complained(&k->login, code, reason);
    if (code == RD_KAFKA_RESP_ERR__FATAL && k->failed == RD_KAFKA_RESP_ERR_NO_ERROR) {
        char text[160];
        k->failed = rd_kafka_fatal_error(client, text, sizeof text);
    }
}

/* ---- its threads ---- */

struct opening {
    struct kafka_transport *transport;
    rd_kafka_conf_t *conf;
    struct fault *fault;
    enum err err;
};

/* A thread of the library that has records for a broker that does not answer does not sleep, it
 * spins (in 2.0 at least). So all of them have a lower priority than the engine's own threads, and
 * get about a quarter of a busy core. They inherit the priority from the thread that makes the
 * client, which could not raise its own again: hence a separate thread. (An interceptor could lower
 * each thread as it begins. But if the library cannot make a client, it frees interceptors
 * twice.) */
static void *open_nicely(void *context)
{
    struct opening *o = context;
    setpriority(PRIO_PROCESS, 0, LIBRARY_NICE); /* only of this thread, on Linux */
    o->err = topic_login_open(&o->transport->login, RD_KAFKA_PRODUCER, o->conf,
                              &o->transport->client, o->fault);
    return NULL;
}

/* ---- the client ---- */

static enum err configure(struct kafka_transport *k, rd_kafka_conf_t *conf, struct fault *f)
{
    const struct topic_setting own[] = {
        {"client.id", "writ-engine"},
        {"enable.idempotence", "true"},
        {"acks", "all"},
        /* otherwise a message refused by a new leader is overtaken, and counts as stored */
        {"max.in.flight.requests.per.connection", "1"},
        {"message.timeout.ms", "0"}, /* never gives up */
        {"linger.ms", "5"},
        {"batch.size", "262144"},
        {"compression.codec", k->compression},
        {"queue.buffering.max.messages", "100000"},
        {"queue.buffering.max.kbytes", "65536"},
        /* a deleted topic is reported after this time */
        {"topic.metadata.propagation.max.ms", "10000"},
    };
    return topic_login_configure(&k->login, conf, own, sizeof own / sizeof *own, f);
}

static enum err client_open(struct kafka_transport *k, struct fault *f)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    enum err e = configure(k, conf, f);
    if (e != ERR_OK) {
        rd_kafka_conf_destroy(conf);
        return e;
    }
    rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    rd_kafka_conf_set_error_cb(conf, complained);
    struct opening opening = {.transport = k, .conf = conf, .fault = f};
    pthread_t opener;
    if (pthread_create(&opener, NULL, open_nicely, &opening) != 0) {
        rd_kafka_conf_destroy(conf);
        return fault_set(f, ERR_FULL, "",
                         "Kafka: the thread that makes the client cannot be started");
    }
    pthread_join(opener, NULL);
    if (opening.err != ERR_OK) return opening.err;
    k->topic = rd_kafka_topic_new(k->client, k->topic_name, NULL);
    check(k->topic != NULL);
    k->topic_is_fine = false;
    k->failed = RD_KAFKA_RESP_ERR_NO_ERROR;
    return ERR_OK;
}

static void client_close(struct kafka_transport *k)
{
    if (k->client == NULL) return;
    rd_kafka_purge(k->client, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
                                  RD_KAFKA_PURGE_F_NON_BLOCKING);
    rd_kafka_topic_destroy(k->topic);
    rd_kafka_destroy(k->client);
    k->client = NULL;
    k->topic = NULL;
}

/* ---- the topic ---- */

static enum sent away(struct kafka_transport *k, const char *what, rd_kafka_resp_err_t why,
                      struct fault *f)
{
    rd_kafka_poll(k->client, 0); /* it may report more */
    const char *trouble = topic_login_trouble(&k->login);
    (void)fault_set(f, ERR_UPSTREAM_FAILED, "", "Kafka's topic %s %s: %s", k->topic_name, what,
                    trouble[0] != '\0' ? trouble : rd_kafka_err2str(why));
    return SENT_FAILED;
}

static enum sent misfit(struct fault *f, const char *topic, const char *text)
{
    (void)fault_set(f, ERR_BAD_VALUE, "kafka.topic", "Kafka's topic %s %s. Nothing is published",
                    topic, text);
    return SENT_MISFIT;
}

/* The answer of one admin request; NULL: none came in time. */
static rd_kafka_event_t *admin_answer(struct kafka_transport *k, rd_kafka_queue_t *queue)
{
    uint64_t until_ns = world_monotonic_ns() + (uint64_t)ADMIN_MS * 1000000;
    rd_kafka_event_t *answer = NULL;
    while (answer == NULL && !atomic_load(&k->interrupted) && world_monotonic_ns() < until_ns)
        answer = rd_kafka_queue_poll(queue, POLL_MS);
    return answer;
}

static enum sent topic_make(struct kafka_transport *k, struct fault *f)
{
    const uint32_t partitions = k->partitions > 0 ? k->partitions : PARTITIONS_MADE;
    char text[200];
    rd_kafka_NewTopic_t *topic =
        rd_kafka_NewTopic_new(k->topic_name, (int)partitions, -1, text, sizeof text);
    check(topic != NULL);
    rd_kafka_NewTopic_set_config(topic, "cleanup.policy", "delete");
    rd_kafka_queue_t *queue = rd_kafka_queue_new(k->client);
    rd_kafka_CreateTopics(k->client, &topic, 1, NULL, queue);
    rd_kafka_event_t *answer = admin_answer(k, queue);
    rd_kafka_resp_err_t why =
        answer == NULL ? RD_KAFKA_RESP_ERR__TIMED_OUT : rd_kafka_event_error(answer);
    size_t count = 0;
    if (why == RD_KAFKA_RESP_ERR_NO_ERROR) {
        const rd_kafka_topic_result_t **results =
            rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(answer), &count);
        if (count == 1) why = rd_kafka_topic_result_error(results[0]);
    }
    if (answer != NULL) rd_kafka_event_destroy(answer);
    rd_kafka_queue_destroy(queue);
    rd_kafka_NewTopic_destroy(topic);
    if (why == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
        why == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED)
        return misfit(f, k->topic_name, "is missing, and kafka.user may not make it: make it");
    if (why != RD_KAFKA_RESP_ERR_NO_ERROR && why != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS)
        return away(k, "is missing and cannot be made", why, f);
    log_text(LOG_INFO, "kafka_topic_made", "%s with %u partitions", k->topic_name, partitions);
    return SENT_QUEUED;
}

/* Copies the value of one of the topic's settings to `to`; "": the brokers do not return it. */
static void setting_of(const rd_kafka_ConfigEntry_t **entries, size_t count, const char *name,
                       char *to, size_t size)
{
    to[0] = '\0';
    for (size_t i = 0; i < count; i++)
        if (strcmp(rd_kafka_ConfigEntry_name(entries[i]), name) == 0)
            snprintf(to, size, "%s",
                     rd_kafka_ConfigEntry_value(entries[i]) == NULL
                         ? ""
                         : rd_kafka_ConfigEntry_value(entries[i]));
}

static enum sent settings_check(const struct kafka_transport *k,
                                const rd_kafka_ConfigEntry_t **entries, size_t count, int replicas,
                                struct fault *f)
{
    char cleanup[64], in_sync[32], largest[32], text[200];
    uint64_t number;
    setting_of(entries, count, "cleanup.policy", cleanup, sizeof cleanup);
    setting_of(entries, count, "min.insync.replicas", in_sync, sizeof in_sync);
    setting_of(entries, count, "max.message.bytes", largest, sizeof largest);
    if (strstr(cleanup, "compact") != NULL)
        return misfit(
            f, k->topic_name,
            "is compacted, which deletes all but the last event of a trace: set cleanup.policy to delete");
    if (str_to_u64(str_from(largest), &number) && number < MESSAGE_BYTES_LEAST) {
        snprintf(text, sizeof text,
                 "takes messages of at most %s bytes: set max.message.bytes to %d or more", largest,
                 MESSAGE_BYTES_LEAST);
        return misfit(f, k->topic_name, text);
    }
    if (!str_to_u64(str_from(in_sync), &number)) return SENT_QUEUED;
    if (number > (uint64_t)replicas) {
        snprintf(text, sizeof text,
                 "has %d replicas but min.insync.replicas = %s: no client can write to it",
                 replicas, in_sync);
        return misfit(f, k->topic_name, text);
    }
    if (number < 2)
        log_text(LOG_WARNING, "kafka_topic",
                 "an acknowledged event of %s may be on only one broker (replicas: %d, "
                 "min.insync.replicas: %s); the journal keeps it until the platform has it",
                 k->topic_name, replicas, in_sync);
    return SENT_QUEUED;
}

/* A setting that cannot be read (no right to describe) is not an error of the topic. */
static enum sent settings_ask(struct kafka_transport *k, int replicas, struct fault *f)
{
    rd_kafka_ConfigResource_t *resource =
        rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, k->topic_name);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(k->client);
    rd_kafka_DescribeConfigs(k->client, &resource, 1, NULL, queue);
    rd_kafka_event_t *answer = admin_answer(k, queue);
    enum sent sent = SENT_QUEUED;
    size_t count = 0;
    if (answer != NULL && rd_kafka_event_error(answer) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        const rd_kafka_ConfigResource_t **results = rd_kafka_DescribeConfigs_result_resources(
            rd_kafka_event_DescribeConfigs_result(answer), &count);
        if (count == 1 && rd_kafka_ConfigResource_error(results[0]) == RD_KAFKA_RESP_ERR_NO_ERROR) {
            const rd_kafka_ConfigEntry_t **entries =
                rd_kafka_ConfigResource_configs(results[0], &count);
            sent = settings_check(k, entries, count, replicas, f);
        }
    }
    if (answer != NULL) rd_kafka_event_destroy(answer);
    rd_kafka_queue_destroy(queue);
    rd_kafka_ConfigResource_destroy(resource);
    return sent;
}

/* Partitions and replicas of the topic; *ret_partitions is 0 if there is no such topic. */
static enum sent topic_look(struct kafka_transport *k, int *ret_partitions, int *ret_replicas,
                            struct fault *f)
{
    const struct rd_kafka_metadata *all;
    rd_kafka_resp_err_t why = rd_kafka_metadata(k->client, 0, k->topic, &all, METADATA_MS);
    if (why != RD_KAFKA_RESP_ERR_NO_ERROR) return away(k, "cannot be queried", why, f);
    enum sent sent = SENT_QUEUED;
    *ret_partitions = *ret_replicas = 0;
    if (all->topic_cnt == 1) {
        const struct rd_kafka_metadata_topic *t = &all->topics[0];
        why = t->err;
        if (why == RD_KAFKA_RESP_ERR_NO_ERROR) {
            *ret_partitions = t->partition_cnt;
            for (int i = 0; i < t->partition_cnt; i++)
                if (i == 0 || t->partitions[i].replica_cnt < *ret_replicas)
                    *ret_replicas = t->partitions[i].replica_cnt;
        } else if (why == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED) {
            sent = misfit(f, k->topic_name, "may not be written by kafka.user");
        } else if (why != RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) {
            sent = away(k, "cannot be queried", why, f);
        }
    }
    rd_kafka_metadata_destroy(all);
    return sent;
}

static enum sent topic_check(struct kafka_transport *k, struct fault *f)
{
    int partitions, replicas;
    enum sent sent = topic_look(k, &partitions, &replicas, f);
    if (sent == SENT_QUEUED && partitions == 0) {
        sent = topic_make(k, f);
        if (sent == SENT_QUEUED) sent = topic_look(k, &partitions, &replicas, f);
        if (sent == SENT_QUEUED && partitions == 0)
            return away(k, "was created, but is not available yet",
                        RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, f);
    }
    if (sent != SENT_QUEUED) return sent;
    if (k->partitions > 0 && (uint32_t)partitions != k->partitions) {
        char text[200];
        snprintf(text, sizeof text,
                 "has %d partitions, and this engine began with %u: restart every engine after the "
                 "platform has stored all records that they have published",
                 partitions, k->partitions);
        return misfit(f, k->topic_name, text);
    }
    if (partitions > TOPIC_PARTITIONS_MAX)
        return misfit(f, k->topic_name, "has more than 1024 partitions");
    k->partitions = (uint32_t)partitions;
    k->partition = (int32_t)topic_partition(str_from(k->node), STR("0"), k->partitions);
    sent = settings_ask(k, replicas, f);
    k->topic_is_fine = sent == SENT_QUEUED;
    return sent;
}

/* ---- send ---- */

static void add(rd_kafka_headers_t *h, const char *name, struct str value)
{
    if (!str_is_absent(value)) rd_kafka_header_add(h, name, -1, value.bytes, (ssize_t)value.size);
}

/* A message is a run of its own. */
static void mac_write(struct kafka_transport *k, const struct batch *b, uint64_t seq,
                      const struct run_checkpoint *checkpoint, char to[SHA256_HEX])
{
    const struct run run = {.epoch = str_of(b->epoch, JOURNAL_EPOCH_TEXT),
                            .first_seq = seq,
                            .count = 1,
                            .leaves = b->leaves + (seq - b->first_seq),
                            .checkpoint = *checkpoint};
    sha256_write_hex(run_mac(k->hasher, &k->record_key, &run), to);
}

static rd_kafka_headers_t *headers_make(struct kafka_transport *k, const struct topic_event *e,
                                        const struct batch *b, uint64_t seq)
{
    rd_kafka_headers_t *h = rd_kafka_headers_new(13);
    struct topic_position place = {str_from(k->node), STR("0"),
                                   str_of(b->epoch, JOURNAL_EPOCH_TEXT), seq};
    char digits[24], from_digits[24], traceparent[TOPIC_TRACEPARENT_TEXT], mac[SHA256_HEX];
    struct buf number = buf_over(digits, sizeof digits),
               from = buf_over(from_digits, sizeof from_digits);
    bool is_last = seq == b->first_seq + b->count - 1;
    const struct run_checkpoint checkpoint = is_last ? b->checkpoint : (struct run_checkpoint){0};
    buf_put_u64(&number, seq);
    buf_put_u64(&from, checkpoint.from_seq);
    mac_write(k, b, seq, &checkpoint, mac);
    add(h, "event_id", e->event_id);
    add(h, "kind", e->kind);
    add(h, "tenant_id", e->tenant_id);
    add(h, "schema", STR(TOPIC_SCHEMA));
    if (topic_traceparent(e, traceparent))
        add(h, "traceparent", str_of(traceparent, sizeof traceparent));
    add(h, "node", place.node);
    add(h, "journal", place.journal);
    add(h, "epoch", place.epoch);
    add(h, "seq", buf_view(&number));
    add(h, "mac", str_of(mac, sizeof mac));
    if (checkpoint.from_seq == 0) return h;
    add(h, "checkpoint", checkpoint.note);
    add(h, "from_seq", buf_view(&from));
    add(h, "frontier", checkpoint.frontier);
    return h;
}

/* False: the client's queue is full. */
static bool produce(struct kafka_transport *k, const struct batch *b, uint64_t seq, struct str line)
{
    struct topic_event e;
    arena_reset(&k->arena);
    topic_event_find(line, &k->arena, &e);
    rd_kafka_headers_t *headers = headers_make(k, &e, b, seq);
    rd_kafka_resp_err_t why = rd_kafka_producev(
        k->client, RD_KAFKA_V_RKT(k->topic), RD_KAFKA_V_PARTITION(k->partition),
        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
        RD_KAFKA_V_VALUE((void *)(uintptr_t)line.bytes, line.size),
        RD_KAFKA_V_KEY((void *)(uintptr_t)e.trace_id.bytes, e.trace_id.size),
        RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_OPAQUE((void *)(uintptr_t)seq), RD_KAFKA_V_END);
    if (why == RD_KAFKA_RESP_ERR_NO_ERROR) {
        window_add(&k->window);
        return true;
    }
    rd_kafka_headers_destroy(headers);
    if (why != RD_KAFKA_RESP_ERR__QUEUE_FULL && k->failed == RD_KAFKA_RESP_ERR_NO_ERROR)
        k->failed = why;
    return false;
}

static bool may_go_on(const struct kafka_transport *k, uint64_t until_ns)
{
    return k->failed == RD_KAFKA_RESP_ERR_NO_ERROR && !atomic_load(&k->interrupted) &&
           world_monotonic_ns() < until_ns;
}

static void send_lines(struct kafka_transport *k, const struct batch *b)
{
    struct str rest = b->lines, line;
    uint64_t until_ns = world_monotonic_ns() + (uint64_t)PATIENCE_MS * 1000000;
    for (uint64_t seq = b->first_seq;
         seq < b->first_seq + b->count && str_split(&rest, '\n', &line); seq++)
        while (!window_has_room(&k->window) || !produce(k, b, seq, line)) {
            if (!may_go_on(k, until_ns)) return;
            rd_kafka_poll(k->client, POLL_MS);
        }
}

static void wait_for_all(struct kafka_transport *k, uint32_t ms)
{
    uint64_t until_ns = world_monotonic_ns() + (uint64_t)ms * 1000000;
    rd_kafka_poll(k->client, 0);
    while (k->window.under_way > 0 && may_go_on(k, until_ns)) rd_kafka_poll(k->client, POLL_MS);
}

static enum sent kafka_send(void *state, const struct batch *b, struct send_answer *ret,
                            struct fault *f)
{
    struct kafka_transport *k = state;
    atomic_store(&k->interrupted, false);
    *ret = (struct send_answer){.next_seq = b->first_seq};
    if (k->client == NULL && client_open(k, f) != ERR_OK) return SENT_FAILED;
    topic_login_again(&k->login, k->client);
    if (!k->topic_is_fine) {
        enum sent sent = topic_check(k, f);
        if (sent != SENT_QUEUED) return sent;
    }
    if (b->first_seq != k->window.end) { /* a replay: the records under way arrive first */
        wait_for_all(k, PATIENCE_MS);
        if (k->window.under_way == 0) window_reset(&k->window, b->first_seq);
    }
    if (b->first_seq == k->window.end) {
        send_lines(k, b);
        ret->next_seq = k->window.end;
    }
    rd_kafka_poll(k->client, 0);
    const char *trouble = topic_login_trouble(&k->login);
    if (ret->next_seq == b->first_seq)
        (void)fault_set(f, ERR_OVERLOADED, "", "%s",
                        trouble[0] != '\0' ? trouble : "Kafka accepts no more records at present");
    return SENT_QUEUED;
}

static enum err kafka_settle(void *state, uint32_t ms, struct relay_report *ret, struct fault *f)
{
    struct kafka_transport *k = state;
    atomic_store(&k->interrupted, false);
    if (k->client != NULL) {
        wait_for_all(k, ms);
        topic_login_again(&k->login, k->client);
    }
    *ret = (struct relay_report){.delivered = k->window.delivered,
                                 .under_way = k->window.under_way,
                                 .trouble = topic_login_trouble(&k->login)};
    if (k->failed == RD_KAFKA_RESP_ERR_NO_ERROR) return ERR_OK;
    char from[48] = "";
    if (k->window.delivered > 0)
        snprintf(from, sizeof from, " again from seq %llu",
                 (unsigned long long)k->window.delivered);
    (void)fault_set(f, ERR_UPSTREAM_FAILED, "", "Kafka's client gave up (%s); a new one sends%s",
                    rd_kafka_err2name(k->failed), from);
    client_close(k); /* the next send opens another one */
    k->failed = RD_KAFKA_RESP_ERR_NO_ERROR;
    window_reset(&k->window, k->window.delivered);
    ret->under_way = 0;
    return ERR_UPSTREAM_FAILED;
}

/* ---- life ---- */

static enum err kafka_find(void *state, struct stream_report *ret, struct fault *f)
{
    struct kafka_transport *k = state;
    return k->positions->find(k->positions->state, ret, f);
}

static void kafka_interrupt(void *state)
{
    struct kafka_transport *k = state;
    atomic_store(&k->interrupted, true);
    k->positions->interrupt(k->positions->state);
}

static void kafka_destroy(struct transport *door)
{
    struct kafka_transport *k = door->state;
    client_close(k);
    k->positions->destroy(k->positions);
    char *const texts[] = {k->node, k->compression};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) free(texts[i]);
    topic_login_fini(&k->login);
    arena_fini(&k->arena);
    hasher_destroy(k->hasher);
    memory_wipe(&k->record_key, sizeof k->record_key);
    free(k);
}

static char *copy(const char *text)
{
    char *to = strdup(text);
    check(to != NULL); /* only at boot */
    return to;
}

enum err transport_kafka_create(const struct publish_kafka *o, const char *node,
                                const struct sha256 *record_key, struct transport *positions,
                                struct transport **ret, struct fault *f)
{
    struct kafka_transport *k = calloc(1, sizeof *k);
    check(k != NULL); /* only at boot */
    k->door =
        (struct transport){k, kafka_find, kafka_send, kafka_interrupt, kafka_destroy, kafka_settle};
    k->positions = positions;
    k->node = copy(node);
    k->hasher = hasher_create();
    k->record_key = run_key_prepare(k->hasher, record_key);
    k->compression = copy(o->compression);
    topic_login_init(&k->login, &o->access, k);
    k->topic_name = k->login.access.topic;
    k->partitions = o->partitions;
    check(k->partitions <= TOPIC_PARTITIONS_MAX);
    arena_init(&k->arena, TENANT_ARENA, 1 << 20);
    enum err e = client_open(k, f);
    if (e != ERR_OK) {
        kafka_destroy(&k->door);
        return e;
    }
    *ret = &k->door;
    return ERR_OK;
}
