/* browser.h - what a browser says about a request: its cookie, its origin, its token.
 *
 * A browser adds the session's cookie to every request for our origin, whatever page causes it. So
 * a request with a cookie proves two more things before it may change anything: its page has our
 * origin (Origin, which no page can forge), and the page could read the session's document (the
 * header Writ-CSRF-Token, which no page of another origin can set). SameSite=Strict keeps the cookie
 * out of other sites' requests as well.
 *
 * Over https the cookie is `__Host-writ`: browsers accept it only with Secure, for this host alone.
 * At a loopback host over http it is `writ-session`, without Secure. While a person signs in at an
 * identity provider there is a second cookie (flow.h), `__Host-writ-flow` or `writ-flow`, which is
 * SameSite=Lax. Pure; any thread. */
#ifndef PLATFORM_BROWSER_H
#define PLATFORM_BROWSER_H

#include "base/buf.h"
#include "base/fault.h"
#include "crypto/crypto.h"
#include "http/server.h"

enum { COOKIE_SECRET_BYTES = 32, COOKIE_SECRET_TEXT = 43, SET_COOKIE_TEXT = 256 };

/* Whether the request has no credential of its own (Authorization), but the cookie of a session. */
bool browser_shows_cookie(const struct http_exchange *x, const char *public_url);
/* Its value. ERR_SESSION_ENDED: it is not one that we make, or there are two. */
enum err browser_cookie(const struct http_exchange *x, const char *public_url, struct str *ret,
                        struct fault *f);

/* Whether the page has our origin: that of `public_url` or, if that is empty, the request's Host.
 * *ret_secure: it uses https. ERR_WRONG_ORIGIN: another one, none, or one with which a cookie would
 * not be safe (http on a host that is not loopback). */
enum err browser_check_origin(const struct http_exchange *x, const char *public_url,
                              bool *ret_secure, struct fault *f);
/* For a request with a cookie. One that may change something must have our origin and the token; a
 * read must not come from another site (Sec-Fetch-Site). ERR_WRONG_ORIGIN, ERR_WRONG_CSRF_TOKEN. */
enum err browser_check(const struct http_exchange *x, const char *public_url, struct str cookie,
                       const struct sha256 *token_key, struct fault *f);

/* The token of the session with this cookie; no NUL. */
void browser_csrf_token(const struct sha256 *token_key, struct str cookie,
                        char to[COOKIE_SECRET_TEXT]);
/* The value of Set-Cookie. `secret` absent: one that removes the cookie. */
struct str browser_set_cookie(bool is_secure, struct str secret, char to[SET_COOKIE_TEXT]);

/* The one cookie of a sign-in under way, at an address of this kind; absent: there is none, or there
 * are two. */
struct str browser_flow_cookie(const struct http_exchange *x, bool is_secure);
/* As browser_set_cookie(); the browser drops it after `seconds`. */
struct str browser_set_flow_cookie(bool is_secure, struct str value, unsigned seconds,
                                   char to[SET_COOKIE_TEXT]);
/* Whether a URL begins with https://. */
bool browser_is_secure(const char *url);

/* ERR_BAD_VALUE: it is not https://host[:port][/path] or http:// with a loopback host. An empty text
 * is right. */
enum err browser_check_url(const char *public_url, struct fault *f);

#endif
