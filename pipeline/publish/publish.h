/* publish.h - sends the engine's records to the platform, in order, continuously.
 *
 * One thread reads the journal up to its durable seq, or the log of the fleet that this engine leads
 * up to its committed seq (record_source.h), and sends batches, over HTTP or by Kafka. No
 * other part of the engine waits for the answers of the platform or the brokers. An unreachable
 * platform causes a lag, but never affects a decision.
 *
 *            +------------- any failure: wait 50 ms … 5 s ------------+
 *            v                                                        |
 *   start → FINDING --positions--> SENDING --batch, answer, batch …---+
 *            |                        |
 *            |   no retry can solve the problem: it alarms, and asks again every 5 s
 *            +→ AHEAD     the platform has records that this journal never had (the disk went back)
 *            +→ DIVERGED  the platform's last record is of another history than ours
 *            +→ GAP       the platform requests records that the journal does not have any more
 *            +→ BROKEN    our own journal cannot be read
 *            +→ MISFIT    Kafka's topic has wrong settings
 *
 * By Kafka, records are under way until the brokers have acknowledged them, and then until the
 * platform has read them. The platform's positions, requested a few times a second, confirm them.
 * So a journal segment stays until the platform has it. The platform may request a replay. If its
 * position has stood for PUBLISH_STALL_MS behind the topic's records, the records between are sent
 * again without a request (each time after twice the delay, until it has all). So a topic that
 * loses them loses nothing.
 *
 * The platform's answer is the position, and no file here stores it. A batch has one epoch, at most
 * PUBLISH_BATCH_BYTES and PUBLISH_BATCH_RECORDS. Records that are not urgent wait up to
 * PUBLISH_DELAY_MS for more, so that a batch is worth its cost. */
#ifndef PUBLISH_PUBLISH_H
#define PUBLISH_PUBLISH_H

#include "base/fault.h"
#include "crypto/crypto.h"
#include "journal/journal.h"
#include "pipeline/topic/topic.h"

struct publisher;
struct record_source; /* publish/record_source.h */
struct transport;     /* publish/transport.h */
struct stream_tree;   /* publish/stream_tree.h */

/* Measured over loopback with records of 1.2 KiB: a batch costs about 80 µs besides its bytes. A
 * delay of 20 ms makes that 0.07 µs a record at 60,000 a second. More than 1,000 records save
 * nothing more, and the buffers do not fit into the core's cache. */
enum {
    PUBLISH_BATCH_BYTES = 4 << 20, /* half of the platform's limit for one request */
    PUBLISH_BATCH_RECORDS = 1000,
    PUBLISH_DELAY_MS = 20,
    PUBLISH_POLL_MS = 5000, /* positions are requested at least this often */
    /* and this often while a relay has records that the platform has not */
    PUBLISH_RELAY_POLL_MS = 250,
    PUBLISH_STALL_MS = 30000,
    PUBLISH_STALL_MOST_MS = 600000,
};

struct publish_kafka { /* texts are copied */
    struct topic_access access;
    uint32_t
        /* that the topic must have, at most TOPIC_PARTITIONS_MAX; 0: the present number */
        partitions;
    const char *compression; /* lz4, zstd, none */
};

struct publish_options {
    struct journal *journal; /* borrowed until publish_stop() */
    /* Not NULL: the records come from here, and `journal` is not used. Copied, and destroyed at the
     * end. */
    const struct record_source *source;
    const char *node; /* this engine's name; copied */
    const char *url;  /* the platform, http://host:port, https://… or unix:/path; copied */
    struct tls *tls;  /* for https://; outlives the publisher */
    /* The platform's API key. It is read again after a failure, so a key can rotate; copied. */
    const char *key_file;
    struct sha256 record_key; /* of this engine's stream (evidence/run_mac.h) */
    /* NULL: records go over HTTP. Else by Kafka, and url is for positions. */
    const struct publish_kafka *kafka;
    /* NULL: HTTP to url. Else taken over, and url and key_file are not read. */
    struct transport *transport;
    struct stream_tree *tree; /* taken, even if the start fails; NULL: no checkpoints */
    uint64_t poll_ms; /* between requests for positions, and after an alarm; 0: PUBLISH_POLL_MS */
};

/* Makes the transport of publish_start() from the options' addresses, keys and certificates, for
 * callers that check them early. ERR_BAD_VALUE: one is not valid. */
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
/* The platform has records of this node that this journal never had. Their content (a revocation, a
 * suspension) is not known here. */
bool publish_state_is_behind(enum publish_state s);

struct publish_status {
    enum publish_state state;
    uint64_t confirmed_seq, durable_seq, lag_records;
    uint64_t delivered_seq; /* by Kafka: acknowledged by the brokers */
    uint64_t failures_in_a_row;
    /* The longest of these: the time since the platform's last correct answer, the time since
     * Kafka's brokers last acknowledged a waiting record, the time since the platform last advanced
     * towards the brokers' records (from PUBLISH_STALL_MS on). Since the start, if there was
     * none. */
    uint64_t silent_ms;
    char text[640]; /* the present problem, for people; "": none */
};

/* Starts the thread. ERR_NOT_FOUND, ERR_BAD_VALUE: the key file or the url, described in *f. */
enum err publish_start(const struct publish_options *options, struct publisher **ret,
                       struct fault *f);

/* The durable seq has moved. Any thread; no system call unless the publisher sleeps. `p` may be
 * NULL. */
void publish_wake(struct publisher *p);

void publish_status(const struct publisher *p, struct publish_status *ret); /* any thread */

/* Tries for `drain_ms` to have everything confirmed (by Kafka: acknowledged by the brokers), then
 * stops and frees. True: all of it was. */
bool publish_stop(struct publisher *p, uint32_t drain_ms);

#endif
