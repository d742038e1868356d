/* secret.h - a secret that stands alone in a file: a password, a token, an API key.
 *
 * Whoever uses one reads it each time it logs in, so that a new one needs no restart, and wipes
 * it. Blocking; any thread. */
#ifndef CRYPTO_SECRET_H
#define CRYPTO_SECRET_H

#include "base/fault.h"

/* What a file holds, less the end of its line: one line of 1 to capacity - 2 bytes without a NUL,
 * and a NUL behind them. A regular file of our own user is refused where its group or others may read or
 * write it. ERR_NOT_FOUND, ERR_BAD_VALUE: `option` and the path are named in *f, nothing of what it
 * holds; and nothing of it stays in `to`. */
enum err secret_read(const char *option, const char *path, char *to, size_t capacity,
                     size_t *ret_size, struct fault *f);

#endif
