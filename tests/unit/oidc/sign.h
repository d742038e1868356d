/* sign.h - a provider for unit tests: an Ed25519 key, its set, its settings, and tokens that it signs. */
#ifndef UNIT_OIDC_SIGN_H
#define UNIT_OIDC_SIGN_H

#include <stdio.h>
#include <stdlib.h>

#include "crypto/crypto.h"
#include "oidc/inside.h"

#define ISSUER "https://login.example"
#define NOW_MS UINT64_C(1795166400250)
#define NOW "1795166400"
#define LATER "1795166700"

static const struct oidc_settings sample_settings = {.name = "test",
                                                     .issuer = ISSUER,
                                                     .client_id = "writ",
                                                     .client_secret_file = "",
                                                     .scope = "openid",
                                                     .audience = "api",
                                                     .tenant = "acme",
                                                     .tenant_claim = "",
                                                     .person_claim = "sub",
                                                     .claims = "groups",
                                                     .roles_claim = "groups",
                                                     .reviewer = "finance, ops",
                                                     .policy_admin = "",
                                                     .auditor = "audit",
                                                     .admin = ""};

/* header.payload.signature, by the key whose secret begins with that byte. */
static inline struct str sign_token(char *to, size_t capacity, uint8_t secret, const char *header,
                                    const char *claims)
{
    const uint8_t bytes[ED25519_KEY_BYTES] = {secret};
    uint8_t signature[ED25519_SIGNATURE_BYTES];
    struct ed25519 *pair = ed25519_from_secret(bytes);
    struct buf b = buf_over(to, capacity);
    base64url_put(&b, header, strlen(header));
    buf_put_byte(&b, '.');
    base64url_put(&b, claims, strlen(claims));
    if (!ed25519_sign(pair, buf_view(&b), signature)) abort();
    buf_put_byte(&b, '.');
    base64url_put(&b, signature, sizeof signature);
    ed25519_destroy(pair);
    if (b.overflow) abort();
    return buf_view(&b);
}

/* The public key as a JWK, with more members: ",\"kid\":\"a\"". */
static inline void put_jwk(struct buf *out, uint8_t secret, const char *more)
{
    const uint8_t bytes[ED25519_KEY_BYTES] = {secret};
    uint8_t public[ED25519_KEY_BYTES];
    struct ed25519 *pair = ed25519_from_secret(bytes);
    ed25519_public(pair, public);
    ed25519_destroy(pair);
    buf_put_literal(out, "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"");
    base64url_put(out, public, sizeof public);
    buf_printf(out, "\"%s}", more);
}

/* {"keys":[…]} with the keys 1 (kid a) and 2 (kid b). */
static inline struct jwks *sample_keys(struct arena *arena)
{
    char bytes[1024];
    struct buf b = buf_over(bytes, sizeof bytes);
    struct jwks *keys = NULL;
    struct fault f;
    buf_put_literal(&b, "{\"keys\":[");
    put_jwk(&b, 1, ",\"kid\":\"a\"");
    buf_put_byte(&b, ',');
    put_jwk(&b, 2, ",\"kid\":\"b\"");
    buf_put_literal(&b, "]}");
    if (jwks_read(buf_view(&b), arena, &keys, &f) != ERR_OK) abort();
    return keys;
}

#endif
