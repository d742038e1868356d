/* set.h - the set of policies and keys is authenticated, also against write access to the database.
 *
 *   rows of keys and policies ──digest of each──▶ set_rows ──HMAC──▶ store.set_mac
 *   revision, history, time of adoption ─────────────────────┘
 *
 * The store lists the digest of each row (set_rows). An HMAC under a key that is derived from the
 * pepper covers this list, the revision and the newest revisions before it. So a row that was
 * forged, deleted, exchanged or replaced by an older one differs from the list, and the list cannot
 * be changed without the pepper. Each change of a policy or key writes the digest of the row that
 * it wrote, never of one that it found, so it does not make a forged row valid.
 *
 * A wrong row is never left out of what engines get: it could be a deny. The whole set is refused
 * instead (ERR_SET_REFUSED), and engines keep their last good one.
 *
 * The older state of a whole database is authentic, too. It shows in its revision: a process and
 * an engine refuse a set that does not follow the one that they have. Only a command on a machine
 * with the pepper makes such a set valid again: an adoption. Its time is part of the set, and a set
 * with a later adoption follows every other one.
 *
 * Not chosen: a MAC in each row. It does not show that a row was deleted, or that it is older than
 * it should be. */
#ifndef STORE_SET_H
#define STORE_SET_H

#include "access/set_mac.h"
#include "store/store.h"

/* Before the first use of policies or keys. The other functions that change these refuse without
 * it. */
void store_share_pepper(struct store *s, const struct pepper *p);

/* For a writer: an empty store without a MAC gets one. With adopted_at 0 it is not an adoption:
 * engines that have a set do not take this one. A command gives the time, which counts if the store
 * was never adopted. */
enum err set_found(struct store *s, uint64_t adopted_at, struct fault *f);
/* For a writer: makes all rows valid as they are now, with a new revision. Appends what set_show()
 * appends. ERR_CORRUPT: the row of a key cannot be read. */
enum err set_adopt(struct store *s, const struct actor *by, struct buf *out, struct fault *f);
/* Outside of a transaction: compares all rows. ERR_SET_REFUSED: one is not what was stored. */
enum err set_compare(struct store *s, struct fault *f);
/* {trouble, keys: [… row], policies: [… row], missing: [{kind, name, tenant_id}]}: `row` is "good",
 * "changed", "added" or "twice"; `trouble` is null if engines take the set. */
enum err set_show(struct store *s, struct buf *out, struct fault *f);

#endif
