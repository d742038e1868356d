/* claims.h - the claims of a token that was verified: for which client, by which issuer, until when
 * (OpenID Connect Core 1.0, 3.1.3.7; RFC 7519; RFC 9068). Pure, any thread. */
#ifndef OIDC_CLAIMS_H
#define OIDC_CLAIMS_H

#include "oidc/jwks.h"

struct claims_rule {
    struct str issuer;
    struct str audience;
    /* of an ID token: what the sign-in has sent; absent: a bearer token */
    struct str nonce;
    uint64_t now_ms;
};

/* `iss` must equal the issuer, and `aud` contain the audience; with several audiences there must be an
 * `azp`, and the `azp` of an ID token must be the audience. `sub`, `exp` and `iat` are required. Times
 * may differ by LIMIT_OIDC_SKEW_SECONDS. An ID token has the nonce. `typ` is JWT or missing, or at+jwt
 * of a bearer token. ERR_UNAUTHENTICATED, ERR_CREDENTIAL_EXPIRED; the text has no value of the token. */
enum err claims_check_token(const struct jws *token, const struct claims_rule *rule,
                            uint64_t *ret_expires_at_ms, struct fault *f);

#endif
