/* What changes while a request is away at another reactor, and what is told of what could still be
 * lost. A reactor stands where the test wants it to, so nothing here is left to chance: what has to
 * happen is waited for, and a call that is lost would hang. */
#include "still_rig.h"

/* ---- overtaken ---- */

static void a_token_that_was_revoked_while_its_request_was_counted_allows_nothing(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, THIRD, AWAY);
    stop(r, AWAY);
    ask(p.asks, p.token.text, "send", p.actor);
    one_is_away(r);
    end_token(p.probes, &p.token); /* it is this reactor's own, and told at once */
    struct client *probes = client_of(r, ORIGIN);
    hears_of_revocation(probes, &p.token, p.actor);
    go_on(AWAY);
    assert_int_equal(client_hear(p.asks), 401);
    assert_true(client_says(p.asks, "credential_revoked"));
    assert_int_equal(client_hear(p.probes), 200);
    client_close(probes);
    people_leave(&p);
}

static void an_actor_that_was_suspended_while_its_request_was_counted_is_denied(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, THIRD, AWAY);
    stop(r, AWAY);
    ask(p.asks, NULL, "send", p.actor);
    one_is_away(r);
    is_suspended(&p);
    go_on(AWAY);
    assert_true(denied_as_suspended(p.asks));
    assert_int_equal(client_hear(p.admin), 200);
    people_leave(&p);
}

/* An Idempotency-Key of the agent's mints that is that reactor's. */
static void retry_key_of(unsigned engine_reactor, char to[64])
{
    struct hasher *h = hasher_create();
    struct id key = {{1}};
    char id[ID_TEXT], name[32];
    struct slot_key slot;
    int n = 0;
    key.bytes[ID_BYTES - 1] = RIG_AGENT + 1;
    id_write("key_", key, id);
    do {
        struct arena arena;
        struct digest_keys keys = {0}; /* of bodies only */
        struct retry retry;
        struct fault f;
        struct json body = {.type = JSON_NULL};
        const struct retried request = {.tenant = STR("acme"),
                                        .credential = str_of(id, ID_TEXT),
                                        .route = STR("mint"),
                                        .body = &body};
        arena_init(&arena, 1024, 4096);
        snprintf(name, sizeof name, "shift-%d", n++);
        assert_int_equal(retry_digest(h, &keys, str_from(name), &request, &arena, &retry, &f),
                         ERR_OK);
        memcpy(slot.bytes, retry.key.bytes, sizeof slot.bytes);
        arena_fini(&arena);
    } while (slot_owner(slot_of_key(slot), RIG_REACTORS) != engine_reactor);
    snprintf(to, 64, "Idempotency-Key: %s\r\n", name);
    hasher_destroy(h);
}

/* Its slot's owner takes it up after one turn's mail, in a turn that has heard of the suspension. */
static void no_token_is_minted_for_an_actor_that_was_suspended_meanwhile(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, THIRD, AWAY);
    struct client *before[MAILBOX_TAKE];
    char key[64], body[128], id[ID_TEXT + 1] = {0}, target[128];
    retry_key_of(AWAY, key);
    id_write("rev_", slot_id((struct id){{1}}, AWAY), id);
    snprintf(target, sizeof target, "/v1/queue/%s", id);
    snprintf(body, sizeof body, "{\"scope\":\"*\",\"actor\":\"%s\"}", p.actor);
    stop(r, AWAY);
    for (size_t i = 0; i < MAILBOX_TAKE; i++) {
        before[i] = client_of(r, ORIGIN);
        client_say(before[i], "GET", target, RIG_REVIEWER, NULL, "");
    }
    while (rig_under_way(r) != MAILBOX_TAKE) sched_yield();
    client_say_with(p.asks, "POST", "/v1/tokens/mint", RIG_AGENT, NULL, key, body);
    while (rig_under_way(r) != MAILBOX_TAKE + 1) sched_yield();
    is_suspended(&p);
    go_on(AWAY);
    assert_int_equal(client_hear(p.asks), 403);
    assert_true(client_says(p.asks, "\"actor_suspended\""));
    assert_int_equal(client_hear(p.admin), 200);
    for (size_t i = 0; i < MAILBOX_TAKE; i++) {
        assert_int_equal(client_hear(before[i]), 404);
        client_close(before[i]);
    }
    people_leave(&p);
}

