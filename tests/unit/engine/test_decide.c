/* What a decision leaves behind: the record, the queue's record and the answer, read back and held
 * against the contract. Hashes are taken again from what was written. */
#include "unit/engine/decide_scene.h"

static const char *const policies =
    "mask: [args.card, args.list.*.pin, context.secret, resource.zone, resource.properties.owner]\n"
    "rules:\n"
    "  - {id: reads, agents: ['*'], actions: ['get_*'], decision: allow}\n"
    "  - {id: view, users: ['*'], actions: [view], decision: allow}\n"
    "  - {id: big, actions: [pay], decision: human_review, reason: 'Ask \"finance\".', review: {expires_in: 30m}}\n"
    "  - {id: box, agents: ['*'], actions: [write_*], decision: compute, compute: {tool: write_file, args: {path: /sandbox, card: '4111'}}}\n"
    "  - {id: bare, agents: ['*'], actions: [ping_*], decision: compute, compute: {tool: ping}}\n"
    "  - {id: gated, agents: ['*'], actions: [sure_*], decision: allow, confidence: {allow_at: 0.9, review_at: 0.5}}\n";

static int set_up(void **state)
{
    scene_set_up(state);
    scene_policies(*state, policies);
    return 0;
}

/* Contract 1: what outputHash covers. */
static const char *const outcome_members[] = {
    "action",    "actor",         "decision",  "expires_at", "input_hash", "key_id", "kind",
    "mode",      "policy_digest", "reason",    "request_id", "review_id",  "rule",   "safe_args",
    "safe_tool", "tenant_id",     "timestamp", "trace_id",   "user_id"};

static void output_hash_again(struct scene *s, const struct json *record, char to[SHA256_HEX + 1])
{
    static char bytes[128 << 10];
    struct buf b = buf_over(bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof outcome_members / sizeof *outcome_members; i++) {
        const struct json *v = json_get(record, str_from(outcome_members[i]));
        if (v == NULL) continue;
        buf_put_byte(&b, b.size == 0 ? '{' : ',');
        json_put_string(&b, str_from(outcome_members[i]));
        buf_put_byte(&b, ':');
        json_put_canonical(&b, v);
    }
    buf_put_byte(&b, '}');
    assert_false(b.overflow);
    hex_of(buf_view(&b), to);
    (void)s;
}

static void input_hash_again(struct scene *s, struct str body, char to[SHA256_HEX + 1])
{
    static char bytes[512 << 10];
    struct buf b = buf_over(bytes, sizeof bytes);
    json_put_canonical(&b, scene_read(s, body));
    assert_false(b.overflow);
    hex_of(buf_view(&b), to);
}

static void assert_hashes(struct scene *s, const char *body, const char *input_name,
                          const char *output_name)
{
    char hex[SHA256_HEX + 1];
    output_hash_again(s, s->record, hex);
    assert_member(s->record, "output_hash", hex);
    assert_member(s->answer, output_name, hex);
    input_hash_again(s, str_from(body), hex);
    assert_member(s->record, "input_hash", hex);
    assert_member(s->answer, input_name, hex);
}

static void both_hashes_can_be_taken_again_from_the_event(void **state)
{
    static const struct {
        enum ask_form form;
        const char *body, *decision, *rule;
    } cases[] = {
        {ASK_AGENT,
         "{\"action\":\"get_x\",\"args\":{\"n\":1e2,\"card\":\"4111\"},\"confidence\":0.5,\"scope\":\"get_*\"}",
         "allow", "allow:reads"},
        {ASK_AGENT,
         "{\"action\":\"drop\",\"resource\":{\"id\":\"a\",\"zone\":\"z\"},\"tenant_id\":\"acme\"}",
         "deny", "default:deny"},
        {ASK_AGENT, "{\"action\":\"pay\",\"context\":{\"acting_for\":\"carol\",\"secret\":1}}",
         "human_review", "review:big"},
        {ASK_AGENT, "{\"action\":\"write_a\",\"args\":{}}", "compute", "compute:box"},
        {ASK_AGENT, "{\"action\":\"get_x\",\"scope\":\"put_*\"}", "deny", "token:scope"},
        {ASK_TOOL, "{\"tool\":\"pay\",\"context\":\"why \\u00e9\\u0001\"}", "human_review",
         "review:big"},
        {ASK_TOOL, "{\"tool\":\"get_\\\"x\\\"\"}", "deny", "default:deny"},
        {ASK_USER, "{\"user_id\":\"carol\",\"action\":\"view\",\"context\":{\"confidence\":1}}",
         "allow", "allow:view"},
    };
    struct scene *s = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scene_ask(s, cases[i].form, cases[i].body);
        assert_member(s->record, "decision", cases[i].decision);
        assert_member(s->record, "rule", cases[i].rule);
        bool camel = cases[i].form == ASK_TOOL;
        assert_hashes(s, cases[i].body, camel ? "inputHash" : "input_hash",
                      camel ? "outputHash" : "output_hash");
    }
}

