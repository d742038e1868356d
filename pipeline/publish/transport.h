/* transport.h - the interface of a way to the platform, for the publisher.
 *
 * A way is direct (HTTP: accepted records are stored), or a relay (Kafka: queued records are stored
 * some time after delivery, and only the platform's positions show when).
 *
 * The publisher's thread makes all calls, except `interrupt`, which any thread may call to end a
 * running call soon. */
#ifndef PUBLISH_TRANSPORT_H
#define PUBLISH_TRANSPORT_H

#include "base/fault.h"
#include "evidence/run_mac.h"
#include "journal/journal.h"
#include "pipeline/publish/positions.h"

_Static_assert((int)EPOCH_TEXT == (int)JOURNAL_EPOCH_TEXT,
               "the platform returns the journal's epoch");

struct batch {
    uint64_t first_seq, count;
    char epoch[JOURNAL_EPOCH_TEXT];
    struct str lines;            /* NDJSON: line k is record first_seq + k */
    const struct sha256 *leaves; /* hash k is that of record first_seq + k (evidence/merkle.h) */
    struct run_checkpoint checkpoint; /* of a tree that ends with the last record; absent: none */
};

enum sent {
    SENT_ACCEPTED,  /* stored, synced: next_seq, duplicates, clashes */
    SENT_GAP,       /* the platform lacks earlier records: want_from */
    SENT_DIVERGED,  /* the platform has another history of this stream */
    SENT_TOO_LARGE, /* smaller batches may pass */
    SENT_LATE,      /* it took too long: smaller batches may pass, now */
    SENT_QUEUED,    /* a relay has taken the records below next_seq; none if it is full */
    /* a relay with wrong settings: a person must act; the fault describes it */
    SENT_MISFIT,
    SENT_FAILED /* any other failure; the fault describes it */
};

struct send_answer {
    uint64_t next_seq, want_from, accepted, duplicates, clashes;
};

struct relay_report {
    /* One past the last record of the contiguous prefix that the relay stores safely; 0: none
     * yet. */
    uint64_t delivered;
    uint64_t under_way; /* records that it has not acknowledged */
    /* The likely reason, for people; valid until the next call. "" or NULL: unknown. */
    const char *trouble;
};

struct transport {
    void *state;
    /* Gets the platform's position. */
    enum err (*find)(void *state, struct stream_report *ret, struct fault *f);
    enum sent (*send)(void *state, const struct batch *b, struct send_answer *ret, struct fault *f);
    void (*interrupt)(void *state);
    void (*destroy)(struct transport *t);
    /* For a relay; NULL for a direct way. Receives acknowledgements for up to `ms`, until nothing
     * is under way. After an error the records under way may be lost, and must be sent again from
     * ret->delivered on (0: none was sent). */
    enum err (*settle)(void *state, uint32_t ms, struct relay_report *ret, struct fault *f);
};

struct tls;
/* `record_key` is the stream's, for the MACs of what is sent; copied. */
/* Over HTTP: POST /api/v1/audit/ingest, GET /api/v1/audit/positions. */
enum err transport_http_create(const char *url, struct tls *tls, const char *key_file,
                               const char *node, const struct sha256 *record_key,
                               struct transport **ret, struct fault *f);

/* Over Kafka (kafka.c). `positions` is the transport for find; it is taken, even if this fails.
 * ERR_BAD_VALUE, ERR_NOT_FOUND: an option, named in *f. Unreachable brokers or a wrong topic are
 * reported by send. */
struct publish_kafka; /* publish.h */
enum err transport_kafka_create(const struct publish_kafka *options, const char *node,
                                const struct sha256 *record_key, struct transport *positions,
                                struct transport **ret, struct fault *f);

#endif
