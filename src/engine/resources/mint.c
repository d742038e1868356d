/* mint.c - a new token: its limits, its text, its record.
 *
 *   read → sign → [its slot keeps it, and journals token.minted] → 201
 *
 * The text is made before the token is kept, so that a token which is too long is refused before
 * anything has changed. The text is sent only after the slot's record. Without an Idempotency-Key
 * the id is chosen for a slot of this reactor, so that minting never leaves it. With one, the key's
 * digest chooses the slot, so that a retry meets the first attempt on every reactor. A retry is
 * answered with the kept facts, signed again: Ed25519 gives the same text. If the signing key was
 * ended meanwhile, a retry mints a new token, since the first is dead. */
#include "base/check.h"
#include "base/limits.h"
#include "engine/handlers.h"
#include "engine/runtime/member.h"
#include "engine/decision/digest.h"
#include "engine/resources/tokens.h"

enum {
    TTL_DEFAULT_SECONDS = 60,
    USES_MOST = LIMIT_TOKEN_USES,
    /* claims are at most 3 KiB, including their escapes */
    EVENT_BYTES_MAX = 24 << 10,
    ANSWER_BYTES_MAX = 16 << 10,
};

struct mint {
    struct operation operation; /* first */
    struct token_facts facts;
    struct retry retry;
    struct str text; /* the token, signed */
    char event_id[ID_TEXT], token_id[ID_TEXT], key_id[ID_TEXT];
};

/* What holds for a token that is about to be made, or is made. */
static void mint_check(const struct mint *m)
{
    const struct token_facts *t = &m->facts;
    check(!str_is_absent(t->tenant) && !str_is_absent(t->actor) && t->scope.size > 0);
    check(t->issued_ms < t->expires_ms && t->revoked_ms == 0 && t->uses == 0);
    check(t->uses_max <= USES_MOST);
    check(m->text.size > 0 && m->text.size <= TOKEN_TEXT_MAX);
}

static struct mint *of(struct operation *e) { return (struct mint *)(void *)e; }

/* ---- members ---- */

/* A whole number from 1 to `most`; `otherwise` where it is missing or null. */
static enum err whole_member(const struct json *body, const char *name, uint64_t most,
                             uint64_t otherwise, uint64_t *ret, struct fault *f)
{
    const struct json *v = json_get(body, str_from(name));
    *ret = otherwise;
    if (v == NULL || v->type == JSON_NULL) return ERR_OK;
    char what[64];
    struct buf b = buf_over(what, sizeof what - 1);
    buf_put_literal(&b, "must be a whole number from 1 to ");
    buf_put_u64(&b, most);
    check(!b.overflow);
    what[b.size] = '\0';
    if (v->type != JSON_NUMBER) return member_refuse(f, ERR_WRONG_TYPE, name, what);
    if (!(v->number >= 1.0 && v->number <= (double)most) || v->number_kind != JSON_DOUBLE)
        return member_refuse(f, ERR_OUT_OF_RANGE, name, what);
    *ret = (uint64_t)v->number;
    return (double)*ret < v->number ? member_refuse(f, ERR_OUT_OF_RANGE, name, what) : ERR_OK;
}

/* Appends one glob of a scope. A blank in it would make two when the token is read. */
static enum err scope_add(struct buf *out, unsigned *count, struct str glob, struct fault *f)
{
    check(*count <= TOKEN_SCOPES_MAX);
    for (size_t i = 0; i < glob.size; i++)
        if ((unsigned char)glob.bytes[i] <= ' ' || glob.bytes[i] == 0x7f)
            return member_refuse(f, ERR_BAD_VALUE, "scope",
                                 "an entry must not hold blanks or control characters");
    if (glob.size == 0)
        return member_refuse(f, ERR_BAD_VALUE, "scope", "an entry must not be empty");
    if (str_code_points(glob) > LIMIT_ID_CHARACTERS)
        return member_refuse(f, ERR_OUT_OF_RANGE, "scope",
                             "has an entry longer than 256 characters");
    if (++*count > TOKEN_SCOPES_MAX)
        return member_refuse(f, ERR_OUT_OF_RANGE, "scope", "has more than 64 entries");
    if (out->size > 0) buf_put_byte(out, ' ');
    buf_put(out, glob);
    return ERR_OK;
}

