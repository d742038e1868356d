/* test_network.c - addresses, ranges and URLs in conditions. */
#include "cel_scene.h"

/* ---- hosts ---- */

struct host_case {
    const char *url;
    const char *hostname; /* NULL: it is refused */
};

/* What url.spec.whatwg.org and curl 8 make of it, or a refusal where they and others differ. */
static const struct host_case host_cases[] = {
    {"http://example.com/", "example.com"},
    {"HTTPS://API.Corp.Example./a", "api.corp.example"},
    {"http://u@10.0.0.1/", "10.0.0.1"},
    {"https://10.0.0.1/", "10.0.0.1"},
    {"http://user:pass@example.com:8080/", "example.com"},
    {"http://[::1]/", "::1"},
    {"http://[::ffff:10.0.0.1]/", "10.0.0.1"},
    {"http://[::ffff:a00:1]/", "10.0.0.1"},
    {"http://[0:0:0:0:0:ffff:7f00:1]:80/", "127.0.0.1"},
    {"http://[2001:DB8::0:1]/", "2001:db8::1"},
    {"http://2130706433/", "127.0.0.1"},
    {"http://0x7f000001/", "127.0.0.1"},
    {"http://0x7F.1/", "127.0.0.1"},
    {"http://127.1/", "127.0.0.1"},
    {"http://10.0.1/", "10.0.0.1"},
    {"http://127.0.0.1./", "127.0.0.1"},
    {"http://0/", "0.0.0.0"},
    {"http://4294967295/", "255.255.255.255"},
    {"http://1.2.3.4.example/", "1.2.3.4.example"},
    {"http://1e100.net/", "1e100.net"},
    {"http://0xy.example/", "0xy.example"},
    {"postgres://app:secret@0x0a000001:5432/db", "10.0.0.1"},
    {"http://xn--mnchen-3ya.example/", "xn--mnchen-3ya.example"},
    {"http://under_score.example/", "under_score.example"},
    {"http://good.example#@evil.example/", "good.example"},
    {"http://good.example?@evil.example/", "good.example"},
    {"http://good.example/@evil.example/", "good.example"},
    {"file:///etc/passwd", ""},
    {"file://host/etc/passwd", "host"},
    {"unix:///run/docker.sock", ""},
    /* a leading zero is octal to browsers and curl, decimal to Java */
    {"http://0177.0.0.1/", NULL},
    {"http://127.0.0.01/", NULL},
    {"http://0251.0376.0251.0376/", NULL},
    {"http://00/", NULL},
    {"http://08.1/", NULL},
    {"http://0x/", NULL},
    {"http://256.1.1.1/", NULL},
    {"http://1.2.3.256/", NULL},
    {"http://1.2.65536/", NULL},
    {"http://4294967296/", NULL},
    {"http://0x100000000/", NULL},
    {"http://1.2.3.4.5/", NULL},
    {"http://a.1/", NULL},
    {"http://a.0x1/", NULL},
    {"http://1..2/", NULL},
    {"http://127.0.0.1../", NULL},
    {"http://./", NULL},
    {"http://-./..", NULL},
    /* escapes, and characters that a browser maps to others */
    {"http://127%2e0.0.1/", NULL},
    {"http://%31%32%37.0.0.1/", NULL},
    {"http://ex%61mple.com/", NULL},
    {"http://\xEF\xBC\x91\xEF\xBC\x92\xEF\xBC\x97.0.0.1/", NULL},
    {"http://127\xE3\x80\x82"
     "0\xE3\x80\x82"
     "0\xE3\x80\x82"
     "1/",
     NULL},
    {"http://m\xC3\xBCnchen.example/", NULL},
    {"http://exa\xC2\xADmple.com/", NULL},
    {"http://\xE2\x93\x94vil.example/", NULL},
    /* which @ counts, and what a \ is, differs */
    {"http://a@b@c/", NULL},
    {"http://good.example\\@evil.example/", NULL},
    {"http://good.example\\.evil.example/", NULL},
    {"http:\\\\evil.example/", NULL},
    {"http://a%40b%40@c@d/", NULL},
    {"http://good.example:80@evil.example:80@c/", NULL},
    /* the host is missing, or elsewhere */
    {"http:///evil.example/", NULL},
    {"http:////evil.example/", NULL},
    {"http:/evil.example/", NULL},
    {"http:evil.example", NULL},
    {"//evil.example/", NULL},
    {"/path", NULL},
    {"evil.example", NULL},
    {"evil.example:80/x", NULL},
    {"http://", NULL},
    {"http://@/", NULL},
    {"http://u@/", NULL},
    {"http://:80/", NULL},
    {"foo://u@/x", NULL},
    {"://evil.example/", NULL},
    {"1http://evil.example/", NULL},
    {"mailto:a@evil.example", NULL},
    {"data:text/html,x", NULL},
    {"javascript://evil.example/%0aalert(1)", "evil.example"},
    {"javascript:alert(1)", NULL},
    {"", NULL},
    /* brackets */
    {"http://[::1/", NULL},
    {"http://::1/", NULL},
    {"http://[::1]x/", NULL},
    {"http://[127.0.0.1]/", NULL},
    {"http://[fe80::1%25eth0]/", NULL},
    {"http://[fe80::1%eth0]/", NULL},
    {"http://[v1.x]/", NULL},
    {"http://[]/", NULL},
    {"http://x[::1]/", NULL},
    {"http://[::ffff:010.0.0.1]/", NULL},
    /* blanks and what nobody sees */
    {" http://evil.example/", NULL},
    {"http://evil.example/ ", NULL},
    {"ht\\ttp://evil.example/", NULL},
    {"http://ev\\til.example/", NULL},
    {"http://evil.example/\\n", NULL},
    {"http://evil.example\\u0000.good.example/", NULL},
    {"http://1.1.1.1 &@2.2.2.2# @3.3.3.3/", NULL},
    {"http://a,b/", NULL},
    {"http://{a,b}.example/", NULL},
    {"http://a*b/", NULL},
    /* ports */
    {"http://h:99999/", NULL},
    {"http://h:65536/", NULL},
    {"http://h:8a/", NULL},
    {"http://h:+80/", NULL},
    {"http://h:80:80/", NULL},
    {"http://h:/", "h"},
    {"http://h:65535/", "h"},
    /* dots in the path are taken away before it is sent */
    {"http://h/a/../b", NULL},
    {"http://h/a/%2e%2E/b", NULL},
    {"http://h/.%2e", NULL},
    {"http://h/./", NULL},
    {"http://h/..a/.b/c..", "h"},
    {"http://h/%zz", NULL},
    {"http://h/?%f", NULL},
    {"http://h/?a=%2e%2e/..&b=../", "h"},
};

