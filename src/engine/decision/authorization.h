/* authorization.h - one request for a decision: a process from its body to its answer.
 *
 *   [confirm the token] → read → at a replica: relay, or decide without state → settle
 *     → [hold the key] → check the actor → [spend the token] → evaluate
 *     → [claim] → [old counters] → [check limits] → [count limits] → [check shadow] → [count shadow]
 *     → settle → record | [enqueue] | [share] | [redeem] → [sync] → [release the key] → answer
 *
 *   undo → any step: gives back what is held in the memory of owners and will not be recorded
 *   conclude, look again, replay → the steps of a redemption or a retry that decides nothing new
 *   fail → undo → refuse
 *
 * A step in brackets calls the owner of a slot (operation.h), and is skipped if there is no slot to
 * call. So a plain decision runs from top to bottom inside its handler. If an owner refuses, the
 * outcome changes, and is settled again behind an undo. The owner of its subject records a
 * human_review, the owner of its review records a redemption, and this reactor records everything
 * else. */
#ifndef ENGINE_AUTHORIZATION_H
#define ENGINE_AUTHORIZATION_H

#include "engine/decision/approval.h"
#include "engine/decision/decide.h"
#include "engine/engine.h"
#include "engine/runtime/operation.h"

enum authorization_step { /* the places in authorization_process */
                          AUTH_CONFIRM_TOKEN,
                          AUTH_READ,
                          AUTH_FOLLOW,
                          AUTH_HOLD_KEY,
                          AUTH_CHECK_ACTOR,
                          AUTH_SPEND_TOKEN,
                          AUTH_EVALUATE,
                          AUTH_CLAIM,
                          AUTH_OLD_COUNTERS,
                          AUTH_CHECK_LIMITS,
                          AUTH_COUNT_LIMITS,
                          AUTH_CHECK_SHADOW,
                          AUTH_COUNT_SHADOW,
                          AUTH_SETTLE,
                          AUTH_RECORD,
                          AUTH_ENQUEUE,
                          AUTH_SHARE,
                          AUTH_REDEEM,
                          AUTH_SYNC,
                          AUTH_RELEASE_KEY,
                          AUTH_ANSWER,
                          AUTH_LOOK_AGAIN,
                          AUTH_REPLAY,
                          AUTH_CONCLUDE,
                          AUTH_FAIL,
                          AUTH_UNDO,
                          AUTH_REFUSE,
};
extern const struct process authorization_process;

enum authorization_kind {
    AUTHORIZATION_FIRST,
    AUTHORIZATION_RETRY,      /* the first request with its Idempotency-Key has an outcome */
    AUTHORIZATION_REDEMPTION, /* of a->review */
};

/* What it holds in the memory of owners until its record has it, in the order of undoing: counters
 * first, so that the next claim of the approval finds them unchanged. */
enum authorization_hold {
    HOLD_COUNTS = 1,  /* limits.counted */
    HOLD_SHADOW = 2,  /* shadow.counted */
    HOLD_CLAIM = 4,   /* the approval, which it has to spend or to give back */
    HOLD_USE = 8,     /* of its token */
    HOLD_KEY = 16,    /* its Idempotency-Key, which it has to keep or to drop */
    HOLD_OUTCOME = 32 /* beside HOLD_KEY: the outcome for the key is in its record */
};
enum {
    UNDO_COUNTED = HOLD_COUNTS | HOLD_SHADOW | HOLD_CLAIM, /* a decision spends a token's use ... */
    UNDO_SPENT = UNDO_COUNTED | HOLD_USE, /* ... except one that an approval answers ... */
    UNDO_ALL = UNDO_SPENT | HOLD_KEY,     /* ... and that is not made */
};

/* The limits of the outcome that are counted for this request. */
struct limit_counting {
    const struct policy_limit *limits;
    struct limit_request *asked; /* by limit */
    struct limit_told *told;     /* by limit; of those counted, and in a dry run of all */
    size_t count;
    size_t at;      /* the limit at hand, for the steps before counting */
    size_t counted; /* so many, from the first on, hold this use */
};

struct authorization {
    struct operation operation; /* first: an authorization is an operation */
    struct decide_tools tools;
    struct str traceparent; /* the header, in the arena, or absent */
    /* The process that continues, at parent_step, in place of a reply: the authorization is one item
     * of several. It has a decision (d), or a fault. NULL: it is the client's only one. */
    const struct process *parent;
    unsigned parent_step;

