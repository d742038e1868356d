/* publish.h - the engine's records on their way to the platform, in order, without end.
 *
 * One thread tails the journal up to its durable seq and sends batches, over HTTP or by Kafka;
 * whatever the platform or the brokers answer or do not answer, nothing else in the engine waits
 * for it. A platform that is away costs lag, never a decision.
 *
 *            +------------- any failure: wait 50 ms … 5 s ------------+
 *            v                                                        |
 *   start → FINDING --positions--> SENDING --batch, answer, batch …---+
 *            |                        |
 *            |   what it finds is past help: it alarms, and asks again every 5 s
 *            +→ AHEAD     the platform has records that this journal never had (the disk went back)
 *            +→ DIVERGED  the platform's last record is of another history than ours
 *            +→ GAP       the platform wants records that are no longer kept
 *            +→ BROKEN    our own journal cannot be read back
 *            +→ MISFIT    Kafka's topic is not what it should be
 *
 * By Kafka, records are under way until the brokers have acknowledged them, and then until the
 * platform has read them; its positions, asked for a few times a second, are what confirms, so
 * a journal segment is kept until the platform has it. The platform may ask for a replay; and
 * where its position has stood for PUBLISH_STALL_MS behind what the topic has, the records
 * between are sent again unasked (twice as late each time, until it has all): a topic that
 * lost them loses nothing.
 *
 * The platform's answer is the position: it is kept in no file here. A batch has one epoch, at
 * most PUBLISH_BATCH_BYTES and PUBLISH_BATCH_RECORDS. Records that nobody hurries wait up to
 * PUBLISH_DELAY_MS for company, so that a batch is worth its cost. */
#ifndef PUBLISH_PUBLISH_H
#define PUBLISH_PUBLISH_H

#include "base/fault.h"
#include "journal/journal.h"
#include "pipeline/topic/topic.h"

struct publisher;
struct transport; /* publish/transport.h */

/* Measured over loopback with records of 1.2 KiB: a batch costs about 80 µs besides its bytes, so
 * 20 ms of company make that 0.07 µs a record at 60,000 a second; beyond 1,000 records there is
 * nothing left to win, and the buffers fall out of the core's cache. */
enum {
    PUBLISH_BATCH_BYTES = 4 << 20, /* half of what the platform takes in one request */
    PUBLISH_BATCH_RECORDS = 1000,
    PUBLISH_DELAY_MS = 20,
    PUBLISH_POLL_MS = 5000,      /* positions are asked for at least this often */
    PUBLISH_RELAY_POLL_MS = 250, /* and this often while a relay has what the platform has not */
    PUBLISH_STALL_MS = 30000,
    PUBLISH_STALL_MOST_MS = 600000,
};

struct publish_kafka { /* texts are copied */
    struct topic_access access;
    uint32_t partitions;     /* of the topic, 1 … TOPIC_PARTITIONS_MAX */
    const char *compression; /* lz4, zstd, none */
};

struct publish_options {
    struct journal *journal; /* borrowed until publish_stop() */
    const char *node;        /* this engine's name; copied */
    const char *url;         /* the platform, http://host:port or unix:/path; copied */
    /* its API key; read again after a failure, so a key can rotate; copied */
    const char *key_file;
    /* NULL: records go over HTTP. Else by Kafka, and url is for positions */
    const struct publish_kafka *kafka;
    /* NULL: HTTP to url. Else taken, and url and key_file are not read */
    struct transport *transport;
};

/* What publish_start() would make of the options' addresses, keys and certificates: for those who
 * want to know early whether they are right. ERR_BAD_VALUE: one is not. */
enum err publish_connect(const struct publish_options *options, struct transport **ret,
                         struct fault *f);

enum publish_state {
    PUBLISH_FINDING, /* asks where to begin, or waits to ask again */
    PUBLISH_SENDING, /* in step with the platform */
    PUBLISH_AHEAD,
    PUBLISH_DIVERGED,
    PUBLISH_GAP,
    PUBLISH_BROKEN,
    PUBLISH_MISFIT,
};
const char *publish_state_name(enum publish_state s); /* "finding" */
bool publish_state_is_alarm(enum publish_state s);    /* a person must look */
/* The platform has records of this node that this journal never had: what they say (a revocation, a
 * suspension) is not known here. */
bool publish_state_is_behind(enum publish_state s);

struct publish_status {
    enum publish_state state;
    uint64_t confirmed_seq, durable_seq, lag_records;
    uint64_t delivered_seq; /* by Kafka: acknowledged by the brokers */
    uint64_t failures_in_a_row;
    /* since the platform last answered as it should, or, if longer, since Kafka's brokers last
     * acknowledged what waits for them, or since the platform last came closer to what these have
     * (from PUBLISH_STALL_MS on); since the start if never */
    uint64_t silent_ms;
    char text[640]; /* what is wrong, for people; "" = nothing */
};

/* Starts the thread. ERR_NOT_FOUND, ERR_BAD_VALUE: the key file or the url, told in *f. */
enum err publish_start(const struct publish_options *options, struct publisher **ret,
                       struct fault *f);

/* The durable seq moved. Any thread; no call of the system unless the publisher sleeps;
 * `p` may be NULL. */
void publish_wake(struct publisher *p);

void publish_status(const struct publisher *p, struct publish_status *ret); /* any thread */

/* Tries for `drain_ms` to have everything confirmed (by Kafka: acknowledged by the brokers), then
 * stops and frees. True: all of it was. */
bool publish_stop(struct publisher *p, uint32_t drain_ms);

#endif
