/* hash.c - SHA-256 and HMAC-SHA-256, without the cost of EVP.
 *
 * EVP finds the implementation by name and passes each call on through tables. For the short texts
 * of a decision that costs as much as a block of the digest itself. The direct functions run the
 * same code underneath and keep their state in the caller's memory. OpenSSL 3 deprecates them in
 * favour of providers that are chosen at run time, which we do not need. Only this file uses them.
 *
 * HMAC is built here from its definition (RFC 2104) on the same functions. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "crypto/crypto.h"

#include <openssl/sha.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/reserve.h"

enum { SHA256_BLOCK = 64 };

struct hasher {
    SHA256_CTX work;
    bool begun; /* between hasher_begin() and hasher_end() */
};

struct hasher *hasher_create(void) { return reserve_take(sizeof(struct hasher)); }

void hasher_destroy(struct hasher *h)
{
    if (h == NULL) return;
    memory_wipe(h, sizeof *h);
    reserve_give(h);
}

static void start(struct hasher *h) { check(SHA256_Init(&h->work) == 1); }

static void feed(struct hasher *h, const void *bytes, size_t size)
{
    check(SHA256_Update(&h->work, bytes, size) == 1);
}

static struct sha256 finish(struct hasher *h)
{
    struct sha256 digest;
    check(SHA256_Final(digest.bytes, &h->work) == 1);
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

/* The states are public in OpenSSL's context, since other programs save them, too. */
static void keep_state(struct hasher *h, uint32_t to[8])
{
    for (size_t i = 0; i < 8; i++) to[i] = h->work.h[i];
}

static void start_at(struct hasher *h, const uint32_t state[8])
{
    start(h);
    for (size_t i = 0; i < 8; i++) h->work.h[i] = state[i];
    h->work.Nl = SHA256_BLOCK * 8;
}

struct hmac_key hmac_key_make(struct hasher *h, struct str key)
{
    struct hmac_key made;
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
    keep_state(h, made.inner);
    for (size_t i = 0; i < sizeof pad; i++) pad[i] ^= 0x36 ^ 0x5c;
    start(h);
    feed(h, pad, sizeof pad);
    keep_state(h, made.outer);
    memory_wipe(pad, sizeof pad);
    return made;
}

struct sha256 hasher_hmac_parts(struct hasher *h, const struct hmac_key *key,
                                const struct str *parts, size_t count)
{
    check(!h->begun);
    start_at(h, key->inner);
    for (size_t i = 0; i < count; i++)
        if (parts[i].size > 0) feed(h, parts[i].bytes, parts[i].size);
    struct sha256 inner = finish(h);
    start_at(h, key->outer);
    feed(h, inner.bytes, sizeof inner.bytes);
    return finish(h);
}

struct sha256 hasher_hmac(struct hasher *h, struct str key, struct str bytes)
{
    struct hmac_key made = hmac_key_make(h, key);
    struct sha256 mac = hasher_hmac_parts(h, &made, &bytes, 1);
    memory_wipe(&made, sizeof made);
    return mac;
}

struct sha256 sha256_once(struct str bytes)
{
    struct hasher h = {.begun = false};
    struct sha256 digest = hasher_sha256(&h, bytes);
    memory_wipe(&h, sizeof h);
    return digest;
}

struct sha256 hmac_once(struct str key, struct str bytes)
{
    struct hasher h = {.begun = false};
    struct sha256 digest = hasher_hmac(&h, key, bytes);
    memory_wipe(&h, sizeof h);
    return digest;
}

struct sha256 hkdf_once(struct str secret, struct str salt, struct str info)
{
    char block[HKDF_INFO_MAX + 1];
    check(info.size <= HKDF_INFO_MAX);
    struct sha256 extracted = hmac_once(salt, secret);
    if (info.size > 0) memcpy(block, info.bytes, info.size);
    block[info.size] = 1; /* the number of the first block */
    struct sha256 key = hmac_once(str_of((const char *)extracted.bytes, sizeof extracted.bytes),
                                  str_of(block, info.size + 1));
    memory_wipe(&extracted, sizeof extracted);
    return key;
}
