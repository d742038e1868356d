/* admit.c - authenticates the caller, checks that the route allows it, and finds its tenant.
 *
 * The order is fixed: credential (401), role (403), tenant (403 or 400). Nothing of the body is
 * used before the first two checks pass. A Bearer that begins with wk_ is an API key, one that begins
 * with wa and a digit an assertion of the platform about a session, any other one a token.
 *
 * A verified key is kept with its head (struct http_kept). A client that sends the same head
 * again over the same connection has shown the same credential, byte for byte, so the key is not
 * looked up and hashed again. Expiry, revocation, roles and tenant are checked on each request.
 * No key outlives its table: the number of the cache changes with the table. */
#include "api/api.h"
#include "api/metered.h"

#include "base/limits.h"
#include "base/world.h"

/* The one Authorization header. With two of them, we might use one and a proxy in front of us
 * the other. */
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
                         "Authorization: only the Bearer scheme is supported");
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
    if (!a->is_quiet) metric_add(a->sheet, a->auth_failed, 1);
    if (!a->is_quiet && a->on_auth_failed != NULL) a->on_auth_failed(a->context, x, err);
    return f->err == err ? err : fault_plain(f, err);
}

/* "agent, app or admin": the roles that allow it, for the error text. */
static void roles_put(struct buf *out, uint32_t roles)
{
    bool first = true;
    roles &= ROLE_ADMIN | (ROLE_ADMIN - 1); /* no API key has the other bits */
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
 * have changed since. */
static const struct key *key_kept(const struct api *a, const struct http_exchange *x)
{
    return x->kept != NULL && x->kept->block == key_cache_generation(a->cache) ? x->kept->what
                                                                               : NULL;
}

/* Another machine's clock has set its expiry. */
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
        *x->kept = (struct http_kept){.what = *ret, .block = key_cache_generation(a->cache)};
    return err;
}

/* A verified key; its rights are checked each time. */
static enum err key_admit(const struct key *key, const struct globs *served, uint32_t roles,
                          struct caller *ret, struct fault *f)
{
    if ((key->roles & roles) == 0) {
        char text[128];
        struct buf names = buf_over(text, sizeof text - 1);
        roles_put(&names, roles);
        text[names.size] = '\0';
        return fault_set(f, ERR_MISSING_ROLE, "", "this needs a %s with the role %s",
                         key_is_person(key) ? "person" : "key", text);
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
        return fault_set(
            f, ERR_CREDENTIAL_REVOKED, "",
            "the API key that minted this token may no longer speak for its actor or user");
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
    if (!a->is_quiet) metric_add(a->sheet, a->auth_failed, 1);
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
                        "the token is for another service: its audience is not this one");
    if (err != ERR_OK) return token_rejected(a, x, known, err, f);
    if ((roles & ROLE_TOKEN) == 0)
        return fault_set(
            f, ERR_MISSING_ROLE, "",
            "a token may authorize, and read, wait on and redeem its own reviews; this needs an API key");
    /* The cache may drop the token while its request is in progress. */
    const struct token_claims *token = token_claims_copy(known, x->arena);
    if (token == NULL) return fault_plain(f, ERR_BODY_TOO_LARGE);
    *ret =
        (struct caller){.key = key, .token = token, .tenant = token->tenant, .served = a->served};
    if (is_kept) return ERR_OK;
    ret->unseen = arena_copy(x->arena, credential);
    if (str_is_absent(ret->unseen)) return fault_plain(f, ERR_BODY_TOO_LARGE);
    return ERR_OK;
}

/* ---- assertions of sessions ---- */

/* Path and query as the platform signed them. */
static struct str target_of(const struct http_exchange *x)
{
    size_t size = x->path.size + (str_is_absent(x->query) ? 0 : 1 + x->query.size);
    return str_skip(x->target, x->target.size - size);
}

static enum err assertion_verify(const struct api *a, const struct http_exchange *x,
                                 struct str credential, uint64_t now_ms, struct assertion *ret,
                                 struct fault *f)
{
    enum err err = assertion_read(credential, a->assertion_key, x->arena, ret, f);
    if (err != ERR_OK) return err;
    return assertion_fits(ret, x->method_text, target_of(x), world_expiry_ms(now_ms), a->started_ms,
                          f);
}

