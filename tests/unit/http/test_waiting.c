/* Replies that wait (barriers, deferrals, holds, slow readers), clocks, and the drain. */
#include "unit/http/rig.h"

#define H "Host: a\r\n"
#define JSON "Content-Type: application/json\r\n"

static void say_at_barrier(struct rig *rig, struct peer *p, int lane, int block)
{
    char request[200], body[40];
    int size = snprintf(body, sizeof body, "{\"at\":\"%d/%d\"}", lane, block);
    snprintf(request, sizeof request,
             "POST /echo?lane=%d&mark=%d HTTP/1.1\r\n" H JSON "Content-Length: %d\r\n\r\n%s", lane,
             block, size, body);
    rig_say(rig, p, request);
}

/* Lets the server do all it can, then says how many replies have come. */
static size_t heard_now(struct rig *rig, struct peer *p)
{
    rig_turn(rig);
    return rig_hear(rig, p, 0);
}

static void a_at_barrier_reply_waits_for_its_block(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    say_at_barrier(rig, p, 1, 7);
    assert_int_equal(heard_now(rig, p), 0);
    assert_int_equal(rig->handled, 1);
    assert_int_equal(http_server_waiting(rig->server), 1);
    http_server_release(rig->server, 6, 100); /* not yet, and another lane's */
    assert_int_equal(heard_now(rig, p), 0);
    http_server_release(rig->server, 7, 100);
    assert_int_equal(heard_now(rig, p), 1);
    assert_int_equal(http_server_waiting(rig->server), 0);

    say_at_barrier(rig, p, 1, 7); /* reached already: no waiting */
    say_at_barrier(rig, p, 2, 100);
    assert_int_equal(rig_hear(rig, p, 3), 3);
    peer_close(p);
    rig_destroy(rig);
}

static void barriers_of_one_connection_open_in_order(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    say_at_barrier(rig, p, 0, 0);
    say_at_barrier(rig, p, 2, 10);
    say_at_barrier(rig, p, 1, 5);
    say_at_barrier(rig, p, 0, 0);
    say_at_barrier(rig, p, 1, 6);
    assert_int_equal(heard_now(rig, p), 1);
    assert_int_equal(http_server_waiting(rig->server), 4);
    http_server_release(rig->server, 6, 9);
    assert_int_equal(heard_now(rig, p), 1); /* all behind the first */
    http_server_release(rig->server, 6, 10);
    assert_int_equal(heard_now(rig, p), 5);
    const char *first = strstr(p->heard, "2/10"), *second = strstr(p->heard, "1/5");
    assert_true(first != NULL && second != NULL && first < second);
    assert_int_equal(http_server_waiting(rig->server), 0);
    peer_close(p);
    rig_destroy(rig);
}

static void a_reply_that_a_lost_log_holds_back_is_replaced_and_ends_its_connection(void **state)
{
    (void)state;
    const struct http_reply lost = {.status = 503, .body = STR("{\"lost\":1}")};
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig), *other = rig_connect(rig);
    say_at_barrier(rig, p, 0, 0);
    say_at_barrier(rig, p, 3, 5);
    say_at_barrier(rig, p, 3, 6);
    rig_say(rig, p, "GET /later HTTP/1.1\r\n" H "\r\n");
    say_at_barrier(rig, other, 1, 9);
    say_at_barrier(rig, other, 3, 6);
    assert_int_equal(heard_now(rig, p), 1);
    assert_int_equal(http_server_waiting(rig->server), 5);
    assert_int_equal(http_server_lose_log(rig->server, &lost), 1);
    assert_int_equal(rig_hear(rig, p, 2), 2);
    assert_non_null(strstr(p->heard, "{\"lost\":1}"));
    assert_null(strstr(p->heard, "3/5"));
    assert_false(http_resume(rig->server, rig->tokens[0], &lost));
    assert_int_equal(http_server_waiting(rig->server), 2);
    http_server_release(rig->server, 9, 0); /* what was before it leaves */
    assert_int_equal(http_server_lose_log(rig->server, &lost), 1);
    assert_int_equal(rig_hear(rig, other, 2), 2);
    assert_non_null(strstr(other->heard, "1/9"));
    assert_null(strstr(other->heard, "3/6"));
    assert_int_equal(http_server_waiting(rig->server), 0);
    rig_hear_end(rig, p);
    rig_hear_end(rig, other);
    peer_close(p);
    peer_close(other);
    rig_destroy(rig);
}

