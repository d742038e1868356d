#include "platform/providers.h"

#include <stdio.h>

#include "base/check.h"
#include "base/time.h"
#include "platform/platform.h"

/* ---- requests that wait ---- */

static void unpark_all(struct platform *p)
{
    struct providers *all = &p->providers;
    size_t count = all->parked_count;
    all->parked_count = 0; /* they may be parked again */
    struct http_token tokens[PROVIDER_PARKED_MAX];
    memcpy(tokens, all->parked, count * sizeof *tokens);
    for (size_t i = 0; i < count; i++) http_unpark(p->server, tokens[i]);
}

static void fetched(struct loop_wakeup *w)
{
    unpark_all(link_owner(w, struct platform, providers.fetched));
}

static void changed(void *context)
{
    struct platform *p = context;
    wakeup_send(&p->providers.fetched);
}

/* A request with a Transfer-Encoding cannot be parked. */
static bool park(struct platform *p, struct http_exchange *x)
{
    struct providers *all = &p->providers;
    if (all->parked_count == PROVIDER_PARKED_MAX || p->draining ||
        !str_is_absent(http_header_get(x, STR("transfer-encoding"))))
        return false;
    all->parked[all->parked_count++] = http_park(x);
    return true;
}

/* ---- life ---- */

static struct oidc_settings settings_of(const struct config_provider *c)
{
    return (struct oidc_settings){.name = c->name,
                                  .issuer = c->issuer,
                                  .client_id = c->client_id,
                                  .client_secret_file = c->client_secret_file,
                                  .scope = c->scope,
                                  .audience = c->audience,
                                  .tenant = c->tenant,
                                  .tenant_claim = c->tenant_claim,
                                  .person_claim = c->person_claim,
                                  .claims = c->claims,
                                  .roles_claim = c->roles_claim,
                                  .reviewer = c->reviewer,
                                  .policy_admin = c->policy_admin,
                                  .auditor = c->auditor,
                                  .admin = c->admin,
                                  .allow_private = c->allow_private,
                                  .insecure_loopback = c->insecure_loopback};
}

_Static_assert((int)PROVIDERS_MAX == (int)OIDC_PROVIDERS_MAX, "the options have as many");

enum err providers_start(struct platform *p, struct fault *f)
{
    const struct config *c = p->config;
    struct providers *all = &p->providers;
    if (c->provider_count == 0) return ERR_OK;
    for (size_t i = 0; i < c->provider_count; i++) all->settings[i] = settings_of(c->providers[i]);
    wakeup_start(p->loop, &all->fetched, fetched);
    enum err err =
        oidc_start(all->settings, c->provider_count, c->tls_ca_file, changed, p, &all->oidc, f);
    if (err != ERR_OK) wakeup_stop(&all->fetched);
    return err;
}

void providers_stop(struct platform *p) { oidc_stop(p->providers.oidc); }

void providers_destroy(struct platform *p)
{
    if (p->providers.oidc == NULL) return;
    oidc_destroy(p->providers.oidc);
    wakeup_stop(&p->providers.fetched);
    p->providers.oidc = NULL;
}

/* ---- sign-in ---- */

enum provider_step provider_endpoints(struct platform *p, struct http_exchange *x, size_t provider,
                                      struct oidc_endpoints *ret, struct fault *f)
{
    bool may_change;
    enum err err = oidc_endpoints(p->providers.oidc, provider, ret, &may_change, f);
    if (err == ERR_OK) return PROVIDER_FOUND;
    return may_change && park(p, x) ? PROVIDER_PARKED : PROVIDER_REFUSED;
}

static void exchanged(struct oidc_exchange *e)
{
    struct job *j = e->context;
    j->err = e->err;
    j->fault = e->fault;
    job_return(j);
}

void provider_exchange(struct job *j, struct http_exchange *x, struct oidc_exchange *e)
{
    struct platform *p = j->platform;
    struct fault f;
    if (!job_send_away(j, x)) return;
    e->arena = &j->arena;
    e->done = exchanged;
    e->context = j;
    if (oidc_exchange_begin(p->providers.oidc, e, &f) == ERR_OK) return;
    j->err = e->err = f.err;
    j->fault = f;
    job_return(j);
}

/* ---- bearer tokens ---- */

/* The token, and the number of its provider. */
static bool find_bearer(struct platform *p, const struct http_exchange *x, struct str *ret,
                        size_t *ret_provider)
{
    struct oidc *o = p->providers.oidc;
    struct fault ignored;
    if (o == NULL || api_bearer(x, ret, &ignored) != ERR_OK || str_starts(*ret, STR("wk_")))
        return false;
    *ret_provider = oidc_provider_of(o, *ret);
    return *ret_provider < oidc_count(o);
}