/* A review of that actor's, asked for with its token, and approved. */
static void approved(struct people *p, char to[64])
{
    char target[128];
    given_review(p, p->token.text, to);
    snprintf(target, sizeof target, "/v1/queue/%s/approve", to);
    assert_int_equal(client_call(p->asks, "POST", target, RIG_REVIEWER, ""), 200);
}

/* `token` NULL: by the key. */
static void redeem_by(struct people *p, const char *review, const char *token)
{
    char target[128], body[128];
    snprintf(target, sizeof target, "/v1/queue/%s/redeem", review);
    snprintf(body, sizeof body, "{\"action\":\"refund\",\"actor\":\"%s\"}", p->actor);
    client_say_with(p->asks, "POST", target, RIG_AGENT, token, "Idempotency-Key: once\r\n", body);
}

static void redeem(struct people *p, const char *review) { redeem_by(p, review, p->token.text); }

/* What it asked for is away: origin hears of the revocation first. */
static void is_revoked_meanwhile(struct rig *r, struct people *p)
{
    struct client *revokes = client_of(r, ORIGIN);
    end_token(revokes, &p->token);
    hears_of_revocation(p->probes, &p->token, p->actor);
    go_on(AWAY);
    assert_int_equal(client_hear(p->asks), 401);
    assert_true(client_says(p->asks, "credential_revoked"));
    assert_int_equal(client_hear(revokes), 200);
    client_close(revokes);
}

static void a_redemption_is_not_repeated_to_a_token_that_was_revoked_meanwhile(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, AWAY, AWAY);
    char review[64];
    approved(&p, review);
    redeem(&p, review);
    assert_true(decided(p.asks, "allow"));
    stop(r, AWAY);
    redeem(&p, review);
    one_is_away(r);
    is_revoked_meanwhile(r, &p);
    people_leave(&p);
}

static void all_are_told(struct rig *r, const struct effect_notice *n)
{
    uint64_t place = revoked_log_append(r->engine.revoked, n);
    for (unsigned i = 0; i < RIG_REACTORS; i++) reactor_wake(r->engine.reactors[i].reactor);
    while (!revoked_log_seen(r->engine.revoked, place)) sched_yield();
}

/* The clock that stamped the suspension was ahead, and time goes on from there: tokens up to then are
 * dead, and one that is minted after the resumption is not among them. */
static void a_token_that_is_minted_after_a_resumption_is_alive_by_whatever_clock(void **state)
{
    struct rig *r = *state;
    struct client *c = client_of(r, ORIGIN);
    struct minted before, after;
    mint(c, "bot", &before);
    struct effect_notice n = {.kind = NOTICE_ACTOR_SUSPENDED,
                              .tenant = STR("acme"),
                              .actor = STR("bot"),
                              .at_ms = world_now_ms() + 60000};
    all_are_told(r, &n);
    n.kind = NOTICE_ACTOR_RESUMED;
    all_are_told(r, &n);
    mint(c, "bot", &after);
    ask(c, before.text, "get_order", "bot");
    assert_int_equal(client_hear(c), 401);
    ask(c, after.text, "get_order", "bot");
    assert_true(decided(c, "allow"));
    client_close(c);
}

static void minted_for_two_uses(struct client *c, const char *actor, char token[TOKEN_TEXT_MAX + 1])
{
    char body[128];
    snprintf(body, sizeof body, "{\"scope\":\"*\",\"actor\":\"%s\",\"max_uses\":2}", actor);
    assert_int_equal(client_call(c, "POST", "/v1/tokens/mint", RIG_AGENT, body), 201);
    client_member(c, "token", token, TOKEN_TEXT_MAX + 1);
}

