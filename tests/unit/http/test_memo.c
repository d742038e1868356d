/* The memo of a connection's last head: recalling is parsing, or it is not done. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "http/memo.h"

#define HEAD(length, more)                                                                         \
    "POST /v1/x?a=b HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer k\r\n"                            \
    "Content-Type: a/b\r\ncontent-length: " length "\r\n" more "\r\n"

static struct head_memo *remember(const char *text)
{
    struct head h;
    struct fault f;
    struct head_memo *m = NULL;
    assert_int_equal(head_parse_request(text, strlen(text), &h, &f), ERR_OK);
    memo_take(&m, text, strlen(text), &h);
    return m;
}

static bool recalls(const struct head_memo *m, const char *text, struct head *ret)
{
    return memo_recall(m, text, strlen(text), ret);
}

static void assert_same(const struct head *a, const struct head *b)
{
    assert_true(str_equal(a->method, b->method) && str_equal(a->target, b->target));
    assert_true(str_equal(a->content_type, b->content_type) && str_equal(a->expect, b->expect));
    assert_int_equal(str_is_absent(a->content_type), str_is_absent(b->content_type));
    assert_true(str_equal(a->content_encoding, b->content_encoding));
    assert_int_equal(str_is_absent(a->content_encoding), str_is_absent(b->content_encoding));
    assert_int_equal(str_is_absent(a->expect), str_is_absent(b->expect));
    assert_int_equal(a->minor, b->minor);
    assert_int_equal(a->keep_alive, b->keep_alive);
    assert_int_equal(a->chunked, b->chunked);
    assert_int_equal(a->has_length, b->has_length);
    assert_int_equal(a->length, b->length);
    assert_int_equal(a->field_count, b->field_count);
    for (size_t i = 0; i < a->field_count; i++) {
        assert_true(str_equal(a->fields[i].name, b->fields[i].name));
        assert_true(str_equal(a->fields[i].value, b->fields[i].value));
    }
}

static void what_is_recalled_is_what_parsing_gives(void **state)
{
    (void)state;
    static const char *const texts[] = {
        HEAD("12", ""),
        HEAD("12", "Expect: 100-continue\r\n"),
        HEAD("0", "X:  \r\n"),
        HEAD("12", "Content-Encoding: gzip\r\n"),
        "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct head_memo *m = remember(texts[i]);
        struct head parsed, recalled;
        struct fault f;
        memset(&recalled, 0xee, sizeof recalled);
        assert_int_equal(head_parse_request(texts[i], strlen(texts[i]), &parsed, &f), ERR_OK);
        assert_true(recalls(m, texts[i], &recalled));
        assert_same(&recalled, &parsed);
        memo_destroy(m);
    }
}

static void only_the_length_may_differ(void **state)
{
    (void)state;
    struct head_memo *m = remember(HEAD("12", ""));
    struct head h;
    assert_true(recalls(m, HEAD("65536", ""), &h));
    assert_int_equal(h.length, 65536);
    assert_true(str_equal(h.fields[3].value, STR("65536")));
    assert_true(recalls(m, HEAD("7", ""), &h));
    assert_int_equal(h.length, 7);
    static const char *const others[] = {HEAD("", ""),         HEAD("1 2", ""),
                                         HEAD("-1", ""),       HEAD("99999999999999999999", ""),
                                         HEAD("1,1", ""),      HEAD("12", "X: y\r\n"),
                                         HEAD("1\r\nX: 2", "")};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(recalls(m, others[i], &h));
    memo_destroy(m);
}

/* Any one byte changed: either it is no longer recalled, or parsing gives the same. */
static void a_changed_byte_is_never_overlooked(void **state)
{
    (void)state;
    static const char text[] = HEAD("120", "X-Y: z\r\n");
    struct head_memo *m = remember(text);
    char changed[sizeof text];
    for (size_t i = 0; i < sizeof text - 1; i++) {
        for (int byte = 0; byte < 256; byte++) {
            memcpy(changed, text, sizeof text);
            changed[i] = (char)byte;
            struct head recalled, parsed;
            struct fault f;
            if (!memo_recall(m, changed, sizeof text - 1, &recalled)) continue;
            assert_int_equal(head_parse_request(changed, sizeof text - 1, &parsed, &f), ERR_OK);
            assert_same(&recalled, &parsed);
        }
    }
    memo_destroy(m);
}

static void too_large_a_head_is_not_remembered_and_forgets_the_one_before(void **state)
{
    (void)state;
    char text[4096];
    struct buf b = buf_over(text, sizeof text);
    buf_put_literal(&b, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < MEMO_FIELDS; i++) buf_put_literal(&b, "X: y\r\n");
    buf_put_literal(&b, "\r\n\0");
    struct head_memo *m = remember(HEAD("12", ""));
    struct head h;
    struct fault f;
    assert_int_equal(head_parse_request(text, strlen(text), &h, &f), ERR_OK);
    memo_take(&m, text, strlen(text), &h);
    assert_false(recalls(m, text, &h));
    assert_false(recalls(m, HEAD("12", ""), &h));
    memo_destroy(m);

    memset(text, 'x', sizeof text);
    memcpy(text, "GET /", 5);
    snprintf(text + MEMO_BYTES, 100, " HTTP/1.1\r\nHost: a\r\n\r\n");
    m = remember(text);
    assert_null(m);
    assert_false(recalls(m, text, &h));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_recalled_is_what_parsing_gives),
        cmocka_unit_test(only_the_length_may_differ),
        cmocka_unit_test(a_changed_byte_is_never_overlooked),
        cmocka_unit_test(too_large_a_head_is_not_remembered_and_forgets_the_one_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
