/* routes.c - the table of all paths of the platform, with the roles that each needs.
 *
 * The engine's paths follow where `engine.url` is set. They are forwarded with the caller's own
 * credential, or with an assertion about the caller's session, so that a client needs one address. The
 * engine checks who may call them. */
#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "platform/platform.h"

#define POLICY_ROLES (ROLE_POLICY_ADMIN | ROLE_ADMIN)
#define AUDIT_ROLES (ROLE_AUDITOR | ROLE_ADMIN)
/* Reads only. A change may be what stops a client, and engines may not fall behind. */
enum {
    RATES_OF_READS = RATE_BIT(RATE_REQUESTS) | RATE_BIT(RATE_CONNECTIONS),
    RATES_OF_AUDIT = RATES_OF_READS | RATE_BIT(RATE_AUDIT_QUERIES),
};
#define PUBLIC(path, function)                                                                     \
    {                                                                                              \
        .method = HTTP_GET, .pattern = path, .handle = function, .parameters = ""                  \
    }

static const struct http_route own_routes[] = {
    PUBLIC("/healthz", healthz_handle),
    PUBLIC("/livez", livez_handle),
    PUBLIC("/readyz", readyz_handle),
    {.method = HTTP_GET,
     .pattern = "/metrics",
     .handle = metrics_handle,
     .parameters = "tenant_id"},

    {.method = HTTP_GET,
     .pattern = "/api/v1/policies",
     .handle = policy_list_handle,
     .rates = RATES_OF_READS,
     .roles = POLICY_ROLES,
     .parameters = "tenant_id limit cursor"},
    {.method = HTTP_GET,
     .pattern = "/api/v1/policies/{name}",
     .handle = policy_get_handle,
     .rates = RATES_OF_READS,
     .roles = POLICY_ROLES,
     .parameters = "tenant_id"},
    {.method = HTTP_PUT,
     .pattern = "/api/v1/policies/{name}",
     .handle = policy_put_handle,
     .roles = POLICY_ROLES,
     .parameters = "tenant_id dry_run force",
     .members = "content description is_active tenant_id",
     .body = HTTP_BODY_JSON,
     .body_max = LIMIT_POLICY_BODY_BYTES},
    {.method = HTTP_DELETE,
     .pattern = "/api/v1/policies/{name}",
     .handle = policy_delete_handle,
     .roles = POLICY_ROLES,
     .parameters = "tenant_id force"},
    {.method = HTTP_POST,
     .pattern = "/api/v1/policies:apply",
     .handle = policy_apply_handle,
     .roles = POLICY_ROLES,
     .parameters = "tenant_id dry_run force",
     .members = "delete policies tenant_id",
     .body = HTTP_BODY_JSON,
     .body_max = LIMIT_POLICY_SET_BODY_BYTES},
    {.method = HTTP_GET,
     .pattern = "/api/v1/policies/{name}/versions",
     .handle = policy_versions_handle,
     .rates = RATES_OF_READS,
     .roles = POLICY_ROLES,
     .parameters = "tenant_id limit cursor"},
    {.method = HTTP_GET,
     .pattern = "/api/v1/policies/{name}/versions/{n}",
     .handle = policy_version_handle,
     .rates = RATES_OF_READS,
     .roles = POLICY_ROLES,
     .parameters = "tenant_id"},
    {.method = HTTP_POST,
     .pattern = "/api/v1/policies/{name}/rollback",
     .handle = policy_rollback_handle,
     .roles = POLICY_ROLES,
     .parameters = "tenant_id force",
     .members = "tenant_id version",
     .body = HTTP_BODY_JSON},

    {.method = HTTP_GET,
     .pattern = "/api/v1/keys",
     .handle = key_list_handle,
     .rates = RATES_OF_READS,
     .roles = ROLE_ADMIN,
     .parameters = "tenant_id limit cursor"},
    {.method = HTTP_POST,
     .pattern = "/api/v1/keys",
     .handle = key_create_handle,
     .roles = ROLE_ADMIN,
     .parameters = "tenant_id",
     .members =
         "actors expires_at name nodes owner rates reviewers roles tenant tenant_id tenants users",
     .body = HTTP_BODY_JSON},
    {.method = HTTP_DELETE,
     .pattern = "/api/v1/keys/{id}",
     .handle = key_revoke_handle,
     .roles = ROLE_ADMIN,
     .parameters = "tenant_id"},
    {.method = HTTP_POST,
     .pattern = "/api/v1/keys/{id}/rotate",
     .handle = key_rotate_handle,
     .roles = ROLE_ADMIN,
     .parameters = "tenant_id",
     .members = "overlap_seconds tenant_id",
     .body = HTTP_BODY_OPTIONAL_JSON},

    {.method = HTTP_GET,
     .pattern = "/api/v1/audit",
     .handle = audit_query_handle,
     .rates = RATES_OF_AUDIT,
     .roles = AUDIT_ROLES,
     .parameters =
         "tenant_id actor action decision trace_id kind rule user_id from to limit cursor order exact"},
    {.method = HTTP_GET,
     .pattern = "/api/v1/audit/trace/{id}",
     .handle = audit_trace_handle,
     .rates = RATES_OF_AUDIT,
     .roles = AUDIT_ROLES,
     .parameters = "tenant_id"},
    {.method = HTTP_GET,
     .pattern = "/api/v1/audit/evidence",
     .handle = evidence_page_handle,
     .rates = RATES_OF_AUDIT,
     .roles = AUDIT_ROLES,
     .parameters = "part node journal seq end_seq from to"},
    {.method = HTTP_POST,
     .pattern = "/api/v1/audit/ingest",
     .handle = ingest_handle,
     .roles = ROLE_INGEST,
     .parameters = "tenant_id",
     .body = HTTP_BODY_NDJSON,
     .body_max = LIMIT_INGEST_BODY_BYTES},
    {.method = HTTP_GET,
     .pattern = "/api/v1/audit/positions",
     .handle = positions_handle,
     .roles = ROLE_INGEST,
     .parameters = "node journal tenant_id"},
    {.method = HTTP_POST,
     .pattern = "/api/v1/audit/gaps",
     .handle = gap_accept_handle,
     .roles = ROLE_ADMIN,
     .parameters = "tenant_id",
     .members = "epoch from_seq journal next_seq node reason",
     .body = HTTP_BODY_JSON},
    {.method = HTTP_GET,
     .pattern = "/api/v1/audit/engine-keys",
     .handle = engine_trusted_handle,
     .rates = RATES_OF_READS,
     .roles = ROLE_ADMIN,
     .parameters = "tenant_id"},
    {.method = HTTP_POST,
     .pattern = "/api/v1/audit/engine-keys:distrust",
     .handle = engine_distrust_handle,
     .roles = ROLE_ADMIN,
     .parameters = "tenant_id",
     .members = "journal node public_key reason",
     .body = HTTP_BODY_JSON},
    {.method = HTTP_POST,
     .pattern = "/api/v1/audit/engine-keys",
     .handle = engine_trust_handle,
     .roles = ROLE_ADMIN,
     .parameters = "tenant_id",
     .members = "journal node public_key",
     .body = HTTP_BODY_JSON},
    {.method = HTTP_POST,
     .pattern = "/api/v1/audit/streams:forget",
     .handle = stream_forget_handle,
     .roles = ROLE_ADMIN,
     .parameters = "tenant_id",
     .members = "force journal node reason",
     .body = HTTP_BODY_JSON},
    {.method = HTTP_POST,
     .pattern = "/api/v1/session",
     .handle = session_start_handle,
     .parameters = "",
     .members = "key person",
     .body = HTTP_BODY_JSON},
    {.method = HTTP_GET,
     .pattern = "/api/v1/session",
     .handle = session_get_handle,
     .parameters = ""},
    {.method = HTTP_DELETE,
     .pattern = "/api/v1/session",
     .handle = session_end_handle,
     .parameters = ""},
    PUBLIC("/api/v1/session/providers", provider_list_handle),
    {.method = HTTP_POST,
     .pattern = "/api/v1/session/oidc/{name}",
     .handle = sign_in_start_handle,
     .parameters = ""},
    /* whatever else the provider sends is ignored (RFC 6749, 4.1.2) */
    {.method = HTTP_GET,
     .pattern = "/api/v1/session/oidc/{name}/callback",
     .handle = sign_in_answer_handle},
    {.method = HTTP_DELETE,
     .pattern = "/api/v1/sessions",
     .handle = session_end_person_handle,
     .roles = ROLE_ADMIN,
     .parameters = "person tenant_id"},
    {.method = HTTP_GET,
     .pattern = "/api/v1/sessions",
     .handle = session_list_handle,
     .parameters = ""},
    {.method = HTTP_DELETE,
     .pattern = "/api/v1/sessions/{id}",
     .handle = session_end_one_handle,
     .parameters = ""},
    {.method = HTTP_GET,
     .pattern = "/api/v1/engines",
     .handle = engine_list_handle,
     .rates = RATES_OF_READS,
     .roles = ROLE_ADMIN,
     .parameters = "tenant_id limit cursor"},
    {.method = HTTP_GET,
     .pattern = "/api/v1/suspensions",
     .handle = suspension_list_handle,
     .roles = ROLE_INGEST | AUDIT_ROLES,
     .parameters = "tenant_id open limit cursor"},
    {.method = HTTP_GET,
     .pattern = "/api/v1/bundle",
     .handle = bundle_handle,
     .roles = ROLE_INGEST,
     .parameters = "wait tenant_id"},
};

