/* answer.h - a decision as its client sees it: snake_case for /v1, camelCase for /api/v1. */
#ifndef ENGINE_ANSWER_H
#define ENGINE_ANSWER_H

#include "engine/decide.h"

/* Everything is in the event already, but `explain`: the JSON array of what was considered, or
 * absent. Overflow shows in the buf. */
void answer_put(struct buf *out, const struct decision *d, enum ask_form form, struct str explain);

#endif
