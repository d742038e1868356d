/* secret.h - a secret in a file of its own: a password, a token, an API key.
 *
 * Code that uses a secret reads it at each login, so that a new one needs no restart, and wipes
 * it afterwards. Blocking; any thread. */
#ifndef CRYPTO_SECRET_H
#define CRYPTO_SECRET_H

#include "base/fault.h"

/* The content of a file without the end of its line: one line of 1 to capacity - 2 bytes without
 * a NUL, and a NUL after them. A regular file of our own user is refused if its group or others
 * may read or write it. ERR_NOT_FOUND, ERR_BAD_VALUE: *f names `option` and the path, but has
 * none of the content, and `to` is wiped. */
enum err secret_read(const char *option, const char *path, char *to, size_t capacity,
                     size_t *ret_size, struct fault *f);

#endif
