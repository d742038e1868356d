#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/reserve.h"

void buf_init(struct buf *b, size_t first_bytes, size_t limit_bytes)
{
    check(limit_bytes > 0 && first_bytes <= limit_bytes);
    *b = (struct buf){.limit = limit_bytes};
    if (first_bytes > 0) (void)buf_grow(b, first_bytes);
}

void buf_fini(struct buf *b)
{
    free(b->bytes);
    *b = (struct buf){0};
}

bool buf_grow(struct buf *b, size_t more)
{
    if (b->overflow || b->limit == 0 || more > b->limit - b->size) {
        b->overflow = true;
        return false;
    }
    size_t wanted = b->capacity == 0 ? 256 : b->capacity * 2;
    if (wanted < b->size + more) wanted = b->size + more;
    if (wanted > b->limit) wanted = b->limit;
    char *bytes = realloc(b->bytes, wanted);
    if (bytes == NULL) {
        memory_was_missing();
        b->overflow = b->starved = true;
        return false;
    }
    b->bytes = bytes;
    b->capacity = wanted;
    return true;
}

void buf_put_u64(struct buf *b, uint64_t value)
{
    char digits[U64_DIGITS];
    buf_put(b, str_of_u64(value, digits));
}

void buf_put_hex(struct buf *b, const uint8_t *bytes, size_t size)
{
    if (!buf_room(b, size * 2)) return;
    hex_write(b->bytes + b->size, bytes, size);
    b->size += size * 2;
}

void buf_printf(struct buf *b, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    /* One byte more than is kept, because vsnprintf writes a NUL at the end. */
    if (length < 0)
        b->overflow = true;
    else if (buf_room(b, (size_t)length + 1)) {
        vsnprintf(b->bytes + b->size, (size_t)length + 1, format, again);
        b->size += (size_t)length;
    }
    va_end(again);
}
