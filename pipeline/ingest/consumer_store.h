/* consumer_store.h - where readers of the audit topic stand, kept beside what they stored.
 *
 * Three tables: `consumers` (each platform, and a beat that it raises while it lives),
 * `offsets` (each partition: the next offset to read, and who reads it) and `replays`
 * (streams of which records are missing). Offsets move within the transaction of the rows
 * that they stand for, compared and set together with the owner: so a platform that was
 * thought dead and is not cannot commit.
 *
 * Blocking; belongs to the thread of its store (a writer). */
#ifndef INGEST_CONSUMER_STORE_H
#define INGEST_CONSUMER_STORE_H

#include "pipeline/ingest/lease.h"
#include "pipeline/ingest/store.h"

/* Raises l->me's beat, fills in l's members and partitions, lets lease_decide() look at them, and
 * writes down who owns which partition then. One transaction of its own. Partitions 0 …
 * l->partition_count - 1 are made where missing. */
enum err consumer_store_beat(struct store *s, struct str topic, struct lease *l,
                             uint64_t monotonic_ms, uint64_t now_ms, struct fault *f);
/* Gives up everything that `l` owns, and its place among the consumers. */
enum err consumer_store_leave(struct store *s, struct str topic, struct lease *l, struct fault *f);

struct offset_move { /* of a partition that stands at `from` */
    uint32_t partition;
    uint64_t from, to;
};
/* Within a transaction. ERR_PRECONDITION_FAILED: the partition is not `owner`'s any more, or
 * does not stand at `from`. */
enum err consumer_store_move(struct store *s, struct str topic, struct str owner,
                             const struct offset_move *m, uint64_t now_ms, struct fault *f);
/* Within a transaction: records of the stream (its node and journal) from its next_seq on are
 * missing. *ret_asked: that was news, or this store has known of it for so long that it is asked
 * again. `now_ms` is for the request's number alone. */
enum err consumer_store_ask(struct store *s, const struct audit_stream *stream,
                            uint64_t monotonic_ms, uint64_t now_ms, bool *ret_asked,
                            struct fault *f);
/* Within a transaction: asks for every known stream that goes to this partition, at its
 * position. */
enum err consumer_store_ask_all(struct store *s, uint32_t partition, uint32_t partition_count,
                                uint64_t monotonic_ms, uint64_t now_ms, uint64_t *ret_asked,
                                struct fault *f);

#endif
