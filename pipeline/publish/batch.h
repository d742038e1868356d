/* batch.h - reads records from the journal's cursor into one NDJSON text. The publisher's thread
 * only. */
#ifndef PUBLISH_BATCH_H
#define PUBLISH_BATCH_H

#include "base/buf.h"
#include "pipeline/publish/transport.h"

struct batch_filler {
    struct journal *journal;       /* borrowed */
    struct journal_cursor *cursor; /* NULL: not open */
    uint64_t at;                   /* seq of `held`, or of the cursor's next record */
    struct journal_record held; /* read, but left out of the batch before: a view of the cursor's */
    bool has_held;
    struct buf lines, leaves;
    struct hasher *hasher;
};

void batch_filler_init(struct batch_filler *b, struct journal *j);
void batch_filler_fini(struct batch_filler *b);

/* Fills the batch with the durable records from `first` on that have one epoch and fit, at least
 * one. The batch's lines are valid until the next call. ERR_END: none is durable yet.
 * ERR_NOT_FOUND: the journal does not have `first` any more. ERR_CORRUPT, ERR_IO: the journal
 * cannot be read. */
enum err batch_fill(struct batch_filler *b, uint64_t first, size_t bytes_max, uint64_t records_max,
                    struct batch *ret, struct fault *f);

/* Whether the record `seq` is of this epoch. ERR_NOT_FOUND: the journal does not have it any
 * more. */
enum err journal_epoch_check(struct journal *j, uint64_t seq, const char epoch[JOURNAL_EPOCH_TEXT],
                             bool *ret_same, struct fault *f);

#endif
