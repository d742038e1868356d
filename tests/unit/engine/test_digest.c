/* Where things live: whatever makes two of them different is a part of their place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "engine/decision/digest.h"

struct scene {
    struct hasher *hasher;
    struct digest_keys keys;
    struct arena arena;
};

static int set_up(void **state)
{
    static struct scene s;
    s.hasher = hasher_create();
    digest_keys_derive(&s.keys, &(struct pepper){{1, 2, 3}});
    arena_init(&s.arena, 4096, 1 << 20);
    *state = &s;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;
    hasher_destroy(s->hasher);
    arena_fini(&s->arena);
    return 0;
}

/* Two that shared a counter would use up each other's room. */
static void no_two_limits_share_a_counter(void **state)
{
    struct scene *s = *state;
    static const struct {
        struct str tenant;
        struct policy_limit limit;
    } limits[] = {
#define LIMIT(t, policy, rule, whose, named, window)                                               \
    {                                                                                              \
        STR(t),                                                                                    \
        {                                                                                          \
            .policy_name = STR(policy), .rule_id = STR(rule), .per = whose, .value = STR(named),   \
            .window_ms = window                                                                    \
        }                                                                                          \
    }
        LIMIT("acme", "base", "few", PER_ACTOR, "bot", 1000),
        LIMIT("other", "base", "few", PER_ACTOR, "bot", 1000),
        LIMIT("acme", "more", "few", PER_ACTOR, "bot", 1000),
        LIMIT("acme", "base", "each", PER_ACTOR, "bot", 1000),
        LIMIT("acme", "base", "few", PER_USER, "bot", 1000),
        LIMIT("acme", "base", "few", PER_ACTOR, "coder", 1000),
        LIMIT("acmeb", "ase", "few", PER_ACTOR, "bot", 1000),
#undef LIMIT
    };
    enum { COUNT = sizeof limits / sizeof *limits };
    struct slot_key keys[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        struct slot_key again = limit_slot_key(s->hasher, limits[i].tenant, &limits[i].limit);
        keys[i] = limit_slot_key(s->hasher, limits[i].tenant, &limits[i].limit);
        assert_memory_equal(again.bytes, keys[i].bytes, sizeof again.bytes);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(keys[i].bytes, keys[k].bytes, sizeof keys[i].bytes);
    }
}

/* What was counted is carried over when the window changes; programs before made another key of
 * it, and that is found as it was (a digest that they made). */
static void the_key_of_a_counter_does_not_hold_the_window(void **state)
{
    struct scene *s = *state;
    struct policy_limit l = {.policy_name = STR("base"),
                             .rule_id = STR("few"),
                             .per = PER_ACTOR,
                             .value = STR("bot"),
                             .window_ms = 1000};
    struct slot_key before = limit_slot_key(s->hasher, STR("acme"), &l);
    struct slot_key old = old_limit_slot_key(s->hasher, STR("acme"), &l, 1000);
    static const uint8_t made_before[SLOT_KEY_BYTES] = {0x00, 0x29, 0xc7, 0x91, 0xd0, 0x2a,
                                                        0x3a, 0x52, 0x8f, 0xa1, 0xa1, 0x16,
                                                        0x89, 0x68, 0xc1, 0x8c};
    assert_memory_equal(old.bytes, made_before, sizeof old.bytes);
    l.window_ms = 2000;
    struct slot_key after = limit_slot_key(s->hasher, STR("acme"), &l);
    assert_memory_equal(before.bytes, after.bytes, sizeof before.bytes);
    assert_int_equal(limit_tag(&after),
                     limit_tag_of(STR("acme"), STR("base"), STR("few"), PER_ACTOR));
    l.value = STR("coder");
    struct slot_key other = limit_slot_key(s->hasher, STR("acme"), &l);
    assert_int_equal(limit_tag(&after), limit_tag(&other));
    assert_memory_not_equal(after.bytes, other.bytes, LIMIT_TAG_AT);
}

