/* Whose a request is: of the connection, of X-Forwarded-For, of a PROXY header; and whose word counts. */
#include "base/buf.h"
#include "http/client_address.h"
#include "http/proxy_header.h"
#include "unit/http/rig.h"

static struct trusted_proxies proxies_of(const char *text)
{
    struct trusted_proxies t;
    struct fault f;
    if (trusted_proxies_read(str_from(text), &t, &f) != ERR_OK) fail_msg("%s", f.text);
    return t;
}

static struct client_address address_of(const char *text)
{
    struct client_address a = {.kind = CLIENT_UNIX};
    if (strcmp(text, "unix") != 0 && !client_address_read(str_from(text), &a))
        fail_msg("%s is no address", text);
    return a;
}

static void an_address_is_read_and_told_in_one_spelling(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"10.0.0.1", "10.0.0.1"},
        {"::1", "::1"},
        {"2001:DB8:0:0::1", "2001:db8::1"},
        {"::ffff:10.0.0.1", "10.0.0.1"},
        {"::ffff:a00:1", "10.0.0.1"},
        {"0.0.0.0", "0.0.0.0"},
        {"::", "::"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[CLIENT_ADDRESS_TEXT];
        struct client_address a = address_of(rows[i][0]);
        assert_true(str_equal(client_address_text(&a, text), str_from(rows[i][1])));
    }
    static const char *const bad[] = {
        "",      "10.0.0",   "10.0.0.256", "10.0.0.01", "0x7f.0.0.1",        "10.0.0.1:80",
        "[::1]", "::1%eth0", "localhost",  " ::1",      "1:2:3:4:5:6:7:8:9", "unix"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct client_address a;
        if (client_address_read(str_from(bad[i]), &a)) fail_msg("\"%s\" was taken", bad[i]);
    }
}

static void a_proxy_is_trusted_by_its_address_or_its_network(void **state)
{
    (void)state;
    struct trusted_proxies t =
        proxies_of("10.0.0.0/8, 192.0.2.7,2001:db8::/33 ,\t::1, 10.1.2.0/23");
    static const char *const in[] = {"10.0.0.0",  "10.255.255.255",  "::ffff:10.9.9.9",
                                     "192.0.2.7", "2001:db8:7fff::", "::1"};
    static const char *const out[] = {
        "11.0.0.0",        "9.255.255.255", "192.0.2.6", "192.0.2.8", "unix",
        "2001:db8:8000::", "::2",           "::",        "a00::"};
    for (size_t i = 0; i < sizeof in / sizeof *in; i++) {
        struct client_address a = address_of(in[i]);
        if (!trusted_proxies_have(&t, &a)) fail_msg("%s is not trusted", in[i]);
    }
    for (size_t i = 0; i < sizeof out / sizeof *out; i++) {
        struct client_address a = address_of(out[i]);
        if (trusted_proxies_have(&t, &a)) fail_msg("%s is trusted", out[i]);
    }
    struct client_address local = address_of("unix"), any = address_of("1.2.3.4");
    struct trusted_proxies all = proxies_of("0.0.0.0/0,unix"), none = proxies_of("");
    assert_true(trusted_proxies_have(&all, &local) && trusted_proxies_have(&all, &any));
    assert_false(trusted_proxies_have(&none, &local) || trusted_proxies_have(&none, &any));
    assert_false(trusted_proxies_have(NULL, &any));
    struct client_address unknown = {.kind = CLIENT_UNKNOWN};
    assert_false(trusted_proxies_have(&all, &unknown));
}

static void a_list_of_proxies_that_is_none_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"10.0.0.0/33",  "::/129",
                                      "10.0.0.1/8",   "2001:db8::1/32",
                                      "10.0.0.0/",    "10.0.0.0/x",
                                      "a.example",    "10.0.0.1,,::1",
                                      "10.0.0.1,",    "10.0.0.1 ::1",
                                      "[::1]",        "unix/1",
                                      "10.0.0.0/8/8", "*"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct trusted_proxies t;
        struct fault f = {0};
        if (trusted_proxies_read(str_from(bad[i]), &t, &f) != ERR_BAD_VALUE)
            fail_msg("\"%s\" was taken", bad[i]);
        assert_non_null(strstr(f.text, "http.trusted_proxies: "));
    }
    struct trusted_proxies t;
    struct buf many;
    buf_init(&many, 0, 1 << 10);
    for (int i = 0; i < TRUSTED_PROXIES_MAX; i++) buf_put(&many, i == 0 ? STR("::1") : STR(",::1"));
    assert_int_equal(trusted_proxies_read(buf_view(&many), &t, NULL), ERR_OK);
    buf_put(&many, STR(",::1"));
    assert_int_equal(trusted_proxies_read(buf_view(&many), &t, NULL), ERR_BAD_VALUE);
    buf_fini(&many);
}

