/* admit.c - who is calling, whether the route lets them, and for which tenant they speak.
 *
 * The order is fixed: credential (401), role (403), tenant (403 or 400). Nothing of the body is
 * believed before the first two hold. A Bearer that begins with wk_ is an API key, any other one a
 * token.
 *
 * A key that was proved is kept with its head (struct http_kept): a client that sends the same head
 * again over the same connection has shown the same credential, byte for byte, so it is not looked
 * for, hashed and looked up once more. Whether the key is in force, its roles and its tenant are
 * asked each time, and no key outlives its table: the mark of the cache says when that is
 * another. */
#include "api/api.h"

#include "base/limits.h"
#include "base/world.h"

/* The one Authorization header. Two of them may mean one to us and the other to a proxy before
 * us. */
static enum err authorization_of(const struct http_exchange *x, struct str *ret, struct fault *f)
{
    *ret = (struct str){0};
    for (size_t i = 0; i < x->header_count; i++) {
        if (!http_header_is(&x->headers[i], STR("authorization"))) continue;
        if (!str_is_absent(*ret))
            return fault_set(f, ERR_UNAUTHENTICATED, "", "Authorization: was sent more than once");
        *ret = x->headers[i].value;
    }
    if (!str_is_absent(*ret)) return ERR_OK;
    return fault_set(f, ERR_UNAUTHENTICATED, "",
                     "no credential: send the header Authorization: Bearer <API key>");
}

enum err api_bearer(const struct http_exchange *x, struct str *ret, struct fault *f)
{
    struct str value;
    enum err err = authorization_of(x, &value, f);
    if (err != ERR_OK) return err;
    if (value.size < 7 || !str_equal_ignoring_case(str_of(value.bytes, 7), STR("bearer ")))
        return fault_set(f, ERR_UNAUTHENTICATED, "",
                         "Authorization: only the Bearer scheme is known here");
    *ret = str_skip(value, 7);
    while (ret->size > 0 && ret->bytes[0] == ' ') *ret = str_skip(*ret, 1);
    return ERR_OK;
}

bool api_shows_token(const struct http_exchange *x)
{
    struct str credential;
    struct fault ignored;
    return api_bearer(x, &credential, &ignored) == ERR_OK && !str_starts(credential, STR("wk_"));
}

static enum err unauthenticated(struct api *a, const struct http_exchange *x, enum err err,
                                struct fault *f)
{
    metric_add(a->sheet, a->auth_failed, 1);
    if (a->on_auth_failed != NULL) a->on_auth_failed(a->context, x, err);
    return f->err == err ? err : fault_plain(f, err);
}

/* "agent, app or admin": the roles that would do, for the sentence. */
static void roles_put(struct buf *out, uint32_t roles)
{
    bool first = true;
    roles &= ROLE_ADMIN | (ROLE_ADMIN - 1); /* no key has the others */
    for (uint32_t bit = 1; bit <= ROLE_ADMIN; bit <<= 1) {
        if ((roles & bit) == 0) continue;
        roles &= ~bit;
        if (!first) buf_put(out, roles == 0 ? STR(" or ") : STR(", "));
        buf_put(out, str_from(role_name((enum role)bit)));
        first = false;
    }
}

static const char *caller_name(const struct caller *c)
{
    return c->token == NULL ? "key" : "token";
}

/* ---- keys ---- */

/* The key that this very head has shown before, on the same connection; NULL: none, or the keys
 * were others then. */
static const struct key *key_kept(const struct api *a, const struct http_exchange *x)
{
    return x->kept != NULL && x->kept->mark == key_cache_mark(a->cache) ? x->kept->what : NULL;
}

/* Its end was set by another clock than ours. */
static enum err key_holds(const struct key *key, uint64_t now_ms)
{
    return key_in_force(key, world_expiry_ms(now_ms));
}

