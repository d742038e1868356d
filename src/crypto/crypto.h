/* crypto.h - the only access to OpenSSL: digests, MACs, signatures, constant-time comparison.
 *
 * A `struct hasher` holds the state of one digest at a time and belongs to one thread; the other
 * functions may be called from any thread. No input makes these functions fail. A failure of the
 * library itself ends the process (check), unless a comment below states otherwise. */
#ifndef CRYPTO_CRYPTO_H
#define CRYPTO_CRYPTO_H

#include "base/buf.h"
#include "base/str.h"

enum { SHA256_BYTES = 32, SHA256_HEX = 64 };

struct sha256 {
    uint8_t bytes[SHA256_BYTES];
};

struct hasher;
struct hasher *hasher_create(void); /* owned by the caller */
void hasher_destroy(struct hasher *h);

struct sha256 hasher_sha256(struct hasher *h, struct str bytes);
/* In parts: begin, any number of adds, end. */
void hasher_begin(struct hasher *h);
void hasher_add(struct hasher *h, struct str bytes);
struct sha256 hasher_end(struct hasher *h);
/* HMAC-SHA-256 (RFC 2104). A key of many MACs is prepared once, which saves two blocks of the digest
 * in each. It is as secret as the bytes that it was made of. */
struct hmac_key {
    uint32_t inner[8], outer[8]; /* the digest's states behind the padded key */
};
struct hmac_key hmac_key_make(struct hasher *h, struct str key);
struct sha256 hasher_hmac(struct hasher *h, struct str key, struct str bytes);
/* Of the parts in their order, as if they were joined. */
struct sha256 hasher_hmac_parts(struct hasher *h, const struct hmac_key *key,
                                const struct str *parts, size_t count);

/* One digest without a hasher, where speed does not matter. */
struct sha256 sha256_once(struct str bytes);
struct sha256 hmac_once(struct str key, struct str bytes);
/* HKDF with SHA-256 (RFC 5869): the first 32 bytes. `info` names the key's purpose; at most
 * HKDF_INFO_MAX bytes. */
enum { HKDF_INFO_MAX = 255 };
struct sha256 hkdf_once(struct str secret, struct str salt, struct str info);

void sha256_write_hex(struct sha256 digest, char to[SHA256_HEX]); /* no NUL */
bool sha256_read_hex(struct str hex, struct sha256 *ret);

/* Randomness from OpenSSL's generator, which the kernel seeds: a tenth of the kernel's own cost
 * for a kilobyte. Ends the process if there is none. Any thread. */
void crypto_random(void *bytes, size_t size);

/* Time depends only on `size`. */
bool bytes_equal_secret(const void *a, const void *b, size_t size);

/* CRC-32C (Castagnoli, RFC 3720 B.4), with the processor's instruction if it has one; `seed`
 * chains. */
uint32_t crc32c(uint32_t seed, const void *bytes, size_t size);
/* The same without the instruction, on any processor; the tests compare both. */
uint32_t crc32c_portable(uint32_t seed, const void *bytes, size_t size);

/* RFC 4648 section 5, without padding. */
void base64url_put(struct buf *out, const void *bytes, size_t size);
/* False: a foreign character, padding, or set bits beyond the last byte. `to` holds at least
 * text.size * 3 / 4 bytes. */
bool base64url_read(struct str text, uint8_t *to, size_t *ret_size);

void memory_wipe(void *bytes, size_t size); /* not optimised away */

/* ---- Ed25519 (RFC 8032, the pure form): raw keys of 32 bytes, signatures of 64 ---- */

enum { ED25519_KEY_BYTES = 32, ED25519_SIGNATURE_BYTES = 64 };

/* A key pair. Immutable, so any number of threads may use it. */
struct ed25519;
/* any 32 bytes are valid */
struct ed25519 *ed25519_from_secret(const uint8_t secret[ED25519_KEY_BYTES]);
void ed25519_destroy(struct ed25519 *e);
void ed25519_public(const struct ed25519 *e, uint8_t to[ED25519_KEY_BYTES]);

/* The same message always has the same signature. False: the library had no memory. */
bool ed25519_sign(const struct ed25519 *e, struct str message, uint8_t to[ED25519_SIGNATURE_BYTES]);
/* About 100 µs. A signature whose second half is not reduced is refused, so that a second valid
 * signature cannot be made from a good one. */
bool ed25519_verify(const struct ed25519 *e, struct str message,
                    const uint8_t signature[ED25519_SIGNATURE_BYTES]);

#endif
