/* introspect.c - the validity of a token, for servers that protect resources (RFC 7662).
 *
 * Active means: the engine would accept it now (or would with another audience). Every other token,
 * be it forged, expired, spent, revoked or another tenant's, is {"active":false} without details,
 * so that clients learn nothing by guessing tokens. */
#include "base/check.h"
#include "engine/runtime/member.h"
#include "engine/handlers.h"
#include "engine/runtime/sight.h"
#include "engine/resources/tokens.h"

enum { ANSWER_BYTES_MAX = 32 << 10 };

struct introspection {
    struct operation operation; /* first */
    struct token_claims claims; /* views into the arena */
};

static struct introspection *of(struct operation *e) { return (struct introspection *)(void *)e; }

static void put_number(struct buf *b, struct str before, uint64_t number)
{
    buf_put(b, before);
    buf_put_u64(b, number);
}

/* Their places in the table. */
enum { ASK_SUSPENDED = 1, ALL_KNOW };

static enum step_result look_up(struct operation *e)
{
    return operation_call(e, CALL_TOKEN_GET, slot_of_id(e->call.token.id));
}

static enum step_result looked_up(struct operation *e)
{
    const struct token_claims *c = &of(e)->claims;
    const struct token_facts *t = &e->call.token.facts;
    check(e->call.kind == CALL_TOKEN_GET && str_equal(c->tenant, e->call.tenant));
    if (e->call.err != ERR_OK && e->call.err != ERR_NOT_FOUND) return token_refuse(e, e->call.err);
    const struct key *key = key_table_get(engine_reactor_api(e->engine_reactor)->keys, c->key);
    bool is_minted = e->call.err == ERR_OK && key != NULL && sight_is_minted(c, key, t);
    if (!is_minted || !token_is_active(e->engine_reactor, t, world_now_ms()))
        return operation_go(e, operation_actor_is_suspended(e, c->tenant, c->actor) ? ASK_SUSPENDED
                                                                                    : ALL_KNOW);
    char *bytes = arena_bytes(e->arena, ANSWER_BYTES_MAX);
    struct buf b = buf_over(bytes, bytes == NULL ? 0 : ANSWER_BYTES_MAX);
    member_put_text(&b, STR("{\"active\":true,\"scope\":"), c->scope);
    member_put_id(&b, STR(",\"client_id\":"), "key_", c->key);
    member_put_text(&b, STR(",\"sub\":"), c->subject);
    member_put_text(&b, STR(",\"aud\":"), c->audience);
    member_put_text(&b, STR(",\"iss\":"), engine_reactor_api(e->engine_reactor)->token_issuer);
    put_number(&b, STR(",\"exp\":"), c->expires_at);
    put_number(&b, STR(",\"iat\":"), c->issued_at);
    put_number(&b, STR(",\"nbf\":"), c->not_before);
    member_put_id(&b, STR(",\"jti\":"), "tok_", c->id);
    buf_put_literal(&b, ",\"token_type\":\"Bearer\"");
    member_put_text(&b, STR(",\"tenant\":"), c->tenant);
    member_put_text(&b, STR(",\"actor\":"), c->actor);
    member_put_text(&b, STR(",\"acting_for\":"), c->acting_for);
    check(t->uses_max == 0 || t->uses < t->uses_max); /* it is active */
    if (t->uses_max != 0) put_number(&b, STR(",\"uses_left\":"), t->uses_max - t->uses);
    buf_put_byte(&b, '}');
    if (b.overflow) return token_refuse(e, ERR_INTERNAL);
    return operation_reply(e, 200, buf_view(&b), (struct str){0});
}

static enum step_result asked_who_is_suspended(struct operation *e)
{
    enum err err = token_gathered(e);
    return err == ERR_OK ? STEP_NEXT : token_refuse(e, err);
}

static enum step_result answer_inactive(struct operation *e)
{
    operation_check(e);
    return operation_reply(e, 200, STR("{\"active\":false}"), (struct str){0});
}

static const struct step introspect_steps[] = {
    {"look up", look_up, looked_up},
    [ASK_SUSPENDED] = {"ask which actors are suspended", token_ask_who_is_suspended,
                       asked_who_is_suspended},
    [ALL_KNOW] = {"wait until all know", operation_when_all_know, answer_inactive}};
static const struct process introspect_process = PROCESS(introspect_steps);

/* ---- the request ---- */

/* Compares the media type as the server does: up to a semicolon, in any case. */
static bool is_form(const struct http_exchange *x)
{
    struct str type = http_header_get(x, STR("content-type")),
               form = STR("application/x-www-form-urlencoded");
    return type.size >= form.size && str_equal_ignoring_case(str_of(type.bytes, form.size), form);
}

/* A form is read like a query: unknown fields (token_type_hint) are ignored. */
static enum err form_read(const struct http_exchange *x, struct str *ret_token,
                          struct str *ret_tenant, struct fault *f)
{
    struct http_exchange form = *x;
    form.query = x->body;
    enum err err = http_parameter(&form, STR("token"), ret_token, f);
    return err == ERR_OK ? http_parameter(&form, STR("tenant_id"), ret_tenant, f) : err;
}

static enum err body_read(const struct http_exchange *x, struct str *ret_token,
                          struct str *ret_tenant, struct fault *f)
{
    struct json *body;
    enum err err = api_body(x, &body, f);
    if (err == ERR_OK) err = caller_operation_tenant(body, ret_tenant, f);
    if (err != ERR_OK) return err;
    const struct json *v = json_get(body, STR("token"));
    if (v == NULL || v->type == JSON_NULL) return ERR_OK;
    if (v->type != JSON_STRING)
        return member_refuse(f, ERR_WRONG_TYPE, "token", "must be a string");
    *ret_token = v->string;
    return ERR_OK;
}

static enum err token_read(const struct http_exchange *x, struct caller *caller, struct str *ret,
                           struct fault *f)
{
    struct str tenant = {0};
    *ret = (struct str){0};
    enum err err = is_form(x) ? form_read(x, ret, &tenant, f) : body_read(x, ret, &tenant, f);
    if (err == ERR_OK && str_is_empty(*ret))
        err = member_refuse(f, ERR_MISSING_MEMBER, "token", "is required");
    return err == ERR_OK ? api_settle_tenant(caller, tenant, f) : err;
}

void token_introspect_handle(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    struct introspection *i = operation_begin(w, x, sizeof *i);
    struct fault f;
    struct str text;
    uint64_t now_ms = world_now_ms();
    if (i == NULL) return;
    struct operation *e = &i->operation;
    enum err err =
        api_admit(engine_reactor_api(w), x, x->route->roles, now_ms, &i->operation.caller, &f);
    if (err == ERR_OK) err = token_read(x, &i->operation.caller, &text, &f);
    if (err != ERR_OK) {
        caller_operation_refuse(&i->operation, &f);
        return;
    }
    const struct api *api = engine_reactor_api(w);
    if (token_verify(api->signers, api->token_issuer, text, now_ms, e->arena, &i->claims, &f) !=
            ERR_OK ||
        !str_equal(i->claims.tenant, i->operation.caller.tenant)) {
        (void)answer_inactive(e);
        return;
    }
    e->call.tenant = i->operation.caller.tenant;
    e->call.requester = caller_operation_requester(&i->operation.caller);
    e->call.requester.sees_all = true;
    e->call.token.id = i->claims.id;
    operation_start(e, &introspect_process, 0);
}
