/* The server's pure parts: head scan, chunks, routes, output and barriers, the reply's bytes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "http/chunk.h"
#include "http/head.h"
#include "http/output.h"
#include "http/reply.h"
#include "http/route.h"
#include "http/target.h"

/* A head must be found at the same place however its bytes arrive. */
static void a_head_is_found_in_any_pieces(void **state)
{
    (void)state;
    static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\nGET";
    size_t end = sizeof text - 1 - 3;
    for (size_t step = 1; step < sizeof text; step++) {
        struct head_scan scan = {0};
        size_t size = 0, found = 0;
        enum head_state outcome = SCAN_MORE;
        while (outcome == SCAN_MORE && size < sizeof text - 1) {
            size = size + step < sizeof text ? size + step : sizeof text - 1;
            outcome = head_scan(&scan, text, size, &found);
            assert_true(outcome == (size >= end ? SCAN_WHOLE : SCAN_MORE));
        }
        assert_int_equal(outcome, SCAN_WHOLE);
        assert_int_equal(found, end);
    }
}

static void a_requests_head_is_read(void **state)
{
    (void)state;
    static const char text[] = "POST /a?b HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\nX:\r\n"
                               "Expect: 100-continue\r\nContent-Type: a/b \t\r\n\r\n";
    struct head h;
    struct fault f;
    assert_int_equal(head_parse_request(text, sizeof text - 1, &h, &f), ERR_OK);
    assert_true(str_equal(h.method, STR("POST")));
    assert_true(str_equal(h.target, STR("/a?b")));
    assert_int_equal(h.length, 12);
    assert_true(h.has_length && !h.chunked && h.keep_alive);
    assert_int_equal(h.field_count, 5);
    assert_true(str_equal(h.fields[2].value, STR("")));
    assert_true(str_equal(h.content_type, STR("a/b")));
    assert_true(str_equal(h.expect, STR("100-continue")));
}

static enum chunk decode_in_steps(const char *text, size_t step, char *bytes, size_t *ret_size,
                                  size_t *ret_rest, size_t limit)
{
    struct chunk_decoder d = {0};
    size_t all = strlen(text), size = 0, from = 0, to = 0;
    enum chunk outcome = CHUNK_MORE;
    memcpy(bytes, text, all);
    while (outcome == CHUNK_MORE && size < all) {
        size = size + step < all ? size + step : all;
        outcome = chunk_decode(&d, bytes, &from, size, &to, limit);
    }
    *ret_size = to;
    *ret_rest = all - from;
    return outcome;
}

static void chunks_are_decoded_in_any_pieces(void **state)
{
    (void)state;
    static const char text[] =
        "4\r\nabcd\r\n01;x=\"y\"\r\ne\r\nA\r\n0123456789\r\n0;z\r\nA: b\r\n\r\nrest";
    char bytes[200];
    size_t size, rest;
    for (size_t step = 1; step < sizeof text; step++) {
        assert_int_equal(decode_in_steps(text, step, bytes, &size, &rest, 100), CHUNK_DONE);
        assert_int_equal(size, 15);
        assert_memory_equal(bytes, "abcde0123456789", 15);
        assert_true(rest <= 4); /* what is not there yet is not read either */
        assert_int_equal(decode_in_steps(text, step, bytes, &size, &rest, 14), CHUNK_TOO_LARGE);
        assert_int_equal(decode_in_steps(text, step, bytes, &size, &rest, 15), CHUNK_DONE);
    }
}

static void the_overhead_of_chunks_is_bounded(void **state)
{
    (void)state;
    char *text = malloc(10000), *bytes = malloc(10000);
    size_t size, rest;
    memset(text, 'x', 9999);
    text[9999] = '\0';
    memcpy(text, "1;", 2); /* an endless extension */
    assert_int_equal(decode_in_steps(text, 1, bytes, &size, &rest, 100), CHUNK_BAD);
    memcpy(text, "0\r\nX:", 5); /* an endless trailer */
    assert_int_equal(decode_in_steps(text, 7, bytes, &size, &rest, 100), CHUNK_BAD);
    memset(text, '0', 9999); /* endless zeros */
    assert_int_equal(decode_in_steps(text, 1, bytes, &size, &rest, 100), CHUNK_BAD);
    free(text);
    free(bytes);
}

static const struct http_route table[] = {
    {.method = HTTP_GET, .pattern = "/a"},
    {.method = HTTP_POST, .pattern = "/a"},
    {.method = HTTP_GET, .pattern = "/"},
    {.method = HTTP_GET, .pattern = "/a/{x}", .parameters = "limit cursor"},
    {.method = HTTP_DELETE, .pattern = "/a/{other}", .parameters = ""},
    {.method = HTTP_GET, .pattern = "/a/b"},
    {.method = HTTP_PUT, .pattern = "/{a}/{b}/{c}/{d}"},
    {.method = HTTP_HEAD, .pattern = "/a/{x}/only"},
};

