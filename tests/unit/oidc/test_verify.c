/* test_verify.c - a token is accepted if everything in it is right, and refused if one thing is not: its
 * key, its claims, its times, its person. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include "base/world.h"
#include "sign.h"

static struct arena arena;
static struct fault fault;
static struct documents documents;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 1 << 14, 4 << 20);
    documents = (struct documents){.number = 1, .keys = sample_keys(&arena)};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    jwks_destroy(documents.keys);
    arena_fini(&arena);
    return 0;
}

#define HEADER "{\"alg\":\"EdDSA\",\"kid\":\"a\"}"
#define TIMES "\"iat\":" NOW ",\"exp\":" LATER
#define ID "\"iss\":\"" ISSUER "\",\"aud\":\"writ\",\"nonce\":\"n-1\",\"sub\":\"carol\"," TIMES
#define WHO "\"groups\":[\"finance\"]"

static enum err verify(const struct oidc_settings *s, const char *header, const char *claims,
                       const char *nonce, struct identity *ret)
{
    char text[LIMIT_OIDC_TOKEN_BYTES];
    arena_reset(&arena);
    struct str token = sign_token(text, sizeof text, 1, header, claims);
    return verify_token(s, &documents, arena_copy(&arena, token), str_from(nonce), NOW_MS, &arena,
                        ret, &fault);
}

struct row {
    const char *claims;
    enum err err;
    const char *told;
};

static void try_rows(const struct row *rows, size_t count, const char *header, const char *nonce)
{
    struct identity who;
    for (size_t i = 0; i < count; i++) {
        enum err err = verify(&sample_settings, header, rows[i].claims, nonce, &who);
        if (err != rows[i].err || (err != ERR_OK && strstr(fault.text, rows[i].told) == NULL))
            fail_msg("%s: %d %s", rows[i].claims, err, err == ERR_OK ? "" : fault.text);
    }
}
#define ROWS(rows) (rows), sizeof(rows) / sizeof *(rows)

static void an_id_token_is_for_this_sign_in_only(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"{" ID "," WHO "}", ERR_OK, ""},
        {"{" ID ",\"groups\":\"finance\"}", ERR_OK, ""},
        {"{" ID "," WHO ",\"azp\":\"writ\"}", ERR_OK, ""},
        {"{\"iss\":\"" ISSUER "\",\"aud\":[\"writ\"],\"nonce\":\"n-1\",\"sub\":\"carol\"," TIMES
         "," WHO "}",
         ERR_OK, ""},
        {"{\"iss\":\"" ISSUER "\",\"aud\":[\"x\",\"writ\"],\"azp\":\"writ\",\"nonce\":\"n-1\","
         "\"sub\":\"carol\"," TIMES "," WHO "}",
         ERR_OK, ""},
        {"{\"iss\":\"" ISSUER
         "\",\"aud\":[\"x\",\"writ\"],\"nonce\":\"n-1\",\"sub\":\"carol\"," TIMES "," WHO "}",
         ERR_UNAUTHENTICATED, "several audiences and no azp"},
        {"{" ID "," WHO ",\"azp\":\"other\"}", ERR_UNAUTHENTICATED, "azp is another client"},
        {"{" ID "," WHO ",\"azp\":7}", ERR_UNAUTHENTICATED, "azp is not a text"},
        {"{\"iss\":\"" ISSUER "/\",\"aud\":\"writ\",\"nonce\":\"n-1\",\"sub\":\"carol\"," TIMES
         "," WHO "}",
         ERR_UNAUTHENTICATED, "issuer"},
        {"{\"iss\":[\"" ISSUER "\"],\"aud\":\"writ\",\"nonce\":\"n-1\",\"sub\":\"carol\"," TIMES
         "," WHO "}",
         ERR_UNAUTHENTICATED, "issuer"},
        {"{\"aud\":\"writ\",\"nonce\":\"n-1\",\"sub\":\"carol\"," TIMES "," WHO "}",
         ERR_UNAUTHENTICATED, "issuer"},
        {"{\"iss\":\"" ISSUER "\",\"aud\":\"Writ\",\"nonce\":\"n-1\",\"sub\":\"carol\"," TIMES
         "," WHO "}",
         ERR_UNAUTHENTICATED, "another audience"},
        {"{\"iss\":\"" ISSUER "\",\"aud\":\"api\",\"nonce\":\"n-1\",\"sub\":\"carol\"," TIMES
         "," WHO "}",
         ERR_UNAUTHENTICATED, "another audience"},
        {"{\"iss\":\"" ISSUER "\",\"aud\":[],\"nonce\":\"n-1\",\"sub\":\"carol\"," TIMES "," WHO
         "}",
         ERR_UNAUTHENTICATED, "another audience"},
        {"{\"iss\":\"" ISSUER "\",\"aud\":[\"writ\",7],\"azp\":\"writ\",\"nonce\":\"n-1\","
         "\"sub\":\"carol\"," TIMES "," WHO "}",
         ERR_UNAUTHENTICATED, "aud is not"},
        {"{\"iss\":\"" ISSUER "\",\"nonce\":\"n-1\",\"sub\":\"carol\"," TIMES "," WHO "}",
         ERR_UNAUTHENTICATED, "another audience"},
        {"{\"iss\":\"" ISSUER "\",\"aud\":\"writ\",\"nonce\":\"n-2\",\"sub\":\"carol\"," TIMES
         "," WHO "}",
         ERR_UNAUTHENTICATED, "nonce"},
        {"{\"iss\":\"" ISSUER "\",\"aud\":\"writ\",\"nonce\":\"n-12\",\"sub\":\"carol\"," TIMES
         "," WHO "}",
         ERR_UNAUTHENTICATED, "nonce"},
        {"{\"iss\":\"" ISSUER "\",\"aud\":\"writ\",\"sub\":\"carol\"," TIMES "," WHO "}",
         ERR_UNAUTHENTICATED, "nonce"},
        {"{\"iss\":\"" ISSUER "\",\"aud\":\"writ\",\"nonce\":\"n-1\"," TIMES "," WHO "}",
         ERR_UNAUTHENTICATED, "sub is missing"},
        {"{\"iss\":\"" ISSUER "\",\"aud\":\"writ\",\"nonce\":\"n-1\",\"sub\":\"\"," TIMES "," WHO
         "}",
         ERR_UNAUTHENTICATED, "sub is missing"},
        {"{\"iss\":\"" ISSUER "\",\"aud\":\"writ\",\"nonce\":\"n-1\",\"sub\":7," TIMES "," WHO "}",
         ERR_UNAUTHENTICATED, "sub is missing"},
    };
    try_rows(ROWS(rows), HEADER, "n-1");
}

#define PARTS "\"iss\":\"" ISSUER "\",\"aud\":\"writ\",\"nonce\":\"n-1\",\"sub\":\"carol\"," WHO

static void times_may_differ_by_the_skew_only(void **state)
{
    (void)state;
    /* now is 1795166400.25, the skew 60 s */
    static const struct row rows[] = {
        {"{" PARTS ",\"iat\":1795166400,\"exp\":1795166341}", ERR_OK, ""},
        {"{" PARTS ",\"iat\":1795166400,\"exp\":1795166340.5}", ERR_OK, ""},
        {"{" PARTS ",\"iat\":1795166400,\"exp\":1795166340}", ERR_CREDENTIAL_EXPIRED, "expired"},
        {"{" PARTS ",\"iat\":1795166460,\"exp\":" LATER "}", ERR_OK, ""},
        {"{" PARTS ",\"iat\":1795166461,\"exp\":" LATER "}", ERR_UNAUTHENTICATED, "clock is ahead"},
        {"{" PARTS "," TIMES ",\"nbf\":1795166460}", ERR_OK, ""},
        {"{" PARTS "," TIMES ",\"nbf\":1795166461}", ERR_UNAUTHENTICATED, "clock is ahead"},
        {"{" PARTS "," TIMES ",\"nbf\":\"1\"}", ERR_UNAUTHENTICATED, "nbf"},
        {"{" PARTS ",\"iat\":" NOW "}", ERR_UNAUTHENTICATED, "exp is missing"},
        {"{" PARTS ",\"iat\":" NOW ",\"exp\":\"" LATER "\"}", ERR_UNAUTHENTICATED, "exp"},
        {"{" PARTS ",\"iat\":" NOW ",\"exp\":-1}", ERR_UNAUTHENTICATED, "exp"},
        {"{" PARTS ",\"iat\":" NOW ",\"exp\":1e300}", ERR_UNAUTHENTICATED, "exp"},
        {"{" PARTS ",\"iat\":" NOW ",\"exp\":null}", ERR_UNAUTHENTICATED, "exp"},
        {"{" PARTS ",\"exp\":" LATER "}", ERR_UNAUTHENTICATED, "iat is missing"},
    };
    try_rows(ROWS(rows), HEADER, "n-1");
}

