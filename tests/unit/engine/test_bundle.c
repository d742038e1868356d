/* Revisions of policies and keys: what is shared, what is kept when something does not load, and
 * what is closed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include "engine/control/bundle.h"

enum { GRACE_MS = 60000 };

static const uint64_t start_ms = 1795166400000;

static const char allows[] = "rules: [{id: yes, agents: ['*'], actions: ['*'], decision: allow}]";
static const char denies[] = "rules: [{id: no, actions: ['*'], decision: deny}]";
static const char broken[] = "rules: [{id: no, actions: ['*'], decision: maybe}]";

/* ---- a bundle's text ---- */

struct text {
    char bytes[16 << 10];
    struct buf buf;
    bool any_key, any_policy;
};

static void text_begin(struct text *t, unsigned revision)
{
    t->buf = buf_over(t->bytes, sizeof t->bytes);
    t->any_key = t->any_policy = false;
    buf_put_literal(&t->buf, "{\"revision\":");
    buf_put_u64(&t->buf, revision);
    buf_put_literal(&t->buf, ",\"keys\":[");
}

static void text_key(struct text *t, char last_digit, const char *name, const char *more)
{
    if (t->any_key) buf_put_byte(&t->buf, ',');
    t->any_key = true;
    buf_printf(
        &t->buf,
        "{\"id\":\"key_0000000000000000000000000%c\",\"name\":\"%s\",\"owner\":\"erin\",\"tenant\":\"acme\",\"roles\":[\"agent\"]%s}",
        last_digit, name, more);
}

/* The digest is the platform's word for the content; `like` (or NULL: the
 * content) is what it is of. */
static void text_policy(struct text *t, const char *tenant, const char *name, const char *content,
                        const char *like, unsigned version)
{
    char hex[SHA256_HEX];
    sha256_write_hex(sha256_once(str_from(like == NULL ? content : like)), hex);
    if (!t->any_policy)
        buf_put_literal(&t->buf, "],\"policies\":[");
    else
        buf_put_byte(&t->buf, ',');
    t->any_policy = true;
    buf_put_literal(&t->buf, "{\"tenant_id\":");
    json_put_string(&t->buf, str_from(tenant));
    buf_printf(&t->buf, ",\"name\":\"%s\",\"version\":%u,\"digest\":\"%.*s\",\"content\":", name,
               version, SHA256_HEX, hex);
    json_put_string(&t->buf, str_from(content));
    buf_put_byte(&t->buf, '}');
}

static struct str text_end(struct text *t)
{
    if (!t->any_policy) buf_put_literal(&t->buf, "],\"policies\":[");
    buf_put_literal(&t->buf, "]}");
    assert_false(t->buf.overflow);
    return buf_view(&t->buf);
}

/* ---- building and asking ---- */

static struct bundle *build(struct str text, const struct bundle *before, uint64_t now_ms)
{
    struct bundle *b = NULL;
    struct fault f;
    enum err err = bundle_create(text, before, now_ms, &b, &f);
    if (err != ERR_OK) print_error("%s\n", f.text);
    assert_int_equal(err, ERR_OK);
    return b;
}

/* One tenant with one document. */
static struct bundle *build_one(const char *content, unsigned version, const struct bundle *before,
                                uint64_t now_ms)
{
    struct text t;
    text_begin(&t, version);
    text_policy(&t, "acme", "main", content, NULL, version);
    return build(text_end(&t), before, now_ms);
}

static void assert_decides(const struct bundle *b, const char *tenant, const char *rule)
{
    struct arena arena;
    struct policy_outcome o;
    struct policy_request q = {.kind = SUBJECT_AGENT,
                               .tenant = str_from(tenant),
                               .actor = STR("bot"),
                               .action = STR("act")};
    arena_init(&arena, 4096, 1 << 20);
    policy_evaluate(bundle_policies(b, str_from(tenant)), &q, &arena, NULL, &o);
    if (strcmp(o.rule, rule) != 0) print_error("tenant %s: %s, not %s\n", tenant, o.rule, rule);
    assert_string_equal(o.rule, rule);
    assert_true((o.verdict == VERDICT_ALLOW) == (strncmp(rule, "allow:", 6) == 0));
    arena_fini(&arena);
}

