/* The server as its clients and its service see it: what is served, and in which order. */
#include "unit/http/rig.h"

#define H "Host: a\r\n"
#define JSON "Content-Type: application/json\r\n"

/* One request on a fresh connection is answered with 200 and this body. */
static void serves(const char *request, const char *body)
{
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    rig_say(rig, p, request);
    assert_int_equal(rig_hear(rig, p, 1), 1);
    const char *start = strstr(p->heard, "\r\n\r\n");
    if (heard_status(p) != 200 || start == NULL || strcmp(start + 4, body) != 0)
        fail_msg("for %s heard %s", request, p->heard);
    peer_close(p);
    rig_destroy(rig);
}

static void a_request_is_answered(void **state)
{
    (void)state;
    serves("POST /echo HTTP/1.1\r\n" H JSON "Content-Length: 2\r\n\r\n{}", "{}");
    serves("POST /echo HTTP/1.1\r\n" H "content-TYPE: Application/JSON ; charset=utf-8\r\n"
           "CONTENT-length: 2\r\n\r\n{}",
           "{}");
    serves("\r\nGET /things/7 HTTP/1.1\r\n" H "\r\n", "GET id=7 q=");
    serves("GET http://a:80/things/7?q=x HTTP/1.1\r\n" H "\r\n", "GET id=7 q=x");
    serves("GET /things/7 HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", "GET id=7 q=");
    serves("GET /things/7 HTTP/1.0\r\n\r\n", "GET id=7 q=");
    serves("GET /things/7 HTTP/1.1\r\n" H "Upgrade: h2c\r\nConnection: upgrade\r\n\r\n",
           "GET id=7 q=");
    serves("DELETE /things/7 HTTP/1.1\r\n" H "\r\n", "DELETE id=7 q=");
    serves("GET /header HTTP/1.1\r\n" H "x-question: \t why \t\r\n\r\n", "why");
}

/* Blanks and tabs around a value are none of it, whichever header it is. */
static void white_space_around_a_value_is_passed_over(void **state)
{
    (void)state;
    static const char *const before[] = {"", " ", "\t", " \t ", "\t\t"};
    static const char *const after[] = {"", " ", "\t", " \t", "\t ", "\t \t"};
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 6; j++) {
            const char *b = before[i], *a = after[j];
            char request[512];
            snprintf(request, sizeof request,
                     "POST /echo HTTP/1.1\r\nHost:%sa%s\r\nContent-Type:%sapplication/json%s\r\n"
                     "Content-Encoding:%sidentity%s\r\nContent-Length:%s2%s\r\n\r\n{}",
                     b, a, b, a, b, a, b, a);
            serves(request, "{}");
            snprintf(request, sizeof request,
                     "POST /echo HTTP/1.1\r\nHost: a\r\n" JSON
                     "Transfer-Encoding:%schunked%s\r\nX:%s%s\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
                     b, a, b, a);
            serves(request, "{}");
            snprintf(request, sizeof request,
                     "GET /header HTTP/1.1\r\n" H "x-question:%swhy\tnot%s\r\n\r\n", b, a);
            serves(request, "why\tnot");
        }
}

