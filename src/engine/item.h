/* item.h - a review as people and agents see it (contract 2, "Review queue"). */
#ifndef ENGINE_ITEM_H
#define ENGINE_ITEM_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/fault.h"
#include "shards/review.h"

/* Appends the item's members without the braces, so that an answer can put its own before them. What
 * was masked when it was recorded is masked here too. ERR_CORRUPT: the kept event cannot be read. */
enum err item_put_members(struct buf *out, const struct review_facts *r, struct arena *arena);

#endif