    struct auth_request ask; /* from here on authorization_renew() begins again */
    struct decision d;
    struct fault fault; /* the reason why there is no decision; ERR_OK */
    struct json *body;
    enum auth_request_form form;
    enum authorization_kind kind;
    unsigned holds; /* enum authorization_hold, except counts */
    unsigned undoes;
    enum authorization_step behind_undo;
    struct limit_counting limits, shadow;
    size_t old_at; /* so many windows of old counters were read for the limit at hand */
    /* approved reviews of the same request, from the newest on: so many were looked at, and those
     * below this ordinal are not yet */
    unsigned approvals_seen;
    uint64_t approved_below;

    /* Of a redemption. */
    bool use_was_spent; /* its token's use was spent when the review was requested with it */
    bool is_same;       /* it is the request that the review was opened for */
    struct review_facts review; /* in the arena */
    struct retry retry;

    /* Of a request with an Idempotency-Key, on a route that decides. */
    struct str retry_header;    /* in the arena, or absent */
    struct retry_outcome first; /* its key, and the outcome of the first request with it */
};

/* What holds for an authorization between two steps. */
void authorization_check(const struct authorization *a);

/* At the head of `size` bytes, for a route that decides; NULL: refused already. */
void *authorization_begin(struct engine_reactor *w, struct http_exchange *x, size_t size);
/* Forgets the last item, for the next one of the same operation and caller. */
void authorization_renew(struct authorization *a);
/* Whether the caller's credential may make requests of this form. ERR_MISSING_ROLE. */
enum err authorization_may(const struct authorization *a, struct fault *f);
/* Reads a->body in the form a->form. `trace_id` (or absent) is used if neither the body nor the
 * `traceparent` header has one. It lives as long as the arena. */
enum err authorization_read(struct authorization *a, struct str trace_id, struct fault *f);
/* At a replica of a fleet, for a request that was read: whether its decision touches state, so that
 * the leader makes it. If not, the outcome is evaluated. */
bool authorization_touches_state(struct authorization *a);
/* The end without a decision: for the client, or for the parent. */
enum step_result authorization_refuse(struct operation *e, const struct fault *f);

/* ---- what the files of the steps share ---- */

static inline struct authorization *authorization_of(struct operation *e)
{
    return (struct authorization *)(void *)e;
}
static inline enum step_result authorization_go(struct authorization *a,
                                                enum authorization_step step)
{
    return operation_go(&a->operation, step);
}
/* Gives back what it holds of `what` (UNDO_…), then continues with `step`. */
static inline enum step_result authorization_undo(struct authorization *a, unsigned what,
                                                  enum authorization_step step)
{
    a->undoes = what;
    a->behind_undo = step;
    return authorization_go(a, AUTH_UNDO);
}
/* No decision can be made or recorded: none of its counts may stay. */
static inline enum step_result authorization_fail(struct authorization *a, enum err err)
{
    a->fault.err = err;
    return authorization_go(a, AUTH_FAIL);
}
static inline bool authorization_permits(const struct authorization *a)
{
    return a->d.outcome.verdict == VERDICT_ALLOW || a->d.outcome.verdict == VERDICT_COMPUTE;
}
bool authorization_is_stopped(const struct authorization *a); /* its actor is suspended */
void authorization_deny_stopped(struct authorization *a);
/* The request waited on another reactor, and its token ended meanwhile. */
bool authorization_token_died(const struct authorization *a);
/* The token uses and counts that the decision spent, and the outcome that is kept for its
 * Idempotency-Key, for its record. */
struct str authorization_spent(struct authorization *a);
/* The end with a decision: for the client, or for the parent. */
enum step_result authorization_send(struct authorization *a);
/* Sets what the review's approval covers now (approval.c). */
enum err authorization_approval(struct authorization *a, const struct review_facts *r,
                                struct policy_approval *ret);

/* ---- the steps of reviews (authorization_review.c) ---- */

enum step_result authorization_claim(struct operation *e);
enum step_result authorization_claimed(struct operation *e);
enum step_result authorization_enqueue(struct operation *e);
enum step_result authorization_enqueued(struct operation *e);
enum step_result authorization_share(struct operation *e);
enum step_result authorization_shared(struct operation *e);
enum step_result authorization_redeem(struct operation *e);
enum step_result authorization_redeemed(struct operation *e);
enum step_result authorization_look_again(struct operation *e);
enum step_result authorization_looked_again(struct operation *e);
enum step_result authorization_replay(struct operation *e);
/* a->review cannot be redeemed: the earlier answer if this is a retry of it, else a denial. */
enum step_result authorization_conclude(struct operation *e);

#endif