/* The server says that it closes exactly where the client does. */
static void closing_is_said_by_any_item_of_connection(void **state)
{
    (void)state;
    static const struct {
        const char *lines;
        bool closes;
    } rows[] = {
        {"Connection: close", true},
        {"Connection: close\t", true},
        {"Connection:\tClose \t", true},
        {"Connection: close\t, x", true},
        {"Connection: x ,\tclose", true},
        {"Connection: x\t,close\t,", true},
        {"Connection: keep-alive\r\nConnection: close\t", true},
        {"Connection: keep-alive\t", false},
        {"Connection: closed", false},
        {"Connection: close x", false},
        {"Connection: x\tclose", false},
        {"X-Connection: close", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rig *rig = rig_create();
        struct peer *p = rig_connect(rig);
        char request[256];
        snprintf(request, sizeof request, "GET /things/7 HTTP/1.1\r\n" H "%s\r\n\r\n",
                 rows[i].lines);
        rig_say(rig, p, request);
        assert_int_equal(rig_hear(rig, p, 1), 1);
        if (heard(p, "Connection: close\r\n") != rows[i].closes)
            fail_msg("for %s heard %s", request, p->heard);
        peer_close(p);
        rig_destroy(rig);
    }
}

static void a_path_is_matched_after_decoding(void **state)
{
    (void)state;
    serves("GET /things/a%20b%C3%A9 HTTP/1.1\r\n" H "\r\n", "GET id=a b\xc3\xa9 q=");
    serves("GET /t%68ings/7 HTTP/1.1\r\n" H "\r\n", "GET id=7 q=");
    /* it separates nothing */
    serves("GET /things/a%2Fb%2f HTTP/1.1\r\n" H "\r\n", "GET id=a/b/ q=");
    serves("GET /things/all HTTP/1.1\r\n" H "\r\n", "GET id= q=");
    serves("GET /things/%61ll HTTP/1.1\r\n" H "\r\n", "GET id= q=");
    serves("GET /things/.. HTTP/1.1\r\n" H "\r\n", "GET id=.. q=");
    serves("POST /things/a/parts/b HTTP/1.1\r\n" H "\r\n", "POST id=a q=");
}

static void query_parameters_are_decoded(void **state)
{
    (void)state;
    serves("GET /things/7?q=a+b%2Bc HTTP/1.1\r\n" H "\r\n", "GET id=7 q=a b+c");
    serves("GET /things/7?&q=1 HTTP/1.1\r\n" H "\r\n", "GET id=7 q=1");
    serves("GET /things/7? HTTP/1.1\r\n" H "\r\n", "GET id=7 q=");
    serves("GET /things/7?%71=1 HTTP/1.1\r\n" H "\r\n", "GET id=7 q=1");
}

static void a_parameter_given_twice_or_badly_is_the_services_to_refuse(void **state)
{
    (void)state;
    static const char *const bad[] = {"q=1&q=2", "q=%", "q=%ff", "q=%00"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rig *rig = rig_create();
        struct peer *p = rig_connect(rig);
        char request[200];
        snprintf(request, sizeof request, "GET /things/7?%s HTTP/1.1\r\n" H "\r\n", bad[i]);
        rig_say(rig, p, request);
        assert_int_equal(rig_hear(rig, p, 1), 1);
        assert_int_equal(heard_status(p), 400);
        assert_true(heard(p, "\r\n\r\nq: "));
        peer_close(p);
        rig_destroy(rig);
    }
}

static void bodies_of_the_routes_kind_are_taken(void **state)
{
    (void)state;
    serves("POST /lines HTTP/1.1\r\n" H "Content-Type: application/x-ndjson\r\n"
           "Content-Length: 1\r\n\r\n1",
           "1 49");
    serves("POST /lines HTTP/1.1\r\n" H JSON "Content-Length: 1\r\n\r\n1", "1 49");
    serves("POST /form HTTP/1.1\r\n" H "Content-Type: application/x-www-form-urlencoded\r\n"
           "Content-Length: 1\r\n\r\n1",
           "1 49");
    serves("POST /form HTTP/1.1\r\n" H JSON "Content-Length: 1\r\n\r\n1", "1 49");
    serves("POST /ignores HTTP/1.1\r\n" H "Content-Length: 1\r\n\r\n1", "1 49");
    serves("POST /size HTTP/1.1\r\n" H "Content-Type: text/plain\r\nContent-Length: 0\r\n\r\n",
           "0 0");
    serves("POST /size HTTP/1.1\r\n" H "Content-Type: text/plain\r\n\r\n", "0 0");
    serves("POST /size HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "0 0");
}

static void chunks_are_joined(void **state)
{
    (void)state;
    serves("POST /echo HTTP/1.1\r\n" H JSON "Transfer-Encoding: Chunked\r\n\r\n"
           "3\r\n{\"a\r\n01;x=y\r\n\"\r\nB\r\n:[1,2,3,4]}\r\n0\r\nX: y\r\nZ:\r\n\r\n",
           "{\"a\":[1,2,3,4]}");
}

static void head_has_the_gets_head_and_no_body(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    rig_say(rig, p,
            "HEAD /things/7 HTTP/1.1\r\n" H "\r\nHEAD /nowhere HTTP/1.1\r\n" H "\r\n"
            "GET /nothing HTTP/1.1\r\n" H "\r\n");
    while (!heard(p, "204 No Content")) {
        peer_listen(p);
        loop_turn(rig->loop, true);
    }
    assert_non_null(strstr(p->heard, "Content-Length: 12\r\n")); /* "HEAD id=7 q=" */
    assert_null(strstr(p->heard, "id=7"));
    assert_null(strstr(p->heard, "not_found"));
    assert_null(strstr(strstr(p->heard, "204"), "Content-"));
    peer_close(p);
    rig_destroy(rig);
}

static void a_header_with_a_line_end_is_not_sent(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    rig_say(rig, p, "GET /header HTTP/1.1\r\n" H "\r\n");
    assert_int_equal(rig_hear(rig, p, 1), 1);
    assert_true(heard(p, "\r\nX-Good: fine\r\n"));
    assert_false(heard(p, "Injected"));
    assert_true(heard(p, "\r\nDate: "));
    peer_close(p);
    rig_destroy(rig);
}

static void connections_persist_as_the_version_says(void **state)
{
    (void)state;
    static const struct {
        const char *request;
        bool persists, says_so;
    } cases[] = {
        {"GET /things/7 HTTP/1.1\r\n" H "\r\n", true, false},
        {"GET /things/7 HTTP/1.1\r\n" H "Connection: x, Close\r\n\r\n", false, false},
        {"GET /things/7 HTTP/1.1\r\n" H "Connection: x\r\nConnection: close\r\n\r\n", false, false},
        {"GET /things/7 HTTP/1.0\r\n\r\n", false, false},
        {"GET /things/7 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true, true},
        {"POST /echo?close=1 HTTP/1.1\r\n" H "\r\n", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig *rig = rig_create();
        struct peer *p = rig_connect(rig);
        rig_say(rig, p, cases[i].request);
        rig_say(rig, p, "GET /things/8 HTTP/1.1\r\n" H "\r\n");
        if (cases[i].persists)
            assert_int_equal(rig_hear(rig, p, 2), 2);
        else
            rig_hear_end(rig, p);
        assert_int_equal(heard(p, "id=8"), cases[i].persists);
        assert_int_equal(heard(p, "Connection: close\r\n"), !cases[i].persists);
        assert_int_equal(heard(p, "Connection: keep-alive\r\n"), cases[i].says_so);
        peer_close(p);
        rig_destroy(rig);
    }
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    enum { COUNT = 500 };
    for (int i = 0; i < COUNT; i++) {
        char request[120];
        if (i % 3 == 0)
            snprintf(request, sizeof request, "GET /nowhere/%d HTTP/1.1\r\n" H "\r\n", i);
        else
            snprintf(request, sizeof request, "GET /things/%d HTTP/1.1\r\n" H "\r\n", i);
        rig_say(rig, p, request);
    }
    assert_int_equal(rig_hear(rig, p, COUNT), COUNT);
    const char *at = p->heard;
    for (int i = 0; i < COUNT; i++) {
        char block[40];
        snprintf(block, sizeof block, i % 3 == 0 ? "not_found" : "id=%d q=", i);
        at = strstr(at, block);
        assert_non_null(at);
        at++;
    }
    peer_close(p);
    rig_destroy(rig);
}

/* All that is ready in one turn is received before any of it is handled. */
static void requests_of_one_turn_keep_their_bytes_apart(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    enum { COUNT = 12, BODY = 9000 }; /* more than the scratch holds at once */
    struct peer *peers[COUNT];
    char head[200], body[BODY];
    for (int i = 0; i < COUNT; i++) peers[i] = rig_connect(rig);
    for (int i = 0; i < COUNT; i++) {
        size_t size = (size_t)(i % 3 == 0 ? 40 : BODY - i); /* every third is small */
        memset(body, 'a' + i, size);
        int head_size = snprintf(head, sizeof head,
                                 "POST /echo HTTP/1.1\r\n" H "Content-Type: application/json\r\n"
                                 "Content-Length: %zu\r\n\r\n",
                                 size);
        rig_say_bytes(rig, peers[i], head, (size_t)head_size);
        if (i % 4 == 1) size -= 10; /* the end comes in another turn */
        rig_say_bytes(rig, peers[i], body, size);
    }
    rig_turn(rig);
    for (int i = 1; i < COUNT; i += 4) {
        memset(body, 'a' + i, 10);
        rig_say_bytes(rig, peers[i], body, 10);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(rig_hear(rig, peers[i], 1), 1);
        assert_int_equal(heard_status(peers[i]), 200);
        const char *echo = strstr(peers[i]->heard, "\r\n\r\n") + 4;
        size_t size = (size_t)(i % 3 == 0 ? 40 : BODY - i);
        assert_int_equal(peers[i]->heard + peers[i]->size - echo, size);
        for (size_t k = 0; k < size; k++) assert_int_equal(echo[k], 'a' + i);
        peer_close(peers[i]);
    }
    rig_destroy(rig);
}

/* The second head is the first but for Content-Length, the third is not. */
static void a_head_that_comes_again_means_the_same(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
#define AGAIN(type, length, body)                                                                  \
    "POST /echo HTTP/1.1\r\n" H "Content-Type: " type "\r\nContent-Length: " length "\r\n\r\n" body
    static const char *const said[] = {
        AGAIN("application/json", "2", "{}"), AGAIN("application/json", "11", "[1,2,3,4,5]"),
        AGAIN("application/xsom", "2", "{}"), AGAIN("application/json", "007", "[1,2,3]")};
#undef AGAIN
    static const char *const heard[] = {"200 {}", "200 [1,2,3,4,5]", "415 ", "200 [1,2,3]"};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        p->size = 0;
        rig_say(rig, p, said[i]);
        assert_int_equal(rig_hear(rig, p, 1), 1);
        assert_int_equal(heard_status(p), strtol(heard[i], NULL, 10));
        if (heard_status(p) != 200) continue;
        assert_string_equal(strstr(p->heard, "\r\n\r\n") + 4, heard[i] + 4);
    }
    peer_close(p);
    rig_destroy(rig);
}

/* What was read of it may be elsewhere by then, and others' bytes in its place. */
static void a_head_means_the_same_when_its_body_comes(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig), *q = rig_connect(rig);
    rig_say(rig, p, "POST /echo?lane=1&mark=5 HTTP/1.1\r\n" H JSON "Content-Length: 2\r\n\r\n");
    rig_turn(rig);
    rig_say(
        rig, q,
        "GET /things/things/things/things/things/things/things/things/things/things/things/things");
    rig_turn(rig);
    rig_say(rig, p, "{}");
    rig_turn(rig);
    assert_int_equal(rig->handled, 1);
    assert_int_equal(rig_hear(rig, p, 0), 0);
    http_server_release(rig->server, 5, 0);
    assert_int_equal(rig_hear(rig, p, 1), 1);
    peer_close(p);
    peer_close(q);
    rig_destroy(rig);
}

static void bytes_may_come_one_by_one(void **state)
{
    (void)state;
    static const char requests[] =
        "\r\nPOST /echo HTTP/1.1\r\n" H JSON "Content-Length: 9\r\n\r\n[1, 2, 3]"
        "\r\nPOST /echo HTTP/1.1\r\n" H JSON "Transfer-Encoding: chunked\r\n\r\n"
        "5;a=b\r\n[1, 2\r\n00004\r\n, 3]\r\n0\r\nX: y\r\n\r\n"
        "POST /echo HTTP/1.1\r\n" H JSON "Transfer-Encoding: chunked\r\n\r\n3\r\n[4]\r\n0\r\n\r\n"
        "GET /things/9 HTTP/1.1\r\n" H "\r\n";
    struct rig *rig = rig_create();
    struct peer *p = rig_connect_tcp(rig);
    for (size_t i = 0; i + 1 < sizeof requests; i++) {
        rig_say_bytes(rig, p, requests + i, 1);
        loop_turn(rig->loop, true);
    }
    assert_int_equal(rig_hear(rig, p, 4), 4);
    const char *second = strstr(p->heard, "[1, 2, 3]");
    assert_non_null(second);
    assert_non_null(strstr(second + 1, "[1, 2, 3]"));
    assert_true(heard(p, "\r\n\r\n[4]") && heard(p, "id=9"));
    assert_int_equal(rig->refused, 0);
    peer_close(p);
    rig_destroy(rig);
}

static void a_large_body_arrives_whole(void **state)
{
    (void)state;
    enum { SIZE = 3 << 20 };
    char *body = malloc(SIZE), head[200], expected[64];
    uint64_t sum = 0;
    for (size_t i = 0; i < SIZE; i++) {
        body[i] = (char)(i * 7 + i / 1000);
        sum = sum * 31 + (unsigned char)body[i];
    }
    snprintf(expected, sizeof expected, "\r\n\r\n%d %llu", SIZE, (unsigned long long)sum);
    struct rig *rig = rig_create();
    struct peer *p = rig_connect_tcp(rig);
    snprintf(head, sizeof head, "PUT /big HTTP/1.1\r\n" H JSON "Content-Length: %d\r\n\r\n", SIZE);
    rig_say(rig, p, head);
    rig_say_bytes(rig, p, body, SIZE);
    assert_int_equal(rig_hear(rig, p, 1), 1);
    assert_true(heard(p, expected));

    peer_forget(p); /* again in chunks of odd sizes */
    rig_say(rig, p, "PUT /big HTTP/1.1\r\n" H JSON "Transfer-Encoding: chunked\r\n\r\n");
    for (size_t at = 0, size = 1; at < SIZE; at += size, size = size * 3 % 50021 + 1) {
        if (size > SIZE - at) size = SIZE - at;
        snprintf(head, sizeof head, "%zx\r\n", size);
        rig_say(rig, p, head);
        rig_say_bytes(rig, p, body + at, size);
        rig_say(rig, p, "\r\n");
    }
    rig_say(rig, p, "0\r\n\r\n");
    assert_int_equal(rig_hear(rig, p, 1), 1);
    assert_true(heard(p, expected));
    assert_int_equal(rig->admitted, 2); /* each once, in however many pieces it came */
    free(body);
    peer_close(p);
    rig_destroy(rig);
}

static void a_client_that_asks_first_is_told_to_go_on(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    rig_say(rig, p,
            "POST /echo HTTP/1.1\r\n" H JSON "Expect: 100-Continue\r\nContent-Length: 2\r\n\r\n");
    while (!heard(p, "\r\n\r\n")) {
        peer_listen(p);
        loop_turn(rig->loop, true);
    }
    assert_string_equal(p->heard, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_int_equal(rig->admitted, 1);
    peer_forget(p);
    rig_say(rig, p, "{}");
    assert_int_equal(rig_hear(rig, p, 1), 1);
    assert_int_equal(heard_status(p), 200);

    /* Not where the body is there already, nor for HTTP/1.0. */
    peer_forget(p);
    rig_say(rig, p,
            "POST /echo HTTP/1.1\r\n" H JSON "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}");
    rig_say(rig, p,
            "POST /echo HTTP/1.0\r\n" JSON "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_int_equal(rig_hear(rig, p, 1), 1);
    rig_turn(rig);
    rig_say(rig, p, "{}");
    assert_int_equal(rig_hear(rig, p, 2), 2);
    assert_false(heard(p, "100 Continue"));
    peer_close(p);
    rig_destroy(rig);
}

static void a_client_that_ends_its_side_still_gets_its_answers(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect_tcp(rig);
    rig_say(rig, p,
            "GET /things/1 HTTP/1.1\r\n" H "\r\nPOST /echo?lane=1&mark=5 HTTP/1.1\r\n" H
            "\r\nGET /later HTTP/1.1\r\n" H "\r\nGET /things/4 HTTP/1.1\r\n" H "\r\nGET /thi");
    shutdown(p->fd, SHUT_WR);
    assert_int_equal(rig_hear(rig, p, 1), 1);
    while (rig->token_count < 1) loop_turn(rig->loop, true);
    rig_turn(rig);
    http_server_release(rig->server, 5, 0);
    assert_true(http_token_alive(rig->server, rig->tokens[0]));
    assert_true(http_resume(rig->server, rig->tokens[0],
                            &(struct http_reply){.status = 200, .body = STR("third")}));
    rig_hear_end(rig, p);
    assert_int_equal(rig_hear(rig, p, 4), 4);
    assert_true(heard(p, "third") && heard(p, "id=4"));
    assert_int_equal(http_server_connections(rig->server), 0);
    peer_close(p);

    p = rig_connect_tcp(rig); /* and where nothing is behind it, it ends with the answer */
    rig_say(rig, p, "GET /later HTTP/1.1\r\n" H "\r\n");
    shutdown(p->fd, SHUT_WR);
    while (rig->token_count < 2) loop_turn(rig->loop, true);
    rig_turn(rig);
    assert_true(http_resume(rig->server, rig->tokens[1],
                            &(struct http_reply){.status = 200, .body = STR("last")}));
    rig_hear_end(rig, p);
    assert_int_equal(rig_hear(rig, p, 1), 1);
    peer_close(p);
    rig_destroy(rig);
}

static void one_too_many_is_told_so(void **state)
{
    (void)state;
    struct http_limits limits = rig_limits();
    limits.connections_max = 2;
    struct rig *rig = rig_create_limited(limits);
    struct peer *a = rig_connect_tcp(rig), *b = rig_connect_tcp(rig), *c = rig_connect_tcp(rig);
    assert_int_equal(rig_hear(rig, c, 1), 1);
    assert_int_equal(heard_status(c), 503);
    rig_hear_end(rig, c);
    peer_close(c);
    while (http_server_connections(rig->server) > 2) loop_turn(rig->loop, true);

    peer_close(a); /* a place is free again */
    while (http_server_connections(rig->server) > 1) loop_turn(rig->loop, true);
    c = rig_connect_tcp(rig);
    rig_say(rig, c, "GET /things/1 HTTP/1.1\r\n" H "\r\n");
    assert_int_equal(rig_hear(rig, c, 1), 1);
    assert_int_equal(heard_status(c), 200);
    peer_close(b);
    peer_close(c);
    rig_destroy(rig);
}

static void ask_and_hear(struct rig *rig, struct peer *p, size_t answers)
{
    rig_say(rig, p, "GET /things/1 HTTP/1.1\r\n" H "\r\n");
    assert_int_equal(rig_hear(rig, p, answers), answers);
    assert_int_equal(heard_status(p), 200);
}

static void whoever_was_answered_and_is_silent_makes_room(void **state)
{
    (void)state;
    struct http_limits limits = rig_limits();
    limits.connections_max = 2;
    struct rig *rig = rig_create_limited(limits);
    struct peer *a = rig_connect_tcp(rig), *b = rig_connect_tcp(rig);
    ask_and_hear(rig, b, 1); /* silent for longer than the other */
    ask_and_hear(rig, a, 1);
    struct peer *c = rig_connect_tcp(rig);
    ask_and_hear(rig, c, 1);
    rig_hear_end(rig, b);
    assert_int_equal(http_server_closed_for_room(rig->server), 1);
    ask_and_hear(rig, a, 2);
    peer_close(a);
    peer_close(b);
    peer_close(c);
    rig_destroy(rig);
}

static void whoever_has_asked_nothing_makes_room_first(void **state)
{
    (void)state;
    struct http_limits limits = rig_limits();
    limits.connections_max = 3;
    struct rig *rig = rig_create_limited(limits);
    struct peer *answered = rig_connect_tcp(rig), *mute = rig_connect_tcp(rig),
                *slow = rig_connect_tcp(rig);
    ask_and_hear(rig, answered, 1);
    rig_say(rig, slow, "GET /things/1 HTT");
    uint64_t since_ms = loop_now_ms(rig->loop);
    /* nobody is hurried before */
    while (loop_now_ms(rig->loop) < since_ms + 1100) loop_turn(rig->loop, true);
    struct peer *next = rig_connect_tcp(rig);
    rig_hear_end(rig, mute);
    ask_and_hear(rig, next, 1);
    struct peer *last = rig_connect_tcp(rig);
    rig_hear_end(rig, slow);
    ask_and_hear(rig, last, 1);
    ask_and_hear(rig, answered, 2);
    const char *date = strstr(answered->heard, "Date: ");
    assert_memory_not_equal(date, strstr(date + 1, "Date: "), 37); /* more than a second later */
    assert_int_equal(http_server_closed_for_room(rig->server), 2);
    struct peer *all[] = {answered, mute, slow, next, last};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) peer_close(all[i]);
    rig_destroy(rig);
}

#define SOME_OF_A_BODY                                                                             \
    "POST /size HTTP/1.1\r\n" H "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"

/* Whether the first of those who come found a stranger that had begun within the second. */
static bool a_body_of_nobody_made_room(void)
{
    struct http_limits limits = rig_limits();
    limits.connections_max = 3;
    struct rig *rig = rig_create_limited(limits);
    struct peer *answered = rig_connect_tcp(rig), *known = rig_connect_tcp(rig),
                *stranger = rig_connect_tcp(rig);
    ask_and_hear(rig, answered, 1);
    rig_say(rig, known, SOME_OF_A_BODY);
    while (rig->admitted < 1) rig_turn(rig);
    uint64_t begun_ns = world_monotonic_ns();
    rig->is_of_strangers = true;
    rig_say(rig, stranger, SOME_OF_A_BODY);
    while (rig->admitted < 2) rig_turn(rig);
    struct peer *first = rig_connect_tcp(rig); /* nobody is hurried: who was answered goes */
    ask_and_hear(rig, first, 1);
    if (world_monotonic_ns() - begun_ns > 900000000u) {
        struct peer *some[] = {answered, known, stranger, first};
        for (size_t i = 0; i < sizeof some / sizeof *some; i++) peer_close(some[i]);
        rig_destroy(rig);
        return false;
    }
    rig_hear_end(rig, answered);
    uint64_t since_ms = loop_now_ms(rig->loop);
    while (loop_now_ms(rig->loop) < since_ms + 1100) loop_turn(rig->loop, true);
    struct peer *next = rig_connect_tcp(rig);
    ask_and_hear(rig, next, 1);
    rig_hear_end(rig, stranger);
    assert_int_equal(http_server_closed_for_room(rig->server), 2);
    char rest[100];
    memset(rest, ' ', sizeof rest);
    memcpy(rest + 98, "}", 2);
    rig_say(rig, known, rest);
    assert_int_equal(rig_hear(rig, known, 1), 1);
    assert_int_equal(heard_status(known), 200);
    struct peer *all[] = {answered, known, stranger, first, next};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) peer_close(all[i]);
    rig_destroy(rig);
    return true;
}

static void a_body_of_nobody_makes_room_and_one_with_a_credential_stays(void **state)
{
    (void)state;
    while (!a_body_of_nobody_made_room()) continue;
}

static void whoever_waits_for_its_answer_stays(void **state)
{
    (void)state;
    struct http_limits limits = rig_limits();
    limits.connections_max = 1;
    struct rig *rig = rig_create_limited(limits);
    struct peer *waits = rig_connect_tcp(rig);
    rig_say(rig, waits, "GET /later HTTP/1.1\r\n" H "\r\n");
    while (rig->token_count < 1) rig_turn(rig);
    struct peer *next = rig_connect_tcp(rig);
    assert_int_equal(rig_hear(rig, next, 1), 1);
    assert_int_equal(heard_status(next), 503);
    assert_true(http_resume(rig->server, rig->tokens[0],
                            &(struct http_reply){.status = 200, .body = STR("late")}));
    assert_int_equal(rig_hear(rig, waits, 1), 1);
    assert_true(heard(waits, "late"));
    assert_int_equal(http_server_closed_for_room(rig->server), 0);
    peer_close(waits);
    peer_close(next);
    rig_destroy(rig);
}

static void a_flood_of_connections_is_cut_off(void **state)
{
    (void)state;
    struct http_limits limits = rig_limits();
    limits.connections_max = 1;
    struct rig *rig = rig_create_limited(limits);
    enum { COUNT = 40 };
    struct peer *peers[COUNT];
    for (int i = 0; i < COUNT; i++) peers[i] = rig_connect(rig);
    assert_true(http_server_connections(rig->server) < COUNT);
    rig_hear_end(rig, peers[COUNT - 1]);
    rig_say(rig, peers[0], "GET /things/1 HTTP/1.1\r\n" H "\r\n");
    assert_int_equal(rig_hear(rig, peers[0], 1), 1);
    assert_int_equal(heard_status(peers[0]), 200);
    for (int i = 0; i < COUNT; i++) peer_close(peers[i]);
    rig_turn(rig);
    assert_int_equal(http_server_connections(rig->server), 0);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_answered),
        cmocka_unit_test(white_space_around_a_value_is_passed_over),
        cmocka_unit_test(closing_is_said_by_any_item_of_connection),
        cmocka_unit_test(a_path_is_matched_after_decoding),
        cmocka_unit_test(query_parameters_are_decoded),
        cmocka_unit_test(a_parameter_given_twice_or_badly_is_the_services_to_refuse),
        cmocka_unit_test(bodies_of_the_routes_kind_are_taken),
        cmocka_unit_test(chunks_are_joined),
        cmocka_unit_test(head_has_the_gets_head_and_no_body),
        cmocka_unit_test(a_header_with_a_line_end_is_not_sent),
        cmocka_unit_test(connections_persist_as_the_version_says),
        cmocka_unit_test(pipelined_requests_are_answered_in_order),
        cmocka_unit_test(requests_of_one_turn_keep_their_bytes_apart),
        cmocka_unit_test(a_head_that_comes_again_means_the_same),
        cmocka_unit_test(a_head_means_the_same_when_its_body_comes),
        cmocka_unit_test(bytes_may_come_one_by_one),
        cmocka_unit_test(a_large_body_arrives_whole),
        cmocka_unit_test(a_client_that_asks_first_is_told_to_go_on),
        cmocka_unit_test(a_client_that_ends_its_side_still_gets_its_answers),
        cmocka_unit_test(one_too_many_is_told_so),
        cmocka_unit_test(whoever_was_answered_and_is_silent_makes_room),
        cmocka_unit_test(whoever_has_asked_nothing_makes_room_first),
        cmocka_unit_test(a_body_of_nobody_makes_room_and_one_with_a_credential_stays),
        cmocka_unit_test(whoever_waits_for_its_answer_stays),
        cmocka_unit_test(a_flood_of_connections_is_cut_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