static enum err scope_read(const struct json *v, struct buf *out, struct fault *f)
{
    unsigned count = 0;
    enum err err = ERR_OK;
    if (v->type == JSON_STRING) {
        struct str rest = v->string, part;
        while (err == ERR_OK && str_split(&rest, ' ', &part))
            if (part.size > 0) err = scope_add(out, &count, part, f);
    } else if (v->type == JSON_ARRAY) {
        for (const struct json *e = v->child; e != NULL && err == ERR_OK; e = e->next)
            err = e->type == JSON_STRING
                      ? scope_add(out, &count, e->string, f)
                      : member_refuse(f, ERR_WRONG_TYPE, "scope", "must hold strings only");
    } else {
        return member_refuse(f, ERR_WRONG_TYPE, "scope",
                             "must be a string of action globs, or an array of them");
    }
    if (err == ERR_OK && count == 0)
        return member_refuse(f, ERR_OUT_OF_RANGE, "scope", "must name at least one action");
    return err;
}

static enum err scope_member(struct mint *m, const struct json *body, struct fault *f)
{
    const struct json *v = json_get(body, STR("scope"));
    if (v == NULL || v->type == JSON_NULL || (v->type == JSON_STRING && v->string.size == 0))
        return member_refuse(f, ERR_MISSING_MEMBER, "scope", "is required");
    size_t most = v->raw.size + 1;
    char *bytes = arena_bytes(m->operation.arena, most);
    if (bytes == NULL) return fault_plain(f, ERR_BODY_TOO_LARGE);
    struct buf b = buf_over(bytes, most);
    enum err err = scope_read(v, &b, f);
    m->facts.scope = buf_view(&b);
    return err;
}

static enum err audience_member(struct mint *m, const struct json *body, struct fault *f)
{
    const struct json *v = json_get(body, STR("audience"));
    if (json_is_string(v) && v->string.size == 0)
        return member_refuse(f, ERR_OUT_OF_RANGE, "audience", "must not be empty");
    enum err err = member_text(body, "audience", LIMIT_ID_CHARACTERS, &m->facts.audience, f);
    if (str_is_absent(m->facts.audience))
        m->facts.audience = engine_reactor_api(m->operation.engine_reactor)->token_audience;
    return err;
}

static enum err refuse_suspended(struct fault *f)
{
    return member_refuse(f, ERR_ACTOR_SUSPENDED, "actor", "is suspended");
}

/* The names in the token: only those that its key may act for. */
static enum err names_read(struct mint *m, const struct json *body, struct fault *f)
{
    const struct key *key = m->operation.caller.key;
    struct token_facts *t = &m->facts;
    enum err err = member_text(body, "actor", LIMIT_ID_CHARACTERS, &t->actor, f);
    if (err == ERR_OK)
        err = member_text(body, "acting_for", LIMIT_ID_CHARACTERS, &t->acting_for, f);
    if (err == ERR_OK && str_is_dots(t->actor))
        err = member_refuse(f, ERR_BAD_VALUE, "actor", STR_NO_DOTS);
    if (err != ERR_OK) return err;
    if (str_is_absent(t->actor)) t->actor = key->name;
    if (!globs_match(&key->actors, t->actor))
        return member_refuse(f, ERR_WRONG_ACTOR, "actor", "this key may not act for this actor");
    if (!str_is_absent(t->acting_for) && !globs_match(&key->users, t->acting_for))
        return member_refuse(f, ERR_WRONG_USER, "acting_for", "this key may not act for this user");
    if (operation_actor_is_suspended(&m->operation, t->tenant, t->actor))
        return refuse_suspended(f);
    return ERR_OK;
}

/* A token never outlives its key. */
static enum err times_settle(struct mint *m, uint64_t ttl, uint64_t now_ms, struct fault *f)
{
    const struct key *key = m->operation.caller.key;
    uint64_t issued = now_ms / 1000, expires = issued + ttl;
    if (key->expires_at != 0 && key->expires_at / 1000 < expires) expires = key->expires_at / 1000;
    if (expires <= issued)
        return fault_set(f, ERR_CREDENTIAL_EXPIRED, "", "the key expires in less than a second");
    m->facts.issued_ms = now_ms;
    m->facts.expires_ms = expires * 1000;
    check(m->facts.issued_ms < m->facts.expires_ms);
    return ERR_OK;
}

static enum err read_request(struct mint *m, const struct json *body, uint64_t now_ms,
                             struct fault *f)
{
    struct token_facts *t = &m->facts;
    uint64_t ttl = 0, uses = 0;
    t->tenant = m->operation.caller.tenant;
    t->key = m->operation.caller.key->id;
    enum err err = scope_member(m, body, f);
    if (err == ERR_OK)
        err = whole_member(body, "ttl_seconds", LIMIT_TOKEN_TTL_SECONDS, TTL_DEFAULT_SECONDS, &ttl,
                           f);
    if (err == ERR_OK) err = whole_member(body, "max_uses", USES_MOST, 0, &uses, f);
    if (err == ERR_OK) err = audience_member(m, body, f);
    if (err == ERR_OK) err = names_read(m, body, f);
    if (err == ERR_OK) err = times_settle(m, ttl, now_ms, f);
    t->uses_max = (uint32_t)uses;
    return err;
}

