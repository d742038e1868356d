/* The table of the kill switch: whatever arrives in which order, the newest word of a person counts. */
#include "rig.h"

#include "store/retention.h"
#include "store/suspension.h"

#define SUSPEND "suspended"
#define RESUME "resumed"

struct word {
    const char *kind;
    unsigned id, minute; /* of its event: the greater id is the later one of the same minute */
    const char *previous;
};

static void put_word(struct buf *b, const struct word *w)
{
    buf_printf(b,
               "{\"actor\":\"bot\",\"engine_version\":\"1\",\"event_id\":\"evt_%026u\",\"kind\":"
               "\"actor.%s\",\"mode\":\"live\",%s\"reason\":\"of %u\",\"resolved_by\":\"p%u\","
               "\"tenant_id\":\"default\",\"timestamp\":\"2026-11-20T09:%02u:00.000Z\"}\n",
               w->id, w->kind, w->previous, w->id, w->id, w->minute);
}

/* Each word is of a node of its own: nothing but its time puts it in order. */
static void send_word(struct rig *r, const struct word *w)
{
    char node[32];
    snprintf(node, sizeof node, "node-%u", w->id);
    buf_clear(&r->body);
    put_started(&r->body, 900000 + w->id, NOTHING_BEFORE);
    buf_put_byte(&r->body, '\n');
    put_word(&r->body, w);
    if (send_from(r, node, EPOCH_1, 1) != ERR_OK) fail_msg("%s", r->fault.text);
}

static const char *listed(struct rig *r, const struct globs *tenants, struct str tenant, bool open,
                          uint64_t limit, uint64_t cursor)
{
    const struct suspension_page page = {
        .tenants = tenants, .tenant = tenant, .open = open, .limit = limit, .cursor = cursor};
    buf_clear(&r->out);
    if (suspension_list(r->store, &page, &r->out, &r->fault) != ERR_OK)
        fail_msg("%s", r->fault.text);
    return out_text(r);
}

static void assert_open(struct rig *r, unsigned id, unsigned minute)
{
    char expected[512];
    snprintf(expected, sizeof expected,
             "{\"suspensions\":[{\"actor\":\"bot\",\"event_id\":\"evt_%026u\",\"reason\":\"of %u\","
             "\"suspended\":true,\"suspended_at\":\"2026-11-20T09:%02u:00.000Z\",\"suspended_by\":"
             "\"p%u\",\"tenant_id\":\"default\"}],\"count\":1,\"limit\":9,\"next_cursor\":0}",
             id, id, minute, id);
    assert_string_equal(listed(r, NULL, (struct str){0}, true, 9, 0), expected);
}

static void assert_none_is_open(struct rig *r)
{
    assert_string_equal(listed(r, NULL, (struct str){0}, true, 9, 0),
                        "{\"suspensions\":[],\"count\":0,\"limit\":9,\"next_cursor\":0}");
}

static void the_newest_word_counts_in_any_order_of_arrival(void **state)
{
    struct rig *r = *state;
    static const struct word first = {SUSPEND, 1, 10, ""}, second = {RESUME, 2, 20, ""},
                             third = {SUSPEND, 3, 30, ""};
    send_word(r, &second);
    assert_none_is_open(r);
    send_word(r, &first); /* older */
    assert_none_is_open(r);
    send_word(r, &third);
    assert_open(r, 3, 30);
    send_word(r, &second); /* again */
    send_word(r, &first);
    assert_int_equal(r->result.duplicates, 2);
    assert_open(r, 3, 30);
    send_word(r, &(struct word){RESUME, 4, 29, ""});
    assert_open(r, 3, 30);
    send_word(r, &(struct word){RESUME, 5, 31, ""});
    assert_none_is_open(r);
    assert_non_null(strstr(listed(r, NULL, (struct str){0}, false, 9, 0),
                           "\"resumed_at\":\"2026-11-20T09:31:00.000Z\",\"resumed_by\":\"p5\","
                           "\"suspended\":false,\"suspended_at\":\"2026-11-20T09:30:00.000Z\""));
}

