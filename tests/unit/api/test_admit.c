/* Who is let in, for which tenant, and what parameters and bodies are taken for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include "api/api.h"
#include "base/limits.h"

static const uint64_t now_ms = 1795166400000;

enum { KEYS = 5 };

struct scene {
    struct api api;
    struct arena arena;
    struct pepper pepper;
    struct key_table *table;
    char credentials[KEYS][CREDENTIAL_TEXT + 16]; /* "Bearer wk_…" */
    struct http_header headers[2];
    struct http_exchange x;
    struct http_kept kept; /* as the connection has it */
    struct caller caller;
    struct fault fault;
    unsigned noted;
    enum err noted_err;
};

enum { AGENT, EVERYWHERE, REVOKED, EXPIRED, ADMIN };

static void note(void *context, const struct http_exchange *x, enum err err)
{
    struct scene *s = context;
    assert_non_null(x);
    s->noted++;
    s->noted_err = err;
}

static struct key *make_key(struct scene *s, unsigned place, const char *tenant, const char *role,
                            const char *more)
{
    static const struct json_options options = {0};
    char bytes[1024];
    struct buf b = buf_over(bytes, sizeof bytes),
               text = buf_over(s->credentials[place], sizeof s->credentials[place]);
    struct id id = {.bytes = {1, 2, 3, (uint8_t)place}};
    char credential[CREDENTIAL_TEXT], id_text[ID_TEXT];
    credential_make(id, credential);
    buf_put_literal(&text, "Bearer ");
    buf_put(&text, str_of(credential, CREDENTIAL_TEXT));
    id_write("key_", id, id_text);
    struct sha256 mac = credential_mac(&s->pepper, str_of(credential, CREDENTIAL_TEXT));
    buf_printf(
        &b,
        "{\"id\":\"%.*s\",\"name\":\"n\",\"owner\":\"o\",\"tenant\":\"%s\",\"roles\":[\"%s\"]%s,\"mac\":\"",
        ID_TEXT, id_text, tenant, role, more);
    buf_put_hex(&b, mac.bytes, SHA256_BYTES);
    buf_put_literal(&b, "\"}");
    struct json *row;
    struct key *key;
    assert_int_equal(json_read(buf_view(&b), &options, &s->arena, &row, &s->fault), ERR_OK);
    assert_int_equal(key_read(row, &key, &s->fault), ERR_OK);
    return key;
}

static int set_up(void **state)
{
    struct scene *s = calloc(1, sizeof *s);
    arena_init(&s->arena, 1 << 14, 1 << 20);
    world_random(s->pepper.bytes, sizeof s->pepper.bytes);
    struct key *keys[KEYS] = {
        make_key(s, AGENT, "acme", "agent", ""),
        make_key(s, EVERYWHERE, "*", "agent", ""),
        make_key(s, REVOKED, "acme", "agent", ",\"revoked_at\":\"2026-01-01T00:00:00Z\""),
        make_key(s, EXPIRED, "acme", "agent", ",\"expires_at\":\"2026-11-20T09:20:00Z\""),
        make_key(s, ADMIN, "acme", "admin", ""),
    };
    assert_int_equal(key_table_create(keys, KEYS, &s->table), ERR_OK);
    s->api = (struct api){.keys = s->table,
                          .pepper = &s->pepper,
                          .cache = key_cache_create(16),
                          .hasher = hasher_create(),
                          .sheet = metrics_sheet_create(),
                          .replies_2xx = METRIC_ENGINE_REPLIES_2XX,
                          .auth_failed = METRIC_ENGINE_AUTH_FAILED,
                          .on_auth_failed = note,
                          .context = s};
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;
    key_table_destroy(s->table);
    key_cache_destroy(s->api.cache);
    hasher_destroy(s->api.hasher);
    arena_fini(&s->arena);
    free(s);
    return 0;
}

static void exchange(struct scene *s, const char *authorization, const char *query)
{
    arena_reset(&s->arena);
    s->headers[0] =
        (struct http_header){.name = STR("Authorization"), .value = str_from(authorization)};
    s->x = (struct http_exchange){.arena = &s->arena,
                                  .headers = s->headers,
                                  .header_count = authorization == NULL ? 0 : 1,
                                  .query = str_from(query)};
    s->fault = (struct fault){.err = ERR_END, .text = "left over"};
    s->caller = (struct caller){0};
}

