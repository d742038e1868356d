/* What is told where a bound is reached: as many requests away as may be, as much counted as may. */
#include "still_rig.h"

/* ---- no more may be away ---- */

/* So many of that reactor's requests are away, as far as it knows: told while it stands still. */
static void so_many_are_away(struct rig *r, unsigned engine_reactor, unsigned calls_away)
{
    stop(r, engine_reactor);
    r->engine.reactors[engine_reactor].calls_away = calls_away;
    go_on(engine_reactor);
}

static void assert_overloaded(struct client *c)
{
    assert_int_equal(client_hear(c), 503);
    assert_true(client_says(c, "\"code\":\"overloaded\""));
}

static void who_may_not_leave_is_refused_and_no_sooner(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, ORIGIN, AWAY);
    so_many_are_away(r, ORIGIN, LIMIT_CALLS_AWAY);
    ask(p.asks, NULL, "send", p.actor);
    assert_overloaded(p.asks);
    ask(p.asks, NULL, "get_order", p.actor);
    assert_true(decided(p.asks, "allow"));
    so_many_are_away(r, ORIGIN, LIMIT_CALLS_AWAY - 1);
    ask(p.asks, NULL, "send", p.actor);
    assert_true(decided(p.asks, "allow"));
    so_many_are_away(r, ORIGIN, 0);
    people_leave(&p);
}

/* What not all shards have answered is neither "there is none" nor done. */
static void what_not_everybody_could_be_asked_is_told_as_that(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, ORIGIN, AWAY);
    struct client *admin = client_of(r, ORIGIN);
    char review[64], trace[160], target[256];
    given_review(&p, NULL, review);
    client_member(p.asks, "trace_id", trace, sizeof trace);
    so_many_are_away(r, ORIGIN, LIMIT_CALLS_AWAY);
    snprintf(target, sizeof target, "/v1/queue/%s", trace);
    client_say(p.asks, "GET", target, RIG_REVIEWER, NULL, "");
    assert_overloaded(p.asks);
    suspend(admin,
            p.actor); /* it is: but what waits under other spellings of its name was not denied */
    assert_overloaded(admin);
    introspect(p.probes, &p.token); /* nor is anybody asked whether that is durable */
    assert_overloaded(p.probes);
    so_many_are_away(r, ORIGIN, 0);
    suspend(admin, p.actor);
    assert_int_equal(client_hear(admin), 200);
    introspect(p.probes, &p.token);
    assert_int_equal(client_hear(p.probes), 200);
    assert_string_equal(p.probes->body, "{\"active\":false}");
    client_close(admin);
    people_leave(&p);
}

/* ---- a limit that is reached ---- */

/* It holds the approval while it counts, and lets go of it: the next is not kept waiting. */
static void a_redemption_over_its_limit_leaves_the_approval_to_the_next(void **state)
{
    struct rig *r = *state;
    struct client *c = client_of(r, ORIGIN);
    const char *body = "{\"action\":\"wire\",\"actor\":\"wirer\"}";
    char review[64], target[128];
    for (int n = 0; n < 2; n++) {
        ask(c, NULL, "wire", "wirer");
        assert_true(decided(c, "human_review"));
        client_member(c, "review_id", review, sizeof review);
        snprintf(target, sizeof target, "/v1/queue/%s/approve", review);
        assert_int_equal(client_call(c, "POST", target, RIG_REVIEWER, ""), 200);
        snprintf(target, sizeof target, "/v1/queue/%s/redeem", review);
        for (int k = 0; k <= n; k++) { /* the second one twice */
            assert_int_equal(client_call(c, "POST", target, RIG_AGENT, body), 200);
            assert_true(
                client_says(c, n == 0 ? "\"decision\":\"allow\"" : "\"rule\":\"limit:one-wire\""));
        }
    }
    client_close(c);
}

int main(void)
{
    alarm(HANG_SECONDS);
    const struct CMUnitTest tests[] = {
        TEST(who_may_not_leave_is_refused_and_no_sooner),
        TEST(what_not_everybody_could_be_asked_is_told_as_that),
        TEST(a_redemption_over_its_limit_leaves_the_approval_to_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
