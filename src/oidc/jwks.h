/* jwks.h - a set of public keys (RFC 7517), and tokens that they have signed (RFC 7515, compact form).
 *
 * Keys of RSA (RS256), EC P-256 (ES256) and OKP Ed25519 (EdDSA, RFC 8037) are used. A key of any other
 * kind, for another use or algorithm, or with members that are missing or out of range, is skipped, as
 * RFC 7517 wants it (section 5). A token chooses its key only by `kid`, and the key alone decides the
 * algorithm: `alg` must name that of the key. Pure, any thread. */
#ifndef OIDC_JWKS_H
#define OIDC_JWKS_H

#include "base/limits.h"
#include "crypto/public_key.h"
#include "json/json.h"

struct jwks; /* immutable */

/* ERR_PROVIDER_UNAVAILABLE: it is no set of keys, has more than LIMIT_OIDC_KEYS that are used, none, or
 * two of one kind with one `kid`. ERR_BODY_TOO_LARGE: the arena is full. `arena` is used during the call
 * only. */
enum err jwks_read(struct str text, struct arena *arena, struct jwks **ret, struct fault *f);
void jwks_destroy(struct jwks *s); /* accepts NULL */
size_t jwks_count(const struct jwks *s);

/* A token whose signature is not verified yet. Views into its text and the arena. */
struct jws {
    struct str signed_part;    /* header "." payload */
    struct str kid;            /* absent: none */
    struct str type;           /* `typ`; absent: none */
    enum public_key_kind kind; /* of the keys that fit `alg` */
    uint8_t signature[SIGNATURE_BYTES_MAX];
    size_t signature_size;
    const struct json *claims; /* the payload, an object */
};

/* Its form and header: three parts in base64url, strict JSON, `alg` one of RS256, ES256, EdDSA, no
 * `crit` and no `b64`. ERR_UNAUTHENTICATED; ERR_BODY_TOO_LARGE (the arena). */
enum err jws_read(struct str text, struct arena *arena, struct jws *ret, struct fault *f);

enum jws_outcome {
    JWS_FORGED,      /* also if the key's algorithm is another */
    JWS_UNKNOWN_KEY, /* no key has its `kid`; or it has none, and several keys could be meant */
    JWS_VERIFIED
};
enum jws_outcome jws_verify(const struct jws *token, const struct jwks *keys);

#endif
