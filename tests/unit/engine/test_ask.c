/* What the three routes understand of a request, and what they refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/limits.h"
#include "engine/decision/auth_request.h"

struct scene {
    struct arena arena;
    struct chance chance;
    struct key key;
    struct caller caller;
    const struct token_claims *token; /* NULL: the key itself asks */
    struct auth_request ask;
    struct fault fault;
};

static struct str any_user[] = {STR("*")};
static struct str bots[] = {STR("*_bot"), STR("coder")};

static int set_up(void **state)
{
    struct scene *s = calloc(1, sizeof *s);
    arena_init(&s->arena, 1 << 16, 16 << 20);
    s->key.name = STR("fleet_bot");
    s->key.owner = STR("erin");
    s->key.tenant = STR("acme");
    s->key.actors = (struct globs){bots, 2};
    s->key.users = (struct globs){any_user, 1};
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;
    arena_fini(&s->arena);
    free(s);
    return 0;
}

static enum err ask_with(struct scene *s, enum auth_request_form form, const char *text,
                         const char *traceparent)
{
    static const struct json_options options = {0};
    struct json *body;
    arena_reset(&s->arena);
    s->fault = (struct fault){0};
    s->caller = (struct caller){.key = &s->key, .token = s->token};
    if (s->token != NULL)
        s->caller.tenant = s->token->tenant;
    else if (!str_equal(s->key.tenant, STR("*")))
        s->caller.tenant = s->key.tenant;
    struct str source = arena_copy(&s->arena, str_from(text));
    assert_int_equal(json_read(source, &options, &s->arena, &body, &s->fault), ERR_OK);
    struct auth_request_source from = {.form = form,
                                       .chance = &s->chance,
                                       .arena = &s->arena,
                                       .traceparent = str_from(traceparent)};
    return auth_request_read(&from, &s->caller, body, &s->ask, &s->fault);
}

static enum err ask(struct scene *s, enum auth_request_form form, const char *text)
{
    return ask_with(s, form, text, NULL);
}

static void assert_text(struct str s, const char *expected)
{
    assert_int_equal(s.size, strlen(expected));
    assert_memory_equal(s.bytes, expected, s.size);
}

static void refused(struct scene *s, enum auth_request_form form, const char *text, enum err err,
                    const char *field)
{
    assert_string_equal(err_code(ask(s, form, text)), err_code(err));
    assert_string_equal(s->fault.field, field);
    const char *name = strrchr(field, '/');
    assert_non_null(strstr(s->fault.text, name + 1)); /* the sentence names the member */
}

static void both_agent_routes_read_the_same_ask(void **state)
{
    struct scene *s = *state;
    assert_int_equal(
        ask(s, ASK_AGENT,
            "{\"action\":\"pay\",\"actor\":\"invoice_bot\",\"confidence\":0.5,\"acting_for\":\"carol\","
            "\"scope\":\"pay get_*\",\"trace_id\":\"t-1\",\"args\":{\"a\":1}}"),
        ERR_OK);
    struct policy_request first = s->ask.policy;
    assert_text(s->ask.trace_id, "t-1");
    assert_text(first.tenant, "acme");
    assert_text(first.actor, "invoice_bot");
    assert_int_equal(first.scope_count, 2);
    assert_int_equal(
        ask(s, ASK_TOOL,
            "{\"tool\":\"pay\",\"actor\":\"invoice_bot\",\"args\":{\"a\":1},\"context\":{\"confidence\":0.5,"
            "\"actingFor\":\"carol\",\"scope\":[\"pay\",\"get_*\"],\"traceId\":\"t-1\",\"mood\":\"calm\"}}"),
        ERR_OK);
    const struct policy_request *second = &s->ask.policy;
    assert_text(second->action, "pay");
    assert_text(second->acting_for, "carol");
    assert_true(second->has_confidence && second->confidence > 0.49 && second->confidence < 0.51);
    assert_int_equal(second->scope_count, 2);
    assert_text(s->ask.trace_id, "t-1");
    /* Conditions see the context without what was told apart; the record sees all of it. */
    assert_int_equal(second->context->count, 1);
    assert_int_equal(s->ask.context->count, 5);
}

static void defaults_come_from_the_credential(void **state)
{
    struct scene *s = *state;
    assert_int_equal(
        ask(s, ASK_AGENT, "{\"action\":\"pay\",\"actor\":\"\",\"tenant_id\":null,\"args\":null}"),
        ERR_OK);
    assert_text(s->ask.policy.actor, "fleet_bot");
    assert_text(s->ask.policy.tenant, "acme");
    assert_null(s->ask.policy.args);
    assert_false(s->ask.policy.has_confidence);
    assert_int_equal(s->ask.trace_id.size, 32);
}