static enum err admit(struct scene *s, const char *authorization, const char *query, uint32_t roles,
                      uint64_t at_ms)
{
    exchange(s, authorization, query);
    return api_admit(&s->api, &s->x, roles, at_ms, &s->caller, &s->fault);
}

static void assert_admitted(struct scene *s, unsigned place, const char *query, const char *tenant)
{
    assert_int_equal(admit(s, s->credentials[place], query, ROLE_AGENT | ROLE_ADMIN, now_ms - 1),
                     ERR_OK);
    assert_true(str_equal(s->caller.tenant, str_from(tenant)));
    assert_int_equal(s->caller.key->id.bytes[3], place);
}

static void assert_refused(struct scene *s, enum err err, const char *text)
{
    assert_string_equal(err_code(s->fault.err), err_code(err));
    if (strstr(s->fault.text, text) == NULL) print_error("%s\n", s->fault.text);
    assert_non_null(strstr(s->fault.text, text));
    assert_null(s->caller.key);
}

/* ---- credentials ---- */

static void a_valid_key_is_let_in(void **state)
{
    struct scene *s = *state;
    /* the second time from the cache */
    for (int i = 0; i < 2; i++) assert_admitted(s, AGENT, NULL, "acme");
    assert_int_equal(s->noted, 0);
}

static void the_scheme_is_told_in_any_case(void **state)
{
    struct scene *s = *state;
    char text[CREDENTIAL_TEXT + 16] = "bEARER   "; /* and any number of blanks (RFC 9110, 11.4) */
    memcpy(text + 9, s->credentials[AGENT] + 7, CREDENTIAL_TEXT);
    assert_int_equal(admit(s, text, NULL, ROLE_AGENT, now_ms), ERR_OK);
}

static void no_or_another_credential_is_unauthenticated_and_noted(void **state)
{
    struct scene *s = *state;
    char wrong[CREDENTIAL_TEXT + 16], shorter[CREDENTIAL_TEXT + 16];
    struct id id = {.bytes = {1, 2, 3, AGENT}};
    memcpy(wrong, "Bearer ", 7);
    credential_make(id, wrong + 7); /* the id of a key, another secret, a right CRC */
    wrong[7 + CREDENTIAL_TEXT] = '\0';
    memcpy(shorter, s->credentials[AGENT], sizeof shorter);
    shorter[7 + CREDENTIAL_TEXT - 1] = '\0';
    /* as long as the right scheme, and a good key behind it */
    char digest[CREDENTIAL_TEXT + 16] = "Digest ";
    memcpy(digest + 7, s->credentials[AGENT] + 7, CREDENTIAL_TEXT);
    const char *const bad[] = {
        NULL,  "",      "Bearer", "Bearer ", "Bearer x", "Basic eDp5", s->credentials[AGENT] + 7,
        wrong, shorter, digest};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t counted = metrics_total(METRIC_ENGINE_AUTH_FAILED);
        assert_int_equal(admit(s, bad[i], NULL, ~0u, now_ms), ERR_UNAUTHENTICATED);
        assert_refused(s, ERR_UNAUTHENTICATED, "");
        assert_true(s->fault.text[0] != '\0' && strcmp(s->fault.text, "left over") != 0);
        assert_string_equal(s->fault.field, "");
        assert_int_equal(s->noted, i + 1);
        assert_int_equal(s->noted_err, ERR_UNAUTHENTICATED);
        assert_int_equal(metrics_total(METRIC_ENGINE_AUTH_FAILED), counted + 1);
    }
    assert_int_equal(admit(s, NULL, NULL, ~0u, now_ms), ERR_UNAUTHENTICATED);
    assert_refused(s, ERR_UNAUTHENTICATED, "Authorization: Bearer");
}

static void a_key_ends_when_it_is_revoked_or_its_time_has_come(void **state)
{
    struct scene *s = *state;
    assert_int_equal(admit(s, s->credentials[REVOKED], NULL, ROLE_AGENT, now_ms),
                     ERR_CREDENTIAL_REVOKED);
    assert_refused(s, ERR_CREDENTIAL_REVOKED, "revoked");
    assert_int_equal(s->noted_err, ERR_CREDENTIAL_REVOKED);
    assert_int_equal(admit(s, s->credentials[EXPIRED], NULL, ROLE_AGENT, now_ms - 1), ERR_OK);
    /* expired when now >= its time */
    assert_int_equal(admit(s, s->credentials[EXPIRED], NULL, ROLE_AGENT, now_ms),
                     ERR_CREDENTIAL_EXPIRED);
    assert_refused(s, ERR_CREDENTIAL_EXPIRED, "expired");
}

