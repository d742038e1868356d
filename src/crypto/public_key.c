#include "crypto/public_key.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <stdlib.h>

#include "crypto/crypto.h"

enum { DER_BYTES_MAX = 80 /* of an ECDSA signature on P-256: 72 */ };

struct public_key {
    enum public_key_kind kind;
    EVP_PKEY *key;
};

/* Takes `key`. NULL: it is NULL, or there is no memory. */
static struct public_key *wrap(enum public_key_kind kind, EVP_PKEY *key)
{
    struct public_key *k = key == NULL ? NULL : malloc(sizeof *k);
    if (k == NULL) {
        EVP_PKEY_free(key);
        ERR_clear_error();
        return NULL;
    }
    *k = (struct public_key){.kind = kind, .key = key};
    return k;
}

void public_key_destroy(struct public_key *k)
{
    if (k == NULL) return;
    EVP_PKEY_free(k->key);
    free(k);
}

enum public_key_kind public_key_kind(const struct public_key *k) { return k->kind; }

/* ---- from numbers ---- */

/* Takes the builder. */
static EVP_PKEY *build(const char *type, OSSL_PARAM_BLD *builder, bool is_complete)
{
    EVP_PKEY *key = NULL;
    OSSL_PARAM *parameters = is_complete ? OSSL_PARAM_BLD_to_param(builder) : NULL;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    bool is_made = parameters != NULL && context != NULL && EVP_PKEY_fromdata_init(context) == 1 &&
                   EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, parameters) == 1;
    if (!is_made) {
        EVP_PKEY_free(key);
        key = NULL;
    }
    EVP_PKEY_CTX_free(context);
    OSSL_PARAM_free(parameters);
    OSSL_PARAM_BLD_free(builder);
    return key;
}

static BIGNUM *number_of(struct str bytes)
{
    return BN_bin2bn((const uint8_t *)bytes.bytes, (int)bytes.size, NULL);
}

struct public_key *public_key_rsa(struct str modulus, struct str exponent)
{
    if (modulus.size > RSA_BITS_MAX / 8 || exponent.size > RSA_EXPONENT_BYTES_MAX) return NULL;
    BIGNUM *n = number_of(modulus), *e = number_of(exponent);
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    bool is_right = n != NULL && e != NULL && builder != NULL && BN_is_odd(n) && BN_is_odd(e) &&
                    BN_num_bits(n) >= RSA_BITS_MIN && BN_num_bits(n) <= RSA_BITS_MAX &&
                    !BN_is_one(e) && OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, n) &&
                    OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, e);
    EVP_PKEY *key = build("RSA", builder, is_right);
    BN_free(n);
    BN_free(e);
    return wrap(PUBLIC_KEY_RSA, key);
}

static bool is_on_curve(EVP_PKEY *key)
{
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new(key, NULL);
    bool is_valid = context != NULL && EVP_PKEY_public_check(context) == 1;
    EVP_PKEY_CTX_free(context);
    return is_valid;
}

struct public_key *public_key_p256(struct str x, struct str y)
{
    uint8_t point[1 + 2 * P256_BYTES] = {POINT_CONVERSION_UNCOMPRESSED};
    if (x.size != P256_BYTES || y.size != P256_BYTES) return NULL;
    memcpy(point + 1, x.bytes, P256_BYTES);
    memcpy(point + 1 + P256_BYTES, y.bytes, P256_BYTES);
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    bool is_right =
        builder != NULL &&
        OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, "P-256", 0) &&
        OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point);
    EVP_PKEY *key = build("EC", builder, is_right);
    if (key != NULL && !is_on_curve(key)) {
        EVP_PKEY_free(key);
        key = NULL;
    }
    return wrap(PUBLIC_KEY_P256, key);
}

struct public_key *public_key_ed25519(struct str x)
{
    if (x.size != ED25519_KEY_BYTES) return NULL;
    return wrap(PUBLIC_KEY_ED25519, EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL,
                                                                (const uint8_t *)x.bytes, x.size));
}

/* ---- verification ---- */

/* r and s as the library takes them. 0: there is no memory. */
static size_t der_of(struct str signature, uint8_t to[DER_BYTES_MAX])
{
    BIGNUM *r = number_of(str_of(signature.bytes, P256_BYTES));
    BIGNUM *s = number_of(str_of(signature.bytes + P256_BYTES, P256_BYTES));
    ECDSA_SIG *both = ECDSA_SIG_new();
    if (r == NULL || s == NULL || both == NULL || ECDSA_SIG_set0(both, r, s) != 1) {
        BN_free(r);
        BN_free(s);
        ECDSA_SIG_free(both);
        return 0;
    }
    int size = i2d_ECDSA_SIG(both, NULL);
    if (size > 0 && size <= DER_BYTES_MAX) size = i2d_ECDSA_SIG(both, &to);
    ECDSA_SIG_free(both);
    return size > 0 && size <= DER_BYTES_MAX ? (size_t)size : 0;
}

bool public_key_verify(const struct public_key *k, struct str message, struct str signature)
{
    uint8_t der[DER_BYTES_MAX];
    const uint8_t *bytes = (const uint8_t *)signature.bytes;
    size_t size = signature.size;
    if (k->kind == PUBLIC_KEY_P256) {
        size = size == 2 * P256_BYTES ? der_of(signature, der) : 0;
        bytes = der;
    }
    EVP_MD_CTX *context = size > 0 ? EVP_MD_CTX_new() : NULL;
    const EVP_MD *digest = k->kind == PUBLIC_KEY_ED25519 ? NULL : EVP_sha256();
    bool is_good =
        context != NULL && EVP_DigestVerifyInit(context, NULL, digest, NULL, k->key) == 1 &&
        EVP_DigestVerify(context, bytes, size, (const uint8_t *)message.bytes, message.size) == 1;
    EVP_MD_CTX_free(context);
    ERR_clear_error(); /* the library queues errors for the thread, which are never read */
    return is_good;
}
