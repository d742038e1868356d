/* queue.h - what the files of the review queue's routes share. */
#ifndef ENGINE_QUEUE_H
#define ENGINE_QUEUE_H

#include "engine/errand.h"

/* The review that a path names, by its `rev_` id or by a trace id. True: *ret is it. False: a
 * refusal is in *f; or (f->err is ERR_OK) the trace id is being looked up, and `then` follows, in
 * which queue_found() tells. The errand's tenant and asker are set. */
bool queue_named(struct errand *e, struct str name, struct id *ret, void (*then)(struct errand *e),
                 struct fault *f);
enum err queue_found(struct errand *e, struct id *ret, struct fault *f);

#endif