/* The cache was cleared when the table changed: what it knew is not believed any more. */
static void a_key_that_left_the_table_is_unknown(void **state)
{
    struct scene *s = *state;
    assert_admitted(s, AGENT, NULL, "acme");
    struct key_table *none;
    assert_int_equal(key_table_create(NULL, 0, &none), ERR_OK);
    s->api.keys = none;
    key_cache_clear(s->api.cache);
    assert_int_equal(admit(s, s->credentials[AGENT], NULL, ROLE_AGENT, now_ms),
                     ERR_UNAUTHENTICATED);
    s->api.keys = s->table;
    key_table_destroy(none);
}

static void a_key_without_the_role_is_told_which_would_do(void **state)
{
    struct scene *s = *state;
    assert_int_equal(admit(s, s->credentials[AGENT], NULL, ROLE_APP, now_ms), ERR_MISSING_ROLE);
    assert_refused(s, ERR_MISSING_ROLE, "the role app");
    assert_int_equal(admit(s, s->credentials[AGENT], NULL,
                           ROLE_POLICY_ADMIN | ROLE_AUDITOR | ROLE_ADMIN, now_ms),
                     ERR_MISSING_ROLE);
    assert_refused(s, ERR_MISSING_ROLE, "policy_admin, auditor or admin");
    /* admin is no agent */
    assert_int_equal(admit(s, s->credentials[ADMIN], NULL, ROLE_AGENT, now_ms), ERR_MISSING_ROLE);
    assert_int_equal(admit(s, s->credentials[AGENT], NULL, 0, now_ms), ERR_MISSING_ROLE);
    assert_int_equal(s->noted, 0); /* it is known who that was */
}

/* ---- what is kept with a head ---- */

/* As over one connection, where the head is the one before, byte for byte. */
static enum err admit_again(struct scene *s, const char *authorization, const char *query,
                            uint32_t roles, uint64_t at_ms)
{
    exchange(s, authorization, query);
    s->x.kept = &s->kept;
    return api_admit(&s->api, &s->x, roles, at_ms, &s->caller, &s->fault);
}

static void a_key_that_was_proved_is_kept_with_its_head(void **state)
{
    struct scene *s = *state;
    assert_int_equal(admit_again(s, s->credentials[AGENT], NULL, ROLE_AGENT, now_ms), ERR_OK);
    const struct key *first = s->caller.key;
    /* that nothing is looked for shows where there is nothing to be found */
    assert_int_equal(admit_again(s, NULL, NULL, ROLE_AGENT, now_ms), ERR_OK);
    assert_ptr_equal(s->caller.key, first);
    assert_true(str_equal(s->caller.tenant, STR("acme")));
    assert_null(s->caller.token);
    s->kept = (struct http_kept){0}; /* another head */
    assert_int_equal(admit_again(s, NULL, NULL, ROLE_AGENT, now_ms), ERR_UNAUTHENTICATED);
}

static void what_a_kept_key_may_do_is_asked_each_time(void **state)
{
    struct scene *s = *state;
    const char *agent = s->credentials[AGENT], *expired = s->credentials[EXPIRED];
    assert_int_equal(admit_again(s, agent, NULL, ROLE_AGENT, now_ms), ERR_OK);
    assert_int_equal(admit_again(s, agent, NULL, ROLE_APP, now_ms), ERR_MISSING_ROLE);
    assert_refused(s, ERR_MISSING_ROLE, "the role app");
    assert_int_equal(admit_again(s, agent, "tenant_id=other", ROLE_AGENT, now_ms),
                     ERR_WRONG_TENANT);
    assert_int_equal(s->noted, 0);

    s->kept = (struct http_kept){0};
    assert_int_equal(admit_again(s, expired, NULL, ROLE_AGENT, now_ms - 1), ERR_OK);
    assert_int_equal(admit_again(s, expired, NULL, ROLE_AGENT, now_ms), ERR_CREDENTIAL_EXPIRED);
    assert_refused(s, ERR_CREDENTIAL_EXPIRED, "expired");
    assert_int_equal(s->noted, 1);
    assert_int_equal(s->noted_err, ERR_CREDENTIAL_EXPIRED);
}

