/* writ audit: what is asked of the platform, page by page, and how it is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/time.h"
#include "base/world.h"
#include "unit/cli/rig.h"

#define EVENT(id)                                                                                                       \
    "{\"timestamp\":\"2026-11-20T09:30:00.123Z\",\"kind\":\"decision\",\"actor\":\"b\\u001b[2Jot\",\"action\":\"pay\"," \
    "\"resource\":{\"type\":\"invoice\",\"id\":\"1\"},\"decision\":\"allow\",\"rule\":\"allow:r\",\"trace_id\":\"t" id  \
    "\"}"

static void a_query_is_a_table_that_obeys_no_escape_sequences(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL,
                     "{\"events\":[" EVENT("1") "],\"count\":1,\"next_cursor\":77}");
    assert_int_equal(RUN(r, "audit", "query", "--actor", "a&b", "--user-id", "u", "--decision",
                         "denied", "--from", "2026-11-20T00:00:00Z", "--limit", "1"),
                     DONE);
    assert_has(
        peer_request(r->peer, 0),
        "GET /api/v1/audit?actor=a%26b&decision=denied&user_id=u&from=2026-11-20T00%3A00%3A00Z&limit=1 HTTP/1.1");
    assert_has(r->out, "b\\u001b[2Jot  pay on invoice:1  allow     allow:r  t1\n");
    assert_null(strchr(r->out, '\033'));
    assert_has(r->err, "--cursor 77");
    assert_int_equal(RUN(r, "audit", "query", "--from", "then"), USAGE);
    assert_int_equal(RUN(r, "audit", "query", "--limit", "0"), USAGE);
    rig_destroy(r);
}

static void every_filter_goes_out(void **state)
{
    (void)state;
    static const char *const filters[][3] = {
        {"--actor", "a", "actor=a"},
        {"--user-id", "u", "user_id=u"},
        {"--action", "x", "action=x"},
        {"--decision", "deny", "decision=deny"},
        {"--kind", "decision", "kind=decision"},
        {"--rule", "deny:r", "rule=deny%3Ar"},
        {"--trace-id", "t", "trace_id=t"},
        {"--from", "2026-11-20", "from=2026-11-20T00%3A00%3A00Z"},
        {"--to", "2026-11-20T09:30:00+02:00", "to=2026-11-20T09%3A30%3A00%2B02%3A00"}};
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, "{\"events\":[]}");
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        assert_int_equal(RUN(r, "audit", "query", filters[i][0], filters[i][1]), DONE);
        assert_has(peer_request(r->peer, i), filters[i][2]);
    }
    rig_destroy(r);
}

static void a_span_stands_for_the_time_that_it_is_ago(void **state)
{
    (void)state;
    enum { HOURS_2_MS = 2 * 3600 * 1000 };
    struct rig *r = rig_create();
    char before[TIME_TEXT + 1] = {0}, after[TIME_TEXT + 1] = {0}, from[TIME_TEXT + 1] = {0};
    peer_will_answer(r->peer, 200, NULL, "{\"events\":[]}");
    time_write(world_now_ms() - HOURS_2_MS, before);
    assert_int_equal(RUN(r, "audit", "query", "--from", "2h"), DONE);
    time_write(world_now_ms() - HOURS_2_MS, after);
    const char *at = strstr(peer_request(r->peer, 0), "?from=");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "?from=%13[^%%]%%3A%2[^%%]%%3A%7[^&]", from, from + 14, from + 17),
                     3);
    from[13] = from[16] = ':';
    assert_true(strcmp(before, from) <= 0 && strcmp(from, after) <= 0);
    rig_destroy(r);
}

static void what_agents_write_does_not_make_an_answer_unreadable(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(
        r->peer, 200, NULL,
        "{\"events\":[{\"kind\":\"decision\",\"user_id\":\"sam@x\"},{\"kind\":\"decision\",\"actor\":\"nul\\u0000bot\",\"args\":{\"\\u0000\":\"\\u0000\"}}]}");
    assert_int_equal(RUN(r, "audit", "query"), DONE);
    assert_has(r->out, "nul\\u0000bot");
    assert_has(r->out, "sam@x");
    rig_destroy(r);
}

static void a_long_query_walks_the_pages(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, "{\"events\":[" EVENT("1") "],\"next_cursor\":9}");
    peer_will_answer(r->peer, 200, NULL, "{\"events\":[" EVENT("2") "],\"next_cursor\":0}");
    assert_int_equal(RUN(r, "audit", "query", "--limit", "1000", "--json"), DONE);
    assert_has(peer_request(r->peer, 0), "?limit=500 HTTP");
    assert_has(peer_request(r->peer, 1), "?limit=500&cursor=9 HTTP");
    assert_string_equal(r->out, EVENT("1") "\n" EVENT("2") "\n");
    rig_destroy(r);
}

static void a_query_that_goes_on_without_an_event_is_given_up(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, "{\"events\":[" EVENT("1") "],\"next_cursor\":9}");
    peer_will_answer(r->peer, 200, NULL, "{\"events\":[],\"next_cursor\":8}");
    peer_will_answer(r->peer, 200, NULL, "{\"events\":[],\"next_cursor\":0}");
    assert_int_equal(RUN(r, "audit", "query"), REFUSED);
    assert_has(r->err, "does not come to an end");
    rig_destroy(r);
}

static void a_query_that_goes_on_where_it_was_is_given_up(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, "{\"events\":[" EVENT("1") "],\"next_cursor\":9}");
    peer_will_answer(r->peer, 200, NULL, "{\"events\":[" EVENT("2") "],\"next_cursor\":9}");
    peer_will_answer(r->peer, 200, NULL, "{\"events\":[],\"next_cursor\":0}");
    assert_int_equal(RUN(r, "audit", "query", "--limit", "1000", "--json"), REFUSED);
    assert_has(r->err, "does not come to an end");
    rig_destroy(r);
}

static void a_trace_is_told_event_by_event(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL,
                     "{\"trace_id\":\"t1\",\"events\":[" EVENT("1") "],\"count\":1}");
    peer_will_answer(r->peer, 200, NULL, "{\"trace_id\":\"t1\",\"events\":[],\"count\":0}");
    assert_int_equal(RUN(r, "audit", "trace", "t/1"), DONE);
    assert_has(peer_request(r->peer, 0), "GET /api/v1/audit/trace/t%2F1 HTTP/1.1\r\n");
    assert_has(r->out, "2026-11-20T09:30:00.123Z  decision  pay on invoice:1  allow\n");
    assert_int_equal(RUN(r, "audit", "trace", "t1"), REFUSED);
    assert_int_equal(RUN(r, "audit", "trace", "t1", "--json"), REFUSED);
    rig_destroy(r);
}

static void a_trace_of_more_than_one_answer_goes_on_oldest_first(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL,
                     "{\"trace_id\":\"t1\",\"events\":[" EVENT("1") "],\"next_cursor\":9}");
    peer_will_answer(r->peer, 200, NULL, "{\"events\":[" EVENT("2") "],\"next_cursor\":0}");
    assert_int_equal(RUN(r, "audit", "trace", "t1"), DONE);
    assert_has(peer_request(r->peer, 1),
               "GET /api/v1/audit?trace_id=t1&order=asc&limit=500&cursor=9 HTTP");
    rig_destroy(r);
}

static void a_trace_that_goes_on_without_an_event_is_given_up(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL,
                     "{\"trace_id\":\"t1\",\"events\":[" EVENT("1") "],\"next_cursor\":9}");
    peer_will_answer(r->peer, 200, NULL, "{\"events\":[],\"next_cursor\":10}");
    peer_will_answer(r->peer, 200, NULL, "{\"events\":[],\"next_cursor\":0}");
    assert_int_equal(RUN(r, "audit", "trace", "t1"), REFUSED);
    assert_has(r->err, "does not come to an end");
    rig_destroy(r);
}

static void a_trace_id_may_be_spelled_as_a_uuid(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, "{\"events\":[]}");
    peer_will_answer(r->peer, 200, NULL, "{\"events\":[" EVENT("1") "]}");
    assert_int_equal(RUN(r, "audit", "trace", "0AF76519-16CD-43DD-8448-EB211C80319C"), DONE);
    assert_has(peer_request(r->peer, 1),
               "GET /api/v1/audit/trace/0af7651916cd43dd8448eb211c80319c HTTP");
    rig_destroy(r);
}

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define TRACEPARENT "00-" TRACE "-b7ad6b7169203331-01"

static void a_traceparent_is_asked_for_as_it_is_and_then_by_its_trace(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    peer_will_answer(r->peer, 200, NULL, "{\"events\":[" EVENT("1") "]}");
    peer_will_answer(r->peer, 200, NULL, "{\"events\":[]}");
    peer_will_answer(r->peer, 200, NULL, "{\"events\":[" EVENT("1") "]}");
    assert_int_equal(RUN(r, "audit", "trace", TRACEPARENT), DONE);
    assert_has(peer_request(r->peer, 0), "GET /api/v1/audit/trace/" TRACEPARENT " HTTP");
    assert_int_equal(RUN(r, "audit", "trace", TRACEPARENT "-more"), DONE);
    assert_has(peer_request(r->peer, 1), "GET /api/v1/audit/trace/" TRACEPARENT "-more HTTP");
    assert_has(peer_request(r->peer, 2), "GET /api/v1/audit/trace/" TRACE " HTTP");
    rig_destroy(r);
}

static void what_only_resembles_a_traceparent_is_a_trace_id(void **state)
{
    (void)state;
    static const char *const ids[] = {"00-" TRACE "-b7ad6b7169203331-0x",
                                      "0x-" TRACE "-b7ad6b7169203331-01", TRACEPARENT "0",
                                      "00-" TRACE "-b7ad6b7169203331-0"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        struct rig *r = rig_create();
        peer_will_answer(r->peer, 200, NULL, "{\"events\":[]}");
        assert_int_equal(RUN(r, "audit", "trace", ids[i]), REFUSED);
        assert_int_equal(peer_request_count(r->peer), 1);
        rig_destroy(r);
    }
}

#define REQUEST "req_01M822RQN39WCWWR6QXW21AGD7"

/* The time after `name` in the query of the peer's request, as it was written. */
static void read_bound(const struct rig *r, size_t request, const char *name, char to[64])
{
    const char *at = strstr(peer_request(r->peer, request), name);
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(name), "%63[^&]", to), 1);
}

