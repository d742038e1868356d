/* /api/v1/policies and /api/v1/bundle over real sockets. */
#include "rig.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "base/limits.h"
#include "store/database.h"
#include "store/policy_store.h"

/* In the place of libyaml's own, which readers ask: there may be no memory. */
static _Atomic bool yaml_has_none;

void *yaml_malloc(size_t size);
void *yaml_malloc(size_t size) { return yaml_has_none ? NULL : malloc(size > 0 ? size : 1); }

#define ALLOW                                                                                      \
    "rules:\\n  - {id: reads, agents: [\\\"*\\\"], actions: [\\\"get_*\\\"], decision: allow}\\n"
#define DENY "rules:\\n  - {id: reads, actions: [\\\"get_*\\\"], decision: deny}\\n"
#define BASE "/api/v1/policies/base"

static int put(struct rig *r, const char *content) /* the JSON string's inside */
{
    struct str body = arena_printf(&r->arena, "{\"content\":\"%s\"}", content);
    return call_with(r, r->keys[ADMIN], "PUT", BASE, body, NULL);
}

static void a_policy_is_put_and_got(void **state)
{
    struct rig *r = *state;
    put(r, ALLOW);
    assert_status(r, 201);
    assert_int_equal(number(r, "version"), 1);
    char etag[96];
    snprintf(etag, sizeof etag, "%s", r->etag);
    assert_int_not_equal(etag[0], '\0');
    get(r, ADMIN, BASE);
    assert_status(r, 200);
    assert_string_equal(r->etag, etag);
    assert_text(r, "name", "base");
    assert_text(r, "tenant_id", "default");
    assert_text(r, "format", "yaml");
    assert_text(r, "updated_by", "admin");
    assert_true(str_starts(json_text(r->json, STR("content")), STR("rules:\n")));
    assert_int_equal(call_with(r, r->keys[ADMIN], "GET", BASE, (struct str){0},
                               &(struct extra){{"If-None-Match"}, {etag}, NULL}),
                     304);
    assert_int_equal(r->body.size, 0);
}

static void the_same_content_makes_no_new_version(void **state)
{
    struct rig *r = *state;
    put(r, ALLOW);
    uint64_t version = number(r, "version");
    put(r, ALLOW);
    assert_status(r, 200);
    assert_int_equal(number(r, "version"), version);
    put(r, DENY);
    assert_status(r, 200);
    assert_int_equal(number(r, "version"), 2);
    /* What is not content is no version either. */
    send_json(r, ADMIN, "PUT", BASE, "{\"content\":\"" DENY "\",\"description\":\"d\"}");
    assert_int_equal(number(r, "version"), 2);
    assert_text(r, "description", "d");
    send_json(r, ADMIN, "PUT", BASE, "{\"content\":\"" DENY "\",\"is_active\":false}");
    assert_int_equal(number(r, "version"), 2);
    assert_int_equal(json_get(r->json, STR("is_active"))->type, JSON_FALSE);
    put(r, DENY); /* absent members keep what is there */
    assert_text(r, "description", "d");
    assert_int_equal(json_get(r->json, STR("is_active"))->type, JSON_FALSE);
}

static void an_invalid_document_says_where_and_changes_nothing(void **state)
{
    struct rig *r = *state;
    put(r, ALLOW);
    put(r, "rules:\\n  - {id: a, agents: [b], actions: [x], decision: alow}\\n");
    assert_refused(r, 400, "invalid_policy", "/content");
    const struct json *details = json_get(r->json, STR("details"));
    assert_int_equal(details->type, JSON_ARRAY);
    assert_int_equal(json_u64(details->child, STR("line"), 0), 2);
    assert_non_null(
        strstr(arena_copy(&r->arena, json_text(details->child, STR("message"))).bytes, "alow"));
    get(r, ADMIN, BASE);
    assert_int_equal(number(r, "version"), 1);
}