/* Another table is in force, with one key or none; the one before is gone. */
static void table_take(struct scene *s, struct key *key)
{
    key_table_destroy(s->table);
    assert_int_equal(key_table_create(&key, key != NULL, &s->table), ERR_OK);
    s->api.keys = s->table;
    key_cache_clear(s->api.cache);
}

/* The agent's key as another table has it. */
static struct key *agents_key(struct scene *s, const char *more)
{
    struct key *key = make_key(s, ADMIN, "acme", "agent", more);
    key->id.bytes[3] = AGENT;
    key->mac = credential_mac(&s->pepper, str_of(s->credentials[AGENT] + 7, CREDENTIAL_TEXT));
    return key;
}

static void a_kept_key_ends_with_its_table(void **state)
{
    struct scene *s = *state;
    const char *agent = s->credentials[AGENT];
    assert_int_equal(admit_again(s, agent, NULL, ROLE_AGENT, now_ms), ERR_OK);
    struct key *next = agents_key(s, "");
    table_take(s, next);
    assert_int_equal(admit_again(s, agent, NULL, ROLE_AGENT, now_ms), ERR_OK);
    assert_ptr_equal(s->caller.key, next);

    table_take(s, agents_key(s, ",\"revoked_at\":\"2026-01-01T00:00:00Z\""));
    assert_int_equal(admit_again(s, agent, NULL, ROLE_AGENT, now_ms), ERR_CREDENTIAL_REVOKED);
    assert_int_equal(s->noted, 1);
    table_take(s, NULL);
    assert_int_equal(admit_again(s, agent, NULL, ROLE_AGENT, now_ms), ERR_UNAUTHENTICATED);
    assert_int_equal(s->noted, 2);
}

static void who_was_refused_is_not_kept(void **state)
{
    struct scene *s = *state;
    const char *const bad[] = {NULL, "Bearer x", "Basic eDp5", s->credentials[REVOKED],
                               s->credentials[EXPIRED]};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_not_equal(admit_again(s, bad[i], NULL, ~0u, now_ms), ERR_OK);
        assert_null(s->kept.what);
    }
}

/* ---- tenants ---- */

static void a_key_speaks_for_its_tenant_only(void **state)
{
    struct scene *s = *state;
    assert_admitted(s, AGENT, "tenant_id=acme", "acme");
    assert_admitted(s, AGENT, "tenant_id=", "acme");
    assert_int_equal(admit(s, s->credentials[AGENT], "tenant_id=other", ROLE_AGENT, now_ms),
                     ERR_WRONG_TENANT);
    assert_refused(s, ERR_WRONG_TENANT, "tenant_id");
    assert_int_equal(admit(s, s->credentials[AGENT], "tenant_id=*", ROLE_AGENT, now_ms),
                     ERR_WRONG_TENANT);
}

static void a_key_for_every_tenant_names_one(void **state)
{
    struct scene *s = *state;
    assert_admitted(s, EVERYWHERE, "dry_run=true&tenant_id=caf%C3%A9", "caf\xC3\xA9");
    assert_int_equal(admit(s, s->credentials[EVERYWHERE], NULL, ROLE_AGENT, now_ms), ERR_OK);
    assert_true(str_is_absent(s->caller.tenant)); /* the body may still name it */
    static const char *const bad[] = {"tenant_id=a&tenant_id=a", "tenant_id=%ff", "tenant_id=%0",
                                      "tenant_id=a%00"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(admit(s, s->credentials[EVERYWHERE], bad[i], ROLE_AGENT, now_ms),
                         ERR_BAD_PARAMETER);
        assert_refused(s, ERR_BAD_PARAMETER, "");
    }
    char most[16 + LIMIT_ID_CHARACTERS + 2] = "tenant_id=";
    memset(most + 10, 'a', LIMIT_ID_CHARACTERS);
    assert_int_equal(admit(s, s->credentials[EVERYWHERE], most, ROLE_AGENT, now_ms), ERR_OK);
    most[10 + LIMIT_ID_CHARACTERS] = 'a';
    assert_int_equal(admit(s, s->credentials[EVERYWHERE], most, ROLE_AGENT, now_ms),
                     ERR_OUT_OF_RANGE);
}

static enum err settle(struct scene *s, unsigned place, const char *query, const char *body)
{
    assert_int_equal(admit(s, s->credentials[place], query, ~0u, now_ms - 1), ERR_OK);
    return api_settle_tenant(&s->caller, str_from(body), &s->fault);
}