static void assert_refused(struct str text, const struct bundle *before)
{
    struct bundle *b = NULL;
    struct fault f = {.err = ERR_OK};
    assert_int_not_equal(bundle_create(text, before, start_ms, &b, &f), ERR_OK);
    assert_null(b);
    assert_true(f.text[0] != '\0');
}

/* ---- tests ---- */

static void each_tenant_has_its_own_policies_and_an_unknown_one_is_denied(void **state)
{
    (void)state;
    struct text t;
    text_begin(&t, 5);
    text_policy(&t, "acme", "main", allows, NULL, 1);
    text_policy(&t, "other", "main", denies, NULL, 1);
    text_policy(&t, "acme", "more", "rules: [{id: drops, actions: ['drop_*'], decision: deny}]",
                NULL, 2);
    struct bundle *b = build(text_end(&t), NULL, start_ms);
    assert_decides(b, "acme", "allow:yes");
    assert_decides(b, "other", "deny:no");
    assert_decides(b, "nobody", "default:deny");
    assert_decides(b, "", "default:deny");
    assert_decides(b, "acm", "default:deny");
    const struct bundle_facts *facts = bundle_facts(b);
    assert_int_equal(facts->revision, 5);
    assert_int_equal(facts->tenants, 2);
    assert_int_equal(facts->documents, 3);
    assert_int_equal(facts->rules, 3);
    assert_int_equal(facts->tenants_unloadable, 0);
    assert_int_equal(facts->close_at_ms, 0);
    bundle_destroy(b);
}

static void a_bundle_without_policies_denies_everyone(void **state)
{
    (void)state;
    struct bundle *b = build(STR("{\"keys\":[],\"policies\":[],\"revision\":0}"), NULL, start_ms);
    assert_decides(b, "acme", "default:deny");
    assert_int_equal(bundle_facts(b)->revision, 0);
    assert_int_equal(key_table_count(bundle_keys(b)), 0);
    bundle_destroy(b);
    bundle_destroy(NULL);
}

static void a_tenant_in_which_nothing_changed_shares_its_set(void **state)
{
    (void)state;
    struct bundle *first = build_one(allows, 1, NULL, start_ms);
    struct text t;
    text_begin(&t, 2);
    text_policy(&t, "acme", "main", allows, NULL, 1);
    text_policy(&t, "other", "main", denies, NULL, 1);
    struct bundle *second = build(text_end(&t), first, start_ms);
    const struct policy_set *shared = bundle_policies(first, STR("acme"));
    assert_ptr_equal(bundle_policies(second, STR("acme")), shared);
    bundle_destroy(first); /* what is shared outlives the first that held it */
    assert_decides(second, "acme", "allow:yes");
    struct bundle *third = build_one(denies, 2, second, start_ms);
    bundle_destroy(second);
    assert_decides(third, "acme", "deny:no");
    assert_decides(third, "other", "default:deny");
    bundle_destroy(third);
}

/* Same content under a new version is another set, because answers tell the version. */
static void a_new_version_is_seen(void **state)
{
    (void)state;
    struct bundle *first = build_one(allows, 1, NULL, start_ms),
                  *second = build_one(allows, 2, first, start_ms);
    assert_ptr_not_equal(bundle_policies(second, STR("acme")), bundle_policies(first, STR("acme")));
    bundle_destroy(first);
    assert_decides(second, "acme", "allow:yes");
    bundle_destroy(second);
}

/* A document is not compiled again: where the digest says that it is the one already held, its
 * text is not even looked at. */
static void a_document_that_did_not_change_is_not_compiled_again(void **state)
{
    (void)state;
    struct bundle *first = build_one(allows, 1, NULL, start_ms);
    struct text t;
    text_begin(&t, 2);
    text_policy(&t, "acme", "main", broken, allows, 1);
    text_policy(&t, "acme", "more", "rules: [{id: drops, actions: ['drop_*'], decision: deny}]",
                NULL, 1);
    struct bundle *second = build(text_end(&t), first, start_ms);
    bundle_destroy(first);
    assert_int_equal(bundle_facts(second)->tenants_unloadable, 0);
    assert_decides(second, "acme", "allow:yes");
    bundle_destroy(second);
}

/* Documents are shared within a tenant and a name only. */
static void another_tenants_document_is_not_borrowed(void **state)
{
    (void)state;
    struct bundle *first = build_one(allows, 1, NULL, start_ms);
    struct text t;
    text_begin(&t, 2);
    text_policy(&t, "other", "main", broken, allows, 1);
    struct bundle *second = build(text_end(&t), first, start_ms);
    bundle_destroy(first);
    assert_decides(second, "other", "default:policy_unloadable");
    bundle_destroy(second);
}

