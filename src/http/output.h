/* output.h - the output of a connection, and the barriers that hold it back.
 *
 *   bytes[from .. to):  | open: may be sent | behind barrier 1 | behind barrier 2 | …
 *
 * A barrier stands at an offset of the stream. The bytes after it wait until its block has the
 * durability that the barrier asks for. Barriers open in order. Pure but for the pool; owned by
 * one thread. */
#ifndef HTTP_OUTPUT_H
#define HTTP_OUTPUT_H

#include "base/str.h"
#include "http/pool.h"
#include "http/server.h"

enum { OUTPUT_BARRIERS = 16, HTTP_LANES = 3 };

struct output_barrier {
    uint64_t block;
    uint64_t offset; /* stream offset of the first byte that it holds back */
    uint32_t lane;
    uint32_t replies; /* behind it, before the next barrier */
};

struct output {
    char *bytes;
    size_t capacity, from, to;
    uint64_t sent; /* the stream's offset of bytes[from] */
    uint32_t barrier_first, barrier_count;
    struct output_barrier barriers[OUTPUT_BARRIERS];
};

static inline size_t output_pending(const struct output *o) { return o->to - o->from; }

static inline const struct output_barrier *output_barrier(const struct output *o)
{
    return o->barrier_count == 0 ? NULL : &o->barriers[o->barrier_first];
}

/* The number of bytes that may be sent now, from o->bytes + o->from. */
static inline size_t output_open(const struct output *o)
{
    const struct output_barrier *barrier = output_barrier(o);
    return barrier == NULL ? output_pending(o) : (size_t)(barrier->offset - o->sent);
}

/* Whether there certainly is room for one more barrier. */
static inline bool output_has_barrier_room(const struct output *o)
{
    return o->barrier_count < OUTPUT_BARRIERS;
}

/* Room for `size` more bytes, to be written at once and then counted with output_wrote(). NULL:
 * out of memory. */
char *output_room(struct output *o, struct pool *pool, size_t size);
static inline void output_wrote(struct output *o, size_t size) { o->to += size; }

/* Before a reply is appended: the barrier that it waits for (lane 0, or a block that is already
 * reached: no barrier). True: the reply waits, perhaps for an earlier barrier. */
bool output_wait(struct output *o, struct http_barrier barrier, const uint64_t reached[HTTP_LANES]);

/* Opens the barriers whose blocks are reached; returns the number of replies that may leave. */
uint32_t output_release(struct output *o, const uint64_t reached[HTTP_LANES]);

/* Drops what is behind the first barrier, and all barriers; returns the number of replies that were
 * behind them. */
uint32_t output_cut(struct output *o);

/* `size` bytes were sent. An empty output returns its buffer to the pool. */
void output_sent(struct output *o, struct pool *pool, size_t size);

void output_fini(struct output *o, struct pool *pool);

#endif