static void a_release_opens_only_what_was_reached(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    enum { COUNT = 9 };
    static const int blocks[COUNT] = {5, 3, 8, 1, 9, 2, 7, 4, 6};
    struct peer *peers[COUNT];
    for (int i = 0; i < COUNT; i++) {
        peers[i] = rig_connect(rig);
        say_at_barrier(rig, peers[i], 1, blocks[i]);
        rig_turn(rig);
    }
    for (int block = 0; block <= COUNT; block++) {
        http_server_release(rig->server, (uint64_t)block, 0);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(heard_now(rig, peers[i]), blocks[i] <= block);
        assert_int_equal(http_server_waiting(rig->server), COUNT - block);
    }
    for (int i = 0; i < COUNT; i++) peer_close(peers[i]);
    rig_destroy(rig);
}

static void many_barriers_make_the_next_request_wait(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    enum { COUNT = 60 };
    for (int i = 0; i < COUNT; i++) say_at_barrier(rig, p, 1 + i % 2, 10 + i);
    assert_int_equal(heard_now(rig, p), 0);
    assert_true(rig->handled >= 16 && rig->handled < COUNT);
    for (uint64_t block = 0; block < 80; block += 4) {
        http_server_release(rig->server, block, block);
        rig_turn(rig);
    }
    assert_int_equal(rig_hear(rig, p, COUNT), COUNT);
    for (int i = 0; i < COUNT; i++) {
        char text[20];
        snprintf(text, sizeof text, "%d/%d", 1 + i % 2, 10 + i);
        assert_true(heard(p, text));
    }
    assert_int_equal(http_server_waiting(rig->server), 0);
    peer_close(p);
    rig_destroy(rig);
}

static void a_client_that_goes_away_behind_a_barrier_is_forgotten(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect_tcp(rig), *q = rig_connect_tcp(rig);
    say_at_barrier(rig, p, 1, 5);
    say_at_barrier(rig, p, 2, 6);
    say_at_barrier(rig, q, 1, 5);
    assert_int_equal(heard_now(rig, p), 0);
    assert_int_equal(http_server_waiting(rig->server), 3);
    peer_reset(p);
    while (http_server_connections(rig->server) > 1) loop_turn(rig->loop, true);
    assert_int_equal(http_server_waiting(rig->server), 1);
    http_server_release(rig->server, 5, 6);
    assert_int_equal(heard_now(rig, q), 1);
    peer_close(q);
    rig_destroy(rig);
}

static const struct http_reply done = {.status = 200, .body = {"done", 4}};

static struct http_token say_later(struct rig *rig, struct peer *p)
{
    size_t before = rig->token_count;
    rig_say(rig, p, "GET /later HTTP/1.1\r\n" H "\r\n");
    while (rig->token_count == before) loop_turn(rig->loop, true);
    return rig->tokens[before];
}

static void a_deferred_exchange_is_resumed_once(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    struct http_token token = say_later(rig, p);
    assert_true(http_token_alive(rig->server, token));
    assert_int_equal(http_server_waiting(rig->server), 1);
    rig_say(rig, p, "GET /things/2 HTTP/1.1\r\n" H "\r\n"); /* waits behind it */
    assert_int_equal(heard_now(rig, p), 0);
    assert_int_equal(rig->handled, 1);

    assert_true(http_resume(rig->server, token, &done));
    assert_false(http_resume(rig->server, token, &done));
    assert_int_equal(rig->handled, 1); /* handlers do not nest */
    assert_int_equal(rig_hear(rig, p, 2), 2);
    assert_true(strstr(p->heard, "done") < strstr(p->heard, "id=2"));
    assert_int_equal(http_server_waiting(rig->server), 0);

    struct http_token next = say_later(rig, p);
    assert_false(http_resume(rig->server, token, &done)); /* the old one names nobody */
    assert_true(http_resume(rig->server, next, &done));
    peer_close(p);
    rig_destroy(rig);
}

static void an_arena_that_was_taken_lives_until_it_is_given_back(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig), *q = rig_connect(rig);
    rig->keep_arenas = true;
    struct http_token first = say_later(rig, p), second = say_later(rig, q);
    assert_ptr_not_equal(rig->arenas[0], rig->arenas[1]);
    assert_true(http_resume(rig->server, second, &done));
    for (int i = 0; i < 20; i++)
        rig_say(rig, q, "GET /things/4711?q=of-others HTTP/1.1\r\n" H "\r\n");
    assert_int_equal(rig_hear(rig, q, 21), 21); /* they have arenas of their own */
    assert_true(str_equal(rig->texts[0], STR("/later")));
    assert_true(str_equal(rig->texts[1], STR("/later")));
    while (arena_take(rig->arenas[0], 1 << 20) != NULL) {
    }
    http_arena_give(rig->server, rig->arenas[0]);
    struct arena *again = http_arena_spare(rig->server);
    assert_ptr_equal(again, rig->arenas[0]); /* last given, first taken, and empty */
    assert_true(again->next != again->end && !again->overflow);
    http_arena_give(rig->server, again);
    http_arena_give(rig->server, rig->arenas[1]);
    http_arena_give(rig->server, NULL);
    assert_true(http_resume(rig->server, first, &done));
    peer_close(p);
    peer_close(q);
    rig_destroy(rig);
}

