/* Rates of keys and tenants: what is read from a row, and what a meter lets through. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "access/rates.h"
#include "base/limits.h"

#define SECOND UINT64_C(1000000000)
#define DAY (86400 * SECOND)

static const uint64_t begin = 100 * DAY;
static struct arena arena;
static struct meters *meters;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 1 << 12, 1 << 16);
    meters = meters_create();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    meters_destroy(meters);
    arena_fini(&arena);
    return 0;
}

static enum err read_text(const char *text, struct rates *ret, struct fault *f)
{
    struct json *row;
    assert_int_equal(json_read(str_from(text), NULL, &arena, &row, f), ERR_OK);
    return rates_read(row, ret, f);
}

static struct meter *of(const char *name)
{
    return meters_find(meters, METER_KEY, str_from(name), begin);
}

/* How many of them are let through at this time. */
static unsigned taken(struct meter *m, enum rate_kind kind, uint64_t most, uint64_t now_ns)
{
    uint32_t retry_s;
    unsigned count = 0;
    while (count < 100000 && meter_take(m, kind, most, now_ns, &retry_s)) count++;
    return count;
}

static void rates_that_were_written_read_back_the_same(void **state)
{
    (void)state;
    char bytes[256];
    struct buf b = buf_over(bytes, sizeof bytes);
    struct rates r;
    struct fault f;
    static const char text[] = "{\"rates\":{\"audit_queries\":5,\"connections\":4,\"cpu_ms\":3,"
                               "\"journal_bytes\":1000000000000,\"requests\":1}}";
    assert_int_equal(read_text(text, &r, &f), ERR_OK);
    assert_int_equal(r.most[RATE_REQUESTS], 1);
    assert_int_equal(r.most[RATE_JOURNAL], LIMIT_RATE);
    buf_put_byte(&b, '{');
    rates_put(&b, &r);
    bytes[b.size - 1] = '}';
    bytes[b.size] = '\0';
    assert_string_equal(bytes, text);
    assert_int_equal(read_text("{\"rates\":null}", &r, &f), ERR_OK);
    assert_false(rates_any(&r));
    b = buf_over(bytes, sizeof bytes);
    rates_put(&b, &r);
    assert_int_equal(b.size, 0);
}

static void a_wrong_rate_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *field;
        enum err err;
    } cases[] = {
        {"{\"rates\":5}", "/rates", ERR_WRONG_TYPE},
        {"{\"rates\":{\"requests\":0}}", "/rates/requests", ERR_OUT_OF_RANGE},
        {"{\"rates\":{\"requests\":-1}}", "/rates/requests", ERR_OUT_OF_RANGE},
        {"{\"rates\":{\"requests\":1.5}}", "/rates/requests", ERR_OUT_OF_RANGE},
        {"{\"rates\":{\"cpu_ms\":1000000000001}}", "/rates/cpu_ms", ERR_OUT_OF_RANGE},
        {"{\"rates\":{\"connections\":\"1\"}}", "/rates/connections", ERR_WRONG_TYPE},
        {"{\"rates\":{\"request\":1}}", "/rates", ERR_UNKNOWN_MEMBER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rates r;
        struct fault f;
        assert_int_equal(read_text(cases[i].text, &r, &f), cases[i].err);
        assert_string_equal(f.field, cases[i].field);
    }
}

static void a_meter_lets_through_its_rate_and_refills_evenly(void **state)
{
    (void)state;
    static const struct {
        enum rate_kind kind;
        uint64_t window_ns;
    } cases[] = {{RATE_REQUESTS, SECOND}, {RATE_AUDIT_QUERIES, 60 * SECOND}};
    for (size_t i = 0; i < 2; i++) {
        struct meter *m = of(i == 0 ? "a" : "b");
        const enum rate_kind kind = cases[i].kind;
        assert_int_equal(taken(m, kind, 10, begin), 10);
        assert_int_equal(taken(m, kind, 10, begin + cases[i].window_ns / 10 - 1), 0);
        assert_int_equal(taken(m, kind, 10, begin + cases[i].window_ns / 10), 1);
        assert_int_equal(taken(m, kind, 10, begin + cases[i].window_ns * 6 / 10), 5);
        assert_int_equal(taken(m, kind, 10, begin + cases[i].window_ns * 100), 10);
    }
}

