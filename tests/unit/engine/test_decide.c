/* What a decision leaves behind: the record, the queue's record and the answer, read back and held
 * against the contract. Hashes are taken again from what was written. */
#include <stdio.h>

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

/* Of the body as it is told, and the record's salt. */
static void masked_input_hash_again(struct scene *s, struct str masked, char to[SHA256_HEX + 1])
{
    static char bytes[512 << 10];
    struct buf b = buf_over(bytes, sizeof bytes);
    uint8_t salt[16];
    struct str text = json_text(s->record, STR("input_salt"));
    assert_int_equal(text.size, 2 * sizeof salt);
    assert_true(hex_read(text.bytes, salt, sizeof salt));
    json_put_canonical(&b, scene_read(s, masked));
    buf_put(&b, str_of((const char *)salt, sizeof salt));
    assert_false(b.overflow);
    hex_of(buf_view(&b), to);
}

/* `masked`: the body as it is when it is masked; NULL: nothing of it is. */
static void assert_hashes_masked(struct scene *s, const char *body, const char *masked,
                                 const char *input_name, const char *output_name)
{
    char hex[SHA256_HEX + 1];
    output_hash_again(s, s->record, hex);
    assert_member(s->record, "output_hash", hex);
    assert_member(s->answer, output_name, hex);
    const char *salt_name =
        str_equal(str_from(input_name), STR("inputHash")) ? "inputSalt" : "input_salt";
    if (masked == NULL) {
        assert_no_member(s->record, "input_salt");
        assert_no_member(s->answer, salt_name);
        input_hash_again(s, str_from(body), hex);
    } else {
        masked_input_hash_again(s, str_from(masked), hex);
        assert_true(str_equal(json_text(s->record, STR("input_salt")),
                              json_text(s->answer, str_from(salt_name))));
    }
    assert_member(s->record, "input_hash", hex);
    assert_member(s->answer, input_name, hex);
}

static void assert_hashes(struct scene *s, const char *body, const char *input_name,
                          const char *output_name)
{
    assert_hashes_masked(s, body, NULL, input_name, output_name);
}

static void both_hashes_can_be_taken_again_from_the_event(void **state)
{
    static const struct {
        enum auth_request_form form;
        const char *body, *decision, *rule;
        const char *masked; /* NULL: nothing is */
    } cases[] = {
        {ASK_AGENT,
         "{\"action\":\"get_x\",\"args\":{\"n\":1e2,\"card\":\"4111\"},\"confidence\":0.5,\"scope\":\"get_*\"}",
         "allow", "allow:reads",
         "{\"action\":\"get_x\",\"args\":{\"n\":1e2,\"card\":\"[masked]\"},\"confidence\":0.5,\"scope\":\"get_*\"}"},
        {ASK_AGENT,
         "{\"action\":\"drop\",\"resource\":{\"id\":\"a\",\"zone\":\"z\"},\"tenant_id\":\"acme\"}",
         "deny", "default:deny",
         "{\"action\":\"drop\",\"resource\":{\"id\":\"a\",\"zone\":\"[masked]\"},\"tenant_id\":\"acme\"}"},
        {ASK_AGENT, "{\"action\":\"pay\",\"context\":{\"acting_for\":\"carol\",\"secret\":1}}",
         "human_review", "review:big",
         "{\"action\":\"pay\",\"context\":{\"acting_for\":\"carol\",\"secret\":\"[masked]\"}}"},
        {ASK_TOOL, "{\"tool\":\"pay\",\"args\":{\"card\":\"4111\"}}", "human_review", "review:big",
         "{\"tool\":\"pay\",\"args\":{\"card\":\"[masked]\"}}"},
        {ASK_AGENT, "{\"action\":\"write_a\",\"args\":{}}", "compute", "compute:box", NULL},
        {ASK_AGENT, "{\"action\":\"get_x\",\"scope\":\"put_*\"}", "deny", "token:scope", NULL},
        {ASK_TOOL, "{\"tool\":\"pay\",\"context\":\"why \\u00e9\\u0001\"}", "human_review",
         "review:big", NULL},
        {ASK_TOOL, "{\"tool\":\"get_\\\"x\\\"\"}", "deny", "default:deny", NULL},
        {ASK_USER, "{\"user_id\":\"carol\",\"action\":\"view\",\"context\":{\"confidence\":1}}",
         "allow", "allow:view", NULL},
    };
    struct scene *s = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scene_ask(s, cases[i].form, cases[i].body);
        assert_member(s->record, "decision", cases[i].decision);
        assert_member(s->record, "rule", cases[i].rule);
        bool camel = cases[i].form == ASK_TOOL;
        assert_hashes_masked(s, cases[i].body, cases[i].masked, camel ? "inputHash" : "input_hash",
                             camel ? "outputHash" : "output_hash");
    }
}

