/* Calls between four real reactors: requests whose slots are elsewhere, waits, revocations,
 * the drain. Nothing sleeps to let something happen; a call that is lost would hang, so the
 * program has a time limit. */
#include "calls_rig.h"

#include "engine/decision/digest.h"

enum { HANG_SECONDS = 900 };

static int set_up(void **state)
{
    *state = rig_create("10m");
    return 0;
}

static int set_up_impatient(void **state)
{
    *state = rig_create("200ms");
    return 0;
}

static int tear_down(void **state)
{
    rig_destroy(*state);
    return 0;
}

static void ask(struct client *c, const char *actor, const char *action, int n)
{
    char body[256];
    snprintf(body, sizeof body, "{\"action\":\"%s\",\"actor\":\"%s\",\"args\":{\"n\":%d}}", action,
             actor, n);
    client_say(c, "POST", "/v1/agent/authorize", RIG_AGENT, NULL, body);
}

static bool decided(struct client *c, const char *decision)
{
    char text[64];
    snprintf(text, sizeof text, "\"decision\":\"%s\"", decision);
    return client_hear(c) == 200 && client_says(c, text);
}

static int resolve(struct client *c, const char *review, const char *how, enum rig_key key)
{
    char target[128];
    snprintf(target, sizeof target, "/v1/queue/%s/%s", review, how);
    return client_call(c, "POST", target, key, "");
}

/* A review of that actor, asked for at reactor `i`. */
static void asked_review(struct client *c, const char *actor, int n, char to[64])
{
    ask(c, actor, "refund", n);
    assert_true(decided(c, "human_review"));
    client_member(c, "review_id", to, 64);
    assert_int_equal(strlen(to), ID_TEXT);
}

static void clients_of_all(struct rig *r, struct client *all[RIG_REACTORS])
{
    for (unsigned i = 0; i < RIG_REACTORS; i++) all[i] = client_of(r, i);
}

static void clients_close(struct client *all[RIG_REACTORS])
{
    for (unsigned i = 0; i < RIG_REACTORS; i++) client_close(all[i]);
}

static void under_way_becomes(struct rig *r, size_t count)
{
    while (rig_under_way(r) != count) sched_yield();
}

static void a_review_is_one_and_the_same_from_every_reactor(void **state)
{
    struct rig *r = *state;
    struct client *all[RIG_REACTORS];
    char actor[32], target[128], review[64], same[64];
    clients_of_all(r, all);
    for (int n = 0; n < 24; n++) {
        snprintf(actor, sizeof actor, "bot-%d", n);
        asked_review(all[n % RIG_REACTORS], actor, n, review);
        assert_non_null(strstr(all[n % RIG_REACTORS]->answer, "X-Request-ID: echo-7\r\n"));
        for (unsigned i = 0; i < RIG_REACTORS; i++) {
            asked_review(all[i], actor, n, same); /* still pending: the same again */
            assert_string_equal(same, review);
            snprintf(target, sizeof target, "/v1/queue/%s", review);
            assert_int_equal(client_call(all[i], "GET", target, RIG_REVIEWER, ""), 200);
            assert_true(client_says(all[i], "\"status\":\"pending\""));
            assert_non_null(strstr(all[i]->answer, "X-Request-ID: echo-7\r\n"));
        }
        assert_int_equal(resolve(all[(n + 1) % RIG_REACTORS], review, "approve", RIG_REVIEWER),
                         200);
        assert_int_equal(resolve(all[(n + 2) % RIG_REACTORS], review, "deny", RIG_OTHER_REVIEWER),
                         409);
        assert_true(client_says(all[(n + 2) % RIG_REACTORS], "\"status\":\"approved\""));
    }
    assert_true(metrics_total(METRIC_CALLS_CROSSED) > 0);
    under_way_becomes(r, 0);
    clients_close(all);
}

static void a_list_is_gathered_from_all_shards_in_order(void **state)
{
    struct rig *r = *state;
    struct client *all[RIG_REACTORS];
    char actor[32], review[64], first[64];
    enum { COUNT = 40 };
    char asked[COUNT][64];
    clients_of_all(r, all);
    for (int n = 0; n < COUNT; n++) {
        snprintf(actor, sizeof actor, "bot-%d", n);
        asked_review(all[n % RIG_REACTORS], actor, n, asked[n]);
    }
    for (unsigned i = 0; i < RIG_REACTORS; i++) {
        assert_int_equal(
            client_call(all[i], "GET", "/v1/queue/pending?limit=100", RIG_REVIEWER, ""), 200);
        assert_true(client_says(all[i], "\"total\":40"));
        const char *at = all[i]->body;
        for (int n = 0; n < COUNT; n++) {
            snprintf(review, sizeof review, "\"id\":\"%.*s\"", 40, asked[n]);
            at = strstr(at, review);
            assert_non_null(at); /* oldest first: each behind the one before */
        }
    }
    /* A trace id is looked for everywhere, too. */
    char trace[160], target[256];
    asked_review(all[0], "tracer", 1, first);
    client_member(all[0], "trace_id", trace, sizeof trace);
    snprintf(target, sizeof target, "/v1/queue/%s", trace);
    for (unsigned i = 0; i < RIG_REACTORS; i++) {
        assert_int_equal(client_call(all[i], "GET", target, RIG_REVIEWER, ""), 200);
        assert_true(client_says(all[i], first));
    }
    clients_close(all);
}