static void count_gone(void *context) { ++*(unsigned *)context; }

static void whoever_asks_is_told_once_that_the_client_is_gone(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig), *q = rig_connect(rig), *answered = rig_connect(rig);
    unsigned gone = 0, not_asked = 0, resumed = 0;
    struct http_token a = say_later(rig, p), b = say_later(rig, q), c = say_later(rig, answered);
    assert_true(http_when_gone(rig->server, a, count_gone, &gone));
    assert_true(http_when_gone(rig->server, b, count_gone, &not_asked));
    assert_true(http_when_gone(rig->server, b, NULL, NULL)); /* taken back */
    assert_true(http_when_gone(rig->server, c, count_gone, &resumed));
    assert_true(http_resume(rig->server, c, &done));
    say_later(rig, answered); /* another request on the same connection: nobody asked about that */
    peer_close(p);
    peer_close(q);
    peer_close(answered);
    while (http_server_connections(rig->server) > 0) loop_turn(rig->loop, true);
    assert_int_equal(gone, 1);
    assert_int_equal(not_asked, 0);
    assert_int_equal(resumed, 0);
    assert_false(http_when_gone(rig->server, a, count_gone, &gone));
    rig_destroy(rig);
}

/* The client of a at_barrier reply with another request behind it, found to be gone when the barrier
 * opens. */
static struct http_token break_waiting(struct rig *rig, int block)
{
    struct peer *p = rig_connect(rig);
    say_at_barrier(rig, p, 1, block);
    rig_turn(rig);
    struct http_token token = say_later(rig, p);
    peer_close(p);
    http_server_release(rig->server, (uint64_t)block, 0);
    return token;
}

static void a_broken_connection_tells_only_who_still_asks(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    unsigned taken_back = 0, asked_late = 0;
    struct http_token a = break_waiting(rig, 5);
    assert_int_equal(http_server_connections(rig->server), 1); /* until its next turn */
    assert_false(http_token_alive(rig->server, a));
    assert_true(http_when_gone(rig->server, a, count_gone, &taken_back));
    assert_true(http_when_gone(rig->server, a, NULL, NULL));
    struct http_token b = break_waiting(rig, 6);
    assert_true(http_when_gone(rig->server, b, count_gone, &asked_late));
    while (http_server_connections(rig->server) > 0) loop_turn(rig->loop, true);
    assert_int_equal(taken_back, 0);
    assert_int_equal(asked_late, 1);
    rig_destroy(rig);
}

static void a_resumed_reply_may_wait_at_a_barrier(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    struct http_token token = say_later(rig, p);
    struct http_reply at_barrier = done;
    at_barrier.barrier = (struct http_barrier){.lane = 2, .block = 3};
    assert_true(http_resume(rig->server, token, &at_barrier));
    assert_int_equal(heard_now(rig, p), 0);
    http_server_release(rig->server, 0, 3);
    assert_int_equal(heard_now(rig, p), 1);
    peer_close(p);
    rig_destroy(rig);
}

static void a_token_dies_with_its_client(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *unix_peer = rig_connect(rig), *tcp_peer = rig_connect_tcp(rig);
    struct http_token a = say_later(rig, unix_peer), b = say_later(rig, tcp_peer);
    peer_close(unix_peer);
    peer_reset(tcp_peer);
    while (http_server_connections(rig->server) > 0) loop_turn(rig->loop, true);
    assert_false(http_token_alive(rig->server, a));
    assert_false(http_resume(rig->server, a, &done));
    assert_false(http_resume(rig->server, b, &done));
    assert_int_equal(http_server_waiting(rig->server), 0);

    struct peer *p = rig_connect(rig); /* in the same place */
    struct http_token c = say_later(rig, p);
    assert_false(http_token_alive(rig->server, a));
    assert_false(http_token_alive(rig->server, b));
    assert_true(http_resume(rig->server, c, &done));
    assert_int_equal(rig_hear(rig, p, 1), 1);
    peer_close(p);
    rig_destroy(rig);
}

