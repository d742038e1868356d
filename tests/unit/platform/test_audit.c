/* Ingest, positions and audit queries over real sockets. */
#include "rig.h"

#include "pipeline/ingest/stream.h"

#define INGEST "/api/v1/audit/ingest"
#define EPOCH "1111111111111111"

static void put_event(struct buf *b, unsigned n, const char *more)
{
    buf_printf(b,
               "{\"action\":\"get_x\",\"actor\":\"bot\",\"decision\":\"allow\",\"event_id\":\"evt_%"
               "u\",\"kind\":\"decision\",\"rule\":\"allow:r\","
               "\"tenant_id\":\"default\",\"timestamp\":\"2026-11-20T09:30:%02u.123Z\",\"trace_"
               "id\":\"trace-%u\"%s}\n",
               n, n % 60, n, more);
}

/* Events 1 … count as an engine's first batch. */
static struct str first_batch(struct rig *r, unsigned count)
{
    struct buf b;
    buf_init(&b, 1 << 12, 16 << 20);
    buf_put_literal(&b, "{\"event_id\":\"evt_start\",\"kind\":\"engine.started\",\"tenant_id\":"
                        "\"default\",\"timestamp\":\"2026-11-20T09:30:00.000Z\"}\n");
    for (unsigned n = 1; n <= count; n++) put_event(&b, n, "");
    struct str body = arena_copy(&r->arena, buf_view(&b));
    buf_fini(&b);
    return body;
}

static int stream_as(struct rig *r, const char *key, const char *node, const char *first,
                     struct str body)
{
    struct pepper pepper;
    char mac[SHA256_HEX + 1] = {0};
    struct ingest_batch batch = {
        .node = str_from(node), .journal = STR("0"), .epoch = STR(EPOCH), .body = body};
    (void)str_to_u64(str_from(first), &batch.first_seq);
    assert_int_equal(pepper_read(r->pepper, &pepper, &r->fault), ERR_OK);
    struct sha256 of_all = pepper_derive(&pepper, STR(RUN_KEY_LABEL));
    sha256_write_hex(ingest_mac(&of_all, &batch), mac);
    const struct extra headers = {
        {"Writ-Node", "Writ-Journal", "Writ-Epoch", "Writ-First-Seq", "Writ-Mac"},
        {node, "0", EPOCH, first, mac},
        "application/x-ndjson"};
    return call_with(r, key, "POST", INGEST, body, &headers);
}

static int stream(struct rig *r, const char *first, struct str body)
{
    return stream_as(r, r->keys[ENGINE], "node-1", first, body);
}

static void a_batch_is_stored_and_its_position_told(void **state)
{
    struct rig *r = *state;
    stream(r, "1", first_batch(r, 9));
    assert_status(r, 201);
    assert_string_equal(arena_copy(&r->arena, r->body).bytes,
                        "{\"accepted\":10,\"clashes\":0,\"duplicates\":0,\"next_seq\":11}");
    get(r, ENGINE, "/api/v1/audit/positions?node=node-1");
    assert_status(r, 200);
    const struct json *s = json_get(r->json, STR("streams"))->child;
    assert_true(str_equal(json_text(s, STR("journal")), STR("0")));
    assert_true(str_equal(json_text(s, STR("epoch")), STR(EPOCH)));
    assert_int_equal(json_u64(s, STR("next_seq"), 0), 11);
    assert_int_equal(json_u64(s, STR("want_from"), 0), 11);
    get(r, ENGINE, "/api/v1/audit/positions?node=node-2");
    assert_int_equal(json_get(r->json, STR("streams"))->count, 0);
    get(r, ENGINE, "/api/v1/audit/positions");
    assert_refused(r, 400, "bad_parameter", NULL);
}

