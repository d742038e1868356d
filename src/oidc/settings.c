/* settings.c - the options of a provider, checked. */
#include "oidc/inside.h"

#include <stdio.h>

#include "crypto/crypto.h"
#include "crypto/secret.h"
#include "outbound/url.h"

enum { OPTION_TEXT_MAX = 80, SECRET_MAX = 512 };

static enum err wrong(const struct oidc_settings *s, const char *key, const char *what,
                      struct fault *f)
{
    char option[OPTION_TEXT_MAX];
    snprintf(option, sizeof option, "oidc.%s.%s", s->name, key);
    return fault_set(f, ERR_BAD_VALUE, option, "%s: %s", option, what);
}

static enum err check_client(const struct oidc_settings *s, struct fault *f)
{
    const char *url = provider_url_wrong(s, str_from(s->issuer));
    if (*s->issuer == '\0')
        return wrong(s, "issuer", "is missing: the provider's issuer, https://host/path", f);
    if (url != NULL) return wrong(s, "issuer", url, f);
    if (strchr(s->issuer, '?') != NULL) return wrong(s, "issuer", "must not have a query", f);
    if (*s->client_id == '\0')
        return wrong(s, "client_id", "is missing: the client that the provider has registered", f);
    if (strlen(s->client_id) > LIMIT_ID_CHARACTERS || strlen(s->audience) > LIMIT_ID_CHARACTERS)
        return wrong(s, "client_id", "and audience have 256 bytes at most", f);
    struct str scope = str_from(s->scope), word;
    while (str_split(&scope, ' ', &word))
        if (str_equal(word, STR("openid"))) return ERR_OK;
    return wrong(s, "scope", "must have openid, with blanks between the words", f);
}

static enum err check_secret(const struct oidc_settings *s, struct fault *f)
{
    char option[OPTION_TEXT_MAX], secret[SECRET_MAX + 2];
    size_t size;
    if (*s->client_secret_file == '\0') return ERR_OK;
    snprintf(option, sizeof option, "oidc.%s.client_secret_file", s->name);
    enum err err = secret_read(option, s->client_secret_file, secret, sizeof secret, &size, f);
    memory_wipe(secret, sizeof secret);
    return err == ERR_OK ? ERR_OK : fault_set(f, ERR_BAD_VALUE, option, "%s", f->text);
}

static enum err check_people(const struct oidc_settings *s, struct fault *f)
{
    if ((*s->tenant == '\0') == (*s->tenant_claim == '\0'))
        return wrong(s, "tenant", "set either tenant or tenant_claim", f);
    if (strcmp(s->tenant, "*") == 0 || strlen(s->tenant) > LIMIT_ID_CHARACTERS)
        return wrong(s, "tenant", "must be one tenant, of 1 to 256 bytes, and not *", f);
    if (*s->person_claim == '\0')
        return wrong(s, "person_claim", "is empty; it must be a claim such as sub or email", f);
    if (*s->roles_claim == '\0')
        return wrong(s, "roles_claim", "is empty; it must be a claim such as groups", f);
    if (*s->reviewer == '\0' && *s->policy_admin == '\0' && *s->auditor == '\0' &&
        *s->admin == '\0')
        return wrong(s, "roles.reviewer",
                     "is missing, and so are the other roles: without a role no person can sign in",
                     f);
    return ERR_OK;
}

enum err settings_check(const struct oidc_settings *s, struct fault *f)
{
    enum err err = check_client(s, f);
    if (err == ERR_OK) err = check_secret(s, f);
    return err == ERR_OK ? check_people(s, f) : err;
}

enum err settings_check_all(const struct oidc_settings *all, size_t count, struct fault *f)
{
    for (size_t i = 0; i < count; i++) {
        enum err err = settings_check(&all[i], f);
        if (err != ERR_OK) return err;
        for (size_t k = 0; k < i; k++)
            if (*all[i].audience != '\0' && *all[k].audience != '\0' &&
                strcmp(all[i].issuer, all[k].issuer) == 0)
                return wrong(&all[i], "audience",
                             "another provider with this issuer has an audience, too; a bearer "
                             "token must be of one of them",
                             f);
    }
    return ERR_OK;
}