static void a_bearer_token_is_for_the_api(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"{\"iss\":\"" ISSUER "\",\"aud\":\"api\",\"sub\":\"carol\"," TIMES "," WHO "}", ERR_OK,
         ""},
        {"{\"iss\":\"" ISSUER "\",\"aud\":[\"api\",\"x\"],\"azp\":\"app\",\"sub\":\"carol\"," TIMES
         "," WHO "}",
         ERR_OK, ""},
        {"{\"iss\":\"" ISSUER "\",\"aud\":[\"api\",\"x\"],\"sub\":\"carol\"," TIMES "," WHO "}",
         ERR_UNAUTHENTICATED, "several audiences"},
        {"{" ID "," WHO "}", ERR_UNAUTHENTICATED, "another audience"}, /* an ID token */
    };
    try_rows(ROWS(rows), HEADER, NULL);
    try_rows(rows, 1, "{\"alg\":\"EdDSA\",\"kid\":\"a\",\"typ\":\"at+jwt\"}", NULL);
}

static void another_type_of_token_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        enum err as_id, as_bearer;
    } cases[] = {
        {"JWT", ERR_OK, ERR_OK},
        {"application/jwt", ERR_OK, ERR_OK},
        {"at+jwt", ERR_UNAUTHENTICATED, ERR_OK},
        {"application/at+JWT", ERR_UNAUTHENTICATED, ERR_OK},
        {"logout+jwt", ERR_UNAUTHENTICATED, ERR_UNAUTHENTICATED},
        {"dpop+jwt", ERR_UNAUTHENTICATED, ERR_UNAUTHENTICATED},
        {"", ERR_UNAUTHENTICATED, ERR_UNAUTHENTICATED},
    };
    struct identity who;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char header[128];
        snprintf(header, sizeof header, "{\"alg\":\"EdDSA\",\"kid\":\"a\",\"typ\":\"%s\"}",
                 cases[i].type);
        assert_int_equal(verify(&sample_settings, header, "{" ID "," WHO "}", "n-1", &who),
                         cases[i].as_id);
        assert_int_equal(verify(&sample_settings, header,
                                "{\"iss\":\"" ISSUER "\",\"aud\":\"api\",\"sub\":\"carol\"," TIMES
                                "," WHO "}",
                                NULL, &who),
                         cases[i].as_bearer);
    }
}

