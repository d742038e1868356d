/* origin.h - the names of streams and trees in signed notes (schemas/evidence.md). Pure. */
#ifndef EVIDENCE_ORIGIN_H
#define EVIDENCE_ORIGIN_H

#include "base/buf.h"

/* Node and journal have at most 256 bytes; each byte may become three. */
enum { ORIGIN_BYTES_MAX = 5 + 2 * (3 * 256 + 1) + 20 };

/* Appends writ/NODE/JOURNAL, percent-encoded. */
void origin_put_stream(struct buf *out, struct str node, struct str journal);
/* The same, with /BASE. */
void origin_put_tree(struct buf *out, struct str node, struct str journal, uint64_t base);

#endif
