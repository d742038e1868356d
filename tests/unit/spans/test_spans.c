/* test_spans.c - the sender against a collector that takes, refuses, is busy, or is not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>

#include "base/world.h"
#include "pipeline/spans/spans.h"
#include "unit/publish/peer.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "-00f067aa0ba902b7-"

struct scene {
    struct peer *peer;
    struct spans *spans;
    struct span_lane *lane;
    uint64_t sent, full, refused, failures; /* the counters before */
};

static void start(struct scene *s, const char *url, double sample)
{
    const struct spans_options options = {
        .url = url, .node = "n1", .version = "0", .sample = sample, .lanes = 2};
    struct fault f;
    assert_int_equal(spans_start(&options, &s->spans, &f), ERR_OK);
    s->lane = spans_lane(s->spans, 1, metrics_sheet_create());
    s->sent = metrics_total(METRIC_SPANS_SENT);
    s->full = metrics_total(METRIC_SPANS_DROPPED_FULL);
    s->refused = metrics_total(METRIC_SPANS_DROPPED_REFUSED);
    s->failures = metrics_total(METRIC_SPANS_FAILURES);
}

static int set_up(void **state)
{
    struct scene *s = calloc(1, sizeof *s);
    s->peer = peer_create();
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;
    spans_stop(s->spans, 0);
    peer_destroy(s->peer);
    free(s);
    return 0;
}

static bool put(struct scene *s, const char *rule)
{
    struct span *span = lane_open(s->lane);
    if (span == NULL) return false;
    span->begin_ns = world_monotonic_ns();
    span_set(span, rule, str_from(rule));
    lane_keep(s->lane);
    if (lane_release(s->lane, 0, 0, world_monotonic_ns())) spans_wake(s->spans);
    return true;
}

static void wait_total(enum metric m, uint64_t expected)
{
    uint64_t until_ns = world_monotonic_ns() + UINT64_C(120000000000);
    while (metrics_total(m) < expected) {
        if (world_monotonic_ns() > until_ns)
            fail_msg("still %llu of %llu", (unsigned long long)metrics_total(m),
                     (unsigned long long)expected);
        sched_yield();
    }
    assert_int_equal(metrics_total(m), expected);
}

static void spans_are_posted_as_json_and_counted(void **state)
{
    struct scene *s = *state;
    peer_will_answer(s->peer, 200, NULL, "{}");
    start(s, s->peer->address, 1);
    put(s, "rule:first");
    put(s, "rule:second");
    spans_wake(s->spans);
    wait_total(METRIC_SPANS_SENT, s->sent + 2);
    const char *request = peer_request(s->peer, 0);
    assert_non_null(strstr(request, "POST /v1/traces HTTP/1.1\r\n"));
    assert_non_null(strcasestr(request, "\r\ncontent-type: application/json\r\n"));
    assert_non_null(strstr(request, "rule:first"));
    assert_int_equal(metrics_total(METRIC_SPANS_FAILURES), s->failures);
}

static void a_busy_collector_gets_the_same_bytes_again(void **state)
{
    struct scene *s = *state;
    peer_will_answer(s->peer, 503, NULL, "busy");
    peer_will_answer(s->peer, 429, "Retry-After: 0\r\n", "");
    peer_will_answer(s->peer, 200, NULL, "");
    start(s, s->peer->address, 1);
    put(s, "rule:again");
    spans_wake(s->spans);
    wait_total(METRIC_SPANS_SENT, s->sent + 1);
    assert_int_equal(peer_request_count(s->peer), 3);
    assert_string_equal(peer_request(s->peer, 0), peer_request(s->peer, 2));
    assert_int_equal(metrics_total(METRIC_SPANS_FAILURES), s->failures + 2);
}

static void refused_spans_are_lost_and_counted_and_the_next_go_on(void **state)
{
    struct scene *s = *state;
    peer_will_answer(s->peer, 400, NULL, "{\"message\":\"no\"}");
    peer_will_answer(s->peer, 200, NULL,
                     "{\"partialSuccess\":{\"rejectedSpans\":\"1\",\"errorMessage\":\"too old\"}}");
    peer_will_answer(s->peer, 200, NULL, "{\"partialSuccess\":{}}");
    start(s, s->peer->address, 1);
    put(s, "rule:bad");
    spans_wake(s->spans);
    wait_total(METRIC_SPANS_DROPPED_REFUSED, s->refused + 1);
    put(s, "rule:half");
    spans_wake(s->spans);
    wait_total(METRIC_SPANS_DROPPED_REFUSED, s->refused + 2);
    put(s, "rule:good");
    spans_wake(s->spans);
    wait_total(METRIC_SPANS_SENT, s->sent + 1);
    assert_int_equal(peer_request_count(s->peer), 3);
}