static void a_gap_says_where_to_go_on(void **state)
{
    struct rig *r = *state;
    stream(r, "5", first_batch(r, 1));
    assert_refused(r, 409, "stream_gap", NULL);
    assert_int_equal(number(r, "want_from"), 1);
    stream(r, "0", first_batch(r, 1));
    assert_refused(r, 400, "bad_header", NULL);
    stream(r, "x", first_batch(r, 1));
    assert_refused(r, 400, "bad_header", NULL);
    call_with(r, r->keys[ENGINE], "POST", INGEST, STR("{}\n"),
              &(struct extra){{"Writ-Node"}, {"n"}, "application/x-ndjson"});
    assert_refused(r, 400, "bad_header", NULL);
}

static void a_key_speaks_for_its_nodes_only(void **state)
{
    struct rig *r = *state;
    char edge[CREDENTIAL_TEXT + 1];
    send_json(r, ROOT, "POST", "/api/v1/keys",
              "{\"name\":\"edge\",\"owner\":\"e\",\"tenant\":\"*\",\"roles\":[\"ingest\"],"
              "\"nodes\":[\"edge-*\"],\"tenants\":[\"default\"]}");
    assert_status(r, 201);
    snprintf(edge, sizeof edge, "%.*s", STR_FORMAT(json_text(r->json, STR("key"))));
    assert_int_equal(stream_as(r, edge, "core-1", "1", first_batch(r, 1)), 403);
    assert_refused(r, 403, "wrong_node", NULL);
    assert_int_equal(stream_as(r, edge, "edge-1", "1", first_batch(r, 1)), 201);
    call_with(r, edge, "GET", "/api/v1/audit/positions?node=core-1", (struct str){0}, NULL);
    assert_refused(r, 403, "wrong_node", NULL);
    call_with(r, edge, "GET", "/api/v1/bundle", (struct str){0},
              &(struct extra){{"Writ-Node"}, {"core-1"}, NULL});
    assert_refused(r, 403, "wrong_node", NULL);
    assert_int_equal(stream_as(r, r->keys[ADMIN], "edge-1", "1", first_batch(r, 1)), 403);
}

static void what_people_post_is_taken_once(void **state)
{
    struct rig *r = *state;
    const char *event = "{\"event_id\":\"a\",\"kind\":\"decision\",\"tenant_id\":\"t\","
                        "\"timestamp\":\"2026-11-20T09:30:00.123Z\"}";
    send_json(r, ENGINE, "POST", INGEST, event);
    assert_status(r, 201);
    uint64_t id = number(r, "id");
    send_json(r, ENGINE, "POST", INGEST, event);
    assert_int_equal(number(r, "id"), id);
    call_with(r, r->keys[ENGINE], "POST", INGEST, str_from(event),
              &(struct extra){.type = "application/x-ndjson"});
    assert_int_equal(number(r, "duplicates"), 1);
    call_with(r, r->keys[ENGINE], "POST", INGEST, STR("\n"),
              &(struct extra){.type = "application/X-NDJSON; charset=utf-8"});
    assert_int_equal(number(r, "accepted"), 0); /* no lines, and not one malformed event */
    assert_status(r, 201);
    send_json(r, ENGINE, "POST", INGEST,
              "{\"event_id\":\"a\",\"kind\":\"decision\",\"tenant_id\":\"t\",\"timestamp\":\"2026-"
              "11-20T09:30:00.124Z\"}");
    assert_refused(r, 409, "event_conflict", "/event_id");
    send_json(r, ENGINE, "POST", INGEST, "[{\"kind\":\"decision\"}]");
    assert_int_equal(r->status, 400);
    const struct extra once = {{"Idempotency-Key"}, {"k"}, NULL};
    call_with(r, r->keys[ENGINE], "POST", INGEST, str_from(event), &once);
    assert_status(r, 201);
    call_with(r, r->keys[ENGINE], "POST", INGEST, STR("[]"), &once);
    assert_refused(r, 422, "idempotency_mismatch", NULL);
}

