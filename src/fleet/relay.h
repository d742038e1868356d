/* relay.h - requests that a replica passes on to the leader: which are under way, and what becomes of
 * them when another engine leads.
 *
 * A relayed request carries `Writ-Relay: NODE/TERM`: who relays it, and the term whose leader it is
 * meant for. Its receiver serves it only while it leads that very term, and never relays it again, so
 * a request passes at most one relay. When the replica reads a higher TERM, the relays to the older
 * leader end: a read is asked again, the outcome of any other is unknown. Pure; one thread. */
#ifndef FLEET_RELAY_H
#define FLEET_RELAY_H

#include "base/buf.h"
#include "base/err.h"

enum { RELAYS_MAX = 256 };

struct relay {
    uint64_t id;   /* the caller's name for it; never 0 */
    uint64_t term; /* whose leader it was sent to */
    bool is_read;  /* it may be asked twice */
};

struct relays {
    struct relay list[RELAYS_MAX];
    unsigned count;
};

/* ERR_FULL: RELAYS_MAX are under way. ERR_BAD_HEADER: it was relayed already. */
enum err relay_begin(struct relays *r, const struct relay *relay, bool was_relayed);
/* An answer came, or the connection broke. False: it is not waited for any more. */
bool relay_end(struct relays *r, uint64_t id);
/* Takes one that was sent to the leader of a term before `term`. False: there is none. */
bool relay_take_older(struct relays *r, uint64_t term, struct relay *ret);

void relay_put_header(struct buf *out, struct str node, uint64_t term);
bool relay_read_header(struct str text, struct str *ret_node, uint64_t *ret_term);
/* Whether an engine that leads `term` (0: it does not lead) serves a request relayed for `wanted`. */
static inline bool relay_is_served(uint64_t wanted, uint64_t term)
{
    return term != 0 && wanted == term;
}

#endif
