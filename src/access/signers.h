/* signers.h - the pairs behind `struct signers`, and functions that the files of tokens share;
 * only for this room and its tests, which forge tokens. */
#ifndef ACCESS_SIGNERS_H
#define ACCESS_SIGNERS_H

#include "access/token.h"

enum { SIGNER_KID_TEXT = 43, SIGNER_HEADER_TEXT = 112 };

struct signer {
    uint32_t number; /* of its file; increases */
    uint64_t active_ms;
    struct ed25519 *pair;
    char public_text[SIGNER_KID_TEXT]; /* base64url of the public key */
    char kid[SIGNER_KID_TEXT];         /* its thumbprint (RFC 7638) */
    char header[SIGNER_HEADER_TEXT];   /* the JWT header in its tokens */
    size_t header_size;
};

struct signers {
    struct signer list[SIGNERS_MAX]; /* by number */
    size_t count;
};

/* A pair from its secret, ready to sign. */
void signer_init(struct signer *s, uint32_t number, uint64_t active_ms,
                 const uint8_t secret[ED25519_KEY_BYTES]);
void signer_fini(struct signer *s);

/* Signs any claims: token_sign() calls this after checking them. ERR_OUT_OF_RANGE: too long.
 * ERR_FULL: no memory. */
enum err signer_put_token(const struct signer *s, struct str claims, struct buf *out);

/* ERR_UNAUTHENTICATED (too early), ERR_CREDENTIAL_EXPIRED. */
enum err claims_in_time(const struct token_claims *c, uint64_t now_ms, struct fault *f);
size_t claims_strings(const struct token_claims *c); /* bytes of all its strings */
/* copies them there, and makes the views point to the copies */
void claims_move(struct token_claims *c, char *to);

#endif