static enum err key_verify(struct api *a, const struct http_exchange *x, struct str credential,
                           uint64_t now_ms, const struct key **ret)
{
    enum err err = key_cache_verify(a->cache, a->hasher, a->keys, a->pepper, credential,
                                    world_expiry_ms(now_ms), ret);
    if (err == ERR_OK && x->kept != NULL)
        *x->kept = (struct http_kept){.what = *ret, .mark = key_cache_mark(a->cache)};
    return err;
}

/* A key that was proved; what it may do is asked each time. */
static enum err key_admit(const struct key *key, const struct globs *served, uint32_t roles,
                          struct caller *ret, struct fault *f)
{
    if ((key->roles & roles) == 0) {
        char text[128];
        struct buf names = buf_over(text, sizeof text - 1);
        roles_put(&names, roles);
        text[names.size] = '\0';
        return fault_set(f, ERR_MISSING_ROLE, "", "this needs a key with the role %s", text);
    }
    *ret = (struct caller){.key = key, .served = served};
    if (!str_equal(key->tenant, STR("*"))) ret->tenant = key->tenant;
    return ERR_OK;
}

/* ---- tokens ---- */

enum err api_token_alive(const struct api *a, const struct token_claims *t, uint64_t now_ms,
                         const struct key **ret_key, struct fault *f)
{
    const struct key *key = key_table_get(a->keys, t->key);
    bool speaks_for_it =
        key != NULL && (str_equal(key->tenant, STR("*")) || str_equal(key->tenant, t->tenant));
    enum err err = speaks_for_it && (key->roles & ROLE_AGENT) != 0 ? key_holds(key, now_ms)
                                                                   : ERR_CREDENTIAL_REVOKED;
    if (err != ERR_OK)
        return fault_set(f, err, "", "the API key that minted this token %s",
                         err == ERR_CREDENTIAL_REVOKED ? "was revoked" : "has expired");
    bool may = globs_match(&key->actors, t->actor) &&
               (str_is_absent(t->acting_for) || globs_match(&key->users, t->acting_for));
    if (!may)
        return fault_set(f, ERR_CREDENTIAL_REVOKED, "",
                         "the API key that minted this token may not speak for whom it names");
    if (a->token_is_dead != NULL && a->token_is_dead(a->context, t))
        return fault_set(f, ERR_CREDENTIAL_REVOKED, "",
                         "the token was revoked, or its actor suspended");
    *ret_key = key;
    return ERR_OK;
}

static enum err token_rejected(struct api *a, const struct http_exchange *x,
                               const struct token_claims *t, enum err err, struct fault *f)
{
    if (a->on_token_rejected == NULL) return unauthenticated(a, x, err, f);
    metric_add(a->sheet, a->auth_failed, 1);
    a->on_token_rejected(a->context, x, t, err);
    return err;
}

static enum err token_admit(struct api *a, const struct http_exchange *x, struct str credential,
                            uint32_t roles, uint64_t now_ms, struct caller *ret, struct fault *f)
{
    const struct token_claims *known = NULL;
    const struct key *key = NULL;
    bool is_kept;
    enum err err = token_cache_verify(a->tokens, a->signers, a->token_issuer, credential, now_ms,
                                      &known, &is_kept, f);
    if (err == ERR_BODY_TOO_LARGE) return err;
    if (err == ERR_UNAUTHENTICATED) return unauthenticated(a, x, err, f);
    if (err == ERR_OK) err = api_token_alive(a, known, now_ms, &key, f);
    if (err == ERR_OK && !str_equal(known->audience, a->token_audience))
        err = fault_set(f, ERR_UNAUTHENTICATED, "",
                        "the token is not for this service: its audience is another");
    if (err != ERR_OK) return token_rejected(a, x, known, err, f);
    if ((roles & ROLE_TOKEN) == 0)
        return fault_set(
            f, ERR_MISSING_ROLE, "",
            "a token may authorize, and read, wait on and redeem its own reviews; this needs an API key");
    /* The cache may forget it while its request is away. */
    const struct token_claims *token = token_claims_copy(known, x->arena);
    if (token == NULL) return fault_plain(f, ERR_BODY_TOO_LARGE);
    *ret =
        (struct caller){.key = key, .token = token, .tenant = token->tenant, .served = a->served};
    if (is_kept) return ERR_OK;
    ret->unseen = arena_copy(x->arena, credential);
    if (str_is_absent(ret->unseen)) return fault_plain(f, ERR_BODY_TOO_LARGE);
    return ERR_OK;
}

