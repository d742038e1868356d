/* place.h - where things live: the slots and keys of what is looked up by its meaning.
 *
 * Each is a SHA-256 over length-prefixed parts behind a word of its own, so that no two meanings
 * share a key and none depends on this process. Home computes them; shards never see the parts. */
#ifndef ENGINE_PLACE_H
#define ENGINE_PLACE_H

#include "crypto/crypto.h"
#include "policy/policy.h"
#include "shards/call.h"

/* The slot of an actor (or of a person): its reviews and its suspension live there. */
unsigned place_subject(struct hasher *h, struct str tenant, bool is_user, struct str subject);

/* The counter of one limit for this request. */
struct slot_key place_limit(struct hasher *h, struct str tenant, const struct policy_limit *l);

/* An Idempotency-Key of one credential on one route. Absent header: not given. ERR_BAD_HEADER: not
 * 1 to 255 printable ASCII characters. `body` is the hash of what was sent with it. */
enum err place_retry(struct hasher *h, struct str header, struct str tenant, struct str credential, struct str route,
                     struct sha256 body, struct retry *ret, struct fault *f);

#endif
