/* The same head again over a kept connection: what is answered is what a fresh one would be. */
#include "unit/http/rig.h"

#define H "Host: a\r\n"
#define JSON "Content-Type: application/json\r\n"

/* Without the Date, which may be a second later. */
static void assert_same_reply(const char *request, const char *a, const char *b)
{
    const char *date_a = strstr(a, "Date: "), *date_b = strstr(b, "Date: ");
    assert_non_null(date_a);
    assert_non_null(date_b);
    bool same = date_a - a == date_b - b && strncmp(a, b, (size_t)(date_a - a)) == 0 &&
                strcmp(strstr(date_a, "\r\n"), strstr(date_b, "\r\n")) == 0;
    if (!same) fail_msg("for %s heard %s and not %s", request, a, b);
}

static void ask(struct rig *rig, struct peer *p, const char *request)
{
    peer_forget(p);
    rig_say(rig, p, request);
    assert_int_equal(rig_hear(rig, p, 1), 1);
}

/* Over one connection, one after the other; each as over one of its own. */
static void answers_as_a_fresh_one(const char *const *requests, size_t count)
{
    struct rig *rig = rig_create();
    struct peer *kept = rig_connect(rig);
    for (size_t i = 0; i < count; i++) {
        struct peer *fresh = rig_connect(rig);
        ask(rig, fresh, requests[i]);
        ask(rig, kept, requests[i]);
        assert_same_reply(requests[i], kept->heard, fresh->heard);
        assert_int_equal(kept->ended, fresh->ended);
        peer_close(fresh);
    }
    peer_close(kept);
    rig_destroy(rig);
}

#define ANSWERS(...)                                                                               \
    do {                                                                                           \
        static const char *const requests[] = {__VA_ARGS__};                                       \
        answers_as_a_fresh_one(requests, sizeof requests / sizeof *requests);                      \
    } while (0)

#define ECHO(length, body)                                                                         \
    "POST /echo HTTP/1.1\r\n" H JSON "Content-Length: " length "\r\n\r\n" body

