/* token_scene.h - tokens in a scene: minted, looked at, spent and revoked. */
#ifndef TOKEN_SCENE_H
#define TOKEN_SCENE_H

#include "shard_scene.h"

static const struct str key_a = {.bytes = "key_01JD0000000000000000000000", .size = ID_TEXT};
static const struct str key_b = {.bytes = "key_01JD0000000000000000000001", .size = ID_TEXT};
static inline struct id key_id(struct str text)
{
    struct id id;
    assert_true(id_read("key_", text, &id));
    return id;
}

struct wish { /* what differs from the usual; zeros: as usual */
    struct str actor, acting_for, scope, audience, tenant, key;
    uint64_t ttl_ms;
    uint32_t uses_max;
    uint8_t retry_key, retry_body;
    struct id id;
};

static inline struct call *mint_call(struct scene *s, struct wish w)
{
    static const struct id none;
    struct call *c = scene_call(s, CALL_MINT, STR("fleet"));
    c->slot = SCENE_SLOT;
    c->tenant = scene_or(w.tenant, c->tenant);
    c->requester.key_id = scene_or(w.key, key_a);
    bool has_id = memcmp(w.id.bytes, none.bytes, sizeof none.bytes) != 0;
    c->mint.facts = (struct token_facts){
        .id = has_id ? w.id : slot_id(id_make(s->now_ms, &s->chance), SCENE_SLOT),
        .key = key_id(c->requester.key_id),
        .tenant = c->tenant,
        .actor = scene_or(w.actor, STR("invoice_bot")),
        .acting_for = w.acting_for,
        .scope = scene_or(w.scope, STR("get_* list_*")),
        .audience = w.audience,
        .signer = 3,
        .ordinal = ++s->ordinal,
        .issued_ms = s->now_ms,
        .expires_ms = s->now_ms + (w.ttl_ms > 0 ? w.ttl_ms : 60000),
        .uses_max = w.uses_max};
    c->mint.retry.given = w.retry_key != 0;
    memset(c->mint.retry.key.bytes, w.retry_key, REVIEW_DIGEST_BYTES);
    memset(c->mint.retry.body.bytes, w.retry_body, REVIEW_DIGEST_BYTES);
    const struct event e = {.tenant_id = c->tenant,
                            .timestamp = s->now_ms,
                            .actor = c->mint.facts.actor,
                            .mode = STR("live")};
    c->records[0] = scene_event_text(s, "token.minted", &e, c->arena);
    return c;
}

static inline struct token_facts mint(struct scene *s, struct wish w)
{
    struct call *c = mint_call(s, w);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_true(c->answered);
    assert_false(c->mint.replayed);
    return c->mint.facts;
}

static inline struct call *on_token(struct scene *s, enum call_kind kind, struct id id)
{
    struct call *c = scene_call(s, kind, STR("fleet"));
    c->slot = (uint16_t)slot_of_id(id);
    c->token.id = id;
    return c;
}

static inline struct call *do_token(struct scene *s, enum call_kind kind, struct id id)
{
    struct call *c = on_token(s, kind, id);
    scene_ask(s, c);
    return c;
}

static inline enum token_use spend(struct scene *s, struct id id)
{
    struct call *c = do_token(s, CALL_SPEND, id);
    assert_int_equal(c->err, ERR_OK);
    return c->token.use;
}

static inline enum err look(struct scene *s, struct id id, struct str key, struct str tenant,
                            bool any, struct token_facts *ret)
{
    struct call *c = on_token(s, CALL_TOKEN_GET, id);
    c->requester.key_id = key;
    c->tenant = tenant;
    c->requester.sees_all = any;
    scene_ask(s, c);
    *ret = c->token.facts;
    return c->err;
}

#endif