/* Digests made by another program. Blanks and order do not matter, unknown members and nulls do. */
static void the_input_hash_is_of_the_body_as_received(void **state)
{
    struct scene *s = *state;
    scene_ask(
        s, ASK_AGENT,
        " { \"colour\":\"red\" , \"args\":{\"b\":1.0,\"a\":\"\\u00e9\"},\"action\":\"pay\"} ");
    assert_member(s->record, "input_hash",
                  "c28b11cf806fdf3d38b439f53d89396015e99ad341c467bf949520d1da30ac97");
    scene_ask(s, ASK_TOOL, "{\"tool\":\"pay\",\"args\":{}}");
    assert_member(s->record, "input_hash",
                  "c85c1b600d91d36128caa799d5c8f71ea336da1824285bf8ea38797309ba4e1b");
    scene_ask(s, ASK_TOOL, "{\"tool\":\"pay\",\"args\":{},\"actor\":null}");
    assert_false(
        str_equal(json_text(s->record, STR("input_hash")),
                  STR("c85c1b600d91d36128caa799d5c8f71ea336da1824285bf8ea38797309ba4e1b")));
}

static void the_record_says_who_asked_for_what(void **state)
{
    struct scene *s = *state;
    scene_ask(
        s, ASK_AGENT,
        "{\"action\":\"sure_x\",\"actor\":\"bot\",\"confidence\":0.95,\"acting_for\":\"carol\",\"scope\":\"sure_* x\","
        "\"trace_id\":\"t-1\",\"args\":{\"b\":[1,{}],\"a\":null},\"context\":\"because\","
        "\"resource\":{\"type\":\"db\",\"id\":\"x\",\"properties\":{\"n\":1}}}");
    assert_member(s->record, "kind", "decision");
    assert_member(s->record, "mode", "live");
    assert_member(s->record, "tenant_id", "acme");
    assert_member(s->record, "actor", "bot");
    assert_member(s->record, "acting_for", "carol");
    assert_member(s->record, "action", "sure_x");
    assert_member(s->record, "trace_id", "t-1");
    assert_member(s->record, "key_id", "key_00000000000000000000000000");
    assert_member(s->record, "timestamp", "2026-11-20T09:20:00.123Z");
    assert_member(s->record, "policy_name", "payments");
    assert_member(s->record, "context", "because");
    assert_raw(s->record, "policy_version", "7");
    assert_raw(s->record, "confidence", "0.95");
    assert_raw(s->record, "confidence_used", "0.95");
    assert_raw(s->record, "scope", "[\"sure_*\",\"x\"]");
    assert_raw(s->record, "args", "{\"a\":null,\"b\":[1,{}]}");
    assert_raw(s->record, "resource", "{\"id\":\"x\",\"type\":\"db\"}");
    assert_raw(s->record, "resource_properties", "{\"n\":1}");
    assert_true(str_starts(json_text(s->record, STR("event_id")), STR("evt_")));
    assert_true(str_starts(json_text(s->record, STR("request_id")), STR("req_")));
    assert_true(str_equal(json_text(s->record, STR("request_id")),
                          json_text(s->answer, STR("request_id"))));
    assert_no_member(s->record, "user_id");
    assert_no_member(s->record, "binding_hash");
    scene_ask(s, ASK_USER, "{\"user_id\":\"carol\",\"action\":\"view\"}");
    assert_member(s->record, "user_id", "carol");
    assert_no_member(s->record, "actor");
    assert_no_member(s->record, "scope");
    assert_no_member(s->record, "args");
    assert_no_member(s->record, "confidence");
}