static void of_two_words_at_the_same_time_the_suspension_counts(void **state)
{
    struct rig *r = *state;
    send_word(r, &(struct word){RESUME, 5, 10, ""});
    send_word(r, &(struct word){SUSPEND, 3, 10, ""});
    assert_open(r, 3, 10);
    send_word(r, &(struct word){RESUME, 6, 10, ""});
    send_word(r, &(struct word){SUSPEND, 2, 10, ""});
    assert_open(r, 3, 10);
    send_word(r, &(struct word){SUSPEND, 4, 10, ""}); /* the greater event_id */
    assert_open(r, 4, 10);
}

#define TAKEN_1                                                                                    \
    "\"previous\":{\"event_id\":\"evt_00000000000000000000000001\",\"timestamp\":"                 \
    "\"2026-11-20T09:10:00.000Z\"},"

static void what_an_engine_takes_over_is_no_newer_word(void **state)
{
    struct rig *r = *state;
    send_word(r, &(struct word){SUSPEND, 1, 10, ""});
    send_word(r, &(struct word){SUSPEND, 7, 50, TAKEN_1});
    assert_open(r, 1, 10);
    send_word(r, &(struct word){RESUME, 2, 20, ""});
    assert_none_is_open(r);
    send_word(r, &(struct word){SUSPEND, 8, 55, TAKEN_1});
    assert_none_is_open(r);
}

static void what_an_engine_takes_over_is_a_word_where_the_first_one_is_lost(void **state)
{
    struct rig *r = *state;
    send_word(r, &(struct word){SUSPEND, 7, 50, TAKEN_1});
    assert_non_null(strstr(listed(r, NULL, (struct str){0}, true, 9, 0),
                           "\"event_id\":\"evt_00000000000000000000000001\",\"reason\":\"of 7\","
                           "\"suspended\":true,\"suspended_at\":\"2026-11-20T09:10:00.000Z\""));
}

/* Both in one batch: PostgreSQL detects the second only when the batch is settled. */
static void a_record_that_goes_to_quarantine_is_no_word(void **state)
{
    struct rig *r = *state;
    buf_clear(&r->body);
    put_started(&r->body, 900000, NOTHING_BEFORE);
    buf_put_byte(&r->body, '\n');
    put_word(&r->body, &(struct word){SUSPEND, 1, 10, ""});
    put_word(&r->body, &(struct word){RESUME, 1, 20, ""}); /* the same event_id */
    put_event(&r->body, 5, "default");
    buf_put_byte(&r->body, '\n');
    assert_int_equal(send(r, EPOCH_1, 1), ERR_OK);
    assert_result(r, 3, 0, 1, 5);
    assert_open(r, 1, 10);
}

static void what_people_post_is_no_word_until_its_engine_sends_it(void **state)
{
    struct rig *r = *state;
    static const struct word word = {SUSPEND, 1, 10, ""};
    buf_clear(&r->body);
    put_word(&r->body, &word);
    buf_put_byte(&r->body, '\0');
    assert_int_equal(post(r, r->body.bytes, true), ERR_OK);
    assert_none_is_open(r);
    send_word(r, &word); /* a restored record gets its source */
    assert_result(r, 1, 1, 0, 3);
    assert_open(r, 1, 10);
}

