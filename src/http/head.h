/* head.h - the head of an HTTP/1 message: from bytes to views. The only door to llhttp.
 *
 * head_scan() finds where a head ends, as its bytes arrive, and refuses bare LF, obs-fold and
 * empty header names, which llhttp accepts. head_parse_request() and head_parse_answer() then
 * read a whole head in one go, so that no view ever spans two reads. Nothing is copied, nothing
 * is allocated, no I/O. Pure, any thread. */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include "base/fault.h"
#include "http/header.h"

/* The state of the scan of one head; zeroed before each head. */
struct head_scan {
    uint32_t line;  /* where the current line begins */
    uint32_t seen;  /* bytes looked at */
    uint32_t lines; /* whole lines so far */
};

enum head_state { SCAN_MORE, SCAN_WHOLE, SCAN_BAD };

/* `bytes` is the head from its first byte; the same bytes and more come with the next call. On
 * SCAN_WHOLE, *ret_size is the head's length with the empty line. */
enum head_state head_scan(struct head_scan *h, const char *bytes, size_t size, size_t *ret_size);

struct head {
    struct str method, target; /* of a request */
    int status;                /* of an answer */
    int minor;                 /* HTTP/1.x: 0 or 1 */
    bool keep_alive;           /* from the version and Connection */
    bool chunked;
    bool has_length;
    uint64_t length;                                   /* Content-Length, where has_length */
    struct str content_type, content_encoding, expect; /* absent where there is none */
    struct http_header fields[HTTP_HEADERS_MAX];
    size_t field_count;
};

/* ERR_BAD_REQUEST, ERR_BAD_HEADER (a header that has one value is given twice),
 * ERR_HEADERS_TOO_LARGE (more than HTTP_HEADERS_MAX), ERR_NOT_IMPLEMENTED (method or transfer
 * coding), ERR_VERSION_UNSUPPORTED; f has the details. The part that was
 * read before the fault is in *ret, for reports about it. */
enum err head_parse_request(const char *bytes, size_t size, struct head *ret, struct fault *f);

/* The same for an answer's head; ERR_BAD_REQUEST: not an HTTP answer. */
enum err head_parse_answer(const char *bytes, size_t size, struct head *ret, struct fault *f);

#endif