/* It is kept in case the limit asks a person, and told only where one is asked. */
static void what_is_allowed_under_a_limit_has_no_binding_hash(void **state)
{
    struct scene *s = *state;
    scene_policies(s, "rules: [{id: some, agents: ['*'], actions: [go], decision: allow, "
                      "limit: {per: actor, window: 1h, count: 3, over: human_review}}]");
    scene_ask(s, ASK_AGENT, "{\"action\":\"go\"}");
    assert_member(s->answer, "decision", "allow");
    assert_int_equal(s->d.outcome.limit_count, 1);
    assert_no_member(s->record, "binding_hash");
}

static void conditions_see_the_moment_of_the_decision(void **state)
{
    struct scene *s = *state;
    scene_policies(s, "rules: [{id: now, agents: ['*'], actions: [go], decision: allow, "
                      "when: \"now == timestamp('2026-11-20T09:20:00.123Z')\"}]");
    scene_ask(s, ASK_AGENT, "{\"action\":\"go\"}");
    assert_member(s->answer, "decision", "allow");
    assert_member(s->answer, "timestamp", "2026-11-20T09:20:00.123Z");
}

static void a_decision_tells_how_long_it_took(void **state)
{
    struct scene *s = *state;
    scene_ask(s, ASK_AGENT, "{\"action\":\"get_x\"}");
    assert_true(s->d.latency_ns > 0);
    assert_true(s->event.has_latency_ms);
    assert_true(s->event.latency_ms >= 0 && s->event.latency_ms < 60000);
    assert_true(json_is_number(json_get(s->answer, STR("latency_ms"))));
}

static void a_compute_always_gives_its_safe_call(void **state)
{
    struct scene *s = *state;
    scene_ask(s, ASK_AGENT, "{\"action\":\"ping_x\"}");
    assert_member(s->answer, "safe_tool", "ping");
    assert_raw(s->answer, "safe_args", "{}");
    assert_member(s->record, "safe_tool", "ping");
    assert_raw(s->record, "safe_args", "{}");
    scene_ask(s, ASK_TOOL, "{\"tool\":\"write_x\"}");
    assert_member(s->answer, "safeTool", "write_file");
    assert_raw(s->answer, "safeArgs", "{\"card\":\"4111\",\"path\":\"/sandbox\"}");
    scene_ask(s, ASK_TOOL, "{\"tool\":\"get_x\"}");
    assert_no_member(s->answer, "safeTool");
    assert_no_member(s->answer, "safeArgs");
    assert_no_member(s->record, "safe_args");
}

/* ---- reviews ---- */

static void a_review_has_an_id_a_deadline_and_a_record_of_its_own(void **state)
{
    struct scene *s = *state;
    scene_ask(
        s, ASK_AGENT,
        "{\"action\":\"pay\",\"trace_id\":\"t\",\"confidence\":0.1,\"args\":{\"card\":\"4111\"},\"context\":{\"confidence\":0.1}}");
    struct str review = json_text(s->record, STR("review_id"));
    struct id id;
    assert_true(id_read("rev_", review, &id));
    assert_int_equal(id_time_ms(id), scene_now_ms);
    assert_true(str_equal(review, json_text(s->answer, STR("review_id"))));
    assert_member(s->record, "expires_at", "2026-11-20T09:50:00.123Z");
    assert_member(s->answer, "expires_at", "2026-11-20T09:50:00.123Z");

    /* What an approval is bound to is what was asked, before masking. */
    char hex[SHA256_HEX + 1];
    assert_true(text_has(str_of(s->binding, s->binding_size), "4111"));
    hex_of(str_of(s->binding, s->binding_size), hex);
    assert_member(s->record, "binding_hash", hex);

    assert_non_null(s->enqueued);
    assert_member(s->enqueued, "kind", "review.enqueued");
    assert_member(s->enqueued, "trace_id", "t");
    assert_member(s->enqueued, "binding_hash", hex);
    assert_no_member(s->enqueued, "output_hash");
    assert_true(str_equal(review, json_text(s->enqueued, STR("review_id"))));
    assert_false(
        str_equal(json_text(s->enqueued, STR("event_id")), json_text(s->record, STR("event_id"))));
    assert_true(str_starts(json_text(s->enqueued, STR("event_id")), STR("evt_")));
    assert_raw(s->enqueued, "args", "{\"card\":\"[masked]\"}");
    struct event e;
    assert_int_equal(event_read(s->d.beside, &s->reading, &e, &s->fault), ERR_OK);
}

