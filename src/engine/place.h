/* place.h - where things live: the slots and keys of what is looked up by its meaning.
 *
 * Each is a SHA-256 over length-prefixed parts behind a word of its own, so that no two meanings
 * share a key and none depends on this process. Home computes them; shards never see the parts.
 *
 * A digest of a whole request is another matter. It lies in memory, in the journal, in snapshots and
 * in Redis, and a mask may hide a few digits of the request: with a plain SHA-256 one would try them
 * all. So these are HMACs under keys that are derived from the pepper. All engines of a platform have
 * that, so that a restart, another number of reactors or an adopted state changes no digest. */
#ifndef ENGINE_PLACE_H
#define ENGINE_PLACE_H

#include "access/key.h"
#include "crypto/crypto.h"
#include "json/json.h"
#include "policy/policy.h"
#include "shards/call.h"

struct place_keys {
    struct sha256 binding; /* what an approval is bound to; shown */
    struct sha256 request; /* by which the same request finds its pending review */
    struct sha256 retry;   /* the body that came with an Idempotency-Key */
};
void place_keys_derive(struct place_keys *k, const struct pepper *p);

/* The slot of an actor (or of a person): its reviews and its suspension live there. */
unsigned place_subject(struct hasher *h, struct str tenant, bool is_user, struct str subject);

/* The counter of one limit for this request, whatever its window. The last four bytes are the tag of
 * the limit itself (shards/limit_window.h). */
struct slot_key place_limit(struct hasher *h, struct str tenant, const struct policy_limit *l);
uint32_t place_limit_tag(struct str tenant, struct str policy_name, struct str rule_id,
                         enum limit_per per);
/* The counter as programs before made it, for one window each. */
struct slot_key place_old_limit(struct hasher *h, struct str tenant, const struct policy_limit *l,
                                uint64_t window_ms);

/* A request that may be sent again under one Idempotency-Key. */
struct retried {
    struct str tenant, credential, route; /* the key is this credential's on this route */
    const struct json *body;              /* with another one it is another request */
};

/* Absent header: not given. ERR_BAD_HEADER: not 1 to 255 printable ASCII characters.
 * ERR_BODY_TOO_LARGE: the arena has no room for the body's canonical form. */
enum err place_retry(struct hasher *h, const struct place_keys *keys, struct str header,
                     const struct retried *request, struct arena *arena, struct retry *ret,
                     struct fault *f);

#endif
