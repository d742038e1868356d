/* still_rig.h - the engine of calls_rig.h, of which a reactor stands still where the test wants it to,
 * and those who ask it: so nothing is left to chance. What has to happen is waited for, and a call that
 * is lost would hang. */
#ifndef TESTS_STILL_RIG_H
#define TESTS_STILL_RIG_H

#include "calls_rig.h"
#include "engine/decision/digest.h"

enum {
    HANG_SECONDS = 240,
    ORIGIN = 0, /* where requests come to, and tokens are minted */
    AWAY = 1,   /* whom they have to ask */
    THIRD = 2,  /* whose kill switch is thrown */
    LAST = 3,
    SILENT_MS = 200,
};

static inline int set_up(void **state)
{
    *state = rig_create("10m");
    return 0;
}

/* ---- a reactor that stands still ---- */

static struct {
    struct client *client;
    _Atomic bool stands, goes_on;
} stopped[RIG_REACTORS];

static inline void stand(void *engine_reactor, const struct http_exchange *x, enum err err)
{
    (void)x, (void)err;
    unsigned i = ((const struct engine_reactor *)engine_reactor)->index;
    atomic_store(&stopped[i].stands, true);
    while (!atomic_load(&stopped[i].goes_on)) sched_yield();
}

/* In the middle of a turn, at a request of somebody unknown: it has looked at what was revoked before,
 * and takes neither mail nor requests. */
static inline void stop(struct rig *r, unsigned engine_reactor)
{
    struct client *c = stopped[engine_reactor].client = client_of(r, engine_reactor);
    atomic_store(&stopped[engine_reactor].stands, false);
    atomic_store(&stopped[engine_reactor].goes_on, false);
    assert_int_equal(client_call(c, "GET", "/livez", RIG_AGENT, ""), 200);
    /* it has answered, so it has begun, and sets this no more */
    r->engine.reactors[engine_reactor].api.on_auth_failed = stand;
    client_say(c, "GET", "/v1/queue/pending", RIG_AGENT, "wk_nobody", "");
    while (!atomic_load(&stopped[engine_reactor].stands)) sched_yield();
}

static inline void go_on(unsigned engine_reactor)
{
    atomic_store(&stopped[engine_reactor].goes_on, true);
    assert_int_equal(client_hear(stopped[engine_reactor].client), 401);
    client_close(stopped[engine_reactor].client);
}

static inline int tear_down(void **state)
{
    for (unsigned i = 0; i < RIG_REACTORS; i++) /* where the test has failed */
        atomic_store(&stopped[i].goes_on, true);
    rig_destroy(*state);
    return 0;
}

/* ---- who asks ---- */

static inline unsigned owner_of_subject(struct hasher *h, const char *actor)
{
    return slot_owner(slot_of_subject(h, STR("acme"), false, str_from(actor)), RIG_REACTORS);
}

/* Of the rule `each`. */
static inline unsigned owner_of_limit(struct hasher *h, const char *actor)
{
    const struct policy_limit l = {.policy_name = STR("base"),
                                   .rule_id = STR("each"),
                                   .per = PER_ACTOR,
                                   .value = str_from(actor),
                                   .window_ms = 3600000};
    return slot_owner(slot_of_key(limit_slot_key(h, STR("acme"), &l)), RIG_REACTORS);
}

enum { ACTOR_TEXT = 32 };

/* An actor whose reviews, and whose count of what it sends, are those reactors'. */
static inline void actor_of(unsigned subject, unsigned limit, char to[ACTOR_TEXT])
{
    struct hasher *h = hasher_create();
    int n = 0;
    do snprintf(to, ACTOR_TEXT, "bot-%d", n++);
    while (owner_of_subject(h, to) != subject || owner_of_limit(h, to) != limit);
    hasher_destroy(h);
}

struct minted {
    char text[TOKEN_TEXT_MAX + 1], id[64];
};