/* ---- both ---- */

struct credential_mark api_credential_mark(const struct caller *c)
{
    struct credential_mark m = {.key = c->key->id};
    if (c->token != NULL) {
        m.is_token = true;
        m.token = c->token->id;
        m.token_expires_at = c->token->expires_at;
        m.token_signer = c->token->signer;
    }
    return m;
}

static enum err token_holds(const struct api *a, const struct credential_mark *m, struct str tenant,
                            struct str actor, uint64_t now_ms, struct fault *f)
{
    const struct token_claims claims = {
        .id = m->token, .key = m->key, .tenant = tenant, .actor = actor, .signer = m->token_signer};
    const struct key *key;
    if (now_ms / 1000 >= m->token_expires_at) return fault_plain(f, ERR_CREDENTIAL_EXPIRED);
    return api_token_alive(a, &claims, now_ms, &key, f);
}

enum err api_credential_holds(const struct api *a, const struct credential_mark *m,
                              struct str tenant, struct str actor, uint64_t now_ms, struct fault *f)
{
    if (m->is_token) return token_holds(a, m, tenant, actor, now_ms, f);
    const struct key *key = key_table_get(a->keys, m->key);
    enum err err = key == NULL ? ERR_CREDENTIAL_REVOKED : key_holds(key, now_ms);
    return err == ERR_OK ? ERR_OK : fault_plain(f, err);
}

/* ?tenant_id: what only a caller of every tenant may choose. */
static enum err tenant_by_query(const struct http_exchange *x, struct caller *c, struct fault *f)
{
    struct str asked;
    if (str_is_absent(x->query)) return ERR_OK;
    enum err err = http_parameter(x, STR("tenant_id"), &asked, f);
    if (err != ERR_OK || str_is_empty(asked)) return err;
    if (!str_is_absent(c->tenant) && !str_equal(asked, c->tenant))
        return fault_set(f, ERR_WRONG_TENANT, "",
                         "tenant_id: this %s speaks for another tenant only", caller_name(c));
    if (str_code_points(asked) > LIMIT_ID_CHARACTERS)
        return fault_set(f, ERR_OUT_OF_RANGE, "", "tenant_id: is longer than %d characters",
                         LIMIT_ID_CHARACTERS);
    c->tenant = asked;
    return ERR_OK;
}

static enum err credential_admit(struct api *a, const struct http_exchange *x, uint32_t roles,
                                 uint64_t now_ms, struct caller *ret, struct fault *f)
{
    struct str credential;
    const struct key *key = key_kept(a, x);
    enum err err = key != NULL ? key_holds(key, now_ms) : api_bearer(x, &credential, f);
    if (err != ERR_OK) return unauthenticated(a, x, err, f);
    if (key != NULL) return key_admit(key, a->served, roles, ret, f);
    if (a->signers != NULL && !str_starts(credential, STR("wk_")))
        return token_admit(a, x, credential, roles, now_ms, ret, f);
    err = key_verify(a, x, credential, now_ms, &key);
    if (err != ERR_OK) return unauthenticated(a, x, err, f);
    return key_admit(key, a->served, roles, ret, f);
}

enum err api_admit(struct api *a, const struct http_exchange *x, uint32_t roles, uint64_t now_ms,
                   struct caller *ret, struct fault *f)
{
    struct caller caller;
    f->err = ERR_OK;
    enum err err = credential_admit(a, x, roles, now_ms, &caller, f);
    if (err == ERR_OK) err = tenant_by_query(x, &caller, f);
    if (err == ERR_OK) *ret = caller;
    return err;
}

static enum err every_tenant(struct fault *f)
{
    return fault_set(f, ERR_BAD_VALUE, "/tenant_id",
                     "tenant_id: * is every tenant, and a request is of one");
}

