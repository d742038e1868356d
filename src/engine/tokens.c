/* tokens.c - the tokens' routes but minting and introspection: revoke, list, the key set.
 *
 * An agent's key sees and revokes what it minted itself, an admin's all of its tenant. */
#include "engine/tokens.h"

#include "base/check.h"
#include "base/limits.h"
#include "base/time.h"
#include "engine/queue.h"

enum { PAGE_BYTES_MAX = 8 << 20 };

/* ---- what the routes share ---- */

struct token_trip *token_trip_begin(struct worker *w, struct http_exchange *x, size_t size, struct json **ret_body)
{
    struct token_trip *t = (struct token_trip *)(void *)errand_begin(w, x, size);
    struct json *body = NULL;
    struct str tenant = {0};
    struct fault f;
    if (t == NULL) {
        fault_set(&f, ERR_BODY_TOO_LARGE, "", "the request needs more memory than one request may use");
        api_refuse(&w->api, x, &f, (struct str){0});
        return NULL;
    }
    enum err err = api_admit(&w->api, x, x->route->roles, world_now_ms(), &t->caller, &f);
    if (err == ERR_OK && x->route->body == HTTP_BODY_JSON) err = api_body(x, &body, &f);
    if (err == ERR_OK && body != NULL) err = token_text_member(body, "tenant_id", &tenant, &f);
    if (err == ERR_OK) err = api_settle_tenant(&t->caller, tenant, &f);
    if (err != ERR_OK) {
        token_trip_refuse(t, &f);
        return NULL;
    }
    struct call *c = &t->errand.call;
    c->tenant = t->caller.tenant;
    c->asker = queue_asker(&t->caller);
    c->asker.sees_all = (t->caller.key->roles & ROLE_ADMIN) != 0;
    *ret_body = body;
    return t;
}

void token_trip_refuse(struct token_trip *t, const struct fault *f) { errand_refuse(&t->errand, f, (struct str){0}); }

void token_trip_fail(struct token_trip *t, enum err err)
{
    struct fault f;
    if (err == ERR_NOT_FOUND)
        fault_set(&f, err, "", "there is no such token here");
    else if (err == ERR_MISSING_ROLE)
        fault_set(&f, err, "", "this key did not mint that token; for any of the tenant it takes a key with the role admin");
    else if (err == ERR_FULL || err == ERR_OVERLOADED)
        fault_set(&f, ERR_OVERLOADED, "", "as much waits or is kept as may; try again later");
    else if (err == ERR_NO_SPACE)
        fault_plain(&f, ERR_JOURNAL_FULL);
    else
        fault_plain(&f, err == ERR_IDEMPOTENCY_MISMATCH || err_status(err) == 503 ? err : ERR_INTERNAL);
    token_trip_refuse(t, &f);
}

enum err token_member_fault(struct fault *f, enum err err, const char *name, const char *what)
{
    char field[64];
    struct buf b = buf_over(field, sizeof field - 1);
    buf_put_byte(&b, '/');
    buf_put(&b, str_from(name));
    field[b.size] = '\0';
    return fault_set(f, err, field, "%s: %s", name, what);
}

enum err token_text_member(const struct json *body, const char *name, struct str *ret, struct fault *f)
{
    const struct json *v = json_get(body, str_from(name));
    *ret = (struct str){0};
    if (v == NULL || v->type == JSON_NULL) return ERR_OK;
    if (v->type != JSON_STRING) return token_member_fault(f, ERR_WRONG_TYPE, name, "must be a string");
    if (v->has_nul) return token_member_fault(f, ERR_BAD_VALUE, name, "must not hold U+0000");
    if (v->string.size > LIMIT_ID_CHARACTERS && str_code_points(v->string) > LIMIT_ID_CHARACTERS)
        return token_member_fault(f, ERR_OUT_OF_RANGE, name, "is longer than 256 characters");
    if (v->string.size > 0) *ret = v->string;
    return ERR_OK;
}

bool token_is_active(const struct worker *w, const struct token_facts *t, uint64_t now_ms)
{
    struct token_claims c = {.id = t->id, .key = t->key, .tenant = t->tenant, .actor = t->actor};
    const struct key *key;
    struct fault f;
    if (t->revoked_ms != 0 || now_ms >= t->expires_ms) return false;
    if (t->uses_max != 0 && t->uses >= t->uses_max) return false;
    return api_token_alive(&w->api, &c, now_ms, &key, &f) == ERR_OK;
}

