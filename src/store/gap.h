/* gap.h - accepts that records will never come, so that their stream continues after them.
 *
 *   stored: … from_seq - 1 │ from_seq … next_seq - 1: accepted as lost │ next_seq … may come now
 *
 * A stream may wait for records that no journal has any more (the database is an older one, or a
 * new one). It would wait forever, and new records would fill the engine's disk. A record of an
 * accepted gap that comes later is quarantined as a clash. After `audit.keep` has passed the gap,
 * such a record counts as dropped.
 *
 * Blocking; belongs to the thread of its store (a writer). */
#ifndef STORE_GAP_H
#define STORE_GAP_H

#include "store/store.h"

enum { GAP_REASON_CHARACTERS = 512 };

struct gap {
    struct str node, journal; /* 1 to LIMIT_ID_CHARACTERS bytes each */
    struct str epoch;         /* of the record next_seq: 16 lowercase hex digits */
    /* The first missing record, as the store has it; 1: of a new stream. */
    uint64_t from_seq;
    uint64_t next_seq; /* the first that can come; above from_seq */
    struct str reason; /* at most GAP_REASON_CHARACTERS */
};

/* Moves the stream and records that as an event `audit.gap` of tenant `*`, in one transaction.
 * ERR_PRECONDITION_FAILED: the stream waits for another record than from_seq; the fault names it.
 * Also returns the errors of key_store_begin(): the caller's key has ended. */
enum err gap_accept(struct store *s, const struct gap *g, const struct actor *by, struct fault *f);

#endif