static void a_gate_asks_for_a_review_too(void **state)
{
    struct scene *s = *state;
    scene_ask(s, ASK_AGENT, "{\"action\":\"sure_x\",\"confidence\":0.5}");
    assert_member(s->answer, "rule", "gate:gated");
    assert_non_null(s->enqueued);
    assert_true(s->d.event.expires_at > scene_now_ms);
}

static void a_dry_run_enqueues_nothing_and_allows_nothing(void **state)
{
    struct scene *s = *state;
    scene_decide(s, ASK_AGENT, STR("{\"action\":\"pay\"}"), (struct how){.dry_run = true});
    assert_member(s->record, "mode", "dry_run");
    assert_member(s->answer, "decision", "human_review");
    assert_no_member(s->answer, "review_id");
    assert_no_member(s->record, "review_id");
    assert_null(s->enqueued);
    scene_decide(s, ASK_AGENT, STR("{\"action\":\"get_x\"}"), (struct how){.dry_run = true});
    assert_member(s->answer, "decision", "allow");
    assert_raw(s->answer, "allowed", "false");
    scene_decide(s, ASK_TOOL, STR("{\"tool\":\"get_x\"}"), (struct how){.dry_run = true});
    assert_raw(s->answer, "allowed", "false");
    assert_hashes(s, "{\"tool\":\"get_x\"}", "inputHash", "outputHash");
}

static void an_explanation_is_told_and_not_recorded(void **state)
{
    struct scene *s = *state;
    scene_decide(s, ASK_AGENT, STR("{\"action\":\"get_x\"}"),
                 (struct how){.dry_run = true, .explain = true});
    const struct json *explain = json_get(s->answer, STR("explain"));
    assert_true(json_is_array(explain) && explain->count > 0);
    assert_no_member(s->record, "explain");
    scene_decide(s, ASK_AGENT, STR("{\"action\":\"no_such\"}"),
                 (struct how){.dry_run = true, .explain = true});
    assert_true(json_is_array(json_get(json_get(s->answer, STR("would_allow")), STR("lacks"))));
    assert_no_member(s->record, "would_allow");
    scene_decide(s, ASK_TOOL, STR("{\"tool\":\"no_such\"}"),
                 (struct how){.dry_run = true, .explain = true});
    assert_true(json_is_object(json_get(s->answer, STR("wouldAllow"))));
    assert_no_member(s->answer, "would_allow");
    scene_ask(s, ASK_AGENT, "{\"action\":\"get_x\"}");
    assert_no_member(s->answer, "explain");
}

/* ---- masks ---- */

static void what_is_masked_is_in_no_record_and_in_the_input_hash(void **state)
{
    static const char body[] =
        "{\"action\":\"pay\",\"args\":{\"card\":\"SECRET\",\"list\":[{\"pin\":\"SECRET\"},{\"pin\":{\"a\":\"SECRET\"}}],\"n\":1},"
        "\"context\":{\"secret\":\"SECRET\",\"confidence\":1},\"resource\":{\"type\":\"db\",\"id\":\"x\",\"zone\":\"SECRET\","
        "\"properties\":{\"owner\":[\"SECRET\"],\"n\":2}}}";
    struct scene *s = *state;
    scene_ask(s, ASK_AGENT, body);
    assert_false(text_has(s->d.record, "SECRET"));
    assert_false(text_has(s->d.beside, "SECRET"));
    assert_raw(
        s->record, "args",
        "{\"card\":\"[masked]\",\"list\":[{\"pin\":\"[masked]\"},{\"pin\":\"[masked]\"}],\"n\":1}");
    assert_raw(s->record, "context", "{\"confidence\":1,\"secret\":\"[masked]\"}");
    assert_raw(s->record, "resource", "{\"id\":\"x\",\"type\":\"db\",\"zone\":\"[masked]\"}");
    assert_raw(s->record, "resource_properties", "{\"n\":2,\"owner\":\"[masked]\"}");
    assert_hashes(s, body, "input_hash", "output_hash");
    assert_true(text_has(str_of(s->binding, s->binding_size), "SECRET"));
    /* Also of a resource that has nothing but strings, as the record has it. */
    scene_ask(s, ASK_AGENT,
              "{\"action\":\"get_x\",\"resource\":{\"id\":\"x\",\"zone\":\"SECRET\"}}");
    assert_false(text_has(s->d.record, "SECRET"));
    assert_raw(s->record, "resource", "{\"id\":\"x\",\"zone\":\"[masked]\"}");
    /* What is named elsewhere is not hidden. */
    scene_ask(s, ASK_AGENT,
              "{\"action\":\"get_x\",\"args\":{\"secret\":1,\"zone\":2},\"context\":{\"card\":3}}");
    assert_raw(s->record, "args", "{\"secret\":1,\"zone\":2}");
    assert_raw(s->record, "context", "{\"card\":3}");
}

