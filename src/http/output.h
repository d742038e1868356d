/* output.h - what a connection has still to send, and the gates that keep it back.
 *
 *   bytes[from .. to):  | open: may be sent | behind gate 1 | behind gate 2 | …
 *
 * A gate stands at an offset of the stream; what follows it waits until its lane's mark is
 * reached, and gates open in order. Pure but for the pool; owned by one thread. */
#ifndef HTTP_OUTPUT_H
#define HTTP_OUTPUT_H

#include "base/str.h"
#include "http/pool.h"
#include "http/server.h"

enum { OUTPUT_GATES = 16, HTTP_LANES = 2 };

struct output_gate {
    uint64_t mark;
    uint64_t offset; /* of the stream's byte that it holds back */
    uint32_t lane;
    uint32_t replies; /* behind it, before the next gate */
};

struct output {
    char *bytes;
    size_t capacity, from, to;
    uint64_t sent; /* the stream's offset of bytes[from] */
    uint32_t gate_first, gate_count;
    struct output_gate gates[OUTPUT_GATES];
};

static inline size_t output_pending(const struct output *o) { return o->to - o->from; }

static inline const struct output_gate *output_gate(const struct output *o)
{
    return o->gate_count == 0 ? NULL : &o->gates[o->gate_first];
}

/* How many bytes may be sent now, from o->bytes + o->from. */
static inline size_t output_open(const struct output *o)
{
    const struct output_gate *gate = output_gate(o);
    return gate == NULL ? output_pending(o) : (size_t)(gate->offset - o->sent);
}

/* Whether one more gate certainly has a place. */
static inline bool output_has_gate_room(const struct output *o)
{
    return o->gate_count < OUTPUT_GATES;
}

/* Place for `size` more bytes, to be written at once and then counted with output_wrote(). NULL:
 * out of memory. */
char *output_room(struct output *o, struct pool *pool, size_t size);
static inline void output_wrote(struct output *o, size_t size) { o->to += size; }

/* Before a reply is appended: the gate it waits for (lane 0 or a mark already reached: none of
 * its own). True where it waits, be it for an earlier gate. */
bool output_wait(struct output *o, struct http_gate gate, const uint64_t reached[HTTP_LANES]);

/* Opens what may be opened; the number of replies set free. */
uint32_t output_release(struct output *o, const uint64_t reached[HTTP_LANES]);

/* `size` bytes were sent. An empty output gives its buffer back. */
void output_sent(struct output *o, struct pool *pool, size_t size);

void output_fini(struct output *o, struct pool *pool);

#endif
