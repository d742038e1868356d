/* claims.h - the verified claims of one person: their bounds, and their form as JSON.
 *
 *   [["groups","finance"],["groups","ops"]]
 *
 * Names and values are not empty, and have no control characters. Pure, any thread. */
#ifndef ACCESS_CLAIMS_H
#define ACCESS_CLAIMS_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/claim.h"
#include "base/fault.h"
#include "json/json.h"

/* ERR_OUT_OF_RANGE: more than LIMIT_CLAIMS, or LIMIT_CLAIM_BYTES of one name or value, or
 * LIMIT_CLAIMS_BYTES of all of them. ERR_BAD_VALUE: an empty one, not UTF-8, a control character. */
enum err claims_check(const struct claim *claims, size_t count, struct fault *f);

void claims_put(struct buf *out, const struct claim *claims, size_t count);
/* Views of the list. ERR_CORRUPT: it has another form, or more than LIMIT_CLAIMS; ERR_FULL: the arena
 * is full. Does not check the other bounds. */
enum err claims_read_list(const struct json *list, struct arena *arena, const struct claim **ret,
                          size_t *ret_count);
/* The same from the text; an absent one has none. */
enum err claims_read(struct str text, struct arena *arena, const struct claim **ret,
                     size_t *ret_count);

#endif
