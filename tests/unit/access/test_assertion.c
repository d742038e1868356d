/* test_assertion.c - what a platform asserts reads back; a change of any byte does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include "access/assertion.h"
#include "base/limits.h"

static const struct claim claims[] = {{.name = STR("groups"), .value = STR("finance")},
                                      {.name = STR("groups"), .value = STR("ops \"7\"")}};

static struct sha256 key;
static struct arena arena;
static struct fault fault;
static char bytes[2 * ASSERTION_TEXT_MAX];
static struct buf text;

static int set_up(void **state)
{
    (void)state;
    const struct pepper pepper = {.bytes = {1, 2, 3}};
    key = assertion_key(&pepper);
    arena_init(&arena, 1 << 14, 1 << 20);
    text = buf_over(bytes, sizeof bytes);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static struct assertion by_key(void)
{
    return (struct assertion){.id = {.bytes = {1}},
                              .key = {.bytes = {2}},
                              .tenant = STR("acme"),
                              .person = STR("carol"),
                              .method = STR("POST"),
                              .target = sha256_once(STR("/v1/queue/x/approve")),
                              .roles = ROLE_REVIEWER,
                              .proof = PROOF_KEY,
                              .made_at = 1795166400000};
}

static struct assertion by_provider(void)
{
    struct assertion a = by_key();
    a.key = (struct id){0};
    a.proof = PROOF_OIDC;
    a.claims = claims;
    a.claim_count = 2;
    return a;
}

static enum err read_back(struct str credential, struct assertion *ret)
{
    arena_reset(&arena);
    return assertion_read(credential, &key, &arena, ret, &fault);
}

static void what_is_asserted_is_read_back(void **state)
{
    (void)state;
    const struct assertion made[] = {by_key(), by_provider()};
    for (size_t i = 0; i < 2; i++) {
        struct assertion a;
        buf_clear(&text);
        assert_true(assertion_put(&text, &key, &made[i]));
        assert_true(assertion_shown(buf_view(&text)));
        assert_int_equal(read_back(buf_view(&text), &a), ERR_OK);
        assert_memory_equal(&a.id, &made[i].id, sizeof a.id);
        assert_memory_equal(&a.key, &made[i].key, sizeof a.key);
        assert_true(str_equal(a.person, STR("carol")) && str_equal(a.tenant, STR("acme")));
        assert_int_equal(a.proof, made[i].proof);
        assert_int_equal(a.roles, ROLE_REVIEWER);
        assert_int_equal(a.claim_count, made[i].claim_count);
        for (size_t k = 0; k < a.claim_count; k++)
            assert_true(str_equal(a.claims[k].name, claims[k].name) &&
                        str_equal(a.claims[k].value, claims[k].value));
    }
}

static void a_changed_byte_is_refused(void **state)
{
    (void)state;
    const struct assertion made = by_provider();
    struct assertion a;
    assert_true(assertion_put(&text, &key, &made));
    for (size_t i = 0; i + 1 < text.size; i++) { /* the last has bits that count for nothing */
        text.bytes[i] ^= 1;
        assert_int_equal(read_back(buf_view(&text), &a), ERR_UNAUTHENTICATED);
        text.bytes[i] ^= 1;
    }
    for (size_t size = 0; size < text.size; size++)
        assert_int_equal(read_back(str_of(text.bytes, size), &a), ERR_UNAUTHENTICATED);
    assert_int_equal(read_back(buf_view(&text), &a), ERR_OK);
}

static void members_that_do_not_fit_each_other_are_not_asserted(void **state)
{
    (void)state;
    struct assertion wrong[6];
    for (size_t i = 0; i < 6; i++) wrong[i] = i < 2 ? by_key() : by_provider();
    wrong[0].key = (struct id){0};
    wrong[1].claims = claims;
    wrong[1].claim_count = 1;
    wrong[2].key = (struct id){.bytes = {2}};
    wrong[3].roles |= ROLE_AGENT;
    wrong[4].claims = (const struct claim[]){{.name = STR("groups"), .value = STR("")}};
    wrong[4].claim_count = 1;
    wrong[5].proof = PROOF_KEY;
    for (size_t i = 0; i < 6; i++) assert_false(assertion_put(&text, &key, &wrong[i]));
    assert_int_equal(text.size, 0);
}

static void claims_have_bounds(void **state)
{
    (void)state;
    static char long_bytes[LIMIT_CLAIM_BYTES + 1];
    struct claim many[LIMIT_CLAIMS + 1];
    memset(long_bytes, 'x', sizeof long_bytes);
    struct str longest = str_of(long_bytes, LIMIT_CLAIM_BYTES),
               longer = str_of(long_bytes, LIMIT_CLAIM_BYTES + 1);
    for (size_t i = 0; i <= LIMIT_CLAIMS; i++) many[i] = claims[0];
    assert_int_equal(claims_check(many, LIMIT_CLAIMS, &fault), ERR_OK);
    assert_int_equal(claims_check(many, LIMIT_CLAIMS + 1, &fault), ERR_OUT_OF_RANGE);
    many[0] = (struct claim){.name = longest, .value = longest};
    assert_int_equal(claims_check(many, 1, &fault), ERR_OK);
    for (size_t i = 0; i < 7; i++) many[i] = many[0];
    assert_int_equal(claims_check(many, LIMIT_CLAIMS_BYTES / (2 * LIMIT_CLAIM_BYTES), &fault),
                     ERR_OK);
    assert_int_equal(claims_check(many, 7, &fault), ERR_OUT_OF_RANGE);
    const struct claim wrong[] = {
        {.name = longer, .value = longest},      {.name = longest, .value = longer},
        {.name = STR(""), .value = STR("a")},    {.name = STR("a"), .value = STR("")},
        {.name = STR("a\n"), .value = STR("a")}, {.name = STR("a"), .value = STR("\x7f")},
        {.name = STR("a"), .value = STR("\xc3")}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_not_equal(claims_check(&wrong[i], 1, &fault), ERR_OK);
}

static void another_format_is_named(void **state)
{
    (void)state;
    struct assertion a = by_key();
    assert_true(assertion_put(&text, &key, &a));
    text.bytes[2] = '1';
    assert_true(assertion_shown(buf_view(&text)));
    assert_int_equal(read_back(buf_view(&text), &a), ERR_UNAUTHENTICATED);
    assert_non_null(strstr(fault.text, "another version"));
    assert_false(assertion_shown(STR("wak.")));
}

static void a_minute_has_room_for_so_many(void **state)
{
    (void)state;
    struct assertions *all = assertions_create();
    struct assertion a = by_key();
    static struct chance chance;
    const uint64_t now_ms = a.made_at;
    enum err err = ERR_OK;
    unsigned count = 0;
    for (; err == ERR_OK && count <= LIMIT_ASSERTIONS; count++) {
        a.id = id_make(now_ms, &chance);
        err = assertions_accept(all, &a, now_ms, &fault);
    }
    assert_int_equal(err, ERR_OVERLOADED);
    assert_true(count > LIMIT_ASSERTIONS / 2);
    a.made_at = now_ms + 10 * 60000;
    assert_int_equal(assertions_accept(all, &a, a.made_at, &fault), ERR_OK);
    assertions_destroy(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_asserted_is_read_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_changed_byte_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(members_that_do_not_fit_each_other_are_not_asserted, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(claims_have_bounds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_format_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_minute_has_room_for_so_many, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
