/* ed25519.c - Ed25519 signatures (RFC 8032) by OpenSSL's EVP.
 *
 * The library keeps no state between messages here: a context is made for each, which costs a
 * hundredth of the signature itself and lets every thread use the same key. */
#include "crypto/crypto.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <stdlib.h>

#include "base/check.h"

struct ed25519 {
    EVP_PKEY *key;
};

struct ed25519 *ed25519_from_secret(const uint8_t secret[ED25519_KEY_BYTES])
{
    struct ed25519 *e = calloc(1, sizeof *e);
    check(e != NULL);
    e->key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, secret, ED25519_KEY_BYTES);
    check(e->key != NULL);
    return e;
}

void ed25519_destroy(struct ed25519 *e)
{
    if (e == NULL) return;
    EVP_PKEY_free(e->key); /* wipes the secret */
    free(e);
}

void ed25519_public(const struct ed25519 *e, uint8_t to[ED25519_KEY_BYTES])
{
    size_t size = ED25519_KEY_BYTES;
    check(EVP_PKEY_get_raw_public_key(e->key, to, &size) == 1 && size == ED25519_KEY_BYTES);
}

bool ed25519_sign(const struct ed25519 *e, struct str message, uint8_t to[ED25519_SIGNATURE_BYTES])
{
    size_t size = ED25519_SIGNATURE_BYTES;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool good =
        context != NULL && EVP_DigestSignInit(context, NULL, NULL, NULL, e->key) == 1 &&
        EVP_DigestSign(context, to, &size, (const uint8_t *)message.bytes, message.size) == 1;
    EVP_MD_CTX_free(context);
    if (!good) ERR_clear_error();
    check(!good || size == ED25519_SIGNATURE_BYTES);
    return good;
}

bool ed25519_verify(const struct ed25519 *e, struct str message,
                    const uint8_t signature[ED25519_SIGNATURE_BYTES])
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    check(context != NULL && EVP_DigestVerifyInit(context, NULL, NULL, NULL, e->key) == 1);
    bool good = EVP_DigestVerify(context, signature, ED25519_SIGNATURE_BYTES,
                                 (const uint8_t *)message.bytes, message.size) == 1;
    EVP_MD_CTX_free(context);
    /* the library queues an error for the thread, which is never read */
    if (!good) ERR_clear_error();
    return good;
}
