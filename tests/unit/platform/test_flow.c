/* A sign-in at an identity provider, between its start and its answer: what the cookie binds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "platform/flow.h"

enum { NOW_MS = 1700000000 };

static const struct sha256 key = {{7}}, other_key = {{8}};

static struct flow flow_now(char cookie[FLOW_COOKIE_TEXT])
{
    struct flow f;
    const struct sha256 replaces = {{3}};
    flow_make(&f, &replaces, NOW_MS);
    flow_write(&f, &key, STR("corp"), cookie);
    return f;
}

static void a_flow_is_read_as_it_was_made(void **state)
{
    (void)state;
    char cookie[FLOW_COOKIE_TEXT];
    const struct flow f = flow_now(cookie);
    struct flow found;
    const struct str text = str_of(cookie, sizeof cookie);
    assert_int_equal(flow_read(text, &key, STR("corp"), NOW_MS + FLOW_MS - 1, &found), FLOW_RIGHT);
    assert_memory_equal(&found, &f, sizeof f);
    assert_int_equal(flow_read(text, &key, STR("corp"), NOW_MS + FLOW_MS, &found), FLOW_OVER);
    assert_int_equal(flow_read(text, &key, STR("corp"), NOW_MS - FLOW_MS, &found), FLOW_OVER);
    assert_int_equal(flow_read(text, &key, STR("other"), NOW_MS, &found), FLOW_WRONG);
    assert_int_equal(flow_read(text, &other_key, STR("corp"), NOW_MS, &found), FLOW_WRONG);
}

static void no_changed_byte_is_accepted(void **state)
{
    (void)state;
    char cookie[FLOW_COOKIE_TEXT];
    struct flow found;
    (void)flow_now(cookie);
    for (size_t i = 0; i < FLOW_COOKIE_TEXT; i++) {
        char before = cookie[i];
        cookie[i] = before == 'A' ? 'B' : 'A';
        assert_int_equal(
            flow_read(str_of(cookie, sizeof cookie), &key, STR("corp"), NOW_MS, &found),
            FLOW_WRONG);
        cookie[i] = before;
    }
    for (size_t size = 0; size < FLOW_COOKIE_TEXT; size++)
        assert_int_equal(flow_read(str_of(cookie, size), &key, STR("corp"), NOW_MS, &found),
                         FLOW_WRONG);
}

static void the_values_differ_by_purpose_provider_and_flow(void **state)
{
    (void)state;
    char cookie[FLOW_COOKIE_TEXT], all[8][FLOW_VALUE_TEXT];
    const struct flow flows[] = {flow_now(cookie), flow_now(cookie)};
    size_t count = 0;
    for (size_t f = 0; f < 2; f++)
        for (unsigned which = FLOW_STATE; which <= FLOW_VERIFIER; which++)
            flow_value(&flows[f], &key, STR("corp"), (enum flow_value)which, all[count++]);
    flow_value(&flows[0], &key, STR("other"), FLOW_STATE, all[count++]);
    flow_value(&flows[0], &other_key, STR("corp"), FLOW_STATE, all[count++]);
    for (size_t a = 0; a < count; a++)
        for (size_t b = 0; b < a; b++) assert_memory_not_equal(all[a], all[b], FLOW_VALUE_TEXT);
    const struct str right = str_of(all[0], FLOW_VALUE_TEXT);
    assert_true(flow_has_state(&flows[0], &key, STR("corp"), right));
    assert_false(flow_has_state(&flows[1], &key, STR("corp"), right));
    assert_false(flow_has_state(&flows[0], &key, STR("corp"), str_cut(right, 42)));
    assert_false(flow_has_state(&flows[0], &key, STR("corp"), (struct str){0}));
}

static void the_url_is_encoded_and_has_no_verifier(void **state)
{
    (void)state;
    char cookie[FLOW_COOKIE_TEXT], bytes[4096], verifier[FLOW_VALUE_TEXT + 1] = "";
    const struct flow f = flow_now(cookie);
    struct flow_request r = {.endpoint = STR("https://id.example/auth"),
                             .client_id = STR("a b&c=d"),
                             .redirect_uri = STR("https://writ.example/x"),
                             .scope = STR("openid email")};
    struct buf b = buf_over(bytes, sizeof bytes - 1);
    flow_put_url(&b, &f, &key, STR("corp"), &r);
    bytes[b.size] = '\0';
    assert_ptr_equal(
        strstr(bytes, "https://id.example/auth?response_type=code&client_id=a%20b%26c%3Dd&"
                      "redirect_uri=https%3A%2F%2Fwrit.example%2Fx&scope=openid%20email&state="),
        bytes);
    assert_non_null(strstr(bytes, "&code_challenge_method=S256"));
    flow_value(&f, &key, STR("corp"), FLOW_VERIFIER, verifier);
    assert_null(strstr(bytes, verifier));
    r.endpoint = STR("https://id.example/auth?p=1");
    b = buf_over(bytes, sizeof bytes - 1);
    flow_put_url(&b, &f, &key, STR("corp"), &r);
    assert_ptr_equal(strstr(bytes, "https://id.example/auth?p=1&response_type=code&"), bytes);
    b = buf_over(bytes, 100);
    flow_put_url(&b, &f, &key, STR("corp"), &r);
    assert_true(b.overflow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flow_is_read_as_it_was_made),
        cmocka_unit_test(no_changed_byte_is_accepted),
        cmocka_unit_test(the_values_differ_by_purpose_provider_and_flow),
        cmocka_unit_test(the_url_is_encoded_and_has_no_verifier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
