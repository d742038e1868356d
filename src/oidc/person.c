#include "oidc/person.h"

static enum err refuse(const struct oidc_settings *s, struct fault *f, const char *claim,
                       const char *why)
{
    return fault_set(f, ERR_IDENTITY_REFUSED, "", "the provider %s: the token's claim %s %s",
                     s->name, claim, why);
}

static bool is_plain(struct str text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.bytes[i] < ' ' || text.bytes[i] == 0x7F) return false;
    return true;
}

/* A name that other parts of the system compare, and show. */
static enum err name_of(const struct oidc_settings *s, const struct json *claims, const char *claim,
                        struct str *ret, struct fault *f)
{
    const struct json *v = json_get(claims, str_from(claim));
    if (v == NULL) return refuse(s, f, claim, "is missing");
    if (!json_is_string(v) || v->string.size == 0) return refuse(s, f, claim, "must be a text");
    if (str_code_points(v->string) > LIMIT_ID_CHARACTERS)
        return refuse(s, f, claim, "is longer than 256 characters");
    if (!is_plain(v->string) || v->has_nul) return refuse(s, f, claim, "has control characters");
    *ret = v->string;
    return ERR_OK;
}

static enum err read_person(const struct oidc_settings *s, const struct json *claims,
                            struct str *ret, struct fault *f)
{
    enum err err = name_of(s, claims, s->person_claim, ret, f);
    if (err != ERR_OK) return err;
    if (str_find(*ret, '*') < ret->size) return refuse(s, f, s->person_claim, "has a *");
    if (strcmp(s->person_claim, "email") != 0) return ERR_OK;
    const struct json *verified = json_get(claims, STR("email_verified"));
    if (verified == NULL || verified->type != JSON_TRUE)
        return refuse(s, f, "email_verified",
                      "is not true, so email may be another person's; person_claim = sub needs no "
                      "address");
    return ERR_OK;
}

static enum err read_tenant(const struct oidc_settings *s, const struct json *claims,
                            struct str *ret, struct fault *f)
{
    *ret = str_from(s->tenant);
    if (ret->size > 0) return ERR_OK;
    enum err err = name_of(s, claims, s->tenant_claim, ret, f);
    if (err == ERR_OK && str_equal(*ret, STR("*")))
        return refuse(s, f, s->tenant_claim, "is *, which is not one tenant");
    return err;
}

/* ---- lists ---- */

/* The values of a claim, one after the other: of a text, itself; of a list of texts, its elements.
 * *at begins at NULL. False: no more. */
static bool next_value(const struct json *claim, const struct json **at)
{
    if (claim == NULL) return false;
    if (claim->type == JSON_STRING) {
        if (*at != NULL) return false;
        *at = claim;
        return true;
    }
    *at = *at == NULL ? claim->child : (*at)->next;
    return *at != NULL;
}

static bool is_list_of_texts(const struct json *claim)
{
    if (claim == NULL || claim->type == JSON_STRING) return true;
    if (claim->type != JSON_ARRAY) return false;
    for (const struct json *v = claim->child; v != NULL; v = v->next)
        if (v->type != JSON_STRING || v->has_nul) return false;
    return true;
}

/* The next name of a list that is separated by commas and blanks. */
static bool next_word(struct str *rest, struct str *ret)
{
    while (str_split(rest, ',', ret)) {
        while (ret->size > 0 && ret->bytes[0] == ' ') *ret = str_skip(*ret, 1);
        while (ret->size > 0 && ret->bytes[ret->size - 1] == ' ') ret->size--;
        if (ret->size > 0) return true;
    }
    return false;
}

static bool list_has(const char *list, struct str value)
{
    struct str rest = str_from(list), word;
    while (next_word(&rest, &word))
        if (str_equal(word, value)) return true;
    return false;
}

static enum err read_roles(const struct oidc_settings *s, const struct json *claims, uint32_t *ret,
                           struct fault *f)
{
    const struct {
        const char *values;
        enum role role;
    } maps[] = {{s->reviewer, ROLE_REVIEWER},
                {s->policy_admin, ROLE_POLICY_ADMIN},
                {s->auditor, ROLE_AUDITOR},
                {s->admin, ROLE_ADMIN}};
    const struct json *claim = json_get(claims, str_from(s->roles_claim)), *value = NULL;
    *ret = 0;
    if (!is_list_of_texts(claim))
        return refuse(s, f, s->roles_claim, "must be a text or a list of texts");
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        if (list_has(maps[i].values, STR("*"))) *ret |= maps[i].role;
    while (next_value(claim, &value))
        for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
            if (list_has(maps[i].values, value->string)) *ret |= maps[i].role;
    if (*ret != 0) return ERR_OK;
    return refuse(s, f, s->roles_claim,
                  "has no value that the options roles.… of this provider map to a role");
}

static enum err read_claims(const struct oidc_settings *s, const struct json *claims,
                            struct arena *arena, struct identity *ret, struct fault *f)
{
    struct str rest = str_from(s->claims), name;
    struct fault why;
    ret->claims = arena_array(arena, struct claim, LIMIT_CLAIMS);
    if (ret->claims == NULL) return fault_plain(f, ERR_BODY_TOO_LARGE);
    while (next_word(&rest, &name)) {
        const struct json *claim = json_get(claims, name), *value = NULL;
        bool is_right = is_list_of_texts(claim);
        while (is_right && next_value(claim, &value)) {
            if (ret->claim_count == LIMIT_CLAIMS)
                return refuse(s, f, "list",
                              "has too many values: the claims that policies may match "
                              "have 64 together");
            ret->claims[ret->claim_count++] = (struct claim){.name = name, .value = value->string};
        }
        if (!is_right)
            return fault_set(
                f, ERR_IDENTITY_REFUSED, "",
                "the provider %s: the token's claim %.*s must be a text or a list of texts",
                s->name, STR_FORMAT(name));
    }
    if (claims_check(ret->claims, ret->claim_count, &why) == ERR_OK) return ERR_OK;
    return fault_set(f, ERR_IDENTITY_REFUSED, "", "the provider %s: of the token's claims, %s",
                     s->name, why.text);
}

enum err person_read(const struct oidc_settings *s, const struct json *claims, struct arena *arena,
                     struct identity *ret, struct fault *f)
{
    *ret = (struct identity){.provider = str_from(s->name)};
    enum err err = name_of(s, claims, "sub", &ret->subject, f);
    if (err == ERR_OK) err = read_person(s, claims, &ret->person, f);
    if (err == ERR_OK) err = read_tenant(s, claims, &ret->tenant, f);
    if (err == ERR_OK) err = read_roles(s, claims, &ret->roles, f);
    if (err == ERR_OK) err = read_claims(s, claims, arena, ret, f);
    return err;
}