static void a_credential_speaks_only_for_whom_it_may(void **state)
{
    struct scene *s = *state;
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"actor\":\"mallory\"}", ERR_WRONG_ACTOR, "/actor");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"tenant_id\":\"other\"}", ERR_WRONG_TENANT,
            "/tenant_id");
    s->key.users = (struct globs){bots, 2};
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"acting_for\":\"carol\"}", ERR_WRONG_USER,
            "/acting_for");
    refused(s, ASK_USER, "{\"action\":\"view\",\"user_id\":\"carol\"}", ERR_WRONG_USER, "/user_id");
    s->key.tenant = STR("*");
    refused(s, ASK_AGENT, "{\"action\":\"pay\"}", ERR_TENANT_REQUIRED, "/tenant_id");
    assert_int_equal(ask(s, ASK_AGENT, "{\"action\":\"pay\",\"tenant_id\":\"other\"}"), ERR_OK);
    assert_text(s->ask.policy.tenant, "other");
}

static void bad_members_are_named(void **state)
{
    struct scene *s = *state;
    refused(s, ASK_AGENT, "{}", ERR_MISSING_MEMBER, "/action");
    refused(s, ASK_TOOL, "{\"tool\":\"\"}", ERR_OUT_OF_RANGE, "/tool");
    char long_tool[400];
    snprintf(long_tool, sizeof long_tool, "{\"tool\":\"%0129d\"}", 1);
    refused(s, ASK_TOOL, long_tool, ERR_OUT_OF_RANGE, "/tool");
    assert_string_equal(s->fault.text, "tool: is longer than 128 characters");
    refused(s, ASK_TOOL, "{\"tool\":7}", ERR_WRONG_TYPE, "/tool");
    refused(s, ASK_USER, "{\"action\":\"view\"}", ERR_MISSING_MEMBER, "/user_id");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"args\":[]}", ERR_WRONG_TYPE, "/args");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"context\":3}", ERR_WRONG_TYPE, "/context");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"confidence\":\"0.9\"}", ERR_WRONG_TYPE,
            "/confidence");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"confidence\":1.2}", ERR_OUT_OF_RANGE,
            "/confidence");
    assert_string_equal(s->fault.text, "confidence: 1.2 is out of range [0, 1]");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"confidence\":-0.0001}", ERR_OUT_OF_RANGE,
            "/confidence");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"context\":{\"confidence\":2}}", ERR_OUT_OF_RANGE,
            "/context/confidence");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"scope\":[1]}", ERR_WRONG_TYPE, "/scope");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"resource\":4}", ERR_WRONG_TYPE, "/resource");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"resource\":{\"id\":4}}", ERR_WRONG_TYPE,
            "/resource/id");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"resource\":{\"properties\":[]}}", ERR_WRONG_TYPE,
            "/resource/properties");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"trace_id\":\"-x\"}", ERR_BAD_VALUE, "/trace_id");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"trace_id\":\"req_1\"}", ERR_BAD_VALUE,
            "/trace_id");
}

/* The reader lets it pass in context and properties, which are handed on; names are recorded. */
static void a_nul_never_gets_into_a_name(void **state)
{
    struct scene *s = *state;
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"context\":{\"acting_for\":\"a\\u0000\"}}",
            ERR_BAD_VALUE, "/context/acting_for");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"context\":{\"scope\":\"pay\\u0000\"}}",
            ERR_BAD_VALUE, "/context/scope");
    refused(s, ASK_TOOL, "{\"tool\":\"pay\",\"context\":{\"scope\":[\"pay\",\"\\u0000\"]}}",
            ERR_BAD_VALUE, "/context/scope");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"context\":{\"trace_id\":\"t\\u0000\"}}",
            ERR_BAD_VALUE, "/context/trace_id");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"resource\":{\"args\":\"\\u0000\"}}", ERR_BAD_VALUE,
            "/resource");
    assert_int_equal(
        ask(s, ASK_AGENT,
            "{\"action\":\"pay\",\"args\":{\"k\\u0000\":\"\\u0000\"},\"context\":\"\\u0000\","
            "\"resource\":{\"properties\":{\"p\":\"\\u0000\"}}}"),
        ERR_OK);
}