static void a_document_that_there_is_no_memory_to_read_is_503(void **state)
{
    struct rig *r = *state;
    yaml_has_none = true;
    put(r, ALLOW);
    yaml_has_none = false;
    assert_refused(r, 503, "store_unavailable", NULL);
    put(r, ALLOW);
    assert_status(r, 201);
}

static void an_object_is_a_document_too(void **state)
{
    struct rig *r = *state;
    send_json(
        r, ADMIN, "PUT", BASE,
        "{\"content\":{\"rules\":[{\"id\":\"a\",\"actions\":[\"x\"],\"decision\":\"deny\"}]}}");
    assert_status(r, 201);
    assert_text(r, "format", "json");
    assert_text(r, "content",
                "{\"rules\":[{\"id\":\"a\",\"actions\":[\"x\"],\"decision\":\"deny\"}]}");
}

static void conditions_are_held(void **state)
{
    struct rig *r = *state;
    const struct str allow = STR("{\"content\":\"" ALLOW "\"}"),
                     deny = STR("{\"content\":\"" DENY "\"}");
    struct extra fresh = {{"If-None-Match"}, {"*"}, NULL}, match = {{"If-Match"}, {r->etag}, NULL},
                 wrong = {{"If-Match"}, {"\"x\""}, NULL};
    char etag[96];
    call_with(r, r->keys[ADMIN], "PUT", BASE, allow, &wrong);
    assert_refused(r, 412, "precondition_failed", NULL);
    assert_int_equal(call_with(r, r->keys[ADMIN], "PUT", BASE, allow, &fresh), 201);
    snprintf(etag, sizeof etag, "%s", r->etag);
    char weak[100];
    snprintf(weak, sizeof weak, "W/%s", etag);
    match.values[0] = weak; /* says that the text may be another's */
    call_with(r, r->keys[ADMIN], "PUT", BASE, deny, &match);
    assert_refused(r, 412, "precondition_failed", NULL);
    match.values[0] = etag;
    call_with(r, r->keys[ADMIN], "PUT", BASE, deny, &fresh);
    assert_refused(r, 412, "precondition_failed", NULL);
    assert_int_equal(call_with(r, r->keys[ADMIN], "PUT", BASE, deny, &match), 200);
    call_with(r, r->keys[ADMIN], "PUT", BASE, allow, &match);
    assert_refused(r, 412, "precondition_failed", NULL);
    call_with(r, r->keys[ADMIN], "DELETE", BASE, (struct str){0}, &match);
    assert_refused(r, 412, "precondition_failed", NULL);
}

static void a_dry_run_changes_nothing(void **state)
{
    struct rig *r = *state;
    send_json(r, ADMIN, "PUT", BASE "?dry_run=true", "{\"content\":\"" ALLOW "\"}");
    assert_status(r, 200);
    assert_text(r, "change", "created");
    assert_int_equal(get(r, ADMIN, BASE), 404);
    get(r, ADMIN, "/api/v1/audit?kind=policy.put");
    assert_int_equal(number(r, "count"), 0);
    send_json(r, ADMIN, "PUT", BASE "?dry_run=yes", "{\"content\":\"" ALLOW "\"}");
    assert_refused(r, 400, "bad_parameter", NULL);
}

static void what_is_legal_and_probably_wrong_is_told_beside_the_policy(void **state)
{
    struct rig *r = *state;
    put(r, DENY);
    assert_null(json_get(r->json, STR("warnings")));
    put(r, "rules:\\n  - {id: all, agents: [\\\"*\\\"], actions: [\\\"*\\\"], decision: allow}\\n");
    assert_status(r, 200);
    const struct json *warnings = json_get(r->json, STR("warnings"));
    assert_true(json_is_array(warnings) && warnings->count > 0);
    assert_int_equal(json_u64(warnings->child, STR("line"), 0), 2);
    assert_true(json_text(warnings->child, STR("path")).size > 0 &&
                json_text(warnings->child, STR("message")).size > 0);
}