static const struct http_route config_check_route =
    PUBLIC("/api/config-check", config_check_handle);

bool session_enter(struct platform *p, struct http_exchange *x, uint32_t roles)
{
    struct fault f;
    enum session_step step = session_admit(p, x, roles, &f);
    if (step == SESSION_REFUSED) platform_refuse(p, x, &f);
    return step == SESSION_FOUND;
}

/* The same for a provider's token. */
static bool bearer_enter(struct platform *p, struct http_exchange *x, uint32_t roles)
{
    struct fault f;
    enum provider_step step = bearer_admit(p, x, roles, &f);
    if (step == PROVIDER_REFUSED) platform_refuse(p, x, &f);
    return step == PROVIDER_FOUND;
}

/* As a call of the session or of the provider's person, with an assertion in place of the credential. */
static void forward_assertion(struct platform *p, struct http_exchange *x)
{
    char text[ASSERTION_TEXT_MAX];
    struct buf credential = buf_over(text, sizeof text);
    struct fault f;
    uint64_t who;
    const struct sha256 hash =
        p->session != NULL ? p->session->hash : sha256_once(p->identity->person);
    memcpy(&who, hash.bytes, sizeof who);
    buf_put_literal(&credential, "Bearer ");
    if (p->session != NULL ? session_assert(p, x, &credential) : bearer_assert(p, x, &credential))
        forward_exchange_as(p->forward, x, buf_view(&credential), who);
    else
        platform_refuse(p, x, api_no_memory(&f));
    memory_wipe(text, sizeof text);
}

