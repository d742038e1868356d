#include "access/assertion.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"

enum { MAC_TEXT = 43 };

const char *proof_name(enum proof p)
{
    static const char *const names[PROOFS] = {[PROOF_KEY] = "key", [PROOF_OIDC] = "oidc"};
    check(p < PROOFS);
    return names[p];
}

bool proof_read(struct str name, enum proof *ret)
{
    for (unsigned p = 0; p < PROOFS; p++)
        if (str_equal(name, str_from(proof_name((enum proof)p)))) {
            *ret = (enum proof)p;
            return true;
        }
    return false;
}

struct sha256 assertion_key(const struct pepper *p)
{
    return pepper_derive(p, STR("writ assertions of sessions 1"));
}

/* "wa", the digit of a format, "." */
bool assertion_shown(struct str credential)
{
    return str_starts(credential, STR("wa")) && credential.size > 3 && credential.bytes[2] >= '0' &&
           credential.bytes[2] <= '9' && credential.bytes[3] == '.';
}

/* Where the rights come from: a key, or else the assertion with its claims. */
static bool is_consistent(const struct assertion *a)
{
    static const struct id none;
    struct fault ignored;
    if (a->proof == PROOF_KEY) return !id_equal(a->key, none) && a->claim_count == 0;
    return id_equal(a->key, none) && (a->roles & ~(uint32_t)ROLES_OF_PEOPLE) == 0 &&
           claims_check(a->claims, a->claim_count, &ignored) == ERR_OK;
}

/* ---- making ---- */

static void put_members(struct buf *out, const struct assertion *a)
{
    char id[ID_TEXT], key[ID_TEXT], target[SHA256_HEX];
    sha256_write_hex(a->target, target);
    id_write("asr_", a->id, id);
    id_write("key_", a->key, key);
    buf_put_byte(out, '{');
    if (a->proof != PROOF_KEY) {
        buf_put_literal(out, "\"claims\":");
        claims_put(out, a->claims, a->claim_count);
        buf_put_byte(out, ',');
    }
    buf_put_literal(out, "\"id\":");
    json_put_plain(out, str_of(id, ID_TEXT));
    if (a->proof == PROOF_KEY) {
        buf_put_literal(out, ",\"key\":");
        json_put_plain(out, str_of(key, ID_TEXT));
    }
    buf_printf(out, ",\"made_at\":%llu,\"method\":", (unsigned long long)a->made_at);
    json_put_string(out, a->method);
    buf_put_literal(out, ",\"person\":");
    json_put_string(out, a->person);
    buf_put_literal(out, ",\"proof\":");
    json_put_plain(out, str_from(proof_name(a->proof)));
    buf_printf(out, ",\"roles\":%u,\"target\":", (unsigned)a->roles);
    json_put_plain(out, str_of(target, SHA256_HEX));
    buf_put_literal(out, ",\"tenant\":");
    json_put_string(out, a->tenant);
    buf_put_byte(out, '}');
}

bool assertion_put(struct buf *out, const struct sha256 *key, const struct assertion *a)
{
    size_t from = out->size;
    struct buf members;
    if (!is_consistent(a)) return false;
    buf_init(&members, 1 << 10, ASSERTION_TEXT_MAX);
    put_members(&members, a);
    buf_put_literal(out, ASSERTION_PREFIX);
    base64url_put(out, members.bytes, members.size);
    bool whole = !members.overflow && !out->overflow &&
                 out->size - from + 1 + MAC_TEXT <= ASSERTION_TEXT_MAX;
    buf_fini(&members);
    if (!whole) return false;
    const struct sha256 mac = hmac_once(str_of((const char *)key->bytes, SHA256_BYTES),
                                        str_of(out->bytes + from, out->size - from));
    buf_put_byte(out, '.');
    base64url_put(out, mac.bytes, SHA256_BYTES);
    return !out->overflow;
}

/* ---- reading ---- */