static void versions_stay_and_come_back(void **state)
{
    struct rig *r = *state;
    put(r, ALLOW);
    put(r, DENY);
    get(r, ADMIN, BASE "/versions");
    assert_int_equal(number(r, "count"), 2);
    assert_int_equal(json_u64(json_get(r->json, STR("versions"))->child, STR("version"), 0), 2);
    get(r, ADMIN, BASE "/versions?limit=1");
    assert_int_equal(number(r, "count"), 1);
    assert_int_equal(number(r, "next_cursor"), 2);
    get(r, ADMIN, BASE "/versions?limit=1&cursor=2");
    assert_int_equal(json_u64(json_get(r->json, STR("versions"))->child, STR("version"), 0), 1);
    assert_null(json_get(r->json, STR("next_cursor")));
    assert_int_equal(get(r, ADMIN, "/api/v1/policies/none/versions"), 404);
    get(r, ADMIN, BASE "/versions/1");
    assert_true(str_starts(json_text(r->json, STR("content")), STR("rules:\n")));
    assert_int_equal(get(r, ADMIN, BASE "/versions/9"), 404);
    assert_int_equal(get(r, ADMIN, BASE "/versions/x"), 404);
    send_json(r, ADMIN, "POST", BASE "/rollback", "{\"version\":1}");
    assert_status(r, 200);
    assert_int_equal(number(r, "version"), 3);
    send_json(r, ADMIN, "POST", BASE "/rollback", "{\"version\":9}");
    assert_refused(r, 404, "not_found", NULL);
    send_json(r, ADMIN, "POST", BASE "/rollback", "{}");
    assert_refused(r, 400, "missing_member", "/version");
    send_json(r, ADMIN, "POST", BASE "/rollback", "{\"version\":0}");
    assert_refused(r, 400, "out_of_range", "/version");
    send_json(r, ADMIN, "POST", BASE "/rollback", "{\"version\":\"1\"}");
    assert_refused(r, 400, "wrong_type", "/version");
    /* A document that is deleted and made again goes on counting. */
    assert_int_equal(call_with(r, r->keys[ADMIN], "DELETE", BASE, (struct str){0}, NULL), 200);
    assert_int_equal(get(r, ADMIN, BASE), 404);
    assert_int_equal(call_with(r, r->keys[ADMIN], "DELETE", BASE, (struct str){0}, NULL), 404);
    put(r, DENY);
    assert_status(r, 201);
    assert_int_equal(number(r, "version"), 4);
}