static void root_handle(void *context, struct http_exchange *x)
{
    console_root(((struct platform *)context)->console, x);
}

static void console_redirect_handle(void *context, struct http_exchange *x)
{
    console_redirect(((struct platform *)context)->console, x);
}

static void console_index_handle(void *context, struct http_exchange *x)
{
    console_index(((struct platform *)context)->console, x);
}

static void console_file_handle(void *context, struct http_exchange *x)
{
    console_file(((struct platform *)context)->console, x);
}

static const struct http_route console_routes[] = {
    PUBLIC("/", root_handle),
    PUBLIC("/console", console_redirect_handle),
    PUBLIC("/console/", console_index_handle),
    PUBLIC("/console/{digest}/{file}", console_file_handle),
};

static void forward_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    if (browser_shows_cookie(x, p->config->public_url)) {
        if (session_enter(p, x, ~(uint32_t)0)) forward_assertion(p, x);
    } else if (bearer_shown(p, x)) {
        if (bearer_enter(p, x, ~(uint32_t)0)) forward_assertion(p, x);
    } else {
        forward_exchange(p->forward, x);
    }
}

#define FORWARD(verb, path, kind)                                                                  \
    {                                                                                              \
        .method = verb, .pattern = path, .body = kind, .handle = forward_handle                    \
    }
#define FORWARD_ALL(path)                                                                          \
    FORWARD(HTTP_GET, path, HTTP_BODY_NONE), FORWARD(HTTP_POST, path, HTTP_BODY_OPTIONAL_JSON),    \
        FORWARD(HTTP_PUT, path, HTTP_BODY_OPTIONAL_JSON),                                          \
        FORWARD(HTTP_DELETE, path, HTTP_BODY_NONE), FORWARD(HTTP_OTHER, path, HTTP_BODY_NONE)

/* All paths below the engine's roots. The engine knows its paths and methods, and answers 404 and
 * 405. */
static const struct http_route forwarded_routes[] = {
    FORWARD_ALL("/api/v1/authorize"),
    FORWARD(HTTP_POST, "/v1/tokens/introspect", HTTP_BODY_FORM_OR_JSON),
    FORWARD_ALL("/v1/{a}"),
    FORWARD_ALL("/v1/{a}/{b}"),
    FORWARD_ALL("/v1/{a}/{b}/{c}"),
    FORWARD_ALL("/access/{a}/{b}"),
    FORWARD_ALL("/.well-known/{a}"),
    FORWARD(HTTP_GET, "/api/config-check", HTTP_BODY_NONE),
};

void routes_make(struct platform *p)
{
    enum {
        OWN = sizeof own_routes / sizeof *own_routes,
        CONSOLE = sizeof console_routes / sizeof *console_routes,
        FORWARDED = sizeof forwarded_routes / sizeof *forwarded_routes
    };
    p->routes = calloc(OWN + CONSOLE + FORWARDED + 1, sizeof *p->routes);
    check(p->routes != NULL);
    memcpy(p->routes, own_routes, sizeof own_routes);
    p->route_count = OWN;
    if (p->console != NULL) {
        memcpy(p->routes + OWN, console_routes, sizeof console_routes);
        p->route_count += CONSOLE;
    }
    if (p->config->engine_url[0] != '\0') {
        memcpy(p->routes + p->route_count, forwarded_routes, sizeof forwarded_routes);
        p->route_count += FORWARDED;
    } else {
        p->routes[p->route_count++] = config_check_route;
    }
}

