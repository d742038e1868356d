/* What is taken for a token, what is said of the others, and that nothing of a token is ever
 * told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "crypto/crypto.h"
#include "pipeline/topic/token.h"
#include "pipeline/topic/topic.h"

#define NOW_MS UINT64_C(1795000000000) /* 2026-11-18 */

/* HEADER.payload.signature of these claims. */
static const char *jwt(const char *claims)
{
    static char text[1 << 10];
    struct buf b = buf_over(text, sizeof text - 1);
    buf_put_literal(&b, "eyJhbGciOiJSUzI1NiJ9.");
    base64url_put(&b, claims, strlen(claims));
    buf_put_literal(&b, ".c2lnbmF0dXJl");
    assert_false(b.overflow);
    text[b.size] = '\0';
    return text;
}

static void a_token_says_who_and_until_when(void **state)
{
    (void)state;
    struct topic_token t;
    const char *text = jwt(
        "{\"aud\":[\"kafka\"],\"exp\":1795003600,\"iss\":\"https://id\",\"sub\":\"writ-engine\"}");
    assert_null(topic_token_parse(str_from(text), &t));
    assert_string_equal(t.text, text);
    assert_string_equal(t.principal, "writ-engine");
    assert_true(t.expires_ms == INT64_C(1795003600000));
}

static void an_unsecured_token_and_a_fraction_of_a_second_are_taken(void **state)
{
    (void)state;
    struct topic_token t;
    char text[200];
    snprintf(text, sizeof text, "%s", jwt("{\"exp\":1795003600.25,\"sub\":\"a\"}"));
    *(strrchr(text, '.') + 1) = '\0';
    assert_null(topic_token_parse(str_from(text), &t));
    assert_true(t.expires_ms == INT64_C(1795003600250));
}

static void a_subject_that_is_no_line_of_text_is_not_shown(void **state)
{
    (void)state;
    struct topic_token t;
    static const char *const claims[] = {"{\"exp\":1}",
                                         "{\"exp\":1,\"sub\":\"\"}",
                                         "{\"exp\":1,\"sub\":7}",
                                         "{\"exp\":1,\"sub\":\"a\\nb\"}",
                                         "{\"exp\":1,\"sub\":\"\\u0000\"}",
                                         "{\"exp\":1,\"sub\":\"\xc3\xa9\"}"};
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        assert_null(topic_token_parse(str_from(jwt(claims[i])), &t));
        assert_string_equal(t.principal, "-");
    }
}

static void refuse(struct str text, const char *expected)
{
    struct topic_token t;
    static const struct topic_token wiped;
    memset(&t, 'x', sizeof t);
    const char *why = topic_token_parse(text, &t);
    if (why == NULL) fail_msg("was taken: %.*s", STR_FORMAT(text));
    if (strstr(why, expected) == NULL) fail_msg("\"%s\" does not say \"%s\"", why, expected);
    assert_memory_equal(&t, &wiped, sizeof t);
}

static void what_is_no_token_is_refused_with_the_reason(void **state)
{
    (void)state;
    static char long_one[TOPIC_TOKEN_MAX + 2];
    memset(long_one, 'A', TOPIC_TOKEN_MAX + 1);
    refuse(STR(""), "empty");
    refuse(str_from(long_one), "16384");
    refuse(STR("opaque-token"), "three parts");
    refuse(STR("a.b"), "three parts");
    refuse(STR("a.b.c.d"), "three parts");
    refuse(STR("a.b.c.d.e"), "three parts");
    refuse(STR(".e30.x"), "empty");
    refuse(STR("e30..x"), "empty");
    refuse(STR("e30.e30.x\x01"), "characters");
    refuse(STR("e30=.e30.x"), "characters");
    refuse(STR("e3 0.e30.x"), "characters");
    refuse(STR("e30.e30.x\0y"), "characters");
    refuse(STR("e30.e3.x"), "base64url");
    refuse(str_from(jwt("[1]")), "not a JSON object");
    refuse(str_from(jwt("{\"exp\":1")), "not a JSON object");
    refuse(str_from(jwt("{\"exp\":1,\"exp\":2}")), "not a JSON object");
    refuse(str_from(jwt("{}")), "exp");
    refuse(str_from(jwt("{\"exp\":\"1795003600\"}")), "exp");
    refuse(str_from(jwt("{\"exp\":null}")), "exp");
    refuse(str_from(jwt("{\"exp\":-1}")), "exp");
    refuse(str_from(jwt("{\"exp\":253402300800}")), "exp");
    refuse(str_from(jwt("{\"exp\":1e300}")), "exp");
}

