/* token.h - short-lived tokens: signed text that agents carry (JWT, RFC 7519; RFC 9068 `at+jwt`).
 *
 *   header  {"alg":"EdDSA","kid":"<signer>","typ":"at+jwt"}
 *   claims  {acting_for, actor, aud, counted, exp, iat, iss, jti, key, nbf, scope, sub, tenant}
 *
 * `key` names the API key that minted it (a token dies with it); `counted` is present, and true, if
 * its uses are counted. Signatures are Ed25519 (RFC 8032) and deterministic, so the same claims
 * under the same signer give the same text: a retried mint is answered without a stored text.
 * Reading is strict: three parts of base64url without padding, a header that equals, byte for byte,
 * the one that we write for a known signer (so a client cannot choose an algorithm), no duplicate
 * or unknown claims, each claim of its type, our `iss`, an allowed lifetime, no time in the future.
 * Anything else is ERR_UNAUTHENTICATED. Nothing of the claims is parsed before the signature holds.
 *
 * A signature only proves possession of the signing key. Whether the token was minted is known
 * only to its slot (engine/runtime/sight.h). */
#ifndef ACCESS_TOKEN_H
#define ACCESS_TOKEN_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/fault.h"
#include "base/id.h"
#include "crypto/crypto.h"

enum {
    TOKEN_TEXT_MAX = 4096,
    TOKEN_SCOPES_MAX = 64,
    TOKEN_SKEW_MS = 60000, /* the time of an id may be so far ahead of our clock */
};

struct token_claims {
    struct id id;                                   /* jti */
    struct id key;                                  /* the API key that minted it */
    struct str subject;                             /* the principal of the minting key */
    struct str tenant, actor, acting_for, audience; /* acting_for may be absent */
    struct str scope;                               /* globs, separated by blanks */
    uint64_t issued_at, not_before, expires_at;     /* Unix seconds */
    /* its uses are counted: its slot must be asked */
    bool counted;
    uint32_t signer;
};

/* A copy with its strings; NULL: the arena is full. */
const struct token_claims *token_claims_copy(const struct token_claims *c, struct arena *arena);
/* The same in one allocation, for free(); NULL: out of memory. */
struct token_claims *token_claims_keep(const struct token_claims *c);

/* ---- signing keys: a few Ed25519 pairs ----
 *
 * A pair is in the key set as soon as it is made, signs from its `active_ms` on until a younger
 * one does, verifies for an overlap after that, and is then removed. The engine provides the
 * secrets (engine/runtime/signing.h); earlier versions kept each in its own file. */

struct signers; /* immutable, shared by threads; replaced when keys rotate */

enum {
    SIGNERS_MAX = 96,
    SIGNER_FILES_MAX = 64,
    SIGNERS_PATH_TEXT = 4096,
};

struct signer_secret {
    uint32_t number; /* increases */
    uint64_t active_ms;
    uint8_t bytes[ED25519_KEY_BYTES];
};

/* From 1 to SIGNERS_MAX secrets, by number. */
struct signers *signers_create(const struct signer_secret *list, size_t count);
/* The secrets in files of DIR, by number; none if there is no such folder. ERR_BAD_VALUE: a file
 * that is damaged, or open to others. */
enum err signer_files_read(const char *directory, struct signer_secret ret[SIGNER_FILES_MAX],
                           size_t *ret_count, struct fault *f);
void signer_file_remove(const char *directory, uint32_t number);
/* Renames DIR, if it has any files, to DIR.<now_ms>: tokens that they signed are not accepted
 * any more. `ret_where` (SIGNERS_PATH_TEXT) is its new name, "" if there was none. */
enum err signers_set_aside(const char *directory, uint64_t now_ms, char *ret_where,
                           struct fault *f);
/* The number of pairs, from the first, that were replaced at least so long ago. */
size_t signers_over(const struct signer_secret *list, size_t count, uint64_t now_ms,
                    uint64_t overlap_ms);
void signers_destroy(struct signers *s);
uint32_t signers_current(const struct signers *s, uint64_t now_ms); /* the pair that signs now */
bool signers_have(const struct signers *s, uint32_t number);        /* it verifies */
uint32_t signers_least(const struct signers *s);                    /* of those that verify */
/* The `kid` of a pair; absent: there is no such pair. */
struct str signers_kid(const struct signers *s, uint32_t number);
/* The JSON Web Key Set (RFC 7517, RFC 8037) of all that verify. */
void signers_put_jwks(struct buf *out, const struct signers *s);

/* ---- texts ---- */

/* Appends the token. ERR_NOT_FOUND: this signer is gone. ERR_OUT_OF_RANGE: it would be longer
 * than TOKEN_TEXT_MAX. ERR_FULL: no memory. On an error nothing is appended. */
enum err token_sign(const struct signers *s, struct str issuer, const struct token_claims *c,
                    struct buf *out);

/* Verifies form, signature, issuer and times, but not revocation or audience.
 * ERR_UNAUTHENTICATED, ERR_CREDENTIAL_EXPIRED (the signature is valid, the token has expired;
 * *ret is filled), ERR_BODY_TOO_LARGE (the arena is full). Views into the arena. */
enum err token_verify(const struct signers *s, struct str issuer, struct str text, uint64_t now_ms,
                      struct arena *arena, struct token_claims *ret, struct fault *f);

/* Known tokens, by their text: an Ed25519 verification takes as long as nine requests, and
 * asking a slot is a call to another reactor. Belongs to one thread; owns copies of texts and
 * claims. Bounded by the number of entries, and by 2 KiB for each of them together; the oldest
 * are dropped (the newest stays, whatever its size). Only tokens given to token_cache_keep()
 * enter, so neither guesses nor forgeries under a stolen signing key can fill it. Times are
 * checked again each time. It clears itself when it is given other signers. */
struct token_cache;
struct token_cache *token_cache_create(size_t entries);
void token_cache_destroy(struct token_cache *c);
void token_cache_clear(struct token_cache *c);
size_t token_cache_bytes(const struct token_cache *c); /* of the copies */
/* As token_verify; *ret stays valid until the next call. *ret_is_kept: it was kept before. */
enum err token_cache_verify(struct token_cache *c, const struct signers *s, struct str issuer,
                            struct str text, uint64_t now_ms, const struct token_claims **ret,
                            bool *ret_is_kept, struct fault *f);
/* Its claims if it is kept: then token_cache_verify() needs no signature. Else NULL. Valid until the
 * next call. */
const struct token_claims *token_cache_find(struct token_cache *c, const struct signers *s,
                                            struct str text);
/* Keeps a token that was verified, and that was minted. Copies it; without memory it does
 * nothing. */
void token_cache_keep(struct token_cache *c, const struct signers *s, struct str text,
                      const struct token_claims *claims);

#endif
