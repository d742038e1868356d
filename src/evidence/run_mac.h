/* run_mac.h - the MAC of records on their way from an engine to a platform (schemas/evidence.md).
 *
 * A run is successive records of one epoch: the body of one request, or one message of the topic.
 * Its MAC has a key that only programs with the pepper can derive, one for each stream. Pure; the
 * hasher that a function borrows belongs to one thread. */
#ifndef EVIDENCE_RUN_MAC_H
#define EVIDENCE_RUN_MAC_H

#include "crypto/crypto.h"

enum { RUN_EPOCH_BYTES = 16 };

/* The checkpoint that travels with a run: the texts of its headers. Absent: none. */
struct run_checkpoint {
    uint64_t from_seq; /* `frontier` is of the records below it; 0: no checkpoint */
    struct str note, frontier;
};

struct run {
    struct str epoch; /* RUN_EPOCH_BYTES */
    uint64_t first_seq, count;
    const struct sha256 *leaves; /* of each record, in order (merkle_leaf) */
    struct run_checkpoint checkpoint;
};

/* The label for pepper_derive() of the key that all streams' keys are made of. */
#define RUN_KEY_LABEL "writ records of engines 1"
/* The key of one stream, and the same for many MACs. */
struct sha256 run_key(const struct sha256 *of_all, struct str node, struct str journal);
struct hmac_key run_key_prepare(struct hasher *h, const struct sha256 *key);
struct sha256 run_mac(struct hasher *h, const struct hmac_key *key, const struct run *r);

#endif
