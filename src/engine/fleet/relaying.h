/* relaying.h - what a reactor of a replica passes on to the leader of the fleet.
 *
 *   route of the state ----- caller admitted ----------------------------------> relayed
 *   route that decides ----- evaluated: touches state (authorization.c) -------> relayed
 *                                       no state: decided and recorded here
 *   a "no" of this copy ---- unknown token, suspended actor -------------------> relayed, to a bound
 *
 * The whole request is relayed, with the caller's own credential, and nothing is recorded here. This
 * copy of the state is some milliseconds behind the leader's. So it does not refuse by itself what the
 * leader may know better: a fresh token, or a resumed actor. Such questions have a bound for each key
 * (RELAYED_NOES a second). Above it a token that may be good gets 503, never 401, and a suspended
 * actor this copy's denial.
 *
 * A relayed request has the header Writ-Relay with the term of the leader that it is meant for. Its
 * receiver serves it only while it leads that very term, and never relays it again. One reactor's
 * thread. */
#ifndef ENGINE_RELAYING_H
#define ENGINE_RELAYING_H

#include <stdbool.h>

#include "api/api.h"
#include "engine/fleet/fleet_member.h"

struct engine_reactor;

/* What a route has to do with the state of a fleet (engine_routes). */
enum route_state {
    STATE_NONE,    /* nothing: each engine serves it */
    STATE_DECIDES, /* a decision, which touches it or not */
    STATE_LEADER,  /* it reads or changes the state: the leader serves it */
};

enum { RELAYED_NOES = 200, RELAYED_NOES_KEYS = 64 };
#define RELAYED_NOES_TEXT                                                                          \
    "too many tokens of this key are not known at this engine yet; try again later"

struct relaying {
    struct fleet_member *member; /* NULL: the engine is in no fleet, and nothing below is used */
    bool follows;                /* as of this turn: another engine leads, or none does */
    uint64_t term;               /* whose leader `to_leader` is about */
    struct forward *to_leader;
    struct { /* of this second, by key */
        struct id key;
        uint64_t second;
        unsigned count;
    } noes[RELAYED_NOES_KEYS];
};

/* For a reactor of an engine in a fleet. */
void relaying_begin(struct engine_reactor *w);
void relaying_end(struct engine_reactor *w);
/* At the begin of each turn: looks who leads. */
void relaying_turn(struct engine_reactor *w);
enum relay_course { RELAY_SERVED_HERE, RELAY_UNDER_WAY, RELAY_REFUSED };
/* What becomes of a request for a route of the state. REFUSED: *f is the reason. */
enum relay_course relaying_course(struct engine_reactor *w, struct http_exchange *x,
                                  struct fault *f);
/* Whether this copy's "no" to a caller of that key may be asked of the leader now. */
bool relaying_asks(struct relaying *r, struct id key, uint64_t now_ms);

#endif