static void the_body_may_name_the_tenant_where_the_key_leaves_it_open(void **state)
{
    struct scene *s = *state;
    assert_int_equal(settle(s, AGENT, NULL, NULL), ERR_OK);
    assert_int_equal(settle(s, AGENT, NULL, ""), ERR_OK);
    assert_int_equal(settle(s, AGENT, NULL, "acme"), ERR_OK);
    assert_true(str_equal(s->caller.tenant, STR("acme")));
    assert_int_equal(settle(s, AGENT, NULL, "other"), ERR_WRONG_TENANT);
    assert_string_equal(s->fault.field, "/tenant_id");
    assert_int_equal(settle(s, EVERYWHERE, NULL, "other"), ERR_OK);
    assert_true(str_equal(s->caller.tenant, STR("other")));
    assert_int_equal(settle(s, EVERYWHERE, "tenant_id=other", "other"), ERR_OK);
    assert_int_equal(settle(s, EVERYWHERE, "tenant_id=other", NULL), ERR_OK);
    assert_true(str_equal(s->caller.tenant, STR("other")));
    assert_int_equal(settle(s, EVERYWHERE, "tenant_id=other", "acme"), ERR_CONFLICTING_MEMBER);
    /* it is every tenant, and none */
    assert_int_equal(settle(s, EVERYWHERE, NULL, "*"), ERR_BAD_VALUE);
    assert_string_equal(s->fault.field, "/tenant_id");
    assert_int_equal(settle(s, EVERYWHERE, "tenant_id=*", NULL), ERR_BAD_VALUE);
    assert_int_equal(settle(s, EVERYWHERE, "tenant_id=%2A", "*"), ERR_BAD_VALUE);
    assert_int_equal(settle(s, EVERYWHERE, "tenant_id=*", "acme"), ERR_BAD_VALUE);
    assert_int_equal(settle(s, EVERYWHERE, NULL, NULL), ERR_TENANT_REQUIRED);
    assert_int_equal(settle(s, EVERYWHERE, NULL, ""), ERR_TENANT_REQUIRED);
    assert_string_equal(s->fault.field, "/tenant_id");
    char most[LIMIT_ID_CHARACTERS + 2] = "";
    memset(most, 'a', LIMIT_ID_CHARACTERS);
    assert_int_equal(settle(s, EVERYWHERE, NULL, most), ERR_OK);
    most[LIMIT_ID_CHARACTERS] = 'a';
    assert_int_equal(settle(s, EVERYWHERE, NULL, most), ERR_OUT_OF_RANGE);
    assert_string_equal(s->fault.field, "/tenant_id");
}

/* Looked at again after a wait, without the credential's text. */
static void a_credential_holds_until_its_key_ends(void **state)
{
    struct scene *s = *state;
    assert_int_equal(admit(s, s->credentials[EXPIRED], NULL, ROLE_AGENT, now_ms - 1), ERR_OK);
    struct credential_mark expired = api_credential_mark(&s->caller), revoked = expired,
                           nobody = expired;
    revoked.key.bytes[3] = REVOKED;
    nobody.key.bytes[3] = KEYS;
    assert_int_equal(
        api_credential_holds(&s->api, &expired, STR("acme"), STR("n"), now_ms - 1, &s->fault),
        ERR_OK);
    assert_int_equal(
        api_credential_holds(&s->api, &expired, STR("acme"), STR("n"), now_ms, &s->fault),
        ERR_CREDENTIAL_EXPIRED);
    assert_int_equal(
        api_credential_holds(&s->api, &revoked, STR("acme"), STR("n"), now_ms, &s->fault),
        ERR_CREDENTIAL_REVOKED);
    assert_int_equal(
        api_credential_holds(&s->api, &nobody, STR("acme"), STR("n"), now_ms, &s->fault),
        ERR_CREDENTIAL_REVOKED);
}

/* ---- parameters and bodies ---- */

