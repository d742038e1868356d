/* transport.h - how batches travel: what the publisher needs of a way to the platform.
 *
 * Everything is called by the publisher's thread, but `interrupt`, which any thread may call to
 * end a running call soon. */
#ifndef PUBLISH_TRANSPORT_H
#define PUBLISH_TRANSPORT_H

#include "base/fault.h"
#include "journal/journal.h"
#include "pipeline/publish/positions.h"

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
    SENT_FAILED     /* anything else; the fault says what */
};

struct send_answer {
    uint64_t next_seq, want_from, accepted, duplicates, clashes;
};

struct transport {
    void *state;
    /* Where the platform stands. */
    enum err (*find)(void *state, struct stream_report *ret, struct fault *f);
    enum sent (*send)(void *state, const struct batch *b, struct send_answer *ret, struct fault *f);
    void (*interrupt)(void *state);
    void (*destroy)(struct transport *t);
};

/* Over HTTP: POST /api/v1/audit/ingest, GET /api/v1/audit/positions. */
enum err transport_http_create(const char *url, const char *key_file, const char *node, struct transport **ret,
                               struct fault *f);

#endif
