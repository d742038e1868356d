/* tokens.c - the tokens' routes except minting and introspection: revoke, list, the key set.
 *
 * An agent's key sees and revokes the tokens that it minted, an admin's all tokens of its
 * tenant. */
#include "engine/resources/tokens.h"
#include "engine/handlers.h"

#include "base/check.h"
#include "engine/runtime/member.h"
#include "engine/resources/page.h"

enum { PAGE_BYTES_MAX = 8 << 20 };

/* ---- what the routes share ---- */

enum step_result token_refuse(struct operation *e, enum err err)
{
    check(err != ERR_OK);
    if (err == ERR_NOT_FOUND)
        return caller_operation_refuse_with(e, err, "there is no such token here");
    if (err == ERR_MISSING_ROLE)
        return caller_operation_refuse_with(
            e, err,
            "this key did not mint the token; for other tokens of the tenant, use a key with the role "
            "admin");
    if (err == ERR_FULL || err == ERR_OVERLOADED)
        return caller_operation_refuse_with(e, ERR_OVERLOADED, OVERLOADED_TEXT);
    if (err_status(err) == 429) {
        struct fault f;
        (void)fault_quota(&f, err, &e->call.quota);
        return caller_operation_refuse(e, &f);
    }
    if (err == ERR_NO_SPACE) return caller_operation_refuse_with(e, ERR_JOURNAL_FULL, NULL);
    bool is_shown = err == ERR_IDEMPOTENCY_MISMATCH || err_status(err) == 503;
    return caller_operation_refuse_with(e, is_shown ? err : ERR_INTERNAL, NULL);
}

bool token_is_active(struct engine_reactor *w, const struct token_facts *t, uint64_t now_ms)
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
    return api_token_alive(engine_reactor_api(w), &c, now_ms, &key, &f) == ERR_OK;
}

enum err token_gathered(const struct operation *e)
{
    check(e->gathered_count > 0);
    for (unsigned k = 0; k < e->gathered_count; k++)
        if (e->gathered[k]->err != ERR_OK) return e->gathered[k]->err;
    return ERR_OK;
}

enum step_result token_ask_who_is_suspended(struct operation *e)
{
    memset(&e->call.list, 0, sizeof e->call.list); /* an empty page */
    return operation_gather(e, CALL_ACTOR_LIST);
}

/* ---- revoke ---- */

static enum step_result revoke(struct operation *e)
{
    return operation_call(e, CALL_REVOKE, slot_of_id(e->call.token.id));
}

static enum step_result revoked(struct operation *e)
{
    const struct call *c = &e->call;
    check(c->kind == CALL_REVOKE);
    char bytes[256];
    struct buf b = buf_over(bytes, sizeof bytes);
    if (c->err != ERR_OK) return token_refuse(e, c->err);
    check(c->token.facts.revoked_ms != 0);
    member_put_id(&b, STR("{\"success\":true,\"token_id\":"), "tok_", c->token.facts.id);
    member_put_time(&b, STR(",\"revoked_at\":"), c->token.facts.revoked_ms);
    buf_put_byte(&b, '}');
    check(!b.overflow);
    return operation_reply(e, 200, buf_view(&b), (struct str){0});
}

static const struct step revoke_steps[] = {{"revoke", revoke, revoked}};
static const struct process revoke_process = PROCESS(revoke_steps);

void token_revoke_handle(void *context, struct http_exchange *x)
{
    struct json *body;
    struct operation *e = caller_operation_begin(context, x, sizeof *e, ROLE_ADMIN, &body);
    if (e == NULL) return;
    if (id_read("tok_", x->params[0], &e->call.token.id))
        operation_start(e, &revoke_process, 0);
    else
        token_refuse(e, ERR_NOT_FOUND);
}

/* ---- list ---- */

struct page {
    struct operation operation; /* first */
    uint64_t limit;
    bool active_only;
};

