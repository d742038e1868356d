/* buf.h - a bounded byte buffer for writing.
 *
 * Appending past the bound sets `overflow`, which sticks: a long chain of puts asks once at its
 * end. A buf over caller's memory (buf_over) never moves; a growing one (buf_init) owns heap
 * memory, doubles up to its limit and moves. Owned by one thread. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/str.h"

struct buf {
    char *bytes;
    size_t size;     /* bytes written */
    size_t capacity; /* bytes held */
    size_t limit;    /* bytes it may grow to; 0 = over the caller's memory, never grows */
    bool overflow;
};

static inline struct buf buf_over(char *bytes, size_t capacity)
{
    return (struct buf){.bytes = bytes, .capacity = capacity};
}

void buf_init(struct buf *b, size_t first_bytes, size_t limit_bytes);
void buf_fini(struct buf *b); /* only after buf_init; accepts a zeroed one */
static inline void buf_clear(struct buf *b)
{
    b->size = 0;
    b->overflow = false;
}

static inline struct str buf_view(const struct buf *b) { return str_of(b->bytes, b->size); }

/* Makes room for `more` bytes; false and b->overflow where the bound forbids it. */
bool buf_grow(struct buf *b, size_t more);

static inline bool buf_room(struct buf *b, size_t more)
{
    if (__builtin_expect(b->capacity - b->size >= more && !b->overflow, 1)) return true;
    return buf_grow(b, more);
}

static inline void buf_put(struct buf *b, struct str s)
{
    if (s.size == 0 || !buf_room(b, s.size)) return;
    memcpy(b->bytes + b->size, s.bytes, s.size);
    b->size += s.size;
}

static inline void buf_put_byte(struct buf *b, char byte)
{
    if (!buf_room(b, 1)) return;
    b->bytes[b->size++] = byte;
}

#define buf_put_literal(b, literal) buf_put((b), STR(literal))

void buf_put_u64(struct buf *b, uint64_t value); /* decimal */
void buf_put_hex(struct buf *b, const uint8_t *bytes, size_t size); /* lowercase */
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_drop(struct buf *b, size_t from_front); /* moves the rest to the front */

#endif
