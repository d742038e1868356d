/* test_event.c - the audit event: written canonically, read strictly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "event/event.h"
#include "json/json.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static struct arena arena;
static struct fault fault;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 1 << 16, 16 << 20);
    fault = (struct fault){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

/* Every member there is. */
static struct event full_event(void)
{
    return (struct event){
        .acting_for = STR("c\xC3\xA9line"),
        .action = STR("issue \"refund\"\n"),
        .actor = STR("invoice_bot"),
        .args = STR("{\"amount\":120.5,\"n\":\"\\u0000\"}"),
        .binding_hash = STR(HASH),
        .client_address = STR("2001:db8::1"),
        .confidence = 0.92,
        .has_confidence = true,
        .confidence_used = 0.9,
        .has_confidence_used = true,
        .context = STR("\"free text\""),
        .count = 0,
        .has_count = true,
        .decision = STR("human_review"),
        .engine_version = STR("0.1.0"),
        .event_id = STR("evt_01JD0000000000000000000000"),
        .expires_at = 1795167000123,
        .conversation_id = STR("thread-7"),
        .idempotency_key = STR("call-1"),
        .input_hash = STR(HASH),
        .input_salt = STR("00112233445566778899aabbccddeeff"),
        .key_id = STR("key_01JD0000000000000000000000"),
        .kind = STR("decision"),
        .latency_ms = 0.041,
        .has_latency_ms = true,
        .mode = STR("live"),
        .output_hash = STR(HASH),
        .policy_digest = STR(HASH),
        .policy_name = STR("payments"),
        .policy_version = 9007199254740991,
        .has_policy_version = true,
        .previous = STR("{\"epoch\":\"a1\",\"seq\":17}"),
        .proof = STR("owner"),
        .reason = STR("Refunds over 500 need finance."),
        .redemption_id = STR("req_01JD0000000000000000000001"),
        .request_id = STR("req_01JD0000000000000000000000"),
        .resolution_note = STR(""),
        .resolved_by = STR("dan@example.com"),
        .resource = STR("{\"id\":\"17\",\"type\":\"invoice\"}"),
        .resource_properties = STR("{\"a\":[1,2]}"),
        .review_id = STR("rev_01JD0000000000000000000000"),
        .rule = STR("review:large-refunds"),
        .safe_args = STR("{}"),
        .safe_tool = STR("write_file"),
        .notify = STR("{\"channels\":[\"a\"],\"remind\":600}"),
        .scope = STR("[\"get_*\"]"),
        .tenant_id = STR("default"),
        .timestamp = 1795167000123,
        .token_id = STR("tok_01JD0000000000000000000000"),
        .tool_call_id = STR("toolu_01A09q90qw90lq917835lq9"),
        .trace_id = STR("4bf92f3577b34da6a3ce929d0e0e4736"),
        .user_id = STR("carol"),
        .would_have = STR("{\"decision\":\"deny\",\"rule\":\"deny:x\"}"),
    };
}

static struct event small_event(void)
{
    return (struct event){.event_id = STR("evt_1"),
                          .kind = STR("engine.started"),
                          .tenant_id = STR("default"),
                          .timestamp = 1795167000123};
}

static struct str written(const struct event *e)
{
    size_t room = 1 << 16;
    struct buf out = buf_over(arena_bytes(&arena, room), room);
    event_put(&out, e);
    assert_false(out.overflow);
    return buf_view(&out);
}

static void an_event_is_written_in_its_canonical_form(void **state)
{
    (void)state;
    struct event events[3];
    memset(events, 0, sizeof events);
    events[0] = full_event();
    events[1] = small_event();
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        struct str text = written(&events[i]);
        struct json *root;
        const struct json_options options = {.nul_anywhere = true};
        if (json_read(text, &options, &arena, &root, &fault) != ERR_OK) fail_msg("%s", fault.text);
        struct buf out = buf_over(arena_bytes(&arena, text.size * 8), text.size * 8);
        json_put_canonical(&out, root);
        assert_true(str_equal(buf_view(&out), text));
    }
}

static void a_small_event_looks_as_documented(void **state)
{
    (void)state;
    struct event e = small_event();
    assert_true(str_equal(
        written(&e),
        STR("{\"event_id\":\"evt_1\",\"kind\":\"engine.started\",\"tenant_id\":\"default\","
            "\"timestamp\":\"2026-11-20T09:30:00.123Z\"}")));
    struct event none = {0};
    assert_true(str_equal(written(&none), STR("{}")));
}

