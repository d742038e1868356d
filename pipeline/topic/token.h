/* token.h - the bearer token for the brokers (SASL OAUTHBEARER, RFC 7628), read from a file.
 *
 * Another program renews the file (a sidecar, an agent of the cloud), preferably by renaming. The
 * file is read again whenever a token is needed. It must contain a JWT in its compact form (RFC
 * 7519, RFC 7515):
 *
 *   text = header "." payload "." signature      base64url without padding; an unsecured one has no
 *                                                signature
 *
 * Only the payload is read, and of it only the members that the client library needs: `exp`
 * (required) and `sub`. The brokers decide whether the token is valid. Of a token only its expiry
 * time enters a fault. Reading blocks; any thread. */
#ifndef TOPIC_TOKEN_H
#define TOPIC_TOKEN_H

#include "base/fault.h"

enum {
    /* bytes of text; a token with a hundred groups and roles has 8 KiB */
    TOPIC_TOKEN_MAX = 16 << 10,
    TOPIC_PRINCIPAL_MAX = 256,
};

struct topic_token {
    int64_t expires_ms; /* since 1970 UTC, at most the end of the year 9999 */
    /* `sub`; "-": there is none that can be printed on one line. */
    char principal[TOPIC_PRINCIPAL_MAX + 1];
    char text[TOPIC_TOKEN_MAX + 1]; /* secret */
};

/* Pure. Returns NULL and fills *ret, or returns the error as a phrase ("is not a JWT: …") and wipes
 * *ret. */
const char *topic_token_parse(struct str text, struct topic_token *ret);

/* The same for a file, without the end of its line. ERR_NOT_FOUND (cannot be read), ERR_BAD_VALUE
 * (not a token, or an expired one): *f names kafka.token_file and the file; *ret is wiped. */
enum err topic_token_read(const char *path, uint64_t now_ms, struct topic_token *ret,
                          struct fault *f);

void topic_token_wipe(struct topic_token *t);

#endif