static void what_writ_itself_records_is_not_taken_from_an_ingest_key(void **state)
{
    struct rig *r = *state;
    send_json(r, ENGINE, "POST", INGEST,
              "{\"event_id\":\"a\",\"kind\":\"key.revoked\",\"tenant_id\":\"t\","
              "\"timestamp\":\"2026-11-20T09:30:00.123Z\"}");
    assert_refused(r, 403, "missing_role", "/kind");
}

static void a_trace_is_found_with_its_source(void **state)
{
    struct rig *r = *state;
    stream(r, "1", first_batch(r, 9));
    get(r, AUDITOR, "/api/v1/audit/trace/trace-7");
    assert_status(r, 200);
    assert_int_equal(number(r, "count"), 1);
    assert_text(r, "trace_id", "trace-7");
    const struct json *e = json_get(r->json, STR("events"))->child,
                      *source = json_get(e, STR("source"));
    assert_true(str_equal(json_text(source, STR("node")), STR("node-1")));
    assert_true(str_equal(json_text(source, STR("epoch")), STR(EPOCH)));
    assert_int_equal(json_u64(source, STR("seq"), 0), 8);
    /* What existing clients expect even where it has no value. */
    assert_true(str_equal(json_text(e, STR("reason")), STR("")));
    assert_true(str_equal(json_text(e, STR("mode")), STR("")));
    assert_true(json_is_number(json_get(e, STR("confidence"))));
    assert_true(json_is_number(json_get(e, STR("latency_ms"))));
    assert_null(json_get(e, STR("confidence_used")));
    assert_int_equal(json_text(e, STR("created_at")).size, 24);
    get(r, AUDITOR, "/api/v1/audit/trace/none");
    assert_int_equal(number(r, "count"), 0);
    get(r, OTHER, "/api/v1/audit/trace/trace-7"); /* another tenant's */
    assert_int_equal(number(r, "count"), 0);
    assert_int_equal(get(r, AGENT, "/api/v1/audit/trace/trace-7"), 403);
}

static void pages_hold_every_event_once_newest_first(void **state)
{
    struct rig *r = *state;
    stream(r, "1", first_batch(r, 45));
    uint64_t cursor = 0, seen = 0;
    do {
        struct str target = arena_printf(&r->arena, "/api/v1/audit?actor=bot&limit=20&cursor=%llu",
                                         (unsigned long long)cursor);
        get(r, AUDITOR, target.bytes);
        assert_int_equal(number(r, "cursor"), cursor);
        assert_int_equal(number(r, "limit"), 20);
        assert_int_equal(number(r, "count"), json_get(r->json, STR("events"))->count);
        for (const struct json *e = json_get(r->json, STR("events"))->child; e != NULL;
             e = e->next, seen++) {
            struct str trace = arena_printf(&r->arena, "trace-%u", (unsigned)(45 - seen));
            assert_true(str_equal(json_text(e, STR("trace_id")), trace));
        }
        cursor = number(r, "next_cursor");
    } while (cursor != 0);
    assert_int_equal(seen, 45);
    get(r, AUDITOR, "/api/v1/audit?actor=bot&limit=45"); /* exactly all: there is no further page */
    assert_int_equal(number(r, "next_cursor"), 0);
}

static void pages_from_the_oldest_on_go_on_where_they_ended(void **state)
{
    struct rig *r = *state;
    stream(r, "1", first_batch(r, 45));
    uint64_t cursor = 0, seen = 0, last = 0;
    do {
        struct str target =
            arena_printf(&r->arena, "/api/v1/audit?actor=bot&order=asc&limit=20&cursor=%llu",
                         (unsigned long long)cursor);
        get(r, AUDITOR, target.bytes);
        assert_int_equal(number(r, "cursor"), cursor);
        for (const struct json *e = json_get(r->json, STR("events"))->child; e != NULL;
             e = e->next) {
            struct str trace = arena_printf(&r->arena, "trace-%u", (unsigned)++seen);
            assert_true(str_equal(json_text(e, STR("trace_id")), trace));
            last = json_u64(e, STR("id"), 0);
        }
        cursor = number(r, "next_cursor");
    } while (cursor != 0);
    assert_int_equal(seen, 45);
    struct buf late;
    buf_init(&late, 1 << 10, 1 << 12);
    put_event(&late, 46, "");
    stream(r, "47", buf_view(&late));
    buf_fini(&late);
    struct str target =
        arena_printf(&r->arena, "/api/v1/audit?order=asc&cursor=%llu", (unsigned long long)last);
    get(r, AUDITOR, target.bytes);
    assert_int_equal(number(r, "count"), 1);
    assert_true(str_equal(json_text(json_get(r->json, STR("events"))->child, STR("trace_id")),
                          STR("trace-46")));
}

