/* stream_tree.h - the Merkle tree of this engine's stream, and its signed checkpoints
 * (schemas/evidence.md).
 *
 *   base ................ next - 1 | next          seq of the journal
 *   leaves, as the frontier        | to be appended
 *
 * The publisher appends each record before it is sent for the first time, in the journal's order.
 * The frontier is saved now and then. After a restart the publisher reads the records since then
 * again, from the journal (stream_tree_next). If they are not there, or the file is damaged, the
 * caller begins another tree: no checkpoint of the first is contradicted, since the base is a part
 * of a tree's name.
 *
 * The publisher's thread only, except for open. */
#ifndef PUBLISH_STREAM_TREE_H
#define PUBLISH_STREAM_TREE_H

#include "base/fault.h"
#include "evidence/merkle.h"
#include "evidence/run_mac.h"

struct stream_tree;

/* Reads (or makes) the key, and reads the state, in the directory `data`, which is copied. A damaged
 * state is logged. The errors of signing_key_open(). */
enum err stream_tree_open(const char *data, const char *node, struct stream_tree **ret,
                          struct fault *f);
/* The same key, and no file: the tree of another stream, whose state is kept elsewhere. There is none
 * before stream_tree_resume(). */
enum err stream_tree_open_unsaved(const char *data, const char *node, struct stream_tree **ret,
                                  struct fault *f);
void stream_tree_close(struct stream_tree *t); /* saves; NULL is permitted */

/* The record that comes next; 0: there is no tree. */
uint64_t stream_tree_next(const struct stream_tree *t);
void stream_tree_begin(struct stream_tree *t, uint64_t base);
/* Goes on with the record `next`; `frontier` is of all before it. */
void stream_tree_resume(struct stream_tree *t, uint64_t next, const struct frontier *frontier);

/* The epoch of its last record, RUN_EPOCH_BYTES; absent: it has none. */
struct str stream_tree_epoch(const struct stream_tree *t);

/* Appends the leaves of the records first_seq … that are not in the tree yet; first_seq is at most
 * stream_tree_next(). `epoch` is that of all, RUN_EPOCH_BYTES. Saves the state if the last time is a while ago. */
void stream_tree_append(struct stream_tree *t, struct str epoch, uint64_t first_seq,
                        const struct sha256 *leaves, uint64_t count);
/* The checkpoint of the tree as it is, valid until the next call with `t`. `from_seq` is where the
 * last append began. False: the library has no memory for the signature. */
bool stream_tree_sign(struct stream_tree *t, struct run_checkpoint *ret);

#endif
