/* token.c - claims into signed text, and back.
 *
 *   text    = header "." claims "." signature        each base64url, RFC 7515 section 3.1
 *
 * The header is compared, not parsed. Only we issue these tokens, so a text whose first part
 * differs from the header of each of our signers is not ours, and no `alg`, `jwk` or `crit` of
 * another author is ever read. The claims are written in canonical order and read as strict
 * JSON. */
#include "access/signers.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "json/json.h"

enum {
    CLAIMS_BYTES_MAX = TOKEN_TEXT_MAX * 3 / 4,
    SIGNATURE_TEXT = 86,
};
#define SECONDS_MAX UINT64_C(253402300799) /* the end of the year 9999 */

/* ---- writing ---- */

enum err signer_put_token(const struct signer *s, struct str claims, struct buf *out)
{
    char bytes[TOKEN_TEXT_MAX];
    uint8_t signature[ED25519_SIGNATURE_BYTES];
    struct buf text = buf_over(bytes, sizeof bytes);
    buf_put(&text, str_of(s->header, s->header_size));
    buf_put_byte(&text, '.');
    base64url_put(&text, claims.bytes, claims.size);
    if (text.overflow || text.capacity - text.size < 1 + SIGNATURE_TEXT) return ERR_OUT_OF_RANGE;
    if (!ed25519_sign(s->pair, buf_view(&text), signature)) return ERR_FULL;
    buf_put_byte(&text, '.');
    base64url_put(&text, signature, sizeof signature);
    check(!text.overflow);
    buf_put(out, buf_view(&text));
    return ERR_OK;
}

static void put_text(struct buf *b, struct str before, struct str text)
{
    buf_put(b, before);
    json_put_string(b, text);
}

static void put_seconds(struct buf *b, struct str before, uint64_t seconds)
{
    check(seconds <= SECONDS_MAX);
    buf_put(b, before);
    buf_put_u64(b, seconds);
}

static void put_id(struct buf *b, struct str before, const char prefix[4], struct id id)
{
    char text[ID_TEXT];
    id_write(prefix, id, text);
    buf_put(b, before);
    json_put_plain(b, str_of(text, sizeof text));
}

static void put_claims(struct buf *b, struct str issuer, const struct token_claims *c)
{
    buf_put_byte(b, '{');
    if (c->acting_for.size > 0) {
        put_text(b, STR("\"acting_for\":"), c->acting_for);
        buf_put_byte(b, ',');
    }
    put_text(b, STR("\"actor\":"), c->actor);
    put_text(b, STR(",\"aud\":"), c->audience);
    if (c->counted) buf_put_literal(b, ",\"counted\":true");
    put_seconds(b, STR(",\"exp\":"), c->expires_at);
    put_seconds(b, STR(",\"iat\":"), c->issued_at);
    put_text(b, STR(",\"iss\":"), issuer);
    put_id(b, STR(",\"jti\":"), "tok_", c->id);
    put_id(b, STR(",\"key\":"), "key_", c->key);
    put_seconds(b, STR(",\"nbf\":"), c->not_before);
    put_text(b, STR(",\"scope\":"), c->scope);
    put_text(b, STR(",\"sub\":"), c->subject);
    put_text(b, STR(",\"tenant\":"), c->tenant);
    buf_put_byte(b, '}');
}

enum err token_sign(const struct signers *s, struct str issuer, const struct token_claims *c,
                    struct buf *out)
{
    char bytes[CLAIMS_BYTES_MAX];
    struct buf claims = buf_over(bytes, sizeof bytes);
    const struct signer *by = NULL;
    for (size_t i = 0; i < s->count; i++)
        if (s->list[i].number == c->signer) by = &s->list[i];
    if (by == NULL) return ERR_NOT_FOUND;
    put_claims(&claims, issuer, c);
    return claims.overflow ? ERR_OUT_OF_RANGE : signer_put_token(by, buf_view(&claims), out);
}

/* ---- reading ---- */

enum claim {
    CLAIM_ACTING_FOR,
    CLAIM_ACTOR,
    CLAIM_AUD,
    CLAIM_COUNTED,
    CLAIM_EXP,
    CLAIM_IAT,
    CLAIM_ISS,
    CLAIM_JTI,
    CLAIM_KEY,
    CLAIM_NBF,
    CLAIM_SCOPE,
    CLAIM_SUB,
    CLAIM_TENANT,
    CLAIMS
};