static void whoever_waits_is_woken_wherever_it_waits(void **state)
{
    struct rig *r = *state;
    struct client *all[RIG_REACTORS], *resolver = client_of(r, 0);
    char actor[32], target[256], review[64], trace[160];
    clients_of_all(r, all);
    for (int n = 0; n < 8; n++) {
        snprintf(actor, sizeof actor, "bot-%d", n);
        asked_review(resolver, actor, n, review);
        client_member(resolver, "trace_id", trace, sizeof trace);
        for (unsigned i = 0; i < RIG_REACTORS; i++) { /* by either of its names */
            snprintf(target, sizeof target, "/v1/queue/%s/wait?timeout_ms=60000",
                     i % 2 == 0 ? review : trace);
            client_say(all[i], "GET", target, RIG_REVIEWER, NULL, "");
        }
        under_way_becomes(r, RIG_REACTORS);
        assert_int_equal(resolve(resolver, review, n % 2 == 0 ? "approve" : "deny", RIG_REVIEWER),
                         200);
        for (unsigned i = 0; i < RIG_REACTORS; i++) {
            assert_int_equal(client_hear(all[i]), 200);
            assert_true(client_says(all[i], n % 2 == 0 ? "\"status\":\"approved\""
                                                       : "\"status\":\"denied\""));
            assert_non_null(strstr(all[i]->answer, "X-Request-ID: echo-7\r\n"));
        }
        under_way_becomes(r, 0);
        for (unsigned i = 0; i < RIG_REACTORS; i++) { /* and now nobody has to wait */
            assert_int_equal(client_call(all[i], "GET", target, RIG_REVIEWER, ""), 200);
            assert_false(client_says(all[i], "\"status\":\"pending\""));
        }
    }
    client_close(resolver);
    clients_close(all);
}

static void a_wait_ends_with_its_time(void **state)
{
    struct rig *r = *state;
    struct client *all[RIG_REACTORS];
    char target[128], review[64];
    clients_of_all(r, all);
    asked_review(all[0], "bot", 1, review);
    snprintf(target, sizeof target, "/v1/queue/%s/wait?timeout_ms=20", review);
    for (unsigned i = 0; i < RIG_REACTORS; i++)
        client_say(all[i], "GET", target, RIG_REVIEWER, NULL, "");
    for (unsigned i = 0; i < RIG_REACTORS; i++) {
        assert_int_equal(client_hear(all[i]), 200);
        assert_true(client_says(all[i], "\"status\":\"pending\""));
    }
    under_way_becomes(r, 0);
    clients_close(all);
}

static void a_client_that_went_away_while_waiting_is_forgotten(void **state)
{
    struct rig *r = *state;
    struct client *resolver = client_of(r, 0);
    char actor[32], target[128], review[64];
    for (int n = 0; n < 40; n++) {
        struct client *waiters[RIG_REACTORS];
        clients_of_all(r, waiters);
        snprintf(actor, sizeof actor, "bot-%d", n);
        asked_review(resolver, actor, n, review);
        snprintf(target, sizeof target, "/v1/queue/%s/wait?timeout_ms=60000", review);
        for (unsigned i = 0; i < RIG_REACTORS; i++)
            client_say(waiters[i], "GET", target, RIG_REVIEWER, NULL, "");
        if (n % 3 != 0) under_way_becomes(r, RIG_REACTORS);
        if (n % 2 != 0) { /* the answer may be on its way while the client goes */
            client_say(resolver, "POST",
                       (snprintf(target, sizeof target, "/v1/queue/%s/approve", review), target),
                       RIG_REVIEWER, NULL, "");
            clients_close(waiters);
            assert_int_equal(client_hear(resolver), 200);
        } else {
            clients_close(waiters);
        }
        under_way_becomes(r, 0);
    }
    client_close(resolver);
}

static void answers_of_a_drain_are_503_and_everybody_leaves(void **state)
{
    struct rig *r = *state;
    enum { EACH = 5 };
    struct client *waiters[RIG_REACTORS][EACH], *requester = client_of(r, 1);
    char target[128], review[64];
    asked_review(requester, "bot", 1, review);
    snprintf(target, sizeof target, "/v1/queue/%s/wait", review);
    for (int k = 0; k < EACH; k++) {
        for (unsigned i = 0; i < RIG_REACTORS; i++) {
            waiters[i][k] = client_of(r, i);
            client_say(waiters[i][k], "GET", target, RIG_REVIEWER, NULL, "");
        }
    }
    under_way_becomes(r, RIG_REACTORS * EACH);
    rig_drain(r);
    for (unsigned i = 0; i < RIG_REACTORS; i++)
        for (int k = 0; k < EACH; k++) {
            assert_int_equal(client_hear(waiters[i][k]), 503);
            assert_true(client_says(waiters[i][k], "\"code\":\"draining\""));
            client_close(waiters[i][k]);
        }
    under_way_becomes(r, 0);
    assert_int_equal(client_hear(requester), 0);
    client_close(requester);
    while (rig_connections(r) > 0) sched_yield();
    for (unsigned i = 0; i < RIG_REACTORS; i++)
        assert_int_equal(mailbox_depth(r->engine.post, i), 0);
    rig_stop(r);
}

