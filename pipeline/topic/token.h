/* token.h - the bearer token that brokers are given (SASL OAUTHBEARER, RFC 7628), as a file has it.
 *
 * Somebody else renews the file (a sidecar, an agent of the cloud), best by renaming; it
 * is read anew whenever a token is needed. What is in it must be a JWT in its compact
 * form (RFC 7519, RFC 7515):
 *
 *   text = header "." payload "." signature      base64url without padding; an unsecured one has no signature
 *
 * Only the payload is looked into, and only for what the client library has to know: `exp` (needed)
 * and `sub`. Whether the token is a good one is for the brokers to say. Nothing of a token but the
 * time that it expired at enters a fault. Reading blocks; any thread. */
#ifndef TOPIC_TOKEN_H
#define TOPIC_TOKEN_H

#include "base/fault.h"

enum {
    TOPIC_TOKEN_MAX = 16 << 10, /* bytes of text; one with a hundred groups and roles has 8 KiB */
    TOPIC_PRINCIPAL_MAX = 256,
};

struct topic_token {
    int64_t expires_ms; /* since 1970 UTC, at most the end of the year 9999 */
    /* `sub`; "-" where there is none that can be shown on one line */
    char principal[TOPIC_PRINCIPAL_MAX + 1];
    char text[TOPIC_TOKEN_MAX + 1]; /* secret */
};

/* Pure. NULL and *ret, or what is wrong as a phrase ("is no JWT: …"), and *ret is wiped. */
const char *topic_token_parse(struct str text, struct topic_token *ret);

/* The same of a file, less the end of its line. ERR_NOT_FOUND (cannot be read), ERR_BAD_VALUE (no
 * token, or one that has expired): *f names kafka.token_file and the file; *ret is wiped. */
enum err topic_token_read(const char *path, uint64_t now_ms, struct topic_token *ret,
                          struct fault *f);

void topic_token_wipe(struct topic_token *t);

#endif
