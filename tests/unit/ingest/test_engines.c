/* The list of engines: the state of each node, and how far its journals are stored. */
#include "rig.h"

#include "store/engines.h"
#include "store/follower_store.h"

#define NOW UINT64_C(1800000000000)
#define AGO(ms) (unsigned long long)(NOW - (ms))

static int set_up(void **state)
{
    rig_set_up(state);
    char sql[1024];
    rig_sql(*state, "INSERT INTO revisions (number, history_id) VALUES (6, 'a'), (7, 'a')");
    rig_sql(*state, "UPDATE store SET revision = 7, history_id = 'a'");
    snprintf(sql, sizeof sql,
             "INSERT INTO followers (node, revision, history_id, seen_at) VALUES"
             " ('b', 7, 'a', %llu), ('c', 6, 'a', %llu), ('d', 7, 'b', %llu), ('e', 7, 'a', %llu),"
             " ('f', 7, 'a', %llu)",
             AGO(0), AGO(ENGINE_SILENT_MS), AGO(0), AGO(ENGINE_SILENT_MS + 1),
             AGO(FOLLOWER_KEEP_MS + 1));
    rig_sql(*state, sql);
    snprintf(sql, sizeof sql,
             "INSERT INTO streams (node, journal, epoch, next_seq, updated_at) VALUES"
             " ('a', '0', '9c1e185a5c5e9fc5', 2, %llu), ('b', '0', '9c1e185a5c5e9fc5', 12, %llu),"
             " ('b', 'x\"', '9c1e185a5c5e9fc5', 13, %llu)",
             AGO(0), AGO(0), AGO(0));
    rig_sql(*state, sql);
    return 0;
}

static void assert_listed(struct rig *r, uint64_t limit, uint64_t cursor, const char *expected)
{
    struct buf out;
    buf_init(&out, 1 << 10, 1 << 20);
    assert_int_equal(engines_list(r->store, NOW, limit, cursor, &out, &r->fault), ERR_OK);
    buf_put_byte(&out, '\0');
    assert_string_equal(out.bytes, expected);
    buf_fini(&out);
}

#define AT "2027-01-15T08:00:00.000Z"
#define NODE(name, state, revision, seen_at, streams)                                              \
    "{\"node\":\"" name "\",\"state\":\"" state "\",\"revision\":" revision                        \
    ",\"seen_at\":" seen_at ",\"streams\":[" streams "]}"
#define STREAM(journal, next)                                                                      \
    "{\"journal\":\"" journal "\",\"epoch\":\"9c1e185a5c5e9fc5\",\"next_seq\":" next               \
    ",\"updated_at\":\"" AT "\"}"
#define NODE_A NODE("a", "gone", "0", "null", STREAM("0", "2"))
#define NODE_B NODE("b", "current", "7", "\"" AT "\"", STREAM("0", "12") "," STREAM("x\\\"", "13"))
#define NODE_C NODE("c", "behind", "6", "\"2027-01-15T07:55:00.000Z\"", "")
#define NODE_D NODE("d", "behind", "0", "\"" AT "\"", "") /* of another history */
#define NODE_E NODE("e", "silent", "7", "\"2027-01-15T07:54:59.999Z\"", "")
#define PAGE(engines, count, limit, next)                                                          \
    "{\"engines\":[" engines "],\"revision\":7,\"count\":" count ",\"limit\":" limit               \
    ",\"next_cursor\":" next "}"

static void each_node_has_its_state_and_its_positions(void **state)
{
    assert_listed(*state, 100, 0,
                  PAGE(NODE_A "," NODE_B "," NODE_C "," NODE_D "," NODE_E, "5", "100", "0"));
}

static void a_page_ends_between_two_nodes(void **state)
{
    assert_listed(*state, 1, 0, PAGE(NODE_A, "1", "1", "1"));
    assert_listed(*state, 1, 1, PAGE(NODE_B, "1", "1", "2"));
    assert_listed(*state, 2, 3, PAGE(NODE_D "," NODE_E, "2", "2", "0"));
    assert_listed(*state, 3, 5, PAGE("", "0", "3", "0"));
}

int main(void)
{
#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, rig_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(each_node_has_its_state_and_its_positions),
        TEST(a_page_ends_between_two_nodes),
    };
    return rig_run(tests);
}
