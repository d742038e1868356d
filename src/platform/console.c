/* console.c - serves the page for people at /console/: files that the program carries inside.
 *
 *   /                        a browser is sent to console/
 *   /console/                index.html, checked at each load
 *   /console/DIGEST/FILE     all else, kept by browsers for ever
 *
 * DIGEST names the content of all files together, and index.html is the only one that mentions it.
 * Scripts and styles name each other without a folder, so that a page never mixes two versions. All
 * addresses are relative: a proxy may put the platform below any path. The page has no right of its
 * own. It uses the public API with its user's session. */
#include "platform/console.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/embedded.h"
#include "crypto/crypto.h"

enum { DIGEST_TEXT = 16, INDEX_BYTES_MAX = 8192 };

extern const struct embedded console_files[];

struct console {
    struct api *api;
    char digest[DIGEST_TEXT + 1];
    char etag[DIGEST_TEXT + 3]; /* in quotes */
    struct buf index;           /* with the digest in it */
};

static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

static struct str type_of(struct str name)
{
    static const struct {
        const char *suffix, *type;
    } types[] = {{".html", "text/html; charset=utf-8"},
                 {".js", "text/javascript; charset=utf-8"},
                 {".css", "text/css; charset=utf-8"},
                 {".svg", "image/svg+xml"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct str suffix = str_from(types[i].suffix);
        if (name.size > suffix.size && str_equal(str_skip(name, name.size - suffix.size), suffix))
            return str_from(types[i].type);
    }
    check(false); /* tests/e2e/test_console.py asks for each file */
    return (struct str){0};
}

static const struct embedded *file_find(struct str name)
{
    for (const struct embedded *e = console_files; e->name != NULL; e++)
        if (str_equal(str_from(e->name), name)) return e;
    return NULL;
}

/* Puts the digest wherever the text has an @. */
static void index_write(struct console *c, struct str text)
{
    buf_init(&c->index, text.size + 256, INDEX_BYTES_MAX);
    for (size_t i = 0; i < text.size; i++)
        if (text.bytes[i] == '@')
            buf_put(&c->index, str_from(c->digest));
        else
            buf_put_byte(&c->index, text.bytes[i]);
    check(!c->index.overflow);
}

struct console *console_create(struct api *api)
{
    struct console *c = calloc(1, sizeof *c);
    check(c != NULL);
    c->api = api;
    struct hasher *h = hasher_create();
    hasher_begin(h);
    for (const struct embedded *e = console_files; e->name != NULL; e++) {
        hasher_add(h, str_from(e->name));
        hasher_add(h, embedded_bytes(e));
    }
    struct sha256 digest = hasher_end(h);
    hasher_destroy(h);
    hex_write(c->digest, digest.bytes, DIGEST_TEXT / 2);
    snprintf(c->etag, sizeof c->etag, "\"%s\"", c->digest);
    const struct embedded *index = file_find(STR("index.html"));
    check(index != NULL);
    index_write(c, embedded_bytes(index));
    return c;
}

void console_destroy(struct console *c)
{
    if (c == NULL) return;
    buf_fini(&c->index);
    free(c);
}

static void add_header(struct http_reply *r, const char *name, const char *value)
{
    check(r->header_count < HTTP_REPLY_HEADERS_MAX);
    r->headers[r->header_count++] =
        (struct http_header){.name = str_from(name), .value = str_from(value)};
}

static void send(struct console *c, struct http_exchange *x, struct http_reply *r)
{
    struct fault f;
    if (!http_has_room(x, r->body.size)) {
        (void)api_no_room(&f);
        api_refuse(c->api, x, &f, (struct str){0});
        return;
    }
    add_header(r, "Content-Security-Policy", policy);
    add_header(r, "Cross-Origin-Opener-Policy", "same-origin");
    add_header(r, "Cross-Origin-Resource-Policy", "same-origin");
    api_send(c->api, x, r, (struct str){0});
}

static bool has_word(struct str text, struct str word)
{
    for (size_t i = 0; i + word.size <= text.size; i++)
        if (str_equal_ignoring_case(str_of(text.bytes + i, word.size), word)) return true;
    return false;
}

/* `gzip;q=0` is how a client would refuse it; browsers do not. */
static bool takes_gzip(const struct http_exchange *x)
{
    struct str accepted = http_header_get(x, STR("accept-encoding"));
    return has_word(accepted, STR("gzip")) && !has_word(accepted, STR("gzip;q=0"));
}

static void not_found(struct console *c, struct http_exchange *x)
{
    struct fault f;
    (void)fault_set(&f, ERR_NOT_FOUND, "",
                    "there is nothing at this path; reload the console if its page is an old one");
    api_refuse(c->api, x, &f, (struct str){0});
}

static void redirect(struct console *c, struct http_exchange *x)
{
    struct http_reply r = {.status = 302, .body = STR("")};
    add_header(&r, "Location", "console/");
    send(c, x, &r);
}

void console_root(struct console *c, struct http_exchange *x)
{
    if (has_word(http_header_get(x, STR("accept")), STR("text/html")))
        redirect(c, x);
    else
        not_found(c, x);
}

void console_redirect(struct console *c, struct http_exchange *x) { redirect(c, x); }

void console_index(struct console *c, struct http_exchange *x)
{
    bool is_known = str_equal(http_header_get(x, STR("if-none-match")), str_from(c->etag));
    struct http_reply r = {.status = is_known ? 304 : 200,
                           .content_type = type_of(STR("index.html")),
                           .body = is_known ? STR("") : buf_view(&c->index)};
    add_header(&r, "ETag", c->etag);
    add_header(&r, "Cache-Control", "no-cache");
    send(c, x, &r);
}

void console_file(struct console *c, struct http_exchange *x)
{
    const struct embedded *e = file_find(x->params[1]);
    if (e == NULL || !str_equal(x->params[0], str_from(c->digest))) {
        not_found(c, x);
        return;
    }
    bool gzip = takes_gzip(x);
    struct http_reply r = {.status = 200,
                           .content_type = type_of(x->params[1]),
                           .body = gzip ? embedded_gzip(e) : embedded_bytes(e)};
    if (gzip) add_header(&r, "Content-Encoding", "gzip");
    add_header(&r, "Vary", "Accept-Encoding");
    add_header(&r, "Cache-Control", "public, max-age=31536000, immutable");
    send(c, x, &r);
}
