/* tokens.c - the tokens' routes except minting and introspection: revoke, list, the key set.
 *
 * An agent's key sees and revokes the tokens that it minted, an admin's all tokens of its
 * tenant. */
#include "engine/tokens.h"

#include "base/check.h"
#include "engine/member.h"
#include "engine/page.h"

enum { PAGE_BYTES_MAX = 8 << 20 };

/* ---- what the routes share ---- */

void token_refuse(struct caller_operation *t, enum err err)
{
    if (err == ERR_NOT_FOUND)
        caller_operation_refuse_with(t, err, "there is no such token here");
    else if (err == ERR_MISSING_ROLE)
        caller_operation_refuse_with(
            t, err,
            "this key did not mint the token; for other tokens of the tenant, use a key with the role "
            "admin");
    else if (err == ERR_FULL || err == ERR_OVERLOADED)
        caller_operation_refuse_with(t, ERR_OVERLOADED, OVERLOADED_TEXT);
    else if (err == ERR_NO_SPACE)
        caller_operation_refuse_with(t, ERR_JOURNAL_FULL, NULL);
    else
        caller_operation_refuse_with(
            t, err == ERR_IDEMPOTENCY_MISMATCH || err_status(err) == 503 ? err : ERR_INTERNAL,
            NULL);
}

bool token_is_active(const struct engine_reactor *w, const struct token_facts *t, uint64_t now_ms)
{
    struct token_claims c = {.id = t->id,
                             .key = t->key,
                             .tenant = t->tenant,
                             .actor = t->actor,
                             .acting_for = t->acting_for,
                             .signer = t->signer};
    const struct key *key;
    struct fault f;
    if (t->revoked_ms != 0 || now_ms >= t->expires_ms) return false;
    if (t->uses_max != 0 && t->uses >= t->uses_max) return false;
    return api_token_alive(&w->api, &c, now_ms, &key, &f) == ERR_OK;
}

bool token_gathered(struct operation *e)
{
    for (unsigned k = 0; k < e->gathered_count; k++) {
        if (e->gathered[k]->err == ERR_OK) continue;
        token_refuse((struct caller_operation *)(void *)e, e->gathered[k]->err);
        return false;
    }
    return true;
}

void token_ask_who_is_suspended(struct operation *e, void (*then)(struct operation *e))
{
    memset(&e->call.list, 0, sizeof e->call.list); /* an empty page */
    operation_gather(e, CALL_ACTOR_LIST, then);
}

/* ---- revoke ---- */

static void revoked(struct operation *e)
{
    const struct call *c = &e->call;
    char bytes[256];
    struct buf b = buf_over(bytes, sizeof bytes);
    if (c->err != ERR_OK) {
        token_refuse((struct caller_operation *)(void *)e, c->err);
        return;
    }
    member_put_id(&b, STR("{\"success\":true,\"token_id\":"), "tok_", c->token.facts.id);
    member_put_time(&b, STR(",\"revoked_at\":"), c->token.facts.revoked_ms);
    buf_put_byte(&b, '}');
    operation_reply(e, 200, buf_view(&b), (struct str){0});
}

void token_revoke_handle(void *context, struct http_exchange *x)
{
    struct json *body;
    struct id id;
    struct caller_operation *t = caller_operation_begin(context, x, sizeof *t, ROLE_ADMIN, &body);
    if (t == NULL) return;
    if (!id_read("tok_", x->params[0], &id)) {
        token_refuse(t, ERR_NOT_FOUND);
        return;
    }
    t->operation.call.token.id = id;
    operation_call(&t->operation, CALL_REVOKE, slot_of_id(id), revoked);
}

/* ---- list ---- */

struct page {
    struct caller_operation caller_operation; /* first */
    uint64_t limit;
    bool active_only;
};

static uint64_t ordinal_of(const struct call *c, uint32_t i) { return c->list.tokens[i].ordinal; }