/* The key of the sign-in, with no more than both it and the assertion allow. */
static enum err assertion_key_copy(const struct api *a, const struct assertion *as, uint64_t now_ms,
                                   struct arena *arena, const struct key **ret, struct fault *f)
{
    const struct key *key = key_table_get(a->keys, as->key);
    enum err err = key == NULL ? ERR_CREDENTIAL_REVOKED : key_holds(key, now_ms);
    if (err != ERR_OK)
        return fault_set(f, err, "", "the API key of the session %s",
                         err == ERR_CREDENTIAL_REVOKED ? "was revoked" : "has expired");
    bool speaks_for_it = str_equal(key->tenant, STR("*")) || str_equal(key->tenant, as->tenant);
    bool is_person = str_equal(key->owner, as->person) || globs_match(&key->reviewers, as->person);
    if (!speaks_for_it || !is_person)
        return fault_set(f, ERR_CREDENTIAL_REVOKED, "",
                         "the API key of the session may not speak for its person or tenant");
    struct key *copy = arena_new(arena, struct key);
    struct str *person = arena_new(arena, struct str);
    if (copy == NULL || person == NULL) return fault_plain(f, ERR_BODY_TOO_LARGE);
    *person = as->person;
    *copy = *key;
    copy->tenant = as->tenant;
    copy->roles &= as->roles;
    copy->reviewers = (struct globs){.list = person, .count = 1};
    *ret = copy;
    return ERR_OK;
}

static enum err person_admit(const struct assertion *as, struct arena *arena,
                             const struct key **ret, struct fault *f)
{
    *ret = key_of_person(as->tenant, as->person, as->roles, arena);
    return *ret != NULL ? ERR_OK : fault_plain(f, ERR_BODY_TOO_LARGE);
}

static enum err assertion_admit(struct api *a, const struct http_exchange *x, struct str credential,
                                uint32_t roles, uint64_t now_ms, struct caller *ret,
                                struct fault *f)
{
    struct assertion *as = arena_new(x->arena, struct assertion);
    const struct key *key = NULL;
    if (as == NULL) return fault_plain(f, ERR_BODY_TOO_LARGE);
    enum err err = assertion_verify(a, x, credential, now_ms, as, f);
    if (err == ERR_OK && as->proof == PROOF_KEY)
        err = assertion_key_copy(a, as, now_ms, x->arena, &key, f);
    else if (err == ERR_OK)
        err = person_admit(as, x->arena, &key, f);
    if (err == ERR_BODY_TOO_LARGE) return err;
    if (err != ERR_OK) return unauthenticated(a, x, err, f);
    err = key_admit(key, a->served, roles, ret, f);
    if (err == ERR_OK) ret->assertion = as;
    return err;
}

static bool shows_assertion(const struct api *a, struct str credential)
{
    return a->assertion_key != NULL && assertion_shown(credential);
}

bool api_accept_assertion(struct api *a, const struct http_exchange *x, struct assertions *all,
                          uint64_t now_ms, struct fault *f)
{
    struct str credential;
    struct assertion as;
    if (api_bearer(x, &credential, f) != ERR_OK || !shows_assertion(a, credential)) return true;
    enum err err = assertion_verify(a, x, credential, now_ms, &as, f);
    if (err == ERR_OK) err = assertions_accept(all, &as, now_ms, f);
    if (err == ERR_OK) return true;
    if (err != ERR_BODY_TOO_LARGE && err != ERR_OVERLOADED) (void)unauthenticated(a, x, err, f);
    return false;
}

/* ---- all ---- */

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
    static const struct id none;
    if (m->is_token) return token_holds(a, m, tenant, actor, now_ms, f);
    if (id_equal(m->key, none)) return ERR_OK; /* a person; an assertion is not taken back */
    const struct key *key = key_table_get(a->keys, m->key);
    enum err err = key == NULL ? ERR_CREDENTIAL_REVOKED : key_holds(key, now_ms);
    return err == ERR_OK ? ERR_OK : fault_plain(f, err);
}