static void routes_are_found_by_path_and_method(void **state)
{
    (void)state;
    struct routes *r = routes_create(table, sizeof table / sizeof *table);
    struct str p[HTTP_PARAMS_MAX];
    const struct route_path *a = routes_find(r, STR("/a"), p);
    assert_ptr_equal(a->by_method[HTTP_GET], &table[0]);
    assert_ptr_equal(a->by_method[HTTP_HEAD], &table[0]);
    assert_ptr_equal(a->by_method[HTTP_POST], &table[1]);
    assert_null(a->by_method[HTTP_PUT]);
    assert_true(str_equal(a->allow, STR("GET, HEAD, POST")));
    assert_ptr_equal(routes_find(r, STR("/"), p)->by_method[HTTP_GET], &table[2]);

    const struct route_path *ax = routes_find(r, STR("/a/zed"), p);
    assert_true(str_equal(p[0], STR("zed")));
    assert_ptr_equal(ax->by_method[HTTP_GET], &table[3]);
    assert_ptr_equal(ax->by_method[HTTP_DELETE], &table[4]); /* one path, whatever the name */
    assert_ptr_equal(routes_find(r, STR("/a/b"), p)->by_method[HTTP_GET], &table[5]);
    assert_ptr_equal(routes_find(r, STR("/1/2/3/4"), p)->by_method[HTTP_PUT], &table[6]);
    assert_true(str_equal(p[3], STR("4")));
    assert_true(str_equal(routes_find(r, STR("/a/q/only"), p)->allow, STR("HEAD")));

    static const char *const unknown[] = {
        "",     "a",      "/b",      "/a/",        "//a",
        "/a//", "/1/2/3", "/1//3/4", "/1/2/3/4/5", "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_null(routes_find(r, str_from(unknown[i]), p));
    routes_destroy(r);
    routes_destroy(NULL);

    assert_true(route_knows_parameter(&table[0], STR("anything")));
    assert_true(route_knows_parameter(&table[3], STR("cursor")));
    assert_false(route_knows_parameter(&table[3], STR("curs")));
    assert_false(route_knows_parameter(&table[3], STR("")));
    assert_false(route_knows_parameter(&table[4], STR("limit")));
}

static void append(struct output *o, struct pool *pool, struct http_barrier barrier,
                   const uint64_t *reached, const char *text)
{
    output_wait(o, barrier, reached);
    memcpy(output_room(o, pool, strlen(text)), text, strlen(text));
    output_wrote(o, strlen(text));
}

static void output_keeps_back_what_is_behind_a_barrier(void **state)
{
    (void)state;
    struct output o = {0};
    struct pool pool = {0};
    uint64_t reached[HTTP_LANES] = {3, 0};
    append(&o, &pool, (struct http_barrier){0}, reached, "aa");
    append(&o, &pool, (struct http_barrier){1, 3}, reached, "bb"); /* reached already */
    assert_int_equal(output_open(&o), 4);
    append(&o, &pool, (struct http_barrier){1, 4}, reached, "cc");
    append(&o, &pool, (struct http_barrier){0}, reached, "dd");
    append(&o, &pool, (struct http_barrier){2, 1}, reached, "ee");
    append(&o, &pool, (struct http_barrier){2, 1}, reached, "ff");
    assert_int_equal(o.barrier_count, 2);
    assert_int_equal(output_open(&o), 4);
    output_sent(&o, &pool, 3);
    assert_int_equal(output_open(&o), 1);
    reached[0] = 4;
    assert_int_equal(output_release(&o, reached), 2);
    assert_int_equal(output_open(&o), 5);
    assert_memory_equal(o.bytes + o.from, "bccdd", 5);
    output_sent(&o, &pool, 5);
    assert_int_equal(output_release(&o, reached), 0);
    reached[1] = 9;
    assert_int_equal(output_release(&o, reached), 2);
    output_sent(&o, &pool, 4);
    assert_null(o.bytes); /* its buffer went back */
    assert_int_equal(pool.count, 1);
    output_fini(&o, &pool);
    pool_fini(&pool);
}

static void output_grows_and_keeps_its_bytes(void **state)
{
    (void)state;
    struct output o = {0};
    struct pool pool = {0};
    unsigned char next = 0, expected = 0;
    for (int round = 0; round < 200; round++) {
        size_t size = (size_t)(round * 7919 % 30011) + 1;
        char *to = output_room(&o, &pool, size);
        for (size_t i = 0; i < size; i++) to[i] = (char)next++;
        output_wrote(&o, size);
        size_t gone = output_open(&o) * (size_t)(round % 4) / 3;
        if (gone > output_open(&o)) gone = output_open(&o);
        for (size_t i = 0; i < gone; i++)
            assert_int_equal((unsigned char)o.bytes[o.from + i], expected++);
        output_sent(&o, &pool, gone);
    }
    output_fini(&o, &pool);
    pool_fini(&pool);
}

static void dates_are_written_as_rfc_9110_says(void **state)
{
    (void)state;
    static const struct {
        uint64_t seconds;
        const char *text;
    } cases[] = {
        {0, "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n"},
        {784111777, "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"},
        {951782400, "Date: Tue, 29 Feb 2000 00:00:00 GMT\r\n"},
        {1709251199, "Date: Thu, 29 Feb 2024 23:59:59 GMT\r\n"},
        {1709251200, "Date: Fri, 01 Mar 2024 00:00:00 GMT\r\n"},
        {4102444799, "Date: Thu, 31 Dec 2099 23:59:59 GMT\r\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[HTTP_DATE_BYTES];
        reply_write_date(cases[i].seconds * 1000 + 999, line);
        assert_memory_equal(line, cases[i].text, HTTP_DATE_BYTES);
    }
}

static void a_reply_never_passes_its_bound(void **state)
{
    (void)state;
    char date[HTTP_DATE_BYTES], bytes[2000];
    reply_write_date(0, date);
    for (int status = 200; status < 600; status++) {
        struct http_reply r = {
            .status = status, .body = STR("body"), .content_type = STR("text/plain")};
        for (int i = 0; i < HTTP_REPLY_HEADERS_MAX; i++)
            r.headers[r.header_count++] = (struct http_header){STR("X-Name"), STR("value")};
        for (enum persistence p = PERSIST; p <= PERSIST_NOT; p++) {
            char *end = reply_write(&r, false, p, date, bytes);
            assert_true((size_t)(end - bytes) <= reply_bytes_max(&r));
        }
    }
    struct http_reply plain = {.status = 200, .body = STR("{}")};
    char *end = reply_write(&plain, false, PERSIST, date, bytes);
    static const char expected[] =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
        "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\n{}";
    assert_int_equal(end - bytes, sizeof expected - 1);
    assert_memory_equal(bytes, expected, sizeof expected - 1);
}

/* Whichever byte stands wherever in a value of whatever size. */
static void a_header_with_a_control_byte_is_left_out(void **state)
{
    (void)state;
    enum { SIZES = 40 };
    char date[HTTP_DATE_BYTES], value[SIZES], bytes[1000];
    reply_write_date(0, date);
    struct http_reply r = {.status = 204, .header_count = 1};
    char *without = reply_write(&(struct http_reply){.status = 204}, false, PERSIST, date, bytes);
    const size_t head_bytes = (size_t)(without - bytes);
    for (size_t size = 0; size < SIZES; size++) {
        for (size_t at = 0; at < size; at++) {
            for (int byte = 0; byte < 256; byte++) {
                memset(value, at % 2 == 0 ? 'v' : 0xc3, sizeof value);
                value[at] = (char)byte;
                r.headers[0] = (struct http_header){STR("X"), str_of(value, size)};
                size_t written =
                    (size_t)(reply_write(&r, false, PERSIST, date, bytes) - bytes) - head_bytes;
                bool is_control = (byte < 0x20 && byte != '\t') || byte == 0x7f;
                assert_int_equal(written, is_control ? 0 : size + 5); /* "X: " and the line's end */
            }
        }
    }
}

static void targets_are_split(void **state)
{
    (void)state;
    static const struct {
        const char *target, *path, *query;
    } cases[] = {
        {"/a/b?c=d", "/a/b", "c=d"},
        {"/a?", "/a", ""},
        {"/a", "/a", NULL},
        {"/a?b?c", "/a", "b?c"},
        {"http://h/a", "/a", NULL},
        {"HTTPS://h:1/a?b", "/a", "b"},
        {"http://h", "/", NULL},
        {"http://h?q", "/", "q"},
        {"*", "*", NULL},
        {"http:///a", NULL, NULL},
        {"ftp://h/a", NULL, NULL},
        {"a", NULL, NULL},
        {"", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str path, query;
        enum err err = target_split(str_from(cases[i].target), &path, &query, NULL);
        assert_int_equal(err, cases[i].path == NULL ? ERR_BAD_REQUEST : ERR_OK);
        if (err != ERR_OK) continue;
        assert_true(str_equal(path, str_from(cases[i].path)));
        assert_int_equal(str_is_absent(query), cases[i].query == NULL);
        assert_true(str_equal(query, str_from(cases[i].query)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_is_found_in_any_pieces),
        cmocka_unit_test(a_requests_head_is_read),
        cmocka_unit_test(chunks_are_decoded_in_any_pieces),
        cmocka_unit_test(the_overhead_of_chunks_is_bounded),
        cmocka_unit_test(routes_are_found_by_path_and_method),
        cmocka_unit_test(output_keeps_back_what_is_behind_a_barrier),
        cmocka_unit_test(output_grows_and_keeps_its_bytes),
        cmocka_unit_test(dates_are_written_as_rfc_9110_says),
        cmocka_unit_test(a_reply_never_passes_its_bound),
        cmocka_unit_test(a_header_with_a_control_byte_is_left_out),
        cmocka_unit_test(targets_are_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
