#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include "shards/shares.h"

static const uint64_t now = 1795166400123, day_ms = 24 * 3600 * 1000;

static struct share_asker who(const char *tenant, const char *key)
{
    return (struct share_asker){.tenant = str_from(tenant), .key = str_from(key)};
}

/* Takes places until one is refused; how many, and why no more. */
static size_t fill(struct shares *s, const char *tenant, const char *key, uint64_t now_ms,
                   enum err *ret)
{
    const struct share_asker w = who(tenant, key);
    struct quota quota = {0};
    size_t taken = 0;
    while ((*ret = shares_ask(s, &w, 0, now_ms, &quota)) == ERR_OK && ++taken < 1000)
        assert_non_null(shares_enter(s, &w, 0, now_ms));
    if (*ret != ERR_FULL) assert_string_equal(quota.name, "things");
    shares_recount(s);
    return taken;
}

static void leave(struct shares *s, const char *tenant, const char *key, size_t count)
{
    const struct share_asker w = who(tenant, key);
    while (count-- > 0) shares_leave(s, shares_find(s, &w), 0);
    shares_recount(s);
}

static void ask_once(struct shares *s, const char *tenant, const char *key, uint64_t now_ms)
{
    const struct share_asker w = who(tenant, key);
    struct quota quota;
    assert_int_equal(shares_ask(s, &w, 0, now_ms, &quota), ERR_OK);
}

static int set_up(void **state)
{
    static struct shares s;
    shares_init(&s, "things", 16, 0);
    *state = &s;
    return 0;
}

static int tear_down(void **state)
{
    shares_fini(*state);
    return 0;
}

static void alone_a_key_may_have_the_whole_table(void **state)
{
    enum err err;
    assert_int_equal(fill(*state, "acme", "a", now, &err), 16);
    assert_int_equal(err, ERR_QUOTA_TENANT);
}

static void with_another_key_a_key_has_half_and_with_another_tenant_a_tenant_has_half(void **state)
{
    enum err err;
    ask_once(*state, "acme", "b", now);
    assert_int_equal(fill(*state, "acme", "a", now, &err), 8);
    assert_int_equal(err, ERR_QUOTA_KEY);
    leave(*state, "acme", "a", 8);
    ask_once(*state, "other", "a", now);
    assert_int_equal(fill(*state, "acme", "a", now, &err), 4);
    assert_int_equal(err, ERR_QUOTA_KEY);
    assert_int_equal(fill(*state, "acme", "b", now, &err), 4);
    assert_int_equal(err, ERR_QUOTA_KEY);
    assert_int_equal(fill(*state, "acme", "c", now, &err), 0);
    assert_int_equal(err, ERR_QUOTA_TENANT);
    assert_int_equal(fill(*state, "other", "a", now, &err), 8);
    assert_int_equal(err, ERR_QUOTA_TENANT);
    assert_int_equal(fill(*state, "third", "a", now, &err), 0);
    assert_int_equal(err, ERR_FULL);
}

static void what_a_tenant_holds_beyond_half_takes_nothing_from_the_others(void **state)
{
    enum err err;
    assert_int_equal(fill(*state, "acme", "a", now, &err), 16);
    assert_int_equal(fill(*state, "other", "a", now, &err), 8);
    assert_int_equal(err, ERR_QUOTA_TENANT);
    assert_int_equal(fill(*state, "acme", "a", now, &err), 0);
    leave(*state, "acme", "a", 8);
    assert_int_equal(fill(*state, "acme", "a", now, &err), 0);
    leave(*state, "acme", "a", 1);
    assert_int_equal(fill(*state, "acme", "a", now, &err), 1);
}

static void the_part_of_one_that_has_not_asked_for_a_day_is_free(void **state)
{
    enum err err;
    ask_once(*state, "other", "a", now);
    ask_once(*state, "acme", "b", now);
    assert_int_equal(fill(*state, "acme", "a", now + day_ms - 1, &err), 4);
    assert_int_equal(fill(*state, "acme", "a", now + day_ms, &err), 12);
    assert_int_equal(err, ERR_QUOTA_TENANT);
}

static void a_place_of_an_unknown_key_or_tenant_counts_for_what_is_known(void **state)
{
    enum err err;
    const struct share_asker unknown = {0}, keyless = {.tenant = STR("acme")};
    assert_non_null(shares_enter(*state, &unknown, 0, now));
    struct share *of_tenant = shares_enter(*state, &keyless, 0, now);
    ask_once(*state, "other", "a", now);
    assert_int_equal(fill(*state, "acme", "a", now, &err), 7);
    shares_leave(*state, of_tenant, 0);
    assert_int_equal(fill(*state, "acme", "a", now, &err), 1);
    assert_int_equal(fill(*state, "other", "a", now, &err), 7); /* one of 16 is of no tenant */
    assert_int_equal(err, ERR_FULL);
}

static void memory_has_the_same_parts(void **state)
{
    struct shares s;
    struct quota quota;
    const struct share_asker a = who("acme", "a"), b = who("other", "a");
    (void)state;
    shares_init(&s, "things", 100, 1000);
    assert_int_equal(shares_ask(&s, &a, 1000, now, &quota), ERR_OK);
    struct share *share = shares_enter(&s, &a, 900, now);
    assert_int_equal(shares_ask(&s, &a, 101, now, &quota), ERR_QUOTA_TENANT);
    assert_int_equal(shares_ask(&s, &b, 500, now, &quota), ERR_OK);
    assert_int_equal(shares_ask(&s, &b, 501, now, &quota), ERR_QUOTA_TENANT);
    shares_shrink(&s, share, 500);
    shares_recount(&s);
    assert_int_equal(shares_ask(&s, &a, 100, now, &quota), ERR_OK);
    shares_grow(&s, share, 50);
    assert_int_equal(shares_ask(&s, &a, 51, now, &quota), ERR_QUOTA_TENANT);
    shares_leave(&s, share, 450);
    shares_recount(&s);
    assert_int_equal(s.all.count + s.all.bytes + s.counted + s.bytes_counted, 0);
    shares_fini(&s);
}

static void tenants_without_places_are_forgotten_after_a_day(void **state)
{
    struct shares *s = *state;
    char name[8];
    for (unsigned i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "t%u", i);
        ask_once(s, name, "a", now);
    }
    assert_int_equal(s->tenants.count, 50);
    for (unsigned i = 0; i < 10; i++) ask_once(s, "acme", "a", now + day_ms);
    assert_int_equal(s->tenants.count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(alone_a_key_may_have_the_whole_table, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            with_another_key_a_key_has_half_and_with_another_tenant_a_tenant_has_half, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            what_a_tenant_holds_beyond_half_takes_nothing_from_the_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_part_of_one_that_has_not_asked_for_a_day_is_free,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_place_of_an_unknown_key_or_tenant_counts_for_what_is_known, set_up, tear_down),
        cmocka_unit_test(memory_has_the_same_parts),
        cmocka_unit_test_setup_teardown(tenants_without_places_are_forgotten_after_a_day, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