static void a_tenant_that_does_not_load_keeps_its_set_for_a_minute(void **state)
{
    (void)state;
    struct bundle *good = build_one(allows, 1, NULL, start_ms);
    struct bundle *bad = build_one(broken, 2, good, start_ms + 1000);
    assert_ptr_equal(bundle_policies(bad, STR("acme")), bundle_policies(good, STR("acme")));
    assert_int_equal(bundle_facts(bad)->tenants_unloadable, 1);
    assert_int_equal(bundle_facts(bad)->close_at_ms, start_ms + 1000 + GRACE_MS);
    bundle_destroy(good);

    /* Another bundle meanwhile gives no further minute, whatever it says of the tenant. */
    struct bundle *still = build_one("rules: 7", 3, bad, start_ms + GRACE_MS);
    bundle_destroy(bad);
    assert_decides(still, "acme", "allow:yes");
    assert_int_equal(bundle_facts(still)->close_at_ms, start_ms + 1000 + GRACE_MS);
    struct bundle *last = build_one(broken, 4, still, start_ms + 1000 + GRACE_MS - 1);
    bundle_destroy(still);
    assert_decides(last, "acme", "allow:yes");

    struct bundle *closed = build_one(broken, 4, last, start_ms + 1000 + GRACE_MS);
    bundle_destroy(last);
    assert_decides(closed, "acme", "default:policy_unloadable");
    assert_int_equal(bundle_facts(closed)->tenants_unloadable, 1);
    assert_int_equal(bundle_facts(closed)->close_at_ms, 0); /* nothing is left to be closed */
    struct bundle *again = build_one(broken, 5, closed, start_ms + 2000 + GRACE_MS);
    bundle_destroy(closed);
    assert_decides(again, "acme", "default:policy_unloadable");

    struct bundle *mended = build_one(denies, 6, again, start_ms + 3000 + GRACE_MS);
    bundle_destroy(again);
    assert_decides(mended, "acme", "deny:no");
    assert_int_equal(bundle_facts(mended)->tenants_unloadable, 0);
    /* a minute of its own */
    struct bundle *worse = build_one(broken, 7, mended, start_ms + 4000 + GRACE_MS);
    bundle_destroy(mended);
    assert_decides(worse, "acme", "deny:no");
    assert_int_equal(bundle_facts(worse)->close_at_ms, start_ms + 4000 + 2 * GRACE_MS);
    bundle_destroy(worse);
}

/* Going back to the very documents that ran before is loading, not falling back. */
static void a_tenant_that_takes_its_mistake_back_runs_as_before(void **state)
{
    (void)state;
    struct bundle *good = build_one(allows, 1, NULL, start_ms),
                  *bad = build_one(broken, 2, good, start_ms);
    struct bundle *back = build_one(allows, 1, bad, start_ms + 1000);
    bundle_destroy(good);
    bundle_destroy(bad);
    assert_decides(back, "acme", "allow:yes");
    assert_int_equal(bundle_facts(back)->tenants_unloadable, 0);
    assert_int_equal(bundle_facts(back)->close_at_ms, 0);
    bundle_destroy(back);
}

/* The same row may load the second time (memory was short, say): then it is what runs. */
static void a_tenant_that_loads_at_last_runs_what_was_asked_for(void **state)
{
    (void)state;
    struct bundle *good = build_one(allows, 1, NULL, start_ms);
    struct text t;
    text_begin(&t, 2);
    text_policy(&t, "acme", "main", broken, denies, 2);
    struct bundle *bad = build(text_end(&t), good, start_ms);
    bundle_destroy(good);
    assert_decides(bad, "acme", "allow:yes");
    struct bundle *mended = build_one(denies, 2, bad, start_ms);
    bundle_destroy(bad);
    assert_decides(mended, "acme", "deny:no");
    bundle_destroy(mended);
}

static void a_tenant_that_never_loaded_is_closed_at_once(void **state)
{
    (void)state;
    struct bundle *b = build_one(broken, 1, NULL, start_ms);
    assert_decides(b, "acme", "default:policy_unloadable");
    assert_int_equal(bundle_facts(b)->close_at_ms, 0);
    bundle_destroy(b);
}

