/* batch.h - reads records from their source into one NDJSON text. The publisher's thread only. */
#ifndef PUBLISH_BATCH_H
#define PUBLISH_BATCH_H

#include "base/buf.h"
#include "pipeline/publish/record_source.h"
#include "pipeline/publish/transport.h"

struct batch_filler {
    struct record_source *source; /* borrowed */
    uint64_t at;                  /* seq of `held`, or of the source's next record; 0: not set */
    struct journal_record held; /* read, but left out of the batch before: a view of the source's */
    bool has_held;
    struct buf lines, leaves;
    struct hasher *hasher;
};

void batch_filler_init(struct batch_filler *b, struct record_source *source);
void batch_filler_fini(struct batch_filler *b);

/* Fills the batch with the records from `first` on that have one epoch and fit, at least
 * one. The batch's lines are valid until the next call. ERR_END: none is here yet.
 * ERR_NOT_FOUND: the source does not have `first` any more. ERR_CORRUPT, ERR_IO: the source
 * cannot be read. */
enum err batch_fill(struct batch_filler *b, uint64_t first, size_t bytes_max, uint64_t records_max,
                    struct batch *ret, struct fault *f);

#endif