static void a_signature_or_key_that_is_not_the_providers_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        enum err err;
    } cases[] = {
        {"{\"alg\":\"EdDSA\",\"kid\":\"b\"}", ERR_UNAUTHENTICATED},
        {"{\"alg\":\"EdDSA\",\"kid\":\"c\"}", ERR_NOT_FOUND},
        {"{\"alg\":\"ES256\",\"kid\":\"a\"}", ERR_UNAUTHENTICATED},
        {"{\"alg\":\"HS256\",\"kid\":\"a\"}", ERR_UNAUTHENTICATED},
        {"{\"alg\":\"none\"}", ERR_UNAUTHENTICATED},
    };
    struct identity who;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (verify(&sample_settings, cases[i].header, "{" ID "," WHO "}", "n-1", &who) !=
            cases[i].err)
            fail_msg("%s: %s", cases[i].header, fault.text);
}

/* ---- people ---- */

static void claims_become_a_person_with_roles(void **state)
{
    (void)state;
    struct identity who;
    assert_int_equal(verify(&sample_settings, HEADER,
                            "{" ID ",\"groups\":[\"audit\",\"ops\",\"x\"],\"email\":\"c@x\"}",
                            "n-1", &who),
                     ERR_OK);
    assert_true(str_equal(who.person, STR("carol")) && str_equal(who.tenant, STR("acme")));
    assert_int_equal(who.roles, ROLE_REVIEWER | ROLE_AUDITOR);
    assert_int_equal(who.claim_count, 3);
    assert_true(str_equal(who.claims[2].name, STR("groups")) &&
                str_equal(who.claims[2].value, STR("x")));
    assert_int_equal(who.expires_at, UINT64_C(1795166700000));
}

