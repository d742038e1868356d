/* inside.h - what the files of this room share. */
#ifndef STATELOG_INSIDE_H
#define STATELOG_INSIDE_H

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>

#include "pipeline/statelog/statelog.h"
#include "pipeline/topic/login.h"

struct statelog_client {
    struct statelog *log;
    rd_kafka_t *client; /* NULL: not made */
    rd_kafka_topic_t *topic;
    struct topic_login login;
};

struct statelog_result_slot {
    bool in_flight, is_done, is_good;
};

struct statelog {
    struct statelog_client clients[3]; /* entries, heartbeats, reader */
    struct statelog_result_slot results[2];
    bool single_broker;
    const char *topic; /* the first login's */
    rd_kafka_queue_t *queue;
    rd_kafka_message_t *held;
    bool reads;
    uint64_t gone_ns; /* since when the brokers do not have the next offset; 0: they have */
    int bell;         /* an eventfd */

    pthread_t watch;
    bool watches;
    pthread_mutex_t lock; /* guards what follows, to `stops` */
    pthread_cond_t moved;
    bool stops, is_unsafe, was_cut;
    uint64_t end;
    uint64_t trim_below; /* 0: nothing is to be removed */
    char trouble[STATELOG_REASON_TEXT];
    _Atomic uint64_t next, size;
};

enum { STATELOG_READER = 2, STATELOG_CALL_MS = 5000 };

/* The topic and the brokers as they are now. ERR_BAD_VALUE: not safe; ERR_NOT_FOUND: no such topic;
 * ERR_UPSTREAM_FAILED. */
enum err statelog_check(struct statelog *l, struct fault *f);
/* Makes the topic, and waits until every broker that is asked has it: then as statelog_check(). */
enum err statelog_make(struct statelog *l, struct fault *f);
/* Starts the thread that checks each STATELOG_WATCH_MS, and stops it. */
void statelog_watch_start(struct statelog *l);
void statelog_watch_stop(struct statelog *l);

#endif
