/* stream.h - the records of engines into the audit store.
 *
 * A stream is (node, journal). The engine numbers its records, and they arrive in order, in batches
 * that may overlap stored records. Rows and the stream's position are one transaction, with the
 * position compared and set.
 *
 *     batch:            [first ........ last]
 *     stored:   ... next-1 | next ...
 *     behind next:      compared byte for byte: duplicate, or clash (quarantined, alarmed)
 *     from next on:     stored; an invalid event is quarantined, and the stream goes on. But a
 *                       record that only a newer platform can read is valid: ERR_NEWER_RECORD, and
 *                       it waits in the engine's journal (in a topic it would block others: there
 *                       it is quarantined)
 *     first > next:     ERR_STREAM_GAP, with the record to send from (if no journal has it: gap.h)
 *
 * A new stream begins if its node has room for one (streams.h), else ERR_NODE_FULL.
 *
 * A new epoch (the engine booted, or another one leads the fleet) is accepted only if its first
 * record, `engine.started` or `leader.changed`, names the stored epoch and its last seq as `previous`;
 * else ERR_EPOCH_UNKNOWN.
 *
 * New records need a MAC, which proves that a program with the pepper made them. A stream that began
 * before records had MACs goes on without until the first one (audit_stream.is_authenticated).
 *
 * Blocking; belongs to the thread of its store (a writer). */
#ifndef INGEST_STREAM_H
#define INGEST_STREAM_H

#include "access/key.h"
#include "evidence/run_mac.h"
#include "store/store.h"

struct ingest_batch {
    struct str node, journal, epoch;
    uint64_t first_seq;
    struct str body;             /* NDJSON: line k has seq first_seq + k */
    const struct globs *tenants; /* the sender may write for these */
    struct str key_id;           /* the sender's; absent: it has none (a topic) */
    uint64_t now_ms;
    bool holds_newer; /* the sender keeps refused records */
    struct str mac;   /* of the batch as one run (evidence/run_mac.h), hex; absent: none */
    struct run_checkpoint checkpoint; /* that came with it */
    bool is_authenticated; /* of ingest_stream_within(): the caller has checked the MAC */
};

struct ingest_result {
    uint64_t accepted, duplicates, clashes, invalid;
    uint64_t displaced; /* of the clashes: posted rows that made way for records */
    /* Of the checkpoint that came with the batch: by a registered key; of a stream without one; not
     * stored. */
    uint64_t checkpoints_trusted, checkpoints_untrusted, checkpoints_refused;
    /* also after ERR_STREAM_GAP and ERR_EPOCH_UNKNOWN: the record to send from */
    uint64_t next_seq;
};

/* ERR_OK; ERR_BAD_MAC, ERR_STREAM_GAP, ERR_EPOCH_UNKNOWN, ERR_NODE_FULL, ERR_OUT_OF_RANGE, ERR_BAD_VALUE
 * (lines), ERR_NEWER_RECORD, ERR_WRONG_TENANT, ERR_BAD_HEADER (epoch, numbers), the errors of
 * key_store_begin(), or the store's failure: nothing was stored. The body is read in place. */
enum err ingest_stream(struct store *s, const struct ingest_batch *batch, struct ingest_result *ret,
                       struct fault *f);

/* The same, for any key, within a transaction that the caller begins and ends. After ERR_BAD_MAC,
 * ERR_STREAM_GAP, ERR_EPOCH_UNKNOWN and ERR_NODE_FULL the transaction can be committed: of the
 * batch only quarantined entries were stored. After any other error it must be rolled back. */
enum err ingest_stream_within(struct store *s, const struct ingest_batch *batch,
                              struct ingest_result *ret, struct fault *f);
/* The MAC of the lines as one run of the batch's stream; `of_all` as of run_key(). The epoch has
 * RUN_EPOCH_BYTES. */
struct sha256 ingest_mac(const struct sha256 *of_all, const struct ingest_batch *batch);
/* Whether batch->mac is that of the batch's stream and of `count` lines with these leaves
 * (merkle_leaf). */
bool ingest_mac_fits(struct store *s, const struct ingest_batch *batch, const struct sha256 *leaves,
                     uint64_t count);
/* Within a transaction: these bytes go to quarantine and to the log. */
enum err ingest_quarantine(struct store *s, const struct audit_quarantined *q, struct fault *f);

#endif
