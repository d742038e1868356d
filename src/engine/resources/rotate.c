/* rotate.c - POST /v1/signer/rotate: another key signs tokens from now on.
 *
 * Without `now`, the present key signs for ten more minutes, while verifiers fetch the new one, and
 * it verifies for as long as any of its tokens may live. With `now`, all tokens of the older keys
 * are dead on every reactor when this is answered. Signing keys belong to all tenants, so it takes
 * a key of every tenant. */
#include "base/check.h"
#include "engine/runtime/member.h"
#include "engine/handlers.h"
#include "engine/runtime/signing.h"
#include "engine/resources/tokens.h"

static enum step_result rotate(struct operation *e)
{
    return operation_call(e, CALL_ROTATE, SIGNER_SLOT);
}

static enum step_result rotated(struct operation *e)
{
    const struct signer_rotation *r = &e->call.rotate.made;
    check(e->call.kind == CALL_ROTATE);
    char bytes[512];
    struct buf b = buf_over(bytes, sizeof bytes);
    if (e->call.err == ERR_OVERLOADED)
        return caller_operation_refuse_with(
            e, ERR_OVERLOADED,
            "32 signing keys verify already, which is the limit. The oldest ends 25 hours after it "
            "was replaced; \"now\": true ends all of them");
    if (e->call.err != ERR_OK) return token_refuse(e, e->call.err);
    check(r->number != 0 && r->active_ms != 0);
    buf_put_literal(&b, "{\"success\":true,\"kid\":");
    json_put_plain(&b, signers_kid(engine_reactor_signers_now(e->engine_reactor), r->number));
    member_put_time(&b, STR(",\"signs_from\":"), r->active_ms);
    buf_put(&b,
            r->ends_older ? STR(",\"older_keys\":\"ended\"}") : STR(",\"older_keys\":\"verify\"}"));
    if (b.overflow) return token_refuse(e, ERR_INTERNAL);
    return operation_reply(e, 200, buf_view(&b), (struct str){0});
}

static const struct step rotate_steps[] = {{"rotate", rotate, rotated}};
static const struct process rotate_process = PROCESS(rotate_steps);

static enum err read_now(struct http_exchange *x, bool *ret, struct fault *f)
{
    struct json *body;
    *ret = false;
    if (x->body.size == 0) return ERR_OK;
    enum err err = api_body(x, &body, f);
    if (err != ERR_OK) return err;
    const struct json *v = json_get(body, STR("now"));
    if (v != NULL && v->type != JSON_NULL && !json_is_bool(v))
        return member_refuse(f, ERR_WRONG_TYPE, "now", "must be true or false");
    *ret = v != NULL && v->type == JSON_TRUE;
    return ERR_OK;
}

static enum err admit(struct engine_reactor *w, struct http_exchange *x, struct caller *ret,
                      struct fault *f)
{
    enum err err = api_admit(engine_reactor_api(w), x, x->route->roles, world_now_ms(), ret, f);
    if (err != ERR_OK || str_equal(ret->key->tenant, STR("*"))) return err;
    return fault_set(f, ERR_WRONG_TENANT, "",
                     "signing keys belong to all tenants: this needs a key whose tenant is *");
}

void signer_rotate_handle(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    struct operation *e = operation_begin(w, x, sizeof *e);
    struct fault f;
    if (e == NULL) return;
    struct call *c = &e->call;
    enum err err = admit(w, x, &e->caller, &f);
    if (err == ERR_OK) err = read_now(x, &c->rotate.at_once, &f);
    if (err != ERR_OK) {
        caller_operation_refuse(e, &f);
        return;
    }
    c->requester = caller_operation_requester(&e->caller);
    crypto_random(c->rotate.salt, sizeof c->rotate.salt);
    operation_start(e, &rotate_process, 0);
}
