/* check.c - whether the topic and its brokers keep what they have confirmed.
 *
 * The heartbeats' client asks, so that no question waits behind an entry. One table has every setting
 * that matters. An unsafe one is refused at the start; where it becomes unsafe later, the member
 * stops serving until it is safe again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "base/thread.h"
#include "pipeline/statelog/inside.h"

enum { REPLICAS = 3, IN_SYNC_LEAST = 2, CUT_LOOKS_MS = 15000 };

static rd_kafka_t *asker(const struct statelog *l) { return l->clients[STATELOG_HEARTBEAT].client; }

static enum err silent(const struct statelog *l, rd_kafka_resp_err_t why, struct fault *f)
{
    const char *trouble = topic_login_trouble(&l->clients[STATELOG_HEARTBEAT].login);
    return fault_set(f, ERR_UPSTREAM_FAILED, "", "Kafka's topic %s cannot be checked: %s", l->topic,
                     trouble[0] != '\0' ? trouble : rd_kafka_err2str(why));
}

/* ---- settings ---- */

static const char *setting(const rd_kafka_ConfigEntry_t **list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(rd_kafka_ConfigEntry_name(list[i]), name) == 0)
            return rd_kafka_ConfigEntry_value(list[i]);
    return NULL;
}

/* What each setting of the topic has to be: a word, or a number that is at least this. */
static const struct {
    const char *name, *word;
    uint64_t least;
    bool for_replicas; /* not asked of a single broker */
    const char *why;
} wanted[] = {
    {"cleanup.policy", "delete", 0, false, "a compacted log loses entries"},
    {"retention.ms", "-1", 0, false, "entries must not be dropped by age"},
    {"retention.bytes", "-1", 0, false, "entries must not be dropped by size"},
    {"message.timestamp.type", "LogAppendTime", 0, false,
     "engines compare their clocks with the brokers'"},
    {"max.message.bytes", NULL, STATELOG_MESSAGE_BYTES, false, "an entry has up to 257 KiB"},
    {"flush.messages", "1", 0, false,
     "an answer must survive the loss of power at all brokers, as it survives that of an engine"},
    {"unclean.leader.election.enable", "false", 0, true,
     "a broker that lags must not replace confirmed entries"},
    {"min.insync.replicas", NULL, IN_SYNC_LEAST, true,
     "an entry that one broker has is lost with it"},
};

static enum err judge(const struct statelog *l, const rd_kafka_ConfigEntry_t **list, size_t count,
                      struct fault *f)
{
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const char *value = setting(list, count, wanted[i].name);
        uint64_t number;
        if (l->single_broker && wanted[i].for_replicas) continue;
        if (value == NULL) value = "unknown";
        if (wanted[i].word != NULL
                ? strcmp(value, wanted[i].word) == 0
                : str_to_u64(str_from(value), &number) && number >= wanted[i].least)
            continue;
        char least[24];
        snprintf(least, sizeof least, "%" PRIu64, wanted[i].least);
        return fault_set(
            f, ERR_BAD_VALUE, "",
            "fleet: Kafka's topic %s has %s = %s, and needs %s%s: %s. Change it with "
            "kafka-configs --alter --entity-type topics --entity-name %s --add-config %s=%s",
            l->topic, wanted[i].name, value, wanted[i].word != NULL ? wanted[i].word : least,
            wanted[i].word != NULL ? "" : " or more", wanted[i].why, l->topic, wanted[i].name,
            wanted[i].word != NULL ? wanted[i].word : least);
    }
    return ERR_OK;
}

/* Brokers before 3.7 lack this setting, and they show to readers what they may still lose. */
static enum err judge_broker(const struct statelog *l, const rd_kafka_ConfigEntry_t **list,
                             size_t count, struct fault *f)
{
    if (setting(list, count, "log.dir.failure.timeout.ms") != NULL) return ERR_OK;
    return fault_set(f, ERR_BAD_VALUE, "",
                     "fleet: a broker of Kafka's topic %s is older than 3.7. Before that, what was "
                     "read back could still be lost: upgrade the brokers",
                     l->topic);
}