/* Both have found it approved when one of them spends it: the other is a retry, and costs nothing. */
static void of_two_redemptions_at_once_with_one_key_one_takes_a_use_of_the_token(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, AWAY, AWAY);
    struct client *both[] = {p.asks, p.probes};
    char review[64], target[128];
    given_review(&p, NULL, review);
    snprintf(target, sizeof target, "/v1/queue/%s/approve", review);
    assert_int_equal(client_call(p.asks, "POST", target, RIG_REVIEWER, ""), 200);
    minted_for_two_uses(p.asks, p.actor, p.token.text);
    stop(r, AWAY);
    for (unsigned i = 0; i < 2; i++) {
        p.asks = both[i];
        redeem(&p, review);
    }
    while (mailbox_depth(r->engine.post, AWAY) < 2) sched_yield();
    go_on(AWAY);
    unsigned replayed = 0;
    for (unsigned i = 0; i < 2; i++) {
        assert_true(decided(both[i], "allow"));
        replayed += client_says(both[i], "\"replayed\":true");
    }
    assert_int_equal(replayed, 1);
    ask(p.asks, p.token.text, "get_order", p.actor);
    assert_true(decided(p.asks, "allow"));
    ask(p.asks, p.token.text, "get_order", p.actor);
    assert_true(decided(p.asks, "deny"));
    assert_true(client_says(p.asks, "\"rule\":\"token:uses\""));
    p.asks = both[0];
    people_leave(&p);
}

/* Both were answered by the owner before the suspension, and their answers wait for the disk. */
static void a_redemption_is_not_repeated_to_an_actor_that_was_suspended_meanwhile(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, AWAY, AWAY);
    struct client *both[] = {p.asks, p.probes};
    char review[64], target[128];
    given_review(&p, NULL, review);
    snprintf(target, sizeof target, "/v1/queue/%s/approve", review);
    assert_int_equal(client_call(p.asks, "POST", target, RIG_REVIEWER, ""), 200);
    stop(r, AWAY);
    for (unsigned i = 0; i < 2; i++) {
        p.asks = both[i];
        redeem_by(&p, review, NULL);
    }
    while (mailbox_depth(r->engine.post, AWAY) < 2) sched_yield();
    atomic_store(&r->sync_stopped, true);
    go_on(AWAY);
    while (!rig_has_written(r, "\"kind\":\"review.redeemed\"")) sched_yield();
    const struct effect_notice n = {.kind = NOTICE_ACTOR_SUSPENDED,
                                    .tenant = STR("acme"),
                                    .actor = str_from(p.actor),
                                    .at_ms = world_now_ms()};
    all_are_told(r, &n);
    atomic_store(&r->sync_stopped, false);
    unsigned allowed = 0, stopped_ones = 0;
    for (unsigned i = 0; i < 2; i++) {
        if (decided(both[i], "allow"))
            allowed++;
        else
            stopped_ones += client_says(both[i], "\"rule\":\"actor:suspended\"");
    }
    assert_int_equal(allowed, 1);
    assert_int_equal(stopped_ones, 1);
    p.asks = both[0];
    people_leave(&p);
}

/* The answer that it waits for is one of those that a suspension sends, and told after it: in the
 * same turn, too. */
static void who_is_woken_by_its_own_suspension_is_told_nothing_more(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, THIRD, AWAY);
    char review[64], target[128];
    given_review(&p, p.token.text, review);
    snprintf(target, sizeof target, "/v1/queue/%s/wait", review);
    client_say(p.asks, "GET", target, RIG_AGENT, p.token.text, "");
    one_is_away(r);
    stop(r, ORIGIN); /* it has looked at what was revoked already */
    suspend(p.admin, p.actor);
    while (mailbox_depth(r->engine.post, ORIGIN) == 0) sched_yield();
    go_on(ORIGIN);
    assert_int_equal(client_hear(p.asks), 401);
    assert_true(client_says(p.asks, "credential_revoked"));
    assert_int_equal(client_hear(p.admin), 200);
    people_leave(&p);
}

/* With its token; the answer is away at AWAY, which stands still. */
static void looks_at_its_review(struct rig *r, struct people *p)
{
    char review[64], target[128];
    approved(p, review);
    none_is_away(r);
    stop(r, AWAY);
    snprintf(target, sizeof target, "/v1/queue/%s", review);
    client_say(p->asks, "GET", target, RIG_AGENT, p->token.text, "");
    one_is_away(r);
}

static void a_review_is_not_shown_to_a_token_that_was_revoked_meanwhile(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, AWAY, AWAY);
    looks_at_its_review(r, &p);
    is_revoked_meanwhile(r, &p);
    people_leave(&p);
}

