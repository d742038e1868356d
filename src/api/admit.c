/* admit.c - who is calling, whether the route lets them, and for which tenant they speak.
 *
 * The order is fixed: credential (401), role (403), tenant (403 or 400). Nothing of the body is
 * believed before the first two hold. */
#include "api/api.h"

#include "base/limits.h"

static enum err bearer_of(const struct http_exchange *x, struct str *ret, struct fault *f)
{
    struct str value = http_header_get(x, STR("authorization"));
    if (str_is_absent(value))
        return fault_set(f, ERR_UNAUTHENTICATED, "",
                         "no credential: send the header Authorization: Bearer <API key>");
    if (value.size < 7 || !str_equal_ignoring_case(str_of(value.bytes, 7), STR("bearer ")))
        return fault_set(f, ERR_UNAUTHENTICATED, "", "Authorization: only the Bearer scheme is known here");
    *ret = str_skip(value, 7);
    while (ret->size > 0 && ret->bytes[0] == ' ') *ret = str_skip(*ret, 1);
    return ERR_OK;
}

static enum err unauthenticated(struct api *a, const struct http_exchange *x, enum err err, struct fault *f)
{
    metric_add(a->sheet, a->auth_failed, 1);
    if (a->on_auth_failed != NULL) a->on_auth_failed(a->context, x, err);
    return f->err == err ? err : fault_plain(f, err);
}

/* "agent, app or admin": the roles that would do, for the sentence. */
static void roles_put(struct buf *out, uint32_t roles)
{
    bool first = true;
    for (uint32_t bit = 1; bit <= ROLE_ADMIN; bit <<= 1) {
        if ((roles & bit) == 0) continue;
        roles &= ~bit;
        if (!first) buf_put(out, roles == 0 ? STR(" or ") : STR(", "));
        buf_put(out, str_from(role_name((enum role)bit)));
        first = false;
    }
}

enum err api_admit(struct api *a, const struct http_exchange *x, uint32_t roles, uint64_t now_ms,
                   struct caller *ret, struct fault *f)
{
    struct str credential;
    f->err = ERR_OK;
    enum err err = bearer_of(x, &credential, f);
    if (err != ERR_OK) return unauthenticated(a, x, err, f);
    const struct key *key;
    err = key_cache_verify(a->cache, a->hasher, a->keys, a->pepper, credential, now_ms, &key);
    if (err != ERR_OK) return unauthenticated(a, x, err, f);

    if ((key->roles & roles) == 0) {
        char text[128];
        struct buf names = buf_over(text, sizeof text - 1);
        roles_put(&names, roles);
        text[names.size] = '\0';
        return fault_set(f, ERR_MISSING_ROLE, "", "this needs a key with the role %s", text);
    }

    struct caller caller = {.key = key};
    if (!str_equal(key->tenant, STR("*"))) caller.tenant = key->tenant;
    struct str asked = {0};
    if (!str_is_absent(x->query)) {
        err = http_parameter(x, STR("tenant_id"), &asked, f);
        if (err != ERR_OK) return err;
    }
    if (!str_is_empty(asked)) {
        if (!str_is_absent(caller.tenant) && !str_equal(asked, caller.tenant))
            return fault_set(f, ERR_WRONG_TENANT, "", "tenant_id: this key speaks for another tenant only");
        if (str_code_points(asked) > LIMIT_ID_CHARACTERS)
            return fault_set(f, ERR_OUT_OF_RANGE, "", "tenant_id: longer than %d characters", LIMIT_ID_CHARACTERS);
        caller.tenant = asked;
    }
    *ret = caller;
    return ERR_OK;
}

enum err api_settle_tenant(struct caller *c, struct str asked, struct fault *f)
{
    if (str_is_empty(asked)) {
        if (!str_is_absent(c->tenant)) return ERR_OK;
        return fault_set(f, ERR_TENANT_REQUIRED, "/tenant_id",
                         "tenant_id: this key speaks for every tenant, so the request must name one");
    }
    if (str_code_points(asked) > LIMIT_ID_CHARACTERS)
        return fault_set(f, ERR_OUT_OF_RANGE, "/tenant_id", "tenant_id: longer than %d characters", LIMIT_ID_CHARACTERS);
    if (str_is_absent(c->tenant)) {
        c->tenant = asked;
        return ERR_OK;
    }
    if (str_equal(c->tenant, asked)) return ERR_OK;
    if (str_equal(c->key->tenant, STR("*")))
        return fault_set(f, ERR_CONFLICTING_MEMBER, "/tenant_id", "tenant_id: the body and the query name different tenants");
    return fault_set(f, ERR_WRONG_TENANT, "/tenant_id", "tenant_id: this key speaks for another tenant only");
}

static enum err number_parameter(const struct http_exchange *x, const char *name, uint64_t least, uint64_t most,
                                 uint64_t otherwise, uint64_t *ret, struct fault *f)
{
    struct str text;
    *ret = otherwise;
    enum err err = http_parameter(x, str_from(name), &text, f);
    if (err != ERR_OK || str_is_absent(text)) return err;
    if (!str_to_u64(text, ret) || *ret < least || *ret > most)
        return fault_set(f, ERR_BAD_PARAMETER, "", "%s: %.*s is not a whole number from %llu to %llu", name,
                         STR_FORMAT(text), (unsigned long long)least, (unsigned long long)most);
    return ERR_OK;
}

enum err api_page(const struct http_exchange *x, uint64_t *ret_limit, uint64_t *ret_cursor, struct fault *f)
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
    if (str_equal(text, STR("true"))) *ret = true;
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
