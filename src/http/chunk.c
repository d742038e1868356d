/* chunk.c - the chunked coding's state machine.
 *
 *   SIZE -;-> EXTENSION -CR-> SIZE_LF -size>0-> DATA -> DATA_CR -> DATA_LF -> SIZE
 *     \-------CR------------/    \----size=0-> TRAILER -CR-> END_LF -> DONE
 *                                                ^ \--byte-> NAME -:-> VALUE -CR-> TRAILER_LF
 *                                                 \------------------------------------/
 *
 * llhttp could do this too, but accepts more than RFC 9112 does and would need a parser per
 * connection. */
#include "http/chunk.h"

#include "http/byte.h"

enum {
    SIZE,
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER,
    NAME,
    VALUE,
    TRAILER_LF,
    END_LF,
    DONE,

    LINE_MAX_BYTES = 256, /* of a size with its extensions: clients do not send any */
    TRAILERS_MAX_BYTES = 4096,
    DIGITS_MAX = 16,
};

static bool is_text(char c) { return c == '\t' || ((unsigned char)c >= 0x20 && c != 0x7f); }

/* The next state, or -1. */
static int size_byte(struct chunk_decoder *d, char c)
{
    int digit = hex_value(c);
    if (digit >= 0) {
        if (d->digits++ == DIGITS_MAX) return -1;
        d->left = d->left << 4 | (uint64_t)digit;
        return SIZE;
    }
    if (d->digits == 0) return -1;
    if (c == '\r') return SIZE_LF;
    return c == ';' ? EXTENSION : -1;
}

static int line_end(struct chunk_decoder *d, char c)
{
    if (c != '\n') return -1;
    d->overhead = 0;
    d->digits = 0;
    return d->left > 0 ? DATA : TRAILER;
}

static int framing_byte(struct chunk_decoder *d, char c)
{
    switch (d->state) {
    case SIZE: return size_byte(d, c);
    case EXTENSION: return c == '\r' ? SIZE_LF : is_text(c) ? EXTENSION : -1;
    case SIZE_LF: return line_end(d, c);
    case DATA_CR: return c == '\r' ? DATA_LF : -1;
    case DATA_LF: return c == '\n' ? SIZE : -1;
    case TRAILER: return c == '\r' ? END_LF : byte_is_token(c) ? NAME : -1;
    case NAME: return c == ':' ? VALUE : byte_is_token(c) ? NAME : -1;
    case VALUE: return c == '\r' ? TRAILER_LF : is_text(c) ? VALUE : -1;
    case TRAILER_LF: return c == '\n' ? TRAILER : -1;
    case END_LF: return c == '\n' ? DONE : -1;
    default: return -1;
    }
}

static void data_bytes(struct chunk_decoder *d, char *bytes, size_t *from, size_t size, size_t *to)
{
    size_t take = size - *from;
    if (take > d->left) take = (size_t)d->left;
    if (*to != *from) memmove(bytes + *to, bytes + *from, take);
    *to += take;
    *from += take;
    d->left -= take;
    if (d->left == 0) d->state = DATA_CR;
}

enum chunk chunk_decode(struct chunk_decoder *d, char *bytes, size_t *from, size_t size, size_t *to,
                        size_t limit)
{
    while (d->state != DONE) {
        if (*from == size) return CHUNK_MORE;
        if (d->state == DATA) {
            data_bytes(d, bytes, from, size, to);
            continue;
        }
        int next = framing_byte(d, bytes[*from]);
        if (next < 0) return CHUNK_BAD;
        d->state = (uint8_t)next;
        *from += 1;
        if (next == DATA && (*to > limit || d->left > limit - *to)) return CHUNK_TOO_LARGE;
        if (++d->overhead > (next >= TRAILER ? TRAILERS_MAX_BYTES : LINE_MAX_BYTES))
            return CHUNK_BAD;
    }
    return CHUNK_DONE;
}