static enum err describe(const struct statelog *l, rd_kafka_ResourceType_t type, const char *name,
                         enum err (*judge_it)(const struct statelog *l,
                                              const rd_kafka_ConfigEntry_t **list, size_t count,
                                              struct fault *f),
                         struct fault *f)
{
    rd_kafka_ConfigResource_t *resource = rd_kafka_ConfigResource_new(type, name);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(asker(l));
    rd_kafka_DescribeConfigs(asker(l), &resource, 1, NULL, queue);
    rd_kafka_event_t *answer = rd_kafka_queue_poll(queue, STATELOG_CALL_MS);
    rd_kafka_resp_err_t why =
        answer == NULL ? RD_KAFKA_RESP_ERR__TIMED_OUT : rd_kafka_event_error(answer);
    enum err err = ERR_UPSTREAM_FAILED;
    size_t count = 0;
    if (why == RD_KAFKA_RESP_ERR_NO_ERROR) {
        const rd_kafka_ConfigResource_t **found = rd_kafka_DescribeConfigs_result_resources(
            rd_kafka_event_DescribeConfigs_result(answer), &count);
        why = count == 1 ? rd_kafka_ConfigResource_error(found[0]) : RD_KAFKA_RESP_ERR__FAIL;
        if (why == RD_KAFKA_RESP_ERR_NO_ERROR) {
            const rd_kafka_ConfigEntry_t **list = rd_kafka_ConfigResource_configs(found[0], &count);
            err = judge_it(l, list, count, f);
        }
    }
    if (why == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
        why == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED)
        err = fault_set(f, ERR_BAD_VALUE, "",
                        "fleet: kafka.user may not read the settings of %s and of its brokers: "
                        "give it DescribeConfigs on the topic and on the cluster",
                        l->topic);
    else if (why != RD_KAFKA_RESP_ERR_NO_ERROR)
        err = silent(l, why, f);
    if (answer != NULL) rd_kafka_event_destroy(answer);
    rd_kafka_queue_destroy(queue);
    rd_kafka_ConfigResource_destroy(resource);
    return err;
}

/* ---- the topic ---- */

