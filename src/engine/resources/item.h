/* item.h - a review in the form for clients (`Review` in schemas/openapi.engine.yaml). */
#ifndef ENGINE_ITEM_H
#define ENGINE_ITEM_H

#include "base/buf.h"
#include "base/fault.h"
#include "shards/review.h"

/* Appends the item's members without the braces, so that an answer can put its own before them.
 * Values that were masked in the record are masked here too. `with_voted`: `needs` has the people
 * who have voted; a requester that is no reviewer does not get them. ERR_CORRUPT: the kept event cannot be
 * read. The memory for reading it (a hundred times its size at worst) is taken and freed here, so
 * that a page's items cannot use up their request's. */
enum err item_put_members(struct buf *out, const struct review_facts *r, bool with_voted);

#endif
