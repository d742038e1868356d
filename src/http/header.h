/* header.h - one HTTP header field, as a view. For server and client alike. Pure, any thread. */
#ifndef HTTP_HEADER_H
#define HTTP_HEADER_H

#include "base/str.h"

enum { HTTP_HEADERS_MAX = 64 };

struct http_header {
    struct str name, value; /* value without surrounding blanks */
};

/* The value of the first header of that name (any case), or absent. */
struct str http_header_find(const struct http_header *headers, size_t count, struct str name);

#endif
