/* stream.h - the records of engines into the audit store.
 *
 * A stream is (node, journal); its records are numbered by the engine and arrive in order, in
 * batches that may overlap what is stored already. Rows and the stream's position are one
 * transaction, the position compared and set.
 *
 *     batch:            [first ........ last]
 *     stored:   ... next-1 | next ...
 *     behind next:      compared byte for byte: duplicate, or clash (quarantined, alarmed)
 *     from next on:     stored; what is no valid event is quarantined, and the stream goes on. But what only
 *                       a newer platform can read is no fault of the engine's: ERR_NEWER_RECORD, and it
 *                       waits in the engine's journal (in a topic others wait behind it: there it is quarantined)
 *     first > next:     ERR_STREAM_GAP, and where to send from (nobody has them any more: gap.h)
 *
 * A new epoch (the engine booted) is accepted only where its first record, `engine.started`,
 * names the stored epoch and its last seq as `previous`; else ERR_EPOCH_UNKNOWN.
 *
 * Blocking; belongs to the thread of its store (a writer). */
#ifndef INGEST_STREAM_H
#define INGEST_STREAM_H

#include "access/key.h"
#include "pipeline/ingest/store.h"

struct ingest_batch {
    struct str node, journal, epoch;
    uint64_t first_seq;
    struct str body;             /* NDJSON: line k has seq first_seq + k */
    const struct globs *tenants; /* that the sender may write for */
    struct str key_id;           /* the sender's; absent: it has none (a topic) */
    uint64_t now_ms;
    bool holds_newer; /* the sender keeps what it is refused */
};

struct ingest_result {
    uint64_t accepted, duplicates, clashes, invalid;
    uint64_t next_seq; /* also after ERR_STREAM_GAP and ERR_EPOCH_UNKNOWN: where to send from */
};

/* ERR_OK; ERR_STREAM_GAP, ERR_EPOCH_UNKNOWN, ERR_NEWER_RECORD, ERR_WRONG_TENANT, ERR_BAD_HEADER
 * (epoch, numbers), as of key_store_begin(), or the store's failure: nothing was stored. The body is
 * read in place. */
enum err ingest_stream(struct store *s, const struct ingest_batch *batch, struct ingest_result *ret,
                       struct fault *f);

/* The same, of whatever key, within a transaction that the caller has begun and ends. ERR_STREAM_GAP and
 * ERR_EPOCH_UNKNOWN leave it fit to be committed: nothing was stored of the batch but what was
 * quarantined. After any other error it must be rolled back. */
enum err ingest_stream_within(struct store *s, const struct ingest_batch *batch,
                              struct ingest_result *ret, struct fault *f);
/* Within a transaction: these bytes go to quarantine and to the log. */
enum err ingest_quarantine(struct store *s, const struct audit_quarantined *q, struct fault *f);

#endif
