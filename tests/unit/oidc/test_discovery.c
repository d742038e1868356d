/* test_discovery.c - which discovery documents and which options of a provider are refused, and with
 * which words. */
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

#define SOME "\"authorization_endpoint\":\"" ISSUER "/auth\",\"jwks_uri\":\"" ISSUER "/keys\""
#define ALL "{\"issuer\":\"" ISSUER "\"," SOME ",\"token_endpoint\":\"" ISSUER "/token\""

static void a_document_needs_its_issuer_and_https_endpoints(void **state)
{
    (void)state;
    static const struct {
        const char *text, *told; /* told "": accepted */
    } cases[] = {
        {ALL "}", ""},
        {ALL ",\"end_session_endpoint\":\"" ISSUER "/end\"}", ""},
        {ALL ",\"end_session_endpoint\":\"http://a/\"}", "end_session_endpoint must be https://"},
        {ALL ",\"end_session_endpoint\":null}", "end_session_endpoint is missing"},
        {"", "strict JSON"},
        {"[]", "strict JSON"},
        {"{}", "issuer is not the configured one"},
        {"{\"issuer\":\"" ISSUER "/\"," SOME ",\"token_endpoint\":\"" ISSUER "/token\"}", "issuer"},
        {"{\"issuer\":\"https://evil.example\"," SOME ",\"token_endpoint\":\"" ISSUER "/token\"}",
         "issuer"},
        {ALL ",\"issuer\":\"" ISSUER "\"}", "strict JSON"}, /* twice */
        {"{\"issuer\":\"" ISSUER "\"," SOME "}", "token_endpoint is missing"},
        {"{\"issuer\":\"" ISSUER "\"," SOME ",\"token_endpoint\":7}", "token_endpoint is missing"},
        {"{\"issuer\":\"" ISSUER "\"," SOME ",\"token_endpoint\":\"http://login.example/t\"}",
         "token_endpoint must be https://, because"},
        {"{\"issuer\":\"" ISSUER "\"," SOME ",\"token_endpoint\":\"http://127.0.0.1/t\"}",
         "insecure_loopback permits"},
        {"{\"issuer\":\"" ISSUER "\"," SOME
         ",\"token_endpoint\":\"http://127.0.0.1.evil.example/t\"}",
         "must be https://, because"},
        {"{\"issuer\":\"" ISSUER "\"," SOME ",\"token_endpoint\":\"file:///etc/passwd\"}",
         "must be a URL"},
        {"{\"issuer\":\"" ISSUER "\"," SOME ",\"token_endpoint\":\"https://a b/\"}",
         "must be a URL"},
        {"{\"issuer\":\"" ISSUER "\"," SOME ",\"token_endpoint\":\"https://a/#b\"}",
         "must be a URL"},
        {"{\"issuer\":\"" ISSUER "\"," SOME ",\"token_endpoint\":\"https://u:p@a/\"}", "no user"},
        {"{\"issuer\":\"" ISSUER "\"," SOME ",\"token_endpoint\":\"https://\"}",
         "must have a host"},
        {ALL ",\"response_types_supported\":[\"token\"]}", "response_types_supported"},
        {ALL ",\"response_types_supported\":\"code\"}", "response_types_supported"},
        {ALL ",\"response_types_supported\":[\"code\",\"token\"]}", ""},
        {ALL ",\"code_challenge_methods_supported\":[\"plain\"]}", "does not have S256"},
        {ALL ",\"id_token_signing_alg_values_supported\":[\"HS256\",\"none\"]}",
         "has none of RS256"},
        {ALL ",\"token_endpoint_auth_methods_supported\":[\"client_secret_basic\"]}",
         "does not have none"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct discovery d;
        enum err err =
            discovery_read(str_from(cases[i].text), &sample_settings, &arena, &d, &fault);
        bool is_right = *cases[i].told == '\0' ? err == ERR_OK
                                               : err == ERR_PROVIDER_UNAVAILABLE &&
                                                     strstr(fault.text, cases[i].told) != NULL;
        if (!is_right) fail_msg("%s: %d %s", cases[i].text, err, err == ERR_OK ? "" : fault.text);
    }
    struct oidc_settings secret = sample_settings;
    struct discovery d;
    secret.client_secret_file = "/f";
    assert_int_equal(
        discovery_read(STR(ALL ",\"token_endpoint_auth_methods_supported\":[\"none\"]}"), &secret,
                       &arena, &d, &fault),
        ERR_PROVIDER_UNAVAILABLE);
    assert_int_equal(
        discovery_read(
            STR(ALL ",\"token_endpoint_auth_methods_supported\":[\"client_secret_basic\"]}"),
            &secret, &arena, &d, &fault),
        ERR_OK);
    assert_string_equal(d.token, ISSUER "/token");
    assert_string_equal(d.end_session, "");
}

static void a_loopback_provider_needs_its_option(void **state)
{
    (void)state;
    static const char *const right[] = {"http://127.0.0.1:5000/t", "http://localhost/t",
                                        "http://[::1]:80/", "https://login.example"},
                             *const wrong[] = {"http://login.example", "http://localhost.a/",
                                               "http://127.0.0.1@a/", "http://"};
    struct oidc_settings s = sample_settings;
    s.insecure_loopback = true;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        assert_null(provider_url_wrong(&s, str_from(right[i])));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_non_null(provider_url_wrong(&s, str_from(wrong[i])));
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
#define SETTINGS(...)                                                                              \
    {                                                                                              \
        .name = "test", .issuer = ISSUER, .client_id = "writ", .client_secret_file = "",           \
        .scope = "openid", .audience = "", .tenant = "acme", .tenant_claim = "",                   \
        .person_claim = "sub", .claims = "groups", .roles_claim = "groups", .reviewer = "finance", \
        .policy_admin = "", .auditor = "", .admin = "", __VA_ARGS__                                \
    }

static void a_provider_that_cannot_work_is_refused(void **state)
{
    (void)state;
    static const struct {
        struct oidc_settings settings;
        const char *told;
    } cases[] = {
        {SETTINGS(.issuer = ""), "oidc.test.issuer: is missing"},
        {SETTINGS(.issuer = "login.example"), "oidc.test.issuer: must be a URL"},
        {SETTINGS(.issuer = "http://login.example"), "oidc.test.issuer: must be https://"},
        {SETTINGS(.issuer = "http://127.0.0.1:1"), "insecure_loopback permits http://"},
        {SETTINGS(.issuer = ISSUER "?a=b"), "oidc.test.issuer: must not have a query"},
        {SETTINGS(.client_id = ""), "oidc.test.client_id: is missing"},
        {SETTINGS(.scope = "email profile"), "oidc.test.scope: must have openid"},
        {SETTINGS(.scope = ""), "oidc.test.scope: must have openid"},
        {SETTINGS(.client_secret_file = "/nonexistent"), "oidc.test.client_secret_file"},
        {SETTINGS(.tenant = ""), "oidc.test.tenant: set either tenant or tenant_claim"},
        {SETTINGS(.tenant_claim = "org"), "oidc.test.tenant: set either"},
        {SETTINGS(.tenant = "*"), "oidc.test.tenant: must be one tenant"},
        {SETTINGS(.person_claim = ""), "oidc.test.person_claim: is empty"},
        {SETTINGS(.roles_claim = ""), "oidc.test.roles_claim: is empty"},
        {SETTINGS(.reviewer = ""), "oidc.test.roles.reviewer: is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum err err = settings_check_all(&cases[i].settings, 1, &fault);
        if (err != ERR_BAD_VALUE || strstr(fault.text, cases[i].told) == NULL)
            fail_msg("%s: %d %s", cases[i].told, err, err == ERR_OK ? "" : fault.text);
    }
    static const struct oidc_settings two[] = {SETTINGS(.audience = "a"),
                                               SETTINGS(.audience = "a", .name = "other")};
    assert_int_equal(settings_check_all(two, 1, &fault), ERR_OK);
    assert_int_equal(settings_check_all(two, 2, &fault), ERR_BAD_VALUE);
    assert_non_null(strstr(fault.text, "oidc.other.audience: another provider with this issuer"));
}
#pragma GCC diagnostic pop

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_document_needs_its_issuer_and_https_endpoints),
        CASE(a_loopback_provider_needs_its_option),
        CASE(a_provider_that_cannot_work_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