static void a_head_again_is_answered_as_if_it_were_new(void **state)
{
    (void)state;
    ANSWERS(ECHO("2", "{}"), ECHO("2", "[]"), ECHO("10", "0123456789"), ECHO("0", ""),
            ECHO("003", "abc"), ECHO("2", "{}"),
            "POST /size HTTP/1.1\r\n" H JSON "Content-Length: 2\r\n\r\n{}", ECHO("2", "{}"));
    ANSWERS("GET /things/7?q=a+b HTTP/1.1\r\n" H "\r\n",
            "GET /things/7?q=a+b HTTP/1.1\r\n" H "\r\n",
            "GET /things/8?q=a+b HTTP/1.1\r\n" H "\r\n", "DELETE /things/8 HTTP/1.1\r\n" H "\r\n",
            "GET /things/7?q=a+b HTTP/1.1\r\n" H "\r\n");
    /* encoded paths, whose parameters are decoded; the target in its absolute form */
    ANSWERS("GET /things/a%2Fb HTTP/1.1\r\n" H "\r\n", "GET /things/a%2Fb HTTP/1.1\r\n" H "\r\n");
    ANSWERS("GET http://a/things/7 HTTP/1.1\r\n" H "\r\n",
            "GET http://a/things/7 HTTP/1.1\r\n" H "\r\n");
    ANSWERS("GET http://a HTTP/1.1\r\n" H "\r\n", "GET http://a HTTP/1.1\r\n" H "\r\n");
    /* a head alone, and a client that has to be told that it may stay */
    ANSWERS("HEAD /nothing HTTP/1.1\r\n" H "\r\n", "HEAD /nothing HTTP/1.1\r\n" H "\r\n");
    ANSWERS("GET /things/7 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            "GET /things/7 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    /* a header that is there, in any spelling, and then is not */
    ANSWERS("GET /header HTTP/1.1\r\n" H "x-QUESTION: why\r\n\r\n",
            "GET /header HTTP/1.1\r\n" H "x-QUESTION: why\r\n\r\n",
            "GET /header HTTP/1.1\r\n" H "\r\n", "GET /header HTTP/1.1\r\n" H "\r\n",
            "GET /header HTTP/1.1\r\n" H "X-QUESTIONS: why\r\n\r\n",
            "GET /header HTTP/1.1\r\n" H "X-QUESTIONS: why\r\n\r\n");
    /* blank lines before */
    ANSWERS("\r\n" ECHO("2", "{}"), "\r\n" ECHO("3", "{ }"), ECHO("2", "{}"));
}

#define CHUNKED "POST /echo HTTP/1.1\r\n" H JSON "Transfer-Encoding: chunked\r\n\r\n"

static void a_body_in_chunks_is_read_under_a_head_again(void **state)
{
    (void)state;
    ANSWERS(CHUNKED "2\r\n{}\r\n0\r\n\r\n", CHUNKED "1\r\n{\r\n3\r\n  }\r\n0\r\n\r\n",
            CHUNKED "0\r\n\r\n", CHUNKED "2\r\n{}\r\n0\r\n\r\n");
    ANSWERS("POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
}

#define KEPT(type, length, body)                                                                   \
    "POST /kept/1/2 HTTP/1.1\r\n" H type "Content-Length: " length "\r\n\r\n" body
#define HUNDRED                                                                                    \
    "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"

/* Whether there may be such a body is asked of each, since there may be none. */
static void the_body_is_judged_under_a_head_again(void **state)
{
    (void)state;
#define UNTYPED(length, body) "POST /echo HTTP/1.1\r\n" H "Content-Length: " length "\r\n\r\n" body
    ANSWERS(UNTYPED("0", ""), UNTYPED("2", "{}"), UNTYPED("0", ""), UNTYPED("00", ""));
#define CODED(length, body)                                                                        \
    "POST /echo HTTP/1.1\r\n" H JSON "Content-Encoding: gzip\r\nContent-Length: " length           \
    "\r\n\r\n" body
    ANSWERS(CODED("0", ""), CODED("2", "{}"), CODED("0", ""));

    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    ask(rig, p, KEPT(JSON, "100", HUNDRED));
    assert_true(heard(p, "seen=1 length=100"));
    ask(rig, p, KEPT(JSON, "300", HUNDRED HUNDRED HUNDRED));
    assert_true(heard(p, "seen=2 length=300"));
    ask(rig, p, KEPT(JSON, "301", HUNDRED HUNDRED HUNDRED "0"));
    assert_int_equal(heard_status(p), 413);
    ask(rig, p, KEPT(JSON, "1", "0")); /* the connection lives: all of it was there */
    assert_true(heard(p, "seen=3 length=1 a=1 b=2 body=0"));
    ask(rig, p, KEPT(JSON, "301", ""));
    assert_int_equal(heard_status(p), 413);
    rig_hear_end(rig, p);
    peer_close(p);
    rig_destroy(rig);
}

static void what_is_kept_is_of_one_head_and_one_connection(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig), *other = rig_connect(rig);
    ask(rig, p, KEPT(JSON, "2", "{}"));
    assert_true(heard(p, "seen=1 length=2 a=1 b=2 body={}"));
    ask(rig, p, KEPT(JSON, "0", ""));
    assert_true(heard(p, "seen=2 length=0 a=1 b=2 body="));
    ask(rig, other, KEPT(JSON, "2", "{}"));
    assert_true(heard(other, "seen=1 "));
    ask(rig, p, KEPT("X: y\r\n" JSON, "2", "{}"));
    assert_true(heard(p, "seen=1 "));
    ask(rig, p, KEPT(JSON, "2", "{}"));
    assert_true(heard(p, "seen=1 "));
    /* what went wrong leaves what is remembered as it was */
    ask(rig, p, "GET /nowhere HTTP/1.1\r\n" H "\r\n");
    assert_int_equal(heard_status(p), 404);
    ask(rig, p, KEPT(JSON, "2", "{}"));
    assert_true(heard(p, "seen=2 "));
    /* a path that has to be decoded is none to remember */
    ask(rig, p, "POST /kept/%31/2 HTTP/1.1\r\n" H "\r\n");
    assert_true(heard(p, "seen=0 length= a=1 b=2 "));
    peer_close(p);
    peer_close(other);
    rig_destroy(rig);
}

/* However it comes, and whoever comes between: the bytes move, and the scratch is another's. */
static void a_head_again_may_come_in_pieces(void **state)
{
    (void)state;
    static const char request[] = KEPT(JSON, "11", "{\"a\":  \"b\"}");
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig), *other = rig_connect(rig);
    ask(rig, p, KEPT(JSON, "2", "{}"));
    char expected[100];
    for (size_t split = 1; split < sizeof request - 1; split++) {
        peer_forget(p);
        rig_say_bytes(rig, p, request, split);
        rig_turn(rig);
        assert_int_equal(rig_hear(rig, p, 0), 0);
        ask(rig, other, "GET /things/7?q=" HUNDRED HUNDRED " HTTP/1.1\r\n" H "\r\n");
        rig_say_bytes(rig, p, request + split, sizeof request - 1 - split);
        assert_int_equal(rig_hear(rig, p, 1), 1);
        snprintf(expected, sizeof expected, "seen=%zu length=11 a=1 b=2 body={\"a\":  \"b\"}",
                 split + 1);
        if (!heard(p, expected)) fail_msg("at %zu heard %s", split, p->heard);
    }
    peer_close(p);
    peer_close(other);
    rig_destroy(rig);
}

