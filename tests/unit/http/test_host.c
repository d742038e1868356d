/* What a Host and the host of an absolute target may be: one table for both, judged by the whole
 * server. */
#include "http/host.h"
#include "unit/http/rig.h"

struct row {
    const char *host;
    bool good;
};

static const struct row rows[] = {
    {"a", true},
    {"a.example", true},
    {"A-b_c~d.e", true},
    {"a:80", true},
    {"a:", true},
    {"a:0", true},
    {"a:00080", true},
    {"a:65535", true},
    {"10.0.0.1", true},
    {"10.0.0.1:8080", true},
    {"999.1.1.1", true}, /* a name */
    {"a!$&'()*+;=b", true},
    {"%41%6a.example", true},
    {"[::1]", true},
    {"[::1]:", true},
    {"[::1]:8080", true},
    {"[2001:DB8::0:1]", true},
    {"[::ffff:10.0.0.1]:1", true},
    {"[1:2:3:4:5:6:7:8]", true},
    {"[v1.a]", true},
    {"[VF9.a:b~!]:7", true},

    {"a:xx", false},
    {"a:1:2", false},
    {"a:-1", false},
    {"a:+1", false},
    {"a:80a", false},
    {"a:65536", false},
    {"a:99999999999999999999999", false},
    {":80", false},
    {":", false},
    {"[::1", false},
    {"[::1]x", false},
    {"[::1]80", false},
    {"[::1]:x", false},
    {"[]", false},
    {"[1]", false},
    {"[::1::]", false},
    {"[1:2:3:4:5:6:7:8:9]", false},
    {"[12345::]", false},
    {"[::10.0.0.256]", false},
    {"[10.0.0.1]", false},
    {"[fe80::1%25eth0]", false},
    {"[fe80::1%eth0]", false},
    {"[v.a]", false},
    {"[v1.]", false},
    {"[v1]", false},
    {"[vg.a]", false},
    {"[v1.a/b]", false},
    {"[[::1]]", false},
    {"]", false},
    {"a]", false},
    {"a[b", false},
    {"::1", false},
    {"a^b", false},
    {"a{b}", false},
    {"a|b", false},
    {"a`b", false},
    {"a\"b", false},
    {"a<b>", false},
    {"a\\b", false},
    {"a,b", false},
    {"a%", false},
    {"a%4", false},
    {"a%zz", false},
    {"a%4:80", false},
};

static void answers(const char *request, int status)
{
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    rig_say(rig, p, request);
    if (rig_hear(rig, p, 1) != 1 || heard_status(p) != status)
        fail_msg("expected %d, heard: %s, for: %s", status, p->heard, request);
    peer_close(p);
    rig_destroy(rig);
}

static void a_host_is_taken_where_the_grammar_has_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char request[256];
        snprintf(request, sizeof request, "GET /things/7 HTTP/1.1\r\nHost: %s\r\n\r\n",
                 rows[i].host);
        answers(request, rows[i].good ? 200 : 400);
    }
    answers("GET /things/7 HTTP/1.1\r\nHost:\r\n\r\n", 200);
    answers("GET /things/7 HTTP/1.1\r\nHost: u:p@a\r\n\r\n", 400);
    answers("GET /things/7 HTTP/1.1\r\nHost: http://a\r\n\r\n", 400);
    answers("GET /things/7 HTTP/1.1\r\nHost: a\t\r\n\r\n", 200);
    answers("GET /things/7 HTTP/1.0\r\nHost: a:xx\r\n\r\n", 400);
}

static void an_absolute_target_has_a_host_of_the_same_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char request[256];
        snprintf(request, sizeof request, "GET http://%s/things/7 HTTP/1.1\r\nHost: a\r\n\r\n",
                 rows[i].host);
        answers(request, rows[i].good ? 200 : 400);
    }
    answers("GET HTTPS://a/things/7?q=u@b:x HTTP/1.1\r\nHost: a\r\n\r\n", 200);
    answers("GET http:///things/7 HTTP/1.1\r\nHost: a\r\n\r\n", 400);
    answers("GET http://u:p@a/things/7 HTTP/1.1\r\nHost: a\r\n\r\n", 400);
    answers("GET http://u@a:1/things/7 HTTP/1.1\r\nHost: a\r\n\r\n", 400);
    answers("GET http://@a/things/7 HTTP/1.1\r\nHost: a\r\n\r\n", 400);
    answers("GET http://a:80:80?q HTTP/1.1\r\nHost: a\r\n\r\n", 400);
    answers("GET ftp://a/things/7 HTTP/1.1\r\nHost: a\r\n\r\n", 400);
    answers("GET http:/things/7 HTTP/1.1\r\nHost: a\r\n\r\n", 400);
}

/* Every byte that the grammar leaves out, in every place of a short host. */
static void no_other_byte_stands_in_a_host(void **state)
{
    (void)state;
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+;=";
    for (int byte = 0; byte < 256; byte++)
        for (size_t at = 0; at < 3; at++) {
            char host[3] = "xyz"; /* of which no two are hexadecimal */
            host[at] = (char)byte;
            bool good = (byte != 0 && strchr(plain, byte) != NULL) || (byte == ':' && at == 2);
            if ((host_judge(str_of(host, 3)) == NULL) != good)
                fail_msg("byte %d at %zu is not judged as the grammar has it", byte, at);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_is_taken_where_the_grammar_has_it),
        cmocka_unit_test(an_absolute_target_has_a_host_of_the_same_form),
        cmocka_unit_test(no_other_byte_stands_in_a_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
