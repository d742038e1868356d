/* intake.h - stores some messages in one transaction; inside this room only. */
#ifndef INGEST_INTAKE_H
#define INGEST_INTAKE_H

#include "base/buf.h"
#include "base/log_rate.h"
#include "metrics/metrics.h"
#include "pipeline/ingest/consume.h"
#include "pipeline/ingest/consumer_store.h"
#include "store/store.h"

struct message_intake {
    struct store *store; /* borrowed */
    struct str topic;
    struct str owner;
    struct metrics_sheet *sheet;
    struct buf run; /* the lines of the current run */
    struct log_rate gaps_logged, poison_logged;
};

struct message_batch {
    const struct message *messages; /* all are records, of partitions in `moves` */
    size_t count;
    const struct offset_move *moves;
    size_t move_count;
};

/* Stores the messages and moves the offsets: all or nothing. ERR_PRECONDITION_FAILED: the owner has
 * lost the partition *ret_lost. */
enum err message_intake_store(struct message_intake *in, const struct message_batch *batch,
                              uint64_t now_ms, uint32_t *ret_lost, struct fault *f);

#endif