/* Its review was looked for everywhere first. Whoever ends the engine would wait for it. */
static void who_comes_to_wait_behind_the_drain_is_refused(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, ORIGIN, ORIGIN);
    struct client *idle = client_of(r, ORIGIN);
    char review[64], trace[160], target[256];
    given_review(&p, NULL, review);
    client_member(p.asks, "trace_id", trace, sizeof trace);
    assert_int_equal(client_call(idle, "GET", "/livez", RIG_AGENT, ""), 200);
    stop(r, AWAY);
    snprintf(target, sizeof target, "/v1/queue/%s/wait?timeout_ms=1000", trace);
    client_say(p.asks, "GET", target, RIG_REVIEWER, NULL, "");
    while (mailbox_depth(r->engine.post, AWAY) == 0) sched_yield();
    rig_drain(r);
    assert_int_equal(client_hear(idle), 0); /* origin drains */
    go_on(AWAY);
    assert_int_equal(client_hear(p.asks), 503);
    assert_true(client_says(p.asks, "\"code\":\"draining\""));
    client_close(idle);
    people_leave(&p);
}

/* The same request again; its answer says so when the review was denied already. */
static void a_review_that_was_resolved_meanwhile_is_given_to_nobody(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, AWAY, AWAY);
    struct client *denies = client_of(r, AWAY);
    char first[64], second[64], target[128];
    given_review(&p, NULL, first);
    stop(r, AWAY);
    ask(p.asks, NULL, "refund", p.actor);
    one_is_away(r);
    stop(r, ORIGIN);
    go_on(AWAY);
    while (mailbox_depth(r->engine.post, ORIGIN) == 0) sched_yield();
    snprintf(target, sizeof target, "/v1/queue/%s/deny", first);
    assert_int_equal(client_call(denies, "POST", target, RIG_REVIEWER, ""), 200);
    go_on(ORIGIN);
    assert_true(decided(p.asks, "human_review"));
    client_member(p.asks, "review_id", second, sizeof second);
    assert_string_not_equal(first, second);
    snprintf(target, sizeof target, "/v1/queue/%s", second);
    assert_int_equal(client_call(p.probes, "GET", target, RIG_REVIEWER, ""), 200);
    assert_true(client_says(p.probes, "\"status\":\"pending\""));
    client_close(denies);
    people_leave(&p);
}

/* ---- told 401 for what has ended meanwhile, as the trail has it ---- */

/* Whatever was noted is recorded at the end. */
static bool is_recorded(struct rig *r, const char *kind)
{
    rig_stop(r);
    journal_close(r->engine.journal);
    r->engine.journal = NULL;
    return rig_has_written(r, kind);
}

/* As is_revoked_meanwhile(), but nobody else shows the token: origin has heard of it in the turn after
 * the one that wrote it. */
static void is_refused_alone(struct rig *r, struct people *p)
{
    end_token(p->probes, &p->token);
    while (!rig_has_written(r, "token.revoked")) sched_yield();
    go_on(AWAY);
    assert_int_equal(client_hear(p->asks), 401);
    assert_true(is_recorded(r, "token.rejected"));
}

static void a_token_that_ended_before_its_request_was_decided_is_recorded_as_refused(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, THIRD, AWAY);
    stop(r, AWAY);
    ask(p.asks, p.token.text, "send", p.actor);
    one_is_away(r);
    is_refused_alone(r, &p);
    people_leave(&p);
}

static void a_token_that_ended_before_it_was_shown_a_review_is_recorded_as_refused(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, AWAY, AWAY);
    looks_at_its_review(r, &p);
    is_refused_alone(r, &p);
    people_leave(&p);
}

static void a_key_that_ended_while_it_waited_is_recorded_as_refused(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, AWAY, AWAY);
    char review[64], target[128];
    given_review(&p, NULL, review);
    none_is_away(r);
    snprintf(target, sizeof target, "/v1/queue/%s/wait?timeout_ms=60000", review);
    client_say(p.probes, "GET", target, RIG_OTHER_REVIEWER, NULL, "");
    one_is_away(r);
    r->is_gone[RIG_OTHER_REVIEWER] = true;
    rig_swap(r, rig_bundle(r, 2));
    snprintf(target, sizeof target, "/v1/queue/%s/deny", review);
    assert_int_equal(client_call(p.asks, "POST", target, RIG_REVIEWER, ""), 200);
    assert_int_equal(client_hear(p.probes), 401);
    assert_true(is_recorded(r, "auth.failed"));
    people_leave(&p);
}