/* ---- X-Forwarded-For ---- */

#define TRUSTED "10.0.0.0/8, 2001:db8::/32"

static const struct forwarded_row {
    const char *from, *first, *second; /* lines of X-Forwarded-For, or NULL */
    const char *client;                /* NULL: refused */
} forwarded_rows[] = {
    /* Nobody's word counts who is not trusted, however it is spelled. */
    {"192.0.2.1", "1.2.3.4", NULL, "192.0.2.1"},
    {"192.0.2.1", "garbage", NULL, "192.0.2.1"},
    {"unix", "1.2.3.4", NULL, "unix"},
    {"10.0.0.1", NULL, NULL, "10.0.0.1"},
    {"10.0.0.1", "", NULL, "10.0.0.1"},
    {"10.0.0.1", "1.2.3.4", NULL, "1.2.3.4"},
    {"2001:db8::9", "2001:DB9::1", NULL, "2001:db9::1"},
    /* What stands to the left of the first untrusted one is its own to write. */
    {"10.0.0.1", "6.6.6.6, 1.2.3.4", NULL, "1.2.3.4"},
    {"10.0.0.1", "garbage, 1.2.3.4", NULL, "1.2.3.4"},
    {"10.0.0.1", "6.6.6.6,1.2.3.4, 10.0.0.2 ,\t2001:db8::7", NULL, "1.2.3.4"},
    {"10.0.0.1", "10.0.0.3, 10.0.0.2", NULL, "10.0.0.3"},
    {"10.0.0.1", "6.6.6.6", "1.2.3.4", "1.2.3.4"},
    {"10.0.0.1", "6.6.6.6, 1.2.3.4", "10.0.0.2", "1.2.3.4"},
    {"10.0.0.1", "1.2.3.4,", NULL, "1.2.3.4"},
    {"10.0.0.1", ", ,1.2.3.4, ,", NULL, "1.2.3.4"},
    /* As proxies that tell the port write it. */
    {"10.0.0.1", "1.2.3.4:65535", NULL, "1.2.3.4"},
    {"10.0.0.1", "[::ffff:1.2.3.4]:80", NULL, "1.2.3.4"},
    {"10.0.0.1", "[2001:db9::1]", NULL, "2001:db9::1"},
    {"10.0.0.1", "[2001:db9::1]:443", NULL, "2001:db9::1"},
    /* It does not know, or does not say: the way ends. */
    {"10.0.0.1", "unknown", NULL, "10.0.0.1"},
    {"10.0.0.1", "1.2.3.4, Unknown, 10.0.0.2", NULL, "10.0.0.2"},
    {"10.0.0.1", "garbage", NULL, NULL},
    {"10.0.0.1", "1.2.3.4 5.6.7.8", NULL, NULL},
    {"10.0.0.1", "1.2.3", NULL, NULL},
    {"10.0.0.1", "1.2.3.4:65536", NULL, NULL},
    {"10.0.0.1", "1.2.3.4:", NULL, NULL},
    {"10.0.0.1", "1.2.3.4:x", NULL, NULL},
    {"10.0.0.1", "[1.2.3.4]", NULL, NULL},
    {"10.0.0.1", "[::1", NULL, NULL},
    {"10.0.0.1", "[::1]80", NULL, NULL},
    {"10.0.0.1", "::1%1", NULL, NULL},
    {"10.0.0.1", "_hidden", NULL, NULL},
    {"10.0.0.1", "unix", NULL, NULL},
    {"10.0.0.1", "1.2.3.4, a.example, 10.0.0.2", NULL, NULL},
    {"10.0.0.1", "x", "10.0.0.2", NULL},
};

static void the_client_is_the_last_address_that_no_trusted_proxy_has(void **state)
{
    (void)state;
    struct trusted_proxies t = proxies_of(TRUSTED);
    for (size_t i = 0; i < sizeof forwarded_rows / sizeof *forwarded_rows; i++) {
        const struct forwarded_row *row = &forwarded_rows[i];
        struct http_header headers[4] = {{STR("Accept"), STR("*")}};
        size_t count = 1;
        if (row->first != NULL)
            headers[count++] = (struct http_header){STR("X-FORWARDED-for"), str_from(row->first)};
        headers[count++] = (struct http_header){STR("x-forwarded-fox"), STR("9.9.9.9")};
        if (row->second != NULL)
            headers[count++] = (struct http_header){STR("x-forwarded-for"), str_from(row->second)};
        struct client_address a = address_of(row->from);
        struct fault f = {0};
        enum err err = client_address_forwarded(&t, headers, count, &a, &f);
        char text[CLIENT_ADDRESS_TEXT];
        struct str told = client_address_text(&a, text);
        if (err != (row->client == NULL ? ERR_BAD_REQUEST : ERR_OK) ||
            (err == ERR_OK && !str_equal(told, str_from(row->client))))
            fail_msg("row %zu: %.*s (%s)", i, STR_FORMAT(told), f.text);
        if (err != ERR_OK) assert_non_null(strstr(f.text, "http.trusted_proxies"));
    }
}