static void heads_again_may_come_one_behind_the_other(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    rig_say(rig, p,
            KEPT(JSON, "2", "{}") KEPT(JSON, "0", "")
                KEPT(JSON, "11", "POST /kept/") "GET /things/7 HTTP/1.1\r\n" H
                                                "\r\n" KEPT(JSON, "2", "[]")
                                                    KEPT(JSON, "3", "[ ]"));
    assert_int_equal(rig_hear(rig, p, 6), 6);
    assert_true(heard(p, "seen=2 length=0 a=1 b=2 body=HTTP"));
    assert_true(heard(p, "seen=3 length=11 a=1 b=2 body=POST /kept/HTTP"));
    assert_true(heard(p, "GET id=7 q="));
    assert_true(heard(p, "seen=1 length=2 a=1 b=2 body=[]"));
    assert_true(heard(p, "seen=2 length=3 a=1 b=2 body=[ ]"));
    peer_close(p);
    rig_destroy(rig);
}

/* The limits of heads are those of the scan, also where a head begins like the one before. */
static void a_flood_of_digits_is_no_length(void **state)
{
    (void)state;
    static char request[LIMIT_HEAD_BYTES + 200];
    struct rig *rig = rig_create();
    for (size_t zeros = 19; zeros < LIMIT_HEAD_BYTES + 10; zeros = zeros * 2 + 1) {
        struct peer *p = rig_connect(rig), *fresh = rig_connect(rig);
        ask(rig, p, ECHO("2", "{}"));
        snprintf(request, sizeof request,
                 "POST /echo HTTP/1.1\r\n" H JSON "Content-Length: %0*d\r\n\r\n{}", (int)zeros + 1,
                 2);
        ask(rig, p, request);
        ask(rig, fresh, request);
        assert_same_reply("many zeros", p->heard, fresh->heard);
        assert_int_equal(heard_status(p) == 200, zeros < U64_DIGITS);
        peer_close(p);
        peer_close(fresh);
    }
    rig_destroy(rig);
}

static void an_expectation_is_met_under_a_head_again(void **state)
{
    (void)state;
    static const char head[] =
        "POST /echo HTTP/1.1\r\n" H JSON "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    for (size_t i = 0; i < 3; i++) {
        peer_forget(p);
        rig_say(rig, p, head);
        assert_int_equal(rig_hear(rig, p, 1), 1);
        assert_int_equal(heard_status(p), 100);
        assert_int_equal(rig->admitted, i + 1);
        ask(rig, p, "{}");
        assert_int_equal(heard_status(p), 200);
    }
    peer_close(p);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_again_is_answered_as_if_it_were_new),
        cmocka_unit_test(a_body_in_chunks_is_read_under_a_head_again),
        cmocka_unit_test(the_body_is_judged_under_a_head_again),
        cmocka_unit_test(what_is_kept_is_of_one_head_and_one_connection),
        cmocka_unit_test(a_head_again_may_come_in_pieces),
        cmocka_unit_test(heads_again_may_come_one_behind_the_other),
        cmocka_unit_test(a_flood_of_digits_is_no_length),
        cmocka_unit_test(an_expectation_is_met_under_a_head_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
