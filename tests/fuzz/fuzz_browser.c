/* fuzz_browser.c - what a browser sends about its session: cookie, origin and token are taken only if
 * they are ours, by a second reading of the same headers in the plainest way.
 *
 * Lines of the input: public_url, Host, Origin, the CSRF token, and Cookie headers. */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "platform/browser.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { COOKIES_MAX = 8, URL_MAX = 200, NAMES = 2 };

static const char *const names[NAMES] = {"__Host-writ=", "writ-session="};

struct request {
    struct http_header headers[4 + COOKIES_MAX];
    struct http_exchange x;
    char url[URL_MAX + 1];
    struct str host, origin, token;
};

static void add(struct request *r, const char *name, struct str value)
{
    if (value.size == 0) return;
    r->headers[r->x.header_count++] = (struct http_header){.name = str_from(name), .value = value};
}

static void read_request(struct request *r, struct str rest)
{
    struct str url = {0}, cookie;
    struct fault f;
    *r = (struct request){0};
    (void)(str_split(&rest, '\n', &url) && str_split(&rest, '\n', &r->host) &&
           str_split(&rest, '\n', &r->origin) && str_split(&rest, '\n', &r->token));
    if (url.size <= URL_MAX && url.size > 0) memcpy(r->url, url.bytes, url.size);
    if (browser_check_url(r->url, &f) != ERR_OK) r->url[0] = '\0'; /* the platform does not start */
    add(r, "host", r->host);
    add(r, "origin", r->origin);
    add(r, "writ-csrf-token", r->token);
    for (unsigned i = 0; i < COOKIES_MAX && str_split(&rest, '\n', &cookie); i++)
        add(r, "Cookie", cookie);
    r->x.headers = r->headers;
    r->x.method = HTTP_POST;
    r->x.method_text = STR("POST");
}

/* Cookies whose name is exactly this, and where the only one has its value. */
static unsigned cookies_named(const struct request *r, const char *name, const char **ret_value)
{
    unsigned count = 0;
    for (size_t i = 0; i < r->x.header_count; i++) {
        struct str v = r->headers[i].value;
        if (!str_equal(r->headers[i].name, STR("Cookie"))) continue;
        for (size_t at = 0; at < v.size; at++) {
            size_t from = at;
            while (from > 0 && (v.bytes[from - 1] == ' ' || v.bytes[from - 1] == '\t')) from--;
            bool begins = from == 0 || v.bytes[from - 1] == ';';
            if (!begins || !str_starts(str_skip(v, at), str_from(name))) continue;
            *ret_value = v.bytes + at + strlen(name);
            count++;
        }
    }
    return count;
}

static void check_cookie(struct request *r)
{
    struct str value;
    struct fault f;
    const char *at[NAMES] = {NULL, NULL};
    if (browser_cookie(&r->x, r->url, &value, &f) != ERR_OK) return;
    check(value.size == COOKIE_SECRET_TEXT && browser_shows_cookie(&r->x, r->url));
    unsigned secure = cookies_named(r, names[0], &at[0]),
             plain = cookies_named(r, names[1], &at[1]);
    check(secure <= 1 && (secure == 1 || plain == 1));
    check(value.bytes == at[secure == 1 ? 0 : 1]);
    for (size_t i = 0; i < value.size; i++)
        check(memchr("-_", value.bytes[i], 2) != NULL ||
              (value.bytes[i] >= '0' && value.bytes[i] <= '9') ||
              ((value.bytes[i] | 0x20) >= 'a' && (value.bytes[i] | 0x20) <= 'z'));
}

/* The host and port of "https://host:443/…", lowercase and with its port. */
static bool plainly(struct str url, char to[2 * URL_MAX], bool *ret_secure)
{
    char small[2 * URL_MAX];
    if (url.size >= URL_MAX) return false;
    for (size_t i = 0; i < url.size; i++)
        small[i] =
            url.bytes[i] >= 'A' && url.bytes[i] <= 'Z' ? (char)(url.bytes[i] | 0x20) : url.bytes[i];
    small[url.size] = '\0';
    *ret_secure = strncmp(small, "https://", 8) == 0;
    const char *host = small + (*ret_secure ? 8 : 7);
    size_t size = strcspn(host, "/");
    const char *behind = host[0] == '[' ? memchr(host, ']', size) : host;
    bool has_port = behind != NULL && memchr(behind, ':', size - (size_t)(behind - host)) != NULL;
    snprintf(to, 2 * URL_MAX, "%.*s%s", (int)size, host,
             has_port      ? ""
             : *ret_secure ? ":443"
                           : ":80");
    return true;
}

static void check_origin(struct request *r)
{
    struct fault f;
    char asked[2 * URL_MAX], own[2 * URL_MAX], host[URL_MAX + 16];
    bool is_secure, asked_secure, own_secure;
    if (browser_check_origin(&r->x, r->url, &is_secure, &f) != ERR_OK) return;
    if (memchr(r->origin.bytes, '\0', r->origin.size) != NULL ||
        (r->host.size > 0 && memchr(r->host.bytes, '\0', r->host.size) != NULL))
        return; /* the HTTP parser refuses these */
    if (!plainly(r->origin, asked, &asked_secure)) return;
    check(asked_secure == is_secure);
    check(is_secure || strncmp(asked, "localhost:", 10) == 0 ||
          strncmp(asked, "127.0.0.1:", 10) == 0 || strncmp(asked, "[::1]:", 6) == 0);
    if (r->url[0] == '\0') {
        if (r->host.size > URL_MAX / 2 || memchr(r->host.bytes, '/', r->host.size) != NULL) return;
        snprintf(host, sizeof host, "%s%.*s", is_secure ? "https://" : "http://",
                 STR_FORMAT(r->host));
    } else {
        snprintf(host, sizeof host, "%s", r->url);
    }
    if (!plainly(str_from(host), own, &own_secure)) return;
    check(own_secure == is_secure && strcmp(asked, own) == 0);
}

static void check_token(struct request *r)
{
    static const struct sha256 key = {.bytes = {9}};
    const struct str cookie = STR("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    char right[COOKIE_SECRET_TEXT];
    bool is_secure;
    struct fault f;
    browser_csrf_token(&key, cookie, right);
    bool passes = browser_check(&r->x, r->url, cookie, &key, &f) == ERR_OK;
    check(passes == (browser_check_origin(&r->x, r->url, &is_secure, &f) == ERR_OK &&
                     str_equal(r->token, str_of(right, sizeof right))));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct request r;
    read_request(&r, str_of((const char *)bytes, size));
    check_cookie(&r);
    check_origin(&r);
    check_token(&r);
    return 0;
}