static enum err settle_tenant(struct caller *c, struct str asked, struct fault *f)
{
    /* by the query */
    if (!str_is_absent(c->tenant) && str_equal(c->tenant, STR("*"))) return every_tenant(f);
    if (str_is_empty(asked)) {
        if (!str_is_absent(c->tenant)) return ERR_OK;
        return fault_set(
            f, ERR_TENANT_REQUIRED, "/tenant_id",
            "tenant_id: this key speaks for every tenant, so the request must name one");
    }
    if (str_code_points(asked) > LIMIT_ID_CHARACTERS)
        return fault_set(f, ERR_OUT_OF_RANGE, "/tenant_id",
                         "tenant_id: is longer than %d characters", LIMIT_ID_CHARACTERS);
    if (str_is_absent(c->tenant)) {
        if (str_equal(asked, STR("*"))) return every_tenant(f);
        c->tenant = asked;
        return ERR_OK;
    }
    if (str_equal(c->tenant, asked)) return ERR_OK;
    if (c->token == NULL && str_equal(c->key->tenant, STR("*")))
        return fault_set(f, ERR_CONFLICTING_MEMBER, "/tenant_id",
                         "tenant_id: the body and the query name different tenants");
    return fault_set(f, ERR_WRONG_TENANT, "/tenant_id",
                     "tenant_id: this %s speaks for another tenant only", caller_name(c));
}

enum err api_settle_tenant(struct caller *c, struct str asked, struct fault *f)
{
    enum err err = settle_tenant(c, asked, f);
    if (err != ERR_OK || c->served == NULL || globs_match(c->served, c->tenant)) return err;
    return fault_set(
        f, ERR_WRONG_TENANT, "/tenant_id",
        "tenant_id: this engine does not serve that tenant: its own key is not for it");
}

static enum err number_parameter(const struct http_exchange *x, const char *name, uint64_t least,
                                 uint64_t most, uint64_t otherwise, uint64_t *ret, struct fault *f)
{
    struct str text;
    *ret = otherwise;
    enum err err = http_parameter(x, str_from(name), &text, f);
    if (err != ERR_OK || str_is_absent(text)) return err;
    if (!str_to_u64(text, ret) || *ret < least || *ret > most)
        return fault_set(f, ERR_BAD_PARAMETER, "",
                         "%s: %.*s is not a whole number from %llu to %llu", name, STR_FORMAT(text),
                         (unsigned long long)least, (unsigned long long)most);
    return ERR_OK;
}

enum err api_page(const struct http_exchange *x, uint64_t *ret_limit, uint64_t *ret_cursor,
                  struct fault *f)
{
    enum err err = number_parameter(x, "limit", 1, LIMIT_PAGE, LIMIT_PAGE_DEFAULT, ret_limit, f);
    if (err != ERR_OK) return err;
    return number_parameter(x, "cursor", 0, INT64_MAX, 0, ret_cursor, f);
}

enum err api_flag(const struct http_exchange *x, struct str name, bool *ret, struct fault *f)
{
    struct str text;
    *ret = false;
    if (str_is_absent(x->query)) return ERR_OK;
    enum err err = http_parameter(x, name, &text, f);
    if (err != ERR_OK || str_is_absent(text)) return err;
    if (str_equal(text, STR("true")))
        *ret = true;
    else if (!str_equal(text, STR("false")))
        return fault_set(f, ERR_BAD_PARAMETER, "", "%.*s: must be true or false", STR_FORMAT(name));
    return ERR_OK;
}

enum err api_body(const struct http_exchange *x, struct json **ret, struct fault *f)
{
    static const struct json_options options = {0};
    enum err err = json_read(x->body, &options, x->arena, ret, f);
    if (err != ERR_OK) return err;
    if ((*ret)->type != JSON_OBJECT)
        return fault_set(f, ERR_WRONG_TYPE, "", "the body must be a JSON object");
    return ERR_OK;
}
