#include "platform/browser.h"

#include <stdio.h>
#include <string.h>

#define COOKIE_SECURE "__Host-writ"
#define COOKIE_LOOPBACK "writ-session"
#define FLOW_SECURE "__Host-writ-flow"
#define FLOW_LOOPBACK "writ-flow"

/* ---- origins ---- */

/* "https://host:port" of a URL or of an Origin. */
static bool origin_split(struct str url, bool *ret_secure, struct str *ret_host)
{
    struct str rest;
    if (url.size >= 8 && str_equal_ignoring_case(str_of(url.bytes, 8), STR("https://"))) {
        *ret_secure = true;
        rest = str_skip(url, 8);
    } else if (url.size >= 7 && str_equal_ignoring_case(str_of(url.bytes, 7), STR("http://"))) {
        *ret_secure = false;
        rest = str_skip(url, 7);
    } else {
        return false;
    }
    *ret_host = str_of(rest.bytes, str_find(rest, '/'));
    return ret_host->size > 0 && str_find(*ret_host, '@') == ret_host->size;
}

/* The host without its port. */
static struct str without_port(struct str host)
{
    if (host.size > 0 && host.bytes[0] == '[') {
        size_t end = str_find(host, ']') + 1;
        bool is_whole = end >= host.size || host.bytes[end] != ':';
        return is_whole ? host : str_of(host.bytes, end); /* "[::1]x" is no loopback */
    }
    return str_of(host.bytes, str_find(host, ':'));
}

/* The host without the port that the scheme has anyway. */
static struct str without_default_port(struct str host, bool is_secure)
{
    if (str_is_empty(host)) return host; /* HTTP/1.0 has no Host */
    struct str name = without_port(host), port = str_skip(host, name.size);
    return str_equal(port, is_secure ? STR(":443") : STR(":80")) ? name : host;
}

/* Names that lead to this machine only: browsers let no other machine answer for them. */
static bool is_loopback(struct str host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    struct str name = without_port(host);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (str_equal_ignoring_case(name, str_from(names[i]))) return true;
    return false;
}

enum err browser_check_url(const char *public_url, struct fault *f)
{
    bool is_secure = false;
    struct str host = {0};
    if (public_url[0] == '\0') return ERR_OK;
    if (origin_split(str_from(public_url), &is_secure, &host) && (is_secure || is_loopback(host)))
        return ERR_OK;
    return fault_set(
        f, ERR_BAD_VALUE, "public_url",
        "public_url: must be https://host, with a port and a path if there are any (http:// only for localhost)");
}

static enum err wrong_origin(struct fault *f, struct str origin, const char *public_url,
                             struct str host)
{
    struct str shown = str_cut(origin, 100);
    if (public_url[0] != '\0')
        return fault_set(f, ERR_WRONG_ORIGIN, "",
                         "Origin: %.*s is not the origin of public_url, which is %.100s",
                         STR_FORMAT(shown), public_url);
    struct str own = str_cut(host, 100);
    return fault_set(
        f, ERR_WRONG_ORIGIN, "",
        "Origin: %.*s is not the origin of the request's Host, %.*s; behind a proxy, set public_url to the URL that browsers use",
        STR_FORMAT(shown), STR_FORMAT(own));
}

enum err browser_check_origin(const struct http_exchange *x, const char *public_url,
                              bool *ret_secure, struct fault *f)
{
    struct str origin = http_header_get(x, STR("origin"));
    struct str host = http_header_get(x, STR("host")), own_host = host, asked;
    bool is_secure, own_secure;
    if (str_is_empty(origin))
        return fault_set(
            f, ERR_WRONG_ORIGIN, "",
            "Origin: is missing; browsers send it with every request that uses a session");
    if (!origin_split(origin, &is_secure, &asked)) return wrong_origin(f, origin, public_url, host);
    own_secure = is_secure;
    if (public_url[0] != '\0' && !origin_split(str_from(public_url), &own_secure, &own_host))
        return wrong_origin(f, origin, public_url, host);
    if (own_secure != is_secure ||
        !str_equal_ignoring_case(without_default_port(asked, is_secure),
                                 without_default_port(own_host, is_secure)))
        return wrong_origin(f, origin, public_url, host);
    if (!is_secure && !is_loopback(asked))
        return fault_set(
            f, ERR_WRONG_ORIGIN, "",
            "Origin: %.*s is not encrypted; sessions need https, or http on localhost only",
            STR_FORMAT(str_cut(origin, 100)));
    *ret_secure = is_secure;
    return ERR_OK;
}

/* ---- cookies ---- */

/* The next "name=value" of a Cookie header (RFC 6265, 4.2.1). */
static bool next_cookie(struct str *rest, struct str *ret_name, struct str *ret_value)
{
    struct str part;
    if (!str_split(rest, ';', &part)) return false;
    while (part.size > 0 && (part.bytes[0] == ' ' || part.bytes[0] == '\t'))
        part = str_skip(part, 1);
    size_t at = str_find(part, '=');
    *ret_name = str_of(part.bytes, at);
    *ret_value = at == part.size ? STR("") : str_skip(part, at + 1);
    return true;
}

/* The cookie's name where this request was sent. The one without Secure counts at a loopback host
 * only: elsewhere, anyone on the network could set it. */
static struct str name_here(const struct http_exchange *x, const char *public_url)
{
    bool is_secure = false;
    struct str host = http_header_get(x, STR("host"));
    if (public_url[0] != '\0' && !origin_split(str_from(public_url), &is_secure, &host))
        return STR(COOKIE_SECURE);
    return !is_secure && is_loopback(host) ? STR(COOKIE_LOOPBACK) : STR(COOKIE_SECURE);
}

