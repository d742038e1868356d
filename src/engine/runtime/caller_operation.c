#include "engine/runtime/caller_operation.h"

#include "base/check.h"
#include "base/limits.h"
#include "engine/engine.h"
#include "engine/runtime/member.h"

static enum err read_body(const struct http_exchange *x, struct json **ret, struct fault *f)
{
    enum http_body kind = x->route->body;
    if (kind != HTTP_BODY_JSON && (kind != HTTP_BODY_OPTIONAL_JSON || x->body.size == 0))
        return ERR_OK;
    return api_body(x, ret, f);
}

enum err caller_operation_tenant(const struct json *body, struct str *ret, struct fault *f)
{
    static const struct member_spelling spelling = {"tenantId", "tenant_id"};
    enum err err = member_spelling(body, &spelling, 1, f);
    return err == ERR_OK ? member_text(body, "tenant_id", LIMIT_ID_CHARACTERS, ret, f) : err;
}

enum err caller_operation_filter(const struct http_exchange *x, const char *name, struct str *ret,
                                 struct fault *f)
{
    enum err err = http_parameter(x, str_from(name), ret, f);
    if (err != ERR_OK) return err;
    if (str_code_points(*ret) > LIMIT_ID_CHARACTERS)
        return fault_set(f, ERR_BAD_PARAMETER, "", "%s: is longer than %d characters", name,
                         LIMIT_ID_CHARACTERS);
    return ERR_OK;
}

void *caller_operation_begin(struct engine_reactor *w, struct http_exchange *x, size_t size,
                             uint32_t sees_all, struct json **ret_body)
{
    struct operation *e = operation_begin(w, x, size);
    struct str tenant = {0};
    struct fault f;
    if (e == NULL) return NULL;
    *ret_body = NULL;
    enum err err = api_admit(&w->api, x, x->route->roles, world_now_ms(), &e->caller, &f);
    if (err == ERR_OK) err = read_body(x, ret_body, &f);
    if (err == ERR_OK) err = caller_operation_tenant(*ret_body, &tenant, &f);
    if (err == ERR_OK) err = api_settle_tenant(&e->caller, tenant, &f);
    if (err != ERR_OK) {
        caller_operation_refuse(e, &f);
        return NULL;
    }
    struct call *c = &e->call;
    c->tenant = e->caller.tenant;
    c->requester = caller_operation_requester(&e->caller);
    c->requester.sees_all = e->caller.token == NULL && (e->caller.key->roles & sees_all) != 0;
    check(!str_is_absent(c->tenant));
    operation_check(e);
    return e;
}

struct requester caller_operation_requester(const struct caller *c)
{
    const struct key *key = c->key;
    check(key != NULL);
    struct requester who = {
        .principal = key->name, .owner = key->owner, .key_id = key_shown_id(key)};
    if (c->token != NULL) {
        who.token_actor = c->token->actor;
        who.token_acting_for = c->token->acting_for;
        who.token = c->token->id;
        who.token_signer = c->token->signer;
    }
    return who;
}

enum step_result caller_operation_refuse(struct operation *e, const struct fault *f)
{
    check(f->err != ERR_OK);
    return operation_refuse(e, f, (struct str){0});
}

enum step_result caller_operation_refuse_with(struct operation *e, enum err err, const char *text)
{
    check(err != ERR_OK);
    struct fault f;
    if (text == NULL)
        (void)fault_plain(&f, err);
    else
        (void)fault_set(&f, err, "", "%s", text);
    return caller_operation_refuse(e, &f);
}