/* Of that client's own reactor. */
static inline void mint(struct client *c, const char *actor, struct minted *ret)
{
    char body[128];
    snprintf(body, sizeof body, "{\"scope\":\"*\",\"actor\":\"%s\"}", actor);
    assert_int_equal(client_call(c, "POST", "/v1/tokens/mint", RIG_AGENT, body), 201);
    client_member(c, "token", ret->text, sizeof ret->text);
    client_member(c, "token_id", ret->id, sizeof ret->id);
}

static inline void ask(struct client *c, const char *token, const char *action, const char *actor)
{
    char body[128];
    snprintf(body, sizeof body, "{\"action\":\"%s\",\"actor\":\"%s\"}", action, actor);
    client_say(c, "POST", "/v1/agent/authorize", RIG_AGENT, token, body);
}

static inline bool decided(struct client *c, const char *decision)
{
    char text[64];
    snprintf(text, sizeof text, "\"decision\":\"%s\"", decision);
    return client_hear(c) == 200 && client_says(c, text);
}

static inline bool denied_as_suspended(struct client *c)
{
    return decided(c, "deny") && client_says(c, "\"rule\":\"actor:suspended\"");
}

static inline void end_token(struct client *c, const struct minted *token)
{
    char target[128];
    snprintf(target, sizeof target, "/v1/tokens/%s", token->id);
    client_say(c, "DELETE", target, RIG_ADMIN, NULL, "");
}

static inline void suspend(struct client *c, const char *actor)
{
    char target[128];
    snprintf(target, sizeof target, "/v1/actors/%s/suspend", actor);
    client_say(c, "POST", target, RIG_ADMIN, NULL, "");
}

/* Until that client's reactor knows of it. */
static inline void hears_of_revocation(struct client *c, const struct minted *token,
                                       const char *actor)
{
    do ask(c, token->text, "get_order", actor);
    while (client_hear(c) != 401);
}

static inline void hears_of_suspension(struct client *c, const char *actor)
{
    do ask(c, NULL, "get_order", actor);
    while (!denied_as_suspended(c));
}

static inline void one_is_away(struct rig *r)
{
    while (rig_under_way(r) != 1) sched_yield();
}

/* Whoever has its answer may be counted for a moment more. */
static inline void none_is_away(struct rig *r)
{
    while (rig_under_way(r) != 0) sched_yield();
}

static inline bool is_silent(struct client *c)
{
    struct pollfd heard = {.fd = c->fd, .events = POLLIN};
    return poll(&heard, 1, SILENT_MS) == 0;
}

/* What such an actor asks, by each of these. */
struct people {
    struct client *asks, *admin, *probes;
    char actor[ACTOR_TEXT];
    struct minted token;
};

static inline struct people people_of(struct rig *r, unsigned subject, unsigned limit)
{
    struct people p = {
        .asks = client_of(r, ORIGIN), .admin = client_of(r, THIRD), .probes = client_of(r, ORIGIN)};
    actor_of(subject, limit, p.actor);
    mint(p.asks, p.actor, &p.token);
    return p;
}

static inline void people_leave(struct people *p)
{
    client_close(p->asks);
    client_close(p->admin);
    client_close(p->probes);
}

/* Who suspends it has no answer yet. */
static inline void is_suspended(struct people *p)
{
    suspend(p->admin, p->actor);
    hears_of_suspension(p->probes, p->actor);
}

static inline void given_review(struct people *p, const char *token, char to[64])
{
    ask(p->asks, token, "refund", p->actor);
    assert_true(decided(p->asks, "human_review"));
    client_member(p->asks, "review_id", to, 64);
}

static inline void introspect(struct client *c, const struct minted *token)
{
    char body[TOKEN_TEXT_MAX + 32];
    snprintf(body, sizeof body, "{\"token\":\"%s\"}", token->text);
    client_say(c, "POST", "/v1/tokens/introspect", RIG_AGENT, NULL, body);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