/* ---- what not everybody knows of yet ---- */

/* That the token is over, which its origin knows and AWAY does not; `late` asks that one. */
static void is_told_when_all_know(struct people *p, struct client *late)
{
    introspect(p->probes, &p->token);
    assert_true(is_silent(p->probes));
    go_on(AWAY);
    assert_int_equal(client_hear(p->probes), 200);
    assert_string_equal(p->probes->body, "{\"active\":false}");
    ask(late, p->token.text, "get_order", p->actor);
    assert_int_equal(client_hear(late), 401);
}

/* Or who is told so would be let in all the same, there. */
static void a_token_is_told_to_be_over_when_no_reactor_takes_it_any_more(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, THIRD, THIRD);
    struct client *late = client_of(r, AWAY);
    assert_int_equal(client_call(late, "GET", "/livez", RIG_AGENT, ""), 200);
    stop(r, AWAY);
    end_token(p.asks, &p.token);
    hears_of_revocation(p.probes, &p.token, p.actor);
    is_told_when_all_know(&p, late);
    assert_int_equal(client_hear(p.asks), 200);
    client_close(late);
    people_leave(&p);
}

/* Its slot's owner has told nobody of that: another one has. */
static void
a_token_is_told_to_be_over_with_its_actor_when_no_reactor_takes_it_any_more(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, THIRD, THIRD);
    struct client *late = client_of(r, AWAY);
    assert_int_equal(client_call(late, "GET", "/livez", RIG_AGENT, ""), 200);
    stop(r, AWAY);
    is_suspended(&p);
    is_told_when_all_know(&p, late);
    assert_int_equal(client_hear(p.admin), 200);
    introspect(p.probes, &p.token); /* now nobody has to wait */
    assert_int_equal(client_hear(p.probes), 200);
    client_close(late);
    people_leave(&p);
}

/* All shards have answered but the last one; and that one has taken what was mailed to it. */
static void is_gathered_but_for(struct rig *r, unsigned last, unsigned other)
{
    struct client *c = client_of(r, other);
    while (mailbox_depth(r->engine.post, last) == 0) sched_yield();
    while (mailbox_depth(r->engine.post, other) > 0) sched_yield();
    assert_int_equal(client_call(c, "GET", "/livez", RIG_AGENT, ""), 200);
    client_close(c);
}

static void a_list_leaves_out_a_token_with_its_actor_when_no_reactor_takes_it_any_more(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, THIRD, THIRD);
    struct client *lists = client_of(r, ORIGIN);
    stop(r, LAST);
    client_say(lists, "GET", "/v1/tokens?active=true", RIG_ADMIN, NULL, "");
    is_gathered_but_for(r, LAST, AWAY);
    stop(r, AWAY);
    is_suspended(&p);
    go_on(LAST);
    assert_true(is_silent(lists));
    go_on(AWAY);
    assert_int_equal(client_hear(lists), 200);
    assert_true(client_says(lists, "\"count\":0"));
    assert_int_equal(client_hear(p.admin), 200);
    client_close(lists);
    people_leave(&p);
}

/* ---- what is not durable yet ---- */

/* What changed is written, and nothing is synced: who looks now is told nothing before it is. */
static void waits_for_the_disk(struct rig *r, struct client *looks, const char *target,
                               enum rig_key key, const char *kind)
{
    while (!rig_has_written(r, kind)) sched_yield();
    client_say(looks, "GET", target, key, NULL, "");
    assert_true(is_silent(looks));
    atomic_store(&r->sync_stopped, false);
    assert_int_equal(client_hear(looks), 200);
}

static void no_list_leaves_out_a_review_whose_resolution_could_be_lost(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, AWAY, AWAY);
    char review[64], target[128];
    given_review(&p, NULL, review);
    atomic_store(&r->sync_stopped, true);
    snprintf(target, sizeof target, "/v1/queue/%s/approve", review);
    client_say(p.asks, "POST", target, RIG_REVIEWER, NULL, "");
    waits_for_the_disk(r, p.probes, "/v1/queue/pending", RIG_REVIEWER, "review.approved");
    assert_true(client_says(p.probes, "\"total\":0"));
    assert_int_equal(client_hear(p.asks), 200);
    people_leave(&p);
}

