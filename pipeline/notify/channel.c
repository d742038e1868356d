#include "pipeline/notify/channel.h"

#include <stdio.h>

#include "crypto/crypto.h"
#include "crypto/secret.h"
#include "outbound/url.h"
#include "pipeline/notify/signature.h"

enum { OPTION_TEXT_MAX = 80 };

static enum err wrong(const struct notify_channel *c, const char *key, const char *what,
                      struct fault *f)
{
    char option[OPTION_TEXT_MAX];
    snprintf(option, sizeof option, "notify.%s.%s", c->name, key);
    return fault_set(f, ERR_BAD_VALUE, option, "%s: %s", option, what);
}

static bool read_kind(struct notify_channel *c)
{
    static const char *const words[] = {[CHANNEL_WEBHOOK] = "webhook",
                                        [CHANNEL_SLACK] = "slack",
                                        [CHANNEL_TEAMS] = "teams",
                                        [CHANNEL_MAIL] = "mail"};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(c->kind_word, words[i]) != 0) continue;
        c->kind = (enum channel_kind)i;
        return true;
    }
    return false;
}

/* ---- addresses ---- */

static enum err check_url(const struct notify_channel *c, struct str url, struct fault *f)
{
    bool is_mail = c->kind == CHANNEL_MAIL;
    const char *key = *c->url_file != '\0' ? "url_file" : "url";
    struct str tls = is_mail ? STR("smtps://") : STR("https://"),
               plain = is_mail ? STR("smtp://") : STR("http://");
    bool is_tls = str_starts(url, tls);
    if ((!is_tls && !str_starts(url, plain)) || !url_is_printable(url))
        return wrong(c, key,
                     is_mail ? "must be smtp://host:port or smtps://host:port"
                             : "must be a URL such as https://host/path",
                     f);
    if (!is_tls && !is_mail && !c->allow_plaintext)
        return wrong(c, key,
                     "must be https://, because others on the way can read http://; "
                     "allow_plaintext permits it",
                     f);
    if (str_is_absent(url_host(url, is_tls ? tls.size : plain.size)))
        return wrong(c, key, "must have a host, and no user or password before it", f);
    return ERR_OK;
}

enum err channel_read_url(const struct notify_channel *c, char to[CHANNEL_URL_MAX + 2],
                          struct fault *f)
{
    char option[OPTION_TEXT_MAX];
    size_t size = strlen(c->url);
    snprintf(option, sizeof option, "notify.%s.url_file", c->name);
    if (*c->url_file != '\0') {
        enum err err = secret_read(option, c->url_file, to, CHANNEL_URL_MAX + 2, &size, f);
        if (err != ERR_OK) return err;
    } else if (size > CHANNEL_URL_MAX) {
        return wrong(c, "url", "is longer than 2048 bytes", f);
    } else {
        memcpy(to, c->url, size + 1);
    }
    enum err err = check_url(c, str_of(to, size), f);
    if (err != ERR_OK) memory_wipe(to, CHANNEL_URL_MAX + 2);
    return err;
}

enum err channel_read_secret(const struct notify_channel *c, char to[CHANNEL_SECRET_MAX + 2],
                             struct fault *f)
{
    char option[OPTION_TEXT_MAX];
    size_t size = 0;
    to[0] = '\0';
    if (*c->secret_file == '\0') return ERR_OK;
    snprintf(option, sizeof option, "notify.%s.secret_file", c->name);
    enum err err = secret_read(option, c->secret_file, to, CHANNEL_SECRET_MAX + 2, &size, f);
    if (err == ERR_OK && c->kind == CHANNEL_WEBHOOK &&
        !signature_secrets_are_valid(str_of(to, size))) {
        err = wrong(c, "secret_file",
                    "must have whsec_ and 24 to 64 bytes in base64, or two of these with a blank "
                    "between",
                    f);
        memory_wipe(to, CHANNEL_SECRET_MAX + 2);
    }
    return err;
}

/* local@domain, nothing that could end a header or a command. */
static bool is_address(struct str text)
{
    size_t at = str_find(text, '@');
    return url_is_printable(text) && str_find(text, ',') == text.size &&
           str_find(text, ';') == text.size && at > 0 && at + 1 < text.size &&
           str_find(str_skip(text, at + 1), '@') == text.size - at - 1;
}

static bool are_addresses(struct str list)
{
    struct str one;
    size_t count = 0;
    while (str_split(&list, ',', &one)) {
        while (one.size > 0 && one.bytes[0] == ' ') one = str_skip(one, 1);
        if (!is_address(one) || ++count > 100) return false;
    }
    return count > 0;
}

static enum err check_mail(const struct notify_channel *c, struct fault *f)
{
    if (!is_address(str_from(c->from)))
        return wrong(c, "from", "must be one address such as writ@example.com", f);
    if (!are_addresses(str_from(c->to)))
        return wrong(c, "to", "must be 1 to 100 addresses with commas between", f);
    if ((*c->user == '\0') != (*c->secret_file == '\0'))
        return wrong(c, "user", "needs secret_file, and secret_file needs user: a login has both",
                     f);
    if (*c->user != '\0' && c->allow_plaintext)
        return wrong(c, "allow_plaintext", "would send the password where others can read it", f);
    return ERR_OK;
}

/* ---- the whole ---- */

static enum err check_uses(const struct notify_channel *c, struct fault *f)
{
    bool is_mail = c->kind == CHANNEL_MAIL, is_webhook = c->kind == CHANNEL_WEBHOOK;
    if ((*c->url == '\0') == (*c->url_file == '\0'))
        return wrong(c, "url", "set either url or url_file", f);
    if (is_webhook && *c->secret_file == '\0')
        return wrong(c, "secret_file", "is missing: a webhook is signed", f);
    if (!is_webhook && !is_mail && *c->secret_file != '\0')
        return wrong(c, "secret_file", "has no use: the URL is the secret of Slack and Teams", f);
    if (!is_webhook && *c->asker != '\0')
        return wrong(c, "asker", "is for channels of kind webhook", f);
    if (!is_mail && (*c->from != '\0' || *c->to != '\0' || *c->user != '\0'))
        return wrong(c, "from", "from, to and user are for channels of kind mail", f);
    if (*c->tenant == '\0')
        return wrong(c, "tenant", "is empty; it must be a tenant, or * for every tenant", f);
    return is_mail ? check_mail(c, f) : ERR_OK;
}

enum err channel_check(struct notify_channel *c, struct fault *f)
{
    char url[CHANNEL_URL_MAX + 2], secret[CHANNEL_SECRET_MAX + 2];
    if (!read_kind(c))
        return wrong(c, "kind", "is missing; it must be webhook, slack, teams or mail", f);
    enum err err = check_uses(c, f);
    if (err == ERR_OK) err = channel_read_url(c, url, f);
    if (err == ERR_OK) err = channel_read_secret(c, secret, f);
    memory_wipe(url, sizeof url);
    memory_wipe(secret, sizeof secret);
    return err;
}

static bool is_tenants(const struct notify_channel *c, struct str tenant)
{
    return strcmp(c->tenant, "*") == 0 || str_equal(tenant, str_from(c->tenant));
}

bool channel_is_of(const struct notify_channel *c, struct str tenant)
{
    return *c->asker == '\0' && is_tenants(c, tenant);
}

bool channel_is_askers(const struct notify_channel *c, struct str tenant, struct str actor)
{
    struct str list = str_from(c->asker), one;
    if (*c->asker == '\0' || !is_tenants(c, tenant)) return false;
    while (str_split(&list, ',', &one))
        if (str_equal(one, STR("*")) || str_equal(one, actor)) return true;
    return false;
}
