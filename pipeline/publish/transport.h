/* transport.h - how batches travel: what the publisher needs of a way to the platform.
 *
 * A way is direct (HTTP: what was accepted is stored), or a relay (Kafka: what was queued is stored
 * some time after it was delivered, and only the platform's positions say when).
 *
 * Everything is called by the publisher's thread, but `interrupt`, which any thread may call to
 * end a running call soon. */
#ifndef PUBLISH_TRANSPORT_H
#define PUBLISH_TRANSPORT_H

#include "base/fault.h"
#include "journal/journal.h"
#include "pipeline/publish/positions.h"

_Static_assert((int)EPOCH_TEXT == (int)JOURNAL_EPOCH_TEXT,
               "what the platform tells is the journal's");

struct batch {
    uint64_t first_seq, count;
    char epoch[JOURNAL_EPOCH_TEXT];
    struct str lines; /* NDJSON: line k is record first_seq + k */
};

enum sent {
    SENT_ACCEPTED,  /* stored, synced: next_seq, duplicates, clashes */
    SENT_GAP,       /* the platform lacks earlier records: want_from */
    SENT_DIVERGED,  /* the platform knows another history of this stream */
    SENT_TOO_LARGE, /* smaller batches may pass */
    SENT_LATE,      /* it took too long: smaller batches may pass, now */
    SENT_QUEUED,    /* a relay has taken the records below next_seq; maybe none, when it is full */
    /* a relay that is not what it should be: a person must look; the fault says how */
    SENT_MISFIT,
    SENT_FAILED /* anything else; the fault says what */
};

struct send_answer {
    uint64_t next_seq, want_from, accepted, duplicates, clashes;
};

struct relay_report {
    /* one past the last record of the contiguous prefix that the relay keeps safe; 0: none yet */
    uint64_t delivered;
    uint64_t under_way; /* records that it has not acknowledged */
    /* what may be why, for people; good until the next call. "" or NULL: nothing known */
    const char *trouble;
};

struct transport {
    void *state;
    /* Where the platform stands. */
    enum err (*find)(void *state, struct stream_report *ret, struct fault *f);
    enum sent (*send)(void *state, const struct batch *b, struct send_answer *ret, struct fault *f);
    void (*interrupt)(void *state);
    void (*destroy)(struct transport *t);
    /* A relay's; NULL for a direct way. Takes in acknowledgements for up to `ms`, until nothing is
     * under way. An error: what was under way may be lost, and is to be sent again from
     * ret->delivered on. */
    enum err (*settle)(void *state, uint32_t ms, struct relay_report *ret, struct fault *f);
};

/* Over HTTP: POST /api/v1/audit/ingest, GET /api/v1/audit/positions. */
enum err transport_http_create(const char *url, const char *key_file, const char *node,
                               struct transport **ret, struct fault *f);

/* Over Kafka (kafka.c). `positions` is what finds; taken, also where this fails. ERR_BAD_VALUE,
 * ERR_NOT_FOUND: an option, named in *f. That brokers are away, or their topic is wrong, is told by
 * send. */
struct publish_kafka; /* publish.h */
enum err transport_kafka_create(const struct publish_kafka *options, const char *node,
                                struct transport *positions, struct transport **ret,
                                struct fault *f);

#endif