/* Of which the page shows nothing. */
static void no_list_counts_a_review_that_could_be_lost(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, AWAY, AWAY);
    for (int n = 0; n < 3; n++) {
        if (n == 2) atomic_store(&r->sync_stopped, true);
        char body[128];
        snprintf(body, sizeof body, "{\"action\":\"refund\",\"actor\":\"%s\",\"args\":{\"n\":%d}}",
                 p.actor, n);
        client_say(p.asks, "POST", "/v1/agent/authorize", RIG_AGENT, NULL, body);
        if (n < 2) assert_true(decided(p.asks, "human_review"));
    }
    waits_for_the_disk(r, p.probes, "/v1/queue/pending?limit=1", RIG_REVIEWER, "{\"n\":2}");
    assert_true(client_says(p.probes, "\"total\":3"));
    assert_true(decided(p.asks, "human_review"));
    people_leave(&p);
}

static void no_list_leaves_out_an_actor_whose_resumption_could_be_lost(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, THIRD, AWAY);
    char target[128];
    suspend(p.admin, p.actor);
    assert_int_equal(client_hear(p.admin), 200);
    atomic_store(&r->sync_stopped, true);
    snprintf(target, sizeof target, "/v1/actors/%s/resume", p.actor);
    client_say(p.admin, "POST", target, RIG_ADMIN, NULL, "");
    waits_for_the_disk(r, p.probes, "/v1/actors", RIG_ADMIN, "actor.resumed");
    assert_true(client_says(p.probes, "\"total\":0"));
    assert_int_equal(client_hear(p.admin), 200);
    people_leave(&p);
}

static void no_list_leaves_out_a_token_whose_revocation_could_be_lost(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, THIRD, AWAY);
    atomic_store(&r->sync_stopped, true);
    end_token(p.admin, &p.token);
    waits_for_the_disk(r, p.probes, "/v1/tokens?active=true", RIG_ADMIN, "token.revoked");
    assert_true(client_says(p.probes, "\"count\":0"));
    assert_int_equal(client_hear(p.admin), 200);
    people_leave(&p);
}

/* All have heard of it, which is no promise yet: only the disk is left to wait for. */
static void all_hear_of_what_could_be_lost(struct rig *r, struct people *p)
{
    struct revoked_log *log = r->engine.revoked;
    atomic_store(&r->sync_stopped, true);
    suspend(p->admin, p->actor);
    while (!rig_has_written(r, "actor.suspended")) sched_yield();
    while (!revoked_log_seen(log, revoked_log_newest(log))) sched_yield();
}

static void no_token_is_told_to_be_over_with_its_actor_while_that_could_be_lost(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, THIRD, AWAY);
    all_hear_of_what_could_be_lost(r, &p);
    introspect(p.probes, &p.token);
    assert_true(is_silent(p.probes));
    atomic_store(&r->sync_stopped, false);
    assert_int_equal(client_hear(p.probes), 200);
    assert_string_equal(p.probes->body, "{\"active\":false}");
    assert_int_equal(client_hear(p.admin), 200);
    people_leave(&p);
}

static void no_list_leaves_out_a_token_with_its_actor_while_that_could_be_lost(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, THIRD, AWAY);
    all_hear_of_what_could_be_lost(r, &p);
    waits_for_the_disk(r, p.probes, "/v1/tokens?active=true", RIG_ADMIN, "actor.suspended");
    assert_true(client_says(p.probes, "\"count\":0"));
    assert_int_equal(client_call(p.probes, "GET", "/v1/tokens", RIG_ADMIN, ""), 200);
    assert_true(client_says(p.probes, p.token.id) && client_says(p.probes, "\"active\":false"));
    assert_int_equal(client_hear(p.admin), 200);
    people_leave(&p);
}

