/* mailbox.h - how calls change hands between reactors.
 *
 * One ring (single producer, single consumer) for each ordered pair of reactors, and before each
 * ring an outbox: a list on the sender's side that takes whatever the ring has no place for, so
 * that sending never waits and never fails. What bounds it all is admission at home: a reactor has
 * at most LIMIT_VISITS calls away (and LIMIT_WAITS waiting ones), and refuses the next with 503
 * before anything has changed. Calls go home → owner → home and nowhere else: no cycles.
 *
 *   begin of a beat   mailbox_take() until NULL (at most MAILBOX_TAKE from each peer)
 *   end of a beat     mailbox_flush(): outboxes into rings, one bell for each peer that got any */
#ifndef SHARDS_MAILBOX_H
#define SHARDS_MAILBOX_H

#include "shards/call.h"

enum { MAILBOX_PLACES = 1024, MAILBOX_TAKE = 16 };

struct post; /* all mailboxes of the engine */

struct post *post_create(unsigned reactors); /* NULL: out of memory */
void post_destroy(struct post *p);

/* On the thread of reactor `from`. `c` is the receiver's from now on. */
void mailbox_send(struct post *p, unsigned from, unsigned to, struct call *c);
/* `ring` is called for each peer that has something new; true: some of it is still in an outbox. */
bool mailbox_flush(struct post *p, unsigned from, void (*ring)(void *context, unsigned peer),
                   void *context);
/* On the thread of reactor `to`: the next call, from any peer in turn; NULL: none, or enough for
 * this beat (then *ret_more). */
struct call *mailbox_take(struct post *p, unsigned to, bool *ret_more);
/* How many wait in the rings to `to`; any thread, a moment's view. */
size_t mailbox_depth(const struct post *p, unsigned to);

#endif
