/* chunk.h - decodes a chunked body (RFC 9112 7.1) in place.
 *
 *   chunk   = size [";" extension] CRLF, size bytes, CRLF
 *   body    = chunk*, "0" [";" extension] CRLF, (trailer CRLF)*, CRLF
 *
 * Strict: a CR or `;` directly after the hexadecimal digits, CRLF everywhere, no obs-fold in
 * trailers. Extensions and trailers are checked and dropped, and bounded. A pure state machine:
 * bytes may come in any pieces. */
#ifndef HTTP_CHUNK_H
#define HTTP_CHUNK_H

#include "base/str.h"

struct chunk_decoder {
    uint64_t left;     /* of this chunk's size */
    uint32_t overhead; /* bytes of the current line, or of the trailers */
    uint8_t state;     /* zero at the start */
    uint8_t digits;
};

enum chunk { CHUNK_MORE, CHUNK_DONE, CHUNK_BAD, CHUNK_TOO_LARGE };

/* Reads bytes[*from .. size) and appends the decoded data at bytes[*to]; *to <= *from. Both
 * advance. CHUNK_TOO_LARGE as soon as a chunk's size would move *to past `limit`. */
enum chunk chunk_decode(struct chunk_decoder *d, char *bytes, size_t *from, size_t size, size_t *to,
                        size_t limit);

#endif
