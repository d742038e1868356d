/* What people post: one event, an array, NDJSON; all or nothing, once. */
#include "rig.h"

#include "store/event_key.h"

#define EVENT_OF(tenant, id, more)                                                                 \
    "{\"event_id\":\"" id "\",\"kind\":\"decision\",\"tenant_id\":\"" tenant                       \
    "\",\"timestamp\":\"2026-11-20T09:30:00.123Z\"" more "}"
#define EVENT(id, more) EVENT_OF("t", id, more)
#define OURS "evt_01JD0000000000000000000000"

static int64_t rows(const struct rig *r) { return rig_number(r, "SELECT count(*) FROM records"); }

static void one_event_answers_its_id(void **state)
{
    struct rig *r = *state;
    assert_int_equal(post(r, EVENT("a", ""), false), ERR_OK);
    assert_string_equal(out_text(r), "{\"id\":1}");
    assert_int_equal(post(r, EVENT("b", ""), false), ERR_OK);
    assert_string_equal(out_text(r), "{\"id\":2}");
    assert_int_equal(post(r, EVENT("a", ""), false), ERR_OK);
    assert_string_equal(out_text(r), "{\"id\":1}");
    assert_int_equal(rows(r), 2);
}

static void an_array_and_lines_answer_all_ids(void **state)
{
    struct rig *r = *state;
    assert_int_equal(
        post(r, " [ " EVENT("a", "") " ,\n" EVENT("b", ",\"reason\":\"], [\\\"x\\\\\"") "] ",
             false),
        ERR_OK);
    assert_string_equal(out_text(r), "{\"accepted\":2,\"duplicates\":0,\"ids\":[1,2]}");
    assert_int_equal(post(r, EVENT("c", "") "\r\n\n" EVENT("a", "") "\n", true), ERR_OK);
    assert_string_equal(out_text(r), "{\"accepted\":1,\"duplicates\":1,\"ids\":[3,1]}");
    assert_int_equal(post(r, "[]", false), ERR_OK);
    assert_string_equal(out_text(r), "{\"accepted\":0,\"duplicates\":0,\"ids\":[]}");
    assert_int_equal(rig_number(r, "SELECT length(event) FROM records WHERE id = 1"),
                     sizeof EVENT("a", "") - 1);
}

static void other_bytes_under_the_same_id_are_a_conflict(void **state)
{
    struct rig *r = *state;
    assert_int_equal(post(r, EVENT("a", ""), false), ERR_OK);
    assert_int_equal(post(r, EVENT("a", ",\"reason\":\"other\""), false), ERR_EVENT_CONFLICT);
    assert_string_equal(r->fault.field, "/event_id");
    assert_int_equal(post(r, "[" EVENT("b", "") "," EVENT("a", " ") "]", false),
                     ERR_EVENT_CONFLICT);
    assert_string_equal(r->fault.field, "/1/event_id");
    assert_int_equal(rows(r), 1); /* all or nothing */
}

static void each_tenant_numbers_its_events_by_itself(void **state)
{
    struct rig *r = *state;
    assert_int_equal(post(r, "[" EVENT_OF("t", "1", "") "," EVENT_OF("t", "2", "") "]", false),
                     ERR_OK);
    assert_int_equal(
        post(r,
             "[" EVENT_OF("u", "2", "") "," EVENT_OF("u", "1", "") "," EVENT_OF("v", "1", "") "]",
             false),
        ERR_OK);
    assert_string_equal(out_text(r), "{\"accepted\":3,\"duplicates\":0,\"ids\":[3,4,5]}");
    assert_int_equal(
        post(r,
             "[" EVENT_OF("u", "3", "") "," EVENT_OF("u", "1", "") "," EVENT_OF("t", "1", "") "]",
             false),
        ERR_OK);
    assert_string_equal(out_text(r), "{\"accepted\":1,\"duplicates\":2,\"ids\":[6,4,1]}");
    assert_int_equal(post(r, "[" EVENT_OF("v", "2", "") "," EVENT_OF("u", "2", " ") "]", false),
                     ERR_EVENT_CONFLICT);
    assert_string_equal(r->fault.field, "/1/event_id");
    assert_int_equal(rows(r), 6);
}