/* The main thread's patience may end before the requests do. */
static void whoever_leaves_with_requests_under_way_leaves_nothing_behind(void **state)
{
    struct rig *r = *state;
    struct client *all[RIG_REACTORS], *requester = client_of(r, 2);
    char target[128], review[64], actor[32];
    asked_review(requester, "bot", 1, review);
    snprintf(target, sizeof target, "/v1/queue/%s/wait", review);
    clients_of_all(r, all);
    for (unsigned i = 0; i < RIG_REACTORS; i++)
        client_say(all[i], "GET", target, RIG_REVIEWER, NULL, "");
    under_way_becomes(r, RIG_REACTORS);
    atomic_store(&r->sync_stopped, true);
    struct client *stuck[16];
    for (int n = 0; n < 16; n++) {
        stuck[n] = client_of(r, (unsigned)n % RIG_REACTORS);
        snprintf(actor, sizeof actor, "other-%d", n);
        ask(stuck[n], actor, "refund", n);
    }
    while (rig_under_way(r) == RIG_REACTORS) sched_yield(); /* at least one of them is away */
    rig_stop(r);
    atomic_store(&r->sync_stopped, false);
    for (int n = 0; n < 16; n++) client_close(stuck[n]);
    clients_close(all);
    client_close(requester);
}

static void no_answer_of_another_reactor_comes_before_its_record_is_durable(void **state)
{
    struct rig *r = *state;
    struct client *all[RIG_REACTORS];
    char actor[32], review[64];
    clients_of_all(r, all);
    asked_review(all[0], "first", 0, review); /* everything is warm, and its block is synced */
    atomic_store(&r->sync_stopped, true);
    for (unsigned i = 0; i < RIG_REACTORS; i++) {
        snprintf(actor, sizeof actor, "bot-%u", i);
        ask(all[i], actor, "refund", (int)i);
    }
    struct client *other = client_of(r, 3);
    client_say(other, "POST", "/v1/actors/first/suspend", RIG_ADMIN, NULL, "");
    struct pollfd heard[RIG_REACTORS + 1];
    for (unsigned i = 0; i < RIG_REACTORS; i++)
        heard[i] = (struct pollfd){.fd = all[i]->fd, .events = POLLIN};
    heard[RIG_REACTORS] = (struct pollfd){.fd = other->fd, .events = POLLIN};
    assert_int_equal(poll(heard, RIG_REACTORS + 1, 200), 0);
    atomic_store(&r->sync_stopped, false);
    for (unsigned i = 0; i < RIG_REACTORS; i++) assert_true(decided(all[i], "human_review"));
    assert_int_equal(client_hear(other), 200);
    client_close(other);
    clients_close(all);
}

/* Whatever `durability` says: a use that a crash could give back was none. */
static void what_spends_is_answered_when_it_is_durable(void **state)
{
    struct rig *r = *state;
    char token[TOKEN_TEXT_MAX + 1];
    struct client *plain = client_of(r, 0), *limited = client_of(r, 0), *counted = client_of(r, 0);
    assert_int_equal(client_call(counted, "POST", "/v1/tokens/mint", RIG_AGENT,
                                 "{\"scope\":\"get_*\",\"max_uses\":5}"),
                     201);
    client_member(counted, "token", token, sizeof token);
    /* They have answered, so their reactor has begun, and sets it no more. */
    r->engine.reactors[0].commit.always_synced = false;
    atomic_store(&r->sync_stopped, true);
    ask(plain, "bot", "get_order", 1);
    assert_true(decided(plain, "allow"));
    ask(limited, "bot", "send", 1);
    client_say(counted, "POST", "/v1/agent/authorize", RIG_AGENT, token,
               "{\"action\":\"get_order\"}");
    struct pollfd heard[] = {{.fd = limited->fd, .events = POLLIN},
                             {.fd = counted->fd, .events = POLLIN}};
    assert_int_equal(poll(heard, 2, 200), 0);
    atomic_store(&r->sync_stopped, false);
    assert_true(decided(limited, "allow"));
    assert_true(decided(counted, "allow"));
    client_close(plain);
    client_close(limited);
    client_close(counted);
}

static void whoever_waits_is_told_no_earlier_than_the_resolution_is_durable(void **state)
{
    struct rig *r = *state;
    struct client *all[RIG_REACTORS], *resolver = client_of(r, 0);
    struct pollfd heard[RIG_REACTORS];
    char target[128], review[64];
    clients_of_all(r, all);
    asked_review(resolver, "bot", 0, review); /* its own block is synced */
    snprintf(target, sizeof target, "/v1/queue/%s/wait?timeout_ms=60000", review);
    for (unsigned i = 0; i < RIG_REACTORS; i++)
        client_say(all[i], "GET", target, RIG_REVIEWER, NULL, "");
    under_way_becomes(r, RIG_REACTORS);
    atomic_store(&r->sync_stopped, true);
    snprintf(target, sizeof target, "/v1/queue/%s/approve", review);
    client_say(resolver, "POST", target, RIG_REVIEWER, NULL, "");
    for (unsigned i = 0; i < RIG_REACTORS; i++)
        heard[i] = (struct pollfd){.fd = all[i]->fd, .events = POLLIN};
    assert_int_equal(poll(heard, RIG_REACTORS, 200), 0);
    atomic_store(&r->sync_stopped, false);
    assert_int_equal(client_hear(resolver), 200);
    for (unsigned i = 0; i < RIG_REACTORS; i++) {
        assert_int_equal(client_hear(all[i]), 200);
        assert_true(client_says(all[i], "\"status\":\"approved\""));
    }
    client_close(resolver);
    clients_close(all);
}

