/* merkle.h - Merkle trees over a list of leaves that only grows (RFC 6962, section 2.1; the
 * verification of proofs by RFC 9162, sections 2.1.3.2 and 2.1.4.2). The digest is SHA-256.
 *
 * A frontier is the state of a tree from which leaves were appended and forgotten: the roots of its
 * complete subtrees. Its root is that of the tree at this size. A proof maker gets all leaf hashes
 * of a tree once, in order, and keeps no more of them than a frontier does. So neither needs the
 * tree in memory.
 *
 * By value, without allocation. Pure; an object belongs to one thread, and so does the hasher that
 * its functions borrow. */
#ifndef EVIDENCE_MERKLE_H
#define EVIDENCE_MERKLE_H

#include "crypto/crypto.h"

enum {
    MERKLE_LEVELS = 64,
    MERKLE_PROOF_MAX = MERKLE_LEVELS + 1, /* hashes of one proof */
    FRONTIER_BYTES_MAX = 8 + MERKLE_LEVELS * SHA256_BYTES,
};

/* The hash of one leaf, of two subtrees, and the root of the empty tree. */
struct sha256 merkle_leaf(struct hasher *h, struct str bytes);
struct sha256 merkle_node(struct hasher *h, const struct sha256 *left, const struct sha256 *right);
struct sha256 merkle_empty(struct hasher *h);

static inline bool sha256_equal(const struct sha256 *a, const struct sha256 *b)
{
    return memcmp(a->bytes, b->bytes, SHA256_BYTES) == 0;
}

/* ---- the frontier ---- */

/* The zero value is the empty tree. */
struct frontier {
    uint64_t size; /* leaves; below 2^63 */
    struct sha256
        roots[MERKLE_LEVELS]; /* one for each set bit of size, the largest subtree first */
};

/* Two hashes for a leaf on average, at most one for each level. */
void frontier_append(struct frontier *f, struct hasher *h, const struct sha256 *leaf);
/* One hash for each set bit of the size, except for the first. */
struct sha256 frontier_root(const struct frontier *f, struct hasher *h);

/* As bytes: the size as 8 little-endian bytes, then the roots. Equal frontiers have equal bytes. */
void frontier_put(struct buf *out, const struct frontier *f);
/* False: the bytes are not what frontier_put() writes, by their number or by a size that is too
 * large. The hashes cannot be checked: compare the root. */
bool frontier_read(struct str bytes, struct frontier *ret);

/* ---- proofs ---- */

struct merkle_proof {
    size_t count;
    struct sha256 hashes[MERKLE_PROOF_MAX];
};

struct proof_range {
    uint64_t first, end; /* leaves */
    size_t place;        /* in the proof */
};

/* Makes one proof. Begin, then add the leaf hashes from the first to the last of the tree; the proof
 * is complete after `size` of them. */
struct proof_maker {
    struct merkle_proof proof;
    uint64_t size, added;
    struct proof_range ranges[MERKLE_PROOF_MAX]; /* by their leaves */
    size_t range;                                /* the one that is filled now */
    struct frontier filled;
};

/* That leaf `index` is in the tree of `size` leaves; index < size. */
void proof_begin_inclusion(struct proof_maker *m, uint64_t index, uint64_t size);
/* That the tree of `size` leaves begins with all of the tree of `old_size`; old_size <= size. */
void proof_begin_consistency(struct proof_maker *m, uint64_t old_size, uint64_t size);
/* Instead of adding the first leaves: a frontier of them, whose size is at most the index (of an
 * inclusion), or the old size. Right after begin. */
void proof_skip(struct proof_maker *m, struct hasher *h, const struct frontier *f);
void proof_add(struct proof_maker *m, struct hasher *h, const struct sha256 *leaf);
static inline bool proof_is_complete(const struct proof_maker *m) { return m->added == m->size; }

/* Whether the proof shows it. False for any index, size or number of hashes that cannot be. */
bool merkle_verify_inclusion(struct hasher *h, uint64_t index, uint64_t size,
                             const struct sha256 *leaf, const struct merkle_proof *p,
                             const struct sha256 *root);
/* From the empty tree to any other the proof is empty, and the old root must be merkle_empty(). */
bool merkle_verify_consistency(struct hasher *h, uint64_t old_size, uint64_t size,
                               const struct sha256 *old_root, const struct merkle_proof *p,
                               const struct sha256 *root);

#endif
