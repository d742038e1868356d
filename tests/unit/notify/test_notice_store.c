/* How many messages about reviews may wait, and for how long. */
#include "unit/ingest/rig.h"

#include "pipeline/notify/notice_store.h"

static const uint64_t now_ms = 1795166400000;

static struct notice notice_of(uint64_t record, uint64_t since)
{
    return (struct notice){.record_id = record,
                           .channel = STR("mail"),
                           .kind = STR("asked"),
                           .tenant = STR("default"),
                           .review = STR("rev_1"),
                           .since = since,
                           .next_at = since,
                           .owner = STR("")};
}

static bool put(struct rig *r, uint64_t record, uint64_t since)
{
    const struct notice n = notice_of(record, since);
    bool full = false;
    assert_int_equal(notice_store_put(r->store, &n, &full, &r->fault), ERR_OK);
    return !full;
}

static void so_many_messages_wait_on_a_channel(void **state)
{
    struct rig *r = *state;
    uint64_t record = 0;
    assert_int_equal(notice_store_begin(r->store, &r->fault), ERR_OK);
    while (record < LIMIT_NOTICES) assert_true(put(r, ++record, now_ms));
    assert_false(put(r, ++record, now_ms));
    assert_int_equal(notice_store_end(r->store, ERR_OK, &r->fault), ERR_OK);
    assert_int_equal(rig_number(r, "SELECT count(*) FROM notices"), LIMIT_NOTICES);
}

static void a_message_is_tried_for_so_long(void **state)
{
    struct rig *r = *state;
    const uint64_t hours = LIMIT_NOTICE_HOURS * UINT64_C(3600000);
    uint64_t given_up = 0;
    assert_int_equal(notice_store_begin(r->store, &r->fault), ERR_OK);
    assert_true(put(r, 1, now_ms - hours - 1));
    assert_true(put(r, 2, now_ms - hours));
    assert_int_equal(notice_store_give_up(r->store, STR("other"), now_ms, &given_up, &r->fault),
                     ERR_OK);
    assert_int_equal(notice_store_end(r->store, ERR_OK, &r->fault), ERR_OK);
    assert_int_equal(given_up, 1);
    assert_int_equal(rig_number(r, "SELECT record_id FROM notices"), 2);
}

static void so_many_reviews_are_followed_up(void **state)
{
    struct rig *r = *state;
    char sql[256];
    bool full;
    snprintf(sql, sizeof sql,
             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
             " INSERT INTO announced (tenant_id, review_id, channels, created_at)"
             " SELECT 'default', 'rev_' || i, 'mail', 0 FROM n",
             LIMIT_ANNOUNCED - 1);
    rig_sql(r, sql);
    assert_int_equal(notice_store_begin(r->store, &r->fault), ERR_OK);
    for (int i = 0; i < 2; i++) {
        char review[] = {'l', 'a', 's', 't', (char)('0' + i), '\0'};
        assert_int_equal(notice_store_announce(r->store, STR("default"), str_from(review),
                                               STR("mail"), now_ms, &full, &r->fault),
                         ERR_OK);
        assert_int_equal(full, i == 1);
    }
    assert_int_equal(notice_store_end(r->store, ERR_OK, &r->fault), ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(so_many_messages_wait_on_a_channel),
        TEST(a_message_is_tried_for_so_long),
        TEST(so_many_reviews_are_followed_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
