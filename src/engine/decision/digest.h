/* digest.h - the slots and keys of objects that are looked up by their meaning.
 *
 * Each is a SHA-256 over length-prefixed parts behind a prefix of its own, so that no two meanings
 * share a key, and none depends on this process. The origin computes them; shards never see the
 * parts.
 *
 * A digest of a whole request is different. It lies in memory, in the journal, in snapshots and in
 * Redis, and a mask may hide a few digits of the request: with a plain SHA-256 an attacker could
 * try them all. So these are HMACs under keys that are derived from the pepper. All engines of a
 * platform have it, so that a restart, another number of reactors or an adopted state changes no
 * digest. */
#ifndef ENGINE_DIGEST_H
#define ENGINE_DIGEST_H

#include "access/key.h"
#include "crypto/crypto.h"
#include "json/json.h"
#include "policy/policy.h"
#include "shards/call.h"

struct digest_keys {
    struct sha256 binding; /* the request that an approval is bound to; shown */
    struct sha256 request; /* the request that finds its pending review */
    struct sha256 retry;   /* the body that came with an Idempotency-Key */
};
void digest_keys_derive(struct digest_keys *k, const struct pepper *p);

/* The slot of an actor (or of a person), with its reviews and its suspension. */
unsigned slot_of_subject(struct hasher *h, struct str tenant, bool is_user, struct str subject);

/* The counter of one limit for this request, for every window. The last four bytes are the tag of
 * the limit itself (shards/limit_window.h). */
struct slot_key limit_slot_key(struct hasher *h, struct str tenant, const struct policy_limit *l);
uint32_t limit_tag_of(struct str tenant, struct str policy_name, struct str rule_id,
                      enum limit_per per);
/* The counter in the form of earlier programs, which had one for each window. */
struct slot_key old_limit_slot_key(struct hasher *h, struct str tenant,
                                   const struct policy_limit *l, uint64_t window_ms);

/* A request that may be sent again with the same Idempotency-Key. */
struct retried {
    struct str tenant, credential, route; /* the key belongs to this credential on this route */
    const struct json *body;              /* another body is another request */
};

/* The header's key for its asker: (tenant, name and owner of the key, and of a token the actor and
 * the person that it is for). *ret has the digests of these, and of the body. */
enum err outcome_digest(struct hasher *h, const struct digest_keys *keys, struct str header,
                        const struct requester *asker, struct str tenant, const struct json *body,
                        struct arena *arena, struct retry_outcome *ret, struct fault *f);

/* Absent header: not given. ERR_BAD_HEADER: not 1 to 255 printable ASCII characters.
 * ERR_BODY_TOO_LARGE: the arena has no room for the body's canonical form. */
enum err retry_digest(struct hasher *h, const struct digest_keys *keys, struct str header,
                      const struct retried *request, struct arena *arena, struct retry *ret,
                      struct fault *f);

#endif
