/* byte.h - classes of bytes in HTTP. Pure, any thread. */
#ifndef HTTP_BYTE_H
#define HTTP_BYTE_H

#include <stdbool.h>
#include <string.h>

/* The bytes of methods and header names (tchar, RFC 9110, 5.6.2). */
static inline bool byte_is_token(char c)
{
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
    return c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

#endif