enum { FILLERS = 160, FILL_BYTES = 50000 };

/* More than all blocks of all reactors hold. */
static void blocks_fill(struct rig *r, struct client *all[FILLERS])
{
    static char body[FILL_BYTES + 200];
    for (unsigned i = 0; i < FILLERS; i++) {
        all[i] = client_of(r, i % RIG_REACTORS);
        int head = snprintf(body, sizeof body,
                            "{\"action\":\"%s\",\"actor\":\"bot-%u\",\"args\":{\"fill\":\"",
                            i % 4 == 3 ? "send" : "refund", i);
        memset(body + head, 'x', FILL_BYTES);
        snprintf(body + head + FILL_BYTES, 8, "\"}}");
        client_say(all[i], "POST", "/v1/agent/authorize", RIG_AGENT, NULL, body);
    }
}

/* All blocks of all reactors are full, and the writer stands still: sockets and mail wait, and
 * nobody is refused. A plain decision that has to come back to the origin for its record is among them. */
static void a_disk_that_stands_still_for_a_moment_delays_and_refuses_nobody(void **state)
{
    struct rig *r = *state;
    struct client *all[FILLERS];
    atomic_store(&r->write_stopped, true);
    blocks_fill(r, all);
    /* told each second */
    while (metrics_total(METRIC_MAILBOX_DEPTH) + metrics_total(METRIC_CALLS_HELD) == 0)
        sched_yield();
    atomic_store(&r->write_stopped, false);
    for (unsigned i = 0; i < FILLERS; i++) {
        assert_true(decided(all[i], i % 4 == 3 ? "allow" : "human_review"));
        client_close(all[i]);
    }
    under_way_becomes(r, 0);
}

static void every_route_declares_its_effect(void **state)
{
    (void)state;
    for (size_t i = 0; i < engine_route_count; i++) {
        const struct http_route *r = &engine_routes[i];
        if (r->effect == EFFECT_UNDECLARED) fail_msg("%s declares no effect", r->pattern);
        if (r->method == HTTP_GET && r->effect != EFFECT_READ) fail_msg("%s is a GET", r->pattern);
    }
}

/* What is refused, and what is not, while a reactor's disk stands still. */
static void refuses_what_is_looser(struct client *c)
{
    static const char *const refused[] = {"/v1/agent/authorize", "/v1/tokens/mint",
                                          "/v1/queue/rev_x/approve", "/v1/queue/rev_x/redeem",
                                          "/v1/actors/bot/resume"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(client_call(c, "POST", refused[i], RIG_AGENT, "{}"), 503);
        assert_true(client_says(c, "\"code\":\"overloaded\""));
        assert_true(client_says(c, "stands still"));
        assert_non_null(strstr(c->answer, "\r\nRetry-After: "));
    }
    assert_int_equal(client_call(c, "GET", "/readyz", RIG_AGENT, ""), 503);
    assert_true(client_says(c, "stands still"));
    assert_int_equal(client_call(c, "GET", "/livez", RIG_AGENT, ""), 200);
    assert_int_equal(client_call(c, "GET", "/v1/actors", RIG_ADMIN, ""), 200);
}

static void goes_on(struct client *c)
{
    while (client_call(c, "GET", "/readyz", RIG_AGENT, "") == 503) sched_yield();
    assert_int_equal(c->status, 200);
    assert_int_equal(client_call(c, "GET", "/healthz", RIG_AGENT, ""), 200);
    assert_true(client_says(c, "\"journal\":\"ok\""));
    ask(c, "bot", "get_order", 1);
    assert_true(decided(c, "allow"));
}

/* Nothing can be recorded any more: health is told and lists are shown all the same, and what is
 * new is refused. What was asked before is neither lost nor doubled, and a kill switch that was
 * thrown meanwhile is thrown. */
static void a_disk_that_writes_nothing_for_long_refuses_politely(void **state)
{
    struct rig *r = *state;
    struct client *all[FILLERS], *late = client_of(r, 0), *admin = client_of(r, 1);
    atomic_store(&r->write_stopped, true);
    blocks_fill(r, all);
    do assert_int_equal(client_call(late, "GET", "/healthz", RIG_AGENT, ""), 200);
    while (!client_says(late, "stands still"));
    assert_true(client_says(late, "\"status\":\"degraded\""));
    refuses_what_is_looser(late);
    client_say(admin, "POST", "/v1/actors/bad/suspend", RIG_ADMIN, NULL, "{}");
    atomic_store(&r->write_stopped, false);
    unsigned served = 0, refused = 0;
    for (unsigned i = 0; i < FILLERS; i++) {
        int status = client_hear(all[i]);
        assert_true(status == 200 || status == 503);
        (*(status == 200 ? &served : &refused))++;
        client_close(all[i]);
    }
    assert_true(served > 0 && refused > 0);
    assert_int_equal(client_hear(admin), 200);
    goes_on(late);
    ask(late, "bad", "get_order", 1);
    assert_true(decided(late, "deny"));
    client_close(late);
    client_close(admin);
    under_way_becomes(r, 0);
}

