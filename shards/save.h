/* save.h - the head of a saved entry; for this room only.
 *
 *   object (1 byte), slot (2), size of the key (2), key, then the table's own body */
#ifndef SHARDS_SAVE_H
#define SHARDS_SAVE_H

#include "base/buf.h"
#include "shards/serialize.h"

/* Clears `out` and puts the head; the body follows. */
void save_begin(struct buf *out, enum shard_object object, unsigned slot, struct str key);

#endif
