/* set_mac.h - MACs over the set of policies and keys that engines follow.
 *
 * Write access to the database, to the way between platform and engine, or to an engine's copy on
 * disk must not make a policy or a key. So both forms of the set have an HMAC-SHA-256 under a key
 * that is derived from the pepper, each with a label of its own: the rows in the store
 * (store/set.h), and the bundle that an engine takes. Pure functions, any thread. */
#ifndef ACCESS_SET_MAC_H
#define ACCESS_SET_MAC_H

#include "access/key.h"

struct set_keys {
    struct sha256 stored, sent;
};
struct set_keys set_keys_derive(const struct pepper *p);

/* Ends a bundle: `out` has all of its JSON object from `from` on, except for the closing brace. */
void set_mac_put(struct buf *out, size_t from, const struct sha256 *sent_key);
/* Whether the bundle ends with the MAC of everything before it. */
bool set_mac_fits(struct str bundle, const struct sha256 *sent_key);

#endif
