/* authorization.h - one request for a decision, from its body to its answer.
 *
 *   [check its token] → read → start → [hold its Idempotency-Key] → [spend a use of its token] → evaluate → [claim the approval] → [count its limits] → describe, settle
 *         → record → [keep the outcome for the key] → answer
 *
 * A step in brackets calls the owner of a slot (operation.h), and is skipped if there is no slot to
 * call. So a plain decision runs from top to bottom inside its handler. If an owner refuses, the
 * outcome changes and is settled again. The owner of its subject records a human_review, the owner
 * of its review records a redemption, and this reactor records everything else. What was counted in
 * memory for nothing is given back before the answer. */
#ifndef ENGINE_AUTHORIZATION_H
#define ENGINE_AUTHORIZATION_H

#include "engine/approval.h"
#include "engine/decide.h"
#include "engine/engine.h"
#include "engine/operation.h"

struct authorization {
    struct operation operation; /* first: an authorization is an operation */
    struct decide_tools tools;
    struct caller caller;
    struct str traceparent; /* the header, in the arena, or absent */
    /* Gets the decision (a->d), or the fault, in place of the client: the authorization is one item
     * of several. NULL: it is the client's only one. */
    void (*finished)(struct authorization *a, const struct fault *f);

    struct auth_request ask; /* from here on authorization_renew() begins again */
    struct decision d;
    bool described;
    bool token_spent; /* a use that has to be recorded or given back */
    const struct policy_limit *limits;
    size_t limit_count;
    size_t looked; /* so many of the limits are known to have room, if there are several */
    struct limit_request *asked; /* of those, the limits counted so far: */
    struct limit_told *told;
    size_t counted;
    size_t old_looked;        /* so many windows of old counters were read for the present limit */
    struct limit_used before; /* and hold this use */
    struct shadow_counting {
        struct limit_request *asked; /* the limits of shadow documents that are counted: */
        struct limit_told *told;
        size_t counted, looked, at;
        void (*then)(struct authorization *a); /* the step behind them */
    } shadow;
    /* there will be no decision: the use of its token is given back, too */
    bool is_undecided;
    bool is_unspent; /* the same, although there is a decision */
    /* approved reviews of the same request, from the newest on: so many were looked at, and those
     * below this ordinal are not yet */
    unsigned approvals_seen;
    uint64_t approved_below;
    void (*given_back)(struct authorization *a); /* the step after giving back */
    struct fault fault;                          /* the reason why there is no decision */
    struct json *body;
    enum auth_request_form form;

    /* Of a redemption. */
    bool redeeming;
    bool use_was_spent; /* its token's use was spent when the review was requested with it */
    bool claimed;       /* this redemption holds the approval and has to spend it or give it back */
    bool is_same;       /* it is the request that the review was opened for */
    struct review_facts review; /* in the arena */
    struct retry retry;

    /* Of a request with an Idempotency-Key, on a route that decides. */
    struct str retry_header;    /* in the arena, or absent */
    struct retry_outcome first; /* its key, and the outcome of the first request with it */
    bool holds_key;             /* this request is the first, and has to keep or to drop its key */
    bool keeps_outcome;         /* its record has the outcome */
    bool is_retry;              /* its first request had an outcome that is kept */
    void (*repeated)(struct authorization *a); /* the step that repeats it */
};

/* The operation of a request on a route that decides; NULL: refused already. */
struct authorization *authorization_begin(struct engine_reactor *w, struct http_exchange *x);
/* The same at the head of a larger struct. */
struct authorization *authorization_begin_sized(struct engine_reactor *w, struct http_exchange *x,
                                                size_t size);
/* Forgets the last item, for the next one of the same operation and caller. */
void authorization_renew(struct authorization *a);
/* Whether the caller's credential may make requests of this form. ERR_MISSING_ROLE. */
enum err authorization_may(const struct authorization *a, struct fault *f);
/* Reads a->body in the form a->form. `trace_id` (or absent) is used if neither the body nor the
 * `traceparent` header has one. It lives as long as the arena. */
enum err authorization_read(struct authorization *a, struct str trace_id, struct fault *f);
/* Continues on its own until the answer: first holds its Idempotency-Key, if there is one. */
void authorization_start(struct authorization *a);
/* The same if a->review cannot be redeemed: the earlier answer if this is a retry of it, else a
 * denial. */
void authorization_conclude(struct authorization *a);
void authorization_refuse(struct authorization *a, const struct fault *f);
/* Sets what the review's approval covers now. */
enum err authorization_approval(struct authorization *a, const struct review_facts *r,
                                struct policy_approval *ret);

#endif