/* How many values there are under that name; *ret is the first. */
static unsigned count_named(const struct http_exchange *x, struct str name, struct str *ret)
{
    unsigned count = 0;
    for (size_t i = 0; i < x->header_count; i++) {
        if (!http_header_is(&x->headers[i], STR("cookie"))) continue;
        struct str rest = x->headers[i].value, one, value;
        while (next_cookie(&rest, &one, &value)) {
            if (!str_equal(one, name)) continue;
            if (count++ == 0) *ret = value;
        }
    }
    return count;
}

/* At a loopback host, https may be used, too: its cookie goes first. */
static unsigned find_cookie(const struct http_exchange *x, const char *public_url, struct str *ret)
{
    if (http_header_is_missing(x, STR("cookie"))) return 0;
    unsigned count = count_named(x, STR(COOKIE_SECURE), ret);
    if (count > 0) return count;
    struct str name = name_here(x, public_url);
    return str_equal(name, STR(COOKIE_SECURE)) ? 0 : count_named(x, name, ret);
}

bool browser_shows_cookie(const struct http_exchange *x, const char *public_url)
{
    struct str ignored;
    return str_is_absent(http_header_get(x, STR("authorization"))) &&
           find_cookie(x, public_url, &ignored) > 0;
}

enum err browser_cookie(const struct http_exchange *x, const char *public_url, struct str *ret,
                        struct fault *f)
{
    uint8_t bytes[COOKIE_SECRET_TEXT];
    size_t size = 0;
    struct str value = {0};
    bool right = find_cookie(x, public_url, &value) == 1 && value.size == COOKIE_SECRET_TEXT &&
                 base64url_read(value, bytes, &size) && size == COOKIE_SECRET_BYTES;
    memory_wipe(bytes, sizeof bytes);
    if (!right) return fault_plain(f, ERR_SESSION_ENDED);
    *ret = value;
    return ERR_OK;
}

struct str browser_set_cookie(bool is_secure, struct str secret, char to[SET_COOKIE_TEXT])
{
    bool removes = str_is_absent(secret);
    int size = snprintf(to, SET_COOKIE_TEXT, "%s=%.*s; Path=/; HttpOnly; SameSite=Strict%s%s",
                        is_secure ? COOKIE_SECURE : COOKIE_LOOPBACK, (int)secret.size,
                        removes ? "" : secret.bytes, is_secure ? "; Secure" : "",
                        removes ? "; Max-Age=0" : "");
    return str_of(to, (size_t)size);
}

struct str browser_flow_cookie(const struct http_exchange *x, bool is_secure)
{
    struct str value = {0};
    struct str name = str_from(is_secure ? FLOW_SECURE : FLOW_LOOPBACK);
    return count_named(x, name, &value) == 1 ? value : (struct str){0};
}

struct str browser_set_flow_cookie(bool is_secure, struct str value, unsigned seconds,
                                   char to[SET_COOKIE_TEXT])
{
    bool removes = str_is_absent(value);
    int size =
        snprintf(to, SET_COOKIE_TEXT, "%s=%.*s; Path=/; HttpOnly; SameSite=Lax%s; Max-Age=%u",
                 is_secure ? FLOW_SECURE : FLOW_LOOPBACK, (int)value.size,
                 removes ? "" : value.bytes, is_secure ? "; Secure" : "", removes ? 0 : seconds);
    return str_of(to, (size_t)size);
}

bool browser_is_secure(const char *url)
{
    bool is_secure = false;
    struct str host;
    return origin_split(str_from(url), &is_secure, &host) && is_secure;
}

/* ---- the token ---- */

void browser_csrf_token(const struct sha256 *token_key, struct str cookie,
                        char to[COOKIE_SECRET_TEXT])
{
    const struct sha256 mac =
        hmac_once(str_of((const char *)token_key->bytes, SHA256_BYTES), cookie);
    struct buf b = buf_over(to, COOKIE_SECRET_TEXT);
    base64url_put(&b, mac.bytes, SHA256_BYTES);
}

static enum err check_token(const struct http_exchange *x, struct str cookie,
                            const struct sha256 *token_key, struct fault *f)
{
    char right[COOKIE_SECRET_TEXT];
    struct str shown = http_header_get(x, STR("writ-csrf-token"));
    browser_csrf_token(token_key, cookie, right);
    bool equal = shown.size == COOKIE_SECRET_TEXT &&
                 bytes_equal_secret(shown.bytes, right, COOKIE_SECRET_TEXT);
    memory_wipe(right, sizeof right);
    return equal ? ERR_OK : fault_plain(f, ERR_WRONG_CSRF_TOKEN);
}

enum err browser_check(const struct http_exchange *x, const char *public_url, struct str cookie,
                       const struct sha256 *token_key, struct fault *f)
{
    bool ignored;
    if (str_equal(http_header_get(x, STR("sec-fetch-site")), STR("cross-site")))
        return fault_set(
            f, ERR_WRONG_ORIGIN, "",
            "Sec-Fetch-Site: cross-site; sessions serve pages of their own origin only");
    if (x->method == HTTP_GET || x->method == HTTP_HEAD) return ERR_OK;
    enum err err = browser_check_origin(x, public_url, &ignored, f);
    return err == ERR_OK ? check_token(x, cookie, token_key, f) : err;
}
