/* The memo of a connection's last head: recalling is reading anew, or it is not done. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "http/memo.h"
#include "http/target.h"

#define HEAD(length, more)                                                                         \
    "POST /v1/x?a=b HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer k\r\n"                            \
    "Content-Type: a/b\r\ncontent-length: " length "\r\n" more "\r\n"

/* What reading says of it; false: it is none, or not whole. */
static bool read_anew(const char *bytes, size_t size, struct head *h, struct meaning *ret,
                      size_t *ret_size)
{
    struct head_scan scan = {0};
    if (head_scan(&scan, bytes, size, ret_size) != SCAN_WHOLE) return false;
    if (head_parse_request(bytes, *ret_size, h, NULL) != ERR_OK) return false;
    *ret = (struct meaning){.exchange = {.method_text = h->method,
                                         .target = h->target,
                                         .headers = h->fields,
                                         .header_count = h->field_count},
                            .content_type = h->content_type,
                            .content_encoding = h->content_encoding,
                            .expect = h->expect,
                            .length = h->length,
                            .chunked = h->chunked,
                            .http_1_0 = h->minor == 0};
    struct http_exchange *x = &ret->exchange;
    if (target_split(h->target, &x->path, &x->query, NULL) != ERR_OK) return false;
    x->params[0] = str_skip(x->path, 1);
    return h->keep_alive;
}

static struct head_memo *remember(const char *text)
{
    struct head h;
    struct meaning meaning;
    size_t size;
    struct head_memo *m = NULL;
    assert_true(read_anew(text, strlen(text), &h, &meaning, &size));
    memo_take(&m, text, size, &meaning);
    return m;
}

static bool recalls(struct head_memo *m, const char *text)
{
    size_t size;
    return memo_find(m, text, strlen(text), &size);
}

static void assert_same_str(struct str a, struct str b)
{
    assert_true(str_equal(a, b));
    assert_int_equal(str_is_absent(a), str_is_absent(b));
}

static void assert_same(const struct meaning *a, const struct meaning *b)
{
    const struct http_exchange *x = &a->exchange, *y = &b->exchange;
    assert_same_str(x->method_text, y->method_text);
    assert_same_str(x->target, y->target);
    assert_same_str(x->path, y->path);
    assert_same_str(x->query, y->query);
    for (size_t i = 0; i < HTTP_PARAMS_MAX; i++) assert_same_str(x->params[i], y->params[i]);
    assert_same_str(a->content_type, b->content_type);
    assert_same_str(a->content_encoding, b->content_encoding);
    assert_same_str(a->expect, b->expect);
    assert_int_equal(a->length, b->length);
    assert_int_equal(a->chunked, b->chunked);
    assert_int_equal(a->http_1_0, b->http_1_0);
    assert_int_equal(x->header_count, y->header_count);
    for (size_t i = 0; i < x->header_count; i++) {
        assert_same_str(x->headers[i].name, y->headers[i].name);
        assert_same_str(x->headers[i].value, y->headers[i].value);
    }
}

/* Found or not, it is never found wrongly. True: it was. */
static bool is_found_as_read(struct head_memo *m, const char *bytes, size_t size)
{
    struct head h;
    struct meaning read;
    size_t found_size, read_size;
    if (!memo_find(m, bytes, size, &found_size)) return false;
    assert_true(read_anew(bytes, size, &h, &read, &read_size));
    assert_int_equal(found_size, read_size);
    assert_same(memo_meaning(m), &read);
    return true;
}

static const char *const kinds[] = {
    HEAD("12", ""),
    HEAD("12", "Expect: 100-continue\r\n"),
    HEAD("0", "X:  \r\n"),
    HEAD("12", "Content-Encoding: gzip\r\n"),
    HEAD(" 007 ", "X-Y: 12\r\n"),
    HEAD("18446744073709551615", ""),
    "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "GET /a? HTTP/1.1\r\nHost: a\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
    "PUT /12 HTTP/1.1\r\nContent-Length:5\r\nHost: 5\r\n\r\n",
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void what_is_recalled_is_what_reading_gives(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        struct head_memo *m = remember(kinds[i]);
        assert_true(is_found_as_read(m, kinds[i], strlen(kinds[i])));
        memo_destroy(m);
    }
}