/* What is wholly on disk can be read all the same, and a wait ends with its time. */
static void a_review_can_be_read_and_waited_for_while_the_disk_stands_still(void **state)
{
    struct rig *r = *state;
    struct client *all[FILLERS], *waits = client_of(r, 1), *reads = client_of(r, 2);
    char review[64], target[128];
    asked_review(reads, "first", 0, review);
    snprintf(target, sizeof target, "/v1/queue/%s/wait?timeout_ms=1500", review);
    client_say(waits, "GET", target, RIG_REVIEWER, NULL, "");
    under_way_becomes(r, 1);
    atomic_store(&r->write_stopped, true);
    blocks_fill(r, all);
    do assert_int_equal(client_call(reads, "GET", "/healthz", RIG_AGENT, ""), 200);
    while (!client_says(reads, "stands still"));
    snprintf(target, sizeof target, "/v1/queue/%s", review);
    assert_int_equal(client_call(reads, "GET", target, RIG_REVIEWER, ""), 200);
    assert_true(client_says(reads, "\"status\":\"pending\""));
    assert_int_equal(client_hear(waits), 200);
    assert_true(client_says(waits, "\"status\":\"pending\""));
    atomic_store(&r->write_stopped, false);
    for (unsigned i = 0; i < FILLERS; i++) {
        client_hear(all[i]);
        client_close(all[i]);
    }
    client_close(waits);
    client_close(reads);
    under_way_becomes(r, 0);
}

/* The kernel takes what is written, and the disk syncs nothing of it. */
static void a_disk_that_syncs_nothing_for_long_refuses_politely(void **state)
{
    struct rig *r = *state;
    struct client *first = client_of(r, 0), *other = client_of(r, 1);
    atomic_store(&r->sync_stopped, true);
    ask(first, "bot", "get_order", 1);
    do assert_int_equal(client_call(other, "GET", "/healthz", RIG_AGENT, ""), 200);
    while (!client_says(other, "stands still"));
    refuses_what_is_looser(other);
    atomic_store(&r->sync_stopped, false);
    assert_true(decided(first, "allow"));
    goes_on(other);
    client_close(first);
    client_close(other);
}

static void after_the_answer_of_a_suspension_every_reactor_denies(void **state)
{
    struct rig *r = *state;
    struct client *all[RIG_REACTORS];
    char actor[32], target[128];
    clients_of_all(r, all);
    for (int n = 0; n < 60; n++) {
        snprintf(actor, sizeof actor, "bot-%d", n);
        ask(all[(n + 1) % RIG_REACTORS], actor, "get_order", n);
        assert_true(decided(all[(n + 1) % RIG_REACTORS], "allow"));
        snprintf(target, sizeof target, "/v1/actors/%s/suspend", actor);
        assert_int_equal(
            client_call(all[n % RIG_REACTORS], "POST", target, RIG_ADMIN, "{\"reason\":\"drill\"}"),
            200);
        for (unsigned i = 0; i < RIG_REACTORS; i++) ask(all[i], actor, "get_order", n);
        for (unsigned i = 0; i < RIG_REACTORS; i++) {
            assert_true(decided(all[i], "deny"));
            assert_true(client_says(all[i], "\"rule\":\"actor:suspended\""));
        }
        if (n % 2 == 0) continue;
        snprintf(target, sizeof target, "/v1/actors/%s/resume", actor);
        assert_int_equal(client_call(all[n % RIG_REACTORS], "POST", target, RIG_ADMIN, ""), 200);
        for (unsigned i = 0; i < RIG_REACTORS; i++) ask(all[i], actor, "get_order", n);
        for (unsigned i = 0; i < RIG_REACTORS; i++) assert_true(decided(all[i], "allow"));
    }
    clients_close(all);
}

/* An actor whose slot is that reactor's. */
static void actor_of(unsigned engine_reactor, char to[32])
{
    struct hasher *h = hasher_create();
    int n = 0;
    do snprintf(to, 32, "bot-%d", n++);
    while (slot_owner(slot_of_subject(h, STR("acme"), false, str_from(to)), RIG_REACTORS) !=
           engine_reactor);
    hasher_destroy(h);
}

/* One of reactor 3 that was suspended; its resumption is written, and nothing is synced any more. The
 * client has not been answered. */
static void resumes_unsynced(struct rig *r, struct client *c, char to[32])
{
    char target[128];
    actor_of(3, to);
    snprintf(target, sizeof target, "/v1/actors/%s/suspend", to);
    assert_int_equal(client_call(c, "POST", target, RIG_ADMIN, ""), 200);
    atomic_store(&r->sync_stopped, true);
    snprintf(target, sizeof target, "/v1/actors/%s/resume", to);
    client_say(c, "POST", target, RIG_ADMIN, NULL, "");
    while (!rig_has_written(r, "actor.resumed")) sched_yield();
}

/* It could be lost yet, when what it let through is not. */
static void a_resumption_that_is_not_durable_lets_nothing_through(void **state)
{
    struct rig *r = *state;
    struct client *admin = client_of(r, 3), *elsewhere = client_of(r, 0);
    char actor[32];
    resumes_unsynced(r, admin, actor);
    ask(elsewhere, actor, "get_order", 4711);
    while (!rig_has_written(r, "{\"n\":4711}")) sched_yield();
    atomic_store(&r->sync_stopped, false);
    assert_true(decided(elsewhere, "deny"));
    assert_true(client_says(elsewhere, "\"rule\":\"actor:suspended\""));
    assert_int_equal(client_hear(admin), 200);
    ask(elsewhere, actor, "get_order", 1);
    assert_true(decided(elsewhere, "allow"));
    client_close(admin);
    client_close(elsewhere);
}

