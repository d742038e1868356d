/* base64.h - base64 with padding (RFC 4648, section 4), as mail, Standard Webhooks and signed notes write it.
 * Pure. */
#ifndef CRYPTO_BASE64_H
#define CRYPTO_BASE64_H

#include "base/buf.h"

/* With a CRLF after each `line` digits (a multiple of 4; 0: no lines). */
void base64_put(struct buf *out, struct str bytes, size_t line);
/* False: a foreign character, wrong padding, or bits beyond the last byte. `to` holds
 * text.size / 4 * 3 bytes. */
bool base64_read(struct str text, uint8_t *to, size_t *ret_size);

#endif