static void one_document_that_does_not_load_holds_back_its_tenant_and_no_other(void **state)
{
    (void)state;
    struct text t;
    text_begin(&t, 1);
    text_policy(&t, "acme", "good", allows, NULL, 1);
    text_policy(&t, "acme", "bad", broken, NULL, 1);
    text_policy(&t, "other", "main", allows, NULL, 1);
    struct bundle *b = build(text_end(&t), NULL, start_ms);
    assert_decides(b, "acme", "default:policy_unloadable");
    assert_decides(b, "other", "allow:yes");
    assert_int_equal(bundle_facts(b)->tenants_unloadable, 1);
    bundle_destroy(b);
}

static void a_name_twice_in_a_tenant_is_not_guessed_at(void **state)
{
    (void)state;
    struct text t;
    text_begin(&t, 1);
    text_policy(&t, "acme", "main", denies, NULL, 1);
    text_policy(&t, "acme", "main", allows, NULL, 2);
    struct bundle *b = build(text_end(&t), NULL, start_ms);
    assert_decides(b, "acme", "default:policy_unloadable");
    bundle_destroy(b);
}

static void the_earliest_tenant_to_be_closed_is_told(void **state)
{
    (void)state;
    struct text t;
    text_begin(&t, 1);
    text_policy(&t, "acme", "main", allows, NULL, 1);
    text_policy(&t, "other", "main", allows, NULL, 1);
    struct bundle *first = build(text_end(&t), NULL, start_ms);
    text_begin(&t, 2);
    text_policy(&t, "acme", "main", allows, NULL, 1);
    text_policy(&t, "other", "main", broken, NULL, 2);
    struct bundle *second = build(text_end(&t), first, start_ms + 1000);
    text_begin(&t, 3);
    text_policy(&t, "acme", "main", broken, NULL, 2);
    text_policy(&t, "other", "main", broken, NULL, 2);
    struct str text = text_end(&t);
    struct bundle *third = build(text, second, start_ms + 5000);
    assert_int_equal(bundle_facts(third)->tenants_unloadable, 2);
    assert_int_equal(bundle_facts(third)->close_at_ms, start_ms + 1000 + GRACE_MS);
    struct bundle *fourth = build(text, third, start_ms + 1000 + GRACE_MS);
    assert_decides(fourth, "other", "default:policy_unloadable");
    assert_decides(fourth, "acme", "allow:yes");
    assert_int_equal(bundle_facts(fourth)->close_at_ms, start_ms + 5000 + GRACE_MS);
    bundle_destroy(first);
    bundle_destroy(second);
    bundle_destroy(third);
    bundle_destroy(fourth);
}

static void keys_can_be_read_and_one_that_cannot_opens_nothing(void **state)
{
    (void)state;
    struct text t;
    text_begin(&t, 1);
    text_key(&t, '1', "bot", "");
    text_key(&t, '2', "odd", ",\"actors\":7");
    text_key(&t, '3', "coder", ",\"revoked_at\":\"2026-01-01T00:00:00Z\"");
    struct bundle *b = build(text_end(&t), NULL, start_ms);
    struct id id = {{0}};
    id.bytes[ID_BYTES - 1] = 1;
    const struct key *k = key_table_get(bundle_keys(b), id);
    assert_non_null(k);
    assert_true(str_equal(k->name, STR("bot")) && str_equal(k->tenant, STR("acme")) &&
                k->roles == ROLE_AGENT);
    id.bytes[ID_BYTES - 1] = 2;
    assert_null(key_table_get(bundle_keys(b), id));
    id.bytes[ID_BYTES - 1] = 3;
    assert_non_null(key_table_get(bundle_keys(b), id));
    assert_int_equal(bundle_facts(b)->keys, 2);
    bundle_destroy(b);
}

