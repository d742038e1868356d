/* queue.h - what the files of the review queue's routes share. */
#ifndef ENGINE_QUEUE_H
#define ENGINE_QUEUE_H

#include "engine/operation.h"

/* The review that a path names, by its `rev_` id or by a trace id. True: *ret is its id. False: a
 * refusal is in *f; or (f->err is ERR_OK) the trace id is being looked up, and `then` follows, in
 * which queue_found() has the result. The operation's tenant and requester must be set. */
bool queue_named(struct operation *e, struct str name, struct id *ret,
                 void (*then)(struct operation *e), struct fault *f);
enum err queue_found(struct operation *e, struct id *ret, struct fault *f);

#endif
