/* Every request that must not be served: the answer's status, and whether the connection lives. */
#include "unit/http/rig.h"

/* The request is answered with `status`; then the server closes, or (lives) serves another. */
static void expect_refusal(const char *rule, const char *request, size_t size, int status,
                           bool lives)
{
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    rig_say_bytes(rig, p, request, size);
    if (rig_hear(rig, p, 1) != 1 || heard_status(p) != status)
        fail_msg("%s: expected %d, heard: %s, for: %.200s", rule, status, p->heard, request);
    assert_int_equal(rig->handled, 0);
    if (lives) {
        assert_false(heard(p, "Connection: close"));
        rig_say(rig, p, "GET /things/7 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_int_equal(rig_hear(rig, p, 2), 2);
        assert_true(heard(p, "GET id=7"));
    } else {
        assert_true(heard(p, "Connection: close\r\n"));
        rig_hear_end(rig, p);
        assert_int_equal(rig->refused, 1);
    }
    peer_close(p);
    rig_turn(rig);
    assert_int_equal(http_server_connections(rig->server), 0);
    assert_int_equal(http_server_waiting(rig->server), 0);
    rig_destroy(rig);
}

static void closes(const char *request, int status)
{
    expect_refusal("", request, strlen(request), status, false);
}

#define H "Host: a\r\n"
#define JSON "Content-Type: application/json\r\n"

/* ---- what is refused by itself ---- */

#define GET "GET /things/1 HTTP/1.1\r\n" H
#define POST "POST /echo HTTP/1.1\r\n" H JSON
#define END " HTTP/1.1\r\n" H "\r\n"

enum { CLOSES, LIVES };

static const struct group {
    const char *rule;
    int after, status;
    const char *requests[17];
} groups[] = {
    {"a folded header is refused",
     CLOSES,
     400,
     {GET "X: a\r\n b\r\n\r\n", GET "X: a\r\n\tb\r\n\r\n",
      "GET /things/1 HTTP/1.1\r\n X: a\r\n" H "\r\n"}},
    {"a bare line feed is refused anywhere in the head",
     CLOSES,
     400,
     {"GET /things/1 HTTP/1.1\n" H "\r\n", "GET /things/1 HTTP/1.1\r\nHost: a\n\r\n", GET "\n",
      GET "X: a\nY: b\r\n\r\n", "\nGET /things/1" END}},
    {"a bare carriage return is refused",
     CLOSES,
     400,
     {GET "X: a\rb\r\n\r\n", GET "X: a\r\r\n\r\n"}},
    {"a bad header name is refused",
     CLOSES,
     400,
     {GET ": a\r\n\r\n", "GET /things/1 HTTP/1.1\r\nHost : a\r\n\r\n", GET "X Y: a\r\n\r\n",
      GET "X\r\n\r\n", GET "X\x01: a\r\n\r\n", GET "X\xc3\xa9: a\r\n\r\n"}},
    {"a control byte in a header value is refused",
     CLOSES,
     400,
     {GET "X: a\x01\r\n\r\n", GET "X: a\x7f\r\n\r\n"}},
    {"exactly one host is wanted",
     CLOSES,
     400,
     {"GET /things/1 HTTP/1.1\r\n\r\n", "GET /things/1 HTTP/1.1\r\n" H H "\r\n",
      "GET /things/1 HTTP/1.0\r\n" H "hOST: b\r\n\r\n",
      "GET /things/1 HTTP/1.1\r\nHost: a b\r\n\r\n", "GET /things/1 HTTP/1.1\r\nHost: a, b\r\n\r\n",
      "GET /things/1 HTTP/1.1\r\nHost: a/b\r\n\r\n",
      "GET /things/1 HTTP/1.1\r\nHost: u@a\r\n\r\n"}},
    {"an ambiguous length is refused",
     CLOSES,
     400,
     {POST "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
      POST "Content-Length: 2, 2\r\n\r\n{}",
      POST "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
      POST "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
      POST "Content-Length: +2\r\n\r\n{}", POST "Content-Length: 0x2\r\n\r\n{}",
      POST "Content-Length: \r\n\r\n", POST "Content-Length:\t\r\n\r\n",
      POST "Content-Length: 2\t2\r\n\r\n{}", POST "Content-Length: 2\v\r\n\r\n{}",
      "POST /echo HTTP/1.1\t\r\n" H JSON "Content-Length: 2\r\n\r\n{}",
      POST "Content-Length\t: 2\r\n\r\n{}", POST "Content-Length\t\r\n\r\n{}",
      POST "Content-Length: 99999999999999999999\r\n\r\n",
      POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "POST /echo HTTP/1.0\r\n" H JSON "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}},
    {"an unknown transfer coding is not implemented",
     CLOSES,
     501,
     {POST "Transfer-Encoding: gzip\r\n\r\n", POST "Transfer-Encoding: gzip, chunked\r\n\r\n",
      POST "Transfer-Encoding: chunked, gzip\r\n\r\n", POST "Transfer-Encoding: xchunked\r\n\r\n",
      POST "Transfer-Encoding:\r\n\r\n"}},
    {"a bad byte in the target is refused",
     CLOSES,
     400,
     {"GET /things/\xc3\xa9" END, "GET /things/\x01" END, "GET /things/\x7f" END,
      "GET /things/a#b" END, "GET things" END, "GET  /things/1" END, "GET /things/1 " END,
      "GET /things/1 HTTP/1.1 \r\n" H "\r\n", "GET\t/things/1" END, "GET /things/1\r\n\r\n",
      "CONNECT a:80" END}},
    {"a bad percent encoding in the path is refused",
     LIVES,
     400,
     {"GET /things/%zz" END, "GET /things/%4" END, "GET /things/%" END, "GET /things/%00" END}},
    {"a bad percent encoding in the path is refused", LIVES, 404, {"GET /things%2Fa" END}},
    {"a bad percent encoding in the path is refused",
     LIVES,
     400,
     {"GET /things/%ff" END, "GET /things/%ed%a0%80" END}},
    {"another protocol is refused at once", CLOSES, 505, {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}},
    {"another protocol is refused at once",
     CLOSES,
     400,
     {"GET / RTSP/1.0\r\n" H "\r\n", "SOURCE / ICE/1.0\r\n" H "\r\n"}},
    {"another version is refused",
     CLOSES,
     505,
     {"GET /things/1 HTTP/2.0\r\n" H "\r\n", "GET /things/1 HTTP/1.2\r\n" H "\r\n",
      "GET /things/1 HTTP/0.9\r\n" H "\r\n", "GET /things/1 HTTP/3.7\r\n" H "\r\n"}},
    {"another version is refused",
     CLOSES,
     400,
     {"GET /things/1 HTTP/11\r\n" H "\r\n", "GET /things/1 http/1.1\r\n" H "\r\n"}},
    {"an unknown path is not found",
     LIVES,
     404,
     {"GET /nowhere" END, "GET /things/" END, "GET /things/1/" END, "GET //things/1" END,
      "GET /things/../things/1" END, "OPTIONS *" END,
      "POST /nowhere HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\n{}"}},
    {"an unknown path is not found",
     CLOSES,
     404,
     {"POST /nowhere HTTP/1.1\r\n" H "Content-Length: 20\r\n\r\n{}",
      "POST /nowhere HTTP/1.1\r\n" H
      "Transfer-Encoding: chunked\r\n\r\n" /* no request is found in a body */
      "24\r\nGET /things/1 HTTP/1.1\r\n" H "\r\n\r\n0\r\n\r\n"}},
    {"another method is not allowed and allow says which",
     LIVES,
     405,
     {"GET /echo" END, "PATCH /things/1" END, "DELETE /things/all" END}},
    {"another method is not allowed and allow says which", CLOSES, 501, {"BREW /echo" END}},
    {"an unknown query parameter is named",
     LIVES,
     400,
     {"GET /things/1?q=1&r=2" END, "GET /things/1?q=" END, "GET /things/1?q" END,
      "DELETE /things/1?q=1" END, "GET /things/1?=1" END, "GET /things/1?%zz=1" END}},
    {"another content type is refused",
     LIVES,
     415,
     {"POST /echo HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\n{}",
      "POST /echo HTTP/1.1\r\n" H "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
      "POST /echo HTTP/1.1\r\n" H "Content-Type: application/jsonx\r\nContent-Length: 2\r\n\r\n{}",
      "POST /echo HTTP/1.1\r\n" H
      "Content-Type: application/x-ndjson\r\nContent-Length: 2\r\n\r\n{}",
      "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
      "POST /lines HTTP/1.1\r\n" H
      "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1\r\n\r\na"}},
    {"an encoded body is refused as such",
     LIVES,
     415,
     {POST "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
      POST "content-encoding: br\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"}},
    {"another expectation fails", LIVES, 417, {POST "Expect: tea\r\nContent-Length: 2\r\n\r\n{}"}},
    {"a body over the limit is refused before it is sent",
     CLOSES,
     413,
     {POST "Content-Length: 65537\r\n\r\n",
      POST "Expect: 100-continue\r\nContent-Length: 65537\r\n\r\n",
      POST "Transfer-Encoding: chunked\r\n\r\n10001\r\n",
      "PUT /big HTTP/1.1\r\n" H JSON "Content-Length: 3145729\r\n\r\n"}},
};

static void every_request_of_the_table_is_refused(void **state)
{
    (void)state;
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (const char *const *r = groups[g].requests; *r != NULL; r++)
            expect_refusal(groups[g].rule, *r, strlen(*r), groups[g].status,
                           groups[g].after == LIVES);
}

static void a_control_byte_in_a_header_value_is_refused(void **state)
{
    (void)state;
    static const char nul[] = "GET /things/1 HTTP/1.1\r\n" H "X: a\0b\r\n\r\n";
    expect_refusal("nul", nul, sizeof nul - 1, 400, false);
}

static void a_header_with_one_value_has_one_line(void **state)
{
    (void)state;
    static const char *const names[] = {"Content-Encoding", "Content-Type", "Expect",
                                        "Idempotency-Key", "X-Request-ID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char request[256];
        (void)snprintf(request, sizeof request,
                       "GET /things/1 HTTP/1.1\r\n" H "%s: \r\n%s: a\r\n\r\n", names[i], names[i]);
        closes(request, 400);
    }
}

static void a_bad_chunk_is_refused(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "g\r\n",
        "\r\n",
        "-1\r\n",
        "0x2\r\n{}\r\n",
        "2\n{}\r\n",
        "2 \r\n{}\r\n",
        " 2\r\n{}\r\n",
        "2\r\n{}x",
        "2\r\n{}\n",
        "2\r\n{}\r0",
        "2;a\x01\r\n{}\r\n",
        "0\r\nX: y\rYZ: z\r\n\r\n",
        "11111111111111111\r\n",
        "0\r\n: x\r\n\r\n",
        "0\r\n X: y\r\n\r\n",
        "0\r\nX\r\n\r\n",
        "0\r\nX: y\n\r\n",
        "0\r\n\n",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char request[400];
        snprintf(request, sizeof request,
                 "POST /echo HTTP/1.1\r\n" H JSON "Transfer-Encoding: chunked\r\n\r\n%s",
                 bodies[i]);
        closes(request, 400);
    }
}

static void another_protocol_is_refused_at_once(void **state)
{
    (void)state;
    static const char hello[] = "\x16\x03\x01\x02\x00\x01\x00\x01";
    expect_refusal("hello", hello, sizeof hello - 1, 400, false);
}

static void another_method_is_not_allowed_and_allow_says_which(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    rig_say(rig, p, "POST /things/1 HTTP/1.1\r\n" H "\r\n");
    assert_int_equal(rig_hear(rig, p, 1), 1);
    assert_true(heard(p, "\r\nAllow: GET, HEAD, DELETE\r\n"));
    peer_close(p);
    rig_destroy(rig);
}

static void an_unknown_query_parameter_is_named(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    rig_say(rig, p, "GET /things/1?q=1&li%6Dit=2 HTTP/1.1\r\n" H "\r\n");
    assert_int_equal(rig_hear(rig, p, 1), 1);
    assert_int_equal(rig->fault.err, ERR_UNKNOWN_PARAMETER);
    assert_non_null(strstr(rig->fault.text, "limit"));
    peer_close(p);
    rig_destroy(rig);
}

static void an_encoded_body_is_refused_as_such(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    rig_say(rig, p,
            "POST /echo HTTP/1.1\r\n" H JSON
            "Content-Encoding: Identity\r\nContent-Length: 2\r\n\r\n{}");
    assert_int_equal(rig_hear(rig, p, 1), 1);
    assert_int_equal(heard_status(p), 200);
    peer_close(p);
    rig_destroy(rig);
}

static void chunks_over_the_limit_are_refused_by_count(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    rig_say(rig, p, "POST /size HTTP/1.1\r\n" H JSON "Transfer-Encoding: chunked\r\n\r\n");
    char chunk[1024 + 8] = "400\r\n";
    memset(chunk + 5, '1', 1024);
    memcpy(chunk + 5 + 1024, "\r\n", 2);
    for (int i = 0; i < 64; i++) rig_say_bytes(rig, p, chunk, 5 + 1024 + 2);
    rig_turn(rig);
    peer_listen(p);
    assert_int_equal(p->size, 0); /* 64 KiB is the limit, so not over it */
    rig_say(rig, p, "1\r\n");
    assert_int_equal(rig_hear(rig, p, 1), 1);
    assert_int_equal(heard_status(p), 413);
    rig_hear_end(rig, p);
    peer_close(p);
    rig_destroy(rig);
}

static void a_long_target_is_refused(void **state)
{
    (void)state;
    char *request = malloc(20000);
    int at = snprintf(request, 20000, "GET /things/");
    memset(request + at, 'a', 5000);
    request[at + 5000] = '\0';
    closes(request, 414); /* the line need not even end */
    snprintf(request + at + 4097 - 8, 100, " HTTP/1.1\r\n" H "\r\n");
    closes(request, 414);
    memmove(request + at, request + at + 1, strlen(request + at));
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    rig_say(rig, p, request); /* of the longest that is taken */
    assert_int_equal(rig_hear(rig, p, 1), 1);
    assert_int_equal(heard_status(p), 200);
    peer_close(p);
    rig_destroy(rig);
    free(request);
}

static void a_long_head_is_refused(void **state)
{
    (void)state;
    char *request = malloc(40000);
    int at = snprintf(request, 40000, "GET /things/1 HTTP/1.1\r\n" H "X: ");
    memset(request + at, 'a', 17000);
    request[at + 17000] = '\0';
    closes(request, 431);
    snprintf(request + at + 17000, 100, "\r\n\r\n");
    closes(request, 431);

    at = snprintf(request, 40000, "GET /things/1 HTTP/1.1\r\n" H);
    for (int i = 0; i < 64; i++) at += snprintf(request + at, 20, "X-%d: 1\r\n", i);
    snprintf(request + at, 20, "\r\n");
    closes(request, 431);
    free(request);
}

static void what_cannot_be_admitted_is_not_read(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    rig->deny_admission = true;
    struct peer *p = rig_connect(rig);
    rig_say(rig, p,
            "POST /echo HTTP/1.1\r\n" H JSON "Expect: 100-continue\r\nContent-Length: 20\r\n\r\n");
    assert_int_equal(rig_hear(rig, p, 1), 1);
    assert_int_equal(heard_status(p), 401);
    assert_false(heard(p, "100 Continue"));
    rig_hear_end(rig, p);
    assert_int_equal(rig->handled, 0);
    assert_int_equal(rig->admitted, 1);
    peer_close(p);
    rig_destroy(rig);
}

static void the_answer_reaches_a_client_that_is_still_sending(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect_tcp(rig);
    rig_say(rig, p, "PUT /big HTTP/1.1\r\n" H JSON "Content-Length: 9000000\r\n\r\n");
    assert_int_equal(rig_hear(rig, p, 1), 1);
    assert_int_equal(heard_status(p), 413);
    /* closed now, it would reset who sends on */
    assert_int_equal(http_server_connections(rig->server), 1);
    char *body = calloc(1, 2000000);
    rig_say_bytes(rig, p, body, 2000000); /* the server reads this only to drop it */
    free(body);
    while (http_server_connections(rig->server) > 0) loop_turn(rig->loop, true); /* not for ever */
    peer_close(p);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_request_of_the_table_is_refused),
        cmocka_unit_test(a_control_byte_in_a_header_value_is_refused),
        cmocka_unit_test(a_header_with_one_value_has_one_line),
        cmocka_unit_test(a_bad_chunk_is_refused),
        cmocka_unit_test(another_protocol_is_refused_at_once),
        cmocka_unit_test(another_method_is_not_allowed_and_allow_says_which),
        cmocka_unit_test(an_unknown_query_parameter_is_named),
        cmocka_unit_test(an_encoded_body_is_refused_as_such),
        cmocka_unit_test(chunks_over_the_limit_are_refused_by_count),
        cmocka_unit_test(a_long_target_is_refused),
        cmocka_unit_test(a_long_head_is_refused),
        cmocka_unit_test(what_cannot_be_admitted_is_not_read),
        cmocka_unit_test(the_answer_reaches_a_client_that_is_still_sending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
