/* relying_party.c - see relying_party.h; and GET /api/v1/session/providers, for the page on which people sign
 * in. */
#include "platform/relying_party.h"

#include "base/log.h"
#include "platform/flow.h"

static const struct oidc_settings *settings_of(const struct platform *p, size_t provider)
{
    return oidc_settings_of(p->providers.oidc, provider);
}

static size_t count(const struct platform *p)
{
    return p->providers.oidc == NULL ? 0 : oidc_count(p->providers.oidc);
}

/* NULL: people can come back from a provider; else why not. */
static const char *why_not(const struct platform *p)
{
    if (p->config->public_url[0] == '\0') return "public_url is not set";
    return p->config->console ? NULL : "console is false";
}

void relying_party_tell(const struct platform *p)
{
    const char *why = why_not(p);
    if (count(p) > 0 && why != NULL)
        log_line(LOG_WARNING, "no_sign_in_at_providers", "why", why, "text",
                 "identity providers are configured, but people cannot come back from them", NULL);
}

bool provider_is_there(const struct platform *p, struct str name)
{
    return p->providers.oidc != NULL && oidc_find(p->providers.oidc, name) < count(p);
}

enum err provider_find(const struct platform *p, struct str name, size_t *ret, struct fault *f)
{
    const char *why = why_not(p);
    if (!provider_is_there(p, name))
        return fault_set(f, ERR_NOT_FOUND, "", "there is no identity provider of this name here");
    if (why != NULL)
        return fault_set(f, ERR_NOT_FOUND, "", "people cannot sign in at providers here: %s", why);
    *ret = oidc_find(p->providers.oidc, name);
    return ERR_OK;
}

/* public_url without a slash at its end. */
static void put_base(struct buf *out, const struct platform *p)
{
    struct str url = str_from(p->config->public_url);
    while (url.size > 0 && url.bytes[url.size - 1] == '/') url.size--;
    buf_put(out, url);
}

void provider_put_redirect(struct buf *out, const struct platform *p, struct str name)
{
    put_base(out, p);
    buf_put_literal(out, "/api/v1/session/oidc/");
    buf_put(out, name);
    buf_put_literal(out, "/callback");
}

/* Without an id_token_hint, which we would have to keep: the provider asks the person instead
 * (OpenID Connect RP-Initiated Logout 1.0, 2). */
void provider_put_end(struct buf *out, struct platform *p, const struct session *s)
{
    struct oidc_endpoints endpoints;
    struct fault ignored;
    char back[OIDC_URL_MAX], bytes[OIDC_URL_MAX * 4];
    size_t provider;
    bool may_change;
    if (s->proof != PROOF_OIDC ||
        provider_find(p, str_from(s->provider), &provider, &ignored) != ERR_OK ||
        oidc_endpoints(p->providers.oidc, provider, &endpoints, &may_change, &ignored) != ERR_OK ||
        endpoints.end_session[0] == '\0')
        return;
    struct buf url = buf_over(bytes, sizeof bytes), target = buf_over(back, sizeof back);
    struct str endpoint = str_from(endpoints.end_session);
    put_base(&target, p);
    buf_put_literal(&target, "/console/");
    buf_put(&url, endpoint);
    flow_put_parameter(&url, str_find(endpoint, '?') == endpoint.size, "client_id",
                       str_from(settings_of(p, provider)->client_id));
    flow_put_parameter(&url, false, "post_logout_redirect_uri", buf_view(&target));
    if (url.overflow || target.overflow) return;
    buf_put_literal(out, "\"end_session_url\":");
    json_put_string(out, buf_view(&url));
    buf_put_byte(out, ',');
}

void provider_list_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    char bytes[4096];
    struct buf b = buf_over(bytes, sizeof bytes);
    bool is_first = true;
    buf_printf(&b, "{\"key\":%s,\"providers\":[", p->config->session_by_key ? "true" : "false");
    for (size_t i = 0; i < count(p) && why_not(p) == NULL; i++) {
        struct oidc_status status;
        oidc_status_of(p->providers.oidc, i, &status);
        buf_put(&b, is_first ? STR("{\"available\":") : STR(",{\"available\":"));
        buf_printf(&b, "%s,\"name\":", status.is_usable ? "true" : "false");
        json_put_string(&b, str_from(settings_of(p, i)->name));
        buf_put_byte(&b, '}');
        is_first = false;
    }
    buf_put_literal(&b, "]}");
    struct http_reply r = {.status = 200, .body = buf_view(&b)};
    r.headers[r.header_count++] =
        (struct http_header){.name = STR("Cache-Control"), .value = STR("no-store")};
    api_send(&p->api, x, &r, (struct str){0});
}
