/* reply.h - a reply's bytes. Pure but for the clock behind Date. One thread. */
#ifndef HTTP_REPLY_H
#define HTTP_REPLY_H

#include "http/server.h"

enum { HTTP_DATE_BYTES = 37 }; /* "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n" */

/* Writes HTTP_DATE_BYTES bytes, no NUL. */
void reply_write_date(uint64_t ms, char *to);

enum persistence { PERSIST, PERSIST_SAID, PERSIST_NOT }; /* SAID: HTTP/1.0 needs the header */

/* reply_write() writes at most so many bytes. */
size_t reply_bytes_max(const struct http_reply *r);

/* The whole reply, or only its head; returns one past the last byte. `date` is a Date line. */
char *reply_write(const struct http_reply *r, bool head_only, enum persistence persistence,
                  const char date[HTTP_DATE_BYTES], char *to);

#endif