static void put_text(struct buf *b, struct str before, struct str text)
{
    if (text.size == 0) return;
    buf_put(b, before);
    json_put_string(b, text);
}

static void put_time(struct buf *b, struct str before, uint64_t ms)
{
    char text[TIME_TEXT];
    if (ms == 0) return;
    time_write(ms, text);
    buf_put(b, before);
    json_put_plain(b, str_of(text, TIME_TEXT));
}

static void put_id(struct buf *b, struct str before, const char prefix[4], struct id id)
{
    char text[ID_TEXT];
    id_write(prefix, id, text);
    buf_put(b, before);
    json_put_plain(b, str_of(text, ID_TEXT));
}

/* ---- revoke ---- */

static void revoked(struct errand *e)
{
    const struct call *c = &e->call;
    char bytes[256];
    struct buf b = buf_over(bytes, sizeof bytes);
    if (c->err != ERR_OK) {
        token_trip_fail((struct token_trip *)(void *)e, c->err);
        return;
    }
    put_id(&b, STR("{\"success\":true,\"token_id\":"), "tok_", c->token.facts.id);
    put_time(&b, STR(",\"revoked_at\":"), c->token.facts.revoked_ms);
    buf_put_byte(&b, '}');
    errand_reply(e, 200, buf_view(&b), (struct str){0});
}

void token_revoke_handle(void *context, struct http_exchange *x)
{
    struct json *body;
    struct id id;
    struct token_trip *t = token_trip_begin(context, x, sizeof *t, &body);
    if (t == NULL) return;
    if (!id_read("tok_", x->params[0], &id)) {
        token_trip_fail(t, ERR_NOT_FOUND);
        return;
    }
    t->errand.call.token.id = id;
    t->errand.call.token.any_of_tenant = t->errand.call.asker.sees_all;
    errand_visit(&t->errand, CALL_REVOKE, slot_of_id(id), revoked);
}

/* ---- list ---- */

struct page {
    struct token_trip trip;      /* first */
    uint64_t limit;
    bool active_only;
};

static void put_token(struct buf *b, const struct worker *w, const struct token_facts *t, uint64_t now_ms)
{
    put_id(b, STR("{\"token_id\":"), "tok_", t->id);
    put_id(b, STR(",\"key_id\":"), "key_", t->key);
    put_text(b, STR(",\"tenant_id\":"), t->tenant);
    put_text(b, STR(",\"actor\":"), t->actor);
    put_text(b, STR(",\"acting_for\":"), t->acting_for);
    put_text(b, STR(",\"scope\":"), t->scope);
    put_text(b, STR(",\"audience\":"), t->audience);
    put_time(b, STR(",\"issued_at\":"), t->issued_ms);
    put_time(b, STR(",\"expires_at\":"), t->expires_ms);
    put_time(b, STR(",\"revoked_at\":"), t->revoked_ms);
    if (t->uses_max != 0) {
        buf_put_literal(b, ",\"max_uses\":");
        buf_put_u64(b, t->uses_max);
        buf_put_literal(b, ",\"uses_left\":");
        buf_put_u64(b, t->uses < t->uses_max ? t->uses_max - t->uses : 0);
    }
    buf_put(b, token_is_active(w, t, now_ms) ? STR(",\"active\":true}") : STR(",\"active\":false}"));
}

/* The next of all shards' answers by ordinal; NULL: none is left. */
static const struct token_facts *next_of(struct errand *e, uint32_t *taken)
{
    const struct token_facts *first = NULL;
    unsigned from = 0;
    for (unsigned i = 0; i < e->gathered_count; i++) {
        const struct call *c = e->gathered[i];
        if (taken[i] == c->list.count) continue;
        const struct token_facts *t = &c->list.tokens[taken[i]];
        if (first != NULL && first->ordinal <= t->ordinal) continue;
        first = t;
        from = i;
    }
    if (first != NULL) taken[from]++;
    return first;
}

/* Tokens that died with their key or their actor are known to be dead here alone: they are left out of
 * a page of active ones, which may so be shorter than its limit. */
