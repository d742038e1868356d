/* signing_key.h - the key with which a program signs evidence, in its data directory.
 *
 *   NAME.key   the secret: 64 hex digits, mode 0600
 *   NAME.pub   the public key: base64, for `writ engine trust`
 *
 * The engine's are engine/evidence below its data, the platform's are platform-evidence in its data.
 *
 * Blocking; any thread. */
#ifndef EVIDENCE_SIGNING_KEY_H
#define EVIDENCE_SIGNING_KEY_H

#include "base/fault.h"
#include "crypto/crypto.h"

/* Reads the key. If there is none, it is made. ERR_BAD_VALUE: the file holds no key, or is open to
 * others. ERR_IO: it cannot be made. The caller owns *ret. */
enum err signing_key_open(const char *data, const char *name, struct ed25519 **ret,
                          struct fault *f);

#endif