static void a_person_without_a_role_name_or_tenant_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *claims;   /* beside ID */
        const char *person;   /* claim */
        const char *tenant;   /* claim */
        const char *reviewer; /* values */
        const char *told;     /* "": accepted */
    } cases[] = {
        {"\"groups\":[\"staff\"]", "sub", "", "finance", "no value that the options roles"},
        {"\"groups\":[]", "sub", "", "finance", "no value"},
        {"\"groups\":[\"*\"]", "sub", "", "finance", "no value"},
        {"\"groups\":[\"finance, ops\"]", "sub", "", "finance, ops", "no value"},
        {"\"groups\":[\"\"]", "sub", "", ",", "no value"},
        {"\"x\":1", "sub", "", "finance", "no value"},
        {"\"x\":1", "sub", "", "*", ""},
        {"\"groups\":{\"finance\":true}", "sub", "", "finance", "a list of texts"},
        {"\"groups\":[\"finance\",7]", "sub", "", "finance", "a list of texts"},
        {"\"groups\":[\"finance\",\"\"]", "sub", "", "finance", "must not be empty"},
        {WHO ",\"email\":\"c@x\"", "email", "", "finance", "email_verified is not true"},
        {WHO ",\"email\":\"c@x\",\"email_verified\":false", "email", "", "finance", "not true"},
        {WHO ",\"email\":\"c@x\",\"email_verified\":\"true\"", "email", "", "finance", "not true"},
        {WHO ",\"email\":\"c@x\",\"email_verified\":true", "email", "", "finance", ""},
        {WHO ",\"email_verified\":true", "email", "", "finance", "email is missing"},
        {WHO ",\"name\":\"*\"", "name", "", "finance", "has a *"},
        {WHO ",\"name\":\"ca*\"", "name", "", "finance", "has a *"},
        {WHO ",\"name\":\"a\\nb\"", "name", "", "finance", "control characters"},
        {WHO ",\"name\":[\"carol\"]", "name", "", "finance", "must be a text"},
        {WHO, "sub", "org", "finance", "org is missing"},
        {WHO ",\"org\":\"*\"", "sub", "org", "finance", "not one tenant"},
        {WHO ",\"org\":\"\"", "sub", "org", "finance", "must be a text"},
        {WHO ",\"org\":\"acme\"", "sub", "org", "finance", ""},
    };
    struct identity who;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct oidc_settings s = sample_settings;
        char claims[1024];
        s.person_claim = cases[i].person;
        s.tenant = *cases[i].tenant != '\0' ? "" : "acme";
        s.tenant_claim = cases[i].tenant;
        s.reviewer = cases[i].reviewer;
        snprintf(claims, sizeof claims, "{" ID ",%s}", cases[i].claims);
        enum err err = verify(&s, HEADER, claims, "n-1", &who);
        bool is_right = *cases[i].told == '\0' ? err == ERR_OK
                                               : err == ERR_IDENTITY_REFUSED &&
                                                     strstr(fault.text, cases[i].told) != NULL;
        if (!is_right) fail_msg("%s: %d %s", cases[i].claims, err, err == ERR_OK ? "" : fault.text);
    }
}

static void a_person_with_too_many_groups_is_refused(void **state)
{
    (void)state;
    char claims[4096];
    struct identity who;
    for (int count = LIMIT_CLAIMS; count <= LIMIT_CLAIMS + 1; count++) {
        struct buf b = buf_over(claims, sizeof claims - 1);
        buf_printf(&b, "{" ID ",\"groups\":[\"finance\"");
        for (int i = 1; i < count; i++) buf_printf(&b, ",\"g%d\"", i);
        buf_put_literal(&b, "]}");
        claims[b.size] = '\0';
        assert_int_equal(verify(&sample_settings, HEADER, claims, "n-1", &who),
                         count > LIMIT_CLAIMS ? ERR_IDENTITY_REFUSED : ERR_OK);
    }
}

/* ---- ages ---- */

static void keys_are_used_for_a_day_and_asked_for_every_ten_seconds(void **state)
{
    (void)state;
    const uint64_t second = UINT64_C(1000000000), day = 24 * 3600 * second, then = 5 * day;
    assert_true(documents_hold(then, then));
    assert_true(documents_hold(then, then + day - 1));
    assert_false(documents_hold(then, then + day));
    assert_true(documents_may_ask(0, then));
    assert_false(documents_may_ask(then, then + 10 * second - 1));
    assert_true(documents_may_ask(then, then + 10 * second));
}

static struct jwks *one_key(uint8_t secret, const char *more)
{
    char bytes[512];
    struct buf b = buf_over(bytes, sizeof bytes);
    struct jwks *keys = NULL;
    buf_put_literal(&b, "{\"keys\":[");
    put_jwk(&b, secret, more);
    buf_put_literal(&b, "]}");
    assert_int_equal(jwks_read(buf_view(&b), &arena, &keys, &fault), ERR_OK);
    return keys;
}

