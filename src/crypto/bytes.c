/* bytes.c - texts of bytes (hex, base64url), comparison and wiping of secrets, randomness. */
#include "crypto/crypto.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "base/check.h"

void sha256_write_hex(struct sha256 digest, char to[SHA256_HEX])
{
    hex_write(to, digest.bytes, SHA256_BYTES);
}

bool sha256_read_hex(struct str hex, struct sha256 *ret)
{
    struct sha256 digest;
    if (hex.size != SHA256_HEX || !hex_read(hex.bytes, digest.bytes, SHA256_BYTES)) return false;
    *ret = digest;
    return true;
}

/* The library compares byte by byte, which is slow for a token of half a kilobyte. So words are
 * compared first, and their differences collected where the compiler cannot see their use. */
bool bytes_equal_secret(const void *a, const void *b, size_t size)
{
    const char *one = a, *other = b;
    uint64_t difference = 0;
    for (; size >= 8; size -= 8, one += 8, other += 8) {
        uint64_t x, y;
        memcpy(&x, one, 8);
        memcpy(&y, other, 8);
        difference |= x ^ y;
    }
    __asm__ volatile("" : "+r"(difference));
    return (CRYPTO_memcmp(one, other, size) | (difference != 0)) == 0;
}

/* On the path of each request: OPENSSL_cleanse takes five to eight times as long (62 instead of
 * 11 ns for 600 bytes). */
void memory_wipe(void *bytes, size_t size) { explicit_bzero(bytes, size); }

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void base64url_put(struct buf *out, const void *bytes, size_t size)
{
    if (!buf_room(out, size / 3 * 4 + (size % 3 == 0 ? 0 : size % 3 + 1))) return;
    const uint8_t *from = bytes;
    char *to = out->bytes + out->size;
    for (; size >= 3; from += 3, size -= 3) {
        uint32_t word = (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2];
        for (int shift = 18; shift >= 0; shift -= 6) *to++ = alphabet[word >> shift & 63];
    }
    if (size > 0) {
        uint32_t word = (uint32_t)from[0] << 16 | (size == 2 ? (uint32_t)from[1] << 8 : 0);
        *to++ = alphabet[word >> 18 & 63];
        *to++ = alphabet[word >> 12 & 63];
        if (size == 2) *to++ = alphabet[word >> 6 & 63];
    }
    out->size = (size_t)(to - out->bytes);
}

static int base64url_value(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

bool base64url_read(struct str text, uint8_t *to, size_t *ret_size)
{
    if (text.size % 4 == 1) return false;
    uint32_t held = 0; /* bits not yet written, `bits` of them */
    unsigned bits = 0;
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        int value = base64url_value(text.bytes[i]);
        if (value < 0) return false;
        held = held << 6 | (uint32_t)value;
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        to[size++] = (uint8_t)(held >> bits);
        held &= (1u << bits) - 1;
    }
    if (held != 0) return false; /* otherwise the same bytes would have a second spelling */
    *ret_size = size;
    return true;
}

void crypto_random(void *bytes, size_t size)
{
    check(size <= INT32_MAX && RAND_bytes(bytes, (int)size) == 1);
}
