#include "oidc/discovery.h"

#include "json/json.h"
#include "outbound/url.h"

static enum err refuse(struct fault *f, const char *member, const char *why)
{
    return fault_set(f, ERR_PROVIDER_UNAVAILABLE, "", "its discovery document: %s %s", member, why);
}

/* ---- addresses ---- */

const char *provider_url_wrong(const struct oidc_settings *s, struct str url)
{
    bool is_tls = str_starts(url, STR("https://"));
    if (url.size > OIDC_URL_MAX) return "is longer than 2048 bytes";
    if ((!is_tls && !str_starts(url, STR("http://"))) || !url_is_printable(url) ||
        str_find(url, '#') < url.size)
        return "must be a URL such as https://host/path, without #";
    struct str host = url_host(url, is_tls ? 8 : 7);
    if (str_is_absent(host)) return "must have a host, and no user or password before it";
    if (is_tls) return NULL;
    if (!url_host_is_loopback(host))
        return "must be https://, because others on the way can read http://";
    return s->insecure_loopback ? NULL : "must be https://; insecure_loopback permits http://";
}

static enum err read_url(const struct oidc_settings *s, const struct json *document,
                         const char *member, char to[OIDC_URL_MAX + 1], struct fault *f)
{
    struct str url = json_text(document, str_from(member));
    if (str_is_absent(url)) return refuse(f, member, "is missing, or is no text");
    const char *wrong = provider_url_wrong(s, url);
    if (wrong != NULL) return refuse(f, member, wrong);
    memcpy(to, url.bytes, url.size);
    to[url.size] = '\0';
    return ERR_OK;
}

/* ---- what it offers ---- */

/* Whether the list has one of the words (NULL ends them). A provider need not write the list: then
 * `otherwise`. */
static bool offers(const struct json *document, const char *member, const char *const *words,
                   bool otherwise)
{
    const struct json *list = json_get(document, str_from(member));
    if (list == NULL) return otherwise;
    if (!json_is_array(list)) return false;
    for (const struct json *v = list->child; v != NULL; v = v->next)
        for (size_t i = 0; words[i] != NULL; i++)
            if (json_is_string(v) && str_equal(v->string, str_from(words[i]))) return true;
    return false;
}

static enum err check_offers(const struct oidc_settings *s, const struct json *d, struct fault *f)
{
    static const char *const code[] = {"code", NULL}, *const sha256[] = {"S256", NULL},
                             *const algorithms[] = {"RS256", "ES256", "EdDSA", "Ed25519", NULL},
                             *const basic[] = {"client_secret_basic", NULL},
                             *const none[] = {"none", NULL};
    bool has_secret = *s->client_secret_file != '\0';
    if (!offers(d, "response_types_supported", code, true))
        return refuse(f, "response_types_supported", "does not have code");
    if (!offers(d, "code_challenge_methods_supported", sha256, true))
        return refuse(f, "code_challenge_methods_supported", "does not have S256");
    if (!offers(d, "id_token_signing_alg_values_supported", algorithms, true))
        return refuse(f, "id_token_signing_alg_values_supported",
                      "has none of RS256, ES256 and EdDSA");
    if (!offers(d, "token_endpoint_auth_methods_supported", has_secret ? basic : none, true))
        return refuse(f, "token_endpoint_auth_methods_supported",
                      has_secret ? "does not have client_secret_basic"
                                 : "does not have none, so the client needs client_secret_file");
    return ERR_OK;
}

enum err discovery_read(struct str text, const struct oidc_settings *s, struct arena *arena,
                        struct discovery *ret, struct fault *f)
{
    struct json *d;
    struct fault why;
    enum err err = json_read(text, &(struct json_options){0}, arena, &d, &why);
    if (err == ERR_BODY_TOO_LARGE) return fault_plain(f, err);
    if (err != ERR_OK || !json_is_object(d)) return refuse(f, "it", "is not a strict JSON object");
    if (!str_equal(json_text(d, STR("issuer")), str_from(s->issuer)))
        return refuse(f, "issuer", "is not the configured one, character for character");
    *ret = (struct discovery){0};
    err = read_url(s, d, "authorization_endpoint", ret->authorization, f);
    if (err == ERR_OK) err = read_url(s, d, "token_endpoint", ret->token, f);
    if (err == ERR_OK) err = read_url(s, d, "jwks_uri", ret->keys, f);
    if (err == ERR_OK && json_get(d, STR("end_session_endpoint")) != NULL)
        err = read_url(s, d, "end_session_endpoint", ret->end_session, f);
    const struct json *names = json_get(d, STR("authorization_response_iss_parameter_supported"));
    ret->names_issuer = names != NULL && names->type == JSON_TRUE;
    return err == ERR_OK ? check_offers(s, d, f) : err;
}
