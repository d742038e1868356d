/* operation.h - one request that may need calls to the owners of its objects before its answer.
 *
 * An operation lives in its request's arena. If this reactor owns all called slots and answers at
 * once, the operation runs to its end inside the handler, like any request. The first call to
 * another reactor, or an own one that has to wait (owner.h), defers the exchange. From then on the
 * operation has the arena to itself, pins the bundle that its views point into, and continues with
 * each answered call.
 *
 *   operation_begin → (operation_call → then)* → operation_reply | operation_refuse
 *
 * `then` runs at the origin with the call answered. By then, everything that the result reveals of
 * another reactor's slots is durable. For this reactor's own slots, `barrier` has been raised and
 * the reply waits for it. An operation always ends in exactly one reply. Limits: LIMIT_CALLS_AWAY
 * away per reactor, and the waits of waits.h, else ERR_OVERLOADED before anything changed. Origin
 * thread only. */
#ifndef ENGINE_OPERATION_H
#define ENGINE_OPERATION_H

#include "api/api.h"
#include "base/list.h"
#include "http/server.h"
#include "shards/call.h"

struct engine_reactor;
struct bundle;
struct operation_wait;

struct operation {
    struct engine_reactor *engine_reactor;
    /* NULL once the exchange is deferred: copy what is needed later before that */
    struct http_exchange *x;
    struct http_token token;
    struct arena *arena;
    const struct bundle *bundle; /* the one in force when it began */
    struct http_barrier barrier; /* what the reply has to wait for, so far */
    struct str echo;             /* the client's X-Request-ID, copied */
    struct client_address client;
    struct call call; /* the one that is away, or was answered last */
    void (*then)(struct operation *e);
    struct call **gathered; /* answers of all shards, by reactor (operation_gather) */
    unsigned gathered_count, gathered_left;
    struct call **aside; /* the answers of the gathering before (operation_set_aside) */
    unsigned aside_count;
    /* used by sight.c: the caller with the token, and the next steps */
    struct caller *sighted;
    void (*sight_then)(struct operation *e);
    void (*sight_refused)(struct operation *e, const struct fault *f);

    /* Used by operation.c only. */
    struct link link; /* of the reactor's operations that are away */
    bool is_away;
    unsigned calls_away;         /* the number of calls it counts for meanwhile */
    struct operation_wait *wait; /* NULL unless it waits for a review */
    struct call *itself;         /* &call: the result of a refused gathering */
};

/* An operation at the head of `size` zeroed bytes (the handler's own struct embeds it first). The
 * body and the query of x are copied into the arena, so that views into them live as long. NULL:
 * the arena is full. */
struct operation *operation_begin(struct engine_reactor *w, struct http_exchange *x, size_t size);

/* Sends e->call (with its kind, tenant, requester and arguments) to the owner of `slot`; `then`
 * follows, perhaps before this returns. Fills in the call's time, ids, arena and origin. */
void operation_call(struct operation *e, enum call_kind kind, unsigned slot,
                    void (*then)(struct operation *e));
/* Sends the same call to every shard; then e->gathered holds their answers. If it could not be
 * sent, e->gathered holds only the call itself, with err. */
void operation_gather(struct operation *e, enum call_kind kind, void (*then)(struct operation *e));
/* operation_set_aside() keeps the gathered answers beside those of the next gathering, and
 * operation_take_up() makes them the gathered ones again. */
void operation_set_aside(struct operation *e);
void operation_take_up(struct operation *e);
/* For an answer that ends a client's access: `then` follows when every reactor knows of all present
 * revocations. The gathered answers stay; e->call is used up. */
void operation_when_all_know(struct operation *e, void (*then)(struct operation *e));
/* `then` follows when all that the operation has recorded is on the disk. */
void operation_when_synced(struct operation *e, void (*then)(struct operation *e));
/* The same as operation_call for CALL_REVIEW_WAIT. It takes a place among the waits, or is refused.
 * It keeps a small arena of its own, pins no bundle, and the owner forgets it when the client goes
 * away. The operation moves: `then` gets the new address, with the `size` bytes copied. Of the
 * call, tenant, requester, review.id and review.deadline_ms are kept, with strings copied; other
 * views in the `size` bytes are dead from here on. */
void operation_wait(struct operation *e, size_t size, unsigned slot,
                    void (*then)(struct operation *e));

void operation_barrier(struct operation *e, struct http_barrier barrier); /* the stricter of both */
void operation_reply(struct operation *e, int status, struct str body, struct str request_id);
void operation_refuse(struct operation *e, const struct fault *f, struct str trace_id);

/* ---- for the turn (engine_reactor.c) ---- */

/* A call of this reactor, or a message about one, has returned to the origin. */
void operation_origin(struct engine_reactor *w, struct call *c);
/* Draining: answers every wait with 503 now, and makes its owner forget it; no new one begins. */
void operations_drain(struct engine_reactor *w);
/* No thread steps calls any more: drops the calls that have not returned. */
void operations_drop(struct engine_reactor *w);

#endif