static struct retry retry_of(struct scene *s, const char *tenant, const char *credential,
                             const char *route, const char *header, const char *text)
{
    struct json *body;
    struct retry retry;
    struct fault f;
    assert_int_equal(json_read(str_from(text), NULL, &s->arena, &body, &f), ERR_OK);
    const struct retried request = {.tenant = str_from(tenant),
                                    .credential = str_from(credential),
                                    .route = str_from(route),
                                    .body = body};
    assert_int_equal(
        retry_digest(s->hasher, &s->keys, str_from(header), &request, &s->arena, &retry, &f),
        ERR_OK);
    assert_true(retry.given);
    return retry;
}

static bool digest_same(struct review_digest a, struct review_digest b)
{
    return review_digest_equal(&a, &b);
}

/* Else one would be told the answer that another was given. */
static void an_idempotency_key_is_of_one_tenant_credential_and_route(void **state)
{
    struct scene *s = *state;
    struct retry one = retry_of(s, "acme", "key_a", "mint", "k", "{\"a\":1,\"b\":2}");
    const struct retry others[] = {retry_of(s, "other", "key_a", "mint", "k", "{\"a\":1,\"b\":2}"),
                                   retry_of(s, "acme", "key_b", "mint", "k", "{\"a\":1,\"b\":2}"),
                                   retry_of(s, "acme", "key_a", "redeem", "k", "{\"a\":1,\"b\":2}"),
                                   retry_of(s, "acme", "key_a", "mint", "l", "{\"a\":1,\"b\":2}")};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_false(digest_same(one.key, others[i].key));
        assert_true(digest_same(one.body, others[i].body));
    }
    struct retry same = retry_of(s, "acme", "key_a", "mint", "k", "{ \"b\": 2, \"a\": 1.0 }");
    assert_true(digest_same(one.key, same.key) && digest_same(one.body, same.body));
    struct retry changed = retry_of(s, "acme", "key_a", "mint", "k", "{\"a\":1,\"b\":3}");
    assert_true(digest_same(one.key, changed.key) && !digest_same(one.body, changed.body));
}

/* Each purpose has a key of its own, and another pepper has others. */
static void keys_of_digests_are_of_the_pepper(void **state)
{
    struct scene *s = *state;
    struct digest_keys again, others;
    digest_keys_derive(&again, &(struct pepper){{1, 2, 3}});
    digest_keys_derive(&others, &(struct pepper){{1, 2, 4}});
    const struct sha256 all[] = {s->keys.binding, s->keys.request, s->keys.retry,
                                 others.binding,  others.request,  others.retry};
    assert_memory_equal(&again, &s->keys, sizeof again);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(all[i].bytes, all[k].bytes, SHA256_BYTES);
}

/* What is kept of a body is no plain digest; a body that an earlier version kept is known again. */
static void the_body_of_a_retry_is_kept_under_a_key(void **state)
{
    struct scene *s = *state;
    struct retry r = retry_of(s, "acme", "key_a", "redeem", "k", "{\"pin\":\"0417\"}");
    struct retry other = retry_of(s, "acme", "key_a", "redeem", "k", "{\"pin\":\"0418\"}");
    struct sha256 plain = sha256_once(STR("{\"pin\":\"0417\"}"));
    struct review_digest before;
    memcpy(before.bytes, plain.bytes, sizeof before.bytes);
    assert_false(digest_same(r.body, before));
    assert_true(retry_has_body(&r, &r.body) && retry_has_body(&r, &before));
    assert_false(retry_has_body(&other, &r.body) || retry_has_body(&other, &before));
    s->keys.retry.bytes[0] ^= 1;
    struct retry elsewhere = retry_of(s, "acme", "key_a", "redeem", "k", "{\"pin\":\"0417\"}");
    assert_false(digest_same(r.body, elsewhere.body));
    assert_true(digest_same(r.key, elsewhere.key)); /* its slot goes by that, at every engine */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(no_two_limits_share_a_counter),
        TEST(keys_of_digests_are_of_the_pepper),
        TEST(the_body_of_a_retry_is_kept_under_a_key),
        TEST(the_key_of_a_counter_does_not_hold_the_window),
        TEST(an_idempotency_key_is_of_one_tenant_credential_and_route),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
