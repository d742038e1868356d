/* revoked.h - what every reactor has to know before its next request: tokens that were revoked,
 * actors that are suspended.
 *
 * One append-only log, written by any reactor under a lock, read by each through a cursor of its
 * own, before each beat's requests and before a call that comes home goes on, into a table of its
 * own (revoked_view), which costs one lookup a request and no lock. A revocation is answered when its record is durable and every cursor has
 * passed it (revoked_seen): from then on nobody accepts the token. Entries that every cursor has
 * passed are freed; the views drop a token when it has expired anyway. */
#ifndef SHARDS_REVOKED_H
#define SHARDS_REVOKED_H

#include "shards/effect.h"

struct revoked_log;
struct revoked_view;

struct revoked_log *revoked_log_create(unsigned readers); /* NULL: out of memory */
void revoked_log_destroy(struct revoked_log *l);
/* Any thread. The entry's place: 1, 2, … Copies. Ends the process where memory ran out: the kill
 * switch may not fail quietly. */
uint64_t revoked_log_append(struct revoked_log *l, const struct effect_notice *n);
/* The newest entry's place, 0: none. Takes the lock: whoever has read up to there before knows
 * nothing, and whoever does later knows all, of what this thread did before. Any thread. */
uint64_t revoked_log_newest(struct revoked_log *l);
/* Whether all readers have taken up to this place; any thread. */
bool revoked_log_seen(const struct revoked_log *l, uint64_t place);

/* Of reader 0 … readers - 1, one each; NULL: out of memory. The log outlives it. */
struct revoked_view *revoked_view_create(struct revoked_log *l, unsigned reader);
void revoked_view_destroy(struct revoked_view *v);
/* Takes what is new; true: there was something. Its own thread, before requests. */
bool revoked_view_take(struct revoked_view *v, uint64_t now_ms);
bool revoked_view_token(const struct revoked_view *v, struct id token);
/* Whether the actor is suspended, in whatever spelling of its name (it restricts), and up to when
 * its tokens are dead (0: none is). */
bool revoked_view_actor(const struct revoked_view *v, struct str tenant, struct str actor,
                        uint64_t *ret_dead_until_ms);

#endif