static void the_other_routes_casing_is_refused(void **state)
{
    struct scene *s = *state;
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"actingFor\":\"carol\"}", ERR_WRONG_CASE,
            "/actingFor");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"context\":{\"traceId\":\"x\"}}", ERR_WRONG_CASE,
            "/context/traceId");
    refused(s, ASK_TOOL, "{\"tool\":\"pay\",\"context\":{\"acting_for\":\"carol\"}}",
            ERR_WRONG_CASE, "/context/acting_for");
    refused(s, ASK_TOOL, "{\"tool\":\"pay\",\"tenant_id\":\"acme\"}", ERR_WRONG_CASE, "/tenant_id");
    refused(s, ASK_USER, "{\"action\":\"view\",\"userId\":\"carol\"}", ERR_WRONG_CASE, "/userId");
}

static void the_same_thing_twice_must_be_the_same(void **state)
{
    struct scene *s = *state;
    refused(s, ASK_AGENT,
            "{\"action\":\"pay\",\"confidence\":0.9,\"context\":{\"confidence\":0.8}}",
            ERR_CONFLICTING_MEMBER, "/confidence");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"scope\":\"a b\",\"context\":{\"scope\":\"a\"}}",
            ERR_CONFLICTING_MEMBER, "/scope");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"scope\":\"a\",\"context\":{\"scope\":\"a b\"}}",
            ERR_CONFLICTING_MEMBER, "/scope");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"scope\":\"a c\",\"context\":{\"scope\":\"b c\"}}",
            ERR_CONFLICTING_MEMBER, "/scope");
    assert_int_equal(
        ask(s, ASK_AGENT,
            "{\"action\":\"pay\",\"scope\":\"a b\",\"context\":{\"scope\":[\"a\",\"b\"]}}"),
        ERR_OK);
    refused(s, ASK_AGENT,
            "{\"action\":\"pay\",\"acting_for\":\"a\",\"context\":{\"acting_for\":\"b\"}}",
            ERR_CONFLICTING_MEMBER, "/acting_for");
    assert_int_equal(
        ask(s, ASK_AGENT,
            "{\"action\":\"pay\",\"confidence\":0.9,\"context\":{\"confidence\":9e-1}}"),
        ERR_OK);
}

static void a_resource_is_read_in_both_forms(void **state)
{
    struct scene *s = *state;
    assert_int_equal(ask(s, ASK_AGENT, "{\"action\":\"drop\",\"resource\":\"db:prod-1\"}"), ERR_OK);
    assert_text(s->ask.policy.resource, "db:prod-1");
    assert_false(s->ask.policy.resource_partial);
    assert_int_equal(
        ask(s, ASK_AGENT,
            "{\"action\":\"drop\",\"resource\":{\"id\":\"prod-1\",\"type\":\"db\",\"zone\":null,"
            "\"properties\":{\"n\":[1]}}}"),
        ERR_OK);
    assert_text(s->ask.policy.resource, "db:prod-1");
    assert_int_equal(s->ask.resource->count, 2);
    assert_non_null(s->ask.properties);
    /* Leaving the type out must not slip past a rule on `db:*`. */
    assert_int_equal(ask(s, ASK_AGENT, "{\"action\":\"drop\",\"resource\":\"prod-1\"}"), ERR_OK);
    assert_text(s->ask.policy.resource, "prod-1");
    assert_true(s->ask.policy.resource_partial);
}

static void names_in_a_resource_are_as_short_as_others(void **state)
{
    struct scene *s = *state;
    char text[600], name[LIMIT_ID_CHARACTERS + 2] = {0};
    static const char *const forms[] = {"\"db:%s\"", "{\"type\":\"db\",\"zone\":\"%s\"}",
                                        "{\"%s\":\"x\"}"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        for (size_t more = 0; more < 2; more++) {
            char resource[400];
            memset(name, 'n', LIMIT_ID_CHARACTERS + more);
            name[LIMIT_ID_CHARACTERS + more] = '\0';
            snprintf(resource, sizeof resource, forms[i], name);
            snprintf(text, sizeof text, "{\"action\":\"pay\",\"resource\":%s}", resource);
            if (more > 0)
                refused(s, ASK_AGENT, text, ERR_OUT_OF_RANGE, "/resource");
            else
                assert_int_equal(ask(s, ASK_AGENT, text), ERR_OK);
        }
    }
}