static void a_zeroed_token_names_nobody(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    say_later(rig, p);
    assert_false(http_token_alive(rig->server, (struct http_token){0}));
    assert_false(http_token_alive(rig->server, (struct http_token){.place = 99, .generation = 2}));
    peer_close(p);
    rig_destroy(rig);
}

static struct rig *hasty_rig(void)
{
    struct http_limits limits = rig_limits();
    limits.head_ms = limits.body_ms = limits.idle_ms = limits.write_ms = 60;
    return rig_create_limited(limits);
}

static void an_idle_client_is_let_go_silently(void **state)
{
    (void)state;
    struct rig *rig = hasty_rig();
    struct peer *fresh = rig_connect(rig), *served = rig_connect(rig);
    rig_say(rig, served, "GET /things/1 HTTP/1.1\r\n" H "\r\n");
    rig_hear_end(rig, fresh);
    rig_hear_end(rig, served);
    assert_int_equal(fresh->size, 0);
    assert_int_equal(rig_hear(rig, served, 1), 1);
    assert_int_equal(rig->refused, 0);
    peer_close(fresh);
    peer_close(served);
    rig_destroy(rig);
}

struct late { /* clients whose requests are whole in time, and read late */
    struct peer *fresh, *begun, *body;
};

static struct late late_begin(struct rig *rig)
{
    struct late l = {rig_connect(rig), rig_connect(rig), rig_connect(rig)};
    rig_say(rig, l.begun, "GET /things/1 HT");
    rig_say(rig, l.body, "POST /echo HTTP/1.1\r\n" H JSON "Content-Length: 2\r\n\r\n{");
    rig_turn(rig);
    return l;
}

static void late_say_rest(struct rig *rig, struct late *l)
{
    rig_say(rig, l->fresh, "GET /things/1 HTTP/1.1\r\n" H "\r\n");
    rig_say(rig, l->begun, "TP/1.1\r\n" H "\r\n");
    rig_say(rig, l->body, "}");
}

static void late_are_answered(struct rig *rig, struct late *l)
{
    struct peer *all[] = {l->fresh, l->begun, l->body};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(rig_hear(rig, all[i], 1), 1);
        assert_int_equal(heard_status(all[i]), 200);
        peer_close(all[i]);
    }
}

/* Whatever kept this program busy meanwhile, or the machine from running it. */
static void what_came_in_time_is_read_before_its_time_is_over(void **state)
{
    (void)state;
    struct http_limits limits = rig_limits();
    limits.head_ms = limits.body_ms = limits.idle_ms = 60;
    struct rig *rig = rig_create_limited(limits);
    struct late l = late_begin(rig);
    late_say_rest(rig, &l);
    usleep(100000);
    late_are_answered(rig, &l);
    rig_destroy(rig);
}

/* The same while the server begins nothing: until it does, no clock runs for what has come. */
static void what_came_in_time_outlives_a_hold(void **state)
{
    (void)state;
    struct http_limits limits = rig_limits();
    limits.head_ms = limits.body_ms = limits.idle_ms = 500;
    struct rig *rig = rig_create_limited(limits);
    struct late l = late_begin(rig);
    http_server_hold(rig->server, true);
    late_say_rest(rig, &l);
    uint64_t since_ms = loop_now_ms(rig->loop);
    do {
        rig_turn(rig);
        usleep(1000);
    } while (loop_now_ms(rig->loop) < since_ms + 700);
    http_server_hold(rig->server, false);
    late_are_answered(rig, &l);
    rig_destroy(rig);
}

/* The next to be looked at is not the last one's list. */
static void a_long_time_of_one_does_not_lengthen_anothers(void **state)
{
    (void)state;
    struct http_limits limits = rig_limits();
    limits.idle_ms = 60;
    struct rig *rig = rig_create_limited(limits);
    struct peer *slow = rig_connect(rig), *first = rig_connect(rig);
    rig_say(rig, slow, "POST /echo HTTP/1.1\r\n" H JSON "Content-Length: 20\r\n\r\n{");
    uint64_t since_ms = loop_now_ms(rig->loop);
    while (loop_now_ms(rig->loop) < since_ms + 30) loop_turn(rig->loop, true);
    struct peer *second = rig_connect(rig);
    rig_hear_end(rig, first);
    rig_hear_end(rig, second);
    assert_int_equal(http_server_connections(rig->server), 1);
    peer_close(slow);
    peer_close(first);
    peer_close(second);
    rig_destroy(rig);
}

