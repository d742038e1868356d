/* hash.c - SHA-256 and HMAC-SHA-256 through OpenSSL's EVP, without its price.
 *
 * The one-shot calls look the algorithm up by name, allocate a context and free it: about as dear
 * as the digest itself. A hasher fetches the digest once and keeps one context, which is begun
 * anew for each digest: with the same algorithm that neither looks up nor allocates.
 *
 * HMAC is built here from its definition (RFC 2104) on the same context, because EVP_MAC would
 * need its key schedule set through a parameter list each time. */
#include "crypto/crypto.h"

#include <openssl/evp.h>
#include <stdlib.h>

#include "base/check.h"

enum { SHA256_BLOCK = 64 };

struct hasher {
    EVP_MD *sha256;
    EVP_MD_CTX *work;
    bool begun; /* between hasher_begin() and hasher_end() */
};

struct hasher *hasher_create(void)
{
    struct hasher *h = calloc(1, sizeof *h);
    check(h != NULL);
    h->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    h->work = EVP_MD_CTX_new();
    check(h->sha256 != NULL && h->work != NULL);
    return h;
}

void hasher_destroy(struct hasher *h)
{
    if (h == NULL) return;
    EVP_MD_CTX_free(h->work);
    EVP_MD_free(h->sha256);
    free(h);
}

static void start(struct hasher *h) { check(EVP_DigestInit_ex2(h->work, h->sha256, NULL) == 1); }

static void feed(struct hasher *h, const void *bytes, size_t size)
{
    check(EVP_DigestUpdate(h->work, bytes, size) == 1);
}

static struct sha256 finish(struct hasher *h)
{
    struct sha256 digest;
    unsigned size = 0;
    check(EVP_DigestFinal_ex(h->work, digest.bytes, &size) == 1 && size == SHA256_BYTES);
    return digest;
}

struct sha256 hasher_sha256(struct hasher *h, struct str bytes)
{
    check(!h->begun);
    start(h);
    feed(h, bytes.bytes, bytes.size);
    return finish(h);
}

void hasher_begin(struct hasher *h)
{
    check(!h->begun);
    h->begun = true;
    start(h);
}

void hasher_add(struct hasher *h, struct str bytes)
{
    check(h->begun);
    feed(h, bytes.bytes, bytes.size);
}

struct sha256 hasher_end(struct hasher *h)
{
    check(h->begun);
    h->begun = false;
    return finish(h);
}

struct sha256 hasher_hmac(struct hasher *h, struct str key, struct str bytes)
{
    check(!h->begun);
    uint8_t pad[SHA256_BLOCK] = {0};
    if (key.size > sizeof pad) {
        struct sha256 shorter = hasher_sha256(h, key);
        memcpy(pad, shorter.bytes, sizeof shorter.bytes);
    } else if (key.size > 0) {
        memcpy(pad, key.bytes, key.size);
    }
    for (size_t i = 0; i < sizeof pad; i++) pad[i] ^= 0x36;
    start(h);
    feed(h, pad, sizeof pad);
    feed(h, bytes.bytes, bytes.size);
    struct sha256 inner = finish(h);
    for (size_t i = 0; i < sizeof pad; i++) pad[i] ^= 0x36 ^ 0x5c;
    start(h);
    feed(h, pad, sizeof pad);
    feed(h, inner.bytes, sizeof inner.bytes);
    memory_wipe(pad, sizeof pad);
    return finish(h);
}

struct sha256 sha256_once(struct str bytes)
{
    struct hasher *h = hasher_create();
    struct sha256 digest = hasher_sha256(h, bytes);
    hasher_destroy(h);
    return digest;
}

struct sha256 hmac_once(struct str key, struct str bytes)
{
    struct hasher *h = hasher_create();
    struct sha256 digest = hasher_hmac(h, key, bytes);
    hasher_destroy(h);
    return digest;
}
