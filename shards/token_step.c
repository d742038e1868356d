/* token_step.c - what calls do to a token: mint, spend, give back, look, list, revoke. */
#include "base/check.h"
#include "base/planted.h"
#include "shards/inside.h"

/* The token as it is now, its texts in the call's arena. */
static enum err show(const struct token *k, struct arena *arena, struct token_facts *ret)
{
    token_facts_of(k, ret);
    struct str *texts[] = {&ret->tenant, &ret->actor, &ret->acting_for, &ret->scope,
                           &ret->audience};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (str_is_absent(*texts[i])) continue;
        *texts[i] = arena_copy(arena, *texts[i]);
        if (str_is_absent(*texts[i])) return ERR_OVERLOADED;
    }
    return ERR_OK;
}

/* ---- mint ---- */

static enum err mint_again(const struct token *k, struct call *c, struct effects *e)
{
    check(token_retry_of(k) != NULL);
    effects_reveal(e, k->block);
    if (!retry_has_body(&c->mint.retry, &token_retry_of(k)->body)) return ERR_IDEMPOTENCY_MISMATCH;
    enum err err = show(k, c->arena, &c->mint.facts);
    if (err != ERR_OK) return err;
    c->mint.replayed = true;
    return ERR_OK;
}

static enum err mint(struct shard *s, struct call *c, struct effects *e)
{
    const struct token *before =
        c->mint.retry.given ? token_find_retry(&s->tokens, &c->mint.retry.key) : NULL;
    if (before != NULL && before->signer >= c->mint.signer_least &&
        c->now_ms < before->issued_ms + TOKEN_RETRY_MS)
        return mint_again(before, c, e);
    const size_t most = DELTA_MOST_BYTES + c->spent.size + c->mint.facts.scope.size;
    struct buf out = effects_buf(e, most);
    buf_put(&out, c->spent);
    delta_put_minted(&out, &c->mint.facts, &c->mint.retry);
    struct str delta = effects_take(e, &out, most);
    if (delta.size == 0 || delta.size > LIMIT_DELTA_BYTES || c->records[0].size > LIMIT_EVENT_BYTES)
        return ERR_OUT_OF_RANGE;
    enum err err = token_ask(&s->tokens, &c->mint.facts, c->now_ms, &c->quota);
    if (err != ERR_OK) return err == ERR_FULL ? ERR_OVERLOADED : err;
    struct token *k;
    err = token_add(&s->tokens, &c->mint.facts, &c->mint.retry, &k);
    if (err != ERR_OK) return err == ERR_FULL ? ERR_OVERLOADED : err;
    check(slot_of_id(k->id) == c->slot);
    effects_record(e, c->records[0], delta);
    shard_note_token(s, k);
    return ERR_OK;
}

/* ---- uses: in memory, until the decision's record contains them ---- */

static void spend(struct shard *s, struct call *c)
{
    struct token *k = token_find(&s->tokens, c->token.id);
    c->token.use = TOKEN_DEAD;
    if (k == NULL || k->revoked_ms != 0 || c->now_ms >= k->expires_ms) return;
    c->token.use = TOKEN_NONE_LEFT;
    if (k->uses_max != 0 && k->uses >= k->uses_max) return;
    if (!planted("spend_after_answer")) k->uses++;
    check(k->uses_max == 0 || k->uses <= k->uses_max);
    c->token.use = TOKEN_SPENT;
}

static void unspend(struct shard *s, struct call *c)
{
    check(slot_of_id(c->token.id) == c->slot);
    struct token *k = token_find(&s->tokens, c->token.id);
    if (k != NULL && k->uses > 0) k->uses--;
}

/* ---- get, revoke ---- */

/* A token of the tenant that is the requester's own, or any if it may see all. A token past its
 * time does not exist, even if no tick has dropped it yet. */
static enum err find_visible(struct shard *s, const struct call *c, struct token **ret)
{
    struct token *k = token_find(&s->tokens, c->token.id);
    if (k == NULL || c->now_ms >= k->expires_ms || !str_equal(k->minter->tenant->name, c->tenant))
        return ERR_NOT_FOUND;
    struct id asking;
    bool own = id_read("key_", c->requester.key_id, &asking) && id_equal(asking, k->minter->key);
    if (!own && !c->requester.sees_all) return ERR_MISSING_ROLE;
    *ret = k;
    return ERR_OK;
}

static enum err look(struct shard *s, struct call *c, struct effects *e)
{
    struct token *k;
    enum err err = find_visible(s, c, &k);
    if (err != ERR_OK) return ERR_NOT_FOUND;
    effects_reveal(e, k->block);
    return show(k, c->arena, &c->token.facts);
}

static struct str revoked_event(const struct token *k, struct call *c, struct effects *e)
{
    char event_id[ID_TEXT], token_id[ID_TEXT];
    struct token_facts f;
    token_facts_of(k, &f);
    id_write("evt_", call_event_id(c), event_id);
    id_write("tok_", k->id, token_id);
    const struct event happened = {.event_id = str_of(event_id, ID_TEXT),
                                   .kind = STR("token.revoked"),
                                   .tenant_id = f.tenant,
                                   .timestamp = c->now_ms,
                                   .actor = f.actor,
                                   .acting_for = f.acting_for,
                                   .token_id = str_of(token_id, ID_TEXT),
                                   .key_id = c->requester.key_id,
                                   .resolved_by = c->requester.owner,
                                   .mode = STR("live"),
                                   .engine_version = STR(WRIT_VERSION)};
    struct buf out = effects_buf(e, EVENT_MOST_BYTES);
    event_put(&out, &happened);
    return effects_take(e, &out, EVENT_MOST_BYTES);
}

