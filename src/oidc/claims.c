#include "oidc/claims.h"

#include "base/limits.h"
#include "crypto/crypto.h"

enum { AUDIENCES_MAX = 32 };

#define SECONDS_MAX 253402300799.0 /* the end of the year 9999 */

static enum err refuse(struct fault *f, const char *why)
{
    return fault_set(f, ERR_UNAUTHENTICATED, "", "the token is not valid: %s", why);
}

static bool is_text(const struct json *v) { return json_is_string(v) && v->string.size > 0; }

/* ---- for whom ---- */

static bool is_type(struct str type, struct str name)
{
    struct str prefix = STR("application/");
    if (type.size > prefix.size && str_equal_ignoring_case(str_of(type.bytes, prefix.size), prefix))
        type = str_skip(type, prefix.size);
    return str_equal_ignoring_case(type, name);
}

static enum err check_type(const struct jws *token, bool is_bearer, struct fault *f)
{
    if (str_is_absent(token->type) || is_type(token->type, STR("JWT"))) return ERR_OK;
    if (is_bearer && is_type(token->type, STR("at+jwt"))) return ERR_OK;
    return refuse(f, "its typ is of another kind of token");
}

static enum err check_audience(const struct json *claims, const struct claims_rule *rule,
                               struct fault *f)
{
    const struct json *aud = json_get(claims, STR("aud")), *azp = json_get(claims, STR("azp"));
    bool is_bearer = str_is_absent(rule->nonce), is_ours = false;
    const struct json *one = json_is_array(aud) ? aud->child : aud;
    size_t count = json_is_array(aud) ? aud->count : 1;
    if (count > AUDIENCES_MAX) return refuse(f, "it has more than 32 audiences");
    for (; one != NULL; one = json_is_array(aud) ? one->next : NULL) {
        if (!is_text(one)) return refuse(f, "its aud is not a text or a list of texts");
        is_ours |= str_equal(one->string, rule->audience);
    }
    if (!is_ours) return refuse(f, "it is for another audience");
    if (azp != NULL && !is_text(azp)) return refuse(f, "its azp is not a text");
    if (count > 1 && azp == NULL) return refuse(f, "it has several audiences and no azp");
    if (!is_bearer && azp != NULL && !str_equal(azp->string, rule->audience))
        return refuse(f, "its azp is another client");
    return ERR_OK;
}

static enum err check_nonce(const struct json *claims, struct str wanted, struct fault *f)
{
    struct str nonce = json_text(claims, STR("nonce"));
    if (str_is_absent(wanted)) return ERR_OK;
    if (!str_is_absent(nonce) && nonce.size == wanted.size &&
        bytes_equal_secret(nonce.bytes, wanted.bytes, wanted.size))
        return ERR_OK;
    return refuse(f, "its nonce is not that of this sign-in");
}

/* ---- times ---- */

/* A NumericDate: seconds, perhaps with a fraction. */
static bool is_time(const struct json *v)
{
    return json_is_number(v) && v->number >= 0 && v->number <= SECONDS_MAX;
}

static enum err check_times(const struct json *claims, uint64_t now_ms, uint64_t *ret_expires_at_ms,
                            struct fault *f)
{
    const struct json *exp = json_get(claims, STR("exp")), *nbf = json_get(claims, STR("nbf")),
                      *iat = json_get(claims, STR("iat"));
    const double now = (double)now_ms / 1000, skew = LIMIT_OIDC_SKEW_SECONDS;
    if (!is_time(exp)) return refuse(f, "its exp is missing, or is not a time");
    if (!is_time(iat)) return refuse(f, "its iat is missing, or is not a time");
    if (nbf != NULL && !is_time(nbf)) return refuse(f, "its nbf is not a time");
    if (iat->number > now + skew || (nbf != NULL && nbf->number > now + skew))
        return refuse(f, "it is not valid yet: the provider's clock is ahead of this machine's");
    if (exp->number + skew <= now)
        return fault_set(f, ERR_CREDENTIAL_EXPIRED, "", "the provider's token has expired");
    *ret_expires_at_ms = (uint64_t)(exp->number * 1000);
    return ERR_OK;
}

enum err claims_check_token(const struct jws *token, const struct claims_rule *rule,
                            uint64_t *ret_expires_at_ms, struct fault *f)
{
    const struct json *claims = token->claims, *sub = json_get(claims, STR("sub"));
    enum err err = check_type(token, str_is_absent(rule->nonce), f);
    if (err != ERR_OK) return err;
    if (!str_equal(json_text(claims, STR("iss")), rule->issuer))
        return refuse(f, "its issuer is another one");
    err = check_audience(claims, rule, f);
    if (err != ERR_OK) return err;
    if (!is_text(sub)) return refuse(f, "its sub is missing, or is not a text");
    err = check_nonce(claims, rule->nonce, f);
    return err == ERR_OK ? check_times(claims, rule->now_ms, ret_expires_at_ms, f) : err;
}