static void a_request_that_does_not_come_in_time_is_refused(void **state)
{
    (void)state;
    static const char *const starts[] = {
        "GET /things/1 HTTP/1.1\r\nHo",
        "POST /echo HTTP/1.1\r\n" H JSON "Content-Length: 20\r\n\r\n{",
        "POST /echo HTTP/1.1\r\n" H JSON "Transfer-Encoding: chunked\r\n\r\n3\r\n{",
        "GET /things/1 HTTP/1.1\r\n" H "\r\nG",
    };
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        struct rig *rig = hasty_rig();
        struct peer *p = rig_connect(rig);
        rig_say(rig, p, starts[i]);
        rig_hear_end(rig, p);
        assert_true(heard(p, "HTTP/1.1 408 Request Timeout\r\n"));
        assert_true(heard(p, "Connection: close\r\n"));
        assert_int_equal(rig->refused, 1);
        peer_close(p);
        rig_destroy(rig);
    }
}

static void dripping_bytes_do_not_stretch_the_time_for_a_head(void **state)
{
    (void)state;
    struct rig *rig = hasty_rig();
    struct peer *p = rig_connect(rig);
    rig_say(rig, p, "GET /things/1 HTTP/1.1\r\nX: ");
    uint64_t start_ns = world_monotonic_ns();
    uint64_t said_ns = 0;
    while (!p->ended && world_monotonic_ns() - start_ns < RIG_PATIENCE_MS * 1000000ull) {
        /* a byte each millisecond: the head stays within its limit */
        if (world_monotonic_ns() - said_ns > 1000000) {
            rig_say(rig, p, "x");
            said_ns = world_monotonic_ns();
        }
        loop_turn(rig->loop, false);
        peer_listen(p);
    }
    assert_true(p->ended);
    assert_int_equal(heard_status(p), 408);
    peer_close(p);
    rig_destroy(rig);
}

/* Whether so little time has passed; more says that the machine was busy with others. */
static bool was_in_time(uint64_t since_ns, uint64_t ms)
{
    return world_monotonic_ns() - since_ns < ms * 1000000;
}

static bool each_request_had_its_own_time(void)
{
    struct http_limits limits = rig_limits();
    limits.head_ms = 1000;
    struct rig *rig = rig_create_limited(limits);
    struct peer *p = rig_connect(rig);
    bool in_time = true;
    uint64_t begun_ns = world_monotonic_ns();
    rig_say(rig, p, "GET /things/1 HT");
    for (size_t i = 1; in_time && i <= 5; i++) { /* never between requests, 1.5 seconds in all */
        uint64_t start_ns = world_monotonic_ns();
        while (world_monotonic_ns() - start_ns < 300000000ull) loop_turn(rig->loop, true);
        rig_say(rig, p, "TP/1.1\r\n" H "\r\nGET /things/2 HT");
        size_t held = rig_hear(rig, p, i);
        in_time = was_in_time(begun_ns, limits.head_ms - 100);
        if (in_time) assert_int_equal(held, i);
        begun_ns = start_ns;
    }
    if (in_time) assert_int_equal(rig->refused, 0);
    peer_close(p);
    rig_destroy(rig);
    return in_time;
}

static void each_request_has_its_own_time(void **state)
{
    (void)state;
    while (!each_request_had_its_own_time()) continue;
}

static void no_clock_runs_while_the_answer_is_ours_to_give(void **state)
{
    (void)state;
    struct rig *rig = hasty_rig();
    struct peer *deferred = rig_connect(rig), *at_barrier = rig_connect(rig);
    struct http_token token = say_later(rig, deferred);
    enum { COUNT = 30 }; /* the last are not begun before the first have their barriers opened */
    for (int i = 0; i < COUNT; i++) say_at_barrier(rig, at_barrier, 1 + i % 2, 5 + i);
    /* Another client's idle time passes four times meanwhile. */
    for (int i = 0; i < 4; i++) {
        struct peer *p = rig_connect(rig);
        rig_hear_end(rig, p);
        peer_close(p);
    }
    http_server_release(rig->server, 5 + COUNT, 5 + COUNT);
    assert_true(http_resume(rig->server, token, &done));
    assert_int_equal(rig_hear(rig, deferred, 1), 1);
    assert_int_equal(rig_hear(rig, at_barrier, COUNT), COUNT);
    assert_int_equal(rig->refused, 0);
    peer_close(deferred);
    peer_close(at_barrier);
    rig_destroy(rig);
}