bool bearer_shown(struct platform *p, const struct http_exchange *x)
{
    struct str token;
    size_t provider;
    return find_bearer(p, x, &token, &provider);
}

bool bearer_is_known(struct platform *p, const struct http_exchange *x)
{
    struct str token;
    size_t provider;
    return find_bearer(p, x, &token, &provider) &&
           oidc_has_bearer(p->providers.oidc, provider, token);
}

static enum provider_step refuse_bearer(struct platform *p, const struct http_exchange *x,
                                        enum err err, struct fault *f)
{
    f->err = err;
    if (err == ERR_UNAUTHENTICATED || err == ERR_CREDENTIAL_EXPIRED ||
        err == ERR_IDENTITY_REFUSED) {
        metric_add(p->sheet, METRIC_PLATFORM_AUTH_FAILED, 1);
        auth_failed_note(p, x, err);
    }
    return PROVIDER_REFUSED;
}

static enum provider_step no_memory(struct fault *f)
{
    (void)api_no_memory(f);
    return PROVIDER_REFUSED;
}

enum provider_step bearer_admit(struct platform *p, struct http_exchange *x, uint32_t roles,
                                struct fault *f)
{
    struct str token;
    size_t provider;
    bool may_change = false;
    struct identity *identity = arena_new(x->arena, struct identity);
    check(find_bearer(p, x, &token, &provider));
    if (identity == NULL) return no_memory(f);
    enum err err =
        oidc_verify_bearer(p->providers.oidc, provider, token, world_expiry_ms(world_now_ms()),
                           x->arena, identity, &may_change, f);
    if (err == ERR_BODY_TOO_LARGE) return no_memory(f);
    if (err != ERR_OK)
        return may_change && park(p, x) ? PROVIDER_PARKED : refuse_bearer(p, x, err, f);
    const struct key *key =
        key_of_person(identity->tenant, identity->person, identity->roles, x->arena);
    if (key == NULL) return no_memory(f);
    if (api_admit_key(&p->api, x, key, roles, &p->caller, f) != ERR_OK) return PROVIDER_REFUSED;
    p->identity = identity;
    return PROVIDER_FOUND;
}

bool bearer_assert(struct platform *p, const struct http_exchange *x, struct buf *out)
{
    const struct identity *i = p->identity;
    uint64_t now_ms = world_now_ms();
    const struct assertion a = {.id = id_make(now_ms, &p->api.chance),
                                .tenant = i->tenant,
                                .person = i->person,
                                .method = forward_method(x),
                                .target = sha256_once(forward_target(x)),
                                .roles = i->roles,
                                .proof = PROOF_OIDC,
                                .claims = i->claims,
                                .claim_count = i->claim_count,
                                .made_at = now_ms};
    return assertion_put(out, &p->assertion_key, &a);
}

/* ---- /healthz ---- */

bool providers_trouble(struct platform *p, char to[PROVIDER_TROUBLE_TEXT])
{
    struct oidc *o = p->providers.oidc;
    for (size_t i = 0; i < oidc_count(o); i++) {
        struct oidc_status s;
        oidc_status_of(o, i, &s);
        if (s.error[0] == '\0') continue;
        snprintf(to, PROVIDER_TROUBLE_TEXT, "%s: %s; %s", s.name, s.error,
                 s.is_usable ? "its tokens are verified with the keys that were fetched before"
                             : "its tokens are refused, and so are sign-ins with it");
        return true;
    }
    return false;
}

void providers_put(struct buf *out, struct platform *p)
{
    struct oidc *o = p->providers.oidc;
    if (o == NULL) return;
    buf_put_literal(out, ",\"providers\":[");
    for (size_t i = 0; i < oidc_count(o); i++) {
        struct oidc_status s;
        char at[TIME_TEXT];
        oidc_status_of(o, i, &s);
        if (s.fetched_at != 0) time_write(s.fetched_at, at);
        buf_printf(out, "%s{\"error\":", i > 0 ? "," : "");
        json_put_string(out, str_from(s.error));
        buf_put_literal(out, ",\"fetched_at\":");
        if (s.fetched_at == 0)
            buf_put_literal(out, "null");
        else
            json_put_plain(out, str_of(at, TIME_TEXT));
        json_put_string_member(out, STR(",\"name\":"), str_from(s.name));
        buf_printf(out, ",\"usable\":%s}", s.is_usable ? "true" : "false");
    }
    buf_put_byte(out, ']');
}