static void safe_arguments_are_masked_in_the_record_alone(void **state)
{
    struct scene *s = *state;
    for (int i = 0; i < 2; i++) { /* the policy's own tree stays as it is */
        scene_ask(s, ASK_AGENT, "{\"action\":\"write_x\"}");
        assert_raw(s->answer, "safe_args", "{\"card\":\"4111\",\"path\":\"/sandbox\"}");
        assert_raw(s->record, "safe_args", "{\"card\":\"[masked]\",\"path\":\"/sandbox\"}");
        assert_hashes(s, "{\"action\":\"write_x\"}", "input_hash", "output_hash");
    }
}

/* The store takes objects only, so a payload that is masked as a whole has to stay one. */
static void a_payload_that_is_masked_whole_is_still_an_object(void **state)
{
    struct scene *s = *state;
    scene_policies(
        s,
        "mask: [args, context, resource]\n"
        "rules: [{id: box, agents: ['*'], actions: ['*'], decision: compute, compute: {tool: t, args: {k: SECRET}}}]\n");
    scene_ask(s, ASK_AGENT,
              "{\"action\":\"x\",\"args\":{\"k\":\"SECRET\"},\"context\":{\"k\":\"SECRET\"},"
              "\"resource\":{\"id\":\"SECRET\",\"properties\":{\"k\":\"SECRET\"}}}");
    assert_false(text_has(s->d.record, "SECRET"));
    assert_raw(s->record, "args", "{\"masked\":true}");
    assert_raw(s->record, "resource_properties", "{\"masked\":true}");
    assert_raw(s->record, "safe_args", "{\"masked\":true}");
    assert_member(s->record, "context", "[masked]");
    assert_member(s->record, "resource", "[masked]");
    assert_raw(s->answer, "safe_args", "{\"k\":\"SECRET\"}");
    scene_policies(
        s, "mask: ['resource.*', 'args.*']\nrules: [{id: no, actions: ['*'], decision: deny}]\n");
    scene_ask(
        s, ASK_AGENT,
        "{\"action\":\"x\",\"args\":{\"a\":{\"k\":\"SECRET\"}},\"resource\":{\"id\":\"SECRET\",\"properties\":{\"k\":\"SECRET\"}}}");
    assert_false(text_has(s->d.record, "SECRET"));
    assert_raw(s->record, "args", "{\"a\":\"[masked]\"}");
    assert_raw(s->record, "resource_properties", "{\"masked\":true}");
}

static void one_digit_values_that_become_masks_have_room(void **state)
{
    struct scene *s = *state;
    scene_policies(s, "mask: ['args.a.*']\nrules: [{id: no, actions: ['*'], decision: deny}]\n");
    struct buf b = buf_over(s->body, 4000);
    buf_put_literal(&b, "{\"action\":\"x\",\"args\":{\"a\":[1");
    while (b.size < 3900) buf_put_literal(&b, ",1");
    buf_put_literal(&b, "]}}");
    scene_decide(s, ASK_AGENT, buf_view(&b), (struct how){0});
    assert_true(json_get(json_get(s->record, STR("args")), STR("a"))->child->type == JSON_STRING);
}