/* ---- the text ---- */

static enum err sign(struct mint *m, const struct token_facts *t, struct fault *f)
{
    check(t->issued_ms < t->expires_ms);
    const struct api *api = engine_reactor_api(m->operation.engine_reactor);
    struct token_claims c = {.id = t->id,
                             .key = t->key,
                             .subject = m->operation.caller.key->name,
                             .tenant = t->tenant,
                             .actor = t->actor,
                             .acting_for = t->acting_for,
                             .audience = t->audience,
                             .scope = t->scope,
                             .issued_at = t->issued_ms / 1000,
                             .not_before = t->issued_ms / 1000,
                             .expires_at = t->expires_ms / 1000,
                             .counted = t->uses_max > 0,
                             .signer = t->signer};
    char *bytes = arena_bytes(m->operation.arena, TOKEN_TEXT_MAX);
    if (bytes == NULL) return fault_plain(f, ERR_BODY_TOO_LARGE);
    struct buf b = buf_over(bytes, TOKEN_TEXT_MAX);
    enum err err = token_sign(api->signers, api->token_issuer, &c, &b);
    if (err == ERR_NOT_FOUND)
        return fault_set(f, ERR_OVERLOADED, "", "the signing key was ended meanwhile; try again");
    if (err == ERR_FULL)
        return fault_set(f, ERR_OVERLOADED, "", "there is no memory to sign the token now");
    if (err != ERR_OK)
        return member_refuse(f, ERR_OUT_OF_RANGE, "scope",
                             "the token would be longer than 4096 bytes; name fewer actions");
    m->text = buf_view(&b);
    return ERR_OK;
}

/* ---- the record ---- */

static void put_scope(struct buf *b, struct str scope)
{
    struct str part;
    bool first = true;
    buf_put_byte(b, '[');
    while (str_split(&scope, ' ', &part)) {
        if (!first) buf_put_byte(b, ',');
        json_put_string(b, part);
        first = false;
    }
    buf_put_byte(b, ']');
}

static enum err record(struct mint *m, struct fault *f)
{
    struct operation *e = &m->operation;
    const struct token_facts *t = &m->facts;
    mint_check(m);
    char *bytes = arena_bytes(e->arena, EVENT_BYTES_MAX),
         *scope_bytes = arena_bytes(e->arena, EVENT_BYTES_MAX);
    if (bytes == NULL || scope_bytes == NULL) return fault_plain(f, ERR_BODY_TOO_LARGE);
    struct buf b = buf_over(bytes, EVENT_BYTES_MAX), scope = buf_over(scope_bytes, EVENT_BYTES_MAX);
    put_scope(&scope, t->scope);
    id_write("evt_", id_make(t->issued_ms, &engine_reactor_api(e->engine_reactor)->chance),
             m->event_id);
    id_write("tok_", t->id, m->token_id);
    id_write("key_", t->key, m->key_id);
    struct event event = {.event_id = str_of(m->event_id, ID_TEXT),
                          .kind = STR("token.minted"),
                          .tenant_id = t->tenant,
                          .timestamp = t->issued_ms,
                          .actor = t->actor,
                          .acting_for = t->acting_for,
                          .scope = buf_view(&scope),
                          .token_id = str_of(m->token_id, ID_TEXT),
                          .key_id = str_of(m->key_id, ID_TEXT),
                          .expires_at = t->expires_ms,
                          .mode = STR("live"),
                          .engine_version = STR(WRIT_VERSION),
                          .count = t->uses_max,
                          .has_count = t->uses_max > 0};
    event_put(&b, &event);
    if (b.overflow || scope.overflow) return fault_plain(f, ERR_INTERNAL);
    e->call.records[0] = buf_view(&b);
    return ERR_OK;
}

/* ---- its slot ---- */

static enum err read_retry(struct mint *m, const struct json *body, struct str header,
                           struct retry *ret, struct fault *f)
{
    struct operation *e = &m->operation;
    const struct retried request = {.tenant = m->facts.tenant,
                                    .credential = key_shown_id(m->operation.caller.key),
                                    .route = STR("mint"),
                                    .body = body};
    return retry_digest(engine_reactor_api(e->engine_reactor)->hasher,
                        engine_reactor_digest_keys(e->engine_reactor), header, &request, e->arena,
                        ret, f);
}

