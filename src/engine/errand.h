/* errand.h - one request that may have to visit the owners of what it touches before its answer.
 *
 * An errand lives in its request's arena. While all it visits is owned by this reactor and answered
 * at once it runs to its end inside of the handler, like any request. The first call to another
 * reactor, or one of our own that has to wait (owner.h), defers the exchange: from then on the
 * errand has the arena to itself, pins the bundle that its views point into, and is driven by its
 * answered calls.
 *
 *   errand_begin → (errand_visit → then)* → errand_reply | errand_refuse
 *
 * `then` runs at home with the call answered; by the time it runs, what the answer reveals of
 * another reactor's slots is durable; of this reactor's own, `gate` has been raised and the reply
 * waits for it. Whatever happens, an errand ends in exactly one reply. Limits: LIMIT_VISITS away
 * per reactor, and as many as may wait (waits.h), else ERR_OVERLOADED before anything changed. Home
 * thread only. */
#ifndef ENGINE_ERRAND_H
#define ENGINE_ERRAND_H

#include "api/api.h"
#include "base/list.h"
#include "http/server.h"
#include "shards/call.h"

struct worker;
struct bundle;
struct errand_wait;

struct errand {
    struct worker *worker;
    /* NULL once the exchange is deferred: copy before what is needed later */
    struct http_exchange *x;
    struct http_token token;
    struct arena *arena;
    const struct bundle *bundle; /* the one in force when it began */
    struct http_gate gate;       /* what the reply has to wait for, so far */
    struct str echo;             /* the client's X-Request-ID, copied */
    struct client_address client;
    struct call call; /* the one that is away, or was answered last */
    void (*then)(struct errand *e);
    struct call **gathered; /* answers of all shards, by reactor (errand_gather) */
    unsigned gathered_count, gathered_left;
    struct call **aside; /* what was gathered before (errand_set_aside) */
    unsigned aside_count;
    /* sight.c's: whose token it is about, and what follows */
    struct caller *sighted;
    void (*sight_then)(struct errand *e);
    void (*sight_refused)(struct errand *e, const struct fault *f);

    /* errand.c's own. */
    struct link link; /* of the worker's errands that are away */
    bool is_away;
    unsigned visits;          /* it counts for so many calls while it is */
    struct errand_wait *wait; /* NULL unless it waits for a review */
    struct call *itself;      /* &call: what a refused gathering shows */
};

/* An errand at the head of `size` zeroed bytes (the handler's own struct embeds it first). The
 * body and the query that x shows are copied into the arena, so that views into them live as long.
 * NULL: the arena is full. */
struct errand *errand_begin(struct worker *w, struct http_exchange *x, size_t size);

/* Sends e->call (its kind, tenant, asker and arguments are filled in) to the owner of
 * `slot`; `then` follows, perhaps before this returns. The call's time, ids, arena and
 * home are filled in here. */
void errand_visit(struct errand *e, enum call_kind kind, unsigned slot,
                  void (*then)(struct errand *e));
/* The same call to every shard; then e->gathered holds their answers. Where it could not be sent it
 * holds one: the call itself, with err. */
void errand_gather(struct errand *e, enum call_kind kind, void (*then)(struct errand *e));
/* What was gathered stays beside what is gathered next, and takes its place again. */
void errand_set_aside(struct errand *e);
void errand_take_up(struct errand *e);
/* For an answer by which somebody is let in no more: `then` follows when every reactor knows of all
 * that is revoked by now. What was gathered stays; e->call is used up. */
void errand_when_all_know(struct errand *e, void (*then)(struct errand *e));
/* The same as errand_visit for CALL_REVIEW_WAIT: it has a place among those that wait, or is refused
 * here, keeps a small arena of its own, pins no bundle, and is forgotten by the owner when the
 * client goes away. The errand is moved: `then` gets the new address, with the `size` bytes copied.
 * Of the call, tenant, asker, review.id and review.deadline_ms are kept, strings copied; other
 * views of the `size` bytes are dead from here on. */
void errand_wait(struct errand *e, size_t size, unsigned slot, void (*then)(struct errand *e));

void errand_gate(struct errand *e, struct http_gate gate); /* the stricter of both */
void errand_reply(struct errand *e, int status, struct str body, struct str request_id);
void errand_refuse(struct errand *e, const struct fault *f, struct str trace_id);

/* ---- for the beat (worker.c) ---- */

/* A call of this reactor's, or a message about one, has come home. */
void errand_home(struct worker *w, struct call *c);
/* Draining: every wait is answered 503 now, and forgotten by its owner; no new one begins. */
void errands_drain(struct worker *w);
/* Nobody steps a call any more: what did not come home is dropped. */
void errands_drop(struct worker *w);

#endif
