/* test_otlp.c - the request that a collector gets, read back with our own strict reader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "json/json.h"
#include "pipeline/spans/otlp.h"

static struct arena arena;
static struct buf out;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 1 << 12, 1 << 20);
    buf_init(&out, 64, 1 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&arena);
    buf_fini(&out);
    return 0;
}

static struct span one(void)
{
    struct span s = {.place = {.trace = {0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce,
                                         0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36},
                               .parent = {0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7},
                               .has_parent = true},
                     .id = {0, 1, 2, 3, 4, 5, 6, 0xff},
                     .status = 200,
                     .begin_ns = 1000,
                     .decided_ns = 1500,
                     .end_ns = 9007199254740993,
                     .policy_version = 12,
                     .decision = "deny",
                     .kind = "agent"};
    span_set(&s, rule, STR("rule:nö\"\n"));
    span_set(&s, request, STR("req_01JD3Z3NDEKTSV4RRFFQ69G5FA"));
    span_set(&s, policy, STR("payments"));
    span_set(&s, trace_text, STR("4bf92f3577b34da6a3ce929d0e0e4736"));
    span_set(&s, tool_call, STR("call_7"));
    span_set(&s, conversation, STR("thread-7"));
    return s;
}

static const struct json *written(const struct span *spans, size_t count)
{
    static const struct json_options options = {0};
    static const struct otlp_resource resource = {STR("node-1"), STR("0.1.0")};
    struct json *root;
    struct fault f;
    otlp_put_begin(&out, &resource);
    for (size_t i = 0; i < count; i++) otlp_put_span(&out, &spans[i], 1000000, i == 0);
    otlp_put_end(&out);
    assert_false(out.overflow);
    if (json_read(buf_view(&out), &options, &arena, &root, &f) != ERR_OK)
        fail_msg("%s: %.*s", f.text, STR_FORMAT(buf_view(&out)));
    return root;
}

static const struct json *only(const struct json *object, struct str name)
{
    const struct json *list = json_get(object, name);
    assert_true(json_is_array(list));
    assert_int_equal(list->count, 1);
    return list->child;
}

static const struct json *spans_of(const struct json *root)
{
    return json_get(only(only(root, STR("resourceSpans")), STR("scopeSpans")), STR("spans"));
}

/* The attribute's text, or its integer as OTLP writes it; absent where there is none. */
static struct str attribute(const struct json *holder, const char *name)
{
    struct str found = {0};
    for (const struct json *a = json_get(holder, STR("attributes"))->child; a != NULL;
         a = a->next) {
        if (!str_equal(json_text(a, STR("key")), str_from(name))) continue;
        assert_true(str_is_absent(found)); /* once only */
        const struct json *value = json_get(a, STR("value"));
        assert_int_equal(value->count, 1);
        found = value->child->string;
    }
    return found;
}

#define assert_text(s, expected) assert_true(str_equal((s), STR(expected)))

static void a_span_says_which_decision_it_is(void **state)
{
    (void)state;
    struct span s = one();
    const struct json *v = spans_of(written(&s, 1))->child;
    assert_text(json_text(v, STR("traceId")), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_text(json_text(v, STR("spanId")), "00010203040506ff");
    assert_text(json_text(v, STR("parentSpanId")), "00f067aa0ba902b7");
    assert_text(json_text(v, STR("name")), "decide");
    assert_int_equal(json_u64(v, STR("kind"), 0), 2); /* SPAN_KIND_SERVER */
    assert_text(json_text(v, STR("startTimeUnixNano")), "1001000");
    /* more than a double holds: a string */
    assert_text(json_text(v, STR("endTimeUnixNano")), "9007199255740993");
    assert_text(json_text(only(v, STR("events")), STR("timeUnixNano")), "1001500");
    assert_text(attribute(v, "writ.decision"), "deny");
    assert_text(attribute(v, "writ.rule"), "rule:nö\"\n");
    assert_text(attribute(v, "writ.policy"), "payments");
    assert_text(attribute(v, "writ.policy.version"), "12");
    assert_text(attribute(v, "writ.kind"), "agent");
    assert_text(attribute(v, "writ.mode"), "live");
    assert_text(attribute(v, "writ.request_id"), "req_01JD3Z3NDEKTSV4RRFFQ69G5FA");
    assert_text(attribute(v, "writ.trace_id"), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_text(attribute(v, "gen_ai.tool.call.id"), "call_7");
    assert_text(attribute(v, "gen_ai.conversation.id"), "thread-7");
    assert_text(attribute(v, "http.response.status_code"), "200");
    assert_true(str_is_absent(attribute(v, "error.type")));
    assert_null(json_get(v, STR("status"))); /* unset: a denial is no error */
}

static void the_resource_is_this_engine(void **state)
{
    (void)state;
    struct span s = one();
    const struct json *resource =
        json_get(only(written(&s, 1), STR("resourceSpans")), STR("resource"));
    assert_text(attribute(resource, "service.name"), "writ-engine");
    assert_text(attribute(resource, "service.instance.id"), "node-1");
    assert_text(attribute(resource, "service.version"), "0.1.0");
}

static void what_a_span_has_not_is_left_out(void **state)
{
    (void)state;
    struct span s = {.status = 503,
                     .begin_ns = 1,
                     .end_ns = 2,
                     .error = "journal_full",
                     .kind = "user",
                     .dry_run = true};
    const struct json *v = spans_of(written(&s, 1))->child;
    static const char *const absent[] = {"writ.decision", "writ.rule", "writ.policy",
                                         "writ.policy.version", "writ.request_id"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        assert_true(str_is_absent(attribute(v, absent[i])));
    assert_null(json_get(v, STR("parentSpanId")));
    assert_null(json_get(v, STR("events")));
    assert_text(attribute(v, "error.type"), "journal_full");
    assert_text(attribute(v, "writ.mode"), "dry_run");
    /* STATUS_CODE_ERROR */
    assert_int_equal(json_u64(json_get(v, STR("status")), STR("code"), 0), 2);
}

static void a_clients_fault_is_no_error_of_the_server(void **state)
{
    (void)state;
    struct span s = {.status = 400, .begin_ns = 1, .end_ns = 2, .error = "wrong_type"};
    const struct json *v = spans_of(written(&s, 1))->child;
    assert_text(attribute(v, "error.type"), "wrong_type");
    assert_null(json_get(v, STR("status")));
}

static void many_spans_are_one_request(void **state)
{
    (void)state;
    struct span three[3] = {one(), one(), one()};
    assert_int_equal(spans_of(written(three, 3))->count, 3);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_span_says_which_decision_it_is), CASE(the_resource_is_this_engine),
        CASE(what_a_span_has_not_is_left_out),  CASE(a_clients_fault_is_no_error_of_the_server),
        CASE(many_spans_are_one_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
