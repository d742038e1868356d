/* item.h - a review as people and agents see it (`Review` in schemas/openapi.engine.yaml). */
#ifndef ENGINE_ITEM_H
#define ENGINE_ITEM_H

#include "base/buf.h"
#include "base/fault.h"
#include "shards/review.h"

/* Appends the item's members without the braces, so that an answer can put its own before them.
 * What was masked when it was recorded is masked here too. ERR_CORRUPT: the kept event cannot be
 * read. Memory for reading it (a hundred times its size at worst) is taken and given back here, so
 * that a page's items cannot use up their request's. */
enum err item_put_members(struct buf *out, const struct review_facts *r);

#endif