static void a_host_is_what_programs_make_of_it_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof host_cases / sizeof host_cases[0]; i++) {
        const struct host_case *c = &host_cases[i];
        char expression[1024], wanted[512];
        char url[256]; /* \t, \n and \u0000 are CEL's escapes, any other \ is doubled */
        size_t size = 0;
        for (const char *at = c->url; *at != '\0'; at++) {
            if (*at == '\\' && (at[1] == '\0' || strchr("tnu", at[1]) == NULL)) url[size++] = '\\';
            url[size++] = *at;
        }
        url[size] = '\0';
        snprintf(expression, sizeof expression,
                 "[isURL(dyn('%s')), isURL(dyn('%s')) ? "
                 "url(dyn('%s')).getHostname() : 'refused']",
                 url, url, url);
        snprintf(wanted, sizeof wanted, "[%s, \"%s\"]", c->hostname == NULL ? "false" : "true",
                 c->hostname == NULL ? "refused" : c->hostname);
        gives(expression, wanted);
    }
}

/* ---- parts ---- */

static void the_parts_of_a_url_are_those_of_kubernetes(void **state)
{
    (void)state;
    gives("url('https://example.com:80/').getHost()", "\"example.com:80\"");
    gives("url('https://example.com/').getHost()", "\"example.com\"");
    gives("url('https://[::1]:80/').getHost()", "\"[::1]:80\"");
    gives("url('https://[::1]:80/').getHostname()", "\"::1\"");
    gives("url('HTTPS://example.com/').getScheme()", "\"https\"");
    gives("[url('https://e.com:080/').getPort(), url('https://e.com/').getPort(), "
          "url('https://e.com:/').getPort()]",
          "[\"80\", \"\", \"\"]");
    gives("[url('https://e.com').getEscapedPath(), url('https://e.com/a%20b/c').getEscapedPath()]",
          "[\"\", \"/a%20b/c\"]");
    gives("url('https://e.com/path?k1=a&k2=b&k2=c').getQuery()",
          "{\"k1\": [\"a\"], \"k2\": [\"b\", \"c\"]}");
    gives("url('https://e.com/path?key with=1').getQuery()",
          "1:5: this is no URL that all programs read alike (https://example.com/path)");
    gives("url('https://e.com/?k+1=a%20b&&=x&n#f?y').getQuery()",
          "{\"k 1\": [\"a b\"], \"\": [\"x\"], \"n\": [\"\"]}");
    gives("url('https://e.com/').getQuery()", "{}");
    gives("url('https://e.com/?a=1;b=2').getQuery()",
          "error: the text cannot be read as that (at column 31)");
    gives("url('https://e.com/?a=%ff').getQuery()",
          "error: the text cannot be read as that (at column 29)");
}