static void what_is_no_bundle_is_refused(void **state)
{
    (void)state;
    struct bundle *good = build_one(allows, 1, NULL, start_ms);
    static const char *const texts[] = {
        "",
        "[]",
        "{",
        "{}",
        "{\"keys\":[],\"policies\":{},\"revision\":1}",
        "{\"policies\":[],\"revision\":1}",
        "{\"keys\":{},\"policies\":[],\"revision\":1}",
        "{\"keys\":[],\"revision\":1}",
        "{\"keys\":[],\"policies\":[{\"name\":\"main\",\"content\":\"rules: []\"}],\"revision\":1}",
        "{\"keys\":[],\"policies\":[7],\"revision\":1}",
        "{\"keys\":[],\"policies\":[],\"revision\":1}{}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_refused(str_from(texts[i]), good);
    struct text t;
    text_begin(&t, 2);
    text_key(&t, '1', "bot", "");
    text_key(&t, '1', "other", "");
    assert_refused(text_end(&t), good);
    assert_decides(good, "acme", "allow:yes");
    bundle_destroy(good);
}

static void a_bundle_of_a_newer_platform_is_refused_with_what_to_do(void **state)
{
    (void)state;
    static const char *const formats[] = {"3", "0", "1.5", "\"1\"", "null"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char text[128];
        struct buf b = buf_over(text, sizeof text);
        struct bundle *none = NULL;
        struct fault f;
        buf_printf(&b, "{\"format\":%s,\"keys\":[],\"policies\":[],\"revision\":1}", formats[i]);
        assert_int_equal(bundle_create(buf_view(&b), NULL, start_ms, &none, &f), ERR_BAD_VALUE);
        assert_null(none);
        assert_non_null(strstr(f.text, "this engine has to be upgraded"));
    }
    bundle_destroy(
        build(STR("{\"format\":2,\"keys\":[],\"policies\":[],\"revision\":1}"), NULL, start_ms));
    bundle_destroy(
        build(STR("{\"format\":1,\"keys\":[],\"policies\":[],\"revision\":1}"), NULL, start_ms));
}

static void a_policy_row_without_content_holds_back_its_tenant(void **state)
{
    (void)state;
    struct bundle *b = build(
        STR("{\"keys\":[],\"policies\":[{\"tenant_id\":\"acme\",\"name\":\"main\"}],\"revision\":1}"),
        NULL, start_ms);
    assert_decides(b, "acme", "default:policy_unloadable");
    bundle_destroy(b);
}

static void the_tenants_that_it_is_for_are_those_that_the_platform_names(void **state)
{
    (void)state;
    struct bundle *b =
        build(STR("{\"keys\":[],\"policies\":[],\"revision\":1,\"tenants\":[\"acme\",\"shop-*\"]}"),
              NULL, start_ms);
    const struct globs *served = bundle_served(b);
    assert_non_null(served);
    assert_true(globs_match(served, STR("acme")) && globs_match(served, STR("shop-1")));
    assert_false(globs_match(served, STR("default")));
    bundle_destroy(b);
    b = build(STR("{\"keys\":[],\"policies\":[],\"revision\":1,\"tenants\":[]}"), NULL, start_ms);
    assert_non_null(bundle_served(b));
    assert_false(globs_match(bundle_served(b), STR("acme")));
    bundle_destroy(b);
    b = build(STR("{\"keys\":[],\"policies\":[],\"revision\":1}"), NULL, start_ms);
    assert_null(bundle_served(b));
    bundle_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_tenant_has_its_own_policies_and_an_unknown_one_is_denied),
        cmocka_unit_test(a_bundle_without_policies_denies_everyone),
        cmocka_unit_test(a_tenant_in_which_nothing_changed_shares_its_set),
        cmocka_unit_test(a_new_version_is_seen),
        cmocka_unit_test(a_document_that_did_not_change_is_not_compiled_again),
        cmocka_unit_test(another_tenants_document_is_not_borrowed),
        cmocka_unit_test(a_tenant_that_does_not_load_keeps_its_set_for_a_minute),
        cmocka_unit_test(a_tenant_that_takes_its_mistake_back_runs_as_before),
        cmocka_unit_test(a_tenant_that_loads_at_last_runs_what_was_asked_for),
        cmocka_unit_test(a_tenant_that_never_loaded_is_closed_at_once),
        cmocka_unit_test(one_document_that_does_not_load_holds_back_its_tenant_and_no_other),
        cmocka_unit_test(a_name_twice_in_a_tenant_is_not_guessed_at),
        cmocka_unit_test(the_earliest_tenant_to_be_closed_is_told),
        cmocka_unit_test(keys_can_be_read_and_one_that_cannot_opens_nothing),
        cmocka_unit_test(what_is_no_bundle_is_refused),
        cmocka_unit_test(a_bundle_of_a_newer_platform_is_refused_with_what_to_do),
        cmocka_unit_test(a_policy_row_without_content_holds_back_its_tenant),
        cmocka_unit_test(the_tenants_that_it_is_for_are_those_that_the_platform_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
