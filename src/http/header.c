/* header.c - finding a header. */
#include "http/header.h"

struct str http_header_find(const struct http_header *headers, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++)
        if (http_header_is(&headers[i], name)) return headers[i].value;
    return (struct str){0};
}
