/* buf.h - a bounded byte buffer for writing.
 *
 * Appending past the bound sets `overflow`, which stays set: a long chain of puts checks once at
 * its end. A buf over caller's memory (buf_over) never moves; a growing one (buf_init) owns heap
 * memory, doubles up to its limit and moves. Owned by one thread. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/str.h"

struct buf {
    char *bytes;
    size_t size; /* bytes written */
    size_t capacity;
    size_t limit; /* bytes that it may grow to; 0 = over the caller's memory, never grows */
    bool overflow;
    bool starved; /* overflow because the system had no memory, not because of the limit */
};

static inline struct buf buf_over(char *bytes, size_t capacity)
{
    return (struct buf){.bytes = bytes, .capacity = capacity};
}

/* Without memory for `first_bytes` it has overflowed. */
void buf_init(struct buf *b, size_t first_bytes, size_t limit_bytes);
void buf_fini(struct buf *b); /* only after buf_init; accepts a zeroed one */
static inline void buf_clear(struct buf *b)
{
    b->size = 0;
    b->overflow = b->starved = false;
}

static inline struct str buf_view(const struct buf *b) { return str_of(b->bytes, b->size); }

/* Makes room for `more` bytes; false and b->overflow if the limit forbids it, or (b->starved)
 * the system has no memory. */
bool buf_grow(struct buf *b, size_t more);

static inline bool buf_room(struct buf *b, size_t more)
{
    if (__builtin_expect(b->capacity - b->size >= more && !b->overflow, 1)) return true;
    return buf_grow(b, more);
}

/* memcpy for the short texts that records and answers are made of: the size is not a constant,
 * and a library call would cost more than the copy. Runs of 16, 8 or 4 bytes from the front and
 * from the end, which meet or overlap in the middle. Returns the position after the copy. */
static inline char *buf_copy(char *to, const char *from, size_t size)
{
    if (size >= 16) {
        if (size > 64) return (char *)memcpy(to, from, size) + size;
        if (size > 32) {
            memcpy(to + 16, from + 16, 16);
            memcpy(to + size - 32, from + size - 32, 16);
        }
        memcpy(to, from, 16);
        memcpy(to + size - 16, from + size - 16, 16);
    } else if (size >= 8) {
        memcpy(to, from, 8);
        memcpy(to + size - 8, from + size - 8, 8);
    } else if (size >= 4) {
        memcpy(to, from, 4);
        memcpy(to + size - 4, from + size - 4, 4);
    } else if (size > 0) {
        to[0] = from[0];
        to[size / 2] = from[size / 2];
        to[size - 1] = from[size - 1];
    }
    return to + size;
}

static inline void buf_put(struct buf *b, struct str s)
{
    if (s.size == 0 || !buf_room(b, s.size)) return;
    memcpy(b->bytes + b->size, s.bytes, s.size);
    b->size += s.size;
}

/* Both, or, if there is no room for both, neither. */
static inline void buf_put_both(struct buf *b, struct str first, struct str second)
{
    if (!buf_room(b, first.size + second.size)) return;
    buf_copy(buf_copy(b->bytes + b->size, first.bytes, first.size), second.bytes, second.size);
    b->size += first.size + second.size;
}

static inline void buf_put_byte(struct buf *b, char byte)
{
    if (!buf_room(b, 1)) return;
    b->bytes[b->size++] = byte;
}

#define buf_put_literal(b, literal) buf_put((b), STR(literal))

void buf_put_u64(struct buf *b, uint64_t value);                    /* decimal */
void buf_put_hex(struct buf *b, const uint8_t *bytes, size_t size); /* lowercase */
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