static enum err judge_topic(const struct statelog *l, const struct rd_kafka_metadata_topic *t,
                            struct fault *f)
{
    if (t->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
        return fault_set(f, ERR_NOT_FOUND, "",
                         "fleet: Kafka has no topic %s. The first engine of a new fleet makes it: "
                         "start that one with --fleet.seed true",
                         l->topic);
    if (t->err == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
        return fault_set(f, ERR_BAD_VALUE, "",
                         "fleet: kafka.user may not use Kafka's topic %s: give it Read, Write and "
                         "Describe",
                         l->topic);
    if (t->err != RD_KAFKA_RESP_ERR_NO_ERROR) return silent(l, t->err, f);
    if (t->partition_cnt != 1)
        return fault_set(f, ERR_BAD_VALUE, "",
                         "fleet: Kafka's topic %s has %d partitions. The log of a fleet has one: "
                         "make the topic again",
                         l->topic, t->partition_cnt);
    if (!l->single_broker && t->partitions[0].replica_cnt < REPLICAS)
        return fault_set(f, ERR_BAD_VALUE, "",
                         "fleet: Kafka's topic %s has %d replicas, and needs %d: reassign its "
                         "partition to %d brokers. For a trial on one broker, set "
                         "fleet.single_broker",
                         l->topic, t->partitions[0].replica_cnt, REPLICAS, REPLICAS);
    return ERR_OK;
}

enum err statelog_check(struct statelog *l, struct fault *f)
{
    const struct rd_kafka_metadata *all;
    rd_kafka_resp_err_t why = rd_kafka_metadata(asker(l), 0, l->clients[STATELOG_HEARTBEAT].topic,
                                                &all, STATELOG_CALL_MS);
    if (why != RD_KAFKA_RESP_ERR_NO_ERROR) return silent(l, why, f);
    enum err err = all->topic_cnt == 1 ? judge_topic(l, &all->topics[0], f)
                                       : silent(l, RD_KAFKA_RESP_ERR__FAIL, f);
    if (err == ERR_OK) err = describe(l, RD_KAFKA_RESOURCE_TOPIC, l->topic, judge, f);
    for (int i = 0; err == ERR_OK && i < all->topics[0].partitions[0].isr_cnt; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", all->topics[0].partitions[0].isrs[i]);
        err = describe(l, RD_KAFKA_RESOURCE_BROKER, id, judge_broker, f);
    }
    rd_kafka_metadata_destroy(all);
    return err;
}

enum err statelog_make(struct statelog *l, struct fault *f)
{
    char text[200];
    rd_kafka_NewTopic_t *topic =
        rd_kafka_NewTopic_new(l->topic, 1, l->single_broker ? 1 : REPLICAS, text, sizeof text);
    if (topic == NULL)
        return fault_set(f, ERR_BAD_VALUE, "", "fleet: the topic %s cannot be made: %s", l->topic,
                         text);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        char least[24];
        snprintf(least, sizeof least, "%" PRIu64,
                 l->single_broker && wanted[i].for_replicas ? 1 : wanted[i].least);
        rd_kafka_NewTopic_set_config(topic, wanted[i].name,
                                     wanted[i].word != NULL ? wanted[i].word : least);
    }
    rd_kafka_queue_t *queue = rd_kafka_queue_new(asker(l));
    rd_kafka_CreateTopics(asker(l), &topic, 1, NULL, queue);
    rd_kafka_event_t *answer = rd_kafka_queue_poll(queue, 2 * STATELOG_CALL_MS);
    rd_kafka_resp_err_t why =
        answer == NULL ? RD_KAFKA_RESP_ERR__TIMED_OUT : rd_kafka_event_error(answer);
    size_t count = 0;
    text[0] = '\0';
    if (why == RD_KAFKA_RESP_ERR_NO_ERROR) {
        const rd_kafka_topic_result_t **made =
            rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(answer), &count);
        why = count == 1 ? rd_kafka_topic_result_error(made[0]) : RD_KAFKA_RESP_ERR__FAIL;
        if (count == 1 && rd_kafka_topic_result_error_string(made[0]) != NULL)
            snprintf(text, sizeof text, "%s", rd_kafka_topic_result_error_string(made[0]));
    }
    if (answer != NULL) rd_kafka_event_destroy(answer);
    rd_kafka_queue_destroy(queue);
    rd_kafka_NewTopic_destroy(topic);
    if (why == RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR)
        return fault_set(f, ERR_BAD_VALUE, "",
                         "fleet: the topic %s needs %d brokers, and Kafka has fewer. For a trial "
                         "on one broker, set fleet.single_broker",
                         l->topic, REPLICAS);
    if (why != RD_KAFKA_RESP_ERR_NO_ERROR && why != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS)
        return fault_set(f, ERR_UPSTREAM_FAILED, "", "fleet: the topic %s cannot be made: %s",
                         l->topic, text[0] != '\0' ? text : rd_kafka_err2str(why));
    log_text(LOG_INFO, "fleet_topic_made", "%s", l->topic);
    /* A topic that was just made is not known to every broker at once. */
    for (int i = 0; i < 100; i++) {
        int64_t begin, end;
        if (rd_kafka_query_watermark_offsets(asker(l), l->topic, 0, &begin, &end, 200) ==
            RD_KAFKA_RESP_ERR_NO_ERROR)
            break;
        statelog_wait(l, 100);
    }
    enum err err = statelog_check(l, f);
    for (int i = 0; i < 20 && (err == ERR_NOT_FOUND || err == ERR_UPSTREAM_FAILED); i++) {
        statelog_wait(l, 200);
        err = statelog_check(l, f);
    }
    return err;
}

/* ---- the watch ---- */

static bool is_cut(struct statelog *l, uint64_t *ret_end)
{
    int64_t begin, end;
    uint64_t next = atomic_load(&l->next); /* before the question */
    if (rd_kafka_query_watermark_offsets(asker(l), l->topic, 0, &begin, &end, STATELOG_CALL_MS) !=
        RD_KAFKA_RESP_ERR_NO_ERROR)
        return false;
    *ret_end = (uint64_t)end;
    atomic_store(&l->size, (uint64_t)(end - begin));
    return end >= 0 && (uint64_t)end < next;
}

static void look(struct statelog *l, bool was_cut, bool *ret_is_cut)
{
    struct fault f = {.err = ERR_OK};
    uint64_t end = 0;
    enum err err = statelog_check(l, &f);
    /* A broker that hung answers for a moment as if it still led: it takes two looks. */
    *ret_is_cut = is_cut(l, &end);
    pthread_mutex_lock(&l->lock);
    bool is_new = strcmp(l->trouble, err == ERR_OK ? "" : f.text) != 0;
    snprintf(l->trouble, sizeof l->trouble, "%.*s", STATELOG_REASON_TEXT - 1,
             err == ERR_OK ? "" : f.text);
    /* What was unsafe stays so until it was seen to be safe. */
    if (err != ERR_UPSTREAM_FAILED) l->is_unsafe = err != ERR_OK;
    if (was_cut && *ret_is_cut) {
        l->was_cut = true;
        l->end = end;
    }
    pthread_mutex_unlock(&l->lock);
    if (err != ERR_OK && is_new) log_text(LOG_ERROR, "fleet_log", "%s", f.text);
    if (err != ERR_OK || *ret_is_cut) statelog_wake(l);
}

