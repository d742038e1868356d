#include "engine/decision/digest.h"

#include "base/check.h"

enum { RETRY_KEY_MAX = 255 };

static void add(struct hasher *h, struct str part)
{
    check(part.size <= UINT32_MAX);
    uint8_t size[4] = {(uint8_t)part.size, (uint8_t)(part.size >> 8), (uint8_t)(part.size >> 16),
                       (uint8_t)(part.size >> 24)};
    hasher_add(h, str_of((const char *)size, sizeof size));
    hasher_add(h, part);
}

_Static_assert(sizeof(struct slot_key) * 2 == SHA256_BYTES, "half of a digest");

static struct slot_key half_of(struct sha256 digest)
{
    struct slot_key k;
    memcpy(k.bytes, digest.bytes, sizeof k.bytes);
    return k;
}

void digest_keys_derive(struct digest_keys *k, const struct pepper *p)
{
    k->binding = pepper_derive(p, STR("writ binding of reviews 1"));
    k->request = pepper_derive(p, STR("writ requests under review 1"));
    k->retry = pepper_derive(p, STR("writ bodies of retries 1"));
}

unsigned slot_of_subject(struct hasher *h, struct str tenant, bool is_user, struct str subject)
{
    check(!str_is_absent(subject));
    hasher_begin(h);
    add(h, is_user ? STR("user") : STR("actor"));
    add(h, tenant);
    add(h, subject);
    return slot_of_key(half_of(hasher_end(h)));
}

/* FNV-1a (Fowler, Noll, Vo), with a 0 after each part. If two limits have the same tag, their
 * counters are kept as long as the longer of their windows; that is the only effect. */
static uint32_t tag_add(uint32_t tag, struct str part)
{
    for (size_t i = 0; i < part.size; i++) tag = (tag ^ (uint8_t)part.bytes[i]) * 16777619u;
    return tag * 16777619u;
}

uint32_t limit_tag_of(struct str tenant, struct str policy_name, struct str rule_id,
                      enum limit_per per)
{
    uint32_t tag = tag_add(2166136261u, tenant);
    tag = tag_add(tag_add(tag, policy_name), rule_id);
    return tag_add(tag, str_from(limit_per_name(per)));
}

static void add_limit(struct hasher *h, struct str tenant, const struct policy_limit *l)
{
    add(h, tenant);
    add(h, l->policy_name);
    add(h, l->rule_id);
    add(h, str_from(limit_per_name(l->per)));
}

struct slot_key limit_slot_key(struct hasher *h, struct str tenant, const struct policy_limit *l)
{
    check(!str_is_absent(tenant) && !str_is_absent(l->policy_name));
    hasher_begin(h);
    add(h, STR("limit of any window"));
    add_limit(h, tenant, l);
    add(h, l->value);
    struct slot_key k = half_of(hasher_end(h));
    uint32_t tag = limit_tag_of(tenant, l->policy_name, l->rule_id, l->per);
    for (unsigned i = 0; i < 4; i++) k.bytes[LIMIT_TAG_AT + i] = (uint8_t)(tag >> (8 * i));
    return k;
}

struct slot_key old_limit_slot_key(struct hasher *h, struct str tenant,
                                   const struct policy_limit *l, uint64_t window_ms)
{
    char window[24];
    struct buf b = buf_over(window, sizeof window);
    buf_put_u64(&b, window_ms);
    check(!b.overflow && window_ms > 0);
    hasher_begin(h);
    add(h, STR("limit"));
    add_limit(h, tenant, l);
    add(h, buf_view(&b));
    add(h, l->value);
    return half_of(hasher_end(h));
}

_Static_assert(sizeof(struct review_digest) <= SHA256_BYTES, "it is the head of a digest");

static struct review_digest kept_digest(struct sha256 digest)
{
    struct review_digest d;
    memcpy(d.bytes, digest.bytes, sizeof d.bytes);
    return d;
}

static enum err check_header(struct str header, struct fault *f)
{
    bool printable = header.size > 0 && header.size <= RETRY_KEY_MAX;
    for (size_t i = 0; printable && i < header.size; i++)
        printable = header.bytes[i] >= 0x20 && header.bytes[i] <= 0x7e;
    if (printable) return ERR_OK;
    return fault_set(f, ERR_BAD_HEADER, "",
                     "Idempotency-Key: must be 1 to %d printable ASCII characters", RETRY_KEY_MAX);
}

static enum err canonical_body(const struct json *body, struct arena *arena, struct str *ret,
                               struct fault *f)
{
    size_t most = json_canonical_most(body);
    char *bytes = arena_bytes(arena, most);
    if (bytes == NULL) return fault_plain(f, ERR_BODY_TOO_LARGE);
    struct buf canonical = buf_over(bytes, most);
    json_put_canonical(&canonical, body);
    if (canonical.overflow) return fault_plain(f, ERR_OVERLOADED);
    *ret = buf_view(&canonical);
    return ERR_OK;
}

static struct review_digest body_mac(struct hasher *h, const struct digest_keys *keys,
                                     struct str body)
{
    return kept_digest(hasher_hmac(h, str_of((const char *)keys->retry.bytes, SHA256_BYTES), body));
}

enum err retry_digest(struct hasher *h, const struct digest_keys *keys, struct str header,
                      const struct retried *request, struct arena *arena, struct retry *ret,
                      struct fault *f)
{
    *ret = (struct retry){0};
    if (str_is_absent(header)) return ERR_OK;
    struct str body;
    enum err err = check_header(header, f);
    if (err == ERR_OK) err = canonical_body(request->body, arena, &body, f);
    if (err != ERR_OK) return err;
    check(!str_is_absent(request->tenant) && request->body != NULL);
    ret->body = body_mac(h, keys, body);
    ret->body_plain = kept_digest(hasher_sha256(h, body));
    hasher_begin(h);
    add(h, STR("retry"));
    add(h, request->tenant);
    add(h, request->credential);
    add(h, request->route);
    add(h, header);
    ret->key = kept_digest(hasher_end(h));
    ret->given = true;
    return ERR_OK;
}

static void add_asker(struct hasher *h, struct str tenant, const struct requester *asker)
{
    add(h, tenant);
    add(h, asker->principal);
    add(h, asker->owner);
    add(h, str_is_absent(asker->token_actor) ? STR("key") : STR("token"));
    add(h, asker->token_actor);
    add(h, asker->token_acting_for);
}

enum err outcome_digest(struct hasher *h, const struct digest_keys *keys, struct str header,
                        const struct requester *asker, struct str tenant, const struct json *body,
                        struct arena *arena, struct retry_outcome *ret, struct fault *f)
{
    check(!str_is_absent(header) && !str_is_absent(tenant));
    struct str canonical;
    enum err err = check_header(header, f);
    if (err == ERR_OK) err = canonical_body(body, arena, &canonical, f);
    if (err != ERR_OK) return err;
    *ret = (struct retry_outcome){.body = body_mac(h, keys, canonical)};
    hasher_begin(h);
    add(h, STR("outcomes of a tenant"));
    add(h, tenant);
    ret->tenant = half_of(hasher_end(h));
    hasher_begin(h);
    add(h, STR("outcomes of a key"));
    add(h, tenant);
    add(h, asker->principal);
    add(h, asker->owner);
    ret->asker = half_of(hasher_end(h));
    hasher_begin(h);
    add(h, STR("outcome"));
    add_asker(h, tenant, asker);
    add(h, header);
    ret->key = half_of(hasher_end(h));
    return ERR_OK;
}
