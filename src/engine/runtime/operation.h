/* operation.h - one request as a process with named steps, some of which call the owners of objects.
 *
 *   operation_begin → operation_start: the loop takes one step after the other
 *                       step → NEXT: the next one, or the one that operation_go() named
 *                            → WAIT: behind a call, or behind work on another thread. It is answered by
 *                                    now, and the step's `answered` follows; or it is away, and the loop
 *                                    ends until the answer is here
 *                            → DONE: the client has its reply, and the operation is over
 *
 * An operation lives in its request's arena. If this reactor owns all called slots and answers at
 * once, the operation runs to its end inside the handler, like any request. The first call to
 * another reactor, or an own one that has to wait (owner.h), defers the exchange. From then on the
 * operation has the arena to itself, and pins the bundle that its views point into.
 *
 * No step runs inside another one: a call always returns to the loop first. The step behind a call
 * runs at the origin with the call answered. By then, everything that the result reveals of another
 * reactor's slots is durable. For this reactor's own slots, `barrier` has been raised and the reply
 * waits for it. An operation always ends in exactly one reply. Limits: LIMIT_CALLS_AWAY away per
 * reactor, and the waits of waits.h, else ERR_OVERLOADED before anything changed. Origin thread
 * only. */
#ifndef ENGINE_OPERATION_H
#define ENGINE_OPERATION_H

#include "api/api.h"
#include "base/list.h"
#include "engine/runtime/commit.h"
#include "engine/runtime/offload.h"
#include "http/server.h"
#include "shards/call.h"

struct engine_reactor;
struct bundle;
struct operation;
struct operation_wait;

enum step_result { STEP_NEXT, STEP_WAIT, STEP_DONE };

struct step {
    const char *name;
    enum step_result (*run)(struct operation *e);
    /* behind the call that run() made; NULL: it makes none */
    enum step_result (*answered)(struct operation *e);
};

struct process { /* its steps in their order */
    const char *name;
    const struct step *steps;
    unsigned count;
    /* the reply for a fault; NULL: operation_refuse(), without a trace */
    enum step_result (*refuse)(struct operation *e, const struct fault *f);
};
#define PROCESS(of_steps, ...)                                                                     \
    {                                                                                              \
        .name = #of_steps, .steps = of_steps, .count = sizeof of_steps / sizeof *of_steps,         \
        __VA_ARGS__                                                                                \
    }

enum operation_state {
    OPERATION_STEPPING, /* no call is out: the loop, or the handler that has begun it */
    OPERATION_ANSWERED, /* the call has its result, which the loop gives to the step */
    OPERATION_AWAY,     /* the call, or the work, is out: its answer enters the loop again */
};

struct operation {
    struct engine_reactor *engine_reactor;
    /* NULL once the exchange is deferred: copy what is needed later before that */
    struct http_exchange *x;
    struct http_token token;
    struct arena *arena;
    const struct bundle *bundle; /* the one in force when it began */
    struct http_barrier barrier; /* what the reply has to wait for, so far */
    struct str echo;             /* the client's X-Request-ID, copied */
    /* of a replica: to be relayed after the exchange is deferred; NULL: it was not kept */
    struct forward_request *request;
    struct client_address client;
    struct caller caller;   /* not to be used after a wait: its views are the bundle's */
    struct call call;       /* the one that is away, or was answered last */
    struct call **gathered; /* answers of all shards, by reactor (operation_gather) */
    unsigned gathered_count, gathered_left;
    struct call **aside; /* the answers of the gathering before (operation_set_aside) */
    unsigned aside_count;

    /* Used by operation.c, operation_go() and operation_enter() only. */
    enum operation_state state;
    const struct process *process;
    unsigned step, next_step;
    struct link link;            /* of the reactor's operations that are away: x is NULL */
    unsigned calls_away;         /* the number of calls it counts for meanwhile */
    struct operation_wait *wait; /* NULL unless it waits for a review */
    struct call *itself;         /* &call: the result of a refused gathering */
    bool holds_bundle;           /* it has offloaded work, and pins nothing at its reactor */
    struct offload_job job;
    void (*work)(struct operation *e);
    struct fault *no_work; /* why the work was not done */
};

/* What holds for an operation between two calls of these functions. */
void operation_check(const struct operation *e);

/* An operation at the head of `size` zeroed bytes (the handler's own struct embeds it first). The
 * body and the query of x are copied into the arena, so that views into them live as long. NULL:
 * the arena is full, and the request is refused already. */
void *operation_begin(struct engine_reactor *w, struct http_exchange *x, size_t size);
/* Takes the steps of the process from `step` on. The handler's last action: the operation may be
 * over when this returns. */