/* ---- PROXY ---- */

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define ADDRESSES_4 "\1\2\3\4\12\0\0\2\0\120\0\121"
#define ADDRESSES_6                                                                                \
    "\x20\1\xd\xb9\0\0\0\0\0\0\0\0\0\0\0\1"                                                        \
    "\x20\1\xd\xb8\0\0\0\0\0\0\0\0\0\0\0\2"                                                        \
    "\0\120\0\121"
#define ROW(text, client)                                                                          \
    {                                                                                              \
        text, sizeof(text) - 1, client                                                             \
    }

static const struct proxy_row {
    const char *bytes;
    size_t size;
    const char *client; /* NULL: refused */
} proxy_rows[] = {
    ROW("PROXY TCP4 1.2.3.4 10.0.0.2 80 65535\r\n", "1.2.3.4"),
    ROW("PROXY TCP6 2001:db9::1 2001:db8::2 80 81\r\n", "2001:db9::1"),
    ROW("PROXY TCP6 ::ffff:1.2.3.4 ::1 0 0\r\n", "1.2.3.4"),
    ROW("PROXY UNKNOWN\r\n", "10.0.0.1"),
    ROW("PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
        "10.0.0.1"),
    ROW("PROXY TCP4 1.2.3.4 10.0.0.2 80\r\n", NULL),
    ROW("PROXY TCP4 1.2.3.4 10.0.0.2 80 81 82\r\n", NULL),
    ROW("PROXY TCP4  1.2.3.4 10.0.0.2 80 81\r\n", NULL),
    ROW("PROXY TCP4 1.2.3.4 10.0.0.2 80 81 \r\n", NULL),
    ROW("PROXY TCP4 1.2.3.4 10.0.0.2 80 65536\r\n", NULL),
    ROW("PROXY TCP4 1.2.3.4 10.0.0.2 080 81\r\n", NULL),
    ROW("PROXY TCP4 1.2.3 10.0.0.2 80 81\r\n", NULL),
    ROW("PROXY TCP4 ::1 10.0.0.2 80 81\r\n", NULL),
    ROW("PROXY TCP4 ::ffff:1.2.3.4 10.0.0.2 80 81\r\n", NULL),
    ROW("PROXY TCP6 1.2.3.4 ::1 80 81\r\n", NULL),
    ROW("PROXY UDP4 1.2.3.4 10.0.0.2 80 81\r\n", NULL),
    ROW("PROXY tcp4 1.2.3.4 10.0.0.2 80 81\r\n", NULL),
    ROW("PROXY TCP4 1.2.3.4 10.0.0.2 80 81\n", NULL),
    ROW("PROXY \r\n", NULL),
    ROW("PROXY\r\n", NULL),
    ROW("PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535  \r\n",
        NULL),
    ROW(SIGNATURE "\x21\x11\0\14" ADDRESSES_4, "1.2.3.4"),
    ROW(SIGNATURE "\x21\x11\0\20" ADDRESSES_4 "\4\0\1x", "1.2.3.4"),
    ROW(SIGNATURE "\x21\x21\0\44" ADDRESSES_6, "2001:db9::1"),
    ROW(SIGNATURE "\x20\0\0\0", "10.0.0.1"),
    ROW(SIGNATURE "\x20\x11\0\14" ADDRESSES_4, "10.0.0.1"),
    ROW(SIGNATURE "\x20\x77\0\2xy", "10.0.0.1"),
    ROW(SIGNATURE "\x21\0\0\4abcd", "10.0.0.1"),
    ROW(SIGNATURE "\x21\x11\0\13"
                  "\1\2\3\4\12\0\0\2\0\120\0",
        NULL),
    ROW(SIGNATURE "\x21\x21\0\14" ADDRESSES_4, NULL),
    ROW(SIGNATURE "\x21\x12\0\14" ADDRESSES_4, NULL),
    ROW(SIGNATURE "\x21\x31\0\14" ADDRESSES_4, NULL),
    ROW(SIGNATURE "\x22\x11\0\14" ADDRESSES_4, NULL),
    ROW(SIGNATURE "\x11\x11\0\14" ADDRESSES_4, NULL),
    ROW(SIGNATURE "\x21\x11\xff\xff" ADDRESSES_4, NULL),
    ROW("\r\n\r\n\0\r\nQUIT\r", NULL),
    ROW("GET /client HTTP/1.1\r\n", NULL),
    ROW("\r\nGET", NULL),
};

