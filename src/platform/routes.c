/* routes.c - every path that the platform answers, with who may ask, in one table.
 *
 * The engine's paths follow where `engine.url` is set: they are forwarded with the caller's own
 * credential, so that one address serves a client; who may call them is the engine's to say. */
#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "platform/platform.h"

#define POLICY_ROLES (ROLE_POLICY_ADMIN | ROLE_ADMIN)
#define AUDIT_ROLES (ROLE_AUDITOR | ROLE_ADMIN)
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
     .roles = POLICY_ROLES,
     .parameters = "tenant_id limit cursor"},
    {.method = HTTP_GET,
     .pattern = "/api/v1/policies/{name}",
     .handle = policy_get_handle,
     .roles = POLICY_ROLES,
     .parameters = "tenant_id"},
    {.method = HTTP_PUT,
     .pattern = "/api/v1/policies/{name}",
     .handle = policy_put_handle,
     .roles = POLICY_ROLES,
     .parameters = "tenant_id dry_run force",
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
     .body = HTTP_BODY_JSON,
     .body_max = LIMIT_POLICY_SET_BODY_BYTES},
    {.method = HTTP_GET,
     .pattern = "/api/v1/policies/{name}/versions",
     .handle = policy_versions_handle,
     .roles = POLICY_ROLES,
     .parameters = "tenant_id limit cursor"},
    {.method = HTTP_GET,
     .pattern = "/api/v1/policies/{name}/versions/{n}",
     .handle = policy_version_handle,
     .roles = POLICY_ROLES,
     .parameters = "tenant_id"},
    {.method = HTTP_POST,
     .pattern = "/api/v1/policies/{name}/rollback",
     .handle = policy_rollback_handle,
     .roles = POLICY_ROLES,
     .parameters = "tenant_id force",
     .body = HTTP_BODY_JSON},

    {.method = HTTP_GET,
     .pattern = "/api/v1/keys",
     .handle = key_list_handle,
     .roles = ROLE_ADMIN,
     .parameters = "tenant_id limit cursor"},
    {.method = HTTP_POST,
     .pattern = "/api/v1/keys",
     .handle = key_create_handle,
     .roles = ROLE_ADMIN,
     .parameters = "tenant_id",
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
     .body = HTTP_BODY_OPTIONAL_JSON},

    {.method = HTTP_GET,
     .pattern = "/api/v1/audit",
     .handle = audit_query_handle,
     .roles = AUDIT_ROLES,
     .parameters =
         "tenant_id actor action decision trace_id kind rule user_id from to limit cursor order exact"},
    {.method = HTTP_GET,
     .pattern = "/api/v1/audit/trace/{id}",
     .handle = audit_trace_handle,
     .roles = AUDIT_ROLES,
     .parameters = "tenant_id"},
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
     .parameters = "node tenant_id"},
    {.method = HTTP_POST,
     .pattern = "/api/v1/audit/gaps",
     .handle = gap_accept_handle,
     .roles = ROLE_ADMIN,
     .parameters = "tenant_id",
     .body = HTTP_BODY_JSON},
    {.method = HTTP_GET,
     .pattern = "/api/v1/bundle",
     .handle = bundle_handle,
     .roles = ROLE_INGEST,
     .parameters = "wait tenant_id"},
};

static const struct http_route config_check_route =
    PUBLIC("/api/config-check", config_check_handle);

static void forward_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    forward_exchange(p->forward, x);
}

#define FORWARD(verb, path, kind)                                                                  \
    {                                                                                              \
        .method = verb, .pattern = path, .body = kind, .handle = forward_handle                    \
    }
#define FORWARD_ALL(path)                                                                          \
    FORWARD(HTTP_GET, path, HTTP_BODY_NONE), FORWARD(HTTP_POST, path, HTTP_BODY_OPTIONAL_JSON),    \
        FORWARD(HTTP_PUT, path, HTTP_BODY_OPTIONAL_JSON),                                          \
        FORWARD(HTTP_DELETE, path, HTTP_BODY_NONE), FORWARD(HTTP_OTHER, path, HTTP_BODY_NONE)

/* Whatever is below the engine's roots; it knows its paths and methods, and answers 404 and 405. */
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
        FORWARDED = sizeof forwarded_routes / sizeof *forwarded_routes
    };
    p->routes = calloc(OWN + FORWARDED + 1, sizeof *p->routes);
    check(p->routes != NULL);
    memcpy(p->routes, own_routes, sizeof own_routes);
    p->route_count = OWN;
    if (p->config->engine_url[0] != '\0') {
        memcpy(p->routes + OWN, forwarded_routes, sizeof forwarded_routes);
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

/* Credential and role of the exchange in hand, into p->caller; false: it was refused. */
static bool admit(struct platform *p, struct http_exchange *x)
{
    struct fault f;
    p->caller = (struct caller){0};
    if (x->route->roles == 0) return true;
    return !platform_failed(
        p, x, api_admit(&p->api, x, x->route->roles, world_now_ms(), &p->caller, &f), &f);
}

/* A body that is still on its way need not be read for who may not send it. */
bool route_admit(void *context, struct http_exchange *x)
{
    return admit(context, x) && x->route->roles != 0;
}

void route_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    if (!admit(p, x)) return;
    x->route->handle(context, x);
}

void route_refuse(void *context, struct http_exchange *x, const struct fault *f)
{
    platform_refuse(context, x, f);
}

enum err platform_check_node(const struct platform *p, struct str node, struct fault *f)
{
    if (globs_match(&p->caller.key->nodes, node)) return ERR_OK;
    return fault_set(f, ERR_WRONG_NODE, "", "this key may not speak for node %.*s",
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
    /* What is read may be of the keys for every tenant, which are filed under that name. */
    if (body == NULL && !str_is_absent(p->caller.tenant) && str_equal(p->caller.tenant, STR("*")))
        return ERR_OK;
    if (asked == NULL || asked->type == JSON_NULL)
        return api_settle_tenant(&p->caller, (struct str){0}, f);
    if (asked->type != JSON_STRING)
        return fault_set(f, ERR_WRONG_TYPE, "/tenant_id", "tenant_id: must be a string");
    return api_settle_tenant(&p->caller, asked->string, f);
}

/* "overlap_seconds" → "overlapSeconds" */
static struct str camel_case(const char *name, char *to, size_t size)
{
    struct buf b = buf_over(to, size);
    for (; *name != '\0'; name++) {
        bool joins = *name == '_' && name[1] != '\0';
        if (joins) name++;
        buf_put_byte(&b, joins ? (char)(*name - 'a' + 'A') : *name);
    }
    return buf_view(&b);
}

enum err check_case(const struct json *body, const char *const *members, size_t count,
                    struct fault *f)
{
    for (size_t i = 0; i < count; i++) {
        char text[64], field[72];
        struct str camel = camel_case(members[i], text, sizeof text);
        if (str_equal(camel, str_from(members[i])) || json_get(body, camel) == NULL) continue;
        struct buf b = buf_over(field, sizeof field - 1);
        buf_put_byte(&b, '/');
        buf_put(&b, camel);
        field[b.size] = '\0';
        return fault_set(f, ERR_WRONG_CASE, field, "%.*s: is spelled %s here", STR_FORMAT(camel),
                         members[i]);
    }
    return ERR_OK;
}