static void only_the_length_may_differ(void **state)
{
    (void)state;
    struct head_memo *m = remember(HEAD("12", ""));
    static const char *const lengths[] = {HEAD("65536", ""), HEAD("7", ""), HEAD("0", ""),
                                          HEAD("0000000012", ""), HEAD("18446744073709551615", "")};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        assert_true(is_found_as_read(m, lengths[i], strlen(lengths[i])));
    static const char *const others[] = {HEAD("", ""),
                                         HEAD("1 2", ""),
                                         HEAD("-1", ""),
                                         HEAD("+1", ""),
                                         HEAD("0x1", ""),
                                         HEAD("12 ", ""),
                                         HEAD(" 12", ""),
                                         HEAD("18446744073709551616", ""),
                                         HEAD("99999999999999999999", ""),
                                         HEAD("000000000000000000001", ""),
                                         HEAD("1,1", ""),
                                         HEAD("12", "X: y\r\n"),
                                         HEAD("1\r\nX: 2", "")};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) assert_false(recalls(m, others[i]));
    memo_destroy(m);
}

/* Whatever becomes of the input, what was found stays what it was. */
static void what_was_found_outlives_the_input(void **state)
{
    (void)state;
    char text[] = HEAD("65536", "");
    struct head_memo *m = remember(HEAD("12", ""));
    assert_true(recalls(m, text));
    memset(text, '9', sizeof text);
    const struct meaning *meaning = memo_meaning(m);
    assert_int_equal(meaning->length, 65536);
    assert_true(str_equal(meaning->exchange.headers[3].value, STR("65536")));
    assert_true(str_equal(meaning->exchange.path, STR("/v1/x")));
    memo_destroy(m);
}

/* Of a head in pieces nothing is found before its last byte; what follows it is not looked at. */
static void a_head_is_found_when_it_is_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        struct head_memo *m = remember(kinds[i]);
        char text[512];
        size_t size = strlen(kinds[i]), found;
        for (size_t part = 0; part < size; part++) {
            /* each part in memory of its own size, so that reading beyond it is seen */
            char *bytes = malloc(part + 1);
            memcpy(bytes, kinds[i], part);
            char *exactly = realloc(bytes, part == 0 ? 1 : part);
            assert_false(memo_find(m, exactly, part, &found));
            free(exactly);
        }
        for (const char *behind = "0\r\n{5"; *behind != '\0'; behind++) {
            snprintf(text, sizeof text, "%s%s", kinds[i], behind);
            assert_true(is_found_as_read(m, text, strlen(text)));
        }
        memo_destroy(m);
    }
}

/* Any one byte changed: either it is no longer recalled, or reading gives the same. */
static void a_changed_byte_is_never_overlooked(void **state)
{
    (void)state;
    static const char text[] = HEAD("120", "X-Y: z\r\n");
    struct head_memo *m = remember(text);
    char changed[sizeof text];
    unsigned found = 0;
    for (size_t i = 0; i < sizeof text - 1; i++) {
        for (int byte = 0; byte < 256; byte++) {
            memcpy(changed, text, sizeof text);
            changed[i] = (char)byte;
            found += is_found_as_read(m, changed, sizeof text - 1);
        }
    }
    /* itself, and other digits in three places */
    assert_int_equal(found, sizeof text - 1 - 3 + 3 * 10);
    memo_destroy(m);
}

/* A plain generator (Marsaglia, "Xorshift RNGs", 2003): the same heads each time. */
static uint32_t chance(uint32_t *state, uint32_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state % below;
}