static enum err refuse(struct fault *f, const char *why)
{
    return fault_set(f, ERR_UNAUTHENTICATED, "", "the platform's assertion is not valid: %s", why);
}

static bool text_of(const struct json *o, const char *name, struct str *ret)
{
    *ret = json_text(o, str_from(name));
    return !str_is_absent(*ret) && ret->size > 0;
}

/* ERR_UNAUTHENTICATED: wrong. */
static enum err read_claims(const struct json *o, struct arena *arena, struct assertion *ret)
{
    const struct json *list = json_get(o, STR("claims"));
    if ((list == NULL) != (ret->proof == PROOF_KEY)) return ERR_UNAUTHENTICATED;
    if (list == NULL) return ERR_OK;
    enum err err = claims_read_list(list, arena, &ret->claims, &ret->claim_count);
    return err == ERR_FULL ? ERR_BODY_TOO_LARGE : err == ERR_OK ? ERR_OK : ERR_UNAUTHENTICATED;
}

/* Of a key, or of none. */
static bool read_key(const struct json *o, struct assertion *ret)
{
    struct str key;
    if (json_get(o, STR("key")) == NULL) return ret->proof != PROOF_KEY;
    return text_of(o, "key", &key) && id_read("key_", key, &ret->key);
}

static enum err read_members(const struct json *o, struct arena *arena, struct assertion *ret)
{
    struct str id, proof, target;
    uint64_t roles = json_u64(o, STR("roles"), UINT64_MAX);
    *ret = (struct assertion){.made_at = json_u64(o, STR("made_at"), 0)};
    bool right = text_of(o, "id", &id) && id_read("asr_", id, &ret->id) &&
                 text_of(o, "proof", &proof) && proof_read(proof, &ret->proof) &&
                 read_key(o, ret) && text_of(o, "method", &ret->method) &&
                 text_of(o, "target", &target) && sha256_read_hex(target, &ret->target) &&
                 text_of(o, "tenant", &ret->tenant) && text_of(o, "person", &ret->person);
    /* no other bit: a role that a key cannot have */
    if (!right || roles > (ROLE_ADMIN | (ROLE_ADMIN - 1)) || ret->made_at == 0)
        return ERR_UNAUTHENTICATED;
    ret->roles = (uint32_t)roles;
    enum err err = read_claims(o, arena, ret);
    return err == ERR_OK && !is_consistent(ret) ? ERR_UNAUTHENTICATED : err;
}

static bool mac_is_right(struct str text, size_t signed_size, const struct sha256 *key)
{
    uint8_t mac[MAC_TEXT];
    size_t size = 0;
    struct str shown = str_skip(text, signed_size + 1);
    if (shown.size != MAC_TEXT || !base64url_read(shown, mac, &size) || size != SHA256_BYTES)
        return false;
    const struct sha256 right =
        hmac_once(str_of((const char *)key->bytes, SHA256_BYTES), str_of(text.bytes, signed_size));
    return bytes_equal_secret(mac, right.bytes, SHA256_BYTES);
}

enum err assertion_read(struct str credential, const struct sha256 *key, struct arena *arena,
                        struct assertion *ret, struct fault *f)
{
    static const struct json_options options = {.depth_max = 3};
    const size_t prefix = sizeof ASSERTION_PREFIX - 1;
    if (!assertion_shown(credential) || credential.size > ASSERTION_TEXT_MAX ||
        credential.size < prefix + 1 + MAC_TEXT)
        return refuse(f, "it does not have the form of one");
    if (!str_starts(credential, STR(ASSERTION_PREFIX)))
        return refuse(
            f, "its format is that of another version: run the same version of both programs");
    size_t signed_size = credential.size - 1 - MAC_TEXT;
    if (credential.bytes[signed_size] != '.' || !mac_is_right(credential, signed_size, key))
        return refuse(f, "it was not made by a platform with the same pepper");
    struct str coded = str_skip(str_of(credential.bytes, signed_size), prefix);
    char *members = arena_bytes(arena, coded.size + 1);
    struct json *object;
    struct fault why;
    size_t size = 0;
    if (members == NULL) return fault_plain(f, ERR_BODY_TOO_LARGE);
    if (!base64url_read(coded, (uint8_t *)members, &size)) return refuse(f, "it is not base64url");
    enum err err = json_read(str_of(members, size), &options, arena, &object, &why);
    if (err == ERR_OK)
        err = json_is_object(object) ? read_members(object, arena, ret) : ERR_UNAUTHENTICATED;
    if (err == ERR_BODY_TOO_LARGE) return fault_plain(f, err);
    return err == ERR_OK ? ERR_OK : refuse(f, "its members are not those of an assertion");
}