static void a_wrong_put_is_named(void **state)
{
    struct rig *r = *state;
    static const struct {
        const char *body, *code, *field;
    } cases[] = {
        {"{}", "missing_member", "/content"},
        {"{\"content\":null}", "missing_member", "/content"},
        {"{\"content\":5}", "wrong_type", "/content"},
        {"{\"content\":\"" ALLOW "\",\"is_active\":\"yes\"}", "wrong_type", "/is_active"},
        {"{\"content\":\"" ALLOW "\",\"description\":5}", "wrong_type", "/description"},
        {"{\"content\":\"" ALLOW "\",\"description\":\"a\\u0000\"}", "malformed_json",
         "/description"},
        {"{\"content\":\"" ALLOW "\",\"isActive\":true}", "wrong_case", "/isActive"},
        {"{\"content\":\"" ALLOW "\",\"tenant_id\":5}", "wrong_type", "/tenant_id"},
        {"[]", "wrong_type", NULL},
        {"{", "malformed_json", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        send_json(r, ADMIN, "PUT", BASE, cases[i].body);
        assert_refused(r, 400, cases[i].code, cases[i].field);
    }
    send_json(r, ADMIN, "PUT", "/api/v1/policies/a%20b", "{\"content\":\"" ALLOW "\"}");
    assert_refused(r, 400, "bad_value", NULL);
    char long_one[1026] = "", body[2048];
    memset(long_one, 'd', 1025);
    snprintf(body, sizeof body, "{\"content\":\"" ALLOW "\",\"description\":\"%s\"}", long_one);
    send_json(r, ADMIN, "PUT", BASE, body);
    assert_refused(r, 400, "out_of_range", "/description");
    snprintf(body, sizeof body, "{\"content\":\"" ALLOW "\",\"description\":\"%s\"}", long_one + 1);
    send_json(r, ADMIN, "PUT", BASE, body);
    assert_status(r, 201);
    send_json(r, ADMIN, "PUT", BASE, "{\"content\":\"" ALLOW "\",\"tenant_id\":\"acme\"}");
    assert_refused(r, 403, "wrong_tenant", "/tenant_id");
}

static void tenants_do_not_see_each_other(void **state)
{
    struct rig *r = *state;
    put(r, ALLOW);
    assert_int_equal(get(r, OTHER, BASE), 404);
    get(r, OTHER, "/api/v1/policies");
    assert_string_equal(r->body.bytes, "{\"policies\":[],\"count\":0}");
    get(r, OTHER, "/api/v1/policies?tenant_id=default");
    assert_refused(r, 403, "wrong_tenant", NULL);
    get(r, ROOT, "/api/v1/policies");
    assert_refused(r, 400, "tenant_required", NULL);
    get(r, ROOT, "/api/v1/policies?tenant_id=default");
    assert_int_equal(number(r, "count"), 1);
    assert_int_equal(get(r, AUDITOR, BASE), 403);
    assert_int_equal(call_with(r, NULL, "GET", BASE, (struct str){0}, NULL), 401);
}

static void changes_are_audited_without_a_source(void **state)
{
    struct rig *r = *state;
    put(r, ALLOW);
    put(r, DENY);
    send_json(r, ADMIN, "POST", BASE "/rollback", "{\"version\":1}");
    call_with(r, r->keys[ADMIN], "DELETE", BASE, (struct str){0}, NULL);
    get(r, AUDITOR, "/api/v1/audit?action=policy.put");
    assert_int_equal(number(r, "count"), 2);
    get(r, AUDITOR, "/api/v1/audit?kind=policy.rolled_back");
    assert_int_equal(number(r, "count"), 1);
    const struct json *e = json_get(r->json, STR("events"))->child;
    assert_int_equal(json_u64(e, STR("policy_version"), 0), 3);
    assert_true(str_equal(json_text(e, STR("actor")), STR("admin")));
    assert_true(str_starts(json_text(e, STR("key_id")), STR("key_")));
    assert_true(str_starts(json_text(e, STR("request_id")), STR("req_")));
    assert_null(json_get(e, STR("source")));
    get(r, AUDITOR, "/api/v1/audit?kind=policy.deleted");
    assert_int_equal(number(r, "count"), 1);
}

static void assert_last_reason(struct rig *r, const char *reason)
{
    get(r, AUDITOR, "/api/v1/audit?kind=policy.rolled_back&limit=1");
    const struct json *e = json_get(r->json, STR("events"))->child;
    assert_true(str_equal(json_text(e, STR("reason")), str_from(reason)));
}

static void a_rollback_tells_whether_it_is_in_force(void **state)
{
    struct rig *r = *state;
    put(r, ALLOW);
    put(r, DENY);
    send_json(r, ADMIN, "POST", BASE "/rollback", "{\"version\":1}");
    assert_last_reason(r, "to version 1");
    send_json(r, ADMIN, "PUT", BASE, "{\"content\":\"" ALLOW "\",\"is_active\":false}");
    assert_status(r, 200);
    send_json(r, ADMIN, "POST", BASE "/rollback", "{\"version\":2}");
    assert_int_equal(json_get(r->json, STR("is_active"))->type, JSON_FALSE);
    assert_last_reason(r, "to version 2, not in force");
    call_with(r, r->keys[ADMIN], "DELETE", BASE, (struct str){0}, NULL);
    send_json(r, ADMIN, "POST", BASE "/rollback", "{\"version\":1}");
    assert_status(r, 201);
    assert_int_equal(json_get(r->json, STR("is_active"))->type, JSON_TRUE);
    assert_last_reason(r, "to version 1");
}

/* As one that an older platform took, and today's engines would not. */
static void a_version_that_does_not_load_any_more_is_not_put_in_force_again(void **state)
{
    struct rig *r = *state;
    struct database *d;
    put(r, ALLOW);
    put(r, DENY);
    assert_int_equal(database_open(r->store, true, &d, &r->fault), ERR_OK);
    assert_int_equal(
        database_execute(
            d,
            "UPDATE policy_versions SET content = 'rules: all' WHERE name = 'base' AND version = 1",
            &r->fault),
        ERR_OK);
    database_close(d);
    send_json(r, ADMIN, "POST", BASE "/rollback", "{\"version\":1}");
    assert_refused(r, 400, "invalid_policy", "/content");
    get(r, ADMIN, BASE);
    assert_int_equal(number(r, "version"), 2);
}

/* ---- the bundle ---- */

static void the_bundle_holds_active_policies_and_keys(void **state)
{
    struct rig *r = *state;
    put(r, ALLOW);
    send_json(r, ADMIN, "PUT", "/api/v1/policies/off",
              "{\"content\":\"" ALLOW "\",\"is_active\":false}");
    get(r, ENGINE, "/api/v1/bundle");
    assert_status(r, 200);
    const struct json *policies = json_get(r->json, STR("policies"));
    assert_int_equal(policies->count, 1);
    assert_true(str_equal(json_text(policies->child, STR("name")), STR("base")));
    assert_int_equal(json_text(policies->child, STR("digest")).size, 64);
    const struct json *keys = json_get(r->json, STR("keys"));
    assert_int_equal(keys->count, 6);
    for (const struct json *k = keys->child; k != NULL; k = k->next)
        assert_int_equal(json_text(k, STR("mac")).size, 64);
    assert_int_equal(json_text(r->json, STR("log_id")).size, 32);
    assert_int_equal(get(r, ADMIN, "/api/v1/bundle"), 403);
    assert_int_equal(get(r, ENGINE, "/api/v1/bundle?wait=61"), 400);
}

/* And the keys that are for every tenant. */
static void the_bundle_of_a_tenants_engine_has_no_other_tenants(void **state)
{
    struct rig *r = *state;
    char narrow[CREDENTIAL_TEXT + 1] = "";
    put(r, ALLOW);
    send_json(r, OTHER, "PUT", "/api/v1/policies/theirs", "{\"content\":\"" ALLOW "\"}");
    send_json(r, ROOT, "POST", "/api/v1/keys",
              "{\"name\":\"narrow\",\"owner\":\"e\",\"tenant\":\"acme\",\"roles\":[\"ingest\"],"
              "\"nodes\":[\"*\"],\"tenants\":[\"acme\"]}");
    assert_status(r, 201);
    memcpy(narrow, json_text(r->json, STR("key")).bytes, CREDENTIAL_TEXT);
    call_with(r, narrow, "GET", "/api/v1/bundle", (struct str){0}, NULL);
    assert_status(r, 200);
    const struct json *policies = json_get(r->json, STR("policies"));
    assert_int_equal(policies->count, 1);
    assert_true(str_equal(json_text(policies->child, STR("tenant_id")), STR("acme")));
    const struct json *keys = json_get(r->json, STR("keys"));
    assert_int_equal(keys->count, 4);
    for (const struct json *k = keys->child; k != NULL; k = k->next)
        assert_true(str_equal(json_text(k, STR("tenant")), STR("acme")) ||
                    str_equal(json_text(k, STR("tenant")), STR("*")));
}

static void an_unchanged_bundle_is_304_after_its_wait(void **state)
{
    struct rig *r = *state;
    char etag[96];
    get(r, ENGINE, "/api/v1/bundle");
    snprintf(etag, sizeof etag, "%s", r->etag);
    const struct extra known = {{"If-None-Match"}, {etag}, NULL};
    assert_int_equal(
        call_with(r, r->keys[ENGINE], "GET", "/api/v1/bundle", (struct str){0}, &known), 304);
    assert_int_equal(r->body.size, 0);
    uint64_t begin = world_monotonic_ns();
    assert_int_equal(
        call_with(r, r->keys[ENGINE], "GET", "/api/v1/bundle?wait=1", (struct str){0}, &known),
        304);
    assert_string_equal(r->etag, etag);
    uint64_t took_ms = (world_monotonic_ns() - begin) / 1000000;
    assert_in_range(took_ms, 900, 30000);
}

static void a_bundle_of_megabytes_arrives_whole(void **state)
{
    struct rig *r = *state;
    struct buf content;
    buf_init(&content, 1 << 20, 4 << 20);
    buf_put_literal(&content,
                    "{\"content\":\"rules:\\n  - {id: a, actions: [x], decision: deny}\\n#");
    while (content.size < 900000) buf_put_literal(&content, " a comment that goes on and on");
    buf_put_literal(&content, "\"}");
    for (int i = 0; i < 5; i++) {
        struct str target = arena_printf(&r->arena, "/api/v1/policies/large-%d", i);
        call_with(r, r->keys[ADMIN], "PUT", target.bytes, buf_view(&content), NULL);
        assert_status(r, 201);
    }
    get(r, ENGINE, "/api/v1/bundle");
    assert_status(r, 200);
    assert_true(r->body.size > 5 * 900000 - 100);
    assert_int_equal(json_get(r->json, STR("policies"))->count, 5);
    get(r, ADMIN, "/api/v1/policies");
    assert_int_equal(number(r, "count"), 5);
    assert_null(json_get(r->json, STR("next_cursor")));
    buf_fini(&content);
}

/* A document of this many bytes, in the policy `name`. */
static int put_large(struct rig *r, int key, const char *name, bool is_active, size_t size)
{
    struct buf body;
    buf_init(&body, 1 << 20, 2 << 20);
    buf_printf(
        &body,
        "{\"is_active\":%s,\"content\":\"rules:\\n  - {id: a, actions: [x], decision: deny}\\n#",
        is_active ? "true" : "false");
    while (body.size < size) buf_put_byte(&body, '-');
    buf_put_literal(&body, "\"}");
    struct str target = arena_printf(&r->arena, "/api/v1/policies/%s", name);
    call_with(r, r->keys[key], "PUT", target.bytes, buf_view(&body), NULL);
    buf_fini(&body);
    return r->status;
}

static void what_engines_could_not_take_is_never_in_force(void **state)
{
    struct rig *r = *state;
    for (int i = 0; i < 16; i++) {
        struct str name = arena_printf(&r->arena, "large-%d", i);
        assert_int_equal(put_large(r, ADMIN, name.bytes, true, 1000000), 201);
    }
    put_large(r, ADMIN, "more", true, 1000000);
    assert_refused(r, 400, "out_of_range", NULL);
    assert_int_equal(put_large(r, ADMIN, "more", false, 1000000), 201); /* it is in no bundle */
    assert_int_equal(put_large(r, ADMIN, "more", true, 1000000), 400);
    put(r, ALLOW); /* there is room for a small one */
    assert_status(r, 201);
    assert_int_equal(put_large(r, OTHER, "theirs", true, 1000000), 201); /* and for others */
    assert_int_equal(put_large(r, ADMIN, "large-0", false, 1000000), 200);
    assert_int_equal(put_large(r, ADMIN, "more", true, 1000000), 200);
    get(r, ENGINE, "/api/v1/bundle");
    assert_status(r, 200);
    assert_int_equal(json_get(r->json, STR("policies"))->count, 18);
}

static void a_tenant_has_as_many_policies_as_engines_take_and_no_more(void **state)
{
    struct rig *r = *state;
    const struct policy_change first = {.tenant = STR("default"), .content = STR("rules: []")};
    struct policy_step *steps = calloc(LIMIT_POLICIES_PER_TENANT, sizeof *steps);
    const struct actor by = {.principal = STR("somebody"), .now_ms = world_now_ms()};
    struct fault f;
    char digest[SHA256_HEX];
    sha256_write_hex(sha256_once(first.content), digest);
    for (int i = 0; i < LIMIT_POLICIES_PER_TENANT; i++) {
        steps[i].change = first;
        steps[i].change.digest = str_of(digest, sizeof digest);
        steps[i].change.name = arena_printf(&r->arena, "p-%d", i);
    }
    struct store *store = rig_store(r);
    struct policy_batch batch = {.steps = steps, .count = LIMIT_POLICIES_PER_TENANT};
    assert_int_equal(policy_store_apply(store, &batch, &by, &f), ERR_OK);
    store_close(store);
    free(steps);

    put(r, ALLOW);
    assert_refused(r, 400, "out_of_range", NULL);
    /* one that is there may change */
    assert_int_equal(put_large(r, ADMIN, "p-7", true, 1000), 200);
    assert_int_equal(put_large(r, OTHER, "p-7", true, 1000), 201);
    assert_int_equal(
        call_with(r, r->keys[ADMIN], "DELETE", "/api/v1/policies/p-8", (struct str){0}, NULL), 200);
    put(r, ALLOW);
    assert_status(r, 201);
}

struct waiter {
    struct rig *r;
    struct http_client *client;
    struct extra known;
    int status;
    uint64_t at_ns;
    char etag[96], retry_after[8];
};

static void *wait_for_change(void *argument)
{
    struct waiter *w = argument;
    struct http_call call = {.method = "GET",
                             .target = STR("/api/v1/bundle?wait=30"),
                             .timeout_ms = 120000,
                             .reply_max = RIG_REPLY_MAX,
                             .header_count = 3};
    char bearer[128];
    struct http_answer answer;
    snprintf(bearer, sizeof bearer, "Bearer %s", w->r->keys[ENGINE]);
    call.headers[0] = (struct http_header){STR("Authorization"), str_from(bearer)};
    call.headers[1] = (struct http_header){STR("If-None-Match"), str_from(w->known.values[0])};
    call.headers[2] = (struct http_header){STR("Writ-Node"), STR("node-1")};
    struct fault f;
    if (http_call(w->client, &call, false, &answer, &f) == ERR_OK) w->status = answer.status;
    w->at_ns = world_monotonic_ns();
    struct str etag = http_answer_header(&answer, STR("etag"));
    snprintf(w->etag, sizeof w->etag, "%.*s", STR_FORMAT(etag));
    struct str retry_after = http_answer_header(&answer, STR("retry-after"));
    snprintf(w->retry_after, sizeof w->retry_after, "%.*s", STR_FORMAT(retry_after));
    return NULL;
}

/* Until the platform knows that an engine waits: revoking nothing tells who is behind. */
static void wait_until_it_waits(struct rig *r)
{
    for (int i = 0; i < 120000 && atomic_load(&r->platform->bundle_wait_count) == 0; i++)
        usleep(1000);
    assert_int_not_equal(atomic_load(&r->platform->bundle_wait_count), 0);
}

/* Whether it is told as soon as the machine, which tells the time that the change itself took, is
 * able to. */
static bool is_told_at_once(struct rig *r, const char *content)
{
    char etag[96];
    get(r, ENGINE, "/api/v1/bundle");
    snprintf(etag, sizeof etag, "%s", r->etag);
    struct waiter w = {
        .r = r, .client = rig_connect(r), .known = {{"If-None-Match"}, {etag}, NULL}};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_change, &w), 0);
    wait_until_it_waits(r);
    uint64_t begun_ns = world_monotonic_ns();
    put(r, content);
    uint64_t put_ns = world_monotonic_ns();
    pthread_join(thread, NULL);
    assert_int_equal(w.status, 200);
    assert_true(strcmp(w.etag, etag) != 0);
    http_client_destroy(w.client);
    return w.at_ns < put_ns + 300000000u + 5 * (put_ns - begun_ns);
}

