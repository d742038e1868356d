/* test_public_key.c - the examples of RFC 7515 (A.2, A.3) and RFC 8037 (A.4) verify; with any byte
 * changed, or under another key, they do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include "crypto/crypto.h"
#include "crypto/public_key.h"

enum { ROOM = 600 };

struct bytes {
    uint8_t list[ROOM];
    size_t size;
};

static struct str view(const struct bytes *b) { return str_of((const char *)b->list, b->size); }

static struct bytes decode(const char *text)
{
    struct bytes b;
    assert_true(strlen(text) * 3 / 4 <= ROOM);
    assert_true(base64url_read(str_from(text), b.list, &b.size));
    return b;
}

#define RSA_N                                                                                      \
    "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4" \
    "d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5re" \
    "xMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxX" \
    "FvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"
#define EC_X "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"
#define EC_Y "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
#define ED_X "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
#define CLAIMS                                                                                     \
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVl" \
    "fQ"

static struct public_key *make(enum public_key_kind kind)
{
    struct bytes n = decode(RSA_N), e = decode("AQAB"), x = decode(EC_X), y = decode(EC_Y),
                 ed = decode(ED_X);
    struct public_key *k = kind == PUBLIC_KEY_RSA    ? public_key_rsa(view(&n), view(&e))
                           : kind == PUBLIC_KEY_P256 ? public_key_p256(view(&x), view(&y))
                                                     : public_key_ed25519(view(&ed));
    assert_non_null(k);
    assert_int_equal(public_key_kind(k), kind);
    return k;
}

static const struct {
    enum public_key_kind kind;
    const char *message, *signature;
} examples[] = {
    {PUBLIC_KEY_RSA, "eyJhbGciOiJSUzI1NiJ9." CLAIMS,
     "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5"
     "jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb"
     "1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QO"
     "YEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"},
    {PUBLIC_KEY_P256, "eyJhbGciOiJFUzI1NiJ9." CLAIMS,
     "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"},
    {PUBLIC_KEY_ED25519, "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
     "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg"},
};
#define EXAMPLES (sizeof examples / sizeof *examples)

static void the_examples_of_the_standards_verify(void **state)
{
    (void)state;
    for (size_t i = 0; i < EXAMPLES; i++) {
        struct public_key *k = make(examples[i].kind);
        struct bytes s = decode(examples[i].signature);
        if (!public_key_verify(k, str_from(examples[i].message), view(&s)))
            fail_msg("example %zu", i);
        public_key_destroy(k);
    }
}

static void another_byte_in_message_or_signature_does_not_verify(void **state)
{
    (void)state;
    for (size_t i = 0; i < EXAMPLES; i++) {
        struct public_key *k = make(examples[i].kind);
        struct bytes s = decode(examples[i].signature);
        char message[400];
        size_t size = strlen(examples[i].message);
        memcpy(message, examples[i].message, size);
        for (size_t at = 0; at < s.size; at++) {
            s.list[at] ^= 1;
            assert_false(public_key_verify(k, str_of(message, size), view(&s)));
            s.list[at] ^= 1;
        }
        for (size_t at = 0; at < size; at += 7) {
            message[at] ^= 1;
            assert_false(public_key_verify(k, str_of(message, size), view(&s)));
            message[at] ^= 1;
        }
        for (size_t shorter = 0; shorter < s.size; shorter += 9)
            assert_false(
                public_key_verify(k, str_of(message, size), str_of((const char *)s.list, shorter)));
        s.list[s.size] = 0;
        assert_false(
            public_key_verify(k, str_of(message, size), str_of((const char *)s.list, s.size + 1)));
        public_key_destroy(k);
    }
}

static void a_signature_of_another_kind_of_key_does_not_verify(void **state)
{
    (void)state;
    for (size_t i = 0; i < EXAMPLES; i++)
        for (size_t other = 0; other < EXAMPLES; other++) {
            if (i == other) continue;
            struct public_key *k = make(examples[other].kind);
            struct bytes s = decode(examples[i].signature);
            assert_false(public_key_verify(k, str_from(examples[i].message), view(&s)));
            public_key_destroy(k);
        }
}

static void zeroes_are_no_signature(void **state)
{
    (void)state;
    static const char zeroes[RSA_BITS_MAX / 8];
    static const size_t sizes[] = {0, 1, 64, 256, sizeof zeroes};
    for (size_t i = 0; i < EXAMPLES; i++) {
        struct public_key *k = make(examples[i].kind);
        for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++)
            assert_false(
                public_key_verify(k, str_from(examples[i].message), str_of(zeroes, sizes[n])));
        public_key_destroy(k);
    }
}

static void a_key_out_of_its_range_is_refused(void **state)
{
    (void)state;
    struct bytes n = decode(RSA_N), e = decode("AQAB"), x = decode(EC_X), y = decode(EC_Y),
                 ed = decode(ED_X);
    char large[RSA_BITS_MAX / 8 + 1];
    memset(large, 0xFF, sizeof large);
    assert_null(public_key_rsa(str_of((const char *)n.list, n.size - 1), view(&e))); /* 2040 bits */
    assert_null(public_key_rsa(str_of(large, sizeof large), view(&e)));
    assert_null(public_key_rsa(view(&n), STR("\x01")));
    assert_null(public_key_rsa(view(&n), STR("\x04")));
    assert_null(public_key_rsa(view(&n), STR("")));
    assert_null(public_key_rsa(view(&n), STR("\x01\x01\x01\x01\x01")));
    assert_null(public_key_rsa((struct str){0}, view(&e)));
    n.list[n.size - 1] ^= 1; /* even */
    assert_null(public_key_rsa(view(&n), view(&e)));
    assert_null(public_key_p256(view(&x), view(&x)));
    assert_null(public_key_p256(view(&y), view(&x)));
    assert_null(public_key_p256(str_of((const char *)x.list, 31), view(&y)));
    assert_null(public_key_p256(view(&x), (struct str){0}));
    char zeroes[P256_BYTES] = {0};
    assert_null(public_key_p256(str_of(zeroes, sizeof zeroes), str_of(zeroes, sizeof zeroes)));
    assert_null(public_key_ed25519(str_of((const char *)ed.list, 31)));
    assert_null(public_key_ed25519((struct str){0}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_standards_verify),
        cmocka_unit_test(another_byte_in_message_or_signature_does_not_verify),
        cmocka_unit_test(a_signature_of_another_kind_of_key_does_not_verify),
        cmocka_unit_test(zeroes_are_no_signature),
        cmocka_unit_test(a_key_out_of_its_range_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