/* The later one holds, whatever becomes durable when. */
static void a_suspension_overtakes_a_resumption_that_nobody_knows_of(void **state)
{
    struct rig *r = *state;
    struct client *first = client_of(r, 3), *second = client_of(r, 3), *all[RIG_REACTORS];
    char actor[32], target[128];
    clients_of_all(r, all);
    resumes_unsynced(r, first, actor);
    snprintf(target, sizeof target, "/v1/actors/%s/suspend", actor);
    client_say(second, "POST", target, RIG_ADMIN, NULL, "{\"reason\":\"once more\"}");
    while (!rig_has_written(r, "once more")) sched_yield();
    atomic_store(&r->sync_stopped, false);
    assert_int_equal(client_hear(first), 200);
    assert_int_equal(client_hear(second), 200);
    for (unsigned i = 0; i < RIG_REACTORS; i++) ask(all[i], actor, "get_order", 1);
    for (unsigned i = 0; i < RIG_REACTORS; i++) assert_true(decided(all[i], "deny"));
    clients_close(all);
    client_close(first);
    client_close(second);
}

static void after_the_answer_of_a_revocation_no_reactor_takes_the_token(void **state)
{
    struct rig *r = *state;
    struct client *all[RIG_REACTORS];
    char token[TOKEN_TEXT_MAX + 1], id[64], target[128];
    const char *use = "{\"action\":\"get_order\"}";
    clients_of_all(r, all);
    for (int n = 0; n < 60; n++) {
        unsigned minter = (unsigned)n % RIG_REACTORS, revoker = (unsigned)(n / 4) % RIG_REACTORS;
        assert_int_equal(
            client_call(all[minter], "POST", "/v1/tokens/mint", RIG_AGENT, "{\"scope\":\"get_*\"}"),
            201);
        client_member(all[minter], "token", token, sizeof token);
        client_member(all[minter], "token_id", id, sizeof id);
        for (unsigned i = 0; i < RIG_REACTORS; i++)
            client_say(all[i], "POST", "/v1/agent/authorize", RIG_AGENT, token, use);
        for (unsigned i = 0; i < RIG_REACTORS; i++) assert_true(decided(all[i], "allow"));
        snprintf(target, sizeof target, "/v1/tokens/%s", id);
        assert_int_equal(client_call(all[revoker], "DELETE", target, RIG_AGENT, ""), 200);
        for (unsigned i = 0; i < RIG_REACTORS; i++)
            client_say(all[i], "POST", "/v1/agent/authorize", RIG_AGENT, token, use);
        for (unsigned i = 0; i < RIG_REACTORS; i++) assert_int_equal(client_hear(all[i]), 401);
    }
    clients_close(all);
}

/* Suspending once more records nothing, so the answer waits for the other reactors alone, and no
 * disk rings; whoever saw it last has to, or the answer would come with some timer's next
 * second. */
static void the_last_to_see_a_revocation_rings_whoever_waits_for_it(void **state)
{
    struct rig *r = *state;
    enum { ROUNDS = 60, LATE_NS = 250000000 };
    struct client *admin = client_of(r, 0);
    int late = 0; /* most of them would be; on a machine that is slow a few are */
    for (int n = 0; n < ROUNDS; n++) {
        uint64_t begun_ns = world_monotonic_ns();
        const char *target = n % 2 == 0 ? "/v1/actors/bot/suspend" : "/v1/actors/other/suspend";
        assert_int_equal(client_call(admin, "POST", target, RIG_ADMIN, ""), 200);
        if (world_monotonic_ns() - begun_ns > LATE_NS) late++;
    }
    assert_in_range(late, 0, ROUNDS / 2);
    client_close(admin);
}

static void uses_of_a_token_are_exact_over_all_reactors(void **state)
{
    struct rig *r = *state;
    struct client *all[16];
    char token[TOKEN_TEXT_MAX + 1];
    unsigned allowed = 0, refused = 0;
    for (unsigned i = 0; i < 16; i++) all[i] = client_of(r, i % RIG_REACTORS);
    assert_int_equal(client_call(all[0], "POST", "/v1/tokens/mint", RIG_AGENT,
                                 "{\"scope\":\"get_*\",\"max_uses\":100}"),
                     201);
    client_member(all[0], "token", token, sizeof token);
    for (int n = 0; n < 10; n++) {
        for (unsigned i = 0; i < 16; i++)
            client_say(all[i], "POST", "/v1/agent/authorize", RIG_AGENT, token,
                       "{\"action\":\"get_order\"}");
        for (unsigned i = 0; i < 16; i++) {
            if (decided(all[i], "allow"))
                allowed++;
            else if (client_says(all[i], "\"rule\":\"token:uses\""))
                refused++;
        }
    }
    assert_int_equal(allowed, 100);
    assert_int_equal(refused, 60);
    for (unsigned i = 0; i < 16; i++) client_close(all[i]);
}

/* What is denied after the use was taken gives back what it counted, and not the use. */
static void a_use_of_a_token_stays_spent_whatever_is_decided(void **state)
{
    struct rig *r = *state;
    struct client *c = client_of(r, 0);
    char token[TOKEN_TEXT_MAX + 1];
    for (int n = 0; n < 30; n++) {
        ask(c, "payer", "pay", n);
        assert_true(decided(c, "allow"));
    }
    assert_int_equal(
        client_call(c, "POST", "/v1/tokens/mint", RIG_AGENT, "{\"scope\":\"pay\",\"max_uses\":2}"),
        201);
    client_member(c, "token", token, sizeof token);
    for (int n = 0; n < 3; n++) {
        client_say(c, "POST", "/v1/agent/authorize", RIG_AGENT, token, "{\"action\":\"pay\"}");
        assert_true(decided(c, "deny"));
        assert_true(client_says(c, n < 2 ? "\"rule\":\"limit:few\"" : "\"rule\":\"token:uses\""));
    }
    client_close(c);
}

