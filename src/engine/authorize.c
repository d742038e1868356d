/* authorize.c - the three routes that request a decision. */
#include "engine/authorization.h"
#include "engine/sight.h"

static struct authorization *of(struct operation *e) { return (struct authorization *)(void *)e; }

/* A dry run or an explanation shows how policies work. So it takes the roles that may read them,
 * which no agent has. An explanation is never a live decision. */
static enum err admit(struct authorization *a, struct http_exchange *x, struct fault *f)
{
    struct engine_reactor *w = a->operation.engine_reactor;
    enum err err = api_flag(x, STR("dry_run"), &a->tools.dry_run, f);
    if (err == ERR_OK) err = api_flag(x, STR("explain"), &a->tools.explain, f);
    if (err != ERR_OK) return err;
    a->tools.dry_run = a->tools.dry_run || a->tools.explain;
    uint32_t roles =
        a->tools.dry_run ? ROLE_POLICY_ADMIN | ROLE_AUDITOR | ROLE_ADMIN : x->route->roles;
    return api_admit(&w->api, x, roles, a->tools.now_ms, &a->caller, f);
}

static void refuse(struct operation *e, const struct fault *f) { authorization_refuse(of(e), f); }

static void known(struct operation *e)
{
    struct authorization *a = of(e);
    struct fault f;
    if (authorization_read(a, (struct str){0}, &f) == ERR_OK)
        authorization_start(a);
    else
        authorization_refuse(a, &f);
}

void authorize_handle(void *context, struct http_exchange *x)
{
    struct authorization *a = authorization_begin(context, x);
    if (a == NULL) return;
    struct fault f;
    a->form = *(const enum auth_request_form *)x->route->extra;
    enum err err = admit(a, x, &f);
    struct str retry = http_header_get(x, STR("idempotency-key"));
    if (!str_is_absent(retry)) a->retry_header = arena_copy(a->operation.arena, retry);
    if (err == ERR_OK) err = api_body(x, &a->body, &f);
    if (err == ERR_OK)
        sight(&a->operation, &a->caller, known, refuse);
    else
        authorization_refuse(a, &f);
}
