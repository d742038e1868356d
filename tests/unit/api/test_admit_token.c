/* Which tokens are let in, where, and as whom; and what is noted of those that are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include "access/signers.h"
#include "api/api.h"

enum { NOW_S = 1795166400, KEYS = 7 };
static const uint64_t now_ms = NOW_S * UINT64_C(1000) + 500;

enum { ACME, EVERYWHERE, REVOKED, EXPIRED, OTHER_TENANT, APP, LIMITED };

struct scene {
    struct api api;
    struct arena arena;
    struct pepper pepper;
    struct key_table *table;
    struct signers *signers;
    char token[TOKEN_TEXT_MAX + 8], key[CREDENTIAL_TEXT + 8];
    struct http_header headers[3];
    struct http_exchange x;
    struct caller caller;
    struct fault fault;
    struct id dead;
    unsigned failed, rejected;
    enum err rejected_err;
    struct id rejected_id;
};

static void note_failed(void *context, const struct http_exchange *x, enum err err)
{
    (void)x, (void)err;
    ((struct scene *)context)->failed++;
}

static void note_rejected(void *context, const struct http_exchange *x,
                          const struct token_claims *t, enum err err)
{
    (void)x;
    struct scene *s = context;
    s->rejected++;
    s->rejected_err = err;
    s->rejected_id = t->id;
}

static bool is_dead(void *context, const struct token_claims *t)
{
    return memcmp(&((struct scene *)context)->dead, &t->id, sizeof t->id) == 0;
}

static struct id key_id(unsigned place) { return (struct id){.bytes = {1, 2, 3, (uint8_t)place}}; }

static struct key *make_key(struct scene *s, unsigned place, const char *tenant, const char *role,
                            const char *more)
{
    char bytes[1024], id_text[ID_TEXT], credential[CREDENTIAL_TEXT];
    struct buf b = buf_over(bytes, sizeof bytes);
    id_write("key_", key_id(place), id_text);
    credential_make(key_id(place), credential);
    struct sha256 mac = credential_mac(&s->pepper, str_of(credential, CREDENTIAL_TEXT));
    buf_printf(
        &b,
        "{\"id\":\"%.*s\",\"name\":\"n\",\"owner\":\"o\",\"tenant\":\"%s\",\"roles\":[%s]%s,\"mac\":\"",
        ID_TEXT, id_text, tenant, role, more);
    buf_put_hex(&b, mac.bytes, SHA256_BYTES);
    buf_put(&b, place == LIMITED ? STR("\"}") : STR("\",\"actors\":[\"*\"]}"));
    if (place == ACME) {
        memcpy(s->key, "Bearer ", 7);
        memcpy(s->key + 7, credential, CREDENTIAL_TEXT);
    }
    struct json *row;
    struct key *key;
    assert_int_equal(json_read(buf_view(&b), NULL, &s->arena, &row, &s->fault), ERR_OK);
    assert_int_equal(key_read(row, &key, &s->fault), ERR_OK);
    return key;
}

static int set_up(void **state)
{
    static const uint8_t secret[ED25519_KEY_BYTES] = {5};
    struct scene *s = calloc(1, sizeof *s);
    arena_init(&s->arena, 1 << 14, 1 << 20);
    struct key *keys[KEYS] = {
        make_key(s, ACME, "acme", "\"agent\",\"admin\"", ""),
        make_key(s, EVERYWHERE, "*", "\"agent\"", ""),
        make_key(s, REVOKED, "acme", "\"agent\"", ",\"revoked_at\":\"2026-01-01T00:00:00Z\""),
        make_key(s, EXPIRED, "acme", "\"agent\"", ",\"expires_at\":\"2026-11-20T09:20:00Z\""),
        make_key(s, OTHER_TENANT, "globex", "\"agent\"", ""),
        make_key(s, APP, "acme", "\"app\"", ""),
        make_key(s, LIMITED, "acme", "\"agent\"", ",\"actors\":[\"pay_*\"],\"users\":[\"carol\"]"),
    };
    assert_int_equal(key_table_create(keys, KEYS, &s->table), ERR_OK);
    s->signers = calloc(1, sizeof *s->signers);
    signer_init(&s->signers->list[s->signers->count++], 1, 0, secret);
    s->api = (struct api){.keys = s->table,
                          .pepper = &s->pepper,
                          .cache = key_cache_create(16),
                          .hasher = hasher_create(),
                          .sheet = metrics_sheet_create(),
                          .replies_2xx = METRIC_ENGINE_REPLIES_2XX,
                          .auth_failed = METRIC_ENGINE_AUTH_FAILED,
                          .on_auth_failed = note_failed,
                          .context = s,
                          .signers = s->signers,
                          .tokens = token_cache_create(1),
                          .token_issuer = STR("writ"),
                          .token_audience = STR("writ"),
                          .token_is_dead = is_dead,
                          .on_token_rejected = note_rejected};
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;
    key_table_destroy(s->table);
    key_cache_destroy(s->api.cache);
    token_cache_destroy(s->api.tokens);
    signers_destroy(s->signers);
    hasher_destroy(s->api.hasher);
    arena_fini(&s->arena);
    free(s);
    return 0;
}

static struct token_claims claims_of(unsigned place)
{
    return (struct token_claims){.id = {.bytes = {1, 9, (uint8_t)place}},
                                 .key = key_id(place),
                                 .subject = STR("n"),
                                 .tenant = STR("acme"),
                                 .actor = STR("bot"),
                                 .audience = STR("writ"),
                                 .scope = STR("get_*"),
                                 .issued_at = NOW_S,
                                 .not_before = NOW_S,
                                 .expires_at = NOW_S + 60,
                                 .signer = 1};
}

static void put_header(struct scene *s, const char *name, const char *value)
{
    s->headers[s->x.header_count++] =
        (struct http_header){.name = str_from(name), .value = str_from(value)};
}

static void exchange(struct scene *s, const struct token_claims *c, const char *query)
{
    arena_reset(&s->arena);
    memset(s->token, 0, sizeof s->token);
    struct buf b = buf_over(s->token, sizeof s->token - 1);
    buf_put_literal(&b, "Bearer ");
    assert_int_equal(token_sign(s->signers, STR("writ"), c, &b), ERR_OK);
    s->x =
        (struct http_exchange){.arena = &s->arena, .headers = s->headers, .query = str_from(query)};
    put_header(s, "Authorization", s->token);
    s->fault = (struct fault){.err = ERR_END, .text = "left over"};
    s->caller = (struct caller){0};
}

static enum err admit_at(struct scene *s, uint64_t at_ms, uint32_t roles)
{
    return api_admit(&s->api, &s->x, roles, at_ms, &s->caller, &s->fault);
}

static enum err admit(struct scene *s, const struct token_claims *c, uint32_t roles)
{
    exchange(s, c, NULL);
    return admit_at(s, now_ms, roles);
}

static void assert_rejected(struct scene *s, const struct token_claims *c, enum err err,
                            const char *text)
{
    unsigned before = s->rejected;
    assert_string_equal(err_code(admit(s, c, ~0u)), err_code(err));
    assert_int_equal(s->fault.err, err);
    assert_non_null(strstr(s->fault.text, text));
    assert_int_equal(s->rejected, before + 1);
    assert_int_equal(s->rejected_err, err);
    assert_memory_equal(&s->rejected_id, &c->id, sizeof c->id);
    assert_int_equal(s->failed, 0);
    assert_null(s->caller.key);
}

static void a_token_comes_with_its_names_and_its_key(void **state)
{
    struct scene *s = *state;
    struct token_claims c = claims_of(EVERYWHERE);
    for (int i = 0; i < 2; i++) { /* the second time from the cache */
        assert_int_equal(admit(s, &c, ROLE_AGENT | ROLE_TOKEN), ERR_OK);
        if (i == 0) token_cache_keep(s->api.tokens, s->signers, s->caller.unseen, s->caller.token);
        assert_non_null(s->caller.token);
        assert_true(str_equal(s->caller.token->actor, STR("bot")));
        assert_true(str_equal(s->caller.tenant, STR("acme")));
        assert_int_equal(s->caller.key->id.bytes[3], EVERYWHERE);
    }
    assert_int_equal(s->rejected + s->failed, 0);
}