/* ?tenant_id: only callers of every tenant may choose it. */
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
    if (shows_assertion(a, credential))
        return assertion_admit(a, x, credential, roles, now_ms, ret, f);
    if (a->signers != NULL && !str_starts(credential, STR("wk_")))
        return token_admit(a, x, credential, roles, now_ms, ret, f);
    err = key_verify(a, x, credential, now_ms, &key);
    if (err != ERR_OK) return unauthenticated(a, x, err, f);
    return key_admit(key, a->served, roles, ret, f);
}

static enum api_sight known(struct str tenant, struct id key, struct api_asker *ret)
{
    *ret = (struct api_asker){.tenant = tenant, .key = key};
    return API_KNOWN;
}

static enum api_sight key_sight(struct api *a, struct str credential, struct api_asker *ret)
{
    const struct key *key = key_cache_get(a->cache, a->hasher, credential);
    struct id id;
    if (key != NULL)
        return key_holds(key, world_now_ms()) == ERR_OK ? known(key->tenant, key->id, ret)
                                                        : API_STRANGER;
    bool is_claimed = credential_read(credential, &id) && key_table_get(a->keys, id) != NULL;
    return is_claimed ? API_CLAIMED : API_STRANGER;
}

enum api_sight api_sight(struct api *a, const struct http_exchange *x, struct api_asker *ret)
{
    struct str credential;
    struct fault ignored;
    const struct key *key = x->notes->count == 0 ? key_kept(a, x) : NULL;
    *ret = (struct api_asker){0};
    if (key != NULL) return known(key->tenant, key->id, ret);
    if (api_bearer(x, &credential, &ignored) != ERR_OK) return API_STRANGER;
    if (str_starts(credential, STR("wk_"))) return key_sight(a, credential, ret);
    if (shows_assertion(a, credential)) return API_CLAIMED;
    if (a->signers == NULL) return API_STRANGER;
    const struct token_claims *claims = token_cache_find(a->tokens, a->signers, credential);
    return claims == NULL ? API_STRANGER : known(claims->tenant, claims->key, ret);
}

enum err api_identify(struct api *a, const struct http_exchange *x, uint32_t roles, uint64_t now_ms,
                      struct caller *ret, struct fault *f)
{
    struct caller caller;
    f->err = ERR_OK;
    enum err err = credential_admit(a, x, roles, now_ms, &caller, f);
    if (err == ERR_OK) err = tenant_by_query(x, &caller, f);
    if (err == ERR_OK) *ret = caller;
    return err;
}

enum err api_admit(struct api *a, const struct http_exchange *x, uint32_t roles, uint64_t now_ms,
                   struct caller *ret, struct fault *f)
{
    enum err err = api_identify(a, x, roles, now_ms, ret, f);
    if (err != ERR_OK || a->meters == NULL) return err;
    return api_meter(a, x, ret, f);
}

enum err api_admit_key(struct api *a, const struct http_exchange *x, const struct key *key,
                       uint32_t roles, struct caller *ret, struct fault *f)
{
    struct caller caller;
    enum err err = key_admit(key, a->served, roles, &caller, f);
    if (err == ERR_OK) err = tenant_by_query(x, &caller, f);
    if (err == ERR_OK) *ret = caller;
    return err;
}

static enum err every_tenant(struct fault *f)
{
    return fault_set(f, ERR_BAD_VALUE, "/tenant_id",
                     "tenant_id: * means every tenant, but a request must name one tenant");
}

static enum err settle_tenant(struct caller *c, struct str asked, struct fault *f)
{
    /* from the query */
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
    if (err != ERR_OK) return err;
    if (c->served == NULL || globs_match(c->served, c->tenant))
        return c->owes == NULL ? ERR_OK : api_meter_tenant(c, f);
    return fault_set(
        f, ERR_WRONG_TENANT, "/tenant_id",
        "tenant_id: this engine does not serve that tenant: the engine's key is for another tenant");
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
