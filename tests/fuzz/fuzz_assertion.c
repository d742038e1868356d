/* fuzz_assertion.c - an assertion from anywhere is refused. Members from anywhere under our own MAC are
 * refused, too, unless they are what a platform can assert: then they are asserted again to the same
 * members. So are the claims of a vote, as the journal has them. The first byte chooses which. */
#include <stdlib.h>

#include "access/assertion.h"
#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct pepper pepper = {.bytes = {7}};
static struct sha256 key;
static struct arena arena;

static bool same_claims(const struct claim *a, size_t a_count, const struct claim *b,
                        size_t b_count)
{
    if (a_count != b_count) return false;
    for (size_t i = 0; i < a_count; i++)
        if (!str_equal(a[i].name, b[i].name) || !str_equal(a[i].value, b[i].value)) return false;
    return true;
}

static bool same(const struct assertion *a, const struct assertion *b)
{
    return id_equal(a->id, b->id) && id_equal(a->key, b->key) && str_equal(a->tenant, b->tenant) &&
           str_equal(a->person, b->person) && str_equal(a->method, b->method) &&
           memcmp(&a->target, &b->target, sizeof a->target) == 0 && a->roles == b->roles &&
           a->proof == b->proof && a->made_at == b->made_at &&
           same_claims(a->claims, a->claim_count, b->claims, b->claim_count);
}

static void any_text(struct str text)
{
    struct assertion a;
    struct fault f;
    (void)assertion_shown(text);
    check(assertion_read(text, &key, &arena, &a, &f) == ERR_UNAUTHENTICATED);
}

static void sign(struct buf *out, struct str members)
{
    buf_put_literal(out, ASSERTION_PREFIX);
    base64url_put(out, members.bytes, members.size);
    const struct sha256 mac =
        hmac_once(str_of((const char *)key.bytes, SHA256_BYTES), buf_view(out));
    buf_put_byte(out, '.');
    base64url_put(out, mac.bytes, SHA256_BYTES);
}

static void any_members(struct str members)
{
    static char first[2 * ASSERTION_TEXT_MAX], second[2 * ASSERTION_TEXT_MAX];
    struct buf out = buf_over(first, sizeof first), again = buf_over(second, sizeof second);
    struct assertion a, b;
    struct fault f;
    sign(&out, members);
    if (out.overflow || assertion_read(buf_view(&out), &key, &arena, &a, &f) != ERR_OK) return;
    static const struct id none;
    check(id_equal(a.key, none) == (a.proof == PROOF_OIDC));
    check(a.proof == PROOF_OIDC ? (a.roles & ~(uint32_t)ROLES_OF_PEOPLE) == 0 : a.claim_count == 0);
    check(a.person.size > 0 && a.tenant.size > 0 && a.made_at > 0);
    check(claims_check(a.claims, a.claim_count, &f) == ERR_OK);
    if (!assertion_put(&again, &key, &a)) return; /* longer, with other escapes */
    check(assertion_read(buf_view(&again), &key, &arena, &b, &f) == ERR_OK && same(&a, &b));
}

static void any_claims(struct str text)
{
    const struct claim *claims, *again;
    size_t count, again_count;
    struct buf out;
    if (claims_read(text, &arena, &claims, &count) != ERR_OK) return;
    buf_init(&out, 1 << 10, 1 << 20);
    claims_put(&out, claims, count);
    check(!out.overflow);
    check(claims_read(buf_view(&out), &arena, &again, &again_count) == ERR_OK);
    check(same_claims(claims, count, again, again_count));
    buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size == 0) return 0;
    if (arena.first == NULL) {
        arena_init(&arena, 1 << 16, 64 << 20);
        key = assertion_key(&pepper);
    }
    arena_reset(&arena);
    struct str text = str_of((const char *)bytes + 1, size - 1);
    switch (bytes[0]) {
    case 'm': any_members(text); break;
    case 'c': any_claims(text); break;
    default: any_text(text);
    }
    return 0;
}