/* Its request's own record: that one is asked for the second time, by another trace id. */
static void no_trace_finds_a_review_that_was_given_it_by_what_could_be_lost(void **state)
{
    struct rig *r = *state;
    struct people p = people_of(r, AWAY, AWAY);
    char body[128];
    ask(p.asks, NULL, "refund", p.actor);
    assert_true(decided(p.asks, "human_review"));
    atomic_store(&r->sync_stopped, true);
    snprintf(body, sizeof body,
             "{\"action\":\"refund\",\"actor\":\"%s\",\"trace_id\":\"asked-again\"}", p.actor);
    client_say(p.asks, "POST", "/v1/agent/authorize", RIG_AGENT, NULL, body);
    waits_for_the_disk(r, p.probes, "/v1/queue/asked-again", RIG_REVIEWER, "asked-again");
    assert_true(decided(p.asks, "human_review"));
    people_leave(&p);
}

static void a_retry_of_another_body_is_told_no_earlier_than_the_first_is_durable(void **state)
{
    struct rig *r = *state;
    struct client *first = client_of(r, ORIGIN), *second = client_of(r, AWAY);
    assert_int_equal(client_call(second, "GET", "/livez", RIG_AGENT, ""), 200);
    atomic_store(&r->sync_stopped, true);
    client_say_with(first, "POST", "/v1/tokens/mint", RIG_AGENT, NULL, "Idempotency-Key: once\r\n",
                    "{\"scope\":\"get_*\"}");
    while (!rig_has_written(r, "token.minted")) sched_yield();
    client_say_with(second, "POST", "/v1/tokens/mint", RIG_AGENT, NULL, "Idempotency-Key: once\r\n",
                    "{\"scope\":\"*\"}");
    assert_true(is_silent(second));
    atomic_store(&r->sync_stopped, false);
    assert_int_equal(client_hear(first), 201);
    assert_int_equal(client_hear(second), 422);
    client_close(first);
    client_close(second);
}

int main(void)
{
    alarm(HANG_SECONDS);
    const struct CMUnitTest tests[] = {
        TEST(a_token_that_was_revoked_while_its_request_was_counted_allows_nothing),
        TEST(an_actor_that_was_suspended_while_its_request_was_counted_is_denied),
        TEST(no_token_is_minted_for_an_actor_that_was_suspended_meanwhile),
        TEST(a_redemption_is_not_repeated_to_a_token_that_was_revoked_meanwhile),
        TEST(a_token_that_is_minted_after_a_resumption_is_alive_by_whatever_clock),
        TEST(of_two_redemptions_at_once_with_one_key_one_takes_a_use_of_the_token),
        TEST(a_redemption_is_not_repeated_to_an_actor_that_was_suspended_meanwhile),
        TEST(who_is_woken_by_its_own_suspension_is_told_nothing_more),
        TEST(a_review_is_not_shown_to_a_token_that_was_revoked_meanwhile),
        TEST(a_token_that_ended_before_its_request_was_decided_is_recorded_as_refused),
        TEST(a_token_that_ended_before_it_was_shown_a_review_is_recorded_as_refused),
        TEST(a_key_that_ended_while_it_waited_is_recorded_as_refused),
        TEST(who_comes_to_wait_behind_the_drain_is_refused),
        TEST(a_review_that_was_resolved_meanwhile_is_given_to_nobody),
        TEST(a_token_is_told_to_be_over_when_no_reactor_takes_it_any_more),
        TEST(a_token_is_told_to_be_over_with_its_actor_when_no_reactor_takes_it_any_more),
        TEST(a_list_leaves_out_a_token_with_its_actor_when_no_reactor_takes_it_any_more),
        TEST(no_list_leaves_out_a_review_whose_resolution_could_be_lost),
        TEST(no_list_counts_a_review_that_could_be_lost),
        TEST(no_list_leaves_out_an_actor_whose_resumption_could_be_lost),
        TEST(no_list_leaves_out_a_token_whose_revocation_could_be_lost),
        TEST(no_token_is_told_to_be_over_with_its_actor_while_that_could_be_lost),
        TEST(no_list_leaves_out_a_token_with_its_actor_while_that_could_be_lost),
        TEST(no_trace_finds_a_review_that_was_given_it_by_what_could_be_lost),
        TEST(a_retry_of_another_body_is_told_no_earlier_than_the_first_is_durable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
