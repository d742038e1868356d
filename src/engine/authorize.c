/* authorize.c - the three routes that ask for a decision. */
#include "engine/authorization.h"

/* A dry run or an explanation shows how policies work, so it takes the roles that may read them,
 * and nothing that an agent holds. An explanation is never a live decision. */
static enum err admit(struct authorization *a, struct http_exchange *x, struct fault *f)
{
    struct worker *w = a->errand.worker;
    enum err err = api_flag(x, STR("dry_run"), &a->tools.dry_run, f);
    if (err == ERR_OK) err = api_flag(x, STR("explain"), &a->tools.explain, f);
    if (err != ERR_OK) return err;
    a->tools.dry_run = a->tools.dry_run || a->tools.explain;
    uint32_t roles =
        a->tools.dry_run ? ROLE_POLICY_ADMIN | ROLE_AUDITOR | ROLE_ADMIN : x->route->roles;
    return api_admit(&w->api, x, roles, a->tools.now_ms, &a->caller, f);
}

void authorize_handle(void *context, struct http_exchange *x)
{
    struct authorization *a = authorization_begin(context, x);
    if (a == NULL) return;
    struct json *body;
    struct fault f;
    enum ask_form form = *(const enum ask_form *)x->route->extra;
    enum err err = admit(a, x, &f);
    if (err == ERR_OK) err = api_body(x, &body, &f);
    if (err == ERR_OK) err = authorization_read(a, form, body, (struct str){0}, &f);
    if (err == ERR_OK)
        authorization_start(a);
    else
        authorization_refuse(a, &f);
}
