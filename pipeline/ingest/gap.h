/* gap.h - records that will never come: somebody answers for that, and their
 * stream goes on behind them.
 *
 *   stored: … from_seq - 1 │ from_seq … next_seq - 1: accepted as lost │ next_seq … may come now
 *
 * A stream that waits for records which no journal keeps any more (the database is an older one, or
 * a new one) would wait for ever, and what its engine records would fill that engine's disk. What
 * comes of a gap after all, after it was accepted, is quarantined as a clash; once `audit.keep` has
 * passed it, it is no more than a record that was dropped.
 *
 * Blocking; belongs to the thread of its store (a writer). */
#ifndef INGEST_GAP_H
#define INGEST_GAP_H

#include "pipeline/ingest/store.h"

enum { GAP_REASON_CHARACTERS = 512 };

struct gap {
    struct str node, journal; /* 1 to LIMIT_ID_CHARACTERS bytes each */
    struct str epoch;         /* of the record next_seq: 16 lowercase hex digits */
    /* the first that is missing, as the store has it; 1: of a stream that is new */
    uint64_t from_seq;
    uint64_t next_seq; /* the first that can come; above from_seq */
    struct str reason; /* at most GAP_REASON_CHARACTERS */
};

/* Moves the stream and records that as an event `audit.gap` of tenant `*`, in one transaction.
 * ERR_PRECONDITION_FAILED: the stream waits for another record than from_seq; the fault names
 * it. As of key_store_begin(): the key that asks has ended. */
enum err gap_accept(struct store *s, const struct gap *g, const struct actor *by, struct fault *f);

#endif