static void an_exact_event_stands_apart_as_it_was_stored(void **state)
{
    struct rig *r = *state;
    static const char stored[] =
        "{ \"reason\":\"\", \"latency_ms\":0, \"trace_id\":\"blank\",\"event_id\":\"e1\",\"kind\":\"external.auth.failed\","
        "\"tenant_id\":\"default\",\"timestamp\":\"2026-11-20T09:30:00.000Z\"}";
    send_json(r, ENGINE, "POST", INGEST, stored);
    assert_status(r, 201);
    get(r, AUDITOR, "/api/v1/audit?trace_id=blank&exact=true");
    const struct json *row = json_get(r->json, STR("events"))->child;
    assert_true(str_equal(json_get(row, STR("event"))->raw, str_from(stored)));
    assert_int_equal(row->count, 3); /* id, created_at, event */
    get(r, AUDITOR, "/api/v1/audit?trace_id=blank");
    assert_null(json_get(json_get(r->json, STR("events"))->child, STR("event")));
}

static void a_page_also_ends_where_it_is_large(void **state)
{
    struct rig *r = *state;
    enum { EVENTS = 200, FILL = 60000 };
    struct buf b;
    buf_init(&b, 1 << 20, 16 << 20);
    char *fill = arena_bytes(&r->arena, FILL + 1);
    memset(fill, 'x', FILL);
    for (unsigned n = 1; n <= EVENTS; n++) {
        buf_printf(&b,
                   "{\"event_id\":\"e%u\",\"kind\":\"decision\",\"reason\":\"%.*s\",\"tenant_id\":"
                   "\"default\",\"timestamp\":\"2026-11-20T09:30:00.000Z\"}\n",
                   n, FILL, fill);
        if (n % 100 != 0) continue;
        struct extra headers = {.type = "application/x-ndjson"};
        call_with(r, r->keys[ENGINE], "POST", INGEST, buf_view(&b), &headers);
        assert_status(r, 201);
        buf_clear(&b);
    }
    buf_fini(&b);
    uint64_t cursor = 0, seen = 0;
    unsigned pages = 0;
    do {
        struct str target = arena_printf(
            &r->arena, "/api/v1/audit?order=asc&kind=external.decision&limit=500&cursor=%llu",
            (unsigned long long)cursor);
        get(r, AUDITOR, target.bytes);
        assert_status(r, 200);
        assert_true(r->body.size < (8 << 20) + 2 * FILL);
        seen += number(r, "count");
        cursor = number(r, "next_cursor");
        pages++;
    } while (cursor != 0);
    assert_int_equal(seen, EVENTS);
    assert_true(pages > 1);
}

