/* consume.h - the audit topic into the store: one thread, a connection of its own to the store.
 *
 *   source ── messages ──▶ runs of one stream ──▶ ingest_stream_within ─┐
 *                                                offsets compared, set ─┴─ one transaction
 *
 * Reading, what is found, and what it means:
 *   in order           stored
 *   stored before      compared: duplicate, or clash (quarantined, alarmed)
 *   ahead of its stream  not stored; a replay is asked for through the positions; nobody else waits
 *   of an epoch that does not follow, or no event, or no place at all: quarantined, alarmed
 *   the offset is gone (deleted, truncated, expired): told, read on from the earliest that is left,
 *                      and the streams of that partition are asked for what may be missing
 *   the store refuses  the same messages are tried again; nothing more is fetched meanwhile
 *
 * Several platforms share the partitions by leases in the store (lease.h). */
#ifndef INGEST_CONSUME_H
#define INGEST_CONSUME_H

#include "base/fault.h"
#include "pipeline/topic/topic.h"

/* ---- where messages come from ---- */

enum message_kind {
    MESSAGE_RECORD,
    /* the partition has not the offset that reading was to begin at; it is stopped */
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
    /* How many partitions the topic has. ERR_NOT_FOUND: there is no such topic;
     * else it cannot be asked. */
    enum err (*partitions)(void *state, uint32_t *ret, struct fault *f);
    /* From this offset on, or from the earliest there is (0). */
    enum err (*start)(void *state, uint32_t partition, uint64_t offset, struct fault *f);
    void (*stop)(void *state, uint32_t partition);
    /* Up to `max` messages, after at most `ms` without any. */
    size_t (*take)(void *state, uint32_t ms, struct message *to, size_t max);
    /* The earliest offset there is, and the next to be written; asked of the brokers. */
    enum err (*bounds)(void *state, uint32_t partition, uint64_t *ret_low, uint64_t *ret_high,
                       struct fault *f);
    /* The next to be written as last heard of; 0: not heard yet. */
    uint64_t (*heard_end)(void *state, uint32_t partition);
    void (*destroy)(struct message_source *s);
};

/* kafka.c. ERR_BAD_VALUE, ERR_NOT_FOUND: an option; that brokers are away is told later. */
enum err kafka_source_create(const struct topic_access *access, struct message_source **ret,
                             struct fault *f);

/* ---- the consumer ---- */

struct consumer;

enum { CONSUME_MESSAGES_MAX = 8000, CONSUME_BYTES_MAX = 8 << 20 };

struct consumer_options { /* texts are copied */
    const char *store;
    const char *topic;
    struct message_source *source; /* taken, also where the start fails */
};

struct consumer_status {
    uint32_t partitions, owned;
    bool is_well;
    char text[320];     /* what is wrong, for people; "" = nothing */
    uint32_t writing_s; /* how long the store has been at what it was given last; 0: it has it */
};

/* Opens the store (the caller is told why it cannot) and starts the thread. */
enum err consumer_start(const struct consumer_options *options, struct consumer **ret,
                        struct fault *f);
void consumer_status(const struct consumer *c, struct consumer_status *ret); /* any thread */
/* Ends after what is in hand, gives its partitions up; NULL is taken. */
void consumer_stop(struct consumer *c);

#endif
