#include "oidc/jwks.h"

#include <stdlib.h>

#include "crypto/crypto.h"

enum { KID_BYTES_MAX = 256 };

struct jwk {
    char kid[KID_BYTES_MAX];
    size_t kid_size;
    bool has_kid;
    struct public_key *key;
};

struct jwks {
    size_t count;
    struct jwk list[LIMIT_OIDC_KEYS];
};

static const struct {
    struct str alg;
    enum public_key_kind kind;
} algorithms[] = {{STR("RS256"), PUBLIC_KEY_RSA},
                  {STR("ES256"), PUBLIC_KEY_P256},
                  {STR("EdDSA"), PUBLIC_KEY_ED25519},
                  {STR("Ed25519"), PUBLIC_KEY_ED25519}}; /* RFC 9864 */

static bool kind_of(struct str alg, enum public_key_kind *ret)
{
    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++)
        if (str_equal(alg, algorithms[i].alg)) {
            *ret = algorithms[i].kind;
            return true;
        }
    return false;
}

/* ---- keys ---- */

/* The bytes of a member in base64url; absent: it is missing, or longer than `most`. */
static struct str bytes_of(const struct json *key, const char *member, size_t most, uint8_t *to)
{
    struct str text = json_text(key, str_from(member));
    size_t size = 0;
    if (str_is_absent(text) || text.size > most / 3 * 4 + 4 || !base64url_read(text, to, &size) ||
        size == 0)
        return (struct str){0};
    return str_of((const char *)to, size);
}

/* NULL: a kind that is not used, or a wrong member. */
static struct public_key *make_key(const struct json *key)
{
    uint8_t first[RSA_BITS_MAX / 8 + 8], second[RSA_BITS_MAX / 8 + 8];
    struct str type = json_text(key, STR("kty")), curve = json_text(key, STR("crv"));
    if (str_equal(type, STR("RSA")))
        return public_key_rsa(bytes_of(key, "n", RSA_BITS_MAX / 8, first),
                              bytes_of(key, "e", RSA_EXPONENT_BYTES_MAX, second));
    if (str_equal(type, STR("EC")) && str_equal(curve, STR("P-256")))
        return public_key_p256(bytes_of(key, "x", P256_BYTES, first),
                               bytes_of(key, "y", P256_BYTES, second));
    if (str_equal(type, STR("OKP")) && str_equal(curve, STR("Ed25519")))
        return public_key_ed25519(bytes_of(key, "x", ED25519_KEY_BYTES, first));
    return NULL;
}

static bool has_verify(const struct json *operations)
{
    if (!json_is_array(operations)) return false;
    for (const struct json *v = operations->child; v != NULL; v = v->next)
        if (json_is_string(v) && str_equal(v->string, STR("verify"))) return true;
    return false;
}

/* Whether its owner has made it for signatures of this kind. A private key that is public signs
 * nothing. */
static bool is_for(const struct json *key, enum public_key_kind kind)
{
    const struct json *use = json_get(key, STR("use")), *alg = json_get(key, STR("alg"));
    const struct json *operations = json_get(key, STR("key_ops"));
    enum public_key_kind named;
    if (use != NULL && (!json_is_string(use) || !str_equal(use->string, STR("sig")))) return false;
    if (operations != NULL && !has_verify(operations)) return false;
    if (json_get(key, STR("d")) != NULL) return false;
    return alg == NULL || (json_is_string(alg) && kind_of(alg->string, &named) && named == kind);
}

/* False: it is skipped. */
static bool read_key(const struct json *object, struct jwk *ret)
{
    const struct json *kid = json_get(object, STR("kid"));
    *ret = (struct jwk){.has_kid = kid != NULL};
    if (!json_is_object(object)) return false;
    if (kid != NULL && (!json_is_string(kid) || kid->string.size > KID_BYTES_MAX)) return false;
    ret->key = make_key(object);
    if (ret->key == NULL) return false;
    if (!is_for(object, public_key_kind(ret->key))) {
        public_key_destroy(ret->key);
        return false;
    }
    if (kid != NULL) {
        memcpy(ret->kid, kid->string.bytes, kid->string.size);
        ret->kid_size = kid->string.size;
    }
    return true;
}

static struct str kid_of(const struct jwk *k)
{
    return k->has_kid ? str_of(k->kid, k->kid_size) : (struct str){0};
}

static bool has_equal(const struct jwks *s, const struct jwk *k)
{
    for (size_t i = 0; i < s->count; i++)
        if (public_key_kind(s->list[i].key) == public_key_kind(k->key) &&
            s->list[i].has_kid == k->has_kid && str_equal(kid_of(&s->list[i]), kid_of(k)))
            return true;
    return false;
}

static enum err refuse(struct fault *f, const char *why)
{
    return fault_set(f, ERR_PROVIDER_UNAVAILABLE, "", "its set of keys %s", why);
}

static enum err add_keys(const struct json *keys, struct jwks *s, struct fault *f)
{
    for (const struct json *v = keys->child; v != NULL; v = v->next) {
        struct jwk one;
        if (!read_key(v, &one)) continue;
        const char *wrong = s->count == LIMIT_OIDC_KEYS ? "has more than 64 keys"
                            : has_equal(s, &one)        ? "has two keys of one kind and one kid"
                                                        : NULL;
        if (wrong != NULL) {
            public_key_destroy(one.key);
            return refuse(f, wrong);
        }
        s->list[s->count++] = one;
    }
    return s->count > 0 ? ERR_OK : refuse(f, "has no key for RS256, ES256 or EdDSA");
}

