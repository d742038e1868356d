/* Which configuration of an anchor is refused, and with which words; the address of an object, the line of a
 * file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline/anchor/anchor.h"

static char secret_path[64];

static int set_up(void **state)
{
    (void)state;
    static const char secret[] = "wJalrXUtnFEMI/K7MDENG\n";
    snprintf(secret_path, sizeof secret_path, "%s", "/tmp/writ-anchor-XXXXXX");
    int fd = mkstemp(secret_path);
    if (fd < 0 || write(fd, secret, strlen(secret)) != (ssize_t)strlen(secret)) return -1;
    return close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(secret_path);
}

#define ANCHOR_OF(...)                                                                             \
    {                                                                                              \
        .name = "a", .file = "", .s3 = "", .witness = "", .region = "eu-1", .access_key = "",      \
        .secret_file = "", .witness_key = "", .every_ms = 60000, __VA_ARGS__                       \
    }
#define BUCKET(url, ...)                                                                           \
    ANCHOR_OF(.s3 = url, .access_key = "AKIA", .secret_file = secret_path, __VA_ARGS__)
#define WITNESS_KEY "witness.example/w1+918b6299+BMhAafoiFsbtwdUsqDqhHCZ91UQK+lJgkMpD69DKhqnP"
#define LOG_KEY "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
#define WITNESS(url, ...) ANCHOR_OF(.witness = url, .witness_key = WITNESS_KEY, __VA_ARGS__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"

static void an_anchor_that_cannot_work_is_refused(void **state)
{
    (void)state;
    const struct {
        struct anchor anchor;
        const char *text;
    } cases[] = {
        {ANCHOR_OF(.region = ""), "anchor.a.file: set one of file, s3 and witness"},
        {BUCKET("https://h/b", .file = "/f"), "anchor.a.file: set one of file, s3 and witness"},
        {WITNESS("https://h/b", .file = "/f"), "anchor.a.file: set one of file, s3 and witness"},
        {ANCHOR_OF(.file = "/f", .every_ms = 999), "anchor.a.every: must be 1s to 24h"},
        {ANCHOR_OF(.file = "/f", .every_ms = 86400001), "anchor.a.every: must be 1s to 24h"},
        {ANCHOR_OF(.file = "/f", .access_key = "k"), "anchor.a.file: access_key, secret_file and"},
        {ANCHOR_OF(.file = "/f", .retain_ms = 60000), "anchor.a.file: access_key, secret_file and"},
        {BUCKET("https://h/b", .access_key = ""), "anchor.a.access_key: is missing"},
        {BUCKET("https://h/b", .access_key = "a b"), "anchor.a.access_key: is missing, or has"},
        {BUCKET("https://h/b", .secret_file = ""), "anchor.a.secret_file: is missing"},
        {BUCKET("https://h/b", .secret_file = "/nonexistent"), "anchor.a.secret_file: "},
        {BUCKET("https://h/b", .region = ""), "anchor.a.region: must be a name such as"},
        {BUCKET("https://h/b", .region = "eu:1"), "anchor.a.region: must be a name such as"},
        {BUCKET("https://h/b", .retain_ms = 59999), "anchor.a.retain: must be 0s, or one minute"},
        {BUCKET("http://h/b"), "anchor.a.s3: must be https://"},
        {BUCKET("s3://h/b"), "anchor.a.s3: must be a URL such as https://host/bucket/prefix"},
        {BUCKET("https:///b"), "anchor.a.s3: must have a host"},
        {BUCKET("https://u:p@h/b"), "anchor.a.s3: must have a host, and no user"},
        {BUCKET("https://h"), "anchor.a.s3: must have the bucket"},
        {BUCKET("https://h/"), "anchor.a.s3: must have the bucket"},
        {BUCKET("https://h/b/"), "anchor.a.s3: must have the bucket"},
        {BUCKET("https://h/b//c"), "anchor.a.s3: must have the bucket"},
        {BUCKET("https://h/b/../c"), "anchor.a.s3: must have the bucket"},
        {BUCKET("https://h/b?x=1"), "anchor.a.s3: must have the bucket"},
        {BUCKET("https://h/b%2F"), "anchor.a.s3: must have the bucket"},
        {BUCKET("https://h/b", .witness_key = WITNESS_KEY), "anchor.a.witness_key: is for anchors"},
        {ANCHOR_OF(.witness = "https://h"), "anchor.a.witness_key: is missing"},
        {WITNESS("https://h", .witness_key = "w+1+A"), "anchor.a.witness_key: a key is written"},
        {WITNESS("https://h", .witness_key = LOG_KEY), "anchor.a.witness_key: is the key of a log"},
        {WITNESS("https://h", .retain_ms = 60000), "anchor.a.witness: access_key, secret_file"},
        {WITNESS("http://h"), "anchor.a.witness: must be https://"},
        {WITNESS("https://u:p@h"), "anchor.a.witness: must have a host, and no user"},
        {WITNESS("https://h/"), "anchor.a.witness: may have a prefix"},
        {WITNESS("https://h?x=1"), "anchor.a.witness: may have a prefix"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct fault f = {0};
        assert_int_not_equal(anchor_check(&cases[i].anchor, &f), ERR_OK);
        if (strncmp(f.text, cases[i].text, strlen(cases[i].text)) != 0)
            fail_msg("row %zu: %s", i, f.text);
    }
}

static void an_anchor_that_can_work_is_accepted(void **state)
{
    (void)state;
    const struct anchor good[] = {
        ANCHOR_OF(.file = "/f"),
        BUCKET("https://h/b"),
        BUCKET("https://h:9000/b/p/q-1"),
        BUCKET("http://[::1]:9000/b", .allow_plaintext = true),
        BUCKET("https://h/b", .retain_ms = 60000),
        WITNESS("https://h"),
        WITNESS("https://h:1/a/b"),
        WITNESS("http://127.0.0.1:1", .allow_plaintext = true),
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct fault f = {0};
        if (anchor_check(&good[i], &f) != ERR_OK) fail_msg("row %zu: %s", i, f.text);
    }
}

static void a_checkpoint_has_one_object(void **state)
{
    (void)state;
    const struct anchor a = BUCKET("https://h/b/p");
    char bytes[256];
    struct buf b = buf_over(bytes, sizeof bytes);
    anchor_put_url(&b, &a, STR("writ/node%2Fa/J/1"), 42);
    assert_true(str_equal(buf_view(&b), STR("https://h/b/p/writ/node%252Fa/J/1/42")));
}

#pragma GCC diagnostic pop

static void a_note_is_one_line_of_json(void **state)
{
    (void)state;
    char bytes[256];
    struct buf b = buf_over(bytes, sizeof bytes);
    anchor_put_line(&b, STR("o\n1\nr\n\n\xE2\x80\x94 o x\n"), 1795003600000);
    assert_true(
        str_equal(buf_view(&b), STR("{\"anchored_at\":\"2026-11-18T12:06:40.000Z\",\"note\":"
                                    "\"o\\n1\\nr\\n\\n\xE2\x80\x94 o x\\n\"}\n")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_anchor_that_cannot_work_is_refused),
        cmocka_unit_test(an_anchor_that_can_work_is_accepted),
        cmocka_unit_test(a_checkpoint_has_one_object),
        cmocka_unit_test(a_note_is_one_line_of_json),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
