/* authorize.c - the three routes that ask for a decision. */
#include "engine/authorization.h"
#include "engine/sight.h"

static struct authorization *of(struct errand *e) { return (struct authorization *)(void *)e; }

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

static void refuse(struct errand *e, const struct fault *f) { authorization_refuse(of(e), f); }

static void known(struct errand *e)
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
    a->form = *(const enum ask_form *)x->route->extra;
    enum err err = admit(a, x, &f);
    if (err == ERR_OK) err = api_body(x, &a->body, &f);
    if (err == ERR_OK)
        sight(&a->errand, &a->caller, known, refuse);
    else
        authorization_refuse(a, &f);
}