/* ---- the file ---- */

static char path[64];

static void put(struct str bytes)
{
    FILE *file = fopen(path, "w");
    assert_true(file != NULL && fchmod(fileno(file), 0600) == 0);
    assert_int_equal(fwrite(bytes.bytes, 1, bytes.size, file), bytes.size);
    fclose(file);
}

static int make_file(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/writ-token-XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static void the_end_of_the_line_is_not_the_tokens(void **state)
{
    (void)state;
    struct topic_token t;
    struct fault f;
    char text[200];
    snprintf(text, sizeof text, "%s\r\n", jwt("{\"exp\":1795003600}"));
    put(str_from(text));
    assert_int_equal(topic_token_read(path, NOW_MS, &t, &f), ERR_OK);
    assert_string_equal(t.text, jwt("{\"exp\":1795003600}"));
}

static void a_token_of_the_most_bytes_is_taken_with_its_line(void **state)
{
    (void)state;
    static char text[TOPIC_TOKEN_MAX + 1];
    struct topic_token t;
    struct fault f;
    const char *start = jwt("{\"exp\":1795003600}");
    memset(text, 'A', sizeof text);
    memcpy(text, start, strlen(start));
    text[TOPIC_TOKEN_MAX] = '\n';
    put(str_of(text, sizeof text));
    assert_int_equal(topic_token_read(path, NOW_MS, &t, &f), ERR_OK);
    assert_int_equal(strlen(t.text), TOPIC_TOKEN_MAX);
}

static void an_expired_token_is_refused_with_its_time(void **state)
{
    (void)state;
    struct topic_token t;
    struct fault f;
    put(str_from(jwt("{\"exp\":1795000000,\"sub\":\"me\"}")));
    assert_int_equal(topic_token_read(path, NOW_MS - 1, &t, &f), ERR_OK);
    assert_int_equal(topic_token_read(path, NOW_MS, &t, &f), ERR_BAD_VALUE);
    assert_string_equal(f.field, "kafka.token_file");
    assert_non_null(strstr(f.text, "expired at 2026-11-18T"));
    assert_non_null(strstr(f.text, path));
    assert_string_equal(t.text, "");
}

static void a_fault_names_the_option_and_tells_nothing_of_the_token(void **state)
{
    (void)state;
    struct topic_token t;
    struct fault f;
    static const char *const texts[] = {"s3cret", "s3cret.s3cret.s3cret", "e30.e30.s3cret",
                                        "e30.eyJzM2NyZXQi.s3cret"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        put(str_from(texts[i]));
        assert_int_equal(topic_token_read(path, NOW_MS, &t, &f), ERR_BAD_VALUE);
        assert_int_equal(strncmp(f.text, "kafka.token_file: ", 18), 0);
        assert_null(strstr(f.text, "s3cret"));
    }
    unlink(path);
    assert_int_equal(topic_token_read(path, NOW_MS, &t, &f), ERR_NOT_FOUND);
    assert_non_null(strstr(f.text, "kafka.token_file"));
    assert_int_equal(topic_token_read("/", NOW_MS, &t, &f), ERR_NOT_FOUND);
    put(STR("\n"));
    assert_int_equal(topic_token_read(path, NOW_MS, &t, &f), ERR_BAD_VALUE);
    put(STR("e30.e30.x\0"));
    assert_int_equal(topic_token_read(path, NOW_MS, &t, &f), ERR_BAD_VALUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_says_who_and_until_when),
        cmocka_unit_test(an_unsecured_token_and_a_fraction_of_a_second_are_taken),
        cmocka_unit_test(a_subject_that_is_no_line_of_text_is_not_shown),
        cmocka_unit_test(what_is_no_token_is_refused_with_the_reason),
        cmocka_unit_test_setup_teardown(the_end_of_the_line_is_not_the_tokens, make_file,
                                        remove_file),
        cmocka_unit_test_setup_teardown(a_token_of_the_most_bytes_is_taken_with_its_line, make_file,
                                        remove_file),
        cmocka_unit_test_setup_teardown(an_expired_token_is_refused_with_its_time, make_file,
                                        remove_file),
        cmocka_unit_test_setup_teardown(a_fault_names_the_option_and_tells_nothing_of_the_token,
                                        make_file, remove_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