static enum err put_token(struct buf *b, struct operation *e, const struct call *c, uint32_t i)
{
    const struct token_facts *t = &c->list.tokens[i];
    (void)e;
    member_put_id(b, STR("{\"token_id\":"), "tok_", t->id);
    member_put_id(b, STR(",\"key_id\":"), "key_", t->key);
    member_put_text(b, STR(",\"tenant_id\":"), t->tenant);
    member_put_text(b, STR(",\"actor\":"), t->actor);
    member_put_text(b, STR(",\"acting_for\":"), t->acting_for);
    member_put_text(b, STR(",\"scope\":"), t->scope);
    member_put_text(b, STR(",\"audience\":"), t->audience);
    member_put_time(b, STR(",\"issued_at\":"), t->issued_ms);
    member_put_time(b, STR(",\"expires_at\":"), t->expires_ms);
    member_put_time(b, STR(",\"revoked_at\":"), t->revoked_ms);
    if (t->uses_max != 0) {
        buf_put_literal(b, ",\"max_uses\":");
        buf_put_u64(b, t->uses_max);
        buf_put_literal(b, ",\"uses_left\":");
        buf_put_u64(b, t->uses < t->uses_max ? t->uses_max - t->uses : 0);
    }
    buf_put(b, t->is_active ? STR(",\"active\":true}") : STR(",\"active\":false}"));
    return ERR_OK;
}

/* Only here is it known which tokens died with their key or their actor. They are left out of a
 * page of active tokens, which may be shorter than its limit for that reason. */
static bool is_wanted(struct operation *e, const struct call *c, uint32_t i)
{
    const struct page *p = (const struct page *)(void *)e;
    return !p->active_only || c->list.tokens[i].is_active;
}

static void tell_page(struct operation *e)
{
    static const struct page_form form = {.begin = STR("{\"tokens\":["),
                                          .bytes_max = PAGE_BYTES_MAX,
                                          .is_growing = true,
                                          .ordinal = ordinal_of,
                                          .is_wanted = is_wanted,
                                          .put = put_token};
    struct page *p = (struct page *)(void *)e;
    enum err err = page_reply(e, &form, p->limit);
    if (err != ERR_OK) token_refuse(&p->caller_operation, err);
}

static void asked_who_is_suspended(struct operation *e)
{
    if (!token_gathered(e)) return;
    operation_take_up(e);
    operation_when_all_know(e, tell_page);
}

/* Checked once: the page does not show what is revoked while it waits. */
static void listed(struct operation *e)
{
    const uint64_t now_ms = world_now_ms();
    bool is_any_suspended = false;
    if (!token_gathered(e)) return;
    for (unsigned k = 0; k < e->gathered_count; k++) {
        const struct call *c = e->gathered[k];
        for (uint32_t i = 0; i < c->list.count; i++) {
            struct token_facts *t = &c->list.tokens[i];
            t->is_active = token_is_active(e->engine_reactor, t, now_ms);
            is_any_suspended |=
                engine_reactor_actor_is_suspended(e->engine_reactor, t->tenant, t->actor);
        }
    }
    if (!is_any_suspended) {
        operation_when_all_know(e, tell_page);
        return;
    }
    operation_set_aside(e);
    token_ask_who_is_suspended(e, asked_who_is_suspended);
}

void token_list_handle(void *context, struct http_exchange *x)
{
    struct json *body;
    struct fault f;
    struct page *p =
        (struct page *)(void *)caller_operation_begin(context, x, sizeof *p, ROLE_ADMIN, &body);
    if (p == NULL) return;
    struct operation *e = &p->caller_operation.operation;
    struct call *c = &e->call;
    enum err err = api_page(x, &p->limit, &c->list.after, &f);
    if (err == ERR_OK) err = api_flag(x, STR("active"), &p->active_only, &f);
    if (err == ERR_OK) err = caller_operation_filter(x, "actor", &c->list.actor, &f);
    if (err == ERR_OK) err = caller_operation_filter(x, "acting_for", &c->list.acting_for, &f);
    if (err != ERR_OK) {
        caller_operation_refuse(&p->caller_operation, &f);
        return;
    }
    c->list.active_only = p->active_only;
    c->list.limit = (uint32_t)p->limit + 1;
    operation_gather(e, CALL_TOKEN_LIST, listed);
}

/* ---- the key set ---- */

void jwks_handle(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    char bytes[16 << 10];
    struct buf b = buf_over(bytes, sizeof bytes);
    signers_put_jwks(&b, w->api.signers);
    check(!b.overflow);
    struct http_reply reply = {.status = 200, .body = buf_view(&b), .header_count = 1};
    /* Half of the time for which a key is published before it signs. */
    reply.headers[0] =
        (struct http_header){.name = STR("Cache-Control"), .value = STR("public, max-age=300")};
    api_send(&w->api, x, &reply, (struct str){0});
}