/* Whose policies cannot be read, his masks are not known either. */
static void where_policies_do_not_load_nothing_that_came_is_written_down(void **state)
{
    struct scene *s = *state;
    policy_set_destroy(s->set);
    s->set = NULL;
    assert_int_equal(policy_set_closed("default:policy_unloadable", "Closed.", &s->set), ERR_OK);
    static const char body[] =
        "{\"action\":\"get_x\",\"args\":{\"card\":\"SECRET\"},\"context\":\"SECRET\","
        "\"resource\":{\"zone\":\"SECRET\",\"properties\":{\"owner\":\"SECRET\"}}}";
    scene_ask(s, ASK_AGENT, body);
    assert_member(s->record, "decision", "deny");
    assert_member(s->record, "rule", "default:policy_unloadable");
    assert_false(text_has(s->d.record, "SECRET"));
    assert_raw(s->record, "args", "{\"bytes\":17,\"omitted\":true}");
    assert_hashes(s, body, "input_hash", "output_hash");

    scene_decide(s, ASK_AGENT, str_from(body), (struct how){.stopped = true});
    assert_member(s->record, "rule", "actor:suspended");
    assert_false(text_has(s->d.record, "SECRET"));
}

/* ---- shadow ---- */

static void what_shadow_policies_would_have_done_is_recorded(void **state)
{
    struct scene *s = *state;
    scene_policies(
        s, "mode: shadow\nrules: [{id: yes, agents: ['*'], actions: ['*'], decision: allow}]\n");
    scene_ask(s, ASK_AGENT, "{\"action\":\"x\"}");
    assert_member(s->answer, "decision", "deny");
    assert_raw(s->record, "would_have",
               "{\"decision\":\"allow\",\"policy_name\":\"payments\",\"rule\":\"allow:yes\"}");
    const struct json *told = json_get(s->answer, STR("would_have"));
    assert_member(told, "decision", "allow");
    assert_member(told, "policy_name", "payments");
    scene_ask(s, ASK_TOOL, "{\"tool\":\"x\"}");
    assert_member(json_get(s->answer, STR("wouldHave")), "policyName", "payments");
}

/* ---- size ---- */

static struct str fill(char *to, size_t size)
{
    memset(to, 'x', size);
    return str_of(to, size);
}

/* A body with payloads of these many bytes each. */
static struct str sized_body(struct scene *s, const char *action, size_t args, size_t context,
                             size_t properties)
{
    static char x[LIMIT_BODY_BYTES];
    struct buf b = buf_over(s->body, sizeof s->body);
    buf_put_literal(&b, "{\"action\":");
    json_put_string(&b, str_from(action));
    if (args > 0)
        buf_put_literal(&b, ",\"args\":{\"a\":"), json_put_string(&b, fill(x, args)),
            buf_put_byte(&b, '}');
    if (context > 0) buf_put_literal(&b, ",\"context\":"), json_put_string(&b, fill(x, context));
    if (properties > 0) {
        buf_put_literal(&b, ",\"resource\":{\"id\":\"i\",\"properties\":{\"p\":");
        json_put_string(&b, fill(x, properties));
        buf_put_literal(&b, "}}");
    }
    buf_put_byte(&b, '}');
    assert_false(b.overflow);
    return buf_view(&b);
}

static bool is_omitted(struct scene *s, const char *name)
{
    const struct json *v = json_get(s->record, str_from(name));
    return json_is_object(v) && json_get(v, STR("omitted")) != NULL &&
           json_u64(v, STR("bytes"), 0) > 0;
}