static void a_route_takes_tokens_only_where_it_says_so(void **state)
{
    struct scene *s = *state;
    struct token_claims c = claims_of(ACME);
    /* its key is an agent's, and an admin's */
    assert_int_equal(admit(s, &c, ROLE_AGENT), ERR_MISSING_ROLE);
    assert_non_null(strstr(s->fault.text, "a token may authorize"));
    assert_int_equal(admit(s, &c, ROLE_ADMIN | ROLE_AUDITOR), ERR_MISSING_ROLE);
    assert_null(s->caller.key);
    assert_int_equal(s->rejected + s->failed, 0); /* it is known who that was */
}

/* A key that has not the role is told of keys' roles alone. */
static void a_key_is_not_told_of_the_tokens_role(void **state)
{
    struct scene *s = *state;
    s->x = (struct http_exchange){.arena = &s->arena, .headers = s->headers};
    put_header(s, "Authorization", s->key);
    assert_int_equal(admit_at(s, now_ms, ROLE_APP | ROLE_REVIEWER | ROLE_TOKEN), ERR_MISSING_ROLE);
    assert_string_equal(s->fault.text, "this needs a key with the role app or reviewer");
    assert_int_equal(admit_at(s, now_ms, ROLE_TOKEN), ERR_MISSING_ROLE);
    assert_int_equal(admit_at(s, now_ms, ROLE_AGENT | ROLE_TOKEN), ERR_OK);
    assert_null(s->caller.token);
}