static void a_page_has_the_tenants_that_are_asked_for_and_leads_to_the_next(void **state)
{
    struct rig *r = *state;
    static struct str some[] = {STR("t-1*")};
    static const struct globs ones = {some, 1};
    char sql[256];
    for (unsigned i = 0; i < 1200; i += 400) {
        snprintf(sql, sizeof sql,
                 "INSERT INTO suspensions (number, tenant_id, actor, suspended_at, event_id) VALUES"
                 " (%u, 't-%u', 'bot-%u', 1, 'e')",
                 i + 1, i / 600, i);
        rig_sql(r, sql);
    }
    const char *page = listed(r, NULL, (struct str){0}, true, 2, 0);
    assert_non_null(strstr(page, "bot-0"));
    assert_non_null(strstr(page, "\"count\":2,\"limit\":2,\"next_cursor\":401}"));
    page = listed(r, NULL, (struct str){0}, true, 2, 401);
    assert_non_null(strstr(page, "bot-800"));
    assert_non_null(strstr(page, "\"count\":1,\"limit\":2,\"next_cursor\":0}"));
    page = listed(r, &ones, (struct str){0}, true, 2, 0);
    assert_null(strstr(page, "t-0"));
    assert_non_null(strstr(page, "\"count\":1"));
    assert_non_null(strstr(listed(r, &ones, STR("t-0"), true, 2, 0), "\"count\":0"));
    assert_non_null(strstr(listed(r, NULL, STR("t-0"), true, 2, 0), "\"count\":2"));
}

static void retention_leaves_it_alone(void **state)
{
    struct rig *r = *state;
    uint64_t dropped = 0, day = UINT64_C(86400000), now_ms = world_now_ms();
    send_word(r, &(struct word){SUSPEND, 1, 10, ""});
    rig_sql(r, "UPDATE records SET created_at = 1000");
    fill_batch(r, NOTHING_BEFORE, 2, 1); /* now: a store whose last row is old drops nothing */
    if (rig_is_postgres) rig_sql(r, "UPDATE marks SET next_id = ((next_id >> 26) + 1) << 26");
    assert_int_equal(retention_roll(r->store, 7 * day, now_ms, &r->fault), ERR_OK);
    assert_int_equal(send_from(r, "node-now", EPOCH_1, 1), ERR_OK);
    if (retention_drop(r->store, 7 * day, now_ms, &dropped, &r->fault) != ERR_OK)
        fail_msg("%s", r->fault.text);
    assert_int_equal(dropped, 2);
    assert_open(r, 1, 10);
}

/* What an upgrade finds is what ingest would have made of the same trail. */
static void the_upgrade_reads_the_newest_words_of_the_trail(void **state)
{
    struct rig *r = *state;
    send_word(r, &(struct word){SUSPEND, 3, 30, ""});
    send_word(r, &(struct word){RESUME, 2, 20, ""});
    buf_clear(&r->body);
    put_word(&r->body, &(struct word){RESUME, 9, 59, ""});
    buf_put_byte(&r->body, '\0');
    assert_int_equal(post(r, r->body.bytes, true), ERR_OK); /* no engine's */
    store_close(r->store);
    if (rig_is_postgres) rig_sql(r, "DROP INDEX records_source");
    rig_sql(r, "DROP TABLE suspensions");
    rig_sql(r, "DROP TABLE anchors");
    rig_sql(r, "DROP TABLE checkpoints");
    rig_sql(r, "DROP TABLE engine_keys");
    rig_sql(r, "DROP TABLE removals");
    rig_sql(r, "ALTER TABLE records DROP COLUMN restored");
    rig_sql(r, "ALTER TABLE streams DROP COLUMN authenticated");
    rig_sql(r, rig_is_postgres ? "DELETE FROM schema_version WHERE version >= 17"
                               : "PRAGMA user_version = 16");
    rig_open(r);
    assert_open(r, 3, 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_newest_word_counts_in_any_order_of_arrival),
        TEST(of_two_words_at_the_same_time_the_suspension_counts),
        TEST(what_an_engine_takes_over_is_no_newer_word),
        TEST(what_an_engine_takes_over_is_a_word_where_the_first_one_is_lost),
        TEST(a_record_that_goes_to_quarantine_is_no_word),
        TEST(what_people_post_is_no_word_until_its_engine_sends_it),
        TEST(a_page_has_the_tenants_that_are_asked_for_and_leads_to_the_next),
        TEST(retention_leaves_it_alone),
        TEST(the_upgrade_reads_the_newest_words_of_the_trail),
    };
    return rig_run(tests);
}