static void a_large_event_loses_args_then_context_then_properties(void **state)
{
    struct scene *s = *state;
    scene_decide(s, ASK_AGENT, sized_body(s, "get_x", 20000, 20000, 15000), (struct how){0});
    assert_false(is_omitted(s, "args") || is_omitted(s, "context") ||
                 is_omitted(s, "resource_properties"));
    scene_decide(s, ASK_AGENT, sized_body(s, "get_x", 30000, 20000, 12000), (struct how){0});
    assert_raw(s->record, "args", "{\"bytes\":30008,\"omitted\":true}");
    assert_false(is_omitted(s, "context") || is_omitted(s, "resource_properties"));
    scene_decide(s, ASK_AGENT, sized_body(s, "get_x", 10, 62000, 2000), (struct how){0});
    assert_true(is_omitted(s, "args") && is_omitted(s, "context"));
    assert_false(is_omitted(s, "resource_properties"));
    scene_decide(s, ASK_AGENT, sized_body(s, "get_x", 10, 10, 63000), (struct how){0});
    assert_true(is_omitted(s, "args") && is_omitted(s, "context") &&
                is_omitted(s, "resource_properties"));
    assert_member(s->record, "decision", "allow");
    assert_true(s->d.record.size <= LIMIT_EVENT_BYTES);
    scene_decide(s, ASK_AGENT, sized_body(s, "get_x", 0, 0, 63000), (struct how){0});
    assert_true(is_omitted(s, "resource_properties"));
    assert_no_member(s->record, "args"); /* what was not there is not omitted */
    assert_no_member(s->record, "context");
    char hex[SHA256_HEX + 1], body[LIMIT_BODY_BYTES];
    struct str sent = sized_body(s, "get_x", 10, 10, 63000);
    memcpy(body, sent.bytes, sent.size);
    scene_decide(s, ASK_AGENT, str_of(body, sent.size), (struct how){0});
    input_hash_again(s, str_of(body, sent.size), hex);
    assert_member(s->record, "input_hash", hex);
    output_hash_again(s, s->record, hex);
    assert_member(s->record, "output_hash", hex);
}

/* Numbers grow when they are written in full: the worst that a body can hold. */
static void a_body_that_grows_in_its_canonical_form_is_recorded(void **state)
{
    struct scene *s = *state;
    struct buf b = buf_over(s->body, LIMIT_BODY_BYTES);
    buf_put_literal(&b, "{\"action\":\"get_x\",\"args\":{\"a\":[1e20");
    while (b.size < LIMIT_BODY_BYTES - 16) buf_put_literal(&b, ",1e20");
    buf_put_literal(&b, "]}}");
    struct str body = buf_view(&b);
    scene_decide(s, ASK_AGENT, body, (struct how){0});
    assert_true(is_omitted(s, "args"));
    assert_true(json_u64(json_get(s->record, STR("args")), STR("bytes"), 0) >
                4 * (uint64_t)body.size);
    char hex[SHA256_HEX + 1];
    input_hash_again(s, body, hex);
    assert_member(s->record, "input_hash", hex);
}

static void a_review_that_nobody_could_see_whole_is_denied(void **state)
{
    struct scene *s = *state;
    scene_decide(s, ASK_AGENT, sized_body(s, "pay", 40000, 22000, 0), (struct how){0});
    assert_member(s->record, "decision", "deny");
    assert_member(s->record, "rule", "limit:record");
    assert_member(s->answer, "decision", "deny");
    assert_member(s->answer, "rule", "limit:record");
    assert_raw(s->answer, "requires_human_review", "false");
    assert_null(s->enqueued);
    static const char *const none[] = {"review_id", "expires_at", "binding_hash"};
    for (size_t i = 0; i < 3; i++) {
        assert_no_member(s->record, none[i]);
        assert_no_member(s->answer, none[i]);
    }
    assert_true(is_omitted(s, "args"));
    assert_false(is_omitted(s, "context"));
    char hex[SHA256_HEX + 1];
    output_hash_again(s, s->record, hex);
    assert_member(s->record, "output_hash", hex);
    assert_member(s->answer, "output_hash", hex);
}

static void a_review_that_fits_is_kept_whole(void **state)
{
    struct scene *s = *state;
    scene_decide(s, ASK_AGENT, sized_body(s, "pay", 29000, 29000, 0), (struct how){0});
    assert_member(s->record, "decision", "human_review");
    assert_non_null(s->enqueued);
    assert_false(is_omitted(s, "args") || is_omitted(s, "context"));
    assert_true(s->d.beside.size <= LIMIT_EVENT_BYTES);
}

