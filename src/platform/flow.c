#include "platform/flow.h"

#include <string.h>

#include "base/check.h"
#include "oidc/oidc.h"

enum {
    BODY_BYTES = FLOW_SECRET_BYTES + SHA256_BYTES + 8, /* secret, replaced session, time */
    COOKIE_BYTES = BODY_BYTES + SHA256_BYTES,
    INPUT_MAX = 64 + 256 + BODY_BYTES,
};
_Static_assert(FLOW_COOKIE_TEXT == (COOKIE_BYTES * 4 + 2) / 3, "the length of the cookie");

void flow_make(struct flow *f, const struct sha256 *replaces, uint64_t now_ms)
{
    *f = (struct flow){.made_at = now_ms};
    crypto_random(f->secret, sizeof f->secret);
    if (replaces != NULL) f->replaces = *replaces;
}

static void body_write(const struct flow *f, uint8_t to[BODY_BYTES])
{
    memcpy(to, f->secret, FLOW_SECRET_BYTES);
    memcpy(to + FLOW_SECRET_BYTES, f->replaces.bytes, SHA256_BYTES);
    for (unsigned i = 0; i < 8; i++)
        to[FLOW_SECRET_BYTES + SHA256_BYTES + i] = (uint8_t)(f->made_at >> (8 * (7 - i)));
}

static void body_read(const uint8_t from[BODY_BYTES], struct flow *ret)
{
    *ret = (struct flow){0};
    memcpy(ret->secret, from, FLOW_SECRET_BYTES);
    memcpy(ret->replaces.bytes, from + FLOW_SECRET_BYTES, SHA256_BYTES);
    for (unsigned i = 0; i < 8; i++)
        ret->made_at = ret->made_at << 8 | from[FLOW_SECRET_BYTES + SHA256_BYTES + i];
}

/* HMAC of purpose, provider and body. No name of a purpose or provider has a NUL. */
static struct sha256 mac_of(const uint8_t body[BODY_BYTES], const struct sha256 *key,
                            const char *purpose, struct str provider)
{
    char input[INPUT_MAX];
    struct buf b = buf_over(input, sizeof input);
    buf_put(&b, str_from(purpose));
    buf_put_byte(&b, '\0');
    buf_put(&b, provider);
    buf_put_byte(&b, '\0');
    buf_put(&b, str_of((const char *)body, BODY_BYTES));
    check(!b.overflow);
    const struct sha256 mac =
        hmac_once(str_of((const char *)key->bytes, SHA256_BYTES), buf_view(&b));
    memory_wipe(input, sizeof input);
    return mac;
}

void flow_write(const struct flow *f, const struct sha256 *key, struct str provider,
                char to[FLOW_COOKIE_TEXT])
{
    uint8_t bytes[COOKIE_BYTES];
    body_write(f, bytes);
    const struct sha256 mac = mac_of(bytes, key, "cookie", provider);
    memcpy(bytes + BODY_BYTES, mac.bytes, SHA256_BYTES);
    struct buf b = buf_over(to, FLOW_COOKIE_TEXT);
    base64url_put(&b, bytes, sizeof bytes);
    memory_wipe(bytes, sizeof bytes);
}

enum flow_verdict flow_read(struct str cookie, const struct sha256 *key, struct str provider,
                            uint64_t now_ms, struct flow *ret)
{
    uint8_t bytes[FLOW_COOKIE_TEXT];
    size_t size = 0;
    if (cookie.size != FLOW_COOKIE_TEXT || !base64url_read(cookie, bytes, &size) ||
        size != COOKIE_BYTES)
        return FLOW_WRONG;
    const struct sha256 mac = mac_of(bytes, key, "cookie", provider);
    if (!bytes_equal_secret(bytes + BODY_BYTES, mac.bytes, SHA256_BYTES)) return FLOW_WRONG;
    body_read(bytes, ret);
    memory_wipe(bytes, sizeof bytes);
    /* another platform's clock may be a little ahead of ours */
    return now_ms < ret->made_at + FLOW_MS && ret->made_at < now_ms + FLOW_MS ? FLOW_RIGHT
                                                                              : FLOW_OVER;
}

void flow_value(const struct flow *f, const struct sha256 *key, struct str provider,
                enum flow_value which, char to[FLOW_VALUE_TEXT])
{
    static const char *const purposes[] = {
        [FLOW_STATE] = "state", [FLOW_NONCE] = "nonce", [FLOW_VERIFIER] = "verifier"};
    uint8_t body[BODY_BYTES];
    body_write(f, body);
    const struct sha256 mac = mac_of(body, key, purposes[which], provider);
    struct buf b = buf_over(to, FLOW_VALUE_TEXT);
    base64url_put(&b, mac.bytes, SHA256_BYTES);
    memory_wipe(body, sizeof body);
}

bool flow_has_state(const struct flow *f, const struct sha256 *key, struct str provider,
                    struct str state)
{
    char right[FLOW_VALUE_TEXT];
    flow_value(f, key, provider, FLOW_STATE, right);
    return state.size == FLOW_VALUE_TEXT && bytes_equal_secret(state.bytes, right, FLOW_VALUE_TEXT);
}

/* ---- the URL ---- */

void flow_put_parameter(struct buf *out, bool is_first, const char *name, struct str value)
{
    buf_printf(out, "%c%s=", is_first ? '?' : '&', name);
    oidc_put_encoded(out, value);
}

static struct str challenge_of(const struct flow *f, const struct sha256 *key, struct str provider,
                               char to[FLOW_VALUE_TEXT])
{
    char verifier[FLOW_VALUE_TEXT];
    flow_value(f, key, provider, FLOW_VERIFIER, verifier);
    const struct sha256 digest = sha256_once(str_of(verifier, FLOW_VALUE_TEXT));
    struct buf b = buf_over(to, FLOW_VALUE_TEXT);
    base64url_put(&b, digest.bytes, SHA256_BYTES);
    memory_wipe(verifier, sizeof verifier);
    return buf_view(&b);
}

void flow_put_url(struct buf *out, const struct flow *f, const struct sha256 *key,
                  struct str provider, const struct flow_request *r)
{
    char state[FLOW_VALUE_TEXT], nonce[FLOW_VALUE_TEXT], challenge[FLOW_VALUE_TEXT];
    flow_value(f, key, provider, FLOW_STATE, state);
    flow_value(f, key, provider, FLOW_NONCE, nonce);
    buf_put(out, r->endpoint);
    /* an endpoint may have parameters of its own (RFC 6749, 3.1) */
    flow_put_parameter(out, str_find(r->endpoint, '?') == r->endpoint.size, "response_type",
                       STR("code"));
    flow_put_parameter(out, false, "client_id", r->client_id);
    flow_put_parameter(out, false, "redirect_uri", r->redirect_uri);
    flow_put_parameter(out, false, "scope", r->scope);
    flow_put_parameter(out, false, "state", str_of(state, FLOW_VALUE_TEXT));
    flow_put_parameter(out, false, "nonce", str_of(nonce, FLOW_VALUE_TEXT));
    flow_put_parameter(out, false, "code_challenge", challenge_of(f, key, provider, challenge));
    flow_put_parameter(out, false, "code_challenge_method", STR("S256"));
}