static const struct str claim_names[CLAIMS] = {
    [CLAIM_ACTING_FOR] = STR("acting_for"),
    [CLAIM_ACTOR] = STR("actor"),
    [CLAIM_AUD] = STR("aud"),
    [CLAIM_COUNTED] = STR("counted"),
    [CLAIM_EXP] = STR("exp"),
    [CLAIM_IAT] = STR("iat"),
    [CLAIM_ISS] = STR("iss"),
    [CLAIM_JTI] = STR("jti"),
    [CLAIM_KEY] = STR("key"),
    [CLAIM_NBF] = STR("nbf"),
    [CLAIM_SCOPE] = STR("scope"),
    [CLAIM_SUB] = STR("sub"),
    [CLAIM_TENANT] = STR("tenant"),
};

static enum err refuse(struct fault *f, const char *why)
{
    return fault_set(f, ERR_UNAUTHENTICATED, "", "the token is not valid: %s", why);
}

/* Sorts the members. False: a member that we do not write, which could be a restriction. */
static bool claims_find(const struct json *object, const struct json *ret[CLAIMS])
{
    for (unsigned i = 0; i < CLAIMS; i++) ret[i] = NULL;
    for (const struct json *v = object->child; v != NULL; v = v->next) {
        unsigned i = 0;
        while (i < CLAIMS && !str_equal(v->key, claim_names[i])) i++;
        if (i == CLAIMS) return false;
        ret[i] = v;
    }
    return true;
}

static bool text_of(const struct json *v, struct str *ret)
{
    if (!json_is_string(v) || v->string.size == 0) return false; /* the reader refuses U+0000 */
    *ret = v->string;
    return true;
}

/* Whole seconds, written as digits only. */
static bool seconds_of(const struct json *v, uint64_t *ret)
{
    return json_is_number(v) && str_to_u64(v->raw, ret) && *ret <= SECONDS_MAX;
}

static bool id_of(const struct json *v, const char prefix[4], struct id *ret)
{
    return json_is_string(v) && id_read(prefix, v->string, ret);
}

static bool claims_read(const struct json *object, struct str issuer, struct token_claims *ret)
{
    const struct json *at[CLAIMS];
    struct str by;
    struct token_claims c = {0};
    if (!json_is_object(object) || !claims_find(object, at)) return false;
    bool right = text_of(at[CLAIM_ACTOR], &c.actor) && text_of(at[CLAIM_AUD], &c.audience) &&
                 text_of(at[CLAIM_SCOPE], &c.scope) && text_of(at[CLAIM_SUB], &c.subject) &&
                 text_of(at[CLAIM_TENANT], &c.tenant) && text_of(at[CLAIM_ISS], &by) &&
                 str_equal(by, issuer);
    if (at[CLAIM_ACTING_FOR] != NULL) right = right && text_of(at[CLAIM_ACTING_FOR], &c.acting_for);
    right = right && seconds_of(at[CLAIM_EXP], &c.expires_at) &&
            seconds_of(at[CLAIM_IAT], &c.issued_at) && seconds_of(at[CLAIM_NBF], &c.not_before);
    right = right && id_of(at[CLAIM_JTI], "tok_", &c.id) && id_of(at[CLAIM_KEY], "key_", &c.key);
    if (at[CLAIM_COUNTED] != NULL) {
        c.counted = true;
        right = right && at[CLAIM_COUNTED]->type == JSON_TRUE;
    }
    if (right) *ret = c;
    return right;
}

/* The three parts of a text, and the signer that its header names. */
struct sealed {
    struct str claims, signature, signed_part;
    const struct signer *by; /* NULL: none of our signers */
};

static bool sealed_read(const struct signers *s, struct str text, struct sealed *ret)
{
    size_t first = str_find(text, '.');
    if (first == text.size) return false;
    struct str rest = str_skip(text, first + 1);
    size_t second = str_find(rest, '.');
    if (second == rest.size) return false;
    ret->claims = str_of(rest.bytes, second);
    /* base64url has no dot, so a third one is refused */
    ret->signature = str_skip(rest, second + 1);
    ret->signed_part = str_of(text.bytes, first + 1 + second);
    ret->by = NULL;
    for (size_t i = 0; i < s->count; i++)
        if (str_equal(str_of(text.bytes, first), str_of(s->list[i].header, s->list[i].header_size)))
            ret->by = &s->list[i];
    return ret->claims.size > 0 && ret->signature.size == SIGNATURE_TEXT;
}