static void a_safe_call_too_large_to_be_recorded_is_denied(void **state)
{
    struct scene *s = *state;
    char *text = calloc(1, 50000);
    struct buf b = buf_over(text, 49999);
    buf_put_literal(
        &b,
        "{\"rules\":[{\"id\":\"box\",\"agents\":[\"*\"],\"actions\":[\"*\"],\"decision\":\"compute\",\"compute\":{\"tool\":\"t\",\"args\":{\"a\":\"");
    for (int i = 0; i < 40000; i++) buf_put_byte(&b, 'y');
    buf_put_literal(&b, "\"}}}]}");
    scene_policies(s, text);
    free(text);
    scene_decide(s, ASK_AGENT, sized_body(s, "x", 10000, 0, 0), (struct how){0});
    assert_member(s->record, "decision", "compute");
    scene_decide(s, ASK_AGENT, sized_body(s, "x", 25000, 0, 0), (struct how){0});
    assert_member(s->record, "rule", "limit:record");
    assert_no_member(s->answer, "safe_args");
    assert_no_member(s->answer, "safe_tool");
    assert_no_member(s->record, "safe_args");
    assert_false(is_omitted(s, "args")); /* without the safe call there is room for it */
}

/* Names, scope and the resource's strings are never cut: then there is no decision. */
static void what_cannot_be_recorded_even_when_cut_is_refused(void **state)
{
    struct scene *s = *state;
    struct buf b = buf_over(s->body, LIMIT_BODY_BYTES);
    char name[16] = "k00", value[1025];
    for (int i = 0; i < 256; i++) memcpy(value + 4 * i, "\xF0\x9F\x98\x80", 4);
    buf_put_literal(&b, "{\"action\":\"get_x\",\"resource\":{\"id\":\"x\"");
    for (int i = 0; i < 31; i++) {
        name[1] = (char)('0' + i / 10), name[2] = (char)('0' + i % 10);
        buf_put_byte(&b, ',');
        json_put_string(&b, str_from(name));
        buf_put_byte(&b, ':');
        json_put_string(&b, str_of(value, 1024));
    }
    buf_put_literal(&b, "},\"scope\":[\"get_x\"");
    for (int i = 0; i < 31; i++) {
        buf_put_byte(&b, ',');
        json_put_string(&b, str_of(value, 1024));
    }
    buf_put_literal(&b, "]}");
    assert_false(b.overflow);
    assert_int_equal(scene_try(s, ASK_AGENT, buf_view(&b), (struct how){0}), ERR_BODY_TOO_LARGE);
}

static void an_arena_that_is_full_gives_no_decision(void **state)
{
    struct scene *s = *state;
    struct str body = sized_body(s, "get_x", 20000, 0, 0);
    for (size_t limit = 64 << 10; limit <= 512 << 10; limit += 8 << 10) {
        arena_fini(&s->arena);
        arena_init(&s->arena, 64 << 10, limit);
        enum err err = scene_try(s, ASK_AGENT, body, (struct how){0});
        if (err == ERR_OK)
            assert_true(s->d.record.size > 20000 && s->d.answer.size > 0 && !s->arena.overflow);
        else
            assert_int_equal(err, ERR_BODY_TOO_LARGE);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(both_hashes_can_be_taken_again_from_the_event),
        TEST(the_input_hash_is_of_the_body_as_received),
        TEST(the_record_says_who_asked_for_what),
        TEST(what_is_allowed_under_a_limit_has_no_binding_hash),
        TEST(conditions_see_the_moment_of_the_decision),
        TEST(a_decision_tells_how_long_it_took),
        TEST(a_compute_always_gives_its_safe_call),
        TEST(a_review_has_an_id_a_deadline_and_a_record_of_its_own),
        TEST(a_gate_asks_for_a_review_too),
        TEST(a_dry_run_enqueues_nothing_and_allows_nothing),
        TEST(an_explanation_is_told_and_not_recorded),
        TEST(what_is_masked_is_in_no_record_and_in_the_input_hash),
        TEST(safe_arguments_are_masked_in_the_record_alone),
        TEST(a_payload_that_is_masked_whole_is_still_an_object),
        TEST(one_digit_values_that_become_masks_have_room),
        TEST(where_policies_do_not_load_nothing_that_came_is_written_down),
        TEST(what_shadow_policies_would_have_done_is_recorded),
        TEST(a_large_event_loses_args_then_context_then_properties),
        TEST(a_body_that_grows_in_its_canonical_form_is_recorded),
        TEST(a_review_that_nobody_could_see_whole_is_denied),
        TEST(a_review_that_fits_is_kept_whole),
        TEST(a_safe_call_too_large_to_be_recorded_is_denied),
        TEST(what_cannot_be_recorded_even_when_cut_is_refused),
        TEST(an_arena_that_is_full_gives_no_decision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