enum err jwks_read(struct str text, struct arena *arena, struct jwks **ret, struct fault *f)
{
    struct json *document;
    struct fault why;
    enum err err = json_read(text, &(struct json_options){0}, arena, &document, &why);
    if (err == ERR_BODY_TOO_LARGE) return fault_plain(f, err);
    const struct json *keys = err == ERR_OK ? json_get(document, STR("keys")) : NULL;
    if (!json_is_array(keys)) return refuse(f, "is not a strict JSON object with a list `keys`");
    struct jwks *s = calloc(1, sizeof *s);
    if (s == NULL) return fault_plain(f, ERR_BODY_TOO_LARGE);
    err = add_keys(keys, s, f);
    if (err == ERR_OK)
        *ret = s;
    else
        jwks_destroy(s);
    return err;
}

void jwks_destroy(struct jwks *s)
{
    if (s == NULL) return;
    for (size_t i = 0; i < s->count; i++) public_key_destroy(s->list[i].key);
    free(s);
}

size_t jwks_count(const struct jwks *s) { return s->count; }

/* ---- tokens ---- */

static enum err invalid(struct fault *f, const char *why)
{
    return fault_set(f, ERR_UNAUTHENTICATED, "", "the token is not valid: %s", why);
}

/* A part of the token as JSON. */
static enum err part_of(struct str coded, const char *name, struct arena *arena, struct json **ret,
                        struct fault *f)
{
    struct fault why;
    size_t size = 0;
    char *bytes = arena_bytes(arena, coded.size + 1);
    if (bytes == NULL) return fault_plain(f, ERR_BODY_TOO_LARGE);
    if (!base64url_read(coded, (uint8_t *)bytes, &size))
        return fault_set(f, ERR_UNAUTHENTICATED, "",
                         "the token is not valid: its %s is not base64url", name);
    enum err err = json_read(str_of(bytes, size), &(struct json_options){0}, arena, ret, &why);
    if (err == ERR_BODY_TOO_LARGE) return fault_plain(f, err);
    if (err == ERR_OK && json_is_object(*ret)) return ERR_OK;
    return fault_set(f, ERR_UNAUTHENTICATED, "",
                     "the token is not valid: its %s is not a strict JSON object", name);
}

/* A member of the header that must be a text, if there is one. */
static bool text_of(const struct json *header, const char *name, struct str *ret)
{
    const struct json *v = json_get(header, str_from(name));
    *ret = json_is_string(v) ? v->string : (struct str){0};
    return v == NULL || json_is_string(v);
}

static enum err read_header(const struct json *header, struct jws *ret, struct fault *f)
{
    struct str alg;
    if (!text_of(header, "alg", &alg) || str_is_absent(alg) || !kind_of(alg, &ret->kind))
        return invalid(f, "its alg is not RS256, ES256 or EdDSA");
    if (json_get(header, STR("crit")) != NULL || json_get(header, STR("b64")) != NULL)
        return invalid(f, "its header has crit or b64, which are not supported");
    if (!text_of(header, "kid", &ret->kid)) return invalid(f, "its kid is not a text");
    if (!text_of(header, "typ", &ret->type)) return invalid(f, "its typ is not a text");
    return ERR_OK;
}

enum err jws_read(struct str text, struct arena *arena, struct jws *ret, struct fault *f)
{
    struct json *header, *claims;
    *ret = (struct jws){0};
    if (text.size > LIMIT_OIDC_TOKEN_BYTES) return invalid(f, "it is longer than 8 KiB");
    size_t first = str_find(text, '.');
    if (first == text.size) return invalid(f, "it does not have three parts");
    struct str rest = str_skip(text, first + 1);
    size_t second = str_find(rest, '.');
    if (second == rest.size) return invalid(f, "it does not have three parts");
    struct str signature = str_skip(rest, second + 1);
    ret->signed_part = str_of(text.bytes, first + 1 + second);
    /* a fourth part has a point, which is not base64url */
    if (signature.size == 0 || signature.size > (SIGNATURE_BYTES_MAX * 4 + 2) / 3 ||
        !base64url_read(signature, ret->signature, &ret->signature_size))
        return invalid(f, "its signature is not base64url, or has another length than any key's");
    enum err err = part_of(str_of(text.bytes, first), "header", arena, &header, f);
    if (err == ERR_OK) err = read_header(header, ret, f);
    if (err == ERR_OK) err = part_of(str_of(rest.bytes, second), "payload", arena, &claims, f);
    if (err == ERR_OK) ret->claims = claims;
    return err;
}

/* The one key that the token may mean; NULL: none or several. */
static const struct jwk *choose(const struct jws *token, const struct jwks *keys, bool *ret_known)
{
    const struct jwk *found = NULL;
    bool has_kid = !str_is_absent(token->kid);
    *ret_known = false;
    for (size_t i = 0; i < keys->count; i++) {
        const struct jwk *k = &keys->list[i];
        if (has_kid && !(k->has_kid && str_equal(kid_of(k), token->kid))) continue;
        *ret_known |= has_kid;
        if (public_key_kind(k->key) != token->kind) continue;
        if (found != NULL) return NULL; /* of one kind, only without a kid */
        found = k;
    }
    return found;
}

enum jws_outcome jws_verify(const struct jws *token, const struct jwks *keys)
{
    bool is_known;
    const struct jwk *k = choose(token, keys, &is_known);
    if (k == NULL) return is_known ? JWS_FORGED : JWS_UNKNOWN_KEY;
    return public_key_verify(k->key, token->signed_part,
                             str_of((const char *)token->signature, token->signature_size))
               ? JWS_VERIFIED
               : JWS_FORGED;
}