static void minted_for_one_use(struct client *c, char token[TOKEN_TEXT_MAX + 1])
{
    assert_int_equal(
        client_call(c, "POST", "/v1/tokens/mint", RIG_AGENT, "{\"scope\":\"*\",\"max_uses\":1}"),
        201);
    client_member(c, "token", token, TOKEN_TEXT_MAX + 1);
}

/* The one use is there. */
static void has_its_use(struct client *c, const char *token)
{
    client_say(c, "POST", "/v1/agent/authorize", RIG_AGENT, token, "{\"action\":\"get_order\"}");
    assert_true(decided(c, "allow"));
}

static void a_use_of_a_token_comes_back_where_no_decision_can_be_recorded(void **state)
{
    struct rig *r = *state;
    struct client *c = client_of(r, 0);
    char token[TOKEN_TEXT_MAX + 1];
    minted_for_one_use(c, token);
    atomic_store(&r->disk_full, true);
    while (!journal_is_full(r->engine.journal)) sched_yield();
    client_say(c, "POST", "/v1/agent/authorize", RIG_AGENT, token, "{\"action\":\"get_order\"}");
    assert_int_equal(client_hear(c), 503);
    assert_true(client_says(c, "\"code\":\"journal_full\""));
    atomic_store(&r->disk_full, false);
    while (journal_is_full(r->engine.journal)) sched_yield();
    has_its_use(c, token);
    client_close(c);
}

/* Its scope alone, escaped, is longer than an event may be. */
static void a_use_of_a_token_comes_back_where_the_request_is_too_large_for_a_record(void **state)
{
    struct rig *r = *state;
    struct client *c = client_of(r, 0);
    char token[TOKEN_TEXT_MAX + 1];
    static char bytes[72 << 10];
    struct buf body = buf_over(bytes, sizeof bytes - 1);
    minted_for_one_use(c, token);
    buf_put_literal(&body, "{\"action\":\"get_order\",\"scope\":[\"*\"");
    while (body.size < LIMIT_EVENT_BYTES) {
        buf_put_literal(&body, ",\"");
        for (int i = 0; i < 256; i++) buf_put_literal(&body, "\\u0001");
        buf_put_literal(&body, "\"");
    }
    buf_put_literal(&body, "]}");
    assert_false(body.overflow);
    client_say(c, "POST", "/v1/agent/authorize", RIG_AGENT, token, bytes);
    assert_int_equal(client_hear(c), 413);
    has_its_use(c, token);
    client_close(c);
}

/* What is counted is what was allowed: a safe call that no record can hold is denied. */
static void a_safe_call_too_large_to_be_recorded_counts_nothing(void **state)
{
    struct rig *r = *state;
    struct client *c = client_of(r, 0);
    static char body[48 << 10], text[40 << 10];
    memset(text, 'x', sizeof text - 1);
    snprintf(body, sizeof body, "{\"action\":\"copy\",\"args\":{\"text\":\"%s\"}}", text);
    client_say(c, "POST", "/v1/agent/authorize", RIG_AGENT, NULL, body);
    assert_true(decided(c, "deny"));
    assert_true(client_says(c, "\"rule\":\"limit:record\""));
    for (int n = 0; n < 2; n++) {
        client_say(c, "POST", "/v1/agent/authorize", RIG_AGENT, NULL,
                   "{\"action\":\"copy\",\"args\":{\"text\":\"x\"}}");
        assert_true(decided(c, n == 0 ? "compute" : "deny"));
    }
    client_close(c);
}

/* A redemption is the end of a request whose use was taken when it was asked. */
static void a_redemption_takes_no_further_use_of_its_token(void **state)
{
    struct rig *r = *state;
    struct client *c = client_of(r, 0);
    const char *body = "{\"action\":\"refund\"}";
    char token[TOKEN_TEXT_MAX + 1], review[64], target[128];
    assert_int_equal(client_call(c, "POST", "/v1/tokens/mint", RIG_AGENT,
                                 "{\"scope\":\"refund\",\"max_uses\":1}"),
                     201);
    client_member(c, "token", token, sizeof token);
    client_say(c, "POST", "/v1/agent/authorize", RIG_AGENT, token, body);
    assert_true(decided(c, "human_review"));
    client_member(c, "review_id", review, sizeof review);
    assert_int_equal(resolve(c, review, "approve", RIG_REVIEWER), 200);
    snprintf(target, sizeof target, "/v1/queue/%s/redeem", review);
    client_say(c, "POST", target, RIG_AGENT, token, body);
    assert_true(decided(c, "allow"));
    client_say(c, "POST", "/v1/agent/authorize", RIG_AGENT, token, body);
    assert_true(decided(c, "deny"));
    assert_true(client_says(c, "\"rule\":\"token:uses\""));
    client_close(c);
}