static unsigned settle_slot(const struct engine_reactor *w, struct id id, const struct retry *retry)
{
    struct slot_key key;
    if (!retry->given) return engine_reactor_own_slot(w, slot_of_id(id)); /* by its own chance */
    memcpy(key.bytes, retry->key.bytes, sizeof key.bytes);
    return slot_of_key(key);
}

/* ---- the answer ---- */

static enum step_result answer(struct mint *m, const struct token_facts *t, bool replayed)
{
    char *bytes = arena_bytes(m->operation.arena, ANSWER_BYTES_MAX), id[ID_TEXT];
    struct buf b = buf_over(bytes, bytes == NULL ? 0 : ANSWER_BYTES_MAX);
    id_write("tok_", t->id, id);
    buf_put_literal(&b, "{\"token\":");
    json_put_plain(&b, m->text);
    buf_put_literal(&b, ",\"token_id\":");
    json_put_plain(&b, str_of(id, ID_TEXT));
    buf_put_literal(&b, ",\"token_type\":\"Bearer\",\"expires_at\":");
    buf_put_u64(&b, t->expires_ms / 1000);
    buf_put_literal(&b, ",\"scope\":");
    json_put_string(&b, t->scope);
    if (replayed) buf_put_literal(&b, ",\"replayed\":true");
    buf_put_byte(&b, '}');
    if (b.overflow) return token_refuse(&m->operation, ERR_INTERNAL);
    return operation_reply(&m->operation, 201, buf_view(&b), (struct str){0});
}

static enum step_result keep(struct operation *e)
{
    const struct mint *m = of(e);
    mint_check(m);
    e->call.mint.facts = m->facts;
    e->call.mint.retry = m->retry;
    e->call.mint.signer_least = signers_least(engine_reactor_api(e->engine_reactor)->signers);
    e->call.mint.replayed = false;
    e->call.spent = (struct str){0};
    return operation_call(e, CALL_MINT, slot_of_id(m->facts.id));
}

static enum step_result kept(struct operation *e)
{
    struct mint *m = of(e);
    const struct call *c = &e->call;
    mint_check(m);
    check(c->kind == CALL_MINT);
    struct fault f;
    if (c->err == ERR_ACTOR_SUSPENDED) {
        (void)refuse_suspended(&f);
        return caller_operation_refuse(e, &f);
    }
    if (c->err != ERR_OK) return token_refuse(e, c->err);
    if (!c->mint.replayed) return answer(m, &m->facts, false);
    enum err err = sign(m, &c->mint.facts, &f);
    if (err != ERR_OK) return token_refuse(e, err == ERR_OVERLOADED ? err : ERR_INTERNAL);
    return answer(m, &c->mint.facts, true);
}

static const struct step mint_steps[] = {{"keep the token", keep, kept}};
static const struct process mint_process = PROCESS(mint_steps);

/* Its id contains the time of the mint, which separates it from tokens that died with a
 * suspension. */
static uint64_t born_ms(const struct engine_reactor *w, const struct token_facts *t,
                        uint64_t now_ms)
{
    uint64_t dead_until_ms = engine_reactor_actor_dead_until(w, t->tenant, t->actor);
    return now_ms > dead_until_ms ? now_ms : dead_until_ms + 1;
}

void token_mint_handle(void *context, struct http_exchange *x)
{
    struct engine_reactor *w = context;
    struct json *body;
    struct mint *m = caller_operation_begin(w, x, sizeof *m, ROLE_ADMIN, &body);
    if (m == NULL) return;
    struct token_facts *t = &m->facts;
    struct fault f;
    uint64_t now_ms = world_now_ms();
    enum err err = read_request(m, body, now_ms, &f);
    if (err == ERR_OK)
        err = read_retry(m, body, http_header_get(x, STR("idempotency-key")), &m->retry, &f);
    if (err == ERR_OK) {
        t->id = id_make(born_ms(w, t, now_ms), &engine_reactor_api(w)->chance);
        t->id = slot_id(t->id, settle_slot(w, t->id, &m->retry));
        t->signer = signers_current(engine_reactor_api(w)->signers, now_ms);
        err = sign(m, t, &f);
    }
    if (err == ERR_OK) err = record(m, &f);
    if (err == ERR_OK)
        operation_start(&m->operation, &mint_process, 0);
    else
        caller_operation_refuse(&m->operation, &f);
}