static void a_token_dies_with_its_key(void **state)
{
    struct scene *s = *state;
    struct token_claims revoked = claims_of(REVOKED), expired = claims_of(EXPIRED),
                        gone = claims_of(77);
    struct token_claims moved = claims_of(OTHER_TENANT), no_agent = claims_of(APP);
    assert_rejected(s, &revoked, ERR_CREDENTIAL_REVOKED, "key");
    assert_rejected(s, &gone, ERR_CREDENTIAL_REVOKED, "key");
    assert_rejected(s, &moved, ERR_CREDENTIAL_REVOKED, "key");
    assert_rejected(s, &no_agent, ERR_CREDENTIAL_REVOKED, "key");
    assert_rejected(s, &expired, ERR_CREDENTIAL_EXPIRED, "key");
    exchange(s, &expired, NULL);
    expired.issued_at = expired.not_before = NOW_S - 10;
    exchange(s, &expired, NULL);
    /* one moment before the key's end */
    assert_int_equal(admit_at(s, NOW_S * UINT64_C(1000) - 1, ROLE_TOKEN), ERR_OK);
    assert_int_equal(admit_at(s, NOW_S * UINT64_C(1000), ROLE_TOKEN), ERR_CREDENTIAL_EXPIRED);
}

/* Whoever has a signing key names whom it likes: the key that it says has minted it may not. */
static void a_token_speaks_for_nobody_for_whom_its_key_may_not(void **state)
{
    struct scene *s = *state;
    struct token_claims c = claims_of(LIMITED);
    assert_rejected(s, &c, ERR_CREDENTIAL_REVOKED, "may no longer speak");
    c.actor = STR("pay_bot");
    assert_int_equal(admit(s, &c, ROLE_TOKEN), ERR_OK);
    c.acting_for = STR("carol");
    assert_int_equal(admit(s, &c, ROLE_TOKEN), ERR_OK);
    c.acting_for = STR("mallory");
    assert_rejected(s, &c, ERR_CREDENTIAL_REVOKED, "may no longer speak");
}

/* It says so with the text, by which whoever asked its slot has it kept. */
static void a_token_is_unseen_until_it_is_kept(void **state)
{
    struct scene *s = *state;
    struct token_claims c = claims_of(ACME);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(admit(s, &c, ROLE_TOKEN), ERR_OK);
        assert_true(str_equal(s->caller.unseen, str_from(s->token + strlen("Bearer "))));
    }
    token_cache_keep(s->api.tokens, s->signers, s->caller.unseen, s->caller.token);
    assert_int_equal(admit(s, &c, ROLE_TOKEN), ERR_OK);
    assert_true(str_is_absent(s->caller.unseen));
}

static void a_revoked_token_is_refused_though_it_is_cached(void **state)
{
    struct scene *s = *state;
    struct token_claims c = claims_of(ACME);
    assert_int_equal(admit(s, &c, ROLE_TOKEN), ERR_OK);
    token_cache_keep(s->api.tokens, s->signers, s->caller.unseen, s->caller.token);
    s->dead = c.id;
    assert_rejected(s, &c, ERR_CREDENTIAL_REVOKED, "revoked");
}

static void an_expired_token_is_refused_and_told_whose_it_was(void **state)
{
    struct scene *s = *state;
    struct token_claims c = claims_of(ACME);
    c.issued_at = c.not_before = NOW_S - 60;
    c.expires_at = NOW_S;
    assert_rejected(s, &c, ERR_CREDENTIAL_EXPIRED, "the token has expired");
}

/* Looked at again after a wait. */
static void a_token_holds_to_before_its_last_second_and_while_its_key_does(void **state)
{
    struct scene *s = *state;
    struct token_claims c = claims_of(ACME);
    assert_int_equal(admit(s, &c, ROLE_TOKEN), ERR_OK);
    struct credential_mark mark = api_credential_mark(&s->caller);
    const uint64_t end_ms = (NOW_S + 60) * UINT64_C(1000);
    assert_int_equal(api_credential_holds(&s->api, &mark, c.tenant, c.actor, end_ms - 1, &s->fault),
                     ERR_OK);
    assert_int_equal(api_credential_holds(&s->api, &mark, c.tenant, c.actor, end_ms, &s->fault),
                     ERR_CREDENTIAL_EXPIRED);
    assert_int_equal(
        api_credential_holds(&s->api, &mark, STR("globex"), c.actor, now_ms, &s->fault),
        ERR_CREDENTIAL_REVOKED);
    s->dead = c.id;
    assert_int_equal(api_credential_holds(&s->api, &mark, c.tenant, c.actor, now_ms, &s->fault),
                     ERR_CREDENTIAL_REVOKED);
}

