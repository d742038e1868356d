/* authorization.h - the way of one request for a decision, from its body to its answer.
 *
 *   [is its token known] → read → start → [spend a use of its token] → evaluate → [claim the approval] → [count its limits] → describe, settle
 *         → record → answer
 *
 * What stands in brackets visits the owner of a slot (errand.h) and is left out where there is
 * nothing to visit, so that a plain decision runs from top to bottom inside of its handler. Where
 * an owner says no, the outcome becomes another and is settled again. A human_review is recorded by
 * the owner of its subject, a redemption by the owner of its review, everything else right here.
 * What was counted in memory and comes to nothing is given back before the answer. */
#ifndef ENGINE_AUTHORIZATION_H
#define ENGINE_AUTHORIZATION_H

#include "engine/decide.h"
#include "engine/engine.h"
#include "engine/errand.h"

struct authorization {
    struct errand errand; /* first: an authorization is an errand */
    struct decide_tools tools;
    struct caller caller;
    struct ask ask;
    struct decision d;
    bool described;
    bool token_spent; /* a use that has to be recorded or given back */
    const struct policy_limit *limits;
    size_t limit_count;
    size_t looked;           /* so many of them have room, where there are several */
    struct limit_ask *asked; /* of those, what was counted so far: */
    struct limit_told *told;
    size_t counted;
    size_t old_looked; /* so many of the windows of old counters were asked for the limit at hand */
    struct limit_used before; /* and hold this */
    /* there will be no decision: the use of its token is given back, too */
    bool is_undecided;
    void (*given_back)(struct authorization *a); /* what comes after giving back */
    struct fault fault;                          /* why there is no decision */
    struct str traceparent;                      /* the header, in the arena, or absent */
    struct json *body;
    enum ask_form form;

    /* Of a redemption. */
    bool redeeming;
    bool use_was_spent;         /* its token's, when the review was asked with it */
    bool claimed;               /* the approval is this redemption's to spend or give back */
    struct review_facts review; /* in the arena */
    struct retry retry;
};

/* The errand of a request whose route asks for a decision; NULL: refused already. */
struct authorization *authorization_begin(struct worker *w, struct http_exchange *x);
/* The same at the head of a larger struct. */
struct authorization *authorization_begin_sized(struct worker *w, struct http_exchange *x,
                                                size_t size);
/* Reads a->body in the form a->form. `trace_id` (or absent) is the one it has where neither the body nor
 * the `traceparent` header brings one. It lives as long as the arena. */
enum err authorization_read(struct authorization *a, struct str trace_id, struct fault *f);
/* From here on it answers by itself. */
void authorization_start(struct authorization *a);
/* The same where a->review cannot be redeemed: the earlier answer where this is a
 * retry of it, else a denial. */
void authorization_conclude(struct authorization *a);
void authorization_refuse(struct authorization *a, const struct fault *f);

#endif
