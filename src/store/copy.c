#include "store/copy.h"

static void put_big(struct buf *b, uint64_t value, size_t size)
{
    uint64_t big = __builtin_bswap64(value);
    buf_put(b, str_of((const char *)&big + sizeof big - size, size));
}

void copy_begin(struct buf *b)
{
    static const char signature[] = "PGCOPY\n\377\r\n"; /* its NUL belongs to the signature */
    buf_put(b, str_of(signature, sizeof signature));
    put_big(b, 0, 8);
}

void copy_row(struct buf *b, unsigned columns) { put_big(b, columns, 2); }

void copy_null(struct buf *b) { put_big(b, UINT32_MAX, 4); }

void copy_text(struct buf *b, struct str text)
{
    if (str_is_absent(text)) {
        copy_null(b);
        return;
    }
    put_big(b, text.size, 4);
    buf_put(b, text);
}

void copy_bigint(struct buf *b, uint64_t value)
{
    put_big(b, 8, 4);
    put_big(b, value, 8);
}

void copy_end(struct buf *b) { put_big(b, UINT16_MAX, 2); }

/* ---- arrays ---- */

static void array_next(struct buf *b) { buf_put_byte(b, b->size == 0 ? '{' : ','); }

void array_put_number(struct buf *b, int64_t value)
{
    array_next(b);
    if (value < 0) buf_put_byte(b, '-');
    buf_put_u64(b, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void array_put_text(struct buf *b, struct str text)
{
    array_next(b);
    buf_put_byte(b, '"');
    for (size_t i = 0; i < text.size; i++) {
        if (text.bytes[i] == '"' || text.bytes[i] == '\\') buf_put_byte(b, '\\');
        buf_put_byte(b, text.bytes[i]);
    }
    buf_put_byte(b, '"');
}
