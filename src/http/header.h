/* header.h - one HTTP header field, as a view. For server and client alike. Pure, any thread. */
#ifndef HTTP_HEADER_H
#define HTTP_HEADER_H

#include "base/str.h"

enum { HTTP_HEADERS_MAX = 64 };

struct http_header {
    struct str name, value; /* value without surrounding blanks */
};

/* Whether the header has that name, in any case. Length and first letter distinguish most names. */
static inline bool http_header_is(const struct http_header *h, struct str name)
{
    return h->name.size == name.size && name.size > 0 &&
           ((h->name.bytes[0] ^ name.bytes[0]) | 0x20) == 0x20 &&
           str_equal_ignoring_case(h->name, name);
}

/* One of 64 bits, the same for all spellings of a name. A set of these bits shows for most names
 * that no header has them. `name` is not empty. */
static inline uint64_t http_header_bit(struct str name)
{
    return UINT64_C(1) << ((name.size + 7 * (size_t)(name.bytes[0] | 0x20)) % 64);
}

/* The value of the first header of that name (any case), or absent. */
struct str http_header_find(const struct http_header *headers, size_t count, struct str name);

#endif