static enum err put_page(struct buf *b, struct page *p)
{
    struct errand *e = &p->trip.errand;
    uint32_t *taken = arena_array(e->arena, uint32_t, e->gathered_count + 1);
    uint64_t count = 0, looked_at = 0, last = 0, now_ms = world_now_ms();
    if (taken == NULL) return ERR_BODY_TOO_LARGE;
    for (unsigned i = 0; i < e->gathered_count; i++)
        if (e->gathered[i]->err != ERR_OK) return e->gathered[i]->err;
    buf_put_literal(b, "{\"tokens\":[");
    const struct token_facts *t = NULL;
    for (; looked_at < p->limit && (t = next_of(e, taken)) != NULL; looked_at++) {
        last = t->ordinal;
        if (p->active_only && !token_is_active(e->worker, t, now_ms)) continue;
        if (count++ > 0) buf_put_byte(b, ',');
        put_token(b, e->worker, t, now_ms);
    }
    bool more = looked_at == p->limit && next_of(e, taken) != NULL;
    buf_put_literal(b, "],\"count\":");
    buf_put_u64(b, count);
    buf_put_literal(b, ",\"limit\":");
    buf_put_u64(b, p->limit);
    buf_put_literal(b, ",\"next_cursor\":");
    buf_put_u64(b, more ? last : 0);
    buf_put_byte(b, '}');
    return b->overflow ? ERR_INTERNAL : ERR_OK;
}

static void listed(struct errand *e)
{
    struct page *p = (struct page *)(void *)e;
    struct buf b;
    buf_init(&b, 4096, PAGE_BYTES_MAX);
    enum err err = put_page(&b, p);
    if (err == ERR_OK) errand_reply(e, 200, buf_view(&b), (struct str){0});
    else token_trip_fail(&p->trip, err);
    buf_fini(&b);
}

/* A filter; "" is none. */
static enum err name_parameter(const struct http_exchange *x, struct arena *arena, const char *name, struct str *ret,
                               struct fault *f)
{
    struct str text;
    *ret = (struct str){0};
    enum err err = http_parameter(x, str_from(name), &text, f);
    if (err != ERR_OK || str_is_empty(text)) return err;
    if (str_code_points(text) > LIMIT_ID_CHARACTERS)
        return fault_set(f, ERR_BAD_PARAMETER, "", "%s: is longer than %d characters", name, LIMIT_ID_CHARACTERS);
    *ret = arena_copy(arena, text);
    return str_is_absent(*ret) ? fault_plain(f, ERR_BODY_TOO_LARGE) : ERR_OK;
}

void token_list_handle(void *context, struct http_exchange *x)
{
    struct json *body;
    struct fault f;
    struct page *p = (struct page *)(void *)token_trip_begin(context, x, sizeof *p, &body);
    if (p == NULL) return;
    struct errand *e = &p->trip.errand;
    struct call *c = &e->call;
    enum err err = api_page(x, &p->limit, &c->list.after, &f);
    if (err == ERR_OK) err = api_flag(x, STR("active"), &p->active_only, &f);
    if (err == ERR_OK) err = name_parameter(x, e->arena, "actor", &c->list.actor, &f);
    if (err == ERR_OK) err = name_parameter(x, e->arena, "acting_for", &c->list.acting_for, &f);
    if (err != ERR_OK) {
        token_trip_refuse(&p->trip, &f);
        return;
    }
    c->list.active_only = p->active_only;
    c->list.limit = (uint32_t)p->limit + 1;
    errand_gather(e, CALL_TOKEN_LIST, listed);
}

/* ---- the key set ---- */

void jwks_handle(void *context, struct http_exchange *x)
{
    struct worker *w = context;
    char bytes[16 << 10];
    struct buf b = buf_over(bytes, sizeof bytes);
    signers_put_jwks(&b, w->api.signers);
    check(!b.overflow);
    struct http_reply reply = {.status = 200, .body = buf_view(&b), .header_count = 1};
    /* Half of the time by which a pair is told before it signs. */
    reply.headers[0] = (struct http_header){.name = STR("Cache-Control"), .value = STR("public, max-age=300")};
    api_count_reply(&w->api, reply.status);
    http_reply(x, &reply);
}