static void every_parameter_narrows(void **state)
{
    struct rig *r = *state;
    static const struct {
        const char *query;
        unsigned count;
    } cases[] = {
        {"actor=bot", 5},
        {"actor=Bot", 0},
        {"action=get_x", 5},
        {"decision=allow", 5},
        {"decision=allowed", 5},
        {"decision=deny", 1},
        {"decision=denied", 1},
        {"decision=human_review", 0},
        {"trace_id=trace-3", 1},
        {"kind=engine.started", 1},
        {"kind=decision", 5},
        {"kind=external.decision", 1},
        {"rule=allow:r", 5},
        {"rule=allow:s", 0},
        {"user_id=u", 0},
        {"actor=bot&trace_id=trace-2&rule=allow:r", 1},
        {"actor=bot&from=2026-11-20T09:30:03.123Z", 3},
        {"actor=bot&to=2026-11-20T09:30:03.123Z", 2},
        {"actor=bot&from=2026-11-20T09:30:03.1230001Z", 2},
        {"actor=bot&to=2026-11-20T09:30:03.123000001Z", 3},
        {"actor=bot&from=2026-11-20T10:30:03.123%2B01:00", 3},
        {"actor=bot&from=2026-11-20T10:30:03.123+01:00", 3},
        {"actor=bot&from=2026-11-20T09:30:02Z&to=2026-11-20T09:30:04Z", 2},
        {"from=2027-01-01T00:00:00Z", 0},
        {"actor=bot&from=1969-12-31T23:59:59Z", 5},
        {"actor=bot&to=1969-12-31T23:59:59Z", 0},
    };
    stream(r, "1", first_batch(r, 5));
    send_json(
        r, ENGINE, "POST", INGEST,
        "{\"decision\":\"deny\",\"event_id\":\"d\",\"kind\":\"decision\",\"tenant_id\":\"default\","
        "\"timestamp\":\"2026-11-20T09:30:00.123Z\"}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct str target = arena_printf(&r->arena, "/api/v1/audit?limit=500&%s", cases[i].query);
        get(r, AUDITOR, target.bytes);
        if (r->status != 200) fail_msg("%s: %.*s", cases[i].query, STR_FORMAT(r->body));
        if (number(r, "count") != cases[i].count)
            fail_msg("%s: %.*s", cases[i].query, STR_FORMAT(r->body));
    }
}

static void a_name_of_256_letters_is_asked_for_whatever_the_script(void **state)
{
    struct rig *r = *state;
    struct buf target;
    buf_init(&target, 2048, 4096);
    buf_put_literal(&target, "/api/v1/audit?actor=");
    for (int i = 0; i < 256; i++) buf_put_literal(&target, "%C3%A9");
    buf_put_byte(&target, '\0');
    get(r, AUDITOR, target.bytes);
    assert_status(r, 200);
    target.size--;
    buf_put_literal(&target, "x\0");
    get(r, AUDITOR, target.bytes);
    assert_refused(r, 400, "bad_parameter", NULL);
    buf_fini(&target);
}

static void a_bad_query_is_named(void **state)
{
    struct rig *r = *state;
    static const char *const queries[] = {"limit=0",
                                          "limit=501",
                                          "limit=x",
                                          "limit=-1",
                                          "limit=",
                                          "limit=5&limit=6",
                                          "cursor=-1",
                                          "cursor=99999999999999999999",
                                          "from=yesterday",
                                          "to=2026-01-01",
                                          "from=2026-02-30T00:00:00Z",
                                          "decision=perhaps",
                                          "kind=nonsense",
                                          "order=random",
                                          "exact=perhaps",
                                          "actor=%ff",
                                          "from="};
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        struct str target = arena_printf(&r->arena, "/api/v1/audit?%s", queries[i]);
        get(r, AUDITOR, target.bytes);
        assert_refused(r, 400, "bad_parameter", NULL);
        struct str name = str_of(queries[i], str_find(str_from(queries[i]), '='));
        assert_non_null(memmem(r->body.bytes, r->body.size, name.bytes, name.size));
    }
    get(r, AUDITOR, "/api/v1/audit?colour=red");
    assert_refused(r, 400, "unknown_parameter", NULL);
    get(r, ROOT, "/api/v1/audit");
    assert_refused(r, 400, "tenant_required", NULL);
    get(r, AUDITOR, "/api/v1/audit?tenant_id=acme");
    assert_refused(r, 403, "wrong_tenant", NULL);
    assert_int_equal(get(r, ROOT, "/api/v1/audit?tenant_id=default"), 200);
}