static void a_trace_id_comes_from_the_body_then_the_header(void **state)
{
    struct scene *s = *state;
    static const char header[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    assert_int_equal(ask_with(s, ASK_AGENT, "{\"action\":\"pay\"}", header), ERR_OK);
    assert_text(s->ask.trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_int_equal(ask_with(s, ASK_AGENT, "{\"action\":\"pay\",\"trace_id\":\"mine\"}", header),
                     ERR_OK);
    assert_text(s->ask.trace_id, "mine");
    static const char *const malformed[] = {
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x", "x"};
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        assert_int_equal(ask_with(s, ASK_AGENT, "{\"action\":\"pay\"}", malformed[i]), ERR_OK);
        assert_int_equal(s->ask.trace_id.size, 32);
        assert_false(str_equal(s->ask.trace_id, STR("4bf92f3577b34da6a3ce929d0e0e4736")));
    }
}

static struct str binding(struct scene *s)
{
    static char bytes[4096];
    struct buf b = buf_over(bytes, sizeof bytes);
    auth_request_put_binding(&b, &s->ask);
    assert_false(b.overflow);
    return buf_view(&b);
}

static void what_an_approval_is_bound_to_leaves_confidence_and_trace_out(void **state)
{
    struct scene *s = *state;
    assert_int_equal(
        ask(s, ASK_AGENT,
            "{\"trace_id\":\"t\",\"scope\":\"pay\",\"resource\":\"db:x\",\"confidence\":0.1,\"action\":\"pay\","
            "\"args\":{\"b\":1,\"a\":[]},\"context\":{\"confidence\":0.1,\"k\":\"v\"}}"),
        ERR_OK);
    assert_text(
        binding(s),
        "{\"action\":\"pay\",\"actor\":\"fleet_bot\",\"args\":{\"a\":[],\"b\":1},\"context\":{\"k\":\"v\"},"
        "\"kind\":\"agent\",\"resource\":{\"id\":\"x\",\"type\":\"db\"},\"scope\":[\"pay\"],\"tenant_id\":\"acme\"}");
    assert_int_equal(ask(s, ASK_AGENT, "{\"action\":\"pay\",\"args\":{}}"), ERR_OK);
    assert_text(
        binding(s),
        "{\"action\":\"pay\",\"actor\":\"fleet_bot\",\"args\":{},\"kind\":\"agent\",\"tenant_id\":\"acme\"}");
}

static void an_approval_is_bound_to_for_whom_and_to_all_of_the_resource(void **state)
{
    struct scene *s = *state;
    assert_int_equal(
        ask(s, ASK_AGENT,
            "{\"action\":\"pay\",\"acting_for\":\"carol\",\"resource\":{\"type\":\"db\",\"id\":\"x\","
            "\"zone\":\"eu\",\"properties\":{\"rows\":7}}}"),
        ERR_OK);
    assert_text(
        binding(s),
        "{\"acting_for\":\"carol\",\"action\":\"pay\",\"actor\":\"fleet_bot\",\"kind\":\"agent\","
        "\"resource\":{\"id\":\"x\",\"properties\":{\"rows\":7},\"type\":\"db\",\"zone\":\"eu\"},"
        "\"tenant_id\":\"acme\"}");
    assert_int_equal(ask(s, ASK_USER, "{\"user_id\":\"carol\",\"action\":\"pay\"}"), ERR_OK);
    assert_text(
        binding(s),
        "{\"action\":\"pay\",\"kind\":\"user\",\"tenant_id\":\"acme\",\"user_id\":\"carol\"}");
}

/* ---- tokens ---- */

static const struct token_claims token = {.tenant = STR("acme"),
                                          .actor = STR("invoice_bot"),
                                          .acting_for = STR("carol"),
                                          .scope = STR("issue_*  get_invoice")};

static void a_token_brings_its_names_and_its_scope(void **state)
{
    struct scene *s = *state;
    static const char *const same[] = {
        "{\"action\":\"pay\"}", "{\"action\":\"pay\",\"actor\":\"\",\"acting_for\":null}",
        "{\"action\":\"pay\",\"actor\":\"invoice_bot\",\"acting_for\":\"carol\",\"tenant_id\":\"acme\"}",
        "{\"action\":\"pay\",\"context\":{\"acting_for\":\"carol\"}}"};
    s->token = &token;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        assert_int_equal(ask(s, ASK_AGENT, same[i]), ERR_OK);
        const struct policy_request *p = &s->ask.policy;
        assert_text(p->tenant, "acme");
        assert_text(p->actor, "invoice_bot");
        assert_text(p->acting_for, "carol");
        assert_true(p->has_token_scope && !p->has_scope);
        assert_int_equal(p->token_scope_count, 2);
        assert_text(p->token_scope[0], "issue_*");
        assert_text(p->token_scope[1], "get_invoice");
    }
    /* What a request narrows itself to stands beside the token's, and not instead of it. */
    assert_int_equal(ask(s, ASK_AGENT, "{\"action\":\"get_invoice\",\"scope\":\"*\"}"), ERR_OK);
    assert_true(s->ask.policy.has_token_scope && s->ask.policy.has_scope);
    assert_int_equal(s->ask.policy.token_scope_count, 2);
    s->token = NULL;
    assert_int_equal(ask(s, ASK_AGENT, "{\"action\":\"pay\"}"), ERR_OK);
    assert_false(s->ask.policy.has_token_scope);
}

/* Each of as many as may be counts: one that is left out would deny what was granted. */
static void as_many_scopes_as_may_be_are_all_read(void **state)
{
    struct scene *s = *state;
    struct token_claims wide = token;
    char text[1024], body[1200];
    for (size_t count = ASK_SCOPES_MAX; count <= ASK_SCOPES_MAX + 1; count++) {
        struct buf b = buf_over(text, sizeof text - 1);
        for (size_t i = 0; i < count; i++) buf_printf(&b, "%sget_%zu", i == 0 ? "" : " ", i);
        assert_false(b.overflow);
        text[b.size] = '\0';
        snprintf(body, sizeof body, "{\"action\":\"pay\",\"scope\":\"%s\"}", text);
        bool fits = count <= ASK_SCOPES_MAX;
        assert_int_equal(ask(s, ASK_AGENT, body), fits ? ERR_OK : ERR_OUT_OF_RANGE);
        if (!fits) continue;
        assert_int_equal(s->ask.policy.scope_count, ASK_SCOPES_MAX);
        wide.scope = buf_view(&b);
        s->token = &wide;
        assert_int_equal(ask(s, ASK_AGENT, "{\"action\":\"pay\"}"), ERR_OK);
        assert_int_equal(s->ask.policy.token_scope_count, TOKEN_SCOPES_MAX);
        assert_text(s->ask.policy.token_scope[TOKEN_SCOPES_MAX - 1], "get_63");
        s->token = NULL;
    }
}

/* Also where the key that minted it could: the key's right is not the token's. */
static void a_token_speaks_for_nobody_else(void **state)
{
    struct scene *s = *state;
    struct token_claims for_nobody = token;
    for_nobody.acting_for = (struct str){0};
    s->token = &token;
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"actor\":\"coder\"}", ERR_WRONG_ACTOR, "/actor");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"actor\":\"Invoice_bot\"}", ERR_WRONG_ACTOR,
            "/actor");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"acting_for\":\"dan\"}", ERR_WRONG_USER,
            "/acting_for");
    refused(s, ASK_TOOL, "{\"tool\":\"pay\",\"context\":{\"actingFor\":\"dan\"}}", ERR_WRONG_USER,
            "/context/actingFor");
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"tenant_id\":\"globex\"}", ERR_WRONG_TENANT,
            "/tenant_id");
    refused(s, ASK_USER, "{\"action\":\"pay\",\"user_id\":\"carol\"}", ERR_WRONG_USER, "/user_id");
    s->token = &for_nobody;
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"acting_for\":\"carol\"}", ERR_WRONG_USER,
            "/acting_for");
    assert_int_equal(ask(s, ASK_AGENT, "{\"action\":\"pay\"}"), ERR_OK);
    assert_true(str_is_absent(s->ask.policy.acting_for));
}