/* Byte by byte as in one piece: what is not whole is waited for, and no more than the header is taken. */
static void a_proxy_header_names_the_client(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof proxy_rows / sizeof *proxy_rows; i++) {
        const struct proxy_row *row = &proxy_rows[i];
        char *bytes = malloc(row->size + 3), text[CLIENT_ADDRESS_TEXT];
        memcpy(bytes, row->bytes, row->size);
        memcpy(bytes + row->size, "GET", 3);
        for (int pieces = 0; pieces < 2; pieces++) {
            struct client_address a = address_of("10.0.0.1");
            const char *wrong = NULL;
            size_t size = 0, at = pieces ? 1 : row->size + 3;
            enum proxy_header outcome = PROXY_MORE;
            for (; at <= row->size + 3 && outcome == PROXY_MORE; at++) {
                char *own = malloc(at); /* of exactly its size */
                memcpy(own, bytes, at);
                outcome = proxy_header_read(own, at, &size, &a, &wrong);
                free(own);
            }
            struct str told = client_address_text(&a, text);
            bool as_expected = row->client == NULL ? outcome == PROXY_BAD && wrong != NULL &&
                                                         str_equal(told, STR("10.0.0.1"))
                                                   : outcome == PROXY_WHOLE && size == row->size &&
                                                         str_equal(told, str_from(row->client));
            if (!as_expected)
                fail_msg("row %zu, %d: outcome %d, %.*s, %s", i, pieces, (int)outcome,
                         STR_FORMAT(told), wrong);
        }
        free(bytes);
    }
    /* a client of a Unix socket behind it, and the largest one */
    static char large[PROXY_HEADER_MAX + 1] = SIGNATURE "\x21\x31";
    struct client_address a = address_of("10.0.0.1");
    const char *wrong;
    size_t size;
    large[14] = (char)((PROXY_HEADER_MAX - 16) >> 8);
    large[15] = (char)((PROXY_HEADER_MAX - 16) & 255);
    assert_int_equal(proxy_header_read(large, PROXY_HEADER_MAX - 1, &size, &a, &wrong), PROXY_MORE);
    assert_int_equal(proxy_header_read(large, PROXY_HEADER_MAX, &size, &a, &wrong), PROXY_WHOLE);
    assert_true(size == PROXY_HEADER_MAX && a.kind == CLIENT_UNIX);
    large[15]++;
    assert_int_equal(proxy_header_read(large, 16, &size, &a, &wrong), PROXY_BAD);
}

/* ---- both, in a server ---- */

static struct rig *rig_trusting(struct trusted_proxies *t)
{
    struct http_limits limits = rig_limits();
    limits.proxies = t;
    return rig_create_limited(limits);
}

static void assert_heard_client(struct rig *rig, struct peer *p, size_t replies, const char *client)
{
    char end[80];
    size_t size = (size_t)snprintf(end, sizeof end, "\r\n\r\n%s", client);
    assert_int_equal(rig_hear(rig, p, replies), replies);
    if (p->size < size || strcmp(p->heard + p->size - size, end) != 0)
        fail_msg("%s is not at the end of: %s", client, p->heard);
}

static const char ask[] = "GET /client HTTP/1.1\r\nHost: a\r\n\r\n";
static const char ask_forwarded[] =
    "GET /client HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n";

static void a_request_has_the_address_of_its_connection(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect_tcp(rig), *q = rig_connect(rig);
    for (size_t i = 1; i < 4; i++) { /* read, and then remembered */
        rig_say(rig, p, ask_forwarded);
        assert_heard_client(rig, p, i, "127.0.0.1");
        rig_say(rig, q, ask_forwarded);
        assert_heard_client(rig, q, i, "unix");
    }
    peer_close(p);
    peer_close(q);
    rig_destroy(rig);
}

