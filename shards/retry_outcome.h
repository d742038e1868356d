/* retry_outcome.h - the outcome of a request with an Idempotency-Key, as calls and deltas pass it on. */
#ifndef SHARDS_RETRY_OUTCOME_H
#define SHARDS_RETRY_OUTCOME_H

#include "shards/review.h"
#include "shards/slot.h"

enum {
    RETRY_VERDICTS = 4
}; /* the verdicts of policies, strictest first; their numbers are on disk */

struct retry_outcome {
    struct slot_key key;           /* of the Idempotency-Key, its tenant and asker */
    struct slot_key tenant, asker; /* digests: only the bounds need them */
    struct review_digest body;     /* another body is another request */
    uint64_t at_ms;
    uint32_t verdict;
    bool has_record;   /* the record is known, if memory was there to keep it */
    struct str record; /* the decision's public JSON; absent: see retry_table.h */
};

#endif
