/* queue.h - what the files of the review queue's routes share. */
#ifndef ENGINE_QUEUE_H
#define ENGINE_QUEUE_H

#include "engine/runtime/operation.h"

/* A step that finds the review which a path names, by its `rev_` id or by a trace id. Behind it, *ret
 * is its id, or the process has refused. The operation's tenant and requester must be set. */
enum step_result queue_find(struct operation *e, struct str name, struct id *ret);
enum step_result queue_found(struct operation *e, struct id *ret);

#endif