static void a_client_that_reads_nothing_is_dropped(void **state)
{
    (void)state;
    struct rig *rig = hasty_rig();
    struct peer *p = rig_connect(rig);
    rig_say(rig, p, "GET /flood?bytes=4000000 HTTP/1.1\r\n" H "\r\n");
    while (http_server_connections(rig->server) > 0) loop_turn(rig->loop, true);
    rig_hear_end(rig, p);
    assert_true(p->size < 4000000);
    peer_close(p);
    rig_destroy(rig);
}

static bool each_part_that_was_read_gave_time_for_the_next(void)
{
    struct http_limits limits = rig_limits();
    limits.write_ms = 2000;
    struct rig *rig = rig_create_limited(limits);
    struct peer *p = rig_connect(rig);
    enum { PART = 400000 };
    rig_say(rig, p, "GET /flood?bytes=4000000 HTTP/1.1\r\n" H "\r\n");
    bool in_time = true;
    for (int i = 0; in_time && i < 5; i++) { /* 2.5 seconds in all */
        uint64_t start_ns = world_monotonic_ns();
        while (world_monotonic_ns() - start_ns < 500000000ull) loop_turn(rig->loop, true);
        for (size_t until = p->size + PART; in_time && p->size < until;) {
            ssize_t got = recv(p->fd, p->heard + p->size, until - p->size, 0);
            in_time = was_in_time(start_ns, limits.write_ms - 100);
            if (in_time) assert_true(got > 0 || (got < 0 && errno == EAGAIN));
            if (got > 0) p->size += (size_t)got;
            loop_turn(rig->loop, true);
        }
    }
    if (in_time) assert_int_equal(rig_hear(rig, p, 1), 1);
    peer_close(p);
    rig_destroy(rig);
    return in_time;
}

static void each_part_that_a_client_reads_gives_it_time_for_the_next(void **state)
{
    (void)state;
    while (!each_part_that_was_read_gave_time_for_the_next()) continue;
}

static void a_slow_reader_gets_everything_and_holds_little(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    enum { COUNT = 30, BYTES = 100000 };
    for (int i = 0; i < COUNT; i++)
        rig_say(rig, p, "GET /flood?bytes=100000 HTTP/1.1\r\n" H "\r\n");
    rig_turn(rig);
    /* 256 KiB is the block, a socket takes some more: most requests are not begun yet. */
    assert_true(rig->handled < 12);
    assert_int_equal(rig_hear(rig, p, COUNT), COUNT);
    assert_int_equal(rig->handled, COUNT);
    peer_close(p);
    rig_destroy(rig);
}

static void what_waits_to_be_sent_leaves_less_room_until_it_is(void **state)
{
    (void)state;
    struct http_limits limits = rig_limits();
    enum { MOST = 2 << 20 };
    limits.held_bytes = MOST;
    struct rig *rig = rig_create_limited(limits);
    struct peer *p = rig_connect(rig);
    assert_true(http_server_has_room(rig->server, MOST));
    assert_false(http_server_has_room(rig->server, MOST + 1));
    rig_say(rig, p, "GET /flood?bytes=3000000 HTTP/1.1\r\n" H "\r\n");
    rig_turn(rig);
    assert_false(http_server_has_room(rig->server, 1 << 20));
    assert_true(http_server_has_room(rig->server, 1000)); /* what everybody may have */
    assert_int_equal(rig_hear(rig, p, 1), 1);
    rig_turn(rig);
    assert_true(http_server_has_room(rig->server, MOST));
    peer_close(p);
    rig_destroy(rig);
}

static void what_waits_behind_large_answers_is_begun_when_they_are_sent(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect_tcp(rig);
    enum { COUNT = 40 };
    for (int i = 0; i < COUNT; i++)
        rig_say(rig, p, "GET /flood?bytes=100000 HTTP/1.1\r\n" H "\r\n");
    for (int i = 1; i <= COUNT; i++) assert_true(rig_hear(rig, p, (size_t)i) >= (size_t)i);
    peer_close(p);
    rig_destroy(rig);
}

/* How much a client can send in so many turns, up to `most`. */
static size_t push(struct rig *rig, struct peer *p, size_t most)
{
    static const char bytes[64 << 10];
    size_t size = 0;
    for (int refused = 0; size < most && refused < 20;) {
        ssize_t sent = send(p->fd, bytes, sizeof bytes, MSG_NOSIGNAL);
        if (sent > 0) size += (size_t)sent;
        refused = sent > 0 ? 0 : refused + 1;
        loop_turn(rig->loop, false);
    }
    return size;
}