static void refused_credentials_are_counted_per_source(void **state)
{
    struct rig *r = *state;
    char wrong[CREDENTIAL_TEXT + 1];
    struct id id;
    assert_true(credential_read(str_from(r->keys[ADMIN]), &id));
    credential_make(id, wrong); /* the right id, another secret */
    wrong[CREDENTIAL_TEXT] = '\0';
    uint64_t begun_ns = world_monotonic_ns();
    for (int i = 0; i < 10; i++)
        assert_int_equal(call_with(r, wrong, "GET", "/api/v1/policies", (struct str){0}, NULL),
                         401);
    for (int i = 0; i < 5; i++)
        assert_int_equal(call_with(r, "nonsense", "GET", "/api/v1/policies", (struct str){0}, NULL),
                         401);
    uint64_t known = 0, unknown = 0, events = 0;
    for (int i = 0; i < 12000 && known + unknown < 15; i++) {
        usleep(10000);
        known = unknown = 0;
        get(r, AUDITOR, "/api/v1/audit?kind=auth.failed");
        events = number(r, "count");
        for (const struct json *e = json_get(r->json, STR("events"))->child; e != NULL;
             e = e->next) {
            bool has_key = json_get(e, STR("key_id")) != NULL;
            *(has_key ? &known : &unknown) += json_u64(e, STR("count"), 0);
        }
    }
    assert_int_equal(known, 10);
    assert_int_equal(unknown, 5);
    uint64_t seconds = (world_monotonic_ns() - begun_ns) / 1000000000;
    assert_true(events <= 2 * (2 + seconds)); /* two sources, each once a second */
}

static void operations_are_public_and_metrics_are_not(void **state)
{
    struct rig *r = *state;
    static const char *const open[] = {"/healthz", "/livez", "/readyz", "/api/config-check"};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(call_with(r, NULL, "GET", open[i], (struct str){0}, NULL), 200);
    call_with(r, NULL, "GET", "/healthz", (struct str){0}, NULL);
    assert_text(r, "status", "ok");
    assert_text(r, "service", "writ-platform");
    assert_int_equal(call_with(r, NULL, "GET", "/metrics", (struct str){0}, NULL), 401);
    assert_int_equal(get(r, AGENT, "/metrics"), 403);
    stream(r, "1", first_batch(r, 3));
    assert_int_equal(get(r, ADMIN, "/metrics"), 200);
    assert_non_null(memmem(r->body.bytes, r->body.size, "writ_platform_ingest_events_total ", 34));
    assert_int_equal(get(r, ADMIN, "/api/v1/nothing"), 404);
    call_with(r, r->keys[ADMIN], "POST", "/api/v1/audit", STR("{}"), NULL);
    assert_refused(r, 405, "method_not_allowed", NULL);
}

static void a_restart_keeps_everything(void **state)
{
    struct rig *r = *state;
    stream(r, "1", first_batch(r, 9));
    rig_stop(r);
    rig_start(r);
    get(r, AUDITOR, "/api/v1/audit/trace/trace-9");
    assert_int_equal(number(r, "count"), 1);
    stream(r, "1", first_batch(r, 9));
    assert_int_equal(number(r, "duplicates"), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_batch_is_stored_and_its_position_told),
        TEST(a_gap_says_where_to_go_on),
        TEST(a_key_speaks_for_its_nodes_only),
        TEST(what_people_post_is_taken_once),
        TEST(what_writ_itself_records_is_not_taken_from_an_ingest_key),
        TEST(a_trace_is_found_with_its_source),
        TEST(pages_hold_every_event_once_newest_first),
        TEST(pages_from_the_oldest_on_go_on_where_they_ended),
        TEST(an_exact_event_stands_apart_as_it_was_stored),
        TEST(a_page_also_ends_where_it_is_large),
        TEST(every_parameter_narrows),
        TEST(a_name_of_256_letters_is_asked_for_whatever_the_script),
        TEST(a_bad_query_is_named),
        TEST(refused_credentials_are_counted_per_source),
        TEST(operations_are_public_and_metrics_are_not),
        TEST(a_restart_keeps_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