enum err claims_in_time(const struct token_claims *c, uint64_t now_ms, struct fault *f)
{
    if (now_ms / 1000 < c->not_before) return refuse(f, "it is not valid yet");
    if (now_ms / 1000 >= c->expires_at)
        return fault_set(f, ERR_CREDENTIAL_EXPIRED, "", "the token has expired");
    return ERR_OK;
}

/* Refuses claims that a mint never makes, even under a valid signature. */
static enum err claims_are_possible(const struct token_claims *c, uint64_t now_ms, struct fault *f)
{
    if (c->expires_at <= c->issued_at || c->expires_at - c->issued_at > LIMIT_TOKEN_TTL_SECONDS)
        return refuse(f, "its lifetime is longer than allowed, or not positive");
    if (c->issued_at > now_ms / 1000) return refuse(f, "it was issued in the future");
    if (id_time_ms(c->id) > now_ms + TOKEN_SKEW_MS)
        return refuse(f, "its id was made in the future");
    return ERR_OK;
}

enum err token_verify(const struct signers *s, struct str issuer, struct str text, uint64_t now_ms,
                      struct arena *arena, struct token_claims *ret, struct fault *f)
{
    static const struct json_options options = {.depth_max = 2};
    struct sealed sealed;
    uint8_t signature[SIGNATURE_TEXT];
    size_t size;
    if (text.size > TOKEN_TEXT_MAX) return refuse(f, "it is longer than a token of this service");
    if (!sealed_read(s, text, &sealed))
        return refuse(f, "it does not have the form of a token of this service");
    if (sealed.by == NULL) return refuse(f, "its header names no signing key of this engine");
    if (!base64url_read(sealed.signature, signature, &size) || size != ED25519_SIGNATURE_BYTES)
        return refuse(f, "it does not have the form of a token of this service");
    if (!ed25519_verify(sealed.by->pair, sealed.signed_part, signature))
        return refuse(f, "its signature is wrong");

    uint8_t *claims = (uint8_t *)arena_bytes(arena, sealed.claims.size);
    if (claims == NULL) return fault_plain(f, ERR_BODY_TOO_LARGE);
    struct json *object;
    struct fault why;
    if (!base64url_read(sealed.claims, claims, &size))
        return refuse(f, "its claims are not base64url");
    enum err err = json_read(str_of((char *)claims, size), &options, arena, &object, &why);
    if (err == ERR_BODY_TOO_LARGE) return fault_plain(f, err);
    if (err != ERR_OK || !claims_read(object, issuer, ret))
        return refuse(f, "its claims are not those of a token of this service");
    ret->signer = sealed.by->number;
    err = claims_are_possible(ret, now_ms, f);
    return err == ERR_OK ? claims_in_time(ret, now_ms, f) : err;
}

/* ---- copies ---- */

size_t claims_strings(const struct token_claims *c)
{
    return c->subject.size + c->tenant.size + c->actor.size + c->acting_for.size +
           c->audience.size + c->scope.size;
}

static void string_move(struct str *s, char **to)
{
    if (str_is_absent(*s)) return;
    memcpy(*to, s->bytes, s->size);
    s->bytes = *to;
    *to += s->size;
}

void claims_move(struct token_claims *c, char *to)
{
    string_move(&c->subject, &to);
    string_move(&c->tenant, &to);
    string_move(&c->actor, &to);
    string_move(&c->acting_for, &to);
    string_move(&c->audience, &to);
    string_move(&c->scope, &to);
}

const struct token_claims *token_claims_copy(const struct token_claims *c, struct arena *arena)
{
    struct token_claims *copy = arena_new(arena, struct token_claims);
    char *strings = arena_bytes(arena, claims_strings(c));
    if (copy == NULL || strings == NULL) return NULL;
    *copy = *c;
    claims_move(copy, strings);
    return copy;
}

struct token_claims *token_claims_keep(const struct token_claims *c)
{
    struct token_claims *copy = malloc(sizeof *copy + claims_strings(c));
    if (copy == NULL) return NULL;
    *copy = *c;
    claims_move(copy, (char *)(copy + 1));
    return copy;
}
