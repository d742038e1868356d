/* decoder.h - decodes the events of a batch, and hashes its lines, on another thread while the store
 * takes the previous ones; inside this room only.
 *
 * To decode an event costs as much as to store it. So a batch is decoded in chunks, a few ahead of
 * the store. The next events are decoded while the store waits (for a disk, for a server). A batch
 * of a few lines is decoded on the caller's thread, because waking a thread costs more.
 *
 *   decoder_begin → (decoder_next …)* → decoder_end
 *
 * One user, and one thread, which starts with the first batch that needs it. */
#ifndef STORE_DECODER_H
#define STORE_DECODER_H

#include "crypto/crypto.h"
#include "event/event.h"

enum { DECODED_MAX = 128 };

struct decoded {
    struct str line;
    bool is_valid; /* false: event is not filled */
    struct event event;
    struct sha256 leaf; /* if the batch is hashed (merkle_leaf) */
};

struct decoder;

struct decoder *decoder_create(void);
void decoder_destroy(struct decoder *d); /* NULL is permitted */

/* `lines`: borrowed until decoder_end(). */
void decoder_begin(struct decoder *d, struct str lines, bool hashes);
/* The next events, in order, valid until the next call; 0: no more. */
size_t decoder_next(struct decoder *d, const struct decoded **ret);
void decoder_end(struct decoder *d); /* also before the end of the batch */

#endif
