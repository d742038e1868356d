/* decoder.h - the events of a batch, decoded on another thread while the store takes the ones
 * before; inside this room only.
 *
 * To read an event costs as much as to store it. So a batch is decoded in chunks, a few ahead of
 * who stores them; the store's own waiting (for a disk, for a server) is then time in which the
 * next ones are read. A batch of a few lines is decoded where it is: waking a thread costs more.
 *
 *   decoder_begin → (decoder_next …)* → decoder_end
 *
 * One user, one thread behind it, which is made with the first batch that needs it. */
#ifndef INGEST_DECODER_H
#define INGEST_DECODER_H

#include "event/event.h"

enum { DECODED_MAX = 128 };

struct decoded {
    struct str line;
    bool is_valid; /* else event is not filled */
    struct event event;
};

struct decoder;

struct decoder *decoder_create(void);
void decoder_destroy(struct decoder *d); /* NULL is taken */

/* `lines`: borrowed until decoder_end(). */
void decoder_begin(struct decoder *d, struct str lines);
/* The next ones, in order, valid until the next call; 0: that was all. */
size_t decoder_next(struct decoder *d, const struct decoded **ret);
void decoder_end(struct decoder *d); /* also in the middle */

#endif