void operation_start(struct operation *e, const struct process *p, unsigned step);

/* ---- for steps: `return operation_…` ---- */

/* The step that follows, in the same process or in another one. */
static inline enum step_result operation_go(struct operation *e, unsigned step)
{
    e->next_step = step;
    return STEP_NEXT;
}
static inline enum step_result operation_enter(struct operation *e, const struct process *p,
                                               unsigned step)
{
    e->process = p;
    return operation_go(e, step);
}

/* Sends e->call (with its kind, tenant, requester and arguments) to the owner of `slot`. Fills in
 * the call's time, ids, arena and origin. Each of these is WAIT. */
enum step_result operation_call(struct operation *e, enum call_kind kind, unsigned slot);
/* Sends the same call to every shard; then e->gathered holds their answers. If it could not be
 * sent, e->gathered holds only the call itself, with err. */
enum step_result operation_gather(struct operation *e, enum call_kind kind);
/* For an answer that ends a client's access: until every reactor knows of all present revocations.
 * The gathered answers stay; e->call is used up. */
enum step_result operation_when_all_know(struct operation *e);
/* Until all that the operation has recorded is on the disk. */
enum step_result operation_when_synced(struct operation *e);
/* The same as operation_call() for CALL_REVIEW_WAIT. It takes a place among the waits, or is
 * refused. The wait keeps a small arena of its own, pins no bundle, and the owner forgets it when
 * the client goes away. The operation moves: this one is DONE, and the step's `answered` gets the
 * new address, with the `size` bytes copied. Of the call, tenant, requester, review.id and
 * review.deadline_ms are kept, with strings copied; other views in the `size` bytes are dead from
 * here on. */
enum step_result operation_wait(struct operation *e, size_t size, unsigned slot);

/* Does the work on the thread of offload.h, where the operation, its arena and its bundle may be
 * used, and nothing of the reactor. Behind it e->call.err is ERR_OK; otherwise the work was not
 * done, and *f, which lives as long as the operation, has the reason. */
enum step_result operation_offload(struct operation *e, void (*work)(struct operation *e),
                                   struct fault *f);
/* Until a later turn, so that the reactor serves others before. At most one operation that has
 * yielded continues in a turn. */
enum step_result operation_yield(struct operation *e);

/* operation_set_aside() keeps the gathered answers beside those of the next gathering, and
 * operation_take_up() makes them the gathered ones again. */
void operation_set_aside(struct operation *e);
void operation_take_up(struct operation *e);

/* The reply waits for both barriers: the stricter of each. */
static inline void operation_barrier(struct operation *e, struct http_barrier barrier)
{
    e->barrier = barrier_stricter(e->barrier, barrier);
}
/* Where the operation records: in a fleet's log once it has looked at state, else as `otherwise`. */
static inline enum commit_lane operation_lane(const struct operation *e, enum commit_lane otherwise)
{
    return e->barrier.lane == LANE_LOG ? LANE_LOG : otherwise;
}
/* It has written records of so many bytes, which count for its caller. */
static inline void operation_recorded(const struct operation *e, size_t bytes)
{
    const struct metered *m = &e->caller.metered;
    if (bytes > 0 && (m->key != NULL || m->tenant != NULL)) api_spend(m, RATE_JOURNAL, bytes);
}
/* It looks at state without a call: at a suspension. ERR_NO_LEADER: not at this engine. */
enum err operation_look(struct operation *e);
/* The one reply; DONE. */
enum step_result operation_reply(struct operation *e, int status, struct str body,
                                 struct str request_id);
enum step_result operation_refuse(struct operation *e, const struct fault *f, struct str trace_id);
/* At a replica of a fleet: the leader answers the whole request, which nothing was done for. */
enum step_result operation_relay(struct operation *e);
/* As the process refuses. */
enum step_result operation_fail(struct operation *e, const struct fault *f);

/* ---- for the turn (engine_reactor.c) ---- */

/* A call of this reactor, or a message about one, has returned to the origin. False: no operation
 * waits for it, and nothing was changed. */
bool operation_origin(struct engine_reactor *w, struct call *c);
/* The offloaded work of its operation is done, or was too late: continues in this turn. */
void operation_offloaded(struct engine_reactor *w, struct offload_job *job);
/* Draining: answers every wait with 503 now, and makes its owner forget it; no new one begins. */
void operations_drain(struct engine_reactor *w);
/* Answers the clients of all operations that are away, which go on without them. */
void operations_lose(struct engine_reactor *w, const struct fault *f);
/* No thread steps calls any more: drops the calls that have not returned. */
void operations_drop(struct engine_reactor *w);

#endif