static void a_limit_is_exact_over_all_reactors(void **state)
{
    struct rig *r = *state;
    struct client *all[16];
    unsigned allowed = 0;
    for (unsigned i = 0; i < 16; i++) all[i] = client_of(r, i % RIG_REACTORS);
    for (int n = 0; n < 5; n++) {
        for (unsigned i = 0; i < 16; i++) ask(all[i], "payer", "pay", n);
        for (unsigned i = 0; i < 16; i++)
            if (decided(all[i], "allow")) allowed++;
    }
    assert_int_equal(allowed, 30);
    for (unsigned i = 0; i < 16; i++) client_close(all[i]);
}

/* Requests that visit other reactors, while the bundle that they point into is
 * replaced again and again. */
static void a_bundle_lives_as_long_as_whoever_is_away_with_it(void **state)
{
    struct rig *r = *state;
    enum { CLIENTS = 16, ROUNDS = 60 };
    struct client *all[CLIENTS];
    char actor[32];
    for (unsigned i = 0; i < CLIENTS; i++) all[i] = client_of(r, i % RIG_REACTORS);
    for (unsigned n = 0; n < ROUNDS; n++) {
        for (unsigned i = 0; i < CLIENTS; i++) {
            snprintf(actor, sizeof actor, "bot-%u-%u", n, i);
            ask(all[i], actor, i % 2 == 0 ? "refund" : "send", (int)n);
        }
        rig_swap(r, rig_bundle(r, n + 2));
        for (unsigned i = 0; i < CLIENTS; i++)
            assert_true(decided(all[i], i % 2 == 0 ? "human_review" : "allow"));
    }
    for (unsigned i = 0; i < CLIENTS; i++) client_close(all[i]);
}

static void of_many_resolutions_at_once_one_wins(void **state)
{
    struct rig *r = *state;
    enum { CLIENTS = 12 };
    struct client *requester = client_of(r, 0), *all[CLIENTS];
    char actor[32], target[128], review[64];
    for (unsigned i = 0; i < CLIENTS; i++) all[i] = client_of(r, i % RIG_REACTORS);
    for (int n = 0; n < 50; n++) {
        unsigned approved = 0, denied = 0;
        snprintf(actor, sizeof actor, "bot-%d", n);
        asked_review(requester, actor, n, review);
        for (unsigned i = 0; i < CLIENTS; i++) {
            snprintf(target, sizeof target, "/v1/queue/%s/%s", review,
                     i % 2 == 0 ? "approve" : "deny");
            client_say(all[i], "POST", target, i % 2 == 0 ? RIG_REVIEWER : RIG_OTHER_REVIEWER, NULL,
                       "");
        }
        for (unsigned i = 0; i < CLIENTS; i++) {
            int status = client_hear(all[i]);
            assert_true(status == 200 || status == 409);
            /* the winner's repetitions are 200 too */
            if (status == 200) (*(i % 2 == 0 ? &approved : &denied))++;
        }
        assert_true((approved == CLIENTS / 2) != (denied == CLIENTS / 2));
        assert_true(approved == 0 || denied == 0);
    }
    client_close(requester);
    for (unsigned i = 0; i < CLIENTS; i++) client_close(all[i]);
}

int main(void)
{
    alarm(HANG_SECONDS);
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TEST_IMPATIENT(name) cmocka_unit_test_setup_teardown(name, set_up_impatient, tear_down)
        TEST(every_route_declares_its_effect),
        TEST(a_review_is_one_and_the_same_from_every_reactor),
        TEST(a_list_is_gathered_from_all_shards_in_order),
        TEST(whoever_waits_is_woken_wherever_it_waits),
        TEST(a_wait_ends_with_its_time),
        TEST(a_client_that_went_away_while_waiting_is_forgotten),
        TEST(answers_of_a_drain_are_503_and_everybody_leaves),
        TEST(whoever_leaves_with_requests_under_way_leaves_nothing_behind),
        TEST(no_answer_of_another_reactor_comes_before_its_record_is_durable),
        TEST(what_spends_is_answered_when_it_is_durable),
        TEST(whoever_waits_is_told_no_earlier_than_the_resolution_is_durable),
        TEST(a_disk_that_stands_still_for_a_moment_delays_and_refuses_nobody),
        TEST_IMPATIENT(a_disk_that_writes_nothing_for_long_refuses_politely),
        TEST_IMPATIENT(a_disk_that_syncs_nothing_for_long_refuses_politely),
        TEST_IMPATIENT(a_review_can_be_read_and_waited_for_while_the_disk_stands_still),
        TEST(after_the_answer_of_a_suspension_every_reactor_denies),
        TEST(a_resumption_that_is_not_durable_lets_nothing_through),
        TEST(a_suspension_overtakes_a_resumption_that_nobody_knows_of),
        TEST(after_the_answer_of_a_revocation_no_reactor_takes_the_token),
        TEST(the_last_to_see_a_revocation_rings_whoever_waits_for_it),
        TEST(uses_of_a_token_are_exact_over_all_reactors),
        TEST(a_use_of_a_token_stays_spent_whatever_is_decided),
        TEST(a_use_of_a_token_comes_back_where_no_decision_can_be_recorded),
        TEST(a_use_of_a_token_comes_back_where_the_request_is_too_large_for_a_record),
        TEST(a_safe_call_too_large_to_be_recorded_counts_nothing),
        TEST(a_redemption_takes_no_further_use_of_its_token),
        TEST(a_limit_is_exact_over_all_reactors),
        TEST(a_bundle_lives_as_long_as_whoever_is_away_with_it),
        TEST(of_many_resolutions_at_once_one_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
