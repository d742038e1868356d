/* How much requests without a known credential get, to the bounds of docs/reference/limits.md. The
 * server, the loop and the clock are the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include "api/strangers.h"
#include "metrics/metrics.h"

enum { ROUTES = 2, REQUEST_US = 200 };

static const struct http_route routes[ROUTES] = {
    [STRANGER_PUBLIC] = {.pattern = "/public", .roles = 0},
    [STRANGER_UNKNOWN] = {.pattern = "/unknown", .roles = 1},
};

struct scene {
    struct strangers s;
    struct api api;
    struct http_server *server;
    uint64_t now_ns;
    void (*due)(struct loop_timer *t);
    uint32_t handled, parked, unparked, refused;
    bool are_false; /* what the handled requests show */
};
static struct scene scene;

/* ---- the world ---- */

uint64_t __wrap_world_monotonic_ns(void);
uint64_t __wrap_world_monotonic_ns(void) { return scene.now_ns; }
uint64_t __wrap_loop_now_ms(const struct loop *l);
uint64_t __wrap_loop_now_ms(const struct loop *l)
{
    (void)l;
    return scene.now_ns / 1000000;
}
void __wrap_loop_timer_start(struct loop *l, struct loop_timer *t, uint64_t after_ms,
                             void (*due)(struct loop_timer *t));
void __wrap_loop_timer_start(struct loop *l, struct loop_timer *t, uint64_t after_ms,
                             void (*due)(struct loop_timer *t))
{
    (void)l, (void)t, (void)after_ms;
    scene.due = due;
}
void __wrap_loop_timer_stop(struct loop *l, struct loop_timer *t);
void __wrap_loop_timer_stop(struct loop *l, struct loop_timer *t) { (void)l, (void)t; }
struct http_token __wrap_http_park(struct http_exchange *x);
struct http_token __wrap_http_park(struct http_exchange *x)
{
    (void)x;
    return (struct http_token){.place = scene.parked++};
}
void __wrap_http_unpark(struct http_server *s, struct http_token token);
void __wrap_http_unpark(struct http_server *s, struct http_token token)
{
    (void)s, (void)token;
    scene.unparked++;
}
bool __wrap_http_may_park(const struct http_exchange *x);
bool __wrap_http_may_park(const struct http_exchange *x) { return x->route != NULL; }
bool __wrap_http_is_forwarded(const struct http_exchange *x);
bool __wrap_http_is_forwarded(const struct http_exchange *x) { return x->route == NULL; }
void __wrap_http_end(const struct http_exchange *x);
void __wrap_http_end(const struct http_exchange *x) { (void)x; }
void __wrap_api_refuse(struct api *a, struct http_exchange *x, const struct fault *f,
                       struct str trace_id);
void __wrap_api_refuse(struct api *a, struct http_exchange *x, const struct fault *f,
                       struct str trace_id)
{
    (void)a, (void)x, (void)trace_id;
    assert_int_equal(f->err, ERR_OVERLOADED);
    scene.refused++;
}

static void proceed(void *context, struct http_exchange *x)
{
    struct scene *s = context;
    s->handled++;
    s->now_ns += REQUEST_US * 1000;
    if (s->are_false) strangers_note_false(&s->s, x);
}

static int begin(void **state)
{
    scene = (struct scene){.now_ns = UINT64_C(1000000000000), .are_false = true};
    static struct metrics_sheet *sheet; /* is never freed */
    if (sheet == NULL) sheet = metrics_sheet_create();
    scene.api.sheet = sheet;
    const struct strangers_ports ports = {.api = &scene.api,
                                          .loop =
                                              (struct loop *)&scene, /* of which nothing is used */
                                          .server = &scene.server,
                                          .proceed = proceed,
                                          .context = &scene};
    strangers_init(&scene.s, &ports);
    *state = &scene;
    return 0;
}

static int end(void **state)
{
    (void)state;
    strangers_fini(&scene.s);
    return 0;
}

/* A request of a new connection of the client with this number. */
static void ask(enum stranger_kind kind, uint32_t client)
{
    struct http_notes notes = {0};
    struct http_exchange x = {
        .route = &routes[kind], .notes = &notes, .client = client_address_ipv4(&client)};
    strangers_handle(&scene.s, &x);
}

static void turn(uint64_t after_ms)
{
    scene.now_ns += after_ms * 1000000;
    scene.due(&scene.s.timer);
}