static void a_waiting_engine_is_told_of_a_change_at_once(void **state)
{
    int at_once = 0;
    for (int i = 0; i < 5; i++) at_once += is_told_at_once(*state, i % 2 == 0 ? ALLOW : DENY);
    assert_in_range(at_once, 3, 5);
}

static void a_drain_answers_who_waits(void **state)
{
    struct rig *r = *state;
    char etag[96];
    get(r, ENGINE, "/api/v1/bundle");
    snprintf(etag, sizeof etag, "%s", r->etag);
    struct waiter w = {
        .r = r, .client = rig_connect(r), .known = {{"If-None-Match"}, {etag}, NULL}};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_change, &w), 0);
    wait_until_it_waits(r);
    rig_stop(r);
    pthread_join(thread, NULL);
    assert_int_equal(w.status, 503);
    assert_string_equal(w.retry_after, "1");
    http_client_destroy(w.client);
    rig_start(r);
}

/* What is closed with this, is reset. */
static int connect_to_reset(const struct rig *r)
{
    const struct linger at_once = {.l_onoff = 1};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons(
        (uint16_t)strtoul(strchr(platform_address(r->platform, SOCKET_TCP), ':') + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    return fd;
}

static void an_engine_that_resets_its_connection_leaves_its_place(void **state)
{
    struct rig *r = *state;
    get(r, ENGINE, "/api/v1/bundle");
    struct str request =
        arena_printf(&r->arena,
                     "GET /api/v1/bundle?wait=60 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer "
                     "%s\r\nIf-None-Match: %s\r\nWrit-Node: node-1\r\n\r\n",
                     r->keys[ENGINE], r->etag);
    int fd = connect_to_reset(r);
    assert_int_equal(send(fd, request.bytes, request.size, MSG_NOSIGNAL), request.size);
    wait_until_it_waits(r);
    close(fd);
    get(r, ENGINE, "/livez"); /* in the same turn, or a later one */
    get(r, ENGINE, "/livez");
    assert_int_equal(atomic_load(&r->platform->bundle_wait_count), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_policy_is_put_and_got),
        TEST(the_same_content_makes_no_new_version),
        TEST(an_invalid_document_says_where_and_changes_nothing),
        TEST(a_document_that_there_is_no_memory_to_read_is_503),
        TEST(an_object_is_a_document_too),
        TEST(conditions_are_held),
        TEST(a_dry_run_changes_nothing),
        TEST(what_is_legal_and_probably_wrong_is_told_beside_the_policy),
        TEST(versions_stay_and_come_back),
        TEST(a_wrong_put_is_named),
        TEST(tenants_do_not_see_each_other),
        TEST(changes_are_audited_without_a_source),
        TEST(a_rollback_tells_whether_it_is_in_force),
        TEST(a_version_that_does_not_load_any_more_is_not_put_in_force_again),
        TEST(the_bundle_holds_active_policies_and_keys),
        TEST(the_bundle_of_a_tenants_engine_has_no_other_tenants),
        TEST(an_unchanged_bundle_is_304_after_its_wait),
        TEST(a_bundle_of_megabytes_arrives_whole),
        TEST(what_engines_could_not_take_is_never_in_force),
        TEST(a_tenant_has_as_many_policies_as_engines_take_and_no_more),
        TEST(a_waiting_engine_is_told_of_a_change_at_once),
        TEST(a_drain_answers_who_waits),
        TEST(an_engine_that_resets_its_connection_leaves_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
