/* save.h - the head of a saved entry; for this room only.
 *
 *   object (1 byte), slot (2), size of the key (2), key, then the table's own body */
#ifndef SHARDS_SAVE_H
#define SHARDS_SAVE_H

#include "base/buf.h"
#include "shards/keeping.h"

enum {
    SAVE_HEAD_BYTES = 5,
    SAVE_ENTRY_BYTES_MAX = 1 << 20, /* a review with its item, its redemption, 64 votes and 256 trace ids */
};

/* Clears `out` and puts the head; the body follows. */
void save_begin(struct buf *out, enum shard_object object, unsigned slot, struct str key);
/* False: damaged. Views into the entry. */
bool save_read(struct str entry, struct shard_entry *ret, struct str *ret_body);

#endif