/* A provider whose keys are too old is not usable, whatever was verified under them. */
static void old_keys_and_replaced_keys_verify_nothing(void **state)
{
    (void)state;
    static struct bearers bearers;
    struct provider p;
    struct identity who;
    char text[1024];
    bool may_change;
    const uint64_t now_ns = world_monotonic_ns();
    const struct discovery discovery = {0};
    provider_init(&p, &sample_settings);
    bearers_init(&bearers);
    struct str token =
        sign_token(text, sizeof text, 1, HEADER,
                   "{\"iss\":\"" ISSUER "\",\"aud\":\"api\",\"sub\":\"carol\"," TIMES "," WHO "}");
#define TRY() bearers_verify(&bearers, &p, 0, token, NOW_MS, &arena, &who, &may_change, &fault)
    assert_int_equal(TRY(), ERR_PROVIDER_UNAVAILABLE); /* not fetched yet */
    assert_true(may_change);
    provider_fetched(&p, &discovery, one_key(1, ",\"kid\":\"a\""), now_ns, NOW_MS);
    for (int i = 0; i < 3; i++) assert_int_equal(TRY(), ERR_OK); /* the first is kept */
    provider_failed(&p, "it is away");
    assert_int_equal(TRY(), ERR_OK);
    assert_int_equal(
        bearers_verify(&bearers, &p, 0, token, NOW_MS + 361000, &arena, &who, &may_change, &fault),
        ERR_CREDENTIAL_EXPIRED);
    provider_fetched(&p, &discovery, one_key(2, ",\"kid\":\"b\""), now_ns, NOW_MS);
    assert_int_equal(TRY(), ERR_NOT_FOUND); /* its key was withdrawn */
    provider_fetched(&p, &discovery, one_key(2, ",\"kid\":\"a\""), now_ns, NOW_MS);
    assert_int_equal(TRY(), ERR_UNAUTHENTICATED);
    p.documents->fetched_ns = now_ns - 25 * 3600 * UINT64_C(1000000000);
    assert_int_equal(TRY(), ERR_PROVIDER_UNAVAILABLE);
    assert_non_null(strstr(fault.text, "older than 24 h"));
#undef TRY
    bearers_fini(&bearers);
    provider_fini(&p);
}

static void so_many_bearer_tokens_are_kept(void **state)
{
    (void)state;
    static struct bearers bearers;
    struct provider p;
    struct identity who;
    char text[1024], claims[512];
    bool may_change;
    const struct discovery discovery = {0};
    provider_init(&p, &sample_settings);
    bearers_init(&bearers);
    provider_fetched(&p, &discovery, one_key(1, ",\"kid\":\"a\""), world_monotonic_ns(), NOW_MS);
    for (int i = 0; i <= LIMIT_OIDC_BEARERS; i++) {
        snprintf(claims, sizeof claims,
                 "{\"iss\":\"" ISSUER "\",\"aud\":\"api\",\"sub\":\"person-%d\"," TIMES "," WHO "}",
                 i);
        struct str token = sign_token(text, sizeof text, 1, HEADER, claims);
        assert_int_equal(
            bearers_verify(&bearers, &p, 0, token, NOW_MS, &arena, &who, &may_change, &fault),
            ERR_OK);
        arena_reset(&arena);
    }
    for (int i = 0; i < 2; i++) { /* the oldest has made room for the newest */
        snprintf(claims, sizeof claims,
                 "{\"iss\":\"" ISSUER "\",\"aud\":\"api\",\"sub\":\"person-%d\"," TIMES "," WHO "}",
                 i);
        struct str token = sign_token(text, sizeof text, 1, HEADER, claims);
        assert_int_equal(bearers_have(&bearers, 0, token), i == 1);
    }
    bearers_fini(&bearers);
    provider_fini(&p);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(an_id_token_is_for_this_sign_in_only),
        CASE(times_may_differ_by_the_skew_only),
        CASE(a_bearer_token_is_for_the_api),
        CASE(another_type_of_token_is_refused),
        CASE(a_signature_or_key_that_is_not_the_providers_is_refused),
        CASE(claims_become_a_person_with_roles),
        CASE(a_person_without_a_role_name_or_tenant_is_refused),
        CASE(a_person_with_too_many_groups_is_refused),
        CASE(keys_are_used_for_a_day_and_asked_for_every_ten_seconds),
        CASE(old_keys_and_replaced_keys_verify_nothing),
        CASE(so_many_bearer_tokens_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