/* Another head, another client; and none has that of the one before. */
static void each_request_of_a_proxys_connection_has_a_client_of_its_own(void **state)
{
    (void)state;
    struct trusted_proxies t = proxies_of("127.0.0.1");
    struct rig *rig = rig_trusting(&t);
    struct peer *p = rig_connect_tcp(rig), *q = rig_connect(rig);
    rig_say(rig, p, ask_forwarded);
    assert_heard_client(rig, p, 1, "1.2.3.4");
    rig_say(rig, p, ask_forwarded);
    assert_heard_client(rig, p, 2, "1.2.3.4");
    rig_say(rig, p, ask);
    assert_heard_client(rig, p, 3, "127.0.0.1");
    rig_say(rig, p, "GET /client HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 5.6.7.8\r\n\r\n");
    assert_heard_client(rig, p, 4, "5.6.7.8");
    rig_say(rig, p, "GET /client HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: nonsense\r\n\r\n");
    assert_int_equal(rig_hear(rig, p, 5), 5);
    assert_true(rig->refused == 1 && strstr(rig->fault.text, "nonsense") != NULL);
    rig_say(rig, p, ask_forwarded);
    assert_heard_client(rig, p, 6, "1.2.3.4");
    rig_say(rig, q, ask_forwarded);
    assert_heard_client(rig, q, 1, "unix");
    peer_close(p);
    peer_close(q);
    rig_destroy(rig);
}

static void a_proxy_header_is_asked_of_trusted_proxies_alone(void **state)
{
    (void)state;
    struct trusted_proxies t = proxies_of("unix, 1.2.3.4");
    t.send_proxy_header = true;
    struct rig *rig = rig_trusting(&t);
    struct peer *p = rig_connect(rig), *other = rig_connect_tcp(rig), *without = rig_connect(rig);
    rig_say(rig, p, "PROXY TCP4 9.8.7.6 ");
    rig_turn(rig);
    rig_say(rig, p, "10.0.0.2 80 81\r\n");
    rig_turn(rig);
    rig_say(rig, p, ask);
    assert_heard_client(rig, p, 1, "9.8.7.6");
    rig_say(rig, p, ask_forwarded); /* 9.8.7.6 is trusted no more than before */
    assert_heard_client(rig, p, 2, "9.8.7.6");
    rig_say(rig, p, "PROXY TCP4 9.9.9.9 10.0.0.2 80 81\r\n\r\n"); /* once is all */
    assert_int_equal(rig_hear(rig, p, 3), 3);
    rig_hear_end(rig, p);
    rig_say(rig, other, ask);
    assert_heard_client(rig, other, 1, "127.0.0.1");
    rig_say(rig, without, ask);
    assert_int_equal(rig_hear(rig, without, 1), 1);
    assert_int_equal(heard_status(without), 400);
    assert_non_null(strstr(rig->fault.text, "the PROXY header of unix is missing"));
    rig_hear_end(rig, without);
    peer_close(p);
    peer_close(other);
    peer_close(without);

    /* A proxy that stands before another one: each tells in its own way. */
    p = rig_connect(rig);
    rig_say(rig, p,
            "PROXY TCP4 1.2.3.4 10.0.0.2 80 81\r\nGET /client HTTP/1.1\r\nHost: a\r\n"
            "X-Forwarded-For: 6.6.6.6, 7.7.7.7\r\n\r\n");
    assert_heard_client(rig, p, 1, "7.7.7.7");
    peer_close(p);
    rig_destroy(rig);
}

static void nobody_else_may_send_a_proxy_header(void **state)
{
    (void)state;
    struct trusted_proxies t = proxies_of("unix");
    for (int on = 0; on < 2; on++) {
        t.send_proxy_header = on != 0;
        struct rig *rig = rig_trusting(&t);
        struct peer *p = on ? rig_connect_tcp(rig) : rig_connect(rig);
        rig_say(rig, p,
                "PROXY TCP4 9.8.7.6 10.0.0.2 80 81\r\nGET /client HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_int_equal(rig_hear(rig, p, 1), 1);
        assert_int_equal(heard_status(p), 501); /* PROXY is no method of ours */
        rig_hear_end(rig, p);
        assert_int_equal(rig->handled, 0);
        peer_close(p);
        rig_destroy(rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_read_and_told_in_one_spelling),
        cmocka_unit_test(a_proxy_is_trusted_by_its_address_or_its_network),
        cmocka_unit_test(a_list_of_proxies_that_is_none_is_refused),
        cmocka_unit_test(the_client_is_the_last_address_that_no_trusted_proxy_has),
        cmocka_unit_test(a_proxy_header_names_the_client),
        cmocka_unit_test(a_request_has_the_address_of_its_connection),
        cmocka_unit_test(each_request_of_a_proxys_connection_has_a_client_of_its_own),
        cmocka_unit_test(a_proxy_header_is_asked_of_trusted_proxies_alone),
        cmocka_unit_test(nobody_else_may_send_a_proxy_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
