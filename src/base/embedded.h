/* embedded.h - files that a program carries inside (cmake/embed.cmake makes the tables). Constant;
 * any thread. */
#ifndef BASE_EMBEDDED_H
#define BASE_EMBEDDED_H

#include "base/str.h"

/* NULL as the name: the end of a table. */
struct embedded {
    const char *name; /* "app.js" */
    const char *begin, *end, *gzip_begin, *gzip_end;
};

static inline struct str embedded_bytes(const struct embedded *e)
{
    return str_of(e->begin, (size_t)(e->end - e->begin));
}

static inline struct str embedded_gzip(const struct embedded *e)
{
    return str_of(e->gzip_begin, (size_t)(e->gzip_end - e->gzip_begin));
}

#endif