static void without_a_collector_the_reactor_goes_on_and_losses_are_counted(void **state)
{
    struct scene *s = *state;
    start(s, "unix:/nonexistent/collector", 1);
    unsigned kept = 0, lost = 0;
    for (unsigned i = 0; i < 3 * LANE_PLACES; i++) {
        if (put(s, "rule:nobody"))
            kept++;
        else
            lost++;
    }
    /* the ring, and one request in hand */
    assert_in_range(kept, LANE_PLACES, LANE_PLACES + SPANS_BATCH);
    assert_int_equal(metrics_total(METRIC_SPANS_DROPPED_FULL) - s->full, lost);
    assert_int_equal(metrics_total(METRIC_SPANS_SENT), s->sent);
    uint64_t before_ns = world_monotonic_ns();
    spans_stop(s->spans, 60000);
    s->spans = NULL;
    /* tried once more, then given up */
    assert_true(world_monotonic_ns() - before_ns < UINT64_C(50000000000));
}

static void what_is_left_is_sent_when_it_stops(void **state)
{
    struct scene *s = *state;
    peer_will_answer(s->peer, 200, NULL, "{}");
    start(s, s->peer->address, 1);
    uint64_t begun_ns = world_monotonic_ns();
    for (unsigned i = 0; i < SPANS_BATCH + 3; i++) assert_true(put(s, "rule:last"));
    uint64_t seconds = (world_monotonic_ns() - begun_ns) / 1000000000; /* each may send a few */
    spans_stop(s->spans, 120000);
    s->spans = NULL;
    assert_int_equal(metrics_total(METRIC_SPANS_SENT), s->sent + SPANS_BATCH + 3);
    assert_in_range(peer_request_count(s->peer), 2, 4 + seconds);
}

static void a_callers_flag_decides_for_its_trace(void **state)
{
    struct scene *s = *state;
    start(s, s->peer->address, 0);
    struct span_place span;
    assert_true(spans_wanted(s->spans, STR("00-" TRACE PARENT "01"), STR("mine"), &span));
    assert_int_equal(span.trace[0], 0x4b);
    assert_int_equal(span.parent[7], 0xb7);
    assert_true(span.has_parent);
    spans_stop(s->spans, 0);
    start(s, s->peer->address, 1);
    assert_false(spans_wanted(s->spans, STR("00-" TRACE PARENT "00"), STR(TRACE), &span));
}

static void without_a_caller_a_part_of_the_traces_is_taken(void **state)
{
    struct scene *s = *state;
    start(s, s->peer->address, 0.25);
    struct chance chance = {.left = 0};
    unsigned taken = 0;
    enum { TRIES = 40000 };
    for (unsigned i = 0; i < TRIES; i++) {
        char text[32];
        uint8_t bytes[16];
        chance_take(&chance, bytes, sizeof bytes);
        hex_write(text, bytes, sizeof bytes);
        struct span_place span = {.has_parent = false}, again;
        bool wanted = spans_wanted(s->spans, (struct str){0}, str_of(text, sizeof text), &span);
        /* by the id alone */
        assert_int_equal(
            wanted, spans_wanted(s->spans, STR("not-valid"), str_of(text, sizeof text), &again));
        if (wanted) assert_memory_equal(span.trace, bytes, sizeof bytes);
        assert_false(span.has_parent);
        taken += wanted;
    }
    assert_in_range(taken, TRIES / 4 - 600, TRIES / 4 + 600); /* seven standard deviations */
}

static void all_none_and_what_has_no_w3c_id(void **state)
{
    struct scene *s = *state;
    struct span_place span;
    start(s, s->peer->address, 1);
    assert_true(
        spans_wanted(s->spans, (struct str){0}, STR("ffffffffffffffffffffffffffffffff"), &span));
    assert_false(spans_wanted(s->spans, (struct str){0}, STR("order-4711"), &span));
    assert_false(spans_wanted(s->spans, (struct str){0}, (struct str){0}, &span));
    spans_stop(s->spans, 0);
    start(s, s->peer->address, 0);
    assert_false(
        spans_wanted(s->spans, (struct str){0}, STR("00000000000000010000000000000000"), &span));
}

static void a_bad_address_is_refused_at_the_start(void **state)
{
    struct scene *s = *state;
    const struct spans_options options = {
        .url = "ftp://x", .node = "n", .version = "0", .lanes = 1};
    struct fault f;
    assert_int_equal(spans_start(&options, &s->spans, &f), ERR_BAD_VALUE);
    assert_null(s->spans);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(spans_are_posted_as_json_and_counted),
        CASE(a_busy_collector_gets_the_same_bytes_again),
        CASE(refused_spans_are_lost_and_counted_and_the_next_go_on),
        CASE(without_a_collector_the_reactor_goes_on_and_losses_are_counted),
        CASE(what_is_left_is_sent_when_it_stops),
        CASE(a_callers_flag_decides_for_its_trace),
        CASE(without_a_caller_a_part_of_the_traces_is_taken),
        CASE(all_none_and_what_has_no_w3c_id),
        CASE(a_bad_address_is_refused_at_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
