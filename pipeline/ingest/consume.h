/* consume.h - the audit topic into the store: one thread, with its own connection to the store.
 *
 *   source ── messages ──▶ runs of one stream ──▶ ingest_stream_within ─┐
 *                                                offsets compared, set ─┴─ one transaction
 *
 * The cases of a message or partition, and their handling:
 *   in order           stored
 *   stored before      compared: duplicate, or clash (quarantined, alarmed)
 *   ahead of its stream  not stored; a replay is requested through the positions; others go on
 *   of an epoch that does not follow, not an event, or without a position: quarantined, alarmed
 *   the offset is gone (deleted, truncated, expired): reported; reading continues from the earliest
 *                      offset, and replays are requested from the streams of that partition
 *   the store refuses  the same messages are tried again; no more messages are fetched meanwhile
 *
 * Several platforms share the partitions by leases in the store (lease.h). */
#ifndef INGEST_CONSUME_H
#define INGEST_CONSUME_H

#include "base/fault.h"
#include "pipeline/topic/topic.h"

/* ---- the source of messages ---- */

enum message_kind {
    MESSAGE_RECORD,
    /* The partition does not have the requested start offset; it is stopped. */
    MESSAGE_OFFSET_GONE,
    MESSAGE_TROUBLE, /* the partition cannot be read now; it is stopped */
};

struct message { /* views valid until the source's next take */
    enum message_kind kind;
    uint32_t partition;
    uint64_t offset;
    struct str value;
    struct topic_headers headers;
    const char *why; /* of trouble */
};

struct message_source {
    void *state;
    /* The topic's number of partitions. ERR_NOT_FOUND: there is no such topic. Other errors: the
     * brokers did not answer. */
    enum err (*partitions)(void *state, uint32_t *ret, struct fault *f);
    /* Starts at this offset, or at the earliest one (0). */
    enum err (*start)(void *state, uint32_t partition, uint64_t offset, struct fault *f);
    void (*stop)(void *state, uint32_t partition);
    /* Takes up to `max` messages, and returns after at most `ms` without any. */
    size_t (*take)(void *state, uint32_t ms, struct message *to, size_t max);
    /* The earliest offset and the next one to be written; asks the brokers. */
    enum err (*bounds)(void *state, uint32_t partition, uint64_t *ret_low, uint64_t *ret_high,
                       struct fault *f);
    /* The next offset to be written, as last reported by a broker; 0: not reported yet. */
    uint64_t (*heard_end)(void *state, uint32_t partition);
    void (*destroy)(struct message_source *s);
};

/* kafka.c. ERR_BAD_VALUE, ERR_NOT_FOUND: an option. Unreachable brokers are reported later. */
enum err kafka_source_create(const struct topic_access *access, struct message_source **ret,
                             struct fault *f);

/* ---- the consumer ---- */

struct consumer;

enum { CONSUME_MESSAGES_MAX = 8000, CONSUME_BYTES_MAX = 8 << 20 };

struct consumer_options { /* texts are copied */
    const char *store;
    const char *topic;
    const struct pepper *pepper;   /* read at the start */
    struct message_source *source; /* consumer_start() takes it, even if the start fails */
    uint64_t again_ms; /* delay before a failed partition is started again; 0: a second */
};

struct consumer_status {
    uint32_t partitions, owned;
    bool is_well;
    char text[320];     /* the present problem, for people; "": none */
    uint32_t writing_s; /* the duration of the current transaction; 0: none */
};

/* Opens the store (a failure is returned in *f) and starts the thread. */
enum err consumer_start(const struct consumer_options *options, struct consumer **ret,
                        struct fault *f);
void consumer_status(const struct consumer *c, struct consumer_status *ret); /* any thread */
/* Finishes the current transaction and releases its partitions. NULL is permitted. */
void consumer_stop(struct consumer *c);

#endif