/* One byte somewhere in [from, to) is another, gone, or has a new one before it. */
static size_t mutate(uint32_t *seed, char *text, size_t size, size_t from, size_t to)
{
    static const char likely[] = "0123456789 \t\r\n:,+-aA%";
    size_t at = from + chance(seed, (uint32_t)(to - from));
    char byte = likely[chance(seed, sizeof likely - 1)];
    switch (chance(seed, 3)) {
    case 0: text[at] = byte; return size;
    case 1: memmove(text + at, text + at + 1, size - at - 1); return size - 1;
    default:
        memmove(text + at + 1, text + at, size - at);
        text[at] = byte;
        return size + 1;
    }
}

/* Anywhere, or where what must be equal and what may differ meet. */
static size_t mutate_somewhere(uint32_t *seed, char *text, size_t size)
{
    enum { AROUND = 12 };
    const char *at = chance(seed, 4) == 0 ? NULL : memmem(text, size, "ength:", 6);
    size_t from = at == NULL ? 0 : (size_t)(at - text) + 6;
    if (from + AROUND >= size) return mutate(seed, text, size, 0, size);
    return mutate(seed, text, size, from, at == NULL ? size : from + AROUND);
}

static void many_heads_mean_what_reading_says(void **state)
{
    (void)state;
    enum { ROUNDS = 200000, ROOM = 600 };
    uint32_t seed = 2463534242u;
    size_t found = 0;
    for (size_t i = 0; i < KINDS; i++) {
        struct head_memo *m = remember(kinds[i]);
        for (size_t round = 0; round < ROUNDS / KINDS; round++) {
            char text[ROOM];
            size_t size = strlen(kinds[i]);
            memcpy(text, kinds[i], size);
            for (uint32_t left = chance(&seed, 4); left > 0; left--)
                size = mutate_somewhere(&seed, text, size);
            found += is_found_as_read(m, text, size);
        }
        memo_destroy(m);
    }
    assert_true(found > ROUNDS / 20);
}

static void what_the_service_keeps_goes_with_the_head(void **state)
{
    (void)state;
    struct head h;
    struct meaning meaning;
    size_t size;
    struct head_memo *m = remember(HEAD("12", ""));
    struct http_kept *kept = memo_meaning(m)->exchange.kept;
    assert_true(kept->what == NULL && kept->block == 0);
    *kept = (struct http_kept){.what = m, .block = 7};
    assert_true(recalls(m, HEAD("13", "")));
    assert_ptr_equal(memo_meaning(m)->exchange.kept, kept);
    assert_ptr_equal(kept->what, m);

    static const char other[] = HEAD("12", "X: y\r\n");
    assert_true(read_anew(other, sizeof other - 1, &h, &meaning, &size));
    assert_true(memo_take(&m, other, size, &meaning));
    kept = memo_meaning(m)->exchange.kept;
    assert_true(kept->what == NULL && kept->block == 0);
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
    struct meaning meaning;
    size_t size;
    assert_true(read_anew(text, strlen(text), &h, &meaning, &size));
    assert_false(memo_take(&m, text, size, &meaning));
    assert_false(recalls(m, text));
    assert_false(recalls(m, HEAD("12", "")));
    memo_destroy(m);

    memset(text, 'x', sizeof text);
    memcpy(text, "GET /", 5);
    snprintf(text + MEMO_BYTES, 100, " HTTP/1.1\r\nHost: a\r\n\r\n");
    m = remember(text);
    assert_null(m);
    assert_false(recalls(m, text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_recalled_is_what_reading_gives),
        cmocka_unit_test(only_the_length_may_differ),
        cmocka_unit_test(what_was_found_outlives_the_input),
        cmocka_unit_test(a_head_is_found_when_it_is_whole),
        cmocka_unit_test(a_changed_byte_is_never_overlooked),
        cmocka_unit_test(many_heads_mean_what_reading_says),
        cmocka_unit_test(what_the_service_keeps_goes_with_the_head),
        cmocka_unit_test(too_large_a_head_is_not_remembered_and_forgets_the_one_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