enum err assertion_fits(const struct assertion *a, struct str method, struct str target,
                        uint64_t now_ms, uint64_t started_ms, struct fault *f)
{
    const struct sha256 asked = sha256_once(target);
    if (!str_equal(a->method, method) || memcmp(&a->target, &asked, sizeof asked) != 0)
        return fault_set(f, ERR_ASSERTION_REFUSED, "", "the assertion is for another request");
    if (a->made_at > now_ms + ASSERTION_SKEW_MS)
        return fault_set(f, ERR_ASSERTION_REFUSED, "",
                         "the assertion was made in the future: the platform's clock is ahead");
    if (now_ms >= a->made_at + ASSERTION_LIFE_MS)
        return fault_set(f, ERR_ASSERTION_REFUSED, "", "the assertion is older than %d s",
                         ASSERTION_LIFE_MS / 1000);
    if (a->made_at < started_ms)
        return fault_set(
            f, ERR_ASSERTION_REFUSED, "",
            "the assertion was made before this engine started: send the request again");
    return ERR_OK;
}

/* ---- accepted once ---- */

struct accepted {
    struct id id;
    uint64_t ends_at; /* ms; 0: free */
};

struct assertions {
    pthread_mutex_t lock;
    struct accepted list[LIMIT_ASSERTIONS];
    size_t used; /* places that were ever taken */
};

struct assertions *assertions_create(void)
{
    struct assertions *all = calloc(1, sizeof *all);
    check(all != NULL);
    pthread_mutex_init(&all->lock, NULL);
    return all;
}

void assertions_destroy(struct assertions *all)
{
    if (all == NULL) return;
    pthread_mutex_destroy(&all->lock);
    free(all);
}

/* A place for it, or NULL: there is none. */
static struct accepted *place_for(struct assertions *all, const struct assertion *a,
                                  uint64_t now_ms, bool *ret_again)
{
    struct accepted *free_one = NULL;
    for (size_t i = 0; i < all->used; i++) {
        struct accepted *one = &all->list[i];
        *ret_again = one->ends_at != 0 && id_equal(one->id, a->id);
        if (*ret_again) return NULL;
        if (free_one == NULL && one->ends_at <= now_ms) free_one = one;
    }
    if (free_one == NULL && all->used < LIMIT_ASSERTIONS) free_one = &all->list[all->used++];
    return free_one;
}

/* A linear search: people make these calls, and the whole list is 200 KB. */
enum err assertions_accept(struct assertions *all, const struct assertion *a, uint64_t now_ms,
                           struct fault *f)
{
    bool again = false;
    pthread_mutex_lock(&all->lock);
    struct accepted *one = place_for(all, a, now_ms, &again);
    if (one != NULL)
        *one = (struct accepted){.id = a->id,
                                 .ends_at = a->made_at + ASSERTION_LIFE_MS + ASSERTION_SKEW_MS};
    pthread_mutex_unlock(&all->lock);
    if (one != NULL) return ERR_OK;
    if (again)
        return fault_set(f, ERR_ASSERTION_REFUSED, "",
                         "the assertion was used already: each is for one call");
    return fault_set(f, ERR_OVERLOADED, "",
                     "sessions made %d calls within a minute already; try again later",
                     LIMIT_ASSERTIONS);
}
