/* mailbox.h - how reactors exchange calls.
 *
 * Each ordered pair of reactors has one ring (single producer, single consumer). Before each ring
 * is an outbox: a list on the sender's side that takes the calls for which the ring has no room, so
 * that sending never waits and never fails. Admission at the origin bounds all of it: a reactor has
 * at most LIMIT_CALLS_AWAY calls away (and LIMIT_WAITS waiting ones), and refuses the next with 503
 * before anything has changed. Calls go from the origin to the owner and back, and nowhere else: no
 * cycles.
 *
 *   begin of a turn   mailbox_take() until NULL (at most MAILBOX_TAKE from each peer)
 *   end of a turn     mailbox_flush(): outboxes into rings, one wakeup for each peer that got any */
#ifndef SHARDS_MAILBOX_H
#define SHARDS_MAILBOX_H

#include "shards/call.h"

enum { MAILBOX_PLACES = 1024, MAILBOX_TAKE = 16 };

struct post; /* all mailboxes of the engine */

struct post *post_create(unsigned reactors); /* NULL: out of memory */
void post_destroy(struct post *p);

/* On the thread of reactor `from`. The receiver owns `c` from now on. */
void mailbox_send(struct post *p, unsigned from, unsigned to, struct call *c);
/* Calls `ring` for each peer that has new calls; true: some calls are still in an outbox. */
bool mailbox_flush(struct post *p, unsigned from, void (*ring)(void *context, unsigned peer),
                   void *context);
/* On the thread of reactor `to`: the next call, from the peers in turn; NULL: none, or the limit of
 * this turn is reached (then *ret_more). */
struct call *mailbox_take(struct post *p, unsigned to, bool *ret_more);
/* How many calls wait in the rings to `to`; any thread, a momentary view. */
size_t mailbox_depth(const struct post *p, unsigned to);

#endif