/* What fails is done with the next one: a longer log is no harm. */
static void trim(const struct statelog *l, uint64_t below)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, l->topic, 0)->offset = (int64_t)below;
    rd_kafka_DeleteRecords_t *records = rd_kafka_DeleteRecords_new(list);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(asker(l));
    rd_kafka_DeleteRecords(asker(l), &records, 1, NULL, queue);
    rd_kafka_event_t *answer = rd_kafka_queue_poll(queue, 2 * STATELOG_CALL_MS);
    rd_kafka_resp_err_t why =
        answer == NULL ? RD_KAFKA_RESP_ERR__TIMED_OUT : rd_kafka_event_error(answer);
    if (why == RD_KAFKA_RESP_ERR_NO_ERROR) {
        const rd_kafka_topic_partition_list_t *done =
            rd_kafka_DeleteRecords_result_offsets(rd_kafka_event_DeleteRecords_result(answer));
        why = done != NULL && done->cnt == 1 ? done->elems[0].err : RD_KAFKA_RESP_ERR__FAIL;
    }
    if (why == RD_KAFKA_RESP_ERR_NO_ERROR)
        log_text(LOG_INFO, "fleet_log_shortened", "%s begins with offset %" PRIu64, l->topic,
                 below);
    else
        log_text(LOG_WARNING, "fleet_log_not_shortened", "%s, below offset %" PRIu64 ": %s%s",
                 l->topic, below, rd_kafka_err2str(why),
                 why == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED
                     ? ". Give kafka.user Delete on the topic"
                     : "");
    if (answer != NULL) rd_kafka_event_destroy(answer);
    rd_kafka_queue_destroy(queue);
    rd_kafka_DeleteRecords_destroy(records);
    rd_kafka_topic_partition_list_destroy(list);
}

void statelog_trim(struct statelog *l, uint64_t below)
{
    pthread_mutex_lock(&l->lock);
    if (below > l->trim_below) l->trim_below = below;
    pthread_cond_signal(&l->moved);
    pthread_mutex_unlock(&l->lock);
}

uint64_t statelog_size(const struct statelog *l) { return atomic_load(&l->size); }

static void *watch(void *context)
{
    struct statelog *l = context;
    bool was_cut = false;
    pthread_mutex_lock(&l->lock);
    while (!l->stops) {
        struct timespec at = condition_deadline(was_cut ? CUT_LOOKS_MS : STATELOG_WATCH_MS);
        while (!l->stops && l->trim_below == 0 &&
               pthread_cond_timedwait(&l->moved, &l->lock, &at) == 0)
            continue;
        if (l->stops) break;
        uint64_t below = l->trim_below;
        l->trim_below = 0;
        pthread_mutex_unlock(&l->lock);
        if (below > 0) trim(l, below);
        look(l, was_cut, &was_cut);
        pthread_mutex_lock(&l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

void statelog_watch_start(struct statelog *l)
{
    condition_init(&l->moved);
    l->watches = true;
    thread_start(&l->watch, "fleet-watch", watch, l);
}

void statelog_watch_stop(struct statelog *l)
{
    if (!l->watches) return;
    pthread_mutex_lock(&l->lock);
    l->stops = true;
    pthread_cond_signal(&l->moved);
    pthread_mutex_unlock(&l->lock);
    check(pthread_join(l->watch, NULL) == 0);
    pthread_cond_destroy(&l->moved);
    l->watches = false;
}

void statelog_note_next(struct statelog *l, uint64_t next) { atomic_store(&l->next, next); }

bool statelog_was_cut(struct statelog *l, uint64_t *ret_end)
{
    pthread_mutex_lock(&l->lock);
    bool was_cut = l->was_cut;
    *ret_end = l->end;
    pthread_mutex_unlock(&l->lock);
    return was_cut;
}

bool statelog_trouble(struct statelog *l, char to[STATELOG_REASON_TEXT])
{
    pthread_mutex_lock(&l->lock);
    memcpy(to, l->trouble, STATELOG_REASON_TEXT);
    pthread_mutex_unlock(&l->lock);
    return to[0] != '\0';
}

bool statelog_is_unsafe(struct statelog *l)
{
    pthread_mutex_lock(&l->lock);
    bool is_unsafe = l->is_unsafe;
    pthread_mutex_unlock(&l->lock);
    return is_unsafe;
}
