#include "evidence/origin.h"

#include <string.h>

static bool is_plain(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != '\0' && strchr("-._~", c) != NULL);
}

static void put_encoded(struct buf *out, struct str name)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < name.size; i++) {
        unsigned char byte = (unsigned char)name.bytes[i];
        if (is_plain(name.bytes[i])) {
            buf_put_byte(out, name.bytes[i]);
            continue;
        }
        const char encoded[] = {'%', digits[byte >> 4], digits[byte & 15]};
        buf_put(out, str_of(encoded, sizeof encoded));
    }
}

void origin_put_stream(struct buf *out, struct str node, struct str journal)
{
    buf_put_literal(out, "writ/");
    put_encoded(out, node);
    buf_put_byte(out, '/');
    put_encoded(out, journal);
}

void origin_put_tree(struct buf *out, struct str node, struct str journal, uint64_t base)
{
    origin_put_stream(out, node, journal);
    buf_put_byte(out, '/');
    buf_put_u64(out, base);
}