/* What joins the two cannot be in an event_id, whatever it may be in a tenant's name. */
static void no_name_of_a_tenant_makes_two_events_one(void **state)
{
    struct rig *r = *state;
    static const char body[] = "[" EVENT_OF("b/c", "a", "") "," EVENT_OF("c", "a", "") "," EVENT_OF(
        "c", "b", "") "," EVENT_OF("/c", "a", "") "," EVENT_OF("\\\"}'", "a",
                                                               "") "," EVENT_OF("\u00fc", "a",
                                                                                "") "]";
    assert_int_equal(post(r, body, false), ERR_OK);
    assert_int_equal(r->result.accepted, 6);
    assert_int_equal(post(r, body, false), ERR_OK);
    assert_int_equal(r->result.duplicates, 6);
    assert_int_equal(post(r, EVENT_OF("t", "b/c", ""), false), ERR_BAD_VALUE);
}

static void an_id_of_our_own_form_is_one_events_whoever_has_it(void **state)
{
    struct rig *r = *state;
    assert_int_equal(post(r, "[" EVENT_OF("t", OURS, "") "," EVENT_OF("u", OURS, "") "]", false),
                     ERR_EVENT_CONFLICT);
    assert_int_equal(post(r, EVENT_OF("t", OURS, ""), false), ERR_OK);
    assert_int_equal(post(r, EVENT_OF("t", OURS, ""), false), ERR_OK);
    assert_int_equal(r->result.duplicates, 1);
    assert_int_equal(post(r, EVENT_OF("u", OURS, ""), false), ERR_EVENT_CONFLICT);
    assert_int_equal(rows(r), 1);
}

struct known { /* an event_id and the tenant t's key for it */
    const char *event_id, *key;
};