static void what_cannot_be_read_is_an_error(void **state)
{
    (void)state;
    gives("url(args.name).getHost() == ''",
          "error: the text cannot be read as that: M\xC3\xBCller (at column 1)");
    gives("url(args.amount).getHost() == ''", "error: no such overload for (double) (at column 1)");
    gives("ip(args.name).isPrivate()",
          "error: the text cannot be read as that: M\xC3\xBCller (at column 1)");
    gives("ip('10.0.0.256')", "1:4: this is no address (10.0.0.1, 2001:db8::1)");
    gives("args.amount.getHost()", "error: no such overload for (double) (at column 13)");
    gives("args.amount.isPrivate()", "error: no such overload for (double) (at column 13)");
}

/* ---- addresses ---- */

static void addresses_are_told_apart(void **state)
{
    enum { LOOPBACK = 1, UNSPECIFIED = 2, UNICAST = 4, MULTICAST = 8, GLOBAL = 16, PRIVATE = 32 };
    static const struct {
        const char *address;
        unsigned is;
    } cases[] = {
        {"1.1.1.1", GLOBAL},
        {"10.0.0.1", GLOBAL | PRIVATE},
        {"172.16.0.1", GLOBAL | PRIVATE},
        {"172.31.255.255", GLOBAL | PRIVATE},
        {"172.32.0.1", GLOBAL},
        {"192.168.1.1", GLOBAL | PRIVATE},
        {"192.169.1.1", GLOBAL},
        {"100.64.0.1", GLOBAL | PRIVATE},
        {"100.128.0.1", GLOBAL},
        {"127.255.0.1", LOOPBACK | PRIVATE},
        {"169.254.169.254", UNICAST | PRIVATE},
        {"0.0.0.0", UNSPECIFIED | PRIVATE},
        {"0.1.2.3", GLOBAL | PRIVATE},
        {"198.18.0.1", GLOBAL | PRIVATE},
        {"198.20.0.1", GLOBAL},
        {"224.0.0.1", MULTICAST},
        {"224.0.1.1", 0},
        {"240.0.0.1", GLOBAL | PRIVATE},
        {"255.255.255.255", PRIVATE},
        {"::", UNSPECIFIED | PRIVATE},
        {"::1", LOOPBACK | PRIVATE},
        {"::ffff:127.0.0.1", LOOPBACK | PRIVATE},
        {"::ffff:8.8.8.8", GLOBAL},
        {"::7f00:1", GLOBAL | PRIVATE},
        {"64:ff9b::10.0.0.1", GLOBAL | PRIVATE},
        {"64:ff9b::8.8.8.8", GLOBAL},
        {"64:ff9b:1::8.8.8.8", GLOBAL | PRIVATE},
        {"2002:0a00:0001::", GLOBAL | PRIVATE},
        {"2002:0808:0808::", GLOBAL},
        {"2001::1", GLOBAL | PRIVATE},
        {"2001:4860:4860::8888", GLOBAL},
        {"2001:db8::1", GLOBAL | PRIVATE},
        {"fc00::1", GLOBAL | PRIVATE},
        {"fdff::1", GLOBAL | PRIVATE},
        {"fe80::1", UNICAST | PRIVATE},
        {"fec0::1", GLOBAL | PRIVATE},
        {"ff02::1", MULTICAST},
        {"ff0e::1", 0},
        {"2606:4700:4700::1111", GLOBAL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char expression[320], wanted[64];
        unsigned is = cases[i].is;
        snprintf(expression, sizeof expression,
                 "cel.bind(a, ip('%s'), [a.isLoopback(), a.isUnspecified(), "
                 "a.isLinkLocalUnicast(), a.isLinkLocalMulticast(), a.isGlobalUnicast(), "
                 "a.isPrivate()].map(x, x ? 1 : 0))",
                 cases[i].address);
        snprintf(wanted, sizeof wanted, "[%d, %d, %d, %d, %d, %d]", is & 1, is >> 1 & 1,
                 is >> 2 & 1, is >> 3 & 1, is >> 4 & 1, is >> 5 & 1);
        gives(expression, wanted);
    }
}

static void addresses_are_read_strictly(void **state)
{
    static const char *const wrong[] = {
        "",           " 10.0.0.1", "10.0.0.1 ",   "10.0.0",    "2130706433",
        "0x7f.1",     "010.0.0.1", "10.0.0.1:80", "[::1]",     "fe80::1%eth0",
        "10.0.0.0/8", "1.2.3.4.5", "::g",         "localhost",
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char expression[64];
        snprintf(expression, sizeof expression, "isIP('%s')", wrong[i]);
        gives(expression, "false");
    }
    gives("isIP('10.0.0.1') && isIP('::1') && isIP('::ffff:1.2.3.4')", "true");
    gives("isCIDR('10.0.0.0/8') && isCIDR('::/0') && !isCIDR('10.0.0.0/33') && !isCIDR('x')",
          "true");
    gives("[ip('1.2.3.4').family(), ip('::1').family(), ip('::ffff:1.2.3.4').family()]",
          "[4, 6, 4]");
}

/* ---- as values ---- */

static void the_new_values_are_compared_shown_and_typed(void **state)
{
    (void)state;
    gives("ip('::FFFF:1.2.3.4') == ip('1.2.3.4') && ip('1.2.3.4') != ip('1.2.3.5') && "
          "ip('2001:DB8::0') == ip('2001:db8:0::')",
          "true");
    gives("dyn(ip('1.2.3.4')) == dyn('1.2.3.4') || dyn(ip('1.2.3.4')) == dyn(cidr('1.2.3.4'))",
          "false");
    gives("url('HTTP://E.com./') == url('http://e.com/') && "
          "url('http://e.com/a') != url('http://e.com/b')",
          "true");
    gives("ip('10.0.0.1') in [ip('10.0.0.2'), ip('10.0.0.1')]", "true");
    gives("cidr('10.0.0.0/8').containsIP(ip('10.1.1.1')) && "
          "!cidr('10.0.0.0/8').containsIP(ip('11.1.1.1')) && "
          "cidr('10.0.0.0/8').prefixLength() == 8",
          "true");
    gives("[string(ip('2001:DB8::0:1')), string(cidr('10.1.2.3/8'))]",
          "[\"2001:db8::1\", \"10.0.0.0/8\"]");
    gives("[dyn(ip('::1')), dyn(url('http://E.com:080')), dyn(cidr('2001:db8::/48'))]",
          "[ip(\"::1\"), url(\"http://e.com:80\"), cidr(\"2001:db8::/48\")]");
    gives("type(ip('::1')) == net.IP && type(cidr('::/0')) == net.CIDR && "
          "type(url('http://e')) == kubernetes.URL && type(dyn('x')) != net.IP",
          "true");
    gives("ip('::1') == '::1'", "1:11: net.IP == string is not possible");
    gives("url('http://e').isPrivate()", "1:17: there is no kubernetes.URL.isPrivate()");
    gives("ip('::1') < ip('::2')", "1:11: net.IP < net.IP is not possible");
    /* one that is made in the run, from what a constant was folded to */
    gives("url(['http://E.com/', args.name][0]).getHost() + url('http://u:p@F.com/').getHost()",
          "\"e.comf.com\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_is_what_programs_make_of_it_or_refused),
        cmocka_unit_test(the_parts_of_a_url_are_those_of_kubernetes),
        cmocka_unit_test(what_cannot_be_read_is_an_error),
        cmocka_unit_test(addresses_are_told_apart),
        cmocka_unit_test(addresses_are_read_strictly),
        cmocka_unit_test(the_new_values_are_compared_shown_and_typed),
    };
    return cmocka_run_group_tests(tests, cel_set_up, cel_tear_down);
}