static void a_refusal_names_the_seconds_after_which_one_is_let_through(void **state)
{
    (void)state;
    uint32_t retry_s = 0;
    struct meter *m = of("a");
    assert_int_equal(taken(m, RATE_AUDIT_QUERIES, 2, begin), 2);
    assert_false(meter_take(m, RATE_AUDIT_QUERIES, 2, begin, &retry_s));
    assert_int_equal(retry_s, 30);
    assert_false(meter_has(m, RATE_AUDIT_QUERIES, 2, begin + 30 * SECOND - 1, &retry_s));
    assert_int_equal(retry_s, 1);
    assert_true(meter_has(m, RATE_AUDIT_QUERIES, 2, begin + 30 * SECOND, &retry_s));
}

static void what_was_used_beyond_the_rate_is_paid_for_before_the_next(void **state)
{
    (void)state;
    uint32_t retry_s = 0;
    struct meter *m = of("a");
    assert_true(meter_has(m, RATE_JOURNAL, 86400, begin, &retry_s));
    meter_spend(m, RATE_JOURNAL, 86400, 86400 + 100, begin); /* a byte a second */
    assert_false(meter_has(m, RATE_JOURNAL, 86400, begin, &retry_s));
    assert_int_equal(retry_s, 101);
    assert_true(meter_has(m, RATE_JOURNAL, 86400, begin + 101 * SECOND, &retry_s));
    meter_spend(m, RATE_CPU, 200, 150 * 1000000, begin);
    assert_true(meter_has(m, RATE_CPU, 200, begin, &retry_s));
    meter_spend(m, RATE_CPU, 200, 50 * 1000000, begin);
    assert_false(meter_has(m, RATE_CPU, 200, begin, &retry_s));
}

static void names_and_kinds_have_meters_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(taken(of("a"), RATE_REQUESTS, 3, begin), 3);
    assert_int_equal(taken(of("a"), RATE_REQUESTS, 3, begin), 0);
    assert_int_equal(taken(of("a"), RATE_AUDIT_QUERIES, 3, begin), 3);
    assert_int_equal(taken(of("b"), RATE_REQUESTS, 3, begin), 3);
    struct meter *tenant = meters_find(meters, METER_TENANT, STR("a"), begin);
    assert_int_equal(taken(tenant, RATE_REQUESTS, 3, begin), 3);
}

static void a_meter_in_use_is_not_given_away(void **state)
{
    (void)state;
    enum { MANY = 2 * LIMIT_METERS };
    struct meter *busy = of("busy"), *connected = of("connected");
    char name[16];
    assert_int_equal(taken(busy, RATE_REQUESTS, 1, begin), 1);
    assert_true(meter_connect(connected, 0));
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "n%d", i);
        assert_ptr_not_equal(of(name), busy);
        assert_ptr_not_equal(of(name), connected);
    }
    assert_ptr_equal(of("busy"), busy);
    assert_ptr_equal(of("connected"), connected);
    meter_disconnect(connected);
    assert_int_equal(taken(of("busy"), RATE_REQUESTS, 1, begin), 0);
}

static void names_beyond_all_places_share_one_meter(void **state)
{
    (void)state;
    enum { MANY = 2 * LIMIT_METERS };
    char name[16];
    unsigned through = 0;
    for (int i = 0; i < MANY; i++) {
        uint32_t retry_s;
        snprintf(name, sizeof name, "n%d", i);
        through += meter_take(of(name), RATE_REQUESTS, 1, begin, &retry_s) ? 1 : 0;
    }
    assert_true(through <= LIMIT_METERS + 1); /* the shared one */
    assert_true(through > LIMIT_METERS / 10 * 9);
}

static void connections_are_counted(void **state)
{
    (void)state;
    struct meter *m = of("a");
    assert_true(meter_connect(m, 2));
    assert_true(meter_connect(m, 2));
    assert_false(meter_connect(m, 2));
    meter_disconnect(m);
    assert_true(meter_connect(m, 2));
    meter_disconnect(m);
    meter_disconnect(m);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rates_that_were_written_read_back_the_same),
        TEST(a_wrong_rate_is_named),
        TEST(a_meter_lets_through_its_rate_and_refills_evenly),
        TEST(a_refusal_names_the_seconds_after_which_one_is_let_through),
        TEST(what_was_used_beyond_the_rate_is_paid_for_before_the_next),
        TEST(names_and_kinds_have_meters_of_their_own),
        TEST(a_meter_in_use_is_not_given_away),
        TEST(names_beyond_all_places_share_one_meter),
        TEST(connections_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