/* A key for every tenant mints for one; the token is for that one alone. */
static void a_token_of_a_key_for_every_tenant_has_one(void **state)
{
    struct scene *s = *state;
    s->key.tenant = STR("*");
    s->token = &token;
    assert_int_equal(ask(s, ASK_AGENT, "{\"action\":\"pay\"}"), ERR_OK);
    refused(s, ASK_AGENT, "{\"action\":\"pay\",\"tenant_id\":\"globex\"}", ERR_WRONG_TENANT,
            "/tenant_id");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(both_agent_routes_read_the_same_ask, set_up, tear_down),
        cmocka_unit_test_setup_teardown(defaults_come_from_the_credential, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_token_brings_its_names_and_its_scope, set_up, tear_down),
        cmocka_unit_test_setup_teardown(as_many_scopes_as_may_be_are_all_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_token_speaks_for_nobody_else, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_token_of_a_key_for_every_tenant_has_one, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_credential_speaks_only_for_whom_it_may, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(bad_members_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_nul_never_gets_into_a_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_other_routes_casing_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_same_thing_twice_must_be_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_resource_is_read_in_both_forms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_in_a_resource_are_as_short_as_others, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_trace_id_comes_from_the_body_then_the_header, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            what_an_approval_is_bound_to_leaves_confidence_and_trace_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_approval_is_bound_to_for_whom_and_to_all_of_the_resource,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