static enum err revoke(struct shard *s, struct call *c, struct effects *e)
{
    struct token *k;
    enum err err = find_visible(s, c, &k);
    if (err != ERR_OK) return err;
    if (k->revoked_ms == 0) {
        struct str event = revoked_event(k, c, e);
        struct buf out = effects_buf(e, DELTA_MOST_BYTES);
        delta_put_revoked(&out, k->id, c->now_ms);
        struct str delta = effects_take(e, &out, DELTA_MOST_BYTES);
        if (event.size == 0 || delta.size == 0) return ERR_OVERLOADED;
        k->revoked_ms = c->now_ms;
        check(k->revoked_ms > 0); /* 0 would be: not revoked */
        effects_record(e, event, delta);
        shard_note_token(s, k);
    }
    token_check(k);
    effects_reveal(e, k->block);
    /* Published again: a repeated call waits for the same. */
    effects_notice(e, &(struct effect_notice){.kind = NOTICE_TOKEN_REVOKED,
                                              .token = k->id,
                                              .expires_ms = k->expires_ms,
                                              .at_ms = k->revoked_ms});
    return show(k, c->arena, &c->token.facts);
}

/* ---- list ---- */

struct token_filter {
    struct id key; /* unless any_key */
    bool any_key;
    uint32_t actor, digest, digest_mask; /* the values that matching places have */
};

static struct token_filter filter_of(const struct call *c, struct id asking)
{
    struct token_filter f = {.key = asking,
                             .any_key = c->requester.sees_all,
                             .digest = token_digest(asking, c->list.acting_for)};
    if (!f.any_key) f.digest_mask |= TOKEN_DIGEST_OF_KEY;
    if (!str_is_empty(c->list.acting_for)) f.digest_mask |= TOKEN_DIGEST_OF_ACTING_FOR;
    if (!str_is_empty(c->list.actor)) f.actor = order_digest(c->list.actor);
    f.digest &= f.digest_mask;
    return f;
}

/* The place's digests rule out most tokens without looking at them. */
static bool may_match(const struct order_place *p, const struct token_filter *f)
{
    check((f->digest & ~f->digest_mask) == 0); /* otherwise it matches no place */
    return (f->actor == 0 || f->actor == p->actor) && (p->action & f->digest_mask) == f->digest;
}

static bool is_active(const struct token *k)
{
    return k->revoked_ms == 0 && (k->uses_max == 0 || k->uses < k->uses_max);
}

static bool matches(const struct token *k, const struct call *c, const struct token_filter *filter)
{
    struct token_facts f;
    if (c->now_ms >= k->expires_ms || (c->list.active_only && !is_active(k))) return false;
    if (!filter->any_key && !id_equal(filter->key, k->minter->key)) return false;
    check(str_equal(k->minter->tenant->name, c->tenant));
    token_facts_of(k, &f);
    if (!str_is_empty(c->list.actor) && !str_equal(f.actor, c->list.actor)) return false;
    return str_is_empty(c->list.acting_for) || str_equal(f.acting_for, c->list.acting_for);
}

/* Of one step: about a quarter of a millisecond. */
enum { STEP_PLACES = 16384, STEP_TOKENS = 1024 };

/* A step reads a part of a long list, and continues behind the ordinal that it has reached.
 *
 * `total` is that of the page: counting the good tokens of a million would mean to look at each. */
static enum err list(struct shard *s, struct call *c, struct effects *e)
{
    const struct token_tenant *tenant = map_get(&s->tokens.tenants, c->tenant);
    struct id asking = {0};
    unsigned places = 0, looked_at = 0;
    if (!c->list.is_begun) c->list.count = 0;
    c->list.total = c->list.count;
    if (!c->requester.sees_all && !id_read("key_", c->requester.key_id, &asking))
        return ERR_NOT_FOUND;
    if (!c->list.is_begun) {
        c->list.tokens = arena_array(c->arena, struct token_facts, (size_t)c->list.limit + 1);
        c->list.read_to = c->list.after;
    }
    c->list.is_begun = false;
    if (c->list.tokens == NULL) return ERR_OVERLOADED;
    if (tenant == NULL) return ERR_OK;
    effects_reveal(e, tenant->block);
    const struct token_filter filter = filter_of(c, asking);
    struct order_cursor cursor = order_after(&tenant->all, c->list.read_to);
    for (const struct order_place *p;
         c->list.count < c->list.limit && (p = order_next(&tenant->all, &cursor)) != NULL;) {
        const struct token *k = p->item;
        if (places++ >= STEP_PLACES || looked_at >= STEP_TOKENS) {
            c->list.is_begun = true;
            effects_pause(e);
            break;
        }
        c->list.read_to = p->ordinal;
        if (!may_match(p, &filter)) continue;
        looked_at++;
        if (!matches(k, c, &filter)) continue;
        enum err err = show(k, c->arena, &c->list.tokens[c->list.count]);
        if (err != ERR_OK) return err;
        c->list.count++;
    }
    c->list.total = c->list.count;
    check(c->list.count <= c->list.limit);
    return ERR_OK;
}

void token_step(struct shard *s, struct call *c, struct effects *e)
{
    switch (c->kind) {
    case CALL_MINT: c->err = mint(s, c, e); return;
    case CALL_SPEND: spend(s, c); return;
    case CALL_UNSPEND: unspend(s, c); return;
    case CALL_TOKEN_GET: c->err = look(s, c, e); return;
    case CALL_TOKEN_LIST: c->err = list(s, c, e); return;
    case CALL_REVOKE: c->err = revoke(s, c, e); return;
    default: check(false);
    }
}
