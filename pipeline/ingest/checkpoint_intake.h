/* checkpoint_intake.h - the signed checkpoint that came with a run of records, into the store
 * (schemas/evidence.md); inside this room only. */
#ifndef INGEST_CHECKPOINT_INTAKE_H
#define INGEST_CHECKPOINT_INTAKE_H

#include "pipeline/ingest/stream.h"

/* Within the transaction of the run, whose last record is `end_seq`: stores batch->checkpoint, and
 * counts it in *ret. One that is refused is logged, and is no error. */
enum err checkpoint_take(struct store *s, const struct ingest_batch *batch, uint64_t end_seq,
                         struct ingest_result *ret, struct fault *f);

#endif