static void pages_have_bounds(void **state)
{
    static const struct {
        const char *query;
        enum err err;
        uint64_t limit, cursor;
    } cases[] = {
        {NULL, ERR_OK, 20, 0},
        {"limit=1&cursor=0", ERR_OK, 1, 0},
        {"cursor=9223372036854775807&limit=500", ERR_OK, 500, INT64_MAX},
        {"limit=0", ERR_BAD_PARAMETER, 0, 0},
        {"limit=501", ERR_BAD_PARAMETER, 0, 0},
        {"limit=", ERR_BAD_PARAMETER, 0, 0},
        {"limit=-1", ERR_BAD_PARAMETER, 0, 0},
        {"limit=1x", ERR_BAD_PARAMETER, 0, 0},
        {"limit=+1", ERR_BAD_PARAMETER, 0, 0},
        {"cursor=9223372036854775808", ERR_BAD_PARAMETER, 0, 0},
        {"cursor=99999999999999999999", ERR_BAD_PARAMETER, 0, 0},
        {"limit=2&limit=2", ERR_BAD_PARAMETER, 0, 0},
    };
    struct scene *s = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t limit = 0, cursor = 0;
        exchange(s, NULL, cases[i].query);
        assert_int_equal(api_page(&s->x, &limit, &cursor, &s->fault), cases[i].err);
        if (cases[i].err != ERR_OK) continue;
        assert_int_equal(limit, cases[i].limit);
        assert_int_equal(cursor, cases[i].cursor);
    }
}

static void a_flag_is_true_or_false(void **state)
{
    struct scene *s = *state;
    bool flag = true;
    exchange(s, NULL, NULL);
    assert_int_equal(api_flag(&s->x, STR("dry_run"), &flag, &s->fault), ERR_OK);
    assert_false(flag);
    exchange(s, NULL, "explain=true");
    assert_int_equal(api_flag(&s->x, STR("dry_run"), &flag, &s->fault), ERR_OK);
    assert_false(flag);
    exchange(s, NULL, "explain=true&dry_run=false");
    assert_int_equal(api_flag(&s->x, STR("dry_run"), &flag, &s->fault), ERR_OK);
    assert_false(flag);
    assert_int_equal(api_flag(&s->x, STR("explain"), &flag, &s->fault), ERR_OK);
    assert_true(flag);
    static const char *const bad[] = {"dry_run=1", "dry_run=", "dry_run=True", "dry_run=yes",
                                      "dry_run=true&dry_run=true"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        flag = true;
        exchange(s, NULL, bad[i]);
        assert_int_equal(api_flag(&s->x, STR("dry_run"), &flag, &s->fault), ERR_BAD_PARAMETER);
        assert_false(flag);
        assert_non_null(strstr(s->fault.text, "dry_run"));
    }
}

static void a_body_is_one_strict_json_object(void **state)
{
    static const struct {
        const char *text;
        enum err err;
    } cases[] = {
        {"{\"a\":1}", ERR_OK},
        {" {} ", ERR_OK},
        {"", ERR_MALFORMED_JSON},
        {"[]", ERR_WRONG_TYPE},
        {"null", ERR_WRONG_TYPE},
        {"\"{}\"", ERR_WRONG_TYPE},
        {"{}{}", ERR_MALFORMED_JSON},
        {"{\"a\":1,\"\\u0061\":2}", ERR_DUPLICATE_KEY},
        {"{\"a\":\"\\u0000\"}", ERR_MALFORMED_JSON},
        {"{\"args\":\"\\u0000\"}", ERR_OK},
        {"{\"a\":1e999}", ERR_NUMBER_PRECISION},
    };
    struct scene *s = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json *body = NULL;
        exchange(s, NULL, NULL);
        s->x.body = str_from(cases[i].text);
        enum err err = api_body(&s->x, &body, &s->fault);
        if (err != cases[i].err) print_error("%s: %s\n", cases[i].text, err_code(err));
        assert_int_equal(err, cases[i].err);
        if (err == ERR_OK) assert_true(json_is_object(body));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_valid_key_is_let_in),
        TEST(the_scheme_is_told_in_any_case),
        TEST(no_or_another_credential_is_unauthenticated_and_noted),
        TEST(a_key_ends_when_it_is_revoked_or_its_time_has_come),
        TEST(a_key_that_left_the_table_is_unknown),
        TEST(a_key_without_the_role_is_told_which_would_do),
        TEST(a_key_that_was_proved_is_kept_with_its_head),
        TEST(what_a_kept_key_may_do_is_asked_each_time),
        TEST(a_kept_key_ends_with_its_table),
        TEST(who_was_refused_is_not_kept),
        TEST(a_key_speaks_for_its_tenant_only),
        TEST(a_key_for_every_tenant_names_one),
        TEST(the_body_may_name_the_tenant_where_the_key_leaves_it_open),
        TEST(a_credential_holds_until_its_key_ends),
        TEST(pages_have_bounds),
        TEST(a_flag_is_true_or_false),
        TEST(a_body_is_one_strict_json_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