static void what_comes_behind_a_body_that_has_to_wait_is_not_taken_in(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig), *measure = rig_connect(rig);
    rig_say(rig, measure, "GET /flood?bytes=200000 HTTP/1.1\r\n" H "\r\n");
    assert_int_equal(rig_hear(rig, measure, 1), 1);
    size_t head_size = measure->size - 200000;
    say_at_barrier(rig, measure, 0, 0);
    assert_int_equal(rig_hear(rig, measure, 2), 2);
    size_t echo_size = measure->size - head_size - 200000;

    /* Behind a barrier, so that what is pending is known to the byte: ten below the block. */
    say_at_barrier(rig, p, 1, 5);
    char request[200];
    snprintf(request, sizeof request, "GET /flood?bytes=%zu HTTP/1.1\r\n" H "\r\n",
             (256 << 10) - 10 - echo_size - head_size);
    rig_say(rig, p, request);
    rig_say(rig, p,
            "POST /echo HTTP/1.1\r\n" H JSON "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    rig_turn(rig); /* "go on" is behind the barrier, too, and above the block */
    assert_int_equal(rig->handled, 4);
    rig_say(rig, p, "{}");
    assert_true(push(rig, p, 16 << 20) < 2 << 20);
    assert_int_equal(rig->handled, 4);

    http_server_release(rig->server, 5, 0); /* what was sent behind it is no request */
    rig_hear_end(rig, p);
    assert_int_equal(rig->handled, 5);
    peer_close(measure);
    peer_close(p);
    rig_destroy(rig);
}

static void nothing_is_begun_while_held(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig), *q = rig_connect(rig);
    rig_say(rig, p, "POST /echo HTTP/1.1\r\n" H JSON "Content-Length: 2\r\n\r\n{");
    say_at_barrier(rig, q, 1, 5);
    rig_turn(rig);
    http_server_hold(rig->server, true);
    rig_say(rig, p, "}");
    rig_say(rig, q, "GET /things/2 HTTP/1.1\r\n" H "\r\n");
    assert_int_equal(heard_now(rig, p), 0);
    http_server_release(rig->server, 5, 0); /* what was decided still leaves */
    assert_int_equal(heard_now(rig, q), 1);
    assert_int_equal(rig->handled, 1);
    http_server_hold(rig->server, false);
    assert_int_equal(rig_hear(rig, p, 1), 1);
    assert_int_equal(rig_hear(rig, q, 2), 2);
    peer_close(p);
    peer_close(q);
    rig_destroy(rig);
}

static void what_is_buffered_is_begun_when_the_hold_ends(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *p = rig_connect(rig);
    struct http_token token = say_later(rig, p);
    rig_say(rig, p, "GET /things/2 HTTP/1.1\r\n" H "\r\nGET /things/3 HTTP/1.1\r\n" H "\r\n");
    rig_turn(rig);
    http_server_hold(rig->server, true);
    assert_true(http_resume(rig->server, token, &done));
    assert_int_equal(heard_now(rig, p), 1);
    http_server_hold(rig->server, false);
    assert_int_equal(rig_hear(rig, p, 3), 3);
    peer_close(p);
    rig_destroy(rig);
}

static void a_drain_finishes_what_was_begun(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct peer *idle = rig_connect(rig), *at_barrier = rig_connect(rig),
                *deferred = rig_connect(rig);
    struct peer *half = rig_connect(rig);
    say_at_barrier(rig, at_barrier, 1, 5);
    struct http_token token = say_later(rig, deferred);
    rig_say(rig, half, "GET /things/1 HTT");
    rig_turn(rig);

    http_server_drain(rig->server);
    rig_hear_end(rig, idle);
    assert_int_equal(idle->size, 0);
    assert_int_equal(http_server_connections(rig->server), 3);
    assert_int_equal(http_server_waiting(rig->server), 2);
    rig_say(rig, half, "P/1.1\r\n" H);
    rig_turn(rig);
    rig_say(rig, half, "\r\n");
    rig_hear_end(rig, half);
    assert_true(heard(half, "Connection: close\r\n") && heard(half, "id=1"));
    http_server_release(rig->server, 5, 0);
    rig_hear_end(rig, at_barrier);
    assert_int_equal(rig_hear(rig, at_barrier, 1), 1);
    assert_true(http_resume(rig->server, token, &done));
    rig_hear_end(rig, deferred);
    assert_int_equal(rig_hear(rig, deferred, 1), 1);
    assert_int_equal(http_server_connections(rig->server), 0);

    struct peer *late = rig_connect(rig);
    rig_hear_end(rig, late);
    assert_int_equal(heard_status(late), 503);
    assert_true(heard(late, "draining"));
    peer_close(idle);
    peer_close(at_barrier);
    peer_close(deferred);
    peer_close(half);
    peer_close(late);
    rig_destroy(rig);
}