static void every_member_is_written_once(void **state)
{
    (void)state;
    struct event e = full_event();
    struct str text = written(&e);
    struct json *root;
    const struct json_options options = {.nul_anywhere = true};
    assert_int_equal(json_read(text, &options, &arena, &root, &fault), ERR_OK);
    size_t members = 0;
#define EVENT(name, type)                                                                          \
    members++;                                                                                     \
    if (json_get(root, STR(#name)) == NULL) fail_msg("%s is not written", #name);
#include "event/event.def"
#undef EVENT
    assert_int_equal(root->count, members);
}

static void what_was_written_is_read_back_the_same(void **state)
{
    (void)state;
    struct event events[2];
    events[0] = full_event();
    events[1] = small_event();
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        struct str text = written(&events[i]);
        struct event back;
        if (event_read(text, &arena, &back, &fault) != ERR_OK) fail_msg("%s", fault.text);
        assert_true(str_equal(written(&back), text));
        assert_int_equal(back.has_count, events[i].has_count);
        assert_true(back.timestamp == events[i].timestamp);
    }
}

/* Of an event that stands behind other bytes. */
static void put_outcome(struct buf *out, const struct event *e)
{
    char bytes[4096];
    struct event_outcome outcome;
    struct buf told = buf_over(bytes, sizeof bytes);
    buf_put_literal(&told, "{}");
    event_put_told(&told, e, &outcome);
    struct str event = str_skip(buf_view(&told), 2);
    assert_true(str_equal(event, written(e)));
    event_put_outcome(out, event, &outcome);
    if (str_is_absent(e->output_hash)) return;
    assert_memory_equal(event.bytes + outcome.hash_end - e->output_hash.size, e->output_hash.bytes,
                        e->output_hash.size);
}

static void the_outcome_covers_what_the_contract_lists(void **state)
{
    (void)state;
    static const char *const listed[] = {"action",        "actor",     "decision",   "expires_at",
                                         "input_hash",    "key_id",    "kind",       "mode",
                                         "policy_digest", "reason",    "request_id", "review_id",
                                         "rule",          "safe_args", "safe_tool",  "tenant_id",
                                         "timestamp",     "trace_id",  "user_id"};
    const size_t count = sizeof listed / sizeof *listed;
    struct event e = full_event();
    char bytes[4096];
    struct buf out = buf_over(bytes, sizeof bytes);
    put_outcome(&out, &e);
    struct json *whole, *outcome;
    assert_int_equal(json_read(buf_view(&out), NULL, &arena, &outcome, &fault), ERR_OK);
    const struct json_options options = {.nul_anywhere = true};
    assert_int_equal(json_read(written(&e), &options, &arena, &whole, &fault), ERR_OK);
    assert_int_equal(outcome->count, count);
    for (size_t i = 0; i < count; i++) {
        struct json *a = json_get(whole, str_from(listed[i])),
                    *b = json_get(outcome, str_from(listed[i]));
        assert_non_null(a);
        if (b == NULL) fail_msg("%s is not in the outcome", listed[i]);
        assert_true(str_equal(a->raw, b->raw));
    }
    /* Canonical, and absent members are left out. */
    char again[4096];
    struct buf canonical = buf_over(again, sizeof again);
    json_put_canonical(&canonical, outcome);
    assert_true(str_equal(buf_view(&canonical), buf_view(&out)));
    struct event small = small_event();
    buf_clear(&out);
    put_outcome(&out, &small);
    assert_true(
        str_equal(buf_view(&out), STR("{\"kind\":\"engine.started\",\"tenant_id\":\"default\","
                                      "\"timestamp\":\"2026-11-20T09:30:00.123Z\"}")));
}

static void no_room_shows_in_the_buf(void **state)
{
    (void)state;
    struct event e = full_event();
    size_t whole = written(&e).size;
    for (size_t room = 0; room <= whole; room++) {
        char *bytes = malloc(room > 0 ? room : 1);
        assert_non_null(bytes);
        struct buf out = buf_over(bytes, room);
        event_put(&out, &e);
        assert_int_equal(out.overflow, room < whole);
        free(bytes);
    }
}

/* ---- reading ---- */

#define BASE                                                                                       \
    "\"event_id\":\"evt_1\",\"kind\":\"decision\",\"tenant_id\":\"t\",\"timestamp\":\"2026-11-"    \
    "20T09:30:00.123Z\""

static void refused_with(const char *text, enum err err, const char *field, const char *sentence)
{
    struct event e = {.count = 7};
    enum err got = event_read(str_from(text), &arena, &e, &fault);
    if (got != err) fail_msg("%s: %s (%s)", text, err_code(got), fault.text);
    assert_string_equal(fault.field, field);
    assert_string_equal(fault.text, sentence);
    assert_int_equal(e.count, 7);
}

static void a_required_member_may_not_be_missing(void **state)
{
    (void)state;
    refused_with(
        "{\"kind\":\"decision\",\"tenant_id\":\"t\",\"timestamp\":\"2026-11-20T09:30:00.123Z\"}",
        ERR_MISSING_MEMBER, "/event_id", "event_id: is required");
    refused_with(
        "{\"event_id\":\"e\",\"tenant_id\":\"t\",\"timestamp\":\"2026-11-20T09:30:00.123Z\"}",
        ERR_MISSING_MEMBER, "/kind", "kind: is required");
    refused_with(
        "{\"event_id\":\"e\",\"kind\":\"decision\",\"timestamp\":\"2026-11-20T09:30:00.123Z\"}",
        ERR_MISSING_MEMBER, "/tenant_id", "tenant_id: is required");
    refused_with("{\"event_id\":\"e\",\"kind\":\"decision\",\"tenant_id\":\"t\"}",
                 ERR_MISSING_MEMBER, "/timestamp", "timestamp: is required");
}

static void an_unknown_member_is_refused(void **state)
{
    (void)state;
    refused_with("{" BASE ",\"extra\":1}", ERR_BAD_VALUE, "/extra",
                 "an event has no member \"extra\"");
    refused_with("{" BASE ",\"a/b~c\":1}", ERR_BAD_VALUE, "/a~1b~0c",
                 "an event has no member \"a/b~c\"");
    refused_with("{" BASE ",\"0123456789012345678901234567890123456789012345678\":1}",
                 ERR_BAD_VALUE, "",
                 "an event has no member \"012345678901234567890123456789012345678901234567\"");
    refused_with("{" BASE ",\"Actor\":\"x\"}", ERR_BAD_VALUE, "/Actor",
                 "an event has no member \"Actor\"");
}

static void members_are_held_to_their_types(void **state)
{
    (void)state;
    refused_with("[]", ERR_WRONG_TYPE, "", "an event is a JSON object");
    refused_with("{" BASE ",\"actor\":1}", ERR_WRONG_TYPE, "/actor", "actor: must be a string");
    refused_with("{" BASE ",\"actor\":null}", ERR_WRONG_TYPE, "/actor", "actor: must be a string");
    refused_with("{" BASE ",\"args\":\"x\"}", ERR_WRONG_TYPE, "/args", "args: must be an object");
    refused_with("{" BASE ",\"args\":[]}", ERR_WRONG_TYPE, "/args", "args: must be an object");
    refused_with("{" BASE ",\"context\":1}", ERR_WRONG_TYPE, "/context",
                 "context: must be an object or a string");
    refused_with("{" BASE ",\"scope\":{}}", ERR_WRONG_TYPE, "/scope",
                 "scope: must be a string or an array");
    refused_with("{" BASE ",\"confidence\":\"1\"}", ERR_WRONG_TYPE, "/confidence",
                 "confidence: must be a number");
    refused_with("{" BASE ",\"count\":true}", ERR_WRONG_TYPE, "/count", "count: must be a number");
    refused_with("{" BASE ",\"expires_at\":5}", ERR_WRONG_TYPE, "/expires_at",
                 "expires_at: must be a string");
}

static void members_are_held_to_their_values(void **state)
{
    (void)state;
    refused_with("{" BASE ",\"confidence\":1.5}", ERR_OUT_OF_RANGE, "/confidence",
                 "confidence: is out of range [0, 1]");
    refused_with("{" BASE ",\"confidence\":-0.1}", ERR_OUT_OF_RANGE, "/confidence",
                 "confidence: must be a number that is not negative");
    refused_with("{" BASE ",\"latency_ms\":-1}", ERR_OUT_OF_RANGE, "/latency_ms",
                 "latency_ms: must be a number that is not negative");
    refused_with("{" BASE ",\"count\":1.5}", ERR_OUT_OF_RANGE, "/count",
                 "count: must be an integer from 0 to 9007199254740991");
    refused_with("{" BASE ",\"count\":9007199254740992}", ERR_OUT_OF_RANGE, "/count",
                 "count: must be an integer from 0 to 9007199254740991");
    refused_with("{" BASE ",\"policy_version\":18446744073709551615}", ERR_OUT_OF_RANGE,
                 "/policy_version",
                 "policy_version: must be an integer from 0 to 9007199254740991");
    refused_with("{" BASE ",\"decision\":\"allowed\"}", ERR_BAD_VALUE, "/decision",
                 "decision: must be allow, deny, human_review or compute");
    refused_with("{" BASE ",\"mode\":\"shadow\"}", ERR_BAD_VALUE, "/mode",
                 "mode: must be live or dry_run");
    refused_with("{" BASE ",\"input_hash\":\"ABC\"}", ERR_BAD_VALUE, "/input_hash",
                 "input_hash: must be 64 lowercase hex digits");
    refused_with("{" BASE ",\"input_salt\":\"" HASH "\"}", ERR_BAD_VALUE, "/input_salt",
                 "input_salt: must be 32 lowercase hex digits");
    refused_with("{" BASE ",\"input_salt\":\"00112233445566778899AABBCCDDEEFF\"}", ERR_BAD_VALUE,
                 "/input_salt", "input_salt: must be 32 lowercase hex digits");
    refused_with("{" BASE ",\"trace_id\":\"a b\"}", ERR_BAD_VALUE, "/trace_id",
                 "trace_id: must be 1 to 128 of A-Z a-z 0-9 . _ : -");
    refused_with("{" BASE ",\"actor\":\"\"}", ERR_BAD_VALUE, "/actor", "actor: must not be empty");
    refused_with("{" BASE ",\"rule\":\"a\\\"b\"}", ERR_BAD_VALUE, "/rule",
                 "rule: must be at most 256 printable ASCII characters that need no escape");
    refused_with("{" BASE ",\"rule\":\"\xC3\xA9\"}", ERR_BAD_VALUE, "/rule",
                 "rule: must be at most 256 printable ASCII characters that need no escape");
    refused_with("{\"event_id\":\"e\",\"kind\":\"decisions\",\"tenant_id\":\"t\",\"timestamp\":"
                 "\"2026-11-20T09:30:00.123Z\"}",
                 ERR_BAD_VALUE, "/kind", "kind: is not a known kind of event");
}

static void times_have_one_spelling(void **state)
{
    (void)state;
    refused_with("{" BASE ",\"expires_at\":\"2026-11-20T10:30:00.123+01:00\"}", ERR_BAD_VALUE,
                 "/expires_at",
                 "expires_at: must be in UTC with milliseconds, like 2026-11-20T09:30:00.123Z");
    refused_with("{" BASE ",\"expires_at\":\"2026-11-20T10:30:00Z\"}", ERR_BAD_VALUE, "/expires_at",
                 "expires_at: must be in UTC with milliseconds, like 2026-11-20T09:30:00.123Z");
    refused_with("{" BASE ",\"expires_at\":\"tomorrow\"}", ERR_BAD_VALUE, "/expires_at",
                 "expires_at: must be an RFC 3339 time after 1970");
}

static void a_number_that_only_looks_like_zero_is_refused(void **state)
{
    (void)state;
    struct event e;
    refused_with("{" BASE ",\"confidence\":1e-400}", ERR_OUT_OF_RANGE, "/confidence",
                 "confidence: is too small for a double");
    refused_with("{" BASE ",\"latency_ms\":0.01E-322}", ERR_OUT_OF_RANGE, "/latency_ms",
                 "latency_ms: is too small for a double");
    assert_int_equal(
        event_read(
            STR("{" BASE ",\"confidence\":0e-400,\"confidence_used\":0.0,\"latency_ms\":5e-324}"),
            &arena, &e, &fault),
        ERR_OK);
}

static void a_nul_is_taken_only_in_what_callers_handed_on(void **state)
{
    (void)state;
    struct event e;
    assert_int_equal(event_read(STR("{" BASE ",\"args\":{\"\\u0000\":1},\"context\":\"\\u0000\","
                                    "\"safe_args\":{\"a\":\"\\u0000\"},"
                                    "\"resource_properties\":{\"a\":[\"\\u0000\"]}}"),
                                &arena, &e, &fault),
                     ERR_OK);
    assert_true(str_equal(e.args, STR("{\"\\u0000\":1}")));
    refused_with("{" BASE ",\"actor\":\"a\\u0000\"}", ERR_BAD_VALUE, "/actor",
                 "actor: must not have a U+0000");
    refused_with("{" BASE ",\"resource\":{\"id\":\"a\\u0000\"}}", ERR_BAD_VALUE, "/resource",
                 "resource: must not have a U+0000");
    refused_with("{" BASE ",\"scope\":[\"a\\u0000\"]}", ERR_BAD_VALUE, "/scope",
                 "scope: must not have a U+0000");
    refused_with("{" BASE ",\"would_have\":{\"properties\":\"\\u0000\"}}", ERR_BAD_VALUE,
                 "/would_have", "would_have: must not have a U+0000");
}

static void embedded_json_is_made_canonical(void **state)
{
    (void)state;
    struct event e;
    assert_int_equal(
        event_read(STR("{" BASE ",\"args\": { \"b\" : 1e20, \"a\":[1e20,1e20, 0.10] } }"), &arena,
                   &e, &fault),
        ERR_OK);
    assert_true(str_equal(e.args, STR("{\"a\":[100000000000000000000,100000000000000000000,0.1],"
                                      "\"b\":100000000000000000000}")));
}

static void members_may_come_in_any_order(void **state)
{
    (void)state;
    struct event e;
    assert_int_equal(
        event_read(
            STR("{\"user_id\":\"u\",\"timestamp\":\"2026-11-20T09:30:00.123Z\",\"action\":\"a\","
                "\"tenant_id\":\"t\",\"kind\":\"decision\",\"event_id\":\"e\"}"),
            &arena, &e, &fault),
        ERR_OK);
    assert_true(str_equal(e.user_id, STR("u")));
    assert_true(str_equal(e.action, STR("a")));
    assert_true(str_is_absent(e.actor));
}

static void an_event_over_the_limit_is_refused(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 0, 1 << 20);
    buf_put_literal(&b, "{" BASE ",\"reason\":\"");
    while (b.size < LIMIT_EVENT_BYTES - 2) buf_put_byte(&b, 'x');
    buf_put_literal(&b, "\"}");
    struct event e;
    assert_int_equal(event_read(buf_view(&b), &arena, &e, &fault), ERR_OK);
    buf_put_byte(&b, ' ');
    assert_int_equal(event_read(buf_view(&b), &arena, &e, &fault), ERR_BODY_TOO_LARGE);
    assert_string_equal(fault.text, "an event is at most 61440 bytes, this one is 61441");
    buf_fini(&b);
}

static void the_kinds_are_those_of_the_contract(void **state)
{
    (void)state;
    assert_true(event_kind_is_known(STR("decision")));
    assert_true(event_kind_is_known(STR("policy.rolled_back")));
    assert_true(event_kind_is_known(STR("auth.failed")));
    assert_false(event_kind_is_known(STR("")));
    assert_false(event_kind_is_known((struct str){0}));
    assert_false(event_kind_is_known(STR("decision ")));
    assert_false(event_kind_is_known(STR("review")));
}

/* ---- the schema ---- */

/* schemas/event.schema.json names the same members, with the same kinds, required and closed. */
static void the_schema_names_the_same_members(void **state)
{
    (void)state;
    static char bytes[1 << 16];
    FILE *f = fopen("schemas/event.schema.json", "rb");
    assert_non_null(f);
    size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    struct json *schema;
    if (json_read(str_of(bytes, size), NULL, &arena, &schema, &fault) != ERR_OK)
        fail_msg("%s", fault.text);
    struct json *properties = json_get(schema, STR("properties"));
    size_t members = 0;
#define EVENT(name, type)                                                                          \
    members++;                                                                                     \
    if (json_get(properties, STR(#name)) == NULL) fail_msg("the schema lacks %s", #name);
#include "event/event.def"
#undef EVENT
    assert_int_equal(properties->count, members);
    assert_int_equal(json_get(schema, STR("additionalProperties"))->type, JSON_FALSE);
    assert_int_equal(json_get(schema, STR("required"))->count, 4);
    size_t kinds = 0;
    for (struct json *k = json_get(json_get(properties, STR("kind")), STR("enum"))->child;
         k != NULL; k = k->next, kinds++)
        if (!event_kind_is_known(k->string))
            fail_msg("%.*s is only in the schema", STR_FORMAT(k->string));
    assert_int_equal(kinds, 2 * 33); /* and external.… of each */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_event_is_written_in_its_canonical_form),
        TEST(a_small_event_looks_as_documented),
        TEST(every_member_is_written_once),
        TEST(what_was_written_is_read_back_the_same),
        TEST(the_outcome_covers_what_the_contract_lists),
        TEST(no_room_shows_in_the_buf),
        TEST(a_required_member_may_not_be_missing),
        TEST(an_unknown_member_is_refused),
        TEST(members_are_held_to_their_types),
        TEST(members_are_held_to_their_values),
        TEST(times_have_one_spelling),
        TEST(a_number_that_only_looks_like_zero_is_refused),
        TEST(a_nul_is_taken_only_in_what_callers_handed_on),
        TEST(embedded_json_is_made_canonical),
        TEST(members_may_come_in_any_order),
        TEST(an_event_over_the_limit_is_refused),
        TEST(the_kinds_are_those_of_the_contract),
        TEST(the_schema_names_the_same_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
