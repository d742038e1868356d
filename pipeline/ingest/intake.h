/* intake.h - a handful of messages into the store, in one transaction; inside this room only. */
#ifndef INGEST_INTAKE_H
#define INGEST_INTAKE_H

#include "base/buf.h"
#include "metrics/metrics.h"
#include "pipeline/ingest/consume.h"
#include "pipeline/ingest/lease.h"
#include "pipeline/ingest/store.h"

struct intake_step { /* of one partition, within this handful */
    uint32_t partition;
    uint64_t from, to;
};

struct message_intake {
    struct store *store; /* borrowed */
    struct str topic;
    struct str owner;
    struct metrics_sheet *sheet;
    struct buf run; /* the lines of the run in hand */
};

/* Stores messages (records all, of partitions in `steps`) and moves the offsets by `steps`. All or
 * nothing. ERR_PRECONDITION_FAILED: *ret_lost is a partition that is not the owner's any more. */
enum err message_intake_store(struct message_intake *in, const struct message *messages, size_t count,
                              const struct intake_step *steps, size_t step_count, uint64_t now_ms, uint32_t *ret_lost,
                              struct fault *f);

#endif
