/* flow.h - a sign-in at an identity provider, between its start here and the provider's answer
 * (OpenID Connect Core 1.0, 3.1; RFC 9700).
 *
 *   start ─▶ cookie: secret, time, MAC ─┐                      ┌─▶ state   (in both URLs)
 *                                       ├─ HMAC under a key ───┼─▶ nonce   (in the ID token)
 *   answer ◀─ the same cookie ──────────┘  of the pepper       └─▶ verifier (PKCE, S256)
 *
 * Nothing is kept at the platform until the sign-in is complete: the cookie carries it, so every
 * platform of the installation can take the answer, and a stranger can fill no table. The cookie is
 * not enough for an answer: state, nonce and verifier cannot be computed without the pepper. A MAC
 * binds it to one provider. It ends after FLOW_MS.
 *
 * The cookie is SameSite=Lax, because the answer comes by a link of the provider's site, with which a
 * browser sends no Strict cookie. It is worth nothing after the answer. Pure; any thread. */
#ifndef PLATFORM_FLOW_H
#define PLATFORM_FLOW_H

#include "base/buf.h"
#include "base/limits.h"
#include "crypto/crypto.h"

enum {
    FLOW_MS = LIMIT_SIGN_IN_SECONDS * 1000,
    FLOW_SECRET_BYTES = 32,
    FLOW_COOKIE_TEXT = 139, /* base64url of secret, replaced session, time and MAC */
    FLOW_VALUE_TEXT = 43,   /* of state, nonce, verifier and challenge: RFC 7636, 4.1 */
};

struct flow {
    uint8_t secret[FLOW_SECRET_BYTES];
    struct sha256 replaces; /* the session that the browser had at the start; zeros: none */
    uint64_t made_at;       /* ms */
};

/* A new one. `replaces` may be NULL. */
void flow_make(struct flow *f, const struct sha256 *replaces, uint64_t now_ms);
/* The cookie's value for this provider; no NUL. */
void flow_write(const struct flow *f, const struct sha256 *key, struct str provider,
                char to[FLOW_COOKIE_TEXT]);

enum flow_verdict { FLOW_RIGHT, FLOW_WRONG /* form, MAC, or another provider's */, FLOW_OVER };
enum flow_verdict flow_read(struct str cookie, const struct sha256 *key, struct str provider,
                            uint64_t now_ms, struct flow *ret);

enum flow_value { FLOW_STATE, FLOW_NONCE, FLOW_VERIFIER };
/* No NUL. */
void flow_value(const struct flow *f, const struct sha256 *key, struct str provider,
                enum flow_value which, char to[FLOW_VALUE_TEXT]);
/* In constant time. */
bool flow_has_state(const struct flow *f, const struct sha256 *key, struct str provider,
                    struct str state);

/* What the provider is asked for. All texts are those of the configuration and its documents. */
struct flow_request {
    struct str endpoint, client_id, redirect_uri, scope;
};
/* The URL of the sign-in at the provider. Overflow shows in the buf. */
void flow_put_url(struct buf *out, const struct flow *f, const struct sha256 *key,
                  struct str provider, const struct flow_request *r);
/* ?name=value or &name=value, percent-encoded (RFC 3986, 2.1). */
void flow_put_parameter(struct buf *out, bool is_first, const char *name, struct str value);

#endif