/* What is stored by one is looked for by the other. */
static void the_rule_of_keys_is_the_same_in_c_and_in_sql(void **state)
{
    struct rig *r = *state;
    static const struct known list[] = {
        {OURS, OURS},
        {"evt_01000000000000000000000000", "evt_01000000000000000000000000"},
        {"evt_00ZZZZZZZZZZZZZZZZZZZZZZZZ", "evt_00ZZZZZZZZZZZZZZZZZZZZZZZZ/t"}, /* a counter */
        {"evt_2026-11-20T09:30:00.123456", "evt_2026-11-20T09:30:00.123456/t"},
        {"evt_01JD000000000000000000000", "evt_01JD000000000000000000000/t"},
        {"evt_01JD00000000000000000000000", "evt_01JD00000000000000000000000/t"},
        {"EVT_01JD0000000000000000000000", "EVT_01JD0000000000000000000000/t"},
        {"req_01JD0000000000000000000000", "req_01JD0000000000000000000000/t"},
        {"1", "1/t"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char sql[1024], to[EVENT_KEY_BYTES];
        const struct event event = {.event_id = str_from(list[i].event_id), .tenant_id = STR("t")};
        struct str key = event_key(&event, to);
        if (!str_equal(key, str_from(list[i].key)))
            fail_msg("%s is known by %.*s", list[i].event_id, STR_FORMAT(key));
        snprintf(sql, sizeof sql,
                 "SELECT (" EVENT_KEY
                 ") = '%s' FROM (SELECT CAST('%s' AS text) AS event_id, 't' AS tenant_id) AS e",
                 list[i].key, list[i].event_id);
        if (rig_number(r, sql) != 1) fail_msg("%s: SQL has another key", list[i].event_id);
    }
}

static void one_bad_event_refuses_all(void **state)
{
    struct rig *r = *state;
    assert_int_equal(post(r, "[" EVENT("a", "") ",{\"kind\":\"decision\"}]", false),
                     ERR_MISSING_MEMBER);
    assert_true(strncmp(r->fault.field, "/1/", 3) == 0);
    assert_int_equal(post(r, EVENT("a", "") "\n{\"x\n", true), ERR_MALFORMED_JSON);
    assert_int_equal(post(r, EVENT("a", ",\"colour\":\"red\""), false), ERR_BAD_VALUE);
    assert_int_equal(post(r, EVENT("a", ",\"count\":-1"), false) == ERR_OK, 0);
    assert_int_equal(rows(r), 0);
}

/* SQLite's view would have NULL there. */
static void a_name_has_no_escape_that_it_does_not_need(void **state)
{
    struct rig *r = *state;
    static const char *const bodies[][2] = {
        {EVENT("a", ",\"mod\\u0065\":\"live\""), "/1/mode"},
        {EVENT("a", ",\"\\u0061rgs\" \n: {}"), "/1/args"},
        {EVENT("a", ",\"resource\":{\"type\":\"x\",\"i\\u0064\":\"1\"}"), "/1/resource/id"},
        {EVENT("a", ",\"resource\":{\"\\/~\":\"1\"}"), "/1/resource/~1~0"},
        {EVENT("a", ",\"would_have\":{\"rul\\u0065\":\"allow:x\"}"), "/1/would_have/rule"},
        {EVENT("a", ",\"previous\":{\"\\u0073eq\":1}"), "/1/previous/seq"},
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char body[512];
        snprintf(body, sizeof body, "[" EVENT("b", "") ",%s]", bodies[i][0]);
        if (post(r, body, false) != ERR_BAD_VALUE) fail_msg("was taken: %s", bodies[i][0]);
        assert_string_equal(r->fault.field, bodies[i][1]);
    }
    assert_string_equal(r->fault.text, "event 1: previous/seq: the name \"seq\" must be written "
                                       "without an escape");
    assert_int_equal(post(r, EVENT("a", ",\"mode\":\"live\",\"mod\\u0065\":\"live\""), false),
                     ERR_DUPLICATE_KEY);
    assert_int_equal(post(r, EVENT("a", ",\"c\\u006flour\":1"), false), ERR_BAD_VALUE);
    assert_string_equal(r->fault.text, "an event has no member \"colour\"");
    assert_int_equal(rows(r), 0);
    assert_int_equal(post(r,
                          EVENT("a", ",\"mode\" : \"l\\u0069ve\",\"args\":{\"\\u0061\":1},"
                                     "\"resource\":{\"\\\"\":\"1\",\"\\u00fc\":\"2\"}"),
                          false),
                     ERR_OK);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM events WHERE mode = 'live'"), 1);
}

static void what_is_no_array_of_events_is_refused(void **state)
{
    struct rig *r = *state;
    static const char *const bodies[] = {
        "[",
        "[,]",
        "[" EVENT("a", "") ",]",
        "[" EVENT("a", "") "]]",
        "[" EVENT("a", "") "] x",
        "[" EVENT("a", "") " " EVENT("b", "") "]",
        "[" EVENT("a", ""),
        "[1]",
        "",
        "null",
        "\"x\"",
        "[[" EVENT("a", "") "]]",
        "[" EVENT("a", "") ";]",
        "[\"",
        "[{\"a\":\"\\",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        if (post(r, bodies[i], false) == ERR_OK) fail_msg("was taken: %s", bodies[i]);
    assert_int_equal(rows(r), 0);
}

static void a_key_writes_for_its_tenants_only(void **state)
{
    struct rig *r = *state;
    struct str list[] = {STR("t"), STR("acme-*")};
    const struct globs tenants = {list, 2};
    struct ingest_post p = {.body = STR("[" EVENT("a", "") "]"), .tenants = &tenants, .now_ms = 1};
    assert_int_equal(ingest_post(r->store, &p, &r->out, &r->result, &r->fault), ERR_OK);
    list[0] = STR("u");
    p.body = STR(EVENT("b", ""));
    assert_int_equal(ingest_post(r->store, &p, &r->out, &r->result, &r->fault), ERR_WRONG_TENANT);
    assert_string_equal(r->fault.field, "/tenant_id");
    assert_int_equal(rows(r), 1);
}

static void what_writ_itself_records_is_posted_to_restore_it_only(void **state)
{
    struct rig *r = *state;
    static const char *const kinds[] = {"policy.put", "key.created", "audit.dropped",
                                        "engine.started"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char body[384];
        snprintf(
            body, sizeof body,
            "[{\"event_id\":\"a\",\"kind\":\"external.decision\",\"tenant_id\":\"t\",\"timestamp\":"
            "\"2026-11-20T09:30:00.123Z\"},{\"event_id\":\"e%zu\",\"kind\":\"%s\",\"tenant_id\":"
            "\"t\",\"timestamp\":\"2026-11-20T09:30:00.123Z\",\"count\":1}]",
            i, kinds[i]);
        struct ingest_post p = {.body = str_from(body), .tenants = &rig_all, .now_ms = 1};
        assert_int_equal(ingest_post(r->store, &p, &r->out, &r->result, &r->fault),
                         ERR_MISSING_ROLE);
        assert_string_equal(r->fault.field, "/1/kind");
        assert_int_equal(rows(r), i == 0 ? 0 : i + 1);
        p.restores = true;
        buf_clear(&r->out);
        assert_int_equal(ingest_post(r->store, &p, &r->out, &r->result, &r->fault), ERR_OK);
        assert_int_equal(rows(r), i + 2); /* `a` is there already from the second time on */
    }
}

static enum err post_by(struct rig *r, const char *key_id, const char *key, const char *body,
                        uint64_t now_ms)
{
    const struct ingest_post p = {.body = str_from(body),
                                  .tenants = &rig_all,
                                  .now_ms = now_ms,
                                  .tenant = STR("*"),
                                  .key_id = str_from(key_id),
                                  .idempotency_key = str_from(key)};
    buf_clear(&r->out);
    return ingest_post(r->store, &p, &r->out, &r->result, &r->fault);
}

static enum err post_with_key(struct rig *r, const char *key, const char *body, uint64_t now_ms)
{
    return post_by(r, KEY_1, key, body, now_ms);
}

static void an_idempotency_key_holds_its_body_for_a_day(void **state)
{
    struct rig *r = *state;
    enum { DAY_MS = 24 * 3600 * 1000 };
    rig_key(r, KEY_1, "");
    assert_int_equal(post_with_key(r, "k", "[" EVENT("a", "") "]", 1000), ERR_OK);
    assert_string_equal(out_text(r), "{\"accepted\":1,\"duplicates\":0,\"ids\":[1]}");
    assert_int_equal(post_with_key(r, "k", "[" EVENT("a", "") "]", 999 + DAY_MS), ERR_OK);
    assert_string_equal(out_text(r),
                        "{\"accepted\":1,\"duplicates\":0,\"ids\":[1]}"); /* the same answer */
    assert_int_equal(post_with_key(r, "k", EVENT("b", ""), 999 + DAY_MS), ERR_IDEMPOTENCY_MISMATCH);
    assert_int_equal(post_with_key(r, "other", EVENT("b", ""), 2000), ERR_OK);
    assert_int_equal(post_with_key(r, "k", EVENT("c", ""), 1000 + DAY_MS), ERR_OK); /* forgotten */
    assert_int_equal(rows(r), 3);
}

static void an_idempotency_key_is_its_senders_own(void **state)
{
    struct rig *r = *state;
    rig_key(r, KEY_1, "");
    rig_key(r, KEY_2, "");
    assert_int_equal(post_by(r, KEY_1, "k", "[" EVENT("a", "") "]", 1000), ERR_OK);
    assert_int_equal(post_by(r, KEY_2, "k", "[" EVENT("b", "") "]", 1000), ERR_OK);
    assert_string_equal(out_text(r), "{\"accepted\":1,\"duplicates\":0,\"ids\":[2]}");
}

static void a_refused_body_leaves_its_idempotency_key_free(void **state)
{
    struct rig *r = *state;
    rig_key(r, KEY_1, "");
    assert_int_equal(post_with_key(r, "k", "{}", 1000), ERR_MISSING_MEMBER);
    assert_int_equal(post_with_key(r, "k", EVENT("a", ""), 1000), ERR_OK);
}

/* Not even what it was answered when it held. */
static void a_key_that_has_ended_posts_nothing(void **state)
{
    struct rig *r = *state;
    rig_key(r, KEY_1, "");
    rig_key(r, KEY_2, REVOKED);
    assert_int_equal(post_by(r, KEY_1, "k", EVENT("a", ""), 1000), ERR_OK);
    assert_int_equal(post_by(r, KEY_2, "k", EVENT("b", ""), 1000), ERR_CREDENTIAL_REVOKED);
    rig_sql(r, "DELETE FROM keys");
    assert_int_equal(post_by(r, KEY_1, "k", EVENT("a", ""), 1000), ERR_CREDENTIAL_REVOKED);
    assert_int_equal(r->out.size, 0);
    assert_int_equal(rows(r), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_event_answers_its_id),
        TEST(an_array_and_lines_answer_all_ids),
        TEST(other_bytes_under_the_same_id_are_a_conflict),
        TEST(each_tenant_numbers_its_events_by_itself),
        TEST(no_name_of_a_tenant_makes_two_events_one),
        TEST(an_id_of_our_own_form_is_one_events_whoever_has_it),
        TEST(the_rule_of_keys_is_the_same_in_c_and_in_sql),
        TEST(one_bad_event_refuses_all),
        TEST(a_name_has_no_escape_that_it_does_not_need),
        TEST(what_is_no_array_of_events_is_refused),
        TEST(a_key_writes_for_its_tenants_only),
        TEST(what_writ_itself_records_is_posted_to_restore_it_only),
        TEST(an_idempotency_key_holds_its_body_for_a_day),
        TEST(an_idempotency_key_is_its_senders_own),
        TEST(a_refused_body_leaves_its_idempotency_key_free),
        TEST(a_key_that_has_ended_posts_nothing),
    };
    return rig_run(tests);
}
