/* consumer_store.h - the positions of the audit topic's readers, stored with the rows.
 *
 * Three tables: `consumers` (each platform, with the heartbeat that it raises), `offsets` (each
 * partition: the next offset to read, and the owner that reads it) and `replays` (streams with
 * missing records). Offsets move in the transaction of their rows, compared and set together with
 * the owner. So a platform that was thought dead and is alive cannot commit.
 *
 * Blocking; belongs to the thread of its store (a writer). */
#ifndef INGEST_CONSUMER_STORE_H
#define INGEST_CONSUMER_STORE_H

#include "pipeline/ingest/lease.h"
#include "store/store.h"

/* Raises l->me's heartbeat, fills in l's members and partitions, calls lease_decide(), and stores
 * the new owners of the partitions. One transaction of its own. Inserts missing partitions of 0 …
 * l->partition_count - 1. */
enum err consumer_store_heartbeat(struct store *s, struct str topic, struct lease *l,
                                  uint64_t monotonic_ms, uint64_t now_ms, struct fault *f);
/* Releases everything that `l` owns, and removes it from the consumers. */
enum err consumer_store_leave(struct store *s, struct str topic, struct lease *l, struct fault *f);

struct offset_move { /* of a partition that stands at `from` */
    uint32_t partition;
    uint64_t from, to;
};
/* Within a transaction. ERR_PRECONDITION_FAILED: `owner` does not own the partition any more, or it
 * does not stand at `from`. */
enum err consumer_store_move(struct store *s, struct str topic, struct str owner,
                             const struct offset_move *m, uint64_t now_ms, struct fault *f);
/* Within a transaction: records of the stream (its node and journal) from its next_seq on are
 * missing. *ret_asked: a replay was requested, because it is the first request, or the last one is
 * old. For a stream that does not exist it is not requested if its node has too many of these
 * (streams.h). `now_ms` is only for the request's number. */
enum err consumer_store_ask(struct store *s, const struct audit_stream *stream,
                            uint64_t monotonic_ms, uint64_t now_ms, bool *ret_asked,
                            struct fault *f);
/* Within a transaction: requests a replay of every known stream of this partition, from its
 * position. */
enum err consumer_store_ask_all(struct store *s, uint32_t partition, uint32_t partition_count,
                                uint64_t monotonic_ms, uint64_t now_ms, uint64_t *ret_asked,
                                struct fault *f);

#endif
