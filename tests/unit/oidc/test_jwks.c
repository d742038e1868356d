/* test_jwks.c - which keys of a set are used, and which key a token may mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include "sign.h"

static struct arena arena;
static struct fault fault;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 1 << 14, 4 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

#define ED                                                                                         \
    "\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\""
#define EC                                                                                         \
    "\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","      \
    "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\""

static void keys_that_are_not_for_our_signatures_are_skipped(void **state)
{
    (void)state;
    static const char *const skipped[] = {
        "{\"kty\":\"oct\",\"k\":\"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0i"
        "PS4hcgUuTwjAzZr1Z9CAow\"}",
        "{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}", /* 17 bits */
        "{\"kty\":\"RSA\",\"e\":\"AQAB\"}",
        "{\"kty\":\"EC\",\"crv\":\"P-384\",\"x\":\"AA\",\"y\":\"AA\"}",
        "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
        "\"y\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\"}", /* not on the curve */
        "{\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}",
        "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AAAA\"}",
        "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":7}",
        "{" ED ",\"use\":\"enc\"}",
        "{" ED ",\"use\":7}",
        "{" ED ",\"alg\":\"HS256\"}",
        "{" ED ",\"alg\":\"RS256\"}",
        "{" ED ",\"alg\":\"none\"}",
        "{" ED ",\"key_ops\":[\"encrypt\"]}",
        "{" ED ",\"kid\":7}",
        "{" ED ",\"d\":\"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A\"}", /* a private key */
        "{" EC ",\"alg\":\"ES384\"}",
        "{}",
        "7",
        "null",
    };
    for (size_t i = 0; i < sizeof skipped / sizeof *skipped; i++) {
        char text[1024];
        struct jwks *keys = NULL;
        snprintf(text, sizeof text, "{\"keys\":[%s,{" EC ",\"use\":\"sig\",\"alg\":\"ES256\"}]}",
                 skipped[i]);
        if (jwks_read(str_from(text), &arena, &keys, &fault) != ERR_OK)
            fail_msg("%s: %s", skipped[i], fault.text);
        if (jwks_count(keys) != 1) fail_msg("%s", skipped[i]);
        jwks_destroy(keys);
        arena_reset(&arena);
    }
}

static void a_set_that_cannot_be_used_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "[]",
        "{}",
        "{\"keys\":{}}",
        "{\"keys\":[]}",
        "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AA\"}]}",
        "{\"keys\":[{" ED "}],\"keys\":[{" ED "}]}",
        "{\"keys\":[{" ED ",\"kid\":\"a\",\"kid\":\"b\"}]}",
        "{\"keys\":[{" ED "}]} x",
        "{\"keys\":[{" ED ",\"kid\":\"a\"},{" ED ",\"kid\":\"a\"}]}",
        "{\"keys\":[{" ED "},{" ED "}]}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct jwks *keys = NULL;
        enum err err = jwks_read(str_from(wrong[i]), &arena, &keys, &fault);
        if (err != ERR_PROVIDER_UNAVAILABLE) fail_msg("%s: %d", wrong[i], err);
        assert_null(keys);
    }
}

static void no_more_keys_are_taken_than_the_limit(void **state)
{
    (void)state;
    char bytes[16 << 10];
    for (int count = LIMIT_OIDC_KEYS; count <= LIMIT_OIDC_KEYS + 1; count++) {
        struct buf b = buf_over(bytes, sizeof bytes);
        struct jwks *keys = NULL;
        buf_put_literal(&b, "{\"keys\":[");
        for (int i = 0; i < count; i++)
            buf_printf(&b, "%s{" ED ",\"kid\":\"%d\"}", i > 0 ? "," : "", i);
        buf_put_literal(&b, "]}");
        assert_false(b.overflow);
        enum err err = jwks_read(buf_view(&b), &arena, &keys, &fault);
        assert_int_equal(err, count > LIMIT_OIDC_KEYS ? ERR_PROVIDER_UNAVAILABLE : ERR_OK);
        jwks_destroy(err == ERR_OK ? keys : NULL);
        arena_reset(&arena);
    }
}