static void an_id_of_ours_is_looked_for_in_its_moment_and_shortly_after(void **state)
{
    (void)state;
    struct rig *r = rig_create();
    char first_end[64], second_begin[64];
    peer_will_answer(r->peer, 200, NULL, "{\"events\":[" EVENT("1") "],\"next_cursor\":5}");
    peer_will_answer(r->peer, 200, NULL, "{\"events\":[],\"next_cursor\":0}");
    peer_will_answer(r->peer, 200, NULL,
                     "{\"events\":[{\"kind\":\"token.minted\",\"request_id\":\"" REQUEST "\"},"
                     "{\"kind\":\"decision\",\"request_id\":\"" REQUEST
                     "\",\"trace_id\":\"t7\"}]}");
    peer_will_answer(r->peer, 200, NULL, "{\"trace_id\":\"t7\",\"events\":[" EVENT("7") "]}");
    assert_int_equal(RUN(r, "audit", "trace", REQUEST), DONE);
    assert_has(peer_request(r->peer, 0),
               "from=2026-11-22T16%3A52%3A26.403Z&to=2026-11-22T16%3A52%3A26.404Z");
    assert_has(peer_request(r->peer, 1), "&cursor=5 HTTP");
    read_bound(r, 0, "&to=", first_end);
    read_bound(r, 2, "?from=", second_begin);
    assert_string_equal(first_end, second_begin);
    assert_has(peer_request(r->peer, 3), "GET /api/v1/audit/trace/t7 HTTP");
    rig_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_query_is_a_table_that_obeys_no_escape_sequences),
        cmocka_unit_test(every_filter_goes_out),
        cmocka_unit_test(a_span_stands_for_the_time_that_it_is_ago),
        cmocka_unit_test(what_agents_write_does_not_make_an_answer_unreadable),
        cmocka_unit_test(a_long_query_walks_the_pages),
        cmocka_unit_test(a_query_that_goes_on_without_an_event_is_given_up),
        cmocka_unit_test(a_query_that_goes_on_where_it_was_is_given_up),
        cmocka_unit_test(a_trace_is_told_event_by_event),
        cmocka_unit_test(a_trace_of_more_than_one_answer_goes_on_oldest_first),
        cmocka_unit_test(a_trace_that_goes_on_without_an_event_is_given_up),
        cmocka_unit_test(a_trace_id_may_be_spelled_as_a_uuid),
        cmocka_unit_test(a_traceparent_is_asked_for_as_it_is_and_then_by_its_trace),
        cmocka_unit_test(what_only_resembles_a_traceparent_is_a_trace_id),
        cmocka_unit_test(an_id_of_ours_is_looked_for_in_its_moment_and_shortly_after),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
