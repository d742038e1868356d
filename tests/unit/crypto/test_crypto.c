/* test_crypto.c - digests and MACs against published vectors, and against themselves in parts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "crypto/crypto.h"

static struct hasher *hasher;

static int set_up(void **state)
{
    (void)state;
    hasher = hasher_create();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hasher_destroy(hasher);
    hasher_destroy(NULL);
    return 0;
}

static void digest_is(struct sha256 digest, const char *hex)
{
    char text[SHA256_HEX];
    sha256_write_hex(digest, text);
    if (memcmp(text, hex, SHA256_HEX) != 0) fail_msg("%.64s where %s is right", text, hex);
}

/* FIPS 180-4 examples. */
static void sha256_gives_the_published_digests(void **state)
{
    (void)state;
    digest_is(hasher_sha256(hasher, STR("")),
              "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    digest_is(hasher_sha256(hasher, STR("abc")),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    digest_is(sha256_once(STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    digest_is(hasher_sha256(hasher, (struct str){0}),
              "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void a_digest_in_parts_is_the_digest_of_the_whole(void **state)
{
    (void)state;
    char bytes[1000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 7);
    struct sha256 whole = hasher_sha256(hasher, str_of(bytes, sizeof bytes));
    for (size_t cut = 0; cut <= sizeof bytes; cut += 37) {
        hasher_begin(hasher);
        hasher_add(hasher, str_of(bytes, cut));
        hasher_add(hasher, (struct str){0});
        hasher_add(hasher, str_of(bytes + cut, sizeof bytes - cut));
        struct sha256 parts = hasher_end(hasher);
        assert_memory_equal(parts.bytes, whole.bytes, SHA256_BYTES);
    }
}

/* RFC 4231, cases 1, 2, 3, 4, 6 and 7. */
static void hmac_gives_the_published_codes(void **state)
{
    (void)state;
    char key[131], data[50];
    memset(key, 0x0b, 20);
    digest_is(hasher_hmac(hasher, str_of(key, 20), STR("Hi There")),
              "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    digest_is(hmac_once(STR("Jefe"), STR("what do ya want for nothing?")),
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    memset(data, 0xdd, sizeof data);
    digest_is(hasher_hmac(hasher, str_of(key, 20), str_of(data, 50)),
              "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    digest_is(hasher_hmac(hasher, str_of(key, 131),
                          STR("Test Using Larger Than Block-Size Key - Hash Key First")),
              "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    digest_is(
        hasher_hmac(hasher, str_of(key, 131),
                    STR("This is a test using a larger than block-size key and a larger than "
                        "block-size data. "
                        "The key needs to be hashed before being used by the HMAC algorithm.")),
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
    for (int i = 0; i < 25; i++) key[i] = (char)(i + 1);
    memset(data, 0xcd, sizeof data);
    digest_is(hasher_hmac(hasher, str_of(key, 25), str_of(data, 50)),
              "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
}

/* RFC 5869, A.1 to A.3: the first 32 bytes of each. */
static void hkdf_gives_the_published_keys(void **state)
{
    (void)state;
    char secret[80], salt[80], info[80];
    memset(secret, 0x0b, 22);
    for (int i = 0; i < 13; i++) salt[i] = (char)i;
    for (int i = 0; i < 10; i++) info[i] = (char)(0xf0 + i);
    digest_is(hkdf_once(str_of(secret, 22), str_of(salt, 13), str_of(info, 10)),
              "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
    digest_is(hkdf_once(str_of(secret, 22), (struct str){0}, (struct str){0}),
              "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d");
    for (int i = 0; i < 80; i++) secret[i] = (char)i;
    for (int i = 0; i < 80; i++) salt[i] = (char)(0x60 + i);
    for (int i = 0; i < 80; i++) info[i] = (char)(0xb0 + i);
    digest_is(hkdf_once(str_of(secret, 80), str_of(salt, 80), str_of(info, 80)),
              "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c");
}

static void hex_is_read_back_and_only_in_lowercase(void **state)
{
    (void)state;
    struct sha256 digest = sha256_once(STR("x")), back;
    char text[SHA256_HEX];
    sha256_write_hex(digest, text);
    assert_true(sha256_read_hex(str_of(text, sizeof text), &back));
    assert_memory_equal(back.bytes, digest.bytes, SHA256_BYTES);
    assert_false(sha256_read_hex(str_of(text, sizeof text - 1), &back));
    text[5] = 'A';
    assert_false(sha256_read_hex(str_of(text, sizeof text), &back));
    text[5] = 'g';
    assert_false(sha256_read_hex(str_of(text, sizeof text), &back));
    assert_false(sha256_read_hex((struct str){0}, &back));
}

/* RFC 3720 B.4. */
static void crc32c_gives_the_published_values(void **state)
{
    (void)state;
    uint8_t bytes[32] = {0};
    assert_int_equal(crc32c(0, bytes, 32), 0x8a9136aau);
    memset(bytes, 0xff, 32);
    assert_int_equal(crc32c(0, bytes, 32), 0x62a8ab43u);
    for (uint8_t i = 0; i < 32; i++) bytes[i] = i;
    assert_int_equal(crc32c(0, bytes, 32), 0x46dd794eu);
    for (uint8_t i = 0; i < 32; i++) bytes[i] = (uint8_t)(31 - i);
    assert_int_equal(crc32c(0, bytes, 32), 0x113fdb5cu);
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(crc32c(0, "", 0), 0);
}

static void crc32c_chains_and_agrees_with_its_table(void **state)
{
    (void)state;
    uint8_t bytes[300];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 31 + (i >> 3));
    for (size_t from = 0; from < 9; from++) {
        for (size_t size = 0; from + size <= sizeof bytes; size++) {
            uint32_t whole = crc32c(7, bytes + from, size);
            assert_int_equal(whole, crc32c_portable(7, bytes + from, size));
            size_t cut = size / 3;
            assert_int_equal(whole,
                             crc32c(crc32c(7, bytes + from, cut), bytes + from + cut, size - cut));
        }
    }
}

/* Long enough for several rounds of lanes, at every alignment and with every kind of rest. */
static void crc32c_of_long_texts_agrees_with_its_table(void **state)
{
    (void)state;
    static uint8_t bytes[16 << 10];
    uint32_t chance = 1;
    for (size_t i = 0; i < sizeof bytes; i++) {
        chance = chance * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(chance >> 24);
    }
    for (size_t from = 0; from < 9; from++)
        for (size_t size = 3000; from + size <= sizeof bytes; size += 61) {
            uint32_t whole = crc32c(7, bytes + from, size);
            assert_int_equal(whole, crc32c_portable(7, bytes + from, size));
            assert_int_equal(whole, crc32c(crc32c(7, bytes + from, 5), bytes + from + 5, size - 5));
        }
}

static void secrets_are_compared_by_every_byte(void **state)
{
    (void)state;
    uint8_t a[40], b[40];
    memset(a, 5, sizeof a);
    memset(b, 5, sizeof b);
    assert_true(bytes_equal_secret(a, b, sizeof a));
    assert_true(bytes_equal_secret(a, b, 0));
    for (size_t i = 0; i < sizeof a; i++) {
        b[i] ^= 0x80;
        assert_false(bytes_equal_secret(a, b, sizeof a));
        for (size_t size = 0; size < sizeof a; size++)
            assert_int_equal(bytes_equal_secret(a, b, size), size <= i);
        b[i] ^= 0x80;
    }
    memory_wipe(a, sizeof a);
    for (size_t i = 0; i < sizeof a; i++) assert_int_equal(a[i], 0);
}

static void base64url_round_trips_every_length(void **state)
{
    (void)state;
    uint8_t bytes[70], back[70];
    char text[100];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 77 + 250);
    for (size_t size = 0; size <= sizeof bytes; size++) {
        struct buf out = buf_over(text, sizeof text);
        base64url_put(&out, bytes, size);
        assert_false(out.overflow);
        assert_int_equal(out.size, (size * 4 + 2) / 3);
        size_t got;
        assert_true(base64url_read(buf_view(&out), back, &got));
        assert_int_equal(got, size);
        assert_memory_equal(back, bytes, size);
        struct buf tight = buf_over(text, out.size == 0 ? 0 : out.size - 1);
        base64url_put(&tight, bytes, size);
        assert_int_equal(tight.overflow, size > 0);
    }
}

/* RFC 4648, section 10. */
static void base64url_gives_the_published_texts(void **state)
{
    (void)state;
    char text[32];
    struct buf out = buf_over(text, sizeof text);
    base64url_put(&out, "foob", 4);
    base64url_put(&out, "fooba", 5);
    base64url_put(&out, "\xfb\xff\xfe", 3);
    assert_true(str_equal(buf_view(&out), STR("Zm9vYgZm9vYmE-__-")));
}

static void base64url_has_one_spelling(void **state)
{
    (void)state;
    uint8_t back[16];
    size_t size;
    assert_true(base64url_read(STR("Zg"), back, &size));
    assert_false(base64url_read(STR("Zh"), back, &size)); /* bits beyond the byte */
    assert_false(base64url_read(STR("Zm_"), back, &size));
    assert_false(base64url_read(STR("Zg=="), back, &size)); /* padding */
    assert_false(base64url_read(STR("Zg+/"), back, &size)); /* the other alphabet */
    assert_false(base64url_read(STR("A"), back, &size));    /* six bits are no byte */
    assert_false(base64url_read(STR("AAAAA"), back, &size));
    assert_false(base64url_read(STR("Zg\n"), back, &size));
    assert_true(base64url_read((struct str){0}, back, &size));
    assert_int_equal(size, 0);
}

/* ---- Ed25519: RFC 8032, 7.1 ---- */

struct ed25519_example {
    const char *secret, *public, *message, *signature; /* hex */
};

static const struct ed25519_example examples[] = {
    {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
     "d25bf5f0595bbe24655141438e7a100b"},
    {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c"
     "387b2eaeb4302aeeb00d291612bb0c00"},
    {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
     "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc659"
     "4a7c15e9716ed28dc027beceea1ec40a"},
};

static size_t from_hex(const char *hex, uint8_t *to)
{
    size_t size = strlen(hex) / 2;
    for (size_t i = 0; i < size; i++) {
        char digits[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        to[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return size;
}

static void ed25519_gives_the_published_signatures(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        uint8_t secret[32], public[32], message[2], right[64], got[64];
        from_hex(examples[i].secret, secret);
        from_hex(examples[i].public, public);
        from_hex(examples[i].signature, right);
        struct str text = str_of((const char *)message, from_hex(examples[i].message, message));
        struct ed25519 *pair = ed25519_from_secret(secret);
        ed25519_public(pair, got);
        assert_memory_equal(got, public, sizeof public);
        assert_true(ed25519_sign(pair, text, got));
        assert_memory_equal(got, right, sizeof right);
        assert_true(ed25519_verify(pair, text, right));
        ed25519_destroy(pair);
    }
    ed25519_destroy(NULL);
}

static void a_signature_with_any_bit_turned_is_refused(void **state)
{
    (void)state;
    uint8_t secret[32] = {7}, signature[64];
    struct ed25519 *pair = ed25519_from_secret(secret);
    assert_true(ed25519_sign(pair, STR("message"), signature));
    assert_true(ed25519_verify(pair, STR("message"), signature));
    assert_false(ed25519_verify(pair, STR("massage"), signature));
    assert_false(ed25519_verify(pair, STR(""), signature));
    for (unsigned bit = 0; bit < 512; bit++) {
        signature[bit / 8] = (uint8_t)(signature[bit / 8] ^ 1u << bit % 8);
        assert_false(ed25519_verify(pair, STR("message"), signature));
        signature[bit / 8] = (uint8_t)(signature[bit / 8] ^ 1u << bit % 8);
    }
    ed25519_destroy(pair);
}

/* S + L verifies by the equation alone, and RFC 8032 (5.1.7) refuses it: a second signature that
 * whoever has the first one could make. */
static void a_signature_has_one_form(void **state)
{
    (void)state;
    static const uint8_t order[32] = {0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58,       0xd6,
                                      0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, [31] = 0x10};
    uint8_t secret[32] = {7}, signature[64];
    struct ed25519 *pair = ed25519_from_secret(secret);
    assert_true(ed25519_sign(pair, STR("message"), signature));
    unsigned carry = 0;
    for (unsigned i = 0; i < 32; i++) {
        carry += (unsigned)signature[32 + i] + order[i];
        signature[32 + i] = (uint8_t)carry;
        carry >>= 8;
    }
    assert_int_equal(carry, 0);
    assert_false(ed25519_verify(pair, STR("message"), signature));
    ed25519_destroy(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ed25519_gives_the_published_signatures),
        cmocka_unit_test(a_signature_with_any_bit_turned_is_refused),
        cmocka_unit_test(a_signature_has_one_form),
        cmocka_unit_test(sha256_gives_the_published_digests),
        cmocka_unit_test(a_digest_in_parts_is_the_digest_of_the_whole),
        cmocka_unit_test(hmac_gives_the_published_codes),
        cmocka_unit_test(hkdf_gives_the_published_keys),
        cmocka_unit_test(hex_is_read_back_and_only_in_lowercase),
        cmocka_unit_test(crc32c_gives_the_published_values),
        cmocka_unit_test(crc32c_chains_and_agrees_with_its_table),
        cmocka_unit_test(crc32c_of_long_texts_agrees_with_its_table),
        cmocka_unit_test(secrets_are_compared_by_every_byte),
        cmocka_unit_test(base64url_round_trips_every_length),
        cmocka_unit_test(base64url_gives_the_published_texts),
        cmocka_unit_test(base64url_has_one_spelling),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
