/* public_key.h - public keys of others, and their signatures: RSASSA-PKCS1-v1_5 with SHA-256 (RS256),
 * ECDSA on P-256 with SHA-256 (ES256), Ed25519 (EdDSA), in the forms of RFC 7518 and RFC 8037.
 *
 * A key is immutable, so any number of threads may use it. */
#ifndef CRYPTO_PUBLIC_KEY_H
#define CRYPTO_PUBLIC_KEY_H

#include "base/str.h"

enum public_key_kind { PUBLIC_KEY_RSA, PUBLIC_KEY_P256, PUBLIC_KEY_ED25519 };

enum {
    RSA_BITS_MIN = 2048, /* RFC 7518, 3.3 */
    RSA_BITS_MAX = 4096, /* a signature of 8192 bits would take four times as long */
    RSA_EXPONENT_BYTES_MAX = 4,
    P256_BYTES = 32,
    SIGNATURE_BYTES_MAX = RSA_BITS_MAX / 8,
};

struct public_key;

/* Unsigned numbers, the most significant byte first. NULL: the modulus is even or not of RSA_BITS_MIN to
 * RSA_BITS_MAX, the exponent is even, less than 3 or longer than RSA_EXPONENT_BYTES_MAX. */
struct public_key *public_key_rsa(struct str modulus, struct str exponent);
/* P256_BYTES each. NULL: the point is not on the curve. */
struct public_key *public_key_p256(struct str x, struct str y);
/* 32 bytes. NULL: any other number of them. */
struct public_key *public_key_ed25519(struct str x);
void public_key_destroy(struct public_key *k);

enum public_key_kind public_key_kind(const struct public_key *k);

/* 30 to 100 µs. The signature is the raw one: of ES256 the numbers r and s, P256_BYTES each. */
bool public_key_verify(const struct public_key *k, struct str message, struct str signature);

#endif