static void send_most_of_a_body(struct rig *rig, struct peer *p, size_t bytes)
{
    static char much[1 << 20];
    memset(much, ' ', sizeof much);
    rig_say(rig, p,
            "PUT /big HTTP/1.1\r\n" H
            "Content-Type: application/json\r\nContent-Length: 3000000\r\n\r\n");
    much[bytes] = '\0';
    rig_say(rig, p, much);
    for (int i = 0; i < 20; i++) rig_turn(rig);
}

static void strangers_bodies_take_half_of_what_may_be_held(void **state)
{
    (void)state;
    struct http_limits limits = rig_limits();
    enum { MOST = 3 << 20 };
    limits.held_bytes = MOST;
    struct rig *rig = rig_create_limited(limits);
    rig->is_of_strangers = true;
    struct peer *first = rig_connect(rig), *second = rig_connect(rig), *small = rig_connect(rig);
    send_most_of_a_body(rig, first, 600 << 10);
    assert_int_equal(first->size, 0);
    assert_true(http_server_has_room(rig->server, MOST / 2));
    send_most_of_a_body(rig, second, 600 << 10);
    assert_int_equal(rig_hear(rig, second, 1), 1);
    assert_int_equal(heard_status(second), 503);
    assert_true(http_server_has_room(rig->server, MOST / 2)); /* for others' answers */
    rig_say(rig, small,
            "POST /size HTTP/1.1\r\n" H
            "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{");
    rig_turn(rig);
    rig_say(rig, small, "}");
    assert_int_equal(rig_hear(rig, small, 1), 1);
    assert_int_equal(heard_status(small), 200);

    rig->is_of_strangers = false;
    struct peer *known = rig_connect(rig);
    send_most_of_a_body(rig, known, 600 << 10);
    assert_int_equal(known->size, 0);
    assert_false(http_server_has_room(rig->server, MOST / 2));
    struct peer *all[] = {first, second, small, known};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) peer_close(all[i]);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_at_barrier_reply_waits_for_its_block),
        cmocka_unit_test(barriers_of_one_connection_open_in_order),
        cmocka_unit_test(a_reply_that_a_lost_log_holds_back_is_replaced_and_ends_its_connection),
        cmocka_unit_test(a_release_opens_only_what_was_reached),
        cmocka_unit_test(many_barriers_make_the_next_request_wait),
        cmocka_unit_test(a_client_that_goes_away_behind_a_barrier_is_forgotten),
        cmocka_unit_test(a_deferred_exchange_is_resumed_once),
        cmocka_unit_test(an_arena_that_was_taken_lives_until_it_is_given_back),
        cmocka_unit_test(whoever_asks_is_told_once_that_the_client_is_gone),
        cmocka_unit_test(a_broken_connection_tells_only_who_still_asks),
        cmocka_unit_test(a_resumed_reply_may_wait_at_a_barrier),
        cmocka_unit_test(a_token_dies_with_its_client),
        cmocka_unit_test(a_zeroed_token_names_nobody),
        cmocka_unit_test(an_idle_client_is_let_go_silently),
        cmocka_unit_test(what_came_in_time_is_read_before_its_time_is_over),
        cmocka_unit_test(what_came_in_time_outlives_a_hold),
        cmocka_unit_test(a_long_time_of_one_does_not_lengthen_anothers),
        cmocka_unit_test(a_request_that_does_not_come_in_time_is_refused),
        cmocka_unit_test(dripping_bytes_do_not_stretch_the_time_for_a_head),
        cmocka_unit_test(each_request_has_its_own_time),
        cmocka_unit_test(no_clock_runs_while_the_answer_is_ours_to_give),
        cmocka_unit_test(a_client_that_reads_nothing_is_dropped),
        cmocka_unit_test(each_part_that_a_client_reads_gives_it_time_for_the_next),
        cmocka_unit_test(a_slow_reader_gets_everything_and_holds_little),
        cmocka_unit_test(what_waits_to_be_sent_leaves_less_room_until_it_is),
        cmocka_unit_test(strangers_bodies_take_half_of_what_may_be_held),
        cmocka_unit_test(what_waits_behind_large_answers_is_begun_when_they_are_sent),
        cmocka_unit_test(what_comes_behind_a_body_that_has_to_wait_is_not_taken_in),
        cmocka_unit_test(nothing_is_begun_while_held),
        cmocka_unit_test(what_is_buffered_is_begun_when_the_hold_ends),
        cmocka_unit_test(a_drain_finishes_what_was_begun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