/* ---- tests ---- */

static void each_kind_has_its_share_of_the_time(void **state)
{
    (void)state;
    for (enum stranger_kind kind = 0; kind < STRANGER_KINDS; kind++) {
        const uint64_t begun_ns = scene.now_ns;
        scene.handled = 0;
        /* a request is there at any time, and each time another one */
        for (uint32_t client = 1; scene.now_ns - begun_ns < UINT64_C(10000000000); client++) {
            const uint32_t before = scene.handled;
            scene.s.count = 0; /* those that wait are not resumed here */
            ask(kind, client);
            if (scene.handled == before) scene.now_ns += 100000;
        }
        const uint64_t of_10_s = UINT64_C(10000000) / REQUEST_US;
        assert_in_range(scene.handled, of_10_s * (LIMIT_STRANGER_SHARE - 1) / 100,
                        of_10_s * (LIMIT_STRANGER_SHARE + 1) / 100);
    }
}

static void a_turn_handles_so_many_that_wait(void **state)
{
    (void)state;
    scene.s.left_ns[STRANGER_PUBLIC] = scene.s.left_ns[STRANGER_UNKNOWN] = -1;
    for (uint32_t client = 1; client <= 50; client++) {
        ask(STRANGER_PUBLIC, client);
        ask(STRANGER_UNKNOWN, client);
    }
    assert_int_equal(scene.parked, 100);
    turn(60000);
    assert_int_equal(scene.unparked, STRANGER_KINDS * LIMIT_STRANGERS_PER_TURN);
    turn(60000);
    assert_int_equal(scene.unparked, 2 * STRANGER_KINDS * LIMIT_STRANGERS_PER_TURN);
}

static void so_many_wait_and_three_quarters_of_them_for_false_ones(void **state)
{
    (void)state;
    const uint32_t slowed = 7;
    for (int i = 0; i <= LIMIT_FALSE_FREE_OF_ADDRESS; i++) {
        scene.s.left_ns[STRANGER_UNKNOWN] = 1;
        ask(STRANGER_UNKNOWN, slowed);
    }
    for (int i = 0; i < LIMIT_STRANGERS * 3 / 4; i++) ask(STRANGER_UNKNOWN, slowed);
    assert_int_equal(scene.refused, 0);
    ask(STRANGER_UNKNOWN, slowed);
    assert_int_equal(scene.refused, 1);
    scene.s.left_ns[STRANGER_UNKNOWN] = -1;
    for (uint32_t client = 100; scene.s.count < LIMIT_STRANGERS; client++)
        ask(STRANGER_UNKNOWN, client);
    assert_int_equal(scene.refused, 1);
    ask(STRANGER_UNKNOWN, 99);
    assert_int_equal(scene.refused, 2);
}

static void the_delay_does_not_become_longer_than_the_longest(void **state)
{
    (void)state;
    struct http_notes notes = {0};
    struct http_exchange x = {.route = &routes[STRANGER_UNKNOWN], .notes = &notes};
    uint64_t longest_ms = 0;
    for (int i = 0; i < 40; i++) {
        strangers_note_false(&scene.s, &x);
        const uint64_t now_ms = scene.now_ns / 1000000,
                       delay_ms = notes.until_ms > now_ms ? notes.until_ms - now_ms : 0;
        assert_true(delay_ms >= longest_ms);
        longest_ms = delay_ms;
    }
    assert_int_equal(longest_ms, LIMIT_FALSE_DELAY_SECONDS * 1000);
}

static void so_many_addresses_are_remembered(void **state)
{
    (void)state;
    size_t known = 0;
    for (uint32_t client = 1; client <= 50 * LIMIT_STRANGER_ADDRESSES; client++) {
        scene.s.left_ns[STRANGER_UNKNOWN] = 1;
        ask(STRANGER_UNKNOWN, client);
    }
    for (size_t i = 0; i < LIMIT_STRANGER_ADDRESSES; i++)
        known += scene.s.addresses[i].seen_ms != 0;
    assert_int_equal(known, LIMIT_STRANGER_ADDRESSES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_kind_has_its_share_of_the_time),
        TEST(a_turn_handles_so_many_that_wait),
        TEST(so_many_wait_and_three_quarters_of_them_for_false_ones),
        TEST(the_delay_does_not_become_longer_than_the_longest),
        TEST(so_many_addresses_are_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
