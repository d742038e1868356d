/* revoked.h - what every reactor has to know before its next request: tokens that were revoked,
 * actors that are suspended.
 *
 * Any reactor writes to one append-only log, under a lock. Each reactor reads it through a cursor
 * of its own into a table of its own (revoked_view): before each turn's requests, and before it
 * continues with a call that returns to the origin. The table costs one lookup a request and no
 * lock. A revocation is answered when its record is durable and every cursor has passed it
 * (revoked_seen): from then on no reactor accepts the token. Entries that every cursor has passed
 * are freed. A view drops a token when it has expired anyway. */
#ifndef SHARDS_REVOKED_H
#define SHARDS_REVOKED_H

#include "shards/effect.h"

struct revoked_log;
struct revoked_view;

struct revoked_log *revoked_log_create(unsigned readers); /* NULL: out of memory */
void revoked_log_destroy(struct revoked_log *l);
/* Any thread. Copies. Returns the entry's position: 1, 2, … Ends the process if memory runs out:
 * the kill switch must not fail silently. */
uint64_t revoked_log_append(struct revoked_log *l, const struct effect_notice *n);
/* The newest entry's position, 0: none. Any thread. Takes the lock: a thread that takes it later
 * sees everything that this thread did before, and one that took it earlier need not. */
uint64_t revoked_log_newest(struct revoked_log *l);
/* Whether all readers have taken the entries up to this position; any thread. */
bool revoked_log_seen(const struct revoked_log *l, uint64_t place);

/* Of reader 0 … readers - 1, one each; NULL: out of memory. The log outlives it. */
struct revoked_view *revoked_view_create(struct revoked_log *l, unsigned reader);
void revoked_view_destroy(struct revoked_view *v);
/* Takes new entries; true: there were some. On its own thread, before requests. */
bool revoked_view_take(struct revoked_view *v, uint64_t now_ms);
bool revoked_view_token(const struct revoked_view *v, struct id token);
/* Whether the actor is suspended, in any spelling of its name (the check restricts), and up to when
 * its tokens are dead (0: none is). */
bool revoked_view_actor(struct revoked_view *v, struct str tenant, struct str actor,
                        uint64_t *ret_dead_until_ms);

#endif