void platform_refuse(struct platform *p, struct http_exchange *x, const struct fault *f)
{
    api_refuse(&p->api, x, f, (struct str){0});
}

bool platform_failed(struct platform *p, struct http_exchange *x, enum err err,
                     const struct fault *f)
{
    if (err == ERR_OK) return false;
    struct fault fault = *f;
    fault.err = err;
    platform_refuse(p, x, &fault);
    return true;
}

/* Checks credential and role of the current exchange, and sets p->caller. False: it was refused. */
static bool admit(struct platform *p, struct http_exchange *x)
{
    struct fault f;
    p->caller = (struct caller){0};
    p->session = NULL;
    p->identity = NULL;
    if (x->route->roles == 0) return true;
    if (browser_shows_cookie(x, p->config->public_url)) return session_enter(p, x, x->route->roles);
    if (bearer_shown(p, x)) return bearer_enter(p, x, x->route->roles);
    return !platform_failed(
        p, x, api_identify(&p->api, x, x->route->roles, world_now_ms(), &p->caller, &f), &f);
}

/* A credential that this platform would have to verify: a key's, or a provider's token. Sessions are looked
 * up in the store, within the bounds of its queues. The engine verifies what is forwarded. */
static bool shows_stranger(struct platform *p, const struct http_exchange *x)
{
    if (x->route->roles == 0 || browser_shows_cookie(x, p->config->public_url)) return false;
    if (bearer_shown(p, x)) return !bearer_is_known(p, x);
    struct api_asker ignored;
    const enum api_sight sight = api_sight(&p->api, x, &ignored);
    return sight == API_STRANGER || (sight == API_CLAIMED && x->notes->count > 0);
}

/* A body that is still being sent need not be read if the caller may not send it. A session is looked
 * up only when the body is there, and so is the key of a provider's token. */
bool route_admit(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    uint64_t begun_ns;
    if (browser_shows_cookie(x, p->config->public_url) || bearer_shown(p, x)) return false;
    const bool is_stranger = shows_stranger(p, x);
    /* Without time for it, the credential is verified when the body is here. */
    if (is_stranger && !strangers_may_verify(&p->strangers, x, &begun_ns)) return false;
    const bool admits = admit(context, x);
    if (is_stranger) strangers_verified(&p->strangers, begun_ns);
    return admits && x->route->roles != 0;
}

void route_proceed(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct fault f;
    if (!admit(p, x)) return;
    if (p->api.meters != NULL && x->route->rates != 0 &&
        platform_failed(p, x, api_meter(&p->api, x, &p->caller, &f), &f))
        return;
    x->route->handle(context, x);
}

void route_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    if (shows_stranger(p, x))
        strangers_handle(&p->strangers, x);
    else
        route_proceed(p, x);
}

void route_refuse(void *context, struct http_exchange *x, const struct fault *f)
{
    platform_refuse(context, x, f);
}

enum err platform_check_node(const struct platform *p, struct str node, struct fault *f)
{
    if (globs_match(&p->caller.key->nodes, node)) return ERR_OK;
    return fault_set(f, ERR_WRONG_NODE, "", "this key may not act for node %.*s",
                     (int)(node.size > 64 ? 64 : node.size), node.bytes);
}

enum err platform_key_holds(const struct platform *p, struct id key)
{
    const struct key *k = key_table_get(p->keys, key);
    return k == NULL ? ERR_CREDENTIAL_REVOKED : key_in_force(k, world_expiry_ms(world_now_ms()));
}

bool platform_is_everywhere(const struct platform *p)
{
    return str_equal(p->caller.key->tenant, STR("*"));
}

enum err settle_tenant(struct platform *p, const struct json *body, struct fault *f)
{
    const struct json *asked = body == NULL ? NULL : json_get(body, STR("tenant_id"));
    /* A read may be about the keys of tenant `*`, which are stored under that name. */
    if (body == NULL && !str_is_absent(p->caller.tenant) && str_equal(p->caller.tenant, STR("*")))
        return ERR_OK;
    if (asked == NULL || asked->type == JSON_NULL)
        return api_settle_tenant(&p->caller, (struct str){0}, f);
    if (asked->type != JSON_STRING)
        return fault_set(f, ERR_WRONG_TYPE, "/tenant_id", "tenant_id: must be a string");
    return api_settle_tenant(&p->caller, asked->string, f);
}