static void close_policies(struct scene *s)
{
    policy_set_destroy(s->set);
    s->set = NULL;
    assert_int_equal(policy_set_closed("default:policy_unloadable", "Closed.", &s->set), ERR_OK);
}

/* Wherever a mask is met, the hash is of the masked body; and of nothing else of it. */
static void the_input_hash_is_of_the_masked_body_where_a_mask_is_met(void **state)
{
    static const struct {
        const char *mask, *body, *masked;
    } rows[] = {
        {"args.pin", "{\"action\":\"x\",\"args\":{\"n\":1,\"pin\":\"1\"}}",
         "{\"action\":\"x\",\"args\":{\"n\":1,\"pin\":\"[masked]\"}}"},
        {"args.pin", "{\"action\":\"x\",\"args\":{\"pin\":{\"a\":[1,2]}}}",
         "{\"action\":\"x\",\"args\":{\"pin\":\"[masked]\"}}"},
        {"args.*.pin", "{\"action\":\"x\",\"args\":{\"a\":[{\"pin\":1}],\"b\":{\"pin\":2}}}",
         "{\"action\":\"x\",\"args\":{\"a\":[{\"pin\":1}],\"b\":{\"pin\":\"[masked]\"}}}"},
        {"args.pin", "{\"action\":\"x\",\"args\":{\"pi\":1},\"pin\":2}", NULL},
        {"args", "{\"action\":\"x\",\"args\":{\"pin\":1}}",
         "{\"action\":\"x\",\"args\":\"[masked]\"}"},
        {"args", "{\"action\":\"x\",\"args\":null}", NULL},
        {"context", "{\"action\":\"x\",\"context\":{\"a\":1}}",
         "{\"action\":\"x\",\"context\":\"[masked]\"}"},
        {"context.text", "{\"action\":\"x\",\"context\":\"why\"}",
         "{\"action\":\"x\",\"context\":\"[masked]\"}"},
        {"context.a", "{\"action\":\"x\",\"context\":{\"a\":1,\"b\":2}}",
         "{\"action\":\"x\",\"context\":{\"a\":\"[masked]\",\"b\":2}}"},
        {"resource.id", "{\"action\":\"x\",\"resource\":\"db:one\"}",
         "{\"action\":\"x\",\"resource\":\"[masked]\"}"},
        {"resource.zone", "{\"action\":\"x\",\"resource\":\"db:one\"}", NULL},
        {"resource.zone", "{\"action\":\"x\",\"resource\":{\"id\":\"a\",\"zone\":\"b\"}}",
         "{\"action\":\"x\",\"resource\":{\"id\":\"a\",\"zone\":\"[masked]\"}}"},
        {"resource.properties.owner",
         "{\"action\":\"x\",\"resource\":{\"id\":\"a\",\"properties\":{\"owner\":1,\"n\":2}}}",
         "{\"action\":\"x\",\"resource\":{\"id\":\"a\",\"properties\":{\"owner\":\"[masked]\",\"n\":2}}}"},
        {"resource", "{\"action\":\"x\",\"resource\":{\"id\":\"a\",\"properties\":{\"owner\":1}}}",
         "{\"action\":\"x\",\"resource\":\"[masked]\"}"},
        {"resource", "{\"action\":\"x\",\"resource\":\"one\"}",
         "{\"action\":\"x\",\"resource\":\"[masked]\"}"},
        /* policies that do not load: nobody knows what they mask */
        {NULL,
         "{\"action\":\"x\",\"args\":{\"a\":1},\"context\":\"c\",\"resource\":{\"id\":\"d\"}}",
         "{\"action\":\"x\",\"args\":\"[masked]\",\"context\":\"[masked]\",\"resource\":\"[masked]\"}"},
    };
    struct scene *s = *state;
    char text[256], salt[32];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        snprintf(text, sizeof text,
                 "mask: ['%s']\nrules: [{id: r, agents: ['*'], actions: ['*'], decision: allow}]\n",
                 rows[i].mask == NULL ? "" : rows[i].mask);
        if (rows[i].mask == NULL)
            close_policies(s);
        else
            scene_policies(s, text);
        scene_ask(s, ASK_AGENT, rows[i].body);
        assert_hashes_masked(s, rows[i].body, rows[i].masked, "input_hash", "output_hash");
        if (rows[i].masked == NULL) continue;
        memcpy(salt, json_text(s->record, STR("input_salt")).bytes, sizeof salt);
        scene_ask(s, ASK_AGENT, rows[i].body);
        assert_memory_not_equal(json_text(s->record, STR("input_salt")).bytes, salt, sizeof salt);
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
    assert_member(s->record, "key_id", "key_01000000000000000000000000");
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

    /* What an approval is bound to is what was asked, before masking, and the review itself. */
    char hex[SHA256_HEX + 1] = {0};
    struct buf bound;
    buf_init(&bound, 4096, 1 << 20);
    buf_put(&bound, review);
    buf_put(&bound, str_of(s->binding, s->binding_size));
    assert_true(text_has(buf_view(&bound), "4111"));
    sha256_write_hex(hasher_hmac(s->hasher,
                                 str_of((const char *)s->keys.binding.bytes, SHA256_BYTES),
                                 buf_view(&bound)),
                     hex);
    buf_fini(&bound);
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

/* As the owner of the slot keeps it. */
static struct review_facts review_of(struct scene *s)
{
    return (struct review_facts){
        .id = s->d.review, .binding = s->d.binding, .request = decide_request_digest(&s->d)};
}

/* Whether a redemption of this review may be this request. */
static bool is_bound_to(struct scene *s, const char *body, const struct review_facts *r)
{
    struct str text = str_from(body);
    struct json *v;
    struct caller caller = {.key = &s->key, .tenant = s->key.tenant};
    struct auth_request_source from = {.form = ASK_AGENT, .chance = &s->chance, .arena = &s->arena};
    s->tools = (struct decide_tools){.hasher = s->hasher,
                                     .chance = &s->chance,
                                     .keys = &s->keys,
                                     .policies = s->set,
                                     .now_ms = scene_now_ms};
    arena_reset(&s->arena);
    assert_int_equal(json_read(text, NULL, &s->arena, &v, &s->fault), ERR_OK);
    assert_int_equal(auth_request_read(&from, &caller, v, &s->ask, &s->fault), ERR_OK);
    s->d = (struct decision){0};
    decide_begin(&s->d, &s->tools, &caller, &s->ask, &s->arena);
    return decide_bind_to(&s->d, r);
}

static void each_review_is_bound_to_its_request_in_a_way_of_its_own(void **state)
{
    static const char body[] = "{\"action\":\"pay\",\"args\":{\"card\":\"4111\"}}",
                      other[] = "{\"action\":\"pay\",\"args\":{\"card\":\"4112\"}}";
    struct scene *s = *state;
    scene_ask(s, ASK_AGENT, body);
    struct review_facts first = review_of(s), plain = first;
    plain.binding = plain.request = decide_request_plain(&s->d); /* of an earlier version */
    scene_ask(s, ASK_AGENT, body);
    struct review_facts second = review_of(s);
    assert_false(review_digest_equal(&first.binding, &second.binding));
    assert_true(review_digest_equal(&first.request, &second.request));
    assert_false(review_digest_equal(&first.binding, &first.request));
    assert_true(is_bound_to(s, body, &first) && is_bound_to(s, body, &second));
    assert_true(is_bound_to(s, body, &plain));
    assert_false(is_bound_to(s, other, &first) || is_bound_to(s, other, &plain));
    second.id = first.id; /* the one's approval is not the other's */
    assert_false(is_bound_to(s, body, &second));
    s->keys.binding.bytes[0] ^= 1;
    assert_false(is_bound_to(s, body, &first));
    scene_ask(s, ASK_AGENT, other);
    struct review_digest request = decide_request_digest(&s->d);
    assert_false(review_digest_equal(&first.request, &request));
}

/* A pending review that another request shares shows the same binding in both records. */
static void who_shares_a_review_has_its_binding(void **state)
{
    static const char body[] = "{\"action\":\"pay\",\"args\":{\"card\":\"4111\"}}";
    struct scene *s = *state;
    scene_ask(s, ASK_AGENT, body);
    struct review_facts pending = review_of(s);
    scene_ask(s, ASK_AGENT, body);
    s->d.has_review = true;
    s->d.review = pending.id;
    s->d.review_binding = pending.binding;
    assert_int_equal(decide_settle(&s->d, &s->fault), ERR_OK);
    s->record = scene_read(s, s->d.record);
    char hex[SHA256_HEX + 1] = {0};
    hex_write(hex, pending.binding.bytes, REVIEW_DIGEST_BYTES);
    assert_member(s->record, "binding_hash", hex);
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
    assert_no_member(s->record, "binding_hash"); /* there is nothing to approve */
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

static void what_is_masked_is_in_no_record_and_in_no_hash_but_the_binding(void **state)
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
    assert_hashes_masked(
        s, body,
        "{\"action\":\"pay\",\"args\":{\"card\":\"[masked]\",\"list\":[{\"pin\":\"[masked]\"},{\"pin\":\"[masked]\"}],\"n\":1},"
        "\"context\":{\"secret\":\"[masked]\",\"confidence\":1},\"resource\":{\"type\":\"db\",\"id\":\"x\",\"zone\":\"[masked]\","
        "\"properties\":{\"owner\":\"[masked]\",\"n\":2}}}",
        "input_hash", "output_hash");
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

/* ---- guessing ---- */

static bool says_digest(const struct scene *s, struct sha256 digest)
{
    static const char *const names[] = {"input_hash", "output_hash", "binding_hash"};
    const struct json *const events[] = {s->record, s->enqueued, s->answer};
    char hex[SHA256_HEX];
    sha256_write_hex(digest, hex);
    for (size_t i = 0; i < 9; i++) {
        if (events[i / 3] == NULL) continue;
        if (str_equal(json_text(events[i / 3], str_from(names[i % 3])), str_of(hex, SHA256_HEX)))
            return true;
    }
    return false;
}

static bool keeps_digest(const struct review_facts *r, struct sha256 digest)
{
    return memcmp(r->binding.bytes, digest.bytes, SHA256_BYTES) == 0 ||
           memcmp(r->request.bytes, digest.bytes, SHA256_BYTES) == 0;
}

/* Four digits are ten thousand hashes: each of the body and of its full form, with and without what the
 * record has to be put before or behind it. How many are found in what is shown or kept. */
static unsigned pins_found(struct scene *s, struct str salt, struct str review)
{
    struct review_facts kept = review_of(s);
    unsigned found = 0;
    for (unsigned pin = 0; pin < 10000; pin++) {
        char bodies[2][256], text[512];
        snprintf(bodies[0], sizeof bodies[0], "{\"action\":\"pay\",\"args\":{\"card\":\"%04u\"}}",
                 pin);
        snprintf(
            bodies[1], sizeof bodies[1],
            "{\"action\":\"pay\",\"actor\":\"fleet\",\"args\":{\"card\":\"%04u\"},\"kind\":\"agent\",\"tenant_id\":\"acme\"}",
            pin);
        bool is_found = false;
        for (size_t i = 0; i < 6; i++) {
            struct buf b = buf_over(text, sizeof text);
            if (i / 2 == 2) buf_put(&b, review);
            buf_put(&b, str_from(bodies[i % 2]));
            if (i / 2 == 1) buf_put(&b, salt);
            struct sha256 digest = hasher_sha256(s->hasher, buf_view(&b));
            is_found |= says_digest(s, digest) || keeps_digest(&kept, digest);
        }
        found += is_found;
    }
    return found;
}

static void what_a_mask_covers_is_not_found_from_what_is_shown_or_kept(void **state)
{
    static const char body[] = "{\"action\":\"pay\",\"args\":{\"card\":\"0417\"}}";
    struct scene *s = *state;
    uint8_t salt[16];
    scene_ask(s, ASK_AGENT, body);
    assert_true(hex_read(json_text(s->record, STR("input_salt")).bytes, salt, sizeof salt));
    assert_int_equal(pins_found(s, str_of((const char *)salt, sizeof salt),
                                json_text(s->record, STR("review_id"))),
                     0);
    /* The same search finds it where nothing is masked, */
    scene_policies(s, "rules: [{id: big, actions: [pay], decision: human_review}]");
    scene_ask(s, ASK_AGENT, body);
    assert_int_equal(pins_found(s, STR(""), STR("")), 1);
    /* and in what was kept of a full form when it was no HMAC. */
    scene_policies(s, policies);
    scene_ask(s, ASK_AGENT, body);
    struct review_digest plain = decide_request_plain(&s->d);
    s->d.binding = plain;
    assert_int_equal(pins_found(s, STR(""), STR("")), 1);
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
    close_policies(s);
    static const char body[] =
        "{\"action\":\"get_x\",\"args\":{\"card\":\"SECRET\"},\"context\":\"SECRET\","
        "\"resource\":{\"zone\":\"SECRET\",\"properties\":{\"owner\":\"SECRET\"}}}";
    scene_ask(s, ASK_AGENT, body);
    assert_member(s->record, "decision", "deny");
    assert_member(s->record, "rule", "default:policy_unloadable");
    assert_false(text_has(s->d.record, "SECRET"));
    assert_raw(s->record, "args", "{\"bytes\":17,\"omitted\":true}");
    assert_hashes_masked(
        s, body,
        "{\"action\":\"get_x\",\"args\":\"[masked]\",\"context\":\"[masked]\",\"resource\":\"[masked]\"}",
        "input_hash", "output_hash");

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
        TEST(the_input_hash_is_of_the_masked_body_where_a_mask_is_met),
        TEST(the_record_says_who_asked_for_what),
        TEST(what_is_allowed_under_a_limit_has_no_binding_hash),
        TEST(conditions_see_the_moment_of_the_decision),
        TEST(a_decision_tells_how_long_it_took),
        TEST(a_compute_always_gives_its_safe_call),
        TEST(a_review_has_an_id_a_deadline_and_a_record_of_its_own),
        TEST(who_shares_a_review_has_its_binding),
        TEST(each_review_is_bound_to_its_request_in_a_way_of_its_own),
        TEST(a_gate_asks_for_a_review_too),
        TEST(a_dry_run_enqueues_nothing_and_allows_nothing),
        TEST(an_explanation_is_told_and_not_recorded),
        TEST(what_is_masked_is_in_no_record_and_in_no_hash_but_the_binding),
        TEST(what_a_mask_covers_is_not_found_from_what_is_shown_or_kept),
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