static void a_token_finds_its_key_by_kid(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        uint8_t secret;
        enum jws_outcome outcome;
    } cases[] = {
        {"{\"alg\":\"EdDSA\",\"kid\":\"a\"}", 1, JWS_VERIFIED},
        {"{\"alg\":\"EdDSA\",\"kid\":\"b\"}", 2, JWS_VERIFIED},
        {"{\"alg\":\"Ed25519\",\"kid\":\"b\"}", 2, JWS_VERIFIED},
        {"{\"alg\":\"EdDSA\",\"kid\":\"a\"}", 2, JWS_FORGED},
        {"{\"alg\":\"EdDSA\",\"kid\":\"c\"}", 1, JWS_UNKNOWN_KEY},
        {"{\"alg\":\"EdDSA\",\"kid\":\"\"}", 1, JWS_UNKNOWN_KEY},
        {"{\"alg\":\"EdDSA\"}", 1, JWS_UNKNOWN_KEY},          /* it could be either */
        {"{\"alg\":\"ES256\",\"kid\":\"a\"}", 1, JWS_FORGED}, /* not the key's algorithm */
        {"{\"alg\":\"RS256\",\"kid\":\"a\"}", 1, JWS_FORGED},
        {"{\"alg\":\"RS256\"}", 1, JWS_UNKNOWN_KEY},
    };
    struct jwks *keys = sample_keys(&arena);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        struct jws jws;
        struct str token =
            sign_token(text, sizeof text, cases[i].secret, cases[i].header, "{\"sub\":\"a\"}");
        if (jws_read(token, &arena, &jws, &fault) != ERR_OK) fail_msg("%s", fault.text);
        if (jws_verify(&jws, keys) != cases[i].outcome) fail_msg("%s", cases[i].header);
    }
    jwks_destroy(keys);
}

static void a_token_of_another_form_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header, *claims, *told;
    } cases[] = {
        {"{\"alg\":\"none\"}", "{}", "alg"},
        {"{\"alg\":\"None\"}", "{}", "alg"},
        {"{\"alg\":\"HS256\",\"kid\":\"a\"}", "{}", "alg"},
        {"{\"alg\":\"RS384\",\"kid\":\"a\"}", "{}", "alg"},
        {"{\"alg\":\"PS256\",\"kid\":\"a\"}", "{}", "alg"},
        {"{\"alg\":[\"EdDSA\"],\"kid\":\"a\"}", "{}", "alg"},
        {"{\"kid\":\"a\"}", "{}", "alg"},
        {"{\"alg\":\"EdDSA\",\"kid\":7}", "{}", "kid"},
        {"{\"alg\":\"EdDSA\",\"typ\":7}", "{}", "typ"},
        {"{\"alg\":\"EdDSA\",\"crit\":[\"exp\"],\"exp\":1}", "{}", "crit"},
        {"{\"alg\":\"EdDSA\",\"b64\":false}", "{}", "b64"},
        {"{\"alg\":\"EdDSA\",\"alg\":\"EdDSA\"}", "{}", "header"},
        {"[\"EdDSA\"]", "{}", "header"},
        {"EdDSA", "{}", "header"},
        {"", "{}", "header"},
        {"{\"alg\":\"EdDSA\"}", "[]", "payload"},
        {"{\"alg\":\"EdDSA\"}", "", "payload"},
        {"{\"alg\":\"EdDSA\"}", "{\"sub\":\"a\",\"sub\":\"b\"}", "payload"},
        {"{\"alg\":\"EdDSA\"}", "{\"sub\":\"a\"}x", "payload"},
    };
    char text[2 * LIMIT_OIDC_TOKEN_BYTES];
    struct jws jws;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str token = sign_token(text, sizeof text, 1, cases[i].header, cases[i].claims);
        if (jws_read(token, &arena, &jws, &fault) != ERR_UNAUTHENTICATED ||
            strstr(fault.text, cases[i].told) == NULL)
            fail_msg("%s %s: %s", cases[i].header, cases[i].claims, fault.text);
    }
    static const char *const texts[] = {"",
                                        ".",
                                        "..",
                                        "...",
                                        "e30",
                                        "e30.e30",
                                        "e30.e30.",
                                        "eyJhbGciOiJFZERTQSJ9.e30.",
                                        "eyJhbGciOiJFZERTQSJ9.e30.AAAA.AAAA",
                                        "eyJhbGciOiJFZERTQSJ9.e30.AAAA=",
                                        "eyJhbGciOiJFZERTQSJ9=.e30.AAAA",
                                        "eyJhbGciOiJFZERTQSJ9.e30.A",
                                        " eyJhbGciOiJFZERTQSJ9.e30.AA",
                                        "e30.e30.e30.e30.e30" /* the form of an encrypted one */};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (jws_read(str_from(texts[i]), &arena, &jws, &fault) != ERR_UNAUTHENTICATED)
            fail_msg("%s", texts[i]);
    char claims[LIMIT_OIDC_TOKEN_BYTES];
    memset(claims, ' ', sizeof claims);
    memcpy(claims, "{}", 2);
    claims[sizeof claims - 1] = '\0';
    struct str token = sign_token(text, sizeof text, 1, "{\"alg\":\"EdDSA\"}", claims);
    assert_int_equal(jws_read(token, &arena, &jws, &fault), ERR_UNAUTHENTICATED);
    assert_non_null(strstr(fault.text, "8 KiB"));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(keys_that_are_not_for_our_signatures_are_skipped),
        CASE(a_set_that_cannot_be_used_is_refused),
        CASE(no_more_keys_are_taken_than_the_limit),
        CASE(a_token_finds_its_key_by_kid),
        CASE(a_token_of_another_form_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