static uint64_t ordinal_of(const struct call *c, uint32_t i) { return c->list.tokens[i].ordinal; }

static enum err put_token(struct buf *b, struct operation *e, const struct call *c, uint32_t i)
{
    check(i < c->list.count);
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

static enum step_result list(struct operation *e) { return operation_gather(e, CALL_TOKEN_LIST); }

enum { LIST_ALL_KNOW = 2 }; /* its place in list_steps */

/* Checked once: the page does not show what is revoked while it waits. */
static enum step_result listed(struct operation *e)
{
    const uint64_t now_ms = world_now_ms();
    bool is_any_suspended = false;
    enum err err = token_gathered(e);
    if (err != ERR_OK) return token_refuse(e, err);
    for (unsigned k = 0; k < e->gathered_count; k++) {
        const struct call *c = e->gathered[k];
        for (uint32_t i = 0; i < c->list.count; i++) {
            struct token_facts *t = &c->list.tokens[i];
            t->is_active = token_is_active(e->engine_reactor, t, now_ms);
            is_any_suspended |= operation_actor_is_suspended(e, t->tenant, t->actor);
        }
    }
    if (!is_any_suspended) return operation_go(e, LIST_ALL_KNOW);
    operation_set_aside(e);
    return STEP_NEXT;
}

static enum step_result asked_who_is_suspended(struct operation *e)
{
    enum err err = token_gathered(e);
    if (err != ERR_OK) return token_refuse(e, err);
    operation_take_up(e);
    return STEP_NEXT;
}

static enum step_result show_page(struct operation *e)
{
    static const struct page_form form = {.begin = STR("{\"tokens\":["),
                                          .bytes_max = PAGE_BYTES_MAX,
                                          .is_growing = true,
                                          .ordinal = ordinal_of,
                                          .is_wanted = is_wanted,
                                          .put = put_token};
    const struct page *p = (const struct page *)(void *)e;
    enum err err = page_reply(e, &form, p->limit);
    return err == ERR_OK ? STEP_DONE : token_refuse(e, err);
}

static const struct step list_steps[] = {
    {"list", list, listed},
    {"ask which actors are suspended", token_ask_who_is_suspended, asked_who_is_suspended},
    [LIST_ALL_KNOW] = {"wait until all know", operation_when_all_know, show_page}};
static const struct process list_process = PROCESS(list_steps);

void token_list_handle(void *context, struct http_exchange *x)
{
    struct json *body;
    struct fault f;
    struct page *p = caller_operation_begin(context, x, sizeof *p, ROLE_ADMIN, &body);
    if (p == NULL) return;
    struct operation *e = &p->operation;
    struct call *c = &e->call;
    enum err err = api_page(x, &p->limit, &c->list.after, &f);
    if (err == ERR_OK) err = api_flag(x, STR("active"), &p->active_only, &f);
    if (err == ERR_OK) err = caller_operation_filter(x, "actor", &c->list.actor, &f);
    if (err == ERR_OK) err = caller_operation_filter(x, "acting_for", &c->list.acting_for, &f);
    if (err != ERR_OK) {
        caller_operation_refuse(&p->operation, &f);
        return;
    }
    c->list.active_only = p->active_only;
    c->list.limit = (uint32_t)p->limit + 1;
    operation_start(e, &list_process, 0);
}

/* ---- the key set ---- */

void jwks_handle(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    char bytes[16 << 10];
    struct buf b = buf_over(bytes, sizeof bytes);
    signers_put_jwks(&b, engine_reactor_api(w)->signers);
    check(!b.overflow);
    struct http_reply reply = {.status = 200, .body = buf_view(&b), .header_count = 1};
    /* Half of the time for which a key is published before it signs. */
    reply.headers[0] =
        (struct http_header){.name = STR("Cache-Control"), .value = STR("public, max-age=300")};
    api_send(engine_reactor_api(w), x, &reply, (struct str){0});
}
