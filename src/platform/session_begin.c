#include "platform/session_begin.h"

void session_begin_fill(struct platform *p, const struct client_address *client,
                        struct session_begin *b)
{
    uint8_t secret[COOKIE_SECRET_BYTES];
    char address[CLIENT_ADDRESS_TEXT];
    struct session *s = &b->session;
    uint64_t now_ms = world_now_ms();
    crypto_random(secret, sizeof secret);
    struct buf text = buf_over(b->secret, sizeof b->secret);
    base64url_put(&text, secret, sizeof secret);
    memory_wipe(secret, sizeof secret);
    s->hash = sha256_once(buf_view(&text));
    s->id = id_make(now_ms, &p->api.chance);
    s->created_at = s->seen_at = now_ms;
    s->expires_at = now_ms + p->config->session_lifetime_ms;
    struct str shown = client_address_text(client, address);
    if (str_is_absent(shown)) shown = STR("unknown");
    memcpy(s->client, shown.bytes, shown.size);
    b->idle_ms = p->config->session_idle_ms;
}

void session_begin_replaces(const struct platform *p, const struct http_exchange *x,
                            struct sha256 *ret)
{
    struct str cookie;
    struct fault ignored;
    const char *url = p->config->public_url;
    *ret = (struct sha256){{0}};
    if (browser_shows_cookie(x, url) && browser_cookie(x, url, &cookie, &ignored) == ERR_OK)
        *ret = sha256_once(cookie);
}

void session_begin_work(struct job *j, struct store *s)
{
    const struct session_begin *b = j->detail;
    j->err = session_store_start(s, &b->session, &b->from, b->idle_ms, &j->actor, &j->fault);
    j->wrote_nothing = true; /* no revision */
}

void session_begin_done(struct job *j)
{
    struct session_begin *b = j->detail;
    if (j->err == ERR_OK) {
        j->cookie =
            browser_set_cookie(b->is_secure, str_of(b->secret, sizeof b->secret), j->cookie_text);
        session_forget(j->platform, &b->from.replaces);
    }
    memory_wipe(b->secret, sizeof b->secret);
}
