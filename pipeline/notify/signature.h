/* signature.h - the signature of Standard Webhooks 1.0.0 (standardwebhooks.com): HMAC-SHA-256 over
 * "id.timestamp.body" in base64, under a secret that is written whsec_ and base64. Pure. */
#ifndef NOTIFY_SIGNATURE_H
#define NOTIFY_SIGNATURE_H

#include "base/buf.h"

/* A secret has this many bytes. */
enum { SIGNATURE_KEY_LEAST = 24, SIGNATURE_KEY_MOST = 64, SIGNATURE_SECRETS_MAX = 2 };

/* Whether the text has one or two secrets, with a blank between. */
bool signature_secrets_are_valid(struct str secrets);
/* Appends "v1,… v1,…", one for each secret; they are valid. */
void signature_put(struct buf *out, struct str secrets, struct str id, uint64_t timestamp_s,
                   struct str body);

#endif
