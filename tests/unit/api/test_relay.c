/* test_relay.c - requests to the leader of a fleet: whole, over kept connections, and what becomes of
 * them when another engine leads. */
#include "unit/http/script.h"

#include "api/api.h"

#define OK "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nX-Request-ID: r-1\r\n\r\n"
#define NOT_YET                                                                                    \
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 25\r\n\r\n{\"code\":\"leader_changed\"}"
#define READ                                                                                       \
    "GET /v1/queue/rev_1/wait?timeout_ms=9 HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer wk_x\r\n\r\n"
#define CHANGE                                                                                     \
    "POST /v1/queue/rev_1/approve HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer wk_x\r\n"           \
    "Idempotency-Key: k-1\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n"         \
    "{\"note\":\"ok\"}"

struct replica {
    struct rig rig; /* with a server of its own */
    struct api api;
    struct forward *forward;
    bool reaches;
    unsigned reports;
};

static void note_reach(void *context, bool reaches)
{
    struct replica *r = context;
    r->reaches = reaches;
    r->reports++;
}

static void relay(void *context, struct http_exchange *x)
{
    struct replica *r = context;
    forward_relay(r->forward, x, x->method == HTTP_GET);
}

static void refuse(void *context, struct http_exchange *x, const struct fault *f)
{
    api_refuse(&((struct replica *)context)->api, x, f, (struct str){0});
}

static struct replica *replica_create(void)
{
    static const struct http_route routes[] = {
        {.method = HTTP_GET, .pattern = "/v1/queue/{id}/wait", .handle = relay},
        {.method = HTTP_POST,
         .pattern = "/v1/queue/{id}/approve",
         .body = HTTP_BODY_JSON,
         .handle = relay}};
    struct replica *r = calloc(1, sizeof *r);
    struct rig *rig = &r->rig;
    const struct http_limits limits = rig_limits();
    const struct http_service service = {
        .routes = routes, .route_count = 2, .context = r, .handle = relay, .refuse = refuse};
    rig->loop = loop_create();
    rig->server = http_server_create(rig->loop, &service, &limits);
    loop_timer_start(rig->loop, &rig->tick, RIG_TICK_MS, rig_ticked);
    r->api.sheet = metrics_sheet_create();
    r->api.replies_2xx = METRIC_ENGINE_REPLIES_2XX;
    r->reaches = true;
    r->forward =
        forward_create_to_leader(&r->api, rig->loop, &rig->server, NULL, 64, 1000, note_reach, r);
    return r;
}

static void replica_destroy(struct replica *r)
{
    forward_destroy(r->forward);
    http_server_destroy(r->rig.server);
    loop_timer_stop(r->rig.loop, &r->rig.tick);
    loop_destroy(r->rig.loop);
    free(r);
}

static void lead(struct replica *r, const char *address, const char *mark)
{
    forward_lead(r->forward, str_from(address), str_from(mark));
}

static void assert_refused(struct replica *r, struct peer *p, const char *code)
{
    char text[64];
    snprintf(text, sizeof text, "\"code\":\"%s\"", code);
    assert_int_equal(rig_hear(&r->rig, p, 1), 1);
    if (!heard(p, text)) fail_msg("not %s: %s", code, p->heard);
    assert_int_equal(heard_status(p), 503);
    assert_true(heard(p, "Retry-After: 1\r\n"));
}

/* Turns until so many requests are at the peer. */
static void await_requests(struct replica *r, struct script *s, size_t count)
{
    while (atomic_load(&s->requests) < count) loop_turn(r->rig.loop, true);
}

static void a_request_reaches_the_leader_whole_and_its_answer_comes_back(void **state)
{
    static const char *const lines[] = {OK "1|" OK "2|" OK "3"};
    (void)state;
    struct script leader;
    script_start(&leader, lines, 1);
    struct replica *r = replica_create();
    struct peer *p = rig_connect(&r->rig);
    lead(r, leader.address, "b/7");
    for (char i = '1'; i <= '3'; i++) {
        peer_forget(p);
        rig_say(&r->rig, p, CHANGE);
        assert_int_equal(rig_hear(&r->rig, p, 1), 1);
        assert_int_equal(heard_status(p), 200);
        assert_int_equal(p->heard[p->size - 1], i);
        assert_true(heard(p, "X-Request-ID: r-1\r\n"));
    }
    const char *sent = last_request(&leader);
    assert_non_null(strstr(sent, "POST /v1/queue/rev_1/approve HTTP/1.1\r\n"));
    assert_non_null(strstr(sent, "authorization: Bearer wk_x\r\n"));
    assert_non_null(strstr(sent, "idempotency-key: k-1\r\n"));
    assert_non_null(strstr(sent, "Writ-Relay: b/7\r\n"));
    assert_non_null(strstr(sent, "{\"note\":\"ok\"}"));
    assert_int_equal(atomic_load(&leader.connections), 1);
    peer_close(p);
    replica_destroy(r);
    script_stop(&leader);
}

static void without_a_leader_requests_are_refused(void **state)
{
    (void)state;
    struct sockaddr_in at;
    char nowhere[64];
    close(rig_listen(&at));
    snprintf(nowhere, sizeof nowhere, "http://127.0.0.1:%d", ntohs(at.sin_port));
    const char *const addresses[] = {"", nowhere};
    for (size_t i = 0; i < 2; i++) {
        struct replica *r = replica_create();
        struct peer *p = rig_connect(&r->rig);
        lead(r, addresses[i], "b/7");
        rig_say(&r->rig, p, CHANGE);
        assert_refused(r, p, "no_leader");
        peer_forget(p);
        rig_say(&r->rig, p, READ);
        assert_refused(r, p, "no_leader");
        assert_int_equal(r->reports, i);
        assert_int_equal(r->reaches, i == 0);
        peer_close(p);
        replica_destroy(r);
    }
}

/* It has closed the connection without an answer. */
static void what_the_leader_may_have_done_is_not_called_undone(void **state)
{
    static const char *const lines[] = {"|"};
    (void)state;
    struct script leader;
    script_start(&leader, lines, 1);
    struct replica *r = replica_create();
    struct peer *p = rig_connect(&r->rig);
    lead(r, leader.address, "b/7");
    rig_say(&r->rig, p, CHANGE);
    assert_refused(r, p, "outcome_unknown");
    assert_int_equal(r->reports, 0);
    peer_close(p);
    replica_destroy(r);
    script_stop(&leader);
}

static void another_leader_is_asked_what_the_former_has_not_answered(void **state)
{
    static const char *const silent[] = {"~", "~"}, *const lines[] = {OK "8"};
    (void)state;
    struct script former, next;
    script_start(&former, silent, 2);
    script_start(&next, lines, 1);
    struct replica *r = replica_create();
    struct peer *reads = rig_connect(&r->rig), *changes = rig_connect(&r->rig);
    lead(r, former.address, "b/7");
    rig_say(&r->rig, reads, READ);
    await_requests(r, &former, 1);
    rig_say(&r->rig, changes, CHANGE);
    for (unsigned i = 0; i < 50; i++)
        loop_turn(r->rig.loop, true); /* its connection is taken later */
    lead(r, next.address, "b/8");
    assert_refused(r, changes, "outcome_unknown");
    assert_int_equal(rig_hear(&r->rig, reads, 1), 1);
    assert_int_equal(heard_status(reads), 200);
    assert_int_equal(reads->heard[reads->size - 1], '8');
    assert_non_null(
        strstr(last_request(&next), "GET /v1/queue/rev_1/wait?timeout_ms=9 HTTP/1.1\r\n"));
    assert_non_null(strstr(last_request(&next), "Writ-Relay: b/8\r\n"));
    assert_non_null(strstr(last_request(&next), "authorization: Bearer wk_x\r\n"));
    assert_int_equal(atomic_load(&next.requests), 1);
    peer_close(reads);
    peer_close(changes);
    replica_destroy(r);
    script_stop(&former);
    script_stop(&next);
}

/* A read is asked again; a change is not, since its client decides. */
static void a_leader_that_does_not_serve_yet_is_asked_again(void **state)
{
    static const char *const lines[] = {NOT_YET "|" NOT_YET "|" OK "3|" NOT_YET};
    (void)state;
    struct script leader;
    script_start(&leader, lines, 1);
    struct replica *r = replica_create();
    struct peer *p = rig_connect(&r->rig);
    lead(r, leader.address, "b/7");
    rig_say(&r->rig, p, READ);
    assert_int_equal(rig_hear(&r->rig, p, 1), 1);
    assert_int_equal(heard_status(p), 200);
    assert_int_equal(atomic_load(&leader.requests), 3);
    peer_forget(p);
    rig_say(&r->rig, p, CHANGE);
    assert_int_equal(rig_hear(&r->rig, p, 1), 1);
    assert_true(heard(p, "leader_changed"));
    assert_int_equal(atomic_load(&leader.requests), 4);
    peer_close(p);
    replica_destroy(r);
    script_stop(&leader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_reaches_the_leader_whole_and_its_answer_comes_back),
        cmocka_unit_test(without_a_leader_requests_are_refused),
        cmocka_unit_test(what_the_leader_may_have_done_is_not_called_undone),
        cmocka_unit_test(a_leader_that_does_not_serve_yet_is_asked_again),
        cmocka_unit_test(another_leader_is_asked_what_the_former_has_not_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
