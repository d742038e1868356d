#include "engine/runtime/sight.h"

#include "base/check.h"
#include "engine/engine.h"
#include "engine/runtime/caller_operation.h"

static bool same(struct str a, struct str b)
{
    return str_is_empty(a) ? str_is_empty(b) : str_equal(a, b);
}

bool sight_is_minted(const struct token_claims *c, const struct key *key,
                     const struct token_facts *t)
{
    return id_equal(c->id, t->id) && id_equal(c->key, t->key) && same(c->tenant, t->tenant) &&
           same(c->actor, t->actor) && same(c->acting_for, t->acting_for) &&
           same(c->scope, t->scope) && same(c->audience, t->audience) &&
           same(c->subject, key->name) && c->issued_at == t->issued_ms / 1000 &&
           c->not_before == c->issued_at && c->signer == t->signer &&
           c->expires_at == t->expires_ms / 1000 && c->counted == (t->uses_max > 0);
}

/* The request waited on another reactor: a revocation, a suspension or the end of its key may have
 * come meanwhile. */
static enum err confirm(const struct operation *e, struct fault *f)
{
    const struct caller *c = &e->caller;
    const struct call *call = &e->call;
    const struct key *key;
    check(c->token != NULL && call->kind == CALL_TOKEN_GET);
    uint64_t now_ms = world_now_ms();
    if (now_ms / 1000 >= c->token->expires_at)
        return fault_set(f, ERR_CREDENTIAL_EXPIRED, "", "the token has expired");
    if (call->err == ERR_NOT_FOUND ||
        (call->err == ERR_OK && !sight_is_minted(c->token, c->key, &call->token.facts)))
        return fault_plain(f, ERR_TOKEN_UNKNOWN);
    if (call->err == ERR_NO_LEADER || call->err == ERR_LEADER_CHANGED)
        return fault_plain(f, call->err);
    if (call->err != ERR_OK)
        return fault_set(f, ERR_OVERLOADED, "",
                         "too many requests are waiting for other reactors; try again later");
    if (call->token.facts.revoked_ms != 0)
        return fault_set(f, ERR_CREDENTIAL_REVOKED, "", "the token was revoked");
    return api_token_alive(&e->engine_reactor->api, c->token, now_ms, &key, f);
}

enum step_result sight_confirm(struct operation *e)
{
    struct caller *c = &e->caller;
    if (!sight_is_needed(e)) return STEP_NEXT;
    struct engine_reactor *w = e->engine_reactor;
    check(c->token != NULL);
    e->call.reads_copy = w->relaying.follows;
    if (w->relaying.follows && e->x != NULL) e->request = forward_request_copy(e->x, e->arena);
    e->call.tenant = c->token->tenant;
    /* the key that minted the token; the token is its own */
    e->call.requester = caller_operation_requester(c);
    e->call.token.id = c->token->id;
    return operation_call(e, CALL_TOKEN_GET, slot_of_id(c->token->id));
}

enum step_result sight_confirmed(struct operation *e)
{
    struct engine_reactor *w = e->engine_reactor;
    struct caller *c = &e->caller;
    struct fault f;
    enum err err = confirm(e, &f);
    const bool is_copys =
        e->call.reads_copy; /* and not the leader's word, which waits for the log */
    e->call.reads_copy = false;
    if (err == ERR_TOKEN_UNKNOWN && is_copys) {
        if (relaying_asks(&w->relaying, c->token->key, world_now_ms())) return operation_relay(e);
        (void)fault_set(&f, ERR_OVERLOADED, "", "%s", RELAYED_NOES_TEXT);
        return operation_fail(e, &f);
    }
    if (err != ERR_OK) {
        if (err_status(err) == 401)
            auth_failed_note_ended(w, c->key->id, c->token, &e->client, err);
        return operation_fail(e, &f);
    }
    token_cache_keep(w->api.tokens, w->api.signers, c->unseen, c->token);
    c->unseen = (struct str){0};
    check(!sight_is_needed(e));
    e->call = (struct call){.tenant = e->call.tenant, .requester = e->call.requester};
    return STEP_NEXT;
}
