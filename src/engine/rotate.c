/* rotate.c - POST /v1/signer/rotate: tokens are signed by another key from now on.
 *
 * Without `now`, the key that signs today goes on for ten minutes, while verifiers learn of the new
 * one, and verifies for as long as any of its tokens may live. With it, whatever the older keys have
 * signed is dead when this is answered, on every reactor. Signing keys are of all tenants, so it
 * takes a key of every tenant. */
#include "engine/member.h"
#include "engine/signing.h"
#include "engine/tokens.h"

static void rotated(struct errand *e)
{
    struct trip *t = (struct trip *)(void *)e;
    const struct signer_rotation *r = &e->call.rotate.made;
    char bytes[512];
    struct buf b = buf_over(bytes, sizeof bytes);
    if (e->call.err == ERR_OVERLOADED) {
        trip_refuse_with(
            t, ERR_OVERLOADED,
            "32 signing keys verify already, which is the limit. The oldest ends 25 hours after it "
            "was replaced; \"now\": true ends all of them");
        return;
    }
    if (e->call.err != ERR_OK) {
        token_refuse(t, e->call.err);
        return;
    }
    buf_put_literal(&b, "{\"success\":true,\"kid\":");
    json_put_plain(&b, signers_kid(signing_now(e->worker->engine->signing), r->number));
    member_put_time(&b, STR(",\"signs_from\":"), r->active_ms);
    buf_put(&b,
            r->ends_older ? STR(",\"older_keys\":\"ended\"}") : STR(",\"older_keys\":\"verify\"}"));
    if (b.overflow)
        token_refuse(t, ERR_INTERNAL);
    else
        errand_reply(e, 200, buf_view(&b), (struct str){0});
}

static enum err read_now(struct http_exchange *x, bool *ret, struct fault *f)
{
    struct json *body;
    *ret = false;
    if (x->body.size == 0) return ERR_OK;
    enum err err = api_body(x, &body, f);
    if (err != ERR_OK) return err;
    for (const struct json *v = body->child; v != NULL; v = v->next) {
        if (!str_equal(v->key, STR("now")))
            return fault_set(f, ERR_BAD_VALUE, "", "%.*s: is not known here; there is now",
                             STR_FORMAT(v->key));
        if (v->type != JSON_TRUE && v->type != JSON_FALSE && v->type != JSON_NULL)
            return member_refuse(f, ERR_WRONG_TYPE, "now", "must be true or false");
        *ret = v->type == JSON_TRUE;
    }
    return ERR_OK;
}

static enum err admit(struct worker *w, struct http_exchange *x, struct caller *ret,
                      struct fault *f)
{
    enum err err = api_admit(&w->api, x, x->route->roles, world_now_ms(), ret, f);
    if (err != ERR_OK || str_equal(ret->key->tenant, STR("*"))) return err;
    return fault_set(f, ERR_WRONG_TENANT, "",
                     "signing keys are of all tenants: this needs a key whose tenant is *");
}

void signer_rotate_handle(void *context, struct http_exchange *x)
{
    struct worker *w = context;
    struct trip *t = trip_begin_bare(w, x, sizeof *t);
    struct fault f;
    if (t == NULL) return;
    struct call *c = &t->errand.call;
    enum err err = admit(w, x, &t->caller, &f);
    if (err == ERR_OK) err = read_now(x, &c->rotate.at_once, &f);
    if (err != ERR_OK) {
        trip_refuse(t, &f);
        return;
    }
    c->asker = trip_asker(&t->caller);
    crypto_random(c->rotate.salt, sizeof c->rotate.salt);
    errand_visit(&t->errand, CALL_ROTATE, SIGNER_SLOT, rotated);
}