static void a_token_for_another_service_is_refused(void **state)
{
    struct scene *s = *state;
    struct token_claims c = claims_of(ACME);
    c.audience = STR("payments");
    assert_rejected(s, &c, ERR_UNAUTHENTICATED, "audience");
}

static void a_forged_token_is_a_failed_credential(void **state)
{
    struct scene *s = *state;
    struct token_claims c = claims_of(ACME);
    exchange(s, &c, NULL);
    char *last = s->token + strlen(s->token) - 2;
    *last = *last == 'A' ? 'B' : 'A';
    assert_int_equal(admit_at(s, now_ms, ROLE_TOKEN), ERR_UNAUTHENTICATED);
    assert_int_equal(s->failed, 1);
    c.not_before = NOW_S + 60;
    assert_int_equal(admit(s, &c, ROLE_TOKEN), ERR_UNAUTHENTICATED);
    assert_int_equal(s->failed, 2);
    assert_int_equal(s->rejected, 0);
}

static void two_authorization_headers_are_none(void **state)
{
    struct scene *s = *state;
    struct token_claims c = claims_of(ACME);
    const char *const others[] = {"Bearer x", s->token, s->key, ""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        exchange(s, &c, NULL);
        put_header(s, "X-Other", "1");
        put_header(s, "AUTHORIZATION", others[i]);
        assert_int_equal(admit_at(s, now_ms, ROLE_TOKEN), ERR_UNAUTHENTICATED);
        assert_non_null(strstr(s->fault.text, "more than once"));
    }
}

static void a_token_speaks_for_its_tenant_only(void **state)
{
    struct scene *s = *state;
    struct token_claims c = claims_of(EVERYWHERE);
    exchange(s, &c, "tenant_id=acme");
    assert_int_equal(admit_at(s, now_ms, ROLE_TOKEN), ERR_OK);
    assert_int_equal(api_settle_tenant(&s->caller, STR("acme"), &s->fault), ERR_OK);
    assert_int_equal(api_settle_tenant(&s->caller, STR("globex"), &s->fault), ERR_WRONG_TENANT);
    assert_non_null(strstr(s->fault.text, "this token"));
    exchange(s, &c, "tenant_id=globex");
    assert_int_equal(admit_at(s, now_ms, ROLE_TOKEN), ERR_WRONG_TENANT);
    assert_non_null(strstr(s->fault.text, "this token"));
}

/* A request that is away keeps its caller, whatever comes meanwhile. */
static void a_caller_outlives_the_cache(void **state)
{
    struct scene *s = *state;
    struct token_claims first = claims_of(ACME), second = claims_of(EVERYWHERE);
    struct arena own;
    arena_init(&own, 1 << 14, 1 << 20);
    exchange(s, &first, NULL);
    s->x.arena = &own;
    assert_int_equal(admit_at(s, now_ms, ROLE_TOKEN), ERR_OK);
    struct caller kept = s->caller;
    second.actor = STR("another");
    assert_int_equal(admit(s, &second, ROLE_TOKEN), ERR_OK);
    token_cache_clear(s->api.tokens);
    assert_true(str_equal(kept.token->actor, STR("bot")) && str_equal(kept.tenant, STR("acme")));
    arena_fini(&own);
}

static void a_program_without_signers_takes_keys_only(void **state)
{
    struct scene *s = *state;
    struct token_claims c = claims_of(ACME);
    s->api.signers = NULL;
    assert_int_equal(admit(s, &c, ~0u), ERR_UNAUTHENTICATED);
    assert_int_equal(s->failed, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_token_comes_with_its_names_and_its_key),
        TEST(a_route_takes_tokens_only_where_it_says_so),
        TEST(a_key_is_not_told_of_the_tokens_role),
        TEST(a_token_dies_with_its_key),
        TEST(a_token_speaks_for_nobody_for_whom_its_key_may_not),
        TEST(a_token_is_unseen_until_it_is_kept),
        TEST(a_revoked_token_is_refused_though_it_is_cached),
        TEST(an_expired_token_is_refused_and_told_whose_it_was),
        TEST(a_token_holds_to_before_its_last_second_and_while_its_key_does),
        TEST(a_token_for_another_service_is_refused),
        TEST(a_forged_token_is_a_failed_credential),
        TEST(two_authorization_headers_are_none),
        TEST(a_token_speaks_for_its_tenant_only),
        TEST(a_caller_outlives_the_cache),
        TEST(a_program_without_signers_takes_keys_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
